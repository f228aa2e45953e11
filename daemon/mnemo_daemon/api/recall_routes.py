"""The routes of questions: recall, why, search by words, the context block, what an agent reads at the start of a
session or before a risky step, and questions that are answered from memories alone, whole or while the answer is
written. SPEC 7, 11, 13"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.retrieval import (
    AskAnswer,
    AskMemories,
    AskRequest,
    ContextAnswer,
    ContextRequest,
    RecallRequest,
    SearchAnswer,
    SearchQuery,
    WhyRequest,
)
from mnemo_client.protocol.sessions import (
    ResumeAnswer,
    ResumeQuery,
    ResumeSectionView,
    ResumeTopicView,
    ScopeQuery,
    TriggersAnswer,
)
from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.ingest.memory_role import says_nothing
from mnemo_core.ingest.policies import OWN_POLICY
from mnemo_core.lifecycle.profiles import place_of_entry
from mnemo_core.llm.question_answer import ANSWER
from mnemo_core.llm.recall_tasks import resolve_follow_up
from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_core.retrieval import context_block
from mnemo_core.retrieval.context_block import ContextProfile, author_of, grouped, listed_line
from mnemo_core.retrieval.result_selection import PREFERENCES_SHARE
from mnemo_core.sessions.resume import ResumeSection, tokens_of
from mnemo_core.text.query_features import question_of_prompt
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.api.response_codec import M_LISTS, ContextBlock, explain_context, explain_resume
from mnemo_daemon.assistance.question_answering import answer_question
from mnemo_daemon.errors import bad_value, refusal_of
from mnemo_daemon.models.language.language_model import WAITING_MAX
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome
from mnemo_daemon.server.router import STORE, Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.times import parse_time
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import content_hash
from mnemo_store.records import Memory

T = TypeVar("T")

# Threads for questions: more than can wait for the language model, so that one too many is answered without it at once.
ANSWERERS = WAITING_MAX + 8


class RecallApi(Resource):
    """Handlers of recall, and what other handlers of questions share."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        self.answerers = WorkerPool(ANSWERERS, thread_name_prefix="mnemo-ask")  # for what may wait for the model
        super().__init__(services, workers, self.answerers)

    @handles(operations.RECALL)
    async def recall(self, request: Request) -> Reply:
        asked: RecallRequest = request.ask
        question = self._question(request, asked)._replace(limits_others=request.entry_point == "mcp")
        is_dry = asked.dry or asked.explain or question.as_of is not None or not access.counts_use(request)
        recalled = await self.recalled(
            question, dry=is_dry, is_cancelled=self._services.stopped.is_set, by_person=access.is_person(request)
        )
        await self.note_shown(request, "recall", recalled.hits, asked.session_id, is_dry=is_dry)
        namespace, roots = access.namespace_of(request), self._services.root_paths()
        return Reply(response_codec.recall_answer(question, recalled, namespace, roots))

    @handles(operations.WHY)
    async def why(self, request: Request) -> Reply:
        asked: WhyRequest = request.ask
        question = self._question(request, asked)
        resolve, caller = self._services.memories.resolve, access.caller_of(request)
        memory_id = resolve(asked.id, caller, "id")
        against = "" if asked.against is None else resolve(asked.against, caller, "against")
        with self._services.priority.query_running():
            diagnosis = await self._workers.run(self._services.recall.why, question, memory_id, against)
        diagnosis.namespace = access.namespace_of(request)
        return Reply(diagnosis)

    @handles(operations.SEARCH)
    async def search(self, request: Request) -> Reply:
        query: SearchQuery = request.query
        asked = RecallRequest(
            query=query.q, top_k=query.limit, token_budget=None, user_id=query.user_id, tags=query.tag,
            ranker="words", preferences="inline", cut="none", rerank=False,
            highlight=query.highlight, as_of=query.as_of, since=query.since, until=query.until,
        )  # fmt: skip
        question = self._question(request, asked)._replace(takes_requests=True)
        recalled = await self.recalled(question, dry=True)
        roots = self._services.root_paths()
        memories = [response_codec.hit_view(hit, roots) for hit in recalled.hits]
        return Reply(SearchAnswer(
            memories=memories, total=recalled.total, namespace=access.namespace_of(request),
            degraded=[*recalled.degraded],
        ))  # fmt: skip

    @handles(operations.CONTEXT)
    async def context(self, request: Request) -> Reply:
        return Reply(await self.context_answer(request, request.ask))

    async def context_answer(
        self, request: Request, asked: ContextRequest, *, is_prompt: bool = False
    ) -> ContextAnswer:
        """The block that a request for context gets. is_prompt: the query is what a person told an agent."""
        settings, namespace = self._services.settings, access.namespace_of(request)
        defaults = settings.recall_defaults(namespace).context
        asked = msgspec.structs.replace(
            asked, cut=asked.cut or defaults.cut, format=asked.format or defaults.format,
            dates=asked.dates or defaults.dates,
        )  # fmt: skip
        known = set(RecallRequest.__struct_fields__).intersection(ContextRequest.__struct_fields__)
        query = question_of_prompt(asked.query)
        fields = {name: getattr(asked, name) for name in known - {"session_id"}} | {"query": query}
        question = self.question_without_sensitive(request, RecallRequest(**fields), is_prompt=is_prompt)
        question = question._replace(working_session=asked.session_id, limits_others=True)
        is_own = settings.profile_of(namespace).name == OWN_POLICY.name
        if is_own and question.is_cut and asked.format == "block":
            question = question._replace(unasked="prompt" if is_prompt else "context")
            if is_prompt and says_nothing(query):
                return ContextAnswer(
                    block="", total_tokens=0, memories=[], namespace=access.namespace_of(request), abstained=True
                )
        profile: list[Memory] = []
        if asked.format == "m" and question.as_of is None:
            profile, question = await self._workers.run(self._profile_of, question)
        is_dry = asked.dry or asked.explain or question.as_of is not None or not access.counts_use(request)
        recalled = await self.recalled(question, dry=is_dry, is_cancelled=self._services.stopped.is_set)
        listed_texts = {content_hash(memory.content) for memory in profile}
        hits = grouped(
            [hit for hit in recalled.hits if content_hash(hit.details.memory.content) not in listed_texts],
            lambda hit: author_of(hit.details.memory),
        )
        made = await self._workers.run(
            self._context_block, request, recalled, hits, profile, asked, bool(question.unasked)
        )
        block, kept, listed = made.text, made.kept, made.listed
        explained = None
        if asked.explain:
            explained = explain_context(made, recalled.trace, len(hits) - len(kept), question.token_budget)
        return ContextAnswer(
            explained=explained,
            block=block, total_tokens=sum(hit.tokens for hit in kept) + _tokens_of(listed),
            cut=len(kept) < len(hits) or recalled.tokens_needed > 0, abstained=recalled.abstained,
            memories=[*(memory.id for memory in listed), *(hit.details.memory.id for hit in kept)],
            namespace=access.namespace_of(request), degraded=[*recalled.degraded], query_cut=query != asked.query,
            time=recalled.time,
        )  # fmt: skip

    def _profile_of(self, question: Question) -> tuple[list[Memory], Question]:
        """The facts about the user, and what not to assume, as far as they fit a quarter of the budget; and the
        question for the rest of it. Preferences come by recall."""
        wanted = question.filter
        scope = MemoryFilter(
            namespaces=wanted.namespaces, user_id=wanted.user_id, without_tags=wanted.without_tags, now=wanted.now
        )
        found, budget = self._services.profiles.shown(scope), question.token_budget
        entries = [each for place in M_LISTS for each in found.get(place, ())]
        if budget is None:
            return entries, question
        kept: list[Memory] = []
        for entry in entries:
            if _tokens_of([*kept, entry]) <= budget // PREFERENCES_SHARE:
                kept.append(entry)
        return kept, question._replace(token_budget=budget - _tokens_of(kept))

    def _context_block(
        self, request: Request, recalled: RecallOutcome, hits: Sequence[Hit], profile: Sequence[Memory],
        asked: ContextRequest, is_unasked: bool,
    ) -> ContextBlock:  # fmt: skip
        """The block with as many of the first hits as its characters allow. is_unasked: its lines have no number that
        says nothing to a model."""
        root_paths, rendered = self._services.root_paths(), list[str]()
        if asked.format == "m":
            items = [response_codec.context_item(hit) for hit in hits]
            lists = [tuple(each.content for each in profile if place_of_entry(each) == place) for place in M_LISTS]
            block, count = context_block.render_m_block(
                items, recalled.mode or recalled.ranker, ContextProfile(*lists), asked.max_chars
            )
            lines = block.split("\n")
            shown = [place for place, texts in zip(M_LISTS, lists, strict=True)
                     if listed_line(place.heading, texts) in lines]  # fmt: skip
            profile = [each for each in profile if place_of_entry(each) in shown]
            rendered = [context_block.render_item(item) for item in items[:count]]
        else:
            shown_lines = [response_codec.context_line(hit, root_paths) for hit in hits]
            if is_unasked:
                shown_lines = [context_block.without_numbers(line) for line in shown_lines]
            dates = asked.dates or "all"
            block, count = context_block.render_cut_block(
                shown_lines, asked.max_chars, dates=dates, ids=asked.ids,
                time=recalled.time.text if recalled.time is not None else "",
            )  # fmt: skip
            if asked.explain:
                rendered = [context_block.render_line(line, dates=dates, ids=asked.ids) for line in shown_lines[:count]]
        kept = hits[:count]
        if not asked.explain:
            memories = [*profile, *(hit.details.memory for hit in kept)]
            self._record_shown(request, "context", memories, asked.session_id, asked.dry)
        return ContextBlock(block, kept, profile, rendered)

    async def note_shown(
        self, request: Request, operation: str, hits: Sequence[Hit], session_id: str | None, *, is_dry: bool = False
    ) -> None:
        """Record what is handed out, so that it is not stored as news when it comes back (SPEC 5.5a), and so that a
        person learns who got it, unless it is dry."""
        memories = [hit.details.memory for hit in hits]
        await self._workers.run(self._record_shown, request, operation, memories, session_id, is_dry)

    def _record_shown(
        self, request: Request, operation: str, memories: Sequence[Memory], session_id: str | None, is_dry: bool
    ) -> None:
        if not access.counts_use(request):
            return
        self._services.ingest.record_shown(session_id or "", [(memory.id, memory.content) for memory in memories])
        if not is_dry:
            ids = [memory.id for memory in memories]
            self._services.shown_recorder.record(operation, access.caller_of(request).name, session_id or "", ids)

    async def recalled(
        self, question: Question, *, dry: bool, is_cancelled: Callable[[], bool] | None = None, by_person: bool = False
    ) -> RecallOutcome:
        """Recall, and count the use, also as a person's, unless it is dry. With is_cancelled, a language model takes
        part where the question asks for it; every other recall waits for none."""
        services = self._services
        if is_cancelled is not None and (question.rerank or question.expand == "true"):
            recalled = await self.answerers.run(services.assisted_recall.answer, question, is_cancelled)
        else:
            with services.priority.query_running():
                recalled = await asyncio.wrap_future(services.recall.submit(question))
        if not dry:
            services.usage_recorder.record(recalled.hits, by_person=by_person)
        return recalled

    def question_without_sensitive(
        self, request: Request, asked: RecallRequest, *, is_prompt: bool = False
    ) -> Question:
        """The question to everything but sensitive memories, unless it asks for their tag. Raises a Refusal."""
        question = self._question(request, asked, is_prompt=is_prompt)
        if SENSITIVE_TAG in question.filter.tags:
            return question
        return question._replace(filter=question.filter._replace(without_tags=(SENSITIVE_TAG,)))

    def _question(self, request: Request, asked: RecallRequest, *, is_prompt: bool = False) -> Question:
        now, settings = self._services.store.now(), self._services.settings
        return request_codec.question_of(request, asked, now, settings, is_prompt=is_prompt)


def _tokens_of(memories: Sequence[Memory]) -> int:
    return sum(estimate_tokens([memory.content for memory in memories]))


class ContextApi(Resource):
    """Handlers of what an agent reads before it works."""

    @handles(operations.RESUME)
    def resume(self, request: Request) -> ResumeAnswer:
        return self.resume_answer(request, request.query)

    def resume_answer(self, request: Request, query: ResumeQuery) -> ResumeAnswer:
        """The resume of the namespace of a request."""
        services = self._services
        defaults = services.settings.recall_defaults(access.namespace_of(request))
        wanted = self._filter(request, query)._replace(min_importance_unasked=defaults.min_importance_unasked)
        task = (query.task or "").strip()
        with services.priority.query_running():
            relevance = services.recall.relevance_to(task) if task else None
            resume = services.resume.resume(wanted, query.session_id, relevance)
        if access.counts_use(request) and not query.explain:
            services.ingest.record_shown(query.session_id or "", resume.shown)
            ids = [memory_id for memory_id, _ in resume.shown]
            services.shown_recorder.record("resume", access.caller_of(request).name, query.session_id or "", ids)
        return ResumeAnswer(
            text=resume.text, total_tokens=tokens_of(resume.text), working=resume.working, buffer=resume.buffer,
            core=_section_view(resume.core), recent=_section_view(resume.recent),
            topics=[ResumeTopicView(id=each.id, name=each.name, members=each.members) for each in resume.lists.topics],
            profile=_section_view(resume.profile) if resume.profile.total else None,
            others=_section_view(resume.others) if resume.others.total else None,
            triggers=[*resume.lists.triggers, *resume.lists.of_others], namespace=access.namespace_of(request),
            degraded=["vectors"] if task and relevance is None else [],
            explained=explain_resume(resume, services.resume.weights) if query.explain else None,
        )  # fmt: skip

    @handles(operations.TRIGGERS)
    def triggers(self, request: Request) -> TriggersAnswer:
        services, query = self._services, request.query
        action = request_codec.clean_text(request.path["action"], "action").lower()
        found = services.resume.triggers(self._filter(request, query), action, query.limit)
        if access.counts_use(request):
            services.usage_recorder.record([Hit(each, 1.0, 1.0, ("trigger",)) for each in found])
            by = access.caller_of(request).name
            services.shown_recorder.record("triggers", by, "", [each.memory.id for each in found])
        roots = services.root_paths()
        views = [response_codec.memory_view(each, roots) for each in found]
        return TriggersAnswer(action=action, count=len(views), memories=views, namespace=access.namespace_of(request))

    def _filter(self, request: Request, query: ScopeQuery) -> MemoryFilter:
        """The active memories in the scope of a request, and nothing sensitive unless it asks for that tag and may see
        it. Raises a Refusal."""
        tags = tuple(tag.strip().lower() for tag in query.tag)
        now = self._services.store.now() if query.now is None else parse_time(query.now, "now")
        return MemoryFilter(
            namespaces=access.visible_namespaces(access.namespace_of(request)), user_id=query.user_id or "local",
            agent_id=query.agent_id, states=("active",), tags=tags,
            without_tags=access.hidden_tags(request, tags) if SENSITIVE_TAG in tags else (SENSITIVE_TAG,), now=now,
        )  # fmt: skip


def _section_view(section: ResumeSection) -> ResumeSectionView:
    return ResumeSectionView(total=section.total, memories=list(section.ids), condensed=list(section.condensed))


SILENCE_SECONDS = 0.5  # between two pieces of a stream: whether its reader is still there is seen by writing to it

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
    """The handler of questions that are answered."""

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
        text, caller, session = asked.question, access.caller_of(request), None
        if asked.session_id:
            namespace = access.namespace_of(request)
            session = (namespace, asked.user_id or "", asked.session_id, caller.trust, caller.name)
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
            asked, text, question.to_answer(asked.agenda_top_k), session, earlier, time.monotonic() + ANSWER.deadline_s
        )

    async def _answer(
        self, request: Request, asked: ResolvedQuestion, is_cancelled: Callable[[], bool], emit: Emit | None
    ) -> AskAnswer:
        """Recall and answer; with `emit`, events are reported meanwhile."""
        services, question = self._services, asked.question
        is_dry = asked.asked.dry or question.as_of is not None or not access.counts_use(request)
        recalled = await self._recall.recalled(question, dry=is_dry, is_cancelled=is_cancelled)
        if asked.asked.rerank is None and not question.rerank:
            recalled = await self._recall.answerers.run(
                services.assisted_recall.rerank_for_answer, question, recalled, asked.until, is_cancelled
            )
        namespace, roots = access.namespace_of(request), services.root_paths()
        if emit is not None:
            emit("memories", AskMemories(memories=[response_codec.hit_view(hit, roots) for hit in recalled.hits]))
        answered = await self._recall.answerers.run(
            answer_question, asked.text, recalled, services.llm_tasks, asked.until, is_cancelled, asked.earlier,
            None if emit is None else lambda sentence: emit("sentence", response_codec.ask_sentence(sentence)),
            services.answer_reader,
        )  # fmt: skip
        await self._recall.note_shown(request, "ask", recalled.hits, asked.asked.session_id, is_dry=is_dry)
        if asked.session is not None:  # for follow-ups; without the answer where it was to read sensitive memories
            kept = "" if SENSITIVE_TAG in question.filter.tags else answered.text
            services.asked_questions.add(asked.session, asked.text, kept)
        resolved = asked.text if asked.text != asked.asked.question else None
        answer = response_codec.ask_answer(answered, recalled, namespace, roots, resolved)
        if services.problem():
            answer.degraded.append(STORE)
        if access.is_person(request):
            answer.sensitive = await self._count_sensitive(question)
        return answer

    async def _count_sensitive(self, question: Question) -> int:
        """The number of sensitive memories that match a question as well as the best of the others: in one recall."""
        of = question.filter
        wanted = of._replace(tags=(*of.tags, SENSITIVE_TAG), without_tags=())
        if SENSITIVE_TAG in of.tags or not await self._workers.run(self._services.memories.count, wanted):
            return 0
        every = question._replace(filter=of._replace(without_tags=()), rerank=False)
        found = await self._recall.recalled(every, dry=True)
        scores = [(SENSITIVE_TAG in hit.details.memory.tags, hit.score) for hit in found.hits]
        best = max((score for is_sensitive, score in scores if not is_sensitive), default=0.0)
        return sum(is_sensitive and score >= best for is_sensitive, score in scores)

    async def _events(self, request: Request, asked: ResolvedQuestion) -> AsyncIterator[bytes]:
        """Server-sent events: `memories`, a `sentence` for each that is verified, and `answer`, or `error`. A reader
        that goes away ends the call of the model. An error before the first event is the answer's own."""
        loop, is_gone = asyncio.get_running_loop(), threading.Event()
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

        def emit(name: str, value: msgspec.Struct) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended with the daemon
                loop.call_soon_threadsafe(waiting.put_nowait, response_codec.event(name, value))

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
                yield response_codec.event("answer", work.result())
            except Exception as error:  # once events were sent, a refusal becomes an event; all else is raised
                refusal = refusal_of(error)
                if refusal is None or not has_begun:
                    raise
                yield response_codec.event("error", refusal.answer())
        finally:
            is_gone.set()
            work.cancel()


async def _next_piece(waiting: "asyncio.Queue[bytes | None]") -> bytes | None:
    """The next event, None after the last; a comment after a silence."""
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await waiting.get()
    except TimeoutError:
        return response_codec.KEEP_ALIVE
