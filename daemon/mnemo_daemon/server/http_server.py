"""HTTP/1.1 on the Unix socket: limits, peers, errors in one shape, and a clean end. SPEC 13, 16.

aiohttp reads and writes the protocol; its low-level server is used and not its Application, because the route table
here is a dict and every error, the protocol's own included, must leave in our shape. What aiohttp does not bound by
itself is bounded here: the time for the head of a request and for its body, the size of a body, the number of
connections, the time a reader may take over a stream.

A handler is never cancelled because its client went away: a write that was begun is finished. It is cancelled when
the daemon stops and it takes longer than DRAIN_SECONDS.
"""

import asyncio
import functools
import logging
import signal
import socket
import time
from asyncio import transports
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web

from mnemo_daemon.errors import Refusal, logged_fault, refusal_of
from mnemo_daemon.server.access_table import AccessTable, Grant
from mnemo_daemon.server.extra_listeners import ExtraListener
from mnemo_daemon.server.loopback import SECURITY_HEADERS, Loopback, RequestHead, check_body_type
from mnemo_daemon.server.request_metrics import RequestMetrics
from mnemo_daemon.server.router import (
    EVENT_STREAM,
    Reply,
    Request,
    Route,
    RouteTable,
    agent_of,
    decode_body,
    decode_query,
    entry_point_of,
    name_store,
    namespace_of,
)
from mnemo_daemon.server.sockets import BACKLOG, Listener, Peer, peer_of, program_of
from mnemo_daemon.server.systemd import Notifier
from mnemo_store.errors import ClosedStoreError

KEEPALIVE_SECONDS = 75.0  # an idle connection; clients reopen after less
HEAD_SECONDS = 10.0  # from the first byte of a request to the end of its head
BODY_SECONDS = 30.0  # for the whole of a body, however large
READER_SECONDS = 30.0  # for a client to take in an answer, or a piece of a streamed one
DRAIN_SECONDS = 10.0  # SPEC 16: what was begun, after SIGTERM
DRAIN_POLL_SECONDS = 0.02
CANCEL_SECONDS = 0.1  # for a handler to take notice that it is cancelled
LINGER_SECONDS = 2.0  # reading on after an early answer, so that a client that still sends gets to see it
CONNECTIONS_MAX = 1024
ROUTE = web.RequestKey("route", str)  # of a request: the template of its route, once it is found
OTHERS_CONNECTIONS_MAX = 64  # of each other user, of a program with rights of its own, and of TCP
NOT_ALLOWED = "this socket belongs to another user, who can grant access by `access.allow` in config.toml"
DEGRADED_HEADER = "X-Mnemo-Degraded"
HEADER_CHARS_MAX = 512
HEAD_BYTES_MAX = 16 * 1024  # one line of a head, the request line included: long filters travel there

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class ServerConnection(web.RequestHandler):
    """One client's connection, from the check of who it is to the end of its last request."""

    def __init__(self, server: "HttpServer", loopback: Loopback | None, **options: Any) -> None:
        super().__init__(server.http, loop=server.loop, **options)
        self.server = server
        self.loopback = loopback  # on TCP
        self.peer = Peer(uid=-1)
        self._slot: str | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse peers that nothing grants a right, and connections above the limits."""
        super().connection_made(transport)
        server = self.server
        try:
            if self.loopback is None:
                self.peer = server.peer_of(transport.get_extra_info("socket"))
        except OSError as unknown:
            self._hang_up(Refusal(403, "forbidden", f"the system does not say who you are: {unknown.strerror}"))
            return
        grant = self.grant
        if grant is None:
            log.warning("refused a connection of user %d, process %d", self.peer.uid, self.peer.pid)
            self._hang_up(Refusal(403, "forbidden", NOT_ALLOWED))
        elif not server.takes_connection(grant):
            self._hang_up(Refusal(503, "busy", "too many connections are open; try again", retry_after=1))
        else:
            self._slot = grant.name
            server.slots[self._slot] += 1

    @property
    def grant(self) -> Grant | None:
        """The rights of the peer by the access table in use; None where it has none."""
        return self.loopback.grant if self.loopback is not None else self.server.access.grant_of(self.peer)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Still waiting although bytes came: the head of a request has begun and is not whole.
        is_waiting = self._waiter is not None and not self._waiter.done()
        if not is_waiting:
            self._stop_head_timer()
        elif self._head_timer is None and not self._force_close:
            self._head_timer = self.server.loop.call_later(self.server.head_seconds, self._head_is_late)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_head_timer()
        if self._slot is not None:
            self.server.slots[self._slot] -= 1
            self._slot = None
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is not HTTP in our shape, too. Nothing of it is logged: it is the client's mistake."""
        said = " ".join((message or "").split()) or HTTPStatus(status).phrase
        response = _failed(Refusal(status, "bad_request", f"this is no HTTP request: {said[:200]}"))
        response.force_close()
        return response

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._hang_up(Refusal(408, "timeout", "the request was not whole in time"))

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _hang_up(self, refusal: Refusal) -> None:
        """Send an answer outside of any request, and close."""
        if isinstance(self.transport, transports.WriteTransport):
            self.transport.write(_bare_response(refusal))
        self.force_close()

    @property
    def is_idle(self) -> bool:
        return not self._request_in_progress and not self._messages


class _WholeResponse(web.Response):
    """An answer in one piece, for a client that takes it in in time."""

    def __init__(self, seconds: float, body: bytes, status: int, content_type: str) -> None:
        super().__init__(body=body, status=status, content_type=content_type)
        self._seconds = seconds

    async def write_eof(self, data: bytes = b"") -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await super().write_eof(data)
        except TimeoutError:
            if self._req is not None and self._req.transport is not None:
                self._req.transport.abort()  # closing would wait for the same client
            raise ConnectionResetError("the client does not read") from None


class _LowLevelServer(web.Server):
    """aiohttp's server, with connections of our own kind."""

    def __init__(self, server: "HttpServer", **options: Any) -> None:
        super().__init__(server.answer)
        self._ours = server
        self._options = options

    def __call__(self) -> ServerConnection:
        return self.connection(None)

    def connection(self, loopback: Loopback | None) -> ServerConnection:
        return ServerConnection(self._ours, loopback, **self._options)


class HttpServer:
    """An HTTP server on a listening socket, with a route table.

    `credentials` reads who is at the other end of a connection, `access` has the rights of each; `extra` listens next
    to the owner's socket. `degraded` says why the store is not as it should be, "" when it is: every answer then
    carries it in X-Mnemo-Degraded, and "store" in its `degraded` where it has one. SPEC 3.4
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        connections_max: int = CONNECTIONS_MAX,
        credentials: Callable[[socket.socket], Peer] = peer_of,
        access: AccessTable | None = None,
        extra: Sequence[ExtraListener] = (),
        degraded: Callable[[], str] = lambda: "",
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
        reader_seconds: float = READER_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
        requests: RequestMetrics | None = None,
    ) -> None:
        self.requests = requests or RequestMetrics()
        self.table = RouteTable(routes)
        self.loop = asyncio.get_running_loop()
        self.connections_max = connections_max
        self.credentials = credentials
        self.access = access or AccessTable()
        self.slots: Counter[str] = Counter()  # open connections, by whose they are
        self.degraded = degraded
        self.head_seconds = head_seconds
        self.body_seconds = body_seconds
        self.reader_seconds = reader_seconds
        self.drain_seconds = drain_seconds
        self.is_draining = False
        self.http = _LowLevelServer(
            self,
            access_log=None,
            tcp_keepalive=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=HEAD_BYTES_MAX,
            max_field_size=HEAD_BYTES_MAX,
            auto_decompress=False,
        )
        self._extra = extra
        self._acceptors: list[asyncio.Server] = []

    def peer_of(self, connection: socket.socket) -> Peer:
        """The peer of a connection, with its program where its rights depend on that. Raises OSError."""
        peer = self.credentials(connection)
        if self.access.names_programs_of(peer.uid):
            peer = peer._replace(program=program_of(connection, peer.pid))
        return peer

    def takes_connection(self, grant: Grant) -> bool:
        """Return whether there is room for one more: other users and programs cannot take that of the owner."""
        slot_max = self.connections_max if grant.is_owner else min(self.connections_max, OTHERS_CONNECTIONS_MAX)
        return self.slots[grant.name] < slot_max

    def set_access(self, access: AccessTable) -> None:
        """Use other rights from here on. Connections end whose rights changed, or depend now on a program that was not
        read when they began. What they asked for is finished; a stream is cut off."""
        before, self.access = self.access, access
        for connection in self.http.connections:
            if not isinstance(connection, ServerConnection) or connection.loopback is not None:
                continue
            peer = connection.peer
            was_judged = bool(peer.program) or not access.names_programs_of(peer.uid)
            if not was_judged or before.grant_of(peer) != access.grant_of(peer):
                connection.force_close()

    async def start(self, listening: socket.socket) -> None:
        """Begin to answer requests, those in the backlog first."""
        self._acceptors.append(await self.loop.create_server(self.http, sock=listening, backlog=BACKLOG))
        for extra in self._extra:
            factory = functools.partial(self.http.connection, extra.loopback)
            self._acceptors.append(await self.loop.create_server(factory, sock=extra.listener.socket, backlog=BACKLOG))

    async def drain(self) -> None:
        """Accept nothing more; requests under way are answered, or cancelled after `drain_seconds`."""
        self.is_draining = True
        for acceptor in self._acceptors:
            acceptor.close()
        deadline = self.loop.time() + self.drain_seconds
        while self._close_idle() and self.loop.time() < deadline:  # noqa: ASYNC110 - aiohttp has no event for it
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        await self.http.shutdown(CANCEL_SECONDS)

    def _close_idle(self) -> int:
        """Close connections between two requests; return the number of those in the middle of one."""
        connections = [connection for connection in self.http.connections if isinstance(connection, ServerConnection)]
        idle = [connection for connection in connections if connection.is_idle]
        for connection in idle:
            connection.force_close()
        return len(connections) - len(idle)

    async def answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        """One request, answered and counted."""
        began = time.perf_counter()
        self.requests.in_flight += 1
        try:
            response = await self._answer(raw)
        finally:
            self.requests.in_flight -= 1
        self.requests.record(raw.method, raw.get(ROUTE, ""), response.status, time.perf_counter() - began)
        return response

    async def _answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        """One request, answered; every error in our shape."""
        response: web.StreamResponse
        try:
            route, reply = await self._handled(raw)
            if hasattr(reply.value, "__aiter__"):
                return await self._stream(raw, route, reply.value, reply.status)
            if self.degraded():
                name_store(reply)
            body = reply.value if isinstance(reply.value, bytes) else _encode(reply.value)
            response = _WholeResponse(self.reader_seconds, body, reply.status, route.content_type)
            response.headers.update(reply.headers or {})
        except Exception as error:  # whatever went wrong, the client gets our shape and no traceback
            is_gone = raw.transport is None or raw.transport.is_closing()
            if is_gone and isinstance(error, ConnectionError):
                raise  # the client is gone; an error of a connection that a handler made itself is answered
            response = self._refused(raw, error)
        self._add_headers(raw, response)
        return response

    def _add_headers(self, raw: web.BaseRequest, response: web.StreamResponse) -> None:
        """Add the headers of every answer."""
        if cause := self.degraded():
            response.headers[DEGRADED_HEADER] = _header_text(cause)
        if self.is_draining:
            response.force_close()
        connection = raw.protocol
        if isinstance(connection, ServerConnection) and connection.loopback is not None:
            response.headers.update(SECURITY_HEADERS)

    async def _handled(self, raw: web.BaseRequest) -> tuple[Route, Reply]:
        url = raw.rel_url
        connection = raw.protocol
        assert isinstance(connection, ServerConnection), "the server makes no others"
        grant = connection.grant
        if grant is None:
            raise Refusal(403, "forbidden", NOT_ALLOWED)
        if connection.loopback is not None:
            connection.loopback.check(RequestHead(raw.headers, raw.headers.getall("Host", []), raw.host))
            if raw.can_read_body:
                check_body_type(raw.headers.get("Content-Type", ""))
        route, parts = self.table.find(raw.method, url.raw_path, grant)
        raw[ROUTE] = route.path
        whole = b"" if route.streams or not raw.can_read_body else await self._read_body(raw, route.body_max)
        headers = raw.headers
        ask = whole if route.forwards else decode_body(whole, route)
        query = decode_query(url.raw_query_string, route)
        request = Request(
            ask=ask,
            query=query,
            path=parts,
            namespace=namespace_of(headers.get("X-Namespace"), ask, query),
            entry_point=route.entry_point or entry_point_of(headers.get("X-Mnemo-Door")),
            agent=agent_of(headers.get("X-Mnemo-Agent")),
            peer=connection.peer,
            grant=grant,
            body=self._pieces(raw) if route.streams else None,
            headers=headers if route.forwards or route.sends_events else {},
        )
        return route, await route.handler(request)

    async def _read_body(self, raw: web.BaseRequest, bytes_max: int) -> bytes:
        """The whole body. Raises a Refusal where it is too large, too slow, packed or broken off."""
        if (raw.content_length or 0) > bytes_max:
            raise _too_large(bytes_max)
        _send_continue(raw)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.body_seconds):
                while piece := await raw.content.readany():
                    size += len(piece)
                    if size > bytes_max:
                        raise _too_large(bytes_max)
                    pieces.append(piece)
        except TimeoutError:
            raise Refusal(408, "timeout", f"the body was not whole within {self.body_seconds:g} seconds") from None
        except (web.RequestPayloadError, web.HTTPException, ValueError) as broken:
            raise _unreadable(broken) from None
        return b"".join(pieces)

    async def _pieces(self, raw: web.BaseRequest) -> AsyncIterator[bytes]:
        """The body as it comes in. Raises a Refusal where a piece is too slow, packed or broken off."""
        _send_continue(raw)
        try:
            while True:
                async with asyncio.timeout(self.body_seconds):
                    piece = await raw.content.readany()
                if not piece:
                    return
                yield piece
        except TimeoutError:
            raise Refusal(408, "timeout", f"nothing of the body came for {self.body_seconds:g} seconds") from None
        except (web.RequestPayloadError, web.HTTPException, ValueError) as broken:
            raise _unreadable(broken) from None

    async def _stream(
        self, raw: web.BaseRequest, route: Route, pieces: AsyncIterator[bytes], status: int
    ) -> web.StreamResponse:
        """Send the pieces as they come. An error after the first one visibly cuts the answer off."""
        first = await anext(pieces, b"")
        response = web.StreamResponse(status=status)
        response.content_type = EVENT_STREAM if route.sends_events else route.content_type
        response.enable_chunked_encoding()
        self._add_headers(raw, response)
        await response.prepare(raw)
        try:
            await self._send(response, first)
            async for piece in pieces:
                await self._send(response, piece)
        except (ConnectionError, TimeoutError):
            self._cut_off(raw)
        except Exception:
            log.exception("%s %s broke off", route.method, route.path)
            self._cut_off(raw)
        finally:
            if aclose := getattr(pieces, "aclose", None):
                await aclose()
        return response

    async def _send(self, response: web.StreamResponse, piece: bytes) -> None:
        async with asyncio.timeout(self.reader_seconds):
            await response.write(piece)

    def _cut_off(self, raw: web.BaseRequest) -> None:
        """The connection is gone, without the end mark of its answer, so that the client knows it is not whole."""
        if raw.transport is not None:
            raw.transport.abort()
        raise ConnectionResetError("the answer broke off")

    def _refused(self, raw: web.BaseRequest, error: Exception) -> web.StreamResponse:
        if self.is_draining and isinstance(error, RuntimeError) and "after shutdown" in str(error):
            error = ClosedStoreError(
                "the daemon is shutting down: ask again when it is back"
            )  # its threads take no more work
        refusal = refusal_of(error)
        if refusal is None:
            refusal = logged_fault(error, f"{raw.method} {raw.path}")
        response = _failed(refusal)
        if refusal.status in (401, 408, 413, 421):
            response.force_close()  # the rest of the body would be taken for the next request
        return response


def _header_text(text: str) -> str:
    """The part of a text that a header may contain: one line of printable ASCII."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:HEADER_CHARS_MAX])


def _failed(refusal: Refusal) -> web.Response:
    response = web.Response(body=_encode(refusal.answer()), status=refusal.status, content_type="application/json")
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.retry_after is not None:
        response.headers["Retry-After"] = str(refusal.retry_after)
    return response


def _bare_response(refusal: Refusal) -> bytes:
    """A whole HTTP answer, for a connection that has no request."""
    body = _encode(refusal.answer())
    retry = f"Retry-After: {refusal.retry_after}\r\n" if refusal.retry_after is not None else ""
    head = (
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + body


def _send_continue(raw: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue`. Raises a Refusal for a compressed body."""
    if raw.headers.get("Content-Encoding", "identity") != "identity":
        raise Refusal(400, "bad_request", "bodies are taken as they are, not packed", field="Content-Encoding")
    if raw.headers.get("Expect", "").lower() == "100-continue" and raw.transport is not None:
        raw.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _unreadable(broken: Exception) -> Refusal:
    return Refusal(400, "bad_request", f"the body cannot be read: {type(broken).__name__}")


def _too_large(bytes_max: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {bytes_max >> 10} KiB, the most that is taken here")


async def serve(
    server: HttpServer,
    listener: Listener,
    *,
    notifier: Notifier,
    close: Callable[[], Awaitable[None]],
    reload: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or `stop`; then finish what was begun, and run `close` before returning.

    `reload` is called on SIGHUP. The service manager hears of the beginning, the end and every reload.
    """
    stopped = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, _reload_and_report, reload, notifier)
    await server.start(listener.socket)
    notifier.ready()
    try:
        await stopped.wait()
    finally:
        notifier.stopping("finishing the requests under way")
        try:
            await server.drain()
        finally:
            listener.close()
            await close()


def _reload_and_report(reload: Callable[[], None], notifier: Notifier) -> None:
    notifier.reloading()
    try:
        reload()
    finally:
        notifier.ready()
