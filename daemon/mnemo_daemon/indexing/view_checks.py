"""Comparison of the indexes with the database: each with one that was rebuilt from it. SPEC 3.1, 17.2.

Commit indexes are compared as files, so that one comparison serves for an index in memory and for one on the disk.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from mnemo_daemon.indexing.index import CommitIndex, IndexFile
from mnemo_daemon.indexing.registry import COMMIT_INDEXES
from mnemo_store.backend import TouchedMemory
from mnemo_store.database.table_access import TableRow, TableSnapshot
from mnemo_store.disk import Disk
from mnemo_store.indexes import index_file
from mnemo_store.maintenance.check import CHECK_SLICE, TableSource, YieldToQueries, decode
from mnemo_store.tables import StoredMemory

T = TypeVar("T")


class ExpectedIndexes(NamedTuple):
    """The commit indexes as they should be."""

    files: dict[str, IndexFile]  # by name
    ids: dict[int, str]  # of the memories, by row id


def read_file(kind: type[CommitIndex], folder: Path) -> IndexFile:
    """The file of an index. Raises IndexMismatch."""
    return IndexFile(*index_file.load(folder / f"{kind.name}.view", kind.kind, mapped=True))


def as_files(indexes: Sequence[CommitIndex], folder: Path, disk: Disk) -> dict[str, IndexFile]:
    """Each as its file says it, by name; they are written to the folder."""
    for each in indexes:
        each.save(folder / f"{each.name}.view", {}, disk)
    return {each.name: read_file(type(each), folder) for each in indexes}


def expected_indexes(
    source: TableSource, folder: Path, disk: Disk, yield_to_queries: YieldToQueries
) -> ExpectedIndexes:
    """The commit indexes that the database gives now. A memory that cannot be read, or has no row id, is in none.

    Neighbours are not included: `AttributeIndex.verify` derives them from the other columns.
    """
    made, ids = tuple(kind() for kind in COMMIT_INDEXES), dict[int, str]()

    def read(at: TableSnapshot, number: int, stored: StoredMemory) -> TouchedMemory:
        memory_id = stored.memory.id
        return TouchedMemory(number, stored.memory, at.usage(memory_id))

    for rows in slices(source, read, yield_to_queries):
        ids |= {each.number: each.memory.id for each in rows if each.memory is not None}
        for each in made:
            each.add(rows)
    for each in made:
        each.finish(None)
    return ExpectedIndexes(as_files(made, folder, disk), ids)


def slices(
    source: TableSource, read: Callable[[TableSnapshot, int, StoredMemory], T], yield_to_queries: YieldToQueries
) -> Iterator[list[T]]:
    """The result of `read` for each memory that can be decoded and has a row id, a slice at a time, each in a
    snapshot of its own."""
    after: TableRow | None = None
    while True:
        found = []
        with source() as at:
            rows = at.rows("memories", after, CHECK_SLICE)
            for row in rows:
                with contextlib.suppress(ValueError):
                    stored = decode("memories", row)
                    number = at.number(stored.memory.id)
                    if number is not None:
                        found.append(read(at, number, stored))
        yield found
        if len(rows) < CHECK_SLICE:
            return
        after = rows[-1]
        yield_to_queries()
