"""The wire types of GET /v1/events. SPEC 13"""

from typing import Literal

from mnemo_client.protocol.primitives import AnswerBody

ChangeKind = Literal["added", "changed", "trashed", "discarded", "erased"]


class ChangedMemory(AnswerBody):
    """A memory that a change touched; the namespace of an erased one is not known any more."""

    id: str
    change: ChangeKind
    namespace: str | None = None


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
