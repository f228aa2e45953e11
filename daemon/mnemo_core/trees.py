"""What features are worth together: decision trees, added to the weighted sum of a look. SPEC 7.3

A weighted sum cannot say that a name counts more where nothing else fits. A few small trees, boosted on the log-odds of
the sum, can (Friedman 2001; daemon/adr/0007-learned-fusion.md). They are counted all at once, each split by a mask of
the leaves that it leaves possible (Lucchese et al. 2015, QuickScorer).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

LEAVES_MAX = 16  # of a tree: its mask is 16 bits

Floats = NDArray[np.float32]

_ALL = np.uint16(0xFFFF)
_LOWEST = np.zeros(1 << LEAVES_MAX, np.uint8)  # of a mask, the place of its lowest bit
for _place in reversed(range(LEAVES_MAX)):
    _LOWEST[1 << _place :: 2 << _place] = _place


class Unfit(ValueError):
    """Weights that are for other features than these, or that are none."""


class _Tree(NamedTuple):
    """Nodes in preorder: the left branch of a split stands right behind it."""

    features: list[int]  # that a split asks for; -1: a leaf
    thresholds: list[float]  # to the right goes what is greater
    rights: list[int]
    values: list[float]  # log-odds: of a leaf, and of a split the mean of what comes to it


class Trees(NamedTuple):
    """t trees over the k features of `names`."""

    names: tuple[str, ...]
    trees: tuple[_Tree, ...]
    features: NDArray[np.intp]  # (t * s,) what each split asks for; those that a tree has less are never passed
    thresholds: Floats  # (t * s, 1)
    masks: NDArray[np.uint16]  # (t * s, 1) of the leaves that are left to what goes to the right
    leaves: NDArray[np.float64]  # (t * LEAVES_MAX,)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From {"features": [name, …], "trees": [[node, …], …]}, nodes in preorder: a split is [place of its feature,
        threshold, place of its right branch, value], a leaf [value]. Raises Unfit."""
        try:
            names = tuple(map(str, document["features"]))
            trees = tuple(_tree(nodes, len(names)) for nodes in document["trees"])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise Unfit(f"these are no trees: {error!r}") from error
        splits = max((len(tree.features) // 2 for tree in trees), default=0)
        features = np.zeros((len(trees), splits), np.intp)
        thresholds = np.full((len(trees), splits), np.inf, np.float32)
        masks = np.full((len(trees), splits), _ALL)
        leaves = np.zeros((len(trees), LEAVES_MAX))
        for place, tree in enumerate(trees):
            own = [node for node, feature in enumerate(tree.features) if feature >= 0]
            features[place, : len(own)] = [tree.features[node] for node in own]
            thresholds[place, : len(own)] = [tree.thresholds[node] for node in own]
            masks[place, : len(own)] = [_mask_of_right(tree, node) for node in own]
            ends = [tree.values[node] for node, feature in enumerate(tree.features) if feature < 0]
            leaves[place, : len(ends)] = ends
        return cls(names, trees, features.ravel(), thresholds.reshape(-1, 1), masks.reshape(-1, 1), leaves.ravel())

    def odds(self, values: Floats) -> Floats:
        """(n,) what the trees add to the log-odds of rows (n, k), whose columns are those of `names`."""
        count = len(self.trees)
        if not count:
            return np.zeros(len(values), np.float32)
        goes_right = np.ascontiguousarray(values.T).take(self.features, axis=0) > self.thresholds
        possible = np.where(goes_right, self.masks, _ALL).reshape(count, -1, len(values))
        left = _LOWEST.take(np.bitwise_and.reduce(possible, axis=1))
        first = np.arange(count, dtype=np.intp)[:, None] * LEAVES_MAX
        found: Floats = self.leaves.take(first + left).sum(axis=0).astype(np.float32)  # exact in any company, so added
        return found

    def parts(self, values: Floats) -> tuple[Floats, float]:
        """The same as (n, k), what each feature adds, and what is added in any case: each split on the way of a row
        adds what the mean changes by (Saabas 2014)."""
        found, rows = np.zeros(values.shape, np.float32), np.arange(len(values))
        always = 0.0
        for tree in self.trees:
            features, rights = np.array(tree.features), np.array(tree.rights)
            thresholds, means = np.array(tree.thresholds, np.float32), np.array(tree.values, np.float32)
            always += tree.values[0]
            at = np.zeros(len(values), np.intp)
            while len(inner := rows[features[at] >= 0]):
                here = at[inner]
                asked = features[here]
                at[inner] = np.where(values[inner, asked] > thresholds[here], rights[here], here + 1)
                found[inner, asked] += means[at[inner]] - means[here]
        return found, always


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
    """As float32, so that no value of that kind comes to another side."""
    found = np.float32(threshold)
    return found if float(found) <= threshold else np.nextafter(found, np.float32(-np.inf))


def _end(tree: _Tree, node: int) -> int:
    """Behind the last node of the branch that begins there. Raises ValueError where it is none."""
    if tree.features[node] < 0:
        return node + 1
    if _end(tree, node + 1) != tree.rights[node]:
        raise ValueError(f"the right branch of node {node} does not begin at {tree.rights[node]}")
    return _end(tree, tree.rights[node])


def _mask_of_right(tree: _Tree, node: int) -> int:
    """All leaves but those of the left branch."""
    is_leaf = [feature < 0 for feature in tree.features]
    before, left = sum(is_leaf[:node]), sum(is_leaf[node : tree.rights[node]])
    return int(_ALL) & ~(((1 << left) - 1) << before)
