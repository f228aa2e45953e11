"""The store: LMDB for the state, the journal for its history, one writer thread. SPEC 3, FORMAT.md.

A write is a function that decides: it runs on the writer thread, sees the store as it is at that moment, and returns
the changes. Many such turns share one commit:

    begin LMDB → each turn decides in a nested transaction → journal appended and fsynced → LMDB committed
    → views told → writers answered

so an answered write is in both, and either rebuilds the other.
"""

import contextlib
import errno
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import lmdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import (
    Busy,
    Closed,
    Damaged,
    DiskFull,
    NewerFormat,
    OutcomeUnknown,
    StoreError,
    WriteFailed,
)
from mnemo_store.gate import Gate, take_lock
from mnemo_store.ids import IdSource
from mnemo_store.journal import NOTHING, SEGMENT_BYTES, Damage, Journal, newest_header
from mnemo_store.layout import FORMAT, Line, Sealed, open_line, seal
from mnemo_store.records import Change, ChangeEntry, is_long_term
from mnemo_store.soundness import is_long_enough, running_mark, verifies
from mnemo_store.tables import DUPLICATES, TABLES, Applying, Snapshot, Tables, Touched

T = TypeVar("T")

MAP_BYTES = 64 << 30  # sparse, so it costs address space only; resizing at run time is not safe (py-lmdb)
READERS_MAX = 512
GROUP_TURNS_MAX = 64  # a commit group ends at any of these three [SPEC 3.5]
GROUP_BYTES_MAX = 256 << 10
GROUP_SECONDS_MAX = 0.005
QUEUE_MAX = 1024  # interactive turns waiting
BACKGROUND_QUEUE_MAX = 256
CLOSE_SECONDS_MAX = 10.0
REPLAY_TURNS = 500  # lines replayed in one commit

log = logging.getLogger("mnemo.store")


class Turn(NamedTuple, Generic[T]):
    """What a decision came to: the changes to make, all or none, and what its caller is told."""

    changes: Sequence[Change]
    result: T
    what: str = ""  # the operation as a person names it: "add", "edit", "rm"
    group: str = ""  # ties together turns that are undone together


class Committed(NamedTuple, Generic[T]):
    """A turn that is durable. `seq` is 0 when there was nothing to change."""

    seq: int
    result: T


class Applied(NamedTuple):
    """A committed transaction as the views see it."""

    seq: int
    at: int  # ms
    touched: tuple[Touched, ...]


class Vectors(NamedTuple):
    """The vectors of one text, to be kept under its hash."""

    space: str
    text_hash: bytes
    rows: NDArray[np.float16]  # shape (windows, dimensions)


class Manifest(msgspec.Struct, kw_only=True):
    """`store.json`: whose store this is, and how it was closed. Where it is lost, the journal's headers and the
    database know the id and the salt too."""

    format: int
    store_id: str
    salt: str  # 16 bytes in hexadecimal: the key of salted hashes
    clean: bool = False
    seq: int = 0  # at the last clean close
    database_bytes: int = 0  # then; a database of another size or time is verified before it is opened
    database_mtime_ns: int = 0
    running: str = ""  # the file that is open, in this run of the machine; "" where it is to be verified in any case


class _Waiting(NamedTuple):
    decide: Callable[[Snapshot], Turn[Any]]
    by: str
    future: "Future[Committed[Any]]"
    vectors: tuple[Vectors, ...] = ()


class _Done(NamedTuple):
    waiting: _Waiting
    committed: Committed[Any]
    applied: Applied | None


class Store:
    """Open with `Store.open`; close with `close`. Every method is safe in any thread."""

    def __init__(
        self, folder: Path, lock: int, disk: Disk, now: Callable[[], int], random_bytes: Callable[[int], bytes],
        map_bytes: int, segment_bytes: int,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.reasons: list[str] = []  # why the store is not as it should be; empty when it is
        self._lock_fd = lock
        self._disk = disk
        self._now = now
        self._random_bytes = random_bytes
        self._map_bytes = map_bytes
        self._segment_bytes = segment_bytes
        self._ids = IdSource(now, random_bytes)
        self._env: Any = None
        self._tables: Tables
        self._journal: Journal
        self._manifest: Manifest
        self._turn_end = (0, "")  # seq and checksum of the last committed line
        self._followers: list[Callable[[Applied], None]] = []
        self._urgent: deque[_Waiting] = deque()
        self._background: deque[_Waiting] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._broken: StoreError | None = None
        self._gate = Gate()
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
    ) -> "Store":
        """Opens or makes the store in folder, recovers what a crash left, and starts the writer.

        Raises Locked, NewerFormat, DiskFull, Damaged or OSError. A database that does not verify is put aside and
        restored from the journal; `reasons` says so.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = take_lock(folder / "lock")
        store = cls(folder, held, disk or Disk(), now, random_bytes, map_bytes, segment_bytes)
        try:
            store._recover()
        except BaseException:
            store._release()
            raise
        store._writer = threading.Thread(target=store._write_until_closed, name="mnemo-writer", daemon=True)
        store._writer.start()
        return store

    @property
    def store_id(self) -> str:
        """Names this store for good; a view of another store is not used."""
        return self._manifest.store_id

    @property
    def seq(self) -> int:
        """Of the last committed change."""
        return self._turn_end[0]

    @property
    def damage(self) -> Sequence[Damage]:
        """What of the journal could not be read at the start."""
        return tuple(self._journal.damage)

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; "" when it can. Each write tries anew."""
        return str(self._broken) if self._broken is not None else ""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self._now()

    def new_id(self) -> str:
        return self._ids.new()

    def follow(self, follower: Callable[[Applied], None]) -> None:
        """Has follower called on the writer thread with each committed transaction, before its writer is answered.

        A follower must not raise and must be quick.
        """
        self._followers.append(follower)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as it is now. Not to be kept over 100 ms: LMDB cannot reuse pages meanwhile.

        Within it, neither wait for a write nor take another snapshot: a database that has to be reopened waits for
        its readers.
        """
        with self._gate.reading():
            if self._env is None:
                raise self._broken or Closed("the store is closed")
            with self._env.begin(buffers=False) as transaction:
                yield Snapshot(transaction, self._tables, self._now())

    def transact(
        self, decide: Callable[[Snapshot], Turn[T]], *, by: str, background: bool = False
    ) -> "Future[Committed[T]]":
        """Runs decide in a write turn; the future is done when its changes are durable, or holds what decide raised.

        Nothing of a turn that raised remains. Raises Busy when too many wait, Closed after close.
        """
        return self._enqueue(_Waiting(decide, by, Future()), background=background)

    def put_vectors(self, vectors: Sequence[Vectors]) -> "Future[Committed[None]]":
        """Keeps vectors under their texts' hashes, in a background turn. They are not in the journal."""
        nothing: Turn[None] = Turn((), None)
        return self._enqueue(_Waiting(lambda _: nothing, "", Future(), tuple(vectors)), background=True)

    def waiting(self) -> int:
        """Turns not yet begun."""
        return len(self._urgent) + len(self._background)

    def disk_bytes(self) -> dict[str, int]:
        """Bytes of the database, the journal, and what is free on their disk."""
        usage = os.statvfs(self.folder)
        database = (self._database / "data.mdb").stat()
        return {
            "database": database.st_blocks * 512,
            "journal": self._journal.size(),
            "free": usage.f_bavail * usage.f_frsize,
        }

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
        with self._gate.alone():
            try:
                if self._env is not None and self._broken is None:
                    self._env.sync(True)
                    self._write_manifest(clean=True)
            except (OSError, lmdb.Error) as error:
                log.error("the store could not be marked as cleanly closed: %s", error)
            finally:
                self._release()

    # Opening and recovering

    @property
    def _database(self) -> Path:
        return self.folder / "db"

    def _recover(self) -> None:
        self._manifest = self._read_manifest()
        was_clean = self._manifest.clean
        self._journal = Journal(
            self.folder / "journal", self._manifest.store_id, self._manifest.salt, self._disk, self._segment_bytes
        )
        self._journal.open()
        sound = self._is_database_sound(clean=was_clean)
        if not sound:
            self._put_database_aside()
        self._manifest.running = ""  # until all is open: a start that fails makes the next one verify
        self._write_manifest(clean=False)
        try:
            self._open_and_replay(sound=sound)
        except lmdb.Error as error:
            if _is_full(error):
                raise DiskFull(f"no room to open the database: {error}") from error
            raise Damaged(f"the database cannot be opened: {error}") from error
        self._manifest.running = running_mark(self._database / "data.mdb")
        self._write_manifest(clean=False)
        for damage in self._journal.damage:
            log.warning("journal %s at byte %d, %d bytes: %s", *damage)

    def _open_and_replay(self, *, sound: bool) -> None:
        """Opens the database and catches up. One that was taken for sound and is not is put aside and restored."""
        try:
            self._open_database()
            self._replay(from_nothing=not sound)
        except lmdb.Error as error:
            if _is_full(error) or not sound:
                raise
            if self._env is not None:
                self._env.close()
                self._env = None
            is_surely_damaged = isinstance(error, lmdb.InvalidError | lmdb.CorruptedError)
            if not is_surely_damaged and verifies(self._database):
                raise
            self.reasons.append(f"the database was damaged ({error}): put aside and restored from the journal")
            self._put_database_aside()
            self._open_database()
            self._replay(from_nothing=True)

    def _read_manifest(self) -> Manifest:
        path = self.folder / "store.json"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return self._lost_manifest("missing")
        except msgspec.MsgspecError:
            path.rename(path.with_name("store.json.damaged"))
            return self._lost_manifest("damaged")
        if manifest.format > FORMAT:
            raise NewerFormat(f"{self.folder} is of format {manifest.format}, this version knows {FORMAT}")
        return manifest

    def _lost_manifest(self, what: str) -> Manifest:
        """What the newest segment of the journal says of the store, or that of a new one."""
        header = newest_header(self.folder / "journal")
        if header is None:
            return Manifest(format=FORMAT, store_id=self._ids.new(), salt=self._random_bytes(16).hex())
        self.reasons.append(f"store.json was {what} and is written anew from the journal")
        return Manifest(format=FORMAT, store_id=header.store, salt=header.salt)

    def _write_manifest(self, *, clean: bool) -> None:
        self._manifest.clean = clean
        if clean:
            self._manifest.seq = self._turn_end[0]
            stat = (self._database / "data.mdb").stat()
            self._manifest.database_bytes, self._manifest.database_mtime_ns = stat.st_size, stat.st_mtime_ns
        self._disk.write_whole(self.folder / "store.json", [msgspec.json.encode(self._manifest)])

    def _is_database_sound(self, *, clean: bool) -> bool:
        """Whether the database may be opened: a truncated file would kill the process, an empty one would be taken
        for a new store."""
        path = self._database / "data.mdb"
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            if self._manifest.seq or self._journal.last != NOTHING:
                self.reasons.append("the database was missing or empty: restored from the journal")
            return False
        as_closed = (self._manifest.database_bytes, self._manifest.database_mtime_ns)
        if clean and (size, path.stat().st_mtime_ns) == as_closed:
            return True
        was_only_killed = not clean and self._manifest.running and self._manifest.running == running_mark(path)
        if was_only_killed and is_long_enough(path):
            return True
        sound = verifies(self._database)
        if not sound:
            self.reasons.append("the database was damaged: put aside and restored from the journal")
        return sound

    def _put_database_aside(self) -> None:
        """Makes way for a new database. The views go with the old one: their numbers are its own."""
        views = self.folder / "views"
        if views.exists():
            shutil.rmtree(views)
        path = self._database / "data.mdb"
        if path.exists() and path.stat().st_size > 0:
            stamp = self._now()
            while (aside := self.folder / f"db.damaged-{stamp}").exists():
                stamp += 1
            self._disk.rename(self._database, aside)
            log.error("the database does not verify; it is kept as %s", aside.name)
        self._turn_end = NOTHING

    def _open_database(self) -> None:
        self._database.mkdir(mode=0o700, exist_ok=True)
        self._env = lmdb.open(
            str(self._database), map_size=self._map_bytes, max_dbs=len(TABLES), max_readers=READERS_MAX, mode=0o600,
            lib_version=0, max_spare_txns=4, meminit=False,
        )  # fmt: skip
        self._env.reader_check()
        self._tables = Tables(**{
            name: self._env.open_db(name.encode(), dupsort=name in DUPLICATES, dupfixed=name in DUPLICATES)
            for name in TABLES
        })  # fmt: skip
        with self._env.begin() as transaction:
            here = Snapshot(transaction, self._tables, self._now())
            self._turn_end = (here.seq, here.meta("sum"))
            stored = here.meta("format")
            known = {"store": here.meta("store"), "salt": here.meta("salt")}
        if stored and int(stored) > FORMAT:
            raise NewerFormat(f"the database is of format {stored}, this version knows {FORMAT}")
        own = {"store": self._manifest.store_id, "salt": self._manifest.salt}
        if not known["store"]:
            self._write_meta({"format": str(FORMAT), **own})
        elif known != own:
            self._adopt(known["store"], known["salt"])

    def _adopt(self, store_id: str, salt: str) -> None:
        """Takes the database's word for whose store this is, where neither store.json nor the journal knew."""
        self.reasons.append("store.json did not fit the database and is written anew from it")
        self._manifest.store_id = self._journal.store_id = store_id
        self._manifest.salt = self._journal.salt = salt
        self._write_manifest(clean=False)

    def _write_meta(self, facts: dict[str, str]) -> None:
        with self._env.begin(write=True) as transaction:
            writing = Applying(transaction, self._tables, self._now())
            for name, value in facts.items():
                writing.set_meta(name, value)

    def _replay(self, *, from_nothing: bool) -> None:
        """Brings the database up to the journal: the lines behind its seq, in order.

        What a crash leaves behind the database is at most one group, of which one file may hold the end and the other
        not: behind such a gap nothing counts, since nothing of that group was acknowledged. With more behind than one
        group, or no database to start from, a gap is damage: it is told, and the rest is kept.
        """
        end = self._turn_end
        may_be_unfinished = not from_nothing and self._journal.last[0] - end[0] <= GROUP_TURNS_MAX
        pending: list[tuple[Line, str]] = []
        for line, checksum in self._journal.lines(after=end[0]) if self._journal.last[0] > end[0] else ():
            gap = line.seq != end[0] + 1
            if gap and may_be_unfinished:
                log.warning("change %d and what follows were never acknowledged and are dropped", end[0] + 1)
                break
            if gap:
                self._say(f"changes {end[0] + 1} to {line.seq - 1} cannot be read in the journal")
            elif line.prev != end and end != NOTHING:
                log.warning("journal line %d does not name the line before it", line.seq)
            pending.append((line, checksum))
            end = (line.seq, checksum)
            if len(pending) >= REPLAY_TURNS:
                self._replay_lines(pending)
                pending = []
        self._replay_lines(pending)
        if self._journal.last[0] < self._turn_end[0]:
            self._say(
                f"the journal ends at change {self._journal.last[0]}, the database at {self._turn_end[0]}: "
                "what lies between is in the database alone"
            )
        self._journal.begin(self._turn_end)

    def _say(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def _replay_lines(self, lines: Sequence[tuple[Line, str]]) -> None:
        if not lines:
            return
        with self._env.begin(write=True) as transaction:
            writing = Applying(transaction, self._tables, self._now())
            for line, _ in lines:
                entry = ChangeEntry(at=line.at, by=line.by, group=line.group, what=line.what)
                writing.apply(line.changes, line.seq, entry)
            last, checksum = lines[-1][0].seq, lines[-1][1]
            writing.set_meta("seq", str(last))
            writing.set_meta("sum", checksum)
        self._turn_end = (last, checksum)

    def _release(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None
        if hasattr(self, "_journal"):
            self._journal.close()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # The writer thread

    def _enqueue(self, waiting: _Waiting, *, background: bool) -> "Future[Committed[Any]]":
        queue, limit = (self._background, BACKGROUND_QUEUE_MAX) if background else (self._urgent, QUEUE_MAX)
        with self._wake:
            if self._closing:
                raise Closed("the store is shutting down")
            if len(queue) >= limit:
                raise Busy(f"{limit} writes are waiting already")
            queue.append(waiting)
            self._wake.notify()
        return waiting.future

    def _write_until_closed(self) -> None:
        try:
            while True:
                with self._wake:
                    while not (self._urgent or self._background or self._closing):
                        self._wake.wait()
                    if self._closing and not (self._urgent or self._background):
                        return
                self._write_group()
        except BaseException as error:
            self._broken = WriteFailed(f"the writer stopped: {error!r}")
            with self._wake:
                self._closing = True
            self._fail_all_waiting()
            raise

    def _next_waiting(self) -> _Waiting | None:
        """Interactive turns overtake background ones."""
        with self._wake:
            if self._urgent:
                return self._urgent.popleft()
            return self._background.popleft() if self._background else None

    def _write_group(self) -> None:
        """One commit group: decided, journaled, committed, shown to the views, answered."""
        transaction = self._begin()
        if transaction is None:
            self._fail_all_waiting()
            return
        done: list[_Done] = []
        lines: list[tuple[Sealed, bool]] = []
        first_seq = self._turn_end[0] + 1
        try:
            self._decide_turns(transaction, done, lines)
            if lines:
                last = Applying(transaction, self._tables, self._now())
                last.set_meta("seq", str(first_seq + len(lines) - 1))
                last.set_meta("sum", lines[-1][0].sum)
                self._journal.append(lines, first_seq)
        except (StoreError, lmdb.Error) as error:
            transaction.abort()
            failure = _write_failure(error) if isinstance(error, lmdb.Error) else error
            if isinstance(failure, OutcomeUnknown):
                self._broken = failure
            _fail(done, failure)
            return
        except BaseException as error:
            transaction.abort()
            _fail(done, WriteFailed(f"the write could not be made: {error}"))
            raise
        if lines or any(item.waiting.vectors for item in done):
            self._commit(transaction, done, lines, first_seq)
        else:
            transaction.abort()  # nobody changed anything, so no failure of the disk is theirs
            _answer(done)

    def _begin(self) -> Any:
        """A write transaction, of a database that was reopened if need be; None when it stays out of order."""
        if self._broken is None:
            try:
                return self._env.begin(write=True)
            except lmdb.Error as error:
                self._broken = WriteFailed(f"the database cannot be written: {error}")
        if not self._reopen():
            return None
        try:
            return self._env.begin(write=True)
        except lmdb.Error as error:
            self._broken = WriteFailed(f"the database cannot be written: {error}")
            return None

    def _decide_turns(self, transaction: Any, done: list[_Done], lines: list[tuple[Sealed, bool]]) -> None:
        end, size, started = self._turn_end, 0, time.monotonic()
        for _ in range(GROUP_TURNS_MAX):
            waiting = self._next_waiting()
            if waiting is None:
                return
            if not waiting.future.set_running_or_notify_cancel():
                continue
            try:
                with self._env.begin(write=True, parent=transaction) as child:  # aborted by what is raised in it
                    result, sealed, applied, long_term = self._decide(child, waiting, end)
            except BaseException as error:  # noqa: BLE001 - whatever a decision raises is its caller's to see
                waiting.future.set_exception(_write_failure(error) if isinstance(error, lmdb.Error) else error)
                continue
            done.append(_Done(waiting, result, applied))
            if sealed is not None:
                lines.append((sealed, long_term))
                end = (end[0] + 1, sealed.sum)
                size += len(sealed.data)
            if size >= GROUP_BYTES_MAX or time.monotonic() - started >= GROUP_SECONDS_MAX:
                return

    def _decide(
        self, child: Any, waiting: _Waiting, end: tuple[int, str]
    ) -> tuple[Committed[Any], Sealed | None, Applied | None, bool]:
        writing = Applying(child, self._tables, self._now())
        for space, text_hash, rows in waiting.vectors:
            writing.put_vectors(space, text_hash, rows)
        turn = waiting.decide(writing)
        if not turn.changes:
            return Committed(0, turn.result), None, None, False
        seq, changes = end[0] + 1, tuple(turn.changes)
        line = Line(seq, writing.now, waiting.by, end, changes, what=turn.what, group=turn.group)
        sealed = seal(line)
        open_line(sealed.data[:-1])  # what could not be read back (NaN becomes null) is refused here, not lost later
        entry = ChangeEntry(at=line.at, by=line.by, what=line.what, group=line.group)
        touched = writing.apply(changes, seq, entry)
        long_term = any(map(is_long_term, changes))
        return Committed(seq, turn.result), sealed, Applied(seq, line.at, tuple(touched)), long_term

    def _commit(
        self,
        transaction: Any,
        done: list[_Done],
        lines: list[tuple[Sealed, bool]],
        first_seq: int,
    ) -> None:
        end = (first_seq + len(lines) - 1, lines[-1][0].sum) if lines else self._turn_end
        try:
            self._disk.commit(transaction)
        except (lmdb.Error, OSError) as error:
            log.exception("the database could not be committed; it is reopened and caught up from the journal")
            with contextlib.suppress(lmdb.Error):
                transaction.abort()
            failure = self._broken = OutcomeUnknown(f"the database could not be committed: {error}")
            if not lines or not self._reopen() or self._turn_end != end:
                _fail(done, failure)
                return
        self._turn_end = end
        try:
            for item in done:
                if item.applied is not None:
                    self._tell(item.applied)
        finally:
            _answer(done)
        self._journal.rotate_full()

    def _tell(self, applied: Applied) -> None:
        for follower in self._followers:
            follower(applied)

    def _reopen(self) -> bool:
        """Closes and opens the database and catches up from the journal. False when it stays out of order."""
        with self._gate.alone():
            try:
                if self._env is not None:
                    self._env.close()
                    self._env = None
                self._journal.close()
                self._journal.open()
                self._distrust()
                if not verifies(self._database):
                    return False
                self._open_database()
                self._replay(from_nothing=False)
            except (lmdb.Error, OSError, StoreError) as error:
                self._broken = OutcomeUnknown(f"the database cannot be opened: {error}")
                return False
        self._broken = None
        return True

    def _distrust(self) -> None:
        """Has the next start verify the database: what the disk refused to take may still look well in the cache."""
        if self._manifest.running:
            self._manifest.running = ""
            with contextlib.suppress(OSError):
                self._write_manifest(clean=False)

    def _fail_all_waiting(self) -> None:
        while (waiting := self._next_waiting()) is not None:
            if waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(WriteFailed(f"the store is out of order: {self._broken}"))


def _answer(done: Sequence[_Done]) -> None:
    for item in done:
        item.waiting.future.set_result(item.committed)


def _fail(done: Sequence[_Done], error: StoreError) -> None:
    for item in done:
        item.waiting.future.set_exception(error)


def _write_failure(error: lmdb.Error) -> StoreError:
    if _is_full(error):
        return DiskFull(f"the database is full: {error}")
    return WriteFailed(f"the database could not be written: {error}")


def _is_full(error: lmdb.Error) -> bool:
    return isinstance(error, lmdb.MapFullError) or os.strerror(errno.ENOSPC) in str(error)
