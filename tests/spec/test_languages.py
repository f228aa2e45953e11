"""The language of a text, by its function words."""

import json
from pathlib import Path

import pytest

from mnemo_core.text.languages import identify_language, words_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
WRONG_MAX = 2  # of some 470 texts: two of them hold no function word at all


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The rent is due on the first.", "en"),
        ("Die Miete ist am Ersten fällig.", "de"),
        ("Le loyer est dû le premier.", "fr"),
        ("L'hiver, c'est dur", "fr"),
        ("Lisbon 2026", "en"),
        ("", "en"),
        ("die la", "en"),  # one word for each
    ],
)
def test_the_language_with_most_function_words_is_it_and_english_in_doubt(text: str, language: str) -> None:
    assert identify_language(words_of(text)) == language


def test_texts_in_a_clear_language_are_identified_correctly() -> None:
    rows = [
        json.loads(line)
        for name in ("recall/languages.jsonl", "intake/salience.jsonl")
        for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines()
    ]
    labelled = [(row["text"], row.get("lang") or row["language"]) for row in rows if "text" in row]
    spaced = [(text, language) for text, language in labelled if language in ("en", "de", "fr")]
    wrong = [text for text, language in spaced if identify_language(words_of(text)) != language]
    assert len(spaced) > 400
    assert len(wrong) <= WRONG_MAX, wrong
