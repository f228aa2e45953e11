"""The commands about the whole store: backup, restore, reset, compact, check, repair.

The last two use a running daemon, or else `python -m mnemo_daemon.offline`; no daemon is started, since a damaged store
may be what keeps it from starting.
"""

import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import number_text, plural, short_id, short_path, size_text
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import TextStyle, sanitize, table
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, UsageError
from mnemo_client.paths import data_folder, socket_path
from mnemo_client.protocol.maintenance import CheckAnswer, RepairAnswer

if TYPE_CHECKING:
    from mnemo_client.client import Client

BACKUP_MANIFEST = "backup.json"  # a file that a backup has and a data folder does not


def backup(context: CommandContext) -> None:
    asked = context.options.folder
    folder = None if asked is None else context.path(asked)
    client = context.client()
    with shown_progress(context, "backup"):
        made = client.back_up(folder=None if folder is None else str(folder))
    if context.print_json_if_asked():
        return
    shown = short_path(made.folder, context.cwd, context.home)
    context.print(f"{context.style.good('backed up')}: {shown}, {size_text(made.bytes)}, up to change {made.seq}")
    if not made.has_database:
        context.message(
            "the database is unavailable: the copy has everything except the vectors, which are computed again"
        )
    if asked is None:
        context.message("it is on the same disk; name a folder on another disk to be safe from the loss of this one")
    context.message(f"restore it with: mnemo restore {shown}")


def restore(context: CommandContext) -> None:
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
    at = options.at and str(context.run_offline("restore", str(source), "--at", options.at, "--only-at")["at"])
    if target == data and data.exists() and not options.yes:
        shown = short_path(str(data), context.cwd, context.home)
        context.confirm(f"replace the store in {shown} (the present one is kept next to it)")
    words = ["restore", str(source), "--to", str(target)]
    context.run_offline(*words, "--only-check")
    words += ["--at", at] if at else []
    words += ["--allow-forgotten"] if options.allow_forgotten else []
    with _daemon_stopped(context) if data in (source, target) else contextlib.nullcontext():
        answer = context.run_offline(*words)
    if context.print_json_if_asked(answer):
        return
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


def reset(context: CommandContext) -> None:
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
        return
    with shown_progress(context, "reset"):
        done = client.reset(confirm=True)
    if context.print_json_if_asked() or done.backup is None:
        return
    shown = short_path(done.backup.folder, context.cwd, context.home)
    context.print(f"{context.style.good('reset')}: {plural(done.memories, 'memory', 'memories')} removed")
    if done.roots:
        context.message(f"the notes of {plural(done.roots, 'folder')} are read again; mnemo notes rm stops that")
    context.message(f"everything is in the backup {shown}; take it back with: mnemo restore {shown}")


def compact(context: CommandContext) -> None:
    client = context.client()
    with shown_progress(context, "compact"):
        answer = client.compact(dry_run=context.options.dry_run)
    if context.print_json_if_asked():
        return
    given_up = plural(answer.versions, "earlier version", "earlier versions")
    if answer.dry_run:
        context.print(f"would remove {given_up}; history.keep sets how much history stays")
        return
    before = answer.database_before + answer.journal_before
    after = answer.database + answer.journal
    context.print(f"{size_text(before)} became {size_text(after)}; {given_up} removed")


T = TypeVar("T")

EXAMPLES_PER_RULE = 3  # of each violated rule
SUBJECT_CELLS = 44
# The counts that a person has names for; --json has the others.
COUNT_LABELS = {
    "memories": ("memory", "memories"),
    "versions": ("earlier version", "earlier versions"),
    "changes": ("change", "changes"),
    "notes": ("note", "notes"),
    "words": ("text in the word index", "texts in the word index"),
    "vectors": ("memory in the vector index", "memories in the vector index"),
}


def check(context: CommandContext) -> int:
    """Check the store; exit 0 if nothing is wrong, else 1."""
    answer = _ask_or_run_offline(context, CheckAnswer, lambda client: client.check(), ["check"])
    if not context.wants_json:
        context.page(check_lines(answer, context.style))
        if not answer.ok:
            context.message(
                "see what a repair would do: mnemo repair --dry-run; then: mnemo repair"
                if any(violation.mendable for violation in answer.violations)
                else "none of this can be repaired automatically; see what is affected with: mnemo show ID"
            )
    return EXIT_DONE if answer.ok else EXIT_FAILED


def repair(context: CommandContext) -> int:
    """Repair the store; exit 0 if nothing is wrong afterwards, and after a dry run, else 1."""
    dry_run = context.options.dry_run
    words = ["repair", *(["--dry-run"] if dry_run else [])]
    answer = _ask_or_run_offline(context, RepairAnswer, lambda client: client.repair(dry_run=dry_run), words)
    if not context.wants_json:
        style = context.style
        lines = []
        for step in answer.steps:
            lines.append(f"{style.bold('would' if answer.dry_run else 'did')}: {sanitize(step.what)} ({step.how_many})")
            lines.append(style.dim(f"  {sanitize(step.why)}"))
        if not answer.steps:
            lines.append("there is nothing to repair")
        if answer.quarantine:
            lines.append(f"moved to quarantine in the data folder: {sanitize(', '.join(answer.quarantine))}")
        context.print(*(lines if answer.dry_run else [*lines, "", *check_lines(answer.check, style)]))
        if dry_run and answer.steps:
            context.message("nothing was changed; repair with: mnemo repair")
    return EXIT_DONE if dry_run or answer.check.ok else EXIT_FAILED


def _ask_or_run_offline(
    context: CommandContext, kind: type[T], ask: "Callable[[Client], T]", words: Sequence[str]
) -> T:
    """Return the daemon's answer or, if none runs, that of the offline program."""
    if process.is_listening(socket_path(context.environ)):
        with shown_progress(context, words[0]):
            answer = ask(context.connect())
        context.print_json_if_asked()
        return answer
    answer_json = context.run_offline(*words)
    context.print_json_if_asked(answer_json)
    return msgspec.convert(answer_json, kind)


def check_lines(answer: CheckAnswer, style: TextStyle) -> list[str]:
    """Return the lines about what was checked, and what is wrong."""
    counts = [(answer.checked.get(name, 0), what) for name, what in COUNT_LABELS.items()]
    looked = " · ".join(plural(count, *what) for count, what in counts if count)
    lines = [style.dim(f"checked {looked or 'nothing'} in {answer.seconds:.1f} s")]
    lines += [style.warn(f"note: {sanitize(note)}") for note in answer.notes]
    if answer.ok:
        return [*lines, f"{style.good('no faults found')}"]
    lines += ["", style.bad(plural(sum(answer.totals.values()), "fault"))]
    rows: list[list[str]] = []
    shown: Counter[str] = Counter()
    for violation in answer.violations:
        name = violation.invariant
        shown[name] += 1
        if shown[name] <= EXAMPLES_PER_RULE:
            first = style.bold(sanitize(name)) if shown[name] == 1 else ""
            rows.append([first, f"{violation.table} {_short_subject(violation.subject)}", sanitize(violation.what)])
        if shown[name] == EXAMPLES_PER_RULE and answer.totals[name] > EXAMPLES_PER_RULE:
            rows.append(["", f"and {number_text(answer.totals[name] - EXAMPLES_PER_RULE)} more", ""])
    return [*lines, *table(rows, indent="  ", width=style.width)]


def _short_subject(subject: str) -> str:
    """Return the subject with its ids in the short form."""
    words = [short_id(word) if len(word) == 36 and word.count("-") == 4 else word for word in subject.split()]
    return sanitize(" ".join(words))[:SUBJECT_CELLS]
