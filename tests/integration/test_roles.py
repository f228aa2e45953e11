"""The roles of memories while others clear what was read, and while memories are added."""

from pathlib import Path

import pytest

from mnemo_core.ingest.memory_role import ROLES
from mnemo_daemon.memories.memory_columns import UNKNOWN, RoleReader
from mnemo_store.indexes.attributes import MemoryFilter
from tests.support.store_services import StoreServices, services_in

LONG = "Sara and Rui talked about the bakery, the new oven and who opens on Sundays."


def roles(services: StoreServices, reader: RoleReader, first: int | None = None) -> list[int]:
    columns = services.views.attributes
    rows = columns.uncached_mask(MemoryFilter(states=("active",), now=services.at)).nonzero()[0][:first]
    with services.store.snapshot() as snapshot:
        return list(map(int, reader.of(columns, rows, snapshot)))


@pytest.mark.parametrize("other", ["clears", "adds"])
def test_others_clear_and_add_while_roles_are_read(tmp_path: Path, other: str) -> None:
    with services_in(tmp_path) as services:
        services.add(LONG)
        services.add("Never open the oven door in the first ten minutes.")
        during = [other]

        def grow() -> None:
            for number in range(200):
                services.add(f"{LONG} {number}")
            roles(services, reader)

        def serving() -> None:
            if during:
                reader.clear() if during.pop() == "clears" else grow()

        reader = RoleReader(services.store, services.views, serving)
        first = roles(services, reader)
        assert len(first) == 2
        assert UNKNOWN not in first
        assert ROLES.index("instruction") in first
        assert roles(services, reader, 2) == first


def test_what_was_read_while_it_was_cleared_is_not_kept(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        services.add(LONG)
        read: list[str] = []

        def serving() -> None:
            read.append("a text")
            if len(read) == 1:
                reader.clear()

        reader = RoleReader(services.store, services.views, serving)
        roles(services, reader)
        roles(services, reader)
        assert len(read) == 2
        roles(services, reader)
        assert len(read) == 3  # called for no text
