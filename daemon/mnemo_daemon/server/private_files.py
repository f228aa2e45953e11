"""The data folder, the configuration and the log before a start: no other user can read or replace them. SPEC 16

What can be repaired without loss (other users may read a file or folder of ours) is repaired and reported; the rest is
refused with the command that solves it. Standard library and little else, as in `sockets`.
"""

from pathlib import Path

from mnemo_client import path_safety
from mnemo_client.path_safety import PathProblem


class UnsafeFileError(Exception):
    """Another user could read or replace a file or folder; the message says which, and what solves it."""


def secure(data: Path, config_file: Path, log: Path) -> list[str]:
    """Make the data folder if it is missing, and all three private; return the repairs. Raises UnsafeFileError."""
    _require(path_safety.parents_problem(data), f"the data folder {data} is not safe")
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        repairs = _repaired(data.resolve(), 0o700)
        _require(path_safety.folder_problem(data), f"the data folder {data} is not safe")
    except OSError as failed:
        raise UnsafeFileError(f"cannot make the data folder {data}: {failed.strerror}; set MNEMO_DATA_DIR") from failed
    for file in (config_file, log):
        if file.is_file() and not file.is_symlink():
            repairs += _repaired(file, 0o600)
    if log.exists() or log.is_symlink():
        _require(path_safety.file_problem(log), "the daemon does not write to its log")
    return repairs


def _repaired(path: Path, mode: int) -> list[str]:
    try:
        before = path.stat().st_mode & 0o777
        was_open = path_safety.make_private(path, mode)
    except OSError:
        return []  # the check that follows reports what stays wrong
    return [f"other users could access {path} (mode {before:04o}): it now has mode {mode:04o}"] if was_open else []


def _require(problem: PathProblem | None, prefix: str) -> None:
    if problem is not None:
        raise UnsafeFileError(f"{prefix}: {problem}")
