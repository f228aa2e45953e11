"""Walks over whole tables of the store: in slices with a snapshot each, so that none is held for long; and cursors of
lists: the place of the last row of a page, as text, behind which the next page begins."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from mnemo_daemon.errors import Refusal, bad_value
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.records import Memory
from mnemo_store.store import Store
from mnemo_store.tables import Table

Place = tuple[int, str]  # what a list is ordered by, and the id of the row


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


def cursor_at(place: Place) -> str:
    """The cursor of a place."""
    number, row_id = place
    return f"{number}.{row_id}"


def place_at(cursor: str | None) -> Place | None:
    """The place of a cursor; None where there is none, for the first page. Raises a Refusal."""
    if not cursor:
        return None
    try:
        number, row_id = cursor.split(".")
        return int(number), row_id
    except ValueError:
        raise bad_cursor() from None


def bad_cursor() -> Refusal:
    """The refusal of an invalid cursor."""
    return bad_value("a cursor is what the page before gave as `cursor`", "cursor")
