"""Notes folders that vanish, fill up, overlap and cannot be watched. SPEC 6"""

import logging
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
from mnemo_daemon.settings import NotesSettings
from mnemo_store.backend import Snapshot
from mnemo_store.records import DropRoot, NoteRoot, PutRoot
from mnemo_store.store import Store, WriteResult
from tests.vaults import QUICK, Vault, watched_vault

# The service puts the same filter in place for itself; pytest puts its own in place for each phase of a test.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with watched_vault(tmp_path) as vault:
        yield vault


# Folders that vanish


def test_while_the_folder_is_missing_nothing_is_trashed(vault: Vault) -> None:
    vault.write("a.md", "text")
    vault.watch()
    away = vault.folder.with_name("unplugged")
    vault.folder.rename(away)
    vault.wait(lambda: vault.notes.status().roots[0].state == "missing")
    assert vault.texts("a.md") == ["text"]
    (away / "a.md").write_text("text, changed")
    away.rename(vault.folder)
    vault.wait_for("a.md", ["text, changed"])
    vault.wait(lambda: vault.notes.status().roots[0].state == "watching")
    vault.write("a.md", "text, changed again")
    vault.wait_for("a.md", ["text, changed again"])


@pytest.mark.parametrize("is_off", [False, True])
def test_an_empty_mount_point_is_not_a_mass_deletion(vault: Vault, is_off: bool) -> None:
    vault.write("a.md", "text")
    vault.watch()
    away = vault.folder.with_name("unplugged")

    def unmount() -> None:
        vault.folder.rename(away)
        vault.folder.mkdir()

    if is_off:
        vault.close()
        unmount()
        vault.open()
        vault.notes.start()
    else:
        unmount()
    vault.wait(lambda: vault.notes.status().roots[0].state == "missing")
    assert vault.texts("a.md") == ["text"]
    vault.folder.rmdir()
    away.rename(vault.folder)
    vault.wait(lambda: vault.notes.status().roots[0].state == "watching")
    assert vault.texts("a.md") == ["text"]


def test_deleting_the_last_note_of_a_folder_that_is_there_is_a_deletion(vault: Vault) -> None:
    path = vault.write("a.md", "text")
    vault.watch()
    path.unlink()
    vault.wait(lambda: vault.count("trashed") == 1)


# Long files, many turns


def test_a_long_file_is_written_in_turns_of_one_group(vault: Vault) -> None:
    vault.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(250)))
    vault.watch()
    assert len(vault.texts("a.md")) == 250
    with vault.store.snapshot() as snapshot:
        entries = [entry for _, entry in snapshot.entries(0) if entry.ids]
    assert [len(entry.ids) for entry in entries] == [MEMORIES_A_TURN, MEMORIES_A_TURN, 50]
    assert len({entry.group for entry in entries}) == 1
    assert entries[0].group


def test_a_long_file_that_was_cut_off_half_way_is_finished_without_doubling(vault: Vault) -> None:
    vault.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(250)))
    record = NoteRoot(id=vault.store.new_id(), path=str(vault.folder), added_at=1)
    folder = Folder(vault.folder)
    reading = parse_note(folder.read("a.md", 1 << 20), record, vault.store.new_id())
    folder.close()
    planned = plan_note(reading, None, {})

    def first_slice(snapshot: Snapshot) -> WriteResult[None]:
        decided = decide_note_changes(planned, NotePlanProgress(), snapshot, 1, vault.store.new_id)
        return WriteResult((PutRoot(data=record), *decided.changes), None)

    vault.store.transact(first_slice, by="notes").result()
    written = vault.ids("a.md")
    assert len(written) == MEMORIES_A_TURN
    vault.restart()
    assert vault.texts("a.md") == [f"text {number}" for number in range(250)]
    assert vault.ids("a.md")[:MEMORIES_A_TURN] == written
    assert vault.count() == 250


def test_a_long_edit_that_was_cut_off_half_way_is_finished_with_the_same_ids(vault: Vault) -> None:
    vault.write("a.md", "\n".join(f"## H{number}\nThe port of {number} is 8080." for number in range(250)))
    root = vault.watch()
    ids = vault.ids("a.md")
    vault.notes.stop()
    vault.write("a.md", "\n".join(f"## H{number}\nThe port of {number} is 9090." for number in range(250)))
    before = vault.files()["a.md"]
    folder = Folder(vault.folder)
    reading = parse_note(folder.read("a.md", 1 << 20), root, before.id)
    folder.close()
    texts = {
        ref.memory: ChunkText(ref.hash, memory.note.headings, memory.content)
        for ref, memory in zip(before.chunks, vault.memories("a.md"), strict=True)
        if memory.note is not None
    }
    planned = plan_note(reading, before, texts)

    def first_slice(snapshot: Snapshot) -> WriteResult[None]:
        return WriteResult(
            decide_note_changes(planned, NotePlanProgress(), snapshot, 1, vault.store.new_id).changes, None
        )

    vault.store.transact(first_slice, by="notes").result()
    assert vault.texts("a.md")[MEMORIES_A_TURN - 1 : MEMORIES_A_TURN + 1] == [
        "The port of 99 is 9090.", "The port of 100 is 8080.",
    ]  # fmt: skip
    vault.restart()
    assert vault.texts("a.md") == [f"The port of {number} is 9090." for number in range(250)]
    assert vault.ids("a.md") == ids
    assert {memory.version for memory in vault.memories("a.md")} == {2}


# Watching fails


class NoWatch(Watch):
    """A system without a single file watch left."""

    def __init__(self, *unused: object) -> None:
        raise CannotWatch("the system has no file watches left")


def test_without_watches_the_folder_is_polled_and_that_is_said(vault: Vault) -> None:
    settings = NotesSettings(settle_ms=50, poll_seconds=1)
    vault.notes = NotesService(vault.store, settings, on_error=vault.errors.append, make_watch=NoWatch)
    vault.write("a.md", "text")
    vault.watch()
    [root] = vault.notes.status().roots
    assert root.state == "polling"
    assert root.reason is not None
    assert "no file watches left" in root.reason
    vault.write("a.md", "text, changed")
    vault.wait_for("a.md", ["text, changed"])


class BrokenOnce(Watch):
    """A watch whose first making fails as nothing expects."""

    failures: ClassVar[list[Exception]] = []

    def __init__(self, root: Path, on_paths: Callable[[list[str]], None], on_lost: Callable[[], None]) -> None:
        if self.failures:
            raise self.failures.pop()
        super().__init__(root, on_paths, on_lost)


def test_notes_are_read_again_after_an_error_that_nothing_expects(vault: Vault) -> None:
    BrokenOnce.failures = [IndexError("index 5 is out of bounds")]
    vault.notes = NotesService(vault.store, QUICK, on_error=vault.errors.append, make_watch=BrokenOnce)
    vault.write("a.md", "text")
    vault.watch()
    vault.wait_for("a.md", ["text"])
    assert [type(error) for error in vault.errors] == [IndexError]
    vault.errors.clear()
    vault.wait(lambda: not vault.notes.supervisor.report().is_failing)
    report = vault.notes.supervisor.report()
    assert (report.restarts, report.last_failure) == (1, "IndexError: index 5 is out of bounds")
    vault.write("a.md", "text, changed")
    vault.wait_for("a.md", ["text, changed"])


def test_lost_events_are_followed_by_a_scan(vault: Vault) -> None:
    vault.write("a.md", "text")
    vault.watch()
    before = vault.notes.status().roots[0].last_scan_at
    time.sleep(0.002)
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    vault.wait(lambda: vault.notes.status().roots[0].last_scan_at != before)


# Roots


def test_a_folder_that_makes_no_sense_is_refused(vault: Vault, tmp_path: Path) -> None:
    vault.watch()
    (vault.folder / "inner").mkdir()
    (tmp_path / "file.md").write_text("x")
    for path, status, said in (
        (tmp_path / "nowhere", 404, "no folder"),
        (tmp_path / "file.md", 400, "not a folder"),
        (vault.folder, 409, "already"),
        (vault.folder / "inner", 409, "overlaps"),
        (tmp_path, 409, "overlaps"),
        (vault.data, 400, "data folder"),
        (vault.data / "journal", 400, "data folder"),
    ):
        with pytest.raises(Refusal, match=said) as refusal:
            vault.notes.add_root(str(path))
        assert refusal.value.status == status
    assert len(vault.notes.status().roots) == 1


def test_the_data_folder_within_a_root_is_left_out(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    (vault.data / "readme.md").write_text("ours")
    vault.write("a.md", "note")
    vault.notes.start()
    vault.notes.add_root(str(tmp_path))
    vault.wait_for_scan()
    assert list(vault.files()) == ["vault/a.md"]
    vault.close()


def test_a_removed_root_goes_to_the_trash_and_comes_back_when_it_is_added_again(vault: Vault) -> None:
    for number in range(150):
        vault.write(f"n{number}.md", f"Text {number}.")
    root = vault.watch()
    removed = vault.notes.remove_root(str(vault.folder))
    assert len(removed) == 150
    assert (vault.count("active"), vault.count("trashed")) == (0, 150)
    assert vault.notes.status().roots == []
    with pytest.raises(Refusal, match="no watched folder"):
        vault.notes.remove_root(root.id)
    vault.notes.add_root(str(vault.folder))
    vault.wait_for_scan()
    assert (vault.count("active"), vault.count("trashed")) == (150, 0)


def test_a_removal_that_was_cut_off_is_finished_at_the_start(vault: Vault) -> None:
    vault.write("a.md", "text")
    root = vault.watch()

    def forget_root() -> None:
        store = Store.open(vault.data)
        store.transact(lambda snapshot: WriteResult((DropRoot(id=root.id),), None), by="user").result()
        store.close()

    vault.restart(forget_root)
    vault.wait(lambda: vault.count("trashed") == 1)


def test_files_moved_to_another_root_keep_their_memories(vault: Vault, tmp_path: Path) -> None:
    path = vault.write("a.md", "# T\n\ntext")
    vault.watch()
    ids = vault.ids("a.md")
    other = tmp_path / "other"
    other.mkdir()
    vault.notes.add_root(str(other), "project")
    vault.wait_for_scan()
    path.rename(other / "a.md")
    vault.wait(lambda: vault.memory(ids[0]).namespace == "project" and vault.memory(ids[0]).state == "active")
    assert vault.ids("a.md") == ids
