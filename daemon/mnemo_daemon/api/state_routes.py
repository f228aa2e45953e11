"""The route of the present state: layers, tiers, topic nodes and jobs in one answer. SPEC 8, 13"""

import numpy as np

from mnemo_client.protocol import operations
from mnemo_client.protocol.sessions import LayerCounts, StateAnswer, StateQuery, TierCounts
from mnemo_core.ingest.session_records import SessionScope
from mnemo_daemon.api import access
from mnemo_daemon.api.conversation_routes import ring_view
from mnemo_daemon.api.daemon_routes import job_status
from mnemo_daemon.api.graph_routes import node_view
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.session_routes import session_view
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.knowledge.topic_graph import GraphFilter
from mnemo_daemon.memories.memory_service import is_visible
from mnemo_daemon.server.router import Request
from mnemo_daemon.services import Services
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import LAYERS

SESSIONS = 10  # the latest
NODES = 10  # the largest


class StateApi(Resource):
    """The handler."""

    def __init__(self, services: Services, workers: WorkerPool, report: StatusReport) -> None:
        super().__init__(services, workers)
        self._report = report

    @handles(operations.STATE)
    def state(self, request: Request) -> StateAnswer:
        query: StateQuery = request.query
        services, caller = self._services, access.caller_of(request)
        namespace, user_id = access.namespace_of(request), query.user_id or "local"
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=user_id, agent_id=query.agent_id,
            session_id=query.session_id, without_tags=access.hidden_tags(request), now=services.store.now(),
        )  # fmt: skip
        sessions, _ = services.sessions.listed(wanted.namespaces, user_id, SESSIONS, None)
        graph = services.topic_graph.page(GraphFilter(access.visible_namespaces(namespace), user_id), caller, NODES)
        answer = StateAnswer(
            layers=self._layers(wanted), tiers=TierCounts(**services.sessions.tier_counts(wanted)),
            sessions=list(map(session_view, sessions)), nodes=list(map(node_view, graph.nodes)),
            node_total=graph.total, jobs=list(map(job_status, self._report.job_reports())), namespace=namespace,
        )  # fmt: skip
        if query.session_id:
            scope = SessionScope(namespace, user_id, query.session_id)
            session = services.sessions.read(scope)
            answer.session = None if session is None else session_view(session)
            ring = services.sessions.ring(scope)
            answer.ring = [ring_view(item) for item in ring if is_visible(item.memory, caller)]
            answer.hot = [list(item.memory_ids) for item in services.tiered_recall.hot_items(scope)]
        return answer

    def _layers(self, wanted: MemoryFilter) -> LayerCounts:
        columns = self._services.views.attributes
        rows = np.flatnonzero(columns.uncached_mask(wanted._replace(states=("active",))))
        counts = np.bincount(columns.values("layer", rows), minlength=len(LAYERS)).tolist()
        return LayerCounts(**dict(zip(LAYERS, counts, strict=True)))
