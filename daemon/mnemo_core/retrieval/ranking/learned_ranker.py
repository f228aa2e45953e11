"""The learned fusion of `auto`: two weighted sums of features, and trees. SPEC 7.3

The first sum sees every candidate; the second sees the best of the first again, with late interaction, and trees add
to it what features are worth together. The result is the log-odds that a memory bears on the question. All is fitted
on conversations, notes and facts that were written for it (daemon/docs/adr/0007-learned-fusion.md); the trace shows the
contribution of each feature.

A weighted sum cannot express that a name counts more where nothing else fits. A few small trees, boosted on the
log-odds of the sum, can (Friedman 2001). All trees are evaluated at once: each split that a row passes to the right
excludes the leaves of its left branch, and the row ends at the first leaf that no split excludes (Lucchese et al. 2015,
QuickScorer).
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.ranking_features import FeatureTable

LEAVES_MAX = 16  # of a tree: its mask is 16 bits

Floats = NDArray[np.float32]

_LOWEST_LEFT = np.zeros(1 << LEAVES_MAX, np.uint8)  # of a mask, the place of its lowest bit that is not set
for _place in reversed(range(LEAVES_MAX)):
    _LOWEST_LEFT[(1 << _place) - 1 :: 2 << _place] = _place


class ModelMismatchError(ValueError):
    """Weights that are for other features than these, or that are none."""


class _Tree(NamedTuple):
    """Nodes in preorder: the left branch of a split stands right behind it."""

    features: list[int]  # that a split asks for; -1: a leaf
    thresholds: list[float]  # greater values go to the right
    rights: list[int]
    values: list[float]  # log-odds: of a leaf, and of a split the mean of what comes to it


@dataclasses.dataclass(frozen=True, eq=False)
class TreeEnsemble:
    """t trees over the k features of `names`."""

    names: tuple[str, ...]
    trees: tuple[_Tree, ...]
    features: NDArray[np.intp]  # (s * t,) the feature of each split, first splits first; missing splits go left
    thresholds: Floats  # (s * t, 1)
    masks: NDArray[np.uint16]  # (s * t, 1) the leaves that a row that goes right cannot reach
    leaves: NDArray[np.float64]  # (t * LEAVES_MAX,)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From {"features": [name, …], "trees": [[node, …], …]}, nodes in preorder: a split is [place of its feature,
        threshold, place of its right branch, value], a leaf [value]. Raises ModelMismatchError."""
        try:
            names = tuple(map(str, document["features"]))
            trees = tuple(_tree(nodes, len(names)) for nodes in document["trees"])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ModelMismatchError(f"these are no trees: {error!r}") from error
        splits = max((len(tree.features) // 2 for tree in trees), default=0)
        features = np.zeros((len(trees), splits), np.intp)
        thresholds = np.full((len(trees), splits), np.inf, np.float32)
        masks = np.zeros((len(trees), splits), np.uint16)
        leaves = np.zeros((len(trees), LEAVES_MAX))
        for place, tree in enumerate(trees):
            own = [node for node, feature in enumerate(tree.features) if feature >= 0]
            features[place, : len(own)] = [tree.features[node] for node in own]
            thresholds[place, : len(own)] = [tree.thresholds[node] for node in own]
            masks[place, : len(own)] = [_left_leaves(tree, node) for node in own]
            ends = [tree.values[node] for node, feature in enumerate(tree.features) if feature < 0]
            leaves[place, : len(ends)] = ends
        by_split = features.T.ravel(), thresholds.T.reshape(-1, 1), masks.T.reshape(-1, 1)
        return cls(names, trees, *by_split, leaves.ravel())

    def odds(self, values: Floats) -> Floats:
        """(n,) what the trees add to the log-odds of rows (n, k), whose columns are those of `names`."""
        found: Floats = self.leaves.take(self._leaves_of(values)).sum(axis=0).astype(np.float32)
        return found  # the same to the bit, whatever other rows are asked with it

    def contributions(self, values: Floats) -> tuple[Floats, float]:
        """The same as (n, k), the contribution of each feature, and the constant that is added in any case: each split
        on the way of a row adds the change of the mean (Saabas 2014)."""
        splits, changes = self._ways
        leaves = self._leaves_of(values)
        places = splits[leaves] + (np.arange(len(values)) * len(self.names))[:, None]
        found = np.bincount(places.ravel(), changes[leaves].ravel(), values.size)
        always = sum(tree.values[0] for tree in self.trees)
        return found.reshape(values.shape).astype(np.float32), always

    def _leaves_of(self, values: Floats) -> NDArray[np.intp]:
        """(t, n) the leaf of each tree that each row comes to, as its place in `leaves`."""
        count = len(self.trees)
        goes_right = np.ascontiguousarray(values.T).take(self.features, axis=0) > self.thresholds
        excluded = np.multiply(goes_right, self.masks, dtype=np.uint16)
        excluded = excluded.reshape(len(self.masks) // max(1, count), count, len(values))
        left = _LOWEST_LEFT.take(np.bitwise_or.reduce(excluded, axis=0))
        return np.arange(count, dtype=np.intp)[:, None] * LEAVES_MAX + left

    @functools.cached_property
    def _ways(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """(t * LEAVES_MAX, d) of each leaf: the features of the splits on the way to it, and what the mean changes by
        at each; 0 behind the last one."""
        ways = {
            place * LEAVES_MAX + leaf: way
            for place, tree in enumerate(self.trees)
            for leaf, way in enumerate(_ways_to_leaves(tree, 0))
        }
        splits = np.zeros((len(self.leaves), max(map(len, ways.values()), default=0)), np.intp)
        changes = np.zeros(splits.shape)
        for leaf, way in ways.items():
            for depth, (feature, change) in enumerate(way):
                splits[leaf, depth], changes[leaf, depth] = feature, change
        return splits, changes


def _tree(nodes: Sequence[Sequence[float]], features: int) -> _Tree:
    tree = _Tree([], [], [], [])
    for node in nodes:
        feature, threshold, right, value = node if len(node) == 4 else (-1, np.inf, 0, *node)
        if not (-1 <= int(feature) < features and np.isfinite(value) and (feature < 0 or np.isfinite(threshold))):
            raise ValueError(f"no node: {node}")
        tree.features.append(int(feature))
        # The threshold as float32, rounded so that no float32 value changes its side.
        found = np.float32(threshold)
        tree.thresholds.append(float(found if float(found) <= threshold else np.nextafter(found, np.float32(-np.inf))))
        tree.rights.append(int(right))
        tree.values.append(float(np.float32(value)))
    if _end(tree, 0) != len(nodes) or len(nodes) > 2 * LEAVES_MAX - 1:
        raise ValueError(f"{len(nodes)} nodes, which are no tree of at most {LEAVES_MAX} leaves")
    return tree


def _end(tree: _Tree, node: int) -> int:
    """Index after the last node of the branch that begins there. Raises ValueError where there is none."""
    if tree.features[node] < 0:
        return node + 1
    if _end(tree, node + 1) != tree.rights[node]:
        raise ValueError(f"the right branch of node {node} does not begin at {tree.rights[node]}")
    return _end(tree, tree.rights[node])


def _ways_to_leaves(tree: _Tree, node: int) -> list[list[tuple[int, float]]]:
    """Of each leaf of the branch: the feature of each split on the way to it, and by what the mean changes there."""
    if tree.features[node] < 0:
        return [[]]
    return [
        [(tree.features[node], tree.values[child] - tree.values[node]), *way]
        for child in (node + 1, tree.rights[node])
        for way in _ways_to_leaves(tree, child)
    ]


def _left_leaves(tree: _Tree, node: int) -> int:
    """The leaves of the left branch, as a mask."""
    is_leaf = [feature < 0 for feature in tree.features]
    before, left = sum(is_leaf[:node]), sum(is_leaf[node : tree.rights[node]])
    return ((1 << left) - 1) << before


DEVIATIONS_MAX = 6.0  # a feature further from its mean than that counts as so far: nothing was seen there
FITTED_CANDIDATES = 100  # of a question, at least, where the weights were fitted
FEW_WEIGHT = 0.75  # by the reliability of stores of 1 to 40 memories (adr/0009)
SECOND_STAGE_CANDIDATES = 64  # candidates of the second stage; those behind them keep their order


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

    @property
    def second_bias(self) -> float:
        """The sum of what is added to the log-odds of the second look in any case."""
        return self.second.bias + sum(tree.values[0] for tree in self.trees.trees)

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
    """Offset to the log-odds where there are fewer candidates than the weights were fitted on. The features compare a
    candidate with the others. Among few, each is more likely to be the right one."""
    return FEW_WEIGHT * math.log(FITTED_CANDIDATES / min(max(count, 1), FITTED_CANDIDATES))


def probability(odds: Floats) -> Floats:
    """0..1."""
    return (1 / (1 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)
