"""Commit groups: many writes, one commit. SPEC 3.2, 3.3, 3.5.

A group goes through five phases, in this order. Whatever fails, every write is answered.

    phase         what happens                             what a failure means
    1 decide      each write decides and applies its       the write raised: nothing of it remains, and it alone fails.
                  changes in a savepoint of one            The backend failed: nothing of the group remains; after a
                  transaction                              recovery the same writes are decided again, three times at
                                                           most
    2 journal     all lines are appended and fsynced       Nothing is kept (DiskFull after the reserve was released
                                                           too, WriteFailure, LockLoss): all writes fail. The
                                                           outcome is unknown (UnknownOutcome): all writes fail, and
                                                           the store takes no more before it has recovered
    3 commit      the transaction is committed             The journal has the group, so a recovery replays it. Where
                                                           it does, the group goes on; where it does not, or where only
                                                           vectors were written, which no journal holds: all fail
    4 publish     the listeners, which hold the indexes,   They must not fail; if one does, the writer stops, and the
                  get each commit                          writes are answered first, for they are durable
    5 acknowledge the writes are answered
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lmdb

from mnemo_store.backend import Snapshot, StateTransaction, StateWriter, TouchedMemory
from mnemo_store.codec import Position
from mnemo_store.commit.write_queue import Write, WriteQueue, WriteReceipt, WriteResult
from mnemo_store.database.environment import CALLER_ERRORS, is_full
from mnemo_store.errors import DiskFull, LockLoss, StoreCorruption, StoreError, UnknownOutcome, WriteFailure
from mnemo_store.journal.line_codec import JournalLine, SealedLine, seal_readable
from mnemo_store.records import Change, ChangeEntry, is_long_term
from mnemo_store.recovery.store_folder import FolderLock
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.replication.device_clock import DEVICES, next_clock, stamped_changes

log = logging.getLogger("mnemo.store")


class Commit(NamedTuple):
    """A committed transaction as the indexes see it."""

    seq: int
    at: int  # ms
    touched: tuple[TouchedMemory, ...]
    changes: tuple[Change, ...] | None = None  # None: not known, of a transaction that a recovery found


class CommitPublisher:
    """Calls the listeners on the writer thread: in order, and with every transaction once."""

    def __init__(self, supervisor: StateSupervisor, now: Callable[[], int]) -> None:
        self.commit_listeners: list[Callable[[Commit], None]] = []
        self.reset_listeners: list[Callable[[], None]] = []
        self._supervisor = supervisor
        self._now = now
        self._published_seq = 0
        self._published_resets = 0

    def start(self) -> None:
        """Begins after the changes that the supervisor has recovered: listeners read those themselves."""
        self._published_seq = self._supervisor.active_state().end[0]
        self._published_resets = self._supervisor.row_id_resets

    def publish(self, commit: Commit) -> None:
        for listener in self.commit_listeners:
            listener(commit)

    def mark_published(self) -> None:
        """Notes that the listeners know every transaction there is."""
        if (backend := self._supervisor.backend) is not None:
            self._published_seq = backend.end[0]

    def publish_missed(self) -> None:
        """Publishes that row ids were reset, and the transactions that were answered with an unknown outcome and turned
        out to be there after a recovery."""
        supervisor = self._supervisor
        if self._published_resets != supervisor.row_id_resets and supervisor.failure is None:
            self._published_resets = supervisor.row_id_resets
            self._publish_reset()
        while (backend := supervisor.backend) is not None and self._published_seq < backend.end[0]:
            try:
                with backend.snapshot(self._now()) as snapshot:
                    missed = [_commit_of(snapshot, seq, entry) for seq, entry in snapshot.entries(self._published_seq)]
            except (lmdb.Error, StoreError, ValueError) as error:
                log.warning("commits cannot be published, all indexes are rebuilt: %s", error)
                if isinstance(error, lmdb.Error):
                    supervisor.recover(error)
                missed = []
            if not missed:
                self._publish_reset()
            for commit in missed:
                self.publish(commit)
                self._published_seq = commit.seq

    def _publish_reset(self) -> None:
        for listener in self.reset_listeners:
            listener()
        self.mark_published()  # who rebuilds an index reads everything


def _commit_of(snapshot: Snapshot, seq: int, entry: ChangeEntry) -> Commit:
    """The commit of an entry, with its memories as they are now. Raises StoreCorruption where one of them is gone, row
    id and all."""
    touched = []
    for memory_id in dict.fromkeys((*entry.ids, *entry.used)):
        number = snapshot.number(memory_id)
        if number is None:
            raise StoreCorruption(f"memory {memory_id} is gone")
        touched.append(TouchedMemory(number, snapshot.memory(memory_id), snapshot.usage(memory_id)))
    return Commit(seq, entry.at, tuple(touched))


GROUP_BYTES_MAX = 256 << 10  # of journal lines; a group ends there, [SPEC 3.5]
GROUP_SECONDS_MAX = 0.005  # or after this time, or at the supervisor's number of writes
DISK_FULL = "the disk is full: nothing new is taken until there is room"
ATTEMPTS = 3  # to commit a group: the database may have to grow, or to give way to the journal


class _DecidedWrite(NamedTuple):
    write: Write
    receipt: WriteReceipt[Any]
    commit: Commit | None = None  # None where it changed nothing
    line: SealedLine | None = None
    is_long_term: bool = False


class _Decisions(NamedTuple):
    """The result of phase 1."""

    writes: list[_DecidedWrite]
    first_seq: int
    end: Position  # of the group

    @property
    def lines(self) -> list[tuple[SealedLine, bool]]:
        """The journal lines of the group; each with whether it is long-term."""
        return [(each.line, each.is_long_term) for each in self.writes if each.line is not None]

    @property
    def is_empty(self) -> bool:
        return not any(each.line is not None or each.write.vectors for each in self.writes)

    def answer(self) -> None:
        for each in self.writes:
            each.write.future.set_result(each.receipt)

    def fail(self, error: StoreError) -> None:
        for each in self.writes:
            each.write.future.set_exception(error)


class _BackendFailure(Exception):
    """The backend failed before the journal had anything of the group, which can be tried again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class CommitGroup:
    """One group, from its first write to the last answer. Runs on the writer thread."""

    def __init__(
        self, supervisor: StateSupervisor, folder_lock: FolderLock, publisher: CommitPublisher, queue: WriteQueue,
        now: Callable[[], int],
    ) -> None:  # fmt: skip
        self._supervisor = supervisor
        self._folder_lock = folder_lock
        self._publisher = publisher
        self._queue = queue
        self._now = now
        self._unanswered: list[Write] = []  # taken from the queue; survives a failed attempt

    def run(self) -> None:
        """Commits a group of the writes that wait."""
        failure: StoreError | None = None
        try:
            failure = self._run_attempts()
        except BaseException as error:
            failure = UnknownOutcome(f"the writer stopped: {error!r}")
            raise
        finally:  # no caller may wait forever
            failure = failure or WriteFailure(f"the store is out of order: {self._supervisor.failure}")
            for write in self._unanswered:
                if not write.future.done():
                    write.future.set_exception(failure)

    def _run_attempts(self) -> StoreError | None:
        """Attempts the group until every write is answered; the failure of the last attempt where some are not."""
        supervisor, failure, attempts = self._supervisor, None, 0
        while attempts < ATTEMPTS:
            if supervisor.failure is not None or supervisor.backend is None:
                supervisor.recover(supervisor.failure or WriteFailure("the database is closed"))
            self._publisher.publish_missed()
            if supervisor.backend is None:
                self._queue.fail_all(WriteFailure(f"the store is out of order: {supervisor.failure}"))
                return None
            try:
                # Takes a group through its phases. Raises _BackendFailure where it can be tried again.
                try:
                    transaction = self._supervisor.active_state().begin()
                except lmdb.Error as error:
                    raise _BackendFailure(error) from error
                decisions = self._decide(transaction)
                if decisions.is_empty:  # nobody changed anything, so no failure of the disk is theirs
                    transaction.abort()
                    decisions.answer()
                elif self._journal(transaction, decisions) and self._commit(transaction, decisions):
                    self._publish_and_acknowledge(decisions)
                    self._supervisor.journal.rotate_full()
            except _BackendFailure as failed:
                attempts += 1
                failure = write_failure(failed.cause)
                supervisor.recover(failed.cause)
            else:  # some are left where a degraded store makes smaller groups than the one they were taken for
                self._unanswered = [write for write in self._unanswered if not write.future.done()]
                if not self._unanswered:
                    return None
        return failure

    # Phase 1: decide

    def _decide(self, transaction: StateTransaction) -> _Decisions:
        end = self._supervisor.active_state().end
        decisions = _Decisions([], end[0] + 1, end)
        try:
            decisions = self._decide_writes(transaction, decisions)
            if decisions.end[0] >= decisions.first_seq:
                transaction.record_end(self._now(), decisions.end)
        except lmdb.Error as error:
            transaction.abort()
            raise _BackendFailure(error) from error
        except BaseException as error:
            transaction.abort()
            decisions.fail(WriteFailure(f"the write could not be made: {error}"))
            raise
        return decisions

    def _decide_writes(self, transaction: StateTransaction, decisions: _Decisions) -> _Decisions:
        """Decides the writes of an earlier attempt, then those that wait, until the group is full."""
        again, size, started = deque(self._unanswered), 0, time.monotonic()
        end, writes_max = decisions.end, self._supervisor.group_writes_max
        while len(decisions.writes) < writes_max:
            write = again.popleft() if again else self._take()
            if write is None:
                break
            try:
                if self._supervisor.reserve.is_released and not write.frees_space:
                    raise DiskFull(DISK_FULL)
                with transaction.savepoint(self._now()) as writing:
                    decided = _decide_one(writing, write, end)
            except BaseException as error:
                if isinstance(error, lmdb.Error) and not isinstance(error, CALLER_ERRORS):
                    raise
                self._unanswered.remove(write)
                write.future.set_exception(write_failure(error) if isinstance(error, lmdb.Error) else error)
                continue
            decisions.writes.append(decided)
            if decided.line is not None:
                end = (end[0] + 1, decided.line.sum)
                size += len(decided.line.data)
            if not again and (size >= GROUP_BYTES_MAX or time.monotonic() - started >= GROUP_SECONDS_MAX):
                break
        return decisions._replace(end=end)

    def _take(self) -> Write | None:
        """The next write that its caller still wants."""
        while (write := self._queue.next_write()) is not None:
            if write.future.set_running_or_notify_cancel():
                self._unanswered.append(write)
                return write
        return None

    # Phase 2: journal

    def _journal(self, transaction: StateTransaction, decisions: _Decisions) -> bool:
        """Makes the group durable in the journal. Where it fails, the writes are answered with why; False."""
        lines = decisions.lines
        if not lines:
            return True
        try:
            self._append(lines, decisions.first_seq)
        except BaseException as error:
            transaction.abort()
            failure = error if isinstance(error, StoreError) else UnknownOutcome(f"the journal failed: {error!r}")
            if isinstance(failure, UnknownOutcome):
                self._supervisor.record_failure(failure)
            decisions.fail(failure)
            if failure is not error:
                raise
            return False
        return True

    def _append(self, lines: Sequence[tuple[SealedLine, bool]], first_seq: int) -> None:
        """Appends the lines; on a full disk once more, with the room of the reserve."""
        if lock_loss := self._folder_lock.loss():
            raise LockLoss(lock_loss)
        try:
            self._supervisor.journal.append(lines, first_seq)
        except DiskFull:
            if not self._supervisor.reserve.release():
                raise
            self._supervisor.journal.append(lines, first_seq)

    # Phase 3: commit

    def _commit(self, transaction: StateTransaction, decisions: _Decisions) -> bool:
        """Commits what the journal has; False, with the writes answered, where neither this nor a recovery does."""
        try:
            transaction.commit()
        except (lmdb.Error, OSError) as error:
            transaction.abort()
            self._supervisor.recover(error)
            is_journaled = bool(decisions.lines)
            backend = self._supervisor.backend
            if not is_journaled:  # vectors alone, which the recovery could not find in the journal
                decisions.fail(write_failure(error))
                return False
            if backend is None or backend.end != decisions.end:
                decisions.fail(UnknownOutcome(f"the database could not be committed: {error}"))
                return False
        return True

    # Phases 4 and 5: publish, acknowledge

    def _publish_and_acknowledge(self, decisions: _Decisions) -> None:
        try:
            for each in decisions.writes:
                if each.commit is not None:
                    self._publisher.publish(each.commit)
            self._publisher.mark_published()
        finally:
            decisions.answer()


def _decide_one(writing: StateWriter, write: Write, end: Position) -> _DecidedWrite:
    for space, text_hash, rows in write.vectors:
        writing.put_vectors(space, text_hash, rows)
    decided = write.decide(writing)
    if not decided.changes:
        return _DecidedWrite(write, WriteReceipt(0, decided.result))
    for space, text_hash, rows in decided.vectors:
        writing.put_vectors(space, text_hash, rows)
    line = journal_line(writing, decided, write.by, end)
    sealed = seal_readable(line)  # what could not be read back is refused here, not lost later
    touched = writing.apply(line.changes, line.seq, line.entry())
    return _DecidedWrite(
        write, WriteReceipt(line.seq, decided.result), Commit(line.seq, line.at, tuple(touched), line.changes), sealed,
        any(map(is_long_term, line.changes)),
    )  # fmt: skip


def journal_line(writing: Snapshot, decided: WriteResult[Any], by: str, end: Position) -> JournalLine:
    """The line of a decided transaction after `end`, with its clock where the store is shared. SPEC 21"""
    seq, changes, at, clock = end[0] + 1, tuple(decided.changes), writing.now, decided.clock
    if not decided.device and writing.meta(DEVICES):
        clock = clock or next_clock(writing, at)
        changes = stamped_changes(writing, changes, seq, clock)
    return JournalLine(
        seq, at, by, end, changes, what=decided.what, group=decided.group,
        clock=clock if clock != at else 0, device=decided.device, origin=decided.origin,
    )  # fmt: skip


def write_failure(error: Exception) -> StoreError:
    if is_full(error):
        return DiskFull(f"no room on the disk: {error}")
    return WriteFailure(f"the database could not be written: {error}")
