"""The rankers `cosine`, `fused`, `hybrid` and `rerank`, worked by hand. SPEC 7.3

`deterministic` and `layered` have pages of their own.
"""

from typing import Any, NamedTuple

import pytest

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, of_model
from tests.columns import DAY, HOUR, NAN, NOW, candidates

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


CASES = [
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
def test_L21_ties_of_a_blend_go_to_what_was_changed_last(columns: dict[str, Any], order: list[int]) -> None:
    given = candidates(len(order), **columns)
    scored = rankers.score(RERANK, given)
    assert len(set(scored.scores.tolist())) == 1
    assert rankers.order(scored, given).tolist() == order
