"""The memory tool of Anthropic's SDK on the memory: its commands, what it refuses, and an agent over two processes."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool

from mnemo_client.adapters import anthropic as adapter
from mnemo_client.adapters.anthropic import AsyncMnemoMemoryTool, MnemoMemoryTool
from mnemo_client.client import Client
from tests.support.adapter_programs import run_example, run_program
from tests.support.running_daemon import RunningDaemon


class CalledTool:
    """The tool of a test, synchronous or not, called as the SDK calls it."""

    def __init__(self, client: Client, is_async: bool) -> None:
        self.client = client
        self._tool: Any = AsyncMnemoMemoryTool(client) if is_async else MnemoMemoryTool(client)
        self._is_async = is_async

    def __call__(self, command: str, path: str = "", **fields: Any) -> str:
        if path:
            fields["path"] = path
        answer = self._tool.call({"command": command, **fields})
        return str(asyncio.run(answer) if self._is_async else answer)

    def clear(self) -> None:
        answer = self._tool.clear_all_memory()
        assert (asyncio.run(answer) if self._is_async else answer) == "All memory cleared"


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def tool(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[CalledTool]:
    namespace = f"an-{abs(hash(request.node.name)) % 10**8}"
    with Client(daemon.socket, namespace, agent="claude") as client:
        yield CalledTool(client, request.param)


def test_the_answers_are_those_of_the_tool_that_keeps_files_in_a_folder(tool: CalledTool, tmp_path: Any) -> None:
    files = BetaLocalFilesystemMemoryTool(str(tmp_path))
    commands: list[dict[str, Any]] = [
        {"command": "create", "path": "/memories/flat/keys.md", "file_text": "Spare: Ines\nCar: hall\nShed: 14"},
        {"command": "view", "path": "/memories/flat/keys.md"},
        {"command": "view", "path": "/memories/flat/keys.md", "view_range": [2, -1]},
        {"command": "str_replace", "path": "/memories/flat/keys.md", "old_str": "hall", "new_str": "kitchen"},
        {"command": "insert", "path": "/memories/flat/keys.md", "insert_line": 1, "insert_text": "Bike: garage\n"},
        {"command": "view", "path": "/memories/flat/keys.md", "view_range": [1, 3]},
        {"command": "rename", "old_path": "/memories/flat", "new_path": "/memories/house"},
        {"command": "view", "path": "/memories/house/keys.md", "view_range": [1, 4]},
        {"command": "delete", "path": "/memories/house"},
    ]  # fmt: skip
    for command in commands:
        assert tool(**command) == files.call(command)
    refused: list[dict[str, Any]] = [
        {"command": "view", "path": "/memories/none.md"},
        {"command": "view", "path": "/etc/passwd"},
        {"command": "create", "path": "/memories/a.md", "file_text": "again"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "zebra", "new_str": "x"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "tea", "new_str": "x"},
        {"command": "str_replace", "path": "/memories/none.md", "old_str": "tea", "new_str": "x"},
        {"command": "insert", "path": "/memories/a.md", "insert_line": 9, "insert_text": "x"},
        {"command": "delete", "path": "/memories/none.md"},
        {"command": "delete", "path": "/memories"},
        {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
        {"command": "rename", "old_path": "/memories/none.md", "new_path": "/memories/x"},
        {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"},
    ]  # fmt: skip
    for path in ("/memories/a.md", "/memories/b.md"):
        created = {"command": "create", "path": path, "file_text": f"{path} tea\nand tea"}
        assert tool(**created) == files.call(created)
    for command in refused:
        with pytest.raises(ToolError) as expected:
            files.call(command)
        with pytest.raises(ToolError) as given:
            tool(**command)
        assert str(given.value) == str(expected.value)


def test_a_folder_shows_its_files_two_levels_deep(tool: CalledTool) -> None:
    heading = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
    assert tool("view", "/memories") == heading + "0B\t/memories"
    for path in ("a.md", "b/c.md", "b/d/e.md", ".hidden"):
        tool("create", f"/memories/{path}", file_text="x" * 1536)
    assert tool("view", "/memories/") == heading + (
        "6K\t/memories\n1.5K\t/memories/a.md\n3K\t/memories/b/\n1.5K\t/memories/b/c.md\n1.5K\t/memories/b/d/"
    )
    tool.clear()
    assert tool("view", "/memories") == heading + "0B\t/memories"


def test_a_file_is_one_memory_that_recall_finds_and_whose_history_is_kept(tool: CalledTool) -> None:
    tool("create", "/memories/ines.md", file_text="Ines keeps bees in Porto.")
    tool("str_replace", "/memories/ines.md", old_str="Porto", new_str="porto")
    tool("str_replace", "/memories/ines.md", old_str="porto", new_str="Faro")
    [memory] = tool.client.list_memories().memories
    assert (memory.key, memory.trust) == ("/memories/ines.md", "agent")
    assert [version.memory.content[-5:] for version in tool.client.history(memory.id).versions] == [
        "Faro.", "orto.", "orto.",
    ]  # fmt: skip
    assert tool.client.recall("Who keeps bees?").memories[0].id == memory.id
    tool("rename", old_path="/memories/ines.md", new_path="/memories/people/ines.md")
    [renamed] = tool.client.list_memories().memories
    assert (renamed.content, renamed.derived_from) == ("Ines keeps bees in Faro.", [memory.id])
    tool("delete", "/memories/people/ines.md")
    assert tool("create", "/memories/people/ines.md", file_text="ines keeps bees in faro.").startswith("File created")
    assert tool("view", "/memories/people/ines.md").endswith("\tines keeps bees in faro.")


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secret", "/memories/a/../../b", "/memories/..", "/memories/./a", "/memories//a", "memories/a",
        "/memoriesX/a", "/memories/%2e%2e/a", "/memories/a%2fb", "/memories/..\\a", "/memories/a\\b", "/memories/~",
        "/memories/a\0b", "", "/", "/memories/" + "a" * 250, "C:/memories/a",
    ],
)  # fmt: skip
def test_a_path_that_leaves_the_folder_is_refused(daemon: RunningDaemon, path: str) -> None:
    with Client(daemon.socket, "an-paths", agent="claude") as client:
        tool = MnemoMemoryTool(client)
        tool.call({"command": "create", "path": f"/memories/ok-{abs(hash(path))}", "file_text": "x"})
        before = [memory.id for memory in client.list_memories().memories]
        for command in (
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
            {"command": "insert", "path": path, "insert_line": 0, "insert_text": "y"},
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": path, "new_path": "/memories/new"},
            {"command": "rename", "old_path": f"/memories/ok-{abs(hash(path))}", "new_path": path},
        ):
            with pytest.raises(ToolError):
                tool.call(command)
        assert [memory.id for memory in client.list_memories().memories] == before


def test_what_a_file_cannot_be_is_refused_and_what_changes_is_said(tool: CalledTool) -> None:
    for text, message in ((" \n", "cannot be empty"), ("x" * 8193, "at most 8192")):
        with pytest.raises(ToolError, match=message):
            tool("create", "/memories/a.md", file_text=text)
    tool("create", "/memories/a.md", file_text="tea")
    with pytest.raises(ToolError, match="is a file, not a directory"):
        tool("create", "/memories/a.md/b.md", file_text="x")
    with pytest.raises(ToolError, match="already exists"):
        tool("create", "/memories/a.md/", file_text="x")
    with pytest.raises(ToolError, match="cannot be empty"):
        tool("str_replace", "/memories/a.md", old_str="tea", new_str="")
    tool("create", "/memories/d/e.md", file_text="x")
    with pytest.raises(ToolError, match="into itself"):
        tool("rename", old_path="/memories/d", new_path="/memories/d/f")
    with pytest.raises(ToolError, match="is not a file"):
        tool("insert", "/memories/d", insert_line=0, insert_text="x")
    secret = "db: https://ines:hunter2pass@db.example.com/"
    assert "stored with changes" in tool("create", "/memories/s.md", file_text=secret)
    assert "hunter2pass" not in tool("view", "/memories/s.md")


def test_without_a_daemon_the_model_is_told(short_folder: Any) -> None:
    with pytest.raises(ToolError, match="not available: no daemon"):
        MnemoMemoryTool(Client(short_folder / "no.sock")).call({"command": "view", "path": "/memories"})


def test_the_example_of_the_module_runs(daemon: RunningDaemon) -> None:
    lines = run_example(adapter, daemon, leave_out=("runner",))
    assert "/memories/ines.md" in lines["memory.call"]


AGENT = """
import json, sys
from anthropic import Anthropic
from mnemo_client.adapters.anthropic import MnemoMemoryTool
runner = Anthropic(base_url=sys.argv[1], api_key="scripted").beta.messages.tool_runner(
    model="claude-scripted", max_tokens=100, tools=[MnemoMemoryTool()],
    messages=[{"role": "user", "content": sys.argv[2]}],
)
print(runner.until_done().content[0].text)
"""


class ScriptedMessages(BaseHTTPRequestHandler):
    """A model that writes what it is told to a file, and answers a question with what the file says."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said, last = asked["messages"][0]["content"], asked["messages"][-1]["content"]
        if isinstance(last, list):  # the result of the tool
            text = last[0]["content"] if isinstance(last[0]["content"], str) else last[0]["content"][0]["text"]
            content: dict[str, Any] = {"type": "text", "text": text.splitlines()[-1].split("\t")[-1]}
        else:
            path = "/memories/ines.md"
            command = {"command": "view", "path": path}
            if not said.endswith("?"):
                command = {"command": "create", "path": path, "file_text": said}
            content = {"type": "tool_use", "id": "t1", "name": "memory", "input": command}
        answer = json.dumps({
            "id": "m", "type": "message", "role": "assistant", "model": asked["model"], "content": [content],
            "stop_reason": "tool_use" if content["type"] == "tool_use" else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def test_an_agent_remembers_in_one_process_and_recalls_in_the_next(started_daemon: RunningDaemon) -> None:
    server = HTTPServer(("127.0.0.1", 0), ScriptedMessages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        told = run_program(AGENT, started_daemon, url, "Ines keeps bees in Porto.")
        assert told == "File created successfully at: /memories/ines.md\n"
        assert run_program(AGENT, started_daemon, url, "Where are the bees?") == "Ines keeps bees in Porto.\n"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
