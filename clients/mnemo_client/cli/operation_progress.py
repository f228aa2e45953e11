"""The progress of a long request, shown while the command waits for its answer. SPEC 14

A thread asks the daemon twice a second, on a connection of its own, and only where standard error is a terminal.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import progress_text
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path

POLL_SECONDS = 0.5
ANSWER_SECONDS_MAX = 5.0


@contextlib.contextmanager
def shown_progress(context: CommandContext, name: str) -> Iterator[None]:
    """Show the progress of the daemon's operation of that name within the block; nothing with --json or in a pipe."""
    if context.wants_json or not context.terminal.shows_progress:
        yield
        return
    line = _ProgressLine(context, name)
    thread = threading.Thread(target=line.run, name="mnemo-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        line.end()


def wait_for_operation(context: CommandContext, name: str) -> None:
    """Return once the daemon has no operation of that name under way; its progress is shown meanwhile."""
    from mnemo_client.client import Client

    with Client(socket_path(context.environ), entry_point="cli") as client, shown_progress(context, name):
        while any(each.name == name for each in client.jobs().operations):
            time.sleep(POLL_SECONDS)


class _ProgressLine:
    """The line of one operation; nothing is written after `end`."""

    def __init__(self, context: CommandContext, name: str) -> None:
        self._context = context
        self._name = name
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        from mnemo_client.client import Client

        with Client(socket_path(self._context.environ), entry_point="cli", timeout=ANSWER_SECONDS_MAX) as client:
            while not self._ended.wait(POLL_SECONDS):
                with contextlib.suppress(MnemoError):  # the request itself reports what is wrong
                    found = next((each for each in reversed(client.jobs().operations) if each.name == self._name), None)
                    with self._lock:
                        if found is not None and not self._ended.is_set():
                            self._context.terminal.progress(progress_text(found))

    def end(self) -> None:
        with self._lock:
            self._ended.set()
            self._context.terminal.clear_progress()
