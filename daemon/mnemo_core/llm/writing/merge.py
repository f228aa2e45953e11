"""The tasks `merge` and `insert_merge`: memories that say nearly the same as one text that keeps all of them. SPEC 12.2

The merged text replaces its sources, so it is verified in both directions: it says what they say, and leaves nothing
out. Sources that contradict each other are kept apart, so that the newer can supersede the older.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import contradiction_between, distortion_of, omission_of
from mnemo_core.llm.grammar import CHARACTERS_MAX
from mnemo_core.llm.grounding import loss_of, rejection_of, single_spaced
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.segmentation import sentences
from mnemo_core.text.tokens import NEGATIONS, OPERATORS


class MergedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the tasks; an empty text keeps the sources apart."""

    text: Annotated[str, Meta(max_length=CHARACTERS_MAX)]


def validate_merge(answer: MergedText, inputs: TaskInputs) -> str:
    """Return why a merged text is rejected; "" if it may replace its sources."""
    if not answer.text.strip():
        return "it merges nothing" if unite_texts(inputs.sources) else ""
    return contradiction_in(inputs.sources) or rejection_of_replacement(answer.text, inputs.sources)


def rejection_of_replacement(text: str, sources: Sequence[str]) -> str:
    """Return why a text must not replace its sources; "" if it says all that they say, and nothing else."""
    often = [Counter(map(single_spaced, sentences(each))) for each in (text, *sources)]
    if any(count > max(1, *(source[sentence] for source in often[1:])) for sentence, count in often[0].items()):
        return "it says a sentence twice"
    return (
        rejection_of(text, sources)
        or loss_of(sources, text)
        or distortion_of(text, sources)
        or omission_of(sources, text)
    )


def contradiction_in(texts: Sequence[str]) -> str:
    """Return where two of the texts contradict each other; "" if they can be one text."""
    found = (contradiction_between(one, other) for one, other in itertools.combinations(texts, 2))
    return next(filter(None, found), "")


def unite_texts(texts: Sequence[str], characters: int = CHARACTERS_MAX) -> str:
    """The longest text, and the sentences of the others that it does not hold; "" if they must be kept apart.

    They must if they contradict each other, or take more than so many characters.
    The order of the texts does not matter.
    """
    ordered = sorted({text.strip() for text in texts if text.strip()}, key=lambda text: (-len(text), text))
    if not ordered or len(ordered[0]) > characters or contradiction_in(ordered):
        return ""
    united = _united(ordered, skip_contained=True)
    if rejection_of_replacement(united, ordered):
        united = _united(ordered, skip_contained=False)
    return united if len(united) <= characters else ""


def _united(ordered: Sequence[str], *, skip_contained: bool) -> str:
    """The first text, and the sentences of the others that do not stand in it already."""
    united = ordered[0]
    kept = {single_spaced(sentence): canonical_form(sentence) for sentence in sentences(united)}
    last = sentences(united)[-1]
    for sentence in (each for text in ordered[1:] for each in sentences(text)):
        form = canonical_form(sentence)
        is_contained = skip_contained and any(_contains(other, form) for other in kept.values())
        if single_spaced(sentence) in kept or is_contained:
            continue
        stays_apart = sentences(f"{last} {sentence}") == [last, sentence]
        united += (" " if stays_apart else "\n") + sentence
        if len(united) > CHARACTERS_MAX:
            break
        kept[single_spaced(sentence)] = form
        last = sentence
    return united


def _contains(form: CanonicalForm, other: CanonicalForm) -> bool:
    """Return whether a sentence says all that another says: in its order, and negated and hedged alike."""
    rest = iter(form.values)
    return (
        _operators(form) == _operators(other)
        and set(other.values) <= set(form.values)
        and all(value in rest for value in other.values)
    )


def _operators(form: CanonicalForm) -> frozenset[str]:
    return (NEGATIONS | OPERATORS).intersection(form.values)


def merge_by_sentences(inputs: TaskInputs) -> MergedText:
    """Unite the sources sentence by sentence, or keep them apart."""
    return MergedText(unite_texts(inputs.sources))


def is_plain(inputs: TaskInputs) -> bool:
    """Return whether there is nothing to word: the sources are kept apart, or one of them holds the others."""
    united = unite_texts(inputs.sources)
    return not united or united in {source.strip() for source in inputs.sources}


def _probe(*sources: str) -> Probe:
    """Texts of which none holds another, and which a useful model words as one that is shorter than all of them."""
    total = sum(map(len, sources))
    return Probe(TaskInputs(sources), lambda answer: 0 < len(answer.text) < total)


PROBES = (
    _probe("Anna works at the zoo in Berlin.", "Anna feeds the pandas at the zoo in Berlin."),
    _probe("The standup is at 9:30 on Mondays.", "The standup is in room Kepler on Mondays."),
    _probe("The roof was repaired by Mr. Hansen in May.", "The roof was repaired for 900 euros in May."),
    _probe("The server runs on port 8080. It was set up by Mira.", "The server runs on port 8080. It stands in Oslo."),
)

MERGE = LlmTask(
    site="merge",
    instruction=(
        "Write the sources as one text that says each thing once. Keep every name, number, date, condition and "
        "negation, in the words of the sources, and add nothing. If the sources contradict each other, write an empty "
        "text."
    ),
    answer=MergedText,
    validate=validate_merge,
    fallback=merge_by_sentences,
    is_clear=is_plain,
    max_tokens=600,
    probes=PROBES,
)

INSERT_MERGE = dataclasses.replace(
    MERGE,
    site="insert_merge",
    instruction=(
        "The first source is known, the last is new. Write one text that keeps all of the first and adds what is new, "
        "in the words of the sources. If the new one contradicts the first, write an empty text."
    ),
)
