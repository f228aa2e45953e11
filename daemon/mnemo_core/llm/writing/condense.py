"""The task `condense`: a long text, or the notes of a session, in at most 250 characters. SPEC 12.2

The condensed text stands next to its sources and replaces none: it is the summary by which an item of a conversation
comes back, and the status of a session.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.llm.writing.summarize import rejection_of_digest, select_sentences

CONDENSED_CHARACTERS = 250  # [G 3.3]
_SENTENCES_MAX = 3


class CondensedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task."""

    text: Annotated[str, Meta(min_length=1, max_length=CONDENSED_CHARACTERS)]


def validate_condensed(answer: CondensedText, inputs: TaskInputs) -> str:
    """Return why a condensed text is rejected; "" if it is accepted."""
    return rejection_of_digest(answer.text, inputs.sources)


def condense_by_sentences(inputs: TaskInputs) -> CondensedText:
    """Select the whole sentences that cover most."""
    return CondensedText(select_sentences(inputs.sources, CONDENSED_CHARACTERS, _SENTENCES_MAX))


def is_short(inputs: TaskInputs) -> bool:
    """Return whether the sources are short enough as they are."""
    return sum(len(source) + 1 for source in inputs.sources) <= CONDENSED_CHARACTERS


def _probe(said: str, *sources: str) -> Probe:
    return Probe(TaskInputs(sources), lambda answer: said in answer.text)


_TALK = "We talked about the weather for a while, as on every other day of that long and rainy week in the office. "

CONDENSE = LlmTask(
    site="condense",
    instruction=(
        "Say the most important of the sources in one or two short sentences, in their language and in their words. "
        "Keep names, numbers and dates as they are written and add nothing."
    ),
    answer=CondensedText,
    validate=validate_condensed,
    fallback=condense_by_sentences,
    is_clear=is_short,
    max_tokens=150,
    probes=(
        _probe("8080", _TALK + "The proxy now listens on port 8080. " + _TALK),
        _probe("Berlin", _TALK * 2 + "Anna moved to Berlin."),
        _probe("Friday", "The release is planned for Friday. " + _TALK * 2),
        _probe("Marta", _TALK, "Marta found the cause of the crash.", _TALK),
    ),
)
