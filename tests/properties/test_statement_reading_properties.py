"""The words of two statements match as their plain definition says."""

from hypothesis import example, given
from hypothesis import strategies as st

from mnemo_core.text.statement_reading import WordForms

STEMS = st.text("ab", min_size=3, max_size=8)


@given(STEMS, st.lists(STEMS, max_size=5))
@example("hauswand", ["swand"])
@example("wand", ["hauswand"])
@example("wander", ["wandel"])
def test_a_word_matches_itself_its_forms_and_its_compounds_alone(word: str, others: list[str]) -> None:
    def is_form(other: str) -> bool:
        if len(word) >= 5:
            return len(other) >= 5 and (word[:5] == other[:5] or word in other or other in word)
        return len(word) == 4 and word in other

    expected = 1.0 if word in others else 0.7 if any(map(is_form, others)) else 0.0
    assert WordForms(others).match(word) == expected
