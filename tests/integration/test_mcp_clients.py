"""The official client against the bridge and against the daemon's own socket, in both eras of the protocol. SPEC 13, 14

The client itself checks each result against the schema that the tool announced.
"""

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mnemo_client.http import SocketConnection
from mnemo_client.mcp.bridge import Bridge
from tests.support.mcp_messages import LINES, answered_ids, memory_ids, text
from tests.support.running_daemon import RunningDaemon

TOOLS = ["memory_resume", "memory_recall", "memory_ask", "memory_remember", "memory_step", "memory_list", "memory_get",
         "memory_update", "memory_delete", "memory_facts", "memory_triggers"]  # fmt: skip
ERAS = [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
SECRET = "AKIA" + "J3HD7QLPZ5XW2VBN"  # the shape of an access key, and nobody's
SECONDS_MAX = 120.0
T = TypeVar("T")
Clients = AsyncIterator[Client]


@contextlib.asynccontextmanager
async def over_the_bridge(daemon: RunningDaemon, namespace: str, mode: str = "auto", *more: str) -> Clients:
    words = ["-m", "mnemo_client.cli.main", "-n", namespace, "mcp", *more]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=daemon.environ)
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def over_the_socket(daemon: RunningDaemon, namespace: str, mode: str) -> Clients:
    transport = httpx2.AsyncHTTPTransport(uds=str(daemon.socket))
    headers = {"X-Namespace": namespace, "X-Mnemo-Door": "cli"}
    async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=SECONDS_MAX) as http_client:
        streams = streamable_http_client("http://localhost/mcp", http_client=http_client)
        async with Client(streams, mode=mode) as client:
            yield client


WAYS = {"bridge": over_the_bridge, "socket": over_the_socket}


@pytest.fixture
def namespace() -> str:
    return f"ns-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def newcomer(short_folder: Path) -> dict[str, str]:
    """The environment of a user whose daemon has never run."""
    places = {"MNEMO_DATA_DIR": "data", "MNEMO_CONFIG": "config.toml", "MNEMO_SOCKET": "run/d.sock",
              "MNEMO_MODELS_FOLDER": "models"}  # fmt: skip
    (short_folder / "config.toml").touch()
    return {**os.environ, **{name: str(short_folder / place) for name, place in places.items()}}


def finish(steps: Awaitable[T]) -> T:
    return asyncio.run(asyncio.wait_for(steps, SECONDS_MAX))


async def use_every_tool(client: Client, namespace: str) -> None:
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == TOOLS
    assert all(tool.annotations is not None and tool.annotations.open_world_hint is False for tool in listed)
    kept = await client.call_tool("memory_remember", {"content": "The key of the boat is with Ines.", "tags": ["key"]})
    (memory_id,) = memory_ids(text(kept))
    assert text(kept) == f"stored: {memory_id} in namespace {namespace}"

    async def said(tool: str, **arguments: Any) -> str:
        result = await client.call_tool(tool, arguments)
        assert (result.is_error, result.structured_content) == (False, None), text(result)
        return text(result)

    assert memory_ids(await said("memory_recall", query="who has the key of the boat", limit="3")) == [memory_id]
    assert "is with Ines" in await said("memory_context", query="the key of the boat")
    assert " · agent " in await said("memory_get", id=memory_id)
    assert "version 2, " in await said("memory_update", id=memory_id, content="Tom has the key of the boat.")
    assert (await said("memory_list", since="last week")).endswith("\n  Tom has the key of the boat.")
    assert "the key of the boat" in await said("memory_resume")
    assert "\n\ncited memories: 1, " in await said("memory_ask", question="Who has the key of the boat?")
    assert "Tom" in await said("memory_facts", entity="Tom")
    assert (await said("memory_search", query="boat")).startswith("1 of 1 memories")
    assert await said("memory_triggers", action="deploy") == "memories to read before deploy: 0"
    assert "topics" in await said("memory_topics")
    assert (await said("memory_step", run="key", step_number="1", action="asked Tom")).startswith("stored: ")
    assert (await said("memory_explain", id=memory_id, query="the key of the boat")).startswith("answered: ")
    assert (await said("memory_delete", id=memory_id, why="it sank")).startswith(f"moved to the trash: {memory_id}")
    assert " · trashed" in await said("memory_get", id=memory_id)
    assert memory_ids(await said("memory_restore", id=memory_id)) == [memory_id]
    assert f"; namespace {namespace}; " in await said("memory_status")
    wrong = await client.call_tool("memory_recall", {"query": "key", "limit": 1000})
    assert wrong.is_error
    assert text(wrong) == "memory_recall: `limit` must be a whole number from 1 to 50, not 1000"
    absent = await client.call_tool("memory_get", {"id": "00000000-0000-7000-8000-000000000000"})
    assert absent.is_error
    assert "there is no memory" in text(absent)
    with pytest.raises(MCPError, match="there is no tool 'memory_wipe'; there are memory_resume"):
        await client.call_tool("memory_wipe", {})


async def read_every_resource(client: Client, note: Path) -> None:
    assert [str(each.uri) for each in (await client.list_resources()).resources] == [
        "memory://profile", "memory://status",
    ]  # fmt: skip
    templates = (await client.list_resource_templates()).resource_templates
    assert [each.uri_template for each in templates] == ["memory://{id}", "note://{+path}"]

    async def read(uri: str) -> str:
        (content,) = (await client.read_resource(uri)).contents
        return str(content.text)  # type: ignore[union-attr]

    assert json.loads(await read("memory://profile"))["preferences"] == []
    assert " memories; namespace " in await read("memory://status")
    kept = await client.call_tool("memory_remember", {"content": "The dog is called Rex."})
    assert (await read(f"memory://{memory_ids(text(kept))[0]}")).endswith("\n  The dog is called Rex.")
    shown = await read(f"note://{note}")
    assert shown.startswith("# Garden\n\nPrune the apple trees in late February.\n\n# Garden › Gate\n\n")
    assert SECRET not in shown
    assert "(1 more passages are not shown to agents)" in shown
    for uri in ("note:///etc/passwd", f"note://{note.parent}/../{note.parent.name}/{note.name}", "note:///n/%00",
                f"note://{note.parent}", "memory://00000000-0000-7000-8000-000000000000"):  # fmt: skip
        with pytest.raises(MCPError, match=r"no watched folder has the note|there is no memory"):
            await read(uri)


async def choose_every_prompt(client: Client) -> None:
    assert [each.name for each in (await client.list_prompts()).prompts] == ["resume", "remember_session"]
    resumed = await client.get_prompt("resume", {"task": "the boat"})
    shown = str(resumed.messages[0].content.text)  # type: ignore[union-attr]
    assert shown.startswith("Let us continue this work: the boat.")
    assert "Rex" in shown
    assert SECRET not in shown
    remembered = await client.get_prompt("remember_session", {})
    assert "memory_remember" in remembered.messages[0].content.text  # type: ignore[union-attr]
    with pytest.raises(MCPError, match="the prompts are resume, remember_session"):
        await client.get_prompt("dance", {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("mode", "version"), ERAS)
def test_the_official_client_uses_every_tool_resource_and_prompt(
    daemon: RunningDaemon, namespace: str, tmp_path: Path, way: str, mode: str, version: str
) -> None:
    note = tmp_path.resolve() / "garden.md"
    note.write_text(
        "# Garden\n\nPrune the apple trees in late February.\n\n## Gate\n\nIt is painted green.\n\n"
        f"## Account\n\nThe access key of the camera is {SECRET}, of last year.\n"
    )

    async def steps() -> str:
        async with WAYS[way](daemon, namespace, mode) as client:
            await use_every_tool(client, namespace)
            await read_every_resource(client, note)
            await choose_every_prompt(client)
            return client.protocol_version or ""

    with daemon.client(entry_point="cli") as person:
        root = person.add_root(note.parent, namespace)
        person.rescan()
        assert finish(steps()) == version
        person.remove_root(id=root.id)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_memory_carries_the_name_that_the_client_gave_itself(
    daemon: RunningDaemon, namespace: str, way: str, mode: str
) -> None:
    async def steps() -> Any:
        async with WAYS[way](daemon, namespace, mode) as client:
            return await client.call_tool("memory_remember", {"content": "The ferry leaves at nine."})

    (memory_id,) = memory_ids(text(finish(steps())))
    with daemon.client(namespace, entry_point="cli") as person:
        memory = person.get(memory_id)
        (version,) = person.history(memory_id).versions
    assert (memory.agent_id, memory.trust, memory.source) == ("mcp", "agent", "mcp")  # the client's default name
    assert version.by == "mcp:mcp"


def post(daemon: RunningDaemon, message: Any, **headers: str) -> tuple[int, Any]:
    """Status and answer of one message, sent with these headers alone."""
    connection = SocketConnection(daemon.socket, SECONDS_MAX)
    try:
        sent = {name.replace("_", "-"): value.encode() for name, value in headers.items()}
        sent = {"Content-Type": b"application/json", "Accept": b"application/json", **sent}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        answer = connection.exchange("POST", "/mcp", sent, body)
        read = answer.read()
        return answer.status, json.loads(read) if read else None
    finally:
        connection.close()


def tool_call(name: str, **arguments: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("door", ["cli", "api", "hook", "no such door"])
def test_no_header_makes_more_of_an_agent(daemon: RunningDaemon, namespace: str, door: str) -> None:
    with daemon.client(namespace, entry_point="cli") as person:
        pinned = person.remember("Never deploy on a Friday.", pinned=True).memory
        secret = person.remember("The code of the safe is 9876.", tags=["sensitive"]).memory
        headers = {"X_Mnemo_Door": door, "X_Namespace": namespace}
        _, edited = post(daemon, tool_call("memory_update", id=pinned.id, content="Deploy on Fridays."), **headers)
        _, deleted = post(daemon, tool_call("memory_delete", id=pinned.id), **headers)
        for answer in (edited, deleted):
            assert answer["result"]["isError"] is True
            assert "pinned" in answer["result"]["content"][0]["text"]
        _, hidden = post(daemon, tool_call("memory_get", id=secret.id), **headers)
        assert "there is no memory" in hidden["result"]["content"][0]["text"]
        _, kept = post(daemon, tool_call("memory_remember", content=f"A key: {SECRET}."), **headers)
        said = kept["result"]["content"][0]["text"]
        assert "; masked: aws_key" in said
        assert person.get(memory_ids(said)[0]).trust == "agent"
        assert person.get(pinned.id) == pinned


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"Mcp_Session_Id": "agent.cGxhbm5lcg"}, "mcp:planner"),
        ({"Mcp_Session_Id": "agent.%%%"}, "mcp"),
        ({"Mcp_Session_Id": "agent.___"}, "mcp"),
        ({"Mcp_Session_Id": "01234567"}, "mcp"),
        ({"X_Mnemo_Agent": "editor"}, "mcp:editor"),
    ],
)
def test_the_name_of_an_agent_comes_from_its_session_or_from_nowhere(
    daemon: RunningDaemon, namespace: str, headers: dict[str, str], name: str
) -> None:
    _, kept = post(daemon, tool_call("memory_remember", content="A boat."), X_Namespace=namespace, **headers)
    with daemon.client(entry_point="cli") as person:
        (memory_id,) = memory_ids(kept["result"]["content"][0]["text"])
        assert person.history(memory_id).versions[0].by == name


def test_a_handshake_gets_the_name_of_the_agent_for_an_id_of_the_session(daemon: RunningDaemon) -> None:
    info = {"name": "the\nplanner", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    connection = SocketConnection(daemon.socket, SECONDS_MAX)
    headers = {"Content-Type": b"application/json", "Accept": b"application/json"}
    answer = connection.exchange("POST", "/mcp", headers, json.dumps(message).encode())
    result = json.loads(answer.read())["result"]
    connection.close()
    assert answer.headers["mcp-session-id"] == "agent.dGhlcGxhbm5lcg"
    assert result["protocolVersion"] == "2025-06-18"
    assert result["serverInfo"]["name"] == "mnemod"
    assert "Call memory_recall before" in result["instructions"]


def test_notifications_are_accepted_and_other_methods_of_http_are_not(daemon: RunningDaemon) -> None:
    assert post(daemon, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, None)
    for method in ("GET", "DELETE"):
        connection = SocketConnection(daemon.socket, SECONDS_MAX)
        assert connection.exchange(method, "/mcp", {"Accept": b"text/event-stream"}, None).status == 405
        connection.close()


def test_a_body_above_the_limit_is_refused_before_it_is_read(daemon: RunningDaemon) -> None:
    status, answer = post(daemon, b" " * (4 * 1024 * 1024 + 1))
    assert (status, answer["error"]["code"]) == (413, "too_large")


@given(st.lists(LINES, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def check_lines(daemon: RunningDaemon, lines: list[bytes]) -> None:
    out = io.BytesIO()
    bridge = Bridge(out, daemon.environ, Path("/"), "lines")
    for line in lines:
        bridge.handle_line(line)
    bridge.finish()
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert sorted(json.dumps(answer["id"]) for answer in answers) == answered_ids(lines)


def test_whatever_the_lines_are_a_real_daemon_answers_each_request_once(daemon: RunningDaemon) -> None:
    """The fixture sees to it that nothing of it is a fault in the daemon's log."""
    ping, pong = {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert post(daemon, ping) == (200, pong)  # the first request waits for the import of the protocol's package
    check_lines(daemon)
    assert post(daemon, ping) == (200, pong)


@pytest.mark.parametrize(
    "params",
    [
        '{"name": "memory_recall", "arguments": {"query": "\\ud800"}}',  # no text, though it is JSON
        '{"name": "memory_recall", "arguments": {"query": ' + "[" * 500 + "]" * 500 + "}}",
        '{"arguments": {}}',
        '{"name": 7}',
        '{"name": "memory_recall", "arguments": [1]}',
        '{"name": "memory_recall", "arguments": {"query": "x", "limit": 1e400}}',
        '{"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}',
        '{"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, "name": "memory_status"}',
        '{"_meta": {"io.modelcontextprotocol/protocolVersion": "x\\r\\nX-Namespace: y"}, "name": "\\u00e9"}',
    ],
)
def test_a_call_that_the_daemon_cannot_read_is_an_error_with_the_id_of_the_call(
    daemon: RunningDaemon, params: str
) -> None:
    out = io.BytesIO()
    bridge = Bridge(out, daemon.environ, Path("/"), "lines")
    bridge.handle_line(b'{"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": %s}' % params.encode())
    bridge.finish()
    answer = json.loads(out.getvalue())
    assert answer["id"] == "seven"
    assert "error" in answer or answer["result"]["isError"] is True


def test_a_note_is_read_from_its_own_namespace_alone(daemon: RunningDaemon, namespace: str, tmp_path: Path) -> None:
    note = tmp_path.resolve() / "garden.md"
    note.write_text("# Garden\n\nPrune the apple trees.\n")
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": f"note://{note}"}}
    with daemon.client(entry_point="cli") as person:
        root = person.add_root(note.parent, namespace)
        person.rescan()
        _, own = post(daemon, message, X_Namespace=namespace)
        assert "Prune" in own["result"]["contents"][0]["text"]
        for headers in ({}, {"X_Namespace": "another"}):
            _, other = post(daemon, message, **headers)
            assert other["error"] == {
                "code": -32602, "message": f"no watched folder has the note {note}", "data": {"uri": f"note://{note}"},
            }  # fmt: skip
        person.remove_root(id=root.id)
        _, gone = post(daemon, message, X_Namespace=namespace)
        assert "no watched folder has the note" in gone["error"]["message"]


def test_many_sessions_at_once_get_each_its_own_answers(daemon: RunningDaemon, namespace: str) -> None:
    async def session(number: int) -> str:
        async with over_the_bridge(daemon, f"{namespace}-{number}", "legacy" if number % 2 else "auto") as client:
            kept = await client.call_tool("memory_remember", {"content": f"The number of this boat is {number}."})
            assert not kept.is_error
            found = await client.call_tool("memory_recall", {"query": "the number of this boat"})
            return text(found).rpartition("\n")[2].strip()

    async def steps() -> list[str]:
        return await asyncio.gather(*map(session, range(6)))

    assert finish(steps()) == [f"The number of this boat is {number}." for number in range(6)]


def test_a_bridge_starts_the_daemon_and_finds_it_again_after_a_restart(newcomer: dict[str, str]) -> None:
    def ask(number: int, method: str, params: dict[str, Any]) -> Any:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        bridge.stdin.flush()
        answer = json.loads(bridge.stdout.readline())
        assert "result" in answer, answer
        return answer["result"]

    words = [sys.executable, "-m", "mnemo_client.cli.main"]
    bridge = subprocess.Popen(
        [*words, "mcp"], env=newcomer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        info = {"name": "planner", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        assert ask(1, "initialize", hello)["serverInfo"]["name"] == "mnemod"
        arguments = {"content": "The ferry leaves at nine."}
        kept = ask(2, "tools/call", {"name": "memory_remember", "arguments": arguments})["content"][0]["text"]
        for number in (3, 4):
            subprocess.run([*words, "down"], env=newcomer, check=True, capture_output=True)
            found = ask(number, "tools/call", {"name": "memory_get", "arguments": {"id": memory_ids(kept)[0]}})
            assert found["content"][0]["text"].endswith("\n  The ferry leaves at nine.")
        arguments = {"content": "The ferry leaves at ten."}
        ask(5, "tools/call", {"name": "memory_remember", "arguments": arguments})
        shown = subprocess.run([*words, "list", "--json"], env=newcomer, check=True, capture_output=True)
        assert {each["agent_id"] for each in json.loads(shown.stdout)["memories"]} == {"planner"}
    finally:
        bridge.communicate(timeout=SECONDS_MAX)
        subprocess.run([*words, "down"], env=newcomer, check=True, capture_output=True)
