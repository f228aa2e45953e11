"""Changes of configuration files: planned together, then written one by one, each with a backup.

A file is read and written through symbolic links, which stay links, and one with several names (hard links) keeps them.
The folder `setup` of the data folder has a record of every file that was changed, and a backup of it. `--remove`
restores the backup of a file that nobody has changed since the setup; out of any other file it takes the entries alone.
"""

import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.cli.agent_setup.editors import PROGRAM, BlockEditor, JsonEditor
from mnemo_client.cli.agent_setup.json_text import ConfigFileError
from mnemo_client.errors import MnemoError
from mnemo_client.path_safety import replace_file
from mnemo_client.paths import data_folder
from mnemo_client.process import make_private_folder

FILE_BYTES_MAX = 32 * 1024 * 1024
RECORDS_FILE = "records.json"
BY_HAND = "to add the entry by hand: --print"

Editor = JsonEditor | BlockEditor


class ConfigFile(NamedTuple):
    """A file of a client, and the editor that knows the entries for it."""

    path: Path
    editor: Editor


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file: None stands for no file. `target` is the file that the path leads to through links."""

    file: ConfigFile
    target: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    @property
    def is_linked(self) -> bool:
        return self.file.path.is_symlink()


class SetupRecords:
    """The record of every file that a setup has changed, by its path, and the backups."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = data_folder(environ) / "setup"
        try:
            found = json.loads((self._folder / RECORDS_FILE).read_bytes())
        except (OSError, ValueError):
            found = {}
        self._records: dict[str, dict[str, Any]] = found if isinstance(found, dict) else {}

    def get(self, target: Path) -> dict[str, Any] | None:
        record = self._records.get(str(target))
        return record if isinstance(record, dict) else None

    def is_unchanged(self, target: Path, data: bytes | None) -> bool:
        """Return True if these are the bytes that a setup wrote."""
        return data is not None and (self.get(target) or {}).get("written") == digest(data)

    def former(self, target: Path) -> bytes | None:
        """Return the bytes of a file before the setup; None if there was no such file, or no record of it."""
        name = (self.get(target) or {}).get("backup")
        try:
            return (self._folder / str(name)).read_bytes() if name else None
        except OSError:
            return None

    def back_up(self, target: Path, data: bytes) -> Path:
        """Keep a copy of a file for its owner alone; return its path."""
        self._make_folder()
        moment = time.strftime("%Y-%m-%dT%H%M%S-")
        descriptor, path = tempfile.mkstemp(f"-{target.name.lstrip('.')}", moment, self._folder)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(path)

    def set(self, target: Path, record: dict[str, Any] | None) -> None:
        """Keep the record of a file; None removes it."""
        if record is None:
            self._records.pop(str(target), None)
        else:
            self._records[str(target)] = record
        self._make_folder()
        replace_file(self._folder / RECORDS_FILE, json.dumps(self._records, indent=1).encode(), is_durable=True)

    def _make_folder(self) -> None:
        make_private_folder(self._folder.parent)
        make_private_folder(self._folder)


def plan_addition(file: ConfigFile) -> FileChange:
    """Return the change that adds the entries. Raises ConfigFileError, ForeignEntryError."""
    target, before = _read(file.path)
    try:
        after = file.editor.add(_decode(before or b"")).encode()
    except MnemoError as error:
        raise _with_path(error, file.path) from error
    change = FileChange(file, target, before, before if before is not None and after == before else after)
    if change.is_needed:
        _check_writable(file.path, target)
    return change


def plan_removal(file: ConfigFile, records: SetupRecords) -> FileChange:
    """Return the change that takes the entries out. Raises ConfigFileError."""
    target, before = _read(file.path)
    if before is None:
        return FileChange(file, target, None, None)
    former = records.former(target)
    was_created = former is None and (records.get(target) or {}).get("created")
    if records.is_unchanged(target, before) and (former is not None or was_created):
        after = former
    else:
        try:
            text = file.editor.remove(_decode(before), _decode(former) if former is not None else None)
        except MnemoError as error:
            raise _with_path(error, file.path) from error
        after = None if was_created and file.editor.is_bare(text) else text.encode()
    change = FileChange(file, target, before, after)
    if change.is_needed:
        _check_writable(file.path, target)
    return change


def is_set_up(file: ConfigFile) -> bool:
    """Return True if the file has entries of mnemo; a file that cannot be read has none that are known."""
    try:
        _, before = _read(file.path)
        return before is not None and file.editor.has_entries(_decode(before))
    except MnemoError:
        return False


def installed_file(file: ConfigFile) -> tuple[set[str], bool] | None:
    """Return the programs that the entries in a file run, and if they are those of this version; None if it has none.
    Raises ConfigFileError, ForeignEntryError."""
    _, before = _read(file.path)
    if before is None or PROGRAM.encode() not in before:  # large files of other programs are not parsed for nothing
        return None
    try:
        text = _decode(before)
        if not file.editor.has_entries(text):
            return None
        return file.editor.programs(text), file.editor.installed_part(text).add(text) == text
    except MnemoError as error:
        raise _with_path(error, file.path) from error


def apply_addition(change: FileChange, records: SetupRecords, client: str) -> Path | None:
    """Write the file; return its backup, if there was a file."""
    assert change.after is not None
    record = records.get(change.target) or {}
    backup = records.back_up(change.target, change.before) if change.before is not None else None
    folders = [folder for folder in change.target.parents if not folder.exists()][::-1]  # the outermost first
    for folder in folders:
        folder.mkdir()
    _write_change(change)
    written = digest(change.after)
    # The record of a file that nobody has changed still names the bytes from before the first setup.
    if not records.is_unchanged(change.target, change.before):
        # Those of a file that has entries of an earlier setup are not known.
        had_entries = change.before is not None and change.file.editor.has_entries(_decode(change.before))
        record = {
            "client": client, "created": change.before is None, "folders": [str(each) for each in folders],
            "backup": backup.name if backup is not None and not had_entries else record.get("backup"),
        }  # fmt: skip
        written = "" if had_entries else written
    records.set(change.target, {**record, "written": written})
    return backup


def apply_removal(change: FileChange, records: SetupRecords) -> Path | None:
    """Write or delete the file; return a backup of it, if something else in it had changed since the setup."""
    assert change.before is not None
    is_unchanged = records.is_unchanged(change.target, change.before)
    backup = None if is_unchanged else records.back_up(change.target, change.before)
    if change.after is None:
        _check_unchanged(change)
        change.target.unlink()
        for folder in reversed((records.get(change.target) or {}).get("folders", [])):
            try:
                Path(folder).rmdir()
            except OSError:
                break  # something else is in it now
    else:
        _write_change(change)
    records.set(change.target, None)
    return backup


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> tuple[Path, bytes | None]:
    """Return the file that the path leads to, and its bytes; None if there is none. Raises ConfigFileError."""
    target = Path(os.path.realpath(path))
    try:
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigFileError(f"{path} is not a regular file", BY_HAND)
        if found.st_size > FILE_BYTES_MAX:
            raise ConfigFileError(f"{path} has {found.st_size} bytes; at most {FILE_BYTES_MAX} can be changed", BY_HAND)
        return target, target.read_bytes()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigFileError(
                f"{path} is a link to {target}, which does not exist", "create that file, or remove the link"
            ) from None
        return target, None
    except OSError as failed:
        raise ConfigFileError(f"{path} cannot be read: {failed.strerror or failed}", BY_HAND) from failed


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as wrong:
        line = data.count(b"\n", 0, wrong.start) + 1
        raise ConfigFileError(f"line {line}: this is not UTF-8 text") from wrong


def _with_path(error: MnemoError, path: Path) -> MnemoError:
    error.message = f"{path}: {error.message}"
    error.hint = error.hint or f"correct the file, then run the command again; {BY_HAND}"
    return error


def _check_writable(path: Path, target: Path) -> None:
    """Raise ConfigFileError if the user may not write the file or its folder. The mode of the file counts, although a
    rename could replace a read-only file."""
    shown = f"{path} (a link to {target})" if path.is_symlink() else str(path)
    if target.exists():
        found = target.stat()
        if found.st_uid != os.geteuid():
            raise ConfigFileError(f"{shown} belongs to another user (uid {found.st_uid}); nothing was changed", BY_HAND)
        if not found.st_mode & stat.S_IWUSR:
            raise ConfigFileError(f"{shown} is read-only; nothing was changed", BY_HAND)
    folder = target.parent
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigFileError(f"the folder of {shown} is read-only; nothing was changed", BY_HAND)


def _write_change(change: FileChange) -> None:
    assert change.after is not None
    _check_unchanged(change)
    found = change.target.stat() if change.before is not None else None
    if found is not None and found.st_nlink > 1:  # a replaced file would leave its other names behind
        with change.target.open("r+b") as file:  # there is a backup of it
            file.write(change.after)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        return
    replace_file(change.target, change.after, stat.S_IMODE(found.st_mode) if found else None, is_durable=True)


def _check_unchanged(change: FileChange) -> None:
    if _read(change.file.path)[1] != change.before:
        raise ConfigFileError(f"{change.file.path} was changed by another program meanwhile", "run the command again")
