"""The ranker `fused`, worked by hand. SPEC 7.3 [T12, T13]"""

import pytest

from mnemo_core.retrieval.ranking import rankers
from mnemo_core.retrieval.ranking.rankers import RankingRequest
from mnemo_core.similarity.thresholds import DEFAULT_MODEL, of_model
from tests.columns import DAY, NAN, NOW, candidates

PLAIN = RankingRequest("fused", now=NOW)


@pytest.mark.parametrize(
    ("layer", "days", "expected"),
    [
        ("buffer", 0, 1.0),
        ("buffer", 1, 0.8669),
        ("buffer", 5, 0.4895),
        ("buffer", 7, 0.3679),
        ("buffer", 10, 0.2397),
        ("buffer", 30, 0.0138),
        ("working", 30, 0.3679),
        ("core", 30, 0.3679),
        ("buffer", -3, 1.0),
    ],
)
def test_T12_recency_is_an_e_fold_of_seven_days_and_of_thirty_long_term(layer: str, days: int, expected: float) -> None:
    given = candidates(1, sims=1.0, importance=0.0, layer=layer, event_at=NOW - days * DAY)
    found = rankers.score(PLAIN, given).scores[0]
    assert (found - 0.6) / 0.3 == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("sim", "days", "importance", "expected"),
    [
        # 0.6·0.6 + 0.3·0.3679 + 0.1·0.5 = 0.36 + 0.1104 + 0.05
        (0.6, 7, 0.5, 0.5204),
        (1.0, 0, 1.0, 1.0),
        # 0.6·0.8 + 0.3·0.8669 + 0.1·0.2 = 0.48 + 0.2601 + 0.02
        (0.8, 1, 0.2, 0.7601),
    ],
)
def test_T12_the_score_is_six_three_and_one_tenth(sim: float, days: int, importance: float, expected: float) -> None:
    given = candidates(1, sims=sim, importance=importance, layer="buffer", event_at=NOW - days * DAY)
    assert rankers.score(PLAIN, given).scores[0] == pytest.approx(expected, abs=5e-5)


def test_T13_below_the_floor_nothing_is_shown_however_fresh_and_important() -> None:
    given = candidates(5, sims=[0.6, 0.59, -0.2, NAN, 0.61], importance=1.0, words=9.0)
    scored = rankers.score(PLAIN, given)
    assert scored.dropped.tolist() == [False, True, True, True, False]
    assert [score == 0 for score in scored.scores.tolist()] == scored.dropped.tolist()
    assert scored.reason == "below_sim_threshold"


def test_T13_the_floor_is_that_of_the_model_and_the_score_its_cosine() -> None:
    limits = of_model(DEFAULT_MODEL)
    given = candidates(2, sims=[limits.fused_floor, limits.fused_floor - 0.001], importance=0.0, layer="buffer")
    scored = rankers.score(PLAIN._replace(thresholds=limits), given)
    assert scored.dropped.tolist() == [False, True]
    # 0.6·0.341 + 0.3
    assert scored.scores[0] == pytest.approx(0.5046, abs=5e-5)
