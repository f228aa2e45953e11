"""The bridge from an agent's standard input and output to POST /mcp of a daemon with prepared answers. SPEC 14.

Whatever the daemon does, each request gets one line for an answer.
"""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_client.mcp.bridge import LINE_BYTES_MAX, MESSAGES_OPEN_MAX, Bridge
from tests.support.mcp_messages import LINES, VERSION, answered_ids
from tests.support.stub_daemon import StubAnswer, StubDaemon, StubRequest

META = {
    VERSION: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "stateless agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
RECALL = {"name": "memory_recall", "arguments": {"query": "x"}}

Message = dict[str, Any]


class McpAgent:
    """An agent that started the bridge and speaks raw lines to it."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mnemo_client.cli.main", "mcp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, cwd=folder,
        )  # fmt: skip
        self.number = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> Message:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n")
        message: Message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, params: Message | None = None, *, modern: bool = False) -> Message:
        """The whole answer to one request."""
        self.number += 1
        given = {**(params or {}), **({"_meta": META} if modern else {})}
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": given}).encode())
        answer = self.read()
        assert answer["id"] == self.number
        return answer

    def end(self) -> int:
        """Standard input ends; the exit code."""
        self.process.communicate(timeout=15)
        return self.process.returncode


@pytest.fixture
def environ(stub_daemon: StubDaemon, short_folder: Path) -> dict[str, str]:
    return {**os.environ, "MNEMO_SOCKET": str(stub_daemon.path), "MNEMO_DATA_DIR": str(short_folder / "data"),
            "MNEMO_AUTOSTART": "0"}  # fmt: skip


@pytest.fixture
def agent(environ: dict[str, str], tmp_path: Path) -> Iterator[McpAgent]:
    agent = McpAgent(environ, tmp_path)
    yield agent
    if agent.process.poll() is None:
        agent.process.kill()
    agent.process.communicate()


def answered(asked: StubRequest, result: Message | None = None) -> Message:
    """The answer of a daemon: the result, or what it was asked."""
    whole = {"method": asked.body["method"], "params": asked.body.get("params")} if result is None else result
    return {"jsonrpc": "2.0", "id": asked.body.get("id"), "result": whole}


def as_the_daemon(asked: StubRequest) -> Any:
    if "id" not in asked.body:
        return StubAnswer(b"", 202)
    if asked.body["method"] == "initialize":
        result = {"protocolVersion": asked.body["params"]["protocolVersion"]}
        return StubAnswer(answered(asked, result), headers={"Mcp-Session-Id": "agent.x"})
    return answered(asked)


@pytest.fixture(autouse=True)
def mcp(stub_daemon: StubDaemon) -> None:
    stub_daemon.answers["POST /mcp"] = as_the_daemon


def ping(id: Any = 1) -> bytes:  # noqa: A002 - JSON-RPC's own name
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "ping"}).encode()


# What is passed on


def test_a_handshake_settles_the_headers_of_what_follows(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    assert agent.ask("initialize", HELLO)["result"]["protocolVersion"] == "2025-06-18"
    agent.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert agent.ask("tools/list")["result"]["method"] == "tools/list"
    first, *_, last = stub_daemon.asked
    assert (first.headers["content-type"], first.headers["accept"]) == (
        "application/json", "application/json, text/event-stream",
    )  # fmt: skip
    assert "mcp-protocol-version" not in first.headers
    assert (last.headers["mcp-protocol-version"], last.headers["mcp-session-id"]) == ("2025-06-18", "agent.x")
    assert "mcp-method" not in last.headers


def test_lines_that_do_not_wait_for_the_handshake_have_what_it_settles_all_the_same(
    agent: McpAgent, stub_daemon: StubDaemon
) -> None:
    hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}).encode()
    out, _ = agent.process.communicate(hello + b"\n" + ping(), timeout=60)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [0, 1]
    assert stub_daemon.asked[1].headers["mcp-session-id"] == "agent.x"


def test_a_stateless_request_repeats_its_version_method_and_name_in_headers(
    agent: McpAgent, stub_daemon: StubDaemon
) -> None:
    agent.ask("initialize", HELLO)
    agent.ask("tools/call", RECALL, modern=True)
    agent.ask("resources/read", {"uri": "note:///n/café.md"}, modern=True)
    agent.ask("tools/list", modern=True)
    tool, resource, listed = (asked.headers for asked in stub_daemon.asked[1:])
    assert (tool["mcp-protocol-version"], tool["mcp-method"], tool["mcp-name"]) == (
        "2026-07-28", "tools/call", "memory_recall",
    )  # fmt: skip
    assert resource["mcp-name"] == "=?base64?bm90ZTovLy9uL2NhZsOpLm1k?="
    assert "mcp-name" not in listed
    assert "mcp-session-id" not in tool


def test_notifications_are_passed_on_and_not_answered(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    agent.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
    assert agent.ask("ping")["result"]["method"] == "ping"
    assert agent.end() == 0
    assert sorted(asked.body["method"] for asked in stub_daemon.asked) == ["notifications/cancelled", "ping"]


def test_the_folder_it_works_in_chooses_the_namespace(
    environ: dict[str, str], stub_daemon: StubDaemon, tmp_path: Path
) -> None:
    (tmp_path / ".mnemo.toml").write_text('namespace = "bücher"\n')
    agent = McpAgent(environ, tmp_path)
    agent.ask("ping")
    assert stub_daemon.asked[0].headers["x-namespace"] == "bücher"
    (tmp_path / ".mnemo.toml").write_text("namespace = [\n")
    assert ".mnemo.toml cannot be read" in agent.ask("ping")["error"]["message"]
    (tmp_path / ".mnemo.toml").write_text('namespace = "apollo"\n')
    agent.ask("ping")
    assert stub_daemon.asked[1].headers["x-namespace"] == "apollo"
    assert agent.end() == 0


def test_an_answer_over_several_lines_becomes_one(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    stub_daemon.answers["POST /mcp"] = StubAnswer(b'{"jsonrpc": "2.0",\r\n "id": 1,\n "result": {}}\n', chunked=True)
    assert agent.ask("ping")["result"] == {}


# Several at once


def test_a_slow_request_holds_up_no_other(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    may_end = threading.Event()

    def slowly(asked: StubRequest) -> Any:
        if asked.body["id"] == "slow":
            may_end.wait(60)
        return answered(asked)

    stub_daemon.answers["POST /mcp"] = slowly
    agent.write(json.dumps({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": RECALL}).encode())
    assert "result" in agent.ask("ping")
    assert "result" in agent.ask("tools/list")
    may_end.set()
    assert agent.read()["id"] == "slow"


def test_more_requests_than_can_be_open_are_refused_each_with_its_id(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    may_end = threading.Event()

    def slowly(asked: StubRequest) -> Any:
        may_end.wait(60)
        return answered(asked)

    stub_daemon.answers["POST /mcp"] = slowly
    for number in range(MESSAGES_OPEN_MAX + 2):
        agent.write(ping(number))
    refused = [agent.read() for _ in range(2)]
    assert {each["id"] for each in refused} == {MESSAGES_OPEN_MAX, MESSAGES_OPEN_MAX + 1}
    assert all("too many requests are open" in each["error"]["message"] for each in refused)
    may_end.set()
    assert {agent.read()["id"] for _ in range(MESSAGES_OPEN_MAX)} == {*range(MESSAGES_OPEN_MAX)}


def test_requests_that_were_made_before_the_end_are_still_answered(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    out, err = agent.process.communicate(b"\n".join(ping(number) for number in range(5)), timeout=60)
    assert {json.loads(line)["id"] for line in out.splitlines()} == {*range(5)}
    assert (agent.process.returncode, err) == (0, b"")


def test_the_end_of_input_ends_the_bridge_quietly(agent: McpAgent) -> None:
    agent.ask("initialize", HELLO)
    out, err = agent.process.communicate(timeout=60)
    assert (out, err, agent.process.returncode) == (b"", b"", 0)


# A daemon that is down, slow or something else


def test_without_a_daemon_a_request_says_why_not_and_with_one_the_next_is_answered(
    agent: McpAgent, stub_daemon: StubDaemon
) -> None:
    stub_daemon.stop()
    error = agent.ask("initialize", HELLO)["error"]
    assert error["code"] == -32603
    assert "no daemon listens" in error["message"]
    stub_daemon.start()
    assert "result" in agent.ask("tools/call", RECALL)
    stub_daemon.stop()
    stub_daemon.start()  # restarted between two calls
    assert "result" in agent.ask("tools/call", RECALL)


def test_a_connection_that_ends_before_the_answer_is_an_error_and_what_only_reads_is_sent_again(
    agent: McpAgent, stub_daemon: StubDaemon
) -> None:
    ended = []

    def end_the_first(asked: StubRequest) -> Any:
        ended.append(asked.body["method"])
        return answered(asked) if ended.count(asked.body["method"]) > 1 else StubAnswer(hang_up=True)

    stub_daemon.answers["POST /mcp"] = end_the_first
    assert "may or may not have been carried out" in agent.ask("tools/call", RECALL)["error"]["message"]
    assert "result" in agent.ask("tools/list")
    assert ended == ["tools/call", "tools/list", "tools/list"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (StubAnswer({"error": {"code": "stopping", "message": "the daemon is shutting down"}}, 503), "shutting down"),
        (StubAnswer(b"<html>", 500), "HTTP status 500"),
        (StubAnswer(b"[" * 50_000), "HTTP status 200"),
        (StubAnswer(b"{}"), "HTTP status 200"),
        (StubAnswer(b'{"jsonrpc": "2.0", "id": 1, "result": {}}', hang_up=9), "the connection ended"),
    ],
)
def test_an_answer_that_is_none_of_the_protocol_is_an_error_of_the_request(
    agent: McpAgent, stub_daemon: StubDaemon, answer: StubAnswer, said: str
) -> None:
    stub_daemon.answers["POST /mcp"] = answer
    error = agent.ask("tools/call", RECALL)["error"]
    assert error["code"] == -32603
    assert said in error["message"]


def test_an_error_that_lost_the_id_of_its_request_gets_it_back(agent: McpAgent, stub_daemon: StubDaemon) -> None:
    lost = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
    stub_daemon.answers["POST /mcp"] = StubAnswer(lost, 400)
    assert agent.ask("tools/list")["error"] == {"code": -32700, "message": "Parse error"}


def test_a_daemon_that_stays_silent_is_an_error_after_a_while(
    environ: dict[str, str], stub_daemon: StubDaemon, tmp_path: Path
) -> None:
    may_end = threading.Event()

    def never(asked: StubRequest) -> Any:
        may_end.wait(60)
        return answered(asked)

    stub_daemon.answers["POST /mcp"] = never
    out = io.BytesIO()
    bridge = Bridge(out, environ, tmp_path, None, seconds=0.05)
    bridge.handle_line(ping(3))
    bridge.finish()
    may_end.set()
    answer = json.loads(out.getvalue())
    assert answer["id"] == 3
    assert "did not answer within 0.05 seconds" in answer["error"]["message"]


# Lines that make no sense


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{broken", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","n":NaN}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'"hello"', -32600),
        (b"null", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{'
         b'"io.modelcontextprotocol/protocolVersion":[]}}}', -32602),
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_an_error_and_the_next_is_heard(agent: McpAgent, line: bytes, code: int) -> None:
    agent.write(line)
    assert agent.read()["error"]["code"] == code
    assert "result" in agent.ask("ping")


def test_a_line_beyond_the_limit_is_refused_whole(agent: McpAgent) -> None:
    agent.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * LINE_BYTES_MAX + b'"}')
    assert agent.read()["error"]["code"] == -32600
    assert "result" in agent.ask("ping")


def test_empty_lines_and_unrequested_answers_are_ignored(agent: McpAgent) -> None:
    agent.write(b"")
    agent.write(b'{"jsonrpc":"2.0","id":3,"result":{}}')
    agent.write(b'{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}}')
    assert "result" in agent.ask("ping")


@given(st.lists(LINES, max_size=6))
@settings(max_examples=100, deadline=None)
def test_whatever_the_lines_are_each_request_gets_one_answer_and_every_line_written_is_json(lines: list[bytes]) -> None:
    out = io.BytesIO()
    bridge = Bridge(out, {"MNEMO_SOCKET": "/nowhere/mnemo.sock", "MNEMO_AUTOSTART": "0"}, Path("/"), None)
    for line in lines:
        bridge.handle_line(line)
    bridge.finish()
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all(answer["jsonrpc"] == "2.0" and "error" in answer for answer in answers)
    assert sorted(json.dumps(answer["id"]) for answer in answers) == answered_ids(lines)
