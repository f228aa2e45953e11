"""Neighbours after any history are those that sorting gives. SPEC 7.3, 17.2"""

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import AttributeStore, session_links
from mnemo_store.records import Memory, State
from tests.support.samples import quick_folder, sample_memory

FILES = ("f", "g")


class PlacedMemory(NamedTuple):
    number: int
    session: str
    user: str
    namespace: str
    event_at: int
    managed: str
    state: State


class Drop(NamedTuple):
    number: int


class PlacedRecord(NamedTuple):
    """The record of a file is written: these are its chunks."""

    file: str
    chunks: list[int]


class Reload(NamedTuple):
    """The view is saved and loaded."""


Step = PlacedMemory | Drop | PlacedRecord | Reload
NUMBERS = st.integers(0, 9)
HISTORIES = st.lists(
    st.builds(
        PlacedMemory, NUMBERS, st.sampled_from(["s", "s", "t", ""]), st.sampled_from(["local", "local", "ann"]),
        st.sampled_from(["default", "p"]), st.integers(-1, 3), st.sampled_from(["", "", "", *FILES]),
        st.sampled_from(["active", "superseded", "trashed"]),
    )
    | st.builds(Drop, NUMBERS)
    | st.builds(PlacedRecord, st.sampled_from(FILES), st.lists(NUMBERS, max_size=8))
    | st.builds(Reload),
    max_size=40,
)  # fmt: skip


def memory_of(put: PlacedMemory) -> Memory:
    return sample_memory(
        put.number, session_id=put.session, user_id=put.user, namespace=put.namespace, event_at=put.event_at,
        managed=put.managed, state=put.state,
    )  # fmt: skip


def after(
    columns: AttributeStore,
    history: Iterable[Step],
    folder: Path,
    there: dict[int, PlacedMemory],
    records: dict[str, list[int]],
) -> AttributeStore:
    """The view behind a history. `there` and `records` become what there is by then: memories, and chunks by file.

    As the daemon does: what is put with a file has that file's record read.
    """
    for step in history:
        match step:
            case PlacedMemory(number=number, managed=managed):
                columns.put(number, memory_of(step), None)
                there[number] = step
                if managed:
                    columns.link_file(managed, records.get(managed, []))
            case Drop(number=number):
                columns.drop(number)
                there.pop(number, None)
            case PlacedRecord(file=file, chunks=chunks):
                columns.link_file(file, chunks)
                records[file] = chunks
            case Reload():
                columns.save(folder / "c.view", {}, Disk())
                columns, _ = AttributeStore.load(folder / "c.view")
    return columns


def expected(there: dict[int, PlacedMemory], records: dict[str, list[int]]) -> tuple[dict[int, int], dict[int, int]]:
    """(before, after) by number, of those who have one."""
    lists = [
        [number for number in dict.fromkeys(chunks) if number in there and there[number].managed == file]
        for file, chunks in records.items()
    ]
    sessions: dict[tuple[str, str, str], list[int]] = {}
    for put in sorted(there.values(), key=lambda put: (put.event_at, put.number)):
        if put.session and not put.managed:
            sessions.setdefault((put.user, put.namespace, put.session), []).append(put.number)
    pairs = [pair for each in (*lists, *sessions.values()) for pair in pairwise(each)]
    return {later: earlier for earlier, later in pairs}, dict(pairs)


def found(columns: AttributeStore) -> tuple[dict[int, int], dict[int, int]]:
    both = (columns.column(name) for name in ("before", "after"))
    befores, afters = ({n: int(value) for n, value in enumerate(column) if value != -1} for column in both)
    return befores, afters


def built(there: dict[int, PlacedMemory], records: dict[str, list[int]]) -> AttributeStore:
    """As after a loss of the view."""
    columns = AttributeStore(linked=False)
    for put in there.values():
        columns.put(put.number, memory_of(put), None)
    columns.link_sessions()
    for file, chunks in records.items():
        columns.link_file(file, chunks)
    return columns


@given(HISTORIES, HISTORIES)
@settings(max_examples=300, deadline=None)
def test_neighbours_after_any_history_are_those_of_the_sorted_lists(first: list[Step], second: list[Step]) -> None:
    there: dict[int, PlacedMemory] = {}
    records: dict[str, list[int]] = {}
    with quick_folder() as folder:
        columns = after(AttributeStore(), first, folder, there, records)
        assert found(columns) == expected(there, records)
        rebuilt = built(there, records)
        assert found(rebuilt) == found(columns)
        rebuilt = after(rebuilt, second, folder, dict(there), dict(records))
        columns = after(columns, second, folder, there, records)
        assert found(columns) == found(rebuilt) == expected(there, records)


@given(st.lists(st.integers(0, 30), min_size=150, max_size=250), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_a_long_session_that_comes_in_any_order_stands_in_the_order_of_its_times(
    times: list[int], chance: random.Random
) -> None:
    puts = [PlacedMemory(number, "s", "local", "default", at, "", "active") for number, at in enumerate(times)]
    shuffled = list(puts)
    chance.shuffle(shuffled)
    for order in (puts, sorted(puts, key=lambda put: -put.event_at), shuffled):
        columns = AttributeStore()
        for put in order:
            columns.put(put.number, memory_of(put), None)
        assert found(columns) == expected({put.number: put for put in puts}, {})
        arrays = {name: columns.column(name) for name in ("state", "managed", "session_id", "namespace", "user_id",
                                                          "event_at")}  # fmt: skip
        both = session_links(arrays)
        assert all(
            np.array_equal(links, columns.column(name)) for links, name in zip(both, ("before", "after"), strict=True)
        )
