"""The routes of sessions (their list, the turns of one by tier, its end and consolidation) of the runs of agents (their
steps, and the summary of a run), and of a conversation with memories: what a message recalls in its session, and chat.
SPEC 2.1, 8, 13 [E]"""

import asyncio
import dataclasses
import re
import time
from collections.abc import Callable
from typing import get_args

import msgspec
from msgspec import UNSET, UnsetType

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import TranscriptTool, TurnRole
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import NewMemory, ProcedureTrace
from mnemo_client.protocol.primitives import NAME_PATTERN, ScopedPageQuery
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.protocol.sessions import (
    ChatAnswer,
    ChatRequest,
    ExplainSessionRequest,
    NewStep,
    RingItemView,
    RunSummaryAnswer,
    RunSummaryRequest,
    SessionAnswer,
    SessionFiledAnswer,
    SessionsAnswer,
    SessionTrace,
    SessionView,
    StepsAnswer,
    TierCounts,
    TieredItemTrace,
    TopicMatchTrace,
    TurnPairView,
)
from mnemo_core.ingest.session_records import SessionScope, scope_of
from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.recall_tasks import resolve_follow_up
from mnemo_core.llm.summarize import SUMMARIZE
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.recall_routes import RecallApi
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.memory_service import is_visible
from mnemo_daemon.retrieval.question import Question, RecallOutcome, shown_score
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.run_steps import place_of_step, step_content, step_key
from mnemo_daemon.sessions.session_service import RingItem
from mnemo_daemon.sessions.tiered_recall import TieredOutcome, reply, with_tiered
from mnemo_daemon.table_walk import bad_cursor, cursor_at, place_at
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import SCOPE_CHARS_MAX, STATES, Session, TurnPair

TURN_SOURCE = "turn"


class SessionsApi(Resource):
    """Handlers of sessions."""

    @handles(operations.END_SESSION)
    def end(self, request: Request) -> SessionFiledAnswer:
        return self._filed(request, self._services.turn_tiers.end)

    @handles(operations.CONSOLIDATE_SESSION)
    def consolidate(self, request: Request) -> SessionFiledAnswer:
        return self._filed(request, self._services.turn_tiers.consolidate)

    @handles(operations.LIST_SESSIONS)
    def sessions(self, request: Request) -> SessionsAnswer:
        query: ScopedPageQuery = request.query
        sessions, more = self._services.sessions.listed(
            access.listed_namespaces(request), query.user_id or "local", query.limit, place_at(query.cursor)
        )
        cursor = cursor_at((sessions[-1].last_at, sessions[-1].id)) if more else None
        return SessionsAnswer(sessions=list(map(session_view, sessions)), cursor=cursor)

    @handles(operations.SESSION)
    def session(self, request: Request) -> SessionAnswer:
        query: ScopedPageQuery = request.query
        services = self._services
        session = self._existing(scope_of_request(request, access.namespace_of(request), query.user_id))
        scope = scope_of(session)
        wanted = MemoryFilter(
            namespaces=(scope.namespace,), user_id=scope.user_id, session_id=scope.session_id, source=TURN_SOURCE,
            without_tags=access.hidden_tags(request), now=services.store.now(),
        )  # fmt: skip
        tiers = TierCounts(**services.sessions.tier_counts(wanted))  # first: no turn is in an earlier tier than counted
        turns, cursor = services.memories.page(wanted, query.limit, query.cursor or "", by="event_at")
        roots, pairs = services.root_paths(), services.sessions.pairs_of([each.memory.id for each in turns])
        return SessionAnswer(
            session=session_view(session),
            tiers=tiers,
            turns=[response_codec.memory_view(each, roots) for each in turns],
            pairs=[self._pair_view(pair, request) for pair in pairs],
            cursor=cursor or None,
        )

    def _filed(self, request: Request, file: Callable[[SessionScope], int]) -> SessionFiledAnswer:
        scope = scope_of(self._existing(_session_scope(request)))
        filed = file(scope)
        return SessionFiledAnswer(session=session_view(self._existing(scope)), filed=filed)

    def _existing(self, scope: SessionScope) -> Session:
        """The session of this name, or of an imported conversation to which its tool gave this name."""
        imported = (f"{tool}:{scope.session_id}" for tool in get_args(TranscriptTool))
        for name in (scope.session_id, *imported):
            if session := self._services.sessions.read(scope._replace(session_id=name)):
                return session
        message = f"there is no session {scope.session_id!r} in namespace {scope.namespace}"
        raise Refusal(404, "not_found", message, field="id")

    def _pair_view(self, pair: TurnPair, request: Request) -> TurnPairView:
        """The pair, without an answer that the caller does not see."""
        with self._services.store.snapshot() as snapshot:
            is_shown = pair.reply != pair.id and is_visible(snapshot.memory(pair.reply), access.caller_of(request))
        return TurnPairView(
            id=pair.id, at=pair.at, reply=pair.reply if is_shown else None, node=pair.node or None,
            archived=pair.is_archived,
        )  # fmt: skip


def session_view(session: Session) -> SessionView:
    """The session as it is answered."""
    return SessionView(
        session_id=session.session_id, started_at=session.started_at, last_at=session.last_at, turns=session.turns,
        namespace=session.namespace, user_id=session.user_id, agent_id=session.agent_id or None,
        ended_at=session.ended_at or None,
    )  # fmt: skip


def scope_of_request(request: Request, namespace: str, user_id: str | None) -> SessionScope:
    """The session that the path names. Raises a Refusal."""
    return SessionScope(namespace, user_id or "local", _name_in_path(request, "id", "session"))


_NAME = re.compile(NAME_PATTERN)


def _name_in_path(request: Request, field: str, what: str) -> str:
    """The name of a session or run that the path has. Raises a Refusal."""
    name = request_codec.clean_text(request.path[field], field)
    if not 0 < len(name) <= SCOPE_CHARS_MAX or not _NAME.match(name):
        raise bad_value(f"a {what} has a name of 1 to {SCOPE_CHARS_MAX} printable characters", field)
    return name


SUMMARIES = 2  # that wait for the language model at once


class RunsApi(Resource):
    """The handlers. A step is remembered like every other memory."""

    def __init__(self, services: Services, workers: WorkerPool, ingest: IngestApi) -> None:
        super().__init__(services, workers, WorkerPool(SUMMARIES, thread_name_prefix="mnemo-summary"))
        self._ingest = ingest
        self._numbering = asyncio.Lock()  # held until a step is stored, so that no two get the same next number

    @handles(operations.ADD_STEP)
    async def add_step(self, request: Request, importance: float | UnsetType = UNSET) -> Reply:
        async with self._numbering:
            number = request.ask.step_number
            if number is None:
                number = await self._workers.run(self._next_number, request)
            memory = msgspec.structs.replace(_memory_of(request, number), importance=importance)
            return await self._ingest.remember(dataclasses.replace(request, ask=memory))

    @handles(operations.SUMMARIZE_RUN)
    async def summarize(self, request: Request) -> Reply:
        run, until = _run_of(request), time.monotonic() + SUMMARIZE.deadline_s
        return await self._own.run(self._summarized, request, run, until)

    @handles(operations.STEPS)
    def steps(self, request: Request) -> StepsAnswer:
        query: ScopedPageQuery = request.query
        run = _run_of(request)
        after = _cursor_place(query.cursor)
        steps, summary = self._services.runs.read(run, self._listed_filter(request, query.user_id))
        behind = [step for step in steps if place_of_step(step) > after]
        shown = behind[: query.limit]
        return StepsAnswer(
            run_id=run, steps=[self._memory_view(step.id) for step in shown], namespace=access.namespace_of(request),
            summary=self._memory_view(summary.id) if summary is not None else None,
            cursor=".".join(map(str, place_of_step(shown[-1]))) if len(behind) > len(shown) else None,
        )  # fmt: skip

    def _next_number(self, request: Request) -> int:
        """The number behind those of all steps of the run, also of those in the trash, whose keys are still theirs."""
        wanted = MemoryFilter(
            namespaces=(access.writable_namespace(request),), user_id=request.ask.user_id or "local", states=STATES
        )
        steps, _ = self._services.runs.read(_run_of(request), wanted)
        return place_of_step(steps[-1])[0] + 1 if steps else 1

    def _summarized(self, request: Request, run: str, until: float) -> Reply:
        asked: RunSummaryRequest = request.ask
        services, namespace = self._services, access.writable_namespace(request)
        made = services.runs.summarize(
            run, namespace, asked.user_id or "local", access.caller_of(request), max(0.0, until - time.monotonic()),
            services.stopped.is_set,
        )  # fmt: skip
        answer = RunSummaryAnswer(
            outcome=made.outcome, memory=self._memory_view(made.memory_id), method=made.method,
            reason=made.reason or None,
        )  # fmt: skip
        return Reply(answer, 201 if made.outcome == "stored" else 200)


def _run_of(request: Request) -> str:
    return _name_in_path(request, "run", "run")


def _memory_of(request: Request, number: int) -> NewMemory:
    """The memory that a step is stored as, under this number of its run. Raises a Refusal."""
    asked: NewStep = request.ask
    run = _run_of(request)
    texts = {name: getattr(asked, name) for name in ("action", "outcome", "key_findings", "context", "task_objective")}
    step = msgspec.structs.replace(
        asked, step_number=number, **{name: request_codec.clean_text(text, name) for name, text in texts.items()}
    )
    if not step.action:
        raise bad_value("a step has an action: say what was done", "action")
    trace = {name: getattr(step, name) for name in ProcedureTrace.__struct_fields__}
    return NewMemory(
        content=step_content(step), kind="procedural", form="step", run_id=run, key=step_key(run, number),
        trace=ProcedureTrace(**trace), infer=False, namespace=asked.namespace, user_id=asked.user_id,
        agent_id=UNSET if asked.agent_id is None else asked.agent_id,
        session_id=UNSET if asked.session_id is None else asked.session_id,
        event_at=UNSET if asked.event_at is None else asked.event_at,
    )  # fmt: skip


def _cursor_place(cursor: str | None) -> tuple[int, int, str]:
    """The place in the order of steps behind which a page begins. Raises a Refusal."""
    if not cursor:
        return -1, 0, ""
    try:
        number, created, memory_id = cursor.split(".")
        return int(number), int(created), memory_id
    except ValueError:
        raise bad_cursor() from None


RECALLED = 5  # memories that a message gets by ordinary recall


class ConversationApi(Resource):
    """Handlers of conversations with memories."""

    def __init__(self, services: Services, workers: WorkerPool, recall: RecallApi, ingest: IngestApi) -> None:
        super().__init__(services, workers)
        self._recall = recall
        self._ingest = ingest

    @handles(operations.EXPLAIN_SESSION)
    async def explain(self, request: Request) -> Reply:
        asked: ExplainSessionRequest = request.ask
        inner = RecallRequest(query=asked.query, user_id=asked.user_id, tags=asked.tags, now=asked.now)
        scope = _session_scope(request)
        return Reply(_session_trace(await self._tiered(scope, self._question(request, scope, inner))))

    @handles(operations.CHAT)
    async def chat(self, request: Request) -> Reply:
        asked: ChatRequest = request.ask
        services, until = self._services, time.monotonic() + ANSWER.deadline_s
        scope, message = _session_scope(request), request_codec.clean_text(asked.message, "message")
        caller = access.caller_of(request)
        session = (scope.namespace, asked.user_id or "", scope.session_id, caller.trust, caller.name)
        earlier = services.asked_questions.of_session(session)
        text = resolve_follow_up(message, earlier[-1].question) if earlier else message
        inner = RecallRequest(query=text, user_id=asked.user_id, top_k=RECALLED, preferences="inline", cut="gap",
                              highlight=True)  # fmt: skip
        question = self._question(request, scope, inner)._replace(excerpt_query=message)
        outcome = await self._tiered(scope, question)
        recalled = await self._recall.recalled(question.to_answer(), dry=False)
        sources = await self._workers.run(self._record, recalled, outcome)
        stored = await self._store(request, scope, "user", message)
        answered = await self._recall.answerers.run(
            reply, message, text, sources, services.llm_tasks, until, services.stopped.is_set,
            earlier if text != message else (), services.answer_reader,
        )  # fmt: skip
        services.asked_questions.add(session, text, answered.text)
        await self._recall.note_shown(request, "chat", sources.hits, scope.session_id)
        replied = await self._store(request, scope, "agent", answered.kept_text)
        resolved = text if text != message else None
        answer = response_codec.ask_answer(answered, sources, scope.namespace, services.root_paths(), resolved)
        return Reply(ChatAnswer(
            **msgspec.structs.asdict(answer), session_id=scope.session_id, results=[stored, replied],
            trace=_session_trace(outcome) if asked.explain else None,
        ))  # fmt: skip

    def _question(self, request: Request, scope: SessionScope, asked: RecallRequest) -> Question:
        question = self._recall.question_without_sensitive(request, asked)
        return question._replace(working_session=scope.session_id)

    async def _tiered(self, scope: SessionScope, question: Question) -> TieredOutcome:
        with self._services.priority.query_running():
            return await self._workers.run(self._services.tiered_recall.run, scope, question)

    def _record(self, recalled: RecallOutcome, outcome: TieredOutcome) -> RecallOutcome:
        """Record what was recalled in the session, and return the sources of the reply."""
        services = self._services
        services.tiered_recall.record(outcome)
        with services.store.snapshot() as snapshot:
            return with_tiered(snapshot, recalled, outcome)

    async def _store(self, request: Request, scope: SessionScope, role: TurnRole, text: str) -> PieceAnswer:
        asked: ChatRequest = request.ask
        turn = Turn(role=role, content=text, speaker=asked.speaker if role == "user" else None)
        turns = TurnsRequest(session_id=scope.session_id, turns=[turn], user_id=asked.user_id, agent_id=asked.agent_id)
        return await self._ingest.store_turn(request, turns)


def _session_scope(request: Request) -> SessionScope:
    return scope_of_request(request, access.writable_namespace(request), request.ask.user_id)


def _session_trace(outcome: TieredOutcome) -> SessionTrace:
    """The recall in a session as it is answered."""
    ranking = outcome.ranking
    return SessionTrace(
        session_id=outcome.scope.session_id, ring=list(map(ring_view, outcome.ring)),
        items=[
            TieredItemTrace(
                ids=list(each.item.memory_ids), text=each.item.text, stage=each.stage,
                similarity=shown_score(each.item.similarity), recency=shown_score(each.recency),
                importance=each.item.importance, score=shown_score(each.score), at=each.item.at,
                node=each.item.node or None, dropped=each.dropped or None,
            )
            for each in ranking.ranked
        ],
        nodes=[TopicMatchTrace(each.id, shown_score(each.similarity), each.is_neighbour) for each in ranking.nodes],
        recent_above_floor=ranking.recent_above_floor, floor=outcome.floor, stages_ms=outcome.stages_ms,
        took_ms=round(outcome.took_ms, 3), namespace=outcome.scope.namespace, degraded=list(outcome.degraded),
    )  # fmt: skip


def ring_view(item: RingItem) -> RingItemView:
    """An item of a ring as it is answered."""
    role = item.memory.turn.role if item.memory.turn is not None else "user"
    return RingItemView(id=item.memory.id, role=role, text=item.text, promoted=item.is_promoted)
