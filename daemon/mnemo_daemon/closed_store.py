"""Check and repair of a store that no daemon has open: `python -m mnemo_daemon.offline check|repair`. SPEC 3.8, 14.

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

from mnemo_daemon.checking import SCRATCH, Checking, Report, as_violations, compared, touched_since
from mnemo_daemon.repairing import Repaired, Repairing
from mnemo_daemon.view_checks import columns_file, truth_of, vector_faults, words_file
from mnemo_daemon.views import refuse_unlike
from mnemo_store import manifest, repair, snapshots
from mnemo_store.check import Remedy, Source, Violation, check
from mnemo_store.columns import Columns
from mnemo_store.comparison import JournalChanged, Owner, check_journal, damaged
from mnemo_store.database import FILE, Database
from mnemo_store.disk import Disk
from mnemo_store.errors import NewerFormat, StoreError, ViewMismatch
from mnemo_store.journal import newest_header
from mnemo_store.layout import FORMAT
from mnemo_store.lock import FolderLock
from mnemo_store.soundness import is_long_enough, verifies
from mnemo_store.store import Store
from mnemo_store.tables import DUPLICATES, TABLES, Tables
from mnemo_store.vectors import VIEW_FILE, VIEW_KIND, VectorView

VIEW_FILES: dict[Remedy, str] = {"views": "[cw]o*.view", "vectors": "vectors*"}  # columns and words; and the rest

log = logging.getLogger("mnemo.repair")


class NoStore(StoreError):
    """There is nothing to check."""

    code = "no_store"
    hint = "set MNEMO_DATA_DIR to the folder that the memories are in"


class NothingLeft(StoreError):
    """Neither the database nor the journal can be read."""

    code = "nothing_left"
    hint = "nothing was changed; put a backup in the store's place: mnemo restore BACKUP"


class OlderFormat(StoreError):
    """The store was written by an older version."""

    code = "older_format"
    hint = "start the daemon once (mnemo up), which keeps a copy and brings it up to date"


def check_folder(folder: Path) -> Report:
    """What is to be found of a store that nobody has open. Raises Locked, NoStore, OlderFormat or NewerFormat."""
    with _held(folder):
        return _checked(folder)


def repair_folder(folder: Path, *, dry_run: bool) -> Repaired:
    """Mends it, or says what would be done. Raises as `check_folder`, NothingLeft, and what a store raises that cannot
    be opened."""
    with _held(folder):
        before = _checked(folder)
        steps = repair.plan(before.violations)
        if any(step.remedy == "database" for step in steps) and newest_header(folder / "journal") is None:
            raise NothingLeft("the database cannot be read, and there is no journal to restore it from")
        if dry_run:
            return Repaired(steps, before, is_dry=True)
        aside = _put_aside(folder) if any(step.remedy == "database" for step in steps) else None
    store = Store.open(folder)
    try:
        done = Repairing(Checking(store)).repair(dry_run=False)
    finally:
        store.close()
    done.steps = [*(step for step in steps if step.remedy == "database"), *done.steps]
    if aside is not None:
        done.quarantine.insert(0, aside.name)
    with _held(folder):
        return _without_bad_views(folder, done)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The lock of the data folder."""
    if not any((folder / part).exists() for part in (manifest.FILE, "journal", "db")):
        raise NoStore(f"there is no store in {folder}")
    held = FolderLock.acquire(folder)
    try:
        yield
    finally:
        held.release()


def _checked(folder: Path) -> Report:
    began, report = time.monotonic(), Report()
    _look_at_manifest(folder, report)
    problem = _database_problem(folder / "db" / FILE)
    if problem:
        report.add([Violation("database", "db", FILE, problem, "database")])
        report.notes.append("the database was not opened; what of it the journal has is not compared")
        report.add(_journal_alone(folder, report))
    else:
        with _opened(folder) as source:
            report.add(check(source, report.checked))
            report.add(_journal_violations(folder, source, report))
            report.add(_view_violations(folder, source, report))
    report.seconds = time.monotonic() - began
    return report


def _look_at_manifest(folder: Path, report: Report) -> None:
    path = folder / manifest.FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=manifest.Manifest)
    except FileNotFoundError:
        report.notes.append(f"{manifest.FILE} is missing: the next start writes it anew")
    except msgspec.MsgspecError as error:
        report.notes.append(f"{manifest.FILE} cannot be read ({error}): the next start writes it anew")
    else:
        if found.format > FORMAT:
            raise NewerFormat(f"{folder} is of format {found.format}, this version knows {FORMAT}")
        if found.format < FORMAT:
            raise OlderFormat(f"{folder} is of format {found.format}, this version writes {FORMAT}")


def _database_problem(path: Path) -> str:
    """Why the database must not be opened; "" when it may be."""
    if not path.exists() or not path.stat().st_size:
        return "it is missing or empty"
    if not is_long_enough(path):
        return "it is shorter than it says, or no database"
    return "" if verifies(path.parent) else "it does not verify"


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Source]:
    """The database, to be read."""
    env = lmdb.open(str(folder / "db"), readonly=True, lock=False, max_dbs=len(TABLES), lib_version=0)
    try:
        tables = Tables(**{
            name: env.open_db(name.encode(), create=False, dupsort=name in DUPLICATES, dupfixed=name in DUPLICATES)
            for name in TABLES
        })  # fmt: skip
        database = Database(env, tables, Disk())
        now = time.time_ns() // 1_000_000
        yield lambda: database.table_snapshot(now)
    except lmdb.NotFoundError as error:
        raise OlderFormat(f"{folder} lacks a table that this version has: {error}") from error
    finally:
        env.close()


def _owner(folder: Path, source: Source) -> Owner:
    with source() as at:
        return Owner(folder / "journal", at.meta("store"), at.meta("salt"))


def _journal_violations(folder: Path, source: Source, report: Report) -> Iterator[Violation]:
    owner = _owner(folder, source)
    with source() as at:
        seq = at.seq
    with owner.told(seq) as journal:
        behind = journal.last[0] - seq
    if behind > 0:
        report.notes.append(f"the journal is {behind} changes ahead of the database: the next start takes them up")
    try:
        yield from check_journal(source, owner)
        report.checked["journal"] = seq
    except JournalChanged as error:
        report.notes.append(str(error))


def _journal_alone(folder: Path, report: Report) -> Iterator[Violation]:
    """Without a database to go by."""
    header = newest_header(folder / "journal")
    if header is None:
        yield Violation("journal", "segments", "journal", "there is none", "told")
        return
    with Owner(folder / "journal", header.store, header.salt).told(1 << 62) as journal:
        report.checked["journal"] = journal.last[0]
        for damage in damaged(journal):
            what = f"{damage.length} bytes: {damage.why}"
            yield Violation("journal", "segments", f"{damage.segment}:{damage.offset}", what, "journal")


# Views


def _view_violations(folder: Path, source: Source, report: Report) -> Iterator[Violation]:
    views = folder / "views"
    with source() as at:
        seq, store_id = at.seq, at.meta("store")
    try:
        columns, meta = Columns.load(views / "columns.view")
        live = columns_file(views / "columns.view"), words_file(views / "words.view")
        metas = (meta, live[1].meta["owner"])
        with source() as at:
            for each in metas:
                refuse_unlike(at, store_id, each)
    except ViewMismatch as error:
        report.notes.append(f"columns and words are built anew at the next start: {error}")
    else:
        oldest = min(int(each["seq"]) for each in metas)
        # Not in the system's temporary folder: it holds every word of the memories.
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=views) as scratch:
            truth = truth_of(source, Path(scratch), Disk(), lambda: None)
        report.checked["columns"] = report.checked["words"] = len(truth.ids)
        yield from compared(columns, live, truth, touched_since(source, oldest), gone_too=oldest == seq)
    yield from _vector_violations(views, source, report)


def _vector_violations(views: Path, source: Source, report: Report) -> Iterator[Violation]:
    if not (views / VIEW_FILE).exists():
        report.notes.append("there is no vector index: it is filled when there is a model")
        return
    with source() as at:
        seq, store_id = at.seq, at.meta("store")
    try:
        head, _ = snapshots.load(views / VIEW_FILE, VIEW_KIND)
        view, meta = VectorView.load(views, head["dimensions"], head["space"])
        with source() as at:
            refuse_unlike(at, store_id, meta)
    except ViewMismatch as error:
        report.notes.append(f"the vector index is filled anew at the next start: {error}")
        return
    applied = int(meta["seq"])
    report.checked["vectors"] = len(view)
    yield from as_violations("vectors", vector_faults(view, source, applied, lambda: None, has_strays=applied == seq))


# Repairing


def _put_aside(folder: Path) -> Path | None:
    """Makes way for a database that is restored from the journal when the store is opened."""
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


def _without_bad_views(folder: Path, done: Repaired) -> Repaired:
    """A view that is not what it should be is taken away: the next start builds it anew from the database."""
    done.report = _checked(folder)
    for remedy, pattern in VIEW_FILES.items():
        wrong = [step for step in repair.plan(done.report.violations) if step.remedy == remedy]
        for path in (folder / "views").glob(pattern) if wrong else ():
            path.unlink()
        done.steps += wrong
    if done.report.totals:
        done.report = _checked(folder)
    return done
