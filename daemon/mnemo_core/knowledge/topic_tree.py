"""The topic tree: leaves under at most two levels of groups, with ids that stay. SPEC 10.1 [G 6]

A tree is a list of topics, each with its parent, and the leaf of each row. A row is a memory with a vector; the rows
come in the order of the memories' ids. A topic keeps its id as long as most of its members that are left stay together,
and its name as long as enough of its members are the same.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.knowledge.clusters import Labels, Rows, assign, centroids, cluster, halve, in_order
from mnemo_core.similarity.thresholds import Thresholds

CHILDREN_MAX = 8  # of a group [G42]
GROUP_LEVELS = 2  # above the leaves: three levels in all [G42]
NAME_OVERLAP_MIN = 0.20  # Jaccard of the members; a topic that is closer to a former one has its name [G42]
MOVED_TO_MAX = 8  # topics that an id which is gone leads to


class Shape(NamedTuple):
    """The topics of a tree by their places: leaf of each row (-1: none), and the parent of each topic (-1: a root)."""

    leaves: Labels
    parents: tuple[int, ...]

    def line(self, topic: int) -> Iterator[int]:
        """The topic and everything above it."""
        while topic >= 0:
            yield topic
            topic = self.parents[topic]


class Inheritance(NamedTuple):
    """The ids and names that a tree has of the former one, by the places of topics in both."""

    kept: Mapping[int, int]  # topic → the former topic whose id it keeps
    named: Mapping[int, int]  # topic → the former topic whose name it keeps
    moved: Mapping[int, tuple[int, ...]]  # former topic that is gone → the leaves that most of its members went to


NOTHING = Shape(np.empty(0, np.int32), ())


def grow(
    vectors: Rows, thresholds: Thresholds, former: Shape = NOTHING, *, is_whole: bool = True
) -> Generator[None, None, Shape]:
    """The tree of the rows, in steps between which the caller may pause.

    `former` has the leaf of each row in the former tree, -1 for a row that is new, or no rows. Work begins from it:
    a tree that starts again with each change would have other topics each time. Without `is_whole`, rows that are new
    are only added to it.
    """
    start = former.leaves if len(former.leaves) else np.full(len(vectors), -1, np.int32)
    if is_whole:
        labels = yield from cluster(vectors, thresholds, start)
    else:
        labels = yield from assign(vectors, start, thresholds.topic_assign)
    return _grouped(vectors, labels, thresholds, Shape(start, former.parents))


# Groups


def _grouped(vectors: Rows, labels: Labels, thresholds: Thresholds, former: Shape) -> Shape:
    """The leaves under groups of at most CHILDREN_MAX; a group of one is that one."""
    leaves = int(labels.max(initial=-1)) + 1
    parents = [-1] * leaves
    tops = np.arange(leaves)  # of each leaf, the topic that has no parent yet
    # Of each topic, 0 for a leaf, else one more than the highest of its children
    heights = [0] * len(former.parents)
    for topic in range(len(former.parents)):
        for height, above in enumerate(former.line(topic)):
            heights[above] = max(heights[above], height)
    for height in range(1, GROUP_LEVELS + 1):
        items, of_leaf = np.unique(tops, return_inverse=True)
        item_of_row = of_leaf[labels].astype(np.int32)
        if len(items) <= CHILDREN_MAX:
            break
        units = centroids(vectors, item_of_row)
        groups = _groups(units, _former_groups(item_of_row, former, heights, height), thresholds.topic_absorb)
        for group in range(int(groups.max()) + 1):
            inside = items[groups == group].tolist()
            if len(inside) > 1:
                for item in inside:
                    parents[item] = len(parents)
                tops[np.isin(tops, inside)] = len(parents)
                parents.append(-1)
    return Shape(labels, tuple(parents))


def _groups(units: NDArray[np.float32], start: Labels, similarity_min: float) -> Labels:
    """The group of each topic: the closest above the similarity; one that is too large is halved."""
    labels = _drain(assign(units, start, similarity_min))
    while (counts := np.bincount(labels)).max() > CHILDREN_MAX:
        inside = np.flatnonzero(labels == counts.argmax())
        labels[inside[halve(units[inside])]] = len(counts)
    return in_order(labels)


def _former_groups(item_of_row: Labels, former: Shape, heights: list[int], height: int) -> Labels:
    """Of each item, the former group of that height that had most of its rows; -1 where none had any."""
    above = [next((topic for topic in former.line(leaf) if heights[topic] == height), -1)
             for leaf in range(len(former.parents))]  # fmt: skip
    found = np.full(int(item_of_row.max()) + 1, -1, np.int32)
    votes = Counter[tuple[int, int]]()
    known = former.leaves >= 0
    for (item, leaf), count in _pairs(item_of_row[known], former.leaves[known]).items():
        if above[leaf] >= 0:
            votes[item, above[leaf]] += count
    for (item, group), _ in sorted(votes.items(), key=lambda vote: (vote[1], -vote[0][1])):
        found[item] = group
    return found


# What stays of the former tree


def compare(shape: Shape, former: Shape) -> Inheritance:
    """The inheritance of a tree from the former one, of which `former` has the leaf of each row of the present one."""
    known = former.leaves >= 0
    pairs = _pairs(former.leaves[known], shape.leaves[known])
    overlaps, before, now = Counter[tuple[int, int]](), Counter[int](), Counter[int]()
    for (old, new), count in pairs.items():
        for above in former.line(old):
            before[above] += count
            overlaps.update({(above, each): count for each in shape.line(new)})
    for leaf, count in enumerate(np.bincount(shape.leaves).tolist()):
        now.update(dict.fromkeys(shape.line(leaf), count))
    leaves = set(former.leaves[known].tolist()), set(shape.leaves.tolist())
    alike = {
        (old, new): count / (before[old] + now[new] - count)
        for (old, new), count in overlaps.items()
        if (old in leaves[0]) == (new in leaves[1])
    }
    closest = sorted(alike, key=lambda pair: (-alike[pair], pair))
    kept = _one_to_one((old, new) for old, new in closest if 2 * overlaps[old, new] > before[old])
    gone = set(before) - set(kept.values())
    named = {new: old for new, old in kept.items() if alike[old, new] >= NAME_OVERLAP_MIN}
    named |= _one_to_one(
        (old, new) for old, new in closest if old in gone and new not in kept and alike[old, new] >= NAME_OVERLAP_MIN
    )
    moved = {
        old: tuple(new for new in sorted(leaves[1], key=lambda new: (-overlaps[old, new], new)) if overlaps[old, new])
        for old in sorted(gone)
    }
    return Inheritance(kept, named, {old: new[:MOVED_TO_MAX] for old, new in moved.items()})


def _one_to_one(pairs: Iterator[tuple[int, int]]) -> dict[int, int]:
    """New topic → former one, each at most once, in the order of the pairs."""
    found: dict[int, int] = {}
    taken = set[int]()
    for old, new in pairs:
        if old not in taken and new not in found:
            found[new] = old
            taken.add(old)
    return found


def _pairs(ones: Labels, others: Labels) -> dict[tuple[int, int], int]:
    """The number of rows with each pair of labels."""
    together, counts = np.unique(np.stack([ones, others], axis=1), axis=0, return_counts=True)
    return {(int(one), int(other)): int(count) for (one, other), count in zip(together, counts, strict=True)}


def _drain(steps: Generator[None, None, Labels]) -> Labels:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Labels = end.value
            return found
