"""Recovery from loss, damage and failures of the disk. SPEC 3.3, 3.4, 17.1, 17.3."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mnemo_store.codec import id_key
from mnemo_store.commit.write_queue import QUEUE_MAX
from mnemo_store.database.environment import Database
from mnemo_store.database.integrity import boot_mark
from mnemo_store.database.table_access import TableRow
from mnemo_store.disk import Committable, Disk
from mnemo_store.errors import StoreLoss, UnknownOutcome
from mnemo_store.journal.line_codec import JournalLine, decode_line, seal
from mnemo_store.records import PutMemory
from mnemo_store.recovery import modes
from mnemo_store.store import Store
from tests.support.faulty_disk import BROKEN, FaultyDisk
from tests.support.samples import (
    AT,
    WAIT_SECONDS,
    HeldWriter,
    contents,
    lines_in,
    opened,
    put,
    remember,
    sample_id,
    sample_memory,
    tables_of,
    write,
)

# What is lost or damaged


@pytest.mark.parametrize("left", [None, b"", b"{", b'{"format":1}', b"\xff\xfe"])
def test_a_lost_or_damaged_store_json_is_rebuilt_with_the_same_id_and_salt(tmp_path: Path, left: bytes | None) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        store_id = store.store_id
        with store.snapshot() as snapshot:
            salt = snapshot.meta("salt")
    path = tmp_path / "store.json"
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.store_id == store_id
        assert "store.json was" in store.findings[0]
        with store.snapshot() as snapshot:
            assert snapshot.meta("salt") == salt
    with opened(tmp_path) as store:
        assert (store.store_id, store.findings) == (store_id, [])


def test_the_database_knows_the_id_and_salt_where_all_else_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        store_id = store.store_id
    manifest = json.loads((tmp_path / "store.json").read_bytes())
    (tmp_path / "store.json").unlink()
    shutil.rmtree(tmp_path / "journal")
    with opened(tmp_path) as store:
        assert store.store_id == store_id
        remember(store, 2)
    assert json.loads((tmp_path / "store.json").read_bytes())["salt"] == manifest["salt"]
    header = json.loads((tmp_path / "journal" / "short_term.jsonl").read_bytes().splitlines()[0])
    assert (header["store"], header["salt"]) == (store_id, manifest["salt"])


def test_a_new_salt_comes_from_the_chance_that_was_handed_in(tmp_path: Path) -> None:
    with opened(tmp_path, random_bytes=lambda count: b"\7" * count) as store, store.snapshot() as snapshot:
        assert snapshot.meta("salt") == "07" * 16


def test_a_lost_database_is_restored_and_its_views_go_with_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1200):  # more than are replayed in one commit
            store.transact(put(sample_memory(number)), by="me")
            while store.queue_length() > QUEUE_MAX // 2:
                time.sleep(0.001)
        write(store)
    before = tables_of(tmp_path)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "words.view").write_bytes(b"by the old numbers")
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.findings == ["the database was missing or empty: restored from the journal"]
        assert not (tmp_path / "views").exists()
    assert tables_of(tmp_path) == before


@pytest.mark.parametrize("harm", ["cut short", "overwritten", "emptied"])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_damaged_database_is_quarantined_and_restored(tmp_path: Path, harm: str, crashed: bool) -> None:
    folder = tmp_path / "store"
    with opened(folder) as store:
        for number in range(50):
            remember(store, number)
        if crashed:
            shutil.copytree(folder, tmp_path / "crashed")
            folder = tmp_path / "crashed"
    data = folder / "db" / "data.mdb"
    size = data.stat().st_size
    match harm:
        case "cut short":
            os.truncate(data, size // 2)
        case "overwritten":
            data.write_bytes(b"\0" * size)
        case "emptied":
            os.truncate(data, 0)
    with opened(folder) as store:
        assert len(contents(store)) == 50
        assert "restored from the journal" in store.findings[0]
    quarantined = [path.name for path in folder.iterdir() if path.name.startswith("db.damaged-")]
    assert len(quarantined) == (0 if harm == "emptied" else 1)
    with opened(folder) as store:
        assert store.findings == []


@pytest.mark.parametrize("harm", ["overwritten", "cut short", "removed"])
@pytest.mark.parametrize("journal", ["removed", "overwritten"])
def test_without_database_and_journal_no_empty_store_replaces_them(tmp_path: Path, harm: str, journal: str) -> None:
    with opened(tmp_path) as store:
        for number in range(50):
            remember(store, number)
    data = tmp_path / "db" / "data.mdb"
    match harm:
        case "overwritten":
            data.write_bytes(b"\0" * data.stat().st_size)
        case "cut short":
            os.truncate(data, data.stat().st_size // 2)
        case "removed":
            shutil.rmtree(tmp_path / "db")
    if journal == "removed":
        shutil.rmtree(tmp_path / "journal")
    else:
        for path in (tmp_path / "journal").iterdir():
            path.write_bytes(b"\0" * path.stat().st_size)
    for _ in range(2):
        with pytest.raises(StoreLoss, match="restore a backup"):
            Store.open(tmp_path)
        assert list(tmp_path.glob("db.damaged-*")) == []
    assert data.exists() == (harm != "removed")


def test_a_database_that_cannot_be_opened_and_has_no_journal_starts_no_empty_store(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    shutil.rmtree(tmp_path / "journal")
    disk = FaultyDisk()
    disk.opening = BROKEN
    with pytest.raises(StoreLoss, match="Input/output error"):
        Store.open(tmp_path, disk=disk)
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 1"]


def test_a_store_that_never_held_anything_starts_though_its_database_is_torn(tmp_path: Path) -> None:
    """A power loss during the very first start may leave that."""
    with opened(tmp_path):
        pass
    shutil.rmtree(tmp_path / "journal")
    data = tmp_path / "db" / "data.mdb"
    data.write_bytes(b"\0" * data.stat().st_size)
    with opened(tmp_path) as store:
        remember(store, 1)


def damage_line(path: Path, seq: int) -> None:
    data = path.read_bytes()
    start = data.index(b'{"seq":%d,' % seq)
    path.write_bytes(data[: start + 20] + b"\0" + data[start + 21 :])


@pytest.mark.parametrize("table", ["meta", "memories"])
def test_a_row_that_cannot_be_read_keeps_no_store_shut(tmp_path: Path, table: str) -> None:
    """Every page of the database verifies, and the journal has everything."""
    rows = {"meta": TableRow(b"seq", b"\xff"), "memories": TableRow(id_key(sample_id(1)), b"\xff" * 9)}
    with opened(tmp_path) as store:
        remember(store, 1)
    database = Database.open(tmp_path / "db", Disk())
    database.write(AT, lambda writing: writing.put_row(table, rows[table]))
    database.close()
    shutil.move(tmp_path / "db", tmp_path / "old")
    with opened(tmp_path) as store:
        write(store, sample_memory(1, "edited", version=2))
    shutil.rmtree(tmp_path / "db")
    shutil.move(tmp_path / "old", tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["edited"]
        assert "cannot be read" in store.recovered[0]
        assert store.data_losses == []
        remember(store, 2)
    assert len(list(tmp_path.glob("db.damaged-*"))) == 1


def test_a_damaged_line_of_the_journal_does_not_cost_the_rest_when_the_database_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 11):
            remember(store, number)
    damage_line(tmp_path / "journal" / "short_term.jsonl", 4)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == [f"memory number {number}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 10)]
        assert "changes 4 to 4 cannot be read in the journal" in store.findings
        assert [damage.segment for damage in store.damage] == ["short_term.jsonl"]
        assert remember(store, 11).id == sample_id(11)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert len(contents(store)) == 10


def test_a_damaged_line_does_not_cost_the_rest_when_the_database_is_an_old_copy(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    shutil.copytree(tmp_path / "db", tmp_path / "old")
    with opened(tmp_path) as store:
        for number in range(2, 101):  # more than one group can hold
            remember(store, number)
    shutil.rmtree(tmp_path / "db")
    (tmp_path / "old").rename(tmp_path / "db")
    damage_line(tmp_path / "journal" / "short_term.jsonl", 4)
    with opened(tmp_path) as store:
        assert len(contents(store)) == 99
        assert store.findings == ["changes 4 to 4 cannot be read in the journal"]


def write_group_by_hand(folder: Path, files: list[str]) -> None:
    """Appends the lines of a group, one memory each, as a crash before the commit leaves them."""
    ends = [decode_line(line) for path in (folder / "journal").glob("*_term.jsonl") for line in
            path.read_bytes().splitlines()[1:]]  # fmt: skip
    last = max(ends, key=lambda end: end[0].seq)
    end = (last[0].seq, last[1])
    for number, file in enumerate(files, start=100):
        memory = sample_memory(number, layer="core" if file == "long_term" else "buffer")
        sealed = seal(JournalLine(end[0] + 1, AT, "me", end, (PutMemory(data=memory),)))
        with (folder / "journal" / f"{file}.jsonl").open("ab") as journal:
            journal.write(sealed.data)
        end = (end[0] + 1, sealed.sum)


def test_a_group_that_is_complete_in_the_journal_is_replayed_after_a_crash(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    write_group_by_hand(tmp_path, ["short_term", "long_term", "short_term"])
    with opened(tmp_path) as store:
        assert store.seq == 4
        assert len(contents(store)) == 4
        assert store.findings == []


def test_lines_after_a_gap_that_a_crash_left_stay_void(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    write_group_by_hand(tmp_path, ["short_term", "long_term", "short_term", "long_term"])
    long_term = tmp_path / "journal" / "long_term.jsonl"
    data = long_term.read_bytes()
    long_term.write_bytes(data[: data.index(b"\n") + 30])  # its tail is torn: 3 and 5 are gone, 2 and 4 are whole
    for _ in range(2):
        with opened(tmp_path) as store:
            assert store.seq == 2
            assert contents(store) == ["memory number 1", "memory number 100"]
    with opened(tmp_path) as store:
        assert write(store, sample_memory(2)) == 3
    before = tables_of(tmp_path)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert sorted(contents(store)) == ["memory number 1", "memory number 100", "memory number 2"]
    assert tables_of(tmp_path) == before


def test_a_lost_journal_is_reported_and_rewritten_from_the_database(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            remember(store, number)
        with store.snapshot() as snapshot:
            end = [3, snapshot.meta("sum")]
    shutil.rmtree(tmp_path / "journal")
    with opened(tmp_path) as store:
        assert store.data_losses == []
        assert store.recovered == [
            "the journal ended at change 0, the database at 3", "the journal was rewritten from the database"
        ]  # fmt: skip
        assert write(store, sample_memory(3)) == 4
        assert len(contents(store)) == 4
    (line,) = lines_in(tmp_path, "short_term.jsonl")
    assert (line["seq"], line["prev"]) == (4, end)
    before = tables_of(tmp_path)
    with opened(tmp_path) as store:
        assert store.findings == []
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert len(contents(store)) == 4
        assert store.data_losses == []
    assert tables_of(tmp_path) == before


# What fails while it runs


class CommitFails(Disk):
    """Fails the following commits, before or after they are made."""

    def __init__(self) -> None:
        self.times = 0
        self.done_all_the_same = False

    def commit(self, transaction: Committable) -> None:
        if self.times > 0:
            self.times -= 1
            if self.done_all_the_same:
                super().commit(transaction)
            raise OSError(errno.EIO, "the disk is ill")
        super().commit(transaction)


class LinesVanish(CommitFails):
    """Fails a commit, and loses the end of the journal with it."""

    path: Path

    def commit(self, transaction: Committable) -> None:
        if self.times > 0:
            os.truncate(self.path, self.path.stat().st_size - 5)
        super().commit(transaction)


def test_a_failed_commit_whose_line_cannot_be_read_again_is_of_unknown_outcome(tmp_path: Path) -> None:
    disk = LinesVanish()
    disk.path = tmp_path / "journal" / "short_term.jsonl"
    with opened(tmp_path, disk=disk) as store:
        remember(store, 1)
        disk.times = 1
        with pytest.raises(UnknownOutcome):
            remember(store, 2)
        assert write(store, sample_memory(3)) == 2
        assert contents(store) == ["memory number 1", "memory number 3"]


def test_after_a_failed_commit_the_next_start_verifies_the_database(tmp_path: Path) -> None:
    def mark() -> str:
        return str(json.loads((tmp_path / "store.json").read_bytes())["running"])

    Store.open(tmp_path).close()
    disk = CommitFails()
    with opened(tmp_path, disk=disk) as store:
        assert mark() == boot_mark(tmp_path / "db" / "data.mdb")
        disk.times = 1
        remember(store, 1)
        assert mark() == ""
    with opened(tmp_path):
        assert mark() == boot_mark(tmp_path / "db" / "data.mdb")


@pytest.mark.parametrize("done_all_the_same", [False, True])
def test_a_failed_commit_is_made_up_from_the_journal_while_a_reader_holds_a_snapshot(
    tmp_path: Path, done_all_the_same: bool
) -> None:
    disk = CommitFails()
    disk.done_all_the_same = done_all_the_same
    with opened(tmp_path, disk=disk) as store:
        remember(store, 1)
        heard: list[int] = []
        store.on_commit(lambda applied: heard.append(applied.seq))
        reading, failed = threading.Event(), threading.Event()
        read: list[int] = []

        def hold() -> None:
            with store.snapshot() as snapshot:
                reading.set()
                failed.wait(WAIT_SECONDS)
                time.sleep(0.05)  # the writer waits for this reader before it closes the database
                read.append(snapshot.count())

        reader = threading.Thread(target=hold)
        reader.start()
        reading.wait(WAIT_SECONDS)
        disk.times = 1
        future = store.transact(put(sample_memory(2)), by="me")
        failed.set()
        assert future.result(WAIT_SECONDS).seq == 2
        reader.join()
        assert read == [1]
        assert heard == [2]
        assert write(store, sample_memory(3)) == 3
        assert len(contents(store)) == 3


def test_a_database_that_cannot_be_reopened_is_quarantined_and_rebuilt_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "RETRY_SECONDS_MIN", 0.3)
    disk = CommitFails()
    store = Store.open(tmp_path, disk=disk)
    remember(store, 1)
    disk.times = 1
    data = tmp_path / "db" / "data.mdb"
    whole = data.read_bytes()
    held = HeldWriter(store)
    future = store.transact(put(sample_memory(2)), by="me")
    data.rename(tmp_path / "moved.mdb")
    (tmp_path / "db" / "data.mdb").write_bytes(b"\0" * len(whole))
    held.let_go()
    assert future.result(WAIT_SECONDS).seq == 2
    assert "the database failed" in store.degraded
    assert write(store, sample_memory(3)) == 3
    deadline = time.monotonic() + WAIT_SECONDS
    while store.degraded and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.findings == ["the database was quarantined and restored from the journal"]
    assert write(store, sample_memory(4)) == 4
    assert contents(store) == [f"memory number {number}" for number in (1, 2, 3, 4)]
    store.close()
    assert [path.name for path in tmp_path.glob("db.damaged-*/data.mdb")] == ["data.mdb"]


def test_a_follower_that_raises_takes_no_durable_write_back_and_stops_the_writer(tmp_path: Path) -> None:
    program = """
import pathlib, sys
from mnemo_store.errors import StoreError
from mnemo_store.store import Store
from tests.support.samples import remember
store = Store.open(pathlib.Path(sys.argv[1]))
store.on_commit(lambda applied: 1 / 0)
remember(store, 1)
try:
    while True:
        remember(store, 2)
except StoreError as error:
    print(type(error).__name__)
store.close()
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=WAIT_SECONDS,
        check=True, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    assert result.stdout.strip() in ("StoreClosed", "WriteFailure")
    assert "ZeroDivisionError" in result.stderr
    with opened(tmp_path) as store:
        assert "memory number 1" in contents(store)
