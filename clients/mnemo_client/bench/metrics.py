"""The metrics of `mnemo bench quality`, and their confidence intervals.

The evidence of a question is the memories that answer it. R@k is its share among the first k answers, all@k is 1 if all
of it is there, MRR the reciprocal rank of the first, nDCG@10 the gain of the first ten (1 / log2(rank + 1) each) over
the best possible. Means are over questions, their 95% intervals from a bootstrap over the questions."""

import math
import random
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

KS = (1, 5, 10, 50)
METRICS = ("R@1", "R@5", "R@10", "R@50", "all@10", "nDCG@10", "MRR")
GAIN_K = 10  # of nDCG
RESAMPLES = 1000
COVERED = 0.95
SEED = 11


class Mean(NamedTuple):
    """A mean over questions; 95% of the means of resampled questions are from `low` to `high`."""

    mean: float
    low: float
    high: float


def score(ranked: Sequence[str], evidence: Sequence[str]) -> dict[str, float]:
    """Return the metrics of one answer, each 0 to 1. evidence: at least one name; ranked: the names, best first."""
    right = set(evidence)
    places = [place for place, name in enumerate(ranked) if name in right]
    row = {f"R@{k}": sum(place < k for place in places) / len(right) for k in KS}
    row["all@10"] = float(sum(place < 10 for place in places) == len(right))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(GAIN_K, len(right))))
    row["nDCG@10"] = sum(1 / math.log2(place + 2) for place in places if place < GAIN_K) / ideal
    row["MRR"] = 1 / (places[0] + 1) if places else 0.0
    return row


class Bootstrap:
    """Samples of `count` questions, drawn with replacement: the same samples for every metric and every ranker."""

    def __init__(self, count: int, resamples: int = RESAMPLES) -> None:
        chance = random.Random(SEED)
        self.count = count
        self._draws = (
            [itemgetter(*chance.choices(range(count), k=count)) for _ in range(resamples)] if count > 1 else []
        )

    def mean(self, values: Sequence[float]) -> Mean:
        """Return the mean of one value for each question. The interval of a single question is its value."""
        assert len(values) == self.count
        mean = math.fsum(values) / self.count
        if not self._draws:
            return Mean(mean, mean, mean)
        means = sorted(sum(draw(values)) / self.count for draw in self._draws)
        return Mean(mean, _quantile(means, (1 - COVERED) / 2), _quantile(means, (1 + COVERED) / 2))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the quantile of the values, interpolated between two of them."""
    return _quantile(sorted(values), share)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
