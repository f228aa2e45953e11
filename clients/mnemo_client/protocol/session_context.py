"""The wire types of /v1 for what an agent reads at the start of a session and before a risky step. SPEC 11"""

from mnemo_client.protocol.conversations import RingItemView
from mnemo_client.protocol.graph import GraphNodeView
from mnemo_client.protocol.jobs import JobStatus
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody
from mnemo_client.protocol.sessions import SessionView, TierCounts


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
