"""HTTP/1.1 on the Unix socket: limits, peers, errors in one shape, and a clean end. SPEC 13, 16.

aiohttp reads and writes the protocol; its low-level server is used and not its Application, because the route table
here is a dict and every error, the protocol's own included, must leave in our shape. What aiohttp does not bound by
itself is bounded here and in `admission`: the time for the head of a request and for its body, the size of a body, the
number of connections and of requests that run, the memory of bodies and answers, the time a reader may take.

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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from mnemo_client.protocol.loopback_rules import RequestHead
from mnemo_daemon.errors import Refusal, logged_fault, refusal_of
from mnemo_daemon.server.admission.acceptor import Acceptor, Arrival, ConnectionSlots, bare_response
from mnemo_daemon.server.admission.access_table import AccessTable, Grant
from mnemo_daemon.server.admission.fair_queue import FairQueue, RecentClients, RequestTurn, TurnLimits
from mnemo_daemon.server.admission.request_body import BODY_SECONDS, BodyReader, UnreadAnswers
from mnemo_daemon.server.extra_listeners import SECURITY_HEADERS, ExtraListener, Loopback, check_body_type
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
from mnemo_daemon.server.service_managers import Notifier
from mnemo_daemon.server.sockets import Listener, Peer, peer_of, program_of
from mnemo_store.errors import ClosedStoreError

KEEPALIVE_SECONDS = 75.0  # an idle connection; clients reopen after less
HEAD_SECONDS = 10.0  # from the first byte of a request to the end of its head
READER_SECONDS = 30.0  # for a client to take in an answer, or a piece of a streamed one
DRAIN_SECONDS = 10.0  # SPEC 16: what was begun, after SIGTERM
DRAIN_POLL_SECONDS = 0.02
CANCEL_SECONDS = 0.1  # for a handler to take notice that it is cancelled
LINGER_SECONDS = 2.0  # reading on after an early answer, so that a client that still sends gets to see it
CONNECTIONS_MAX = 1024
# Requests that run at a time. Reads compute, and gain nothing from being many; writes wait for the disk together;
# what may answer with a stream of events waits for a model, or for changes.
READS = TurnLimits(alone=4, shared=1, total=8)
WRITES = TurnLimits(alone=64, shared=2, total=256)
STREAMS = TurnLimits(alone=8, shared=2, total=16)
READ_BYTES = 32 << 10  # at once; a connection that is not read from keeps up to three times as much
ROUTE = web.RequestKey("route", str)  # of a request: the template of its route, once it is found
NOT_ALLOWED = "this socket belongs to another user, who can grant access by `access.allow` in config.toml"
DEGRADED_HEADER = "X-Mnemo-Degraded"
HEADER_CHARS_MAX = 512
HEAD_BYTES_MAX = 32 * 1024  # one line of a head, the request line included: 500 ids travel there

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class ServerConnection(web.RequestHandler):
    """One client's connection, from the check of who it is to the end of its last request."""

    def __init__(self, server: "HttpServer", arrival: Arrival, **options: Any) -> None:
        super().__init__(server.http, loop=server.loop, **options)
        self.server = server
        self.peer = arrival.peer
        self.client = arrival.client
        self.loopback = arrival.loopback  # on TCP
        self.access = arrival.access  # the table by which it was let in
        self._holds_slot = True
        self._unread_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have asyncio read in small pieces: what a client sends faster than it is taken stays with the kernel."""
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = READ_BYTES
        self.check_access()

    @property
    def grant(self) -> Grant | None:
        """The rights of the peer by the access table in use; None where it has none."""
        return self.loopback.grant if self.loopback is not None else self.server.access.grant_of(self.peer)

    def check_access(self) -> None:
        """End the connection if the table in use is another one and gives it other rights, or makes them depend on a
        program that was not read. What it asked for is finished; a stream is cut off."""
        before, after = self.access, self.server.access
        if before is after or self.loopback is not None:
            return
        was_judged = bool(self.peer.program) or not after.names_programs_of(self.peer.uid)
        if not was_judged or before.grant_of(self.peer) != after.grant_of(self.peer):
            self.force_close()
        self.access = after

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
        self.end_answer()
        if self._holds_slot:
            self._holds_slot = False
            self.server.slots.give_back(self.client)
        super().connection_lost(exc)

    def begin_answer(self, size: int) -> None:
        """Count an answer, or the next piece of one, as unread until `end_answer`."""
        self.end_answer()
        if self.transport is not None:
            self._unread_bytes = self.server.unread.add(self.client, size)

    def end_answer(self) -> None:
        """Count what `begin_answer` counted as read, or given up."""
        count, self._unread_bytes = self._unread_bytes, 0
        self.server.unread.give_back(self.client, count)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is not HTTP in our shape, too. Nothing of it is logged: it is the client's mistake."""
        said = " ".join((message or "").split()) or HTTPStatus(status).phrase
        response = _failed(Refusal(status, "bad_request", f"this is no HTTP request: {said[:200]}"))
        response.force_close()
        return response

    def _head_is_late(self) -> None:
        """Send an answer outside of any request, and close."""
        self._head_timer = None
        if isinstance(self.transport, transports.WriteTransport):
            self.transport.write(bare_response(Refusal(408, "timeout", "the request was not whole in time")))
        self.force_close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    @property
    def is_idle(self) -> bool:
        """Return whether no request is under way, not even one of which nothing ran yet."""
        if self._request_in_progress or self._messages:
            return False
        return self._task_handler is None or (self._waiter is not None and not self._waiter.done())


class _Target(NamedTuple):
    """The route that a request is for, the parts of its path, and the rights that it is made with."""

    route: Route
    parts: dict[str, str]
    grant: Grant


class _WholeResponse(web.Response):
    """An answer in one piece, for a client that takes it in in time."""

    def __init__(self, connection: ServerConnection, body: bytes, status: int, content_type: str) -> None:
        super().__init__(body=body, status=status, content_type=content_type)
        self._connection = connection

    async def write_eof(self, data: bytes = b"") -> None:
        try:
            async with asyncio.timeout(self._connection.server.reader_seconds):
                await super().write_eof(data)
        except TimeoutError:
            if self._connection.transport is not None:
                self._connection.transport.abort()  # closing would wait for the same client
            raise ConnectionResetError("the client does not read") from None
        finally:
            self._connection.end_answer()


class _LowLevelServer(web.Server):
    """aiohttp's server, with connections of our own kind."""

    def __init__(self, server: "HttpServer", **options: Any) -> None:
        super().__init__(server.answer)
        self._ours = server
        self._options = options

    def connection(self, arrival: Arrival) -> ServerConnection:
        return ServerConnection(self._ours, arrival, **self._options)


class HttpServer:
    """An HTTP server on a listening socket, with a route table.

    `credentials` reads who is at the other end of a connection, `access` has the rights of each; `extra` listens next
    to the owner's socket. `degraded` says why the store is not as it should be, "" when it is: every answer then
    carries it in X-Mnemo-Degraded, and "store" in its `degraded` where it has one. SPEC 3.4
    """

    def __init__(
        self, routes: Sequence[Route], *, connections_max: int = CONNECTIONS_MAX,
        credentials: Callable[[socket.socket], Peer] = peer_of, access: AccessTable | None = None,
        extra: Sequence[ExtraListener] = (), degraded: Callable[[], str] = lambda: "",
        head_seconds: float = HEAD_SECONDS, body_seconds: float = BODY_SECONDS, reader_seconds: float = READER_SECONDS,
        drain_seconds: float = DRAIN_SECONDS, requests: RequestMetrics | None = None,
    ) -> None:  # fmt: skip
        self.requests = requests or RequestMetrics()
        self.table = RouteTable(routes)
        self.loop = asyncio.get_running_loop()
        self.slots = ConnectionSlots(connections_max)
        self.credentials = credentials
        self.access = access or AccessTable()
        self.degraded = degraded
        self.head_seconds = head_seconds
        self.reader_seconds = reader_seconds
        self.drain_seconds = drain_seconds
        self.is_draining = False
        self.http = _LowLevelServer(
            self, access_log=None, tcp_keepalive=False, read_bufsize=READ_BYTES, keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS, max_line_size=HEAD_BYTES_MAX, max_field_size=HEAD_BYTES_MAX,
            auto_decompress=False,
        )  # fmt: skip
        clients, self.unread = RecentClients(), UnreadAnswers()
        self.bodies = BodyReader(clients, body_seconds)
        self.reads, self.writes, self.streams = (
            FairQueue(limits, clients, is_held_back=self.unread.are_too_many) for limits in (READS, WRITES, STREAMS)
        )
        self.unread.on_read = self._begin_waiting
        self._extra = extra
        self._acceptors: list[Acceptor] = []

    def peer_of(self, connection: socket.socket) -> Peer:
        """The peer of a connection, with its program where its rights depend on that. Raises OSError."""
        peer = self.credentials(connection)
        if self.access.names_programs_of(peer.uid):
            peer = peer._replace(program=program_of(connection, peer.pid))
        return peer

    def identify(self, connection: socket.socket, loopback: Loopback | None) -> Arrival:
        """Return the connection with its peer and rights. Raises a Refusal for a peer that nothing grants a right."""
        if loopback is not None:
            return Arrival(connection, Peer(uid=-1), loopback.grant, self.access, loopback)
        try:
            peer = self.peer_of(connection)
        except OSError as unknown:
            said = f"the system does not say who you are: {unknown.strerror}"
            raise Refusal(403, "forbidden", said) from unknown
        grant = self.access.grant_of(peer)
        if grant is None:
            log.warning("refused a connection of user %d, process %d", peer.uid, peer.pid)
            raise Refusal(403, "forbidden", NOT_ALLOWED)
        return Arrival(connection, peer, grant, self.access, None)

    def set_access(self, access: AccessTable) -> None:
        """Use other rights from here on, and end the connections whose rights change by that."""
        self.access = access
        for connection in self.http.connections:
            if isinstance(connection, ServerConnection):
                connection.check_access()

    async def start(self, listening: socket.socket) -> None:
        """Begin to answer requests, those in the backlog first."""
        for extra in (ExtraListener(Listener(listening)), *self._extra):
            identify = functools.partial(self.identify, loopback=extra.loopback)
            self._acceptors.append(Acceptor(extra.listener.socket, self.slots, identify, self.http.connection))

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
        connection = raw.protocol
        assert isinstance(connection, ServerConnection), "the server makes no others"
        response: web.StreamResponse
        try:
            target = self._target_of(raw, connection)
            if target.route.operation.streams or not raw.can_read_body:
                response = await self._run(raw, connection, target, b"")
            else:
                async with self.bodies.whole(raw, target.route.operation.body_max, connection.client) as body:
                    response = await self._run(raw, connection, target, body)
        except Exception as error:  # whatever went wrong, the client gets our shape and no traceback
            is_gone = raw.transport is None or raw.transport.is_closing()
            if is_gone and isinstance(error, ConnectionError):
                raise  # the client is gone; an error of a connection that a handler made itself is answered
            response = self._refused(raw, error)
        if not response.prepared:
            self._add_headers(connection, response)
        return response

    def _add_headers(self, connection: ServerConnection, response: web.StreamResponse) -> None:
        """Add the headers of every answer."""
        if cause := self.degraded():
            ascii_cause = (letter if " " <= letter <= "~" else "?" for letter in cause[:HEADER_CHARS_MAX])
            response.headers[DEGRADED_HEADER] = "".join(ascii_cause)
        if self.is_draining:
            response.force_close()  # there was no room for its body
        if connection.loopback is not None:
            response.headers.update(SECURITY_HEADERS)

    def _target_of(self, raw: web.BaseRequest, connection: ServerConnection) -> _Target:
        """Find the route of a request. Raises a Refusal where there is none, or the client lacks the right."""
        grant = connection.grant
        if grant is None:
            raise Refusal(403, "forbidden", NOT_ALLOWED)
        if connection.loopback is not None:
            connection.loopback.check(RequestHead(raw.headers, raw.headers.getall("Host", []), raw.host))
            if raw.can_read_body:
                check_body_type(raw.headers.get("Content-Type", ""))
        route, parts = self.table.find(raw.method, raw.rel_url.raw_path, grant)
        raw[ROUTE] = route.path
        return _Target(route, parts, grant)

    async def _run(
        self, raw: web.BaseRequest, connection: ServerConnection, target: _Target, body: bytes
    ) -> web.StreamResponse:
        """Run the handler of a request in its client's turn, which lasts until the answer is made."""
        headers, route = raw.headers, target.route
        ask = body if route.forwards else decode_body(body, route)
        query = decode_query(raw.rel_url.raw_query_string, route)
        request = Request(
            ask=ask, query=query, path=target.parts, namespace=namespace_of(headers.get("X-Namespace"), ask, query),
            entry_point=route.entry_point or entry_point_of(headers.get("X-Mnemo-Door")),
            agent=agent_of(headers.get("X-Mnemo-Agent")), peer=connection.peer, grant=target.grant,
            body=self.bodies.pieces(raw) if route.operation.streams else None,
            headers=headers if route.forwards or route.operation.sends_events else {},
        )  # fmt: skip
        is_read = route.method == "GET" or route.operation.needed_right == "read"
        queue = self.streams if route.operation.sends_events else self.reads if is_read else self.writes
        turn = await queue.enter(connection.client)
        try:
            if is_read and (raw.transport is None or raw.transport.is_closing()):
                raise ConnectionResetError("the client is gone, and nothing was begun for it")
            reply = await route.handler(request)
            if hasattr(reply.value, "__aiter__"):
                return await self._stream(raw, connection, route, reply, turn)
            if self.degraded():
                name_store(reply)
            encoded = reply.value if isinstance(reply.value, bytes) else _encode(reply.value)
            connection.begin_answer(len(encoded))
        finally:
            turn.end()
        response = _WholeResponse(connection, encoded, reply.status, route.operation.content_type)
        response.headers.update(reply.headers or {})
        return response

    async def _stream(
        self, raw: web.BaseRequest, connection: ServerConnection, route: Route, reply: Reply, turn: RequestTurn
    ) -> web.StreamResponse:
        """Send the pieces as they come. An error after the first one visibly cuts the answer off."""
        pieces: AsyncIterator[bytes] = reply.value
        if route.operation.sends_events:
            turn.end()  # nobody knows when the first event comes
        first = await anext(pieces, b"")
        connection.begin_answer(len(first))
        turn.end()
        response = web.StreamResponse(status=reply.status)
        response.content_type = EVENT_STREAM if route.operation.sends_events else route.operation.content_type
        response.enable_chunked_encoding()
        self._add_headers(connection, response)
        await response.prepare(raw)
        try:
            await self._send(connection, response, first)
            async for piece in pieces:
                await self._send(connection, response, piece)
        except (ConnectionError, TimeoutError):
            self._cut_off(raw)
        except Exception:
            log.exception("%s %s broke off", route.method, route.path)
            self._cut_off(raw)
        finally:
            if aclose := getattr(pieces, "aclose", None):
                await aclose()
        return response

    async def _send(self, connection: ServerConnection, response: web.StreamResponse, piece: bytes) -> None:
        connection.begin_answer(len(piece))
        try:
            async with asyncio.timeout(self.reader_seconds):
                await response.write(piece)
        finally:
            connection.end_answer()

    def _cut_off(self, raw: web.BaseRequest) -> None:
        """The connection is gone, without the end mark of its answer, so that the client knows it is not whole."""
        if raw.transport is not None:
            raw.transport.abort()
        raise ConnectionResetError("the answer broke off")

    def _begin_waiting(self) -> None:
        for queue in (self.reads, self.writes, self.streams):
            queue.begin_waiting()

    def _refused(self, raw: web.BaseRequest, error: Exception) -> web.StreamResponse:
        if self.is_draining and isinstance(error, RuntimeError) and "after shutdown" in str(error):
            error = ClosedStoreError("the daemon is shutting down: ask again when it is back")  # its threads have ended
        refusal = refusal_of(error) or logged_fault(error, f"{raw.method} {raw.path}")
        response = _failed(refusal)
        if refusal.status in (401, 408, 413, 421):
            response.force_close()  # the rest of the body would be taken for the next request
        if refusal.status == 429 and not raw.content.is_eof():
            response.force_close()  # there was no room for its body
        return response


def _failed(refusal: Refusal) -> web.Response:
    response = web.Response(body=_encode(refusal.answer()), status=refusal.status, content_type="application/json")
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.allow is not None:
        response.headers["Allow"] = refusal.allow
    if refusal.retry_after is not None:
        response.headers["Retry-After"] = str(refusal.retry_after)
    return response


async def serve(
    server: HttpServer, listener: Listener, *, notifier: Notifier, close: Callable[[], Awaitable[None]],
    reload: Callable[[], None] | None = None, stop: asyncio.Event | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM, SIGINT or `stop`; then finish what was begun, and run `close` before returning. `reload` is
    called on SIGHUP. The service manager hears of the beginning, the end and every reload."""
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
