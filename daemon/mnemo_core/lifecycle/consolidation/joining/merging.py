"""The steps that ask a language model about a pair. SPEC 9.5 [G20, G21]

Merging makes one text of memories which say nearly the same. Reconciliation lets a newer memory replace an older one,
or the fuller of two absorb the other.
"""

from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.joining.pairs import (
    PairPlan,
    is_decided,
    joinable,
    may_share_text,
    may_stand_for,
    near_pairs,
)
from mnemo_core.lifecycle.consolidation.joining.replacing import absorb_operation, merge_operation, supersede_operation
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.faithfulness import contradiction_between
from mnemo_core.llm.grounding import find_specifics, find_values
from mnemo_core.llm.judging.reconcile import (
    RECONCILE,
    ReconcileAnswer,
    holds,
    inherited_text,
    reconcile_by_rule,
    winner_of,
)
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.writing.merge import MERGE
from mnemo_core.retrieval.result_selection import is_apart
from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.tokens import NEGATIONS, OPERATORS, OPPOSITES
from mnemo_store.records import CONTENT_CHARS_MAX, DEFAULT_NAMESPACE, LAYERS, Memory

MERGE_PLACE = "lifecycle_merge_at"
REPLACED_MAX = 0.5  # of the words of one of two texts that are built alike

_TURNING = NEGATIONS | OPERATORS


def plan_merge(state: CycleState) -> Planning:
    """Plan the merges of memories more alike than the threshold, where they are asked for."""
    if not state.options.merge:
        return StepPlan(skipped="merging is off")
    mask = joinable(state)
    plan = PairPlan(state, MERGE_PLACE, mask & state.live())
    for memory, near in plan.pairs(near_pairs(state, plan.walk, mask, lambda limits: limits.merge)):
        other = near.memory
        is_candidate = near.similarity > state.thresholds(memory.namespace).merge and memory.kind == other.kind
        if not is_candidate or is_decided(state, memory, other, "merge"):
            continue
        winner, loser = sorted((memory, other), key=lambda each: _order(state, each, memory, other))
        may_join = may_stand_for(winner, loser) and may_share_text(winner, loser)
        is_guarded = state.policy(winner.namespace).is_guarded
        if not may_join or (is_guarded and (is_apart(winner, loser) or _is_barred(winner.content, loser.content))):
            plan.add("merge", winner, loser, None)
            continue
        answer = yield TaskQuestion(MERGE, TaskInputs((winner.content, loser.content)))
        plan.add("merge", winner, loser, _merged(state, winner, loser, answer.text.strip()))
    return plan.result()


def _order(state: CycleState, memory: Memory, *pair: Memory) -> tuple[bool, int, float, int, int, str]:
    """The sort key of a pair, the winner first: in `default`, in the higher layer, more important, accessed, older."""
    is_project = memory.namespace != DEFAULT_NAMESPACE and len({each.namespace for each in pair}) > 1
    layer = LAYERS.index(memory.layer)
    return is_project, -layer, -memory.importance, -state.usage(memory).access_count, memory.created_at, memory.id


def _merged(state: CycleState, winner: Memory, loser: Memory, text: str) -> CycleOperation | None:
    """The merge into a text; None where it may not replace both."""
    if not text or len(text) > CONTENT_CHARS_MAX:
        return None
    pair = (winner.content, loser.content)
    if text in pair and not all(holds(text, each) for each in pair):
        return None
    return merge_operation(state, winner, loser, text, "they say nearly the same")


def _is_barred(one: str, other: str) -> bool:
    """Return whether two texts differ, or one of them replaces the other by what it says."""
    orders = ((one, other), (other, one))
    return differ(one, other) or any(reconcile_by_rule(TaskInputs(each)).relation == "update" for each in orders)


def differ(one: str, other: str) -> bool:
    """Return whether two texts differ in a number, unit, date, name, identifier, negation or opposite, or are built
    alike with other words in some places. Those are about two things, or contradict each other, and are not merged.

    Of one text alone, a specific is an addition.
    """
    forms = canonical_form(one), canonical_form(other)
    values = [frozenset(form.values) for form in forms]
    if values[0] & _TURNING != values[1] & _TURNING:
        return True
    if any(OPPOSITES.get(word, frozenset()) & (values[1] - values[0]) for word in values[0] - values[1]):
        return True
    specifics = [frozenset(find_specifics(*pair)) for pair in zip((one, other), forms, strict=True)]
    kinds = [{each.kind for each in specifics[0] - specifics[1]}, {each.kind for each in specifics[1] - specifics[0]}]
    return not kinds[0].isdisjoint(kinds[1]) or _is_parallel(*forms)


def _is_parallel(one: CanonicalForm, other: CanonicalForm) -> bool:
    """Return whether two texts have the same words in another order, or other words in the same places."""
    if one.values == other.values:
        return False
    if sorted(one.values) == sorted(other.values):
        return one.values != other.swapped_values and other.values != one.swapped_values
    if len(one.values) != len(other.values):
        return False
    edits = [pair for pair in zip(one.values, other.values, strict=True) if pair[0] != pair[1]]
    replaced = [frozenset(words) for words in zip(*edits, strict=True)]
    is_moved = not replaced[0].isdisjoint(other.values) or not replaced[1].isdisjoint(one.values)
    return not is_moved and len(edits) <= len(one.values) * REPLACED_MAX


RECONCILIATION_PLACE = "lifecycle_reconciliation_at"
NEWER_MS = 3_600_000  # by which the newer memory of a pair is newer at least [G21]


def plan_reconciliation(state: CycleState) -> Planning:
    """Plan which memories of the layers working and core replace or absorb others.

    Under the guard there is no upper bound of similarity: what is nearly worded alike and differs in a value is never
    merged, and the newer value is to replace the older one there too. Without it, `merge` is the bound.
    """
    mask = joinable(state) & state.has("layer", "working", "core")
    plan = PairPlan(state, RECONCILIATION_PLACE, mask & state.live())
    for memory, near in plan.pairs(near_pairs(state, plan.walk, mask, lambda limits: limits.reconcile)):
        older, newer = sorted((memory, near.memory), key=_said_at)
        is_for_merging = near.similarity >= state.thresholds(memory.namespace).merge
        if is_for_merging and not state.policy(memory.namespace).is_guarded:
            continue
        if not is_newer(newer, older) or is_decided(state, older, newer, "supersede", "absorb"):
            continue
        inputs = state.inputs(older, newer)
        answer = yield TaskQuestion(RECONCILE, inputs)
        plan.add("supersede", older, newer, _reconciled(state, older, newer, inputs, answer))
    return plan.result()


def is_newer(one: Memory, other: Memory) -> bool:
    """Return whether a memory was said and written at least an hour after another one."""
    return min(_said_at(one) - _said_at(other), one.modified_at - other.modified_at) >= NEWER_MS


def _said_at(memory: Memory) -> int:
    """The time (ms) at which a text was said: an event may lie ahead of it, and one that was imported long before."""
    return min(memory.event_at, memory.created_at)


def _reconciled(
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
