"""Memories that leave the buffer: for the working layer, for want of room, or because they are weak. SPEC 9.3, 9.4

Three ways lead to the working layer: the verdict of triage, use, and time for lessons and procedures. Triage archives
what is passing, but only of what an entry point took in with every text of a stream; what was said on purpose, pinned
memories and turns, which have tiers of their own, stay. With the profile G it archives nothing, and the excess of a
full buffer goes to the trash, whoever said it.

Of weak memories nothing is deleted. What an entry point took in with every text of a stream is archived: it is still
recalled, ranked lower. What was said on purpose goes to the working layer. Turns stay, since each of their tiers has a
bound. With the profile G both go to the trash. [G14] Memories of kind `working` end with their session (`plan_drop`)
and are left out of the rest.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import reinforcement
from mnemo_core.ingest.mutations import move_to_trash
from mnemo_core.lifecycle.consolidation.cycle import (
    CHANGES_PER_STEP,
    CycleOperation,
    Planning,
    StepPlan,
    TaskQuestion,
    first_fitting,
)
from mnemo_core.lifecycle.consolidation.review import archive, first_open, was_rejected
from mnemo_core.lifecycle.consolidation.state import TRIAGED, CycleState, Mask, moved, retagged
from mnemo_core.llm.triage import TRIAGE, TriageAnswer
from mnemo_store.records import HOOK_SOURCE, TAGS_MAX, UNREQUESTED_SOURCES, Memory, PutMemory

EVICTED_BELOW = 0.01  # strength in the buffer [G14]
WORKING_MS = 24 * 3_600_000  # a memory of kind `working` is archived that long after its last use or change


def evict(memory: Memory, reason: str) -> CycleOperation:
    """The operation that takes a memory out of the buffer."""
    if memory.source in UNREQUESTED_SOURCES:
        return archive(memory, reason)
    return CycleOperation("promote", (memory.id,), (PutMemory(data=moved(memory, "working")),), reason)


def trash(memory: Memory, reason: str, now: int) -> CycleOperation:
    """The operation that moves a memory to the trash."""
    return CycleOperation("delete", (memory.id,), move_to_trash(memory, reason, now), reason)


def is_trashed(state: CycleState) -> Mask:
    """The mask of the memories that go to the trash where the buffer evicts them."""
    mask: Mask = state.column("pinned") == 0
    return mask & state.follows(lambda policy: policy.evicted == "trashed")


def plan_drop(state: CycleState) -> Planning:
    """Archive memories of kind `working` whose session or day is over, and evict from the buffer what is too weak."""
    yield from ()
    live = state.live() & (state.column("pinned") == 0)
    is_working = state.has("kind", "working")
    is_old = np.maximum(state.column("last_accessed"), state.column("modified_at")) <= state.now - WORKING_MS
    over = first_open(state, "archive", (live & is_working & is_old).nonzero()[0])
    recent = state.records((live & is_working & ~is_old).nonzero()[0])
    over += [each for each in recent if _has_ended(each, state) and not was_rejected(state, "archive", each)]
    is_weak = state.has("layer", "buffer") & (state.strengths() < EVICTED_BELOW) & (state.column("tier") == 0)
    is_weak &= live & ~is_working
    gone = first_open(state, "delete", (is_weak & is_trashed(state)).nonzero()[0])
    is_weak &= ~is_trashed(state)
    is_unrequested = state.has("source", *UNREQUESTED_SOURCES)
    weak = first_open(state, "archive", (is_weak & is_unrequested).nonzero()[0])
    weak += first_open(state, "promote", (is_weak & ~is_unrequested).nonzero()[0])
    operations = [archive(memory, "its session or its day is over") for memory in over]
    reason = f"its strength is below {EVICTED_BELOW}"
    operations += [evict(memory, reason) for memory in weak] + [trash(memory, reason, state.now) for memory in gone]
    return StepPlan(first_fitting(operations))


def _has_ended(memory: Memory, state: CycleState) -> bool:
    """Return whether the session of a memory has ended since it was used or changed last."""
    session = state.session(memory) if memory.session_id else None
    return session is not None and max(state.usage(memory).last_accessed, memory.modified_at) <= session.ended_at


Rows = NDArray[np.intp]

TRIAGED_MS = 10 * 60_000  # a memory that is older is triaged [G13]
TRIAGED_MAX = 20  # memories a cycle; where a buffer is full, as many unclear ones again [G13]
USED_MIN = 5.0  # reinforcement from which a memory is promoted [G12]
EPOCHS_MIN = 4  # after which a lesson or a procedure is promoted [G12]
BUFFER_MAX = 200  # memories of a namespace [G14]

_Outcome = CycleOperation | PutMemory  # the latter: it is kept, and not triaged again


def plan_triage(state: CycleState) -> Planning:
    """Promote, keep or archive memories of the buffer, as the task `triage` says: those of each namespace in turn, what
    was said on purpose first, then the oldest."""
    created_at = state.column("created_at")
    rows, namespaces = waits_for_triage(state).nonzero()[0], state.column("namespace")
    rows = rows[np.lexsort((created_at[rows], _is_unrequested(state)[rows], namespaces[rows]))]
    outcomes: list[_Outcome] = []
    for row in rows[np.argsort(_places(namespaces[rows]), kind="stable")]:
        for memory in state.records([row]):
            if len(memory.tags) < TAGS_MAX:  # else there is no room for the mark that it was triaged
                answer: TriageAnswer = yield TaskQuestion(TRIAGE, state.inputs(memory))
                outcomes.append(_outcome(state, memory, answer))
        if len(outcomes) == TRIAGED_MAX:
            break
    return _plan_of(outcomes)


def waits_for_triage(state: CycleState) -> Mask:
    """The mask of the memories that triage may judge now."""
    waiting: Mask = _in_buffer(state) & (state.column("created_at") < state.now - TRIAGED_MS)
    return waiting & ~state.tagged(TRIAGED, "distilled", "auto-distilled", "ephemeral")


def plan_promotion(state: CycleState) -> Planning:
    """Promote memories that were used often, and lessons and procedures that are some epochs old."""
    yield from ()
    in_buffer, created_at = _in_buffer(state), state.column("created_at")
    is_used = in_buffer & (state.reinforcements() >= USED_MIN)
    is_lasting = in_buffer & ~is_used & (state.tagged("lesson") | state.has("kind", "procedural"))
    is_lasting &= (state.column("tier") == 0) & ~state.tagged("distilled", "auto-distilled")
    is_lasting &= ~state.has("source", HOOK_SOURCE)
    used = is_used.nonzero()[0].tolist()
    ripe = [row for row in is_lasting.nonzero()[0].tolist() if state.epochs_since(int(created_at[row])) >= EPOCHS_MIN]
    reasons = dict.fromkeys(state.ids(used), "it was used often")
    reasons |= dict.fromkeys(state.ids(ripe), f"it is {EPOCHS_MIN} epochs old")
    memories = first_open(state, "promote", [*used, *ripe])
    return StepPlan([_promote(memory, reasons[memory.id]) for memory in memories])


def plan_cap(state: CycleState) -> Planning:
    """Take the weakest memories out of a buffer that has too many of a namespace. What was said on purpose goes to the
    working layer. The others are triaged: the rules decide clear cases at every level, and kept ones stay."""
    excess = _excess(state)
    is_gone = is_trashed(state)[excess]
    gone = first_open(state, "delete", excess[is_gone])
    outcomes: list[_Outcome] = [trash(memory, "the buffer is full", state.now) for memory in gone]
    questions_left = TRIAGED_MAX if state.options.may_ask(TRIAGE) else CHANGES_PER_STEP
    for memory in first_open(state, "promote", excess[~is_gone]):
        if not _may_archive(memory):
            outcomes.append(_promote(memory, "the buffer is full"))
            continue
        if len(memory.tags) == TAGS_MAX:  # there is no room for the mark that it was triaged
            continue
        inputs = state.inputs(memory)
        if TRIAGE.is_clear(inputs):
            outcomes.append(_outcome(state, memory, TRIAGE.fallback(inputs)))
        elif questions_left:
            questions_left -= 1
            answer: TriageAnswer = yield TaskQuestion(TRIAGE, inputs)
            outcomes.append(_outcome(state, memory, answer))
    return _plan_of(outcomes)


def _in_buffer(state: CycleState) -> Mask:
    return state.live() & state.has("layer", "buffer") & ~state.has("kind", "working")


def _excess(state: CycleState) -> Rows:
    """The rows by which namespaces exceed the cap and that triage has not kept: the weakest, of equals the oldest.
    Turns do not count, since each of their tiers has a bound."""
    rows = (_in_buffer(state) & (state.column("tier") == 0)).nonzero()[0]
    namespaces = state.column("namespace")
    weakest_first = rows[np.lexsort((state.column("created_at")[rows], state.strengths()[rows], namespaces[rows]))]
    strongest_first = weakest_first[::-1]
    excess = strongest_first[_places(namespaces[strongest_first]) >= BUFFER_MAX][::-1]
    is_kept = state.tagged(TRIAGED) & _is_unrequested(state) & ~is_trashed(state)
    found: Rows = excess[~is_kept[excess]]
    return found


def _is_unrequested(state: CycleState) -> Mask:
    return state.has("source", *UNREQUESTED_SOURCES)


def _places(groups: NDArray[np.int32]) -> NDArray[np.intp]:
    """The place of each item among those of its group, whose items follow one another."""
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    places: NDArray[np.intp] = np.arange(len(groups)) - first[group]
    return places


def _may_archive(memory: Memory) -> bool:
    """Return whether triage may archive a memory: one that nobody wanted to be kept, and that is in no tier."""
    return memory.source in UNREQUESTED_SOURCES and not memory.pinned and memory.turn is None


def _outcome(state: CycleState, memory: Memory, answer: TriageAnswer) -> _Outcome:
    """The operation of a verdict; one that a person took back is not planned again, and the memory is kept."""
    if answer.verdict == "promote" and not was_rejected(state, "promote", memory):
        return _promote(memory, "it is worth keeping")
    was_used = reinforcement(state.usage(memory)) > 0  # it would be active again with the next recall
    may_archive = _may_archive(memory) and state.policy(memory.namespace).evicted == "kept"
    is_passing = answer.verdict == "archive" and may_archive and not was_used
    if is_passing and not was_rejected(state, "archive", memory):
        return archive(memory, "it is passing")
    return PutMemory(data=retagged(memory, (*memory.tags, TRIAGED)))


def _promote(memory: Memory, reason: str) -> CycleOperation:
    return CycleOperation("promote", (memory.id,), (PutMemory(data=moved(memory, "working")),), reason)


def _plan_of(outcomes: Sequence[_Outcome]) -> StepPlan:
    kept = [each for each in outcomes if isinstance(each, PutMemory)]
    operations = [each for each in outcomes if isinstance(each, CycleOperation)]
    return StepPlan(first_fitting(operations, CHANGES_PER_STEP - len(kept)), kept, {"keep": len(kept)})
