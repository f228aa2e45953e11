"""A server whose routes are another memory's, each answered by calls of our client. SPEC 20"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from mnemo_client import loopback
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError, NotFoundError, RefusalError, UnreachableError, UsageError
from mnemo_client.protocol.operations import BULK_BYTES_MAX
from mnemo_client.protocol.primitives import LIMIT_MAX

THREADS = 8


class RouteRequest(NamedTuple):
    """A request of a client. `body` is the JSON that came, an empty object where none did."""

    client: Client
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    def values(self, name: str) -> list[str]:
        """Return the value of a name in the query string, in a list that is empty without it."""
        return [self.query[name]] if name in self.query else []

    def number(self, name: str, default: int) -> int:
        """Return a number of the query string."""
        return int(self.query.get(name, default))

    def fields(self, *known: str) -> dict[str, Any]:
        """Return the body's fields. Raises UsageError if it is no object or has one that is not known."""
        if not isinstance(self.body, dict):
            raise UsageError("the body must be a JSON object")
        if unknown := sorted(set(self.body) - set(known)):
            raise UsageError(f"mnemo does not know the fields {', '.join(unknown)}; known are {', '.join(known)}")
        return self.body


class ServedRoute(NamedTuple):
    """A route: its handler returns the JSON of the answer, or that with a status. By the person who started the
    server: its client speaks for no agent."""

    method: str
    path: str
    handler: Callable[[RouteRequest], Any]
    by_person: bool = False


class AnswerWithStatus(NamedTuple):
    """The JSON of an answer with a status that is not 200, or a plain text."""

    status: int
    value: Any


class CompatibleServer:
    """The application of a server. error_field: the name of the message in its errors. agent: for whom it speaks."""

    def __init__(
        self, port: int, token: str, socket_path: Path, namespace: str | None, routes: Sequence[ServedRoute],
        error_field: str, agent: str,
    ) -> None:  # fmt: skip
        self._agent = agent
        self._socket_path = socket_path
        self._namespace = namespace
        self._error_field = error_field
        self._threads = ThreadPoolExecutor(THREADS, "mnemo-serve")
        self._local = threading.local()
        self.app = loopback.application(
            port, loopback.accepts_token(token), body_max=BULK_BYTES_MAX,
            refuse=lambda status, _, message: self._error(status, message),
        )  # fmt: skip
        for route in routes:
            self.app.router.add_route(route.method, route.path, self._handler_of(route))
        self.app.router.add_route("*", "/{rest:.*}", self._unknown)

    def _handler_of(self, route: ServedRoute) -> loopback.Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            data = await request.read()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._answer, route, request, data)

        return handle

    async def _unknown(self, request: web.Request) -> web.Response:
        return self._error(404, f"mnemo does not serve {request.method} {request.path}")

    def _answer(self, route: ServedRoute, request: web.Request, data: bytes) -> web.Response:
        """Return the answer of a route; it runs in a thread, which has a client of its own."""
        try:
            body = json.loads(data) if data.strip() else {}
        except (ValueError, RecursionError):
            return self._error(400, "the body is not JSON")
        namespace = request.query.get("ns") or request.headers.get("X-Namespace") or self._namespace
        client: Client | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = Client(self._socket_path)
        client.namespace, client.agent = namespace, self._agent
        if route.by_person:
            client.agent = None
        try:
            value = route.handler(RouteRequest(client, request.match_info, request.query, body))
        except RefusalError as refused:
            return self._error(refused.status, refused.message)
        except UnreachableError as gone:
            return self._error(503, f"{gone.message}; {gone.hint}")
        except NotFoundError as missing:
            return self._error(404, missing.message)
        except (UsageError, msgspec.ValidationError, TypeError, ValueError, KeyError) as wrong:
            return self._error(400, f"missing: {wrong}" if isinstance(wrong, KeyError) else str(wrong))
        except MnemoError as failed:
            return self._error(502, failed.message)
        status = 200
        if isinstance(value, AnswerWithStatus):
            status, value = value
        if isinstance(value, str):
            return web.Response(text=value, status=status)
        return web.json_response(value, status=status)

    def _error(self, status: int, message: str) -> web.Response:
        return web.json_response({self._error_field: message}, status=status)


def rows_of(ask: Callable[..., Any], name: str, **query: Any) -> Iterator[Any]:
    """Yield the rows of this name of all pages of an operation."""
    cursor = None
    while True:
        page = ask(limit=LIMIT_MAX, cursor=cursor, **query)
        yield from getattr(page, name)
        if (cursor := page.cursor) is None:
            return


def iso_time(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
