"""The memory tool of Anthropic's Python SDK on the memory of this machine. SPEC 20

    from anthropic import Anthropic
    from mnemo_client.adapters.anthropic import MnemoMemoryTool

    memory = MnemoMemoryTool()
    memory.call({"command": "create", "path": "/memories/ines.md", "file_text": "Ines likes tea."})
    memory.call({"command": "view", "path": "/memories"})
    runner = Anthropic().beta.messages.tool_runner(
        model="claude-sonnet-5-5", max_tokens=1000, tools=[memory],
        messages=[{"role": "user", "content": "What do you know about Ines?"}],
    )
    runner.until_done()

A file is one memory, whose key is the path: recall finds it, and its history has every version.
"""

import asyncio
import os
import re
from typing import Any

from anthropic.lib.tools import ToolError
from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand as CreateCommand,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818DeleteCommand as DeleteCommand,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818InsertCommand as InsertCommand,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818RenameCommand as RenameCommand,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818StrReplaceCommand as StrReplaceCommand,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818ViewCommand as ViewCommand,
)

from mnemo_client.adapters.stored_values import CONTENT_CHARS_MAX, StoredValues
from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.memories import MemoryView

ROOT = "/memories"
PATH_CHARS_MAX = 256  # SPEC 2.1: of a key
DEPTH_SHOWN = 2  # levels that the view of a folder shows
LINE_NUMBER_WIDTH = 6
SHOWN_AROUND = 2  # lines before and behind a replacement

# A segment that is another folder for some reader: of a system's path, or percent-encoded.
_UNSAFE = re.compile(r"\\|\.\.?|~|.*[\\\x00-\x1f\x7f].*|.*%(?:2e|2f|5c).*", re.IGNORECASE | re.DOTALL)


class MemoryFiles:
    """The files of the tool. Its methods return what the model reads; a ToolError is for the model as well."""

    def __init__(self, client: Client | None) -> None:
        self._values = StoredValues(client or Client(socket_path(os.environ), agent="claude"), "claude-memory")

    def view(self, command: ViewCommand) -> str:
        path = _checked(command.path)
        if (file := self._values.get(path)) is None:
            return self._view_folder(path)
        lines = file.content.split("\n")
        first, last = 1, len(lines)
        if command.view_range:
            first = max(1, command.view_range[0])
            last = last if command.view_range[-1] == -1 else command.view_range[-1]
        return f"Here's the content of {path} with line numbers:\n" + _numbered(lines, first, last)

    def create(self, command: CreateCommand) -> str:
        path = _checked(command.path)
        self._refuse_taken(path, f"File {path} already exists")
        return f"File created successfully at: {path}{self._write(path, command.file_text)}"

    def str_replace(self, command: StrReplaceCommand) -> str:
        """Replace a text that a file has once."""
        file = self._file(command.path)
        part = command.old_str
        places, at = [], file.content.find(part) if part else -1
        while at >= 0:
            places.append(at)
            at = file.content.find(part, at + len(part))
        if not places:
            raise ToolError(
                f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim in {file.key}."
            )
        if len(places) > 1:
            lines = ", ".join(str(file.content.count("\n", 0, place) + 1) for place in places)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        text = file.content.replace(command.old_str, command.new_str)
        changed = self._edit(file, text)
        line = file.content.count("\n", 0, places[0]) + 1
        shown = _numbered(text.split("\n"), max(1, line - SHOWN_AROUND), line + SHOWN_AROUND)
        edited = f"The memory file has been edited.{changed}"
        return f"{edited} Here is the snippet showing the change (with line numbers):\n{shown}"

    def insert(self, command: InsertCommand) -> str:
        file = self._file(command.path)
        lines = file.content.split("\n")
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        return f"The file {file.key} has been edited.{self._edit(file, chr(10).join(lines))}"

    def delete(self, command: DeleteCommand) -> str:
        path = _checked(command.path)
        self._values.delete(self._moved_files(path, "delete"))
        return f"Successfully deleted {path}"

    def rename(self, command: RenameCommand) -> str:
        old, new = _checked(command.old_path), _checked(command.new_path)
        files = self._moved_files(old, "rename")
        if new.startswith(f"{old}/"):
            raise ToolError(f"{old} cannot be moved into itself")
        self._refuse_taken(new, f"The destination {new} already exists")
        targets = [_checked(new + (file.key or "").removeprefix(old)) for file in files]
        for file, target in zip(files, targets, strict=True):
            self._write(target, file.content, file.id)
        self._values.delete(files)
        return f"Successfully renamed {old} to {new}"

    def clear(self) -> str:
        self._values.delete(list(self._values.newest()))
        return "All memory cleared"

    def run(self, name: str, command: Any = None) -> str:
        """Run a method while no other one runs. An error of the daemon is one for the model."""
        try:
            with self._values.lock:
                answer: str = getattr(self, name)(*([] if command is None else [command]))
                return answer
        except MnemoError as error:
            raise ToolError(f"The memory is not available: {error.message}") from error

    def _view_folder(self, path: str) -> str:
        files = self._files_below(path)
        if not files and path != ROOT:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {}
        for file in files:
            names = (file.key or "").removeprefix(f"{path}/").split("/")
            if any(name.startswith(".") for name in names):
                continue
            size = len(file.content.encode())
            for depth in range(1, min(len(names), DEPTH_SHOWN) + 1):
                shown = "/".join(names[:depth]) + ("/" if depth < len(names) else "")
                sizes[shown] = sizes.get(shown, 0) + size
        lines = [f"{_size(sum(len(file.content.encode()) for file in files))}\t{path}"]
        lines += [f"{_size(size)}\t{path}/{name}" for name, size in sorted(sizes.items())]
        heading = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([heading, *lines])

    def _file(self, given: str) -> MemoryView:
        path = _checked(given)
        if (file := self._values.get(path)) is not None:
            return file
        if path == ROOT or self._files_below(path):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    def _files_below(self, path: str) -> list[MemoryView]:
        """Return the files in a folder and those below it."""
        return [file for file in self._values.newest() if (file.key or "").startswith(f"{path}/")]

    def _moved_files(self, path: str, verb: str) -> list[MemoryView]:
        """Return the file of a path, or all files below it. Raises ToolError."""
        if path == ROOT:
            raise ToolError(f"Cannot {verb} the {ROOT} directory itself")
        file = self._values.get(path)
        files = [file] if file is not None else self._files_below(path)
        if not files:
            raise ToolError(f"The path {path} does not exist")
        return files

    def _refuse_taken(self, path: str, message: str) -> None:
        """Raise ToolError where a file cannot stand: there is one, or a folder, or a folder of its path is a file."""
        if path == ROOT or self._values.get(path) is not None or self._files_below(path):
            raise ToolError(message)
        folder = path.rpartition("/")[0]
        while folder != ROOT:
            if self._values.get(folder) is not None:
                raise ToolError(f"{folder} is a file, not a directory")
            folder = folder.rpartition("/")[0]

    def _write(self, path: str, text: str, source: str | None = None) -> str:
        """Store a new file; return what is to be said about it. source: the id of the file that it was."""
        _check_text(text)
        answer = self._values.client.remember(
            text, key=path, source=self._values.source, kind="semantic", category="fact", importance=0.5, infer=False,
            derived_from=[source] if source else [],
        )  # fmt: skip
        if answer.outcome == "duplicate":  # of one in the trash, from which it may differ in case and spaces
            return self._edit(answer.memory, text)
        return _changes(answer.memory, text)

    def _edit(self, file: MemoryView, text: str) -> str:
        """Store a version of a file, unless it was changed meanwhile; return what is to be said about it."""
        _check_text(text)
        return _changes(self._values.client.patch(file.id, content=text, if_version=file.version), text)


class MnemoMemoryTool(BetaAbstractMemoryTool):
    """The memory tool in the namespace of a client; without one, in that of the daemon of this machine."""

    def __init__(self, client: Client | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._files = MemoryFiles(client)

    def view(self, command: ViewCommand) -> str:
        return self._files.run("view", command)

    def create(self, command: CreateCommand) -> str:
        return self._files.run("create", command)

    def str_replace(self, command: StrReplaceCommand) -> str:
        return self._files.run("str_replace", command)

    def insert(self, command: InsertCommand) -> str:
        return self._files.run("insert", command)

    def delete(self, command: DeleteCommand) -> str:
        return self._files.run("delete", command)

    def rename(self, command: RenameCommand) -> str:
        return self._files.run("rename", command)

    def clear_all_memory(self) -> str:
        """Move all files to the trash."""
        return self._files.run("clear")


class AsyncMnemoMemoryTool(BetaAsyncAbstractMemoryTool):
    """MnemoMemoryTool for the asynchronous client of the SDK."""

    def __init__(self, client: Client | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._files = MemoryFiles(client)

    async def view(self, command: ViewCommand) -> str:
        return await asyncio.to_thread(self._files.run, "view", command)

    async def create(self, command: CreateCommand) -> str:
        return await asyncio.to_thread(self._files.run, "create", command)

    async def str_replace(self, command: StrReplaceCommand) -> str:
        return await asyncio.to_thread(self._files.run, "str_replace", command)

    async def insert(self, command: InsertCommand) -> str:
        return await asyncio.to_thread(self._files.run, "insert", command)

    async def delete(self, command: DeleteCommand) -> str:
        return await asyncio.to_thread(self._files.run, "delete", command)

    async def rename(self, command: RenameCommand) -> str:
        return await asyncio.to_thread(self._files.run, "rename", command)

    async def clear_all_memory(self) -> str:
        """Move all files to the trash."""
        return await asyncio.to_thread(self._files.run, "clear")


def _checked(path: str) -> str:
    """Return the path of a file or folder below ROOT. Raises ToolError for any other."""
    root, *names = path.removesuffix("/").split("/")[1:] or [""]
    if not path.startswith("/") or f"/{root}" != ROOT:
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    if any(not name or _UNSAFE.fullmatch(name) for name in names):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    whole = "/".join([ROOT, *names])
    if len(whole) > PATH_CHARS_MAX:
        raise ToolError(f"The path has {len(whole)} characters, at most {PATH_CHARS_MAX}")
    return whole


def _check_text(text: str) -> None:
    """Raise ToolError for a text that a file cannot hold."""
    if not text.strip():
        raise ToolError("A memory file cannot be empty: give it a text, or delete it")
    if len(text) > CONTENT_CHARS_MAX:
        raise ToolError(f"The file would have {len(text)} characters, at most {CONTENT_CHARS_MAX}: use several files")


def _changes(stored: MemoryView, text: str) -> str:
    """Return what the model is to know about the stored text, which is cleaned and has its secrets masked."""
    if stored.content == text.strip():
        return ""
    return " It was stored with changes (spare blank lines and secrets are left out): view it before you edit it."


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(
        f"{number:>{LINE_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, 1) if first <= number <= last
    )


def _size(count: int) -> str:
    """Return a number of bytes as a folder's view shows it: 512B, 1.5K."""
    size, unit = float(count), "B"
    for larger in "KMG":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{int(size)}{unit}" if size == int(size) else f"{size:.1f}{unit}"
