"""The building blocks of the wire types of /v1: bounded values, and the shapes of bodies and errors."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

API_VERSION = "v1"


Time = int | str  # ms since the epoch, or ISO 8601
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
# Names stand in lines of their own for agents and people: none may begin a line or reverse one.
NAME_PATTERN = r"^(?![\s\S]*[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069])"
ShortText = Annotated[str, Meta(max_length=128, pattern=NAME_PATTERN)]
QUESTION_CHARS_MAX = 8192  # as the content of a memory: whoever asks by a text that is longer means a part of it
Question = Annotated[str, Meta(max_length=QUESTION_CHARS_MAX)]
Namespace = Annotated[str, Meta(min_length=1, max_length=64, pattern=NAME_PATTERN + r"[\s\S]*\S")]
LIMIT_DEFAULT, LIMIT_MAX = 50, 500
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class RequestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body. An unknown field is an error that names it."""


class ScopedRequest(RequestBody, kw_only=True):
    """A request about the memories of a namespace (null: that of X-Namespace, else `default`) and a user (`local`)."""

    namespace: Namespace | None = None
    user_id: Annotated[ShortText | None, Meta(description="the user to whom the memories belong; default: local")] = (
        None
    )


class NoFields(RequestBody):
    """The request of an operation that takes nothing: no query string; a body that is absent or an empty object."""


class PageQuery(RequestBody, kw_only=True):
    """A list in pages; the `cursor` of a page leads to the next one."""

    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None


class ScopedPageQuery(ScopedRequest, kw_only=True):
    """A list in pages of what belongs to a namespace and a user."""

    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None


class AnswerBody(msgspec.Struct, kw_only=True):
    """An answer body. Unknown fields, as a newer daemon may send, are ignored."""


class WriteAnswer(AnswerBody, kw_only=True):
    """The answer of a write. `seq`: its change, of several the last one, as undo takes it, which takes the `group`
    where there is one; null: nothing was changed."""

    seq: int | None = None


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
