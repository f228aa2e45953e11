"""The store: LMDB for the state, the journal for its history, one writer thread. SPEC 3, store/docs/format.md.

A write is a function that decides: it runs on the writer thread, sees the store as it is at that moment, and returns
the changes. Many writes share one commit (`commit.commit_group`), so that an acknowledged write is in the database and
in the journal, and either rebuilds the other. Where LMDB fails, the replay of the journal takes its place
(`recovery.supervisor`), and nothing else changes.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import numpy as np

from mnemo_store.backend import Snapshot
from mnemo_store.commit.commit_group import DISK_FULL, Commit, CommitGroup, CommitPublisher, write_failure
from mnemo_store.commit.write_queue import Task, TextVectors, Write, WriteQueue, WriteReceipt, WriteResult
from mnemo_store.database.environment import MAP_BYTES, Database
from mnemo_store.database.migrations import MIGRATIONS, Migration
from mnemo_store.database.table_access import TableSnapshot
from mnemo_store.disk import RESERVE_BYTES, Disk, file_size
from mnemo_store.errors import ClosedStoreError, LockLoss, StoreCorruption, WriteFailure
from mnemo_store.ids import IdSource
from mnemo_store.journal.journal import SEGMENT_BYTES, JournalDamage
from mnemo_store.recovery import store_folder
from mnemo_store.recovery.store_folder import FolderLock
from mnemo_store.recovery.supervisor import StateSupervisor

__all__ = ["Commit", "Store", "TextVectors", "WriteReceipt", "WriteResult"]

T = TypeVar("T")

CLOSE_SECONDS_MAX = 10.0
LOCK_POLL_SECONDS = 1.0  # between two checks whether a lost lock is back

log = logging.getLogger("mnemo.store")


class Store:
    """Open with `Store.open`; close with `close`. Every method is safe in any thread."""

    def __init__(self, supervisor: StateSupervisor, lock: FolderLock, now: Callable[[], int], ids: IdSource) -> None:
        self.folder = supervisor.folder
        self._supervisor = supervisor
        self._lock = lock
        self._now = now
        self._ids = ids
        self._queue = WriteQueue()
        self._publisher = CommitPublisher(supervisor, now)
        self._writer: threading.Thread | None = None

    @classmethod
    def open(
        cls, folder: Path, *, disk: Disk | None = None, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = os.urandom, map_bytes: int = MAP_BYTES,
        segment_bytes: int = SEGMENT_BYTES, reserve_bytes: int = RESERVE_BYTES,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> "Store":  # fmt: skip
        """Opens or makes the store in folder, recovers what a crash left, and starts the writer.

        Raises FolderInUse, NewerFormat, DiskFull, OSError, or StoreError where a restore is running. A database that
        fails verification is quarantined and restored from the journal; `findings` says so. A store whose database
        cannot be opened works without it; `degraded` says so.
        """
        disk = disk or Disk()
        store_folder.finish_swap(folder, disk)
        created = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in created:  # or a power loss could take the folder with all that was acknowledged in it
            disk.sync_folder(each.parent)
        ids = IdSource(now, random_bytes)
        lock = FolderLock.acquire(folder)
        store_folder.remove_staging(folder)
        supervisor = StateSupervisor(folder, disk, now, map_bytes, segment_bytes, reserve_bytes, migrations)
        store = cls(supervisor, lock, now, ids)
        try:
            supervisor.start(lambda: (ids.new(), random_bytes(16).hex()))
        except BaseException:
            store._release(clean=False)
            raise
        store._publisher.start()
        store._writer = threading.Thread(target=store._write_until_closed, name="mnemo-writer", daemon=True)
        store._writer.start()
        return store

    @property
    def store_id(self) -> str:
        """The id of this store for good; an index of another store is not used."""
        return self._supervisor.manifest.store_id

    @property
    def seq(self) -> int:
        """The number of the last committed change."""
        backend = self._supervisor.backend
        return backend.end[0] if backend is not None else 0

    @property
    def damage(self) -> Sequence[JournalDamage]:
        """The stretches of the journal that could not be read at the start."""
        return tuple(self._supervisor.journal.damage)

    @property
    def findings(self) -> list[str]:
        """Everything found wrong since the start, recovered or lost."""
        return [*self.data_losses, *self.recovered]

    @property
    def recovered(self) -> list[str]:
        """Damage found since the start that was recovered."""
        return self._supervisor.findings.recovered

    @property
    def data_losses(self) -> list[str]:
        """Damage found since the start that could not be recovered: `mnemo check` shows it."""
        return self._supervisor.findings.data_losses

    @property
    def degraded(self) -> str:
        """Reason why the journal's replay stands in for the database; "" when it does not."""
        return self._supervisor.degraded

    @property
    def write_obstacle(self) -> str:
        """Reason why not everything can be written now; "" when it can. Each write tries again."""
        if lock_loss := self.lock_loss:
            return lock_loss
        if (failure := self._supervisor.failure) is not None:
            return str(failure)
        return DISK_FULL if self._supervisor.reserve.is_released else ""

    @property
    def lock_loss(self) -> str:
        """Reason why another process may be using the data folder, which stops all writes; "" normally."""
        return self._lock.loss()

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._now()

    def new_id(self) -> str:
        return self._ids.new()

    def on_commit(self, listener: Callable[[Commit], None]) -> None:
        """Calls listener on the writer thread with each committed transaction, before its writer is answered. A
        listener must not raise and must be quick."""
        self._publisher.commit_listeners.append(listener)

    def on_row_ids_reset(self, listener: Callable[[], None]) -> None:
        """Calls listener on the writer thread when memories may have got other row ids: after damage only."""
        self._publisher.reset_listeners.append(listener)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as it is now. Keep it for at most 100 ms: LMDB cannot reuse pages as long as it lives.

        Within it, neither wait for a write nor take another snapshot: a database that has to be reopened waits for
        its readers. Raises StoreCorruption where the database turns out to be damaged; the writer then recovers it.
        """
        with self._supervisor.state_lock.shared():
            if (backend := self._supervisor.backend) is None:
                raise self._supervisor.failure or ClosedStoreError("the store is closed")
            try:
                with backend.snapshot(self._now()) as snapshot:
                    yield snapshot
            except lmdb.Error as error:
                self._queue.report_read_error(error)
                raise StoreCorruption(f"the database could not be read: {error}") from error

    @property
    def is_writer_alive(self) -> bool:
        """True until the thread that writes has ended, after `close` or a failure."""
        return self._writer is not None and self._writer.is_alive()

    @property
    def is_blocked(self) -> bool:
        """True while snapshots have to wait, for seconds even, because the store is being recovered."""
        return self._supervisor.state_lock.is_exclusive

    def wait_until_open(self) -> None:
        """Returns once snapshots need not wait."""
        with self._supervisor.state_lock.shared():
            pass

    def transact(
        self, decide: Callable[[Snapshot], WriteResult[T]], *, by: str, background: bool = False, frees: bool = False
    ) -> "Future[WriteReceipt[T]]":
        """Runs decide in a write; the future is done when its changes are durable, or holds what decide raised.

        Nothing remains of a write that raised. Decide may run again where the database failed meanwhile. `frees`: the
        write makes room, and is accepted on a full disk too. Raises QueueFull, and ClosedStoreError after close.
        """
        return self._enqueue(Write(decide, by, frees_space=frees), background=background)

    def put_vectors(self, vectors: Sequence[TextVectors]) -> "Future[WriteReceipt[None]]":
        """Keeps vectors under the hashes of their texts, in a background write. They are not in the journal. Raises
        ValueError for one that holds NaN or infinity: it would be found before all others."""
        if not all(np.isfinite(each.rows).all() for each in vectors):
            raise ValueError("a vector holds NaN or infinity and was not kept")
        nothing: WriteResult[None] = WriteResult((), None)
        return self._enqueue(Write(lambda _: nothing, "", vectors=tuple(vectors)), background=True)

    def run_exclusively(self, act: Callable[[StateSupervisor], T]) -> "Future[T]":
        """Runs act alone on the writer thread: writes wait, reads go on."""
        task = Task(act)
        self._queue.add_task(task)
        return task.future

    def copy_database(self, folder: Path) -> bool:
        """Makes a consistent, compacted copy in an empty folder; False while there is no database in use."""
        with self._supervisor.state_lock.shared():
            backend = self._supervisor.backend
            if not isinstance(backend, Database):
                return False
            try:
                backend.copy(folder)
            except lmdb.Error as error:
                raise write_failure(error) from error
            return True

    def queue_length(self) -> int:
        """The number of writes not yet begun."""
        return len(self._queue)

    def disk_bytes(self) -> dict[str, int]:
        """Bytes of the database and the journal, and what is free on their disk."""
        usage = os.statvfs(self.folder)
        sizes = {"database": 0, "journal": 0, "free": usage.f_bavail * usage.f_frsize}
        with contextlib.suppress(FileNotFoundError):
            sizes["database"] = self._supervisor.files.path.stat().st_blocks * 512
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            sizes["journal"] = self._supervisor.journal.size()
        return sizes

    def part_bytes(self) -> dict[str, int]:
        """Bytes of each table of the database, as `database/TABLE`, and of each file of the journal. Of a table, whole
        pages; what the file of the database has beyond them is free pages, or of a store without a database."""
        with self.snapshot() as snapshot:
            tables = snapshot.table_bytes() if isinstance(snapshot, TableSnapshot) else {}
        sizes = {f"database/{name}": size for name, size in tables.items()}
        files = sorted(self._supervisor.journal.folder.glob("*"))
        return sizes | {f"journal/{path.name}": file_size(path) for path in files}

    def close(self) -> None:
        """Finishes the writes that wait (10 s at most), closes everything, and marks the store as cleanly closed."""
        self._queue.close()
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(CLOSE_SECONDS_MAX)
            if self._writer.is_alive():
                log.error("the writer did not finish in %s s; the store is not marked clean", CLOSE_SECONDS_MAX)
                return
        self._release(clean=self._supervisor.failure is None and not self.lock_loss)

    def _release(self, *, clean: bool) -> None:
        self._supervisor.close(clean=clean)
        self._lock.release()

    # The writer thread

    def _enqueue(self, write: Write, *, background: bool) -> "Future[WriteReceipt[Any]]":
        self._queue.add_write(write, background=background)
        return write.future

    def _write_until_closed(self) -> None:
        try:
            while self._queue.wait_for_work(self._seconds_until_due):
                self._work_once()
        except BaseException as error:
            # What it was doing may be half done: only a start, which compares journal and database, can go on.
            failure = WriteFailure(f"the writer stopped: {error!r}; restart the daemon")
            self._supervisor.record_failure(failure)
            self._queue.close(failure)
            self._queue.fail_all(failure)
            raise

    def _seconds_until_due(self) -> float | None:
        return LOCK_POLL_SECONDS if self._lock.loss() else self._supervisor.seconds_until_retry()

    def _work_once(self) -> None:
        """Does one step of everything that is due."""
        read_error = self._queue.take_read_error()
        if lock_loss := self._lock.loss():
            self._queue.fail_all(LockLoss(lock_loss))
            return
        if read_error is not None and not self._supervisor.degraded:
            self._supervisor.recover(read_error)
        self._supervisor.attempt_recovery()
        self._publisher.publish_missed()
        if (task := self._queue.next_task()) is not None:
            self._run_task(task)
        if len(self._queue):
            CommitGroup(self._supervisor, self._lock, self._publisher, self._queue, self._now).run()
        self._publisher.publish_missed()

    def _run_task(self, task: Task) -> None:
        if not task.future.set_running_or_notify_cancel():
            return
        try:
            result = task.act(self._supervisor)
            self._publisher.publish_missed()
            task.future.set_result(result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its caller's to see
            if isinstance(error, lmdb.Error):
                self._queue.report_read_error(error)
            task.future.set_exception(write_failure(error) if isinstance(error, lmdb.Error | OSError) else error)
