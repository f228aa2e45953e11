"""The routes of memories: lists, one memory, its edges, edits, the trash, erasure; and of their history: versions, what
changed since, undo, counts of memories by time. SPEC 2.1, 3.3, 3.7, 13"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from mnemo_client.protocol import operations
from mnemo_client.protocol.changes import (
    DiffAnswer,
    DiffQuery,
    HistoryAnswer,
    ShowingView,
    ShownAnswer,
    UndoAnswer,
    UndoRequest,
)
from mnemo_client.protocol.memories import (
    AgentsAnswer,
    AgentView,
    BulkDeleteAnswer,
    DeleteAnswer,
    DeleteQuery,
    EdgesAnswer,
    EmptyTrashQuery,
    EraseAnswer,
    EraseOneRequest,
    EraseRequest,
    ListFilter,
    ListMemoriesQuery,
    ListQuery,
    MemoryPage,
    MemoryPartsQuery,
    MemoryView,
    Patch,
    RecentQuery,
    TagsAnswer,
    TimelineAnswer,
    TimelineQuery,
    TrashPage,
    TrashQuery,
    TrashView,
)
from mnemo_client.protocol.primitives import ScopedPageQuery, ScopedRequest, Time
from mnemo_client.protocol.retrieval import RecalledMemory, SearchAnswer
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.history import SEQ_DIGITS_MAX, History
from mnemo_daemon.memories.memory_columns import range_of, read_timeline
from mnemo_daemon.memories.memory_service import Caller, MemoryDetails, MemoryService
from mnemo_daemon.memories.revert import RevertService
from mnemo_daemon.models.embedders.embedding import lower_thread_priority
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.table_walk import page_behind
from mnemo_daemon.times import parse_bound
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
    def list_memories(self, request: Request) -> MemoryPage:
        query: ListMemoriesQuery = request.query
        roots = self._services.root_paths()
        if query.id:
            if query != ListMemoriesQuery(id=query.id, namespace=query.namespace, limit=query.limit):
                raise bad_value("give ids or filters, not both; of one id, GET /v1/memories/{id} takes `as_of`", "id")
            found, missing = self._memories.get_many(query.id, access.caller_of(request))
            return MemoryPage(memories=self._views(found, roots), missing=missing)
        page = self._page(query, self._list_filter(request))
        return MemoryPage(memories=self._views(page.rows, roots), cursor=page.cursor or None)

    @handles(operations.RECENT)
    def recent(self, request: Request) -> SearchAnswer:
        query: RecentQuery = request.query
        namespace = access.namespace_of(request)
        wanted = self._list_filter(request)._replace(
            namespaces=access.visible_namespaces(namespace),
            min_importance_unasked=self._services.settings.recall_defaults(namespace).min_importance_unasked,
        )
        if query.hours is not None:
            wanted = wanted._replace(since=int(self._services.store.now() - query.hours * 3_600_000))
        page = self._page(query, wanted, "event_at")
        views = self._views(page.rows, self._services.root_paths())
        memories = [RecalledMemory(**msgspec.structs.asdict(view)) for view in views]
        return SearchAnswer(memories=memories, total=page.total, namespace=namespace, cursor=page.cursor or None)

    @handles(operations.TAGS)
    def tags(self, request: Request) -> TagsAnswer:
        query: ScopedRequest = request.query
        counts = self._services.views.attributes.count_tags(self._listed_filter(request, query.user_id))
        return TagsAnswer(tags=counts, namespace=access.namespace_of(request))

    @handles(operations.AGENTS)
    def agents(self, request: Request) -> AgentsAnswer:
        query: ScopedPageQuery = request.query
        rows = self._services.views.attributes.writers(self._listed_filter(request, query.user_id))
        shown, more = page_behind(
            rows, lambda row: (row[0], f"{row[1]:08}"), query.cursor, query.limit, is_descending=True
        )
        return AgentsAnswer(
            agents=[AgentView(agent_id=name, memories=count, last_at=at) for at, _, name, count in shown],
            total=len(rows), cursor=more, namespace=access.namespace_of(request),
        )  # fmt: skip

    @handles(operations.GET)
    async def get(self, request: Request) -> Reply:
        caller, at = access.caller_of(request), self._as_of(request.query.as_of)
        if at is None:
            return Reply(self._memory_view(self._memories.resolve(request.path["id"], caller)))
        history = History(self._services.store, self._memories)
        row = await self._workers.run(history.memory_at, request.path["id"], at, caller)
        return Reply(response_codec.memory_view(row, self._services.root_paths()))

    @handles(operations.EDGES)
    def edges(self, request: Request) -> EdgesAnswer:
        query: MemoryPartsQuery = request.query
        caller, roots = access.caller_of(request), self._services.root_paths()
        found, cursor = self._memories.edges(request.path["id"], caller, query.limit, query.cursor or "")
        return EdgesAnswer(edges=[response_codec.edge_view(*row, roots) for row in found], cursor=cursor or None)

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
        return Reply(msgspec.structs.replace(self._memory_view(done.result), seq=done.seq or None))

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
            if any(getattr(query, name) for name in ListFilter.__struct_fields__):
                raise bad_value("give ids or filters, not both", "id")
            caller = access.caller_of(request)
            ids = [self._memories.resolve(text, caller, f"id[{place}]") for place, text in enumerate(query.id)]
            if not query.confirm:
                return Reply(BulkDeleteAnswer(ids=ids, would_delete=len(ids)))
            done = await asyncio.wrap_future(self._memories.delete(ids, "deleted", caller))
            return Reply(BulkDeleteAnswer(ids=done.result, deleted=len(done.result), seq=done.seq or None))
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

    @handles(operations.RESTORE)
    @handles(operations.RESTORE_FROM_TRASH)
    async def restore(self, request: Request) -> Reply:
        future = self._memories.restore(request.path["id"], access.caller_of(request))
        done = await asyncio.wrap_future(future)
        await self._services.wait_until_open()  # a write may have found the disk failing
        return Reply(msgspec.structs.replace(self._memory_view(done.result), seq=done.seq or None))

    @handles(operations.TRASH)
    def trash(self, request: Request) -> TrashPage:
        query: TrashQuery = request.query
        states = ("discarded",) if query.set_aside else ("trashed",)
        wanted = MemoryFilter(
            states=states, namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request),
        )  # fmt: skip
        rows, cursor = self._memories.page(wanted, query.limit, query.cursor or "", by="modified_at")
        roots = self._services.root_paths()
        views, entries = [], []
        with self._services.store.snapshot() as snapshot:
            for row in rows:
                views.append(response_codec.memory_view(row, roots))
                entry = snapshot.trash(row.memory.id)
                if entry is not None:
                    entries.append(TrashView(memory=views[-1], at=entry.at, why=entry.why))
        return TrashPage(memories=views, entries=entries, cursor=cursor or None)

    # Shared by the handlers

    @property
    def _memories(self) -> MemoryService:
        return self._services.memories

    def _views(self, rows: Sequence[MemoryDetails], roots: Mapping[str, str]) -> list[MemoryView]:
        """The memories of a page as they are answered, made while no query is running."""
        views: list[MemoryView] = []
        for begin in range(0, len(rows), VIEWS_AT_ONCE):
            self._services.priority.yield_to_queries()
            views += [response_codec.memory_view(row, roots) for row in rows[begin : begin + VIEWS_AT_ONCE]]
        return views

    def _page(self, query: ListQuery, wanted: MemoryFilter, by: Literal["event_at"] | None = None) -> _MemoryRows:
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
        rows, cursor = self._memories.page(wanted, query.limit, query.cursor or "", by=by, then=then, only=only)
        return _MemoryRows(rows, cursor, self._memories.count(wanted, then) if by else 0)

    def _as_of(self, time: Time | None) -> int | None:
        return None if time is None else parse_bound(time, "as_of", "until", self._services.store.now())

    def _list_filter(self, request: Request) -> MemoryFilter:
        return request_codec.list_filter(request, request.query, self._services.store.now())


PURGED_MAX = 10_000  # memories that one request by filter forgets


class ErasureApi(Resource):
    """The handlers, for a person alone. Their work takes long: one request after the other runs on a thread."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        own = WorkerPool(1, thread_name_prefix="mnemo-forget", initializer=lower_thread_priority)
        super().__init__(services, workers, own)
        self._erasure: Erasure | None = None  # once a request has used it

    def close(self) -> None:
        """End an erasure that is under way before its next step; the next start finishes it."""
        if self._erasure is not None:
            self._erasure.stop()
        super().close()

    @handles(operations.ERASE)
    async def erase_one(self, request: Request) -> Reply:
        memory_id = self._services.memories.resolve(request.path["id"], access.caller_of(request))
        return await self._erase(request, [memory_id])

    @handles(operations.ERASE_MANY)
    async def erase_many(self, request: Request) -> Reply:
        asked: EraseRequest = request.ask
        if bool(asked.ids) == (asked.filter is not None):
            raise bad_value("name memories by `ids` or by `filter`", "ids")
        if asked.filter is not None:
            ids = self._matching_ids(request_codec.erase_filter(request, asked.filter, self._services.store.now()))
        else:
            ids = await asyncio.to_thread(self._resolved, asked.ids, access.caller_of(request))
        return await self._erase(request, list(dict.fromkeys(ids)))

    @handles(operations.EMPTY_TRASH)
    async def empty_trash(self, request: Request) -> Reply:
        query: EmptyTrashQuery = request.query
        with self._services.operations.running("trash empty") as operation:
            empty = partial(
                self._services.trash.empty, access.listed_namespaces(request), access.caller_of(request).name,
                query.user_id or "local", confirm=query.confirm, is_stopping=self._services.stopped.is_set,
                progress=operation.report,
            )  # fmt: skip
            return Reply(await self._own.run(empty))

    async def _erase(self, request: Request, ids: Sequence[str]) -> Reply:
        asked: EraseRequest | EraseOneRequest = request.ask
        erasure = self._erasure = self._services.erasure
        if not ids:
            return Reply(EraseAnswer(purged=[], derived=[], dry_run=asked.dry_run))
        if asked.dry_run:
            return Reply(await self._own.run(erasure.plan, ids))
        by = access.caller_of(request).name
        with self._services.operations.running("forget") as operation:
            erase = partial(
                erasure.erase, ids, by, quoting=asked.quoting, everywhere=asked.everywhere, progress=operation.report
            )
            return Reply(await self._own.run(erase))

    def _resolved(self, texts: Sequence[str], caller: Caller) -> list[str]:
        services, ids = self._services, list[str]()
        for at, text in enumerate(texts):
            try:
                ids.append(services.memories.resolve(text, caller, f"ids[{at}]"))
            except Refusal as refused:
                if refused.code == "not_found" and (erased := services.erasure.find_erased(text)):
                    waiting = [
                        name for each in services.sync.erasure_states() if each.id == erased for name in each.waiting
                    ]
                    more = f"; it waits for {', '.join(waiting)}: mnemo forget --status" if waiting else ""
                    refused.message = f"memory {erased} is erased already{more}"
                raise
        return ids

    def _matching_ids(self, wanted: MemoryFilter) -> list[str]:
        """The ids of what passes the filter. Raises a Refusal for too many."""
        columns = self._services.views.attributes
        numbers = np.flatnonzero(columns.mask(wanted))
        if len(numbers) > PURGED_MAX:
            message = (
                f"{len(numbers)} memories pass the filter, and at most {PURGED_MAX} are forgotten at once: narrow it"
            )
            raise Refusal(422, "refused", message, field="filter")
        return columns.ids(numbers)


IDS_SHOWN = 500  # of what an undo put back

_SEQ = "seq:"


class HistoryApi(Resource):
    """The handlers. Whole histories are read, so everything goes to a thread."""

    @handles(operations.HISTORY)
    def history(self, request: Request) -> HistoryAnswer:
        query: MemoryPartsQuery = request.query
        rows, cursor = self._history.versions(
            request.path["id"], access.caller_of(request), query.limit, query.cursor or ""
        )
        roots, names = self._services.root_paths(), self._services.sync.names()
        versions = [response_codec.version(row, roots, names) for row in rows]
        return HistoryAnswer(versions=versions, cursor=cursor or None)

    @handles(operations.SHOWN)
    def shown(self, request: Request) -> ShownAnswer:
        query: MemoryPartsQuery = request.query
        memory_id = self._services.memories.resolve(request.path["id"], access.caller_of(request))
        found = self._services.shown_recorder.of_memory(memory_id)
        behind = [each for each in found if query.cursor is None or each.id < query.cursor]
        page = behind[: query.limit]
        views = [
            ShowingView(
                answer=each.id, at=each.at, operation=each.operation, by=each.by, rank=each.rank,
                session_id=each.session_id or None,
            )
            for each in page
        ]  # fmt: skip
        return ShownAnswer(shown=views, total=len(found), cursor=page[-1].id if len(behind) > len(page) else None)

    @handles(operations.UNDO)
    def undo(self, request: Request) -> UndoAnswer:
        asked: UndoRequest = request.ask
        if len([each for each in (asked.seq, asked.group, asked.cycle) if each is not None]) > 1:
            raise bad_value("give one of `seq`, `group` and `cycle`", "group")
        if asked.cycle is not None:
            access.refuse_agents(request)
        done = RevertService(self._services.store).revert(
            asked.seq, asked.group, access.caller_of(request), cycle=asked.cycle, dry_run=asked.dry_run
        )
        return UndoAnswer(
            seq=done.seqs[-1], what=done.what, ids=done.ids[:IDS_SHOWN], dry_run=asked.dry_run, total=len(done.ids),
            seqs=done.seqs[-IDS_SHOWN:], undo_seq=done.made or None, undo_group=done.group or None,
        )  # fmt: skip

    @property
    def _history(self) -> History:
        return History(self._services.store, self._services.memories)

    @handles(operations.DIFF)
    def diff(self, request: Request) -> DiffAnswer:
        query: DiffQuery = request.query
        since = self._seq(str(query.since), "since")
        until = self._seq(str(query.until), "until") if query.until is not None else None
        if until is not None and until < since:
            raise bad_value("`until` lies before `since`", "until")
        rows, span, cursor = self._history.differences(
            self._history.span(since, until), access.listed_namespaces(request), query.user_id or "local",
            access.caller_of(request), query.limit, query.cursor or "",
        )  # fmt: skip
        roots = self._services.root_paths()
        shown = [response_codec.difference(row, roots, self._services.sync.names()) for row in rows]
        return DiffAnswer(
            since_seq=span.since,
            until_seq=span.until,
            added=[row for row in shown if row.how in ("added", "restored")],
            changed=[row for row in shown if row.how == "changed"],
            removed=[row for row in shown if row.how in ("trashed", "dropped")],
            namespace=access.namespace_of(request),
            cursor=cursor or None,
        )

    def _seq(self, text: str, field: Literal["since", "until"]) -> int:
        """The seq that `seq:N` names, or that of the last change up to a time. Raises a Refusal."""
        number = text.removeprefix(_SEQ)
        if number != text:
            if not number.isdecimal() or len(number) > SEQ_DIGITS_MAX:
                raise bad_value(f"`{field}` is a time, or `seq:` and the number of a change", field)
            return int(number)
        at = parse_bound(text, field, field, self._services.store.now())
        return self._history.reader.seq_at(at)

    @handles(operations.TIMELINE)
    def timeline(self, request: Request) -> TimelineAnswer:
        query: TimelineQuery = request.query
        now = self._services.store.now()
        wanted = request_codec.list_filter(request, query, now)
        span = range_of(wanted.since, wanted.until, query.step, now)
        self._services.priority.yield_to_queries()
        answer = read_timeline(self._services.views.attributes, wanted, query.by, query.step, span)
        answer.namespace = access.namespace_of(request)
        return answer
