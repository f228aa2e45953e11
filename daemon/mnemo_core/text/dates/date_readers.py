"""Readers of time expressions, relative to the time of the statement. SPEC 2.5, 5.4

A reader takes a match of its rule and gives the time, or None where the match is none after all.
"""

import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Literal, NamedTuple

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
    months_after,
)
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import line_spans

NEAR_DAYS = 60  # a date without a year or tense: the nearest, if it is nearer than this …
FAR_DAYS = 180  # … and the other possible one farther than this
YEAR_MIN, YEAR_MAX = 1000, 9000  # so that every zone knows what its clocks show then
WEEK_MARGIN_DAYS = 3  # "two weeks ago" is a day give or take so many
MONTH_MARGIN_DAYS = 15
YEAR_MARGIN_DAYS = 91

Tense = Literal["past", "future", ""]
MentionRole = Literal["event", "bound", "again", "vague", "unsure", "clock"]


class TimeCandidate(NamedTuple):
    """A mention, and what it is good for. `day` is the day of the calendar where it is one."""

    at: int
    until: int
    start: int
    end: int
    role: MentionRole = "event"
    day: dt.date | None = None
    when: int | None = None  # where it is not the beginning


class Utterance:
    """A text with the moment and the time zone of its statement."""

    def __init__(self, text: str, said_at: int, zone: Zone) -> None:
        self.text = text
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
            if self.search(at, words.FUTURE):
                self._tenses[start] = "future"
            else:
                self._tenses[start] = "past" if self.search(at, words.PAST) else ""
        return self._tenses[start]


Reader = Callable[[re.Match[str], Utterance], TimeCandidate | None]


# Dates of the calendar


def read_date(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A day and month, with or without a year."""
    groups = match.groupdict()
    month = words.MONTHS[groups["mon"].lower().rstrip(".")] if groups.get("mon") else _figure(groups["m"])
    first = _figure(groups["d"])
    last = _figure(groups["d2"]) if groups.get("d2") else first
    if (
        groups.get("y") is None
        and groups.get("mon") in ("may", "march", "mar", "dec", "sep", "sept")
        and "of" not in match.group()
    ):
        return None  # "you may 5 times", "march 10 miles"
    written = groups.get("y") or _relative_year(groups.get("rel"), saying)
    year = _year_of(written, month, first, match, saying)
    if year is None:
        return _unsure(match) if date_or_none(2000, month, first) else None
    begin, end = date_or_none(year, month, first), date_or_none(year, month, last)
    if begin is None or end is None or end < begin:
        return None
    return saying.days(begin, days_after(end, 1), match)


def _figure(written: str) -> int:
    """A number under 100 in digits, or in Chinese ones: 二十一 is 21."""
    if written.isdecimal():
        return int(written)
    tens, ten, ones = written.rpartition("十")
    return (words.COUNTS.get(tens, 1) * 10 if ten else 0) + words.COUNTS.get(ones, 0)


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
    chosen = _by_tense(last, coming, saying, match.start())
    return None if chosen is None else chosen.year


def _by_tense(last: dt.date | None, coming: dt.date | None, saying: Utterance, at: int) -> dt.date | None:
    if last is None or coming is None or last == coming:
        return last if last is not None else coming
    match saying.tense(at):
        case "past":
            return last
        case "future":
            return coming
    since, to = (saying.day - last).days, (coming - saying.day).days
    near, far = sorted((since, to))
    if near > NEAR_DAYS or far < FAR_DAYS:
        return None
    return last if since < to else coming


def _unsure(match: re.Match[str]) -> TimeCandidate:
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
        return _unsure(match)
    return saying.one_day(readings.pop(), match) if readings else None


def _part_of(first: dt.date, after: dt.date, match: re.Match[str]) -> tuple[dt.date, dt.date]:
    """The third of a span that `early`, `mid` or `late` means; the whole without one."""
    part = (match.groupdict().get("part") or "").lower()
    if not part:
        return first, after
    begins, ends = words.PARTS_OF_SPAN[part]
    length = (after - first).days
    return days_after(first, begins * length // 3), days_after(first, ends * length // 3) if ends < 3 else after


def read_month(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A month, with a year or by its verbs."""
    groups = match.groupdict()
    name = groups.get("mon") or ""
    month = words.MONTHS[name.lower()] if name else _figure(groups["m"])
    if not 1 <= month <= 12:
        return None
    if name in ("may", "march", "mar", "sep", "dec", "jan") and not (groups.get("y") or groups.get("rel")):
        return None
    this, this_month = saying.day.year, saying.day.month
    shift = words.SHIFTS.get((groups.get("shift") or "").lower())
    last, coming = (this if month < this_month else this - 1), (this if month > this_month else this + 1)
    if written := groups.get("y") or _relative_year(groups.get("rel"), saying):
        year = int(written)
    elif shift is not None:
        year = {-1: last, 0: this, 1: coming}[shift]
    elif month == this_month:
        year = this
    else:
        ends = (days_after(month_start(last, month + 1), -1), month_start(coming, month))
        chosen = _by_tense(*ends, saying, match.start())
        if chosen is None:
            return _unsure(match)
        year = last if chosen == ends[0] else coming
    first, after = _part_of(month_start(year, month), month_start(year, month + 1), match)
    return saying.days(first, after, match)


_COUNTED = lazy_pattern(
    r"\s+(?:\w+\s+)?(?!was\b|is\b|has\b|does\b|this\b|us\b|as\b|always\b|perhaps\b|unless\b|plus\b"
    r"|class\b)[a-z]{3,}s\b"
)


def read_year(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """In 2019; but not "in 2000 lines"."""
    year = int(match["y"])
    after = saying.text[match.end() : match.end() + 40]
    if match["p"].lower() in ("in", "en") and year % 100 == 0 and _COUNTED.match(after):
        return None
    first, after_last = _part_of(month_start(year, 1), month_start(year + 1, 1), match)
    return saying.days(first, after_last, match)


def read_season(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Summer 2024, last winter."""
    groups = match.groupdict()
    season = words.SEASONS[groups["season"].lower()]
    this = saying.day.year
    if groups["y"]:
        role: MentionRole = "event" if season < 3 or groups.get("y2") else "vague"  # which winter is winter 2023?
        year = int(groups["y"])
        return saying.days(month_start(year, 3 + 3 * season), month_start(year, 6 + 3 * season), match, role)
    shift = words.SHIFTS[groups["shift"].lower()]
    spans = [
        (month_start(year, 3 + 3 * season), month_start(year, 6 + 3 * season)) for year in range(this - 2, this + 3)
    ]
    index = sum(end <= saying.day for _, end in spans)  # of the present or coming one
    if shift < 0 or (shift > 0 and spans[index][0] <= saying.day):
        index += shift
    return saying.days(*spans[index], match)


_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}


def read_quarter(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    word, year = match.groupdict().get("word"), int(match["y"])
    number = _ORDINALS[word.lower()] if word else int(match["q"])
    length = 6 if match.group()[0] in "hH" else 3
    first = 1 + length * (number - 1)
    return saying.days(month_start(year, first), month_start(year, first + length), match) if first <= 12 else None


# Times relative to the statement


def read_day_word(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Today, yesterday, tomorrow …, with or without a part of the day."""
    word = match["word"].lower()
    if word == "hier" and not _is_french(saying.text):
        return None  # German: here
    if match["word"] == "Morgen" and not _BEGINS_WITH_MORGEN.match(saying.text, match.start()):
        return None  # the morning, or a greeting
    day = days_after(saying.day, words.DAYS[word])
    part = match.groupdict().get("part") or words.PART_OF_WORD.get(word)
    return _in_part(saying.one_day(day, match), part, saying)


def _in_part(found: TimeCandidate, part: str | None, saying: Utterance) -> TimeCandidate:
    """The part of the day that the word names; the whole day without one."""
    if not part or found.day is None:
        return found
    begins, ends = words.PARTS[words.PART_NAMES[part.lower()]]
    return found._replace(at=saying.moment(found.day, begins * HOUR_MS), until=saying.moment(found.day, ends * HOUR_MS))


_FRENCH = lazy_pattern(
    r"\b(?:le|la|les|des|une|est|ai|avons|je|nous|avec|pour|dans|sur|au|du|mes|mon|ma|on|elle|il)\b|\bj['’]"
    r"|\bl['’]|[éèêàçù]",
    re.IGNORECASE,
)
_GERMAN = lazy_pattern(r"\b(?:ich|der|die|das|und|ist|nicht|wir|ein|eine|mit|von|auf|sind)\b", re.IGNORECASE)
_BEGINS_WITH_MORGEN = lazy_pattern(r"Morgen (?=[a-zäöü]|Abend|Nachmittag|Mittag)")


def _is_french(text: str) -> bool:
    return bool(_FRENCH.search(text)) and not _GERMAN.search(text)


def read_this_part_named(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """This morning, tonight, last night."""
    expression = match.group().lower()
    if expression in ("last night", "letzte nacht", "la nuit dernière"):
        found = _in_part(saying.one_day(days_after(saying.day, -1), match), "evening", saying)
        return found._replace(until=min(saying.moment(saying.day, 6 * HOUR_MS), max(saying.said_at, found.until)))
    part = expression.rpartition(" ")[2]
    return _in_part(saying.one_day(saying.day, match), part if part in words.PART_NAMES else "evening", saying)


def read_unit(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Last week, this month, next year …: the whole of it, weeks from Monday."""
    shift = words.SHIFTS[match["shift"].lower()]
    unit = words.UNITS[match["unit"].lower()]
    return _unit_span(unit, shift, match, saying)


def read_unit_cjk(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """上周, 今年, 来月: unit and shift are one word."""
    return _unit_span(*words.UNITS_CJK[match["word"]], match, saying)


def _unit_span(unit: str, shift: int, match: re.Match[str], saying: Utterance) -> TimeCandidate:
    year, month = saying.day.year, saying.day.month
    match unit:
        case "week":
            monday = days_after(saying.monday, 7 * shift)
            return saying.days(monday, days_after(monday, 7), match)
        case "weekend":
            if shift == 0 and saying.day.weekday() < 5 and saying.tense(match.start()) == "past":
                shift = -1  # "we mended the roof this weekend"
            role: MentionRole = (
                "unsure" if shift > 0 and saying.day.weekday() < 5 and match.group().isascii() else "event"
            )
            return _weekend_of(shift, match, saying, role)
        case "month":
            return saying.days(month_start(year, month + shift), month_start(year, month + shift + 1), match)
        case "quarter":
            first = month - (month - 1) % 3 + 3 * shift
            return saying.days(month_start(year, first), month_start(year, first + 3), match)
        case _:
            return saying.days(month_start(year + shift, 1), month_start(year + shift + 1, 1), match)


def read_weekend(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """At the weekend: the last or the coming one, by the verbs."""
    is_weekend = saying.day.weekday() >= 5
    tense = saying.tense(match.start())
    if not tense and not is_weekend:
        return _unsure(match)
    shift = 0 if is_weekend or tense == "future" else -1
    return _weekend_of(shift, match, saying)


def _weekend_of(shift: int, match: re.Match[str], saying: Utterance, role: MentionRole = "event") -> TimeCandidate:
    """Saturday and Sunday of the week that many weeks from now."""
    return saying.days(days_after(saying.monday, 7 * shift + 5), days_after(saying.monday, 7 * shift + 7), match, role)


def read_ago(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """Three days ago, two weeks from now: the day itself; weeks, months and years give or take a part of one."""
    groups = match.groupdict()
    count = _count(groups["n"])
    if count is None:
        return None
    unit = groups["unit"].lower()
    unit = words.SPANS.get(unit) or words.SPANS.get(unit.removesuffix("s")) or words.SPANS[unit.removesuffix("e")]
    if groups.get("doubt") and not _is_ahead(match, saying):
        return read_vague(match, saying)
    sign = 1 if groups.get("ahead") or groups.get("doubt") else -1
    if unit in ("second", "minute", "hour"):
        length = {"second": 1000, "minute": MINUTE_MS, "hour": HOUR_MS}[unit]
        at = saying.said_at + sign * count * length
        return TimeCandidate(at, at + length, match.start(), match.end())
    if unit in ("month", "year"):
        centre = months_after(saying.day, sign * count * (12 if unit == "year" else 1))
    else:
        centre = days_after(saying.day, sign * count * (7 if unit == "week" else 1))
    margin = {"day": 0, "week": WEEK_MARGIN_DAYS, "month": MONTH_MARGIN_DAYS, "year": YEAR_MARGIN_DAYS}[unit]
    found = saying.days(days_after(centre, -margin), days_after(centre, margin + 1), match)
    return found._replace(when=saying.moment(centre), day=centre if unit in ("day", "week") else None)


def _count(written: str) -> int | None:
    if written.isdecimal():
        return int(written) if len(written) < 4 else None
    return words.COUNTS.get(written.lower())


def _is_ahead(match: re.Match[str], saying: Utterance) -> bool:
    """Return whether "in 3 days" is a point in time, not a duration."""
    at = match.start()
    is_plan = saying.search(at, words.FUTURE) is not None or saying.search(at, words.COMES) is not None
    return is_plan and saying.search(at, words.PAST) is None


# Weekdays


def read_weekday(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """On Friday, last Friday, next Friday, Friday last week."""
    groups = match.groupdict()
    weekday = words.WEEKDAYS[groups["day"].lower()]
    here = days_after(saying.monday, weekday)
    week = words.SHIFTS.get((groups.get("week") or "").lower())
    shift = words.SHIFTS.get((groups.get("shift") or "").lower())
    role: MentionRole = "event"
    if week is not None:
        day = days_after(here, 7 * week)
    elif shift == -1:
        day = here if here < saying.day else days_after(here, -7)
    elif shift == 1 and not (groups.get("shift") or "").lower().endswith(("coming", "kommenden")):
        day = days_after(here, 7)
        role = "unsure" if here > saying.day else "event"
    elif shift == 1:
        day = here if here > saying.day else days_after(here, 7)
    else:
        return _weekday_by_tense(here, match, saying, is_this=shift == 0)
    found = saying.one_day(day, match, role)
    return _in_part(found, groups.get("part"), saying)


def _weekday_by_tense(here: dt.date, match: re.Match[str], saying: Utterance, is_this: bool) -> TimeCandidate | None:
    tense = saying.tense(match.start())
    last = here if here < saying.day else days_after(here, -7)
    coming = here if here > saying.day else days_after(here, 7)
    if here == saying.day:
        return saying.one_day(here, match, "event" if is_this else "unsure")
    if _is_moved_to(match, saying):
        day = coming
    elif tense == "past":
        day = last
    elif tense == "future" or match.groupdict().get("p") or (is_this and here > saying.day):
        day = coming
    else:
        return saying.one_day(last, match, "unsure")
    return _in_part(saying.one_day(day, match), match.groupdict().get("part"), saying)


def _is_moved_to(match: re.Match[str], saying: Utterance) -> bool:
    """Return whether something was postponed to that day."""
    if not saying.text.endswith((" to ", " until ", " auf ", " à ", "到", "至"), 0, match.start()):
        return False
    start, _ = saying.sentence(match.start())
    moved = saying.search(match.start(), words.MOVED)
    return moved is not None and start + moved.end() <= match.start()


# A weekday without one of these is the nearest by the verbs.
_WEEKS_CJK = {"上上": -2, "先々": -2, "上": -1, "先": -1, "这": 0, "這": 0, "本": 0, "今": 0, "下": 1, "来": 1,
              "下下": 2, "再来": 2}  # fmt: skip


def read_weekday_cjk(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """上周五 and 先週の金曜日 are Fridays of last week, whatever the day of saying is."""
    here = days_after(saying.monday, words.WEEKDAYS_CJK[match["day"]])
    shift = _WEEKS_CJK.get(match["week"])
    if shift is None:
        return _weekday_by_tense(here, match, saying, is_this=False)
    return saying.one_day(days_after(here, 7 * shift), match)


def read_again(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """On Mondays, every Friday: no one day."""
    return TimeCandidate(0, 0, match.start(), match.end(), "again")


def read_vague(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A few days ago: a time that is left open."""
    return TimeCandidate(0, 0, match.start(), match.end(), "vague")


# Times of day


def read_clock(match: re.Match[str], saying: Utterance) -> TimeCandidate | None:
    """A time of day, for the day next to it. Without am or pm, 1 to 7 could be either."""
    groups = match.groupdict()
    hour: int | None
    if groups.get("noon"):
        hour, minute = (0 if groups["noon"].lower() == "midnight" else 12), 0
    else:
        hour = _count(groups["h"])
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
