"""The commands that store, show, change and delete memories: add, show, edit, rm, trash, undo."""

import json
from pathlib import Path
from typing import Any

from mnemo_client import process
from mnemo_client.cli.arguments import list_candidates, memory_id_argument, time_argument
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
from mnemo_client.errors import EXIT_DONE, MnemoError, UsageError
from mnemo_client.paths import run_folder
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch


def add(context: CommandContext) -> int:
    options = context.options
    text = context.text(options.text, "remember")
    client = context.client()
    fields: dict[str, Any] = {
        "tags": options.tag,
        "kind": options.kind,
        "category": options.category,
        "importance": options.importance,
        "speaker": options.speaker,
        "event_at": time_argument(options.at),
        "expires_at": time_argument(options.expires),
        "evidence": options.evidence,
        "pinned": options.pin or None,
    }
    answer = client.remember(
        NewMemory(
            content=text,
            key=options.key,
            supersedes=[memory_id_argument(context, text) for text in options.supersedes],
            infer=options.infer or None,
            wait=context.wait_for_statements,
            dedup=options.dedup,
            explain=options.explain,
            # A field without an option stays as it is under a known key.
            **{name: value for name, value in fields.items() if value is not None and value != []},
        )
    )
    if not context.print_json_if_asked():
        context.print(remember_line(answer, context.style), *explanation_lines(answer, context.style))
        if answer.outcome == "duplicate" and any(value for value in fields.values()):
            context.message("its fields stay as they were; change them with: mnemo edit ID")
    return EXIT_DONE


def show(context: CommandContext) -> int:
    """One memory whole; with --edges the memories that it is connected to as well, as JSON these alone."""
    client, options = context.client(), context.options
    if options.edges and options.as_of is not None:
        raise UsageError("--edges and --as-of contradict each other: edges have no history")
    with list_candidates(client):
        memory = client.get(memory_id_argument(context, options.id), time_argument(options.as_of))
    answer = client.edges(memory.id) if options.edges else None
    if context.print_json_if_asked():
        return EXIT_DONE
    lines = memory_lines(memory, context.style, context.cwd, context.home)
    context.page([*lines, *(edge_lines(answer, context.style) if answer is not None else ())])
    if answer is not None and answer.cursor is not None:
        context.message(f"these are the first {len(answer.edges)} edges; there are more")
    return EXIT_DONE


def edit(context: CommandContext) -> int:
    client = context.client()
    with list_candidates(client):
        memory = client.get(memory_id_argument(context, context.options.id))
    change = _patch_from_options(context)
    if change is None and memory.note is not None:
        if context.has_terminal:
            context.message("this memory is part of a note: edit the note, the daemon reads it again")
        open_file(context, Path(memory.note.path), memory.note.lines[0])
        return EXIT_DONE
    changed = client.patch(memory.id, change) if change is not None else _edit_text(context, memory)
    if changed is None:
        context.message("nothing changed")
    if context.wants_json:
        context.print_answer()
    elif changed is None:
        return EXIT_DONE
    else:
        context.print(f"{context.style.good('changed')}: {short_id(changed.id)}, version {changed.version}")
    return EXIT_DONE


def _patch_from_options(context: CommandContext) -> Patch | None:
    """Return the change that the options name; None if they name none, which means the editor."""
    options = context.options
    if options.pin and options.unpin:
        raise UsageError("--pin and --unpin contradict each other")
    fields: dict[str, Any] = {
        "tags": options.tag,
        "importance": options.importance,
        "kind": options.kind,
        "category": options.category,
        "pinned": True if options.pin else False if options.unpin else None,
    }
    if options.content is not None:
        fields["content"] = context.text([options.content], "store")
    given = {name: value for name, value in fields.items() if value is not None}
    return Patch(**given) if given else None


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


def rm(context: CommandContext) -> int:
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
    return EXIT_DONE


def trash(context: CommandContext) -> int:
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
    return EXIT_DONE


def trash_restore(context: CommandContext) -> int:
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
    return EXIT_DONE


def undo(context: CommandContext) -> int:
    options = context.options
    named = [each for each in (options.change, options.seq, options.group, options.cycle) if each is not None]
    if len(named) > 1:
        raise UsageError("give one change, one group or one cycle", "see: mnemo undo --help")
    seq = options.change if options.seq is None else options.seq
    undone = context.client().undo(seq, options.group, cycle=options.cycle, dry_run=options.dry_run)
    if not context.print_json_if_asked():
        context.print(*undone_lines(undone, context.style))
    return EXIT_DONE
