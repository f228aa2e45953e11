"""The command `mnemo ui`. SPEC 18"""

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mnemo_client import loopback, process
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck
from mnemo_client.cli.doctor.examination import CHECKS, examination, run_row
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.page.page_server import PageServer
from mnemo_client.paths import run_folder, socket_path

if TYPE_CHECKING:
    from mnemo_client.cli.context import CommandContext

IDLE_SECONDS = 30 * 60.0  # without a page; an open one holds a stream of events
ASK_SECONDS = 5.0
ON_REQUEST = ("integrity", "round trip")  # the checks that read the whole store, or write


def ui(context: "CommandContext") -> None:
    """Serve the page until ^C or until no page was open for half an hour; or open the one that is served already."""
    options = context.options
    context.client()  # starts the daemon
    place = process.ServerPlace(run_folder(context.environ), "page-read-only" if options.read_only else "page")
    if record := place.running():
        if options.port not in (0, int(record.address.rpartition(":")[2])):
            raise UsageError(
                f"the page is served at {record.address} already",
                f"end it first: kill {record.pid}; or leave out --port",
            )
        _show(context, _address_from(record))
        return
    with place.taken() as is_free:
        if not is_free:
            raise MnemoError("another `mnemo ui` is just starting or ending", "run it again")
        with loopback.bind(options.port) as bound:
            server = PageServer(
                socket_path(context.environ), bound.getsockname()[1], context.environ,
                lambda wants_all: _examined(context, wants_all=wants_all), is_read_only=options.read_only,
            )  # fmt: skip

            def started() -> None:
                place.publish(process.ServerRecord(loopback.address_of(bound), server.secret, os.getpid()))
                _show(context, server.new_address())
                if context.is_for_terminal:
                    context.message("^C ends it" if options.keep else "^C ends it, as does half an hour without a page")

            try:
                asyncio.run(
                    loopback.serve(
                        server.app, bound, idle_seconds=0.0 if options.keep else IDLE_SECONDS, started=started
                    )
                )
            finally:
                place.withdraw()


def _examined(context: "CommandContext", *, wants_all: bool) -> Sequence[DoctorCheck]:
    with examination(context) as examined:
        rows = [row for row in CHECKS if wants_all or row.name not in ON_REQUEST]
        return [check for row in rows for check in run_row(row, examined)]


def _address_from(record: process.ServerRecord) -> str:
    """Return a new address of the server that runs already. Raises MnemoError."""
    request = urllib.request.Request(
        f"{record.address}/page/address", method="POST", headers={"Authorization": f"Bearer {record.secret}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ASK_SECONDS) as answer:
            return str(json.loads(answer.read())["address"])
    except (OSError, ValueError, KeyError) as failed:
        raise MnemoError(
            f"the page at {record.address} does not answer: {failed}", f"end it, and run this again: kill {record.pid}"
        ) from failed


def _show(context: "CommandContext", address: str) -> None:
    """Print the address, and open it in the user's browser unless that is not wanted or there is no terminal."""
    if context.wants_json:
        context.print(json.dumps({"address": address}))
    else:
        context.print(address)
    context.terminal.flush()
    if not context.options.no_open and not context.wants_json:
        import webbrowser

        webbrowser.open(address)
