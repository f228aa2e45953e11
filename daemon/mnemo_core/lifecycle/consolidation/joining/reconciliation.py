"""The step that lets a newer memory replace an older one, or the fuller of two absorb the other. SPEC 9.5 [G21]"""

from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, Planning, TaskQuestion
from mnemo_core.lifecycle.consolidation.joining.pairs import (
    PairPlan,
    is_decided,
    joinable,
    may_share_text,
    may_stand_for,
    near_pairs,
)
from mnemo_core.lifecycle.consolidation.joining.replacing import absorb_operation, supersede_operation
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.faithfulness import contradiction_between
from mnemo_core.llm.grounding import find_values
from mnemo_core.llm.judging.reconcile import RECONCILE, ReconcileAnswer, inherited_text, reconcile_by_rule, winner_of
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.retrieval.result_selection import is_apart
from mnemo_core.text.canonical import canonical_form
from mnemo_store.records import CONTENT_CHARS_MAX, Memory

PLACE = "lifecycle_reconciliation_at"
NEWER_MS = 3_600_000  # by which the newer memory of a pair is newer at least [G21]


def plan_reconciliation(state: CycleState) -> Planning:
    """Plan which memories of the layers working and core replace or absorb others.

    Under the guard there is no upper bound of similarity: what is nearly worded alike and differs in a value is never
    merged, and the newer value is to replace the older one there too. Without it, `merge` is the bound.
    """
    mask = joinable(state) & state.has("layer", "working", "core")
    plan = PairPlan(state, PLACE, mask & state.live())
    for memory, near in plan.pairs(near_pairs(state, plan.walk, mask, lambda limits: limits.reconcile)):
        older, newer = sorted((memory, near.memory), key=_said_at)
        is_for_merging = near.similarity >= state.thresholds(memory.namespace).merge
        if is_for_merging and not state.policy(memory.namespace).is_guarded:
            continue
        if not is_newer(newer, older) or is_decided(state, older, newer, "supersede", "absorb"):
            continue
        inputs = state.inputs(older, newer)
        answer = yield TaskQuestion(RECONCILE, inputs)
        plan.add("supersede", older, newer, _operation(state, older, newer, inputs, answer))
    return plan.result()


def is_newer(one: Memory, other: Memory) -> bool:
    """Return whether a memory was said and written at least an hour after another one."""
    return min(_said_at(one) - _said_at(other), one.modified_at - other.modified_at) >= NEWER_MS


def _said_at(memory: Memory) -> int:
    """The time (ms) at which a text was said: an event may lie ahead of it, and one that was imported long before."""
    return min(memory.event_at, memory.created_at)


def _operation(
    state: CycleState, older: Memory, newer: Memory, inputs: TaskInputs, answer: ReconcileAnswer
) -> CycleOperation | None:
    """The operation that follows from an answer; None where both memories stay."""
    number = winner_of(answer, inputs)
    if number is None:
        return None
    loser, winner = (older, newer) if number == 2 else (newer, older)
    if not may_stand_for(winner, loser):
        return None
    if answer.relation == "absorb":
        return None if is_apart(winner, loser) else absorb_operation(state, winner, [loser], "it says all of the other")
    text = inherited_text(winner.content, loser.content) if may_share_text(winner, loser) else winner.content
    is_update = reconcile_by_rule(inputs).relation == "update" or _contradicts(newer.content, older.content)
    if not is_update or len(text) > CONTENT_CHARS_MAX:
        return None
    return supersede_operation(state, winner, loser, text, "a newer value")


def _contradicts(newer: str, older: str) -> bool:
    """Return whether a text contradicts an older one and has a value of every kind that this has a value of.

    A model may say that such a text replaces it; otherwise each says something of its own.
    """
    kinds = [{each.kind for each in find_values(canonical_form(text))} for text in (older, newer)]
    return kinds[0] <= kinds[1] and contradiction_between(older, newer) != ""
