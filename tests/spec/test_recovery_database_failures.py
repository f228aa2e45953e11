"""The store goes on when the disk of the database fails. SPEC 3.4, M19, M20."""

import contextlib
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from mnemo_store.database.environment import Database
from mnemo_store.database.table_access import TableRow
from mnemo_store.disk import Committable, Disk
from mnemo_store.errors import DiskFull, StoreCorruption, UnknownOutcome, WriteFailure
from mnemo_store.record_texts import text_hash
from mnemo_store.records import DropMemory
from mnemo_store.recovery import database_files, modes
from mnemo_store.store import Store, TextVectors, WriteResult
from tests.support.faulty_disk import BROKEN, FULL, READ_ONLY, FaultyDisk
from tests.support.samples import (
    AT,
    WAIT_SECONDS,
    contents,
    opened,
    remember,
    sample_id,
    sample_memory,
    tables_of,
    write,
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "RETRY_SECONDS_MIN", 0.01)
    monkeypatch.setattr(modes, "RETRY_SECONDS_MAX", 0.02)


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


@contextlib.contextmanager
def degraded_store(folder: Path) -> Iterator[tuple[Store, FaultyDisk]]:
    """Three memories written with a database, then one whose commit, and every opening since, has failed."""
    disk = FaultyDisk()
    with opened(folder, disk) as store:
        for number in (1, 2, 3):
            remember(store, number)
        disk.committing = disk.opening = BROKEN
        remember(store, 4)
        assert "Input/output error" in store.degraded
        yield store, disk


def test_m19_with_the_database_failing_writes_are_taken_and_read_back(tmp_path: Path) -> None:
    with degraded_store(tmp_path) as (store, _):
        edited = sample_memory(1, "edited without a database", version=2)
        write(store, edited, what="edit")
        write(store, DropMemory(id=sample_id(2)), what="trash empty")
        assert contents(store) == ["edited without a database", "memory number 3", "memory number 4"]
        with store.snapshot() as snapshot:
            assert [stored.seq for stored in snapshot.versions(sample_id(1))] == [1, 5]
        assert store.seq == 6


def test_m19_what_was_written_meanwhile_is_in_the_database_exactly_once_when_it_is_back(tmp_path: Path) -> None:
    with degraded_store(tmp_path / "a") as (store, disk):
        remember(store, 5)
        disk.committing = disk.opening = None
        wait_until(lambda: not store.degraded)
        remember(store, 6)
        assert store.seq == 6
        assert store.write_obstacle == ""
    with opened(tmp_path / "b") as sound:
        for number in range(1, 7):
            remember(sound, number)
    with opened(tmp_path / "a") as store:
        assert store.findings == []
        assert contents(store) == [f"memory number {number}" for number in range(1, 7)]
    ours, theirs = tables_of(tmp_path / "a"), tables_of(tmp_path / "b")
    for name in ("memories", "versions", "numbers", "owners", "usage", "trash"):
        assert ours[name] == theirs[name], name


def test_vectors_that_came_without_a_database_outlive_the_next_failure(tmp_path: Path) -> None:
    """The index has them, and nothing would compute them a second time."""
    rows = np.ones((1, 4), np.float16)
    with degraded_store(tmp_path) as (store, disk):
        digest, tokens = text_hash("memory number 4"), np.full((3, 4), -1, np.int8)
        store.put_vectors([TextVectors("space", digest, rows), TextVectors("late", digest, tokens)]).result(
            WAIT_SECONDS
        )
        disk.writing = BROKEN
        with pytest.raises(UnknownOutcome):
            remember(store, 5)
        disk.writing = None
        remember(store, 6)
        disk.committing = disk.opening = None
        wait_until(lambda: not store.degraded)
        with store.snapshot() as snapshot:
            kept = snapshot.vectors("space", digest, 4)
            (kept_tokens,) = snapshot.token_rows("late", [digest], 4)
        assert kept_tokens is not None
        assert np.array_equal(kept_tokens, tokens)
        assert kept is not None
        assert np.array_equal(kept, rows)


def test_m20_ids_are_the_same_whichever_holds_the_store(tmp_path: Path) -> None:
    with degraded_store(tmp_path) as (store, disk):
        with store.snapshot() as snapshot:
            before = [(memory.id, snapshot.number(memory.id)) for memory in snapshot.memories()]
        disk.committing = disk.opening = None
        wait_until(lambda: not store.degraded)
        with store.snapshot() as snapshot:
            assert [(memory.id, snapshot.number(memory.id)) for memory in snapshot.memories()] == before


def test_a_write_acknowledged_without_a_database_survives_a_crash(tmp_path: Path) -> None:
    with degraded_store(tmp_path / "data") as (store, _):
        remember(store, 5)
        shutil.copytree(tmp_path / "data", tmp_path / "crashed")
    with opened(tmp_path / "crashed") as store:
        assert contents(store) == [f"memory number {number}" for number in range(1, 6)]
        assert store.degraded == ""


def test_a_write_that_raises_leaves_nothing_without_a_database_either(tmp_path: Path) -> None:
    with degraded_store(tmp_path) as (store, _):

        def decide(_: Any) -> WriteResult[None]:
            raise ValueError("not like this")

        with pytest.raises(ValueError, match="not like this"):
            store.transact(decide, by="test").result(WAIT_SECONDS)
        assert len(contents(store)) == 4


def test_a_database_that_cannot_be_opened_at_the_start_is_done_without(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    disk = FaultyDisk()
    disk.opening = BROKEN
    with opened(tmp_path, disk) as store:
        assert "the database cannot be opened" in store.degraded
        assert contents(store) == ["memory number 1"]
        remember(store, 2)
        disk.opening = None
        wait_until(lambda: not store.degraded)
        assert contents(store) == ["memory number 1", "memory number 2"]


def test_on_a_disk_that_became_read_only_reads_go_on_and_writes_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    disk = FaultyDisk()
    disk.opening = disk.writing = READ_ONLY
    with opened(tmp_path, disk) as store:
        assert contents(store) == ["memory number 1"]
        with pytest.raises(UnknownOutcome, match="Read-only"):  # a disk that fails a write may have done half of it
            remember(store, 2)
        assert contents(store) == ["memory number 1"]
        disk.opening = disk.writing = None
        wait_until(lambda: not store.degraded)
        remember(store, 3)
        assert contents(store) == ["memory number 1", "memory number 3"]


def test_with_the_journal_failing_too_writes_are_refused_and_reads_go_on(tmp_path: Path) -> None:
    with degraded_store(tmp_path) as (store, disk):
        disk.writing = BROKEN
        with pytest.raises(Exception, match="journal"):
            remember(store, 5)
        disk.writing = None
        assert "memory number 4" in contents(store)
        remember(store, 6)
        assert contents(store)[-1] == "memory number 6"


def test_a_database_that_a_reader_finds_damaged_is_put_in_order(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk) as store:
        remember(store, 1)
        disk.reading = lmdb.CorruptedError("mdb_get: MDB_CORRUPTED")
        with pytest.raises(StoreCorruption, match="MDB_CORRUPTED"):
            contents(store)
        wait_until(lambda: store.degraded)
        assert contents(store) == ["memory number 1"]
        disk.reading = None
        wait_until(lambda: not store.degraded)
        assert contents(store) == ["memory number 1"]


def test_a_database_that_returns_with_an_unreadable_row_is_rebuilt(tmp_path: Path) -> None:
    """It used to end the writer, and with it the store."""
    with degraded_store(tmp_path) as (store, disk):
        database = Database.open(tmp_path / "db", Disk())
        database.write(AT, lambda writing: writing.put_row("meta", TableRow(b"seq", b"\xff")))
        database.close()
        disk.committing = disk.opening = None
        wait_until(lambda: not store.degraded)
        remember(store, 5)
        assert contents(store) == [f"memory number {number}" for number in range(1, 6)]
        assert store.data_losses == []


def test_a_database_that_fails_while_missed_commits_are_published_ends_no_writer(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk) as store:
        remember(store, 1)
        heard: list[int] = []
        store.on_commit(lambda applied: heard.append(applied.seq))
        store.on_row_ids_reset(lambda: heard.append(0))
        store._publisher._published_seq = 0  # as if the change had been answered as of unknown outcome
        disk.reading = lmdb.CorruptedError("mdb_get: MDB_CORRUPTED")
        remember(store, 2)
        assert heard == [0, 2], "who cannot be told what has changed looks at everything anew"
        disk.reading = None
        wait_until(lambda: not store.degraded)
        assert contents(store) == ["memory number 1", "memory number 2"]


class Falls(FaultyDisk):
    """Reopening the database fails with an unexpected error."""

    def open_database(self, folder: Path, **options: Any) -> Any:
        if self.opening is not None:
            raise MemoryError
        return super().open_database(folder, **options)


def test_a_disk_that_does_not_tell_its_room_ends_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, asked = FaultyDisk(), list[Path]()

    def refusing(path: Path) -> os.statvfs_result:
        asked.append(path)
        raise BROKEN

    with opened(tmp_path, disk) as store:
        disk.writing = FULL
        with pytest.raises(DiskFull):
            remember(store, 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", refusing)
            disk.writing = None
            wait_until(lambda: len(asked) > 1)
        wait_until(lambda: not store.write_obstacle)
        remember(store, 2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_crashes_answers_everyone_who_waits(tmp_path: Path) -> None:
    disk = Falls()
    with opened(tmp_path, disk) as store:
        remember(store, 1)
        disk.committing = disk.opening = BROKEN
        with pytest.raises(UnknownOutcome, match="the writer stopped"):
            remember(store, 2)
        with pytest.raises(WriteFailure, match=r"the writer stopped: .*; restart the daemon"):
            remember(store, 3)
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 1", "memory number 2"]


def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    with opened(tmp_path, map_bytes=1 << 18) as store:
        for number in range(1, 101):
            remember(store, number, "x" * 8000)
        assert store.findings == []
        assert store.degraded == ""
        assert len(contents(store)) == 100


def test_a_map_that_cannot_grow_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_files, "MAP_BYTES_MAX", 1 << 18)
    with opened(tmp_path, map_bytes=1 << 18) as store:
        for number in range(1, 101):
            remember(store, number, random.Random(number).randbytes(4000).hex())
        assert "full and cannot grow" in store.degraded
        assert len(contents(store)) == 100


RESERVE = 100_000


def test_a_full_disk_takes_the_group_that_filled_it_then_only_what_makes_room(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk, reserve_bytes=RESERVE) as store:
        assert (tmp_path / "reserve").stat().st_size == RESERVE
        remember(store, 1)
        disk.room = 10
        remember(store, 2, "the one that filled it")
        assert not (tmp_path / "reserve").exists()
        with pytest.raises(DiskFull, match="the disk is full"):
            remember(store, 3)
        assert "the disk is full" in store.write_obstacle
        gone: WriteResult[None] = WriteResult((DropMemory(id=sample_id(1)),), None, "rm")
        store.transact(lambda _: gone, by="test", frees=True).result(WAIT_SECONDS)
        assert contents(store) == ["the one that filled it"]
        disk.room = 10 * RESERVE
        wait_until(lambda: not store.write_obstacle)
        assert (tmp_path / "reserve").stat().st_size == RESERVE
        remember(store, 4)
        assert contents(store) == ["the one that filled it", "memory number 4"]
    with opened(tmp_path) as store:
        assert contents(store) == ["the one that filled it", "memory number 4"]


def test_a_database_without_room_to_commit_is_reopened_with_the_reserve_released(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with opened(tmp_path, disk, reserve_bytes=RESERVE) as store:
        remember(store, 1)
        commit, disk.commit = disk.commit, Full(disk)  # type: ignore[method-assign]
        remember(store, 2)
        assert not (tmp_path / "reserve").exists()
        assert store.degraded == ""
        disk.commit = commit  # type: ignore[method-assign]
        assert contents(store) == ["memory number 1", "memory number 2"]


class Full:
    """Commits fail as long as the reserve exists."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.commit = disk.commit

    def __call__(self, transaction: Committable) -> None:
        if not getattr(self, "failed", False):
            self.failed = True
            raise lmdb.DiskError(f"mdb_txn_commit: {FULL.strerror}")
        self.commit(transaction)


def test_a_start_on_a_full_disk_reads_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
    disk = FaultyDisk()
    disk.writing = disk.opening = FULL
    with opened(tmp_path, disk, reserve_bytes=RESERVE) as store:
        assert contents(store) == ["memory number 1"]
        with pytest.raises(DiskFull):
            remember(store, 2)
        assert store.write_obstacle


def test_the_lock_file_has_its_blocks_before_it_is_mapped(tmp_path: Path) -> None:
    with contextlib.closing(Database.open(tmp_path / "db", Disk())):
        found = (tmp_path / "db" / "lock.mdb").stat()
    assert found.st_blocks * 512 >= found.st_size > 0


def test_a_new_database_without_room_for_its_lock_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    disk.allocating = FULL
    Database.open(tmp_path / "with room", disk).close()
    size = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*size[:3], 0, 0, *size[5:])))
    with pytest.raises(OSError, match="space left"):
        Database.open(tmp_path / "db", disk)
