"""Counts of moments by local day, week, month and hour. SPEC 13"""

import datetime as dt

import numpy as np
import pytest

from mnemo_core.retrieval.histograms import (
    DaySpan,
    TimelineStep,
    counts_by_group,
    counts_within,
    step_bounds,
    whole_steps,
)
from mnemo_core.text.dates.local_days import DAY_MS, HOUR_MS
from mnemo_daemon.errors import Refusal
from mnemo_daemon.memories.memory_columns import range_of

MARCH_29 = 1_774_738_800_000  # 2026-03-29T00:00 at UTC+1; the clocks are at UTC+2 from 01:00 UTC on
LEAP = MARCH_29 + 2 * HOUR_MS


def berlin(at: int) -> int:
    return 2 * HOUR_MS if at >= LEAP else HOUR_MS


def day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def span(first: str, end: str) -> DaySpan:
    return DaySpan(day(first), day(end))


@pytest.mark.parametrize(("step", "first", "end", "whole_first", "whole_end"), [
    ("day", "2026-03-04", "2026-03-05", "2026-03-04", "2026-03-05"),
    ("week", "2026-03-04", "2026-03-05", "2026-03-02", "2026-03-09"),  # a Wednesday
    ("week", "2026-03-02", "2026-03-09", "2026-03-02", "2026-03-09"),  # from Monday to Sunday
    ("week", "2026-03-08", "2026-03-10", "2026-03-02", "2026-03-16"),  # Sunday and Monday
    ("month", "2026-02-28", "2026-03-01", "2026-02-01", "2026-03-01"),
    ("month", "2025-12-31", "2026-01-02", "2025-12-01", "2026-02-01"),
])  # fmt: skip
def test_a_span_is_widened_to_whole_steps(
    step: TimelineStep, first: str, end: str, whole_first: str, whole_end: str
) -> None:
    assert whole_steps(span(first, end), step) == span(whole_first, whole_end)


def test_a_day_begins_at_local_midnight_and_may_have_23_hours() -> None:
    bounds = step_bounds(span("2026-03-28", "2026-03-31"), "day", berlin)
    assert np.diff(bounds).tolist() == [DAY_MS, DAY_MS - HOUR_MS, DAY_MS]
    assert bounds[1] == MARCH_29


def test_an_hour_that_the_clocks_leap_over_is_empty() -> None:
    bounds = step_bounds(span("2026-03-29", "2026-03-30"), "hour", berlin)
    hours = np.diff(bounds)
    assert (len(hours), hours[1], hours[2], hours[3]) == (24, HOUR_MS, 0, HOUR_MS)
    at_three = np.array([LEAP, LEAP + 1], np.int64)  # the clocks show 03:00
    assert np.flatnonzero(counts_within(at_three, bounds)).tolist() == [3]


def test_moments_are_counted_from_the_first_bound_up_to_the_last() -> None:
    bounds = np.array([10, 20, 20, 30], np.int64)
    assert counts_within(np.array([9, 10, 19, 20, 29, 30], np.int64), bounds).tolist() == [2, 0, 2]
    assert counts_within(np.zeros(0, np.int64), bounds).tolist() == [0, 0, 0]


def test_moments_are_counted_by_group() -> None:
    bounds = np.array([10, 20, 30], np.int64)
    moments, groups = np.array([9, 10, 12, 25], np.int64), np.array([2, 0, 2, 2])
    assert counts_by_group(moments, groups, bounds).tolist() == [[1, 0, 1], [0, 0, 1]]
    assert counts_by_group(moments[:0], groups[:0], bounds).shape == (2, 0)


def test_weeks_and_months_have_a_bound_for_each_and_one_for_the_end() -> None:
    assert len(step_bounds(span("2026-03-02", "2026-03-16"), "week", berlin)) == 3
    months = step_bounds(span("2026-01-01", "2026-04-01"), "month", berlin)
    assert np.diff(months).tolist() == [31 * DAY_MS, 28 * DAY_MS, 31 * DAY_MS - HOUR_MS]


NOW = 1_774_000_000_000  # 2026-03-20


@pytest.mark.parametrize(("step", "days"), [("hour", 31), ("day", 400)])
def test_a_range_is_at_most_as_long_as_its_step_allows(step: TimelineStep, days: int) -> None:
    until = NOW + DAY_MS
    assert range_of(until - (days - 1) * DAY_MS, until, step, NOW).days == days
    with pytest.raises(Refusal, match=f"{days + 1} days are too many for the step {step}, which takes {days}"):
        range_of(until - days * DAY_MS, until, step, NOW)


def test_twenty_years_of_weeks_or_months_fit_whatever_days_they_begin_on() -> None:
    for first in range(40):
        until = NOW + first * DAY_MS
        assert range_of(until - 7305 * DAY_MS, until, "week", NOW).days <= 7370
        assert range_of(until - 7305 * DAY_MS, until, "month", NOW).days >= 7305


def test_an_open_range_ends_today_and_one_that_begins_later_with_its_first_day() -> None:
    year = range_of(None, None, "day", NOW)
    assert year.days == 365
    assert range_of(None, None, "hour", NOW) == DaySpan(dt.date.fromordinal(year.end.toordinal() - 1), year.end)
    ahead = range_of(NOW + 9 * DAY_MS, None, "day", NOW)
    assert (ahead.days, (ahead.end - year.end).days) == (1, 9)
