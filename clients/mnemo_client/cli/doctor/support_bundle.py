"""`mnemo doctor --bundle`: a file for the report of a problem, without anything that is private.

Settings, checks, status, jobs and the log are written field by field: numbers, states and names of the program, never
a memory, a tag, a namespace, a note's name or a path. See `redaction` for texts.
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import platform
import re
import socket
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination
from mnemo_client.cli.doctor.examination import CHECKS, examination, run_row
from mnemo_client.cli.format.units import short_path, size_text
from mnemo_client.errors import EXIT_DONE, MnemoError, SocketPathError, UsageError
from mnemo_client.paths import home_folder, socket_path
from mnemo_client.protocol.choices import CUTS, RANKERS
from mnemo_client.protocol.status import StatusAnswer
from mnemo_client.version import VERSION

MASK = "…"
PACKAGES = ("mnemo_daemon", "mnemo_store", "mnemo_core", "mnemo_client")
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
NAME_CHARS_MIN = 2  # a shorter name of a user or machine is in too many words to be replaced

_RECORD = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+) (.*)$")
_FILE_LINE = re.compile(r'^  File ".*?((?:mnemo_\w+|site-packages)/[\w./-]+)", line (\d+), in [\w<>]+$')
_NAMED = re.compile(r"(?<![\w.])([\w.]++): ")
_MIXED_CASE = re.compile(r"[A-Z]+[a-z]\w*[A-Z]\w*")
EXCEPTION_ENDS = ("Error", "error", "Exception", "Warning", "Interrupt", "Refusal")
_EXCEPTION_LINE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Refusal))(?::.*)?$")
_NUMBER = re.compile(r"-?[\d.]+")
_INSERTED = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([a-zA-Z])")
_PATH = re.compile(r"(?<![\w.>~])(~?)/\S.*", re.DOTALL)  # a name can have blanks and commas: nobody knows where it ends
_QUOTED = re.compile(r"""(?<!\w)'[^']*(?:'|\Z)|"[^"]*(?:"|\Z)|“[^”]*(?:”|\Z)""")
_IN_BACKTICKS = re.compile(r"`([^`]*)(?:`|\Z)")
_OWN_WORDS = re.compile(r"mnemo [a-z -]+|[a-z_]+(?:\.[a-z_]+)+")  # a command, or the key of a setting


class Redactor:
    """Replaces known paths by names such as DATA, then quotations, exception texts and whatever follows another path by
    a mask."""

    def __init__(self, environ: Mapping[str, str], places: Mapping[str, Path | str]) -> None:
        """places: the words that stand for known paths."""
        home, user = home_folder(environ), environ.get("USER") or environ.get("LOGNAME") or ""
        self._exact = sorted(((str(path), f"<{name}>") for name, path in places.items() if str(path) not in ("", "/")),
                             key=lambda each: -len(each[0]))  # fmt: skip
        self._exact.append((str(home), "~"))
        names = {home.name: "USER", user: "USER", socket.gethostname(): "HOST"}
        self._names = [(re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE), word)
                       for name, word in names.items() if len(name) >= NAME_CHARS_MIN]  # fmt: skip

    def text(self, text: str) -> str:
        """Return a text of the program without paths, names and quotations."""
        for path, name in self._exact:
            text = text.replace(path, name)
        text = _IN_BACKTICKS.sub(lambda found: found[0] if _OWN_WORDS.fullmatch(found[1]) else MASK, text)
        text = _without_exception_text(_QUOTED.sub(MASK, text))
        text = _PATH.sub(lambda found: f"{found[1]}/{MASK}", text)
        for pattern, word in self._names:
            text = pattern.sub(word, text)
        return text


def _without_exception_text(text: str) -> str:
    """Mask everything behind the first name of an exception: its message can have several lines."""
    for found in _NAMED.finditer(text):
        if found[1].endswith(EXCEPTION_ENDS) or _MIXED_CASE.fullmatch(found[1].rpartition(".")[2]):
            return text[: found.end()] + MASK
    return text


def masked_log(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a log, each with nothing but the words of the program and numbers."""
    for line in lines:
        if record := _RECORD.match(line):
            yield f"{record[1]} {_masked_message(record[2])}"
        elif line == "Traceback (most recent call last):":
            yield line
        elif found := _FILE_LINE.match(line):
            yield f"  File {found[1]}, line {found[2]}"
        elif found := _EXCEPTION_LINE.match(line):
            yield f"{found[1]}: {MASK}"
        else:
            yield f"{MASK} ({len(line)} characters)"


def _masked_message(message: str) -> str:
    for template in log_templates():
        if (shown := template.masked(message)) is not None:
            return shown
    return f"{MASK} ({len(message)} characters)"


class LogTemplate(NamedTuple):
    """The words of one log call, and between each two of them the kind of the inserted value."""

    words: tuple[str, ...]
    kinds: str

    def masked(self, message: str) -> str | None:
        """Return the message with its inserted texts masked and its numbers kept; None if it is of another call.

        Each word is looked for once, behind the one before, so that no message costs more than its length.
        """
        if not (message.startswith(self.words[0]) and message.endswith(self.words[-1])):
            return None
        shown, at, end = self.words[0], len(self.words[0]), len(message) - len(self.words[-1])
        for number, (kind, word) in enumerate(zip(self.kinds, self.words[1:], strict=True), 2):
            stop = end if number == len(self.words) else message.find(word, at, end)
            value = message[at:stop]
            if stop < at or (kind in "dif" and not _NUMBER.fullmatch(value)):
                return None
            shown += (value if kind in "dif" else MASK) + word
            at = stop + len(word)
        return shown if self.kinds or message == self.words[0] else None


@cache
def log_templates() -> list[LogTemplate]:
    """Return the templates of all log calls of the installed source, those with the most words of their own first."""
    made = []
    for template in sorted({each for folder in _source_folders() for each in _templates_of(folder)}):
        words = _INSERTED.split(template)
        own = tuple(each.replace("%%", "%") for each in words[::2])
        if "".join(own).strip():  # otherwise it would match every message
            made.append(LogTemplate(own, "".join(words[1::2])))
    return sorted(made, key=lambda each: -len("".join(each.words)))


def _source_folders() -> Iterator[Path]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec is not None else ():
            yield Path(place)


def _templates_of(folder: Path) -> Iterator[str]:
    """Yield the first argument of each log call in the source of a package."""
    for file in folder.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "log." not in text and "getLogger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS
                and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
            ):  # fmt: skip
                yield node.args[0].value


# The files of the bundle


LOG_LINES = 500
# Values of settings that are words of the program; any other text may be a name that a person gave.
PUBLIC_WORDS = frozenset({
    "", "off", "auto", "full", "on", "all", "core", "wait", "run", "debug", "info", "warning", "error", "first",
    "inline", "mask", "warn", "block", "int8", "float32", *RANKERS, *CUTS,
})  # fmt: skip
_PUBLIC_NUMBER = re.compile(r"\d+[a-z]?")
DESCRIPTIONS = {
    "about.json": "the versions of mnemo, Python, the system and the packages",
    "settings.json": "every setting; paths and names that you gave are masked",
    "checks.json": "the results of the checks of mnemo doctor",
    "status.json": "states and numbers of the daemon, if it runs: no names of namespaces, folders or notes",
    "jobs.json": "states and numbers of the background jobs",
    "log.txt": f"the last {LOG_LINES} lines of the log; what they quote is masked",
}


def write_bundle(context: CommandContext) -> int:
    """Collect the bundle, list its contents, ask, and write it."""
    named = context.options.bundle or f"mnemo-support-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    target = context.path(named)
    if target.exists():
        raise UsageError(f"{target} already exists", "name another file")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", "create it, or name a file in another folder")
    with examination(context) as examined:
        checks = [check for row in CHECKS for check in run_row(row, examined)]
        files = bundle_files(examined, checks)
    if not context.wants_json:
        context.print("the support bundle has:")
        context.print(*(f"  {name:14} {size_text(len(data)):>8}  {DESCRIPTIONS[name]}" for name, data in files.items()))
        context.print("no memory, tag, namespace, note, path or name of yours is in it")
    if not context.options.yes:
        context.confirm(f"write it to {short_path(str(target), context.cwd, context.home)}")
    _write(target, files)
    if not context.print_json_if_asked({"file": str(target), "contents": {name: len(files[name]) for name in files}}):
        context.print(f"{context.style.good('written')}: {short_path(str(target), context.cwd, context.home)}")
    return EXIT_DONE


def bundle_files(examined: Examination, checks: Sequence[DoctorCheck]) -> dict[str, bytes]:
    """Return the files of the bundle by name."""
    places: dict[str, Path | str] = {"DATA": examined.data, "CONFIG": examined.config, "MODELS": examined.models}
    with contextlib.suppress(SocketPathError):  # the check of the path reports that
        places["SOCKET"] = socket_path(examined.environ)
    for number, root in enumerate(examined.status.notes.roots if examined.status is not None else (), start=1):
        places[f"NOTES-{number}"] = root.path
    redactor = Redactor(examined.environ, places)
    found = [{"name": each.name, "outcome": each.outcome, "found": redactor.text(each.found)} for each in checks]
    files: dict[str, Any] = {
        "about.json": _about(), "settings.json": _settings(examined, redactor), "checks.json": found,
    }  # fmt: skip
    if examined.status is not None:
        files["status.json"] = _status(examined.status, redactor)
    if examined.jobs is not None:
        files["jobs.json"] = [
            {"name": job.name, "state": job.state, "heavy": job.heavy, "runs": job.runs, "slices": job.slices,
             "failures": job.failures, "reason": redactor.text(job.reason or ""),
             "last_failure": redactor.text(job.last_failure or "")}
            for job in examined.jobs.jobs
        ]  # fmt: skip
    made = {name: (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode() for name, value in files.items()}
    lines = process.last_lines(process.log_file(examined.environ), count=LOG_LINES)
    return made | {"log.txt": "".join(f"{line}\n" for line in masked_log(lines)).encode()}


def _about() -> dict[str, Any]:
    import importlib.metadata

    names = ("aiohttp", "lmdb", "msgspec", "numpy", "onnxruntime", "usearch", "watchdog", "llama-cpp-python", "mcp")
    packages = {}
    for name in names:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = ""
    return {
        "mnemo": VERSION, "python": platform.python_version(), "implementation": platform.python_implementation(),
        "system": platform.system(), "release": platform.release(), "machine": platform.machine(),
        "byte_order": sys.byteorder, "cores": os.cpu_count(), "packages": packages,
    }  # fmt: skip


def _settings(examined: Examination, redactor: Redactor) -> list[dict[str, Any]]:
    values = examined.settings.values if examined.settings is not None else []
    return [
        {"key": each.key, "value": _setting_value(each.value, redactor),
         "origin": "default" if each.origin == "default" else redactor.text(each.origin)}
        for each in values
    ]  # fmt: skip


def _setting_value(value: Any, redactor: Redactor) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case str() if value.startswith(("/", "~")):
            return redactor.text(value)
        case str():
            return value if value in PUBLIC_WORDS or _PUBLIC_NUMBER.fullmatch(value) else MASK
        case list() | dict():
            return f"{len(value)} entries"
    return MASK


def _status(status: StatusAnswer, redactor: Redactor) -> dict[str, Any]:
    """Return the states and numbers of the status; a field that a later version adds is not in it."""
    models = {
        role: {"state": model.state, "form": model.form, "dimensions": model.dimensions,
               "reason": redactor.text(model.reason or "")}
        for role, model in status.models.items()
    }  # fmt: skip
    views = {
        name: {"state": view.state, "lag": view.lag, "items": view.items, "share": view.share,
               "reason": redactor.text(view.reason or "")}
        for name, view in status.views.items()
    }  # fmt: skip
    threads = {
        name: {"failing": thread.failing, "restarts": thread.restarts,
               "last_failure": redactor.text(thread.last_failure or "")}
        for name, thread in status.threads.items()
    }  # fmt: skip
    roots = [{"state": root.state, "files": root.files, "chunks": root.chunks, "waiting": root.waiting}
             for root in status.notes.roots]  # fmt: skip
    return {
        "state": status.state, "reasons": [redactor.text(reason) for reason in status.reasons],
        "version": status.version, "uptime_seconds": status.uptime_seconds, "memories": status.memories,
        "by_state": status.by_state, "namespaces": len(status.namespaces), "trash": status.trash, "seq": status.seq,
        "models": models, "views": views, "threads": threads, "queue": status.queue, "disk": status.disk,
        "memory_private_bytes": status.memory_private_bytes,
        "notes": {"roots": roots, "skipped": status.notes.skipped_total, "left_out": status.notes.left_out},
    }  # fmt: skip


def _write(target: Path, files: dict[str, bytes]) -> None:
    """Write the archive, readable by its owner only. Raises MnemoError."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"mnemo-support/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(packed.getvalue())
    except OSError as failed:
        raise MnemoError(f"{target} cannot be written: {failed.strerror}") from failed
