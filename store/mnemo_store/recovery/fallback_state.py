"""The fallback state: the replay of the journal in memory, for a store without a usable database. SPEC 3.4.

It gives the same answers as the database; the agreement tests compare them. Readers and the one writer exclude each
other: a transaction waits for the snapshots that are open, and snapshots wait until it is committed or aborted. Both
are short. Within a transaction, reads go through the writer of its savepoint.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from mnemo_store import codec
from mnemo_store.backend import Snapshot, StateBackend, StateTransaction, StateWriter
from mnemo_store.codec import NO_CHANGES, Position, seq_of
from mnemo_store.errors import WriteFailure
from mnemo_store.journal import dump
from mnemo_store.journal.journal import Journal, LocatedLine
from mnemo_store.records import FORMAT
from mnemo_store.recovery.in_memory_tables import (
    INDEX_BITS,
    CurrentRecord,
    InMemoryTables,
    RecordLocation,
    ScoredRecord,
)
from mnemo_store.tables import MULTI_VALUE_TABLES, StoredMemory, Table

KEY_BYTES_MAX = 511  # of a key of LMDB

R = TypeVar("R")

log = logging.getLogger("mnemo.store")


class ReadWriteLock:
    """Shared access for readers; exclusive access for the thread that closes or reopens the database."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @property
    def is_exclusive(self) -> bool:
        """True while a reader would have to wait."""
        return self._closed

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Shared access within the block; waits while a thread has exclusive access."""
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
    def exclusive(self) -> Iterator[None]:
        """Exclusive access within the block; waits for the readers there are. New readers wait."""
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


class FallbackSnapshot(Snapshot):
    """A snapshot, valid as long as nobody writes. It has only vectors written since the replay: the journal has
    none."""

    def __init__(self, contents: InMemoryTables, now: int) -> None:
        self.now = now  # ms
        self._contents = contents
        self._tables = contents.tables

    def _value(self, table: str, key: bytes) -> Any:
        return self._tables[table].rows.get(key)

    def _values(self, table: str, key: bytes) -> list[bytes]:
        found = []
        for row, value in self._tables[table].walk(key):
            if not row.startswith(key):
                break
            found.append(value)
        return found

    def _rows_from(self, table: str, start: bytes = b"") -> Iterator[tuple[bytes, Any]]:
        return self._tables[table].walk(start)

    def _last_rows(self, table: str) -> Iterator[tuple[bytes, Any]]:
        return self._tables[table].backwards()

    def row_count(self, table: str) -> int:
        return len(self._tables[table])

    def _opened(self, table: Table[R], key: bytes, value: Any) -> R:
        opened: Any
        if table.name == "memories":
            opened = StoredMemory(value.seq, self._contents.memory(value.where))
        elif table.name == "versions":
            opened = StoredMemory(seq_of(key[16:]), self._contents.memory(value))
        else:
            opened = table.open(key, value)
        return opened  # type: ignore[no-any-return]


class FallbackWriter(FallbackSnapshot, StateWriter):
    """The writer within a savepoint."""

    def _put(self, table: str, key: bytes, value: Any) -> None:
        self._tables[table].put(_row_key(table, key, value), value)

    def _delete(self, table: str, key: bytes, value: bytes = b"") -> None:
        self._tables[table].drop(_row_key(table, key, value))

    def _memory_value(self, stored: StoredMemory, index: int, hashed: bytes, named: bytes) -> CurrentRecord:
        return CurrentRecord(stored.seq, codec.encode(stored.memory), hashed, named)

    def _version_value(self, value: CurrentRecord) -> RecordLocation:
        return value.where

    def _scored_value(self, value: CurrentRecord, importance: float) -> CurrentRecord:
        where = value.where.where if isinstance(value.where, ScoredRecord) else value.where
        return msgspec.structs.replace(value, where=ScoredRecord(where, importance))

    def _seq_of(self, value: CurrentRecord) -> int:
        return value.seq

    def _found_by(self, value: CurrentRecord) -> tuple[bytes, bytes]:
        return value.hashed, value.named


class ReplayWriter(FallbackWriter):
    """The writer of the replay, whose writes are not undone. Memories stay in the journal."""

    def __init__(self, contents: InMemoryTables) -> None:
        super().__init__(contents, 0)
        self._line = 0  # number of the location of the current line

    def _put(self, table: str, key: bytes, value: Any) -> None:
        self._tables[table].set(_row_key(table, key, value), value)

    def _delete(self, table: str, key: bytes, value: bytes = b"") -> None:
        self._tables[table].set(_row_key(table, key, value), None)

    def _memory_value(self, stored: StoredMemory, index: int, hashed: bytes, named: bytes) -> CurrentRecord:
        return CurrentRecord(stored.seq, self._line << INDEX_BITS | index, hashed, named)

    def apply_line(self, read: LocatedLine) -> None:
        self._line = self._contents.locations.add(read.location)
        self.apply(read.line.changes, read.line.seq, read.line.entry())

    def snapshot_rows(self, journal: Journal) -> Iterator[dump.DumpRow]:
        """The rows of the snapshot that a rewritten journal begins with, for `dump.load`."""
        for row, location in journal.snapshot_rows():
            if isinstance(row, dump.MemoryRow | dump.VersionRow):
                self._line = self._contents.locations.add(location)
            yield row


def _row_key(table: str, key: bytes, value: Any) -> bytes:
    """The key of a row in memory, where several rows under one key of the database each have their own. Raises
    WriteFailure for a key that the database, which must take the row over later, could not store."""
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise WriteFailure(f"a key of {len(key)} bytes: the database takes 1 to {KEY_BYTES_MAX}")
    return key + value if table in MULTI_VALUE_TABLES else key


class FallbackState(StateBackend):
    """The replay of a journal. Writes are made in memory alone; the commit group appends their lines."""

    def __init__(self, journal: Journal) -> None:
        """Replays the journal, a few seconds for 100,000 memories. Raises OSError where it cannot be read."""
        self.end = NO_CHANGES
        self.gaps: list[str] = []  # sentences on changes that could not be read
        self._lock = ReadWriteLock()
        self._contents = InMemoryTables(journal.fetch)
        # Applies all readable lines in order. A gap is damage, reported in `gaps`; the lines after it are
        # kept, since without a database nobody knows which of them were acknowledged.
        writing = ReplayWriter(self._contents)
        for name, value in {"format": str(FORMAT), "store": journal.store_id, "salt": journal.salt}.items():
            writing.set_meta(name, value)
        dump.load(writing.snapshot_rows(journal), writing)
        self.end = journal.snapshot_last
        for read in journal.lines(after=self.end[0]):
            if gap := read.gap_after(self.end):
                self.gaps.append(gap)
            writing.apply_line(read)
            self.end = read.position
        if self.end != NO_CHANGES:
            writing.set_position(self.end)

    @contextlib.contextmanager
    def snapshot(self, now: int) -> Iterator[FallbackSnapshot]:
        """A snapshot. Keep it for at most 100 ms, since writes wait for it, and take no other within it."""
        with self._lock.shared():
            yield FallbackSnapshot(self._contents, now)

    def begin(self) -> "FallbackTransaction":
        """Begins a transaction; waits for the snapshots that are open."""
        return FallbackTransaction(self, self._contents, self._lock)

    @property
    def vectors(self) -> dict[bytes, bytes]:
        """Rows of the table of embeddings written since the replay, for a database to take over."""
        return self._contents.vectors

    def close(self) -> None:
        """Does nothing: the journal belongs to the caller."""


class FallbackTransaction(StateTransaction):
    """A transaction with exclusive access from its beginning until it is committed or aborted."""

    def __init__(self, state: FallbackState, contents: InMemoryTables, lock: ReadWriteLock) -> None:
        self._state = state
        self._contents = contents
        self._end = state.end
        self._alone = contextlib.ExitStack()
        self._alone.enter_context(lock.exclusive())

    @contextlib.contextmanager
    def savepoint(self, now: int) -> Iterator[FallbackWriter]:
        mark = len(self._contents.undo)
        try:
            yield FallbackWriter(self._contents, now)
        except BaseException:
            self._contents.roll_back(mark)
            raise

    def record_end(self, now: int, end: Position) -> None:
        """Notes the last transaction of the group."""
        FallbackWriter(self._contents, now).set_position(end)
        self._end = end

    def commit(self) -> None:
        self._contents.undo.clear()
        self._state.end = self._end
        self._alone.close()

    def abort(self) -> None:
        self._contents.roll_back(0)
        self._alone.close()
