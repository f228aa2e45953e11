"""Records and stores for tests: what a test does not name has a value that it can do without."""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from mnemo_store.backend import Snapshot
from mnemo_store.codec import encode_json
from mnemo_store.disk import Disk
from mnemo_store.journal import dump
from mnemo_store.journal.dump import DumpRow
from mnemo_store.records import FORMAT, Change, Memory, PutMemory
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import MEMORIES, TABLE_NAMES, TABLES, Table, put_of

AT = 1_700_000_000_000  # ms: a moment of November 2023
WAIT_SECONDS = 30.0  # for a write that should take milliseconds; longer is a hang

_TABLES: dict[type, Table[Any]] = {Memory: MEMORIES, **{table.record: table for table in TABLES}}

NOTHING: WriteResult[None] = WriteResult((), None)

MEMORY_DISK = Path("/dev/shm")  # where fsync costs nothing
MEMORY_DISK_BYTES_MIN = 1 << 30


def sample_id(number: int) -> str:
    """A valid id, the same for the same number, growing with it."""
    return f"01890000-0000-7000-8000-{number:012x}"


def sample_memory(number: int, content: str = "", **fields: Any) -> Memory:
    times = {"created_at": AT, "modified_at": AT, "event_at": AT}
    return Memory(id=sample_id(number), content=content or f"memory number {number}", **{**times, **fields})


def as_change(value: Any) -> Change:
    """The change that writes a record; a change as it is."""
    table = _TABLES.get(type(value))
    change: Change = value if table is None else put_of(table, value)
    return change


def write(store: Store, *records: Any, what: str = "") -> int:
    """The seq of one transaction that writes these records, and makes the changes among them."""
    turn: WriteResult[None] = WriteResult(tuple(map(as_change, records)), None, what)
    return store.transact(lambda _: turn, by="test").result(WAIT_SECONDS).seq


def remember(store: Store, number: int, content: str = "", **fields: Any) -> Memory:
    memory = sample_memory(number, content, **fields)
    write(store, memory, what="add")
    return memory


def tables_of(folder: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """Every row of every table of a closed store but the vectors, which the journal does not hold."""
    with lmdb.open(str(folder / "db"), readonly=True, max_dbs=len(TABLE_NAMES), lock=False) as env:
        tables = {}
        for name in TABLE_NAMES:
            if name != "embeddings":
                database = env.open_db(name.encode(), create=False)
                with env.begin(db=database) as transaction:
                    tables[name] = [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
        return tables


@contextmanager
def quick_folder() -> Iterator[Path]:
    """An empty folder with a short path, in memory where the system has such a disk: for what is not about fsync."""
    folder = Path(tempfile.mkdtemp(prefix="m", dir=MEMORY_DISK if _is_fit(MEMORY_DISK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _is_fit(disk: Path) -> bool:
    """True if it is there, with room, and starts programs: some containers have one of 64 MB that does not."""
    if not disk.is_dir():
        return False
    usage = os.statvfs(disk)
    return usage.f_bavail * usage.f_frsize > MEMORY_DISK_BYTES_MIN and not usage.f_flag & os.ST_NOEXEC


@contextmanager
def opened(folder: Path, disk: Disk | None = None, **options: Any) -> Iterator[Store]:
    store = Store.open(folder, disk=disk, **options)
    try:
        yield store
    finally:
        store.close()


def contents(store: Store) -> list[str]:
    """The contents of all memories, whatever their state, in the order of the ids."""
    with store.snapshot() as snapshot:
        return [memory.content for memory in snapshot.memories()]


def lines_in(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a segment of the journal, without its header."""
    return [json.loads(line) for line in (folder / "journal" / name).read_bytes().splitlines()[1:]]


def put(memory: Memory) -> Callable[[Snapshot], WriteResult[str]]:
    """The decision to write this memory."""
    return lambda _: WriteResult((PutMemory(data=memory),), memory.id)


class HeldWriter:
    """The writer, kept busy until `let_go`; what is asked of it meanwhile makes one group afterwards."""

    def __init__(self, store: Store) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.future = store.transact(self._wait, by="test")
        assert self.begun.wait(WAIT_SECONDS)

    def _wait(self, _: Snapshot) -> WriteResult[None]:
        self.begun.set()
        self.go.wait(WAIT_SECONDS)
        return NOTHING

    def let_go(self) -> None:
        time.sleep(0.006)  # over the time of a group, so that the next one begins with what waits
        self.go.set()
        self.future.result(WAIT_SECONDS)


def dump_of(*rows: DumpRow) -> bytes:
    """An export with nothing but these rows, as another store with the same memories would give it."""
    checksummer = dump.Checksummer()
    header = dump.DumpHeader(mnemo_stream=dump.DUMP_VERSION, format=FORMAT, last=(0, ""), next_number=0, salt="")
    lines = [encode_json(row) for row in (header, *rows)]
    for line in lines:
        checksummer.add(line)
    return b"".join(line + b"\n" for line in [*lines, encode_json(checksummer.footer())])
