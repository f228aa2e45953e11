"""The session of the OpenAI Agents SDK on the memory: its protocol, and an agent that goes on in the next process."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from agents import TResponseInputItem
from agents.memory import Session, SessionSettings

from mnemo_client.adapters import openai_agents as adapter
from mnemo_client.adapters.openai_agents import MnemoSession
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from tests.support.adapter_programs import run_example, run_program
from tests.support.running_daemon import RunningDaemon

CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Porto"}', "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "umbrella " * 4000}


def said(town: str) -> list[Any]:
    """The items of a conversation. Each test has a town of its own: what a recall has returned is no turn again."""
    forecast = {"type": "output_text", "text": f"The forecast for {town} is heavy rain all week.", "annotations": []}
    return [
        {"role": "user", "content": f"I travel to {town} on Sunday without a raincoat."},
        CALL,
        OUTPUT,
        {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [forecast]},
    ]


@pytest.fixture
def talk(daemon: RunningDaemon, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client in a namespace of the test."""
    with daemon.client(f"oa-{abs(hash(request.node.name)) % 10**8}") as client:
        yield client


def added(session: MnemoSession, *items: Any) -> list[TResponseInputItem]:
    asyncio.run(session.add_items(cast(list[TResponseInputItem], list(items))))
    return asyncio.run(session.get_items())


def test_items_are_kept_whole_and_in_order_and_tool_items_are_hidden_from_recall(talk: Client) -> None:
    items = said("Porto")
    session = MnemoSession("porto", talk)
    assert isinstance(session, Session)
    assert added(session, *items) == items
    assert asyncio.run(MnemoSession("porto", talk).get_items()) == items
    assert asyncio.run(MnemoSession("lisbon", talk).get_items()) == []
    recalled = [
        memory.content for memory in talk.recall("Who travels to Porto, and what is the forecast?", top_k=50).memories
    ]
    assert sorted(recalled) == [
        "I travel to Porto on Sunday without a raincoat.",
        "The forecast for Porto is heavy rain all week.",
    ]
    assert [(view.session_id, view.turns) for view in talk.list_sessions().sessions] == [("porto", 2)]


def test_a_limit_gives_the_last_items(talk: Client) -> None:
    items = said("Lisbon")
    session = MnemoSession("porto", talk, session_settings=SessionSettings(limit=2))
    assert added(session, *items) == items[2:]
    assert asyncio.run(session.get_items(3)) == items[1:]
    assert asyncio.run(session.get_items(0)) == []
    assert asyncio.run(session.get_items(9)) == items
    assert MnemoSession("porto", talk, session_settings={"limit": 2}).session_settings == session.session_settings


def test_items_are_popped_from_the_end_with_their_turns(talk: Client) -> None:
    items = said("Bergen")
    session = MnemoSession("porto", talk)
    added(session, *items)
    assert asyncio.run(session.pop_item()) == items[3]
    assert talk.recall("raincoat").memories[0].content == "I travel to Bergen on Sunday without a raincoat."
    assert [asyncio.run(session.pop_item()) for _ in range(4)] == [*items[2::-1], None]
    assert talk.list_memories().memories == []
    assert added(session, items[3], items[0]) == [items[3], items[0]]


def test_a_cleared_session_is_empty_and_others_stay(talk: Client) -> None:
    items = said("Cadiz")
    session, other = MnemoSession("porto", talk), MnemoSession("porto/2", talk, turns=False)
    added(session, *items)
    assert added(other, *items) == items
    asyncio.run(session.clear_session())
    assert (asyncio.run(session.get_items()), asyncio.run(other.get_items())) == ([], items)
    assert talk.recall("raincoat").memories == []
    assert len(talk.trash(limit=50).memories) == 10  # 4 items, one of them in 5 memories, and 2 turns


def test_equal_items_and_unusual_characters_are_all_kept(talk: Client) -> None:
    items = said("Genoa")
    odd = {"role": "user", "content": "a\u0000b \ud800 u\u0308\r\n\n\n\n  "}
    session = MnemoSession("odd", talk, turns=False)
    assert added(session, odd, items[0], items[0], odd, {"role": "user", "content": "will I"}) == [
        odd, items[0], items[0], odd, {"role": "user", "content": "will I"},
    ]  # fmt: skip
    assert added(session, {"role": "user", "content": "a<private>pin</private>b"})[-1] == {
        "role": "user", "content": "ab",
    }  # fmt: skip


def test_of_items_that_cannot_be_stored_none_is_added(talk: Client) -> None:
    items = said("Malmo")
    session = MnemoSession("porto", talk)
    with pytest.raises(TypeError):
        added(session, items[0], {"role": "user", "content": [object()]})
    assert asyncio.run(session.get_items()) == []
    with pytest.raises(ValueError, match="1 to 114"):
        MnemoSession("s" * 115, talk)
    with pytest.raises(MnemoError):
        added(MnemoSession("s", Client("no-such.sock")), items[0])


def test_items_stay_after_the_lifecycle_had_its_turn(talk: Client) -> None:
    items = said("Riga")
    session = MnemoSession("porto", talk)
    added(session, *items)
    talk.end_session("porto")
    talk.consolidate()
    assert asyncio.run(session.get_items()) == items


SCRIPTED = "from agents.testing import ScriptedModel, assistant_message\n"


def test_the_example_of_the_module_runs(daemon: RunningDaemon) -> None:
    model = "model = ScriptedModel([[assistant_message('Hello Ines.')], [assistant_message('Ines.')]])\n"
    lines = run_example(adapter, daemon, before=SCRIPTED + model)
    assert lines["session.session_id"] == "'support-42'"
    assert lines["Runner.run_sync"] == "'Ines.'"


AGENT = (
    SCRIPTED
    + """
import json, sys
from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import function_call
from mnemo_client.adapters.openai_agents import MnemoSession

@function_tool
def depth(harbour: str) -> str:
    return f"{harbour}: 4 m"

class FromHistory(ScriptedModel):  # scripted: it answers the second question from the items that it is given
    async def get_response(self, *args, **options):
        given = options.get("input", args[1] if len(args) > 1 else None)
        self.seen = json.dumps(given)
        return await super().get_response(*args, **options)

if sys.argv[1] == "first":
    script = [[function_call("depth", {"harbour": "Kiel"}, call_id="c1")], [assistant_message("Kiel is 4 m deep.")]]
    question = "How deep is the harbour of Kiel?"
else:
    script, question = [[assistant_message("As I said.")]], "And what did you find out before?"
model = FromHistory(script)
agent = Agent(name="Pilot", model=model, tools=[depth])
result = Runner.run_sync(agent, question, session=MnemoSession("pilot"), run_config=RunConfig(tracing_disabled=True))
print(result.final_output, "Kiel: 4 m" in model.seen, "How deep" in model.seen)
"""
)


def test_an_agent_goes_on_in_the_next_process(daemon: RunningDaemon) -> None:
    assert run_program(AGENT, daemon, "first") == "Kiel is 4 m deep. True True\n"
    assert run_program(AGENT, daemon, "second") == "As I said. True True\n"
