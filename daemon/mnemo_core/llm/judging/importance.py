"""The task `judge_importance`: how much a memory matters. SPEC 2.1, 12.2 [T22, M25]

A model moves the importance that the rules give by three steps at most, and raises none that a rule keeps out of core:
a text that praises itself gains nothing by it.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.judging.memory_cues import MemoryCues, cues_of, describes_user
from mnemo_core.llm.judging.triage import staying_of
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs

STEPS = 10  # importance is steps / STEPS
STEPS_MOVED_MAX = 3  # the width of a band [T22]: low 0 to 3, medium 4 to 6, high 7 to 10

_OF_STAYING: Mapping[str, int] = {"passing": 2, "open": 5, "lasting": 7}  # crumb .2, project .7 [M25]
_OF_CATEGORY: Mapping[str, int] = {"constraint": 9, "lesson": 8, "decision_rationale": 8, "identity": 7}
_PREFERENCE = 6
_OF_TAG: Mapping[str, int] = {  # steps more [M25]
    "critical": 3, "important": 3, "blocker": 3, "urgent": 2, "goal": 2, "milestone": 2, "do_not_assume": 2,
    "failure": 1, "success": 1,
}  # fmt: skip


class ImportanceAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The importance of a memory in steps of a tenth."""

    steps: Annotated[int, Meta(ge=0, le=STEPS)]

    @property
    def importance(self) -> float:
        """The importance in 0 to 1."""
        return self.steps / STEPS


def validate_importance(answer: ImportanceAnswer, inputs: TaskInputs) -> str:
    """Return why a verdict is rejected; "" if it is accepted."""
    cues = cues_of(inputs)
    ruled = _rated(inputs, cues).steps
    if abs(answer.steps - ruled) > STEPS_MOVED_MAX:
        return f"{answer.steps} steps are too far from the {ruled} of the rules"
    if answer.steps > ruled and cues.barred:
        return f"the memory is not raised: {cues.barred}"
    return ""


def rate_by_rule(inputs: TaskInputs) -> ImportanceAnswer:
    """Rate a memory by what it is evidence of, and by its tags."""
    return _rated(inputs, cues_of(inputs))


def is_rated(inputs: TaskInputs) -> bool:
    """Return whether a strong cue, or the lack of any matter, settles the importance."""
    cues = cues_of(inputs)
    return cues.strong is not None or staying_of(inputs, cues) == "passing"


def _rated(inputs: TaskInputs, cues: MemoryCues) -> ImportanceAnswer:
    if cues.strong == "identity" and not describes_user(inputs.sources[0]):
        steps = _PREFERENCE
    elif cues.strong:
        steps = _OF_CATEGORY[cues.strong]
    else:
        steps = _OF_STAYING[staying_of(inputs, cues)]
    more = max((_OF_TAG.get(tag, 0) for tag in inputs.facts_of(1).tags), default=0)
    return ImportanceAnswer(min(steps + more, STEPS))


def _probe(text: str, least: int, most: int) -> Probe:
    return Probe(TaskInputs((text,)), lambda answer: least <= answer.steps <= most)


JUDGE_IMPORTANCE = LlmTask(
    site="judge_importance",
    instruction=(
        "Source 1 is a memory of an assistant. Rate how much it will matter later, in steps from 0 to 10. 7 to 10: "
        "facts about the user, rules, decisions, deadlines, health. 4 to 6: useful context, events, results. 0 to 3: "
        "small talk and what is over in an hour."
    ),
    answer=ImportanceAnswer,
    validate=validate_importance,
    fallback=rate_by_rule,
    is_clear=is_rated,
    max_tokens=20,
    probes=(
        _probe("The baby must be given the heart medicine at six in the morning and at six in the evening.", 7, 10),
        _probe("The tax return is due on the last day of July, with a fine for each week after it.", 7, 10),
        _probe("Went for a walk along the canal and saw two herons near the lock.", 3, 6),
        _probe("hm, let me think about that for a bit and have some tea before", 0, 3),
        _probe("well I suppose that is all there is to say about it, so there", 0, 3),
    ),
)
