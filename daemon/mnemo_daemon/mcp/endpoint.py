"""POST /mcp: the route that hands requests of agents over to the official SDK, which its first request loads. SPEC 13

The SDK takes a second and 40 MB to import. It is therefore imported by the first request, on a thread, while other
requests are answered. Requests of this route have the entry point `mcp`, and so at most the trust of an agent.

The handshake of the older protocol names the agent once, and no session is kept: the id of the session is the name
itself, encoded, which the client sends along from then on.
"""

import asyncio
import base64
import binascii
import gc
import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from mnemo_client.protocol.operations import MCP
from mnemo_daemon.mcp.resources import NoteReader
from mnemo_daemon.mcp.route_client import AsgiApp, ClientOf, RouteClient
from mnemo_daemon.server.router import AGENT_CHARS_MAX, Reply, Request, Route, RouteTable

SESSION_HEADER = "Mcp-Session-Id"
SESSION_PREFIX = "agent."
INTERNAL_ERROR = -32603  # JSON-RPC 2.0
INSTALL = "pip install 'mnemod[mcp]'"

AppMaker = Callable[[ClientOf, NoteReader], AbstractAsyncContextManager[AsgiApp]]


class _ClientInfo(msgspec.Struct):
    name: str = ""


class _Params(msgspec.Struct, rename="camel"):
    client_info: _ClientInfo | None = None


class _Message(msgspec.Struct):
    """The parts of a JSON-RPC message that matter here."""

    id: str | int | None = None
    method: str = ""
    params: _Params | None = None


class McpEndpoint:
    """The handler of the route. `close` ends the SDK's task."""

    def __init__(
        self, table: RouteTable, problem: Callable[[], str], read_note: NoteReader,
        load: Callable[[], AppMaker] | None = None,
    ) -> None:  # fmt: skip
        """`load` imports the SDK, or raises ImportError."""
        self._table = table
        self._problem = problem
        self._read_note = read_note
        self._load = load or load_sdk
        self._starting = asyncio.Lock()
        self._app: AsgiApp | None = None
        self._task: asyncio.Task[None] | None = None

    def route(self) -> Route:
        return Route(MCP, self.answer, forwards=True, entry_point="mcp")

    def close(self) -> None:
        """End the task of the SDK; its requests have been answered."""
        if self._task is not None:
            self._task.cancel()

    async def answer(self, request: Request) -> Reply:
        try:
            async with self._starting:
                if self._app is None:
                    make = await asyncio.to_thread(self._load)
                    ready: asyncio.Future[AsgiApp] = asyncio.get_running_loop().create_future()
                    self._task = asyncio.create_task(self._serve(make, ready), name="mcp")
                    self._app = await ready
            app = self._app
        except ImportError as missing:
            return _missing_sdk(request.ask, missing)
        reply = await _run(app, request)
        if agent := _introduced(request.ask):
            session = SESSION_PREFIX + base64.urlsafe_b64encode(agent.encode()).decode().rstrip("=")
            reply = reply._replace(headers={**(reply.headers or {}), SESSION_HEADER: session})
        return reply

    async def _serve(self, make: AppMaker, ready: "asyncio.Future[AsgiApp]") -> None:
        """Keep the application running until cancelled: one task must both enter and leave it."""
        try:
            async with make(self._client, self._read_note) as app:
                ready.set_result(app)
                await asyncio.Event().wait()
        except BaseException as failed:
            if not ready.done():
                ready.set_exception(failed)
            raise

    def _client(self, request: Request, agent: str | None) -> RouteClient:
        """Return the client of a request; `agent` is unknown to a message of a session."""
        name = printable_name(agent) or _agent_of(request.headers) or request.agent
        return RouteClient(self._table, self._problem, request, name)


def load_sdk() -> AppMaker:
    """Import the SDK and what is built on it. Raises ImportError if it is missing or another version."""
    importlib.invalidate_caches()
    from mnemo_daemon.mcp.sdk_server import running_app

    gc.freeze()  # excludes thousands of classes from garbage collection
    return running_app


async def _run(app: AsgiApp, request: Request) -> Reply:
    """Run one request through an ASGI application."""
    status, headers, pieces = 500, dict[str, str](), list[bytes]()
    unread = [{"type": "http.request", "body": request.ask, "more_body": False}]

    async def receive() -> Any:
        if unread:
            return unread.pop()
        return await asyncio.Event().wait()  # a request that was begun is finished, whether its client stays or not

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.update((name.decode("latin-1").title(), value.decode("latin-1"))
                           for name, value in message.get("headers", ()))  # fmt: skip
        else:
            pieces.append(message.get("body", b""))

    raw = [(name.lower().encode(), value.encode("utf-8", "surrogateescape")) for name, value in request.headers.items()]
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": MCP.path, "raw_path": MCP.path.encode(), "root_path": "", "query_string": b"",
        "headers": raw, "client": None, "server": None, "mnemo.request": request,
    }  # fmt: skip
    await app(scope, receive, send)
    headers.pop("Content-Length", None)
    return Reply(b"".join(pieces), status, headers)


def _missing_sdk(body: bytes, missing: ImportError) -> Reply:
    """The answer of a daemon without the SDK: an error of JSON-RPC that names the command to install it."""
    message = f"this daemon cannot serve agents, because the extra `mcp` is not installed ({missing}); run: {INSTALL}"
    error = {"code": INTERNAL_ERROR, "message": message}
    return Reply(msgspec.json.encode({"jsonrpc": "2.0", "id": _message(body).id, "error": error}))


def _introduced(body: bytes) -> str | None:
    """Return the agent's name if the message is a handshake that names it."""
    if b'"initialize"' not in body:
        return None
    message = _message(body)
    is_named = message.method == "initialize" and message.params is not None and message.params.client_info is not None
    return printable_name(message.params.client_info.name) if is_named else None  # type: ignore[union-attr]


def _message(body: bytes) -> _Message:
    try:
        return msgspec.json.decode(body, type=_Message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Message()


def printable_name(name: str | None) -> str | None:
    """Return an agent's name as one line of printable text, None if nothing is left of it."""
    return "".join(filter(str.isprintable, name or "")).strip()[:AGENT_CHARS_MAX] or None


def _agent_of(headers: Mapping[str, str]) -> str | None:
    """Return the agent's name from the id of its session, None without a readable one."""
    encoded = headers.get(SESSION_HEADER, "")
    if not encoded.startswith(SESSION_PREFIX):
        return None
    encoded = encoded.removeprefix(SESSION_PREFIX)
    try:
        return printable_name(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    except (binascii.Error, ValueError):
        return None
