"""Check and repair of a store that no daemon has open: `python -m mnemo_daemon.offline check|repair`.
store/docs/format.md "Check".

A check holds the lock and changes nothing: the database is verified before it is opened, and opened to be read. A
repair opens the store as a daemon would, which by itself recovers what a crash left, and then takes the same steps.
"""

import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec

from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES
from mnemo_daemon.indexing.index import require_known_store
from mnemo_daemon.indexing.index_checks import expected_indexes, read_file, vector_faults
from mnemo_daemon.indexing.views import attributes_of, load_indexes
from mnemo_daemon.maintenance.store_check import (
    SCRATCH,
    CheckReport,
    StoreCheck,
    as_violations,
    find_differences,
    touched_since,
)
from mnemo_daemon.maintenance.store_repair import RepairReport, StoreRepair
from mnemo_store.database.environment import DATABASE_FILE, Database
from mnemo_store.database.integrity import has_all_pages, is_intact
from mnemo_store.database.table_access import TABLES_MAX, open_tables
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch, NewerFormat, StoreError
from mnemo_store.indexes import index_file
from mnemo_store.indexes.vectors import VIEW_FILE, VIEW_KIND, VectorIndex
from mnemo_store.journal.journal import newest_header
from mnemo_store.maintenance import repair
from mnemo_store.maintenance.check import InvariantViolation, Remedy, TableSource, check
from mnemo_store.maintenance.journal_diff import JournalChangeError, JournalOwner, check_journal, unreadable_stretches
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import FORMAT
from mnemo_store.recovery import database_files
from mnemo_store.recovery.store_folder import FolderLock
from mnemo_store.store import Store
from mnemo_store.tables import TABLE_NAMES

VIEW_FILES: dict[Remedy, tuple[str, ...]] = {
    "views": tuple(f"{kind.name}.view*" for kind in COMMIT_INDEXES), "vectors": ("vectors*", "centroids.view")
}  # fmt: skip

log = logging.getLogger("mnemo.repair")


class NoStore(StoreError):
    """There is nothing to check."""

    code = "no_store"
    hint = "set MNEMO_DATA_DIR to the folder that the memories are in"


class UnreadableStore(StoreError):
    """Neither the database nor the journal can be read."""

    code = "nothing_left"
    hint = "nothing was changed; put a backup in the store's place: mnemo restore BACKUP"


class OlderFormat(StoreError):
    """The store was written by an older version."""

    code = "older_format"
    hint = "start the daemon once (mnemo up), which keeps a copy and brings it up to date"


def check_folder(folder: Path, progress: Progress = unreported) -> CheckReport:
    """Check a store that nobody has open. Raises FolderInUse, NoStore, OlderFormat or NewerFormat."""
    with _locked_folder(folder):
        return _check_open(folder, progress)


def repair_folder(folder: Path, *, dry_run: bool, progress: Progress = unreported) -> RepairReport:
    """Repair the store, or report what would be done. Raises as `check_folder`, UnreadableStore, and what opening the
    store raises."""
    with _locked_folder(folder):
        before = _check_open(folder, progress)
        steps = repair.plan(before.violations)
        if any(step.remedy == "database" for step in steps) and newest_header(folder / "journal") is None:
            raise UnreadableStore("the database cannot be read, and there is no journal to restore it from")
        if dry_run:
            return RepairReport(steps, before, is_dry=True)
        aside = _move_database_away(folder) if any(step.remedy == "database" for step in steps) else None
    store = Store.open(folder)
    try:
        done = StoreRepair(StoreCheck(store, progress=progress)).repair(dry_run=False)
    finally:
        store.close()
    done.steps = [*(step for step in steps if step.remedy == "database"), *done.steps]
    if aside is not None:
        done.quarantine.insert(0, aside.name)
    with _locked_folder(folder):
        # Index files that have faults are deleted: the next start rebuilds them from the database.
        done.report = _check_open(folder, progress)
        for remedy, patterns in VIEW_FILES.items():
            wrong = [step for step in repair.plan(done.report.violations) if step.remedy == remedy]
            for pattern in patterns if wrong else ():
                for path in (folder / "views").glob(pattern):
                    path.unlink()
            done.steps += wrong
        if done.report.totals:
            done.report = _check_open(folder, progress)
        return done


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """The lock of the data folder."""
    if not any((folder / part).exists() for part in (database_files.MANIFEST_FILE, "journal", "db")):
        raise NoStore(f"there is no store in {folder}")
    held = FolderLock.acquire(folder)
    try:
        yield
    finally:
        held.release()


def _check_open(folder: Path, progress: Progress) -> CheckReport:
    began, report = time.monotonic(), CheckReport()
    path = folder / database_files.MANIFEST_FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=database_files.StoreManifest)
    except FileNotFoundError:
        report.notes.append(f"{database_files.MANIFEST_FILE} is missing: the next start writes it again")
    except msgspec.MsgspecError as error:
        report.notes.append(f"{database_files.MANIFEST_FILE} cannot be read ({error}): the next start writes it again")
    else:
        if found.format > FORMAT:
            raise NewerFormat(f"{folder} has format {found.format}; this version supports formats up to {FORMAT}")
        if found.format < FORMAT:
            raise OlderFormat(f"{folder} is of format {found.format}, this version writes {FORMAT}")
    path = folder / "db" / DATABASE_FILE
    if not path.exists() or not path.stat().st_size:
        problem = "it is missing or empty"
    elif not has_all_pages(path):
        problem = "it is shorter than it says, or no database"
    else:
        problem = "" if is_intact(path.parent) else "it does not verify"
    if problem:
        report.add([InvariantViolation("database", "db", DATABASE_FILE, problem, "database")])
        report.notes.append("the database was not opened; what of it the journal has is not compared")
        report.add(_check_journal_alone(folder, report))
    else:
        with _open_database(folder) as source:
            with source() as at:
                rows = sum(map(at.row_count, TABLE_NAMES))
            progress("reading the rows", 0, rows)
            report.add(
                check(source, report.checked, lambda: progress("reading the rows", report.checked.total(), rows))
            )
            progress("comparing the journal", 0, 0)
            report.add(_journal_violations(folder, source, report))
            progress("checking the indexes", 0, 0)
            report.add(_view_violations(folder, source, report))
    report.seconds = time.monotonic() - began
    return report


@contextlib.contextmanager
def _open_database(folder: Path) -> Iterator[TableSource]:
    """The database, to be read."""
    env = lmdb.open(str(folder / "db"), readonly=True, lock=False, max_dbs=TABLES_MAX, lib_version=0)
    try:
        database = Database(env, open_tables(env, create=False), Disk())
        now = time.time_ns() // 1_000_000
        yield lambda: database.table_snapshot(now)
    except lmdb.NotFoundError as error:
        raise OlderFormat(f"{folder} lacks a table that this version has: {error}") from error
    finally:
        env.close()


def _journal_violations(folder: Path, source: TableSource, report: CheckReport) -> Iterator[InvariantViolation]:
    with source() as at:
        owner, seq = JournalOwner(folder / "journal", at.meta("store"), at.meta("salt")), at.seq
    with owner.open_replay(seq) as journal:
        behind = journal.last[0] - seq
    if behind > 0:
        report.notes.append(f"the journal is {behind} changes ahead of the database: the next start takes them up")
    try:
        yield from check_journal(source, owner)
        report.checked["journal"] = seq
    except JournalChangeError as error:
        report.notes.append(str(error))


def _check_journal_alone(folder: Path, report: CheckReport) -> Iterator[InvariantViolation]:
    """Without a database to go by."""
    header = newest_header(folder / "journal")
    if header is None:
        yield InvariantViolation("journal", "segments", "journal", "there is none", "report")
        return
    with JournalOwner(folder / "journal", header.store, header.salt).open_replay(1 << 62) as journal:
        report.checked["journal"] = journal.last[0]
        for damage in unreadable_stretches(journal):
            what = f"{damage.length} bytes: {damage.why}"
            yield InvariantViolation("journal", "segments", f"{damage.segment}:{damage.offset}", what, "journal")


# Views


def _view_violations(folder: Path, source: TableSource, report: CheckReport) -> Iterator[InvariantViolation]:
    views = folder / "views"
    with source() as at:
        seq, store_id = at.seq, at.meta("store")
    try:
        with source() as at:
            indexes, oldest = load_indexes(views, lambda meta: require_known_store(at, store_id, meta))
        live = {each.name: read_file(type(each), views) for each in indexes}
    except IndexMismatch as error:
        report.notes.append(f"columns and words are rebuilt at the next start: {error}")
    else:
        # Not in the system's temporary folder: it holds every word of the memories.
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=views) as scratch:
            truth = expected_indexes(source, Path(scratch), Disk(), lambda: None)
        report.checked |= dict.fromkeys(live, len(truth.ids))
        columns = attributes_of(indexes)
        yield from find_differences(live, truth, touched_since(source, oldest), columns, gone_too=oldest == seq)
    yield from _vector_violations(views, source, report)


def _vector_violations(views: Path, source: TableSource, report: CheckReport) -> Iterator[InvariantViolation]:
    if not (views / VIEW_FILE).exists():
        report.notes.append("there is no vector index: it is filled when there is a model")
        return
    with source() as at:
        seq, store_id = at.seq, at.meta("store")
    try:
        head, _ = index_file.load(views / VIEW_FILE, VIEW_KIND)
        view, meta = VectorIndex.load(views, head["dimensions"], head["space"])
        with source() as at:
            require_known_store(at, store_id, meta)
    except IndexMismatch as error:
        report.notes.append(f"the vector index is rebuilt at the next start: {error}")
        return
    applied = int(meta["seq"])
    report.checked["vectors"] = len(view)
    yield from as_violations(
        "vectors", "vectors", vector_faults(view, source, applied, lambda: None, has_strays=applied == seq)
    )


# Repairing


def _move_database_away(folder: Path) -> Path | None:
    """Move the database out of the way, so that opening the store restores it from the journal."""
    database = folder / "db"
    if not database.exists():
        return None
    stamp = time.time_ns() // 1_000_000
    while (aside := folder / f"db.damaged-{stamp}").exists():
        stamp += 1
    Disk().rename(database, aside)
    Disk().sync_folder(folder)
    log.warning("the database is kept as %s", aside.name)
    return aside
