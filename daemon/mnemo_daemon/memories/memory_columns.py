"""Values that the columns alone have of memories: their weights, the roles of their texts, and their counts by day,
week, month or hour. SPEC 7.4, 9.6, 13"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.choices import TimelineStep, TimelineTime
from mnemo_client.protocol.memories import TimelineAnswer, TimelineBucketView, TimelineSource
from mnemo_core.decay import strengths_at
from mnemo_core.ingest.classification import STATEMENT_CHARS_MAX, classify
from mnemo_core.ingest.memory_role import DIMENSIONS, INSTRUCTION_ROLES, ROLES, MemoryRole, read_role
from mnemo_core.retrieval.histograms import (
    DAYS_MAX,
    HOURS,
    DaySpan,
    counts_by_group,
    counts_within,
    step_bounds,
    whole_steps,
)
from mnemo_core.retrieval.ranking import decay_ranker
from mnemo_core.similarity.thresholds import DEFAULT_MODEL
from mnemo_core.text.dates.local_days import EPOCH, days_after, local_time
from mnemo_daemon.errors import bad_value
from mnemo_daemon.indexing.index import position_of, require_same_store
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.times import utc_offset
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.indexes import index_file
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.records import Memory
from mnemo_store.store import Store

log = logging.getLogger("mnemo.roles")

COLUMN: dict[TimelineTime, str] = {"event": "event_at", "stored": "created_at", "changed": "modified_at"}
DAYS_DEFAULT: dict[TimelineStep, int] = {"hour": 1, "day": 365, "week": 730, "month": 3650}
SOURCES_MAX = 20  # that are named; the others are counted together


def range_of(since: int | None, until: int | None, step: TimelineStep, now: int) -> DaySpan:
    """The local days from one moment to another (ms), widened to whole steps. An open end is that of today, an open
    beginning DAYS_DEFAULT before the end. Raises a Refusal for a range that is too long."""
    end = days_after(_day_of(now if until is None else until - 1), 1)
    begin = days_after(end, -DAYS_DEFAULT[step]) if since is None else _day_of(since)
    if until is None:
        end = max(end, days_after(begin, 1))
    span = whole_steps(DaySpan(max(begin, EPOCH), end), step)
    if span.days > DAYS_MAX[step]:
        message = f"{span.days} days are too many for the step {step}, which takes {DAYS_MAX[step]}"
        raise bad_value(f"{message}: name `since` and `until` closer together, or a longer step", "since")
    return span


def read_timeline(
    columns: AttributeStore, wanted: MemoryFilter, by: TimelineTime, step: TimelineStep, span: DaySpan
) -> TimelineAnswer:
    """Count the memories of a filter, whose own times are not looked at, in a span of whole steps."""
    mask = columns.uncached_mask(wanted._replace(since=None, until=None))
    times, codes = (column[: len(mask)][mask] for column in columns.columns(COLUMN[by], "source"))
    bounds = step_bounds(span, step, utc_offset)
    by_source = counts_by_group(times, codes, bounds)
    totals = by_source.sum(axis=0)
    commonest = np.argsort(-totals, kind="stable")[:SOURCES_MAX]
    commonest = commonest[totals[commonest] > 0]
    counts, named = by_source.sum(axis=1), by_source[:, commonest]
    sources = [TimelineSource(name=columns.name("source", int(code)), count=int(totals[code])) for code in commonest]
    rest = counts - named.sum(axis=1)
    if rest.any():
        named = np.column_stack([named, rest])
        sources.append(TimelineSource(name="", count=int(rest.sum())))
    hours: list[int] | None = None  # the counts by hour of the day; None of a span that is too long for it
    if span.days <= DAYS_MAX["day"]:
        by_hour = counts_within(times, step_bounds(span, "hour", utc_offset))
        hours = by_hour.reshape(-1, HOURS).sum(axis=0).tolist()
    return TimelineAnswer(
        since=int(bounds[0]), until=int(bounds[-1]), total=int(counts.sum()), sources=sources,
        first=int(times.min()) if len(times) else None, last=int(times.max()) if len(times) else None,
        buckets=[
            TimelineBucketView(
                since=int(bounds[at]), until=int(bounds[at + 1]), count=int(counts[at]), sources=named[at].tolist()
            )
            for at in np.flatnonzero(counts)
        ],
        hours=hours,
    )  # fmt: skip


def _day_of(at: int) -> dt.date:
    return local_time(at, utc_offset)[0]


Numbers = NDArray[np.signedinteger[Any]]
Relevance = Callable[[Numbers], NDArray[np.float32]]  # the cosines of memories with a text; NaN without a vector

TURN_MIN = 0.6  # probability of a lasting role from which a turn of a conversation has it
FACT_MIN = 0.4  # and of any role, from which a turn is taken for a fact, and else for an event
_OPEN_TO_TURNS: Final = frozenset(("event", "appointment", "fact"))
REQUEST_MIN = 0.8  # and of an instruction, from which a request is one: "give me sources with every claim" [measured]
PASSING_MIN = 0.4  # and of a role of PASSING, from which a text has it
PASSING: Final[frozenset[MemoryRole]] = frozenset(("question", "small", "answer", "script"))
UNKNOWN: Final = len(ROLES)  # in the place of a role: not read yet
FILE = "roles.view"
FILE_KIND = "roles-4"  # raised with new weights of the roles
SLICE = 50  # texts: 0.1 s
WAITED_FOR = 20  # texts that a request reads itself, the newest first; the job reads the others
RESUME_WAITED_FOR = 100  # and that a resume reads

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


def read_rows(store: Store, columns: AttributeStore, rows: Numbers) -> Iterator[Memory]:
    """The memories of these rows that are there, some under one snapshot at a time."""
    for some in batched(columns.ids(rows.tolist()), READ_SLICE):
        with store.snapshot() as snapshot:
            yield from [memory for each in some if (memory := snapshot.memory(each)) is not None]


class _Cache(NamedTuple):
    """Roles by number of the memory."""

    texts: NDArray[np.uint64]  # half the hash of the text that was read; 0 where none was
    roles: NDArray[np.uint8]
    by_vector: NDArray[np.bool_]  # the vector was read too; a role without one is read again once there is a model


_EMPTY = _Cache(np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.bool_))


class RoleReader:
    """The roles by number of the memory. Its methods may be called on any thread.

    They are kept in `views/roles.view` from one run to the next, since the first resume after a start cannot wait for
    all texts to be read. What the file says of a text counts for that text alone.
    """

    def __init__(self, store: Store, views: Views, serving: Callable[[], ActiveIndex | None]) -> None:
        """serving: the vector index that is searched; None without a model."""
        self._store = store
        self._views = views
        self._serving = serving
        self._lock = threading.Lock()
        self._cache = _EMPTY
        self._path = store.folder / "views" / FILE
        try:
            meta, arrays = index_file.load(self._path, FILE_KIND)
            require_same_store(store, meta)
            self._cache = _Cache(*(arrays[name] for name in _Cache._fields))
        except (StoreError, KeyError) as error:
            if store.seq:
                log.info("roles are read again: %s", error)

    def save(self, disk: Disk) -> None:
        """Write the file. A failure is logged: the next run then has more to read."""
        if self._store.lock_loss:
            return
        with self._lock:
            arrays: dict[str, NDArray[Any]] = self._cache._asdict()
        try:
            index_file.save(self._path, FILE_KIND, position_of(self._store, self._store.seq), arrays, disk)
        except (OSError, StoreError) as error:
            log.warning("the roles could not be saved: %s", error)

    def of(
        self, columns: AttributeStore, rows: Numbers, snapshot: Snapshot, read_max: int = WAITED_FOR
    ) -> NDArray[np.uint8]:
        """The places in ROLES of these memories, UNKNOWN where more than read_max have not been read yet."""
        return self._read_some(columns, rows, snapshot, read_max)[0]

    def run_slice(self) -> bool:
        """Read the next texts that have no role; return whether there are more."""
        columns = self._views.attributes
        rows = np.flatnonzero(columns.uncached_mask(MemoryFilter(states=("active",), now=self._store.now())))
        rows = rows[columns.values("managed", rows) == 0]
        with self._store.snapshot() as snapshot:
            return self._read_some(columns, rows, snapshot, SLICE)[1] > 0

    def _read_some(
        self, columns: AttributeStore, rows: Numbers, snapshot: Snapshot, read_max: int
    ) -> tuple[NDArray[np.uint8], int]:
        """Return the roles of the memories, and how many of them are still to be read. Those that have no role are read
        before those that have one without their vector, the newest first."""
        texts, view = columns.values("text_low", rows), self._view()
        with self._lock:
            size = int(rows.max(initial=-1)) + 1
            held = len(self._cache.texts)
            if size > held:
                more = max(size, 2 * held) - held
                self._cache = _Cache(
                    np.append(self._cache.texts, np.zeros(more, np.uint64)),
                    np.append(self._cache.roles, np.full(more, UNKNOWN, np.uint8)),
                    np.append(self._cache.by_vector, np.zeros(more, np.bool_)),
                )
            cache = self._cache
            is_unread = cache.texts[rows] != texts
            by_words = np.flatnonzero(~is_unread & ~cache.by_vector[rows])
        with_vectors = view.numbers() if view is not None and len(by_words) else ()
        by_words = by_words[np.isin(rows[by_words], with_vectors)]
        waiting = np.concatenate((by_words, np.flatnonzero(is_unread)))
        now = waiting[max(0, len(waiting) - read_max) :]
        if len(now):
            self._read(cache, columns, rows[now], texts[now], snapshot)
        found = cache.roles[rows]
        is_unread[now] = False
        found[is_unread] = UNKNOWN
        return found, len(waiting) - len(now)

    def clear(self) -> None:
        """Forget all roles and the hashes of their texts, in the file too: one of them may have been erased."""
        with self._lock:
            self._cache = _EMPTY
            self._path.unlink(missing_ok=True)

    def _view(self) -> VectorIndex | None:
        """The vectors that there are weights for."""
        serving = self._serving()
        view = serving.view if serving is not None and serving.embedder.name == DEFAULT_MODEL else None
        return view if view is not None and view.dimensions == DIMENSIONS else None

    def _read(
        self, cache: _Cache, columns: AttributeStore, rows: Numbers, texts: NDArray[np.uint64], snapshot: Snapshot
    ) -> None:
        """Read the roles of these memories. One that still waits for its vector is read again. A cache that was
        replaced in the meantime, because it grew or was cleared, keeps nothing of what is read."""
        view = self._view()
        for row, text, memory_id in zip(rows.tolist(), texts, columns.ids(rows), strict=True):
            memory = snapshot.memory(memory_id)
            if memory is not None:
                windows = None if view is None else view.vectors_of(row)
                vector = None if windows is None else windows[0].astype(np.float32)
                role = ROLES.index(_role_of(memory, vector))
                with self._lock:
                    cache.texts[row], cache.roles[row], cache.by_vector[row] = text, role, vector is not None


def _role_of(memory: Memory, vector: NDArray[np.float32] | None) -> MemoryRole:
    if memory.turn is not None and memory.turn.role == "agent":
        return "answer"
    found = read_role(memory.content, vector)
    is_unsure = found.name in INSTRUCTION_ROLES and found.probability < REQUEST_MIN
    if is_unsure and classify(memory.content).category == "request":
        return "event"  # it is asked for once
    if found.name in PASSING:
        return found.name if found.probability >= PASSING_MIN and len(memory.content) <= STATEMENT_CHARS_MAX else "fact"
    is_sure = memory.turn is None or found.name in _OPEN_TO_TURNS or found.probability >= TURN_MIN
    return found.name if is_sure else "fact" if found.probability >= FACT_MIN else "event"
