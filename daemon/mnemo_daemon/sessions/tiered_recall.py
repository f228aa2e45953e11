"""Recall in a session, over what the daemon has: the tiers as the pipeline of the core searches them. SPEC 8 [T]

`run` only reads. What a recall leaves behind (the hot buffer, recalled items in the ring, usage, the co-occurrence of
topic nodes) is recorded by `record`, for what was selected alone. The hot buffers [T10] are in memory: a restart and an
erasure empty them, and the next recalls fill them again. Replies to the messages of a session are made from memories.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.classification import classify
from mnemo_core.ingest.deduplication import CORRECTION
from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.knowledge.topic_nodes import MEMBERS_MAX
from mnemo_core.llm.question_answer import SOURCES_MAX, is_quotable
from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_core.sessions import tiered_recall
from mnemo_core.sessions.tiered_recall import (
    MEMBERS_PER_NODE,
    RING_SHOWN,
    HotBuffer,
    HotItem,
    RankedItem,
    TieredItem,
    TieredRanking,
    TopicMatch,
    co_occurring_nodes,
)
from mnemo_core.text.query_features import analyze_query
from mnemo_daemon.assistance.question_answering import AnsweredQuestion, answer_inputs, answer_question
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.topic_nodes import NodeQuery, TopicNodes
from mnemo_daemon.memories.memory_service import details_of
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.retrieval.candidates.corpus import Corpus
from mnemo_daemon.retrieval.candidates.corpus_builder import CorpusBuilder
from mnemo_daemon.retrieval.question import Hit, Question, RecallOutcome, StageTimer
from mnemo_daemon.retrieval.recall import UsageRecorder
from mnemo_daemon.sessions.session_service import RingItem, SessionService, turns_in
from mnemo_store.backend import Snapshot
from mnemo_store.record_texts import embedded_text, pair_text, text_hash
from mnemo_store.records import TIERS, Memory, Tier
from mnemo_store.store import Store

SESSIONS_MAX = 256  # the one that recalled longest ago goes first,
BYTES_MAX = 4 << 20  # also where all items are more: 150 sessions of usual turns, 24 of turns of 8192 characters

UNFILED: tuple[Tier, ...] = ("ring", "recent")  # the tiers of the turns that no pair of the registry has yet

SESSION_CHANNEL = "session"  # of a hit that only the tiers of the session found
NOTED = "Noted."  # the reply to a message that asks nothing


class HotBuffers:
    """A buffer for each session that recalled something. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: OrderedDict[SessionScope, HotBuffer] = OrderedDict()
        self._bytes = 0  # of all

    def items(self, scope: SessionScope) -> tuple[HotItem, ...]:
        """The items of a session, the one that was recalled last first."""
        with self._lock:
            return self._buffers[scope].items() if scope in self._buffers else ()

    def put(self, scope: SessionScope, items: Iterable[HotItem]) -> None:
        """Make these items the ones that were recalled last, the last of them the very last."""
        with self._lock:
            buffer = self._buffers.setdefault(scope, HotBuffer())
            self._buffers.move_to_end(scope)
            self._bytes -= buffer.bytes
            for item in items:
                buffer.put(item)
            self._bytes += buffer.bytes
            while len(self._buffers) > SESSIONS_MAX or (self._bytes > BYTES_MAX and len(self._buffers) > 1):
                self._bytes -= self._buffers.popitem(last=False)[1].bytes

    def clear(self) -> None:
        """Forget every item: a vector tells what an erased text was about."""
        with self._lock:
            self._buffers.clear()
            self._bytes = 0


class TieredOutcome(NamedTuple):
    """A recall in a session."""

    scope: SessionScope
    ring: tuple[RingItem, ...]  # its end, which is shown as it is
    ranking: TieredRanking
    floor: float  # the cosine under which nothing was injected
    stages_ms: dict[str, float]
    took_ms: float
    degraded: tuple[str, ...]


class TieredRecall:
    """The service. Any thread may call it."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService,
        sessions: SessionService, nodes: TopicNodes, usage: UsageRecorder,
        policy: PolicyOf = own_policy,
    ) -> None:  # fmt: skip
        self._store = store
        self._indexing = indexing
        self._embedding = embedding
        self._sessions = sessions
        self._nodes = nodes
        self._usage = usage
        self._policy = policy
        self._corpora = CorpusBuilder(store, views)
        self._calibrated = ModelThresholds(embedding)
        self.hot = HotBuffers()

    def run(self, scope: SessionScope, question: Question) -> TieredOutcome:
        """Recall in a session; the filter of the question says what it may see. Nothing is changed."""
        timer = StageTimer()
        ring = tuple(self._sessions.ring(scope))
        serving = None if self._store.degraded else self._indexing.serving()
        if serving is None:
            timer.mark("ring")
            ranking = TieredRanking((), (), 0)
            return TieredOutcome(scope, ring[-RING_SHOWN:], ranking, 1.0, timer.stages, timer.total(), ("vectors",))
        floor = self._policy(scope.namespace).thresholds_for(self._calibrated.of(serving.embedder)).fused_floor
        vector = self._embedding.encode_query(serving.embedder, question.query)
        timer.mark("embed")
        wanted = question.filter
        superseded = self._corpora.build(question._replace(filter=wanted._replace(states=("superseded",))))
        with self._store.snapshot() as snapshot:
            reader = _ItemReader(snapshot, self._corpora.build(question), superseded)
            tiers = _SessionTiers(
                reader, serving, vector, self._nodes,
                NodeQuery(vector, serving.embedder.space, scope.user_id, wanted.namespaces),
                self.hot.items(scope), ring, timer,
            )  # fmt: skip
            ranking = tiered_recall.recall_in_session(tiers, floor, wanted.now)
        timer.mark("rank")
        degraded = () if self._nodes.is_complete else ("topics",)
        return TieredOutcome(scope, ring[-RING_SHOWN:], ranking, floor, timer.stages, timer.total(), degraded)

    def record(self, outcome: TieredOutcome) -> None:
        """Record what was selected as recalled: hot, in the ring, used, and of which topic nodes. [T14, T9]"""
        selected = outcome.ranking.selected
        in_order = list(reversed(selected))  # the best last, so that it is the hottest
        self.hot.put(outcome.scope, self._hot_items(in_order))
        self._sessions.promote(outcome.scope, [each.item.memory_ids[0] for each in in_order])
        self._usage.record_ids(memory_id for each in selected for memory_id in each.item.memory_ids)
        self._nodes.record_co_occurrence(co_occurring_nodes(outcome.ranking, outcome.floor))

    def _hot_items(self, selected: Sequence[RankedItem]) -> Iterator[HotItem]:
        """The items with their vectors; what has none any more is left out."""
        serving = self._indexing.serving()
        if serving is None:
            return
        space, dimensions = serving.embedder.space, serving.embedder.dimensions
        with self._store.snapshot() as snapshot:
            for each in selected:
                digest = text_hash(each.item.text)
                windows = snapshot.vectors(space, digest, dimensions)
                if windows is not None:
                    yield HotItem(each.item.memory_ids, space, digest, windows, each.item.node)


class _ItemReader:
    """Reads turns and pairs of turns in the scope of a recall, at one moment of the store."""

    def __init__(self, snapshot: Snapshot, corpus: Corpus, superseded: Corpus) -> None:
        """superseded: those that would be in scope if they were not superseded."""
        self.snapshot = snapshot
        self.corpus = corpus
        self._superseded = superseded

    def unfiled(self) -> NDArray[np.intp]:
        """The numbers of the active and superseded turns in scope that no pair of the registry has yet."""
        columns, corpus = self.corpus.columns, self.corpus
        active = turns_in(columns, UNFILED)
        active = active[active < corpus.base]
        superseded = self._superseded.numbers.astype(np.intp)
        is_unfiled = np.isin(columns.values("tier", superseded), [1 + TIERS.index(tier) for tier in UNFILED])
        return np.union1d(active[corpus.mask[active]], superseded[is_unfiled])

    def item(
        self, memory_ids: Sequence[str], similarity: float, node: str = "", digest: bytes | None = None
    ) -> TieredItem | None:
        """A turn, or a pair of turns. None where one is gone or out of scope, or the text has another hash by now."""
        turns: list[Memory] = []
        is_superseded = False
        for memory_id in memory_ids:
            memory, number = self.snapshot.memory(memory_id), self.corpus.number(self.snapshot, memory_id)
            if memory is None or number is None:
                return None
            if not self.corpus.is_in_scope(number):
                if number >= self._superseded.base or not self._superseded.is_in_scope(number):
                    return None
                is_superseded = True
            turns.append(memory)
        text = pair_text(turns) if len(turns) > 1 or node else embedded_text(turns[0])
        if digest is not None and text_hash(text) != digest:
            return None
        tier = turns[0].turn.tier if turns[0].turn is not None else "registry"
        return TieredItem(
            tuple(memory_ids), text, min(similarity, 1.0), turns[0].event_at, max(turn.importance for turn in turns),
            is_long_term=bool(node) or tier == "registry", is_superseded=is_superseded, node=node,
        )  # fmt: skip


class _SessionTiers:
    """The `TieredSource` of one recall."""

    def __init__(
        self, reader: _ItemReader, serving: ActiveIndex, vector: NDArray[np.float32], nodes: TopicNodes,
        query: NodeQuery, hot: Sequence[HotItem], ring: Sequence[RingItem], timer: StageTimer,
    ) -> None:  # fmt: skip
        self._reader = reader
        self._serving = serving
        self._vector = vector
        self._nodes = nodes
        self._query = query
        self._hot = hot
        self._ring = ring
        self._timer = timer

    def hot(self) -> Sequence[TieredItem]:
        found = [
            self._reader.item(each.memory_ids, each.similarity(self._vector), each.node, each.digest)
            for each in self._hot
            if each.space == self._serving.embedder.space
        ]
        self._timer.mark("hot")
        return [item for item in found if item is not None]

    def ring(self, last: int) -> Sequence[tuple[str, ...]]:
        return [() if item.is_promoted else (item.memory.id,) for item in self._ring[-last:]]

    def recent(self, most: int) -> Sequence[TieredItem]:
        numbers = self._reader.unfiled()
        sims = self._serving.view.sims(self._vector, numbers)
        found: list[TieredItem] = []
        for place in np.lexsort((numbers, -sims)).tolist():
            if np.isnan(sims[place]) or sum(not item.is_superseded for item in found) >= most:
                break
            turn = self._reader.corpus.columns.ids([int(numbers[place])])
            if (item := self._reader.item(turn, float(sims[place]))) is not None:
                found.append(item)
        self._timer.mark("recent")
        return found

    def nodes(self, most: int, exclude: Collection[str]) -> Sequence[TopicMatch]:
        # Of a node that takes in pairs more may be near than what is hot.
        found = self._nodes.search(self._query, () if self._nodes.takes_in(self._query) else exclude, most)
        self._timer.mark("nodes")
        return [TopicMatch(each.id, each.similarity) for each in found]

    def neighbours(self, nodes: Sequence[TopicMatch]) -> Sequence[TopicMatch]:
        found = self._nodes.neighbours(self._reader.snapshot, self._query, [node.id for node in nodes])
        self._timer.mark("neighbours")
        return [TopicMatch(each.id, each.similarity, is_neighbour=True) for each in found]

    def members(self, node: TopicMatch) -> Sequence[TieredItem]:
        """The nearest: no more than a node has that is not yet to be split, and of one that takes in pairs no more than
        are wanted, whatever their age."""
        most = MEMBERS_PER_NODE if self._nodes.takes_in(self._query) else MEMBERS_MAX
        vectors = [(each, each.vector.astype(np.float32)) for each in self._nodes.view.members(node.id)
                   if each.vector is not None]  # fmt: skip
        near = sorted(((float(vector @ self._vector), each) for each, vector in vectors), key=lambda one: -one[0])
        found: list[TieredItem] = []
        for similarity, each in near[:MEMBERS_MAX]:
            item = self._reader.item(tuple(dict.fromkeys(each.key)), similarity, node.id, each.digest)
            found += [item] if item is not None else []
            if sum(not item.is_superseded for item in found) == most:
                break
        self._timer.mark("members")
        return found


def with_tiered(snapshot: Snapshot, recalled: RecallOutcome, outcome: TieredOutcome) -> RecallOutcome:
    """The hits of an ordinary recall, and behind them what the tiers of the session add, as many as are read.

    What only the tiers found has no score: by their cosine nothing can be told about how likely it answers. Questions
    that a person asked answer nothing.
    """
    hits = {hit.details.memory.id: hit for hit in (*_hits_of(snapshot, outcome), *recalled.hits)}
    order = dict.fromkeys([*(hit.details.memory.id for hit in recalled.hits), *hits])
    memories = {memory_id: hits[memory_id].details.memory for memory_id in order}
    questions = {
        memory_id for memory_id, memory in memories.items()
        if memory.turn is not None and memory.turn.role == "user"
        and (memory.category == "request" or memory.content.rstrip().endswith(("?", "？")))
    }  # fmt: skip
    return recalled._replace(hits=[hits[each] for each in order if each not in questions][:SOURCES_MAX])


def reply(
    message: str, question: str, sources: RecallOutcome, tasks: TaskRunner, until: float,
    is_cancelled: Callable[[], bool], earlier: Sequence[EarlierQuestion], reader: CrossEncoderService | None = None,
) -> AnsweredQuestion:  # fmt: skip
    """Answer a message from these sources; what asks nothing is noted, unless a source has all of its words. question:
    the message, made whole by the one before it. Waits for the language model as `answer_question` does."""
    if analyze_query(message).is_keywords and classify(message, role="user").category != "request":
        inputs = answer_inputs(question, sources.hits)
        if CORRECTION.match(message) or inputs is None or not is_quotable(inputs):
            return AnsweredQuestion([], "quotes", "the message asks nothing", NOTED)
    return answer_question(question, sources, tasks, until, is_cancelled, earlier, reader=reader)


def _hits_of(snapshot: Snapshot, outcome: TieredOutcome) -> Iterator[Hit]:
    """The turns that were selected, or stand at the end of the ring and are near the message, best first."""
    shown = [each.item for each in outcome.ranking.ranked if each.dropped in ("", "in_ring")]
    for memory_id in dict.fromkeys(memory_id for item in shown for memory_id in item.memory_ids):
        if (memory := snapshot.memory(memory_id)) is not None:
            yield Hit(details_of(snapshot, memory), 0.0, 0.0, (SESSION_CHANNEL,))
