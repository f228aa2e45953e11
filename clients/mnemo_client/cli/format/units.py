"""Numbers, sizes, times, ids and paths as people read them."""

from datetime import UTC, datetime
from pathlib import Path

from mnemo_client.cli.terminal import clip, sanitize
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.status import OperationView

LISTED_LINE_CELLS = 72  # of a memory in a list of many
SHORT_ID_DIGITS = 8  # people are shown the last 8 (SPEC 2.1)
_UNITS = ("B", "KB", "MB", "GB", "TB")


def size_text(count: int) -> str:
    """Return bytes as people read them: 812 B, 1.4 MB."""
    amount = float(count)
    for unit in _UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units: 45 s, 3 min 5 s, 2 h 10 min, 4 d 3 h."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    for name, length, smaller, small_length in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            count, rest = divmod(whole, length)
            return f"{count} {name} {rest // small_length} {smaller}"
    raise AssertionError(whole)


def local_date(at: int) -> str:
    """Return the day in the local time zone. ISO 8601"""
    return _format_local(at, "%Y-%m-%d")


def event_date(memory: MemoryView) -> str:
    """Return the day of the event; empty if only the time of a file is known."""
    return local_date(memory.event_at) if memory.note is None or memory.note.dated else ""


def local_time(at: int) -> str:
    """Return day and time in the local time zone."""
    return _format_local(at, "%Y-%m-%d %H:%M:%S")


def local_minute(at: int) -> str:
    """Return day and minute in the local time zone."""
    return _format_local(at, "%Y-%m-%d %H:%M")


def _format_local(at: int, shape: str) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime(shape)
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"


def number_text(count: int) -> str:
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    return f"{number_text(count)} {one if count == 1 else many or one + 's'}"


def short_id(id: str) -> str:  # noqa: A002 - the field's own name
    return id.replace("-", "")[-SHORT_ID_DIGITS:]


def short_path(path: str, here: Path | None, home: Path) -> str:
    """Return the path relative to `here` or to the home folder if it is below one of them, else in full.

    `here` is None for paths that should read the same in every working directory.
    """
    for base, prefix in ((here, ""), (home, "~/")):
        if base is not None and Path(path) != base and Path(path).is_relative_to(base):
            return prefix + str(Path(path).relative_to(base))
    return path


def percent(share: float) -> str:
    """Return a percentage, rounded down, so that 100% means all."""
    return f"{int(share * 100)}%"


def first_line(memory: MemoryView, width: int | None = LISTED_LINE_CELLS) -> str:
    """Return the first line of the text."""
    line = next((line for line in memory.content.splitlines() if line.strip()), "")
    return clip(sanitize(line.strip()), width)


def progress_text(operation: OperationView) -> str:
    """Return an operation as one line: its step, how much of it is done, at what rate, and the time left."""
    parts = [f"{operation.name}: {operation.step}"]
    if operation.total:
        share = percent(operation.done / operation.total)
        parts.append(f"{number_text(operation.done)} of {number_text(operation.total)} ({share})")
    elif operation.done:
        parts.append(number_text(operation.done))
    if operation.rate is not None:
        parts.append(f"{number_text(round(operation.rate))} a second")
    if operation.seconds_left is None:
        parts.append(f"for {duration_text(operation.seconds)}")
    else:
        parts.append(f"{duration_text(operation.seconds_left)} left")
    return ", ".join(parts)
