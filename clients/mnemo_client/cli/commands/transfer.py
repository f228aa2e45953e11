"""The commands that export and import memories: export, import."""

import io
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, MnemoError, UsageError
from mnemo_client.protocol.maintenance import ImportAnswer

if TYPE_CHECKING:
    from mnemo_client.client import Client

PIECE_BYTES = 1 << 18  # of a file that are sent at once
PROBLEMS_SHOWN = 20
SHOWN_EVERY_LINES = 500  # between two updates of the progress line

_IMPORT_OUTCOME_LABELS = (
    ("stored", "stored"),
    ("updated", "updated"),
    ("restored", "restored from the trash"),
    ("duplicate", "already known"),
    ("older", "changed here since and kept"),
    ("forgotten", "erased here and not imported"),
    ("skipped", "skipped"),
)


def export(context: CommandContext) -> int:
    """Export all namespaces or the one that is named, to a file or to standard output."""
    options = context.options
    target = None if options.file in (None, "-") else Path(options.file).expanduser().resolve()
    if target is not None and not options.force and target.exists():
        raise UsageError(f"{options.file} already exists", "name another file, or replace it with --force")
    if target is not None and not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", "create it, or name a file in another folder")
    client = context.client()
    if target is None:
        for line in _export_lines(context, client):
            context.print(line.decode())
        return EXIT_DONE
    count, size = _write_atomically(target, _export_lines(context, client))
    if not context.print_json_if_asked({"file": str(target), "lines": count, "bytes": size}):
        context.message(f"{target}: {count} lines, {size:,} bytes")
    return EXIT_DONE


def import_export(context: CommandContext) -> int:
    """Import an export; skipped rows are reported. Exit 1 if every row was skipped."""
    options = context.options
    if options.file is None:
        raise UsageError("name the file of an export", "transcripts are found by themselves: --from claude-code")
    client = context.client()
    with _open_input(context) as file, shown_progress(context, "import"):
        found = client.import_from(
            _sent_pieces(context, file),
            tool=options.source,
            namespace=options.namespace,
            user_id=options.user,
            allow_forgotten=options.allow_forgotten,
            dry_run=options.dry_run,
        )
    if not context.print_json_if_asked():
        context.print(*_import_lines(found))
    was_all_skipped = found.skipped and not any(
        getattr(found, name) for name, _ in _IMPORT_OUTCOME_LABELS if name != "skipped"
    )
    return EXIT_FAILED if was_all_skipped else EXIT_DONE


def _export_lines(context: CommandContext, client: "Client") -> Iterator[bytes]:
    options = context.options
    lines = client.export(options.namespace, history=not options.no_history, vectors=options.vectors)
    began = time.monotonic()
    for number, line in enumerate(lines):
        if options.file is not None and number % SHOWN_EVERY_LINES == 0:
            rate = number / max(time.monotonic() - began, 0.001)
            context.terminal.progress(f"exporting: {number:,} lines, {rate:,.0f} a second")
        yield line


def _write_atomically(target: Path, lines: Iterator[bytes]) -> tuple[int, int]:
    """Write the file completely or not at all, readable by its owner only; return its lines and bytes."""
    count = 0
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as partial:
        try:
            for line in lines:
                partial.write(line + b"\n")
                count += 1
            partial.flush()
            os.fsync(partial.fileno())
            Path(partial.name).replace(target)
        except BaseException:
            Path(partial.name).unlink(missing_ok=True)
            raise
        return count, partial.tell()


def _open_input(context: CommandContext) -> IO[bytes]:
    """Open the file that was named, or standard input. Raises UsageError if it cannot be read."""
    name, stdin = context.options.file, context.stdin
    if name == "-":
        is_file = isinstance(stdin, io.TextIOWrapper)
        return os.fdopen(os.dup(stdin.fileno()), "rb") if is_file else io.BytesIO(stdin.read().encode())
    try:
        return Path(name).expanduser().open("rb")
    except OSError as failed:
        raise UsageError(f"{name} cannot be read: {failed.strerror}", "name the file of an export") from failed


def _input_size(file: IO[bytes]) -> int:
    """Return the number of bytes to send; 0 if it is unknown."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _sent_pieces(context: CommandContext, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the file in pieces, and show how much of it was sent."""
    size, sent = _input_size(file), 0
    for piece in read_pieces(file):
        yield piece
        sent += len(piece)
        context.terminal.progress(f"sending {100 * sent // size} %" if size else f"sending {sent >> 20} MiB")


def read_pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a file in pieces. Raises MnemoError, not an error of the connection, if it cannot be read to its end."""
    try:
        while piece := file.read(PIECE_BYTES):
            yield piece
    except OSError as failed:
        raise MnemoError(f"the file cannot be read to its end: {failed.strerror}") from failed


def problem_lines(found: ImportAnswer) -> Iterator[str]:
    """Yield the places that were skipped in an import with the reasons, at most PROBLEMS_SHOWN."""
    for problem in found.problems[:PROBLEMS_SHOWN]:
        yield f"  {sanitize(problem.place)}: {sanitize(problem.why)}"
    if found.skipped > PROBLEMS_SHOWN:
        yield f"  and {found.skipped - min(PROBLEMS_SHOWN, len(found.problems))} more"


def _import_lines(found: ImportAnswer) -> Iterator[str]:
    """Yield the result of an import, in lines."""
    counts = [f"{number} {words}" for name, words in _IMPORT_OUTCOME_LABELS if (number := getattr(found, name))]
    dry = "nothing was changed; an import would give: " if found.dry_run and counts else ""
    yield f"export of {found.tool}: {dry}{', '.join(counts) or 'it has no memories'}"
    if found.whole:
        yield "the store was empty: everything was restored, with the history and the watched folders"
    yield from problem_lines(found)
    if found.freed:
        yield f"{found.freed} were chunks of notes and are now independent memories"
    for words, numbers in (("masked", found.masked), ("not kept", found.not_kept), ("of other users", found.users)):
        if numbers:
            yield f"{words}: " + ", ".join(f"{sanitize(name)} ({number})" for name, number in numbers.items())
    if found.users:
        yield "  recall finds memories of the user local only; to import them for that user: --user local"
    if found.group is not None:
        yield f"undo this with: mnemo undo --group {found.group}"
