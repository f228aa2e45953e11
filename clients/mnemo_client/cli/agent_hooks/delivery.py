"""The requests of hooks: one to the daemon, with a limit for all of it, and the background process that delivers the
inbox of hooks, and starts the daemon if it does not run.

A request is made by the standard library alone: the client of the other commands decodes every answer into types, which
takes longer to import than a hook may run.

A hook starts the process and does not wait for it. One process delivers at a time. It ends when the inbox is empty, or
at the first entry that the daemon cannot take now: that entry and those after it stay for the process of the next hook.
"""

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mnemo_client import process
from mnemo_client.cli.agent_hooks.inbox import FINAL_REFUSALS, FOLDER_NAME, HookInbox, JsonObject, entries_of
from mnemo_client.errors import InvalidAnswerError, MnemoError, RefusalError, UnreachableError
from mnemo_client.http import MalformedAnswerError, SocketConnection
from mnemo_client.paths import run_folder, socket_path
from mnemo_client.protocol.choices import HOOK_EVENTS, HookEvent

ANSWER_BYTES_MAX = 4 * 1024 * 1024  # four times the largest context that the settings allow
NO_ANSWER = "the daemon did not answer in time"
ANSWER_SECONDS_MAX = 60.0  # for one entry


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
        try:
            error = json.loads(body)["error"]
        except (ValueError, RecursionError, KeyError, TypeError):
            error = None
        if not isinstance(error, dict):
            error = {"message": f"the daemon answered {response.status}"}
        raise RefusalError(response.status, error)
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


def inbox_of(environ: Mapping[str, str]) -> HookInbox:
    return HookInbox(run_folder(environ) / FOLDER_NAME)


def start_delivery(environ: Mapping[str, str]) -> None:
    """Start the background process; it outlives the hook and has none of its files open.

    It is started without the modules of the agent's working directory, which somebody else may have written.
    """
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    words = [sys.executable, "-P", "-m", "mnemo_client.cli.agent_hooks.delivery"]
    os.posix_spawn(sys.executable, words, dict(environ), file_actions=null, setsid=True)


def deliver(environ: Mapping[str, str]) -> bool:
    """Start the daemon if necessary and deliver every entry; return False if another process is doing that.

    Raises MnemoError or OSError if the daemon cannot take an entry now.
    """
    inbox = inbox_of(environ)
    inbox.make_folder()
    with open(os.open(inbox.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "rb+", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        inbox.file_pending()
        process.ensure_running(environ, lambda _: None)
        for path, entry in entries_of(inbox):
            try:
                fields = {name: value for name, value in entry.items() if name not in ("event", "agent")}
                named = entry.get("event")
                event: HookEvent = next((each for each in HOOK_EVENTS if each == named), "reply")
                agent = entry.get("agent")
                ask_hook(
                    socket_path(environ), event, fields, agent if isinstance(agent, str) else None, ANSWER_SECONDS_MAX
                )
            except RefusalError as refused:
                if refused.status not in FINAL_REFUSALS:
                    raise
                inbox.refuse(path)
            else:
                path.unlink(missing_ok=True)
    return True


def main() -> int:
    """Deliver until the inbox is empty. An entry that comes at the end is seen: its hook finds the lock taken, and
    this process looks once more after it released the lock."""
    os.chdir("/")  # the agent's folder is not kept in use
    try:
        while deliver(os.environ) and inbox_of(os.environ).entries():
            pass
    except (MnemoError, OSError):
        return 1  # the entries stay, and the next hook says so
    return 0


if __name__ == "__main__":
    sys.exit(main())
