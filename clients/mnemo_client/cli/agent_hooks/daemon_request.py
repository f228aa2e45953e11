"""One request of a hook to the daemon, with a limit for all of it, by the standard library alone.

The client of the other commands decodes every answer into types, which takes longer to import than a hook may run.
"""

import json
from pathlib import Path
from typing import Any

from mnemo_client.errors import InvalidAnswerError, MnemoError, RefusalError, UnreachableError
from mnemo_client.http import MalformedAnswerError, SocketConnection
from mnemo_client.protocol.choices import HookEvent

ANSWER_BYTES_MAX = 4 * 1024 * 1024  # four times the largest context that the settings allow
NO_ANSWER = "the daemon did not answer in time"

JsonObject = dict[str, Any]


def ask_hook(socket: Path, event: HookEvent, fields: JsonObject, agent: str | None, seconds: float) -> bytes:
    """Run a hook in the daemon and return its answer as JSON text.

    Raises UnreachableError if no process listens, TimeoutError after `seconds`, RefusalError, InvalidAnswerError.
    """
    if seconds <= 0:
        raise TimeoutError(NO_ANSWER)
    try:
        connection = SocketConnection(socket, seconds, is_total=True)
    except TimeoutError:
        raise TimeoutError(NO_ANSWER) from None
    except OSError as failed:
        raise UnreachableError(f"no daemon listens on {socket}: {failed.strerror}") from failed
    headers = {"Content-Type": b"application/json", "Connection": b"close", "X-Mnemo-Door": b"hook"}
    if agent:
        headers["X-Mnemo-Agent"] = agent.encode()
    try:
        response = connection.exchange("POST", f"/v1/hooks/{event}", headers, json.dumps(fields).encode())
        pieces, size = [], 0
        for piece in response.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise InvalidAnswerError(f"the daemon's answer has more than {ANSWER_BYTES_MAX} bytes")
    except MalformedAnswerError as garbled:
        raise InvalidAnswerError(f"the process that listens on {socket} is not a mnemo daemon: {garbled}") from garbled
    except TimeoutError:
        raise TimeoutError(NO_ANSWER) from None
    except OSError as broken:
        raise MnemoError(f"the connection ended before the daemon answered: {broken.strerror or broken}") from broken
    finally:
        connection.close()
    body = b"".join(pieces)
    if response.status >= 400:
        raise RefusalError(response.status, _error_of(body, f"the daemon answered {response.status}"))
    return body


def decode_answer(body: bytes) -> JsonObject:
    """Return the answer of a hook. Raises InvalidAnswerError."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise InvalidAnswerError(f"the daemon's answer cannot be read: {wrong}") from wrong
    if not isinstance(answer, dict) or not isinstance(answer.get("context", ""), str):
        raise InvalidAnswerError("the daemon's answer is not that of a hook")
    return answer


def _error_of(body: bytes, otherwise: str) -> JsonObject:
    try:
        error = json.loads(body)["error"]
    except (ValueError, RecursionError, KeyError, TypeError):
        error = None
    return error if isinstance(error, dict) else {"message": otherwise}
