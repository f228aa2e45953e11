"""Wire types of the background jobs. SPEC 9.1, 13"""

from typing import Literal

from mnemo_client.protocol.lifecycle import CycleView
from mnemo_client.protocol.primitives import AnswerBody


class JobStatus(AnswerBody):
    """A background job. It waits on battery or a busy machine where it is heavy; after a failure it is tried again."""

    name: str
    summary: str
    state: Literal["idle", "running", "waiting", "failing"]
    reason: str | None  # why it waits or fails
    slice: str  # what one run of it does at most before others have their turn
    heavy: bool
    runs: int  # since the start of the daemon, that were finished
    slices: int
    started_at: int | None  # the last run
    finished_at: int | None
    next_at: int | None = None  # null: when there is work, or as soon as it can
    failures: int = 0  # in a row
    last_failure: str | None = None
    failed_at: int | None = None


class OperationView(AnswerBody):
    """A long request under way. Its steps follow each other; `done` and `total` count what the step works on."""

    # Of the request: audit, backup, check, compact, compress, consolidate, export, forget, import, reindex, repair,
    # reset, topics, trash empty
    name: str
    step: str
    done: int
    total: int  # 0: not known
    started_at: int
    seconds: float  # since then
    rate: float | None = None  # of `done`, a second
    seconds_left: float | None = None  # of the step


class JobsAnswer(AnswerBody):
    """GET /v1/jobs."""

    jobs: list[JobStatus]
    operations: list[OperationView] = []
    last_cycle: CycleView | None = None  # of the job `consolidation`, or on request
