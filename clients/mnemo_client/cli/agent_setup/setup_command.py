"""`mnemo setup`: lists the clients, connects one, or disconnects it."""

import difflib
from collections.abc import Sequence
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
from mnemo_client.cli.agent_setup.setup_clients import (
    CLIENTS,
    SetupClient,
    SetupPlaces,
    adds_step_hook,
    find_client,
    find_program,
    without_hooks,
)
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import short_path
from mnemo_client.cli.terminal import sanitize, table
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError


def setup(context: CommandContext) -> int:
    """Connect a client, or show, check or undo that; without a client list all of them."""
    options = context.options
    project = context.cwd if options.project else None
    places = SetupPlaces(context.environ, find_program(context.environ), project, options.steps)
    if options.client is None:
        listed, rows = [], []
        for client in CLIENTS:
            files = client.files(places)
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
    client = find_client(options.client)
    if project is not None and not client.serves_projects:
        raise UsageError(f"{client.title} has no configuration of a single project", "leave --project out")
    files = client.files(places)
    if options.remove:
        # The hooks too, even with --no-hooks. The first file comes last: the folder was created for it.
        return _remove(context, client, files[::-1])
    files = without_hooks(files) if options.no_hooks else files
    if options.steps and not adds_step_hook(files):
        if options.no_hooks:
            raise UsageError("--steps and --no-hooks contradict each other: a hook records the steps")
        raise UsageError(f"mnemo has no hook for the steps of {client.title}", "leave --steps out")
    client.check_installation()
    if options.print:
        shown = {str(file.path): file.editor.add("") for file in files}
        if not context.print_json_if_asked({"files": [{"path": path, "text": text} for path, text in shown.items()]}):
            for path, text in shown.items():
                context.print(f"{path}:", *text.rstrip("\n").split("\n"), "")
        return EXIT_DONE
    changes = [plan_addition(file) for file in files]  # all of them, before the first file is written
    needed = [change for change in changes if change.is_needed]
    if context.options.dry_run:
        return _show(context, client, needed)
    records = SetupRecords(context.environ)
    backups = [apply_addition(change, records, client.name) for change in needed]
    head = "is set up" if needed else "is set up already; nothing was changed"
    next_steps = [f"next: {client.next_steps}"] if needed else []
    lacks_tools = client.uses_mcp and find_spec("mcp") is None
    warnings = ["the tools of the server need the extra `mcp`: pip install 'mnemod[mcp]'"] if lacks_tools else []
    _report(context, client, head, list(zip(needed, backups, strict=True)), next_steps, warnings)
    return EXIT_DONE


def _remove(context: CommandContext, client: SetupClient, files: list[ConfigFile]) -> int:
    records = SetupRecords(context.environ)
    changes = [plan_removal(file, records) for file in files]
    needed = [change for change in changes if change.is_needed]
    if context.options.dry_run:
        return _show(context, client, needed)
    backups = [apply_removal(change, records) for change in needed]
    head = "is no longer set up" if needed else "was not set up"
    _report(context, client, head, list(zip(needed, backups, strict=True)))
    return EXIT_DONE if needed else EXIT_NOT_FOUND


def _report(
    context: CommandContext, client: SetupClient, head: str, written: list[tuple[FileChange, Path | None]],
    next_steps: Sequence[str] = (), warnings: Sequence[str] = (),
) -> None:  # fmt: skip
    """Print the files that were written with their backups, and the warnings as messages."""
    changed, lines = [], []
    for change, backup in written:
        path = change.file.path
        changed.append({"path": str(path), "backup": str(backup) if backup else None})
        lines.append(f"  {_short(context, path)}" + (f" (backup: {_short(context, backup)})" if backup else ""))
        if change.is_linked:
            context.message(f"{path} is a link; the file that was changed is {change.target}")
    for warning in warnings:
        context.message(warning)
    if not context.print_json_if_asked({"client": client.name, "changed": changed, "warnings": list(warnings)}):
        context.print(f"{client.title} {head}", *lines, *next_steps)


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


def _short(context: CommandContext, path: Path) -> str:
    return short_path(str(path), None, context.home)
