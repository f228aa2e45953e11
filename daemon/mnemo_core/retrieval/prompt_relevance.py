"""Relevance of memories to a prompt that did not ask for them: whether any bears on it, and which ones. SPEC 7.5

Most prompts of a person to an agent have nothing to do with their memories, but a store of any size has a memory that
is near to them. One near memory therefore says less than several: a logistic model of the best score, of how close the
closest memories are together, of the words that they share with the prompt, and of whether it speaks of the person
decides for the whole prompt. Its weights are fitted to lives and questions about them, and to prompts that nothing
bears on (`tests/bench/fit_contexts.py`). Texts of another language than English are closer to each other in the default
model, which is a sign of its own.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.text.languages import identify_language, words_of
from mnemo_core.text.statement_reading import read_statement

CLOSEST = 5  # memories whose mean closeness is a sign
EVENT_WEIGHT = 0.1  # of the score of what happened once
RELEVANT_MIN, RELEVANT_SHARE = 0.04, 0.1  # the least score of a memory, and its share of the best
_ODDS_OFFSET = 1e-3


class PromptCandidate(NamedTuple):
    """A memory that may bear on a prompt. score: of the learned ranker, 0 to 1; closeness, coverage: as the features
    of the end of a list (`abstention.features`)."""

    score: float
    closeness: float
    coverage: float
    is_event: bool


class PromptSigns(NamedTuple):
    """The signs that something bears on a prompt, or nothing does."""

    score_odds: float  # log-odds of the best score
    closest: float
    closest_together: float  # mean of the CLOSEST closest
    coverage: float  # of the memory that has most of the prompt's words
    is_own: bool  # the prompt speaks of the person: I, my, we
    is_foreign: bool  # it is not in English


# Of the signs in their order. Fitted to the same lives and prompts with an EVENT_WEIGHT of 0.15, before `fit_contexts`
# had its present form: a new fit has other numbers, and needs `bench_month` again.
WEIGHTS = (0.53, 13.78, 20.7, 4.64, 2.64, -3.1)
BIAS = -14.54
BEARING_MIN = 0.25


def weighted_score(candidate: PromptCandidate) -> float:
    """The score of a candidate, of an event less."""
    return candidate.score * (EVENT_WEIGHT if candidate.is_event else 1.0)


def signs_of(prompt: str, candidates: Sequence[PromptCandidate]) -> PromptSigns:
    """The signs of a prompt with these candidates, at least one."""
    best = max(map(weighted_score, candidates))
    closeness = sorted((each.closeness for each in candidates), reverse=True)[:CLOSEST]
    return PromptSigns(
        math.log((best + _ODDS_OFFSET) / (1 - best + _ODDS_OFFSET)), closeness[0], sum(closeness) / len(closeness),
        max(each.coverage for each in candidates), bool(read_statement(prompt).person),
        identify_language(words_of(prompt)) != "en",
    )  # fmt: skip


def bearing(signs: PromptSigns) -> float:
    """The probability that any memory bears on a prompt."""
    odds = BIAS + sum(weight * sign for weight, sign in zip(WEIGHTS, signs, strict=True))
    return 1 / (1 + math.exp(-odds))


def relevant_places(prompt: str, candidates: Sequence[PromptCandidate]) -> list[int]:
    """The places of the candidates that bear on a prompt, in their order; none where nothing does."""
    if not candidates or bearing(signs_of(prompt, candidates)) < BEARING_MIN:
        return []
    scores = [*map(weighted_score, candidates)]
    least = max(RELEVANT_MIN, RELEVANT_SHARE * max(scores))
    return [place for place, score in enumerate(scores) if score >= least]
