"""The roles of memories while others clear what was read, and while memories are added."""

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import mnemo_core
from mnemo_core.ingest.memory_role import DIMENSIONS, ROLES
from mnemo_core.similarity.thresholds import DEFAULT_MODEL
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.memories.memory_columns import FILE_KIND, UNKNOWN, WAITED_FOR, RoleReader
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.indexes.vectors import VectorIndex
from tests.support.store_services import StoreServices, services_in

WEIGHTS = "roles-4", 27_810_852  # the kind of the file, and the checksum of the weights that its roles are of
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
        assert ROLES.index("rule") in first
        assert roles(services, reader, 2) == first


def test_what_was_read_while_it_was_cleared_is_not_kept(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        services.add(LONG)
        read: list[str] = []

        def serving() -> None:
            read.append("a text")
            if len(read) == 2:  # while the text is read; at first it is looked whether there are vectors
                reader.clear()

        reader = RoleReader(services.store, services.views, serving)
        roles(services, reader)
        roles(services, reader)
        assert len(read) == 4
        roles(services, reader)
        assert len(read) == 5  # called for no text


def test_roles_are_kept_from_one_run_to_the_next_until_something_is_erased(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        for number in range(WAITED_FOR + 5):
            services.add(f"My locker has the number {number}.")
        reader = RoleReader(services.store, services.views, lambda: None)
        assert roles(services, reader).count(UNKNOWN) == 5
        while reader.run_slice():
            pass
        whole = roles(services, reader)
        reader.save(Disk())
        again = RoleReader(services.store, services.views, lambda: None)
        assert roles(services, again) == whole
        assert UNKNOWN not in whole
        again.clear()
        assert not list((tmp_path / "views").glob("roles*"))
        after = RoleReader(services.store, services.views, lambda: None)
        assert roles(services, after).count(UNKNOWN) == 5


def test_a_role_without_its_vector_holds_until_it_is_read_with_it(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        for number in range(2 * WAITED_FOR):
            services.add(f"My locker has the number {number}.")
        present: list[ActiveIndex] = []
        reader = RoleReader(services.store, services.views, lambda: present[0] if present else None)
        while reader.run_slice():
            pass
        before = roles(services, reader)
        view = VectorIndex(DIMENSIONS, "space")
        for number in range(2 * WAITED_FOR + 1):
            view.put(number, np.full((1, DIMENSIONS), DIMENSIONS**-0.5, np.float32))
        present.append(cast(ActiveIndex, SimpleNamespace(embedder=SimpleNamespace(name=DEFAULT_MODEL), view=view)))
        assert UNKNOWN not in before
        assert UNKNOWN not in roles(services, reader)
        assert not reader.run_slice()
        assert reader._cache.by_vector.sum() == 2 * WAITED_FOR


def test_new_weights_need_another_kind_of_file() -> None:
    """Roles that were read with other weights would stay in the file for as long as their texts do."""
    weights = Path(mnemo_core.__file__ or "").with_name("text") / "lexicon" / "roles.txt"
    assert (FILE_KIND, zlib.crc32(weights.read_bytes())) == WEIGHTS
