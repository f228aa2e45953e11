"""The vector index and the token rows against the vectors that the database keeps for each text. SPEC 3.1, 17.2."""

from collections.abc import Iterator

import numpy as np

from mnemo_daemon.indexing.index import IndexFault, is_indexed
from mnemo_daemon.indexing.view_checks import slices
from mnemo_daemon.models.embedders.token_rows import LateForm
from mnemo_store.database.table_access import TableSnapshot
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.maintenance.check import TableSource, YieldToQueries
from mnemo_store.records import Memory, embedded_text, text_hash
from mnemo_store.tables import StoredMemory


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
    return "" if np.array_equal(kept, have) else "the vector index has other vectors of it"


def token_faults(
    form: LateForm, source: TableSource, applied: int, yield_to_queries: YieldToQueries
) -> Iterator[IndexFault]:
    """Memories whose text has no usable token rows, as of the change `applied`."""

    def read(at: TableSnapshot, number: int, stored: StoredMemory) -> IndexFault | None:
        if stored.seq > applied or not is_indexed(stored.memory):
            return None
        (rows,) = at.token_rows(form.space, [text_hash(embedded_text(stored.memory))], form.dimensions)
        return None if rows is not None else IndexFault(number, stored.memory.id, "no token rows are kept for its text")

    for found in slices(source, read, yield_to_queries):
        yield from filter(None, found)
