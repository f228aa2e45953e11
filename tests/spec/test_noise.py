"""Broken and hostile notes: what they cost, and that nothing a person said in them is lost. SPEC 6

    python -m tests.spec.test_noise BYTES

scans a folder of them, each so long, with the real service and store, and prints as JSON the processor time and the
peak of memory that this took, and what became of the files.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemo_core.documents.chunking import Chunk
from mnemo_core.documents.noise import STRETCH_BYTES_KEPT, is_noise, without_noise, without_repetitions
from mnemo_core.ingest.note_sync import NoteContent, plan_note
from mnemo_daemon.notes.folder_scan import NOISE, PART_NOISE, FileContent, FileStat, parse_note, why_skipped
from mnemo_store.records import NoteRoot
from tests.support.notes_folders import watched_notes_folder
from tests.support.time_complexity import require_linear

ROOT = NoteRoot(id="r", path="/vault", added_at=0, namespace="default")
BYTES = 1 << 18
UNITS_MAX = 50  # of 5 ms for a quarter of a megabyte: a second of an idle machine for a megabyte
SCAN_BYTES_MAX = 300_000_000
SAID = "The pears are pruned in February, before the buds open, and never later than March."
PIECES = (
    "<!--", "<!--\n", "<!-->", "-->", "<!-", "<!", "<![CDATA[", "<!DOCTYPE ", "<?", "<?php ", "&#", "&", "&a", "&amp;",
    "&#1;", "&#x", f"&#{'9' * 5000};", "<", "<a ", "<a\n", "</", "</a", "<a><b", "><", '<a href="', "<a b='", " a=b",
    "<img alt=", '<img alt="a">', "<div>", "</div>", "<p>", "<p>a", "<li>a</li>", "<b>", "<td>", "<tr><td>a", "<pre>",
    "<pre>a</pre>", "<title>a</title>", "<script>", "</script>", "<script/>", "<style", "<svg>", "<template>a",
    "<h1>a</h1>",
    "<h6>a", "a<br>", "<dt>a<dd>b", "<option>a", '"', "a\n\n", "# a\n", "~~~~\n", "三",
)  # fmt: skip


def hostile(piece: str, size: int, said: str = "") -> str:
    return said + piece * (size // len(piece) + 1)


def scan(folder: Path, size: int) -> dict[str, object]:
    with watched_notes_folder(folder) as notes_folder:
        for number, piece in enumerate(PIECES):
            notes_folder.write(f"{number}.{'html' if piece.isascii() else 'md'}", hostile(piece, size))
        began = time.process_time()
        notes_folder.watch()
        taken = time.process_time() - began
        passages = {path: len(file.chunks) for path, file in notes_folder.files().items()}
        skipped = {Path(each.path).name: each.reason for each in notes_folder.notes.status().skipped}
    status = Path("/proc/self/status").read_text(
        encoding="ascii"
    )  # ru_maxrss is that of the parent, where it was larger
    peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
    return {"seconds": taken, "peak": peak, "passages": passages, "skipped": skipped}


def read(text: str, suffix: str) -> NoteContent:
    data = text.encode()
    content = parse_note(FileContent(FileStat(f"a{suffix}", 1, 1, len(data)), data, "hash"), ROOT, "f")
    plan_note(content, None, {})
    return content


@pytest.mark.parametrize("suffix", [".html", ".md"])
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: repr(piece)[:20])
def test_a_hostile_note_costs_no_more_than_its_length_and_its_noise_is_no_passage(piece: str, suffix: str) -> None:
    above = SAID + "\n\n"
    require_linear(lambda part: read(above + part, suffix), hostile(piece, BYTES), UNITS_MAX)
    alone, below = read(hostile(piece, BYTES), suffix), read(hostile(piece, BYTES, above), suffix)
    assert alone.chunks == ()
    assert why_skipped(alone) == NOISE
    assert SAID in " ".join(chunk.text for chunk in below.chunks)
    assert why_skipped(below) == PART_NOISE
    assert len(below.chunks) <= 11


def test_a_scan_of_a_folder_of_hostile_notes_is_small_and_names_each_of_them() -> None:
    command = [sys.executable, "-m", "tests.spec.test_noise", str(1_000_000 // 3)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert len(found["passages"]) == len(PIECES) == 56
    assert set(found["passages"].values()) == {0}
    assert found["skipped"] == dict.fromkeys(found["passages"], NOISE)
    assert found["peak"] < SCAN_BYTES_MAX


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("<!--" * 200, True),
        ("=" * 500 + "\n" + "=" * 500, True),
        ("word " * 100, True),
        ("password=" * 60 + "passw", True),  # where it was cut
        ("one two three four " * 30, True),
        ("one two three four five " * 30, False),
        ("Call Bob" + "!" * 2_000, False),
        ("a " * 300 + "Call Bob", False),
        ("a " * 300 + "Bob", False),
        ("seed: " + "0123456789abcdef" * 40, False),
        ("!" * 300, False),  # short
        ("❤️" * 20, False),
    ],
)
def test_noise_is_a_long_text_of_a_few_words_each_of_which_is_said_often(text: str, noise: bool) -> None:
    assert is_noise(text) == noise


def test_of_equal_passages_below_the_same_headings_ten_are_kept() -> None:
    alike = [Chunk("Lunch", ("Monday",), line, line) for line in range(50)]
    other = [Chunk("Lunch", (f"Day {line}",), line, line) for line in range(50)]
    assert without_noise([*alike, *other], is_shortened=False) == [*alike[:10], *other]


TEXT = st.text(st.sampled_from("ab \n三é<"), max_size=40)


@given(st.lists(st.tuples(TEXT, st.text(min_size=1, max_size=9).filter(lambda text: text.isprintable())), max_size=3))
@example([("", "三é"), ("é", "三")])
@example([("a\n", "\n"), ("", "a\n\n")])
@example([("", "é" * 32)])
def test_of_a_repetition_the_beginning_and_every_newline_stay(parts: list[tuple[str, str]]) -> None:
    text = "".join(said + piece * 6_000 for said, piece in parts) + "the end"
    found = without_repetitions(text)
    assert found.count("\n") == text.count("\n")
    assert found.endswith("the end")
    assert len(found) <= 2_000 * len(parts) + sum(len(said) for said, _ in parts) + text.count("\n") + 7
    short = text[: STRETCH_BYTES_KEPT // 4]
    assert found.startswith(short)
    assert without_repetitions(short) == short


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(scan(Path(scratch), int(sys.argv[1]))))
