"""Readers of dates and times of day, for the time of the statement. SPEC 2.5, 5.4

A reader takes a match of its rule and gives the time, or None where the match is none after all.
"""

import contextlib
import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Literal, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.dates import date_words as words
from mnemo_core.text.dates.local_days import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    MINUTE_MS,
    Zone,
    date_or_none,
    days_after,
    local_time,
    moment_of,
    month_start,
)
from mnemo_core.text.languages import line_spans
from mnemo_core.text.lazy_patterns import lazy_pattern

NEAR_DAYS = 60  # a date without a year or tense: the nearest, if it is nearer than this …
SOON_DAYS = 45  # a date in a question that does not look back: the coming one, if the past one is far
FAR_DAYS = 180  # … and the other possible one farther than this
YEAR_MIN, YEAR_MAX = 1000, 9000  # so that every zone knows what its clocks show then


Tense = Literal["past", "future", ""]
Side = Literal["since", "before", "after", "until"]  # of a time that bounds a stretch
MentionRole = Literal["event", "again", "vague", "unsure", "clock", Side]


class TimeCandidate(NamedTuple):
    """A mention, and what it is good for. `day` is the day of the calendar where it is one."""

    at: int
    until: int
    start: int
    end: int
    role: MentionRole = "event"
    day: dt.date | None = None
    when: int | None = None  # where it is not the beginning


_CLAUSE_ENDS = (",", ";", ":", " –", " —", " (")
_CLAUSE_END = lazy_pattern("|".join(map(re.escape, _CLAUSE_ENDS)))


class Utterance:
    """A text with the moment and the time zone of its statement. is_question: it asks, and names times as questions do:
    in the past unless it looks ahead, however short they are. is_filter: the same of
    the whole of a filter, which is about the past."""

    def __init__(
        self, text: str, said_at: int, zone: Zone, *, is_question: bool = False, is_filter: bool = False
    ) -> None:
        self.text = text
        self.is_question = is_question or is_filter
        self.is_filter = is_filter
        self.said_at = said_at
        self.zone = zone
        self.day, _ = local_time(said_at, zone)
        self.monday = days_after(self.day, -self.day.weekday())
        self._breaks: list[int] = []
        self._tenses: dict[int, Tense] = {}
        self._searched: dict[tuple[int, re.Pattern[str]], re.Match[str] | None] = {}

    def moment(self, day: dt.date, ms: int = 0) -> int:
        return moment_of(day, ms, self.zone)

    def one_day(self, day: dt.date, match: re.Match[str], role: MentionRole = "event") -> TimeCandidate:
        """The whole of that day."""
        return self.days(day, days_after(day, 1), match, role)

    def days(self, first: dt.date, after: dt.date, match: re.Match[str], role: MentionRole = "event") -> TimeCandidate:
        """From the first day up to the day after the last."""
        day = first if after == days_after(first, 1) else None
        return TimeCandidate(self.moment(first), self.moment(after), match.start(), match.end(), role, day)

    def sentence(self, at: int) -> tuple[int, int]:
        """Begin and end of the sentence that holds this place."""
        if not self._breaks:
            self._breaks = [*(start for start, _ in line_spans(self.text)), len(self.text) + 1]
        index = bisect_right(self._breaks, at) - 1
        return self._breaks[index], self._breaks[index + 1]

    def clause(self, at: int) -> str:
        """The part of the sentence, between commas and the like, that holds this place."""
        start, end = self.sentence(at)
        before = start + max(map(self.text[start:at].rfind, _CLAUSE_ENDS)) + 1
        behind = _CLAUSE_END.search(self.text, at, end)
        return self.text[before : behind.start() if behind else end]

    def search(self, at: int, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in the sentence of this place. Each sentence is searched once."""
        start, end = self.sentence(at)
        if (start, pattern) not in self._searched:
            self._searched[start, pattern] = pattern.search(self.text[start:end])
        return self._searched[start, pattern]

    def tense(self, at: int) -> Tense:
        """Tense of the verbs around a place: "" where there is none or both occur. A reported plan is a plan."""
        start, _ = self.sentence(at)
        if start not in self._tenses:
            if self.is_question:
                self._tenses[start] = self._tense_of_question(at)
            elif self.search(at, words.FUTURE):
                self._tenses[start] = "future"
            else:
                self._tenses[start] = "past" if self.search(at, words.PAST) else ""
        return self._tenses[start]

    def _tense_of_question(self, at: int) -> Tense:
        if self.search(at, words.ASKS_PAST):
            return "past"
        if self.search(at, words.ASKS_AHEAD):
            return "future"
        if self.search(at, words.PAST):
            return "past"
        return "future" if self.search(at, words.FUTURE) else "" if self.search(at, words.ASKS_NOW) else "past"

    def is_undecided(self, at: int) -> bool:
        """Return whether no word of a question says whether it looks back or ahead: "what happens in December"."""
        looks_back = any(self.search(at, each) for each in (words.ASKS_PAST, words.PAST))
        return self.is_question and not self.is_filter and not looks_back


Reader = Callable[[re.Match[str], Utterance], TimeCandidate | None]


# Dates of the calendar


def read_date(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A day and month, with or without a year."""
    groups = match.groupdict()
    month = words.MONTH_NUMBERS[groups["mon"].lower().rstrip(".")] if groups.get("mon") else _figure(groups["m"])
    first = _figure(groups.get("nth") or groups["d"])
    last = _figure(groups["d2"]) if groups.get("d2") else first
    is_word = groups.get("mon") in ("may", "march", "mar", "dec", "sep", "sept")
    if groups.get("y") is None and is_word and "of" not in match.group():
        return None  # "you may 5 times", "march 10 miles"
    written = groups.get("y") or _relative_year(groups.get("rel"), saying)
    year = _year_of(written, month, first, match, saying)
    if year is None:
        return unsure(match) if date_or_none(2000, month, first) else None
    begin, end = date_or_none(year, month, first), date_or_none(year, month, last)
    if begin is None or end is None or end < begin:
        return None
    return saying.days(begin, days_after(end, 1), match)


def _figure(written: str) -> int:
    """A number under 100 in digits, as an ordinal, or in Chinese: 二十一 is 21."""
    if written.isdecimal():
        return int(written)
    if ordinal := words.DAYS_OF_MONTH.get(written.lower()) or words.ORDINALS.get(written.lower()):
        return ordinal
    tens, ten, ones = written.rpartition("十")
    return (words.COUNTS.get(tens, 1) * 10 if ten else 0) + words.COUNTS.get(ones, 0)


def count_of(written: str) -> int | None:
    if written.isdecimal():
        return int(written) if len(written) < 4 else None
    return words.COUNTS.get(written.lower())


def _relative_year(relative: str | None, saying: Utterance) -> str | None:
    """The year of "last year" or 去年 next to a month, in digits."""
    if not relative:
        return None
    shift = words.UNITS_CJK[relative][1] if relative in words.UNITS_CJK else words.SHIFTS[relative.lower()]
    return str(saying.day.year + shift)


def _year_of(written: str | None, month: int, day: int, match: re.Match[str], saying: Utterance) -> int | None:
    """The year that is written, else the one that the verbs or nearness point to; None where neither does."""
    if written:
        return int(written) if len(written) == 4 else 2000 + int(written)
    this = saying.day.year
    possible = [each for year in range(this - 4, this + 5) if (each := date_or_none(year, month, day))]
    if not possible:
        return None
    last = max((each for each in possible if each <= saying.day), default=None)
    coming = min((each for each in possible if each >= saying.day), default=None)
    # The weekday that stands with a date: "Saturday, 10 October", "10 October (a Saturday)".
    text = saying.text
    named = _WEEKDAY_BEFORE.search(text, max(0, match.start() - 24), match.start())
    named = named or _WEEKDAY_BEHIND.match(text, match.end())
    weekday = None if named is None else words.WEEKDAY_NUMBERS[named["day"].lower()]
    fitting = [each for each in (last, coming) if each is not None and each.weekday() == weekday]
    if len(fitting) == 1:
        return fitting[0].year
    chosen = _by_tense(last, coming, saying, match.start())
    return None if chosen is None else chosen.year


_WEEKDAY_NAMES = words.one_of(words.WEEKDAY_NUMBERS)
_WEEKDAY_BEFORE = lazy_pattern(
    rf"\b(?P<day>{_WEEKDAY_NAMES})\.?,?(?: (?:the|den|dem|der|le|el))?\s+(?:the )?\Z", re.IGNORECASE
)
_WEEKDAY_BEHIND = lazy_pattern(rf"(?:,|,? ?\()\s?(?:a |on a )?(?P<day>{_WEEKDAY_NAMES})\b", re.IGNORECASE)


def _by_tense(last: dt.date | None, coming: dt.date | None, saying: Utterance, at: int) -> dt.date | None:
    if last is None or coming is None or last == coming:
        return last if last is not None else coming
    since, to = (saying.day - last).days, (coming - saying.day).days
    if to <= FAR_DAYS and is_moved_to(at, saying):
        return coming
    tense = saying.tense(at)
    if tense == "past" and to <= NEAR_DAYS and since >= FAR_DAYS and not saying.is_question:
        clause = saying.clause(at)  # "she cancelled, we meet on 7 January"; "the concert on 7 January is cancelled"
        tense = "past" if words.PAST.search(clause) and not words.IS_SO.search(clause) else ""
    match tense:
        case "past":
            return coming if to <= SOON_DAYS and since >= FAR_DAYS and saying.is_undecided(at) else last
        case "future":
            return coming
    near, far = sorted((since, to))
    if not saying.is_question and (near > NEAR_DAYS or far < FAR_DAYS):
        return coming if to <= FAR_DAYS and saying.search(at, words.COMES) else None
    return last if since < to else coming


_MOVED_TO = lazy_pattern(r"(?: to| until| till| auf| à| au)(?: the| den| le)? \Z|[到至]\Z")


def is_moved_to(at: int, saying: Utterance) -> bool:
    """Return whether something was postponed to the time at this place."""
    if _MOVED_TO.search(saying.text[max(0, at - 12) : at]) is None:
        return False
    start, _ = saying.sentence(at)
    moved = saying.search(at, words.MOVED)
    is_behind = saying.text.endswith((" auf ", " auf den "), 0, at)  # "wurde auf den 10. Dezember verschoben"
    return moved is not None and (is_behind or start + moved.end() <= at)


def unsure(match: re.Match[str]) -> TimeCandidate:
    """A time with several readings: it keeps the text from being filed under another one."""
    return TimeCandidate(0, 0, match.start(), match.end(), "unsure")


def read_iso(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """2026-03-05, with or without a time of day and its zone."""
    day = date_or_none(int(match["y"]), int(match["m"]), int(match["d"]))
    if day is None or not YEAR_MIN <= day.year <= YEAR_MAX:
        return None
    hour, minute, second = (int(match[each] or 0) for each in "HMS")
    if match["H"] is None or hour > 23 or minute > 59 or second > 59:
        return saying.one_day(day, match)
    ms = hour * HOUR_MS + minute * MINUTE_MS + second * 1000
    length = MINUTE_MS if match["S"] is None else 1000
    if match["z"] is None:
        at = saying.moment(day, ms)
    else:
        digits = re.sub(r"\D", "", match["z"]) or "0000"
        ahead = (int(digits[:2]) * 60 + int(digits[2:])) * MINUTE_MS
        at = (day - EPOCH).days * DAY_MS + ms - (-ahead if match["z"].startswith("-") else ahead)
    return TimeCandidate(at, at + length, match.start(), match.end(), day=day)


def read_slashed(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """05/03/2026 is a day in March or in May, and nothing here says which; 25/03/2026 is plain."""
    one, two, year = int(match["a"]), int(match["b"]), int(match["y"])
    readings = {day for day in (date_or_none(year, two, one), date_or_none(year, one, two)) if day is not None}
    if len(readings) > 1:
        return unsure(match)
    return saying.one_day(readings.pop(), match) if readings else None


def read_day_of_month(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The 15th: of this month or the one next to it, by the verbs."""
    groups = match.groupdict()
    first = _figure(groups["d"])
    last = _figure(groups["d2"]) if groups.get("d2") else first
    here = [month_start(saying.day.year, saying.day.month + each) for each in (-2, -1, 0, 1, 2)]
    possible = [day for each in here if (day := date_or_none(each.year, each.month, first)) is not None]
    tense = "future" if _is_ahead(match, saying) else saying.tense(match.start())
    if tense == "past":
        begin = max((day for day in possible if day <= saying.day), default=None)
    else:
        begin = min((day for day in possible if day >= saying.day), default=None) if tense else None
    end = date_or_none(begin.year, begin.month, last) if begin is not None else None
    if begin is None or end is None or end < begin:
        return None
    return saying.days(begin, days_after(end, 1), match)


_ON = lazy_pattern(r"(?:on|by|until|till|am|bis zum) ", re.IGNORECASE)
_IS = lazy_pattern(r"\b(?:is|are|ist|sind|est)\b", re.IGNORECASE)  # without "am", which is "on the" in German
_AT_TIME = lazy_pattern(r",? (?:at|um|from|ab) \d", re.IGNORECASE)


def _is_ahead(match: re.Match[str], saying: Utterance) -> bool:
    """Return whether a day of the month is a coming one: something was moved to it, or it has no verb but "is"."""
    if is_moved_to(match.start("d"), saying):
        return True
    if saying.is_question or saying.tense(match.start()) or _ON.match(match.group()) is None:
        return False
    return bool(saying.search(match.start(), _IS) or _AT_TIME.match(saying.text, match.end()))


def read_day_of_unit(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """The first of this month, the 20th of last month."""
    groups = match.groupdict()
    number = _figure(groups.get("nth") or groups["d"])
    shift = match["shift"].lower()
    months = words.UNITS_CJK[shift][1] if shift in words.UNITS_CJK else words.SHIFTS[shift]
    month = month_start(saying.day.year, saying.day.month + months)
    day = date_or_none(month.year, month.month, number)
    return saying.one_day(day, match) if day else None


def read_week_number(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Week 17 of the ISO calendar; without a year the last or the coming one, by the verbs."""
    weeks = []
    for year in [int(match["y"])] if match["y"] else range(saying.day.year - 1, saying.day.year + 2):
        with contextlib.suppress(ValueError):  # a year without so many weeks
            weeks.append(dt.date.fromisocalendar(year, int(match["w"]), 1))
    if not match["y"]:
        is_ahead = saying.tense(match.start()) == "future"
        coming = [each for each in weeks if days_after(each, 6) >= saying.day]
        weeks = coming[:1] if is_ahead else [each for each in weeks if each <= saying.day][-1:]
    return saying.days(weeks[0], days_after(weeks[0], 7), match) if weeks else None


def read_figures(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """15/8, where only one reading is a day, or the language puts the day first."""
    one, two = int(match["a"]), int(match["b"])
    orders = [(one, two)] if match["day_first"] else [(one, two), (two, one)]
    readings = [(day, month) for day, month in orders if date_or_none(2000, month, day)]
    if not readings or (len(readings) > 1 and one != two):
        return None
    day, month = readings[0]
    year = _year_of(None, month, day, match, saying)
    return saying.one_day(dt.date(year, month, day), match) if year and date_or_none(year, month, day) else None


_COUNTED_DAYS = lazy_pattern(r"(first|last|ersten|letzten) (\w+) (day|tag|week|woche)")


def _counted_days(part: str) -> tuple[int, int] | None:
    """The first and the last day of "the first three days", "the last two weeks"; below 0 they count from the end."""
    match = _COUNTED_DAYS.match(part)
    count = count_of(match[2]) if match else None
    if match is None or not count:
        return None
    days = count * (7 if match[3] in ("week", "woche") else 1)
    return (1, days) if match[1] in ("first", "ersten") else (-days, -1)


def part_of(first: dt.date, after: dt.date, match: re.Match[str]) -> tuple[dt.date, dt.date]:
    """The part of a span: a third by `early`, `mid` or `late`, a half, the first week of it; the whole without one."""
    part = (match.groupdict().get("part") or "").lower().rstrip("- ")
    part = f"{half.lower()} hälfte" if (half := match.groupdict().get("half")) else part
    if not part:
        return first, after
    length = (after - first).days
    if (days := words.DAYS_OF_SPAN.get(part) or _counted_days(part)) is not None:
        begins, ends = days
        start = first if begins > 0 else after
        return days_after(start, begins - (begins > 0)), min(after, days_after(start, ends + (begins < 0)))
    if part in words.HALVES:
        middle = days_after(first, length // 2)
        if length > 300:  # of a year
            middle = month_start(first.year, first.month + 6)
        return (first, middle) if words.HALVES[part] == 1 else (middle, after)
    begins, ends = words.PARTS_OF_SPAN[part]
    return days_after(first, begins * length // 3), days_after(first, ends * length // 3) if ends < 3 else after


def read_month(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A month, with a year or by its verbs."""
    groups = match.groupdict()
    name = groups.get("mon") or ""
    month = words.MONTH_NUMBERS[name.lower()] if name else _figure(groups["m"])
    if not 1 <= month <= 12:
        return None
    is_word = name in ("may", "march", "mar", "sep", "dec", "jan") and not saying.is_question
    if is_word and not (groups.get("y") or groups.get("rel")):
        return None
    year = month_year(month, match, saying)
    if year is None:
        return unsure(match)
    first, after = part_of(month_start(year, month), month_start(year, month + 1), match)
    return saying.days(first, after, match)


def month_year(month: int, match: re.Match[str], saying: Utterance) -> int | None:
    """The year of a month that is named; None where nothing tells it."""
    groups = match.groupdict()
    this, this_month = saying.day.year, saying.day.month
    shift = words.SHIFTS.get((groups.get("shift") or "").lower())
    last, coming = (this if month < this_month else this - 1), (this if month > this_month else this + 1)
    if written := groups.get("y") or _relative_year(groups.get("rel"), saying):
        return int(written)
    if shift is not None:
        return {-1: last, 0: this, 1: coming}[shift]
    if month == this_month:
        return this
    ends = (days_after(month_start(last, month + 1), -1), month_start(coming, month))
    chosen = _by_tense(*ends, saying, match.start())
    if chosen is None:
        return None
    return last if chosen == ends[0] else coming


_COUNTED = lazy_pattern(lexicon.alternation("calendar", "counted"))


def read_since_month(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """From October on."""
    found = read_month(match, saying)
    return None if found is None else found._replace(role="since")


def read_year(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """In 2019; but not "in 2000 lines"."""
    year = int(match["y"])
    after = saying.text[match.end() : match.end() + 40]
    if match["p"].lower() in ("in", "en") and year % 100 == 0 and _COUNTED.match(after):
        return None
    first, after_last = part_of(month_start(year, 1), month_start(year + 1, 1), match)
    return saying.days(first, after_last, match)


def read_season(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Summer 2024, last winter."""
    groups = match.groupdict()
    season = words.SEASONS[groups["season"].lower()]
    this = saying.day.year
    if groups.get("y"):
        role: MentionRole = "event" if season < 3 or groups.get("y2") else "vague"  # which winter is winter 2023?
        year = int(groups["y"])
        return saying.days(month_start(year, 3 + 3 * season), month_start(year, 6 + 3 * season), match, role)
    shift = words.SHIFTS[groups["shift"].lower()] if groups.get("shift") else 0
    years = range(this - 2, this + 3)
    spans = [(month_start(year, 3 + 3 * season), month_start(year, 6 + 3 * season)) for year in years]
    index = sum(end <= saying.day for _, end in spans)  # of the present or coming one
    if shift < 0 or (shift > 0 and spans[index][0] <= saying.day):
        index += shift
    elif shift == 0 and spans[index][0] > saying.day and saying.tense(match.start()) == "past":
        index -= 1  # "this summer we swam", said in November
    return saying.days(*part_of(*spans[index], match), match)


def read_quarter(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Q3 2025, the third quarter; without a year the last or the coming one, by the verbs."""
    groups = match.groupdict()
    number = _figure(groups.get("word") or groups["q"])
    length = 6 if groups.get("half") or match.group()[0] in "hH" else 3
    first = 1 + length * (number - 1)
    if first > 12:
        return None
    year = int(groups["y"]) if groups.get("y") else saying.day.year
    if not groups.get("y"):
        ahead = saying.tense(match.start()) == "future"
        if ahead and month_start(year, first + length) <= saying.day:
            year += 1
        elif not ahead and month_start(year, first) > saying.day:
            year -= 1
    return saying.days(month_start(year, first), month_start(year, first + length), match)


def _easter(year: int) -> dt.date:
    """Easter Sunday by the Gregorian calendar. [Meeus, Astronomical Algorithms, chapter 8]"""
    a, (b, c) = year % 19, divmod(year, 100)
    (d, e), (i, k) = divmod(b, 4), divmod(c, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return dt.date(year, month, day + 1)


def _holiday(begins: str, year: int) -> dt.date:
    if begins == "thursday":  # the fourth of November
        first = dt.date(year, 11, 1)
        return days_after(first, (3 - first.weekday()) % 7 + 21)
    month, dash, day = begins.partition("-")
    if month == "advent":
        fourth = days_after(dt.date(year, 12, 24), -((dt.date(year, 12, 24).weekday() + 1) % 7))
        return days_after(fourth, 7 * (int(day) - 4))
    return dt.date(year, int(month), int(day)) if month and dash else days_after(_easter(year), int(begins))


def read_holiday(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Christmas, Easter 2025, last New Year; without a year the last or the coming one, by the verbs."""
    groups = match.groupdict()
    begins, days = words.HOLIDAYS[groups["holiday"].lower().replace("’", "'")].split()
    shift = words.SHIFTS.get((groups.get("shift") or "").lower())
    if groups.get("y"):
        first = _holiday(begins, int(groups["y"]))
    else:
        known = [_holiday(begins, saying.day.year + each) for each in range(-2, 3)]
        index = sum(each <= saying.day for each in known)  # of the coming one
        last, coming = known[index - 1 : index + 1]
        tense = "" if shift else saying.tense(match.start())
        is_near = not tense and saying.is_question and coming - saying.day < saying.day - last
        first = coming if shift == 1 or tense == "future" or (shift is None and is_near) else last
        if shift == 0:
            first = known[2 + (begins == "12-31" and saying.day.month == 1)]
    role: MentionRole = "event" if saying.is_question else "vague"
    return saying.days(first, days_after(first, int(days)), match, role)


# Times of day


def read_clock(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A time of day, for the day next to it. Without am or pm, 1 to 7 could be either."""
    groups = match.groupdict()
    hour: int | None
    if groups.get("noon"):
        hour, minute = (0 if groups["noon"].lower() == "midnight" else 12), 0
    else:
        hour = count_of(groups["h"])
        minute = 30 if groups.get("half") else int(groups.get("min") or 0)
    half = (groups.get("half_day") or "").lower().replace(".", "")
    if hour is None or hour > 24 or minute > 59:
        return None
    if half in ("pm", "下午", "晚上", "傍晚", "午後", "夜") and hour < 12:
        hour += 12
    elif half in ("am", "凌晨", "早上", "上午", "午前", "朝") and hour == 12:
        hour = 0
    elif not half and 1 <= hour <= 7 and not groups.get("sure") and not groups["h"].startswith("0"):
        return None
    length = MINUTE_MS if groups.get("min") else HOUR_MS
    return TimeCandidate(hour * HOUR_MS + minute * MINUTE_MS, length, match.start(), match.end(), "clock")
