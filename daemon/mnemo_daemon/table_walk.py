"""Walks over whole tables of the store: in slices with a snapshot each, so that none is held for long."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.records import Memory
from mnemo_store.store import Store
from mnemo_store.tables import Table


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_WithId)
S = TypeVar("S")
T = TypeVar("T")


def walk(
    store: Store,
    read: Callable[[Snapshot, str, int], Sequence[R]],
    shape: Callable[[Snapshot, Sequence[R]], T],
    size: int = READ_SLICE,
) -> Iterator[T]:
    """The result of `shape` for each slice of a table, under the snapshot in which `read` read the slice.

    read: the first records after an id, at most so many, in id order.
    """
    after = ""
    while True:
        with store.snapshot() as snapshot:
            records = read(snapshot, after, size)
            shaped = shape(snapshot, records)
        if records:
            yield shaped
        if len(records) < size:
            return
        after = records[-1].id


def walk_table(store: Store, table: Table[S], shape: Callable[[Snapshot, Sequence[S]], T]) -> Iterator[T]:
    """The result of `shape` for each slice of a table in the order of its primary keys, under a snapshot each."""
    after = b""
    while True:
        with store.snapshot() as snapshot:
            records = snapshot.scan(table, after)
            shaped = shape(snapshot, records)
        if records:
            yield shaped
        if len(records) < READ_SLICE:
            return
        after = table.key.of(records[-1])


def records_of(store: Store, table: Table[S]) -> Iterator[S]:
    """Every record of a table, in the order of its primary keys."""
    return itertools.chain.from_iterable(walk_table(store, table, lambda _, records: records))


def all_memories(store: Store) -> Iterator[Memory]:
    """Every current record, in id order."""
    for memories in walk(store, Snapshot.memories, lambda _, rows: rows):
        yield from memories
