"""Backfill: compare and score memories that were written without their vectors, and chunks of notes. SPEC 5

The seq of the first such write is a cursor in the store (BACKFILL_CURSOR), written with it and cleared when all are
done. From there the backfill follows the journal, once the vectors are current. Repeating a slice changes nothing.
Memories that were compared during ingestion are skipped, and so are chunks whose text did not change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from mnemo_core.ingest import scoring, write_plan
from mnemo_core.ingest.mutations import Decision, Draft, MemoryRelation
from mnemo_core.ingest.note_sync import needs_rescoring
from mnemo_core.ingest.policies import EntryPoint, Policy, final_importance
from mnemo_core.ingest.write_plan import BACKFILL_CURSOR, IngestItem, PendingSnapshot
from mnemo_core.lifecycle.versions import TURN_TIER
from mnemo_core.text.dates.time_mentions import said_at
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.history_names import BY_INTAKE, BY_LIFECYCLE, BY_NOTES, BY_RECALL
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex, Scope
from mnemo_daemon.indexing.vectors.text_vectors import Rows
from mnemo_daemon.ingest.neighbour_search import NeighbourQuery, NeighbourSearch
from mnemo_daemon.memories.memory_service import ADD, Caller
from mnemo_daemon.times import utc_offset
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.ids import time_of_id
from mnemo_store.records import ChangeEntry, Memory, PutMeta
from mnemo_store.store import Store, WriteResult

SCORE = "score"  # operation in the history of a chunk that was scored; undo passes over it, as over its note's changes
SCORED_KEPT_MAX = 50_000  # memories compared during ingestion that are known as such
ENTRIES = 200  # transactions in one slice, unless they hold
MEMORIES = 50  # memories to compare, or somewhat more where one transaction wrote many; also the most in a write turn


class _UnscoredMemory(NamedTuple):
    """A memory that was written without its vector, its vector, and the transaction that wrote it."""

    memory: Memory
    number: int
    rows: Rows
    entry: ChangeEntry


class ScoringBackfill:
    """The service. `run_slice` runs on the thread of the vector index; `mark_scored` on any."""

    def __init__(self, store: Store, neighbours: NeighbourSearch, profile: Callable[[str], Policy]) -> None:
        self._store = store
        self._neighbours = neighbours
        self._profile = profile
        self._scored: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._seq: int | None = None  # looked at so far; None: not since the start

    def mark_scored(self, memory_id: str) -> None:
        """Skip the memory: it was compared and scored with its vector. It need not be written yet."""
        with self._lock:
            self._scored[memory_id] = None
            while len(self._scored) > SCORED_KEPT_MAX:
                self._scored.popitem(last=False)

    def waiting(self) -> int:
        """The number of changes still to look at; 0 when all is done."""
        with self._store.snapshot() as snapshot:
            begun, now = snapshot.meta(BACKFILL_CURSOR), snapshot.seq
        return max(1, now - (self._seq if self._seq is not None else int(begun))) if begun else 0

    def run_slice(self, serving: ActiveIndex, seq_max: int) -> bool:
        """Compare and score the next slice, up to the change `seq_max`, which the index has; return whether there was
        one. Raises what the store raises; the slice is repeated then."""
        with self._store.snapshot() as snapshot:
            begun, now = snapshot.meta(BACKFILL_CURSOR), snapshot.seq
        if not begun:
            self._seq = now
            return False
        seen_to = self._seq if self._seq is not None else int(begun)
        behind, seq = self._next_slice(seen_to, seq_max, serving)
        if seq == seen_to:
            return self._finish(seq)
        alike: dict[tuple[bool, str], list[_UnscoredMemory]] = {}
        for each in behind:
            alike.setdefault((bool(each.memory.managed), each.entry.group), []).append(each)
        moved: dict[tuple[str, int], int] = {}
        written = [self._write(some, serving, moved) for each in alike.values() for some in batched(each, MEMORIES)]
        for future in written:
            future.result()
        self._seq = seq
        return True

    def _finish(self, seq: int) -> bool:
        """Clear the cursor, unless something was written meanwhile; return whether there is more to do."""

        def decide(snapshot: Snapshot) -> WriteResult[bool]:
            is_done = snapshot.seq == seq
            return WriteResult((PutMeta(name=BACKFILL_CURSOR, value=""),) if is_done else (), not is_done)

        return self._store.transact(decide, by=BY_INTAKE.name, background=True).result().result

    def _next_slice(self, after: int, seq_max: int, serving: ActiveIndex) -> tuple[list[_UnscoredMemory], int]:
        """Some memories that have their vectors now and had none when they were written."""
        behind: dict[str, _UnscoredMemory] = {}
        begun: dict[str, int] = {}
        seq = after
        with self._store.snapshot() as snapshot:
            entries = snapshot.entries(after, ENTRIES)
        for entry_seq, entry in entries:
            if entry_seq > seq_max or len(behind) >= MEMORIES:
                break
            seq = entry_seq
            if entry.what == TURN_TIER or entry.by in (BY_LIFECYCLE.name, BY_RECALL.name):  # nothing of it came in then
                continue
            with self._store.snapshot() as snapshot:
                for memory_id in entry.ids:
                    found = self._unscored(snapshot, memory_id, serving)
                    if found is None or (found[0].managed and not _begins(snapshot, found[0], entry_seq, entry, begun)):
                        continue
                    behind[memory_id] = _UnscoredMemory(*found, entry)
        return list(behind.values()), seq

    def _unscored(self, snapshot: Snapshot, memory_id: str, serving: ActiveIndex) -> tuple[Memory, int, Rows] | None:
        with self._lock:
            if memory_id in self._scored:
                return None
        memory, number = snapshot.memory(memory_id), snapshot.number(memory_id)
        if (
            memory is None
            or number is None
            or not (write_plan.can_be_backfilled(memory) or write_plan.is_chunk(memory))
        ):
            return None
        rows = serving.view.vectors_of(number)
        return None if rows is None else (memory, number, rows)

    def _write(
        self, behind: Sequence[_UnscoredMemory], serving: ActiveIndex, moved: dict[tuple[str, int], int]
    ) -> "Future[Any]":
        """Write the scores and relations of some memories of one group, which are all chunks of notes or none is.
        `moved` maps the versions that were compared to those that this slice made of them, with the same text."""
        scored = [(each.memory, *self._rescored(each, serving)) for each in behind]
        of_notes, group = bool(behind[0].memory.managed), behind[0].entry.group
        backfill = write_plan.backfill_chunk if of_notes else write_plan.backfill

        def decide(snapshot: Snapshot) -> WriteResult[bool]:
            pending = PendingSnapshot(snapshot)
            for memory, importance, found in scored:
                relations = [each._replace(version=moved.get((each.id, each.version), each.version)) for each in found]
                decision: Decision | None = backfill(memory, importance, relations, pending)
                if decision is not None:
                    pending.apply(decision.changes)
                    moved[memory.id, memory.version] = decision.memory.version
            return WriteResult(pending.changes, bool(pending.changes), SCORE if of_notes else ADD, group)

        return self._store.transact(decide, by=BY_NOTES.name if of_notes else BY_INTAKE.name, background=True)

    def _rescored(self, behind: _UnscoredMemory, serving: ActiveIndex) -> tuple[float, Sequence[MemoryRelation]]:
        """The importance of a memory, and its relations to older ones."""
        memory, rows = behind.memory, behind.rows
        profile, is_chunk = self._profile(memory.namespace), bool(memory.managed)
        importance = self._importance(behind, profile, serving)
        if profile.on_similar != "linked":
            return importance, ()
        entry_point: EntryPoint = "note" if is_chunk else "remember"
        item = IngestItem(_draft(memory), entry_point, profile, is_explained=False)
        if not is_chunk:
            item = item._replace(said_at=_event_time(memory))
        wanted = NeighbourQuery(0, item, rows, behind.number if is_chunk else None)
        caller = Caller(BY_INTAKE.name, sees_sensitive=not is_chunk or SENSITIVE_TAG in memory.tags)
        found = self._neighbours.search_batch([wanted], serving, caller).get(0, [])
        earlier = [
            near for near in found if _was_there(near.memory, behind) and near.memory.id not in memory.derived_from
        ]
        if not earlier:
            return importance, ()
        if is_chunk:  # only now: it takes longer to read than all the rest, and of notes it is not searched by
            item = item._replace(said_at=_event_time(memory))
        return importance, self._neighbours.with_relations(item, earlier, serving).relations

    def _importance(self, behind: _UnscoredMemory, profile: Policy, serving: ActiveIndex) -> float:
        """The importance by rule; of a chunk its present one, where the profile does not score notes."""
        memory, rows = behind.memory, behind.rows
        if memory.managed and "note" not in profile.scored:
            return memory.importance
        middle = serving.centroids.centroid(Scope(memory.user_id, memory.namespace), without=rows)
        scores = scoring.score(memory.content, profile, rows, middle)
        return final_importance(profile, "note" if memory.managed else "remember", scores.importance)


def _begins(snapshot: Snapshot, memory: Memory, seq: int, entry: ChangeEntry, begun: dict[str, int]) -> bool:
    """Return whether the chunk has had its present text since that change. `begun` caches since when each has."""
    if entry.by != BY_NOTES.name:
        return False
    if memory.version == 1:
        return True
    if memory.id not in begun:
        versions = snapshot.versions(memory.id)[::-1]
        pairs = zip(versions, [*(each.memory for each in versions[1:]), None], strict=True)
        begun[memory.id] = next(each.seq for each, before in pairs if needs_rescoring(before, each.memory))
    return begun[memory.id] == seq


def _was_there(other: Memory, behind: _UnscoredMemory) -> bool:
    """Return whether the other memory is older than the text in question, which a chunk may have got long after its
    id."""
    if other.id < behind.memory.id:
        return True
    return behind.memory.version > 1 and time_of_id(other.id) < behind.entry.at


def _event_time(memory: Memory) -> int:
    return said_at(memory.content, memory.event_at, memory.created_at, utc_offset)


def _draft(memory: Memory) -> Draft:
    """The draft as which the memory would be ingested now."""
    return Draft(
        content=memory.content, namespace=memory.namespace, user_id=memory.user_id, agent_id=memory.agent_id,
        run_id=memory.run_id, session_id=memory.session_id, trust=memory.trust, source=memory.source,
        speaker=memory.speaker, kind=memory.kind, event_at=memory.event_at, created_at=memory.created_at,
        key=memory.key,
    )  # fmt: skip
