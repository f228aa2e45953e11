"""The wire types of /v1 for what an agent reads at the start of a session and before a risky step. SPEC 11"""

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody


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


class TriggersAnswer(AnswerBody):
    """GET /v1/triggers/{action}: the memories tagged `trigger:ACTION`, by weight."""

    action: str
    count: int
    memories: list[MemoryView]
    namespace: str = "default"
