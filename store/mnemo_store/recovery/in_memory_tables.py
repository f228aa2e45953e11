"""What a replay of the journal holds, in dicts: every row of the store, and the vectors that came since. SPEC 3.4.

Of a memory's record no more is held than where in the journal it stands, so that 100,000 of them need no more room than
their ids and what they are found by; a read fetches the line. One that is written into a group is held itself: its line
may yet be refused. Everything else is small, and held packed.
"""

import functools
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, assert_never

import msgspec

from mnemo_store import codec
from mnemo_store.backend import TouchedMemory
from mnemo_store.codec import id_key, is_sealed
from mnemo_store.errors import StoreCorruption, WriteFailure
from mnemo_store.journal.journal import LineLocation
from mnemo_store.records import (
    Change,
    ChangeEntry,
    DropEdge,
    DropForgotten,
    DropMemory,
    DropNote,
    DropRoot,
    DropSkip,
    DropTrash,
    Edge,
    Memory,
    PutEdge,
    PutForgotten,
    PutMemory,
    PutMeta,
    PutNote,
    PutRoot,
    PutSkip,
    PutTrash,
    PutUsage,
    Skip,
)
from mnemo_store.tables import HASHED_STATES, hash_key, name_key, with_touched_ids

LINES_KEPT = 16  # at hand; a walk in the order of ids stays within few lines at a time
KEY_BYTES_MAX = 511  # of a key of LMDB
INDEX_BITS = 24  # of a change within its line; no line holds 16 million

K = TypeVar("K")
V = TypeVar("V")
EdgeKey = tuple[bytes, str, bytes]  # source, relation, target
EdgeEnd = tuple[str, str, bytes]  # "<" for an edge towards the memory or ">" for one from it, relation, the other end
RecordLocation = int | bytes  # of a record: in the journal, or here, packed


class _RawLine(msgspec.Struct):
    """Of a line no more than its changes; a row of a stream has none."""

    changes: tuple[msgspec.Raw, ...] = ()


class _RawRecord(msgspec.Struct):
    """Of a change, or of a row of a stream, no more than its record."""

    data: Memory


_decode_pieces = msgspec.json.Decoder(_RawLine).decode
_decode_record = msgspec.json.Decoder(_RawRecord).decode


class EarlierVersion(msgspec.Struct, frozen=True, gc=False):
    """An earlier version of a memory."""

    seq: int
    where: RecordLocation


class CurrentRecord(msgspec.Struct, frozen=True, gc=False):
    """The current version of a memory, its number, and what it is found by."""

    seq: int
    where: RecordLocation
    number: int
    hashed: bytes  # of scope and content; empty where it is not to be found by them
    named: bytes  # of namespace, user and key; empty without a key


class OrderedRows(Generic[K, V]):
    """A dict that can be walked in the order of its keys, and that notes how each of its writes is taken back."""

    def __init__(self, undo: "list[UndoEntry]") -> None:
        self._rows: dict[K, V] = {}
        self._order: list[Any] | None = None  # the keys in order; from the first walk on it is kept so
        self._undo = undo

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: K) -> V | None:
        return self._rows.get(key)

    def put(self, key: K, value: V) -> None:
        self._undo.append(UndoEntry(self, key, self._rows.get(key)))
        self.set(key, value)

    def drop(self, key: K) -> None:
        if key in self._rows:
            self._undo.append(UndoEntry(self, key, self._rows[key]))
            self.set(key, None)

    def set(self, key: K, value: V | None) -> None:
        """The row from now on; None for no row."""
        is_there = key in self._rows
        if value is not None:
            self._rows[key] = value
            if self._order is not None and not is_there:
                insort(self._order, key)
        elif is_there:
            del self._rows[key]
            if self._order is not None:
                del self._order[bisect_left(self._order, key)]

    def after(self, after: K | None = None) -> Iterator[tuple[K, V]]:
        """The rows whose keys are greater than `after`, in order."""
        keys = self._keys()
        for index in range(0 if after is None else bisect_right(keys, after), len(keys)):
            yield keys[index], self._rows[keys[index]]

    def backwards(self) -> Iterator[tuple[K, V]]:
        """All rows, the last first."""
        return ((key, self._rows[key]) for key in reversed(self._keys()))

    def _keys(self) -> list[Any]:
        if self._order is None:
            keys: list[Any] = list(self._rows)
            keys.sort()
            self._order = keys  # only now: another reader may be here at the same moment
        return self._order


class UndoEntry(NamedTuple):
    """A write, and what was there before it; None for nothing."""

    rows: OrderedRows[Any, Any]
    key: Any
    before: Any


class LocationList:
    """Places in the journal under numbers. As 100,000 objects they would need ten times the room."""

    def __init__(self) -> None:
        self._files, self._offsets, self._lengths = array("Q"), array("Q"), array("Q")

    def add(self, place: LineLocation) -> int:
        self._files.append(place.file)
        self._offsets.append(place.offset)
        self._lengths.append(place.length)
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> LineLocation:
        return LineLocation(self._files[number], self._offsets[number], self._lengths[number])


class InMemoryTables:
    """Every row of the store, and `undo`: how the writes since it was emptied are taken back. Of the vectors only those
    that came since, which wait for a database; they stand for their texts, so there is nothing to take back."""

    def __init__(self, fetch: Callable[[LineLocation], bytes]) -> None:
        self.undo: list[UndoEntry] = []
        self.current: OrderedRows[bytes, CurrentRecord] = OrderedRows(self.undo)
        self.earlier: OrderedRows[bytes, tuple[EarlierVersion, ...]] = OrderedRows(
            self.undo
        )  # of one memory, in the order of seqs
        self.owners: OrderedRows[int, bytes] = OrderedRows(self.undo)  # of the numbers
        self.hashes: OrderedRows[bytes, tuple[bytes, ...]] = OrderedRows(self.undo)  # the ids in order
        self.names: OrderedRows[bytes, bytes] = OrderedRows(self.undo)
        self.entries: OrderedRows[int, bytes] = OrderedRows(self.undo)
        self.usages: OrderedRows[bytes, bytes] = OrderedRows(self.undo)
        self.trash: OrderedRows[bytes, bytes] = OrderedRows(self.undo)
        self.edges: OrderedRows[EdgeKey, bytes] = OrderedRows(self.undo)
        self.ends: OrderedRows[bytes, tuple[EdgeEnd, ...]] = OrderedRows(self.undo)  # of one memory, in order
        self.notes: OrderedRows[bytes, bytes] = OrderedRows(self.undo)
        self.roots: OrderedRows[bytes, bytes] = OrderedRows(self.undo)
        self.skips: OrderedRows[tuple[bytes, ...], bool] = OrderedRows(self.undo)  # by file and hash
        self.forgotten: OrderedRows[str, bytes] = OrderedRows(self.undo)
        self.metas: OrderedRows[str, str] = OrderedRows(self.undo)
        self.vectors: dict[bytes, bytes] = {}
        self.places = LocationList()
        self._pieces_of = functools.lru_cache(LINES_KEPT)(functools.partial(_pieces_of, fetch, self.places))

    def memory(self, where: RecordLocation) -> Memory:
        """The record that stands there. Raises Damaged where the journal no longer has it."""
        if isinstance(where, bytes):
            return codec.decode_memory(where)
        number, index = where >> INDEX_BITS, where & ((1 << INDEX_BITS) - 1)
        try:
            return _decode_record(self._pieces_of(number)[index]).data
        except (OSError, ValueError, IndexError) as error:
            raise StoreCorruption(
                f"a line of the journal is no longer what it was when it was replayed: {error}"
            ) from error

    def where(self, place: LineLocation) -> int:
        """The record of a row of a snapshot that stands there."""
        return self.places.add(place) << INDEX_BITS

    def roll_back(self, mark: int) -> None:
        """Undoes every write since `undo` had this length."""
        while len(self.undo) > mark:
            written = self.undo.pop()
            written.rows.set(written.key, written.before)

    def apply(  # noqa: C901 - flat: one case a change
        self, changes: Sequence[Change], seq: int, entry: ChangeEntry, line: int | None = None
    ) -> list[TouchedMemory]:
        """Makes the changes; `line` is the number of their line's place, None where they stand in no line yet."""
        touched: dict[str, TouchedMemory] = {}
        for index, change in enumerate(changes):
            match change:
                case PutMemory(data=memory):
                    where = codec.encode(memory) if line is None else line << INDEX_BITS | index
                    number = self.put_memory(memory, seq, where)
                    used = touched[memory.id].usage if memory.id in touched else None
                    touched[memory.id] = TouchedMemory(number, memory, used)
                case DropMemory(id=memory_id):
                    number_before = self.drop_memory(id_key(memory_id))
                    if number_before is not None:
                        touched[memory_id] = TouchedMemory(number_before, None, None, dropped=True)
                case PutUsage(data=usage):
                    self.usages.put(id_key(usage.id), codec.encode(usage))
                    current = self.current.get(id_key(usage.id))
                    if current is not None:
                        record = touched[usage.id].memory if usage.id in touched else None
                        touched[usage.id] = TouchedMemory(current.number, record, usage)
                case PutTrash(data=trashed):
                    self.trash.put(id_key(trashed.id), codec.encode(trashed))
                case DropTrash(id=memory_id):
                    self.trash.drop(id_key(memory_id))
                case PutEdge(data=edge):
                    self.put_edge(edge)
                case DropEdge():
                    self.drop_edge(edge_key(change))
                case PutNote(data=note):
                    self.notes.put(id_key(note.id), codec.encode(note))
                case DropNote(id=file_id):
                    self.notes.drop(id_key(file_id))
                case PutRoot(data=root):
                    self.roots.put(id_key(root.id), codec.encode(root))
                case DropRoot(id=root_id):
                    self.roots.drop(id_key(root_id))
                case PutSkip(data=skip):
                    self.skips.put(skip_key(skip), True)
                case DropSkip():
                    self.skips.drop(skip_key(change))
                case PutForgotten(data=forgotten):
                    self.forgotten.put(checked_key(forgotten.hash), codec.encode(forgotten))
                case DropForgotten(hash=digest):
                    self.forgotten.drop(checked_key(digest))
                case PutMeta(name=name, value=value):
                    self.metas.put(checked_key(name), value)
                case _:
                    assert_never(change)
        self.entries.put(seq, codec.encode(with_touched_ids(entry, changes)))
        return list(touched.values())

    def put_memory(self, memory: Memory, seq: int, where: RecordLocation) -> int:
        """The record from now on; the one before it becomes an earlier version. Returns the number."""
        key = id_key(memory.id)
        before = self.current.get(key)
        if before is None:
            number = int(self.metas.get("next_number") or 0)
            self.metas.put("next_number", str(number + 1))
        else:
            number = before.number
            if before.seq != seq:
                self.put_version(key, EarlierVersion(before.seq, before.where))
            self._remove_from_indexes(key, before)
        self.put_current(key, memory, seq, where, number)
        return number

    def put_current(self, key: bytes, memory: Memory, seq: int, where: RecordLocation, number: int) -> None:
        """A record, and what it is found by."""
        hashed = named = b""
        if memory.state in HASHED_STATES:
            hashed = hash_key(memory)
            _put_in(self.hashes, hashed, key)
        if memory.key:
            named = name_key(memory)
            self.names.put(named, key)
        self.current.put(key, CurrentRecord(seq, where, number, hashed, named))
        self.owners.put(number, key)

    def put_version(self, key: bytes, version: EarlierVersion) -> None:
        kept = self.earlier.get(key) or ()
        if kept and kept[-1].seq >= version.seq:
            others = (other for other in kept if other.seq != version.seq)
            self.earlier.put(key, tuple(sorted((*others, version), key=lambda one: one.seq)))
        else:
            self.earlier.put(key, (*kept, version))

    def drop_memory(self, key: bytes) -> int | None:
        """Takes away all that is known of a memory. Returns the number it had."""
        before = self.current.get(key)
        if before is not None:
            self._remove_from_indexes(key, before)
            self.owners.drop(before.number)
        for direction, relation, other in self.ends.get(key) or ():
            self.drop_edge((other, relation, key) if direction == "<" else (key, relation, other))
        for rows in (self.current, self.earlier, self.usages, self.trash):
            rows.drop(key)
        return before.number if before is not None else None

    def put_edge(self, edge: Edge) -> None:
        source, relation, target = key = edge_key(edge)
        self.edges.put(key, codec.encode(edge))
        _put_in(self.ends, source, (">", relation, target))
        _put_in(self.ends, target, ("<", relation, source))

    def drop_edge(self, key: EdgeKey) -> None:
        source, relation, target = key
        self.edges.drop(key)
        _take_out(self.ends, source, (">", relation, target))
        _take_out(self.ends, target, ("<", relation, source))

    def _remove_from_indexes(self, key: bytes, before: CurrentRecord) -> None:
        """A record is no longer found by what it was found by."""
        _take_out(self.hashes, before.hashed, key)
        if self.names.get(before.named) == key:
            self.names.drop(before.named)


def _pieces_of(fetch: Callable[[LineLocation], bytes], places: LocationList, number: int) -> Sequence[msgspec.Raw]:
    """The changes in a line, or the row that it is, each as its JSON: of 500, few are asked for."""
    line = fetch(places[number])
    if not is_sealed(line):
        raise ValueError("its checksum does not match")
    return _decode_pieces(line).changes or (msgspec.Raw(line),)


def edge_key(edge: Edge | DropEdge) -> EdgeKey:
    return id_key(edge.source), edge.relation, id_key(edge.target)


def skip_key(skip: Skip | DropSkip) -> tuple[bytes, ...]:
    file, digest = id_key(skip.file), skip.hash.encode()
    _check_key(file + digest)
    return file, digest


def checked_key(name: str) -> str:
    """The name of a fact, or the hash of a forgotten text, where the database could take it as a key."""
    _check_key(name.encode())
    return name


def _check_key(key: bytes) -> None:
    """Raises WriteFailed where the database, which must take the row over before long, could not."""
    if not 0 < len(key) <= KEY_BYTES_MAX:
        raise WriteFailure(f"a key of {len(key)} bytes: the database takes 1 to {KEY_BYTES_MAX}")


def _put_in(rows: OrderedRows[bytes, tuple[V, ...]], key: bytes, one: V) -> None:
    """Puts a value among those of a row, which are in order, each once."""
    values: Any = rows.get(key) or ()
    index = bisect_left(values, one)
    if values[index : index + 1] != (one,):
        rows.put(key, (*values[:index], one, *values[index:]))


def _take_out(rows: OrderedRows[bytes, tuple[V, ...]], key: bytes, one: V) -> None:
    """Takes a value out of a row; the row goes with its last."""
    values: Any = rows.get(key) or ()
    index = bisect_left(values, one)
    if values == (one,):
        rows.drop(key)
    elif values[index : index + 1] == (one,):
        rows.put(key, (*values[:index], *values[index + 1 :]))
