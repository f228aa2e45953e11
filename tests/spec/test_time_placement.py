"""Memories in and outside the time that a question names. SPEC 7.5a"""

from typing import Any

import numpy as np
import pytest

from mnemo_core.retrieval import time_placement
from mnemo_core.retrieval.time_placement import TimeColumns, TimePlacement

DAY = 86_400_000
BEGIN, UNTIL = 10 * DAY, 12 * DAY  # the interval of all questions here


def columns(**given: list[Any]) -> TimeColumns:
    count = len(next(iter(given.values())))
    event_at, *told = (np.array(given.get(name, [0] * count), np.int64) for name in TimeColumns._fields[:5])
    is_event = np.array(given.get("is_event", [True] * count), np.bool_)
    is_aside = np.array(given.get("is_aside", [False] * count), np.bool_)
    weekdays = np.array(given.get("weekdays", [0] * count), np.uint8)
    return TimeColumns(event_at, told[0], told[1], told[2], told[3], weekdays, is_event, is_aside)


def place(words: int = 9, days: int = 0, **given: Any) -> TimePlacement:
    made = columns(**given)
    return time_placement.place_in_time(made, np.full(len(made.event_at), words), BEGIN, UNTIL, days)


def test_what_takes_place_on_a_weekday_of_a_time_ahead_lies_inside() -> None:
    given: dict[str, Any] = {"event_at": [0, 0, UNTIL], "weekdays": [0b0100, 0b1000, 0b0100]}
    found = place(days=0b0110, **given)
    assert found.is_inside.tolist() == [True, False, False]  # another weekday; said after the time
    assert found.at.tolist()[0] == BEGIN
    assert not found.is_by_text.any()  # its text names no day
    assert not place(**given).is_inside[:2].any()  # of a time in the past nothing is known by its weekday


def test_the_end_of_the_interval_is_not_part_of_it() -> None:
    assert place(event_at=[BEGIN - 1, BEGIN, UNTIL - 1, UNTIL]).is_inside.tolist() == [False, True, True, False]


def test_an_interval_may_be_open_on_a_side() -> None:
    made = columns(event_at=[0, 50 * DAY])
    words = np.array([9, 9])
    assert time_placement.place_in_time(made, words, None, UNTIL).is_inside.tolist() == [True, False]
    assert time_placement.place_in_time(made, words, BEGIN, None).is_inside.tolist() == [False, True]


def test_a_time_that_a_text_names_lies_inside_if_it_is_about_as_long() -> None:
    found = place(event_at=[0, 0, 0], named_from=[10 * DAY, 9 * DAY, 0], named_until=[11 * DAY, 12 * DAY, 365 * DAY])
    assert found.is_inside.tolist() == [True, True, False]
    assert found.is_by_text.tolist() == [True, True, False]
    assert found.at.tolist()[:2] == [10 * DAY, BEGIN]


def test_a_plan_is_ordered_by_the_day_that_it_is_for() -> None:
    found = place(event_at=[BEGIN + 5, 0], told_from=[0, 10 * DAY], told_until=[0, 11 * DAY])
    assert time_placement.order_in_time(found).tolist() == [1, 0]
    assert time_placement.order_in_time(found, newest_first=True).tolist() == [0, 1]


@pytest.mark.parametrize(
    "behind",
    [
        {"is_event": [False, True]},
        {"is_aside": [True, False]},
        {"told_from": [20 * DAY, 0], "told_until": [21 * DAY, 0]},
    ],
)
def test_what_is_no_event_of_the_time_stands_behind_the_events(behind: dict[str, Any]) -> None:
    found = place(event_at=[BEGIN, BEGIN + 1], **behind)
    assert found.is_inside.all()
    assert time_placement.order_in_time(found).tolist() == [1, 0]


def test_a_short_text_stands_behind() -> None:
    made = columns(event_at=[BEGIN, BEGIN + 1])
    found = time_placement.place_in_time(made, np.array([4, 5]), BEGIN, UNTIL)
    assert time_placement.order_in_time(found).tolist() == [1, 0]


def test_an_event_happened_when_its_text_says_so() -> None:
    made = columns(
        event_at=[9 * DAY, 9 * DAY, 9 * DAY], told_from=[0, 5 * DAY, 9 * DAY - 5], told_until=[0, 6 * DAY, 10 * DAY]
    )
    assert time_placement.event_times(made).tolist() == [9 * DAY, 5 * DAY, 9 * DAY]


def test_being_inside_adds_six_to_the_log_odds() -> None:
    raised = time_placement.with_bonus(np.array([0.5, 0.9, 0.999], np.float32), np.array([True, False, False]), 100)
    assert raised.tolist() == pytest.approx([6.0, 2.1972, 6.9068], abs=1e-3)
    few = time_placement.with_bonus(np.array([0.5, 0.5], np.float32), np.array([True, False]), 1)
    assert few.tolist() == pytest.approx([6 + 0.75 * 4.60517, 0.0], abs=1e-3)


def test_of_events_that_score_alike_the_last_or_the_first_comes_first() -> None:
    scores = np.array([0.5, 0.4, 0.1, 0.6, 0.5], np.float32)
    at = np.array([3 * DAY, -5 * DAY, 4 * DAY, 9 * DAY, time_placement.NEVER])  # the last but one is to come
    none, tells = np.zeros(5, np.float32), np.ones(5, np.bool_)
    found = [
        time_placement.order_events(scores, none, tells, at, 8 * DAY, is_last_first=each).tolist()
        for each in (True, False)
    ]
    assert found == [[0, 1], [1, 0]]  # also what happened before 1970


def test_an_event_counts_by_the_words_that_it_holds_and_hardly_where_it_fell_through() -> None:
    scores, at = np.array([0.2, 0.4], np.float32), np.array([3 * DAY, 4 * DAY])
    covered = np.array([1.0, 0.0], np.float32)
    fell_through = np.array([True, False])
    found = time_placement.order_events(scores, covered, fell_through, at, 8 * DAY, is_last_first=True)
    assert found.tolist() == [0]
    assert (
        time_placement.order_events(scores[:0], covered[:0], fell_through[:0], at[:0], 0, is_last_first=True).size == 0
    )
