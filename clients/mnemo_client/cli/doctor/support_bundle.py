"""`mnemo doctor --bundle`: a file for the report of a problem, without anything that is private.

Settings, checks, status, jobs and the log are written field by field: numbers, states and names of the program, never
a memory, a tag, a namespace, a note's name or a path. See `redaction` for texts.
"""

import io
import json
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemo_client import process
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination
from mnemo_client.cli.doctor.examination import CHECKS, examination, run_row
from mnemo_client.cli.doctor.redaction import MASK, Redactor, masked_log
from mnemo_client.cli.format.units import short_path, size_text
from mnemo_client.errors import EXIT_DONE, MnemoError, SocketPathError, UsageError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.choices import CUTS, RANKERS
from mnemo_client.protocol.status import StatusAnswer
from mnemo_client.version import VERSION

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
    redactor = _redactor(examined)
    files: dict[str, Any] = {"about.json": _about(), "settings.json": _settings(examined, redactor),
                             "checks.json": [_check(check, redactor) for check in checks]}  # fmt: skip
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


def _redactor(examined: Examination) -> Redactor:
    places: dict[str, Path | str] = {"DATA": examined.data, "CONFIG": examined.config, "MODELS": examined.models}
    try:
        places["SOCKET"] = socket_path(examined.environ)
    except SocketPathError:
        pass  # the check of the path reports that
    for number, root in enumerate(examined.status.notes.roots if examined.status is not None else (), start=1):
        places[f"NOTES-{number}"] = root.path
    return Redactor(examined.environ, places)


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


def _check(check: DoctorCheck, redactor: Redactor) -> dict[str, str]:
    return {"name": check.name, "outcome": check.outcome, "found": redactor.text(check.found)}


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
