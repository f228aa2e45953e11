"""Notes whose writes failed, or were decided from what is no longer so. SPEC 6"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from mnemo_store.records import ChunkRef, PutMemory, PutNote
from mnemo_store.store import WriteResult
from tests.simulation.disk import FOR_GOOD, Fault
from tests.simulation.world import World, in_simulated_time
from tests.support.notes_folders import watched_notes_folder
from tests.support.samples import WAIT_SECONDS, HeldWriter, quick_folder, sample_id

ROOTS = "/v1/notes/roots"
TAKES_NOTHING_BACK = Fault(1, FOR_GOOD, only=("sync", "truncate", "write"))  # what was appended stands, and may count

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


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


def folders(world: World) -> list[str]:
    return [root["path"] for root in world.ask("GET", ROOTS).value["roots"]]


def test_removing_a_folder_again_finishes_what_was_cut_short(world: World) -> None:
    path = str(world.notes_folder.folder)
    assert world.ask("POST", ROOTS, {"path": path}).is_ok
    world.notes_folder.save("a.md", [("One", "bolanok is below one")])
    world.step(2.0)
    world.disk.set(Fault(2, FOR_GOOD, only=("sync",)))  # the folder is let go, its memories are not
    assert world.ask("DELETE", ROOTS, path=path).status == 503
    world.disk.heal()
    again = world.ask("DELETE", ROOTS, path=path)
    assert (again.status, again.value["deleted"]) == (200, 1)
    assert [memory.state for memory in world.found().current()] == ["trashed"]
    assert folders(world) == []
    assert world.ask("DELETE", ROOTS, path=path).status == 404


def test_a_folder_whose_adding_was_of_unknown_outcome_is_watched_if_it_was_added(world: World) -> None:
    path = str(world.notes_folder.folder)
    world.disk.set(TAKES_NOTHING_BACK)
    assert world.ask("POST", ROOTS, {"path": path}).code == "outcome_unknown"
    world.disk.heal()
    for _ in range(12):
        world.step(61.0)
    assert folders(world) == [path]
    assert world.ask("POST", ROOTS, {"path": path}).status == 409
    world.notes_folder.save("a.md", [("One", "bolanok is below one")])
    world.step(2.0)
    assert [memory.content for memory in world.found().current()] == ["bolanok is below one"]


def test_of_the_files_of_one_turn_one_that_was_changed_meanwhile_is_planned_again(tmp_path: Path) -> None:
    """As a write does whose outcome was not known, and that was done after all: it has a chunk more."""
    with watched_notes_folder(tmp_path) as notes_folder:
        notes_folder.write("a.md", "First thing.\n")
        notes_folder.write("b.md", "Second thing.\n")
        notes_folder.watch()
        (first,) = notes_folder.ids("a.md")
        file = notes_folder.files()["a.md"]
        held = HeldWriter(notes_folder.store)
        notes_folder.write("a.md", "First thing, changed.\n")
        notes_folder.write("b.md", "Second thing, changed.\n")
        notes_folder.wait(lambda: notes_folder.store.queue_length() == 1)
        more = msgspec.structs.replace(notes_folder.memory(first), id=sample_id(1), content="Third thing.")
        listed = msgspec.structs.replace(file, chunks=(*file.chunks, ChunkRef(more.id, "h", 3, 3)))
        turn: WriteResult[None] = WriteResult((PutMemory(data=more), PutNote(data=listed)), None)
        before_it = notes_folder.store.transact(lambda _: turn, by="test")  # what is no background turn goes first
        held.let_go()
        before_it.result(WAIT_SECONDS)
        notes_folder.wait_for("a.md", ["First thing, changed."])
        notes_folder.wait_for("b.md", ["Second thing, changed."])
        assert notes_folder.ids("a.md") == [first]
        assert notes_folder.memory(more.id).state == "trashed"
