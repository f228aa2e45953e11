"""Undo of a cycle: what its record keeps for it, and the changes that put back what has no versions. SPEC 9.1

The memories get their versions of before, as in every undo. Decisions and meta values have none: the record of the
cycle keeps them. An operation that a person took back counts as rejected: it is not made again with these texts.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mnemo_core.lifecycle.consolidation import review
from mnemo_core.lifecycle.consolidation.cycle import StepPlan
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_store.records import (
    Change,
    Cycle,
    DecisionChange,
    DropDecision,
    LifecycleAction,
    LifecycleDecision,
    MetaChange,
    OperationReport,
    PutCycle,
    PutDecision,
    PutMeta,
    decision_digest,
)

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
    rejected = dict(_rejections(cycle, text_after, now))
    for made in cycle.decisions:
        key = (made.memory, made.action, made.other)
        standing = decision_at(*key)
        if key in rejected or standing is None or standing.at > max(cycle.ended_at, cycle.started_at):
            continue  # a person has decided since
        if standing.status == "done":
            rejected[key] = review.rejected(standing, now)
        elif made.before is not None:
            changes.append(PutDecision(data=made.before))
        else:
            changes.append(DropDecision(memory=key[0], action=key[1], other=key[2]))
    return [*changes, *(PutDecision(data=each) for each in rejected.values())]


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
