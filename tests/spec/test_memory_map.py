"""The map of a store: when it is made, what stays where it is, and what must not be left on it. SPEC 10"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mnemo_client.protocol.knowledge import MapAnswer
from mnemo_daemon.errors import Refusal
from mnemo_daemon.knowledge import memory_map
from mnemo_daemon.knowledge.memory_map import POINTS_MIN, MapLayout, MapPages, MemoryMap
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import DropMemory
from tests.support.samples import WAIT_SECONDS, sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

WORDS = ("tomato garden", "sail harbour", "piano concert")


class NoTopics:
    """No topic has been made."""

    def leaves(self) -> list[None]:
        return []


class Maps:
    """A store with the service, whose job a test runs itself."""

    def __init__(self, services: StoreServices) -> None:
        self.services = services
        self.open()

    def open(self) -> None:
        self.map = MemoryMap(self.services.store, self.services.views, self.services.indexing, Disk())

    def run(self) -> None:
        """Has the job run until the map is up to date."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.map.is_current():
            assert time.monotonic() < deadline, "the map does not become current"
            if self.map.is_due():
                while self.map.run_slice():
                    pass

    def put(self, first: int, count: int) -> None:
        put(self.services, *(sample_memory(n, f"{WORDS[n % 3]} {n}") for n in range(first, first + count)))
        self.run()

    def layout(self) -> MapLayout:
        layout = self.map.layout
        assert layout is not None
        return layout

    def page(self, limit: int = 100, cursor: str | None = None, **fields: object) -> MapAnswer:
        topics: object = NoTopics()
        pages = MapPages(self.services.views, topics, self.map)  # type: ignore[arg-type]
        return pages.read(MemoryFilter(**fields), limit, cursor)  # type: ignore[arg-type]

    def points(self) -> dict[str, tuple[float, float]]:
        found = self.page()
        return dict(zip(found.ids, zip(found.x, found.y, strict=True), strict=True))


@pytest.fixture
def maps(tmp_path: Path) -> Iterator[Maps]:
    with simulated_services_in(tmp_path, has_model=True) as services:
        yield Maps(services)


def test_there_is_no_map_of_few_memories(maps: Maps) -> None:
    maps.put(1, POINTS_MIN - 1)
    found = maps.page()
    assert (found.state, found.total, found.layout) == ("absent", 0, None)
    assert found.reason == f"a map needs {POINTS_MIN} memories with vectors; there are {POINTS_MIN - 1}"


def test_memories_that_come_later_are_placed_and_nothing_else_moves(maps: Maps) -> None:
    maps.put(1, 30)
    layout, before = maps.layout().id, maps.points()
    assert len(before) == 30
    maps.put(31, 9)
    after = maps.points()
    assert {each: after[each] for each in before} == before
    assert (maps.layout().id, len(after)) == (layout, 39)
    (x, y), alike = after[sample_id(33)], np.array([after[sample_id(number)] for number in range(3, 31, 3)])
    others = np.array([after[sample_id(number)] for number in range(1, 31) if number % 3])
    assert np.hypot(*(alike - (x, y)).T).min() < np.hypot(*(others - (x, y)).T).min()


def test_a_new_layout_is_made_when_there_are_twice_as_many(maps: Maps) -> None:
    maps.put(1, 12)
    first = maps.layout().id
    maps.put(13, 11)
    assert maps.layout().id == first
    maps.put(24, 1)
    assert (maps.layout().id != first, maps.layout().made_for) == (True, 24)


def test_a_text_that_is_changed_is_placed_again(maps: Maps) -> None:
    maps.put(1, 30)
    before = maps.points()
    maps.services.edit(sample_id(1), content="tomato garden bench")
    put(maps.services)
    maps.run()
    after = maps.points()
    assert {each for each in before if before[each] != after[each]} == {sample_id(1)}


def test_what_is_in_the_trash_is_not_shown_and_comes_back_to_its_place(maps: Maps) -> None:
    maps.put(1, 12)
    before = maps.points()
    maps.services.trash(sample_id(3))
    maps.run()
    assert maps.points() == {each: at for each, at in before.items() if each != sample_id(3)}
    maps.services.restore(sample_id(3))
    maps.run()
    assert maps.points() == before


def test_a_map_survives_a_restart_and_a_file_that_is_gone_is_made_again(maps: Maps, tmp_path: Path) -> None:
    maps.put(1, 12)
    layout, before = maps.layout().id, maps.points()
    maps.open()
    assert (maps.layout().id, maps.points()) == (layout, before)
    (tmp_path / "views" / memory_map.FILE).write_bytes(b"x")
    maps.open()
    assert maps.map.layout is None
    maps.run()
    assert len(maps.points()) == 12


def test_erased_memories_leave_map_and_file(maps: Maps, tmp_path: Path) -> None:
    maps.put(1, 12)
    digest = maps.layout().digests[maps.layout().rows.tolist().index(row_of(maps, 1))]
    file = tmp_path / "views" / memory_map.FILE
    assert digest.tobytes() in file.read_bytes()
    write(maps.services.store, DropMemory(id=sample_id(1)))
    maps.map.remove_deleted()
    assert digest.tobytes() not in file.read_bytes()
    assert len(maps.layout().rows) == 11
    maps.run()
    assert sample_id(1) not in maps.points()


def row_of(maps: Maps, number: int) -> int:
    with maps.services.store.snapshot() as snapshot:
        row = snapshot.number(sample_id(number))
    assert row is not None
    return row


def test_a_layout_that_was_begun_before_an_erasure_is_not_used(maps: Maps) -> None:
    put(maps.services, *(sample_memory(number, f"{WORDS[number % 3]} {number}") for number in range(1, 13)))
    work = maps.map._update()
    next(work)
    found = maps.page()
    assert (found.state, found.share is not None) == ("computing", True)
    write(maps.services.store, DropMemory(id=sample_id(1)))
    maps.map.remove_deleted()
    for _ in work:
        pass
    assert maps.map.layout is None
    maps.run()
    assert len(maps.points()) == 11


def test_pages_have_the_points_of_the_filter_and_a_cursor_holds_for_one_layout(maps: Maps) -> None:
    maps.put(1, 12)
    write(maps.services.store, sample_memory(50, "tomato garden", namespace="other"))
    found, cursor = list[str](), None
    for _ in range(3):
        page = maps.page(5, cursor, namespaces=("default",))
        assert (page.total, page.topic) == (12, [-1] * len(page.ids))
        assert {page.sources[at] for at in page.source} == {"api"}
        assert {page.layers[at] for at in page.layer} == {"buffer"}
        found += page.ids
        cursor = page.cursor
    assert (sorted(found), cursor) == (sorted(sample_id(number) for number in range(1, 13)), None)
    old = maps.page(5).cursor
    maps.put(13, 12)
    with pytest.raises(Refusal, match="another layout by now"):
        maps.page(5, old)
