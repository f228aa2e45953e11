"""The table of the clients that `mnemo setup` knows: their files, the form of their entries, and how to go on.

Paths and forms are those of each client's documentation in November 2026.
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemo_client.cli.agent_setup.config_files import ConfigFile
from mnemo_client.cli.agent_setup.editors import PROGRAM, BlockEditor, JsonEditor, JsonEntry, check_toml
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.paths import (
    chosen_folder,
    chosen_locations,
    claude_code_folder,
    codex_folder,
    home_folder,
    socket_path,
)

HOOK_SECONDS_MAX = 5  # after which the agent ends a hook; a hook itself ends within 2 s
# The clients for editors are in the installation, or in the clients folder of a working copy.
EDITOR_FOLDERS = (Path(sys.prefix) / "share" / "mnemo", Path(__file__).parents[3])

STEP_HOOK = "tool"  # after a call of a tool; its entries are added with --steps alone

_SOCKET_VARIABLES = {"MNEMO_SOCKET", "MNEMO_DATA_DIR"}  # that take precedence over XDG_RUNTIME_DIR


@dataclass(frozen=True, slots=True)
class SetupPlaces:
    """The folders that a setup applies to, the user's or with `project` those of a project; the program to run; and
    whether the hook that records steps is added."""

    environ: Mapping[str, str]
    program: str
    project: Path | None = None
    records_steps: bool = False

    @property
    def home(self) -> Path:
        return home_folder(self.environ)

    @property
    def config(self) -> Path:
        return chosen_folder(self.environ, "XDG_CONFIG_HOME", ".config")

    @property
    def applications(self) -> Path:
        """The folder for the settings of graphical programs."""
        return self.home / "Library" / "Application Support" if sys.platform == "darwin" else self.config

    @property
    def server_variables(self) -> dict[str, str]:
        """The locations that an MCP server would not find by itself.

        Some agents start servers without XDG_RUNTIME_DIR, by which the socket is found, so that it is named in the
        user's own files. Files of a project are shared with others.
        """
        variables = chosen_locations(self.environ)
        runtime = self.environ.get("XDG_RUNTIME_DIR", "")
        if self.project is not None or not runtime.startswith("/") or variables.keys() & _SOCKET_VARIABLES:
            return variables
        return {**variables, "MNEMO_SOCKET": str(socket_path(self.environ))}

    def hook_command(self, *words: str) -> str:
        variables = [f"{name}={value}" for name, value in chosen_locations(self.environ).items()]
        return shlex.join([*(["env", *variables] if variables else []), self.program, "hook", *words])


@dataclass(frozen=True, slots=True)
class SetupClient:
    """An agent or editor. `files` returns its files; the entries of hooks in them are elements of arrays. `traces` are
    paths below the home or configuration folder, or commands, that show that it is installed; `next_steps` are for the
    person."""

    name: str
    title: str
    files: Callable[[SetupPlaces], list[ConfigFile]]
    traces: tuple[str, ...]
    next_steps: str
    serves_projects: bool = True
    uses_mcp: bool = True
    plugin: str = ""  # the folder of our own client for it

    def check_installation(self) -> None:
        """Raise MnemoError if our own client for it is missing."""
        if self.plugin and not _editor_folder(self.plugin).is_dir():
            raise MnemoError(f"the client for {self.title} is missing from this installation", "install mnemod again")

    def is_found(self, places: SetupPlaces) -> bool:
        """Return True if the client seems to be installed."""
        from shutil import which

        path = places.environ.get("PATH")
        for trace in self.traces:
            if trace.startswith((".", "/")):
                found = (places.home / trace).exists()
            elif trace.endswith("/"):
                found = (places.config / trace).exists() or (places.applications / trace).exists()
            else:
                found = which(trace, path=path) is not None
            if found:
                return True
        return False


def adds_step_hook(files: list[ConfigFile]) -> bool:
    """Return True if the hook that records steps is among the entries to be added."""
    editors = [file.editor for file in files if isinstance(file.editor, JsonEditor)]
    added = [entry for editor in editors for entry in editor.entries if entry.is_element and not entry.is_optional]
    return any(f" hook {STEP_HOOK} " in entry.value["hooks"][0]["command"] for entry in added)


def without_hooks(files: list[ConfigFile]) -> list[ConfigFile]:
    """Return the files with the entries of the server alone."""
    kept = []
    for file in files:
        editor = file.editor
        if isinstance(editor, JsonEditor):
            editor = JsonEditor(tuple(entry for entry in editor.entries if not entry.is_element))
        if editor != JsonEditor(()):
            kept.append(file._replace(editor=editor))
    return kept


def _server(places: SetupPlaces) -> dict[str, Any]:
    variables = {"env": places.server_variables} if places.server_variables else {}
    return {"command": places.program, "args": ["mcp"], **variables}


def _json_file(path: Path, *entries: JsonEntry) -> ConfigFile:
    return ConfigFile(path, JsonEditor(entries))


def _hook_entries(
    places: SetupPlaces, agent: str, events: Mapping[str, tuple[str, ...]], **more: Any
) -> list[JsonEntry]:
    """Return the entries of hooks, in the form that Claude Code, Codex and Gemini CLI share."""
    entries = []
    for event, words in events.items():
        command = places.hook_command(*words, "--agent", agent)
        hook = {"type": "command", "command": command, "timeout": HOOK_SECONDS_MAX, **more}
        is_optional = words[0] == STEP_HOOK and not places.records_steps
        entries.append(JsonEntry(("hooks", event), {"hooks": [hook]}, is_element=True, is_optional=is_optional))
    return entries


_CLAUDE_HOOKS = {
    "SessionStart": ("session-start",), "UserPromptSubmit": ("prompt", "--keep"), "Stop": ("stop",),
    "SessionEnd": ("session-end",), "PostToolUse": (STEP_HOOK,), "PostToolUseFailure": (STEP_HOOK,),
}  # fmt: skip
_CODEX_HOOKS = {event: _CLAUDE_HOOKS[event] for event in ("SessionStart", "UserPromptSubmit", "Stop", "PostToolUse")}
_GEMINI_HOOKS = {
    "SessionStart": ("session-start", "--format", "json"), "BeforeAgent": ("prompt", "--keep", "--format", "json"),
    "AfterAgent": ("stop",), "SessionEnd": ("session-end",), "AfterTool": (STEP_HOOK,),
}  # fmt: skip


def _claude_code(places: SetupPlaces) -> list[ConfigFile]:
    server = JsonEntry(("mcpServers", PROGRAM), {"type": "stdio", **_server(places)})
    if places.project is not None:
        servers, settings = places.project / ".mcp.json", places.project / ".claude" / "settings.local.json"
    else:
        servers = chosen_folder(places.environ, "CLAUDE_CONFIG_DIR", "") / ".claude.json"
        settings = claude_code_folder(places.environ) / "settings.json"
    hooks = _hook_entries(places, "claude-code", _CLAUDE_HOOKS)
    return [_json_file(servers, server), _json_file(settings, *hooks)]


def _codex(places: SetupPlaces) -> list[ConfigFile]:
    folder = places.project / ".codex" if places.project is not None else codex_folder(places.environ)
    variables = [f"{name} = {_toml_text(value)}" for name, value in places.server_variables.items()]
    lines = (
        f"[mcp_servers.{PROGRAM}]",
        f"command = {_toml_text(places.program)}",
        'args = ["mcp"]',
        *([f"env = {{ {', '.join(variables)} }}"] if variables else []),
    )
    server = ConfigFile(folder / "config.toml", BlockEditor("#", "codex", lines, check_toml))
    hooks = _hook_entries(places, "codex", _CODEX_HOOKS)
    return [server, _json_file(folder / "hooks.json", *hooks)]


def _toml_text(text: str) -> str:
    """Return a basic string of TOML; its escapes are among those of JSON."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _cursor(places: SetupPlaces) -> list[ConfigFile]:
    folder = (places.project or places.home) / ".cursor"
    return [_json_file(folder / "mcp.json", JsonEntry(("mcpServers", PROGRAM), _server(places)))]


def _vscode(places: SetupPlaces) -> list[ConfigFile]:
    # VS Code could also connect to the daemon's socket. But the command starts the daemon if it does not run, and
    # chooses the namespace by the folder in which it is started.
    folder = places.project / ".vscode" if places.project is not None else places.applications / "Code" / "User"
    return [_json_file(folder / "mcp.json", JsonEntry(("servers", PROGRAM), {"type": "stdio", **_server(places)}))]


def _zed(places: SetupPlaces) -> list[ConfigFile]:
    server = JsonEntry(("context_servers", PROGRAM), {**_server(places), "env": places.server_variables})
    return [_json_file(places.config / "zed" / "settings.json", server)]


def _gemini(places: SetupPlaces) -> list[ConfigFile]:
    hooks = _hook_entries(places, "gemini-cli", _GEMINI_HOOKS, name=PROGRAM)
    for entry in hooks:
        entry.value["hooks"][0]["timeout"] *= 1000  # in milliseconds here
    server = JsonEntry(("mcpServers", PROGRAM), _server(places))
    return [_json_file((places.project or places.home) / ".gemini" / "settings.json", server, *hooks)]


def _opencode(places: SetupPlaces) -> list[ConfigFile]:
    folder = places.project or places.config / "opencode"
    with_comments = folder / "opencode.jsonc"
    file = with_comments if with_comments.exists() else folder / "opencode.json"
    variables = {"environment": places.server_variables} if places.server_variables else {}
    server = {"type": "local", "command": [places.program, "mcp"], "enabled": True, **variables}
    return [_json_file(file, JsonEntry(("mcp", PROGRAM), server))]


def _neovim(places: SetupPlaces) -> list[ConfigFile]:
    folder = places.config / (places.environ.get("NVIM_APPNAME") or "nvim") / "plugin"
    plugin = _editor_folder("nvim")
    lines = (
        f"vim.opt.runtimepath:append({_string_literal(str(plugin))})",
        f'vim.cmd("source " .. vim.fn.fnameescape({_string_literal(str(plugin / "plugin" / "mnemo.lua"))}))',
        'local options = require("mnemo.config").options',
        f'if options.command == "{PROGRAM}" then',
        f"  options.command = {_string_literal(places.program)}",
        "end",
    )
    return [ConfigFile(folder / "mnemo-setup.lua", BlockEditor("--", "neovim", lines))]


def _emacs(places: SetupPlaces) -> list[ConfigFile]:
    home = places.home
    known = (home / ".emacs.el", home / ".emacs", home / ".emacs.d" / "init.el", places.config / "emacs" / "init.el")
    is_new = not (home / ".emacs.d").exists() and (places.config / "emacs").exists()
    file = next((path for path in known if path.exists()), known[3] if is_new else known[2])
    lines = (
        f"(add-to-list 'load-path {_string_literal(str(_editor_folder('emacs')))})",
        f"(defvar mnemo-command {_string_literal(places.program)})",
        "(require 'mnemo)",
    )
    return [ConfigFile(file, BlockEditor(";;", "emacs", lines))]


def _string_literal(text: str) -> str:
    """Return a string of Lua or Emacs Lisp, which have these escapes in common."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _editor_folder(name: str) -> Path:
    return next((place / name for place in EDITOR_FOLDERS if (place / name).is_dir()), EDITOR_FOLDERS[0] / name)


CLIENTS = (
    SetupClient(
        "claude-code", "Claude Code", _claude_code, (".claude", ".claude.json", "claude"),
        "start Claude Code again; /mcp lists the server, and /hooks the hooks",
    ),
    SetupClient(
        "codex", "Codex", _codex, (".codex", "codex"),
        "start Codex again, and trust the hooks when it asks, or with /hooks; /mcp lists the server",
    ),
    SetupClient("cursor", "Cursor", _cursor, (".cursor", "cursor"), "enable the server in Cursor Settings › MCP"),
    SetupClient(
        "vscode", "VS Code", _vscode, ("Code/", "code"),
        "run `MCP: List Servers` in VS Code, and start mnemo; the tools appear in agent mode",
    ),
    SetupClient(
        "zed", "Zed", _zed, ("zed/", "zed", "zeditor"), "the agent panel's settings list the server",
        serves_projects=False,
    ),
    SetupClient(
        "gemini", "Gemini CLI", _gemini, (".gemini", "gemini"), "start Gemini CLI again; /mcp lists the server",
    ),
    SetupClient("opencode", "OpenCode", _opencode, ("opencode/", "opencode"), "start OpenCode again"),
    SetupClient(
        "neovim", "Neovim", _neovim, ("nvim/", "nvim"), "start Neovim again; :MnemoRecall finds memories",
        serves_projects=False, uses_mcp=False, plugin="nvim",
    ),
    SetupClient(
        "emacs", "Emacs", _emacs, (".emacs", ".emacs.el", ".emacs.d", "emacs/", "emacs"),
        "start Emacs again; M-x mnemo-recall finds memories", serves_projects=False, uses_mcp=False, plugin="emacs",
    ),
)  # fmt: skip


def find_client(name: str) -> SetupClient:
    """Return the client of that name. Raises UsageError."""
    found = next((client for client in CLIENTS if client.name == name), None)
    if found is None:
        raise UsageError(f"there is no client {name!r}", f"there are: {', '.join(each.name for each in CLIENTS)}")
    return found


def find_program(environ: Mapping[str, str]) -> str:
    """Return the absolute path of the command: agents do not have the user's PATH. Raises MnemoError."""
    from shutil import which

    sibling = Path(sys.executable).with_name(PROGRAM)
    found = str(sibling) if sibling.is_file() else which(PROGRAM, path=environ.get("PATH"))
    if found is None:
        raise MnemoError("the command mnemo is neither next to its Python nor in PATH", "install mnemod again")
    return found
