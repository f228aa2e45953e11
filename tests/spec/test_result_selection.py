"""Selection and order of answers from the ranked candidates. SPEC 7.5; rows L20, L22, L23, L24, G41, T13."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mnemo_core.retrieval.result_selection import (
    COMPARED_CHARS_MAX,
    COMPARED_MAX,
    PREFERENCES_MAX,
    Selection,
    SelectionRequest,
    Windows,
    is_copy,
    is_preference,
    select,
)
from mnemo_core.similarity.thresholds import of_model
from mnemo_store.records import Memory, Trust
from tests.support.samples import AT, sample_memory

THRESHOLDS = of_model("all-MiniLM-L6-v2")  # merge: 0.807
HOUR = 3_600_000
DAY = 24 * HOUR


class Memories:
    """A shelf of made memories: their numbers are their places."""

    def __init__(
        self,
        *memories: Memory,
        tokens: Sequence[int] | None = None,
        vectors: Mapping[int, Sequence[float]] | None = None,
        updates: Sequence[tuple[int, int]] = (),
        likely: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.memories = memories
        self.sizes = tokens or [10] * len(memories)
        self.vectors = vectors or {}
        self.updates = updates
        self.likely = likely
        self.read: set[int] = set()

    def memory(self, number: int) -> Memory | None:
        self.read.add(number)
        return self.memories[number]

    def tokens(self, number: int) -> int:
        return self.sizes[number]

    def windows(self, number: int) -> Windows | None:
        vector = self.vectors.get(number)
        return None if vector is None else np.array([vector], np.float32)

    def is_preference(self, number: int) -> bool:
        return is_preference(self.memories[number])

    def newer(self, number: int) -> list[int]:
        return [new for new, old in self.updates if old == number]

    def perhaps_newer(self, number: int) -> list[int]:
        return [new for new, old in self.likely if old == number]

    def older(self, number: int) -> list[int]:
        return [old for new, old in self.updates if new == number]


def test_what_perhaps_replaced_another_stands_before_it_where_it_is_near() -> None:
    source = Memories(*plain(9), likely=[(3, 0), (8, 1)])
    assert numbers(select(range(9), source, SelectionRequest(9), THRESHOLDS)) == [3, 0, 1, 2, 4, 5, 6, 7, 8]
    chosen = select(range(9), source, SelectionRequest(9), THRESHOLDS).chosen
    assert [each.number for each in chosen if each.is_perhaps_earlier] == [0]
    at_that_time = SelectionRequest(9, as_of=DAY)
    assert numbers(select(range(9), source, at_that_time, THRESHOLDS)) == [*range(9)]


def test_what_speaks_of_something_else_does_not_move_before_what_it_perhaps_replaced() -> None:
    wanted, scores = SelectionRequest(3), {0: 0.6, 1: 0.03, 2: 0.02}
    for sim, order in ((0.8, [1, 0, 2]), (0.4, [0, 1, 2])):
        source = Memories(*plain(3), likely=[(1, 0)])
        source.vectors = {0: (1.0, 0.0), 1: (sim, (1 - sim * sim) ** 0.5)}
        found = select(range(3), source, wanted, THRESHOLDS, scores=scores)
        assert numbers(found) == order
        assert [each.number for each in found.chosen if each.is_perhaps_earlier] == ([0] if sim > 0.5 else [])
    hardly = select(range(3), Memories(*plain(3), likely=[(1, 0)]), wanted, THRESHOLDS, scores={0: 0.6, 1: 0.01})
    assert numbers(hardly) == [0, 1, 2]


def test_of_two_values_that_replaced_parts_of_one_memory_the_one_that_bears_on_the_question_is_first() -> None:
    contents = (
        "Rita goes to the school on Rua Nova; it ends at 15:30.",
        "Rita changed to Avenida.",
        "School ends at 16.",
    )
    source = Memories(*dated(*contents), updates=[(1, 0), (2, 0)])
    for scores, first in (({0: 0.8, 1: 0.3, 2: 0.02}, 1), ({0: 0.8, 1: 0.02, 2: 0.3}, 2)):
        found = select([0, 1, 2], source, SelectionRequest(3), THRESHOLDS, scores=scores)
        assert [(each.number, each.is_earlier_value) for each in found.chosen][:2] == [(first, False), (0, True)]


def plain(count: int) -> list[Memory]:
    """Memories that have not even a word in common."""
    return [sample_memory(number, f"word{number}") for number in range(count)]


def dated(*contents: str) -> list[Memory]:
    """One a day."""
    return [sample_memory(n, content, event_at=AT + n * DAY) for n, content in enumerate(contents)]


def answer(
    shelf: Memories, ranked: Sequence[int] | None = None, preferences: Sequence[int] | None = None, **wanted: Any
) -> Selection:
    order = range(len(shelf.memories)) if ranked is None else ranked
    return select(list(order), shelf, SelectionRequest(**{"top_k": 5, **wanted}), THRESHOLDS, preferences)


def numbers(selected: Selection) -> list[int]:
    return [each.number for each in selected.chosen]


# The budget


def test_L22_a_candidate_that_does_not_fit_is_skipped_and_smaller_ones_after_it_are_taken() -> None:
    found = answer(Memories(*plain(4), tokens=[5000, 40, 70, 50]), budget=100)
    assert numbers(found) == [1, 3]
    assert found.tokens == 90
    assert found.dropped == {0: "over_budget", 2: "over_budget"}


def test_L22_the_list_ends_at_top_k_whatever_still_fits() -> None:
    assert numbers(answer(Memories(*plain(3), tokens=[1, 1, 1]), top_k=2, budget=100)) == [0, 1]


def test_G41_without_a_budget_everything_fits() -> None:
    found = answer(Memories(*plain(3), tokens=[10_000] * 3), top_k=3)
    assert (numbers(found), found.tokens, found.tokens_needed) == ([0, 1, 2], 30_000, 0)


def test_L24_where_nothing_fits_the_answer_says_how_much_the_smallest_needs() -> None:
    found = answer(Memories(*plain(3), tokens=[300, 120, 250]), budget=100)
    assert found.tokens_needed == 120


def test_when_nothing_fits_the_best_answer_is_cut_to_the_budget() -> None:
    found = answer(Memories(*plain(3), tokens=[300, 120, 250]), budget=100)
    assert [(each.number, each.tokens, each.is_cut) for each in found.chosen] == [(0, 100, True)]
    assert found.dropped == {1: "over_budget", 2: "over_budget"}


def test_next_to_preferences_the_best_is_cut_to_the_remaining_budget() -> None:
    taste = sample_memory(2, "word2", kind="procedural")
    found = answer(Memories(*plain(2), taste, tokens=[300, 120, 20]), budget=100, preferences_first=True)
    assert [(each.number, each.tokens, each.is_cut) for each in found.chosen] == [(2, 20, False), (0, 80, True)]


def test_only_the_first_page_has_something_cut() -> None:
    assert answer(Memories(*plain(3), tokens=[300, 120, 250]), budget=100, offset=1).chosen == []


def test_a_budget_that_fits_something_needs_no_advice() -> None:
    assert answer(Memories(*plain(2), tokens=[300, 20]), budget=100).tokens_needed == 0


def test_no_more_is_read_than_the_answer_comes_to() -> None:
    shelf = Memories(*plain(50))
    answer(shelf, top_k=3)
    assert shelf.read == {0, 1, 2}


# Copies


def test_T13_equal_content_comes_once_whatever_its_case_and_white_space() -> None:
    found = answer(Memories(*(sample_memory(n, text) for n, text in enumerate(["Oat milk.", "oat  milk.", "Tea."]))))
    assert numbers(found) == [0, 2]
    assert found.dropped == {1: "duplicate_content"}


def test_of_near_copies_the_best_comes() -> None:
    texts = ["My sister lives in Lisbon, near the river.", "My sister lives in Lisbon.", "The boat is red."]
    shelf = Memories(
        *(sample_memory(n, text) for n, text in enumerate(texts)), vectors={0: [1, 0], 1: [0.9, 0.4359], 2: [0, 1]}
    )
    found = answer(shelf)
    assert numbers(found) == [0, 2]
    assert found.dropped == {1: "near_copy"}


def test_a_replaced_text_that_was_asked_for_comes_behind_the_one_that_contains_it() -> None:
    texts = ["The limiter needs Redis, as the audit asks. It saves two servers.", "The limiter needs Redis."]
    for state, expected in (("superseded", [0, 1]), ("active", [0])):
        old = sample_memory(
            1, texts[1], state=state, superseded_by=sample_memory(0, "").id if state != "active" else ""
        )
        shelf = Memories(sample_memory(0, texts[0]), old, vectors={0: [1, 0], 1: [1, 0]}, updates=[(0, 1)])
        assert numbers(answer(shelf, ranked=[1, 0])) == expected
    shelf = Memories(sample_memory(0, texts[0]), old, vectors={0: [1, 0], 1: [1, 0]}, updates=[(0, 1)])
    assert numbers(answer(shelf, ranked=[0, 1])) == [0]


def test_a_copy_that_adds_a_specific_comes_too() -> None:
    texts = ["My sister lives in Lisbon.", "My sister lives in Lisbon, in Alfama."]
    shelf = Memories(*(sample_memory(n, text) for n, text in enumerate(texts)), vectors={0: [1, 0], 1: [1, 0]})
    assert numbers(answer(shelf)) == [0, 1]
    assert numbers(answer(shelf, ranked=[1, 0])) == [1]


def test_a_candidate_larger_than_the_budget_holds_no_smaller_copy_back() -> None:
    texts = ["My sister lives in Lisbon, near the river.", "My sister lives in Lisbon."]
    shelf = Memories(
        *(sample_memory(n, text) for n, text in enumerate(texts)), tokens=[200, 10], vectors={0: [1, 0], 1: [1, 0]}
    )
    assert numbers(answer(shelf, budget=100)) == [1]


LISBON = "My sister lives in Lisbon."


@pytest.mark.parametrize(
    ("best", "other", "expected"),
    [
        (LISBON, "my sister lives in lisbon", True),
        ("The boiler was replaced by Ines.", "The boiler was replaced.", True),
        # the same in other words: several plain words differ
        ("The boat has its winter place in the old harbour.", "The old harbour is where the boat spends winter.", True),
        # one plain word in the place of another is what they differ in
        ("The red wire goes to the plus pole.", "The black wire goes to the plus pole.", False),
        (LISBON, "My sister lives in Porto.", False),
        (LISBON, "My sister does not live in Lisbon.", False),
        ("I don't eat meat.", "I eat meat.", False),
        ("The door stays open.", "The door stays closed.", False),
        ("Rent is 900 euros.", "Rent is 950 euros.", False),
        ("Anna pays Ben.", "Ben pays Anna.", False),
        ("In the yard the cat chased the dog.", "In the yard the dog chased the cat.", False),
        ("The lamp must be on.", "The lamp is on.", False),
    ],
)
def test_a_near_copy_tells_nothing_that_the_better_one_does_not(best: str, other: str, expected: bool) -> None:
    assert is_copy(sample_memory(0, best), sample_memory(1, other), 0.95, THRESHOLDS) is expected


def test_texts_that_are_not_near_are_no_copies_whatever_they_say() -> None:
    one, other = sample_memory(0, LISBON), sample_memory(1, LISBON)
    assert not is_copy(one, other, 0.80, THRESHOLDS)
    assert is_copy(one, other, 0.81, THRESHOLDS)


def test_without_vectors_the_words_decide_which_texts_are_similar() -> None:
    one = sample_memory(0, "The spare key of the green boat is with Ines.")
    assert is_copy(one, sample_memory(1, "the spare key of the green boat is with Ines"), None, THRESHOLDS)
    assert not is_copy(one, sample_memory(1, "Ines has the green boat."), None, THRESHOLDS)


def test_statements_of_two_people_are_no_copies() -> None:
    one, other = (sample_memory(n, "I live in Lisbon!", speaker=who) for n, who in enumerate(("Ana", "Rui")))
    assert not is_copy(one, other, 1.0, THRESHOLDS)
    assert is_copy(one, sample_memory(2, "I live in Lisbon", speaker="Ana"), 1.0, THRESHOLDS)


def test_events_and_statements_about_another_day_are_no_copies() -> None:
    ran = sample_memory(0, "Went running in the park.", kind="episodic")
    assert not is_copy(ran, sample_memory(1, "Went running in the park", kind="episodic", event_at=AT + DAY), 1.0,
                       THRESHOLDS)  # fmt: skip
    assert is_copy(ran, sample_memory(1, "Went running in the park", kind="episodic", event_at=AT + HOUR), 1.0,
                   THRESHOLDS)  # fmt: skip
    today = sample_memory(0, "The boiler is off today.")
    assert not is_copy(today, sample_memory(1, "The boiler is off today", event_at=AT + DAY), 1.0, THRESHOLDS)


# Values and what replaced them

CITIES = ("I live in Lisbon.", "I live in Porto.", "I live in Braga.")
CHAIN = [(1, 0), (2, 1)]


def test_the_newer_value_stands_first_and_the_older_right_after_it() -> None:
    shelf = Memories(*dated(*CITIES[:2]), sample_memory(2, "Other."), updates=[(1, 0)])
    found = answer(shelf, ranked=[0, 2, 1])
    assert [(each.number, each.is_earlier_value) for each in found.chosen] == [(1, False), (0, True), (2, False)]


def test_a_newer_value_that_was_not_found_comes_with_the_older() -> None:
    shelf = Memories(*dated(*CITIES), updates=CHAIN)
    found = answer(shelf, ranked=[0], top_k=4)
    assert [(each.number, each.ranked_as, each.is_earlier_value) for each in found.chosen] == [
        (2, 0, False),
        (0, 0, True),
    ]


def test_an_older_value_that_was_not_found_does_not_come() -> None:
    assert numbers(answer(Memories(*dated(*CITIES), updates=CHAIN), ranked=[2])) == [2]


def test_the_edge_decides_which_value_is_newer_and_not_a_date_in_the_text() -> None:
    late = sample_memory(0, "The deadline is April 21.", event_at=AT + 9 * DAY)
    soon = sample_memory(1, "The deadline moved to March 3.", event_at=AT)
    assert numbers(answer(Memories(late, soon, updates=[(1, 0)]))) == [1, 0]


def test_older_values_take_a_quarter_of_the_list_at_most_and_others_wait_their_turn() -> None:
    others = [sample_memory(n, f"word{n}") for n in range(3, 8)]
    shelf = Memories(*dated(*CITIES), *others, updates=CHAIN)
    found = answer(shelf, ranked=[2, 0, 3, 1, 4, 5, 6, 7], top_k=5)
    assert [(each.number, each.is_earlier_value) for each in found.chosen] == [
        (2, False), (1, True), (0, True), (3, False), (4, False)
    ]  # fmt: skip
    found = answer(shelf, ranked=[2, 3, 4, 5, 6, 1, 0], top_k=5)
    assert numbers(found) == [2, 1, 3, 4, 5]


def test_an_older_value_is_left_out_where_one_more_would_fit_without_it() -> None:
    shelf = Memories(*dated(*CITIES[:2]), sample_memory(2, "Other."), tokens=[40, 40, 40], updates=[(1, 0)])
    found = answer(shelf, budget=100)
    assert numbers(found) == [1, 2]
    assert found.dropped == {0: "older_value"}


def test_an_older_value_stays_where_leaving_it_out_makes_no_room() -> None:
    shelf = Memories(*dated(*CITIES[:2]), sample_memory(2, "Other."), tokens=[40, 40, 90], updates=[(1, 0)])
    assert numbers(answer(shelf, budget=100)) == [1, 0]


def test_as_of_a_time_its_current_value_is_first_and_a_later_one_is_no_older_value() -> None:
    shelf = Memories(*dated(*CITIES), updates=CHAIN)
    found = answer(shelf, ranked=[2, 1, 0], as_of=AT + DAY)
    assert [(each.number, each.is_earlier_value) for each in found.chosen] == [(1, False), (0, True), (2, False)]


def test_as_of_a_time_before_all_of_them_the_found_value_is_answered() -> None:
    assert numbers(answer(Memories(*dated(*CITIES), updates=CHAIN), ranked=[0], as_of=AT - DAY)) == [0]


def test_in_an_order_by_time_nothing_is_moved() -> None:
    shelf = Memories(*dated(*CITIES), updates=CHAIN)
    found = answer(shelf, ranked=[0, 1, 2], by_score=False)
    assert [(each.number, each.is_earlier_value) for each in found.chosen] == [(0, False), (1, False), (2, False)]


def test_relations_that_form_a_circle_end() -> None:
    shelf = Memories(*dated(*CITIES), updates=[*CHAIN, (0, 2)])
    assert sorted(numbers(answer(shelf))) == [0, 1, 2]
    into_it = Memories(*dated(*CITIES, "I live in Faro."), updates=[*CHAIN, (0, 2), (3, 2)])
    assert sorted(numbers(answer(into_it, ranked=[3, 2, 1, 0]))) == [0, 1, 2, 3]


# Preferences


def preferences(count: int, others: int = 3) -> list[Memory]:
    """Others first, then so many preferences, as they are ranked."""
    kept = [sample_memory(n, f"taste{n}", kind="procedural", form="preference") for n in range(others, others + count)]
    return [*plain(others), *kept]


def test_L23_preferences_come_first_and_do_not_count_in_top_k() -> None:
    found = answer(Memories(*preferences(2)), top_k=2, preferences_first=True)
    assert [(each.number, each.is_preference) for each in found.chosen] == [
        (3, True), (4, True), (0, False), (1, False)
    ]  # fmt: skip


def test_L23_inline_they_stand_where_they_are_ranked_and_count() -> None:
    assert numbers(answer(Memories(*preferences(2)), top_k=2)) == [0, 1]


def test_L23_five_preferences_take_no_place_and_the_sixth_keeps_its_rank() -> None:
    found = answer(Memories(*preferences(7)), top_k=4, preferences_first=True)
    assert sum(each.is_preference for each in found.chosen) == PREFERENCES_MAX == 5
    assert numbers(found) == [3, 4, 5, 6, 7, 0, 1, 2, 8]


def test_L23_preferences_take_a_quarter_of_the_budget_at_most() -> None:
    found = answer(Memories(*preferences(3), tokens=[20, 20, 20, 15, 15, 8]), budget=100, preferences_first=True)
    assert [(each.number, each.is_preference) for each in found.chosen] == [
        (3, True), (5, True), (0, False), (1, False), (2, False), (4, False)
    ]  # fmt: skip
    assert found.tokens == 98


def test_preferences_that_leave_no_room_for_anything_else_stand_where_they_are_ranked() -> None:
    found = answer(Memories(*preferences(1, others=2), tokens=[90, 95, 20]), budget=100, preferences_first=True)
    assert [(each.number, each.is_preference) for each in found.chosen] == [(0, False)]


def test_of_procedural_memories_only_preferences_are_put_first() -> None:
    kinds: list[tuple[Any, bool]] = [("preference", True), (None, True), ("step", False), ("workflow", False)]
    for form, expected in kinds:
        assert is_preference(sample_memory(0, kind="procedural", form=form)) is expected
    assert not is_preference(sample_memory(0, kind="semantic"))


def test_only_statements_of_the_person_are_preferences() -> None:
    for trust, expected in (("user", True), ("agent", False), ("note", False), ("import", False), ("tool", False)):
        assert is_preference(sample_memory(0, kind="procedural", trust=trust)) is expected
    assert not is_preference(sample_memory(0, kind="procedural", source="ingest"))


def test_preferences_stand_ahead_whatever_was_found() -> None:
    shelf = Memories(*preferences(3, others=2))
    found = answer(shelf, ranked=[0, 3], preferences_first=True, preferences=[3, 4, 2])
    assert [(each.number, each.is_preference) for each in found.chosen] == [
        (3, True), (4, True), (2, True), (0, False)
    ]  # fmt: skip
    nothing = answer(shelf, ranked=[], preferences_first=True, preferences=[4])
    assert [(each.number, each.is_preference) for each in nothing.chosen] == [(4, True)]


def test_of_equal_preferences_one_stands_first_and_none_comes_later() -> None:
    twice = [sample_memory(n, "No sugar.", kind="procedural", form="preference") for n in range(2)]
    assert numbers(answer(Memories(*twice), preferences_first=True)) == [0]


def test_of_preferences_the_newer_value_is_the_one_that_stands_first() -> None:
    tastes = dated("I prefer tea.", "I prefer coffee.")
    kept = [sample_memory(n, each.content, kind="procedural", event_at=each.event_at) for n, each in enumerate(tastes)]
    found = answer(Memories(*kept, updates=[(1, 0)]), preferences_first=True)
    assert [(each.number, each.is_earlier_value, each.is_preference) for each in found.chosen] == [
        (1, False, True),
        (0, True, False),
    ]


def test_a_preference_that_perhaps_holds_no_longer_stands_marked_behind_the_newer_one() -> None:
    shelf = Memories(*preferences(3, others=0), likely=[(2, 0)])
    for ranked, ahead in (([], [0, 1, 2]), ([0], [0, 1]), ([1, 2, 0], [1, 2, 0])):
        chosen = answer(shelf, ranked=ranked, preferences_first=True, preferences=ahead).chosen
        assert [each.number for each in chosen if each.is_preference] == ([1, 2, 0] if ahead[0] else [2, 0, 1])
        assert [each.number for each in chosen if each.is_perhaps_earlier] == [0]
    shelf = Memories(*preferences(1, others=1), likely=[(0, 1)])  # of which the newer one is no preference
    found = answer(shelf, ranked=[], preferences_first=True, preferences=[1])
    assert [(each.number, each.is_perhaps_earlier) for each in found.chosen] == [(1, True)]


# What others wrote


def shelf_of(trusts: str, tokens: int = 10) -> Memories:
    """Memories of the person (`.`) and of agents (`a`), as they are ranked."""
    kept = [sample_memory(n, f"word{n}", trust="agent" if each == "a" else "user") for n, each in enumerate(trusts)]
    return Memories(*kept, tokens=[tokens] * len(kept))


@pytest.mark.parametrize(
    ("trusts", "budget", "expected"),
    [
        ("aaaaaa....", None, [0, 6, 7, 8, 9]),  # one in four of top_k
        ("aaaaaa..", None, [0, 1, 2, 6, 7]),  # what the person's own leaves
        ("aaaaaaaa", None, [0, 1, 2, 3, 4]),
        ("..a.a.", None, [0, 1, 2, 3, 5]),
        ("aaaa..", 40, [0, 1, 4, 5]),
        ("aaaa..", 30, [0, 4, 5]),  # a quarter of the budget holds none of them
    ],
)
def test_what_others_wrote_has_a_share_and_what_the_person_leaves(
    trusts: str, budget: int | None, expected: list[int]
) -> None:
    assert numbers(answer(shelf_of(trusts), budget=budget, limits_others=True)) == expected


def test_a_person_who_asks_gets_the_best_whoever_wrote_them() -> None:
    assert numbers(answer(shelf_of("aaaaaa...."))) == [0, 1, 2, 3, 4]


def test_no_text_of_others_stands_for_an_equal_one_of_the_person() -> None:
    trusts: list[tuple[Trust, Trust, list[int]]] = [
        ("agent", "user", [0, 1]), ("user", "agent", [0]), ("agent", "tool", [0]),
    ]  # fmt: skip
    for first, second, expected in trusts:
        one = sample_memory(0, "The tea is in the tin.", trust=first)
        assert numbers(answer(Memories(one, sample_memory(1, "the TEA is in the tin.", trust=second)))) == expected


# Pages


def pages(shelf: Memories, **wanted: Any) -> list[int]:
    """All pages, each going on by as many as came; behind one of preferences alone there is nothing."""
    seen: list[int] = []
    offset, came = 0, 1
    while came and (page := answer(shelf, offset=offset, **wanted).chosen):
        seen += [each.number for each in page if not each.is_cut]
        came = sum(not each.is_preference for each in page)
        offset += came
    return seen


@given(
    st.lists(st.integers(1, 120), min_size=1, max_size=25),
    st.integers(1, 7),
    st.none() | st.integers(1, 100),
    st.booleans(),
)
@example([90, 90, 20], 5, 100, True)
@example([60, 60, 2], 5, 50, True)
def test_pages_neither_repeat_nor_skip_any(
    tokens: list[int], top_k: int, budget: int | None, preferences_first: bool
) -> None:
    memories = [
        sample_memory(n, f"word{n}", kind="procedural" if n % 3 == 2 else "semantic") for n in range(len(tokens))
    ]
    shelf = Memories(*memories, tokens=tokens)
    seen = pages(shelf, top_k=top_k, budget=budget, preferences_first=preferences_first)
    assert sorted(seen) == [n for n, size in enumerate(tokens) if budget is None or size <= budget]


def test_a_candidate_skipped_on_one_page_is_on_the_next() -> None:
    shelf = Memories(*plain(4), tokens=[80, 60, 20, 30])
    assert numbers(answer(shelf, budget=100)) == [0, 2]
    assert numbers(answer(shelf, budget=100, offset=2)) == [1, 3]


def test_preferences_stand_on_the_first_page_alone() -> None:
    shelf = Memories(*preferences(2))
    assert numbers(answer(shelf, top_k=2, offset=2, preferences_first=True)) == [2]


def test_behind_the_last_page_there_is_nothing_and_nothing_is_needed() -> None:
    found = answer(Memories(*plain(3), tokens=[10, 10, 500]), budget=100, offset=9)
    assert (found.chosen, found.tokens_needed) == ([], 0)


def table(number: int) -> str:
    """An export of a bank of some 3,500 characters, like the others but for its figures."""
    rows = (
        f"2026-{number % 12 + 1:02}-{row % 28 + 1:02},{number * row}.50,DE{number:04}{row:06},rent"
        for row in range(100)
    )
    return "date,amount,account,memo\n" + "\n".join(rows)


def test_large_tables_that_are_near_are_compared_within_bounds() -> None:
    near = {number: [1.0, 0.0] for number in range(60)}
    shelf = Memories(*(sample_memory(number, table(number)) for number in range(60)), vectors=near)
    selected = select(range(60), shelf, SelectionRequest(top_k=60), THRESHOLDS)
    assert len(selected.chosen) == 60  # what was not compared is no copy
    chars = len(table(5)) * 2
    pairs = sum(min(number, COMPARED_MAX) for number in range(60))
    assert pairs - COMPARED_CHARS_MAX // chars - 2 <= selected.uncompared <= pairs - COMPARED_CHARS_MAX // chars + 2


def test_of_texts_of_a_usual_length_all_that_are_near_are_compared() -> None:
    near = {number: [1.0, 0.0] for number in range(40)}
    shelf = Memories(
        *(sample_memory(number, f"The gate code of house {number} is 4711.") for number in range(40)), vectors=near
    )
    assert select(range(40), shelf, SelectionRequest(top_k=40), THRESHOLDS).uncompared == 0
