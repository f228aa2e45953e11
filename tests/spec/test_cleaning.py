"""Cleaning of texts and tags. SPEC 5.1, 2.1"""

import pytest

from mnemo_core.text.cleaning import (
    InvalidTextError,
    clean_tags,
    clean_text,
    remove_private_spans,
    valid_tags,
)
from tests.support.time_complexity import require_linear


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  hello \n", "hello"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\n\n\nb", "a\n\nb"),
        ("a\n\n\n\n\n\nb", "a\n\nb"),
        ("a\n\nb", "a\n\nb"),
        ("a\r\n\r\n\r\nb", "a\n\nb"),
        ("e\u0301", "\u00e9"),
        ("**bold** `code`\n```\nx = 1\n```", "**bold** `code`\n```\nx = 1\n```"),
        ("   \n ", ""),
    ],
)
def test_cleaning_strips_composes_and_limits_newlines(text: str, expected: str) -> None:
    assert clean_text(text) == expected
    assert clean_text(expected) == expected


def test_a_nul_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidTextError, match="NUL at character 2"):
        clean_text("ab\0c")


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidTextError, match="lone surrogate at character 1"):
        clean_text("a\ud800b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>secret</private> b", "a  b"),
        ("a <PRIVATE>secret</Private> b", "a  b"),
        ("a <private>one <private>two</private> three</private> b", "a  b"),
        ("a <private>never closed", "a"),
        ("a </private> b", "a </private> b"),
        ("<private>all</private>", ""),
        ("<privateer>stays</privateer>", "<privateer>stays</privateer>"),
        (":ref:`Names <private-names>` stay", ":ref:`Names <private-names>` stay"),
        ('a <private why="keys">secret</private > b', "a  b"),
    ],
)
def test_private_spans_are_left_out(text: str, expected: str) -> None:
    assert clean_text(text) == expected


def test_a_private_span_in_a_note_leaves_its_lines() -> None:
    assert remove_private_spans("a\n<private>x\ny</private>\nb", keep_lines=True) == "a\n\n\nb"
    assert remove_private_spans("a\n<private>x\ny", keep_lines=True) == "a\n\n"


def test_many_unclosed_private_tags_cost_no_more_than_their_length() -> None:
    require_linear(clean_text, "<private" * 200_000, units_max=400)


def test_tags_are_trimmed_lowered_and_kept_once_in_order() -> None:
    assert clean_tags([" Work ", "home", "WORK", "", "  ", "Zürich"]) == ("work", "home", "zürich")


def test_a_tag_has_at_most_32_characters() -> None:
    assert clean_tags(["x" * 32]) == ("x" * 32,)
    with pytest.raises(InvalidTextError, match="has 33 characters, at most 32"):
        clean_tags(["x" * 33])


def test_a_memory_has_at_most_20_tags_without_duplicates() -> None:
    twenty = [f"t{number}" for number in range(20)]
    assert len(clean_tags([*twenty, "T0"])) == 20
    with pytest.raises(InvalidTextError, match="21 tags, at most 20"):
        clean_tags([*twenty, "one more"])


def test_a_tag_with_a_line_break_is_refused() -> None:
    with pytest.raises(InvalidTextError, match="holds a control character"):
        clean_tags(["a\nb"])


def test_tags_from_a_file_that_do_not_fit_are_left_out() -> None:
    assert valid_tags(["ok", "x" * 33, "a\tb", "OK"]) == ("ok",)
    assert len(valid_tags(f"t{number}" for number in range(30))) == 20
