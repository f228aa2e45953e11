"""Every record the store keeps, and the closed union of writes. SPEC 2, 3.3.

A change states the result, not the operation: replaying it twice is replaying it once. What a memory is (Memory) is
versioned; how it is used (Usage) is not. The same structs are MessagePack in the database and JSON in the journal;
`codec` encodes them.
"""

from typing import Literal, get_args

import msgspec

Kind = Literal["semantic", "episodic", "procedural", "working"]
Form = Literal["preference", "step", "workflow"]
Category = Literal["fact", "preference", "project", "decision", "crumb", "request", "result"]
Layer = Literal["buffer", "working", "core"]
Trust = Literal["user", "note", "agent", "import", "tool"]
ImportanceSource = Literal["user", "rule", "llm"]
State = Literal["active", "archived", "compressed", "superseded", "discarded", "trashed"]
Tier = Literal["ring", "recent", "registry"]
Relation = Literal["repeats", "updates", "related"]
NodeRelation = Literal["co_occurs", "derived_from", "abstracted_from", "related"]
LifecycleAction = Literal[
    "activate", "archive", "promote", "demote", "tag", "merge", "supersede", "absorb", "distil", "delete", "overlap"
]
DecisionStatus = Literal["apart", "proposed", "rejected", "done"]

# Of all that is kept: whatever changes a record, a default or a table is a new one. store/docs/format.md
FORMATS = {
    1: "what this page describes, without the devices",
    2: "`clock`, `device` and `origin` of a change, `overruled` versions, `device_usage`, `record_clock`; packed "
    "lines; `embedding_rows`",
    3: "packed values of the database",
}
FORMAT = max(FORMATS)

KINDS: tuple[Kind, ...] = get_args(Kind)
CATEGORIES: tuple[Category, ...] = get_args(Category)
LAYERS: tuple[Layer, ...] = get_args(Layer)
TRUSTS: tuple[Trust, ...] = get_args(Trust)  # most trusted first
OWN_TRUSTS: tuple[Trust, ...] = ("user", "note")  # of what the person said or keeps in notes; others wrote the rest
STATES: tuple[State, ...] = get_args(State)
TIERS: tuple[Tier, ...] = get_args(Tier)  # the hottest first

DEFAULT_NAMESPACE = "default"  # used where none is named; every search of another one includes it. SPEC 2.4
CONTENT_CHARS_MAX = 8192  # code points after cleaning [G 1]
TAGS_MAX = 20  # [G 1]
TAG_CHARS_MAX = 32  # [G 1]
SOURCE_CHARS_MAX = 64  # [G 1]
NAMESPACE_CHARS_MAX = 64
SCOPE_CHARS_MAX = 128  # user_id, agent_id, run_id, session_id, speaker
KEY_CHARS_MAX = 256
EVIDENCE_MAX = 64

PROFILE_SOURCE = "profile"  # of the entries of profiles
SUMMARY_SOURCE = "compress"  # of the memories that stand in the place of a session's
HOOK_SOURCE = "hook"  # of the steps that the hook of an agent records: every call of a tool
PROXY_SOURCE = "proxy"  # of what a program and a model server said to each other through `mnemo proxy`
UNREQUESTED_SOURCES = ("ingest", "turn", "extract", PROXY_SOURCE, HOOK_SOURCE)  # they take in every text of a stream


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A persisted value. Fields at their default are not written."""


class NotePlace(Record, frozen=True):
    """The place of a chunk in its note. Path, ordinal and lines are in the NoteFile, so that moving text within a file,
    or moving the file, changes no memory."""

    title: str
    headings: tuple[str, ...] = ()  # the trail from the top heading down, without the title
    dated: bool = False  # its event_at is a date that the note gives; False: the time of the file, and no event
    folder: str = ""  # of a passage that another device reads: the portable name of its folder. SPEC 21


class ConversationTurn(Record, frozen=True):
    """The additional fields of a memory that is one side of a conversation. SPEC 8."""

    role: Literal["user", "agent"]
    tier: Tier = "ring"
    promoted: bool = False
    summary: str = ""


class TraceStep(Record, frozen=True):
    """A procedural step of an agent's run. [E]"""

    step_number: int
    action: str
    task_objective: str = ""
    context: str = ""
    outcome: str = ""
    key_findings: str = ""


class Memory(Record, frozen=True):
    """The content and attributes of a memory. Every version stays in the history. Times are ms since the epoch, UTC."""

    id: str  # UUIDv7, lower-case text
    content: str
    created_at: int
    modified_at: int
    event_at: int
    version: int = 1
    kind: Kind = "semantic"
    form: Form | None = None
    category: Category = "fact"
    layer: Layer = "buffer"
    importance: float = 0.5
    importance_source: ImportanceSource = "rule"
    decay_rate: float = 5.0
    speaker: str = ""
    trust: Trust = "user"
    method: str = "said"
    source: str = "api"
    tags: tuple[str, ...] = ()
    namespace: str = "default"
    user_id: str = "local"
    agent_id: str = ""
    run_id: str = ""
    session_id: str = ""
    key: str = ""
    evidence: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    compression_source: bool = False
    source_session_id: str = ""
    superseded_by: str = ""
    pinned: bool = False
    managed: str = ""  # id of the NoteFile it is a chunk of
    expires_at: int = 0  # 0: never
    trace: TraceStep | None = None
    note: NotePlace | None = None
    turn: ConversationTurn | None = None
    state: State = "active"
    overruled: bool = False  # only in the history: another device's version, which was never current here. SPEC 21


class Usage(Record, frozen=True):
    """The usage of a memory: unversioned, absolute, written a few seconds late at most. SPEC 2.2."""

    id: str
    access_count: int = 0
    repetition_count: int = 0
    last_accessed: int = 0  # ms; 0: never
    strength: float = 0.5
    strength_epoch: int = 0
    person_at: int = 0  # ms: when a person last recalled or edited it; 0: never


class TrashEntry(Record, frozen=True):
    """The time and reason of a memory's move to the trash, and its state before."""

    id: str
    at: int
    why: str
    state: State


class Edge(Record, frozen=True):
    """A relation between two memories. SPEC 5.5, 6."""

    source: str
    target: str
    relation: Relation
    at: int
    via: Literal["", "link"] = ""  # its origin: "link", a wiki link of a note; removed together with the link
    slot: bool = False  # `related`, and source perhaps says a newer value of what target says. SPEC 5.8


class ChunkRef(msgspec.Struct, frozen=True, array_like=True):
    """One chunk of a note file, in order: its memory, the hash of its text, and its lines (1-based, inclusive)."""

    memory: str
    hash: str
    first_line: int
    last_line: int
    tags: tuple[str, ...] = ()  # from the file; other tags of the memory were changed by a person


class NoteFile(Record, frozen=True):
    """The state of one file of a notes folder. Its chunks are in file order."""

    id: str
    root: str  # id of the NoteRoot
    path: str  # relative to the root, with forward slashes
    inode: int = 0
    mtime_ns: int = 0
    size: int = 0
    hash: str = ""  # of the bytes as read
    title: str = ""
    chunks: tuple[ChunkRef, ...] = ()
    missing: bool = False  # gone from the folder; its chunks are in the trash and come back with it
    links: tuple[str, ...] = ()  # wiki-link targets as written
    importance: float | None = None  # of its chunks, from the front matter
    reader: int = 0  # version of the reader's rules: a file read by older rules is read again


class NoteRoot(Record, frozen=True):
    """A watched folder."""

    id: str
    path: str  # absolute
    added_at: int
    namespace: str = "default"


class Skip(Record, frozen=True):
    """A salted hash of a chunk that a person deleted: rescans of that file skip this text until it changes."""

    file: str
    hash: str


class ErasedText(Record, frozen=True):
    """A salted hash of an erased text: no restore, import or rescan brings it back unless asked to. SPEC 3.7"""

    hash: str
    at: int


LlmOutcome = Literal["answered", "rejected", "unusable", "late", "cancelled", "too_long", "failed"]


class LlmCall(Record, frozen=True):
    """One call of a language model. SPEC 12.2

    Of its outcomes, `rejected` is by the validation of the task, and `unusable` an answer that is not of its form.
    `reason` is the kind of a rejection, without any word of a memory.
    """

    id: str
    at: int  # ms
    site: str  # the task that called
    model: str
    outcome: LlmOutcome
    tokens_in: int = 0
    tokens_out: int = 0
    milliseconds: int = 0
    reason: str = ""


class Fact(Record, frozen=True):
    """A subject, predicate and object that a memory states. SPEC 5.6 [G 9]"""

    id: str
    memory: str  # the id of the memory that it was read from
    content_hash: str  # of that memory's text then, in hexadecimal: where the text is another now, it holds no more
    subject: str
    predicate: str
    object: str
    created_at: int  # ms
    method: str = "rule"
    valid_from: int = 0  # ms; 0: not known
    valid_to: int = 0  # ms; 0: it still holds
    superseded_by: str = ""  # the id of the fact that ended it
    namespace: str = "default"
    user_id: str = "local"
    beside: tuple[str, ...] = ()  # ids of facts that hold beside it, as somebody decided: they are no conflict


class PendingExtraction(Record, frozen=True):
    """A memory whose text is still to be broken into statements. SPEC 5.6"""

    id: str  # of the memory
    at: int  # ms: when that was asked for
    group: str = ""  # of the change that stored the memory, so that undo takes back both
    dedup: Literal["", "guarded", "off", "source"] = ""  # of the request; "": as the profile says


class Session(Record, frozen=True):
    """A conversation that turns were stored of. SPEC 8

    Which tier each of its turns is in is in the turns themselves.
    """

    id: str  # session_key of its namespace, user_id and session_id
    session_id: str
    started_at: int  # ms: when its first turn was stored; of an imported one, when it was said
    last_at: int  # ms: the same of its last turn
    namespace: str = "default"
    user_id: str = "local"
    agent_id: str = ""  # of its last turn
    ended_at: int = 0  # ms: when it was paired and filed; 0: it goes on
    turns: int = 0  # that were stored of it, moved or not


class TurnPair(Record, frozen=True):
    """A turn of a session and its answer, in the registry. SPEC 8

    It has no text: that is in the two memories. If one of them is erased, the pair goes with it.
    """

    id: str  # of the memory that is its first turn
    reply: str  # the id of the memory that answers it; the first one's where there is none
    session_id: str
    at: int  # ms: the time of its first turn
    node: str = ""  # the id of its topic node; "", or an unknown one: it waits for one
    is_archived: bool = False  # beyond the cap of the registry
    namespace: str = "default"
    user_id: str = "local"


class TopicNode(Record, frozen=True):
    """A group of turn pairs about one topic. Its members are the pairs that name it. SPEC 10.2"""

    id: str
    created_at: int  # ms
    name: str = ""  # given by a language model; "": the beginning of its first pair's text
    namespace: str = "default"
    user_id: str = "local"


class NodeEdge(Record, frozen=True):
    """A relation between two topic nodes. Where it has no direction, the source is the smaller id. SPEC 10.2"""

    source: str
    target: str
    relation: NodeRelation
    at: int  # ms: of its last change
    weight: int = 1  # of co_occurs: the number of recalls in which both nodes were near the query


class Showing(Record, frozen=True):
    """An answer in which a memory was handed out. It has no word of the question, nor of the memory."""

    id: str  # of the answer, which several memories have in common
    memory: str
    at: int  # ms
    operation: str  # that was asked for: recall, context, resume, …
    by: str  # who asked, as the author of a change is named
    session_id: str = ""
    rank: int = 1  # of the memory in the answer, from 1


class DeviceUsage(Record, frozen=True):
    """The part that one device has in the usage of a memory: counts are added over the devices. SPEC 21"""

    id: str
    device: str
    clock: int  # ms: of the device's last change; the latest has the strength
    access_count: int = 0
    repetition_count: int = 0
    last_accessed: int = 0  # ms; 0: never
    strength: float = 0.5
    strength_epoch: int = 0
    person_at: int = 0  # ms; 0: never


class RecordClock(Record, frozen=True):
    """The last change of a record that has no versions, or of one that was removed: later changes of other devices win.
    Kept from the moment on at which the store is shared. SPEC 21"""

    name: str  # table and key of the record
    clock: int  # ms: the hybrid logical clock of the change
    device: str = ""  # that made it; "": this one
    origin: int = 0  # its number at that device
    is_removed: bool = False
    is_erased: bool = False  # a memory whose texts must not come back


class UsageChange(Record, frozen=True):
    """The usage of a memory before and after a change."""

    before: Usage
    after: Usage


class OperationReport(Record, frozen=True):
    """An operation of a cycle. `ids`: what stays or was made first."""

    action: LifecycleAction
    ids: tuple[str, ...]


class StepReport(Record, frozen=True):
    """The result of one step of a cycle. A usage has no versions: undo takes it back by what is in `usages`."""

    name: str
    counts: dict[str, int]
    milliseconds: int = 0
    skipped: str = ""  # why it was not carried out
    usages: tuple[UsageChange, ...] = ()
    operations: tuple[OperationReport, ...] = ()


class Cycle(Record, frozen=True):
    """A cycle of consolidation. Its id is the group of everything that it wrote. SPEC 9.1

    Steps are in the order in which they were carried out; of an interrupted cycle those that are missing are still to
    be carried out.
    """

    id: str
    epoch: int  # that it ended, or is to end
    started_at: int  # ms
    seq: int  # of the last change before it
    ended_at: int = 0  # ms; 0: it goes on
    namespace: str = ""  # "": all
    is_requested: bool = False
    steps: tuple[StepReport, ...] = ()
    undone_at: int = 0  # ms; 0: it stands
    # What has no versions, and an undo puts back: decisions, and meta values as they were before.
    decisions: tuple["DecisionChange", ...] = ()
    metas: tuple["MetaChange", ...] = ()


class LifecycleDecision(Record, frozen=True):
    """The decision of the lifecycle or of a person on one or more memories, so that it is made once. SPEC 9.5, 9.7

    It holds for the texts of `digest`: where one was changed, there is none. Of a pair, which memory is `other` follows
    from the action; of one that has no direction, `other` is the larger id.
    """

    memory: str
    action: LifecycleAction
    other: str  # `memory` again where the decision is on one memory
    status: DecisionStatus
    at: int  # ms
    digest: str  # decision_digest of the texts, in this order
    more: tuple[str, ...] = ()  # memories beyond the two
    text: str = ""  # proposed for what the action makes
    tag: str = ""  # proposed
    reason: str = ""
    method: str = ""  # how the proposed text came to be written: rule, llm:MODEL
    # Of a decision that carried out a proposal, for undo, since a usage has no versions.
    group: str = ""  # of its changes
    usages: tuple[UsageChange, ...] = ()


class MetaChange(Record, frozen=True):
    """A meta value before a cycle that changed it."""

    name: str
    before: str


class DecisionChange(Record, frozen=True):
    """A decision that a cycle wrote or removed. `before`: what stood there, without texts that were proposed."""

    memory: str
    action: LifecycleAction
    other: str
    before: LifecycleDecision | None = None


class PutMemory(Record, frozen=True, tag_field="record_type", tag="memory"):
    data: Memory


class PutScore(Record, frozen=True, tag_field="record_type", tag="score"):
    """Sets the importance that a rule gives a memory. That makes no version: the record keeps the seq of its change."""

    id: str
    importance: float


class DropMemory(Record, frozen=True, tag_field="record_type", tag="memory_dropped"):
    """Removes a memory for good, with everything that belongs to it.

    It also ends what the journal could restore, since a replay applies it too. For a memory whose record is missing it
    may therefore be written only after a repair's `reread`, which first restores what the journal still has.
    """

    id: str


class PutVersion(Record, frozen=True, tag_field="record_type", tag="overruled_version"):
    """Adds to the history of a memory a version of another device that does not become current."""

    data: Memory


class PutUsage(Record, frozen=True, tag_field="record_type", tag="usage"):
    data: Usage


class PutTrash(Record, frozen=True, tag_field="record_type", tag="trash"):
    data: TrashEntry


class DropTrash(Record, frozen=True, tag_field="record_type", tag="trash_dropped"):
    id: str


class PutEdge(Record, frozen=True, tag_field="record_type", tag="edge"):
    data: Edge


class DropEdge(Record, frozen=True, tag_field="record_type", tag="edge_dropped"):
    source: str
    target: str
    relation: Relation


class PutNote(Record, frozen=True, tag_field="record_type", tag="note"):
    data: NoteFile


class DropNote(Record, frozen=True, tag_field="record_type", tag="note_dropped"):
    id: str


class PutRoot(Record, frozen=True, tag_field="record_type", tag="notes_root"):
    data: NoteRoot


class DropRoot(Record, frozen=True, tag_field="record_type", tag="notes_root_dropped"):
    id: str


class PutSkip(Record, frozen=True, tag_field="record_type", tag="skip"):
    data: Skip


class DropSkip(Record, frozen=True, tag_field="record_type", tag="skip_dropped"):
    file: str
    hash: str


class PutErasedText(Record, frozen=True, tag_field="record_type", tag="forgotten"):
    data: ErasedText


class DropErasedText(Record, frozen=True, tag_field="record_type", tag="forgotten_dropped"):
    """Allows the text to be remembered again."""

    hash: str


class PutLlmCall(Record, frozen=True, tag_field="record_type", tag="llm_call"):
    data: LlmCall


class DropLlmCall(Record, frozen=True, tag_field="record_type", tag="llm_call_dropped"):
    id: str


class PutFact(Record, frozen=True, tag_field="record_type", tag="fact"):
    data: Fact


class DropFact(Record, frozen=True, tag_field="record_type", tag="fact_dropped"):
    id: str
    memory: str


class PutExtraction(Record, frozen=True, tag_field="record_type", tag="extraction"):
    data: PendingExtraction


class DropExtraction(Record, frozen=True, tag_field="record_type", tag="extraction_dropped"):
    id: str


class PutSession(Record, frozen=True, tag_field="record_type", tag="session"):
    data: Session


class DropSession(Record, frozen=True, tag_field="record_type", tag="session_dropped"):
    id: str


class PutTurnPair(Record, frozen=True, tag_field="record_type", tag="turn_pair"):
    data: TurnPair


class DropTurnPair(Record, frozen=True, tag_field="record_type", tag="turn_pair_dropped"):
    id: str
    reply: str


class PutTopicNode(Record, frozen=True, tag_field="record_type", tag="topic_node"):
    data: TopicNode


class DropTopicNode(Record, frozen=True, tag_field="record_type", tag="topic_node_dropped"):
    """Removes a node. The change that drops it drops its edges, too, and gives its pairs another node or none."""

    id: str


class PutNodeEdge(Record, frozen=True, tag_field="record_type", tag="node_edge"):
    data: NodeEdge


class DropNodeEdge(Record, frozen=True, tag_field="record_type", tag="node_edge_dropped"):
    source: str
    target: str
    relation: NodeRelation


class PutCycle(Record, frozen=True, tag_field="record_type", tag="cycle"):
    data: Cycle


class DropCycle(Record, frozen=True, tag_field="record_type", tag="cycle_dropped"):
    id: str


class PutDecision(Record, frozen=True, tag_field="record_type", tag="decision"):
    data: LifecycleDecision


class DropDecision(Record, frozen=True, tag_field="record_type", tag="decision_dropped"):
    memory: str
    action: LifecycleAction
    other: str


class PutShowing(Record, frozen=True, tag_field="record_type", tag="showing"):
    data: Showing


class DropShowing(Record, frozen=True, tag_field="record_type", tag="showing_dropped"):
    id: str
    memory: str


class PutDeviceUsage(Record, frozen=True, tag_field="record_type", tag="device_usage"):
    data: DeviceUsage


class DropDeviceUsage(Record, frozen=True, tag_field="record_type", tag="device_usage_dropped"):
    id: str
    device: str


class PutRecordClock(Record, frozen=True, tag_field="record_type", tag="record_clock"):
    data: RecordClock


class DropRecordClock(Record, frozen=True, tag_field="record_type", tag="record_clock_dropped"):
    name: str


class PutMeta(Record, frozen=True, tag_field="record_type", tag="meta"):
    """A named fact about the whole store: the model in use, the epoch."""

    name: str
    value: str


Change = (
    PutMemory | PutScore | DropMemory | PutVersion | PutUsage | PutTrash | DropTrash | PutEdge | DropEdge
    | PutNote | DropNote | PutRoot | DropRoot | PutSkip | DropSkip | PutErasedText | DropErasedText | PutMeta
    | PutLlmCall | DropLlmCall | PutFact | DropFact | PutExtraction | DropExtraction
    | PutSession | DropSession | PutTurnPair | DropTurnPair | PutTopicNode | DropTopicNode
    | PutNodeEdge | DropNodeEdge | PutCycle | DropCycle | PutDecision | DropDecision | PutShowing | DropShowing
    | PutDeviceUsage | DropDeviceUsage | PutRecordClock | DropRecordClock
)  # fmt: skip


class ChangeEntry(Record, frozen=True):
    """The history entry of a transaction: the row of the table `changes`, by seq."""

    at: int
    by: str
    group: str = ""
    ids: tuple[str, ...] = ()  # memories whose record changed, deletions included
    used: tuple[str, ...] = ()  # memories whose usage changed
    what: str = ""  # the operation, as a person would name it: "add", "edit", "rm", "notes"
    clock: int = 0  # ms: hybrid logical clock, never earlier than what its device knew; 0: `at`. SPEC 21
    device: str = ""  # that made the change; "": this one
    origin: int = 0  # the seq that it has there; 0: this one


def default_decay_rate(layer: Layer, kind: Kind) -> float:
    """The decay of the recency term when nobody set one. SPEC 2.1 [G 1]"""
    match layer:
        case "buffer":
            return 5.0
        case "core":
            return 0.05
        case "working":
            return {"semantic": 0.3, "procedural": 0.1, "episodic": 1.0, "working": 1.0}[kind]


def is_long_term(change: Change) -> bool:
    """True for changes that belong in journal/long_term.jsonl: core memories, summaries, facts and topics.
    SPEC 3.3 [M]"""
    if isinstance(change, PutMemory):
        return change.data.layer == "core" or change.data.compression_source
    return isinstance(change, PutFact | PutTopicNode)
