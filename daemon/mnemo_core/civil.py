"""Days of the calendar, and the clocks of a zone, as whole numbers.

A day is counted from 1970-01-01, which is 0; Monday is weekday 0. A wall time is the ms that the clocks of a zone show,
counted from the same midnight. The core has no `datetime`: a clock comes with it.
"""

from collections.abc import Callable

Zone = Callable[[int], int]  # ms since the epoch, UTC -> how far the clocks of the zone are ahead of UTC then, in ms

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def month_days(year: int, month: int) -> int:
    """How many days a month has."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTH_DAYS[month - 1]


def is_date(year: int, month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= month_days(year, month)


def day_of(year: int, month: int, day: int = 1) -> int:
    """The day of a date of the Gregorian calendar; months over 12 or under 1 run into the years beside."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    shifted = year - (month <= 2)  # years that begin in March end in the leap day
    since_march = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + since_march - 719_468


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month."""
    days = day + 719_468
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def weekday_of(day: int) -> int:
    """0 for Monday to 6 for Sunday."""
    return (day + 3) % 7


def months_from(day: int, months: int) -> int:
    """The same day of the month so many months on; the month's last where it has no such day."""
    year, month, of_month = date_of(day)
    index = year * 12 + month - 1 + months
    year, month = index // 12, index % 12 + 1
    return day_of(year, month, min(of_month, month_days(year, month)))


def wall_of(at: int, zone: Zone) -> int:
    """What the clocks of the zone show at a moment (ms since the epoch, UTC)."""
    return at + zone(at)


def moment_of(wall: int, zone: Zone) -> int:
    """The moment (ms since the epoch, UTC) at which the clocks of the zone show this wall time.

    Where they show it twice, in autumn, it is the first time. Where they leap over it, in spring, it is as long after
    the leap as the wall time lies after what they showed last.
    """
    before, after = zone(wall - DAY_MS), zone(wall + DAY_MS)
    if zone(wall - before) == before:
        return wall - before
    if zone(wall - after) == after:
        return wall - after
    return wall - before
