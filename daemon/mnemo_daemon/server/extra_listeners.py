"""The listeners next to the owner's socket, all bound before the process is forbidden to bind: the socket for other
users (`access.shared_socket`), and loopback TCP (`daemon.tcp_port`). Both are off by default. SPEC 13"""

import contextlib
import logging
from pathlib import Path
from typing import NamedTuple

from mnemo_client.protocol.operations import Right
from mnemo_daemon.server import loopback, sockets
from mnemo_daemon.server.loopback import Loopback
from mnemo_daemon.server.sockets import Listener

log = logging.getLogger("mnemo.daemon")


class ExtraListener(NamedTuple):
    """A listener with the check of its requests; None where the kernel says who connects."""

    listener: Listener
    loopback: Loopback | None = None


class ExtraListeners:
    """They are open, and so are the files that belong to them, until `close`."""

    def __init__(
        self, shared_socket: str, tcp_port: int, tcp_right: Right, run_folder: Path, *, tcp_ipv6: bool = False
    ) -> None:
        """Without a path and with port 0 there are none. Raises SocketError, OSError."""
        self.listeners: list[ExtraListener] = []
        with contextlib.ExitStack() as opened:
            if shared_socket:
                self._add(opened, ExtraListener(sockets.bind_shared(Path(shared_socket).expanduser())))
                log.info("listens for the users of access.allow on %s", shared_socket)
            if tcp_port:
                token = opened.enter_context(loopback.written_token(run_folder))
                check = Loopback(tcp_port, tcp_right, token)
                for listener in loopback.bind_loopback(tcp_port, with_ipv6=tcp_ipv6):
                    self._add(opened, ExtraListener(listener, check))
                log.info("listens on port %d of this machine for who has the token in %s", tcp_port, run_folder)
            self._opened = opened.pop_all()

    def _add(self, opened: contextlib.ExitStack, extra: ExtraListener) -> None:
        opened.callback(extra.listener.close)
        self.listeners.append(extra)

    def close(self) -> None:
        """Stop listening, and remove the socket's file and the token."""
        self._opened.close()
