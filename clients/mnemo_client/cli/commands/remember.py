"""The commands about memories: add, recall, open, search, show, edit, rm, trash, undo, context."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    pass


# Remember


def add(invocation: CommandContext) -> int:
    options = invocation.options
    text = invocation.text(options.text, "remember")
    client = invocation.client()
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
            supersedes=[memory_id_argument(invocation, text) for text in options.supersedes],
            infer=options.infer or None,
            dedup=options.dedup,
            explain=options.explain,
            # What no option names stays as it is under a known key.
            **{name: value for name, value in fields.items() if value is not None and value != []},
        )
    )
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(remember_line(answer, invocation.style), *explanation_lines(answer, invocation.style))
    return EXIT_DONE


# Ask


# The last answer


# One memory


def show(invocation: CommandContext) -> int:
    """One memory whole; with --edges the memories that it is connected to as well, as JSON these alone."""
    client, options = invocation.client(), invocation.options
    if options.edges and options.as_of is not None:
        raise UsageError("--edges and --as-of contradict each other: edges have no history")
    with list_candidates(client):
        memory = client.get(memory_id_argument(invocation, options.id), time_argument(options.as_of))
    answer = client.edges(memory.id) if options.edges else None
    if invocation.wants_json:
        invocation.print_answer()
        return EXIT_DONE
    lines = memory_lines(memory, invocation.style, invocation.cwd, invocation.home)
    invocation.page([*lines, *(edge_lines(answer, invocation.style) if answer is not None else ())])
    if answer is not None and answer.cursor is not None:
        invocation.message(f"these are the first {len(answer.edges)} edges; there are more")
    return EXIT_DONE


def edit(invocation: CommandContext) -> int:
    client = invocation.client()
    with list_candidates(client):
        memory = client.get(memory_id_argument(invocation, invocation.options.id))
    change = _patch_from_options(invocation)
    if change is None and memory.note is not None:
        if invocation.has_terminal:
            invocation.message("this memory is part of a note: what you save there is what is remembered")
        open_file(invocation, Path(memory.note.path), memory.note.lines[0])
        return EXIT_DONE
    changed = client.patch(memory.id, change) if change is not None else _edit_text(invocation, memory)
    if changed is None:
        invocation.message("nothing changed")
    elif invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(f"{invocation.style.good('changed')}: {short_id(changed.id)}, version {changed.version}")
    return EXIT_DONE


def _patch_from_options(invocation: CommandContext) -> Patch | None:
    """What the options ask for; None where they ask for nothing, which means the editor."""
    options = invocation.options
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
        fields["content"] = invocation.text([options.content], "store")
    given = {name: value for name, value in fields.items() if value is not None}
    return Patch(**given) if given else None


def _edit_text(invocation: CommandContext, memory: MemoryView) -> MemoryView | None:
    from mnemo_client.cli import editor

    otherwise = "give the new text: mnemo edit ID --content TEXT, or --content - from standard input"
    editor.check_terminal(invocation.environ, invocation.has_terminal, otherwise)
    folder = run_folder(invocation.environ)
    process.make_private_folder(folder)
    invocation.terminal.flush()
    text, path = editor.edit_text(invocation.environ, memory.content, folder)
    if text == memory.content.strip():
        path.unlink()
        return None
    try:
        changed = invocation.connect().patch(memory.id, Patch(content=text, if_version=memory.version))
    except MnemoError as error:
        # Work that was typed is not thrown away because the daemon would not have it.
        raise MnemoError(
            error.message, f"{error.hint + '; ' if error.hint else ''}your text is kept in {path}"
        ) from error
    path.unlink()
    return changed


def rm(invocation: CommandContext) -> int:
    """Moves all of them to the trash in one change, or none where one id is wrong."""
    ids = [memory_id_argument(invocation, text) for text in invocation.options.id]
    client = invocation.client()
    with list_candidates(client):
        answer = client.delete_ids(ids)
    if invocation.wants_json:
        invocation.print_answer()
    elif not answer.ids:
        invocation.message("already in the trash")
    else:
        invocation.print(f"moved to the trash: {', '.join(map(short_id, answer.ids))}")
        invocation.message(f"take {'it' if len(answer.ids) == 1 else 'them'} back with: mnemo undo")
    return EXIT_DONE


def trash(invocation: CommandContext) -> int:
    set_aside = invocation.options.set_aside
    page = invocation.client().trash(set_aside=set_aside, limit=invocation.options.top)
    if invocation.wants_json:
        invocation.print_answer()
    elif not page.memories:
        invocation.message("nothing is set aside" if set_aside else "the trash is empty")
    else:
        invocation.page(trash_lines(page, invocation.style))
        if page.cursor is not None:
            invocation.message(
                f"there is more; show it with: mnemo trash{' --set-aside' if set_aside else ''} --top 500"
            )
        stays = "; what is set aside goes after 30 days" if set_aside else ""
        invocation.message(f"bring one back with: mnemo trash restore ID{stays}")
    return EXIT_DONE


def trash_restore(invocation: CommandContext) -> int:
    client = invocation.client()
    bodies = []
    with list_candidates(client):  # all of them are there before the first is restored
        ids = [client.get(memory_id_argument(invocation, text)).id for text in invocation.options.id]
    for memory_id in ids:
        memory = client.restore(memory_id)
        bodies.append(json.loads(client.last_body))
        if not invocation.wants_json:
            invocation.print(f"{invocation.style.good('restored')}: {short_id(memory.id)}  "
                           f"{first_line(memory)}")  # fmt: skip
    if invocation.wants_json:
        invocation.print_value(bodies[0] if len(bodies) == 1 else bodies)
    return EXIT_DONE


def undo(invocation: CommandContext) -> int:
    options = invocation.options
    named = [each for each in (options.change, options.seq, options.group) if each is not None]
    if len(named) > 1:
        raise UsageError("one change is taken back at once, or one group", "see: mnemo undo --help")
    seq = options.change if options.seq is None else options.seq
    undone = invocation.client().undo(seq, options.group, dry_run=options.dry_run)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*undone_lines(undone, invocation.style))
    return EXIT_DONE
