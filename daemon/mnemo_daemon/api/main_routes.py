"""Every route of the daemon: one module a resource, put together here. SPEC 13

A handler decides nothing: it asks a service and shapes the answer.
"""

import functools

from mnemo_client.protocol.operations import OPERATIONS
from mnemo_daemon.api import access
from mnemo_daemon.api.daemon_routes import DaemonApi, StatusReport
from mnemo_daemon.api.event_routes import EventsApi
from mnemo_daemon.api.hook_routes import HookApi
from mnemo_daemon.api.ingest_routes import IngestApi, NotesApi
from mnemo_daemon.api.knowledge_routes import FactsApi, TopicsApi
from mnemo_daemon.api.lifecycle_routes import LifecycleApi, ProfilesApi
from mnemo_daemon.api.memory_routes import ErasureApi, HistoryApi, MemoriesApi
from mnemo_daemon.api.recall_routes import AskApi, ContextApi, RecallApi
from mnemo_daemon.api.resource import Resource, WorkerPool
from mnemo_daemon.api.session_routes import ConversationApi, RunsApi, SessionsApi
from mnemo_daemon.api.store_routes import MaintenanceApi, SyncApi, TransferApi
from mnemo_daemon.mcp.endpoint import McpEndpoint
from mnemo_daemon.server.router import Handler, Reply, Request, Route, RouteTable
from mnemo_daemon.services import Services

THREADS = 4  # for what reads or waits off the loop; recall has threads of its own


class Api:
    """The handlers of all resources, and the table of their routes."""

    def __init__(self, services: Services, report: StatusReport) -> None:
        self._services = services
        self._workers = workers = WorkerPool(THREADS, thread_name_prefix="mnemo-api")
        self._erasure = ErasureApi(services, workers)
        self._notes = NotesApi(services, workers)
        self._mcp: McpEndpoint | None = None
        recall = RecallApi(services, workers)
        ingest = IngestApi(services, workers)
        context = ContextApi(services, workers)
        runs = RunsApi(services, workers, ingest)
        self._resources: tuple[Resource, ...] = (
            SessionsApi(services, workers), MemoriesApi(services, workers), recall,
            AskApi(services, workers, recall), context, HookApi(services, workers, recall, context, ingest, runs),
            DaemonApi(services, workers, report), self._notes, ingest, HistoryApi(services, workers),
            TransferApi(services), MaintenanceApi(services, workers), self._erasure, runs,
            LifecycleApi(services, workers, report), ProfilesApi(services, workers),
            ConversationApi(services, workers, recall, ingest), FactsApi(services, workers),
            SyncApi(services, workers), TopicsApi(services, workers), EventsApi(services, workers, report),
        )  # fmt: skip

    def close(self) -> None:
        """End the threads of all resources, first that of erasures, which can take longest."""
        if self._mcp is not None:
            self._mcp.close()
        for resource in (self._erasure, *self._resources):
            resource.close()
        self._workers.close()

    def routes(self) -> list[Route]:
        """Return the route table. The preconditions of each route are checked before its handler runs."""
        routes = [route for resource in self._resources for route in resource.routes()]
        routes = [
            route._replace(handler=self._guarded(route), alias=alias)
            for route in sorted(routes, key=lambda route: OPERATIONS.index(route.operation))
            for alias in ("", *route.operation.aliases)
        ]
        self._mcp = McpEndpoint(RouteTable(routes), lambda: self._services.problem(), self._notes.passages)
        return [*routes, self._mcp.route()]

    def _guarded(self, route: Route) -> Handler:
        operation = route.operation

        @functools.wraps(route.handler)
        async def answer(request: Request) -> Reply:
            if not operation.before_open:
                await self._services.wait_until_open()
            if operation.for_person:
                access.refuse_agents(request, for_owner=operation.for_owner)
            return await route.handler(request)

        return answer
