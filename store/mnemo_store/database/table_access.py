"""Rows of the LMDB database: the access that `backend` rests on, and what checks and repairs read. docs/format.md.

The keys of embeddings are hashes. Long values under keys that come in no order leave two fifths of LMDB's pages empty,
so the values lie in a table of their own, in the order in which they came, and the table of embeddings has references
to them. Long values of other tables are packed. Only this module knows: it shows each row as its key and its value.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import lmdb
import msgspec

from mnemo_store import codec
from mnemo_store.backend import READ_SLICE, Snapshot, StateWriter, found_by
from mnemo_store.codec import seq_of
from mnemo_store.tables import (
    EMBEDDING_ROWS,
    EMBEDDINGS,
    INDEXES,
    MEMORIES,
    MULTI_VALUE_TABLES,
    TABLE_NAMES,
    StoredMemory,
)

TABLES_MAX = len(TABLE_NAMES) + 1

Handles = Mapping[str, Any]  # of the named databases of LMDB, by table


class TableRow(NamedTuple):
    """A row as it is on the disk."""

    key: bytes
    value: bytes


def open_tables(env: Any, *, create: bool = True) -> Handles:
    """The handles of all tables. Raises lmdb.NotFoundError where one is missing and is not to be made; without
    references nothing needs EMBEDDING_ROWS."""
    handles = {
        name: env.open_db(
            name.encode(), create=create, dupsort=name in MULTI_VALUE_TABLES, dupfixed=name in MULTI_VALUE_TABLES
        )
        for name in TABLE_NAMES
    }
    with contextlib.nullcontext() if create else contextlib.suppress(lmdb.NotFoundError):
        handles[EMBEDDING_ROWS] = env.open_db(EMBEDDING_ROWS.encode(), create=create)
    return handles


_REFERENCE = b"\2"  # a reference begins with it, and has the key in EMBEDDING_ROWS behind it
_NUMBER_BYTES = 4


def _is_reference(value: bytes | None) -> bool:
    """True for a reference. Before there were any, no value had 5 bytes, or it began with another one."""
    return value is not None and len(value) == 1 + _NUMBER_BYTES and value.startswith(_REFERENCE)


class TableSnapshot(Snapshot):
    """A snapshot, valid as long as its transaction."""

    def __init__(self, transaction: Any, tables: Handles, now: int) -> None:
        self.now = now  # ms
        self._txn = transaction
        self._tables = tables

    def _value(self, table: str, key: bytes) -> Any:
        return self._shown(table, self._txn.get(key, db=self._tables[table]))

    def _shown(self, table: str, value: Any) -> Any:
        """The value that a row is shown with; empty, which is none, where a reference leads to nothing."""
        if table != EMBEDDINGS:
            return value if value is None else codec.unpack_value(value)
        if not _is_reference(value):
            return value
        return self._txn.get(value[1:], b"", db=self._tables[EMBEDDING_ROWS])

    def _values(self, table: str, key: bytes) -> list[bytes]:
        with self._txn.cursor(db=self._tables[table]) as cursor:
            return list(cursor.iternext_dup()) if cursor.set_key(key) else []

    def _rows_from(self, table: str, start: bytes = b"") -> Iterator[tuple[bytes, Any]]:
        with self._txn.cursor(db=self._tables[table]) as cursor:
            more = cursor.set_range(start) if start else cursor.first()
            while more:
                yield cursor.key(), self._shown(table, cursor.value())
                more = cursor.next()

    def _last_rows(self, table: str) -> Iterator[tuple[bytes, Any]]:
        with self._txn.cursor(db=self._tables[table]) as cursor:
            more = cursor.last()
            while more:
                yield cursor.key(), self._shown(table, cursor.value())
                more = cursor.prev()

    def row_count(self, table: str) -> int:
        return int(self._txn.stat(self._tables[table])["entries"])

    def table_bytes(self) -> dict[str, int]:
        """The bytes of the pages of each table."""
        stats = {name: self._txn.stat(table) for name, table in self._tables.items()}
        pages = ("branch_pages", "leaf_pages", "overflow_pages")
        return {name: each["psize"] * sum(each[kind] for kind in pages) for name, each in stats.items()}

    # The rows as they are on the disk, for checks and repairs

    def row(self, table: str, key: bytes) -> bytes | None:
        value: bytes | None = self._value(table, key)
        return value

    def rows(self, table: str, after: tuple[bytes, bytes] | None = None, limit: int = READ_SLICE) -> list[TableRow]:
        """The rows after the row `after`, in the order of their keys; fewer than `limit` are the last."""
        found: list[TableRow] = []
        with self._txn.cursor(db=self._tables[table]) as cursor:
            more = cursor.first() if after is None else _move_after(cursor, table, after)
            while more and len(found) < limit:
                found.append(TableRow(cursor.key(), self._shown(table, cursor.value())))
                more = cursor.next()
        return found

    def has_row(self, table: str, row: TableRow) -> bool:
        """True if exactly this row exists."""
        with self._txn.cursor(db=self._tables[table]) as cursor:
            if table in MULTI_VALUE_TABLES:
                return bool(cursor.set_key_dup(*row))
            return bool(cursor.set_key(row.key) and self._shown(table, cursor.value()) == row.value)

    def all_rows(self, table: str) -> Iterator[TableRow]:
        """Every row, in the order of the keys. The table may be written to meanwhile."""
        after: TableRow | None = None
        while rows := self.rows(table, after):
            yield from rows
            after = rows[-1]


OVERFLOW_BYTES_MIN = 1_000  # less than the longest value that LMDB keeps within a page


class TableWriter(TableSnapshot, StateWriter):
    """The writer within a write transaction."""

    def _put(self, table: str, key: bytes, value: Any) -> None:
        # LMDB writes a shorter value over a long one of the same transaction in index, in pages to spare, and the
        # integrity check reports these as damage.
        if table == EMBEDDINGS:
            before = self._txn.get(key, db=self._tables[EMBEDDINGS])
            if _is_reference(before):
                table, key = EMBEDDING_ROWS, before[1:]
            else:
                value = self._append_embedding(value)
        else:
            value = codec.pack_value(value)
        handle = self._tables[table]
        if table not in INDEXES:  # all values of one of these have the same length
            before = self._txn.get(key, db=handle)
            if before is not None and len(before) > max(OVERFLOW_BYTES_MIN, len(value)):
                self._txn.delete(key, db=handle)
            # Their ids rise. Where a new one is put at the end by itself, LMDB halves pages, and a third stays empty.
            if table == MEMORIES.name and before is None and self._txn.put(key, value, append=True, db=handle):
                return
        self._txn.put(key, value, db=handle)

    def _append_embedding(self, value: Any) -> bytes:
        """Puts a value at the end of EMBEDDING_ROWS; the reference to it."""
        handle = self._tables[EMBEDDING_ROWS]
        with self._txn.cursor(db=handle) as cursor:
            number = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
        key = number.to_bytes(_NUMBER_BYTES, "big")
        self._txn.put(key, value, append=True, db=handle)
        return _REFERENCE + key

    def _delete(self, table: str, key: bytes, value: bytes = b"") -> None:
        if table == EMBEDDINGS and _is_reference(reference := self._txn.get(key, db=self._tables[table])):
            self._txn.delete(reference[1:], db=self._tables[EMBEDDING_ROWS])
        self._txn.delete(key, value, db=self._tables[table])

    def _memory_value(self, stored: StoredMemory, index: int, hashed: bytes, named: bytes) -> bytes:
        return MEMORIES.encode(stored)

    def _version_value(self, value: bytes) -> bytes:
        return value[8:]

    def _scored_value(self, value: bytes, importance: float) -> bytes:
        memory = codec.decode_memory(value[8:])
        return value[:8] + codec.encode(msgspec.structs.replace(memory, importance=importance))

    def _seq_of(self, value: bytes) -> int:
        return seq_of(value[:8])

    def _found_by(self, value: bytes) -> tuple[bytes, bytes]:
        return found_by(codec.decode_memory(value[8:]))

    def put_row(self, table: str, row: TableRow) -> None:
        """Puts a row as it is: for maintenance, which works on rows instead of records."""
        self._put(table, *row)

    def put_rows(self, table: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Puts rows as they are."""
        for key, value in rows:
            self._put(table, key, value)

    def append_rows(self, table: str, rows: Sequence[TableRow]) -> None:
        """Appends rows in the order of their keys, after all that are there."""
        for key, value in rows:
            kept = self._append_embedding(value) if table == EMBEDDINGS else codec.pack_value(value)
            self._txn.put(key, kept, append=True, db=self._tables[table])

    def delete_row(self, table: str, row: TableRow) -> None:
        self._delete(table, row.key, row.value if table in MULTI_VALUE_TABLES else b"")


def _move_after(cursor: Any, table: str, row: tuple[bytes, bytes]) -> bool:
    """Moves the cursor to the first row after this one; False where there is none."""
    key, value = row
    if table in MULTI_VALUE_TABLES and cursor.set_range_dup(key, value):
        return bool(cursor.next() if cursor.value() == value else True)
    if not cursor.set_range(key):
        return False
    return bool(cursor.next_nodup() if cursor.key() == key else True)
