"""The ranker `auto` through the socket: what stands beside a memory, who speaks, when, late interaction. SPEC 7.3"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.retrieval import RecallAnswer, RecalledMemory
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.support import small_store_recalls
from tests.support.ranking_candidates import DAY, HOUR, NOW
from tests.support.running_daemon import RunningDaemon

FILLERS = 110  # more than a channel gives
ASKED = "Did you hear back about the lighthouse keeper post?"
REPLY = "Mhm! Got it!"
QUERY = "Has anyone heard back about the post of lighthouse keeper?"


@pytest.fixture
def client(daemon_of_each_form: RunningDaemon) -> Iterator[Client]:
    with daemon_of_each_form.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def say(
    client: Client, *turns: tuple[str, str], session: str = "talk", at: int = NOW - DAY, **fields: Any
) -> list[str]:
    """Turns of a session, a second apart; their ids."""
    memories = [
        NewMemory(content=text, speaker=speaker, session_id=session, event_at=at + 1000 * place, **fields)
        for place, (speaker, text) in enumerate(turns)
    ]
    return [each.memory.id for each in client.remember_many(memories)]  # type: ignore[union-attr]


def fill(client: Client) -> None:
    """Others with a word of the question each, so that both channels are full before they come to a reply."""
    texts = [f"Anyone who brings post number {number} gets a stamp." for number in range(FILLERS)]
    client.remember_many([NewMemory(content=text) for text in texts])


def ask(client: Client, query: str, **fields: Any) -> RecallAnswer:
    answer = client.recall(query, now=NOW, dry=True, **{"top_k": 20, "token_budget": None, **fields})
    assert answer.ranker == "auto"
    assert answer.degraded == []
    return answer


def by_content(answer: RecallAnswer) -> dict[str, RecalledMemory]:
    return {memory.content: memory for memory in answer.memories}


def test_a_reply_without_a_shared_word_is_found_next_to_the_question_it_answers(
    daemon_of_each_form: RunningDaemon, client: Client
) -> None:
    say(client, ("Ann", ASKED), ("Bob", REPLY))
    fill(client)
    daemon_of_each_form.wait_for_vectors()
    found = by_content(ask(client, QUERY))
    assert found[REPLY].channels == ["neighbours"]


def test_neighbours_are_not_found_outside_the_filters(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    say(client, ("Ann", ASKED), ("Bob", REPLY))
    fill(client)
    daemon_of_each_form.wait_for_vectors()
    assert REPLY not in by_content(ask(client, QUERY, speaker="Ann"))
    assert REPLY not in by_content(ask(client, QUERY, until=NOW - DAY + 500))
    (reply,) = [each for each in client.list_memories(limit=500, namespace=client.namespace).memories
                if each.content == REPLY]  # fmt: skip
    client.delete(reply.id)
    assert REPLY not in by_content(ask(client, QUERY))
    client.restore(reply.id)
    assert REPLY in by_content(ask(client, QUERY))


def test_a_session_of_the_same_name_of_another_user_has_no_neighbours_here(
    daemon_of_each_form: RunningDaemon, client: Client
) -> None:
    say(client, ("Ann", ASKED), user_id="ann")
    say(client, ("Bob", REPLY), user_id="bob", at=NOW - DAY + 5000)
    fill(client)
    daemon_of_each_form.wait_for_vectors()
    answer = ask(client, QUERY, user_id="ann")
    assert [memory.content for memory in answer.memories] == [ASKED]


def test_speakers_are_distinguished_at_a_past_time_as_well(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    """A memory edited since is searched as it was, by its speaker then."""
    say(client, ("Zoe", "I had soup."), ("Yan", "I had none."), session="before")
    talk = (("Ines", "I started with the flute in spring."), ("Otto", "I started with the flute in autumn."))
    ids = [say(client, turn, session=turn[0])[0] for turn in talk]
    daemon_of_each_form.wait_for_vectors()
    for memory_id in ids:
        client.patch(memory_id, Patch(content=f"Somebody has a boat, number {memory_id[-4:]}."))
    then = min(client.history(memory_id).versions[0].at for memory_id in ids) - 1
    for name, own, other in (("Ines", *ids), ("Otto", *reversed(ids))):
        trace = ask(client, f"When did {name} start with the flute?", as_of=then, explain=True).trace
        assert trace is not None
        found = {each.id: each.features for each in trace.candidates}
        assert [(found[each]["speaker_named"], found[each]["other_named"]) for each in (own, other)] == [(1, 0), (0, 1)]


def test_of_two_who_say_alike_the_one_that_is_asked_about_comes_first(
    daemon_of_each_form: RunningDaemon, client: Client
) -> None:
    say(client, ("Ines", "I started with the cello in spring."), session="one")
    say(client, ("Otto", "I started with the cello in autumn."), session="two")
    daemon_of_each_form.wait_for_vectors()
    assert ask(client, "When did Otto start with the cello?").memories[0].speaker == "Otto"
    assert ask(client, "When did Ines start with the cello?").memories[0].speaker == "Ines"


@pytest.mark.parametrize(
    ("what", "user", "agent"), [("shoulder", "user", "assistant"), ("knee", "Human", "AI"), ("wrist", None, None)]
)
def test_statements_of_the_user_and_of_the_assistant_are_distinguished(
    daemon_of_each_form: RunningDaemon, client: Client, what: str, user: str | None, agent: str | None
) -> None:
    """By the name of the role, or, where a turn has none, by the role."""
    mine = Turn(role="user", speaker=user, content=f"Ten slow circles warm up the {what} before the gym.")
    yours = Turn(role="agent", speaker=agent, content=f"Twelve slow circles warm up the {what} before the gym.")
    for turn in (mine, yours):
        client.turns(TurnsRequest(turns=[turn], session_id=turn.role))
    client.remember_many([NewMemory(content=f"Locker {n} of the gym has a circle on its door.") for n in range(12)])
    daemon_of_each_form.wait_for_vectors()
    query = f"How did {{}} say the {what} is warmed up before the gym?"
    assert ask(client, query.format("I")).memories[0].content == mine.content
    assert ask(client, query.format("you")).memories[0].content == yours.content


def test_the_month_that_is_asked_for_comes_first(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    march, july = 1_741_600_000_000, 1_752_000_000_000  # 10 March and 8 July 2025
    say(client, ("Ines", "We went for a long walk along the river."), session="one", at=march)
    say(client, ("Ines", "We went for a long swim along the river."), session="two", at=july)
    daemon_of_each_form.wait_for_vectors()
    query = "Where did we go along the river in {}?"
    assert "walk" in ask(client, query.format("March 2025")).memories[0].content
    assert "swim" in ask(client, query.format("July 2025")).memories[0].content


CELLS = (
    "The sensors run on a coin cell, a CR2477 from Panasonic.",
    "The sensors run on a lithium cell, an AA from Saft.",
)


@pytest.mark.parametrize("last", [0, 1])
def test_of_statements_that_are_alike_the_latest_comes_first(
    daemon_of_each_form: RunningDaemon, client: Client, last: int
) -> None:
    for at, text in ((NOW - 90 * DAY, CELLS[1 - last]), (NOW - 2 * DAY, CELLS[last])):
        client.remember(NewMemory(content=text, event_at=at, dedup="off"))  # no tie says which holds
    client.remember_many([NewMemory(content=f"Plant number {n} is watered on Mondays.") for n in range(3)])
    daemon_of_each_form.wait_for_vectors()
    assert ask(client, "which battery do the sensors run on").memories[0].content == CELLS[last]


def test_spoken_statements_are_not_mistaken_for_edits(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    first, later = (
        say(client, ("Ann", text), session=name, at=at, dedup="off")
        for name, text, at in (("old", CELLS[0], NOW - 90 * DAY), ("new", CELLS[1], NOW - 2 * DAY))
    )
    daemon_of_each_form.wait_for_vectors()
    trace = ask(client, "which battery do the sensors run on", explain=True).trace
    assert trace is not None
    for each in trace.candidates:
        if each.id in (first[0], later[0]):
            assert all(each.features[f"change_{name}"] == 0 for name in ("newer", "older"))


def test_nor_are_turns_that_say_a_role_and_no_name(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    reported = (
        ("then", "The drone runs on a coin cell, a CR2032 from Varta.", "2025-01-10T08:00:00Z"),
        ("now", "The drone runs on a lithium cell, an AAA from Saft.", "2025-06-10T08:00:00Z"),
    )
    ids = set()
    for session, text, at in reported:
        turn = Turn(role="user", content=text, at=at)
        (took,) = client.turns(TurnsRequest(turns=[turn], session_id=session, dedup="off")).results
        assert isinstance(took, PieceAnswer)
        assert took.memory is not None
        ids.add(took.memory.id)
    daemon_of_each_form.wait_for_vectors()
    trace = ask(client, "which battery does the drone run on", explain=True, include_superseded=True).trace
    assert trace is not None
    found = [each.features for each in trace.candidates if each.id in ids]
    assert [(each["change_newer"], each["change_older"]) for each in found] == [(0, 0), (0, 0)]


def test_scores_are_chances_and_fall(daemon_of_each_form: RunningDaemon, client: Client) -> None:
    say(client, ("Ines", "My bicycle is green and has eight gears."), ("Otto", "The train to Ghent was late."))
    daemon_of_each_form.wait_for_vectors()
    scores = [memory.score for memory in ask(client, "what colour is the bicycle").memories]
    assert scores == sorted(scores, reverse=True)
    assert 1 >= scores[0] > 3 * scores[1] >= 0


def test_in_a_small_store_a_score_is_how_often_such_an_answer_is_right(minilm_folder: Path) -> None:
    embedding = EmbeddingService(ModelCatalogue(minilm_folder))
    embedding.refresh()
    shown = [each for each in small_store_recalls.asked(50, embedding) if each.scores]
    embedding.close()
    mean = sum(each.scores[0] for each in shown) / len(shown)
    right = sum(each.is_right[0] for each in shown) / len(shown)
    assert abs(mean - right) < 0.15, f"{mean:.2f} on average, and {right:.2f} are right"


def test_the_past_is_asked_in_the_same_way(client: Client, daemon_of_each_form: RunningDaemon) -> None:
    first = client.remember("The spare key lies under the blue pot.", session_id="s", wait="indexed")
    client.remember("It rained all day.", session_id="s", wait="indexed")
    client.patch(first.memory.id, Patch(content="The spare key is with Otto now."))
    daemon_of_each_form.wait_for_vectors()
    versions = client.history(first.memory.id).versions
    then = client.recall("where is the spare key", as_of=max(version.at for version in versions) - 1, top_k=3)
    assert then.memories[0].content == "The spare key lies under the blue pot."
    now = client.recall("where is the spare key", top_k=3, dry=True)
    assert now.memories[0].content == "The spare key is with Otto now."


def test_a_new_memory_is_found_before_it_has_a_vector(client: Client) -> None:
    client.remember_many([NewMemory(content=f"A note about the garden fence, part {n}.") for n in range(40)])
    client.remember("The fence post by the pond is rotten.", event_at=NOW - HOUR)
    answer = client.recall("which fence post is rotten", now=NOW, dry=True)
    assert answer.memories[0].content == "The fence post by the pond is rotten."
