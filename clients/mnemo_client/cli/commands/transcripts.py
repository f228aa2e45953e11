"""`mnemo import --from claude-code|codex|chatgpt`: imports the conversations that these tools keep on the disk.

Each file is one request, so that neither side holds more than one of them in memory; all are one group for `undo`. The
daemon skips what it has, so an import that was interrupted can be repeated.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from mnemo_client.cli.commands.transfer import import_export, problem_lines, read_pieces
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.units import local_date, number_text, plural
from mnemo_client.cli.terminal import clip, sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_FAILED, RefusalError, UsageError
from mnemo_client.namespace import choose_namespace
from mnemo_client.paths import claude_code_folder, codex_folder
from mnemo_client.protocol.choices import TRANSCRIPT_TOOLS, TranscriptTool
from mnemo_client.protocol.maintenance import ImportAnswer, ImportProblem

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
    sources = _sources(context, tool)
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
        return context.client().import_from(
            chain([head] if head else [], read_pieces(file)),
            tool=tool,
            namespace=_namespace(context, head),
            user_id=options.user,
            allow_forgotten=options.allow_forgotten,
            dry_run=options.dry_run,
            group=group,
        )


# The files


def _sources(context: CommandContext, tool: TranscriptTool) -> list[_TranscriptFile]:
    """Return the files to import, the oldest first. Raises UsageError if there are none."""
    named = context.options.file
    if named == "-":
        raise UsageError("transcripts are not read from standard input", "name a file or folder")
    places = [context.path(named)] if named is not None else _usual_places(context, tool)
    found: list[_TranscriptFile] = []
    for place in places:
        if place.is_dir():
            pattern = "conversations*.json" if tool == "chatgpt" else "*.jsonl"
            # A pipe with such a name would never end.
            found += map(_file_source, sorted(filter(os.path.isfile, place.rglob(pattern)), key=_age))
            found += [part for path in sorted(place.glob("*.zip")) if tool == "chatgpt" for part in _zip_sources(path)]
        elif place.suffix == ".zip":
            found += _zip_sources(place)
        elif place.is_file():
            found.append(_file_source(place))
    if not found:
        names = " or ".join(map(str, places))
        raise UsageError(f"there are no conversations of {tool} in {names}", "name the file or folder that has them")
    return found


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
            members = [each for each in archive.infolist() if _has_conversations(each.filename)]
    except (OSError, zipfile.BadZipFile) as wrong:
        raise UsageError(f"{path} cannot be read: {wrong}", "name the zip that ChatGPT sent, or its folder") from wrong
    return [_TranscriptFile(path, each.file_size, each.filename) for each in members]


def _has_conversations(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return base.startswith("conversations") and base.endswith(".json")


def _namespace(context: CommandContext, head: bytes) -> str | None:
    """Return the namespace that a command in the transcript's working directory has."""
    folder = _working_directory(head)
    named = context.options.namespace
    return choose_namespace(named, folder, context.environ).name if folder is not None else named


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
