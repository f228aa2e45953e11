"""The commands that store, show, change and delete memories: add, show, edit, rm, trash, undo."""

import json
from contextlib import suppress
from pathlib import Path

from mnemo_client import process
from mnemo_client.cli.arguments import list_candidates, memory_id_argument, request_fields, time_argument
from mnemo_client.cli.commands.recall import open_file
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import (
    edge_lines,
    explanation_lines,
    memory_lines,
    remember_line,
    trash_lines,
    undone_lines,
)
from mnemo_client.cli.format.units import first_line, short_id
from mnemo_client.errors import MnemoError, UsageError
from mnemo_client.paths import run_folder
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch

# Options of `add` that say what is to be done, and are no property of the memory.
OF_THE_REQUEST = frozenset({"key", "supersedes", "infer", "dedup", "explain"})


def add(context: CommandContext) -> None:
    options = context.options
    text = context.text(options.text, "remember")
    client = context.client()
    fields = request_fields(options, NewMemory)  # a field without an option stays as it is under a known key
    fields["supersedes"] = [memory_id_argument(context, text) for text in options.supersedes]
    answer = client.remember(NewMemory(content=text, wait=context.wait_for_statements, **fields))
    if not context.print_json_if_asked():
        context.print(remember_line(answer, context.style))
        for each in (*answer.repeats, *answer.updates, *answer.perhaps_updates):
            with suppress(MnemoError):  # erased meanwhile
                context.print(f"  {short_id(each)}  {first_line(client.get(each))}")
        context.print(*explanation_lines(answer, context.style))
        if answer.perhaps_updates:
            context.message(f"if it is not newer: mnemo edit {short_id(answer.memory.id)} --newer-than none")
        if answer.outcome == "duplicate" and any(fields[name] for name in fields.keys() - OF_THE_REQUEST):
            context.message("its fields stay as they were; change them with: mnemo edit ID")


def show(context: CommandContext) -> None:
    """One memory whole; with --edges the memories that it is connected to as well, as JSON these alone."""
    client, options = context.client(), context.options
    if options.edges and options.as_of is not None:
        raise UsageError("--edges and --as-of contradict each other: edges have no history")
    with list_candidates(client):
        memory = client.get(memory_id_argument(context, options.id), time_argument(options.as_of))
    answer = client.edges(memory.id) if options.edges else None
    if context.print_json_if_asked():
        return
    lines = memory_lines(memory, context.style, context.cwd, context.home)
    context.page([*lines, *(edge_lines(answer, context.style) if answer is not None else ())])
    if answer is not None and answer.cursor is not None:
        context.message(f"these are the first {len(answer.edges)} edges; there are more")


def edit(context: CommandContext) -> None:
    client = context.client()
    with list_candidates(client):
        memory = client.get(memory_id_argument(context, context.options.id))
    options = context.options
    if options.pin and options.unpin:
        raise UsageError("--pin and --unpin contradict each other")
    fields = request_fields(options, Patch)
    if options.unpin:
        fields["pinned"] = False
    if "updates" in fields:
        fields["updates"] = [memory_id_argument(context, each) for each in fields["updates"] if each != "none"]
    if options.content is not None:
        fields["content"] = context.text([options.content], "store")
    change = Patch(**fields) if fields else None
    if change is None and memory.note is not None:
        if context.has_terminal:
            context.message("this memory is part of a note: edit the note, the daemon reads it again")
        open_file(context, Path(memory.note.path), memory.note.lines[0])
        return
    changed = client.patch(memory.id, change) if change is not None else _edit_text(context, memory)
    if changed is None:
        context.message("nothing changed")
    if context.wants_json:
        context.print_answer()
    elif changed is None:
        return
    else:
        context.print(f"{context.style.good('changed')}: {short_id(changed.id)}, version {changed.version}")


def _edit_text(context: CommandContext, memory: MemoryView) -> MemoryView | None:
    from mnemo_client.cli import editor

    otherwise = "give the new text: mnemo edit ID --content TEXT, or --content - from standard input"
    editor.check_terminal(context.environ, context.has_terminal, otherwise)
    folder = run_folder(context.environ)
    process.make_private_folder(folder)
    context.terminal.flush()
    text, path = editor.edit_text(context.environ, memory.content, folder)
    if text == memory.content.strip():
        path.unlink()
        return None
    try:
        changed = context.connect().patch(memory.id, Patch(content=text, if_version=memory.version))
    except MnemoError as error:
        # A text that was typed is kept even if the daemon refuses it.
        raise MnemoError(
            error.message, f"{error.hint + '; ' if error.hint else ''}your text is kept in {path}"
        ) from error
    path.unlink()
    return changed


def rm(context: CommandContext) -> None:
    """Delete all of them in one change, or none if one id is wrong."""
    ids = [memory_id_argument(context, text) for text in context.options.id]
    client = context.client()
    with list_candidates(client):
        answer = client.delete_ids(ids)
    if context.wants_json:
        context.print_answer()
    elif not answer.ids:
        context.message("already in the trash")
    else:
        context.print(f"moved to the trash: {', '.join(map(short_id, answer.ids))}")
        context.message("undo this with: mnemo undo")


def trash(context: CommandContext) -> None:
    set_aside = context.options.set_aside
    page = context.reading_client().trash(set_aside=set_aside, limit=context.options.top)
    if context.wants_json:
        context.print_answer()
    elif not page.memories:
        context.message("nothing was rejected" if set_aside else "the trash is empty")
    else:
        context.page(trash_lines(page, context.style))
        if page.cursor is not None:
            context.message(f"there is more; show it with: mnemo trash{' --set-aside' if set_aside else ''} --top 500")
        stays = "; rejected texts are erased after 30 days" if set_aside else ""
        context.message(f"restore one with: mnemo trash restore ID{stays}")


def trash_restore(context: CommandContext) -> None:
    client = context.client()
    bodies = []
    with list_candidates(client):  # all of them must exist before the first is restored
        ids = [client.get(memory_id_argument(context, text)).id for text in context.options.id]
    for memory_id in ids:
        memory = client.restore(memory_id)
        bodies.append(json.loads(client.last_body))
        if not context.wants_json:
            context.print(f"{context.style.good('restored')}: {short_id(memory.id)}  "
                           f"{first_line(memory)}")  # fmt: skip
    context.print_json_if_asked(bodies[0] if len(bodies) == 1 else bodies)


def undo(context: CommandContext) -> None:
    options = context.options
    named = [each for each in (options.change, options.seq, options.group, options.cycle) if each is not None]
    if len(named) > 1:
        raise UsageError("give one change, one group or one cycle", "see: mnemo undo --help")
    seq = options.change if options.seq is None else options.seq
    undone = context.client().undo(seq, options.group, cycle=options.cycle, dry_run=options.dry_run)
    if not context.print_json_if_asked():
        context.print(*undone_lines(undone, context.style))
        with suppress(MnemoError):  # which text it was, where it can be read
            context.print(*(f"  {first_line(context.client().get(each))}" for each in undone.ids if undone.total < 2))
