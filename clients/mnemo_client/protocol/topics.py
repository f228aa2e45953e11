"""The wire types of /v1 for the tree of topics. SPEC 10.1, 13"""

from typing import Annotated

from msgspec import Meta

from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, ScopedRequest

MEMBERS_DEFAULT = 20

TopicId = Annotated[str, Meta(pattern=r"^kb[1-9][0-9]{0,9}$", max_length=12)]


class TopicView(AnswerBody):
    """A topic: a leaf, or a group of the topics whose `parent` it is. `count`: its members, all chunks of a note as
    one. `method`: of its name, `rule` or `llm:MODEL`."""

    id: str
    name: str
    count: int
    parent: str | None = None
    level: int = 0
    method: str = "rule"
    namespace: str = "default"


class TopicsAnswer(AnswerBody):
    """GET /v1/topics: a topic before those below it; siblings by their members. `current`: no change is waiting to be
    worked in."""

    topics: list[TopicView]
    current: bool = True
    namespace: str = "default"


class ExpandRequest(ScopedRequest):
    """POST /v1/topics/expand. `limit`: members of each topic; a `cursor` continues the only one of `ids`."""

    ids: Annotated[list[TopicId], Meta(min_length=1, max_length=20)]
    limit: Annotated[int, Meta(ge=1, le=100)] = MEMBERS_DEFAULT
    cursor: str = ""


class TopicMembersView(AnswerBody):
    """The members of a topic, the newest first, or, of an id that is gone, the topics where they are now."""

    id: str
    topic: TopicView | None = None
    memories: list[MemoryView] = []
    cursor: str | None = None
    moved_to: list[str] = []


class ExpandAnswer(AnswerBody):
    """The topics in the order of the request; `unknown`: ids that lead nowhere."""

    topics: list[TopicMembersView]
    unknown: list[str] = []
    namespace: str = "default"


class RebuildTopicsRequest(ScopedRequest):
    """POST /v1/topics/rebuild."""
