"""The call of a tool, read from the JSON of each agent as its documentation has it in November 2026. SPEC 11.2"""

import json
from typing import Any

import pytest

from mnemo_client.cli.agent_hooks.agent_event import CALL_CHARS_MAX, ToolCall, read_event

BASH = {"tool_name": "Bash", "tool_input": {"command": "npm test", "timeout": 120}}
ARGUMENTS = {"command": "npm test", "timeout": "120"}
SHELL = {"tool_name": "run_shell_command", "tool_input": {"command": "npm test"}}


def call_of(given: dict[str, Any]) -> ToolCall | None:
    return read_event("tool", json.dumps(given), None).call


@pytest.mark.parametrize(
    ("given", "result", "failed"),
    [
        ({"tool_response": {"stdout": "40 passed", "stderr": "", "interrupted": False}}, "40 passed", False),
        ({"tool_response": {"stdout": "", "stderr": "2 warnings", "interrupted": False}}, "2 warnings", False),
        ({"tool_response": {"stdout": "half", "stderr": "", "interrupted": True}}, "half", True),
        ({"tool_response": {"filePath": "/a", "success": True}}, "", False),
        ({"tool_response": [{"type": "text", "text": "found 3"}]}, "found 3", False),
        ({"tool_response": {"content": [{"type": "text", "text": "no such issue"}], "isError": True}},
         "no such issue", True),
        ({"error": "Command exited with non-zero status code 1", "is_interrupt": False},
         "Command exited with non-zero status code 1", True),
        ({"tool_response": "Exit code: 1"}, "Exit code: 1", None),  # Codex
        ({}, "", None),
    ],
)  # fmt: skip
def test_a_call_of_claude_code_or_codex(given: dict[str, Any], result: str, failed: bool | None) -> None:
    assert call_of({**BASH, **given}) == ToolCall("Bash", ARGUMENTS, result, failed)


@pytest.mark.parametrize(
    ("response", "result", "failed"),
    [
        ({"llmContent": "Output: 40 passed", "returnDisplay": "40 passed"}, "40 passed", False),
        ({"llmContent": [{"text": "a picture"}], "returnDisplay": ""}, "a picture", False),
        ({"llmContent": "", "returnDisplay": "", "error": {"message": "not found", "type": "x"}}, "not found", True),
    ],
)
def test_a_call_of_gemini(response: dict[str, Any], result: str, failed: bool) -> None:
    assert call_of({**SHELL, "tool_response": response}) == ToolCall(
        "run_shell_command", {"command": "npm test"}, result, failed
    )


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({}, None),
        ({"tool_name": ["Bash"]}, None),
        ({"tool_name": "Bash", "tool_input": "ls"}, ToolCall("Bash", {"input": "ls"}, "", None)),
        ({"tool_name": "Bash", "tool_input": None}, ToolCall("Bash", {"input": ""}, "", None)),
        ({"tool_name": "x", "tool_input": {"todos": [{"a": 1}]}}, ToolCall("x", {"todos": '[{"a": 1}]'}, "", None)),
        ({"tool_name": "x", "tool_input": {}, "tool_response": "\ud800"}, ToolCall("x", {}, "?", None)),
    ],
)
def test_what_is_no_call_or_an_odd_one(given: dict[str, Any], call: ToolCall | None) -> None:
    assert call_of(given) == call


def test_a_call_is_bounded() -> None:
    nested: Any = "deep"
    for _ in range(100):
        nested = {"content": [nested]}
    many = {str(number): "x" * 99_999 for number in range(99)}
    call = call_of({"tool_name": "Bash", "tool_input": many, "tool_response": nested})
    assert call is not None
    assert call.result == ""
    assert len(call.arguments) == 32
    assert {len(text) for text in call.arguments.values()} == {CALL_CHARS_MAX}
