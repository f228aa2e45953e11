"""Cycles of consolidation: as a job after activity, and on request; and the proposals that wait for a person: listed,
approved, edited, rejected. SPEC 9.1, 9.2, 9.7

Each step is planned from the state of its cycle and written in one transaction, all or nothing, with the report of the
cycle so far. A step whose memories were changed meanwhile is planned again. A cycle that was interrupted goes on behind
its last report, at the next start of the daemon too. A dry run plans every step in the same way and writes nothing.

A proposal is a decision of the store with the status `proposed`. What is approved is planned again from the memories as
they are now, and written in one transaction together with the decision.
"""

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from mnemo_client.protocol.lifecycle import VerdictAnswer
from mnemo_core.ingest.mutations import rejected
from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.lifecycle.consolidation.audit import plan_audit
from mnemo_core.lifecycle.consolidation.cycle import (
    CHANGES_PER_STEP,
    CycleOperation,
    CycleStep,
    Planning,
    StepPlan,
    TaskQuestion,
    violation,
)
from mnemo_core.lifecycle.consolidation.forecast import CycleForecast, CycleStart, forecast
from mnemo_core.lifecycle.consolidation.review import (
    PROPOSALS_MAX,
    approved_operation,
    ids_of,
    is_unchanged,
    reviewed,
    with_former_values,
)
from mnemo_core.lifecycle.consolidation.state import CycleOptions, CycleState
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.faithfulness import loss_of, rejection_of
from mnemo_core.llm.merge import MERGE
from mnemo_core.llm.reconcile import RECONCILE
from mnemo_core.llm.triage import GATE, TRIAGE
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import AUDIT, BY_LIFECYCLE, CONSOLIDATE, LAST_CYCLE, REVIEW, author_of
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.lifecycle.cycle_source import (
    STALE,
    Proposal,
    Proposals,
    StoreSource,
    proposal_id,
    read_proposal,
    read_state,
)
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.settings import LifecycleSettings
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.backend import Snapshot
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    Change,
    Cycle,
    Memory,
    MetaChange,
    OperationReport,
    PutCycle,
    PutDecision,
    PutEdge,
    PutFact,
    PutMemory,
    PutMeta,
    PutUsage,
    StepReport,
    Usage,
    UsageChange,
)
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import CYCLES, DECISIONS

SLICE_SECONDS = 0.5  # how long the scheduler waits for a part of a cycle before other jobs get their turn
FIRST_SECONDS = 60.0  # after the start of the daemon, before a cycle [G27]
ATTEMPTS = 3  # at a step whose memories others change
ENTRIES_READ = 2_000  # of the history, for activity; more than that is activity

log = logging.getLogger("mnemo.lifecycle")


class CycleResult(NamedTuple):
    """A cycle and its operations, each with the name of its step; `texts`: of each, what its memories said before, None
    for one that it makes."""

    cycle: Cycle
    operations: Sequence[tuple[str, CycleOperation]]
    texts: Sequence[tuple[str | None, ...]]
    is_dry_run: bool = False


class _ConflictError(Exception):
    """Memories that a step was planned for are other ones by now."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(ids)
        self.ids = ids


class _CycleRun:
    """One cycle under way. `advance` carries out one step."""

    def __init__(
        self, store: Store, state: CycleState, cycle: Cycle, answered: Callable[[Planning, CycleState], StepPlan], *,
        room: int, is_dry_run: bool,
    ) -> None:  # fmt: skip
        """answered: the plan of a step, with its questions answered. room: for proposals."""
        self._store = store
        self._answered = answered
        self.state = state  # the memories as they are after the steps so far
        self._room = room
        self._is_dry_run = is_dry_run
        done = {report.name for report in cycle.steps}
        self._left = [step for step in STEPS if step.name not in done]
        self.cycle = cycle
        self._operations: list[tuple[str, CycleOperation]] = []
        self._texts: list[tuple[str | None, ...]] = []

    def result(self) -> CycleResult:
        """The cycle and its operations so far."""
        return CycleResult(self.cycle, self._operations, self._texts, self._is_dry_run)

    def report(self, progress: Progress) -> None:
        """Report how many steps of the cycle are done."""
        progress("steps of the cycle", len(STEPS) - len(self._left), len(STEPS))

    def advance(self) -> bool:
        """Carry out the next step; return whether there are more. Raises a Refusal where the daemon ends."""
        if not self._left:  # an interrupted cycle, the rest of which another version had
            cycle = replace(self.cycle, ended_at=self._store.now())
            ended = WriteResult((PutCycle(data=cycle),), None, CONSOLIDATE, cycle.id)
            self._store.transact(lambda _: ended, by=BY_LIFECYCLE.name, background=True).result()
            self.cycle = cycle
            return False
        step = self._left[0]
        began = time.monotonic()
        plan, skipped = self._planned(step)
        for attempt in range(ATTEMPTS):
            try:
                self._write(step, plan, skipped, began)
                break
            except _ConflictError as changed:
                self.state.refresh(changed.ids)
                plan, skipped = self._planned(step)
                if attempt == ATTEMPTS - 2:
                    plan, skipped = StepPlan(), "its memories were changed while it was planned"
        self._operations += [(step.name, each) for each in plan.operations]
        for operation in plan.operations:
            memories = map(self.state.memory, operation.ids)
            self._texts.append(tuple(memory.content if memory is not None else None for memory in memories))
        self.state.apply(plan.all_changes())
        self._room -= plan.counts.get("proposed", 0)
        del self._left[0]
        return bool(self._left)

    def _planned(self, step: CycleStep) -> tuple[StepPlan, str]:
        """The plan of a step, and why it is left out."""
        if step.needs_model is not None and not self.state.options.may_ask(step.needs_model):
            return StepPlan(), "no language model that is good enough"
        self.state.begin_step()
        plan = reviewed(self._answered(step.plan(self.state), self.state), self.state, self._room)
        changes = plan.all_changes()
        if len(changes) > CHANGES_PER_STEP:
            log.error("the step %s of a cycle makes %d changes", step.name, len(changes))
            return StepPlan(), "it makes too many changes"
        for change in changes:
            if isinstance(change, PutMemory):
                after = change.data
                sources = [each for each in map(self.state.memory, after.derived_from) if each is not None]
                if broken := violation(self.state.memory(after.id), after, sources, self.state.policy(after.namespace)):
                    log.error("the step %s of a cycle is left out: %s: %s", step.name, after.id, broken)
                    return StepPlan(), f"it breaks a rule: {broken}"
        return plan, plan.skipped

    def _write(self, step: CycleStep, plan: StepPlan, skipped: str, began: float) -> None:
        """Write the changes of a step and its report. Raises _ConflictError."""
        milliseconds = round((time.monotonic() - began) * 1000)
        changes = plan.all_changes()
        before = _before(self.state, changes)
        report = StepReport(
            name=step.name, counts=plan.report(), milliseconds=milliseconds, skipped=skipped,
            operations=tuple(OperationReport(action=each.action, ids=each.ids) for each in plan.operations),
            usages=_usage_changes(before, changes),
        )  # fmt: skip
        ended_at = self._store.now() if len(self._left) == 1 else 0
        cycle = replace(with_former_values(self.cycle, plan, self.state), ended_at=ended_at)
        cycle = replace(cycle, steps=(*cycle.steps, report))
        if not self._is_dry_run and (changes or ended_at):

            def decide(snapshot: Snapshot) -> WriteResult[None]:
                if others := _changed_since(snapshot, before, changes):
                    raise _ConflictError(others)
                record = (PutCycle(data=cycle), PutMeta(name=LAST_CYCLE, value=cycle.id))
                written = (_at_time(change, snapshot.now) for change in changes)
                return WriteResult((*written, *record), None, CONSOLIDATE, cycle.id)

            self._store.transact(decide, by=BY_LIFECYCLE.name, background=True).result()
        self.cycle = cycle


class Consolidation:
    """The service. `run_slice` is the job's; `run` blocks and may be called on any thread."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService, tasks: TaskRunner,
        topic_trees: TopicTrees, settings: Callable[[], LifecycleSettings], priority: QueryPriority,
        clock: Callable[[], float] = time.monotonic, policy: PolicyOf = own_policy,
    ) -> None:  # fmt: skip
        self.proposals = Proposals(store)
        self._store = store
        self._views = views
        self._indexing = indexing
        self._embedding = embedding
        self._tasks = tasks
        self._topic_trees = topic_trees
        self._settings = settings
        self._priority = priority
        self._clock = clock
        self._policy = policy
        self._is_closing = threading.Event()
        self._lock = threading.Lock()  # one step of one cycle at a time
        self._thread = ThreadPoolExecutor(1, "mnemo-lifecycle")
        self._current: Future[bool] | None = None
        self._run: _CycleRun | None = None  # the cycle under way
        self._is_wanted = False  # a cycle of the job is to start
        self._looked_at = self._clock() - self._interval() + FIRST_SECONDS

    def stop(self) -> None:
        """Have the step under way end soon; nothing of it is written."""
        self._is_closing.set()

    def close(self) -> None:
        """End the step under way."""
        self.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    # The job

    def is_due(self) -> bool:
        """Return whether a cycle is under way, was interrupted, or is to start: after activity, and the interval. One
        that has to wait for a quiet machine stays due."""
        if self._is_wanted or self._run is not None or self._current is not None:
            return True
        interval = self._interval()
        if not interval or self._clock() - self._looked_at < interval:
            return False
        self._looked_at = self._clock()
        last = self._last_cycle()
        self._is_wanted = (last is not None and not last.ended_at) or self._has_activity(last.seq if last else 0)
        return self._is_wanted

    def run_slice(self) -> bool:
        """Go on with the cycle, on a thread of its own; return whether there is more."""
        if self._current is None:
            self._current = self._thread.submit(self._advance)
        if not wait([self._current], SLICE_SECONDS).done:
            return True
        done, self._current = self._current, None
        return done.result()

    def _advance(self) -> bool:
        with self._lock:
            if self._run is None:
                if not self._is_wanted:  # a request was quicker
                    return False
                self._run = self._begun(CycleOptions(self._store.now(), merge=self._settings().merge))
            return self._advanced(self._run)

    # On request

    def run(
        self, namespace: str = "", *, is_dry_run: bool = False, merge: bool | None = None,
        progress: Progress = unreported,
    ) -> CycleResult:  # fmt: skip
        """Run a cycle, behind the one that is under way, or say what one would do now."""
        wanted = self._settings().merge if merge is None else merge
        options = CycleOptions(self._store.now(), namespace, wanted)
        if is_dry_run:
            progress("reading the memories", 0, 0)
            run = self._begun(options, is_requested=True, is_dry_run=True)
            run.report(progress)
            while run.advance():
                run.report(progress)
            return run.result()
        with self._lock:
            while self._run is not None:
                self._run.report(progress)
                self._advanced(self._run)
            while True:
                progress("reading the memories", 0, 0)
                self._run = run = self._begun(options._replace(now=self._store.now()), is_requested=True)
                run.report(progress)
                while self._advanced(run):
                    run.report(progress)
                if run.cycle.namespace == namespace:  # else it was another one, which had been interrupted
                    return run.result()

    def forecast(self) -> CycleForecast:
        """Return what a cycle of all namespaces would do now with every memory. The rules answer every question: the
        language model is not asked. Raises a Refusal where the daemon ends."""
        options = CycleOptions(self._store.now(), merge=self._settings().merge)
        run = self._begun(options, is_dry_run=True, asks_model=False)
        start = CycleStart.of(run.state)
        while run.advance():
            pass
        operations = (operation for _, operation in run.result().operations)
        return forecast(start, run.state, operations, self.proposals.read())

    def asks_model(self) -> bool:
        """Return whether a cycle may ask a language model, which may decide otherwise than the rules."""
        return any(self._tasks.may_ask(task) for task in (TRIAGE, GATE, RECONCILE, MERGE))

    def earliest_at(self) -> int | None:
        """The time in ms before which the job begins no cycle; None where it begins none at all."""
        interval = self._interval()
        if not interval:
            return None
        return self._store.now() + max(0, round((self._looked_at + interval - self._clock()) * 1000))

    def state(self, namespace: str = "") -> CycleState:
        """The memories as they are now, to plan what a person asks for."""
        options = CycleOptions(
            self._store.now(), namespace, self._settings().merge, may_ask=self._tasks.may_ask, policy=self._policy
        )
        return read_state(self._source(), self._views, self._embedding, self._indexing, options)

    def similarity(self, memory_ids: Sequence[str]) -> float | None:
        """The cosine of the first two of these memories; None where one has no vector."""
        with self._store.snapshot() as snapshot:
            rows = [snapshot.number(each) for each in memory_ids[:2]]
        serving = self._indexing.serving()
        if serving is None or len(rows) < 2:
            return None
        one, other = (serving.view.vectors_of(row) if row is not None else None for row in rows)
        if one is None or other is None:
            return None
        return round(float((one.astype(np.float32) @ other.astype(np.float32).T).max()), 3)

    def audit(self, namespace: str, by: str, progress: Progress = unreported) -> dict[str, int]:
        """Look through core and working memories of a namespace ("": of all), and propose what should be done; return
        the counts. Raises a Refusal where the daemon ends."""
        progress("reading the memories", 0, 0)
        state = self.state(namespace)
        self.proposals.remove_stale()
        room = max(0, PROPOSALS_MAX - self.proposals.count())
        plan = self._answered(plan_audit(state, min(CHANGES_PER_STEP, room)), state, progress)
        self._store.transact(lambda _: WriteResult(plan.changes, None, AUDIT), by=by).result()
        return dict(plan.counts)

    def carry_out(self, operation: CycleOperation, state: CycleState, by: str) -> tuple[str, int]:
        """Write an operation that was planned from a state; return the group and the seq of its change, by which it
        can be undone. Raises a Refusal if its memories were changed meanwhile."""
        before, group = _before(state, operation.changes), self._store.new_id()
        usages = _usage_changes(before, operation.changes)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            if _changed_since(snapshot, before, operation.changes):
                raise Refusal(409, "conflict", "its memories were changed meanwhile: look at it again")
            changes = (_at_time(change, snapshot.now) for change in operation.changes)
            written = [
                PutDecision(data=replace(change.data, group=group, usages=usages))
                if isinstance(change, PutDecision)
                else change
                for change in changes
            ]
            return WriteResult(written, None, REVIEW, group)

        return group, self._store.transact(decide, by=by).result().seq

    def history(self, limit: int, cursor: str) -> tuple[list[Cycle], str]:
        """The cycles so far, the last one first, behind the cursor; and where to go on ("" at the end).
        Raises a Refusal."""
        after = place_at(cursor)
        with self._store.snapshot() as snapshot:
            cycles = snapshot.scan_back(CYCLES, sys.maxsize)
            behind = (cycle for cycle in cycles if after is None or cycle.id < after[1])
            rows = list(itertools.islice(behind, limit + 1))
        last = rows[limit - 1] if len(rows) > limit else None
        return rows[:limit], "" if last is None else cursor_at((last.started_at, last.id))

    def _answered(
        self, planning: Planning, state: CycleState, progress: Progress = unreported, *, asks_model: bool = True
    ) -> StepPlan:
        """The plan, with every question answered: by the language model, or by the fallback of its task. Raises a
        Refusal where the daemon ends."""
        self._require_running()
        self._priority.yield_to_queries()
        if not asks_model:
            state.method = "rule"
        try:
            question: TaskQuestion = next(planning)
            answered = itertools.count()
            while True:
                progress("questions answered", next(answered), 0)
                if asks_model:
                    result = self._tasks.run(question.task, question.inputs, is_cancelled=self._is_closing.is_set)
                    self._require_running()
                    state.method = f"llm:{result.model}" if result.method == "llm" else "rule"
                    question = planning.send(result.answer)
                else:
                    question = planning.send(question.task.fallback(question.inputs))
        except StopIteration as end:
            plan: StepPlan = end.value
            return plan

    def _require_running(self) -> None:
        if self._is_closing.is_set():
            raise Refusal(
                503, "stopping", "the daemon is stopping; a cycle goes on after its next start", retry_after=1
            )

    def _source(self) -> StoreSource:
        return StoreSource(self._store, self._views, self._indexing, self._embedding, self._topic_trees, self._priority)

    def _begun(
        self, options: CycleOptions, *, is_requested: bool = False, is_dry_run: bool = False, asks_model: bool = True
    ) -> _CycleRun:
        """A cycle that starts now, or the one that was interrupted."""
        source = self._source()
        last = self._last_cycle()
        if last is not None and not last.ended_at and not is_dry_run:
            cycle = last
            options = options._replace(namespace=last.namespace)
        else:
            cycle = Cycle(
                id=self._store.new_id(), epoch=int(source.meta("epoch") or 0) + 1, started_at=options.now,
                seq=self._store.seq, namespace=options.namespace, is_requested=is_requested,
                metas=(MetaChange(name=LAST_CYCLE, before=source.meta(LAST_CYCLE)),),
            )  # fmt: skip
        options = options._replace(review=self._settings().review, policy=self._policy)
        if asks_model:
            options = options._replace(may_ask=self._tasks.may_ask)
        state = read_state(source, self._views, self._embedding, self._indexing, options)
        if cycle is last:
            with self._store.snapshot() as snapshot:
                rows = snapshot.entries(cycle.seq, ENTRIES_READ)
            state.mark_moved({memory_id for _, entry in rows if entry.group == cycle.id for memory_id in entry.ids})
        room = 0
        if options.review != "off":
            if not is_dry_run:
                self.proposals.remove_stale()
            room = max(0, PROPOSALS_MAX - self.proposals.count())
        return _CycleRun(
            self._store, state, cycle, partial(self._answered, asks_model=asks_model),
            room=room, is_dry_run=is_dry_run,
        )  # fmt: skip

    def _advanced(self, run: _CycleRun) -> bool:
        """Carry out the next step of the cycle under way; return whether there are more."""
        has_more = False
        try:
            has_more = run.advance()
        finally:
            if not has_more:  # it has ended, or failed and goes on behind its last report
                self._run = None
                self._is_wanted = False
                self._looked_at = self._clock()
        return has_more

    def _interval(self) -> float:
        return self._settings().interval_minutes * 60.0

    def _last_cycle(self) -> Cycle | None:
        with self._store.snapshot() as snapshot:
            name = snapshot.meta(LAST_CYCLE)
            return snapshot.get(CYCLES, name) if name else None

    def _has_activity(self, seen: int) -> bool:
        """Return whether a person, an agent or a notes folder has changed or recalled anything since a change."""
        with self._store.snapshot() as snapshot:
            count = 0
            for seq, entry in snapshot.entries_back(ENTRIES_READ):
                if seq <= seen:
                    return False
                if author_of(entry.by).is_activity:
                    return True
                count += 1
        return count == ENTRIES_READ


def _at_time(change: Change, at: int) -> Change:
    """The change with the time of its transaction, by which undo knows the edges and facts that it made."""
    match change:
        case PutEdge(data=edge):
            return PutEdge(data=replace(edge, at=at))
        case PutFact(data=fact):
            return PutFact(data=replace(fact, created_at=at))
        case _:
            return change


def _changed_since(
    snapshot: Snapshot, before: Mapping[str, tuple[Memory | None, Usage | None]], changes: Sequence[Change]
) -> list[str]:
    """The memories that are other ones by now, or have another usage, and those whose texts are not the ones that a
    decision among the changes holds for: a proposed text must not outlive a memory that is erased."""
    found = [each for each, (memory, usage) in before.items()
             if (snapshot.memory(each), snapshot.usage(each) or usage) != (memory, usage)]  # fmt: skip
    for decision in (change.data for change in changes if isinstance(change, PutDecision)):
        ids = ids_of(decision)
        texts = [memory.content for each in ids if (memory := snapshot.memory(each)) is not None]
        if len(texts) < len(ids) or decision_digest(texts) != decision.digest:
            found += ids
    return [*dict.fromkeys(found)]


def _usage_changes(
    before: Mapping[str, tuple[Memory | None, Usage | None]], changes: Sequence[Change]
) -> tuple[UsageChange, ...]:
    """Return the usages that the changes replace, each with its replacement."""
    written = [change.data for change in changes if isinstance(change, PutUsage)]
    return tuple(
        UsageChange(before=usage, after=after) for after in written if (usage := before[after.id][1]) is not None
    )


def _before(state: CycleState, changes: Sequence[Change]) -> dict[str, tuple[Memory | None, Usage | None]]:
    """The memories that the changes touch, and their usage, as the state has them before."""
    ids = dict.fromkeys(change.data.id for change in changes if isinstance(change, PutMemory | PutUsage))
    memories = {each: state.memory(each) for each in ids}
    return {each: (memory, state.usage(memory) if memory is not None else None) for each, memory in memories.items()}


ID_DIGITS_MIN = 8


class ReviewQueue:
    """The service. Its methods run on a worker thread."""

    def __init__(self, store: Store, consolidation: Consolidation) -> None:
        self._store = store
        self._consolidation = consolidation

    def proposals(self, wanted: Callable[[Memory], bool] = lambda _: True) -> list[Proposal]:
        """The proposals whose first memory is wanted, the oldest first."""
        waiting = sorted(self._consolidation.proposals.read(), key=lambda each: (each.at, proposal_id(each)))
        with self._store.snapshot() as snapshot:
            found = [read_proposal(snapshot, each) for each in waiting]
        return [each for each in found if each.memories and wanted(each.memories[0])]

    def find(self, text: str) -> Proposal:
        """The proposal with this id, or with 8 or more digits of its beginning. Raises a Refusal."""
        found = [each for each in self.proposals() if each.id.startswith(text)] if len(text) >= ID_DIGITS_MIN else []
        if len(found) != 1:
            raise Refusal(404, "not_found", f"there is no proposal {text[:32]!r}", field="id")
        return found[0]

    def approve(self, text: str, new_text: str | None, by: str, *, is_forced: bool = False) -> VerdictAnswer:
        """Carry out a proposal, with another text where one is given. Raises a Refusal: 404 for none, 409 where a text
        was changed since, 422 for a text that loses or adds something, unless it is forced."""
        proposal = self.find(text)
        if proposal.stale:
            raise Refusal(409, "conflict", proposal.stale)
        if new_text is not None:
            if not proposal.decision.text:
                raise Refusal(422, "refused", f"`{proposal.decision.action}` writes no text to edit", field="text")
            texts = [each.content for each in proposal.memories]
            if not is_forced and (reason := rejection_of(new_text, texts) or loss_of(texts, new_text)):
                raise Refusal(422, "refused", f"{reason}; send it with `force` if that is meant", field="text")
        state = self._consolidation.state()
        if not is_unchanged(proposal.decision, [state.memory(each) for each in ids_of(proposal.decision)]):
            raise Refusal(409, "conflict", STALE)
        state.method = "said" if new_text is not None else proposal.decision.method or state.method
        operation = approved_operation(state, proposal.decision, new_text or proposal.decision.text)
        group, seq = self._consolidation.carry_out(operation, state, by)
        return VerdictAnswer(id=proposal.id, verdict="approve", ids=list(operation.ids), group=group, seq=seq)

    def reject(self, text: str, by: str) -> VerdictAnswer:
        """Reject a proposal, which is not made again with these texts. Raises a Refusal."""
        proposal = self.find(text)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            decision = proposal.decision
            if snapshot.get(DECISIONS, decision.memory, decision.action, decision.other) != decision:
                raise Refusal(409, "conflict", "it was decided on meanwhile, or a memory of it is gone")
            return WriteResult([PutDecision(data=rejected(decision, snapshot.now))], None, REVIEW)

        seq = self._store.transact(decide, by=by).result().seq
        return VerdictAnswer(id=proposal.id, verdict="reject", seq=seq)
