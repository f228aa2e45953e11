"""Audit: core and working memories looked through on request, and what is proposed for them. SPEC 9.7

Memories near each other are shown to the task together, 12 at a time. Everything found is a proposal: a person decides.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.consolidation.cycle import Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.pairs import is_decided, is_kept_apart
from mnemo_core.lifecycle.consolidation.review import decided, proposal
from mnemo_core.lifecycle.consolidation.state import DAY_MS, CycleState
from mnemo_core.llm.audit import AUDIT, MEMORIES_MAX, AuditOperation
from mnemo_core.llm.reconcile import holds
from mnemo_core.similarity.thresholds import Thresholds
from mnemo_store.records import TRUSTS, Change, LifecycleAction, Memory, PutMeta

AUDITED_MAX = 20 * MEMORIES_MAX  # memories that one audit looks through; the next one goes on behind them
PLACE = "lifecycle_audit_at"
OVER_MS = 14 * DAY_MS  # after the day of an appointment, from which it is proposed to archive it
ACTIONS: dict[str, LifecycleAction] = {"delete": "delete", "demote": "demote", "merge": "merge", "retag": "tag"}
REASONS = {
    "delete": "small talk that nothing has used",
    "demote": "it is not for core",
    "merge": "one says all that the other says",
    "retag": "its words speak for the tag",
    "supersede": "a newer memory perhaps says another value",
    "absorb": "both say the same",
    "archive": "its day is over",
}


def plan_audit(state: CycleState, room: int) -> Planning:
    """Plan the proposals, at most `room`, for the memories behind the place where the last audit ended."""
    rows, left = _next_rows(state)
    proposals: list[Change] = []
    for memories in _groups(state, rows):
        answer = yield TaskQuestion(AUDIT, state.inputs(*memories))
        for operation in answer.operations:
            if len(proposals) < room:
                proposals += _proposal(state, operation, memories)
    found = (each for row in rows for memory in state.records([row]) for each in _by_reading(state, memory))
    proposals += islice(found, max(0, room - len(proposals)))
    behind = PutMeta(name=PLACE, value=str(int(rows[-1]) + 1 if len(rows) else 0))
    counts = {"reviewed": len(rows), "left": left, "proposed": len(proposals)}
    return StepPlan(changes=[*proposals, behind], counts=counts)


def _by_reading(state: CycleState, memory: Memory) -> Iterator[Change]:
    """Propose operations that need no task: a newer memory replaces this one or repeats it, or its day is over."""
    for edge in state.edges(memory.id):
        newer = state.memory(edge.source) if edge.target == memory.id else None
        if newer is None or newer.state != "active" or not (edge.slot or edge.relation == "repeats"):
            continue
        if is_kept_apart(memory, newer) or TRUSTS.index(newer.trust) > TRUSTS.index(memory.trust):
            continue
        action: LifecycleAction = "supersede" if edge.slot else "absorb"
        subject = [newer, memory]
        if not edge.slot:
            subject.sort(key=lambda each: -len(each.content))
        if not is_decided(state, newer, memory, "supersede", "absorb", "merge"):
            yield proposal(state, action, subject, REASONS[action])
    is_over = memory.created_at + DAY_MS < memory.event_at < state.now - OVER_MS
    is_kept = memory.kind != "episodic" or state.usage(memory).last_accessed > memory.event_at
    if is_over and not is_kept and decided(state, "archive", [memory]) is None:
        yield proposal(state, "archive", [memory], REASONS["archive"])


def _next_rows(state: CycleState) -> tuple[NDArray[np.intp], int]:
    """The rows to look through, and how many are left for the next time."""
    mask = state.live() & state.has("layer", "core", "working") & ~state.has("kind", "working")
    rows = np.flatnonzero(mask & (state.column("tier") == 0) & (state.column("pinned") == 0))
    start = int(np.searchsorted(rows, int(state.meta(PLACE) or 0)))
    ordered = np.concatenate([rows[start:], rows[:start]])
    return ordered[:AUDITED_MAX], max(0, len(ordered) - AUDITED_MAX)


def _groups(state: CycleState, rows: NDArray[np.intp]) -> Iterator[list[Memory]]:
    """Groups of at most 12 memories of one namespace and user, those near each other together."""
    namespaces, users = state.column("namespace"), state.column("user_id")
    scopes: dict[tuple[int, int], list[int]] = {}
    for row in rows.tolist():
        scopes.setdefault((int(namespaces[row]), int(users[row])), []).append(row)
    for members in scopes.values():
        ordered = _near_together(state, members)
        for start in range(0, len(ordered), MEMORIES_MAX):
            yield state.records(ordered[start : start + MEMORIES_MAX])


def _near_together(state: CycleState, rows: list[int]) -> list[int]:
    """The rows, all of one namespace, each followed by those near it."""
    mask = np.zeros(len(state.column("state")), np.bool_)
    mask[rows] = True
    ordered = dict[int, None]()
    least = state.thresholds(state.name("namespace", rows[0])).near
    for row, near in zip(rows, state.neighbours(rows, mask, least), strict=True):
        ordered.update(dict.fromkeys([row, *(each.row for each in near)]))
    return list(ordered)


def _proposal(state: CycleState, operation: AuditOperation, memories: list[Memory]) -> list[Change]:
    """The proposal of an operation; none where it waits, was decided on, or merges what is not near."""
    subject = [memories[operation.memory - 1]]
    if operation.action == "merge":
        subject = _merged(state, subject[0], memories[operation.other - 1])
    action = ACTIONS[operation.action]
    if not subject or decided(state, action, subject) is not None:
        return []
    return [proposal(state, action, subject, REASONS[operation.action], tag=operation.tag)]


def _merged(state: CycleState, one: Memory, other: Memory) -> list[Memory]:
    """Two memories that may be merged, the one that says all first; none where they must not be."""
    similarity = state.similarity(other.content, one)
    if similarity is not None and not is_for_audit(
        similarity, state.thresholds(one.namespace), is_merging=state.options.merge
    ):
        return []
    return [one, other] if holds(one.content, other.content) else [other, one]


def is_for_audit(similarity: float, thresholds: Thresholds, *, is_merging: bool) -> bool:
    """Return whether an audit merges two memories: those near each other, but for what cycles merge. [G48]"""
    return similarity >= thresholds.near and not (is_merging and similarity >= thresholds.merge)
