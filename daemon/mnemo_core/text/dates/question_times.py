"""The time that a question or a filter names: an interval, or an order such as "last" and "first". SPEC 7.1, 7.5a

A question is read like a text (`time_mentions`), but names times more shortly: "notes from October", "15 August". A
time without a year is in the past unless the question looks ahead, or nothing looks back and the coming one is near. A
bound ("since 3 October") is an interval that is open on one side. A question for a time ("when did we fix the boiler")
names none.

In a filter ("yesterday", "last week", "march 2024", "3 days ago") one expression stands alone and is the whole input,
read like a question: of two spans on either side of now the past one is taken, since filters are about what happened.
"""

import functools
import re
from typing import Literal, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_patterns import IDEOGRAPH, has_time_words, words_in
from mnemo_core.text.dates.date_readers import TimeCandidate, Utterance
from mnemo_core.text.dates.local_days import DAY_MS, Zone, days_after, local_time, moment_of, month_start
from mnemo_core.text.dates.time_mentions import masked, read_candidates
from mnemo_core.text.languages import line_spans
from mnemo_core.text.lazy_patterns import lazy_pattern

QUESTION_CHARS_MAX = 2_000  # of a longer text, what stands first
ORDER_MS_MAX = 8 * DAY_MS  # of the time that an order names

Order = Literal["", "last", "first"]


class QuestionTime(NamedTuple):
    """The time that a question names.

    From `begin` up to, not including, `until` (ms); None: open on that side, and both None where it names an order
    alone. words: how it names it. rest: the question without these words, or those of the order. is_only: it asks for
    nothing else. centre: where the time is only about a day ("two weeks ago"), the beginning of that day. weekdays: of
    one that does not lie in the past, those of its days, a bit each, from Monday. takes_ends: it holds what is to be
    done by a time in it. is_told: an order names it, which asks for nothing.
    """

    begin: int | None
    until: int | None
    words: str
    rest: str
    order: Order = ""
    is_only: bool = False
    centre: int | None = None
    weekdays: int = 0
    takes_ends: bool = False
    is_told: bool = False

    @property
    def has_interval(self) -> bool:
        return self.begin is not None or self.until is not None

    def holds(self, at: int) -> bool:
        """Return whether a moment lies in the interval."""
        return (self.begin is None or at >= self.begin) and (self.until is None or at < self.until)


def _pattern(section: str) -> re.Pattern[str]:
    return lazy_pattern(lexicon.alternation("question_times", section), re.IGNORECASE)


_KEEP_OUTS, _NO_ORDER, _OF_PAST = _pattern("keep_outs"), _pattern("no_order"), _pattern("of_past")
_ELSEWHERE = _pattern("elsewhere")
_ORDERS: tuple[tuple[Order, re.Pattern[str]], ...] = (
    ("last", _pattern("asks_last")),
    ("first", _pattern("asks_first")),
)
_FILLERS = lexicon.words("question_times", "fillers")
_ORDER_WORDS = lexicon.words("question_times", "order_words")
_ASKS = _pattern("asks")
_WORD = lazy_pattern(r"[^\W_]+(?:['’][^\W\d_]+)*")
_BEFORE = lazy_pattern(lexicon.alternation("question_times", "before"), re.IGNORECASE)
_BETWEEN_TIMES = lazy_pattern(lexicon.alternation("question_times", "between_times"), re.IGNORECASE)


def read_question_time(text: str, now: int, zone: Zone, *, is_prompt: bool = False) -> QuestionTime | None:
    """The time that a question names as seen from `now`; None where it names none. is_prompt: the text is a prompt to
    an agent, of which only a sentence that asks is read; so is any text of several sentences. Of a prompt that asks
    nothing ("plan my Thursday"), only coming days count, a week of them at most."""
    text = text[:QUESTION_CHARS_MAX]
    present = words_in(text)
    has_order = not _ORDER_WORDS.isdisjoint(present) or IDEOGRAPH in present
    if not has_order and not has_time_words(present):
        return None
    if _ELSEWHERE.search(text):
        return None
    asking = _asking(text, is_prompt=is_prompt)
    is_order = is_prompt and not asking.strip()
    if is_order:
        asking, has_order = text, False
    cut = _KEEP_OUTS.sub(_blank, masked(asking))
    saying = Utterance(cut, now, zone, is_question=True)
    found = read_candidates(saying)
    named = [each for each in found if each.role not in ("again", "vague", "clock") and each.until > each.at]
    one = _joined(named, cut)
    order = _order(cut, named) if has_order else ""
    if one is None:
        return QuestionTime(None, None, "", _without_order(asking), order) if order else None
    before = _BEFORE.search(cut, max(0, one.start - 24), one.start)
    start = one.start if before is None else before.start()
    rest = f"{text[:start]} {text[one.end :]}"
    rest = _without_order(rest) if order else rest
    begin, until = _ends(one, now, zone)
    if is_order and (begin is None or until is None or until <= now or until - begin > ORDER_MS_MAX):
        return None
    return QuestionTime(
        begin, until, " ".join(text[start : one.end].split()), " ".join(rest.split()), order,
        centre=one.when if one.role == "event" else None,
        is_only=not order and not content_words(_UNSPACED_FILLERS.sub(" ", rest)),
        weekdays=_weekdays(begin, until, now, zone), is_told=is_order,
    )  # fmt: skip


def _weekdays(begin: int | None, until: int | None, now: int, zone: Zone) -> int:
    """The weekdays of an interval that ends in the future, from this day on."""
    if begin is None or until is None or until <= now:
        return 0
    day, _ = local_time(max(begin, now), zone)
    last, _ = local_time(until - 1, zone)
    return functools.reduce(int.__or__, (1 << (day.weekday() + k) % 7 for k in range(min((last - day).days, 6) + 1)), 0)


def _blank(match: re.Match[str]) -> str:
    kept = match.start(match.lastindex or 0) - match.start()  # what stands before a group
    return match.group()[:kept] + " " * (len(match.group()) - kept)


def _asking(text: str, *, is_prompt: bool) -> str:
    """The text, blank where it does not ask, if it is a prompt or has several sentences. Of two sentences, one may ask
    about the time that the other names."""
    spans = line_spans(text)
    if len(spans) < 2 and not is_prompt:
        return text
    asking = [_ASKS.search(text, start, end) is not None for start, end in spans]
    if len(spans) == 2 and any(asking) and not is_prompt:
        return text
    parts = zip(spans, asking, strict=True)
    return "".join(text[start:end] if asks else " " * (end - start) for (start, end), asks in parts)


def _joined(named: list[TimeCandidate], text: str) -> TimeCandidate | None:
    """The one time of all that are named: the narrowest of those that lie in each other, else those that stand next to
    each other as one, else the first."""
    if not named:
        return None
    one = named[0]
    for other in named[1:]:
        if one.at <= other.at and other.until <= one.until:
            one = other._replace(start=one.start) if _BETWEEN_TIMES.fullmatch(text[one.end : other.start]) else other
        elif other.at <= one.at and one.until <= other.until:
            if _BETWEEN_TIMES.fullmatch(text[one.end : other.start]):
                one = one._replace(end=other.end)
        elif one.role == "event" and other.role == "until" and _BETWEEN_TIMES.fullmatch(text[one.end : other.start]):
            one = one._replace(until=other.until, end=other.end, day=None)
        elif one.role == "since" and other.role in ("until", "before"):
            return one._replace(role="event", until=other.until if other.role == "until" else other.at, end=other.end)
        elif one.role == other.role == "event" and _BETWEEN_TIMES.fullmatch(text[one.end : other.start]):
            one = one._replace(at=min(one.at, other.at), until=max(one.until, other.until), end=other.end, day=None)
    return one


def _ends(one: TimeCandidate, now: int, zone: Zone) -> tuple[int | None, int | None]:
    """The ends of the interval. What began in the past goes on until the end of this day."""
    day, _ = local_time(now, zone)
    midnight = Utterance("", now, zone).moment(days_after(day, 1))
    match one.role:
        case "since":
            return one.at, midnight if one.at < midnight else None
        case "after":
            return one.until, midnight if one.until < midnight else None
        case "before":
            return None, one.at
        case "until":
            return None, one.until
    if one.until == now and now - one.at >= DAY_MS:  # "the last three days": whole days
        first, _ = local_time(one.at, zone)
        return Utterance("", now, zone).moment(days_after(first, 1)), midnight
    return one.at, one.until


def _order(text: str, named: list[TimeCandidate]) -> Order:
    """The order that the question asks for, by words that are not part of a time."""
    rest = text
    for each in named:
        rest = rest[: each.start] + " " * (each.end - each.start) + rest[each.end :]
    if rest.isascii() and _ORDER_WORDS.isdisjoint(rest.lower().replace("?", " ").split()):
        return ""
    rest = _NO_ORDER.sub(_blank, rest)
    if not _OF_PAST.search(rest):
        return ""
    found = [(match.start(), name) for name, pattern in _ORDERS if (match := pattern.search(rest))]
    return min(found)[1] if found else ""


_DID_NOT_HAPPEN = _pattern("did_not_happen")


def tells_of_event(text: str) -> bool:
    """Return whether a text may tell of an event: not where it says that nothing came of it, plans or asks."""
    return _DID_NOT_HAPPEN.search(text) is None


def _without_order(text: str) -> str:
    for _, pattern in _ORDERS:
        text = pattern.sub(" ", text)
    return " ".join(text.split())


def content_words(text: str) -> list[str]:
    """The words of a question that say what it is about."""
    return [word for word in _WORD.findall(text) if not _is_filler(word.lower().replace("’", "'"))]


def _is_filler(word: str) -> bool:
    return word in _FILLERS or ("'" in word and all(part in _FILLERS for part in word.split("'")))


_UNSPACED_FILLERS = lazy_pattern(
    "|".join(sorted((word for word in _FILLERS if word[0] > "\u2fff"), key=len, reverse=True))
)

SPAN_CHARS_MAX = 80


class TimeSpan(NamedTuple):
    """From `begin` up to, not including, `end` (ms); a moment where they are equal."""

    begin: int
    end: int


_LEADING = lazy_pattern(r"(?:on|in|at|the|am|im|um|en|au|à|le|la)?\s*", re.IGNORECASE)
_MONTH = lazy_pattern(r"(\d{4})-(0[1-9]|1[0-2])")  # of ISO 8601


def parse_time_span(text: str, now: int, zone: Zone) -> TimeSpan | None:
    """The stretch of time that the text names, seen from `now`; None where it names none, or more than one."""
    text = " ".join(text.split())
    if not text or len(text) > SPAN_CHARS_MAX:
        return None
    if text.lower() == "now":
        return TimeSpan(now, now)
    if month := _MONTH.fullmatch(text):
        year, number = int(month[1]), int(month[2])
        return TimeSpan(*(moment_of(month_start(year, each), 0, zone) for each in (number, number + 1)))
    for written in dict.fromkeys((text, text.title())):  # "may" and "march" are months where they begin like one
        for preposition in ("", "in ", "on "):
            span = _read(preposition, written, now, zone)
            if span is not None:
                return span
    return None


def _read(preposition: str, text: str, now: int, zone: Zone) -> TimeSpan | None:
    """The span of the one time that is the whole of the text, behind the preposition."""
    said = preposition + text
    found = read_candidates(Utterance(masked(said), now, zone, is_filter=True))
    if len(found) != 1 or found[0].end != len(said) or found[0].role != "event" or found[0].until <= found[0].at:
        return None
    one = found[0]
    if not _LEADING.fullmatch(said[len(preposition) : max(len(preposition), one.start)]):
        return None
    return TimeSpan(one.at, one.until)
