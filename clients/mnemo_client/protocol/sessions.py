"""The wire types of /v1 for sessions: conversations and their turns, chat, the runs of agents, hooks, and what an agent
reads at the start of a session. SPEC 2.1, 8, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import HookEvent, Outcome
from mnemo_client.protocol.ingestion import PieceAnswer
from mnemo_client.protocol.knowledge import GraphNodeView
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import (
    LIMIT_DEFAULT,
    QUESTION_CHARS_MAX,
    AnswerBody,
    Limit,
    Question,
    ScopedRequest,
    ShortText,
    Time,
)
from mnemo_client.protocol.retrieval import AskAnswer, TextExplanation
from mnemo_client.protocol.status import JobStatus

Message = Annotated[str, Meta(min_length=1, max_length=QUESTION_CHARS_MAX)]


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


class NewStep(ScopedRequest):
    """POST /v1/runs/{run}/steps. A number that the run has already changes that step as a whole."""

    action: Annotated[str, Meta(min_length=1, max_length=1000)]
    step_number: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="its place in the run: replaces the step that has it; default: the next"),
    ] = None
    outcome: Annotated[str, Meta(max_length=3000, description="what came of it")] = ""
    key_findings: Annotated[str, Meta(max_length=2000, description="the findings")] = ""
    context: Annotated[str, Meta(max_length=2000)] = ""
    task_objective: Annotated[str, Meta(max_length=1000)] = ""
    event_at: Time | None = None
    agent_id: ShortText | None = None
    session_id: ShortText | None = None


class StepsAnswer(AnswerBody):
    """GET /v1/runs/{run}/steps: the steps by their numbers, and the summary of the run if one was made."""

    run_id: str
    steps: list[MemoryView]
    summary: MemoryView | None = None
    cursor: str | None = None
    namespace: str = "default"


class RunSummaryRequest(ScopedRequest):
    """POST /v1/runs/{run}/summary."""


class RunSummaryAnswer(AnswerBody):
    """The summary of a run; `duplicate` if the steps are those that it was made of. `reason`: why no language model
    wrote it."""

    outcome: Outcome
    memory: MemoryView
    method: Literal["llm", "rule"]
    reason: str | None = None


class HookRequest(ScopedRequest):
    """POST /v1/hooks/{event}. Before a prompt: `prompt`. After a reply: `session_id`, and `prompt` and `reply` as far
    as they are to be stored, and `at` if they were said earlier than now. After a call of a tool: `session_id`, `tool`,
    and `arguments`, `result`, `failed` and `at` as far as they are known. At the start and end of a session:
    `session_id`."""

    session_id: ShortText | None = None
    prompt: str | None = None
    reply: str | None = None
    speaker: ShortText | None = None  # of the prompt
    tool: ShortText | None = None  # the name of the tool that was called
    arguments: Annotated[dict[str, str], Meta(max_length=32)] = {}  # of the call, as texts
    result: str = ""  # of the call
    failed: bool | None = None  # null: not known
    at: Time | None = None  # of prompt and reply, or of the call; null: now
    agent_id: Annotated[str, Meta(max_length=128)] | None = None  # made one line: an odd name loses no turn


class HookAnswer(AnswerBody):
    """`context` is the text to put before the prompt, or at the start of the session; `results` are those of the stored
    turns, as of /v1/turns. `skipped` says why something was not done."""

    event: HookEvent
    context: str = ""
    memories: list[str] = []  # in `context`; of `tool` the step, of `session-end` the summary of the run
    results: list[PieceAnswer] = []
    skipped: str | None = None
    namespace: str = "default"
    degraded: list[str] = []


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


class ResumeSectionView(AnswerBody):
    """A section of memories. `memories` stand in it whole, `condensed` in a shorter form, the others of `total` are
    counted."""

    total: int
    memories: list[str]
    condensed: list[str] = []


class ResumeTopicView(AnswerBody):
    """A topic of the tree, with the number of its members."""

    id: str
    name: str
    members: int


class ResumeAnswer(AnswerBody):
    """GET /v1/resume: the text for the start of a session, and what it is made of."""

    text: str
    total_tokens: int
    working: int  # memories of the layer; all passages of a note are one
    buffer: int
    core: ResumeSectionView
    recent: ResumeSectionView
    topics: list[ResumeTopicView] = []
    triggers: list[str] = []  # the actions that have memories of their own: GET /v1/triggers/{action}
    namespace: str = "default"
    profile: ResumeSectionView | None = None  # null: it is empty
    others: ResumeSectionView | None = None  # of what did not come from the person or their notes; null: nothing
    degraded: list[str] = []  # `vectors`: there is no embedding model, so the task orders nothing
    explained: TextExplanation | None = None


class TriggersAnswer(AnswerBody):
    """GET /v1/triggers/{action}: the memories tagged `trigger:ACTION`, by weight."""

    action: str
    count: int
    memories: list[MemoryView]
    namespace: str = "default"


class LayerCounts(AnswerBody):
    """The number of active memories in each layer."""

    buffer: int = 0
    working: int = 0
    core: int = 0


class StateAnswer(AnswerBody):
    """GET /v1/state: everything that has a place at present. `session`, `ring` and `hot` are of the session that is
    named."""

    layers: LayerCounts
    tiers: TierCounts
    sessions: list[SessionView]  # the latest
    nodes: list[GraphNodeView]  # the largest of the namespace and `default`
    node_total: int
    jobs: list[JobStatus]
    session: SessionView | None = None
    ring: list[RingItemView] = []
    hot: list[list[str]] = []  # the hot buffer: the ids of each item, the one that was recalled last first
    namespace: str = "default"


class StateQuery(ScopedRequest):
    """GET /v1/state."""

    agent_id: ShortText | None = None
    session_id: ShortText | None = None


class ScopeQuery(ScopedRequest, kw_only=True):
    """The scope of a resume and of triggers."""

    agent_id: ShortText | None = None
    tag: list[str] = []
    now: Time | None = None


class ResumeQuery(ScopeQuery):
    """GET /v1/resume."""

    session_id: Annotated[ShortText | None, Meta(description="the session that starts")] = None
    task: Annotated[Question | None, Meta(description="the task of the session: relevant memories come first")] = None
    explain: bool = False  # add `explained`: each line and its reason; nothing is recorded as shown


class TriggersQuery(ScopeQuery):
    """GET /v1/triggers/{action}."""

    limit: Limit = LIMIT_DEFAULT
