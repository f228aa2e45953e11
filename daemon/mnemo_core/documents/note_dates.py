"""Event dates that a note states: in its name, its front matter, its headings, its Org timestamps.

The time of the file is not used: it says when somebody saved it, not when something happened. SPEC 2.1, 6
"""

import re
from collections.abc import Sequence

from mnemo_core.text.dates import time_mentions
from mnemo_core.text.dates.local_days import DAY_MS, HOUR_MS, MINUTE_MS, Zone, date_or_none, moment_of
from mnemo_core.text.lazy_patterns import lazy_pattern

HEADINGS_READ_MAX = 1_000  # of one file, for dates in words: some 100 µs each; ISO dates are read in all of them
DAY_MS_MAX = DAY_MS + 2 * HOUR_MS  # a day on which the clocks are set back

_YEAR = r"((?:19|20)[0-9]{2})"
_NAME = lazy_pattern(rf"(?<![0-9]){_YEAR}(?:([-_. ]?)([01][0-9])\2([0-3][0-9]))(?:[0-6][0-9]){{0,3}}(?![0-9])")
_FOLDERS = lazy_pattern(rf"(?:^|/){_YEAR}/(?:{_YEAR}-)?([01][0-9])[^/0-9]?[^/]{{0,30}}/([0-3][0-9])(?![0-9])[^/]*$")
_ISO_DAY = lazy_pattern(rf"(?<![0-9]){_YEAR}-([01][0-9])-([0-3][0-9])(?![0-9])")
_HAS_YEAR = lazy_pattern(rf"(?<![0-9]){_YEAR}(?![0-9])")
_WEEKDAY = r" [^\W\d_]{1,12}\.?"
_CLOCK = r"(?:[ T]([0-2]?[0-9]):([0-5][0-9]))?"
_ACTIVE = lazy_pattern(rf"<{_YEAR}-([01][0-9])-([0-3][0-9])(?:{_WEEKDAY})?{_CLOCK}")
_ACTIVE_WITH_WEEKDAY = lazy_pattern(rf"<{_YEAR}-([01][0-9])-([0-3][0-9]){_WEEKDAY}{_CLOCK}")
_INACTIVE = lazy_pattern(rf"\[{_YEAR}-([01][0-9])-([0-3][0-9]){_WEEKDAY}{_CLOCK}")


def date_in_name(path: str, zone: Zone) -> int | None:
    """The beginning of the day that a file's path names, in ms: `2026-08-14.md`, `2026_11_05.md`, `20260814 x.md`,
    `2026/08/14.md`. Of several the first."""
    name = path.rpartition("/")[2]
    for match in _NAME.finditer(name):
        if (at := _at(match[1], match[3], match[4], zone)) is not None:
            return at
    folders = _FOLDERS.search(path[-200:])
    return _at(folders[1], folders[3], folders[4], zone) if folders is not None else None


def date_in_heading(text: str, zone: Zone) -> int | None:
    """The one day, with its year, that a heading, a title or a property names; None where it names none or several."""
    days = [*_ISO_DAY.finditer(text)]
    if not days:
        if _HAS_YEAR.search(text) is None:
            return None
        at = time_mentions.find_event_time(text, 0, zone)
        if at is None:
            return None
        for mention in time_mentions.find_mentions(text, 0, zone):
            is_day = mention.until - mention.at <= DAY_MS_MAX and mention.at <= at < mention.until
            if is_day and _HAS_YEAR.search(text, mention.start, mention.end):
                return at
        return None
    if len({day.groups() for day in days}) > 1:
        return None
    day, clock = days[0], _CLOCK_BEHIND.match(text, days[0].end())
    hour, minute = clock.groups() if clock is not None else (None, None)
    return _at(day[1], day[2], day[3], zone, hour, minute)


_CLOCK_BEHIND = lazy_pattern(rf"(?:{_WEEKDAY})?{_CLOCK}")


def date_in_org(text: str, zone: Zone) -> int | None:
    """The first active timestamp of an Org text (`<2026-08-14 Fri 10:00>`), else its first inactive one (`[…]`)."""
    return _stamp(_ACTIVE, text, zone) or _stamp(_INACTIVE, text, zone)


def date_in_logseq(text: str, zone: Zone) -> int | None:
    """The first timestamp with a weekday (`SCHEDULED: <2026-08-14 Fri>`) in a Markdown text."""
    return _stamp(_ACTIVE_WITH_WEEKDAY, text, zone)


def _stamp(pattern: re.Pattern[str], text: str, zone: Zone) -> int | None:
    match = pattern.search(text)
    return _at(match[1], match[2], match[3], zone, match[4], match[5]) if match is not None else None


def _at(year: str, month: str, day: str, zone: Zone, hour: str | None = None, minute: str | None = None) -> int | None:
    date = date_or_none(int(year), int(month), int(day))
    if date is None:
        return None
    has_time = hour is not None and minute is not None and int(hour) < 24
    at = moment_of(date, int(hour or 0) * HOUR_MS + int(minute or 0) * MINUTE_MS if has_time else 0, zone)
    return at if at >= 0 else None


class HeadingDates:
    """Dates of the headings above the chunks of one file: each heading is read once."""

    def __init__(self, zone: Zone) -> None:
        self._zone = zone
        self._known: dict[str, int | None] = {}
        self._read_in_words = 0

    def nearest(self, headings: Sequence[str]) -> int | None:
        """The date of the innermost heading that has one."""
        for heading in reversed(headings):
            if heading not in self._known:
                self._known[heading] = self._date(heading)
            if (at := self._known[heading]) is not None:
                return at
        return None

    def _date(self, heading: str) -> int | None:
        if _ISO_DAY.search(heading) is None and _HAS_YEAR.search(heading) is not None:
            self._read_in_words += 1
            if self._read_in_words > HEADINGS_READ_MAX:
                return None
        return date_in_heading(heading, self._zone)
