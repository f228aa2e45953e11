"""The changes that take back what a cycle of consolidation did besides its memories. SPEC 9"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    Change,
    Cycle,
    DropDecision,
    LifecycleAction,
    LifecycleDecision,
    OperationReport,
    PutCycle,
    PutDecision,
    PutMeta,
)

DecisionKey = tuple[str, LifecycleAction, str]  # memory, action, other


def rejected(decision: LifecycleDecision, now: int) -> LifecycleDecision:
    """The decision of a person against an operation that is proposed, or that was carried out and is undone."""
    return replace(decision, status="rejected", at=now, text="", tag="", group="", usages=())


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
