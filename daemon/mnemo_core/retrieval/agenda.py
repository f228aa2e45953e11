"""Agenda of a time: the memories that answer a question for a time and for nothing else. SPEC 7.5a, 11

"What do I have tomorrow?" has no word that an answer could be ranked by: what answers it is every memory that names the
time, or a weekday of it on which something takes place. A plan that a later memory of the same time cancels or moves
is left out; what says so stays.
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
REPLACING_SIGNS = MOVING_SIGNS | ENDING_SIGNS
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
    for place in sorted(keys, key=lambda place: -texts[place].created_at):
        others = (*texts[place].newer, *(texts[other] for other in keys))
        if any(_replaces(other, texts[place], time, zone) for other in others):
            del keys[place]
    ordered = sorted(keys, key=lambda place: (keys[place], place))
    cancelled = [place for place in ordered if time.weekdays and _is_cancellation(texts[place])]
    return Agenda([place for place in ordered if place not in cancelled][:ITEMS_MAX], cancelled)


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


def _is_cancellation(text: DatedText) -> bool:
    signs = read_statement(text.text).signs
    return not signs.isdisjoint(ENDING_SIGNS) and signs.isdisjoint(MOVING_SIGNS | {"unsure"})


def _replaces(new: DatedText, old: DatedText, time: AgendaTime, zone: Zone) -> bool:
    """Return whether a later text about the same thing says that it is not so then: that it is another time, or that it
    is over or cancelled, at that time or for good."""
    later, earlier = read_statement(new.text), read_statement(old.text)
    if new.created_at <= old.created_at or "unsure" in later.signs or later.signs.isdisjoint(REPLACING_SIGNS):
        return False
    named = _times_of(new, zone)
    if named.since >= time.until:
        return False
    is_dated = bool(named.event or named.other or named.weekdays)
    if later.signs.isdisjoint(MOVING_SIGNS) and is_dated and _place_in(named, time) is None:
        return False
    one, other = _subject(later), _subject(earlier)
    things, other_things = ([w for w in words if w not in (*later.names, *earlier.names)] for words in (one, other))
    if things and other_things:  # "lunch with Anna" is not what "coffee with Anna is cancelled" is about
        one, other = things, other_things
    return any(matched(word, other) for word in one)


def _subject(read: StatementWords) -> list[str]:
    """The stems of the words that say what a text is about: no time, and no number."""
    return [word for word in read.content if word not in _NO_SUBJECT and not any(map(str.isdigit, word))]
