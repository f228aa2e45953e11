"""The resources that an agent can read: one memory, the user's profile, a note, the state of the memory."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import GetQuery, MemoryView
from mnemo_client.protocol.primitives import ScopedRequest
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.mcp import tools
from mnemo_daemon.mcp.memory_text import memory_result
from mnemo_daemon.mcp.route_client import RouteClient
from mnemo_daemon.mcp.tool_types import StatusArguments
from mnemo_daemon.server.router import Request

JSON = "application/json"
MARKDOWN = "text/markdown"


class ResourceDescription(NamedTuple):
    """A resource, or, where its URI has a part in braces, a template of resources."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str | None


RESOURCES = (
    ResourceDescription(
        "memory://profile", "profile", "Profile", "The user's preferences and the lasting facts about the user.", JSON
    ),
    ResourceDescription("memory://status", "status", "Memory status", "The state and size of the memory.", JSON),
)
TEMPLATES = (
    ResourceDescription("memory://{id}", "memory", "Memory", "One memory, by its id.", JSON),
    ResourceDescription(
        "note://{+path}", "note", "Note",
        "A note of the watched folders, by its absolute path, as it is remembered.", MARKDOWN,
    ),
)  # fmt: skip


class NotePassages(NamedTuple):
    """The passages of a note that a request sees, in their order, and the number of those that it does not."""

    visible: list[MemoryView]
    hidden: int


class ResourceText(NamedTuple):
    """The content of a resource."""

    text: str
    mime_type: str


NoteReader = Callable[[Request, str], Awaitable[NotePassages]]


async def read_resource(client: RouteClient, uri: str, read_note: NoteReader) -> ResourceText:
    """Return the content of a resource. Raises a Refusal, with 404 for one that does not exist."""
    try:
        scheme, place = uri.split("://", 1)
        name = unquote(place, errors="strict")
    except ValueError:  # no scheme, or no UTF-8
        raise bad_value(f"{uri!r} is no URI of a memory or a note; the resources are {_known()}", "uri") from None
    match scheme.lower(), name.rstrip("/"):
        case "memory", "profile":
            return _json(await client.ask(operations.PROFILE, ScopedRequest()))
        case "memory", "status":
            return _json((await tools.status(client, StatusArguments())).result)
        case "memory", memory_id if memory_id:
            return _json(memory_result(await client.ask(operations.GET, GetQuery(), memory_id)))
        case "note", path if path:
            return ResourceText(_note_text(await read_note(client.request, path)), MARKDOWN)
        case _:
            raise Refusal(404, "not_found", f"there is no resource {uri!r}; there are {_known()}", field="uri")


def _note_text(note: NotePassages) -> str:
    """Return the passages of a note under their headings."""
    parts: list[str] = []
    trail = ""
    for passage in note.visible:
        if passage.note is not None and passage.note.trail != trail:
            trail = passage.note.trail
            parts.append(f"# {trail}")
        parts.append(passage.content)
    if note.hidden:
        parts.append(f"({note.hidden} more passages are not shown to agents)")
    return "\n\n".join(parts) + "\n"


def _json(value: msgspec.Struct) -> ResourceText:
    return ResourceText(msgspec.json.encode(value).decode(), JSON)


def _known() -> str:
    return ", ".join(each.uri for each in (*RESOURCES, *TEMPLATES))
