"""What can go wrong for one who asks.

MnemoError                exit 1
├── BadUsage              exit 2  what was asked makes no sense as it stands
│   └── SocketPathTooLong         the system cannot bind a path of that length
├── NothingFound          exit 3  there is no such thing, or nothing that answers
├── Unreachable           exit 4  no daemon answers on the socket
│   └── StartFailed               it was started and did not come up
├── Interrupted           exit 1  the daemon went away before it answered
├── BadAnswer             exit 1  what answered does not speak this protocol
└── Refused               exit 1  the daemon answered with an error (400: exit 2, 404: exit 3)
"""

import re
from typing import Any

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4

_WHOLE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class MnemoError(Exception):
    """Something went wrong; the message says what, the hint what to do next."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MnemoError):
    """What was asked makes no sense as it stands."""

    exit_code = EXIT_USAGE


class SocketPathError(UsageError):
    """The system cannot bind a socket path of that length."""


class NotFoundError(MnemoError):
    """There is no such thing, or nothing that answers."""

    exit_code = EXIT_NOT_FOUND


class UnreachableError(MnemoError):
    """No daemon answers on the socket."""

    exit_code = EXIT_UNREACHABLE


class StartError(UnreachableError):
    """The daemon was started and did not come up."""


class InterruptedAnswerError(MnemoError):
    """The daemon went away before it answered; what was asked may or may not have been done."""


class InvalidAnswerError(MnemoError):
    """What answered does not speak this protocol."""


class RefusalError(MnemoError):
    """The daemon answered with an error of the one shape {"error": {"code", "message", "field"}}.

    `status` is the HTTP status; `retry_after` seconds where the daemon named them; `details` every field of the
    error, those of a newer daemon included. The message of a value that cannot be right (400) begins with its field,
    where it does not name it anyhow; every other one is a sentence of its own.
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
        """The ids that digits of an id could stand for, which the daemon names in its message; else none."""
        return _WHOLE_ID.findall(self.message) if self.code == "ambiguous_id" else []

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return {400: EXIT_USAGE, 404: EXIT_NOT_FOUND}.get(self.status, EXIT_FAILED)
