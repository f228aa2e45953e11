"""Moves of a memory by a person: to another layer, to the archive and back, to another namespace. SPEC 9.4, 2.4"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mnemo_core.lifecycle.consolidation.state import moved
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import LAYERS, Fact, Layer, LifecycleAction, LifecycleDecision, Memory


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
