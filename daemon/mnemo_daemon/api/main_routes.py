"""The routes of /v1: a handler decides nothing, it asks a service and shapes the answer. SPEC 13."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from mnemo_client.protocol.choices import Category, Kind, Layer, State
from mnemo_client.protocol.memories import (
    READ_ONLY,
    BulkDeleteAnswer,
    DeleteAnswer,
    EdgesAnswer,
    MemoryPage,
    MemoryView,
    Patch,
    TagsAnswer,
    TrashPage,
    TrashView,
)
from mnemo_client.protocol.primitives import LIMIT_DEFAULT, Limit, Namespace, RequestBody, ShortText
from mnemo_client.protocol.retrieval import (
    ContextAnswer,
    ContextRequest,
    RecallAnswer,
    RecalledMemory,
    RecallRequest,
    SearchAnswer,
    WhyAnswer,
    WhyRequest,
)
from mnemo_core.retrieval import context_block
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import wire_codec
from mnemo_daemon.api.backup_routes import BackupApi
from mnemo_daemon.api.check_routes import CheckApi
from mnemo_daemon.api.daemon_routes import DaemonApi
from mnemo_daemon.api.erasure_routes import ErasureApi
from mnemo_daemon.api.history_routes import HistoryApi
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.notes_routes import NotesApi
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.api.transfer_routes import TransferApi
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.services import Services
from mnemo_daemon.times import MS_DIGITS_MAX, parse_interval, parse_past_time
from mnemo_store.indexes.attributes import MemoryFilter

THREADS = 4  # for what reads or waits off the loop; recall has threads of its own
YEAR_DIGITS = 4
DELETE_MAX = 500  # memories that one DELETE by filter takes

IdPath = "/v1/memories/{id}"
EDGES_MAX = 500  # of one page


class _ListFilter(RequestBody):
    """The query string of lists and of DELETE by filter."""

    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None
    kind: list[Kind] = []
    category: list[Category] = []
    layer: list[Layer] = []
    state: list[State] = []
    tag: list[str] = []
    source: str | None = None
    speaker: str | None = None
    since: str | None = None
    until: str | None = None


class ListQuery(_ListFilter):
    as_of: str | None = None
    limit: Limit = LIMIT_DEFAULT
    cursor: str = ""


class GetQuery(RequestBody):
    as_of: str | None = None


class EdgesQuery(RequestBody):
    limit: Limit = EDGES_MAX
    cursor: str = ""


class DeleteQuery(_ListFilter):
    id: list[str] = []  # these, instead of what passes filters: all of them, or none where one is not there
    confirm: bool = False


class DeleteByIdQuery(RequestBody):
    why: Annotated[str, Meta(max_length=256)] = "deleted"


class PageQuery(RequestBody):
    namespace: Namespace | None = None
    limit: Limit = LIMIT_DEFAULT
    cursor: str = ""


class TagsQuery(RequestBody):
    namespace: Namespace | None = None
    user_id: ShortText | None = None


class TrashQuery(PageQuery):
    user_id: ShortText | None = None
    set_aside: bool = False  # what a door set aside, instead


class SearchQuery(RequestBody):
    q: str
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    tag: list[str] = []
    since: str | None = None
    until: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    as_of: str | None = None
    highlight: bool = False


class RecentQuery(ListQuery):
    hours: Annotated[float, Meta(gt=0)] | None = None


class Api:
    """Every route of the daemon: its own handlers for memories and recall, and those of the other resources."""

    def __init__(self, services: Services, report: StatusReport) -> None:
        self._services = services
        self._workers = WorkerPool(THREADS, thread_name_prefix="mnemo-api")
        self._history = HistoryApi(services, self._workers)
        self._transfer = TransferApi(services)
        self._checks = CheckApi(services)
        self._erasure = ErasureApi(services)
        self._resources = (
            DaemonApi(services, self._workers, report), NotesApi(services, self._workers), IngestApi(services),
            self._history, self._transfer, BackupApi(services), self._checks, self._erasure,
        )  # fmt: skip

    def close(self) -> None:
        self._erasure.close()
        self._transfer.close()
        self._checks.close()
        self._workers.close()

    def routes(self) -> list[Route]:
        own = [*self._memory_routes(), *self._reading_routes()]
        return [*own, *(route for resource in self._resources for route in resource.routes())]

    def _memory_routes(self) -> list[Route]:
        one = MemoryView
        read_only = READ_ONLY
        return [
            Route("GET", "/v1/memories", self.list_memories, MemoryPage, "The newest first", query=ListQuery),
            Route("DELETE", "/v1/memories", self.delete_many, BulkDeleteAnswer,
                  "Move to the trash by ids or filter; without `confirm` a dry run", query=DeleteQuery),
            Route("GET", IdPath, self.get, one, "One memory", query=GetQuery),
            Route("GET", f"{IdPath}/edges", self.edges, EdgesAnswer, "The edges of a memory", query=EdgesQuery),
            Route("PATCH", IdPath, self.edit, one, "Edit", ask=Patch, read_only=read_only | _NOT_EDITED),
            Route("DELETE", IdPath, self.delete, DeleteAnswer, "Move to the trash", query=DeleteByIdQuery),
            Route("POST", f"{IdPath}/restore", self.restore, one, "Back from the trash, discarded or archived"),
            Route("POST", "/v1/trash/{id}/restore", self.restore, one, "Back from the trash"),
            Route("GET", "/v1/trash", self.trash, TrashPage, "What is in the trash", query=TrashQuery),
        ]  # fmt: skip

    def _reading_routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/recall", self.recall, RecallAnswer, "What is known about a question",
                  ask=RecallRequest),
            Route("POST", "/v1/why", self.why, WhyAnswer, "Why one is, or is not, among the answers",
                  ask=WhyRequest),
            Route("GET", "/v1/search", self.search, SearchAnswer, "By words alone", query=SearchQuery),
            Route("GET", "/v1/recent", self.recent, SearchAnswer, "By when it happened",
                  query=RecentQuery),
            Route("GET", "/v1/tags", self.tags, TagsAnswer, "How many memories have each tag",
                  query=TagsQuery),
            Route("POST", "/v1/context", self.context, ContextAnswer,
                  "The block to put before a prompt", ask=ContextRequest),
        ]  # fmt: skip

    # Memories

    async def list_memories(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: ListQuery = request.query
        rows, cursor, _ = await self._workers.run(self._page, query, self._list_filter(request, query))
        roots = self._services.root_paths()
        return Reply(MemoryPage(memories=[wire_codec.memory_view(row, roots) for row in rows], cursor=cursor or None))

    async def get(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: GetQuery = request.query
        caller, at = wire_codec.caller_of(request), self._as_of(query.as_of)
        if at is None:
            return Reply(self._view(self._memories.resolve(request.path["id"], caller)))
        row = await self._workers.run(self._history.memory_at, request.path["id"], at, caller)
        return Reply(wire_codec.memory_view(row, self._services.root_paths()))

    async def edges(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: EdgesQuery = request.query
        found, cursor = await self._workers.run(
            self._memories.edges, request.path["id"], wire_codec.caller_of(request), query.limit, query.cursor
        )
        roots = self._services.root_paths()
        return Reply(EdgesAnswer(edges=[wire_codec.edge(row, roots) for row in found], cursor=cursor or None))

    async def edit(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        patch: Patch = request.ask
        fields = wire_codec.edited_fields(
            request, patch, self._services.mask_key, self._services.settings.privacy.mask, self._services.store.now()
        )
        caller = wire_codec.caller_of(request)
        if "content" in fields:
            before = self._memories.get(self._memories.resolve(request.path["id"], caller)).memory
            fields["tags"] = wire_codec.tagged_if_sensitive(fields["content"], fields.get("tags", before.tags))
        if_version = None if patch.if_version is UNSET else patch.if_version
        future = self._memories.edit(request.path["id"], fields, if_version, caller)
        done = await asyncio.wrap_future(future)
        await self._services.wait_until_open()  # a write may have found the disk failing
        return Reply(self._view(done.result))

    async def delete(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        caller = wire_codec.caller_of(request)
        memory_id = self._memories.resolve(request.path["id"], caller)
        future = self._memories.delete([memory_id], request.query.why, caller)
        done = await asyncio.wrap_future(future)
        return Reply(DeleteAnswer(deleted=len(done.result), id=memory_id))

    async def delete_many(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: DeleteQuery = request.query
        if query.id:
            return await self._delete_ids(request, query)
        wire_codec.writable_namespace(request)
        if request.namespace is None and not any(getattr(query, name) for name in _ListFilter.__struct_fields__):
            raise bad_value("name at least one filter, the namespace for one: this would delete everything")
        if "trashed" in query.state:
            raise bad_value("what is in the trash is deleted already", "state")
        wanted = self._list_filter(request, query)._replace(without_tags=_hidden_tags(request, []))
        rows, cursor = await self._workers.run(self._memories.page, wanted, DELETE_MAX, "")
        ids = [row.memory.id for row in rows]
        if not query.confirm:
            total = self._services.views.attributes.mask(wanted).sum()
            return Reply(BulkDeleteAnswer(ids=ids, would_delete=int(total)))
        if cursor:
            message = f"more than {DELETE_MAX} memories pass the filter: narrow it"
            raise Refusal(422, "refused", message, field="confirm")
        future = self._memories.delete(ids, "deleted by filter", wire_codec.caller_of(request))
        done = await asyncio.wrap_future(future)
        return Reply(BulkDeleteAnswer(ids=done.result, deleted=len(done.result)))

    async def _delete_ids(self, request: Request, query: DeleteQuery) -> Reply:
        if any(getattr(query, name) for name in _ListFilter.__struct_fields__):
            raise bad_value("give ids or filters, not both", "id")
        caller = wire_codec.caller_of(request)
        ids = [self._memories.resolve(text, caller, f"id[{place}]") for place, text in enumerate(query.id)]
        if not query.confirm:
            return Reply(BulkDeleteAnswer(ids=ids, would_delete=len(ids)))
        done = await asyncio.wrap_future(self._memories.delete(ids, "deleted", caller))
        return Reply(BulkDeleteAnswer(ids=done.result, deleted=len(done.result)))

    async def restore(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        future = self._memories.restore(request.path["id"], wire_codec.caller_of(request))
        done = await asyncio.wrap_future(future)
        await self._services.wait_until_open()  # a write may have found the disk failing
        return Reply(self._view(done.result))

    async def trash(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: TrashQuery = request.query
        states = ("discarded",) if query.set_aside else ("trashed",)
        wanted = MemoryFilter(
            states=states, namespaces=wire_codec.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=_hidden_tags(request, []),
        )  # fmt: skip
        rows, cursor = await self._workers.run(self._memories.page, wanted, query.limit, query.cursor)
        roots = self._services.root_paths()
        views, entries = [], []
        with self._services.store.snapshot() as snapshot:
            for row in rows:
                views.append(wire_codec.memory_view(row, roots))
                entry = snapshot.trash(row.memory.id)
                if entry is not None:
                    entries.append(TrashView(memory=views[-1], at=entry.at, why=entry.why))
        return Reply(TrashPage(memories=views, entries=entries, cursor=cursor or None))

    # Reading

    async def recall(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        asked: RecallRequest = request.ask
        question = self._question(request, asked)
        recalled = await self._recall(question, dry=asked.dry or question.as_of is not None)
        await self._workers.run(self._note_shown, recalled.hits, asked.session_id)
        namespace = request.namespace or asked.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(wire_codec.recall_answer(question, recalled, namespace, self._services.root_paths()))

    async def why(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        asked: WhyRequest = request.ask
        question = self._question(request, asked)
        memory_id = self._memories.resolve(asked.id, wire_codec.caller_of(request), "id")
        with self._services.priority.query_running():
            diagnosis = await self._workers.run(self._services.recall.why, question, memory_id)
        diagnosis.namespace = request.namespace or asked.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(diagnosis)

    async def search(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: SearchQuery = request.query
        asked = RecallRequest(
            query=query.q, top_k=query.limit, token_budget=None, user_id=query.user_id, tags=query.tag,
            ranker="words", preferences="inline", cut="none", rerank=False,
            highlight=query.highlight, as_of=query.as_of, since=_query_time(query.since),
            until=_query_time(query.until),
        )  # fmt: skip
        question = self._question(request, asked)
        recalled = await self._recall(question, dry=True)
        roots = self._services.root_paths()
        memories = [wire_codec.hit_view(hit, roots) for hit in recalled.hits]
        namespace = request.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(SearchAnswer(memories=memories, total=recalled.total, namespace=namespace,
                                           degraded=[*recalled.degraded]))  # fmt: skip

    async def recent(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: RecentQuery = request.query
        wanted = self._list_filter(request, query)
        namespace = request.namespace or wire_codec.DEFAULT_NAMESPACE
        wanted = wanted._replace(namespaces=wire_codec.visible_namespaces(namespace))
        if query.hours is not None:
            wanted = wanted._replace(since=int(self._services.store.now() - query.hours * 3_600_000))
        rows, cursor, total = await self._workers.run(self._page, query, wanted, True)
        roots = self._services.root_paths()
        memories = [RecalledMemory(**msgspec.structs.asdict(wire_codec.memory_view(row, roots))) for row in rows]
        return Reply(SearchAnswer(memories=memories, total=total, namespace=namespace, cursor=cursor or None))

    async def tags(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        query: TagsQuery = request.query
        wanted = MemoryFilter(
            namespaces=wire_codec.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=_hidden_tags(request, []),
            now=self._services.store.now(),
        )  # fmt: skip
        counts = await self._workers.run(self._services.views.attributes.count_tags, wanted)
        return Reply(TagsAnswer(tags=counts, namespace=request.namespace or wire_codec.DEFAULT_NAMESPACE))

    async def context(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        asked: ContextRequest = request.ask
        inner = RecallRequest(
            query=asked.query, top_k=asked.top_k, token_budget=asked.token_budget, user_id=asked.user_id,
            session_id=None, tags=asked.tags, preferences=asked.preferences, cut=asked.cut,
        )  # fmt: skip
        question = self._question(request, inner)
        if SENSITIVE_TAG not in question.filter.tags:
            question = question._replace(filter=question.filter._replace(without_tags=(SENSITIVE_TAG,)))
        question = question._replace(working_session=asked.session_id)
        recalled = await self._recall(question, dry=False)
        block, kept = await self._workers.run(self._context_block, recalled.hits, asked)
        is_cut = len(kept) < len(recalled.hits)
        return Reply(ContextAnswer(
            block=block, total_tokens=len(block) // 4 if is_cut else recalled.total_tokens,
            cut=is_cut or recalled.tokens_needed > 0, abstained=recalled.abstained,
            memories=[hit.details.memory.id for hit in kept],
            namespace=request.namespace or wire_codec.DEFAULT_NAMESPACE, degraded=[*recalled.degraded],
        ))  # fmt: skip

    # What they share

    @property
    def _memories(self) -> MemoryService:
        return self._services.memories

    def _context_block(self, hits: Sequence[Hit], asked: ContextRequest) -> tuple[str, Sequence[Hit]]:
        """The block, and the hits that are in it: as many of the first as its characters allow."""
        root_paths = self._services.root_paths()
        lines = [wire_codec.context_item(hit, root_paths) for hit in hits]
        block = context_block.render_block(lines, dates=asked.dates, ids=asked.ids)
        while asked.max_chars is not None and len(block) > asked.max_chars:
            lines.pop()
            block = context_block.render_block(lines, dates=asked.dates, ids=asked.ids)
        kept = hits[: len(lines)]
        self._note_shown(kept, asked.session_id)
        return block, kept

    def _note_shown(self, hits: Sequence[Hit], session_id: str | None) -> None:
        """Record what is handed out, so that it is not stored as news when it comes back. SPEC 5.5a"""
        rows = [(hit.details.memory.id, hit.details.memory.content) for hit in hits]
        self._services.ingest.record_shown(session_id or "", rows)

    async def _recall(self, question: Question, *, dry: bool) -> RecallOutcome:
        with self._services.priority.query_running():
            recalled = await asyncio.wrap_future(self._services.recall.submit(question))
        if not dry:
            self._services.usage_recorder.record(recalled.hits)
        return recalled

    def _question(self, request: Request, asked: RecallRequest) -> Question:
        return wire_codec.question_of(request, asked, self._services.store.now(), self._services.settings)

    def _view(self, memory_id: str) -> MemoryView:
        return wire_codec.memory_view(self._memories.get(memory_id), self._services.root_paths())

    def _page(self, query: ListQuery, wanted: MemoryFilter, recent: bool = False) -> Any:
        """The rows of a page, where to go on, and how many rows all pages have."""
        then = None
        if (at := self._as_of(query.as_of)) is not None:
            if "trashed" in query.state:
                raise bad_value("`as_of` cannot list trashed memories", "state")
            then = HistoryReader(self._services.store).state_at(at, wanted.without_tags)
            wanted = wanted._replace(now=min(at, wanted.now))
        rows, cursor = self._memories.page(wanted, query.limit, query.cursor, recent=recent, then=then)
        return rows, cursor, self._memories.count(wanted, then) if recent else 0

    def _as_of(self, text: str | None) -> int | None:
        return None if text is None else parse_past_time(text, "as_of", self._services.store.now())

    def _list_filter(self, request: Request, query: _ListFilter) -> MemoryFilter:
        tags, now = [tag.strip().lower() for tag in query.tag], self._services.store.now()
        since, until = parse_interval(_query_time(query.since), _query_time(query.until), now)
        return MemoryFilter(
            namespaces=wire_codec.listed_namespaces(request),
            user_id=query.user_id or "local",
            agent_id=query.agent_id,
            run_id=query.run_id,
            session_id=query.session_id,
            kinds=tuple(query.kind),
            categories=tuple(query.category),
            layers=tuple(query.layer),
            states=tuple(query.state) or ("active", "archived"),
            tags=tuple(tags),
            without_tags=_hidden_tags(request, tags),
            source=query.source,
            speaker=query.speaker,
            since=since,
            until=until,
            now=now,
        )


_NOT_EDITED = frozenset({
    "created_at", "namespace", "user_id", "agent_id", "run_id", "key", "source", "trace", "supersedes",
})  # fmt: skip


def _hidden_tags(request: Request, asked: list[str]) -> tuple[str, ...]:
    """The tags whose memories this request does not see, unless it asks for them."""
    return () if wire_codec.sees_sensitive(request) or SENSITIVE_TAG in asked else (SENSITIVE_TAG,)


def _query_time(value: str | None) -> int | str | None:
    """A time of a query string, where all is text: digits are milliseconds, but four of them a year."""
    if value is None or not value.isdecimal() or len(value) == YEAR_DIGITS or len(value) > MS_DIGITS_MAX:
        return value
    return int(value)
