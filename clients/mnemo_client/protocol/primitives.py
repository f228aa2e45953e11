"""What the wire types of /v1 are made of: enumerations, bounded values, and the shapes of bodies and errors."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

API_VERSION = "v1"

Kind = Literal["semantic", "episodic", "procedural", "working"]
Form = Literal["preference", "step", "workflow"]
Category = Literal["fact", "preference", "project", "decision", "crumb", "request", "result"]
Layer = Literal["buffer", "working", "core"]
Trust = Literal["user", "note", "agent", "import", "tool"]
State = Literal["active", "archived", "compressed", "superseded", "discarded", "trashed"]
Outcome = Literal["stored", "duplicate", "repeats", "merged", "updated", "discarded"]
Relation = Literal["repeats", "updates", "related"]
Dedup = Literal["guarded", "off", "source"]
Wait = Literal["stored", "indexed", "extracted"]
DaemonState = Literal["ready", "warming", "degraded"]
TurnRole = Literal["user", "agent", "assistant", "system", "tool"]
ImportTool = Literal["mnemo", "mem0", "mcp-memory", "engram"]

Time = int | str  # ms since the epoch, or ISO 8601
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
ShortText = Annotated[str, Meta(max_length=128)]
Namespace = Annotated[str, Meta(min_length=1, max_length=64)]
Limit = Annotated[int, Meta(ge=1, le=500)]

LIMIT_DEFAULT = 50


class RequestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body. Unknown fields are refused by name."""


class AnswerBody(msgspec.Struct, kw_only=True):
    """An answer body. Unknown fields of a newer daemon are passed over."""


class LaterChange(AnswerBody):
    """A change that came after the one to be undone: to which memory, and which change it was."""

    id: str
    seq: int
    at: int
    by: str
    what: str


class ErrorBody(AnswerBody):
    code: str
    message: str
    field: str | None = None
    id: str | UnsetType = UNSET  # of the memory that stands in the way, where one does: `pinned`
    later: list[LaterChange] | UnsetType = UNSET  # of an undo that something stands in the way of: the first 20


class FailureAnswer(AnswerBody):
    """The one shape of every error."""

    error: ErrorBody
