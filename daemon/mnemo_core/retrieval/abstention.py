"""Score cutoff and abstention: where the list of answers ends, and whether there is an answer at all (`cut: gap`). SPEC
7.5

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
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import DEFAULT_MODEL, Thresholds, relevance

CANDIDATES_MAX = 100  # candidates; no list is longer than that
RECALL_MIN = 0.9  # of what is right, the share that the cut has to leave
RECALL_LOST_MAX = 0.03  # of what is right and in the list, the share that the cut may lose where that is less
FALSE_ABSTENTIONS_MAX = 0.03  # of the questions that have an answer, the share that may be given none
# Where no candidate holds a word of the question. Measured on made words to 456 passages, of which the closest was 0.43
# at most and 0.095 ahead of the mean of the next five.
CHANCE_MAX = 0.45  # the closeness that a question about nothing does not reach
AHEAD_MIN = 0.1  # how far a closeness below that has to be ahead of the mean of the next COMPARED
COMPARED = 5
COVERAGE_WORTH = 0.2  # of all the query's words, beside a closeness of 1, for being near at all
SHRINKAGE = 1.0  # of the weights, as the variance of a standard one: a few hundred questions are few
STEPS_MAX = 50  # of Newton's method, which needs seven

Basis = Literal["learned", "vectors", "words"]  # what the scores rest on; each has weights of its own
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

    words_full: the BM25 score of a memory that consists of the query's own words.
    """

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


class CutoffExample(NamedTuple):
    """A question asked: the features of its candidates, best first, which of them are right, and how many there are."""

    features: Values
    is_right: NDArray[np.bool_]
    answers: int


class CutoffMetrics(NamedTuple):
    """Means over questions that have an answer. abstained: the share of them that got none."""

    precision: float
    recall: float
    abstained: float


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
    close = relevance(np.clip(np.nan_to_num(known.sims[:CANDIDATES_MAX]), 0, 1), thresholds)
    held = np.clip(known.words[:CANDIDATES_MAX] / max(known.words_full, 1e-9), 0, 1)
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


def kept_candidates(rows: Values, cut: CutoffModel, basis: Basis) -> NDArray[np.bool_]:
    """Mask of the candidates that are kept; all False where there is no answer among them."""
    found = strengths(rows, cut)
    left: NDArray[np.bool_] = found >= cut.share * found.max(initial=0.0)
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


# Fitting


def fit(examples: Sequence[CutoffExample], basis: Basis, top_k: int) -> CutoffModel:
    """The cut with the highest precision that leaves RECALL_MIN of what is right, or, where the ranking put hardly that
    much into top_k, all but RECALL_LOST_MAX of it. Same input, same result.
    """
    weights = _logistic(
        np.concatenate([each.features for each in examples]), np.concatenate([each.is_right for each in examples])
    )
    unlimited = CutoffModel(weights, 0.0, 0.0)
    best = [float(standalone_strengths(each.features, basis).max(initial=0.0)) for each in examples if each.answers]
    floor = float(np.quantile(best, FALSE_ABSTENTIONS_MAX)) if best else 0.0
    found = unlimited._replace(floor=round(floor, 4))
    wanted = min(RECALL_MIN, evaluate_cutoff(examples, found, basis, top_k).recall * (1 - RECALL_LOST_MAX))
    for share in np.arange(0.99, 0.0, -0.01):
        found = found._replace(share=round(float(share), 2))
        if evaluate_cutoff(examples, found, basis, top_k).recall >= wanted:
            break
    return found


def evaluate_cutoff(examples: Iterable[CutoffExample], cut: CutoffModel, basis: Basis, top_k: int) -> CutoffMetrics:
    """Precision, recall and abstentions of a cutoff over the questions that have an answer. An empty answer has
    precision 0."""
    precisions, recalls, abstained = [], [], []
    for each in examples:
        if each.answers:
            left = np.flatnonzero(kept_candidates(each.features, cut, basis))[:top_k]
            count, right = len(left), int(each.is_right[left].sum())
            precisions.append(right / count if count else 0.0)
            recalls.append(right / each.answers)
            abstained.append(count == 0)
    return CutoffMetrics(float(np.mean(precisions)), float(np.mean(recalls)), float(np.mean(abstained)))


def _share(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """The values as shares of the largest."""
    best = float(values.max(initial=0.0))
    return values / best if best > 0 else np.zeros_like(values)


def _logistic(rows: Values, is_right: NDArray[np.bool_]) -> tuple[float, ...]:
    """Weights, the constant last, by Newton's method; shrunk as if each feature had the deviation 1."""
    spread = rows.std(axis=0)
    scales = np.r_[np.where(spread > 0, spread, 1.0), 1.0]
    design = np.c_[rows, np.ones(len(rows))] / scales
    ridge = np.diag(np.r_[np.full(rows.shape[1], SHRINKAGE), 1e-6])
    weights = np.zeros(design.shape[1])
    for _ in range(STEPS_MAX):
        chances = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (chances - is_right) + ridge @ weights
        curve = (design * (chances * (1 - chances))[:, None]).T @ design + ridge
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return tuple(round(float(each), 4) for each in weights / scales)
