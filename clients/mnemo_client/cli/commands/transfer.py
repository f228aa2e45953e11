"""The commands that carry everything out and in: export, import."""

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, MnemoError, UsageError
from mnemo_client.protocol.maintenance import ImportAnswer

if TYPE_CHECKING:
    from mnemo_client.client import Client

PIECE_BYTES = 1 << 18  # of a file, sent at once
PROBLEMS_SHOWN = 20
SHOWN_EVERY_LINES = 500  # of an export, between two looks at how many they are

_IMPORT_OUTCOME_LABELS = (
    ("stored", "stored"),
    ("updated", "updated"),
    ("restored", "back from the trash"),
    ("duplicate", "known already"),
    ("older", "changed here since and left as they are"),
    ("forgotten", "forgotten here and left out"),
    ("skipped", "passed over"),
)


def export(context: CommandContext) -> int:
    """Every namespace, unless one is named; to standard output, unless a file is named."""
    options = context.options
    target = None if options.file in (None, "-") else Path(options.file).expanduser().resolve()
    if target is not None and not options.force and target.exists():
        raise UsageError(f"{options.file} is there already", "name another file, or replace it with --force")
    if target is not None and not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", "make it first, or name a file elsewhere")
    client = context.client()
    if target is None:
        for line in _export_lines(context, client):
            context.print(line.decode())
        return EXIT_DONE
    count, size = _write_atomically(target, _export_lines(context, client))
    if context.wants_json:
        context.print_value({"file": str(target), "lines": count, "bytes": size})
    else:
        context.message(f"{target}: {count} lines, {size:,} bytes")
    return EXIT_DONE


def import_(context: CommandContext) -> int:
    """What was passed over is told and costs nothing else; where everything was, that is a failure."""
    options = context.options
    client = context.client()
    with _open_input(context) as file:
        found = client.import_from(
            _read_pieces(context, file, _input_size(file)),
            tool=options.source,
            namespace=options.namespace,
            user_id=options.user,
            allow_forgotten=options.allow_forgotten,
            dry_run=options.dry_run,
            watch=lambda done, of: _show_progress(context, "taking in", done, of),
        )
    if context.wants_json:
        context.print_answer()
    else:
        context.print(*_import_lines(found))
    was_all_skipped = found.skipped and not any(
        getattr(found, name) for name, _ in _IMPORT_OUTCOME_LABELS if name != "skipped"
    )
    return EXIT_FAILED if was_all_skipped else EXIT_DONE


def _export_lines(context: CommandContext, client: "Client") -> Iterator[bytes]:
    options = context.options
    lines = client.export(options.namespace, history=not options.no_history, vectors=options.vectors)
    for number, line in enumerate(lines):
        if options.file is not None and number % SHOWN_EVERY_LINES == 0:
            context.terminal.progress(f"{number} lines")
        yield line


def _write_atomically(target: Path, lines: Iterator[bytes]) -> tuple[int, int]:
    """The file in place, whole or not at all, for its owner alone; how many lines and bytes it has."""
    count = 0
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as beside:
        try:
            for line in lines:
                beside.write(line + b"\n")
                count += 1
            beside.flush()
            os.fsync(beside.fileno())
            Path(beside.name).replace(target)
        except BaseException:
            Path(beside.name).unlink(missing_ok=True)
            raise
        return count, beside.tell()


def _open_input(context: CommandContext) -> IO[bytes]:
    """The file that was named, or standard input. Raises BadUsage where it cannot be read."""
    name, stdin = context.options.file, context.stdin
    if name == "-":
        is_file = isinstance(stdin, io.TextIOWrapper)
        return os.fdopen(os.dup(stdin.fileno()), "rb") if is_file else io.BytesIO(stdin.read().encode())
    try:
        return Path(name).expanduser().open("rb")
    except OSError as failed:
        raise UsageError(f"{name} cannot be read: {failed.strerror}", "name the file of an export") from failed


def _input_size(file: IO[bytes]) -> int:
    """How much there is to send; 0 where nobody knows."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _read_pieces(context: CommandContext, file: IO[bytes], size: int) -> Iterator[bytes]:
    """The file as it is sent. One that cannot be read to its end must not look like a daemon that went away."""
    sent = 0
    while True:
        try:
            piece = file.read(PIECE_BYTES)
        except OSError as failed:
            raise MnemoError(f"the file cannot be read to its end: {failed.strerror}") from failed
        if not piece:
            return
        yield piece
        sent += len(piece)
        _show_progress(context, "sending", sent, size)


def _show_progress(context: CommandContext, what: str, done: int, of: int) -> None:
    share = f"{100 * done // of} %" if of else f"{done >> 20} MiB"
    context.terminal.progress(f"{what} {share}")


def _import_lines(found: ImportAnswer) -> Iterator[str]:
    """What an import came to, in lines."""
    counts = [f"{number} {words}" for name, words in _IMPORT_OUTCOME_LABELS if (number := getattr(found, name))]
    dry = "would be: " if found.dry_run and counts else ""
    yield f"{found.tool}: {dry}{', '.join(counts) or 'there is no memory in it'}"
    if found.whole:
        yield "the store was empty: it takes over everything as it was, history and watched folders included"
    for problem in found.problems[:PROBLEMS_SHOWN]:
        yield f"  {sanitize(problem.place)}: {sanitize(problem.why)}"
    if found.skipped > PROBLEMS_SHOWN:
        yield f"  and {found.skipped - min(PROBLEMS_SHOWN, len(found.problems))} more"
    if found.freed:
        yield f"{found.freed} were chunks of notes and are memories of their own now"
    for words, numbers in (("masked", found.masked), ("not kept", found.not_kept), ("of other users", found.users)):
        if numbers:
            yield f"{words}: " + ", ".join(f"{sanitize(name)} ({number})" for name, number in numbers.items())
    if found.users:
        yield "  recall finds those of the user local; import with --user local to have them there"
    if found.group is not None:
        yield f"take it back with: mnemo undo --group {found.group}"
