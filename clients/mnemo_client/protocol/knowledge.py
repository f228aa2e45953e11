"""The wire types of /v1 for knowledge: the fact graph, the tree of topics, the graph of topic nodes. SPEC 8, 10, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import NodeRelation
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import (
    AnswerBody,
    Namespace,
    RequestBody,
    ScopedPageQuery,
    ScopedRequest,
    ShortText,
    Time,
    WriteAnswer,
)
from mnemo_client.protocol.retrieval import FactChainView, FactLink

FACTS_PER_REQUEST_MAX = 100
CONFLICT_FACTS_MAX = 32  # of which one request decides

FactPart = Annotated[str, Meta(min_length=1, max_length=512)]  # [G 9]
Hops = Annotated[int, Meta(ge=1, le=3, description="facts in a chain, 1 to 3")]  # [G 9]

# `open`: it holds; `closed`: a later fact or its own end came before; `withdrawn`: the memory that states it was
# superseded or compressed.
FactStatus = Literal["open", "closed", "withdrawn"]

MEMBERS_DEFAULT = 20
TOPIC_NAME_CHARACTERS_MAX = 80  # of one that a person gives

TopicId = Annotated[str, Meta(pattern=r"^kb[1-9][0-9]{0,9}$", max_length=12)]


class NewFact(RequestBody):
    """A fact to insert. Without `memory_id` it gets a memory of its own that states it."""

    subject: FactPart
    predicate: FactPart
    object: FactPart
    memory_id: str | None = None
    valid_from: Time | None = None  # by default: when the memory happened


class NewFacts(RequestBody):
    """POST /v1/facts."""

    facts: Annotated[list[NewFact], Meta(min_length=1, max_length=FACTS_PER_REQUEST_MAX)]
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    namespace: Namespace | None = None


class FactView(FactLink):
    """A fact, the memory that states it, and how it stands at the time of the request."""

    status: FactStatus
    valid_from: int  # ms; 0: not known
    valid_to: int | None = None  # ms; null: it has no end
    superseded_by: str | None = None  # the fact that ended it
    conflicts_with: list[str] = []  # open facts that contradict it, in an order of time that is not known
    perhaps_outdated: bool = False  # it is open, and another memory perhaps says a newer value
    namespace: str = "default"
    user_id: str = "local"
    created_at: int = 0
    method: str = "rule"


class ConflictView(AnswerBody):
    """Open facts of which only one can hold. Which one is not known: none ends the others."""

    subject: str
    predicate: str
    facts: list[FactView]


class NewFactsAnswer(WriteAnswer):
    """`facts`: those that were inserted; `conflicts`: in which one of them takes part; `resolved`: that they ended."""

    facts: list[FactView]
    conflicts: list[ConflictView]
    resolved: list[FactView]
    namespace: str = "default"
    group: str | None = None  # the group that undo takes


class FactsQuery(ScopedPageQuery):
    """GET /v1/facts: those that name the entity, the latest first; without one, all."""

    entity: str = ""
    include_superseded: Annotated[bool, Meta(description="also the facts that have ended")] = False
    as_of: Annotated[Time | None, Meta(description="the facts that held then: 2026-05-01, or 3d for 3 days ago")] = None


class FactsAnswer(AnswerBody):
    facts: list[FactView]
    count: int  # on all pages
    cursor: str | None = None
    namespace: str = "default"
    degraded: list[str] = []  # `facts`: there are more than are kept in memory


class FactGraphQuery(ScopedRequest):
    """GET /v1/facts/graph."""

    entity: Annotated[str, Meta(min_length=1, max_length=512)]
    hops: Hops = 2


class FactGraphAnswer(AnswerBody):
    """The chains of open facts from an entity. `entities`: those that it was understood as."""

    entities: list[str]
    chains: list[FactChainView]
    is_whole: bool = True  # false: there are more, or longer ones
    namespace: str = "default"


class FactConflictsQuery(ScopedRequest):
    """GET /v1/facts/conflicts."""

    subject: str = ""
    predicate: str = ""


class FactConflictsAnswer(AnswerBody):
    conflicts: list[ConflictView]
    namespace: str = "default"


class DecideConflictRequest(ScopedRequest):
    """POST /v1/facts/conflicts/decide. `facts`: ids of facts that contradict each other. `keep`: the one of them that
    holds; those that say something else end at `at` (null: now). Without it all hold, and are no conflict any more."""

    facts: Annotated[list[str], Meta(min_length=2, max_length=CONFLICT_FACTS_MAX)]
    keep: str | None = None
    at: Time | None = None


class DecideConflictAnswer(WriteAnswer):
    """The facts as they stand after the decision."""

    facts: list[FactView]
    namespace: str = "default"


class FactHistoryQuery(ScopedRequest):
    """GET /v1/facts/history."""

    subject: Annotated[str, Meta(min_length=1, max_length=512)]
    predicate: str = ""


class FactHistoryAnswer(AnswerBody):
    """Every fact of a subject, of one predicate if it was named: the oldest first, with those that have ended."""

    history: list[FactView]
    namespace: str = "default"


class FactDeletedAnswer(WriteAnswer):
    deleted: int
    id: str


class TopicView(AnswerBody):
    """A topic: a leaf, or a group of the topics whose `parent` it is. `count`: its members, all chunks of a note as
    one. `method`: of its name, `rule`, `llm:MODEL` or `user`."""

    id: str
    name: str
    count: int
    parent: str | None = None
    level: int = 0
    method: str = "rule"
    namespace: str = "default"


class MapQuery(ScopedRequest, kw_only=True):
    """GET /v1/map."""

    limit: Annotated[int, Meta(ge=1, le=20_000)] = 5_000
    cursor: str | None = None


class MapAnswer(AnswerBody):
    """GET /v1/map: the points of the memories that have one, active and archived; the arrays have an entry for each.

    `state`: `computing` while the first layout is made, of which `share` is done; `share` of a map that is `ready`: of
    the layout that will follow it. Points stay where they are as long as `layout` is the same."""

    state: Literal["absent", "computing", "ready"]
    total: int  # points of the filter, on all pages
    ids: list[str] = []
    x: list[float] = []  # within about -1 to 1, never beyond 1.5
    y: list[float] = []
    topic: list[int] = []  # places in `topics`, -1 for none
    layer: list[int] = []  # places in `layers`, and so on
    source: list[int] = []
    trust: list[int] = []
    event_at: list[int] = []
    topics: list[str] = []  # ids of leaves of the topic trees
    layers: list[str] = []
    sources: list[str] = []
    trusts: list[str] = []
    layout: str | None = None
    share: float | None = None
    reason: str | None = None  # why it is absent
    namespace: str = "default"
    cursor: str | None = None


class TopicsAnswer(AnswerBody):
    """GET /v1/topics: a topic before those below it; siblings by their members. `current`: no change is waiting to be
    worked in."""

    topics: list[TopicView]
    current: bool = True
    namespace: str = "default"


class RenameTopicRequest(ScopedRequest):
    """POST /v1/topics/{id}/rename. `name`: null for the one that the daemon gives."""

    name: Annotated[str, Meta(max_length=TOPIC_NAME_CHARACTERS_MAX)] | None = None


class RenameTopicAnswer(WriteAnswer):
    """The topic with its name."""

    topic: TopicView
    namespace: str = "default"


class ExpandRequest(ScopedRequest):
    """POST /v1/topics/expand. `limit`: members of each topic; a `cursor` continues the only one of `ids`. `sort`:
    `nearest` by their nearness to the middle of the topic. `months`: count its members by the month of their event."""

    ids: Annotated[list[TopicId], Meta(min_length=1, max_length=20)]
    limit: Annotated[int, Meta(ge=1, le=100)] = MEMBERS_DEFAULT
    cursor: str | None = None
    sort: Literal["newest", "nearest"] = "newest"
    months: bool = False


class TopicMembersView(AnswerBody):
    """The members of a topic, the newest or nearest first, or, of an id that is gone, the topics where they are now.
    `nearness`: of each of `memories`, the cosine to the middle of the topic, with `sort: nearest`. `months`: numbers of
    members, as `2026-05`."""

    id: str
    topic: TopicView | None = None
    memories: list[MemoryView] = []
    cursor: str | None = None
    moved_to: list[str] = []
    nearness: list[float] = []
    months: dict[str, int] = {}


class ExpandAnswer(AnswerBody):
    """The topics in the order of the request; `unknown`: ids that lead nowhere."""

    topics: list[TopicMembersView]
    unknown: list[str] = []
    namespace: str = "default"


class RebuildTopicsRequest(ScopedRequest):
    """POST /v1/topics/rebuild."""


class GraphNodeView(AnswerBody):
    """A topic node. Of a group, which has `parts`, members and times are those of its parts."""

    id: str
    label: str
    named: bool  # by a language model; otherwise the label is computed from the texts
    members: int  # pairs of turns
    parts: int  # nodes that it was abstracted from
    created_at: int
    first_at: int
    last_at: int
    namespace: str


class GraphEdgeView(AnswerBody):
    """An edge. `co_occurs` has no direction; its weight is the number of recalls in which both ends were near."""

    source: str
    target: str
    relation: NodeRelation
    weight: int
    at: int


class GraphAnswer(AnswerBody):
    """GET /v1/graph: nodes, those with most members first, and the edges between them, the heaviest first."""

    nodes: list[GraphNodeView]
    edges: list[GraphEdgeView]
    total: int
    cursor: str | None = None


class GroupView(AnswerBody):
    """A node, and those that were merged into it or that it was abstracted from."""

    id: str
    label: str
    nodes: list[str]
    named: bool = False  # by a language model


class AbstractRequest(ScopedRequest):
    """POST /v1/graph/abstract."""


class AbstractAnswer(AnswerBody):
    """The groups there are now, the largest first."""

    groups: list[GroupView]


class DedupeRequest(ScopedRequest):
    """POST /v1/graph/dedupe."""

    dry_run: bool = False


class DedupeAnswer(AnswerBody):
    """The nodes that others were merged into, or would be."""

    groups: list[GroupView]
    merged: int  # nodes that are gone, or would be
    dry_run: bool = False


class GraphQuery(ScopedPageQuery):
    """GET /v1/graph."""

    relation: NodeRelation | None = None
    min_weight: Annotated[int, Meta(ge=1)] = 1
