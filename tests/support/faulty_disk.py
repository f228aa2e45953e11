"""A disk that fails as long as it is told to, for a store in a test and for a daemon in a process of its own.

python -m tests.support.faulty_disk FOLDER is the daemon over such a disk: it fails as the names of the files in FOLDER
say ("opening", "committing", "writing", "allocating", each holding the name of an error, such as EIO).
"""

import errno
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import lmdb

from mnemo_daemon import __main__, lifespan
from mnemo_daemon.app import Daemon
from mnemo_store.disk import Committable, Disk

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS))


class FaultyDisk(Disk):
    """Fails as long as it is told to; `room` is what a full disk has left."""

    def __init__(self) -> None:
        self.opening: OSError | None = None  # of the database
        self.committing: OSError | None = None
        self.writing: OSError | None = None  # of everything else
        self.allocating: OSError | None = None  # of the reserve
        self.reading: lmdb.Error | None = None  # of the database
        self.room: int | None = None

    def open_database(self, folder: Path, **options: Any) -> Any:
        if self.opening is not None:
            raise lmdb.DiskError(f"{folder}: {self.opening.strerror}")
        return FaultyEnvironment(super().open_database(folder, **options), self)

    def commit(self, transaction: Committable) -> None:
        if self.committing is not None:
            raise lmdb.DiskError(f"mdb_txn_commit: {self.committing.strerror}")
        super().commit(transaction)

    def append(self, fd: int, data: bytes) -> None:
        self._write(len(data))
        super().append(fd, data)

    def sync(self, fd: int) -> None:
        if self.writing is not None and self.writing.errno != errno.ENOSPC:  # what was written has its room
            raise self.writing

    def rename(self, source: Path, target: Path) -> None:
        self._write(0)
        super().rename(source, target)

    def allocate(self, path: Path, size: int) -> None:
        if self.allocating is not None:
            raise self.allocating
        self._write(size)
        super().allocate(path, size)

    def unlink(self, path: Path) -> None:
        if self.room is not None and path.exists():
            self.room += path.stat().st_size
        super().unlink(path)

    def _write(self, size: int) -> None:
        if self.writing is not None:
            raise self.writing
        if self.room is not None:
            if size > self.room:
                raise FULL
            self.room -= size


class FaultyEnvironment:
    """An LMDB environment of which reading can fail."""

    def __init__(self, env: Any, disk: FaultyDisk) -> None:
        self._env, self._disk = env, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, **options: Any) -> Any:
        if self._disk.reading is not None and not options.get("write"):
            raise self._disk.reading
        return self._env.begin(**options)


class FileControlledDisk(FaultyDisk):
    """Looks into a folder, at each call, for how to fail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        super().__init__()

    def __getattribute__(self, name: str) -> Any:
        if name in ("opening", "committing", "writing", "allocating"):
            reported = super().__getattribute__("_folder") / name
            if reported.exists():
                number = getattr(errno, reported.read_text())
                return OSError(number, os.strerror(number))
        return super().__getattribute__(name)


if __name__ == "__main__":
    setattr(lifespan, "Daemon", partial(Daemon, disk=FileControlledDisk(Path(sys.argv.pop()))))  # noqa: B010 - a class to mypy
    sys.exit(__main__.main())
