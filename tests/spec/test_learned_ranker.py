"""The learned fusion: what its weights are, and how two looks become one order. SPEC 7.3."""

import math

import numpy as np
import pytest

from mnemo_core.retrieval.ranking.learned_ranker import (
    DEVIATIONS_MAX,
    LearnedRanker,
    LinearModel,
    ModelMismatchError,
    few_candidates_offset,
    join_tables,
    merge_odds,
    probability,
)
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable

WEIGHTS = {"bias": -1.0, "features": {"near": [0.5, 0.25, 2.0], "long": [10.0, 5.0, -0.5]}}


def table(names: tuple[str, ...], *rows: tuple[float, ...]) -> FeatureTable:
    return FeatureTable(names, np.array(rows, np.float32))


def test_a_feature_adds_its_weight_for_each_deviation_from_its_mean() -> None:
    linear = LinearModel.read(WEIGHTS)
    found = table(("near", "long"), (0.75, 10.0), (0.5, 20.0))
    # (0.75 − 0.5) / 0.25 = 1 deviation · 2; (20 − 10) / 5 = 2 deviations · −0.5
    assert linear.contributions(found).tolist() == [[2.0, 0.0], [0.0, -1.0]]
    assert linear.odds(found).tolist() == [1.0, -2.0]


def test_features_are_known_by_name_wherever_they_stand() -> None:
    linear = LinearModel.read(WEIGHTS)
    assert linear.odds(table(("other", "long", "near"), (9.0, 10.0, 0.75))).tolist() == [1.0]


def test_a_value_far_outside_of_the_fitted_range_counts_as_six_deviations() -> None:
    linear = LinearModel.read(WEIGHTS)
    (parts,) = linear.contributions(table(("near", "long"), (1000.0, -1000.0))).tolist()
    assert parts == [2.0 * DEVIATIONS_MAX, -0.5 * -DEVIATIONS_MAX]


def test_weights_for_features_that_are_not_computed_are_refused_by_name() -> None:
    with pytest.raises(ModelMismatchError, match="not computed: long"):
        LinearModel.read(WEIGHTS).odds(table(("near",), (1.0,)))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"bias": 0.0},
        {"bias": "much", "features": {}},
        {"bias": 0.0, "features": {"near": [0.0, 1.0]}},
        {"bias": 0.0, "features": {"near": [0.0, 0.0, 1.0]}},
        {"bias": math.nan, "features": {}},
        {"bias": 0.0, "features": {"near": [0.0, 1.0, math.inf]}},
    ],
)
def test_a_document_without_valid_weights_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ModelMismatchError):
        LinearModel.read(document)


def test_the_second_look_orders_its_rows_and_the_rest_stays_behind_in_the_order_of_the_first() -> None:
    first = np.array([3.0, 2.0, 1.0, 0.5], np.float32)
    # Rows 0 and 1 were looked at again, and changed places; −5 is now the last of them, so 1.0 and 0.5 come down to it.
    odds = merge_odds(first, np.array([0, 1]), np.array([-5.0, -2.0], np.float32))
    assert odds.tolist() == [-5.0, -2.0, -5.0, -5.5]
    assert merge_odds(first, np.array([], np.intp), np.array([], np.float32)).tolist() == first.tolist()


def test_the_rest_is_not_lifted_by_a_second_look_that_thinks_better_of_all() -> None:
    first = np.array([3.0, -2.0], np.float32)
    assert merge_odds(first, np.array([0]), np.array([9.0], np.float32)).tolist() == [9.0, -2.0]


def test_the_features_of_a_second_look_stand_behind_those_of_the_first() -> None:
    first = table(("a", "b"), (1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    again = join_tables(first, table(("late",), (7.0,), (8.0,)), [2, 0])
    assert again.names == ("a", "b", "late")
    assert again.values.tolist() == [[5.0, 6.0, 7.0], [1.0, 2.0, 8.0]]


def test_log_odds_become_a_chance() -> None:
    assert probability(np.array([0.0, 1000.0, -1000.0], np.float32)).tolist() == pytest.approx([0.5, 1.0, 0.0])
    assert probability(np.array([math.log(3)], np.float32)).tolist() == pytest.approx([0.75])


TREES = {"features": ["long", "near"], "trees": [[[1, 0.5, 2, 0.25], [0.0], [1.0]]]}


def test_the_trees_add_to_the_second_look_alone_and_their_features_are_known_by_name() -> None:
    found = LearnedRanker.read({"first": WEIGHTS, "second": WEIGHTS, "trees": TREES})
    asked = table(("near", "long"), (0.75, 10.0), (0.5, 20.0))
    assert found.first.odds(asked).tolist() == [1.0, -2.0]
    assert found.second_odds(asked).tolist() == [2.0, -2.0]
    # Of the tree the near one has 1 − 0.25 by `near`, the other one 0 − 0.25; 0.25 is everybody's.
    assert found.second_contributions(asked).tolist() == [[2.75, 0.0], [-0.25, -1.0]]


def test_all_that_is_fitted_is_read_from_one_document() -> None:
    fusion = LearnedRanker.read({"first": WEIGHTS, "second": {"bias": 0.0, "features": {}}, "trees": TREES})
    assert fusion.first.names == ("near", "long")
    assert fusion.second.names == ()
    assert fusion.trees.names == ("long", "near")
    with pytest.raises(ModelMismatchError, match="not computed: long"):
        fusion.second_odds(table(("near",), (1.0,)))


@pytest.mark.parametrize("name", ["first", "second", "trees"])
def test_a_document_without_one_of_them_is_refused(name: str) -> None:
    document = {"first": WEIGHTS, "second": WEIGHTS, "trees": TREES}
    del document[name]
    with pytest.raises(ModelMismatchError):
        LearnedRanker.read(document)


@pytest.mark.parametrize(
    ("count", "added"), [(1, 3.4539), (10, 1.7269), (50, 0.5199), (100, 0.0), (230, 0.0), (0, 3.4539)]
)
def test_of_few_candidates_each_is_more_likely(count: int, added: float) -> None:
    assert few_candidates_offset(count) == pytest.approx(added, abs=1e-4)
