"""The commands about watched folders: notes status, add, rm, rescan."""

from pathlib import Path

from mnemo_client import namespace
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import notes_lines
from mnemo_client.cli.format.units import plural, short_path
from mnemo_client.errors import EXIT_DONE, NotFoundError


def notes_status(context: CommandContext) -> int:
    answer = context.client().notes_status()
    if context.wants_json:
        context.print_answer()
    elif not answer.roots:
        context.message("no folder is watched yet; add one with: mnemo notes add FOLDER")
    else:
        context.page(notes_lines(answer, context.style, context.cwd, context.home))
    return EXIT_DONE


def notes_add(context: CommandContext) -> int:
    add_root(context, context.folder(context.options.folder))
    context.print_json_if_asked()
    return EXIT_DONE


def add_root(context: CommandContext, folder: Path) -> None:
    """Watch a folder, in the namespace of the option or else of that folder, not of the working directory."""
    chosen = namespace.choose_namespace(context.options.namespace, folder, context.environ)
    root = context.client().add_root(folder, chosen.name)
    if not context.wants_json:
        shown = short_path(root.path, context.cwd, context.home)
        context.print(f"{context.style.good('watching')} {shown} · namespace {root.namespace}")


def notes_rm(context: CommandContext) -> int:
    """Stop watching a folder, by its path or id; it need not exist any more."""
    text = context.options.folder
    client = context.client()
    wanted = {text, str(context.path(text)), str(Path(text).expanduser())}
    root = next((root for root in client.notes_roots() if {root.id, root.path} & wanted), None)
    if root is None:
        raise NotFoundError(f"{text} is not watched", "see the folders with: mnemo notes status")
    answer = client.remove_root(root.id)
    if not context.print_json_if_asked():
        shown = short_path(root.path, context.cwd, context.home)
        moved = f"{plural(answer.deleted or 0, 'memory', 'memories')} moved to the trash"
        context.print(f"no longer watching {shown}: {moved}, its files are unchanged")
        if answer.deleted:
            context.message(f"its memories return with: mnemo notes add {shown}")
    return EXIT_DONE


def notes_rescan(context: CommandContext) -> int:
    answer = context.client().rescan()
    if not context.print_json_if_asked():
        context.print(*notes_lines(answer, context.style, context.cwd, context.home))
    return EXIT_DONE
