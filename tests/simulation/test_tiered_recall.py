"""Recall in a session of the whole daemon, in simulated time: rows T1 (promoted), T9 to T11 and T14. SPEC 8."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mnemo_core.ingest.session_records import SessionScope
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import TurnPair
from mnemo_store.tables import NODE_EDGES, TURN_PAIRS
from tests.simulation.world import World, in_simulated_time

TALK = (
    ("user", "We keep the sessions of the shop in Redis."),
    ("agent", "Redis keeps the sessions of the shop for a day."),
    ("user", "The sessions of the shop are shared by two servers."),
    ("agent", "Two servers share the sessions of the shop then."),
    ("user", "My sister Nora lives in Porto with her children."),
    ("agent", "Nora and her children live in Porto."),
)
QUESTION = "Where does the shop keep the sessions?"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A day after a conversation, which has ended by itself and stands in the registry."""
    world = World(tmp_path, Random("sessions"))
    with in_simulated_time(world.clock):
        world.open()
        world.install()
        for role, content in TALK:
            _say(world, "monday", role, content)
        world.clock.go_on(86_400)
        _rest(world)
        yield world
        world.throw_away()


def _say(world: World, session: str, role: str, content: str) -> str:
    said = world.ask("POST", "/v1/turns", {"session_id": session, "turns": [{"role": role, "content": content}]})
    assert said.value["counts"] == {"stored": 1}
    world.step(60)
    return str(said.value["results"][0]["memory"]["id"])


def _rest(world: World) -> None:
    for _ in range(6):
        world.step(301)


def _explained(world: World, query: str = QUESTION, session: str = "tuesday") -> Any:
    answer = world.ask("POST", f"/v1/sessions/{session}/explain", {"query": query})
    assert answer.is_ok
    return answer.value


def _chat(world: World, message: str = QUESTION, session: str = "tuesday") -> Any:
    answer = world.ask("POST", f"/v1/sessions/{session}/chat", {"message": message, "explain": True})
    assert answer.is_ok
    return answer.value


def _selected(trace: Any) -> list[tuple[str, str]]:
    return [(each["stage"], each["text"]) for each in trace["items"] if each["dropped"] is None]


def test_T11_T14_explain_shows_every_stage_and_touches_nothing(world: World) -> None:
    before, files = world.found(), sorted(world.data.rglob("*.jsonl"))
    sizes = [path.stat().st_size for path in files]
    trace = _explained(world)
    assert _selected(trace)[0] == ("nodes", f"User: {TALK[0][1]}\nAgent: {TALK[1][1]}")
    assert (trace["ring"], trace["recent_above_floor"]) == ([], 0)
    assert {each["dropped"] for each in trace["items"]} == {None, "below_sim_threshold"}
    assert all(each["similarity"] < trace["floor"] for each in trace["items"] if each["dropped"])
    assert list(trace["stages_ms"]) == ["embed", "hot", "recent", "nodes", "neighbours", "members", "rank"]
    assert _explained(world)["items"] == trace["items"]  # it is not hot, and its node is searched again
    world.step(10)
    assert world.found() == before
    assert [path.stat().st_size for path in files] == sizes


def test_T1_T10_T14_what_chat_recalls_is_hot_in_the_ring_as_promoted_and_counted_as_used(world: World) -> None:
    chosen = [each for each in _explained(world)["items"] if each["dropped"] is None]
    answer = _chat(world)
    assert TALK[0][1] in answer["answer"]
    assert [each["ids"] for each in answer["trace"]["items"] if each["dropped"] is None] == [
        each["ids"] for each in chosen
    ]
    after = _explained(world, "Which shop sessions does Redis keep")
    assert _selected(after)[0] == ("hot", f"User: {TALK[0][1]}\nAgent: {TALK[1][1]}")
    assert {each["node"] for each in chosen} <= {
        each["id"] for each in after["nodes"]
    }  # they may hold more that is near
    promoted = [each["text"] for each in after["ring"] if each["promoted"]]
    assert promoted[-1] == f"User: {TALK[0][1]} → Agent: {TALK[1][1]}"  # the best was put last
    assert [each["text"] for each in after["ring"] if not each["promoted"]] == [QUESTION]
    before = len(world.found().memories)
    assert not _chat(world, "How many servers share the sessions of the shop?")["abstained"]
    assert len(world.found().memories) == before + 1  # the message; neither what was recalled nor the reply, an echo


def test_T10_the_nodes_that_hot_items_came_from_are_not_searched_again_in_the_profile_of_T(world: World) -> None:
    assert world.daemon is not None
    world.daemon.settings.profiles["default"] = "T"
    chosen = [each for each in _explained(world)["items"] if each["dropped"] is None]
    _chat(world)
    after = _explained(world, "Which shop sessions does Redis keep")
    assert {each["node"] for each in chosen}.isdisjoint(each["id"] for each in after["nodes"])


def test_T14_what_is_selected_counts_as_used_and_nothing_else(world: World) -> None:
    assert world.daemon is not None
    scope, wanted = (
        SessionScope("default", "local", "tuesday"),
        MemoryFilter(("default",), "local", now=world.clock.now()),
    )
    outcome = world.daemon.tiered_recall.run(scope, Question(QUESTION, wanted))
    assert any(each.dropped for each in outcome.ranking.ranked)
    world.daemon.tiered_recall.record(outcome)
    world.step(10)
    used = {memory_id for memory_id, usage in world.found().usage.items() if usage.access_count}
    assert used == {memory_id for each in outcome.ranking.selected for memory_id in each.item.memory_ids}


def test_T9_nodes_that_were_near_one_query_co_occur_and_one_leads_to_the_other(world: World) -> None:
    query = "Redis and the sessions of the shop, and my sister Nora with her children in Porto"
    trace = _explained(world, query)
    near = [each["id"] for each in trace["nodes"] if each["similarity"] >= trace["floor"]]
    assert len(near) >= 2
    _chat(world, query)
    world.step(10)
    with world.store.snapshot() as snapshot:
        edges = snapshot.scan(NODE_EDGES)
    assert {(edge.relation, edge.weight) for edge in edges} == {("co_occurs", 1)}
    assert [(edge.source, edge.target) for edge in edges] == list(combinations(sorted(near), 2))


def test_T11_turns_that_no_pair_has_yet_are_found_whichever_session_they_are_of(world: World) -> None:
    _say(world, "noon", "user", "The sessions of the shop move to another Redis at noon.")
    for number in range(5):
        _say(world, "tuesday", "user", f"Something else, number {number}.")
    trace = _explained(world, "When do the sessions of the shop move to another Redis")
    assert ("recent", "The sessions of the shop move to another Redis at noon.") in _selected(trace)
    assert [each["text"] for each in trace["ring"]] == [f"Something else, number {number}." for number in range(5)]


def test_T11_a_superseded_turn_is_named_and_not_injected(world: World) -> None:
    old = _say(world, "tuesday", "user", "The sessions of the shop expire after two days.")
    new = {"content": "The sessions of the shop expire after nine days.", "supersedes": [old]}
    assert world.ask("POST", "/v1/memories", new).is_ok
    world.step()
    trace = _explained(world, "When do the sessions of the shop expire")
    assert {tuple(each["ids"]): each["dropped"] for each in trace["items"]}[old,] == "superseded"


def test_what_is_erased_is_in_no_buffer_and_no_ring(world: World) -> None:
    _chat(world)
    assert _selected(_explained(world))[0][0] == "hot"
    pairs = _pairs(world)
    for reply in (pairs[-1].reply, pairs[0].reply):  # an erasure empties the buffers, whatever is erased
        assert world.ask("POST", f"/v1/memories/{reply}/purge", {}, entry_point="cli").is_ok
        world.step()
        trace = _explained(world, "How long does Redis keep the sessions of the shop")
        assert "hot" not in {each["stage"] for each in trace["items"]}
        _chat(world)
    assert "for a day" not in str(trace)


def test_what_was_edited_is_not_hot_by_its_old_text(world: World) -> None:
    _chat(world)
    changed = {"content": "Otto keeps bees."}
    assert world.ask("PATCH", f"/v1/memories/{_pairs(world)[0].id}", changed).is_ok
    world.step()
    assert "Otto" not in str([each for each in _explained(world)["items"] if each["stage"] == "hot"])


def _pairs(world: World) -> list[TurnPair]:
    with world.store.snapshot() as snapshot:
        return [pair for pair in snapshot.scan(TURN_PAIRS) if pair.session_id == "monday"]


def test_a_session_that_was_recalled_in_goes_on_after_a_restart(world: World) -> None:
    _chat(world)
    world.close()
    world.open()
    assert _explained(world)["degraded"] == ["vectors"]
    world.index()
    assert _explained(world)["degraded"] == ["topics"]  # the nodes are still to be read
    world.step()
    trace = _explained(world)
    assert trace["degraded"] == []
    assert [each["text"] for each in trace["ring"]] == [QUESTION]  # what it had recalled is found again by recall alone
    assert ("nodes", f"User: {TALK[0][1]}\nAgent: {TALK[1][1]}") in _selected(trace)
