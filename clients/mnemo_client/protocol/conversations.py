"""The wire types of /v1 for a conversation: what a message recalls in its session, and chat. SPEC 8, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.ingestion import PieceAnswer
from mnemo_client.protocol.primitives import QUESTION_CHARS_MAX, AnswerBody, ScopedRequest, ShortText, Time
from mnemo_client.protocol.retrieval import AskAnswer

Message = Annotated[str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX)]


class ExplainSessionRequest(ScopedRequest):
    """POST /v1/sessions/{id}/explain. [T]"""

    query: Message
    tags: list[str] = []  # all of them
    now: Time | None = None


class RingItemView(AnswerBody):
    """An item of the end of the ring, shown as it is: a turn, or the summary of what was recalled."""

    id: str
    role: Literal["user", "agent"]
    text: str
    promoted: bool = False


class TieredItemTrace(AnswerBody):
    """A turn, or a pair of turns, that a stage found.

    `score`: 0.6 · similarity + 0.3 · recency + 0.1 · importance. `dropped`: why it is not injected: `superseded`,
    `below_sim_threshold`, `in_ring`, `duplicate_content`, `over_limit`; null for those that are.
    """

    ids: list[str]
    text: str
    stage: Literal["hot", "recent", "nodes"]
    similarity: float
    recency: float
    importance: float
    score: float
    at: int
    node: str | None = None  # the topic node of a pair
    dropped: str | None = None


class TopicMatchTrace(AnswerBody):
    """A topic node that was searched, and the cosine of its centroid."""

    id: str
    similarity: float
    neighbour: bool = False  # reached from another one that it was recalled together with


class SessionTrace(AnswerBody):
    """The recall of a message in its session, stage by stage. SPEC 7.7, 8"""

    session_id: str
    ring: list[RingItemView]
    items: list[TieredItemTrace]  # by score; those that are injected have no `dropped`
    nodes: list[TopicMatchTrace]  # none where the recent turns were enough
    recent_above_floor: int
    floor: float  # the cosine under which nothing is injected: that of the embedding model
    stages_ms: dict[str, float]
    took_ms: float
    namespace: str = "default"
    degraded: list[str] = []


class ChatRequest(ScopedRequest):
    """POST /v1/sessions/{id}/chat. [T]"""

    message: Message
    speaker: ShortText | None = None
    agent_id: ShortText | None = None
    explain: bool = False  # with `trace`


class ChatAnswer(AskAnswer, kw_only=True):
    """The reply to a message as of POST /v1/ask, and what became of the two turns as of POST /v1/turns."""

    session_id: str
    results: list[PieceAnswer]  # of the message, and of the reply
    trace: SessionTrace | None = None
