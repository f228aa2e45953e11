"""Latency of one client, and memory of the daemon, while others are many, slow or rude.

    python -m tests.bench.bench_load [--seconds 20] [--clients 1000] [--requests 100000] [--only NAME,…] [--h2load]

Prints, for the quiet daemon and for each attack of tests.bench.load_attacks: p50 and p95 of a recall of another process
every 20 ms, on one connection; p95 of one that connects for each recall; both p95 as multiples of the quiet ones; the
largest resident memory and the most open files of the daemon while it lasts, and after it; and the attack's answers by
status. Each attack is a process of its own, and both share the processors with the daemon: `idle loop` is a process
that only computes, and shows what that alone costs. With --h2load, its throughput over the socket, too.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mnemo_client.errors import MnemoError
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecallRequest
from tests.bench import harness
from tests.bench.load_attacks import ASK, NAMES, RECALL
from tests.bench.texts import questions, texts
from tests.support.running_daemon import RunningDaemon

MEMORIES = 5000
PROBE_SECONDS = 0.02  # between two recalls of the client that is measured
SETTLE_SECONDS = 2.0
BUSY_PROGRAM = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


class Latencies(NamedTuple):
    """Milliseconds of recalls: on one connection, and on a new one each."""

    kept: list[float]
    new: list[float]
    refused: list[str]


class Footprint(NamedTuple):
    """The most that the daemon needed, and what it needs now."""

    peak_mb: float
    now_mb: float
    peak_files: int
    now_files: int


class Sampler(threading.Thread):
    """Looks at the daemon's memory and open files ten times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_mb = 0.0
        self.peak_files = 0
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            self.peak_mb = max(self.peak_mb, resident_mb(self.pid))
            self.peak_files = max(self.peak_files, len(os.listdir(f"/proc/{self.pid}/fd")))

    def footprint(self) -> Footprint:
        self.is_over.set()
        self.join()
        return Footprint(self.peak_mb, resident_mb(self.pid), self.peak_files, len(os.listdir(f"/proc/{self.pid}/fd")))


def resident_mb(pid: int) -> float:
    """Anonymous resident memory: without the mapped database, which is the kernel's to give back."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def p(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else float("nan")


def probe(daemon: RunningDaemon, seconds: float) -> Latencies:
    took, until = Latencies([], [], []), time.monotonic() + seconds
    asked = itertools.cycle([RecallRequest(query=question, top_k=5, dry=True) for question in questions(200)])
    with daemon.client() as kept:
        while time.monotonic() < until:
            for latencies in (took.kept, took.new):
                began = time.perf_counter()
                try:
                    if latencies is took.kept:
                        kept.recall(next(asked))
                    else:
                        with daemon.client() as fresh:
                            fresh.recall(next(asked))
                except MnemoError as error:
                    took.refused.append(str(error))
                latencies.append(1000 * (time.perf_counter() - began))
                time.sleep(PROBE_SECONDS)
    return took


def attacked(daemon: RunningDaemon, command: list[str], seconds: float) -> tuple[Latencies, Footprint, str]:
    assert daemon.process is not None
    sampler = Sampler(daemon.process.pid)
    sampler.start()
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as attack:
        time.sleep(1.0)  # it begins
        took = probe(daemon, seconds - 2.0)
        output = attack.communicate()[0]
    time.sleep(SETTLE_SECONDS)
    return took, sampler.footprint(), output


def row(name: str, took: Latencies, quiet: Latencies, footprint: Footprint | None, counts: str) -> str:
    kept, new = p(took.kept, 0.95), p(took.new, 0.95)
    ratios = f"{kept / p(quiet.kept, 0.95):5.1f}× {new / p(quiet.new, 0.95):5.1f}×"
    size = (
        ""
        if footprint is None
        else (f"{footprint.peak_mb:7.0f} {footprint.now_mb:5.0f} MB {footprint.peak_files:6d} {footprint.now_files:4d}")
    )
    if took.refused:
        counts += f"; of the client that is measured {len(took.refused)} refused: {took.refused[0]}"
    return f"{name:14} {p(took.kept, 0.5):7.1f} {kept:7.1f} {new:7.1f} ms {ratios} {size:30} {counts}"


def h2load(path: Path) -> None:
    with tempfile.NamedTemporaryFile() as body:
        body.write(RECALL)
        body.flush()
        command = [
            "h2load",
            "--h1",
            "-n",
            "20000",
            "-c",
            "100",
            "-d",
            body.name,
            "-B",
            f"unix:{path}",
            "http://x/v1/recall",
        ]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(
    *, seconds: float = 20.0, clients: int = 1000, requests: int = 100_000, only: str = "", h2load_: bool = False
) -> None:
    wanted = [name for name in only.split(",") if name] or ["idle loop", *NAMES, "all requests"]
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        daemon = RunningDaemon(Path(folder) / "data", {"MNEMO_MODELS_FOLDER": f"{folder}/models"})
        daemon.start()
        made = list(texts(MEMORIES))
        with daemon.client() as client:
            for start in range(0, MEMORIES, 500):
                client.remember_many([NewMemory(content=text) for text in made[start : start + 500]])
        time.sleep(SETTLE_SECONDS)
        quiet = probe(daemon, seconds / 2)
        print(f"{len(ASK)} bytes a request; {clients} clients; {MEMORIES} memories")
        print(f"{'':14} {'p50':>7} {'p95':>7} {'new':>7}    {'ratio':>6} {'new':>6}   peak   now       files  now")
        print(row("quiet", quiet, quiet, None, ""), flush=True)
        for name in wanted:
            module = ["-m", "tests.bench.load_attacks"]
            seconds = seconds
            match name:
                case "idle loop":
                    command = ["-c", BUSY_PROGRAM.format(seconds=seconds)]
                case "all requests":
                    command = [*module, "recalls", str(daemon.socket), "3600", "--clients", "50", "--requests",
                               str(requests)]  # fmt: skip
                case _:
                    command = [*module, name, str(daemon.socket), str(seconds), "--clients", str(clients)]
            began, quiet = time.monotonic(), probe(daemon, max(3.0, seconds / 4))
            took, footprint, counts = attacked(daemon, command, seconds)
            counts = " ".join(f"{status}: {count}" for status, count in sorted(json.loads(counts or "{}").items()))
            print(row(name, took, quiet, footprint, f"{counts} ({time.monotonic() - began:.0f} s)"), flush=True)
        print(row("quiet again", probe(daemon, seconds / 2), quiet, None, ""))
        if h2load_:
            h2load(daemon.socket)
        daemon.stop()


if __name__ == "__main__":
    harness.run(main)
