"""Comparison of the indexes with the database. SPEC 3.1, 17.2.

Commit indexes are compared as files, so that one comparison serves for an index in memory and for one on the disk: each
with one that was rebuilt from the database. The vector index and the token rows are compared with the vectors that the
database keeps for each text.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES
from mnemo_daemon.indexing.index import CommitIndex, IndexFault, IndexFile, is_indexed
from mnemo_daemon.models.embedders.token_rows import LateForm
from mnemo_store.backend import TouchedMemory
from mnemo_store.database.table_access import TableRow, TableSnapshot
from mnemo_store.disk import Disk
from mnemo_store.indexes import index_file
from mnemo_store.indexes.vector_kernels import BadVector, as_kept
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.maintenance.check import CHECK_SLICE, TableSource, YieldToQueries, decode
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import Memory
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


def vector_faults(
    view: VectorIndex, source: TableSource, applied: int, yield_to_queries: YieldToQueries, *, has_strays: bool = True
) -> Iterator[IndexFault]:
    """Memories whose vectors are not those that are kept for their texts, as of the change `applied`; and, with
    `has_strays`, vectors that belong to no memory that is searched."""
    expected: set[int] = set()

    def read(at: TableSnapshot, number: int, stored: StoredMemory) -> IndexFault | None:
        if stored.seq > applied:
            expected.add(number)  # the view may have it already, or not yet
        elif is_indexed(stored.memory):
            expected.add(number)
            what = _vector_fault(view, at, number, stored.memory)
            return IndexFault(number, stored.memory.id, what) if what else None
        return None

    for found in slices(source, read, yield_to_queries):
        yield from filter(None, found)
    if not has_strays:
        return
    for number in view.numbers().tolist():
        if number not in expected:
            with source() as at:
                memory_id = at.id_of(number) or ""
            yield IndexFault(number, memory_id, "the vector index has it, and should not")


def _vector_fault(view: VectorIndex, at: TableSnapshot, number: int, memory: Memory) -> str:
    try:
        kept = at.vectors(view.space, text_hash(embedded_text(memory)), view.dimensions)
    except ValueError:
        return "the vectors that are kept for its text are of other dimensions"
    have = view.vectors_of(number)
    if have is None:
        return "the vector index does not have it"
    if kept is None:
        return "no vectors are kept for its text"
    try:
        return "" if np.array_equal(as_kept(kept), have) else "the vector index has other vectors of it"
    except BadVector as error:
        return f"the vectors that are kept for its text cannot be compared: {error}"


def token_faults(
    form: LateForm, source: TableSource, applied: int, yield_to_queries: YieldToQueries
) -> Iterator[IndexFault]:
    """Memories whose text has no usable token rows, as of the change `applied`."""

    def read(at: TableSnapshot, number: int, stored: StoredMemory) -> IndexFault | None:
        if stored.seq > applied or not is_indexed(stored.memory):
            return None
        (rows,) = at.token_rows(form.space, [text_hash(embedded_text(stored.memory))], form.stored_width)
        return None if rows is not None else IndexFault(number, stored.memory.id, "no token rows are kept for its text")

    for found in slices(source, read, yield_to_queries):
        yield from filter(None, found)
