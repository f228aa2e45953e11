"""The graph of topic nodes: listed, with nodes that are one merged, and groups of them under a common name. SPEC 10.2

Merging and grouping use the procedure by which pairs are joined (`mnemo_core.knowledge.topic_nodes.cluster`). A group
is a node without pairs of its own, which has an edge `abstracted_from` to each of its parts. A language model may name
it; without one, its name is made of the words of its parts whenever it is shown.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from mnemo_client.protocol.knowledge import GraphAnswer, GraphEdgeView, GraphNodeView, GroupView
from mnemo_core.knowledge.topic_nodes import LABEL_CHARACTERS, Totals, cluster, edge_key, moved_edges
from mnemo_core.llm.summarize import NAMING
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.history_names import ABSTRACT_TOPICS, MERGE_TOPICS
from mnemo_daemon.knowledge.topic_nodes import TopicNodes, drop_edge, parts_of
from mnemo_daemon.memories.memory_service import Caller, is_visible
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.table_walk import Place, page_behind, walk_table
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.records import Change, DropTopicNode, NodeEdge, NodeRelation, PutNodeEdge, PutTopicNode, TopicNode
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import NODE_EDGES, TOPIC_NODES

CHANGES_PER_WRITE = 400  # [SPEC 3.2]
NAMED_BY = 8  # texts that a group is named by: the first pairs of its largest parts
NAME_SOURCE_CHARACTERS = 400  # of each of them
READER = Caller("topics", sees_sensitive=False)  # whose names may be shown to everyone


Parts = frozenset[str]  # the nodes that a group was abstracted from


class GraphFilter(NamedTuple):
    """The nodes and edges to show. No namespace: all."""

    namespaces: tuple[str, ...]
    user_id: str
    relation: NodeRelation | None = None
    min_weight: int = 1


class TopicGraph:
    """The service. Its methods block, and may be called on any thread."""

    def __init__(self, store: Store, nodes: TopicNodes, tasks: TaskRunner) -> None:
        self._store = store
        self._nodes = nodes
        self._tasks = tasks

    def page(self, wanted: GraphFilter, caller: Caller, limit: int, cursor: str = "") -> GraphAnswer:
        """The nodes after a cursor, each with a label as far as the caller sees its texts."""
        found: list[GraphNodeView] = []
        records: dict[str, TopicNode] = {}
        for node, parts in self._records(wanted.namespaces, wanted.user_id):
            times = [member.at for part in parts or [node.id] for member in self._nodes.view.members(part)]
            if times:  # it has a member or a part
                records[node.id] = node
                found.append(GraphNodeView(
                    id=node.id, label="", named=bool(node.name), members=len(times), parts=len(parts),
                    created_at=node.created_at, first_at=min(times), last_at=max(times), namespace=node.namespace,
                ))  # fmt: skip
        found.sort(key=_place)
        shown, more = page_behind(found, _place, cursor, limit)
        ids = {each.id for each in shown}
        with self._store.snapshot() as snapshot:
            for each in shown:
                each.label = self.label(snapshot, records[each.id], caller)
            edges = {edge for node in ids for edge in snapshot.under(NODE_EDGES, node)}
        edges = {
            edge
            for edge in edges
            if {edge.source, edge.target} <= ids
            and wanted.relation in (None, edge.relation)
            and edge.weight >= wanted.min_weight
        }
        ordered = [
            GraphEdgeView(edge.source, edge.target, edge.relation, edge.weight, edge.at)
            for edge in sorted(edges, key=lambda edge: (-edge.weight, edge.relation, edge.source, edge.target))
        ]
        return GraphAnswer(list(shown), ordered, len(found), more)

    def label(self, snapshot: Snapshot, node: TopicNode, caller: Caller) -> str:
        """The name of a node; without one the beginning of its first pair, of a group words that its parts share."""
        if node.name:
            return node.name
        if first := self._first_text(snapshot, node.id, caller):
            return first[:LABEL_CHARACTERS]
        texts = self._texts_of(snapshot, parts_of(snapshot, node.id), caller)
        return NAMING.fallback(TaskInputs(texts)).name if texts else ""

    def merge(self, namespace: str, user_id: str, caller: Caller, dry_run: bool) -> list[GroupView]:
        """Merge the nodes of one scope that are one. Each group's node is its largest one, and keeps its id. [T]"""
        placed, totals = self._placed(namespace, user_id)
        groups = cluster(totals, self._nodes.thresholds(namespace).node_merge)
        with self._nodes.changing:
            present = [[placed[place] for place in group if placed[place] in self._nodes.view] for group in groups]
            merged = [nodes for nodes in present if len(nodes) > 1]
            with self._store.snapshot() as snapshot:
                records = [snapshot.get(TOPIC_NODES, node) for node, *_ in merged]
                labels = [self.label(snapshot, each, caller) if each is not None else "" for each in records]
            for node, *others in merged if not dry_run else ():
                self._merge_into(node, others, caller)
        return [GroupView(node, label, others) for (node, *others), label in zip(merged, labels, strict=True)]

    def abstract(
        self, namespace: str, user_id: str, caller: Caller, deadline_s: float, is_cancelled: Callable[[], bool]
    ) -> list[GroupView]:
        """Group the nodes of one scope, and name each group; a group with the same parts as before stays as it is. A
        language model is asked before anything is written, without any lock, until the deadline."""
        until = time.monotonic() + deadline_s
        known = self._stored_groups(namespace, user_id)
        # The nodes that belong together, each counting as one whatever its size: two and more of them a group, the
        # largest group first.
        placed, totals = self._placed(namespace, user_id)
        units = [total / np.linalg.norm(total) for total in totals]
        clusters = sorted(cluster(units, self._nodes.thresholds(namespace).node_split), key=len, reverse=True)
        planned = [frozenset(placed[place] for place in each) for each in clusters if len(each) > 1]
        new = [parts for parts in planned if parts not in known]
        names = {parts: self._name(parts, until - time.monotonic(), is_cancelled) for parts in new}
        with self._nodes.changing:
            stored = self._stored_groups(namespace, user_id)
            planned = [parts for parts in planned if all(part in self._nodes.view for part in parts)]
            changes: list[Change] = []
            with self._store.snapshot() as snapshot:
                for node in [node for parts, node in stored.items() if parts not in planned]:
                    changes += [*map(drop_edge, snapshot.under(NODE_EDGES, node.id)), DropTopicNode(id=node.id)]
            groups = {
                parts: stored.get(parts)
                or TopicNode(
                    id=self._store.new_id(), created_at=snapshot.now, name=names.get(parts, ""), namespace=namespace,
                    user_id=user_id,
                )
                for parts in planned
            }  # fmt: skip
            for parts, node in groups.items():
                if parts not in stored:
                    edges = [NodeEdge(source=node.id, target=part, relation="abstracted_from", at=node.created_at)
                             for part in sorted(parts)]  # fmt: skip
                    changes += [PutTopicNode(data=node), *(PutNodeEdge(data=edge) for edge in edges)]
            self._write(changes, ABSTRACT_TOPICS, caller)
        with self._store.snapshot() as snapshot:
            return [
                GroupView(node.id, self.label(snapshot, node, caller), sorted(parts), bool(node.name))
                for parts, node in groups.items()
            ]

    # Nodes and groups

    def _records(self, namespaces: Collection[str], user_id: str) -> Iterator[tuple[TopicNode, list[str]]]:
        """The nodes of a user in these namespaces, all where none is named, each with its parts."""

        def shape(snapshot: Snapshot, nodes: Sequence[TopicNode]) -> list[tuple[TopicNode, list[str]]]:
            own = [
                node for node in nodes if node.user_id == user_id and (not namespaces or node.namespace in namespaces)
            ]
            view = self._nodes.view
            return [(node, [] if node.id in view else parts_of(snapshot, node.id)) for node in own]

        for rows in walk_table(self._store, TOPIC_NODES, shape):
            yield from rows

    def _stored_groups(self, namespace: str, user_id: str) -> dict[Parts, TopicNode]:
        return {frozenset(parts): node for node, parts in self._records((namespace,), user_id) if parts}

    def _placed(self, namespace: str, user_id: str) -> tuple[list[str], list[Totals]]:
        """The nodes that have vectors with the sums of these, those with most members first; equally large ones by
        id."""
        view = self._nodes.view
        totals = view.totals_of(view.nodes((namespace,), user_id))
        placed = sorted(totals, key=lambda node: (-view.counted(node), node))
        return placed, [totals[node] for node in placed]

    # Texts and names

    def _first_text(self, snapshot: Snapshot, node: str, caller: Caller) -> str:
        """The first turn of the first pair of a node that the caller sees; "" where there is none."""
        for member in self._nodes.view.members(node):
            turn = snapshot.memory(member.key[0])
            if turn is not None and is_visible(turn, caller):
                return turn.content
        return ""

    def _texts_of(self, snapshot: Snapshot, parts: Collection[str], caller: Caller) -> tuple[str, ...]:
        largest = sorted(parts, key=lambda part: (-self._nodes.view.counted(part), part))[:NAMED_BY]
        texts = (self._first_text(snapshot, part, caller)[:NAME_SOURCE_CHARACTERS] for part in largest)
        return tuple(text for text in texts if text.strip())

    def _name(self, parts: Collection[str], deadline_s: float, is_cancelled: Callable[[], bool]) -> str:
        """The name that a language model gives a group; "" where none does in time."""
        with self._store.snapshot() as snapshot:
            texts = self._texts_of(snapshot, parts, READER)
        if not texts or deadline_s <= 0:
            return ""
        result = self._tasks.run(NAMING, TaskInputs(texts), min(deadline_s, NAMING.deadline_s), is_cancelled)
        return result.answer.name if result.method == "llm" else ""

    # Writes

    def _merge_into(self, node: str, others: Sequence[str], caller: Caller) -> None:
        """Give the pairs and edges of nodes to another one. Called with `changing` held."""
        view, into = self._nodes.view, dict.fromkeys(others, node)
        members = [member for other in others for member in view.members(other)]
        with self._store.snapshot() as snapshot:
            edges = {edge for each in (node, *others) for edge in snapshot.under(NODE_EDGES, each)}
        moved = set(moved_edges(sorted(edges, key=edge_key), into))
        changes: list[Change] = [*map(drop_edge, edges - moved), *(PutNodeEdge(data=edge) for edge in moved - edges)]
        try:
            for member in members:
                view.put(member._replace(node=node))
            self._nodes.assign({member.key: node for member in members}, {})
            self._write([*changes, *(DropTopicNode(id=other) for other in others)], MERGE_TOPICS, caller)
        except BaseException:
            self._nodes.clear_caches()  # the view may be ahead of the store
            raise

    def _write(self, changes: Sequence[Change], what: str, caller: Caller) -> None:
        for some in batched(changes, CHANGES_PER_WRITE):
            self._store.transact(partial(_written, changes=some, what=what), by=caller.name).result()


def _written(_: Snapshot, changes: Sequence[Change], what: str) -> WriteResult[None]:
    return WriteResult(changes, None, what)


def _place(node: GraphNodeView) -> Place:
    """The place in the order of nodes: those with most members first."""
    return -node.members, node.id
