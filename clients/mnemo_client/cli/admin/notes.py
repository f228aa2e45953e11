"""The commands about watched folders: notes status, add, rm, rescan."""

from pathlib import Path

from mnemo_client import namespace
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.state import notes_lines
from mnemo_client.cli.format.units import plural, short_path
from mnemo_client.errors import EXIT_DONE, NotFoundError, UsageError


def notes_status(invocation: CommandContext) -> int:
    answer = invocation.client().notes_status()
    if invocation.wants_json:
        invocation.print_answer()
    elif not answer.roots:
        invocation.message("no folder is watched yet; add one with: mnemo notes add FOLDER")
    else:
        invocation.page(notes_lines(answer, invocation.style, invocation.cwd, invocation.home))
    return EXIT_DONE


def notes_add(invocation: CommandContext) -> int:
    add_root(invocation, invocation.options.folder)
    if invocation.wants_json:
        invocation.print_answer()
    return EXIT_DONE


def add_root(invocation: CommandContext, text: str) -> None:
    """A folder's namespace is the option's, else what the folder itself says, not the one it was typed in."""
    folder = notes_folder(invocation, text)
    chosen = namespace.choose_namespace(invocation.options.namespace, folder, invocation.environ)
    root = invocation.client().add_root(folder, chosen.name)
    if not invocation.wants_json:
        shown = short_path(root.path, invocation.cwd, invocation.home)
        invocation.print(f"{invocation.style.good('watching')} {shown} · namespace {root.namespace}")


def notes_folder(invocation: CommandContext, text: str) -> Path:
    folder = (invocation.cwd / Path(text).expanduser()).resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder" if folder.exists() else f"there is no folder {folder}")
    return folder


def notes_rm(invocation: CommandContext) -> int:
    """The folder may be gone already; its path or id is enough."""
    text = invocation.options.folder
    client = invocation.client()
    wanted = {text, str((invocation.cwd / Path(text).expanduser()).resolve()), str(Path(text).expanduser())}
    root = next((root for root in client.notes_roots() if {root.id, root.path} & wanted), None)
    if root is None:
        raise NotFoundError(f"{text} is not watched", "see the folders with: mnemo notes status")
    gone = client.remove_root(root.id)
    if invocation.wants_json:
        invocation.print_answer()
    else:
        shown = short_path(root.path, invocation.cwd, invocation.home)
        moved = f"{plural(gone.deleted or 0, 'memory', 'memories')} moved to the trash"
        invocation.print(f"no longer watching {shown}: {moved}, its files are as they were")
    return EXIT_DONE


def notes_rescan(invocation: CommandContext) -> int:
    answer = invocation.client().rescan()
    if invocation.wants_json:
        invocation.print_answer()
    else:
        invocation.print(*notes_lines(answer, invocation.style, invocation.cwd, invocation.home))
    return EXIT_DONE
