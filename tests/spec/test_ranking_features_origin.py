"""Terms that are added last to the log-odds: the page, what somebody said, the namespace. SPEC 7.3"""

import numpy as np
import pytest

from mnemo_core.retrieval.ranking import ranking_features
from mnemo_core.retrieval.ranking.ranking_features import ORIGIN_WEIGHTS, CandidateOrigins


def origin(**fields: object) -> CandidateOrigins:
    """Three passages: two of one file, one of another, and a memory that is in no file."""
    known = {
        "is_in_file": np.array([True, True, True, False]),
        "lead": np.array([0.7, 0.7, 0.4, 0.0], np.float32),
        "words": np.array([0.5, 0.5, 1.0, 0.0], np.float32),
        "is_here": np.zeros(4, np.bool_),
        "said_rarity": 0.0,
        "here_rarity": 0.0,
        "tagged": np.zeros(4, np.float32),
        "asks": np.zeros(4, np.bool_),
    }
    return CandidateOrigins(**{**known, **fields})  # type: ignore[arg-type]


def added(given: CandidateOrigins) -> list[float]:
    return ranking_features.origin_contributions(ranking_features.origin_table(given)).sum(axis=1).tolist()  # type: ignore[no-any-return]


def test_all_passages_of_a_page_get_its_worth_relative_to_the_best_page() -> None:
    behind = ORIGIN_WEIGHTS["page_lead"] * (0.4 - 0.7) + ORIGIN_WEIGHTS["page_words"] * (1.0 - 0.5)
    assert behind < 0
    assert added(origin()) == pytest.approx([0, 0, behind, 0], abs=1e-5)


def test_a_memory_in_no_file_is_not_put_behind_any_page() -> None:
    best = origin(lead=np.array([0.9, 0.9, 0.9, 0.0], np.float32), words=np.array([1, 1, 1, 0], np.float32))
    assert added(best)[3] == max(added(best)) == 0


def test_a_cosine_under_the_least_makes_no_page_better() -> None:
    far = origin(lead=np.array([0.3, 0.3, 0.1, 0.0], np.float32), words=np.zeros(4, np.float32))
    assert added(far) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("count", "others", "rarity"),
    [(0, 9, 0.0), (9, 0, 0.0), (9, 9, 0.0), (90, 9, 0.0), (10, 1000, 2 / 3), (1, 10**6, 1.0)],
)
def test_rarity_counts_the_digits_by_which_the_others_outnumber(count: int, others: int, rarity: float) -> None:
    assert ranking_features.rarity(count, others) == pytest.approx(rarity)


def test_said_memories_gain_more_the_more_documents_outnumber_them() -> None:
    few, many = (added(origin(said_rarity=rarity)) for rarity in (0.2, 1.0))
    assert few[3] == pytest.approx(0.2 * ORIGIN_WEIGHTS["said"])
    assert many[3] == pytest.approx(ORIGIN_WEIGHTS["said"])
    assert few[:3] == many[:3] == added(origin())[:3]


def test_what_only_asks_is_put_behind_what_tells() -> None:
    asking = origin(asks=np.array([False, False, False, True]))
    assert added(asking)[3] == ORIGIN_WEIGHTS["only_asks"] < 0
    assert added(asking)[:3] == added(origin())[:3]


def test_the_namespace_that_is_asked_gains_something_even_where_it_is_not_outnumbered() -> None:
    here = np.array([False, False, False, True])
    assert added(origin(is_here=here))[3] == pytest.approx(ranking_features.HERE_MIN * ORIGIN_WEIGHTS["here"])
    assert added(origin(is_here=here, here_rarity=1.0))[3] == pytest.approx(ORIGIN_WEIGHTS["here"])


def test_a_namespace_that_holds_everything_gains_no_weight() -> None:
    assert added(origin(is_here=np.ones(4, np.bool_))) == added(origin())


def test_a_tag_weighs_from_half_of_the_question_on() -> None:
    shares = added(origin(tagged=np.array([0.3, 0.5, 0.75, 1], np.float32)))
    assert [a - b for a, b in zip(shares, added(origin()), strict=True)] == pytest.approx(
        [0, 0, 0.5 * ORIGIN_WEIGHTS["tagged"], ORIGIN_WEIGHTS["tagged"]], abs=1e-5
    )


@pytest.mark.parametrize(
    ("tag", "named", "share"),
    [("recipe", (), 0.25), ("disaster", (), 0.75), ("recipe", ("recipe",), 1.0), ("sea", (), 0.0),
     ("people/recipe", (), 0.25), ("recipe/sea", (), 0.25), ("recipe/sea", ("recipe",), 1.0),
     ("recipe disaster", (), 1.0), ("recipe-sea", (), 0.0), ("", (), 0.0)],
)  # fmt: skip
def test_a_tag_is_named_by_all_of_its_words_or_by_those_of_a_part(
    tag: str, named: tuple[str, ...], share: float
) -> None:
    rarities = {"recipe": 1.0, "disaster": 3.0}
    assert ranking_features.named_share(tag, named, rarities, lambda text: text.replace("-", " ").split()) == share


def test_of_many_tags_few_are_split_into_terms() -> None:
    split: list[str] = []
    for tag in [f"people/friend{number}" for number in range(200)] + ["recipes", "rezept", "café"]:
        ranking_features.named_share(tag, (), {"recip": 1.0}, lambda text: split.append(text) or [text[:5]])  # type: ignore[func-returns-value]
    assert split == ["recipes", "café"]


def test_a_long_file_is_not_better_for_holding_a_word_once() -> None:
    counts = np.array([[3.0, 3.0], [1.0, 1.0]], np.float32)
    short, long = ranking_features.page_words(counts, np.ones(2, np.float32), np.array([100.0, 10_000.0], np.float32))
    assert short == 1
    assert long < 0.5


def test_files_without_a_word_of_the_question_are_worth_nothing() -> None:
    counts, rarities = np.zeros((2, 3), np.float32), np.ones(2, np.float32)
    assert ranking_features.page_words(counts, rarities, np.ones(3, np.float32)).tolist() == [0, 0, 0]
    nothing = np.zeros((0, 3), np.float32)
    assert ranking_features.page_words(nothing, rarities[:0], np.ones(3, np.float32)).tolist() == [0, 0, 0]
