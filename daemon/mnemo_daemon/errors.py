"""Refusals of the daemon, and the one table from errors to HTTP statuses. SPEC 13, 16.

A service raises a Refusal where it knows the answer's status itself, and lets the errors of the store travel: they
find theirs in REFUSALS. What is in neither is a fault of ours, and is answered 500 with an id that is in the log.
"""

from typing import NamedTuple

from msgspec import UNSET

from mnemo_client.protocol.primitives import ErrorBody, FailureAnswer
from mnemo_daemon.models import catalogue
from mnemo_store import errors


class Refusal(Exception):
    """A request that gets an error for an answer.

    `field` names what is wrong in the words of the request (`tags[3]`, `X-Namespace`, `limit`); `retry_after` seconds;
    `id` the memory that stands in the way.
    """

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after: int | None = None,
        id: str | None = None,  # noqa: A002 - the field's own name
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after = retry_after
        self.id = id

    def answer(self) -> FailureAnswer:
        body = ErrorBody(code=self.code, message=self.message, field=self.field, id=self.id or UNSET)
        return FailureAnswer(error=body)


class ErrorStatus(NamedTuple):
    """The answer to an exception class."""

    status: int
    code: str
    retry_after: int | None = None  # seconds


# The nearest class of the exception's own ancestors counts. Whoever adds an error tree adds its lines here.
ERROR_ANSWERS: dict[type[Exception], ErrorStatus] = {
    errors.QueueFull: ErrorStatus(429, "busy", 1),
    errors.VersionConflict: ErrorStatus(409, "conflict"),
    errors.DiskFull: ErrorStatus(507, "disk_full"),
    errors.WriteFailure: ErrorStatus(503, "write_failed", 5),
    errors.UnknownOutcome: ErrorStatus(503, "outcome_unknown"),
    errors.ClosedStoreError: ErrorStatus(503, "stopping", 1),
    errors.BadBackup: ErrorStatus(422, "bad_backup"),
    errors.StoreNotEmpty: ErrorStatus(409, "not_empty"),
    errors.HistoryUnavailable: ErrorStatus(422, "history_compacted"),
    errors.StoreError: ErrorStatus(503, "degraded", 5),
    catalogue.UnknownModel: ErrorStatus(404, "unknown_model"),
    catalogue.MissingModelError: ErrorStatus(409, "not_installed"),
    catalogue.ModelError: ErrorStatus(422, "refused"),
}


def refusal_of(error: Exception) -> Refusal | None:
    """The refusal that stands for an error, or None where the table knows none of its classes."""
    if isinstance(error, Refusal):
        return error
    for ancestor in type(error).__mro__:
        if rule := ERROR_ANSWERS.get(ancestor):
            return Refusal(rule.status, rule.code, _message(error), retry_after=rule.retry_after)
    return None


def _message(error: Exception) -> str:
    """The error, and what to do next if the error's class knows it."""
    said = str(error) or (type(error).__doc__ or type(error).__name__).strip().rstrip(".")
    hint = getattr(error, "hint", "")
    return f"{said}; {hint}" if hint else said


def bad_value(message: str, field: str | None = None) -> Refusal:
    """400: a value that cannot be right."""
    return Refusal(400, "bad_value", message, field=field)
