"""Seqs in index files, and the cases in which they are not trusted. SPEC 3.1, 3.5."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from mnemo_core.ingest.attributes.attribute_claims import claim_keys
from mnemo_daemon.indexing.index import CommitIndex, position_of
from mnemo_daemon.indexing.registry import COMMIT_INDEXES
from mnemo_daemon.indexing.views import Indexes, Views
from mnemo_store.codec import id_key
from mnemo_store.database.table_access import TableRow
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import DropMemory
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.store import Store
from tests.faulty import Faulty
from tests.samples import AT, WAIT_SECONDS, remember, sample_id, write


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


def test_views_that_cannot_be_saved_because_the_database_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    """The seq in their files is read from the database."""
    disk = Faulty()
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
