"""Checks of a running daemon: version, store, models, indexes, jobs, notes, copies."""

import contextlib
import secrets
import time
from pathlib import Path

import msgspec

from mnemo_client import process
from mnemo_client.cli.admin.models import DEFAULT_MODEL
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination, Outcome, fail, ok, warn
from mnemo_client.cli.format.units import number_text, percent, plural, size_text
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.maintenance import CheckAnswer
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.protocol.status import StatusAnswer
from mnemo_client.version import VERSION

NAMESPACE = "doctor"
_DENIED = "Permission denied"  # the system's words, in the reason why a folder or file of notes is not read
SKIPPED_ON_PURPOSE = ("not a kind of note", "no passage")  # begin the reasons that are no fault
CHECKED_MEMORIES_MAX = 20_000  # a check of more takes seconds, and `mnemo check` does it
CHECKED_BYTES_MAX = 100_000_000  # the same of a database that no daemon has open
WAITING_WRITES_WARN = 1_000
BACKUP_DAYS_WARN = 30
EXPOSED_SHOWN_MAX = 10
BACKUP_MEMORIES_MIN = 100  # a store with fewer is still being tried
TRASH_BYTES_WARN = 500_000_000
DAY_SECONDS = 86_400


def check_daemon(examined: Examination) -> list[DoctorCheck]:
    """Report if a daemon answers; it is not started for that."""
    if (status := examined.status) is not None:
        return ok(f"runs, pid {status.pid}, {status.state}")
    error = examined.error or MnemoError("no daemon answers", "start it with: mnemo up")
    hint = examined.start_fix if examined.settings_faults else error.hint
    return fail(error.message, hint or f"its log: {process.log_file(examined.environ)}")


def check_settings(examined: Examination) -> list[DoctorCheck]:
    """Check that every setting is known and valid, also without a daemon."""
    if examined.settings_faults:
        fix = "correct it there, then: " + ("mnemo up" if examined.status is None else "mnemo down; mnemo up")
        return [check for fault in examined.settings_faults for check in fail(fault, fix)]
    values = examined.settings.values if examined.settings is not None else []
    changed = sum(value.origin != "default" for value in values)
    return ok(f"all valid, {number_text(changed)} not at the default")


def check_holder(examined: Examination) -> list[DoctorCheck]:
    """Check that no process holds the data folder while none answers on the socket."""
    if examined.status is not None or not examined.data.is_dir():
        return []
    holder = folder_holder(examined.data)
    if holder is None:
        return ok("no process holds the data folder")
    found = f"{holder} holds the data folder, and no daemon answers on the socket"
    same = "give this shell its XDG_RUNTIME_DIR or MNEMO_SOCKET if it has others"
    fix = f"wait until it has started, or {same}; only if it hangs: kill {holder.split()[-1]}"
    return fail(found, fix)


def folder_holder(folder: Path) -> str | None:
    """Return the process that has locked a data folder; None if it is free. The lock is not kept."""
    import fcntl
    import os

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            return f"process {int((folder / 'lock').read_text(encoding='ascii'))}"
        return "another process"
    except OSError:  # a file system without locks of folders
        return None
    finally:
        os.close(descriptor)
    return None


def check_version(examined: Examination) -> list[DoctorCheck]:
    """Check that command and daemon are of one version."""
    status = examined.require_status()
    if status.version == VERSION:
        return ok(VERSION)
    return warn(f"the daemon is {status.version}, this command {VERSION}", "mnemo down; mnemo up")


def restart_daemon(examined: Examination) -> str:
    """Stop the daemon and start it again, which also builds a stale index again."""
    process.stop(examined.require_client())
    process.ensure_running(examined.environ, examined.context.message, is_asked_for=True)
    return "restarted the daemon"


def check_store(examined: Examination) -> list[DoctorCheck]:
    """Check that the store can be read and written."""
    status = examined.require_status()
    # Without a model everything is stored and found by words: the check `model` reports that, and it is no fault.
    if status.state == "degraded" and not _lacks_model(status):
        log = f"its log: {status.data_dir}/run/mnemod.log" if examined.data.exists() else "see: data folder"
        return fail("; ".join(status.reasons) or "degraded", log)
    return ok(f"{plural(status.memories, 'memory', 'memories')}, change {status.seq}")


def check_integrity(examined: Examination) -> list[DoctorCheck]:
    """Check every record, and that journal, database and indexes agree; a store that no daemon has open by the program
    that needs none."""
    if (status := examined.status) is None or not examined.data.exists():
        database = examined.data / "db" / "data.mdb"
        if not database.exists() or examined.settings_faults or folder_holder(examined.data) is not None:
            return []
        if database.stat().st_size > CHECKED_BYTES_MAX:
            return ok(f"not checked: {size_text(database.stat().st_size)}; see: mnemo check")
        answer = msgspec.convert(examined.context.run_offline("check"), CheckAnswer)
    elif status.memories > CHECKED_MEMORIES_MAX:
        return ok(f"not checked: {number_text(status.memories)} memories; see: mnemo check")
    else:
        answer = examined.require_client().check()
    if not answer.ok:
        return fail(f"{plural(sum(answer.totals.values()), 'fault')}: {', '.join(answer.totals)}", "mnemo repair")
    return ok(f"journal, database and indexes agree ({answer.seconds:.1f} s)")


def repair_store(examined: Examination) -> str:
    """Repair what the check found; nothing is deleted."""
    if examined.client is None:  # what it takes, such as the rebuilding of a database, is for a person to decide
        return ""
    answer = examined.client.repair()
    return "; ".join(f"{step.what} ({step.how_many})" for step in answer.steps)


def check_model(examined: Examination) -> list[DoctorCheck]:
    """Check that an embedding model is installed and can be loaded, and the reader of answers next to it."""
    model = examined.require_status().models.get("embedding")
    if model is None or model.state == "absent":
        return warn("none is installed: answers are by words only", f"mnemo models pull {DEFAULT_MODEL}")
    if model.state == "failed":
        return fail(model.reason or "it cannot be loaded", model.hint or f"mnemo models pull {model.name}")
    found, reader = ok(f"{model.name}, {model.state}"), examined.require_status().models.get("reader")
    if reader is not None and reader.state != "ready":
        found += warn(f"the reader of answers: {reader.reason}", reader.hint or "")
    return found


def check_language_model(examined: Examination) -> list[DoctorCheck]:
    """Check the language model, if there is one: without it every task has a stand-in."""
    model = examined.require_status().models.get("llm")
    if model is None or model.state == "absent":
        return ok("none: answers quote the memories")
    if model.state == "failed":
        return fail(model.reason or "it cannot be loaded", model.hint or "mnemo models list")
    return ok(f"{model.name}, {model.state}")


def check_views(examined: Examination) -> list[DoctorCheck]:
    """Check that every index is complete."""
    status, checks = examined.require_status(), []
    for name, view in status.views.items():
        is_complete = view.share >= 1 or _lacks_model(status)
        outcome: Outcome = "fail" if view.state == "stale" else "ok" if is_complete else "warn"
        found = f"{view.state.replace('_', ' ')}, {percent(view.share)}{': ' + view.reason if view.reason else ''}"
        fix = "see what it waits for: mnemo jobs" if outcome == "warn" else "mnemo down; mnemo up"
        checks.append(DoctorCheck(name, outcome, found, fix))
    return checks


def repair_views(examined: Examination) -> str:
    """Have missing vectors computed, and stale indexes built again."""
    status = examined.require_status()
    done = []
    if any(view.state == "stale" for view in status.views.values()):
        done.append(restart_daemon(examined))
    vectors = status.views.get("vectors")
    if vectors is not None and vectors.share < 1 and not _lacks_model(status):
        queued = examined.require_client().reindex().queued
        done.append(f"queued {plural(queued, 'missing vector')}" if queued else "")
    return "; ".join(filter(None, done))


def _lacks_model(status: StatusAnswer) -> bool:
    model = status.models.get("embedding")
    return model is None or model.state in ("absent", "failed")


def check_threads(examined: Examination) -> list[DoctorCheck]:
    """Check that every background thread of the daemon works."""
    status = examined.require_status()
    log = f"its log: {status.data_dir}/run/mnemod.log"
    failures = {name: thread for name, thread in status.threads.items() if thread.last_failure}
    failing = [f"{name} fails: {each.last_failure}" for name, each in failures.items() if each.failing]
    if failing:
        return fail("; ".join(failing), log)
    if failures:
        reports = [
            f"{name} was restarted {plural(each.restarts, 'time')} and works again; last: {each.last_failure}"
            for name, each in failures.items()
        ]
        return warn("; ".join(reports), log)
    return ok("all of them work")


def check_jobs(examined: Examination) -> list[DoctorCheck]:
    """Check that no background job fails."""
    jobs = examined.jobs.jobs if examined.jobs is not None else []
    failing = [f"{job.name}: {job.last_failure or job.reason}" for job in jobs if job.state == "failing"]
    if failing:
        return fail("; ".join(failing), "mnemo jobs; it is tried again by itself")
    return ok(f"{len(jobs)}, none fails")


def check_queue(examined: Examination) -> list[DoctorCheck]:
    """Check that writes do not pile up."""
    waiting = examined.require_status().queue.get("writes", 0)
    if waiting > WAITING_WRITES_WARN:
        return warn(f"{number_text(waiting)} writes wait", "mnemo status --watch")
    return ok(f"{plural(waiting, 'write')} waiting")


def check_notes(examined: Examination) -> list[DoctorCheck]:
    """Check that every watched folder of notes is there, watched and read."""
    notes = examined.require_status().notes
    why = {root.path: root.reason or "" for root in notes.roots} | {each.path: each.reason for each in notes.skipped}
    if denied := next((path for path, reason in why.items() if _DENIED in reason), ""):
        return warn(f"{denied}: {_DENIED}", f"chmod u+rX {denied}; if it is not yours: sudo chown -R $USER {denied}")
    missing = [root.path for root in notes.roots if root.state == "missing"]
    polled = [root.path for root in notes.roots if root.state == "polling"]
    if missing:
        return warn(f"missing: {', '.join(missing)}", f"mount it, or: mnemo notes rm {missing[0]}")
    if polled:
        return warn(f"polled, not watched: {', '.join(polled)}", "mnemo notes status shows the reason")
    others = sum(count for why, count in notes.skipped_by_reason.items() if why.startswith(SKIPPED_ON_PURPOSE))
    if unread := notes.skipped_total - others:
        return warn(f"{plural(unread, 'file')} could not be read", "mnemo notes status")
    skipped = f", {plural(others, 'file')} without text or of other kinds skipped" if others else ""
    return ok(plural(len(notes.roots), "folder") + skipped)


def rescan_notes(examined: Examination) -> str:
    """Have the folders scanned again: files that could not be read may be readable now."""
    examined.require_client().rescan()
    return "scanned the folders of notes again"


def check_trash(examined: Examination) -> list[DoctorCheck]:
    """Report how much the trash holds, and for how long."""
    trash = examined.require_status().trash
    count, size = trash.get("count", 0), trash.get("bytes", 0)
    days = examined.setting("trash.keep_days")
    found = f"{plural(count, 'memory', 'memories')}, {size_text(size)}; kept {f'{days} days' if days else 'for ever'}"
    if size > TRASH_BYTES_WARN:
        return warn(found, "mnemo trash empty, or set trash.keep_days")
    return ok(found)


def check_exposure(examined: Examination) -> list[DoctorCheck]:
    """Report which memories and notes with a secret agents can see: where they are, never what they hold."""
    client = examined.require_client()
    answer = client.exposure()
    if not answer.total:
        return ok(f"no secret was found in the {plural(answer.read, 'memory', 'memories')} that agents see")
    places = []
    for exposed in answer.memories[:EXPOSED_SHOWN_MAX]:
        note = client.get(exposed.id).note
        where = f"{note.path}:{note.lines[0]}" if note is not None else f"memory {exposed.id}"
        places.append(f"{where} ({', '.join(exposed.kinds).replace('_', ' ')})")
    more = f", and {number_text(answer.total - len(places))} more" if answer.total > len(places) else ""
    found = f"agents see {plural(answer.total, 'memory', 'memories')} that may hold a secret: {'; '.join(places)}{more}"
    fix = "hide it from agents with the tag sensitive: mnemo edit ID --tag sensitive; in a note: tags: sensitive"
    return warn(found, fix)


def check_backups(examined: Examination) -> list[DoctorCheck]:
    """Report the age of the newest backup in the data folder; backups elsewhere are not known."""
    made = [file.stat().st_mtime for file in (examined.data / "backups").glob("*/backup.json")]
    age = int((time.time() - max(made)) / DAY_SECONDS) if made else None
    memories = examined.require_status().memories
    if age is not None and age <= BACKUP_DAYS_WARN:
        return ok(f"{len(made)}, the newest {plural(age, 'day')} old")
    found = "none in the data folder" if age is None else f"the newest is {plural(age, 'day')} old"
    return (warn if memories >= BACKUP_MEMORIES_MIN else ok)(found, "mnemo backup FOLDER, on another disk")


def check_sync(examined: Examination) -> list[DoctorCheck]:
    """Report what keeps the devices that share the memory from exchanging their changes."""
    answer = examined.require_client().sync_status()
    if not answer.shared:
        return ok("not shared") if answer.problem is None else warn(answer.problem, "")
    others = [each for each in answer.devices if not each.is_this and not each.removed]
    problems = [each.problem for each in others if each.problem]
    if found := answer.problem or next(iter(problems), None):
        return warn(found, "mnemo sync status")
    return ok(f"shared with {plural(len(others), 'device')}")


def check_network(examined: Examination) -> list[DoctorCheck]:
    """Report if the kernel keeps the daemon from the network."""
    network = examined.require_status().network
    if network is None:
        return []
    if network.blocked:
        return ok("the kernel refuses the daemon every socket but Unix sockets")
    found = f"the kernel does not keep the daemon from the network: {network.reason or 'for no known reason'}"
    return warn(found, "mnemo config daemon.network_block")


def check_round_trip(examined: Examination) -> list[DoctorCheck]:
    """Store, find and delete a new text: the same memory, under one key, each time. It is the doctor's own, so that
    `mnemo undo` passes over it; the other requests are the person's, since an agent may not ask for a repair."""
    word = f"roundtrip{secrets.token_hex(4)}"
    try:
        with Client(socket_path(examined.environ), NAMESPACE, entry_point="cli", agent=NAMESPACE) as client:
            kept = client.remember(f"The doctor looks for {word}.", key="doctor round trip")
            found = client.recall(RecallRequest(query=word, top_k=1, ranker="words", dry=True))
            client.delete(kept.memory.id)
    except MnemoError as error:
        return fail(error.message, error.hint or "mnemo status")
    if [memory.id for memory in found.memories] != [kept.memory.id]:
        return fail("the memory that was just stored was not found", "mnemo down; mnemo up")
    where = f"in namespace {NAMESPACE}, and moved to its trash"
    return ok(f"remembered, found in {found.took_ms:.1f} ms, {where}")
