"""The wire types of /v1 for sessions: the tiers of their turns, the pairs in the registry, and their end. SPEC 8, 13"""

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, ScopedRequest


class SessionView(AnswerBody):
    """A conversation. `turns` counts those that came in, `started_at` and `last_at` are when the first and the last of
    them did; `ended_at` is null while it goes on."""

    session_id: str
    started_at: int
    last_at: int
    turns: int
    namespace: str = "default"
    user_id: str = "local"
    agent_id: str | None = None  # of its last turn
    ended_at: int | None = None


class SessionsAnswer(AnswerBody):
    """GET /v1/sessions: the one with the latest turn first."""

    sessions: list[SessionView]
    cursor: str | None = None


class TurnPairView(AnswerBody):
    """A turn and its answer in the registry, by the ids of their memories. `reply` is null for a turn alone."""

    id: str
    at: int
    reply: str | None = None
    node: str | None = None  # the topic node that it belongs to
    archived: bool = False


class TierCounts(AnswerBody):
    """The number of turns in each tier, and of those that are archived."""

    ring: int = 0
    recent: int = 0
    registry: int = 0
    archived: int = 0


class SessionAnswer(AnswerBody):
    """GET /v1/sessions/{id}: its turns, newest first, each with its tier and summary in `turn`, and the pairs that
    these turns are in."""

    session: SessionView
    tiers: TierCounts
    turns: list[MemoryView]
    pairs: list[TurnPairView]
    cursor: str | None = None


class SessionRequest(ScopedRequest):
    """POST /v1/sessions/{id}/end and /consolidate."""


class SessionFiledAnswer(AnswerBody):
    """The session, and the number of pairs that were filed now."""

    session: SessionView
    filed: int
