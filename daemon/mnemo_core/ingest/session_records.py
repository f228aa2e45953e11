"""The records of sessions, which the turns of a conversation bring with them. SPEC 8"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mnemo_store.record_texts import session_key
from mnemo_store.records import Change, Memory, PutMemory, PutSession, Session


class SessionScope(NamedTuple):
    """The session that a turn belongs to: its name is unique within a namespace and user."""

    namespace: str
    user_id: str
    session_id: str


def scope_of(record: Memory | Session) -> SessionScope:
    """The session of a memory, or of its own record."""
    return SessionScope(record.namespace, record.user_id, record.session_id)


def recorded_sessions(
    changes: Iterable[Change], read: Callable[[str], Session | None], now: int
) -> tuple[PutSession, ...]:
    """The records of the sessions that these changes store turns of; a session that had ended goes on. read: the
    present record of a session by its id. Imported turns count at the time that they were said."""
    written = {change.data.id: change.data for change in changes if isinstance(change, PutMemory)}
    sessions: dict[str, Session] = {}
    for turn in written.values():
        if turn.turn is None or not turn.session_id or turn.version != 1 or turn.state == "discarded":
            continue
        scope, said_at = scope_of(turn), min(turn.created_at, now)
        session = sessions.get(key_of(scope)) or read(key_of(scope))
        session = session or Session(id=key_of(scope), started_at=said_at, last_at=said_at, **scope._asdict())
        sessions[session.id] = replace(
            session, started_at=min(session.started_at, said_at), last_at=max(session.last_at, said_at), ended_at=0,
            turns=session.turns + 1, agent_id=turn.agent_id or session.agent_id,
        )  # fmt: skip
    return tuple(PutSession(data=session) for session in sessions.values())


def key_of(scope: SessionScope) -> str:
    """The id of the record of a session."""
    return session_key(*scope)


def session_of_turns(turns: Sequence[Memory]) -> Session:
    """The record of a session that has none: of an import of some memories."""
    stored, scope = [turn.created_at for turn in turns], scope_of(turns[0])
    agent = max(turns, key=lambda turn: turn.created_at).agent_id
    return Session(
        id=key_of(scope), started_at=min(stored), last_at=max(stored), turns=len(turns), agent_id=agent,
        **scope._asdict(),
    )  # fmt: skip
