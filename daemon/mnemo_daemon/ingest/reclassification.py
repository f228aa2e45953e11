"""Reclassification: classify and score again the memories whose values a rule set. SPEC 5.3, 5.4, 15

No record says who set its kind, form and category. They count as set by a rule where the rules of some profile give
them to the text, or where they are the defaults; other values were set by somebody and stay. The importance is computed
again where the record says that a rule set it. Chunks of notes are left out: they belong to their files.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.protocol.ingestion import ReclassificationView, ReclassifyAnswer
from mnemo_core.ingest import mutations, scoring
from mnemo_core.ingest.classification import Classification, classify
from mnemo_core.ingest.mutations import CATEGORY_DEFAULT, KIND_DEFAULT
from mnemo_core.ingest.policies import POLICIES, EntryPoint, Policy, default_importance, final_importance
from mnemo_daemon.history_names import RECLASSIFY
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex, Scope
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.settings import Settings
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import HOOK_SOURCE, Change, Memory, PutMemory, default_decay_rate
from mnemo_store.store import Store, WriteResult

RECLASSIFIED_PER_WRITE = 500  # memories in one write turn [SPEC 3.2]
READ_TOGETHER = 500
SHOWN = 500  # changes that are listed
CONTENT_SHOWN = 120  # characters
# A smaller difference of importance is drift, since novelty depends on what is known, and is not written.
IMPORTANCE_STEP = 0.1


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
        is_ruled = _is_rule_based(memory)
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
        entry_point = _entry_point(memory, profile)
        if entry_point not in profile.scored:
            return default_importance(profile, entry_point, found.kind, memory.tags)
        rows = serving.view.vectors_of(number) if serving is not None else None
        if serving is None or rows is None or serving.centroids.uncounted:
            return None
        middle = serving.centroids.centroid(Scope(memory.user_id, memory.namespace), without=rows)
        return final_importance(profile, entry_point, scoring.score(memory.content, profile, rows, middle).importance)

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


def _entry_point(memory: Memory, profile: Policy) -> EntryPoint:
    """The entry point by which a memory came in. A piece of a text has the source that its caller named, and is
    known by a score that no other entry point leaves as it is."""
    if memory.turn is not None:
        return "turn"
    is_piece = memory.source == "ingest" or memory.importance < profile.importance_floor
    return "ingest" if is_piece else "remember"


def _is_rule_based(memory: Memory) -> bool:
    """Return whether some rule gives the text the values of its record."""
    has = (memory.kind, memory.form, memory.category)
    if has == (KIND_DEFAULT, None, CATEGORY_DEFAULT):
        return True
    return any(_route(memory, profile)[:3] == has for profile in POLICIES.values())


def _shown(change: _Change) -> ReclassificationView:
    before = {name: getattr(change.memory, name) for name in change.fields}
    content = change.memory.content[:CONTENT_SHOWN]
    return ReclassificationView(
        id=change.memory.id, content=content, before=before, after=dict(change.fields), why=change.why
    )
