"""The wire types of /v1 for the hooks of agents and editors. SPEC 11 [M]"""

from typing import Annotated

from msgspec import Meta

from mnemo_client.protocol.choices import HookEvent
from mnemo_client.protocol.ingestion import PieceAnswer
from mnemo_client.protocol.primitives import AnswerBody, ScopedRequest, ShortText, Time


class HookRequest(ScopedRequest):
    """POST /v1/hooks/{event}. Before a prompt: `prompt`. After a reply: `session_id`, and `prompt` and `reply` as far
    as they are to be stored, and `at` if they were said earlier than now. After a call of a tool: `session_id`, `tool`,
    and `arguments`, `result`, `failed` and `at` as far as they are known. At the start and end of a session:
    `session_id`."""

    session_id: ShortText | None = None
    prompt: str | None = None
    reply: str | None = None
    speaker: ShortText | None = None  # of the prompt
    tool: ShortText | None = None  # the name of the tool that was called
    arguments: Annotated[dict[str, str], Meta(max_length=32)] = {}  # of the call, as texts
    result: str = ""  # of the call
    failed: bool | None = None  # null: not known
    at: Time | None = None  # of prompt and reply, or of the call; null: now
    agent_id: ShortText | None = None


class HookAnswer(AnswerBody):
    """`context` is the text to put before the prompt, or at the start of the session; `results` are those of the stored
    turns, as of /v1/turns. `skipped` says why something was not done."""

    event: HookEvent
    context: str = ""
    memories: list[str] = []  # in `context`; of `tool` the step, of `session-end` the summary of the run
    results: list[PieceAnswer] = []
    skipped: str | None = None
    namespace: str = "default"
    degraded: list[str] = []
