"""The daemon's life on its loop: parts, routes and server put together, and taken apart again; and its check of itself.

systemd ends and restarts a service that gives no sign of life for WatchdogSec. A sign is therefore given only where
three things work together: a thread of the daemon reads the store, the writer thread is alive, and the event loop runs,
which sends the sign. If one of them hangs, there is no sign. A failure that a restart would not end does not withhold
it: a store that answers with an error recovers by itself, and opening or recovering a store can take long.
"""

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence

from mnemo_client.protocol.choices import DaemonState
from mnemo_client.version import VERSION
from mnemo_daemon import settings
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import Refusal
from mnemo_daemon.priority import SWITCH_SECONDS
from mnemo_daemon.server import openapi
from mnemo_daemon.server.admission.access_table import AccessTable
from mnemo_daemon.server.extra_listeners import ExtraListener
from mnemo_daemon.server.http_server import HttpServer, serve
from mnemo_daemon.server.network_filter import NetworkBlock
from mnemo_daemon.server.service_managers import Notifier
from mnemo_daemon.server.sockets import Listener
from mnemo_daemon.services import Services
from mnemo_daemon.thread_supervision import ThreadSupervisor
from mnemo_store.errors import StoreError

STATUS_SECONDS = 30.0  # between two checks where the service manager has no watchdog, and only shows the line
WARMING_SECONDS = 2.0  # between two checks after the start, so that the line is current
RETRY_SECONDS = 1.0  # after a check that failed
STOP_SECONDS_MAX = 1.0  # a check that hangs is not waited for at the end

log = logging.getLogger("mnemo.daemon")

# After which a process that should end is ended, and its log says where its threads stood. What was acknowledged is
# durable by then; a thread that hangs must not keep the socket, the lock and callers that wait for the end.
CLOSE_SECONDS_MAX = 30.0
WARM_SECONDS_MAX = 60.0  # for a start, before what it made is taken to be all that stays
WARM_POLL_SECONDS = 0.5


class SelfCheckError(Exception):
    """A part of the daemon has ended and only a restart brings it back."""


class SelfCheck:
    """Checks the daemon on a thread of its own, and has the event loop report each check that succeeded. Without a
    service manager to report to, nothing runs."""

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

    def supervisors(self) -> list[ThreadSupervisor]:
        return [self._supervisor] if self._notifier.address else []

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


async def serve_until_stopped(
    configuration: settings.Configuration, listener: Listener, extra: Sequence[ExtraListener], notifier: Notifier,
    network: NetworkBlock,
) -> Exception | None:  # fmt: skip
    """Serve until told to stop, or until the store fails to open; return that failure."""
    sys.setswitchinterval(SWITCH_SECONDS)
    daemon = Daemon(configuration)
    daemon.start_opening()
    services = daemon.services
    report = StatusReport(
        services, lambda: [*daemon.supervisors(), *self_check.supervisors()], daemon.job_reports, network
    )
    self_check = SelfCheck(services, report.state, notifier)
    api = Api(services, report)
    routes = openapi.with_document(api.routes(), VERSION)
    server = HttpServer(
        routes, connections_max=configuration.settings.daemon.connections_max,
        access=AccessTable(configuration.settings.access.allow), extra=extra, degraded=services.problem,
        requests=services.requests,
    )  # fmt: skip

    async def close() -> None:
        faulthandler.dump_traceback_later(CLOSE_SECONDS_MAX, exit=True)
        await asyncio.to_thread(self_check.stop)
        api.close()
        await asyncio.to_thread(daemon.close)

    def reload() -> None:
        try:
            configuration, changed = settings.reload(services.configuration, os.environ)
        except settings.ConfigError as error:
            log.error("the configuration stays as it was: %s", error)
            return
        daemon.reconfigure(configuration)
        server.set_access(AccessTable(configuration.settings.access.allow))
        for change in changed:
            when = "at the next start" if change.needs_restart else "now"
            log.info("%s is %r %s (%s)", change.key, change.after, when, change.origin)

    async def settle() -> None:
        with contextlib.suppress(Refusal, StoreError):  # a store that does not open, or is closed: the daemon ends
            await services.wait_until_open()
            await freeze_long_lived(lambda: report.state()[0] == "warming")

    faulthandler.enable()  # a watchdog ends the process by SIGABRT: its log then shows where the threads hang
    self_check.start()
    settling = asyncio.create_task(settle())
    try:
        await serve(server, listener, notifier=notifier, close=close, reload=reload, stop=services.stopped)
    finally:
        settling.cancel()
    return services.failure


async def freeze_long_lived(
    is_warming: Callable[[], bool], poll_seconds: float = WARM_POLL_SECONDS, seconds_max: float = WARM_SECONDS_MAX
) -> None:
    """Once all is warm, exclude what is there (modules, indexes, the model) from garbage collection. A full collection
    looks at every object, some 70,000, while nothing else runs: 30 ms that a question would wait."""
    for _ in range(round(seconds_max / poll_seconds)):
        if not is_warming():
            break
        await asyncio.sleep(poll_seconds)
    gc.collect()
    gc.freeze()
