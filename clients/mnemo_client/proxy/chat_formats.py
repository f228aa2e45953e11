"""The requests and answers of model servers, read for what a person and a model say to each other. SPEC 19

Four formats: OpenAI's chat completions and responses, Ollama's chat, and Anthropic's messages. A reader takes what it
understands and leaves out the rest: system prompts, calls of tools and their output, images.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

FormatName = Literal["chat", "responses", "ollama", "messages"]
Side = Literal["user", "agent"]
JsonObject = dict[str, Any]
_SIDES: Mapping[object, Side] = {"user": "user", "assistant": "agent"}


class ChatMessage(NamedTuple):
    """The text of one message."""

    role: Side
    text: str


class ModelRequest(NamedTuple):
    """The messages of a request, the oldest first, and the id of the answer that it goes on from."""

    messages: tuple[ChatMessage, ...]
    previous: str = ""


class ModelAnswer(NamedTuple):
    """The text of an answer, and its id, which a later request may name."""

    text: str
    id: str = ""


class ChatFormat(NamedTuple):
    """One format: the end of its path, the field of its messages, the reader of one JSON value of an answer, and what
    stands at the end of a stream, after which programs hang up."""

    name: FormatName
    path: str
    messages: str
    pieces: Callable[[JsonObject], Iterator[str]]
    endings: tuple[bytes, ...]

    def has_ended(self, answer: bytes) -> bool:
        """Return True if a stream has come to its end, though nobody read on."""
        return any(ending in answer for ending in self.endings)


def format_of(method: str, path: str) -> ChatFormat | None:
    """Return the format of the requests to a path; None for any other request."""
    path = path.partition("?")[0].rstrip("/")
    return next((each for each in FORMATS if method == "POST" and path.endswith(each.path)), None)


def read_request(kind: ChatFormat, body: bytes) -> ModelRequest | None:
    """Return what a request says; None if it is not of the format."""
    request = _object(body)
    given = request.get(kind.messages)
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        return None
    messages = []
    for each in given:
        side = _SIDES.get(each.get("role")) if isinstance(each, dict) else None
        if side is not None and (text := _text_of(each.get("content")).strip()):
            messages.append(ChatMessage(side, text))
    previous = request.get("previous_response_id")
    return ModelRequest(tuple(messages), previous if isinstance(previous, str) else "")


def read_answer(kind: ChatFormat, content_type: str, body: bytes) -> ModelAnswer:
    """Return what an answer says: one JSON value, JSON lines, or server-sent events."""
    if "event-stream" in content_type:
        values = [_object(line[5:]) for line in body.splitlines() if line.startswith(b"data:")]
    elif body.lstrip()[:1] == b"{" and (whole := _object(body)):
        values = [whole]
    else:
        values = [_object(line) for line in body.splitlines()]
    text = "".join(piece for value in values for piece in kind.pieces(value))
    ids = (_id_of(value) for value in values)
    return ModelAnswer(text.strip(), next(filter(None, ids), ""))


def _object(body: bytes) -> JsonObject:
    """Return a JSON object; an empty one if the bytes are something else."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _id_of(value: JsonObject) -> str:
    within = value.get("response")
    found = within.get("id") if isinstance(within, dict) else value.get("id")
    return found if isinstance(found, str) else ""


def _text_of(content: object) -> str:
    """Return the text of a message: a string, or the parts of a list that are text."""
    if isinstance(content, str):
        return content
    parts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    texts = [each.get("text") for each in parts if each.get("type") in ("text", "input_text", "output_text")]
    return "\n".join(text for text in texts if isinstance(text, str))


# One value of an answer


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _objects(value: object) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _pieces_of_chat(value: JsonObject) -> Iterator[str]:
    for choice in _objects(value.get("choices")):
        if choice.get("index", 0) == 0:
            yield _text_of(_field(choice.get("delta") or choice.get("message"), "content"))


def _pieces_of_responses(value: JsonObject) -> Iterator[str]:
    if value.get("type") == "response.output_text.delta":
        yield _text_of(value.get("delta"))
    for item in _objects(value.get("output")):  # of an answer that is not streamed
        if item.get("type") == "message":
            yield _text_of(item.get("content"))


def _pieces_of_ollama(value: JsonObject) -> Iterator[str]:
    yield _text_of(_field(value.get("message"), "content"))


def _pieces_of_messages(value: JsonObject) -> Iterator[str]:
    if value.get("type") == "content_block_delta":
        yield _text_of(_field(value.get("delta"), "text"))
    elif value.get("type") == "message":
        yield _text_of(value.get("content"))


FORMATS = (
    ChatFormat("chat", "/chat/completions", "messages", _pieces_of_chat, (b"data: [DONE]", b"data:[DONE]")),
    ChatFormat("responses", "/v1/responses", "input", _pieces_of_responses, (b"response.completed",)),
    ChatFormat("ollama", "/api/chat", "messages", _pieces_of_ollama, (b'"done":true', b'"done": true')),
    ChatFormat("messages", "/v1/messages", "messages", _pieces_of_messages, (b"message_stop",)),
)
