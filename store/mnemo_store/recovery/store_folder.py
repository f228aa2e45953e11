"""The data folder: its lock, by which one process at a time has it open, and the swap that puts a restored store in its
place, in steps that the next start can finish. SPEC 3.6, 3.9, store/docs/format.md.

The restored store is in DATA.restoring until it is complete; then it gets the file `restored.json`, DATA is renamed to
DATA.before-restore-MS, and DATA.restoring to DATA. After a kill this file says what to do: without it the restore had
not finished, and the folder DATA.restoring is a copy that nobody needs.

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
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mnemo_store.database.migrations import BACKUPS_FOLDER
from mnemo_store.disk import Disk, file_identity
from mnemo_store.errors import FolderInUse, StoreError
from mnemo_store.recovery import database_files

LOCK_FILE = "lock"

_NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
# Errors of file systems that cannot lock a folder (NFS needs a writable handle): the file alone is then the lock.
_NO_FOLDER_LOCK = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class FolderLock:
    """The lock of a folder, held from `acquire` to `release`."""

    def __init__(self, folder: Path, folder_fd: int, file_fd: int) -> None:
        self.folder = folder
        self._fds = [folder_fd, file_fd]
        self._held = [
            (folder, file_identity(os.fstat(folder_fd))),
            (folder / LOCK_FILE, file_identity(os.fstat(file_fd))),
        ]
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
        for (path, held), is_folder in zip(self._held, (True, False), strict=True):
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


RESTORING, REPLACED = ".restoring", ".before-restore-"  # behind the data folder's name
SWAP_MARKER = "restored.json"

log = logging.getLogger("mnemo.store")


class SwapMarker(msgspec.Struct, frozen=True):
    """`restored.json`: the name of the folder that the replaced store is kept as, "" where there was none."""

    kept: str


def staging_folder(data: Path) -> Path:
    """The folder in which the store that will replace `data` is made."""
    return data.with_name(f"{data.name}{RESTORING}")


def swap_in(data: Path, disk: Disk, now: int) -> Path | None:
    """Replaces `data` by the complete and closed store in `staging_folder(data)`; returns where the old one is kept."""
    stage = staging_folder(data)
    while (kept := data.with_name(f"{data.name}{REPLACED}{now}")).exists():
        now += 1
    is_there = data.exists()
    with _staging_lock(stage):
        disk.replace_file(stage / SWAP_MARKER, [msgspec.json.encode(SwapMarker(kept.name if is_there else ""))])
        if is_there:
            disk.rename(data, kept)
        try:
            disk.rename(stage, data)
        except OSError:
            if is_there:
                disk.rename(kept, data)
            raise
        _finish_inside(data, disk)
    return kept if is_there else None


def finish_swap(data: Path, disk: Disk) -> None:
    """Finishes a restore that was killed between its first rename and its last step, if there is one. Raises StoreError
    where a restore is running."""
    stage = staging_folder(data)
    if (stage / SWAP_MARKER).exists():
        has_begun = not _has_store(data) or not (stage / "journal").exists()
        with _staging_lock(stage):
            if has_begun:
                log.warning("the restore of %s was interrupted and is finished now", data)
                data.mkdir(mode=0o700, exist_ok=True)
                _move_into(stage, data, disk)
    if (data / SWAP_MARKER).exists():
        _finish_inside(data, disk)


def remove_staging(data: Path) -> None:
    """Removes the copy that an unfinished restore left next to `data`, which the caller has locked: it could hold texts
    that are erased later."""
    stage = staging_folder(data)
    if stage.is_dir() and _has_store(data):
        log.warning("a restore of %s had been interrupted: %s is removed", data, stage.name)
        shutil.rmtree(stage, ignore_errors=True)


def _has_store(folder: Path) -> bool:
    return any((folder / part).exists() for part in (database_files.MANIFEST_FILE, "journal", "db"))


@contextlib.contextmanager
def _staging_lock(stage: Path) -> Iterator[None]:
    """Holds the lock of the staging folder, so that no start finishes a restore that is still running."""
    try:
        lock = FolderLock.acquire(stage)
    except FolderInUse as locked:
        raise StoreError(f"a restore is running ({locked}): start again when it is done") from locked
    try:
        yield
    finally:
        lock.release()


def _move_into(stage: Path, data: Path, disk: Disk) -> None:
    """Moves everything into an existing folder without a store: the journal first and the marker last, so that an
    interrupted move is recognised."""
    names = [
        path.name
        for path in stage.iterdir()
        if path.name not in ("journal", database_files.MANIFEST_FILE, SWAP_MARKER, LOCK_FILE)
    ]
    for name in ("journal", *sorted(names), database_files.MANIFEST_FILE, SWAP_MARKER):
        if (stage / name).exists():
            _merge(stage / name, data / name, disk)
    disk.sync_folder(data)
    shutil.rmtree(stage)
    disk.sync_folder(data.parent)


def _merge(source: Path, target: Path, disk: Disk) -> None:
    if not (source.is_dir() and target.is_dir()):
        disk.rename(source, target)
        return
    for path in sorted(source.iterdir()):
        _merge(path, target / path.name, disk)
    source.rmdir()


def _finish_inside(data: Path, disk: Disk) -> None:
    """Does the last steps in the replaced folder: backups belong to the folder, not to the store, and are moved
    over."""
    disk.sync_folder(data.parent)
    try:
        mark = msgspec.json.decode((data / SWAP_MARKER).read_bytes(), type=SwapMarker)
    except msgspec.MsgspecError:  # it says nothing but where the backups are
        mark = SwapMarker("")
    backups = data.with_name(mark.kept) / BACKUPS_FOLDER if mark.kept else None
    if backups is not None and backups.is_dir() and any(backups.iterdir()):
        (data / BACKUPS_FOLDER).mkdir(mode=0o700, exist_ok=True)  # it exists if the restored store was migrated
        for each in sorted(backups.iterdir()):
            disk.rename(each, data / BACKUPS_FOLDER / each.name)
    disk.unlink(data / SWAP_MARKER)
    disk.sync_folder(data)
