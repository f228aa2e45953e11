"""Every ranker through the socket of a real daemon, with the real model and without one. SPEC 7.3, 7.4"""

import math
import uuid
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.retrieval import RecallAnswer
from mnemo_core.retrieval.ranking.rankers import RANKER_TABLE, RANKERS, RankingRequest, effective_request
from tests.support.ranking_candidates import DAY, HOUR, NOW
from tests.support.running_daemon import RunningDaemon

FERRY = "The ferry to the island leaves at seven in the morning."
BREAD = "Sourdough wants a hot oven and a long night in the fridge."
PRINTER = "The printer on the second floor takes A4 only."
MEANT = "when does the boat depart"  # no word of it is in any of them but "the" and "does", which are none
FILLERS = 110  # more than the words channel gives


@pytest.fixture
def client(model_daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own, with three memories."""
    with model_daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        remember_three(open_client)
        yield open_client


def remember_three(client: Client) -> None:
    for content, importance, age in ((FERRY, 0.8, HOUR), (BREAD, 0.4, DAY), (PRINTER, 0.4, 7 * DAY)):
        client.remember(content, kind="semantic", importance=importance, event_at=NOW - age, wait="indexed")


def ask(client: Client, query: str, ranker: Ranker, **fields: Any) -> RecallAnswer:
    return client.recall(query, ranker=ranker, now=NOW, dry=True, **fields)


def contents(answer: RecallAnswer) -> list[str]:
    return [memory.content for memory in answer.memories]


@pytest.mark.parametrize("ranker", RANKERS)
def test_every_ranker_puts_the_right_memory_first_and_is_named(client: Client, ranker: Ranker) -> None:
    answer = ask(client, "when does the ferry to the island leave", ranker)
    assert contents(answer)[0] == FERRY
    assert (answer.ranker, answer.degraded) == (ranker, [])
    assert answer.mode == {"hybrid": "hybrid", "rerank": "late"}.get(ranker)


@pytest.mark.parametrize("ranker", [ranker for ranker in RANKERS if RANKER_TABLE[ranker].reads_vectors])
def test_rankers_that_use_vectors_find_by_meaning(client: Client, ranker: Ranker) -> None:
    assert contents(ask(client, MEANT, ranker))[0] == FERRY


def test_words_find_nothing_there_and_lack_nothing(client: Client) -> None:
    answer = ask(client, MEANT, ranker="words")
    assert (contents(answer), answer.total, answer.degraded) == ([], 0, [])


@pytest.mark.parametrize("fields", [{"ranker": "deterministic"}, {"ranker": "hybrid", "mode": "deterministic"}])
def test_the_formula_ranks_memories_without_shared_words_by_freshness_and_importance(
    client: Client, fields: dict[str, Any]
) -> None:
    answer = ask(client, MEANT, explain=True, **fields)
    assert (len(contents(answer)), answer.total, answer.degraded) == (3, 3, [])
    assert answer.trace is not None
    assert {each.features["overlap"] for each in answer.trace.candidates} <= {0.0, 0.2}  # "the" at most
    assert {name for memory in answer.memories for name in memory.channels} == {"formula"}


def test_M3_deterministic_is_its_formula_through_the_socket(client: Client) -> None:
    # ferry, island, bridge: two of three; an hour old; importance 0.8: 2/3·0.65 + 1/2·0.35 + 0.15·0.8 = 0.728333
    found = ask(client, "ferry island bridge", "deterministic").memories[0]
    assert found.content == FERRY
    assert found.score == pytest.approx(0.728333, abs=1e-6)
    # 2/3·0.5 + 1/2·0.5 + 0.12
    found = ask(client, "ferry island bridge", "deterministic", recency_bias=0.5).memories[0]
    assert found.score == pytest.approx(0.703333, abs=1e-6)


def test_M4_tags_are_part_of_the_text_that_tokens_are_looked_for_in(client: Client) -> None:
    client.remember("Due in May.", tags=["project:alpha"], importance=0.4, event_at=NOW, wait="indexed")
    # alpha, may: both; now: 0.65 + 0.35 + 0.06
    found = ask(client, "alpha may", "deterministic").memories[0]
    assert found.score == pytest.approx(1.06, abs=1e-6)


def test_M8_hybrid_takes_its_weight_and_its_mode_from_the_request(client: Client) -> None:
    query = "when does the ferry leave"
    by_meaning = ask(client, query, "hybrid", mode="semantic")
    assert by_meaning.mode == "semantic"
    assert [memory.score for memory in by_meaning.memories] == [
        memory.score for memory in ask(client, query, "cosine").memories if memory.score > 0
    ]
    # The first has the best of both, so it has 1 by whatever weight; with all the weight on meaning, the others have
    # their share of its cosine.
    near = {memory.content: memory.score for memory in by_meaning.memories}
    for weight in (0.0, 0.5, 1.0):
        answer = ask(client, query, "hybrid", semantic_weight=weight)
        assert answer.mode == "hybrid"
        assert answer.memories[0].score == pytest.approx(1.0)
        if weight == 1.0:
            shares = {memory.content: memory.score for memory in answer.memories}
            assert shares == pytest.approx({text: sim / near[FERRY] for text, sim in near.items()}, abs=1e-5)


def test_G32_layered_is_its_formula_through_the_socket(client: Client) -> None:
    answer = client.recall(MEANT, ranker="layered", explain=True, dry=True)
    found = answer.memories[0]
    assert answer.trace is not None
    row = answer.trace.candidates[0]
    # Stored a moment ago, so recency is 1. Weight: the strength it starts with is its importance, 0.8, and it is in the
    # buffer, −0.1; no word of the question is in it.
    assert (found.kind, found.layer, row.words) == ("semantic", "buffer", 0.0)
    assert found.score == pytest.approx(math.tanh(row.relevance * (1 + 0.4 * 0.7 + 0.2)), abs=1e-3)
    assert row.similarity is not None
    assert row.relevance < row.similarity


def test_G37_a_vector_match_has_its_words_though_others_have_more_of_them(client: Client) -> None:
    for number in range(FILLERS):
        client.remember(f"Engine, stock number {number}.", importance=0.4)
    boat = (
        "On cold mornings our boat refuses to run: the engine coughs twice, then dies, and only after a good while "
        "with the choke pulled out, much patience and a lot of swearing will it turn over and carry us off to sea."
    )
    client.remember(boat, wait="indexed")
    answer = ask(client, "why does the ship's engine not fire up?", "layered", explain=True)
    found = next(memory for memory in answer.memories if memory.content == boat)
    assert found.channels == ["vectors"]
    assert answer.trace is not None
    row = answer.trace.candidates[contents(answer).index(boat)]
    assert row.words > 0
    assert ask(client, "why does the ship's engine not fire up?", "cosine").memories[0].content == boat


@pytest.mark.parametrize("ranker", ["layered", "fused"])
def test_G39_T13_candidates_under_the_floor_are_neither_shown_nor_counted(client: Client, ranker: Ranker) -> None:
    assert ask(client, MEANT, "cosine").total > 1
    answer = ask(client, MEANT, ranker)
    assert (contents(answer), answer.total) == ([FERRY], 1)


def test_T12_fused_is_its_formula_through_the_socket(client: Client) -> None:
    sim = ask(client, "the ferry to the island", "cosine").memories[0].score
    (found,) = ask(client, "the ferry to the island", "fused").memories
    # 0.6·sim + 0.3·exp(−(1/24)/7) + 0.1·0.8; exp(−0.005952) = 0.994066
    assert found.score == pytest.approx(0.6 * sim + 0.298220 + 0.08, abs=1e-5)


def test_E7_a_score_threshold_cuts_the_cosines_one_by_one(client: Client) -> None:
    scores = [memory.score for memory in ask(client, MEANT, "cosine").memories]
    kept = ask(client, MEANT, "cosine", min_score=scores[0] - 1e-4)
    assert (contents(kept), kept.total) == ([FERRY], 1)
    assert ask(client, MEANT, "cosine", min_score=0.99).memories == []


@pytest.mark.parametrize("ranker", RANKERS)
def test_one_page_after_the_other_is_the_whole_list(client: Client, ranker: Ranker) -> None:
    query = "the ferry, the printer, the oven and the fridge"
    whole = [(memory.id, memory.score) for memory in ask(client, query, ranker, top_k=10).memories]
    assert len(whole) == (2 if ranker == "fused" else 3)  # the printer is under its floor
    pages = [ask(client, query, ranker, top_k=1, offset=offset).memories for offset in range(len(whole) + 1)]
    assert [(memory.id, memory.score) for page in pages for memory in page] == whole


def test_the_protocol_knows_every_ranker_and_no_other() -> None:
    assert get_args(Ranker) == RANKERS


def test_a_ranker_or_a_mode_that_there_is_not_is_refused(client: Client) -> None:
    for fields in ({"ranker": "best"}, {"ranker": "hybrid", "mode": "both"}, {"recency_bias": 1.5}):
        with pytest.raises(RefusalError) as refused:
            client.recall("ferry", **fields)
        assert refused.value.code == "bad_value"


def test_M10_L21_without_a_model_every_ranker_answers_and_says_how(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        remember_three(client)
        for ranker in RANKERS:
            answer = ask(client, "the ferry to the island", ranker)
            used = effective_request(RankingRequest(ranker, has_vectors=False)).ranker  # test_rankers.py of the spec
            mode = {"hybrid": "deterministic", "rerank": "blend"}.get(used)
            by_formula = "deterministic" in (used, mode)
            assert contents(answer)[:1] == [FERRY], ranker
            assert len(contents(answer)) == (3 if by_formula else 1), ranker
            assert (answer.ranker, answer.mode) == (used, mode)
            assert answer.degraded == (["vectors"] if RANKER_TABLE[ranker].reads_vectors else [])
        by_tokens = ask(client, "ferry island bridge", "hybrid", mode="semantic")
        assert by_tokens.mode == "deterministic"
        assert by_tokens.memories[0].score == pytest.approx(0.728333, abs=1e-6)
        # [L21] nothing can rerank either: 0.8·1 + 0.2·0.8, by words
        assert ask(client, "ferry", "rerank").memories[0].score == pytest.approx(0.96, abs=1e-6)
        # 7.4: where there are no vectors, relevance is the words', uncapped: tanh(1·(1 + 0.4·(0.8 − 0.1) + 0.2))
        layered = client.recall("ferry", ranker="layered", dry=True).memories[0]
        assert layered.score == pytest.approx(math.tanh(1.48), abs=1e-3)


def test_M24_status_says_what_is_missing_and_an_answer_by_which_mode_from_how_many_and_how_long(
    started_daemon: RunningDaemon,
) -> None:
    with started_daemon.client() as client:
        remember_three(client)
        status = client.status()
        assert (status.state, status.models["embedding"].state) == ("degraded", "absent")
        assert any("embedding" in reason for reason in status.reasons)
        answer = ask(client, "the ferry to the island", "hybrid")
        assert (answer.mode, answer.total, answer.degraded) == ("deterministic", 3, ["vectors"])
        assert answer.took_ms > 0
