"""Memories that leave the buffer because they are weak, and those of kind `working` whose time is over. SPEC 9.3, 9.4

Nothing is deleted. What an entry point took in with every text of a stream is archived: it is still recalled, ranked
lower. What was said on purpose goes to the working layer. Turns stay, since each of their tiers has a bound. With the
profile G both go to the trash. [G14]
"""

import numpy as np

from mnemo_core.ingest.mutations import move_to_trash
from mnemo_core.lifecycle.consolidation.cycle import CHANGES_PER_STEP, CycleOperation, Planning, StepPlan, first_fitting
from mnemo_core.lifecycle.consolidation.review import archive, first_open, was_rejected
from mnemo_core.lifecycle.consolidation.state import CycleState, Mask, moved
from mnemo_store.records import UNREQUESTED_SOURCES, Memory, PutMemory

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
    over = first_open(state, "archive", (live & is_working & is_old).nonzero()[0], CHANGES_PER_STEP)
    recent = state.records((live & is_working & ~is_old).nonzero()[0])
    over += [each for each in recent if _has_ended(each, state) and not was_rejected(state, "archive", each)]
    is_weak = state.has("layer", "buffer") & (state.strengths() < EVICTED_BELOW) & (state.column("tier") == 0)
    is_weak &= live & ~is_working
    gone = first_open(state, "delete", (is_weak & is_trashed(state)).nonzero()[0], CHANGES_PER_STEP)
    is_weak &= ~is_trashed(state)
    is_unrequested = state.has("source", *UNREQUESTED_SOURCES)
    weak = first_open(state, "archive", (is_weak & is_unrequested).nonzero()[0], CHANGES_PER_STEP)
    weak += first_open(state, "promote", (is_weak & ~is_unrequested).nonzero()[0], CHANGES_PER_STEP)
    operations = [archive(memory, "its session or its day is over") for memory in over]
    reason = f"its strength is below {EVICTED_BELOW}"
    operations += [evict(memory, reason) for memory in weak] + [trash(memory, reason, state.now) for memory in gone]
    return StepPlan(first_fitting(operations))


def _has_ended(memory: Memory, state: CycleState) -> bool:
    """Return whether the session of a memory has ended since it was used or changed last."""
    session = state.session(memory) if memory.session_id else None
    return session is not None and max(state.usage(memory).last_accessed, memory.modified_at) <= session.ended_at
