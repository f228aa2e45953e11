"""The members of topic nodes with their vectors, in memory: a view, made of the pairs that name a node. SPEC 10.2"""

import threading
from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.knowledge.topic_nodes import NearNode, NodeCentroids, Totals, Vector
from mnemo_daemon.indexing.vectors.active_index import Scope

PairKey = tuple[str, str]  # the ids of its first turn and of its reply


class NodeMember(NamedTuple):
    """A pair of turns as the member of a node. `vector`: None while it has none."""

    key: PairKey
    node: str
    scope: Scope
    at: int  # ms: the time of its first turn
    digest: bytes  # the hash of its text
    vector: NDArray[np.float16] | None


class NodeView:
    """The view for one space of vectors. One thread at a time changes it, any thread reads it."""

    def __init__(self, space: str = "") -> None:
        self.space = space  # "": of no model
        self._lock = threading.Lock()
        self._members: dict[PairKey, NodeMember] = {}
        self._nodes: dict[str, dict[PairKey, None]] = {}
        self._turns: dict[str, set[PairKey]] = {}  # by the id of a turn
        self._centroids: dict[Scope, NodeCentroids] = {}
        self._counted: dict[str, int] = {}  # members of each node that have a vector

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node: str) -> bool:
        return node in self._nodes

    def put(self, member: NodeMember) -> None:
        """Add a member, or replace what is known of the pair."""
        with self._lock:
            self._drop(member.key)
            self._members[member.key] = member
            self._nodes.setdefault(member.node, {})[member.key] = None
            for turn in member.key:
                self._turns.setdefault(turn, set()).add(member.key)
            if member.vector is not None:
                self._counted[member.node] = self._counted.get(member.node, 0) + 1
                centroids = self._centroids.setdefault(member.scope, NodeCentroids())
                before: Totals | float = centroids.total(member.node) if member.node in centroids else 0.0
                centroids.put(member.node, before + member.vector.astype(np.float64))

    def drop(self, key: PairKey) -> None:
        """Remove a pair, if it is there."""
        with self._lock:
            self._drop(key)

    def member(self, key: PairKey) -> NodeMember | None:
        return self._members.get(key)

    def members(self, node: str) -> list[NodeMember]:
        """The members of a node, the earliest first."""
        with self._lock:
            found = [self._members[key] for key in self._nodes.get(node, ())]
        return sorted(found, key=lambda member: (member.at, member.key))

    def has_turn(self, memory_id: str) -> bool:
        """Return whether this turn is part of a pair."""
        return memory_id in self._turns

    def counted(self, node: str) -> int:
        """The members of a node that have a vector."""
        return self._counted.get(node, 0)

    def pairs_of_turn(self, memory_id: str) -> list[PairKey]:
        """The pairs that this turn is part of."""
        with self._lock:
            return sorted(self._turns.get(memory_id, ()))

    def nodes(self, namespaces: Collection[str], user_id: str) -> list[str]:
        """The ids of a user's nodes in these namespaces, in all where none is named."""
        with self._lock:
            firsts = [self._members[next(iter(keys))] for keys in self._nodes.values()]
        return sorted(member.node for member in firsts if _is_in_scope(member.scope, namespaces, user_id))

    def totals_of(self, nodes: Iterable[str]) -> dict[str, Totals]:
        """The sum of the vectors of each node, in the direction of its centroid; without nodes that have none."""
        wanted = set(nodes)
        with self._lock:
            totals = {node: each.total(node) for each in self._centroids.values() for node in wanted if node in each}
        return {node: total for node, total in totals.items() if total.any()}

    def singles(self) -> list[str]:
        """The ids of the nodes of one pair, which has a vector."""
        with self._lock:
            return sorted(node for node, keys in self._nodes.items() if len(keys) == 1 == self._counted.get(node))

    def nearest(self, scope: Scope, vector: Vector, exclude: Collection[str] = ()) -> NearNode | None:
        """The node of one scope whose centroid is nearest."""
        with self._lock:
            found = self._centroids[scope].ranked(vector, exclude, 1) if scope in self._centroids else []
        return next(iter(found), None)

    def nearest_on_average(self, member: NodeMember) -> NearNode | None:
        """The node of the same scope, but its own, whose members have the highest mean cosine to this one, which has a
        vector."""
        assert member.vector is not None
        with self._lock:
            return self._centroids[member.scope].nearest_on_average(member.vector, self._counted, member.node)

    def nearest_member(self, node: str, vector: Vector) -> float:
        """The highest cosine of a member of a node to a unit vector; -1 where none has a vector."""
        vectors = [member.vector for member in self.members(node) if member.vector is not None]
        return float((np.stack(vectors).astype(np.float32) @ vector).max()) if vectors else -1.0

    def ranked(
        self, namespaces: Collection[str], user_id: str, vector: Vector, exclude: Collection[str], limit: int
    ) -> list[NearNode]:
        """A user's nodes in these namespaces by their similarity, the nearest first."""
        with self._lock:
            found = [
                near
                for scope, centroids in self._centroids.items()
                if _is_in_scope(scope, namespaces, user_id)
                for near in centroids.ranked(vector, exclude, limit)
            ]
        return sorted(found, key=lambda near: (-near.similarity, near.id))[:limit]

    def similarities(
        self, namespaces: Collection[str], user_id: str, vector: Vector, nodes: Iterable[str]
    ) -> list[NearNode]:
        """Those of the nodes that are in scope, with their similarities, the nearest first."""
        with self._lock:
            found = [
                NearNode(node, centroids.similarity(node, vector))
                for scope, centroids in self._centroids.items()
                if _is_in_scope(scope, namespaces, user_id)
                for node in nodes
                if node in centroids
            ]
        return sorted(found, key=lambda near: (-near.similarity, near.id))

    def _drop(self, key: PairKey) -> None:
        member = self._members.pop(key, None)
        if member is None:
            return
        for turn in key:
            self._turns.get(turn, set()).discard(key)
            if not self._turns.get(turn):
                self._turns.pop(turn, None)
        self._nodes[member.node].pop(key)
        if not self._nodes[member.node]:
            del self._nodes[member.node]
        if member.vector is not None:
            # Take a vector out of its node's sum, which is exact.
            centroids = self._centroids[member.scope]
            self._counted[member.node] -= 1
            if self._counted[member.node]:
                centroids.put(member.node, centroids.total(member.node) - member.vector.astype(np.float64))
            else:
                del self._counted[member.node]
                centroids.drop(member.node)
                if not len(centroids):
                    del self._centroids[member.scope]


def _is_in_scope(scope: Scope, namespaces: Collection[str], user_id: str) -> bool:
    return scope.user_id == user_id and (not namespaces or scope.namespace in namespaces)
