"""Neighbours in a session and in a note, from the attribute store. SPEC 7.2, 7.3"""

import random
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemo_core.text import text_features
from mnemo_core.text.text_features import TextFeature
from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES, AttributeIndex
from mnemo_daemon.indexing.index import CommitIndex, position_of
from mnemo_daemon.indexing.index_checks import as_files
from mnemo_daemon.indexing.views import Indexes, Views
from mnemo_store.disk import Disk
from mnemo_store.indexes import index_file
from mnemo_store.indexes.attributes import KIND, WORDS_MAX, AttributeStore
from mnemo_store.indexes.lexical import LexicalIndex
from mnemo_store.records import Change, ChunkRef, DropMemory, DropNote, Memory, NoteFile, PutMemory, PutNote
from mnemo_store.store import Store
from tests.support.samples import quick_folder, remember, sample_id, sample_memory, write

EMPTY = LexicalIndex()


def columns_of(*rows: dict[str, Any]) -> AttributeStore:
    columns = AttributeStore()
    for number, fields in enumerate(rows):
        columns.put(number, sample_memory(number, **fields), None)
    return columns


def links(columns: AttributeStore) -> tuple[list[int], list[int]]:
    return columns.column("before").tolist(), columns.column("after").tolist()


def said(at: int, session: str = "s", **fields: Any) -> dict[str, Any]:
    return {"event_at": at, "session_id": session, **fields}


def test_a_session_is_in_the_order_of_its_times_and_then_of_its_numbers() -> None:
    columns = columns_of(said(5), said(7), said(5), said(6), said(4))  # 4 at 4, 0 and 2 at 5, 3 at 6, 1 at 7
    assert links(columns) == ([4, 3, 0, 2, -1], [2, -1, 3, 1, 0])


def test_another_user_namespace_or_session_is_another_list_and_no_session_is_none() -> None:
    columns = columns_of(said(1), said(2, "t"), said(3, user_id="ann"), said(4, namespace="p"), said(5, ""), said(6))
    assert links(columns) == ([-1, -1, -1, -1, -1, 0], [5, -1, -1, -1, -1, -1])


@pytest.mark.parametrize("state", ["superseded", "trashed", "discarded", "compressed"])
def test_hidden_memories_keep_their_place_and_removed_ones_make_their_neighbours_adjacent(state: str) -> None:
    columns = columns_of(said(1), said(2), said(3))
    columns.put(1, sample_memory(1, state=state, **said(2)), None)
    assert links(columns) == ([-1, 0, 1], [1, 2, -1])
    columns.drop(1)
    assert links(columns) == ([-1, -1, 0], [2, -1, -1])
    columns.drop(0)
    columns.drop(2)
    columns.put(3, sample_memory(3, **said(0)), None)
    assert links(columns) == ([-1, -1, -1, -1], [-1, -1, -1, -1])


def test_a_memory_that_comes_to_another_time_or_session_stands_there() -> None:
    columns = columns_of(said(1), said(2), said(3), said(9, "t"))
    columns.put(0, sample_memory(0, **said(4)), None)  # 1, 2, 0
    assert links(columns) == ([2, -1, 1, -1], [-1, 2, 0, -1])
    columns.put(2, sample_memory(2, **said(3, "t")), None)  # 1, 0 and 2, 3
    assert links(columns) == ([1, -1, -1, 2], [-1, 0, 3, -1])
    columns.put(2, sample_memory(2, **said(3, "")), None)
    assert links(columns) == ([1, -1, -1, -1], [-1, 0, -1, -1])


def test_chunks_stand_in_the_order_of_their_file_and_who_is_not_in_it_by_itself() -> None:
    chunk = {"managed": "f", "session_id": "s"}
    columns = columns_of(chunk, chunk, chunk, {"managed": "g"}, said(1), said(2))
    assert links(columns) == ([-1, -1, -1, -1, -1, 4], [-1, -1, -1, -1, 5, -1])
    columns.link_file("f", [2, 0, 1, 3, 77, 2])
    assert links(columns) == ([2, 0, -1, -1, -1, 4], [1, -1, 0, -1, 5, -1])
    columns.link_file("f", [1, 2])
    assert links(columns) == ([-1, -1, 1, -1, -1, 4], [-1, 2, -1, -1, 5, -1])
    columns.put(2, sample_memory(2, managed="g"), None)
    columns.link_file("g", [3, 2])
    assert links(columns) == ([-1, -1, 3, -1, -1, 4], [-1, -1, -1, 2, 5, -1])
    columns.put(3, sample_memory(3, **said(0)), None)  # it is no chunk any more
    assert links(columns) == ([-1, -1, -1, -1, 3, 4], [-1, -1, -1, 4, 5, -1])
    columns.link_file("h", [0, 1])
    columns.link_file("g", [])
    assert links(columns) == ([-1, -1, -1, -1, 3, 4], [-1, -1, -1, 4, 5, -1])


def test_a_text_has_its_shape_and_its_words_counted() -> None:
    columns = AttributeStore()
    columns.put(0, sample_memory(0, "three  words\nhere"), None, 5)
    columns.put(1, sample_memory(1, "w " * 5), None)
    assert columns.column("shape").tolist() == [5, 0]
    assert columns.column("words").tolist() == [3, 5]
    assert np.iinfo(columns.column("words").dtype).max == WORDS_MAX


# In a store


def opened(store: Store) -> Views:
    views = Views(store, Disk())
    views.open()
    return views


def chunk(number: int, file: str, **fields: Any) -> PutMemory:
    return PutMemory(data=sample_memory(number, managed=sample_id(file_number(file)), **fields))


def file_number(name: str) -> int:
    return 1000 + ord(name)


def note(file: str, *numbers: int) -> PutNote:
    refs = tuple(ChunkRef(sample_id(number), "", 1, 1) for number in numbers)
    return PutNote(data=NoteFile(id=sample_id(file_number(file)), root=sample_id(999), path=f"{file}.md", chunks=refs))


def test_views_keep_up_with_sessions_notes_and_shapes(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        remember(store, 0, "Where is the boat?", **said(1))
        remember(store, 1, "In the harbour", **said(2))
        write(store, chunk(2, "f"), chunk(3, "f"), note("f", 3, 2))
        assert links(views.attributes) == ([-1, 0, 3, -1], [1, -1, -1, 2])
        write(store, chunk(3, "f", content="changed"), note("f", 2, 3))
        assert links(views.attributes) == ([-1, 0, -1, 2], [1, -1, 3, -1])
        expected = (
            TextFeature.HAS_QUESTION | TextFeature.ENDS_WITH_QUESTION | TextFeature.IS_SHORT | TextFeature.IS_QUESTION
        )
        assert views.attributes.column("shape")[:2].tolist() == [expected, TextFeature.IS_SHORT]
        write(store, DropMemory(id=sample_id(2)), DropMemory(id=sample_id(1)), note("f", 3))
        assert links(views.attributes) == ([-1, -1, -1, -1], [-1, -1, -1, -1])


def rebuilt(store: Store) -> AttributeStore:
    for path in (store.folder / "views").glob("*.view"):
        path.unlink()
    views = Views(store, Disk())
    views.open()
    return views.attributes


def a_change(chance: random.Random, there: dict[int, Memory], records: dict[str, list[int]]) -> list[Change]:
    """Some memory is put, moved or dropped, or the chunks of a file are others; each with the record it belongs to."""
    number = chance.randrange(14)
    if chance.random() < 0.2 and number in there:
        gone = there.pop(number)
        changes: list[Change] = [DropMemory(id=sample_id(number))]
        files = [file for file in records if gone.managed == sample_id(file_number(file))]
        for file in files:
            records[file] = [each for each in records[file] if each != number]
            changes.append(note(file, *records[file]))
        return changes
    if number < 5:
        file = chance.choice("fg")
        put = chunk(number, file, content=f"version {chance.random()}")
        there[number] = put.data
        for each, listed in records.items():
            records[each] = [other for other in listed if other != number]
        records[file].insert(chance.randrange(len(records[file]) + 1), number)
        return [put, *(note(each, *listed) for each, listed in records.items())]
    memory = sample_memory(
        number, session_id=chance.choice(["s", "s", "t", ""]), event_at=chance.randrange(4),
        state=chance.choice(["active", "superseded", "trashed"]),
    )  # fmt: skip
    there[number] = memory
    return [PutMemory(data=memory)]


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_are_the_same_when_grown_rebuilt_loaded_or_computed(seed: int) -> None:
    chance, there = random.Random(seed), dict[int, Memory]()
    records: dict[str, list[int]] = {"f": [], "g": []}
    with quick_folder() as folder, closing(Store.open(folder / "data")) as store:
        views = opened(store)
        for step in range(60):
            write(store, *a_change(chance, there, records))
            if step % 20 == 13:
                views.save()
            if step % 20 == 17:
                views = opened(store)  # what was saved, and what came since
                assert views.rebuilt == []
        with store.snapshot() as snapshot:
            numbers = {number: snapshot.number(sample_id(number)) for number in there}
        lists = [
            [number for number in listed if there[number].managed == sample_id(file_number(file))]
            for file, listed in records.items()
        ]
        talks = sorted(there.values(), key=lambda memory: (memory.event_at, numbers[int(memory.id[-12:], 16)]))
        lists += [[int(each.id[-12:], 16) for each in talks if each.session_id == session] for session in ("s", "t")]
        pairs = {numbers[one]: numbers[other] for each in lists for one, other in pairwise(each)}
        befores, afters = links(views.attributes)
        assert {number: value for number, value in enumerate(afters) if value != -1} == pairs
        assert {value: number for number, value in enumerate(befores) if value != -1} == pairs
        again = links(rebuilt(store))
        assert [side[: len(again[0])] for side in (befores, afters)] == list(again)


def test_chunks_of_a_note_without_a_record_leave_one_by_one(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        write(store, chunk(0, "f"), chunk(1, "f"), note("f", 0, 1))
        write(store, chunk(0, "f", content="still here"), DropNote(id=sample_id(file_number("f"))))
        assert links(views.attributes) == ([-1, -1], [-1, -1])


def test_memories_written_while_indexes_are_rebuilt_have_their_neighbours(tmp_path: Path) -> None:
    class OvertakenColumns(Views):
        def _build(self, kinds: Sequence[type[CommitIndex]] = COMMIT_INDEXES) -> Indexes:
            built = super()._build(kinds)
            remember(store, 2, **said(2))
            write(store, chunk(5, "f"), note("f", 5, 4))
            return built

    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 1, **said(1))
        remember(store, 3, **said(3))
        write(store, chunk(4, "f"), note("f", 4))
        opened(store).save()
        views = OvertakenColumns(store, Disk())
        views.open()
        views.rebuild()
        # Numbers: 0 is said at 1, 1 at 3, 3 at 2; 2 and 4 are chunks.
        assert links(views.attributes) == ([-1, 3, 4, 0, -1], [3, -1, -1, 1, 2])


def test_an_index_file_of_the_format_without_neighbours_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "data/views/columns.view"
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 0, **said(1))
        remember(store, 1, **said(2))
        opened(store).save()
        meta, arrays = index_file.load(path, KIND)
        older = {name: array for name, array in arrays.items() if name not in ("before", "after", "shape", "words")}
        index_file.save(path, "columns-1", meta, older, Disk())
        views = opened(store)
        assert views.rebuilt == ["columns.view is not a complete index file of kind columns-6"]
        assert links(views.attributes) == ([-1, 0], [1, -1])


def test_forms_that_were_read_by_older_rules_are_read_again(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 0, "Why?")
        views = opened(store)
        views.save()
        assert opened(store).rebuilt == []
        views.attributes.save(
            tmp_path / "data/views/columns.view", position_of(store, store.seq) | {"shapes": 0}, Disk()
        )
        assert opened(store).rebuilt == ["columns.view was made under other rules for shapes: 0"]
    assert text_features.RULES_VERSION > 0


def test_columns_of_another_time_zone_are_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times that texts name are local ones."""
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 0, **said(1))
        opened(store).save()
        assert opened(store).rebuilt == []
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        rebuilt = opened(store).rebuilt
        monkeypatch.undo()
        time.tzset()
        assert "other rules for shapes" in rebuilt[0]


@pytest.mark.parametrize(
    ("name", "number", "value", "wrong"),
    [
        ("before", 1, -1, {1: "before"}),
        ("after", 0, 2, {0: "after"}),
        ("before", 3, 0, {3: "before"}),
        ("after", 3, 99, {3: "after"}),
        ("event_at", 0, 9, {0: "before, after", 1: "before", 2: "after"}),
        ("after", 4, 3, {4: "after", 5: "before"}),
        ("before", 5, -1, {4: "after"}),
        ("before", 5, 0, {5: "before", 4: "after"}),
    ],
)
def test_a_neighbour_that_cannot_be_is_found_by_a_check(
    tmp_path: Path, name: str, number: int, value: int, wrong: dict[int, str]
) -> None:
    """0, 1, 2 are a session, 3 is by itself, 4 and 5 are a note."""
    columns = columns_of(said(1), said(2), said(3), {}, {"managed": "f"}, {"managed": "f"})
    columns.link_file("f", [4, 5])
    truth = as_files([AttributeIndex(columns)], tmp_path, Disk())["columns"]
    assert AttributeIndex.verify(truth, truth) == {}
    columns._arrays[name][number] = value
    live = as_files([AttributeIndex(columns)], tmp_path, Disk())["columns"]
    found = AttributeIndex.verify(live, truth)
    if name == "event_at":
        found[number] = found[number].replace("event_at, ", "")
    assert found == {each: f"the columns have another {what}" for each, what in wrong.items()}
