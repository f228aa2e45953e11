"""Requests of one agent, run in process by the handlers of the daemon's routes. SPEC 2.1, 13

They are encoded and decoded as over HTTP, so that values, defaults, namespaces and access follow the same rules.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mnemo_client.protocol.operations import Operation
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import logged_fault, refusal_of
from mnemo_daemon.server.router import Request, RouteTable, decode_body, decode_query, name_store, namespace_of
from mnemo_store.records import DEFAULT_NAMESPACE

T = TypeVar("T")

_PATH_PART = lazy_pattern(r"\{\w+\}")

Scope = dict[str, Any]
AsgiApp = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class RouteClient:
    """A client of the route table on behalf of `agent`, None where it did not say its name.

    Every request that is made here has the peer, the rights, the entry point and the namespace of `request`, which came
    in. `problem` returns the reason why the store is degraded, "" when it is not.
    """

    def __init__(self, table: RouteTable, problem: Callable[[], str], request: Request, agent: str | None) -> None:
        self._table = table
        self._problem = problem
        self.request = replace(request, agent=agent)

    @property
    def agent(self) -> str | None:
        return self.request.agent

    @property
    def namespace(self) -> str:
        return self.request.namespace or DEFAULT_NAMESPACE

    async def ask(self, operation: Operation[..., T], request: msgspec.Struct, part: str = "") -> T:
        """Return the answer of an operation; `part` replaces the braces of its path. A namespace in the request
        replaces the client's own. Raises a Refusal, also for an unexpected error, which is then in the log."""
        path = _PATH_PART.sub(quote(part, safe=""), operation.path)
        route, parts = self._table.find(operation.method, path, self.request.grant)
        asked = decode_body(msgspec.json.encode(request) if operation.body is not None else b"", route)
        fields: dict[str, Any] = {} if operation.query is None else msgspec.to_builtins(request)
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in fields.items()}
        parameters = decode_query(urlencode(texts, doseq=True), route)
        namespace = namespace_of(None, asked, parameters) or self.request.namespace
        inner = replace(self.request, ask=asked, query=parameters, path=parts, namespace=namespace)
        try:
            reply = await route.handler(inner)
        except Exception as error:
            raise refusal_of(error) or logged_fault(error, f"{route.method} {route.path} for an agent") from error
        if self._problem():
            name_store(reply)
        value: T = (
            msgspec.json.decode(reply.value, type=operation.answer) if isinstance(reply.value, bytes) else reply.value
        )
        return value


ClientOf = Callable[[Request, str | None], RouteClient]
"""The client of a request, by the agent that the protocol names."""
