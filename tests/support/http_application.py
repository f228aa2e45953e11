"""A small application behind the real HTTP server, for tests of the server."""

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mnemo_client.protocol.ingestion import NewMemories
from mnemo_client.protocol.memories import READ_ONLY, NewMemory
from mnemo_client.protocol.operations import BULK_BYTES_MAX, Operation
from mnemo_client.protocol.primitives import Limit, NoFields, RequestBody
from mnemo_daemon.server.http_server import HttpServer
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.server.sockets import bind
from mnemo_store.errors import DiskFull, QueueFull

T = TypeVar("T")
Answer = tuple[int, dict[str, Any]]


class Echo(msgspec.Struct):
    content: str
    tags: list[str] = []
    namespace: str | None = None
    entry_point: str = ""
    agent: str | None = None
    uid: int = -1


class Page(RequestBody):
    limit: Limit = 50
    tags: list[str] = msgspec.field(default_factory=list)
    confirm: bool = False
    since: int | None = None
    namespace: str | None = None


class Application:
    """Handlers that do as little as can be seen from outside."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.shown: list[str] = []
        self.begun = threading.Event()
        self.finished = threading.Event()
        self.cancelled = threading.Event()

    async def remember(self, request: Request) -> Reply:
        self.written.append(request.ask.content)
        return Reply(
            Echo(
                content=request.ask.content,
                tags=request.ask.tags,
                namespace=request.namespace,
                entry_point=request.entry_point,
                agent=request.agent,
                uid=request.peer.uid,
            ),
            201,
        )

    async def count(self, request: Request) -> Reply:
        return Reply(Echo(content=str(len(request.ask.memories))))

    async def show(self, request: Request) -> Reply:
        self.shown.append(request.path.get("id", ""))
        return Reply({"id": request.path["id"], **msgspec.to_builtins(request.query)})

    async def slow(self, request: Request) -> Reply:
        self.begun.set()
        try:
            await asyncio.sleep(0.3)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.finished.set()
        return Reply(Echo(content="at last"))

    async def endless(self, request: Request) -> Reply:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError("nobody sets it")

    async def large(self, request: Request) -> Reply:
        return Reply(Echo(content="a" * (8 << 20)))

    async def fail(self, request: Request) -> Reply:
        raise RuntimeError("a secret detail")

    async def lose_a_child(self, request: Request) -> Reply:
        raise BrokenPipeError("a worker died")

    async def busy(self, request: Request) -> Reply:
        raise QueueFull("300 writes are waiting")

    async def full(self, request: Request) -> Reply:
        raise DiskFull

    async def export(self, request: Request) -> Reply:
        return Reply(_lines(3, None))

    async def break_off(self, request: Request) -> Reply:
        return Reply(_lines(3, RuntimeError("in the middle")))

    def routes(self) -> list[Route]:
        return [
            Route(Operation("POST", "/v1/memories", "Remember", Echo, NewMemory, read_only=READ_ONLY), self.remember),
            Route(Operation("GET", "/v1/memories", "List", Echo, Page), self.show),
            Route(
                Operation("POST", "/v1/memories/batch", "Many", Echo, NewMemories, body_max=BULK_BYTES_MAX), self.count
            ),
            Route(Operation("GET", "/v1/memories/{id}", "One", Echo, Page), self.show),
            Route(Operation("POST", "/v1/memories/{id}/restore", "Restore", Echo, NoFields), self.show),
            Route(Operation("POST", "/v1/slow", "Slow", Echo, NoFields), self.slow),
            Route(Operation("POST", "/v1/endless", "Endless", Echo, NoFields), self.endless),
            Route(Operation("GET", "/v1/large", "Large", Echo, NoFields), self.large),
            Route(Operation("GET", "/v1/fail", "Fail", Echo, NoFields), self.fail),
            Route(Operation("GET", "/v1/lost", "Lost", Echo, NoFields), self.lose_a_child),
            Route(Operation("GET", "/v1/busy", "Busy", Echo, NoFields), self.busy),
            Route(Operation("GET", "/v1/full", "Full", Echo, NoFields), self.full),
            Route(
                Operation("GET", "/v1/export", "Export", bytes, NoFields, content_type="application/x-ndjson"),
                self.export,
            ),
            Route(
                Operation("GET", "/v1/break", "Break", bytes, NoFields, content_type="application/x-ndjson"),
                self.break_off,
            ),
        ]


async def _lines(count: int, then: Exception | None) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d\n" % number
    if then is not None:
        raise then


class RunningServer:
    """The server on a thread and a loop of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.application = Application()
        self.process = 0  # for `credentials` that read it
        self.path = folder / "mnemo.sock"
        self._listener = bind(self.path)
        self._options = options
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        assert self._is_up.wait(10)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = server = HttpServer(self.application.routes(), **self._options)
        await server.start(self._listener.socket)
        self._is_up.set()
        await self._stop.wait()
        await server.drain()
        self._listener.close()

    def stop(self) -> float:
        """Drained; returns how many seconds that took."""
        began = time.monotonic()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        return time.monotonic() - began

    def on_loop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function on the server's loop; return what it returns."""
        called: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: called.set_result(function(*arguments)))
        return called.result(10)

    def connections(self) -> int:
        return len(self.server.http.connections)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(10)
        client.connect(str(self.path))
        return client

    def ask(self, method: str, target: str, body: bytes | None = None, headers: Any = None) -> Answer:
        with contextlib.closing(http.client.HTTPConnection("localhost")) as connection:
            connection.sock = self.connect()
            connection.request(method, target, body, headers or {})
            response = connection.getresponse()
            return response.status, msgspec.json.decode(response.read())

    def send(self, data: bytes) -> bytes:
        """The answer to these bytes until the daemon hangs up, or half a second of silence."""
        with self.connect() as client:
            with contextlib.suppress(BrokenPipeError):
                client.sendall(data)
            return received(client)


def received(client: socket.socket, seconds: float = 0.5) -> bytes:
    client.settimeout(seconds)
    pieces = []
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def until(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def parsed(answer: bytes) -> Answer:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), msgspec.json.decode(body)
