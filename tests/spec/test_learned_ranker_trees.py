"""Trees beside the weighted sum: what they add, to whom, and by which feature. SPEC 7.3."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.retrieval.ranking.learned_ranker import LEAVES_MAX, LearnedRanker, ModelMismatchError, TreeEnsemble
from mnemo_daemon.retrieval.candidates.learned_ranking import WEIGHTS_FILE
from tests.bench.fit_fusion import preorder, written

# near > 0.5 ? (named > 0 ? 2.0 : 0.25) : −1.0, worked out by hand
NODES = [[0, 0.5, 2, 0.125], [-1.0], [1, 0.0, 4, 1.0], [0.25], [2.0]]
TREES = {"features": ["near", "named"], "trees": [NODES]}
Node = list[float]


def rows(*values: tuple[float, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def test_a_row_gets_the_leaf_that_it_comes_to() -> None:
    trees = TreeEnsemble.read(TREES)
    assert trees.odds(rows((0.4, 1.0), (0.6, 0.0), (0.6, 1.0))).tolist() == [-1.0, 0.25, 2.0]


def test_a_value_equal_to_the_threshold_goes_to_the_left() -> None:
    assert TreeEnsemble.read(TREES).odds(rows((0.5, 1.0))).tolist() == [-1.0]


def test_a_threshold_between_two_float32_keeps_each_on_its_side() -> None:
    """As float32 this threshold is more than itself, and more than a value that was to the right of it."""
    above = np.float32(0.3)
    threshold = float(above) - 1e-12
    trees = TreeEnsemble.read({"features": ["near"], "trees": [[[0, threshold, 2, 0.0], [-1.0], [1.0]]]})
    assert trees.odds(rows((float(above),))).tolist() == [1.0]
    assert trees.odds(rows((float(np.nextafter(above, np.float32(0))),))).tolist() == [-1.0]


def test_trees_add_up() -> None:
    more = {"features": TREES["features"], "trees": [NODES, [[0.5]], NODES]}
    assert TreeEnsemble.read(more).odds(rows((0.6, 1.0), (0.0, 0.0))).tolist() == [4.5, -1.5]


def test_no_tree_adds_nothing() -> None:
    trees = TreeEnsemble.read({"features": [], "trees": []})
    assert trees.odds(np.empty((2, 0), np.float32)).tolist() == [0.0, 0.0]
    assert trees.odds(np.empty((0, 0), np.float32)).tolist() == []


def test_trees_without_splits_add_their_leaves_and_no_rows_get_nothing() -> None:
    trees = TreeEnsemble.read({"features": ["near"], "trees": [[[0.5]], [[0.25]]]})
    assert trees.odds(rows((0.0,), (1.0,))).tolist() == [0.75, 0.75]
    assert TreeEnsemble.read(TREES).odds(np.empty((0, 2), np.float32)).tolist() == []


def test_each_split_on_the_way_adds_what_the_mean_changes_by() -> None:
    parts, always = TreeEnsemble.read(TREES).contributions(rows((0.4, 1.0), (0.6, 1.0)))
    # From 0.125 to −1; from 0.125 by `near` to 1, and by `named` on to 2.
    assert parts.tolist() == [[-1.125, 0.0], [0.875, 1.0]]
    assert always == 0.125


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"features": ["near"]},
        {"features": ["near"], "trees": [[]]},
        {"features": ["near"], "trees": [[[0, 0.5, 2, 0.0], [1.0]]]},
        {"features": ["near"], "trees": [[[0, 0.5, 1, 0.0], [1.0], [2.0]]]},
        {"features": ["near"], "trees": [[[0, 0.5, 2, 0.0], [1.0], [2.0], [3.0]]]},
        {"features": ["near"], "trees": [[[1, 0.5, 2, 0.0], [1.0], [2.0]]]},
        {"features": ["near"], "trees": [[[0, math.nan, 2, 0.0], [1.0], [2.0]]]},
        {"features": ["near"], "trees": [[[0, 0.5, 2, 0.0], [math.inf], [2.0]]]},
        {"features": ["near"], "trees": [[[0, 0.5], [1.0], [2.0]]]},
        {"features": ["near"], "trees": [["much"]]},
    ],
)
def test_a_document_without_valid_trees_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ModelMismatchError, match="no trees"):
        TreeEnsemble.read(document)


def test_a_tree_of_more_leaves_than_a_mask_has_bits_is_refused() -> None:
    def chain(leaves: int) -> list[Node]:
        nodes: list[Node] = []
        for each in range(leaves - 1):
            nodes += [[0, float(each), 2 * each + 2, 0.0], [float(each)]]
        return [*nodes, [float(leaves)]]

    trees = TreeEnsemble.read({"features": ["near"], "trees": [chain(LEAVES_MAX)]})
    assert trees.odds(rows((0.5,), (99.0,))).tolist() == [1.0, LEAVES_MAX]
    with pytest.raises(ModelMismatchError, match="33 nodes"):
        TreeEnsemble.read({"features": ["near"], "trees": [chain(LEAVES_MAX + 1)]})


def grown(draw: st.DrawFn, leaves: int, place: int = 0) -> list[Node]:
    """A branch in preorder, of as many leaves."""
    if leaves == 1:
        return [[draw(st.integers(-64, 64)) / 64]]
    left = grown(draw, draw(st.integers(1, leaves - 1)), place + 1)
    behind = place + 1 + len(left)
    split = [draw(st.integers(0, 2)), draw(st.integers(-2, 2)), behind, draw(st.integers(-64, 64)) / 64]
    return [split, *left, *grown(draw, leaves - (len(left) + 1) // 2, behind)]


def walked(nodes: list[Node], row: list[float]) -> float:
    at = 0
    while len(nodes[at]) > 1:
        feature, threshold, right, _ = nodes[at]
        at = int(right) if row[int(feature)] > threshold else at + 1
    return nodes[at][0]


@given(st.data())
def test_evaluating_all_trees_at_once_equals_walking_each_of_them(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, LEAVES_MAX), min_size=1, max_size=4))
    made = [data.draw(st.composite(grown)(size)) for size in sizes]
    values = data.draw(
        st.lists(st.lists(st.integers(-3, 3).map(float), min_size=3, max_size=3), min_size=1, max_size=5)
    )
    trees, asked = TreeEnsemble.read({"features": ["a", "b", "c"], "trees": made}), np.array(values, np.float32)
    found = trees.odds(asked)
    assert found.tolist() == [sum(walked(each, row) for each in made) for row in values]
    parts, always = trees.contributions(asked)
    assert (parts.sum(axis=1) + always).tolist() == pytest.approx(found.tolist())
    assert trees.odds(asked[:1]).tolist() == found[:1].tolist()


def test_a_tree_in_the_form_of_the_fitting_library_becomes_the_same_nodes() -> None:
    """By LightGBM's names: what is not greater goes to the left, which is what stands first here."""
    right = {"split_feature": 1, "threshold": 0.0, "internal_value": 1.0,
             "left_child": {"leaf_value": 0.25}, "right_child": {"leaf_value": 2.0}}  # fmt: skip
    reported = {"split_feature": 0, "threshold": 0.5, "internal_value": 0.125,
            "left_child": {"leaf_value": -1.0}, "right_child": right}  # fmt: skip
    assert preorder(reported) == NODES
    assert preorder({"leaf_value": 0.5}) == [[0.5]]


def test_a_fit_that_is_written_reads_back_unchanged() -> None:
    text = WEIGHTS_FILE.read_text(encoding="utf-8")
    assert written(LearnedRanker.read(json.loads(text))) == text


def test_the_shipped_trees_add_the_same_to_a_row_whatever_other_rows_there_are() -> None:
    trees = TreeEnsemble.read(json.loads(WEIGHTS_FILE.read_text())["trees"])
    assert trees.trees, "there are none"
    values = np.random.default_rng(7).normal(size=(64, len(trees.names))).astype(np.float32)
    together = trees.odds(values)
    assert len(set(together.tolist())) > 32
    assert [trees.odds(values[row : row + 1]).tolist()[0] for row in range(64)] == together.tolist()
