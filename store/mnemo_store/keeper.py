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

from mnemo_store import manifest, migrations, stream
from mnemo_store.database import FILE, MAP_BYTES_MAX, Database, Unreadable, is_full
from mnemo_store.disk import Disk
from mnemo_store.errors import Damaged, NothingLeft, OutcomeUnknown, StoreError, WriteFailed
from mnemo_store.gate import Gate
from mnemo_store.journal import NOTHING, Journal, Read, newest_header
from mnemo_store.layout import FORMAT, Line, seal
from mnemo_store.reading import State
from mnemo_store.records import ChangeEntry, is_long_term
from mnemo_store.replayed import Replayed
from mnemo_store.reserve import Reserve
from mnemo_store.soundness import is_long_enough, running_mark, verifies
from mnemo_store.tables import Applying, Row

GROUP_TURNS_MAX = 64  # transactions of one commit group at most [SPEC 3.5]
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 60.0  # between two tries to have the database back, doubling
REPLAY_LINES = 500  # in one commit
EMPTY_BYTES_MAX = 12 * mmap.PAGESIZE  # of a database that holds no memory: it has 9 pages, with one memory 15

log = logging.getLogger("mnemo.store")


@contextlib.contextmanager
def _telling_unreadable_rows() -> Iterator[None]:
    """Within it a row that cannot be read is damage of the database, like a page that does not verify."""
    try:
        yield
    except ValueError as error:
        raise Unreadable(f"a row cannot be read: {error}") from error


class Keeper:
    """Used by the writer thread; readers come in by `gate`."""

    def __init__(
        self, folder: Path, disk: Disk, now: Callable[[], int], map_bytes: int, segment_bytes: int, reserve_bytes: int
    ) -> None:
        self.folder = folder
        self.disk = disk
        self.now = now
        self.gate = Gate()
        self.state: State | None = None
        self.mended: list[str] = []  # what was wrong at the start or since, and is no more
        self.missing: list[str] = []  # what was wrong and cannot be mended from here
        self.degraded = ""  # why the database is not what holds the state; "" when it is
        self.broken: StoreError | None = None  # why nothing can be written at all
        self.reserve = Reserve(folder / "reserve", disk, reserve_bytes)
        self.renumbered = 0  # how often the numbers of memories may have become others
        self.is_half_anew = False  # the database was written anew, and the journal has yet to be
        self.manifest: manifest.Manifest
        self.journal: Journal
        self._map_bytes = map_bytes
        self._segment_bytes = segment_bytes
        self._returning: Database | None = None  # on its way back
        self._behind: Iterator[Read] = iter(())
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
            self.say(why)
        if self.manifest.format < FORMAT:
            kept = migrations.keep_copy(self.folder, self.manifest.format, self.disk, self.now())
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
        self.reserve.make()
        for damage in self.journal.damage:
            log.warning("journal %s at byte %d, %d bytes: %s", *damage[:4])

    def close(self, *, clean: bool) -> None:
        """Closes everything; `clean` marks the database as one that needs no look at the next start."""
        with self.gate.alone():
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
    def folder_of_database(self) -> Path:
        return self.folder / "db"

    @property
    def _data(self) -> Path:
        return self.folder_of_database / FILE

    @property
    def group_turns_max(self) -> int:
        """Transactions of one commit group at most. Of the journal alone each is one: no database would tell a group
        that a power loss left in part, and that nobody was told of, from one that was acknowledged and damaged."""
        return 1 if self.degraded else GROUP_TURNS_MAX

    def holding(self) -> State:
        """What holds the state. Raises what keeps anything from holding it."""
        if self.state is None:
            raise self.broken or WriteFailed("the store is closed")
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
            if not is_surely_damaged and verifies(self.folder_of_database):
                raise
            self._refuse_if_nothing_is_left(f"cannot be opened ({error})")
            self.say(f"the database was damaged ({error}): put aside and restored from the journal")
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
        self.fall_back(f"the database cannot be opened: {error}")
        if self.state is None:
            raise Damaged(str(self.broken)) from error
        if self.missing:
            shutil.rmtree(self.folder / "views", ignore_errors=True)  # the numbers in them may be others now

    def _refuse_if_nothing_is_left(self, what: str) -> None:
        """Without the database, where the journal is gone too: an empty store would begin in silence. A journal that
        begins with change 1 and has none is one of an empty store."""
        header = newest_header(self.journal.folder)
        if self.journal.last != NOTHING or (header is not None and header.first_seq == 1):
            return
        size = self._data.stat().st_size if self._data.exists() else 0
        if self.manifest.seq or size > EMPTY_BYTES_MAX:
            where = f"the database in {self.folder}"
            why = f"{where} {what if size else 'is gone'}, and there is no journal to make it anew from"
            raise NothingLeft(
                f"{why}: put a backup in its place (mnemo restore), or move the folder away to begin anew"
            )

    def _close_gap(self) -> None:
        """Makes a journal whose last group has holes one without, so that what is written behind it is in order.

        With the database out of reach nobody knows whether that group was answered: what is there of it is kept.
        """
        end, behind = self.journal.snapshot_last, list[Read]()
        for read in self.journal.lines(after=end[0]):
            if behind or read.line.seq != end[0] + 1:
                behind.append(read)
                if len(behind) > GROUP_TURNS_MAX:
                    behind, end = [], (read.line.seq, read.sum)  # a hole in the middle: damage, told when replayed
            else:
                end = (read.line.seq, read.sum)
        if not behind:
            return
        self.journal.begin(end)
        first_seq, lines = end[0] + 1, []
        for seq, read in enumerate(behind, first_seq):
            was = read.line
            sealed = seal(Line(seq, was.at, was.by, end, was.changes, what=was.what, group=was.group))
            lines.append((sealed, any(map(is_long_term, was.changes))))
            end = (seq, sealed.sum)
        self.journal.append(lines, first_seq)

    def _is_sound(self, *, clean: bool) -> bool:
        """Whether the database may be opened: a truncated file would kill the process, an empty one would be taken
        for a new store."""
        path = self._data
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            if self.manifest.seq or self.journal.last != NOTHING:
                self.say("the database was missing or empty: restored from the journal")
            return False
        as_closed = (self.manifest.database_bytes, self.manifest.database_mtime_ns)
        if clean and (size, path.stat().st_mtime_ns) == as_closed:
            return True
        was_only_killed = not clean and self.manifest.running and self.manifest.running == running_mark(path)
        if was_only_killed and is_long_enough(path):
            return True
        sound = verifies(self.folder_of_database)
        if not sound:
            self.say("the database was damaged: put aside and restored from the journal")
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
            self.disk.rename(self.folder_of_database, aside)
            log.error("the database does not verify; it is kept as %s", aside.name)

    def _open_and_replay(self, *, from_nothing: bool) -> Database:
        """The database, brought up to the journal."""
        database = self._opened()
        if database.end != NOTHING and not self._is_behind_snapshot(database.end):
            database.close()
            self.say("the database is older than what the journal begins with: put aside and restored from the journal")
            self._put_aside()
            self.renumbered += 1
            database = self._opened()
        try:
            if database.end == NOTHING:
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

    @_telling_unreadable_rows()
    def _opened(self) -> Database:
        """The database, of this format and of this store."""
        database = Database.open(self.folder_of_database, self.disk, self._map_bytes)
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
        self.say("store.json did not fit the database and is written anew from it")
        self.manifest.store_id = self.journal.store_id = store_id
        self.manifest.salt = self.journal.salt = salt
        self.write_manifest()

    def _load_snapshot(self, database: Database) -> None:
        """What a journal that was written anew begins with. The key of its hashes is from then on the store's."""
        rows = self.journal.snapshot_rows()
        database.write(self.now(), lambda writing: stream.load((row for row, _ in rows), writing))
        self._take_salt_of(database)
        last = self.journal.snapshot_last
        if last != NOTHING:
            _note_end(database, self.now(), last)

    def _replay(self, database: Database, *, from_nothing: bool) -> None:
        """Brings the database up to the journal: the lines behind its seq, in order.

        What a crash leaves behind the database is at most one group, of which one file may hold the end and the other
        not: behind such a gap nothing counts, since nothing of that group was acknowledged. With more behind than one
        group, or no database to start from, a gap is damage: it is told, and the rest is kept.
        """
        end = database.end
        may_be_unfinished = not from_nothing and self.journal.last[0] - end[0] <= GROUP_TURNS_MAX
        pending: list[Read] = []
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

    def _look_at_gap(self, read: Read, end: tuple[int, str]) -> None:
        if read.line.seq != end[0] + 1:
            self.miss(f"changes {end[0] + 1} to {read.line.seq - 1} cannot be read in the journal")
        elif read.line.prev != end and end != NOTHING:
            log.warning("journal line %d does not name the line before it", read.line.seq)

    def _sync_names(self) -> None:
        """LMDB syncs the file it makes, and not its name."""
        self.disk.sync_folder(self.folder_of_database)
        self.disk.sync_folder(self.folder)

    def _finish_writing_anew(self, database: Database) -> None:
        """Where compacting was cut short between the database and the journal, which then holds what was given up."""
        self.is_half_anew = True
        with contextlib.suppress(OSError, StoreError, ValueError):
            with database.snapshot(self.now()) as here:
                begins = int(here.meta("history_from").partition(" ")[0] or 0)
            if begins > self.journal.snapshot_last[0]:
                self.write_journal_anew(database)
            self.is_half_anew = False

    def _hold_journal_to(self, database: Database) -> None:
        """Has the journal go on behind the database; one that ends before it is written anew."""
        ended = self.journal.last[0]
        self.journal.begin(database.end)
        if ended >= database.end[0]:
            return
        self.say(f"the journal ended at change {ended}, the database at {database.end[0]}")
        try:
            self.write_journal_anew(database)
        except (OSError, StoreError, ValueError) as error:
            self.miss(f"the journal could not be written anew from the database: {error}")
        else:
            self.say("the journal was written anew from the database")

    # Written anew: see `rewriting`

    def write_journal_anew(self, database: Database) -> None:
        """As a snapshot of this database."""
        self.journal.write_anew(stream.write(lambda: database.snapshot(self.now())), database.end)

    @contextlib.contextmanager
    def database_beside(self) -> Iterator[Database]:
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

    def put_in_place(self) -> None:
        """The database beside takes the place of the one that is open: the change of one name."""
        with self.gate.alone():
            self._close_state()
            try:
                self.disk.rename(self._beside / FILE, self._data)
                self.disk.sync_folder(self.folder_of_database)
            finally:  # whichever stands there now is whole
                self._open_again()
        shutil.rmtree(self._beside, ignore_errors=True)
        self.mark_running()

    def _open_again(self) -> None:
        try:
            self.state = self._opened()
        except (lmdb.Error, OSError, StoreError) as error:
            self.broken = OutcomeUnknown(f"the database cannot be opened: {error}")
            raise

    def sign(self, database: Database) -> None:
        """Makes a database that was filled from a stream this store's own."""
        with database.snapshot(self.now()) as here:
            end = (here.seq, here.meta("sum"))
        facts = {"format": str(FORMAT), "store": self.manifest.store_id}
        database.write(self.now(), lambda writing: _set(writing, facts))
        database.end = end
        self._take_salt_of(database)

    def _take_salt_of(self, state: State) -> None:
        with state.snapshot(self.now()) as here:
            self.manifest.salt = self.journal.salt = here.meta("salt")

    @property
    def _beside(self) -> Path:
        return self.folder / "db.new"

    # When the disk fails

    def mend(self, cause: Exception) -> None:
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
            self.fall_back(f"the database is full and cannot grow: {cause}")
            return
        try:
            reopened = self._reopen(trusted=grows)
        except (lmdb.Error, OSError, StoreError) as error:
            cause, reopened = error, False
        if not reopened:
            self.fall_back(f"the database failed: {cause}")

    def _read_journal_again(self) -> None:
        try:
            self.journal.close()
            self.journal.open()
        except (OSError, StoreError) as error:
            self.broken = OutcomeUnknown(f"the journal cannot be read: {error}")
        else:
            self.fall_back(self.degraded)

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
        with self.gate.alone():
            self._close_state()
            self.journal.close()
            self.journal.open()
            if not trusted:
                self._distrust()
                if not verifies(self.folder_of_database):
                    return False
            self.state = self._open_and_replay(from_nothing=False)
        self.broken = None
        return True

    def fall_back(self, cause: str) -> None:
        """What the journal replays to takes the database's place."""
        log.error("%s; the journal takes its place", cause)
        self._give_up_returning()
        self._distrust()
        with self.gate.alone():
            if isinstance(self.state, Replayed):
                self._vectors = self.state.vectors
            self._close_state()
            try:
                replayed = Replayed(self.journal)
                replayed.vectors.update(self._vectors)
                self._take_salt_of(replayed)
                self.journal.begin(replayed.end)
            except (OSError, StoreError) as error:
                self.broken = OutcomeUnknown(f"{cause}; nor can the journal be read: {error}")
                return
            self.state, self.broken = replayed, None
        for gap in replayed.gaps:
            self.miss(gap)
        self.degraded = cause
        self.renumbered += bool(replayed.gaps)
        self._retry_at, self._retry_seconds = time.monotonic() + RETRY_SECONDS_MIN, RETRY_SECONDS_MIN

    def seconds_to_wait(self) -> float | None:
        """Until there is something to try; None when all is well."""
        if self._returning is not None:
            return 0.0
        if self.degraded or self.broken is not None or self.is_half_anew:
            return max(0.0, self._retry_at - time.monotonic())
        return RETRY_SECONDS_MIN if self.reserve.is_full else None

    def try_again(self) -> None:
        """One step towards having everything back, where something is missing and it is time to try."""
        if self.reserve.is_full and time.monotonic() - self._looked_at >= RETRY_SECONDS_MIN:
            self.reserve.make_if_there_is_room()
            self._looked_at = time.monotonic()
        is_time = time.monotonic() >= self._retry_at
        if self.broken is not None:
            if is_time:
                self.mend(self.broken)
                if self.broken is not None:
                    self._rest()
        elif self.degraded and (self._returning is not None or is_time):
            try:
                self._return_one_step()
            except (lmdb.Error, OSError, StoreError) as error:
                log.info("the database is not back: %s", error)
                self._give_up_returning()
                if isinstance(error, Unreadable):
                    with contextlib.suppress(OSError):
                        self._put_aside()
                self._rest()
        elif self.is_half_anew and is_time and isinstance(self.state, Database):
            self._finish_writing_anew(self.state)
            if self.is_half_anew:
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
        pending: list[Read] = []
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
            raise WriteFailed("the database is not the journal's")
        if isinstance(self.state, Replayed) and self.state.vectors:
            vectors = self.state.vectors
            self._returning.write(self.now(), lambda writing: _put_vectors(writing, vectors))
            self._vectors = {}
        with self.gate.alone():
            self.state.close()
            self.state, self._returning = self._returning, None
        log.warning("the database is back, at change %d", self.state.end[0])
        self.degraded = ""
        self.renumbered += bool(self.missing)

    def _begin_return(self) -> Database:
        size = self._data.stat().st_size if self._data.exists() else 0
        sound = size > 0 and verifies(self.folder_of_database)
        database = None
        if sound:
            database = self._opened()
            if not self._is_on_the_way(database):
                database.close()
                sound, database = False, None
        if database is None:
            self._put_aside()
            self.say("the database was put aside and restored from the journal")
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
        self.manifest.running = running_mark(self._data) if isinstance(self.state, Database) else ""
        self.write_manifest()

    def write_manifest(self) -> None:
        """As of a store that is in use. Without it the next start verifies the database."""
        self.manifest.clean = False
        try:
            self.manifest.write(self.folder, self.disk)
        except OSError as error:
            log.warning("store.json could not be written: %s", error)

    def say(self, what: str) -> None:
        if what not in self.mended:
            self.mended.append(what)

    def miss(self, what: str) -> None:
        if what not in self.missing:
            self.missing.append(what)


def _set(writing: Applying, facts: dict[str, str]) -> None:
    for name, value in facts.items():
        writing.set_meta(name, value)


def _put_vectors(writing: Applying, vectors: dict[bytes, bytes]) -> None:
    for key, value in vectors.items():
        writing.put_row("embeddings", Row(key, value))


def _note_end(database: Database, now: int, end: tuple[int, str]) -> None:
    database.write(now, lambda writing: _set(writing, {"seq": str(end[0]), "sum": end[1]}))
    database.end = end


@_telling_unreadable_rows()
def _apply(database: Database, reads: Sequence[Read], now: int) -> None:
    """Replays lines in one commit."""
    if not reads:
        return
    end = (reads[-1].line.seq, reads[-1].sum)

    def act(writing: Applying) -> None:
        for read in reads:
            line = read.line
            entry = ChangeEntry(at=line.at, by=line.by, group=line.group, what=line.what)
            writing.apply(line.changes, line.seq, entry)
        _set(writing, {"seq": str(end[0]), "sum": end[1]})

    database.write(now, act)
    database.end = end
