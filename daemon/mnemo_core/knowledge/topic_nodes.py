"""Topic nodes: clusters of turn pairs by the running mean of their vectors, and how often two were recalled together.
SPEC 10.2 [T]

A pair joins the node whose centroid is nearest, from a cosine on; otherwise it begins one. The same procedure splits a
node that has grown too large, at a higher cosine, finds nodes that are one, and groups nodes under a common name.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.records import NodeEdge

ABSORBED_PART_MIN = 2  # members of the part of a node, where single pairs are absorbed
BEST_MEMBER_NODES = 4  # times as many nodes as are wanted, whose members are compared with the query
MEMBERS_MAX = 20  # of a node; a larger one is split where its members fall apart [T8]
LABEL_CHARACTERS = 80  # of the first pair's first turn [T8]
CO_OCCURRING_MAX = 12  # nodes of one recall that are counted as recalled together: six found, and their neighbours
COSINE_DIGITS = 9
_ROWS_FIRST = 16  # that there is room for at the beginning

Vector = NDArray[Any]  # one vector of any floating type
Totals = NDArray[np.float64]


class NearNode(NamedTuple):
    """A node, and the cosine of its centroid to a vector, or the mean of those of its members."""

    id: str
    similarity: float


class NodeCentroids:
    """The sum of the members' vectors of each node. A centroid is their mean, which has the direction of the sum. Sums
    of half floats are exact in double precision: they do not depend on the order in which the members came."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._sums: Totals = np.empty((0, 0))
        self._lengths: Totals = np.empty(0)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, node: str) -> bool:
        return node in self._rows

    def total(self, node: str) -> Totals:
        """The sum of a node's vectors. Raises KeyError."""
        total: Totals = self._sums[self._rows[node]].copy()
        return total

    def put(self, node: str, total: Vector) -> None:
        """Set the sum of a node, which may be new."""
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = len(self._ids)
            self._ids.append(node)
            if row == len(self._lengths):  # there is no room for more
                rows = max(_ROWS_FIRST, 2 * row)
                sums, lengths = np.zeros((rows, len(total))), np.zeros(rows)
                if row:
                    sums[:row], lengths[:row] = self._sums[:row], self._lengths[:row]
                self._sums, self._lengths = sums, lengths
        self._sums[row] = total
        self._lengths[row] = np.linalg.norm(self._sums[row])

    def add(self, node: str, vector: Vector) -> None:
        """Add the vector of a member. Raises KeyError."""
        self.put(node, self._sums[self._rows[node]] + vector)

    def drop(self, node: str) -> None:
        """Remove a node, if it is there."""
        row = self._rows.pop(node, None)
        if row is None:
            return
        last = self._ids.pop()
        if last != node:
            self._ids[row], self._rows[last] = last, row
            self._sums[row], self._lengths[row] = self._sums[len(self._ids)], self._lengths[len(self._ids)]

    def nearest(self, vector: Vector) -> NearNode | None:
        """The node with the nearest centroid, of equally near ones the first id; None where there is no node."""
        return next(iter(self.ranked(vector, limit=1)), None)

    def ranked(self, vector: Vector, exclude: Collection[str] = (), limit: int | None = None) -> list[NearNode]:
        """The nodes by the cosine of their centroids to a vector, the nearest first; equally near ones by id."""
        if not self._ids:
            return []
        similarities = self._similarities(vector, slice(len(self._ids)))
        wanted = len(self._ids) if limit is None else min(limit + len(exclude), len(self._ids))
        if not wanted:
            return []
        floor = np.partition(similarities, -wanted)[-wanted]  # all that reach it: equal ones are told apart by their id
        places = np.flatnonzero(similarities >= floor).tolist()
        found = [NearNode(self._ids[place], float(similarities[place])) for place in places]
        found = [each for each in found if each.id not in exclude]
        return sorted(found, key=lambda each: (-each.similarity, each.id))[:limit]

    def nearest_on_average(self, vector: Vector, members: Mapping[str, int], exclude: str) -> NearNode | None:
        """The node whose members, of unit length as the vector, have the highest mean cosine to it; of equal ones the
        first id. members: their number in each node."""
        counts = np.array([members[node] for node in self._ids])
        means = (self._sums[: len(counts)] @ vector.astype(np.float64) / counts).round(COSINE_DIGITS).tolist()
        found = [NearNode(*each) for each in zip(self._ids, means, strict=True) if each[0] != exclude]
        return min(found, key=lambda each: (-each.similarity, each.id), default=None)

    def similarity(self, node: str, vector: Vector) -> float:
        """The cosine of a node's centroid to a vector. Raises KeyError."""
        row = self._rows[node]
        return float(self._similarities(vector, slice(row, row + 1))[0])

    def _similarities(self, vector: Vector, rows: slice) -> Totals:
        """The cosine of each centroid; 0 where vectors cancel each other out. Rounded, because the last digits of a
        product depend on the row that a node happens to have."""
        lengths = self._lengths[rows] * np.linalg.norm(vector)
        products: Totals = self._sums[rows] @ vector.astype(np.float64)
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).round(COSINE_DIGITS)


def cluster(totals: Sequence[Vector], threshold: float) -> list[list[int]]:
    """Group vectors in their order: each joins the cluster with the nearest centroid where the cosine reaches the
    threshold, and otherwise begins one. A vector counts by its length: one of a whole node by its members.

    Returns the places of each group, in the order in which the groups began. One matrix-vector product a vector.
    """
    centroids, groups = NodeCentroids(), dict[str, list[int]]()
    for place, total in enumerate(totals):
        near = centroids.nearest(total)
        if near is not None and near.similarity >= threshold:
            centroids.add(near.id, total)
            groups[near.id].append(place)
        else:
            name = f"{place:08}"  # so that of equally near ones the earliest is the first
            centroids.put(name, total)
            groups[name] = [place]
    return list(groups.values())


def split(vectors: Sequence[Vector], threshold: float, least: int = 1) -> list[list[int]]:
    """The parts of a node's members, the largest first; none where it stays whole. [T8] What is in a part of fewer than
    `least` members goes to the nearest other part."""
    groups = cluster(vectors, threshold)
    parts = [group for group in groups if len(group) >= least]
    if len(parts) < 2:
        return []
    centroids = NodeCentroids()
    for number, part in enumerate(parts):
        total: Totals = np.sum([vectors[place] for place in part], axis=0, dtype=np.float64)
        centroids.put(f"{number:08}", total)
    for group in groups:
        for place in group if len(group) < least else ():
            near = centroids.nearest(vectors[place])
            assert near is not None
            parts[int(near.id)].append(place)
    return sorted(parts, key=len, reverse=True)


def is_split_due(members: int, tried: int) -> bool:
    """Return whether a node is to be split. tried: its members when it last stayed whole, 0 if that was never tried.

    A node that stays whole is tried again when it has doubled: tried at each new member, a large node would take the
    square of its size.
    """
    return members > MEMBERS_MAX and not tried <= members < 2 * tried


def co_occurring_pairs(nodes: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of nodes that one recall found, each in canonical order; of the first CO_OCCURRING_MAX nodes. [T9]"""
    known = list(dict.fromkeys(nodes))[:CO_OCCURRING_MAX]
    return list(combinations(sorted(known), 2))


def pair_vector(windows: Vector) -> NDArray[np.float16]:
    """The one vector of a text by the vectors of its windows, shape (windows, dimensions): their mean, of unit length.
    Half floats, whose sums are exact: see NodeCentroids."""
    mean: Totals = windows.astype(np.float64).sum(axis=0)
    length = np.linalg.norm(mean)
    return (mean / length if length and len(windows) > 1 else mean).astype(np.float16)


def edge_key(edge: NodeEdge) -> tuple[str, str, str]:
    """Return the fields that identify an edge."""
    return edge.source, edge.relation, edge.target


def moved_edges(edges: Iterable[NodeEdge], into: Mapping[str, str]) -> list[NodeEdge]:
    """The edges of merged nodes as they are afterwards. into: the node that each merged one is part of now. `co_occurs`
    keeps its canonical order, and where two become one their weights are added up. Edges within one node are gone."""
    found: dict[tuple[str, str, str], NodeEdge] = {}
    for edge in edges:
        source, target = into.get(edge.source, edge.source), into.get(edge.target, edge.target)
        if source == target:
            continue
        if edge.relation == "co_occurs" and source > target:
            source, target = target, source
        moved = msgspec.structs.replace(edge, source=source, target=target)
        other = found.get(edge_key(moved))
        if other is not None:
            weight = moved.weight + other.weight if edge.relation == "co_occurs" else moved.weight
            moved = msgspec.structs.replace(moved, weight=weight, at=max(moved.at, other.at))
        found[edge_key(moved)] = moved
    return list(found.values())
