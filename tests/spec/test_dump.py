"""The dump of everything the store keeps: written and loaded. SPEC 3.3, 3.5, 3.8, store/docs/format.md."""

import hashlib
import string
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_store.backend import Snapshot
from mnemo_store.database.environment import Database
from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreCorruption
from mnemo_store.journal import dump
from mnemo_store.records import (
    FORMAT,
    Change,
    ChangeEntry,
    ChunkRef,
    Cycle,
    DropMemory,
    Edge,
    ErasedText,
    Memory,
    NodeEdge,
    NoteFile,
    NoteRoot,
    PutMemory,
    PutMeta,
    PutNote,
    Session,
    Skip,
    TopicNode,
    TrashEntry,
    Usage,
)
from mnemo_store.tables import BY_CHANGE, MEMORIES, record_in
from tests.support.examples import examples
from tests.support.samples import AT, as_change, quick_folder, sample_id, sample_memory, tables_of
from tests.support.table_records import BY_ITSELF, IDS, changes_of

SALT = "5a" * 16
MAP_BYTES = 16 << 20


class StreamDisk(Disk):
    """A disk without fsync, for hundreds of databases."""

    def open_database(self, folder: Path, **options: Any) -> Any:
        return super().open_database(folder, sync=False, **options)


class KeptRows:
    """A database with the transactions written to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.database = Database.open(folder / "db", StreamDisk(), MAP_BYTES)
        self.seq = 0
        self.open_snapshots = 0
        self.taken = 0  # snapshots

    def begin(self) -> "KeptRows":
        self.database.write(AT, lambda writing: writing.set_meta("salt", SALT))
        return self

    def write(self, *records: Any, what: str = "") -> None:
        self.seq += 1
        self.database.write(AT, lambda writing: self._apply(writing, [as_change(each) for each in records], what))

    def _apply(self, writing: TableWriter, changes: Sequence[Change], what: str) -> None:
        writing.apply(changes, self.seq, ChangeEntry(at=AT + self.seq, by="test", what=what))
        writing.set_meta("seq", str(self.seq))
        writing.set_meta("sum", f"{self.seq:016x}")

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        self.taken += 1
        self.open_snapshots += 1
        with self.database.snapshot(AT) as snapshot:
            yield snapshot
        self.open_snapshots -= 1

    def stream(self, **options: Any) -> list[bytes]:
        return list(dump.write(self.snapshot, **options))

    def load(self, lines: Iterable[bytes]) -> "KeptRows":
        self.database.write(AT, lambda writing: dump.load(dump.read(lines), writing))
        return self

    def tables(self) -> dict[str, list[tuple[bytes, bytes]]]:
        self.database.close()
        return tables_of(self.folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as path:
        yield path


@pytest.fixture
def kept(folder: Path) -> Iterator[KeptRows]:
    kept = KeptRows(folder / "kept").begin()
    yield kept
    kept.database.close()


def rows_of(lines: Iterable[bytes]) -> list[str]:
    """The kinds of the rows, in order."""
    return [str(type(row).__struct_config__.tag or "header") for row in dump.read(lines)]


def ids_of(lines: Iterable[bytes]) -> list[int]:
    """The numbers of the sample memories that are current records, in order."""
    return [int(row.data.id[-12:], 16) for row in dump.read(lines) if isinstance(row, dump.MemoryRow)]


def fill(kept: KeptRows) -> None:
    """One of each kind of row."""
    kept.write(sample_memory(2, "tea"), Usage(id=sample_id(2), access_count=3))
    kept.write(sample_memory(1, "milk"), PutMeta(name="epoch", value="4"))
    kept.write(sample_memory(2, "green tea", version=2), what="edit")
    entry = TrashEntry(id=sample_id(1), at=AT, why="deleted", state="active")
    kept.write(sample_memory(1, "milk", version=2, state="trashed"), entry, what="rm")
    kept.write(Edge(source=sample_id(2), target=sample_id(1), relation="related", at=AT))
    root = NoteRoot(id=sample_id(900), path="/notes", added_at=AT)
    note = NoteFile(id=sample_id(901), root=root.id, path="a.md", chunks=(ChunkRef(sample_id(2), "00", 1, 2),))
    skip = Skip(file=note.id, hash="77")
    kept.write(root, note, skip, ErasedText(hash="66", at=AT))
    kept.write(Usage(id=sample_id(9), access_count=1))


EXPECTED = string.Template("""\
{"mnemo_stream":1,"format":$format,"last":[7,"0000000000000007"],"next_number":2,"salt":"$salt"}
{"record_type":"meta","name":"epoch","value":"4"}
{"record_type":"notes_root","data":{"id":"$root","path":"/notes","added_at":1700000000000}}
{"record_type":"note","data":{"id":"$note","root":"$root","path":"a.md","chunks":[["$two","00",1,2,[]]]}}
{"record_type":"skip","data":{"file":"$note","hash":"77"}}
{"record_type":"forgotten","data":{"hash":"66","at":1700000000000}}
{"record_type":"version","seq":2,"data":{"id":"$one","content":"milk",$times}}
{"record_type":"memory","seq":4,"number":1,"data":{"id":"$one","content":"milk",$times,"version":2,"state":"trashed"}}
{"record_type":"trash","data":{"id":"$one","at":1700000000000,"why":"deleted","state":"active"}}
{"record_type":"version","seq":1,"data":{"id":"$two","content":"tea",$times}}
{"record_type":"memory","seq":3,"number":0,"data":{"id":"$two","content":"green tea",$times,"version":2}}
{"record_type":"usage","data":{"id":"$two","access_count":3}}
{"record_type":"edge","data":{"source":"$two","target":"$one","relation":"related","at":1700000000000}}
{"record_type":"usage","data":{"id":"$nine","access_count":1}}
{"record_type":"change","seq":1,"data":{"at":1700000000001,"by":"test","ids":["$two"],"used":["$two"]}}
{"record_type":"change","seq":2,"data":{"at":1700000000002,"by":"test","ids":["$one"]}}
{"record_type":"change","seq":3,"data":{"at":1700000000003,"by":"test","ids":["$two"],"what":"edit"}}
{"record_type":"change","seq":4,"data":{"at":1700000000004,"by":"test","ids":["$one"],"what":"rm"}}
{"record_type":"change","seq":5,"data":{"at":1700000000005,"by":"test"}}
{"record_type":"change","seq":6,"data":{"at":1700000000006,"by":"test"}}
{"record_type":"change","seq":7,"data":{"at":1700000000007,"by":"test","used":["$nine"]}}
""").substitute(
    format=FORMAT, salt=SALT, root=sample_id(900), note=sample_id(901), one=sample_id(1), two=sample_id(2),
    nine=sample_id(9),
    times='"created_at":1700000000000,"modified_at":1700000000000,"event_at":1700000000000',
).encode().splitlines()  # fmt: skip


def ended(lines: Iterable[bytes]) -> list[bytes]:
    """The lines with the footer that store/docs/format.md defines."""
    whole = [line + b"\n" for line in lines]
    digest = hashlib.blake2b(b"".join(whole), digest_size=16).hexdigest()
    return [*whole, b'{"end":%d,"digest":"%b"}\n' % (len(whole), digest.encode())]


# Out


def test_a_dump_has_every_row_in_the_order_of_the_format(kept: KeptRows) -> None:
    fill(kept)
    assert kept.stream() == ended(EXPECTED)


def test_an_empty_store_is_a_header_and_a_footer(kept: KeptRows) -> None:
    header = b'{"mnemo_stream":1,"format":%d,"last":[0,""],"next_number":0,"salt":"%b"}' % (FORMAT, SALT.encode())
    assert kept.stream() == ended([header])


def test_bookkeeping_facts_of_the_store_are_not_in_a_dump(kept: KeptRows) -> None:
    kept.write(PutMeta(name="model", value="m"), PutMeta(name="store", value="s"), PutMeta(name="format", value="2"))
    assert rows_of(kept.stream()) == ["header", "meta", "change"]


def test_without_history_there_are_neither_earlier_versions_nor_changes(kept: KeptRows) -> None:
    fill(kept)
    left = set(rows_of(kept.stream())) - set(rows_of(kept.stream(history=False)))
    assert left == {"version", "change"}


def test_vectors_are_the_last_rows_of_a_dump(kept: KeptRows) -> None:
    fill(kept)
    lines = kept.stream(vectors=[(b"\1" * 16, b"\0\1\2"), (b"\2" * 16, b"")])
    first = b'{"record_type":"vectors","key":"%b","data":"AAEC"}' % (b"01" * 16)
    second = b'{"record_type":"vectors","key":"%b","data":""}' % (b"02" * 16)
    assert lines == ended([*EXPECTED, first, second])


def test_no_snapshot_is_held_while_a_line_is_on_its_way(kept: KeptRows) -> None:
    fill(kept)
    for _ in dump.write(kept.snapshot):
        assert kept.open_snapshots == 0


def test_a_memory_without_a_number_is_reported(kept: KeptRows) -> None:
    kept.write(sample_memory(1))
    kept.database.write(AT, lambda writing: writing.delete_row("numbers", writing.rows("numbers")[0]))
    with pytest.raises(StoreCorruption, match=f"memory {sample_id(1)} has no number"):
        kept.stream()


def test_a_snapshot_is_closed_when_its_time_is_over(kept: KeptRows, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        kept.write(sample_memory(number))
    whole, taken = kept.stream(), kept.taken
    monkeypatch.setattr(dump, "SLICE_SECONDS_MAX", 0.0)
    before = kept.taken
    assert kept.stream() == whole
    assert kept.taken - before == taken + 2 * 4 + 3, "each of five rows of two tables, and of four facts"


# Only some of it


def not_secret(record: Any) -> bool:
    return "secret" not in getattr(record, "tags", ())


def test_records_of_a_left_out_memory_are_left_out_too(kept: KeptRows) -> None:
    fill(kept)
    kept.write(sample_memory(3, "my pin", tags=("secret",)), Usage(id=sample_id(3)))
    kept.write(Edge(source=sample_id(3), target=sample_id(2), relation="related", at=AT))
    chunks = (ChunkRef(sample_id(3), "00", 1, 1), ChunkRef(sample_id(2), "00", 2, 2))
    kept.write(NoteFile(id=sample_id(901), root=sample_id(900), path="a.md", chunks=chunks))
    lines = kept.stream(keep=not_secret)
    assert ids_of(lines) == [1, 2]
    assert sample_id(3).encode() not in b"".join(lines)
    assert rows_of(lines).count("edge") == 1
    assert b'"chunks":[["%b","00",2,2,[]]]' % sample_id(2).encode() in b"".join(lines)
    assert b'"seq":8,"data":{"at":1700000000008,"by":""}' in b"".join(lines), "the change says nothing"
    assert b'"salt":""' in lines[0]
    assert {"skip", "forgotten"} & set(rows_of(lines)) == set(), "hashes of texts are not for who sees a part alone"


def test_a_dump_of_one_namespace_has_its_sessions_and_topic_nodes_and_nothing_of_the_others(kept: KeptRows) -> None:
    for number, namespace in ((1, "work"), (2, "home")):
        kept.write(
            Session(id=sample_id(10 + number), session_id=namespace, started_at=AT, last_at=AT, namespace=namespace),
            TopicNode(id=sample_id(20 + number), created_at=AT, name=f"topic of {namespace}", namespace=namespace),
            NodeEdge(source=sample_id(20 + number), target=sample_id(23), relation="co_occurs", at=AT),
            Cycle(id=sample_id(30 + number), epoch=1, started_at=AT, seq=0, namespace=namespace),
            PutMeta(name=f"topic name {number}", value=f"my {namespace}"),
        )  # fmt: skip
    kept.write(PutMeta(name="epoch", value="7"))
    lines = kept.stream(keep=lambda record: record.namespace == "work", history=False)
    assert rows_of(lines) == ["header", "meta", "session", "topic_node"]
    assert not [line for line in lines if b"home" in line]
    assert rows_of(kept.stream(history=False)).count("meta") == 3


def test_a_version_that_may_not_be_seen_is_left_out_of_a_memory_that_may(kept: KeptRows) -> None:
    kept.write(sample_memory(1, "pin 1234", tags=("secret",)))
    kept.write(sample_memory(1, "a pin", version=2))
    kept.write(sample_memory(2, "harmless"))
    kept.write(sample_memory(2, "pin 4321", version=2, tags=("secret",)))
    lines = kept.stream(keep=not_secret)
    assert rows_of(lines) == ["header", "memory", "change", "change", "change", "change"]
    assert b"1234" not in b"".join(lines)
    assert b"harmless" not in b"".join(lines)


def test_a_notes_folder_is_dumped_only_with_memories_of_its_notes(kept: KeptRows) -> None:
    for number, tags in ((1, ()), (2, ("secret",))):
        root = NoteRoot(id=sample_id(900 + number), path=f"/notes{number}", added_at=AT)
        chunks = (ChunkRef(sample_id(number), "00", 1, 1),)
        note = NoteFile(id=sample_id(910 + number), root=root.id, path=f"{number}.md", chunks=chunks)
        memory = sample_memory(number, managed=note.id, tags=tags)
        skip = Skip(file=note.id, hash="00")
        kept.write(root, note, memory, skip)
    lines = kept.stream(keep=not_secret)
    assert rows_of(lines) == ["header", "notes_root", "note", "memory", "change", "change"]
    assert b"notes2" not in b"".join(lines)


def test_a_filtered_dump_leaves_out_usage_of_missing_memories(kept: KeptRows) -> None:
    fill(kept)
    assert sample_id(9).encode() in b"".join(kept.stream())
    assert sample_id(9).encode() not in b"".join(kept.stream(keep=not_secret))


# While it is written


def test_a_memory_written_during_a_dump_is_dumped_as_it_was_at_the_beginning(kept: KeptRows) -> None:
    for number in (1, 2):
        kept.write(sample_memory(number, f"before {number}"))
    kept.write(Edge(source=sample_id(1), target=sample_id(2), relation="related", at=AT))
    before = kept.stream()
    lines = dump.write(kept.snapshot)
    got = [next(lines)]
    kept.write(sample_memory(1, "after", version=2))
    kept.write(sample_memory(3, "new"), Usage(id=sample_id(3)))
    kept.write(Edge(source=sample_id(3), target=sample_id(2), relation="related", at=AT))
    assert [*got, *lines] == before


def test_memories_written_meanwhile_are_in_no_note_of_the_dump(kept: KeptRows) -> None:
    kept.write(sample_memory(1))
    lines = dump.write(kept.snapshot)
    got = [next(lines)]
    chunks = (ChunkRef(sample_id(1), "00", 1, 1), ChunkRef(sample_id(2), "00", 2, 2))
    note = NoteFile(id=sample_id(901), root=sample_id(900), path="a.md", chunks=chunks)
    kept.write(sample_memory(2), note)
    text = b"".join([*got, *lines])
    assert sample_id(901).encode() in text
    assert sample_id(2).encode() not in text


# In


def test_a_loaded_dump_gives_the_same_tables(kept: KeptRows, folder: Path) -> None:
    fill(kept)
    kept.write(DropMemory(id=sample_id(1)))
    kept.write(sample_memory(4))
    again = KeptRows(folder / "again").load(kept.stream())
    assert again.stream() == kept.stream()
    assert again.tables() == kept.tables()


def test_a_number_that_was_given_is_not_given_again_after_loading(kept: KeptRows, folder: Path) -> None:
    kept.write(sample_memory(1), sample_memory(2))
    kept.write(DropMemory(id=sample_id(2)))
    again = KeptRows(folder / "again").load(kept.stream())
    again.seq = 2
    again.write(sample_memory(3))
    with again.snapshot() as snapshot:
        assert (snapshot.number(sample_id(1)), snapshot.number(sample_id(3))) == (0, 2)
    again.database.close()


def test_vectors_in_a_dump_are_rows_that_a_load_skips(kept: KeptRows, folder: Path) -> None:
    lines = kept.stream(vectors=[(b"\1" * 16, b"\0\1\2")])
    rows = [row for row in dump.read(lines) if isinstance(row, dump.VectorsRow)]
    assert rows == [dump.VectorsRow(key="01" * 16, data=b"\0\1\2")]
    again = KeptRows(folder / "again").load(lines)
    with again.database.table_snapshot(AT) as snapshot:
        assert snapshot.rows("embeddings") == []
    again.database.close()


def test_a_store_loaded_without_history_says_so_in_its_one_change(kept: KeptRows, folder: Path) -> None:
    fill(kept)
    again = KeptRows(folder / "again").load(kept.stream(history=False))
    with again.snapshot() as snapshot:
        assert snapshot.entries(0) == [(7, ChangeEntry(at=AT, by="", what="load"))]
    assert again.stream(history=False) == kept.stream(history=False)
    again.database.close()


def test_a_dump_without_its_header_gives_all_the_rest(kept: KeptRows, folder: Path) -> None:
    """As in a journal's snapshot that is damaged at its beginning."""
    fill(kept)
    rows = list(dump.read(kept.stream()))[1:]
    again = KeptRows(folder / "again")
    again.database.write(AT, lambda writing: dump.load(rows, writing))
    with again.snapshot() as snapshot:
        assert (snapshot.seq, snapshot.meta("next_number")) == (0, "2")
    for name, value in {"seq": str(kept.seq), "sum": f"{kept.seq:016x}", "salt": SALT}.items():
        again.database.write(AT, partial(TableWriter.set_meta, name=name, value=value))
    assert again.stream() == kept.stream()
    again.database.close()


@pytest.mark.parametrize("count", [0, 1, 10, -2, -1])
def test_a_dump_that_is_cut_off_is_refused(kept: KeptRows, count: int) -> None:
    fill(kept)
    lines = kept.stream()[:count]
    with pytest.raises(dump.MalformedDump, match=rf"line {len(lines) + 1}: it is cut off"):
        list(dump.read(lines))


def test_a_dump_that_is_cut_within_a_line_names_the_line(kept: KeptRows) -> None:
    fill(kept)
    lines = kept.stream()
    with pytest.raises(dump.MalformedDump) as caught:
        list(dump.read([*lines[:3], lines[3][:20]]))
    assert (caught.value.line, str(caught.value)[:7]) == (4, "line 4:")


@pytest.mark.parametrize("row", range(21))
def test_a_missing_or_altered_row_is_noticed_at_the_end(kept: KeptRows, row: int) -> None:
    fill(kept)
    lines = kept.stream()
    gone = lines[:row] + lines[row + 1 :]
    altered = [*lines[:row], lines[row].replace(b'0"', b'1"').replace(b"a", b"b"), *lines[row + 1 :]]
    for broken in (gone, altered):
        with pytest.raises(dump.MalformedDump):
            list(dump.read(broken))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            b'{"mnemo_stream":2,"format":1,"new":"shape"}',
            f"version 2 and format 1; this version supports versions up to 1 and formats up to {FORMAT}",
        ),
        (b'{"mnemo_stream":1,"format":%d}' % (FORMAT + 1), f"version 1 and format {FORMAT + 1}"),
        (b'{"record_type":"meta","name":"a","value":"b"}', "one header, as its first line"),
        (b'{"record_type":"nobody_knows"}', "Invalid value"),
        (b'{"record_type":"meta","name":"a"}', "missing required field `value`"),
        (b'{"record_type":"meta","name":"a","value":"b","more":1}', "unknown field"),
        (b"\xff\xfe", ""),
        (b'{"mnemo_stream":1,"deep":' + b"[" * 5000, "nested too deeply"),
        (b"", ""),
    ],
)
def test_a_file_that_is_no_dump_is_refused_by_its_first_line(line: bytes, why: str) -> None:
    with pytest.raises(dump.MalformedDump, match=f"line 1: .*{why}"):
        list(dump.read([line]))


def test_a_second_header_and_rows_after_the_end_are_refused(kept: KeptRows) -> None:
    lines = kept.stream()
    with pytest.raises(dump.MalformedDump, match="line 2: a dump has one header"):
        list(dump.read([lines[0], lines[0]]))
    with pytest.raises(dump.MalformedDump, match="line 3: there is a line after the footer"):
        list(dump.read([*lines, lines[0]]))


def test_lines_may_come_without_their_newlines_or_with_those_of_another_system(kept: KeptRows) -> None:
    fill(kept)
    lines = kept.stream()
    rows = list(dump.read(lines))
    assert list(dump.read(line.rstrip(b"\n") for line in lines)) == rows
    assert list(dump.read(line.replace(b"\n", b"\r\n") for line in lines)) == rows


def test_a_dump_is_recognised_by_its_beginning(kept: KeptRows) -> None:
    lines = kept.stream()
    assert dump.is_dump(lines[0])
    assert not dump.is_dump(lines[1])
    assert not dump.is_dump(b'{"type":"entity","name":"x"}')


# Whatever there is

NUMBERS = st.integers(1, len(IDS))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
STATES = st.sampled_from(["active", "archived", "trashed", "discarded"])


def memories(number: int) -> st.SearchStrategy[Memory]:
    return st.builds(
        lambda content, state, key, importance: sample_memory(
            number, content, state=state, key=f"key {number}" if key else "", importance=importance
        ),
        TEXTS, STATES, st.booleans(), st.floats(0, 1),
    )  # fmt: skip


CHANGES: st.SearchStrategy[Change] = st.one_of(
    NUMBERS.flatmap(memories).map(as_change),
    NUMBERS.flatmap(memories).map(as_change),
    NUMBERS.map(lambda number: DropMemory(id=sample_id(number))),
    *(changes_of(table) for table in BY_ITSELF if table is not MEMORIES),
)
WRITES = st.lists(st.lists(CHANGES, min_size=1, max_size=4), max_size=15)


@given(WRITES)
@settings(max_examples=examples(60), deadline=None)
def test_any_state_is_restored_from_its_dump_byte_for_byte(writes: list[list[Change]]) -> None:
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(dump, "DUMP_SLICE", 2)
        kept = KeptRows(folder / "kept").begin()
        for changes in writes:
            kept.write(*changes)
        lines = kept.stream()
        again = KeptRows(folder / "again").load(lines)
        assert again.stream() == lines
        assert again.tables() == kept.tables()


def sensible(writes: list[list[Change]]) -> list[list[Change]]:
    """The writes without notes that list memories and records of missing memories, which no caller writes."""
    there: set[str] = set()
    left = []
    for changes in writes:
        left.append(list[Change]())
        for change in changes:
            match change:
                case PutMemory(data=memory):
                    there.add(memory.id)
                case DropMemory(id=memory_id):
                    there.discard(memory_id)
                case PutNote(data=NoteFile(chunks=chunks)) if chunks:
                    continue  # a dump lists those that are there when it reads the note
                case _ if not there.issuperset(owners_of(change)):
                    continue
            left[-1].append(change)
    return left


def owners_of(change: Change) -> Iterator[str]:
    """The memories to which the record belongs that a change writes."""
    table = BY_CHANGE[type(change)]
    if type(change) is table.put:
        record = record_in(table, change)
        yield from (getattr(record, parent.field) for parent in table.parents if parent.table == "memories")


@given(WRITES, WRITES, st.integers(1, 5), st.sampled_from([0.0, 30.0]))
@settings(max_examples=examples(60), deadline=None)
def test_a_dump_of_a_store_in_use_and_the_later_changes_give_the_store(
    writes: list[list[Change]], later: list[list[Change]], pace: int, slice_seconds: float
) -> None:
    """All but the numbers: a memory that is changed and dropped meanwhile has none."""
    with quick_folder() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(dump, "DUMP_SLICE", 2)
        patched.setattr(dump, "SLICE_SECONDS_MAX", slice_seconds)
        kept, again = KeptRows(folder / "kept").begin(), KeptRows(folder / "again")
        before, later = sensible([*writes, *later])[: len(writes)], sensible([*writes, *later])[len(writes) :]
        for changes in before:
            kept.write(*changes)
        waiting, lines = list(later), []
        for count, line in enumerate(dump.write(kept.snapshot)):
            lines.append(line)
            if waiting and count % pace == 0:
                kept.write(*waiting.pop(0))
        for changes in waiting:
            kept.write(*changes)
        again.load(lines).seq = len(before)
        for changes in later:
            again.write(*changes)
        assert without_numbers(again.tables()) == without_numbers(kept.tables())


def without_numbers(tables: dict[str, list[tuple[bytes, bytes]]]) -> dict[str, list[tuple[bytes, bytes]]]:
    facts = [row for row in tables["meta"] if row[0] != b"next_number"]
    return {name: rows for name, rows in tables.items() if name not in ("numbers", "owners")} | {"meta": facts}
