"""The doctor finds what agents' hooks left undelivered, and entries of `mnemo setup` that have become wrong. SPEC 14"""

import io
import os
import sys
import time
from pathlib import Path

import pytest

from mnemo_client.cli import main
from mnemo_client.cli.agent_hooks.inbox import HookInbox, InboxFullError
from mnemo_client.cli.agent_setup import setup_clients
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination
from mnemo_client.cli.doctor.examination import CHECKS, run_row
from mnemo_client.cli.terminal import Terminal
from mnemo_client.client import Client
from tests.spec.test_doctor import examined
from tests.support.stub_daemon import StubDaemon, status

DAY = 24 * 3600


def results(name: str, seen: Examination, *, fixes: bool = False) -> list[DoctorCheck]:
    return run_row(next(row for row in CHECKS if row.name == name), seen, fixes=fixes)


def make_older(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def inbox(tmp_path: Path) -> HookInbox:
    return HookInbox(tmp_path / "data" / "run" / "hooks")


def test_exchanges_that_the_daemon_has_not_taken_are_found_with_their_age(tmp_path: Path, inbox: HookInbox) -> None:
    seen = examined(status(), tmp_path)

    def found() -> tuple[str, str]:
        (check,) = results("hooks", seen)
        assert bool(check.fix) is (check.outcome != "ok")
        return check.outcome, check.found

    assert found() == ("ok", "nothing waits for the daemon")
    inbox.keep_prompt("s", {"prompt": "Where is the key?"})
    assert found() == ("ok", "nothing waits for the daemon")  # its reply may still come
    inbox.add({"event": "reply", "reply": "With Ines."})
    assert found() == ("ok", "1 waits for the daemon")
    make_older(inbox.entries()[0], 720)
    assert found() == ("warn", "1 exchange not taken by the daemon, the oldest since 12 min 0 s")
    make_older(next(inbox.folder.glob("pending-*")), 2 * DAY)
    assert found() == ("warn", "2 exchanges not taken by the daemon, the oldest since 2 d 0 h")
    inbox.entries()[0].write_bytes(b'{"event": "rep')
    assert found() == ("fail", f"1 exchange of 2 cannot be read: {inbox.entries()[0]}")
    inbox.refuse(inbox.entries()[0])
    next(inbox.folder.glob("pending-*")).unlink()
    assert found() == ("warn", f"the daemon refused 1 exchange of agents; they are kept in {inbox.folder}")


def test_an_inbox_that_its_owner_cannot_read_is_found(tmp_path: Path, inbox: HookInbox) -> None:
    inbox.folder.parent.mkdir(parents=True)
    inbox.folder.touch()  # a file in its place: access() of a folder says yes to everything for root
    (check,) = results("hooks", examined(home=tmp_path))
    assert (check.outcome, check.fix) == ("fail", f"move {inbox.folder} elsewhere")
    inbox.folder.unlink()
    inbox.folder.mkdir(mode=0o000)
    (check,) = results("hooks", examined(home=tmp_path))
    inbox.folder.chmod(0o700)
    assert check.outcome == ("ok" if os.getuid() == 0 else "fail")


def test_fix_delivers_what_waits_to_the_daemon_that_runs(stub_daemon: StubDaemon, tmp_path: Path) -> None:
    seen = examined(status(), tmp_path)
    seen.environ = {**seen.environ, "MNEMO_SOCKET": str(stub_daemon.path)}
    box = HookInbox(tmp_path / "data" / "run" / "hooks")
    box.add({"event": "reply", "session_id": "s", "reply": "With Ines.", "agent": "codex"})
    make_older(box.entries()[0], 720)
    (check,) = results("hooks", seen, fixes=True)
    assert (check.outcome, check.fixed) == ("warn", "")  # without a daemon
    stub_daemon.say("POST /v1/hooks/reply", {"context": ""})
    stub_daemon.say("GET /v1/status", status())
    with Client(stub_daemon.path) as client:
        seen.client = client
        (check,) = results("hooks", seen, fixes=True)
    assert (check.outcome, check.fixed) == ("ok", "delivered 1 exchange of agents")
    assert [asked.body["reply"] for asked in stub_daemon.asked if asked.path == "/v1/hooks/reply"] == ["With Ines."]


class AgentUser:
    """Somebody whose agents are set up, with an executable `mnemo` that can be moved away."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.program = home / "venv" / "bin" / "mnemo"
        self.program.parent.mkdir(parents=True)
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(self.program.with_name("python")))
        self.environ = {**examined(home=home).environ, "PATH": ""}

    def set_up(self, *words: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        terminal = Terminal(out, err, self.environ)
        assert main.run(["setup", *words], terminal, self.environ, io.StringIO()) == 0, err.getvalue()

    def checks(self) -> list[DoctorCheck]:
        return results("agents", examined(home=self.home))


@pytest.fixture
def agent_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentUser:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return AgentUser(tmp_path, monkeypatch)


def test_a_home_without_agents_has_nothing_to_check(agent_user: AgentUser) -> None:
    (check,) = agent_user.checks()
    assert (check.outcome, check.found) == ("ok", "none is set up; connect one with: mnemo setup CLIENT")
    (agent_user.home / ".claude.json").write_text('{"mcpServers": {"mnemo": ')  # not ours, and nothing to us
    assert agent_user.checks()[0].outcome == "ok"


@pytest.mark.parametrize("client", [client.name for client in setup_clients.CLIENTS])
def test_entries_whose_command_is_gone_or_another_one_are_found_and_set_up_repairs_them(
    agent_user: AgentUser, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_user.set_up(client)
    assert [(check.outcome, check.found) for check in agent_user.checks()] == [("ok", client)]
    agent_user.program.chmod(0o644)
    broken = agent_user.checks()
    assert {check.outcome for check in broken} == {"fail"}
    assert all(str(agent_user.program) in check.found for check in broken)
    assert {check.fix for check in broken} == {f"mnemo setup {client}, or mnemo setup {client} --remove"}
    # Another installation, while the former one still exists
    agent_user.program.chmod(0o755)
    other = agent_user.program.with_name("other") / "mnemo"
    other.parent.mkdir()
    other.hardlink_to(agent_user.program)
    monkeypatch.setattr(sys, "executable", str(other.with_name("python")))
    assert {check.outcome for check in agent_user.checks()} == {"warn"}
    assert f"run {agent_user.program}, and this is {other}" in agent_user.checks()[0].found
    agent_user.set_up(client)
    assert [check.outcome for check in agent_user.checks()] == ["ok"]


def test_entries_of_an_earlier_version_are_found_and_those_without_hooks_are_complete(agent_user: AgentUser) -> None:
    for client in ("gemini", "claude-code"):
        agent_user.set_up(client, "--no-hooks")
    assert [check.outcome for check in agent_user.checks()] == ["ok"]
    agent_user.set_up("gemini")
    settings = agent_user.home / ".gemini" / "settings.json"
    settings.write_text(settings.read_text().replace("--keep", "--kept"))
    (check,) = agent_user.checks()
    assert (check.outcome, "are not those of this version" in check.found) == ("warn", True)


def test_entries_with_and_without_the_hook_of_steps_are_complete(agent_user: AgentUser) -> None:
    for words in (("claude-code",), ("claude-code", "--steps")):
        agent_user.set_up(*words)
        assert [check.outcome for check in agent_user.checks()] == ["ok"]


@pytest.mark.parametrize(
    ("size", "waiting"), [(10, 3), (60_000, 2)]
)  # by their number: 3 of 1,000; by 96 KiB of 32 MiB
def test_calls_of_tools_leave_room_for_what_is_said(inbox: HookInbox, size: int, waiting: int) -> None:
    call = {"event": "tool", "result": "x" * size}
    for _ in range(waiting):
        inbox.add(call, 0.003)
    with pytest.raises(InboxFullError, match=f"{waiting} others wait"):
        inbox.add(call, 0.003)
    inbox.add({"event": "reply"})
    assert len(inbox.entries()) == waiting + 1


def test_a_block_that_lost_its_mark_is_found_where_set_up_wrote_it(agent_user: AgentUser) -> None:
    agent_user.set_up("codex", "--no-hooks")
    config = agent_user.home / ".codex" / "config.toml"
    config.write_text(config.read_text().replace("# <<< mnemo", ""))
    (check,) = agent_user.checks()
    assert (check.outcome, "lost one of its two marks" in check.found) == ("fail", True)


def test_the_entries_of_the_project_in_the_working_directory_are_checked_too(agent_user: AgentUser) -> None:
    agent_user.set_up("cursor", "--project")
    agent_user.program.chmod(0o644)
    seen = examined(home=agent_user.home)
    seen.context.cwd = agent_user.home / "work"
    (check,) = results("agents", seen)
    assert check.fix == "mnemo setup cursor --project, or mnemo setup cursor --project --remove"
