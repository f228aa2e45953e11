"""The routes of memories: lists, one memory, its edges, edits, the trash. SPEC 2.1, 3.7, 13"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import (
    AgentsAnswer,
    AgentView,
    BulkDeleteAnswer,
    DeleteAnswer,
    DeleteQuery,
    EdgesAnswer,
    ListFilter,
    ListMemoriesQuery,
    ListQuery,
    MemoryPage,
    MemoryPartsQuery,
    MemoryView,
    Patch,
    RecentQuery,
    TagsAnswer,
    TrashPage,
    TrashQuery,
    TrashView,
)
from mnemo_client.protocol.primitives import ScopedPageQuery, ScopedRequest, Time
from mnemo_client.protocol.retrieval import RecalledMemory, SearchAnswer
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.history import History
from mnemo_daemon.memories.memory_service import MemoryDetails, MemoryService
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_daemon.times import parse_past_time
from mnemo_store.indexes.attributes import MemoryFilter

DELETE_MAX = 500  # memories that one DELETE by filter takes
VIEWS_AT_ONCE = 50  # of a page that are made before queries go first


class _MemoryRows(NamedTuple):
    """The rows of one page; `total` counts those of all pages, where it was asked for."""

    rows: list[MemoryDetails]
    cursor: str
    total: int = 0


class MemoriesApi(Resource):
    """The handlers of single memories and of lists of them."""

    @handles(operations.LIST_MEMORIES)
    async def list_memories(self, request: Request) -> Reply:
        query: ListMemoriesQuery = request.query
        if query.id:
            return Reply(await self._workers.run(self._listed, request, query))
        page = await self._workers.run(self._page, request.query, self._list_filter(request))
        roots = self._services.root_paths()
        memories = await self._workers.run(self._views, page.rows, roots)
        return Reply(MemoryPage(memories=memories, cursor=page.cursor or None))

    @handles(operations.RECENT)
    async def recent(self, request: Request) -> Reply:
        query: RecentQuery = request.query
        namespace = access.namespace_of(request)
        wanted = self._list_filter(request)._replace(
            namespaces=access.visible_namespaces(namespace),
            min_importance_unasked=self._services.settings.recall_defaults(namespace).min_importance_unasked,
        )
        if query.hours is not None:
            wanted = wanted._replace(since=int(self._services.store.now() - query.hours * 3_600_000))
        page = await self._workers.run(self._page, query, wanted, True)
        roots = self._services.root_paths()
        views = await self._workers.run(self._views, page.rows, roots)
        memories = [RecalledMemory(**msgspec.structs.asdict(view)) for view in views]
        return Reply(SearchAnswer(memories=memories, total=page.total, namespace=namespace, cursor=page.cursor or None))

    @handles(operations.TAGS)
    async def tags(self, request: Request) -> Reply:
        query: ScopedRequest = request.query
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request),
            now=self._services.store.now(),
        )  # fmt: skip
        counts = await self._workers.run(self._services.views.attributes.count_tags, wanted)
        return Reply(TagsAnswer(tags=counts, namespace=access.namespace_of(request)))

    @handles(operations.AGENTS)
    async def agents(self, request: Request) -> Reply:
        query: ScopedPageQuery = request.query
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip
        rows = await self._workers.run(self._services.views.attributes.writers, wanted)
        after = place_at(query.cursor)
        behind = [row for row in rows if after is None or (row[0], f"{row[1]:08}") < after]
        shown = behind[: query.limit]
        is_end = len(shown) == len(behind)
        return Reply(AgentsAnswer(
            agents=[AgentView(agent_id=name, memories=count, last_at=at) for at, _, name, count in shown],
            total=len(rows), cursor=None if is_end else cursor_at((shown[-1][0], f"{shown[-1][1]:08}")),
            namespace=access.namespace_of(request),
        ))  # fmt: skip

    @handles(operations.GET)
    async def get(self, request: Request) -> Reply:
        caller, at = access.caller_of(request), self._as_of(request.query.as_of)
        if at is None:
            return Reply(self._view(self._memories.resolve(request.path["id"], caller)))
        history = History(self._services.store, self._memories)
        row = await self._workers.run(history.memory_at, request.path["id"], at, caller)
        return Reply(response_codec.memory_view(row, self._services.root_paths()))

    @handles(operations.EDGES)
    async def edges(self, request: Request) -> Reply:
        query: MemoryPartsQuery = request.query
        found, cursor = await self._workers.run(
            self._memories.edges, request.path["id"], access.caller_of(request), query.limit, query.cursor or ""
        )
        roots = self._services.root_paths()
        return Reply(EdgesAnswer(edges=[response_codec.edge(row, roots) for row in found], cursor=cursor or None))

    @handles(operations.PATCH)
    async def edit(self, request: Request) -> Reply:
        patch: Patch = request.ask
        now = self._services.store.now()
        fields = request_codec.edited_fields(request, patch, self._services.secret_policy(), now)
        caller = access.caller_of(request)
        if "content" in fields:
            before = self._memories.get(self._memories.resolve(request.path["id"], caller)).memory
            fields["tags"] = request_codec.tagged_if_sensitive(
                fields["content"], fields.get("tags", before.tags), access.trust_of(request)
            )
        if_version = None if patch.if_version is UNSET else patch.if_version
        future = self._memories.edit(request.path["id"], fields, if_version, caller)
        done = await asyncio.wrap_future(future)
        await self._services.wait_until_open()  # a write may have found the disk failing
        return Reply(msgspec.structs.replace(self._view(done.result), seq=done.seq or None))

    @handles(operations.DELETE)
    async def delete(self, request: Request) -> Reply:
        caller = access.caller_of(request)
        memory_id = self._memories.resolve(request.path["id"], caller)
        future = self._memories.delete([memory_id], request.query.why, caller)
        done = await asyncio.wrap_future(future)
        return Reply(DeleteAnswer(deleted=len(done.result), id=memory_id, seq=done.seq or None))

    @handles(operations.DELETE_MANY)
    async def delete_many(self, request: Request) -> Reply:
        query: DeleteQuery = request.query
        if query.id:
            return await self._delete_ids(request, query)
        access.writable_namespace(request)
        if request.namespace is None and not any(getattr(query, name) for name in ListFilter.__struct_fields__):
            raise bad_value("name at least one filter, the namespace for one: this would delete everything")
        if "trashed" in query.states:
            raise bad_value("what is in the trash is deleted already", "state")
        wanted = self._list_filter(request)._replace(without_tags=access.hidden_tags(request))
        rows, cursor = await self._workers.run(self._memories.page, wanted, DELETE_MAX, "")
        ids = [row.memory.id for row in rows]
        if not query.confirm:
            total = self._services.views.attributes.mask(wanted).sum()
            return Reply(BulkDeleteAnswer(ids=ids, would_delete=int(total)))
        if cursor:
            message = f"more than {DELETE_MAX} memories pass the filter: narrow it"
            raise Refusal(422, "refused", message, field="confirm")
        future = self._memories.delete(ids, "deleted by filter", access.caller_of(request))
        done = await asyncio.wrap_future(future)
        return Reply(BulkDeleteAnswer(ids=done.result, deleted=len(done.result), seq=done.seq or None))

    async def _delete_ids(self, request: Request, query: DeleteQuery) -> Reply:
        if any(getattr(query, name) for name in ListFilter.__struct_fields__):
            raise bad_value("give ids or filters, not both", "id")
        caller = access.caller_of(request)
        ids = [self._memories.resolve(text, caller, f"id[{place}]") for place, text in enumerate(query.id)]
        if not query.confirm:
            return Reply(BulkDeleteAnswer(ids=ids, would_delete=len(ids)))
        done = await asyncio.wrap_future(self._memories.delete(ids, "deleted", caller))
        return Reply(BulkDeleteAnswer(ids=done.result, deleted=len(done.result), seq=done.seq or None))

    @handles(operations.RESTORE)
    @handles(operations.RESTORE_FROM_TRASH)
    async def restore(self, request: Request) -> Reply:
        future = self._memories.restore(request.path["id"], access.caller_of(request))
        done = await asyncio.wrap_future(future)
        await self._services.wait_until_open()  # a write may have found the disk failing
        return Reply(msgspec.structs.replace(self._view(done.result), seq=done.seq or None))

    @handles(operations.TRASH)
    async def trash(self, request: Request) -> Reply:
        query: TrashQuery = request.query
        states = ("discarded",) if query.set_aside else ("trashed",)
        wanted = MemoryFilter(
            states=states, namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request),
        )  # fmt: skip
        rows, cursor = await self._workers.run(self._memories.page, wanted, query.limit, query.cursor or "")
        roots = self._services.root_paths()
        views, entries = [], []
        with self._services.store.snapshot() as snapshot:
            for row in rows:
                views.append(response_codec.memory_view(row, roots))
                entry = snapshot.trash(row.memory.id)
                if entry is not None:
                    entries.append(TrashView(memory=views[-1], at=entry.at, why=entry.why))
        return Reply(TrashPage(memories=views, entries=entries, cursor=cursor or None))

    # Shared by the handlers

    @property
    def _memories(self) -> MemoryService:
        return self._services.memories

    def _view(self, memory_id: str) -> MemoryView:
        return response_codec.memory_view(self._memories.get(memory_id), self._services.root_paths())

    def _views(self, rows: Sequence[MemoryDetails], roots: Mapping[str, str]) -> list[MemoryView]:
        """The memories of a page as they are answered, made while no query is running."""
        views: list[MemoryView] = []
        for begin in range(0, len(rows), VIEWS_AT_ONCE):
            self._services.priority.yield_to_queries()
            views += [response_codec.memory_view(row, roots) for row in rows[begin : begin + VIEWS_AT_ONCE]]
        return views

    def _listed(self, request: Request, query: ListMemoriesQuery) -> MemoryPage:
        """The memories whose ids the request names."""
        if query != ListMemoriesQuery(id=query.id, namespace=query.namespace, limit=query.limit):
            raise bad_value("give ids or filters, not both; of one id, GET /v1/memories/{id} takes `as_of`", "id")
        found, missing = self._memories.get_many(query.id, access.caller_of(request), "id")
        return MemoryPage(memories=self._views(found, self._services.root_paths()), missing=missing)

    def _page(self, query: ListQuery, wanted: MemoryFilter, recent: bool = False) -> _MemoryRows:
        then = None
        if (at := self._as_of(query.as_of)) is not None:
            if "trashed" in query.states:
                raise bad_value("`as_of` cannot list trashed memories", "state")
            then = HistoryReader(self._services.store).state_at(at, wanted.without_tags)
            wanted = wanted._replace(now=min(at, wanted.now))
        self._services.priority.yield_to_queries()
        only = None
        if isinstance(query, ListMemoriesQuery) and query.key is not None:
            if len(wanted.namespaces) != 1:
                raise bad_value("a key names a memory of one namespace", "key")
            if (only := self._memories.id_by_key(wanted.namespaces[0], wanted.user_id, query.key)) is None:
                return _MemoryRows([], "")
        rows, cursor = self._memories.page(wanted, query.limit, query.cursor or "", recent=recent, then=then, only=only)
        return _MemoryRows(rows, cursor, self._memories.count(wanted, then) if recent else 0)

    def _as_of(self, time: Time | None) -> int | None:
        return None if time is None else parse_past_time(time, "as_of", self._services.store.now())

    def _list_filter(self, request: Request) -> MemoryFilter:
        return request_codec.list_filter(request, request.query, self._services.store.now())
