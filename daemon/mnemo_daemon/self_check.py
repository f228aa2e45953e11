"""The daemon's check of itself, and what the service manager learns of it: a sign of life and a line on the state.

systemd ends and restarts a service that gives no sign of life for WatchdogSec. A sign is therefore given only where
three things work together: a thread of the daemon reads the store, the writer thread is alive, and the event loop runs,
which sends the sign. If one of them hangs, there is no sign. A failure that a restart would not end does not withhold
it: a store that answers with an error recovers by itself, and opening or recovering a store can take long.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

from mnemo_client.protocol.choices import DaemonState
from mnemo_daemon.server.systemd import Notifier
from mnemo_daemon.services import Services
from mnemo_daemon.thread_supervision import ThreadReport, ThreadSupervisor
from mnemo_store.errors import StoreError

STATUS_SECONDS = 30.0  # between two checks where the service manager has no watchdog, and only shows the line
WARMING_SECONDS = 2.0  # between two checks after the start, so that the line is current
RETRY_SECONDS = 1.0  # after a check that failed
STOP_SECONDS_MAX = 1.0  # a check that hangs is not waited for at the end

log = logging.getLogger("mnemo.daemon")


class SelfCheckError(Exception):
    """A part of the daemon has ended and only a restart brings it back."""


class SelfCheck:
    """Checks the daemon on a thread of its own, and has the event loop report each check that succeeded.

    Without a service manager to report to, nothing runs.
    """

    def __init__(
        self, services: Services, state: Callable[[], tuple[DaemonState, Sequence[str]]], notifier: Notifier
    ) -> None:
        self._services = services
        self._state = state
        self._notifier = notifier
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._supervisor = ThreadSupervisor("mnemo-self-check", self._run, pause_seconds=RETRY_SECONDS)

    def start(self) -> None:
        if self._notifier.address:
            self._supervisor.start()

    def stop(self) -> None:
        """Give no more signs of life: the service manager knows that the daemon ends."""
        self._stopping.set()
        self._supervisor.stop(STOP_SECONDS_MAX)

    def reports(self) -> list[ThreadReport]:
        return [self._supervisor.report()] if self._notifier.address else []

    def status_line(self) -> str:
        """Check the daemon and return a line on its state. Raises SelfCheckError; where a part hangs, this hangs."""
        services = self._services
        memories = ""
        if services.is_open:
            store = services.store
            if not store.is_writer_alive and not self._stopping.is_set():
                raise SelfCheckError("the thread that writes to the store has ended")
            if not store.is_blocked:
                with contextlib.suppress(StoreError), store.snapshot() as snapshot:
                    snapshot.meta("salt")
            count = services.views.attributes.count_states(("active", "archived"))
            memories = f", {count} {'memory' if count == 1 else 'memories'}"
        state, reasons = self._state()
        return f"{state}{memories}{': ' if reasons else ''}{'; '.join(reasons)}"

    def _run(self) -> None:
        interval = self._notifier.watchdog_seconds or STATUS_SECONDS
        while not self._stopping.is_set():
            line = self.status_line()
            self._supervisor.note_success()
            self._loop.call_soon_threadsafe(self._report, line)
            self._stopping.wait(min(interval, WARMING_SECONDS) if line.startswith("warming") else interval)

    def _report(self, line: str) -> None:
        """Runs on the event loop."""
        if not self._stopping.is_set():
            self._notifier.keep_alive(line)
