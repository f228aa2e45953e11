"""Access to a folder that others write: nothing is followed, nothing outside is read or written. SPEC 21.1

A carrier leaves conflict copies, versions and unfinished files next to ours, and somebody else may put anything there.
Only names that are exactly ours are opened, and only if they are regular files of a plausible size in real folders.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from mnemo_daemon.sync.cipher import SyncError
from mnemo_store.disk import Disk

DEVICES = "devices"
DEVICE_NAME = re.compile(r"[0-9a-f]{16}")
NEW_SUFFIX = ".new"  # of a file that is being written: see Disk.replace_file


class UnsafeFile(SyncError):
    """Something that is no file of ours, under a name of ours: a link, a folder, a device, or of absurd size."""


def device_folder(folder: Path, device: str) -> Path:
    """Return the folder in which this device alone writes. Raises UnsafeFile if it, or what it is in, is no folder."""
    if not DEVICE_NAME.fullmatch(device):
        raise ValueError(f"{device!r} is no device: 16 hexadecimal digits")
    devices = folder / DEVICES
    for path in (devices, devices / device):
        _require_folder(path)
    return devices / device


def make_device_folder(folder: Path, device: str, disk: Disk) -> Path:
    """Return the folder in which this device alone writes, made if it does not exist."""
    found = device_folder(folder, device)
    for path in (found.parent, found):
        if not path.exists():
            path.mkdir(mode=0o700)
            disk.sync_folder(path.parent)
    return found


def device_names(folder: Path) -> list[str]:
    """The devices that have a folder, and nothing else that lies there, in order."""
    _require_folder(folder / DEVICES)
    return [
        name
        for name in names_in(folder / DEVICES)
        if DEVICE_NAME.fullmatch(name) and _is_folder(folder / DEVICES / name)
    ]


def device_state(folder: Path, device: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of everything a device has in the folder: equal while nothing of it has changed."""
    found = []
    for name in names_in(device_folder(folder, device)):
        with contextlib.suppress(FileNotFoundError):
            status = (folder / DEVICES / device / name).lstat()
            found.append((name, status.st_size, status.st_mtime_ns))
    return tuple(found)


def names_in(folder: Path) -> list[str]:
    """Every name in a folder, in order; none if there is no such folder."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def read_file(path: Path, bytes_max: int, *, head: int | None = None) -> bytes:
    """Return a file's content, or its first bytes.

    Raises FileNotFoundError, or UnsafeFile for all that cannot be a file of ours.
    """
    fd = open_file(path, os.O_RDONLY)
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        if size > bytes_max:
            raise UnsafeFile(f"{place(path)} has {size} bytes; no file of ours has more than {bytes_max}")
        return file.read(bytes_max if head is None else head)


def open_file(path: Path, flags: int) -> int:
    """Open a regular file, never what a link names. Raises FileNotFoundError or UnsafeFile."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        kind = (
            "is a symbolic link" if error.errno in (errno.ELOOP, errno.EMLINK) else f"cannot be read: {error.strerror}"
        )
        raise UnsafeFile(f"{place(path)} {kind}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UnsafeFile(f"{place(path)} is no regular file")
    return fd


def replace_file(path: Path, pieces: Iterable[bytes], disk: Disk) -> None:
    """Replace a file, completely or not at all. What lies at its name, or at that of its draft, is not followed."""
    disk.unlink(path.with_name(path.name + NEW_SUFFIX))
    disk.replace_file(path, pieces)


def place(path: Path) -> str:
    """A path as a person knows it: from the shared folder on."""
    return "/".join(path.parts[-2:]) if DEVICE_NAME.fullmatch(path.parent.name) else path.name


def _require_folder(path: Path) -> None:
    if os.path.lexists(path) and not _is_folder(path):
        raise UnsafeFile(f"{path.name} is a link or a file where a folder of ours should be")


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False
