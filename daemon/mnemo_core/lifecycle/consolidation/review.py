"""Review of operations by a person, before they are made and after: proposals, rejections, undo. SPEC 9.1, 9.7

An operation that has to be approved becomes a proposal: a decision with the memories, the digest of their texts, and
the text that would be written. It is not proposed again while it waits, nor once it was rejected, until a text changes.

When a cycle is undone, the memories get their versions of before, as in every undo. Decisions and meta values have
none: the record of the cycle keeps them. An operation that a person took back counts as rejected: it is not made again
with these texts.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from mnemo_core.ingest import mutations
from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, StepPlan
from mnemo_core.lifecycle.consolidation.joining.replacing import (
    absorb_operation,
    distil_operation,
    merge_operation,
    supersede_operation,
)
from mnemo_core.lifecycle.consolidation.state import CycleState, Review, moved, retagged
from mnemo_store.records import (
    Change,
    Cycle,
    DecisionChange,
    DropDecision,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    MetaChange,
    OperationReport,
    PutCycle,
    PutDecision,
    PutMemory,
    PutMeta,
    decision_digest,
)

PROPOSALS_MAX = 500  # that wait at once
STATUS_TAG = "auto-distilled"  # of a status of a project, which a newer one replaces


def reviewed(plan: StepPlan, state: CycleState, room: int) -> StepPlan:
    """The plan without what a person rejected, and with proposals, at most `room`, for what has to be approved."""
    operations: list[CycleOperation] = []
    proposals: list[Change] = []
    counts = dict.fromkeys(("rejected before", "waiting", "proposed", "queue full"), 0)
    for operation in plan.operations:
        subject = state.subject(operation.ids)
        known = decided(state, operation.action, subject)
        if known is not None and is_rejected(known):
            counts["rejected before"] += 1
        elif not needs_approval(operation, state, state.options.review):
            operations.append(operation)
        elif known is not None and known.status == "proposed":
            counts["waiting"] += 1
        elif len(proposals) == room:
            counts["queue full"] += 1
        else:
            counts["proposed"] += 1
            written = (each.data for each in operation.changes if isinstance(each, PutMemory))
            new = next((each for each in written if each.content == operation.text), None)
            is_new = new is not None and all(new.content != each.content for each in subject)
            text, method = (new.content, new.method) if is_new and new is not None else ("", "")
            proposals.append(proposal(state, operation.action, subject, operation.reason, text=text, method=method))
    return StepPlan(operations, [*plan.changes, *proposals], {**plan.counts, **counts}, plan.skipped)


def decided(state: CycleState, action: LifecycleAction, subject: Sequence[Memory]) -> LifecycleDecision | None:
    """The decision on an action with the texts that the memories have; a pair may be decided on in either order."""
    found = state.decision(action, *subject) if subject else None
    return state.decision(action, *reversed(subject)) if found is None and len(subject) == 2 else found


def is_rejected(decision: LifecycleDecision) -> bool:
    """Return whether a person has rejected something; the gate leaves a tag where it does."""
    return decision.status == "rejected" and not decision.tag


def was_rejected(state: CycleState, action: LifecycleAction, memory: Memory) -> bool:
    """Return whether a person has rejected an action on a memory with its present text, or took it back."""
    decision = state.decision(action, memory)
    return decision is not None and is_rejected(decision)


def first_open(state: CycleState, action: LifecycleAction, rows: Iterable[int], limit: int) -> list[Memory]:
    """The memories in the first of these rows on which a person has not rejected an action, at most `limit`."""
    memories = (memory for row in rows for memory in state.records([row]))
    return list(islice((memory for memory in memories if not was_rejected(state, action, memory)), limit))


def needs_approval(operation: CycleOperation, state: CycleState, review: Review) -> bool:
    """Return whether a person has to approve an operation: one that lifts a memory to core, or, if all are reviewed,
    one that hides a memory behind another or rewrites it. A status of a project may replace the former one."""
    if review == "off":
        return False
    versions = [(state.memory(each.data.id), each.data) for each in operation.changes if isinstance(each, PutMemory)]
    for before, after in versions:
        if before is None:
            continue
        if after.layer == "core" and before.layer != "core":
            return True
        is_hidden = after.state == "superseded" and before.state != "superseded" and STATUS_TAG not in before.tags
        if review == "all" and (is_hidden or after.content != before.content):
            return True
    return False


def proposal(
    state: CycleState,
    action: LifecycleAction,
    subject: Sequence[Memory],
    reason: str,
    *,
    text: str = "",
    tag: str = "",
    method: str = "",
) -> PutDecision:
    """The change that proposes an action on these memories; what would stay is the first of them."""
    first, last = subject[0], subject[-1]
    return PutDecision(data=LifecycleDecision(
        memory=first.id, action=action, other=last.id, status="proposed", at=state.now, reason=reason, text=text,
        digest=decision_digest([each.content for each in subject]), more=tuple(each.id for each in subject[1:-1]),
        tag=tag, method=method,
    ))  # fmt: skip


def ids_of(decision: LifecycleDecision) -> list[str]:
    """The memories that a decision is on, in the order of its digest."""
    return [*dict.fromkeys((decision.memory, *decision.more, decision.other))]


def rejected(decision: LifecycleDecision, now: int) -> LifecycleDecision:
    """The decision of a person against an operation that is proposed, or that was carried out and is undone."""
    return replace(decision, status="rejected", at=now, text="", tag="", group="", usages=())


def is_unchanged(decision: LifecycleDecision, memories: Sequence[Memory | None]) -> bool:
    """Return whether the memories of a decision are active and have the texts that it holds for."""
    texts = [each.content for each in memories if each is not None and each.state == "active"]
    return len(texts) == len(memories) and decision.digest == decision_digest(texts)


def archive(memory: Memory, reason: str) -> CycleOperation:
    """The operation that archives a memory, in its layer and with the time of its last change."""
    after = replace(memory, version=memory.version + 1, state="archived")
    return CycleOperation("archive", (memory.id,), (PutMemory(data=after),), reason)


def approved_operation(state: CycleState, decision: LifecycleDecision, text: str) -> CycleOperation:
    """The operation that a person approves, on the memories as they are now. `text`: the new one, if there is one."""
    first, *others = state.subject(ids_of(decision))
    action, reason = decision.action, decision.reason
    match action:
        case "merge":
            operation = merge_operation(state, first, others[0], text or first.content, reason)
        case "supersede":
            operation = supersede_operation(state, first, others[0], text or first.content, reason)
        case "absorb":
            operation = absorb_operation(state, first, others, reason)
        case "distil":
            operation = distil_operation(state, [first, *others], text, reason)
        case "delete":
            operation = CycleOperation(action, (first.id,), mutations.move_to_trash(first, reason, state.now), reason)
        case "archive":
            operation = archive(first, reason)
        case "tag":
            after = retagged(first, tuple(dict.fromkeys((*first.tags, decision.tag))))
            operation = CycleOperation(action, (first.id,), (PutMemory(data=after),), reason)
        case _:
            after = moved(first, "working" if action == "demote" else "core")
            operation = CycleOperation(action, (first.id,), (PutMemory(data=after),), reason)
    done = replace(decision, status="done", at=state.now, text="", tag="")
    return operation._replace(changes=(*operation.changes, PutDecision(data=done)))


DecisionKey = tuple[str, LifecycleAction, str]


def with_former_values(cycle: Cycle, plan: StepPlan, state: CycleState) -> Cycle:
    """The record of a cycle with what a step, which is not applied to the state yet, replaces."""
    decisions = {(each.memory, each.action, each.other): each for each in cycle.decisions}
    metas = {each.name: each for each in cycle.metas}
    for change in plan.all_changes():
        match change:
            case PutDecision(data=made):
                _keep_decision(decisions, (made.memory, made.action, made.other), state)
            case DropDecision(memory=one, action=action, other=other):
                _keep_decision(decisions, (one, action, other), state)
            case PutMeta(name=name):
                metas.setdefault(name, MetaChange(name=name, before=state.meta(name)))
            case _:
                pass
    return replace(cycle, decisions=tuple(decisions.values()), metas=tuple(metas.values()))


def _keep_decision(kept: dict[DecisionKey, DecisionChange], key: DecisionKey, state: CycleState) -> None:
    if key not in kept:
        before = state.decision_at(*key)
        before = None if before is None or before.status == "proposed" else replace(before, text="")
        kept[key] = DecisionChange(memory=key[0], action=key[1], other=key[2], before=before)


def undo_changes(
    cycle: Cycle,
    now: int,
    decision_at: Callable[[str, LifecycleAction, str], LifecycleDecision | None],
    text_after: Callable[[str], str | None],
    *,
    is_last: bool,
) -> list[Change]:
    """The changes that take back what has no versions. `text_after`: what a memory says once the cycle is undone, None
    of one that the cycle made. `is_last`: no cycle that stands came after it; else the epoch and the like stay."""
    changes: list[Change] = [PutCycle(data=replace(cycle, undone_at=now))]
    changes += [PutMeta(name=each.name, value=each.before) for each in cycle.metas if is_last]
    rejections = dict(_rejections(cycle, text_after, now))
    for made in cycle.decisions:
        key = (made.memory, made.action, made.other)
        standing = decision_at(*key)
        if key in rejections or standing is None or standing.at > max(cycle.ended_at, cycle.started_at):
            continue  # a person has decided since
        if standing.status == "done":
            rejections[key] = rejected(standing, now)
        elif made.before is not None:
            changes.append(PutDecision(data=made.before))
        else:
            changes.append(DropDecision(memory=key[0], action=key[1], other=key[2]))
    return [*changes, *(PutDecision(data=each) for each in rejections.values())]


def _rejections(
    cycle: Cycle, text_after: Callable[[str], str | None], now: int
) -> Iterable[tuple[DecisionKey, LifecycleDecision]]:
    """The decisions by which the operations of a cycle are not made again."""
    for operation in (operation for step in cycle.steps for operation in step.operations):
        texts = {each: text for each in operation.ids if (text := text_after(each)) is not None}
        if texts:
            yield rejection(operation, texts, now)


def rejection(operation: OperationReport, texts: dict[str, str], now: int) -> tuple[DecisionKey, LifecycleDecision]:
    """The decision of a person that an operation is not made with these texts of memories, which were there before."""
    first, *between = texts
    last = between.pop() if between else first
    decision = LifecycleDecision(
        memory=first, action=operation.action, other=last, status="rejected", at=now, more=tuple(between),
        digest=decision_digest([*texts.values()]),
    )  # fmt: skip
    return (first, operation.action, last), decision
