"""All calls by which the store changes a disk, in one place, so that a test can make the n-th of them fail; and the
reserve, space that is released when the disk is full, so that deleting still works. SPEC 3.4

Every file that must survive power loss goes through here: written, fsynced, renamed into place, and the folder fsynced.
"""

import errno
import logging
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import lmdb

RESERVE_BYTES = 16 << 20

log = logging.getLogger("mnemo.store")


if sys.platform == "darwin":
    import fcntl

    def _sync(fd: int) -> None:
        """On macOS fsync stops at the drive's cache; F_FULLFSYNC does not."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
else:

    def _sync(fd: int) -> None:
        os.fdatasync(fd)


PIECE_BYTES = 1 << 20  # read, copied or written at once

# Errors of file systems that cannot sync a folder and do not need it.
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


class Committable(Protocol):
    """A transaction that can be committed (an LMDB one)."""

    def commit(self) -> None: ...


class Disk:
    """The real disk. A subclass in tests raises OSError at chosen calls."""

    def append(self, fd: int, data: bytes) -> None:
        """Writes all of data at the end of an O_APPEND file."""
        _write_all(fd, data)

    def sync(self, fd: int) -> None:
        """Syncs what was written to fd to the medium."""
        _sync(fd)

    def sync_folder(self, folder: Path) -> None:
        """Syncs the names in folder to the medium."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(fd)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        source.rename(target)

    def unlink(self, path: Path) -> None:
        """Removes a file, if it exists."""
        path.unlink(missing_ok=True)

    def allocate(self, path: Path, size: int) -> None:
        """Makes a file of this many bytes, all allocated on the disk, mode 0600."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
            else:  # macOS: only bytes that are written are allocated
                while os.lseek(fd, 0, os.SEEK_END) < size:
                    os.write(fd, bytes(1 << 20))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def open_database(self, folder: Path, **options: Any) -> Any:
        """Opens an LMDB environment."""
        return lmdb.open(str(folder), **options)

    def copy_database(self, env: Any, folder: Path) -> None:
        """Makes a compacted, synced copy of an LMDB environment."""
        env.copy(str(folder), compact=True)

    def commit(self, transaction: Committable) -> None:
        """Commits an LMDB transaction, which fsyncs twice."""
        transaction.commit()

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        """Replaces a file, completely or not at all, mode 0600; a reader of the old file keeps the old one."""
        new = path.with_name(path.name + ".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for piece in pieces:
                _write_all(fd, piece)
            self.sync(fd)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        self.rename(new, path)
        self.sync_folder(path.parent)

    def copy_file(self, source: Path, target: Path) -> None:
        """Copies a file, completely or not at all, mode 0600."""
        with source.open("rb") as file:
            self.replace_file(target, iter(partial(file.read, PIECE_BYTES), b""))


def _write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def make_private_folder(folder: Path) -> None:
    """Creates a folder that is missing, and those above it, for their owner only: mkdir would leave these to others."""
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def file_size(path: Path) -> int:
    """Return the size of a file; 0 if it does not exist, or no longer."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def file_identity(stat: os.stat_result) -> tuple[int, int]:
    """Device and inode, which distinguish a file from another one with the same name."""
    return stat.st_dev, stat.st_ino


class DiskReserve:
    """A file without content of its own, which keeps space free for a full disk."""

    def __init__(self, path: Path, disk: Disk, size: int) -> None:
        self.is_released = False  # released: only writes that free space are accepted
        self._path = path
        self._disk = disk
        self._size = size  # 0: there is none

    def release(self) -> bool:
        """Frees the space of the reserve on a full disk; False where there was none."""
        self.is_released = True
        try:
            size = self._path.stat().st_size
            self._disk.unlink(self._path)
        except OSError:
            return False
        log.error("the disk is full: the reserve of %d bytes is released", size)
        return size > 0

    def allocate(self) -> None:
        """Allocates the reserve, or finds that there is no room for it."""
        if not self._size:
            self.is_released = False
            return
        try:
            if not self._path.exists() or self._path.stat().st_size < self._size:
                self._disk.allocate(self._path, self._size)
        except OSError as error:
            self.is_released = is_disk_full(error)
            log.warning("the reserve could not be allocated: %s", error)
        else:
            self.is_released = False

    def reallocate_if_room(self) -> None:
        """Allocates the reserve again once the disk has room for twice its size."""
        try:
            usage = os.statvfs(self._path.parent)
        except OSError as error:
            log.warning("the free space of the disk is unknown: %s", error)
            return
        if usage.f_bavail * usage.f_frsize >= 2 * self._size:
            self.allocate()
            if not self.is_released:
                log.warning("there is room on the disk again")
