"""The store without a database: what the journal replays to, held in memory. SPEC 3.4.

It takes the database's place while there is none that can be trusted, and answers the same; the tests hold one against
the other. Readers and the one writer exclude each other: a snapshot keeps a group from beginning, and a group keeps
snapshots from beginning until it is committed or aborted. Both are short. Who is in a group reads by the Writing of its
turn.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_store import codec
from mnemo_store.backend import (
    SLICE,
    Snapshot,
    StateBackend,
    StateTransaction,
    StateWriter,
    StoredMemory,
    TouchedMemory,
)
from mnemo_store.codec import FORMAT, digest_key, digest_keys, id_key, id_text
from mnemo_store.journal import dump
from mnemo_store.journal.journal import NO_CHANGES, Journal
from mnemo_store.records import (
    Change,
    ChangeEntry,
    Edge,
    Forgotten,
    NoteFile,
    NoteRoot,
    Skip,
    TrashEntry,
    Usage,
)
from mnemo_store.recovery.in_memory_tables import (
    CurrentRecord,
    EarlierVersion,
    InMemoryTables,
    OrderedRows,
    checked_key,
    edge_key,
    skip_key,
)
from mnemo_store.recovery.read_write_lock import ReadWriteLock

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger("mnemo.store")


class FallbackSnapshot(Snapshot):
    """As long as nobody writes."""

    def __init__(self, contents: InMemoryTables, now: int) -> None:
        self.now = now  # ms
        self._contents = contents

    def meta(self, name: str) -> str:
        return self._contents.metas.get(name) or ""

    def metas(self) -> dict[str, str]:
        return dict(self._contents.metas.after())

    def stored(self, memory_id: str) -> StoredMemory | None:
        current = self._contents.current.get(id_key(memory_id))
        return self._stored(current) if current else None

    def usage(self, memory_id: str) -> Usage | None:
        return _decoded(codec.decode_usage, self._contents.usages.get(id_key(memory_id)))

    def records(self, after: str = "", limit: int = SLICE) -> list[StoredMemory]:
        return [self._stored(current) for current in _slice(self._contents.current, _after(after), limit)]

    def count(self) -> int:
        return len(self._contents.current)

    def number(self, memory_id: str) -> int | None:
        current = self._contents.current.get(id_key(memory_id))
        return current.number if current else None

    def id_of(self, number: int) -> str | None:
        return _decoded(id_text, self._contents.owners.get(number))

    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        found = self._contents.hashes.get(digest_key(namespace, user, agent, run, digest))
        return [id_text(key) for key in found or ()]

    def id_by_key(self, namespace: str, user: str, key: str) -> str | None:
        return _decoded(id_text, self._contents.names.get(digest_key(namespace, user, key)))

    def versions(self, memory_id: str) -> list[StoredMemory]:
        key = id_key(memory_id)
        found = [self._stored(version) for version in self._contents.earlier.get(key) or ()]
        current = self._contents.current.get(key)
        return [*found, self._stored(current)] if current else found

    def entry(self, seq: int) -> ChangeEntry | None:
        return _decoded(codec.decode_entry, self._contents.entries.get(seq))

    def entries(self, after: int, limit: int = SLICE) -> list[tuple[int, ChangeEntry]]:
        rows = islice(self._contents.entries.after(after), max(0, limit))
        return [(seq, codec.decode_entry(packed)) for seq, packed in rows]

    def entries_back(self, limit: int = SLICE) -> Iterator[tuple[int, ChangeEntry]]:
        for seq, packed in islice(self._contents.entries.backwards(), max(0, limit)):
            yield seq, codec.decode_entry(packed)

    def trash(self, memory_id: str) -> TrashEntry | None:
        return _decoded(codec.decode_trash, self._contents.trash.get(id_key(memory_id)))

    def trash_entries(self, after: str = "", limit: int = SLICE) -> list[TrashEntry]:
        return list(map(codec.decode_trash, _slice(self._contents.trash, _after(after), limit)))

    def trash_count(self) -> int:
        return len(self._contents.trash)

    def edges(self, memory_id: str) -> list[Edge]:
        key = id_key(memory_id)
        found = []
        for direction, relation, other in self._contents.ends.get(key) or ():
            packed = self._contents.edges.get((other, relation, key) if direction == "<" else (key, relation, other))
            assert packed is not None
            found.append(codec.decode_edge(packed))
        return found

    def edges_after(self, after: Edge | None = None, limit: int = SLICE) -> list[Edge]:
        behind = edge_key(after) if after else None
        return list(map(codec.decode_edge, _slice(self._contents.edges, behind, limit)))

    def usages(self, after: str = "", limit: int = SLICE) -> list[Usage]:
        return list(map(codec.decode_usage, _slice(self._contents.usages, _after(after), limit)))

    def note(self, file_id: str) -> NoteFile | None:
        return _decoded(codec.decode_note, self._contents.notes.get(id_key(file_id)))

    def notes(self, after: str = "", limit: int = SLICE) -> list[NoteFile]:
        return list(map(codec.decode_note, _slice(self._contents.notes, _after(after), limit)))

    def roots(self) -> list[NoteRoot]:
        return [codec.decode_root(packed) for _, packed in self._contents.roots.after()]

    def skips(self, file_id: str) -> frozenset[str]:
        file = id_key(file_id)
        behind = takewhile(lambda row: row[0][0] == file, self._contents.skips.after((file,)))
        return frozenset(digest.decode() for (_, digest), _ in behind)

    def skips_after(self, after: Skip | None = None, limit: int = SLICE) -> list[Skip]:
        rows = islice(self._contents.skips.after(skip_key(after) if after else None), max(0, limit))
        return [Skip(file=id_text(file), hash=digest.decode()) for (file, digest), _ in rows]

    def forgotten(self, digest: str) -> Forgotten | None:
        return _decoded(codec.decode_forgotten, self._contents.forgotten.get(digest))

    def forgotten_after(self, after: str = "", limit: int = SLICE) -> list[Forgotten]:
        return list(map(codec.decode_forgotten, _slice(self._contents.forgotten, after or None, limit)))

    def vectors(self, space: str, text_hash: bytes, dimensions: int) -> NDArray[np.float16] | None:
        """Those that came since the replay: the journal has none."""
        value = self._contents.vectors.get(digest_key(space, text_hash))
        return codec.decode_vectors(value, dimensions) if value else None

    def token_rows(self, space: str, text_hashes: Sequence[bytes], dimensions: int) -> list[NDArray[np.int8] | None]:
        """Those that came since the replay."""
        values = map(self._contents.vectors.get, digest_keys(space, text_hashes))
        return [codec.decode_token_rows(value, dimensions) if value else None for value in values]

    def joined_token_rows(
        self, space: str, text_hashes: Sequence[bytes], dimensions: int
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        values = list(map(self._contents.vectors.get, digest_keys(space, text_hashes)))
        return codec.join_token_rows(values, dimensions)

    def _stored(self, version: CurrentRecord | EarlierVersion) -> StoredMemory:
        return StoredMemory(version.seq, self._contents.memory(version.where))


class FallbackWriter(FallbackSnapshot, StateWriter):
    """Within a turn of a group."""

    def apply(self, changes: Sequence[Change], seq: int, entry: ChangeEntry) -> list[TouchedMemory]:
        return self._contents.apply(changes, seq, entry)

    def put_vectors(self, space: str, text_hash: bytes, rows: NDArray[np.float16] | NDArray[np.int8]) -> None:
        self._contents.vectors[digest_key(space, text_hash)] = codec.encode_rows(rows)

    def set_meta(self, name: str, value: str) -> None:
        self._contents.metas.put(checked_key(name), value)

    def put_record(self, stored: StoredMemory, number: int) -> None:
        memory = stored.memory
        self._contents.put_current(id_key(memory.id), memory, stored.seq, codec.encode(memory), number)

    def put_version(self, stored: StoredMemory) -> None:
        version = EarlierVersion(stored.seq, codec.encode(stored.memory))
        self._contents.put_version(id_key(stored.memory.id), version)

    def put_entry(self, seq: int, entry: ChangeEntry) -> None:
        self._contents.entries.put(seq, codec.encode(entry))


class FallbackLoader(FallbackWriter):
    """Takes in what a journal that was written anew begins with. The records stay where they stand."""

    _where = 0  # of the record that is taken in

    def rows(self, journal: Journal) -> Iterator[dump.DumpRow]:
        for row, place in journal.snapshot_rows():
            if isinstance(row, dump.MemoryRow | dump.VersionRow):
                self._where = self._contents.where(place)
            yield row
            self._contents.undo.clear()

    def put_record(self, stored: StoredMemory, number: int) -> None:
        memory = stored.memory
        self._contents.put_current(id_key(memory.id), memory, stored.seq, self._where, number)

    def put_version(self, stored: StoredMemory) -> None:
        self._contents.put_version(id_key(stored.memory.id), EarlierVersion(stored.seq, self._where))


class FallbackState(StateBackend):
    """What the journal replays to. Writes are made in memory alone: their lines are appended by who made the group."""

    def __init__(self, journal: Journal) -> None:
        """Replays the journal, a few seconds for 100,000 memories. Raises OSError where it cannot be read."""
        self.end = NO_CHANGES
        self.gaps: list[str] = []  # what of the changes could not be read, as sentences
        self._gate = ReadWriteLock()
        self._contents = InMemoryTables(journal.fetch)
        for name, value in {"format": str(FORMAT), "store": journal.store_id, "salt": journal.salt}.items():
            self._contents.metas.put(name, value)
        self._replay(journal)
        self._contents.undo.clear()

    @contextlib.contextmanager
    def snapshot(self, now: int) -> Iterator[FallbackSnapshot]:
        """Not to be kept over 100 ms: writes wait for it. Within it, take no other."""
        with self._gate.shared():
            yield FallbackSnapshot(self._contents, now)

    def begin(self) -> "FallbackTransaction":
        """Waits for the snapshots that are under way."""
        return FallbackTransaction(self, self._contents, self._gate)

    @property
    def vectors(self) -> dict[bytes, bytes]:
        """Rows of the table of embeddings that came since the replay, for a database to take over."""
        return self._contents.vectors

    def close(self) -> None:
        """Nothing is open: the journal is its owner's."""

    def _replay(self, journal: Journal) -> None:
        """Applies all that can be read, in order. A gap is damage, told in `gaps`: with no database to tell how much of
        what is behind it was answered, it is kept."""
        contents = self._contents
        loading = FallbackLoader(contents, 0)
        dump.load(loading.rows(journal), loading)
        self.end = journal.snapshot_last
        for line, checksum, place in journal.lines(after=self.end[0]):
            if line.seq != self.end[0] + 1:
                self.gaps.append(f"changes {self.end[0] + 1} to {line.seq - 1} cannot be read in the journal")
            elif line.prev != self.end and self.end != NO_CHANGES:
                log.warning("journal line %d does not name the line before it", line.seq)
            entry = ChangeEntry(at=line.at, by=line.by, group=line.group, what=line.what)
            contents.apply(line.changes, line.seq, entry, contents.places.add(place))
            contents.undo.clear()
            self.end = (line.seq, checksum)
        if self.end != NO_CHANGES:
            _note_end(contents, self.end)


class FallbackTransaction(StateTransaction):
    """From its beginning until it is committed or aborted, nobody else reads."""

    def __init__(self, state: FallbackState, contents: InMemoryTables, gate: ReadWriteLock) -> None:
        self._state = state
        self._contents = contents
        self._end = state.end
        self._alone = contextlib.ExitStack()
        self._alone.enter_context(gate.exclusive())

    @contextlib.contextmanager
    def savepoint(self, now: int) -> Iterator[FallbackWriter]:
        mark = len(self._contents.undo)
        try:
            yield FallbackWriter(self._contents, now)
        except BaseException:
            self._contents.roll_back(mark)
            raise

    def record_end(self, now: int, end: tuple[int, str]) -> None:
        """Notes the last transaction of the group."""
        _note_end(self._contents, end)
        self._end = end

    def commit(self) -> None:
        self._contents.undo.clear()
        self._state.end = self._end
        self._alone.close()

    def abort(self) -> None:
        self._contents.roll_back(0)
        self._alone.close()


def _note_end(contents: InMemoryTables, end: tuple[int, str]) -> None:
    contents.metas.put("seq", str(end[0]))
    contents.metas.put("sum", end[1])


def _slice(rows: OrderedRows[K, V], after: K | None, limit: int) -> Iterator[V]:
    return (value for _, value in islice(rows.after(after), max(0, limit)))


def _decoded(decode: Callable[[bytes], V], packed: bytes | None) -> V | None:
    return None if packed is None else decode(packed)


def _after(memory_id: str) -> bytes | None:
    return id_key(memory_id) if memory_id else None
