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
from tests.vaults import WAIT_SECONDS, Vault, watched_vault

# The service puts the same filter in place for itself; pytest puts its own in place for each phase of a test.
pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")

LONG = "Alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 5  # 70 tokens: a chunk of its own


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with watched_vault(tmp_path) as vault:
        yield vault


# What is remembered


def test_a_note_becomes_memories_that_say_where_they_stand(vault: Vault) -> None:
    vault.write(
        "garden/roses.md",
        "---\ntags: [garden]\ndate: 2024-01-20T00:00:00Z\nimportance: 0.9\nnamespace: home\n---\n"
        "# Roses\n\n## Care\n\nWater them. #summer\n",
    )
    vault.watch()
    [memory] = vault.memories("garden/roses.md")
    file = vault.files()["garden/roses.md"]
    assert memory.content == "Water them. #summer"
    assert memory.note is not None
    assert (memory.note.title, memory.note.headings) == ("Roses", ("Care",))
    assert (memory.source, memory.trust, memory.layer, memory.managed) == ("note", "note", "working", file.id)
    assert (memory.kind, memory.category, memory.decay_rate) == ("episodic", "fact", 1.0)
    assert (memory.tags, memory.namespace, memory.importance) == (("garden", "summer"), "home", 0.9)
    assert memory.event_at == 1_705_708_800_000  # 2024-01-20 00:00 UTC
    assert (file.chunks[0].first_line, file.chunks[0].last_line) == (11, 11)
    with vault.store.snapshot() as snapshot:
        usage = snapshot.usage(memory.id)
    assert usage is not None
    assert usage.strength == 0.9


def test_tags_and_properties_belong_to_the_passages_that_have_them(vault: Vault) -> None:
    vault.write(
        "ines.md",
        "---\ntags: [people/friend]\nbirthday: 12 March 1985\n---\n# Ines\n\n## Music #cello\n\nShe plays.\n",
    )
    vault.watch()
    assert [(memory.content, memory.tags) for memory in vault.memories("ines.md")] == [
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

    vault = Vault(tmp_path, make_watch=Busy)
    vault.write("a-huge.md", LONG * 1_000)
    vault.write("saved.md", LONG * 300)
    for number in range(SLICE_FILES + 5):
        vault.write(f"small-{number}.md", f"Note {number}.")
    vault.watch()
    first = {path: vault.ids(path)[0] for path in vault.files()}
    by_time = sorted(first, key=lambda path: first[path])
    vault.close()
    assert by_time.index("saved.md") == SLICE_FILES
    assert by_time[-1] == "a-huge.md"
    assert vault.errors == []
    assert first["saved.md"] in vault.saved


def test_a_folder_is_being_read_until_it_was_looked_through_once(tmp_path: Path) -> None:
    seen: list[bool] = []

    class AskingWatch(WatchOf):
        on_start = staticmethod(lambda: seen.append(asked.notes.is_first_scan_running()))

    asked = vault = Vault(tmp_path, make_watch=AskingWatch)
    assert not vault.notes.is_first_scan_running()
    vault.write("a.md", "text")
    vault.watch()
    vault.wait(lambda: not vault.notes.is_first_scan_running())
    vault.close()
    assert seen == [True]


def test_without_a_date_the_files_time_is_the_memorys(vault: Vault) -> None:
    path = vault.write("a.md", "text")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    vault.watch()
    assert vault.memories("a.md")[0].event_at == 1_700_000_000_123


def test_all_formats_are_read_and_other_files_are_not(vault: Vault) -> None:
    for name in ("a.md", "b.rst", "c.rst.txt", "d.org", "e.txt", "f.markdown"):
        vault.write(name, "Some text.")
    vault.write("g.png", b"\x89PNG")
    vault.write("h.json", "{}")
    vault.write("sub/i.png", b"\x89PNG")
    vault.write("LICENSE", "text")
    vault.write(".obsidian/app.json", "{}")
    vault.write("drafts/j.md", "not yet")
    vault.write(".mnemoignore", "drafts/\n")
    os.mkfifo(vault.folder / "pipe")
    vault.watch()
    assert sorted(vault.files()) == ["a.md", "b.rst", "c.rst.txt", "d.org", "e.txt", "f.markdown"]
    status = vault.notes.status()
    assert {skip.path.removeprefix(f"{vault.folder}/"): skip.reason for skip in status.skipped} == {
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


def test_other_formats_are_read_and_what_they_are_not_is_said(vault: Vault) -> None:
    vault.write("board.canvas", '{"nodes":[\n{"id":"a1","type":"text","text":"Plant the pear tree. #garden"}\n]}')
    vault.write("page.html", "<title>Trees</title><script>var no</script><h2>Pears</h2>\n<p>Prune in February.</p>")
    vault.write("people.csv", "name,phone\nInes,+43 1 555\nAda,\n")
    vault.write("work.ipynb", '{"cells":[{"cell_type":"markdown","source":["# Yield\\n","\\n","Nine kilos."]}]}')
    vault.write("broken.ipynb", '{"cells": 3}')
    vault.write("deep.canvas", "[" * 100_000)
    vault.watch()
    [card] = vault.memories("board.canvas")
    assert (card.content, card.tags) == ("Plant the pear tree. #garden", ("garden",))
    [page] = vault.memories("page.html")
    assert page.content == "Prune in February."
    assert page.note is not None
    assert (page.note.title, page.note.headings) == ("Trees", ("Pears",))
    assert vault.texts("people.csv") == ["name: Ines; phone: +43 1 555\nname: Ada"]
    assert vault.texts("work.ipynb") == ["Nine kilos."]
    reasons = skip_reasons(vault)
    assert reasons["broken.ipynb"].startswith("not a Jupyter notebook")
    assert reasons["deep.canvas"].startswith("not a canvas file")


def test_equal_texts_in_two_files_are_two_memories(vault: Vault) -> None:
    vault.write("a.md", "The same text.")
    vault.write("b.md", "The same text.")
    vault.watch()
    assert vault.count() == 2


def test_a_chunk_with_a_secret_is_tagged_and_private_spans_are_left_out(vault: Vault) -> None:
    vault.write("a.md", f"<private>never\nthis</private>\n\n{LONG}\n\n## Login\n\nDB_PASSWORD=correcthorse\n")
    vault.watch()
    first, second = vault.memories("a.md")
    assert (first.tags, second.tags) == ((), ("sensitive",))
    assert first.content == LONG.strip()
    assert [ref.first_line for ref in vault.files()["a.md"].chunks] == [4, 8]


def test_an_unreadable_file_is_named_and_stops_nothing(vault: Vault, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("not ours")
    vault.write("binary.txt", b"a\0b")
    vault.write("latin.md", b"caf\xe9")
    vault.write("huge.md", b"x" * (1 << 20) + b"y")
    (vault.folder / "link.md").symlink_to(outside)
    (vault.folder / "loop").symlink_to(vault.folder)
    os.mkfifo(vault.folder / "pipe.md")
    vault.write("fine.md", "fine")
    vault.watch()
    assert list(vault.files()) == ["fine.md"]
    skipped = {Path(skip.path).name: skip.reason for skip in vault.notes.status().skipped}
    assert skipped == {
        "binary.txt": "binary: it holds a NUL",
        "latin.md": "not UTF-8 (byte 3)",
        "huge.md": "1.0 MiB, over 1 MiB",
        "link.md": "a symbolic link, which is not followed",
        "pipe.md": "not a regular file",
        "loop": "a symbolic link, which is not followed",
    }
    vault.rescan()
    assert vault.notes.status().skipped_total == 6
    vault.write("latin.md", "café")
    vault.wait_for("latin.md", ["café"])
    assert vault.notes.status().skipped_total == 5


def test_a_link_out_of_the_folder_is_not_followed_when_it_appears_later(vault: Vault, tmp_path: Path) -> None:
    vault.watch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("not ours")
    (vault.folder / "sub").symlink_to(tmp_path / "elsewhere")
    (vault.folder / "file.md").symlink_to(tmp_path / "elsewhere" / "x.md")
    vault.write("a.md", "ours")
    vault.wait_for("a.md", ["ours"])
    assert list(vault.files()) == ["a.md"]
    assert [skip.reason for skip in vault.notes.status().skipped] == ["a symbolic link, which is not followed"]
    vault.rescan()
    assert list(vault.files()) == ["a.md"]


def test_a_file_name_that_is_not_utf8_is_named(vault: Vault) -> None:
    with open(os.path.join(os.fsencode(vault.folder), b"caf\xe9.md"), "wb") as file:
        file.write(b"text")
    vault.watch()
    assert [skip.reason for skip in vault.notes.status().skipped] == ["its name is not UTF-8"]


# Edits


def test_an_edit_changes_only_the_chunk_that_changed(vault: Vault) -> None:
    vault.write("a.md", "# A\n## One\nThe port is 8080.\n## Two\nUntouched.\n")
    vault.watch()
    ids = vault.ids("a.md")
    vault.write("a.md", "# A\n## One\nThe port is 9090.\n## Two\nUntouched.\n")
    vault.wait_for("a.md", ["The port is 9090.", "Untouched."])
    assert vault.ids("a.md") == ids
    assert [memory.version for memory in vault.memories("a.md")] == [2, 1]


def test_text_that_only_moves_changes_no_memory(vault: Vault) -> None:
    vault.write("a.md", f"## One\n{LONG}\n## Two\nText.\n")
    vault.watch()
    ids = vault.ids("a.md")
    vault.write("a.md", f"\n\n## Zero\nNew.\n\n\n## Two\nText.\n## One\n{LONG}\n")
    vault.wait_for("a.md", ["New.", "Text.", LONG.strip()])
    assert vault.ids("a.md")[1:] == [ids[1], ids[0]]
    assert [memory.version for memory in vault.memories("a.md")] == [1, 1, 1]
    assert [ref.first_line for ref in vault.files()["a.md"].chunks] == [4, 8, 10]


def test_a_file_that_shrinks_leaves_no_tail(vault: Vault) -> None:
    vault.write("a.md", "\n".join(f"## H{number}\ntext {number}" for number in range(10)))
    vault.watch()
    vault.write("a.md", "## H0\ntext 0")
    vault.wait_for("a.md", ["text 0"])
    assert (vault.count("active"), vault.count("trashed")) == (1, 9)


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
def test_every_way_of_saving_is_seen(vault: Vault, save: Callable[[Path, str], None]) -> None:
    path = vault.write("a.md", "The port is 8080.")
    vault.watch()
    ids = vault.ids("a.md")
    save(path, "The port is 9090.")
    vault.wait(lambda: vault.texts("a.md") == ["The port is 9090."])
    assert vault.notes.wait_until_settled(WAIT_SECONDS)
    assert vault.ids("a.md") == ids
    assert list(vault.files()) == ["a.md"]


def test_a_file_saved_many_times_ends_at_its_last_text(vault: Vault) -> None:
    vault.watch()
    for number in range(100):
        vault.write("a.md", f"Version {number}.")
    vault.wait_for("a.md", ["Version 99."])


def test_a_new_folder_with_notes_in_it_is_seen(vault: Vault) -> None:
    vault.watch()
    vault.write("x/y/z/a.md", "deep")
    vault.wait_for("x/y/z/a.md", ["deep"])
    vault.write("x/y/z/a.md", "deeper")
    vault.wait_for("x/y/z/a.md", ["deeper"])


def test_a_burst_of_changes_is_found_whole(vault: Vault) -> None:
    for number in range(400):
        vault.write(f"d{number % 7}/n{number}.md", f"Number {number} is before.")
    vault.watch()
    for number in range(400):
        vault.write(f"d{number % 7}/n{number}.md", f"Number {number} is after.")
    vault.wait(lambda: all(vault.texts(f"d{n % 7}/n{n}.md") == [f"Number {n} is after."] for n in range(0, 400, 57)))
    assert vault.notes.wait_until_settled(WAIT_SECONDS)
    assert all(file.title == f"n{file.path[4:-3]}" for file in vault.files().values())
    with vault.store.snapshot() as snapshot:
        assert sorted(memory.content for memory in snapshot.memories()) == sorted(
            f"Number {n} is after." for n in range(400)
        )


# Files that move, go and come back


def test_a_renamed_file_keeps_everything(vault: Vault) -> None:
    path = vault.write("a.md", "# Title\n\ntext")
    vault.watch()
    before = vault.memories("a.md")
    path.rename(vault.folder / "b.md")
    vault.wait_for("b.md", ["text"])
    assert vault.memories("b.md") == before
    assert list(vault.files()) == ["b.md"]


def test_a_renamed_folder_keeps_everything(vault: Vault) -> None:
    for number in range(20):
        vault.write(f"old/n{number}.md", f"Text {number}.")
    vault.watch()
    before = {memory.id for number in range(20) for memory in vault.memories(f"old/n{number}.md")}
    (vault.folder / "old").rename(vault.folder / "new")
    vault.wait(lambda: all(vault.texts(f"new/n{n}.md") == [f"Text {n}."] for n in range(20)))
    assert vault.notes.wait_until_settled(WAIT_SECONDS)
    assert {memory.id for number in range(20) for memory in vault.memories(f"new/n{number}.md")} == before
    assert vault.count("trashed") == 0


def test_two_files_that_change_places_keep_their_memories(vault: Vault) -> None:
    one, two = vault.write("one.md", "# X\n\nfirst"), vault.write("two.md", "# X\n\nsecond")
    vault.watch()
    ids = {text: vault.ids(path) for path, text in (("one.md", "first"), ("two.md", "second"))}
    one.rename(vault.folder / "three.md")
    two.rename(one)
    (vault.folder / "three.md").rename(two)
    vault.wait_for("one.md", ["second"])
    vault.wait_for("two.md", ["first"])
    assert (vault.ids("one.md"), vault.ids("two.md")) == (ids["second"], ids["first"])
    assert sorted(vault.files()) == ["one.md", "two.md"]


def test_a_copy_gets_ids_of_its_own(vault: Vault) -> None:
    path = vault.write("a.md", "text")
    vault.watch()
    shutil.copy(path, vault.folder / "b.md")
    vault.wait_for("b.md", ["text"])
    assert vault.texts("a.md") == ["text"]
    assert set(vault.ids("a.md")).isdisjoint(vault.ids("b.md"))


def test_a_deleted_file_goes_to_the_trash_and_comes_back_with_the_file(vault: Vault) -> None:
    path = vault.write("a.md", "text")
    vault.watch()
    [memory_id] = vault.ids("a.md")
    path.unlink()
    vault.wait(lambda: vault.memory(memory_id).state == "trashed")
    with vault.store.snapshot() as snapshot:
        entry = snapshot.trash(memory_id)
    assert entry is not None
    assert entry.why == "its note was deleted"
    vault.write("elsewhere/a.md", "text")
    vault.wait_for("elsewhere/a.md", ["text"])
    assert vault.ids("elsewhere/a.md") == [memory_id]
    with vault.store.snapshot() as snapshot:
        assert snapshot.trash(memory_id) is None


def test_changes_made_while_the_daemon_was_off_are_found_at_the_start(vault: Vault) -> None:
    vault.write("edited.md", "# T\n\nThe port is 8080.")
    vault.write("renamed.md", "# T\n\nKept as it is.")
    vault.write("renamed and edited.md", f"# T\n\n{LONG}\n\n## More\n\nold")
    vault.write("deleted.md", "# T\n\nGone.")
    vault.watch()
    ids = {path: vault.ids(path) for path in vault.files()}

    def change() -> None:
        vault.write("edited.md", "# T\n\nThe port is 9090.")
        (vault.folder / "renamed.md").rename(vault.folder / "other.md")
        (vault.folder / "renamed and edited.md").rename(vault.folder / "both.md")
        vault.write("both.md", f"# T\n\n{LONG}\n\n## More\n\nnew")
        (vault.folder / "deleted.md").unlink()
        vault.write("new.md", "Born meanwhile.")

    vault.restart(change)
    assert vault.texts("edited.md") == ["The port is 9090."]
    assert vault.ids("edited.md") == ids["edited.md"]
    assert vault.ids("other.md") == ids["renamed.md"]
    assert vault.ids("both.md")[0] == ids["renamed and edited.md"][0]
    assert vault.memory(ids["deleted.md"][0]).state == "trashed"
    assert vault.texts("new.md") == ["Born meanwhile."]


def test_a_restart_without_changes_writes_nothing(vault: Vault) -> None:
    vault.write("a.md", f"{LONG}\n\n[[b]]")
    vault.write("b.md", "target")
    vault.watch()
    seq = vault.store.seq
    vault.restart()
    assert vault.store.seq == seq


# What a person does to a chunk


def test_settings_of_a_person_survive_edits(vault: Vault) -> None:
    vault.write("a.md", "---\ntags: [one, two]\n---\nThe port of the server in the cellar is 8080. #three")
    vault.watch()
    [memory_id] = vault.ids("a.md")
    vault.edit(memory_id, tags=("one", "three", "mine"), importance=0.8, importance_source="user", pinned=True)
    vault.write("a.md", "---\ntags: [one, two, four]\n---\nThe port of the server in the cellar is 9090. #five")
    vault.wait_for("a.md", ["The port of the server in the cellar is 9090. #five"])
    memory = vault.memory(memory_id)
    # `two` was taken away and stays away; `three` is gone from the file; `four` and `five` are new; `mine` is theirs
    assert memory.tags == ("one", "four", "five", "mine")
    assert (memory.importance, memory.pinned) == (0.8, True)


def test_settings_of_an_agent_survive_edits_and_a_new_text_takes_the_values_of_the_note(vault: Vault) -> None:
    vault.write("a.md", "The port of the server in the cellar is 8080.")
    vault.watch()
    [memory_id] = vault.ids("a.md")
    vault.edit(memory_id, importance=0.8, importance_source="llm", trust="agent")
    vault.write("a.md", "The port of the server in the cellar is 9090.")
    vault.wait_for("a.md", ["The port of the server in the cellar is 9090."])
    memory = vault.memory(memory_id)
    assert (memory.importance, memory.importance_source, memory.trust) == (0.8, "llm", "note")


def test_a_chunk_is_of_the_sort_that_its_text_says_until_a_person_says_otherwise(vault: Vault) -> None:
    vault.write("a.md", "# A\n## One\nI prefer tabs to spaces.\n## Two\nThe port of the old server is 8080.\n")
    vault.watch()
    one, two = vault.ids("a.md")

    def sorts() -> list[tuple[str, str | None, str, float]]:
        return [(each.kind, each.form, each.category, each.decay_rate) for each in vault.memories("a.md")]

    assert sorts() == [("procedural", "preference", "preference", 0.1), ("semantic", None, "fact", 0.3)]
    vault.edit(two, category="project")
    vault.write("a.md", "# A\n## One\nI sold tabs to spaces.\n## Two\nI prefer the port of the old server, 8080.\n")
    vault.wait_for("a.md", ["I sold tabs to spaces.", "I prefer the port of the old server, 8080."])
    assert vault.ids("a.md") == [one, two]
    assert sorts() == [("semantic", None, "fact", 0.3), ("semantic", None, "project", 0.3)]


def test_a_chunk_that_a_person_deleted_stays_away_until_its_text_changes(vault: Vault) -> None:
    vault.write("a.md", "## One\nKeep this.\n## Two\nThe port is 8080.")
    vault.watch()
    kept, deleted = vault.ids("a.md")
    vault.delete(deleted)
    vault.write("a.md", "## One\nKeep this one.\n## Two\nThe port is 8080.")
    vault.wait_for("a.md", ["Keep this one."])
    vault.restart()
    vault.rescan()
    assert vault.texts("a.md") == ["Keep this one."]
    vault.write("a.md", "## One\nKeep this one.\n## Two\nThe port is 9090.")
    vault.wait_for("a.md", ["Keep this one.", "The port is 9090."])
    assert vault.ids("a.md") == [kept, deleted]


def test_a_chunk_that_a_person_deleted_stays_away_when_its_file_goes_and_comes_back(vault: Vault) -> None:
    path = vault.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    vault.watch()
    kept, deleted = vault.ids("a.md")
    vault.delete(deleted)
    path.unlink()
    vault.wait(lambda: vault.memory(kept).state == "trashed")
    vault.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    vault.wait_for("a.md", ["Keep this."])
    assert vault.memory(deleted).state == "trashed"


def test_a_chunk_that_a_person_deleted_stays_away_when_it_is_cut_and_pasted(vault: Vault) -> None:
    vault.write("a.md", "## One\nKeep this.\n## Two\nNot this.")
    vault.watch()
    vault.delete(vault.ids("a.md")[1])
    vault.write("a.md", "## One\nKeep this.\n## Two\nSomething else entirely.")
    vault.wait_for("a.md", ["Keep this.", "Something else entirely."])
    vault.write("a.md", "## Zero\nFresh.\n## Two\nNot  this.")
    vault.wait_for("a.md", ["Fresh."])


def test_counts_survive_an_edit_and_strength_begins_again(vault: Vault) -> None:
    vault.write("a.md", "The port is 8080.")
    vault.watch()
    [memory_id] = vault.ids("a.md")
    with vault.store.snapshot() as snapshot:
        usage = snapshot.usage(memory_id)
    assert usage is not None
    vault.put(PutUsage(data=msgspec.structs.replace(usage, access_count=7, strength=0.1)))
    vault.write("a.md", "The port is 9090.")
    vault.wait_for("a.md", ["The port is 9090."])
    with vault.store.snapshot() as snapshot:
        after = snapshot.usage(memory_id)
    assert after is not None
    assert (after.access_count, after.strength) == (7, 0.5)


# What a file says of itself


def skip_reasons(vault: Vault) -> dict[str, str]:
    return {Path(skip.path).name: skip.reason for skip in vault.notes.status().skipped}


def test_memory_false_takes_a_note_away_and_its_end_brings_it_back(vault: Vault) -> None:
    vault.write("a.md", "---\nmemory: true\n---\ntext")
    vault.watch()
    [memory_id] = vault.ids("a.md")
    vault.write("a.md", "---\nmemory: false\n---\ntext")
    vault.wait(lambda: vault.memory(memory_id).state == "trashed")
    vault.wait(lambda: skip_reasons(vault) == {"a.md": WITHOUT_PASSAGE})
    vault.write("a.md", "---\nmemory: true\n---\ntext")
    vault.wait(lambda: vault.memory(memory_id).state == "active")
    assert vault.count() == 1
    vault.wait(lambda: skip_reasons(vault) == {})
    vault.write("b.md", "---\nmemory: false\n---\ntext")
    vault.wait(lambda: skip_reasons(vault) == {"b.md": WITHOUT_PASSAGE})


def test_a_changed_front_matter_reaches_every_chunk(vault: Vault) -> None:
    vault.write("a.md", f"---\ntags: [a]\n---\n{LONG}\n\n{LONG}x")
    vault.watch()
    ids = vault.ids("a.md")
    vault.write("a.md", f"---\ntags: [b]\nimportance: 0.7\n---\n{LONG}\n\n{LONG}x")
    vault.wait(lambda: {memory.tags for memory in vault.memories("a.md")} == {("b",)})
    assert vault.ids("a.md") == ids
    assert [memory.importance for memory in vault.memories("a.md")] == [0.7, 0.7]


def test_an_ignore_file_takes_notes_away_and_its_end_brings_them_back(vault: Vault) -> None:
    vault.write("drafts/a.md", "draft")
    vault.write("b.md", "note")
    vault.write("node_modules/x/readme.md", "never")
    vault.watch()
    [memory_id] = vault.ids("drafts/a.md")
    assert sorted(vault.files()) == ["b.md", "drafts/a.md"]
    ignore = vault.write(".mnemoignore", "drafts/\n")
    vault.wait(lambda: vault.memory(memory_id).state == "trashed")
    vault.write("drafts/new.md", "never seen")
    ignore.unlink()
    vault.wait(lambda: vault.memory(memory_id).state == "active")
    vault.wait_for("drafts/new.md", ["never seen"])


# Links


def links(vault: Vault, memory_id: str) -> set[str]:
    with vault.store.snapshot() as snapshot:
        return {edge.target for edge in snapshot.edges(memory_id) if edge.source == memory_id}


def test_links_become_edges_and_follow_their_targets(vault: Vault) -> None:
    vault.write("a.md", f"{LONG}\n\n## Links\n\nSee [[b]] and [[later|that]].")
    vault.write("b.md", "target b")
    vault.watch()
    assert vault.notes.wait_until_settled(WAIT_SECONDS)
    source = vault.ids("a.md")[1]
    [b] = vault.ids("b.md")
    assert links(vault, source) == {b}
    assert links(vault, vault.ids("a.md")[0]) == set()
    vault.write("later.md", "target later")
    vault.wait_for("later.md", ["target later"])
    assert links(vault, source) == {b, *vault.ids("later.md")}
    vault.write("a.md", f"{LONG}\n\n## Links\n\nSee and [[later|that]].")
    vault.wait_for("a.md", [LONG.strip(), "See and [[later|that]]."])
    assert links(vault, source) == set(vault.ids("later.md"))
