"""The learned fusion of `auto`: two weighted sums of features, and trees. SPEC 7.3

The first sum sees every candidate; the second sees the best of the first again, with late interaction, and trees add
to it what features are worth together. The result is the log-odds that a memory bears on the question. All is fitted
on conversations, notes and facts that were written for it (daemon/docs/adr/0007-learned-fusion.md); the trace shows the
contribution of each feature.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.gbdt import ModelMismatchError, TreeEnsemble
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable

DEVIATIONS_MAX = 6.0  # a feature further from its mean than that counts as so far: nothing was seen there
FITTED_CANDIDATES = 100  # of a question, at least, where the weights were fitted
FEW_WEIGHT = 0.75  # by the reliability of stores of 1 to 40 memories (adr/0009)
SECOND_STAGE_CANDIDATES = 64  # candidates of the second stage; those behind them keep their order

Floats = NDArray[np.float32]


class LinearModel(NamedTuple):
    """Weights of features by name, each feature by its mean and spread where it was fitted."""

    names: tuple[str, ...]
    means: Floats
    spreads: Floats
    weights: Floats
    bias: float

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From {"bias": …, "features": {name: [mean, spread, weight]}}. Raises ModelMismatchError."""
        try:
            features = document["features"]
            columns = np.array(list(features.values()), np.float32).reshape(-1, 3)
            bias = float(document["bias"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelMismatchError(f"these are no weights: {error!r}") from error
        if not np.isfinite(columns).all() or (columns[:, 1] <= 0).any() or not np.isfinite(bias):
            raise ModelMismatchError("a weight is no number, or a spread is not above 0")
        return cls(tuple(features), columns[:, 0], columns[:, 1], columns[:, 2], bias)

    def contributions(self, table: FeatureTable) -> Floats:
        """(n, k) what each feature adds. Raises ModelMismatchError where the table lacks one."""
        parts: Floats = _columns(table, self.names) - self.means
        parts /= self.spreads
        np.clip(parts, -DEVIATIONS_MAX, DEVIATIONS_MAX, out=parts)
        parts *= self.weights
        return parts

    def odds(self, table: FeatureTable) -> Floats:
        """(n,) log-odds."""
        odds: Floats = (self.contributions(table).sum(axis=1) + np.float32(self.bias)).astype(np.float32)
        return odds


class LearnedRanker(NamedTuple):
    """`first` goes without late interaction, `second` with it, and with what the trees add."""

    first: LinearModel
    second: LinearModel
    trees: TreeEnsemble

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From {"first": …, "second": …, "trees": …}, as their own `read` takes them. Raises ModelMismatchError."""
        first, second, trees = (document.get(name, {}) for name in ("first", "second", "trees"))
        return cls(LinearModel.read(first), LinearModel.read(second), TreeEnsemble.read(trees))

    def second_odds(self, table: FeatureTable) -> Floats:
        """(n,) log-odds of the second look."""
        odds: Floats = self.second.odds(table) + self.trees.odds(_columns(table, self.trees.names))
        return odds

    def second_contributions(self, table: FeatureTable) -> Floats:
        """(n, k) what each feature of `second` adds to them, by itself and in the trees."""
        parts = self.second.contributions(table)
        own, _ = self.trees.contributions(_columns(table, self.trees.names))
        parts[:, [self.second.names.index(name) for name in self.trees.names]] += own
        return parts


def _columns(table: FeatureTable, names: tuple[str, ...]) -> Floats:
    """(n, k) those features. Raises ModelMismatchError where the table lacks one."""
    if table.names == names:
        return table.values
    places = {name: place for place, name in enumerate(table.names)}
    missing = [name for name in names if name not in places]
    if missing:
        raise ModelMismatchError(f"the weights are for features that are not computed: {', '.join(missing)}")
    return table.values[:, [places[name] for name in names]]


def join_tables(first: FeatureTable, second: FeatureTable, rows: Sequence[int] | NDArray[np.intp]) -> FeatureTable:
    """The features of these rows of the first table, with those of the second, which has these rows alone."""
    return FeatureTable((*first.names, *second.names), np.concatenate([first.values[rows], second.values], axis=1))


def merge_odds(first: Floats, rows: NDArray[np.intp], second: Floats) -> Floats:
    """One order of all: those of `rows` by their second log-odds, behind the last of them the rest by their first."""
    odds = first.copy()
    rest = np.ones(len(first), np.bool_)
    rest[rows] = False
    if len(rows) and rest.any():
        odds[rest] += min(0.0, float(second.min()) - float(first[rest].max()))
    odds[rows] = second
    return odds


def few_candidates_offset(count: int) -> float:
    """Offset to the log-odds where there are fewer candidates than the weights were fitted on.

    The features compare a candidate with the others. Among few, each is more likely to be the right one.
    """
    return FEW_WEIGHT * math.log(FITTED_CANDIDATES / min(max(count, 1), FITTED_CANDIDATES))


def probability(odds: Floats) -> Floats:
    """0..1."""
    return (1 / (1 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)
