"""`mnemo setup`: lists the clients, connects one, or disconnects it."""

import difflib
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from mnemo_client.cli.agent_setup.config_files import (
    ConfigFile,
    FileChange,
    SetupRecords,
    apply_addition,
    apply_removal,
    is_set_up,
    plan_addition,
    plan_removal,
)
from mnemo_client.cli.agent_setup.setup_clients import CLIENTS, SetupClient, SetupPlaces, find_client
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.terminal import sanitize, table
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, MnemoError, UsageError


def setup(context: CommandContext) -> int:
    """Connect a client, or show, check or undo that; without a client list all of them."""
    options = context.options
    project = context.cwd if options.project else None
    places = SetupPlaces(context.environ, _program(context), project)
    if options.client is None:
        return _list_clients(context, places)
    client = find_client(options.client)
    if project is not None and not client.serves_projects:
        raise UsageError(f"{client.title} has no such configuration of a project", "leave --project out")
    files = client.files(places, not options.no_hooks)
    if options.remove:
        # Those for hooks, too, whatever the setup was asked for. The last file comes first: the folder of several was
        # created for the first.
        return _remove(context, client, client.files(places, True)[::-1])
    client.check_installation()
    if options.print:
        return _print_entries(context, files)
    return _add(context, client, files)


def _program(context: CommandContext) -> str:
    """Return the absolute path of the command: agents do not have the user's PATH. Raises MnemoError."""
    sibling = Path(sys.executable).with_name("mnemo")
    found = str(sibling) if sibling.is_file() else shutil.which("mnemo", path=context.environ.get("PATH"))
    if found is None:
        raise MnemoError("the command mnemo is not beside its Python, and not in PATH", "install mnemod again")
    return found


def _list_clients(context: CommandContext, places: SetupPlaces) -> int:
    listed, rows = [], []
    for client in CLIENTS:
        files = client.files(places, True)
        found, is_connected = client.is_found(places), any(map(is_set_up, files))
        listed.append({
            "client": client.name, "title": client.title, "found": found, "set_up": is_connected,
            "files": [str(file.path) for file in files],
        })  # fmt: skip
        state = "set up" if is_connected else "found" if found else "not found"
        rows.append([client.name, state, ", ".join(_short(context, file.path) for file in files)])
    if not context.print_json_if_asked({"clients": listed}):
        context.print(*table(rows, width=context.style.width))
        context.message("connect one with: mnemo setup CLIENT")
    return EXIT_DONE


def _print_entries(context: CommandContext, files: list[ConfigFile]) -> int:
    """Print the entries as they would be in new files, for a person who adds them by hand."""
    shown = {str(file.path): file.editor.add("") for file in files}
    if not context.print_json_if_asked({"files": [{"path": path, "text": text} for path, text in shown.items()]}):
        for path, text in shown.items():
            context.print(f"{path}:", *text.rstrip("\n").split("\n"), "")
    return EXIT_DONE


def _add(context: CommandContext, client: SetupClient, files: list[ConfigFile]) -> int:
    changes = [plan_addition(file) for file in files]  # all of them, before the first file is written
    needed = [change for change in changes if change.is_needed]
    if context.options.dry_run:
        return _show(context, client, needed)
    records = SetupRecords(context.environ)
    backups = {str(change.file.path): apply_addition(change, records, client.name) for change in needed}
    for line in _link_notes(needed):
        context.message(line)
    if warning := _warning(client):
        context.message(warning)
    written = [{"path": path, "backup": str(backup) if backup else None} for path, backup in backups.items()]
    answer = {"client": client.name, "changed": written, "warnings": [warning] if warning else []}
    if context.print_json_if_asked(answer):
        return EXIT_DONE
    if not needed:
        context.print(f"{client.title} is set up already; nothing was changed")
        return EXIT_DONE
    context.print(f"{client.title} is set up", *_file_lines(context, backups), f"next: {client.next_steps}")
    return EXIT_DONE


def _remove(context: CommandContext, client: SetupClient, files: list[ConfigFile]) -> int:
    records = SetupRecords(context.environ)
    changes = [plan_removal(file, records) for file in files]
    needed = [change for change in changes if change.is_needed]
    if context.options.dry_run:
        return _show(context, client, needed)
    backups = {str(change.file.path): apply_removal(change, records) for change in needed}
    for line in _link_notes(needed):
        context.message(line)
    written = [{"path": path, "backup": str(backup) if backup else None} for path, backup in backups.items()]
    if not context.print_json_if_asked({"client": client.name, "changed": written, "warnings": []}):
        head = f"{client.title} is no longer set up" if needed else f"{client.title} was not set up"
        context.print(head, *_file_lines(context, backups))
    return EXIT_DONE if needed else EXIT_NOT_FOUND


def _file_lines(context: CommandContext, backups: dict[str, Path | None]) -> Iterator[str]:
    for path, backup in backups.items():
        kept = f" (its former text: {_short(context, backup)})" if backup is not None else ""
        yield f"  {_short(context, Path(path))}{kept}"


def _show(context: CommandContext, client: SetupClient, changes: list[FileChange]) -> int:
    """Print the changes as a diff; nothing is written."""
    shown = []
    for change in changes:
        former, later = ((data or b"").decode("utf-8", "replace") for data in (change.before, change.after))
        lines = list(difflib.unified_diff(
            former.splitlines(), later.splitlines(), str(change.file.path), str(change.file.path), lineterm="",
        ))  # fmt: skip
        shown.append({"path": str(change.file.path), "diff": lines})
    if context.print_json_if_asked({"client": client.name, "would_change": shown}):
        return EXIT_DONE
    for each in shown:
        context.print(*(sanitize(line, lines=True) for line in each["diff"]))
    context.message("nothing was written" if shown else f"nothing would change for {client.title}")
    return EXIT_DONE


def _link_notes(changes: list[FileChange]) -> Iterator[str]:
    for change in changes:
        if change.is_linked:
            yield f"{change.file.path} is a link; the file that was changed is {change.target}"


def _warning(client: SetupClient) -> str:
    """Return the warning that the daemon cannot serve MCP yet, if so."""
    if client.uses_mcp and find_spec("mcp") is None:
        return "the tools of the server need the extra `mcp`: pip install 'mnemod[mcp]'"
    return ""


def _short(context: CommandContext, path: Path) -> str:
    home = context.home
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
