"""Each rule of the store is broken once and reported; a repair corrects what it can. store/docs/format.md "Check"."""

import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from mnemo_store.backend import hash_key, name_key
from mnemo_store.codec import digest_key, encode, id_key, seq_key
from mnemo_store.database.environment import Database
from mnemo_store.database.table_access import TableRow, TableWriter
from mnemo_store.disk import Disk
from mnemo_store.journal.line_codec import decode_line
from mnemo_store.maintenance.check import INVARIANTS, READABLE, InvariantViolation, check
from mnemo_store.maintenance.journal_diff import JournalOwner, check_journal
from mnemo_store.maintenance.repair import REPAIR_STEPS
from mnemo_store.records import (
    FORMAT,
    ChangeEntry,
    ChunkRef,
    Edge,
    ErasedText,
    Memory,
    NoteFile,
    NoteRoot,
    PutMeta,
    Skip,
    TrashEntry,
    Usage,
)
from mnemo_store.store import Store, TextVectors
from mnemo_store.tables import TABLE_NAMES
from tests.support.samples import AT, WAIT_SECONDS, opened, quick_folder, sample_id, sample_memory, write
from tests.support.table_records import GENERIC

ROOT, FILE = sample_id(900), sample_id(901)
EDGE = Edge(source=sample_id(5), target=sample_id(6), relation="related", at=AT)
TIE = f"{EDGE.source} related {EDGE.target}"
SKIP = "0" * 32
FORGOTTEN = "f" * 32
NOTE = NoteFile(
    id=FILE, root=ROOT, path="tea.md", hash="h", size=40,
    chunks=tuple(ChunkRef(sample_id(20 + place), f"hash{place}", place + 1, place + 1) for place in range(2)),
)  # fmt: skip

ONE = sample_memory(1, "the third text", version=3, key="one")
TRASHED = sample_memory(2, "in the trash", version=2, state="trashed")
OLDER = sample_memory(3, "an older word", version=2, state="superseded", superseded_by=sample_id(4))
NEWER = sample_memory(4, "a newer word", derived_from=(ONE.id,), evidence=("https://example.org", ONE.id))
CHUNKS = [sample_memory(20 + place, f"chunk {place}", managed=FILE, trust="note") for place in range(2)]
HASH_OF_ONE, NAME_OF_ONE = hash_key(ONE), name_key(ONE)
VECTORS_KEY = digest_key("space", b"a text")


def fill(store: Store) -> None:
    """A store with one record of every kind. Thirteen changes."""
    for version in (1, 2):
        write(store, sample_memory(1, f"text {version}", version=version, key="one"), what="add")
    write(store, ONE, Usage(id=ONE.id, access_count=3), what="edit")
    write(store, sample_memory(2, "in the trash"))
    entry = TrashEntry(id=TRASHED.id, at=AT, why="deleted", state="active")
    write(store, TRASHED, entry, what="rm")
    write(store, sample_memory(3, "an older word"))
    write(store, NEWER, OLDER)
    write(store, sample_memory(5), sample_memory(6))
    write(store, EDGE)
    write(store, NoteRoot(id=ROOT, path="/nowhere/notes", added_at=AT))
    write(store, NOTE, *CHUNKS, what="notes")
    write(store, Skip(file=FILE, hash=SKIP), ErasedText(hash=FORGOTTEN, at=AT))
    write(store, PutMeta(name="epoch", value="7"))
    rows = np.ones((1, 4), np.float16)
    tokens = np.full((2, 4), -1, np.int8)  # as float16 it would be no number
    store.put_vectors([TextVectors("space", b"a text", rows), TextVectors("late", b"a text", tokens)]).result(
        WAIT_SECONDS
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder of a closed, intact store."""
    with quick_folder() as scratch:
        with opened(scratch) as store:
            fill(store)
        yield scratch


def damage(folder: Path, act: Callable[[TableWriter], None]) -> None:
    """Changes rows in the database of a closed store."""
    database = Database.open(folder / "db", Disk(), 1 << 26)
    database.write(AT, act)
    database.close()


def found(folder: Path) -> list[InvariantViolation]:
    """The violations in a closed store."""
    database = Database.open(folder / "db", Disk(), 1 << 26)
    try:
        return list(check(lambda: database.table_snapshot(AT), Counter()))
    finally:
        database.close()


def differing(folder: Path) -> list[InvariantViolation]:
    """The differences between journal and database of a closed store."""
    database = Database.open(folder / "db", Disk(), 1 << 26)
    try:
        with database.snapshot(AT) as snapshot:
            owner = JournalOwner(folder / "journal", snapshot.meta("store"), snapshot.meta("salt"))
        return list(check_journal(lambda: database.table_snapshot(AT), owner))
    finally:
        database.close()


# Ways to damage a store


def put(table: str, key: bytes, value: bytes) -> Callable[[TableWriter], None]:
    return lambda rows: rows.put_row(table, TableRow(key, value))


def drop(table: str, key: bytes, value: bytes = b"") -> Callable[[TableWriter], None]:
    return lambda rows: rows.delete_row(table, TableRow(key, value))


def put_memory(memory: Memory, seq: int | None = None) -> Callable[[TableWriter], None]:
    """Replaces the record and nothing else."""

    def act(rows: TableWriter) -> None:
        before = rows.row("memories", id_key(memory.id))
        head = before[:8] if before and seq is None else seq_key(seq or 1)
        rows.put_row("memories", TableRow(id_key(memory.id), head + encode(memory)))

    return act


def changed(memory: Memory, **fields: Any) -> Callable[[TableWriter], None]:
    return put_memory(msgspec.structs.replace(memory, **fields))


def number_of(rows: TableWriter, memory_id: str) -> bytes:
    number = rows.row("numbers", id_key(memory_id))
    assert number is not None
    return number


def both(*acts: Callable[[TableWriter], None]) -> Callable[[TableWriter], None]:
    def act(rows: TableWriter) -> None:
        for each in acts:
            each(rows)

    return act


def swap_owner(rows: TableWriter) -> None:
    """Gives the number of memory 5 to memory 6."""
    rows.put_row("owners", TableRow(number_of(rows, sample_id(5)), id_key(sample_id(6))))


class RuleCase(NamedTuple):
    """A way to damage the store, and every violation that follows: invariant, table, subject."""

    act: Callable[[TableWriter], None]
    expected: set[tuple[str, str, str]]


GARBAGE = b"\xc1 nothing that MessagePack could say"
NOBODY = sample_id(77)
LOOSE = Edge(source=ONE.id, target=NOBODY, relation="repeats", at=AT)
FIVE = sample_memory(5)

CASES: dict[str, RuleCase] = {
    "a memory that has no number": RuleCase(
        drop("numbers", id_key(ONE.id)), {("numbers", "memories", ONE.id), ("numbers", "owners", ONE.id)}
    ),
    "a number that is said to be another's": RuleCase(
        swap_owner, {("numbers", "memories", sample_id(5)), ("numbers", "owners", sample_id(6))}
    ),
    "a number that would be given again": RuleCase(
        lambda rows: rows.set_meta("next_number", "7"), {("numbers", "memories", sample_id(21))}
    ),
    "a number of nobody": RuleCase(
        both(put("numbers", id_key(NOBODY), b"\0\0\1\0"), put("owners", b"\0\0\1\0", id_key(NOBODY))),
        {("numbers", "numbers", NOBODY)},
    ),
    "a memory that is not found by its text": RuleCase(
        drop("hashes", HASH_OF_ONE, id_key(ONE.id)), {("texts", "memories", ONE.id)}
    ),
    "a memory that is found by another's text": RuleCase(
        put("hashes", HASH_OF_ONE, id_key(sample_id(5))), {("texts", "hashes", sample_id(5))}
    ),
    "a memory in the trash that is found by its text": RuleCase(
        put("hashes", hash_key(TRASHED), id_key(TRASHED.id)), {("texts", "hashes", TRASHED.id)}
    ),
    "a memory that is not found by its key": RuleCase(drop("keys", NAME_OF_ONE), {("keys", "memories", ONE.id)}),
    "a memory that is found by a key it does not have": RuleCase(
        put("keys", digest_key("default", "local", "two"), id_key(ONE.id)), {("keys", "keys", ONE.id)}
    ),
    "two memories with one key": RuleCase(changed(FIVE, key="one"), {("same key", "memories", FIVE.id)}),
    "a version that is missing": RuleCase(
        drop("versions", id_key(ONE.id) + seq_key(2)), {("versions", "memories", ONE.id)}
    ),
    "a version that is younger than the record": RuleCase(
        put("versions", id_key(ONE.id) + seq_key(9), encode(msgspec.structs.replace(ONE, version=2))),
        {
            ("versions", "memories", ONE.id),
            ("versions", "versions", f"{ONE.id} 9"),
            ("changes", "memories", ONE.id),
        },
    ),
    "a version of nobody": RuleCase(
        put("versions", id_key(NOBODY) + seq_key(2), encode(sample_memory(77))),
        {("orphans", "versions", f"{NOBODY} 2")},
    ),
    "a change that does not name what it made": RuleCase(
        put("changes", seq_key(4), encode(ChangeEntry(at=AT, by="test"))), {("changes", "memories", TRASHED.id)}
    ),
    "changes that are missing": RuleCase(
        both(drop("changes", seq_key(9)), drop("changes", seq_key(10))), {("gaps", "changes", "9-10")}
    ),
    "the last change that is missing": RuleCase(drop("changes", seq_key(13)), {("gaps", "changes", "13")}),
    "a change behind the last one": RuleCase(
        put("changes", seq_key(14), encode(ChangeEntry(at=AT, by="test"))), {("end", "changes", "14")}
    ),
    "a trash entry that is missing": RuleCase(drop("trash", id_key(TRASHED.id)), {("trash", "memories", TRASHED.id)}),
    "a trash entry of what is not in the trash": RuleCase(
        put("trash", id_key(ONE.id), encode(TrashEntry(id=ONE.id, at=AT, why="", state="active"))),
        {("trash", "memories", ONE.id)},
    ),
    "a trash entry of nobody": RuleCase(
        put("trash", id_key(NOBODY), encode(TrashEntry(id=NOBODY, at=AT, why="", state="active"))),
        {("orphans", "trash", NOBODY)},
    ),
    "a use of nobody": RuleCase(put("usage", id_key(NOBODY), encode(Usage(id=NOBODY))), {("orphans", "usage", NOBODY)}),
    "a strength over one": RuleCase(
        put("usage", id_key(ONE.id), encode(Usage(id=ONE.id, strength=1.5))), {("bounds", "usage", ONE.id)}
    ),
    "a count below zero": RuleCase(
        put("usage", id_key(ONE.id), encode(Usage(id=ONE.id, access_count=-1))), {("bounds", "usage", ONE.id)}
    ),
    "an importance that is no number": RuleCase(
        changed(FIVE, importance=float("nan")), {("bounds", "memories", FIVE.id)}
    ),
    "a memory superseded by nothing": RuleCase(
        changed(OLDER, superseded_by=NOBODY), {("references", "memories", OLDER.id)}
    ),
    "a memory derived from nothing": RuleCase(
        changed(NEWER, derived_from=(NOBODY,)), {("references", "memories", NEWER.id)}
    ),
    "an edge that stands under its source alone": RuleCase(
        drop("edges", id_key(EDGE.target) + b"<related<" + id_key(EDGE.source)), {("edges", "edges", TIE)}
    ),
    "an edge that stands under its target alone": RuleCase(
        drop("edges", id_key(EDGE.source) + b">related>" + id_key(EDGE.target)), {("edges", "edges", TIE)}
    ),
    "an edge to nobody": RuleCase(
        both(
            put("edges", id_key(ONE.id) + b">repeats>" + id_key(NOBODY), encode(LOOSE)),
            put("edges", id_key(NOBODY) + b"<repeats<" + id_key(ONE.id), encode(LOOSE)),
        ),
        {("orphans", "edges", f"{ONE.id} repeats {NOBODY}")},
    ),
    "a chunk of a note that is not known": RuleCase(
        changed(CHUNKS[0], managed=NOBODY), {("chunks", "memories", CHUNKS[0].id)}
    ),
    "a chunk that its note does not list": RuleCase(
        put("notes", id_key(FILE), encode(msgspec.structs.replace(NOTE, chunks=NOTE.chunks[:1]))),
        {("chunks", "memories", CHUNKS[1].id)},
    ),
    "chunks of a note that is gone": RuleCase(
        put("notes", id_key(FILE), encode(msgspec.structs.replace(NOTE, missing=True))),
        {("chunks", "memories", CHUNKS[0].id), ("chunks", "memories", CHUNKS[1].id)},
    ),
    "a note that lists what is not there": RuleCase(
        put("notes", id_key(FILE), encode(msgspec.structs.replace(NOTE, chunks=(ChunkRef(NOBODY, "", 1, 1),
                                                                                *NOTE.chunks)))),
        {("chunks", "notes", FILE)},
    ),
    "a note in no folder": RuleCase(drop("roots", id_key(ROOT)), {("folders", "notes", FILE)}),
    "a text left out of no note": RuleCase(
        put("skips", id_key(NOBODY) + b"00", b"\1"), {("orphans", "skips", f"{NOBODY} 00")}
    ),
    "a forgotten text under another hash": RuleCase(
        put("forgotten", b"e" * 32, encode(ErasedText(hash="d" * 32, at=AT))), {(READABLE, "forgotten", "e" * 32)}
    ),
    "a vector that holds no number": RuleCase(
        put("embeddings", VECTORS_KEY, np.array([1, np.nan], np.float16).tobytes()),
        {("vectors kept", "embeddings", VECTORS_KEY.hex())},
    ),
    "a database that does not say whose it is": RuleCase(drop("meta", b"store"), {("identity", "meta", "store")}),
    "a database of another format": RuleCase(
        lambda rows: rows.set_meta("format", "0"), {("identity", "meta", "format")}
    ),
    "a salt that is none": RuleCase(lambda rows: rows.set_meta("salt", "00"), {("identity", "meta", "salt")}),
}  # fmt: skip

# What stands in a row is nothing that can be read.
UNREADABLE: dict[str, RuleCase] = {
    "memories": RuleCase(put("memories", id_key(FIVE.id), GARBAGE), {(READABLE, "memories", FIVE.id)}),
    "versions": RuleCase(
        put("versions", id_key(ONE.id) + seq_key(1), GARBAGE), {(READABLE, "versions", f"{ONE.id} 1")}
    ),
    "changes": RuleCase(put("changes", seq_key(9), GARBAGE), {(READABLE, "changes", "9")}),
    "usage": RuleCase(put("usage", id_key(ONE.id), encode(Usage(id=FIVE.id))), {(READABLE, "usage", ONE.id)}),
    "numbers": RuleCase(put("numbers", id_key(ONE.id), b"\0"), {
        (READABLE, "numbers", ONE.id), ("numbers", "memories", ONE.id), ("numbers", "owners", ONE.id),
    }),
    "owners": RuleCase(put("owners", b"\0\0\0\0", b"1"), {
        (READABLE, "owners", "00000000"), ("numbers", "memories", ONE.id),
    }),
    "hashes": RuleCase(put("hashes", b"h", b"1" * 16), {("texts", "hashes", "31313131-3131-3131-3131-313131313131")}),
    "keys": RuleCase(put("keys", NAME_OF_ONE, b"1"), {(READABLE, "keys", NAME_OF_ONE.hex())}),
    "trash": RuleCase(put("trash", id_key(TRASHED.id), GARBAGE), {(READABLE, "trash", TRASHED.id)}),
    "edges": RuleCase(
        put("edges", id_key(EDGE.source) + b">related>" + id_key(EDGE.target), GARBAGE),
        {(READABLE, "edges", TIE), ("edges", "edges", TIE)},
    ),
    "notes": RuleCase(put("notes", id_key(FILE), GARBAGE), {(READABLE, "notes", FILE)}),
    "roots": RuleCase(put("roots", id_key(ROOT), GARBAGE), {(READABLE, "roots", ROOT)}),
    "skips": RuleCase(
        put("skips", id_key(FILE) + b"\xff", b"\1"), {(READABLE, "skips", (id_key(FILE) + b"\xff").hex())}
    ),
    "forgotten": RuleCase(put("forgotten", FORGOTTEN.encode(), GARBAGE), {(READABLE, "forgotten", FORGOTTEN)}),
    "embeddings": RuleCase(put("embeddings", VECTORS_KEY, b"odd"), {(READABLE, "embeddings", VECTORS_KEY.hex())}),
    "meta": RuleCase(put("meta", b"epoch", b"\xff"), {(READABLE, "meta", "epoch")}),
}  # fmt: skip


def test_an_intact_store_has_no_violations(folder: Path) -> None:
    assert found(folder) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_each_rule_that_is_broken_is_seen_and_no_other(folder: Path, case: RuleCase) -> None:
    damage(folder, case.act)
    assert {(each.invariant, each.table, each.subject) for each in found(folder)} == case.expected


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_row_is_reported_and_hides_no_other(folder: Path, case: RuleCase) -> None:
    damage(folder, case.act)
    assert {(each.invariant, each.table, each.subject) for each in found(folder)} == case.expected


BEYOND: dict[str, dict[str, Any]] = {
    "no content": {"content": ""},
    "content over the limit": {"content": "x" * 8193},
    "an importance below zero": {"importance": -0.01},
    "an importance over one": {"importance": 1.01},
    "a decay rate below zero": {"decay_rate": -1.0},
    "a version before the first": {"version": 0},
    "a time before 1970": {"created_at": -1},
    "no namespace": {"namespace": ""},
    "21 tags": {"tags": tuple(f"t{number}" for number in range(21))},
    "65 pieces of evidence": {"evidence": ("x",) * 65},
    "an id that is random": {"id": "01890000-0000-4000-8000-000000000030"},
}


@pytest.mark.parametrize("fields", BEYOND.values(), ids=BEYOND.keys())
def test_a_value_that_no_entry_point_accepts_is_out_of_bounds(folder: Path, fields: dict[str, Any]) -> None:
    memory = msgspec.structs.replace(sample_memory(48), **fields)
    with opened(folder) as store:
        write(store, memory)
    assert [(each.invariant, each.subject) for each in found(folder)] == [("bounds", memory.id)]


def test_values_at_their_bounds_are_within_them(folder: Path) -> None:
    widest = sample_memory(
        48, "x" * 8192, importance=1.0, decay_rate=0.0, namespace="n" * 64, tags=tuple(map(str, range(20)))
    )
    with opened(folder) as store:
        write(store, widest, sample_memory(49, "y", importance=0.0))
    assert found(folder) == []


def test_versions_and_changes_that_compacting_gave_up_are_not_missed(folder: Path) -> None:
    """The history begins at change 3: version 1 and the changes before are gone, what was kept of them is in order."""
    with opened(folder) as store:
        write(store, PutMeta(name="history_from", value="3 1700000000000"))
    damage(folder, both(drop("changes", seq_key(1)), drop("versions", id_key(ONE.id) + seq_key(1))))
    assert found(folder) == []
    damage(folder, drop("changes", seq_key(4)))
    assert {(each.invariant, each.subject) for each in found(folder)} == {("gaps", "4"), ("changes", TRASHED.id)}


def test_the_golden_store_is_intact_and_damage_to_it_is_found(tmp_path: Path) -> None:
    with tarfile.open(Path(__file__).resolve().parents[1] / "golden" / f"format-{FORMAT}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert found(tmp_path / "data") == []
    assert differing(tmp_path / "data") == []
    damage(tmp_path / "data", drop("memories", id_key(sample_id(12))))
    tripped = {(each.invariant, each.subject) for each in found(tmp_path / "data")}
    assert tripped == {("numbers", sample_id(12)), ("texts", sample_id(12))}
    assert brief(differing(tmp_path / "data")) == [("memories", sample_id(12), "reread")]


def test_every_rule_has_been_broken_by_some_case() -> None:
    broken = {(invariant, table) for case in CASES.values() for invariant, table, _ in case.expected}
    generic = {table.name for table in GENERIC}  # tested with every other in test_every_table
    assert {(each.name, each.table) for each in INVARIANTS if each.table not in generic} <= broken
    assert set(UNREADABLE) == set(TABLE_NAMES) - generic


# Journal against database

# A row of each table whose loss the journal tells of: the table, its key, its subject.
ROWS: dict[str, tuple[str, bytes, str]] = {
    "a record": ("memories", id_key(FIVE.id), FIVE.id),
    "a version": ("versions", id_key(ONE.id) + seq_key(2), f"{ONE.id} 2"),
    "a change": ("changes", seq_key(9), "9"),
    "a use": ("usage", id_key(ONE.id), ONE.id),
    "a trash entry": ("trash", id_key(TRASHED.id), TRASHED.id),
    "an edge": ("edges", id_key(EDGE.source) + b">related>" + id_key(EDGE.target), TIE),
    "a note": ("notes", id_key(FILE), FILE),
    "a folder of notes": ("roots", id_key(ROOT), ROOT),
    "a text left out": ("skips", id_key(FILE) + SKIP.encode(), f"{FILE} {SKIP}"),
    "a forgotten text": ("forgotten", FORGOTTEN.encode(), FORGOTTEN),
    "a fact": ("meta", b"epoch", "epoch"),
}
# The same with another value in its place.
OTHERS: dict[str, bytes] = {
    "a record": seq_key(8) + encode(sample_memory(5, "altered")),
    "a version": encode(sample_memory(1, "altered", version=2, key="one")),
    "a change": encode(ChangeEntry(at=AT, by="another")),
    "a use": encode(Usage(id=ONE.id, access_count=4)),
    "a trash entry": encode(TrashEntry(id=TRASHED.id, at=AT, why="another", state="active")),
    "an edge": encode(msgspec.structs.replace(EDGE, at=AT + 1)),
    "a note": encode(msgspec.structs.replace(NOTE, path="another.md")),
    "a folder of notes": encode(NoteRoot(id=ROOT, path="/another", added_at=AT)),
    "a forgotten text": encode(ErasedText(hash=FORGOTTEN, at=AT + 1)),
    "a fact": b"8",
}


def brief(violations: list[InvariantViolation]) -> list[tuple[str, str, str]]:
    return [(each.table, each.subject, each.remedy) for each in violations]


def test_journal_and_database_of_an_intact_store_agree(folder: Path) -> None:
    assert differing(folder) == []


@pytest.mark.parametrize("name", ROWS)
def test_a_record_missing_from_the_database_is_found_by_the_journal(folder: Path, name: str) -> None:
    table, key, subject = ROWS[name]
    damage(folder, drop(table, key))
    (only,) = differing(folder)
    assert (only.table, only.subject, only.remedy) == (table, subject, "reread")
    assert only.what == "the journal has it, and the database does not"


@pytest.mark.parametrize("name", OTHERS)
def test_a_record_that_differs_from_the_journal_is_found(folder: Path, name: str) -> None:
    table, key, subject = ROWS[name]
    damage(folder, put(table, key, OTHERS[name]))
    (only,) = differing(folder)
    assert (only.table, only.subject, only.remedy) == (table, subject, "reread")
    assert only.what == "the database and the journal differ"


def test_records_of_the_database_alone_are_reported_where_the_journal_is_readable(folder: Path) -> None:
    damage(folder, put_memory(sample_memory(77), seq=8))
    (only,) = differing(folder)
    assert (only.table, only.subject, only.remedy) == ("memories", NOBODY, "reread")
    assert only.what == "the database has it, and the journal, which can be read, does not"


def alter_line(folder: Path, seq: int) -> int:
    """Flips a bit in the middle of the journal line of a change; returns its offset."""
    path = folder / "journal" / "short_term.jsonl"
    data = bytearray(path.read_bytes())
    lines = data.splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines[1:], 1) if decode_line(bytes(line[:-1]))[0].seq == seq)
    start = sum(map(len, lines[:place]))
    data[start + 20] ^= 1
    path.write_bytes(data)
    return start


def test_a_damaged_line_is_reported_with_its_offset_and_its_change_is_in_the_database_alone(folder: Path) -> None:
    offset = alter_line(folder, 8)
    violations = differing(folder)
    segments = [each for each in violations if each.table == "segments"]
    assert segments[0].subject == f"short_term.jsonl:{offset}"
    assert brief([each for each in violations if each.table != "segments"]) == [("changes", "8", "journal")]


def test_a_damaged_line_does_not_hide_unrelated_differences(folder: Path) -> None:
    alter_line(folder, 8)
    damage(folder, both(changed(FIVE, content="of change 8"), changed(OLDER, content="of change 7")))
    rest = [each for each in differing(folder) if each.table != "segments"]
    assert brief(rest) == [("changes", "8", "journal"), ("memories", OLDER.id, "reread")]


def test_an_end_that_a_crash_tore_off_is_no_fault(folder: Path) -> None:
    with (folder / "journal" / "short_term.jsonl").open("ab") as file:
        file.write(b'{"seq":14,"at":17000')
    assert differing(folder) == []


def test_lines_of_the_journal_after_the_database_are_no_violation(folder: Path) -> None:
    """As after a kill between journal and database: the next start replays them."""
    before = (folder / "db" / "data.mdb").read_bytes()
    with opened(folder) as store:
        write(store, sample_memory(30), msgspec.structs.replace(ONE, version=4))
    (folder / "db" / "data.mdb").write_bytes(before)
    assert differing(folder) == []


@pytest.mark.parametrize(("name", "value"), [("sum", "0" * 16), ("store", NOBODY), ("salt", "0" * 32)])
def test_a_database_that_is_not_this_journals_is_seen(folder: Path, name: str, value: str) -> None:
    damage(folder, lambda rows: rows.set_meta(name, value))
    assert brief(differing(folder)) == [("meta", name, "database")]


def test_every_rule_and_every_remedy_is_described() -> None:
    page = (Path(__file__).resolve().parents[2] / "store" / "docs" / "format.md").read_text()
    lines = page[page.index("## Check") : page.index("## Index files")].splitlines()
    for each in INVARIANTS:
        assert f"| `{each.name}` | `{each.table}` | {each.about} | `{each.remedy}` |" in lines
    for remedy, what in REPAIR_STEPS.items():
        assert f"| `{remedy}` | {what} |" in lines
