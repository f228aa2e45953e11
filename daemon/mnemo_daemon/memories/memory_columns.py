"""Values of memories that the columns tell: their weights, and the roles of their texts. SPEC 7.4, 9.6"""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import strengths_at
from mnemo_core.ingest.classification import STATEMENT_CHARS_MAX
from mnemo_core.ingest.memory_role import DIMENSIONS, ROLES, MemoryRole, read_role
from mnemo_core.retrieval.ranking import decay_ranker
from mnemo_core.similarity.thresholds import DEFAULT_MODEL
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import Memory
from mnemo_store.store import Store

Numbers = NDArray[np.signedinteger[Any]]
Relevance = Callable[[Numbers], NDArray[np.float32]]

TURN_MIN = 0.6  # probability of a lasting role from which a turn of a conversation has it
FACT_MIN = 0.4  # and of any role, from which a turn is taken for a fact, and else for an event
_OPEN_TO_TURNS: Final = frozenset(("event", "appointment", "fact"))
PASSING_MIN = 0.4  # and of a role of PASSING, from which a text has it
PASSING: Final[frozenset[MemoryRole]] = frozenset(("question", "small", "answer", "script"))
UNKNOWN: Final = len(ROLES)  # in the place of a role: not read yet
SLICE = 50  # texts: 0.1 s
WAITED_FOR = 20  # texts that a request reads itself, the newest first; the job reads the others


"""The cosines of memories, by their numbers, with a text; NaN for one without a vector."""

_DECAYING = "strength", "strength_epoch", "kind", "layer", "pinned"


def present_strengths(column: Callable[[str], NDArray[Any]], epoch: int) -> NDArray[np.float32]:
    """The strength in an epoch of the memories whose columns are given by name. SPEC 9.3"""
    strength, strength_epoch, kind, layer, pinned = map(column, _DECAYING)
    return strengths_at(strength, strength_epoch, kind, layer, pinned, epoch)


def by_weight(columns: AttributeStore, rows: Numbers, epoch: int) -> Numbers:
    """The rows by weight in an epoch, the greatest first; then by importance, the newer, and id. [G34]"""
    weight = weights_of(columns, rows, epoch)
    ties = columns.values("id_low", rows), columns.values("id_high", rows), -columns.values("event_at", rows)
    ordered: Numbers = rows[np.lexsort((*ties, -columns.values("importance", rows), -weight))]
    return ordered


def weights_of(columns: AttributeStore, rows: Numbers, epoch: int) -> NDArray[np.float64]:
    """The weights of memories in an epoch: their strength, and how often they were said and used. SPEC 7.4"""
    names = "repetition_count", "access_count", "kind", "layer", "state"
    strength = present_strengths(lambda name: columns.values(name, rows), epoch)
    return decay_ranker.weight(strength, *(columns.values(name, rows) for name in names))


class _Cache(NamedTuple):
    """Roles by number of the memory."""

    texts: NDArray[np.uint64]  # half the hash of the text that was read; 0 where none was
    roles: NDArray[np.uint8]


class RoleReader:
    """The roles by number of the memory. Its methods may be called on any thread."""

    def __init__(self, store: Store, views: Views, serving: Callable[[], ActiveIndex | None]) -> None:
        """serving: the vector index that is searched; None without a model."""
        self._store = store
        self._views = views
        self._serving = serving
        self._lock = threading.Lock()
        self._cache = _Cache(np.zeros(0, np.uint64), np.zeros(0, np.uint8))

    def of(
        self, columns: AttributeStore, rows: Numbers, snapshot: Snapshot, read_max: int = WAITED_FOR
    ) -> NDArray[np.uint8]:
        """The places in ROLES of these memories, UNKNOWN where more than read_max have not been read yet."""
        texts = columns.values("text_low", rows)
        with self._lock:
            size = int(rows.max(initial=-1)) + 1
            held = len(self._cache.texts)
            if size > held:
                more = max(size, 2 * held) - held
                self._cache = _Cache(
                    np.append(self._cache.texts, np.zeros(more, np.uint64)),
                    np.append(self._cache.roles, np.full(more, UNKNOWN, np.uint8)),
                )
            cache = self._cache
            missing = np.flatnonzero(cache.texts[rows] != texts)
        now = missing[max(0, len(missing) - read_max) :]
        self._read(cache, columns, rows[now], texts[now], snapshot)
        found = cache.roles[rows]
        found[missing[: len(missing) - len(now)]] = UNKNOWN
        return found

    def run_slice(self) -> bool:
        """Read the next texts that have no role; return whether there are more."""
        columns = self._views.attributes
        rows = np.flatnonzero(columns.uncached_mask(MemoryFilter(states=("active",), now=self._store.now())))
        rows = rows[columns.values("managed", rows) == 0]
        with self._store.snapshot() as snapshot:
            return bool((self.of(columns, rows, snapshot, SLICE) == UNKNOWN).any())

    def clear(self) -> None:
        """Forget all roles and the hashes of their texts: one of them may have been erased."""
        with self._lock:
            self._cache = _Cache(np.zeros(0, np.uint64), np.zeros(0, np.uint8))

    def _read(
        self, cache: _Cache, columns: AttributeStore, rows: Numbers, texts: NDArray[np.uint64], snapshot: Snapshot
    ) -> None:
        """Read the roles of these memories. One that still waits for its vector is read again.

        A cache that was replaced in the meantime, because it grew or was cleared, keeps nothing of what is read.
        """
        serving = self._serving()
        view = serving.view if serving is not None and serving.embedder.name == DEFAULT_MODEL else None
        if view is not None and view.dimensions != DIMENSIONS:
            view = None
        for row, text, memory_id in zip(rows.tolist(), texts, columns.ids(rows), strict=True):
            memory = snapshot.memory(memory_id)
            if memory is not None:
                windows = None if view is None else view.vectors_of(row)
                vector = None if windows is None else windows[0].astype(np.float32)
                role = ROLES.index(_role_of(memory, vector))
                with self._lock:
                    cache.texts[row] = text if view is None or vector is not None else 0
                    cache.roles[row] = role


def _role_of(memory: Memory, vector: NDArray[np.float32] | None) -> MemoryRole:
    if memory.turn is not None and memory.turn.role == "agent":
        return "answer"
    found = read_role(memory.content, vector)
    if found.name in PASSING:
        return found.name if found.probability >= PASSING_MIN and len(memory.content) <= STATEMENT_CHARS_MAX else "fact"
    is_sure = memory.turn is None or found.name in _OPEN_TO_TURNS or found.probability >= TURN_MIN
    return found.name if is_sure else "fact" if found.probability >= FACT_MIN else "event"
