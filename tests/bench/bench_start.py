"""Cost of a start until the first answer by words: processor time and seconds, with many memories, a full journal.

    python -m tests.bench.bench_start [--memories 10000] [--starts 5] [--clients 10] [--models FOLDER] [--profile]

Starts are measured after a clean end, after a kill behind which some changes are not in the saved views, and after a
kill while clients write and recall, which go on trying meanwhile. Processor time is that of the whole process, from its
beginning until the answer was read. `--profile` shows instead what opening the store and the views takes, function by
function, without a daemon.
"""

import cProfile
import pstats
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_daemon.indexing.views import Views
from mnemo_store.disk import Disk
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import Store, WriteResult
from tests.bench import harness
from tests.bench.bench_durability import DiskWithoutSync
from tests.bench.idle import cpu_seconds
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import AT, sample_id

WAITING_MAX = 200
LOAD_SECONDS = 5.0  # between two kills
BEHIND = 500  # changes that the saved views lack after a kill
FIRST_ANSWER_SECONDS_MAX = 120.0


class Start(NamedTuple):
    """Of one start, until the first answer by words."""

    cpu_seconds: float
    seconds: float
    state: str


def fill(folder: Path, count: int) -> None:
    """Memories, one a change, none of which was ever compacted, and views that have all of them."""
    store = Store.open(folder, disk=DiskWithoutSync())
    views = Views(store, DiskWithoutSync())
    views.open()
    asked: list[Future[Any]] = []
    for number, text in enumerate(texts(count), 1):
        memory = Memory(id=sample_id(number), content=text, created_at=AT, modified_at=AT, event_at=AT)
        turn: WriteResult[None] = WriteResult((PutMemory(data=memory), PutUsage(data=Usage(id=memory.id))), None, "add")
        asked.append(store.transact(lambda _, turn=turn: turn, by="bench"))  # type: ignore[misc]
        if len(asked) >= WAITING_MAX:
            for future in asked:
                future.result()
            asked = []
    for future in asked:
        future.result()
    views.save()
    store.close()


def start(daemon: RunningDaemon) -> Start:
    began = time.perf_counter()
    process = daemon.begin()
    while time.perf_counter() - began < FIRST_ANSWER_SECONDS_MAX:
        try:
            with daemon.client() as client:
                assert client.search("kettle").memories is not None
                cpu, seconds = cpu_seconds(process.pid), time.perf_counter() - began
                return Start(cpu, seconds, client.status().state)
        except MnemoError:
            if process.poll() is not None:
                raise SystemExit(f"the daemon ended:\n{daemon.log.read_text()}") from None
            time.sleep(0.01)
    raise SystemExit("the daemon does not answer")


def told(name: str, starts: list[Start]) -> str:
    cpu = sorted(each.cpu_seconds for each in starts)
    wall = sorted(each.seconds for each in starts)
    return (
        f"{name:26} processor {statistics.median(cpu):5.2f} s (most {cpu[-1]:.2f})   "
        f"seconds {statistics.median(wall):5.2f} (most {wall[-1]:.2f})   then {starts[-1].state}"
    )


def measure(folder: Path, starts: int, clients: int, models: Path | None) -> None:
    daemon = RunningDaemon(folder / "data", {"MNEMO_MODELS_FOLDER": str(models or folder / "models")})
    clean, killed = [], []
    for _ in range(starts):
        clean.append(start(daemon))
        daemon.stop()
    for _ in range(starts):
        daemon.start()
        with daemon.client() as client:
            for number in range(BEHIND):
                client.remember(f"Said after the views were saved, number {number} of this life.")
        daemon.kill()
        killed.append(start(daemon))
        daemon.stop()
    print(told("after a clean end", clean))
    print(told(f"after a kill, {BEHIND} behind", killed))
    if clients:
        print(told(f"under {clients} clients", under_load(daemon, clients, starts)))


def under_load(daemon: RunningDaemon, clients: int, count: int) -> list[Start]:
    """Starts while these clients, each a thread of a process of their own, want something at once."""
    script = f"from tests.bench.bench_start import hammer; hammer({str(daemon.socket)!r}, {clients})"
    daemon.start()
    starts = []
    with subprocess.Popen([sys.executable, "-c", script]) as hammering:
        try:
            for _ in range(count):
                time.sleep(LOAD_SECONDS)
                daemon.kill()
                starts.append(start(daemon))
        finally:
            hammering.kill()
    daemon.stop()
    return starts


def hammer(socket: str, clients: int) -> None:
    """Writes and recalls until this process is ended, whether anybody answers or not."""
    threads = [threading.Thread(target=_hammer, args=(Path(socket), number)) for number in range(clients)]
    for thread in threads:
        thread.start()


def _hammer(socket: Path, number: int) -> None:
    said = 0
    while True:
        try:
            with Client(socket) as client:
                while True:
                    said += 1
                    client.remember(f"Client {number} says {said} things about kettle number {said % 97}.")
                    client.recall(f"what does client {number} say about kettles?")
        except MnemoError:
            time.sleep(0.01)


def profile(folder: Path) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    store = Store.open(folder / "data", disk=Disk())
    views = Views(store, Disk())
    views.open()
    profiler.disable()
    store.close()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(35)


def main(
    *, memories: int = 10_000, starts: int = 5, clients: int = 10, models: Path | None = None, profile_: bool = False
) -> None:
    with tempfile.TemporaryDirectory(prefix="m") as scratch:
        fill(Path(scratch) / "data", memories)
        if profile_:
            profile(Path(scratch))
        else:
            measure(Path(scratch), starts, clients, models)


if __name__ == "__main__":
    harness.run(main)
