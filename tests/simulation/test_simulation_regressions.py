"""Failures found by the simulation, each in the few steps that show it. SPEC 3, 6, 7.3, 17."""

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mnemo_daemon.maintenance.store_check import StoreCheck
from mnemo_daemon.maintenance.store_repair import StoreRepair
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from tests.simulation.disk import FOR_GOOD, Fault
from tests.simulation.embedders import OTHER
from tests.simulation.world import SteppedNotes, World, in_simulated_time
from tests.support.samples import contents, opened, quick_folder, remember

MEMORIES = "/v1/memories"
ROOTS = "/v1/notes/roots"
LOOKS = 12  # at a store that is to be well again, a minute between two
TAKES_NOTHING_BACK = Fault(1, FOR_GOOD, only=("sync", "truncate", "write"))  # what was appended stands, and may count


@pytest.fixture
def world() -> Iterator[World]:
    with quick_folder() as folder:
        made = World(folder, Random(1))
        with in_simulated_time(made.clock):
            made.open()
            try:
                yield made
            finally:
                made.throw_away()


def remember_one(world: World, content: str, status: int = 201) -> str:
    answer = world.ask("POST", MEMORIES, {"content": content})
    assert answer.status == status
    return str(answer.value["memory"]["id"]) if answer.is_ok else answer.code


def found_by_word(world: World, word: str) -> list[str]:
    return [view["content"] for view in world.ask("GET", "/v1/search", q=word).value["memories"]]


def texts_of(world: World) -> list[str]:
    return [memory.content for memory in world.found().current() if memory.state == "active"]


def get_well(world: World) -> None:
    world.disk.heal()
    for _ in range(LOOKS):
        world.step(61.0)


def test_a_write_of_unknown_outcome_that_came_back_is_found_by_its_word(world: World) -> None:
    """The views had never been told of it: it was in the store, and in no answer, also after the next start."""
    world.disk.set(TAKES_NOTHING_BACK)
    assert remember_one(world, "bolanok came back", 503) == "outcome_unknown"
    get_well(world)
    remember_one(world, "tirumok is another")
    for _ in range(2):
        assert [found_by_word(world, text.split()[0]) for text in texts_of(world)] == [
            [text] for text in texts_of(world)
        ]
        world.close()
        world.open()


def test_the_vectors_go_on_behind_a_write_of_unknown_outcome(world: World) -> None:
    """A memory with a row in the database and none in the columns ended the thread that computes vectors."""
    world.install()
    first = remember_one(world, "tirumok was there before")
    world.disk.set(TAKES_NOTHING_BACK)
    remember_one(world, "bolanok came back", 503)
    get_well(world)
    assert world.ask("DELETE", f"{MEMORIES}/{first}").is_ok
    world.step(1.0)
    assert world.daemon is not None
    assert world.daemon.indexing.waiting() == 0


def test_a_note_whose_write_was_of_unknown_outcome_is_not_remembered_twice(world: World) -> None:
    """The write had been made from a manifest that was another one by the time of the writing."""
    assert world.ask("POST", ROOTS, {"path": str(world.notes_folder.folder)}).is_ok
    world.notes_folder.save("a.md", [("One", "bolanok is below one"), ("Two", "tirumok is below two")])
    world.disk.set(TAKES_NOTHING_BACK)
    world.step(1.0)
    world.disk.heal()
    for _ in range(LOOKS):
        assert world.daemon is not None
        world.daemon.notes.rescan()
        world.step(61.0)
    assert sorted(texts_of(world)) == ["bolanok is below one", "tirumok is below two"]


def test_the_notes_rest_while_the_store_cannot_be_read(world: World) -> None:
    """Their thread tried again at once, and for ever, with a line in the log each time."""
    world.disk.reading = "mdb_get: MDB_CORRUPTED"
    notes = world.daemon.notes if world.daemon is not None else None
    assert isinstance(notes, SteppedNotes)
    notes.work()
    assert notes.failures == 1


def test_a_folder_whose_removal_was_refused_can_be_removed(world: World) -> None:
    """It was neither watched, nor could it be removed or added again, until the next start."""
    path = str(world.notes_folder.folder)
    assert world.ask("POST", ROOTS, {"path": path}).is_ok
    world.disk.set(Fault(1, 1, only=("sync",)))
    assert world.ask("DELETE", ROOTS, path=path).status == 503
    get_well(world)
    world.notes_folder.save("a.md", [("One", "bolanok is below one")])
    world.step(2.0)
    assert texts_of(world) == ["bolanok is below one"], "it is watched still"
    assert world.ask("DELETE", ROOTS, path=path).is_ok
    assert texts_of(world) == []


def test_a_folder_whose_removal_was_cut_short_is_let_go_in_the_end(world: World) -> None:
    """The folder was gone from the store, its memories stayed, and nobody could ask for it again."""
    path = str(world.notes_folder.folder)
    assert world.ask("POST", ROOTS, {"path": path}).is_ok
    world.notes_folder.save("a.md", [("One", "bolanok is below one")])
    world.step(2.0)
    world.disk.set(Fault(2, FOR_GOOD, only=("sync",)))
    assert world.ask("DELETE", ROOTS, path=path).status == 503
    get_well(world)
    world.ask("DELETE", ROOTS, path=path)
    get_well(world)
    assert texts_of(world) == []
    assert world.ask("POST", ROOTS, {"path": path}).is_ok


def test_a_chunk_that_was_set_free_and_dropped_is_listed_by_no_note(world: World) -> None:
    """The manifest of its deleted note went on naming it."""
    assert world.ask("POST", ROOTS, {"path": str(world.notes_folder.folder)}).is_ok
    world.notes_folder.save("a.md", [("One", "bolanok is below one")])
    world.step(2.0)
    world.notes_folder.delete("a.md")
    world.step(2.0)
    (chunk,) = [memory.id for memory in world.found().current()]
    assert world.ask("POST", f"/v1/trash/{chunk}/restore").value["managed"] is None
    assert world.ask("DELETE", f"{MEMORIES}/{chunk}").is_ok
    assert world.ask("DELETE", "/v1/trash", confirm="true", entry_point="cli").value["dropped"] == 1
    assert world.ask("POST", "/v1/check").value["violations"] == []


def test_a_journal_file_that_is_missing_costs_the_other_nothing(world: World) -> None:
    """A segment was renamed, and the next could not be begun: the line that then went to the other file was durable,
    and its writer was told nothing: the writer thread ended."""
    world.disk.set(Fault(1, 1, how="done all the same", only=("rename",)))
    for number in range(40):
        world.ask("POST", MEMORIES, {"content": f"bolanok {number} {'and more ' * 40}"})
    get_well(world)
    assert len(texts_of(world)) >= 39


def test_a_store_whose_journal_failed_is_well_again_without_another_write(world: World) -> None:
    """A reader was told forever that the disk was failing."""
    remember_one(world, "bolanok is there")
    world.disk.set(Fault(1, 4))
    remember_one(world, "tirumok is refused", 503)
    assert world.daemon is not None
    assert world.daemon.problem()
    get_well(world)
    assert world.daemon.problem() == ""


def test_a_vector_that_is_no_number_is_not_kept(world: World) -> None:
    """It was kept, and the text never got another: it was never found by meaning again."""
    world.install()
    world.faults.gives_nan = 1
    remember_one(world, "bolanok has a vector")
    for _ in range(3):
        world.step(2.0)
    assert world.daemon is not None
    assert world.daemon.indexing.waiting() == 0
    assert world.ask("POST", "/v1/check").value["violations"] == []


def test_one_text_that_cannot_be_embedded_holds_up_no_other(world: World) -> None:
    world.install()
    world.faults.gives_nan = 1
    for word in ("bolanok", "tirumok", "sadenok"):
        remember_one(world, f"{word} has a vector")
    world.step(2.0)
    assert world.daemon is not None
    assert world.daemon.indexing.waiting() <= 1


def test_vectors_computed_without_a_database_are_kept_when_it_is_back(world: World) -> None:
    """The vectors were in the view alone, and check found fault with that."""
    world.install()
    world.step(1.0)
    world.disk.reading = "mdb_get: MDB_CORRUPTED"
    world.ask("GET", "/v1/memories/01890000-0000-7000-8000-000000000000")
    world.step(1.0)
    remember_one(world, "tirumok too")
    world.step(1.0)
    assert world.store.is_replayed
    get_well(world)
    assert not world.store.is_replayed
    assert world.ask("POST", "/v1/check").value["violations"] == []


def test_vectors_computed_without_a_database_survive_the_next_failure(world: World) -> None:
    """The state replayed a second time knew nothing of the vectors, and check found fault with that."""
    world.install()
    world.disk.set(Fault(1, FOR_GOOD, only=("commit", "open_database")))
    remember_one(world, "bolanok is there")
    world.step(1.0)
    assert world.store.is_replayed
    world.disk.set(TAKES_NOTHING_BACK._replace(only=("sync", "truncate", "write", "open_database")))
    remember_one(world, "tirumok is not", 503)
    get_well(world)
    assert not world.store.is_replayed
    assert world.ask("POST", "/v1/check").value["violations"] == []


def test_a_model_that_could_not_be_chosen_for_good_is_not_used(world: World) -> None:
    """It answered until the next start, though the switch to it had been refused."""
    world.install()
    world.catalogue.there.add(OTHER)
    world.disk.set(Fault(1, 1, only=("append",)))
    assert world.ask("POST", "/v1/models/use", {"name": OTHER}).code == "write_failed"
    world.refresh_model()
    assert world.daemon is not None
    current = world.daemon.embedding.current()
    assert current is not None
    assert current.name == DEFAULT_EMBEDDING


@pytest.mark.parametrize("faults", ["raises", "gives_nan"])
def test_a_question_that_cannot_be_embedded_is_answered_by_words_and_says_so(world: World, faults: str) -> None:
    """It was answered with an internal error."""
    world.install()
    remember_one(world, "bolanok is there")
    world.step(2.0)
    setattr(world.faults, faults, 1)
    answer = world.ask("POST", "/v1/recall", {"query": "bolanok"})
    assert [view["content"] for view in answer.value["memories"]] == ["bolanok is there"]
    assert answer.value["degraded"] == ["vectors"]


def test_a_check_on_a_full_disk_says_what_it_could_not_look_at(world: World) -> None:
    remember_one(world, "bolanok is there")
    world.disk.set(Fault(1, FOR_GOOD, errno.ENOSPC, only=("write",)))
    answer = world.ask("POST", "/v1/check")
    assert answer.is_ok
    first, *more = answer.value["notes"]
    assert first == "columns and words were not checked: [Errno 28] No space left on device"
    world.disk.heal()
    assert world.ask("POST", "/v1/check").value["notes"] == more


def test_an_import_that_cannot_be_put_down_is_refused_with_the_reason(world: World) -> None:
    """It was answered with an internal error."""
    exported = world.ask("GET", "/v1/export", entry_point="cli").value
    world.disk.set(Fault(1, 1, errno.EROFS, only=("append",)))
    answer = world.ask("POST", "/v1/import", entry_point="cli", raw=exported)
    assert answer.code == "write_failed"
    assert "Read-only file system" in answer.value["error"]["message"]


def test_a_memory_that_a_batch_writes_twice_has_no_gap_in_its_versions(world: World) -> None:
    """One change makes one version of a memory; check found the number of the first one missing."""
    for texts in (("bolanok one", "bolanok two"), ("bolanok three", "bolanok four", "bolanok five")):
        memories = [{"content": text, "key": "plan"} for text in texts]
        answer = world.ask("POST", f"{MEMORIES}/batch", {"memories": memories})
        assert [row["outcome"] for row in answer.value["results"]][1:] == ["updated"] * (len(texts) - 1)
    (memory,) = world.found().current()
    assert (memory.content, memory.version) == ("bolanok five", 2)
    assert world.ask("POST", "/v1/check").value["violations"] == []


@pytest.mark.parametrize("kind", ["write", "sync_folder"])
def test_a_backup_on_a_failing_disk_is_refused_with_the_reason(world: World, kind: str) -> None:
    """It was answered with an internal error."""
    remember_one(world, "bolanok is there")
    world.disk.set(Fault(1, FOR_GOOD, only=(kind,)))  # type: ignore[arg-type]
    answer = world.ask("POST", "/v1/backup", {"folder": str(world.folder / "backup")}, entry_point="cli")
    assert answer.status < 500 or answer.status in (503, 507)
    assert "Input/output error" in answer.value["error"]["message"]


def test_a_damaged_line_of_the_journals_snapshot_does_not_cost_the_memory_that_the_database_has() -> None:
    """Repair took the memory out of the database, because the journal did not have it."""
    with quick_folder() as folder:
        data = folder / "data"
        with opened(data, reserve_bytes=0) as store:
            for number in (1, 2, 3):
                remember(store, number)
        shutil.rmtree(data / "journal")
        with opened(data, reserve_bytes=0):
            pass
        _damage(next((data / "journal").glob("snapshot.*.jsonl")), b"memory number 2")
        with opened(data, reserve_bytes=0) as store:
            repaired = StoreRepair(StoreCheck(store)).repair(dry_run=False)
            assert contents(store) == ["memory number 1", "memory number 2", "memory number 3"]
            assert repaired.report.is_clean
        shutil.rmtree(data / "db")
        with opened(data, reserve_bytes=0) as store:
            assert contents(store) == ["memory number 1", "memory number 2", "memory number 3"]


def _damage(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    at = data.index(text)
    path.write_bytes(data[:at] + b"X" + data[at + 1 :])
