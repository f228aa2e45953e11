"""Counts and durations of requests, by method, route and status. Used on the event loop alone. SPEC 13

A request is counted under its route's template, and under "other" where no route matched, so that neither the number of
series nor their labels depend on what clients send.
"""

from bisect import bisect_left
from typing import NamedTuple

# Upper bounds in seconds: a recall takes some 10 ms, a whole export minutes.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NO_ROUTE = "other"
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

    def record(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record a request that was answered. `route` is "" where none matched."""
        series = RequestSeries(method if method in METHODS else NO_ROUTE, route or NO_ROUTE, status)
        self.durations.setdefault(series, DurationHistogram()).add(seconds)
