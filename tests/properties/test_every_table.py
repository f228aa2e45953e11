"""Properties of every table: a new record type is tested by its entry in TABLES. SPEC 3.1"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemo_core.ingest.erasure import ResiduePatterns
from mnemo_daemon.maintenance.residue_scan import distinctive_texts
from mnemo_store.backend import Snapshot
from mnemo_store.codec import encode_json
from mnemo_store.database.environment import Database
from mnemo_store.database.table_access import TableRow
from mnemo_store.disk import Disk
from mnemo_store.journal import dump
from mnemo_store.maintenance import compaction
from mnemo_store.maintenance.check import READABLE, InvariantViolation, check
from mnemo_store.maintenance.journal_diff import JournalOwner, check_journal
from mnemo_store.maintenance.repair import amend, reread
from mnemo_store.records import Change, DropMemory, PutMemory, PutMeta, PutScore
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import (
    BOOKKEEPING,
    BY_CHANGE,
    BY_NAME,
    CHANGES,
    FORGOTTEN,
    MEMORIES,
    META,
    SKIPS,
    TABLES,
    Table,
    drop_of,
    put_of,
)
from tests.support.examples import examples
from tests.support.file_bytes import readable_bytes
from tests.support.samples import AT, WAIT_SECONDS, opened, quick_folder, sample_memory, tables_of, write
from tests.support.table_records import changes_of, records, sample_record

every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
tables_with_parents = pytest.mark.parametrize(
    "table", [table for table in TABLES if table.parents], ids=lambda table: table.name
)
a_few = settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow])

SAMPLE = 7  # the number of the record that the tests below write


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


def records_in(at: Snapshot) -> dict[str, list[Any]]:
    """Every record of every table, without the bookkeeping of the store."""
    found = {table.name: at.scan(table, limit=10_000) for table in TABLES}
    found["meta"] = [fact for fact in found["meta"] if fact.name not in BOOKKEEPING]
    return found


@contextmanager
def database_in(folder: Path) -> Iterator[Database]:
    """The database of a closed store."""
    database = Database.open(folder / "db", Disk(), 1 << 26)
    try:
        yield database
    finally:
        database.close()


def owner_of(folder: Path) -> tuple[JournalOwner, int]:
    """The owner of the journal of a closed store, and the last change of the database."""
    with database_in(folder) as database, database.snapshot(AT) as at:
        return JournalOwner(folder / "journal", at.meta("store"), at.meta("salt")), at.seq


@contextmanager
def replay_of(folder: Path) -> Iterator[Snapshot]:
    """The state that the journal of a closed store replays to."""
    owner, seq = owner_of(folder)
    with owner.open_replay(seq) as journal, FallbackState(journal).snapshot(AT) as there:
        yield there


def violations_in(folder: Path) -> list[InvariantViolation]:
    """The violations in a closed store: of its rules, then against its journal."""
    owner, _ = owner_of(folder)
    with database_in(folder) as database:
        found = list(check(lambda: database.table_snapshot(AT), Counter()))
        return found + list(check_journal(lambda: database.table_snapshot(AT), owner))


def parents_of(table: Table[Any], record: Any) -> list[Change]:
    """The changes that write the records that a record belongs to."""
    needed: list[Change] = []
    for place, parent in enumerate(table.parents):
        name, of = getattr(record, parent.field), BY_NAME[parent.table]
        if of is MEMORIES:
            memory = sample_memory(1, f"what it belongs to {place}")
            needed.append(PutMemory(data=msgspec.structs.replace(memory, id=name)))
        else:
            fields: dict[str, Any] = {"chunks": ()} if parent.table == "notes" else {}
            needed.append(put_of(of, msgspec.structs.replace(sample_record(of, 900), id=name, **fields)))
    return needed


def write_sample(store: Store, table: Table[Any]) -> Any:
    """Writes one record of a table, and the records that it belongs to; returns the record."""
    record = sample_record(table, SAMPLE)
    if table is CHANGES:
        turn: WriteResult[None] = WriteResult((PutMeta(name="epoch", value="1"),), None)
        store.transact(lambda _: turn, by=record.entry.by).result(WAIT_SECONDS)
    elif table.record is not MEMORIES.record:
        write(store, *parents_of(table, record), put_of(table, record))
    else:
        write(store, record.memory)
        newer = {"version": 2, "content": f"contentsample{SAMPLE}, edited"}
        write(store, msgspec.structs.replace(record.memory, **newer))
    return record


def test_every_change_belongs_to_one_table() -> None:
    assert set(BY_CHANGE) == set(get_args(Change))
    of_tables = sum((table.put is not None) + (table.drop is not None) for table in TABLES)
    assert len(BY_CHANGE) == of_tables + len({PutScore})  # which writes a part of a record


@every_table
def test_records_removed_with_a_memory_are_found_by_its_id(table: Table[Any]) -> None:
    """A dropped memory takes it along by the rows whose key begins with its id."""
    first_fields = {key.fields[0] for key in table.keys}
    assert {parent.field for parent in table.parents} <= first_fields


@every_table
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_a_row_gives_back_its_record_and_is_found_by_its_name(table: Table[Any], data: st.DataObject) -> None:
    record, other = data.draw(records(table)), data.draw(records(table))
    value = table.encode(record)
    keys = table.keys_of(record)
    for key in keys:
        opened_record = table.open_verified(key, value)
        assert opened_record == record
        assert table.subject_of_key(key) == table.subject(record)
        assert table.is_primary(key) == (key == keys[0])
    assert keys == table.keys_of_subject(table.subject(record))
    assert table.key.encode(table.key.decode(keys[0])) == keys[0]
    for key in set(table.keys_of(other)) - set(keys):
        with suppress(ValueError):  # but where a record has fields from its key alone
            assert key in table.keys_of(table.open_verified(key, value))


@every_table
@given(data=st.data())
@a_few
def test_the_journal_replays_to_what_the_database_holds(table: Table[Any], data: st.DataObject) -> None:
    writes = data.draw(st.lists(st.lists(st.one_of(changes_of(table), changes_of(MEMORIES)), min_size=1), min_size=1))
    with quick_folder() as folder:
        with opened(folder) as store:
            for changes in writes:
                write(store, *changes)
            with store.snapshot() as here:
                held = records_in(here)
        with replay_of(folder) as there:
            assert records_in(there) == held
        before = tables_of(folder)
        shutil.rmtree(folder / "db")
        with opened(folder) as store:
            pass
        assert tables_of(folder) == before


@every_table
@given(data=st.data())
@a_few
def test_an_export_brings_every_record_to_an_empty_store(table: Table[Any], data: st.DataObject) -> None:
    changes = data.draw(st.lists(st.one_of(changes_of(table), changes_of(MEMORIES)), min_size=1))
    with quick_folder() as folder, opened(folder / "one") as one, opened(folder / "other") as other:
        write(one, *changes)
        lines = list(dump.write(one.snapshot))
        other.run_exclusively(lambda supervisor: compaction.install_dump(supervisor, dump.read(lines))).result(
            WAIT_SECONDS
        )
        assert list(dump.write(other.snapshot)) == lines
        with one.snapshot() as here, other.snapshot() as there:
            assert records_in(there) == records_in(here)


@every_table
def test_an_export_of_some_memories_has_nothing_of_the_others(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        record = write_sample(store, table)
        exported = b"".join(dump.write(store.snapshot, keep=lambda memory: False))
    left = [marker for marker in markers_of(table, record) if marker in exported]
    assert left == ([] if table is not META else markers_of(table, record))


@every_table
def test_a_sample_breaks_no_rule_and_agrees_with_the_journal(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        write_sample(store, table)
    about_others = ("folders", "chunks")  # of a note: its folder and its memories, which the sample does not have
    found = [each for each in violations_in(folder) if each.table == table.name]
    assert [each for each in found if each.invariant not in about_others] == []


@pytest.mark.parametrize("table", [table for table in TABLES if table.problems], ids=lambda table: table.name)
def test_a_number_below_zero_is_out_of_bounds_in_every_field(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        record = write_sample(store, table)
        numbers = [name for name in record.__struct_fields__ if type(getattr(record, name)) in (int, float)]
        for name in numbers:
            write(store, put_of(table, msgspec.structs.replace(record, **{name: -1})))
            with store.snapshot() as at:
                assert table.problems is not None
                assert [*map(type, table.problems(at.scan(table)[0]))] == [str], name
    found = [each for each in violations_in(folder) if each.table == table.name]
    assert [(each.invariant, each.remedy) for each in found] == [("bounds", "report")]


@every_table
def test_a_row_that_cannot_be_read_is_reported_and_restored_from_the_journal(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        write_sample(store, table)
    with database_in(folder) as database:
        with database.table_snapshot(AT) as at:
            whole = at.rows(table.name)
        row = next(row for row in whole if table is not META or b"sample" in row.key)
        garbage = TableRow(row.key, b"\xc1\xff") if table.name != "skips" else TableRow(row.key + b"\xff", row.value)
        database.write(AT, lambda rows: rows.put_row(table.name, garbage))
    found = violations_in(folder)
    unreadable = [each for each in found if (each.invariant, each.table) == (READABLE, table.name)]
    assert [each.remedy for each in unreadable] == ["reread"]
    with replay_of(folder) as there, database_in(folder) as database:
        database.write(AT, lambda rows: reread(rows, there, found))
        with database.table_snapshot(AT) as at:
            assert at.rows(table.name) == whole
    assert not any(each.invariant == READABLE for each in violations_in(folder))


@tables_with_parents
def test_a_record_without_its_parent_is_an_orphan_and_a_repair_removes_it(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        record = write_sample(store, table)
    parent = table.parents[0]
    with database_in(folder) as database:
        key = BY_NAME[parent.table].key.encode([getattr(record, parent.field)])
        database.write(AT, lambda rows: rows.delete_row(parent.table, TableRow(key, b"")))
        with database.snapshot(AT) as at:
            (written,) = at.scan(table)
        (orphan,) = [
            each
            for each in check(lambda: database.table_snapshot(AT), Counter())
            if (each.invariant, each.table) == ("orphans", table.name)
        ]
        assert orphan.remedy == "amend"
        with database.snapshot(AT) as at:
            kept, changes = amend(at, orphan)
        assert written in [each.record for each in kept]
        database.write(AT, lambda rows: void(rows.apply(changes, 99, sample_record(CHANGES, 1).entry)))
        with database.table_snapshot(AT) as at:
            assert at.scan(table) == []
            assert at.rows(table.name) == []


def void(_: object) -> None:
    """For a write that answers."""


@tables_with_parents
def test_records_of_a_memory_are_removed_with_it(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        record = write_sample(store, table)
        for parent in table.parents:
            if parent.table == "memories":
                write(store, DropMemory(id=getattr(record, parent.field)))
                with store.snapshot() as at:
                    assert at.scan(table) == []
                return
        write(store, drop_of(table, record))
        with store.snapshot() as at:
            assert at.scan(table) == []


def words_of(record: Any) -> list[str]:
    """The words of a sample that nothing else has."""
    for wrapped in ("memory", "entry"):
        record = getattr(record, wrapped, record)
    return re.findall(rf"\w+sample{SAMPLE}\b", encode_json(record).decode())


def markers_of(table: Table[Any], record: Any) -> list[bytes]:
    """Bytes that nothing but this record has: its words and its key. A fact of the store keeps its name for good."""
    words = [word.encode() for word in words_of(record) if table is not META or word.startswith("value")]
    return words if table in (META, CHANGES) else [*words, table.key.of(record)]


def removal_of(table: Table[Any], record: Any) -> list[Change]:
    """The changes that remove a record."""
    if table is META:
        return [PutMeta(name=record.name, value="")]
    gone: list[Change] = [drop_of(table, record)] if table.drop is not None else []
    memories = [getattr(record, parent.field) for parent in table.parents if parent.table == "memories"]
    return gone + [DropMemory(id=one) for one in memories]


@every_table
def test_a_removed_memory_is_in_no_file_of_a_compacted_store(table: Table[Any], folder: Path) -> None:
    with opened(folder) as store:
        record = write_sample(store, table)
        markers = markers_of(table, record)
        assert any(holding(folder, marker) for marker in markers), "a marker that never stood there proves nothing"
        removal = removal_of(table, record)
        parents = [drop for change in parents_of(table, record) if (drop := dropped(change)) is not None]
        write(store, *removal, *parents)
        write(store, PutMeta(name="epoch", value="2"))  # the oldest change that is kept
        store.run_exclusively(lambda supervisor: compaction.compact(supervisor, store.seq, ())).result(WAIT_SECONDS)
    assert {marker: names for marker in markers if (names := holding(folder, marker))} == {}


def dropped(change: Any) -> Change | None:
    table = BY_CHANGE[type(change)]
    return None if table is MEMORIES else drop_of(table, change.data)


def holding(folder: Path, marker: bytes) -> list[str]:
    """The files that hold these bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and marker in readable_bytes(path)]


@pytest.mark.parametrize(
    "table", [table for table in TABLES if words_of(sample_record(table, SAMPLE))], ids=lambda table: table.name
)
def test_words_that_a_record_keeps_are_no_residue_of_an_erased_memory(table: Table[Any], folder: Path) -> None:
    """A word that an erased text has in common with a record that stays proves nothing. Hashes are no words."""
    with opened(folder) as store:
        words = words_of(write_sample(store, table))
        sought = ResiduePatterns()
        sought.add_parts(words[0])
        assert set(sought.kinds) == {words[0]}
        left = distinctive_texts(store, sought, lambda: None)
    assert set(left.kinds) == ({words[0]} if table in (SKIPS, FORGOTTEN) else set())
