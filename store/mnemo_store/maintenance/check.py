"""The check of a store: named rules, each about the rows of one table. store/docs/format.md "Check".

A rule sees one row, and the rows it depends on in the same snapshot, so it holds or not whatever is written meanwhile;
a snapshot lives for a slice of rows. An unreadable row is reported once, and all other rules skip it. A check changes
nothing.

To add a rule, write a function of (RowContext, record) that yields the problems, and add it to INVARIANTS.
"""

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from mnemo_store.backend import HASHED_STATES, hash_key, name_key
from mnemo_store.codec import id_key, id_text, is_codes, is_token_rows, seq_of
from mnemo_store.database.table_access import TableRow, TableSnapshot
from mnemo_store.records import (
    CONTENT_CHARS_MAX,
    EVIDENCE_MAX,
    FORMAT,
    NAMESPACE_CHARS_MAX,
    TAGS_MAX,
    ChangeEntry,
    Memory,
    NoteFile,
)
from mnemo_store.tables import BY_NAME, TABLE_NAMES, TABLES, StoredMemory, Table

CHECK_SLICE = 200  # rows checked in one snapshot: about 20 ms
ERASURE_NAMES = frozenset({"purge", "forget"})  # `what` of transactions whose erased memories may be named as evidence

TableSource = Callable[[], AbstractContextManager[TableSnapshot]]
YieldToQueries = Callable[[], None]  # called between two slices; may raise, to stop

# How a violation is repaired (`repair.REPAIR_STEPS`); report: only by a person.
Remedy = Literal[
    "report", "database", "reread", "indexes", "amend", "embeddings", "history", "journal", "views", "vectors"
]

MEMORY_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_DIGITS = re.compile(r"[0-9]+")
_SEQ_AND_TIME = re.compile(r"[0-9]+( [0-9]+)?")
_SALT = re.compile(r"[0-9a-f]{32}")


class InvariantViolation(NamedTuple):
    """A rule that a row breaks."""

    invariant: str
    table: str
    subject: str  # an id, the number of a change, a key
    what: str  # the problem, as a sentence about the subject
    remedy: Remedy


class RowContext:
    """One snapshot, and records that several rules need."""

    def __init__(self, at: TableSnapshot) -> None:
        self.at = at
        self.key = b""  # of the row that is checked
        self._chunks: dict[str, tuple[NoteFile | None, frozenset[str]]] = {}
        self._named: dict[int, frozenset[str] | None] = {}

    @functools.cached_property
    def next_number(self) -> int:
        return int(self.at.meta("next_number") or 0)

    @functools.cached_property
    def history_start(self) -> int:
        """The first change that the history has."""
        return _history_start(self.at)

    def note(self, file_id: str) -> tuple[NoteFile | None, frozenset[str]]:
        """A note file, and the ids of the memories it lists."""
        if file_id not in self._chunks:
            note = self.at.note(file_id)
            self._chunks[file_id] = (note, frozenset(chunk.memory for chunk in note.chunks) if note else frozenset())
        return self._chunks[file_id]

    def named_by(self, seq: int) -> frozenset[str] | None:
        """The memories that a change made or dropped; None where it is not in the history."""
        if seq not in self._named:
            entry = self.at.entry(seq)
            self._named[seq] = None if entry is None else frozenset(entry.ids)
        return self._named[seq]

    def has_memory(self, memory_id: str) -> bool:
        return self.at.row("memories", id_key(memory_id)) is not None


class Invariant(NamedTuple):
    """A rule: `rule` is called for every row of `table`, `walk` once for the whole store."""

    name: str
    table: str
    remedy: Remedy
    about: str  # the rule as a sentence
    rule: Callable[[RowContext, Any], Iterator[str]] | None = None
    walk: Callable[[TableSource, YieldToQueries], Iterator[tuple[str, str]]] | None = None  # subject and what is wrong


# Rows as records


class IndexPointer(NamedTuple):
    """A row of an index: a key and the id of a memory."""

    key: bytes
    memory_id: str


def decode(table: str, row: TableRow) -> Any:
    """The record of a row. Raises ValueError where it has none, or has another record's key."""
    known = BY_NAME.get(table)
    return known.open_verified(*row) if known is not None else _DECODERS[table](*row)


def _number_row(key: bytes, value: bytes) -> IndexPointer:
    return IndexPointer(_sized(value, 4), id_text(_sized(key, 16)))


def _pointer_row(key: bytes, value: bytes) -> IndexPointer:
    return IndexPointer(key, id_text(_sized(value, 16)))


def _vectors_row(_: bytes, value: bytes) -> bytes:
    if not value or (len(value) % 2 and not (is_token_rows(value) or is_codes(value))):
        raise ValueError(f"its {len(value)} bytes are not vectors")
    return value


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes instead of {size}")
    return data


# Tables that are derived from records.
_DECODERS: dict[str, Callable[[bytes, bytes], Any]] = {
    "numbers": _number_row, "owners": _pointer_row, "hashes": _pointer_row, "keys": _pointer_row,
    "embeddings": _vectors_row,
}  # fmt: skip


def subject_of(table: str, row: TableRow) -> str:
    """The subject of a row in reports: `0189… 7` is a version, `0189… related 018a…` an edge. A key that is invalid in
    its table is given in hexadecimal."""
    key, value = row
    try:
        match table:
            case "hashes" | "keys" | "owners":
                return id_text(_sized(value, 16))
            case "numbers":
                return id_text(_sized(key, 16))
            case _:
                return BY_NAME[table].subject_of_key(key) if table in BY_NAME else key.hex()
    except ValueError:
        return key.hex()


# Memories


def _has_a_number(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    key = id_key(stored.memory.id)
    number = context.at.row("numbers", key)
    if number is None:
        yield "it has no number"
        return
    owner = context.at.row("owners", number)
    if owner != key:
        other = "nobody's" if owner is None else f"that of {id_text(owner)}"
        yield f"its number {seq_of(number)} is registered as {other}"
    if seq_of(number) >= context.next_number:
        yield f"its number {seq_of(number)} would be given again"


def _is_found_by_its_text(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    memory = stored.memory
    row = TableRow(hash_key(memory), id_key(memory.id))
    if memory.state in HASHED_STATES and not context.at.has_row("hashes", row):
        yield "it is not found by its text"


def _is_found_by_its_key(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    memory = stored.memory
    if memory.key and context.at.row("keys", name_key(memory)) is None:
        yield f"it is not found by its key {memory.key!r}"


def _has_its_key_alone(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    memory = stored.memory
    found = context.at.row("keys", name_key(memory)) if memory.key else None
    if found is not None and found != id_key(memory.id):
        other = context.at.memory(id_text(found))
        if other is not None and other.key and name_key(other) == name_key(memory):
            yield f"{other.id} has the key {memory.key!r} too"


def _has_versions_in_order(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    for before, after in pairwise(context.at.versions(stored.memory.id)):
        if any(entry is not None and entry.device for entry in map(context.at.entry, (before.seq, after.seq))):
            continue  # devices count their versions by themselves
        older, newer = before.memory.version, after.memory.version
        if before.seq >= after.seq:
            yield f"version {older} is of change {before.seq}, and version {newer}, after it, of {after.seq}"
        if newer <= older or (newer > older + 1 and before.seq >= context.history_start):
            yield f"version {older} is followed by version {newer}"


def _is_named_by_its_changes(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    for made in context.at.versions(stored.memory.id):
        if made.seq < context.history_start:
            continue
        named = context.named_by(made.seq)
        if named is None or made.memory.id not in named:
            which = "is not in the history" if named is None else "does not name it"
            yield f"change {made.seq}, which made its version {made.memory.version}, {which}"


def _agrees_with_the_trash(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    entry = context.at.trash(stored.memory.id)
    if stored.memory.state == "trashed" and entry is None:
        yield "it is in the trash, without an entry that says since when and why"
    if stored.memory.state not in ("trashed", "discarded") and entry is not None:  # for "discarded" it has the reason
        yield f"it is {stored.memory.state}, and has an entry in the trash"


def _is_listed_by_its_note(context: RowContext, stored: StoredMemory) -> Iterator[str]:
    memory = stored.memory
    if not memory.managed or memory.state == "trashed":
        return
    if memory.note is not None and memory.note.folder:
        return  # another device reads it
    note, listed = context.note(memory.managed)
    if note is None:
        yield f"its note {memory.managed} does not exist"
    elif note.missing:
        yield f"its note {note.path} is missing from its folder"
    elif memory.id not in listed:
        yield f"its note {note.path} does not list it"


def _is_within_bounds(_: RowContext, stored: StoredMemory) -> Iterator[str]:
    memory = stored.memory
    if not MEMORY_ID.fullmatch(memory.id):
        yield "its id is not a lower-case UUID of version 7"
    if not 1 <= len(memory.content) <= CONTENT_CHARS_MAX:
        yield f"its content has {len(memory.content)} characters"
    if not 0.0 <= memory.importance <= 1.0:
        yield f"its importance is {memory.importance}"
    if not (memory.decay_rate >= 0.0 and math.isfinite(memory.decay_rate)):
        yield f"its decay rate is {memory.decay_rate}"
    if memory.version < 1:
        yield f"its version is {memory.version}"
    if min(memory.created_at, memory.modified_at, memory.expires_at) < 0:
        yield "one of its times is before 1970"
    if not 1 <= len(memory.namespace) <= NAMESPACE_CHARS_MAX:
        yield f"its namespace has {len(memory.namespace)} characters"
    if len(memory.tags) > TAGS_MAX or len(memory.evidence) > EVIDENCE_MAX:
        yield f"it has {len(memory.tags)} tags and {len(memory.evidence)} pieces of evidence"


def _names_what_exists(source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[tuple[str, str]]:
    """Yields references to missing memories. Only evidence may name memories that were erased since."""
    dangling: list[tuple[str, str, str]] = []
    for context, stored in _records(source, "memories", yield_to_queries):
        memory: Memory = stored.memory
        evidence = [text for text in memory.evidence if MEMORY_ID.fullmatch(text)]
        named = [("superseded_by", other) for other in (memory.superseded_by,) if other]
        named += [("derived_from", other) for other in memory.derived_from]
        named += [("evidence", other) for other in evidence]
        dangling += [(memory.id, field, other) for field, other in named if not _is_there(context, other)]
    purged: set[str] = set()
    if dangling:
        for _, (_, entry) in _records(source, "changes", yield_to_queries):
            purged.update(entry.ids if entry.what in ERASURE_NAMES else ())
    for memory_id, field, other in dangling:
        if field != "evidence" or other not in purged:
            yield memory_id, f"{field} names {other}, which does not exist"


def _is_there(context: RowContext, memory_id: str) -> bool:
    try:
        return context.has_memory(memory_id)
    except ValueError:
        return False


# Rules that follow from the definition of a table


def _is_no_orphan(table: Table[Any], context: RowContext, record: Any) -> Iterator[str]:
    if _is_reported_elsewhere(table, context, record):
        return
    named = [(parent.table, getattr(record, parent.field)) for parent in table.parents]
    gone = [f"no {BY_NAME[name].noun} {one}" for name, one in named if context.at.row(name, id_key(one)) is None]
    if gone:
        yield f"there is {' and '.join(gone)}"


def _stands_under_all_its_keys(table: Table[Any], context: RowContext, record: Any) -> Iterator[str]:
    value = context.at.row(table.name, context.key)
    for form, key in zip(table.keys, table.keys_of(record), strict=True):
        if value is None or not context.at.has_row(table.name, TableRow(key, value)):
            yield f"it is missing under its {form.fields[0]}"


def _is_within_its_bounds(table: Table[Any], context: RowContext, record: Any) -> Iterator[str]:
    if table.problems is not None and not _is_reported_elsewhere(table, context, record):
        yield from table.problems(record)


def _is_reported_elsewhere(table: Table[Any], context: RowContext, record: Any) -> bool:
    """Return whether the row is one of several of its record, and the one under the primary key is there."""
    primary = table.key.of(record)
    return context.key != primary and context.at.row(table.name, primary) is not None


def _rules_of(table: Table[Any]) -> Iterator[Invariant]:
    if table.parents:
        rule = functools.partial(_is_no_orphan, table)
        yield Invariant("orphans", table.name, "amend", f"the owner of every {table.noun} exists", rule)
    if table.other_keys:
        rule = functools.partial(_stands_under_all_its_keys, table)
        yield Invariant(table.name, table.name, "indexes", f"every {table.noun} is under all its keys", rule)
    if table.problems is not None:
        rule = functools.partial(_is_within_its_bounds, table)
        yield Invariant("bounds", table.name, "report", f"every {table.noun} is within its bounds", rule)


# Rows that belong to memories


def _is_older_than_the_record(context: RowContext, version: StoredMemory) -> Iterator[str]:
    current = context.at.stored(version.memory.id)
    if current is not None and version.seq >= current.seq:
        yield f"it is of change {version.seq}, the record itself of {current.seq}"


def _number_is_a_memorys(context: RowContext, pointer: IndexPointer) -> Iterator[str]:
    if not context.has_memory(pointer.memory_id):
        yield f"number {seq_of(pointer.key)} belongs to it, and there is no such memory"


def _owner_has_the_number(context: RowContext, pointer: IndexPointer) -> Iterator[str]:
    if context.at.row("numbers", id_key(pointer.memory_id)) != pointer.key:
        yield f"number {seq_of(pointer.key)} belongs to it, and it has another or none"


def _text_is_its_own(context: RowContext, pointer: IndexPointer) -> Iterator[str]:
    memory = context.at.memory(pointer.memory_id)
    if memory is None or memory.state not in HASHED_STATES or hash_key(memory) != pointer.key:
        yield f"it is found by a text that {'no memory has' if memory is None else 'is not its own'}"


def _key_is_its_own(context: RowContext, pointer: IndexPointer) -> Iterator[str]:
    memory = context.at.memory(pointer.memory_id)
    if memory is None or not memory.key or name_key(memory) != pointer.key:
        yield f"it is found by a key that {'no memory has' if memory is None else 'is not its own'}"


# Notes


def _lists_memories(context: RowContext, note: NoteFile) -> Iterator[str]:
    gone = [chunk.memory for chunk in note.chunks if not context.has_memory(chunk.memory)]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        yield f"{note.path} lists {gone[0]}{more}, which {'do' if more else 'does'} not exist"


def _is_in_a_folder(context: RowContext, note: NoteFile) -> Iterator[str]:
    if not note.missing and context.at.row("roots", id_key(note.root)) is None:
        yield f"{note.path} is in a folder that is not watched"


# The history and the whole


def _has_no_gaps(source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[tuple[str, str]]:
    with source() as at:
        expected, last = _history_start(at), at.seq
    for context, (seq, _) in _records(source, "changes", yield_to_queries, unreadable_too=True):
        if seq < expected:
            continue  # kept from before the start of the history
        if seq > expected:
            yield span(expected, seq - 1), "it is not in the history"
        expected, last = seq + 1, context.at.seq
    if last >= expected:
        yield span(expected, last), "it is not in the history"


def _ends_where_it_says(source: TableSource, _: YieldToQueries) -> Iterator[tuple[str, str]]:
    with source() as at:
        last = next((seq for seq, _ in at.entries_back(1)), 0)
        if last > at.seq:
            yield str(last), f"it is in the history, although the last change is {at.seq}"


def _knows_itself(source: TableSource, _: YieldToQueries) -> Iterator[tuple[str, str]]:
    with source() as at:
        facts = {fact.name: fact.value for fact in (decode("meta", row) for row in at.rows("meta"))}
    if facts.get("format") != str(FORMAT):
        yield "format", f"the database names format {facts.get('format')} instead of {FORMAT}"
    for name, shape in (("seq", _DIGITS), ("next_number", _DIGITS), ("history_from", _SEQ_AND_TIME)):
        if name in facts and not shape.fullmatch(facts[name]):
            yield name, f"it is {facts[name]!r}, which is not a number"
    if not MEMORY_ID.fullmatch(facts.get("store", "")):
        yield "store", "the database does not name its store"
    if not _SALT.fullmatch(facts.get("salt", "")):
        yield "salt", "the key of salted hashes is lost"


def span(first: int, last: int) -> str:
    """A range of changes as reports name it."""
    return str(first) if first == last else f"{first}-{last}"


def _history_start(at: TableSnapshot) -> int:
    """The first change that the history has."""
    text = at.meta("history_from").partition(" ")[0]
    return int(text) if _DIGITS.fullmatch(text) else 1


def _is_a_vector(_: RowContext, value: bytes) -> Iterator[str]:
    if len(value) % 2 == 0 and not np.isfinite(np.frombuffer(value, np.float16)).all():
        yield "it contains NaN or infinity"


INVARIANTS: tuple[Invariant, ...] = (
    *(rule for table in TABLES for rule in _rules_of(table)),
    Invariant("numbers", "memories", "indexes", "every memory has a number of its own", _has_a_number),
    Invariant("numbers", "numbers", "indexes", "every number belongs to a memory", _number_is_a_memorys),
    Invariant("numbers", "owners", "indexes", "the memory that a number names has that number", _owner_has_the_number),
    Invariant("texts", "memories", "indexes", "every memory is found by its text", _is_found_by_its_text),
    Invariant("texts", "hashes", "indexes", "no memory is found by another's text", _text_is_its_own),
    Invariant("keys", "memories", "indexes", "every memory is found by its key", _is_found_by_its_key),
    Invariant("keys", "keys", "indexes", "no memory is found by another's key", _key_is_its_own),
    Invariant("same key", "memories", "report", "no two memories have the same key", _has_its_key_alone),
    Invariant("versions", "memories", "report", "versions follow each other", _has_versions_in_order),
    Invariant("versions", "versions", "report", "versions are older than the record", _is_older_than_the_record),
    Invariant("changes", "memories", "report", "each version is named by its change", _is_named_by_its_changes),
    Invariant("gaps", "changes", "history", "no change is missing", walk=_has_no_gaps),
    Invariant("end", "changes", "database", "the history ends with the last change", walk=_ends_where_it_says),
    Invariant(
        "trash",
        "memories",
        "amend",
        "trashed memories have a trash entry, and apart from discarded ones no others do",
        _agrees_with_the_trash,
    ),
    Invariant("bounds", "memories", "report", "memories are within their bounds", _is_within_bounds),
    Invariant(
        "references", "memories", "report", "every memory that another one names exists", walk=_names_what_exists
    ),
    Invariant("chunks", "memories", "amend", "every chunk is listed by its note", _is_listed_by_its_note),
    Invariant("chunks", "notes", "amend", "every chunk that a note lists exists", _lists_memories),
    Invariant("folders", "notes", "report", "every note is in a watched folder", _is_in_a_folder),
    Invariant("vectors kept", "embeddings", "embeddings", "every vector is finite", _is_a_vector),
    Invariant("identity", "meta", "report", "the database names its store", walk=_knows_itself),
)

READABLE = "readable"
# Remedies for unreadable rows of tables that are not in the journal.
_READABLE_REMEDY: dict[str, Remedy] = {
    "numbers": "indexes", "owners": "indexes", "hashes": "indexes", "keys": "indexes", "embeddings": "embeddings",
}  # fmt: skip


def check(
    source: TableSource, counts: Counter[str], yield_to_queries: YieldToQueries = lambda: None
) -> Iterator[InvariantViolation]:
    """Yields every violation of the rules of the database; adds the rows checked to `counts`, by table."""
    for table in TABLE_NAMES:
        rules = [each for each in INVARIANTS if each.table == table and each.rule is not None]
        for context, row in rows_of(source, table, yield_to_queries):
            counts[table] += 1
            yield from _faults(context, table, row, rules)
    for each in INVARIANTS:
        if each.walk is not None:
            yield from _walk_faults(each, source, yield_to_queries)


def _faults(context: RowContext, table: str, row: TableRow, rules: list[Invariant]) -> Iterator[InvariantViolation]:
    try:
        record = decode(table, row)
    except ValueError as error:
        remedy = _READABLE_REMEDY.get(table, "reread")
        yield InvariantViolation(READABLE, table, subject_of(table, row), f"it cannot be read: {error}", remedy)
        return
    context.key = row.key
    for each in rules:
        assert each.rule is not None
        try:
            for what in each.rule(context, record):
                yield InvariantViolation(each.name, table, subject_of(table, row), what, each.remedy)
        except ValueError:
            continue  # it depends on an unreadable row, which is reported itself


def _walk_faults(
    each: Invariant, source: TableSource, yield_to_queries: YieldToQueries
) -> Iterator[InvariantViolation]:
    assert each.walk is not None
    try:
        for subject, what in each.walk(source, yield_to_queries):
            yield InvariantViolation(each.name, each.table, subject, what, each.remedy)
    except ValueError:
        return  # as above


def rows_of(
    source: TableSource, table: str, yield_to_queries: YieldToQueries, slice_rows: int = CHECK_SLICE
) -> Iterator[tuple[RowContext, TableRow]]:
    """Every row of a table with the snapshot it was read in, which lives until the end of the slice."""
    after: TableRow | None = None
    while True:
        with source() as at:
            context, rows = RowContext(at), at.rows(table, after, slice_rows)
            for row in rows:
                yield context, row
        if len(rows) < slice_rows:
            return
        after = rows[-1]
        yield_to_queries()


def _records(
    source: TableSource, table: str, yield_to_queries: YieldToQueries, *, unreadable_too: bool = False
) -> Iterator[tuple[RowContext, Any]]:
    """Every readable record of a table; of `changes` with `unreadable_too` also an empty entry for each unreadable
    one."""
    for context, row in rows_of(source, table, yield_to_queries):
        try:
            yield context, decode(table, row)
        except ValueError:
            if unreadable_too:
                yield context, (seq_of(row.key), ChangeEntry(at=0, by=""))
