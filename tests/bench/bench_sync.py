"""The cost of sharing a memory with another device.

    python -m tests.bench.bench_sync [--writes 1000] [--rounds 3] [--changes 10000] [--idle 30] [--carried 0]

Writes: the processor time of a daemon for so many requests, a memory each, until all is in the folder and it is quiet,
with sync against without, a new daemon each, in turns; without a model, so that the share of sync is as large as it can
be. Catch-up: a second store reads so many changes of the first. Idle: a daemon that shares and has nothing to do.
Carried: two daemons of so many memories each, edited on both sides and forgotten, as the tests do with a few; by
copying, by git, and by Syncthing.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.sync.sync_service import SyncService
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult
from tests.bench import harness
from tests.bench.idle import cpu_seconds, idle, wait_until_quiet
from tests.bench.texts import texts
from tests.support.device_folders import by_git, by_syncthing, copying, share_change_and_forget, two_devices
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import opened, sample_memory

PASSPHRASE = "correct horse battery staple"


@contextmanager
def new_daemon(folder: Path, *, shares: bool) -> Iterator[RunningDaemon]:
    """A daemon without a model and without other devices, quiet."""
    with running(folder / "d", {"MNEMO_MODELS_FOLDER": str(folder / "none")}) as daemon:
        if shares:
            with daemon.client() as client:
                client.share(str(folder / "shared"), passphrase=PASSPHRASE, name="bench", create=True)
        assert daemon.process is not None
        wait_until_quiet(daemon.process.pid)
        yield daemon


def seconds_for(writes: int, *, shares: bool) -> float:
    """The processor time of so many writes."""
    with tempfile.TemporaryDirectory(prefix="m") as scratch, new_daemon(Path(scratch), shares=shares) as daemon:
        assert daemon.process is not None
        before = cpu_seconds(daemon.process.pid)
        with daemon.client() as client:
            for number, text in enumerate(islice(texts(writes), writes)):
                client.remember_many([NewMemory(content=f"{number} {text}")])
            if shares:
                client.exchange_changes()
        wait_until_quiet(daemon.process.pid)
        return cpu_seconds(daemon.process.pid) - before


def shared(store: Store) -> SyncService:
    sync = SyncService(store, Disk(), lambda ids, by: None)
    store.on_commit(sync.on_commit)
    return sync


def remember(store: Store, changes: int, together: int = 256) -> Iterator[int]:
    """Write so many memories, a transaction each; yield the bytes of each text once it is durable."""
    for numbered in batched(enumerate(islice(texts(changes), changes)), together):
        memories = [sample_memory(number, f"{number} {text}") for number, text in numbered]
        writes = [store.transact(partial(_decide, memory), by="bench") for memory in memories]
        for memory, each in zip(memories, writes, strict=True):
            each.result()
            yield len(memory.content.encode())


def _decide(memory: Memory, _: Snapshot) -> WriteResult[None]:
    return WriteResult((PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))), None, "add")


def segment_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.seg"))


def share_one_by_one(changes: int) -> None:
    """Shows what changes take in the folder that are each exchanged alone."""
    with tempfile.TemporaryDirectory(prefix="m") as scratch, opened(Path(scratch) / "store") as store:
        folder, sync = Path(scratch) / "shared", shared(store)
        sync.begin(folder, passphrase=PASSPHRASE, code="", name="first", is_new=True)
        sync.exchange()
        size, before = 0, segment_bytes(folder)
        for bytes_ in remember(store, changes, together=1):
            size += bytes_
            sync.exchange()
        added = segment_bytes(folder) - before
        print(f"exchanged one by one: {added / changes:.0f} bytes a memory, whose text has {size / changes:.0f}")


def catch_up(changes: int) -> None:
    """Shows what it takes to share so many changes, and to read them on another device."""
    with tempfile.TemporaryDirectory(prefix="m") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        first, second = (stack.enter_context(opened(folder / name)) for name in ("first", "second"))
        source, target = shared(first), shared(second)
        source.begin(folder / "shared", passphrase=PASSPHRASE, code="", name="first", is_new=True)
        source.exchange()
        size = sum(remember(first, changes))
        began = time.process_time(), time.perf_counter()
        source.exchange()
        print(f"sharing {changes} changes: {time.process_time() - began[0]:.1f} s of processor time")
        target.begin(folder / "shared", passphrase=PASSPHRASE, code="", name="second", is_new=False)
        began = time.process_time(), time.perf_counter()
        target.exchange()
        cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
        print(f"reading them: {wall:.1f} s ({changes / wall:.0f} a second), {cpu:.1f} s of processor time")
        with second.snapshot() as snapshot:
            assert snapshot.count() == changes
        in_folder = segment_bytes(folder / "shared")
        print(f"in the folder: {in_folder / changes:.0f} bytes a memory, whose text has {size / changes:.0f}")


def main(*, writes: int = 1000, rounds: int = 3, changes: int = 10_000, idle_: float = 30.0, carried: int = 0) -> None:
    if writes:
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds):
            for shares, taken in found.items():
                taken.append(seconds_for(writes, shares=shares))
        alone, with_sync = (1000 * median(taken) / writes for taken in found.values())
        print(f"a write: {alone:.2f} ms of processor time, with sync {with_sync:.2f} ms: {with_sync / alone:.2f} times")
    if changes:
        share_one_by_one(changes // 20)
        catch_up(changes)
    if idle_:
        for shares in (False, True):
            with tempfile.TemporaryDirectory(prefix="m") as scratch, new_daemon(Path(scratch), shares=shares) as daemon:
                assert daemon.process is not None
                print(f"idle {'with' if shares else 'without'} sync: {idle(daemon.process.pid, idle_)}")
    for carrier in (copying, by_git, by_syncthing) if carried else ():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="m") as scratch, two_devices(Path(scratch)) as pair:
            share_change_and_forget(pair, carrier, carried)
        print(f"{carrier.__name__}: twice {carried} memories are the same in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    harness.run(main)
