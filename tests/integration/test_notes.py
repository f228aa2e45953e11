"""Notes as people and their programs treat them: real files, the real watch, the real store. SPEC 6"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from mnemo_daemon.notes.folder_scan import OTHERS_NAMED_MAX, WITHOUT_PASSAGE, FolderListing
from mnemo_daemon.notes.folder_watch import Watch
from mnemo_daemon.notes.notes_service import SLICE_FILES
from mnemo_store.records import PutUsage
from tests.support.notes_folders import WAIT_SECONDS, NotesFolder, watched_notes_folder

# The service puts the same filter in place for itself; pytest puts its own in place for each phase of a test.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")

LONG = "Alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 5  # 70 tokens: a chunk of its own


@pytest.fixture
def notes_folder(tmp_path: Path) -> Iterator[NotesFolder]:
    with watched_notes_folder(tmp_path) as notes_folder:
        yield notes_folder


# What is remembered


def test_a_note_becomes_memories_that_say_where_they_stand(notes_folder: NotesFolder) -> None:
    notes_folder.write(
        "garden/roses.md",
        "---\ntags: [garden]\ndate: 2024-01-20T00:00:00Z\nimportance: 0.9\nnamespace: home\n---\n"
        "# Roses\n\n## Care\n\nWater them. #summer\n",
    )
    notes_folder.watch()
    [memory] = notes_folder.memories("garden/roses.md")
    file = notes_folder.files()["garden/roses.md"]
    assert memory.content == "Water them. #summer"
    assert memory.note is not None
    assert (memory.note.title, memory.note.headings) == ("Roses", ("Care",))
    assert (memory.source, memory.trust, memory.layer, memory.managed) == ("note", "note", "working", file.id)
    assert (memory.kind, memory.category, memory.decay_rate) == ("episodic", "fact", 1.0)
    assert (memory.tags, memory.namespace, memory.importance) == (("garden", "summer"), "home", 0.9)
    assert memory.event_at == 1_705_708_800_000  # 2024-01-20 00:00 UTC
    assert (file.chunks[0].first_line, file.chunks[0].last_line) == (11, 11)
    with notes_folder.store.snapshot() as snapshot:
        usage = snapshot.usage(memory.id)
    assert usage is not None
    assert usage.strength == 0.9


def test_tags_and_properties_belong_to_the_passages_that_have_them(notes_folder: NotesFolder) -> None:
    notes_folder.write(
        "ines.md",
        "---\ntags: [people/friend]\nbirthday: 12 March 1985\n---\n# Ines\n\n## Music #cello\n\nShe plays.\n",
    )
    notes_folder.watch()
    assert [(memory.content, memory.tags) for memory in notes_folder.memories("ines.md")] == [
        ("birthday: 12 March 1985", ("people/friend",)),
        ("She plays.", ("people/friend", "cello")),
    ]


class WatchOf(Watch):
    """The real watch of a folder in which somebody saves a note as soon as it is watched, before the first look."""

    saved: tuple[str, ...] = ()
    on_start: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, root: Path, on_paths: Callable[[list[str]], None], on_lost: Callable[[], None]) -> None:
        super().__init__(root, on_paths, on_lost)
        type(self).on_start()
        on_paths(list(self.saved))


def test_of_a_folder_that_is_new_small_files_come_first_and_what_is_saved_meanwhile_goes_between(
    tmp_path: Path,
) -> None:
    class Busy(WatchOf):
        saved = ("saved.md",)

    notes_folder = NotesFolder(tmp_path, make_watch=Busy)
    notes_folder.write("a-huge.md", LONG * 1_000)
    notes_folder.write("saved.md", LONG * 300)
    for number in range(SLICE_FILES + 5):
        notes_folder.write(f"small-{number}.md", f"Note {number}.")
    notes_folder.watch()
    first = {path: notes_folder.ids(path)[0] for path in notes_folder.files()}
    by_time = sorted(first, key=lambda path: first[path])
    notes_folder.close()
    assert by_time.index("saved.md") == SLICE_FILES
    assert by_time[-1] == "a-huge.md"
    assert notes_folder.errors == []
    assert first["saved.md"] in notes_folder.saved


def test_of_a_folder_that_is_new_a_persons_passages_get_their_vectors_first(notes_folder: NotesFolder) -> None:
    notes_folder.write("mine.md", "The lantern hangs in the shed.")
    notes_folder.write("vendor/theirs.md", "Licensed to the public.")
    notes_folder.watch()
    assert notes_folder.saved == notes_folder.ids("mine.md")


def test_a_folder_is_being_read_until_it_was_looked_through_once(tmp_path: Path) -> None:
    seen: list[bool] = []

    class AskingWatch(WatchOf):
        on_start = staticmethod(lambda: seen.append(asked.notes.is_first_scan_running()))

    asked = notes_folder = NotesFolder(tmp_path, make_watch=AskingWatch)
    assert not notes_folder.notes.is_first_scan_running()
    notes_folder.write("a.md", "text")
    notes_folder.watch()
    notes_folder.wait(lambda: not notes_folder.notes.is_first_scan_running())
    notes_folder.close()
    assert seen == [True]


def test_without_a_date_the_files_time_is_the_memorys(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "text")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    notes_folder.watch()
    assert notes_folder.memories("a.md")[0].event_at == 1_700_000_000_123


def test_all_formats_are_read_and_other_files_are_not(notes_folder: NotesFolder) -> None:
    for name in ("a.md", "b.rst", "c.rst.txt", "d.org", "e.txt", "f.markdown"):
        notes_folder.write(name, "Some text.")
    notes_folder.write("g.png", b"\x89PNG")
    notes_folder.write("h.json", "{}")
    notes_folder.write("sub/i.png", b"\x89PNG")
    notes_folder.write("LICENSE", "text")
    notes_folder.write(".obsidian/app.json", "{}")
    notes_folder.write("drafts/j.md", "not yet")
    notes_folder.write(".mnemoignore", "drafts/\n")
    os.mkfifo(notes_folder.folder / "pipe")
    notes_folder.watch()
    assert sorted(notes_folder.files()) == ["a.md", "b.rst", "c.rst.txt", "d.org", "e.txt", "f.markdown"]
    status = notes_folder.notes.status()
    assert {skip.path.removeprefix(f"{notes_folder.folder}/"): skip.reason for skip in status.skipped} == {
        "g.png": "not a kind of note: .png",
        "sub/i.png": "not a kind of note: .png",
        "h.json": "not a kind of note: .json",
        "LICENSE": "not a kind of note: no suffix",
        "pipe": "not a regular file",
        ".obsidian/": "left out by a rule",
        "drafts/": "left out by a rule",
    }
    assert (status.skipped_total, status.left_out) == (5, 2)
    assert status.skipped_by_reason["not a kind of note: .png"] == 2
    assert [skip.reason for skip in status.skipped][-2:] == ["left out by a rule"] * 2


def test_more_files_of_other_kinds_than_are_named_are_counted() -> None:
    walked = FolderListing.nothing()
    for number in range(OTHERS_NAMED_MAX + 7):
        walked.add_other(f"{number}.png", "not a kind of note: .png")
    assert len(walked.others) == OTHERS_NAMED_MAX
    assert walked.uncounted == {"not a kind of note: .png": 7}


def test_other_formats_are_read_and_what_they_are_not_is_said(notes_folder: NotesFolder) -> None:
    notes_folder.write(
        "board.canvas", '{"nodes":[\n{"id":"a1","type":"text","text":"Plant the pear tree. #garden"}\n]}'
    )
    notes_folder.write(
        "page.html", "<title>Trees</title><script>var no</script><h2>Pears</h2>\n<p>Prune in February.</p>"
    )
    notes_folder.write("people.csv", "name,phone\nInes,+43 1 555\nAda,\n")
    notes_folder.write("work.ipynb", '{"cells":[{"cell_type":"markdown","source":["# Yield\\n","\\n","Nine kilos."]}]}')
    notes_folder.write("broken.ipynb", '{"cells": 3}')
    notes_folder.write("deep.canvas", "[" * 100_000)
    notes_folder.watch()
    [card] = notes_folder.memories("board.canvas")
    assert (card.content, card.tags) == ("Plant the pear tree. #garden", ("garden",))
    [page] = notes_folder.memories("page.html")
    assert page.content == "Prune in February."
    assert page.note is not None
    assert (page.note.title, page.note.headings) == ("Trees", ("Pears",))
    assert notes_folder.texts("people.csv") == ["name: Ines; phone: +43 1 555\nname: Ada"]
    assert notes_folder.texts("work.ipynb") == ["Nine kilos."]
    reasons = skip_reasons(notes_folder)
    assert reasons["broken.ipynb"].startswith("not a Jupyter notebook")
    assert reasons["deep.canvas"].startswith("not a canvas file")


def test_equal_texts_in_two_files_are_two_memories(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "The same text.")
    notes_folder.write("b.md", "The same text.")
    notes_folder.watch()
    assert notes_folder.count() == 2


def test_a_chunk_with_a_secret_is_tagged_and_private_spans_are_left_out(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", f"<private>never\nthis</private>\n\n{LONG}\n\n## Login\n\nDB_PASSWORD=correcthorse\n")
    notes_folder.watch()
    first, second = notes_folder.memories("a.md")
    assert (first.tags, second.tags) == ((), ("sensitive",))
    assert first.content == LONG.strip()
    assert [ref.first_line for ref in notes_folder.files()["a.md"].chunks] == [4, 8]


def test_an_unreadable_file_is_named_and_stops_nothing(notes_folder: NotesFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("not ours")
    notes_folder.write("binary.txt", b"a\0b")
    notes_folder.write("latin.md", b"caf\xe9")
    notes_folder.write("wide.md", "café".encode("utf-16"))
    notes_folder.write("huge.md", b"x" * (1 << 20) + b"y")
    (notes_folder.folder / "link.md").symlink_to(outside)
    (notes_folder.folder / "loop").symlink_to(notes_folder.folder)
    os.mkfifo(notes_folder.folder / "pipe.md")
    notes_folder.write("fine.md", "fine")
    notes_folder.watch()
    assert list(notes_folder.files()) == ["fine.md"]
    skipped = {Path(skip.path).name: skip.reason for skip in notes_folder.notes.status().skipped}
    assert skipped == {
        "binary.txt": "binary, or not UTF-8: it holds a NUL",
        "latin.md": "not UTF-8 (byte 3): save it as UTF-8",
        "wide.md": "binary, or not UTF-8: it holds a NUL",
        "huge.md": "1.0 MiB, over 1 MiB",
        "link.md": "a symbolic link, which is not followed",
        "pipe.md": "not a regular file",
        "loop": "a symbolic link, which is not followed",
    }
    notes_folder.rescan()
    assert notes_folder.notes.status().skipped_total == 7
    notes_folder.write("latin.md", "café")
    notes_folder.wait_for("latin.md", ["café"])
    assert notes_folder.notes.status().skipped_total == 6


def test_a_link_out_of_the_folder_is_not_followed_when_it_appears_later(
    notes_folder: NotesFolder, tmp_path: Path
) -> None:
    notes_folder.watch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("not ours")
    (notes_folder.folder / "sub").symlink_to(tmp_path / "elsewhere")
    (notes_folder.folder / "file.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    notes_folder.write("a.md", "ours")
    notes_folder.wait_for("a.md", ["ours"])
    assert list(notes_folder.files()) == ["a.md"]
    assert [skip.reason for skip in notes_folder.notes.status().skipped] == ["a symbolic link, which is not followed"]
    notes_folder.rescan()
    assert list(notes_folder.files()) == ["a.md"]


def test_a_file_name_that_is_not_utf8_is_named(notes_folder: NotesFolder) -> None:
    with open(os.path.join(os.fsencode(notes_folder.folder), b"caf\xe9.md"), "wb") as file:
        file.write(b"text")
    notes_folder.watch()
    assert [skip.reason for skip in notes_folder.notes.status().skipped] == ["its name is not UTF-8"]


# Edits


def test_an_edit_changes_only_the_chunk_that_changed(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "# A\n## One\nThe port is 8080.\n## Two\nUntouched.\n")
    notes_folder.watch()
    ids = notes_folder.ids("a.md")
    notes_folder.write("a.md", "# A\n## One\nThe port is 9090.\n## Two\nUntouched.\n")
    notes_folder.wait_for("a.md", ["The port is 9090.", "Untouched."])
    assert notes_folder.ids("a.md") == ids
    assert [memory.version for memory in notes_folder.memories("a.md")] == [2, 1]


def test_text_that_only_moves_changes_no_memory(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", f"## One\n{LONG}\n## Two\nText.\n")
    notes_folder.watch()
    ids = notes_folder.ids("a.md")
    notes_folder.write("a.md", f"\n\n## Zero\nNew.\n\n\n## Two\nText.\n## One\n{LONG}\n")
    notes_folder.wait_for("a.md", ["New.", "Text.", LONG.strip()])
    assert notes_folder.ids("a.md")[1:] == [ids[1], ids[0]]
    assert [memory.version for memory in notes_folder.memories("a.md")] == [1, 1, 1]
    assert [ref.first_line for ref in notes_folder.files()["a.md"].chunks] == [4, 8, 10]


def test_a_file_that_shrinks_leaves_no_tail(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(10)))
    notes_folder.watch()
    notes_folder.write("a.md", "## H0\ntext 0")
    notes_folder.wait_for("a.md", ["text 0"])
    assert (notes_folder.count("active"), notes_folder.count("trashed")) == (1, 9)


def save_in_place(path: Path, text: str) -> None:
    path.write_text(text)


def save_by_rename(path: Path, text: str) -> None:
    neighbour = path.with_name(f".{path.name}.tmp")
    neighbour.write_text(text)
    neighbour.rename(path)


def save_with_backup(path: Path, text: str) -> None:
    path.rename(path.with_name(path.name + "~"))
    path.write_text(text)
    path.with_name(path.name + "~").unlink()


def save_from_outside(path: Path, text: str) -> None:
    outside = path.parent.parent / "incoming"
    outside.write_text(text)
    outside.rename(path)


@pytest.mark.parametrize("save", [save_in_place, save_by_rename, save_with_backup, save_from_outside])
def test_every_way_of_saving_is_seen(notes_folder: NotesFolder, save: Callable[[Path, str], None]) -> None:
    path = notes_folder.write("a.md", "The port is 8080.")
    notes_folder.watch()
    ids = notes_folder.ids("a.md")
    save(path, "The port is 9090.")
    notes_folder.wait(lambda: notes_folder.texts("a.md") == ["The port is 9090."])
    assert notes_folder.notes.wait_until_settled(WAIT_SECONDS)
    assert notes_folder.ids("a.md") == ids
    assert list(notes_folder.files()) == ["a.md"]


def test_a_file_saved_many_times_ends_at_its_last_text(notes_folder: NotesFolder) -> None:
    notes_folder.watch()
    for number in range(100):
        notes_folder.write("a.md", f"Version {number}.")
    notes_folder.wait_for("a.md", ["Version 99."])


def test_a_new_folder_with_notes_in_it_is_seen(notes_folder: NotesFolder) -> None:
    notes_folder.watch()
    notes_folder.write("x/y/z/a.md", "deep")
    notes_folder.wait_for("x/y/z/a.md", ["deep"])
    notes_folder.write("x/y/z/a.md", "deeper")
    notes_folder.wait_for("x/y/z/a.md", ["deeper"])


def test_a_burst_of_changes_is_found_whole(notes_folder: NotesFolder) -> None:
    for number in range(400):
        notes_folder.write(f"d{number % 7}/n{number}.md", f"Number {number} is before.")
    notes_folder.watch()
    for number in range(400):
        notes_folder.write(f"d{number % 7}/n{number}.md", f"Number {number} is after.")
    notes_folder.wait(
        lambda: all(notes_folder.texts(f"d{n % 7}/n{n}.md") == [f"Number {n} is after."] for n in range(0, 400, 57))
    )
    assert notes_folder.notes.wait_until_settled(WAIT_SECONDS)
    assert all(file.title == f"n{file.path[4:-3]}" for file in notes_folder.files().values())
    with notes_folder.store.snapshot() as snapshot:
        assert sorted(memory.content for memory in snapshot.memories()) == sorted(
            f"Number {n} is after." for n in range(400)
        )


# Files that move, go and come back


def test_a_renamed_file_keeps_everything(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "# Title\n\ntext")
    notes_folder.watch()
    before = notes_folder.memories("a.md")
    path.rename(notes_folder.folder / "b.md")
    notes_folder.wait_for("b.md", ["text"])
    assert notes_folder.memories("b.md") == before
    assert list(notes_folder.files()) == ["b.md"]


def test_a_renamed_folder_keeps_everything(notes_folder: NotesFolder) -> None:
    for number in range(20):
        notes_folder.write(f"old/n{number}.md", f"Text {number}.")
    notes_folder.watch()
    before = {memory.id for number in range(20) for memory in notes_folder.memories(f"old/n{number}.md")}
    (notes_folder.folder / "old").rename(notes_folder.folder / "new")
    notes_folder.wait(lambda: all(notes_folder.texts(f"new/n{n}.md") == [f"Text {n}."] for n in range(20)))
    assert notes_folder.notes.wait_until_settled(WAIT_SECONDS)
    assert {memory.id for number in range(20) for memory in notes_folder.memories(f"new/n{number}.md")} == before
    assert notes_folder.count("trashed") == 0


def test_two_files_that_change_places_keep_their_memories(notes_folder: NotesFolder) -> None:
    one, two = notes_folder.write("one.md", "# X\n\nfirst"), notes_folder.write("two.md", "# X\n\nsecond")
    notes_folder.watch()
    ids = {text: notes_folder.ids(path) for path, text in (("one.md", "first"), ("two.md", "second"))}
    one.rename(notes_folder.folder / "three.md")
    two.rename(one)
    (notes_folder.folder / "three.md").rename(two)
    notes_folder.wait_for("one.md", ["second"])
    notes_folder.wait_for("two.md", ["first"])
    assert (notes_folder.ids("one.md"), notes_folder.ids("two.md")) == (ids["second"], ids["first"])
    assert sorted(notes_folder.files()) == ["one.md", "two.md"]


def test_a_copy_gets_ids_of_its_own(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "text")
    notes_folder.watch()
    shutil.copy(path, notes_folder.folder / "b.md")
    notes_folder.wait_for("b.md", ["text"])
    assert notes_folder.texts("a.md") == ["text"]
    assert set(notes_folder.ids("a.md")).isdisjoint(notes_folder.ids("b.md"))


def test_a_deleted_file_goes_to_the_trash_and_comes_back_with_the_file(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "text")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("a.md")
    path.unlink()
    notes_folder.wait(lambda: notes_folder.memory(memory_id).state == "trashed")
    with notes_folder.store.snapshot() as snapshot:
        entry = snapshot.trash(memory_id)
    assert entry is not None
    assert entry.why == "its note was deleted"
    notes_folder.write("elsewhere/a.md", "text")
    notes_folder.wait_for("elsewhere/a.md", ["text"])
    assert notes_folder.ids("elsewhere/a.md") == [memory_id]
    with notes_folder.store.snapshot() as snapshot:
        assert snapshot.trash(memory_id) is None


def test_changes_made_while_the_daemon_was_off_are_found_at_the_start(notes_folder: NotesFolder) -> None:
    notes_folder.write("edited.md", "# T\n\nThe port is 8080.")
    notes_folder.write("renamed.md", "# T\n\nKept as it is.")
    notes_folder.write("renamed and edited.md", f"# T\n\n{LONG}\n\n## More\n\nold")
    notes_folder.write("deleted.md", "# T\n\nGone.")
    notes_folder.watch()
    ids = {path: notes_folder.ids(path) for path in notes_folder.files()}

    def change() -> None:
        notes_folder.write("edited.md", "# T\n\nThe port is 9090.")
        (notes_folder.folder / "renamed.md").rename(notes_folder.folder / "other.md")
        (notes_folder.folder / "renamed and edited.md").rename(notes_folder.folder / "both.md")
        notes_folder.write("both.md", f"# T\n\n{LONG}\n\n## More\n\nnew")
        (notes_folder.folder / "deleted.md").unlink()
        notes_folder.write("new.md", "Born meanwhile.")

    notes_folder.restart(change)
    assert notes_folder.texts("edited.md") == ["The port is 9090."]
    assert notes_folder.ids("edited.md") == ids["edited.md"]
    assert notes_folder.ids("other.md") == ids["renamed.md"]
    assert notes_folder.ids("both.md")[0] == ids["renamed and edited.md"][0]
    assert notes_folder.memory(ids["deleted.md"][0]).state == "trashed"
    assert notes_folder.texts("new.md") == ["Born meanwhile."]


def test_a_restart_without_changes_writes_nothing(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", f"{LONG}\n\n[[b]]")
    notes_folder.write("b.md", "target")
    notes_folder.watch()
    seq = notes_folder.store.seq
    notes_folder.restart()
    assert notes_folder.store.seq == seq


# What a person does to a chunk


def test_settings_of_a_person_survive_edits(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "---\ntags: [one, two]\n---\nThe port of the server in the cellar is 8080. #three")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("a.md")
    notes_folder.edit(memory_id, tags=("one", "three", "mine"), importance=0.8, importance_source="user", pinned=True)
    notes_folder.write("a.md", "---\ntags: [one, two, four]\n---\nThe port of the server in the cellar is 9090. #five")
    notes_folder.wait_for("a.md", ["The port of the server in the cellar is 9090. #five"])
    memory = notes_folder.memory(memory_id)
    # `two` was taken away and stays away; `three` is gone from the file; `four` and `five` are new; `mine` is theirs
    assert memory.tags == ("one", "four", "five", "mine")
    assert (memory.importance, memory.pinned) == (0.8, True)


def test_settings_of_an_agent_survive_edits_and_a_new_text_takes_the_values_of_the_note(
    notes_folder: NotesFolder,
) -> None:
    notes_folder.write("a.md", "The port of the server in the cellar is 8080.")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("a.md")
    notes_folder.edit(memory_id, importance=0.8, importance_source="llm", trust="agent")
    notes_folder.write("a.md", "The port of the server in the cellar is 9090.")
    notes_folder.wait_for("a.md", ["The port of the server in the cellar is 9090."])
    memory = notes_folder.memory(memory_id)
    assert (memory.importance, memory.importance_source, memory.trust) == (0.8, "llm", "note")


def test_a_chunk_is_of_the_sort_that_its_text_says_until_a_person_says_otherwise(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "# A\n## One\nI prefer tabs to spaces.\n## Two\nThe port of the old server is 8080.\n")
    notes_folder.watch()
    one, two = notes_folder.ids("a.md")

    def sorts() -> list[tuple[str, str | None, str, float]]:
        return [(each.kind, each.form, each.category, each.decay_rate) for each in notes_folder.memories("a.md")]

    assert sorts() == [("procedural", "preference", "preference", 0.1), ("semantic", None, "fact", 0.3)]
    notes_folder.edit(two, category="project")
    notes_folder.write(
        "a.md", "# A\n## One\nI sold tabs to spaces.\n## Two\nI prefer the port of the old server, 8080.\n"
    )
    notes_folder.wait_for("a.md", ["I sold tabs to spaces.", "I prefer the port of the old server, 8080."])
    assert notes_folder.ids("a.md") == [one, two]
    assert sorts() == [("semantic", None, "fact", 0.3), ("semantic", None, "project", 0.3)]


def test_a_chunk_that_a_person_deleted_stays_away_until_its_text_changes(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "## One\nKeep this.\n## Two\nThe port is 8080.")
    notes_folder.watch()
    kept, deleted = notes_folder.ids("a.md")
    notes_folder.delete(deleted)
    notes_folder.write("a.md", "## One\nKeep this one.\n## Two\nThe port is 8080.")
    notes_folder.wait_for("a.md", ["Keep this one."])
    notes_folder.restart()
    notes_folder.rescan()
    assert notes_folder.texts("a.md") == ["Keep this one."]
    notes_folder.write("a.md", "## One\nKeep this one.\n## Two\nThe port is 9090.")
    notes_folder.wait_for("a.md", ["Keep this one.", "The port is 9090."])
    assert notes_folder.ids("a.md") == [kept, deleted]


def test_a_chunk_that_a_person_deleted_stays_away_when_its_file_goes_and_comes_back(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    notes_folder.watch()
    kept, deleted = notes_folder.ids("a.md")
    notes_folder.delete(deleted)
    path.unlink()
    notes_folder.wait(lambda: notes_folder.memory(kept).state == "trashed")
    notes_folder.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    notes_folder.wait_for("a.md", ["Keep this."])
    assert notes_folder.memory(deleted).state == "trashed"


def test_a_chunk_that_a_person_deleted_stays_away_when_it_is_cut_and_pasted(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    notes_folder.watch()
    notes_folder.delete(notes_folder.ids("a.md")[1])
    notes_folder.write("a.md", "## One\nKeep this.\n## Two\nSomething else entirely.")
    notes_folder.wait_for("a.md", ["Keep this.", "Something else entirely."])
    notes_folder.write("a.md", "## Zero\nFresh.\n## Two\nNot  this.")
    notes_folder.wait_for("a.md", ["Fresh."])


def test_counts_survive_an_edit_and_strength_begins_again(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "The port is 8080.")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("a.md")
    with notes_folder.store.snapshot() as snapshot:
        usage = snapshot.usage(memory_id)
    assert usage is not None
    notes_folder.put(PutUsage(data=msgspec.structs.replace(usage, access_count=7, strength=0.1)))
    notes_folder.write("a.md", "The port is 9090.")
    notes_folder.wait_for("a.md", ["The port is 9090."])
    with notes_folder.store.snapshot() as snapshot:
        after = snapshot.usage(memory_id)
    assert after is not None
    assert (after.access_count, after.strength) == (7, 0.5)


# What a file says of itself


def skip_reasons(notes_folder: NotesFolder) -> dict[str, str]:
    return {Path(skip.path).name: skip.reason for skip in notes_folder.notes.status().skipped}


def test_memory_false_takes_a_note_away_and_its_end_brings_it_back(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", "---\nmemory: true\n---\ntext")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("a.md")
    notes_folder.write("a.md", "---\nmemory: false\n---\ntext")
    notes_folder.wait(lambda: notes_folder.memory(memory_id).state == "trashed")
    notes_folder.wait(lambda: skip_reasons(notes_folder) == {"a.md": WITHOUT_PASSAGE})
    notes_folder.write("a.md", "---\nmemory: true\n---\ntext")
    notes_folder.wait(lambda: notes_folder.memory(memory_id).state == "active")
    assert notes_folder.count() == 1
    notes_folder.wait(lambda: skip_reasons(notes_folder) == {})
    notes_folder.write("b.md", "---\nmemory: false\n---\ntext")
    notes_folder.wait(lambda: skip_reasons(notes_folder) == {"b.md": WITHOUT_PASSAGE})


def test_a_changed_front_matter_reaches_every_chunk(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", f"---\ntags: [a]\n---\n{LONG}\n\n{LONG}x")
    notes_folder.watch()
    ids = notes_folder.ids("a.md")
    notes_folder.write("a.md", f"---\ntags: [b]\nimportance: 0.7\n---\n{LONG}\n\n{LONG}x")
    notes_folder.wait(lambda: {memory.tags for memory in notes_folder.memories("a.md")} == {("b",)})
    assert notes_folder.ids("a.md") == ids
    assert [memory.importance for memory in notes_folder.memories("a.md")] == [0.7, 0.7]


def test_an_ignore_file_takes_notes_away_and_its_end_brings_them_back(notes_folder: NotesFolder) -> None:
    notes_folder.write("drafts/a.md", "draft")
    notes_folder.write("b.md", "note")
    notes_folder.write("node_modules/x/readme.md", "never")
    notes_folder.watch()
    [memory_id] = notes_folder.ids("drafts/a.md")
    assert sorted(notes_folder.files()) == ["b.md", "drafts/a.md"]
    ignore = notes_folder.write(".mnemoignore", "drafts/\n")
    notes_folder.wait(lambda: notes_folder.memory(memory_id).state == "trashed")
    notes_folder.write("drafts/new.md", "never seen")
    ignore.unlink()
    notes_folder.wait(lambda: notes_folder.memory(memory_id).state == "active")
    notes_folder.wait_for("drafts/new.md", ["never seen"])


# Links


def links(notes_folder: NotesFolder, memory_id: str) -> set[str]:
    with notes_folder.store.snapshot() as snapshot:
        return {edge.target for edge in snapshot.edges(memory_id) if edge.source == memory_id}


def test_links_become_edges_and_follow_their_targets(notes_folder: NotesFolder) -> None:
    notes_folder.write("a.md", f"{LONG}\n\n## Links\n\nSee [[b]] and [[later|that]].")
    notes_folder.write("b.md", "target b")
    notes_folder.watch()
    assert notes_folder.notes.wait_until_settled(WAIT_SECONDS)
    source = notes_folder.ids("a.md")[1]
    [b] = notes_folder.ids("b.md")
    assert links(notes_folder, source) == {b}
    assert links(notes_folder, notes_folder.ids("a.md")[0]) == set()
    notes_folder.write("later.md", "target later")
    notes_folder.wait_for("later.md", ["target later"])
    assert links(notes_folder, source) == {b, *notes_folder.ids("later.md")}
    notes_folder.write("a.md", f"{LONG}\n\n## Links\n\nSee and [[later|that]].")
    notes_folder.wait_for("a.md", [LONG.strip(), "See and [[later|that]]."])
    assert links(notes_folder, source) == set(notes_folder.ids("later.md"))
