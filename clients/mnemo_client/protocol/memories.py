"""The wire types of /v1: what is asked and what is answered. SPEC 13.

The daemon decodes and encodes with these very types, and the OpenAPI document is generated from them. Within v1 a
field may be added, never removed or renamed. Times are integers, ms since the epoch in UTC; on the way in ISO 8601
text is accepted too. Requests refuse unknown fields by name; answers of a newer daemon may carry more fields than
these and are still read.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

API_VERSION = "v1"

Kind = Literal["semantic", "episodic", "procedural", "working"]
Form = Literal["preference", "step", "workflow"]
Category = Literal["fact", "preference", "project", "decision", "crumb", "request", "result"]
Layer = Literal["buffer", "working", "core"]
Trust = Literal["user", "note", "agent", "import", "tool"]
State = Literal["active", "archived", "compressed", "superseded", "discarded", "trashed"]
Outcome = Literal["stored", "duplicate", "repeats", "merged", "updated", "discarded"]
Relation = Literal["repeats", "updates", "related"]
Dedup = Literal["guarded", "off", "source"]
Wait = Literal["stored", "indexed", "extracted"]
DaemonState = Literal["ready", "warming", "degraded"]
TurnRole = Literal["user", "agent", "assistant", "system", "tool"]
ImportTool = Literal["mnemo", "mem0", "mcp-memory", "engram"]

Time = int | str  # ms since the epoch, or ISO 8601
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
ShortText = Annotated[str, Meta(max_length=128)]
Namespace = Annotated[str, Meta(min_length=1, max_length=64)]
Limit = Annotated[int, Meta(ge=1, le=500)]

LIMIT_DEFAULT = 50

READ_ONLY = frozenset({  # what of a memory only the daemon sets: 400 `read_only`; `layer` is accepted and ignored
    "id", "modified_at", "version", "decay_rate", "importance_source", "trust", "method", "compressed",
    "compression_source", "source_session_id", "superseded_by", "managed", "note", "turn", "state", "access_count",
    "repetition_count", "last_accessed", "strength", "strength_epoch",
})  # fmt: skip


class RequestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body. Unknown fields are refused by name."""


class AnswerBody(msgspec.Struct, kw_only=True):
    """An answer body. Unknown fields of a newer daemon are passed over."""


class ProcedureTrace(RequestBody):
    step_number: int
    action: str
    task_objective: str = ""
    context: str = ""


class NoteView(AnswerBody):
    """Where a chunk of a note stands: enough to open the file at the line."""

    path: str  # absolute
    title: str
    headings: list[str]
    ordinal: int  # 0-based place among the file's chunks
    lines: tuple[int, int]  # first and last, 1-based, inclusive
    dated: bool = True  # False: the note gives no date, and `event_at` is only the time of its file


class TurnView(AnswerBody):
    role: Literal["user", "agent"]
    tier: Literal["ring", "recent", "registry"] = "ring"
    promoted: bool = False
    summary: str = ""


class MemoryView(AnswerBody):
    """A memory as it is answered: the fields of SPEC 2.1 and 2.2."""

    id: str
    content: str
    kind: Kind
    category: Category
    layer: Layer
    importance: float
    importance_source: str
    event_at: int
    created_at: int
    modified_at: int
    version: int
    decay_rate: float
    trust: Trust
    method: str
    source: str
    tags: list[str]
    namespace: str
    user_id: str
    state: State
    pinned: bool
    compressed: bool
    compression_source: bool
    access_count: int
    repetition_count: int
    last_accessed: int | None
    strength: float
    strength_epoch: int
    form: Form | None = None
    speaker: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    key: str | None = None
    evidence: list[str] = []
    derived_from: list[str] = []
    superseded_by: str | None = None
    source_session_id: str | None = None
    managed: str | None = None
    expires_at: int | None = None
    trace: ProcedureTrace | None = None
    note: NoteView | None = None
    turn: TurnView | None = None


class NewMemory(RequestBody):
    """POST /v1/memories. Only `content` is required.

    Under a known `key` a field that is absent stays as it is; null or an empty list clears it, and leaves kind,
    category and importance to the rules.
    """

    content: str
    kind: Kind | UnsetType | None = UNSET
    form: Form | UnsetType | None = UNSET
    category: Category | UnsetType | None = UNSET
    importance: Unit | UnsetType | None = UNSET
    event_at: Time | UnsetType | None = UNSET
    created_at: Time | None = None  # imports only
    expires_at: Time | UnsetType | None = UNSET
    speaker: ShortText | UnsetType | None = UNSET
    source: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    agent_id: ShortText | UnsetType | None = UNSET
    run_id: ShortText | UnsetType | None = UNSET
    session_id: ShortText | UnsetType | None = UNSET
    key: Annotated[str, Meta(max_length=256)] | None = None
    evidence: list[str] | UnsetType = UNSET
    derived_from: list[str] | UnsetType = UNSET
    supersedes: list[str] = []
    pinned: bool | UnsetType = UNSET
    trace: ProcedureTrace | UnsetType | None = UNSET
    layer: Layer | None = None  # accepted and ignored [G 1]
    infer: bool | None = None  # break it into statements, each a memory of its own; null: as the profile says
    dedup: Dedup | None = None  # null: as the profile says
    wait: Wait = "stored"
    explain: bool = False


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


class LaterChange(AnswerBody):
    """A change that came after the one to be undone: to which memory, and which change it was."""

    id: str
    seq: int
    at: int
    by: str
    what: str


class ErrorBody(AnswerBody):
    code: str
    message: str
    field: str | None = None
    id: str | UnsetType = UNSET  # of the memory that stands in the way, where one does: `pinned`
    later: list[LaterChange] | UnsetType = UNSET  # of an undo that something stands in the way of: the first 20


class FailureAnswer(AnswerBody):
    """The one shape of every error."""

    error: ErrorBody


class BatchAnswer(AnswerBody):
    """In the order asked; each a Remembered or a Failure. `group` is what undo takes, to take all of it back."""

    results: list[RememberAnswer | msgspec.Raw]
    group: str | None = None


class Patch(RequestBody):
    """PATCH /v1/memories/{id}. What is absent stays as it is; null clears an optional field."""

    content: str | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    form: Form | UnsetType | None = UNSET
    category: Category | UnsetType = UNSET
    importance: Unit | UnsetType = UNSET
    event_at: Time | UnsetType = UNSET
    expires_at: Time | UnsetType | None = UNSET
    speaker: ShortText | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    session_id: ShortText | UnsetType | None = UNSET
    evidence: list[str] | UnsetType = UNSET
    derived_from: list[str] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    layer: Layer | UnsetType = UNSET  # accepted and ignored
    if_version: int | UnsetType = UNSET


class DeleteAnswer(AnswerBody):
    deleted: int
    id: str


class BulkDeleteAnswer(AnswerBody):
    ids: list[str]
    deleted: int | UnsetType = UNSET
    would_delete: int | UnsetType = UNSET


class TagsAnswer(AnswerBody):
    """GET /v1/tags: how many memories have each tag, the commonest first."""

    tags: dict[str, int]
    namespace: str = "default"


class MemoryPage(AnswerBody):
    memories: list[MemoryView]
    cursor: str | None = None


class TrashView(AnswerBody):
    memory: MemoryView
    at: int
    why: str


class TrashPage(AnswerBody):
    """GET /v1/trash, newest first. `memories` are MemoryViews; `entries` say when and why each went."""

    memories: list[MemoryView]
    entries: list[TrashView] = []
    cursor: str | None = None


class VersionView(AnswerBody):
    """`what` is the operation that made it ("add", "edit", "rm", "restore", "notes", "undo:12"); `group` ties together
    changes that are undone together."""

    seq: int  # what undo takes
    at: int
    by: str
    memory: MemoryView
    what: str = ""
    group: str | None = None


class HistoryAnswer(AnswerBody):
    """GET /v1/memories/{id}/history, newest first."""

    versions: list[VersionView]
    cursor: str | None = None


class DifferenceView(AnswerBody):
    """What became of one memory between two moments; `seq` and what follows it are of its last change in between.

    `memory` is as it is at the later moment, or, of what was removed, as it was at the earlier one; null where its
    record is gone for good. `fields` are those that differ, with their values in `before` and `after`.
    """

    id: str
    how: Literal["added", "restored", "changed", "trashed", "dropped"]
    seq: int
    at: int
    by: str
    what: str
    group: str | None = None
    memory: MemoryView | None = None
    fields: list[str] = []
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}


class DiffAnswer(AnswerBody):
    """GET /v1/diff: what was changed last comes first in each list."""

    since_seq: int
    until_seq: int
    added: list[DifferenceView]
    changed: list[DifferenceView]
    removed: list[DifferenceView]
    namespace: str
    cursor: str | None = None


class ModelStatus(AnswerBody):
    """`state`: absent (none installed), loading, ready, failed (see `reason`)."""

    name: str | None
    state: Literal["absent", "loading", "ready", "failed"]
    dimensions: int | None = None
    reason: str | None = None
    hint: str | None = None
    form: str | None = None  # of an embedding model that is ready: int8, float32 or fastembed


class ViewStatus(AnswerBody):
    """A view's place behind the store: `lag` in changes, `lag_seconds` since the oldest one not applied."""

    state: Literal["ready", "building", "catching_up", "stale", "off"]
    applied_seq: int
    lag: int
    lag_seconds: float
    items: int
    share: float  # of the memories that belong in it, 0 to 1
    reason: str | None = None
    rate: float | None = None  # items a second, while `vectors` are being made
    seconds_left: float | None = None  # for those that wait now, at that rate


class ThreadStatus(AnswerBody):
    """A background thread of the daemon. `failing`: it was restarted, and has not done a round of its work since."""

    failing: bool
    restarts: int
    last_failure: str | None = None
    failed_at: int | None = None


class NotesRootStatus(AnswerBody):
    id: str
    path: str
    namespace: str
    state: Literal["watching", "polling", "scanning", "missing", "paused"]
    files: int
    chunks: int
    waiting: int  # files seen and not yet read
    last_scan_at: int | None = None
    reason: str | None = None


class SkippedFile(AnswerBody):
    path: str
    reason: str


class NotesStatus(AnswerBody):
    roots: list[NotesRootStatus]
    skipped: list[SkippedFile] = []  # the first 100: what could not be read, then other kinds of files, then `left_out`
    skipped_total: int = 0  # without what a rule leaves out
    skipped_by_reason: dict[str, int] = {}  # the 50 commonest; of other kinds of files as of the last scan
    left_out: int = 0  # files and folders that an ignore file, or a rule by default, leaves out


class NewRootRequest(RequestBody):
    """POST /v1/notes/roots."""

    path: str
    namespace: Namespace | None = None


class StatusAnswer(AnswerBody):
    """GET /v1/status: the state of every part."""

    state: DaemonState
    reasons: list[str]
    version: str
    pid: int
    started_at: int
    data_dir: str
    socket: str
    memories: int  # active and archived
    by_state: dict[str, int]
    namespaces: dict[str, int]
    trash: dict[str, int]  # count, bytes
    seq: int
    models: dict[str, ModelStatus]  # embedding, llm
    views: dict[str, ViewStatus]  # columns, words, vectors, and tokens where the model has late interaction
    notes: NotesStatus
    queue: dict[str, int]  # writes waiting; texts waiting for their vector, or to be compared now that they have it
    disk: dict[str, int]  # bytes by part, and free
    memory_private_bytes: int = 0
    uptime_seconds: float = 0.0
    protocol: str = API_VERSION
    threads: dict[str, ThreadStatus] = {}  # by name, once the store is open


class UndoAnswer(AnswerBody):
    """POST /v1/undo. `seq` is the last of `seqs`, the changes that were taken back; `undo_seq` the one that did it."""

    seq: int
    what: str
    ids: list[str]  # the first 500
    dry_run: bool = False
    total: int = 0
    seqs: list[int] = []  # the last 500
    undo_seq: int | None = None
    undo_group: str | None = None  # of an undo that took several changes


class UndoRequest(RequestBody):
    """The last change when neither is given."""

    seq: int | None = None
    group: str | None = None
    dry_run: bool = False


class CatalogueModel(AnswerBody):
    name: str
    role: Literal["embedding", "llm", "reranker"]
    bytes: int
    licence: str
    sha256: str
    sources: list[str]
    installed: bool
    in_use: bool
    dimensions: int | None = None
    path: str | None = None


class ModelsAnswer(AnswerBody):
    models: list[CatalogueModel]
    embedding: ModelStatus
    llm: ModelStatus


class UseModelRequest(RequestBody):
    name: str


class ReindexRequest(RequestBody):
    dry_run: bool = False
    force: bool = False
    batch_size: Annotated[int, Meta(ge=1, le=1024)] | None = None  # texts embedded at once; null: 64


class ReindexAnswer(AnswerBody):
    """How many memories have their vector, how many were queued, or would be."""

    total: int
    with_vectors: int
    queued: int
    dimensions: int | None
    dry_run: bool = False


class ConfigValue(AnswerBody):
    key: str
    value: Any
    origin: str  # "default", "FILE:LINE", or the environment variable's name


class ConfigAnswer(AnswerBody):
    values: list[ConfigValue]
    file: str


class HealthAnswer(AnswerBody):
    ok: bool
    state: DaemonState
    version: str
