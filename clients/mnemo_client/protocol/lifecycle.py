"""The wire types of /v1 for consolidation: cycles, what they do, and their history. SPEC 9, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import ForecastLayer, ForecastOutcome, Kind, Layer, State
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, Namespace, PageQuery, RequestBody, ScopedPageQuery, WriteAnswer

Verdict = Literal["approve", "reject"]


class ConsolidateRequest(RequestBody):
    """POST /v1/consolidate. `namespace`: `*` for all."""

    namespace: Namespace | None = None
    dry_run: bool = False
    merge: Annotated[
        bool | None,
        Meta(description="also merge memories that say nearly the same; default: as `lifecycle.merge` says"),
    ] = None


class CycleStepView(AnswerBody):
    """A step of a cycle. `skipped`: why it was not carried out."""

    name: str
    counts: dict[str, int] = {}
    milliseconds: int = 0
    skipped: str | None = None


class CycleView(AnswerBody):
    """A cycle of consolidation. `id` is also the group of its changes. `ended_at` is null while it goes on."""

    id: str
    epoch: int
    started_at: int
    ended_at: int | None = None
    namespace: str = "*"
    requested: bool = False
    steps: list[CycleStepView] = []
    undone_at: int | None = None


class CycleOperationView(AnswerBody):
    """An operation of a cycle on the memories `ids`, with the texts that they had (null of one that it makes), and the
    new `text` where there is one."""

    step: str
    action: str
    ids: list[str]
    texts: list[str | None]
    text: str | None = None
    reason: str = ""


class ConsolidateAnswer(AnswerBody):
    """POST /v1/consolidate: the first 500 of `total` operations."""

    cycle: CycleView
    operations: list[CycleOperationView]
    total: int
    dry_run: bool = False
    namespace: str = "default"


class CyclesAnswer(AnswerBody):
    """GET /v1/consolidate/history: the last cycle first."""

    cycles: list[CycleView]
    cursor: str | None = None


class ProposalView(AnswerBody):
    """An operation that waits for a person. `memories`: what it is about, what would stay first. `text`: what would
    take their place; `tag`: what the memory would be tagged with. `stale`: why it cannot be approved any more."""

    id: str
    action: str
    reason: str
    at: int
    memories: list[MemoryView]
    text: str | None = None
    tag: str | None = None
    method: str | None = None
    similarity: float | None = None
    stale: str | None = None


class ReviewAnswer(AnswerBody):
    """GET /v1/review: the oldest proposal first. `total`: those that wait, at most 500."""

    proposals: list[ProposalView]
    total: int
    namespace: str = "default"
    cursor: str | None = None


class AuditRequest(RequestBody):
    """POST /v1/audit. `namespace`: `*` for all."""

    namespace: Namespace | None = None


class AuditPlanAnswer(ReviewAnswer):
    """POST /v1/audit: what waits for a person afterwards. `reviewed` memories were looked through, `left` are for the
    next audit, `proposed` operations are new."""

    reviewed: int = 0
    left: int = 0
    proposed: int = 0


class VerdictRequest(RequestBody):
    """POST /v1/review/{id}. `text`: approve it with this text."""

    verdict: Verdict
    text: Annotated[str, Meta(max_length=8192)] | None = None
    force: Annotated[bool, Meta(description="also if the text loses or adds a number, date or name")] = False


class VerdictAnswer(WriteAnswer):
    """POST /v1/review/{id}: the memories that were changed; undo takes the `group` back."""

    id: str
    verdict: Verdict
    ids: list[str] = []
    group: str | None = None


class ForecastQuery(ScopedPageQuery):
    """GET /v1/lifecycle. `layer`: `archive` for what is archived, whatever its layer; the others: what is active."""

    layer: ForecastLayer = "buffer"


class MemoryForecastView(AnswerBody):
    """A memory and what the next cycle would do with it. `text`: its first 200 characters; `others`: the memories that
    the operation is on beside it; `proposed`: an action that waits for a person's decision."""

    id: str
    text: str
    layer: Layer
    state: State
    strength: float  # now
    outcome: ForecastOutcome
    layer_then: Layer
    state_then: State
    strength_then: float
    reason: str
    kind: Kind
    pinned: bool = False
    others: list[str] = []
    proposed: str | None = None


class LayerForecast(AnswerBody):
    """The number of memories in a layer, and of those that the next cycle would take out of it, by what it would do
    with them."""

    total: int
    outcomes: dict[str, int]


class ForecastAnswer(AnswerBody):
    """GET /v1/lifecycle: the memories of a layer, first those that would not stay, each group the weakest first.

    The rules alone answer the questions of the steps. `model`: a cycle may ask a language model too, which may decide
    otherwise."""

    memories: list[MemoryForecastView]
    layers: dict[ForecastLayer, LayerForecast]
    at: int  # when this was worked out: what changed in the seconds since may be missing
    model: bool = False
    earliest_at: int | None = None  # no cycle begins by itself before this, nor without activity; null: none ever does
    namespace: str = "default"
    cursor: str | None = None


class LifecycleListQuery(PageQuery):
    """GET /v1/consolidate/history and /v1/review."""

    namespace: Namespace | None = None
