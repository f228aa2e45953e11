"""`mnemo setup`: every file of every client, before and after, and all that can be in the way. SPEC 14"""

import gc
import io
import json
import os
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mnemo_client.cli import main
from mnemo_client.cli.agent_setup import setup_clients
from mnemo_client.cli.agent_setup.editors import JsonEditor, JsonEntry
from mnemo_client.cli.agent_setup.json_text import read_json
from mnemo_client.cli.terminal import Terminal
from mnemo_client.protocol.choices import SETUP_CLIENTS

PROGRAM = str(Path(sys.executable).with_name("mnemo"))
# The clients that need no part of the installation besides the command
CONFIGURED = [client.name for client in setup_clients.CLIENTS if not client.plugin]


class ConfigOwner(NamedTuple):
    """Somebody with a home folder of their own, who works in the folder `work` in it."""

    home: Path
    environ: dict[str, str]

    def give(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output and messages of a command."""
        out, err = io.StringIO(), io.StringIO()
        code = main.run(["setup", *words], Terminal(out, err, self.environ), self.environ, io.StringIO())
        return code, out.getvalue(), err.getvalue()

    def tree(self) -> dict[str, bytes | str]:
        """Every file with its bytes, and every link, but for the data folder."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.home.rglob("*")):
            name = str(path.relative_to(self.home))
            if path.is_symlink():
                found[name] = str(path.readlink())
            elif path.is_file() and not name.startswith(".local"):
                found[name] = path.read_bytes()
        return found

    def write(self, name: str, text: str, mode: int = 0o640) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(mode)
        return path


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConfigOwner:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return ConfigOwner(tmp_path, {"HOME": str(tmp_path), "PATH": ""})


# A file that a person has, and the same file afterwards. PROGRAM stands for the path of the command.
EXISTING = {
    "claude-code": (".claude.json", '{\n  "numStartups": 7,\n  "mcpServers": {}\n}\n', """\
{
  "numStartups": 7,
  "mcpServers": {
    "mnemo": {
      "type": "stdio",
      "command": "PROGRAM",
      "args": [
        "mcp"
      ]
    }
  }
}
"""),
    "codex": (".codex/config.toml", '# mine\nmodel = "o5"  # the large one\n\n[mcp_servers.files]\ncommand = "f"', """\
# mine
model = "o5"  # the large one

[mcp_servers.files]
command = "f"
# >>> mnemo: written by `mnemo setup codex`, which replaces these lines; `mnemo setup codex --remove` removes them
[mcp_servers.mnemo]
command = "PROGRAM"
args = ["mcp"]
# <<< mnemo
"""),
    "cursor": (".cursor/mcp.json", '{"mcpServers": {"files": {"command": "f"}}}', """\
{"mcpServers": {"files": {"command": "f"}, "mnemo": {"command": "PROGRAM", "args": ["mcp"]}}}"""),
    "vscode": (
        f"{'Library/Application Support' if sys.platform == 'darwin' else '.config'}/Code/User/mcp.json",
        '{\r\n\t// my servers\r\n\t"servers": {\r\n\t\t"files": {"command": "f"}, // of the team\r\n\t},\r\n}\r\n',
        '{\r\n\t// my servers\r\n\t"servers": {\r\n\t\t"files": {"command": "f"}, // of the team\r\n'
        '\t\t"mnemo": {\r\n\t\t\t"type": "stdio",\r\n\t\t\t"command": "PROGRAM",\r\n\t\t\t"args": [\r\n'
        '\t\t\t\t"mcp"\r\n\t\t\t]\r\n\t\t},\r\n\t},\r\n}\r\n',
    ),
    "zed": (".config/zed/settings.json", """\
// Zed settings
{
    "theme": "One", // {not a brace
    "context_servers": {
        "files": { "command": "f" } /* the last */
    },
    "vim_mode": true,
}
""", """\
// Zed settings
{
    "theme": "One", // {not a brace
    "context_servers": {
        "files": { "command": "f" }, /* the last */
        "mnemo": {
            "command": "PROGRAM",
            "args": [
                "mcp"
            ],
            "env": {}
        }
    },
    "vim_mode": true,
}
"""),
    "gemini": (".gemini/settings.json", '\ufeff{\n  "a": "\\u007b"\n}', None),
    "opencode": (".config/opencode/opencode.jsonc", '{\n  "mcp": {\n    // none yet\n  }\n}\n', """\
{
  "mcp": {
    // none yet
    "mnemo": {
      "type": "local",
      "command": [
        "PROGRAM",
        "mcp"
      ],
      "enabled": true
    }
  }
}
"""),
}  # fmt: skip


@pytest.mark.parametrize("client", EXISTING)
def test_entries_join_what_a_file_has_and_leave_it_to_the_byte(user: ConfigOwner, client: str) -> None:
    name, before, after = EXISTING[client]
    file = user.write(name, before)
    untouched = user.tree()
    code, out, _ = user.give(client)
    assert (code, str(name) in out) == (0, True)
    if after is not None:
        assert file.read_bytes().decode().replace(PROGRAM, "PROGRAM") == after
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    (backup,) = [path for path in (user.home / ".local/share/mnemo/setup").iterdir() if path.name != "records.json"]
    assert backup.read_bytes() == before.encode()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    written = user.tree()
    assert user.give(client)[1].endswith("is set up already; nothing was changed\n")
    assert user.tree() == written
    assert user.give(client, "--remove")[0] == 0
    assert user.tree() == untouched
    assert user.give(client, "--remove")[0] == 3


@pytest.mark.parametrize("client", CONFIGURED)
def test_a_client_without_files_gets_them_and_loses_them(user: ConfigOwner, client: str) -> None:
    assert user.give(client)[0] == 0
    written = user.tree()
    for name, data in written.items():
        assert isinstance(data, bytes)
        assert PROGRAM in str((tomllib.loads if name.endswith(".toml") else json.loads)(data.decode()))
    assert user.give(client)[1].endswith("nothing was changed\n")
    assert user.tree() == written
    assert user.give(client, "--remove")[0] == 0
    assert user.tree() == {}
    assert not [path for path in user.home.iterdir() if path.name not in {"work", ".local", ".config", "Library"}]


@pytest.mark.parametrize("client", CONFIGURED)
def test_a_dry_run_and_printing_write_nothing(user: ConfigOwner, client: str) -> None:
    if client in EXISTING:
        user.write(*EXISTING[client][:2])
    untouched = user.tree()
    code, out, err = user.give(client, "--dry-run")
    assert (code, err) == (0, "nothing was written\n")
    assert [line for line in out.splitlines() if line.startswith("+") and PROGRAM in line]
    code, out, _ = user.give(client, "--print")
    assert code == 0
    assert PROGRAM in out
    assert user.tree() == untouched
    assert not (user.home / ".local").exists()


def hooks_of(file: Path) -> dict[str, list[str]]:
    """The commands of each event."""
    events = json.loads(file.read_text())["hooks"]
    return {event: [hook["command"] for group in groups for hook in group["hooks"]] for event, groups in events.items()}


def test_hooks_are_written_for_the_agents_that_have_them(user: ConfigOwner) -> None:
    for client in ("claude-code", "codex", "gemini"):
        user.give(client)
    assert hooks_of(user.home / ".claude" / "settings.json") == {
        "SessionStart": [f"{PROGRAM} hook session-start --agent claude-code"],
        "UserPromptSubmit": [f"{PROGRAM} hook prompt --keep --agent claude-code"],
        "Stop": [f"{PROGRAM} hook stop --agent claude-code"],
        "SessionEnd": [f"{PROGRAM} hook session-end --agent claude-code"],
    }
    assert list(hooks_of(user.home / ".codex" / "hooks.json")) == ["SessionStart", "UserPromptSubmit", "Stop"]
    assert hooks_of(user.home / ".gemini" / "settings.json") == {
        "SessionStart": [f"{PROGRAM} hook session-start --format json --agent gemini-cli"],
        "BeforeAgent": [f"{PROGRAM} hook prompt --keep --format json --agent gemini-cli"],
        "AfterAgent": [f"{PROGRAM} hook stop --agent gemini-cli"],
        "SessionEnd": [f"{PROGRAM} hook session-end --agent gemini-cli"],
    }


def test_without_hooks_only_the_server_is_written_and_both_are_removed(user: ConfigOwner) -> None:
    user.give("claude-code", "--no-hooks")
    assert list(user.tree()) == [".claude.json"]
    user.give("claude-code")
    assert set(user.tree()) == {".claude.json", ".claude/settings.json"}
    user.give("claude-code", "--remove", "--no-hooks")
    assert user.tree() == {}


@pytest.mark.parametrize(
    ("client", "file", "events"),
    [
        ("claude-code", ".claude/settings.json", ["PostToolUse", "PostToolUseFailure"]),
        ("codex", ".codex/hooks.json", ["PostToolUse"]),
        ("gemini", ".gemini/settings.json", ["AfterTool"]),
    ],
)
def test_the_hook_of_steps_is_written_on_request_renewed_where_it_is_and_removed(
    user: ConfigOwner, client: str, file: str, events: list[str]
) -> None:
    user.give(client)
    without = hooks_of(user.home / file)
    assert not without.keys() & set(events)
    assert user.give(client, "--steps")[0] == 0
    written = hooks_of(user.home / file)
    added = {event: commands for event, commands in written.items() if event not in without}
    agent = {"gemini": "gemini-cli"}.get(client, client)
    assert added == {event: [f"{PROGRAM} hook tool --agent {agent}"] for event in events}
    assert user.give(client)[1].endswith("nothing was changed\n")
    assert user.give(client, "--remove")[0] == 0
    assert user.tree() == {}
    user.give(client, "--steps")
    settings = user.home / file
    settings.write_text(settings.read_text().replace(PROGRAM, "/old/bin/mnemo"))
    user.give(client)
    assert hooks_of(settings) == written


def test_steps_are_refused_where_no_hook_can_record_them(user: ConfigOwner) -> None:
    assert user.give("cursor", "--steps")[0] == 2
    code, _, err = user.give("claude-code", "--steps", "--no-hooks")
    assert (code, "--no-hooks" in err) == (2, True)
    assert user.tree() == {}


EDITORS = {
    "neovim": (
        ".config/nvim/plugin/mnemo-setup.lua",
        ["nvim", "--headless", "-i", "NONE", "-c", "lua io.stdout:write(vim.fn.exists(':MnemoRecall') .. ' ' .. "
         "require('mnemo.config').options.command)", "-c", "qa!"],
        "2 ",
    ),
    "emacs": (
        ".emacs.d/init.el",
        ["emacs", "--batch", "-l", "HOME/.emacs.d/init.el", "--eval",
         "(princ (format \"%s %s\" (commandp 'mnemo-recall) mnemo-command))"],
        "t ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("client", EDITORS)
def test_an_editor_loads_our_client_with_the_lines_of_the_setup(user: ConfigOwner, client: str) -> None:
    name, command, answer = EDITORS[client]
    environ = {**user.environ, "PATH": os.environ["PATH"]}
    before = "" if client == "neovim" else ";; mine\n(setq x 1)"
    if before:
        user.write(name, before)
    assert user.give(client)[0] == 0
    words = [word.replace("HOME", str(user.home)) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, check=True, timeout=60)
    assert done.stdout == answer + PROGRAM, done.stderr
    assert user.give(client)[1].endswith("nothing was changed\n")
    assert user.give(client, "--remove")[0] == 0
    assert user.tree().get(name, b"") == before.encode()


OTHER_HOOKS = """\
{
  "permissions": {"allow": ["Bash"]},
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "say done"}]}
    ]
  }
}
"""


def test_only_our_own_entries_are_removed_from_a_file_that_changed_since(user: ConfigOwner) -> None:
    file = user.write(".claude/settings.json", OTHER_HOOKS)
    user.give("claude-code")
    assert hooks_of(file)["Stop"] == ["say done", f"{PROGRAM} hook stop --agent claude-code"]
    file.write_text(file.read_text().replace('["Bash"]', '["Bash", "Edit"]'))
    code, out, _ = user.give("claude-code", "--remove")
    assert code == 0
    assert "(backup: ~" in out
    assert file.read_text() == OTHER_HOOKS.replace('["Bash"]', '["Bash", "Edit"]')


def test_an_object_that_was_empty_before_the_setup_stays(user: ConfigOwner) -> None:
    user.write(".cursor/mcp.json", '{"mcpServers": {}, "x": 1}')
    user.write(".gemini/settings.json", '{"x": 1}')
    for client in ("cursor", "gemini"):
        user.give(client)
    for name in (".cursor/mcp.json", ".gemini/settings.json"):
        file = user.home / name
        file.write_text(file.read_text().replace('"x": 1', '"x": 2'))
    for client in ("cursor", "gemini"):
        user.give(client, "--remove")
    assert user.tree() == {".cursor/mcp.json": b'{"mcpServers": {}, "x": 2}', ".gemini/settings.json": b'{"x": 2}'}


def test_a_second_setup_renews_the_path_of_the_command_and_keeps_what_a_person_added(user: ConfigOwner) -> None:
    own = f'{{"mcpServers": {{"mnemo": {{"command": "{PROGRAM}", "args": ["mcp"], "env": {{"A": "b"}}}}}}}}'
    file = user.write(".cursor/mcp.json", own)
    assert user.give("cursor")[1] == "Cursor is set up already; nothing was changed\n"
    assert file.read_text() == own
    file.write_text(own.replace(PROGRAM, "/old/bin/mnemo"))
    assert user.give("cursor")[0] == 0
    assert json.loads(file.read_text())["mcpServers"]["mnemo"]["command"] == PROGRAM
    settings = user.write(".claude/settings.json", OTHER_HOOKS)
    user.give("claude-code")
    settings.write_text(settings.read_text().replace(PROGRAM, "/old/bin/mnemo"))
    user.give("claude-code")
    assert hooks_of(settings)["Stop"] == ["say done", f"{PROGRAM} hook stop --agent claude-code"]
    block = user.home / ".codex" / "config.toml"
    user.give("codex")
    block.write_text("a = 1\n" + block.read_text().replace(PROGRAM, "/old/bin/mnemo"))
    user.give("codex")
    assert tomllib.loads(block.read_text()) == {"a": 1, "mcp_servers": {"mnemo": {"command": PROGRAM, "args": ["mcp"]}}}


def test_a_second_setup_keeps_what_a_person_changed_in_our_entries(user: ConfigOwner) -> None:
    hook = {"type": "command", "command": "/old/bin/mnemo hook stop", "timeout": 30, "statusMessage": "wait"}
    groups = [{"matcher": "*", "hooks": [hook, {**hook, "timeout": 1}]}, {"hooks": [{"command": "say done"}]}]
    settings = user.write(".claude/settings.json", json.dumps({"hooks": {"Stop": groups}}))
    server = {"command": "/old/bin/mnemo", "args": ["mcp"], "env": {"A": "b"}, "disabled": True}
    servers = user.write(".cursor/mcp.json", json.dumps({"mcpServers": {"mnemo": server}}))
    for client in ("claude-code", "cursor", "claude-code", "cursor"):
        assert user.give(client)[0] == 0
    renewed = {**hook, "command": f"{PROGRAM} hook stop --agent claude-code"}
    assert json.loads(settings.read_text())["hooks"]["Stop"] == [{"matcher": "*", "hooks": [renewed]}, groups[1]]
    assert json.loads(servers.read_text()) == {"mcpServers": {"mnemo": {**server, "command": PROGRAM}}}


@pytest.mark.parametrize("own", ["a = 1\n", "a = 1", "a = 1\r\n", "a = 1\n\n", ""])
@pytest.mark.parametrize("later", ["b = 2\n", "[b]", "\nb = 2"])
def test_lines_after_our_block_are_joined_with_none_before_it(user: ConfigOwner, own: str, later: str) -> None:
    file = user.write(".codex/config.toml", own)
    user.give("codex")
    with file.open("a", newline="") as end:
        end.write(later)
    assert user.give("codex", "--remove")[0] == 0
    left = file.read_bytes().decode()
    assert left.replace("\r", "").replace("\n", "") == (own + later).replace("\r", "").replace("\n", "")
    assert tomllib.loads(left) == tomllib.loads(f"{own}\n{later}")


def test_what_a_removal_would_leave_is_parsed_before_it_is_written(user: ConfigOwner) -> None:
    file = user.write(".codex/config.toml", "a = 1\n")
    user.give("codex")
    file.write_text("b =\n" + file.read_text())
    before = user.tree()
    code, _, err = user.give("codex", "--remove")
    assert code == 1
    assert "config.toml: Invalid value (at line 1, column 4)" in err
    assert user.tree() == before


def test_the_other_names_of_a_file_show_the_change(user: ConfigOwner) -> None:
    kept = user.write("dotfiles/cursor.json", '{"x": 1}\n' + "\n" * 400, 0o600)
    (user.home / ".cursor").mkdir()
    (user.home / ".cursor" / "mcp.json").hardlink_to(kept)
    before = kept.read_text()
    assert user.give("cursor")[0] == 0
    assert "mnemo" in kept.read_text()
    assert (user.home / ".cursor" / "mcp.json").samefile(kept)
    assert user.give("cursor", "--remove")[0] == 0
    assert kept.read_text() == before
    assert (user.home / ".cursor" / "mcp.json").samefile(kept)


def test_the_edit_of_a_large_file_costs_as_much_as_reading_it_some_times() -> None:
    projects = {f"/p{number}": {"history": [{"display": "fix it", "pasted": {}}] * 50} for number in range(400)}
    text = json.dumps({"projects": projects}, indent=2)
    editor = JsonEditor((
        JsonEntry(("mcpServers", "mnemo"), {"command": "/bin/mnemo", "args": ["mcp"]}),
        *(JsonEntry(("hooks", event), {"hooks": [{"command": "/bin/mnemo hook stop"}]}, True) for event in "ABCD"),
    ))  # fmt: skip

    def edit() -> None:
        read_json.cache_clear()
        assert editor.remove(editor.add(text), text) == text

    def cost(run: Callable[[], object]) -> float:
        gc.collect()
        gc.disable()
        begun = time.thread_time()
        run()
        spent = time.thread_time() - begun
        gc.enable()
        return spent

    ratios = (cost(edit) / cost(lambda: json.loads(text)) for _ in range(5))
    assert any(ratio < 150 for ratio in ratios)  # 5 entries; 37 measured, and 524 where each value was a node


@pytest.mark.parametrize(
    ("client", "name", "text", "reason"),
    [
        ("cursor", ".cursor/mcp.json", '{\n  "a": 1\n  "b": 2\n}', "line 3: a comma or } is missing"),
        ("cursor", ".cursor/mcp.json", '{"a": tru}', "line 1: tru is not a JSON value"),
        ("cursor", ".cursor/mcp.json", '{"a": "x\n"}', "line 1: a string does not end on its line"),
        ("cursor", ".cursor/mcp.json", '{"a": 1}}', "line 1: there is text after the end of the value"),
        ("cursor", ".cursor/mcp.json", '{"a": 1 /* x', "line 1: a comma or } is missing"),
        ("cursor", ".cursor/mcp.json", "[" * 5000, "line 1: the values are nested too deeply"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": []}', "mcpServers is not an object"),
        ("cursor", ".cursor/mcp.json", "[]", "the whole file is not an object"),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": {}}}', "hooks.Stop is not an array"),
        ("zed", ".config/zed/settings.json", "{1: 2}", "line 1: a name in quotes is missing"),
        ("codex", ".codex/config.toml", "a = 1\nb = \n", "(at line 2, column 5)"),
        ("codex", ".codex/config.toml", "mcp_servers = { files = { command = 'f' } }\n", "written on one line"),
        ("codex", ".codex/config.toml", "# >>> mnemo\n[a]\n", "line 1: the block of mnemo has lost one of its"),
        ("codex", ".codex/config.toml", "[mcp_servers.mnemo]\ncommand = 'x'\n", "mcp_servers.mnemo is there already"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers":\n{"mnemo": {"command": "x"}}}', "line 2: mcpServers.mnemo is"),
        (
            "cursor",
            ".cursor/mcp.json",
            '{"mcpServers": {"memory": {"command": "mnemo", "args": ["mcp"]}}}',
            "line 1: mcpServers.memory runs `mnemo mcp` already",
        ),
    ],
)
def test_a_file_that_is_not_understood_is_not_touched(
    user: ConfigOwner, client: str, name: str, text: str, reason: str
) -> None:
    user.write(name, text)
    before = user.tree()
    code, out, err = user.give(client)
    assert (code, out) == (1, "")
    assert str(user.home / name) in err
    assert reason in err
    assert len(err.splitlines()) == 2, "what is wrong, and what to do"
    assert user.tree() == before


def test_a_file_that_is_not_text_is_not_touched(user: ConfigOwner) -> None:
    (user.home / ".cursor").mkdir()
    (user.home / ".cursor" / "mcp.json").write_bytes(b'{\n"a": "\xff"}')
    code, _, err = user.give("cursor")
    assert code == 1
    assert "line 2: this is not UTF-8 text" in err


@pytest.mark.parametrize("words", [(), ("--remove",)])
def test_a_read_only_file_is_not_replaced(user: ConfigOwner, words: tuple[str, ...]) -> None:
    if words:
        user.give("cursor")
    else:
        user.write(".cursor/mcp.json", "{}")
    file = user.home / ".cursor" / "mcp.json"
    file.chmod(0o444)
    before = user.tree()
    code, _, err = user.give("cursor", *words)
    assert code == 1
    assert f"{file} is read-only; nothing was changed" in err
    assert "--print" in err
    assert user.tree() == before


def test_a_link_stays_a_link_and_its_file_is_changed(user: ConfigOwner) -> None:
    kept = user.write("dotfiles/cursor.json", "{}", 0o600)
    (user.home / ".cursor").mkdir()
    link = user.home / ".cursor" / "mcp.json"
    link.symlink_to(kept)
    code, _, err = user.give("cursor")
    assert code == 0
    assert f"{link} is a link; the file that was changed is {kept}" in err
    assert link.is_symlink()
    assert "mnemo" in kept.read_text()
    code, _, err = user.give("cursor", "--remove")
    assert f"{link} is a link" in err
    assert link.is_symlink()
    assert kept.read_text() == "{}"


def test_a_link_to_nothing_is_reported(user: ConfigOwner) -> None:
    (user.home / ".cursor").mkdir()
    (user.home / ".cursor" / "mcp.json").symlink_to(user.home / "gone.json")
    code, _, err = user.give("cursor")
    assert code == 1
    assert f"is a link to {user.home / 'gone.json'}, which does not exist" in err


@pytest.mark.parametrize("client", [client for client in CONFIGURED if client != "zed"])
def test_a_project_gets_files_of_its_own(user: ConfigOwner, client: str) -> None:
    assert user.give(client, "--project")[0] == 0
    files = list(user.tree())
    assert files
    assert all(name.startswith("work/") for name in files)
    assert user.give(client, "--remove", "--project")[0] == 0
    assert user.tree() == {}


def test_what_cannot_be_asked_for_is_refused(user: ConfigOwner) -> None:
    assert user.give("zed", "--project")[0] == 2
    code, _, err = user.give("vim")
    assert code == 2
    assert "must be one of" in err
    assert user.tree() == {}


def test_the_list_shows_which_clients_are_there_and_which_are_set_up(user: ConfigOwner) -> None:
    (user.home / ".codex").mkdir()
    user.give("cursor")
    code, out, _ = user.give("--json")
    assert code == 0
    states = {each["client"]: (each["found"], each["set_up"]) for each in json.loads(out)["clients"]}
    assert tuple(states) == SETUP_CLIENTS
    assert [name for name, (found, _) in states.items() if found] == ["codex", "cursor"]
    assert [name for name, (_, is_set_up) in states.items() if is_set_up] == ["cursor"]
    assert "cursor       set up" in user.give()[1]


def test_locations_that_were_chosen_are_given_to_the_programs(user: ConfigOwner) -> None:
    user.environ["MNEMO_DATA_DIR"] = str(user.home / "my data")
    user.environ["CODEX_HOME"] = str(user.home / "cx")
    user.environ["CLAUDE_CONFIG_DIR"] = str(user.home / "cl")
    for client in ("codex", "claude-code"):
        user.give(client)
    codex = tomllib.loads((user.home / "cx" / "config.toml").read_text())["mcp_servers"]["mnemo"]
    assert codex["env"] == {"MNEMO_DATA_DIR": str(user.home / "my data")}
    server = json.loads((user.home / "cl" / ".claude.json").read_text())["mcpServers"]["mnemo"]
    assert server["env"] == {"MNEMO_DATA_DIR": str(user.home / "my data")}
    (stop,) = hooks_of(user.home / "cl" / "settings.json")["Stop"]
    assert stop == f"env 'MNEMO_DATA_DIR={user.home}/my data' {PROGRAM} hook stop --agent claude-code"
    for client in ("codex", "claude-code"):
        user.give(client, "--remove")
    assert [name for name in user.tree() if not name.startswith("my data")] == []


def test_a_file_that_changes_while_it_is_edited_is_not_overwritten(user: ConfigOwner) -> None:
    from mnemo_client.cli.agent_setup.config_files import SetupRecords, apply_addition, plan_addition
    from mnemo_client.errors import MnemoError

    file = user.write(".cursor/mcp.json", "{}")
    places = setup_clients.SetupPlaces(user.environ, PROGRAM)
    (wanted,) = setup_clients.find_client("cursor").files(places)
    change = plan_addition(wanted)
    file.write_text('{"new": 1}')
    with pytest.raises(MnemoError, match="changed by another program"):
        apply_addition(change, SetupRecords(user.environ), "cursor")
    assert file.read_text() == '{"new": 1}'
    assert os.listdir(file.parent) == ["mcp.json"]


@pytest.mark.parametrize("name", ["claude-code", "codex", "cursor", "zed", "gemini", "opencode", "vscode"])
def test_a_server_that_is_started_without_the_runtime_folder_is_given_the_socket(user: ConfigOwner, name: str) -> None:
    user.environ["XDG_RUNTIME_DIR"] = str(user.home / "run")
    assert user.give(name, "--no-hooks")[0] == 0
    written = "".join(str(text) for text in user.tree().values())
    assert written.count(str(user.home / "run" / "mnemo" / "mnemo.sock")) == 1
    assert written.count("MNEMO_SOCKET") == 1


def test_the_files_of_a_project_name_no_socket_of_one_user(user: ConfigOwner) -> None:
    user.environ["XDG_RUNTIME_DIR"] = str(user.home / "run")
    assert user.give("claude-code", "--project", "--no-hooks")[0] == 0
    assert "MNEMO_SOCKET" not in "".join(str(text) for text in user.tree().values())


def test_a_relative_folder_in_the_variable_of_an_agent_is_ignored_for_all_of_its_files(user: ConfigOwner) -> None:
    user.environ["CLAUDE_CONFIG_DIR"] = "cl"
    assert user.give("claude-code")[0] == 0
    assert {name for name in user.tree() if "claude" in name} == {".claude.json", ".claude/settings.json"}


def test_a_damaged_record_of_an_earlier_setup_stops_no_other(user: ConfigOwner) -> None:
    assert user.give("cursor")[0] == 0
    records = user.home / ".local/share/mnemo/setup/records.json"
    file = user.home / ".cursor/mcp.json"
    records.write_text(json.dumps({str(file): {"client": "cursor"}}))
    file.write_text("{}")
    assert user.give("cursor")[0] == 0
    assert PROGRAM in file.read_text()
    assert user.give("cursor", "--remove")[0] == 0
    assert PROGRAM not in file.read_text()
