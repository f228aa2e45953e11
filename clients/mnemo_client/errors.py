"""The errors of a client and the exit codes of the command line."""

import re
from typing import Any

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4
EXIT_STOPPED = 130  # 128 + SIGINT, as shells count
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE

_WHOLE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class MnemoError(Exception):
    """Base of all errors: `message` says what went wrong, `hint` what to do next."""

    exit_code = EXIT_FAILED
    code = "failed"  # for programs

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(hint)  # which a traceback shows to who uses the package


class UsageError(MnemoError):
    """The request cannot be right as it was given."""

    exit_code = EXIT_USAGE
    code = "usage"


class SocketPathError(UsageError):
    """The socket path is longer than the system allows."""


class NotFoundError(MnemoError):
    """There is no such memory, or nothing that answers the question."""

    exit_code = EXIT_NOT_FOUND
    code = "not_found"


class UnreachableError(MnemoError):
    """No daemon answers on the socket."""

    exit_code = EXIT_UNREACHABLE
    code = "unreachable"


class StartError(UnreachableError):
    """The daemon was started and did not come up."""


class InterruptedAnswerError(MnemoError):
    """The connection ended before the answer was complete; the request may or may not have been carried out."""


class InvalidAnswerError(MnemoError):
    """The answer is not one of this protocol."""


class RefusalError(MnemoError):
    """The daemon answered with an error of the one shape {"error": {"code", "message", "field"}}.

    `status` is the HTTP status; `retry_after` seconds where the daemon named them; `details` every field of the
    error, including those that only a newer daemon sends. The message about a wrong value (400) begins with the name of
    its field, unless the text names the field already.
    """

    def __init__(self, status: int, details: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.details = details
        self.retry_after = retry_after
        self.code = str(details.get("code") or "error")
        self.field = details.get("field")
        message = str(details.get("message") or f"the daemon answered {status}")
        if status == 400 and self.field and str(self.field) not in message:
            message = f"{self.field}: {message}"
        super().__init__(message, str(details.get("hint") or ""))

    @property
    def candidates(self) -> list[str]:
        """The ids that an ambiguous id could stand for, which the daemon names in its message; else none."""
        return _WHOLE_ID.findall(self.message) if self.code == "ambiguous_id" else []

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return {400: EXIT_USAGE, 404: EXIT_NOT_FOUND}.get(self.status, EXIT_FAILED)
