"""Stores of every released format open with the same content, and are migrated to the next. SPEC 3.5."""

import errno
import os
import re
import shutil
import tarfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_store.database import migrations
from mnemo_store.database.environment import Database
from mnemo_store.database.migrations import Migration
from mnemo_store.database.table_access import TableWriter
from mnemo_store.disk import Disk
from mnemo_store.errors import DiskFull, NewerFormat
from mnemo_store.journal.line_codec import unseal_json
from mnemo_store.maintenance.check import check
from mnemo_store.records import FORMAT
from mnemo_store.store import Store
from tests.golden import make
from tests.golden.make import state_of
from tests.support.samples import AT, contents, opened, remember, tables_of

GOLDEN = Path(__file__).parents[1] / "golden"


def unpacked(number: int, folder: Path) -> Path:
    with tarfile.open(GOLDEN / f"format-{number}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "data"


def expected_of(number: int) -> bytes:
    return (GOLDEN / f"format-{number}.jsonl").read_bytes()


def format_of(folder: Path) -> int:
    return int(msgspec.json.decode((folder / "store.json").read_bytes())["format"])


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_golden_store_of_each_format_keeps_its_content(tmp_path: Path, number: int) -> None:
    data = unpacked(number, tmp_path)
    with opened(data) as store:
        assert state_of(store) == expected_of(number)
        assert store.findings == []
        remember(store, 500)
    assert format_of(data) == FORMAT
    with opened(data) as store:
        assert "memory number 500" in contents(store)


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_journal_alone_of_a_golden_store_gives_all_but_its_vectors(tmp_path: Path, number: int) -> None:
    data = unpacked(number, tmp_path)
    shutil.rmtree(data / "db")
    with opened(data) as store:
        assert state_of(store) == expected_of(number).replace(b'"vectors":[[0.0,1.0,2.0,3.0]]', b'"vectors":null')
        assert store.data_losses == []


def lines_of(folder: Path) -> dict[str, list[Any]]:
    """The lines of each file of a journal, without checksums: zlib packs in other bytes where it is another build."""
    lines = {}
    for path in sorted(folder.iterdir()):
        lines[path.name] = [msgspec.json.decode(unseal_json(line)[0]) for line in path.read_bytes().splitlines()]
        for line in lines[path.name]:
            line.pop("prev", None)
    return lines


def test_a_store_that_is_written_today_is_the_golden_one(tmp_path: Path) -> None:
    make.main(tmp_path / "today.tar.gz")
    made, kept = (re.sub(rb'"sum":"\w+"', b"", each) for each in (
        (tmp_path / "today.jsonl").read_bytes(), expected_of(FORMAT))
    )  # fmt: skip
    assert made == kept
    with tarfile.open(tmp_path / "today.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    today, golden = tmp_path / "data", unpacked(FORMAT, tmp_path / "golden")
    assert lines_of(today / "journal") == lines_of(golden / "journal")
    tables = [tables_of(each) for each in (today, golden)]
    for each in tables:
        each["meta"] = [row for row in each["meta"] if row[0] != b"sum"]
    assert tables[0] == tables[1]
    assert sorted(path.name for path in today.iterdir()) == sorted(path.name for path in golden.iterdir())


def test_the_golden_store_of_this_format_breaks_no_rule(tmp_path: Path) -> None:
    with closing(Database.open(unpacked(FORMAT, tmp_path) / "db", Disk(), 1 << 26)) as database:
        assert list(check(lambda: database.table_snapshot(AT), Counter())) == []


def drop_owners(writing: TableWriter) -> None:
    """A made-up step from this format to the next: memories have numbers, and are not found by them."""
    for row in writing.all_rows("owners"):
        writing.delete_row("owners", row)


NEXT: tuple[Migration, ...] = (*migrations.MIGRATIONS, drop_owners)


def test_there_is_a_migration_to_every_format_after_the_first() -> None:
    assert len(migrations.MIGRATIONS) == FORMAT - 1
    assert set(migrations.STEPS) <= set(range(2, FORMAT + 1))


def test_a_store_of_this_format_is_migrated_once_to_the_next_and_kept_as_it_was(tmp_path: Path) -> None:
    data = unpacked(FORMAT, tmp_path)
    before = {path.name: path.read_bytes() for path in data.rglob("*.jsonl")}
    with opened(data, migrations=NEXT) as store:
        assert state_of(store) == expected_of(FORMAT)
        remember(store, 500)
    assert format_of(data) == FORMAT + 1
    assert len(tables_of(data)["owners"]) == 1, "the step was made before the write"
    (kept,) = (data / migrations.BACKUPS_FOLDER).iterdir()
    assert format_of(kept) == FORMAT
    assert {path.name: path.read_bytes() for path in kept.rglob("*.jsonl")} == before
    with opened(data, migrations=NEXT) as store:
        assert "memory number 500" in contents(store)
    assert len(tables_of(data)["owners"]) == 1, "it is made once"
    assert len(list((data / migrations.BACKUPS_FOLDER).iterdir())) == 1, "it is kept once"
    with opened(kept) as store:
        assert state_of(store) == expected_of(FORMAT)


def test_a_migrated_store_is_refused_by_the_version_before(tmp_path: Path) -> None:
    data = unpacked(FORMAT, tmp_path)
    with opened(data, migrations=NEXT, segment_bytes=1) as store:
        remember(store, 500)
    number = b'"format":%d' % (FORMAT + 1)
    (data / "store.json").write_bytes((data / "store.json").read_bytes().replace(number, b'"format":%d' % FORMAT))
    with pytest.raises(NewerFormat, match=f"jsonl has format {FORMAT + 1}"):
        Store.open(data)
    shutil.rmtree(data / "journal")
    with pytest.raises(NewerFormat, match=f"database has format {FORMAT + 1}"):
        Store.open(data)


def test_a_migration_that_fails_changes_nothing_and_is_made_at_the_next_start(tmp_path: Path) -> None:
    def fail(writing: TableWriter) -> None:
        drop_owners(writing)
        raise RuntimeError("the next step is wrong")

    data = unpacked(FORMAT, tmp_path)
    before = tables_of(data)
    with pytest.raises(RuntimeError, match="is wrong"):
        Store.open(data, migrations=(*NEXT, fail))
    assert tables_of(data) == before
    with opened(data, migrations=(*NEXT, drop_owners)):
        pass
    assert dict(tables_of(data)["meta"])[b"format"] == b"%d" % (FORMAT + 2)
    assert tables_of(data)["owners"] == []


class NoRoom(Disk):
    def sync(self, fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_without_room_for_what_is_kept_nothing_is_changed(tmp_path: Path) -> None:
    data = unpacked(FORMAT, tmp_path)
    before = {path.name: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    with pytest.raises(DiskFull, match="nothing was changed"):
        Store.open(data, disk=NoRoom(), migrations=NEXT)
    after = {path.name: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before
