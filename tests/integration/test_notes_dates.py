"""Notes have the date that they give, and the time of the file only where they give none. SPEC 2.5, 6"""

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mnemo_store.records import PutMemory, PutNote
from tests.support.notes_folders import NotesFolder, watched_notes_folder

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


@pytest.fixture
def notes_folder(tmp_path: Path) -> Iterator[NotesFolder]:
    with watched_notes_folder(tmp_path) as notes_folder:
        yield notes_folder


def local(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(dt.datetime(year, month, day, hour).astimezone().timestamp() * 1000)


def dates(notes_folder: NotesFolder, path: str) -> list[tuple[int, bool]]:
    return [(each.event_at, each.note is not None and each.note.dated) for each in notes_folder.memories(path)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("2026-08-14.md", "We planted the pear tree."),
        ("journals/2026_08_14.md", "- We planted the pear tree."),
        ("20260814.txt", "We planted the pear tree."),
        ("tree.md", "# 14 August 2026\n\nWe planted the pear tree."),
        ("tree.md", "# Garden\n\n## Friday, 14 August 2026\n\n### Afternoon\n\nWe planted the pear tree."),
        ("tree.md", "---\ncreated: 2026-08-14\n---\nWe planted the pear tree."),
        ("2026-08-20.md", "---\ndate: 2026-08-14\n---\nWe planted the pear tree."),
        ("2026-08-14.md", "---\ncreated: 2026-09-20\n---\nWe planted the pear tree."),
        ("tree.md", "- DONE plant the pear tree\n  SCHEDULED: <2026-08-14 Fri>"),
        ("tree.md", "date:: [[Aug 14th, 2026]]\n\nWe planted the pear tree."),
        ("tree.org", "* Planted the pear tree <2026-08-14 Fri>\nIt stands by the gate."),
        ("tree.org", "#+date: 2026-01-01\n* DONE Plant it\nCLOSED: [2026-08-14 Fri]\nIt stands by the gate."),
        ("tree.org", "#+date: <2026-08-14 Fri>\n\nIt stands by the gate."),
    ],
)
def test_a_note_has_the_day_it_tells_of(notes_folder: NotesFolder, path: str, text: str) -> None:
    notes_folder.write(path, text)
    notes_folder.watch()
    assert dates(notes_folder, path) == [(local(2026, 8, 14), True)]


def test_without_a_date_the_time_of_the_file_orders_it_and_is_no_event(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("tree.md", "We planted the pear tree.")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    notes_folder.watch()
    assert dates(notes_folder, "tree.md") == [(1_700_000_000_123, False)]


def test_a_date_that_comes_and_goes_is_followed(notes_folder: NotesFolder) -> None:
    path = notes_folder.write("tree.md", "We planted the pear tree.")
    notes_folder.watch()
    path.write_text("---\ndate: 2026-08-14\n---\nWe planted the pear tree.")
    notes_folder.wait(lambda: dates(notes_folder, "tree.md") == [(local(2026, 8, 14), True)])
    path.write_text("We planted the pear tree.")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    notes_folder.wait(lambda: dates(notes_folder, "tree.md") == [(1_700_000_000_123, False)])


def test_a_file_that_was_read_by_older_rules_is_read_again_and_keeps_its_memories(notes_folder: NotesFolder) -> None:
    notes_folder.write("2026-08-14.md", "We planted the pear tree.")
    notes_folder.watch()
    [memory] = notes_folder.memories("2026-08-14.md")
    assert memory.note is not None

    former = msgspec.structs.replace(memory.note, dated=False)
    file = msgspec.structs.replace(notes_folder.files()["2026-08-14.md"], reader=0)
    notes_folder.put(
        PutMemory(data=msgspec.structs.replace(memory, version=2, event_at=5, note=former)), PutNote(data=file)
    )
    notes_folder.restart()
    notes_folder.wait(lambda: dates(notes_folder, "2026-08-14.md") == [(local(2026, 8, 14), True)])
    assert notes_folder.memories("2026-08-14.md")[0].id == memory.id
