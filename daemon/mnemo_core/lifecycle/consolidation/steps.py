"""The steps of a cycle, in their order. SPEC 9.2"""

from mnemo_core.decay import EPOCH
from mnemo_core.lifecycle.consolidation.cycle import CycleStep, Planning, StepPlan
from mnemo_core.lifecycle.consolidation.distillation import plan_session_distillation
from mnemo_core.lifecycle.consolidation.eviction import plan_drop
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_store.records import PutMeta


def plan_decay(state: CycleState) -> Planning:
    """Count the epoch, by which every strength that is read from now on has decayed. SPEC 2.2

    A cycle of one namespace counts none: the epoch is that of all.
    """
    yield from ()
    if state.options.namespace:
        return StepPlan()
    epoch = state.epoch + 1
    return StepPlan(changes=[PutMeta(name=EPOCH, value=str(epoch))], counts={"epoch": epoch})


STEPS: tuple[CycleStep, ...] = (
    CycleStep("session_distillation", "Make a status from new session notes.", plan_session_distillation),
    CycleStep("decay", "Count the epoch, by which strengths decay.", plan_decay),
    CycleStep("drop", "Archive or move what is too weak for the buffer, and what was about a session.", plan_drop),
)
