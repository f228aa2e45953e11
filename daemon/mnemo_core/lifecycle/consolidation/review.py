"""Review of operations by a person, before they are made and after: proposals, rejections, undo. SPEC 9.1, 9.7

An operation that has to be approved becomes a proposal: a decision with the memories, the digest of their texts, and
the text that would be written. It is not proposed again while it waits, nor once it was rejected, until a text changes.

When a cycle is undone, the memories get their versions of before, as in every undo. Decisions and meta values have
none: the record of the cycle keeps them. An operation that a person took back counts as rejected: it is not made again
with these texts.

A person can also move a memory: to another layer, to the archive and back, to another namespace (9.4, 2.4).
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from mnemo_core.ingest import mutations
from mnemo_core.ingest.mutations import DecisionKey
from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, StepPlan
from mnemo_core.lifecycle.consolidation.replacing import (
    absorb_operation,
    distil_operation,
    merge_operation,
    supersede_operation,
)
from mnemo_core.lifecycle.consolidation.state import CycleState, Review, moved, retagged
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    LAYERS,
    Change,
    Cycle,
    DecisionChange,
    DropDecision,
    Fact,
    Layer,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    MetaChange,
    PutDecision,
    PutMemory,
    PutMeta,
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


def first_open(state: CycleState, action: LifecycleAction, rows: Iterable[int]) -> list[Memory]:
    """The memories in the first of these rows whose action a person has not rejected, at most CHANGES_PER_STEP."""
    memories = (memory for row in rows for memory in state.records([row]))
    return list(islice((memory for memory in memories if not was_rejected(state, action, memory)), CHANGES_PER_STEP))


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
    state: CycleState, action: LifecycleAction, subject: Sequence[Memory], reason: str, *, text: str = "",
    tag: str = "", method: str = "",
) -> PutDecision:  # fmt: skip
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
        case "merge" if not others:  # the words of another version of the memory
            after = replace(first, content=text, version=first.version + 1, modified_at=state.now)
            operation = CycleOperation(action, (first.id,), (PutMemory(data=after),), reason)
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


class MoveTarget(NamedTuple):
    """The place where a memory is to be; None leaves it as it is."""

    layer: Layer | None = None
    namespace: str | None = None
    is_archived: bool | None = None


def move_memory(memory: Memory, target: MoveTarget, now: int) -> Memory:
    """The memory in its new place, as its next version; the same where it is there already."""
    after = moved(memory, target.layer) if target.layer not in (None, memory.layer) else memory
    if target.namespace is not None:
        after = replace(after, namespace=target.namespace)
    if target.is_archived is not None:
        after = replace(after, state="archived" if target.is_archived else "active")
    return memory if after == memory else replace(after, version=memory.version + 1, modified_at=now)


def move_facts(facts: Sequence[Fact], namespace: str) -> list[Fact]:
    """The facts that a memory states, where it is in a namespace now: those that are in another one."""
    return [replace(each, namespace=namespace) for each in facts if each.namespace != namespace]


def standing_decisions(before: Memory, after: Memory, now: int, group: str) -> list[LifecycleDecision]:
    """The decisions by which no cycle takes a move back, as long as the text is the same."""
    actions: list[LifecycleAction] = []
    if before.layer != after.layer:
        is_up = LAYERS.index(after.layer) > LAYERS.index(before.layer)
        actions += ("demote", "archive") if is_up else ("promote",)
    if before.state != after.state:
        actions.append("activate" if after.state == "archived" else "archive")
    digest = decision_digest([after.content])
    return [
        LifecycleDecision(
            memory=after.id, action=action, other=after.id, status="rejected", at=now, digest=digest, group=group
        )
        for action in dict.fromkeys(actions)
    ]
