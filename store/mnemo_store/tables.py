"""The tables of the store: one `Table` for each record type; everything generic is driven by them. docs/format.md.

To add a record type, write its struct and its changes in `records`, and its `Table` here. What follows without further
code: the database and the fallback state apply its changes, snapshots read it, the journal replays it, exports and
imports carry it, a check verifies it and a repair restores it, the erasure scan knows its words, devices share it and
undo knows it where the `Table` says so, and the property tests over all tables cover it. A new table is a new format of
the store: a row in FORMATS.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec

from mnemo_store import codec
from mnemo_store.codec import id_key, id_text, seq_key, seq_of
from mnemo_store.records import (
    Change,
    ChangeEntry,
    Cycle,
    DeviceUsage,
    DropCycle,
    DropDecision,
    DropDeviceUsage,
    DropEdge,
    DropErasedText,
    DropExtraction,
    DropFact,
    DropLlmCall,
    DropMemory,
    DropNodeEdge,
    DropNote,
    DropRecordClock,
    DropRoot,
    DropSession,
    DropShowing,
    DropSkip,
    DropTopicNode,
    DropTrash,
    DropTurnPair,
    Edge,
    ErasedText,
    Fact,
    LifecycleDecision,
    LlmCall,
    Memory,
    NodeEdge,
    NoteFile,
    NoteRoot,
    PendingExtraction,
    PutCycle,
    PutDecision,
    PutDeviceUsage,
    PutEdge,
    PutErasedText,
    PutExtraction,
    PutFact,
    PutLlmCall,
    PutMemory,
    PutMeta,
    PutNodeEdge,
    PutNote,
    PutRecordClock,
    PutRoot,
    PutScore,
    PutSession,
    PutShowing,
    PutSkip,
    PutTopicNode,
    PutTrash,
    PutTurnPair,
    PutUsage,
    PutVersion,
    RecordClock,
    Session,
    Showing,
    Skip,
    TopicNode,
    TrashEntry,
    TurnPair,
    Usage,
)

R = TypeVar("R")

PartKind = Literal["id", "seq", "text"]

# Where a dump has the rows of a table: sections in this order, and within one the tables as in TABLES. A memory and its
# versions stand before what is "with its memory". apart: the dump has code of its own for them.
DumpSection = Literal["facts", "folders", "notes", "with its memory", "after memories", "apart"]


_SIZES: dict[PartKind, int] = {"id": 16, "seq": 8}
_ENCODE: dict[PartKind, Callable[[Any], bytes]] = {"id": id_key, "seq": seq_key, "text": str.encode}
_DECODE: dict[PartKind, Callable[[bytes], Any]] = {"id": id_text, "seq": seq_of, "text": bytes.decode}


class Key:
    """The key of a row: fields of its record as bytes. Ids have 16, seqs 8, and one field at most is a text."""

    def __init__(self, *parts: tuple[str, PartKind], mark: bytes = b"") -> None:
        """`mark` separates the parts."""
        self.fields = tuple(field for field, _ in parts)
        self.kinds = tuple(kind for _, kind in parts)
        self.mark = mark
        self._fixed_bytes = sum(_SIZES.get(kind, 0) for kind in self.kinds) + len(mark) * (len(parts) - 1)

    def encode(self, values: Sequence[Any]) -> bytes:
        """The key for these values of the fields. Raises ValueError for an invalid id."""
        return self.mark.join([_ENCODE[kind](value) for kind, value in zip(self.kinds, values, strict=True)])

    @cached_property
    def of(self) -> Callable[[Any], bytes]:
        """The key of a record, or of a change that names it by the same fields."""
        if len(self.fields) > 1:
            values, encode = attrgetter(*self.fields), self.encode
            return lambda record: encode(values(record))
        value, encode_one = attrgetter(*self.fields), _ENCODE[self.kinds[0]]
        return lambda record: encode_one(value(record))

    def values_of(self, record: Any) -> tuple[Any, ...]:
        """The values of the fields in a record."""
        return tuple(getattr(record, field) for field in self.fields)

    def decode(self, key: bytes) -> tuple[Any, ...]:
        """The values of the fields. Raises ValueError where the bytes are no such key."""
        parts = self._split(key)
        if parts is None:
            raise ValueError(f"{len(key)} bytes are no key of {', '.join(self.fields)}")
        return tuple(_DECODE[kind](part) for kind, part in zip(self.kinds, parts, strict=True))

    def fits(self, key: bytes) -> bool:
        """True where the bytes have the form of such a key."""
        return self._split(key) is not None

    def _split(self, key: bytes) -> list[bytes] | None:
        text_bytes = len(key) - self._fixed_bytes
        parts, start = [], 0
        for kind in self.kinds:
            end = start + _SIZES.get(kind, text_bytes)
            parts.append(key[start:end])
            start = end + len(self.mark)
        is_right = text_bytes >= 0 if "text" in self.kinds else text_bytes == 0
        return parts if is_right and (not self.mark or self.mark.join(parts) == key) else None


class StoredMemory(NamedTuple):
    """A memory's record and the seq of the change that made it."""

    seq: int
    memory: Memory

    @property
    def id(self) -> str:
        return self.memory.id


class LoggedChange(NamedTuple):
    """The history entry of a transaction, and its seq."""

    seq: int
    entry: ChangeEntry


class Parent(NamedTuple):
    """The row that a record belongs to: which field of its key names it, and which table has it."""

    field: str
    table: str


class ExportScope(Protocol):
    """The scope of a dump, as the tables ask for it."""

    is_filtered: bool  # only some memories were asked for
    note_roots: frozenset[str]  # the folders of the note files in a filtered dump

    @property
    def is_whole(self) -> bool: ...  # true where every memory of the store is in it
    def has_memory(self, memory_id: str) -> bool: ...
    def keeps(self, record: Any) -> bool: ...  # true where a record with a namespace of its own was asked for


def _as_json(record: Any) -> Iterable[str]:
    return (codec.encode_json(record).decode(),)


@dataclass(frozen=True, eq=False)
class Table(Generic[R]):
    """A record type and the way its records are stored."""

    name: str
    noun: str  # what a report calls a record
    record: type[R]
    key: Key
    put: type[Any] | None = None  # the change that writes a record: it has it as `data`, or is the record itself
    drop: type[Any] | None = None  # the change that removes a record: its fields are those of the key
    other_keys: tuple[Key, ...] = ()  # under which the record stands in this table too
    parents: tuple[Parent, ...] = ()  # what a memory is a parent of goes with it: the field begins a key
    section: DumpSection = "after memories"
    exported: Callable[[R, ExportScope], R | None] | None = None  # None: exported with all its memories
    is_shared: bool = False  # by the devices that share the memory: of two changes of a record the later wins. SPEC 21
    # Undo puts its records back, where the operation of the change is called as the table, and no memory changed.
    is_undone: bool = False
    problems: Callable[[R], Iterator[str]] | None = None  # values of a record that are out of bounds, as sentences
    # Texts that may stay on the disk although an erased memory had the same words. None: it has none.
    texts: Callable[[R], Iterable[str]] | None = _as_json
    encode: Callable[[Any], bytes] = codec.encode
    decode: Callable[[bytes, bytes], R] | None = None  # of key and value; None: MessagePack

    @cached_property
    def open(self) -> Callable[[bytes, bytes], R]:
        """The record in a row, by key and value. Raises ValueError or msgspec.MsgspecError where it holds none."""
        if self.decode is not None:
            return self.decode
        unpack = msgspec.msgpack.Decoder(self.record).decode
        return lambda _, value: unpack(value)

    def open_verified(self, key: bytes, value: bytes) -> R:
        """Opens a row like `open`, and raises ValueError also where the key is not one of the record's."""
        if not any(form.fits(key) for form in self.keys):
            raise ValueError(f"its key of {len(key)} bytes is not made of {', '.join(self.key.fields)}")
        record = self.open(key, value)
        if key not in self.keys_of(record):
            raise ValueError(f"it is the {self.noun} {self.subject(record)}")
        return record

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        return (self.key, *self.other_keys)

    def keys_of(self, record: Any) -> list[bytes]:
        """Every key that a record stands under, the primary one first; also of the change that drops it."""
        return [key.of(record) for key in self.keys]

    def is_primary(self, key: bytes) -> bool:
        """True where no other key of the record has this form."""
        return not self.other_keys or self.key.fits(key)

    def subject(self, record: Any) -> str:
        """The name of a record in reports: the fields of its key."""
        return " ".join(map(str, self.key.values_of(record)))

    def subject_of_key(self, key: bytes) -> str:
        """The same by the key of a row. Raises ValueError where it is none of this table's."""
        used = next((each for each in self.other_keys if each.fits(key)), self.key)
        values = dict(zip(used.fields, used.decode(key), strict=True))
        return " ".join(str(values[field]) for field in self.key.fields)

    def values_of_subject(self, subject: str) -> tuple[Any, ...]:
        """The values of the key's fields by the name in a report. Raises ValueError where it is no such name."""
        words = subject.split(" ", len(self.key.fields) - 1)
        return tuple(int(word) if kind == "seq" else word for kind, word in zip(self.key.kinds, words, strict=True))

    def keys_of_subject(self, subject: str) -> list[bytes]:
        """Every key that the record of this name stands under. Raises ValueError where it is no such name."""
        values = dict(zip(self.key.fields, self.values_of_subject(subject), strict=True))
        return [key.encode([values[field] for field in key.fields]) for key in self.keys]

    def in_dump(self, record: R, scope: ExportScope) -> R | None:
        """The record as a dump of this scope has it; None where it has none."""
        if self.exported is not None:
            return self.exported(record, scope)
        if scope.is_whole:
            return record
        memories = [getattr(record, parent.field) for parent in self.parents if parent.table == "memories"]
        if memories or not scope.is_filtered:
            return record if all(map(scope.has_memory, memories)) else None
        return record if self.is_shared and not self.parents and scope.keeps(record) else None


def _note_with_its_memories(note: NoteFile, scope: ExportScope) -> NoteFile | None:
    if scope.is_whole:
        return note
    chunks = tuple(chunk for chunk in note.chunks if scope.has_memory(chunk.memory))
    return msgspec.structs.replace(note, chunks=chunks) if chunks or not scope.is_filtered else None


def _problems_of_usage(usage: Usage) -> Iterator[str]:
    if not 0.0 <= usage.strength <= 1.0:
        yield f"its strength is {usage.strength}"
    counts = ("access_count", "repetition_count", "last_accessed", "strength_epoch", "person_at")
    yield from _not_below_zero("a count of its usage", *counts)(usage)


def _not_below_zero(what: str, *fields: str) -> Callable[[Any], Iterator[str]]:
    """The problem of a record of which one of these fields is below zero."""
    return lambda record: iter([f"{what} is below zero"] if any(getattr(record, field) < 0 for field in fields) else [])


BOOKKEEPING = frozenset({"seq", "sum", "format", "store", "salt", "next_number"})  # the store's own facts in `meta`

_ID: tuple[str, PartKind] = ("id", "id")
_OF_A_MEMORY = (Parent("id", "memories"),)

MEMORIES: Table[StoredMemory] = Table(
    "memories", "memory", StoredMemory, Key(_ID), PutMemory, DropMemory, section="apart", texts=None,
    encode=lambda stored: seq_key(stored.seq) + codec.encode(stored.memory),
    decode=lambda _, value: StoredMemory(seq_of(value[:8]), codec.decode_memory(value[8:])),
)  # fmt: skip
VERSIONS: Table[StoredMemory] = Table(
    "versions", "version", StoredMemory, Key(_ID, ("seq", "seq")), PutVersion, parents=_OF_A_MEMORY, section="apart",
    texts=None,
    encode=lambda stored: codec.encode(stored.memory),
    decode=lambda key, value: StoredMemory(seq_of(key[16:]), codec.decode_memory(value)),
)  # fmt: skip
CHANGES: Table[LoggedChange] = Table(
    "changes", "change", LoggedChange, Key(("seq", "seq")), section="apart",
    texts=lambda logged: (logged.entry.by, logged.entry.what), encode=lambda logged: codec.encode(logged.entry),
    decode=lambda key, value: LoggedChange(seq_of(key), codec.decode_entry(value)),
)  # fmt: skip
META: Table[PutMeta] = Table(
    "meta", "fact", PutMeta, Key(("name", "text")), PutMeta, section="facts", is_undone=True,
    # with a blank, it is of one thing (`topic name ID`), which may be of another namespace
    exported=lambda fact, scope: None if fact.name in BOOKKEEPING or (scope.is_filtered and " " in fact.name) else fact,
    encode=lambda fact: fact.value.encode(), decode=lambda key, value: PutMeta(name=key.decode(), value=value.decode()),
)  # fmt: skip
ROOTS: Table[NoteRoot] = Table(
    "roots", "notes folder", NoteRoot, Key(_ID), PutRoot, DropRoot, section="folders",
    exported=lambda root, scope: root if not scope.is_filtered or root.id in scope.note_roots else None,
)  # fmt: skip
NOTES: Table[NoteFile] = Table(
    "notes", "note", NoteFile, Key(_ID), PutNote, DropNote, section="notes", exported=_note_with_its_memories,
)  # fmt: skip
SKIPS: Table[Skip] = Table(
    "skips", "skipped text", Skip, Key(("file", "id"), ("hash", "text")), PutSkip, DropSkip,
    parents=(Parent("file", "notes"),), section="notes", texts=None, encode=lambda _: b"\1",
    decode=lambda key, _: Skip(file=id_text(key[:16]), hash=key[16:].decode("ascii")),
)  # fmt: skip
FORGOTTEN: Table[ErasedText] = Table(
    "forgotten", "erased text", ErasedText, Key(("hash", "text")), PutErasedText, DropErasedText,
    section="notes", texts=None,
)  # fmt: skip
USAGE: Table[Usage] = Table(
    "usage", "usage record", Usage, Key(_ID), PutUsage, parents=_OF_A_MEMORY, section="with its memory",
    problems=_problems_of_usage, texts=None,
)  # fmt: skip
TRASH: Table[TrashEntry] = Table(
    "trash", "trash entry", TrashEntry, Key(_ID), PutTrash, DropTrash, parents=_OF_A_MEMORY, section="with its memory",
    is_shared=True,
)  # fmt: skip
EDGES: Table[Edge] = Table(
    "edges", "edge", Edge, Key(("source", "id"), ("relation", "text"), ("target", "id"), mark=b">"), PutEdge, DropEdge,
    other_keys=(Key(("target", "id"), ("relation", "text"), ("source", "id"), mark=b"<"),),
    parents=(Parent("source", "memories"), Parent("target", "memories")), is_shared=True, is_undone=True, texts=None,
)  # fmt: skip

LLM_CALLS: Table[LlmCall] = Table(
    "llm_calls", "language model call", LlmCall, Key(_ID), PutLlmCall, DropLlmCall,
    problems=_not_below_zero("its time or a count", "at", "tokens_in", "tokens_out", "milliseconds"),
)  # fmt: skip
FACTS: Table[Fact] = Table(
    "facts", "extracted fact", Fact, Key(_ID, ("memory", "id"), mark=b">"), PutFact, DropFact,
    other_keys=(Key(("memory", "id"), _ID, mark=b"<"),), parents=(Parent("memory", "memories"),),
    is_shared=True, is_undone=True,
    problems=_not_below_zero("one of its times", "created_at", "valid_from", "valid_to"),
)  # fmt: skip
EXTRACTIONS: Table[PendingExtraction] = Table(
    "extractions", "pending extraction", PendingExtraction, Key(_ID), PutExtraction, DropExtraction,
    parents=_OF_A_MEMORY,
)  # fmt: skip
SESSIONS: Table[Session] = Table(
    "sessions", "session", Session, Key(_ID), PutSession, DropSession, is_shared=True,
    problems=_not_below_zero("a time or a count of it", "started_at", "last_at", "ended_at", "turns"),
)  # fmt: skip
TOPIC_NODES: Table[TopicNode] = Table(
    "topic_nodes", "topic node", TopicNode, Key(_ID), PutTopicNode, DropTopicNode, is_shared=True,
)  # fmt: skip
TURN_PAIRS: Table[TurnPair] = Table(
    "turn_pairs", "turn pair", TurnPair, Key(_ID, ("reply", "id"), mark=b">"), PutTurnPair, DropTurnPair,
    other_keys=(Key(("reply", "id"), _ID, mark=b"<"),),
    parents=(Parent("id", "memories"), Parent("reply", "memories")), is_shared=True,
)  # fmt: skip
NODE_EDGES: Table[NodeEdge] = Table(
    "node_edges", "topic node edge", NodeEdge,
    Key(("source", "id"), ("relation", "text"), ("target", "id"), mark=b">"), PutNodeEdge, DropNodeEdge,
    other_keys=(Key(("target", "id"), ("relation", "text"), ("source", "id"), mark=b"<"),),
    parents=(Parent("source", "topic_nodes"), Parent("target", "topic_nodes")), is_shared=True, texts=None,
)  # fmt: skip
CYCLES: Table[Cycle] = Table("cycles", "cycle", Cycle, Key(_ID), PutCycle, DropCycle)
DECISIONS: Table[LifecycleDecision] = Table(
    "decisions", "decision", LifecycleDecision,
    Key(("memory", "id"), ("action", "text"), ("other", "id"), mark=b">"), PutDecision, DropDecision,
    other_keys=(Key(("other", "id"), ("action", "text"), ("memory", "id"), mark=b"<"),),
    parents=(Parent("memory", "memories"), Parent("other", "memories")), is_shared=True, is_undone=True,
)  # fmt: skip

SHOWINGS: Table[Showing] = Table(
    "showings", "showing", Showing, Key(_ID, ("memory", "id"), mark=b">"), PutShowing, DropShowing,
    other_keys=(Key(("memory", "id"), _ID, mark=b"<"),), parents=(Parent("memory", "memories"),),
    problems=_not_below_zero("its time or its rank", "at", "rank"), texts=None,
)  # fmt: skip

DEVICE_USAGES: Table[DeviceUsage] = Table(
    "device_usages", "usage on a device", DeviceUsage, Key(_ID, ("device", "text"), mark=b">"), PutDeviceUsage,
    DropDeviceUsage, parents=_OF_A_MEMORY,
)  # fmt: skip
RECORD_CLOCKS: Table[RecordClock] = Table(
    "record_clocks", "clock of a record", RecordClock, Key(("name", "text")), PutRecordClock, DropRecordClock,
    problems=_not_below_zero("its clock or number", "clock", "origin"),
)  # fmt: skip
_OF_MEMORIES: tuple[Table[Any], ...] = (MEMORIES, VERSIONS, CHANGES, USAGE)
_OTHERS: tuple[Table[Any], ...] = (
    TRASH, EDGES, NOTES, ROOTS, SKIPS, FORGOTTEN, LLM_CALLS, FACTS, EXTRACTIONS, SESSIONS, TOPIC_NODES, TURN_PAIRS,
    NODE_EDGES, CYCLES, DECISIONS, SHOWINGS, DEVICE_USAGES, RECORD_CLOCKS,
)  # fmt: skip
TABLES: tuple[Table[Any], ...] = (*_OF_MEMORIES, *_OTHERS, META)

INDEXES = ("numbers", "owners", "hashes", "keys")  # of the memories, made from their records
EMBEDDINGS = "embeddings"  # made from texts, and not in the journal
EMBEDDING_ROWS = "embedding_rows"  # of the database, which shows its values as those of EMBEDDINGS
TABLE_NAMES = (
    *(table.name for table in _OF_MEMORIES), *INDEXES, *(table.name for table in _OTHERS), EMBEDDINGS, META.name,
)  # fmt: skip
MULTI_VALUE_TABLES = frozenset({"hashes"})  # tables with several values under one key

BY_NAME: dict[str, Table[Any]] = {table.name: table for table in TABLES}
BY_CHANGE: dict[type[Any], Table[Any]] = {
    change: table for table in TABLES for change in (table.put, table.drop) if change is not None
} | {PutScore: MEMORIES}
SHARED = tuple(table for table in TABLES if table.is_shared)
UNDONE = tuple(table for table in TABLES if table.is_undone)
OF_A_MEMORY = tuple(table for table in TABLES if any(parent.table == "memories" for parent in table.parents))


def put_of(table: Table[R], record: R) -> Change:
    """The change that writes a record."""
    assert table.put is not None, f"no change writes a {table.noun} alone"
    change: Any = record if table.put is table.record else table.put(data=record)
    return cast(Change, change)


def drop_of(table: Table[R], record: R) -> Change:
    """The change that removes a record."""
    assert table.drop is not None, f"no change removes a {table.noun} alone"
    return cast(Change, table.drop(**{field: getattr(record, field) for field in table.key.fields}))


def record_in(table: Table[R], change: Any) -> R:
    """The record that a change writes."""
    return cast(R, change if table.put is table.record else change.data)
