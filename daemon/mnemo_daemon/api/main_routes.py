"""The routes of /v1: a handler decides nothing, it asks a service and shapes the answer. SPEC 13."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

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
from mnemo_client.protocol.status import (
    ConfigAnswer,
    ConfigValue,
    HealthAnswer,
    ModelsAnswer,
    NewRootRequest,
    NotesRootStatus,
    NotesStatus,
    ReindexAnswer,
    ReindexRequest,
    StatusAnswer,
    UseModelRequest,
)
from mnemo_core.retrieval import context_block
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api import wire_codec
from mnemo_daemon.api.backup_routes import BackupApi, refuse_agents
from mnemo_daemon.api.check_routes import CheckApi
from mnemo_daemon.api.erasure_routes import ErasureApi
from mnemo_daemon.api.history_routes import HistoryApi
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.transfer_routes import TransferApi
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.times import MS_DIGITS_MAX, parse_interval, parse_past_time
from mnemo_store.indexes.attributes import MemoryFilter

T = TypeVar("T")

THREADS = 4  # for what reads or waits off the loop; recall has threads of its own
RESCAN_SECONDS_MAX = 50.0  # how long a rescan is waited for; clients wait 60 s for an answer
RESCAN_POLL_SECONDS = 0.01
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


class RootQuery(RequestBody):
    path: str | None = None
    id: str | None = None


class Api:
    """The handlers. Whatever reads more than a record goes to a thread; the loop only shapes answers."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mnemo-api")
        self._ingest = IngestApi(daemon)
        self._transfer = TransferApi(daemon)
        self._history = HistoryApi(daemon, self._on_thread)
        self._checks = CheckApi(daemon)
        self._erasure = ErasureApi(daemon)

    def close(self) -> None:
        self._erasure.close()
        self._transfer.close()
        self._checks.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def routes(self) -> list[Route]:
        own = [*self._memory_routes(), *self._reading_routes(), *self._part_routes()]
        parts = (self._ingest, self._history, self._transfer, BackupApi(self._daemon), self._checks, self._erasure)
        return [*own, *(route for part in parts for route in part.routes())]

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

    def _part_routes(self) -> list[Route]:
        status = ("/status", "/v1/status")
        health = ("/health", "/v1/health")
        return [
            *(Route("GET", path, self.status, StatusAnswer, "The state of every part") for path in status),
            *(Route("GET", path, self.health, HealthAnswer, "Whether it is alive") for path in health),
            Route("GET", "/v1/config", self.config, ConfigAnswer, "Each setting and where it came from"),
            Route("POST", "/v1/shutdown", self.shutdown, dict[str, Any], "Finish what was begun, and stop"),
            Route("GET", "/v1/models", self.models, ModelsAnswer, "The catalogue, and what is in use"),
            Route("POST", "/v1/models/use", self.use_model, ModelsAnswer, "Switch to an installed model",
                  ask=UseModelRequest),
            Route("POST", "/v1/models/reindex", self.reindex, ReindexAnswer, "Fill the vectors anew",
                  ask=ReindexRequest),
            Route("GET", "/v1/notes/roots", self.notes_status, NotesStatus, "The watched folders"),
            Route("POST", "/v1/notes/roots", self.add_root, NotesRootStatus, "Watch a folder",
                  ask=NewRootRequest),
            Route("DELETE", "/v1/notes/roots", self.remove_root, BulkDeleteAnswer,
                  "Watch it no more; its memories go to the trash", query=RootQuery),
            Route("GET", "/v1/notes/status", self.notes_status, NotesStatus, "Folders, and what was skipped"),
            Route("POST", "/v1/notes/rescan", self.rescan, NotesStatus, "Compare every folder now"),
        ]  # fmt: skip

    # Memories

    async def list_memories(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: ListQuery = request.query
        rows, cursor, _ = await self._on_thread(self._page, query, self._list_filter(request, query))
        roots = self._daemon.root_paths()
        return Reply(MemoryPage(memories=[wire_codec.memory_view(row, roots) for row in rows], cursor=cursor or None))

    async def get(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: GetQuery = request.query
        caller, at = wire_codec.caller_of(request), self._as_of(query.as_of)
        if at is None:
            return Reply(self._view(self._memories.resolve(request.path["id"], caller)))
        row = await self._on_thread(self._history.memory_at, request.path["id"], at, caller)
        return Reply(wire_codec.memory_view(row, self._daemon.root_paths()))

    async def edges(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: EdgesQuery = request.query
        found, cursor = await self._on_thread(
            self._memories.edges, request.path["id"], wire_codec.caller_of(request), query.limit, query.cursor
        )
        roots = self._daemon.root_paths()
        return Reply(EdgesAnswer(edges=[wire_codec.edge(row, roots) for row in found], cursor=cursor or None))

    async def edit(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        patch: Patch = request.ask
        fields = wire_codec.edited_fields(
            request, patch, self._daemon.mask_key, self._daemon.settings.privacy.mask, self._daemon.store.now()
        )
        caller = wire_codec.caller_of(request)
        if "content" in fields:
            before = self._memories.get(self._memories.resolve(request.path["id"], caller)).memory
            fields["tags"] = wire_codec.tagged_if_sensitive(fields["content"], fields.get("tags", before.tags))
        if_version = None if patch.if_version is UNSET else patch.if_version
        future = self._memories.edit(request.path["id"], fields, if_version, caller)
        done = await asyncio.wrap_future(future)
        await self._daemon.wait_until_open()  # a write may have found the disk failing
        return Reply(self._view(done.result))

    async def delete(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        caller = wire_codec.caller_of(request)
        memory_id = self._memories.resolve(request.path["id"], caller)
        future = self._memories.delete([memory_id], request.query.why, caller)
        done = await asyncio.wrap_future(future)
        return Reply(DeleteAnswer(deleted=len(done.result), id=memory_id))

    async def delete_many(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: DeleteQuery = request.query
        if query.id:
            return await self._delete_ids(request, query)
        wire_codec.writable_namespace(request)
        if request.namespace is None and not any(getattr(query, name) for name in _ListFilter.__struct_fields__):
            raise bad_value("name at least one filter, the namespace for one: this would delete everything")
        if "trashed" in query.state:
            raise bad_value("what is in the trash is deleted already", "state")
        wanted = self._list_filter(request, query)._replace(without_tags=_hidden_tags(request, []))
        rows, cursor = await self._on_thread(self._memories.page, wanted, DELETE_MAX, "")
        ids = [row.memory.id for row in rows]
        if not query.confirm:
            total = self._daemon.views.attributes.mask(wanted).sum()
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
        await self._daemon.wait_until_open()
        future = self._memories.restore(request.path["id"], wire_codec.caller_of(request))
        done = await asyncio.wrap_future(future)
        await self._daemon.wait_until_open()  # a write may have found the disk failing
        return Reply(self._view(done.result))

    async def trash(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: TrashQuery = request.query
        states = ("discarded",) if query.set_aside else ("trashed",)
        wanted = MemoryFilter(
            states=states, namespaces=wire_codec.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=_hidden_tags(request, []),
        )  # fmt: skip
        rows, cursor = await self._on_thread(self._memories.page, wanted, query.limit, query.cursor)
        roots = self._daemon.root_paths()
        views, entries = [], []
        with self._daemon.store.snapshot() as snapshot:
            for row in rows:
                views.append(wire_codec.memory_view(row, roots))
                entry = snapshot.trash(row.memory.id)
                if entry is not None:
                    entries.append(TrashView(memory=views[-1], at=entry.at, why=entry.why))
        return Reply(TrashPage(memories=views, entries=entries, cursor=cursor or None))

    # Reading

    async def recall(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        asked: RecallRequest = request.ask
        question = self._question(request, asked)
        recalled = await self._recall(question, dry=asked.dry or question.as_of is not None)
        await self._on_thread(self._note_shown, recalled.hits, asked.session_id)
        namespace = request.namespace or asked.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(wire_codec.recall_answer(question, recalled, namespace, self._daemon.root_paths()))

    async def why(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        asked: WhyRequest = request.ask
        question = self._question(request, asked)
        memory_id = self._memories.resolve(asked.id, wire_codec.caller_of(request), "id")
        with self._daemon.priority.query_running():
            told = await self._on_thread(self._daemon.recall.why, question, memory_id)
        told.namespace = request.namespace or asked.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(told)

    async def search(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: SearchQuery = request.query
        asked = RecallRequest(
            query=query.q, top_k=query.limit, token_budget=None, user_id=query.user_id, tags=query.tag,
            ranker="words", preferences="inline", cut="none", rerank=False,
            highlight=query.highlight, as_of=query.as_of, since=_query_time(query.since),
            until=_query_time(query.until),
        )  # fmt: skip
        question = self._question(request, asked)
        recalled = await self._recall(question, dry=True)
        roots = self._daemon.root_paths()
        memories = [wire_codec.hit_view(hit, roots) for hit in recalled.hits]
        namespace = request.namespace or wire_codec.DEFAULT_NAMESPACE
        return Reply(SearchAnswer(memories=memories, total=recalled.total, namespace=namespace,
                                           degraded=[*recalled.degraded]))  # fmt: skip

    async def recent(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: RecentQuery = request.query
        wanted = self._list_filter(request, query)
        namespace = request.namespace or wire_codec.DEFAULT_NAMESPACE
        wanted = wanted._replace(namespaces=wire_codec.visible_namespaces(namespace))
        if query.hours is not None:
            wanted = wanted._replace(since=int(self._daemon.store.now() - query.hours * 3_600_000))
        rows, cursor, total = await self._on_thread(self._page, query, wanted, True)
        roots = self._daemon.root_paths()
        memories = [RecalledMemory(**msgspec.structs.asdict(wire_codec.memory_view(row, roots))) for row in rows]
        return Reply(SearchAnswer(memories=memories, total=total, namespace=namespace, cursor=cursor or None))

    async def tags(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        query: TagsQuery = request.query
        wanted = MemoryFilter(
            namespaces=wire_codec.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=_hidden_tags(request, []),
            now=self._daemon.store.now(),
        )  # fmt: skip
        counts = await self._on_thread(self._daemon.views.attributes.count_tags, wanted)
        return Reply(TagsAnswer(tags=counts, namespace=request.namespace or wire_codec.DEFAULT_NAMESPACE))

    async def context(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
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
        block, kept = await self._on_thread(self._context_block, recalled.hits, asked)
        is_cut = len(kept) < len(recalled.hits)
        return Reply(ContextAnswer(
            block=block, total_tokens=len(block) // 4 if is_cut else recalled.total_tokens,
            cut=is_cut or recalled.tokens_needed > 0, abstained=recalled.abstained,
            memories=[hit.details.memory.id for hit in kept],
            namespace=request.namespace or wire_codec.DEFAULT_NAMESPACE, degraded=[*recalled.degraded],
        ))  # fmt: skip

    # The parts

    async def health(self, _: Request) -> Reply:
        state, _reasons = self._daemon.state()
        return Reply(HealthAnswer(ok=self._daemon.is_sound(), state=state, version=self._daemon.version))

    async def status(self, _: Request) -> Reply:
        return Reply(await self._on_thread(self._daemon.status))

    async def config(self, _: Request) -> Reply:
        configuration = self._daemon.configuration
        values = [ConfigValue(key=row.key, value=row.value, origin=row.origin) for row in configuration.describe()]
        return Reply(ConfigAnswer(values=values, file=str(configuration.folders.config_file)))

    async def shutdown(self, request: Request) -> Reply:
        refuse_agents(request)
        self._daemon.request_stop()
        return Reply({"stopping": True, "pid": os.getpid()})

    async def models(self, _: Request) -> Reply:
        return Reply(await self._on_thread(self._daemon.list_models))

    async def use_model(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        refuse_agents(request)
        await self._on_thread(self._daemon.use_model, request.ask.name)
        return Reply(await self._on_thread(self._daemon.list_models))

    async def reindex(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        refuse_agents(request)
        return Reply(await self._on_thread(self._daemon.reindex, request.ask))

    async def notes_status(self, _: Request) -> Reply:
        await self._daemon.wait_until_open()
        return Reply(await self._on_thread(self._daemon.notes_status))

    async def add_root(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        refuse_agents(request)
        asked: NewRootRequest = request.ask
        namespace = wire_codec.writable_namespace(request, asked.namespace)
        return Reply(await self._on_thread(self._daemon.add_root, asked.path, namespace))

    async def remove_root(self, request: Request) -> Reply:
        await self._daemon.wait_until_open()
        refuse_agents(request)
        query: RootQuery = request.query
        if (query.path is None) == (query.id is None):
            raise bad_value("give the folder's `path` or its `id`", "path")
        ids = await self._on_thread(self._daemon.remove_root, query.id or query.path)
        return Reply(BulkDeleteAnswer(ids=ids[:DELETE_MAX], deleted=len(ids)))

    async def rescan(self, _: Request) -> Reply:
        await self._daemon.wait_until_open()
        daemon, loop = self._daemon, asyncio.get_running_loop()
        await self._on_thread(daemon.notes.rescan)
        deadline = loop.time() + RESCAN_SECONDS_MAX
        while not daemon.stopped.is_set() and loop.time() < deadline:
            if daemon.notes.wait_until_settled(0.0):
                break
            await asyncio.sleep(RESCAN_POLL_SECONDS)  # no thread waits here: recalls need those
        return Reply(await self._on_thread(self._daemon.notes_status))

    # What they share

    @property
    def _memories(self) -> MemoryService:
        return self._daemon.memories

    async def _on_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _context_block(self, hits: Sequence[Hit], asked: ContextRequest) -> tuple[str, Sequence[Hit]]:
        """The block, and the hits that are in it: as many of the first as its characters allow."""
        root_paths = self._daemon.root_paths()
        lines = [wire_codec.context_item(hit, root_paths) for hit in hits]
        block = context_block.render_block(lines, dates=asked.dates, ids=asked.ids)
        while asked.max_chars is not None and len(block) > asked.max_chars:
            lines.pop()
            block = context_block.render_block(lines, dates=asked.dates, ids=asked.ids)
        kept = hits[: len(lines)]
        self._note_shown(kept, asked.session_id)
        return block, kept

    def _note_shown(self, hits: Sequence[Hit], session_id: str | None) -> None:
        """What is handed out here is not taken for news when it comes back. SPEC 5.5a"""
        rows = [(hit.details.memory.id, hit.details.memory.content) for hit in hits]
        self._daemon.ingest.record_shown(session_id or "", rows)

    async def _recall(self, question: Question, *, dry: bool) -> RecallOutcome:
        with self._daemon.priority.query_running():
            recalled = await asyncio.wrap_future(self._daemon.recall.submit(question))
        if not dry:
            self._daemon.usage.record(recalled.hits)
        return recalled

    def _question(self, request: Request, asked: RecallRequest) -> Question:
        return wire_codec.question_of(request, asked, self._daemon.store.now(), self._daemon.settings)

    def _view(self, memory_id: str) -> MemoryView:
        return wire_codec.memory_view(self._memories.get(memory_id), self._daemon.root_paths())

    def _page(self, query: ListQuery, wanted: MemoryFilter, recent: bool = False) -> Any:
        """The rows of a page, where to go on, and how many rows all pages have."""
        then = None
        if (at := self._as_of(query.as_of)) is not None:
            if "trashed" in query.state:
                raise bad_value("of another time only what was not in the trash is told", "state")
            then = HistoryReader(self._daemon.store).state_at(at, wanted.without_tags)
            wanted = wanted._replace(now=min(at, wanted.now))
        rows, cursor = self._memories.page(wanted, query.limit, query.cursor, recent=recent, then=then)
        return rows, cursor, self._memories.count(wanted, then) if recent else 0

    def _as_of(self, text: str | None) -> int | None:
        return None if text is None else parse_past_time(text, "as_of", self._daemon.store.now())

    def _list_filter(self, request: Request, query: _ListFilter) -> MemoryFilter:
        tags, now = [tag.strip().lower() for tag in query.tag], self._daemon.store.now()
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
