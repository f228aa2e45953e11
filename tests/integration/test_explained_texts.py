"""Explanations of what an agent sees: the memory, tokens and reason of each line of a resume and a context. SPEC 11"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.retrieval import TextExplanation, TextLine
from mnemo_core.retrieval.context_block import OTHERS_HEADING
from mnemo_core.sessions.resume import RECENT_TOKENS, ROLE_TOKENS
from tests.support.erasure_services import wait_until
from tests.support.running_daemon import RunningDaemon


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    """In a namespace of the test's own."""
    with daemon.client(f"ns-{uuid.uuid4().hex[:8]}") as open_client:
        yield open_client


def remember(client: Client, content: str, **fields: Any) -> str:
    return client.remember(content, **fields).memory.id


def shown(explained: TextExplanation) -> dict[str, TextLine]:
    """The lines that show a memory, by its id."""
    return {line.memory: line for line in explained.lines if line.memory is not None}


def left_out(explained: TextExplanation) -> dict[str, int]:
    return {reason: count for section in explained.sections for reason, count in section.left_out.items()}


def test_the_lines_of_a_resume_are_its_text_and_say_why_they_are_there(client: Client) -> None:
    name = remember(client, "My name is Ines and I live in Oslo.")
    step = remember(client, "Next step: order the new sails for the boat.")
    with Client(client.socket_path, client.namespace, agent="planner") as agent:
        written = remember(agent, "The mast of the boat is twelve metres high.")
    resume = client.resume(explain=True)
    explained = resume.explained
    assert explained is not None
    assert "\n".join(line.text for line in explained.lines) == resume.text
    lines = shown(explained)
    assert lines[name].reason == "states who the user is, strongest first"
    assert lines[step].reason == "states an open step, newest first"
    assert (lines[name].section, lines[step].section, lines[written].section) == ("core", "core", "others")
    assert all(line.weight is not None and line.weight > 0 for line in lines.values())
    assert explained.lines[0].section == "head"
    heading = next(line for line in explained.lines if line.text == OTHERS_HEADING)
    assert (heading.section, heading.memory, heading.reason, heading.weight) == ("others", None, None, None)
    budgets = {section.name: section.budget for section in explained.sections}
    assert (budgets["core"], budgets["recent"]) == (sum(ROLE_TOKENS.values()), RECENT_TOKENS)
    for section in explained.sections:
        assert section.tokens == sum(line.tokens for line in explained.lines if line.section == section.name)
    assert client.resume().explained is None


def test_a_resume_counts_what_was_replaced_repeated_or_had_no_room(client: Client) -> None:
    for number in range(30):
        text = f"Always note the number {number} of buoy {number * 7} in the log book of the boat"
        remember(client, f"{text}, and never leave the harbour before somebody else has read it.")
    remember(client, "I work at Siemens.")
    assert client.remember("I work at Bosch now.").updates
    remember(client, "We decided to keep the tiles in the bucket.")
    remember(client, "We decided to keep the tiles in the bucket!", dedup="off")
    remember(client, "Next step: write the runbook for the launch weekend.")
    remember(client, "Wrote the runbook for the launch weekend yesterday.")
    resume = client.resume(explain=True)
    assert resume.explained is not None
    core = next(section for section in resume.explained.sections if section.name == "core")
    assert core.left_out["over_budget"] > 0
    assert f"(+{core.left_out['over_budget']} more)" in resume.text
    assert {name: core.left_out.get(name) for name in ("replaced", "repetition", "done")} == {
        "replaced": 1, "repetition": 1, "done": 1
    }  # fmt: skip


def test_a_line_of_a_conversation_names_every_statement_in_it(client: Client) -> None:
    said = ["The boiler man Keith comes on Friday at nine.", "The plumber Ruth comes on Monday at ten."]
    client.turns(TurnsRequest(session_id="boat", turns=[Turn(role="user", content=text) for text in said]))
    resume = client.resume(explain=True)
    assert resume.explained is not None
    (line,) = [line for line in resume.explained.lines if line.text.startswith("[SESSION]")]
    assert line.reason == "said last in a conversation"
    assert len([line.memory, *line.more]) == 2


def test_the_lines_of_a_context_are_its_block_with_scores_and_reasons(client: Client) -> None:
    liked = remember(client, "Always answer in metric units.", kind="procedural", category="preference")
    pier = remember(client, "Pier four has a ferry\nat seven in the morning.")
    gate = remember(client, "Pier nine has a ferry and a gate.")
    for number in range(3):
        remember(client, f"The bakery sells bread number {number}.", kind="episodic")
    with Client(client.socket_path, client.namespace, agent="planner") as agent:
        written = remember(agent, "Pier two has a ferry to the island.")
    answer = client.context("which pier has a ferry?", cut="none", kinds=["semantic", "procedural"], explain=True)
    explained = answer.explained
    assert explained is not None
    assert "\n".join(line.text for line in explained.lines) == answer.block
    lines = shown(explained)
    assert [*lines] == answer.memories
    assert {lines[pier].section, lines[gate].section} == {"memories"}
    assert (lines[liked].section, lines[written].section) == ("preferences", "others")
    assert lines[pier].text.endswith("Pier four has a ferry\n  at seven in the morning.")
    assert (lines[pier].reason or "").startswith("has pier, ferry")
    assert (lines[liked].reason, lines[liked].weight) == ("an instruction, which comes first", None)
    assert (lines[pier].weight or 0) > 0
    assert sum(line.tokens for line in explained.lines) == answer.total_tokens
    assert {section.name: section.budget for section in explained.sections} == {
        "head": None, "preferences": 500, "memories": 2000, "others": 500
    }  # fmt: skip
    assert left_out(explained)["kinds"] == 3
    short = client.context("which pier has a ferry?", cut="none", explain=True, max_chars=120)
    assert short.explained is not None
    assert left_out(short.explained)["max_chars"] == 4 - len(short.memories)
    below = {each.id: each.reason for each in short.explained.below}
    assert below.keys() >= {liked, pier, gate, written} - {*short.memories}
    assert below.keys().isdisjoint(short.memories)
    assert {below[each] for each in below.keys() & {pier, gate, written}} == {"max_chars"}
    assert [each.score for each in short.explained.below] == sorted(
        (each.score for each in short.explained.below), reverse=True
    )


def test_the_block_of_m_and_an_empty_block_are_explained(client: Client) -> None:
    liked = [remember(client, f"I prefer {what} to sugar.") for what in ("honey", "syrup")]
    pier = remember(client, "Pier four has a ferry.")
    answer = client.context("which pier has a ferry?", cut="none", format="m", explain=True)
    assert answer.explained is not None
    assert "\n".join(line.text for line in answer.explained.lines) == answer.block
    lines = shown(answer.explained)
    (preferences,) = [line for line in lines.values() if line.section == "preferences"]
    assert sorted([preferences.memory or "", *preferences.more]) == sorted(liked)
    assert lines[pier].text.startswith("- [")
    assert sum(line.tokens for line in answer.explained.lines) == answer.total_tokens
    nothing = client.context("how old is the moon?", tags=["nowhere"], explain=True)
    assert nothing.explained is not None
    assert (nothing.block, nothing.explained.lines) == ("", [])
    assert left_out(nothing.explained)["tags"] == 3


def test_what_is_explained_counts_neither_as_used_nor_as_shown(client: Client) -> None:
    text = "The harbour office of Bergen opens at eight on weekdays only."
    remember(client, text)
    pier, gate = remember(client, "Pier four has a ferry."), remember(client, "The green gate is locked.")
    for explain in (True, False):
        client.context("when does the harbour office open?", cut="none", explain=explain)
        client.resume(explain=explain)
        turns = [Turn(role="agent", content=text)]
        (turn,) = client.turns(TurnsRequest(session_id=f"echo-{explain}", turns=turns)).results
        assert isinstance(turn, PieceAnswer)
        assert (turn.reason == "echo") is not explain
    client.context("which pier has a ferry?", cut="none", explain=True)
    client.context("which gate is locked?", cut="none")  # a use, which is written together with what came before
    wait_until(lambda: client.get(gate).access_count > 0)
    assert client.get(pier).access_count == 0
