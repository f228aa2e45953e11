"""Three tasks that judge one memory. SPEC 2.1, 12.2 [T22, M25]

`triage`: whether a memory of the buffer is promoted, kept or archived. An archived memory is still recalled; nothing is
deleted by it. A model decides the cases between what a rule promotes and what a rule takes for passing.

`gate`: whether a memory enters core, and as what. Core admits lessons, identity, unconditional constraints and the
rationale of decisions. A model may turn down any memory; it may admit one only as a category for which the memory's own
words give a cue, and none that a rule bars. The memory is judged in a prompt of its own, so that it can speak for no
other.

`judge_importance`: how much a memory matters. A model moves the importance that the rules give by three steps at most,
and raises none that a rule keeps out of core: a text that praises itself gains nothing by it.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mnemo_core.ingest.memory_cues import MemoryCues, MemoryFacts, cues_of, describes_user
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.languages import content_words, sentences
from mnemo_core.text.lexicon import listed
from mnemo_core.text.text_features import TextFeature, features_of_text

# From here on a memory is promoted without more ado [G13].
ACCESSES_MIN, REPETITIONS_MIN, IMPORTANCE_MIN = 4, 2, 0.7
WORDS_OF_PASSING = 2  # a text of no more words that say something, and without a specific, is passing
SENTENCES_OF_PASSING = 2  # a longer text says more than that it asks something at its end, or of whom
_SIGNAL_TAGS = listed("lesson procedural preference constraint")
_PASSING = listed("crumb request")
_SPECIFIC = (
    TextFeature.HAS_NUMBER | TextFeature.HAS_DATE | TextFeature.HAS_PROPER | TextFeature.HAS_PLACE
    | TextFeature.HAS_MONEY_OR_UNIT
)  # fmt: skip


Verdict = Literal["archive", "keep", "promote"]


class TriageAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    verdict: Verdict


def validate_triage(answer: TriageAnswer, inputs: TaskInputs) -> str:
    """Return why a verdict is rejected; "" if it is accepted."""
    cues = cues_of(*inputs.judged)
    match answer.verdict, staying_of(inputs, cues):
        case "archive", "lasting":
            return "the memory has signs of what lasts"
        case "archive", "open" if has_specific(inputs.sources[0]):
            return "the memory has a number, date or name"
        case "promote", "passing":
            return "the memory is passing"
        case "promote", "open" if cues.barred:
            return f"the memory is not promoted: {cues.barred}"
    return ""


def triage_by_rule(inputs: TaskInputs) -> TriageAnswer:
    """Promote what has signs of what lasts, archive what is passing, and keep the rest."""
    match staying_of(inputs, cues_of(*inputs.judged)):
        case "lasting":
            return TriageAnswer("promote")
        case "passing":
            return TriageAnswer("archive")
        case "open":
            return TriageAnswer("keep")


def is_decided(inputs: TaskInputs) -> bool:
    """Return whether a rule promotes the memory or takes it for passing."""
    return staying_of(inputs, cues_of(*inputs.judged)) != "open"


def staying_of(inputs: TaskInputs, cues: MemoryCues) -> Literal["lasting", "passing", "open"]:
    """Return whether a memory was used or says what lasts, or will not matter after its moment; else it is open."""
    text, facts = inputs.sources[0], inputs.facts_of(1)
    if facts.access_count >= ACCESSES_MIN or facts.repetition_count >= REPETITIONS_MIN:
        return "lasting"
    is_signalled = (
        facts.importance >= IMPORTANCE_MIN
        or facts.category == "project"
        or not _SIGNAL_TAGS.isdisjoint(facts.tags)
        or any(tag.startswith("trigger:") for tag in facts.tags)
    )
    is_state = facts.kind == "semantic" and facts.category != "decision"  # one with a reason is a strong cue
    if cues.strong or (not cues.barred and (is_signalled or (is_state and has_specific(text)))):
        return "lasting"
    if facts.kind != "working" and len(sentences(text)) > SENTENCES_OF_PASSING:
        return "open"
    is_over = facts.kind == "working" or facts.category in _PASSING
    is_bare = facts.kind != "semantic" and len(content_words(text)) <= WORDS_OF_PASSING and not has_specific(text)
    is_asked = features_of_text(text) & TextFeature.ENDS_WITH_QUESTION
    return "passing" if is_over or is_bare or is_asked else "open"


def has_specific(text: str) -> bool:
    """Return whether a text has a number, date or name."""
    return bool(features_of_text(text) & _SPECIFIC)


def _probe(text: str, *right: str) -> Probe:
    return Probe(TaskInputs((text,), facts=(MemoryFacts(layer="buffer"),)), lambda answer: answer.verdict in right)


TRIAGE = LlmTask(
    site="triage",
    instruction=(
        "Source 1 is a new memory of an assistant. Say what to do with it. promote: knowledge that helps in the weeks "
        "to come, such as a preference, rule, lesson, decision, contact or deadline. keep: an event or result that may "
        "matter. archive: small talk, a passing state or something already done with."
    ),
    answer=TriageAnswer, validate=validate_triage, fallback=triage_by_rule, is_clear=is_decided, max_tokens=20,
    probes=(
        _probe("The key to the boiler room is kept by the caretaker in the next house.", "promote"),
        _probe("Whoever closes the shop in the evening has to switch off the oven and the lights.", "promote"),
        _probe("well then, that was quite a day and now it is time to go to bed", "archive"),
        _probe("so I am sitting here and waiting for the page to load, slow as ever", "archive"),
        _probe("In the afternoon we repaired the fence behind the barn with the neighbours.", "keep"),
    ),
)  # fmt: skip


class GateAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The category as which a memory enters core; `none`: it stays where it is."""

    category: Literal["lesson", "identity", "constraint", "decision_rationale", "none"]


def validate_gate(answer: GateAnswer, inputs: TaskInputs) -> str:
    """Return why a verdict is rejected; "" if it is accepted."""
    if answer.category == "none":
        return ""
    cues = cues_of(*inputs.judged)
    if cues.barred:
        return f"the memory must not enter core: {cues.barred}"
    return "" if answer.category in cues.weak else f"no words of the memory speak for {answer.category}"


def gate_by_rule(inputs: TaskInputs) -> GateAnswer:
    """Admit a memory as the category for which it has a strong cue."""
    return GateAnswer(cues_of(*inputs.judged).strong or "none")


def is_admission_decided(inputs: TaskInputs) -> bool:
    """Return whether the rules decide: by a strong cue, or since there is nothing that a model may admit."""
    cues = cues_of(*inputs.judged)
    return bool(cues.strong or not cues.weak)


def _gate_probe(text: str, *right: str) -> Probe:
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
    answer=GateAnswer, validate=validate_gate, fallback=gate_by_rule, is_clear=is_admission_decided, max_tokens=20,
    probes=(
        _gate_probe("It turned out that the pump fails whenever the inlet is above the water line.", "lesson"),
        _gate_probe("My sister and I run the bakery on Mill Street together.", "identity", "none"),
        _gate_probe("Backups must be encrypted before they leave the building.", "constraint"),
        _gate_probe(
            "We chose slate over tiles because the old roof frame cannot carry more weight.", "decision_rationale"
        ),
        _gate_probe("We had never seen so many people at the market as last Saturday.", "none"),
        _gate_probe("I must remember to buy milk on the way home.", "none"),
    ),
)  # fmt: skip

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
    cues = cues_of(*inputs.judged)
    ruled = _rated(inputs, cues).steps
    if abs(answer.steps - ruled) > STEPS_MOVED_MAX:
        return f"{answer.steps} steps are too far from the {ruled} of the rules"
    if answer.steps > ruled and cues.barred:
        return f"the memory is not raised: {cues.barred}"
    return ""


def rate_by_rule(inputs: TaskInputs) -> ImportanceAnswer:
    """Rate a memory by what it is evidence of, and by its tags."""
    return _rated(inputs, cues_of(*inputs.judged))


def is_rated(inputs: TaskInputs) -> bool:
    """Return whether a strong cue, or the lack of any matter, settles the importance."""
    cues = cues_of(*inputs.judged)
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


def _importance_probe(text: str, least: int, most: int) -> Probe:
    return Probe(TaskInputs((text,)), lambda answer: least <= answer.steps <= most)


JUDGE_IMPORTANCE = LlmTask(
    site="judge_importance",
    instruction=(
        "Source 1 is a memory of an assistant. Rate how much it will matter later, in steps from 0 to 10. 7 to 10: "
        "facts about the user, rules, decisions, deadlines, health. 4 to 6: useful context, events, results. 0 to 3: "
        "small talk and what is over in an hour."
    ),
    answer=ImportanceAnswer, validate=validate_importance, fallback=rate_by_rule, is_clear=is_rated, max_tokens=20,
    probes=(
        _importance_probe(
            "The baby must be given the heart medicine at six in the morning and at six in the evening.", 7, 10
        ),
        _importance_probe("The tax return is due on the last day of July, with a fine for each week after it.", 7, 10),
        _importance_probe("Went for a walk along the canal and saw two herons near the lock.", 3, 6),
        _importance_probe("hm, let me think about that for a bit and have some tea before", 0, 3),
        _importance_probe("well I suppose that is all there is to say about it, so there", 0, 3),
    ),
)  # fmt: skip
