"""`since` and `until` as people say them, through the socket. SPEC 7.1"""

import datetime as dt
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import EraseFilter

HOUR = 3_600_000


def local(iso: str) -> int:
    """In ms, on the daemon's clocks."""
    return int(dt.datetime.fromisoformat(iso).astimezone().timestamp() * 1000)


NOW = local("2026-11-18T15:30")  # a Wednesday
OLD, MONDAY, TODAY = ("The heron stood in May.", "The heron stood on Monday.", "The heron stood today.")
DAYS = {OLD: local("2026-05-03T12:00"), MONDAY: local("2026-11-16"), TODAY: local("2026-11-18T09:00")}


@pytest.fixture
def herons(client: Client) -> str:
    """The namespace of the three."""
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    for content, day in DAYS.items():
        client.remember(content, namespace=namespace, event_at=day)
    return namespace


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        ("this week", None, {MONDAY, TODAY}),
        ("monday", "monday", {MONDAY}),
        (None, "last week", {OLD}),
        ("may 2026", "may 2026", {OLD}),
        ("3 days ago", "yesterday", {MONDAY}),
        ("7h", None, {TODAY}),
        (None, "7h", {OLD, MONDAY}),
        ("2026-11-16", "2026-11-18", {MONDAY}),
        ("gestern", None, {TODAY}),
        ("今年", "先週", {OLD}),
    ],
)
def test_recall_is_bounded_by_a_time_that_is_named(
    client: Client, herons: str, since: str | None, until: str | None, found: set[str]
) -> None:
    answer = client.recall("heron", namespace=herons, now=NOW, since=since, until=until, dry=True)
    assert {memory.content for memory in answer.memories} == found


def test_a_time_that_is_named_is_seen_from_the_requests_now(client: Client, herons: str) -> None:
    answer = client.recall("heron", namespace=herons, now=NOW - 48 * HOUR, since="today", until="today", dry=True)
    assert [memory.content for memory in answer.memories] == [MONDAY]


def test_lists_search_and_recent_are_bounded_alike(client: Client) -> None:
    namespace, now = f"ns-{uuid.uuid4().hex[:8]}", time.time_ns() // 1_000_000
    for content, hours in (("An old tide.", 100), ("A new tide.", 1)):
        client.remember(content, namespace=namespace, event_at=now - hours * HOUR)
    for ask in (client.list_memories, client.recent):
        assert [each.content for each in ask(namespace=namespace, since="last 3 days").memories] == ["A new tide."]
        assert [each.content for each in ask(namespace=namespace, until="3d").memories] == ["An old tide."]
    found = client.search("tide", namespace=namespace, since="last 3 days").memories
    assert [each.content for each in found] == ["A new tide."]
    assert client.search("tide", namespace=namespace, since=now - 200 * HOUR, until="3d").total == 1
    dry = client.delete_many(namespace=namespace, until="last 3 days")
    assert (dry.would_delete, client.delete_many(namespace=namespace, until="3d").would_delete) == (2, 1)
    purged = client.erase_many(filter=EraseFilter(namespace=namespace, until="3d"), dry_run=True)
    assert len(purged.purged) == 1


@pytest.mark.parametrize("field", ["since", "until"])
@pytest.mark.parametrize("ask", ["recall", "search", "recent", "list"])
def test_an_unreadable_time_is_refused_with_examples(client: Client, ask: str, field: str) -> None:
    calls: dict[str, Callable[..., Any]] = {
        "recall": lambda **bounds: client.recall("heron", **bounds),
        "search": lambda **bounds: client.search("heron", **bounds),
        "recent": client.recent,
        "list": client.list_memories,
    }
    with pytest.raises(RefusalError) as refused:
        calls[ask](**{field: "someday"})
    assert (refused.value.status, refused.value.field) == (400, field)
    assert f"`{field}`" in refused.value.message
    assert "last week" in refused.value.message


def test_a_difference_is_bounded_by_a_time_that_is_named(client: Client) -> None:
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    client.remember("The heron is back.", namespace=namespace)
    for since, until, found in (
        ("yesterday", None, ["The heron is back."]),
        ("last week", "today", ["The heron is back."]),
        ("last week", "last week", []),
        ("1990", "1990", []),
    ):
        answer = client.diff(since, until=until, namespace=namespace)
        assert [row.memory.content for row in answer.added if row.memory is not None] == found
    for wrong in ("blub", "2026-13-01"):
        with pytest.raises(RefusalError, match="`since`"):
            client.diff(wrong, namespace=namespace)


def test_a_number_too_long_for_a_time_is_refused(client: Client) -> None:
    with pytest.raises(RefusalError, match="`since`"):
        client.list_memories(since="9" * 5000)


def test_an_interval_that_holds_no_time_is_refused_wherever_it_is_given(client: Client) -> None:
    since, until = "2026-12-01", "2026-11-01"
    asks: list[Callable[[], Any]] = [
        lambda: client.recall("heron", since=since, until=until),
        lambda: client.search("heron", since=since, until=until),
        lambda: client.list_memories(since=since, until=until),
        lambda: client.recent(since="today", until="yesterday"),
        lambda: client.delete_many(since=since, until=since),
    ]
    for ask in asks:
        with pytest.raises(RefusalError, match="`until` must be later than `since`") as error:
            ask()
        assert (error.value.status, error.value.field) == (400, "until")
    with pytest.raises(RefusalError, match=r"`filter.until` must be later than `filter.since`"):
        client.erase_many(filter=EraseFilter(since=since, until=until), dry_run=True)
