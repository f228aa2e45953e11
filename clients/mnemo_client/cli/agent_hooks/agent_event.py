"""The event of a hook, read from the JSON that an agent writes to its standard input.

Claude Code, Codex and Gemini CLI name the common fields alike: `session_id`, `cwd`, `hook_event_name`, `prompt`, and of
the call of a tool `tool_name`, `tool_input` and `tool_response`. Each has a name of its own for the reply.
"""

import json
import os
import select
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from mnemo_client.errors import UsageError

INPUT_BYTES_MAX = 8 * 1024 * 1024  # a prompt with pasted files, and the reply to it
TEXT_CHARS_MAX = 200_000  # of a prompt or reply; the daemon's limit of a body is 1 MiB
ID_CHARS_MAX = 128  # SPEC 2.1
ARGUMENTS_MAX = 32  # of the call of a tool
CALL_CHARS_MAX = 4000  # of an argument, and of the result: the daemon keeps a line, but looks for secrets beyond it
OWN_TOOLS = ("mcp__mnemo__", "mcp_mnemo_")  # how tools of our server are called: what they return is stored already
_REPLY_FIELDS = ("reply", "last_assistant_message", "prompt_response")  # ours; Claude Code and Codex; Gemini CLI
RESULT_DEPTH_MAX = 4  # lists and objects around the text of a result
# In the result of a tool, the fields that may say what came of it: Claude Code's, MCP's, Gemini CLI's
_RESULT_FIELDS = ("error", "stdout", "stderr", "returnDisplay", "llmContent", "message", "content", "text", "output")


class ToolCall(NamedTuple):
    """The call of a tool: texts by the names of its arguments, and what came of it. `failed`: None where the agent says
    nothing of that."""

    name: str
    arguments: dict[str, str]
    result: str
    failed: bool | None


class AgentEvent(NamedTuple):
    """The fields that hooks use. `folder` is the working directory of the agent, where the JSON names one."""

    session_id: str = ""
    prompt: str = ""
    reply: str = ""
    call: ToolCall | None = None
    folder: Path | None = None
    agent_event: str = ""  # the agent's own name of the event


def read_event(event: str, text: str, session: str | None) -> AgentEvent:
    """Return the event of a JSON object; any other text is the prompt or the reply itself."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        found = AgentEvent(prompt=text if event == "prompt" else "", reply=text if event == "reply" else "")
    else:
        folder = _text_of(given, "cwd")
        found = AgentEvent(
            session_id=_one_line(_text_of(given, "session_id")),
            prompt=_text_of(given, "prompt")[:TEXT_CHARS_MAX],
            reply=next(filter(None, (_text_of(given, name) for name in _REPLY_FIELDS)), "")[:TEXT_CHARS_MAX],
            call=_tool_call(given),
            folder=Path(folder) if folder.startswith("/") else None,
            agent_event=_text_of(given, "hook_event_name"),
        )
    return found if found.session_id else found._replace(session_id=_one_line(session or ""))


def _tool_call(given: Mapping[str, Any]) -> ToolCall | None:
    """Return the call in the JSON. PostToolUseFailure of Claude Code has an `error` in the place of
    `tool_response`, AfterTool of Gemini CLI in it; Codex gives a text, which says nothing of success."""
    name = _one_line(_text_of(given, "tool_name"))
    if not name:
        return None
    arguments, response = given.get("tool_input"), given.get("tool_response")
    named = arguments if isinstance(arguments, dict) else {"input": arguments}
    error = given.get("error") or (response.get("error") if isinstance(response, dict) else None)
    failed = bool(error) if error or isinstance(response, dict | list) else None
    if isinstance(response, dict):
        failed = failed or any(response.get(flag) is True for flag in ("isError", "is_error", "interrupted"))
    texts = {_call_text(key)[:ID_CHARS_MAX]: _call_text(value) for key, value in list(named.items())[:ARGUMENTS_MAX]}
    return ToolCall(name, texts, _call_text(_result_in(error or response)), failed)


def _result_in(value: Any, depth: int = RESULT_DEPTH_MAX) -> str:
    """Return the text in a tool's answer that says what came of the call; "" if none is known to."""
    if isinstance(value, str):
        return value if value.strip() else ""
    parts: list[Any] = value[:ARGUMENTS_MAX] if isinstance(value, list) else []
    if isinstance(value, dict):
        parts = [value.get(name) for name in _RESULT_FIELDS]
    return next(filter(None, (_result_in(part, depth - 1) for part in parts)), "") if depth else ""


def _call_text(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text[:CALL_CHARS_MAX].encode("utf-8", "replace").decode()


def _text_of(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    # An unpaired surrogate cannot be sent as UTF-8.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    return "".join(filter(str.isprintable, text)).strip()[:ID_CHARS_MAX]


def read_input(stdin: TextIO, deadline: float) -> str:
    """Return all of standard input; "" for a terminal. Raises TimeoutError at the deadline, UsageError.

    An agent that leaves the pipe open must not hold up the hook.
    """
    if stdin.isatty():
        return ""
    if stdin is not sys.stdin:
        return stdin.read()
    pieces: list[bytes] = []
    size = 0
    descriptor = stdin.fileno()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise TimeoutError("standard input was not closed in time")
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if size > INPUT_BYTES_MAX:
            raise UsageError(f"standard input has more than {INPUT_BYTES_MAX} bytes")
    return b"".join(pieces).decode("utf-8", "replace")
