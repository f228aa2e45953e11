"""The interface of a state backend: snapshots to read, transactions to write.

There are two backends: the database (`database.table_access`), and the replay of the journal
(`recovery.fallback_state`), for when no database can be trusted. A backend gives access to rows by table and key. The
rows are interpreted here, once for both, so both give the same answers, row number for row number.
"""

import abc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store import codec
from mnemo_store.codec import Position, digest_key, digest_keys, id_key, id_text, seq_key
from mnemo_store.record_texts import content_hash
from mnemo_store.records import (
    Change,
    ChangeEntry,
    DropMemory,
    Edge,
    ErasedText,
    Fact,
    Memory,
    NoteFile,
    NoteRoot,
    PutMemory,
    PutMeta,
    PutScore,
    PutUsage,
    PutVersion,
    TrashEntry,
    TurnPair,
    Usage,
)
from mnemo_store.tables import (
    BY_CHANGE,
    CHANGES,
    EDGES,
    EMBEDDINGS,
    FACTS,
    FORGOTTEN,
    MEMORIES,
    META,
    NOTES,
    OF_A_MEMORY,
    ROOTS,
    SKIPS,
    TRASH,
    USAGE,
    VERSIONS,
    LoggedChange,
    StoredMemory,
    Table,
    record_in,
)

READ_SLICE = 1000  # rows that one step of a long walk reads under one snapshot
HASHED_STATES = frozenset({"active", "archived", "compressed", "superseded"})

R = TypeVar("R")


class TouchedMemory(NamedTuple):
    """A memory that a transaction touched, as the indexes need it."""

    number: int
    memory: Memory | None  # None: its record did not change, or it was dropped
    usage: Usage | None  # None: its usage did not change
    dropped: bool = False
    says_the_same: bool = False  # its version before had the same text, as far as indexes that are current know


class Snapshot(abc.ABC):
    """The store at one moment. Ids are lower-case text; a missing record is None, "" or an empty list.

    Long lists are read in slices: a slice is in the order of its keys, begins after the key `after`, and has at most
    `limit` rows; one with fewer is the last.
    """

    now: int  # ms

    # Access to rows, which each backend has of its own

    @abc.abstractmethod
    def _value(self, table: str, key: bytes) -> Any:
        """The value under a key, or None. Bytes, except that a backend may keep memories in a form of its own."""

    @abc.abstractmethod
    def _values(self, table: str, key: bytes) -> list[bytes]:
        """All values under a key of one of MULTI_VALUE_TABLES, in order."""

    @abc.abstractmethod
    def _rows_from(self, table: str, start: bytes = b"") -> Iterator[tuple[bytes, Any]]:
        """The rows from a key on, in the order of the keys. The caller exhausts it before it writes."""

    @abc.abstractmethod
    def _last_rows(self, table: str) -> Iterator[tuple[bytes, Any]]:
        """All rows, the last one first."""

    @abc.abstractmethod
    def row_count(self, table: str) -> int:
        """The number of rows of a table."""

    def _opened(self, table: Table[R], key: bytes, value: Any) -> R:
        """The record of a row."""
        return table.open(key, value)

    # Any table

    def get(self, table: Table[R], *values: Any) -> R | None:
        """The record whose key has these values."""
        key = table.key.encode(values)
        value = self._value(table.name, key)
        return None if value is None else self._opened(table, key, value)

    def scan(self, table: Table[R], after: bytes = b"", limit: int = READ_SLICE) -> list[R]:
        """The records after a primary key, each once, in the order of the primary keys."""
        rows = self._rows_from(table.name, after + b"\0" if after else after)
        if table.other_keys:
            rows = (row for row in rows if table.is_primary(row[0]))
        return [self._opened(table, key, value) for key, value in islice(rows, max(0, limit))]

    def scan_back(self, table: Table[R], limit: int = READ_SLICE) -> Iterator[R]:
        """The last records of a table that has only primary keys, the last first."""
        assert not table.other_keys
        for key, value in islice(self._last_rows(table.name), max(0, limit)):
            yield self._opened(table, key, value)

    def under(self, table: Table[R], first_id: str) -> list[R]:
        """The records that have a key which begins with this id, in the order of those keys."""
        return [self._opened(table, key, value) for key, value in self._rows_under(table, id_key(first_id))]

    def size(self, table: Table[Any]) -> int:
        """The number of rows of a table."""
        return self.row_count(table.name)

    def _rows_under(self, table: Table[Any], prefix: bytes) -> list[tuple[bytes, Any]]:
        if len(table.key.fields) == 1:
            value = self._value(table.name, prefix)
            return [] if value is None else [(prefix, value)]
        found = []
        for key, value in self._rows_from(table.name, prefix):
            if not key.startswith(prefix):
                break
            found.append((key, value))
        return found

    # The store as a whole

    @property
    def seq(self) -> int:
        """The number of the last change."""
        return int(self.meta("seq") or 0)

    @property
    def position(self) -> Position:
        """Seq and checksum of the last change."""
        return self.seq, self.meta("sum")

    def meta(self, name: str) -> str:
        """A named fact about the whole store; "" when unset."""
        value = self._value("meta", name.encode())
        return value.decode() if value else ""

    def metas(self) -> dict[str, str]:
        """Every named fact, in the order of the names."""
        return {fact.name: fact.value for fact in self.scan(META, limit=self.size(META))}

    def entry(self, seq: int) -> ChangeEntry | None:
        """The history entry of a transaction."""
        logged = self.get(CHANGES, seq)
        return None if logged is None else logged.entry

    def entries(self, after: int, limit: int = READ_SLICE) -> list[LoggedChange]:
        """The entries of the transactions after `after`, in order."""
        rows = islice(self._rows_from("changes", seq_key(after + 1)), max(0, limit))
        return [self._opened(CHANGES, key, value) for key, value in rows]

    def entries_back(self, limit: int = READ_SLICE) -> Iterator[LoggedChange]:
        """The entries of the last transactions, the newest first."""
        return self.scan_back(CHANGES, limit)

    # Memories

    def memory(self, memory_id: str) -> Memory | None:
        found = self.stored(memory_id)
        return found.memory if found else None

    def memories(self, after: str = "", limit: int = READ_SLICE) -> list[Memory]:
        """Current records in id order."""
        return [stored.memory for stored in self.scan(MEMORIES, _key_after(after), limit)]

    def stored(self, memory_id: str) -> StoredMemory | None:
        key = id_key(memory_id)
        value = self._value("memories", key)
        return None if value is None else self._opened(MEMORIES, key, value)

    def count(self) -> int:
        """Records, whatever their state."""
        return self.size(MEMORIES)

    def versions(self, memory_id: str) -> list[StoredMemory]:
        """Every kept version that was current here, the current one last."""
        return [stored for stored in self.all_versions(memory_id) if not stored.memory.overruled]

    def all_versions(self, memory_id: str) -> list[StoredMemory]:
        """Every version that is kept, the current one last; also those of other devices that were overruled."""
        found, current = self.under(VERSIONS, memory_id), self.stored(memory_id)
        return [*found, current] if current else found

    def number(self, memory_id: str) -> int | None:
        """The number of a memory: a small dense integer, its row id in the indexes."""
        value = self._value("numbers", id_key(memory_id))
        return int.from_bytes(value, "big") if value else None

    def id_of(self, number: int) -> str | None:
        value = self._value("owners", _number_key(number))
        return id_text(value) if value else None

    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        """Memories of that scope, not trashed or discarded, whose content hash is digest, in id order."""
        return [id_text(value) for value in self._values("hashes", digest_key(namespace, user, agent, run, digest))]

    def id_by_key(self, namespace: str, user: str, key: str) -> str | None:
        value = self._value("keys", digest_key(namespace, user, key))
        return id_text(value) if value else None

    # What belongs to memories

    def usage(self, memory_id: str) -> Usage | None:
        return self.get(USAGE, memory_id)

    def trash(self, memory_id: str) -> TrashEntry | None:
        return self.get(TRASH, memory_id)

    def trash_entries(self, after: str = "", limit: int = READ_SLICE) -> list[TrashEntry]:
        """In id order."""
        return self.scan(TRASH, _key_after(after), limit)

    def edges(self, memory_id: str) -> list[Edge]:
        """The edges that have this memory at either end: first those to it, then those from it, each sorted by relation
        and other end."""
        return self.under(EDGES, memory_id)

    def turns_of(self, pair: TurnPair) -> list[Memory]:
        """The turns of a pair, in order; none where one is gone."""
        turns = [self.memory(memory_id) for memory_id in dict.fromkeys((pair.id, pair.reply))]
        found = [turn for turn in turns if turn is not None]
        return found if len(found) == len(turns) else []

    def facts(self, memory_id: str) -> list[Fact]:
        """The facts that were read from any text of this memory, in the order of their ids."""
        return self.under(FACTS, memory_id)

    # Notes, and texts that must not come back

    def note(self, file_id: str) -> NoteFile | None:
        return self.get(NOTES, file_id)

    def notes(self, after: str = "", limit: int = READ_SLICE) -> list[NoteFile]:
        """Note files in id order."""
        return self.scan(NOTES, _key_after(after), limit)

    def roots(self) -> list[NoteRoot]:
        """Every watched folder, in id order."""
        return self.scan(ROOTS, limit=self.size(ROOTS))

    def skips(self, file_id: str) -> frozenset[str]:
        """Salted hashes of the texts that rescans of this file skip."""
        return frozenset(skip.hash for skip in self.under(SKIPS, file_id))

    def forgotten(self, digest: str) -> ErasedText | None:
        """The entry of a text that must not come back, by its salted hash."""
        return self.get(FORGOTTEN, digest)

    def forgotten_after(self, after: str = "", limit: int = READ_SLICE) -> list[ErasedText]:
        """Every such entry, in the order of the hashes."""
        return self.scan(FORGOTTEN, after.encode(), limit)

    # Vectors

    def vectors(self, space: str, text_hash: bytes, dimensions: int) -> NDArray[np.float16] | None:
        """The vectors kept for a text, shape (windows, dimensions), or None."""
        value = self._value(EMBEDDINGS, digest_key(space, text_hash))
        return codec.decode_vectors(value, dimensions) if value else None

    def token_rows(self, space: str, text_hashes: Sequence[bytes], dimensions: int) -> list[NDArray[np.int8] | None]:
        """The token rows kept for each text, shape (tokens, dimensions), or None."""
        values = self._token_values(space, text_hashes)
        return [codec.decode_token_rows(value, dimensions) if value else None for value in values]

    def joined_token_rows(
        self, space: str, text_hashes: Sequence[bytes], dimensions: int
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """The token rows of all these texts, one after the other, and the number of rows of each, -1 without any."""
        return codec.join_token_rows(self._token_values(space, text_hashes), dimensions)

    def _token_values(self, space: str, text_hashes: Sequence[bytes]) -> list[bytes | None]:
        return [self._value(EMBEDDINGS, key) for key in digest_keys(space, text_hashes)]


class StateWriter(Snapshot):
    """A snapshot within a write transaction: it sees its own changes, and makes more."""

    @abc.abstractmethod
    def _put(self, table: str, key: bytes, value: Any) -> None: ...

    @abc.abstractmethod
    def _delete(self, table: str, key: bytes, value: bytes = b"") -> None:
        """Removes a row if it exists. `value` names one of several under a key."""

    @abc.abstractmethod
    def _memory_value(self, stored: StoredMemory, index: int, hashed: bytes, named: bytes) -> Any:
        """The value for a record. `index` is the index of its change among those that are applied; `hashed` and `named`
        are its keys in `hashes` and `keys`, each empty where it has none."""

    @abc.abstractmethod
    def _scored_value(self, value: Any, importance: float) -> Any:
        """The value of the same record with this importance."""

    @abc.abstractmethod
    def _seq_of(self, value: Any) -> int:
        """The seq of the change that made the record, from its value."""

    @abc.abstractmethod
    def _version_value(self, value: Any) -> Any:
        """The value of the same record as an earlier version."""

    @abc.abstractmethod
    def _found_by(self, value: Any) -> tuple[bytes, bytes]:
        """The keys of a record in `hashes` and `keys`, from its value."""

    def apply(self, changes: Sequence[Change], seq: int, entry: ChangeEntry) -> list[TouchedMemory]:
        """Applies the changes as transaction `seq`; `entry` gets the ids of the memories that they change and of those
        whose usage they change. Applying the same twice changes nothing."""
        touched: dict[str, TouchedMemory] = {}
        changed: dict[str, None] = {}
        used: dict[str, None] = {}
        for index, change in enumerate(changes):
            match change:
                case PutMemory(data=memory):
                    number = self._put_memory(StoredMemory(seq, memory), index)
                    before = touched.get(memory.id)
                    touched[memory.id] = TouchedMemory(number, memory, before.usage if before else None)
                    changed[memory.id] = None
                case PutScore(id=memory_id, importance=importance):
                    scored, number_before = self._put_score(memory_id, importance), self.number(memory_id)
                    if scored is not None and number_before is not None:
                        before = touched.get(memory_id)
                        touched[memory_id] = TouchedMemory(number_before, scored, before.usage if before else None)
                    changed[memory_id] = None
                case DropMemory(id=memory_id):
                    number_before = self.number(memory_id)
                    self._drop_memory(memory_id)
                    if number_before is not None:
                        touched[memory_id] = TouchedMemory(number_before, None, None, dropped=True)
                    changed[memory_id] = None
                case PutVersion(data=memory) if self._value("memories", id_key(memory.id)) is None:
                    pass  # it is gone
                case PutVersion(data=memory):
                    value = self._memory_value(StoredMemory(seq, memory), index, b"", b"")
                    self._put("versions", id_key(memory.id) + seq_key(seq), self._version_value(value))
                    changed[memory.id] = None
                case PutUsage(data=usage):
                    self.put(USAGE, usage)
                    before = touched.get(usage.id)
                    known = before.number if before and not before.dropped else self.number(usage.id)
                    if known is not None:
                        touched[usage.id] = TouchedMemory(known, before.memory if before else None, usage)
                    used[usage.id] = None
                case _:
                    table = BY_CHANGE[type(change)]
                    if type(change) is table.put:
                        self.put(table, record_in(table, change))
                    else:
                        self.drop(table, change)
        ids = tuple(changed)
        self.put_entry(seq, msgspec.structs.replace(entry, ids=ids, used=tuple(used)))
        return list(touched.values())

    def put(self, table: Table[R], record: R) -> None:
        """Writes a record under each of its keys."""
        value = table.encode(record)
        self._put(table.name, table.key.of(record), value)
        for key in table.other_keys:
            self._put(table.name, key.of(record), value)

    def drop(self, table: Table[Any], named: Any) -> None:
        """Removes a record, given the record or the change that drops it."""
        for key in table.keys_of(named):
            self._delete(table.name, key)

    def put_vectors(self, space: str, text_hash: bytes, rows: NDArray[np.float16] | NDArray[np.int8]) -> None:
        """Keeps a text's vectors (float16) or token rows (int8)."""
        self._put(EMBEDDINGS, digest_key(space, text_hash), codec.encode_rows(rows))

    def set_meta(self, name: str, value: str) -> None:
        self.put(META, PutMeta(name=name, value=value))

    def set_position(self, position: Position) -> None:
        """Notes the last transaction that was applied."""
        self.set_meta("seq", str(position[0]))
        self.set_meta("sum", position[1])

    # For loading a dump of the whole state. store/docs/format.md, "The stream"

    def put_record(self, stored: StoredMemory, number: int) -> None:
        """Puts a current record under the seq that made it, with its number."""
        key = id_key(stored.memory.id)
        self._put_current(key, stored, 0)
        self._put_number(key, number)

    def put_version(self, stored: StoredMemory) -> None:
        """Puts an earlier version under the seq that made it."""
        self._put("versions", VERSIONS.key.of(stored), self._version_value(self._memory_value(stored, 0, b"", b"")))

    def put_entry(self, seq: int, entry: ChangeEntry) -> None:
        self.put(CHANGES, LoggedChange(seq, entry))

    def _put_memory(self, stored: StoredMemory, index: int) -> int:
        """Puts a record; the one before it becomes an earlier version. Returns its number."""
        key = id_key(stored.memory.id)
        before = self._value("memories", key)
        if before is not None:
            seq_before = self._seq_of(before)
            if seq_before != stored.seq:
                self._put("versions", key + seq_key(seq_before), self._version_value(before))
            self._remove_from_indexes(key, before)
        self._put_current(key, stored, index)
        given = self._value("numbers", key)
        if given is not None:
            return int.from_bytes(given, "big")
        number = int(self.meta("next_number") or 0)
        self._put("meta", b"next_number", b"%d" % (number + 1))
        self._put_number(key, number)
        return number

    def _put_score(self, memory_id: str, importance: float) -> Memory | None:
        """Sets the importance in a record; returns the memory, None where there is none."""
        key = id_key(memory_id)
        before = self._value("memories", key)
        if before is None:
            return None
        self._put("memories", key, self._scored_value(before, importance))
        return self.memory(memory_id)

    def _put_current(self, key: bytes, stored: StoredMemory, index: int) -> None:
        """Puts a current record and its entries in the indexes."""
        hashed, named = found_by(stored.memory)
        self._put("memories", key, self._memory_value(stored, index, hashed, named))
        if hashed:
            self._put("hashes", hashed, key)
        if named:
            self._put("keys", named, key)

    def _put_number(self, key: bytes, number: int) -> None:
        self._put("numbers", key, _number_key(number))
        self._put("owners", _number_key(number), key)

    def _drop_memory(self, memory_id: str) -> None:
        """Removes a memory and every row that belongs to it."""
        key = id_key(memory_id)
        before = self._value("memories", key)
        if before is not None:
            self._remove_from_indexes(key, before)
        for table in OF_A_MEMORY:
            for row_key, value in self._rows_under(table, key):
                keys = table.keys_of(self._opened(table, row_key, value)) if table.other_keys else [row_key]
                for each in keys:
                    self._delete(table.name, each)
        number = self._value("numbers", key)
        if number is not None:
            self._delete("owners", number)
        self._delete("memories", key)
        self._delete("numbers", key)

    def _remove_from_indexes(self, key: bytes, before: Any) -> None:
        """Removes the entries of a record in `hashes` and `keys`."""
        hashed, named = self._found_by(before)
        if hashed:
            self._delete("hashes", hashed, key)
        if named and self._value("keys", named) == key:
            self._delete("keys", named)


class StateTransaction(abc.ABC):
    """A transaction of several writes. One at a time."""

    @abc.abstractmethod
    def savepoint(self, now: int) -> AbstractContextManager[StateWriter]:
        """A savepoint for one write: where the block raises, nothing of it remains."""

    @abc.abstractmethod
    def record_end(self, now: int, end: Position) -> None:
        """Notes seq and checksum of the last change: after all writes, before the journal has them."""

    @abc.abstractmethod
    def commit(self) -> None:
        """Makes the changes visible to snapshots that begin from now on."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Discards all changes. Safe after a commit that failed."""


class StateBackend(abc.ABC):
    """A backend that holds the state of the store: the database, or the replay of the journal."""

    end: Position  # the last transaction applied

    @abc.abstractmethod
    def snapshot(self, now: int) -> AbstractContextManager[Snapshot]: ...

    @abc.abstractmethod
    def begin(self) -> StateTransaction: ...

    @abc.abstractmethod
    def close(self) -> None: ...


def found_by(memory: Memory) -> tuple[bytes, bytes]:
    """The keys of a memory in `hashes` and `keys`, each empty where it has none."""
    return hash_key(memory) if memory.state in HASHED_STATES else b"", name_key(memory) if memory.key else b""


def hash_key(memory: Memory) -> bytes:
    """The key of a memory in `hashes`."""
    scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
    return digest_key(*scope, content_hash(memory.content))


def name_key(memory: Memory) -> bytes:
    """The key of a memory in `keys`."""
    return digest_key(memory.namespace, memory.user_id, memory.key)


def _number_key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _key_after(memory_id: str) -> bytes:
    return id_key(memory_id) if memory_id else b""
