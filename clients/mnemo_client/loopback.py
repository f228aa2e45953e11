"""An HTTP server on 127.0.0.1, for what cannot reach a Unix socket: the page, the proxy, compatible servers. SPEC 18

The rules against web pages of other sites are those of the daemon's own port (`protocol.loopback_rules`); a request
must also show a credential where the server has one. Only the commands that serve import this module: it loads aiohttp.
"""

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from mnemo_client.errors import UsageError
from mnemo_client.protocol.loopback_rules import RequestHead, fault_of, hosts_of, shows_token

HOST = "127.0.0.1"
BODY_BYTES_MAX = 1 << 20  # as the daemon's own
PORT_MAX = 65_535
CLOSE_SECONDS = 5.0  # for requests under way when the server ends
IDLE_CHECK_SECONDS = 1.0
_ESTABLISHED = 1  # a state of a connection, as Linux numbers them
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
REFUSED_CREDENTIAL = "the request has no valid token: start the command again, and use what it prints"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Accepts = Callable[[web.Request], bool]
Refuses = Callable[[int, str, str], web.Response]


def bind(port: int) -> socket.socket:
    """Return a socket that is bound to the port of 127.0.0.1; 0: to a free one. Raises UsageError."""
    if not 0 <= port <= PORT_MAX:
        raise UsageError(f"{port} is not a port", f"choose one from 1 to {PORT_MAX} with --port, or 0 for a free one")
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError as error:
        bound.close()
        raise UsageError(f"port {port} cannot be used: {error.strerror}", "choose another one with --port") from None
    return bound


def address_of(bound: socket.socket) -> str:
    """Return the address of a bound socket as a URL without a path."""
    return f"http://{HOST}:{bound.getsockname()[1]}"


def accepts_token(token: str) -> Accepts:
    """Return whether a request has the token: in `Authorization` after Bearer or Token, or in `X-API-Key`."""

    def accepts(request: web.Request) -> bool:
        header = request.headers.get("Authorization") or f"token {request.headers.get('X-API-Key', '')}"
        return shows_token(header, token, ("bearer", "token"))

    return accepts


def application(
    port: int, accepts: Accepts | None = None, *, public: frozenset[str] = frozenset(),
    headers: Mapping[str, str] | None = None, body_max: int = BODY_BYTES_MAX, refuse: Refuses | None = None,
) -> web.Application:  # fmt: skip
    """Return an application that refuses what is not for it, for routes to be added to.

    port: the one that it listens on. accepts: whether a request has the credential; `public`: the paths that need none.
    headers: for each answer. body_max: in bytes; a longer body is refused. refuse: the answer to a request that is not
    for it, by status, code and message; without one, an error in the daemon's own form.
    """
    hosts, refuse = hosts_of(port), refuse or refusal

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        head = RequestHead(request.headers, request.headers.getall("Host", []), request.host)
        if fault := fault_of(head, hosts):
            return refuse(fault.status, fault.code, fault.message)
        if accepts is not None and request.path not in public and not accepts(request):
            return refuse(401, "unauthorized", REFUSED_CREDENTIAL)
        return await handler(request)

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers or {})

    app = web.Application(middlewares=[guard], client_max_size=body_max)
    app.on_response_prepare.append(add_headers)
    return app


def refusal(status: int, code: str, message: str) -> web.Response:
    """Return an error in the daemon's own form."""
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


class ServerActivity:
    """The requests of a server under way, and the time since the last one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open = 0
        self._last = clock()

    @property
    def idle_seconds(self) -> float:
        """The seconds since the last request ended; 0 while one is open."""
        return 0.0 if self._open else self._clock() - self._last

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._last = self._clock()


async def serve(
    app: web.Application, bound: socket.socket, *, idle_seconds: float = 0.0,
    started: Callable[[], object] = lambda: None, clock: Callable[[], float] = time.monotonic, **settings: Any,
) -> None:  # fmt: skip
    """Serve until SIGINT or SIGTERM, or until no request was open for `idle_seconds`; 0: for ever.

    started: called once connections are accepted. Requests under way have CLOSE_SECONDS to finish. settings: of
    aiohttp's server, such as `handler_cancellation=True` and `auto_decompress=False` for a proxy.
    """
    activity, ended = ServerActivity(clock), asyncio.Event()

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        with activity.request():
            return await handler(request)

    app.middlewares.insert(0, count)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_SECONDS, **settings)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        started()
        while not ended.is_set():
            if idle_seconds and activity.idle_seconds >= idle_seconds:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), IDLE_CHECK_SECONDS)
    finally:
        await runner.cleanup()


# The other end


def user_of(transport: asyncio.BaseTransport | None) -> int | None:
    """Return the id of the user whose program is at the other end of a connection, as Linux has it; None where the
    kernel does not say, or the connection has ended."""
    if transport is None or (peer := transport.get_extra_info("peername")) is None:
        return None
    try:
        return _user_by_netlink(peer, transport.get_extra_info("sockname"))
    except (OSError, AttributeError):
        return _user_by_table(peer)  # a kernel without sock_diag


def _user_by_netlink(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Ask the kernel for one connection, by sock_diag(7)."""
    addresses = (ipaddress.IPv4Address(each[0]).packed.ljust(16, b"\0") for each in (peer, own))
    ends = struct.pack("!HH16s16s", peer[1], own[1], *addresses)
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + ends
    asked += struct.pack("=Iii", 0, -1, -1)  # any interface, no cookie
    head = struct.pack("=IHHII", 16 + len(asked), _SOCK_DIAG_BY_FAMILY, 1, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.sendto(head + asked, (0, 0))
        answer = kernel.recv(4096)
    if int.from_bytes(answer[4:6], sys.byteorder) != _SOCK_DIAG_BY_FAMILY:
        error = -int.from_bytes(answer[16:20], sys.byteorder, signed=True)
        if error == errno.ENOENT:
            return None
        raise OSError(error, os.strerror(error))
    inode = int.from_bytes(answer[84:88], sys.byteorder)
    if answer[17] != _ESTABLISHED or not inode:
        return None  # its program has closed it: the kernel then says that it is root's
    return int.from_bytes(answer[80:84], sys.byteorder)


def _user_by_table(peer: tuple[str, int]) -> int | None:
    """Look for the connection in the table of all."""
    number = ipaddress.IPv4Address(peer[0]).packed
    sought = f"{int.from_bytes(number, sys.byteorder):08X}:{peer[1]:04X}"
    try:
        with open("/proc/net/tcp", encoding="ascii") as table:
            rows = (line.split() for line in table)
            return next((int(row[7]) for row in rows if row[1] == sought and row[3] == f"{_ESTABLISHED:02X}"), None)
    except (OSError, ValueError):
        return None


# Passing on


@contextlib.asynccontextmanager
async def unix_session(path: Path) -> AsyncIterator[Any]:
    """A client session of aiohttp whose connections go to a Unix socket; without limits of time or of connections."""
    import aiohttp

    connector = aiohttp.UnixConnector(str(path), limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=2.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
        yield session
