"""The ranker `layered`, worked by hand. SPEC 7.4 [G31 to G40]

On the sources' own thresholds a cosine is a relevance; where a model's table counts, it is named.
"""

import math

import numpy as np
import pytest

from mnemo_core.retrieval.ranking import decay_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, SOURCE, of_model
from tests.columns import DAY, HOUR, NAN, NOW, candidates

PLAIN = RankingRequest("layered", now=NOW)
WEEK = 7 * DAY


def relevance(words: float, sim: float, *, is_short_cjk: bool = False) -> float:
    """Of a candidate with this share of the best BM25 and this cosine."""
    share, sims = np.array([words], np.float32), np.array([sim], np.float32)
    return float(decay_ranker.relevance(share, sims, SOURCE, is_short_cjk=is_short_cjk)[0])


def scores(rel: float, **fields: object) -> float:
    """Of a memory of this relevance: by words alone, of which another has all, and no vector."""
    others = {name: [value, value] for name, value in fields.items()}
    return float(rankers.score(PLAIN, candidates(2, words=[1.0, rel], **others)).scores[1])


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        # weight 0.5 − 0.1 = 0.4; recency 1; raw = 0.6·(1 + 0.16 + 0.2) = 0.816; tanh 0.816
        (0, 0.6729),
        # recency exp(−5) = 0.0067; raw = 0.6·(1.16 + 0.00135) = 0.6968
        (WEEK, 0.6023),
    ],
)
def test_G32_a_plain_buffer_memory_of_relevance_0_6(age: int, expected: float) -> None:
    found = scores(0.6, strength=0.5, layer="buffer", decay_rate=5.0, created_at=NOW - age)
    assert found == pytest.approx(expected, abs=5e-5)


def test_G32_a_procedural_core_memory_that_was_used() -> None:
    # weight 1.3531 (below); recency exp(−0.05·24/168) = 0.99288; raw = 0.8·(1 + 0.54124 + 0.19858) = 1.39186
    used = {"strength": 0.75, "repetitions": 2, "accesses": 3, "kind": "procedural", "layer": "core"}
    found = scores(0.8, **used, decay_rate=0.05, created_at=NOW - WEEK, last_accessed=NOW - DAY)
    assert found == pytest.approx(0.8836, abs=5e-5)


def test_G32_a_memory_that_was_used_as_often_as_counts() -> None:
    # weight 1 + 0.6988 + 0.55 + 0.15 + 0.1 = 2.4988; raw = 1 + 0.99954 + 0.2 = 2.19954
    found = scores(1.0, strength=1.0, repetitions=60, accesses=100, kind="procedural", layer="core")
    assert found == pytest.approx(0.9757, abs=5e-5)


def test_G34_an_archived_memory_loses_by_its_weight_alone() -> None:
    # weight 0.5 − 0.2 = 0.3; raw = 0.6·(1 + 0.12 + 0.2) = 0.792, and no four fifths of it as in the other rankers
    assert scores(0.6, state="archived") == pytest.approx(math.tanh(0.792))


def test_G32_the_score_is_the_sources_own_curve() -> None:
    for raw in (0.0, 0.3, 0.816, 2.2, 3.5):
        ours = decay_ranker.score(np.array([raw]), np.zeros(1), np.zeros(1))[0]
        assert ours == pytest.approx(2 / (1 + math.exp(-2 * raw)) - 1)
    assert decay_ranker.score(np.array([1e6]), np.zeros(1), np.zeros(1))[0] == 1.0


@pytest.mark.parametrize(
    ("age", "rate", "expected"),
    [
        (0, 5.0, 1.0),
        # a week is no half-life: at a rate of 1 it leaves 1/e
        (WEEK, 1.0, 0.3679),
        (WEEK, 5.0, 0.0067),
        (WEEK, 0.05, 0.9512),
        (4 * WEEK, 0.1, 0.6703),
        (WEEK, 0.0, 1.0),
    ],
)
def test_G33_recency_is_an_e_fold_of_a_week_at_rate_1(age: int, rate: float, expected: float) -> None:
    found = decay_ranker.recency(np.array([age / HOUR]), np.array([rate], np.float32))
    assert found[0] == pytest.approx(expected, abs=5e-5)


def test_G33_age_is_since_the_last_access_and_since_creation_only_where_there_was_none() -> None:
    fresh = scores(0.6, decay_rate=5.0, created_at=NOW)
    assert scores(0.6, decay_rate=5.0, created_at=NOW - WEEK, last_accessed=NOW) == fresh
    assert scores(0.6, decay_rate=5.0, created_at=NOW - WEEK) < fresh
    assert scores(0.6, decay_rate=5.0, created_at=NOW, last_accessed=NOW - WEEK) < fresh
    assert scores(0.6, decay_rate=5.0, created_at=NOW, event_at=NOW - 99 * WEEK) == fresh
    assert scores(0.6, decay_rate=5.0, created_at=NOW + WEEK) == fresh  # a clock that stepped back


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0.5),
        ({"layer": "buffer"}, 0.4),
        ({"layer": "core"}, 0.6),
        ({"kind": "procedural"}, 0.65),
        ({"kind": "episodic"}, 0.4),
        ({"kind": "working"}, 0.5),
        # archived takes the place of the layer's term
        ({"state": "archived"}, 0.3),
        ({"state": "archived", "layer": "core"}, 0.3),
        ({"state": "superseded", "layer": "core"}, 0.6),
        # 0.75 + 0.17·ln 3 + 0.12·ln 4 + 0.15 + 0.1 = 0.75 + 0.18676 + 0.16636 + 0.25
        ({"strength": 0.75, "repetitions": 2, "accesses": 3, "kind": "procedural", "layer": "core"}, 1.3531),
        # 0.17·ln 61 = 0.6988 is still under its cap, 0.12·ln 101 = 0.5538 is not
        ({"strength": 0.0, "repetitions": 60}, 0.6988),
        ({"strength": 0.0, "accesses": 100}, 0.55),
        ({"strength": 0.0, "repetitions": 61}, 0.7),
        ({"strength": 0.0, "repetitions": 100_000, "accesses": 100_000}, 1.25),
    ],
)
def test_G34_the_weight_is_strength_use_kind_and_layer(fields: dict[str, object], expected: float) -> None:
    given = candidates(1, **fields)
    found = decay_ranker.weight(given.strength, given.repetitions, given.accesses, given.kind, given.layer, given.state)
    assert found[0] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("words", "sim", "expected"),
    [
        # gate 1 from 0.45 on: 0.6·(1 + 1·0.3·1)
        (1.0, 0.6, 0.78),
        (0.5, 0.6, 0.69),
        # below it the boost fades: gate 0.36/0.45 = 0.8; 0.36·(1 + 0.5·0.3·0.8) = 0.36·1.12
        (0.5, 0.36, 0.4032),
        # a perfect fit in both: 1·1.3
        (1.0, 1.0, 1.3),
    ],
)
def test_G35_found_by_words_and_vectors_is_more_than_by_either(words: float, sim: float, expected: float) -> None:
    assert relevance(words, sim) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "sim", "expected"),
    [
        # 0.6·(1 + 0.5·0.6·1) = 0.78 is over the floor 0.5 + 0.35·0.5
        (0.5, 0.6, 0.78),
        # 0.36·(1 + 0.5·0.6·0.8) = 0.4464 is not: 0.675
        (0.5, 0.36, 0.675),
        (1.0, 0.31, 0.85),
    ],
)
def test_G35_in_short_cjk_queries_words_count_twice_and_lift_to_a_floor(
    words: float, sim: float, expected: float
) -> None:
    assert relevance(words, sim, is_short_cjk=True) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "sim", "is_short_cjk", "expected"),
    [
        (1.0, 0.1, False, 0.25),
        (0.5, 0.1, False, 0.125),
        # the cosine is the larger, though no vector search would have found it
        (0.5, 0.2, False, 0.2),
        (1.0, -0.4, False, 0.25),
        (1.0, 0.1, True, 0.40),
        (0.5, 0.1, True, 0.20),
    ],
)
def test_G36_by_words_alone_relevance_is_capped(words: float, sim: float, is_short_cjk: bool, expected: float) -> None:
    assert relevance(words, sim, is_short_cjk=is_short_cjk) == pytest.approx(expected)


def test_G36_where_there_is_no_vector_words_are_all_there_is_and_not_capped() -> None:
    for is_short_cjk in (False, True):
        assert relevance(0.5, NAN, is_short_cjk=is_short_cjk) == pytest.approx(0.5)
        assert relevance(1.0, NAN, is_short_cjk=is_short_cjk) == pytest.approx(1.0)
    scored = rankers.score(PLAIN._replace(has_vectors=False), candidates(2, words=[4.0, 1.0]))
    assert scored.relevance.tolist() == [1.0, 0.25]
    assert scored.dropped.tolist() == [False, False]


def test_G37_by_vectors_alone_with_no_term_of_the_query_in_the_text_seven_tenths_count() -> None:
    assert relevance(0.0, 0.6) == pytest.approx(0.42)
    assert relevance(0.0, 0.6, is_short_cjk=True) == pytest.approx(0.42)
    assert relevance(1e-4, 0.6) == pytest.approx(0.6, abs=1e-4)  # a term, however common, is one


def test_G39_what_neither_words_nor_near_enough_vectors_found_is_not_shown() -> None:
    sims = [0.30, 0.29, 0.29, 0.31, NAN, NAN, -1.0]
    scored = rankers.score(PLAIN, candidates(7, sims=sims, words=[0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]))
    assert scored.dropped.tolist() == [False, True, False, False, False, True, True]
    assert [score == 0 for score in scored.scores.tolist()] == scored.dropped.tolist()
    assert scored.reason == "below_sim_threshold"
    assert scored.relevance[1] == pytest.approx(0.29 * 0.7)  # is told all the same


def test_G39_G40_the_thresholds_are_those_of_the_model_that_made_the_vectors() -> None:
    limits = of_model(DEFAULT_MODEL)
    sims = [limits.relevance_floor, limits.relevance_floor - 0.01, limits.relevance_touch, limits.merge]
    scored = rankers.score(PLAIN._replace(thresholds=limits), candidates(4, sims=sims))
    assert scored.dropped.tolist() == [False, True, False, False]
    found = scored.relevance.tolist()
    assert (found[0], *found[2:]) == pytest.approx((0.30 * 0.7, 0.50 * 0.7, 0.78 * 0.7))


def test_G38_G40_relevance_is_told_by_every_ranker_the_same() -> None:
    given = candidates(3, words=[4.0, 2.0, 0.0], sims=[0.6, 0.1, 0.6], overlap=[0.5, 0.5, 0.0])
    # both: 0.6·1.3; by words alone: 0.25·0.5; by vectors alone: 0.6·0.7
    for ranker in rankers.RANKERS:
        scored = rankers.score(RankingRequest(ranker, now=NOW), given)
        assert scored.relevance.tolist() == pytest.approx([0.78, 0.125, 0.42])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("東京の天気", True),
        ("  東京の天気は？  ", True),
        ("九文字です。はい。", True),  # 9
        ("十文字です。はい、。", False),  # 10
        ("김치 먹었어?", True),
        ("カレー", True),
        ("Tokyo 東京", True),
        ("weather", False),
        ("Müller", False),
        ("", False),
    ],
)
def test_G35_short_cjk_is_under_ten_characters_with_one_of_those_scripts(query: str, expected: bool) -> None:
    assert decay_ranker.is_short_cjk(query) is expected


def test_G36_short_cjk_reaches_the_ranker_with_the_question() -> None:
    given = candidates(2, words=[2.0, 1.0], sims=[0.1, 0.1])
    assert rankers.score(PLAIN, given).relevance.tolist() == pytest.approx([0.25, 0.125])
    short = rankers.score(PLAIN._replace(is_short_cjk=True), given)
    assert short.relevance.tolist() == pytest.approx([0.4, 0.2])
