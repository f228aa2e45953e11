"""Counts and durations of requests, by method, route and status. Used on the event loop alone. SPEC 13

A request is counted under its route's template, and under "other" where no route matched, so that neither the number of
series nor their labels depend on what clients send.
"""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from mnemo_client.protocol import operations

# Upper bounds in seconds: a recall takes some 10 ms, a whole export minutes.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NO_ROUTE = "other"
OK = 200
RECALLS_MAX = 20_000  # whose durations wait for `take_recalls`; of more, the last ones
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestSeries(NamedTuple):
    """The labels that a kind of requests shares."""

    method: str
    route: str
    status: int


class DurationHistogram:
    """Numbers of requests by duration; the last number is of those longer than every bucket."""

    def __init__(self) -> None:
        self.numbers = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.numbers[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


class RequestMetrics:
    """The durations since the start, and the number of requests under way."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.durations: dict[RequestSeries, DurationHistogram] = {}
        self._recalls: deque[float] = deque(maxlen=RECALLS_MAX)

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record a request that was answered. `route` is "" where none matched."""
        series = RequestSeries(method if method in METHODS else NO_ROUTE, route or NO_ROUTE, status)
        self.durations.setdefault(series, DurationHistogram()).add(seconds)
        if route == operations.RECALL.path and status == OK:
            self._recalls.append(seconds)

    def take_recalls(self) -> list[float]:
        """Return the seconds of each recall that was answered since the last call. Any thread may call it."""
        taken = []
        while self._recalls:
            taken.append(self._recalls.popleft())
        return taken
