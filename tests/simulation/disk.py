"""A disk that does what one seed says: fails, fills up, or takes the process with it at the n-th call."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import lmdb

from mnemo_store.disk import Committable, Disk

Kind = Literal[
    "append", "sync", "sync_folder", "truncate", "rename", "unlink", "allocate", "open_database", "copy_database",
    "commit", "write",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "append", "sync", "sync_folder", "truncate", "rename", "unlink", "allocate", "open_database", "copy_database",
    "commit", "write",
)  # fmt: skip
OF_THE_DATABASE = ("open_database", "copy_database", "commit")
COMMIT_BYTES = 16 << 10  # what a commit takes of a disk that is nearly full
FOR_GOOD = 10**9

How = Literal["not done", "done all the same", "half done"]


class ProcessKill(BaseException):
    """The process is dead: nothing that it still does reaches the disk."""


class Fault(NamedTuple):
    """A failure: from the at-th call on, so many in a row. `only`: calls of these kinds count; none: all."""

    at: int
    row: int = 1
    error: int = errno.EIO
    how: How = "not done"
    only: tuple[Kind, ...] = ()
    kills: bool = False

    def said(self) -> str:
        what = "killed" if self.kills else errno.errorcode[self.error]
        row = "for good" if self.row >= FOR_GOOD else f"{self.row} in a row"
        return f"{what} at call {self.at}, {row}, {self.how}{' of ' + '+'.join(self.only) if self.only else ''}"


class SimulatedDisk(Disk):
    """The real disk, but for waiting on the medium, and for what is set to go wrong."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self.fault: Fault | None = None
        self.room: int | None = None  # bytes that are left on it; None: enough
        self.reading: str = ""  # what every reader of the database gets to see, where it is not ""
        self.failures = 0  # calls that did not do what they should have, since it was last healed
        self.calls = 0
        self._seen = 0  # calls that count for the fault
        self._is_dead = False
        self._on_death = on_death
        self._environment: SimulatedEnvironment | None = None

    @property
    def is_sound(self) -> bool:
        return self.fault is None and self.room is None and not self.reading

    def abandon(self) -> None:
        """Ends what the process that died had under way."""
        if self._environment is not None:
            self._environment.abandon()

    def set(self, fault: Fault | None) -> None:
        self.fault, self._seen = fault, 0

    def heal(self) -> None:
        self.fault, self.room, self.reading, self.failures = None, None, "", 0

    def _call(self, kind: Kind, act: Callable[[], Any], half: Callable[[], Any] | None = None, size: int = 0) -> Any:
        if self._is_dead:
            raise ProcessKill
        self.calls += 1
        if self.room is not None and size > self.room:
            self.failures += 1
            if half is not None:
                half()
            raise self._error(kind, errno.ENOSPC)
        fault = self.fault
        if fault is not None and (not fault.only or kind in fault.only):
            self._seen += 1
            if fault.at <= self._seen < fault.at + fault.row:
                self._fail(kind, fault, act, half)
        if self.room is not None:
            self.room -= size
        return act()

    def _fail(self, kind: Kind, fault: Fault, act: Callable[[], Any], half: Callable[[], Any] | None) -> None:
        self.failures += 1
        if fault.how == "done all the same" and kind not in ("open_database", "copy_database"):
            act()
        elif fault.how == "half done" and half is not None:
            half()
        if fault.kills:
            self._is_dead = True
            self._on_death()
            raise ProcessKill
        raise self._error(kind, fault.error)

    def _error(self, kind: Kind, number: int) -> Exception:
        if kind not in OF_THE_DATABASE:
            return OSError(number, os.strerror(number))
        if kind == "commit" and self._environment is not None:
            self._environment.panics = number == errno.ENOSPC
        return lmdb.DiskError(f"mdb_txn_commit: {os.strerror(number)}")

    def append(self, fd: int, data: bytes) -> None:
        part = data[: len(data) * 2 // 3]
        self._call("append", lambda: Disk.append(self, fd, data), lambda: Disk.append(self, fd, part), len(data))

    def sync(self, fd: int) -> None:
        self._call("sync", lambda: None)

    def sync_folder(self, folder: Path) -> None:
        self._call("sync_folder", lambda: None)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate", lambda: Disk.truncate(self, fd, size))

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", lambda: Disk.rename(self, source, target))

    def unlink(self, path: Path) -> None:
        freed = path.stat().st_size if path.exists() else 0
        self._call("unlink", lambda: Disk.unlink(self, path))
        if self.room is not None:
            self.room += freed

    def allocate(self, path: Path, size: int) -> None:
        self._call("allocate", lambda: Disk.allocate(self, path, size), size=size)

    def open_database(self, folder: Path, **options: Any) -> Any:
        self._environment = SimulatedEnvironment(
            self._call("open_database", lambda: Disk.open_database(self, folder, **options)), self
        )
        return self._environment

    def copy_database(self, env: Any, folder: Path) -> None:
        self._call("copy_database", lambda: Disk.copy_database(self, env, folder), size=COMMIT_BYTES)

    def commit(self, transaction: Committable) -> None:
        self._call("commit", lambda: Disk.commit(self, transaction), size=COMMIT_BYTES)

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        """A fault in the writing strikes in the middle of it; the steps behind it are calls of their own."""
        if self._is_dead:
            raise ProcessKill
        Disk.replace_file(self, path, self._written(pieces))

    def _written(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for index, piece in enumerate(pieces):
            half = len(piece) // 2
            yield piece[:half]
            if index == 0:
                self._call("write", lambda: None, size=len(piece))
            yield piece[half:]


class SimulatedEnvironment:
    """An LMDB environment of which reading can fail, and which panics after a commit that found no room."""

    def __init__(self, env: Any, disk: SimulatedDisk) -> None:
        self._env = env
        self._disk = disk
        self.panics = False
        self._writing: Any = None  # the last write transaction begun

    def abandon(self) -> None:
        """Drop what dies with the process: a transaction in progress."""
        if self._writing is not None:
            self._writing.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, **options: Any) -> Any:
        if self._disk.reading and not options.get("write"):
            raise lmdb.CorruptedError(self._disk.reading)
        if self.panics and options.get("write"):
            raise lmdb.PanicError("mdb_txn_begin: MDB_PANIC: Update of meta page failed or environment had fatal error")
        transaction = self._env.begin(**options)
        if options.get("write") and "parent" not in options:
            self._writing = transaction
        return transaction
