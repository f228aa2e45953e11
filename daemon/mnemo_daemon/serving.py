"""The daemon's life on its loop: parts, routes and server put together, and taken apart again."""

import asyncio
import faulthandler
import logging
import os
import sys

from mnemo_daemon import openapi, settings
from mnemo_daemon.api import Api
from mnemo_daemon.app import Daemon
from mnemo_daemon.precedence import SWITCH_SECONDS
from mnemo_daemon.server import HttpServer, serve
from mnemo_daemon.service import Notifier
from mnemo_daemon.sockets import Listener

# After which a process that should end is ended, and its log says where its threads stood. What was acknowledged is
# durable by then; a thread that hangs must not keep the socket, the lock and whoever waits for the end.
CLOSE_SECONDS_MAX = 30.0

log = logging.getLogger("mnemo.daemon")


async def serve_until_stopped(
    configuration: settings.Configuration, listener: Listener, notifier: Notifier
) -> Exception | None:
    """Serves until it is told to stop, or until the store turns out not to open: then gives the reason."""
    sys.setswitchinterval(SWITCH_SECONDS)
    daemon = Daemon(configuration)
    daemon.open_beside()
    api = Api(daemon)
    routes = openapi.with_document(api.routes(), daemon.version)
    server = HttpServer(routes, connections_max=configuration.settings.daemon.connections_max, degraded=daemon.trouble)

    async def close() -> None:
        faulthandler.dump_traceback_later(CLOSE_SECONDS_MAX, exit=True)
        api.close()
        await asyncio.to_thread(daemon.close)

    def reload() -> None:
        try:
            configuration, changed = settings.reload(daemon.configuration, os.environ)
        except settings.ConfigError as error:
            log.error("the configuration stays as it was: %s", error)
            return
        daemon.reconfigure(configuration)
        for change in changed:
            when = "at the next start" if change.needs_restart else "now"
            log.info("%s is %r %s (%s)", change.key, change.after, when, change.origin)

    await serve(server, listener, notifier=notifier, close=close, reload=reload, stop=daemon.stopped)
    return daemon.failure
