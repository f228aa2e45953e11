"""Recall in a session: rows T9 to T14 on a made session, with values worked out by hand. SPEC 8."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pytest

from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.sessions import tiered_recall
from mnemo_core.sessions.tiered_recall import (
    MS_A_DAY,
    HotBuffer,
    HotItem,
    TieredItem,
    TieredRanking,
    TopicMatch,
    best_members,
    co_occurring_nodes,
    fused_score,
    member_score,
    recall_in_session,
    recency,
)
from mnemo_daemon.sessions.tiered_recall import HotBuffers
from tests.support.ranking_candidates import NOW

FLOOR = 0.6


def item(
    name: str, similarity: float, *, days: float = 0.0, importance: float = 0.5, is_long_term: bool = False,
    text: str = "", node: str = "", is_superseded: bool = False, ids: tuple[str, ...] = (),
) -> TieredItem:  # fmt: skip
    at = NOW - int(days * MS_A_DAY)
    return TieredItem(ids or (name,), text or name, similarity, at, importance, is_long_term, is_superseded, node)


def pair(name: str, similarity: float, node: str, *, days: float = 0.0, importance: float = 0.5) -> TieredItem:
    ids = (f"{name}-user", f"{name}-agent")
    return item(name, similarity, days=days, importance=importance, is_long_term=True, node=node, ids=ids)


class Tiers(NamedTuple):
    """A session as the pipeline sees it, which notes what was asked of it."""

    asked: list[str]
    hot_items: Sequence[TieredItem] = ()
    ring_turns: Sequence[tuple[str, ...]] = ()
    recent_items: Sequence[TieredItem] = ()
    topics: Sequence[TopicMatch] = ()
    reached: Sequence[TopicMatch] = ()
    pairs: Sequence[TieredItem] = ()

    def hot(self) -> Sequence[TieredItem]:
        self.asked.append("hot")
        return self.hot_items

    def ring(self, last: int) -> Sequence[tuple[str, ...]]:
        self.asked.append(f"ring {last}")
        return self.ring_turns[-last:]

    def recent(self, most: int) -> Sequence[TieredItem]:
        self.asked.append(f"recent {most}")
        return self.recent_items[:most]

    def nodes(self, most: int, exclude: Collection[str]) -> Sequence[TopicMatch]:
        self.asked.append(f"nodes {most}")
        return [node for node in self.topics if node.id not in exclude][:most]

    def neighbours(self, nodes: Sequence[TopicMatch]) -> Sequence[TopicMatch]:
        self.asked.append("neighbours of " + " ".join(node.id for node in nodes))
        return self.reached

    def members(self, node: TopicMatch) -> Sequence[TieredItem]:
        self.asked.append(f"members of {node.id}")
        return [each for each in self.pairs if each.node == node.id]


def recalled(**tiers: Sequence[object]) -> tuple[TieredRanking, list[str]]:
    asked: list[str] = []
    return recall_in_session(Tiers(asked, **tiers), FLOOR, NOW), asked  # type: ignore[arg-type]


def selected(ranking: TieredRanking) -> list[str]:
    return [each.item.text for each in ranking.selected]


def dropped(ranking: TieredRanking) -> dict[str, str]:
    return {each.item.text: each.dropped for each in ranking.ranked if each.dropped}


# The formulas


@pytest.mark.parametrize(
    ("days", "expected"), [(1, 0.8669), (5, 0.4895), (7, 0.3679), (10, 0.2397), (30, 0.0138), (0, 1.0), (-3, 1.0)]
)
def test_T12_the_recency_of_a_recent_item_is_an_e_fold_in_seven_days(days: int, expected: float) -> None:
    assert recency(days * MS_A_DAY, is_long_term=False) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("days", "expected"), [(7, 0.7919), (30, 0.3679), (90, 0.0498)])
def test_T12_the_recency_of_a_long_term_item_is_an_e_fold_in_thirty_days(days: int, expected: float) -> None:
    assert recency(days * MS_A_DAY, is_long_term=True) == pytest.approx(expected, abs=5e-5)


def test_T12_fused_and_member_scores_are_their_weighted_sums() -> None:
    assert fused_score(0.6, recency(7 * MS_A_DAY, is_long_term=False), 0.5) == pytest.approx(0.5204, abs=5e-5)
    assert fused_score(1.0, 1.0, 1.0) == pytest.approx(1.0)
    assert member_score(0.8, 0.5, 0.25) == pytest.approx(0.4 + 0.15 + 0.05)


# The order of the tiers


def test_T11_the_tiers_are_asked_from_the_hottest_down_and_nodes_only_where_recent_gave_too_little() -> None:
    five = [item(f"turn {n}", 0.7) for n in range(5)]
    topics = [TopicMatch("a", 0.8), TopicMatch("b", 0.3)]
    reached = [TopicMatch("c", 0.61, is_neighbour=True), TopicMatch("d", 0.59, is_neighbour=True)]
    ranking, asked = recalled(recent_items=five, topics=topics, reached=reached)
    assert asked == [
        "hot", "ring 5", "recent 10", "nodes 6", "neighbours of a b", "members of a", "members of b", "members of c",
    ]  # fmt: skip
    assert ranking.recent_above_floor == 5
    assert [node.id for node in ranking.nodes] == ["a", "b", "c"]  # a neighbour must be near, one found by search not

    ranking, asked = recalled(recent_items=[*five, item("turn 5", 0.6)], topics=topics)
    assert asked == ["hot", "ring 5", "recent 10"]
    assert (ranking.recent_above_floor, ranking.nodes) == (6, ())


def test_T11_superseded_and_distant_recent_turns_do_not_spare_the_search_of_nodes() -> None:
    near = [item(f"turn {n}", 0.7) for n in range(5)]
    ranking, asked = recalled(recent_items=[*near, item("old", 0.9, is_superseded=True), item("far", 0.59)])
    assert ranking.recent_above_floor == 5
    assert "nodes 6" in asked
    assert dropped(ranking) == {"old": "superseded", "far": "below_sim_threshold"}


def test_T11_two_members_a_node_come_by_similarity_recency_and_importance() -> None:
    members = [
        pair("near", 0.70, "a", days=30),  # 0.35 + 0.3 · 0.3679 + 0.1 = 0.5604
        pair("new", 0.60, "a"),  # 0.30 + 0.3 + 0.1 = 0.70
        pair("weighty", 0.60, "a", days=30, importance=1.0),  # 0.30 + 0.1104 + 0.2 = 0.6104
    ]
    assert [each.text for each in best_members(members, NOW)] == ["new", "weighty"]
    assert best_members([each._replace(is_superseded=True) for each in members], NOW) == []
    ranking, _ = recalled(topics=[TopicMatch("a", 0.5)], pairs=members)
    assert selected(ranking) == ["new", "weighty"]


def test_T12_hot_recent_and_registry_items_are_ranked_together_by_their_fused_score() -> None:
    ranking, _ = recalled(
        hot_items=[item("hot", 0.65, days=7, is_long_term=True)],  # 0.39 + 0.3 · 0.7919 + 0.05 = 0.6776
        recent_items=[item("recent", 0.70, days=7)],  # 0.42 + 0.3 · 0.3679 + 0.05 = 0.5804
        topics=[TopicMatch("a", 0.9)],
        pairs=[pair("pair", 0.80, "a", days=30)],  # 0.48 + 0.3 · 0.3679 + 0.05 = 0.6404
    )
    assert [(each.item.text, each.stage) for each in ranking.selected] == [
        ("hot", "hot"), ("pair", "nodes"), ("recent", "recent"),
    ]  # fmt: skip
    assert [each.score for each in ranking.ranked] == pytest.approx([0.6776, 0.6404, 0.5804], abs=5e-5)


# What is injected


def test_T13_nothing_under_the_floor_is_injected_however_new_and_important_it_is() -> None:
    ranking, _ = recalled(recent_items=[item("far", 0.5999, importance=1.0), item("near", 0.6, days=60, importance=0)])
    assert selected(ranking) == ["near"]
    assert dropped(ranking) == {"far": "below_sim_threshold"}


def test_T13_six_are_injected_at_most() -> None:
    ranking, _ = recalled(recent_items=[item(f"turn {n}", 0.9 - n / 100) for n in range(8)])
    assert selected(ranking) == [f"turn {n}" for n in range(6)]
    assert dropped(ranking) == {"turn 6": "over_limit", "turn 7": "over_limit"}


def test_T13_equal_content_comes_once_and_leaves_its_place_to_the_next() -> None:
    same = [item("a", 0.9, text="We use Redis."), item("b", 0.8, text="we  use redis.")]
    ranking, _ = recalled(recent_items=[*same, *[item(f"turn {n}", 0.7 - n / 100) for n in range(6)]])
    assert selected(ranking) == ["We use Redis.", *[f"turn {n}" for n in range(5)]]
    assert dropped(ranking) == {"we  use redis.": "duplicate_content", "turn 5": "over_limit"}


def test_T13_a_turn_that_its_pair_has_shown_is_not_shown_again() -> None:
    found = pair("pair", 0.9, "a")
    ranking, _ = recalled(
        hot_items=[item("its question", 0.7, ids=found.memory_ids[:1])], topics=[TopicMatch("a", 0.9)], pairs=[found]
    )
    assert selected(ranking) == ["pair"]
    assert dropped(ranking) == {"its question": "duplicate_content"}


def test_T11_the_turns_of_the_end_of_the_ring_are_shown_as_they_are_and_not_injected_again() -> None:
    ring = [(f"turn {n}",) for n in range(7)]
    ranking, _ = recalled(ring_turns=ring, recent_items=[item("turn 6", 0.9), item("turn 1", 0.8)])
    assert selected(ranking) == ["turn 1"]  # it has left the five that are shown
    assert dropped(ranking) == {"turn 6": "in_ring"}


def test_T10_what_is_hot_but_far_from_the_query_is_no_candidate() -> None:
    ranking, _ = recalled(hot_items=[item("far", 0.5999), item("near", 0.6)])
    assert [each.item.text for each in ranking.ranked] == ["near"]


def test_T10_T11_nodes_that_gave_hot_items_are_not_searched_again_near_the_query_or_not() -> None:
    topics = [TopicMatch("a", 0.9), TopicMatch("b", 0.8)]
    reached = [TopicMatch("a", 0.9, is_neighbour=True), TopicMatch("c", 0.7, is_neighbour=True)]
    hot_items = [item("near", 0.7, node="a"), item("far", 0.5, node="b")]
    ranking, _ = recalled(hot_items=hot_items, topics=topics, reached=reached)
    assert [node.id for node in ranking.nodes] == ["c"]


def test_T9_nodes_near_the_query_co_occur_whether_they_gave_an_item_or_not() -> None:
    ranking, _ = recalled(
        hot_items=[item("hot", 0.7, node="h")],
        topics=[TopicMatch("b", 0.6), TopicMatch("a", 0.7), TopicMatch("far", 0.5999)],
        pairs=[pair("pair", 0.9, "far")],
    )
    assert selected(ranking) == ["pair", "hot"]
    assert co_occurring_nodes(ranking, FLOOR) == ("a", "b", "h")


# The hot buffer


def hot(name: str, vector: Sequence[float] = (1.0, 0.0), node: str = "") -> HotItem:
    return HotItem((name,), "space", b"digest", np.asarray([vector], np.float16), node)


def test_T10_the_hot_buffer_keeps_the_twenty_that_were_recalled_last() -> None:
    buffer = HotBuffer()
    for number in range(20):
        buffer.put(hot(str(number), node=f"node {number % 10}"))
    buffer.put(hot("0", node="node 0"))  # recalled again: not the oldest any more
    buffer.put(hot("20", node="node 20"))
    names = [each.memory_ids[0] for each in buffer.items()]
    assert len(names) == tiered_recall.HOT_ITEMS_MAX == 20
    assert names[:2] == ["20", "0"]
    assert "1" not in names


def test_the_hot_buffers_of_all_sessions_are_bounded_by_the_bytes_of_their_vectors() -> None:
    buffers, scopes = HotBuffers(), [SessionScope("default", "local", f"session {number}") for number in range(200)]
    windows = np.ones((11, 384), np.float16)  # of a turn of 8192 characters
    for scope in scopes:
        buffers.put(scope, [HotItem((str(number),), "space", b"digest", windows) for number in range(20)])
    kept = [scope for scope in scopes if buffers.items(scope)]
    assert sum(len(buffers.items(scope)) for scope in kept) * windows.nbytes <= 4 << 20
    assert kept == scopes[-len(kept) :]
    for _ in range(100):  # the same items again are no more bytes
        buffers.put(scopes[-1], buffers.items(scopes[-1]))
    assert [scope for scope in scopes if buffers.items(scope)] == kept
    buffers.clear()
    buffers.put(scopes[0], [hot("again")])
    assert len(buffers.items(scopes[0])) == 1


def test_T10_a_hot_item_is_as_near_as_its_best_window() -> None:
    windows = np.asarray([[0.0, 1.0], [0.6, 0.8]], np.float16)
    long = HotItem(("long",), "space", b"digest", windows)
    assert long.similarity(np.asarray([1.0, 0.0], np.float32)) == pytest.approx(0.6, abs=1e-3)
