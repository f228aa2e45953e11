"""Cues of a memory by rule: for the four categories of core, and against entering it. SPEC 12.2

The tasks that judge a memory share these cues. A strong cue decides without a model; a weak one only allows a model to
decide so. What keeps a memory out decides against any model: it is found in the text alone, so that a text cannot talk
its way past it.
"""

import re
from itertools import zip_longest
from typing import Literal, NamedTuple

from mnemo_core.text.languages import sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation, listed
from mnemo_core.text.preferences import find_preference
from mnemo_core.text.secrets import find_secrets, remove_masks

CoreCategory = Literal["lesson", "identity", "constraint", "decision_rationale"]

NEVER_CORE_TAGS = listed("session ephemeral distilled auto-distilled")
NEVER_CORE_TRUSTS = listed("tool import")


ACCESSES_NOTED, REPETITIONS_NOTED = 30, 2  # fewer say nothing about a memory. SPEC 12.2
STATEMENTS_MAX = 2  # a text of more says several things: a model may say what it is


def cue(section: str) -> re.Pattern[str]:
    """The pattern of a section of the cues of judgement."""
    return lazy_pattern(alternation("judgement", section), re.IGNORECASE)


_LESSON, _IDENTITY, _CONSTRAINT, _DECISION, _REASON = map(
    cue, ("lesson", "identity", "constraint", "decision", "reason")
)
_WEAK: dict[CoreCategory, re.Pattern[str]] = {
    "lesson": cue("lesson_weak"),
    "identity": cue("identity_weak"),
    "constraint": cue("constraint_weak"),
    "decision_rationale": cue("decision_weak"),
}
_TEMPORARY, _CONDITIONAL, _HEDGED, _REPORTED, _CONVERSATION, _ADDRESSED, _SET_PHRASES = map(
    cue, ("temporary", "conditional", "hedged", "reported", "conversation", "addressed", "set_phrases")
)
_QUOTED = lazy_pattern(r"[\"“„][^\"“”\n]{0,300}[\"”]|「[^」\n]{0,200}」")


class MemoryFacts(NamedTuple):
    """Attributes and usage of a memory that a task judges; the defaults say nothing about it."""

    kind: str = ""
    category: str = ""
    layer: str = ""
    trust: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    age_days: int = 0
    access_count: int = 0
    repetition_count: int = 0
    pinned: bool = False

    def description(self) -> str:
        """The facts as words for the prompt; "" for none."""
        parts = [self.layer, self.kind, self.category, "pinned" if self.pinned else ""]
        if self.age_days:
            parts.append(f"{self.age_days} days old")
        if self.access_count >= ACCESSES_NOTED:
            parts.append(f"used {self.access_count} times")
        if self.repetition_count >= REPETITIONS_NOTED:
            parts.append(f"repeated {self.repetition_count} times")
        if self.tags:
            parts.append(f"tagged {' '.join(self.tags)}")
        return ", ".join(filter(None, parts))


class MemoryCues(NamedTuple):
    """The categories that the text and the facts of a memory speak for, and why it may not enter core."""

    strong: CoreCategory | None
    weak: frozenset[CoreCategory]
    barred: str  # why the memory does not enter core, whatever it says; "" if nothing is against it


def cues_of(text: str, facts: MemoryFacts) -> MemoryCues:
    """The cues of a memory."""
    if barred := _barred(text, facts):
        return MemoryCues(None, frozenset(), barred)
    own_words = _SET_PHRASES.sub(" ", _QUOTED.sub(" ", text))
    statements = [said for said in sentences(own_words) if not (_HEDGED.search(said) or _REPORTED.search(said))]
    found = [
        category for said, after in zip_longest(statements, statements[1:], fillvalue="")
        if len(statements) <= STATEMENTS_MAX and (category := _strong(said, after))
    ]  # fmt: skip
    strong = found[0] if found else "lesson" if statements and "lesson" in facts.tags else None
    weak = {category for category, pattern in _WEAK.items() if any(map(pattern.search, statements))}
    return MemoryCues(strong, frozenset(weak.union([strong] if strong else [])), "")


def is_temporary(text: str) -> bool:
    """Return whether a text says of itself that it holds for a while only."""
    return _TEMPORARY.search(text) is not None


def describes_user(text: str) -> bool:
    """Return whether a text says who its writer is, and not only what they like."""
    return _IDENTITY.search(text) is not None


def is_conditional(text: str) -> bool:
    """Return whether a text says that something holds under a condition or for a span."""
    return _CONDITIONAL.search(text) is not None


def is_said_firmly(text: str) -> bool:
    """Return whether a text is neither hedged nor reported, asks nothing and speaks to no judge."""
    return not any(each.search(text) for each in (_HEDGED, _REPORTED, _CONVERSATION, _ADDRESSED))


def holds_constraint(sentence: str) -> bool:
    """Return whether a sentence states a rule: always, never, must not."""
    return _CONSTRAINT.search(sentence) is not None


def _barred(text: str, facts: MemoryFacts) -> str:
    if tags := sorted(NEVER_CORE_TAGS.intersection(facts.tags)):
        return f"it is tagged {tags[0]}"
    if facts.kind == "working":
        return "it is about one session"
    if facts.trust in NEVER_CORE_TRUSTS:
        return f"its trust is {facts.trust}"
    if remove_masks(text) != text or find_secrets(text):
        return "it holds a secret"
    if is_temporary(text):
        return "it holds for a while only"
    if _CONVERSATION.search(text):
        return "it is part of a conversation"
    if _ADDRESSED.search(text):
        return "it speaks of its own place among the memories"
    return ""


def _strong(sentence: str, after: str) -> CoreCategory | None:
    """The category that a sentence speaks for; the reason of a decision may stand in the one after it."""
    if _LESSON.search(sentence):
        return "lesson"
    if _DECISION.search(sentence) and (_REASON.search(sentence) or _REASON.search(after)):
        return "decision_rationale"
    if _CONSTRAINT.search(sentence) and not is_conditional(sentence):
        return "constraint"
    if _IDENTITY.search(sentence) or (find_preference(sentence) and not is_conditional(sentence)):
        return "identity"
    return None
