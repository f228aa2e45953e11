"""The listeners next to the owner's socket, all bound before the process is forbidden to bind: the socket for other
users (`access.shared_socket`), and loopback TCP (`daemon.tcp_port`). Both are off by default. SPEC 13

TCP is for clients that have no Unix sockets. On it the kernel does not say who connects: every user of the machine can,
and a web page can have its reader's browser do it. So a request must show a token that only the owner can read, and
must not come from a page: its Host is one of this listener (a name that was rebound to 127.0.0.1 is refused), its
Origin, if any, is the same, and its body is declared as JSON, which no form of another site can send. There are no CORS
headers: no other page may read an answer. The trust of such a request is at most that of an agent: the token says that
a program was given it, not who speaks.
"""

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from errno import EACCES, EAFNOSUPPORT, EPERM
from pathlib import Path
from typing import NamedTuple

from mnemo_client.protocol.loopback_rules import RequestHead, fault_of, hosts_of, shows_token
from mnemo_client.protocol.operations import Right
from mnemo_daemon.errors import Refusal
from mnemo_daemon.server import sockets
from mnemo_daemon.server.admission.access_table import Grant
from mnemo_daemon.server.sockets import BACKLOG, Listener, SocketError

TOKEN_BYTES = 32
TOKEN_FILE = "token"  # in the run folder
RIGHT_KEY = "access.tcp_right"
BODY_TYPES = ("application/json", "application/x-ndjson", "application/octet-stream")  # none that a form can send
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Loopback:
    """The check of every request on one port, and the file of its token."""

    def __init__(self, port: int, right: Right, token: str) -> None:
        self.grant = Grant(right, "agent", RIGHT_KEY, name="tcp")
        self._hosts = hosts_of(port)
        self._token = token

    def check(self, head: RequestHead) -> None:
        """Raise a Refusal for a request that a page of another site sends, or that does not show the token."""
        if fault := fault_of(head, self._hosts):
            raise Refusal(fault.status, fault.code, fault.message, field=fault.field)
        if not shows_token(head.headers.get("Authorization", ""), self._token):
            message = f"send `Authorization: Bearer TOKEN`: run/{TOKEN_FILE} in the data folder has the token"
            raise Refusal(401, "unauthorized", message, field="Authorization")


def check_body_type(content_type: str) -> None:
    """Raise a Refusal for a body of a type, or of none, that a page may send without asking for permission first."""
    if content_type.partition(";")[0].strip().lower() not in BODY_TYPES:
        raise Refusal(415, "unsupported_media_type", f"send the body as {BODY_TYPES[0]}", field="Content-Type")


def bind_loopback(port: int, *, with_ipv6: bool = False) -> list[Listener]:
    """Listen on 127.0.0.1, and on ::1 if asked for; on no other address. Raises SocketError."""
    wanted = [(socket.AF_INET, "127.0.0.1"), *([(socket.AF_INET6, "::1")] if with_ipv6 else [])]
    with contextlib.ExitStack() as bound:
        listeners = []
        for family, address in wanted:
            listener = Listener(_bound(family, address, port))
            bound.callback(listener.close)
            listeners.append(listener)
        bound.pop_all()
    return listeners


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as failed:
        hint = ""
        if failed.errno in (EAFNOSUPPORT, EACCES, EPERM):
            hint = (
                "; the service may open Unix sockets alone: run `mnemo service install` again, "
                "or set daemon.tcp_port to 0"
            )
        raise SocketError(f"cannot listen on {address}: {failed.strerror}{hint}") from failed
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
        listening.listen(BACKLOG)
    except OSError as failed:
        listening.close()
        raise SocketError(
            f"cannot listen on {address}:{port}: {failed.strerror}; set daemon.tcp_port to another port, or to 0"
        ) from failed
    listening.setblocking(False)
    return listening


@contextlib.contextmanager
def written_token(run_folder: Path) -> Iterator[str]:
    """Yield a new token, which is in a file for the owner's eyes alone meanwhile. Raises OSError."""
    token = secrets.token_hex(TOKEN_BYTES)
    run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = run_folder / TOKEN_FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, token.encode() + b"\n")
    finally:
        os.close(descriptor)
    try:
        yield token
    finally:
        file.unlink(missing_ok=True)


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
                token = opened.enter_context(written_token(run_folder))
                check = Loopback(tcp_port, tcp_right, token)
                for listener in bind_loopback(tcp_port, with_ipv6=tcp_ipv6):
                    self._add(opened, ExtraListener(listener, check))
                log.info("listens on port %d of this machine for who has the token in %s", tcp_port, run_folder)
            self._opened = opened.pop_all()

    def _add(self, opened: contextlib.ExitStack, extra: ExtraListener) -> None:
        opened.callback(extra.listener.close)
        self.listeners.append(extra)

    def close(self) -> None:
        """Stop listening, and remove the socket's file and the token."""
        self._opened.close()
