"""Clusters of unit vectors: the leaves of a topic tree. SPEC 10.1 [G 6]

Each vector joins the closest leaf or opens one; leaves that hold together too little are split in two, leaves that are
too close are merged, for at most ROUNDS_MAX rounds; a number of leaves over the budget is brought down to it by
spherical k-means; small leaves are absorbed. Nothing is drawn by chance: ties go to the lower row, so that the same
rows in the same order give the same leaves.

Two rules are not the source's. A leaf of more than `members_max` rows is split whatever its similarity: in a corpus of
one subject all leaves hold together well enough, and the source's rule alone would leave one leaf with everything. And
two leaves are merged only if their union would not be split again.

A pass over many rows is a generator that yields after every BLOCK_ROWS rows or so, for its caller to pause.
"""

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import Thresholds

LEAF_MEMBERS = 8  # a leaf with more is split if it holds together too little [G42]
SMALL_LEAF = 2  # a leaf with no more is absorbed [G42]
ROUNDS_MAX = 10  # of splitting and merging [G42]
LEAVES_MAX = 256  # [G42]
LEAVES_PER_ROOT = 4  # times √n leaves in a large store: 256 leaves of 100,000 memories would have 400 members each
MEMBERS_MIN = 32  # a leaf may have this many members whatever the number of memories, else √n
STABLE_SHARE = 0.02  # the rounds end once the number of leaves changes by no more
REFINEMENTS = 5  # passes of k-means over all rows at the end of a round [own]
BLOCK_ROWS = 2048  # between two pauses
SAMPLE_ROWS = 8192  # of a leaf that is split, from which the two parts are found

Rows = NDArray[np.floating[Any]]  # (n, d), unit vectors
Labels = NDArray[np.int32]  # the leaf of each row; -1: none
Steps = Generator[None, None, Labels]


def leaves_max(rows: int) -> int:
    """The largest number of leaves that a tree of so many memories may have."""
    return max(LEAVES_MAX, math.isqrt(LEAVES_PER_ROOT**2 * rows))


def members_max(rows: int) -> int:
    """The number of members above which a leaf is split whatever its similarity."""
    return max(MEMBERS_MIN, math.isqrt(rows))


def cluster(vectors: Rows, thresholds: Thresholds, former: Labels | None = None) -> Steps:
    """The leaves of all rows, numbered from 0 in the order of their first rows. `former`: the leaves that the rows had,
    from which the work begins; -1 for a row that is new."""
    start = np.full(len(vectors), -1, np.int32) if former is None else former
    labels = yield from assign(vectors, start, thresholds.topic_assign)
    for _ in range(ROUNDS_MAX):
        before = labels.max(initial=-1) + 1
        labels = yield from split_leaves(vectors, labels, thresholds.topic_inside)
        labels = yield from refine(vectors, labels, 1)
        labels = merge_leaves(vectors, labels, thresholds)
        if abs(labels.max(initial=-1) + 1 - before) <= STABLE_SHARE * before:
            break
    labels = yield from fit_budget(vectors, labels)
    labels = yield from refine(vectors, labels, REFINEMENTS)
    return absorb_small(vectors, labels, thresholds.topic_absorb)


def nearness_to_middle(vectors: Rows) -> NDArray[np.float32]:
    """The cosine of each vector (n, d) to the mean of their directions; 0 for one without a direction."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    middle = units.mean(axis=0)
    length = float(np.linalg.norm(middle))
    found: NDArray[np.float32] = (units @ (middle / length if length > 0 else middle)).astype(np.float32)
    return found


def assign(vectors: Rows, start: Labels, similarity_min: float) -> Steps:
    """Rows that have no leaf (-1), in order, each to the closest leaf above the similarity, else to a new one."""
    labels, known = start.copy(), start >= 0
    labels[known] = in_order(start[known])
    count = int(labels.max(initial=-1)) + 1
    limit = max(leaves_max(len(vectors)), count)
    sums = np.zeros((limit, vectors.shape[1]), np.float32)
    if count:
        sums[:count] = _sums(vectors[known], labels[known])[0]
    units = _units(sums)
    for step, row in enumerate(np.flatnonzero(~known).tolist(), start=1):
        vector = vectors[row].astype(np.float32)
        sims = units[:count] @ vector
        best = int(sims.argmax()) if count else -1
        if best < 0 or (sims[best] <= similarity_min and count < limit):
            best, count = count, count + 1
        labels[row] = best
        sums[best] += vector
        units[best] = _unit(sums[best])
        if step % BLOCK_ROWS == 0:
            yield
    return in_order(labels)


def split_leaves(vectors: Rows, labels: Labels, similarity_min: float) -> Steps:
    """Each leaf that is too large for what holds it together, in two."""
    sums, counts = _sums(vectors, labels)
    order, ends = np.argsort(labels, kind="stable"), np.cumsum(counts)
    labels, fresh, done = labels.copy(), len(counts), 0
    for leaf in np.flatnonzero(counts > LEAF_MEMBERS).tolist():
        members = order[ends[leaf] - counts[leaf] : ends[leaf]]
        if len(members) <= members_max(len(labels)) and _inner(sums[leaf], len(members)) >= similarity_min:
            continue
        sample = members[:: -(-len(members) // SAMPLE_ROWS)]
        both = _two_centroids(vectors[sample].astype(np.float32))
        moved = members[(yield from _closest(vectors[members], both)) == 1]
        if 0 < len(moved) < len(members):
            labels[moved] = fresh
            fresh += 1
        done += len(members)
        if done >= BLOCK_ROWS:
            done = 0
            yield
    return in_order(labels)


def halve(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """The rows of the second of two clusters; where there is only one, of the second half."""
    sims = vectors @ _two_centroids(vectors).T
    second: NDArray[np.bool_] = sims[:, 1] > sims[:, 0]
    return second if 0 < second.sum() < len(second) else np.arange(len(second)) >= len(second) // 2


def _two_centroids(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The centroids of two clusters: 2-means from the row farthest from the middle and the one farthest from that."""
    first = int((vectors @ _unit(vectors.sum(axis=0))).argmin())
    second = int((vectors @ vectors[first]).argmin())
    centroids = vectors[[first, second]]
    for _ in range(REFINEMENTS):
        sims = vectors @ centroids.T
        in_second = sims[:, 1] > sims[:, 0]
        if in_second.all() or not in_second.any():
            break
        centroids = np.stack([_unit(vectors[~in_second].sum(axis=0)), _unit(vectors[in_second].sum(axis=0))])
    return centroids


def merge_leaves(vectors: Rows, labels: Labels, thresholds: Thresholds) -> Labels:
    """Pairs of leaves above the similarity as one, the closest first, unless that would be split again."""
    sums, counts = _sums(vectors, labels)
    units = _units(sums)
    into = np.arange(len(counts))
    sims = np.triu(units @ units.T, 1)
    ones, others = np.nonzero(sims > thresholds.topic_merge)
    merged = set[int]()
    for at in np.argsort(-sims[ones, others], kind="stable").tolist():
        one, other = int(ones[at]), int(others[at])
        size = int(counts[one] + counts[other])
        if one in merged or other in merged or size > members_max(len(labels)):
            continue
        if size <= LEAF_MEMBERS or _inner(sums[one] + sums[other], size) >= thresholds.topic_inside:
            into[other] = one
            merged |= {one, other}
    return in_order(into[labels].astype(np.int32))


def fit_budget(vectors: Rows, labels: Labels) -> Steps:
    """No more leaves than the budget: the rows of the smallest go to the closest of the others."""
    limit = leaves_max(len(labels))
    sums, counts = _sums(vectors, labels)
    if len(counts) <= limit:
        return labels
    kept = np.sort(np.argsort(-counts, kind="stable")[:limit])
    found = yield from _closest(vectors, _units(sums[kept]))
    return in_order(found)


def refine(vectors: Rows, labels: Labels, passes: int) -> Steps:
    """Spherical k-means from these leaves: every row to the closest centroid, until nothing moves."""
    for _ in range(passes):
        units = centroids(vectors, labels)
        moved = yield from _closest(vectors, units)
        if np.array_equal(moved, labels):
            break
        labels = in_order(moved)
    return labels


def absorb_small(vectors: Rows, labels: Labels, similarity_min: float) -> Labels:
    """Small leaves in the closest other leaf above the similarity, the smallest first."""
    sums, counts = _sums(vectors, labels)
    units, into = _units(sums), np.arange(len(counts))
    for leaf in sorted(np.flatnonzero(counts <= SMALL_LEAF).tolist(), key=lambda leaf: (counts[leaf], leaf)):
        if counts[leaf] > SMALL_LEAF:
            continue  # it has absorbed another
        sims = units @ units[leaf]
        sims[(counts == 0) | (np.arange(len(counts)) == leaf)] = -1.0
        best = int(sims.argmax())
        if sims[best] > similarity_min:
            into[into == leaf] = best
            sums[best] += sums[leaf]
            counts[best], counts[leaf] = counts[best] + counts[leaf], 0
            units[best] = _unit(sums[best])
    return in_order(into[labels].astype(np.int32))


def centroids(vectors: Rows, labels: Labels) -> NDArray[np.float32]:
    """The centroid of each leaf, as a unit vector."""
    return _units(_sums(vectors, labels)[0])


def in_order(labels: NDArray[np.integer[Any]]) -> Labels:
    """The same leaves, numbered from 0 in the order of their first rows."""
    _, firsts, places = np.unique(labels, return_index=True, return_inverse=True)
    ranks = np.empty(len(firsts), np.int32)
    ranks[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.int32)
    return ranks[places]


def _inner(total: NDArray[np.float32], count: int) -> float:
    return (float(total @ total) - count) / (count * (count - 1)) if count > 1 else 1.0


def _sums(vectors: Rows, labels: Labels) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The sum of the rows of each leaf, and their number."""
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), vectors.shape[1]), np.float32)
    for start in range(0, len(labels), BLOCK_ROWS):
        some = labels[start : start + BLOCK_ROWS]
        order = np.argsort(some, kind="stable")
        leaves, firsts = np.unique(some[order], return_index=True)
        sums[leaves] += np.add.reduceat(vectors[start + order].astype(np.float32), firsts, axis=0)
    return sums, counts


def _units(sums: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    units: NDArray[np.float32] = np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)
    return units


def _unit(total: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = _units(total[None])[0]
    return unit


def _closest(vectors: Rows, units: NDArray[np.float32]) -> Steps:
    labels = np.empty(len(vectors), np.int32)
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = vectors[start : start + BLOCK_ROWS].astype(np.float32)
        labels[start : start + BLOCK_ROWS] = (block @ units.T).argmax(axis=1)
        yield
    return labels
