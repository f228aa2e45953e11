"""The routes of the history: versions, what changed since, undo. SPEC 3.3, 13."""

from typing import Literal

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
from mnemo_client.protocol.memories import MemoryPartsQuery
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import bad_value
from mnemo_daemon.memories.history import SEQ_DIGITS_MAX, History, SeqRange
from mnemo_daemon.memories.revert import RevertService
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.times import parse_bound

IDS_SHOWN = 500  # of what an undo put back

_SEQ = "seq:"


class HistoryApi(Resource):
    """The handlers. Whole histories are read, so everything goes to a thread."""

    @handles(operations.HISTORY)
    async def history(self, request: Request) -> Reply:
        query: MemoryPartsQuery = request.query
        rows, cursor = await self._workers.run(
            self._history.versions, request.path["id"], access.caller_of(request), query.limit, query.cursor or ""
        )
        roots = self._services.root_paths()
        return Reply(
            HistoryAnswer(
                versions=[response_codec.version(row, roots, self._services.sync.names()) for row in rows],
                cursor=cursor or None,
            )
        )

    @handles(operations.SHOWN)
    async def shown(self, request: Request) -> Reply:
        query: MemoryPartsQuery = request.query
        memory_id = self._services.memories.resolve(request.path["id"], access.caller_of(request))
        found = await self._workers.run(self._services.shown_recorder.of_memory, memory_id)
        behind = [each for each in found if query.cursor is None or each.id < query.cursor]
        page = behind[: query.limit]
        views = [
            ShowingView(
                answer=each.id, at=each.at, operation=each.operation, by=each.by, rank=each.rank,
                session_id=each.session_id or None,
            )
            for each in page
        ]  # fmt: skip
        return Reply(ShownAnswer(
            shown=views, total=len(found), cursor=page[-1].id if len(behind) > len(page) else None
        ))  # fmt: skip

    @handles(operations.UNDO)
    async def undo(self, request: Request) -> Reply:
        asked: UndoRequest = request.ask
        if len([each for each in (asked.seq, asked.group, asked.cycle) if each is not None]) > 1:
            raise bad_value("give one of `seq`, `group` and `cycle`", "group")
        if asked.cycle is not None:
            access.refuse_agents(request)
        undoing, caller = RevertService(self._services.store), access.caller_of(request)
        done = await self._workers.run(
            lambda: undoing.revert(asked.seq, asked.group, caller, cycle=asked.cycle, dry_run=asked.dry_run)
        )
        return Reply(UndoAnswer(
            seq=done.seqs[-1], what=done.what, ids=done.ids[:IDS_SHOWN], dry_run=asked.dry_run, total=len(done.ids),
            seqs=done.seqs[-IDS_SHOWN:], undo_seq=done.made or None, undo_group=done.group or None,
        ))  # fmt: skip

    @property
    def _history(self) -> History:
        return History(self._services.store, self._services.memories)

    @handles(operations.DIFF)
    def diff(self, request: Request) -> DiffAnswer:
        query: DiffQuery = request.query
        rows, span, cursor = self._history.differences(
            self._span(query), access.listed_namespaces(request), query.user_id or "local",
            access.caller_of(request), query.limit,
            query.cursor or "",
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

    def _span(self, query: DiffQuery) -> SeqRange:
        since = self._seq(str(query.since), "since")
        until = self._seq(str(query.until), "until") if query.until is not None else None
        if until is not None and until < since:
            raise bad_value("`until` lies before `since`", "until")
        return self._history.span(since, until)

    def _seq(self, text: str, field: Literal["since", "until"]) -> int:
        """The seq that `seq:N` names, or that of the last change up to a time. Raises a Refusal."""
        number = text.removeprefix(_SEQ)
        if number != text:
            if not number.isdecimal() or len(number) > SEQ_DIGITS_MAX:
                raise bad_value(f"`{field}` is a time, or `seq:` and the number of a change", field)
            return int(number)
        at = parse_bound(request_codec.query_time(text) or text, field, field, self._services.store.now())
        return self._history.seq_at(at)
