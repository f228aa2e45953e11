"""`mnemo doctor`: named checks, each with its result and the command that fixes a problem."""

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from mnemo_client import process
from mnemo_client.cli.admin.models import DEFAULT_MODEL
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import doctor_lines
from mnemo_client.cli.format.units import number_text, percent, plural, size_text
from mnemo_client.client import Client
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, MnemoError
from mnemo_client.paths import data_folder, socket_path
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.protocol.status import ModelStatus, NotesStatus, StatusAnswer
from mnemo_client.version import VERSION

NAMESPACE = "doctor"
FREE_BYTES_WARN = 1_000_000_000
FREE_BYTES_FAIL = 100_000_000  # a few times the daemon's own reserve (SPEC 3.4)
WATCHES_MIN = 8192  # one for each folder of notes; the kernel's usual minimum
WATCHES_FILE = Path("/proc/sys/fs/inotify/max_user_watches")
OTHER_KIND_OF_FILE = "not a kind of note"  # begins the reason for which pictures and programs are skipped

TELEMETRY_FOLDER = Path("Microsoft", "DeveloperTools", ".onnxruntime")
TELEMETRY_FILES = ("deviceid", "onnxruntime.db")  # prefixes: journals and unfinished files begin with these names too

Outcome = Literal["ok", "warn", "fail"]


class DoctorCheck(NamedTuple):
    name: str
    outcome: Outcome
    found: str
    fix: str = ""


def run(context: CommandContext) -> int:
    """Run all checks; exit 1 if one failed. The daemon is not started for them."""
    checks = list(_all_checks(context))
    failed = any(check.outcome == "fail" for check in checks)
    if not context.print_json_if_asked({"ok": not failed, "checks": [check._asdict() for check in checks]}):
        context.print(*doctor_lines(checks, context.style))
    return EXIT_FAILED if failed else EXIT_DONE


def _all_checks(context: CommandContext) -> Iterator[DoctorCheck]:
    environ = context.environ
    yield data_check(data_folder(environ))
    yield disk_check(data_folder(environ))
    yield telemetry_check(telemetry_folders(environ, sys.platform))
    if sys.platform == "linux":
        yield watches_check(WATCHES_FILE)
    try:
        yield socket_check(socket_path(environ))
        with Client(socket_path(environ), NAMESPACE, entry_point="cli", agent="doctor") as client:
            status = client.status()
            yield DoctorCheck("daemon", "ok", f"runs, pid {status.pid}, {status.state}")
            yield from status_checks(status)
            yield round_trip(client)
    except MnemoError as error:
        yield DoctorCheck("daemon", "fail", error.message, error.hint or _log_hint(environ))


def _log_hint(environ: Mapping[str, str]) -> str:
    return f"its log: {process.log_file(environ)}"


def data_check(folder: Path) -> DoctorCheck:
    """Check that the data folder exists and only its owner can access it."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return DoctorCheck("data folder", "warn", f"{folder} does not exist yet", "mnemo up")
    except OSError as failed:
        return DoctorCheck("data folder", "fail", f"{folder}: {failed.strerror}", f"check the permissions of {folder}")
    if found.st_uid != os.getuid():
        return DoctorCheck(
            "data folder", "fail", f"{folder} belongs to another user", "set MNEMO_DATA_DIR to a folder of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        return DoctorCheck("data folder", "fail", f"{folder} can be read by other users", f"chmod 700 {folder}")
    if not os.access(folder, os.W_OK):
        return DoctorCheck("data folder", "fail", f"{folder} cannot be written to", f"chmod u+w {folder}")
    return DoctorCheck("data folder", "ok", str(folder))


def disk_check(folder: Path) -> DoctorCheck:
    place = next(place for place in (folder, *folder.parents) if place.exists())
    system = os.statvfs(place)
    free = system.f_bavail * system.f_frsize
    if free < FREE_BYTES_FAIL:
        return DoctorCheck("disk", "fail", f"{size_text(free)} free", "free some space; deleting memories still works")
    if free < FREE_BYTES_WARN:
        return DoctorCheck("disk", "warn", f"{size_text(free)} free", "free some space soon")
    return DoctorCheck("disk", "ok", f"{size_text(free)} free")


def telemetry_folders(environ: Mapping[str, str], platform: str) -> list[Path]:
    """Return the folders where onnxruntime 1.29 and newer stores a device id and unsent events, unless that is
    disabled."""
    home = Path(environ.get("HOME") or Path.home())
    if platform == "darwin":
        return [home / "Library" / "Application Support" / TELEMETRY_FOLDER]
    named = environ.get("XDG_CACHE_HOME", "")
    caches = [Path(named)] if named.startswith("/") else []
    return [cache / TELEMETRY_FOLDER for cache in dict.fromkeys([*caches, home / ".cache"])]


def telemetry_check(folders: list[Path]) -> DoctorCheck:
    """Delete the files that onnxruntime's telemetry created under earlier versions of mnemod, and report it.

    No program needs them: another program that uses onnxruntime creates new ones. Other files in the folders stay.
    """
    try:
        deleted = [folder for folder in folders if _delete_telemetry(folder)]
    except OSError as failed:
        fix = f"delete it yourself: {failed.filename}"
        return DoctorCheck(
            "telemetry", "warn", f"files of onnxruntime's telemetry cannot be deleted: {failed.strerror}", fix
        )
    if not deleted:
        return DoctorCheck("telemetry", "ok", "none: no library stores a device id or events")
    where = ", ".join(str(folder) for folder in deleted)
    found = f"deleted the device id and events of onnxruntime in {where}; mnemod has disabled its telemetry"
    return DoctorCheck("telemetry", "ok", f"{found}. If they reappear, another program uses onnxruntime")


def _delete_telemetry(folder: Path) -> bool:
    """Delete the files, and the folders that are empty then; return True if there were any."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    files = [file for file in folder.iterdir() if file.name.startswith(TELEMETRY_FILES) and not file.is_dir()]
    for file in files:
        file.unlink(missing_ok=True)
    if files:
        with contextlib.suppress(OSError):  # not empty
            for each in (folder, *folder.parents[: len(TELEMETRY_FOLDER.parts) - 1]):
                each.rmdir()
    return bool(files)


def watches_check(file: Path) -> DoctorCheck:
    """Check how many folders the kernel can watch for one user."""
    try:
        watches = int(file.read_text())
    except (OSError, ValueError):
        return DoctorCheck(
            "watching", "warn", "the kernel does not report how many folders it can watch", "see mnemo notes status"
        )
    if watches < WATCHES_MIN:
        fix = "sudo sysctl fs.inotify.max_user_watches=524288"
        return DoctorCheck("watching", "warn", f"the kernel watches at most {watches} folders; others are polled", fix)
    return DoctorCheck("watching", "ok", f"up to {number_text(watches)} folders")


def socket_check(path: Path) -> DoctorCheck:
    """Check that the socket exists and only its owner can use it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return DoctorCheck("socket", "warn", f"{path} does not exist", "mnemo up")
    if not stat.S_ISSOCK(mode):
        return DoctorCheck("socket", "fail", f"{path} is not a socket", f"move {path} elsewhere, then: mnemo up")
    if stat.S_IMODE(mode) & 0o077:
        return DoctorCheck("socket", "fail", f"{path} can be used by other users", "mnemo down; mnemo up")
    return DoctorCheck("socket", "ok", str(path))


def status_checks(status: StatusAnswer) -> Iterator[DoctorCheck]:
    """Yield the checks of the daemon's own status."""
    if status.version == VERSION:
        yield DoctorCheck("version", "ok", VERSION)
    else:
        yield DoctorCheck(
            "version", "warn", f"the daemon is {status.version}, this command {VERSION}", "mnemo down; mnemo up"
        )
    model = status.models.get("embedding")
    # Without a model everything is stored and found by words: the check `model` reports that, and it is no fault.
    lacks_model = model is None or model.state in ("absent", "failed")
    if status.state == "degraded" and not lacks_model:
        log = f"its log: {status.data_dir}/run/mnemod.log"
        yield DoctorCheck("store", "fail", "; ".join(status.reasons) or "degraded", log)
    else:
        yield DoctorCheck("store", "ok", f"{plural(status.memories, 'memory', 'memories')}, change {status.seq}")
    yield _model_check(model)
    for name, view in status.views.items():
        outcome: Outcome = "fail" if view.state == "stale" else "ok" if view.share >= 1 or lacks_model else "warn"
        found = f"{view.state.replace('_', ' ')}, {percent(view.share)}{': ' + view.reason if view.reason else ''}"
        yield DoctorCheck(name, outcome, found, "mnemo status --watch" if outcome == "warn" else "mnemo down; mnemo up")
    yield _threads_check(status)
    yield _notes_check(status.notes)


def _threads_check(status: StatusAnswer) -> DoctorCheck:
    """Check that every background thread of the daemon works."""
    log = f"its log: {status.data_dir}/run/mnemod.log"
    failures = {name: thread for name, thread in status.threads.items() if thread.last_failure}
    failing = [f"{name} fails: {each.last_failure}" for name, each in failures.items() if each.failing]
    if failing:
        return DoctorCheck("threads", "fail", "; ".join(failing), log)
    if failures:
        reports = [
            f"{name} was restarted {plural(each.restarts, 'time')} and works again; last: {each.last_failure}"
            for name, each in failures.items()
        ]
        return DoctorCheck("threads", "warn", "; ".join(reports), log)
    return DoctorCheck("threads", "ok", "all of them work")


def _model_check(model: ModelStatus | None) -> DoctorCheck:
    if model is None or model.state == "absent":
        return DoctorCheck(
            "model", "warn", "none is installed: answers are by words only", f"mnemo models pull {DEFAULT_MODEL}"
        )
    if model.state == "failed":
        return DoctorCheck(
            "model", "fail", model.reason or "it cannot be loaded", model.hint or f"mnemo models pull {model.name}"
        )
    return DoctorCheck("model", "ok", f"{model.name}, {model.state}")


def _notes_check(notes: NotesStatus) -> DoctorCheck:
    missing = [root.path for root in notes.roots if root.state == "missing"]
    polled = [root.path for root in notes.roots if root.state == "polling"]
    if missing:
        return DoctorCheck(
            "notes", "warn", f"missing: {', '.join(missing)}", f"mount it, or: mnemo notes rm {missing[0]}"
        )
    if polled:
        return DoctorCheck(
            "notes", "warn", f"polled, not watched: {', '.join(polled)}", "mnemo notes status shows the reason"
        )
    others = sum(count for why, count in notes.skipped_by_reason.items() if why.startswith(OTHER_KIND_OF_FILE))
    if unread := notes.skipped_total - others:
        return DoctorCheck("notes", "warn", f"{plural(unread, 'file')} could not be read", "mnemo notes status")
    skipped = f", {plural(others, 'file')} of other kinds skipped" if others else ""
    return DoctorCheck("notes", "ok", plural(len(notes.roots), "folder") + skipped)


def round_trip(client: Client) -> DoctorCheck:
    """Store, find and delete a new text. It is the same memory, under one key, each time."""
    word = f"roundtrip{secrets.token_hex(4)}"
    try:
        kept = client.remember(f"The doctor looks for {word}.", key="doctor round trip")
        found = client.recall(RecallRequest(query=word, top_k=1, ranker="words", dry=True))
        client.delete(kept.memory.id)
    except MnemoError as error:
        return DoctorCheck("round trip", "fail", error.message, error.hint or "mnemo status")
    if [memory.id for memory in found.memories] != [kept.memory.id]:
        return DoctorCheck(
            "round trip", "fail", "the memory that was just stored was not found", "mnemo down; mnemo up"
        )
    where = f"in namespace {NAMESPACE}, and moved to its trash"
    return DoctorCheck("round trip", "ok", f"remembered, found in {found.took_ms:.1f} ms, {where}")
