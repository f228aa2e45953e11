"""Import of our own exports: an empty store is replaced, any other is merged with the export. SPEC 3.8

The stream is read three times. The first pass reads it to its end, where it shows whether it is complete, before
anything is changed. The second finds the memories that will not be imported, so that references to them can be
replaced. The third writes.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec
import numpy as np

from mnemo_client.protocol.maintenance import ImportAnswer
from mnemo_core.decay import EPOCH, epoch_of
from mnemo_core.transfer import store_merge
from mnemo_core.transfer.store_merge import IncomingMemory, LocalState, MergeClock, MergeDecision
from mnemo_daemon.errors import Refusal
from mnemo_daemon.transfer.store_export import VectorSpace
from mnemo_daemon.transfer.tool_import import (
    LINE_BYTES_MAX,
    ImportInterruption,
    ImportRequest,
    ImportState,
    count_name,
    lines,
    slices,
    unfinished,
    write_slice,
)
from mnemo_store.backend import Snapshot
from mnemo_store.codec import decode_vectors, digest_key, id_key
from mnemo_store.database.table_access import TableRow
from mnemo_store.errors import StoreError, StoreNotEmpty
from mnemo_store.journal import dump
from mnemo_store.journal.dump import ChangeRow, DumpHeader, DumpRow, MemoryRow, VectorsRow, VersionRow
from mnemo_store.maintenance import compaction
from mnemo_store.record_texts import content_hash, embedded_text, skip_hash, text_hash
from mnemo_store.records import (
    Change,
    DropErasedText,
    Edge,
    Memory,
    PutErasedText,
    PutMeta,
    PutRoot,
    PutTrash,
    PutUsage,
)
from mnemo_store.store import Store, TextVectors, WriteResult
from mnemo_store.tables import BY_CHANGE, BY_NAME, DEVICE_USAGES, RECORD_CLOCKS, TABLES, Table, put_of, record_in

T = TypeVar("T")

Part = IncomingMemory | Change | VectorsRow  # what is brought in one by one; of changes those of MERGED

# Tables whose records are brought in where their parents are here and they are not. Of the rest, a memory has its usage
# and trash entry with it, and notes stay where their folder is watched.
# Clocks and shares of devices say something of the other store alone.
MERGED = tuple(
    table for table in TABLES if table.section == "after memories" and table not in (DEVICE_USAGES, RECORD_CLOCKS)
)


class _StreamSummary(NamedTuple):
    """A summary of a stream at its end."""

    header: DumpHeader
    memories: int
    has_history: bool
    has_vectors: bool
    roots: int
    epoch: int


class StoreMerge:
    """The import of one stream. `renew` is called after the store has taken over a whole stream, and returns once
    everybody knows."""

    def __init__(
        self, store: Store, wanted: ImportRequest, progress: ImportState, space: VectorSpace | None,
        renew: Callable[[], None],
    ) -> None:  # fmt: skip
        self._store = store
        self._request = wanted
        self._progress = progress
        self._space = space
        self._renew = renew
        self._answer = ImportAnswer(tool="mnemo", dry_run=wanted.dry_run)
        self._group = store.new_id()
        self._replacements: dict[str, str] = {}  # imported id → id of its duplicate here, "" for an erased text
        self._texts: dict[bytes, bytes] = {}  # hashes of texts by the keys under which their vectors would stand
        self._salt = ""
        self._found: _StreamSummary

    def run(self, spooled: BinaryIO) -> ImportAnswer:
        """Merge the stream; `spooled` is at its beginning. Raises a Refusal with nothing changed for
        an incomplete stream; for a store that fails on the way, one that says what stays."""
        self._refuse_unsupported_options()
        start = spooled.tell()
        try:
            self._found = _read_summary(self._rows(spooled))
            is_taken_over = self._found.has_history and self._is_empty() and self._replace_whole_store(spooled, start)
            if not is_taken_over:
                self._merge(spooled, start)
        except dump.MalformedDump as malformed:
            why = f"the export is damaged: {malformed}; nothing was changed"
            raise Refusal(400, "damaged_export", why) from None
        except (StoreError, ImportInterruption) as error:
            raise unfinished(error, self._answer) from error
        return self._answer

    def _refuse_unsupported_options(self) -> None:
        wanted = self._request
        if wanted.trust != "user":
            why = "an export of mnemo's own keeps layers and trust: only a person can import it"
            raise Refusal(422, "refused", why)
        for name, value in wanted.into._asdict().items():
            if value is not None:
                why = f"an export of mnemo's own says itself whose it is: leave `{name}` out"
                raise Refusal(400, "bad_value", why, field=name)
        if wanted.tool not in (None, "mnemo"):
            raise Refusal(400, "bad_value", f"this is mnemo's own export, not one of {wanted.tool}", field="from")

    def _rows(self, spooled: BinaryIO) -> Iterator[DumpRow]:
        return dump.read(self._lines(spooled))

    def _lines(self, spooled: BinaryIO) -> Iterator[bytes]:
        for number, line in lines(spooled):
            self._progress.require_running()
            self._progress.done = spooled.tell()
            if line is None:
                raise dump.MalformedDump(number, f"it is longer than {LINE_BYTES_MAX >> 20} MiB")
            yield line

    # Into an empty store

    def _is_empty(self) -> bool:
        """True if the stream may be the whole of the store. What was forgotten here must stay so."""
        with self._store.snapshot() as snapshot:
            forgot = not self._request.allow_forgotten and bool(snapshot.forgotten_after(limit=1))
            return compaction.is_empty(snapshot) and not snapshot.roots() and not forgot

    def _replace_whole_store(self, spooled: BinaryIO, start: int) -> bool:
        """Replace the empty store by the stream. False where it is no longer empty."""
        if not self._request.dry_run:
            spooled.seek(start)
            try:
                self._store.run_exclusively(
                    lambda supervisor: compaction.install_dump(supervisor, self._rows(spooled))
                ).result()
            except StoreNotEmpty:
                return False
            if self._found.has_vectors:
                spooled.seek(start)
                vectors = (row for row in self._rows(spooled) if isinstance(row, VectorsRow))
                for rows in slices(vectors, lambda row: None):
                    kept = [TableRow(bytes.fromhex(row.key), row.data) for row in rows]
                    self._store.run_exclusively(partial(compaction.put_vectors, rows=kept)).result()
            self._renew()
        self._answer.whole, self._answer.stored = True, self._found.memories
        return True

    # Into one that has memories

    def _merge(self, spooled: BinaryIO, start: int) -> None:
        with self._store.snapshot() as snapshot:
            self._salt = snapshot.meta("salt")
        spooled.seek(start)
        for incoming in slices(
            (part for part in _parts(self._rows(spooled)) if isinstance(part, IncomingMemory)), _mark
        ):
            with self._store.snapshot() as snapshot:
                for each in incoming:
                    # Find the memory here that an imported one is a duplicate of; in a dry run also count the
                    # outcome.
                    memory = each.memory
                    if self._is_forgotten(snapshot, memory):
                        self._replacements[memory.id] = ""
                        outcome = None
                    else:
                        here = _local_state(snapshot, memory)
                        outcome = store_merge.merge_memory(each, here, self._replacements, self._clock(snapshot))
                        if outcome.replacement_id is not None:
                            self._replacements[memory.id] = outcome.replacement_id
                    if self._request.dry_run:
                        self._count(each, outcome)
        if self._found.roots:
            count_name(self._answer.not_kept, "watched folders", self._found.roots)
        if self._request.dry_run:
            return
        spooled.seek(start)
        for slice_ in slices(_parts(self._rows(spooled)), _mark):
            match slice_[0]:
                case IncomingMemory():
                    self._commit_memories([part for part in slice_ if isinstance(part, IncomingMemory)])
                case PutErasedText():
                    self._commit_forgotten([part for part in slice_ if isinstance(part, PutErasedText)])
                case VectorsRow():
                    self._commit_vectors([part for part in slice_ if isinstance(part, VectorsRow)])
                case part:
                    table = BY_CHANGE[type(part)]
                    self._commit_records(table, [record_in(table, each) for each in slice_])

    def _commit_memories(self, incoming: Sequence[IncomingMemory]) -> None:
        """Commit a slice of memories. Duplicates that `_classify` found stay out, whatever has changed since."""

        def decide(snapshot: Snapshot) -> WriteResult[list[MergeDecision | None]]:
            outcomes: list[MergeDecision | None] = []
            changes: list[Change] = []
            for each in incoming:
                duplicate_of = self._replacements.get(each.memory.id)
                if duplicate_of == "" or self._is_forgotten(snapshot, each.memory):
                    outcomes.append(None)
                    continue
                if duplicate_of is not None:
                    outcomes.append(MergeDecision("duplicate", replacement_id=duplicate_of))
                    continue
                here = _local_state(snapshot, each.memory)._replace(same_text=None)
                merged = store_merge.merge_memory(each, here, self._replacements, self._clock(snapshot))
                outcomes.append(merged)
                changes += merged.changes
                digest = skip_hash(self._salt, each.memory.content)
                if merged.changes and snapshot.forgotten(digest) is not None:
                    changes.append(DropErasedText(hash=digest))  # it was allowed, and so is wanted again
            return self._write_slice(changes, outcomes)

        outcomes = self._write(decide)
        for each, outcome in zip(incoming, outcomes, strict=True):
            self._count(each, outcome)

    def _clock(self, snapshot: Snapshot) -> MergeClock:
        return MergeClock(snapshot.now, epoch_of(snapshot), self._found.epoch)

    def _is_forgotten(self, snapshot: Snapshot, memory: Memory) -> bool:
        if self._request.allow_forgotten:
            return False
        return snapshot.forgotten(skip_hash(self._salt, memory.content)) is not None

    def _count(self, incoming: IncomingMemory, outcome: MergeDecision | None) -> None:
        answer, name = self._answer, outcome.outcome if outcome is not None else "forgotten"
        setattr(answer, name, getattr(answer, name) + 1)
        if outcome is not None and outcome.changes and not self._request.dry_run:
            answer.group = self._group
        if outcome is None or name not in ("stored", "updated"):
            return
        answer.freed += bool(incoming.memory.managed)
        if incoming.versions:
            count_name(answer.not_kept, "earlier versions", incoming.versions)
        if outcome.lost_key:
            count_name(answer.not_kept, "keys that are taken")
        if self._space is not None and self._found.has_vectors:
            digest = text_hash(embedded_text(incoming.memory))
            self._texts[digest_key(self._space.name, digest)] = digest

    def _commit_records(self, table: Table[Any], records: Sequence[Any]) -> None:
        """Commit records whose parents exist here, and that do not exist already."""

        def decide(snapshot: Snapshot) -> WriteResult[int]:
            wanted = [found for record in records if (found := self._as_here(table, record)) is not None]
            there = [record for record in wanted if _has_parents(snapshot, table, record)]
            new = [record for record in there if snapshot.get(table, *table.key.values_of(record)) is None]
            return self._write_slice([put_of(table, record) for record in new], len(records) - len(there))

        if lost := self._write(decide):
            count_name(self._answer.not_kept, f"{table.noun}s", lost)

    def _as_here(self, table: Table[Any], record: Any) -> Any:
        """The record with the ids of this store; None where a memory that it belongs to was not merged."""
        if isinstance(record, Edge):
            return store_merge.edge_between(record, self._replacements)
        of = {parent.field: getattr(record, parent.field) for parent in table.parents if parent.table == "memories"}
        ids = {field: self._replacements.get(memory_id, memory_id) for field, memory_id in of.items()}
        return msgspec.structs.replace(record, **ids) if all(ids.values()) else None

    def _commit_forgotten(self, rows: Sequence[PutErasedText]) -> None:
        """Keep texts that were erased there from coming back here, where both stores hash with the same salt."""
        if self._found.header.salt != self._salt:
            count_name(self._answer.not_kept, "forgotten texts", len(rows))
            return

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            return self._write_slice([row for row in rows if snapshot.forgotten(row.data.hash) is None], None)

        self._write(decide)

    def _commit_vectors(self, rows: Sequence[VectorsRow]) -> None:
        """Those of the model in use, of texts that came along."""
        found: list[TextVectors] = []
        for row in rows:
            digest = self._texts.get(bytes.fromhex(row.key))
            if digest is None or self._space is None:
                continue
            with contextlib.suppress(ValueError):  # of another width
                vectors = decode_vectors(row.data, self._space.dimensions)
                if np.isfinite(vectors).all():
                    found.append(TextVectors(self._space.name, digest, vectors))
        self._store.put_vectors(found).result()
        if len(found) < len(rows):
            count_name(self._answer.not_kept, "vectors", len(rows) - len(found))

    def _write_slice(self, changes: Sequence[Change], result: T) -> WriteResult[T]:
        return WriteResult(changes, result, "import", self._group)

    def _write(self, decide: Callable[[Snapshot], WriteResult[T]]) -> T:
        self._progress.require_running()
        return write_slice(self._store, decide, self._request.caller, self._progress)


def _read_summary(rows: Iterable[DumpRow]) -> _StreamSummary:
    """Summarise a whole stream. Raises MalformedDump where it is incomplete or an id is invalid."""
    header: DumpHeader | None = None
    memories = roots = epoch = 0
    has_history = has_vectors = False
    for number, row in enumerate(rows, start=1):
        try:
            for memory_id in _ids_in(row):
                id_key(memory_id)
        except ValueError as error:
            raise dump.MalformedDump(number, str(error)) from None
        match row:
            case DumpHeader():
                header = row
            case MemoryRow():
                memories += 1
            case ChangeRow():
                has_history = True
            case VectorsRow():
                has_vectors = True
            case PutRoot():
                roots += 1
            case PutMeta(name=name, value=value) if name == EPOCH and value.isdigit():
                epoch = int(value)
    assert header is not None, "a stream without one was refused"
    return _StreamSummary(header, memories, has_history, has_vectors, roots, epoch)


def _ids_in(row: DumpRow) -> tuple[str, ...]:
    match row:
        case MemoryRow(data=data) | VersionRow(data=data):
            return (data.id,)
        case DumpHeader() | ChangeRow() | VectorsRow():
            return ()
        case _:
            table = BY_CHANGE[type(row)]
            named = zip(table.key.values_of(record_in(table, row)), table.key.kinds, strict=True)
            return tuple(value for value, kind in named if kind == "id")


def _parts(rows: Iterable[DumpRow]) -> Iterator[Part]:
    """The imported memories, each with its usage, its place in the trash, and the number of its earlier versions:
    those stand before it, the others behind it."""
    pending: IncomingMemory | None = None
    versions = 0
    for row in rows:
        match row:
            case PutUsage(data=usage) if pending is not None and usage.id == pending.memory.id:
                pending = pending._replace(usage=usage)
                continue
            case PutTrash(data=entry) if pending is not None and entry.id == pending.memory.id:
                pending = pending._replace(trashed=entry)
                continue
        if pending is not None:
            yield pending
            pending = None
        match row:
            case VersionRow():
                versions += 1
            case MemoryRow(data=memory):
                pending, versions = IncomingMemory(memory, versions=versions), 0
            case PutErasedText() | VectorsRow():
                yield row
            case _ if BY_CHANGE.get(type(row)) in MERGED:
                yield row  # type: ignore[misc]
    if pending is not None:
        yield pending


def _mark(part: Part) -> object:
    """Note a name that may occur only once in a write, which does not see its own changes."""
    if isinstance(part, IncomingMemory) and part.memory.key:
        return (part.memory.namespace, part.memory.user_id, part.memory.key)
    return None


def _local_state(snapshot: Snapshot, memory: Memory) -> LocalState:
    """The store's own record of it."""
    before = snapshot.memory(memory.id)
    of_key = snapshot.id_by_key(memory.namespace, memory.user_id, memory.key) if memory.key else None
    same_text: str | None = None
    if before is None and store_merge.compares_by_text(memory):
        scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
        same_text = next(iter(snapshot.ids_by_hash(*scope, content_hash(memory.content))), None)
    return LocalState(
        before=before,
        usage=snapshot.usage(memory.id),
        trashed=snapshot.trash(memory.id) if before is not None else None,
        same_key=snapshot.memory(of_key) if of_key not in (None, memory.id) else None,
        same_text=snapshot.memory(same_text) if same_text is not None else None,
    )


def _has_parents(snapshot: Snapshot, table: Table[Any], record: Any) -> bool:
    return all(
        snapshot.get(BY_NAME[parent.table], getattr(record, parent.field)) is not None for parent in table.parents
    )
