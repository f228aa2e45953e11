"""The terms of a text. SPEC 2.3, 7.2"""

import pytest

from mnemo_store.indexes import tokenizer
from mnemo_store.indexes.tokenizer import QUERY_TERMS_MAX, TERM_CHARS_MAX, Token, Tokenizer

ENGLISH = Tokenizer()
tokens, query_terms, highlight_spans = ENGLISH.tokens, ENGLISH.query_terms, ENGLISH.highlight_spans


def terms_of(text: str) -> list[str]:
    return [token.term for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Memories, running; databases.", ["memori", "run", "databas"]),
        ("the cat is on it", ["cat"]),
        ("What's happening? They'll call; don't answer", ["happen", "call", "answer"]),
        ("the cat’s whiskers", ["cat", "whisker"]),
        ("PDFs and URLs", ["pdf", "url"]),
        ("beings", ["beings"]),
        ("1,000 and 1,234.50", ["1000", "1234.50"]),
        ("café naïve Straße ﬁne İstanbul", ["cafe", "naiv", "strass", "fine", "istanbul"]),
        ("Ｐｙｔｈｏｎ", ["python"]),
        ("ёлка йод", ["елка", "йод"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("tea ☕ 🎉🎉", ["tea", "☕", "🎉", "🎉"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zero", "width"]),
        ("", []),
        ("--- ... ___ \x00\x01 \ud800", []),
    ],
)
def test_a_word_is_folded_and_stemmed(text: str, expected: list[str]) -> None:
    assert terms_of(text) == expected


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("mnemo_index", "mnemoindex", ["mnemo", "index"]),
        ("wordView", "wordview", ["word", "view"]),
        ("ПриветМир", "приветмир", ["привет", "мир"]),
        ("HTTPServer", "httpserver", ["http", "server"]),
        ("Wi-Fi", "wifi", ["wi", "fi"]),
        ("sha256", "sha256", ["sha", "256"]),
        ("utf-8", "utf8", ["utf", "8"]),
        ("O'Brien", "obrien", ["o", "brien"]),
        ("2024-05-17", "2024-05-17", ["2024", "05", "17"]),
        ("12:30", "12:30", ["12", "30"]),
        ("C++", "c++", ["c"]),
        ("C#", "c#", ["c"]),
        ("src/wordView.py", "src/wordview.py", ["src", "wordview.py", "wordview", "word", "view", "py"]),
        (
            "ann.lee@mail.example",
            "ann.lee@mail.example",
            ["ann.lee", "ann", "lee", "mail.example", "mail", "exampl"],
        ),
    ],
)
def test_an_identifier_is_found_as_a_whole_and_by_its_parts(text: str, whole: str, parts: list[str]) -> None:
    assert terms_of(text) == [whole, *parts]


@pytest.mark.parametrize("spelling", ["wordView", "word_view", "word-view", "WordView", "wordview", "WORD_VIEW"])
def test_spellings_of_one_identifier_share_a_term(spelling: str) -> None:
    assert "wordview" in query_terms(spelling)


@pytest.mark.parametrize("spelling", ["Python 3.11.2", "python v3.11.2"])
def test_a_version_is_found_by_what_it_is_a_case_of(spelling: str) -> None:
    assert terms_of(spelling) == ["python", "3.11.2", "3.11", "3"]


def test_a_hash_has_no_parts() -> None:
    assert terms_of("a3f9b2c") == ["a3f9b2c"]


def test_a_very_long_word_is_known_by_its_beginning() -> None:
    assert terms_of("x" * 8000) == ["x" * TERM_CHARS_MAX]
    assert query_terms("x" * 500) == ["x" * TERM_CHARS_MAX]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("東京都", ["東京", "京都"]),
        ("猫", ["猫"]),
        ("ｶﾞｲﾄﾞ", ["ガイ", "イド"]),
        ("한국어", ["한국", "국어"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", ["한국"]),
        ("Python入門", ["python", "入門"]),
        ("第3回", ["第", "3", "回"]),
        ("ไทย", ["ไท", "ทย"]),
    ],
)
def test_text_without_spaces_is_asked_for_in_pairs(text: str, asked: list[str]) -> None:
    assert query_terms(text) == asked


def test_text_without_spaces_is_also_kept_character_by_character() -> None:
    assert terms_of("東京都") == ["東", "京", "都", "東京", "京都"]


def test_long_words_of_a_segmenter_are_added_to_the_pairs() -> None:
    def segment(text: str) -> list[tuple[str, int, int]]:
        return [(text[0:2], 0, 2), (text[2:5], 2, 5)]

    chinese = Tokenizer(segment=segment)
    assert chinese.query_terms("x我们天安门") == ["x", "我们", "们天", "天安", "安门", "天安门"]
    assert chinese.tokens("x我们天安门")[-1] == Token("天安门", 3, 6)
    assert chinese.query_terms("ひらがな") == ["ひら", "らが", "がな"]
    assert chinese.signature != Tokenizer(segment=segment, language="german").signature


def test_a_query_of_stop_words_alone_asks_for_them() -> None:
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert query_terms("who is it") == ["who", "is", "it"]
    assert query_terms("who is Ann") == ["ann"]


def test_each_term_is_asked_for_once_and_long_queries_are_cut() -> None:
    assert query_terms("cat Cats CAT dog cat") == ["cat", "dog"]
    assert query_terms(" ".join(f"w{i}x" for i in range(1000))) == [f"w{i}x" for i in range(QUERY_TERMS_MAX)]


def test_offsets_are_those_of_the_text_as_written() -> None:
    text = "ﬁnes: cafe\u0301s, “l’École”!"
    assert [(token.term, text[token.start : token.end]) for token in tokens(text)] == [
        ("fine", "ﬁnes"),
        ("cafe", "cafe\u0301s"),
        ("lecol", "l’École"),
        ("l", "l"),
        ("ecol", "École"),
    ]


def test_a_text_of_accents_is_folded_and_kept_in_no_cache() -> None:
    kept = tokenizer._fold.cache_info().currsize
    assert terms_of("caf\u00e9" + "\u0301" * 8000) == ["cafe"]
    assert tokenizer._fold.cache_info().currsize <= kept + len("caf")


def test_stop_words_are_kept_when_asked() -> None:
    assert tokens("is it", keep_stops=True) == [Token("is", 0, 2), Token("it", 3, 5)]
    assert tokens("don’t", keep_stops=True) == [Token("dont", 0, 5)]


def test_marks_cover_what_matches_and_merge_where_they_touch() -> None:
    text = "The mnemo_index of 東京都 memories"
    assert [text[a:b] for a, b in highlight_spans(text, "a memory of 東京都")] == ["東京都", "memories"]
    assert [text[a:b] for a, b in highlight_spans(text, "index")] == ["index"]
    assert [text[a:b] for a, b in highlight_spans(text, "mnemoIndex")] == ["mnemo_index"]
    assert [text[a:b] for a, b in highlight_spans(text, "京")] == ["京"]
    assert [text[a:b] for a, b in highlight_spans(text, "the of")] == ["The", "of"]
    assert highlight_spans(text, "nothing here") == []


def test_another_language_has_its_own_stems_and_an_unknown_one_is_refused() -> None:
    assert Tokenizer("german").query_terms("Häuser der Stadt") == ["haus", "der", "stadt"]
    with pytest.raises(ValueError, match="klingon"):
        Tokenizer("klingon")


@pytest.mark.parametrize(
    "text",
    ["a/" * 4096, "aB" * 4096, "a'" * 4096, "'s" * 4096, "n't" * 2700, "1," * 4096, "v1." * 2700, "e\u0301" * 4096],
)
def test_hostile_repetition_is_cut_in_linear_time(text: str) -> None:
    assert len(tokens(text, keep_stops=True)) <= 3 * len(text)
