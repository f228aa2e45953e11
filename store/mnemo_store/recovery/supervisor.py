"""What holds the store, and what happens to it when the disk does not do its part. SPEC 3.3, 3.4, FORMAT.md.

Normally the database holds the state. Where it cannot be opened, read or written, what the journal replays to takes
its place (`degraded` says why): writes are durable in the journal alone, reads come from memory, and the database is
brought up to the journal, or made anew from it, as soon as that can be done. A database that may be damaged is
verified before it is opened, and put aside when it does not verify.
"""

import contextlib
import logging
import mmap
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import lmdb

from mnemo_store.backend import StateBackend
from mnemo_store.codec import FORMAT, NO_CHANGES, JournalLine, seal
from mnemo_store.database import migrations
from mnemo_store.database.environment import (
    DATABASE_FILE,
    MAP_BYTES_MAX,
    Database,
    UnreadableRow,
    is_full,
)
from mnemo_store.database.integrity import boot_mark, has_all_pages, is_intact
from mnemo_store.database.table_access import TableRow, TableWriter
from mnemo_store.disk import Disk
from mnemo_store.errors import (
    StoreCorruption,
    StoreError,
    StoreLoss,
    UnknownOutcome,
    WriteFailure,
)
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal, LocatedLine, newest_header
from mnemo_store.records import ChangeEntry, is_long_term
from mnemo_store.recovery import manifest
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.recovery.read_write_lock import ReadWriteLock
from mnemo_store.recovery.reserve import DiskReserve

GROUP_WRITES_MAX = 64  # transactions of one commit group at most [SPEC 3.5]
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 60.0  # between two tries to have the database back, doubling
REPLAY_LINES = 500  # in one commit
EMPTY_BYTES_MAX = 12 * mmap.PAGESIZE  # of a database that holds no memory: it has 9 pages, with one memory 15

log = logging.getLogger("mnemo.store")


@contextlib.contextmanager
def _report_unreadable_rows() -> Iterator[None]:
    """Within it a row that cannot be read is damage of the database, like a page that does not verify."""
    try:
        yield
    except ValueError as error:
        raise UnreadableRow(f"a row cannot be read: {error}") from error


class StateSupervisor:
    """Used by the writer thread; readers come in by `gate`."""

    def __init__(
        self, folder: Path, disk: Disk, now: Callable[[], int], map_bytes: int, segment_bytes: int, reserve_bytes: int
    ) -> None:
        self.folder = folder
        self.disk = disk
        self.now = now
        self.state_lock = ReadWriteLock()
        self.state: StateBackend | None = None
        self.recovered: list[str] = []  # what was wrong at the start or since, and is no more
        self.data_losses: list[str] = []  # what was wrong and cannot be mended from here
        self.degraded = ""  # why the database is not what holds the state; "" when it is
        self.broken: StoreError | None = None  # why nothing can be written at all
        self.reserve = DiskReserve(folder / "reserve", disk, reserve_bytes)
        self.row_id_resets = 0  # how often the numbers of memories may have become others
        self.is_compaction_unfinished = False  # the database was written anew, and the journal has yet to be
        self.manifest: manifest.StoreManifest
        self.journal: Journal
        self._map_bytes = map_bytes
        self._segment_bytes = segment_bytes
        self._returning: Database | None = None  # on its way back
        self._behind: Iterator[LocatedLine] = iter(())
        self._vectors: dict[bytes, bytes] = {}  # that came while there was no database
        self._retry_at = 0.0  # monotonic
        self._retry_seconds = RETRY_SECONDS_MIN
        self._looked_at = 0.0  # monotonic: for space

    # Starting and ending

    def start(self, new: Callable[[], tuple[str, str]]) -> None:
        """Recovers what a crash left. `new` makes id and salt of a new store.

        Raises NewerFormat, DiskFull (only where an older format cannot be kept a copy of), Damaged or OSError where not
        even the journal can be read, and NothingLeft where it is gone too.
        """
        self.manifest, why = manifest.read(self.folder, new)
        if why:
            self.record_recovered(why)
        if self.manifest.format < FORMAT:
            kept = migrations.copy_before_migration(self.folder, self.manifest.format, self.disk, self.now())
            log.info("format %d becomes %d; as it was, it is kept as %s", self.manifest.format, FORMAT, kept)
            self.manifest.format = FORMAT
        self.journal = Journal(
            self.folder / "journal", self.manifest.store_id, self.manifest.salt, self.disk, self._segment_bytes
        )
        self.journal.open()
        try:
            self._start_database()
        except (lmdb.Error, OSError) as error:
            if is_full(error) and self.reserve.release():
                self._start_again(error)
            else:
                self._start_degraded(error)
        self.mark_running()
        self.reserve.allocate()
        for damage in self.journal.damage:
            log.warning("journal %s at byte %d, %d bytes: %s", *damage[:4])

    def close(self, *, clean: bool) -> None:
        """Closes everything; `clean` marks the database as one that needs no look at the next start."""
        with self.state_lock.exclusive():
            try:
                if clean and isinstance(self.state, Database):
                    self.state.sync()
                    stat = self._data.stat()
                    self.manifest.clean, self.manifest.seq = True, self.state.end[0]
                    self.manifest.database_bytes, self.manifest.database_mtime_ns = stat.st_size, stat.st_mtime_ns
                    self.manifest.write(self.folder, self.disk)
            except (OSError, lmdb.Error) as error:
                log.error("the store could not be marked as cleanly closed: %s", error)
            finally:
                self._close_state()
                self._give_up_returning()
                if hasattr(self, "journal"):
                    self.journal.close()

    @property
    def database_folder(self) -> Path:
        return self.folder / "db"

    @property
    def _data(self) -> Path:
        return self.database_folder / DATABASE_FILE

    @property
    def group_writes_max(self) -> int:
        """Transactions of one commit group at most. Of the journal alone each is one: no database would tell a group
        that a power loss left in part, and that nobody was told of, from one that was acknowledged and damaged."""
        return 1 if self.degraded else GROUP_WRITES_MAX

    def active_state(self) -> StateBackend:
        """What holds the state. Raises what keeps anything from holding it."""
        if self.state is None:
            raise self.broken or WriteFailure("the store is closed")
        return self.state

    def _start_database(self) -> None:
        sound = self._is_sound(clean=self.manifest.clean)
        if not sound:
            self._refuse_if_nothing_is_left("does not verify")
            self._put_aside()
        self.manifest.running = ""  # until all is open: a start that fails makes the next one verify
        self.write_manifest()
        try:
            self.state = self._open_and_replay(from_nothing=not sound)
        except lmdb.Error as error:
            if is_full(error) or not sound:
                raise
            is_surely_damaged = isinstance(error, lmdb.InvalidError | lmdb.CorruptedError)
            if not is_surely_damaged and is_intact(self.database_folder):
                raise
            self._refuse_if_nothing_is_left(f"cannot be opened ({error})")
            self.record_recovered(f"the database was damaged ({error}): put aside and restored from the journal")
            self._put_aside()
            self.state = self._open_and_replay(from_nothing=True)

    def _start_again(self, before: Exception) -> None:
        """Once the reserve has made room."""
        try:
            self._start_database()
        except (lmdb.Error, OSError) as error:
            log.error("the database could not be opened (%s), nor with the reserve given back", before)
            self._start_degraded(error)

    def _start_degraded(self, error: Exception) -> None:
        self._refuse_if_nothing_is_left(f"cannot be opened ({error})")
        try:
            self._close_gap()
        except (OSError, StoreError) as second:
            log.error("the journal's last group could not be put in order: %s", second)
        self.fail_over(f"the database cannot be opened: {error}")
        if self.state is None:
            raise StoreCorruption(str(self.broken)) from error
        if self.data_losses:
            shutil.rmtree(self.folder / "views", ignore_errors=True)  # the numbers in them may be others now

    def _refuse_if_nothing_is_left(self, what: str) -> None:
        """Without the database, where the journal is gone too: an empty store would begin in silence. A journal that
        begins with change 1 and has none is one of an empty store."""
        header = newest_header(self.journal.folder)
        if self.journal.last != NO_CHANGES or (header is not None and header.first_seq == 1):
            return
        size = self._data.stat().st_size if self._data.exists() else 0
        if self.manifest.seq or size > EMPTY_BYTES_MAX:
            where = f"the database in {self.folder}"
            why = f"{where} {what if size else 'is gone'}, and there is no journal to make it anew from"
            raise StoreLoss(f"{why}: put a backup in its place (mnemo restore), or move the folder away to begin anew")

    def _close_gap(self) -> None:
        """Makes a journal whose last group has holes one without, so that what is written behind it is in order.

        With the database out of reach nobody knows whether that group was answered: what is there of it is kept.
        """
        end, behind = self.journal.snapshot_last, list[LocatedLine]()
        for read in self.journal.lines(after=end[0]):
            if behind or read.line.seq != end[0] + 1:
                behind.append(read)
                if len(behind) > GROUP_WRITES_MAX:
                    behind, end = [], (read.line.seq, read.sum)  # a hole in the middle: damage, told when replayed
            else:
                end = (read.line.seq, read.sum)
        if not behind:
            return
        self.journal.continue_after(end)
        first_seq, lines = end[0] + 1, []
        for seq, read in enumerate(behind, first_seq):
            was = read.line
            sealed = seal(JournalLine(seq, was.at, was.by, end, was.changes, what=was.what, group=was.group))
            lines.append((sealed, any(map(is_long_term, was.changes))))
            end = (seq, sealed.sum)
        self.journal.append(lines, first_seq)

    def _is_sound(self, *, clean: bool) -> bool:
        """Whether the database may be opened: a truncated file would kill the process, an empty one would be taken
        for a new store."""
        path = self._data
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            if self.manifest.seq or self.journal.last != NO_CHANGES:
                self.record_recovered("the database was missing or empty: restored from the journal")
            return False
        as_closed = (self.manifest.database_bytes, self.manifest.database_mtime_ns)
        if clean and (size, path.stat().st_mtime_ns) == as_closed:
            return True
        was_only_killed = not clean and self.manifest.running and self.manifest.running == boot_mark(path)
        if was_only_killed and has_all_pages(path):
            return True
        sound = is_intact(self.database_folder)
        if not sound:
            self.record_recovered("the database was damaged: put aside and restored from the journal")
        return sound

    def _put_aside(self) -> None:
        """Makes way for a new database. The views go with the old one: their numbers are its own."""
        views = self.folder / "views"
        if views.exists() and self.state is None:
            shutil.rmtree(views)
        if self._data.exists() and self._data.stat().st_size > 0:
            stamp = self.now()
            while (aside := self.folder / f"db.damaged-{stamp}").exists():
                stamp += 1
            self.disk.rename(self.database_folder, aside)
            log.error("the database does not verify; it is kept as %s", aside.name)

    def _open_and_replay(self, *, from_nothing: bool) -> Database:
        """The database, brought up to the journal."""
        database = self._opened()
        if database.end != NO_CHANGES and not self._is_behind_snapshot(database.end):
            database.close()
            self.record_recovered(
                "the database is older than what the journal begins with: put aside and restored from the journal"
            )
            self._put_aside()
            self.row_id_resets += 1
            database = self._opened()
        try:
            if database.end == NO_CHANGES:
                self._load_snapshot(database)
            self._replay(database, from_nothing=from_nothing)
            self._hold_journal_to(database)
            self._sync_names()
            self._finish_writing_anew(database)
        except BaseException:
            database.close()
            raise
        return database

    def _is_behind_snapshot(self, end: tuple[int, str]) -> bool:
        """Whether what ends so can have come of what the journal begins with."""
        seq, checksum = self.journal.snapshot_last
        return end[0] > seq or (end[0] == seq and checksum in ("", end[1]))

    @_report_unreadable_rows()
    def _opened(self) -> Database:
        """The database, of this format and of this store."""
        database = Database.open(self.database_folder, self.disk, self._map_bytes)
        try:
            with database.snapshot(self.now()) as here:
                stored = int(here.meta("format") or 0)
                known = (here.meta("store"), here.meta("salt"))
            own = (self.manifest.store_id, self.manifest.salt)
            if not known[0]:
                facts = {"format": str(FORMAT), "store": own[0], "salt": own[1]}
                database.write(self.now(), lambda writing: _set(writing, facts))
            elif known != own:
                self._adopt(*known)
            if 0 < stored < FORMAT:
                database.write(self.now(), lambda writing: migrations.migrate(writing, stored))
        except BaseException:
            database.close()
            raise
        return database

    def _adopt(self, store_id: str, salt: str) -> None:
        """Takes the database's word for whose store this is, where neither store.json nor the journal knew."""
        self.record_recovered("store.json did not fit the database and is written anew from it")
        self.manifest.store_id = self.journal.store_id = store_id
        self.manifest.salt = self.journal.salt = salt
        self.write_manifest()

    def _load_snapshot(self, database: Database) -> None:
        """What a journal that was written anew begins with. The key of its hashes is from then on the store's."""
        rows = self.journal.snapshot_rows()
        database.write(self.now(), lambda writing: dump.load((row for row, _ in rows), writing))
        self._take_salt_of(database)
        last = self.journal.snapshot_last
        if last != NO_CHANGES:
            _record_end(database, self.now(), last)

    def _replay(self, database: Database, *, from_nothing: bool) -> None:
        """Brings the database up to the journal: the lines behind its seq, in order.

        What a crash leaves behind the database is at most one group, of which one file may hold the end and the other
        not: behind such a gap nothing counts, since nothing of that group was acknowledged. With more behind than one
        group, or no database to start from, a gap is damage: it is told, and the rest is kept.
        """
        end = database.end
        may_be_unfinished = not from_nothing and self.journal.last[0] - end[0] <= GROUP_WRITES_MAX
        pending: list[LocatedLine] = []
        for read in self.journal.lines(after=end[0]) if self.journal.last[0] > end[0] else ():
            gap = read.line.seq != end[0] + 1
            if gap and may_be_unfinished:
                log.warning("change %d and what follows were never acknowledged and are dropped", end[0] + 1)
                break
            self._look_at_gap(read, end)
            pending.append(read)
            end = (read.line.seq, read.sum)
            if len(pending) >= REPLAY_LINES:
                _apply(database, pending, self.now())
                pending = []
        _apply(database, pending, self.now())

    def _look_at_gap(self, read: LocatedLine, end: tuple[int, str]) -> None:
        if read.line.seq != end[0] + 1:
            self.record_data_loss(f"changes {end[0] + 1} to {read.line.seq - 1} cannot be read in the journal")
        elif read.line.prev != end and end != NO_CHANGES:
            log.warning("journal line %d does not name the line before it", read.line.seq)

    def _sync_names(self) -> None:
        """LMDB syncs the file it makes, and not its name."""
        self.disk.sync_folder(self.database_folder)
        self.disk.sync_folder(self.folder)

    def _finish_writing_anew(self, database: Database) -> None:
        """Where compacting was cut short between the database and the journal, which then holds what was given up."""
        self.is_compaction_unfinished = True
        with contextlib.suppress(OSError, StoreError, ValueError):
            with database.snapshot(self.now()) as here:
                begins = int(here.meta("history_from").partition(" ")[0] or 0)
            if begins > self.journal.snapshot_last[0]:
                self.rewrite_journal(database)
            self.is_compaction_unfinished = False

    def _hold_journal_to(self, database: Database) -> None:
        """Has the journal go on behind the database; one that ends before it is written anew."""
        ended = self.journal.last[0]
        self.journal.continue_after(database.end)
        if ended >= database.end[0]:
            return
        self.record_recovered(f"the journal ended at change {ended}, the database at {database.end[0]}")
        try:
            self.rewrite_journal(database)
        except (OSError, StoreError, ValueError) as error:
            self.record_data_loss(f"the journal could not be written anew from the database: {error}")
        else:
            self.record_recovered("the journal was written anew from the database")

    # Written anew: see `rewriting`

    def rewrite_journal(self, database: Database) -> None:
        """As a snapshot of this database."""
        self.journal.rewrite(dump.write(lambda: database.snapshot(self.now())), database.end)

    @contextlib.contextmanager
    def new_database(self) -> Iterator[Database]:
        """An empty database, whole on the disk when the body is done, gone when it raises."""
        shutil.rmtree(self._beside, ignore_errors=True)
        database = Database.open(self._beside, self.disk, self._map_bytes)
        try:
            yield database
            database.sync()
        except BaseException:
            database.close()
            shutil.rmtree(self._beside, ignore_errors=True)
            raise
        database.close()

    def swap_in_database(self) -> None:
        """The database beside takes the place of the one that is open: the change of one name."""
        with self.state_lock.exclusive():
            self._close_state()
            try:
                self.disk.rename(self._beside / DATABASE_FILE, self._data)
                self.disk.sync_folder(self.database_folder)
            finally:  # whichever stands there now is whole
                self._open_again()
        shutil.rmtree(self._beside, ignore_errors=True)
        self.mark_running()

    def _open_again(self) -> None:
        try:
            self.state = self._opened()
        except (lmdb.Error, OSError, StoreError) as error:
            self.broken = UnknownOutcome(f"the database cannot be opened: {error}")
            raise

    def take_ownership(self, database: Database) -> None:
        """Makes a database that was filled from a stream this store's own."""
        with database.snapshot(self.now()) as here:
            end = (here.seq, here.meta("sum"))
        facts = {"format": str(FORMAT), "store": self.manifest.store_id}
        database.write(self.now(), lambda writing: _set(writing, facts))
        database.end = end
        self._take_salt_of(database)

    def _take_salt_of(self, state: StateBackend) -> None:
        with state.snapshot(self.now()) as here:
            self.manifest.salt = self.journal.salt = here.meta("salt")

    @property
    def _beside(self) -> Path:
        return self.folder / "db.new"

    # When the disk fails

    def recover(self, cause: Exception) -> None:
        """After a failure of the database: it is opened anew and brought up to the journal; where that cannot be, what
        the journal replays to takes its place. Afterwards `state` holds what the journal has, or `broken` says why
        nothing does.
        """
        log.error("the store failed and is put in order: %s", cause)
        if self.degraded:
            self._read_journal_again()
            return
        if is_full(cause):
            self.reserve.release()
        grows = isinstance(cause, lmdb.MapFullError)
        if grows and not self._grow():
            self.fail_over(f"the database is full and cannot grow: {cause}")
            return
        try:
            reopened = self._reopen(trusted=grows)
        except (lmdb.Error, OSError, StoreError) as error:
            cause, reopened = error, False
        if not reopened:
            self.fail_over(f"the database failed: {cause}")

    def _read_journal_again(self) -> None:
        try:
            self.journal.close()
            self.journal.open()
        except (OSError, StoreError) as error:
            self.broken = UnknownOutcome(f"the journal cannot be read: {error}")
        else:
            self.fail_over(self.degraded)

    def _grow(self) -> bool:
        """Asks for twice the address space, at the next opening."""
        if not isinstance(self.state, Database):
            return False
        wanted = 2 * self.state.map_bytes
        if wanted > MAP_BYTES_MAX:
            return False
        self._map_bytes = wanted
        return True

    def _reopen(self, *, trusted: bool) -> bool:
        with self.state_lock.exclusive():
            self._close_state()
            self.journal.close()
            self.journal.open()
            if not trusted:
                self._distrust()
                if not is_intact(self.database_folder):
                    return False
            self.state = self._open_and_replay(from_nothing=False)
        self.broken = None
        return True

    def fail_over(self, cause: str) -> None:
        """What the journal replays to takes the database's place."""
        log.error("%s; the journal takes its place", cause)
        self._give_up_returning()
        self._distrust()
        with self.state_lock.exclusive():
            if isinstance(self.state, FallbackState):
                self._vectors = self.state.vectors
            self._close_state()
            try:
                replayed = FallbackState(self.journal)
                replayed.vectors.update(self._vectors)
                self._take_salt_of(replayed)
                self.journal.continue_after(replayed.end)
            except (OSError, StoreError) as error:
                self.broken = UnknownOutcome(f"{cause}; nor can the journal be read: {error}")
                return
            self.state, self.broken = replayed, None
        for gap in replayed.gaps:
            self.record_data_loss(gap)
        self.degraded = cause
        self.row_id_resets += bool(replayed.gaps)
        self._retry_at, self._retry_seconds = time.monotonic() + RETRY_SECONDS_MIN, RETRY_SECONDS_MIN

    def seconds_until_retry(self) -> float | None:
        """Until there is something to try; None when all is well."""
        if self._returning is not None:
            return 0.0
        if self.degraded or self.broken is not None or self.is_compaction_unfinished:
            return max(0.0, self._retry_at - time.monotonic())
        return RETRY_SECONDS_MIN if self.reserve.is_released else None

    def attempt_recovery(self) -> None:
        """One step towards having everything back, where something is missing and it is time to try."""
        if self.reserve.is_released and time.monotonic() - self._looked_at >= RETRY_SECONDS_MIN:
            self.reserve.reallocate_if_room()
            self._looked_at = time.monotonic()
        is_time = time.monotonic() >= self._retry_at
        if self.broken is not None:
            if is_time:
                self.recover(self.broken)
                if self.broken is not None:
                    self._rest()
        elif self.degraded and (self._returning is not None or is_time):
            try:
                self._return_one_step()
            except (lmdb.Error, OSError, StoreError) as error:
                log.info("the database is not back: %s", error)
                self._give_up_returning()
                if isinstance(error, UnreadableRow):
                    with contextlib.suppress(OSError):
                        self._put_aside()
                self._rest()
        elif self.is_compaction_unfinished and is_time and isinstance(self.state, Database):
            self._finish_writing_anew(self.state)
            if self.is_compaction_unfinished:
                self._rest()

    def _rest(self) -> None:
        """Longer from one try to the next."""
        self._retry_seconds = min(RETRY_SECONDS_MAX, 2 * self._retry_seconds)
        self._retry_at = time.monotonic() + self._retry_seconds

    def _return_one_step(self) -> None:
        """Opens the database, or makes it anew, and brings it a slice nearer to the journal; once it is there, it
        holds the state again."""
        assert self.state is not None
        if self._returning is None:
            self._returning = self._begin_return()
            self._sync_names()
        pending: list[LocatedLine] = []
        end = self._returning.end
        for read in self._behind:
            self._look_at_gap(read, end)
            pending.append(read)
            end = (read.line.seq, read.sum)
            if len(pending) >= REPLAY_LINES:
                _apply(self._returning, pending, self.now())
                return
        _apply(self._returning, pending, self.now())
        if self._returning.end[0] < self.state.end[0]:
            self._behind = self.journal.lines(after=self._returning.end[0])  # what was written meanwhile
            return
        if self._returning.end != self.state.end:
            raise WriteFailure("the database is not the journal's")
        if isinstance(self.state, FallbackState) and self.state.vectors:
            vectors = self.state.vectors
            self._returning.write(self.now(), lambda writing: _put_vectors(writing, vectors))
            self._vectors = {}
        with self.state_lock.exclusive():
            self.state.close()
            self.state, self._returning = self._returning, None
        log.warning("the database is back, at change %d", self.state.end[0])
        self.degraded = ""
        self.row_id_resets += bool(self.data_losses)

    def _begin_return(self) -> Database:
        size = self._data.stat().st_size if self._data.exists() else 0
        sound = size > 0 and is_intact(self.database_folder)
        database = None
        if sound:
            database = self._opened()
            if not self._is_on_the_way(database):
                database.close()
                sound, database = False, None
        if database is None:
            self._put_aside()
            self.record_recovered("the database was put aside and restored from the journal")
            database = self._opened()
            self._load_snapshot(database)
        self._behind = self.journal.lines(after=database.end[0])
        return database

    def _is_on_the_way(self, database: Database) -> bool:
        """Whether what the database holds is what the journal held up to there."""
        assert self.state is not None
        if database.end[0] >= self.state.end[0]:
            return database.end == self.state.end
        if not self._is_behind_snapshot(database.end):
            return False
        following = next(self.journal.lines(after=database.end[0]), None)
        return following is not None and following.line.prev == database.end

    def _give_up_returning(self) -> None:
        self._behind = iter(())  # which may hold files open
        if self._returning is not None:
            self._returning.close()
            self._returning = None

    def _distrust(self) -> None:
        """Has the next start verify the database: what the disk refused to take may still look well in the cache."""
        if self.manifest.running:
            self.manifest.running = ""
            self.write_manifest()

    def _close_state(self) -> None:
        if self.state is not None:
            self.state.close()
            self.state = None

    # The manifest

    def mark_running(self) -> None:
        """Names the database that is open, so that a mere kill costs no verification."""
        self.manifest.running = boot_mark(self._data) if isinstance(self.state, Database) else ""
        self.write_manifest()

    def write_manifest(self) -> None:
        """As of a store that is in use. Without it the next start verifies the database."""
        self.manifest.clean = False
        try:
            self.manifest.write(self.folder, self.disk)
        except OSError as error:
            log.warning("store.json could not be written: %s", error)

    def record_recovered(self, what: str) -> None:
        if what not in self.recovered:
            self.recovered.append(what)

    def record_data_loss(self, what: str) -> None:
        if what not in self.data_losses:
            self.data_losses.append(what)


def _set(writing: TableWriter, facts: dict[str, str]) -> None:
    for name, value in facts.items():
        writing.set_meta(name, value)


def _put_vectors(writing: TableWriter, vectors: dict[bytes, bytes]) -> None:
    for key, value in vectors.items():
        writing.put_row("embeddings", TableRow(key, value))


def _record_end(database: Database, now: int, end: tuple[int, str]) -> None:
    database.write(now, lambda writing: _set(writing, {"seq": str(end[0]), "sum": end[1]}))
    database.end = end


@_report_unreadable_rows()
def _apply(database: Database, reads: Sequence[LocatedLine], now: int) -> None:
    """Replays lines in one commit."""
    if not reads:
        return
    end = (reads[-1].line.seq, reads[-1].sum)

    def act(writing: TableWriter) -> None:
        for read in reads:
            line = read.line
            entry = ChangeEntry(at=line.at, by=line.by, group=line.group, what=line.what)
            writing.apply(line.changes, line.seq, entry)
        _set(writing, {"seq": str(end[0]), "sum": end[1]})

    database.write(now, act)
    database.end = end
