"""The background process that delivers the inbox of hooks to the daemon, and starts the daemon if it does not run.

A hook starts it and does not wait for it. One process delivers at a time. It ends when the inbox is empty, or at the
first entry that the daemon cannot take now: that entry and those after it stay for the process of the next hook.
"""

import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mnemo_client import process
from mnemo_client.cli.agent_hooks.daemon_request import ask_hook
from mnemo_client.cli.agent_hooks.inbox import FOLDER_NAME, HookInbox, JsonObject, entries_of
from mnemo_client.errors import MnemoError, RefusalError
from mnemo_client.paths import run_folder, socket_path
from mnemo_client.protocol.choices import HOOK_EVENTS, HookEvent

ANSWER_SECONDS_MAX = 60.0  # for one entry
FINAL_REFUSALS = frozenset({400, 404, 413, 422})  # would be the same at the next attempt


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
                _deliver_entry(socket_path(environ), entry)
            except RefusalError as refused:
                if refused.status not in FINAL_REFUSALS:
                    raise
                inbox.refuse(path)
            else:
                path.unlink(missing_ok=True)
    return True


def _deliver_entry(socket: Path, entry: JsonObject) -> None:
    fields = {name: value for name, value in entry.items() if name not in ("event", "agent")}
    named = entry.get("event")
    event: HookEvent = next((each for each in HOOK_EVENTS if each == named), "reply")
    agent = entry.get("agent")
    ask_hook(socket, event, fields, agent if isinstance(agent, str) else None, ANSWER_SECONDS_MAX)


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
