"""Every system call by which a scripted day changes its disk is refused, one after the other, by strace.

For each call and each n: the day runs in a process of its own whose n-th such call on a file of the data folder fails
(strace counts by thread, so that it is the n-th of each), once with EIO, and from there on with ENOSPC. The process
must come to its end; what it read meanwhile must be what was acknowledged, or an error; and what it was told must be
what is there after a restart. Then n + 1, until a run is untouched.
"""

import itertools
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.support.durability_checks import examine
from tests.support.power_loss import PROJECT
from tests.support.samples import MEMORY_DISK
from tests.support.scripted_workload import AcknowledgedWrites, WriteReport

SECONDS_MAX = 120
CALLS = (
    "fdatasync", "fsync", "rename", "write", "pwrite64", "writev", "pwritev", "ftruncate", "fallocate", "openat",
    "mkdir", "unlink",
)  # fmt: skip
MODES = {"EIO once": ("EIO", ""), "ENOSPC from then on": ("ENOSPC", "+")}
# strace follows paths, not folders: what the day's files are called.
NAMES = (
    "", "lock", "store.json", "store.json.new", "reserve", "journal", "db", "db/data.mdb", "db/lock.mdb", "db.new",
    "db.new/data.mdb", "db.new/lock.mdb", "views", "views/columns.view", "views/columns.view.new", "views/words.view",
    "views/words.view.new",
    *(
        f"journal/{name}{number}.jsonl{new}"
        for name in ("long_term", "short_term", "snapshot")
        for number in ("", *(f".{n:06d}" for n in range(1, 13)))
        for new in ("", ".new")
    ),
)  # fmt: skip


class RefusedCall(NamedTuple):
    call: str
    mode: str
    n: int

    def said(self) -> str:
        return f"{self.call} {self.n}, {self.mode}"


@dataclass
class Sweep:
    """The results of all runs."""

    runs: int = 0
    touched: int = 0
    reported: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(
        self, case: RefusedCall, refused: int, account: AcknowledgedWrites, problems: list[str], reasons: list[str]
    ) -> None:
        self.runs += 1
        self.touched += refused > 0
        self.reported.update(account.reported)
        self.reasons.update(re.sub(r"\d+", "N", reason) for reason in reasons)
        if problems:
            self.wrong.append(f"{case.said()}: {'; '.join(problems)}"[:400])


def calls_of_a_day() -> dict[str, int]:
    """The number of times that the busiest thread makes each call on the data folder."""
    with _scratch() as folder:
        status, lines, _, _ = _traced(Path(folder), [], "day")
        assert status == 0, f"a day without faults ended with {status}"
    by_thread: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if match := re.match(r"(\d+) +(\w+)\(", line):
            by_thread[match[1], match[2]] += 1
    return {call: max((n for (_, name), n in by_thread.items() if name == call), default=0) for call in CALLS}


def sweep(every: int) -> Sweep:
    """Each case, or each so-many-th."""
    counts, result = calls_of_a_day(), Sweep()
    # Processes: a store that is closed while another thread forks stays locked until that child has begun its program.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as both:
        for call, mode in itertools.product(CALLS, MODES):
            began, runs, wrong = time.perf_counter(), result.runs, len(result.wrong)
            cases = [RefusedCall(call, mode, n) for n in range(1, counts[call] + 1, every)]
            for case, found in zip(cases, both.map(_try, cases), strict=True):
                result.add(case, *found)
            for n in itertools.count(counts[call] + 1):
                found = both.submit(_try, RefusedCall(call, mode, n)).result()
                result.add(RefusedCall(call, mode, n), *found)
                if not found[0]:
                    break
            said = f"{result.runs - runs:4} runs, untouched from the {n}th, {len(result.wrong) - wrong} wrong"
            print(f"  {call:10} {mode:20} {said}, {time.perf_counter() - began:.0f} s", flush=True)
    return result


def _try(case: RefusedCall) -> tuple[int, AcknowledgedWrites, list[str], list[str]]:
    """The number of refused calls; what the day was told; what is wrong; what the store said after the restart."""
    error, on = MODES[case.mode]
    killed = case.n % 2 == 0
    with _scratch() as folder:
        inject = f"inject={case.call}:error={error}:when={case.n}{on}"
        status, lines, reported, errors = _traced(Path(folder), ["-e", inject], "killed" if killed else "day")
        refused = sum("INJECTED" in line for line in lines)
        account, problems = AcknowledgedWrites(), []
        for each in reported:
            account.take(each)
            if each.outcome == "silent":
                problems.append(each.why)
        if status not in (0, -9) or (status == -9 and not killed):
            problems.append(f"the process ended with {status}: {errors[-1:]}")
        if not (Path(folder) / "data" / "journal").exists():  # it never came up, and said so
            return refused, account, problems, []
        found = examine(Path(folder) / "data", account, whole=False)
        return refused, account, problems + found.problems, found.reasons


def _traced(folder: Path, options: list[str], what: str) -> tuple[int, list[str], list[WriteReport], list[str]]:
    """The exit status of a day under strace, what strace wrote, what the day was told, and its complaints."""
    data, trace = folder / "data", folder / "trace"
    paths = [f"-P{data / name}" if name else f"-P{data}" for name in NAMES]
    command = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", str(trace), "-s0", "-e", f"trace={','.join(CALLS)}"]
    command += [*options, *paths, sys.executable, "-m", "tests.support.scripted_workload", str(data), what]
    done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS_MAX, cwd=PROJECT)
    reported = [msgspec.json.decode(line, type=WriteReport) for line in done.stdout.splitlines()]
    return done.returncode, trace.read_text().splitlines(), reported, done.stderr.decode().splitlines()


def _scratch() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="m", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None)


def missing() -> Iterator[str]:
    """The tools that the system lacks for this."""
    try:
        subprocess.run(["strace", "-V"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        yield f"strace cannot be run ({error}): apt install strace"
        return
    probe = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        yield f"strace may not trace here: {probe.stderr.strip()}"
