"""Notes that say little but their names, tags that a question names, and HTML in notes. SPEC 6, 7.3"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from mnemo_client.client import Client
from mnemo_daemon.notes.folder_scan import WITHOUT_PASSAGE
from tests.support.erasure_services import wait_until
from tests.support.notes_folders import NotesFolder, watched_notes_folder
from tests.support.running_daemon import RunningDaemon

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")

LONG = "Alpha beta gamma delta epsilon zeta eta theta iota kappa. " * 5  # 70 tokens: a chunk of its own


@pytest.fixture
def notes_folder(tmp_path: Path) -> Iterator[NotesFolder]:
    with watched_notes_folder(tmp_path) as notes_folder:
        yield notes_folder


@pytest.mark.parametrize(
    ("path", "text", "passage"),
    [
        ("Passport renewal 2027.md", "", "Passport renewal 2027"),
        ("travel/papers/Passport renewal 2027.md", " \n\n", "Passport renewal 2027 (travel/papers)"),
        ("Passport 2027.txt", "", "Passport 2027"),
        ("Steuererklärung.md", "", "Steuererklärung"),
        ("护照更新.md", "", "护照更新"),
        ("todo.md", "# Renew the passport", "Renew the passport (todo)"),
        ("travel/todo.md", "# Renew the passport", "Renew the passport (travel/todo)"),
        ("Anna.md", "# Anna", "Anna"),
        ("a.org", "#+title: Renew the passport", "Renew the passport (a)"),
        ("a.html", "<title>Renew the passport</title><body></body>", "Renew the passport (a)"),
        ("Untitled.md", "---\ntitle: Renew the passport\n---\n", "Renew the passport (Untitled)"),
    ],
)
def test_a_note_of_a_title_alone_is_a_passage_of_title_and_path(
    notes_folder: NotesFolder, path: str, text: str, passage: str
) -> None:
    notes_folder.write(path, text)
    notes_folder.watch()
    assert notes_folder.texts(path) == [passage]
    assert notes_folder.notes.status().skipped == []


@pytest.mark.parametrize(
    "path",
    ["Untitled.md", "untitled 3.md", "New note.md", "Neue Notiz 2.md", "无标题.md", "2026-05-03.md", "3 May 2026.md",
     "IMG_20260503.md", "a1b2c3.md", "Anna.md", "travel and papers/x.md", "notes/Copy of Untitled (2).md"],
)  # fmt: skip
def test_an_empty_note_whose_name_tells_nothing_is_no_memory(notes_folder: NotesFolder, path: str) -> None:
    notes_folder.write(path, "\n")
    notes_folder.watch()
    assert notes_folder.texts(path) == []
    assert [each.reason for each in notes_folder.notes.status().skipped] == [WITHOUT_PASSAGE]


def test_the_passage_of_a_title_follows_its_note(notes_folder: NotesFolder) -> None:
    notes_folder.write("Untitled.md", "")
    notes_folder.watch()
    (notes_folder.folder / "Untitled.md").rename(notes_folder.folder / "Passport renewal 2027.md")
    notes_folder.wait_for("Passport renewal 2027.md", ["Passport renewal 2027"])
    (notes_folder.folder / "travel").mkdir()
    shutil.move(
        notes_folder.folder / "Passport renewal 2027.md", notes_folder.folder / "travel" / "Passport renewal 2027.md"
    )
    path = "travel/Passport renewal 2027.md"
    notes_folder.wait_for(path, ["Passport renewal 2027 (travel)"])
    notes_folder.restart(lambda: (notes_folder.folder / "travel").rename(notes_folder.folder / "papers"))
    path = "papers/Passport renewal 2027.md"
    notes_folder.wait_for(path, ["Passport renewal 2027 (papers)"])
    [memory_id] = notes_folder.ids(path)
    notes_folder.write(path, "Bring two photos.")
    notes_folder.wait_for(path, ["Bring two photos."])
    notes_folder.write(path, "")
    notes_folder.wait_for(path, ["Passport renewal 2027 (papers)"])
    (notes_folder.folder / path).unlink()
    notes_folder.wait_for(path, [])
    assert notes_folder.memory(memory_id).state == "trashed"
    assert notes_folder.errors == []


def test_the_title_of_a_note_with_memory_false_or_with_text_is_no_passage(notes_folder: NotesFolder) -> None:
    notes_folder.write("Passport renewal 2027.md", "---\nmemory: false\n---\n")
    notes_folder.write("travel/Boat trips.md", f"# Boats\n\n{LONG}")
    notes_folder.watch()
    assert notes_folder.texts("Passport renewal 2027.md") == []
    assert notes_folder.texts("travel/Boat trips.md") == [LONG.strip()]


# Found by a question: the daemon with the model

NOTES = {
    "travel/Passport renewal 2027.md": "",
    "home/plumber.md": "# Ask the plumber about the boiler",
    "travel/Packing list.md": "Passport, tickets, chargers and the blue rucksack. The passport is in the upper drawer.",
    "carbonara.md": "---\ntags: [recipe]\n---\nWhisk eggs with pecorino, fry the guanciale, toss with hot pasta.",
    "borscht.md": "Boil beets, cabbage and potatoes in stock for an hour. Serve with dill. #recipe",
    "dal.md": "---\ntags: [recipe, indian]\n---\nSimmer red lentils with turmeric, add fried cumin and garlic.",
    "kale.md": "---\ntags: [recipe]\n---\nFür 6 Personen: 2 kg Grünkohl und 6 Pinkel zwei Stunden schmoren.",
    "syrup.md": "---\ntags: [recipe]\n---\n30 Dolden, 2 l Wasser und 2 kg Zucker drei Tage ziehen lassen.",
    "library.md": "All my recipe books are due at the library on Friday. The recipes of my aunt are in the attic.",
    "work.md": "Moving the release to Friday was a recipe for disaster, as all of my colleagues had said.",
    "garden.md": "Boil water before you clean the beets. All my tools are in the shed.",
    "boiler.md": "The boiler of the house was made in 1998 and needs 1.5 bar.",
}


@pytest.fixture(scope="module")
def noted(model_daemon: RunningDaemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("notes") / "vault"
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    with model_daemon.client() as client:
        client.remember("Stew the pears in red wine with cinnamon and a clove.", tags=["recipe"])
        client.add_root(folder)
        wait_until(lambda: client.status().memories == len(NOTES) + 1)
        model_daemon.wait_for_vectors()
        yield client


def hits(client: Client, query: str, cut: Literal["none", "gap"] = "none") -> list[str]:
    found = client.recall(query, top_k=10, cut=cut).memories
    return [each.content if each.note is None else each.note.path.rpartition("vault/")[2] for each in found]


def test_a_question_finds_the_note_that_says_it_with_its_title(noted: Client) -> None:
    assert hits(noted, "renewal of the passport in 2027")[0] == "travel/Passport renewal 2027.md"
    assert hits(noted, "when must the passport be renewed")[0] == "travel/Passport renewal 2027.md"
    assert hits(noted, "whom did I want to ask about the boiler")[0] == "home/plumber.md"


@pytest.mark.parametrize("query", ["all my recipes", "#recipe", "show me every recipe", "Rezept #recipe"])
def test_a_tag_that_the_question_names_counts(noted: Client, query: str) -> None:
    found = hits(noted, query)
    assert {"carbonara.md", "borscht.md", "dal.md"} < set(found[:6])
    assert any(each.startswith("Stew the pears") for each in found[:6])


def test_the_end_of_the_list_leaves_in_what_has_the_tag_that_is_asked_for(noted: Client) -> None:
    found = hits(noted, "all my recipes", cut="gap")
    assert {"carbonara.md", "borscht.md", "dal.md", "kale.md", "syrup.md"} < set(found)


def test_a_question_that_names_no_tag_is_as_it_was(noted: Client) -> None:
    assert hits(noted, "what was a recipe for disaster")[0] == "work.md"
    assert hits(noted, "when are the books due at the library")[0] == "library.md"
    assert hits(noted, "how do I make lentils")[0] == "dal.md"


# HTML in Markdown


PAGE = """\
# <span class="zigzag">Boat</span> trips

<!-- Later: zebra
second line of the comment

end of it --> The <b style="color: #quince">boat</b> leaves at 9&nbsp;am &amp; H<sub>2</sub>O is free.
<script>
var walrus = "<p>no</p>";
</script>
<div align="xylophone">

    <code>indented</code> is code

- item <!-- vulture -->
  <img src="warthog.png" alt="A map"
       width="5"> and `<b>` and 1 < 2, List<String>, <https://example.org>

```html
<div class="kept"><!-- kept too --></div>
```
</div>
"""


def test_html_in_markdown_is_neither_shown_nor_searched(notes_folder: NotesFolder) -> None:
    notes_folder.write("boat.md", PAGE)
    notes_folder.watch()
    [memory] = notes_folder.memories("boat.md")
    assert memory.note is not None
    assert memory.note.title == "Boat trips"
    assert memory.tags == ()
    assert memory.content == (
        "The boat leaves at 9 am & H2O is free.\n\n"
        "    <code>indented</code> is code\n\n"
        "- item\n  A map\nand `<b>` and 1 < 2, List<String>, <https://example.org>\n\n"
        '```html\n<div class="kept"><!-- kept too --></div>\n```'
    )
