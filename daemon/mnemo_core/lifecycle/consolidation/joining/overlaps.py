"""The step that flags memories of core which overlap, once. SPEC 9.2 [G24]"""

from mnemo_core.lifecycle.consolidation.cycle import CycleOperation, Planning
from mnemo_core.lifecycle.consolidation.joining.pairs import PairPlan, is_decided, joinable, near_pairs, pair_decision
from mnemo_core.lifecycle.consolidation.state import CycleState

PLACE = "lifecycle_overlaps_at"


def plan_overlap_scan(state: CycleState) -> Planning:
    """Plan the flags of pairs in core that are more alike than the threshold. A flag changes no memory."""
    yield from ()
    mask = joinable(state) & state.has("layer", "core")
    plan = PairPlan(state, PLACE, mask & state.live())
    for memory, near in plan.pairs(near_pairs(state, plan.walk, mask, lambda limits: limits.core_overlap)):
        pair = memory, near.memory
        if near.similarity > state.thresholds(memory.namespace).core_overlap and not is_decided(
            state, *pair, "overlap"
        ):
            flag = pair_decision(state, "overlap", *pair, "done")
            ids = (flag.data.memory, flag.data.other)
            plan.add("overlap", *pair, CycleOperation("overlap", ids, (flag,), f"cosine {near.similarity:.2f}"))
    return plan.result()
