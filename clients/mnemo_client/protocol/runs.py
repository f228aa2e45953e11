"""The wire types of /v1 for the runs of agents: their steps, and the summary of a run. SPEC 2.1, 13"""

from typing import Annotated, Literal

from msgspec import Meta

from mnemo_client.protocol.choices import Outcome
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.primitives import AnswerBody, ScopedRequest, ShortText, Time


class NewStep(ScopedRequest):
    """POST /v1/runs/{run}/steps. A number that the run has already changes that step as a whole."""

    action: Annotated[str, Meta(min_length=1, max_length=1000)]
    step_number: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None  # null: the one behind the last step
    outcome: Annotated[str, Meta(max_length=3000)] = ""
    key_findings: Annotated[str, Meta(max_length=2000)] = ""
    context: Annotated[str, Meta(max_length=2000)] = ""
    task_objective: Annotated[str, Meta(max_length=1000)] = ""
    event_at: Time | None = None
    agent_id: ShortText | None = None
    session_id: ShortText | None = None


class StepsAnswer(AnswerBody):
    """GET /v1/runs/{run}/steps: the steps by their numbers, and the summary of the run if one was made."""

    run_id: str
    steps: list[MemoryView]
    summary: MemoryView | None = None
    cursor: str | None = None
    namespace: str = "default"


class RunSummaryRequest(ScopedRequest):
    """POST /v1/runs/{run}/summary."""


class RunSummaryAnswer(AnswerBody):
    """The summary of a run; `duplicate` if the steps are those that it was made of. `reason`: why no language model
    wrote it."""

    outcome: Outcome
    memory: MemoryView
    method: Literal["llm", "rule"]
    reason: str | None = None
