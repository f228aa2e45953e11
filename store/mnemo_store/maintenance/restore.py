"""Restore: a store made from a backup or from another data folder, as of now or of an earlier time. SPEC 3.9.

The store is made next to the data folder, opened and verified there, and takes its place by two renames; the replaced
store is kept. No process may have the store open meanwhile.
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import lmdb

from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.database.environment import DATABASE_FILE, Database
from mnemo_store.database.integrity import is_intact
from mnemo_store.database.table_access import TABLES_MAX, open_tables
from mnemo_store.disk import Disk
from mnemo_store.errors import BadBackup, DiskFull, HistoryUnavailable, StoreLoss
from mnemo_store.journal import dump
from mnemo_store.journal.journal import JOURNAL_FILES, Journal
from mnemo_store.journal.line_codec import SegmentHeader, seal
from mnemo_store.maintenance import backup
from mnemo_store.maintenance.compaction import put_vectors, rewrite_journal
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import FORMAT, ErasedText, PutErasedText, is_long_term
from mnemo_store.recovery import database_files, store_folder
from mnemo_store.recovery.store_folder import FolderLock
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import EMBEDDINGS, FORGOTTEN

Snapshots = Callable[[], AbstractContextManager[Snapshot]]

FULL_DATABASE = "db.whole"  # of a store that goes back in time: the database as it was, for its vectors


def check_source(source: Path, data: Path) -> None:
    """Raises BadBackup or DiskFull where `source` is no complete backup or store, or there is no room for its copy next
    to `data`. Every file of a backup is verified; a store is not opened, since a daemon may have it open."""
    _refuse_backup_as_target(data)
    _faults_of_backup(source, data)
    needed = sum(part.stat().st_size for part in _parts_of(source))
    place = next(folder for folder in data.absolute().parents if folder.exists())
    room = os.statvfs(place)
    free = room.f_bavail * room.f_frsize
    if needed > free:
        raise DiskFull(f"no room for the copy in {place}: it needs {needed} bytes, and {free} are free")


class _ReplacedStore(NamedTuple):
    """The facts about the replaced store that still matter."""

    forgotten: dict[str, dict[str, ErasedText]]  # by salt and hash, the texts that must not come back
    spared: frozenset[str]  # ids of its memories with such a text: they exist, so they were not erased


class RestoreResult(NamedTuple):
    """The result of a restore."""

    seq: int
    memories: int
    kept_as: Path | None  # where the replaced store is now
    forgotten: tuple[str, ...]  # ids that were erased since the backup, and were erased again before the store is used
    recovered: list[str]  # what was wrong with the copy and was recovered


def restore(
    source: Path, data: Path, disk: Disk, now: Callable[[], int], *, at: int | None = None, keep_forgotten: bool = True,
    in_use: Path | None = None,
    finish: Callable[[Store, tuple[str, ...]], None] = lambda _, __: None, progress: Progress = unreported,
) -> RestoreResult:  # fmt: skip
    """Replaces `data` by the store of `source`: a backup, or a data folder, also `data` itself.

    `at` (ms): as it was after the last change by then. Texts that were erased from the replaced store stay erased:
    `finish` gets the open store and the ids of memories with such texts before it is put in place; with
    `keep_forgotten` off they come back. in_use: the data folder that a daemon may have
    open; where `data` is new, texts that were erased from this one stay erased. Raises FolderInUse, BadBackup,
    HistoryUnavailable, StoreError, OSError; `data` is then as it was.
    """
    progress("reading the store to be replaced", 0, 0)
    _refuse_backup_as_target(data)
    store_folder.finish_swap(data, disk)
    replaced = _ReplacedStore({}, frozenset())
    if keep_forgotten:
        replaced = _read_replaced(data) if data.exists() or in_use is None else _read_in_use(in_use)
    lock = FolderLock.acquire(data) if data.exists() else None
    stage = store_folder.staging_folder(data)
    try:
        faults = _faults_of_backup(source, data, is_whole=at is not None)
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(mode=0o700, parents=True)
        progress("copying the backup", 0, 0)
        copy_parts(source, stage, disk, without=faults)
        if at is not None:
            progress("restoring the earlier time", 0, 0)
            _go_back(stage, at, disk)
        progress("opening the copy", 0, 0)
        seq, memories, unwanted, recovered = _open_and_verify(
            stage, disk, now, replaced, finish, is_damaged=bool(faults)
        )
        progress("replacing the store", 0, 0)
        kept = store_folder.swap_in(data, disk, now())
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            lock.release()
    return RestoreResult(seq, memories, kept, unwanted, [*faults.values(), *recovered])


def _faults_of_backup(source: Path, data: Path, *, is_whole: bool = False) -> dict[Path, str]:
    """Faults of the files of a backup. Raises BadBackup where it has some and has to be whole: `is_whole`, for an
    earlier time, which only the journal has, or to replace a store."""
    if not (source / backup.BACKUP_FILE).exists():
        return {}
    if is_whole or data.exists():
        backup.verify_backup(source)
    return backup.examine_backup(source)[1]


def _refuse_backup_as_target(data: Path) -> None:
    if (data / backup.BACKUP_FILE).exists():
        raise BadBackup(f"{data} is a backup and cannot be restored to: choose a data folder")


def _read_replaced(data: Path) -> _ReplacedStore:
    """Reads the replaced store, as far as it can be read."""
    if not (data / database_files.MANIFEST_FILE).exists():
        return _ReplacedStore({}, frozenset())
    try:
        store = Store.open(data, reserve_bytes=0)
    except StoreLoss:
        return _ReplacedStore({}, frozenset())
    try:
        return _erased_from(store.snapshot)
    finally:
        store.close()


def _read_in_use(data: Path) -> _ReplacedStore:
    """Reads a store that is not opened, since a process may have it open."""
    if not (data / "db" / DATABASE_FILE).exists():
        return _ReplacedStore({}, frozenset())
    try:
        with lmdb.open(str(data / "db"), readonly=True, max_dbs=TABLES_MAX, lib_version=0) as env:
            database = Database(env, open_tables(env, create=False), Disk())
            return _erased_from(partial(database.snapshot, 0))
    except lmdb.Error as error:
        raise BadBackup(
            f"what was erased from {data} cannot be read ({error}): --allow-forgotten does without"
        ) from error


def _erased_from(snapshots: Snapshots) -> _ReplacedStore:
    with snapshots() as snapshot:
        found = {row.hash: row for row in snapshot.scan(FORGOTTEN, limit=snapshot.size(FORGOTTEN))}
        forgotten = {snapshot.meta("salt"): found} if found else {}
    return _ReplacedStore(forgotten, frozenset(memories_with_text(snapshots, forgotten)))


def copy_parts(source: Path, stage: Path, disk: Disk, without: Collection[Path] = ()) -> None:
    """Copies the files of a store or a backup, of `without` only the journal's: it tells which of its lines are whole.
    Raises BadBackup where there is none."""
    for part in _parts_of(source):
        if part.suffix == ".jsonl" or part not in without:
            target = stage / part.relative_to(source)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            disk.copy_file(part, target)


def _parts_of(source: Path) -> list[Path]:
    """The files that a store or a backup consists of. Raises BadBackup where there is neither database nor journal."""
    parts = [*sorted((source / "journal").glob("*.jsonl")), *(source / "db").glob(DATABASE_FILE)]
    if not parts:
        raise BadBackup(f"{source} holds neither a database nor a journal")
    return [*source.glob(database_files.MANIFEST_FILE), *parts]


def _go_back(stage: Path, at: int, disk: Disk) -> None:
    """Cuts the journal back to that time, and leaves of the database only its vectors."""
    own, _ = database_files.read_manifest(stage, lambda: ("", ""))
    cut = stage / "journal.cut"
    cut.mkdir(mode=0o700)
    with contextlib.closing(Journal(stage / "journal", own.store_id, own.salt, disk)) as journal:
        journal.open()
        first_seq = journal.snapshot_last[0] + 1
        reached = max((read.line.seq for read in journal.lines() if read.line.at <= at), default=first_seq - 1)
        if reached < first_seq and first_seq > 1 and _snapshot_at(journal) > at:
            raise HistoryUnavailable("the journal was rewritten since that time")
        for name in JOURNAL_FILES:
            header = seal(
                SegmentHeader(FORMAT, name, journal.snapshot_number + 1, own.store_id, own.salt, first_seq)
            ).data
            disk.replace_file(cut / f"{name}.jsonl", itertools.chain([header], _lines(journal, name, reached)))
    for path in (stage / "journal").glob("snapshot.*.jsonl"):
        disk.rename(path, cut / path.name)
    shutil.rmtree(stage / "journal")
    disk.rename(cut, stage / "journal")
    if (stage / "db").exists():
        disk.rename(stage / "db", stage / FULL_DATABASE)


def _lines(journal: Journal, name: str, reached: int) -> Iterator[bytes]:
    """The lines of one file up to a seq, as bytes."""
    for read in journal.lines():
        if read.line.seq > reached:
            return
        if name == ("long_term" if any(map(is_long_term, read.line.changes)) else "short_term"):
            yield journal.fetch(read.location).rstrip(b"\n") + b"\n"


def _snapshot_at(journal: Journal) -> int:
    """The time of the last change in the journal's snapshot."""
    rows = (row for row, _ in journal.snapshot_rows())
    return max((row.data.at for row in rows if isinstance(row, dump.ChangeRow)), default=0)


def _open_and_verify(
    stage: Path, disk: Disk, now: Callable[[], int], replaced: _ReplacedStore,
    finish: Callable[[Store, tuple[str, ...]], None], *, is_damaged: bool,
) -> tuple[int, int, tuple[str, ...], list[str]]:  # fmt: skip
    """Opens the restored store, as any start does. Raises BadBackup where something of it is missing."""
    has_database = (stage / "db" / DATABASE_FILE).exists() or (stage / FULL_DATABASE).exists()
    store = Store.open(stage, disk=disk, now=now, reserve_bytes=0)
    try:
        if store.damage and not has_database:
            where = f"{store.damage[0].segment} at byte {store.damage[0].offset}: {store.damage[0].why}"
            raise BadBackup(f"the journal is damaged ({where}), and there is no database")
        if store.data_losses or store.degraded:
            raise BadBackup("; ".join([*store.data_losses, *filter(None, [store.degraded])]))
        if is_damaged:  # what the journal has of it stays in the source
            store.run_exclusively(rewrite_journal).result()
        if went_back := (stage / FULL_DATABASE).exists():
            _take_vectors(stage / FULL_DATABASE, store, disk)
            shutil.rmtree(stage / FULL_DATABASE)
        unwanted = tuple(
            each for each in memories_with_text(store.snapshot, replaced.forgotten) if each not in replaced.spared
        )
        if unwanted:
            finish(store, unwanted)
        _keep_forgotten(store, replaced.forgotten)
        recovered = [] if went_back else store.recovered  # its database is missing on purpose then
        with store.snapshot() as snapshot:
            return snapshot.seq, snapshot.count(), unwanted, recovered
    finally:
        store.close()


def _take_vectors(folder: Path, store: Store, disk: Disk) -> None:
    """Takes over all vectors. They are kept under the hashes of their texts, so those of later texts do no harm."""
    if not is_intact(folder):
        return
    whole = Database.open(folder, disk)
    try:
        with whole.table_snapshot(0) as here:
            for rows in batched(here.all_rows(EMBEDDINGS), READ_SLICE):
                store.run_exclusively(partial(put_vectors, rows=rows)).result()
    finally:
        whole.close()


def _keep_forgotten(store: Store, forgotten: dict[str, dict[str, ErasedText]]) -> None:
    """Takes over the hashes of erased texts; those of a store with another salt mean nothing here."""

    def decide(snapshot: Snapshot) -> WriteResult[None]:
        wanted = forgotten.get(snapshot.meta("salt"), {}).values()
        return WriteResult(
            [PutErasedText(data=row) for row in wanted if snapshot.forgotten(row.hash) is None], None, "restore"
        )

    store.transact(decide, by="restore").result()


def memories_with_text(snapshots: Snapshots, forgotten: dict[str, dict[str, ErasedText]]) -> list[str]:
    """The ids of the memories with a version whose text was erased."""
    found: list[str] = []
    after = ""
    while forgotten:
        with snapshots() as snapshot:
            memories = snapshot.memories(after, READ_SLICE)
            for memory in memories:
                texts = {stored.memory.content for stored in snapshot.all_versions(memory.id)}
                if any(skip_hash(salt, text) in hashes for salt, hashes in forgotten.items() for text in texts):
                    found.append(memory.id)
        if len(memories) < READ_SLICE:
            break
        after = memories[-1].id
    return found
