"""The routes of consolidation (a cycle on request, the cycles so far, the review of operations), of the present state
(layers, tiers, topic nodes and jobs in one answer), and of profiles and compression, which makes them. SPEC 8, 9, 13"""

import itertools
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec import UNSET

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
from mnemo_client.protocol.memories import MoveAnswer, MoveRequest, NewMemory
from mnemo_client.protocol.primitives import ScopedRequest
from mnemo_client.protocol.profiles import (
    PROJECT_CHARACTERS_MAX,
    CompressAnswer,
    CompressRequest,
    KnownStatement,
    NewProfileEntry,
    ProfileAnswer,
    ProfileEntry,
    ProfileUpdate,
    ProfileUpdateAnswer,
    ProjectAnswer,
    SummarizedSession,
)
from mnemo_client.protocol.sessions import LayerCounts, StateAnswer, StateQuery, TierCounts
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.ingest.write_plan import is_perhaps_outdated
from mnemo_core.lifecycle.consolidation.review import PROPOSALS_MAX, MoveTarget
from mnemo_core.lifecycle.profiles import PROJECT_BUCKETS, USER_BUCKETS, Bucket, ProfilePlace
from mnemo_core.retrieval.context_block import author_of
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.daemon_routes import StatusReport, job_status
from mnemo_daemon.api.resource import LongRequestThread, Resource, WorkerPool, handles
from mnemo_daemon.api.session_routes import ring_view, session_view
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.knowledge.topic_graph import GraphFilter
from mnemo_daemon.lifecycle.cycle_source import Proposal
from mnemo_daemon.lifecycle.profile_service import LISTED_STATES, Entries, EntryUpdate, Owner
from mnemo_daemon.memories.memory_service import Caller, is_visible
from mnemo_daemon.server.router import Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.run_steps import SUMMARY_SOURCE
from mnemo_daemon.table_walk import page_behind
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import LAYERS, Memory

OPERATIONS_SHOWN = 500
BUSY_SECONDS = 5  # after which a request that met another one may come again
SESSIONS = 10  # the latest, of the present state
NODES = 10  # the largest


class LifecycleApi(Resource):
    """The handlers. Cycles and audits that are requested run one at a time on a thread of their own."""

    def __init__(self, services: Services, workers: WorkerPool, report: StatusReport) -> None:
        self._thread = LongRequestThread("mnemo-cycle", lambda: Refusal(
            429, "busy", "a cycle or an audit that was asked for is under way: ask again when it has ended",
            retry_after=BUSY_SECONDS,
        ))  # fmt: skip
        super().__init__(services, workers, self._thread)
        self._report = report

    def close(self) -> None:
        """End a requested cycle or audit before its next step; a cycle continues after the next start."""
        if self._thread.is_busy:
            self._services.consolidation.stop()
        super().close()

    @handles(operations.MOVE)
    def move(self, request: Request) -> MoveAnswer:
        asked: MoveRequest = request.ask
        if asked.layer is None and asked.namespace is None and asked.archived is None:
            raise bad_value("say where to: a `layer`, a `namespace` or `archived`", "layer")
        if asked.namespace == access.EVERY_NAMESPACE:
            raise bad_value("`*` is for reading: name one namespace to move to", "namespace")
        target = MoveTarget(asked.layer, asked.namespace, asked.archived)
        done = self._services.moves.move(request.path["id"], target, asked.if_version, access.caller_of(request))
        return MoveAnswer(outcome=done.outcome, memory=self._memory_view(done.id), seq=done.seq or None)

    @handles(operations.CONSOLIDATE, own_threads=True)
    def consolidate(self, request: Request) -> ConsolidateAnswer:
        asked: ConsolidateRequest = request.ask
        namespace = access.namespace_of(request)
        only = "" if namespace == access.EVERY_NAMESPACE else namespace
        with self._services.operations.running("consolidate") as operation:
            done = self._services.consolidation.run(
                only, is_dry_run=asked.dry_run, merge=asked.merge, progress=operation.report
            )
        shown = [
            CycleOperationView(
                step=step, action=operation.action, ids=list(operation.ids), texts=list(texts),
                text=operation.text or None, reason=operation.reason,
            )
            for (step, operation), texts in zip(done.operations[:OPERATIONS_SHOWN], done.texts, strict=False)
        ]  # fmt: skip
        return ConsolidateAnswer(
            cycle=response_codec.cycle_view(done.cycle), operations=shown, total=len(done.operations),
            dry_run=asked.dry_run, namespace=namespace,
        )  # fmt: skip

    @handles(operations.AUDIT, own_threads=True)
    def audit(self, request: Request) -> AuditPlanAnswer:
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

    @handles(operations.CYCLES)
    def history(self, request: Request) -> CyclesAnswer:
        query: LifecycleListQuery = request.query
        cycles, cursor = self._services.consolidation.history(query.limit, query.cursor or "")
        return CyclesAnswer(cycles=list(map(response_codec.cycle_view, cycles)), cursor=cursor or None)

    @handles(operations.FORECAST)
    def forecast(self, request: Request) -> ForecastAnswer:
        query: ForecastQuery = request.query
        wanted = self._listed_filter(request, query.user_id)
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
        page, more = page_behind(found, lambda each: (each.decision.at, each.id), cursor, limit)
        return ReviewAnswer(
            proposals=list(map(self._proposal_view, page)), total=len(found), namespace=access.namespace_of(request),
            cursor=more,
        )  # fmt: skip

    def _proposal_view(self, proposal: Proposal) -> ProposalView:
        decision, ids = proposal.decision, [each.id for each in proposal.memories]
        return ProposalView(
            id=proposal.id, action=decision.action, reason=decision.reason, at=decision.at,
            memories=list(map(self._memory_view, ids)), text=decision.text or None, tag=decision.tag or None,
            method=decision.method or None, stale=proposal.stale or None,
            similarity=self._services.consolidation.similarity(ids),
        )  # fmt: skip

    @handles(operations.DECIDE)
    def decide(self, request: Request) -> VerdictAnswer:
        asked: VerdictRequest = request.ask
        queue, by, proposal = self._services.review_queue, access.caller_of(request).name, request.path["id"]
        if asked.verdict == "reject":
            if asked.text is not None:
                raise bad_value("`text` is for an operation that is approved", "text")
            return queue.reject(proposal, by)
        text = None if asked.text is None else request_codec.clean_text(asked.text, "text")
        if text == "":
            raise bad_value("`text` is empty", "text")
        return queue.approve(proposal, text, by, is_forced=asked.force)

    @handles(operations.STATE)
    def state(self, request: Request) -> StateAnswer:
        query: StateQuery = request.query
        services, caller = self._services, access.caller_of(request)
        namespace, user_id = access.namespace_of(request), query.user_id or "local"
        wanted = self._listed_filter(request, user_id)._replace(agent_id=query.agent_id, session_id=query.session_id)
        columns = services.views.attributes
        rows = np.flatnonzero(columns.uncached_mask(wanted._replace(states=("active",))))
        layers = np.bincount(columns.values("layer", rows), minlength=len(LAYERS)).tolist()
        sessions, _ = services.sessions.listed(wanted.namespaces, user_id, SESSIONS, None)
        graph = services.topic_graph.page(GraphFilter(access.visible_namespaces(namespace), user_id), caller, NODES)
        answer = StateAnswer(
            layers=LayerCounts(**dict(zip(LAYERS, layers, strict=True))),
            tiers=TierCounts(**services.sessions.tier_counts(wanted)),
            sessions=list(map(session_view, sessions)), nodes=graph.nodes,
            node_total=graph.total, jobs=list(map(job_status, self._report.job_reports())), namespace=namespace,
        )  # fmt: skip
        if query.session_id:
            scope = SessionScope(namespace, user_id, query.session_id)
            session = services.sessions.read(scope)
            answer.session = None if session is None else session_view(session)
            ring = services.sessions.ring(scope)
            answer.ring = [ring_view(item) for item in ring if is_visible(item.memory, caller)]
            answer.hot = [list(item.memory_ids) for item in services.tiered_recall.hot.items(scope)]
        return answer


class ProfilesApi(Resource):
    """Handlers of profiles and compression."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers, WorkerPool(1, thread_name_prefix="mnemo-compress"))

    @handles(operations.COMPRESS, own_threads=True)
    def compress(self, request: Request) -> CompressAnswer:
        asked: CompressRequest = request.ask
        owner = Owner(access.writable_namespace(request), asked.user_id or "local")
        with self._services.operations.running("compress") as operation:
            made = self._services.compression.compress(
                owner, asked.sessions, asked.cutoff_hours, access.caller_of(request), dry_run=asked.dry_run,
                progress=operation.report,
            )  # fmt: skip
        return CompressAnswer(
            **made.lifted._asdict(), sessions=[_session_view(each, asked.dry_run) for each in made.summaries],
            under_way=made.under_way, dry_run=asked.dry_run, group=made.group or None, namespace=owner.namespace,
        )  # fmt: skip

    @handles(operations.PROFILE)
    def profile(self, request: Request) -> ProfileAnswer:
        wanted = self._wanted(request)
        found = self._services.profiles.entries(wanted)
        of_user, others = _lists(found, [ProfilePlace(bucket) for bucket in USER_BUCKETS])
        entries = [*itertools.chain.from_iterable(of_user.values()), *others]
        projects = {place.project for place, some in found.items() if not all(map(author_of, some))}
        # Statements of the memories, without the steps and summaries of runs, which say what agents did.
        with self._services.store.snapshot() as snapshot:
            known = [
                KnownStatement(
                    id=memory.id, role=role, text=memory.content, at=memory.event_at, author=author_of(memory) or None,
                    perhaps_outdated=is_perhaps_outdated(memory.id, snapshot),
                )
                for role, memory in self._services.resume.known(wanted)
                if memory.form != "step" and memory.source != SUMMARY_SOURCE
            ]  # fmt: skip
        return ProfileAnswer(
            **of_user, projects=sorted(projects - {""}), others=others,
            last_updated=max((each.last_updated for each in entries), default=None),
            namespace=access.namespace_of(request), known=known,
        )  # fmt: skip

    @handles(operations.PROJECT)
    def project(self, request: Request) -> ProjectAnswer:
        name = _project_name(request.path["name"], "name")
        found = self._services.profiles.entries(self._wanted(request))
        of_project, others = _lists(found, [ProfilePlace(bucket, name) for bucket in PROJECT_BUCKETS])
        changed = [each.last_updated for each in (*itertools.chain.from_iterable(of_project.values()), *others)]
        if not changed:
            known = ", ".join(sorted({place.project for place in found} - {""})) or "none"
            raise Refusal(404, "not_found", f"the profile has no project {name!r}; it has: {known}", field="name")
        return ProjectAnswer(
            project=name, **of_project, others=others, last_updated=max(changed),
            namespace=access.namespace_of(request),
        )  # fmt: skip

    def _wanted(self, request: Request) -> MemoryFilter:
        query: ScopedRequest = request.query
        return MemoryFilter(
            namespaces=access.visible_namespaces(access.namespace_of(request)), user_id=query.user_id or "local",
            states=LISTED_STATES, without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip

    @handles(operations.UPDATE_PROFILE)
    def update(self, request: Request) -> ProfileUpdateAnswer:
        asked: ProfileUpdate = request.ask
        caller = access.caller_of(request, asked.agent_id)
        updates = list(self._updates(request, caller))
        resolve = self._services.memories.resolve
        removed = [resolve(each, caller, f"remove[{place}]") for place, each in enumerate(asked.remove)]
        if not updates and not removed:
            raise bad_value("name at least one entry to write or to remove", "remove")
        owner = Owner(access.writable_namespace(request), asked.user_id or "local")
        return self._services.profiles.update(owner, updates, removed, caller)

    def _updates(self, request: Request, caller: Caller) -> Iterator[EntryUpdate]:
        """The entries of an update, checked. Raises a Refusal that names the field."""
        asked: ProfileUpdate = request.ask
        project = "" if asked.project is None else _project_name(asked.project, "project")
        buckets: tuple[Bucket, ...] = (*USER_BUCKETS, *PROJECT_BUCKETS)
        for bucket in buckets:
            given: list[NewProfileEntry] = getattr(asked, bucket)
            if given and (bucket in PROJECT_BUCKETS) != bool(project):
                needed = (
                    "a list of a project: name the `project`" if not project else "a list of the user, of no project"
                )
                raise bad_value(f"`{bucket}` is {needed}", bucket)
            for place, entry in enumerate(given):
                yield self._checked(request, entry, ProfilePlace(bucket, project), f"{bucket}[{place}]", caller)

    def _checked(
        self, request: Request, entry: NewProfileEntry, place: ProfilePlace, field: str, caller: Caller
    ) -> EntryUpdate:
        services, asked = self._services, request.ask
        memory = NewMemory(
            content=entry.text, user_id=asked.user_id, agent_id=UNSET if asked.agent_id is None else asked.agent_id
        )
        try:
            draft, _ = request_codec.draft_of(request, memory, services.secret_policy(), services.store.now())
        except Refusal as refused:
            name = f"{field}.text" if refused.field == "content" else refused.field
            raise Refusal(refused.status, refused.code, refused.message, field=name) from None
        evidence = [self._resolved_evidence(each, caller, f"{field}.evidence_ids") for each in entry.evidence_ids]
        entry_id = services.memories.resolve(entry.id, caller, f"{field}.id") if entry.id is not None else ""
        return EntryUpdate(place, draft.content, draft.tags, tuple(dict.fromkeys(evidence)), entry_id, field)

    def _resolved_evidence(self, text: str, caller: Caller, field: str) -> str:
        try:
            return self._services.memories.resolve(text, caller, field)
        except Refusal as refused:
            if refused.status != 404:
                raise
            raise Refusal(422, "no_evidence", f"evidence must exist: {refused.message}", field=field) from None


def _project_name(text: str, field: str) -> str:
    """The name of a project, as written in tags. Raises a Refusal."""
    name = request_codec.clean_text(text, field).strip().lower()
    if not 0 < len(name) <= PROJECT_CHARACTERS_MAX:
        raise bad_value(f"a project has a name of 1 to {PROJECT_CHARACTERS_MAX} characters", field)
    return name


def _lists(found: Entries, places: Sequence[ProfilePlace]) -> tuple[dict[str, list[ProfileEntry]], list[ProfileEntry]]:
    """The person's entries by their lists, and those of others together, each with its list and author."""
    own: dict[str, list[ProfileEntry]] = {
        place.bucket: [_view(each) for each in found.get(place, ()) if not author_of(each)] for place in places
    }
    others = [
        msgspec.structs.replace(_view(each), list=place.bucket, author=author)
        for place in places for each in found.get(place, ()) if (author := author_of(each))
    ]  # fmt: skip
    return own, others


def _view(memory: Memory) -> ProfileEntry:
    return ProfileEntry(
        id=memory.id, text=memory.content, evidence_ids=list(memory.derived_from), last_updated=memory.modified_at,
        trust=memory.trust, speaker=memory.speaker or None, namespace=memory.namespace,
    )  # fmt: skip


def _session_view(summary: Memory, is_dry: bool) -> SummarizedSession:
    return SummarizedSession(
        session_id=summary.session_id, summary=summary.content, memories=list(summary.derived_from),
        method="llm" if summary.method.startswith("llm:") else "rule", id=None if is_dry else summary.id,
    )  # fmt: skip
