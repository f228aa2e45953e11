"""The hooks of agents, through a daemon and through the command, with the settings of M. SPEC 11 [M]"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.sessions import HookRequest
from tests.support.running_daemon import RunningDaemon, running


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon that stores replies, and puts two memories before a prompt; one namespace follows M."""
    folder = tmp_path_factory.mktemp("h")
    (folder / "data").mkdir()
    (folder / "data" / "config.toml").write_text('[profiles]\nmilton = "M"\n')
    environ = {
        "MNEMO_MODELS_FOLDER": str(folder / "models"), "MNEMO_HOOKS_STORE_RESPONSES": "true",
        "MNEMO_HOOKS_CONTEXT_LIMIT": "2", "MNEMO_HOOKS_CONTEXT_MAX_CHARS": "400", "MNEMO_HOOKS_SESSION_START": "false",
        "MNEMO_HOOKS_TOOL": "false",
    }  # fmt: skip
    with running(folder / "data", environ) as daemon:
        yield daemon


def agent(daemon: RunningDaemon, namespace: str) -> Client:
    return Client(daemon.socket, namespace, entry_point="hook", agent="coder")


def test_M21_the_settings_limit_the_context_and_switch_each_hook_off(hooked: RunningDaemon) -> None:
    with agent(hooked, "limits") as client:
        for number in range(5):
            client.remember(f"The pelican nests on pier {number}.")
        found = client.hook("prompt", prompt="where does the pelican nest?")
        assert (len(found.memories), found.skipped) == (2, None)
        assert found.context.startswith("<memory>\n")
    with agent(hooked, "characters") as client:
        for number in range(2):
            client.remember(f"The pelican nests on pier {number}, " + "and eats fish " * 17)
        found = client.hook("prompt", prompt="where does the pelican nest?")
        assert (len(found.memories), len(found.context) <= 400) == (1, True)
        started = client.hook("session-start", session_id="s")
        assert (started.context, started.skipped) == ("", "`hooks.session_start` is off")


def test_M21_replies_are_not_stored_unless_that_is_set(daemon: RunningDaemon, hooked: RunningDaemon) -> None:
    said: dict[str, Any] = {
        "session_id": "s",
        "prompt": "The mast is 12 metres high.",
        "reply": "Noted, the mast has 12 metres.",
    }
    with agent(daemon, "plain") as client, agent(hooked, "plain") as storing:
        assert [each.memory.content for each in client.hook("reply", **said).results if each.memory] == [said["prompt"]]
        stored = [each.memory for each in storing.hook("reply", **said).results if each.memory]
        assert [(each.content, each.turn.role) for each in stored if each.turn] == [
            (said["prompt"], "user"), (said["reply"], "agent"),
        ]  # fmt: skip
        assert client.hook("reply", session_id="s", reply="Only a reply.").results == []


def test_M23_a_turn_of_a_hook_has_the_tag_of_its_agent_and_in_M_little_weight(hooked: RunningDaemon) -> None:
    with agent(hooked, "milton") as client:
        (turn, *_) = client.hook("reply", session_id="s", prompt="The anchor weighs 20 kilos.").results
        assert turn.memory is not None
        memory = turn.memory
    assert (memory.tags, memory.importance, memory.category) == (["agent:coder"], 0.2, "crumb")
    assert (memory.trust, memory.session_id, memory.source) == ("agent", "s", "turn")
    with agent(hooked, "own") as client:
        (turn, *_) = client.hook("reply", session_id="s", prompt="The anchor weighs 20 kilos.").results
        assert turn.memory is not None
        assert turn.memory.importance == 0.5


@pytest.mark.parametrize(("name", "tags"), [("deck\nhand", ["agent:deck hand"]), ("  ", [])])
def test_a_turn_of_an_agent_with_an_odd_name_is_stored(daemon: RunningDaemon, name: str, tags: list[str]) -> None:
    with Client(daemon.socket, "odd", entry_point="hook") as client:
        answer = client.hook("reply", session_id="s", prompt=f"The rope of {tags} is green.", agent_id=name)
    (turn,) = answer.results
    assert turn.memory is not None
    assert turn.memory.tags == tags


def test_M23_a_turn_that_is_refused_fails_no_hook(hooked: RunningDaemon) -> None:
    with agent(hooked, "refused") as client:
        longer_once_clean = "\u0958" * 8000  # a character whose normal form is two
        answer = client.hook("reply", session_id="s", prompt=longer_once_clean, reply="The mast was cut to 11 metres.")
    assert answer.skipped is not None
    assert "at most 8192" in answer.skipped
    assert [each.memory.content for each in answer.results if each.memory] == ["The mast was cut to 11 metres."]


def test_M23_a_prompt_that_no_turn_can_hold_is_stored_in_parts(hooked: RunningDaemon) -> None:
    lines = [f"Frame {number} is made of ash, and frame {number + 1000} of oak.\n" for number in range(200)]
    with agent(hooked, "parts") as client:
        answer = client.hook("reply", session_id="s", prompt="".join(lines) + "x" * 9000)
        stored = [each.memory.content for each in answer.results if each.memory]
    assert "\n".join(stored[:2]).splitlines() == "".join(lines).splitlines()
    assert stored[2:] == ["x" * 8192, "x" * 808]


LOG = "".join(
    f"12:{number % 60:02} worker {number} took job {number * 7} from queue {number % 9}\n" for number in range(1500)
)


@pytest.mark.parametrize("prompt", [f"{LOG}\nwhere does the cormorant dry?", f"where does the cormorant dry?\n{LOG}"])
def test_of_a_long_prompt_the_beginning_and_the_end_are_the_question(daemon: RunningDaemon, prompt: str) -> None:
    with agent(daemon, "pasted") as client:
        client.remember("The cormorant dries its wings on the breakwater.")
        found = client.hook("prompt", prompt=prompt)
        assert "breakwater" in found.context
        assert found.skipped == "the prompt is long: only its beginning and its end were searched for"
        assert client.hook("prompt", prompt=prompt).context == found.context
        context = client.context(prompt)
        assert ("breakwater" in context.block, context.query_cut) == (True, True)
        assert not client.context("where does the cormorant dry?").query_cut


def test_of_a_reply_of_a_megabyte_the_beginning_and_the_end_are_stored(hooked: RunningDaemon) -> None:
    lines = [f"Frame {number} is made of ash, and frame {number + 9000} of oak.\n" for number in range(8000)]
    with agent(hooked, "megabyte") as client:
        answer = client.hook("reply", session_id="s", prompt="".join(lines[:30]), reply="".join(lines))
        stored = [each.memory.content for each in answer.results if each.memory]
    assert (
        answer.skipped == f"only the beginning and the end of a text of {len(''.join(lines)):,} characters were stored"
    )
    assert len(stored) == 5
    assert stored[1].splitlines()[0] == lines[0].strip()
    assert stored[4].splitlines()[-1] == lines[-1].strip()


def test_the_hook_of_tools_can_be_switched_off_and_needs_a_session_and_a_tool(
    daemon: RunningDaemon, hooked: RunningDaemon
) -> None:
    with agent(hooked, "steps off") as client:
        assert client.hook("tool", session_id="s", tool="Bash").skipped == "`hooks.tool` is off"
        assert client.steps("s").steps == []
    for asked, field in ((HookRequest(session_id="s"), "tool"), (HookRequest(tool="Bash"), "session_id")):
        with agent(daemon, "steps") as client, pytest.raises(RefusalError) as refused:
            client.hook("tool", asked)
        assert (refused.value.status, refused.value.field) == (400, field)


def test_a_session_starts_with_its_resume_and_ends(daemon: RunningDaemon) -> None:
    with agent(daemon, "session") as client:
        assert client.hook("session-start", session_id="r").context == ""  # there is nothing to know yet
        client.hook("reply", session_id="s", prompt="The rudder was mended in May.")
        started = client.hook("session-start", session_id="t")
        assert started.context == client.resume().text
        assert "The rudder was mended in May." in started.context
        assert client.hook("session-end", session_id="s").skipped is None
        (turn,) = client.list_memories(source="turn").memories
        assert turn.turn is not None
        assert turn.turn.tier == "registry"


@pytest.mark.parametrize(
    ("event", "fields", "field"),
    [("prompt", {}, "prompt"), ("reply", {"prompt": "a"}, "session_id"), ("session-end", {}, "session_id")],
)
def test_a_hook_says_what_it_needs(daemon: RunningDaemon, event: str, fields: dict[str, Any], field: str) -> None:
    with agent(daemon, "needs") as client, pytest.raises(RefusalError) as refused:
        client.hook(event, **fields)
    assert refused.value.status == 400
    assert refused.value.field == field


def command(daemon: RunningDaemon, *words: str, stdin: str = "") -> tuple[int, str, str]:
    environ = os.environ | daemon.environ
    done = subprocess.run([sys.executable, "-m", "mnemo_client.cli.main", "hook", *words], input=stdin, text=True,
                          capture_output=True, env=environ, check=False)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_the_command_reads_json_or_text_and_prints_what_to_inject(daemon: RunningDaemon) -> None:
    with agent(daemon, "command") as client:
        client.remember("The pelican nests on pier 9.")
    for stdin in (
        "where does the pelican nest?",
        '{"session_id": "s", "prompt": "where does the pelican nest?", "x": 1}',
    ):
        code, out, _ = command(daemon, "prompt", "-n", "command", "--budget-ms", "60000", stdin=stdin)
        assert code == 0
        assert "The pelican nests on pier 9." in out


def test_the_command_fails_open(short_folder: Path, daemon: RunningDaemon) -> None:
    absent = RunningDaemon(short_folder / "data", {"MNEMO_AUTOSTART": "off"})
    code, out, error = command(absent, "prompt", stdin="where does the pelican nest?")
    assert (code, out) == (0, "")
    assert "the hook did nothing" in error
    code, out, error = command(daemon, "prompt", stdin="")
    assert (code, out) == (0, "")
    assert error.startswith("the hook did nothing: standard input has no prompt; give it as {"), "reason; remedy"
