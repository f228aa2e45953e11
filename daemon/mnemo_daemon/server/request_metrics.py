"""Counts and durations of requests, and the text format of Prometheus for these and other metrics. SPEC 13

Requests are counted by method, route and status, on the event loop alone.

A request is counted under its route's template, and under "other" where no route matched, so that neither the number of
series nor their labels depend on what clients send.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

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


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


class Exposition:
    """A page of metrics, written family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: Literal["gauge", "counter"], help_text: str, samples: Iterable[tuple[Labels, float]]
    ) -> None:
        """Write a family; one without samples is left out."""
        lines = [_line(name, labels, value) for labels, value in samples]
        if lines:
            self._lines += [*_head(name, kind, help_text), *lines]

    def gauge(self, name: str, help_text: str, value: float) -> None:
        """Write a family of one sample."""
        self.family(name, "gauge", help_text, [({}, value)])

    def histogram(
        self, name: str, help_text: str, bounds: Sequence[float],
        series: Iterable[tuple[Labels, Sequence[int], float]],
    ) -> None:  # fmt: skip
        """Write a histogram: of each series its labels, the numbers of each bucket and of those beyond, and the sum."""
        lines: list[str] = []
        for labels, numbers, total in series:
            count = 0
            for bound, number in zip((*map(_number, bounds), "+Inf"), numbers, strict=True):
                count += number
                lines.append(_line(f"{name}_bucket", {**labels, "le": bound}, count))
            lines += [_line(f"{name}_sum", labels, total), _line(f"{name}_count", labels, count)]
        if lines:
            self._lines += [*_head(name, "histogram", help_text), *lines]

    def encode(self) -> bytes:
        """Return the page."""
        return "".join(f"{line}\n" for line in self._lines).encode()


def _head(name: str, kind: str, help_text: str) -> list[str]:
    escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {escaped}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
