"""Cutting texts into chunks. SPEC 5.2: expected sizes are counted by hand, a token being four characters."""

import time

import pytest

from mnemo_core.chunking import CHARS_PER_TOKEN, TOKENS_MAX, TOKENS_MIN, Chunk, estimate_tokens, split
from mnemo_core.markup import parse


def sentence(words: int, word: str = "lorem") -> str:
    """A sentence of so many words of five characters: words · 6 characters, its full stop and blank included."""
    return ("A" + word[1:] + " " + f"{word} " * (words - 1)).rstrip() + ". "


def paragraph(tokens: int) -> str:
    """One sentence of exactly so many tokens."""
    return "A" + "b" * (tokens * CHARS_PER_TOKEN - 2) + "."


def markdown(text: str) -> list[Chunk]:
    return split(parse(text, ".md", "stem").blocks)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("日本語", 3),
        ("日本語 abcd", 5),
        ("한국어", 3),
        ("カタカナ、", 5),
        ("éèàü", 1),
    ],
)
def test_tokens_are_a_quarter_of_the_characters_and_ideographs_one_each(text: str, tokens: int) -> None:
    assert estimate_tokens([text]) == [tokens]


def test_a_short_whole_stays_one_piece() -> None:
    assert split("hello") == [Chunk("hello", (), 1, 1)]
    assert split("") == []
    assert split(" \n\n ") == []


def test_blank_lines_part_paragraphs_of_fifty_tokens() -> None:
    one, two = paragraph(TOKENS_MIN), paragraph(TOKENS_MIN)
    assert split(f"{one}\n\n{two}") == [Chunk(one, (), 1, 1), Chunk(two, (), 3, 3)]


def test_a_piece_under_fifty_joins_the_next() -> None:
    one, two, three = paragraph(49), paragraph(60), paragraph(60)
    assert [chunk.text for chunk in split(f"{one}\n\n{two}\n\n{three}")] == [f"{one}\n\n{two}", three]


def test_a_last_piece_under_fifty_joins_the_one_before() -> None:
    one, two = paragraph(60), paragraph(10)
    assert split(f"{one}\n\n\n\n{two}") == [Chunk(f"{one}\n\n{two}", (), 1, 5)]


def test_joining_never_crosses_a_heading() -> None:
    assert [(c.text, c.headings, c.first_line) for c in markdown("# T\n## A\nshort\n## B\nalso short")] == [
        ("short", ("A",), 3), ("also short", ("B",), 5),
    ]  # fmt: skip


def test_a_paragraph_over_three_hundred_is_cut_at_sentence_ends() -> None:
    # 8 sentences of 40 words: 8 · 240 characters = 480 tokens, two pieces of four sentences
    chunks = split("".join(sentence(40) for _ in range(8)))
    assert [chunk.text.count(".") for chunk in chunks] == [4, 4]
    assert all(chunk.text.endswith(".") for chunk in chunks)


def test_the_lines_of_a_cut_paragraph_are_counted() -> None:
    text = "\n".join(sentence(40).strip() for _ in range(8))
    assert [(c.first_line, c.last_line) for c in split(text)] == [(1, 4), (5, 8)]


def test_an_abbreviation_before_a_small_letter_ends_no_sentence() -> None:
    text = ("Many things, e.g. " + "small " * 60).strip() + ". "
    assert not any(chunk.text.endswith("e.g.") for chunk in split(text * 5))


def test_chinese_is_cut_at_its_own_full_stops() -> None:
    text = ("一" * 79 + "。") * 5  # 400 tokens without a blank: two pieces
    chunks = split(text)
    assert [len(chunk.text) for chunk in chunks] in ([240, 160], [160, 240])
    assert "".join(chunk.text for chunk in chunks) == text


def test_a_sentence_without_an_end_is_cut_at_blanks() -> None:
    chunks = split("word " * 1000)  # 1250 tokens
    assert all(estimate_tokens([chunk.text])[0] <= TOKENS_MAX for chunk in chunks)
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks)


def test_a_line_without_any_blank_is_cut_anywhere() -> None:
    chunks = split("x" * 10_000)
    assert "".join(chunk.text for chunk in chunks) == "x" * 10_000
    assert all(len(chunk.text) <= TOKENS_MAX * CHARS_PER_TOKEN for chunk in chunks)


def test_a_short_text_stays_with_the_list_it_introduces() -> None:
    items = "\n".join(f"- item {number} {'x' * 60}" for number in range(40))  # about 700 tokens
    assert [chunk.text for chunk in markdown(f"Steps:\n\n{items}")] == [f"Steps:\n\n{items}"]


@pytest.mark.parametrize(
    "block",
    [
        "```\n" + "x = 1\n" * 800 + "```",
        "\n".join(f"- {'y' * 70}" for _ in range(90)),
        "| a |\n|---|\n" + "| b |\n" * 900,
    ],
)
def test_code_lists_and_tables_stay_whole_over_three_hundred_tokens(block: str) -> None:
    assert TOKENS_MAX * CHARS_PER_TOKEN < len(block) <= 8192
    assert [chunk.text for chunk in markdown(block)] == [block.strip()]


def test_a_table_no_memory_can_hold_is_cut_between_rows_with_its_header() -> None:
    rows = [f"| row {number:04} | {'z' * 80} |" for number in range(200)]  # 200 · 97 characters
    chunks = markdown("| name | value |\n|------|-------|\n" + "\n".join(rows))
    assert len(chunks) == 3
    for chunk in chunks:
        assert chunk.text.startswith("| name | value |\n|------|-------|\n| row ")
        assert len(chunk.text) <= 8192
    assert [row for chunk in chunks for row in chunk.text.split("\n")[2:]] == rows
    assert chunks[0].first_line == 1
    assert chunks[1].first_line == chunks[0].last_line + 1
    assert chunks[2].last_line == 202


def test_code_no_memory_can_hold_is_cut_between_lines() -> None:
    lines = ["```", *(f"print({number:05})" for number in range(1000)), "```"]
    chunks = markdown("\n".join(lines))
    assert len(chunks) == 2
    assert [line for chunk in chunks for line in chunk.text.split("\n")] == lines


def test_a_short_piece_between_two_long_ones_is_shared_out() -> None:
    # 20 + 295 tokens are too many for one piece and 20 too few: cut anew, both halves have about 158
    long = (sentence(33) * 6).strip()  # 6 · 198 characters = 297 tokens
    chunks = split(f"Short one here.\n\n{long}")
    sizes = [estimate_tokens([chunk.text])[0] for chunk in chunks]
    assert len(sizes) == 2
    assert all(TOKENS_MIN <= size <= TOKENS_MAX for size in sizes)


def test_a_models_own_count_can_be_used() -> None:
    def count(texts: "list[str] | tuple[str, ...]") -> list[int]:
        return [len(text) for text in texts]

    chunks = split("Aa bb. " * 100, count)  # type: ignore[arg-type]
    assert all(len(chunk.text) <= TOKENS_MAX for chunk in chunks)


@pytest.mark.parametrize(
    "text",
    [
        "." * 300_000,
        "a. " * 100_000,
        "\n" * 300_000 + "x",
        "。" * 200_000,
        "x" * 1_000_000,
        "a\n\n" * 40_000,
        " \n" * 100_000,
    ],
)
def test_hostile_texts_are_cut_in_time(text: str) -> None:
    began = time.thread_time()
    split(text)
    assert time.thread_time() - began < 3.0
