"""The step that merges memories which say nearly the same into one text. SPEC 9.5 [G20]"""

from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.joining.pairs import (
    PairPlan,
    is_decided,
    joinable,
    may_share_text,
    may_stand_for,
    near_pairs,
)
from mnemo_core.lifecycle.consolidation.joining.replacing import merge_operation
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.grounding import find_specifics
from mnemo_core.llm.judging.reconcile import holds, reconcile_by_rule
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.writing.merge import MERGE
from mnemo_core.retrieval.result_selection import is_apart
from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.tokens import NEGATIONS, OPERATORS, OPPOSITES
from mnemo_store.records import CONTENT_CHARS_MAX, DEFAULT_NAMESPACE, LAYERS, Memory

PLACE = "lifecycle_merge_at"
REPLACED_MAX = 0.5  # of the words of one of two texts that are built alike

_TURNING = NEGATIONS | OPERATORS


def plan_merge(state: CycleState) -> Planning:
    """Plan the merges of memories more alike than the threshold, where they are asked for."""
    if not state.options.merge:
        return StepPlan(skipped="merging is off")
    mask = joinable(state)
    plan = PairPlan(state, PLACE, mask & state.live())
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
        plan.add("merge", winner, loser, _operation(state, winner, loser, answer.text.strip()))
    return plan.result()


def _order(state: CycleState, memory: Memory, *pair: Memory) -> tuple[bool, int, float, int, int, str]:
    """The sort key of a pair, the winner first: in `default`, in the higher layer, more important, accessed, older."""
    is_project = memory.namespace != DEFAULT_NAMESPACE and len({each.namespace for each in pair}) > 1
    layer = LAYERS.index(memory.layer)
    return is_project, -layer, -memory.importance, -state.usage(memory).access_count, memory.created_at, memory.id


def _operation(state: CycleState, winner: Memory, loser: Memory, text: str) -> CycleOperation | None:
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
