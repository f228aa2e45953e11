"""Memory of the daemon in use: private memory after so many writes and recalls, and after a compact.

    python -m tests.bench.bench_memory [--memories 2000] [--operations 200000] [--samples 10] [--clients 4]
                                       [--models FOLDER] [--on-disk]

Half of the operations are recalls, half writes by key over the same memories, so that what is remembered stays as much.
Private memory is Private_Dirty of /proc/PID/smaps, but for the mapped database: on a disk in memory (/dev/shm, which is
taken without --on-disk) each of its pages counts as dirty, and it grows with the history. Without --models nothing is
embedded.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.texts import texts
from tests.running import RunningDaemon
from tests.samples import quick_folder

SETTLE_SECONDS = 2.0


def private_megabytes(pid: int) -> float:
    kibibytes, is_database = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_database = line.endswith(".mdb")
        elif line.startswith("Private_Dirty:") and not is_database:
            kibibytes += int(line.split()[1])
    return kibibytes / 1024


def work(daemon: RunningDaemon, said: list[str], memories: int, operations: int, seed: int) -> None:
    """One client's operations: a write by key, a recall, and so on."""
    chance = random.Random(seed)
    with daemon.client() as client:
        for number in range(operations // 2):
            key = chance.randrange(memories)
            client.remember(f"{chance.choice(said)} {seed} {number}", key=f"key-{key}")
            client.recall(chance.choice(said), dry=True)


def measure(daemon: RunningDaemon, options: argparse.Namespace) -> None:
    daemon.start()
    assert daemon.process is not None
    pid, said = daemon.process.pid, list(texts(max(options.memories, 5000)))
    try:
        with daemon.client() as client:
            for number in range(options.memories):
                client.remember(said[number], key=f"key-{number}")
        if options.models:
            daemon.wait_for_vectors()
        began = time.perf_counter()
        per_sample = options.operations // options.samples
        table = [(0, private_megabytes(pid))]
        print(f"{0:9,} operations  {table[0][1]:7.1f} MB", flush=True)
        for sample in range(1, options.samples + 1):
            with ThreadPoolExecutor(options.clients) as pool:
                each = per_sample // options.clients
                seeds = range(sample * options.clients, (sample + 1) * options.clients)
                for done in [pool.submit(work, daemon, said, options.memories, each, seed) for seed in seeds]:
                    done.result()
            time.sleep(SETTLE_SECONDS)
            table.append((sample * per_sample, private_megabytes(pid)))
            gained = table[-1][1] - table[-2][1]
            seconds = time.perf_counter() - began
            print(f"{table[-1][0]:9,} operations  {table[-1][1]:7.1f} MB  {gained:+6.1f}  {seconds:6.0f} s", flush=True)
        for times in range(1, 4):
            with daemon.client() as client:
                client.compact()
            time.sleep(SETTLE_SECONDS)
            print(f"after compact {times}       {private_megabytes(pid):7.1f} MB", flush=True)
    finally:
        daemon.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="How much memory the daemon holds as it is used.")
    parser.add_argument("--memories", type=int, default=2000)
    parser.add_argument("--operations", type=int, default=200_000)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--models", type=Path, help="the folder of the models; without it there is none")
    parser.add_argument("--on-disk", action="store_true", help="in a folder on a disk, where every write is synced")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="m") if options.on_disk else quick_folder() as scratch:
        models = str(options.models or Path(scratch) / "models")
        measure(RunningDaemon(Path(scratch) / "data", {"MNEMO_MODELS_FOLDER": models}), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
