"""Conversations at their routes: turns by tier, the end of a session, what is left after a kill. SPEC 8, 13"""

import time
from collections.abc import Iterator

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import Patch
from mnemo_client.protocol.sessions import SessionAnswer, TierCounts
from tests.support.file_bytes import readable_bytes
from tests.support.running_daemon import RunningDaemon

WAIT_SECONDS = 30.0
WORDS = (
    "anchor boat compass deck engine ferry galley harbour island jetty keel lantern mast net oar pier quay rudder "
    "sail tide umbrella vessel wharf yacht zephyr"
)


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    with daemon.client() as open_client:
        yield open_client


def say(client: Client, session: str, count: int, **fields: object) -> list[str]:
    turns = [
        Turn(role="agent" if number % 2 else "user", content=f"The {word} of {session} was painted {word} green.")
        for number, word in enumerate(WORDS.split()[:count])
    ]
    answer = client.turns(TurnsRequest(session_id=session, turns=turns, **fields))  # type: ignore[arg-type]
    return [each.memory.id for each in answer.results if isinstance(each, PieceAnswer) and each.memory is not None]


def once_in(client: Client, session: str, tiers: TierCounts) -> SessionAnswer:
    """The session once its turns are in these tiers."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := client.session(session)).tiers != tiers:
        assert time.monotonic() < deadline, found.tiers
        time.sleep(0.05)
    return found


def test_T1_turns_are_recallable_at_once_and_the_oldest_leave_the_ring(client: Client) -> None:
    ids = say(client, "paint", 22)
    shown = once_in(client, "paint", TierCounts(ring=20, recent=2))
    assert ([turn.id for turn in shown.turns], shown.pairs, shown.cursor) == (ids[::-1], [], None)
    assert [turn.turn.tier for turn in shown.turns if turn.turn is not None] == ["ring"] * 20 + ["recent"] * 2
    assert (shown.session.turns, shown.session.ended_at) == (22, None)
    assert ids[0] in [hit.id for hit in client.recall("the anchor of paint", dry=True).memories]


def test_T7_the_end_of_a_session_files_its_turns_in_pairs_and_the_next_turn_reopens_it(client: Client) -> None:
    ids = say(client, "end", 5)
    ended = client.end_session("end")
    assert (ended.filed, ended.session.ended_at is not None) == (3, True)
    shown = client.session("end")
    assert shown.tiers == TierCounts(registry=5)
    assert [(pair.id, pair.reply) for pair in shown.pairs] == [(ids[4], None), (ids[2], ids[3]), (ids[0], ids[1])]
    assert client.end_session("end").filed == 0
    more = say(client, "end", 6)
    shown = client.session("end")
    assert (shown.session.ended_at, shown.tiers) == (None, TierCounts(ring=len(more) - 5, registry=5))


def test_sessions_are_listed_latest_first_with_a_cursor_by_namespace_and_user(
    client: Client, daemon: RunningDaemon
) -> None:
    for name in ("one", "two", "three"):
        say(client, name, 1, namespace="listed")
    say(client, "other", 1, namespace="listed", user_id="ann")
    with daemon.client("listed") as listed:
        first = listed.list_sessions(limit=2)
        rest = listed.list_sessions(limit=2, cursor=first.cursor)
        assert [each.session_id for each in (*first.sessions, *rest.sessions)] == ["three", "two", "one"]
        assert rest.cursor is None
        assert [each.session_id for each in listed.list_sessions(user_id="ann").sessions] == ["other"]


@pytest.mark.parametrize("call", ["session", "end_session", "consolidate_session"])
def test_a_session_that_nothing_was_said_in_is_not_found(client: Client, call: str) -> None:
    with pytest.raises(RefusalError) as refused:
        getattr(client, call)("nobody spoke")
    assert (refused.value.status, refused.value.code) == (404, "not_found")


@pytest.mark.parametrize("cursor", ["x", "1", "1.a.b", "9" * 5000 + ".x"])
def test_a_cursor_that_no_page_gave_is_refused(client: Client, cursor: str) -> None:
    with pytest.raises(RefusalError, match="a cursor is what the page before gave"):
        client.list_sessions(cursor=cursor)


def test_an_agent_sees_no_sensitive_turn_and_no_id_of_one(client: Client, daemon: RunningDaemon) -> None:
    ids = say(client, "secret", 2)
    client.patch(ids[1], Patch(tags=["sensitive"]))
    client.end_session("secret")
    with daemon.client(entry_point="mcp") as agent:
        shown = agent.session("secret")
    assert ([turn.id for turn in shown.turns], shown.tiers) == (ids[:1], TierCounts(registry=1))
    assert [(pair.id, pair.reply) for pair in shown.pairs] == [(ids[0], None)]


def test_an_erased_turn_takes_its_pair_along_and_leaves_its_partner(client: Client) -> None:
    ids = say(client, "erased", 2)
    client.end_session("erased")
    assert client.erase(ids[0]).complete
    shown = client.session("erased")
    assert ([turn.id for turn in shown.turns], shown.pairs) == (ids[1:], [])


def test_a_killed_daemon_has_every_turn_in_a_tier_after_the_next_start(scratch_daemon: RunningDaemon) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        ids = say(client, "killed", 25)
    scratch_daemon.kill()
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        shown = once_in(client, "killed", TierCounts(ring=20, recent=5))
        assert [turn.id for turn in shown.turns] == ids[::-1]
        assert shown.session.turns == 25


def test_the_name_of_a_session_goes_with_its_last_turn(client: Client, daemon: RunningDaemon) -> None:
    def listed() -> set[str]:
        return {each.session_id for each in client.list_sessions(limit=500).sessions}

    first, *others = say(client, "zwischentalk-erased", 3)
    client.erase(first)
    assert "zwischentalk-erased" in listed()
    assert client.erase_many(others).complete
    assert "zwischentalk-erased" not in listed()
    files = [path for path in daemon.folder.rglob("*") if path.is_file() and path != daemon.log]
    assert not [path for path in files if b"zwischentalk-erased" in readable_bytes(path)]

    for memory_id in say(client, "zwischentalk-trashed", 2):
        client.delete(memory_id)
    assert "zwischentalk-trashed" in listed()
    client.empty_trash(confirm=True)
    assert "zwischentalk-trashed" not in listed()
