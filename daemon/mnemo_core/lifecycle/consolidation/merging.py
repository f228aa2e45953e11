"""The steps that join a pair of memories, by a language model or by comparison alone. SPEC 9.2, 9.5 [G20, G21, G23,
G24]

A language model merges and reconciles. Merging makes one text of memories which say nearly the same. Reconciliation
lets a newer memory replace an older one, or the fuller of two absorb the other.

Near-duplicates, and what overlaps in core, are found by comparison. Two memories of the buffer or the working layer say
the same where they differ in no specific, or where ingestion tied them as repetitions of each other (5.5, 5.8); with
the profile G only in the buffer, by their cosine. The fuller wording stays; the other one is superseded by it.
"""

import re

from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, Planning, StepPlan, TaskQuestion
from mnemo_core.lifecycle.consolidation.pairs import (
    PairPlan,
    PairWalk,
    is_decided,
    joinable,
    may_share_text,
    may_stand_for,
    near_pairs,
    pair_decision,
)
from mnemo_core.lifecycle.consolidation.replacing import absorb_operation, merge_operation, supersede_operation
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.faithfulness import contradiction_between, find_specifics, find_values
from mnemo_core.llm.merge import MERGE
from mnemo_core.llm.reconcile import (
    RECONCILE,
    ReconcileAnswer,
    holds,
    inherited_text,
    reconcile_by_rule,
    winner_of,
)
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.retrieval.result_selection import is_apart
from mnemo_core.text.canonical import CanonicalForm, canonical_form, difference, obviously_differ, unchanged_words
from mnemo_core.text.languages import sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.tokens import NEGATIONS, OPERATORS, OPPOSITES
from mnemo_store.records import CONTENT_CHARS_MAX, DEFAULT_NAMESPACE, LAYERS, TRUSTS, Memory

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
        # The newer one was said and written at least an hour after the other.
        ahead = min(_said_at(newer) - _said_at(older), newer.modified_at - older.modified_at)
        if ahead < NEWER_MS or is_decided(state, older, newer, "supersede", "absorb"):
            continue
        inputs = state.inputs(older, newer)
        answer = yield TaskQuestion(RECONCILE, inputs)
        plan.add("supersede", older, newer, _reconciled(state, older, newer, inputs, answer))
    return plan.result()


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
    """Return whether a text contradicts an older one and has a value of every kind that this has a value of. A model
    may say that such a text replaces it; otherwise each says something of its own."""
    kinds = [{each.kind for each in find_values(canonical_form(text))} for text in (older, newer)]
    return kinds[0] <= kinds[1] and contradiction_between(older, newer) != ""


# Constructions that say the same as others: each is replaced by a shorter one.
_CONSTRUCTIONS = (
    (lazy_pattern(r"\b([a-z]{2,30}) of (?:the |my |our )?([a-z]{2,30})\b"), r"\2 \1"),  # the code of the garage
    (lazy_pattern(r"\b(?:every|each) ((?:mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.IGNORECASE), r"on \1s"),
    (lazy_pattern(r"\AThere(?:['’]s| is| are) "), ""),
    (lazy_pattern(r"\b((?:my|our) [a-z]{2,30})['’]s name is\b", re.IGNORECASE), r"\1 is"),
    (lazy_pattern(r"(?:['’]s| is) employed (?:by|at)\b"), " works for"),
    (lazy_pattern(r"(?:['’]m|['’]re| am| are) employed (?:by|at)\b"), " work for"),
)
# The words before which a phrase at the end of a sentence begins, which may stand at its beginning as well.
_FRONTED = frozenset(
    ("at", "on", "in", "by", "from", "during", "before", "after", "under", "behind", "with", "for", "until", "since")
)
DUPLICATES_PLACE = "lifecycle_near_duplicates_at"


def plan_near_duplicates(state: CycleState) -> Planning:
    """Plan which memories stand for others that say the same."""
    yield from ()
    mask = joinable(state) & state.has("layer", "buffer", "working")
    mask &= state.has("layer", "buffer") | state.follows(lambda policy: policy.is_guarded)
    walk = PairWalk(state, DUPLICATES_PLACE, mask & state.live())
    operations: list[CycleOperation] = []
    taken = set[str]()
    changes = 0
    done = len(walk.rows)
    for place, memory, others in near_pairs(state, walk, mask, lambda limits: limits.triage):
        group = [
            each.memory for each in others if each.memory.id not in taken and _says_the_same(state, memory, each.memory)
        ]
        if not group or memory.id in taken:
            continue
        winner = min((memory, *group), key=lambda each: _duplicate_order(state, each))
        losers = [each for each in (memory, *group) if _can_hide(state, winner, each)]
        if not losers:
            continue
        operation = absorb_operation(state, winner, losers, "they say the same", _uncounted(state, winner, losers))
        if len(operation.changes) > CHANGES_PER_STEP // 2:  # of facts: they stay
            continue
        changes += len(operation.changes)
        if changes >= CHANGES_PER_STEP:
            done = place
            break
        operations.append(operation)
        taken.update(operation.ids)
    return StepPlan(operations, walk.place_behind(done))


def repeats(one: Memory, other: Memory) -> bool:
    """Return whether two memories differ in no specific, nor in the day they speak of."""
    if is_apart(one, other):
        return False
    texts = plain = one.content, other.content
    for pattern, shorter in _CONSTRUCTIONS:
        plain = pattern.sub(shorter, plain[0]), pattern.sub(shorter, plain[1])
    return any(_are_equal(*pair) for pair in dict.fromkeys((texts, plain)))


def _are_equal(one: str, other: str) -> bool:
    """Return whether two texts have one form, or the same words with the phrase at the end of one at the beginning of
    the other: "On Fridays it closes at noon."."""
    if obviously_differ(unchanged_words(one), unchanged_words(other)):
        return False
    forms = canonical_form(one), canonical_form(other)
    if difference(*forms) is None:
        return True
    first, second = (form.values for form in forms)
    if len(first) != len(second) or max(len(sentences(one)), len(sentences(other))) > 1:
        return False
    return any(
        words[0] in _FRONTED and words[place:] + words[:place] == others
        for words, others in ((first, second), (second, first))
        for place in range(2, len(words))
    )


def _says_the_same(state: CycleState, one: Memory, other: Memory) -> bool:
    if not state.policy(one.namespace).is_guarded or repeats(one, other):
        return True
    ends = {one.id, other.id}
    is_tied = any(edge.relation == "repeats" and {edge.source, edge.target} == ends for edge in state.edges(one.id))
    return is_tied and not is_apart(one, other)


def _duplicate_order(state: CycleState, memory: Memory) -> tuple[bool, int, float, int, int, int, str]:
    """The sort key of what stays first: in `default`, trusted, important, used, fuller, old."""
    is_project = memory.namespace != DEFAULT_NAMESPACE
    used = state.usage(memory).access_count
    trust, length = TRUSTS.index(memory.trust), -len(memory.content)
    return is_project, trust, -memory.importance, -used, length, memory.created_at, memory.id


def _can_hide(state: CycleState, winner: Memory, loser: Memory) -> bool:
    """Return whether a memory may take the place of one that says the same."""
    is_less_trusted = TRUSTS.index(winner.trust) > TRUSTS.index(loser.trust)
    if loser.id == winner.id or is_less_trusted or is_decided(state, winner, loser, "absorb"):
        return False
    return _says_the_same(state, winner, loser)


def _uncounted(state: CycleState, winner: Memory, losers: list[Memory]) -> int:
    """The number of repetitions that were not counted when they were stored."""
    edges = [edge for edge in state.edges(winner.id) if edge.relation == "repeats"]
    counted = {end for edge in edges for end in (edge.source, edge.target)}
    return sum(each.id not in counted for each in losers)


OVERLAPS_PLACE = "lifecycle_overlaps_at"


def plan_overlap_scan(state: CycleState) -> Planning:
    """Plan the flags of pairs in core that are more alike than the threshold. A flag changes no memory."""
    yield from ()
    mask = joinable(state) & state.has("layer", "core")
    plan = PairPlan(state, OVERLAPS_PLACE, mask & state.live())
    for memory, near in plan.pairs(near_pairs(state, plan.walk, mask, lambda limits: limits.core_overlap)):
        pair = memory, near.memory
        if near.similarity > state.thresholds(memory.namespace).core_overlap and not is_decided(
            state, *pair, "overlap"
        ):
            flag = pair_decision(state, "overlap", *pair, "done")
            ids = (flag.data.memory, flag.data.other)
            plan.add("overlap", *pair, CycleOperation("overlap", ids, (flag,), f"cosine {near.similarity:.2f}"))
    return plan.result()
