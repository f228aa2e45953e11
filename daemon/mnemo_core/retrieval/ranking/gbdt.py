"""Gradient-boosted decision trees, added to the weighted sum of the second ranking stage. SPEC 7.3

A weighted sum cannot express that a name counts more where nothing else fits. A few small trees, boosted on the
log-odds of the sum, can (Friedman 2001; adr/0007-learned-fusion.md). All trees are evaluated at once: each split
that a row passes to the right excludes the leaves of its left branch, and the row ends at the first leaf that no split
excludes (Lucchese et al. 2015, QuickScorer).
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

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
        tree.thresholds.append(float(_not_above(threshold)))
        tree.rights.append(int(right))
        tree.values.append(float(np.float32(value)))
    if _end(tree, 0) != len(nodes) or len(nodes) > 2 * LEAVES_MAX - 1:
        raise ValueError(f"{len(nodes)} nodes, which are no tree of at most {LEAVES_MAX} leaves")
    return tree


def _not_above(threshold: float) -> np.float32:
    """The threshold as float32, rounded so that no float32 value changes its side."""
    found = np.float32(threshold)
    return found if float(found) <= threshold else np.nextafter(found, np.float32(-np.inf))


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
