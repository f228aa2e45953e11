"""Checks of files and folders: data, settings, log, socket, models, leftovers."""

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path

from mnemo_client import path_safety, process
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination, fail, ok, warn
from mnemo_client.cli.format.units import plural, size_text
from mnemo_client.errors import SocketPathError
from mnemo_client.paths import SOCKET_PATH_BYTES_MAX, socket_path

HASHED_BYTES_MAX = 200_000_000  # larger files, of language models, are compared by their size
LEFTOVER_SECONDS = 3600.0  # a temporary file that is older has no writer any more
KEPT_STORES = ".before-restore-"  # behind the name of the data folder, as `mnemo restore` and `mnemo reset` keep it


def check_data(examined: Examination) -> list[DoctorCheck]:
    """Check that the data folder exists and only its owner can access it."""
    folder = examined.data
    try:
        found = folder.stat()
    except FileNotFoundError:
        if examined.status is None:
            return warn(f"{folder} does not exist yet", examined.start_fix)
        return fail(f"{folder} was moved or deleted while in use", "put it back, or: mnemo export FILE; mnemo down")
    except OSError as failed:
        return fail(f"{folder}: {failed.strerror}", f"check the permissions of {folder}")
    if found.st_uid != os.getuid():
        return fail(f"{folder} belongs to another user", "set MNEMO_DATA_DIR to a folder of your own")
    if stat.S_IMODE(found.st_mode) & 0o077:
        return fail(f"{folder} can be read by other users", f"chmod 700 {folder}")
    if not os.access(folder, os.W_OK):
        return fail(f"{folder} cannot be written to", f"chmod u+w {folder}")
    return ok(str(folder))


def repair_data(examined: Examination) -> str:
    """Create the data folder, and take the access of other users away."""
    if not examined.data.exists() and examined.status is None:  # else its memories are elsewhere
        process.make_private_folder(examined.data)
        return f"created {examined.data}"
    return _made_private(examined.data, 0o700)


def check_parents(examined: Examination) -> list[DoctorCheck]:
    """Check that nobody else can replace the data folder, the socket or the configuration file."""
    paths = [examined.data, examined.config]
    with contextlib.suppress(SocketPathError):
        paths.append(socket_path(examined.environ))
    for path in paths:
        if problem := path_safety.parents_problem(path):
            return fail(problem.problem, problem.fix)
    return ok("no other user can replace the data, the settings or the socket")


def check_config_file(examined: Examination) -> list[DoctorCheck]:
    """Check that the configuration file is ours, and that nobody else can change it."""
    file = examined.config
    if not file.exists():
        return ok(f"{file} does not exist: all settings have their defaults")
    if problem := path_safety.writers_problem(file):
        return fail(problem.problem, problem.fix)
    if problem := path_safety.file_problem(file.resolve()):
        return warn(problem.problem, problem.fix)
    return ok(str(file))


def repair_config_file(examined: Examination) -> str:
    return _made_private(examined.config, 0o600)


def check_log(examined: Examination) -> list[DoctorCheck]:
    """Check that the log is a file of ours that nobody else can read or replace."""
    log = process.log_file(examined.environ)
    if not log.exists() and not log.is_symlink():
        return ok("there is none yet")
    if problem := path_safety.parents_problem(log) or path_safety.file_problem(log):
        return fail(problem.problem, problem.fix)
    return ok(f"{log}, {size_text(log.stat().st_size)}")


def repair_log(examined: Examination) -> str:
    log = process.log_file(examined.environ)
    return "; ".join(filter(None, [_made_private(log.parent, 0o700), _made_private(log, 0o600)]))


def _made_private(path: Path, mode: int) -> str:
    """Take the access of other users away; return what was done, or "" if there was nothing to do or it failed."""
    try:
        return f"chmod {mode:o} {path}" if path_safety.make_private(path, mode) else ""
    except OSError:
        return ""


def check_models_folder(examined: Examination) -> list[DoctorCheck]:
    """Check that the folder of models can be used, if there is one, and that nobody else can change a model."""
    folder = examined.models
    if not folder.exists():
        return ok(f"{folder} does not exist: no model was downloaded")
    if not os.access(folder, os.R_OK | os.X_OK):
        return fail(f"{folder} cannot be read", f"chmod u+rx {folder}")
    if problem := path_safety.writers_problem(folder):
        return fail(problem.problem, problem.fix)
    return ok(f"{folder}, {size_text(_size(folder))}")


def repair_models_folder(examined: Examination) -> str:
    """Take the right of other users to write to the folder of models away."""
    folder = examined.models
    status = folder.stat()
    if status.st_uid != os.geteuid() or not status.st_mode & path_safety.OTHERS_WRITE:
        return ""
    folder.chmod(stat.S_IMODE(status.st_mode) & ~path_safety.OTHERS_WRITE)
    return f"chmod go-w {folder}"


def check_model_files(examined: Examination) -> list[DoctorCheck]:
    """Check that the files of every installed model have their size, and those of an embedding model their hash."""
    checked = 0
    for manifest in sorted(examined.models.glob("**/manifest.json")):
        try:
            model = json.loads(manifest.read_text(encoding="utf-8"))
            files, folder = dict(model["files"]), manifest.parent / str(model["files_folder"])
        except (OSError, ValueError, KeyError, TypeError):
            return fail(f"{manifest} cannot be read", "pull the model again")
        pull = f"mnemo models pull {model.get('name')}"
        for name, expected in files.items():
            file = folder / name
            if not file.is_file() or file.stat().st_size != expected["size_bytes"]:
                return fail(f"{file} is missing or incomplete", pull)
            if expected["size_bytes"] <= HASHED_BYTES_MAX and _sha256(file) != expected["sha256"]:
                return fail(f"{file} was changed: its hash is another one", pull)
        checked += 1
    return ok(f"{plural(checked, 'model')} complete" if checked else "none")


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def check_leftovers(examined: Examination) -> list[DoctorCheck]:
    """Report temporary files that an interrupted command left, and stores that a restore or reset kept."""
    left, kept = leftovers(examined), sorted(examined.data.parent.glob(f"{examined.data.name}{KEPT_STORES}*"))
    if left:
        named = ", ".join(path.name for path in left[:3]) + (" …" if len(left) > 3 else "")
        found = f"{plural(len(left), 'temporary file')} of interrupted commands ({named})"
        return warn(found, "mnemo doctor --fix deletes them")
    if kept:
        size = size_text(sum(map(_size, kept)))
        found = f"{plural(len(kept), 'earlier store')} kept by a restore or reset, {size}"
        return warn(found, f"when you are sure: rm -r {kept[0]}")
    return ok("none")


def repair_leftovers(examined: Examination) -> str:
    """Delete the temporary files; stores that a restore kept are the user's to delete."""
    deleted = leftovers(examined)
    for path in deleted:
        path.unlink(missing_ok=True)
    return f"deleted {plural(len(deleted), 'temporary file')}" if deleted else ""


def leftovers(examined: Examination) -> list[Path]:
    """Return the temporary files in the run folder that no process writes any more."""
    limit = time.time() - LEFTOVER_SECONDS
    return [
        path
        for path in sorted(process.log_file(examined.environ).parent.glob("last.json.*"))
        if path.is_file() and path.lstat().st_mtime < limit
    ]


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def check_socket_path(examined: Examination) -> list[DoctorCheck]:
    """Check that the path of the socket is short enough for the system."""
    try:
        length = len(bytes(socket_path(examined.environ)))
    except SocketPathError as error:
        return fail(error.message, error.hint)
    return ok(f"{length} of {SOCKET_PATH_BYTES_MAX} bytes")


def check_socket(examined: Examination) -> list[DoctorCheck]:
    """Check that the socket exists and only its owner can use it."""
    try:
        path = socket_path(examined.environ)
        mode = path.stat().st_mode
    except SocketPathError:
        return []  # the check before it reports that
    except OSError:
        return warn(f"{path} does not exist", examined.start_fix)
    if not stat.S_ISSOCK(mode):
        return fail(f"{path} is not a socket", f"move {path} elsewhere, then: mnemo up")
    if stat.S_IMODE(mode) & 0o077:
        return fail(f"{path} can be used by other users", f"chmod 600 {path}")
    if not process.is_listening(path):
        return warn(f"nobody listens on {path}: its daemon has ended", examined.start_fix)
    return ok(str(path))


def repair_socket(examined: Examination) -> str:
    """Make the socket private, or remove one that nobody listens on."""
    path = socket_path(examined.environ)
    if not path.is_socket() or path.is_symlink() or path.lstat().st_uid != os.geteuid():
        return ""
    if not process.is_listening(path):
        path.unlink(missing_ok=True)
        return f"removed the socket {path} of a daemon that has ended"
    path.chmod(0o600)
    return f"chmod 600 {path}"
