"""The store and its indexes as a cycle of consolidation reads them."""

import hashlib
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mnemo_core import decay
from mnemo_core.ingest.mutations import DecisionKey
from mnemo_core.ingest.write_plan import StatedFact
from mnemo_core.lifecycle.consolidation.review import ids_of, is_unchanged
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
from mnemo_daemon.history_names import BY_LIFECYCLE, REVIEW
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.memories.memory_service import stated_facts
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.table_walk import records_of
from mnemo_store.backend import Snapshot
from mnemo_store.commit.commit_group import Commit
from mnemo_store.ids import last_key_until, time_of_id
from mnemo_store.indexes.attributes import NEVER
from mnemo_store.record_texts import session_key
from mnemo_store.records import (
    Change,
    Cycle,
    DropDecision,
    Edge,
    Fact,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    PutDecision,
    Session,
    Usage,
)
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import CYCLES, DECISIONS, SESSIONS

SEARCHED_BETWEEN_QUERIES = 16  # neighbour searches before queries go first

STALE = "a text was changed, or a memory is gone, since this was proposed"


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
        """Return the number of cycles since a time that were not undone."""
        begin, end, found = self._last_epochs  # memories of one time are mostly asked about together
        if not begin <= at < end:
            with self._store.snapshot() as snapshot:
                after = last_key_until(at)
                later: list[Cycle] = []  # until one stands
                while (not later or later[-1].undone_at) and (rows := snapshot.scan(CYCLES, after, 1)):
                    later += rows
                    after = CYCLES.key.of(rows[0])
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


class Proposal(NamedTuple):
    """A proposal and its memories, what would stay first. `stale`: why it cannot be approved any more."""

    id: str
    decision: LifecycleDecision
    memories: Sequence[Memory]
    stale: str = ""


def proposal_id(decision: LifecycleDecision) -> str:
    """The id under which a proposal is shown."""
    name = f"{decision.memory} {decision.action} {decision.other}"
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


class Proposals:
    """The proposals of a store, found without reading every decision: their keys are read once, and followed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = threading.Lock()  # the table
        self._lock = threading.Lock()  # of `_keys`
        self._keys: dict[DecisionKey, int] = {}  # the keys of all proposals, and of some that were; with a seq
        self._resets = 0
        self._read_at = -1  # `_resets` when the table was read
        store.on_commit(self._follow)
        store.on_row_ids_reset(self._on_row_ids_reset)

    def read(self) -> list[LifecycleDecision]:
        """The decisions that are proposals."""
        with self._reading:
            while self._read_at != self._resets:
                resets = self._resets
                keys = [key_of(each) for each in records_of(self._store, DECISIONS) if each.status == "proposed"]
                with self._lock:
                    self._keys = dict.fromkeys(keys, 0) | self._keys
                self._read_at = resets
        with self._store.snapshot() as snapshot, self._lock:
            found = [each for key in self._keys if (each := snapshot.get(DECISIONS, *key)) is not None]
            waiting = {key_of(each): each for each in found if each.status == "proposed"}
            self._keys = {key: seq for key, seq in self._keys.items() if key in waiting or seq > snapshot.seq}
            return list(waiting.values())

    def count(self) -> int:
        """The number of proposals that can be approved."""
        waiting = self.read()
        with self._store.snapshot() as snapshot:
            return len(waiting) - len(_stale(snapshot, waiting))

    def remove_stale(self) -> None:
        """Remove the proposals that cannot be approved any more."""
        if waiting := self.read():
            self._store.transact(
                lambda state: WriteResult(_stale(state, waiting), None, REVIEW), by=BY_LIFECYCLE.name, background=True
            ).result()

    def _follow(self, commit: Commit) -> None:
        """Called on the writer thread."""
        if commit.changes is None:
            self._on_row_ids_reset()
            return
        made = [change.data for change in commit.changes if isinstance(change, PutDecision)]
        proposed = [key_of(each) for each in made if each.status == "proposed"]
        if proposed:
            with self._lock:
                self._keys |= dict.fromkeys(proposed, commit.seq)

    def _on_row_ids_reset(self) -> None:
        self._resets += 1


def key_of(decision: LifecycleDecision) -> DecisionKey:
    return decision.memory, decision.action, decision.other


def _stale(snapshot: Snapshot, waiting: Sequence[LifecycleDecision]) -> list[Change]:
    """The changes that remove those of these proposals which cannot be approved any more."""
    return [
        DropDecision(memory=each.memory, action=each.action, other=each.other)
        for each in waiting
        if read_proposal(snapshot, each).stale
    ]


def read_proposal(snapshot: Snapshot, decision: LifecycleDecision) -> Proposal:
    memories = [snapshot.memory(each) for each in ids_of(decision)]
    stale = "" if is_unchanged(decision, memories) else STALE
    return Proposal(proposal_id(decision), decision, [each for each in memories if each is not None], stale)
