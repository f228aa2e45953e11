"""Cost of an idle process: processor time and wake-ups, from Linux's /proc."""

import os
import time
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
QUIET_SECONDS = 5.0
QUIET_SHARE_MAX = 0.05  # of one core
PATIENCE_SECONDS = 900.0


class Idle(NamedTuple):
    """A minute's. by_thread: the wake-ups of each thread that had any, the most first."""

    cpu_seconds: float
    wake_ups: float
    by_thread: tuple[float, ...]

    def __str__(self) -> str:
        each = ", ".join(f"{count:.0f}" for count in self.by_thread[:8])
        return f"{self.cpu_seconds:.2f} s of processor time and {self.wake_ups:.0f} wake-ups a minute, by thread {each}"


def idle(pid: int, seconds: float) -> Idle:
    """A wake-up is a voluntary context switch; those of a thread that ends meanwhile are not seen."""
    cpu, switches, began = cpu_seconds(pid), _switches(pid), time.monotonic()
    time.sleep(seconds)
    minutes = (time.monotonic() - began) / 60
    after = _switches(pid)
    counts = sorted(((count - switches.get(thread, 0)) / minutes for thread, count in after.items()), reverse=True)
    return Idle((cpu_seconds(pid) - cpu) / minutes, sum(counts), tuple(count for count in counts if count))


def wait_until_quiet(pid: int) -> float:
    """Returns once what was begun before is done, as far as it can be seen: the seconds it took.

    A process that never is quiet is waited for no longer than PATIENCE_SECONDS: that is then what idling costs.
    """
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_SECONDS:
        cpu = cpu_seconds(pid)
        time.sleep(QUIET_SECONDS)
        if cpu_seconds(pid) - cpu < QUIET_SHARE_MAX * QUIET_SECONDS:
            break
    return time.monotonic() - began


def anonymous_bytes(pid: int) -> int:
    """The memory of a process that no file backs."""
    return 1024 * _number(Path(f"/proc/{pid}/status").read_text(), "RssAnon:")


def cpu_seconds(pid: int) -> float:
    """Of all threads, also of those that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _switches(pid: int) -> dict[str, int]:
    """By thread."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[folder.name] = _number((folder / "status").read_text(), "voluntary_ctxt_switches:")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended
    return found


def _number(text: str, field: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(field))
