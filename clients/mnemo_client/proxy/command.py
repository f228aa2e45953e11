"""`mnemo proxy`: serves, shows the counters of the one that runs, and has it write what it holds. SPEC 19"""

import http.client
import json
import os
import secrets
import sys
import threading
from collections import Counter
from typing import Any

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import number_text, plural
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import MnemoError, NotFoundError, UsageError
from mnemo_client.model_server import read_upstream
from mnemo_client.paths import run_folder, socket_path
from mnemo_client.process import ServerPlace, ServerRecord
from mnemo_client.proxy.recorder import deliver, inbox_of, proxy_folder

KIND = "proxy"
PORT = 11435  # unless another one is asked for: the one after Ollama's
CONTEXT_TOKENS = 500  # of a context, with --inject
SWITCH_SECONDS = 0.0005  # after which the thread that reads gives way to the one that passes bytes on
ANSWER_SECONDS_MAX = 90.0  # of a flush
# What the status says of a reason whose name does not tell enough
REASONS = {
    "first_request": "first of a conversation: history",
    "encoding": "compressed otherwise than by gzip or deflate: not read",
    "foreign": "of another user",
    "short": "too short",
    "interrupted": "broken off",
    "no_daemon": "daemon did not answer",
    "nothing": "nothing found",
}


def serve(context: CommandContext) -> None:
    """Serve until SIGINT or SIGTERM. Raises UsageError if a proxy runs already."""
    from mnemo_client import loopback
    from mnemo_client.proxy.server import ProxySettings, run_proxy

    options = context.options
    upstream = read_upstream(options.upstream, options.allow_remote)
    if options.budget is not None and (options.budget < 1 or not options.inject):
        raise UsageError("--budget is the number of tokens of a context, 1 or more", "use it with --inject")
    place = ServerPlace(run_folder(context.environ), KIND)
    with place.taken() as is_free:
        if not is_free:
            raise UsageError("a proxy of this user runs already", "see it: mnemo proxy status")
        bound = loopback.bind(PORT if options.port is None else options.port)
        address = loopback.address_of(bound)
        settings = ProxySettings(
            upstream, context.namespace.name, proxy_folder(context.environ), socket_path(context.environ),
            secrets.token_hex(32), (options.budget or CONTEXT_TOKENS) if options.inject else 0,
        )  # fmt: skip

        def started() -> None:
            place.publish(ServerRecord(address, settings.token, os.getpid(), upstream.remote))
            if not context.print_json_if_asked({"address": address, "upstream": upstream.address}):
                context.print(address)
            context.terminal.flush()
            context.message(f"passes to {upstream.address}; end it with ^C")
            if upstream.remote:
                context.message(f"everything that programs send, and with --inject memories, goes to {upstream.remote}")

        sys.setswitchinterval(SWITCH_SECONDS)
        threading.Thread(target=_start_daemon, args=(context,), daemon=True).start()
        try:
            run_proxy(settings, bound, started)
        finally:
            place.withdraw()


def _start_daemon(context: CommandContext) -> None:
    """Start the daemon beside the proxy, which does not need it: without one, what is said waits."""
    try:
        process.ensure_running(context.environ, lambda _: None)
    except MnemoError as error:
        context.message(f"what is said waits for the daemon: {sanitize(error.message)}")


def status(context: CommandContext) -> None:
    """Show the counters of the proxy that runs; exit 3 if none does."""
    record = _running(context)
    shown = {**_ask(record, "GET", "status"), "address": record.address, "pid": record.pid}
    if not context.print_json_if_asked(shown):
        context.print(*_status_lines(shown))


def flush(context: CommandContext) -> None:
    """Have everything written that the proxy holds; without a proxy that runs, deliver what one left."""
    inbox = inbox_of(context.environ)
    record = ServerPlace(run_folder(context.environ), KIND).running()
    if record is not None:
        process.ensure_running(context.environ, context.message)
        left = _ask(record, "POST", "flush")["windows_waiting"]
    elif inbox.entries():
        process.ensure_running(context.environ, context.message)
        deliver(socket_path(context.environ), inbox, Counter())
        left = len(inbox.entries())
    else:
        _running(context)
        left = 0
    if not context.print_json_if_asked({"windows_waiting": left}):
        context.print("everything is written" if not left else f"{plural(left, 'window')} could not be written")
    if left:
        raise MnemoError("the daemon does not take what was said", "see its state: mnemo status")


def _running(context: CommandContext) -> ServerRecord:
    record = ServerPlace(run_folder(context.environ), KIND).running()
    if record is None:
        raise NotFoundError("no proxy runs", "start one: mnemo proxy --upstream http://127.0.0.1:11434")
    return record


def _ask(record: ServerRecord, method: str, name: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(record.address.partition("://")[2], timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request(method, f"/.mnemo/{name}", headers={"Authorization": f"Bearer {record.secret}"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as failed:
        raise MnemoError(f"the proxy at {record.address} does not answer: {failed}", "start it again") from failed
    finally:
        connection.close()
    if response.status != 200 or not isinstance(answer, dict):
        raise MnemoError(f"the proxy at {record.address} answered {response.status}", "start it again")
    return answer


def _status_lines(shown: dict[str, Any]) -> list[str]:
    lines = [
        f"{shown['address']} passes to {sanitize(shown['upstream'])}",
        f"requests passed: {number_text(shown['passed'])}",
        f"turns captured: {number_text(shown['captured'])}{_reasons(shown['outcomes'])}",
        f"left out: {number_text(sum(shown['skipped'].values()))}{_reasons(shown['skipped'])}",
    ]
    if shown["injects"]:
        lines.append(f"contexts put in: {number_text(shown['injected'])}{_reasons(shown['not_injected'], 'without: ')}")
    waiting = plural(shown["windows_waiting"], "window")
    lines.append(f"waiting: {plural(shown['turns_in_windows'], 'turn')}, and {waiting} for the daemon")
    if shown["windows_refused"]:
        lines.append(f"refused by the daemon: {plural(shown['windows_refused'], 'window')}")
    if shown["problem"]:
        lines.append(f"the daemon does not take them: {sanitize(shown['problem'])}")
    return lines


def _reasons(counts: dict[str, int], before: str = "") -> str:
    named = ", ".join(
        f"{number_text(count)} {REASONS.get(name, name.replace('_', ' '))}" for name, count in counts.items()
    )
    return f" ({before}{named})" if named else ""
