"""The order in which callers get the one language-model worker: interactive calls before background ones. SPEC 4.2

Within a priority, first come is first served. The queue is bounded for each priority, so that background calls never
keep an interactive one out. The number of models that are loaded at once is bounded, too.
"""

import bisect
import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator

POLL_S = 0.05  # between two looks whether a call that waits was cancelled


class CallQueue:
    """A queue for one resource; safe in any thread."""

    def __init__(self, waiting_max: int) -> None:
        """waiting_max: callers that wait at once, for each priority."""
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._waiting: list[tuple[bool, int]] = []  # (is a background call, arrival), the next one first
        self._arrivals = itertools.count()
        self._is_taken = False

    @contextlib.contextmanager
    def turn(
        self, until: float, *, is_interactive: bool = True, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Hold the resource alone inside. Raises TimeoutError after until (monotonic seconds), InterruptedError when
        cancelled, OverflowError where too many wait already; a caller that waits for ever is always let in."""
        ticket = (not is_interactive, next(self._arrivals))
        with self._changed:
            if (
                until < math.inf
                and sum(is_background == ticket[0] for is_background, _ in self._waiting) >= self._waiting_max
            ):
                raise OverflowError
            bisect.insort(self._waiting, ticket)
            try:
                while self._is_taken or self._waiting[0] != ticket:
                    if is_cancelled():
                        raise InterruptedError
                    if (left := until - time.monotonic()) <= 0:
                        raise TimeoutError
                    self._changed.wait(min(left, POLL_S))
                self._is_taken = True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def has_interactive(self) -> bool:
        """Return whether an interactive call waits."""
        return any(not is_background for is_background, _ in self._waiting[:1])

    def __len__(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)


class WorkerSlots:
    """Places for loaded models; safe in any thread."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.RLock()  # unloading a model gives its place back
        self._unloading: dict[object, Callable[[], None]] = {}  # by owner, the one that was loaded first comes first

    def take(self, owner: object, unload_if_idle: Callable[[], None]) -> None:
        """Give the owner a place, if need be that of a model without a call. Raises OverflowError without one."""
        with self._lock:
            for unload_other in list(self._unloading.values()):
                if len(self._unloading) < self.count:
                    break
                unload_other()
            if len(self._unloading) >= self.count:
                raise OverflowError
            self._unloading[owner] = unload_if_idle

    def give_back(self, owner: object) -> None:
        """Free the place of the owner, if it has one."""
        with self._lock:
            self._unloading.pop(owner, None)
