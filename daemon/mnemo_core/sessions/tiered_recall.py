"""Recall in a session: the tiers of a conversation, from the hottest down, as one explainable pipeline. SPEC 8 [T]

Its order is T's: the hot buffer; the end of the ring, shown as it is; the recent turns; and only where these gave too
little, the topic nodes with their neighbours and the best members of each. What is near enough is ranked together.

The hot buffer of a session holds the items that were recalled last, with their vectors [T10], and no text: an item is
read again by its ids when it is found, so that what was erased or changed is not.
"""

import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.rankers import (
    IMPORTANCE_SHARE,
    LONG_TERM_TIME_CONSTANT_DAYS,
    RECENCY_SHARE,
    RECENT_TIME_CONSTANT_DAYS,
    SIM_SHARE,
)
from mnemo_store.record_texts import content_hash

RING_SHOWN = 5  # the last items of the ring, shown as they are, not scored [T11]
RECENT_SEARCHED = 10  # [T11]
SELECTED_MAX = 6  # [T13]; with fewer recent turns above the floor, the topic nodes are searched too [T11]
NODES_SEARCHED = 6  # [T11]
MEMBERS_PER_NODE = 2  # [T11]
MEMBER_SIM_SHARE, MEMBER_RECENCY_SHARE, MEMBER_IMPORTANCE_SHARE = 0.5, 0.3, 0.2  # [T12]
MS_A_DAY = 86_400_000

Stage = Literal["hot", "recent", "nodes"]
DropReason = Literal["", "superseded", "below_sim_threshold", "in_ring", "duplicate_content", "over_limit"]


class TieredItem(NamedTuple):
    """A turn, or a pair of turns, with its cosine to the query."""

    memory_ids: tuple[str, ...]  # of the turn, or of the turns of the pair
    text: str
    similarity: float
    at: int  # ms
    importance: float
    is_long_term: bool = False  # it has reached the registry
    is_superseded: bool = False
    node: str = ""  # the topic node of a pair


class TopicMatch(NamedTuple):
    """A topic node with the cosine of its centroid to the query."""

    id: str
    similarity: float
    is_neighbour: bool = False  # it was reached by an edge


class TieredSource(Protocol):
    """The tiers of one session, searched for one query."""

    def hot(self) -> Sequence[TieredItem]:
        """The items of the hot buffer."""

    def ring(self, last: int) -> Sequence[tuple[str, ...]]:
        """The ids of the turns that the last items of the ring are; of a recalled item none."""

    def recent(self, most: int) -> Sequence[TieredItem]:
        """The nearest recent turns, nearest first; superseded ones do not count."""

    def nodes(self, most: int, exclude: Collection[str]) -> Sequence[TopicMatch]:
        """The nearest topic nodes but these."""

    def neighbours(self, nodes: Sequence[TopicMatch]) -> Sequence[TopicMatch]:
        """The topic nodes that co-occur with these."""

    def members(self, node: TopicMatch) -> Sequence[TieredItem]:
        """The pairs of a topic node."""


class RankedItem(NamedTuple):
    """An item that a stage found, its `fused` score, and why it was not selected ("": it was)."""

    item: TieredItem
    stage: Stage
    recency: float
    score: float
    dropped: DropReason = ""


class TieredRanking(NamedTuple):
    """All that was found, in the order of the scores."""

    ranked: tuple[RankedItem, ...]
    nodes: tuple[TopicMatch, ...]  # that were searched or reached; none where the recent turns were enough
    recent_above_floor: int

    @property
    def selected(self) -> tuple[RankedItem, ...]:
        """The items to inject, best first."""
        return tuple(each for each in self.ranked if not each.dropped)


def recency(age_ms: int, *, is_long_term: bool) -> float:
    """exp(−age / time constant): 7 days for a recent item, 30 for a long-term one; 1 for times in the future. [T12]"""
    days = LONG_TERM_TIME_CONSTANT_DAYS if is_long_term else RECENT_TIME_CONSTANT_DAYS
    return math.exp(-max(0, age_ms) / MS_A_DAY / days)


def fused_score(similarity: float, recency: float, importance: float) -> float:
    """0.6 · similarity + 0.3 · recency + 0.1 · importance. [T12]"""
    return SIM_SHARE * similarity + RECENCY_SHARE * recency + IMPORTANCE_SHARE * importance


def member_score(similarity: float, recency: float, importance: float) -> float:
    """0.5 · similarity + 0.3 · recency + 0.2 · importance, by which the pairs of one topic node are ordered. [T12]"""
    return MEMBER_SIM_SHARE * similarity + MEMBER_RECENCY_SHARE * recency + MEMBER_IMPORTANCE_SHARE * importance


def recall_in_session(source: TieredSource, floor: float, now: int) -> TieredRanking:
    """Search the tiers in their order, and rank what they give. floor: the cosine under which nothing is injected, that
    of the model (`fused_floor`). now: ms."""
    hot = source.hot()
    found: list[tuple[Stage, TieredItem]] = [("hot", item) for item in hot if item.similarity >= floor]
    in_ring = {memory_id for ids in source.ring(RING_SHOWN) for memory_id in ids}
    recent = source.recent(RECENT_SEARCHED)
    found += [("recent", item) for item in recent]
    above = sum(item.similarity >= floor and not item.is_superseded for item in recent)
    nodes: list[TopicMatch] = []
    if above < SELECTED_MAX:
        at_hand = {item.node for item in hot}
        nodes = list(source.nodes(NODES_SEARCHED, at_hand))
        near = [node for node in source.neighbours(nodes) if node.similarity >= floor]
        nodes += [node for node in near if node.id not in at_hand]
        found += [("nodes", item) for node in nodes for item in best_members(source.members(node), now)]
    return TieredRanking(tuple(_select(found, in_ring, floor, now)), tuple(nodes), above)


def best_members(members: Iterable[TieredItem], now: int) -> list[TieredItem]:
    """The best pairs of a topic node, best first. [T11, T12]"""

    def order(item: TieredItem) -> tuple[float, int, tuple[str, ...]]:
        fresh = recency(now - item.at, is_long_term=True)
        return -member_score(item.similarity, fresh, item.importance), -item.at, item.memory_ids

    return sorted((item for item in members if not item.is_superseded), key=order)[:MEMBERS_PER_NODE]


def co_occurring_nodes(ranking: TieredRanking, floor: float) -> tuple[str, ...]:
    """The topic nodes that are near the query, whether an item of theirs was selected or not, ascending. [T9]"""
    near = {node.id for node in ranking.nodes if node.similarity >= floor}
    near |= {each.item.node for each in ranking.ranked if each.stage == "hot" and each.item.node}
    return tuple(sorted(near))


def _select(
    found: Iterable[tuple[Stage, TieredItem]], in_ring: set[str], floor: float, now: int
) -> Iterable[RankedItem]:
    """The items in the order of their scores; ties by importance, newer, id (SPEC 17.8). [T13] An item that repeats
    what is shown already, by its text or by its turns, is dropped."""
    ranked = []
    for stage, item in found:
        fresh = recency(now - item.at, is_long_term=item.is_long_term)
        ranked.append(RankedItem(item, stage, fresh, fused_score(item.similarity, fresh, item.importance)))
    ranked.sort(key=lambda each: (-each.score, -each.item.importance, -each.item.at, each.item.memory_ids))
    texts: set[bytes] = set()
    turns: set[str] = set()
    count = 0
    for each in ranked:
        item, digest, ids = each.item, content_hash(each.item.text), set(each.item.memory_ids)
        dropped: DropReason = ""
        if item.is_superseded:
            dropped = "superseded"
        elif item.similarity < floor:
            dropped = "below_sim_threshold"
        elif ids <= in_ring:
            dropped = "in_ring"
        elif digest in texts or ids <= turns:
            dropped = "duplicate_content"
        elif count == SELECTED_MAX:
            dropped = "over_limit"
        else:
            count += 1
            texts.add(digest)
            turns |= ids
        yield each._replace(dropped=dropped)


HOT_ITEMS_MAX = 20  # the one that was recalled longest ago goes first [T10]
HOT_ITEM_BYTES = 600  # of an item, besides its vectors


class HotItem(NamedTuple):
    """A recalled turn, or a pair of turns with the topic node that it was found by."""

    memory_ids: tuple[str, ...]  # of the turn, or of the turns of the pair
    space: str  # of the vectors
    digest: bytes  # the hash of the text that they are of
    windows: NDArray[np.float16]  # the vectors, one a row
    node: str = ""

    def similarity(self, query: NDArray[np.float32]) -> float:
        """The cosine of the query and the best window; both have unit length."""
        return float((self.windows.astype(np.float32) @ query).max())


class HotBuffer:
    """The items, least recently recalled first."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[str, ...], HotItem] = OrderedDict()

    def put(self, item: HotItem) -> None:
        """Make an item the one that was recalled last."""
        self._items[item.memory_ids] = item
        self._items.move_to_end(item.memory_ids)
        while len(self._items) > HOT_ITEMS_MAX:
            self._items.popitem(last=False)

    @property
    def bytes(self) -> int:
        """The bytes of all items: a long turn has several vectors."""
        return sum(HOT_ITEM_BYTES + item.windows.nbytes for item in self._items.values())

    def items(self) -> tuple[HotItem, ...]:
        """The items, the one that was recalled last first."""
        return tuple(reversed(self._items.values()))
