"""The steps of a cycle of consolidation, as a type. SPEC 9.2

A step is a pure rule: from the memories as they are it plans operations. It asks language-model tasks by yielding
questions, so that a rule neither waits nor knows who answers. To add a step, write its `plan` in the module of its
subject and add a row to `steps.STEPS`.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_store.records import Change, LifecycleAction

CHANGES_PER_STEP = 400  # in the one transaction of a step; what does not fit waits for the next cycle


class TaskQuestion(NamedTuple):
    """A case for a language-model task. The step gets the answer of the model, or of the task's fallback."""

    task: AnyTask
    inputs: TaskInputs


class CycleOperation(NamedTuple):
    """A change of one or a few memories that is made as a whole.

    `ids`: the memories that it is about, what stays or is made first. `text`: what the memory says afterwards, where
    that is new.
    """

    action: LifecycleAction
    ids: tuple[str, ...]
    changes: tuple[Change, ...]
    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class StepPlan:
    """The operations of a step in their order, changes that are no operation, and counts beside those of the
    operations."""

    operations: Sequence[CycleOperation] = ()
    changes: Sequence[Change] = ()  # decisions that were made and tags that only the lifecycle reads
    counts: Mapping[str, int] = field(default_factory=dict)
    skipped: str = ""  # why the step was not carried out

    def report(self) -> dict[str, int]:
        """The counts of the report: of each action, and the others."""
        return {**Counter(each.action for each in self.operations), **{k: n for k, n in self.counts.items() if n}}

    def all_changes(self) -> list[Change]:
        """Every change of the step, in order."""
        return [change for each in self.operations for change in each.changes] + list(self.changes)


def first_fitting(operations: Sequence[CycleOperation], room: int = CHANGES_PER_STEP) -> list[CycleOperation]:
    """The first of these operations, as many as have room for their changes."""
    sizes = accumulate(len(each.changes) for each in operations)
    return [each for each, size in zip(operations, sizes, strict=True) if size <= room]


Planning = Generator[TaskQuestion, Any, StepPlan]


class CycleStep(NamedTuple):
    """A step of the cycle. `needs_model`: the task without whose language model it is skipped. SPEC 12.1"""

    name: str
    summary: str
    plan: Callable[[CycleState], Planning]
    needs_model: AnyTask | None = None
