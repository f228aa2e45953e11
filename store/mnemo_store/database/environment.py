"""The database: an LMDB environment, read in snapshots and written in transactions. store/docs/format.md."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb

from mnemo_store.backend import Snapshot, StateBackend, StateTransaction, StateWriter
from mnemo_store.codec import NO_CHANGES, Position
from mnemo_store.database.table_access import TABLES_MAX, Handles, TableSnapshot, TableWriter, open_tables
from mnemo_store.disk import Disk
from mnemo_store.errors import NewerFormat
from mnemo_store.records import FORMAT

MAP_BYTES = 64 << 30  # sparse, so it costs address space only
MAP_BYTES_MAX = 1 << 44
READERS_MAX = 512
LOCK_BYTES = 64 * READERS_MAX + 4096  # of a lock file: LMDB takes 64 for each reader and at most a page for itself
DATABASE_FILE = "data.mdb"

# Errors that the caller's own change has caused, not the database.
CALLER_ERRORS = (lmdb.BadValsizeError, lmdb.TxnFullError, lmdb.InvalidParameterError)


class UnreadableRow(lmdb.CorruptedError):
    """A row cannot be decoded, although every page of the database verifies."""


class Database(StateBackend):
    """An open environment. LMDB allows one for each folder and process."""

    def __init__(self, env: Any, tables: Handles, disk: Disk) -> None:
        self.end = NO_CHANGES
        self._env = env
        self._tables = tables
        self._disk = disk

    @classmethod
    def open(cls, folder: Path, disk: Disk, map_bytes: int = MAP_BYTES, supported: int = FORMAT) -> "Database":
        """Opens or makes the database in folder. Raises lmdb.Error, OSError, or NewerFormat for one of a newer format
        than `supported`."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (folder / "lock.mdb").exists():  # LMDB maps it: a page without a block ends the process by SIGBUS
            try:
                disk.allocate(folder / "lock.mdb", LOCK_BYTES)
            except OSError:
                room = os.statvfs(folder)
                if room.f_bavail * room.f_frsize < LOCK_BYTES:
                    raise
        env = disk.open_database(
            folder, map_size=map_bytes, max_dbs=TABLES_MAX, max_readers=READERS_MAX, mode=0o600, lib_version=0,
            max_spare_txns=4,
        )  # fmt: skip
        try:
            env.reader_check()
            database = cls(env, open_tables(env), disk)
            with database.snapshot(0) as here:
                database.end = here.position
                stored = here.meta("format")
            if stored and int(stored) > supported:
                raise NewerFormat(f"the database has format {stored}; this version supports formats up to {supported}")
        except BaseException:
            env.close()
            raise
        return database

    @property
    def map_bytes(self) -> int:
        return int(self._env.info()["map_size"])

    @contextlib.contextmanager
    def snapshot(self, now: int) -> Iterator[Snapshot]:
        """A snapshot. Keep it for at most 100 ms: LMDB cannot reuse pages as long as it lives."""
        with self._env.begin(buffers=False) as transaction:
            yield TableSnapshot(transaction, self._tables, now)

    @contextlib.contextmanager
    def table_snapshot(self, now: int) -> Iterator[TableSnapshot]:
        """A snapshot that also gives access to the rows of every table."""
        with self._env.begin(buffers=False) as transaction:
            yield TableSnapshot(transaction, self._tables, now)

    def begin(self) -> "DatabaseTransaction":
        return DatabaseTransaction(self, self._env, self._tables, self._disk)

    def write(self, now: int, act: Callable[[TableWriter], object]) -> None:
        """Runs `act` in a transaction of its own, durable on return."""
        with self._env.begin(write=True) as transaction:
            act(TableWriter(transaction, self._tables, now))

    def sync(self) -> None:
        self._env.sync(True)

    def copy(self, folder: Path) -> None:
        """Makes a consistent copy without free pages; writes go on meanwhile."""
        self._disk.copy_database(self._env, folder)

    def close(self) -> None:
        self._env.close()


class DatabaseTransaction(StateTransaction):
    """A write transaction, whose savepoints are nested transactions."""

    def __init__(self, database: Database, env: Any, tables: Handles, disk: Disk) -> None:
        self._database = database
        self._env = env
        self._transaction = env.begin(write=True)
        self._tables = tables
        self._disk = disk
        self._end = database.end

    @contextlib.contextmanager
    def savepoint(self, now: int) -> Iterator[StateWriter]:
        with self._env.begin(write=True, parent=self._transaction) as child:  # an exception aborts it
            yield TableWriter(child, self._tables, now)

    def record_end(self, now: int, end: Position) -> None:
        TableWriter(self._transaction, self._tables, now).set_position(end)
        self._end = end

    def commit(self) -> None:
        self._disk.commit(self._transaction)
        self._database.end = self._end

    def abort(self) -> None:
        with contextlib.suppress(lmdb.Error):
            self._transaction.abort()


def is_full(error: Exception) -> bool:
    """True if the disk was full, which LMDB says only in the text of the error."""
    return os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error)
