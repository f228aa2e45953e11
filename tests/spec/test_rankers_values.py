"""The values of every ranker, worked by hand. SPEC 7.3, 7.4

On the sources' own thresholds a cosine is a relevance; where a model's table counts, it is named.
"""

import re
from math import exp, log, tanh
from typing import Any, NamedTuple

import numpy as np
import pytest

from mnemo_core.retrieval.ranking import decay_ranker, lexical_ranker, rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, SOURCE, of_model
from tests.support.ranking_candidates import DAY, HOUR, NAN, NOW, candidates

WEEK = 7 * DAY
AUTO, WORDS = RankingRequest("auto"), RankingRequest("words", words_full=3.0)
PLAIN, LAYERED = RankingRequest("deterministic", now=NOW), RankingRequest("layered", now=NOW)

COSINE, RERANK, RERANK_BY_WORDS = RankingRequest("cosine"), RankingRequest("rerank"), RankingRequest(
    "rerank", has_vectors=False
)  # fmt: skip
FUSED = RankingRequest("fused", now=NOW)
# Without a bias and with no importance, the deterministic half of `hybrid` is the overlap.
HYBRID = RankingRequest("hybrid", recency_bias=0.0, now=NOW)
BIASED = RankingRequest("hybrid", now=NOW)
SEMANTIC, DETERMINISTIC = RankingRequest("hybrid", "semantic"), RankingRequest("hybrid", "deterministic", now=NOW)
LIMITS = of_model(DEFAULT_MODEL)
BURIED = {"overlap": [0.5, 0.0], "event_at": [NOW - HOUR, NOW], "importance": [0.8, 0.0]}


class RankerCase(NamedTuple):
    """The columns of the candidates, and what the ranker makes of them; `mode` is the one that it used."""

    rule: str
    asked: RankingRequest
    columns: dict[str, Any]
    scores: list[float]
    mode: str | None = None
    dropped: list[bool] | None = None
    reason: str = ""


def fused(sim: float, days: int, importance: float, score: float, layer: str = "buffer") -> RankerCase:
    columns = {"sims": [sim], "importance": importance, "layer": layer, "event_at": NOW - days * DAY}
    return RankerCase("T12 six, three and one tenth", FUSED, columns, [score], reason="below_sim_threshold")


def deterministic(overlap: float, age: int, importance: float, score: float, bias: float = 0.35) -> RankerCase:
    columns = {"overlap": [overlap], "event_at": NOW - age, "importance": importance}
    return RankerCase("M3 overlap and recency by the bias, and a bonus for importance",
                      PLAIN._replace(recency_bias=bias), columns, [score])  # fmt: skip


def layered(rule: str, relevance: float, worth: float, **fields: object) -> RankerCase:
    """Of a memory of this relevance by words alone; another holds all words. worth: 1 + 0.4·weight + 0.2·recency."""
    columns = {"words": [1.0, relevance]} | {name: [value] * 2 for name, value in fields.items()}
    return RankerCase(rule, LAYERED, columns, [tanh(worth), tanh(relevance * worth)], None, None, "below_sim_threshold")


def auto(words: list[float], sims: list[float], scores: list[float], **fields: object) -> RankerCase:
    return RankerCase("half words and half vectors", AUTO, {"words": words, "sims": sims, **fields}, scores)


USED = {"strength": 0.75, "repetitions": 2, "accesses": 3, "kind": "procedural", "layer": "core"}
USED_WEIGHT = 0.75 + 0.17 * log(3) + 0.12 * log(4) + 0.15 + 0.1

CASES = [
    # half of the share of the best in each channel: 0.5·4/4 + 0.5·0.3/0.6 and 0.5·2/4 + 0.5·0.6/0.6
    auto([4.0, 2.0], [0.3, 0.6], [0.75, 0.75]),
    # found by one channel only: half of it counts
    auto([4.0, 0.0], [0.0, 0.6], [0.5, 0.5]),
    # a negative cosine is no similarity at all
    auto([4.0, 1.0], [0.6, -0.2], [1.0, 0.125]),
    # no vector yet: judged by words alone
    auto([4.0, 2.0], [0.6, NAN], [1.0, 0.5]),
    auto([4.0, 2.0], [NAN, NAN], [1.0, 0.5]),
    # a best cosine under 0.45 is not stretched to 1: 0.5·1 + 0.5·0.36/0.45 and 0.5·0.5 + 0.5·0.18/0.45
    auto([4.0, 2.0], [0.36, 0.18], [0.9, 0.45]),
    # no word of the query is known anywhere
    auto([0.0, 0.0], [0.6, 0.3], [0.5, 0.25]),
    # what the learned ranker says replaces that, and with few candidates what is shown of it
    auto([4.0, 2.0], [0.3, 0.6], [0.25, 0.75], learned=[0.25, 0.75]),
    auto([4.0, 2.0], [0.3, 0.6], [0.5, 0.9], learned=[0.25, 0.75], chances=[0.5, 0.9]),
    # of the words of the query 6/3, 3/3, 1.5/3, 0/3 are held: 1 − 0.1/2, 0.9, 0.9/2
    RankerCase("words is how much of the query a memory holds and never all", WORDS,
               {"words": [6.0, 3.0, 1.5, 0.0]}, [0.95, 0.9, 0.45, 0.0]),
    RankerCase("the best by words is not certain whatever the others are", WORDS._replace(words_full=10.0),
               {"words": [1.0]}, [0.09]),
    # 1 · 0.65 + 1/(1+0) · 0.35 + 0.15 · 1: a score may exceed 1
    deterministic(1.0, 0, 1.0, 1.15),
    # 0.5 · 0.65 + 1/2 · 0.35 + 0.15 · 0.8 = 0.325 + 0.175 + 0.12
    deterministic(0.5, HOUR, 0.8, 0.62),
    # 0.25 · 0.65 + 1/4 · 0.35 + 0.15 · 0.5 = 0.1625 + 0.0875 + 0.075
    deterministic(0.25, 3 * HOUR, 0.5, 0.325),
    # nothing in common: 0.35 / 25 + 0
    deterministic(0.0, DAY, 0.0, 0.014),
    # what is still to come is as fresh as what is now
    deterministic(0.0, -DAY, 0.0, 0.35),
    # 0.75·(1 − b) + 1/2·b + 0.15·0.2
    deterministic(0.75, HOUR, 0.2, 0.78, bias=0.0),
    deterministic(0.75, HOUR, 0.2, 0.6925),
    deterministic(0.75, HOUR, 0.2, 0.53, bias=1.0),
    RankerCase("M5 recency is one over one and the hours", PLAIN._replace(recency_bias=1.0),
               {"overlap": [0.0] * 5, "importance": 0.0,
                "event_at": [NOW, NOW - HOUR, NOW - 3 * HOUR, NOW - DAY, NOW - 99 * HOUR]},
               [1.0, 0.5, 0.25, 0.04, 0.01]),
    # weight 0.5 − 0.1 = 0.4; recency 1, and after a week exp(−5)
    layered("G32 a plain buffer memory", 0.6, 1.36, layer="buffer", decay_rate=5.0),
    layered("G32 a plain buffer memory of last week", 0.6, 1.16 + 0.2 * exp(-5), layer="buffer", decay_rate=5.0,
            created_at=NOW - WEEK),
    # recency exp(−0.05·24/168)
    layered("G32 a procedural core memory that was used", 0.8, 1 + 0.4 * USED_WEIGHT + 0.2 * exp(-0.05 / 7), **USED,
            decay_rate=0.05, created_at=NOW - WEEK, last_accessed=NOW - DAY),
    # weight 1 + 0.17·ln 61 + 0.55 + 0.15 + 0.1
    layered("G32 a memory that was used as often as counts", 1.0, 1.2 + 0.4 * (1.8 + 0.17 * log(61)), strength=1.0,
            repetitions=60, accesses=100, kind="procedural", layer="core"),
    # weight 0.5 − 0.2 = 0.3, and no four fifths of the score as in the other rankers
    layered("G34 an archived memory loses by its weight alone", 0.6, 1.32, state="archived"),
    # weight 0.5: 1 + 0.4·0.5 + 0.2·recency, 1 at once and exp(−5) after a week
    *(layered("G33 age is since the last access, without one since creation", 0.6, worth, decay_rate=5.0, **times)
      for worth, times in (
          (1.4, {"created_at": NOW}), (1.4, {"created_at": NOW - WEEK, "last_accessed": NOW}),
          (1.2 + 0.2 * exp(-5), {"created_at": NOW - WEEK}),
          (1.2 + 0.2 * exp(-5), {"created_at": NOW, "last_accessed": NOW - WEEK}),
          (1.4, {"created_at": NOW, "event_at": NOW - 99 * WEEK}),
          (1.4, {"created_at": NOW + WEEK}),  # a clock that stepped back
      )),
    RankerCase("E7 the cosine, 0 without a vector", COSINE,
               {"words": 9.0, "sims": [0.25, -0.5, NAN, 1.0001], "importance": 0.9}, [0.25, 0.0, 0.0, 1.0]),
    # 0.6·sim + 0.3·exp(−days / 7, or 30 in the other layers) + 0.1·importance
    fused(0.6, 7, 0.5, 0.36 + 0.3 * 0.36788 + 0.05),
    fused(1.0, 0, 1.0, 1.0),
    fused(0.8, 1, 0.2, 0.48 + 0.3 * 0.86688 + 0.02),
    fused(1.0, 5, 0.0, 0.6 + 0.3 * 0.48954),
    fused(1.0, 10, 0.0, 0.6 + 0.3 * 0.23965),
    fused(1.0, 30, 0.0, 0.6 + 0.3 * 0.01376),
    fused(1.0, 30, 0.0, 0.6 + 0.3 * 0.36788, "working"),
    fused(1.0, 30, 0.0, 0.6 + 0.3 * 0.36788, "core"),
    fused(1.0, -3, 0.0, 0.9),
    RankerCase("T13 nothing under the floor, however fresh and important", FUSED,
               {"sims": [0.6, 0.59, -0.2, NAN, 0.61], "importance": 1.0, "words": 9.0, "event_at": NOW},
               [0.76, 0.0, 0.0, 0.0, 0.766], None, [False, True, True, True, False], "below_sim_threshold"),
    RankerCase("T13 the floor is the model's", FUSED._replace(thresholds=LIMITS),
               {"sims": [LIMITS.fused_floor, LIMITS.fused_floor - 0.001], "importance": 0.0, "layer": "buffer",
                "event_at": NOW}, [0.6 * LIMITS.fused_floor + 0.3, 0.0], None, [False, True], "below_sim_threshold"),
    # each half divided by its best: 0.8/0.8, 0.4/0.8 and 0.3/0.6, 0.6/0.6
    *(RankerCase("M8 the weighted mean of both halves", HYBRID._replace(semantic_weight=weight),
                 {"overlap": [0.8, 0.4], "sims": [0.3, 0.6], "importance": 0.0}, scores, "hybrid")
      for weight, scores in ((0.5, [0.75, 0.75]), (0.25, [0.875, 0.625]), (0.0, [1.0, 0.5]), (1.0, [0.5, 1.0]))),
    # 0.5·0.65 + 0.5·0.35 + 0.15·0.8 = 0.62, the best; 0 + 1·0.35 + 0.15·0 = 0.35
    RankerCase("M8 recency and importance are part of the deterministic half", BIASED, {**BURIED, "sims": [0.2, 0.4]},
               [0.5 + 0.25, 0.5 * 0.35 / 0.62 + 0.5], "hybrid"),
    RankerCase("M8 a best of nearly nothing counts as 0.001", HYBRID,
               {"overlap": [0.0, 0.0], "sims": [0.0005, 0.00025], "importance": 0.0}, [0.25, 0.125], "hybrid"),
    RankerCase("M8 a best of nothing is not stretched", HYBRID,
               {"overlap": [0.0, 0.0], "sims": [0.0, -0.5], "importance": 0.0}, [0.0, 0.0], "hybrid"),
    RankerCase("M8 a negative cosine is no similarity", HYBRID,
               {"overlap": [0.5, 0.5], "sims": [-0.9, 0.3], "importance": 0.0}, [0.5, 1.0], "hybrid"),
    RankerCase("M10 without a vector yet the deterministic half decides", HYBRID,
               {"overlap": [0.8, 0.4], "sims": [NAN, 0.6], "importance": 0.0}, [1.0, 0.75], "hybrid"),
    RankerCase("M9 mode deterministic is that ranker", DETERMINISTIC, {**BURIED, "sims": [0.9, 0.1]}, [0.62, 0.35],
               "deterministic"),
    RankerCase("M9 mode semantic is the cosine and drops what has none", SEMANTIC,
               {"sims": [0.6, 0.0, -0.3, NAN], "words": 9.0}, [0.6, 0.0, 0.0, 0.0], "semantic",
               [False, True, True, True], "no_similarity"),
    *(RankerCase("M10 without vectors every mode is deterministic", HYBRID._replace(mode=mode, has_vectors=False),
                 {"overlap": [0.5, 0.25], "importance": 0.0}, [0.5, 0.25], "deterministic")
      for mode in ("hybrid", "semantic", "deterministic")),
    # 0.8·0.5 + 0.2·1 ; 0.8·0.6 + 0.2·0 ; a cosine below 0 is none: 0.2·0.5
    RankerCase("L21 a blend of relevance and importance", RERANK,
               {"sims": [0.5, 0.6, -0.3], "importance": [1.0, 0.0, 0.5]}, [0.6, 0.48, 0.1], "blend"),
    # 0.8·4/4 + 0.2·0.5 ; 0.8·1/4 + 0.2·1
    RankerCase("L21 without vectors the words are the relevance", RERANK_BY_WORDS,
               {"words": [4.0, 1.0], "importance": [0.5, 1.0]}, [0.9, 0.4], "blend"),
    # where it could not be computed, the blend: 0.8·0.5 + 0.2·0.5
    RankerCase("L21 late interaction replaces the cosine", RERANK,
               {"sims": [0.9, 0.2, 0.5], "late": [0.3, 0.7, NAN], "importance": 0.5}, [0.3, 0.7, 0.5], "late"),
    # of what was not read the blend, 0.8·0.5 + 0.2·0.5 and 0.8·0.6 + 0.2·0.5, of the least that was given
    RankerCase("L21 a cross-encoder replaces everything", RERANK,
               {"sims": [0.9, 0.2, 0.5, 0.6], "cross": [0.25, 0.75, NAN, NAN], "late": [0.9, 0.1, 0.9, 0.9],
                "importance": 0.5}, [0.25, 0.75, 0.5 * 0.25, 0.58 * 0.25], "cross_encoder"),
    RankerCase("L21 a cross-encoder that read nothing leaves it to late interaction", RERANK,
               {"sims": [0.9, 0.2], "cross": [NAN, NAN], "late": [0.3, 0.7]}, [0.3, 0.7], "late"),
    RankerCase("L21 and without that to the blend", RERANK,
               {"sims": [0.9, 0.2], "cross": [NAN, NAN], "importance": 0.0}, [0.72, 0.16], "blend"),
    RankerCase("L21 a cross-encoder needs no vectors", RERANK_BY_WORDS,
               {"words": [4.0, 1.0], "cross": [0.25, 0.75]}, [0.25, 0.75], "cross_encoder"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_every_score_is_the_one_worked_by_hand(case: RankerCase) -> None:
    given = candidates(len(case.scores), **case.columns)
    scored = rankers.score(case.asked, given)
    assert scored.scores.tolist() == pytest.approx(case.scores, abs=5e-6)
    assert scored.dropped.tolist() == (case.dropped or [False] * len(case.scores))
    assert (scored.ranker, scored.mode, scored.reason) == (case.asked.ranker, case.mode, case.reason)


@pytest.mark.parametrize(
    ("columns", "order"),
    [
        # of a blend, what was changed last comes first
        ({"sims": 0.5, "modified_at": [NOW, NOW + HOUR, NOW + HOUR, NOW], "event_at": [NOW + HOUR, NOW, NOW, NOW]},
         [1, 2, 0, 3]),
        # of everything else the newer event, whatever was changed last
        ({"late": [0.5, 0.5], "modified_at": [NOW + HOUR, NOW], "event_at": [NOW, NOW + HOUR]}, [1, 0]),
        ({"cross": [0.5, 0.5], "modified_at": [NOW + HOUR, NOW], "event_at": [NOW, NOW + HOUR]}, [1, 0]),
    ],
)  # fmt: skip
def test_L21_ties_of_a_blend_go_to_the_memory_changed_last(columns: dict[str, Any], order: list[int]) -> None:
    given = candidates(len(order), **columns)
    scored = rankers.score(RERANK, given)
    assert len(set(scored.scores.tolist())) == 1
    assert rankers.order(scored, given).tolist() == order


def test_M6_of_equal_scores_the_more_important_comes_first_then_the_newer_then_the_smaller_id() -> None:
    # What is archived has four fifths of its score: 0.8·(0.5 + 0.15·1) = 0.52 = 0.4 + 0.15·0.8. The others are newer,
    # or have the smaller id; without a bias that is no part of the score.
    given = candidates(4, overlap=[0.4, 0.4, 0.4, 0.5], importance=[0.8, 0.8, 0.8, 1.0],
                       event_at=[NOW, NOW + HOUR, NOW + HOUR, NOW], state=[*["active"] * 3, "archived"])  # fmt: skip
    scored = rankers.score(PLAIN._replace(recency_bias=0.0), given)
    assert scored.scores.tolist() == pytest.approx([0.52] * 4)
    assert len(set(scored.scores.tolist())) == 1
    assert rankers.order(scored, given).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        # a query without tokens has nothing in common with any text
        ("", "anything", 0.0),
        ("", "", 0.0),
        ("?! …", "?! …", 0.0),
        # tokens are [a-z0-9]+, lower-cased; those of the query that the text has, over those of the query
        ("The Quick brown fox", "quick-brown DOG, the", 3 / 4),
        ("foo bar", "foo_bar", 1.0),
        ("port 8080?", "The port is 8080.", 1.0),
        ("port 8080?", "The port is 80.", 1 / 2),
        # of a word that is asked twice, one
        ("key key lock", "a lock", 1 / 2),
        # no stemming: cats are no cat
        ("my cats", "my cat", 1 / 2),
        ("don't", "don t", 1.0),
        # tags stand behind the content
        ("alpha deadline", "It is due in May. project:alpha deadline", 1.0),
        # other scripts, and letters without their accents and case
        ("Café Müller", "das cafe von muller", 1.0),
        ("Straße", "STRASSE", 1.0),
        ("ＡＢＣ １２", "abc 12", 1.0),
        # 東 京 の 天 気 of which the text has 東 and 京
        ("東京の天気", "東京は雨", 2 / 5),
        ("김치", "김치를 먹었다", 1.0),
        # が is another letter than か, though Unicode takes it for か with a mark
        ("が", "か", 0.0),
        ("Привет, мир", "мир", 1 / 2),
    ],
)
def test_M4_the_overlap_is_the_share_of_the_querys_tokens_in_content_and_tags(
    query: str, text: str, expected: float
) -> None:
    assert lexical_ranker.overlap(query, [text]).tolist() == pytest.approx([expected])


def test_M4_of_ascii_the_tokens_are_those_of_the_source() -> None:
    text = "It's v2.0_rc1 -- see /usr/lib/X11 (A+B) at 10:30, e-mail: me@host.org!"
    tokens = lexical_ranker.tokens(text)
    assert tokens == set(re.findall("[a-z0-9]+", text.lower()))
    assert "v2.0_rc1" not in tokens
    assert {"v2", "0", "rc1"} <= tokens


def test_G32_the_score_is_the_curve_of_the_source() -> None:
    for raw in (0.0, 0.3, 0.816, 2.2, 3.5):
        score = decay_ranker.score(np.array([raw]), np.zeros(1), np.zeros(1))[0]
        assert score == pytest.approx(2 / (1 + exp(-2 * raw)) - 1)
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
        (USED, 1.3531),
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
    ("words", "sim", "is_short_cjk", "expected"),
    [
        # G35 found by words and vectors is more than by either; the gate is 1 from 0.45 on: 0.6·(1 + 1·0.3·1)
        (1.0, 0.6, False, 0.78),
        (0.5, 0.6, False, 0.69),
        # below it the boost fades: gate 0.36/0.45 = 0.8; 0.36·(1 + 0.5·0.3·0.8) = 0.36·1.12
        (0.5, 0.36, False, 0.4032),
        # a perfect fit in both: 1·1.3
        (1.0, 1.0, False, 1.3),
        # in short CJK queries words count twice and lift to a floor: 0.6·(1 + 0.5·0.6·1) = 0.78 is over 0.5 + 0.35·0.5
        (0.5, 0.6, True, 0.78),
        # 0.36·(1 + 0.5·0.6·0.8) = 0.4464 is not: 0.675
        (0.5, 0.36, True, 0.675),
        (1.0, 0.31, True, 0.85),
        # G36 by words alone relevance is capped
        (1.0, 0.1, False, 0.25),
        (0.5, 0.1, False, 0.125),
        # the cosine is the larger, though no vector search would have found it
        (0.5, 0.2, False, 0.2),
        (1.0, -0.4, False, 0.25),
        (1.0, 0.1, True, 0.40),
        (0.5, 0.1, True, 0.20),
        # without a vector words are all there is, and not capped
        *((words, NAN, is_short_cjk, words) for words in (0.5, 1.0) for is_short_cjk in (False, True)),
        # G37 without a term of the query seven tenths count; a term, however common, is one
        (0.0, 0.6, False, 0.42),
        (0.0, 0.6, True, 0.42),
        (1e-4, 0.6, False, 0.600018),
    ],
)
def test_G35_G36_G37_relevance_by_words_and_vectors(
    words: float, sim: float, is_short_cjk: bool, expected: float
) -> None:
    share, sims = np.array([words], np.float32), np.array([sim], np.float32)
    found = decay_ranker.relevance(share, sims, SOURCE, is_short_cjk=is_short_cjk)
    assert found.tolist() == pytest.approx([expected])


def test_G36_without_vectors_the_words_are_the_relevance() -> None:
    scored = rankers.score(LAYERED._replace(has_vectors=False), candidates(2, words=[4.0, 1.0]))
    assert scored.relevance.tolist() == [1.0, 0.25]
    assert scored.dropped.tolist() == [False, False]


def test_G36_short_cjk_reaches_the_ranker_with_the_question() -> None:
    given = candidates(2, words=[2.0, 1.0], sims=[0.1, 0.1])
    assert rankers.score(LAYERED, given).relevance.tolist() == pytest.approx([0.25, 0.125])
    short = rankers.score(LAYERED._replace(is_short_cjk=True), given)
    assert short.relevance.tolist() == pytest.approx([0.4, 0.2])


def test_G39_candidates_that_neither_words_nor_similar_enough_vectors_found_are_dropped() -> None:
    sims = [0.30, 0.29, 0.29, 0.31, NAN, NAN, -1.0]
    scored = rankers.score(LAYERED, candidates(7, sims=sims, words=[0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]))
    assert scored.dropped.tolist() == [False, True, False, False, False, True, True]
    assert [score == 0 for score in scored.scores.tolist()] == scored.dropped.tolist()
    assert scored.reason == "below_sim_threshold"
    assert scored.relevance[1] == pytest.approx(0.29 * 0.7)  # is reported all the same


def test_G39_G40_the_thresholds_are_those_of_the_model_that_made_the_vectors() -> None:
    sims = [LIMITS.relevance_floor, LIMITS.relevance_floor - 0.01, LIMITS.relevance_touch, LIMITS.merge]
    scored = rankers.score(LAYERED._replace(thresholds=LIMITS), candidates(4, sims=sims))
    assert scored.dropped.tolist() == [False, True, False, False]
    found = scored.relevance.tolist()
    assert (found[0], *found[2:]) == pytest.approx((0.30 * 0.7, 0.50 * 0.7, 0.78 * 0.7))


@pytest.mark.parametrize("ranker", rankers.RANKERS)
def test_G38_G40_every_ranker_reports_the_same_relevance(ranker: rankers.Ranker) -> None:
    given = candidates(3, words=[4.0, 2.0, 0.0], sims=[0.6, 0.1, 0.6], overlap=[0.5, 0.5, 0.0])
    # both: 0.6·1.3; by words alone: 0.25·0.5; by vectors alone: 0.6·0.7
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
