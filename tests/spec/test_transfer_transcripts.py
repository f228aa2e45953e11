"""Transcripts of Claude Code, Codex and ChatGPT, as turns and what is left out of them. SPEC 5

The lines have the forms of several versions of these programs, with invented contents.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from mnemo_core.transfer.transcripts import chatgpt, claude_code, codex
from mnemo_core.transfer.transcripts.parts import (
    NARRATION_CHARS_MAX,
    PASTED_LINES_MIN,
    ConversationStart,
    DamagedPart,
    LeftOut,
    TranscriptPart,
    TranscriptTurn,
    remove_injected,
    turn_parts,
)
from mnemo_daemon.transfer.tool_import import parse_export_time
from tests.support.transcript_files import (
    BEGINNING,
    answered,
    asked,
    claude,
    codex_message,
    jsonl,
    said,
    tool_result,
    tool_use,
)
from tests.support.transcript_files import chatgpt as conversation
from tests.support.transcript_files import codex as rollout

START = int(BEGINNING.timestamp() * 1000)
MINUTE = 60_000


def lines_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(data.splitlines(), 1):
        yield f"line {number}", line


def of_claude(data: bytes) -> list[TranscriptPart]:
    return list(claude_code.parse(lines_of(data), parse_export_time))


def of_codex(data: bytes) -> list[TranscriptPart]:
    return list(codex.parse(lines_of(data), parse_export_time))


def of_chatgpt(item: Any) -> list[TranscriptPart]:
    return list(chatgpt.parse("[0]", json.dumps(item).encode(), parse_export_time))


def turns(parts: Iterable[TranscriptPart]) -> list[tuple[str, str]]:
    return [(part.role, part.text) for part in parts if isinstance(part, TranscriptTurn)]


def left_out(parts: Iterable[TranscriptPart]) -> dict[str, int]:
    return dict(Counter(part.reason for part in parts if isinstance(part, LeftOut)))


def damaged(parts: Iterable[TranscriptPart]) -> list[str]:
    return [part.place for part in parts if isinstance(part, DamagedPart)]


# Claude Code


def test_a_transcript_of_claude_code_becomes_the_turns_of_its_two_sides() -> None:
    parts = of_claude(claude("s-1", [
        {"type": "summary", "summary": "Pier work", "leafUuid": "x"},
        asked("Why does the pier build fail?"),
        answered({"type": "thinking", "thinking": "hm", "signature": "x"}),
        answered("I will read the log.", message_id="m1"),
        answered(tool_use(path="log"), message_id="m1"),
        tool_result("error: no such file"),
        answered("The build fails because pier.toml is missing.", message_id="m2"),
        asked([{"type": "text", "text": "Write it then."}, {"type": "image", "source": {"data": "…"}}]),
        {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"},
    ]))  # fmt: skip
    assert parts[0] == ConversationStart("s-1", START)
    assert [part for part in parts if isinstance(part, TranscriptTurn)] == [
        TranscriptTurn("user", "Why does the pier build fail?", START + MINUTE, "line 2"),
        TranscriptTurn("agent", "The build fails because pier.toml is missing.", START + 6 * MINUTE, "line 7"),
        TranscriptTurn("user", "Write it then.", START + 7 * MINUTE, "line 8"),
    ]
    assert left_out(parts) == {
        "summary": 1, "thinking": 1, "narration": 1, "tool_call": 1, "tool_output": 1, "attachment": 1, "system": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (asked("A side talk about the pier.", isSidechain=True), "sidechain"),
        (asked("Caveat: …", isMeta=True), "injected"),
        (asked("This session is being continued from a previous conversation that ran out.", isCompactSummary=True),
         "summary"),
        (asked("This session is being continued from a previous conversation that ran out of context."), "summary"),
        (asked("[Request interrupted by user for tool use]"), "system"),
        (answered("API Error: 500", isApiErrorMessage=True), "system"),
        ({"type": "assistant", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "Hello"}]}},
         "system"),
        (asked("<command-name>/clear</command-name>"), "command"),
        (asked("<local-command-stdout>Set model to opus</local-command-stdout>"), "command"),
        (asked("<bash-input>ls</bash-input>"), "command"),
        (asked("<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"), "injected"),
        (asked("<memory>\n[FACT] The pier is 40 m long.\n</memory>"), "memory_block"),
        (asked("<ide_opened_file>The user opened pier.py</ide_opened_file>"), "injected"),
        ({"type": "attachment", "attachment": {"type": "file", "content": "text"}}, "attachment"),
        ({"type": "queue-operation", "operation": "enqueue", "content": "Later."}, "system"),
        ({"type": "a-type-of-a-later-version", "message": {"content": "words"}}, "system"),
        (asked(""), "empty"),
    ],
)  # fmt: skip
def test_what_a_program_wrote_is_no_turn(row: dict[str, Any], reason: str) -> None:
    parts = of_claude(claude("s", [row]))
    assert (turns(parts), set(left_out(parts))) == ([], {reason})


def test_the_rest_of_a_turn_stays_when_what_a_hook_put_into_it_is_removed() -> None:
    text = (
        "<memory>\n[FACT] The pier is 40 m long.\n</memory>\nMake it 42 m.\n"
        "<system-reminder>Be brief.</system-reminder> [Image #1] And paint it."
    )
    parts = of_claude(claude("s", [asked(text)]))
    assert [text.split() for _, text in turns(parts)] == [["Make", "it", "42", "m.", "And", "paint", "it."]]
    assert left_out(parts) == {"memory_block": 1, "injected": 1, "attachment": 1}


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Why does <memory> stand in the prompt?", "Why does <memory> stand in the prompt?"),
        ("The tags are <system-reminder> and <b>.", "The tags are <system-reminder> and <b>."),
        ("Fix it.\n<system-reminder>cut off", "Fix it."),
        ("<document><p>x</p></document>Read it.", "Read it."),
        ("<memoryless>stays</memoryless>", "<memoryless>stays</memoryless>"),
    ],
)
def test_a_tag_that_somebody_writes_of_is_their_text(text: str, rest: str) -> None:
    assert remove_injected(text)[0] == rest


def test_a_long_text_before_a_tool_call_is_kept_and_a_short_one_announces_it() -> None:
    long = "The cause is the missing header. " * 8
    assert len(long) > NARRATION_CHARS_MAX
    for text, kept in ((long, [("agent", long.strip())]), ("Let me look at it.", [])):
        parts = of_claude(claude("s", [answered(text, tool_use(a=1))]))
        assert turns(parts) == kept
    parts = of_claude(claude("s", [answered("Done."), asked("Thanks, and now the pier?"), answered(tool_use(a=1))]))
    assert turns(parts)[0] == ("agent", "Done."), "the tool call belongs to another answer"


def test_a_pasted_log_is_left_out_of_a_persons_turn_and_code_of_an_answer_stays() -> None:
    block = "```\n" + "2026-01-05 INFO started\n" * (PASTED_LINES_MIN + 1) + "```"
    short = "```\nmake pier\n```"
    for role, text, rest in (
        ("user", f"It fails:\n{block}\nWhy?", "It fails:\n\nWhy?"),
        ("user", f"I ran {short}", f"I ran {short}"),
        ("user", f"It fails:\n{block[:-3]}", "It fails:"),
        ("agent", block, block),
    ):
        found = [each.text for each in turn_parts(role, text, 1, "line 1") if isinstance(each, TranscriptTurn)]  # type: ignore[arg-type]
        assert found == [rest]


def test_damaged_lines_are_named_and_those_behind_them_are_read() -> None:
    whole = claude("s", [asked("The first."), asked("The second."), asked("The third.")])
    first, second, third = whole.splitlines(keepends=True)
    parts = of_claude(first + second[:40] + b"\n" + b"\xff\xfe\n" + b'{"type": "user", "message": 5}\n' + third)
    assert (turns(parts), damaged(parts)) == (
        [("user", "The first."), ("user", "The third.")], ["line 2", "line 3", "line 4"],
    )  # fmt: skip


def test_each_session_id_of_a_file_is_a_conversation_of_its_own() -> None:
    parts = of_claude(claude("old", [asked("Of the old one.")]) + claude("new", [asked("Of the new one.")]))
    assert [part.id for part in parts if isinstance(part, ConversationStart)] == ["old", "new"]


# Codex


def test_a_rollout_of_codex_becomes_the_turns_of_its_two_sides() -> None:
    parts = of_codex(rollout("r-1", [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be an engineer."}]},
        codex_message("user", "# AGENTS.md instructions for /srv/ines\n<INSTRUCTIONS>x</INSTRUCTIONS>",
                      "<environment_context><cwd>/srv/ines</cwd></environment_context>"),
        {"type": "turn_context", "payload": {"cwd": "/srv/ines", "model": "gpt-5"}},
        codex_message("user", "Rename the pier module."),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Rename the pier module."}},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        codex_message("assistant", "I am looking for its uses.", phase="commentary"),
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "pier.py"},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "…"},
        {"type": "custom_tool_call_output", "output": "ok"},
        codex_message("assistant", "The module is called jetty now.", phase="final_answer"),
        {"type": "event_msg", "payload": {"type": "agent_message", "message": "The module is called jetty now."}},
        {"type": "compacted", "payload": {"message": "Summary."}},
    ]))  # fmt: skip
    assert parts[0] == ConversationStart("r-1", START)
    assert [part for part in parts if isinstance(part, TranscriptTurn)] == [
        TranscriptTurn("user", "Rename the pier module.", START + 3 * MINUTE, "line 5"),
        TranscriptTurn("agent", "The module is called jetty now.", START + 11 * MINUTE, "line 13"),
    ]
    assert left_out(parts) == {
        "system": 5, "injected": 2, "thinking": 1, "narration": 1, "tool_call": 2, "tool_output": 2, "summary": 1,
    }  # fmt: skip


def test_a_rollout_of_the_first_versions_has_no_envelopes_and_no_times() -> None:
    parts = of_codex(jsonl([
        {"id": "r-0", "timestamp": "2025-08-08T10:39:10.241Z", "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        codex_message("user", "Count the boats."),
        codex_message("assistant", "There are nine boats."),
    ]))  # fmt: skip
    assert parts[0] == ConversationStart("r-0", parse_export_time("2025-08-08T10:39:10.241Z"))
    assert turns(parts) == [("user", "Count the boats."), ("agent", "There are nine boats.")]
    assert [part.at for part in parts if isinstance(part, TranscriptTurn)] == [None, None]


def test_a_forked_rollout_is_the_conversation_of_its_first_line() -> None:
    parts = of_codex(rollout("fork", []) + rollout("ancestor", [codex_message("user", "Who am I?")]))
    assert [part.id for part in parts if isinstance(part, ConversationStart)] == ["fork"]


def test_of_an_editors_context_only_the_request_is_the_persons() -> None:
    text = "# Context from my IDE setup:\n\n## Active file: pier.py\n\n## My request for Codex:\nMake it green.\n"
    parts = of_codex(rollout("r", [codex_message("user", text)]))
    assert (turns(parts), left_out(parts)["injected"]) == ([("user", "Make it green.")], 1)


# ChatGPT


def test_of_a_conversation_of_chatgpt_the_branch_that_is_shown_is_taken() -> None:
    parts = of_chatgpt(conversation("c-1", [
        ("sys", None, said("system", "", metadata={"is_visually_hidden_from_conversation": True})),
        ("ctx", "sys", said("user", kind="user_editable_context", metadata={"is_user_system_message": True})),
        ("q1", "ctx", said("user", "How long is the pier?")),
        ("q2", "ctx", said("user", "How long is the old pier?")),
        ("t1", "q2", said("assistant", "search('pier')", kind="code", recipient="web")),
        ("t2", "t1", said("tool", "40 m")),
        ("t3", "t2", said("assistant", "Remember the pier.", recipient="bio")),
        ("th", "t3", said("assistant", kind="thoughts")),
        ("a1", "th", said("assistant", "It is 39 m long.")),
        ("a2", "th", said("assistant", "It is 40 m long.")),
        ("q3", "a2", said("user", {"content_type": "image_asset_pointer"}, "And this one?", kind="multimodal_text")),
        ("q4", "q3", said("user", {"content_type": "audio_transcription", "text": "Is it open today?"},
                          {"content_type": "real_time_user_audio_video_asset_pointer"}, kind="multimodal_text")),
    ], "q4"))  # fmt: skip
    assert parts[0] == ConversationStart("c-1", START)
    assert turns(parts) == [
        ("user", "How long is the old pier?"), ("agent", "It is 40 m long."), ("user", "And this one?"),
        ("user", "Is it open today?"),
    ]  # fmt: skip
    first = next(part for part in parts if isinstance(part, TranscriptTurn))
    assert (first.at, first.place) == (START + 3 * MINUTE, "[0].mapping[q2]")
    assert left_out(parts) == {
        "other_branch": 2, "system": 2, "tool_call": 2, "tool_output": 1, "thinking": 1, "attachment": 2,
    }  # fmt: skip


def test_a_conversation_without_a_current_node_is_its_newest_branch() -> None:
    item = conversation("c", [("q", None, said("user", "One?")), ("a", "q", said("assistant", "Old.")),
                              ("b", "q", said("assistant", "New."))], "gone")  # fmt: skip
    assert turns(of_chatgpt(item)) == [("user", "One?"), ("agent", "New.")]


def test_a_message_without_a_time_and_a_tree_with_a_loop_are_read() -> None:
    item = conversation("c", [("q", None, said("user", "One?", create_time=None))], "q")
    item["mapping"]["root"]["parent"] = "q"
    (turn,) = [part for part in of_chatgpt(item) if isinstance(part, TranscriptTurn)]
    assert (turn.text, turn.at) == ("One?", None)


@pytest.mark.parametrize("item", [{"mapping": {}}, {"id": "c", "mapping": 5}, [], {"id": "c"}])
def test_a_conversation_that_cannot_be_read_is_damaged_and_no_more(item: Any) -> None:
    assert damaged(of_chatgpt(item)) == ["[0]"]


# Recognising


def test_a_transcript_is_recognised_by_its_first_line() -> None:
    of = claude("s", [asked("x")])
    assert claude_code.is_event(of)
    assert not codex.is_line(of)
    assert codex.is_line(rollout("r", []))
    assert codex.is_line(b'{"id":"r","timestamp":"2025-08-08T10:39:10.241Z","instructions":null}')
    assert chatgpt.is_export(json.dumps([conversation("c", [], "root")]).encode())
    for other in (b'{"type":"entity","name":"a"}', b'{"results": []}', b'{"mnemo_stream":1}', b"words", b"[]"):
        assert not any((claude_code.is_event(other), codex.is_line(other), chatgpt.is_export(other)))


def test_the_times_of_the_three_programs_are_read() -> None:
    at = parse_export_time((BEGINNING + timedelta(minutes=1)).isoformat().replace("+00:00", "Z"))
    assert (at, parse_export_time(BEGINNING.timestamp() + 60)) == (START + MINUTE, START + MINUTE)
