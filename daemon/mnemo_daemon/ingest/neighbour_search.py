"""Neighbour search: the memories and texts of the same batch that are near a new text. SPEC 5.5, 5.7

A neighbour may be in the vector index, among recent writes that the index does not have yet, or earlier in the same
batch. Without a vector, words decide. Memories that claim something of the same subject are candidates however far they
are: "I moved to Oslo" is not near "I'm based in Lisbon". Only memories of the same namespace, user, agent and run that
the caller sees are compared.
"""

import functools
import heapq
import json
import math
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest import mutations, write_plan
from mnemo_core.ingest.attributes.attribute_claims import SEARCHED_CHARS_MAX, candidate_keys, claim_keys
from mnemo_core.ingest.changes import ChangeJudge
from mnemo_core.ingest.deduplication import CORRECTION, Neighbour, clear_text_cache
from mnemo_core.ingest.trust import OWNER
from mnemo_core.ingest.write_plan import COMPARED_STATES, NEW_ID_PREFIX, IngestItem
from mnemo_core.similarity.thresholds import JACCARD_NEAR, SOURCE, Thresholds
from mnemo_core.text.dates.time_mentions import said_at
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.text_vectors import Rows
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_service import Caller, is_visible
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.times import utc_offset
from mnemo_store.batches import batched
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import PROXY_SOURCE, Memory
from mnemo_store.store import Store

CHANGE_WEIGHTS = Path(__file__).parents[1] / "weights" / "changes.json"  # of the judge of changes
CANDIDATES = 8  # the nearest of each kind, of which TIES_MAX become edges
BY_WORDS = 4  # the best by words, besides, of a text that may update something
ANY_SIM = -1.0
CLAIMING = 16  # the latest memories that claim something of the same subject, shared among a text's claims;
CLAIMING_EACH_MIN = 4  # each claim has at least so many
WINDOWS_MAX = 4  # of a long text that are searched, each by itself
RECENT_MAX = 512  # recently written memories whose vectors are kept here
BLOCK = 512  # windows of a batch that are compared with the batch at once
COMMON_WORD_SHARE = 0.2  # a word that more of a batch has than this leads to no candidates
SNAPSHOT_MEMORIES = 1_000

Scoped = tuple[str, ...]  # the values of the fields that must be equal, as the profile names them


class NeighbourQuery(NamedTuple):
    """A text whose neighbours are searched. `place` is its place in the batch."""

    place: int
    item: IngestItem
    rows: Rows | None
    number: int | None = None  # of a chunk of a note: chunks of its own file are no neighbours


class _RecentText(NamedTuple):
    memory_id: str
    number: int | None
    space: str
    fields: Mapping[str, str]
    rows: Rows


class _NeighbourCandidates:
    """Candidates by place: each with its similarity, None where one of the two has no vector."""

    def __init__(self) -> None:
        self.sims: defaultdict[int, dict[str, float | None]] = defaultdict(dict)
        self.claiming: defaultdict[int, set[str]] = defaultdict(set)

    def add_claiming(self, place: int, name: str, sim: float | None) -> None:
        """Add a candidate that stays however many are nearer."""
        self.claiming[place].add(name)
        self.add(place, name, sim)

    def add(self, place: int, name: str, sim: float | None) -> None:
        """Add a candidate; of two similarities the higher one counts."""
        known = self.sims[place].get(name)
        if name not in self.sims[place] or (sim is not None and (known is None or sim > known)):
            self.sims[place][name] = sim

    def best(self, place: int) -> list[tuple[str, float | None]]:
        rows = sorted(self.sims[place].items(), key=lambda row: (-(row[1] or 0.0), row[0]))
        return rows[:CANDIDATES] + [row for row in rows[CANDIDATES:] if row[0] in self.claiming[place]]


class NeighbourSearch:
    """The search. Any thread may ask."""

    def __init__(self, store: Store, views: Views, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._calibrated = ModelThresholds(embedding)
        self._recent: deque[_RecentText] = deque(maxlen=RECENT_MAX)
        # Of a space, until more is written: what was written lately, its rows as one matrix, and whose each row is.
        self._stacked: tuple[str, list[_RecentText], NDArray[np.float32], NDArray[np.intp]] | None = None
        self._lock = threading.Lock()

    def record_written(self, memory: Memory, rows: Rows | None, space: str) -> None:
        """Keep the vectors of a memory that was just written, until the index has them."""
        if rows is not None:
            fields = {name: getattr(memory, name) for name in ("namespace", "user_id", "agent_id", "run_id")}
            with self._store.snapshot() as snapshot:
                number = snapshot.number(memory.id)
            with self._lock:
                self._recent.append(_RecentText(memory.id, number, space, fields, rows[:WINDOWS_MAX]))
                self._stacked = None

    def clear_caches(self) -> None:
        """Forget the recent texts and their claims."""
        with self._lock:
            self._recent.clear()
            self._stacked = None
        clear_text_cache()

    def prefetch_claims(self, item: IngestItem) -> None:
        """Extract the claims of a text into the cache of the search, while its vector is being computed."""
        if _is_compared(item) and _may_update(item):
            candidate_keys(item.draft.content, item.draft.speaker)

    def search_batch(
        self, wanted: Sequence[NeighbourQuery], serving: ActiveIndex | None, caller: Caller
    ) -> dict[int, list[Neighbour]]:
        """The neighbours of each text, by its place, the nearest first; of the batch only earlier texts."""
        compared = [each for each in wanted if _is_compared(each.item)]
        if not compared:
            return {}
        found = _NeighbourCandidates()
        # What may be replaced is mostly not near: the judge of changes looks at the nearest, however far they are.
        limits = {
            each.place: ANY_SIM if _may_update(each.item) else self._thresholds(each.item, serving).near
            for each in compared
        }
        self._add_stored(compared, serving, caller, limits, found)
        if serving is not None:
            self._add_recent(compared, serving, limits, found)
        if len(compared) > 1:
            _add_batch(compared, limits, found)
            _add_batch_by_words(compared, found)
            # The latest of what stands before each in the batch and claims something of the same subject.
            now = self._store.now()
            holding: defaultdict[tuple[Scoped, str], list[int]] = defaultdict(list)
            times = [_event_time(each.item, now) for each in compared]
            for place, each in enumerate(compared):
                if not _may_update(each.item):
                    continue
                draft, scoped = each.item.draft, _scoped(each.item)
                sought = candidate_keys(draft.content, draft.speaker)
                for some in sought[: CLAIMING // CLAIMING_EACH_MIN]:
                    others = {other for mark in some for other in holding[scoped, mark] if times[other] <= times[place]}
                    for other in heapq.nlargest(_claims_share(sought), others, key=lambda other: (times[other], other)):
                        one, two = each.rows, compared[other].rows
                        sim = None if one is None or two is None else float(one[0].astype(np.float32) @ two[0])
                        found.add_claiming(each.place, f"{NEW_ID_PREFIX}{compared[other].place}", sim)
                for mark in claim_keys(draft.content, draft.speaker):
                    holding[scoped, mark].append(place)
        # The candidates as memories: of the store as they are now, of the batch as they would be.
        best = {each.place: found.best(each.place) for each in compared if found.sims[each.place]}
        ids = {name for rows in best.values() for name, _ in rows if not name.startswith(NEW_ID_PREFIX)}
        memories = dict(self._read(sorted(ids), caller))
        now = self._store.now()
        known: dict[str, int | Callable[[], int]] = {
            name: functools.partial(said_at, each.content, each.event_at, each.created_at, utc_offset)
            for name, each in memories.items()
        }
        named = {name for rows in best.values() for name, _ in rows}
        for each in compared:
            name = f"{NEW_ID_PREFIX}{each.place}"
            if name in named:
                memories[name] = mutations.store_new(each.item.draft, name, now, epoch=0).memory
                known[name] = _event_time(each.item, now)
        return {
            place: [Neighbour(memories[name], sim, known[name]) for name, sim in rows if name in memories]
            for place, rows in best.items()
        }

    def with_relations(self, item: IngestItem, near: Sequence[Neighbour], serving: ActiveIndex | None) -> IngestItem:
        """The item with its relations, or discarded."""
        judge = self._judge if _may_update(item) else None
        limits = self._thresholds(item, serving)
        return write_plan.compare_with_neighbours(item, near, limits, self._store.now(), judge)

    @functools.cached_property
    def _judge(self) -> ChangeJudge:
        return ChangeJudge(json.loads(CHANGE_WEIGHTS.read_text(encoding="utf-8")))

    def _thresholds(self, item: IngestItem, serving: ActiveIndex | None) -> Thresholds:
        limits = SOURCE if serving is None else item.policy.thresholds_for(self._calibrated.of(serving.embedder))
        return limits._replace(near=limits.near_proxy) if item.draft.source == PROXY_SOURCE else limits

    def _add_stored(
        self, wanted: Sequence[NeighbourQuery], serving: ActiveIndex | None, caller: Caller,
        limits: Mapping[int, float], found: _NeighbourCandidates,
    ) -> None:  # fmt: skip
        """Add stored neighbours: by vector, or by words where there is none."""
        columns, masks = self._views.attributes, dict[Scoped, NDArray[np.bool_]]()
        now = self._store.now()
        for each in wanted:
            scoped = *_scoped(each.item), str(_corrects_agents(each.item))
            mask = masks.get(scoped)
            if mask is None:
                draft, compared = each.item.draft, () if _corrects_agents(each.item) else each.item.policy.compared
                mask = masks[scoped] = columns.mask(
                    MemoryFilter(
                        namespaces=(draft.namespace,),
                        user_id=draft.user_id,
                        agent_id=draft.agent_id if "agent_id" in compared else None,
                        run_id=draft.run_id if "run_id" in compared else None,
                        states=COMPARED_STATES,
                        without_tags=() if caller.sees_sensitive else (SENSITIVE_TAG,),
                        now=now,
                    )
                )
            if each.number is not None:
                files = columns.column("managed")  # the next chunk of the file gets the same mask
                mask = columns.exclude(mask, np.flatnonzero(files[: len(mask)] == files[each.number]))
            if not mask.any():
                continue
            content = each.item.draft.content
            self._add_claiming(each, mask, serving, found)
            if _may_update(each.item) and serving is not None and each.rows is not None:
                numbers = self._views.lexical.search(content, BY_WORDS, mask).numbers
                self._add_with_sims(each, numbers, serving, found)
            if serving is None or each.rows is None:
                hits = self._views.lexical.search(content, CANDIDATES, mask)
                for memory_id in columns.ids(hits.numbers.tolist()):
                    found.add(each.place, memory_id, None)
                continue
            for row in each.rows[:WINDOWS_MAX].astype(np.float32):
                numbers, sims, _ = serving.view.nearest(row, CANDIDATES, mask)
                near = sims >= limits[each.place]
                ids = columns.ids(numbers[near].tolist())
                for memory_id, sim in zip(ids, sims[near].tolist(), strict=True):
                    found.add(each.place, memory_id, sim)

    def _add_claiming(
        self, wanted: NeighbourQuery, mask: NDArray[np.bool_], serving: ActiveIndex | None, found: _NeighbourCandidates
    ) -> None:
        """The latest of what claims something of the same subject, or that a correction may be of, and is earlier."""
        draft, columns = wanted.item.draft, self._views.attributes
        if not _may_update(wanted.item):
            return
        said_at = _event_time(wanted.item, self._store.now())
        sought = candidate_keys(draft.content, draft.speaker)
        marks = sought[: CLAIMING // CLAIMING_EACH_MIN]
        said = [np.flatnonzero(mask).astype(np.uint32)] if CORRECTION.match(draft.content) else []
        for numbers in [*said, *(self._views.lexical.numbers_with_marks(some, mask) for some in marks)]:
            times = np.minimum(columns.values("event_at", numbers), columns.values("created_at", numbers))
            is_earlier = times < said_at
            numbers, times = numbers[is_earlier], times[is_earlier]
            latest = numbers[np.lexsort((numbers, times))[-_claims_share(sought) :]]
            self._add_with_sims(wanted, latest, serving, found)

    def _add_with_sims(
        self, wanted: NeighbourQuery, numbers: NDArray[np.uint32], serving: ActiveIndex | None,
        found: _NeighbourCandidates,
    ) -> None:  # fmt: skip
        """Add candidates that stay however many are nearer."""
        sims = np.full(len(numbers), np.nan, np.float32)
        if serving is not None and wanted.rows is not None:
            sims = serving.view.sims(wanted.rows[0].astype(np.float32), numbers)
        for memory_id, sim in zip(self._views.attributes.ids(numbers.tolist()), sims.tolist(), strict=True):
            found.add_claiming(wanted.place, memory_id, None if math.isnan(sim) else sim)

    def _add_recent(
        self,
        wanted: Sequence[NeighbourQuery],
        serving: ActiveIndex,
        limits: Mapping[int, float],
        found: _NeighbourCandidates,
    ) -> None:
        # The vectors written lately in the space that the view does not have, stacked once, until more are written.
        space = serving.embedder.space
        with self._lock:
            while self._recent and ((number := self._recent[0].number) is None or number in serving.view):
                self._recent.popleft()
                self._stacked = None
            if self._stacked is None or self._stacked[0] != space:
                of_space = [each for each in self._recent if each.space == space]
                rows = [each.rows for each in of_space]
                matrix = np.concatenate(rows).astype(np.float32) if rows else np.empty((0, 0), np.float32)
                whose = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
                self._stacked = space, of_space, matrix, whose
            _, recent, stacked, owners = self._stacked
        if not recent:
            return
        for each in wanted:
            if each.rows is None:
                continue
            sims = (each.rows[:WINDOWS_MAX].astype(np.float32) @ stacked.T).max(axis=0)
            wanted_fields = [(name, getattr(each.item.draft, name)) for name in each.item.policy.compared]
            for row in np.flatnonzero(sims >= limits[each.place]).tolist():
                other = recent[owners[row]]
                if all(other.fields[name] == value for name, value in wanted_fields):
                    found.add(each.place, other.memory_id, float(sims[row]))

    def _read(self, ids: Sequence[str], caller: Caller) -> Iterator[tuple[str, Memory]]:
        for some in batched(ids, SNAPSHOT_MEMORIES):
            with self._store.snapshot() as snapshot:
                rows = [(each, snapshot.memory(each)) for each in some]
            for memory_id, memory in rows:
                if memory is not None and memory.state in COMPARED_STATES and is_visible(memory, caller):
                    yield memory_id, memory


def _is_compared(item: IngestItem) -> bool:
    """Return whether neighbours are searched: not for a text with a key, a rejected one, or where the policy has no
    use for them."""
    has_gate = item.entry_point == "turn" and item.policy.filters_turns
    return not item.draft.key and not item.discard_reason and (item.policy.on_similar != "stored" or has_gate)


def _may_update(item: IngestItem) -> bool:
    """Return whether the claims of a text are compared: not where nothing is related, nor of a note, which updates
    nothing, nor of a text with more than one subject."""
    return (
        item.policy.on_similar == "linked"
        and item.entry_point != "note"
        and len(item.draft.content) <= SEARCHED_CHARS_MAX
    )


def _event_time(item: IngestItem, now: int) -> int:
    return now if item.said_at is None else item.said_at


def _claims_share(sought: Sequence[frozenset[str]]) -> int:
    """The number of candidates that each claim of a text may have."""
    return max(CLAIMING_EACH_MIN, CLAIMING // max(1, len(sought)))


def _scoped(item: IngestItem) -> Scoped:
    return tuple(getattr(item.draft, name) for name in item.policy.compared)


def _corrects_agents(item: IngestItem) -> bool:
    """Return whether the text may replace what agents wrote in their own name: the person said it. SPEC 5.8"""
    draft = item.draft
    return _may_update(item) and draft.trust == OWNER and not (draft.agent_id or draft.run_id)


def _add_batch(wanted: Sequence[NeighbourQuery], limits: Mapping[int, float], found: _NeighbourCandidates) -> None:
    """Add the earlier texts of the batch that are near by vector: all windows with all windows, a block at a time."""
    with_rows = [each for each in wanted if each.rows is not None]
    if len(with_rows) < 2:
        return
    windows = [each.rows[:WINDOWS_MAX] for each in with_rows if each.rows is not None]
    owners = np.repeat(np.arange(len(windows)), [len(rows) for rows in windows])
    stacked = np.concatenate(windows).astype(np.float32)
    codes: dict[Scoped, int] = {}
    scopes = np.array([codes.setdefault(_scoped(each.item), len(codes)) for each in with_rows])[owners]
    lowest = np.array([limits[each.place] for each in with_rows], np.float32)[owners]
    for start in range(0, len(stacked), BLOCK):
        end = min(start + BLOCK, len(stacked))
        sims = stacked[start:end] @ stacked[:end].T
        sims[owners[start:end, None] <= owners[None, :end]] = -1.0
        sims[scopes[start:end, None] != scopes[None, :end]] = -1.0
        is_near_enough = sims >= lowest[start:end, None]
        for row in np.flatnonzero(is_near_enough.any(axis=1)).tolist():
            near = np.flatnonzero(is_near_enough[row])
            if len(near) > CANDIDATES:
                near = near[np.argpartition(-sims[row, near], CANDIDATES)[:CANDIDATES]]
            place = with_rows[owners[start + row]].place
            for column in near.tolist():
                found.add(place, f"{NEW_ID_PREFIX}{with_rows[owners[column]].place}", float(sims[row, column]))


def _add_batch_by_words(wanted: Sequence[NeighbourQuery], found: _NeighbourCandidates) -> None:
    """The same where one of the two has no vector: those that share most of the rarer words."""
    if all(each.rows is not None for each in wanted):
        return
    words = [frozenset(each.item.draft.content.casefold().split()) for each in wanted]
    holding: defaultdict[str, list[int]] = defaultdict(list)
    common = max(16, int(COMMON_WORD_SHARE * len(wanted)))
    for place, each in enumerate(wanted):
        shared: defaultdict[int, int] = defaultdict(int)
        for word in words[place]:
            for other in holding[word][:common]:
                shared[other] += 1
            holding[word].append(place)
        likeness = {other: count / len(words[other] | words[place]) for other, count in shared.items()}
        best = [other for other in sorted(likeness, key=lambda other: (-likeness[other], other))[:CANDIDATES]
                if likeness[other] > JACCARD_NEAR or len(each.item.draft.content) <= SEARCHED_CHARS_MAX]  # fmt: skip
        for other in best:
            if _scoped(wanted[other].item) == _scoped(each.item) and (each.rows is None or wanted[other].rows is None):
                found.add(each.place, f"{NEW_ID_PREFIX}{wanted[other].place}", None)
