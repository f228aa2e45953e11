"""The commands that export and import memories, also the conversations that other tools keep on the disk.

Of conversations, each file is one request, so that neither side holds more than one of them in memory; all are one
group for `undo`. The daemon skips what it has, so an import that was interrupted can be repeated.
"""

import io
import os
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import local_date, number_text, plural
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import clip, sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, MnemoError, RefusalError, UsageError
from mnemo_client.namespace import choose_namespace
from mnemo_client.paths import claude_code_folder, codex_folder
from mnemo_client.protocol.choices import TRANSCRIPT_TOOLS, TranscriptTool
from mnemo_client.protocol.maintenance import ImportAnswer, ImportProblem

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


def export(context: CommandContext) -> None:
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
        return
    count, size = _write_atomically(target, _export_lines(context, client))
    if not context.print_json_if_asked({"file": str(target), "lines": count, "bytes": size}):
        context.message(f"{target}: {count} lines, {size:,} bytes")


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
        hint = "name the file of an export"
        if isinstance(failed, IsADirectoryError):
            hint += ", or for a folder of transcripts their tool: --from claude-code or --from codex"
        raise UsageError(f"{name} cannot be read: {failed.strerror}", hint) from failed


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


# Transcripts


HEAD_BYTES = 1 << 20  # of a transcript, in which its working directory is named
EXAMPLE_CELLS = 100
PROBLEMS_KEPT = 100  # as many as the daemon names for one file

_SUMMED = ("stored", "duplicate", "forgotten", "skipped", "conversations")
_COUNTED = ("masked", "left_out")
_USUAL_PLACES = {
    "claude-code": (claude_code_folder, ("projects",)),
    "codex": (codex_folder, ("sessions", "archived_sessions")),
}


class _TranscriptFile(NamedTuple):
    """One file to import, or the file `member` of a zip."""

    path: Path
    size: int
    member: str = ""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def open(self) -> IO[bytes]:
        if not self.member:
            return self.path.open("rb")
        try:
            return zipfile.ZipFile(self.path).open(self.member)
        except RuntimeError as unusable:  # it is encrypted, or packed by a method that is not known here
            raise zipfile.BadZipFile(str(unusable)) from unusable


class _TranscriptHead(msgspec.Struct):
    """The working directory of a transcript, as one of its first lines names it."""

    cwd: str | None = None
    payload: "_TranscriptHead | None" = None


def import_(context: CommandContext) -> int:
    """Import what the options name: an export, or the transcripts of an agent."""
    tool = context.options.source
    return import_transcripts(context, tool) if tool in TRANSCRIPT_TOOLS else import_export(context)


def import_transcripts(context: CommandContext, tool: TranscriptTool) -> int:
    """Import the conversations of a file, a folder, a zip, or the usual place. Exit 1 if no file could be read."""
    named = context.options.file
    if named == "-":
        raise UsageError("transcripts are not read from standard input", "name a file or folder")
    places = [context.path(named)] if named is not None else _usual_places(context, tool)
    sources: list[_TranscriptFile] = []
    for place in places:
        if place.is_dir():
            pattern = "conversations*.json" if tool == "chatgpt" else "*.jsonl"
            # A pipe with such a name would never end.
            sources += map(_file_source, sorted(filter(os.path.isfile, place.rglob(pattern)), key=_age))
            sources += [
                part for path in sorted(place.glob("*.zip")) if tool == "chatgpt" for part in _zip_sources(path)
            ]
        elif place.suffix == ".zip":
            sources += _zip_sources(place)
        elif place.is_file():
            sources.append(_file_source(place))
    if not sources:
        names = " or ".join(map(str, places))
        raise UsageError(f"there are no conversations of {tool} in {names}", "name the file or folder that has them")
    total = ImportAnswer(tool=tool, dry_run=context.options.dry_run)
    size, sent, failed = sum(source.size for source in sources), 0, 0
    for number, source in enumerate(sources):
        done = f"{100 * sent // size} %" if size else ""
        context.terminal.progress(f"importing file {number + 1} of {len(sources)} {done}")
        try:
            _add(total, _import_one(context, tool, source, total.group), source.name)
        except RefusalError as refused:
            if refused.code != "unknown_export":
                raise
            failed += 1
            _add_problem(total, source.name, refused.message)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as unreadable:
            failed += 1
            _add_problem(total, source.name, f"it cannot be read: {unreadable}")
        sent += source.size
    context.terminal.clear_progress()
    if not context.print_json_if_asked({**msgspec.to_builtins(total), "files": len(sources)}):
        context.print(*_lines(total, len(sources)))
    return EXIT_FAILED if failed == len(sources) else EXIT_DONE


def _import_one(
    context: CommandContext, tool: TranscriptTool, source: _TranscriptFile, group: str | None
) -> ImportAnswer:
    options = context.options
    with source.open() as file:
        head = file.read(HEAD_BYTES)
        namespace = options.namespace
        if (folder := _working_directory(head)) is not None:  # that of a command there
            namespace = choose_namespace(namespace, folder, context.environ).name
        return context.client().import_from(
            chain([head] if head else [], read_pieces(file)),
            tool=tool,
            namespace=namespace,
            user_id=options.user,
            allow_forgotten=options.allow_forgotten,
            dry_run=options.dry_run,
            group=group,
        )


# The files


def _usual_places(context: CommandContext, tool: TranscriptTool) -> list[Path]:
    if tool not in _USUAL_PLACES:
        raise UsageError("name the export", "ChatGPT sends it as a zip: Settings, Data controls, Export data")
    folder_of, names = _USUAL_PLACES[tool]
    return [folder_of(context.environ) / name for name in names]


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)


def _file_source(path: Path) -> _TranscriptFile:
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return _TranscriptFile(path, size)


def _zip_sources(path: Path) -> list[_TranscriptFile]:
    """Return the files with conversations in ChatGPT's zip. Raises UsageError if it is not a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.infolist()
        members = [each for each in files if fnmatchcase(each.filename.rpartition("/")[2], "conversations*.json")]
    except (OSError, zipfile.BadZipFile) as wrong:
        raise UsageError(f"{path} cannot be read: {wrong}", "name the zip that ChatGPT sent, or its folder") from wrong
    return [_TranscriptFile(path, each.file_size, each.filename) for each in members]


def _working_directory(head: bytes) -> Path | None:
    for line in head.split(b"\n"):
        if b'"cwd"' not in line:
            continue
        try:
            found = msgspec.json.decode(line, type=_TranscriptHead)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        cwd = found.cwd or (found.payload.cwd if found.payload is not None else None)
        if cwd is not None and cwd.startswith("/") and "\0" not in cwd:
            return Path(cwd)
    return None


# The result


def _add(total: ImportAnswer, found: ImportAnswer, name: str) -> None:
    """Add the result of one file to the total; the place of each of its problems begins with the file's name."""
    for field in _SUMMED:
        setattr(total, field, getattr(total, field) + getattr(found, field))
    for field in _COUNTED:
        counts = getattr(total, field)
        for each, number in getattr(found, field).items():
            counts[each] = counts.get(each, 0) + number
    places = [ImportProblem(f"{name}: {problem.place}", problem.why) for problem in found.problems]
    total.problems.extend(places[: PROBLEMS_KEPT - len(total.problems)])
    total.examples.extend(found.examples[: max(0, 5 - len(total.examples))])
    total.group = total.group or found.group
    total.first_at = min(filter(None, (total.first_at, found.first_at)), default=None)
    total.last_at = max(filter(None, (total.last_at, found.last_at)), default=None)


def _add_problem(total: ImportAnswer, name: str, why: str) -> None:
    total.skipped += 1
    if len(total.problems) < PROBLEMS_KEPT:
        total.problems.append(ImportProblem(name, why))


def _lines(total: ImportAnswer, files: int) -> Iterator[str]:
    """Yield the result of the import, in lines."""
    read = f"{plural(files, 'file')} of {total.tool}"
    stored = f"{plural(total.stored, 'turn')} of {plural(total.conversations, 'conversation')}"
    would = "nothing was changed; an import would store " if total.dry_run else "stored "
    yield f"{read}: {would}{stored}"
    if total.first_at is not None and total.last_at is not None:
        yield f"from {local_date(total.first_at)} to {local_date(total.last_at)}"
    for number, words in (
        (total.duplicate, "already known"),
        (total.forgotten, "erased here and not imported"),
        (total.skipped, "damaged or unreadable, and skipped"),
    ):
        if number:
            yield f"{number_text(number)} {words}"
    yield from problem_lines(total)
    for words, numbers in (("left out", total.left_out), ("masked", total.masked)):
        if numbers:
            most = sorted(numbers.items(), key=lambda each: (-each[1], each[0]))
            yield f"{words}: " + ", ".join(f"{name.replace('_', ' ')} ({number_text(n)})" for name, n in most)
    for example in total.examples:
        text = sanitize(" ".join(example.text.split()))
        yield f"  {local_date(example.at)} {example.role}: {clip(text, EXAMPLE_CELLS)}"
    if total.dry_run and total.stored:
        yield "the import itself also leaves out near copies of a turn, which a dry run does not find"
    if total.group is not None:
        yield f"undo this with: mnemo undo --group {total.group}"
