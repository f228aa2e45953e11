"""Relevance of memories to a prompt that did not ask for them. SPEC 7.5"""

import math

import pytest

from mnemo_core.retrieval.abstention import (
    BEARING_MIN,
    PromptCandidate,
    bearing,
    relevant_places,
    signs_of,
)

OWN, OTHER, FOREIGN = "where is my spare key", "who wrote Middlemarch", "wer schrieb eigentlich den Faust"
STRONG = PromptCandidate(0.8, 0.9, 0.6, is_event=False)


def near(score: float, closeness: float = 0.3, coverage: float = 0.0, *, is_event: bool = False) -> PromptCandidate:
    return PromptCandidate(score, closeness, coverage, is_event)


def test_the_signs_are_those_of_the_best_and_of_the_closest_five_together() -> None:
    closeness = (0.1, 0.6, 0.2, 0.5, 0.4, 0.3)
    signs = signs_of(OWN, [near(0.5, each, each / 2) for each in closeness])
    assert signs.score_odds == pytest.approx(0.0)
    assert (signs.closest, signs.coverage, signs.is_own) == (0.6, 0.3, True)
    assert signs.closest_together == pytest.approx((0.6 + 0.5 + 0.4 + 0.3 + 0.2) / 5)


def test_an_event_counts_less() -> None:
    assert signs_of(OTHER, [near(0.8, is_event=True)]).score_odds == pytest.approx(math.log(0.081 / 0.921))
    assert relevant_places(OWN, [STRONG, near(0.2), near(0.2, is_event=True)]) == [0, 1]


@pytest.mark.parametrize("high", [near(0.7, 0.3, 0.2), near(0.2, 0.7, 0.2), near(0.2, 0.3, 0.7)])
def test_each_sign_raises_the_probability(high: PromptCandidate) -> None:
    low = near(0.2, 0.3, 0.2)
    assert bearing(signs_of(OTHER, [high])) > bearing(signs_of(OTHER, [low]))
    assert bearing(signs_of(OWN, [low])) > bearing(signs_of(OTHER, [low])) > bearing(signs_of(FOREIGN, [low]))


def test_nothing_is_relevant_where_the_prompt_bears_on_nothing_however_good_the_best_score() -> None:
    only_score = near(0.9, 0.05)
    assert bearing(signs_of(OTHER, [only_score])) < BEARING_MIN
    assert relevant_places(OTHER, [only_score]) == relevant_places(OWN, []) == []


def test_of_a_prompt_that_something_bears_on_the_weak_candidates_are_left_out() -> None:
    assert bearing(signs_of(OWN, [STRONG])) > BEARING_MIN
    assert relevant_places(OWN, [near(0.07), STRONG, near(0.09), near(0.02)]) == [1, 2]
    weak = near(0.05, 0.9, 0.6)
    assert relevant_places(OWN, [weak, near(0.041), near(0.039)]) == [0, 1]
