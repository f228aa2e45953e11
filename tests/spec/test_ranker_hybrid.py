"""The ranker `hybrid`, worked by hand. SPEC 7.3 [M8 to M10]"""

import numpy as np
import pytest

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from tests.columns import HOUR, NAN, NOW, candidates

# Without a bias and with no importance, deterministic is the overlap.
PLAIN = RankingRequest("hybrid", recency_bias=0.0, now=NOW)


def hybrid(overlap: list[float], sims: list[float], asked: RankingRequest = PLAIN) -> rankers.RankingScores:
    return rankers.score(asked, candidates(len(overlap), overlap=overlap, sims=sims, importance=0.0))


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        # each divided by its best: 0.8/0.8, 0.4/0.8 and 0.3/0.6, 0.6/0.6
        (0.5, [0.75, 0.75]),
        (0.25, [0.875, 0.625]),
        (0.0, [1.0, 0.5]),
        (1.0, [0.5, 1.0]),
    ],
)
def test_M8_the_score_is_the_mean_of_both_each_divided_by_its_best(weight: float, expected: list[float]) -> None:
    scored = hybrid([0.8, 0.4], [0.3, 0.6], PLAIN._replace(semantic_weight=weight))
    assert scored.scores.tolist() == pytest.approx(expected)
    assert (scored.ranker, scored.mode) == ("hybrid", "hybrid")


def test_M8_recency_and_importance_are_part_of_the_deterministic_half() -> None:
    # 0.5·0.65 + 0.5·0.35 + 0.15·0.8 = 0.62, the best; 0 + 1·0.35 + 0.15·0 = 0.35; 0.35/0.62 = 0.564516
    given = candidates(2, overlap=[0.5, 0.0], sims=[0.2, 0.4], event_at=[NOW - HOUR, NOW], importance=[0.8, 0.0])
    scored = rankers.score(RankingRequest("hybrid", now=NOW), given)
    assert scored.scores.tolist() == pytest.approx([0.5 + 0.25, 0.5 * 0.35 / 0.62 + 0.5])


def test_M8_a_best_of_nearly_nothing_is_not_stretched_to_one() -> None:
    # The best counts as 0.001 at least: 0.0005 and 0.00025 are a half and a quarter of that.
    assert hybrid([0.0, 0.0], [0.0005, 0.00025]).scores.tolist() == pytest.approx([0.25, 0.125])
    assert hybrid([0.0, 0.0], [0.0, -0.5]).scores.tolist() == [0.0, 0.0]


def test_M8_what_points_away_is_no_similarity_at_all() -> None:
    assert hybrid([0.5, 0.5], [-0.9, 0.3]).scores.tolist() == pytest.approx([0.5, 1.0])


def test_M10_a_memory_that_has_no_vector_yet_is_judged_by_the_deterministic_half_alone() -> None:
    assert hybrid([0.8, 0.4], [NAN, 0.6]).scores.tolist() == pytest.approx([1.0, 0.75])


def test_M9_mode_deterministic_is_that_ranker() -> None:
    given = candidates(2, overlap=[0.5, 0.0], sims=[0.9, 0.1], event_at=[NOW - HOUR, NOW], importance=[0.8, 0.0])
    scored = rankers.score(RankingRequest("hybrid", "deterministic", now=NOW), given)
    assert scored.scores.tolist() == pytest.approx([0.62, 0.35])
    assert scored.scores.tolist() == rankers.score(RankingRequest("deterministic", now=NOW), given).scores.tolist()
    assert scored.mode == "deterministic"


def test_M9_mode_semantic_is_the_cosine_and_drops_what_has_none() -> None:
    scored = rankers.score(RankingRequest("hybrid", "semantic"), candidates(4, sims=[0.6, 0.0, -0.3, NAN], words=9.0))
    assert scored.scores.tolist() == pytest.approx([0.6, 0.0, 0.0, 0.0])
    assert scored.dropped.tolist() == [False, True, True, True]
    assert (scored.mode, scored.reason) == ("semantic", "no_similarity")


def test_M10_without_vectors_every_mode_is_deterministic_and_says_so() -> None:
    given = candidates(2, overlap=[0.5, 0.25], importance=0.0)
    for mode in ("hybrid", "semantic", "deterministic"):
        scored = rankers.score(PLAIN._replace(mode=mode, has_vectors=False), given)
        assert scored.scores.tolist() == [0.5, 0.25]
        assert (scored.ranker, scored.mode) == ("hybrid", "deterministic")
        assert not np.any(scored.dropped)
