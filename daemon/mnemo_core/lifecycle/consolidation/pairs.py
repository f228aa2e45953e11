"""Pairs of memories that are compared in a cycle: who is looked at, with whom, and what must stay apart. SPEC 9.5

A step looks for the neighbours of a bounded number of memories: of those that were written since it looked last, and in
turn of all others, so that a cycle takes the same time however many memories there are.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mnemo_core.ingest.memory_cues import NEVER_CORE_TAGS, NEVER_CORE_TRUSTS
from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, StepPlan
from mnemo_core.lifecycle.consolidation.state import CycleState, Mask
from mnemo_core.similarity.thresholds import Thresholds
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    DEFAULT_NAMESPACE,
    LAYERS,
    OWN_TRUSTS,
    Change,
    DecisionStatus,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    PutDecision,
    PutMeta,
)

NEW_MAX, OTHERS_MAX = 200, 100  # memories whose neighbours a step looks for in a cycle
NEIGHBOURS_MAX = 8  # of one memory
PAIRS_MAX = 40  # that a step decides on in a cycle

# Tags that two memories both have or both lack: what is said under them is under other rules.
_SEPARATING_TAGS = NEVER_CORE_TAGS | {SENSITIVE_TAG}
_STATUS_TAG = "auto-distilled"


class NearMemory(NamedTuple):
    """A memory, and the cosine of its text and another one."""

    memory: Memory
    similarity: float


class PairWalk:
    """The memories whose neighbours a step looks for: those that were written since, the oldest first, and behind them
    some of the others. Where more were written, the first of them are left to the turn of the others.

    The place is kept as the meta value `name`: the time up to which all were looked at, and the next row of the others.
    """

    def __init__(self, state: CycleState, name: str, mask: Mask) -> None:
        self._state = state
        self._name = name
        self._times = state.column("modified_at")
        self._written, self._next = map(int, (state.meta(name) or "0 0").split())
        rows = np.flatnonzero(mask)
        new = rows[self._times[rows] > self._written]
        self._new = new[np.argsort(self._times[new], kind="stable")][-NEW_MAX:]
        others = np.setdiff1d(rows, self._new)
        start = int(np.searchsorted(others, self._next))
        self._others = others[start : start + OTHERS_MAX]
        self._ends = start + OTHERS_MAX >= len(others)
        self.rows: list[int] = [*self._new.tolist(), *self._others.tolist()]

    def place_behind(self, done: int) -> list[Change]:
        """The change that keeps the place behind so many of the rows; none for a cycle of one namespace."""
        if self._state.options.namespace:
            return []
        written, following = self._written, self._next
        if done < len(self._new):
            written = int(self._times[self._new[done]]) - 1
        elif len(self._new):
            written = int(self._times[self._new[-1]])
        if done == len(self.rows):
            following = 0 if self._ends else self.rows[-1] + 1
        elif done >= len(self._new):
            following = self.rows[done]
        return [PutMeta(name=self._name, value=f"{min(written, self._state.now)} {following}")]


def joinable(state: CycleState) -> Mask:
    """The mask of the memories that may be joined with others, in all namespaces that have cycles. What a person
    pinned, chunks of notes, sides of conversations, memories of kind `working` and those that expire are left alone."""
    mask: Mask = state.has("state", "active") & (state.column("managed") == 0) & (state.column("pinned") == 0)
    mask &= (state.column("expires_at") == 0) & (state.column("tier") == 0) & ~state.has("kind", "working")
    return mask & state.follows(lambda policy: policy.has_cycles)


def near_pairs(
    state: CycleState, walk: PairWalk, mask: Mask, at_least: Callable[[Thresholds], float]
) -> Iterator[tuple[int, Memory, list[NearMemory]]]:
    """The memories of a walk by their place in it, each with those near it that may be joined with it."""
    scopes: dict[tuple[int, int], Mask] = {}
    users, namespaces = state.column("user_id"), state.column("namespace")
    for place, row in enumerate(walk.rows):
        scope = int(users[row]), int(namespaces[row])
        if scope not in scopes:
            scopes[scope] = mask & (users == users[row]) & _namespaces_of(state, row)
        found = [each for each in state.records([row]) if may_be_joined(state, each)]
        least = at_least(state.thresholds(state.name("namespace", row)))
        similar = state.neighbours([row], scopes[scope], least, NEIGHBOURS_MAX)[0] if found else []
        others = [NearMemory(other, each.similarity) for each in similar for other in state.records([each.row])]
        others = [each for each in others if may_be_joined(state, each.memory)]
        for memory in found:
            yield place, memory, [each for each in others if not is_kept_apart(memory, each.memory)]


def _namespaces_of(state: CycleState, row: int) -> Mask:
    """The mask of the namespaces whose memories a memory may be joined with: its own, and across them from a project
    into `default`. [G44]"""
    namespaces = state.column("namespace")
    own: Mask = namespaces == namespaces[row]
    if state.name("namespace", row) != DEFAULT_NAMESPACE:
        return own | state.has("namespace", DEFAULT_NAMESPACE)
    return own if state.options.namespace else np.ones(len(namespaces), np.bool_)


def may_be_joined(state: CycleState, memory: Memory) -> bool:
    """Return whether a memory may be joined with others: not what stands for others (a status, a summary), what its
    caller has a name for, a step of a run, or a value that a newer one has replaced."""
    return not (
        memory.key
        or memory.trace is not None
        or memory.compression_source
        or _STATUS_TAG in memory.tags
        or any(edge.relation == "updates" and edge.target == memory.id for edge in state.edges(memory.id))
    )


def is_kept_apart(one: Memory, other: Memory) -> bool:
    """Return whether two memories are never joined, whatever they say: of two speakers, agents or runs, or under rules
    that only one of them is under."""
    return (
        (one.speaker, one.agent_id, one.run_id) != (other.speaker, other.agent_id, other.run_id)
        or (one.trust in NEVER_CORE_TRUSTS) != (other.trust in NEVER_CORE_TRUSTS)
        or _SEPARATING_TAGS.intersection(one.tags) != _SEPARATING_TAGS.intersection(other.tags)
    )


def may_share_text(one: Memory, other: Memory) -> bool:
    """Return whether one text may be made of two: the words of others never become a part of the person's."""
    return (one.trust in OWN_TRUSTS) == (other.trust in OWN_TRUSTS)


def may_stand_for(winner: Memory, loser: Memory) -> bool:
    """Return whether a memory may take the place of another one: the result of a pair of two namespaces stands in
    `default`, and one in a lower layer never absorbs what is in a higher one. [G21, G44]"""
    is_of_scope = winner.namespace in (loser.namespace, DEFAULT_NAMESPACE)
    return is_of_scope and LAYERS.index(winner.layer) >= LAYERS.index(loser.layer)


def pair_decision(
    state: CycleState, action: LifecycleAction, one: Memory, other: Memory, status: DecisionStatus
) -> PutDecision:
    """The change that remembers what was decided about two memories with the texts that they have."""
    first, second = sorted((one, other), key=lambda memory: memory.id)
    digest = decision_digest([first.content, second.content])
    return PutDecision(
        data=LifecycleDecision(
            memory=first.id, action=action, other=second.id, status=status, at=state.now, digest=digest
        )
    )


def is_decided(state: CycleState, one: Memory, other: Memory, *actions: LifecycleAction) -> bool:
    """Return whether one of these actions was decided on for two memories with the texts that they have."""
    pairs = ((one, other), (other, one))  # a proposal names first what would stay
    return any(state.decision(action, *pair) is not None for action in actions for pair in pairs)


NearPairs = Iterator[tuple[int, Memory, list[NearMemory]]]


class PairPlan:
    """The plan of a step that decides on pairs, one by one: a memory is in one operation at most, and what is not
    reached in this cycle is the next one's."""

    def __init__(self, state: CycleState, name: str, mask: Mask) -> None:
        self.walk = PairWalk(state, name, mask)
        self._state = state
        self._place = 0  # of the pair that is decided on
        self._done = len(self.walk.rows)
        self._operations: list[CycleOperation] = []
        self._apart: list[Change] = []
        self._room = CHANGES_PER_STEP - 1  # for changes; one keeps the place
        self._decided = set[frozenset[str]]()
        self._taken = set[str]()

    def pairs(self, near: NearPairs) -> Iterator[tuple[Memory, NearMemory]]:
        """The pairs to decide on, until there is no room for more."""
        for self._place, memory, others in near:
            for each in others:
                ids = frozenset((memory.id, each.memory.id))
                if ids in self._decided or not self._taken.isdisjoint(ids):
                    continue
                if len(self._decided) == PAIRS_MAX:
                    self._done = min(self._done, self._place)
                if self._done <= self._place:
                    return
                yield memory, each

    def add(self, action: LifecycleAction, one: Memory, other: Memory, operation: CycleOperation | None) -> None:
        """Decide on the last pair: an operation, or None to keep the two apart, as where it is too large for a step."""
        self._decided.add(frozenset((one.id, other.id)))
        if operation is None or len(operation.changes) > CHANGES_PER_STEP // 2:
            operation = None
            changes: Sequence[Change] = [pair_decision(self._state, action, one, other, "apart")]
        else:
            changes = operation.changes
        self._room -= len(changes)
        if self._room < 0:
            self._done = self._place
        elif operation is None:
            self._apart += changes
        else:
            self._operations.append(operation)
            self._taken.update(operation.ids)

    def result(self) -> StepPlan:
        """The plan."""
        counts = {"apart": len(self._apart)}
        return StepPlan(self._operations, [*self._apart, *self.walk.place_behind(self._done)], counts)
