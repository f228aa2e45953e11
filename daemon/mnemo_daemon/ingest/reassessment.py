"""Memories are classified and scored again: those whose values a rule set, and those that came without vectors. SPEC 5

Reclassification (5.3, 5.4, 15): no record says who set the kind, form and category of a memory. They count as set by a
rule where the rules of some profile give them to the text, or where they are the defaults; other values were set by
somebody and stay. The importance is computed again where the record says that a rule set it. Chunks of notes are left
out: they belong to their files.

Backfill of memories that were written without their vectors, and of chunks of notes: the seq of the first such write is
a cursor in the store (BACKFILL_CURSOR), written with it and cleared when all are done. From there the backfill follows
the journal, once the vectors are current. Repeating a slice changes nothing. Memories that were compared during
ingestion are skipped, and so are chunks whose text did not change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.protocol.ingestion import ReclassificationView, ReclassifyAnswer
from mnemo_core.ingest import mutations, write_plan
from mnemo_core.ingest.classification import Classification, classify
from mnemo_core.ingest.mutations import CATEGORY_DEFAULT, KIND_DEFAULT, Decision, Draft, MemoryRelation
from mnemo_core.ingest.note_sync import needs_rescoring
from mnemo_core.ingest.policies import POLICIES, EntryPoint, Policy, default_importance, final_importance
from mnemo_core.ingest.write_plan import BACKFILL_CURSOR, IngestItem, PendingSnapshot
from mnemo_core.retrieval.versions import TURN_TIER
from mnemo_core.text.dates.time_mentions import said_at
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.history_names import BY_INTAKE, BY_LIFECYCLE, BY_NOTES, BY_RECALL, RECLASSIFY
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex, Scope
from mnemo_daemon.indexing.vectors.text_vectors import Rows
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.neighbour_search import NeighbourQuery, NeighbourSearch
from mnemo_daemon.memories.memory_service import ADD, Caller
from mnemo_daemon.settings import Settings
from mnemo_daemon.times import utc_offset
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.ids import time_of_id
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import (
    HOOK_SOURCE,
    PROXY_SOURCE,
    Change,
    ChangeEntry,
    Memory,
    PutMemory,
    PutMeta,
    default_decay_rate,
)
from mnemo_store.store import Store, WriteResult

RECLASSIFIED_PER_WRITE = 500  # memories in one write turn [SPEC 3.2]
READ_TOGETHER = 500
SHOWN = 500  # changes that are listed
CONTENT_SHOWN = 120  # characters
# A smaller difference of importance is drift, since novelty depends on what is known, and is not written.
IMPORTANCE_STEP = 0.1

SCORE = "score"  # operation in the history of a chunk that was scored; undo passes over it, as over its note's changes
SCORED_KEPT_MAX = 50_000  # memories compared during ingestion that are known as such
ENTRIES = 200  # transactions in one slice, unless they hold
MEMORIES = 50  # memories to compare, or somewhat more where one transaction wrote many; also the most in a write turn


class _Change(NamedTuple):
    memory: Memory
    fields: dict[str, Any]
    why: str


class Reclassification:
    """The service. `run` takes long and runs on a thread."""

    def __init__(self, store: Store, views: Views, indexing: VectorIndexer, settings: Callable[[], Settings]) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._settings = settings

    def run(self, namespace: str, user_id: str, by: str, dry_run: bool) -> ReclassifyAnswer:
        """Write the differences in slices under one group, unless it is a dry run, and report them. Memories that
        changed meanwhile stay as they are."""
        profile, serving = self._settings().profile_of(namespace), self._indexing.serving()
        answer = ReclassifyAnswer(looked_at=0, changed=0, left=0, dry_run=dry_run, namespace=namespace)
        group = "" if dry_run else self._store.new_id()
        changes: list[_Change] = []
        columns = self._views.attributes
        numbers = np.flatnonzero(columns.mask(MemoryFilter(namespaces=(namespace,), user_id=user_id)))
        for some in batched(numbers.tolist(), READ_TOGETHER):
            with self._store.snapshot() as snapshot:
                memories = [snapshot.memory(each) for each in columns.ids(some)]
            for number, memory in zip(some, memories, strict=True):
                if memory is None or memory.managed:
                    continue
                answer.looked_at += 1
                found = self._reclassified(memory, number, profile, serving)
                answer.left += found is None
                if found is not None and found.fields:
                    changes.append(found)
            if not dry_run and len(changes) >= RECLASSIFIED_PER_WRITE:
                answer.changed += self._write(changes[:RECLASSIFIED_PER_WRITE], answer, by, group)
                changes = changes[RECLASSIFIED_PER_WRITE:]
        if dry_run:
            answer.changed = len(changes)
            answer.changes = [_shown(each) for each in changes[:SHOWN]]
        elif changes:
            for last in batched(changes, RECLASSIFIED_PER_WRITE):
                answer.changed += self._write(last, answer, by, group)
        answer.group = group if group and answer.changed else None
        return answer

    def _reclassified(
        self, memory: Memory, number: int, profile: Policy, serving: ActiveIndex | None
    ) -> _Change | None:
        """The fields that would differ; None for a memory that somebody set."""
        fields: dict[str, Any] = {}
        now = _route(memory, profile)
        has = (memory.kind, memory.form, memory.category)
        is_ruled = has == (KIND_DEFAULT, None, CATEGORY_DEFAULT)
        is_ruled = is_ruled or any(_route(memory, each)[:3] == has for each in POLICIES.values())
        if is_ruled:
            wanted = {"kind": now.kind, "form": now.form, "category": now.category}
            fields = {name: value for name, value in wanted.items() if getattr(memory, name) != value}
        if memory.importance_source == "rule" and memory.source != HOOK_SOURCE:
            importance = self._importance(memory, number, profile, serving, now)
            if importance is not None and abs(importance - memory.importance) >= IMPORTANCE_STEP:
                fields["importance"] = importance
        elif not is_ruled:
            return None
        if fields.get("kind") and memory.decay_rate == default_decay_rate(memory.layer, memory.kind):
            rate = default_decay_rate(memory.layer, fields["kind"])
            fields |= {"decay_rate": rate} if rate != memory.decay_rate else {}
        return _Change(memory, fields, now.why)

    def _importance(
        self, memory: Memory, number: int, profile: Policy, serving: ActiveIndex | None, found: Classification
    ) -> float | None:
        """The importance that the rules give a memory now; None where its vector is missing."""
        is_piece = memory.source in ("ingest", PROXY_SOURCE) or memory.importance < profile.importance_floor
        is_turn = memory.turn is not None and memory.source != PROXY_SOURCE
        entry_point: EntryPoint = "turn" if is_turn else "ingest" if is_piece else "remember"
        if entry_point not in profile.scored:
            return default_importance(profile, entry_point, found.kind, memory.tags)
        rows = serving.view.vectors_of(number) if serving is not None else None
        if serving is None or rows is None or serving.centroids.uncounted:
            return None
        middle = serving.centroids.centroid(Scope(memory.user_id, memory.namespace), without=rows)
        return final_importance(
            profile, entry_point, write_plan.score(memory.content, profile, rows, middle).importance
        )

    def _write(self, changes: Sequence[_Change], answer: ReclassifyAnswer, by: str, group: str) -> int:
        def decide(snapshot: Snapshot) -> WriteResult[list[_Change]]:
            made: list[Change] = []
            done = []
            for each in changes:
                now = snapshot.memory(each.memory.id)
                if now is None or now.version != each.memory.version:
                    continue
                after = mutations.new_version(now, snapshot.now, each.fields)
                made += PutMemory(data=after), *mutations.rescore_strength(now, after, snapshot)
                done.append(each)
            return WriteResult(made, done, RECLASSIFY, group)

        future: Future[Any] = self._store.transact(decide, by=by)
        done = future.result().result
        answer.changes += [_shown(each) for each in done[: SHOWN - len(answer.changes)]]
        return len(done)


def _route(memory: Memory, profile: Policy) -> Classification:
    role = memory.turn.role if memory.turn is not None else ""
    return classify(
        memory.content, session_id=memory.session_id, tags=memory.tags, role=role,
        has_evidence=bool(memory.evidence), has_trace=memory.trace is not None, policy=profile,
    )  # fmt: skip


def _shown(change: _Change) -> ReclassificationView:
    before = {name: getattr(change.memory, name) for name in change.fields}
    content = change.memory.content[:CONTENT_SHOWN]
    return ReclassificationView(
        id=change.memory.id, content=content, before=before, after=dict(change.fields), why=change.why
    )


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

            def decide(snapshot: Snapshot) -> WriteResult[bool]:
                is_done = snapshot.seq == seq
                return WriteResult((PutMeta(name=BACKFILL_CURSOR, value=""),) if is_done else (), not is_done)

            return self._store.transact(decide, by=BY_INTAKE.name, background=True).result().result
        alike: dict[tuple[bool, str], list[_UnscoredMemory]] = {}
        for each in behind:
            alike.setdefault((bool(each.memory.managed), each.entry.group), []).append(each)
        moved: dict[tuple[str, int], int] = {}
        written = [self._write(some, serving, moved) for each in alike.values() for some in batched(each, MEMORIES)]
        for future in written:
            future.result()
        self._seq = seq
        return True

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
            # nothing of it came in then
            if entry.what in (TURN_TIER, SCORE) or entry.by in (BY_LIFECYCLE.name, BY_RECALL.name):
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
        draft = Draft(  # as which the memory would be ingested now
            content=memory.content, namespace=memory.namespace, user_id=memory.user_id, agent_id=memory.agent_id,
            run_id=memory.run_id, session_id=memory.session_id, trust=memory.trust, source=memory.source,
            speaker=memory.speaker, kind=memory.kind, event_at=memory.event_at, created_at=memory.created_at,
            key=memory.key,
        )  # fmt: skip
        item = IngestItem(draft, entry_point, profile, is_explained=False)
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
        scores = write_plan.score(memory.content, profile, rows, middle)
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
