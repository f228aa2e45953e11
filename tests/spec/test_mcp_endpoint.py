"""POST /mcp without the SDK and with it: only the first request imports it, and its absence is an answer. SPEC 13"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from mnemo_daemon.mcp.endpoint import AppMaker, McpEndpoint
from mnemo_daemon.mcp.resources import NotePassages
from mnemo_daemon.server.admission.access_table import OWNER_GRANT
from mnemo_daemon.server.router import Reply, Request, RouteTable
from mnemo_daemon.server.sockets import Peer

CALL = b'{"jsonrpc":"2.0","id":"seven","method":"tools/list"}'


class FakeSdk:
    """An SDK that can be missing; `imports` counts how often it was asked for."""

    def __init__(self) -> None:
        self.missing: ImportError | None = None
        self.imports = 0
        self.running = False
        self.scopes: list[Any] = []

    def load(self) -> AppMaker:
        self.imports += 1
        if self.missing is not None:
            raise self.missing
        return self.app

    @contextlib.asynccontextmanager
    async def app(self, *unused: Any) -> AsyncIterator[Any]:
        self.running = True
        try:
            yield self._answer
        finally:
            self.running = False

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        asked = await receive()
        await send(
            {"type": "http.response.start", "status": 202, "headers": [(b"x-more", b"1"), (b"content-length", b"9")]}
        )
        await send({"type": "http.response.body", "body": asked["body"][:5], "more_body": True})
        await send({"type": "http.response.body", "body": asked["body"][5:]})


async def no_note(request: Request, path: str) -> NotePassages:
    return NotePassages([], 0)


def ask(body: bytes = CALL, headers: Mapping[str, str] = MappingProxyType({})) -> Request:
    return Request(
        ask=body, query=None, path={}, entry_point="mcp", peer=Peer(uid=0), grant=OWNER_GRANT, headers=headers
    )


def with_endpoint(sdk: FakeSdk, steps: Callable[[McpEndpoint], Any]) -> Any:
    async def run() -> Any:
        endpoint = McpEndpoint(RouteTable(()), lambda: "", no_note, sdk.load)
        try:
            return await steps(endpoint)
        finally:
            endpoint.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    return asyncio.run(run())


def test_the_sdk_is_imported_once_however_many_requests_come_first() -> None:
    sdk = FakeSdk()
    replies = with_endpoint(sdk, lambda endpoint: asyncio.gather(*(endpoint.answer(ask()) for _ in range(5))))
    assert replies == [Reply(CALL, 202, {"X-More": "1"})] * 5
    assert (sdk.imports, sdk.running) == (1, False)


def test_without_the_sdk_the_answer_names_the_command_and_an_sdk_that_came_meanwhile_is_used() -> None:
    sdk = FakeSdk()
    sdk.missing = ModuleNotFoundError("No module named 'mcp'")

    async def steps(endpoint: McpEndpoint) -> list[Reply]:
        replies = [await endpoint.answer(ask()), await endpoint.answer(ask(b"no JSON"))]
        sdk.missing = None
        return [*replies, await endpoint.answer(ask())]

    missing, broken, found = with_endpoint(sdk, steps)
    answer = msgspec.json.decode(missing.value)
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", "seven", -32603)
    assert "No module named 'mcp'" in answer["error"]["message"]
    assert answer["error"]["message"].endswith("run: pip install 'mnemod[mcp]'")
    assert msgspec.json.decode(broken.value)["id"] is None
    assert found.status == 202


def test_the_headers_reach_the_sdk_in_small_letters_and_with_every_byte() -> None:
    sdk = FakeSdk()
    with_endpoint(
        sdk, lambda endpoint: endpoint.answer(ask(headers={"X-Namespace": "b\udcffo", "Accept": "application/json"}))
    )
    assert sdk.scopes[0]["headers"] == [(b"x-namespace", b"b\xffo"), (b"accept", b"application/json")]


def test_a_handshake_that_names_its_agent_gets_a_session_and_no_other_message_does() -> None:
    def handshake(info: str) -> bytes:
        return b'{"id":1,"method":"initialize","params":{"clientInfo":%s}}' % info.encode()

    bodies = [handshake('{"name":"x"}'), handshake('{"name":"\\n"}'), handshake("null"), handshake("[]"), CALL,
              b'{"id":1,"method":"tools/call","params":{"name":"initialize"}}', b'"initialize"']  # fmt: skip
    sdk = FakeSdk()
    replies = with_endpoint(sdk, lambda endpoint: asyncio.gather(*(endpoint.answer(ask(body)) for body in bodies)))
    assert [reply.headers.get("Mcp-Session-Id") for reply in replies] == ["agent.eA", *[None] * 6]
