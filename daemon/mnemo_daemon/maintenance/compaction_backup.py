"""Compacting and backing up a store that is in use. SPEC 3.3, 3.9.

`compact` deletes versions that `history.keep` does not ask for, and rewrites database and journal; writes wait
meanwhile, reads go on. A backup is a copy that can be opened by itself; it is verified by reading it back.
"""

import contextlib
import datetime as dt
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from mnemo_client.protocol.maintenance import BackupAnswer, CompactAnswer
from mnemo_core.text.dates.local_days import DAY_MS
from mnemo_daemon import process_memory
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.as_of import HISTORY_FROM, HistoryStart, history_start
from mnemo_daemon.table_walk import walk_table
from mnemo_store.backend import Snapshot
from mnemo_store.database.migrations import BACKUPS_FOLDER
from mnemo_store.disk import Disk
from mnemo_store.maintenance import backup, compaction
from mnemo_store.maintenance.compaction import ChangedSinceBackup
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import PutMeta
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import MEMORIES, StoredMemory

MEMORIES_A_SLICE = 200  # whose versions are read under one snapshot
RESET_AT = "reset_at"  # the fact whose change announces a reset: a time
OVERDUE = 1.1  # times the days of history to keep, from which on the store is rewritten without a request

log = logging.getLogger("mnemo.upkeep")


def days_kept(keep: str) -> int | None:
    """The days that the setting `history.keep` names; None for `all`."""
    return None if keep == "all" else int(keep.removesuffix("d"))


class StoreMaintenance:
    """The service. Its methods take long and are run on a thread; one at a time."""

    def __init__(self, store: Store, disk: Disk, spaces: Callable[[], Sequence[str]]) -> None:
        self._store = store
        self._disk = disk
        self._spaces = spaces  # whose vectors are kept
        self._lock = threading.Lock()

    def compact(self, keep: str, *, dry_run: bool = False, progress: Progress = unreported) -> CompactAnswer:
        """Delete the versions that were replaced longer ago than `keep` says, and return free room to the disk."""
        with self._exclusively():
            with self._store.snapshot() as snapshot:
                known = history_start(snapshot)
            start = self._start(keep, known)
            given_up = self._count_given_up(start.seq, progress)
            answer = partial(CompactAnswer, versions=given_up, history_from=start.at or None, dry_run=dry_run)
            if dry_run:
                now = self._store.disk_bytes()
                return answer(
                    database_before=now["database"], database=now["database"],
                    journal_before=now["journal"], journal=now["journal"],
                )  # fmt: skip
            if start.seq > known.seq:
                fact = PutMeta(name=HISTORY_FROM, value=f"{start.seq} {start.at}")
                self._store.transact(lambda _: WriteResult((fact,), None, "compact"), by="compact", frees=True).result()
            spaces = self._spaces() or None  # with no model at hand, nobody can tell which vectors are of use
            sizes = self._store.run_exclusively(
                lambda supervisor: compaction.compact(supervisor, start.seq, spaces, progress)
            ).result()
            process_memory.trim()
            log.info("compacted: database %d to %d bytes, journal %d to %d", *sizes)
            return answer(**sizes._asdict())

    def run_retention(self, keep: str) -> None:
        """Compact the store if its history reaches back further than `keep` says, by a tenth of it or more."""
        days = days_kept(keep)
        if days is None:
            return
        with self._store.snapshot() as snapshot:
            first = snapshot.entries(history_start(snapshot).seq - 1, 1)
        if first and first[0][1].at < self._store.now() - OVERDUE * days * DAY_MS:
            self.compact(keep)

    def back_up(self, folder: Path | None, progress: Progress = unreported) -> BackupAnswer:
        """A backup in a folder that is new or empty; without one, in the data folder's `backups`."""
        with self._exclusively():
            return self._back_up(folder, progress)

    def reset(self, kept_facts: Sequence[str], progress: Progress = unreported) -> BackupAnswer:
        """Empty the store, after a backup in the data folder's `backups` that has its last change; return the backup.
        Raises ChangedSinceBackup where the store was changed during each of a few backups: nothing was removed then."""
        with self._exclusively():
            for is_last in (False, False, True):
                made = self._back_up(None, progress)
                try:
                    self._empty(made.seq, kept_facts, progress)
                except ChangedSinceBackup:
                    shutil.rmtree(made.folder, ignore_errors=True)
                    if is_last:
                        raise
                else:
                    break
            process_memory.trim()
            log.warning("the store was emptied; its backup ends at change %d", made.seq)
            return made

    def _empty(self, backup_seq: int, kept_facts: Sequence[str], progress: Progress) -> None:
        """Announce the reset by a change of its own, which must follow the backup at once, then empty the store."""

        def announce(snapshot: Snapshot) -> WriteResult[None]:
            if snapshot.seq != backup_seq:
                raise ChangedSinceBackup(f"the backup ends at change {backup_seq}, the store at {snapshot.seq}")
            return WriteResult((PutMeta(name=RESET_AT, value=str(self._store.now())),), None, "reset")

        announced = self._store.transact(announce, by="reset", frees=True).result().seq
        act = partial(
            compaction.reset, announced=announced, kept_facts=(*kept_facts, RESET_AT), history_from=HISTORY_FROM,
            progress=progress,
        )  # fmt: skip
        self._store.run_exclusively(act).result()

    def _back_up(self, folder: Path | None, progress: Progress = unreported) -> BackupAnswer:
        if folder is None:
            stamp = dt.datetime.fromtimestamp(self._store.now() / 1000, dt.UTC).strftime("%Y%m%dT%H%M%S")
            folder = first = self._store.folder / BACKUPS_FOLDER / f"backup-{stamp}"
            number = 1
            while folder.exists():  # another one of this second
                number += 1
                folder = first.with_name(f"{first.name}-{number}")
        elif not folder.is_absolute():
            raise bad_value("`folder` must be an absolute path", "folder")
        elif self._store.folder.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise bad_value("inside the data folder, backups have a place of their own: leave `folder` out", "folder")
        made = backup.create_backup(self._store, folder, self._disk, progress)
        return BackupAnswer(
            folder=str(folder), seq=made.seq, at=made.at, bytes=sum(file.bytes for file in made.files),
            files=len(made.files), has_database=made.has_database,
        )  # fmt: skip

    def _start(self, keep: str, known: HistoryStart) -> HistoryStart:
        days = days_kept(keep)
        if days is None:
            return known
        oldest_kept = self._store.now() - days * DAY_MS
        after, start = known.seq - 1, known
        while True:
            with self._store.snapshot() as snapshot:
                rows = snapshot.entries(after, 1000)
            for seq, entry in rows:
                if entry.at > oldest_kept:
                    return start
                start = HistoryStart(seq + 1, entry.at)
            if not rows:
                return start
            after = rows[-1][0]

    def _count_given_up(self, oldest: int, progress: Progress) -> int:
        """The number of versions that were replaced before the change `oldest`."""
        done = 0

        def count(snapshot: Snapshot, rows: Sequence[StoredMemory]) -> int:
            nonlocal done
            progress("counting earlier versions", done, snapshot.count())
            done += len(rows)
            return sum(following.seq < oldest for row in rows for following in snapshot.versions(row.memory.id)[1:])

        return sum(walk_table(self._store, MEMORIES, count, MEMORIES_A_SLICE))

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Hold the lock of maintenance; raise a Refusal (409) where something else holds it."""
        if not self._lock.acquire(blocking=False):
            raise Refusal(409, "busy", "the store is being backed up, compacted or repaired already: try again later")
        try:
            yield
        finally:
            self._lock.release()
