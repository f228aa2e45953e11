"""The steps of a cycle, in their order. SPEC 9.2"""

from mnemo_core.decay import EPOCH
from mnemo_core.lifecycle.consolidation.buffer import plan_cap, plan_drop, plan_promotion, plan_triage
from mnemo_core.lifecycle.consolidation.core_admission import plan_core_hygiene, plan_gate, plan_tag_cleanup
from mnemo_core.lifecycle.consolidation.cycle import CycleStep, Planning, StepPlan
from mnemo_core.lifecycle.consolidation.distillation import plan_session_distillation, plan_topic_distillation
from mnemo_core.lifecycle.consolidation.merging import (
    plan_merge,
    plan_near_duplicates,
    plan_overlap_scan,
    plan_reconciliation,
)
from mnemo_core.lifecycle.consolidation.state import CycleState
from mnemo_core.llm.merge import MERGE
from mnemo_core.llm.reconcile import RECONCILE
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


def plan_core_summary(state: CycleState) -> Planning:
    """Report how many memories stand in core. Their summary is that of the resume, whose job condenses what a resume
    had no room for (`resume_lines`)."""
    yield from ()
    return StepPlan(counts={"core": int((state.live() & state.has("layer", "core")).sum())})


STEPS: tuple[CycleStep, ...] = (
    CycleStep("tags", "Remove the tags of rejections and promotions that are over.", plan_tag_cleanup),
    CycleStep("triage", "Promote, keep or archive new memories of the buffer.", plan_triage),
    CycleStep("promotion", "Promote used memories, lessons and procedures from the buffer.", plan_promotion),
    CycleStep("cap", "Take the weakest memories out of a buffer that is full.", plan_cap),
    CycleStep("hygiene", "Demote from core what does not belong there.", plan_core_hygiene),
    CycleStep("overlap", "Flag memories of core that overlap, once.", plan_overlap_scan),
    CycleStep("gate", "Promote to core what the gate admits.", plan_gate),
    CycleStep("reconcile", "Let newer memories replace older ones about the same.", plan_reconciliation, RECONCILE),
    CycleStep("session_distillation", "Make a status from new session notes.", plan_session_distillation),
    CycleStep("near_duplicates", "Keep one of the memories of the buffer that say the same.", plan_near_duplicates),
    CycleStep("merge", "Merge memories that say nearly the same.", plan_merge, MERGE),
    CycleStep("topic_distillation", "Unite the members of large topics that overlap.", plan_topic_distillation),
    CycleStep("core_summary", "Count what stands in core, of which resumes are summaries.", plan_core_summary),
    CycleStep("decay", "Count the epoch, by which strengths decay.", plan_decay),
    CycleStep("drop", "Archive or promote weak memories of the buffer; archive those of ended sessions.", plan_drop),
)
