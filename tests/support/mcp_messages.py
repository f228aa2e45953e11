"""Lines that an agent may send, right and wrong, and the ids of the answers that they must get; what results say."""

import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

VERSION = "io.modelcontextprotocol/protocolVersion"

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["ping", "initialize", "tools/call", "resources/read"]) | st.text(max_size=12)
MESSAGES = st.fixed_dictionaries(
    {}, optional={
        "jsonrpc": st.just("2.0") | VALUES, "id": st.integers() | st.text(max_size=8) | VALUES,
        "method": METHODS | VALUES,
        "params": VALUES | st.fixed_dictionaries({}, optional={
            "_meta": VALUES | st.fixed_dictionaries({VERSION: METHODS | VALUES}), "name": VALUES, "uri": VALUES,
        }),
    },
)  # fmt: skip
LINES = (
    st.binary(max_size=60).map(lambda line: line.replace(b"\n", b""))
    | VALUES.map(lambda value: json.dumps(value).encode())
    | MESSAGES.map(lambda message: json.dumps(message).encode())
)


def text(result: Any) -> str:
    """The text of a result of the official client."""
    return str(result.content[0].text)


def memory_ids(text: str) -> list[str]:
    """The ids of memories that a text of a tool names in full."""
    return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)


def answered_ids(lines: Sequence[bytes]) -> list[str]:
    """The id of each answer that the lines must get, as JSON and in the order of the texts."""
    return sorted(json.dumps(known) for line in lines for known in _answered_id(line))


def _answered_id(line: bytes) -> list[Any]:
    """The id of the answer to a line, or nothing where it gets none."""
    if not line.strip():
        return []
    try:
        message = json.loads(line)
        json.dumps(message, allow_nan=False)
    except (ValueError, RecursionError):
        return [None]
    if not isinstance(message, dict):
        return [None]
    if "method" not in message and ("result" in message or "error" in message):
        return []
    known = message.get("id")
    known = known if isinstance(known, str | int) and not isinstance(known, bool) else None
    is_message = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
    is_notification = is_message and "id" not in message and isinstance(message.get("params", {}), dict)
    return [] if is_notification else [known]
