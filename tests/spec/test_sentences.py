"""The sentence that is shown for a memory."""

from mnemo_core.sentences import SENTENCE_CHARS_MAX, best_sentence, spans


def shown(text: str, *words: str) -> str:
    marks = [(text.index(word), text.index(word) + len(word)) for word in words]
    start, end = best_sentence(text, marks)
    return text[start:end]


def test_sentences_end_at_full_stops_and_lines() -> None:
    text = "One here. Two there!\nThree\n\n四。五"
    assert [text[a:b] for a, b in spans(text)] == ["One here.", "Two there!", "Three", "四。", "五"]


def test_the_sentence_with_the_most_marked_words_is_shown() -> None:
    assert shown("Tea is hot. The spare key is blue. A key.", "spare", "key", "Tea") == "The spare key is blue."


def test_of_equals_the_first_is_shown() -> None:
    assert shown("First line.\nSecond line.") == "First line."


def test_rules_and_underlines_are_never_shown() -> None:
    assert shown("=====\nTitle\n=====") == "Title"


def test_a_long_sentence_is_cut_around_the_first_marked_word() -> None:
    text = "word " * 100 + "needle " + "word " * 100
    piece = shown(text, "needle")
    assert "needle" in piece
    assert len(piece) <= SENTENCE_CHARS_MAX
    assert piece.startswith("word")
