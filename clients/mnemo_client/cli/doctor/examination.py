"""The table of all checks of `mnemo doctor`, in the order in which they run; runs them on what this user and the daemon
have, and repairs what is safe."""

import contextlib
import io
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import msgspec

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor import agent_checks, daemon_checks, machine_checks, place_checks
from mnemo_client.cli.doctor.daemon_checks import NAMESPACE
from mnemo_client.cli.doctor.doctor_checks import CheckRow, DoctorCheck, Examination
from mnemo_client.cli.terminal import Terminal
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.status import ConfigAnswer

CHECKS = (
    CheckRow("python", machine_checks.check_python),
    CheckRow("extras", machine_checks.check_extras),
    CheckRow("configuration", place_checks.check_config_file, repair=place_checks.repair_config_file),
    CheckRow("settings", daemon_checks.check_settings),
    CheckRow("folders above", place_checks.check_parents),
    CheckRow("data folder", place_checks.check_data, repair=place_checks.repair_data),
    CheckRow("models folder", place_checks.check_models_folder, repair=place_checks.repair_models_folder),
    CheckRow("model files", place_checks.check_model_files),
    CheckRow("log", place_checks.check_log, repair=place_checks.repair_log),
    CheckRow("disk", machine_checks.check_disk),
    CheckRow("inodes", machine_checks.check_inodes),
    CheckRow("file system", machine_checks.check_file_system),
    CheckRow("clock", machine_checks.check_clock),
    CheckRow("watching", machine_checks.check_watching, platform="linux"),
    CheckRow("open files", machine_checks.check_open_files),
    CheckRow("leftovers", place_checks.check_leftovers, repair=place_checks.repair_leftovers),
    CheckRow("service", machine_checks.check_service),
    CheckRow("completion", machine_checks.check_completion),
    CheckRow("agents", agent_checks.check_agents),
    CheckRow("socket path", place_checks.check_socket_path),
    CheckRow("socket", place_checks.check_socket, repair=place_checks.repair_socket),
    CheckRow("lock", daemon_checks.check_holder),
    CheckRow("daemon", daemon_checks.check_daemon),
    CheckRow("version", daemon_checks.check_version, needs_daemon=True, repair=daemon_checks.restart_daemon),
    CheckRow("hooks", agent_checks.check_hooks, repair=agent_checks.deliver_hooks),
    CheckRow("proxy", agent_checks.check_proxy),
    CheckRow("page", agent_checks.check_page),
    CheckRow("network", daemon_checks.check_network, needs_daemon=True),
    CheckRow("store", daemon_checks.check_store, needs_daemon=True),
    CheckRow("integrity", daemon_checks.check_integrity, repair=daemon_checks.repair_store),
    CheckRow("model", daemon_checks.check_model, needs_daemon=True),
    CheckRow("language model", daemon_checks.check_language_model, needs_daemon=True),
    CheckRow("views", daemon_checks.check_views, needs_daemon=True, repair=daemon_checks.repair_views),
    CheckRow("threads", daemon_checks.check_threads, needs_daemon=True),
    CheckRow("jobs", daemon_checks.check_jobs, needs_daemon=True),
    CheckRow("queue", daemon_checks.check_queue, needs_daemon=True),
    CheckRow("notes", daemon_checks.check_notes, needs_daemon=True, repair=daemon_checks.rescan_notes),
    CheckRow("exposure", daemon_checks.check_exposure, needs_daemon=True),
    CheckRow("trash", daemon_checks.check_trash, needs_daemon=True),
    CheckRow("sync", daemon_checks.check_sync, needs_daemon=True),
    CheckRow("backups", daemon_checks.check_backups, needs_daemon=True),
    CheckRow("round trip", daemon_checks.check_round_trip, needs_daemon=True),
)


WRITING = frozenset({"round trip"})  # checks that write: one memory, which they delete
SLOW = frozenset({"integrity", "exposure"})  # checks that read every memory


def examine(environ: Mapping[str, str], here: Path, without: Collection[str] = ()) -> list[DoctorCheck]:
    """Run the checks of `mnemo doctor` for a program that shows them itself: nothing is printed or repaired.

    here: the folder that the caller works in. without: the names of checks to leave out, as those of WRITING and SLOW.
    No daemon is started; without one, the checks that need it are left out.
    """
    silent = Terminal(io.StringIO(), io.StringIO(), environ)
    context = CommandContext(SimpleNamespace(json=True), silent, environ, here, io.StringIO())
    with examination(context) as examined:
        return [check for row in CHECKS if row.name not in without for check in run_row(row, examined)]


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
        try:  # as the next start would read them, in a process of its own
            listed = examined.context.run_offline("config")
        except MnemoError as error:
            examined.settings_faults = [error.message]
        else:
            examined.settings, examined.settings_faults = msgspec.convert(listed, ConfigAnswer), listed["faults"]
        if examined.settings_faults:
            examined.start_fix = "correct the settings, as said above, then: mnemo up"
        yield examined


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
        return [check._replace(name=check.name or row.name) for check in row.run(examined)]
    except (MnemoError, OSError) as failed:
        hint = failed.hint if isinstance(failed, MnemoError) else ""
        return [DoctorCheck(row.name, "fail", f"it could not be checked: {failed}", hint or "mnemo status")]
