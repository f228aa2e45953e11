"""Times on the way in, and in words on the way out. SPEC 2.5, 7.1, 7.5a, 13.

Integer milliseconds or ISO 8601; most also as a span back from now, or as people say them: "yesterday", "last week",
"March 2024".
"""

import datetime as dt
import time
from typing import Literal

from mnemo_core.text.dates import question_times
from mnemo_core.text.dates.local_days import MINUTE_MS, local_time
from mnemo_core.text.dates.question_times import QuestionTime
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import bad_value

MS_MAX = 253_402_300_799_999  # the end of the year 9999, which is as far as dates reach

EXAMPLES = "2026-03-01, 2026-03-01T14:30, yesterday, last week, March 2024, 3 days ago, 2h"

_ISO = lazy_pattern(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d")
_MS = lazy_pattern(r"\d{1,3}|\d{5,7}|\d{9,15}")  # four digits are a year, eight a date
_SPAN = lazy_pattern(r"(\d{1,9})([smhdw])")
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def parse_time(value: int | str, field: str) -> int:
    """ms since the epoch, UTC; text without a zone is in the daemon's local one. Raises a Refusal that names field."""
    if isinstance(value, int):
        if not 0 <= value <= MS_MAX:
            raise bad_value(f"`{field}` is in milliseconds since 1970, 0 to {MS_MAX}", field)
        return value
    try:
        moment = dt.datetime.fromisoformat(value.strip())
        result = int(moment.timestamp() * 1000)  # without a zone: the local one
    except (ValueError, OverflowError, OSError):
        raise bad_value(f"`{field}` is a date like 2026-03-01 or 2026-03-01T14:30, or milliseconds", field) from None
    if not 0 <= result <= MS_MAX:
        raise bad_value(f"`{field}` lies before 1970", field)
    return result


def parse_bound(value: int | str, field: str, end: Literal["since", "until"], now: int) -> int:
    """A bound in ms: milliseconds, ISO 8601, a span back from now (`45m`, `2h`, `3d`), or one end of a stretch that is
    named. `since` is where "last week" begins, `until` where it ends; the end is not part of it. Raises a Refusal."""
    if isinstance(value, int):
        return parse_time(value, field)
    text = value.strip()
    if back := _SPAN.fullmatch(text.removesuffix("ago").rstrip()):
        return max(0, now - int(back[1]) * _UNIT_MS[back[2]])
    if _MS.fullmatch(text):
        return parse_time(int(text), field)
    if _ISO.match(text):
        return parse_time(text, field)
    span = question_times.parse_time_span(text, now, utc_offset)
    if span is None or not 0 <= span.begin <= span.end <= MS_MAX:
        raise bad_value(f"`{field}` cannot be read as a time: say it like {EXAMPLES}, or in milliseconds", field)
    return span.begin if end == "since" else span.end


def parse_expiry(value: int | str, now: int) -> int:
    """The time in ms at which a memory expires: a span from now (`3d`), or the end of a bound (`tomorrow`)."""
    if isinstance(value, str) and (ahead := _SPAN.fullmatch(value.strip())):
        return now + int(ahead[1]) * _UNIT_MS[ahead[2]]
    return parse_bound(value, "expires_at", "until", now)


def parse_interval(
    since: int | str | None, until: int | str | None, now: int, prefix: str = ""
) -> tuple[int | None, int | None]:
    """Return both ends of a filter, each as `bound` reads it, None where it is open. Raises a Refusal that names
    `prefix` + field, also where no moment lies between the two."""
    begin = None if since is None else parse_bound(since, f"{prefix}since", "since", now)
    end = None if until is None else parse_bound(until, f"{prefix}until", "until", now)
    if begin is not None and end is not None and begin >= end:
        message = f"`{prefix}until` must be later than `{prefix}since`: no time lies between them"
        raise bad_value(message, f"{prefix}until")
    return begin, end


def utc_offset(at: int) -> int:
    """The offset of the daemon's own clocks from UTC at that moment, in ms."""
    return time.localtime(at / 1000).tm_gmtoff * 1000


def zone_name() -> str:
    """The name of the zone of the daemon's own clocks."""
    return "/".join(time.tzname)


def local_day(at: int) -> str:
    """The local day of a time in ms, as it is shown."""
    return local_time(at, utc_offset)[0].isoformat()


def day_text(at: int, now: int, *, with_weekday: bool = False) -> str:
    """The local day of a moment: `today`, `yesterday`, `20 November`, with the year where it is another."""
    day, today = local_time(at, utc_offset)[0], local_time(now, utc_offset)[0]
    near = {0: "today", 1: "yesterday", -1: "tomorrow"}.get((today - day).days)
    if near and not with_weekday:
        return near
    name = f"{day:%A}, " if with_weekday else ""
    return f"{name}{day.day} {day:%B}" + (f" {day.year}" if day.year != today.year else "")


def interval_text(time: QuestionTime, now: int) -> str:
    """The interval in days: `16 to 22 November`, `Friday, 20 November`, `since 3 October`."""
    if time.begin is None:
        return f"until {day_text((time.until or 0) - 1, now)}"
    if time.until is None:
        return f"from {day_text(time.begin, now)} on"
    (first, of_day), (last, _) = local_time(time.begin, utc_offset), local_time(time.until - 1, utc_offset)
    today = local_time(now, utc_offset)[0]
    end = f"{last.day} {last:%B}" + (f" {last.year}" if last.year != today.year else "")
    if first == last:
        whole = day_text(time.begin, now, with_weekday=True)
        _, until_ms = local_time(time.until, utc_offset)
        if of_day or until_ms:
            return f"{whole}, {_clock(of_day)} to {_clock(until_ms or 24 * 60 * MINUTE_MS)}"
        return whole
    if last == today and (today - first).days > 1:
        return f"{day_text(time.begin, now)} to today"
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day} to {end}"
    return f"{first.day} {first:%B}" + (f" {first.year}" if first.year != last.year else "") + f" to {end}"


def time_text(time: QuestionTime, of: int, near: tuple[int | None, int | None], first: int | None, now: int) -> str:
    """The head line of an answer. of: the memories in the time. near: with none, the events before and after it. first:
    when the first result happened, of a question for an order; None where none is in order."""
    parts = []
    if time.has_interval:
        interval = interval_text(time, now)
        if of:
            said = f" ({time.words})" if time.words else ""
            parts.append(f"{interval}{said}: {of} {'memory' if of == 1 else 'memories'}")
        else:
            sides = [f"{name}: {day_text(at, now)}" for name, at in zip(("before", "after"), near, strict=True)
                     if at is not None]  # fmt: skip
            parts.append(
                "; ".join([f"nothing of {interval}", ", ".join(sides)] if sides else [f"nothing of {interval}"])
            )
    if time.order and first is not None:
        days = (local_time(now, utc_offset)[0] - local_time(first, utc_offset)[0]).days
        ago = f", {days} days ago" if days > 1 else ""
        parts.append(f"the {time.order}: {day_text(first, now)}{ago}")
    return "; ".join(parts)


def _clock(ms: int) -> str:
    return f"{ms // (60 * MINUTE_MS)}:{ms // MINUTE_MS % 60:02}"
