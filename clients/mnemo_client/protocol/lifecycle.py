"""The wire types of /v1 for consolidation: cycles, what they do, and their history. SPEC 9, 13"""

from mnemo_client.protocol.primitives import AnswerBody, Namespace, RequestBody


class ConsolidateRequest(RequestBody):
    """POST /v1/consolidate. `namespace`: `*` for all; `merge`: whether memories that say nearly the same become one,
    null as `lifecycle.merge` says."""

    namespace: Namespace | None = None
    dry_run: bool = False
    merge: bool | None = None


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
