"""Repair: steps planned from the violations that `check` found, and the functions that do them. docs/format.md "Check".

Nothing is deleted: a row that a step removes is written to quarantine first (`QuarantinedRow`). The order of the steps
matters: what the journal still holds is restored before anything is treated as an orphan.
"""

import base64
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mnemo_store.backend import HASHED_STATES, Snapshot, hash_key, name_key
from mnemo_store.codec import seq_key, seq_of
from mnemo_store.database.table_access import TableRow, TableSnapshot, TableWriter
from mnemo_store.maintenance.check import InvariantViolation, Remedy, decode
from mnemo_store.maintenance.journal_diff import journal_record
from mnemo_store.records import (
    Change,
    ChangeEntry,
    DropMemory,
    DropTrash,
    Memory,
    PutMemory,
    PutNote,
    PutTrash,
    TrashEntry,
)
from mnemo_store.tables import BY_NAME, OF_A_MEMORY, TABLES, Table, drop_of

QUARANTINE = "quarantine"  # the folder of a store that holds what repairs took out
LOST = "lost"  # the operation of a change of which nothing is left
LOST_MAX = 100_000  # changes marked as lost; more than that is not a gap but a wrong number

# The remedies in the order in which they are applied. A remedy that is not listed here needs a person.
REPAIR_STEPS: dict[Remedy, str] = {
    "database": "quarantine the database and restore it from the journal",
    "reread": "restore the records that are missing from the database, or differ, from the journal",
    "indexes": "rebuild the indexes of the database from its records",
    "amend": "quarantine rows that belong to nothing, and correct the records that refer to them",
    "embeddings": "quarantine rows that hold no valid vector; it is computed again",
    "history": "mark the changes of which nothing is left as lost",
    "journal": "quarantine the damaged stretches of the journal and rewrite it from the database",
    "views": "rebuild the lexical index and the attribute store",
    "vectors": "bring the vector index in line with the stored vectors",
}


@dataclass(frozen=True)
class PlannedRepair:
    """A step of a repair: one remedy for all violations that need it."""

    remedy: Remedy
    what: str
    why: str
    violations: tuple[InvariantViolation, ...]

    @property
    def how_many(self) -> int:
        return len(self.violations)


@dataclass(frozen=True)
class QuarantinedRow:
    """A row that is removed from the store."""

    table: str
    subject: str
    why: str
    record: Any = None  # None where it cannot be read
    row: TableRow | None = None

    def line(self, at: int) -> bytes:
        """The line in quarantine: JSON, with the row's value in base64."""
        fields: dict[str, Any] = {"at": at, "table": self.table, "subject": self.subject, "why": self.why}
        if self.record is not None:
            fields["record"] = self.record
        if self.row is not None:
            fields |= {"key": self.row.key.hex(), "value": base64.b64encode(self.row.value).decode()}
        return msgspec.json.encode(fields) + b"\n"


def plan(violations: Iterable[InvariantViolation]) -> list[PlannedRepair]:
    """Plans the steps of a repair, in order. A record that the journal may restore is neither an orphan nor lost; the
    check after that step decides. After a step that corrects the history the journal is rewritten too."""
    found: defaultdict[Remedy, list[InvariantViolation]] = defaultdict(list)
    for violation in violations:
        found[violation.remedy].append(violation)
    back = {word for each in found["reread"] for word in each.subject.split()}
    found["amend"] = [
        each
        for each in found["amend"]
        if back.isdisjoint([*each.subject.split(), *each.what.replace(",", " ").split()])
    ]
    found["history"] = [each for each in found["history"] if not back.intersection(map(str, _changes_of(each)))]
    if found["history"] and not found["journal"]:
        found["journal"] = found["history"][:1]
    return [
        PlannedRepair(remedy, what, _why(found[remedy]), tuple(found[remedy]))
        for remedy, what in REPAIR_STEPS.items()
        if found[remedy]
    ]


def _changes_of(violation: InvariantViolation) -> range:
    """The changes of a gap; none where the gap is so large that a number must be wrong."""
    first, _, last = violation.subject.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return numbers if len(numbers) <= LOST_MAX else range(0)


def _why(violations: Sequence[InvariantViolation]) -> str:
    first = violations[0]
    more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
    return f"{first.table} {first.subject}: {first.what}{more}"


# Restoring from the journal


def rows_without_journal(
    here: TableSnapshot, there: Snapshot, violations: Sequence[InvariantViolation]
) -> list[QuarantinedRow]:
    """The rows that `reread` will remove, since the journal has no record for them."""
    kept = []
    for table, subject, why in _subjects(violations):
        if _journal_record(there, table, subject) is None:
            kept += [_quarantined(table, subject, why, row) for row in _rows_of(here, table, subject)]
    return kept


def reread(writing: TableWriter, there: Snapshot, violations: Sequence[InvariantViolation]) -> None:
    """Replaces each record by that of the journal. `repair_indexes` then corrects the rows derived from records."""
    for table, subject, _ in _subjects(violations):
        theirs = _journal_record(there, table, subject)
        if theirs is None:
            for row in _rows_of(writing, table, subject):
                writing.delete_row(table, row)
        else:
            writing.put(BY_NAME[table], theirs)


def _journal_record(there: Snapshot, table: str, subject: str) -> Any:
    """The record in the journal; None for a row whose key is invalid in its table."""
    try:
        return journal_record(there, BY_NAME[table], subject)
    except ValueError:
        return None


def _subjects(violations: Sequence[InvariantViolation]) -> list[tuple[str, str, str]]:
    """Table, subject and message of the violations to reread, each subject once."""
    found = {(each.table, each.subject): each.what for each in violations if each.remedy == "reread"}
    return [(table, subject, why) for (table, subject), why in found.items()]


def _rows_of(here: TableSnapshot, table: str, subject: str) -> list[TableRow]:
    """The rows of a subject, or the row whose key is invalid in its table, which a report names in hexadecimal."""
    keys: list[bytes] = []
    with contextlib.suppress(ValueError):
        keys += BY_NAME[table].keys_of_subject(subject)
    with contextlib.suppress(ValueError):
        keys.append(bytes.fromhex(subject))
    rows = [(key, here.row(table, key)) for key in keys]
    return [TableRow(key, value) for key, value in rows if value is not None]


def _quarantined(table: str, subject: str, why: str, row: TableRow) -> QuarantinedRow:
    try:
        record = decode(table, row)
    except ValueError:
        record = None
    return QuarantinedRow(table, subject, why, record, row)


# Orphans


Amendment = tuple[list[QuarantinedRow], list[Change]]  # rows to quarantine, and the changes that remove them


def amend(at: Snapshot, violation: InvariantViolation) -> Amendment:
    """The rows to remove for a violation and the changes that do so; neither where the violation is gone."""
    match violation.table:
        case "memories" if violation.invariant == "trash":
            return _amend_trash(at, violation)
        case "memories":
            return _detach_chunk(at, violation)
        case "notes":
            return _unlist_chunks(at, violation)
        case name:
            table = BY_NAME[name]
            return _drop_orphans(at, violation) if table.drop is None else _drop_orphan(at, table, violation)


def _drop_orphans(at: Snapshot, violation: InvariantViolation) -> Amendment:
    """Removes all rows of a memory that does not exist."""
    memory_id = violation.subject.split()[0]
    if at.memory(memory_id) is not None:
        return [], []
    left = [(table.name, record) for table in OF_A_MEMORY for record in at.under(table, memory_id)]
    kept = [QuarantinedRow(table, memory_id, violation.what, record) for table, record in left]
    return kept, [DropMemory(id=memory_id)] if kept else []


def _amend_trash(at: Snapshot, violation: InvariantViolation) -> Amendment:
    """Gives a trashed memory without an entry one, and removes the entry of a memory that is not trashed or
    discarded."""
    memory, entry = at.memory(violation.subject), at.trash(violation.subject)
    if memory is None:
        return [], []
    if memory.state == "trashed" and entry is None:
        made = TrashEntry(id=memory.id, at=memory.modified_at, why="unknown: the entry was lost", state="active")
        return [], [PutTrash(data=made)]
    if memory.state not in ("trashed", "discarded") and entry is not None:
        return [QuarantinedRow("trash", memory.id, violation.what, entry)], [DropTrash(id=memory.id)]
    return [], []


def _detach_chunk(at: Snapshot, violation: InvariantViolation) -> Amendment:
    """Makes a chunk that no note lists a memory of its own, so that its text is not lost."""
    memory = at.memory(violation.subject)
    if memory is None or not memory.managed:
        return [], []
    note = at.note(memory.managed)
    if note is not None and not note.missing and any(chunk.memory == memory.id for chunk in note.chunks):
        return [], []
    free = msgspec.structs.replace(memory, managed="", version=memory.version + 1, modified_at=at.now)
    return [], [PutMemory(data=free)]


def _drop_orphan(at: Snapshot, table: Table[Any], violation: InvariantViolation) -> Amendment:
    """A record of which something that it belongs to is not there."""
    record = at.get(table, *table.values_of_subject(violation.subject))
    parents = [at.get(BY_NAME[parent.table], getattr(record, parent.field)) for parent in table.parents if record]
    if record is None or None not in parents:
        return [], []
    return [QuarantinedRow(table.name, violation.subject, violation.what, record)], [drop_of(table, record)]


def _unlist_chunks(at: Snapshot, violation: InvariantViolation) -> Amendment:
    """Removes missing chunks from a note's list, and marks the note as unread for the next scan."""
    note = at.note(violation.subject)
    if note is None:
        return [], []
    chunks = tuple(chunk for chunk in note.chunks if at.memory(chunk.memory) is not None)
    if len(chunks) == len(note.chunks):
        return [], []
    shorter = msgspec.structs.replace(note, chunks=chunks, hash="", mtime_ns=0, size=0)
    return [QuarantinedRow("notes", note.id, violation.what, note)], [PutNote(data=shorter)]


# Indexes


def repair_indexes(writing: TableWriter) -> int:
    """Rebuilds numbers, owners, hashes, keys and the other keys of records; returns the number of rows changed. Numbers
    stay as they are where any row still has them. All in one transaction: about 3 s for 100,000 memories."""
    memories: dict[bytes, Memory] = {}
    for row in writing.all_rows("memories"):
        with contextlib.suppress(ValueError):
            memories[row.key] = decode("memories", row).memory
    changed = _repair_numbers(writing, [row.key for row in writing.all_rows("memories")])
    hashes = {TableRow(hash_key(memory), key) for key, memory in memories.items() if memory.state in HASHED_STATES}
    changed += _replace_rows(writing, "hashes", hashes)
    # The rows of `keys`. Where two memories have one key, which no entry point allows, the one that is found now is
    # kept, else the newer.
    found: dict[bytes, bytes] = {}
    for key, memory in sorted(memories.items()):
        if memory.key:
            name = name_key(memory)
            if name not in found or writing.row("keys", name) != found[name]:
                found[name] = key
    changed += _replace_rows(writing, "keys", {TableRow(name, key) for name, key in found.items()})
    return changed + sum(_repair_keys(writing, table) for table in TABLES if table.other_keys)


def _replace_rows(writing: TableWriter, table: str, wanted: set[TableRow]) -> int:
    there = set(writing.all_rows(table))
    for row in there - wanted:
        writing.delete_row(table, row)
    for row in wanted - there:
        writing.put_row(table, row)
    return len(there ^ wanted)


def _repair_numbers(writing: TableWriter, ids: Sequence[bytes]) -> int:
    owners = {row.key: row.value for row in writing.all_rows("owners")}
    numbers = {row.key: row.value for row in writing.all_rows("numbers")}
    named = {key: number for number, key in owners.items()}
    known = set(ids)
    given = {key: number for key, number in numbers.items() if key in known and owners.get(number) == key}
    taken = set(given.values())
    following = int(writing.meta("next_number") or 0)
    following = max([following, *(seq_of(number) + 1 for number in (*owners, *numbers.values()) if len(number) == 4)])
    for key in ids:
        if key in given:
            continue
        known_numbers = (number for number in (numbers.get(key), named.get(key)) if number and len(number) == 4)
        number = next((each for each in known_numbers if each not in taken), None)
        if number is None:
            number, following = following.to_bytes(4, "big"), following + 1
        given[key] = number
        taken.add(number)
    changed = _replace_rows(writing, "numbers", {TableRow(key, number) for key, number in given.items()})
    changed += _replace_rows(writing, "owners", {TableRow(number, key) for key, number in given.items()})
    if following != int(writing.meta("next_number") or 0):
        writing.set_meta("next_number", str(following))
        changed += 1
    return changed


def _repair_keys(writing: TableWriter, table: Table[Any]) -> int:
    """Puts each record under all its keys, the newer one where they differ."""
    records: dict[bytes, Any] = {}
    for row in writing.all_rows(table.name):
        try:
            record = table.open_verified(*row)
        except ValueError:
            continue
        key = table.key.of(record)
        if key not in records or _time_of(records[key]) < _time_of(record):
            records[key] = record
    changed = 0
    for record in records.values():
        for row in (TableRow(key, table.encode(record)) for key in table.keys_of(record)):
            if not writing.has_row(table.name, row):
                writing.put_row(table.name, row)
                changed += 1
    return changed


def _time_of(record: Any) -> int:
    return int(getattr(record, "at", 0))


# Vectors and history


def unusable_vectors(at: TableSnapshot, violations: Sequence[InvariantViolation]) -> list[QuarantinedRow]:
    """The rows that hold no valid vector."""
    keys = [bytes.fromhex(each.subject) for each in violations]
    rows = [TableRow(key, value) for key in keys if (value := at.row("embeddings", key)) is not None]
    return [QuarantinedRow("embeddings", row.key.hex(), "it holds no valid vector", None, row) for row in rows]


def mark_lost(writing: TableWriter, violations: Sequence[InvariantViolation]) -> int:
    """Gives each change of which nothing is left an entry that says so; returns their number."""
    marked = 0
    for violation in violations:
        at = 0
        for seq in _changes_of(violation):
            before, there = writing.entry(seq - 1), writing.row("changes", seq_key(seq))
            at = before.at if before is not None else at
            if there is None:
                writing.put_entry(seq, ChangeEntry(at=at, by="repair", what=LOST))
                marked += 1
    return marked
