"""The sentence that is shown for a memory."""

import pytest

from mnemo_core.retrieval.excerpts import (
    SENTENCE_CHARS_MAX,
    best_sentence,
    cut_to_lines,
    sentence_spans,
    unwrap,
    whole_words,
)


def shown(text: str, *words: str) -> str:
    marks = [(text.index(word), text.index(word) + len(word)) for word in words]
    start, end = best_sentence(text, marks)
    return text[start:end]


def test_sentences_end_at_full_stops_and_lines() -> None:
    text = "One here. Two there!\nThree\n\n四。五"
    assert [text[a:b] for a, b in sentence_spans(text)] == ["One here.", "Two there!", "Three", "四。", "五"]


def test_the_sentence_with_the_most_marked_words_is_shown() -> None:
    assert shown("Tea is hot. The spare key is blue. A key.", "spare", "key", "Tea") == "The spare key is blue."


def test_of_equals_the_first_is_shown() -> None:
    assert shown("First line.\nSecond line.") == "First line."


def test_rules_and_underlines_are_never_shown() -> None:
    assert shown("=====\nTitle\n=====") == "Title"


@pytest.mark.parametrize(
    "line",
    [
        "```http",
        "~~~",
        "#+begin_src sh",
        ".. code-block:: http",
        ":PROPERTIES:",
        "<details>",
        "</http>",
        "<!-- http -->",
    ],
)
def test_a_line_of_markup_alone_is_never_shown(line: str) -> None:
    assert shown(f"{line}\nGET http\n```", *(["http"] if "http" in line else [])) == "GET http"


def test_a_line_with_words_next_to_its_markup_is_shown() -> None:
    assert shown(".. note:: Mind the step.\nNothing else.", "step") == "note:: Mind the step."
    assert shown("```mnemo up``` starts it.\nNothing else.", "mnemo") == "```mnemo up``` starts it."


def test_a_long_sentence_is_cut_around_the_first_marked_word() -> None:
    text = "word " * 100 + "needle " + "word " * 100
    piece = shown(text, "needle")
    assert "needle" in piece
    assert len(piece) <= SENTENCE_CHARS_MAX
    assert piece.startswith("word")


def test_a_title_or_an_initial_ends_no_sentence() -> None:
    text = "My dentist is Dr. Okafor on Mill Lane. J. R. Finch, e.g. in May, is away. No. She is here."
    assert [text[start:end] for start, end in sentence_spans(text)] == [
        "My dentist is Dr. Okafor on Mill Lane.", "J. R. Finch, e.g. in May, is away.", "No.", "She is here.",
    ]  # fmt: skip


def cut(text: str, best: str, budget: int) -> str:
    """Each word counts as a token."""
    start = text.index(best)
    first, last = cut_to_lines(text, (start, start + len(best)), budget, lambda part: len(part.split()))
    return text[first:last]


def test_a_passage_is_the_whole_lines_around_the_best_sentence_that_fit() -> None:
    text = "one two\nthree four\nfive six\nseven eight\nnine ten"
    assert cut(text, "five", 2) == "five six"
    assert cut(text, "five", 5) == "five six\nseven eight"
    assert cut(text, "five", 6) == "three four\nfive six\nseven eight"
    assert cut(text, "nine", 4) == "seven eight\nnine ten"
    assert cut(text, "five", 100) == text


def test_a_passage_whose_own_line_does_not_fit_is_the_sentence_alone_or_nothing() -> None:
    assert cut("One two three. Four five. Six.", "Four five.", 2) == "Four five."
    assert cut("One two three. Four five. Six.", "Four five.", 1) == ""


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


def test_a_hard_wrapped_line_goes_on_in_the_next() -> None:
    wrapped = "The stopcock of the house is behind the washing machine, and to\nreach it the kickboard comes off. Done."
    assert parts(wrapped) == [wrapped.removesuffix(" Done."), "Done."]
    assert unwrap(wrapped) == wrapped.replace("\n", " ")


@pytest.mark.parametrize(
    "start", ["**1 h** long", "`code` too", "(in brackets)", "[a link](x.md)", '"quoted" words', "_so_"]
)
def test_a_line_that_goes_on_with_a_marked_word_was_wrapped_too(start: str) -> None:
    text = f"After 3 failures in a row it is paused for a minute, and then for\n{start}, doubling"
    assert parts(text) == [text]
    assert unwrap(text) == text.replace("\n", " ")
    item = "- the spare key of the boathouse is with Ines in number\n  fourteen\n- the other one is with Tom"
    assert parts(item) == [item.split("\n- ")[0], "- the other one is with Tom"]


@pytest.mark.parametrize(
    "text",
    [
        "A list of what has to be brought along to the island by all of us:\nwater",
        "| a table row that is long enough to have been wrapped by hand | yes |\nnext",
        "# A heading that is long enough to have been wrapped by hand, or is it\ntext",
        "A line that is long enough to have been wrapped by hand, more or less\n2. two",
        "A line that is long enough to have been wrapped by hand, more or less\n- two",
        "A line that is long enough to have been wrapped by hand, more or less\n* two",
        "A line that is long enough to have been wrapped by hand, more or less\n```sh",
        "A line that is long enough to have been wrapped by hand, more or less\n[a link]: x.md",
        "A line that is long enough to have been wrapped by hand, more or less\n\ntwo",
    ],
)
def test_a_line_that_is_not_wrapped_ends_a_sentence(text: str) -> None:
    assert len(parts(text)) == 2


def test_a_day_or_the_number_of_an_item_ends_no_sentence() -> None:
    assert parts("Der Termin ist am 28. März um drei. Gut.") == ["Der Termin ist am 28. März um drei.", "Gut."]
    assert parts("It is on the 3. of May. Fine.") == ["It is on the 3. of May.", "Fine."]
    assert parts("1. Open the valve. Wait.") == ["1. Open the valve.", "Wait."]
    assert parts("There were 28. Nobody counted.") == ["There were 28.", "Nobody counted."]


def test_marks_are_whole_words() -> None:
    text = "the notebook of smtp_relay 東京都"
    found = whole_words(text, [(4, 8), (21, 26), (27, 29)])
    assert [text[start:end] for start, end in found] == ["notebook", "smtp_relay", "東京"]
    assert whole_words("ab cd", [(0, 1), (1, 2), (3, 4)]) == [(0, 2), (3, 5)]
