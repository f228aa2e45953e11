"""The routes of questions: recall, why, search by words, and the context block. SPEC 7, 13"""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.retrieval import (
    ContextAnswer,
    ContextRequest,
    RecallRequest,
    SearchAnswer,
    SearchQuery,
    WhyRequest,
)
from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.ingest.memory_role import says_nothing
from mnemo_core.ingest.policies import OWN_POLICY
from mnemo_core.lifecycle.profiles import place_of_entry
from mnemo_core.retrieval import context_block
from mnemo_core.retrieval.context_block import ContextProfile, author_of, grouped, listed_line
from mnemo_core.retrieval.result_selection import PREFERENCES_SHARE
from mnemo_core.text.query_features import question_of_prompt
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.explained_texts import M_LISTS, ContextBlock, explain_context
from mnemo_daemon.api.request_codec import query_time
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.models.language.language_model import WAITING_MAX
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import content_hash
from mnemo_store.records import Memory

T = TypeVar("T")

# Threads for questions: more than can wait for the language model, so that one too many is answered without it at once.
ANSWERERS = WAITING_MAX + 8


class RecallApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers)
        self._answerers = WorkerPool(ANSWERERS, thread_name_prefix="mnemo-ask")

    def close(self) -> None:
        """End the threads that wait for answers."""
        self._answerers.close()

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
            highlight=query.highlight, as_of=query.as_of, since=query_time(query.since), until=query_time(query.until),
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
            time=response_codec.time_view(recalled.time),
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
            self._record_shown(request, "context", memories, asked.session_id, is_dry=asked.dry)
        return ContextBlock(block, kept, profile, rendered)

    async def note_shown(
        self, request: Request, operation: str, hits: Sequence[Hit], session_id: str | None, *, is_dry: bool = False
    ) -> None:
        """Record what is handed out, so that it is not stored as news when it comes back (SPEC 5.5a), and so that a
        person learns who got it, unless it is dry."""
        memories = [hit.details.memory for hit in hits]
        await self._workers.run(
            functools.partial(self._record_shown, request, operation, memories, session_id, is_dry=is_dry)
        )

    def _record_shown(
        self, request: Request, operation: str, memories: Sequence[Memory], session_id: str | None, *, is_dry: bool
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
            recalled = await self.on_answerer(services.assisted_recall.answer, question, is_cancelled)
        else:
            with services.priority.query_running():
                recalled = await asyncio.wrap_future(services.recall.submit(question))
        if not dry:
            services.usage_recorder.record(recalled.hits, by_person=by_person)
        return recalled

    async def on_answerer(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run what may wait for the language model on a thread for that."""
        return await self._answerers.run(function, *arguments)

    def question_without_sensitive(
        self, request: Request, asked: RecallRequest, *, is_prompt: bool = False
    ) -> Question:
        """The question to everything but sensitive memories, unless it asks for their tag. Raises a Refusal."""
        return _without_sensitive(self._question(request, asked, is_prompt=is_prompt))

    def _question(self, request: Request, asked: RecallRequest, *, is_prompt: bool = False) -> Question:
        now, settings = self._services.store.now(), self._services.settings
        return request_codec.question_of(request, asked, now, settings, is_prompt=is_prompt)


def _tokens_of(memories: Sequence[Memory]) -> int:
    return sum(estimate_tokens([memory.content for memory in memories]))


def _without_sensitive(question: Question) -> Question:
    """The question to everything but sensitive memories, unless it asks for their tag."""
    if SENSITIVE_TAG in question.filter.tags:
        return question
    return question._replace(filter=question.filter._replace(without_tags=(SENSITIVE_TAG,)))
