"""The store: LMDB for the state, the journal for its history, one writer thread. SPEC 3, FORMAT.md.

A write is a function that decides: it runs on the writer thread, sees the store as it is at that moment, and returns
the changes. Many such turns share one commit:

    begin LMDB → each turn decides in a nested transaction → journal appended and fsynced → LMDB committed
    → views told → writers answered

so an answered write is in both, and either rebuilds the other. Where LMDB fails, the journal's replay takes its place
(`keeper`), and the order is the same.
"""

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import lmdb
import numpy as np
from numpy.typing import NDArray

from mnemo_store.backend import Snapshot, StateTransaction, TouchedMemory
from mnemo_store.codec import JournalLine, SealedLine, decode_line, seal
from mnemo_store.database.environment import CALLER_ERRORS, MAP_BYTES, Database, is_full
from mnemo_store.disk import Disk
from mnemo_store.errors import (
    DiskFull,
    LockLoss,
    QueueFull,
    StoreClosed,
    StoreCorruption,
    StoreError,
    UnknownOutcome,
    WriteFailure,
)
from mnemo_store.ids import IdSource
from mnemo_store.journal.journal import SEGMENT_BYTES, JournalDamage
from mnemo_store.records import Change, ChangeEntry, is_long_term
from mnemo_store.recovery import folder_swap
from mnemo_store.recovery.folder_lock import FolderLock
from mnemo_store.recovery.reserve import RESERVE_BYTES
from mnemo_store.recovery.supervisor import StateSupervisor

T = TypeVar("T")

GROUP_BYTES_MAX = 256 << 10  # a commit group ends at its keeper's number of turns, or at either of these [SPEC 3.5]
GROUP_SECONDS_MAX = 0.005
ATTEMPTS = 3  # to write a group: the database may have to grow, or to be replaced by the journal
QUEUE_MAX = 1024  # interactive turns waiting
BACKGROUND_QUEUE_MAX = 256
CLOSE_SECONDS_MAX = 10.0
LOCK_POLL_SECONDS = 1.0  # between two looks whether a lost lock is back

log = logging.getLogger("mnemo.store")


class WriteResult(NamedTuple, Generic[T]):
    """What a decision came to: the changes to make, all or none, and what its caller is told."""

    changes: Sequence[Change]
    result: T
    what: str = ""  # the operation as a person names it: "add", "edit", "rm"
    group: str = ""  # ties together turns that are undone together


class WriteReceipt(NamedTuple, Generic[T]):
    """A turn that is durable. `seq` is 0 when there was nothing to change."""

    seq: int
    result: T


class Commit(NamedTuple):
    """A committed transaction as the views see it."""

    seq: int
    at: int  # ms
    touched: tuple[TouchedMemory, ...]


class TextVectors(NamedTuple):
    """The vectors of one text, or its token rows, to be kept under its hash."""

    space: str
    text_hash: bytes
    rows: NDArray[np.float16] | NDArray[np.int8]  # shape (windows, dimensions), or (tokens, dimensions)


class _Waiting(NamedTuple):
    decide: Callable[[Snapshot], WriteResult[Any]]
    by: str
    future: "Future[WriteReceipt[Any]]"
    vectors: tuple[TextVectors, ...] = ()
    frees: bool = False  # taken on a full disk too


class _Work(NamedTuple):
    """Something that needs the writer thread for itself."""

    act: Callable[[StateSupervisor], Any]
    future: "Future[Any]"


class _Done(NamedTuple):
    waiting: _Waiting
    committed: WriteReceipt[Any]
    applied: Commit | None


class _StateFailed(Exception):
    """The database failed before the journal had the group: the group can be tried again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Store:
    """Open with `Store.open`; close with `close`. Every method is safe in any thread."""

    def __init__(self, keeper: StateSupervisor, lock: FolderLock, now: Callable[[], int], ids: IdSource) -> None:
        self.folder = keeper.folder
        self._supervisor = keeper
        self._lock = lock
        self._writer_failure: WriteFailure | None = None  # why the writer thread ended before the store was closed
        self._now = now
        self._ids = ids
        self._followers: list[Callable[[Commit], None]] = []
        self._renumbered: list[Callable[[], None]] = []
        self._urgent: deque[_Waiting] = deque()
        self._background: deque[_Waiting] = deque()
        self._works: deque[_Work] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._doubt: Exception | None = None  # what a reader met
        self._told = 0  # the last change that the followers know of
        self._renumbers_told = 0
        self._writer: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        disk: Disk | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = os.urandom,
        map_bytes: int = MAP_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> "Store":
        """Opens or makes the store in folder, recovers what a crash left, and starts the writer.

        Raises Locked, NewerFormat, DiskFull, OSError, or StoreError where a restore is under way. A database that does
        not verify is put aside and restored from the journal; `reasons` says so. One that cannot be opened is done
        without; `degraded` says so.
        """
        folder_swap.finish_swap(folder, disk or Disk())
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in made:  # or a power loss could take the folder with all that was acknowledged in it
            (disk or Disk()).sync_folder(each.parent)
        ids = IdSource(now, random_bytes)
        held = FolderLock.acquire(folder)
        folder_swap.remove_staging(folder)
        keeper = StateSupervisor(folder, disk or Disk(), now, map_bytes, segment_bytes, reserve_bytes)
        store = cls(keeper, held, now, ids)
        try:
            keeper.start(lambda: (ids.new(), random_bytes(16).hex()))
        except BaseException:
            store._release(clean=False)
            raise
        store._told, store._renumbers_told = keeper.active_state().end[0], keeper.row_id_resets
        store._writer = threading.Thread(target=store._write_until_closed, name="mnemo-writer", daemon=True)
        store._writer.start()
        return store

    @property
    def store_id(self) -> str:
        """Names this store for good; a view of another store is not used."""
        return self._supervisor.manifest.store_id

    @property
    def seq(self) -> int:
        """Of the last committed change."""
        state = self._supervisor.state
        return state.end[0] if state is not None else 0

    @property
    def damage(self) -> Sequence[JournalDamage]:
        """What of the journal could not be read at the start."""
        return tuple(self._supervisor.journal.damage)

    @property
    def findings(self) -> list[str]:
        """What was found wrong since the start, mended or not; empty when nothing was."""
        return [*self._supervisor.data_losses, *self._supervisor.recovered]

    @property
    def recovered(self) -> list[str]:
        """What was found wrong since the start and is no more."""
        return self._supervisor.recovered

    @property
    def data_losses(self) -> list[str]:
        """What was found wrong and could not be mended: `mnemo check` shows it."""
        return self._supervisor.data_losses

    @property
    def degraded(self) -> str:
        """Why the journal's replay stands in for the database; "" when it does not."""
        return self._supervisor.degraded

    @property
    def write_obstacle(self) -> str:
        """Why not everything can be written now; "" when it can. Each write tries anew."""
        if lock_loss := self.lock_loss:
            return lock_loss
        if self._supervisor.broken is not None:
            return str(self._supervisor.broken)
        return (
            "the disk is full: nothing new is taken until there is room" if self._supervisor.reserve.is_released else ""
        )

    @property
    def lock_loss(self) -> str:
        """Why another process may be using the data folder, in which nothing may then be changed; "" normally."""
        return self._lock.loss()

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._now()

    def new_id(self) -> str:
        return self._ids.new()

    def on_commit(self, follower: Callable[[Commit], None]) -> None:
        """Has follower called on the writer thread with each committed transaction, before its writer is answered.

        A follower must not raise and must be quick.
        """
        self._followers.append(follower)

    def on_row_ids_reset(self, listener: Callable[[], None]) -> None:
        """Has listener called on the writer thread when the memories may have other numbers: after damage only."""
        self._renumbered.append(listener)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as it is now. Not to be kept over 100 ms: LMDB cannot reuse pages meanwhile.

        Within it, neither wait for a write nor take another snapshot: a database that has to be reopened waits for
        its readers. Raises Damaged where the database turns out to be; the writer then looks after it.
        """
        with self._supervisor.state_lock.shared():
            if self._supervisor.state is None:
                raise self._supervisor.broken or StoreClosed("the store is closed")
            try:
                with self._supervisor.state.snapshot(self._now()) as snapshot:
                    yield snapshot
            except lmdb.Error as error:
                with self._wake:
                    self._doubt = error
                    self._wake.notify()
                raise StoreCorruption(f"the database could not be read: {error}") from error

    @property
    def is_blocked(self) -> bool:
        """Whether snapshots wait, for seconds even, while the store is put in order."""
        return self._supervisor.state_lock.is_exclusive

    def wait_until_open(self) -> None:
        """Returns once snapshots need not wait."""
        with self._supervisor.state_lock.shared():
            pass

    def transact(
        self, decide: Callable[[Snapshot], WriteResult[T]], *, by: str, background: bool = False, frees: bool = False
    ) -> "Future[WriteReceipt[T]]":
        """Runs decide in a write turn; the future is done when its changes are durable, or holds what decide raised.

        Nothing of a turn that raised remains. Decide may be run again where the database failed meanwhile. `frees`:
        it makes room, and is taken on a full disk too. Raises Busy when too many wait, Closed after close.
        """
        return self._enqueue(_Waiting(decide, by, Future(), frees=frees), background=background)

    def put_vectors(self, vectors: Sequence[TextVectors]) -> "Future[WriteReceipt[None]]":
        """Keeps vectors under their texts' hashes, in a background turn. They are not in the journal.

        Raises ValueError for one that holds NaN or infinity: it would be found before all others.
        """
        if not all(np.isfinite(each.rows).all() for each in vectors):
            raise ValueError("a vector holds NaN or infinity and was not kept")
        nothing: WriteResult[None] = WriteResult((), None)
        return self._enqueue(_Waiting(lambda _: nothing, "", Future(), tuple(vectors)), background=True)

    def run_exclusively(self, act: Callable[[StateSupervisor], T]) -> "Future[T]":
        """Runs act alone on the writer thread: writes wait, reads go on."""
        future: Future[T] = Future()
        with self._wake:
            if self._closing:
                raise self._writer_failure or StoreClosed("the store is shutting down")
            self._works.append(_Work(act, future))
            self._wake.notify()
        return future

    def copy_database(self, folder: Path) -> bool:
        """A consistent, compacted copy into an empty folder; False while the journal stands in for the database."""
        with self._supervisor.state_lock.shared():
            if not isinstance(self._supervisor.state, Database):
                return False
            try:
                self._supervisor.state.copy(folder)
            except lmdb.Error as error:
                raise _write_failure(error) from error
            return True

    def queue_length(self) -> int:
        """Turns not yet begun."""
        return len(self._urgent) + len(self._background)

    def disk_bytes(self) -> dict[str, int]:
        """Bytes of the database, the journal, and what is free on their disk."""
        usage = os.statvfs(self.folder)
        sizes = {"database": 0, "journal": 0, "free": usage.f_bavail * usage.f_frsize}
        with contextlib.suppress(FileNotFoundError):
            sizes["database"] = (self._supervisor.database_folder / "data.mdb").stat().st_blocks * 512
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            sizes["journal"] = self._supervisor.journal.size()
        return sizes

    def close(self) -> None:
        """Finishes the turns that wait (10 s at most), closes everything, and marks the store as cleanly closed."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(CLOSE_SECONDS_MAX)
            if self._writer.is_alive():
                log.error("the writer did not finish in %s s; the store is not marked clean", CLOSE_SECONDS_MAX)
                return
        self._release(clean=self._supervisor.broken is None and not self.lock_loss)

    def _release(self, *, clean: bool) -> None:
        self._supervisor.close(clean=clean)
        self._lock.release()

    # The writer thread

    def _enqueue(self, waiting: _Waiting, *, background: bool) -> "Future[WriteReceipt[Any]]":
        queue, limit = (self._background, BACKGROUND_QUEUE_MAX) if background else (self._urgent, QUEUE_MAX)
        with self._wake:
            if self._closing:
                raise self._writer_failure or StoreClosed("the store is shutting down")
            if len(queue) >= limit:
                raise QueueFull(f"{limit} writes are waiting already")
            queue.append(waiting)
            self._wake.notify()
        return waiting.future

    def _write_until_closed(self) -> None:
        try:
            while True:
                with self._wake:
                    while not self._has_work():
                        if self._closing:
                            return
                        seconds = LOCK_POLL_SECONDS if self._lock.loss() else self._supervisor.seconds_until_retry()
                        if seconds == 0.0:
                            break
                        if not self._wake.wait(seconds):
                            break
                self._work_once()
        except BaseException as error:
            # What it was doing may be half done: only a start, which compares journal and database, can go on.
            self._writer_failure = WriteFailure(f"the writer stopped: {error!r}; restart the daemon")
            self._supervisor.broken = self._writer_failure
            with self._wake:
                self._closing = True
            self._fail_all_waiting(self._writer_failure)
            raise

    def _has_work(self) -> bool:
        return bool(self._urgent or self._background or self._works or self._doubt)

    def _work_once(self) -> None:
        """One step of each thing that there is to do."""
        if lock_loss := self._lock.loss():
            self._doubt = None
            self._fail_all_waiting(LockLoss(lock_loss))
            return
        if self._doubt is not None:
            doubt, self._doubt = self._doubt, None
            if not self._supervisor.degraded:
                self._supervisor.recover(doubt)
        self._supervisor.attempt_recovery()
        self._tell_missed()
        if self._works:
            self._maintain_once(self._works.popleft())
        if self._urgent or self._background:
            self._write_group()
        self._tell_missed()

    def _maintain_once(self, work: _Work) -> None:
        if not work.future.set_running_or_notify_cancel():
            return
        try:
            result = work.act(self._supervisor)
            self._tell_missed()
            work.future.set_result(result)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its caller's to see
            if isinstance(error, lmdb.Error):
                self._doubt = error
            work.future.set_exception(_write_failure(error) if isinstance(error, lmdb.Error | OSError) else error)

    def _next_waiting(self) -> _Waiting | None:
        """Interactive turns overtake background ones."""
        with self._wake:
            if self._urgent:
                return self._urgent.popleft()
            return self._background.popleft() if self._background else None

    def _write_group(self) -> None:
        """One commit group: decided, journaled, committed, shown to the views, answered."""
        taken: list[_Waiting] = []
        failure: StoreError | None = None
        try:
            attempts = 0
            while attempts < ATTEMPTS:
                if self._supervisor.broken is not None or self._supervisor.state is None:
                    self._supervisor.recover(self._supervisor.broken or WriteFailure("the database is closed"))
                self._tell_missed()
                if self._supervisor.state is None:
                    self._fail_all_waiting(WriteFailure(f"the store is out of order: {self._supervisor.broken}"))
                    break
                try:
                    self._attempt(taken)
                except _StateFailed as failed:
                    attempts += 1
                    failure = _write_failure(failed.cause)
                    self._supervisor.recover(failed.cause)
                else:  # there are more where the group has become smaller since they were taken
                    taken[:] = [waiting for waiting in taken if not waiting.future.done()]
                    if not taken:
                        break
        except BaseException as error:
            failure = UnknownOutcome(f"the writer stopped: {error!r}")
            raise
        finally:  # whatever happens, nobody waits for ever
            failure = failure or WriteFailure(f"the store is out of order: {self._supervisor.broken}")
            for waiting in taken:
                if not waiting.future.done():
                    waiting.future.set_exception(failure)

    def _attempt(self, taken: list[_Waiting]) -> None:
        """Writes the turns taken before and those that wait. Raises _StateFailed, with `taken` to be tried again."""
        state = self._supervisor.active_state()
        first_seq = state.end[0] + 1
        done: list[_Done] = []
        lines: list[tuple[SealedLine, bool]] = []
        try:
            group = state.begin()
        except lmdb.Error as error:
            raise _StateFailed(error) from error
        try:
            end = self._decide_turns(group, state.end, taken, done, lines)
            if lines:
                group.record_end(self._now(), end)
        except lmdb.Error as error:
            group.abort()
            raise _StateFailed(error) from error
        except BaseException as error:
            group.abort()
            _fail(done, WriteFailure(f"the write could not be made: {error}"))
            raise
        if not lines and not any(item.waiting.vectors for item in done):
            group.abort()  # nobody changed anything, so no failure of the disk is theirs
            _answer(done)
            return
        try:
            if lines:
                self._append(lines, first_seq)
        except BaseException as error:
            group.abort()
            failure = error if isinstance(error, StoreError) else UnknownOutcome(f"the journal failed: {error!r}")
            if isinstance(failure, UnknownOutcome):
                self._supervisor.broken = failure
            _fail(done, failure)
            if error is not failure:
                raise
            return
        self._commit(group, done, end if lines else None)

    def _append(self, lines: list[tuple[SealedLine, bool]], first_seq: int) -> None:
        """To the journal; on a full disk once more, with the reserve given back. Raises LockLost before it writes."""
        if lock_loss := self._lock.loss():
            raise LockLoss(lock_loss)
        try:
            self._supervisor.journal.append(lines, first_seq)
        except DiskFull:
            if not self._supervisor.reserve.release():
                raise
            self._supervisor.journal.append(lines, first_seq)

    def _decide_turns(
        self,
        group: StateTransaction,
        end: tuple[int, str],
        taken: list[_Waiting],
        done: list[_Done],
        lines: list[tuple[SealedLine, bool]],
    ) -> tuple[int, str]:
        """Decides the turns taken before, then those that wait, until the group is full; the end they come to."""
        again, size, started = deque(taken), 0, time.monotonic()
        while len(done) < self._supervisor.group_writes_max:
            waiting = again.popleft() if again else self._take(taken)
            if waiting is None:
                break
            try:
                if self._supervisor.reserve.is_released and not waiting.frees:
                    raise DiskFull("the disk is full: nothing new is taken until there is room")
                with group.savepoint(self._now()) as writing:
                    result, sealed, applied, long_term = _decide(writing, waiting, end)
            except BaseException as error:
                if isinstance(error, lmdb.Error) and not isinstance(error, CALLER_ERRORS):
                    raise
                taken.remove(waiting)
                waiting.future.set_exception(_write_failure(error) if isinstance(error, lmdb.Error) else error)
                continue
            done.append(_Done(waiting, result, applied))
            if sealed is not None:
                lines.append((sealed, long_term))
                end = (end[0] + 1, sealed.sum)
                size += len(sealed.data)
            if not again and (size >= GROUP_BYTES_MAX or time.monotonic() - started >= GROUP_SECONDS_MAX):
                break
        return end

    def _take(self, taken: list[_Waiting]) -> _Waiting | None:
        """The next turn that its caller still wants."""
        while (waiting := self._next_waiting()) is not None:
            if waiting.future.set_running_or_notify_cancel():
                taken.append(waiting)
                return waiting
        return None

    def _commit(self, group: StateTransaction, done: list[_Done], end: tuple[int, str] | None) -> None:
        """Commits what the journal has, up to `end` (None: it has nothing of it)."""
        try:
            group.commit()
        except (lmdb.Error, OSError) as error:
            group.abort()
            self._supervisor.recover(error)
            if end is None or self._supervisor.state is None or self._supervisor.state.end != end:
                unknown = UnknownOutcome(f"the database could not be committed: {error}")
                _fail(done, unknown if end else _write_failure(error))
                return
        try:
            for item in done:
                if item.applied is not None:
                    self._tell(item.applied)
            self._told = self.seq
        finally:
            _answer(done)
        self._supervisor.journal.rotate_full()

    def _tell(self, applied: Commit) -> None:
        for follower in self._followers:
            follower(applied)

    def _tell_renumbered(self) -> None:
        for listener in self._renumbered:
            listener()
        if self._supervisor.state is not None:
            self._told = self.seq  # who is renumbered looks at everything anew

    def _tell_missed(self) -> None:
        """Tells the followers that numbers have become others, and of changes that were answered as of unknown outcome
        and turned out to be there when the store was put in order."""
        if self._renumbers_told != self._supervisor.row_id_resets and self._supervisor.broken is None:
            self._renumbers_told = self._supervisor.row_id_resets
            self._tell_renumbered()
        while (state := self._supervisor.state) is not None and self._told < state.end[0]:
            try:
                with state.snapshot(self._now()) as snapshot:
                    missed = [_applied(snapshot, seq, entry) for seq, entry in snapshot.entries(self._told)]
            except (lmdb.Error, StoreError, ValueError) as error:
                log.warning("what was changed meanwhile cannot be told: %s", error)
                if isinstance(error, lmdb.Error):
                    self._supervisor.recover(error)
                missed = []
            if not missed:
                self._tell_renumbered()
            for applied in missed:
                self._tell(applied)
                self._told = applied.seq

    def _fail_all_waiting(self, failure: StoreError) -> None:
        while (waiting := self._next_waiting()) is not None:
            if waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(failure)
        while self._works:
            work = self._works.popleft()
            if work.future.set_running_or_notify_cancel():
                work.future.set_exception(failure)


def _decide(
    writing: Any, waiting: _Waiting, end: tuple[int, str]
) -> tuple[WriteReceipt[Any], SealedLine | None, Commit | None, bool]:
    for space, text_hash, rows in waiting.vectors:
        writing.put_vectors(space, text_hash, rows)
    turn = waiting.decide(writing)
    if not turn.changes:
        return WriteReceipt(0, turn.result), None, None, False
    seq, changes = end[0] + 1, tuple(turn.changes)
    line = JournalLine(seq, writing.now, waiting.by, end, changes, what=turn.what, group=turn.group)
    sealed = seal(line)
    decode_line(sealed.data[:-1])  # what could not be read back (NaN becomes null) is refused here, not lost later
    entry = ChangeEntry(at=line.at, by=line.by, what=line.what, group=line.group)
    touched = writing.apply(changes, seq, entry)
    long_term = any(map(is_long_term, changes))
    return WriteReceipt(seq, turn.result), sealed, Commit(seq, line.at, tuple(touched)), long_term


def _applied(snapshot: Snapshot, seq: int, entry: ChangeEntry) -> Commit:
    """What a change touched, as it is now. Raises Damaged where some of it is gone, number and all."""
    touched = []
    for memory_id in dict.fromkeys((*entry.ids, *entry.used)):
        number = snapshot.number(memory_id)
        if number is None:
            raise StoreCorruption(f"memory {memory_id} is gone")
        touched.append(TouchedMemory(number, snapshot.memory(memory_id), snapshot.usage(memory_id)))
    return Commit(seq, entry.at, tuple(touched))


def _answer(done: Sequence[_Done]) -> None:
    for item in done:
        item.waiting.future.set_result(item.committed)


def _fail(done: Sequence[_Done], error: StoreError) -> None:
    for item in done:
        item.waiting.future.set_exception(error)


def _write_failure(error: Exception) -> StoreError:
    if is_full(error):
        return DiskFull(f"no room on the disk: {error}")
    return WriteFailure(f"the database could not be written: {error}")
