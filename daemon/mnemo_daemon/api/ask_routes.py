"""The routes of questions that are answered from memories alone: whole, or while the answer is written. SPEC 11, 13"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.retrieval import AskAnswer, AskMemories, AskRequest, RecallRequest
from mnemo_core.llm.questions.expand import resolve_follow_up
from mnemo_core.llm.questions.question_answer import ANSWER
from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, response_codec
from mnemo_daemon.api.recall_routes import RecallApi
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.assistance.question_answering import AnsweredQuestion, CitedSentence, answer_question
from mnemo_daemon.errors import bad_value, refusal_of
from mnemo_daemon.retrieval.question import Question
from mnemo_daemon.server.router import STORE, Reply, Request
from mnemo_daemon.services import Services

SILENCE_SECONDS = 0.5  # between two pieces of a stream: whether its reader is still there is seen by writing to it

KEEP_ALIVE = b":\n\n"

Emit = Callable[[str, msgspec.Struct], None]


class ResolvedQuestion(NamedTuple):
    """A question to answer, whole and checked, with those that a follow-up refers to."""

    asked: AskRequest
    text: str
    question: Question
    session: tuple[str, ...] | None
    earlier: tuple[EarlierQuestion, ...]
    until: float


class AskApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool, recall: RecallApi) -> None:
        super().__init__(services, workers)
        self._recall = recall

    @handles(operations.ASK)
    async def ask(self, request: Request) -> Reply:
        question = self._question(request)
        if not question.asked.stream:
            return Reply(await self._answer(request, question, self._services.stopped.is_set, None))
        return Reply(self._events(request, question))

    def _question(self, request: Request) -> ResolvedQuestion:
        """The question with what it refers to. Raises a Refusal."""
        asked: AskRequest = request.ask
        if not asked.question.strip():
            raise bad_value("an empty question asks nothing: say what to answer", "question")
        session, text = self._session_of(request), asked.question
        earlier: tuple[EarlierQuestion, ...] = ()
        if session is not None and (before := self._services.asked_questions.of_session(session)):
            text = resolve_follow_up(asked.question, before[-1].question)
            earlier = before if text != asked.question else ()
        inner = RecallRequest(
            query=text, top_k=asked.top_k, user_id=asked.user_id, tags=asked.tags, since=asked.since,
            until=asked.until, as_of=asked.as_of, time=asked.time, preferences="inline", cut=asked.cut,
            rerank=asked.rerank, highlight=True,
        )  # fmt: skip
        question = self._recall.question_without_sensitive(request, inner)
        question = question._replace(working_session=asked.session_id, excerpt_query=asked.question)
        return ResolvedQuestion(
            asked, text, question.as_agenda(), session, earlier, time.monotonic() + ANSWER.deadline_s
        )

    def _session_of(self, request: Request) -> tuple[str, ...] | None:
        """The session whose earlier questions are known to the caller; None without one."""
        asked: AskRequest = request.ask
        if not asked.session_id:
            return None
        caller = access.caller_of(request)
        return access.namespace_of(request), asked.user_id or "", asked.session_id, caller.trust, caller.name

    async def _answer(
        self, request: Request, asked: ResolvedQuestion, is_cancelled: Callable[[], bool], emit: Emit | None
    ) -> AskAnswer:
        """Recall and answer; with `emit`, events are reported meanwhile."""
        services, question = self._services, asked.question
        is_dry = asked.asked.dry or question.as_of is not None or not access.counts_use(request)
        recalled = await self._recall.recalled(question, dry=is_dry, is_cancelled=is_cancelled)
        if asked.asked.rerank is None and not question.rerank:
            recalled = await self._recall.on_answerer(
                services.assisted_recall.rerank_for_answer, question, recalled, asked.until, is_cancelled
            )
        namespace, roots = access.namespace_of(request), services.root_paths()
        on_sentence = None
        if emit is not None:
            emit("memories", AskMemories(memories=[response_codec.hit_view(hit, roots) for hit in recalled.hits]))
            on_sentence = _sentence_reporter(emit)
        answered = await self._recall.on_answerer(
            answer_question, asked.text, recalled, services.llm_tasks, asked.until, is_cancelled, asked.earlier,
            on_sentence,
        )  # fmt: skip
        await self._recall.note_shown(request, "ask", recalled.hits, asked.asked.session_id, is_dry=is_dry)
        self._remember_question(asked, answered)
        resolved = asked.text if asked.text != asked.asked.question else None
        answer = response_codec.ask_answer(answered, recalled, namespace, roots, resolved)
        if services.problem():
            answer.degraded.append(STORE)
        if access.is_person(request):
            best = 0.0 if answer.abstained else max((hit.score for hit in recalled.hits), default=0.0)
            answer.sensitive = await self._count_sensitive(question, best)
        return answer

    async def _count_sensitive(self, question: Question, best: float) -> int:
        """The number of sensitive memories that match a question better than what the others answered."""
        of = question.filter
        wanted = of._replace(tags=(*of.tags, SENSITIVE_TAG), without_tags=())
        if SENSITIVE_TAG in of.tags or not await self._workers.run(self._services.memories.count, wanted):
            return 0
        found = await self._recall.recalled(question._replace(filter=wanted, rerank=False), dry=True)
        return 0 if found.abstained else sum(hit.score > best for hit in found.hits)

    def _remember_question(self, asked: ResolvedQuestion, answered: AnsweredQuestion) -> None:
        """Keep the question for follow-ups; the answer too, unless it was to read sensitive memories."""
        if asked.session is not None:
            answer = "" if SENSITIVE_TAG in asked.question.filter.tags else answered.text
            self._services.asked_questions.add(asked.session, asked.text, answer)

    async def _events(self, request: Request, asked: ResolvedQuestion) -> AsyncIterator[bytes]:
        """Server-sent events: `memories`, a `sentence` for each that is verified, and `answer`, or `error`.

        A reader that goes away ends the call of the model. An error before the first event is the answer's own.
        """
        loop, is_gone = asyncio.get_running_loop(), threading.Event()
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

        def emit(name: str, value: msgspec.Struct) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended with the daemon
                loop.call_soon_threadsafe(waiting.put_nowait, _event(name, value))

        def is_cancelled() -> bool:
            return is_gone.is_set() or self._services.stopped.is_set()

        work = asyncio.create_task(self._answer(request, asked, is_cancelled, emit))
        work.add_done_callback(lambda _: waiting.put_nowait(None))
        has_begun = False
        try:
            while (piece := await _next_piece(waiting)) is not None:
                yield piece
                has_begun = True
            try:
                yield _event("answer", work.result())
            except Exception as error:  # once events were sent, a refusal becomes an event; all else is raised
                refusal = refusal_of(error)
                if refusal is None or not has_begun:
                    raise
                yield _event("error", refusal.answer())
        finally:
            is_gone.set()
            work.cancel()


def _sentence_reporter(emit: Emit) -> Callable[[CitedSentence], None]:
    return lambda sentence: emit("sentence", response_codec.ask_sentence(sentence))


async def _next_piece(waiting: "asyncio.Queue[bytes | None]") -> bytes | None:
    """The next event, None after the last; a comment after a silence."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await waiting.get()
    except TimeoutError:
        return KEEP_ALIVE


def _event(name: str, value: msgspec.Struct) -> bytes:
    """A server-sent event; JSON has no line break outside of its texts, where it is escaped."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))
