"""The wire types of /v1/graph: topic nodes, and the edges between them. SPEC 10.2, 13"""

from mnemo_client.protocol.choices import NodeRelation
from mnemo_client.protocol.primitives import AnswerBody, ScopedRequest


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
