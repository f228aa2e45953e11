"""A span of time as a person names it in a filter: "yesterday", "last week", "march 2024", "3 days ago". SPEC 7.1

`time_mentions` reads sentences; here one expression stands alone and is the whole input. Of two spans on either side of
now the past one is taken: filters are about what happened. German, French, Chinese and Japanese are read as far as
`time_mentions` reads them.
"""

import re
from typing import NamedTuple

from mnemo_core.text.dates import time_mentions
from mnemo_core.text.dates.date_words import COUNTS
from mnemo_core.text.dates.local_days import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    MINUTE_MS,
    Zone,
    local_time,
    moment_of,
    month_start,
    months_after,
)
from mnemo_core.text.lazy_patterns import lazy_pattern

TEXT_CHARS_MAX = 80


class TimeSpan(NamedTuple):
    """From `begin` up to, not including, `end` (ms); a moment where they are equal."""

    begin: int
    end: int


# In the past tense, so that of two readings the one behind us is taken.
_SENTENCES = ("it was on {}", "it was in {}", "it was {}", "{}")
_LEADING = lazy_pattern(r"(?:on|in|at|the|am|im|um|en|au|à|le|la)?\s*", re.IGNORECASE)

_MONTH = lazy_pattern(r"(\d{4})-(0[1-9]|1[0-2])")  # of ISO 8601
_UNIT_MS = {"second": 1000, "minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS}
_UNIT_MONTHS = {"month": 1, "year": 12}
_UNTIL_NOW = lazy_pattern(
    r"(?:(?:in|over|within|during) )?(?:the )?(?:last|past) (?:(\d{1,4}|[a-z]+) )?"
    r"(second|minute|hour|day|week|month|year)s?"
)


def parse_time_span(text: str, now: int, zone: Zone) -> TimeSpan | None:
    """The stretch of time that the text names, seen from `now`; None where it names none, or more than one."""
    text = " ".join(text.split())
    if not text or len(text) > TEXT_CHARS_MAX:
        return None
    if text.lower() == "now":
        return TimeSpan(now, now)
    if month := _MONTH.fullmatch(text):
        year, number = int(month[1]), int(month[2])
        return TimeSpan(*(moment_of(month_start(year, each), 0, zone) for each in (number, number + 1)))
    for written in dict.fromkeys((text, text.title())):  # "may" and "march" are months where they begin like one
        for sentence in _SENTENCES:
            span = _read(sentence, written, now, zone)
            if span is not None:
                return span
    return _until_now(text.lower(), now, zone)


def _read(sentence: str, text: str, now: int, zone: Zone) -> TimeSpan | None:
    """The span of the one time that stands in the sentence in the place of the whole text."""
    said, start = sentence.format(text), sentence.index("{")
    found = time_mentions.find_mentions(said, now, zone)
    if len(found) != 1 or found[0].end != len(said):
        return None
    one = found[0]
    if not _LEADING.fullmatch(said[start : max(start, one.start)]):
        return None
    return TimeSpan(one.at, one.until)


def _until_now(text: str, now: int, zone: Zone) -> TimeSpan | None:
    """A span that ends now: "the last 3 days", "past week"."""
    match = _UNTIL_NOW.fullmatch(text)
    if match is None:
        return None
    number, unit = match[1] or "one", match[2]
    count = int(number) if number.isdecimal() else COUNTS.get(number, 0)
    if not count:
        return None
    if unit in _UNIT_MS:
        return TimeSpan(now - count * _UNIT_MS[unit], now)
    day, of_day = local_time(now, zone)
    months = min(count * _UNIT_MONTHS[unit], day.year * 12)
    earlier = max(EPOCH, months_after(day, -months))
    return TimeSpan(moment_of(earlier, of_day, zone), now)
