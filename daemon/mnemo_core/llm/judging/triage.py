"""The task `triage`: whether a memory of the buffer is promoted, kept or archived. SPEC 12.2

An archived memory is still recalled; nothing is deleted by it. A model decides the cases between what a rule promotes
and what a rule takes for passing.
"""

from typing import Literal

import msgspec

from mnemo_core.llm.judging.memory_cues import MemoryCues, cues_of
from mnemo_core.llm.tasks import LlmTask, MemoryFacts, Probe, TaskInputs
from mnemo_core.text.languages import content_words
from mnemo_core.text.lexicon import listed
from mnemo_core.text.segmentation import sentences
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
    cues = cues_of(inputs)
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
    match staying_of(inputs, cues_of(inputs)):
        case "lasting":
            return TriageAnswer("promote")
        case "passing":
            return TriageAnswer("archive")
        case "open":
            return TriageAnswer("keep")


def is_decided(inputs: TaskInputs) -> bool:
    """Return whether a rule promotes the memory or takes it for passing."""
    return staying_of(inputs, cues_of(inputs)) != "open"


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
    answer=TriageAnswer,
    validate=validate_triage,
    fallback=triage_by_rule,
    is_clear=is_decided,
    max_tokens=20,
    probes=(
        _probe("The key to the boiler room is kept by the caretaker in the next house.", "promote"),
        _probe("Whoever closes the shop in the evening has to switch off the oven and the lights.", "promote"),
        _probe("well then, that was quite a day and now it is time to go to bed", "archive"),
        _probe("so I am sitting here and waiting for the page to load, slow as ever", "archive"),
        _probe("In the afternoon we repaired the fence behind the barn with the neighbours.", "keep"),
    ),
)
