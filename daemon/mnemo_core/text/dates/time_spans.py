"""A span of time as a person names it in a filter: "yesterday", "last week", "march 2024", "3 days ago". SPEC 7.1

`time_mentions` reads sentences; here one expression stands alone and is the whole input, read like a question: of two
spans on either side of now the past one is taken, since filters are about what happened.
"""

import re
from typing import NamedTuple

from mnemo_core.text.dates.date_readers import Utterance
from mnemo_core.text.dates.local_days import Zone, moment_of, month_start
from mnemo_core.text.dates.time_mentions import masked, read_candidates
from mnemo_core.text.lazy_patterns import lazy_pattern

TEXT_CHARS_MAX = 80


class TimeSpan(NamedTuple):
    """From `begin` up to, not including, `end` (ms); a moment where they are equal."""

    begin: int
    end: int


_LEADING = lazy_pattern(r"(?:on|in|at|the|am|im|um|en|au|à|le|la)?\s*", re.IGNORECASE)
_MONTH = lazy_pattern(r"(\d{4})-(0[1-9]|1[0-2])")  # of ISO 8601


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
        for preposition in ("", "in ", "on "):
            span = _read(preposition, written, now, zone)
            if span is not None:
                return span
    return None


def _read(preposition: str, text: str, now: int, zone: Zone) -> TimeSpan | None:
    """The span of the one time that is the whole of the text, behind the preposition."""
    said = preposition + text
    found = read_candidates(Utterance(masked(said), now, zone, is_question=True))
    if len(found) != 1 or found[0].end != len(said) or found[0].role != "event" or found[0].until <= found[0].at:
        return None
    one = found[0]
    if not _LEADING.fullmatch(said[len(preposition) : max(len(preposition), one.start)]):
        return None
    return TimeSpan(one.at, one.until)
