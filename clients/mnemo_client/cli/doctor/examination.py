"""Runs the checks of the table on what this user and the daemon have, and repairs what is safe."""

import contextlib
import sys
from collections.abc import Iterator

import msgspec

from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor.daemon_checks import NAMESPACE
from mnemo_client.cli.doctor.doctor_checks import CheckRow, DoctorCheck, Examination
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.status import ConfigAnswer


@contextlib.contextmanager
def examination(context: CommandContext) -> Iterator[Examination]:
    """Yield what the checks look at, with a connection to the daemon if one answers."""
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(Client(socket_path(context.environ), NAMESPACE, entry_point="cli"))
            status = client.status()
        except MnemoError as error:
            examined = Examination(context, error=error)
        else:
            examined = Examination(context, client)
            examined.status = status
            with contextlib.suppress(MnemoError):
                examined.jobs = client.jobs()
        _read_settings(examined)
        yield examined


def _read_settings(examined: Examination) -> None:
    """Read the settings as the next start would, in a process of its own."""
    try:
        listed = offline_process.run_offline(examined.context, "config")
    except MnemoError as error:
        examined.settings_faults = [error.message]
    else:
        examined.settings, examined.settings_faults = msgspec.convert(listed, ConfigAnswer), listed["faults"]


def run_row(row: CheckRow, examined: Examination, *, fixes: bool = False) -> list[DoctorCheck]:
    """Return the results of a check; with `fixes` those after a repair, if there was something to repair."""
    if row.platform not in ("", sys.platform) or (row.needs_daemon and examined.client is None):
        return []
    checks = _results(row, examined)
    if not fixes or row.repair is None or all(check.outcome == "ok" for check in checks):
        return checks
    try:
        fixed = row.repair(examined)
        if fixed and examined.client is not None:
            examined.status = examined.client.status()
    except (MnemoError, OSError) as failed:
        return [check._replace(fix=f"{check.fix} (this failed: {failed})") for check in checks]
    return [check._replace(fixed=fixed) for check in _results(row, examined)] if fixed else checks


def _results(row: CheckRow, examined: Examination) -> list[DoctorCheck]:
    """Run a check; one that cannot be carried out is a failure of its own."""
    try:
        return list(row.run(examined))
    except (MnemoError, OSError) as failed:
        hint = failed.hint if isinstance(failed, MnemoError) else ""
        return [DoctorCheck(row.name, "fail", f"it could not be checked: {failed}", hint or "mnemo status")]
