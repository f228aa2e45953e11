"""The daemon's life on its loop: parts, routes and server put together, and taken apart again."""

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence

from mnemo_daemon import settings
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import Refusal
from mnemo_daemon.priority import SWITCH_SECONDS
from mnemo_daemon.self_check import SelfCheck
from mnemo_daemon.server import openapi
from mnemo_daemon.server.admission.access_table import AccessTable
from mnemo_daemon.server.extra_listeners import ExtraListener
from mnemo_daemon.server.http_server import HttpServer, serve
from mnemo_daemon.server.network_filter import NetworkBlock
from mnemo_daemon.server.sockets import Listener
from mnemo_daemon.server.systemd import Notifier
from mnemo_store.errors import StoreError

# After which a process that should end is ended, and its log says where its threads stood. What was acknowledged is
# durable by then; a thread that hangs must not keep the socket, the lock and callers that wait for the end.
CLOSE_SECONDS_MAX = 30.0
WARM_SECONDS_MAX = 60.0  # for a start, before what it made is taken to be all that stays
WARM_POLL_SECONDS = 0.5

log = logging.getLogger("mnemo.daemon")


async def serve_until_stopped(
    configuration: settings.Configuration,
    listener: Listener,
    extra: Sequence[ExtraListener],
    notifier: Notifier,
    network: NetworkBlock,
) -> Exception | None:
    """Serve until told to stop, or until the store fails to open; return that failure."""
    sys.setswitchinterval(SWITCH_SECONDS)
    daemon = Daemon(configuration)
    daemon.start_opening()
    services = daemon.services
    report = StatusReport(
        services, lambda: [*daemon.thread_reports(), *self_check.reports()], daemon.job_reports, network
    )
    self_check = SelfCheck(services, report.state, notifier)
    api = Api(services, report)
    routes = openapi.with_document(api.routes(), report.version)
    server = HttpServer(
        routes,
        connections_max=configuration.settings.daemon.connections_max,
        access=AccessTable(configuration.settings.access.allow),
        extra=extra,
        degraded=services.problem,
        requests=services.requests,
    )

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
    """Once all is warm, exclude what is there (modules, indexes, the model) from garbage collection.

    A full collection looks at every object, some 70,000, while nothing else runs: 30 ms that a question would wait.
    """
    for _ in range(round(seconds_max / poll_seconds)):
        if not is_warming():
            break
        await asyncio.sleep(poll_seconds)
    gc.collect()
    gc.freeze()
