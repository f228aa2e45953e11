"""Parser of ChatGPT's export: conversations.json, or conversations-000.json and so on, in its zip.

A list of conversations. Each has its messages in `mapping`, a tree: a message that was edited, or an answer that was
asked for again, is another branch. `current_node` is the last message of the branch that is shown. A message has
author.role (user, assistant, system, tool), content (content_type and parts) and create_time in seconds, which some
lack; `recipient` is another than `all` where the model calls a tool, and metadata may hide it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from mnemo_core.transfer.transcripts import parts

FIRST_BYTES = 4096  # of an export, in which its first conversation shows what it is


class _MessageAuthor(msgspec.Struct):
    role: Any = None


class _MessageContent(msgspec.Struct):
    content_type: Any = None
    parts: list[Any] | None = None


class _MessageMetadata(msgspec.Struct):
    is_visually_hidden_from_conversation: Any = None
    is_user_system_message: Any = None


class _TreeMessage(msgspec.Struct):
    author: _MessageAuthor = msgspec.field(default_factory=_MessageAuthor)
    content: _MessageContent | None = None
    create_time: Any = None
    recipient: Any = None
    metadata: _MessageMetadata | None = None


class _TreeNode(msgspec.Struct):
    parent: str | None = None
    children: list[str] = []
    message: msgspec.Raw = msgspec.Raw(b"null")


class _ExportedConversation(msgspec.Struct):
    mapping: dict[str, _TreeNode]
    id: Any = None
    conversation_id: Any = None
    current_node: str | None = None
    create_time: Any = None


_conversation = msgspec.json.Decoder(_ExportedConversation).decode
_message = msgspec.json.Decoder(_TreeMessage).decode
_CONTENT_REASONS: dict[str, parts.LeftOutReason] = {
    "code": "tool_call", "execution_output": "tool_output", "tether_browsing_display": "tool_output",
    "tether_quote": "tool_output", "computer_output": "tool_output", "thoughts": "thinking",
    "reasoning_recap": "thinking", "user_editable_context": "system", "model_editable_context": "system",
    "system_error": "system",
}  # fmt: skip
_SAID = ("text", "multimodal_text")


def is_export(line: bytes) -> bool:
    """Return whether an export begins with this line."""
    return line.lstrip().startswith((b"[", b"{")) and b'"mapping"' in line[:FIRST_BYTES]


def parse(place: str, item: Any, moment: parts.TimeReader) -> Iterator[parts.TranscriptPart]:
    """Yield the parts of one conversation, given as JSON."""
    try:
        found = _conversation(item)
    except parts.DECODER_ERRORS as error:
        yield parts.damaged_part(place, error)
        return
    name = next((each for each in (found.conversation_id, found.id) if isinstance(each, str) and each), "")
    if not name:
        yield parts.DamagedPart(place, "the conversation has no id")
        return
    yield parts.ConversationStart(name, moment(found.create_time))
    branch = _branch(found)
    shown = {*branch}
    for node_id, node in found.mapping.items():
        if node_id not in shown and bytes(node.message) != b"null":
            yield parts.LeftOut("other_branch")
    for node_id in branch:
        at = f"{place}.mapping[{node_id}]"
        try:
            if node_id in found.mapping and bytes(found.mapping[node_id].message) != b"null":
                message = _message(found.mapping[node_id].message)
                yield from _message_parts(message, moment(message.create_time), at)
        except parts.DECODER_ERRORS as error:
            yield parts.damaged_part(at, error)


def _branch(found: _ExportedConversation) -> list[str]:
    """Return the nodes from the first to the current one; without a current one, the newest branch."""
    nodes = found.mapping
    last = found.current_node
    if last not in nodes:
        last = next((node_id for node_id, node in nodes.items() if node.parent not in nodes), None)
        seen: set[str] = set()
        while last is not None and last not in seen and (children := [c for c in nodes[last].children if c in nodes]):
            seen.add(last)
            last = children[-1]
    branch: list[str] = []
    known: set[str] = set()
    while last in nodes and last is not None and last not in known:
        known.add(last)
        branch.append(last)
        last = nodes[last].parent
    return branch[::-1]


def _message_parts(message: _TreeMessage, at: int | None, place: str) -> Iterator[parts.TranscriptPart]:
    reason = _reason_of(message)
    if reason is not None:
        yield parts.LeftOut(reason)
        return
    pieces = message.content.parts if message.content is not None and message.content.parts else []
    said = [piece if isinstance(piece, str) else _text_of(piece) for piece in pieces]
    yield from (parts.LeftOut("attachment") for text in said if text is None)
    role = "user" if message.author.role == "user" else "agent"
    yield from parts.turn_parts(role, "\n\n".join(filter(None, said)), at, place)  # type: ignore[arg-type]


def _reason_of(message: _TreeMessage) -> parts.LeftOutReason | None:
    """The reason why a message is left out as a whole."""
    role, metadata = message.author.role, message.metadata
    if metadata is not None and (metadata.is_visually_hidden_from_conversation or metadata.is_user_system_message):
        return "system"
    if role == "tool":
        return "tool_output"
    if role not in ("user", "assistant"):
        return "system"
    if role == "assistant" and message.recipient not in (None, "all"):
        return "tool_call"
    kind = message.content.content_type if message.content is not None else None
    return None if kind in _SAID or kind is None else _CONTENT_REASONS.get(str(kind), "attachment")


def _text_of(part: Any) -> str | None:
    """Return the transcription of a spoken part; None for a picture or file."""
    if isinstance(part, dict) and part.get("content_type") == "audio_transcription":
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None
