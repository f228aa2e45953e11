"""The lock of a data folder: one process at a time has it open. SPEC 3.6, store/docs/format.md.

Two things are locked: the folder itself, whose lock holds whatever is deleted in the folder and wherever it is moved,
and the file `lock` in it, which names the holder, and is the lock alone where a folder cannot be locked. Both locks
belong to the kernel and end with the process. A copy of the folder is another folder with another file: it is not
locked.
"""

import contextlib
import errno
import fcntl
import logging
import os
from pathlib import Path

from mnemo_store.disk import file_identity
from mnemo_store.errors import FolderInUse

LOCK_FILE = "lock"

_NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
# Errors of file systems that cannot lock a folder (NFS needs a writable handle): the file alone is then the lock.
_NO_FOLDER_LOCK = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})

log = logging.getLogger("mnemo.store")


class FolderLock:
    """The lock of a folder, held from `acquire` to `release`."""

    def __init__(self, folder: Path, folder_fd: int, file_fd: int) -> None:
        self.folder = folder
        self._fds = [folder_fd, file_fd]
        self._folder_identity = file_identity(os.fstat(folder_fd))
        self._file_identity = file_identity(os.fstat(file_fd))
        self._logged = ""

    @classmethod
    def acquire(cls, folder: Path) -> "FolderLock":
        """Locks an existing folder. Raises FolderInUse, which names the holder, and OSError."""
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUse(f"{_holder(folder)} is using {folder}") from None
            except OSError as error:
                if error.errno not in _NO_FOLDER_LOCK:
                    raise
            file_fd = _lock_file(folder)
        except BaseException:
            os.close(folder_fd)
            raise
        return cls(folder, folder_fd, file_fd)

    def loss(self) -> str:
        """Reason why another process may be using the folder by now; "" as long as none can."""
        loss = self._loss()
        if loss != self._logged:
            self._logged = loss
            if loss:
                log.error("writing stops: %s", loss)
            else:
                log.warning("the data folder and its lock are back: writing goes on")
        return loss

    def _loss(self) -> str:
        for path, held in ((self.folder, self._folder_identity), (self.folder / LOCK_FILE, self._file_identity)):
            is_folder = path == self.folder
            try:
                found = file_identity(path.stat())
            except (FileNotFoundError, NotADirectoryError):
                if is_folder:
                    return f"the data folder {path} was moved or deleted; {_FOLDER_REMEDY}"
                return f"{path} was removed; {_FILE_REMEDY}"
            except OSError:  # unknown: nothing says that the lock is lost
                continue
            if found != held:
                if is_folder:
                    return f"the data folder {path} was replaced by another folder; {_FOLDER_REMEDY}"
                return f"{path} was replaced; {_FILE_REMEDY}"
        return ""

    def release(self) -> None:
        """Releases both locks; safe to call again."""
        while self._fds:
            os.close(self._fds.pop())


_FILE_REMEDY = "restart the daemon (mnemo down, then mnemo up) to lock the folder again"
_FOLDER_REMEDY = (
    "put it back to go on, or export what the daemon still holds (mnemo export FILE) before restarting the daemon"
)


def _lock_file(folder: Path) -> int:
    path = folder / LOCK_FILE
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE or not path.exists():
            raise
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # it can still be locked, though the holder is not noted in it
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise FolderInUse(f"{_holder(folder)} is using {folder}") from None
    with contextlib.suppress(OSError):  # on a full or read-only disk the file does not name the holder
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _holder(folder: Path) -> str:
    """The process named in the lock file."""
    try:
        pid = (folder / LOCK_FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return "another process"
    return f"process {pid}" if pid.isdigit() else "another process"
