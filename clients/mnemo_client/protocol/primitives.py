"""The building blocks of the wire types of /v1: bounded values, and the shapes of bodies and errors."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

API_VERSION = "v1"


Time = int | str  # ms since the epoch, or ISO 8601
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
ShortText = Annotated[str, Meta(max_length=128)]
QUESTION_CHARS_MAX = 8192  # as the content of a memory: whoever asks by a text that is longer means a part of it
Question = Annotated[str, Meta(max_length=QUESTION_CHARS_MAX)]
Namespace = Annotated[str, Meta(min_length=1, max_length=64)]
Limit = Annotated[int, Meta(ge=1, le=500)]

LIMIT_DEFAULT = 50


class RequestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body. An unknown field is an error that names it."""


class ScopedRequest(RequestBody, kw_only=True):
    """A request about the memories of a namespace (null: that of X-Namespace, else `default`) and a user (`local`)."""

    namespace: Namespace | None = None
    user_id: ShortText | None = None


class AnswerBody(msgspec.Struct, kw_only=True):
    """An answer body. Unknown fields, as a newer daemon may send, are ignored."""


class LaterChange(AnswerBody):
    """A later change of a memory, which keeps an earlier change from being undone."""

    id: str
    seq: int
    at: int
    by: str
    what: str


class ErrorBody(AnswerBody):
    code: str
    message: str
    field: str | None = None
    id: str | UnsetType = UNSET  # of the memory that prevents the request, as with `pinned`
    later: list[LaterChange] | UnsetType = UNSET  # of an undo that later changes prevent: the first 20


class FailureAnswer(AnswerBody):
    """The shape of every error."""

    error: ErrorBody
