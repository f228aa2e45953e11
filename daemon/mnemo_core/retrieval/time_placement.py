"""Placement of memories in or outside the time that a question names, from their columns. SPEC 7.5a

A memory is inside where its event time is, or where a time is that its text names ("On 3 December I have the driving
test"): one that is about as long as the interval, since the year that a text names holds every day of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NAMED_LENGTH_MAX = 1.5  # of a time that a text names, in lengths of the interval; a day is never too long [measured]
DAY_MS = 86_400_000
WORDS_MIN = 5  # a shorter text says too little to stand for a day
BONUS = 6.0  # on the log-odds for being inside; 1 to 3 were too little and 12 too much on LoCoMo [measured]
FEW_WEIGHT = 0.75  # of the logarithm of MANY to the number of memories inside: of few, each is the likelier one
MANY = 100
ODDS_MAX = 30.0
ORDER_SHARE_MIN = 0.3  # of the best score, for an event to be among those that are put in order [measured]
COVERED_WEIGHT = 2.0  # of the share of the question's words that its text holds
NO_EVENT_FACTOR = 0.03  # for a text that tells of none
NEVER = -(1 << 62)  # ms; the time of what happened at no known one

Bools = NDArray[np.bool_]
Times = NDArray[np.int64]
Floats = NDArray[np.float32]


class TimeColumns(NamedTuple):
    """The columns of some memories that their place in time follows from. Times in ms; a time from 0 to 0 is none."""

    event_at: Times
    told_from: Times  # of the event that the text describes, where it names its time
    told_until: Times
    named_from: Times  # of another time that the text names
    named_until: Times
    weekdays: NDArray[np.uint8]  # on which it takes place, a bit each, from Monday
    is_event: Bools  # it tells what happened; else what is so
    is_aside: Bools  # said by an agent, undated, or a preference


class TimePlacement(NamedTuple):
    """The place of each memory: whether it is inside, by its text alone or not, when it happened as the order of time
    has it, and whether it stands behind the others there."""

    is_inside: Bools
    is_by_text: Bools
    at: Times
    is_behind: Bools


def place_in_time(
    columns: TimeColumns, words: NDArray[np.integer], begin: int | None, until: int | None, weekdays: int = 0
) -> TimePlacement:
    """The place of each memory to the interval from `begin` to before `until`; None: open on that side.

    words: their lengths. weekdays: of an interval that does not lie in the past, those of its days, a bit each: what
    takes place on one of them is inside.
    """
    low, high = NEVER + 1 if begin is None else begin, -NEVER if until is None else until
    longest = max(DAY_MS, NAMED_LENGTH_MAX * (high - low))
    happened = (columns.event_at >= low) & (columns.event_at < high)
    told, named = (
        _is_named(first, after, low, high, longest)
        for first, after in ((columns.told_from, columns.told_until), (columns.named_from, columns.named_until))
    )
    takes_place = ((columns.weekdays & weekdays) != 0) & (columns.event_at < high)
    is_inside = happened | told | named | takes_place
    has_told = columns.told_until > columns.told_from
    is_by_text = is_inside & ~happened
    is_about_other = happened & has_told & ~told  # said then, about another time
    at = np.where(told, np.maximum(columns.told_from, low), columns.event_at)
    at = np.where(is_by_text & ~told, np.maximum(np.where(named, columns.named_from, low), low), at)
    at = np.where(happened & told, np.where(columns.event_at > at, columns.event_at, at), at)
    is_behind = columns.is_aside | (words < WORDS_MIN) | (is_about_other & ~named) | ~(columns.is_event | told | named)
    is_behind &= ~takes_place
    return TimePlacement(is_inside, is_by_text, at, is_behind & is_inside)


def _is_named(first: Times, after: Times, low: int, high: int, longest: float) -> Bools:
    """A mask of the named times that lie in the interval, or reach into it and are not much longer."""
    found: Bools = (after > first) & (first < high) & (after > low) & (after - first <= longest)
    return found


def event_times(columns: TimeColumns) -> Times:
    """The time at which each happened: that of the event that its text describes, else its event time."""
    has_told = columns.told_until > columns.told_from
    within = (columns.event_at >= columns.told_from) & (columns.event_at < columns.told_until)
    return np.where(has_told & ~within, columns.told_from, columns.event_at)


def order_in_time(
    placement: TimePlacement, *, newest_first: bool = False, centre: int | None = None
) -> NDArray[np.intp]:
    """The places of what is inside in the order of time, what stands behind the others last. centre: the beginning of
    the day that the time is about: what is nearer to it comes first, in days."""
    inside = np.flatnonzero(placement.is_inside)
    at = placement.at[inside]
    days = np.zeros(len(at), np.int64) if centre is None else np.abs((at - centre) // DAY_MS)
    return inside[np.lexsort((inside, -at if newest_first else at, days, placement.is_behind[inside]))]


def order_events(
    scores: Floats, covered: Floats, tells: Bools, at: Times, now: int, *, is_last_first: bool
) -> NDArray[np.intp]:
    """The places of the events that a question for an order is about, in that order: those of the past that score
    nearly as high as the best of them. All arrays have a row for each memory.

    scores: by the question without the words of the order. covered: 0..1, the share of its words that each text holds.
    tells: it may tell of an event. at: when it happened, ms.
    """
    weighed = scores * (1 + COVERED_WEIGHT * covered) * np.where(tells, 1.0, NO_EVENT_FACTOR)
    past = np.flatnonzero((at > NEVER) & (at <= now))
    chosen = past[weighed[past] >= ORDER_SHARE_MIN * weighed[past].max(initial=0.0)]
    ordered: NDArray[np.intp] = chosen[np.argsort(-at[chosen] if is_last_first else at[chosen], kind="stable")]
    return ordered


def with_bonus(scores: Floats, is_inside: Bools, count: int) -> Floats:
    """The log-odds of scores, raised for what is inside. count: of all memories, those that are inside."""
    chances = np.clip(scores.astype(np.float64), 1e-12, 1 - 1e-12)
    odds = np.clip(np.log(chances / (1 - chances)), -ODDS_MAX, ODDS_MAX)
    bonus = BONUS + FEW_WEIGHT * np.log(MANY / min(max(count, 1), MANY))
    raised: Floats = (odds + bonus * is_inside).astype(np.float32)
    return raised
