"""Agenda of a time: the memories that answer a question for a time and for nothing else. SPEC 7.5a, 11

"What do I have tomorrow?" has no word by which an answer could be ranked. Every memory answers it that names the time,
or a weekday of the time on which something takes place. A plan that a later memory about the same thing cancels or
moves is left out; a memory that only says that something is cancelled is returned separately.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.text.dates.date_words import MONTH_NUMBERS, WEEKDAY_NUMBERS
from mnemo_core.text.dates.local_days import Zone
from mnemo_core.text.dates.time_mentions import NamedTimes, named_times
from mnemo_core.text.statement_reading import StatementWords, matched, read_statement, stem

ITEMS_MAX = 8
MOVING_SIGNS = frozenset({"moved", "instead", "corrected"})
ENDING_SIGNS = frozenset({"ended", "negated"})
REMINDERS = frozenset({"forget", "remember", "remind", "vergiss", "vergesst", "vergessen", "denk"})
_NO_SUBJECT = frozenset(map(stem, (*MONTH_NUMBERS, *WEEKDAY_NUMBERS, *(f"{day}s" for day in WEEKDAY_NUMBERS)))) | {
    "appointment", "termin", "tomorrow", "morgen", "tonight", "time", "uhr", "hour", "week", "woche",
}  # fmt: skip


class AgendaTime(NamedTuple):
    """The time that is asked for: from `begin` to before `until` (ms). weekdays: those of one that does not lie in the
    past, a bit each, from Monday. text: the time in words."""

    begin: int
    until: int
    weekdays: int
    text: str = ""


class DatedText(NamedTuple):
    """The text of a memory. Times in ms. newer: the texts that perhaps replace it. before: the text that it replaces,
    whose time it has where it names none: "the interview is at 15:30 actually"."""

    text: str
    event_at: int
    created_at: int
    newer: tuple["DatedText", ...] = ()
    before: "DatedText | None" = None


class Agenda(NamedTuple):
    """The places of the texts that answer, in the order of time, and of those that say that something is not then."""

    items: list[int]
    cancelled: list[int]


def read_agenda(texts: Sequence[DatedText], time: AgendaTime, zone: Zone) -> Agenda:
    """Read what takes place in a time from texts that lie in it, ITEMS_MAX at most.

    Of a time that lies in the past, what names it comes first, and behind it what was said then.
    """
    keys: dict[int, tuple[bool, int]] = {}
    for place, each in enumerate(texts):
        at = _place_in(_times_of(each, zone), time)
        if at is not None:
            keys[place] = False, at
        elif not time.weekdays:
            keys[place] = True, each.event_at
    cancelling = {place for place in keys if time.weekdays and "ended" in _changes(texts[place])}
    for place in sorted(keys, key=lambda place: -texts[place].created_at):
        by = [other for other in keys if _replaces(texts[other], texts[place], time, zone)]
        cancelling.update(other for other in by if "negated" in _changes(texts[other]))
        if by or any(_replaces(newer, texts[place], time, zone) for newer in texts[place].newer):
            del keys[place]
    ordered = sorted(keys, key=lambda place: (keys[place], place))
    items = [place for place in ordered if place not in cancelling]
    return Agenda(items[:ITEMS_MAX], [place for place in ordered if place in cancelling])


def _times_of(text: DatedText, zone: Zone) -> NamedTimes:
    named = named_times(text.text, text.event_at, text.created_at, zone)
    is_dated = named.event or named.other or named.weekdays
    return named if is_dated or text.before is None else _times_of(text.before, zone)


def _place_in(named: NamedTimes, time: AgendaTime) -> int | None:
    """Return the moment within the time at which something takes place, ms; None where it does not."""
    for span in (named.event, named.other):
        if span is not None and span[0] < time.until and span[1] > time.begin:
            return max(span[0], time.begin)
    return time.begin if named.weekdays & time.weekdays and named.since < time.until else None


def _changes(text: DatedText) -> frozenset[str]:
    """The signs of change in a text: moved, or else ended or negated. None of a supposition and of a reminder."""
    read = read_statement(text.text)
    if "unsure" in read.signs or not REMINDERS.isdisjoint(read.plain):
        return frozenset()
    return (read.signs & MOVING_SIGNS) or (read.signs & ENDING_SIGNS)


def _replaces(new: DatedText, old: DatedText, time: AgendaTime, zone: Zone) -> bool:
    """Return whether a later text about the same thing says that it is not so then: that it is another time, or that it
    is over or cancelled, at that time or for good."""
    changes = _changes(new)
    if new.created_at <= old.created_at or not changes:
        return False
    named = _times_of(new, zone)
    if named.since >= time.until:
        return False
    is_dated = bool(named.event or named.other or named.weekdays)
    if changes.isdisjoint(MOVING_SIGNS) and is_dated and _place_in(named, time) is None:
        return False
    later, earlier = read_statement(new.text), read_statement(old.text)
    one, other = _subject(later), _subject(earlier)
    things, other_things = ([w for w in words if w not in (*later.names, *earlier.names)] for words in (one, other))
    if things and other_things:  # "lunch with Anna" is not what "coffee with Anna is cancelled" is about
        one, other = things, other_things
    return any(matched(word, other) for word in one)


def _subject(read: StatementWords) -> list[str]:
    """The stems of the words that say what a text is about: no time, and no number."""
    return [word for word in read.content if word not in _NO_SUBJECT and not any(map(str.isdigit, word))]
