"""Compaction of database and journal, and loading of complete dumps. SPEC 3.3, 3.8, 17.3."""

import errno
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError, StoreNotEmpty
from mnemo_store.journal import dump
from mnemo_store.journal.journal import newest_header
from mnemo_store.maintenance import compaction
from mnemo_store.maintenance.compaction import CompactionSizes
from mnemo_store.record_texts import text_hash
from mnemo_store.records import ConversationTurn, DropMemory, PutMeta, TurnPair
from mnemo_store.recovery import modes
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store, TextVectors
from mnemo_store.tables import META, UNDONE, Table
from tests.golden.make import fill, state_of
from tests.support.file_bytes import readable_bytes
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
from tests.support.table_records import sample_record

CANARY = "zanzibar-canary"


def compacted(store: Store, oldest: int = 1, spaces: Iterable[str] = ("space",)) -> CompactionSizes:
    def act(supervisor: StateSupervisor) -> CompactionSizes:
        return compaction.compact(supervisor, oldest, tuple(spaces))

    return store.run_exclusively(act).result(WAIT_SECONDS)


def load_into(store: Store, lines: Iterable[bytes]) -> None:
    store.run_exclusively(lambda supervisor: compaction.install_dump(supervisor, dump.read(lines))).result(WAIT_SECONDS)


def all_bytes(folder: Path) -> bytes:
    return b"".join(readable_bytes(path) for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_compacted_store_has_the_same_content_and_so_has_its_journal_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        before = state_of(store)
    tables = tables_of(tmp_path)
    with opened(tmp_path) as store:
        compacted(store)
        after = state_of(store).replace(b'"vectors":null', b'"vectors":[[0.0,1.0,2.0,3.0]]')
        assert after == before
        assert store.findings == []
    assert tables_of(tmp_path) == tables
    names = sorted(path.name for path in (tmp_path / "journal").iterdir())
    assert [name.split(".")[0] for name in names] == ["long_term", "short_term", "snapshot"]
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.data_losses == []
    assert tables_of(tmp_path) == tables


def test_writes_go_on_after_a_compaction_and_it_can_be_repeated(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        compacted(store)
        remember(store, 2)
        compacted(store)
        remember(store, 3)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 1", "memory number 2", "memory number 3"]
        assert store.data_losses == []


def test_history_before_the_oldest_kept_change_is_dropped_and_every_later_time_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for version in range(1, 6):  # seqs 1 to 5
            write(store, sample_memory(1, f"version {version}", version=version))
        remember(store, 2)  # seq 6
        compacted(store, oldest=4)
        with store.snapshot() as snapshot:
            assert [stored.seq for stored in snapshot.versions(sample_id(1))] == [3, 4, 5]
            assert [seq for seq, _ in snapshot.entries(0)] == [3, 4, 5, 6]


def test_no_byte_of_a_dropped_memory_is_left_in_database_or_journal(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 200):
            remember(store, number, f"{CANARY} {number} " + "and more words " * (number % 40))
        write(store, sample_memory(500, f"kept {CANARY.upper()}"))
        for number in range(1, 200):
            write(store, DropMemory(id=sample_id(number)))
        assert CANARY.encode() in all_bytes(tmp_path)
        compacted(store)
        assert CANARY.encode() not in all_bytes(tmp_path)
        assert contents(store) == [f"kept {CANARY.upper()}"]


def test_vectors_of_texts_that_no_memory_has_are_removed(tmp_path: Path) -> None:
    rows = np.ones((1, 4), np.float16)
    with opened(tmp_path) as store:
        remember(store, 1, "kept")
        texts = ("kept", "gone")
        store.put_vectors([TextVectors("space", text_hash(text.encode().decode()), rows) for text in texts]).result()
        compacted(store)
        with store.snapshot() as snapshot:
            assert snapshot.vectors("space", text_hash("kept"), 4) is not None
            assert snapshot.vectors("space", text_hash("gone"), 4) is None


def test_the_vector_of_a_pair_of_turns_is_removed_when_one_of_them_is_erased(tmp_path: Path) -> None:
    rows = np.ones((1, 4), np.float16)
    hashes = [text_hash("User: one\nAgent: two"), text_hash("User: three")]
    with opened(tmp_path) as store:
        for number, text in enumerate(("one", "two", "three"), start=1):
            role: Any = "agent" if text == "two" else "user"
            remember(store, number, text, turn=ConversationTurn(role=role))
        for first, reply in ((1, 2), (3, 3)):
            write(store, TurnPair(id=sample_id(first), reply=sample_id(reply), session_id="s", at=AT))
        store.put_vectors([TextVectors("space", digest, rows) for digest in hashes]).result()
        for is_kept in (True, False):
            compacted(store)
            with store.snapshot() as snapshot:
                found = [snapshot.vectors("space", digest, 4) is not None for digest in hashes]
            assert found == [is_kept, True]
            write(store, DropMemory(id=sample_id(2)))


def test_token_rows_of_texts_that_no_memory_has_are_removed(tmp_path: Path) -> None:
    rows = np.full((2, 4), -1, np.int8)  # which no float16 would be
    with opened(tmp_path) as store:
        remember(store, 1, "kept")
        hashes = [text_hash("kept"), text_hash("gone")]
        store.put_vectors(
            [TextVectors(space, digest, rows) for digest in hashes for space in ("space", "other")]
        ).result()
        compacted(store)
        with store.snapshot() as snapshot:
            kept, gone = snapshot.token_rows("space", hashes, 4)
            assert snapshot.token_rows("other", hashes, 4) == [None, None], "a space of no model that is installed"
        assert kept is not None
        assert kept.tolist() == rows.tolist()
        assert gone is None


class FailingAt(Disk):
    """The n-th call that changes the disk fails, and some of those after it."""

    def __init__(self, fail_at: int, more: int = 10**9) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.is_armed = False
        self._more = more

    def _call(self) -> None:
        self.calls += self.is_armed
        if self.is_armed and self.fail_at <= self.calls <= self.fail_at + self._more:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync(self, fd: int) -> None:
        self._call()

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self._call()


def test_a_compaction_interrupted_anywhere_leaves_a_complete_store(tmp_path: Path) -> None:
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        disk = FailingAt(fail_at)
        with opened(folder, disk, reserve_bytes=0) as store:
            fill(store)
            before = contents(store)
            disk.is_armed = True
            try:
                compacted(store)
            except (OSError, StoreError):
                assert disk.calls >= fail_at
            assert contents(store) == before
            shutil.copytree(folder, tmp_path / f"{fail_at}-crashed")
            disk.is_armed = False
            remember(store, 700)
            assert contents(store) == [*before, "memory number 700"]
        with opened(tmp_path / f"{fail_at}-crashed") as store:
            assert contents(store) == before
            assert store.data_losses == []
        shutil.rmtree(folder / "db")
        with opened(folder) as store:
            assert contents(store) == [*before, "memory number 700"]
            assert store.data_losses == []
        if disk.calls < fail_at:
            return
    raise AssertionError("it never ended untouched")


class RefusingDisk(Disk):
    """A snapshot of the journal cannot be put in place as long as `refuses` is set."""

    refuses = False

    def rename(self, source: Path, target: Path) -> None:
        if self.refuses and target.name.startswith("snapshot."):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(source, target)


def test_a_compacting_of_which_the_journals_part_failed_is_finished_while_the_store_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal used to keep what the database had given up until the next start, and check reported damage."""
    monkeypatch.setattr(modes, "RETRY_SECONDS_MIN", 0.01)
    disk = RefusingDisk()
    with opened(tmp_path, disk) as store:
        for version in range(1, 6):  # seqs 1 to 5
            write(store, sample_memory(1, f"version {version}", version=version))
        write(store, PutMeta(name="history_from", value=f"4 {AT}"))
        disk.refuses = True
        with pytest.raises(StoreError):
            compacted(store, oldest=4)
        with store.snapshot() as snapshot:
            assert [stored.seq for stored in snapshot.versions(sample_id(1))] == [3, 4, 5]
        assert b"version 1" in all_bytes(tmp_path / "journal")
        disk.refuses = False
        deadline = time.monotonic() + WAIT_SECONDS
        while b"version 1" in all_bytes(tmp_path / "journal"):
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.005)
        remember(store, 2)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["version 5", "memory number 2"]


def test_an_empty_store_loads_a_complete_dump(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        fill(store)
        exported = list(dump.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        load_into(store, exported)
        assert list(dump.write(store.snapshot)) == exported
        remember(store, 700)
    shutil.rmtree(tmp_path / "b" / "db")
    with opened(tmp_path / "b") as store:
        assert "memory number 700" in contents(store)
        assert store.data_losses == []


@pytest.mark.parametrize("more", [0, 1, 10**9], ids=["once", "twice", "for good"])
def test_a_takeover_that_fails_anywhere_costs_no_later_write(tmp_path: Path, more: int) -> None:
    """A journal that begins with the dump, with a database that does not: lines written then used to be void."""
    with opened(tmp_path / "a") as store:
        remember(store, 1)
        remember(store, 2)
        exported = list(dump.write(store.snapshot))
    taken = [["memory number 1", "memory number 2"], []]
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        disk = FailingAt(fail_at, more)
        with opened(folder, disk, reserve_bytes=0) as store:
            disk.is_armed = True
            try:
                load_into(store, exported)
            except (OSError, StoreError):
                assert disk.calls >= fail_at
            else:
                assert contents(store) == taken[0]
            disk.is_armed = False
            remember(store, 700)
            is_reported = len(contents(store)) == 3
            expected = [*taken[not is_reported], "memory number 700"]
            assert contents(store) == expected
            assert salts_of(store) == {salt_in(exported)} or not is_reported
            assert len(salts_of(store)) == 1
        with opened(folder) as store:
            assert contents(store) == expected
            assert store.data_losses == []
            assert len(salts_of(store)) == 1
        shutil.rmtree(folder / "db")
        with opened(folder) as store:
            assert contents(store) == expected
            assert store.data_losses == []
        if disk.calls < fail_at:
            return
    raise AssertionError("it never ended untouched")


def salts_of(store: Store) -> set[str]:
    """The salts of erased texts in the database, the manifest and the newest segment."""
    header = newest_header(store.folder / "journal")
    assert header is not None
    with store.snapshot() as snapshot:
        return {snapshot.meta("salt"), store._supervisor.manifest.salt, header.salt}


def salt_in(exported: list[bytes]) -> str:
    header = dump.decode(exported[0].rstrip())
    assert isinstance(header, dump.DumpHeader)
    return header.salt


class KeepingDisk(FailingAt):
    """Keeps a copy of the folder at the n-th call, as a crash would leave it."""

    def __init__(self, fail_at: int, folder: Path, kept: Path) -> None:
        super().__init__(fail_at)
        self._folder, self._kept = folder, kept

    def _call(self) -> None:
        self.calls += self.is_armed
        if self.is_armed and self.calls == self.fail_at:
            shutil.copytree(self._folder, self._kept)


@pytest.mark.parametrize("before", [0, 2], ids=["a new store", "one that is empty again"])
def test_a_takeover_that_a_crash_ended_is_done_or_not_and_its_hashes_keep_their_key(
    tmp_path: Path, before: int
) -> None:
    """Two changes before it, and two in the dump: only the checksum tells two ends with one number apart."""
    with opened(tmp_path / "a") as store:
        remember(store, 1)
        remember(store, 2)
        exported = list(dump.write(store.snapshot))
    for fail_at in range(1, 100):
        folder, crashed = tmp_path / str(fail_at), tmp_path / f"{fail_at}-crashed"
        disk = KeepingDisk(fail_at, folder, crashed)
        with opened(folder, disk, reserve_bytes=0) as store:
            if before:
                remember(store, 9)
                write(store, DropMemory(id=sample_id(9)))
            disk.is_armed = True
            load_into(store, exported)
            disk.is_armed = False
        if not crashed.exists():
            return
        with opened(crashed) as store:
            there = contents(store)
            assert there in (["memory number 1", "memory number 2"], [])
            remember(store, 700)
            assert len(salts_of(store)) == 1
            assert (salts_of(store) == {salt_in(exported)}) == bool(there)
            assert store.data_losses == []
        shutil.rmtree(crashed / "db")
        with opened(crashed) as store:
            assert contents(store) == [*there, "memory number 700"]
    raise AssertionError("it never ended untouched")


def test_a_store_that_is_not_empty_loads_no_dump(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        exported = list(dump.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        remember(store, 1)
        with pytest.raises(StoreNotEmpty):
            load_into(store, exported)
        assert contents(store) == ["memory number 1"]


@pytest.mark.parametrize("table", [table for table in UNDONE if table is not META], ids=lambda table: table.name)
def test_a_store_with_nothing_but_a_record_that_undo_knows_is_not_empty(tmp_path: Path, table: Table[Any]) -> None:
    with opened(tmp_path / "a") as store:
        exported = list(dump.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        write(store, sample_record(table, 1))
        with pytest.raises(StoreNotEmpty):
            load_into(store, exported)
        with store.snapshot() as snapshot:
            assert snapshot.scan(table) == [sample_record(table, 1)]


def test_a_dump_that_was_cut_off_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        fill(store)
        exported = list(dump.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        with pytest.raises(dump.MalformedDump, match="cut off"):
            load_into(store, exported[:-3])
        assert contents(store) == []
        remember(store, 1)
    assert not (tmp_path / "b" / "db.new").exists()


def test_a_database_older_than_the_beginning_of_the_journal_is_quarantined(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        remember(store, 2)
    shutil.copytree(tmp_path / "db", tmp_path / "old")
    with opened(tmp_path) as store:
        write(store, DropMemory(id=sample_id(1)))
        compacted(store)
    shutil.rmtree(tmp_path / "db")
    (tmp_path / "old").rename(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 2"]
        assert store.data_losses == []
        assert "older than the beginning of the journal" in store.recovered[0]
    assert len(list(tmp_path.glob("db.damaged-*"))) == 1
