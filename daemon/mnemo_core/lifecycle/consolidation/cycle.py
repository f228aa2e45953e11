"""The steps of a cycle of consolidation, as a type, and the rules that no step may break. SPEC 9.2, 9.4, 17

A step is a pure rule: from the memories as they are it plans operations. It asks language-model tasks by yielding
questions, so that a rule neither waits nor knows who answers. To add a step, write its `plan` in the module of its
subject and add a row to `steps.STEPS`. `violation` holds whatever a step or a language model decides.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from mnemo_core.ingest.memory_cues import NEVER_CORE_TAGS, NEVER_CORE_TRUSTS
from mnemo_core.ingest.policies import OWN_POLICY, Policy
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_store.records import LAYERS, OWN_TRUSTS, Change, LifecycleAction, Memory, State

CHANGES_PER_STEP = 400  # in the one transaction of a step; what does not fit waits for the next cycle


class TaskQuestion(NamedTuple):
    """A case for a language-model task. The step gets the answer of the model, or of the task's fallback."""

    task: AnyTask
    inputs: TaskInputs


class CycleOperation(NamedTuple):
    """A change of one or a few memories that is made as a whole. `ids`: the memories that it is about, what stays or is
    made first. `text`: what the memory says afterwards, where that is new."""

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


DISTILLED = "distilled"  # the tag of a note that a status was made from, and of the entry of a topic

REACHED: dict[State, frozenset[State]] = {
    "active": frozenset({"active", "archived", "compressed", "superseded"}),
    "archived": frozenset({"archived", "active"}),
    "compressed": frozenset({"compressed"}),
    "superseded": frozenset({"superseded"}),
    "discarded": frozenset({"discarded"}),
    "trashed": frozenset({"trashed"}),
}
"""The states that a step may bring a memory to, by the state that it has."""


def violation(before: Memory | None, after: Memory, sources: Sequence[Memory] = (), policy: Policy = OWN_POLICY) -> str:
    """The rule that a new version of a memory breaks; "" for none. `before` is None for a memory that a step makes, and
    `sources` are those that it is derived from."""
    never_core = NEVER_CORE_TAGS if before is not None else NEVER_CORE_TAGS - {DISTILLED}
    if after.layer == "core" and is_never_core(after, never_core) and (before is None or before.layer != "core"):
        return "the memory must not enter core"
    if before is None:
        if after.layer == "core" and all(source.layer != "core" for source in sources):
            return "a new memory is in core, and none of its sources is"
        if after.layer == "core" and brings_into_core(sources):
            return "a new memory is in core, and one of its sources must not enter core"
        return "" if after.state == "active" else "a new memory is not active"
    if before.managed:
        return "a chunk of a note is its file's"
    if before.pinned and (before.content, before.state) != (after.content, after.state):
        return "the memory is pinned"
    is_trashed = after.state == "trashed" and before.layer == "buffer" and policy.evicted == "trashed"
    if after.state not in REACHED[before.state] and not is_trashed:
        return f"a memory that is {before.state} does not become {after.state}"
    before_at, after_at = LAYERS.index(before.layer), LAYERS.index(after.layer)
    if after_at > before_at + 1:
        return "a layer is skipped"
    if after_at < before_at and (before.layer, after.layer) != ("core", "working"):
        return f"a memory does not go from {before.layer} to {after.layer}"
    if after.version != before.version + 1:
        return "it is not the next version"
    return ""


def is_never_core(memory: Memory, tags: Set[str] = NEVER_CORE_TAGS) -> bool:
    """Return whether a memory can never be promoted to core. tags: those that keep it out. [G15]"""
    return memory.kind == "working" or memory.trust in NEVER_CORE_TRUSTS or bool(tags & {*memory.tags})


def brings_into_core(sources: Sequence[Memory]) -> bool:
    """Return whether a text made of these sources, which takes the highest of their layers, would bring one into core
    that can never be promoted to it, or that no person wrote."""
    in_core = [source.layer == "core" for source in sources]
    return any(in_core) and any(
        is_never_core(source) or source.trust not in OWN_TRUSTS
        for source, is_core in zip(sources, in_core, strict=True)
        if not is_core
    )
