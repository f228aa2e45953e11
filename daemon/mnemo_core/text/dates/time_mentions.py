"""The times that a text names, and the time of the event that it describes. SPEC 2.1, 2.5, 5.4, 7.1

`find_mentions` finds every time that a text names, for queries too ("what did I say last week"). `find_event_time`
answers only where a reader would not hesitate, and None otherwise: a memory without a date of its own has the time of
its statement, which is never far wrong; one with a wrong date is lost.

What counts as when it happened:
- a day, month, season, quarter or year that is named: its beginning; where it holds the moment of saying ("today",
  "this year"), that moment itself; with a time of day, that time
- a plan ("meet on Friday"), and where something begins ("from 1 June"): that day; a range: its beginning; something
  moved "from Friday to Monday": the new day
- of several days in the past, in their order: the first; of a month and a day in it: the day
and what does not: "since 2019", "until Friday", "by March", "before", "after"; "every Monday", birthdays; durations and
ages; what is only asked or supposed; a day that depends on another ("the next day"); a decade, "recently", "a few days
ago"; and every expression with two readings, as 05/03/2026 or "next Friday" on a Tuesday (of "at 3" the day stands).
A day and month without a year is the one the verbs point to: past, the last; future, the next; neither, the nearest by
far, else none. Parsers that exist fill in what the text leaves open; that is why this is not one of them.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from mnemo_core.text.characters import CASE_LOOKALIKES
from mnemo_core.text.code_mask import mask_code
from mnemo_core.text.dates import date_words as words
from mnemo_core.text.dates.date_patterns import patterns_for
from mnemo_core.text.dates.date_readers import TimeCandidate, Utterance
from mnemo_core.text.dates.local_days import HOUR_MS, Zone
from mnemo_core.text.lazy_patterns import lazy_pattern

TEXT_CHARS_MAX = 20_000  # of a longer text, what stands first
MATCHES_MAX = 200  # of one rule; a text with more is a table of dates, of which the beginning is read
AT_MAX = 253_402_300_799_999  # the end of the year 9999


class TimeMention(NamedTuple):
    """A time that a text names: from `at` up to, not including, `until` (ms), and its place in the text."""

    at: int
    until: int
    start: int
    end: int


def find_mentions(text: str, said_at: int, zone: Zone) -> list[TimeMention]:
    """The times that the text names, in the order of the text.

    What has two readings has the likelier one here; bounds ("since 2019") and what comes again and again are no times.
    """
    return [
        TimeMention(*each[:4])
        for each in _read(Utterance(_masked(text), said_at, zone))
        if each.role in ("event", "vague", "unsure") and each.until > each.at
    ]


def said_at(text: str, event_at: int, created_at: int, zone: Zone) -> int:
    """Time of the statement in ms, which decides which of two values is the newer.

    Its event_at, unless that lies ahead or was read off the text: "the party is on May 3" is not said on May 3.
    """
    if event_at >= created_at or find_event_time(text, created_at, zone) == event_at:
        return created_at
    return event_at


def find_event_time(text: str, said_at: int, zone: Zone) -> int | None:
    """Time of the event that the text describes, None where it names no time or leaves it open.

    None too for times before 1970 and after 9999, which no record holds.
    """
    saying = Utterance(_masked(text), said_at, zone)
    candidates = [each for each in _read(saying) if each.role in ("event", "unsure") and not _is_open(each, saying)]
    if not candidates or any(each.role == "unsure" for each in candidates):
        return None
    one = _described_first(candidates, saying)
    if one is None:
        return None
    at = one.at if one.when is None else one.when
    if one.at <= said_at < one.until and one.until - one.at > HOUR_MS:
        at = said_at
    return at if 0 <= at <= AT_MAX else None


def _is_open(found: TimeCandidate, saying: Utterance) -> bool:
    """Return whether the time is only asked or supposed, or a day of every year."""
    if saying.search(found.start, _ASKED) or saying.search(found.start, words.SUPPOSED):
        return True
    return bool(saying.search(found.start, words.YEARLY)) and _is_yearless(saying.text[found.start : found.end])


_ASKED = lazy_pattern(r"(?:[?？]|吗。|ですか。|ますか。)(?=\s*+\Z)")


def _is_yearless(expression: str) -> bool:
    has_month = any(word in words.MONTHS for word in re.findall(r"[^\W\d_]+", expression.lower())) or "月" in expression
    return has_month and re.search(r"(?:19|20)\d\d", expression) is None


def _described_first(candidates: list[TimeCandidate], saying: Utterance) -> TimeCandidate | None:
    """The one that the text tells of; None where several could be it."""
    finest = _without_wider(candidates)
    if len({each[:2] for each in finest}) == 1:
        return finest[0]
    if any(each.at > saying.said_at for each in candidates):
        return None
    sentence = saying.sentence(finest[0].start)
    together = [each for each in finest if saying.sentence(each.start) == sentence]
    in_order = all(one.at <= other.at for one, other in pairwise(together))
    return finest[0] if in_order else None


def _without_wider(candidates: list[TimeCandidate]) -> list[TimeCandidate]:
    """Those that no other, narrower one lies within."""
    wider: set[tuple[int, int]] = set()
    first_until: int | None = None  # of those that begin no earlier
    for at, until in sorted({(each.at, each.until) for each in candidates}, key=lambda span: (-span[0], span[1])):
        if first_until is not None and first_until <= until:
            wider.add((at, until))
        first_until = until if first_until is None else min(first_until, until)
    return [each for each in candidates if (each.at, each.until) not in wider]


# Reading


_MASK = lazy_pattern(r"`[^`\n]+`|https?://\S+|\b[\w.+-]{1,64}+@[\w-]+\.\w+")


def _masked(text: str) -> str:
    """The text, blank where it is code or an address: what stands there is no date of an event."""
    text = text[:TEXT_CHARS_MAX]
    if not text.isascii():
        text = text.translate(CASE_LOOKALIKES)
    text = mask_code(text)
    if "`" not in text and "@" not in text and "://" not in text:
        return text
    return _MASK.sub(lambda match: " " * len(match.group()), text)


def _read(saying: Utterance) -> list[TimeCandidate]:
    """Every mention, in order: found by rule, the longest where they overlap, then put together."""
    taken: list[TimeCandidate] = []
    read_to = len(saying.text)
    for rule in patterns_for(saying.text):
        for number, match in enumerate(rule.pattern.finditer(saying.text)):
            if number == MATCHES_MAX:
                read_to = min(read_to, match.start())
                break
            try:
                found = rule.read(match, saying)
            except OverflowError:  # a day outside the years 1 to 9999
                continue
            if found is not None:
                taken.append(found)
    taken = [each for each in taken if each.start < read_to]
    taken.sort(key=lambda each: (each.start, -each.end))
    apart: list[TimeCandidate] = []
    for each in taken:
        if not apart or each.start >= apart[-1].end:
            apart.append(each)
        elif each.end - each.start > apart[-1].end - apart[-1].start:
            apart[-1] = each
    days = list(_ranges(list(_with_clocks(list(_with_weekdays(apart, saying)), saying)), saying))
    return [_bounded(each, saying) for each in days if each.role != "clock"]


_BETWEEN_WEEKDAY = lazy_pattern(r"[\s,(]*(?:den |dem |the |le )?[\s,]*")


def _with_weekdays(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """A weekday next to a date is part of it."""
    index = 0
    while index < len(found):
        one = found[index]
        other = found[index + 1] if index + 1 < len(found) else None
        if other and other.day is not None and _is_part_of(one, other, saying):
            found[index + 1] = other._replace(start=one.start)
        else:
            yield one
        index += 1


def _is_part_of(one: TimeCandidate, date: TimeCandidate, saying: Utterance) -> bool:
    """Return whether the first is the weekday of the date after it."""
    is_next = _BETWEEN_WEEKDAY.fullmatch(saying.text[one.end : date.start]) is not None
    return is_next and _is_weekday(one, saying) and not _is_weekday(date, saying)


def _is_weekday(found: TimeCandidate, saying: Utterance) -> bool:
    return any(
        word in words.WEEKDAYS for word in re.findall(r"[^\W\d_]+", saying.text[found.start : found.end].lower())
    )


_TO_CLOCK = lazy_pattern(
    r"[\s,]*(?:(?:at|from|around|about|um|gegen|à|vers|@|on|am|the|of|は|の|に|morning|T)\s*)*[\s,]*", re.IGNORECASE
)


def _with_clocks(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """A time of day belongs to the day next to it: the one before, else the one after."""
    used: set[int] = set()
    days = {index: each for index, each in enumerate(found) if each.day is not None}
    for index, each in enumerate(found):
        if each.role != "clock":
            continue
        for other in (index - 1, index + 1):
            day = days.get(other)
            if day is None or other in used or day.day is None:
                continue
            first, last = sorted((each, day), key=lambda one: one.start)
            if _TO_CLOCK.fullmatch(saying.text[first.end : last.start]):
                at = saying.moment(day.day, each.at)
                found[other] = day._replace(at=at, until=at + each.until, start=first.start, end=last.end, when=None)
                used.add(other)
                break
    yield from (each for each in found if each.role != "clock")


_RANGE = lazy_pattern(
    r"\s*(?:–|—|-|~|〜|～|to|until|till|through|and|bis(?: zum)?|und|au|à|et|至|到|から|から、)\s*(?:the |le |zum )?",
    re.IGNORECASE,
)
_RANGE_OPENS = lazy_pattern(
    r"(?:\b(?:from|between|vom|von|zwischen|du|de|entre)|从|從|自)\s*(?:the |le |dem )?$", re.IGNORECASE
)


def _ranges(found: list[TimeCandidate], saying: Utterance) -> Iterator[TimeCandidate]:
    """`from … to …` is one time; of what was moved, the new one."""
    index = 0
    while index < len(found):
        one = found[index]
        other = found[index + 1] if index + 1 < len(found) else None
        gap = saying.text[one.end : other.start] if other else ""
        if other and one.role == other.role == "event" and _RANGE.fullmatch(gap):
            opens = _RANGE_OPENS.search(saying.text[max(0, one.start - 12) : one.start])
            if opens or "–" in gap or gap.strip() in ("-", "~", "〜", "～", "—", "至", "bis", "から", "to", "through"):
                if saying.search(one.start, words.MOVED):
                    yield other
                elif other.until > one.at:
                    yield one._replace(until=other.until, end=other.end, day=None)
                index += 2
                continue
        yield one
        index += 1


_BOUND_BEFORE = lazy_pattern(
    r"(?:\b(?:since|until|till|by|before|after|prior to|no later than|not later than|within|than"
    r"|ever since|seit(?: dem)?|bis(?: zum| zur)?|vor(?: dem| der)?|nach(?: dem| der)?|spätestens(?: am)?"
    r"|depuis(?: le| la)?|jusqu['’](?:au|en|à(?: la)?)|jusque|avant(?: le| la)?|après(?: le| la)?"
    r"|d['’]ici(?: au| le| la)?)|自从|自從|自|直到|截至|到)\s*(?:the |end of |early |late |mid-?|about |around )?$",
    re.IGNORECASE,
)
_BOUND_AFTER = lazy_pattern(
    r"\s*(?:以来|以來|之前|以前|之后|以后|之後|以後|为止|為止|までに|まで|より前|onwards?\b|or (?:later|earlier)\b)"
)
_BOUND_INSIDE = lazy_pattern(r"(?:since|until|till|by|before|after|seit|bis|depuis)\b", re.IGNORECASE)
_AGAIN_BEFORE = lazy_pattern(
    r"(?:\b(?:every|each|most|jeden|jede|jedes|chaque|tous les|toutes les|alternate|usually"
    r"|always)\s+(?:other\s+|single\s+)?|每个?|毎)$",
    re.IGNORECASE,
)
_ABOUT_BEFORE = lazy_pattern(r"\b(?:more than|over|less than|at least|up to|mehr als|über|plus de)\s+$", re.IGNORECASE)

_LIKE_BEFORE = lazy_pattern(
    r"\b(?:like|as if|seems?|only)(?: (?:it was|just|only))*\s+$", re.IGNORECASE
)  # "like yesterday"


def _bounded(found: TimeCandidate, saying: Utterance) -> TimeCandidate:
    """The mention with the role that the words around it give it."""
    before = saying.text[max(0, found.start - 32) : found.start]
    after = saying.text[found.end : found.end + 12]
    if found.role != "event":
        return found
    if _AGAIN_BEFORE.search(before):
        return found._replace(role="again")
    if _BOUND_BEFORE.search(before) or _BOUND_INSIDE.match(saying.text, found.start) or _BOUND_AFTER.match(after):
        return found._replace(role="bound")
    if _ABOUT_BEFORE.search(before) or _LIKE_BEFORE.search(before):
        return found._replace(role="vague")
    return found
