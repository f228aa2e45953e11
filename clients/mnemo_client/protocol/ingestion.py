"""The wire types of /v1 for what is remembered: batches, texts, turns, and the outcome of each."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mnemo_client.protocol.choices import Category, Dedup, Kind, Outcome, Relation, TurnRole, Wait
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import (
    AnswerBody,
    Namespace,
    RequestBody,
    ScopedRequest,
    ShortText,
    Time,
    Unit,
    WriteAnswer,
)


class ScoresView(AnswerBody):
    """importance = 0.6 novelty + 0.4 salience, before any minimum. SPEC 5.3"""

    importance: float
    novelty: float
    salience: float


class NeighbourView(AnswerBody):
    """A neighbour of the new memory: their relation, and why. `sim` is null if one of them has no vector."""

    id: str
    relation: Relation
    sim: float | None
    why: str
    tied: bool  # an edge to it was stored


class IngestExplanation(AnswerBody):
    """The reasons of a decision: `route` names the signals behind kind and category, `found` those behind salience."""

    profile: str
    route: str
    found: dict[str, str] = {}
    near: list[NeighbourView] = []


class StatementView(AnswerBody):
    """A statement that was extracted from a text, and its outcome; `id` is null if it was not stored."""

    text: str
    triple: tuple[str, str, str] | None = None  # subject, predicate, object
    id: str | None = None
    outcome: Outcome | None = None


class IngestDecision(WriteAnswer, kw_only=True):
    """The fields that the answers of every entry point share about one text."""

    related: list[str] = []
    repeats: list[str] = []  # ids of memories that it repeats
    updates: list[str] = []  # ids of memories for which it gives a newer value
    perhaps_updates: list[str] = []  # ids of those in `related` for which it perhaps gives a newer value
    masked: list[str] = []
    indexed: bool = False  # its vector was computed in time: scores and neighbours are final
    degraded: list[str] = []
    reason: str | None = None  # why it was rejected
    scores: ScoresView | None = None
    explained: IngestExplanation | None = None
    extracted: bool | None = None  # its statements are stored; false: they will be; null: it is not broken up
    statements: list[StatementView] = []  # with `wait: extracted`
    group: str | None = None  # the group that undo takes, if several changes belong together


class RememberAnswer(IngestDecision, kw_only=True):
    """The answer to POST /v1/memories: 201 for a new memory, 200 for every other outcome."""

    outcome: Outcome
    memory: MemoryView


class PieceAnswer(IngestDecision, kw_only=True):
    """The outcome of one piece of a text, or of one turn; `memory` is null if nothing of it could be stored."""

    outcome: Outcome
    memory: MemoryView | None = None


class NewMemories(RequestBody):
    """POST /v1/memories/batch: up to 1,000, each decoded and answered on its own."""

    memories: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=1000)]
    namespace: Namespace | None = None


class IngestRequest(ScopedRequest):
    """POST /v1/ingest: a text that is split into pieces, which may be rejected. Fields as in NewMemory. [L 1]"""

    text: str
    source: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="its origin, such as the name of an article")
    ] = None
    kind: Kind | None = None
    category: Category | None = None
    importance: Unit | None = None
    event_at: Time | None = None
    expires_at: Time | None = None
    speaker: ShortText | None = None
    tags: list[str] = []
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: Annotated[ShortText | None, Meta(description="the session it belongs to")] = None
    evidence: list[str] = []
    infer: bool | None = None
    dedup: Dedup | None = None
    wait: Wait = "stored"
    explain: bool = False


class Turn(RequestBody):
    """One turn of a conversation. `at` is the time of the turn; null: now.

    `assistant` is another name for `agent`; a `system` prompt is not the person's own words and counts as the agent's;
    the output of a `tool` has trust `tool`.
    """

    role: TurnRole
    content: str
    speaker: ShortText | None = None
    at: Time | None = None


class TurnsRequest(ScopedRequest):
    """POST /v1/turns. [T]

    `source: proxy` marks what was read on the way to a model server (SPEC 19): its trust is `tool`, and it is scored
    and may be rejected as a text of /v1/ingest. With `infer` each turn is broken into statements.
    """

    session_id: Annotated[str, Meta(min_length=1, max_length=128)]
    turns: Annotated[list[Turn], Meta(min_length=1, max_length=1000)]
    source: Literal["turn", "proxy"] = "turn"
    infer: bool = False
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    tags: list[str] = []
    dedup: Dedup | None = None
    wait: Wait = "stored"
    explain: bool = False


class ExtractRequest(ScopedRequest):
    """POST /v1/extract: a text, or the turns of a conversation, of those roles alone. [E16, G]"""

    text: str | None = None
    turns: Annotated[list[Turn], Meta(max_length=1000)] = []
    roles: tuple[Literal["user", "agent"], ...] = ("user", "agent")  # whose turns are read
    dry: bool = False
    speaker: ShortText | None = None  # of the text
    source: Annotated[str, Meta(max_length=64)] | None = None  # of the text
    tags: list[str] = []
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None


class ExtractAnswer(AnswerBody):
    """The statements of a text or conversation. `extracted` is false where more follow."""

    statements: list[StatementView]
    sources: list[str] = []  # ids of the stored pieces or turns
    counts: dict[str, int] = {}  # of pieces or turns by outcome
    extracted: bool = True
    group: str | None = None  # the group that undo takes
    namespace: str = "default"
    degraded: list[str] = []


class IngestAnswer(AnswerBody):
    """The answer of /v1/ingest and /v1/turns: in order, a PieceAnswer or a FailureAnswer each. `counts` by outcome."""

    results: list[PieceAnswer | msgspec.Raw]
    counts: dict[str, int] = {}
    group: str | None = None  # the group that undo takes
    namespace: str = "default"
    degraded: list[str] = []


class ReclassifyRequest(ScopedRequest):
    """POST /v1/reclassify: classifies and scores again every memory that a rule classified and scored."""

    dry_run: bool = True


class ReclassificationView(AnswerBody):
    """One memory that would change, or did: the fields that differ, before and after, and the reason."""

    id: str
    content: str  # its beginning
    before: dict[str, Any]
    after: dict[str, Any]
    why: str


class ReclassifyAnswer(AnswerBody):
    """`changes` lists the first 500 of `changed`; `left` counts those that a person or an unknown rule had set."""

    looked_at: int
    changed: int
    left: int
    changes: list[ReclassificationView] = []
    dry_run: bool = True
    group: str | None = None
    namespace: str = "default"


class BatchAnswer(AnswerBody):
    """In the order of the request, a RememberAnswer or a FailureAnswer each. Undo takes `group` to undo all of it."""

    results: list[RememberAnswer | msgspec.Raw]
    group: str | None = None
