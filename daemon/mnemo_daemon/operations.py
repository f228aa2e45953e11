"""The long requests under way, for those who wait for them: GET /v1/jobs. SPEC 14

An operation is written by the thread that does the work and read by requests, without a lock: each report replaces one
tuple. An amount given as a function is computed only when it is requested.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mnemo_store.progress import Amount

RATE_SECONDS_MIN = 0.5  # of a step, before a rate can be given


class OperationProgress(NamedTuple):
    """The progress of an operation: of its step, and `seconds` since it began."""

    name: str
    step: str
    done: int
    total: int  # 0: not known
    started_at: int  # ms
    seconds: float
    rate: float | None  # of `done`, a second
    seconds_left: float | None  # of the step


class _Step(NamedTuple):
    name: str
    done: Amount
    total: int
    began: float  # monotonic
    first: int  # `done` of its first report


class LongOperation:
    """A long request under way. `report` is a `Progress`."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._started_at = time.time_ns() // 1_000_000
        self._began = clock()
        self._step = _Step("", 0, 0, self._began, 0)

    def report(self, step: str, done: Amount, total: int) -> None:
        """Replace the step under way and its counts."""
        before = self._step
        if step == before.name:
            self._step = before._replace(done=done, total=total)
        else:
            self._step = _Step(step, done, total, self._clock(), 0 if callable(done) else done)

    def progress(self) -> OperationProgress:
        """Return the progress so far, with a rate where one is known."""
        step, now = self._step, self._clock()
        done = step.done() if callable(step.done) else step.done
        if step.total:
            done = min(done, step.total)
        elapsed = now - step.began
        rate = (done - step.first) / elapsed if elapsed >= RATE_SECONDS_MIN and done > step.first else None
        left = (step.total - done) / rate if rate and step.total else None
        return OperationProgress(
            self.name, step.name, done, step.total, self._started_at, now - self._began, rate, left
        )  # fmt: skip


class OperationRegistry:
    """The operations under way, in the order in which they began."""

    def __init__(self) -> None:
        self._under_way: dict[int, LongOperation] = {}
        self._followed: dict[str, tuple[LongOperation, Callable[[], bool]]] = {}

    @contextlib.contextmanager
    def running(self, operation: LongOperation | str) -> Iterator[LongOperation]:
        """List an operation within the block."""
        entered = LongOperation(operation) if isinstance(operation, str) else operation
        self._under_way[id(entered)] = entered
        try:
            yield entered
        finally:
            del self._under_way[id(entered)]

    def follow(self, operation: LongOperation, is_done: Callable[[], bool]) -> None:
        """List an operation that goes on in the background, until `is_done`, in place of an earlier one of its name."""
        self._followed[operation.name] = (operation, is_done)

    def progress(self) -> list[OperationProgress]:
        """Return the progress of all operations. Any thread may ask."""
        for name, (_, is_done) in list(self._followed.items()):
            if is_done():
                self._followed.pop(name, None)
        followed = [operation.progress() for operation, _ in list(self._followed.values())]
        return followed + [each.progress() for each in list(self._under_way.values())]
