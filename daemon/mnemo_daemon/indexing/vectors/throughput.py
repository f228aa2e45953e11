"""The rate of work: items a second over the last stretch of it."""

import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_SECONDS = 30.0
SPAN_SECONDS_MIN = 0.5  # below it a rate says nothing


class Throughput:
    """Counts what was done in the last WINDOW_SECONDS. Safe in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._done: deque[tuple[float, float, int]] = deque()  # when a piece began and ended, and its items

    def add(self, began: float, items: int) -> None:
        """Counts a piece of work that ends now."""
        with self._lock:
            self._done.append((began, self._clock(), items))
            self._forget()

    def rate(self) -> float | None:
        """Items a second while there was work; None where too little was done to say."""
        with self._lock:
            self._forget()
            seconds = sum(ended - began for began, ended, _ in self._done)
            items = sum(items for *_, items in self._done)
        return items / seconds if seconds >= SPAN_SECONDS_MIN and items else None

    def _forget(self) -> None:
        oldest = self._clock() - WINDOW_SECONDS
        while self._done and self._done[0][1] < oldest:
            self._done.popleft()
