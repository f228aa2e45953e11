"""The state supervisor: chooses the backend that holds the store, and recovers it when the disk fails. SPEC 3.3, 3.4.

Normally the database holds the state. Where it cannot be opened, read or written, the replay of the journal takes its
place: writes are then durable in the journal alone, reads come from memory, and the database is brought up to the
journal, or rebuilt from it, as soon as that works. The store is in one mode at a time (`modes`):

    start ─▶ DatabaseMode ──the database fails──▶ FallbackMode ──retry──▶ CatchUpMode ──caught up──▶ DatabaseMode
                  │                                 ▲      ▲                   │
                  │                                 │      └──── it fails ─────┘
                  └──── outcome unknown, or the journal fails ──▶ FailureMode ──a recovery succeeds──▶ either of them

`_enter` alone changes the mode, and closes what the new mode does not use. A failure is recovered from in this order,
each step only where the one before did not help: reopen the database and replay what it lacks; fail over to the
journal's replay; fail, answer reads as far as possible, and try again later.
"""

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import assert_never

import lmdb

from mnemo_store.codec import NO_CHANGES
from mnemo_store.database.environment import Database, UnreadableRow, is_full
from mnemo_store.database.integrity import is_intact
from mnemo_store.database.migrations import Migration
from mnemo_store.disk import Disk, DiskReserve
from mnemo_store.errors import StoreCorruption, StoreError, UnknownOutcome, WriteFailure
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal
from mnemo_store.recovery import modes
from mnemo_store.recovery.database_files import DatabaseFiles, StoreManifest
from mnemo_store.recovery.fallback_state import FallbackState, ReadWriteLock
from mnemo_store.recovery.modes import (
    CatchUpMode,
    ClosedMode,
    DatabaseMode,
    FailureMode,
    FallbackMode,
    RetryTimer,
    StoreMode,
    backend_of,
    cause_of,
    failure_after,
    pending_vectors_of,
    resources_of,
)
from mnemo_store.recovery.replay import GROUP_WRITES_MAX, CatchUp, Findings, JournalReplayer
from mnemo_store.tables import EMBEDDINGS

log = logging.getLogger("mnemo.store")


class StateSupervisor:
    """Used by the writer thread; readers hold `state_lock` as long as they use the backend."""

    def __init__(
        self, folder: Path, disk: Disk, now: Callable[[], int], map_bytes: int, segment_bytes: int, reserve_bytes: int,
        migrations: Sequence[Migration],
    ) -> None:  # fmt: skip
        self.folder = folder
        self.now = now
        self.mode: StoreMode = ClosedMode()
        self.state_lock = ReadWriteLock()
        self.findings = Findings()
        self.reserve = DiskReserve(folder / "reserve", disk, reserve_bytes)
        self.journal = Journal(folder / "journal", "", "", disk, segment_bytes)  # identity: see `start`
        self.files = DatabaseFiles(folder, disk, now, map_bytes, self.journal, self.findings, migrations)
        self.row_id_resets = 0  # how often memories may have got other row ids
        self._replayer = JournalReplayer(self.journal, self.findings, now)
        self._journal_rewrite: RetryTimer | None = None  # set while the journal still holds what compaction gave up
        self._room_checked_at = 0.0  # monotonic seconds

    # The mode

    @property
    def backend(self) -> Database | FallbackState | None:
        return backend_of(self.mode)

    @property
    def degraded(self) -> str:
        """Reason why the database does not hold the state; "" when it does."""
        return cause_of(self.mode)

    @property
    def failure(self) -> StoreError | None:
        """The error that keeps everything from being written; None when writes are possible."""
        match self.mode:
            case FailureMode(error=error):
                return error
            case ClosedMode(failure=failure):
                return failure
            case _:
                return None

    @property
    def manifest(self) -> StoreManifest:
        return self.files.manifest

    def active_state(self) -> Database | FallbackState:
        """The backend that holds the state. Raises why there is none."""
        if (backend := self.backend) is None:
            raise self.failure or WriteFailure("the store is closed")
        return backend

    def database(self) -> Database:
        """The database, where it holds the state. Raises StoreCorruption where it does not."""
        if not isinstance(backend := self.backend, Database):
            raise StoreCorruption(f"this needs the database, which is out of order: {self.degraded or self.failure}")
        return backend

    @property
    def group_writes_max(self) -> int:
        """Writes of one commit group at most. One without the database: after a power loss only a database could
        distinguish a group that is half on the disk, and was not acknowledged, from one that was and is damaged."""
        return 1 if self.degraded else GROUP_WRITES_MAX

    def record_failure(self, error: StoreError) -> None:
        """Stops all writes until a recovery succeeds, which is attempted at once. Reads go on."""
        self._enter(failure_after(self.mode, error, self.backend))

    def report_row_ids_reset(self) -> None:
        """Makes every index rebuild itself: memories may have got other row ids."""
        self.row_id_resets += 1

    def _enter(self, mode: StoreMode) -> None:
        """Changes the mode, and closes what the new one does not use. Where readers may use that, the caller holds
        `state_lock` exclusively."""
        before, self.mode = self.mode, mode
        kept = resources_of(mode)
        for resource in resources_of(before):
            if not any(resource is each for each in kept):
                resource.close()

    # Start and close

    def start(self, new_identity: Callable[[], tuple[str, str]]) -> None:
        """Recovers what a crash left. `new_identity` makes id and salt of a new store.

        Raises NewerFormat, DiskFull (only where there is no room for the copy before a migration), StoreCorruption or
        OSError where not even the journal can be read, and StoreLoss where it is gone too.
        """
        self.files.read_manifest(new_identity)
        self.journal.open()
        try:
            self._start_on_database()
        except (lmdb.Error, OSError) as error:
            self._start_after_failure(error)
        self.files.mark_open(is_open=isinstance(self.mode, DatabaseMode))
        self.reserve.allocate()
        for damage in self.journal.damage:
            log.warning("journal %s at byte %d, %d bytes: %s", *damage[:4])

    def close(self, *, clean: bool) -> None:
        """Closes everything; `clean` lets the next start open the database without verifying it."""
        with self.state_lock.exclusive():
            try:
                if clean and isinstance(self.mode, DatabaseMode):
                    self.files.mark_closed(self.mode.database)
            except (OSError, lmdb.Error) as error:
                log.error("the store could not be marked as cleanly closed: %s", error)
            finally:
                self._enter(ClosedMode())
                self.journal.close()

    def _start_on_database(self) -> None:
        is_sound = self.files.is_sound_at_start()
        if not is_sound:
            self.files.check_journal_can_restore("fails verification")
            self.files.quarantine(with_views=True)
        self.files.mark_open(is_open=False)  # until all is open: a start that fails makes the next one verify
        try:
            database = self._open_and_replay(is_restored=not is_sound)
        except lmdb.Error as error:
            if is_full(error) or not is_sound:
                raise
            is_surely_damaged = isinstance(error, lmdb.InvalidError | lmdb.CorruptedError)
            if not is_surely_damaged and is_intact(self.files.folder):
                raise
            self.files.check_journal_can_restore(f"cannot be opened ({error})")
            why = f"the database was damaged ({error}): quarantined and restored from the journal"
            self.findings.record_recovered(why)
            self.files.quarantine(with_views=True)
            database = self._open_and_replay(is_restored=True)
        self._enter(DatabaseMode(database))

    def _start_after_failure(self, error: Exception) -> None:
        """Starts once more with the room of the reserve where the disk is full, else on the journal alone."""
        if is_full(error) and self.reserve.release():
            try:
                self._start_on_database()
            except (lmdb.Error, OSError) as second:
                log.error("the database could not be opened (%s), nor with the reserve released", error)
                error = second
            else:
                return
        self._start_on_journal(error)

    def _start_on_journal(self, error: Exception) -> None:
        self.files.check_journal_can_restore(f"cannot be opened ({error})")
        try:
            self._replayer.close_gap()
        except (OSError, StoreError) as second:
            log.error("the last group of the journal could not be put in order: %s", second)
        with self.state_lock.exclusive():
            self._fail_over(f"the database cannot be opened: {error}")
        if self.backend is None:
            raise StoreCorruption(str(self.failure)) from error
        if self.findings.data_losses:
            shutil.rmtree(self.folder / "views", ignore_errors=True)  # row ids may be others now

    def _open_and_replay(self, *, is_restored: bool) -> Database:
        """Opens the database and brings it and the journal to the same change."""
        database = self.files.open()
        if database.end != NO_CHANGES and not self._replayer.follows_snapshot(database.end):
            database.close()
            why = "the database was older than the beginning of the journal: quarantined and restored from the journal"
            self.findings.record_recovered(why)
            self.files.quarantine(with_views=True)
            self.report_row_ids_reset()
            database = self.files.open()
        try:
            if database.end == NO_CHANGES:
                self._load_snapshot(database)
            self._replayer.replay(database, is_restored=is_restored)
            self._align_journal(database)
            self.files.sync_names()
            self._finish_compaction(database)
        except BaseException:
            database.close()
            raise
        return database

    def _load_snapshot(self, database: Database) -> None:
        self._replayer.load_snapshot(database)
        self.files.adopt_salt(database)

    def _align_journal(self, database: Database) -> None:
        """Makes the journal continue after the last change of the database; one that ends before it is rewritten."""
        ended = self.journal.last[0]
        self.journal.continue_after(database.end)
        if ended >= database.end[0]:
            return
        self.findings.record_recovered(f"the journal ended at change {ended}, the database at {database.end[0]}")
        try:
            self.rewrite_journal(database)
        except (OSError, StoreError, ValueError) as error:
            self.findings.record_data_loss(f"the journal could not be rewritten from the database: {error}")
        else:
            self.findings.record_recovered("the journal was rewritten from the database")

    # Compaction (see maintenance.compaction)

    def rewrite_journal(self, database: Database) -> None:
        """Rewrites the journal as a snapshot of this database."""
        self.journal.rewrite(dump.write(lambda: database.snapshot(self.now())), database.end)

    def swap_in_new_database(self) -> None:
        """Replaces the open database by the new one next to it, while readers wait."""
        with self.state_lock.exclusive():
            self._enter(ClosedMode())
            try:
                self.files.swap_in_new()
            finally:  # either of the two stands there now, and is whole
                try:
                    self._enter(DatabaseMode(self.files.open()))
                except (lmdb.Error, OSError, StoreError) as error:
                    self.record_failure(UnknownOutcome(f"the database cannot be opened: {error}"))
                    raise
        self.files.remove_new()
        self.files.mark_open(is_open=True)

    @contextlib.contextmanager
    def journal_rewrite_pending(self) -> Iterator[None]:
        """Marks the block in which the database is compacted and the journal not yet: where it raises, the journal is
        rewritten later."""
        self._journal_rewrite = RetryTimer.due_now()
        yield
        self._journal_rewrite = None

    def _finish_compaction(self, database: Database) -> None:
        """Rewrites the journal where compaction was interrupted between database and journal: the journal then still
        holds what was given up."""
        before = self._journal_rewrite or RetryTimer.due_now()
        try:
            with database.snapshot(self.now()) as here:
                begins = int(here.meta("history_from").partition(" ")[0] or 0)
            if begins > self.journal.snapshot_last[0]:
                self.rewrite_journal(database)
        except (OSError, StoreError, ValueError) as error:
            log.warning("the journal could not be rewritten after compaction: %s", error)
            self._journal_rewrite = before.after_failure()
        else:
            self._journal_rewrite = None

    # Recovery

    def recover(self, cause: Exception) -> None:
        """Recovers from a failure: reopens the database, or fails over to the journal. Afterwards the backend has what
        the journal has, or the store is in FailureMode."""
        log.error("the store failed and is being recovered: %s", cause)
        with self.state_lock.exclusive():
            if self.degraded:
                self._reread_journal(self.degraded)
            else:
                self._recover_database(cause)

    def _recover_database(self, cause: Exception) -> None:
        if is_full(cause):
            self.reserve.release()
        has_outgrown_map = isinstance(cause, lmdb.MapFullError)
        if has_outgrown_map and not (isinstance(self.backend, Database) and self.files.double_map(self.backend)):
            self._fail_over(f"the database is full and cannot grow: {cause}")
            return
        try:
            is_reopened = self._reopen_database(verify=not has_outgrown_map)
        except (lmdb.Error, OSError, StoreError) as error:
            cause, is_reopened = error, False
        if not is_reopened:
            self._fail_over(f"the database failed: {cause}")

    def _reopen_database(self, *, verify: bool) -> bool:
        self._enter(ClosedMode(self.failure))
        self.journal.close()
        self.journal.open()
        if verify:
            self.files.mark_suspect()
            if not is_intact(self.files.folder):
                return False
        self._enter(DatabaseMode(self._open_and_replay(is_restored=False)))
        return True

    def _reread_journal(self, cause: str) -> None:
        try:
            self.journal.close()
            self.journal.open()
        except (OSError, StoreError) as error:
            self.record_failure(UnknownOutcome(f"the journal cannot be read: {error}"))
        else:
            self._fail_over(cause)

    def _fail_over(self, cause: str) -> None:
        """Makes the journal's replay the backend. The caller holds `state_lock` exclusively."""
        log.error("%s; the journal takes its place", cause)
        before = self.mode
        self.files.mark_suspect()
        self._enter(ClosedMode(self.failure))
        try:
            fallback = FallbackState(self.journal)
            fallback.vectors.update(pending_vectors_of(before))
            self.files.adopt_salt(fallback)
            self.journal.continue_after(fallback.end)
        except (OSError, StoreError) as error:
            failure = UnknownOutcome(f"{cause}; nor can the journal be read: {error}")
            self._enter(failure_after(before, failure, backend=None))
            return
        self._enter(FallbackMode(fallback, cause, RetryTimer.after_first_pause()))
        for gap in fallback.gaps:
            self.findings.record_data_loss(gap)
        if fallback.gaps:
            self.report_row_ids_reset()

    # Attempts to get back to normal

    def seconds_until_retry(self) -> float | None:
        """Seconds until the next attempt is due; None when healthy."""
        match self.mode:
            case CatchUpMode():
                return 0.0
            case FallbackMode(retry=retry) | FailureMode(retry=retry):
                return retry.seconds_left
            case DatabaseMode() if self._journal_rewrite is not None:
                return self._journal_rewrite.seconds_left
            case DatabaseMode() | ClosedMode():
                return modes.RETRY_SECONDS_MIN if self.reserve.is_released else None
            case _:
                assert_never(self.mode)

    def attempt_recovery(self) -> None:
        """Takes one step back to normal where one is due."""
        if self.reserve.is_released and time.monotonic() - self._room_checked_at >= modes.RETRY_SECONDS_MIN:
            self.reserve.reallocate_if_room()
            self._room_checked_at = time.monotonic()
        match self.mode:
            case FailureMode(error=error, retry=retry) if retry.is_due:
                self.recover(error)
                if isinstance(self.mode, FailureMode):
                    self._enter(replace(self.mode, retry=retry.after_failure()))
            case CatchUpMode():
                self._return_to_database(self.mode)
            case FallbackMode(retry=retry) if retry.is_due:
                self._return_to_database(self.mode)
            case DatabaseMode(database) if self._journal_rewrite is not None and self._journal_rewrite.is_due:
                self._finish_compaction(database)
            case DatabaseMode() | FallbackMode() | FailureMode() | ClosedMode():
                pass  # nothing is due
            case _:
                assert_never(self.mode)

    def _return_to_database(self, mode: FallbackMode | CatchUpMode) -> None:
        """Opens the database, or makes a new one, and replays one slice of what it lacks; once it has everything, it
        holds the state again. Where a step fails, the fallback state serves on until the next attempt."""
        fallback, cause, retry = mode.fallback, mode.cause, mode.retry
        try:
            if isinstance(mode, FallbackMode):
                database = self._open_for_catch_up(fallback)
                mode = CatchUpMode(fallback, cause, retry, CatchUp(database, self._replayer))
                self._enter(mode)
                self.files.sync_names()
            if mode.catch_up.step(fallback.end):
                self._finish_catch_up(mode)
        except (lmdb.Error, OSError, StoreError) as error:
            log.info("the database is not back: %s", error)
            self._enter(FallbackMode(fallback, cause, retry.after_failure()))
            if isinstance(error, UnreadableRow):
                with contextlib.suppress(OSError):
                    self.files.quarantine(with_views=False)

    def _open_for_catch_up(self, fallback: FallbackState) -> Database:
        """A database that holds what the journal held at some earlier change: the one that is there, or a new one."""
        if self.files.size() > 0 and is_intact(self.files.folder):
            database = self.files.open()
            if self._replayer.leads_from(database.end, fallback.end):
                return database
            database.close()
        self.files.quarantine(with_views=False)
        self.findings.record_recovered("the database was quarantined and restored from the journal")
        database = self.files.open()
        try:
            self._load_snapshot(database)
        except BaseException:
            database.close()
            raise
        return database

    def _finish_catch_up(self, mode: CatchUpMode) -> None:
        database, vectors = mode.catch_up.database, mode.fallback.vectors
        if vectors:
            database.write(self.now(), lambda writing: writing.put_rows(EMBEDDINGS, vectors.items()))
        with self.state_lock.exclusive():
            self._enter(DatabaseMode(database))
        log.warning("the database is back, at change %d", database.end[0])
        if self.findings.data_losses:
            self.report_row_ids_reset()
