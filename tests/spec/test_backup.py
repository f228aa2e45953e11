"""Backups made while the store is written to, and stores restored from them. SPEC 3.9."""

import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.maintenance.offline_maintenance import check_folder
from mnemo_store.database.migrations import copy_before_migration
from mnemo_store.disk import Disk
from mnemo_store.errors import BadBackup, FolderInUse, HistoryUnavailable, StoreError
from mnemo_store.maintenance import backup
from mnemo_store.maintenance import restore as restoring
from mnemo_store.maintenance.restore import RestoreResult
from mnemo_store.progress import Amount
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import FORMAT, DropMemory, ErasedText
from mnemo_store.store import Store, TextVectors
from tests.golden.make import fill, state_of
from tests.spec.test_compaction import compacted
from tests.support.samples import (
    AT,
    WAIT_SECONDS,
    contents,
    opened,
    put,
    remember,
    sample_id,
    sample_memory,
    write,
)

DISK = Disk()


def restore(source: Path, data: Path, at: int | None = None, *, keep_forgotten: bool = True) -> RestoreResult:
    return restoring.restore(source, data, DISK, lambda: AT, at=at, finish=drop, keep_forgotten=keep_forgotten)


def drop(store: Store, ids: tuple[str, ...]) -> None:
    write(store, *(DropMemory(id=memory_id) for memory_id in ids))


def test_a_backup_is_the_store_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        fill(store)
        made = backup.create_backup(store, tmp_path / "kept", DISK)
        before = state_of(store)
        remember(store, 800, "came after the backup")
    assert backup.verify_backup(tmp_path / "kept") == made
    assert (made.has_database, made.seq) == (True, 19)
    restored = restore(tmp_path / "kept", tmp_path / "data")
    assert restored.kept_as is not None
    with opened(tmp_path / "data") as store:
        assert state_of(store) == before
        assert store.findings == []
    with opened(restored.kept_as) as store:
        assert "came after the backup" in contents(store)


def test_a_backup_made_under_writers_holds_all_that_was_answered_before_it_began(tmp_path: Path) -> None:
    stop, acknowledged = threading.Event(), list[str]()
    with opened(tmp_path / "data", segment_bytes=20_000) as store:

        def keep_writing() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                memory = sample_memory(number, f"text {number} " + "word " * 50)
                store.transact(put(memory), by="test").result(WAIT_SECONDS)
                acknowledged.append(memory.id)

        writer = threading.Thread(target=keep_writing)
        writer.start()
        for number in range(3):
            while len(acknowledged) < 200 * (number + 1):
                time.sleep(0.005)
            before = list(acknowledged)
            made = backup.create_backup(store, tmp_path / f"kept-{number}", DISK)
            restore(tmp_path / f"kept-{number}", tmp_path / "elsewhere")
            with opened(tmp_path / "elsewhere") as copy, copy.snapshot() as snapshot:
                there = {memory.id for memory in snapshot.memories(limit=100_000)}
                assert set(before) <= there
                assert snapshot.seq == made.seq == len(there)
                assert copy.findings == []
            shutil.rmtree(tmp_path / "elsewhere")
        stop.set()
        writer.join()


@pytest.mark.parametrize("part", ["db/data.mdb", "journal/short_term.jsonl", "store.json"])
def test_an_altered_or_incomplete_backup_replaces_nothing(tmp_path: Path, part: str) -> None:
    with opened(tmp_path / "data") as store:
        fill(store)
        backup.create_backup(store, tmp_path / "kept", DISK)
        before = state_of(store)
    path = tmp_path / "kept" / part
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(BadBackup, match="is damaged"):
        restore(tmp_path / "kept", tmp_path / "data")
    path.unlink()
    with pytest.raises(BadBackup, match="is missing"):
        restore(tmp_path / "kept", tmp_path / "data")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "kept"]
    with opened(tmp_path / "data") as store:
        assert state_of(store) == before


@pytest.mark.parametrize("act", ["alter", "remove"])
@pytest.mark.parametrize("part", ["db/data.mdb", "journal/short_term.jsonl", "store.json"])
def test_what_is_left_of_a_damaged_backup_is_restored_to_a_new_folder(tmp_path: Path, part: str, act: str) -> None:
    with opened(tmp_path / "data") as store:
        fill(store)
        backup.create_backup(store, tmp_path / "kept", DISK)
        before = contents(store)
    path = tmp_path / "kept" / part
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.unlink() if act == "remove" else path.write_bytes(whole)
    restored = restore(tmp_path / "kept", tmp_path / "new")
    assert restored.recovered[0] == f"{path} is {'missing' if act == 'remove' else 'damaged'}"
    with opened(tmp_path / "new") as store:
        assert contents(store) == before
    assert check_folder(tmp_path / "new").violations == []


def test_no_earlier_time_is_restored_from_a_damaged_backup(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        fill(store)
        backup.create_backup(store, tmp_path / "kept", DISK)
    path = tmp_path / "kept" / "journal" / "short_term.jsonl"
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(BadBackup, match="is damaged"):
        restore(tmp_path / "kept", tmp_path / "new", at=AT)


def test_a_backup_of_which_journal_and_database_are_damaged_is_not_restored(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        fill(store)
        backup.create_backup(store, tmp_path / "kept", DISK)
    for part in ("db/data.mdb", "journal/short_term.jsonl"):
        path = tmp_path / "kept" / part
        whole = bytearray(path.read_bytes())
        whole[len(whole) // 2] ^= 1
        path.write_bytes(whole)
    with pytest.raises(BadBackup, match="the journal is damaged"):
        restore(tmp_path / "kept", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "kept"]


def test_each_backup_of_one_second_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "data", now=lambda: 0) as store:
        upkeep = StoreMaintenance(store, DISK, list)
        folders = [Path(upkeep.back_up(None).folder) for _ in range(3)]
    names = ["backup-19700101T000000", "backup-19700101T000000-2", "backup-19700101T000000-3"]
    assert folders == [tmp_path / "data" / "backups" / name for name in names]
    assert all(backup.verify_backup(folder).has_database for folder in folders)


def test_a_folder_in_use_takes_no_backup_and_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        (tmp_path / "kept").mkdir()
        (tmp_path / "kept" / "mine.txt").write_text("mine")
        with pytest.raises(BadBackup, match="not empty"):
            backup.create_backup(store, tmp_path / "kept", DISK)
        assert (tmp_path / "kept" / "mine.txt").read_text() == "mine"
        backup.create_backup(store, tmp_path / "good", DISK)
        with pytest.raises(FolderInUse, match=str(os.getpid())):
            restore(tmp_path / "good", tmp_path / "data")


def test_a_restore_to_a_time_has_every_change_until_then_and_none_after(tmp_path: Path) -> None:
    now = AT
    with opened(tmp_path / "data", now=lambda: now, segment_bytes=2000) as store:
        for number in range(1, 11):
            now = AT + 1000 * number
            remember(store, number, layer="core" if number % 3 == 0 else "buffer")
            write(store, sample_memory(1, f"at {number}", version=number + 1))
        store.put_vectors([TextVectors("space", b"a text hash of 4", np.ones((1, 4), np.float16))]).result(WAIT_SECONDS)
    restored = restore(tmp_path / "data", tmp_path / "then", at=AT + 4500)
    assert (restored.seq, restored.memories) == (8, 4)
    with opened(tmp_path / "then") as store, store.snapshot() as snapshot:
        assert [memory.content for memory in snapshot.memories()] == [
            "at 4", "memory number 2", "memory number 3", "memory number 4"
        ]  # fmt: skip
        assert snapshot.vectors("space", b"a text hash of 4", 4) is not None
    with opened(tmp_path / "then") as store:
        assert remember(store, 50)
        assert store.seq == 9
    shutil.rmtree(tmp_path / "then" / "db")
    with opened(tmp_path / "then") as store:
        assert len(contents(store)) == 5
        assert store.data_losses == []


def test_a_store_restored_in_place_keeps_the_replaced_one(tmp_path: Path) -> None:
    now = AT
    with opened(tmp_path / "data", now=lambda: now) as store:
        remember(store, 1)
        now = AT + 1000
        remember(store, 2)
    (tmp_path / "data" / "backups" / "mine").mkdir(parents=True)
    restored = restore(tmp_path / "data", tmp_path / "data", at=AT)
    assert restored.memories == 1
    assert restored.kept_as is not None
    assert restored.recovered == []
    assert (tmp_path / "data" / "backups" / "mine").exists(), "backups belong to the place"
    with opened(restored.kept_as) as store:
        assert len(contents(store)) == 2
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 1"]


class StepCopies(Disk):
    """Copies the folder as a kill would leave it before each rename and each removal of a file."""

    def __init__(self, place: Path, kept: Path) -> None:
        self.steps = 0
        self._place = place
        self._kept = kept

    def rename(self, source: Path, target: Path) -> None:
        self._keep()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._keep()
        super().unlink(path)

    def _keep(self) -> None:
        self.steps += 1
        shutil.copytree(self._place, self._kept / str(self.steps))


def test_a_restore_that_is_killed_at_any_step_is_finished_or_cleaned_up_by_the_next_start(tmp_path: Path) -> None:
    place, crashed = tmp_path / "place", tmp_path / "crashed"
    with opened(place / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "kept", DISK)
        backup.create_backup(store, place / "data" / "backups" / "mine", DISK)
        remember(store, 2)
    disk = StepCopies(place, crashed)
    restoring.restore(tmp_path / "kept", place / "data", disk, lambda: AT)
    seen = set()
    for step in range(1, disk.steps + 1):
        data = crashed / str(step) / "data"
        is_between = not data.exists()
        if is_between:
            data.mkdir()  # as a service manager may have made it, or the start of a daemon, which has its log there
            (data / "run").mkdir()
            (data / "run" / "mnemod.log").write_text("started")
        with opened(data) as store:
            found = tuple(contents(store))
        assert found in (("memory number 1", "memory number 2"), ("memory number 1",))
        assert not is_between or found == ("memory number 1",)
        assert not data.with_name("data.restoring").exists()
        assert not (data / "restored.json").exists()
        assert [path.name for path in (data / "backups").iterdir()] == ["mine"]
        assert len(list(data.parent.glob("data.before-restore-*"))) == (len(found) == 1)
        seen.add((is_between, found))
    assert len(seen) == 3


def test_a_restore_that_was_finished_half_way_by_a_start_is_finished_by_the_next(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with opened(place / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "kept", DISK)
        remember(store, 2)
    disk = StepCopies(place, tmp_path / "crashed")
    restoring.restore(tmp_path / "kept", place / "data", disk, lambda: AT)
    between = next(path for path in (tmp_path / "crashed").iterdir() if not (path / "data").exists())
    (between / "data").mkdir()
    again = StepCopies(between, tmp_path / "again")
    with opened(between / "data", disk=again) as store:
        assert contents(store) == ["memory number 1"]
    for step in range(1, again.steps + 1):
        with opened(tmp_path / "again" / str(step) / "data") as store:
            assert contents(store) == ["memory number 1"]
        assert not (tmp_path / "again" / str(step) / "data.restoring").exists()


def test_a_start_does_not_finish_a_restore_that_is_still_running(tmp_path: Path) -> None:
    class RivalDisk(Disk):
        """Starts a store between the two renames."""

        met = ""

        def rename(self, source: Path, target: Path) -> None:
            if source.name == "data.restoring":
                with pytest.raises(StoreError) as refused:
                    Store.open(target)
                self.met = str(refused.value)
            super().rename(source, target)

    with opened(tmp_path / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "kept", DISK)
    disk = RivalDisk()
    restoring.restore(tmp_path / "kept", tmp_path / "data", disk, lambda: AT)
    assert "a restore is running" in disk.met
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 1"]


def test_a_backup_that_cannot_be_made_leaves_no_file_open(tmp_path: Path) -> None:
    def in_the_way(step: str, _: Amount, __: int) -> None:
        if step == "copying the database":
            (tmp_path / "kept" / "journal").write_bytes(b"")

    with opened(tmp_path / "data") as store:
        remember(store, 1)
        before = os.listdir("/dev/fd")
        with pytest.raises(BadBackup, match="cannot be written"):
            backup.create_backup(store, tmp_path / "kept", DISK, in_the_way)
        assert os.listdir("/dev/fd") == before


def test_a_restore_cannot_go_back_beyond_a_rewritten_journal(tmp_path: Path) -> None:
    now = AT
    with opened(tmp_path / "data", now=lambda: now) as store:
        remember(store, 1)
        now = AT + 2000
        remember(store, 2)
        compacted(store)
        now = AT + 4000
        remember(store, 3)
        now = AT + 5000
        remember(store, 4, layer="core")
        now = AT + 6000
        remember(store, 5)
    assert restore(tmp_path / "data", tmp_path / "soon", at=AT + 3000).memories == 2
    assert restore(tmp_path / "data", tmp_path / "later", at=AT + 5000).memories == 4
    with opened(tmp_path / "later") as store:
        assert contents(store) == [f"memory number {number}" for number in (1, 2, 3, 4)]
        remember(store, 6)
    shutil.rmtree(tmp_path / "later" / "db")
    with opened(tmp_path / "later") as store:
        assert len(contents(store)) == 5
    before = os.listdir("/dev/fd")
    with pytest.raises(HistoryUnavailable):
        restore(tmp_path / "data", tmp_path / "earlier", at=AT + 1000)
    assert not (tmp_path / "earlier").exists()
    assert os.listdir("/dev/fd") == before


def test_the_backups_of_a_place_stay_where_one_of_an_older_format_is_restored(tmp_path: Path) -> None:
    """The copy made before the migration is among them."""
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "data" / "backups" / "mine", DISK)
        with store.snapshot() as snapshot:
            digest = skip_hash(snapshot.meta("salt"), "memory number 1")
        write(store, DropMemory(id=sample_id(1)), ErasedText(hash=digest, at=AT))

    def migrate(store: Store, _: tuple[str, ...]) -> None:
        copy_before_migration(store.folder, FORMAT, FORMAT + 1, DISK, AT)

    source = tmp_path / "data" / "backups" / "mine"
    restored = restoring.restore(source, tmp_path / "data", DISK, lambda: AT, finish=migrate)
    assert restored.kept_as is not None
    kept = sorted(path.name.partition("-")[0] for path in (tmp_path / "data" / "backups").iterdir())
    assert kept == ["before", "mine"]


def test_folders_that_a_backup_needs_are_private(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "data" / "backups" / "one", DISK)
    folders = [tmp_path / "data" / "backups", *(tmp_path / "data" / "backups").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in folders if path.is_dir()} == {0o700}


def test_a_backup_is_no_place_to_restore_to(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "one", DISK)
        backup.create_backup(store, tmp_path / "other", DISK)
    before = sorted(path for path in tmp_path.rglob("*"))
    for source in (tmp_path / "one", tmp_path / "other", tmp_path / "data"):
        with pytest.raises(BadBackup, match="is a backup and cannot be restored to"):
            restore(source, tmp_path / "other")
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert backup.verify_backup(tmp_path / "other").seq == 1


def test_a_backup_replaces_a_store_of_which_nothing_is_left(tmp_path: Path) -> None:
    """The erased texts of that store are unknown."""
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        backup.create_backup(store, tmp_path / "kept", DISK)
    shutil.rmtree(tmp_path / "data" / "db")
    shutil.rmtree(tmp_path / "data" / "journal")
    restore(tmp_path / "kept", tmp_path / "data")
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 1"]


def test_a_memory_with_the_text_of_another_erased_one_is_restored(tmp_path: Path) -> None:
    """The replaced store has that memory, so it was not erased."""
    with opened(tmp_path / "data") as store:
        remember(store, 1, "the key is under the mat")
        remember(store, 2, "the key is under the mat", namespace="project")
        remember(store, 3, "the key is under the mat", namespace="house")
        backup.create_backup(store, tmp_path / "kept", DISK)
        with store.snapshot() as snapshot:
            digest = skip_hash(snapshot.meta("salt"), "the key is under the mat")
        write(store, DropMemory(id=sample_id(1)), ErasedText(hash=digest, at=AT))
        write(store, sample_memory(3, "edited since", version=2, namespace="house"))
    restored = restore(tmp_path / "kept", tmp_path / "data")
    assert restored.forgotten == (sample_id(1),)
    with opened(tmp_path / "data") as store, store.snapshot() as snapshot:
        assert [memory.id for memory in snapshot.memories()] == [sample_id(2), sample_id(3)]


def erase_after_backup(folder: Path) -> str:
    """The digest of the first of two memories, which is erased from `data` and is in the backup `kept`."""
    with opened(folder / "data") as store:
        remember(store, 1, "the secret of the house")
        remember(store, 2)
        backup.create_backup(store, folder / "kept", DISK)
        with store.snapshot() as snapshot:
            digest = skip_hash(snapshot.meta("salt"), "the secret of the house")
        write(store, DropMemory(id=sample_id(1)), ErasedText(hash=digest, at=AT))
    return digest


def test_memories_erased_since_the_backup_stay_erased_unless_asked_for(tmp_path: Path) -> None:
    digest = erase_after_backup(tmp_path)
    restored = restore(tmp_path / "kept", tmp_path / "data")
    assert restored.forgotten == (sample_id(1),)
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 2"]
        with store.snapshot() as snapshot:
            assert snapshot.forgotten(digest) is not None, "the next restore has to know it too"
    restore(tmp_path / "kept", tmp_path / "data", keep_forgotten=False)
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["the secret of the house", "memory number 2"]


def test_memories_erased_from_the_store_in_use_stay_erased_in_a_new_folder(tmp_path: Path) -> None:
    erase_after_backup(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data" / "journal").iterdir()}
    restored = restoring.restore(
        tmp_path / "kept", tmp_path / "new", DISK, lambda: AT, in_use=tmp_path / "data", finish=drop
    )
    assert restored.forgotten == (sample_id(1),)
    with opened(tmp_path / "new") as store:
        assert contents(store) == ["memory number 2"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data" / "journal").iterdir()} == before
