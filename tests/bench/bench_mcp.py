"""Cost of an agent's connection: what the first one adds to the daemon, and what each bridge needs.

    python -m tests.bench.bench_mcp [RUNS]

A new daemon without a model. Aims: a bridge answers `initialize` within 150 ms of its start against a running daemon,
and holds under 20 MB; 20 sessions at once are served.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mnemo_client.client import Client
from tests.bench import harness
from tests.support.running_daemon import RunningDaemon, running

RUNS = 20
SESSIONS = 20
CALLS = 10  # of each session
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}
RECALL = {"name": "memory_recall", "arguments": {"query": "where is the boat"}}


class BenchAgent:
    """An agent with a bridge of its own."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("mnemo")), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=daemon.environ,
        )  # fmt: skip

    def ask(self, message: dict[str, Any]) -> float:
        """Milliseconds from the request to its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        began = time.perf_counter()
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        assert b'"result"' in self.process.stdout.readline()
        return (time.perf_counter() - began) * 1000

    def greet(self) -> float:
        """Milliseconds from the start of the process to the answer of the handshake."""
        self.ask(INITIALIZE)
        return (time.perf_counter() - self.began) * 1000

    def call(self) -> float:
        return self.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": RECALL})

    def memory(self) -> tuple[float, float]:
        """Resident MB, and those that no other process shares."""
        return memory_of(self.process.pid)

    def end(self) -> None:
        self.process.communicate(timeout=30)


def memory_of(pid: int) -> tuple[float, float]:
    """Resident MB of a process, and those that no other process shares."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    sizes = {words[0]: int(words[1]) / 1000 for words in lines}
    return sizes["Rss:"], sizes["Private_Clean:"] + sizes["Private_Dirty:"]


def report(name: str, values: list[float], unit: str = "ms") -> None:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:<46} least {ordered[0]:7.1f}   p50 {statistics.median(ordered):7.1f}   p95 {p95:7.1f} {unit}")


def recalls_until(done: threading.Event, daemon: RunningDaemon) -> list[float]:
    """Milliseconds of each recall over HTTP, one after the other."""
    taken = []
    with Client(daemon.socket) as client:
        while not done.is_set():
            began = time.perf_counter()
            client.recall("where is the boat")
            taken.append((time.perf_counter() - began) * 1000)
    return taken


def first_use(daemon: RunningDaemon, pool: ThreadPoolExecutor) -> None:
    """Print the cost of the first agent: its own wait, the daemon's memory, and the recalls of others meanwhile."""
    assert daemon.process is not None
    quiet, loaded = threading.Event(), threading.Event()
    threading.Timer(2.0, quiet.set).start()
    report("recall of another client, before", recalls_until(quiet, daemon))
    before = memory_of(daemon.process.pid)
    others = pool.submit(recalls_until, loaded, daemon)
    agent = BenchAgent(daemon)
    print(f"{'first handshake of a daemon':<46} {agent.greet():.0f} ms")
    loaded.set()
    report("recall of another client, while it is loaded", others.result())
    agent.end()
    after = memory_of(daemon.process.pid)
    print(f"{'daemon, before and after':<46} resident {before[0]:.1f} → {after[0]:.1f} MB, "
          f"private {before[1]:.1f} → {after[1]:.1f} MB")  # fmt: skip


def one_at_a_time(daemon: RunningDaemon, runs: int) -> None:
    """The start, a call and the memory of one bridge after the other."""
    started, called, memory = [], [], []
    for _ in range(runs):
        agent = BenchAgent(daemon)
        started.append(agent.greet())
        called += [agent.call() for _ in range(CALLS)]
        memory.append(agent.memory())
        agent.end()
    report("bridge, start to initialized", started)
    report("memory_recall over a bridge", called)
    report("bridge, resident", [resident for resident, _ in memory], "MB")
    report("bridge, private", [private for _, private in memory], "MB")


def all_at_once(daemon: RunningDaemon, pool: ThreadPoolExecutor) -> None:
    """As many sessions at once, each with some calls."""
    began = time.perf_counter()
    agents = [BenchAgent(daemon) for _ in range(SESSIONS)]
    report(f"{SESSIONS} bridges at once, start to initialized", list(pool.map(BenchAgent.greet, agents)))
    calls = list(pool.map(lambda agent: [agent.call() for _ in range(CALLS)], agents))
    report(f"{SESSIONS} at once, memory_recall", [taken for some in calls for taken in some])
    print(f"{'their private memory together':<46} {sum(agent.memory()[1] for agent in agents):.0f} MB; "
          f"all of it in {time.perf_counter() - began:.1f} s")  # fmt: skip
    for agent in agents:
        agent.end()


def main(runs: int = RUNS) -> None:
    print(f"{runs} runs each, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(SESSIONS) as pool,
        running(Path(scratch) / "data", {"XDG_CACHE_HOME": scratch}) as daemon,
    ):
        with daemon.client() as client:
            for number in range(100):
                client.remember(f"The boat lies at berth {number} this year.")
        first_use(daemon, pool)
        one_at_a_time(daemon, runs)
        all_at_once(daemon, pool)


if __name__ == "__main__":
    harness.run(main)
