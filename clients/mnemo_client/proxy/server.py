"""The proxy: passes each request to the model server and its answer back, byte for byte, while they arrive. SPEC 19

What passes is copied for the recorder, which reads it after its end on a thread of its own. Nothing that fails beside
the stream can fail the stream. What a client hangs up on is hung up on at the model server too.

A redirect to this machine passes; one to another host is answered by an error in its place, since a program that
followed it would send its prompts, and perhaps its key, off the machine unseen.
"""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp import web
from yarl import URL

from mnemo_client import loopback
from mnemo_client.cli.agent_hooks.inbox import HookInbox
from mnemo_client.errors import MnemoError
from mnemo_client.model_server import RemoteRedirectError, Upstream
from mnemo_client.proxy import chat_formats
from mnemo_client.proxy.conversations import ConversationStore
from mnemo_client.proxy.exchange import (
    BODY_BYTES_MAX,
    CopyBudget,
    Exchange,
    ProxyCounters,
    end_to_end,
    has_passed,
    request_headers,
)
from mnemo_client.proxy.injection import ContextInjector, is_signed
from mnemo_client.proxy.recorder import ConversationRecorder, deliver

CONTROL_PATH = "/.mnemo/"  # of requests of `mnemo proxy` itself, which have the token; without it they pass
TICK_SECONDS = 1.0  # between looks for windows to be written
RETRY_SECONDS = 5.0  # after the daemon could not take a window; twice as long after each attempt, up to
RETRY_SECONDS_MAX = 60.0
KEEP_ALIVE_SECONDS = 1.0  # of idle connections to the model server: less than any server keeps them, as a request on
#   one that is being closed would fail
HEAD_BYTES_MAX = 64 << 10  # of one header; of a request or an answer
END_SECONDS_MAX = 5.0  # for what waits to be delivered when the proxy ends
RECORDS_WAITING_MAX = 256  # exchanges that wait to be read; more are left out

log = logging.getLogger("mnemo.proxy")
# The server's own complaints of requests that are no HTTP quote them, perhaps with a key.
_quiet = logging.getLogger("mnemo.proxy.requests")
_quiet.disabled = True


class PassedAnswer(web.StreamResponse):
    """An answer on its way back, whose head is sent with its first piece if that is there already."""

    _send_headers_immediately = False


class ProxyParts(NamedTuple):
    """The parts of a proxy: where to, its name in Via, and what is beside the stream."""

    upstream: Upstream
    via: str
    session: aiohttp.ClientSession  # to the model server
    recorder: ConversationRecorder
    inbox: HookInbox
    socket: Path  # of the daemon
    counters: ProxyCounters
    injector: ContextInjector | None = None


class ModelProxy:
    """The handler of all requests, with two threads: one that reads what passed, and one that delivers it."""

    def __init__(self, parts: ProxyParts, accepts: loopback.Accepts) -> None:
        """accepts: whether a request has the token of the control routes."""
        self._parts = parts
        self._accepts = accepts
        self._counters = parts.counters
        self._copies = CopyBudget()
        self._reader = ThreadPoolExecutor(1, "mnemo-proxy-reader")
        self._delivery: asyncio.Future[MnemoError | OSError | None] | None = None
        self._waiting_records = 0
        self._users: WeakKeyDictionary[asyncio.Transport, int | None] = WeakKeyDictionary()  # by connection
        self._wants_delivery = asyncio.Event()
        self._problem = ""

    # Requests

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request by what the model server answers."""
        if request.path.startswith(CONTROL_PATH) and self._accepts(request):
            match request.method, request.path.removeprefix(CONTROL_PATH):
                case "GET", "status":
                    return web.json_response(self._status())
                case "POST", "flush":
                    await self._on_reader(self._parts.recorder.write_all)
                    await self._deliver()
                    return web.json_response(self._status())
            return loopback.refusal(404, "no_route", "the proxy has status and flush")
        if not request.raw_path.startswith("/"):
            message = "this is a proxy of one model server: use its address as the base of your URLs"
            return loopback.refusal(421, "wrong_target", message)
        if has_passed(request.raw_headers, self._parts.via):
            return loopback.refusal(508, "loop", "the model server passes its requests on to this proxy")
        self._counters.passed += 1
        kind = chat_formats.format_of(request.method, request.raw_path)
        exchange = None if kind is None else Exchange(kind, request.headers, self._copies)
        if exchange is not None and not self._is_of_owner(request):
            self._counters.skip("foreign")
            exchange = None
        try:
            return await self._pass(request, exchange)
        except Exception as bug:
            log.error("a bug in the proxy: %s\n%s", type(bug).__name__, "".join(traceback.format_tb(bug.__traceback__)))
            raise
        finally:
            if exchange is not None:
                self._submit(exchange)

    def _is_of_owner(self, request: web.Request) -> bool:
        """Return True unless a program of another user sends the request: those pass, but neither write nor read
        memories. The kernel is asked once for each connection."""
        transport = request.transport
        if transport is None or sys.platform != "linux":
            return transport is not None
        if transport not in self._users:
            self._users[transport] = loopback.user_of(transport)
        return self._users[transport] in (os.geteuid(), 0)

    async def _pass(self, request: web.Request, exchange: Exchange | None) -> web.StreamResponse:
        """Pass a request on, and its answer back."""
        body, sends_length = await self._request_body(request, exchange)
        parts = self._parts
        sent = request_headers(request.raw_headers, parts.via, sends_length=sends_length)
        url = URL(f"{parts.upstream.address}{request.raw_path}", encoded=True)
        try:
            answer = await parts.session.request(
                request.method, url, headers=sent, data=body, allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )  # fmt: skip
        except (aiohttp.ClientError, OSError) as failed:
            return loopback.refusal(502, "no_upstream", f"the model server does not answer: {_reason(failed)}")
        async with answer:
            return await self._answer(request, answer, exchange)

    async def _request_body(self, request: web.Request, exchange: Exchange | None) -> tuple[Any, bool]:
        """Return the body to send on, and False if it has another length than the one that came."""
        if not request.can_read_body:
            return None, True
        content = request.content
        injects = exchange is not None and self._injects(request)
        if exchange is not None and (injects or content.is_eof()):
            whole, is_whole = await _read_up_to(content, BODY_BYTES_MAX)
            exchange.request.add(whole)
            if not is_whole:
                return _chained(whole, content, exchange), True
            if not injects:
                return whole, True
            return await self._with_context(exchange, whole), False
        return _chained(b"", content, exchange), True

    def _injects(self, request: web.Request) -> bool:
        if self._parts.injector is None:
            return False
        why = ""
        if request.headers.get("X-Mnemo-Context", "").strip().lower() == "false":
            why = "opted_out"
        elif request.headers.get("Content-Encoding", "identity").lower() != "identity" or is_signed(request.headers):
            why = "encoding"
        if why:
            self._counters.not_injected[why] += 1
        return not why

    async def _with_context(self, exchange: Exchange, body: bytes) -> bytes:
        """Return the body with the context of the memory in it; as it was if there is none, or on any failure."""
        assert self._parts.injector is not None
        try:
            changed, why = await self._parts.injector.inject(exchange.kind, exchange.key, body)
        except Exception as bug:  # noqa: BLE001 - the request passes without a context
            log.warning("a bug in the injection of a context: %s", type(bug).__name__)
            changed, why = body, "bug"
        if why:
            self._counters.not_injected[why] += 1
        else:
            self._counters.injected += 1
        return changed

    async def _answer(
        self, request: web.Request, answer: aiohttp.ClientResponse, exchange: Exchange | None
    ) -> web.StreamResponse:
        """Pass the answer back while it arrives. One that breaks off breaks off for the client too."""
        passed = PassedAnswer(status=answer.status, reason=answer.reason)
        try:
            for name, value in end_to_end(answer.raw_headers):
                is_target = name.lower() in ("location", "content-location")
                passed.headers.add(name, self._parts.upstream.location(value) if is_target else value)
        except RemoteRedirectError as remote:
            return loopback.refusal(502, "remote_redirect", f"the model server redirects to another host: {remote}")
        if exchange is not None:
            exchange.status = answer.status
            exchange.answer_type = answer.headers.get("Content-Type", "")
            exchange.answer_encoding = answer.headers.get("Content-Encoding", "")
        passed["from_upstream"] = frozenset(name.lower() for name in passed.headers)
        try:
            writer = await passed.prepare(request)
            if writer is not None and not answer.content.total_bytes:
                writer.send_headers()
            while piece := await _next_piece(answer.content):
                if exchange is not None:
                    exchange.answer.add(piece)
                await passed.write(piece)
            if piece is None:
                if request.transport is not None:
                    request.transport.close()  # without the end of the body, as it came
                return passed
            await passed.write_eof()
        except ConnectionError:
            return passed  # the client is gone
        if exchange is not None:
            exchange.is_complete = True
        return passed

    def _submit(self, exchange: Exchange) -> None:
        """Have an exchange that ended read on the thread."""
        if self._waiting_records >= RECORDS_WAITING_MAX:
            self._counters.skip("busy")
            exchange.drop()
            return
        self._waiting_records += 1
        reading = asyncio.get_running_loop().run_in_executor(self._reader, self._parts.recorder.record, exchange)
        reading.add_done_callback(self._has_read)

    def _has_read(self, reading: "asyncio.Future[None]") -> None:
        self._waiting_records -= 1
        if not reading.cancelled() and (error := reading.exception()) is not None:
            self._counters.skip("unreadable")
            log.warning("what passed could not be read: %s", type(error).__name__)

    # Beside the requests

    async def run(self) -> None:
        """Write windows and deliver them, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_windows())
            tasks.create_task(self._deliver_windows())

    async def _write_windows(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._on_reader(self._parts.recorder.write_quiet)
            except OSError as failed:
                self._problem = str(failed)
            if self._parts.inbox.entries():
                self._wants_delivery.set()

    async def _deliver_windows(self) -> None:
        pause = RETRY_SECONDS
        self._wants_delivery.set()  # what an earlier proxy left
        while True:
            await self._wants_delivery.wait()
            self._wants_delivery.clear()
            if await self._deliver():
                pause = RETRY_SECONDS
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)
            self._wants_delivery.set()

    async def _deliver(self) -> bool:
        """Deliver what waits; return False if the daemon cannot take it now.

        The thread is one that the end of the process does not wait for, since the daemon may be stopped for long.
        """
        parts, loop = self._parts, asyncio.get_running_loop()
        while self._delivery is not None and not self._delivery.done():
            await asyncio.wait([self._delivery])
        ended = self._delivery = loop.create_future()

        def settle(error: MnemoError | OSError | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def run() -> None:
            error: MnemoError | OSError | None = None
            try:
                deliver(parts.socket, parts.inbox, self._counters.outcomes)
            except (MnemoError, OSError) as failed:
                error = failed
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, error)

        threading.Thread(target=run, name="mnemo-proxy-delivery", daemon=True).start()
        failed = await asyncio.shield(ended)
        self._problem = "" if failed is None else str(failed)
        return failed is None

    async def _on_reader(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reader, function)

    async def end(self) -> None:
        """Write every window, and deliver what the daemon takes in time; the rest waits for the next start."""
        with contextlib.suppress(OSError):  # of the disk: the next request has what is not kept
            await self._on_reader(self._parts.recorder.write_all)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._deliver(), END_SECONDS_MAX)
        self._reader.shutdown(wait=True)

    # The commands of `mnemo proxy`

    def _status(self) -> dict[str, Any]:
        counters, parts = self._counters, self._parts
        return {
            "running": True,
            "upstream": parts.upstream.address,
            "remote": parts.upstream.remote,
            "injects": parts.injector is not None,
            "passed": counters.passed,
            "captured": counters.captured,
            "skipped": dict(sorted(counters.skipped.items())),
            "injected": counters.injected,
            "not_injected": dict(sorted(counters.not_injected.items())),
            "outcomes": dict(sorted(counters.outcomes.items())),
            "reading": self._waiting_records,
            "turns_in_windows": parts.recorder.turns_waiting,
            "windows_waiting": len(parts.inbox.entries()),
            "windows_refused": len(parts.inbox.refused()),
            "problem": self._problem,
        }


async def remove_own_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    """Take out the headers that the server adds to an answer of the model server, but for Date. RFC 9110, 6.6.1"""
    came: frozenset[str] | None = answer.get("from_upstream")
    for name in ("Server", "Content-Type") if came is not None else ():
        if came is not None and name.lower() not in came:
            answer.headers.popall(name, None)


async def _chained(first: bytes, content: aiohttp.StreamReader, exchange: Exchange | None) -> AsyncIterator[bytes]:
    """Yield what was read already, then the rest of a body while it arrives."""
    if first:
        yield first
    async for piece in content.iter_any():
        if exchange is not None:
            exchange.request.add(piece)
        yield piece


async def _next_piece(content: aiohttp.StreamReader) -> bytes | None:
    """Return what has arrived of a body; b"" at its end, None if it broke off."""
    try:
        return await content.readany()
    except (aiohttp.ClientError, OSError):
        return None


async def _read_up_to(content: aiohttp.StreamReader, most: int) -> tuple[bytes, bool]:
    """Return the beginning of a body, and True if that is all of it."""
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        piece = await content.readany()
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False


def _reason(failed: Exception) -> str:
    """Return what is wrong, without the headers or bodies that an error of aiohttp may quote."""
    if isinstance(failed, OSError) and failed.strerror:
        return failed.strerror
    return type(failed).__name__


class ProxySettings(NamedTuple):
    """The settings of a proxy, from the options of `mnemo proxy`."""

    upstream: Upstream
    namespace: str
    folder: Path  # of watermarks and inbox
    socket: Path  # of the daemon
    token: str  # of the control routes
    context_tokens: int = 0  # of the blocks that are put into requests; 0: none are


def run_proxy(settings: ProxySettings, bound: socket.socket, started: Callable[[], object]) -> None:
    """Serve on a bound socket until SIGINT or SIGTERM."""
    gc.freeze()  # the modules, which stay: the collector looks at what requests leave
    asyncio.run(_serve(settings, bound, started))


async def _serve(settings: ProxySettings, bound: socket.socket, started: Callable[[], object]) -> None:
    port = bound.getsockname()[1]
    counters, inbox = ProxyCounters(), HookInbox(settings.folder / "inbox")
    conversations = ConversationStore(settings.folder)
    recorder = ConversationRecorder(conversations, inbox, counters, settings.namespace)
    async with contextlib.AsyncExitStack() as stack:
        injector = None
        if settings.context_tokens:
            daemon = await stack.enter_async_context(loopback.unix_session(settings.socket))
            injector = ContextInjector(daemon, conversations, settings.namespace, settings.context_tokens)
        session = await stack.enter_async_context(upstream_session())
        parts = ProxyParts(
            settings.upstream, f"mnemo-{port}", session, recorder, inbox, settings.socket, counters, injector
        )
        proxy = ModelProxy(parts, loopback.accepts_token(settings.token))
        app = loopback.application(port)
        app.on_response_prepare.append(remove_own_headers)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        beside = asyncio.create_task(proxy.run())
        try:
            await loopback.serve(
                app, bound, started=started, handler_cancellation=True, auto_decompress=False,
                max_line_size=HEAD_BYTES_MAX, max_field_size=HEAD_BYTES_MAX, logger=_quiet,
            )  # fmt: skip
        finally:
            beside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beside
            await proxy.end()


def upstream_session() -> aiohttp.ClientSession:
    """A client session without limits, cookies or settings of the environment, which leaves bodies as they are."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        max_line_size=HEAD_BYTES_MAX,
        max_field_size=HEAD_BYTES_MAX,
    )
