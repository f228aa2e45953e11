"""The commands that copy, replace, empty and compact the store: backup, restore, reset, compact."""

import contextlib
import signal
from collections.abc import Iterator

from mnemo_client import process
from mnemo_client.cli import offline_process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import plural, short_path, size_text
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.errors import EXIT_DONE, UsageError
from mnemo_client.paths import data_folder, socket_path

BACKUP_MANIFEST = "backup.json"  # a file that a backup has and a data folder does not


def backup(context: CommandContext) -> int:
    asked = context.options.folder
    folder = None if asked is None else context.path(asked)
    client = context.client()
    with shown_progress(context, "backup"):
        made = client.back_up(folder)
    if context.print_json_if_asked():
        return EXIT_DONE
    shown = short_path(made.folder, context.cwd, context.home)
    context.print(f"{context.style.good('backed up')}: {shown}, {size_text(made.bytes)}, up to change {made.seq}")
    if not made.has_database:
        context.message(
            "the database is unavailable: the copy has everything except the vectors, which are computed again"
        )
    if asked is None:
        context.message("it is on the same disk; name a folder on another disk to be safe from the loss of this one")
    context.message(f"restore it with: mnemo restore {shown}")
    return EXIT_DONE


def restore(context: CommandContext) -> int:
    """Restore without a daemon: a running one is stopped after the source was verified, and started again afterwards,
    whatever the result."""
    options = context.options
    data = data_folder(context.environ)
    target = data if options.to is None else context.path(options.to)
    if options.folder is None and options.at is None:
        raise UsageError("name a backup, or a time with --at", "list the backups with: ls " + str(data / "backups"))
    source = data if options.folder is None else context.folder(options.folder)
    if (target / BACKUP_MANIFEST).exists():
        raise UsageError(f"{target} is a backup, which is never changed", "name a data folder with --to")
    at = options.at and str(
        offline_process.run_offline(context, "restore", str(source), "--at", options.at, "--only-at")["at"]
    )
    if target == data and data.exists() and not options.yes:
        shown = short_path(str(data), context.cwd, context.home)
        context.confirm(f"replace the store in {shown} (the present one is kept next to it)")
    words = ["restore", str(source), "--to", str(target)]
    offline_process.run_offline(context, *words, "--only-check")
    words += ["--at", at] if at else []
    words += ["--allow-forgotten"] if options.allow_forgotten else []
    with _daemon_stopped(context) if data in (source, target) else contextlib.nullcontext():
        answer = offline_process.run_offline(context, *words)
    if context.print_json_if_asked(answer):
        return EXIT_DONE
    what = plural(answer["memories"], "memory", "memories")
    shown = short_path(str(target), context.cwd, context.home)
    context.print(f"{context.style.good('restored')}: {shown}, {what}, up to change {answer['seq']}")
    for line in answer["said"]:
        context.message(f"  {line}")
    if answer["forgotten"]:
        left_out = plural(len(answer["forgotten"]), "memory", "memories")
        context.message(f"not restored: {left_out} that had been erased since")
    if answer["kept_as"]:
        kept = short_path(answer["kept_as"], context.cwd, context.home)
        context.message(f"the previous store is kept as {kept}; delete it when you are sure")
    return EXIT_DONE


@contextlib.contextmanager
def _daemon_stopped(context: CommandContext) -> Iterator[None]:
    """Stop the daemon within the block and start it again afterwards if it ran, also if the command is terminated."""
    before = [(ending, signal.signal(ending, signal.default_int_handler)) for ending in (signal.SIGTERM, signal.SIGHUP)]
    was_running = False
    try:
        was_running = process.is_listening(socket_path(context.environ))
        process.stop(context.connect())
        yield
    finally:
        if was_running:
            process.ensure_running(context.environ, context.message, is_asked_for=True)
        for ending, handler in before:
            signal.signal(ending, handler)


def reset(context: CommandContext) -> int:
    """Empty the store, after the user typed the word; the daemon makes a backup first."""
    client = context.client()
    planned = client.reset()
    what = plural(planned.memories, "memory", "memories")
    if not context.options.yes and not context.options.dry_run:
        question = f"this removes {what} from all namespaces, after a backup; type the word reset to go on:"
        if not context.has_terminal:
            raise UsageError("confirmation is needed, and there is no terminal to ask", "confirm with --yes")
        if context.ask_line(question) != "reset":
            raise UsageError("nothing was changed")
    if context.options.dry_run:
        if not context.print_json_if_asked():
            context.print(
                f"would remove {what}, after a backup; {plural(planned.roots, 'folder')} of notes stay watched"
            )
        return EXIT_DONE
    with shown_progress(context, "reset"):
        done = client.reset(confirm=True)
    if context.print_json_if_asked() or done.backup is None:
        return EXIT_DONE
    shown = short_path(done.backup.folder, context.cwd, context.home)
    context.print(f"{context.style.good('reset')}: {plural(done.memories, 'memory', 'memories')} removed")
    if done.roots:
        context.message(f"the notes of {plural(done.roots, 'folder')} are read again; mnemo notes rm stops that")
    context.message(f"everything is in the backup {shown}; take it back with: mnemo restore {shown}")
    return EXIT_DONE


def compact(context: CommandContext) -> int:
    client = context.client()
    with shown_progress(context, "compact"):
        answer = client.compact(dry_run=context.options.dry_run)
    if context.print_json_if_asked():
        return EXIT_DONE
    given_up = plural(answer.versions, "earlier version", "earlier versions")
    if answer.dry_run:
        context.print(f"would remove {given_up}; history.keep sets how much history stays")
        return EXIT_DONE
    before = answer.database_before + answer.journal_before
    after = answer.database + answer.journal
    context.print(f"{size_text(before)} became {size_text(after)}; {given_up} removed")
    return EXIT_DONE
