"""Admission of memories to core, the ladder of rejections, and the way back to working. SPEC 9.2, 9.4

The task `gate` judges the memories of the working layer that were used and are strong, and without use those in which a
person says by clear words who they are or what always holds. What a newer statement has replaced does not enter, and
leaves core. A rejection is a decision on the text as it is, and a tag that shows it. It holds for 48 epochs, the second
one for 144, the third for ever [G17].
"""

from collections.abc import Iterator

import numpy as np

from mnemo_core.ingest.memory_cues import NEVER_CORE_TAGS, NEVER_CORE_TRUSTS, CoreCategory, cues_of
from mnemo_core.ingest.policies import Policy
from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.distillation import session_notes
from mnemo_core.lifecycle.consolidation.review import first_open
from mnemo_core.lifecycle.consolidation.state import DAY_MS, PROMOTION, REJECTIONS, CycleState, Mask, moved, retagged
from mnemo_core.llm.triage import GATE, GateAnswer
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    OWN_TRUSTS,
    TAGS_MAX,
    Change,
    DecisionStatus,
    LifecycleDecision,
    Memory,
    PutDecision,
    PutMemory,
)

USED_MIN, AGED_MS = 3.0, 7 * DAY_MS  # reinforcement of a candidate, or the age from which any use is enough [G15]
STRENGTH_MIN = 0.6  # [G15]
JUDGED_MAX = 20  # candidates a cycle
UNUSED_EPOCHS = 48  # of the life of a memory in which it may enter core without having been used
UNUSED_READ_MAX, UNUSED_CHARS_MAX = 200, 1000  # such memories that a cycle reads, and their characters
UNUSED_CATEGORIES = ("identity", "constraint", "lesson")  # that it may enter as
FINAL = REJECTIONS[-1]
EPOCHS_REJECTED = {REJECTIONS[0]: 48, REJECTIONS[1]: 144}  # that a rejection holds; the last one for ever [G17]


def plan_tag_cleanup(state: CycleState) -> Planning:
    """Remove the tags of rejections that are over, of memories that were not used since, and the tag of a promotion
    that is not under way."""
    yield from ()
    rejected = state.live() & state.tagged(*EPOCHS_REJECTED)
    promoted = state.live() & state.tagged(PROMOTION) & state.has("layer", "working", "core")
    changes: list[Change] = []
    for memory in state.records((rejected | promoted).nonzero()[0]):
        stale = {tag for tag in memory.tags if _is_stale(state, memory, tag)}
        if stale and len(changes) < CHANGES_PER_STEP:
            changes.append(PutMemory(data=retagged(memory, tuple(tag for tag in memory.tags if tag not in stale))))
    return StepPlan(changes=changes, counts={"retagged": len(changes)})


def plan_core_hygiene(state: CycleState) -> Planning:
    """Demote from core to working: session notes, ephemeral memories, what a newer statement has replaced, and what
    others than the person wrote and no person has confirmed as it is now."""
    yield from ()
    in_core = state.live() & state.has("layer", "core")
    misplaced = in_core & (session_notes(state) | state.tagged("ephemeral"))
    of_others = in_core & ~state.has("trust", *OWN_TRUSTS) & state.follows(lambda policy: policy.core_needs_person)
    for row in of_others.nonzero()[0].tolist():
        misplaced[row] |= any(not is_confirmed(state, memory) for memory in state.records([row]))
    replaceable = in_core & ~misplaced & (state.column("pinned") == 0) & state.follows(_reads_statements)
    for row in replaceable.nonzero()[0].tolist():
        misplaced[row] |= any(is_replaced(state, memory) for memory in state.records([row]))
    memories = first_open(state, "demote", misplaced.nonzero()[0])
    reason = "session notes, ephemeral and replaced memories and what no person confirmed do not belong to core"
    return StepPlan([CycleOperation("demote", (each.id,), (PutMemory(data=moved(each, "working")),), reason)
                     for each in memories])  # fmt: skip


def plan_gate(state: CycleState) -> Planning:
    """Have the gate judge candidates for core, the most used first."""
    operations: list[CycleOperation] = []
    rejections: list[Change] = []
    rejected = 0
    for memory in _candidates(state):
        if len(operations) + rejected == JUDGED_MAX:
            break
        answer: GateAnswer = yield TaskQuestion(GATE, state.inputs(memory))
        if answer.category == "none":
            rejected += 1
            rejections += _rejection(state, memory)
        else:
            operations.append(promotion_to_core(state, memory, answer.category))
    return StepPlan(operations, rejections, {"reject": rejected})


def promotion_to_core(state: CycleState, memory: Memory, category: CoreCategory) -> CycleOperation:
    """The operation that promotes a memory of the working layer to core."""
    reason = f"it is of the category {category}"
    decision = _decision(state, memory, "done", reason=reason)
    return CycleOperation("promote", (memory.id,), (PutMemory(data=moved(memory, "core")), decision), reason)


def is_confirmed(state: CycleState, memory: Memory) -> bool:
    """Return whether a person stands behind a text as it is now: it is the person's own, pinned, was recalled or edited
    by a person since its last change, or was admitted before. A proposal is admitted by the person who approves it."""
    if memory.trust in OWN_TRUSTS or memory.pinned or state.usage(memory).person_at >= memory.modified_at:
        return True
    decision = state.decision("promote", memory)
    return decision is not None and decision.status == "done"


def is_replaced(state: CycleState, memory: Memory) -> bool:
    """Return whether a newer statement of the person certainly says something else. What is only likely does not count:
    of 16 such ties to statements of who somebody is, one was right. SPEC 5.8"""
    newer = [edge.source for edge in state.edges(memory.id) if edge.target == memory.id and edge.relation == "updates"]
    return any(each.state == "active" and each.trust in OWN_TRUSTS for each in state.subject(newer))


def _candidates(state: CycleState) -> Iterator[Memory]:
    """The memories of the working layer that the gate may judge now, the most used first, of equals the oldest; behind
    them those that speak for themselves."""
    used, created_at = state.reinforcements(), state.column("created_at")
    fit = state.live() & state.has("layer", "working") & ~is_kept_out(state) & ~state.tagged(FINAL)
    fit &= ~state.has_moved()  # one layer a cycle
    is_used = was_used(state) & (state.strengths() >= STRENGTH_MIN)
    rows, is_reviewed = (fit & is_used).nonzero()[0], state.options.review != "off"
    for row in rows[np.lexsort((created_at[rows], -used[rows]))]:
        for memory in state.records([row]):
            is_fit = is_reviewed or not state.policy(memory.namespace).core_needs_person or is_confirmed(state, memory)
            if is_fit and _may_enter(state, memory):
                yield memory
    fit &= state.has("trust", "user") & (state.column("tier") == 0) & state.follows(_reads_statements)
    rows = (fit & ~is_used).nonzero()[0]
    for row in rows[np.argsort(-created_at[rows], kind="stable")][:UNUSED_READ_MAX]:
        if state.epochs_since(int(created_at[row])) > UNUSED_EPOCHS:
            break
        for memory in state.records([row]):
            if len(memory.content) > UNUSED_CHARS_MAX:
                continue
            if cues_of(*state.inputs(memory).judged).strong in UNUSED_CATEGORIES and _may_enter(state, memory):
                yield memory


def is_kept_out(state: CycleState) -> Mask:
    """The mask of the memories that the gate never judges."""
    kept_out = session_notes(state) | state.tagged(*NEVER_CORE_TAGS, "project-status", SENSITIVE_TAG)
    kept_out |= state.has("kind", "working") | state.has("trust", *NEVER_CORE_TRUSTS)
    # What an assistant says is no rule of the person.
    kept_out |= (state.column("tier") != 0) & ~state.has("trust", "user")
    return kept_out


def was_used(state: CycleState) -> Mask:
    """The mask of the memories that were used enough for the gate, however strong they are."""
    used, is_aged = state.reinforcements(), state.column("created_at") < state.now - AGED_MS
    mask: Mask = (used >= USED_MIN) | ((used > 0) & is_aged)
    return mask


def _may_enter(state: CycleState, memory: Memory) -> bool:
    is_out = state.policy(memory.namespace).core_reads_statements and is_replaced(state, memory)
    return not is_out and not _is_waiting(state, memory)


def _reads_statements(policy: Policy) -> bool:
    return policy.core_reads_statements


def _is_waiting(state: CycleState, memory: Memory) -> bool:
    """Return whether a promotion to core is proposed, or was rejected and may not be tried again yet."""
    tag, at = _rejection_of(state, memory)
    if not tag:
        return _is_proposed(state, memory)
    return tag == FINAL or _epochs_since_cycle(state, at) < EPOCHS_REJECTED[tag]


def _is_stale(state: CycleState, memory: Memory, tag: str) -> bool:
    """Return whether a tag says of a memory what does not hold any more."""
    if tag == PROMOTION:
        return not _is_proposed(state, memory)
    if tag not in EPOCHS_REJECTED:
        return False
    standing, at = _rejection_of(state, memory)
    epochs = min(_epochs_since_cycle(state, at), state.epochs_since(state.usage(memory).last_accessed))
    return tag != standing or epochs >= EPOCHS_REJECTED[tag]


def _is_proposed(state: CycleState, memory: Memory) -> bool:
    decision = state.decision("promote", memory)
    return decision is not None and decision.status == "proposed"


def _rejection_of(state: CycleState, memory: Memory) -> tuple[str, int]:
    """The tag of the rejection of a memory, and when it was (ms); "" for none, or if the text was changed since. A tag
    without a decision came with an import: it counts from the last change."""
    if state.last_decision("promote", memory) is None:
        return next((tag for tag in reversed(REJECTIONS) if tag in memory.tags), ""), memory.modified_at
    decision = state.decision("promote", memory)
    if decision is None or decision.status != "rejected":
        return "", 0
    return decision.tag or FINAL, decision.at  # without a tag: by a person


def _rejection(state: CycleState, memory: Memory) -> Iterator[Change]:
    """The changes that reject a memory, for longer than the last time. A case that is for a model to decide is not
    rejected for ever while there is none."""
    last, _ = _rejection_of(state, memory)
    tag = REJECTIONS[min(REJECTIONS.index(last) + 1 if last else 0, len(REJECTIONS) - 1)]
    if tag == FINAL and not (GATE.is_clear(state.inputs(memory)) or state.options.may_ask(GATE)):
        tag = last
    tags = tuple(each for each in memory.tags if each not in REJECTIONS)
    if len(tags) < TAGS_MAX:
        tags = (*tags, tag)
    if tags != memory.tags:
        yield PutMemory(data=retagged(memory, tags))
    yield _decision(state, memory, "rejected", tag=tag)


def _decision(
    state: CycleState, memory: Memory, status: DecisionStatus, *, tag: str = "", reason: str = ""
) -> PutDecision:
    decision = LifecycleDecision(
        memory=memory.id, action="promote", other=memory.id, status=status, at=state.now,
        digest=decision_digest([memory.content]), tag=tag, reason=reason,
    )  # fmt: skip
    return PutDecision(data=decision)


def _epochs_since_cycle(state: CycleState, at: int) -> int:
    """The epochs since a cycle that started then, which counts as one of them."""
    return state.epochs_since(at - 1)
