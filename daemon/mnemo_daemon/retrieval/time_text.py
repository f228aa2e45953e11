"""The time that a question names in words, as every client shows it. SPEC 7.5a"""

from mnemo_core.text.dates.local_days import MINUTE_MS, local_time
from mnemo_core.text.dates.question_times import QuestionTime
from mnemo_daemon.times import utc_offset


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
    """The head line of an answer.

    of: the memories in the time. near: with none, the events before and after it. first: when the first result
    happened, of a question for an order; None where none is in order.
    """
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
