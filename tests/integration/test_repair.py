"""Repair of a store that nobody has open: everything is as it was, and nothing is deleted. docs/format.md "Check"."""

import base64
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_daemon.maintenance.offline_maintenance import NoStore, check_folder, repair_folder
from mnemo_daemon.maintenance.store_check import CheckReport, StoreCheck
from mnemo_daemon.maintenance.store_repair import StoreRepair, amendment
from mnemo_store.codec import encode_json, id_key, seq_key
from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk
from mnemo_store.errors import FolderInUse
from mnemo_store.maintenance import compaction
from mnemo_store.maintenance.repair import QuarantinedRow
from mnemo_store.records import (
    Change,
    ChunkRef,
    DropMemory,
    Edge,
    PutEdge,
    PutMemory,
    PutNote,
    PutSkip,
    PutTrash,
    PutUsage,
    Skip,
    TrashEntry,
    Usage,
)
from mnemo_store.tables import EDGES
from tests.spec.test_check import (
    CASES,
    CHUNKS,
    EDGE,
    FILE,
    NAME_OF_ONE,
    NEWER,
    NOTE,
    ONE,
    OTHERS,
    ROWS,
    UNREADABLE,
    alter_line,
    both,
    damage,
    drop,
    fill,
    put,
    put_memory,
)
from tests.support.samples import (
    AT,
    WAIT_SECONDS,
    contents,
    lines_in,
    opened,
    quick_folder,
    sample_id,
    sample_memory,
    tables_of,
    write,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a closed store in which whatever can stand stands once."""
    with quick_folder() as scratch:
        with opened(scratch) as store:
            fill(store)
        yield scratch


def brief(report: CheckReport) -> list[tuple[str, str, str]]:
    return [(each.invariant, each.table, each.subject) for each in report.violations]


def quarantined(folder: Path) -> list[dict[str, Any]]:
    lines = [
        line for path in sorted((folder / "quarantine").glob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    return [json.loads(line) for line in lines]


def digests(folder: Path) -> dict[str, str]:
    """Of every file, but the lock, which says who looked."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("lock", "lock.mdb")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


DAMAGES = {
    **{name: case.act for name, case in CASES.items()},
    **{f"an unreadable row of {name}": case.act for name, case in UNREADABLE.items()},
    **{f"{name} that is lost": drop(table, key) for name, (table, key, _) in ROWS.items()},
    **{f"another {name}": put(*ROWS[name][:2], value) for name, value in OTHERS.items()},
}


@pytest.mark.parametrize("act", DAMAGES.values(), ids=DAMAGES.keys())
def test_whatever_happens_to_a_row_the_journal_and_the_records_bring_it_back(
    folder: Path, act: Callable[[TableWriter], None]
) -> None:
    """All tables are afterwards as they were, byte for byte; numbers that were given are not given again."""
    before = tables_of(folder)
    damage(folder, act)
    assert not check_folder(folder).is_clean
    done = repair_folder(folder, dry_run=False)
    assert brief(done.report) == []
    after = tables_of(folder)
    given = [dict(rows["meta"]).pop(b"next_number") for rows in (before, after)]
    assert int(given[1]) >= int(given[0])
    for rows in (before, after):
        rows["meta"] = [row for row in rows["meta"] if row[0] != b"next_number"]
    assert after == before


def test_a_check_of_a_closed_store_changes_nothing_on_the_disk(folder: Path) -> None:
    with (folder / "journal" / "short_term.jsonl").open("ab") as file:
        file.write(b'{"seq":14,"at":17')
    damage(folder, drop("usage", id_key(ONE.id)))
    before = digests(folder)
    assert brief(check_folder(folder)) == [("journal", "usage", ONE.id)]
    assert repair_folder(folder, dry_run=True).steps[0].how_many == 1
    assert digests(folder) == before


def test_a_dry_run_says_what_a_repair_then_does(folder: Path) -> None:
    damage(folder, both(drop("usage", id_key(ONE.id)), drop("keys", NAME_OF_ONE)))
    said = repair_folder(folder, dry_run=True)
    done = repair_folder(folder, dry_run=False)
    assert [(step.what, step.how_many) for step in said.steps] == [(step.what, step.how_many) for step in done.steps]
    assert [step.remedy for step in done.steps] == ["reread", "indexes"]


def test_rows_unknown_to_the_journal_are_removed_and_kept_in_quarantine(folder: Path) -> None:
    """A row that stands in the database alone, and one that says nothing any more."""
    stranger = sample_memory(77, "nobody ever said this")
    damage(folder, both(put_memory(stranger, seq=8), put("usage", id_key(NEWER.id), b"\xc1 nothing")))
    done = repair_folder(folder, dry_run=False)
    assert brief(done.report) == []
    unread, kept = sorted(quarantined(folder), key=lambda line: str(line["table"]), reverse=True)
    assert (kept["table"], kept["subject"]) == ("memories", stranger.id)
    assert kept["record"][1]["content"] == "nobody ever said this"
    assert kept["why"] == "the database has it, and the journal, which can be read, does not"
    assert (unread["table"], unread["key"]) == ("usage", id_key(NEWER.id).hex())
    assert base64.b64decode(unread["value"]) == b"\xc1 nothing"
    assert stranger.content not in contents_of(folder)


def through_the_store(*changes: Change) -> Callable[[Path], None]:
    """Faults that journal and database agree on: they came by a change."""

    def act(folder: Path) -> None:
        with opened(folder) as store:
            write(store, *changes)

    return act


CHUNK = CHUNKS[0]
GONE = sample_id(77)
ORPHANS: dict[str, tuple[Change, tuple[str, str, str], tuple[str, ...]]] = {
    "a use": (PutUsage(data=Usage(id=GONE, access_count=5)), ("orphans", "usage", GONE), ("usage",)),
    "a trash entry": (
        PutTrash(data=TrashEntry(id=GONE, at=AT, why="lost", state="active")), ("orphans", "trash", GONE), ("trash",)
    ),
    "an edge": (
        PutEdge(data=Edge(source=GONE, target=ONE.id, relation="updates", at=AT)),
        ("orphans", "edges", f"{GONE} updates {ONE.id}"), ("edges",),
    ),
    "a text left out": (PutSkip(data=Skip(file=GONE, hash="00")), ("orphans", "skips", f"{GONE} 00"), ("skips",)),
    "a chunk": (
        PutMemory(data=sample_memory(40, managed=GONE)), ("chunks", "memories", sample_id(40)), ()
    ),
    "a note's chunk": (
        PutNote(data=msgspec.structs.replace(NOTE, chunks=(*NOTE.chunks, ChunkRef(GONE, "", 7, 8)))),
        ("chunks", "notes", FILE), ("notes",),
    ),
    "a memory in the trash": (
        PutMemory(data=sample_memory(40, state="trashed")), ("trash", "memories", sample_id(40)), ()
    ),
    "an entry of what is not in the trash": (
        PutTrash(data=TrashEntry(id=ONE.id, at=AT, why="", state="active")), ("trash", "memories", ONE.id), ("trash",)
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "fault", "tables"), ORPHANS.values(), ids=ORPHANS.keys())
def test_orphaned_records_go_to_quarantine_by_an_ordinary_change(
    folder: Path, change: Change, fault: tuple[str, str, str], tables: tuple[str, ...]
) -> None:
    through_the_store(change)(folder)
    assert brief(check_folder(folder)) == [fault]
    done = repair_folder(folder, dry_run=False)
    assert [step.remedy for step in done.steps] == ["amend"]
    assert brief(done.report) == []
    kept = quarantined(folder) if tables else []
    assert tuple(line["table"] for line in kept) == tables
    if tables and not isinstance(change, PutNote | PutSkip):
        assert kept[0]["record"] == json.loads(encode_json(change))["data"]
    assert lines_in(folder, "short_term.jsonl")[-1]["what"] == "repair"
    shutil.rmtree(folder / "db")
    with opened(folder):
        pass
    assert brief(check_folder(folder)) == []


def test_nothing_is_taken_out_that_is_not_in_quarantine(folder: Path) -> None:
    """A row that changed after it was checked is left for the next repair."""
    through_the_store(PutUsage(data=Usage(id=GONE)))(folder)
    (fault,) = check_folder(folder).violations
    with opened(folder) as store, store.snapshot() as snapshot:
        assert amendment([fault], [])(snapshot).changes == []
        assert amendment([fault], [QuarantinedRow("usage", GONE, "")])(snapshot).changes == [DropMemory(id=GONE)]


def test_a_chunk_that_no_note_lists_becomes_a_memory_of_its_own(folder: Path) -> None:
    through_the_store(PutNote(data=msgspec.structs.replace(NOTE, chunks=NOTE.chunks[1:])))(folder)
    repair_folder(folder, dry_run=False)
    with opened(folder) as store, store.snapshot() as snapshot:
        memory = snapshot.memory(CHUNK.id)
    assert memory is not None
    assert (memory.content, memory.managed, memory.version) == (CHUNK.content, "", 2)


def test_what_names_a_memory_that_does_not_exist_is_reported_and_left_as_it_is(folder: Path) -> None:
    """m16: evidence that was deleted leaves its mark; no program can say what it was."""
    loose = sample_memory(40, evidence=(GONE, "https://example.org/x"), derived_from=(GONE,))
    through_the_store(PutMemory(data=loose))(folder)
    done = repair_folder(folder, dry_run=False)
    assert done.steps == []
    assert [each.what for each in done.report.violations] == [
        f"derived_from names {GONE}, which does not exist",
        f"evidence names {GONE}, which does not exist",
    ]


def test_evidence_that_was_purged_since_is_no_fault(folder: Path) -> None:
    with opened(folder) as store:
        write(store, sample_memory(41))
        write(store, sample_memory(40, evidence=(sample_id(41),)))
        write(store, DropMemory(id=sample_id(41)), what="trash empty")
    assert brief(check_folder(folder)) == [("references", "memories", sample_id(40))]
    with opened(folder) as store:
        write(store, sample_memory(41))
        write(store, DropMemory(id=sample_id(41)), what="purge")
    assert brief(check_folder(folder)) == []


# The journal, and all of the database


def contents_of(folder: Path) -> list[str]:
    with opened(folder) as store:
        return contents(store)


def test_a_damaged_stretch_of_the_journal_is_kept_and_the_journal_written_again(folder: Path) -> None:
    remembered = contents_of(folder)
    offset = alter_line(folder, 8)
    line = (folder / "journal" / "short_term.jsonl").read_bytes()[offset:].split(b"\n")[0]
    assert {table for _, table, _ in brief(check_folder(folder))} == {"segments", "changes"}
    done = repair_folder(folder, dry_run=False)
    assert [step.remedy for step in done.steps] == ["journal"]
    assert brief(done.report) == []
    (kept,) = (folder / "quarantine").rglob("*.damaged")
    assert kept.read_bytes().strip() == line
    assert done.quarantine == [str(kept.relative_to(folder))]
    shutil.rmtree(folder / "db")
    assert contents_of(folder) == remembered


def test_records_lost_by_journal_or_database_are_all_there_afterwards(folder: Path) -> None:
    remembered = contents_of(folder)
    alter_line(folder, 8)
    damage(folder, both(drop("memories", id_key(NEWER.id)), drop("usage", id_key(ONE.id))))
    done = repair_folder(folder, dry_run=False)
    assert brief(done.report) == []
    assert [step.remedy for step in done.steps] == ["reread", "indexes", "journal"]
    assert contents_of(folder) == remembered


def test_a_change_of_which_nothing_is_left_is_marked_as_lost(folder: Path) -> None:
    alter_line(folder, 9)
    damage(folder, both(drop("changes", seq_key(9)), *(
        drop("edges", key) for key in EDGES.keys_of(EDGE)
    )))  # fmt: skip
    done = repair_folder(folder, dry_run=False)
    assert brief(done.report) == []
    assert [step.remedy for step in done.steps] == ["history", "journal"]
    with opened(folder) as store, store.snapshot() as snapshot:
        entry = snapshot.entry(9)
    assert entry is not None
    assert (entry.by, entry.what, entry.ids) == ("repair", "lost", ())


def test_a_gap_that_journal_and_database_share_is_marked_in_both(folder: Path) -> None:
    """A database that was restored from a damaged journal, from which a journal was written anew."""
    alter_line(folder, 12)
    shutil.rmtree(folder / "db")
    with opened(folder) as store:
        store.run_exclusively(compaction.rewrite_journal).result(WAIT_SECONDS)
    assert brief(check_folder(folder)) == [("gaps", "changes", "12")]
    assert [step.remedy for step in repair_folder(folder, dry_run=True).steps] == ["history", "journal"]
    done = repair_folder(folder, dry_run=False)
    assert [step.remedy for step in done.steps] == ["history", "journal"]
    assert brief(done.report) == []


# What a damaged row of the journal's snapshot may be: how it begins in the file.
SNAPSHOT_ROWS = {
    "its header": b'{"mnemo_stream"',
    "a fact": b'{"record_type":"meta","name":"epoch"',
    "a folder of notes": b'{"record_type":"notes_root"',
    "a note": b'{"record_type":"note"',
    "a text left out": b'{"record_type":"skip"',
    "a forgotten text": b'{"record_type":"forgotten"',
    "a version": b'{"record_type":"version"',
    "a memory": b'{"record_type":"memory"',
    "a use": b'{"record_type":"usage"',
    "a trash entry": b'{"record_type":"trash"',
    "an edge": b'{"record_type":"edge"',
    "a change": b'{"record_type":"change","seq":9,',
    "the last change": b'{"record_type":"change","seq":13,',
}


@pytest.fixture
def compacted(folder: Path) -> Path:
    """Its journal begins with a snapshot."""
    with opened(folder) as store:
        store.run_exclusively(compaction.rewrite_journal).result(WAIT_SECONDS)
    return folder


def snapshot_of(folder: Path) -> Path:
    (path,) = (folder / "journal").glob("snapshot.*.jsonl")
    return path


@pytest.mark.parametrize("begins", SNAPSHOT_ROWS.values(), ids=SNAPSHOT_ROWS.keys())
def test_data_lost_from_a_damaged_snapshot_of_the_journal_stays_in_the_database(compacted: Path, begins: bytes) -> None:
    before, path = tables_of(compacted), snapshot_of(compacted)
    data = path.read_bytes()
    start = data.index(begins)
    row = bytearray(data[start : data.index(b"\n", start)])
    row[-30] ^= 1  # within its checksum or what stands before it
    overwrite(path, start, bytes(row))
    done = repair_folder(compacted, dry_run=False)
    assert [step.remedy for step in done.steps] == ["journal"]
    assert brief(done.report) == []
    assert tables_of(compacted) == before
    (stretch,) = (compacted / "quarantine").rglob("snapshot.*.damaged")
    assert bytes(row) in stretch.read_bytes()
    shutil.rmtree(compacted / "db")
    with opened(compacted):
        pass
    after = tables_of(compacted)
    assert {**after, "embeddings": []} == {**before, "embeddings": []}, "the journal has it again"


def test_rows_missing_from_an_incomplete_snapshot_stay_in_the_database(compacted: Path) -> None:
    before, path = tables_of(compacted), snapshot_of(compacted)
    rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(row for row in rows if not row.startswith(b'{"record_type":"memory"')))
    done = repair_folder(compacted, dry_run=False)
    assert [step.remedy for step in done.steps] == ["journal"]
    assert brief(done.report) == []
    assert tables_of(compacted) == before


def test_a_missing_snapshot_is_no_fault_of_the_database(compacted: Path) -> None:
    """Nor does the history name what stood in it, where it was given up."""
    with opened(compacted) as store:
        write(store, Usage(id=ONE.id, access_count=9))
    damage(compacted, both(lambda rows: rows.set_meta("history_from", f"13 {AT}"), *(
        drop("changes", seq_key(seq)) for seq in range(1, 13)
    )))  # fmt: skip
    before = tables_of(compacted)
    snapshot_of(compacted).unlink()
    done = repair_folder(compacted, dry_run=False)
    assert brief(done.report) == []
    assert tables_of(compacted) == before


def test_rows_lost_by_the_database_are_restored_from_a_damaged_snapshot(compacted: Path) -> None:
    """A change that it lost says nothing against what the change made: that stands in other rows."""
    before, path = tables_of(compacted), snapshot_of(compacted)
    start = path.read_bytes().index(SNAPSHOT_ROWS["a change"])
    overwrite(path, start + 50, b"#")
    damage(compacted, both(*(drop("edges", key) for key in EDGES.keys_of(EDGE)), drop("memories", id_key(NEWER.id))))
    done = repair_folder(compacted, dry_run=False)
    assert [step.remedy for step in done.steps] == ["reread", "indexes", "journal"]
    assert brief(done.report) == []
    assert {**tables_of(compacted), "meta": []} == {**before, "meta": []}


@pytest.mark.parametrize("seq", range(1, 13))
def test_data_of_a_damaged_journal_line_stays_in_the_database(folder: Path, seq: int) -> None:
    before = tables_of(folder)
    alter_line(folder, seq)
    done = repair_folder(folder, dry_run=False)
    assert [step.remedy for step in done.steps] == ["journal"]
    assert brief(done.report) == []
    assert tables_of(folder) == before


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: overwrite(path, 2 * 4096, b"\xff" * (path.stat().st_size // 2)),
        lambda path: os.truncate(path, path.stat().st_size - 4096),
        lambda path: path.write_bytes(b"this was a database"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["its pages", "its end", "all", "emptied", "gone"],
)
def test_a_database_that_does_not_verify_is_not_opened_but_put_aside_and_restored(
    folder: Path, harm: Callable[[Path], object]
) -> None:
    remembered, data = contents_of(folder), folder / "db" / "data.mdb"
    for _ in range(3):  # so that there are pages to harm
        with opened(folder) as store:
            write(store, *(Usage(id=ONE.id, access_count=count) for count in range(20)))
    harm(data)
    left = data.read_bytes() if data.exists() else b""
    report = check_folder(folder)
    assert brief(report) == [("database", "db", "data.mdb")]
    assert (data.read_bytes() if data.exists() else b"") == left
    done = repair_folder(folder, dry_run=False)
    assert [step.remedy for step in done.steps] == ["database"]
    assert brief(done.report) == []
    aside = list(folder.glob("db.damaged-*/data.mdb"))
    assert [path.read_bytes() for path in aside if path.stat().st_size] == ([left] if left else [])
    assert contents_of(folder) == remembered


class DiskWithoutDatabase(Disk):
    """The database cannot be opened."""

    def open_database(self, folder: Path, **options: Any) -> Any:
        raise OSError(errno.EIO, "the disk is broken", str(folder))


def test_while_the_journal_stands_in_for_the_database_that_is_what_is_found(folder: Path) -> None:
    remembered = contents_of(folder)
    with opened(folder, DiskWithoutDatabase()) as store:
        done = StoreRepair(StoreCheck(store)).repair(dry_run=False)
        assert done.steps == []
        assert brief(done.report) == [("database", "db", "data.mdb")]
        assert "the disk is broken" in done.report.violations[0].what
        assert "stop the daemon" in done.report.notes[-1]
        assert contents(store) == remembered


def test_a_store_that_is_not_there_or_in_use_is_not_checked(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(NoStore, match="there is no store"):
        check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with opened(folder), pytest.raises(FolderInUse, match="is using"):
        check_folder(folder)
