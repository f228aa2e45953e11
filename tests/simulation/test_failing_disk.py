"""A disk that fails at the n-th call, for every n until a run is untouched. SPEC 3.3, 17.1.

Whatever fails, and however often in a row: an acknowledged write is there after a restart, after a crash, and when the
journal alone is left; a refused one is in none of them, ever; only a write answered with an unknown outcome may be
either. And the store goes on, or says that it cannot.

Each mode of failure tries every third call here, and three modes in a row try all; with MNEMO_SWEEP=1, which
`make simulate` sets, each mode tries all.
"""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mnemo_store.disk import Committable, Disk
from mnemo_store.errors import StoreError, UnknownOutcome, WriteFailure
from mnemo_store.records import Change, Layer, Memory, PutMemory
from mnemo_store.store import Store, WriteReceipt, WriteResult
from tests.support.examples import IS_SWEEP
from tests.support.samples import WAIT_SECONDS, quick_folder, sample_memory

SEGMENT_BYTES = 1500  # so that a run of a few writes sees segments become full
RESERVE_BYTES = 4096
GROUP = 3  # writes in the largest group of the run
FOR_GOOD = 10**9
CALLS_MAX = 400  # more than any run makes
CALLS_STEP = 1 if IS_SWEEP else 3


class FailurePattern(NamedTuple):
    """The way a disk fails: so many calls in a row, with this error, after having done it or half of it."""

    row: int
    error: int
    done_all_the_same: bool = False
    half_done: bool = False


MODES = {
    "once": FailurePattern(1, errno.EIO),
    "once but done": FailurePattern(1, errno.EIO, done_all_the_same=True),
    "three times": FailurePattern(3, errno.EIO),
    "three times but done": FailurePattern(3, errno.EIO, done_all_the_same=True),
    "five times with half written": FailurePattern(5, errno.ENOSPC, half_done=True),
    "full for good": FailurePattern(FOR_GOOD, errno.ENOSPC, half_done=True),
    "broken for good": FailurePattern(FOR_GOOD, errno.EIO),
}


class CountingFailureDisk(Disk):
    """Fails from the n-th call on; what it does besides is the real thing, but for waiting on the medium."""

    def __init__(self, fail_at: int, mode: FailurePattern) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.mode = mode

    @property
    def has_failed(self) -> bool:
        return self.calls >= self.fail_at

    def _call(self, act: Callable[[], None], half: Callable[[], None] = lambda: None) -> None:
        self.calls += 1
        if self.fail_at <= self.calls < self.fail_at + self.mode.row:
            if self.mode.done_all_the_same:
                act()
            if self.mode.half_done:
                half()
            raise OSError(self.mode.error, os.strerror(self.mode.error))
        act()

    def append(self, fd: int, data: bytes) -> None:
        self._call(lambda: Disk.append(self, fd, data), lambda: Disk.append(self, fd, data[: len(data) * 2 // 3]))

    def sync(self, fd: int) -> None:
        self._call(lambda: None)

    def sync_folder(self, folder: Path) -> None:
        self._call(lambda: None)

    def truncate(self, fd: int, size: int) -> None:
        self._call(lambda: Disk.truncate(self, fd, size))

    def rename(self, source: Path, target: Path) -> None:
        self._call(lambda: Disk.rename(self, source, target))

    def unlink(self, path: Path) -> None:
        self._call(lambda: Disk.unlink(self, path))

    def allocate(self, path: Path, size: int) -> None:
        self._call(lambda: Disk.allocate(self, path, size))

    def open_database(self, folder: Path, **options: Any) -> Any:
        self._call(lambda: None)  # what failed to open is not open, whatever was done
        return Disk.open_database(self, folder, **options)

    def commit(self, transaction: Committable) -> None:
        self._call(lambda: Disk.commit(self, transaction))

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        self._call(lambda: Disk.replace_file(self, path, pieces))


class ExpectedContents:
    """The possible contents of each memory after the run: one, or several if the outcome is unknown."""

    def __init__(self) -> None:
        self.contents: dict[str, set[str | None]] = {}
        self.refused = 0
        self.unknown = 0

    def settle(
        self, memory: Memory, future: "Future[WriteReceipt[None]] | None", error: StoreError | None = None
    ) -> None:
        before = self.contents.setdefault(memory.id, {None})
        try:
            if error is not None:
                raise error
            assert future is not None
            future.result(WAIT_SECONDS)
        except WriteFailure:
            self.refused += 1
        except UnknownOutcome:
            self.unknown += 1
            before.add(memory.content)
        else:
            self.contents[memory.id] = {memory.content}

    def compare(self, folder: Path, why: str) -> None:
        store = Store.open(folder, disk=CountingFailureDisk(FOR_GOOD, MODES["once"]))
        try:
            with store.snapshot() as snapshot:
                found = {memory.id: memory.content for memory in snapshot.memories(limit=CALLS_MAX)}
        finally:
            store.close()
        assert set(found) <= set(self.contents), why
        for memory_id, allowed in self.contents.items():
            assert found.get(memory_id) in allowed, f"{why}: {memory_id} is {found.get(memory_id)!r}, not of {allowed}"
            self.contents[memory_id] = {found.get(memory_id)}  # what was unknown is now known, for good


def start(store: Store, *memories: Memory) -> "Future[WriteReceipt[None]]":
    changes: list[Change] = [PutMemory(data=memory) for memory in memories]
    turn: WriteResult[None] = WriteResult(changes, None)
    return store.transact(lambda _: turn, by="test")


def write_group(store: Store, expected: ExpectedContents, memories: list[Memory]) -> None:
    """Writes them in one commit group: they wait behind a turn that has used up its group's time."""
    gate = threading.Event()

    def hold(_: Any) -> WriteResult[None]:
        gate.wait(WAIT_SECONDS)
        threading.Event().wait(0.006)
        return WriteResult((), None)

    held = store.transact(hold, by="test")
    futures = [(memory, start(store, memory)) for memory in memories]
    gate.set()
    assert isinstance(held.exception(WAIT_SECONDS), StoreError | None)
    for memory, future in futures:
        expected.settle(memory, future)


def run(folder: Path, disk: CountingFailureDisk) -> ExpectedContents:
    """The scripted run: single writes and groups, of both files, edits among them, over several segments."""
    expected = ExpectedContents()
    try:
        store = Store.open(folder, disk=disk, segment_bytes=SEGMENT_BYTES, reserve_bytes=RESERVE_BYTES)
    except (OSError, StoreError):
        return expected
    number = 0

    def fresh(layer: Layer) -> Memory:
        nonlocal number
        number += 1
        return sample_memory(number, f"text {number} " + "word " * 40, layer=layer)

    for layer in ("buffer", "core"):
        memory = fresh(layer)
        expected.settle(memory, start(store, memory))
    write_group(store, expected, [fresh("buffer"), fresh("core"), fresh("buffer")])
    first = sample_memory(1, "text 1, edited", version=2)
    expected.settle(first, start(store, first))
    for _ in range(3):
        memory = fresh("buffer")
        expected.settle(memory, start(store, memory))
    write_group(store, expected, [fresh("core"), fresh("buffer"), sample_memory(1, "text 1, edited again", version=3)])
    last = fresh("buffer")
    expected.settle(last, start(store, last))
    start(store).exception(WAIT_SECONDS)  # behind an empty turn the writer rests
    shutil.copytree(folder, folder.with_name("crashed"))
    store.close()
    return expected


def copy_of(expected: ExpectedContents) -> ExpectedContents:
    copy = ExpectedContents()
    copy.contents = {key: set(value) for key, value in expected.contents.items()}
    return copy


def check_case(folder: Path, mode: FailurePattern, fail_at: int) -> tuple[bool, ExpectedContents]:
    """Runs the script against a disk that fails at the call; whether it did, and what came of the writes."""
    here, crashed = folder / "store", folder / "crashed"
    disk = CountingFailureDisk(fail_at, mode)
    expected = run(here, disk)
    why = f"{mode}, call {fail_at}"
    if crashed.exists():
        outcome = copy_of(expected)
        outcome.compare(crashed, f"{why}: the first start after a crash")
        outcome.compare(crashed, f"{why}: the second start after a crash")
        shutil.rmtree(crashed)
    expected.compare(here, f"{why}: the first start")
    shutil.rmtree(here / "db")
    expected.compare(here, f"{why}: the journal alone")
    shutil.rmtree(here)
    return disk.has_failed, expected


@pytest.mark.parametrize("name", MODES)
def test_no_failing_call_loses_what_was_acknowledged_or_brings_back_what_was_refused(name: str) -> None:
    refused = unknown = 0
    first = 1 + list(MODES).index(name) % CALLS_STEP
    with quick_folder() as folder:
        for fail_at in range(first, CALLS_MAX, CALLS_STEP):
            failed, expected = check_case(folder, MODES[name], fail_at)
            if MODES[name].row == 1:
                assert expected.refused + expected.unknown <= GROUP, (
                    "one failure costs one group, and the store goes on"
                )
            refused += expected.refused
            unknown += expected.unknown
            if not failed:
                break
    assert not failed, "the run never ended untouched"
    assert expected.refused == expected.unknown == 0
    print(f"{name}: up to call {fail_at - 1}, {refused} writes refused, {unknown} of unknown outcome")
    assert refused + unknown > 0
