"""A reset at every step of a crash or a failing disk: the whole old store or the empty one. SPEC 13"""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.maintenance.store_check import StoreCheck
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.maintenance.compaction import ChangedSinceBackup
from mnemo_store.records import ErasedText, NoteRoot, PutErasedText, PutMeta, PutRoot
from mnemo_store.store import Store
from mnemo_store.tables import FORGOTTEN, ROOTS
from tests.spec.test_compaction import FailingAt, KeepingDisk
from tests.support.samples import contents, opened, remember, sample_id, write

TEXTS = [f"memory number {number}" for number in range(1, 6)]


def filled(store: Store) -> None:
    for number in range(1, 6):
        remember(store, number)
    write(
        store, PutRoot(data=NoteRoot(id=sample_id(90), path="/notes", added_at=1)),
        PutErasedText(data=ErasedText(hash="a" * 64, at=1)), PutMeta(name="embedding_model", value="mini"),
        PutMeta(name="epoch", value="7"),
    )  # fmt: skip


def emptied(store: Store, disk: Disk) -> Path:
    return Path(StoreMaintenance(store, disk, list).reset(("embedding_model",)).folder)


def assert_empty_and_usable(store: Store) -> None:
    assert contents(store) == []
    with store.snapshot() as snapshot:
        assert [root.path for root in snapshot.scan(ROOTS, limit=9)] == ["/notes"]
        assert snapshot.size(FORGOTTEN) == 1
        assert (snapshot.meta("embedding_model"), snapshot.meta("epoch")) == ("mini", "")
    remember(store, 700)
    assert contents(store) == ["memory number 700"]


def test_a_reset_keeps_folders_erased_texts_and_the_model_and_its_backup_has_everything(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        filled(store)
        backup = emptied(store, Disk())
        assert_empty_and_usable(store)
        assert StoreCheck(store).run().is_clean
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 700"]
    shutil.rmtree(tmp_path / "data" / "db")
    with opened(tmp_path / "data") as store:
        assert contents(store) == ["memory number 700"]
        assert store.data_losses == []
    with opened(backup) as store:
        assert contents(store) == TEXTS
    assert b"memory number 3" not in b"".join(
        path.read_bytes() for part in ("db", "journal") for path in (tmp_path / "data" / part).iterdir()
    )


def test_a_crash_at_any_step_of_a_reset_leaves_the_whole_old_store_or_the_empty_one(tmp_path: Path) -> None:
    seen: set[str] = set()
    for fail_at in range(1, 200):
        folder, crashed = tmp_path / str(fail_at), tmp_path / f"{fail_at}-crashed"
        disk = KeepingDisk(fail_at, folder, crashed)
        with opened(folder, disk, reserve_bytes=0) as store:
            filled(store)
            (folder / "views").mkdir(exist_ok=True)
            (folder / "views" / "columns.view").touch()
            disk.is_armed = True
            emptied(store, disk)
            disk.is_armed = False
        if not crashed.exists():
            assert seen == {"old", "new"}
            return
        with opened(crashed) as store:
            seen.add("old" if contents(store) else "new")
            if contents(store):
                assert contents(store) == TEXTS
            else:
                assert not (crashed / "views" / "columns.view").exists()  # it would be taken for one of this change
                assert_empty_and_usable(store)
            assert store.data_losses == []
            there = contents(store)
        shutil.rmtree(crashed / "db")
        with opened(crashed) as store:
            assert contents(store) == there
        for each in (folder, crashed):
            shutil.rmtree(each)
    raise AssertionError("it never ended untouched")


def test_a_reset_on_a_failing_disk_leaves_the_whole_old_store_or_the_empty_one(tmp_path: Path) -> None:
    for fail_at in range(1, 200):
        folder = tmp_path / str(fail_at)
        disk = FailingAt(fail_at, more=0)
        with opened(folder, disk, reserve_bytes=0) as store:
            filled(store)
            disk.is_armed = True
            try:
                emptied(store, disk)
            except (OSError, StoreError):
                assert disk.calls >= fail_at
            disk.is_armed = False
            there = contents(store)
            assert there in (TEXTS, []), fail_at
        with opened(folder) as store:
            assert contents(store) == there
            assert store.data_losses == []
        shutil.rmtree(folder)
        if disk.calls < fail_at:
            return
    raise AssertionError("it never ended untouched")


class WritingDisk(Disk):
    """Has a memory written as soon as a backup is complete."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.numbers: list[int] = []

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        super().replace_file(path, pieces)
        if path.name == "backup.json" and self.numbers and self.store is not None:
            remember(self.store, self.numbers.pop(0))


def test_what_is_written_during_the_backup_is_in_the_next_one_or_nothing_is_removed(tmp_path: Path) -> None:
    disk = WritingDisk()
    with opened(tmp_path / "data") as store:
        filled(store)
        disk.store, disk.numbers = store, [800, 801]
        backup = emptied(store, disk)
        assert contents(store) == []
        assert [path.name for path in (tmp_path / "data" / "backups").iterdir()] == [backup.name]
        remember(store, 1)
        disk.numbers = [900, 901, 902]
        with pytest.raises(ChangedSinceBackup):
            emptied(store, disk)
        assert len(contents(store)) == 4
    with opened(backup) as store:
        assert contents(store) == [*TEXTS, "memory number 800", "memory number 801"]
