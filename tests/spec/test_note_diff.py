"""Matching of new and old chunks, of files, and of links to files. SPEC 6"""

import pytest

from mnemo_core.documents.note_diff import (
    ChunkText,
    NewFile,
    PreviousFile,
    link_key,
    match_chunks,
    match_files,
    resolve_link,
    text_hash,
)
from mnemo_core.similarity.thresholds import jaccard, words
from mnemo_store.record_texts import skip_hash
from tests.support.time_complexity import cost_growth


def chunk(text: str, *headings: str) -> ChunkText:
    return ChunkText(text_hash(text), headings, text)


def test_unchanged_text_is_found_wherever_it_moved() -> None:
    old = [chunk("one", "A"), chunk("two", "A"), chunk("three", "B")]
    new = [chunk("three", "B"), chunk("brand new words here", "C"), chunk("one", "A"), chunk("two", "B")]
    assert match_chunks(old, new) == [2, None, 0, 1]


def test_of_equal_texts_those_below_the_same_heading_belong_together() -> None:
    old = [chunk("todo", "A"), chunk("todo", "B")]
    assert match_chunks(old, [chunk("todo", "B"), chunk("todo", "A")]) == [1, 0]


def test_half_of_the_words_shared_is_a_new_version() -> None:
    # {port, is, 8080} and {port, is, 9090} share 2 of 4 words: exactly one half
    assert match_chunks([chunk("port is 8080", "A")], [chunk("port is 9090", "A")]) == [0]
    # {port, 8080} and {port, 9090} share 1 of 3
    assert match_chunks([chunk("port 8080", "A")], [chunk("port 9090", "A")]) == [None]


def test_a_changed_text_below_another_heading_is_new() -> None:
    assert match_chunks([chunk("port is 8080", "A")], [chunk("port is 9090", "B")]) == [None]


def test_the_most_alike_wins_and_none_is_given_twice() -> None:
    old = [chunk("a b c d", "A"), chunk("a b c x", "A")]
    new = [chunk("a b c x y", "A"), chunk("a b c d", "A"), chunk("a b c", "A")]
    assert match_chunks(old, new) == [1, 0, None]


def test_chinese_is_compared_by_characters() -> None:
    assert words("我喜欢茶 Tea") == {"我", "喜", "欢", "茶", "tea"}
    assert match_chunks([chunk("我喜欢喝绿茶", "A")], [chunk("我喜欢喝红茶", "A")]) == [0]


def test_words_that_are_not_there_are_not_alike() -> None:
    assert jaccard(words("…"), words("…")) == 0.0


def test_thousands_of_changed_chunks_below_one_heading_are_matched_quickly() -> None:
    old = [chunk(f"line {number} alpha beta gamma delta") for number in range(4000)]
    new = [chunk(f"line {number} alpha beta gamma epsilon") for number in range(4000)]
    assert match_chunks(old, new) == list(range(4000))
    found = cost_growth(
        "chunks", lambda count: match_chunks(old[:count], new[:count]), (1000, 2000, 4000), units_max=800
    )
    assert found is None, str(found)


def test_a_skip_hash_needs_the_salt_and_knows_no_case() -> None:
    assert skip_hash("00ff", "My  Text") == skip_hash("00ff", "my text")
    assert skip_hash("00ff", "my text") != skip_hash("00fe", "my text")


def before(name: str, content: str, inode: int = 0, root: str = "r") -> PreviousFile:
    return PreviousFile(f"id-{name}", root, name, inode, content)


def now(name: str, content: str, inode: int = 0, root: str = "r") -> NewFile:
    return NewFile(root, name, inode, content)


@pytest.mark.parametrize(
    ("known", "found", "expected"),
    [
        pytest.param([before("a", "h1")], [now("b", "h1")], ["id-a"], id="renamed"),
        pytest.param([before("a", "h1")], [now("a", "h2")], ["id-a"], id="edited"),
        pytest.param([before("a", "h1", 7)], [now("b", "h1", 8)], ["id-a"], id="moved by copying"),
        pytest.param(
            [before("a", "h1"), before("b", "h2")], [now("a", "h2"), now("b", "h1")], ["id-b", "id-a"], id="swapped"
        ),
        pytest.param([before("a", "h1"), before("b", "h2")], [now("a", "h2")], ["id-b"], id="moved over another"),
        pytest.param([], [now("a", "h1")], [None], id="new"),
        pytest.param([before("a", "h1")], [now("b", "h1"), now("c", "h1")], ["id-a", None], id="renamed and copied"),
        pytest.param([before("a", "h1", root="r")], [now("a", "h1", root="s")], ["id-a"], id="to another root"),
        pytest.param(
            [before("a", "h", 7), before("b", "h", 8)],
            [now("c", "h", 8), now("d", "h", 7)],
            ["id-b", "id-a"],
            id="alike, told by inode",
        ),
    ],
)
def test_a_file_keeps_its_id(known: list[PreviousFile], found: list[NewFile], expected: list[str | None]) -> None:
    assert match_files(known, found) == expected


def test_a_renamed_and_edited_file_is_known_by_its_inode_only_if_it_shares_text() -> None:
    known, found = [before("a", "h1", 7)], [now("b", "h2", 7)]
    assert match_files(known, found, lambda b, n: True) == ["id-a"]
    assert match_files(known, found, lambda b, n: False) == [None]


def test_an_inode_of_another_root_says_nothing() -> None:
    assert match_files([before("a", "h1", 7, "r")], [now("b", "h2", 7, "s")], lambda b, n: True) == [None]


def test_a_link_and_its_file_have_the_same_key() -> None:
    assert link_key("folder/My Note.md") == link_key("my note") == link_key("Other/MY NOTE")
    assert link_key("x.rst.txt") == "x"


def test_a_link_means_the_file_that_fits_best() -> None:
    candidates = ["x/note.md", "a/b/note.md", "note.md"]
    assert resolve_link("note", "a/b/me.md", candidates) == "a/b/note.md"
    assert resolve_link("x/note", "a/b/me.md", candidates) == "x/note.md"
    assert resolve_link("note", "z/me.md", candidates) == "note.md"
    assert resolve_link("note", "z/me.md", []) is None
