"""Who may come in: one process a data folder, and of its threads many readers or one alone. SPEC 3.6."""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from mnemo_store.errors import Locked

_NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class Gate:
    """Many readers or one who needs to be alone with the database."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether who wants to read has to wait."""
        return self._closed

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within it the database stays open; waits while someone is alone with it."""
        with self._condition:
            while self._closed:
                self._condition.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                if not self._readers:
                    self._condition.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within it nobody reads; waits until those who do have done."""
        with self._condition:
            self._closed = True
            while self._readers:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()


def take_lock(path: Path) -> int:
    """A lock that the kernel releases with the process. Raises Locked that names the holder."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NOT_WRITABLE or not path.exists():
            raise
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # it can still be locked, if not signed
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise Locked(f"process {holder} is using {path.parent}") from None
    with contextlib.suppress(OSError):  # on a disk that is full or read-only nobody gets to know who holds it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
