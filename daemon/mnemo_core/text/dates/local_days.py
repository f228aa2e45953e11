"""Local days and times of day. A day is a `datetime.date`, a time of day is counted in ms from its midnight."""

import calendar
import datetime as dt
from collections.abc import Callable

Zone = Callable[[int], int]  # ms since the epoch, UTC -> how far the clocks of the zone are ahead of UTC then, in ms

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
EPOCH = dt.date(1970, 1, 1)


def days_after(day: dt.date, count: int) -> dt.date:
    """The day that many days later (earlier for a negative count). Raises OverflowError outside the years 1 to 9999."""
    return day + dt.timedelta(days=count)


def date_or_none(year: int, month: int, day: int) -> dt.date | None:
    """The date, or None where the calendar has no such day."""
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


def month_start(year: int, month: int) -> dt.date:
    """The first day of a month; month numbers over 12 or under 1 count on into the next or the previous years. Raises
    OverflowError outside the years 1 to 9999."""
    year += (month - 1) // 12
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise OverflowError(f"the year {year} is outside the calendar")
    return dt.date(year, (month - 1) % 12 + 1, 1)


def months_after(day: dt.date, count: int) -> dt.date:
    """The same day of the month that many months later; the month's last day where it has no such day."""
    first = month_start(day.year, day.month + count)
    return first.replace(day=min(day.day, calendar.monthrange(first.year, first.month)[1]))


def local_time(at: int, zone: Zone) -> tuple[dt.date, int]:
    """The day and the time of day (ms) that the clocks of the zone show at a moment (ms since the epoch, UTC). After
    the year 9999 it is the last day of the calendar."""
    days, ms = divmod(at + zone(at), DAY_MS)
    return days_after(EPOCH, min(days, (dt.date.max - EPOCH).days)), ms


def moment_of(day: dt.date, ms: int, zone: Zone) -> int:
    """The moment (ms since the epoch, UTC) at which the clocks of the zone show this day and time of day.

    Where they show it twice, in autumn, it is the first time. Where they leap over it, in spring, it is as long after
    the leap as the local time lies after what they showed last.
    """
    wall = (day - EPOCH).days * DAY_MS + ms
    before, after = zone(wall - DAY_MS), zone(wall + DAY_MS)
    if zone(wall - before) == before:
        return wall - before
    if zone(wall - after) == after:
        return wall - after
    return wall - before
