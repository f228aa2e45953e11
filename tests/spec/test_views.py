"""Seqs in index files, and the cases in which they are not trusted. SPEC 3.1, 3.5."""

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import numpy as np
import pytest
from msgspec.structs import replace

from mnemo_core.ingest.attributes.attribute_claims import claim_keys
from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES
from mnemo_daemon.indexing.index import CommitIndex, Snapshots, position_of
from mnemo_daemon.indexing.views import Indexes, Views
from mnemo_store.backend import TouchedMemory
from mnemo_store.codec import id_key
from mnemo_store.database.table_access import TableRow
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import DropMemory
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store
from tests.support.erasure_services import wait_until
from tests.support.faulty_disk import FaultyDisk
from tests.support.samples import AT, WAIT_SECONDS, remember, sample_id, sample_memory, write

T = TypeVar("T")


def opened(store: Store) -> Views:
    views = Views(store, Disk())
    views.open()
    return views


def found(views: Views, word: str) -> int:
    return len(views.lexical.search(word, 10, views.attributes.mask(MemoryFilter())).numbers)


def a_store_of_one_memory(folder: Path) -> None:
    with closing(Store.open(folder)) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        opened(store).save()


def test_views_are_taken_as_they_were_saved(tmp_path: Path) -> None:
    a_store_of_one_memory(tmp_path / "data")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        assert views.rebuilt == []
        assert found(views, "harbour") == 1


def test_a_version_with_the_same_text_is_not_read_again(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        first = sample_memory(1, content="A rowing boat lies in the harbour on Mondays.")
        write(store, first)
        views.attributes.set_tokens(0, 11, first.modified_at)
        before = [each.tolist() for each in views.attributes.columns("shape", "words", "weekdays")]
        write(store, replace(first, importance=0.875, modified_at=AT + 1, version=2))
        assert views.attributes.tokens_of(0) == 11, "counted once"
        assert views.attributes.column("importance").tolist() == [0.875]
        assert [each.tolist() for each in views.attributes.columns("shape", "words", "weekdays")] == before
        write(store, replace(first, content="A windmill stands on the hill.", modified_at=AT + 2, version=3))
        assert views.attributes.tokens_of(0) == 0
        assert [found(views, word) for word in ("harbour", "windmill")] == [0, 1]
        write(store, replace(first, content="A windmill stands on the hill.", tags=("quern",), version=4))
        assert found(views, "quern") == 1
        for state, count in (("trashed", 0), ("active", 1)):
            write(store, replace(first, content="A windmill stands on the hill.", state=state, version=5))
            assert found(views, "windmill") == count


def test_a_text_that_only_one_index_was_saved_with_is_caught_up_in_the_other(tmp_path: Path) -> None:
    a_store_of_one_memory(tmp_path / "data")
    words = tmp_path / "data" / "views" / "words.view"
    shutil.copyfile(words, tmp_path / "words")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        write(store, sample_memory(1, content="A windmill stands on the hill.", version=2))
        views.save()
    shutil.copyfile(tmp_path / "words", words)
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        assert views.rebuilt == []
        assert [found(views, word) for word in ("harbour", "windmill")] == [0, 1]


def test_claims_are_found_whenever_they_were_read_and_read_again_under_other_rules(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        remember(store, 1, "I live in Lisbon.")
        holding = [views.lexical.numbers_with_marks(claim_keys("I live in Porto.", "")).tolist()]
        views.save()
        views = opened(store)
        assert views.rebuilt == []
        holding.append(views.lexical.numbers_with_marks(claim_keys("I live in Porto.", "")).tolist())
        views.lexical.save(tmp_path / "data/views/words.view", position_of(store, store.seq), Disk())
        views = opened(store)
        assert views.rebuilt == ["words.view was made under other rules for claims: None"]
        holding.append(views.lexical.numbers_with_marks(claim_keys("I live in Porto.", "")).tolist())
        assert holding == [[0]] * 3


def test_a_view_with_a_lost_change_is_rebuilt_although_its_seq_is_right(tmp_path: Path) -> None:
    """A power loss undoes a change that was never acknowledged, and another change gets its number."""
    a_store_of_one_memory(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "before")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        remember(store, 2, "Lost with the power: a lighthouse.")
        views.save()
    with closing(Store.open(tmp_path / "before")) as store:
        remember(store, 3, "Said afterwards: a windmill.")
    shutil.rmtree(tmp_path / "before" / "views")
    shutil.copytree(tmp_path / "data" / "views", tmp_path / "before" / "views")
    # The store's own name is in the file too, and is the same in both.
    with closing(Store.open(tmp_path / "before")) as store:
        views = opened(store)
        assert [found(views, word) for word in ("harbour", "lighthouse", "windmill")] == [1, 0, 1]
        assert views.rebuilt == ["a view's file has another change 2 than the store"]


def exchange_numbers(supervisor: StateSupervisor) -> None:
    """Memory 1 has the number of memory 2 from here on, and the other way round."""
    numbers = {sample_id(1): (1).to_bytes(4, "big"), sample_id(2): (0).to_bytes(4, "big")}
    database = supervisor.database()
    for memory_id, number in numbers.items():
        rows = {"numbers": TableRow(id_key(memory_id), number), "owners": TableRow(number, id_key(memory_id))}
        for table, row in rows.items():
            database.write(AT, lambda writing, table=table, row=row: writing.put_row(table, row))  # type: ignore[misc]
    supervisor.report_row_ids_reset()


class OvertakenViews(Views):
    """Indexes whose memories get other numbers after the first build."""

    builds = 0

    def _build(self, kinds: Sequence[type[CommitIndex]] = COMMIT_INDEXES) -> Indexes:
        built = super()._build(kinds)
        self.builds += 1
        if self.builds == 1:
            self._store.run_exclusively(exchange_numbers).result(WAIT_SECONDS)
        return built


@pytest.mark.parametrize("how", ["rebuild", "rebuild_without_deleted"])
def test_a_view_built_while_memories_got_other_numbers_is_rebuilt(tmp_path: Path, how: str) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        remember(store, 2, "A windmill stands on the hill.")
        opened(store).save()
        views = OvertakenViews(store, Disk())
        views.open()
        views.state = "stale"
        getattr(views, how)()
        assert (views.state, views.reason, views.builds) == ("ready", "", 2)
        numbers = views.lexical.search("windmill", 10, views.attributes.mask(MemoryFilter())).numbers
        assert views.attributes.ids(numbers) == [sample_id(2)]
        with store.snapshot() as snapshot:
            assert numbers.tolist() == [snapshot.number(sample_id(2))] == [0]


class SteppedViews(Views):
    """Indexes that report each step of a commit and of a replacement, as the thread that takes it."""

    def __init__(self, store: Store, on_step: Callable[[str], None]) -> None:
        super().__init__(store, Disk())
        self.has_asked = threading.Event()  # for the writer's turn
        self._on_step = on_step
        self._kinds = tuple(stepped(kind, on_step) for kind in COMMIT_INDEXES)

    def _run_on_writer(self, act: Callable[[], T]) -> T:
        self.has_asked.set()
        return super()._run_on_writer(act)

    def _without_dropped(self) -> Indexes:
        made = super()._without_dropped()
        self._on_step("copied")
        return made

    def _build(self, kinds: Sequence[type[CommitIndex]] = ()) -> Indexes:
        made = super()._build(kinds or self._kinds)
        self._on_step("built")
        return made


def stepped(kind: type[CommitIndex], on_step: Callable[[str], None]) -> type[CommitIndex]:
    class SteppedIndex(kind):  # type: ignore[misc, valid-type]
        def apply(self, snapshots: Snapshots, touched: Sequence[TouchedMemory]) -> None:
            on_step(f"before {kind.name}")
            super().apply(snapshots, touched)
            on_step(f"after {kind.name}")

        def copied(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> CommitIndex | None:
            copy = super().copied(path, meta, disk)
            on_step(f"copied {kind.name}")
            return copy  # type: ignore[no-any-return]

    return SteppedIndex


STEPS_OF_COMMIT = [f"{when} {kind.name}" for kind in COMMIT_INDEXES for when in ("before", "after")]
STEPS = [
    *((how, step) for how in ("rebuild", "rebuild_without_deleted") for step in STEPS_OF_COMMIT),
    ("rebuild", "built"),
    *(("rebuild_without_deleted", step) for step in ("copied words", "built", "copied")),
]


def holds_all(views: Views, store: Store) -> bool:
    """Return whether the indexes have all memories, each by its word."""
    with store.snapshot() as snapshot:
        return len(
            views.attributes.ids(np.flatnonzero(views.attributes.mask(MemoryFilter())))
        ) == snapshot.count() and ([found(views, word) for word in ("harbour", "windmill")] == [1, 1])


@pytest.mark.parametrize(("how", "step"), STEPS)
def test_a_commit_at_any_step_of_a_replacement_is_in_all_indexes(tmp_path: Path, how: str, step: str) -> None:
    """A step of the commit: there a replacement begins, and goes on as far as it gets while the commit stands. A step
    of the replacement: there the commit is made."""
    others: list[threading.Thread] = []

    def on_step(name: str) -> None:
        if name.startswith(("copied", "built")):
            has_replaced.set()
        if name != step or others or not is_open.is_set():
            return
        other = threading.Thread(target=getattr(views, how) if step in STEPS_OF_COMMIT else write_second)
        others.append(other)
        other.start()
        if step in STEPS_OF_COMMIT:
            wait_until(lambda: has_replaced.is_set() or views.has_asked.is_set())
        else:
            other.join()

    def write_second() -> None:
        remember(store, 2, "A windmill stands on the hill.")

    is_open, has_replaced = threading.Event(), threading.Event()
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        views = SteppedViews(store, on_step)
        views.open()
        has_replaced.clear()
        is_open.set()
        if step in STEPS_OF_COMMIT:
            write_second()
        else:
            getattr(views, how)()
        (other,) = others
        other.join()
        assert holds_all(views, store)
        views.save()
    with closing(Store.open(tmp_path / "data")) as store:
        reopened = opened(store)
        assert holds_all(reopened, store)
        assert reopened.rebuilt == []


def test_views_that_cannot_be_saved_because_the_database_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    """The seq in their files is read from the database."""
    disk = FaultyDisk()
    with closing(Store.open(tmp_path / "data", disk=disk)) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        views = opened(store)
        disk.reading = lmdb.CorruptedError("mdb_get: MDB_CORRUPTED: Located page was wrong type")
        views.save()
        disk.reading = None
    with closing(Store.open(tmp_path / "data")) as store:
        assert found(opened(store), "harbour") == 1


def test_a_memory_dropped_between_the_saving_of_two_views_is_in_neither(tmp_path: Path) -> None:
    a_store_of_one_memory(tmp_path / "data")
    saved = tmp_path / "data" / "views"
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        gone = remember(store, 2, "A lighthouse that is to go.")
        views.save()
        shutil.copy(saved / "words.view", tmp_path / "words.view")
        write(store, DropMemory(id=gone.id), what="empty trash")
        views.save()
    shutil.copy(tmp_path / "words.view", saved / "words.view")
    with closing(Store.open(tmp_path / "data")) as store:
        views = opened(store)
        assert [found(views, word) for word in ("harbour", "lighthouse")] == [1, 0]
        assert len(views.lexical) == 1
        assert views.rebuilt == []


@pytest.mark.parametrize("name", [kind.name for kind in COMMIT_INDEXES])
def test_an_index_that_lacks_a_memory_is_found_and_rebuilt(tmp_path: Path, name: str) -> None:
    with closing(Store.open(tmp_path / "data")) as store:
        remember(store, 1, "A rowing boat lies in the harbour.")
        remember(store, 2, "A windmill stands on the hill.")
        views = opened(store)
        views.require_rows()
        assert views.state == "ready"
        next(each for each in views.indexes if each.name == name).data.drop(1)
        views.require_rows()
        assert (views.state, f"1 memories in the {name}, not 2" in views.reason) == ("stale", True)
        views.rebuild()
        assert views.state == "ready"
        assert holds_all(views, store)
