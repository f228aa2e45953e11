"""The task `gate`: whether a memory enters core, and as what. SPEC 12.2

Core admits lessons, identity, unconditional constraints and the rationale of decisions. A model may turn down any
memory; it may admit one only as a category for which the memory's own words give a cue, and none that a rule bars. The
memory is judged in a prompt of its own, so that it can speak for no other.
"""

from typing import Literal

import msgspec

from mnemo_core.llm.judging.memory_cues import cues_of
from mnemo_core.llm.tasks import LlmTask, MemoryFacts, Probe, TaskInputs


class GateAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The category as which a memory enters core; `none`: it stays where it is."""

    category: Literal["lesson", "identity", "constraint", "decision_rationale", "none"]


def validate_gate(answer: GateAnswer, inputs: TaskInputs) -> str:
    """Return why a verdict is rejected; "" if it is accepted."""
    if answer.category == "none":
        return ""
    cues = cues_of(inputs)
    if cues.barred:
        return f"the memory must not enter core: {cues.barred}"
    return "" if answer.category in cues.weak else f"no words of the memory speak for {answer.category}"


def gate_by_rule(inputs: TaskInputs) -> GateAnswer:
    """Admit a memory as the category for which it has a strong cue."""
    return GateAnswer(cues_of(inputs).strong or "none")


def is_decided(inputs: TaskInputs) -> bool:
    """Return whether the rules decide: by a strong cue, or since there is nothing that a model may admit."""
    cues = cues_of(inputs)
    return bool(cues.strong or not cues.weak)


def _probe(text: str, *right: str) -> Probe:
    return Probe(TaskInputs((text,), facts=(MemoryFacts(layer="working"),)), lambda answer: answer.category in right)


GATE = LlmTask(
    site="gate",
    instruction=(
        "Source 1 is a memory of an assistant. Decide whether it belongs to the few that are kept in mind for ever. "
        "lesson: an insight from a mistake or from experience. identity: who the user is, or a lasting preference. "
        "constraint: a rule that always holds. decision_rationale: a lasting decision with its reason. none: anything "
        "else, also what holds only for now, what is not certain, a question, an event, a plan or small talk. In "
        "doubt, none."
    ),
    answer=GateAnswer,
    validate=validate_gate,
    fallback=gate_by_rule,
    is_clear=is_decided,
    max_tokens=20,
    probes=(
        _probe("It turned out that the pump fails whenever the inlet is above the water line.", "lesson"),
        _probe("My sister and I run the bakery on Mill Street together.", "identity", "none"),
        _probe("Backups must be encrypted before they leave the building.", "constraint"),
        _probe("We chose slate over tiles because the old roof frame cannot carry more weight.", "decision_rationale"),
        _probe("We had never seen so many people at the market as last Saturday.", "none"),
        _probe("I must remember to buy milk on the way home.", "none"),
    ),
)
