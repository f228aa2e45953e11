"""Memories in or outside the time that a question names, and the agenda of a time. SPEC 7.5a, 11

A memory is inside where its event time is, or where a time is that its text names ("On 3 December I have the driving
test"): one that is about as long as the interval, since the year that a text names holds every day of it.

The agenda has the memories that answer a question for a time and for nothing else. "What do I have tomorrow?" has no
word by which an answer could be ranked. Every memory answers it that names the time, or a weekday of the time on which
something takes place. A plan that a later memory about the same thing cancels or moves is left out; a memory that only
says that something is cancelled is returned separately. A plan that one without a time plainly means is returned with
it: nobody can tell which of several it means.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_words import MONTH_NUMBERS, WEEKDAY_NUMBERS
from mnemo_core.text.dates.local_days import DAY_MS, Zone
from mnemo_core.text.dates.time_mentions import NO_TIMES, NamedTimes, named_times
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.statement_reading import StatementWords, matched, read_statement, stem

NAMED_LENGTH_MAX = 1.5  # of a time that a text names, in lengths of the interval; a day is never too long [measured]
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
    """The place of each memory: whether it is inside, by a time in its text alone or not, when it happened as the
    order of time has it, and whether it comes after the others there."""

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
    is_by_text = (told | named) & ~happened
    is_about_other = happened & has_told & ~told  # said then, about another time
    at = np.where(told, np.maximum(columns.told_from, low), columns.event_at)
    at = np.where(is_inside & ~happened & ~told, np.maximum(np.where(named, columns.named_from, low), low), at)
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


ITEMS_MAX = 8
LONG_MS = 6 * DAY_MS  # of a longer time, what comes every week stands behind what comes once
MOVING_SIGNS = frozenset({"moved", "instead", "corrected"})
ENDING_SIGNS = frozenset({"ended", "negated"})
TIED_SIGNS = frozenset({"now", "fresh"})  # of a text that perhaps replaces the other: "is at 6 from now on"
REMINDERS = frozenset({"forget", "remember", "remind", "vergiss", "vergesst", "vergessen", "denk"})
_DAYS = (*MONTH_NUMBERS, *WEEKDAY_NUMBERS, *(f"{day}s" for day in WEEKDAY_NUMBERS))
_NO_SUBJECT = frozenset(map(stem, (*_DAYS, *lexicon.words("changes", "no subject"))))
_CANCELLATIONS, _CLAUSE_ENDS, _REASONS_INSIDE, _TIMES_BEHIND, _MORE_CLOSELY = (
    lazy_pattern(lexicon.alternation("changes", name), re.IGNORECASE)
    for name in ("cancellations", "clause ends", "reasons inside", "times behind", "more closely")
)
# The stems of what does not take place, and whether they say which of several: "the meeting with Lars"
Cancellation = tuple[list[str], bool]
CANCELLATION_WORDS = " ".join(sorted(lexicon.words("changes", "cancellation words")))
_APPOINTMENTS = lexicon.words("changes", "appointments")


class AgendaTime(NamedTuple):
    """The time that is asked for: from `begin` to before `until` (ms). weekdays: those of one that does not lie in the
    past, a bit each, from Monday. text: the time in words. items: how many are wanted at most."""

    begin: int
    until: int
    weekdays: int
    text: str = ""
    items: int = ITEMS_MAX


class DatedText(NamedTuple):
    """The text of a memory. Times in ms. newer: the texts that perhaps replace it. before: the text that it replaces,
    whose time it has where it names none: "the interview is at 15:30 actually". cancelling: the texts that say that it
    does not take place (`cancelled_by`)."""

    text: str
    event_at: int
    created_at: int
    newer: tuple["DatedText", ...] = ()
    before: "DatedText | None" = None
    cancelling: tuple["DatedText", ...] = ()


class Agenda(NamedTuple):
    """The places of the texts that answer, in order, and of those that say that something is not then. doubts: by the
    place of one that answers, that of the text in its `cancelling` which says that it perhaps does not take place.
    is_whole: none was left out for want of room."""

    items: list[int]
    cancelled: list[int]
    doubts: dict[int, int]
    is_whole: bool


def read_agenda(texts: Sequence[DatedText], time: AgendaTime, zone: Zone) -> Agenda:
    """Read what takes place in a time from texts that lie in it, as many as it wants: what is doubted and what comes
    every week is left out first. In the order of time, but in one of a week or more what comes every week is last. Of a
    time that lies in the past, what names it comes first, and behind it what was said then."""
    keys: dict[int, tuple[bool, int]] = {}
    for place, each in enumerate(texts):
        at = _place_in(_times_of(each, zone), time)
        if at is not None:
            keys[place] = False, at
        elif not time.weekdays:
            keys[place] = True, each.event_at
    cancelling = {place for place in keys if time.weekdays and "ended" in _changes(texts[place], zone)}
    doubts = dict[int, int]()
    for place in sorted(keys, key=lambda place: -texts[place].created_at):
        text = texts[place]
        by = [other for other in keys if _replaces(texts[other], text, time, zone)]
        cancelling.update(other for other in by if "negated" in _changes(texts[other], zone))
        if by or any(_replaces(newer, text, time, zone) for newer in text.newer):
            del keys[place]
        elif found := [at for at, each in enumerate(text.cancelling) if _replaces(each, text, time, zone)]:
            doubts[place] = found[0]
    ordered = sorted(keys, key=lambda place: (keys[place], place))
    items = [place for place in ordered if place not in cancelling]
    weekly = {each for each in items if _place_in(_times_of(texts[each], zone)._replace(weekdays=0), time) is None}
    room, chosen = time.items, list[int]()
    for place in sorted(items, key=lambda place: (place in doubts, place in weekly)):
        room -= 1 + (place in doubts)  # which is returned with the text that cancels it
        chosen += [place] if room >= 0 or not chosen else []
    chosen.sort(key=lambda place: (place in weekly and time.until - time.begin > LONG_MS, ordered.index(place)))
    return Agenda(chosen, [place for place in ordered if place in cancelling], doubts, len(chosen) == len(items))


def _times_of(text: DatedText, zone: Zone) -> NamedTimes:
    named = named_times(text.text, text.event_at, text.created_at, zone)
    is_dated = named.event or named.other or named.weekdays or named.due
    return named if is_dated or text.before is None else _times_of(text.before, zone)


def _place_in(named: NamedTimes, time: AgendaTime) -> int | None:
    """Return the moment within the time at which something takes place, ms; None where it does not."""
    for span in (named.event, named.other, named.due):
        if span is not None and span[0] < time.until and span[1] > time.begin:
            return max(span[0], time.begin)
    return time.begin if named.weekdays & time.weekdays and named.since < time.until else None


def _changes(text: DatedText, zone: Zone, moving: frozenset[str] = MOVING_SIGNS) -> frozenset[str]:
    """The signs of change in a text: moved, or else ended or negated. None of a supposition, of a reminder, and of what
    is to be done by a time: "the books have to be returned by Friday"."""
    read, is_cancellation = read_statement(text.text), _CANCELLATIONS.search(text.text) is not None
    ending = read.signs & ENDING_SIGNS or frozenset({"ended"} if is_cancellation else ())
    found = read.signs & (moving - {"fresh"} if ending else moving) or ending  # "is off this week"
    if not found or "unsure" in read.signs or not REMINDERS.isdisjoint(read.plain):
        return frozenset()
    named = NO_TIMES if is_cancellation else _times_of(text, zone)
    return frozenset() if named.due and not named.event else found


def _replaces(new: DatedText, old: DatedText, time: AgendaTime, zone: Zone) -> bool:
    """Return whether a later text about the same thing says that it is not so then: that it is another time, or that it
    is over or cancelled, at that time or for good."""
    if new.created_at <= old.created_at:
        return False
    changes = _changes(new, zone, MOVING_SIGNS | TIED_SIGNS if new in old.newer else MOVING_SIGNS)
    if not changes or not _is_about(new, old) or (named := _times_of(new, zone)).since >= time.until:
        return False
    if not changes <= ENDING_SIGNS:
        return True
    if any((*named[:2], named.weekdays)) and _place_in(named, time) is None:
        return False
    if named.due and named.due[1] <= time.begin:  # "there is no choir until 10 January"
        return False
    is_part = named.event and (named.event[0] > time.begin or named.event[1] < time.until)
    return not (is_part and time.until - time.begin > 2 * LONG_MS and _times_of(old, zone).weekdays)


def _is_about(new: DatedText, old: DatedText) -> bool:
    """Return whether a later text is about the same thing: plainly, where it cancels what it does not replace."""
    if cancellation := read_cancellation(new.text):
        is_plain = cancelled_by(old.text, [cancellation]) != []
        if is_plain or new not in old.newer:
            return is_plain
    later, earlier = read_statement(new.text), read_statement(old.text)
    one, other = _subject(later), _subject(earlier)
    things, other_things = ([w for w in words if w not in (*later.names, *earlier.names)] for words in (one, other))
    if things and other_things:  # "lunch with Anna" is not what "coffee with Anna is cancelled" is about
        one, other = things, other_things
    return any(matched(word, other) for word in one)


def read_cancellation(text: str) -> Cancellation | None:
    """Return what a text says does not take place, by the clause that says so; None where none does."""
    clause = next(filter(_CANCELLATIONS.search, _CLAUSE_ENDS.split(text)), "")
    words = _subject(read_statement(_REASONS_INSIDE.sub(" ", clause))) or _subject(read_statement(text))
    return (words, _MORE_CLOSELY.search(clause) is not None) if clause else None


def cancelled_by(text: str, cancellations: Sequence[Cancellation]) -> list[int]:
    """The places of those that plainly mean what a text is about: their words are all in it, or those with which it
    begins, up to its time, are all among theirs, if they do not say more closely what they mean."""
    whole, head = (_subject(read_statement(part)) for part in (text, _TIMES_BEHIND.split(text, maxsplit=1)[0]))
    return [
        place
        for place, (words, is_close) in enumerate(cancellations)
        if _are_in([word for word in words if word not in _APPOINTMENTS] or words, whole)
        or (not is_close and _are_in(head, words))
    ]


def _are_in(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether there are words, and each is one of the others, or a part of one, or has one as a part."""
    long = [other for other in others if len(other) > 3]
    return bool(words) and all(
        word in others or (len(word) > 3 and any(word in other or other in word for other in long)) for word in words
    )


def _subject(read: StatementWords) -> list[str]:
    """The stems of the words that say what a text is about: no time, and no number."""
    return [word for word in read.content if word not in _NO_SUBJECT and not any(map(str.isdigit, word))]
