"""Times on the way in: integer milliseconds or ISO 8601. SPEC 2.5, 13."""

import datetime as dt

from mnemo_daemon.refusals import bad_value

MS_MAX = 253_402_300_799_999  # the end of the year 9999, which is as far as dates reach


def milliseconds(value: int | str, field: str) -> int:
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
