"""Rankers and the choice within a budget. SPEC 7.3, 7.5."""

import numpy as np
import pytest

from mnemo_core import ranking
from mnemo_core.ranking import Candidates

NAN = float("nan")


def candidates(
    words: list[float], sims: list[float], importance: list[float] | None = None, event_at: list[int] | None = None
) -> Candidates:
    count = len(words)
    return Candidates(
        np.array(words, np.float32),
        np.array(sims, np.float32),
        np.array(importance or [0.5] * count, np.float32),
        np.array(event_at or [0] * count, np.int64),
        np.zeros(count, np.uint64),
        np.arange(count, dtype=np.uint64),
    )


@pytest.mark.parametrize(
    ("words", "sims", "expected"),
    [
        # half of the share of the best in each channel: 0.5·4/4 + 0.5·0.3/0.6 and 0.5·2/4 + 0.5·0.6/0.6
        ([4.0, 2.0], [0.3, 0.6], [0.75, 0.75]),
        # found by one channel only: half of it counts
        ([4.0, 0.0], [0.0, 0.6], [0.5, 0.5]),
        # a negative cosine is no similarity at all
        ([4.0, 1.0], [0.6, -0.2], [1.0, 0.125]),
        # no vector yet: judged by words alone
        ([4.0, 2.0], [0.6, NAN], [1.0, 0.5]),
        ([4.0, 2.0], [NAN, NAN], [1.0, 0.5]),
        # no word of the query is known anywhere
        ([0.0, 0.0], [0.6, 0.3], [0.5, 0.25]),
    ],
)
def test_auto_is_half_words_and_half_vectors(words: list[float], sims: list[float], expected: list[float]) -> None:
    assert ranking.score("auto", candidates(words, sims)).tolist() == pytest.approx(expected)


def test_words_is_the_share_of_the_best_bm25() -> None:
    assert ranking.score("words", candidates([3.0, 1.5, 0.0], [NAN] * 3)).tolist() == [1.0, 0.5, 0.0]


def test_cosine_is_the_cosine_and_nothing_where_there_is_no_vector() -> None:
    assert ranking.score("cosine", candidates([9.0] * 3, [0.25, -0.5, NAN])).tolist() == [0.25, 0.0, 0.0]


def test_no_candidates_have_no_scores() -> None:
    for ranker in ("auto", "words", "cosine"):
        assert ranking.score(ranker, candidates([], [])).tolist() == []


def test_ties_go_to_the_more_important_then_the_newer_then_the_smaller_id() -> None:
    tied = candidates([1.0] * 4, [0.0] * 4, importance=[0.5, 0.9, 0.5, 0.5], event_at=[10, 0, 20, 20])
    assert ranking.order(np.ones(4, np.float32), tied).tolist() == [1, 2, 3, 0]


def test_what_does_not_fit_is_passed_over_and_smaller_ones_are_still_taken() -> None:
    tokens = {0: 500, 1: 40, 2: 70, 3: 50}
    assert ranking.choose([0, 1, 2, 3], tokens.__getitem__, 100, 5) == ([1, 3], 90)


def test_the_list_ends_at_top_k_whatever_still_fits() -> None:
    assert ranking.choose([0, 1, 2], lambda _: 1, 100, 2) == ([0, 1], 2)


def test_without_a_budget_everything_fits() -> None:
    assert ranking.choose([0, 1, 2], lambda _: 10_000, None, 3) == ([0, 1, 2], 30_000)
