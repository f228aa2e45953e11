"""The steps that compare without a language model: near-duplicates, and what overlaps in core. SPEC 9.2, 9.5 [G23, G24]

Two memories of the buffer or the working layer say the same where they differ in no specific, or where ingestion tied
them as repetitions of each other (5.5, 5.8); with the profile G only in the buffer, by their cosine. The fuller
wording stays; the other one is superseded by it.
"""

import re

from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, Planning, StepPlan
from mnemo_core.lifecycle.consolidation.joining.pairs import (
    PairPlan,
    PairWalk,
    is_decided,
    joinable,
    near_pairs,
    pair_decision,
)
from mnemo_core.lifecycle.consolidation.joining.replacing import absorb_operation
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.retrieval.result_selection import is_apart
from mnemo_core.text.canonical import canonical_form, difference, obviously_differ, unchanged_words
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.segmentation import sentences
from mnemo_store.records import DEFAULT_NAMESPACE, TRUSTS, Memory

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
        winner = min((memory, *group), key=lambda each: _order(state, each))
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
    texts = one.content, other.content
    plain = tuple(map(_in_plain_construction, texts))
    return any(_are_equal(*pair) for pair in dict.fromkeys((texts, plain)))


def _in_plain_construction(text: str) -> str:
    for pattern, plain in _CONSTRUCTIONS:
        text = pattern.sub(plain, text)
    return text


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


def _order(state: CycleState, memory: Memory) -> tuple[bool, int, float, int, int, int, str]:
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
