"""The editors of configuration files: each adds the entries of mnemo to a text and takes them out again.

An editor owns only what it recognizes: in JSON an entry whose command is `mnemo mcp` or `mnemo hook`, in other formats
the lines between two marks. `remove` is the inverse of `add`; every other character of the text stays.
"""

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from mnemo_client.cli.agent_setup.json_text import (
    ConfigFileError,
    ForeignEntryError,
    insert_value,
    is_blank,
    line_number,
    newline_of,
    read_json,
    remove_value,
    replace_value,
    value_at,
)

PROGRAM = "mnemo"
BEGIN_MARK, END_MARK = ">>> mnemo", "<<< mnemo"
_BLOCK_PROGRAM = re.compile(r'command[ =]+"(/[^"\n]+)"')  # as TOML, Lua and Lisp name it


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """A value to set at `path`, or with `is_element` to append to the array at `path`. An optional one is renewed where
    it is there, and not added."""

    path: tuple[str, ...]
    value: Any
    is_element: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class JsonEditor:
    """Edits a JSON file, with or without comments."""

    entries: tuple[JsonEntry, ...]

    def add(self, text: str) -> str:
        """Return the text with the entries. Raises ConfigFileError, ForeignEntryError."""
        for entry in self.entries:
            text = _add_element(text, entry) if entry.is_element else _add_member(text, entry)
        return text

    def remove(self, text: str, former: str | None) -> str:
        """Return the text without the entries, and without objects that they alone made necessary: those that
        `former`, the text before they were added, does not have either. Raises ConfigFileError."""
        for entry in self.entries:
            for path in _owned_paths(text, entry):
                text = remove_value(text, path)
                parent = path[:-1]
                while parent and _is_empty(text, parent) and value_at(former or "", parent) is None:
                    text = remove_value(text, parent)
                    parent = parent[:-1]
        if not is_blank(text):
            read_json(text)
        return text

    def has_entries(self, text: str) -> bool:
        """Return True if one of the entries is there, in this form or an earlier one."""
        return any(True for entry in self.entries for _ in _owned_paths(text, entry))

    def installed_part(self, text: str) -> "JsonEditor":
        """Return the editor of the entries that a setup wrote: those of the server, those of hooks, or both."""
        kinds = {entry.is_element for entry in self.entries if any(True for _ in _owned_paths(text, entry))}
        return JsonEditor(tuple(entry for entry in self.entries if entry.is_element in kinds))

    def programs(self, text: str) -> set[str]:
        """Return the programs that the entries in the text run."""
        values = [value_at(text, path) for entry in self.entries for path in _owned_paths(text, entry)]
        return {words[0] for node in values if node is not None for words in _commands_in(node.value)}

    @staticmethod
    def is_bare(text: str) -> bool:
        """Return True if the text has no content of its own."""
        return is_blank(text.replace("{}", "", 1))


def _add_member(text: str, entry: JsonEntry) -> str:
    found = value_at(text, entry.path)
    if found is None:
        servers = value_at(text, entry.path[:-1])
        for item in servers.items if servers is not None else ():
            if is_own_server(item.node.value):
                name = ".".join((*entry.path[:-1], item.key or ""))
                raise ForeignEntryError(
                    f"line {line_number(text, item.start)}: {name} runs `mnemo mcp` already",
                    f"rename it to {entry.path[-1]} or remove it, then run the command again",
                )
        return insert_value(text, entry.path, entry.value, is_element=False)
    if not is_own_server(found.value):
        name = ".".join(entry.path)
        raise ForeignEntryError(
            f"line {line_number(text, found.start)}: {name} is there already, and does not run `mnemo mcp`",
            "rename or remove that entry, then run the command again",
        )
    if _command_of(found.value) == _command_of(entry.value):
        return text
    fields = {**found.value, **entry.value}  # what a person added stays
    if isinstance(found.value.get("env"), dict):
        fields["env"] = {**found.value["env"], **entry.value.get("env", {})}
    return replace_value(text, entry.path, fields)


def _add_element(text: str, entry: JsonEntry) -> str:
    """Return the text with one group of hooks of ours; of one that is there only the commands are ours."""
    owned = list(_owned_paths(text, entry))
    if not owned and entry.is_optional:
        return text
    if not owned:
        return insert_value(text, entry.path, entry.value, is_element=True)
    for path in owned[:-1]:  # the last first: the others keep their places
        text = remove_value(text, path)
    found = value_at(text, owned[-1])
    assert found is not None
    for number in range(len(found.value["hooks"]) - 1, 0, -1):
        text = remove_value(text, (*owned[-1], "hooks", number))
    command = entry.value["hooks"][0]["command"]
    is_current = found.value["hooks"][0]["command"] == command
    return text if is_current else replace_value(text, (*owned[-1], "hooks", 0, "command"), command)


def _owned_paths(text: str, entry: JsonEntry) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the values that this or an earlier setup wrote for an entry, the last element first."""
    found = value_at(text, entry.path)
    if found is None:
        return
    if not entry.is_element:
        if is_own_server(found.value):
            yield entry.path
    elif isinstance(found.value, list):
        for number in range(len(found.value) - 1, -1, -1):
            if is_own_hook(found.value[number]):
                yield (*entry.path, number)


def is_own_server(value: Any) -> bool:
    """Return True for an entry of an MCP server that runs `mnemo mcp`."""
    words = _command_of(value)
    return len(words) > 1 and PurePath(words[0]).name == PROGRAM and words[1] == "mcp"


def is_own_hook(value: Any) -> bool:
    """Return True for a group of hooks all of which run `mnemo hook`."""
    hooks = value.get("hooks") if isinstance(value, dict) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(_runs_hook, hooks))


def _runs_hook(hook: Any) -> bool:
    words = _hook_words(hook)
    return len(words) > 1 and PurePath(words[0]).name == PROGRAM and words[1] == "hook"


def _hook_words(hook: Any) -> list[str]:
    """Return the words of a hook's command, without the variables before it."""
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return []
    while words and (words[0] == "env" or re.match(r"[A-Z_]+=", words[0])):
        del words[0]
    return words


def _commands_in(value: Any) -> list[list[str]]:
    """Return the words of each command in an entry of ours: a server, or a group of hooks."""
    return list(map(_hook_words, value["hooks"])) if is_own_hook(value) else [_command_of(value)]


def _command_of(value: Any) -> list[str]:
    """Return the words of a server's command: one list, or `command` and `args`."""
    if not isinstance(value, dict):
        return []
    command, arguments = value.get("command"), value.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    return words if all(isinstance(word, str) for word in words) else []


def _is_empty(text: str, path: tuple[str | int, ...]) -> bool:
    found = value_at(text, path)
    return found is not None and found.value in ({}, [])


@dataclass(frozen=True, slots=True)
class BlockEditor:
    """Keeps lines between two marks at the end of a file. `check` raises ConfigFileError for a text that the client
    would not accept, and ForeignEntryError."""

    comment: str  # begins a comment line
    client: str
    lines: tuple[str, ...]
    check: "Callable[[str, BlockEditor], None] | None" = None

    def block(self, newline: str = "\n") -> str:
        marks = (
            f"{self.comment} {BEGIN_MARK}: written by `mnemo setup {self.client}`, which replaces these lines; "
            f"`mnemo setup {self.client} --remove` removes them",
            f"{self.comment} {END_MARK}",
        )
        return newline.join([marks[0], *self.lines, marks[1]]) + newline

    def add(self, text: str) -> str:
        """Return the text with the block. Raises ConfigFileError, ForeignEntryError."""
        block, place = self.block(newline_of(text)), self._place(text)
        if place is not None:
            added = text[: place[0]] + block + text[place[1] :]
        else:
            # Exactly one line end comes before the block, whether the last line has one or not: `remove` takes it out.
            added = text + (newline_of(text) if text else "") + block
        if self.check is not None:
            self.check(text, self)
            self.check(added, self)
        return added

    def remove(self, text: str, former: str | None) -> str:
        """Return the text without the block; `former` is for the other editor. Raises ConfigFileError."""
        left = self.outside_block(text)
        if self.check is not None and left != text:
            with suppress(ForeignEntryError):  # which may stay
                self.check(left, self)
        return left

    def outside_block(self, text: str) -> str:
        """Return the text without the block and without the line end that came with it."""
        place = self._place(text)
        if place is None:
            return text
        before, after = text[: place[0]], text[place[1] :]
        shorter = before.removesuffix("\n").removesuffix("\r")
        return (before if after and shorter and not shorter.endswith("\n") else shorter) + after

    def has_entries(self, text: str) -> bool:
        return self._place(text) is not None

    def installed_part(self, _: str) -> "BlockEditor":
        return self

    def programs(self, text: str) -> set[str]:
        """Return the programs that the block in the text runs."""
        place = self._place(text)
        block = text[place[0] : place[1]] if place is not None else ""
        return {re.sub(r"\\(.)", r"\1", found) for found in _BLOCK_PROGRAM.findall(block)}

    @staticmethod
    def is_bare(text: str) -> bool:
        """Return True if the text has no content of its own."""
        return not text.strip()

    def _place(self, text: str) -> tuple[int, int] | None:
        """Return where the block begins and ends. Raises ConfigFileError if one of its marks is missing."""
        begin = re.search(rf"^{re.escape(self.comment)} {BEGIN_MARK}.*$", text, re.MULTILINE)
        end = re.search(rf"^{re.escape(self.comment)} {END_MARK}[ \t]*(?:\r?\n|\Z)", text, re.MULTILINE)
        if begin is None and end is None:
            return None
        if begin is None or end is None or end.start() < begin.end():
            place = begin or end
            assert place is not None
            raise ConfigFileError(
                f"line {line_number(text, place.start())}: the block of mnemo has lost one of its two marks",
                f"remove its lines by hand: from `{self.comment} {BEGIN_MARK}` to `{self.comment} {END_MARK}`",
            )
        return begin.start(), end.end()


def check_toml(text: str, editor: BlockEditor) -> None:
    """Raise ConfigFileError if the text is not TOML, and ForeignEntryError if it defines the server elsewhere."""
    try:
        outside = tomllib.loads(editor.outside_block(text))
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigFileError(str(wrong)) from wrong
    servers = outside.get("mcp_servers", {})
    if isinstance(servers, dict) and PROGRAM in servers:
        raise ForeignEntryError(
            f"mcp_servers.{PROGRAM} is there already, and was not written by `mnemo setup`",
            "rename or remove that table, then run the command again",
        )
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise ConfigFileError(
            f"no table can be added to mcp_servers, which is written on one line: {wrong}",
            "write it as a table, or add the server by hand: mnemo setup codex --print",
        ) from wrong
