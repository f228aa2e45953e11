"""Relevance of memories to a prompt that did not ask for them. SPEC 7.5"""

import math

import pytest

from mnemo_core.ingest.memory_role import personal_odds
from mnemo_core.retrieval.abstention import (
    BEARING_MIN,
    PromptCandidate,
    bearing,
    relevant_places,
    signs_of,
)

OWN, OTHER = 2.0, -2.0  # log-odds that a prompt is about the person's own life
STRONG = PromptCandidate(0.8, 0.9, 0.6, is_event=False)


def near(score: float, closeness: float = 0.3, coverage: float = 0.0, *, is_event: bool = False) -> PromptCandidate:
    return PromptCandidate(score, closeness, coverage, is_event)


def test_the_signs_are_those_of_the_best_and_of_the_closest_five_together() -> None:
    closeness = (0.1, 0.6, 0.2, 0.5, 0.4, 0.3)
    signs = signs_of([near(0.5, each, each / 2) for each in closeness], OWN)
    assert signs.score_odds == pytest.approx(0.0)
    assert (signs.closest, signs.coverage, signs.personal_odds) == (0.6, 0.3, OWN)
    assert signs.closest_together == pytest.approx((0.6 + 0.5 + 0.4 + 0.3 + 0.2) / 5)


def test_an_event_counts_less() -> None:
    assert signs_of([near(0.8, is_event=True)], OTHER).score_odds == pytest.approx(math.log(0.081 / 0.921))
    assert relevant_places([STRONG, near(0.2), near(0.2, is_event=True)], OWN) == [0, 1]


@pytest.mark.parametrize("high", [near(0.7, 0.3, 0.2), near(0.2, 0.7, 0.2), near(0.2, 0.3, 0.7)])
def test_each_sign_raises_the_probability(high: PromptCandidate) -> None:
    low = near(0.2, 0.3, 0.2)
    assert bearing(signs_of([high], OTHER)) > bearing(signs_of([low], OTHER))
    assert bearing(signs_of([low], OWN)) > bearing(signs_of([low], OTHER))


def test_nothing_bears_on_a_prompt_about_something_else_however_good_the_best_score() -> None:
    assert bearing(signs_of([near(0.9, 0.05)], OTHER)) < BEARING_MIN < bearing(signs_of([STRONG], OWN))
    assert relevant_places([near(0.9, 0.05)], OTHER) == relevant_places([], OWN) == []


def test_of_a_prompt_that_something_bears_on_the_weak_candidates_are_left_out() -> None:
    assert relevant_places([near(0.07), STRONG, near(0.09), near(0.02)], OWN) == [1, 2]
    assert relevant_places([near(0.05, 0.9, 0.6), near(0.021), near(0.019)], OWN) == [0, 1]


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("when is the boiler man coming to my flat", "how does a boiler work"),
        ("which day can the carpets be delivered", "what is the capital of Mongolia"),
        ("wann war nochmal mein Termin beim Zahnarzt", "wie viele Zähne hat ein Hai"),
    ],
)
def test_a_prompt_about_the_persons_own_life_is_told_from_one_about_the_world_by_its_words(
    own: str, other: str
) -> None:
    assert personal_odds(own, None) > 0 > personal_odds(other, None)
