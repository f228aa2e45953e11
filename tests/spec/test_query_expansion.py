"""A query that finds next to nothing, widened. SPEC 7.6; checklist row G38."""

import numpy as np
import pytest

from mnemo_core.retrieval import query_expansion
from mnemo_core.retrieval.query_expansion import HITS_MAX, WORDS_MAX, ExpansionWord


def words(*shown: str) -> list[ExpansionWord]:
    return [ExpansionWord(each.lower(), each) for each in shown]


def added(query: str, *hits: list[ExpansionWord], rarity: dict[str, float] | None = None) -> list[str]:
    known = rarity or {}
    return query_expansion.expansion_terms(query.split(), hits, lambda term: known.get(term, 1.0))


@pytest.mark.parametrize(("relevance", "expected"), [([0.24, 0.1], True), ([0.25, 0.1], False), ([], False)])
def test_G38_it_is_due_where_the_best_relevance_is_under_a_quarter(relevance: list[float], expected: bool) -> None:
    assert query_expansion.is_due(np.array(relevance)) is expected


def test_words_are_those_of_the_best_hits_that_tell_most_apart() -> None:
    rarity = {"boiler": 2.0, "cellar": 3.0, "water": 0.5}
    assert added("heating", words("Boiler", "cellar", "water"), rarity=rarity) == ["cellar", "Boiler", "water"]


def test_words_of_the_query_and_words_that_find_nothing_else_are_not_added() -> None:
    assert added("heating boiler", words("boiler", "cellar", "xylem"), rarity={"xylem": 0.0}) == ["cellar"]


def test_a_word_of_several_hits_counts_for_each_less_the_further_down() -> None:
    # first: 1/1; second and third: 1/2 + 1/3
    assert added("q", words("one"), words("two"), words("two")) == ["one", "two"]
    # first and third: 1/1 + 1/3
    assert added("q", words("one"), words("two"), words("one", "two")) == ["one", "two"]
    assert added("q", words("one"), words("two"), words("two"), rarity={"two": 1.3}) == ["two", "one"]


def test_words_are_taken_from_the_first_hits_alone_and_are_few() -> None:
    hits = [words(f"hit{n}") for n in range(HITS_MAX + 1)]
    assert added("q", *hits) == ["hit0", "hit1", "hit2"]
    assert len(added("q", words(*(f"word{n}" for n in range(20))))) == WORDS_MAX


def test_of_equal_words_the_order_is_that_of_their_terms() -> None:
    assert added("q", words("pear", "apple", "fig")) == ["apple", "fig", "pear"]


def test_a_word_stands_as_it_does_where_it_comes_first() -> None:
    assert added("q", [ExpansionWord("boiler", "Boilers"), ExpansionWord("boiler", "boiler")]) == ["Boilers"]


def test_two_letters_are_no_word_but_two_characters_are() -> None:
    assert added("q", words("no", "東京", "TV")) == ["東京"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [([0.20], [0.24], True), ([0.21], [0.24], False), ([0.1], [], False), ([], [0.1], True)],
)
def test_G38_added_words_are_kept_only_where_they_gain_more_than_their_discount(
    before: list[float], after: list[float], expected: bool
) -> None:
    # 0.85 · 0.24 = 0.204
    assert query_expansion.is_improvement(np.array(before), np.array(after)) is expected
