"""Parser of Codex's rollouts: ~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl.

Present files have an envelope a line, {"timestamp", "type", "payload"}: `session_meta` (the first is the file's own;
in a forked conversation those of its ancestors follow), `response_item` (message, reasoning, function_call and its
output, …), `turn_context`, `compacted`, and `event_msg`, which shows on the screen what the items say. Files of 2025
begin with a bare {"id", "timestamp", "instructions"} and have the items without an envelope and without times, between
{"record_type": "state"}.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mnemo_core.transfer.transcripts import parts


class _RolloutLine(msgspec.Struct):
    type: Any = None
    timestamp: Any = None
    payload: msgspec.Raw = msgspec.Raw(b"null")
    record_type: Any = None
    id: Any = None


class _RolloutItem(msgspec.Struct):
    type: Any = None
    role: Any = None
    content: list[msgspec.Raw] | str | None = None
    id: Any = None
    timestamp: Any = None


class _ItemContent(msgspec.Struct):
    type: str = ""
    text: str = ""


_line = msgspec.json.Decoder(_RolloutLine).decode
_item = msgspec.json.Decoder(_RolloutItem).decode
_content = msgspec.json.Decoder(_ItemContent).decode
_TEXTS = frozenset({"input_text", "output_text", "text"})
_ENVELOPES = frozenset({"session_meta", "response_item", "turn_context", "event_msg", "compacted"})
# An `event_msg` repeats items as the screen showed them, or counts tokens; a `turn_context` is the program's state.
_SHOWN = frozenset({"event_msg", "turn_context"})


def is_line(line: bytes) -> bool:
    """Return whether a rollout begins with this line."""
    try:
        found = _line(line)
    except parts.DECODER_ERRORS:
        return False
    is_bare = found.type is None and isinstance(found.id, str) and isinstance(found.timestamp, str)
    return (isinstance(found.type, str) and found.type in _ENVELOPES and bytes(found.payload) != b"null") or is_bare


def parse(lines: Iterable[tuple[str, bytes]], moment: parts.TimeReader) -> Iterator[parts.TranscriptPart]:
    """Yield the parts of a rollout, given its lines with their places."""
    text = parts.AgentText()
    has_begun = False
    for place, line in lines:
        try:
            found = _line(line)
            is_meta = found.type == "session_meta"
            if is_meta or (found.type is None and isinstance(found.id, str)):
                meta = _item(found.payload) if is_meta else _item(line)
                if not has_begun and isinstance(meta.id, str):
                    has_begun = True
                    yield parts.ConversationStart(meta.id, moment(meta.timestamp or found.timestamp))
                yield parts.LeftOut("system")
            elif found.type == "compacted":
                yield parts.LeftOut("summary")
            elif found.type in _SHOWN or found.record_type is not None:
                yield parts.LeftOut("system")
            else:
                item = _item(found.payload) if found.type == "response_item" else _item(line)
                yield from _item_parts(item, text, moment(found.timestamp), place)
        except parts.DECODER_ERRORS as error:
            yield parts.damaged_part(place, error)
    yield from text.release()


def _item_parts(
    item: _RolloutItem, text: parts.AgentText, at: int | None, place: str
) -> Iterator[parts.TranscriptPart]:
    if item.type != "message":
        reason = _reason_of(item.type)
        if reason == "tool_call":
            yield from text.tool_called()
        yield parts.LeftOut(reason)
        return
    if item.role not in ("user", "assistant"):
        yield parts.LeftOut("system")
        return
    content = item.content or []
    pieces = [_ItemContent("text", content)] if isinstance(content, str) else [_content(each) for each in content]
    yield from (parts.LeftOut("attachment") for piece in pieces if piece.type not in _TEXTS)
    said = [piece.text for piece in pieces if piece.type in _TEXTS]
    if item.role == "assistant":
        yield from text.hold("\n\n".join(said), at, place)
        return
    yield from text.release()
    for each in said:  # instructions and environment are pieces of their own
        yield from parts.turn_parts("user", each, at, place)


def _reason_of(kind: Any) -> parts.LeftOutReason:
    """The reason why an item is left out. A tool's call is named function_call, local_shell_call, web_search_call …"""
    name = kind if isinstance(kind, str) else ""
    if name == "reasoning":
        return "thinking"
    if name.endswith("_output"):
        return "tool_output"
    if name.endswith("_call"):
        return "tool_call"
    return "summary" if name in ("compaction", "compaction_summary", "context_compaction") else "system"
