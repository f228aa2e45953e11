"""The wire types of /v1 for changes: versions of a memory, differences between two times, undo, the stream of events.
SPEC 13"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import EventType
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, RequestBody, ScopedPageQuery, ScopedRequest, ShortText, Time

ChangeKind = Literal["added", "changed", "trashed", "discarded", "erased"]


class VersionView(AnswerBody):
    """`what` is the operation that made it ("add", "edit", "rm", "restore", "notes", "undo:12"); changes of one `group`
    are undone together. `device`: of a change that another device made, its name. `overruled`: it came in behind a
    later one, and was never current here."""

    seq: int  # the change, as undo takes it
    at: int
    by: str
    memory: MemoryView
    what: str = ""
    group: str | None = None
    device: str | None = None
    overruled: bool = False


class HistoryAnswer(AnswerBody):
    """GET /v1/memories/{id}/history, newest first."""

    versions: list[VersionView]
    cursor: str | None = None


class ShowingView(AnswerBody):
    """An answer in which a memory was handed out: of which operation (recall, context, ask, chat, resume, triggers), to
    whom (as the author of a change), in which session, and the place of the memory in it, from 1. `answer` is the same
    for all memories of one answer."""

    answer: str
    at: int
    operation: str
    by: str
    rank: int
    session_id: str | None = None


class ShownAnswer(AnswerBody):
    """GET /v1/memories/{id}/shown, the latest answer first. `total`: on all pages. Of all memories together, the last
    20,000 of the last 90 days are kept."""

    shown: list[ShowingView]
    total: int
    cursor: str | None = None


class DifferenceView(AnswerBody):
    """The difference of one memory between two times; `seq`, `at`, `by` and `what` are of its last change in between.

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
    device: str | None = None  # as of a version
    memory: MemoryView | None = None
    fields: list[str] = []
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}


class DiffAnswer(AnswerBody):
    """GET /v1/diff: the latest change comes first in each list."""

    since_seq: int
    until_seq: int
    added: list[DifferenceView]
    changed: list[DifferenceView]
    removed: list[DifferenceView]
    namespace: str
    cursor: str | None = None


class UndoAnswer(AnswerBody):
    """POST /v1/undo. `seq` is the last of `seqs`, the changes that were undone; `undo_seq` the change that undid
    them."""

    seq: int
    what: str
    ids: list[str]  # the first 500
    dry_run: bool = False
    total: int = 0
    seqs: list[int] = []  # the last 500
    undo_seq: int | None = None
    undo_group: str | None = None  # of an undo that took several changes


class UndoRequest(RequestBody):
    """POST /v1/undo: the last change if none of `seq`, `group` and `cycle` is given. `cycle`: the id of a cycle of
    consolidation, or 8 or more digits of its end; `last` is the last one that changed a memory."""

    seq: int | None = None
    group: Annotated[str | None, Meta(description="undo every change of a group")] = None
    cycle: ShortText | None = None
    dry_run: bool = False


class ChangedMemory(AnswerBody):
    """A memory that a change touched; the namespace of an erased one is not known any more. Of a turn, `session_id` and
    the `tier` that it is in now (`archive` where it is archived): a turn that moves is a change, too."""

    id: str
    change: ChangeKind
    namespace: str | None = None
    session_id: str | None = None
    tier: Literal["ring", "recent", "registry", "archive"] | None = None


class StartEvent(AnswerBody):
    """The first event of a stream: the last change of the store."""

    seq: int


class ChangeEvent(AnswerBody):
    """A change of the store; `seq` is the id of the event."""

    seq: int
    at: int
    memories: list[ChangedMemory]


class GapEvent(AnswerBody):
    """The changes behind `since` up to `until` are not kept any more, or came faster than they were read."""

    since: int
    until: int


class JobEvent(AnswerBody):
    """A background job that is in another state than before."""

    name: str
    state: Literal["idle", "running", "waiting", "failing"]
    reason: str | None = None
    runs: int = 0


class ProgressEvent(AnswerBody):
    """The progress of an index that does not have all of its memories yet, or just got them."""

    view: str
    state: str
    share: float
    lag: int
    seconds_left: float | None = None


class OperationEvent(AnswerBody):
    """The progress of a long request, or its end. One that takes less than a second may have no event."""

    name: str
    started_at: int  # tells two of one name apart
    state: Literal["running", "ended"]
    step: str
    done: int
    total: int  # 0: not known


class EndEvent(AnswerBody):
    """The daemon ends the stream."""

    reason: str


Event = StartEvent | ChangeEvent | GapEvent | JobEvent | ProgressEvent | OperationEvent | EndEvent
EVENTS: dict[str, type[Event]] = {
    "start": StartEvent, "change": ChangeEvent, "gap": GapEvent, "job": JobEvent, "progress": ProgressEvent,
    "operation": OperationEvent, "end": EndEvent,
}  # fmt: skip


class DiffQuery(ScopedPageQuery):
    """GET /v1/diff: what changed since a time or a change (`seq:N`)."""

    since: Time
    until: Annotated[Time | None, Meta(description="until then instead of until now")] = None


class EventsQuery(ScopedRequest):
    """GET /v1/events. Without `follow` the events end with the present one."""

    types: Annotated[list[EventType], Meta(description="only events of this type; of several, any")] = []
    since: Annotated[int | None, Meta(description="begin behind this change")] = None
    follow: bool = True
