"""The routes of the graph of topic nodes. SPEC 10.2, 13"""

from mnemo_client.protocol import operations
from mnemo_client.protocol.knowledge import (
    AbstractAnswer,
    AbstractRequest,
    DedupeAnswer,
    DedupeRequest,
    GraphAnswer,
    GraphEdgeView,
    GraphNodeView,
    GraphQuery,
    GroupView,
)
from mnemo_daemon.api import access
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.knowledge.topic_graph import GraphFilter, GraphNode, NodeGroup
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services

ABSTRACT_SECONDS = 40.0  # that a language model may take for names; the rest of them is made of words


class GraphApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers)
        self._namers = WorkerPool(1, thread_name_prefix="mnemo-graph")

    def close(self) -> None:
        """End the thread that waits for names."""
        self._namers.close()

    @handles(operations.ABSTRACT_TOPIC_GRAPH)
    async def abstract(self, request: Request) -> Reply:
        asked: AbstractRequest = request.ask
        groups = await self._namers.run(
            self._services.topic_graph.abstract, access.writable_namespace(request), asked.user_id or "local",
            access.caller_of(request), ABSTRACT_SECONDS, self._services.stopped.is_set,
        )  # fmt: skip
        return Reply(AbstractAnswer(groups=list(map(_group_view, groups))))

    @handles(operations.DEDUPE_TOPIC_GRAPH)
    async def dedupe(self, request: Request) -> Reply:
        asked: DedupeRequest = request.ask
        groups = await self._workers.run(
            self._services.topic_graph.merge, access.writable_namespace(request), asked.user_id or "local",
            access.caller_of(request), asked.dry_run,
        )  # fmt: skip
        merged = sum(len(group.others) for group in groups)
        return Reply(DedupeAnswer(groups=list(map(_group_view, groups)), merged=merged, dry_run=asked.dry_run))

    @handles(operations.TOPIC_GRAPH)
    def graph(self, request: Request) -> GraphAnswer:
        query: GraphQuery = request.query
        namespaces = access.visible_namespaces(access.namespace_of(request))
        wanted = GraphFilter(namespaces, query.user_id or "local", query.relation, query.min_weight)
        page = self._services.topic_graph.page(wanted, access.caller_of(request), query.limit, query.cursor or "")
        edges = [
            GraphEdgeView(
                source=edge.source, target=edge.target, relation=edge.relation, weight=edge.weight, at=edge.at
            )
            for edge in page.edges
        ]
        return GraphAnswer(nodes=list(map(node_view, page.nodes)), edges=edges, total=page.total, cursor=page.cursor)


def node_view(node: GraphNode) -> GraphNodeView:
    """A topic node as it is answered."""
    record = node.record
    return GraphNodeView(
        id=record.id, label=node.label, named=bool(record.name), members=node.members, parts=node.parts,
        created_at=record.created_at, first_at=node.first_at, last_at=node.last_at, namespace=record.namespace,
    )  # fmt: skip


def _group_view(group: NodeGroup) -> GroupView:
    return GroupView(id=group.node, label=group.label, nodes=group.others, named=group.is_named)
