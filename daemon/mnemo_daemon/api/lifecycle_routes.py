"""The routes of consolidation: a cycle on request, the cycles so far, and the review of operations. SPEC 9, 13"""

from collections.abc import Callable

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.lifecycle import (
    AuditPlanAnswer,
    ConsolidateAnswer,
    ConsolidateRequest,
    CycleOperationView,
    CyclesAnswer,
    ForecastAnswer,
    ForecastQuery,
    LifecycleListQuery,
    ProposalView,
    ReviewAnswer,
    VerdictAnswer,
    VerdictRequest,
)
from mnemo_client.protocol.primitives import AnswerBody
from mnemo_core.lifecycle.consolidation.review import PROPOSALS_MAX
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import LongRequestThread, WorkerPool
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.lifecycle.consolidation.consolidation import CycleResult
from mnemo_daemon.lifecycle.consolidation.cycle_source import Proposal
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.indexes.attributes import MemoryFilter

OPERATIONS_SHOWN = 500
BUSY_SECONDS = 5  # after which a request that met another one may come again


class LifecycleApi(Resource):
    """The handlers. Cycles and audits that are requested run one at a time on a thread of their own."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers)
        self._thread = LongRequestThread("mnemo-cycle")

    def close(self) -> None:
        """End a requested cycle or audit before its next step; a cycle continues after the next start."""
        if self._thread.is_busy:
            self._services.consolidation.stop()
        self._thread.close()

    @handles(operations.CONSOLIDATE)
    async def consolidate(self, request: Request) -> Reply:
        return await self._alone(self._consolidated, request)

    @handles(operations.AUDIT)
    async def audit(self, request: Request) -> Reply:
        return await self._alone(self._audited, request)

    async def _alone(self, answer: Callable[[Request], AnswerBody], request: Request) -> Reply:
        """Answer a request that takes long. Raises a Refusal while another one is under way."""
        message = "a cycle or an audit that was asked for is under way: ask again when it has ended"
        busy = Refusal(429, "busy", message, retry_after=BUSY_SECONDS)
        return Reply(await self._thread.run_alone(busy, answer, request))

    @handles(operations.CYCLES)
    async def history(self, request: Request) -> Reply:
        query: LifecycleListQuery = request.query
        cycles, cursor = await self._workers.run(self._services.consolidation.history, query.limit, query.cursor or "")
        return Reply(CyclesAnswer(cycles=list(map(response_codec.cycle_view, cycles)), cursor=cursor or None))

    @handles(operations.FORECAST)
    def forecast(self, request: Request) -> ForecastAnswer:
        query: ForecastQuery = request.query
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip
        answer = self._services.forecasts.page(wanted, query.layer, query.limit, query.cursor)
        answer.namespace = access.namespace_of(request)
        return answer

    @handles(operations.REVIEW)
    def review(self, request: Request) -> ReviewAnswer:
        query: LifecycleListQuery = request.query
        return self._review_answer(request, query.limit, query.cursor or "")

    def _review_answer(self, request: Request, limit: int, cursor: str) -> ReviewAnswer:
        namespaces = access.listed_namespaces(request)
        found = self._services.review_queue.proposals(lambda memory: not namespaces or memory.namespace in namespaces)
        after = place_at(cursor)
        behind = [each for each in found if after is None or (each.decision.at, each.id) > after]
        page = behind[:limit]
        return ReviewAnswer(
            proposals=list(map(self._proposal_view, page)), total=len(found), namespace=access.namespace_of(request),
            cursor=cursor_at((page[-1].decision.at, page[-1].id)) if len(behind) > len(page) else None,
        )  # fmt: skip

    def _proposal_view(self, proposal: Proposal) -> ProposalView:
        decision, roots = proposal.decision, self._services.root_paths()
        found = [self._services.memories.get(each.id) for each in proposal.memories]
        return ProposalView(
            id=proposal.id, action=decision.action, reason=decision.reason, at=decision.at,
            memories=[response_codec.memory_view(each, roots) for each in found], text=decision.text or None,
            tag=decision.tag or None, method=decision.method or None, stale=proposal.stale or None,
            similarity=self._services.consolidation.similarity([each.id for each in proposal.memories]),
        )  # fmt: skip

    @handles(operations.DECIDE)
    def decide(self, request: Request) -> VerdictAnswer:
        asked: VerdictRequest = request.ask
        queue, by, proposal = self._services.review_queue, access.caller_of(request).name, request.path["id"]
        if asked.verdict == "reject":
            if asked.text is not None:
                raise bad_value("`text` is for an operation that is approved", "text")
            rejected, seq = queue.reject(proposal, by)
            return VerdictAnswer(id=rejected, verdict="reject", seq=seq)
        text = None if asked.text is None else request_codec.clean_text(asked.text, "text")
        if text == "":
            raise bad_value("`text` is empty", "text")
        done = queue.approve(proposal, text, by, is_forced=asked.force)
        return VerdictAnswer(id=done.proposal, verdict="approve", ids=list(done.ids), group=done.group, seq=done.seq)

    def _audited(self, request: Request) -> AuditPlanAnswer:
        namespaces = access.listed_namespaces(request)
        with self._services.operations.running("audit") as operation:
            counts = self._services.consolidation.audit(
                "".join(namespaces), access.caller_of(request).name, operation.report
            )
        plan = self._review_answer(request, PROPOSALS_MAX, "")
        return AuditPlanAnswer(
            **msgspec.structs.asdict(plan), reviewed=counts["reviewed"], left=counts["left"],
            proposed=counts["proposed"],
        )  # fmt: skip

    def _consolidated(self, request: Request) -> ConsolidateAnswer:
        asked: ConsolidateRequest = request.ask
        namespace = access.namespace_of(request)
        only = "" if namespace == access.EVERY_NAMESPACE else namespace
        with self._services.operations.running("consolidate") as operation:
            done = self._services.consolidation.run(
                only, is_dry_run=asked.dry_run, merge=asked.merge, progress=operation.report
            )
        return ConsolidateAnswer(
            cycle=response_codec.cycle_view(done.cycle), operations=_operation_views(done), total=len(done.operations),
            dry_run=asked.dry_run, namespace=namespace,
        )  # fmt: skip


def _operation_views(done: CycleResult) -> list[CycleOperationView]:
    shown = zip(done.operations[:OPERATIONS_SHOWN], done.texts, strict=False)
    return [
        CycleOperationView(
            step=step, action=operation.action, ids=list(operation.ids), texts=list(texts),
            text=operation.text or None, reason=operation.reason,
        )
        for (step, operation), texts in shown
    ]  # fmt: skip
