"""The tables of the database: what a snapshot reads and how a change is applied. FORMAT.md.

memories    id → seq, Memory           the current version
versions    id, seq → Memory           the earlier ones
changes     seq → ChangeEntry          what each transaction touched
usage       id → Usage
numbers     id → number                a small dense integer for the views; never given twice
owners      number → id
hashes      scope and content hash → id …
keys        namespace, user, key → id
trash       id → TrashEntry
edges       id, relation, other id → Edge      each edge stands under both its ends
notes       file id → NoteFile
roots       root id → NoteRoot
skips       file id, hash → nothing
forgotten   salted hash → Forgotten
embeddings  space, text hash → vectors (float16) or token rows (int8)      not in the journal
meta        name → text
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from mnemo_store import codec
from mnemo_store.backend import SLICE, Snapshot, StateWriter, StoredMemory, TouchedMemory
from mnemo_store.codec import digest_key, digest_keys, id_key, id_text, seq_key, seq_of
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
    Forgotten,
    Memory,
    NoteFile,
    NoteRoot,
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
    TrashEntry,
    Usage,
    content_hash,
)

TABLES = (
    "memories", "versions", "changes", "usage", "numbers", "owners", "hashes", "keys",
    "trash", "edges", "notes", "roots", "skips", "forgotten", "embeddings", "meta",
)  # fmt: skip
MULTI_VALUE_TABLES = frozenset({"hashes"})  # tables with several values under one key

HASHED_STATES = frozenset({"active", "archived", "compressed", "superseded"})


class TableHandles(NamedTuple):
    """Handles of the named databases."""

    memories: Any
    versions: Any
    changes: Any
    usage: Any
    numbers: Any
    owners: Any
    hashes: Any
    keys: Any
    trash: Any
    edges: Any
    notes: Any
    roots: Any
    skips: Any
    forgotten: Any
    embeddings: Any
    meta: Any


class TableRow(NamedTuple):
    """A row as it stands on disk."""

    key: bytes
    value: bytes


class TableSnapshot(Snapshot):
    """As long as its transaction lives."""

    def __init__(self, transaction: Any, tables: TableHandles, now: int) -> None:
        self.now = now  # ms
        self._txn = transaction
        self._tables = tables

    def meta(self, name: str) -> str:
        """A named fact about the whole store; "" when unset."""
        value = self._txn.get(name.encode(), db=self._tables.meta)
        return value.decode() if value else ""

    def metas(self) -> dict[str, str]:
        with self._txn.cursor(db=self._tables.meta) as cursor:
            return {key.decode(): value.decode() for key, value in cursor}

    def stored(self, memory_id: str) -> StoredMemory | None:
        value = self._txn.get(id_key(memory_id), db=self._tables.memories)
        return _stored(value) if value else None

    def usage(self, memory_id: str) -> Usage | None:
        value = self._txn.get(id_key(memory_id), db=self._tables.usage)
        return codec.decode_usage(value) if value else None

    def records(self, after: str = "", limit: int = SLICE) -> list[StoredMemory]:
        return [_stored(value) for _, value in self._walk(self._tables.memories, after, limit)]

    def count(self) -> int:
        """Records, whatever their state."""
        return int(self._txn.stat(self._tables.memories)["entries"])

    def number(self, memory_id: str) -> int | None:
        value = self._txn.get(id_key(memory_id), db=self._tables.numbers)
        return int.from_bytes(value, "big") if value else None

    def id_of(self, number: int) -> str | None:
        value = self._txn.get(number.to_bytes(4, "big"), db=self._tables.owners)
        return id_text(value) if value else None

    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        """Memories of that scope, not trashed or discarded, whose content hash is digest."""
        with self._txn.cursor(db=self._tables.hashes) as cursor:
            if not cursor.set_key(digest_key(namespace, user, agent, run, digest)):
                return []
            return [id_text(value) for value in cursor.iternext_dup()]

    def id_by_key(self, namespace: str, user: str, key: str) -> str | None:
        value = self._txn.get(digest_key(namespace, user, key), db=self._tables.keys)
        return id_text(value) if value else None

    def versions(self, memory_id: str) -> list[StoredMemory]:
        """Every version that is kept, the current one last."""
        key = id_key(memory_id)
        found = []
        with self._txn.cursor(db=self._tables.versions) as cursor:
            more = cursor.set_range(key)
            while more and cursor.key()[:16] == key:
                found.append(StoredMemory(seq_of(cursor.key()[16:]), codec.decode_memory(cursor.value())))
                more = cursor.next()
        current = self.stored(memory_id)
        return [*found, current] if current else found

    def entry(self, seq: int) -> ChangeEntry | None:
        value = self._txn.get(seq_key(seq), db=self._tables.changes)
        return codec.decode_entry(value) if value else None

    def entries(self, after: int, limit: int = SLICE) -> list[tuple[int, ChangeEntry]]:
        """What the transactions behind `after` touched, in order."""
        rows = self._walk_keys(self._tables.changes, seq_key(after + 1), limit)
        return [(seq_of(key), codec.decode_entry(value)) for key, value in rows]

    def entries_back(self, limit: int = SLICE) -> Iterator[tuple[int, ChangeEntry]]:
        """What the last transactions touched, the newest first."""
        with self._txn.cursor(db=self._tables.changes) as cursor:
            more = cursor.last()
            while more and limit > 0:
                yield seq_of(cursor.key()), codec.decode_entry(cursor.value())
                limit -= 1
                more = cursor.prev()

    def trash(self, memory_id: str) -> TrashEntry | None:
        value = self._txn.get(id_key(memory_id), db=self._tables.trash)
        return codec.decode_trash(value) if value else None

    def trash_entries(self, after: str = "", limit: int = SLICE) -> list[TrashEntry]:
        """In id order, behind the id `after`."""
        return [codec.decode_trash(value) for _, value in self._walk(self._tables.trash, after, limit)]

    def usages(self, after: str = "", limit: int = SLICE) -> list[Usage]:
        return [codec.decode_usage(value) for _, value in self._walk(self._tables.usage, after, limit)]

    def trash_count(self) -> int:
        return int(self._txn.stat(self._tables.trash)["entries"])

    def edges(self, memory_id: str) -> list[Edge]:
        """The edges that have this memory at either end."""
        key = id_key(memory_id)
        found = []
        with self._txn.cursor(db=self._tables.edges) as cursor:
            more = cursor.set_range(key)
            while more and cursor.key()[:16] == key:
                found.append(codec.decode_edge(cursor.value()))
                more = cursor.next()
        return found

    def edges_after(self, after: Edge | None = None, limit: int = SLICE) -> list[Edge]:
        found: list[Edge] = []
        start = edge_keys(after)[0] + b"\0" if after else b"\0"
        with self._txn.cursor(db=self._tables.edges) as cursor:
            more = cursor.set_range(start)
            while more and len(found) < limit:
                if cursor.key()[16:17] == b">":
                    found.append(codec.decode_edge(cursor.value()))
                more = cursor.next()
        return found

    def note(self, file_id: str) -> NoteFile | None:
        value = self._txn.get(id_key(file_id), db=self._tables.notes)
        return codec.decode_note(value) if value else None

    def notes(self, after: str = "", limit: int = SLICE) -> list[NoteFile]:
        """Note files in id order, behind the id `after`."""
        return [codec.decode_note(value) for _, value in self._walk(self._tables.notes, after, limit)]

    def roots(self) -> list[NoteRoot]:
        return [codec.decode_root(value) for _, value in self._walk_keys(self._tables.roots, b"\0", sys.maxsize)]

    def skips(self, file_id: str) -> frozenset[str]:
        """Salted hashes of the texts that rescans of this file leave out."""
        key = id_key(file_id)
        found = []
        with self._txn.cursor(db=self._tables.skips) as cursor:
            more = cursor.set_range(key)
            while more and cursor.key()[:16] == key:
                found.append(cursor.key()[16:].decode())
                more = cursor.next()
        return frozenset(found)

    def skips_after(self, after: Skip | None = None, limit: int = SLICE) -> list[Skip]:
        rows = self._walk_keys(self._tables.skips, _skip_key(after) + b"\0" if after else b"\0", limit)
        return [Skip(file=id_text(key[:16]), hash=key[16:].decode()) for key, _ in rows]

    def forgotten(self, digest: str) -> Forgotten | None:
        value = self._txn.get(digest.encode(), db=self._tables.forgotten)
        return codec.decode_forgotten(value) if value else None

    def forgotten_after(self, after: str = "", limit: int = SLICE) -> list[Forgotten]:
        rows = self._walk_keys(self._tables.forgotten, after.encode() + b"\0", limit)
        return [codec.decode_forgotten(value) for _, value in rows]

    def vectors(self, space: str, text_hash: bytes, dimensions: int) -> NDArray[np.float16] | None:
        """The vectors kept for a text, shape (windows, dimensions), or None."""
        value = self._txn.get(digest_key(space, text_hash), db=self._tables.embeddings)
        return codec.decode_vectors(value, dimensions) if value else None

    def token_rows(self, space: str, text_hashes: Sequence[bytes], dimensions: int) -> list[NDArray[np.int8] | None]:
        """The token rows kept for each text, shape (tokens, dimensions), or None."""
        values = self._token_values(space, text_hashes)
        return [codec.decode_token_rows(value, dimensions) if value else None for value in values]

    def joined_token_rows(
        self, space: str, text_hashes: Sequence[bytes], dimensions: int
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        return codec.join_token_rows(self._token_values(space, text_hashes), dimensions)

    def _token_values(self, space: str, text_hashes: Sequence[bytes]) -> list[bytes | None]:
        get, table = self._txn.get, self._tables.embeddings
        return [get(key, db=table) for key in digest_keys(space, text_hashes)]

    def _walk(self, table: Any, after: str, limit: int) -> Iterator[tuple[bytes, bytes]]:
        return self._walk_keys(table, id_key(after) + b"\0" if after else b"\0", limit)

    def _walk_keys(self, table: Any, start: bytes, limit: int) -> Iterator[tuple[bytes, bytes]]:
        with self._txn.cursor(db=table) as cursor:
            more = cursor.set_range(start)
            while more and limit > 0:
                yield cursor.key(), cursor.value()
                limit -= 1
                more = cursor.next()

    # The rows as they stand on disk, for who checks them

    def row(self, table: str, key: bytes) -> bytes | None:
        value: bytes | None = self._txn.get(key, db=getattr(self._tables, table))
        return value

    def rows(self, table: str, after: tuple[bytes, bytes] | None = None, limit: int = SLICE) -> list[TableRow]:
        """The rows behind the one that `after` names, in the order of their keys; fewer than `limit` are the last."""
        found: list[TableRow] = []
        with self._txn.cursor(db=getattr(self._tables, table)) as cursor:
            more = cursor.first() if after is None else _move_behind(cursor, table, after)
            while more and len(found) < limit:
                found.append(TableRow(cursor.key(), cursor.value()))
                more = cursor.next()
        return found

    def has_row(self, table: str, row: TableRow) -> bool:
        """Whether exactly this row is there."""
        with self._txn.cursor(db=getattr(self._tables, table)) as cursor:
            if table in MULTI_VALUE_TABLES:
                return bool(cursor.set_key_dup(*row))
            return bool(cursor.set_key(row.key) and cursor.value() == row.value)

    def all_rows(self, table: str) -> Iterator[TableRow]:
        """Every row, in the order of the keys. The table may be written to meanwhile."""
        after: TableRow | None = None
        while rows := self.rows(table, after):
            yield from rows
            after = rows[-1]


class TableWriter(TableSnapshot, StateWriter):
    """Within a write transaction."""

    def apply(self, changes: Sequence[Change], seq: int, entry: ChangeEntry) -> list[TouchedMemory]:
        touched: dict[str, TouchedMemory] = {}
        for change in changes:
            self._apply(change, seq, touched)
        self.put_entry(seq, with_touched_ids(entry, changes))
        return list(touched.values())

    def put_entry(self, seq: int, entry: ChangeEntry) -> None:
        self._txn.put(seq_key(seq), codec.encode(entry), db=self._tables.changes)

    def put_record(self, stored: StoredMemory, number: int) -> None:
        key = id_key(stored.memory.id)
        self._put_current(key, stored)
        self._txn.put(key, number.to_bytes(4, "big"), db=self._tables.numbers)
        self._txn.put(number.to_bytes(4, "big"), key, db=self._tables.owners)

    def put_version(self, stored: StoredMemory) -> None:
        key = id_key(stored.memory.id) + seq_key(stored.seq)
        self._txn.put(key, codec.encode(stored.memory), db=self._tables.versions)

    def put_vectors(self, space: str, text_hash: bytes, rows: NDArray[np.float16] | NDArray[np.int8]) -> None:
        self._txn.put(digest_key(space, text_hash), codec.encode_rows(rows), db=self._tables.embeddings)

    def set_meta(self, name: str, value: str) -> None:
        self._txn.put(name.encode(), value.encode(), db=self._tables.meta)

    def put_row(self, table: str, row: TableRow) -> None:
        """Only repair writes rows by themselves."""
        self._txn.put(row.key, row.value, db=getattr(self._tables, table))

    def append_rows(self, table: str, rows: Sequence[TableRow]) -> None:
        """Rows in the order of their keys, behind all that are there."""
        for key, value in rows:
            self._txn.put(key, value, append=True, db=getattr(self._tables, table))

    def delete_row(self, table: str, row: TableRow) -> None:
        self._txn.delete(row.key, row.value if table in MULTI_VALUE_TABLES else b"", db=getattr(self._tables, table))

    def _apply(self, change: Change, seq: int, touched: dict[str, TouchedMemory]) -> None:  # noqa: C901 - flat: one case a change
        put, drop, tables = self._txn.put, self._txn.delete, self._tables
        match change:
            case PutMemory(data=memory):
                number = self._put_memory(memory, seq)
                usage = touched[memory.id].usage if memory.id in touched else None
                touched[memory.id] = TouchedMemory(number, memory, usage)
            case DropMemory(id=memory_id):
                number_before = self.number(memory_id)
                self._drop_memory(memory_id)
                if number_before is not None:
                    touched[memory_id] = TouchedMemory(number_before, None, None, dropped=True)
            case PutUsage(data=usage):
                put(id_key(usage.id), codec.encode(usage), db=tables.usage)
                known = self.number(usage.id)
                if known is not None:
                    record = touched[usage.id].memory if usage.id in touched else None
                    touched[usage.id] = TouchedMemory(known, record, usage)
            case PutTrash(data=trashed):
                put(id_key(trashed.id), codec.encode(trashed), db=tables.trash)
            case DropTrash(id=memory_id):
                drop(id_key(memory_id), db=tables.trash)
            case PutEdge(data=edge):
                for key in edge_keys(edge):
                    put(key, codec.encode(edge), db=tables.edges)
            case DropEdge():
                for key in edge_keys(change):
                    drop(key, db=tables.edges)
            case PutNote(data=note):
                put(id_key(note.id), codec.encode(note), db=tables.notes)
            case DropNote(id=file_id):
                drop(id_key(file_id), db=tables.notes)
            case PutRoot(data=root):
                put(id_key(root.id), codec.encode(root), db=tables.roots)
            case DropRoot(id=root_id):
                drop(id_key(root_id), db=tables.roots)
            case PutSkip(data=skip):
                put(_skip_key(skip), b"\1", db=tables.skips)
            case DropSkip():
                drop(_skip_key(change), db=tables.skips)
            case PutForgotten(data=forgotten):
                put(forgotten.hash.encode(), codec.encode(forgotten), db=tables.forgotten)
            case DropForgotten(hash=digest):
                drop(digest.encode(), db=tables.forgotten)
            case PutMeta(name=name, value=value):
                self.set_meta(name, value)
            case _:
                assert_never(change)

    def _put_memory(self, memory: Memory, seq: int) -> int:
        key = id_key(memory.id)
        value = self._txn.get(key, db=self._tables.memories)
        if value is not None:
            before = codec.decode_memory(value[8:])
            if seq_of(value[:8]) != seq:
                self._txn.put(key + value[:8], value[8:], db=self._tables.versions)
            self._unindex(before, key)
        self._put_current(key, StoredMemory(seq, memory))
        return self._number(key)

    def _put_current(self, key: bytes, stored: StoredMemory) -> None:
        """The record and what it is found by."""
        memory = stored.memory
        self._txn.put(key, seq_key(stored.seq) + codec.encode(memory), db=self._tables.memories)
        if memory.state in HASHED_STATES:
            self._txn.put(hash_key(memory), key, db=self._tables.hashes, dupdata=True)
        if memory.key:
            self._txn.put(name_key(memory), key, db=self._tables.keys)

    def _drop_memory(self, memory_id: str) -> None:
        key = id_key(memory_id)
        value = self._txn.get(key, db=self._tables.memories)
        if value is not None:
            self._unindex(codec.decode_memory(value[8:]), key)
        for edge in self.edges(memory_id):
            for edge_key in edge_keys(edge):
                self._txn.delete(edge_key, db=self._tables.edges)
        for stored in self.versions(memory_id):
            self._txn.delete(key + seq_key(stored.seq), db=self._tables.versions)
        number = self._txn.get(key, db=self._tables.numbers)
        if number is not None:
            self._txn.delete(number, db=self._tables.owners)
        for table in (self._tables.memories, self._tables.usage, self._tables.trash, self._tables.numbers):
            self._txn.delete(key, db=table)

    def _unindex(self, before: Memory, key: bytes) -> None:
        self._txn.delete(hash_key(before), key, db=self._tables.hashes)
        if before.key and self._txn.get(name_key(before), db=self._tables.keys) == key:
            self._txn.delete(name_key(before), db=self._tables.keys)

    def _number(self, key: bytes) -> int:
        value = self._txn.get(key, db=self._tables.numbers)
        if value is not None:
            return int.from_bytes(value, "big")
        number = int(self.meta("next_number") or 0)
        self.set_meta("next_number", str(number + 1))
        self._txn.put(key, number.to_bytes(4, "big"), db=self._tables.numbers)
        self._txn.put(number.to_bytes(4, "big"), key, db=self._tables.owners)
        return number


def with_touched_ids(entry: ChangeEntry, changes: Sequence[Change]) -> ChangeEntry:
    """The entry of a transaction, with the ids of what it changes and of what it uses."""
    changed = (change for change in changes if isinstance(change, PutMemory | DropMemory))
    ids = dict.fromkeys(change.data.id if isinstance(change, PutMemory) else change.id for change in changed)
    used = dict.fromkeys(change.data.id for change in changes if isinstance(change, PutUsage))
    return ChangeEntry(at=entry.at, by=entry.by, group=entry.group, what=entry.what, ids=tuple(ids), used=tuple(used))


def _move_behind(cursor: Any, table: str, row: tuple[bytes, bytes]) -> bool:
    """Moves the cursor to the first row behind this one; False where there is none."""
    key, value = row
    if table in MULTI_VALUE_TABLES and cursor.set_range_dup(key, value):
        return bool(cursor.next() if cursor.value() == value else True)
    if not cursor.set_range(key):
        return False
    return bool(cursor.next_nodup() if cursor.key() == key else True)


def _stored(value: bytes) -> StoredMemory:
    return StoredMemory(seq_of(value[:8]), codec.decode_memory(value[8:]))


def hash_key(memory: Memory) -> bytes:
    """The key of `hashes` under which a memory is found by its text."""
    scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
    return digest_key(*scope, content_hash(memory.content))


def name_key(memory: Memory) -> bytes:
    """The key of `keys` under which a memory is found by its own key."""
    return digest_key(memory.namespace, memory.user_id, memory.key)


def edge_keys(edge: Edge | DropEdge) -> tuple[bytes, bytes]:
    """The two keys of `edges` under which an edge stands: at its source and at its target."""
    source, target, relation = id_key(edge.source), id_key(edge.target), edge.relation.encode()
    return source + b">" + relation + b">" + target, target + b"<" + relation + b"<" + source


def _skip_key(skip: Skip | DropSkip) -> bytes:
    return id_key(skip.file) + skip.hash.encode()
