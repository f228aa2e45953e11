"""The cost of durability: writes a second and their latency with it and without, next to bare LMDB and SQLite.

    python -m tests.bench.bench_durability [--writers 1,8,64] [--seconds 3] [--folder .run/durability]

One run measures all, on the same disk: the store as it is; the store with every sync left out; LMDB alone, one put of
the same bytes in a transaction, and as many in one transaction as there are writers; SQLite with synchronous=FULL, with
a write-ahead log and with a rollback journal. Writers of LMDB and SQLite take turns by a lock, which is kinder to them
than their own waiting. Nothing else should run meanwhile.
"""

import itertools
import shutil
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from mnemo_store.backend import Snapshot
from mnemo_store.codec import encode, id_key
from mnemo_store.disk import Disk
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult
from tests.bench import harness
from tests.bench.texts import texts
from tests.support.samples import sample_memory

MAP_BYTES = 4 << 30
TEXTS = 1000

Act = Callable[[Memory], None]  # one write, durable on return


class DurabilityFigures(NamedTuple):
    a_second: float
    p50_ms: float
    p95_ms: float

    def said(self) -> str:
        return f"{self.a_second:8.0f}/s  p50 {self.p50_ms:7.2f}  p95 {self.p95_ms:7.2f} ms"


class DiskWithoutSync(Disk):
    """The real disk, which nothing waits for."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass

    def open_database(self, folder: Path, **options: Any) -> Any:
        return super().open_database(folder, **options, sync=False, metasync=False)


@contextmanager
def our_store(folder: Path, disk: Disk) -> Iterator[Act]:
    store = Store.open(folder, disk=disk)

    def act(memory: Memory) -> None:
        def decide(_: Snapshot) -> WriteResult[None]:
            return WriteResult((PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))), None, "add")

        store.transact(decide, by="bench").result()

    try:
        yield act
    finally:
        store.close()


@contextmanager
def bare_lmdb(folder: Path, puts: int) -> Iterator[Act]:
    """Each act is one transaction of so many puts."""
    folder.mkdir()
    lock = threading.Lock()
    with lmdb.open(str(folder), map_size=MAP_BYTES, lib_version=0) as env:

        def act(memory: Memory) -> None:
            key, data = id_key(memory.id), encode(memory)
            with lock, env.begin(write=True) as transaction:
                for number in range(puts):
                    transaction.put(key + number.to_bytes(2, "big"), data)

        yield act


@contextmanager
def sqlite(folder: Path, journal_mode: str) -> Iterator[Act]:
    folder.mkdir()
    lock = threading.Lock()
    path = folder / "memories.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal_mode}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE memories (id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID")

        def act(memory: Memory) -> None:
            row = (id_key(memory.id), encode(memory))
            with lock:
                connection.execute("INSERT INTO memories VALUES (?, ?)", row)

        yield act


def measure(act: Act, writers: int, seconds: float, puts: int = 1) -> DurabilityFigures:
    """So many threads that write one after the other for so long; `puts`: what one act counts for."""
    took: list[list[float]] = [[] for _ in range(writers)]
    made = list(itertools.islice(texts(TEXTS), TEXTS))
    numbers = itertools.count()
    began = time.perf_counter()

    def work(own: list[float]) -> None:
        while time.perf_counter() - began < seconds:
            number = next(numbers)
            memory = sample_memory(number, f"{number} {made[number % TEXTS]}")
            before = time.perf_counter()
            act(memory)
            own.append((time.perf_counter() - before) * 1000)

    threads = [threading.Thread(target=work, args=(own,)) for own in took]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent, ordered = time.perf_counter() - began, sorted(itertools.chain(*took))
    return DurabilityFigures(
        puts * len(ordered) / spent, statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]
    )


def candidates(folder: Path, writers: int) -> Iterator[tuple[str, Any, int]]:
    yield "mnemod, durable", our_store(folder / "durable", Disk()), 1
    yield "mnemod, no sync", our_store(folder / "unsynced", DiskWithoutSync()), 1
    yield "LMDB, one a transaction", bare_lmdb(folder / "lmdb", 1), 1
    if writers > 1:
        yield f"LMDB, {writers} a transaction", bare_lmdb(folder / "lmdb-groups", writers), writers
    yield "SQLite FULL, write-ahead log", sqlite(folder / "sqlite-wal", "WAL"), 1
    yield "SQLite FULL, rollback journal", sqlite(folder / "sqlite-rollback", "DELETE"), 1


def file_system(folder: Path) -> str:
    """The kind of file system, as the kernel reports it."""
    found = ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if folder.is_relative_to(place) and len(place) > len(found.partition(" ")[0]):
            found = f"{place} ({kind})"
    return found


def main(*, writers: tuple[int, ...] = (1, 8, 64), seconds: float = 3.0, folder: Path = Path(".run/durability")) -> int:
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    where = file_system(folder)
    if "tmpfs" in where:
        print(f"{folder} is in memory ({where}): name a --folder on a real disk")
        return 1
    print(f"on {where}, {seconds:.0f} s each")
    try:
        for count in writers:
            print(f"{count} writers")
            for name, opened, puts in candidates(folder / str(count), count):
                (folder / str(count)).mkdir(exist_ok=True)
                with opened as act:
                    alone = 1 if puts > 1 else count
                    print(f"  {name:32}{measure(act, alone, seconds, puts).said()}", flush=True)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    harness.run(main)
