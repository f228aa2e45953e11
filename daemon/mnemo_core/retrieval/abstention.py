"""Score cutoff and abstention: where the list of answers ends, and whether there is an answer at all (`cut: gap`), or a
memory that bears on a prompt. SPEC 7.5

A logistic model estimates for each candidate the probability that it answers the question. Its features are the
similarity, the coverage of the query's words, and the distance to the best candidate in each. Candidates with at least
a given share of the highest probability are kept, in their order. The answer is empty where no candidate is similar
enough by itself: that test has a floor of its own, because a lead over the other candidates shows which one answers,
not whether any does. Only where no candidate holds a word of the question must the closest one also stand out, or be
closer than chance.

The place of the cutoff is learned, because the shape of the scores is not known beforehand: the largest gap, a knee or
a jump cut in the wrong place where one right answer is followed by many similar ones. The list does not end at the
first weak candidate either, because a candidate that only its words put there can stand between two answers. The
weights are fitted on sets of beliefs with questions (`tests/bench/bench_cut.py`) and kept by embedding model, as
thresholds are.

Most prompts of a person to an agent have nothing to do with their memories, but a store of any size has a memory that
is near to them. One near memory therefore says less than several: a logistic model of the best score, of how close the
closest memories are together, of the words that they share with the prompt, and of whether the prompt itself is about
the person's own life or work decides for the whole prompt. The last is a linear model of its words and its vector,
fitted to prompts of both kinds (`tests/bench/fit_prompts.py`); the weights of all signs are fitted to lives and
questions about them, and to prompts that nothing bears on (`tests/bench/fit_contexts.py`).
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import DEFAULT_MODEL, Thresholds, relevance

LIST_SHARE = 0.1  # of the share that ends a list of answers, where the question asks for a list: its items may be weak.
# Multi-hop evidence within 2,000 tokens 56.8 → 65.0 % on the development half of LoCoMo, 50.4 → 60.4 % on
# conversations that nothing was fitted on, at 40 and 29 tokens more for a question. [tests.bench.quality --block]
CANDIDATES_MAX = 100  # candidates; no list is longer than that
# Where no candidate holds a word of the question. Measured on made words to 456 passages, of which the closest was 0.43
# at most and 0.095 ahead of the mean of the next five.
CHANCE_MAX = 0.45  # the closeness that a question about nothing does not reach
AHEAD_MIN = 0.1  # how far a closeness below that has to be ahead of the mean of the next COMPARED
COMPARED = 5
COVERAGE_WORTH = 0.2  # weight of holding all of the query's words, against 1 for closeness

Basis = Literal["learned", "vectors", "words"]  # the basis of the scores; each has weights of its own
Values = NDArray[np.float64]

CLOSENESS, COVERAGE, CLOSENESS_SHARE, COVERAGE_SHARE, SCORE, SCORE_SHARE = range(6)
NAMES = ("closeness", "coverage", "closeness_share", "coverage_share", "score", "score_share")
FEATURES: dict[Basis, tuple[int, ...]] = {
    "learned": (CLOSENESS, COVERAGE, CLOSENESS_SHARE, COVERAGE_SHARE, SCORE, SCORE_SHARE),
    "vectors": (CLOSENESS, COVERAGE, CLOSENESS_SHARE, COVERAGE_SHARE),
    "words": (COVERAGE, COVERAGE_SHARE),
}


class CutoffInputs(NamedTuple):
    """Scores and similarities of the candidates, best first. sims: cosines, NaN where a memory has no vector.
    words_full: the BM25 score of a memory that consists of the query's own words."""

    scores: NDArray[np.float32]
    sims: NDArray[np.float32]
    words: NDArray[np.float32]
    words_full: float


class CutoffModel(NamedTuple):
    """Weights of the features in the order of FEATURES, the constant last; the share of the best strength, and the
    floor."""

    weights: tuple[float, ...]
    share: float
    floor: float


# What bench_cut.py --fit prints, and nothing written by hand.
MEASURED: dict[str, dict[Basis, CutoffModel]] = {
    DEFAULT_MODEL: {
        "learned": CutoffModel((3.8106, 0.2407, 6.6145, -0.4633, 1.7434, 1.7374, -10.6361), share=0.03, floor=0.3573),
        "vectors": CutoffModel((6.0601, 1.3868, 8.5544, 0.5799, -12.6569), share=0.05, floor=0.3573),
        "words": CutoffModel((3.7755, 3.8451, -6.0951), share=0.07, floor=0.0),
    }
}


def of_model(name: str) -> dict[Basis, CutoffModel]:
    """The cuts of a model. Of one that nobody fitted them for the default model's: closeness is read on one scale."""
    return MEASURED.get(name) or MEASURED[DEFAULT_MODEL]


def features(known: CutoffInputs, thresholds: Thresholds, basis: Basis) -> Values:
    """A row a candidate, a column a feature of the basis; all between 0 and 1."""
    held = np.clip(known.words[:CANDIDATES_MAX] / max(known.words_full, 1e-9), 0, 1)
    sims = known.sims[:CANDIDATES_MAX]  # what has no vector yet is as close as it holds the words, and found at once
    close = np.where(np.isnan(sims), np.sqrt(held), relevance(np.clip(np.nan_to_num(sims), 0, 1), thresholds))
    scores = np.clip(known.scores[:CANDIDATES_MAX], 0, 1)
    columns = [close, held, _share(close), _share(held), scores, _share(scores)]
    return np.stack([columns[each] for each in FEATURES[basis]], axis=1).astype(np.float64)


def strengths(rows: Values, cut: CutoffModel) -> Values:
    """Probability of each candidate to be an answer, by its features."""
    sums: Values = rows @ np.array(cut.weights[:-1]) + cut.weights[-1]
    return 1 / (1 + np.exp(-sums))


def standalone_strengths(rows: Values, basis: Basis) -> Values:
    """Similarity of each candidate regardless of the others: closeness + 0.2 · coverage."""
    worth = {CLOSENESS: 1.0, COVERAGE: COVERAGE_WORTH}
    near: Values = rows @ np.array([worth.get(each, 0.0) for each in FEATURES[basis]])
    return near


def kept_candidates(rows: Values, cut: CutoffModel, basis: Basis, *, of_list: bool = False) -> NDArray[np.bool_]:
    """Mask of the candidates that are kept; all False where there is no answer among them. of_list: the question asks
    for a list, whose items may be much weaker than its best one."""
    found = strengths(rows, cut)
    share = cut.share * (LIST_SHARE if of_list else 1.0)
    left: NDArray[np.bool_] = found >= share * found.max(initial=0.0)
    is_answered = standalone_strengths(rows, basis).max(initial=0.0) >= cut.floor and not _is_by_chance(rows, basis)
    return left if is_answered else np.zeros_like(left)


def _is_by_chance(rows: Values, basis: Basis) -> bool:
    """Return whether the closest candidate is only as close as chance makes it.

    That is so where no candidate holds a word of the question and the closest is hardly closer than the next ones:
    among thousands of texts some are that close to a question without any meaning.
    """
    columns = FEATURES[basis]
    if CLOSENESS not in columns or len(rows) <= COMPARED or rows[:, columns.index(COVERAGE)].any():
        return False
    closest, *others = np.sort(rows[:, columns.index(CLOSENESS)])[::-1][: 1 + COMPARED]
    return bool(closest < CHANCE_MAX and closest - np.mean(others) < AHEAD_MIN)


def _share(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """The values as shares of the largest."""
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else np.zeros_like(values)


CLOSEST = 5  # memories whose mean closeness is a sign
EVENT_WEIGHT = 0.1  # of the score of what happened once
RELEVANT_MIN, RELEVANT_SHARE = 0.02, 0.1  # the least score of a memory, and its share of the best
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
    personal_odds: float  # as of `memory_role.personal_odds`


WEIGHTS = (0.4749, 5.308, 3.601, 2.699, 0.4453)  # of the signs in their order [fit_contexts]
BIAS = -3.834
BEARING_MIN = 0.35


def weighted_score(candidate: PromptCandidate) -> float:
    """The score of a candidate, of an event less."""
    return candidate.score * (EVENT_WEIGHT if candidate.is_event else 1.0)


def signs_of(candidates: Sequence[PromptCandidate], odds: float) -> PromptSigns:
    """The signs of a prompt with these candidates, at least one. odds: as `personal_odds`."""
    best = max(map(weighted_score, candidates))
    closeness = sorted((each.closeness for each in candidates), reverse=True)[:CLOSEST]
    return PromptSigns(
        math.log((best + _ODDS_OFFSET) / (1 - best + _ODDS_OFFSET)), closeness[0], sum(closeness) / len(closeness),
        max(each.coverage for each in candidates), odds,
    )  # fmt: skip


def bearing(signs: PromptSigns) -> float:
    """The probability that any memory bears on a prompt."""
    odds = BIAS + sum(weight * sign for weight, sign in zip(WEIGHTS, signs, strict=True))
    return 1 / (1 + math.exp(-odds))


def relevant_places(candidates: Sequence[PromptCandidate], odds: float) -> list[int]:
    """The places of the candidates that bear on a prompt, in their order; none where nothing does. odds: as
    `personal_odds`."""
    if not candidates or bearing(signs_of(candidates, odds)) < BEARING_MIN:
        return []
    scores = [*map(weighted_score, candidates)]
    least = max(RELEVANT_MIN, RELEVANT_SHARE * max(scores))
    return [place for place, score in enumerate(scores) if score >= least]
