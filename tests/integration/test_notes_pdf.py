"""PDF files in a folder of notes: read by a process of their own, or named with the reason. SPEC 6"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_core.documents.word_file import UNPACKED_BYTES_MAX
from mnemo_daemon.notes.pdf_reader import Limits, ReadInterruption, UnreadablePdf, read_pdf_file
from tests.support.notes_folders import NotesFolder, watched_notes_folder
from tests.support.pdf_files import bomb, endless_page, page_content, pdf_file, pdf_of

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")


@pytest.fixture
def notes_folder(tmp_path: Path) -> Iterator[NotesFolder]:
    with watched_notes_folder(tmp_path) as notes_folder:
        yield notes_folder


def reasons_of(notes_folder: NotesFolder) -> dict[str, str]:
    return {Path(skip.path).name: skip.reason for skip in notes_folder.notes.status().skipped}


def test_each_page_of_a_pdf_is_remembered_with_its_number(notes_folder: NotesFolder) -> None:
    notes_folder.write("lease.pdf", pdf_file(["The rent is due", "on the third."], [], ["DB_PASSWORD=correcthorse"]))
    notes_folder.watch()
    rent, keys = notes_folder.memories("lease.pdf")
    assert (rent.content, keys.content) == ("The rent is due\non the third.", "DB_PASSWORD=correcthorse")
    assert rent.note is not None
    assert keys.note is not None
    assert (rent.note.title, rent.note.headings, keys.note.headings) == ("lease", ("Page 1",), ("Page 3",))
    assert [(ref.first_line, ref.last_line) for ref in notes_folder.files()["lease.pdf"].chunks] == [(1, 1), (3, 3)]
    assert (rent.tags, keys.tags) == ((), ("sensitive",))
    assert reasons_of(notes_folder) == {}


def test_a_changed_page_changes_only_its_memories(notes_folder: NotesFolder) -> None:
    notes_folder.write("plan.PDF", pdf_file(["Plant pears."], ["Prune the apples in March."]))
    notes_folder.watch()
    before = notes_folder.ids("plan.PDF")
    notes_folder.write("plan.PDF", pdf_file(["Plant pears."], ["Prune the quinces in March."]))
    notes_folder.wait_for("plan.PDF", ["Plant pears.", "Prune the quinces in March."])
    assert notes_folder.ids("plan.PDF") == before


WHOLE = pdf_file(["Some text."])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (WHOLE[:-100], "no PDF file: "),
        (b"\x00garbage\xff" * 100, "no PDF file: "),
        (b"", "no PDF file: "),
        (pdf_of([page_content(["x"])], encrypted=True), "an encrypted PDF file"),
        (pdf_file([], []), "a PDF file with no text in it (a scan?)"),
        (bomb(100), "a PDF file that cannot be read: Limit reached"),
        (WHOLE + b" " * (1 << 20), "1.0 MiB, over 1 MiB"),
    ],
    ids=["truncated", "garbage", "empty", "encrypted", "scan", "bomb", "huge"],
)
def test_a_pdf_that_cannot_be_read_is_named_and_stops_nothing(
    notes_folder: NotesFolder, data: bytes, reason: str
) -> None:
    notes_folder.write("bad.pdf", data)
    notes_folder.write("fine.pdf", WHOLE)
    notes_folder.watch()
    assert list(notes_folder.files()) == ["fine.pdf"]
    reasons = reasons_of(notes_folder)
    assert list(reasons) == ["bad.pdf"]
    assert reasons["bad.pdf"].startswith(reason)


def test_without_the_extra_every_pdf_is_named_and_what_was_read_stays(
    notes_folder: NotesFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes_folder.write("known.pdf", pdf_file(["Read before."]))
    notes_folder.watch()

    def uninstall() -> None:
        notes_folder.write("new.pdf", pdf_file(["Never read."]))
        monkeypatch.setitem(sys.modules, "pypdf", None)

    notes_folder.restart(uninstall)
    wanted = "install mnemod[pdf] to read PDF files"
    assert reasons_of(notes_folder) == {"known.pdf": wanted, "new.pdf": wanted}
    assert notes_folder.texts("known.pdf") == ["Read before."]
    notes_folder.write("late.pdf", pdf_file(["Never read."]))
    notes_folder.wait(lambda: reasons_of(notes_folder).get("late.pdf") == wanted)

    monkeypatch.undo()
    notes_folder.rescan()
    assert reasons_of(notes_folder) == {}
    assert notes_folder.texts("new.pdf") == ["Never read."]


def has_child_process() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def test_a_daemon_that_stops_does_not_wait_for_a_pdf_and_reads_it_the_next_time(notes_folder: NotesFolder) -> None:
    notes_folder.watch()
    notes_folder.write("slow.pdf", endless_page(2_000_000))
    notes_folder.wait(has_child_process)

    def look_and_replace() -> None:
        assert reasons_of(notes_folder) == {}  # it was not read to its end
        notes_folder.write("slow.pdf", pdf_file(["Read at last."]))

    notes_folder.restart(look_and_replace)
    notes_folder.wait_for("slow.pdf", ["Read at last."])


# The process that reads


def test_pages_are_apart_and_nothing_in_them_is_lost() -> None:
    assert read_pdf_file(pdf_file(["one", "two"], [], ["t\xfcr"])) == "one\ntwo\n\f\n\ft\xfcr"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(cpu_s=1), "takes more than 1 s of processor time"),
        (Limits(deadline_s=0.5), r"was not read after 0\.5 s"),
        (Limits(memory_bytes=150 << 20), "takes more than 150 MiB of memory"),
        (Limits(text_bytes=4_000), "more than 4000 bytes of text"),
    ],
)
def test_a_pdf_takes_no_more_than_it_may(limits: Limits, reason: str) -> None:
    lines = 3_000 if limits.text_bytes == 4_000 else 2_000_000
    with pytest.raises(UnreadablePdf, match=reason):
        read_pdf_file(endless_page(lines), limits)


def test_within_the_same_memory_a_small_file_is_read() -> None:
    assert read_pdf_file(pdf_file(["Hello"]), Limits(memory_bytes=150 << 20)) == "Hello"


def test_the_defaults_are_bounded() -> None:
    assert Limits().memory_bytes <= 1 << 30
    assert Limits().cpu_s < Limits().deadline_s <= 120
    assert Limits().text_bytes <= UNPACKED_BYTES_MAX


def test_reading_ends_when_the_daemon_stops() -> None:
    asked: list[bool] = []

    def is_stopping() -> bool:
        asked.append(True)
        return len(asked) > 1

    with pytest.raises(ReadInterruption):
        read_pdf_file(endless_page(2_000_000), is_stopping=is_stopping)


@pytest.mark.parametrize(
    "act",
    ["import socket; socket.socket()", "import subprocess; subprocess.run(['true'])", "import os; os.system('true')"],
)
def test_the_process_that_reads_reaches_no_network_and_starts_no_program(act: str) -> None:
    program = (
        f"from mnemo_daemon.notes import pdf_reader; pdf_reader.confine(pdf_reader.Limits()); {act}; print('done')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "PermissionError: reading a PDF file needs no" in ended.stderr
    assert ended.stdout == ""


def test_the_daemon_itself_never_loads_the_library() -> None:
    program = (
        "import sys; from mnemo_daemon.notes import notes_service, pdf_reader; "
        "from tests.support.pdf_files import pdf_file; "
        "text = pdf_reader.read_pdf_file(pdf_file(['Hello'])); print(text, 'pypdf' in sys.modules)"
    )
    root = Path(__file__).resolve().parent.parent.parent
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert ended.stdout.split() == ["Hello", "False"]
