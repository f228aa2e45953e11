"""The store and its indexes as a cycle of consolidation reads them."""

from collections.abc import Sequence

import numpy as np

from mnemo_core import decay
from mnemo_core.ingest.write_plan import StatedFact
from mnemo_core.lifecycle.consolidation.state import (
    COLUMNS,
    TAGS_READ,
    CycleOptions,
    CycleState,
    Mask,
    SimilarRow,
    TopicLeaf,
)
from mnemo_core.similarity.thresholds import SOURCE
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.memories.memory_service import stated_facts
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.priority import QueryPriority
from mnemo_store.backend import Snapshot
from mnemo_store.ids import last_key_until, time_of_id
from mnemo_store.indexes.attributes import NEVER
from mnemo_store.records import (
    Cycle,
    Edge,
    Fact,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    Session,
    Usage,
    session_key,
)
from mnemo_store.store import Store
from mnemo_store.tables import CYCLES, DECISIONS, SESSIONS

SEARCHED_BETWEEN_QUERIES = 16  # neighbour searches before queries go first


class StoreSource:
    """The source of one cycle. Its topics and its epoch are those at its start; records are read as they are."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService,
        topic_trees: TopicTrees, priority: QueryPriority,
    ) -> None:  # fmt: skip
        self._store = store
        self._columns = views.attributes
        self._serving = indexing.serving()
        self._embedding = embedding
        self._priority = priority
        self._topics = topic_trees.leaves()
        self._epoch = decay.epoch_of(self)
        self._last_epochs = (0, 0, 0)  # since when (ms) until when, and the epochs since then

    def memory(self, memory_id: str) -> Memory | None:
        with self._store.snapshot() as snapshot:
            return snapshot.memory(memory_id)

    def usage(self, memory_id: str) -> Usage | None:
        with self._store.snapshot() as snapshot:
            return snapshot.usage(memory_id)

    def decision(self, memory: str, action: LifecycleAction, other: str) -> LifecycleDecision | None:
        with self._store.snapshot() as snapshot:
            return snapshot.get(DECISIONS, memory, action, other)

    def session(self, namespace: str, user_id: str, session_id: str) -> Session | None:
        with self._store.snapshot() as snapshot:
            return snapshot.get(SESSIONS, session_key(namespace, user_id, session_id))

    def edges(self, memory_id: str) -> list[Edge]:
        with self._store.snapshot() as snapshot:
            return snapshot.edges(memory_id)

    def facts(self, memory_id: str) -> list[Fact]:
        with self._store.snapshot() as snapshot:
            return snapshot.facts(memory_id)

    def stated_facts(self, memory: Memory) -> Sequence[StatedFact]:
        return stated_facts(memory.content, memory.speaker)

    def meta(self, name: str) -> str:
        with self._store.snapshot() as snapshot:
            return snapshot.meta(name)

    def epochs_since(self, at: int) -> int:
        begin, end, found = self._last_epochs  # memories of one time are mostly asked about together
        if not begin <= at < end:
            with self._store.snapshot() as snapshot:
                later = _cycles_until_one_stands(snapshot, last_key_until(at))
            # An undone cycle gives its epoch to the next one, unless a later one stood then.
            found = max(0, self._epoch + 1 - min(each.epoch for each in later)) if later else 0
            self._last_epochs = at, time_of_id(later[0].id) if later else NEVER, found
        return found

    def code(self, column: str, value: str) -> int:
        return self._columns.code(column, value)

    def name(self, column: str, code: int) -> str:
        return self._columns.name(column, code)

    def neighbours(self, rows: Sequence[int], within: Mask, at_least: float, limit: int) -> list[list[SimilarRow]]:
        found = list[list[SimilarRow]]()
        for at, row in enumerate(rows):
            if at % SEARCHED_BETWEEN_QUERIES == 0:
                self._priority.yield_to_queries()
            found.append(self._neighbours_of(row, within, at_least, limit))
        return found

    def _neighbours_of(self, row: int, within: Mask, at_least: float, limit: int) -> list[SimilarRow]:
        windows = self._serving.view.vectors_of(row) if self._serving is not None else None
        if self._serving is None or windows is None:
            return []
        best = dict[int, float]()
        for window in windows.astype(np.float32):
            numbers, sims, _ = self._serving.view.nearest(window, limit + 1, within)
            for number, sim in zip(numbers.tolist(), sims.tolist(), strict=True):
                if number != row and sim >= at_least:
                    best[number] = max(sim, best.get(number, sim))
        ordered = sorted(best.items(), key=lambda each: (-each[1], each[0]))
        return [SimilarRow(*each) for each in ordered[:limit]]

    def similarity(self, text: str, row: int) -> float | None:
        windows = self._serving.view.vectors_of(row) if self._serving is not None else None
        if self._serving is None or windows is None:
            return None
        self._priority.yield_to_queries()
        (own,) = self._embedding.encode_batch(self._serving.embedder, [text])
        return float((own @ windows.astype(np.float32).T).max())

    def topics(self) -> Sequence[TopicLeaf]:
        return self._topics

    def new_id(self) -> str:
        return self._store.new_id()


def _cycles_until_one_stands(snapshot: Snapshot, after: bytes) -> list[Cycle]:
    """The cycles behind a key, as far as they are undone, and the next one."""
    found: list[Cycle] = []
    while (not found or found[-1].undone_at) and (rows := snapshot.scan(CYCLES, after, 1)):
        found += rows
        after = CYCLES.key.of(rows[0])
    return found


def read_state(
    source: StoreSource, views: Views, embedding: EmbeddingService, indexing: VectorIndexer, options: CycleOptions
) -> CycleState:
    """The state at the start of a cycle."""
    columns = views.attributes
    arrays = dict(zip(COLUMNS, columns.columns(*COLUMNS), strict=True))
    size = len(arrays["state"])
    tags = {tag: [row for row in columns.numbers_with_tag(tag).tolist() if row < size] for tag in TAGS_READ}
    serving = indexing.serving()
    thresholds = ModelThresholds(embedding).of(serving.embedder) if serving is not None else SOURCE
    return CycleState(source, arrays, tags, thresholds, options)
