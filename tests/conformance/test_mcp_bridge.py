"""The bridge speaks MCP in both eras, over the real command's standard input and output. SPEC 14."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from mnemo_client.mcp.bridge import HANDSHAKE, LINE_BYTES_MAX
from mnemo_client.mcp.tool_types import RememberArguments, schema
from mnemo_client.mcp.tools import TOOLS
from mnemo_client.protocol.choices import Category, Kind
from mnemo_client.protocol.retrieval import RecalledMemory
from tests.canned import ID, CannedDaemon, best, note, recalled, view
from tests.canned import recall_answer as canned_answer
from tests.canned import status as canned_status

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "stateless agent", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}

Message = dict[str, Any]


def memory() -> RecalledMemory:
    """A passage of a note."""
    return recalled(
        trust="note", source="note", tags=["home"], event_at=1_700_000_000_000, score=0.87654321,
        note=note("/n/home.md", title="Home", headings=["Home", "Keys"], lines=(3, 9)),
        best=best("The key is with Ines.", (4, 7), line=5),
    )  # fmt: skip


def recall_answer(**fields: Any) -> Any:
    return msgspec.to_builtins(canned_answer(memory(), total=4, **fields))


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

    def call(self, tool: str, arguments: Message, *, modern: bool = False) -> Message:
        result: Message = self.ask("tools/call", {"name": tool, "arguments": arguments}, modern=modern)["result"]
        return result

    def end(self) -> int:
        """Standard input ends; the exit code."""
        self.process.communicate(timeout=15)
        return self.process.returncode


@pytest.fixture
def environ(canned: CannedDaemon, short_folder: Path) -> dict[str, str]:
    return {**os.environ, "MNEMO_SOCKET": str(canned.path), "MNEMO_DATA_DIR": str(short_folder / "data"),
            "MNEMO_AUTOSTART": "0"}  # fmt: skip


@pytest.fixture
def agent(environ: dict[str, str], tmp_path: Path) -> Iterator[McpAgent]:
    agent = McpAgent(environ, tmp_path)
    yield agent
    if agent.process.poll() is None:
        agent.process.kill()
    agent.process.communicate()


# The handshake era


@pytest.mark.parametrize("version", HANDSHAKE)
def test_every_version_of_the_handshake_is_answered_in_kind(agent: McpAgent, version: str) -> None:
    result = agent.ask("initialize", {**HELLO, "protocolVersion": version})["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "mnemod"
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert "Call memory_recall before" in result["instructions"]


def test_an_unknown_version_is_answered_with_the_newest_of_the_handshake(agent: McpAgent) -> None:
    result = agent.ask("initialize", {**HELLO, "protocolVersion": "1999-01-01"})["result"]
    assert result["protocolVersion"] == "2025-11-25"


def test_pings_are_answered_and_notifications_are_not(agent: McpAgent) -> None:
    agent.ask("initialize", HELLO)
    agent.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    agent.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
    assert agent.ask("ping") == {"jsonrpc": "2.0", "id": agent.number, "result": {}}


def test_the_tools_say_what_they_take_and_all_four_hints(agent: McpAgent) -> None:
    listed = agent.ask("tools/list")["result"]["tools"]
    annotated = {tool["name"]: tool["annotations"] for tool in listed}
    assert {name: (hint["readOnlyHint"], hint["destructiveHint"], hint["idempotentHint"])
            for name, hint in annotated.items()} == {
        "memory_recall": (True, False, True), "memory_remember": (False, False, False),
        "memory_list": (True, False, True), "memory_update": (False, True, True),
        "memory_forget": (False, True, True), "memory_get": (True, False, True), "memory_status": (True, False, True),
    }  # fmt: skip
    for tool in listed:
        hints = {name for name in tool["annotations"] if name.endswith("Hint")}
        assert hints == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert tool["annotations"]["openWorldHint"] is False
        assert tool["outputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "$ref" not in json.dumps(tool)


def test_the_tools_say_what_kinds_and_categories_mean_and_that_the_trash_can_be_emptied_by_no_agent() -> None:
    remember = schema(RememberArguments)["properties"]
    for name, values in (("kind", Kind), ("category", Category)):
        assert all(value in remember[name]["description"] for value in get_args(values))
        assert {*remember[name]["enum"]} == {*get_args(values)}
    forgets = TOOLS["memory_forget"].description
    assert "trash" in forgets
    assert "the user can restore it" in forgets


def test_every_text_number_and_list_that_an_agent_sends_has_a_bound() -> None:
    for tool in TOOLS.values():
        for name, part in schema(tool.arguments)["properties"].items():
            bounded = {"string": "maxLength", "array": "maxItems", "integer": "maximum", "number": "maximum"}
            assert "enum" in part or bounded[part["type"]] in part, name


# The stateless era


def test_discovery_needs_no_handshake(agent: McpAgent) -> None:
    result = agent.ask("server/discover", modern=True)["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "public"
    assert result["ttlMs"] > 0
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mnemod"


def test_stateless_lists_and_calls_say_that_they_are_whole(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer())
    listed = agent.ask("tools/list", modern=True)["result"]
    assert len(listed["tools"]) == len(TOOLS)
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "public")
    called = agent.call("memory_recall", {"query": "who has the key"}, modern=True)
    assert (called["resultType"], called["isError"]) == ("complete", False)


def test_a_version_from_the_future_is_refused_with_those_that_are_spoken(agent: McpAgent) -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    error = agent.ask("tools/list", {"_meta": meta})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


def test_a_stateless_request_without_its_envelope_is_refused(agent: McpAgent) -> None:
    assert agent.ask("server/discover")["error"]["code"] == -32602
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert "clientCapabilities" in agent.ask("tools/list", {"_meta": meta})["error"]["message"]


def test_the_stateless_era_knows_no_handshake_and_no_ping(agent: McpAgent) -> None:
    assert agent.ask("initialize", HELLO, modern=True)["error"]["code"] == -32601
    assert agent.ask("ping", modern=True)["error"]["code"] == -32601


# The tools


def test_recall_gives_text_to_read_and_the_same_for_programs(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(degraded=["vectors"]))
    result = agent.call("memory_recall", {"query": "who has the key", "limit": 3, "tags": ["home"]})
    found = result["structuredContent"]["memories"][0]
    assert found == {
        "id": ID, "content": "The key is with Ines.", "date": "2023-11-14", "kind": "semantic", "category": "fact",
        "namespace": "default", "trust": "note", "version": 1, "score": 0.8765, "tags": ["home"],
        "path": "/n/home.md", "line": 5, "heading": "Home › Keys",
    }  # fmt: skip
    assert result["structuredContent"]["degraded"] == ["vectors"]
    text = result["content"][0]["text"]
    assert text.startswith("1 of 4 memories, namespace default (answered without vectors)")
    assert "score 0.88 · /n/home.md:5 · Home › Keys" in text
    assert text.endswith("The key is with Ines.")
    asked = canned.asked[0]
    assert asked.body == {
        "query": "who has the key", "top_k": 3, "default_top_k": 8, "tags": ["home"], "highlight": True,
        "preferences": "first", "cut": "gap",
    }  # fmt: skip
    assert asked.headers["x-mnemo-door"] == "mcp"


def test_the_daemon_decides_how_many_a_list_needs_unless_the_agent_does(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(list_top_k=20))
    result = agent.call("memory_recall", {"query": "which keys does Ines have"})
    assert (canned.asked[0].body["default_top_k"], canned.asked[0].body.get("top_k")) == (8, None)
    assert result["structuredContent"]["list_limit"] == 20
    assert "the question asks for a list, so up to 20 were looked for" in result["content"][0]["text"]


def test_preferences_come_behind_the_best_answer_unless_one_is_it(agent: McpAgent, canned: CannedDaemon) -> None:
    tea, metric = (
        recalled(content=content, preference=True, score=score, kind="procedural")
        for content, score in (("I prefer tea.", 0.3), ("Answer in metric units.", 0.0))
    )
    ahead = canned_answer(tea, metric, memory(), total=4)
    for score, expected in (
        (0.3, ["The key is with Ines.", "I prefer tea.", "Answer in metric units."]),
        (0.95, ["I prefer tea.", "The key is with Ines.", "Answer in metric units."]),
    ):
        ahead.memories[0].score = score
        canned.say("POST /v1/recall", msgspec.to_builtins(ahead))
        result = agent.call("memory_recall", {"query": "who has the key"})
        assert [each["content"] for each in result["structuredContent"]["memories"]] == expected
        text = result["content"][0]["text"]
        assert sorted(expected, key=text.index) == expected
        assert text.index("Preferences that apply to every question:") < text.index("Answer in metric units.")
    reported = msgspec.to_builtins(canned_answer(tea, total=4, abstained=True))
    canned.say("POST /v1/recall", reported)
    text = agent.call("memory_recall", {"query": "zzzz"})["content"][0]["text"]
    assert text.startswith("0 of 4 memories, namespace default; none is close enough to be an answer\n\nPreferences")


def test_a_memory_of_an_agent_carries_its_name_and_entry_point(agent: McpAgent, canned: CannedDaemon) -> None:
    stored = {"outcome": "stored", "memory": msgspec.to_builtins(memory()), "masked": ["token"]}
    canned.say("POST /v1/memories", stored, 201)
    agent.ask("initialize", {**HELLO, "clientInfo": {"name": "the\nagent", "version": "1"}})
    result = agent.call("memory_remember", {"content": "x", "category": "decision"})
    assert result["structuredContent"] == {
        "outcome": "stored", "id": ID, "namespace": "default", "version": 1, "related": [], "masked": ["token"],
    }  # fmt: skip
    assert canned.asked[0].body == {"content": "x", "category": "decision", "agent_id": "theagent"}
    assert canned.asked[0].headers["x-mnemo-door"] == "mcp"
    assert canned.asked[0].headers["x-mnemo-agent"] == "theagent"
    agent.call("memory_remember", {"content": "x"}, modern=True)
    assert canned.asked[1].headers["x-mnemo-agent"] == "stateless agent"


def test_a_memory_is_got_by_its_id(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("GET /v1/memories/c0ffee01", msgspec.to_builtins(memory()))
    result = agent.call("memory_get", {"id": "c0ffee01"})
    assert result["structuredContent"]["id"] == ID
    assert result["structuredContent"]["line"] == 3  # the passage's first: nothing was asked that a line could answer


def test_numbers_are_taken_as_texts_too(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer())
    canned.say("PATCH /v1/memories/c0ffee01", msgspec.to_builtins(memory()))
    assert agent.call("memory_recall", {"query": "x", "limit": "3"})["isError"] is False
    assert agent.call("memory_update", {"id": "c0ffee01", "importance": "0.8", "if_version": "2"})["isError"] is False
    assert canned.asked[0].body["top_k"] == 3
    assert canned.asked[1].body == {"importance": 0.8, "if_version": 2}


def test_fields_without_a_value_in_an_update_are_not_sent(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("PATCH /v1/memories/c0ffee01", msgspec.to_builtins(memory()))
    result = agent.call("memory_update", {"id": "c0ffee01", "content": "The key is with Ines.", "tags": []})
    assert canned.asked[0].body == {"content": "The key is with Ines.", "tags": []}
    assert result["structuredContent"]["id"] == ID
    assert result["content"][0]["text"].startswith("version 1; the previous version is kept")


@pytest.mark.parametrize(("deleted", "said"), [(1, "moved to the trash"), (0, "it was already in the trash")])
def test_forgetting_moves_to_the_trash_and_says_how_it_comes_back(
    agent: McpAgent, canned: CannedDaemon, deleted: int, said: str
) -> None:
    canned.say("DELETE /v1/memories/c0ffee01", {"deleted": deleted, "id": ID})
    result = agent.call("memory_forget", {"id": "c0ffee01", "why": "out of date"})
    assert result["structuredContent"] == {
        "id": ID, "state": "trashed", "changed": deleted > 0, "undo": f"mnemo trash restore {ID}",
    }  # fmt: skip
    assert said in result["content"][0]["text"]
    assert canned.asked[0].query == {"why": ["out of date"]}


def test_the_newest_memories_are_listed_without_a_question(agent: McpAgent, canned: CannedDaemon) -> None:
    answer = {"memories": [msgspec.to_builtins(memory())], "total": 9, "namespace": "default", "degraded": [],
              "cursor": "next"}  # fmt: skip
    canned.say("GET /v1/recent", answer)
    result = agent.call("memory_list", {"limit": "1", "tags": ["home", "keys"], "since": "last week", "cursor": "here"})
    assert canned.asked[0].query == {"limit": ["1"], "tag": ["home", "keys"], "since": ["last week"],
                                     "cursor": ["here"]}  # fmt: skip
    assert (result["structuredContent"]["total"], result["structuredContent"]["cursor"]) == (9, "next")
    assert "score" not in result["structuredContent"]["memories"][0]
    assert result["content"][0]["text"].startswith("1 of 9 memories, the newest first, namespace default; cursor next")


def test_the_status_is_short(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("GET /v1/status", status())
    result = agent.call("memory_status", {})
    assert result["structuredContent"] == {
        "state": "warming", "reasons": ["the model is being loaded"], "memories": 12, "namespace": "default",
        "namespaces": {"default": 12}, "embedding_model": "mini (loading)", "vectors_share": 0.25, "version": "0.1.0",
    }  # fmt: skip
    assert "25% of the memories have a vector" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "query"),
        ({"query": ""}, '`query` must be a text of 1 to 8192 characters, not ""'),
        ({"query": "x" * 8193}, "`query` must be a text of 1 to 8192 characters"),
        ({"query": "x", "limit": 51}, "`limit` must be a whole number from 1 to 50"),
        ({"query": "x", "limit": "51"}, "`limit` must be a whole number from 1 to 50"),
        ({"query": "x", "limit": "five"}, "`limit` must be a whole number from 1 to 50"),
        ({"query": "x", "mood": 1}, "there is no field `mood` here"),
        ({"query": "x", "tags": ["t"] * 21}, "`tags` must be a list of at most 20 values"),
        ([], "the value must be an object, not []"),
    ],
)
def test_invalid_arguments_are_explained_to_the_agent(
    agent: McpAgent, canned: CannedDaemon, arguments: Any, said: str
) -> None:
    result = agent.call("memory_recall", arguments)
    assert result["isError"] is True
    assert said in result["content"][0]["text"]
    assert canned.asked == []


def test_the_daemons_refusal_is_a_result_to_read(agent: McpAgent, canned: CannedDaemon) -> None:
    error = {"code": "not_found", "message": "there is no memory c0ffee01"}
    canned.say("GET /v1/memories/c0ffee01", {"error": error}, 404)
    result = agent.call("memory_get", {"id": "c0ffee01"})
    assert result == {"content": [{"type": "text", "text": "there is no memory c0ffee01"}], "isError": True}


def test_an_unknown_tool_names_those_there_are(agent: McpAgent) -> None:
    error = agent.ask("tools/call", {"name": "memory_wipe", "arguments": {}})["error"]
    assert error["code"] == -32602
    assert "memory_recall" in error["message"]


# What can go wrong


def test_without_a_daemon_the_handshake_is_answered_and_a_call_says_why_not(
    agent: McpAgent, canned: CannedDaemon
) -> None:
    canned.stop()
    assert "result" in agent.ask("initialize", HELLO)
    result = agent.call("memory_recall", {"query": "x"})
    assert result["isError"] is True
    assert "no daemon listens" in result["content"][0]["text"]
    canned.start()
    canned.say("POST /v1/recall", recall_answer())
    assert agent.call("memory_recall", {"query": "x"})["isError"] is False


def test_a_slow_call_holds_up_neither_pings_nor_lists(agent: McpAgent, canned: CannedDaemon) -> None:
    def slowly(asked: Any) -> Any:
        time.sleep(0.5)
        return recall_answer()

    canned.answers["POST /v1/recall"] = slowly
    request = {"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
               "params": {"name": "memory_recall", "arguments": {"query": "x"}}}  # fmt: skip
    agent.write(json.dumps(request).encode())
    assert agent.ask("ping")["result"] == {}
    assert "tools" in agent.ask("tools/list")["result"]
    assert agent.read()["id"] == "slow"


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
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{'
         b'"io.modelcontextprotocol/protocolVersion":[]}}}', -32022),
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_an_error_and_the_next_is_heard(agent: McpAgent, line: bytes, code: int) -> None:
    agent.write(line)
    assert agent.read()["error"]["code"] == code
    assert agent.ask("ping")["result"] == {}


def test_a_line_beyond_the_limit_is_refused_whole(agent: McpAgent) -> None:
    agent.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * LINE_BYTES_MAX + b'"}')
    assert agent.read()["error"]["code"] == -32600
    assert agent.ask("ping")["result"] == {}


def test_empty_lines_and_unrequested_answers_are_ignored(agent: McpAgent) -> None:
    agent.write(b"")
    agent.write(b'{"jsonrpc":"2.0","id":3,"result":{}}')
    agent.write(b'{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}}')
    assert agent.ask("ping")["result"] == {}


def test_calls_that_were_made_before_the_end_are_still_answered(agent: McpAgent, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer())
    request = {"jsonrpc": "2.0", "id": 9, "method": "tools/call",
               "params": {"name": "memory_recall", "arguments": {"query": "x"}}}  # fmt: skip
    out, err = agent.process.communicate(json.dumps(request).encode(), timeout=15)
    assert json.loads(out)["result"]["isError"] is False
    assert (agent.process.returncode, err) == (0, b"")


def test_the_end_of_input_ends_the_bridge_quietly(agent: McpAgent) -> None:
    agent.ask("initialize", HELLO)
    out, err = agent.process.communicate(timeout=15)
    assert (out, agent.process.returncode) == (b"", 0)
    assert b"Traceback" not in err


def test_the_folder_it_works_in_chooses_the_namespace(
    environ: dict[str, str], canned: CannedDaemon, tmp_path: Path
) -> None:
    (tmp_path / ".mnemo.toml").write_text('namespace = "apollo"\n')
    canned.say("GET /v1/status", status())
    agent = McpAgent(environ, tmp_path)
    assert agent.call("memory_status", {})["structuredContent"]["namespace"] == "apollo"
    assert canned.asked[0].headers["x-namespace"] == "apollo"
    (tmp_path / ".mnemo.toml").write_text("namespace = [\n")
    assert agent.end() == 0
    broken = McpAgent(environ, tmp_path)
    result = broken.call("memory_status", {})
    assert result["isError"] is True
    assert ".mnemo.toml cannot be read" in result["content"][0]["text"]
    assert broken.end() == 0


def status() -> Any:
    vectors = view("building", 0.25, lag=9, items=3)
    return msgspec.to_builtins(canned_status(memories=12, namespaces={"default": 12}, views={"vectors": vectors}))
