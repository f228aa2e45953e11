"""The wire types of /v1 for what is remembered: batches, texts, turns, and the outcome of each."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mnemo_client.protocol.choices import Category, Dedup, Kind, Outcome, Relation, TurnRole, Wait
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, Namespace, RequestBody, ShortText, Time, Unit


class ScoresView(AnswerBody):
    """importance = 0.6 novelty + 0.4 salience, before any floor. SPEC 5.3"""

    importance: float
    novelty: float
    salience: float


class NeighbourView(AnswerBody):
    """A memory that is near: how it stands to the one that came in, and why. `sim` is null where one has no vector."""

    id: str
    relation: Relation
    sim: float | None
    why: str
    tied: bool  # whether there is an edge to it


class IngestExplanation(AnswerBody):
    """What was decided, and why: `route` names the signals behind kind and category, `found` those behind salience."""

    profile: str
    route: str
    found: dict[str, str] = {}
    near: list[NeighbourView] = []


class StatementView(AnswerBody):
    """A statement that a text was broken into, and what became of it; `id` is null where nothing did."""

    text: str
    triple: tuple[str, str, str] | None = None  # subject, predicate, object
    id: str | None = None
    outcome: Outcome | None = None


class IngestDecision(AnswerBody, kw_only=True):
    """What the answers of every door say of one thing that came in."""

    related: list[str] = []
    repeats: list[str] = []  # what it says again
    updates: list[str] = []  # what it gives a newer value for
    masked: list[str] = []
    indexed: bool = False  # its vector was there in time: scores and what is near are final
    degraded: list[str] = []
    reason: str | None = None  # why it was set aside
    scores: ScoresView | None = None
    explained: IngestExplanation | None = None
    statements: list[StatementView] = []
    group: str | None = None  # what undo takes, where several changes belong together


class RememberAnswer(IngestDecision, kw_only=True):
    """201 when there is a new memory, 200 for every other outcome."""

    outcome: Outcome
    memory: MemoryView


class PieceAnswer(IngestDecision, kw_only=True):
    """One piece of a text, or one turn: as Remembered; `memory` is null where nothing was left to be remembered."""

    outcome: Outcome
    memory: MemoryView | None = None


class NewMemories(RequestBody):
    """POST /v1/memories/batch: up to 1,000, each decoded and answered on its own."""

    memories: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=1000)]
    namespace: Namespace | None = None


class IngestRequest(RequestBody):
    """POST /v1/ingest: a text that is split, and whose pieces may be set aside. Fields as in NewMemory. [L 1]"""

    text: str
    source: Annotated[str, Meta(max_length=64)] | None = None
    kind: Kind | None = None
    category: Category | None = None
    importance: Unit | None = None
    event_at: Time | None = None
    expires_at: Time | None = None
    speaker: ShortText | None = None
    tags: list[str] = []
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    session_id: ShortText | None = None
    evidence: list[str] = []
    infer: bool | None = None
    dedup: Dedup | None = None
    wait: Wait = "stored"
    explain: bool = False


class Turn(RequestBody):
    """One side of a conversation. `at` is when it was said, now where it is null.

    `assistant` is another name for `agent`; what a `system` prompt says is no word of the person's and counts as the
    agent's; what a `tool` gave back has trust `tool`.
    """

    role: TurnRole
    content: str
    speaker: ShortText | None = None
    at: Time | None = None


class TurnsRequest(RequestBody):
    """POST /v1/turns. [T]"""

    session_id: Annotated[str, Meta(min_length=1, max_length=128)]
    turns: Annotated[list[Turn], Meta(min_length=1, max_length=1000)]
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | None = None
    run_id: ShortText | None = None
    tags: list[str] = []
    dedup: Dedup | None = None
    wait: Wait = "stored"
    explain: bool = False


class IngestAnswer(AnswerBody):
    """Of /v1/ingest and /v1/turns, in order: each a Taken or a Failure. `counts` by outcome."""

    results: list[PieceAnswer | msgspec.Raw]
    counts: dict[str, int] = {}
    group: str | None = None  # what undo takes
    namespace: str = "default"
    degraded: list[str] = []


class ReclassifyRequest(RequestBody):
    """POST /v1/reclassify: routes and scores anew what a rule routed and scored."""

    namespace: Namespace | None = None
    user_id: ShortText | None = None
    dry_run: bool = True


class ReclassificationView(AnswerBody):
    """One memory that would be, or was, changed: the fields that differ, before and after, and the route's reason."""

    id: str
    content: str  # its beginning
    before: dict[str, Any]
    after: dict[str, Any]
    why: str


class ReclassifyAnswer(AnswerBody):
    """`changes` lists the first 500 of `changed`; `left` were set by a person, or by no rule that is known."""

    looked_at: int
    changed: int
    left: int
    changes: list[ReclassificationView] = []
    dry_run: bool = True
    group: str | None = None
    namespace: str = "default"


class BatchAnswer(AnswerBody):
    """In the order asked; each a Remembered or a Failure. `group` is what undo takes, to take all of it back."""

    results: list[RememberAnswer | msgspec.Raw]
    group: str | None = None
