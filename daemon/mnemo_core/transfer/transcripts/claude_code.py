"""Parser of Claude Code's transcripts: ~/.claude/projects/PROJECT/SESSION.jsonl.

A line is one event. `user` and `assistant` have a `message` whose content is a text or a list of blocks (text,
thinking, tool_use, tool_result, image …); an answer of the model is one line a block, with the `message.id` of all.
`user` is also the type of tool results, of command output and of texts that the program adds (`isMeta`). `summary`,
`system`, `file-history-snapshot`, `queue-operation`, `attachment`, `progress` and others belong to no side.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mnemo_core.transfer.transcripts import parts

SYNTHETIC_MODEL = "<synthetic>"  # of messages that the program wrote in the model's place
_SIDES = frozenset({"user", "human", "assistant"})
_TYPES = _SIDES | {"summary", "system", "file-history-snapshot", "queue-operation", "attachment", "progress"}


class _TranscriptEvent(msgspec.Struct):
    type: Any = None
    message: msgspec.Raw = msgspec.Raw(b"null")
    sessionId: Any = None  # noqa: N815 - the file's own names
    timestamp: Any = None
    leafUuid: Any = None  # noqa: N815
    isMeta: Any = None  # noqa: N815
    isSidechain: Any = None  # noqa: N815
    isCompactSummary: Any = None  # noqa: N815
    isApiErrorMessage: Any = None  # noqa: N815


class _ContentBlock(msgspec.Struct):
    type: str = ""
    text: str = ""


class _EventMessage(msgspec.Struct):
    content: str | list[msgspec.Raw] = ""
    model: Any = None


_event = msgspec.json.Decoder(_TranscriptEvent).decode
_message = msgspec.json.Decoder(_EventMessage).decode
_block = msgspec.json.Decoder(_ContentBlock).decode
_BLOCK_REASONS: dict[str, parts.LeftOutReason] = {
    "thinking": "thinking", "redacted_thinking": "thinking", "tool_use": "tool_call", "server_tool_use": "tool_call",
    "tool_result": "tool_output", "web_search_tool_result": "tool_output",
}  # fmt: skip


def is_event(line: bytes) -> bool:
    """Return whether this is a line of such a transcript."""
    try:
        found = _event(line)
    except parts.DECODER_ERRORS:
        return False
    is_named = isinstance(found.sessionId, str) or isinstance(found.leafUuid, str)
    return isinstance(found.type, str) and found.type in _TYPES and (is_named or bytes(found.message) != b"null")


def parse(lines: Iterable[tuple[str, bytes]], moment: parts.TimeReader) -> Iterator[parts.TranscriptPart]:
    """Yield the parts of a transcript, given its lines with their places."""
    text = parts.AgentText()
    session = ""
    for place, line in lines:
        try:
            event = _event(line)
            if isinstance(event.sessionId, str) and event.sessionId not in ("", session):
                yield from text.release()
                session = event.sessionId
                yield parts.ConversationStart(session, moment(event.timestamp))
            yield from _parts_of(event, text, moment(event.timestamp), place)
        except parts.DECODER_ERRORS as error:
            yield parts.damaged_part(place, error)
    yield from text.release()


def _parts_of(
    event: _TranscriptEvent, text: parts.AgentText, at: int | None, place: str
) -> Iterator[parts.TranscriptPart]:
    reason = _reason_of(event)
    if reason is not None:
        yield parts.LeftOut(reason)
        return
    message = _message(event.message)
    if message.model == SYNTHETIC_MODEL:
        yield parts.LeftOut("system")
        return
    if isinstance(message.content, str):
        blocks = [_ContentBlock("text", message.content)]
    else:
        blocks = [_block(each) for each in message.content]
    if event.type == "assistant":
        for block in blocks:
            if block.type == "text":
                yield from text.hold(block.text, at, place)
                continue
            reason = _BLOCK_REASONS.get(block.type, "attachment")
            if reason == "tool_call":
                yield from text.tool_called()
            yield parts.LeftOut(reason)
        return
    said = [block.text for block in blocks if block.type == "text"]
    yield from (parts.LeftOut(_BLOCK_REASONS.get(block.type, "attachment")) for block in blocks if block.type != "text")
    if said:
        yield from text.release()
        yield from parts.turn_parts("user", "\n\n".join(said), at, place)


def _reason_of(event: _TranscriptEvent) -> parts.LeftOutReason | None:
    """The reason why an event is left out as a whole."""
    if event.isSidechain:
        return "sidechain"
    if event.type == "summary" or event.isCompactSummary:
        return "summary"
    if event.type == "attachment":
        return "attachment"
    if event.type not in _SIDES or event.isApiErrorMessage:
        return "system"
    return "injected" if event.isMeta else None
