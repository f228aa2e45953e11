"""The tables of the fallback state, in memory: filled by a replay of the journal, with the vectors written since. SPEC
3.4.

For a memory only the location of its record in the journal is held, so that 100,000 of them need no more room than
their ids and index keys; a read fetches the line. A record written in a transaction is held itself, since its line may
still be refused. All other records are small, and held as MessagePack.
"""

import functools
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from mnemo_store import codec
from mnemo_store.errors import StoreCorruption
from mnemo_store.journal.journal import LineLocation
from mnemo_store.journal.line_codec import unseal_json
from mnemo_store.records import Memory
from mnemo_store.tables import EMBEDDINGS, TABLE_NAMES

LINES_KEPT = 16  # decoded lines in the cache; a walk in the order of ids needs few lines at a time
INDEX_BITS = 24  # for the index of a change within its line; no line holds 16 million


class ScoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record whose importance was set by a later change, and where the record is."""

    where: int | bytes
    importance: float


# Number and index of a line in the journal, or the record itself as MessagePack; both with another importance.
RecordLocation = int | bytes | ScoredRecord


class _RawLine(msgspec.Struct):
    """The changes of a line, undecoded; a row of a dump has none."""

    changes: tuple[msgspec.Raw, ...] = ()


class _RawRecord(msgspec.Struct):
    """The record of a change, or of a row of a dump."""

    data: Memory


_decode_pieces = msgspec.json.Decoder(_RawLine).decode
_decode_record = msgspec.json.Decoder(_RawRecord).decode


class CurrentRecord(msgspec.Struct, frozen=True, gc=False):
    """The current version of a memory, and its index keys."""

    seq: int
    where: RecordLocation
    hashed: bytes  # key in `hashes`: of scope and content; empty where it has none
    named: bytes  # key in `keys`: of namespace, user and key; empty where it has none


class OrderedRows:
    """A dict that can be walked in the order of its keys, and that notes in `undo` how to undo each write."""

    def __init__(self, undo: "list[UndoEntry] | None") -> None:
        self.rows: dict[bytes, Any] = {}
        self._order: list[bytes] | None = None  # the keys in order; maintained from the first walk on
        self._undo = undo

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, key: bytes, value: Any) -> None:
        if self._undo is not None:
            self._undo.append(UndoEntry(self, key, self.rows.get(key)))
        self.set(key, value)

    def drop(self, key: bytes) -> None:
        if key in self.rows:
            if self._undo is not None:
                self._undo.append(UndoEntry(self, key, self.rows[key]))
            self.set(key, None)

    def set(self, key: bytes, value: Any) -> None:
        """Sets or, with None, removes a row."""
        if value is not None:
            if self._order is not None and key not in self.rows:
                insort(self._order, key)
            self.rows[key] = value
        elif self.rows.pop(key, None) is not None and self._order is not None:
            del self._order[bisect_left(self._order, key)]

    def walk(self, start: bytes = b"") -> Iterator[tuple[bytes, Any]]:
        """The rows from a key on, in order."""
        keys = self._keys()
        for index in range(bisect_left(keys, start), len(keys)):
            yield keys[index], self.rows[keys[index]]

    def backwards(self) -> Iterator[tuple[bytes, Any]]:
        """All rows, the last first."""
        return ((key, self.rows[key]) for key in reversed(self._keys()))

    def _keys(self) -> list[bytes]:
        if self._order is None:
            self._order = sorted(self.rows)  # assigned when sorted: another reader may be here at the same moment
        return self._order


class UndoEntry(NamedTuple):
    """A write, and the value before it; None for no value."""

    rows: OrderedRows
    key: bytes
    before: Any


class LocationList:
    """Numbered locations in the journal. As 100,000 objects they would need ten times the room."""

    def __init__(self) -> None:
        self._figures = array("Q")  # three of each

    def add(self, location: LineLocation) -> int:
        self._figures.extend(location)
        return len(self._figures) // 3 - 1

    def __getitem__(self, number: int) -> LineLocation:
        return LineLocation(*self._figures[3 * number : 3 * number + 3])


class InMemoryTables:
    """The rows of every table, and `undo`: how to undo the writes since it was last cleared. Vectors are only those
    written since the replay, which wait for a database; they belong to texts, not to writes, and are not undone."""

    def __init__(self, fetch: Callable[[LineLocation], bytes]) -> None:
        self.undo: list[UndoEntry] = []
        self.tables = {name: OrderedRows(None if name == EMBEDDINGS else self.undo) for name in TABLE_NAMES}
        self.vectors: dict[bytes, bytes] = self.tables[EMBEDDINGS].rows
        self.locations = LocationList()
        self._pieces_of = functools.lru_cache(LINES_KEPT)(functools.partial(_pieces_of, fetch, self.locations))

    def memory(self, where: RecordLocation) -> Memory:
        """The record at a location. Raises StoreCorruption where the journal no longer has it."""
        if isinstance(where, ScoredRecord):
            return msgspec.structs.replace(self.memory(where.where), importance=where.importance)
        if isinstance(where, bytes):
            return codec.decode_memory(where)
        number, index = where >> INDEX_BITS, where & ((1 << INDEX_BITS) - 1)
        try:
            return _decode_record(self._pieces_of(number)[index]).data
        except (OSError, ValueError, IndexError) as error:
            raise StoreCorruption(f"a line of the journal has changed since it was replayed: {error}") from error

    def roll_back(self, mark: int) -> None:
        """Undoes every write since `undo` had this length."""
        while len(self.undo) > mark:
            written = self.undo.pop()
            written.rows.set(written.key, written.before)


def _pieces_of(fetch: Callable[[LineLocation], bytes], locations: LocationList, number: int) -> Sequence[msgspec.Raw]:
    """The changes in a line, or the row that it is, as undecoded JSON: of 500, few are read."""
    line, _ = unseal_json(fetch(locations[number]))
    return _decode_pieces(line).changes or (msgspec.Raw(line),)
