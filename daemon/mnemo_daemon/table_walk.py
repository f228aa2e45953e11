"""Walks over whole tables of the store: in slices with a snapshot each, so that none is held for long; and cursors of
lists: the place of the last row of a page, as text, behind which the next page begins."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from mnemo_daemon.errors import Refusal, bad_value
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.records import Memory
from mnemo_store.store import Store
from mnemo_store.tables import MEMORIES, Table

Place = tuple[int, str]  # what a list is ordered by, and the id of the row


S = TypeVar("S")
T = TypeVar("T")


def walk_table(
    store: Store, table: Table[S], shape: Callable[[Snapshot, Sequence[S]], T], size: int = READ_SLICE
) -> Iterator[T]:
    """The result of `shape` for each slice of a table in the order of its primary keys, under a snapshot each."""
    after = b""
    while True:
        with store.snapshot() as snapshot:
            records = snapshot.scan(table, after, size)
            shaped = shape(snapshot, records)
        if records:
            yield shaped
        if len(records) < size:
            return
        after = table.key.of(records[-1])


def records_of(store: Store, table: Table[S]) -> Iterator[S]:
    """Every record of a table, in the order of its primary keys."""
    return itertools.chain.from_iterable(walk_table(store, table, lambda _, records: records))


def all_memories(store: Store) -> Iterator[Memory]:
    """Every current record, in id order."""
    return (stored.memory for stored in records_of(store, MEMORIES))


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


def page_behind(
    rows: Sequence[S], place: Callable[[S], Place], cursor: str | None, limit: int, *, is_descending: bool = False
) -> tuple[Sequence[S], str | None]:
    """The rows behind a cursor, at most `limit`, of rows in the order of their places; and the cursor of what follows,
    None at the end. Raises a Refusal."""
    after = place_at(cursor)
    behind = [row for row in rows if after is None or (place(row) < after if is_descending else place(row) > after)]
    page = behind[:limit]
    return page, cursor_at(place(page[-1])) if len(behind) > len(page) else None


def bad_cursor() -> Refusal:
    """The refusal of an invalid cursor."""
    return bad_value("a cursor is what the page before gave as `cursor`", "cursor")
