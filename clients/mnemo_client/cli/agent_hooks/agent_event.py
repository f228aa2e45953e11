"""The event of a hook, read from the JSON that an agent writes to its standard input.

Claude Code, Codex and Gemini CLI name the common fields alike: `session_id`, `cwd`, `hook_event_name`, `prompt`. Each
has a name of its own for the reply.
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
_REPLY_FIELDS = ("reply", "last_assistant_message", "prompt_response")  # ours; Claude Code and Codex; Gemini CLI


class AgentEvent(NamedTuple):
    """The fields that hooks use. `folder` is the working directory of the agent, where the JSON names one."""

    session_id: str = ""
    prompt: str = ""
    reply: str = ""
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
            folder=Path(folder) if folder.startswith("/") else None,
            agent_event=_text_of(given, "hook_event_name"),
        )
    return found if found.session_id else found._replace(session_id=_one_line(session or ""))


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
