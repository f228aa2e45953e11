"""The task `audit`: operations proposed for a list of memories of core and working. SPEC 12.2

An operation names memories by their number and holds no text. The memories share one prompt, so one of them may speak
of another: each operation is therefore checked against the words and facts of its own memories, and a person confirms
the plan before anything is done.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mnemo_core.ingest.memory_cues import MemoryFacts, cues_of, is_temporary
from mnemo_core.llm.reconcile import holds, reconcile_by_rule
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.llm.triage import TriageAnswer, validate_triage

MEMORIES_MAX = 12  # of one prompt
OPERATIONS_MAX = 8

_Number = Annotated[int, Meta(ge=1, le=MEMORIES_MAX)]


class AuditOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation on a memory: `other` is the one it is merged with, else 0; `tag` what it is tagged with."""

    action: Literal["delete", "demote", "merge", "retag"]
    memory: _Number
    other: Annotated[int, Meta(ge=0, le=MEMORIES_MAX)] = 0
    tag: Literal["", "ephemeral", "lesson"] = ""


class AuditAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The proposed operations; each memory is in one at most."""

    operations: Annotated[tuple[AuditOperation, ...], Meta(max_length=OPERATIONS_MAX)]


def validate_audit(answer: AuditAnswer, inputs: TaskInputs) -> str:
    """Return why a plan is rejected; "" if every operation of it is accepted."""
    numbers = [number for each in answer.operations for number in (each.memory, each.other) if number]
    if max(numbers, default=0) > min(len(inputs.sources), MEMORIES_MAX):
        return f"there is no memory {max(numbers)}"
    if len(set(numbers)) < len(numbers):
        return "a memory is in two operations"
    return next((reason for each in answer.operations if (reason := _rejection_of(each, inputs))), "")


def audit_by_rule(inputs: TaskInputs) -> AuditAnswer:
    """Propose what the rules are sure of: delete small talk, merge what is said twice, demote what core does not admit,
    tag lessons and what holds for a while."""
    found: list[AuditOperation] = []
    used: set[int] = set()
    for each in _proposed(inputs):
        numbers = {each.memory, each.other} - {0}
        if used.isdisjoint(numbers) and len(found) < OPERATIONS_MAX and not _rejection_of(each, inputs):
            found.append(each)
            used |= numbers
    return AuditAnswer(tuple(sorted(found, key=lambda operation: operation.memory)))


def _proposed(inputs: TaskInputs) -> Iterator[AuditOperation]:
    """Operations in the order of their weight; not all of them are accepted."""
    count = min(len(inputs.sources), MEMORIES_MAX)
    memories = {number: _one(inputs, number) for number in range(1, count + 1)}
    cues = {number: cues_of(*memory.judged) for number, memory in memories.items()}
    for number, memory in memories.items():
        facts = memory.facts_of(1)
        if facts.category == "crumb" and not (facts.access_count or facts.repetition_count):
            yield AuditOperation("delete", number)
    for one, other in combinations(memories, 2):
        sources = tuple(inputs.sources[number - 1].strip() or "-" for number in (one, other))
        if (
            reconcile_by_rule(TaskInputs(sources, facts=(inputs.facts_of(one), inputs.facts_of(other)))).relation
            == "absorb"
        ):
            yield AuditOperation("merge", one, other)
    for number, memory in memories.items():
        if cues[number].barred:
            yield AuditOperation("demote", number)
        if is_temporary(memory.sources[0]):
            yield AuditOperation("retag", number, tag="ephemeral")
        if cues[number].strong == "lesson":
            yield AuditOperation("retag", number, tag="lesson")


def _rejection_of(operation: AuditOperation, inputs: TaskInputs) -> str:
    """The reason why an operation must not be proposed; "" if it may."""
    memory = _one(inputs, operation.memory)
    text, facts, cues = memory.sources[0], memory.facts_of(1), cues_of(*memory.judged)
    if (operation.action == "merge") != bool(operation.other) or (operation.action == "retag") != bool(operation.tag):
        return "an operation has what belongs to another one"
    match operation.action:
        case "retag":
            tag = operation.tag
            if tag in facts.tags:
                return "the memory has the tag"
            speaks = is_temporary(text) if tag == "ephemeral" else "lesson" in cues.weak
            return "" if speaks else f"no words of the memory speak for the tag {tag}"
        case "merge":
            other = inputs.sources[operation.other - 1]
            if facts.pinned or inputs.facts_of(operation.other).pinned:
                return "a pinned memory is left alone"
            return "" if holds(text, other) or holds(other, text) else "each has what the other one lacks"
        case _ if facts.pinned:
            return "a pinned memory is left alone"
        case "demote":
            if facts.layer != "core":
                return "only a memory of core is demoted"
            return "the memory has a strong cue for core" if cues.strong else ""
        case "delete":
            return validate_triage(TriageAnswer("archive"), memory)


def _one(inputs: TaskInputs, number: int) -> TaskInputs:
    """The inputs of one memory by itself; a blank one stands for nothing that could be judged."""
    return TaskInputs((inputs.sources[number - 1].strip() or "-",), facts=(inputs.facts_of(number),))


_CORE, _WORKING = MemoryFacts(layer="core"), MemoryFacts(layer="working")
_RULE = ("The greenhouse door must be closed at night.", _CORE)
_TALK = ("so anyway, there we are again, and on it goes", MemoryFacts(layer="working", category="crumb"))
_FOR_NOW = ("For now the parcels go to the neighbour.", _CORE)
_TENT = ("The tent is in the attic.", _WORKING), ("The tent is in the attic, under the skis.", _WORKING)


def _probe(*memories: tuple[str, MemoryFacts], right: AuditOperation | None) -> Probe:
    texts, facts = zip(*memories, strict=True)
    expected = (right,) if right else ()
    return Probe(TaskInputs(texts, facts=facts), lambda answer: answer.operations == expected)


AUDIT = LlmTask(
    site="audit",
    instruction=(
        "The sources are memories of an assistant, each with its layer. Propose operations by the numbers of the "
        "sources, none for a memory that is fine. merge: memory and other say the same. demote: a memory of core that "
        "holds for a while only. delete: small talk that will never matter. retag: tag ephemeral for what holds for a "
        "while, lesson for an insight from experience. other is 0 but for merge, and tag is empty but for retag."
    ),
    answer=AuditAnswer, validate=validate_audit, fallback=audit_by_rule, max_tokens=300,
    probes=(
        _probe(_RULE, *_TENT, right=AuditOperation("merge", 2, 3)),
        _probe(_FOR_NOW, _RULE, right=AuditOperation("demote", 1)),
        _probe(_RULE, _FOR_NOW, right=AuditOperation("demote", 2)),
        _probe(_RULE, _TENT[0], _TALK, right=AuditOperation("delete", 3)),
        _probe(_RULE, _TENT[0], right=None),
    ),
)  # fmt: skip
