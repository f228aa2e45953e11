"""Fitting of the score cutoff on questions with known answers (bench_cut.py --fit). SPEC 7.5"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.abstention import Basis, CutoffModel, Values, kept_candidates, standalone_strengths

RECALL_MIN = 0.9  # of what is right, the share that the cut has to leave
RECALL_LOST_MAX = 0.03  # of what is right and in the list, the share that the cut may lose where that is less
FALSE_ABSTENTIONS_MAX = 0.03  # of the questions that have an answer, the share that may be given none
SHRINKAGE = 1.0  # of the weights, as the variance of a standard one: a few hundred questions are few
STEPS_MAX = 50  # of Newton's method, which needs seven


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
