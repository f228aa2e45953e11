"""Scheduling priority: interactive queries preempt background work.

Python runs one thread at a time, and on a laptop the model has as many processors as there are. What is written can
wait for some milliseconds; who asks sits before the screen. Heavy work also waits while the machine runs on battery or
other programs need its processors.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

# After which a thread that computes lets another one go on. Of Python's own 5 ms a question would meet several: while
# ten write, its p95 is a third less with this, and nothing else is slower.
SWITCH_SECONDS = 0.0005
WAIT_SECONDS_MAX = 0.05  # for questions, before any one piece of work: however many are asked, writing goes on

POWER_SUPPLIES = Path("/sys/class/power_supply")
PROCESSOR_TIMES = Path("/proc/stat")
LOOK_SECONDS = 5.0  # over which the use of the processors is measured; an older answer holds until then


class QueryPriority:
    """The queries under way in one daemon. Any thread may ask."""

    def __init__(self, wait_seconds_max: float = WAIT_SECONDS_MAX) -> None:
        self._wait_seconds_max = wait_seconds_max
        self._change = threading.Condition()
        self._queries = 0

    @contextmanager
    def query_running(self) -> Iterator[None]:
        """Count a query as running."""
        with self._change:
            self._queries += 1
        try:
            yield
        finally:
            with self._change:
                self._queries -= 1
                if not self._queries:
                    self._change.notify_all()

    def yield_to_queries(self) -> None:
        """Wait until no query is running, at most WAIT_SECONDS_MAX. Not for threads that answer queries."""
        if self._queries:
            with self._change:
                self._change.wait_for(lambda: not self._queries, self._wait_seconds_max)


def never_yield() -> None:
    """A `yield_to_queries` that never waits."""


class WaitReason(NamedTuple):
    """A reason for heavy work to wait, and how long it may make it wait."""

    text: str
    seconds_max: float


ON_BATTERY = WaitReason("the machine runs on battery", 24 * 3600.0)
BUSY = WaitReason("other programs need the processors", 30 * 60.0)


class _Measurement(NamedTuple):
    """Processor seconds since the machine started, of all programs and of this one, and when they were read."""

    at: float
    total: float
    busy: float
    own: float


class MachineLoad:
    """The use of the machine by other programs. Used by one thread."""

    def __init__(
        self, *, power_supplies: Path = POWER_SUPPLIES, processor_times: Path = PROCESSOR_TIMES,
        own_seconds: Callable[[], float] = lambda: sum(os.times()[:4]), clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._power_supplies = power_supplies
        self._processor_times = processor_times
        self._own_seconds = own_seconds
        self._clock = clock
        self._measured = self._measure()
        self._others_share = 0.0

    def reason_to_wait(self, *, waits_on_battery: bool, busy_percent: int) -> WaitReason | None:
        """Return the reason for heavy work to wait, None when it may go on. busy_percent: share of the processors that
        other programs may use; 100: any."""
        if waits_on_battery and self.is_on_battery():
            return ON_BATTERY
        if busy_percent < 100 and self.others_share() * 100 > busy_percent:
            return BUSY
        return None

    def is_on_battery(self) -> bool:
        """Return whether a battery of the machine, not of a device, is being emptied; False where that is unknown."""
        return any(
            _text(supply / "type") == "Battery"
            and _text(supply / "scope") != "Device"
            and _text(supply / "status") == "Discharging"
            for supply in self._power_supplies.glob("*")
        )

    def others_share(self) -> float:
        """Share of all processors that other programs used lately, 0..1; 0 where nobody tells."""
        if self._clock() - self._measured.at >= LOOK_SECONDS:
            before, self._measured = self._measured, self._measure()
            total = self._measured.total - before.total
            others = (self._measured.busy - before.busy) - (self._measured.own - before.own)
            self._others_share = min(1.0, max(0.0, others / total)) if total > 0.0 else 0.0
        return self._others_share

    def _measure(self) -> _Measurement:
        fields = _text(self._processor_times).partition("\n")[0].split()[1:]
        ticks = [int(field) for field in fields[:8]]  # user nice system idle iowait irq softirq steal, see proc(5)
        if len(ticks) < 8:
            return _Measurement(self._clock(), 0.0, 0.0, self._own_seconds())
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]
        return _Measurement(self._clock(), sum(ticks) / second, (sum(ticks) - idle) / second, self._own_seconds())


def _text(path: Path) -> str:
    """The content of a small file of the system; "" where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
