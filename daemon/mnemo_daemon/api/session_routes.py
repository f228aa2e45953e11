"""The routes of sessions: their list, the turns of one by tier, its end and consolidation. SPEC 8, 13"""

from collections.abc import Callable
from typing import get_args

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import TranscriptTool
from mnemo_client.protocol.primitives import ScopedPageQuery
from mnemo_client.protocol.sessions import (
    SessionAnswer,
    SessionFiledAnswer,
    SessionRequest,
    SessionsAnswer,
    SessionView,
    TierCounts,
    TurnPairView,
)
from mnemo_core.ingest.session_records import SessionScope
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.memory_service import is_visible
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import SCOPE_CHARS_MAX, Session, TurnPair

TURN_SOURCE = "turn"


class SessionsApi(Resource):
    """The handlers."""

    @handles(operations.END_SESSION)
    async def end(self, request: Request) -> Reply:
        return Reply(await self._workers.run(self._filed, request, self._services.turn_tiers.end))

    @handles(operations.CONSOLIDATE_SESSION)
    async def consolidate(self, request: Request) -> Reply:
        return Reply(await self._workers.run(self._filed, request, self._services.turn_tiers.consolidate))

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
        scope = _scope_of(session)
        wanted = MemoryFilter(
            namespaces=(scope.namespace,), user_id=scope.user_id, session_id=scope.session_id, source=TURN_SOURCE,
            without_tags=access.hidden_tags(request), now=services.store.now(),
        )  # fmt: skip
        tiers = TierCounts(**services.sessions.tier_counts(wanted))  # first: no turn is in an earlier tier than counted
        turns, cursor = services.memories.page(wanted, query.limit, query.cursor or "", recent=True)
        roots, pairs = services.root_paths(), services.sessions.pairs_of([each.memory.id for each in turns])
        return SessionAnswer(
            session=session_view(session),
            tiers=tiers,
            turns=[response_codec.memory_view(each, roots) for each in turns],
            pairs=[self._pair_view(pair, request) for pair in pairs],
            cursor=cursor or None,
        )

    def _filed(self, request: Request, file: Callable[[SessionScope], int]) -> SessionFiledAnswer:
        asked: SessionRequest = request.ask
        scope = _scope_of(self._existing(scope_of_request(request, access.writable_namespace(request), asked.user_id)))
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


def _scope_of(session: Session) -> SessionScope:
    return SessionScope(session.namespace, session.user_id, session.session_id)


def scope_of_request(request: Request, namespace: str, user_id: str | None) -> SessionScope:
    """The session that the path names. Raises a Refusal."""
    session_id = request_codec.clean_text(request.path["id"], "id")
    if not 0 < len(session_id) <= SCOPE_CHARS_MAX:
        raise bad_value(f"a session has a name of 1 to {SCOPE_CHARS_MAX} characters", "id")
    return SessionScope(namespace, user_id or "local", session_id)
