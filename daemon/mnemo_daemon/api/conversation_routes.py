"""The routes of a conversation with memories: what a message recalls in its session, and chat. SPEC 8, 13"""

import time

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import TurnRole
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_client.protocol.sessions import (
    ChatAnswer,
    ChatRequest,
    ExplainSessionRequest,
    RingItemView,
    SessionTrace,
    TieredItemTrace,
    TopicMatchTrace,
)
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.llm.questions.expand import resolve_follow_up
from mnemo_core.llm.questions.question_answer import ANSWER
from mnemo_core.sessions.tiered_recall import RankedItem
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.recall_routes import RecallApi
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.session_routes import scope_of_request
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.retrieval.question import Question, RecallOutcome, shown_score
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.session_service import RingItem
from mnemo_daemon.sessions.tiered_recall import TieredOutcome, reply, with_tiered

RECALLED = 5  # memories that a message gets by ordinary recall


class ConversationApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool, recall: RecallApi, ingest: IngestApi) -> None:
        super().__init__(services, workers)
        self._recall = recall
        self._ingest = ingest

    @handles(operations.EXPLAIN_SESSION)
    async def explain(self, request: Request) -> Reply:
        asked: ExplainSessionRequest = request.ask
        inner = RecallRequest(query=asked.query, user_id=asked.user_id, tags=asked.tags, now=asked.now)
        scope = _scope_of(request)
        return Reply(_session_trace(await self._tiered(scope, self._question(request, scope, inner))))

    @handles(operations.CHAT)
    async def chat(self, request: Request) -> Reply:
        asked: ChatRequest = request.ask
        services, until = self._services, time.monotonic() + ANSWER.deadline_s
        scope, message = _scope_of(request), request_codec.clean_text(asked.message, "message")
        caller = access.caller_of(request)
        session = (scope.namespace, asked.user_id or "", scope.session_id, caller.trust, caller.name)
        earlier = services.asked_questions.of_session(session)
        text = resolve_follow_up(message, earlier[-1].question) if earlier else message
        inner = RecallRequest(query=text, user_id=asked.user_id, top_k=RECALLED, preferences="inline", cut="gap",
                              highlight=True)  # fmt: skip
        question = self._question(request, scope, inner)._replace(excerpt_query=message)
        outcome = await self._tiered(scope, question)
        recalled = await self._recall.recalled(question.as_agenda(), dry=False)
        sources = await self._workers.run(self._record, recalled, outcome)
        stored = await self._store(request, scope, "user", message)
        answered = await self._recall.on_answerer(
            reply, message, text, sources, services.llm_tasks, until, services.stopped.is_set,
            earlier if text != message else (),
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


def _scope_of(request: Request) -> SessionScope:
    return scope_of_request(request, access.writable_namespace(request), request.ask.user_id)


def _session_trace(outcome: TieredOutcome) -> SessionTrace:
    """The recall in a session as it is answered."""
    ranking = outcome.ranking
    return SessionTrace(
        session_id=outcome.scope.session_id, ring=list(map(ring_view, outcome.ring)),
        items=list(map(_item_trace, ranking.ranked)),
        nodes=[TopicMatchTrace(each.id, shown_score(each.similarity), each.is_neighbour) for each in ranking.nodes],
        recent_above_floor=ranking.recent_above_floor, floor=outcome.floor, stages_ms=outcome.stages_ms,
        took_ms=round(outcome.took_ms, 3), namespace=outcome.scope.namespace, degraded=list(outcome.degraded),
    )  # fmt: skip


def ring_view(item: RingItem) -> RingItemView:
    """An item of a ring as it is answered."""
    role = item.memory.turn.role if item.memory.turn is not None else "user"
    return RingItemView(id=item.memory.id, role=role, text=item.text, promoted=item.is_promoted)


def _item_trace(each: RankedItem) -> TieredItemTrace:
    item = each.item
    return TieredItemTrace(
        ids=list(item.memory_ids), text=item.text, stage=each.stage, similarity=shown_score(item.similarity),
        recency=shown_score(each.recency), importance=item.importance, score=shown_score(each.score), at=item.at,
        node=item.node or None, dropped=each.dropped or None,
    )  # fmt: skip
