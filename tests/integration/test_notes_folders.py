"""Notes folders that vanish, fill up, overlap, cannot be watched and are still being read. SPEC 6, 7.1"""

import ctypes
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from mnemo_core.documents.note_diff import ChunkText
from mnemo_core.ingest.note_sync import (
    MEMORIES_A_TURN,
    NotePlanProgress,
    decide_note_changes,
    plan_note,
)
from mnemo_daemon.errors import Refusal
from mnemo_daemon.notes.folder_scan import Folder, parse_note
from mnemo_daemon.notes.folder_watch import CannotWatch, Watch
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.retrieval.recall import Recall
from mnemo_daemon.settings import NotesSettings
from mnemo_store.backend import Snapshot
from mnemo_store.records import DropRoot, NoteRoot, PutRoot
from mnemo_store.store import Store, WriteResult
from tests.support.notes_folders import QUICK, NotesFolder, watched_notes_folder
from tests.support.store_services import services_in

# The service puts the same filter in place for itself; pytest puts its own in place for each phase of a test.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


@pytest.fixture
def notes_folder(tmp_path: Path) -> Iterator[NotesFolder]:
    with watched_notes_folder(tmp_path) as notes_folder:
        yield notes_folder


# Folders that vanish


def test_while_the_folder_is_missing_nothing_is_trashed(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    away = notes_folder.folder.with_name("unplugged")
    notes_folder.folder.rename(away)
    notes_folder.wait(lambda: notes_folder.notes.status().roots[0].state == "missing")
    assert notes_folder.texts("a.md") == ["text"]
    (away / "a.md").write_text("text, changed")
    away.rename(notes_folder.folder)
    notes_folder.wait_for("a.md", ["text, changed"])
    notes_folder.wait(lambda: notes_folder.notes.status().roots[0].state == "watching")
    notes_folder.write("a.md", "text, changed again")
    notes_folder.wait_for("a.md", ["text, changed again"])


@pytest.mark.parametrize("is_off", [False, True])
def test_an_empty_mount_point_is_not_a_mass_deletion(notes_folder: NotesFolder, is_off: bool) -> None:
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    away = notes_folder.folder.with_name("unplugged")

    def unmount() -> None:
        notes_folder.folder.rename(away)
        notes_folder.folder.mkdir()

    if is_off:
        notes_folder.close()
        unmount()
        notes_folder.open()
        notes_folder.notes.start()
    else:
        unmount()
    notes_folder.wait(lambda: notes_folder.notes.status().roots[0].state == "missing")
    assert notes_folder.texts("a.md") == ["text"]
    notes_folder.folder.rmdir()
    away.rename(notes_folder.folder)
    notes_folder.wait(lambda: notes_folder.notes.status().roots[0].state == "watching")
    assert notes_folder.texts("a.md") == ["text"]


def test_deleting_the_last_note_of_a_folder_that_is_there_is_a_deletion(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "text")
    notes_folder.watch()
    path.unlink()
    notes_folder.wait(lambda: notes_folder.count("trashed") == 1)


DENIED = """
import sys
from pathlib import Path
from mnemo_daemon.settings import NotesSettings
from tests.support.notes_folders import NotesFolder

notes_folder = NotesFolder(Path(sys.argv[1]))
notes_folder.notes.reconfigure(NotesSettings(settle_ms=50, poll_seconds=1))
inner, note = notes_folder.write("inner/a.md", "text").parent, notes_folder.write("b.md", "text")
inner.chmod(0)
note.chmod(0)
notes_folder.watch()
status = notes_folder.notes.status
assert {Path(each.path).name: each.reason for each in status().skipped} == {
    "inner": "the folder cannot be listed: Permission denied", "b.md": "cannot be opened: Permission denied"
}
inner.chmod(0o700)
note.chmod(0o600)
notes_folder.wait(lambda: notes_folder.count() == 2)
notes_folder.write("inner/c.md", "another text")  # the folder is watched, too
notes_folder.wait_for("inner/c.md", ["another text"])
assert status().skipped == []
notes_folder.folder.chmod(0)
notes_folder.wait(lambda: status().roots[0].state == "missing")
notes_folder.folder.chmod(0o700)
notes_folder.wait(lambda: status().roots[0].state == "watching")
notes_folder.close()
assert notes_folder.errors == []
"""


def give_up_reading_what_is_denied() -> None:
    """For the program that this process becomes: root reads it otherwise."""
    for capability in (1, 2) if os.getuid() == 0 else ():  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert ctypes.CDLL(None).prctl(24, capability) == 0  # PR_CAPBSET_DROP


def test_what_could_not_be_read_is_read_once_it_can_be(tmp_path: Path) -> None:
    program = [sys.executable, "-c", DENIED, str(tmp_path)]
    subprocess.run(program, check=True, preexec_fn=give_up_reading_what_is_denied)


# Long files, many turns


def test_a_long_file_is_written_in_turns_of_one_group(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(250)))
    notes_folder.watch()
    assert len(notes_folder.texts("a.md")) == 250
    with notes_folder.store.snapshot() as snapshot:
        entries = [entry for _, entry in snapshot.entries(0) if entry.ids]
    assert [len(entry.ids) for entry in entries] == [MEMORIES_A_TURN, MEMORIES_A_TURN, 50]
    assert len({entry.group for entry in entries}) == 1
    assert entries[0].group


def test_a_long_file_that_was_cut_off_half_way_is_finished_without_doubling(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(250)))
    record = NoteRoot(id=notes_folder.store.new_id(), path=str(notes_folder.folder), added_at=1)
    folder = Folder(notes_folder.folder)
    reading = parse_note(folder.read("a.md", 1 << 20), record, notes_folder.store.new_id())
    folder.close()
    planned = plan_note(reading, None, {})

    def first_slice(snapshot: Snapshot) -> WriteResult[None]:
        decided = decide_note_changes(planned, NotePlanProgress(), snapshot, 1, notes_folder.store.new_id)
        return WriteResult((PutRoot(data=record), *decided.changes), None)

    notes_folder.store.transact(first_slice, by="notes").result()
    written = notes_folder.ids("a.md")
    assert len(written) == MEMORIES_A_TURN
    notes_folder.restart()
    assert notes_folder.texts("a.md") == [f"text {number}" for number in range(250)]
    assert notes_folder.ids("a.md")[:MEMORIES_A_TURN] == written
    assert notes_folder.count() == 250


def test_a_long_edit_that_was_cut_off_half_way_is_finished_with_the_same_ids(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "\n".join(f"## H{number}\nThe port of {number} is 8080." for number in range(250)))
    root = notes_folder.watch()
    ids = notes_folder.ids("a.md")
    notes_folder.notes.stop()
    notes_folder.write("a.md", "\n".join(f"## H{number}\nThe port of {number} is 9090." for number in range(250)))
    before = notes_folder.files()["a.md"]
    folder = Folder(notes_folder.folder)
    reading = parse_note(folder.read("a.md", 1 << 20), root, before.id)
    folder.close()
    texts = {
        ref.memory: ChunkText(ref.hash, memory.note.headings, memory.content)
        for ref, memory in zip(before.chunks, notes_folder.memories("a.md"), strict=True)
        if memory.note is not None
    }
    planned = plan_note(reading, before, texts)

    def first_slice(snapshot: Snapshot) -> WriteResult[None]:
        return WriteResult(
            decide_note_changes(planned, NotePlanProgress(), snapshot, 1, notes_folder.store.new_id).changes, None
        )

    notes_folder.store.transact(first_slice, by="notes").result()
    assert notes_folder.texts("a.md")[MEMORIES_A_TURN - 1 : MEMORIES_A_TURN + 1] == [
        "The port of 99 is 9090.", "The port of 100 is 8080.",
    ]  # fmt: skip
    notes_folder.restart()
    assert notes_folder.texts("a.md") == [f"The port of {number} is 9090." for number in range(250)]
    assert notes_folder.ids("a.md") == ids
    assert {memory.version for memory in notes_folder.memories("a.md")} == {2}


# Watching fails


class NoWatch(Watch):
    """A system without a single file watch left."""

    def __init__(self, *unused: object) -> None:
        raise CannotWatch("the system has no file watches left")


def test_without_watches_the_folder_is_polled_and_that_is_said(notes_folder: NotesFolder) -> None:
    settings = NotesSettings(settle_ms=50, poll_seconds=1)
    notes_folder.notes = NotesService(
        notes_folder.store, settings, on_error=notes_folder.errors.append, make_watch=NoWatch
    )
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    [root] = notes_folder.notes.status().roots
    assert root.state == "polling"
    assert root.reason is not None
    assert "no file watches left" in root.reason
    notes_folder.write("a.md", "text, changed")
    notes_folder.wait_for("a.md", ["text, changed"])


class BrokenOnce(Watch):
    """A watch whose first making fails as nothing expects."""

    failures: ClassVar[list[Exception]] = []

    def __init__(self, root: Path, on_paths: Callable[[list[str]], None], on_lost: Callable[[], None]) -> None:
        if self.failures:
            raise self.failures.pop()
        super().__init__(root, on_paths, on_lost)


def test_notes_are_read_again_after_an_error_that_nothing_expects(notes_folder: NotesFolder) -> None:
    BrokenOnce.failures = [IndexError("index 5 is out of bounds")]
    notes_folder.notes = NotesService(
        notes_folder.store, QUICK, on_error=notes_folder.errors.append, make_watch=BrokenOnce
    )
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    notes_folder.wait_for("a.md", ["text"])
    assert [type(error) for error in notes_folder.errors] == [IndexError]
    notes_folder.errors.clear()
    notes_folder.wait(lambda: not notes_folder.notes.supervisor.is_failing)
    report = notes_folder.notes.supervisor
    assert (report.restarts, report.last_failure) == (1, "IndexError: index 5 is out of bounds")
    notes_folder.write("a.md", "text, changed")
    notes_folder.wait_for("a.md", ["text, changed"])


def test_lost_events_are_followed_by_a_scan(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    before = notes_folder.notes.status().roots[0].last_scan_at
    time.sleep(0.002)
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    notes_folder.wait(lambda: notes_folder.notes.status().roots[0].last_scan_at != before)


# Roots


def test_a_folder_that_makes_no_sense_is_refused(notes_folder: NotesFolder, tmp_path: Path) -> None:
    notes_folder.watch()
    (notes_folder.folder / "inner").mkdir()
    (tmp_path / "file.md").write_text("x")
    for path, status, said in (
        (tmp_path / "nowhere", 404, "no folder"),
        (tmp_path / "file.md", 400, "not a folder"),
        (notes_folder.folder, 409, "already"),
        (notes_folder.folder / "inner", 409, "overlaps"),
        (tmp_path, 409, "overlaps"),
        (notes_folder.data, 400, "data folder"),
        (notes_folder.data / "journal", 400, "data folder"),
    ):
        with pytest.raises(Refusal, match=said) as refusal:
            notes_folder.notes.add_root(str(path))
        assert refusal.value.status == status
    assert len(notes_folder.notes.status().roots) == 1


def test_the_data_folder_within_a_root_is_left_out(tmp_path: Path) -> None:
    notes_folder = NotesFolder(tmp_path)
    (notes_folder.data / "readme.md").write_text("ours")
    notes_folder.write("a.md", "note")
    notes_folder.notes.start()
    notes_folder.notes.add_root(str(tmp_path))
    notes_folder.wait_for_scan()
    assert list(notes_folder.files()) == ["vault/a.md"]
    notes_folder.close()


def test_a_removed_root_goes_to_the_trash_and_comes_back_when_it_is_added_again(notes_folder: NotesFolder) -> None:
    for number in range(150):
        notes_folder.write(f"n{number}.md", f"Text {number}.")
    root = notes_folder.watch()
    removed = notes_folder.notes.remove_root(str(notes_folder.folder))
    assert len(removed) == 150
    assert (notes_folder.count("active"), notes_folder.count("trashed")) == (0, 150)
    assert notes_folder.notes.status().roots == []
    with pytest.raises(Refusal, match="no watched folder"):
        notes_folder.notes.remove_root(root.id)
    notes_folder.notes.add_root(str(notes_folder.folder))
    notes_folder.wait_for_scan()
    assert (notes_folder.count("active"), notes_folder.count("trashed")) == (150, 0)


def test_a_removal_that_was_cut_off_is_finished_at_the_start(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "text")
    root = notes_folder.watch()

    def forget_root() -> None:
        store = Store.open(notes_folder.data)
        store.transact(lambda snapshot: WriteResult((DropRoot(id=root.id),), None), by="user").result()
        store.close()

    notes_folder.restart(forget_root)
    notes_folder.wait(lambda: notes_folder.count("trashed") == 1)


def test_files_moved_to_another_root_keep_their_memories(notes_folder: NotesFolder, tmp_path: Path) -> None:
    path = notes_folder.write("a.md", "# T\n\ntext")
    notes_folder.watch()
    ids = notes_folder.ids("a.md")
    other = tmp_path / "other"
    other.mkdir()
    notes_folder.notes.add_root(str(other), "project")
    notes_folder.wait_for_scan()
    path.rename(other / "a.md")
    notes_folder.wait(
        lambda: notes_folder.memory(ids[0]).namespace == "project" and notes_folder.memory(ids[0]).state == "active"
    )
    assert notes_folder.ids("a.md") == ids


def test_an_answer_says_that_notes_are_still_being_read(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        services.add("The spare key is with Ines.")
        assert "notes" not in services.recall("spare key").degraded
        services.recalling.close()
        services.recalling = Recall(
            services.store, services.views, services.indexing, services.embedding, is_reading_notes=lambda: True
        )
        assert services.recall("spare key").degraded == ("vectors", "notes")
