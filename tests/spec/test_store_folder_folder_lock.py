"""The lock of the data folder: one process at a time, whatever happens to the files in it. SPEC 3.6, docs/format.md."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mnemo_store.errors import FolderInUse, LockLoss, WriteFailure
from mnemo_store.store import Store
from tests.support.samples import WAIT_SECONDS, contents, opened, put, remember, sample_memory

OPENS_AND_SAYS = (
    "import pathlib, sys; from mnemo_store.store import Store;"
    "store = Store.open(pathlib.Path(sys.argv[1])); print('open', flush=True); sys.stdin.read(); store.close()"
)


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the store open."""
    command = [sys.executable, "-c", OPENS_AND_SAYS, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_deleted_lock_file_lets_no_second_process_in(tmp_path: Path) -> None:
    with another_process(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(FolderInUse, match="another process is using"):
            Store.open(tmp_path)
        assert not (tmp_path / "lock").exists()
    Store.open(tmp_path).close()


def test_a_lock_file_that_was_copied_over_lets_no_second_process_in(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        shutil.copy(tmp_path / "lock", tmp_path / "other")
        (tmp_path / "other").rename(tmp_path / "lock")
        with pytest.raises(FolderInUse, match=f"process {process.pid} is using"):
            Store.open(tmp_path)


def test_a_moved_folder_is_still_held_where_it_is_now(tmp_path: Path) -> None:
    with another_process(tmp_path / "data"):
        (tmp_path / "data").rename(tmp_path / "moved")
        with pytest.raises(FolderInUse):
            Store.open(tmp_path / "moved")


def test_a_holder_of_the_file_alone_is_respected(tmp_path: Path) -> None:
    """As a process on a file system where the folder cannot be locked."""
    Store.open(tmp_path).close()
    with (tmp_path / "lock").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(FolderInUse):
            Store.open(tmp_path)
    Store.open(tmp_path).close()  # the folder was let go where the file could not be had


def test_a_copy_of_the_folder_is_a_store_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as store:
        remember(store, 1)
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        with opened(tmp_path / "copy") as copy:
            remember(copy, 2)
            remember(store, 3)
            assert contents(copy) == ["memory number 1", "memory number 2"]
        assert contents(store) == ["memory number 1", "memory number 3"]


def remove_lock(data: Path) -> None:
    (data / "lock").unlink()


def replace_lock(data: Path) -> None:
    (data / "lock").unlink()
    (data / "lock").write_text("1\n")


def move_folder(data: Path) -> None:
    data.rename(data.with_name("moved"))


def replace_folder(data: Path) -> None:
    data.rename(data.with_name("moved"))
    shutil.copytree(data.with_name("moved"), data)


def delete_folder(data: Path) -> None:
    shutil.rmtree(data)


@pytest.mark.parametrize(
    ("lose", "reason"),
    [
        (remove_lock, "lock was removed"),
        (replace_lock, "lock was replaced"),
        (move_folder, "was moved or deleted"),
        (replace_folder, "was replaced by another folder"),
        (delete_folder, "was moved or deleted"),
    ],
)
def test_a_store_that_lost_its_lock_takes_no_more_writes_and_goes_on_answering(
    tmp_path: Path, lose: object, reason: str
) -> None:
    data = tmp_path / "data"
    store = Store.open(data)
    try:
        remember(store, 1)
        assert store.write_obstacle == ""
        assert callable(lose)
        lose(data)
        assert reason in store.write_obstacle
        before = _files(tmp_path)
        with pytest.raises(LockLoss, match=reason):
            store.transact(put(sample_memory(2)), by="test").result(WAIT_SECONDS)
        with pytest.raises(LockLoss, match=reason):
            store.run_exclusively(lambda _: None).result(WAIT_SECONDS)
        assert contents(store) == ["memory number 1"]
        assert issubclass(LockLoss, WriteFailure)  # which is answered as what was surely not kept
    finally:
        store.close()
    assert _files(tmp_path) == before


def test_a_folder_that_is_put_back_is_written_to_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as store:
        remember(store, 1)
        move_folder(data)
        with pytest.raises(LockLoss):
            store.transact(put(sample_memory(2)), by="test").result(WAIT_SECONDS)
        data.with_name("moved").rename(data)
        remember(store, 3)
        assert store.write_obstacle == ""
    with opened(data) as store:
        assert contents(store) == ["memory number 1", "memory number 3"]


def _files(folder: Path) -> dict[str, bytes]:
    """The content of every file except LMDB's table of readers."""
    return {
        os.fspath(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock.mdb"
    }
