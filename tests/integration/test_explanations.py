"""The trace of a recall, through the socket of a real daemon with the real model. SPEC 7.7"""

import math
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import CandidateTrace, RecallAnswer, RecallTrace
from mnemo_daemon.retrieval.candidates.candidate_retrieval import CANDIDATES_MIN
from tests.support.running_daemon import RunningDaemon

DAY = 86_400_000
FACTS = (
    "The ferry to the island leaves at seven in the morning.",
    "Sourdough wants a hot oven and a long night in the fridge.",
    "The printer on the second floor takes A4 only.",
    "Ines keeps the spare key of the green boat in a blue tin.",
    "The tax return is due at the end of May.",
)
FERRY = "when does the ferry to the island leave?"


@pytest.fixture
def client(model_daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own, with the facts."""
    with model_daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        for content in FACTS:
            open_client.remember(content, wait="indexed")
        yield open_client


def explained(client: Client, query: str = FERRY, **fields: Any) -> tuple[RecallAnswer, RecallTrace]:
    answer = client.recall(query, dry=True, explain=True, **fields)
    assert answer.trace is not None
    return answer, answer.trace


def test_nothing_is_explained_that_was_not_asked_to_be(client: Client) -> None:
    assert client.recall(FERRY, dry=True).trace is None


def test_the_candidates_are_in_the_order_of_their_ranks_with_their_outcome(client: Client) -> None:
    answer, trace = explained(client, top_k=2)
    assert [each.rank for each in trace.candidates] == [1, 2, 3, 4, 5]
    assert [each.id for each in trace.candidates if each.answer] == [memory.id for memory in answer.memories]
    assert [(each.answer, each.dropped) for each in trace.candidates] == [
        (1, None), (2, None), (None, "beyond_top_k"), (None, "beyond_top_k"), (None, "beyond_top_k")
    ]  # fmt: skip
    assert trace.dropped == {"beyond_top_k": 3}
    assert [each.score for each in trace.candidates[:2]] == [memory.score for memory in answer.memories]
    first = trace.candidates[0]
    assert (first.holds, first.channels) == (["ferry", "island", "leave"], ["words", "vectors", "facts"])
    assert first.why[0] == "has ferry, island, leave" or first.why[0].startswith("close in meaning (0.")
    assert trace.words == ["ferry", "island", "leave"]
    assert {"filter", "embed", "vectors", "words", "features", "rank", "fetch"} <= set(trace.stages_ms)


def test_each_channel_tells_its_hits_best_first_with_scores_and_ranks(client: Client) -> None:
    _, trace = explained(client)
    words, vectors, *others = trace.channels
    assert [each.name for each in trace.channels] == ["words", "vectors", "neighbours", "core", "facts"]
    assert [bool(each.hits) for each in others] == [False, False, True]
    by_id = {each.id: each for each in trace.candidates}
    for channel in (words, vectors):
        scores = [hit.score for hit in channel.hits]
        assert scores == sorted(scores, key=lambda score: -(score or 0))
        assert [hit.rank for hit in channel.hits] == list(range(1, channel.found + 1))
        found = {each.id for each in trace.candidates if channel.name in each.channels}
        assert {hit.id for hit in channel.hits} == found
    assert [hit.score for hit in words.hits] == [by_id[hit.id].words for hit in words.hits]
    assert [hit.score for hit in vectors.hits] == [by_id[hit.id].similarity for hit in vectors.hits]
    assert vectors.found == 5


def test_every_feature_of_the_learned_ranker_is_reported_with_its_contribution(client: Client) -> None:
    _, trace = explained(client)
    for each in trace.candidates:
        assert set(each.adds) <= set(each.features)
        assert {"words", "sim", "covered"} <= set(each.features)
    odds = [sum(each.adds.values()) for each in trace.candidates]
    assert odds == sorted(odds, reverse=True)


@pytest.mark.parametrize("ranker", ["auto", "words"])
def test_features_are_reported_for_the_answers_and_the_first_candidates(client: Client, ranker: str) -> None:
    """Reasons are given for all; what `why` asks about has its features, however far behind it is."""
    for number in range(30):
        client.remember(f"The ferry number {number} leaves for the island.", dedup="off", wait="indexed")
    answer, trace = explained(client, ranker=ranker, top_k=30, token_budget=None, sort="recent")
    assert len(answer.memories) == 30
    has_features = [bool(each.features) and bool(each.adds) for each in trace.candidates]
    assert has_features == [each.answer is not None for each in trace.candidates]
    _, trace = explained(client, ranker=ranker, top_k=1)
    assert [bool(each.features) for each in trace.candidates] == [True] * 20 + [False] * (len(trace.candidates) - 20)
    assert [bool(each.adds) for each in trace.candidates] == [bool(each.features) for each in trace.candidates]
    assert all(each.why for each in trace.candidates if each.score > 0.1)
    last = trace.candidates[29]
    diagnosis = client.why(last.id, FERRY, top_k=1, ranker=ranker)
    assert diagnosis.candidate is not None
    assert diagnosis.last is not None
    assert set(diagnosis.candidate.features) == set(diagnosis.last.features)
    assert diagnosis.candidate.adds
    assert diagnosis.last.adds


@pytest.mark.parametrize("ranker", ["words", "cosine", "deterministic", "hybrid", "rerank"])
def test_the_contributions_sum_up_to_the_score(client: Client, ranker: str) -> None:
    _, trace = explained(client, ranker=ranker)
    for each in trace.candidates:
        if each.dropped in (None, "beyond_top_k"):
            assert sum(each.adds.values()) == pytest.approx(each.score, abs=1e-4)


def test_excluded_memories_are_counted_by_the_first_filter_that_each_fails(
    model_daemon: RunningDaemon,
) -> None:
    now = time.time_ns() // 1_000_000
    namespace = f"ns-{uuid.uuid4().hex[:8]}"
    with model_daemon.client(namespace, entry_point="cli") as client:
        client.remember("The pier is open.", tags=["pier"], kind="procedural")
        client.remember("The pier is shut.", tags=["pier"])
        client.remember("No pier here.", kind="procedural")
        client.remember("An old pier.", tags=["pier"], kind="procedural", event_at=now - 9 * DAY)
        client.remember("A pier that was.", tags=["pier"], kind="procedural", expires_at=now + DAY)
        client.remember("Her pier.", tags=["pier"], kind="procedural", user_id="ann")
        client.delete(client.remember("A pier in the trash.", tags=["pier"], kind="procedural").memory.id)
        old = client.remember("The first pier.", tags=["pier"], kind="procedural").memory.id
        client.remember("The second pier.", tags=["pier"], kind="procedural", supersedes=[old])
        asked: dict[str, Any] = {"tags": ["pier"], "kinds": ["procedural"], "since": now - DAY, "ranker": "words",
                                 "now": now + 2 * DAY}  # fmt: skip
        answer, trace = explained(client, "pier", **asked)
    assert {memory.content for memory in answer.memories} == {"The pier is open.", "The second pier."}
    counts = {each.reason: each.count for each in trace.left_out}
    for reason in ("user_id", "trashed", "superseded", "expired", "kinds", "tags", "since"):
        assert counts[reason] == 1
    assert trace.in_question == 2
    assert trace.in_question + sum(counts.values()) == trace.memories
    wanted = {each.reason: each.wants for each in trace.left_out}
    assert (wanted["kinds"], wanted["tags"], wanted["trashed"]) == ("procedural", "pier", "active or archived")
    assert wanted["namespace"] == f"{namespace} or default"
    assert wanted["since"].startswith("from 20")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ranker": "fused"}, "below_sim_threshold"),
        ({"ranker": "layered"}, "below_sim_threshold"),
        ({"min_score": 0.99, "ranker": "cosine"}, "min_score"),
        ({"cut": "gap"}, "cut"),
        ({"top_k": 1, "offset": 1}, "earlier_page"),
    ],
)
def test_the_trace_names_why_a_candidate_is_not_in_the_answer(
    client: Client, fields: dict[str, Any], reason: str
) -> None:
    answer, trace = explained(client, **fields)
    assert reason in trace.dropped
    assert sum(trace.dropped.values()) + len(answer.memories) == len(trace.candidates)
    for each in trace.candidates:
        assert (each.dropped is None) == (each.answer is not None)
        assert (each.rank is None) == (each.dropped in ("below_sim_threshold", "min_score"))
    assert answer.total == sum(each.rank is not None for each in trace.candidates)


def test_copies_and_memories_over_the_budget_have_different_reasons(client: Client) -> None:
    client.remember("The ferry to the island: " + "it sways and creaks in every wave and wind. " * 40, wait="indexed")
    client.remember("The ferry to the island leaves at 7 in the morning.", wait="indexed")
    doubled = client.remember(FACTS[4], namespace="default", wait="indexed").memory.id
    _, trace = explained(client, token_budget=100)
    client.delete(doubled)
    assert trace.dropped == {"duplicate_content": 1, "near_copy": 1, "over_budget": 1}


def test_as_of_another_time_the_memories_of_then_are_explained(client: Client) -> None:
    then = time.time_ns() // 1_000_000
    time.sleep(0.01)
    ferry = client.search("ferry").memories[0].id
    client.delete(ferry)
    client.remember("The ferry has sunk.", wait="indexed")
    _, now = explained(client)
    _, before = explained(client, as_of=then)
    assert ferry not in {each.id for each in now.candidates}
    (was,) = [each for each in before.candidates if each.id == ferry]
    assert (was.answer, was.holds) == (1, ["ferry", "island", "leave"])
    for trace in (now, before):
        assert trace.in_question + sum(each.count for each in trace.left_out) == trace.memories
    assert (before.in_question, now.in_question) == (5, 5)
    assert "trashed" in {each.reason for each in now.left_out}


def test_without_vectors_the_trace_has_no_vector_channel(client: Client) -> None:
    _, trace = explained(client, ranker="words")
    assert [channel.name for channel in trace.channels] == ["words", "neighbours", "core", "facts"]
    (candidate,) = trace.candidates
    assert candidate.similarity is None
    assert list(candidate.features) == ["words_held"]
    assert candidate.features["words_held"] == pytest.approx(candidate.score)
    assert 0 < candidate.score < 1


def test_neighbours_of_the_best_are_reported_as_found_by_that_channel(model_daemon: RunningDaemon) -> None:
    with model_daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as client:
        client.remember_many([
            NewMemory(content=f"Boat number {number} is blue and has {number} oars.", dedup="off")
            for number in range(CANDIDATES_MIN + 50)
        ])  # fmt: skip
        client.remember("Where is the harbour master?", session_id="s1", wait="indexed")
        neighbour = client.remember("Gone fishing until Tuesday.", session_id="s1", wait="indexed").memory.id
        model_daemon.wait_for_vectors()
        _, trace = explained(client, "blue boats and the harbour master")
    found: dict[str, CandidateTrace] = {each.id: each for each in trace.candidates}
    assert found[neighbour].channels == ["neighbours"]
    assert neighbour in {hit.id for channel in trace.channels if channel.name == "neighbours" for hit in channel.hits}


def test_no_explanation_is_a_use(client: Client) -> None:
    memory = client.search("ferry").memories[0].id
    assert client.recall(FERRY, explain=True).memories[0].id == memory
    other = client.recall("When is the tax return due?").memories[0].id
    deadline = time.monotonic() + 30
    while client.get(other).access_count == 0 and time.monotonic() < deadline:  # written behind it
        time.sleep(0.1)
    assert (client.get(other).access_count, client.get(memory).access_count) == (1, 0)


def total(each: CandidateTrace) -> float:
    assert each.groups is not None
    groups = (each.groups.word, each.groups.sense, each.groups.text, each.groups.near, each.groups.time)
    return sum(value or 0.0 for value in groups) + each.groups.equal


def test_the_groups_of_the_learned_ranker_sum_up_to_the_odds_of_its_score(client: Client) -> None:
    _, trace = explained(client)
    first, *others = trace.candidates
    for each in trace.candidates:
        assert 1 / (1 + math.exp(-total(each))) == pytest.approx(each.score, abs=2e-4)
    assert first.groups is not None
    assert len({each.groups.equal for each in trace.candidates if each.groups is not None}) == 1
    for other in others:  # the words and the meaning of the question are those of the first alone
        assert other.groups is not None
        assert (first.groups.word or 0) > (other.groups.word or 0)
        assert (first.groups.sense or 0) > (other.groups.sense or 0)


@pytest.mark.parametrize("ranker", ["words", "deterministic", "hybrid", "fused", "layered"])
def test_the_groups_of_a_formula_sum_up_to_what_its_features_add(client: Client, ranker: Ranker) -> None:
    _, trace = explained(client, ranker=ranker)
    assert trace.candidates
    for each in trace.candidates:
        if not each.adds:  # it has no rank
            assert each.groups is None
            continue
        assert total(each) == pytest.approx(sum(each.adds.values()), abs=1e-4)
        assert each.groups is not None
        assert (each.groups.sense is None) == (ranker in ("words", "deterministic"))
        assert each.groups.near is None


def test_why_compares_a_memory_with_another_candidate(client: Client) -> None:
    client.remember("The ferry is blue.", wait="indexed")
    answer = client.recall(FERRY, dry=True)
    first, second = (memory.id for memory in answer.memories[:2])
    why = client.why(second, FERRY, against=first)
    assert why.candidate is not None
    assert why.against is not None
    assert (why.candidate.id, why.against.id) == (second, first)
    assert why.comparison is not None
    assert "of the question's 3 words, the other 3" in why.comparison
    assert client.why(second, FERRY).comparison is None
    with pytest.raises(RefusalError) as refused:
        client.why(second, FERRY, against="00000000")
    assert refused.value.field == "against"
