"""Database and journal written anew, and whole streams taken over. SPEC 3.3, 3.8, 17.3."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from mnemo_store import rewriting, stream
from mnemo_store.disk import Disk
from mnemo_store.errors import NotEmpty, StoreError
from mnemo_store.keeper import Keeper
from mnemo_store.records import DropMemory, PutMemory, text_hash
from mnemo_store.rewriting import Sizes
from mnemo_store.store import Store, Vectors
from tests.golden.make import fill, state_of
from tests.samples import (
    WAIT_SECONDS,
    contents,
    opened,
    quick_folder,
    remember,
    sample_id,
    sample_memory,
    tables_of,
    write,
)

CANARY = "zanzibar-canary"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: none of this is about fsync."""
    with quick_folder() as folder:
        yield folder


def write_anew(store: Store, oldest: int = 1, spaces: Iterable[str] = ("space",)) -> Sizes:
    def act(keeper: Keeper) -> Sizes:
        return rewriting.write_anew(keeper, oldest, tuple(spaces))

    return store.maintain(act).result(WAIT_SECONDS)


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_written_anew_the_store_says_the_same_and_so_does_its_journal_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        before = state_of(store)
    tables = tables_of(tmp_path)
    with opened(tmp_path) as store:
        write_anew(store)
        after = state_of(store).replace(b'"vectors":null', b'"vectors":[[0.0,1.0,2.0,3.0]]')
        assert after == before
        assert store.reasons == []
    assert tables_of(tmp_path) == tables
    names = sorted(path.name for path in (tmp_path / "journal").iterdir())
    assert [name.split(".")[0] for name in names] == ["long_term", "short_term", "snapshot"]
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert store.missing == []
    assert tables_of(tmp_path) == tables


def test_writes_go_on_behind_it_and_it_can_be_done_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        write_anew(store)
        remember(store, 2)
        write_anew(store)
        remember(store, 3)
    shutil.rmtree(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 1", "memory number 2", "memory number 3"]
        assert store.missing == []


def test_history_before_the_oldest_change_is_given_up_and_every_later_moment_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for version in range(1, 6):  # seqs 1 to 5
            write(store, PutMemory(data=sample_memory(1, f"version {version}", version=version)))
        remember(store, 2)  # seq 6
        write_anew(store, oldest=4)
        with store.snapshot() as snapshot:
            assert [stored.seq for stored in snapshot.versions(sample_id(1))] == [3, 4, 5]
            assert [seq for seq, _ in snapshot.entries(0)] == [3, 4, 5, 6]


def test_no_byte_of_a_dropped_memory_is_left_in_database_or_journal(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(1, 200):
            remember(store, number, f"{CANARY} {number} " + "and more words " * (number % 40))
        write(store, PutMemory(data=sample_memory(500, f"kept {CANARY.upper()}")))
        for number in range(1, 200):
            write(store, DropMemory(id=sample_id(number)))
        assert CANARY.encode() in all_bytes(tmp_path)
        write_anew(store)
        assert CANARY.encode() not in all_bytes(tmp_path)
        assert contents(store) == [f"kept {CANARY.upper()}"]


def test_vectors_of_texts_that_nobody_has_any_more_go(tmp_path: Path) -> None:
    rows = np.ones((1, 4), np.float16)
    with opened(tmp_path) as store:
        remember(store, 1, "kept")
        texts = ("kept", "gone")
        store.put_vectors([Vectors("space", text_hash(text.encode().decode()), rows) for text in texts]).result()
        write_anew(store)
        with store.snapshot() as snapshot:
            assert snapshot.vectors("space", text_hash("kept"), 4) is not None
            assert snapshot.vectors("space", text_hash("gone"), 4) is None


class FailingAt(Disk):
    """The n-th of the calls that change the disk fails, and every one behind it."""

    def __init__(self, fail_at: int) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.is_armed = False

    def _call(self) -> None:
        self.calls += self.is_armed
        if self.is_armed and self.calls >= self.fail_at:
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


def test_cut_short_anywhere_the_store_is_whole(tmp_path: Path) -> None:
    for fail_at in range(1, 100):
        folder = tmp_path / str(fail_at)
        disk = FailingAt(fail_at)
        with opened(folder, disk, reserve_bytes=0) as store:
            fill(store)
            before = contents(store)
            disk.is_armed = True
            try:
                write_anew(store)
            except (OSError, StoreError):
                assert disk.calls >= fail_at
            assert contents(store) == before
            shutil.copytree(folder, tmp_path / f"{fail_at}-crashed")
            disk.is_armed = False
            remember(store, 700)
            assert contents(store) == [*before, "memory number 700"]
        with opened(tmp_path / f"{fail_at}-crashed") as store:
            assert contents(store) == before
            assert store.missing == []
        shutil.rmtree(folder / "db")
        with opened(folder) as store:
            assert contents(store) == [*before, "memory number 700"]
            assert store.missing == []
        if disk.calls < fail_at:
            return
    raise AssertionError("it never ended untouched")


def test_an_empty_store_takes_a_whole_stream_over(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        fill(store)
        exported = list(stream.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        store.maintain(lambda keeper: rewriting.install(keeper, stream.read(exported))).result(WAIT_SECONDS)
        assert list(stream.write(store.snapshot)) == exported
        remember(store, 700)
    shutil.rmtree(tmp_path / "b" / "db")
    with opened(tmp_path / "b") as store:
        assert "memory number 700" in contents(store)
        assert store.missing == []


def test_a_store_that_holds_something_takes_no_stream_over(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        exported = list(stream.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        remember(store, 1)
        with pytest.raises(NotEmpty):
            store.maintain(lambda keeper: rewriting.install(keeper, stream.read(exported))).result(WAIT_SECONDS)
        assert contents(store) == ["memory number 1"]


def test_a_stream_that_was_cut_off_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as store:
        fill(store)
        exported = list(stream.write(store.snapshot))
    with opened(tmp_path / "b") as store:
        with pytest.raises(stream.Malformed, match="cut off"):
            store.maintain(lambda keeper: rewriting.install(keeper, stream.read(exported[:-3]))).result(WAIT_SECONDS)
        assert contents(store) == []
        remember(store, 1)
    assert not (tmp_path / "b" / "db.new").exists()


def test_a_database_older_than_what_the_journal_begins_with_is_put_aside(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        remember(store, 1)
        remember(store, 2)
    shutil.copytree(tmp_path / "db", tmp_path / "old")
    with opened(tmp_path) as store:
        write(store, DropMemory(id=sample_id(1)))
        write_anew(store)
    shutil.rmtree(tmp_path / "db")
    (tmp_path / "old").rename(tmp_path / "db")
    with opened(tmp_path) as store:
        assert contents(store) == ["memory number 2"]
        assert store.missing == []
        assert "older than what the journal begins with" in store.mended[0]
    assert len(list(tmp_path.glob("db.damaged-*"))) == 1
