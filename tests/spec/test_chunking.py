"""Cutting texts into chunks. SPEC 5.2: expected sizes are counted by hand, a token being four characters.

In what comes in by `ingest` (split_text) a token is a word here.
"""

from collections.abc import Sequence

import pytest

from mnemo_core.documents.chunking import (
    CHARS_PER_TOKEN,
    TOKENS_MAX,
    TOKENS_MIN,
    Chunk,
    estimate_tokens,
    split_blocks,
    split_text,
)
from mnemo_core.documents.markup import parse
from tests.support.time_complexity import require_linear


def sentence(words: int, word: str = "lorem") -> str:
    """A sentence of so many words of five characters: words · 6 characters, its full stop and blank included."""
    return ("A" + word[1:] + " " + f"{word} " * (words - 1)).rstrip() + ". "


def paragraph(tokens: int) -> str:
    """One sentence of exactly so many tokens."""
    return "A" + "b" * (tokens * CHARS_PER_TOKEN - 2) + "."


def markdown(text: str) -> list[Chunk]:
    return split_blocks(parse(text, ".md", "stem").blocks)


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
    assert split_blocks("hello") == [Chunk("hello", (), 1, 1)]
    assert split_blocks("") == []
    assert split_blocks(" \n\n ") == []


def test_blank_lines_part_paragraphs_of_fifty_tokens() -> None:
    one, two = paragraph(TOKENS_MIN), paragraph(TOKENS_MIN)
    assert split_blocks(f"{one}\n\n{two}") == [Chunk(one, (), 1, 1), Chunk(two, (), 3, 3)]


def test_a_piece_under_fifty_joins_the_next() -> None:
    one, two, three = paragraph(49), paragraph(60), paragraph(60)
    assert [chunk.text for chunk in split_blocks(f"{one}\n\n{two}\n\n{three}")] == [f"{one}\n\n{two}", three]


def test_a_last_piece_under_fifty_joins_the_one_before() -> None:
    one, two = paragraph(60), paragraph(10)
    assert split_blocks(f"{one}\n\n\n\n{two}") == [Chunk(f"{one}\n\n{two}", (), 1, 5)]


def test_joining_never_crosses_a_heading() -> None:
    assert [(c.text, c.headings, c.first_line) for c in markdown("# T\n## A\nshort\n## B\nalso short")] == [
        ("short", ("A",), 3), ("also short", ("B",), 5),
    ]  # fmt: skip


def test_a_paragraph_over_three_hundred_is_cut_at_sentence_ends() -> None:
    # 8 sentences of 40 words: 8 · 240 characters = 480 tokens, two pieces of four sentences
    chunks = split_blocks("".join(sentence(40) for _ in range(8)))
    assert [chunk.text.count(".") for chunk in chunks] == [4, 4]
    assert all(chunk.text.endswith(".") for chunk in chunks)


def test_the_lines_of_a_cut_paragraph_are_counted() -> None:
    text = "\n".join(sentence(40).strip() for _ in range(8))
    assert [(c.first_line, c.last_line) for c in split_blocks(text)] == [(1, 4), (5, 8)]


def test_an_abbreviation_before_a_small_letter_ends_no_sentence() -> None:
    text = ("Many things, e.g. " + "small " * 60).strip() + ". "
    assert not any(chunk.text.endswith("e.g.") for chunk in split_blocks(text * 5))


def test_chinese_is_cut_at_its_own_full_stops() -> None:
    text = ("一" * 79 + "。") * 5  # 400 tokens without a blank: two pieces
    chunks = split_blocks(text)
    assert [len(chunk.text) for chunk in chunks] in ([240, 160], [160, 240])
    assert "".join(chunk.text for chunk in chunks) == text


def test_a_sentence_without_an_end_is_cut_at_blanks() -> None:
    chunks = split_blocks("word " * 1000)  # 1250 tokens
    assert all(estimate_tokens([chunk.text])[0] <= TOKENS_MAX for chunk in chunks)
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks)


def test_a_line_without_any_blank_is_cut_anywhere() -> None:
    chunks = split_blocks("x" * 10_000)
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
    chunks = split_blocks(f"Short one here.\n\n{long}")
    sizes = [estimate_tokens([chunk.text])[0] for chunk in chunks]
    assert len(sizes) == 2
    assert all(TOKENS_MIN <= size <= TOKENS_MAX for size in sizes)


def test_a_models_own_count_can_be_used() -> None:
    def count(texts: "list[str] | tuple[str, ...]") -> list[int]:
        return [len(text) for text in texts]

    chunks = split_blocks("Aa bb. " * 100, count)  # type: ignore[arg-type]
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
    require_linear(split_blocks, text, units_max=600)


# What comes in by `ingest`


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def say(count: int, word: str = "word") -> str:
    """A sentence of so many words."""
    return " ".join([word.capitalize(), *[word] * (count - 1)]) + "."


def pieces(text: str) -> list[str]:
    return [chunk.text for chunk in split_text(text, words)]


def test_L3_blank_lines_part_the_paragraphs_of_a_text() -> None:
    one, two = say(60), say(70)
    assert split_text(f"{one}\n\n{two}", words) == [Chunk(one, (), 1, 1), Chunk(two, (), 3, 3)]


def test_L4_a_paragraph_over_300_tokens_is_cut_at_sentence_ends() -> None:
    # 400 tokens: two pieces of 200, four sentences each
    sentences = [say(50, word) for word in "abcdefgh"]
    assert pieces(" ".join(sentences)) == [" ".join(sentences[:4]), " ".join(sentences[4:])]


def test_L4_a_paragraph_of_300_tokens_is_not_cut() -> None:
    text = " ".join([say(100), say(100), say(100)])
    assert pieces(text) == [text]


def test_L4_a_sentence_over_300_tokens_is_cut_between_words() -> None:
    found = pieces(say(700, "abc"))
    assert [word for piece in found for word in piece.split()] == say(700, "abc").split()
    assert all(50 <= len(piece.split()) <= 300 for piece in found)


def test_L5_a_piece_under_50_tokens_joins_its_neighbour() -> None:
    short, long, end = say(49), say(60), say(10)
    assert pieces(f"{short}\n\n{long}") == [f"{short}\n\n{long}"]
    assert pieces(f"{long}\n\n{end}") == [f"{long}\n\n{end}"]
    assert pieces(f"{say(50)}\n\n{long}") == [say(50), long]


def test_L5_a_text_of_one_short_piece_stays_short() -> None:
    assert pieces("Hello there.") == ["Hello there."]
    assert pieces(" \n\n\n") == []
    assert pieces("") == []


def test_L6_a_fence_with_blank_lines_in_it_stays_whole() -> None:
    code = "```python\n" + "print('a b c d e')\n\n" * 100 + "```"  # 500 words and 200 lines
    assert len(code) <= 8192
    assert pieces(f"{say(60)}\n\n{code}\n\n{say(60)}") == [say(60), code.replace("\n\n\n", "\n\n"), say(60)]


def test_a_table_that_no_memory_can_hold_has_its_header_before_every_piece() -> None:
    rows = [f"| {number:04} | {'z' * 90} |" for number in range(200)]
    found = pieces("## Stock\n\n| no | name |\n|----|------|\n" + "\n".join(rows))
    assert found[0].startswith("## Stock\n\n| no | name |\n|----|------|\n| 0000 |")
    assert all(piece.startswith("| no | name |\n|----|------|\n| ") for piece in found[1:])
    assert all(len(piece) <= 8192 for piece in found)
    assert [line for piece in found for line in piece.split("\n") if line[:3] in ("| 0", "| 1")] == rows


def test_a_word_without_end_that_the_model_counts_as_one_is_cut_all_the_same() -> None:
    found = [chunk.text for chunk in split_text("x" * 50_000, lambda texts: [1 for _ in texts])]
    assert "".join(found) == "x" * 50_000
    assert all(len(piece) <= 8192 for piece in found)


def test_a_heading_stands_before_what_it_heads_and_every_piece_has_its_trail() -> None:
    long = " ".join([say(23)] * 13)  # 299 tokens, 301 with the heading: cut in two, six sentences and seven
    text = f"# Book\n\n{say(60)}\n\n## One\n\n{long}\n\n### Deep\n\n{say(80)}\n\n## Two\n\n{say(70)}"
    assert [(chunk.headings, chunk.text.split("\n")[0], chunk.first_line) for chunk in split_text(text, words)] == [
        ((), "# Book", 1),  # the one heading at the top is the title
        (("One",), "## One", 5),
        (("One",), " ".join([say(23)] * 7), 7),
        (("One", "Deep"), "### Deep", 9),
        (("Two",), "## Two", 13),
    ]


def test_sections_that_are_too_short_alone_join_and_keep_their_headings() -> None:
    text = f"## Monday\n\n{say(20)}\n\n## Tuesday\n\n{say(40)}\n\n## Wednesday\n\n{say(60)}"
    found = split_text(text, words)
    assert [(chunk.headings, chunk.text) for chunk in found] == [
        (("Monday",), f"## Monday\n\n{say(20)}\n\n## Tuesday\n\n{say(40)}"),
        (("Wednesday",), f"## Wednesday\n\n{say(60)}"),
    ]


def test_text_that_markdown_would_drop_is_kept() -> None:
    text = "---\ntitle: Trip\n---\nFirst.\n\n***\n\nHeaded\n======\n\nSecond.\n\n## Nothing below"
    assert pieces(text) == [text]


def test_prose_that_is_set_in_from_the_margin_is_no_code() -> None:
    found = pieces(f"    {say(200)}\n    {say(200)}")
    assert [len(piece.split()) for piece in found] == [200, 200]
    code = "    if a > 0:\n" + "        b = c[d] + 1  # e\n" * 100
    assert len(pieces(code)) == 1


def test_chinese_sentences_are_cut_at_their_full_stops() -> None:
    text = ("一" * 79 + "。") * 5
    found = [chunk.text for chunk in split_text(text, estimate_tokens)]
    assert [len(piece) for piece in found] in ([240, 160], [160, 240])


def test_an_introductory_line_stays_with_the_list_it_announces() -> None:
    # the first is long enough; its short end stays with it, and a signature goes with what it does
    first, end, does = say(60), say(10), say(50)
    signature = ".. function:: compress(data, selectors)"
    text = f"{first}\n\n{end}\n\n{signature}\n\n   {does}"
    assert [chunk.text for chunk in split_text(text, words, ".rst")] == [
        f"{first}\n\n{end}",
        f"{signature}\n\n   {does}",
    ]


def test_a_heading_and_its_label_do_not_end_the_piece_before_them() -> None:
    first, end, below = say(60), say(10), say(50)
    head = ".. _below:\n\nBelow\n-----"
    text = f"{first}\n\n{end}\n\n{head}\n\n{below}"
    assert [chunk.text for chunk in split_text(text, words, ".rst")] == [f"{first}\n\n{end}", f"{head}\n\n{below}"]


def test_code_stands_with_the_words_that_announce_it() -> None:
    code = "```\n" + "a = b\n" * 20 + "```"
    announced = say(60)[:-1] + ":"
    assert pieces(f"{announced}\n\n{code}") == [f"{announced}\n\n{code}"]
    assert pieces(f"{say(60)}\n\n{code}") == [say(60), code]
    assert pieces(f"{say(60)}\n\n{say(5)}\n\nSo:\n\n{code}") == [f"{say(60)}\n\n{say(5)}", f"So:\n\n{code}"]


def test_the_change_of_a_version_stands_with_what_was_changed() -> None:
    added = ".. versionadded:: 3.1"
    assert [chunk.text for chunk in split_text(f"{say(60)}\n\n{added}\n\n{say(60)}", words, ".rst")] == [
        f"{say(60)}\n\n{added}",
        say(60),
    ]


def test_a_rule_is_no_piece_of_its_own() -> None:
    rule = " ".join(["="] * 60)  # of 60 tokens
    assert pieces(f"{say(60)}\n\n{rule}\n\n{say(60)}") == [say(60), f"{rule}\n\n{say(60)}"]
    assert pieces(f"{say(60)}\n\n{rule}") == [f"{say(60)}\n\n{rule}"]


def test_labels_that_come_again_here_and_there_make_no_conversation() -> None:
    # 20 paragraphs, of which two names begin two each: in a conversation what goes on had the name before it
    long = " ".join([say(50)] * 8)
    text = "\n\n".join([*[say(60)] * 16, f"Default: {say(60)}", long, f"Inheritance: {say(60)}", long,
                        f"Default: {say(60)}", long, f"Inheritance: {say(60)}", *[say(60)] * 16])  # fmt: skip
    assert not [piece for piece in pieces(text) if piece.startswith(("Default: Word word", "Inheritance: Word word"))
                and piece not in (f"Default: {say(60)}", f"Inheritance: {say(60)}")]  # fmt: skip


# Conversations


@pytest.mark.parametrize(
    ("first", "second", "gap"),
    [
        ("Anna: ", "Ben: ", "\n"),
        ("Anna: ", "Ben: ", "\n\n"),
        ("[10:02] Anna: ", "[10:03] Ben: ", "\n"),
        ("10:02 - Anna: ", "10:03 - Ben: ", "\n"),
        ("[21.11.26, 10:02:11] Anna: ", "[21.11.26, 10:03:07] Ben: ", "\n"),
        ("**User:** ", "**Assistant:** ", "\n\n"),
        ("**User**: ", "**Assistant**: ", "\n\n"),
        ("user: ", "assistant: ", "\n"),
        ("- Anna: ", "- Ben: ", "\n"),
        ("Speaker 1 (0:15): ", "Speaker 2 (0:31): ", "\n"),
        ("田中：", "佐藤：", "\n"),
    ],
)
def test_short_turns_are_together_and_none_is_cut(first: str, second: str, gap: str) -> None:
    # 20 turns of 30 tokens, one more for each that joins: 9 turns are 278, 10 were 309
    turns = [
        name + " ".join([f"w{number}"] * (31 - len((name + "w").split())))
        for number, name in enumerate([first, second] * 10)
    ]  # fmt: skip
    found = pieces(gap.join(turns))
    assert [piece.split(gap) for piece in found] == [turns[:9], turns[9:18], turns[18:]]


def test_the_lines_of_a_conversation_are_counted() -> None:
    # 60 tokens, and seven turns of 30 to the same piece; the first turn is in line 3
    turns = [f"{'Anna' if number % 2 else 'Ben'}: {say(29)}" for number in range(12)]
    found = split_text(f"{say(60)}\n\n" + "\n".join(turns), words)
    assert [(chunk.first_line, chunk.last_line) for chunk in found] == [(1, 9), (10, 14)]


def test_later_parts_of_a_long_turn_begin_with_its_speaker() -> None:
    sentences = [say(50, word) for word in "abcdefghij"]
    text = f"Anna: {' '.join(sentences)}\nBen: {say(40)}\nAnna: {say(20)}\nBen: yes."
    found = pieces(text)
    assert found[0].startswith("Anna: A a a")
    assert all(piece.startswith("Anna: ") for piece in found)
    assert found[-1].endswith(f"\nBen: {say(40)}\nAnna: {say(20)}\nBen: yes.")
    said = " ".join(found).replace("Anna: ", "")
    assert [word for word in said.split() if len(word) < 3] == " ".join(sentences).split()
    assert all(50 <= len(piece.split()) <= 300 for piece in found)


def test_code_stays_with_who_shows_it() -> None:
    code = "```\n" + "x = 1\n" * 200 + "```"
    text = f"**User:** {say(100)}\n\n**Assistant:** {say(250)}\n\n{code}\n\n**User:** {say(60)}"
    assert pieces(text) == [
        f"**User:** {say(100)}", f"**Assistant:** {say(250)}", f"Assistant:\n{code}", f"**User:** {say(60)}",
    ]  # fmt: skip
    assert pieces(text.replace(say(250), "Like this:"))[1] == f"**Assistant:** Like this:\n\n{code}"


def test_a_turn_too_short_alone_is_filled_up_from_a_long_one() -> None:
    sentences = [say(29, word) for word in "abcdefghij"]  # 291 tokens with the name
    greeting = f"Ben: {say(9)}"  # 10 + 291 + 1 tokens are too many
    found = pieces(f"{greeting}\nAnna: {' '.join(sentences)}\nBen: {say(260)}\nAnna: yes.")
    assert found[0].startswith(f"{greeting}\nAnna: A a")
    assert found[1].startswith("Anna: ")
    assert found[2] == f"Ben: {say(260)}\nAnna: yes."
    assert all(50 <= len(piece.split()) <= 300 for piece in found)


def test_a_last_turn_too_short_alone_takes_one_from_before() -> None:
    # 9 turns of 30 are 278 tokens; the tenth has 25 and takes the ninth to itself
    turns = [f"{'Anna' if number % 2 else 'Ben'}: {say(29)}" for number in range(9)] + [f"Anna: {say(24)}"]
    assert [piece.split("\n") for piece in pieces("\n".join(turns))] == [turns[:8], turns[8:]]


@pytest.mark.parametrize("names", ["Note Result Author", "Note Note Note", "Note note result"])
def test_words_before_a_colon_are_not_yet_a_conversation(names: str) -> None:
    # of each 401 tokens, too many for one piece: in a conversation, what follows would have the name before it again
    text = "\n".join(f"{name}: {' '.join([say(40)] * 10)}" for name in names.split())
    assert " ".join(pieces(text)).split() == text.split()


def test_headings_part_a_conversation_from_what_is_said_before() -> None:
    text = f"## Budget\n\nAnna: {say(200)}\nBen: {say(40)}\n\n## Travel\n\n{say(60)}\n\nAnna: {say(20)}\nBen: no."
    assert [(chunk.headings, chunk.text) for chunk in split_text(text, words)] == [
        (("Budget",), f"## Budget\n\nAnna: {say(200)}\nBen: {say(40)}"),
        (("Travel",), f"## Travel\n\n{say(60)}\n\nAnna: {say(20)}\nBen: no."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Anna: x\nBen: y\n" * 60_000,
        "Anna: " * 160_000,
        "[10:02] Anna: hi\n[10:03] Ben: ho\n" * 30_000,
        "# h\n" * 200_000,
        "a\n\n" * 200_000,
        "x" * 1_000_000,
        "x: " * 300_000,
        "[1" * 500_000,
        "- a\n" * 250_000,
        "```\n" * 250_000,
        "| a |\n|---|\n" * 70_000,
        "    Anna: x\n" * 80_000,
    ],
)
def test_a_hostile_text_four_times_as_long_takes_no_sixteen_times_as_long(text: str) -> None:
    require_linear(lambda part: split_text(part, estimate_tokens), text[: 1 << 17], units_max=300)


def test_a_text_of_another_markup_keeps_that_markups_tables_whole() -> None:
    rows = "\n".join(
        f"| row {number:2} | what it is all about |\n+--------+----------------------+" for number in range(80)
    )
    table = f"+--------+----------------------+\n{rows}"
    text = f"Before.\n\n{table}\n\nAfter."
    as_markdown = [chunk.text for chunk in split_text(text, words)]
    assert len(as_markdown) > 1
    assert [chunk.text for chunk in split_text(text, words, ".rst")] == [text]
