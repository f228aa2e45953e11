"""Scheduling priority: interactive queries preempt background work.

Python runs one thread at a time, and on a laptop the model has as many processors as there are. What is written can
wait for some milliseconds; who asks sits before the screen.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# After which a thread that computes lets another one go on. Of Python's own 5 ms a question would meet several: while
# ten write, its p95 is a third less with this, and nothing else is slower.
SWITCH_SECONDS = 0.0005
WAIT_SECONDS_MAX = 0.05  # for questions, before any one piece of work: however many are asked, writing goes on


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
