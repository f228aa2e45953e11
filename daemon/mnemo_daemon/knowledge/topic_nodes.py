"""Topic nodes: joins the turn pairs of the registry to nodes, and finds nodes and their members for a query. SPEC 10.2

A pair is joined by a job, after the pair is stored: it is due until its row names a node that exists, so that no pair
stays out of reach, whatever was interrupted. Its text is embedded once; the vector is kept in the database like those
of memories, under the hash of the text. An import files thousands of pairs for which nobody asks yet: the job does
nothing while pairs come in, unless a recall has searched the nodes lately. Everything else is a view in memory, read
from the rows and those vectors at the start, and followed with each commit. Without a model the view knows the members
of each node and no centroids.

Nodes are changed by one thread at a time, under `changing`, which nobody holds while a model computes.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.knowledge.topic_nodes import (
    ABSORBED_PART_MIN,
    BEST_MEMBER_NODES,
    NearNode,
    Vector,
    co_occurring_pairs,
    is_split_due,
    pair_vector,
    split,
)
from mnemo_core.similarity.thresholds import SOURCE, Thresholds
from mnemo_daemon.history_names import BY_TOPIC_NODES
from mnemo_daemon.indexing.index import is_indexed
from mnemo_daemon.indexing.vectors.active_index import Scope
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.knowledge.node_view import NodeMember, NodeView, PairKey
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.table_walk import walk_table
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.errors import StoreError
from mnemo_store.record_texts import pair_text, text_hash
from mnemo_store.records import (
    Change,
    DropMemory,
    DropNodeEdge,
    DropTopicNode,
    DropTurnPair,
    NodeEdge,
    PutMemory,
    PutNodeEdge,
    PutTopicNode,
    PutTurnPair,
    TopicNode,
    TurnPair,
)
from mnemo_store.store import Commit, Store, TextVectors, WriteResult
from mnemo_store.tables import NODE_EDGES, TOPIC_NODES, TURN_PAIRS

PAIRS_PER_SLICE = 32  # read, embedded and joined at once
PAIRS_PER_WRITE = 200  # that get another node, with their new nodes and edges well under 500 changes [SPEC 3.2]
EDGES_MAX = 64  # co_occurs edges of a node; the weakest goes when there is a new one
RECALLS_WRITE_SECONDS = 2.0  # recalls are counted together, this late at most
PENDING_EDGES_MAX = 5_000  # counted and not yet written
QUIET_SECONDS = 5.0  # without a new pair: an import is over
SEARCHED_SECONDS = 600.0  # after a search, in which new pairs are joined at once

log = logging.getLogger("mnemo.topics")


class NodeQuery(NamedTuple):
    """The vector of a query in its space, and the scope in which nodes are looked for."""

    vector: Vector
    space: str
    user_id: str = "local"
    namespaces: tuple[str, ...] = ()  # none: all


class NewNode(NamedTuple):
    """A node that is to be made; `origin` is the node that it was split from, "" for none."""

    scope: Scope
    origin: str = ""


class _StoredPair(NamedTuple):
    """A pair as it is in the store. `text`: "" where it is not to be found, being archived, hidden or gone."""

    key: PairKey
    pair: TurnPair | None
    text: str
    digest: bytes
    vector: NDArray[np.float16] | None
    node: str  # of those that exist


class TopicNodes:
    """The service. `run_slice` is the job's; the rest may be called on any thread."""

    def __init__(
        self, store: Store, indexing: VectorIndexer, embedding: EmbeddingService, policy: PolicyOf = own_policy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """clock: in seconds."""
        self.changing = threading.Lock()
        self._store = store
        self._indexing = indexing
        self._policy = policy
        self._embedding = embedding
        self._calibrated = ModelThresholds(embedding)
        self.view = NodeView()  # the members and centroids as they are known now
        self._thresholds = SOURCE
        self._clock = clock
        self._quiet_from = 0.0  # the time from which no new pair came for QUIET_SECONDS
        self._searched_until = 0.0  # SEARCHED_SECONDS after the last search
        self._lock = threading.Lock()  # of the four below
        self._waiting: dict[str, None] = {}  # turns whose pairs are to be looked at
        self._read_to: bytes | None = b""  # the place in the table up to which pairs are in `_waiting`; None: the end
        self._is_reset = False
        self._recalls: Counter[tuple[str, str]] = Counter()  # pairs of nodes that were recalled together
        self._recalled_since = 0.0
        self._failed: set[PairKey] = set()  # for which the model gave no vector
        self._tried: dict[str, int] = {}  # the members of a node when it was last not split
        # Until all pairs of the table are in the view, none is joined: its node may not be there yet.
        self._is_loaded = False
        self._unjoined: dict[str, None] = {}  # turns whose pairs wait for that
        self._alone: dict[str, None] = {}  # nodes that may have one pair, which another node may take in
        store.on_commit(self._note_commit)
        store.on_row_ids_reset(self.clear_caches)

    # For recall

    @property
    def is_complete(self) -> bool:
        """False while pairs are being read or embedded: a search may miss nodes."""
        with self._lock:
            return self._is_loaded and not self._waiting and not self._is_reset

    def search(self, query: NodeQuery, exclude: Collection[str] = (), limit: int = 6) -> list[NearNode]:
        """The nodes whose centroids are nearest to the query, the nearest first; where nodes take in pairs, those of
        them that have the nearest members."""
        view = self.view
        self._searched_until = self._clock() + SEARCHED_SECONDS
        if view.space != query.space:
            return []
        if not self.takes_in(query):
            return view.ranked(query.namespaces, query.user_id, query.vector, exclude, limit)
        found = view.ranked(query.namespaces, query.user_id, query.vector, exclude, BEST_MEMBER_NODES * limit)
        nearest = {near.id: view.nearest_member(near.id, query.vector) for near in found}
        return sorted(found, key=lambda near: (-nearest[near.id], near.id))[:limit]

    def takes_in(self, query: NodeQuery) -> bool:
        """Return whether nodes in the scope of a query take in pairs that are alone, and so hold what is less alike."""
        return all(self._policy(name).absorbs_pairs for name in query.namespaces or ("default",))

    def neighbours(self, snapshot: Snapshot, query: NodeQuery, nodes: Collection[str]) -> list[NearNode]:
        """The nodes that were recalled together with any of these, which are not among them; the nearest first."""
        view = self.view
        if view.space != query.space:
            return []
        edges = [edge for node in nodes for edge in snapshot.under(NODE_EDGES, node)]
        ends = {end for edge in edges if edge.relation == "co_occurs" for end in (edge.source, edge.target)}
        return view.similarities(query.namespaces, query.user_id, query.vector, sorted(ends - set(nodes)))

    def record_co_occurrence(self, nodes: Iterable[str]) -> None:
        """Count that one recall found these nodes near its query, selected or not: written a little later."""
        with self._lock:
            if not self._recalls:
                self._recalled_since = time.monotonic()
            for pair in co_occurring_pairs(nodes):
                if pair in self._recalls or len(self._recalls) < PENDING_EDGES_MAX:
                    self._recalls[pair] += 1

    def thresholds(self, namespace: str) -> Thresholds:
        """Those of a namespace for the model whose vectors the view holds."""
        return self._policy(namespace).thresholds_for(self._thresholds)

    def clear_caches(self) -> None:
        """Have the view made again from the store."""
        with self._lock:
            self._is_reset = True

    # The job

    def is_due(self) -> bool:
        """Return whether pairs are to be read or joined, or recalls to be written down."""
        embedder = self._embedder()
        is_other_model = (embedder.space if embedder else "") != self.view.space
        return self._are_recalls_due() or ((is_other_model or self._has_pairs()) and self._may_join())

    def run_slice(self) -> bool:
        """Read and join some pairs, and write down recalls; return whether there is more."""
        embedder = self._embedder()
        # Begin a new view where the store was replaced or recall searches in another space.
        space = embedder.space if embedder is not None else ""
        with self._lock:
            if space != self.view.space or self._is_reset:
                self.view = NodeView(space)
                self._thresholds = self._calibrated.of(embedder) if embedder is not None else SOURCE
                self._waiting, self._read_to, self._is_reset = {}, b"", False
                self._failed, self._tried, self._unjoined, self._is_loaded = set(), {}, {}, False
                self._alone = {}
        # Note the next pairs of the table as waiting.
        with self._lock:
            after = self._read_to
        if after is not None and len(self._waiting) < PAIRS_PER_SLICE:
            with self._store.snapshot() as snapshot:
                pairs = snapshot.scan(TURN_PAIRS, after, READ_SLICE)
            with self._lock:
                self._waiting.update((pair.id, None) for pair in pairs)
                self._read_to = TURN_PAIRS.key.of(pairs[-1]) if len(pairs) == READ_SLICE else None
        with self._lock:
            turns = list(self._waiting)[:PAIRS_PER_SLICE]
            for turn in turns:
                del self._waiting[turn]
        try:
            with self._store.snapshot() as snapshot:
                stored = [(pair.id, pair.reply) for turn in turns for pair in snapshot.under(TURN_PAIRS, turn)]
            keys = list(dict.fromkeys([*stored, *(key for turn in turns for key in self.view.pairs_of_turn(turn))]))
            self._embed(keys, embedder)
            with self.changing:
                self._join(keys, embedder)
                if self.is_complete:
                    self._absorb()
        except BaseException:
            self.clear_caches()  # the view may be ahead of the store
            raise
        if not self._is_loaded and self._read_to is None and not self._waiting:
            with self.changing:
                for empty in walk_table(self._store, TOPIC_NODES, lambda snapshot, nodes: [
                    node.id for node in nodes if node.id not in self.view and not parts_of(snapshot, node.id)
                ]):  # fmt: skip
                    self.drop_nodes(empty)
            self._look_at(self._unjoined)
            self._is_loaded, self._unjoined, self._alone = True, {}, dict.fromkeys(self.view.singles())
        if self._are_recalls_due():
            self.write_recalls()
        return self._has_pairs() and self._may_join()

    def write_recalls(self) -> None:
        """Write down which nodes were recalled together. A failure loses no more than a count."""
        with self._lock:
            counts, self._recalls = self._recalls, Counter()
        for some in batched(counts.items(), PAIRS_PER_WRITE):
            try:
                self._transact(partial(_counted_edges, counts=dict(some)))
            except StoreError as error:
                log.info("recalls of topic nodes were not written: %s", error)

    def assign(self, nodes: Mapping[PairKey, str], new: Mapping[str, NewNode]) -> None:
        """Give pairs another node in the store; `new`: those of the nodes that are to be made. Called with `changing`
        held, after the view was changed; a pair that is gone by now is left out of both."""
        for some in batched(nodes.items(), PAIRS_PER_WRITE):
            self._transact(partial(_assigned, nodes=dict(some), new=new))

    def drop_nodes(self, nodes: Iterable[str]) -> None:
        """Drop nodes that have no member, with their edges, and what was abstracted from them alone. Called with
        `changing` held."""
        for some in batched(nodes, PAIRS_PER_WRITE // 10):
            empty = [node for node in some if node not in self.view]
            self._transact(partial(_dropped_nodes, nodes=empty))
            for node in empty:
                self._tried.pop(node, None)

    def _embedder(self) -> Embedder | None:
        """The model whose vectors recall searches: a query is compared in its space."""
        serving = self._indexing.serving()
        return serving.embedder if serving is not None else None

    def _read(self, snapshot: Snapshot, key: PairKey, embedder: Embedder | None) -> _StoredPair:
        pair = snapshot.get(TURN_PAIRS, *key)
        turns = snapshot.turns_of(pair) if pair is not None and not pair.is_archived else []
        if pair is None or not turns or not all(map(is_indexed, turns)):
            return _StoredPair(key, pair, "", b"", None, "")
        text = pair_text(turns)
        digest = text_hash(text)
        rows = snapshot.vectors(embedder.space, digest, embedder.dimensions) if embedder is not None else None
        node = snapshot.get(TOPIC_NODES, pair.node) if pair.node else None
        is_own = node is not None and (node.namespace, node.user_id) == (pair.namespace, pair.user_id)
        vector = pair_vector(rows) if rows is not None else None
        return _StoredPair(key, pair, text, digest, vector, pair.node if is_own else "")

    def _embed(self, keys: Sequence[PairKey], embedder: Embedder | None) -> None:
        """Keep the vectors of pairs that have none."""
        if embedder is None or not keys:
            return
        with self._store.snapshot() as snapshot:
            readings = [self._read(snapshot, key, embedder) for key in keys]
        missing = {each.digest: each for each in readings if each.text and each.vector is None}
        if not missing:
            return
        found = self._embedding.encode_batch(embedder, [each.text for each in missing.values()])
        halves = [rows.astype(np.float16) for rows in found]
        kept = [TextVectors(embedder.space, digest, rows) for digest, rows in zip(missing, halves, strict=True)
                if np.isfinite(rows).all()]  # fmt: skip
        self._store.put_vectors(kept).result()
        digests = {each.text_hash for each in kept}
        self._failed.update(each.key for digest, each in missing.items() if digest not in digests)

    def _join(self, keys: Sequence[PairKey], embedder: Embedder | None) -> None:
        """Bring the view in line with pairs, and join those that have no node."""
        view, assigned, new = self.view, dict[PairKey, str](), dict[str, NewNode]()
        with self._store.snapshot() as snapshot:
            readings = [self._read(snapshot, key, embedder) for key in keys]
        left = set()
        for each in readings:
            before = view.member(each.key)
            if before is not None and before.node != each.node:
                left.add(before.node)
            if each.pair is None or not each.text:
                view.drop(each.key)
                continue
            scope = Scope(each.pair.user_id, each.pair.namespace)
            if each.vector is None and embedder is not None and each.key not in self._failed:
                self._look_at([each.key[0]])  # it was changed after it was embedded
            node = each.node
            if not node and (each.vector is None or not self._is_loaded):
                view.drop(each.key)
                self._unjoined |= {each.key[0]: None} if each.vector is not None else {}
                continue
            if not node and each.vector is not None:
                near = view.nearest(scope, each.vector)
                if near is not None and near.similarity >= self.thresholds(scope.namespace).node_join:
                    node = near.id
                else:
                    node = self._store.new_id()
                    new[node] = NewNode(scope)
                assigned[each.key] = node
            view.put(NodeMember(each.key, node, scope, each.pair.at, each.digest, each.vector))
            self._split(node, scope, assigned, new)
        self.assign(assigned, new)
        self.drop_nodes(node for node in left if node not in view)
        self._alone.update(dict.fromkeys(new))

    def _absorb(self) -> None:
        """Give some pairs that are alone in their nodes to the nearest nodes, where these are near enough."""
        view, assigned, new, left = self.view, dict[PairKey, str](), dict[str, NewNode](), list[str]()
        for node in list(self._alone)[:PAIRS_PER_SLICE]:
            del self._alone[node]
            members = view.members(node)
            if len(members) != 1 or members[0].vector is None:
                continue
            pair, namespace = members[0], members[0].scope.namespace
            near = view.nearest_on_average(pair) if self._policy(namespace).absorbs_pairs else None
            if near is not None and near.similarity >= self.thresholds(namespace).topic_absorb:
                view.put(pair._replace(node=near.id))
                assigned[pair.key] = near.id
                left.append(node)
                self._split(near.id, pair.scope, assigned, new)
        self.assign(assigned, new)
        self.drop_nodes(left)

    def _split(self, node: str, scope: Scope, assigned: dict[PairKey, str], new: dict[str, NewNode]) -> None:
        """Split a node that has grown too large; its largest part keeps its id."""
        if not self._is_loaded or not is_split_due(self.view.counted(node), self._tried.get(node, 0)):
            return
        members = [each for each in self.view.members(node) if each.vector is not None]
        least = ABSORBED_PART_MIN if self._policy(scope.namespace).absorbs_pairs else 1
        vectors = [each.vector for each in members if each.vector is not None]
        parts = split(vectors, self.thresholds(scope.namespace).node_split, least)
        if not parts:
            self._tried[node] = len(members)
        for part in parts[1:]:
            made = self._store.new_id()
            new[made] = NewNode(scope, node)
            for place in part:
                self.view.put(members[place]._replace(node=made))
                assigned[members[place].key] = made

    # What happens elsewhere

    def _note_commit(self, commit: Commit) -> None:
        """Have the pairs looked at that a commit touched. Called on the writer thread."""
        if commit.changes is None:
            self.clear_caches()
            return
        turns: list[str] = []
        for change in commit.changes:
            match change:
                case PutTurnPair(data=pair):
                    member = self.view.member((pair.id, pair.reply))
                    if member is None or member.node != pair.node or pair.is_archived:
                        turns.append(pair.id)
                case PutMemory(data=memory) if memory.turn is not None:
                    if memory.turn.tier == "registry" or self.view.has_turn(memory.id):
                        turns.append(memory.id)
                case DropTurnPair(id=turn) | DropMemory(id=turn) if self.view.has_turn(turn):
                    turns.append(turn)
        if turns:
            self._quiet_from = self._clock() + QUIET_SECONDS
            self._look_at(turns)

    def _has_pairs(self) -> bool:
        return not self.is_complete or bool(self._alone)

    def _may_join(self) -> bool:
        """Return whether pairs are joined now: none comes in, or they are searched."""
        now = self._clock()
        return now >= self._quiet_from or now < self._searched_until

    def _look_at(self, turns: Iterable[str]) -> None:
        with self._lock:
            self._waiting.update(dict.fromkeys(turns))

    def _are_recalls_due(self) -> bool:
        return bool(self._recalls) and time.monotonic() - self._recalled_since >= RECALLS_WRITE_SECONDS

    def _transact(self, decide: Callable[[Snapshot], Sequence[Change]]) -> None:
        self._store.transact(
            lambda snapshot: WriteResult(decide(snapshot), None), by=BY_TOPIC_NODES.name, background=True
        ).result()


# Decisions


def _assigned(snapshot: Snapshot, nodes: Mapping[PairKey, str], new: Mapping[str, NewNode]) -> list[Change]:
    """The changes that give pairs their nodes, and make those nodes that do not exist."""
    pairs = {key: pair for key in nodes if (pair := snapshot.get(TURN_PAIRS, *key)) is not None}
    changes: list[Change] = []
    for node in dict.fromkeys(nodes[key] for key in pairs):
        if node in new and snapshot.get(TOPIC_NODES, node) is None:
            scope, origin = new[node]
            made = TopicNode(id=node, created_at=snapshot.now, namespace=scope.namespace, user_id=scope.user_id)
            changes.append(PutTopicNode(data=made))
            changes += _edges_of_part(snapshot, node, origin) if origin else []
    changes += [PutTurnPair(data=msgspec.structs.replace(pair, node=nodes[key])) for key, pair in pairs.items()]
    return changes


def _edges_of_part(snapshot: Snapshot, node: str, origin: str) -> list[Change]:
    """The edges of a node that was split off: to its origin, and from whatever its origin is a part of."""
    edges = [NodeEdge(source=node, target=origin, relation="derived_from", at=snapshot.now)]
    edges += [
        msgspec.structs.replace(edge, target=node, at=snapshot.now)
        for edge in snapshot.under(NODE_EDGES, origin)
        if edge.relation == "abstracted_from" and edge.target == origin
    ]
    return [PutNodeEdge(data=edge) for edge in edges]


def _dropped_nodes(snapshot: Snapshot, nodes: Sequence[str]) -> list[Change]:
    """The changes that drop nodes and what was abstracted from these alone."""
    gone = dict.fromkeys(node for node in nodes if snapshot.get(TOPIC_NODES, node) is not None)
    edges = [edge for node in gone for edge in snapshot.under(NODE_EDGES, node)]
    for whole in [edge.source for edge in edges if edge.relation == "abstracted_from"]:
        if whole not in gone and gone.keys() >= set(parts_of(snapshot, whole)):
            gone[whole] = None
            edges += snapshot.under(NODE_EDGES, whole)
    return [*map(drop_edge, dict.fromkeys(edges)), *(DropTopicNode(id=node) for node in gone)]


def _counted_edges(snapshot: Snapshot, counts: Mapping[tuple[str, str], int]) -> list[Change]:
    """The changes that add recalls to the edges between nodes that still exist."""
    puts: dict[tuple[str, str], NodeEdge] = {}
    drops: dict[tuple[str, str], NodeEdge] = {}
    for (source, target), count in counts.items():
        if any(snapshot.get(TOPIC_NODES, node) is None for node in (source, target)):
            continue
        known = snapshot.get(NODE_EDGES, source, "co_occurs", target)
        for node in (source, target) if known is None else ():
            own = [edge for edge in snapshot.under(NODE_EDGES, node) if edge.relation == "co_occurs"]
            if len(own) >= EDGES_MAX:
                weakest = min(own, key=lambda edge: (edge.weight, edge.at, edge.source, edge.target))
                drops[weakest.source, weakest.target] = weakest
        puts[source, target] = NodeEdge(
            source=source, target=target, relation="co_occurs", at=snapshot.now,
            weight=count + (known.weight if known is not None else 0),
        )  # fmt: skip
    dropped = [drop_edge(edge) for key, edge in drops.items() if key not in puts]
    return [*dropped, *(PutNodeEdge(data=edge) for edge in puts.values())]


def parts_of(snapshot: Snapshot, node: str) -> list[str]:
    """The nodes that a node was abstracted from."""
    edges = snapshot.under(NODE_EDGES, node)
    return [edge.target for edge in edges if edge.relation == "abstracted_from" and edge.source == node]


def drop_edge(edge: NodeEdge) -> DropNodeEdge:
    """Return the change that removes an edge."""
    return DropNodeEdge(source=edge.source, target=edge.target, relation=edge.relation)
