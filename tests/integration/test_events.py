"""GET /v1/events: what changes, as it happens, for those who may see it. SPEC 13"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.changes import ChangedMemory, ChangeEvent, EndEvent, GapEvent, StartEvent
from mnemo_client.protocol.ingestion import Turn, TurnsRequest
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.memories.history import FEED_MEMORIES, READ_TOGETHER, ChangeFeed
from mnemo_store.backend import TouchedMemory
from mnemo_store.records import DropMemory, Memory
from mnemo_store.store import Commit
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import sample_id, sample_memory

WAIT_SECONDS = 60.0


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    with daemon.client() as open_client:
        yield open_client


def remember(client: Client, text: str, **fields: Any) -> str:
    return client.remember(NewMemory(content=text, **fields)).memory.id


def present(daemon: RunningDaemon, since: int | None, namespace: str | None = None, **options: Any) -> list[Any]:
    """The events of a stream that ends with the present."""
    with daemon.client(namespace, **options) as reader:
        return [event for _, event in reader.events(types=["change"], since=since, follow=False)]


def seen(events: list[Any]) -> list[tuple[str, str]]:
    return [(each.id, each.change) for event in events if isinstance(event, ChangeEvent) for each in event.memories]


def test_a_stream_that_does_not_follow_has_the_changes_behind_a_seq_and_ends(
    daemon: RunningDaemon, client: Client
) -> None:
    since = client.status().seq
    first = remember(client, "The crane of the pier lifts nine tonnes.")
    client.delete(first)
    events = present(daemon, since)
    assert isinstance(events[0], StartEvent)
    assert isinstance(events[-1], EndEvent)
    changes = [event for event in events if isinstance(event, ChangeEvent)]
    assert seen(events) == [(first, "added"), (first, "trashed")]
    assert [event.seq for event in changes] == sorted(event.seq for event in changes)
    assert changes[0].memories[0].namespace == "default"
    assert seen(present(daemon, changes[0].seq)) == [(first, "trashed")]
    assert seen(present(daemon, None)) == []
    (gap,) = [event for event in present(daemon, 10**9) if isinstance(event, GapEvent)]
    assert gap.since == 10**9


def test_a_reader_sees_the_changes_of_its_namespace_and_an_agent_nothing_sensitive(
    daemon: RunningDaemon, client: Client
) -> None:
    since = client.status().seq
    plain = remember(client, "The quay of Cadiz is closed on Mondays.")
    secret = remember(client, "The safe of Cadiz opens with 47-11.", tags=["sensitive"])
    other = remember(client, "The quay of Vigo is open on Mondays.", namespace="vigo-events")
    foreign = remember(client, "The quay of Lugo has a café.", user_id="tom")
    erased = remember(client, "The quay of Ferrol is to be forgotten.")
    client.erase(erased)
    assert {memory for memory, _ in seen(present(daemon, since))} == {plain, secret, erased}
    assert seen(present(daemon, since, "vigo-events"))[0] == (other, "added")
    assert {plain, secret, other} <= {memory for memory, _ in seen(present(daemon, since, "*"))}
    as_agent = {memory for memory, _ in seen(present(daemon, since, entry_point="mcp"))}
    assert plain in as_agent
    assert not as_agent & {secret, other, foreign}
    assert (erased, "erased") in seen(present(daemon, since))
    assert (erased, "erased") not in seen(present(daemon, since, entry_point="mcp"))


def test_a_stream_goes_on_while_memories_change_and_has_no_text(daemon: RunningDaemon, client: Client) -> None:
    lines: list[bytes] = []
    has_started = threading.Event()

    def follow() -> None:
        with daemon.client() as reader:
            for line in reader.call("GET", "/events"):
                lines.append(line)
                has_started.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert has_started.wait(WAIT_SECONDS)
    memory_id = remember(client, "The Wyvern is moored at berth seven.")
    deadline = time.monotonic() + WAIT_SECONDS
    while not any(memory_id.encode() in line for line in list(lines)):
        assert time.monotonic() < deadline, lines
        time.sleep(0.02)
    whole = b"\n".join(lines)
    assert b"Wyvern" not in whole
    at = next(number for number, line in enumerate(lines) if memory_id.encode() in line)
    data = json.loads(lines[at].removeprefix(b"data: "))
    assert lines[at - 2 : at] == [f"id: {data['seq']}".encode(), b"event: change"]


def raw_stream(daemon: RunningDaemon, headers: str) -> bytes:
    """The whole answer to a request that is written by hand."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_SECONDS)
        connection.connect(str(daemon.socket))
        request = "GET /v1/events?types=change&follow=false HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        connection.sendall(f"{request}{headers}\r\n".encode())
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_a_reader_that_comes_back_goes_on_behind_its_last_event(daemon: RunningDaemon, client: Client) -> None:
    since = client.status().seq
    first, second = (remember(client, f"The buoy of {place} blinks.") for place in ("Ribeira", "Baiona"))
    (change, _) = [event for event in present(daemon, since) if isinstance(event, ChangeEvent)]
    answer = raw_stream(daemon, f"Last-Event-ID: {change.seq}\r\n")
    assert b"text/event-stream" in answer
    assert second.encode() in answer
    assert first.encode() not in answer
    assert b" 400 " in raw_stream(daemon, "Last-Event-ID: yesterday\r\n").split(b"\r\n")[0]


def test_jobs_and_progress_are_events_of_their_own_types(daemon: RunningDaemon) -> None:
    with daemon.client() as reader:
        names = {name for name, _ in reader.events(types=["job", "progress"], follow=False)}
        assert {"start", "end"} <= names <= {"start", "job", "progress", "end"}
        with pytest.raises(RefusalError) as refused:
            list(reader.events(types=["weather"], follow=False))  # type: ignore[list-item]
        assert refused.value.status == 400


def test_the_command_prints_a_line_an_event(daemon: RunningDaemon, client: Client) -> None:
    since = client.status().seq
    memory_id = remember(client, "The tide table hangs at the kiosk.")

    def give(*words: str) -> list[str]:
        command = [sys.executable, "-m", "mnemo_client.cli.main", "events", "--type", "change", "--no-follow", *words]
        environ = {**daemon.environ, "MNEMO_AUTOSTART": "off"}
        done = subprocess.run(command, capture_output=True, env=environ, timeout=WAIT_SECONDS, check=True)
        return done.stdout.decode().splitlines()

    lines = give("--since", str(since), "--json")
    rows = [json.loads(line) for line in lines]
    assert [row["event"] for row in rows] == ["start", "change", "end"]
    added = {"id": memory_id, "change": "added", "namespace": "default", "session_id": None, "tier": None}
    assert rows[1]["data"]["memories"] == [added]
    assert memory_id[-8:] in give("--since", str(since))[1]


def test_open_streams_do_not_hold_up_the_end_of_the_daemon(tmp_path: Any) -> None:
    daemon = RunningDaemon(tmp_path / "d", {"MNEMO_MODELS_FOLDER": str(tmp_path / "models")})
    daemon.start()
    names: list[str] = []
    has_started = threading.Event()

    def follow() -> None:
        with daemon.client() as reader:
            for name, _ in reader.events():
                names.append(name)
                has_started.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert has_started.wait(WAIT_SECONDS)
    assert daemon.stop() == 0
    thread.join(WAIT_SECONDS)
    assert names[-1] == "end"


# The feed


def commit(seq: int, *memories: Memory, dropped: tuple[str, ...] = ()) -> Commit:
    touched = tuple(TouchedMemory(1, memory, None) for memory in memories)
    return Commit(seq, 1000 + seq, touched, tuple(DropMemory(id=each) for each in dropped))


def test_the_feed_keeps_its_last_changes_and_says_what_is_missing() -> None:
    feed = ChangeFeed(10, size=3)
    for seq in range(11, 16):
        feed.on_commit(commit(seq, sample_memory(seq)))
    assert [change.seq for change in feed.read(13).changes] == [14, 15]
    assert not feed.read(12).has_gap
    found = feed.read(11)
    assert ([change.seq for change in found.changes], found.seq, found.has_gap) == ([13, 14, 15], 15, True)
    assert feed.read(15) == ([], 15, False)
    assert feed.read(99) == (list(found.changes), 15, True)


def test_the_feed_counts_changes_without_memories_and_begins_again_with_another_store() -> None:
    feed = ChangeFeed(0)
    feed.on_commit(commit(1, sample_memory(1)))
    feed.on_commit(commit(2))
    assert feed.read(1) == ([], 2, False)
    feed.on_commit(commit(1, sample_memory(2), dropped=(sample_id(9),)))
    (change,) = feed.read(0).changes
    assert [(each.id, each.kind) for each in change.memories] == [(sample_id(2), "added"), (sample_id(9), "erased")]
    assert feed.read(2).has_gap


def test_the_feed_is_bounded_by_the_memories_of_its_changes() -> None:
    feed = ChangeFeed(0)
    for seq in range(1, 61):
        feed.on_commit(commit(seq, *(sample_memory(number) for number in range(500))))
    found = feed.read(0)
    assert sum(len(change.memories) for change in found.changes) == FEED_MEMORIES
    assert (found.changes[0].seq, found.seq, found.has_gap) == (21, 60, True)
    feed.on_commit(commit(61, *(sample_memory(number) for number in range(FEED_MEMORIES + 1))))
    assert [change.seq for change in feed.read(60).changes] == [61]


def test_the_feed_is_read_in_slices_and_wakes_each_reader_once() -> None:
    feed = ChangeFeed(0)
    calls: list[int] = []
    feed.wake_on_change(lambda: calls.append(1))
    feed.on_commit(commit(1))
    assert calls == []
    for seq in range(2, READ_TOGETHER + 5):
        feed.on_commit(commit(seq, sample_memory(seq)))
    assert calls == [1]
    found = feed.read(0)
    assert (len(found.changes), found.seq) == (READ_TOGETHER, READ_TOGETHER + 1)
    assert [change.seq for change in feed.read(found.seq).changes] == list(range(READ_TOGETHER + 2, READ_TOGETHER + 5))


def test_a_turn_that_moves_to_another_tier_is_a_change_with_its_session_and_tier(
    daemon: RunningDaemon, client: Client
) -> None:
    since = client.status().seq
    turns = [Turn(role="user", content="The boiler man Keith comes on Friday at nine.")]
    client.turns(TurnsRequest(session_id="tiers", turns=turns))
    client.end_session("tiers")
    plain = remember(client, "The ferry of Faro leaves at seven.")
    wait_until(lambda: "registry" in [each.tier for each in turn_changes(present(daemon, since))])
    changes = turn_changes(present(daemon, since))
    assert [each.tier for each in changes][:1] == ["ring"]
    assert {each.session_id for each in changes} == {"tiers"}
    every = [each for event in present(daemon, since) if isinstance(event, ChangeEvent) for each in event.memories]
    assert [(each.session_id, each.tier) for each in every if each.id == plain] == [(None, None)]


def turn_changes(events: list[Any]) -> list[ChangedMemory]:
    """The changes of turns."""
    found = [each for event in events if isinstance(event, ChangeEvent) for each in event.memories]
    return [each for each in found if each.tier is not None]
