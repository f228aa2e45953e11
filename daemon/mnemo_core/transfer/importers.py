"""Parsers for the exports of other memory tools. SPEC 3.8, 5.3

mem0         what its `get_all` answers: {"results": [{"id", "memory", "metadata", "created_at", …}], "relations": […]},
             {"memories": […]} or the bare list
mcp-memory   the file of the official MCP memory server, a line each: {"type": "entity", "name", "entityType",
             "observations": […]} and {"type": "relation", "from", "to", "relationType"}
engram       what its GET /export answers: {"version", "count", "memories": [{"id", "content", "layer": 1, …}]}

Each tool has one parser, from the bytes of one item to memories. `import_plan` admits these like any other text, and
decides whether each is new, known, or older than the stored one.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from mnemo_core.text import cleaning
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.transfer.transcripts.parts import DECODER_ERRORS, TimeReader, decoder_message
from mnemo_store.records import Kind

Tool = Literal["mem0", "mcp-memory", "engram"]
TOOLS: tuple[Tool, ...] = get_args(Tool)
COUNT_MAX = 1 << 31  # of accesses and repetitions, as the columns hold them
FIRST_SHOWN = 10  # items read to detect the tool


class ImportItemError(ValueError):
    """This item cannot be remembered; the message says why."""


class ImportFormatError(ValueError):
    """This is no export that is known; the message says what it is."""


class ImportedMemory(NamedTuple):
    """One memory of an export, before cleaning. Times are in ms, None where the export has none."""

    content: str
    id: str = ""  # the one the tool gave it; "" for one that the tool knows by its text alone
    kind: Kind = "semantic"
    importance: float | None = None
    tags: tuple[str, ...] = ()
    namespace: str = ""
    user_id: str = ""
    agent_id: str = ""
    run_id: str = ""
    speaker: str = ""
    created_at: int | None = None
    event_at: int | None = None
    changed_at: int | None = None  # when the tool last changed it
    expires_at: int | None = None
    access_count: int = 0
    repetition_count: int = 0
    last_accessed: int | None = None
    dropped_fields: tuple[str, ...] = ()  # names of the export's fields that are not imported


class ExportDocument(NamedTuple):
    """The items of an export that is one JSON value, each with the place it stands at."""

    tool: Tool
    items: list[tuple[str, msgspec.Raw]]


# Detection of the tool


def tool_of_line(line: bytes) -> Tool | None:
    """Return the tool whose line-by-line export begins with this line, None where it is none."""
    try:
        return "mcp-memory" if _peek(line).type in ("entity", "relation") else None
    except DECODER_ERRORS:
        return None


def read_document(data: Any, tool: Tool | None = None) -> ExportDocument:
    """The items of an export in one piece (bytes, or what can be read like them), and whose it is, unless that is
    given. Raises ImportFormatError."""
    try:
        whole = msgspec.json.decode(data, type=_ExportEnvelope | list[msgspec.Raw])
    except DECODER_ERRORS as error:
        raise ImportFormatError(f"the file is not an export: {decoder_message(error)}") from None
    name = ""
    if isinstance(whole, list):
        whole = _ExportEnvelope(results=whole)
    else:
        name = "results" if whole.results is not None else "memories"
    items = (whole.results if whole.results is not None else whole.memories) or []
    relations = whole.relations or []
    found = tool or _tool_of(items)
    if found is None and not items and name:  # by the lists that it has, though they are empty
        is_engram = whole.memories is not None and whole.count is not None
        found = "mem0" if whole.results is not None else "engram" if is_engram else None
    if found is None:
        raise ImportFormatError(
            "nothing in it looks like a memory of a tool that is known" if items else "it holds nothing"
        )
    placed = [(f"{name}[{index}]", item) for index, item in enumerate(items)]
    if found == "mem0":
        placed += [(f"relations[{index}]", item) for index, item in enumerate(relations)]
    return ExportDocument(found, placed)


def read_conversations(data: Any) -> list[msgspec.Raw]:
    """The conversations of an export in one piece: a list of them, or one. Raises ImportFormatError."""
    try:
        whole = msgspec.json.decode(data, type=_ConversationList | list[msgspec.Raw])
    except DECODER_ERRORS as error:
        raise ImportFormatError(f"the file is not an export: {decoder_message(error)}") from None
    if isinstance(whole, list):
        return whole
    return whole.conversations if whole.mapping is None else [msgspec.Raw(bytes(data))]


def parse(tool: Tool, item: bytes | msgspec.Raw, moment: TimeReader) -> Iterator[ImportedMemory]:
    """Parse one item of an export into memories: one, or for an entity one for each observation. Raises
    ImportItemError."""
    try:
        yield from _PARSERS[tool](item, moment)
    except DECODER_ERRORS as error:
        raise ImportItemError(decoder_message(error)) from None


def _tool_of(items: list[msgspec.Raw]) -> Tool | None:
    """The tool that wrote these items, from the first item that shows it."""
    for item in items[:FIRST_SHOWN]:
        try:
            peek = _peek(item)
        except DECODER_ERRORS:
            continue
        if isinstance(peek.memory, str):
            return "mem0"
        if isinstance(peek.content, str) and isinstance(peek.layer, int):
            return "engram"
    return None


class _ExportEnvelope(msgspec.Struct):
    results: list[msgspec.Raw] | None = None
    memories: list[msgspec.Raw] | None = None
    relations: list[msgspec.Raw] | None = None
    count: Any = None


class _ConversationList(msgspec.Struct):
    conversations: list[msgspec.Raw] = []
    mapping: msgspec.Raw | None = None


class _ItemProbe(msgspec.Struct):
    type: Any = None
    memory: Any = None
    content: Any = None
    layer: Any = None
    relationship: Any = None


_peek = msgspec.json.Decoder(_ItemProbe).decode


# mem0


class _Mem0(msgspec.Struct):
    memory: str
    id: str | int | None = None
    metadata: dict[str, Any] | None = None
    categories: list[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    created_at: Any = None
    updated_at: Any = None
    expiration_date: Any = None


class _Mem0Relation(msgspec.Struct):
    source: str
    relationship: str
    target: str = ""
    destination: str = ""


_mem0 = msgspec.json.Decoder(_Mem0).decode
_mem0_relation = msgspec.json.Decoder(_Mem0Relation).decode


def _parse_mem0(item: bytes | msgspec.Raw, moment: TimeReader) -> Iterator[ImportedMemory]:
    """Times of mem0: created_at is the time of storage, a later updated_at the time of the last statement."""
    peek = _peek(item)
    if peek.memory is None and peek.relationship is not None:
        relation = _mem0_relation(item)
        yield ImportedMemory(_sentence(relation.source, relation.relationship, relation.target or relation.destination))
        return
    found = _mem0(item)
    # The plain texts of it, alone or in lists, which become tags; and the names of what does not fit into one
    metadata = found.metadata or {}
    tags: list[str] = []
    lost: list[str] = []
    for name, value in metadata.items():
        texts = value if isinstance(value, list) else [value]
        if all(isinstance(text, str) and cleaning.valid_tags([text]) for text in texts):
            tags += texts
        elif value not in (None, ""):
            lost.append(f"metadata.{name}")
    created, updated, expires = moment(found.created_at), moment(found.updated_at), moment(found.expiration_date)
    times = {"created_at": created, "updated_at": updated, "expiration_date": expires}
    lost += [name for name, value in times.items() if value is None and getattr(found, name) is not None]
    yield ImportedMemory(
        found.memory,
        id="" if found.id is None else str(found.id),
        tags=(*(found.categories or ()), *tags),
        user_id=found.user_id or "",
        agent_id=found.agent_id or "",
        run_id=found.run_id or "",
        speaker=found.actor_id or "",
        created_at=created,
        event_at=updated if updated is not None else created,
        changed_at=updated if updated is not None else created,
        expires_at=expires,
        dropped_fields=tuple(lost),
    )


# The official MCP memory server


class _Entity(msgspec.Struct):
    name: str
    entityType: str  # noqa: N815 - the file's own names
    observations: list[str]


class _Relation(msgspec.Struct, rename={"source": "from", "target": "to"}):
    source: str
    target: str
    relationType: str  # noqa: N815


_entity = msgspec.json.Decoder(_Entity).decode
_relation = msgspec.json.Decoder(_Relation).decode
_BETWEEN_WORDS = lazy_pattern(r"(?<=\w)_+(?=\w)")


def _parse_graph(item: bytes | msgspec.Raw, moment: TimeReader) -> Iterator[ImportedMemory]:
    """Each observation is found by itself, so it says whom it is about, unless it does already. An entity nobody
    observed anything about is still known to be there."""
    match _peek(item).type:
        case "entity":
            entity = _entity(item)
            name = _words(entity.name)
            for observation in entity.observations or [f"{name} ({entity.entityType})"]:
                says_whom = bool(name) and (
                    re.search(rf"(?<!\w){re.escape(name)}(?!\w)", _words(observation), re.IGNORECASE) is not None
                )
                yield ImportedMemory(observation if says_whom else f"{name}: {observation}", tags=(entity.entityType,))
        case "relation":
            relation = _relation(item)
            yield ImportedMemory(_sentence(relation.source, relation.relationType, relation.target))
        case other:
            raise ImportItemError(f"its type is {_shown(other)}, not entity or relation")


def _sentence(source: str, relation: str, target: str) -> str:
    """`Ines works at the harbour` of Ines, works_at, the_harbour."""
    return f"{_words(source)} {_words(relation)} {_words(target)}".strip()


def _words(name: str) -> str:
    """A name made for programs (`works_at`) as a person would write it, and so would look for it."""
    return _BETWEEN_WORDS.sub(" ", name).strip()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


# engram


class _Engram(msgspec.Struct):
    content: str
    id: str | None = None
    importance: float | None = None
    tags: list[str] | None = None
    namespace: str = ""
    kind: str = "semantic"
    created_at: Any = None
    modified_at: Any = None
    last_accessed: Any = None
    access_count: int = 0
    repetition_count: int = 0


_engram = msgspec.json.Decoder(_Engram).decode
_ENGRAM_KINDS: Mapping[str, Kind] = {"semantic": "semantic", "episodic": "episodic", "procedural": "procedural"}


def _parse_engram(item: bytes | msgspec.Raw, moment: TimeReader) -> Iterator[ImportedMemory]:
    """Its layer is not taken over: another tool's export enters the buffer. SPEC 5.4"""
    found = _engram(item)
    created, modified = moment(found.created_at), moment(found.modified_at)
    importance = found.importance
    yield ImportedMemory(
        found.content,
        id=found.id or "",
        kind=_ENGRAM_KINDS.get(found.kind, "semantic"),
        importance=None if importance is None else min(max(importance, 0.0), 1.0),
        tags=tuple(found.tags or ()),
        namespace=found.namespace,
        created_at=created,
        event_at=created,
        changed_at=modified or created,
        access_count=min(max(found.access_count, 0), COUNT_MAX - 1),
        repetition_count=min(max(found.repetition_count, 0), COUNT_MAX - 1),
        last_accessed=moment(found.last_accessed),
        dropped_fields=() if found.kind in _ENGRAM_KINDS else ("kind",),
    )


_PARSERS: Mapping[Tool, Callable[[bytes | msgspec.Raw, TimeReader], Iterator[ImportedMemory]]] = {
    "mem0": _parse_mem0,
    "mcp-memory": _parse_graph,
    "engram": _parse_engram,
}
