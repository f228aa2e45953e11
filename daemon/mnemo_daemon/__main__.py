"""`mnemod`: the daemon in the foreground. SPEC 16.

Exit status: 0 after SIGTERM, SIGINT or `mnemo down`; 1 when it could not start or its store could not be opened; 2 for
a wrong argument or configuration; 3 when another daemon is there already.
"""

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mnemo_client import paths
from mnemo_client.version import VERSION
from mnemo_daemon import process_memory
from mnemo_daemon.server import network_filter, private_files, sockets
from mnemo_daemon.server.service_managers import Notifier

if TYPE_CHECKING:
    from mnemo_daemon.server.extra_listeners import ExtraListeners
    from mnemo_daemon.settings import Configuration

USAGE = """usage: mnemod [--help | --version]

Serves one long-term memory on a Unix socket until it is told to stop (SIGTERM, SIGINT, mnemo down).
What can be set stands in config.toml and in MNEMO_… variables: see `mnemo config`.
"""


def main() -> int:
    """Bind the socket first, so that clients can connect at once; then load the rest."""
    arguments = sys.argv[1:]
    if arguments:
        if arguments == ["--version"]:
            sys.stdout.write(f"mnemod {VERSION}\n")
            return 0
        asked = arguments in (["--help"], ["-h"])
        (sys.stdout if asked else sys.stderr).write(USAGE)
        return 0 if asked else 2
    with _cheap_imports():
        from mnemo_daemon import settings
        from mnemo_daemon.server.extra_listeners import ExtraListeners

    try:
        configuration = settings.load(os.environ)
    except settings.ConfigError as error:
        return _fail(str(error), 2)
    logging.basicConfig(
        level=configuration.settings.daemon.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    process_memory.limit_arenas()
    try:
        folders = configuration.folders
        for repair in private_files.secure(folders.data, folders.config_file, paths.log_file(os.environ)):
            logging.getLogger("mnemo.daemon").warning("%s", repair)
        sockets.raise_open_files_limit()
        listener = sockets.listen(folders.socket, os.environ)
        with contextlib.ExitStack() as bound:
            bound.callback(listener.close)
            daemon, access = configuration.settings.daemon, configuration.settings.access
            extra = ExtraListeners(
                access.shared_socket, daemon.tcp_port, access.tcp_right, paths.run_folder(os.environ),
                tcp_ipv6=daemon.tcp_ipv6,
            )  # fmt: skip
            bound.pop_all()
    except sockets.SocketInUse as error:
        return _fail(f"another daemon holds the data folder: {error}", 3)
    except (sockets.SocketError, private_files.UnsafeFileError, OSError) as error:
        return _fail(str(error), 1)
    try:
        network = network_filter.block(configuration.settings.daemon.network_block)
    except network_filter.NetworkFilterError as error:
        listener.close()
        extra.close()
        return _fail(str(error), 2)
    notifier = Notifier.from_environ(os.environ)
    return _serve(configuration, listener, extra, notifier, network)


def _serve(
    configuration: "Configuration", listener: sockets.Listener, extra: "ExtraListeners", notifier: Notifier,
    network: network_filter.NetworkBlock,
) -> int:  # fmt: skip
    """Load everything else, which the network block holds for, and serve until the end."""
    import asyncio

    with _cheap_imports():
        from mnemo_daemon.lifespan import serve_until_stopped
        from mnemo_store.errors import FolderInUse

    try:
        failure = asyncio.run(serve_until_stopped(configuration, listener, extra.listeners, notifier, network))
    finally:
        extra.close()
    if failure is None:
        return 0
    if isinstance(failure, FolderInUse):
        same = "to reach it, set XDG_RUNTIME_DIR or MNEMO_SOCKET as they are where it was started"
        return _fail(f"another daemon holds the data folder: {failure}; {same}", 3)
    return _fail(str(failure), 1)


@contextlib.contextmanager
def _cheap_imports() -> Iterator[None]:
    """Within it imports cost a sixth less: the collector does not look again and again at modules, which stay for good,
    and aiohttp does not load the system's certificates, for a client of its own that nothing here uses."""
    certificates = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    os.environ |= dict.fromkeys(certificates, os.devnull)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        for name, value in certificates.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"mnemod: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
