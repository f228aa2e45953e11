"""The store: LMDB for the state, the journal for its history, one writer thread. SPEC 3, FORMAT.md.

A write is a function that decides: it runs on the writer thread, sees the store as it is at that moment, and returns
the changes. Many such turns share one commit:

    begin LMDB → each turn decides in a nested transaction → journal appended and fsynced → LMDB committed
    → views told → writers answered

so an answered write is in both, and either rebuilds the other.
"""

import contextlib
import fcntl
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
import lmdb.verify
import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import (
    Busy,
    Closed,
    DiskFull,
    Locked,
    NewerFormat,
    OutcomeUnknown,
    StoreError,
    WriteFailed,
)
from mnemo_store.ids import IdSource
from mnemo_store.journal import NOTHING, Damage, Journal
from mnemo_store.layout import FORMAT, Line, Sealed, seal
from mnemo_store.records import Change, ChangeEntry, is_long_term
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
    """`store.json`: whose store this is, and whether it was closed cleanly."""

    format: int
    store_id: str
    clean: bool = False
    seq: int = 0


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

    def __init__(self, folder: Path, lock: int, disk: Disk, now: Callable[[], int], ids: IdSource) -> None:
        self.folder = folder
        self.reasons: list[str] = []  # why the store is not as it should be; empty when it is
        self._lock_fd = lock
        self._disk = disk
        self._now = now
        self._ids = ids
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
        self._gate = _Gate()
        self._writer: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        disk: Disk | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> "Store":
        """Opens or makes the store in folder, recovers what a crash left, and starts the writer.

        Raises Locked, NewerFormat, or OSError. A database that does not verify is put aside and restored from the
        journal; `reasons` says so.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(folder / "lock")
        store = cls(folder, lock, disk or Disk(), now, IdSource(now, random_bytes))
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
        """The store as it is now. Not to be kept over 100 ms: LMDB cannot reuse pages meanwhile."""
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
            if self._env is not None and self._broken is None:
                self._env.sync(True)
                self._write_manifest(clean=True)
            self._release()

    # Opening and recovering

    @property
    def _database(self) -> Path:
        return self.folder / "db"

    def _recover(self) -> None:
        self._manifest = self._read_manifest()
        clean = self._manifest.clean
        self._journal = Journal(self.folder / "journal", self._manifest.store_id, self._disk)
        self._journal.open()
        if not self._is_database_sound(clean=clean):
            self._put_database_aside()
        self._write_manifest(clean=False)
        self._open_database()
        self._replay()
        for damage in self._journal.damage:
            log.warning("journal %s at byte %d, %d bytes: %s", *damage)

    def _read_manifest(self) -> Manifest:
        path = self.folder / "store.json"
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return Manifest(format=FORMAT, store_id=self._ids.new(), clean=False)
        except msgspec.MsgspecError:
            self.reasons.append("store.json was damaged and is written anew")
            return Manifest(format=FORMAT, store_id=self._ids.new(), clean=False)
        if manifest.format > FORMAT:
            raise NewerFormat(f"{self.folder} is of format {manifest.format}, this version knows {FORMAT}")
        return manifest

    def _write_manifest(self, *, clean: bool) -> None:
        self._manifest.clean, self._manifest.seq = clean, self._turn_end[0]
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
        if clean:
            return True
        sound = _verifies(self._database)
        if not sound:
            self.reasons.append("the database was damaged: put aside and restored from the journal")
        return sound

    def _put_database_aside(self) -> None:
        if self._database.exists() and any(self._database.iterdir()):
            aside = self.folder / f"db.damaged-{self._now()}"
            self._disk.rename(self._database, aside)
            log.error("the database does not verify; it is kept as %s", aside.name)
        self._turn_end = NOTHING

    def _open_database(self) -> None:
        self._database.mkdir(mode=0o700, exist_ok=True)
        self._env = lmdb.open(
            str(self._database), map_size=MAP_BYTES, max_dbs=len(TABLES), max_readers=READERS_MAX, mode=0o600,
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
        if stored and int(stored) > FORMAT:
            raise NewerFormat(f"the database is of format {stored}, this version knows {FORMAT}")
        if not stored:
            self._write_meta({"format": str(FORMAT), "salt": os.urandom(16).hex()})

    def _write_meta(self, facts: dict[str, str]) -> None:
        with self._env.begin(write=True) as transaction:
            writing = Applying(transaction, self._tables, self._now())
            for name, value in facts.items():
                writing.set_meta(name, value)

    def _replay(self) -> None:
        """Brings the database up to the journal: the lines behind its seq, as far as each names the one before."""
        end = self._turn_end
        pending: list[tuple[Line, str]] = []
        if self._journal.last[0] > end[0]:
            for line, checksum in self._journal.lines(after=end[0]):
                if line.seq != end[0] + 1:
                    break
                if line.prev != end and end != NOTHING:
                    log.warning("journal line %d does not name the line before it", line.seq)
                pending.append((line, checksum))
                end = (line.seq, checksum)
                if len(pending) >= REPLAY_TURNS:
                    self._replay_lines(pending)
                    pending = []
            self._replay_lines(pending)
        elif self._journal.last[0] < end[0]:
            self.reasons.append(
                f"the journal ends at change {self._journal.last[0]}, the database at {end[0]}: "
                "what lies between is in the database alone"
            )
        self._journal.begin(self._turn_end)

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
        while True:
            with self._wake:
                while not (self._urgent or self._background or self._closing):
                    self._wake.wait()
                if self._closing and not (self._urgent or self._background):
                    return
            self._write_group()

    def _next_waiting(self) -> _Waiting | None:
        """Interactive turns overtake background ones."""
        with self._wake:
            if self._urgent:
                return self._urgent.popleft()
            return self._background.popleft() if self._background else None

    def _write_group(self) -> None:
        """One commit group: decided, journaled, committed, shown to the views, answered."""
        if self._broken is not None and not self._reopen():
            self._fail_all_waiting()
            return
        done: list[_Done] = []
        lines: list[tuple[Sealed, bool]] = []
        first_seq = self._turn_end[0] + 1
        try:
            transaction = self._env.begin(write=True)
        except lmdb.Error as error:
            self._broken = OutcomeUnknown(f"the database cannot be written: {error}")
            return
        try:
            self._decide_turns(transaction, done, lines)
            if lines:
                last = Applying(transaction, self._tables, self._now())
                last.set_meta("seq", str(first_seq + len(lines) - 1))
                last.set_meta("sum", lines[-1][0].sum)
                self._journal.append(lines, first_seq)
        except (StoreError, lmdb.Error) as error:
            transaction.abort()
            failure = error if isinstance(error, StoreError) else _write_failure(error)
            if isinstance(failure, OutcomeUnknown):
                self._broken = failure
            _fail(done, failure)
            return
        self._commit(transaction, done, lines, first_seq)

    def _decide_turns(self, transaction: Any, done: list[_Done], lines: list[tuple[Sealed, bool]]) -> None:
        end, size, started = self._turn_end, 0, time.monotonic()
        for _ in range(GROUP_TURNS_MAX):
            waiting = self._next_waiting()
            if waiting is None:
                return
            if not waiting.future.set_running_or_notify_cancel():
                continue
            child = self._env.begin(write=True, parent=transaction)
            try:
                result, sealed, applied, long_term = self._decide(child, waiting, end)
            except BaseException as error:  # noqa: BLE001 - whatever a decision raises is its caller's to see
                child.abort()
                waiting.future.set_exception(error)
                continue
            child.commit()
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
        try:
            self._disk.commit(transaction)
        except (lmdb.Error, OSError) as error:
            log.exception("the database could not be committed; it is reopened and caught up from the journal")
            with contextlib.suppress(lmdb.Error):
                transaction.abort()
            self._broken = OutcomeUnknown(f"the database could not be committed: {error}")
            if not lines or not self._reopen():
                _fail(done, self._broken)
                return
        else:
            if lines:
                self._turn_end = (first_seq + len(lines) - 1, lines[-1][0].sum)
        for item in done:
            if item.applied is not None:
                self._tell(item.applied)
        for item in done:
            item.waiting.future.set_result(item.committed)
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
                if not _verifies(self._database):
                    return False
                self._open_database()
                self._replay()
            except (lmdb.Error, OSError, StoreError) as error:
                self._broken = OutcomeUnknown(f"the database cannot be opened: {error}")
                return False
        self._broken = None
        return True

    def _fail_all_waiting(self) -> None:
        while (waiting := self._next_waiting()) is not None:
            if waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(WriteFailed(f"the store is out of order: {self._broken}"))


class _Gate:
    """Many readers or one who needs to be alone with the database."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        with self._condition:
            while self._closed:
                self._condition.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                if not self._readers:
                    self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._condition:
            self._closed = True
            while self._readers:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()


def _fail(done: Sequence[_Done], error: StoreError) -> None:
    for item in done:
        item.waiting.future.set_exception(error)


def _write_failure(error: lmdb.Error) -> StoreError:
    if isinstance(error, lmdb.MapFullError):
        return DiskFull(f"the database is full: {error}")
    return WriteFailed(f"the database could not be written: {error}")


def _verifies(database: Path) -> bool:
    verify: Callable[[str], list[str]] = lmdb.verify.verify
    try:
        problems = verify(str(database))
    except lmdb.verify.VerifyError as error:
        problems = [str(error)]
    for problem in problems[:10]:
        log.error("%s: %s", database / "data.mdb", problem)
    return not problems


def _lock(path: Path) -> int:
    """A lock that the kernel releases with the process. Raises Locked that names the holder."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise Locked(f"process {holder} is using {path.parent}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
