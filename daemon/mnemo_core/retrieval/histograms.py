"""Counts of moments by local day, week, month or hour, and of durations, for calendars and histograms. SPEC 13

A day begins at the local midnight of a zone, and may have 23 or 25 hours; a week begins on Monday. Durations of answers
are counted in bins that grow by a tenth, from which any quantile is known to 5%: a day of answers is at most BINS
numbers, and two days are added by adding their counts.
"""

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.dates.local_days import DAY_MS, HOUR_MS, Zone, days_after, moment_of, month_start

TimelineStep = Literal["hour", "day", "week", "month"]
DAYS_MAX: dict[TimelineStep, int] = {"hour": 31, "day": 400, "week": 7370, "month": 7370}
"""The longest range of each step, in days: 20 years and the rest of a week or month at either end of the last two."""
HOURS = 24

Moments = NDArray[np.int64]


class DaySpan(NamedTuple):
    """Days from `first` up to but not including `end`."""

    first: dt.date
    end: dt.date

    @property
    def days(self) -> int:
        return (self.end - self.first).days


def whole_steps(span: DaySpan, step: TimelineStep) -> DaySpan:
    """The span, widened to whole steps; hours and days are whole already. Raises OverflowError at the ends of the
    calendar."""
    first, last = span.first, days_after(span.end, -1)
    if step == "week":
        return DaySpan(days_after(first, -first.weekday()), days_after(last, 7 - last.weekday()))
    if step == "month":
        return DaySpan(month_start(first.year, first.month), month_start(last.year, last.month + 1))
    return span


def step_bounds(span: DaySpan, step: TimelineStep, zone: Zone) -> Moments:
    """The moments (ms) at which the steps of a span of whole steps begin, and at which the last one ends. Of `hour`, 24
    for each day: an hour that the clocks leap over is empty, one that they show twice has both."""
    if step == "hour":
        return _hour_bounds(span, zone)
    days, day = [], span.first
    while day < span.end:
        days.append(day)
        day = month_start(day.year, day.month + 1) if step == "month" else days_after(day, 7 if step == "week" else 1)
    return np.array([moment_of(each, 0, zone) for each in [*days, day]], np.int64)


def counts_within(moments: Moments, bounds: Moments) -> NDArray[np.intp]:
    """The number of moments in each step; those outside all steps are not counted."""
    places = np.searchsorted(bounds, moments, side="right") - 1
    inside = (places >= 0) & (places < len(bounds) - 1)
    return np.bincount(places[inside], minlength=len(bounds) - 1)


def counts_by_group(moments: Moments, groups: NDArray[Any], bounds: Moments) -> NDArray[np.intp]:
    """The number of moments by step and group: a row for each step, a column for each code from 0 to the highest."""
    places = np.searchsorted(bounds, moments, side="right") - 1
    inside = (places >= 0) & (places < len(bounds) - 1)
    width = int(groups.max(initial=-1)) + 1
    flat = places[inside] * width + groups[inside]
    return np.bincount(flat, minlength=(len(bounds) - 1) * width).reshape(len(bounds) - 1, width)


def _hour_bounds(span: DaySpan, zone: Zone) -> Moments:
    bounds: list[int] = []
    midnight = moment_of(span.first, 0, zone)
    for count in range(span.days):
        day, following = days_after(span.first, count), moment_of(days_after(span.first, count + 1), 0, zone)
        if following - midnight == DAY_MS:
            bounds += range(midnight, following, HOUR_MS)
        else:
            bounds += (moment_of(day, hour * HOUR_MS, zone) for hour in range(HOURS))
        midnight = following
    return np.array([*bounds, midnight], np.int64)


LEAST_MS = 0.1  # what is faster is in the first bin
GROWTH = 1.1  # from a bin to the next
BINS = 160  # up to 6 minutes; what is slower is in the last one

Counts = Mapping[int, int]  # by bin


def add_times(counts: Counts, seconds: Iterable[float]) -> dict[int, int]:
    """The counts with these durations."""
    added = dict(counts)
    for each in seconds:
        place = 0 if each * 1000 <= LEAST_MS else min(BINS - 1, int(math.log(each * 1000 / LEAST_MS, GROWTH)))
        added[place] = added.get(place, 0) + 1
    return added


def quantile_ms(counts: Counts, share: float) -> float | None:
    """The duration in ms that this share of the answers did not exceed, as the geometric middle of its bin; None of no
    answers. share: above 0, up to 1."""
    wanted = math.ceil(share * sum(counts.values()))
    for place in sorted(counts):
        wanted -= counts[place]
        if wanted <= 0:
            return float(LEAST_MS * GROWTH ** (place + 0.5))
    return None
