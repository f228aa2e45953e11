"""Topic nodes: which pairs of turns are one topic, and which topics were recalled together. SPEC 10.2 [T]

Vectors are directions in a plane, given in degrees, so that a cosine is that of the angle between two of them: 0.70 is
reached at 45°, 0.75 at 41°, 0.93 at 21°.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.knowledge.topic_nodes import (
    CO_OCCURRING_MAX,
    NodeCentroids,
    Totals,
    cluster,
    co_occurring_pairs,
    is_split_due,
    moved_edges,
    pair_vector,
    split,
)
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_store.records import NodeEdge

JOIN, SPLIT, MERGE = SOURCE.node_join, SOURCE.node_split, SOURCE.node_merge


def at(degrees: float) -> Totals:
    """The unit vector in that direction."""
    angle = math.radians(degrees)
    return np.array([math.cos(angle), math.sin(angle)])


def edge(source: str, target: str, weight: int = 1, at: int = 0, relation: str = "co_occurs") -> NodeEdge:
    return NodeEdge(source=source, target=target, relation=relation, at=at, weight=weight)  # type: ignore[arg-type]


def test_T8_a_pair_joins_the_node_whose_centroid_has_a_cosine_of_070_or_more() -> None:
    assert cluster([at(0), at(45)], JOIN) == [[0, 1]]  # cos 45° = 0.7071
    assert cluster([at(0), at(46)], JOIN) == [[0], [1]]  # cos 46° = 0.6947
    assert cluster([at(0), at(80), at(41)], JOIN) == [[0], [1, 2]]  # 39° from the second, 41° from the first


def test_T8_the_centroid_is_the_running_mean_of_the_members() -> None:
    # The mean of 0° and 40° is at 20°: 64° is 44° from it (0.7193), though 64° from the first (0.4384).
    assert cluster([at(0), at(40), at(64)], JOIN) == [[0, 1, 2]]
    # The mean of the three is at 34.97°: their sum is (2.2044, 1.5416).
    centroids = NodeCentroids()
    centroids.put("node", at(0))
    centroids.add("node", at(40))
    centroids.add("node", at(64))
    assert centroids.total("node").tolist() == pytest.approx([2.2044, 1.5416], abs=1e-4)
    assert centroids.similarity("node", at(34.97)) == pytest.approx(1.0, abs=1e-6)
    # Each member counts once: next to 0° three times, 40° moves the mean to 9.6° only, and 57° begins a node.
    assert cluster([at(0), at(0), at(0), at(40), at(57)], JOIN) == [[0, 1, 2, 3], [4]]


def test_T8_a_node_of_more_than_20_members_is_split_at_075_into_two_or_more() -> None:
    assert not is_split_due(20, tried=0)
    assert is_split_due(21, tried=0)
    members = [at(0), at(44)] * 10 + [at(0)]  # one node at 0.70: cos 44° = 0.7193
    assert cluster(members, JOIN) == [list(range(21))]
    assert split(members, SPLIT) == [list(range(0, 21, 2)), list(range(1, 21, 2))]  # the larger part first


def test_T8_a_node_that_stays_in_one_part_at_075_is_kept_whole() -> None:
    assert split([at(0), at(41)] * 11, SPLIT) == []  # cos 41° = 0.7547


def test_parts_that_are_too_small_go_to_the_nearest_other_part() -> None:
    members = [at(0), at(44), at(0), at(44), at(-60), at(0), at(100)]
    assert split(members, SPLIT) == [[0, 2, 5], [1, 3], [4], [6]]
    assert split(members, SPLIT, 2) == [[0, 2, 5, 4], [1, 3, 6]]
    assert split(members, SPLIT, 3) == []


def test_a_large_node_that_stays_whole_is_tried_again_when_it_has_doubled() -> None:
    tried, attempts = 0, []
    for members in range(1, 2_000):
        if is_split_due(members, tried):
            tried = members
            attempts.append(members)
    assert attempts == [21, 42, 84, 168, 336, 672, 1344]


def test_T_nodes_are_one_from_a_cosine_of_093_on_and_their_members_count_together() -> None:
    assert cluster([at(0), at(21)], MERGE) == [[0, 1]]  # cos 21° = 0.9336
    assert cluster([at(0), at(22)], MERGE) == [[0], [1]]  # cos 22° = 0.9272
    # 19 members at 0° and one at 20° have their mean at 0.98°: 22.5° is 21.5° from it (0.9304), 22.7° is not (0.9291).
    assert cluster([19 * at(0), at(20), at(22.5)], MERGE) == [[0, 1, 2]]
    assert cluster([19 * at(0), at(20), at(22.7)], MERGE) == [[0, 1], [2]]


def test_nodes_are_ranked_by_cosine_then_by_id_without_the_excluded_ones() -> None:
    centroids = NodeCentroids()
    assert centroids.ranked(at(0)) == []
    assert centroids.nearest(at(0)) is None
    for name, degrees in (("far", 80), ("b", 30), ("a", -30), ("near", 10)):
        centroids.put(name, 3 * at(degrees))
    assert [each.id for each in centroids.ranked(at(0))] == ["near", "a", "b", "far"]
    assert [each.id for each in centroids.ranked(at(0), limit=2)] == ["near", "a"]
    assert [each.id for each in centroids.ranked(at(0), exclude={"near", "unknown"}, limit=2)] == ["a", "b"]
    assert centroids.ranked(at(0))[0].similarity == pytest.approx(math.cos(math.radians(10)))
    assert centroids.ranked(at(0), limit=0) == []


def test_vectors_that_cancel_each_other_out_are_near_nothing() -> None:
    centroids = NodeCentroids()
    centroids.put("none", np.zeros(2))
    assert centroids.similarity("none", at(0)) == 0.0
    assert centroids.ranked(at(0))[0].similarity == 0.0


def test_the_vector_of_a_long_text_is_the_direction_in_the_middle_of_its_windows() -> None:
    assert pair_vector(np.array([at(10)], np.float16)).tolist() == np.float16(at(10)).tolist()
    middle = pair_vector(np.array([at(0), at(60)], np.float16))
    assert middle.tolist() == pytest.approx(at(30).tolist(), abs=1e-3)
    assert pair_vector(np.array([[1.0, 0.0], [-1.0, 0.0]], np.float16)).tolist() == [0.0, 0.0]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from(["put", "add", "drop"]), st.integers(-64, 64)), max_size=60
    )
)
def test_the_centroids_are_those_of_the_members_whatever_was_added_and_dropped(
    steps: list[tuple[str, str, int]],
) -> None:
    centroids, members = NodeCentroids(), dict[str, Totals]()
    for name, step, number in steps:
        vector = np.array([1.0, number / 64.0])
        if step == "drop":
            centroids.drop(name)
            members.pop(name, None)
        elif step == "put" or name not in members:
            centroids.put(name, vector)
            members[name] = vector
        else:
            centroids.add(name, vector)
            members[name] = members[name] + vector
    assert len(centroids) == len(members)
    for name, total in members.items():
        assert name in centroids
        assert centroids.total(name).tolist() == total.tolist()
    query = np.array([1.0, 0.25])
    expected = sorted((-centroids.similarity(name, query), name) for name in members)
    assert [(-each.similarity, each.id) for each in centroids.ranked(query)] == expected


def test_T9_nodes_of_one_recall_are_paired_in_canonical_order() -> None:
    assert co_occurring_pairs(["c", "a", "b", "a"]) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert co_occurring_pairs(["c", "a"]) == co_occurring_pairs(["a", "c"])
    assert co_occurring_pairs(["a", "a"]) == co_occurring_pairs([]) == []
    assert len(co_occurring_pairs(map(str, range(1000)))) == CO_OCCURRING_MAX * (CO_OCCURRING_MAX - 1) // 2


def test_the_edges_of_merged_nodes_are_those_of_the_remaining_one() -> None:
    edges = [
        edge("a", "b", weight=2, at=5), edge("a", "z", weight=1, at=9), edge("b", "z", weight=3, at=7),
        edge("c", "z", weight=4),
        edge("s", "z", relation="abstracted_from"), edge("s", "a", relation="abstracted_from"),
    ]  # fmt: skip
    assert moved_edges(edges, {"z": "a"}) == [
        edge("a", "b", weight=5, at=7),  # z and b were recalled together three times
        edge("a", "c", weight=4),
        edge("s", "a", relation="abstracted_from"),
    ]
