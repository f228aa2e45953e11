"""The tree of topics as arithmetic: golden values of G42 and G50, worked by hand, and what holds for any memories."""

import math
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnemo_core.knowledge import clusters
from mnemo_core.knowledge.clusters import (
    Labels,
    absorb_small,
    assign,
    cluster,
    fit_budget,
    merge_leaves,
    nearness_to_middle,
    split_leaves,
)
from mnemo_core.knowledge.topic_names import TermStatistics, opening_words, telling_words
from mnemo_core.knowledge.topic_tree import CHILDREN_MAX, GROUP_LEVELS, NOTHING, Shape, compare, grow
from mnemo_core.similarity.thresholds import SOURCE

T = TypeVar("T")
Vectors = NDArray[np.float32]


def drain(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def rows(*vectors: Sequence[float]) -> Vectors:
    return np.array(vectors, np.float32)


def axis(number: int, dimensions: int = 8) -> list[float]:
    return [float(number == place) for place in range(dimensions)]


def at_cosine(cosine: float, number: int = 1, dimensions: int = 8) -> list[float]:
    """A unit vector with this cosine to the first axis."""
    vector = [0.0] * dimensions
    vector[0], vector[number] = cosine, math.sqrt(1 - cosine * cosine)
    return vector


def labels(*of_rows: int) -> Labels:
    return np.array(of_rows, np.int32)


NEW = -1


@pytest.mark.parametrize(("cosine", "leaves"), [(0.31, [0, 0]), (0.29, [0, 1])])
def test_G42_a_memory_joins_the_closest_leaf_above_30_or_opens_one(cosine: float, leaves: list[int]) -> None:
    found = drain(assign(rows(axis(0), at_cosine(cosine)), labels(NEW, NEW), SOURCE.topic_assign))
    assert found.tolist() == leaves


def test_G42_of_two_leaves_a_memory_joins_the_closer() -> None:
    found = drain(assign(rows(axis(0), axis(1), at_cosine(0.6)), labels(NEW, NEW, NEW), SOURCE.topic_assign))
    assert found.tolist() == [0, 1, 1]  # 0.8 to the second


def test_G50_a_centroid_is_the_unit_mean_of_the_members_that_came_so_far() -> None:
    # The centroid of the first two lies between them: 0.7071 to each. The third has 0.7071 · 0.5 = 0.354 to it, above
    # 0.30; to the first member alone it would have 0.
    vectors = rows(axis(0, 3), [0.5, math.sqrt(0.75), 0], [0, 0.5, math.sqrt(0.75)])
    found = drain(assign(vectors, labels(NEW, NEW, NEW), SOURCE.topic_assign))
    assert found.tolist() == [0, 0, 1]  # to (0.866, 0.5, 0): 0.5 · 0.5 = 0.25
    found = drain(assign(rows(axis(0, 3), axis(1, 3), [0.0, 0.6, 0.8]), labels(0, 0, NEW), SOURCE.topic_assign))
    assert found.tolist() == [0, 0, 0]  # to (0.707, 0.707, 0): 0.6 · 0.707 = 0.424


def test_G42_a_leaf_of_nine_that_holds_together_too_little_is_split_and_one_of_eight_is_not() -> None:
    three = [axis(0)] * 3 + [axis(1)] * 3 + [axis(2)] * 3  # 9 of 36 pairs are alike: 0.25, under 0.35
    assert len(set(drain(split_leaves(rows(*three), labels(*[0] * 9), SOURCE.topic_inside)).tolist())) == 2
    assert drain(split_leaves(rows(*three[1:]), labels(*[0] * 8), SOURCE.topic_inside)).tolist() == [0] * 8


def test_G42_a_leaf_of_nine_that_holds_together_is_not_split() -> None:
    two = [axis(0)] * 5 + [axis(1)] * 4  # 16 of 36 pairs are alike: 0.44
    assert drain(split_leaves(rows(*two), labels(*[0] * 9), SOURCE.topic_inside)).tolist() == [0] * 9


def test_a_leaf_with_more_members_than_the_square_root_of_all_is_split_however_alike_they_are() -> None:
    vectors = rows(*[[math.cos(at / 200), math.sin(at / 200)] for at in range(33)])
    assert len(set(drain(split_leaves(vectors, labels(*[0] * 33), SOURCE.topic_inside)).tolist())) == 2
    assert drain(split_leaves(vectors[1:], labels(*[0] * 32), SOURCE.topic_inside)).tolist() == [0] * 32


@pytest.mark.parametrize(("cosine", "leaves"), [(0.56, [0, 0]), (0.54, [0, 1])])
def test_G42_leaves_above_55_are_merged(cosine: float, leaves: list[int]) -> None:
    assert merge_leaves(rows(axis(0), at_cosine(cosine)), labels(0, 1), SOURCE).tolist() == leaves


def test_the_closest_leaves_are_merged_first_and_each_once_a_pass() -> None:
    vectors = rows([1, 0, 0], [0.9, math.sqrt(0.19), 0], [0.6, 0.8, 0])  # 0.9, and 0.54 + 0.349 = 0.889
    assert merge_leaves(vectors, labels(0, 1, 2), SOURCE).tolist() == [0, 0, 1]


@pytest.mark.parametrize(("members", "cosine", "leaves"), [(2, 0.41, 1), (2, 0.39, 2), (1, 0.41, 1), (3, 0.41, 2)])
def test_G42_leaves_of_two_and_fewer_are_absorbed_above_40(members: int, cosine: float, leaves: int) -> None:
    vectors = rows(*[axis(0)] * 4, *[at_cosine(cosine)] * members)
    found = absorb_small(vectors, labels(*[0] * 4, *[1] * members), SOURCE.topic_absorb)
    assert len(set(found.tolist())) == leaves


@pytest.mark.parametrize(("memories", "leaves"), [(10, 256), (4096, 256), (10_000, 400), (100_000, 1264)])
def test_G42_the_budget_is_256_leaves_and_grows_with_the_root_where_these_would_have_over_16_members(
    memories: int, leaves: int
) -> None:
    assert clusters.leaves_max(memories) == leaves


def test_G42_more_leaves_than_the_budget_are_brought_down_to_it() -> None:
    found = drain(fit_budget(np.eye(300, dtype=np.float32), np.arange(300, dtype=np.int32)))
    assert found.max() + 1 == 256


def test_G42_a_topic_has_at_most_8_children_and_the_tree_3_levels() -> None:
    chance = np.random.default_rng(3)
    middles = chance.standard_normal((9, 24)) + 2 * chance.standard_normal((3, 24))[np.arange(9) % 3]
    vectors = (middles[np.arange(900) % 9] + 0.9 * chance.standard_normal((900, 24))).astype(np.float32)
    shape = drain(grow(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), SOURCE))
    children = Counter(parent for parent in shape.parents if parent >= 0)
    assert children
    assert 2 <= min(children.values()) <= max(children.values()) <= CHILDREN_MAX == 8
    assert max(len(list(shape.line(leaf))) for leaf in set(shape.leaves.tolist())) <= 1 + GROUP_LEVELS == 3


def test_G50_a_topic_keeps_its_id_as_long_as_most_of_its_members_stay_together() -> None:
    former = Shape(labels(0, 0, 0, 0, 0, 1, 1, 1, 1), (-1, -1))
    now = Shape(labels(0, 0, 1, 1, 1, 2, 2, 1, 1), (-1, -1, -1))
    stays = compare(now, former)
    # Of the five, three are in 1: it keeps the id. Of the four, two and two: the id is gone.
    assert stays.kept == {1: 0}
    assert stays.moved == {1: (1, 2)}


def test_G50_members_that_are_gone_do_not_count_against_an_id() -> None:
    assert compare(Shape(labels(0, 0, 1), (-1, -1)), Shape(labels(0, 0, NEW), (-1,))).kept == {0: 0}


def test_G42_a_name_is_kept_where_a_fifth_of_the_members_are_the_same() -> None:
    former = Shape(labels(*[0] * 2, *[NEW] * 8), (-1,))
    assert compare(Shape(labels(*[0] * 10), (-1,)), former).named == {0: 0}  # 2 of 10
    larger = Shape(labels(*[0] * 2, *[NEW] * 9), (-1,))
    assert compare(Shape(labels(*[0] * 11), (-1,)), larger) == ({0: 0}, {}, {})  # 2 of 11: the id alone


def test_of_leaves_that_became_one_the_one_with_most_members_in_common_gives_the_id() -> None:
    stays = compare(Shape(labels(0, 0, 0, 0, 0), (-1,)), Shape(labels(0, 0, 1, 1, 1), (-1, -1)))
    assert (stays.kept, stays.moved) == ({0: 1}, {0: (0,)})


def test_groups_keep_their_ids_too() -> None:
    former = Shape(labels(0, 0, 1, 1), (2, 2, -1))
    stays = compare(Shape(labels(0, 0, 1, 1), (2, 2, -1)), former)
    assert stays.kept == {0: 0, 1: 1, 2: 2}


@st.composite
def memories(draw: st.DrawFn) -> Vectors:
    """Unit vectors around a few middles, with rows that are the same, and at times many."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, groups = draw(st.integers(1, 220)), draw(st.integers(1, 12))
    middles = chance.standard_normal((groups, 12))
    vectors = middles[chance.integers(0, groups, count)] + draw(st.floats(0, 2)) * chance.standard_normal((count, 12))
    units: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return units


@settings(max_examples=40, deadline=None)
@given(vectors=memories(), changed=st.integers(0, 20), is_whole=st.booleans())
def test_every_memory_is_in_one_leaf_within_the_limits_and_the_same_state_gives_the_same_tree(
    vectors: Vectors, changed: int, is_whole: bool
) -> None:
    first = drain(grow(vectors, SOURCE))
    start = first.leaves.copy()
    start[:changed] = NEW
    for former, whole in ((NOTHING, True), (Shape(start, first.parents), is_whole)):
        shape = drain(grow(vectors, SOURCE, former, is_whole=whole))
        leaves = set(shape.leaves.tolist())
        children = Counter(parent for parent in shape.parents if parent >= 0)
        assert leaves == set(range(len(leaves)))
        assert len(leaves) <= clusters.leaves_max(len(vectors))
        assert leaves.isdisjoint(children)
        assert set(children) | leaves == set(range(len(shape.parents)))
        assert all(2 <= count <= CHILDREN_MAX for count in children.values())
        assert all(len(list(shape.line(leaf))) <= 3 for leaf in leaves)
        again = drain(grow(vectors, SOURCE, former, is_whole=whole))
        assert again.leaves.tolist() == shape.leaves.tolist()
        assert again.parents == shape.parents


def test_the_steps_of_a_large_tree_are_many() -> None:
    vectors = np.random.default_rng(1).standard_normal((3 * clusters.BLOCK_ROWS, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert sum(1 for _ in cluster(vectors, SOURCE)) > 10


# Names


def statistics(**texts: int) -> Any:
    return lambda word: TermStatistics(word.casefold(), texts.get(word.casefold(), 1))


def test_the_words_that_tell_of_a_topic_are_common_in_it_and_rare_elsewhere() -> None:
    texts = ["The tomatoes need water.", "We planted tomatoes at Noa's.", "Noa was hot."]
    name = telling_words(texts, statistics(tomatoes=2, noa=500, water=200, planted=5, hot=300), 1000)
    assert name == "tomatoes"  # in all texts, Noa is in half of them; the others are in one text


def test_a_phrase_stands_for_words_that_are_mostly_in_it() -> None:
    texts = ["Our event loop hangs.", "The event loop was blocked.", "An event loop runs the tasks, one event each."]
    assert telling_words(texts, statistics(), 1000) == "event loop"
    texts = ["Our event loop hangs.", "The event loop was blocked.", *["One event each."] * 3]
    assert telling_words(texts, statistics(), 1000) == "event"


def test_closeness_decides_between_phrases_that_are_as_common() -> None:
    texts = ["The tomatoes are beside the ladder.", "A ladder, some tomatoes."]
    assert telling_words(texts, statistics(), 100, (), lambda _: [0.3, 0.1]) == "ladder"  # they come by the alphabet
    assert telling_words(texts, statistics(), 100, (), lambda _: [0.1, 0.3]) == "tomatoes"


def test_a_name_that_another_topic_has_gets_another_phrase() -> None:
    texts = ["Our tomatoes and beans.", "The tomatoes, the beans.", *["My tomatoes."] * 8]
    assert telling_words(texts, statistics(), 100) == "tomatoes"
    assert telling_words(texts, statistics(), 100, taken={"tomatoes"}) == "tomatoes, beans"


def test_what_is_done_or_said_of_something_is_no_name() -> None:
    texts = [
        "The dentist called. Sketched, rinsed; I floss.",
        "A dentist called: sketched. Rinsed! They floss.",
        "The dentist.",
    ]
    assert telling_words(texts, statistics(), 100, taken={"dentist"}) == "dentist"


def test_a_phrase_that_is_in_the_name_already_is_not_repeated() -> None:
    texts = ["The basketball. A ball.", "A basketball; the ball."]
    name = telling_words(
        texts, statistics(), 100, (), lambda phrases: [float(each == "basketball") + 1 for each in phrases]
    )
    assert name == "basketball"


def test_a_nickname_of_a_speaker_names_nothing_and_the_same_word_in_small_letters_does() -> None:
    assert (
        telling_words(["Thanks, Mel: the car broke.", "Mel, a car."], statistics(), 100, {"Melanie", "Carl"}) == "car"
    )


def test_who_is_spoken_to_is_no_topic_and_who_is_spoken_of_is() -> None:
    texts = ["Grandma, the quilt is here!", "I saw the quilt, Grandma.", "No, Grandma. Grandma, wait!"]
    assert telling_words(texts, statistics(), 100) == "quilt"
    assert telling_words([*texts[:2], *["We met Grandma there."] * 2], statistics(), 100).startswith("Grandma")


def test_a_word_that_is_nowhere_seen_to_be_a_noun_needs_to_be_in_more_texts() -> None:
    texts = ["Foolish. The shelter.", "Foolish: a shelter!", "Foolish, in a shelter."]
    assert telling_words(texts, statistics(), 100).split(", ")[0] == "shelter"
    assert telling_words(["Yoga. A mat.", "Yoga; the mat.", *["I do yoga."] * 8], statistics(mat=90), 100) == "yoga"


def test_a_phrase_of_several_words_is_a_whole_name_and_one_word_takes_a_second() -> None:
    texts = ["The garden party and the tent.", "A garden party in the tent.", "Our garden party, my tent."]
    assert (
        telling_words(texts, statistics(party=3, garden=3), 100, (), lambda each: [1.0] * len(each))
        == "tent, garden party"
    )
    assert telling_words(texts, statistics(tent=9), 100, (), lambda each: [1.0] * len(each)) == "garden party"


def test_numbers_numbered_names_and_times_of_the_day_are_no_topics() -> None:
    texts = [
        "The harvest kb18: two hundred, on the nineteenth, in the morning.",
        "A hundred kb18; the nineteenth, every morning.",
    ]
    assert telling_words(texts, statistics(harvest=90), 100) == "harvest"


def test_a_heading_of_half_of_the_texts_is_a_name_unless_it_is_taken_or_tells_less() -> None:
    texts = ["The lens is dusty.", "A lens, cleaned with the cloth.", "The cloth for a lens."]
    trails = [("Cameras", "Care of the `lens`"), ("Cameras", "Care of the `lens`"), ("Cameras", "General remarks")]
    assert telling_words(texts, statistics(), 100, trails=trails) == "Care of the lens"
    assert telling_words(texts, statistics(), 100, (), None, {"Care of the lens"}, trails) == "lens, cloth"
    assert telling_words(texts, statistics(), 100, trails=trails[1:2]) == "lens, cloth"
    care = ["Lens care: a cloth.", "The lens care, and the cloth.", "Lens care."]
    assert telling_words(care, statistics(), 100, (), None, {"Lens care"}, [("Lens care",)] * 3) != "Lens care"
    assert telling_words(texts, statistics(), 100, trails=[("Some cloth",)] * 3) == "lens, cloth"


def test_a_german_name_ends_in_a_noun() -> None:
    texts = ["Wir haben die Steuererklärung abgeschickt.", "Die Steuererklärung ist jetzt abgeschickt und das ist gut."]
    assert telling_words(texts, statistics(), 100) == "Steuererklärung"


def test_code_names_nothing() -> None:
    texts = ["The parser reads this:\n\n```\nzebra = zebra\n```", "A parser:\n\n>>> zebra"]
    assert telling_words(texts, statistics(), 100) == "parser"


def test_addresses_paths_and_markup_name_nothing() -> None:
    texts = ["See https://example.org/zebra.html and /usr/lib/zebra.so, <zebra>"] * 2 + ["zoo@zebra.org opens"]
    assert telling_words([f"{text}; giraffes" for text in texts], statistics(), 100) == "giraffes"


def test_a_name_prefers_the_spelling_in_small_letters_and_says_nothing_of_no_words() -> None:
    assert telling_words(["Gardens grow.", "The gardens are wet."], statistics(grow=90), 100) == "gardens"
    assert telling_words(["12 34", "…"], statistics(), 100) == ""


def test_a_group_that_no_phrase_describes_is_named_by_its_first_words() -> None:
    assert opening_words(["  ", "12 34\n56"]) == "12 34 56"
    assert opening_words(["x" * 30 + " and so on for ever"]) == "x" * 30 + " and so…"
    assert opening_words(["9" * 50]) == "9" * 39 + "…"
    assert opening_words([]) == ""


def test_months_days_speakers_and_fillers_are_no_topics() -> None:
    texts = [
        "Wow, Caroline, I'm gonna go running in November!",
        "Yeah, running on Sunday in November, Caroline, thanks.",
        "Am Sonntag im November, Caroline: yeah, wirklich gonna go running.",
    ]
    assert telling_words(texts, statistics(), 1000, {"Caroline", "Melanie B."}) == "running"


def test_words_that_tell_of_no_topic_are_in_no_name() -> None:
    texts = [
        "We want to keep work going on the greenhouse.",
        "Last week we worked on the greenhouse, too, and liked it.",
    ]
    assert telling_words(texts, statistics(), 100) == "greenhouse"


def test_nearness_is_the_cosine_to_the_middle_of_all_directions() -> None:
    vectors = np.array([[3, 0], [0, 1], [1, 1], [0, 0]], np.float32)  # the middle lies between the first two
    near = nearness_to_middle(vectors)
    assert near.tolist() == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), 1.0, 0.0], abs=1e-6)
    assert nearness_to_middle(np.zeros((2, 3), np.float32)).tolist() == [0.0, 0.0]
