"""The hooks of agents as whole processes: with the JSON of each agent, and a daemon that hangs, is absent or babbles.

No time is asserted: tests/bench/bench_cli.py measures how long a hook takes. SPEC 11.2"""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client import process
from mnemo_client.protocol.memories import MemoryView
from mnemo_core.retrieval.context_block import OTHERS_HEADING
from tests.support.running_daemon import RunningDaemon, running

SECONDS_MAX = 60.0  # for what happens in the background, on a machine with much else to do


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon that stores replies, too."""
    folder = tmp_path_factory.mktemp("h")
    environ = {"MNEMO_MODELS_FOLDER": str(folder / "models"), "MNEMO_HOOKS_STORE_RESPONSES": "true"}
    with running(folder / "data", environ) as daemon:
        yield daemon


def hook(daemon: RunningDaemon, *words: str, given: object = None, raw: bytes | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of `mnemo hook`, which has a minute unless its words limit it."""
    data = json.dumps(given).encode() if raw is None else raw
    words = words if "--budget-ms" in words else (*words, "--budget-ms", "60000")
    done = subprocess.run([sys.executable, "-m", "mnemo_client.cli.main", "hook", *words], input=data,
                          capture_output=True, env=daemon.environ, check=False, timeout=SECONDS_MAX)  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def inbox(daemon: RunningDaemon, beginning: str = "") -> list[Path]:
    folder = daemon.folder / "run" / "hooks"
    found = sorted(folder.iterdir()) if folder.exists() else []
    return [path for path in found if path.name.startswith(beginning) and path.name != "lock"]


def wait_until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stored(daemon: RunningDaemon, namespace: str) -> list[MemoryView]:
    with daemon.client(namespace) as client:
        return sorted(client.list_memories(source="turn").memories, key=lambda each: each.id)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder inside of a project with a namespace of its own."""
    (tmp_path / "sail" / "deck").mkdir(parents=True)
    (tmp_path / "sail" / ".mnemo.toml").write_text(f'namespace = "{tmp_path.name[-20:]}"\n')
    return tmp_path / "sail" / "deck"


def claude(event: str, folder: Path, **fields: object) -> dict[str, object]:
    """The JSON of Claude Code for a hook; that of Codex has the same fields and some more."""
    common = {"session_id": "s-1", "transcript_path": "t.jsonl", "cwd": str(folder), "permission_mode": "default"}
    return {**common, "hook_event_name": event, **fields}


def test_an_exchange_is_stored_after_the_reply_in_the_namespace_of_the_agents_folder(
    listening: RunningDaemon, project: Path
) -> None:
    namespace = project.parent.parent.name[-20:]
    with listening.client(namespace) as client:
        client.remember("The pelican nests on pier 9.")
    prompt = claude("UserPromptSubmit", project, prompt="Where does the pelican nest? Ines comes on Friday.")
    code, out, error = hook(listening, "prompt", "--keep", "--agent", "claude-code", given=prompt)
    assert (code, error) == (0, "")
    assert "The pelican nests on pier 9." in out
    assert stored(listening, namespace) == []
    (kept,) = inbox(listening)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    said_at = json.loads(kept.read_bytes())["at"]
    stop = claude("Stop", project, stop_hook_active=False, last_assistant_message="On pier 9, beside the crane.")
    assert hook(listening, "stop", "--agent", "claude-code", given=stop) == (0, "", "")
    wait_until(lambda: not inbox(listening))
    turns = stored(listening, namespace)
    assert [(each.content, each.turn.role) for each in turns if each.turn] == [
        ("Where does the pelican nest? Ines comes on Friday.", "user"),
        ("On pier 9, beside the crane.", "agent"),
    ]
    assert {(each.session_id, each.trust, *each.tags) for each in turns} == {("s-1", "agent", "agent:claude-code")}
    assert {each.event_at for each in turns} == {said_at}


def test_the_event_of_gemini_brings_prompt_and_reply_and_gets_json(listening: RunningDaemon, tmp_path: Path) -> None:
    with listening.client("gemini") as client:
        client.remember("The lighthouse keeper is Odile.")
    given = claude("BeforeAgent", tmp_path, prompt="Who is the lighthouse keeper?")
    code, out, _ = hook(listening, "prompt", "--format", "json", "-n", "gemini", given=given)
    output = json.loads(out)["hookSpecificOutput"]
    assert (code, output["hookEventName"]) == (0, "BeforeAgent")
    assert "The lighthouse keeper is Odile." in output["additionalContext"]
    after = claude("AfterAgent", tmp_path, prompt="Who is the lighthouse keeper?", prompt_response="Odile keeps it.")
    assert hook(listening, "stop", "--format", "json", "-n", "gemini", given=after) == (0, "", "")
    wait_until(lambda: not inbox(listening))
    assert [each.content for each in stored(listening, "gemini")] == [
        "Who is the lighthouse keeper?", "Odile keeps it.",
    ]  # fmt: skip


def test_a_session_starts_with_its_resume_and_its_last_prompt_is_stored_at_its_end(
    listening: RunningDaemon, project: Path
) -> None:
    namespace = project.parent.parent.name[-20:]
    for prompt in ("The old mast was 11 metres high.", "No, it was 12 metres high."):  # interrupted: no `stop` between
        hook(listening, "prompt", "--keep", given=claude("UserPromptSubmit", project, prompt=prompt))
    assert hook(listening, "session-end", given=claude("SessionEnd", project, reason="exit")) == (0, "", "")
    wait_until(lambda: not inbox(listening))
    turns = stored(listening, namespace)
    assert [each.content for each in turns] == ["The old mast was 11 metres high.", "No, it was 12 metres high."]
    assert {each.turn.tier for each in turns if each.turn} == {"registry"}
    code, out, _ = hook(listening, "session-start", given=claude("SessionStart", project, source="startup"))
    assert code == 0
    assert "No, it was 12 metres high." in out


def bash(folder: Path, command: str, **came: object) -> dict[str, object]:
    """The JSON of Claude Code after a call of its tool Bash."""
    event = "PostToolUseFailure" if "error" in came else "PostToolUse"
    given = {"command": command, "description": "Do it"}
    return claude(event, folder, tool_name="Bash", tool_input=given, tool_use_id="toolu_01ABC123", **came)


def steps(daemon: RunningDaemon, namespace: str) -> list[MemoryView]:
    with daemon.client(namespace) as client:
        return client.steps("s-1").steps


SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def test_the_calls_of_an_agent_are_steps_of_its_session_and_nothing_that_the_person_said(
    listening: RunningDaemon, tmp_path: Path
) -> None:
    calls = (
        bash(tmp_path, f"ferry deploy --token {SECRET}",
             tool_response={"stdout": "I prefer the ferry to Oslo\nbye", "stderr": "", "interrupted": False}),
        bash(tmp_path, "ferry test", error="Exit code 1", is_interrupt=False),
        claude("PostToolUse", tmp_path, tool_name="mcp__mnemo__memory_recall", tool_input={"query": "ferry"},
               tool_response=[{"type": "text", "text": "what was recalled"}]),
    )  # fmt: skip
    with listening.client("ferry") as client:
        client.remember("The ferry leaves at seven.")
    for given in calls:
        assert hook(listening, "tool", "-n", "ferry", "--agent", "claude-code", given=given) == (0, "", "")
    wait_until(lambda: not inbox(listening))
    first, second = steps(listening, "ferry")
    assert first.trace is not None
    assert second.trace is not None
    assert first.trace.action.startswith("Bash: command=ferry deploy --token [masked:github_token:")
    assert first.trace.outcome == "done: I prefer the ferry to Oslo…"
    assert (second.trace.action, second.trace.outcome) == (
        "Bash: command=ferry test, description=Do it", "failed: Exit code 1",
    )  # fmt: skip
    assert (first.trust, first.source, first.importance, first.session_id, first.agent_id) == (
        "tool", "hook", 0.1, "s-1", "claude-code",
    )  # fmt: skip
    assert not [path for path in listening.folder.rglob("*")
                if path.is_file() and SECRET[4:].encode() in path.read_bytes()]  # fmt: skip
    with listening.client("ferry") as client:
        said = ["The ferry leaves at seven."]
        assert [each.content for each in client.recall("ferry to Oslo", dry=True).memories] == said
        assert [each.content for each in client.recent().memories] == said
        assert len(client.recall("ferry deploy", dry=True, min_importance=0.0).memories) == 3
        for text in (client.resume().text, client.context("ferry to Oslo").block, str(client.profile())):
            assert "Bash" not in text
            assert "Oslo" not in text
    assert hook(listening, "session-end", "-n", "ferry", given=claude("SessionEnd", tmp_path))[0] == 0
    wait_until(lambda: not inbox(listening))
    with listening.client("ferry") as client:
        summary = client.steps("s-1").summary
        assert summary is not None
        assert (summary.trust, summary.importance, summary.derived_from) == ("tool", 0.8, [first.id, second.id])
        resume, _, _ = client.resume().text.partition(OTHERS_HEADING)
        assert "The ferry leaves at seven." in resume
        assert "Bash" not in resume
        block, _, _ = client.context("ferry to Oslo").block.partition(OTHERS_HEADING)
        assert "Bash" not in block
        assert "Bash" not in str(client.profile())


def test_a_session_without_steps_ends_without_a_summary(listening: RunningDaemon, tmp_path: Path) -> None:
    assert hook(listening, "session-end", "-n", "calm", given=claude("SessionEnd", tmp_path)) == (0, "", "")
    wait_until(lambda: not inbox(listening))
    with listening.client("calm") as client:
        assert client.list_memories().memories == []


def test_a_call_that_no_daemon_takes_waits_until_one_runs(short_folder: Path, tmp_path: Path) -> None:
    environ = {"MNEMO_AUTOSTART": "off", "MNEMO_MODELS_FOLDER": str(short_folder / "models")}
    place = RunningDaemon(short_folder / "data", environ)
    given = bash(tmp_path, "make", tool_response={"stdout": "built", "stderr": ""})
    assert hook(place, "tool", "-n", "built", given=given) == (0, "", "")
    (waiting,) = inbox(place)
    assert stat.S_IMODE(waiting.stat().st_mode) == 0o600
    place.start()
    try:
        assert hook(place, "tool", "-n", "built", given=given) == (0, "", "")
        wait_until(lambda: not inbox(place))
        assert [step.trace.step_number for step in steps(place, "built") if step.trace] == [1, 2]
    finally:
        place.stop()


def test_the_hook_reply_stores_a_kept_prompt_once(listening: RunningDaemon, tmp_path: Path) -> None:
    said = claude("UserPromptSubmit", tmp_path, prompt="The spare key is with Ines.")
    hook(listening, "prompt", "--keep", "-n", "once", given=said)
    assert hook(listening, "reply", "-n", "once", given=said)[0] == 0
    assert inbox(listening) == []
    assert [each.content for each in stored(listening, "once")] == ["The spare key is with Ines."]


@contextlib.contextmanager
def suspended(daemon: RunningDaemon) -> Iterator[None]:
    """The daemon hangs: its socket takes connections, and nothing answers."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_hooks_end_while_the_daemon_hangs_and_what_was_said_is_stored_when_it_goes_on(
    listening: RunningDaemon, tmp_path: Path
) -> None:
    with suspended(listening):
        said = claude("UserPromptSubmit", tmp_path, prompt="The anchor weighs 20 kilos.")
        code, out, error = hook(listening, "prompt", "--keep", "--budget-ms", "300", "-n", "hung", given=said)
        assert (code, out) == (0, "")
        assert error.startswith("the hook did nothing within its 300 ms: ")
        assert error.count("\n") == 1
        code, out, error = hook(listening, "session-start", "--budget-ms", "50", "-n", "hung", given=said)
        assert (code, out) == (0, "")
        assert "within its 50 ms" in error
        assert hook(listening, "stop", "-n", "hung", given=claude("Stop", tmp_path)) == (0, "", "")
        (waiting,) = inbox(listening, "entry-")
        assert json.loads(waiting.read_bytes())["prompt"] == "The anchor weighs 20 kilos."
    wait_until(lambda: not inbox(listening))
    assert [each.content for each in stored(listening, "hung")] == ["The anchor weighs 20 kilos."]


def test_a_daemon_that_does_not_run_is_started_in_the_background(short_folder: Path) -> None:
    environ = {
        "MNEMO_MODELS_FOLDER": str(short_folder / "models"), "MNEMO_CONFIG": str(short_folder / "config.toml"),
    }  # fmt: skip
    (short_folder / "config.toml").write_text("")
    absent = RunningDaemon(short_folder / "data", environ)
    code, out, error = hook(absent, "prompt", given={"prompt": "where does the pelican nest?"})
    assert (code, out, error) == (0, "", "the hook did nothing: no daemon ran; it is being started\n")
    wait_until(lambda: process.is_listening(absent.socket))
    with absent.client() as client:
        wait_until(lambda: client.health().state)
        process.stop(client)


def test_no_daemon_is_started_if_that_is_switched_off(short_folder: Path, tmp_path: Path) -> None:
    absent = RunningDaemon(short_folder / "data", {"MNEMO_AUTOSTART": "off"})
    for event in ("prompt", "session-start", "reply"):
        code, out, error = hook(absent, event, given=claude("x", tmp_path, prompt="one"))
        assert (code, out) == (0, "")
        assert "no daemon listens on" in error
        assert error.count("\n") == 1
    assert hook(absent, "stop", given=claude("Stop", tmp_path, prompt="two")) == (0, "", "")
    assert [json.loads(path.read_bytes())["prompt"] for path in inbox(absent)] == ["two"]
    os.utime(inbox(absent)[0], (0, 0))
    _, _, error = hook(absent, "stop", given=claude("Stop", tmp_path, prompt="three"))
    assert error.startswith("exchanges that wait for the daemon: 2, for ")


def slow_drip(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:  # every piece comes in time, the whole never
            connection.sendall(b" ")
            time.sleep(0.02)


def babble(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-something\r\n")


def wrong_json(connection: socket.socket) -> None:
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"context": 5}')


def endless(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")


@contextlib.contextmanager
def impostor(path: Path, act: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something that listens on the daemon's socket, reads a request and acts."""
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    act(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(SECONDS_MAX)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (slow_drip, "did not answer in time"),
        (babble, "is not a mnemo daemon"),
        (wrong_json, "is not that of a hook"),
        (endless, "the daemon's answer has more than"),
    ],
)
def test_a_hook_fails_open_whatever_answers(
    short_folder: Path, act: Callable[[socket.socket], None], reason: str
) -> None:
    place = RunningDaemon(short_folder / "data")
    budget = "300" if act is slow_drip else "60000"
    with impostor(place.socket, act):
        code, out, error = hook(place, "prompt", "--budget-ms", budget, given={"prompt": "one"})
    assert (code, out) == (0, "")
    assert reason in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "raw", "reason"),
    [
        (("promt",), b"{}", "must be one of"),  # wrong usage would refuse the prompt: exit code 2
        (("prompt", "--budget-ms", "soon"), b"{}", "must be a whole number"),
        (("prompt",), b"", "standard input has no prompt"),
        (("prompt",), b"[1]", "" ),
        (("prompt",), b'{"prompt": 5}', "standard input has no prompt"),
        (("stop",), b"\xff\xfe not JSON", "standard input names no session"),
        (("session-end",), b'{"session_id": "\\u0000"}', "standard input names no session"),
        (("stop",), b"[" * 100_000, "standard input names no session"),
        (("tool",), b'{"tool_name": "Bash"}', "standard input names no session"),
        (("tool",), b'{"session_id": "s", "tool_name": 5}', "standard input names no tool"),
    ],
)  # fmt: skip
def test_wrong_input_never_fails_a_hook(
    listening: RunningDaemon, words: tuple[str, ...], raw: bytes, reason: str
) -> None:
    code, _, error = hook(listening, *words, raw=raw)
    assert code == 0
    assert reason in error


def test_the_name_of_an_agents_folder_cannot_control_the_terminal(listening: RunningDaemon, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b]0;title\x07"
    folder.mkdir()
    (folder / ".mnemo.toml").write_text("namespace = 5\n")
    code, out, error = hook(listening, "prompt", given=claude("UserPromptSubmit", folder, prompt="Where is it?"))
    assert (code, out) == (0, "")
    assert "names no namespace" in error
    assert error.strip().isprintable()


def test_a_broken_namespace_file_does_not_fail_a_hook(listening: RunningDaemon, tmp_path: Path) -> None:
    (tmp_path / ".mnemo.toml").write_text("namespace = [")
    code, out, error = hook(listening, "prompt", given=claude("UserPromptSubmit", tmp_path, prompt="one"))
    assert (code, out) == (0, "")
    assert "cannot be read" in error
    assert error.count("\n") == 1


def test_a_pipe_that_stays_open_does_not_hold_up_the_hook(listening: RunningDaemon) -> None:
    command = [sys.executable, "-m", "mnemo_client.cli.main", "hook", "prompt", "--budget-ms", "300"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=listening.environ) as run:  # fmt: skip
        assert run.stdin is not None
        assert run.stderr is not None
        run.stdin.write(b'{"prompt": ')
        run.stdin.flush()
        assert run.wait(SECONDS_MAX) == 0
        assert "standard input was not closed in time" in run.stderr.read().decode()


def test_a_hook_imports_nothing_from_the_folder_of_the_agent(listening: RunningDaemon, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')\nraise SystemExit('taken over')\n")
    script = Path(sys.executable).with_name("mnemo")
    given = json.dumps(claude("Stop", tmp_path, prompt="six")).encode()
    subprocess.run([script, "hook", "stop", "-n", "foreign"], input=given, env=listening.environ, cwd=tmp_path,
                   check=True, timeout=SECONDS_MAX)  # fmt: skip
    wait_until(lambda: not inbox(listening))
    assert [each.content for each in stored(listening, "foreign")] == ["six"]
    assert not (tmp_path / "taken").exists()


def test_what_the_daemon_refuses_is_kept_and_reported_and_holds_up_nothing(
    listening: RunningDaemon, tmp_path: Path
) -> None:
    folder = listening.folder / "run" / "hooks"
    folder.mkdir(mode=0o700, exist_ok=True)
    refused = folder / "entry-00000000000000000001-1.json"
    refused.write_text(json.dumps({"event": "reply", "session_id": "s" * 500, "prompt": "one", "namespace": "late"}))
    damaged = folder / "entry-00000000000000000002-1.json"
    damaged.write_bytes(b"{")
    hook(listening, "stop", "-n", "late", given=claude("Stop", tmp_path, prompt="The boom is made of ash."))
    wait_until(lambda: not inbox(listening, "entry-") or all(path.suffix == ".refused" for path in inbox(listening)))
    wait_until(lambda: stored(listening, "late"))
    assert [each.content for each in stored(listening, "late")] == ["The boom is made of ash."]
    assert [path.suffix for path in inbox(listening)] == [".refused", ".refused"]
    _, _, error = hook(listening, "stop", "-n", "late", given=claude("Stop", tmp_path, prompt="seven"))
    assert error == f"exchanges that the daemon refused: 2, in {folder}/*.refused\n"
    wait_until(lambda: len(inbox(listening)) == 2)
    for path in inbox(listening):
        path.unlink()
