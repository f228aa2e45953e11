"""Times on the way in. SPEC 2.5, 13."""

import datetime as dt

import pytest

from mnemo_daemon.errors import Refusal
from mnemo_daemon.times import parse_expiry, parse_time


def test_integers_are_milliseconds() -> None:
    assert parse_time(1_700_000_000_000, "since") == 1_700_000_000_000


def test_iso_text_with_a_zone_is_that_instant() -> None:
    assert parse_time("1970-01-02T01:00:00+01:00", "since") == 86_400_000
    assert parse_time("1970-01-02T00:00:00Z", "since") == 86_400_000


def test_iso_text_without_a_zone_is_local() -> None:
    local = dt.datetime(2026, 3, 1, 14, 30).astimezone()
    assert parse_time("2026-03-01T14:30", "since") == int(local.timestamp() * 1000)


@pytest.mark.parametrize("bad", ["soon", "", "2026-13-01", -1, 10**18, "1900-01-01T00:00:00Z"])
def test_an_invalid_time_is_refused_with_its_field(bad: int | str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_time(bad, "until")
    assert (refused.value.status, refused.value.field) == (400, "until")


def test_an_expiry_is_a_span_from_now_or_the_end_of_what_is_named() -> None:
    now = int(dt.datetime(2026, 3, 1, 14, 30).astimezone().timestamp() * 1000)
    assert parse_expiry("3d", now) == now + 3 * 86_400_000
    assert parse_expiry("tomorrow", now) == int(dt.datetime(2026, 3, 3).astimezone().timestamp() * 1000)
    assert parse_expiry("2026-05-01", now) == int(dt.datetime(2026, 5, 1).astimezone().timestamp() * 1000)
    assert parse_expiry(now + 1, now) == now + 1
