"""Thresholds of a model from labelled pairs. SPEC 4.5"""

import random
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.similarity.thresholds import (
    LABELS,
    PAIRS,
    Label,
    LabelledPair,
    calibrate,
    cosine_at_share,
    share_reaching,
)

LANGUAGES = {"en", "de", "fr", "zh", "ja"}


def pairs_of(sims: dict[Label, list[float]], language: str = "en") -> tuple[list[float], list[LabelledPair]]:
    """Made pairs with these cosines."""
    made = [(sim, LabelledPair(label, label, label, language)) for label, some in sims.items() for sim in some]
    return [sim for sim, _ in made], [pair for _, pair in made]


# Of each class 21, evenly spread, so that each twentieth is a cosine that can be read off.
EVEN: dict[Label, list[float]] = {
    "unrelated": [n / 100 for n in range(21)],  # 0.00 to 0.20
    "related": [(30 + n) / 100 for n in range(21)],  # 0.30 to 0.50
    "same": [(60 + 2 * n) / 100 for n in range(21)],  # 0.60 to 1.00
    "differs": [(60 + 2 * n) / 100 for n in range(21)],
}


# The pairs


def test_there_are_at_least_450_pairs_and_a_hundred_of_each_label() -> None:
    labels = Counter(pair.label for pair in PAIRS)
    assert len(PAIRS) >= 450
    assert set(labels) == set(get_args(Label)) == set(LABELS)
    assert min(labels.values()) >= 100


def test_every_language_has_pairs_of_every_label_and_english_the_most() -> None:
    kinds = Counter((pair.language, pair.label) for pair in PAIRS)
    assert {language for language, _ in kinds} == LANGUAGES
    assert all(kinds[language, label] >= 8 for language in LANGUAGES for label in LABELS)
    assert 0.55 <= sum(pair.language == "en" for pair in PAIRS) / len(PAIRS) <= 0.75


def test_no_pair_is_there_twice_and_none_is_of_one_text() -> None:
    texts = [frozenset((pair.one.casefold(), pair.other.casefold())) for pair in PAIRS]
    assert len(set(texts)) == len(texts)
    assert all(len(both) == 2 for both in texts)
    assert all(text == text.strip() != "" for pair in PAIRS for text in (pair.one, pair.other))


# Shares


def test_the_cosine_that_a_share_reaches_is_a_quantile() -> None:
    sims = [0.5, 0.1, 0.4, 0.2, 0.3]
    assert [cosine_at_share(sims, share) for share in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.5, 0.4, 0.3, 0.1])
    assert cosine_at_share(sims, 0.375) == pytest.approx(0.35)  # midway between the second and the third from above


def test_a_pair_that_reaches_a_cosine_is_accepted() -> None:
    assert share_reaching([0.1, 0.2, 0.3, 0.4], 0.3) == 0.5


# Thresholds, worked out by hand from EVEN


@pytest.mark.parametrize(
    ("name", "cosine"),
    [
        # G: 0.14 is what half of the unrelated reach, 0.30 one in twenty; 0.45 and 0.55 are 45 and 10 in a hundred of
        # the related; 0.65, 0.78, 0.85 are 95, 75 and 50 in a hundred of the same
        ("relevance_expand", 0.10 + 0.09 * (0.25 - 0.14) / (0.30 - 0.14)),
        ("relevance_floor", 0.19),
        ("topic_assign", 0.19),
        ("relevance_gate", 0.41),
        ("relevance_touch", (0.41 + 0.48) / 2),
        ("reconcile", 0.48),
        ("topic_merge", 0.48),
        ("near_proxy", (0.48 + 0.62) / 2),
        ("near", 0.62),
        ("core_overlap", 0.62 + 0.08 * 5 / 13),
        ("triage", 0.62 + 0.08 * 10 / 13),
        ("merge", 0.70),
        ("insert_merge", 0.70 + 0.10 * 2 / 7),
        ("near_with_words", 0.80),
        # T: 0.60 is three in four of the related, 0.70 and 0.92 are 95 and 25 in a hundred of the same
        ("fused_floor", 0.35),
        ("node_join", 0.62),
        ("node_split", 0.62 + 0.28 * 5 / 22),
        ("turn_repeat", 0.90),
        ("node_merge", 0.90 + 0.10 * 1 / 8),
        # nothing that is not the same reaches 0.60, and `same` is not below `near`
        ("same", 0.62),
    ],
)
def test_each_threshold_is_where_its_share_of_its_class_falls(name: str, cosine: float) -> None:
    found = calibrate(*pairs_of(EVEN))
    assert getattr(found.thresholds, name) == pytest.approx(cosine, abs=0.0006)


def test_the_report_says_which_share_of_each_class_reaches_a_threshold() -> None:
    rows = {row.name: row for row in calibrate(*pairs_of(EVEN)).rows}
    gate = rows["relevance_gate"]  # 0.41: ten of the 21 related, all that are nearer
    assert (gate.source, gate.same, gate.differs, gate.related, gate.unrelated) == (0.45, 1.0, 1.0, 0.476, 0.0)
    assert (gate.precision, gate.recall) == (1.0, 0.825)  # (1 + 1 + 10/21) / 3
    floor = rows["relevance_floor"]  # 0.19: two of the 21 unrelated
    assert (floor.unrelated, floor.recall, floor.precision) == (0.095, 1.0, 0.969)  # 3 / (3 + 2/21)
    assert rows["same"].source is None
    assert rows["same"].precision == 1.0  # those that differ are the guard's to see


def test_the_threshold_for_equality_is_above_all_but_one_in_a_hundred_related_pairs() -> None:
    sims = EVEN | {"related": [*EVEN["related"], *[0.75] * 2]}
    # From 0.76 up there is nothing but the same. At 0.74 two of 23 related come in with 14 of 21 same: 0.667 of 0.754.
    assert calibrate(*pairs_of(sims)).thresholds.same == 0.76


def test_above_the_cosine_for_same_no_other_cut_is_less_sure() -> None:
    sims = EVEN | {"related": [*EVEN["related"] * 10, 0.95]}
    # At 0.94 one of 211 related comes in with four of 21 same: 0.190 of 0.195. At 0.60 all same make it 1 of 1.005,
    # and yet what reaches 0.94 is the same too seldom.
    assert calibrate(*pairs_of(sims)).thresholds.same == 0.96


def test_uncertain_pairs_are_not_merged() -> None:
    sims = EVEN | {"related": [*EVEN["related"], 1.0, 1.0]}
    assert calibrate(*pairs_of(sims)).thresholds.same == 1.0


# Languages


def test_a_language_the_model_does_not_read_moves_no_threshold_but_the_ones_that_say_the_same() -> None:
    sims, pairs = pairs_of(EVEN)
    # Every text much like every other: unrelated 0.60 to 0.70, related 0.62 to 0.72
    unread: dict[Label, list[float]] = {
        "unrelated": [0.60, 0.65, 0.70], "related": [0.62, 0.67, 0.72], "differs": [0.9], "same": [0.8, 0.9],
    }  # fmt: skip
    more_sims, more_pairs = pairs_of(unread, "xx")
    alone, both = calibrate(sims, pairs), calibrate(sims + more_sims, pairs + more_pairs)
    assert both.counted == alone.counted == ("en",)
    assert both.thresholds._replace(same=0.62) == alone.thresholds
    assert both.thresholds.same == 0.74  # above what is only related there, which reaches 0.72
    # of the nine pairs of one related and one unrelated, six are the right way round
    assert both.languages == {"en": 1.0, "xx": 0.667}


def test_a_language_on_the_same_scale_counts() -> None:
    sims, pairs = pairs_of(EVEN)
    more_sims, more_pairs = pairs_of(
        {label: [min(sim + 0.02, 1.0) for sim in some] for label, some in EVEN.items()}, "xx"
    )
    found = calibrate(sims + more_sims, pairs + more_pairs)
    assert found.counted == ("en", "xx")
    assert found.thresholds.relevance_floor == pytest.approx(0.205, abs=0.01)


def test_a_model_that_reads_another_language_only_is_measured_in_that() -> None:
    blind = dict.fromkeys(LABELS, [0.50, 0.51, 0.52] * 8)
    sims, pairs = pairs_of(blind)
    more_sims, more_pairs = pairs_of(EVEN, "xx")
    found = calibrate(sims + more_sims, pairs + more_pairs)
    assert found.counted == ("xx",)
    assert found.languages == {"en": 0.5, "xx": 1.0}
    assert found.thresholds.near == 0.62


# Models that are good for nothing, and any model


def test_a_model_that_tells_nothing_apart_is_seen() -> None:
    chance = random.Random(5)
    assert calibrate(*pairs_of(EVEN)).separates
    assert not calibrate([chance.random() for _ in PAIRS], PAIRS).separates


@given(st.integers(0, 10_000), st.floats(0.0, 0.9), st.floats(0.01, 1.0))
@settings(max_examples=25, deadline=None)
def test_G48_the_order_holds_on_every_model_however_poor(seed: int, least: float, breadth: float) -> None:
    chance = random.Random(seed)
    sims = [min(least + breadth * chance.random(), 1.0) for _ in PAIRS]
    table = calibrate(sims, PAIRS).thresholds
    assert table.near_proxy <= table.near <= table.triage <= table.merge <= table.near_with_words
    assert table.relevance_expand <= table.relevance_floor <= table.relevance_gate <= table.reconcile <= table.near
    assert table.near <= table.same
    assert table.fused_floor <= table.node_join <= table.node_split <= min(table.turn_repeat, table.node_merge)
