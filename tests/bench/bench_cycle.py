"""Recall through the socket while cycles of consolidation run, in turns with the quiet daemon.

    python -m tests.bench.bench_cycle [--size 100000] [--clients 1,4] [--turns 6] [--queries 100] [--keep FOLDER]
                                      [--idle 60]

The store is that of `tests.bench.bench_recall --keep`; it is copied, as a cycle changes it. Its memories are all new,
so that the first cycles have as much to do as a step may. Cycles are requested one after the other by a process of its
own. Every question is new, and so is embedded. --idle: at the end what the daemon costs while nothing happens, with a
cycle due every minute.
"""

import itertools
import multiprocessing
import os
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from mnemo_client.client import Client
from tests.bench import harness
from tests.bench.bench_recall import ask_together
from tests.bench.filled import filled
from tests.bench.idle import idle, wait_until_quiet
from tests.bench.tables import percentiles, show
from tests.bench.texts import questions
from tests.support.running_daemon import RunningDaemon

PLACES = (50, 95, 99)
USED = 300  # questions that are asked before, whose answers are touched


def consolidate(socket: Path, may_run: Event, ending: Event, reports: "multiprocessing.Queue[Any]") -> None:
    """Request one cycle after the other while `may_run` is set; put the report of each."""
    with Client(socket).with_long_timeout() as client:
        while not ending.is_set():
            if may_run.wait(0.1) and not ending.is_set():
                began = time.monotonic()
                cycle = client.consolidate(namespace="*").cycle
                took = time.monotonic() - began
                reports.put((took, [(step.name, step.milliseconds, step.counts) for step in cycle.steps]))


@contextmanager
def consolidating(socket: Path) -> Iterator[tuple[Event, "multiprocessing.Queue[Any]"]]:
    context = multiprocessing.get_context("spawn")
    may_run, ending, reports = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=consolidate, args=(socket, may_run, ending, reports))
    process.start()
    try:
        yield may_run, reports
    finally:
        ending.set()
        process.join()


def measure(daemon: RunningDaemon, size: int, clients: Sequence[int], turns: int, queries: int) -> None:
    asked = questions(queries * turns * 2 * len(clients))
    took: dict[str, list[float]] = defaultdict(list)
    cycles: list[tuple[float, Any]] = []
    with daemon.client().with_long_timeout() as client:
        for question in questions(USED, seed=5):
            client.recall(question)
    with consolidating(daemon.socket) as (may_run, reports):
        parts = iter([asked[at :: turns * 2 * len(clients)] for at in range(len(asked))])
        for _, count in itertools.product(range(turns), clients):
            for name in ("quiet", "during cycles"):
                if name != "quiet":
                    may_run.set()
                    time.sleep(0.2)
                took[f"{count} client{'s' * (count > 1)}, {name}"] += ask_together(daemon, count, next(parts), "auto")[
                    0
                ]
                may_run.clear()
                time.sleep(1.0)
                while not reports.empty():
                    cycles.append(reports.get())
    rows: dict[str, list[object]] = {}
    for count in clients:
        name = f"{count} client{'s' * (count > 1)}"
        quiet, busy = took[f"{name}, quiet"], took[f"{name}, during cycles"]
        rows[f"{name}, quiet"] = [percentiles(quiet, PLACES), ""]
        times = [np.percentile(busy, place) / np.percentile(quiet, place) for place in (50, 95)]
        rows[f"{name}, during cycles"] = [percentiles(busy, PLACES), "p50 × {:.2f}  p95 × {:.2f}".format(*times)]
    show(f"{size:,} memories, ranker auto", ["milliseconds, as asked", "busy over quiet"], rows)
    show_cycles(cycles)


def show_cycles(cycles: list[tuple[float, Any]]) -> None:
    """The work of each step."""
    times: dict[str, list[float]] = defaultdict(list)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for _, steps in cycles:
        for name, milliseconds, counted in steps:
            times[name].append(milliseconds)
            counts[name].update(counted)
    seconds = [took for took, _ in cycles]
    rows = {name: [percentiles(values), ", ".join(f"{k} {n}" for k, n in counts[name].items())]
            for name, values in times.items()}  # fmt: skip
    show(f"{len(cycles)} cycles, {np.mean(seconds):.1f} s each", ["milliseconds", "did"], rows)


def main(
    *, size: int = 100_000, clients: tuple[int, ...] = (1, 4), turns: int = 6, queries: int = 100,
    keep: Path | None = None, idle_: float = 0.0,
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch, harness.embedding_service() as service:
        embedder = service.current()
        assert embedder is not None
        own = f"{size}-embedded"
        kept = (keep or Path(scratch) / "kept") / own
        if not (kept / "filled.json").exists():
            with filled(size, embedder, kept, is_made=False):
                pass
        shutil.copytree(kept, Path(scratch) / own, ignore=shutil.ignore_patterns("run"))
        os.environ["MNEMO_LLM_LEVEL"] = "off"  # it works in a process of its own: bench_recall --llm
        os.environ["MNEMO_LIFECYCLE_INTERVAL_MINUTES"] = "1" if idle_ else "0"
        with filled(size, embedder, Path(scratch) / own, is_made=False) as (daemon, _):
            measure(daemon, size, clients, turns, queries)
            if idle_:
                assert daemon.process is not None
                quiet = wait_until_quiet(daemon.process.pid)
                print(f"\nIdle, quiet after {quiet:.0f} s: {idle(daemon.process.pid, idle_)}", flush=True)


if __name__ == "__main__":
    harness.run(main)
