"""The wire types of /v1 for memories: creating, reading, changing, deleting, erasing. SPEC 13.

The daemon decodes and encodes with the types of this package, and the OpenAPI document is generated from them. Within
v1 a field may be added, never removed or renamed. Times are integers, ms since the epoch in UTC; requests may use ISO
8601 text too. Requests with unknown fields are refused; unknown fields in answers of a newer daemon are ignored."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mnemo_client.protocol.choices import (
    Category,
    Dedup,
    Form,
    Kind,
    Layer,
    Relation,
    State,
    TimelineStep,
    TimelineTime,
    Trust,
    Wait,
)
from mnemo_client.protocol.primitives import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    AnswerBody,
    Limit,
    Namespace,
    RequestBody,
    ScopedPageQuery,
    ScopedRequest,
    ShortText,
    Time,
    Unit,
    WriteAnswer,
)

READ_ONLY = frozenset({  # fields that only the daemon sets: 400 `read_only`; `layer` is accepted and ignored
    "id", "modified_at", "version", "decay_rate", "importance_source", "trust", "method", "compressed",
    "compression_source", "source_session_id", "superseded_by", "managed", "note", "turn", "state", "access_count",
    "repetition_count", "last_accessed", "strength", "strength_epoch",
})  # fmt: skip
NOT_EDITED = READ_ONLY | {
    "created_at", "namespace", "user_id", "agent_id", "run_id", "key", "source", "trace", "supersedes",
}  # fmt: skip


KindFilter = Annotated[list[Kind], Meta(description="only this kind; of several, any")]
CategoryFilter = Annotated[list[Category], Meta(description="only this category; of several, any")]
LayerFilter = Annotated[list[Layer], Meta(description="only this layer; of several, any")]
StateFilter = Annotated[list[State], Meta(description="only in this state, such as trashed; of several, any")]
TagFilter = Annotated[list[str], Meta(description="only with this tag; of several, with all")]
Since = Annotated[
    Time | None,
    Meta(description="only what happened since: 2026-05-01, yesterday, 'last week', 'march 2024', 3d"),
]
Until = Annotated[Time | None, Meta(description="only what happened until; with 'last week', until its end")]
AsOf = Annotated[
    Time | None, Meta(description="as it was known then: 2026-05-01, 2026-05-01T18:30, 3d; of yesterday, at its end")
]


class FilterParameters(ScopedRequest, kw_only=True):
    """The parameters that choose memories: those that pass all of them, of one namespace."""

    agent_id: Annotated[ShortText | None, Meta(description="only memories of this agent")] = None
    run_id: Annotated[ShortText | None, Meta(description="only memories of this run of an agent")] = None
    session_id: Annotated[ShortText | None, Meta(description="only memories of this session")] = None
    kinds: KindFilter = []
    categories: CategoryFilter = []
    layers: LayerFilter = []
    tags: TagFilter = []
    source: Annotated[str | None, Meta(description="only from this source, such as note or cli")] = None
    speaker: Annotated[str | None, Meta(description="only what this person said")] = None
    since: Since = None
    until: Until = None


class ProcedureTrace(RequestBody):
    """A step of an agent's run: what it did, what for and where, what came of it, and what it learned by it."""

    step_number: int
    action: str
    task_objective: str = ""
    context: str = ""
    outcome: str = ""
    key_findings: str = ""


class NoteView(AnswerBody):
    """The place of a chunk of a note: enough to open the file at the line."""

    path: str  # absolute
    title: str
    headings: list[str]
    ordinal: int  # 0-based place among the file's chunks
    lines: tuple[int, int]  # first and last, 1-based, inclusive
    dated: bool = True  # False: the note has no date, and `event_at` is only the time of its file

    @property
    def trail(self) -> str:
        """Title and headings above the chunk; a title that is also the top heading appears once."""
        return " › ".join(self.headings if self.headings[:1] == [self.title] else [self.title, *self.headings])


class TurnView(AnswerBody):
    role: Literal["user", "agent"]
    tier: Literal["ring", "recent", "registry"] = "ring"
    promoted: bool = False
    summary: str = ""


class MemoryView(AnswerBody):
    """A memory with the fields of SPEC 2.1 and 2.2."""

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
    author: str | None = None  # who wrote it, if not the person: `agent NAME`, `imported from TOOL`, `tool output`
    seq: int | UnsetType | None = UNSET  # in the answer of an edit or a restore: its change; null: nothing was changed


class NewMemory(ScopedRequest):
    """POST /v1/memories. Only `content` is required.

    Under a known `key` an absent field stays as it is; null or an empty list clears it, and lets the rules decide kind,
    category and importance.
    """

    content: str
    kind: Annotated[Kind | UnsetType | None, Meta(description="its kind")] = UNSET
    form: Form | UnsetType | None = UNSET
    category: Annotated[Category | UnsetType | None, Meta(description="its subject")] = UNSET
    importance: Annotated[Unit | UnsetType | None, Meta(description="how important it is, 0 to 1")] = UNSET
    event_at: Annotated[
        Time | UnsetType | None,
        Meta(description="when it happened: 2026-05-01, yesterday, 2026-05-01T18:30, or ms since 1970"),
    ] = UNSET
    created_at: Time | None = None  # imports only
    expires_at: Annotated[
        Time | UnsetType | None, Meta(description="when it stops being true: 2026-05-01, tomorrow, or 3d for in 3 days")
    ] = UNSET
    speaker: Annotated[ShortText | UnsetType | None, Meta(description="who said it")] = UNSET
    source: Annotated[str, Meta(max_length=64)] | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    agent_id: ShortText | UnsetType | None = UNSET
    run_id: ShortText | UnsetType | None = UNSET
    session_id: ShortText | UnsetType | None = UNSET
    key: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="your own name for it: the same key again replaces the text"),
    ] = None
    evidence: Annotated[list[str] | UnsetType, Meta(description="a path, URL or id that it rests on")] = UNSET
    derived_from: list[str] | UnsetType = UNSET
    supersedes: Annotated[list[str], Meta(description="a memory that this one replaces, by its id")] = []
    pinned: Annotated[bool | UnsetType, Meta(description="protect it from decay, merging and deletion by agents")] = (
        UNSET
    )
    trace: ProcedureTrace | UnsetType | None = UNSET
    layer: Layer | None = None  # accepted and ignored [G 1]
    infer: Annotated[
        bool | None, Meta(description="also store each statement in it as a memory; default: as the profile says")
    ] = None
    dedup: Annotated[
        Dedup | None,
        Meta(description="what to do with a text that resembles a known memory; default: as the profile says"),
    ] = None
    wait: Wait = "stored"
    explain: Annotated[bool, Meta(description="show each decision and its reason")] = False


class Patch(RequestBody):
    """PATCH /v1/memories/{id}. An absent field stays as it is; null clears an optional one."""

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
    updates: Annotated[
        list[str] | UnsetType,
        Meta(description="a memory that it is newer than, in place of those found; undo ends the tie, restoring none"),
    ] = UNSET
    layer: Layer | UnsetType = UNSET  # accepted and ignored
    if_version: int | UnsetType = UNSET


class MoveRequest(RequestBody):
    """POST /v1/memories/{id}/move: to another layer, another namespace, into the archive (`archived`) or back; one of
    them at least."""

    layer: Layer | None = None
    namespace: Namespace | None = None
    archived: bool | None = None
    if_version: int | None = None


class MoveAnswer(WriteAnswer):
    """`outcome`: `duplicate` where the namespace has a memory with the same text, which is `memory` then, while the
    moved one is in the trash."""

    outcome: Literal["moved", "duplicate", "unchanged"]
    memory: MemoryView


class DeleteAnswer(WriteAnswer):
    deleted: int
    id: str


class BulkDeleteAnswer(WriteAnswer):
    ids: list[str]
    deleted: int | UnsetType = UNSET
    would_delete: int | UnsetType = UNSET


class TagsAnswer(AnswerBody):
    """GET /v1/tags: the number of memories with each tag, the commonest first."""

    tags: dict[str, int]
    namespace: str = "default"


class AgentView(AnswerBody):
    """An agent that wrote: how many memories there are of it, and when it wrote the last of them (ms)."""

    agent_id: str
    memories: int
    last_at: int


class AgentsAnswer(AnswerBody):
    """GET /v1/agents: those that wrote memories which are active or archived, the last one to write first."""

    agents: list[AgentView]
    total: int
    cursor: str | None = None
    namespace: str = "default"


class MemoryPage(AnswerBody):
    """GET /v1/memories. `missing`: those of the request's ids that are no memory that the caller may see."""

    memories: list[MemoryView]
    cursor: str | None = None
    missing: list[str] = []


class EdgeView(AnswerBody):
    """An edge of a memory. `direction`: `to` leads from the memory that was asked about to `memory`, `from` the other
    way; a memory `updates` an older one and `repeats` an earlier one. `via`: `link` for a wiki link of a note."""

    relation: Relation
    direction: Literal["to", "from"]
    at: int
    memory: MemoryView
    via: Literal["link"] | None = None


class EdgesAnswer(AnswerBody):
    """GET /v1/memories/{id}/edges."""

    edges: list[EdgeView]
    cursor: str | None = None


class TrashView(AnswerBody):
    memory: MemoryView
    at: int
    why: str


class TrashPage(AnswerBody):
    """GET /v1/trash, newest first. `entries` add when and why each memory was deleted."""

    memories: list[MemoryView]
    entries: list[TrashView] = []
    cursor: str | None = None


class EraseFilter(FilterParameters):
    """A filter of memories to erase: all that pass, in any state, of one namespace."""

    states: StateFilter = []  # empty: every state


class EraseOneRequest(RequestBody):
    """POST /v1/memories/{id}/purge."""

    dry_run: bool = False
    quoting: Annotated[bool, Meta(description="also erase memories that quote one of the texts in full")] = False
    everywhere: Annotated[
        bool, Meta(description="also erase it from backups and other copies of the store, by rewriting them")
    ] = False


class EraseRequest(EraseOneRequest, kw_only=True):
    """POST /v1/purge: `ids` or `filter`, not both."""

    ids: Annotated[list[str], Meta(max_length=10_000)] = []
    filter: EraseFilter | None = None


class SearchedPlace(AnswerBody):
    """A place that was searched for traces: a path in the data folder, or "memory ID" for a memory that stays."""

    place: str
    state: Literal["clean", "removed", "still there"]
    detail: str = ""


class Quotation(AnswerBody):
    """A memory that stays and quotes an erased text in full, in the latest version that does."""

    id: str
    version: int
    excerpt: str


class ResidueSearch(AnswerBody):
    """The search of every file of the data folder, except backups, for text that only the erased memories had."""

    files: int = 0
    bytes: int = 0
    needles: int = 0  # texts, runs of five words and long words that were searched for
    found: list[str] = []  # files with a match


class EraseAnswer(AnswerBody):
    """The result of an erasure, or of its dry run. `complete`: no trace is left."""

    purged: list[str]  # the ids of the request
    derived: list[str]  # memories derived from them, which are erased too
    rederive: dict[str, list[str]] = {}  # those of `derived` that had other sources too, with these: derive them again
    revived: list[str] = []  # memories that an erased one had superseded, and that are active again
    mended: list[str] = []  # memories that stay, without their references to erased ones
    places: list[SearchedPlace] = []  # still there: a file, or `memory ID` for a memory that stays with the same text
    candidates: list[Quotation] = []  # memories that stay and quote an erased text: `quoting` erases them too
    backups: list[str] = []  # copies of the store with a trace; of a dry run, those that may have one
    searched: ResidueSearch = msgspec.field(default_factory=ResidueSearch)
    complete: bool = True  # nothing is still there; copies of the store count only with `everywhere`
    dry_run: bool = False
    seconds: float = 0.0


class EmptyTrashAnswer(AnswerBody):
    """DELETE /v1/trash. Without `confirm` nothing is erased, and `dropped` is how many would be."""

    dropped: int
    bytes: int  # of their texts
    dry_run: bool = False


class ListFilter(
    FilterParameters,
    kw_only=True,
    rename={"kinds": "kind", "categories": "category", "layers": "layer", "states": "state", "tags": "tag"},
):
    """The query string of lists and of DELETE by filter."""

    kinds: KindFilter = []
    categories: CategoryFilter = []
    layers: LayerFilter = []
    states: StateFilter = []
    tags: TagFilter = []


class ListQuery(ListFilter, kw_only=True):
    """GET /v1/memories."""

    as_of: AsOf = None
    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None


class ListMemoriesQuery(ListQuery, kw_only=True):
    """GET /v1/memories. With ids, these memories in this order, of any namespace and state; filters are refused."""

    id: Annotated[list[str], Meta(max_length=LIMIT_MAX)] = []
    key: Annotated[str, Meta(max_length=256)] | None = None  # the caller's own name of one memory, in one namespace


class GetQuery(RequestBody):
    """GET /v1/memories/{id}: with `as_of`, its past version."""

    as_of: AsOf = None


class MemoryPartsQuery(RequestBody):
    """GET /v1/memories/{id}/history and /v1/memories/{id}/edges."""

    limit: Limit = LIMIT_MAX
    cursor: str | None = None


class DeleteQuery(ListFilter):
    """DELETE /v1/memories: without `confirm` only report which would be deleted."""

    id: list[str] = []  # these instead of what passes filters: all of them, or none where one does not exist
    confirm: bool = False


class DeleteByIdQuery(RequestBody):
    """DELETE /v1/memories/{id}."""

    why: Annotated[str, Meta(max_length=256)] = "deleted"


class TrashQuery(ScopedPageQuery):
    """GET /v1/trash."""

    set_aside: Annotated[bool, Meta(description="list instead what ingestion rejected")] = False


class RecentQuery(ListQuery):
    """GET /v1/recent."""

    hours: Annotated[float, Meta(gt=0)] | None = None


class TimelineQuery(ListFilter, kw_only=True):
    """GET /v1/timeline. `by`: the time that counts; `changed` is that of the last change of the text or its fields.
    `since` and `until` are times of that kind, and are widened to whole steps."""

    by: TimelineTime = "event"
    step: TimelineStep = "day"


class TimelineSource(AnswerBody):
    """A source of memories, and how many of a range it has."""

    name: str
    count: int


class TimelineBucketView(AnswerBody):
    """A step with at least one memory, from `since` up to `until`. `sources`: counts in the order of the answer's."""

    since: int
    until: int
    count: int
    sources: list[int]


class TimelineAnswer(AnswerBody):
    """GET /v1/timeline: how many memories belong to each step of a range; steps with none are left out."""

    since: int  # of the range, which consists of whole steps
    until: int
    total: int  # in the range
    buckets: list[TimelineBucketView]
    sources: list[TimelineSource]  # in the range: the 20 commonest, and as "" the rest
    first: int | None = None  # the earliest and latest time of all memories of the filter, in the range or not
    last: int | None = None
    hours: list[int] | None = None  # by local hour of the day, 0 to 23; null of a range of more than 400 days
    namespace: str = "default"


class EmptyTrashQuery(ScopedRequest):
    """DELETE /v1/trash: without `confirm` only report how much would be erased."""

    confirm: bool = False
