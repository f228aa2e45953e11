"""The tasks that join memories. SPEC 12.2

`merge`: memories that say nearly the same as one text that keeps all of them. The merged text replaces its sources, so
it is verified in both directions: it says what they say, and leaves nothing out. Sources that contradict each other are
kept apart, so that the newer can supersede the older.

`insert_merge`: as `merge`, for a new memory and one that is stored.

`distill`: the members of a topic that overlap as fewer, richer texts. Each entry replaces at least two members, holds
all of them, and is therefore at least as long as the longest of them. The status of a session, which stands next to its
notes and replaces none, is the task `condense`.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.faithfulness import (
    contradiction_between,
    distortion_of,
    loss_of,
    omission_of,
    rejection_of,
    single_spaced,
)
from mnemo_core.llm.grammar import CHARACTERS_MAX
from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.languages import content_words, sentences
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
    """The longest text, and the sentences of the others that it does not hold; "" if they must be kept apart. They must
    if they contradict each other, or take more than so many characters. The order of the texts does not matter."""
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
    answer=MergedText, validate=validate_merge, fallback=merge_by_sentences, is_clear=is_plain, max_tokens=600,
    probes=PROBES,
)  # fmt: skip

INSERT_MERGE = dataclasses.replace(
    MERGE,
    site="insert_merge",
    instruction=(
        "The first source is known, the last is new. Write one text that keeps all of the first and adds what is new, "
        "in the words of the sources. If the new one contradicts the first, write an empty text."
    ),
)


MEMBERS_MAX = 12  # of a topic that one call looks at
ENTRIES_MAX = 3
ENTRY_CHARACTERS = 400
REPLACED_MIN, REPLACED_MAX = 2, 6  # members that an entry replaces [G 5.2]
SHARED_MIN = 0.5  # of the shorter of two members, to overlap: of its content words; for a rule also of its text

_MemberNumber = Annotated[int, Meta(ge=1, le=MEMBERS_MAX)]


class DistilledEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text, and the numbers of the members that it replaces."""

    sources: Annotated[tuple[_MemberNumber, ...], Meta(min_length=1, max_length=REPLACED_MAX)]
    text: Annotated[str, Meta(min_length=1, max_length=ENTRY_CHARACTERS)]


class DistilledTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of the task; members that no entry names stay as they are."""

    entries: Annotated[tuple[DistilledEntry, ...], Meta(max_length=ENTRIES_MAX)]


def validate_distilled(answer: DistilledTopic, inputs: TaskInputs) -> str:
    """Return why entries are rejected; "" if each may replace its members."""
    if not answer.entries and unite_overlapping(inputs).entries:
        return "it unites nothing, but some sources overlap"
    replaced = [number for entry in answer.entries for number in entry.sources]
    if len(set(replaced)) < len(replaced):
        return "it replaces a source twice"
    if replaced and max(replaced) > len(inputs.sources):
        return f"there is no source {max(replaced)}"
    for entry in answer.entries:
        members = [inputs.sources[number - 1].strip() for number in entry.sources]
        if len(members) < REPLACED_MIN:
            return "an entry replaces a single source"
        for at, member in enumerate(members):
            if not any(overlap(member, other) for other in (*members[:at], *members[at + 1 :])):
                return f"source {entry.sources[at]} overlaps with no other of its entry"
        if len(entry.text) < max(map(len, members)):
            return "an entry is shorter than a source that it replaces"
        if len(entry.text) >= sum(map(len, members)):
            return "an entry is as long as all its sources together"
        if reason := contradiction_in(members) or rejection_of_replacement(entry.text, members):
            return reason
    return ""


def unite_overlapping(inputs: TaskInputs) -> DistilledTopic:
    """Unite each member with the later ones that overlap with it, where they do not contradict each other and at least
    half of the shorter text is said in the longer one: two texts one behind the other say nothing better."""
    members = dict(enumerate(inputs.sources[:MEMBERS_MAX], start=1))
    entries: list[DistilledEntry] = []
    while members and len(entries) < ENTRIES_MAX:
        number, member = next(iter(members.items()))
        group, text = [number], ""
        for other, candidate in members.items():
            if other != number and len(group) < REPLACED_MAX and overlap(member, candidate):
                united = unite_texts([member, *(members[each] for each in group[1:]), candidate], ENTRY_CHARACTERS)
                shorter, longer = sorted(map(len, (text or member.strip(), candidate.strip())))
                if united and len(united) <= longer + shorter * (1 - SHARED_MIN):
                    group.append(other)
                    text = united
        if text:
            entries.append(DistilledEntry(tuple(group), text))
        for each in group:
            del members[each]
    return DistilledTopic(tuple(entries))


def overlap(one: str, other: str) -> bool:
    """Return whether two texts share so many words that they are likely to be about the same."""
    return share_words(content_words(one), content_words(other))


def share_words(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two texts with these content words overlap."""
    shorter = min(len(one), len(other))
    return shorter > 0 and len(one & other) >= shorter * SHARED_MIN


def has_no_overlap(inputs: TaskInputs) -> bool:
    """Return whether nothing can be united."""
    pairs = itertools.combinations(map(content_words, inputs.sources[:MEMBERS_MAX]), 2)
    return not any(share_words(*pair) for pair in pairs)


def _distill_probe(sources: Sequence[str], *groups: tuple[int, ...]) -> Probe:
    wanted = set(groups)
    return Probe(
        TaskInputs(tuple(sources)), lambda answer: {tuple(sorted(entry.sources)) for entry in answer.entries} == wanted
    )


_ZOO = ("Anna works at the zoo in Berlin.", "Anna works at the zoo in Berlin and feeds the pandas.")
_PORT = ("The proxy listens on port 8080.", "The proxy listens on port 8080 and restarts at night.")
_MILK = "The milk is in the fridge."

DISTILL = LlmTask(
    site="distill",
    instruction=(
        "Find sources that say nearly the same. Write each such group as one text that keeps every name, number, date "
        "and detail of its sources in their words, and give the numbers of the sources. Name no source that stands "
        "alone. If nothing overlaps, give no entry."
    ),
    answer=DistilledTopic, validate=validate_distilled, fallback=unite_overlapping, is_clear=has_no_overlap,
    max_tokens=500, deadline_s=60.0,
    probes=(
        _distill_probe((*_ZOO, _MILK), (1, 2)),
        _distill_probe((_MILK, *_PORT), (2, 3)),
        _distill_probe((_PORT[0], _MILK, _PORT[1]), (1, 3)),
        _distill_probe((*_ZOO, *_PORT), (1, 2), (3, 4)),
    ),
)  # fmt: skip
