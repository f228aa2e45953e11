"""Counts of memories by time, over the socket. SPEC 13"""

import datetime as dt
import uuid

import pytest
from msgspec.structs import replace

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import TimelineQuery
from tests.support.running_daemon import RunningDaemon

DAY = "2026-05-14"  # a Thursday


def at(day: str, hour: int = 0) -> int:
    """The moment of a local day and hour, in ms."""
    return int(dt.datetime.fromisoformat(f"{day}T{hour:02}:00").timestamp() * 1000)


@pytest.fixture(scope="module")
def namespace(daemon: RunningDaemon) -> str:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with daemon.client(namespace) as client:
        client.remember("The kayak was sold.", event_at=f"{DAY}T09:30", source="diary")
        client.remember("The keel is 2 metres deep.", event_at=f"{DAY}T09:45", source="diary")
        client.remember("The anchor weighs 20 kilos.", event_at=f"{DAY}T23:59", source="letters", tags=["anchor"])
        client.remember("The mast is 12 metres high.", event_at="2026-05-15T00:00", source="letters")
        client.remember("The rudder was mended.", event_at="2024-01-31", source="letters")
    return namespace


def test_days_are_counted_with_their_sources_and_hours(daemon: RunningDaemon, namespace: str) -> None:
    with daemon.client(namespace) as client:
        found = client.timeline(since="2026-05-01", until="2026-06-01")
    assert (found.since, found.until, found.total) == (at("2026-05-01"), at("2026-06-01"), 4)
    assert [(each.name, each.count) for each in found.sources] in (
        [("diary", 2), ("letters", 2)], [("letters", 2), ("diary", 2)],
    )  # fmt: skip
    assert [(each.since, each.until, each.count) for each in found.buckets] == [
        (at(DAY), at("2026-05-15"), 3), (at("2026-05-15"), at("2026-05-16"), 1),
    ]  # fmt: skip
    of_day = dict(zip([each.name for each in found.sources], found.buckets[0].sources, strict=True))
    assert of_day == {"diary": 2, "letters": 1}
    assert found.hours == [1 if hour in (0, 23) else 2 if hour == 9 else 0 for hour in range(24)]
    assert (found.first, found.last, found.namespace) == (at("2024-01-31"), at("2026-05-15"), namespace)


def test_hours_weeks_and_months_are_counted(daemon: RunningDaemon, namespace: str) -> None:
    with daemon.client(namespace) as client:
        hours = client.timeline(since=DAY, until="2026-05-15", step="hour")
        weeks = client.timeline(since=DAY, until="2026-05-15", step="week")
        months = client.timeline(since="2024-01-01", until="2026-05-15", step="month")
    assert [(each.since, each.count) for each in hours.buckets] == [(at(DAY, 9), 2), (at(DAY, 23), 1)]
    assert [(each.since, each.until, each.count) for each in weeks.buckets] == [(at("2026-05-11"), at("2026-05-18"), 4)]
    assert [(each.since, each.count) for each in months.buckets] == [(at("2024-01-01"), 1), (at("2026-05-01"), 4)]
    assert months.hours is None


def test_the_time_of_storing_and_of_the_last_change_can_be_counted(daemon: RunningDaemon) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    today = dt.datetime.now().date().isoformat()  # noqa: DTZ005 - the daemon's own days
    with daemon.client(namespace) as client:
        client.remember("The dinghy leaks.", event_at="2020-02-02")
        assert client.timeline().total == 0
        found = client.timeline(by="stored"), client.timeline(by="changed", step="hour")
    assert [each.total for each in found] == [1, 1]
    assert (found[0].buckets[0].since, found[1].since) == (at(today), at(today))


def test_filters_hold_and_agents_do_not_count_what_is_sensitive(daemon: RunningDaemon, namespace: str) -> None:
    may = TimelineQuery(since="2026-05-01", until="2026-06-01")
    with daemon.client(namespace) as client, Client(daemon.socket, namespace, agent="planner") as agent:
        assert client.timeline(replace(may, tags=["anchor"])).total == 1
        assert client.timeline(replace(may, source="diary")).total == 2
        secret = client.remember("The safe is behind the map.", event_at=DAY, tags=["sensitive"]).memory.id
        assert (client.timeline(may).total, agent.timeline(may).total) == (5, 4)
        client.delete(secret)
        assert client.timeline(may).total == 4


def test_a_range_that_is_too_long_is_refused_with_what_would_fit(daemon: RunningDaemon, namespace: str) -> None:
    with daemon.client(namespace) as client:
        with pytest.raises(RefusalError, match="1461 days are too many for the step day, which takes 400"):
            client.timeline(since="2020-01-01", until="2024-01-01")
        assert client.timeline(since="2006-01-01", until="2026-01-01", step="week").total == 1
