"""The task `distill`: the members of a topic that overlap as fewer, richer texts. SPEC 12.2

Each entry replaces at least two members, holds all of them, and is therefore at least as long as the longest of them.
The status of a session, which stands next to its notes and replaces none, is the task `condense`.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mnemo_core.llm.tasks import LlmTask, Probe, TaskInputs
from mnemo_core.llm.writing.merge import contradiction_in, rejection_of_replacement, unite_texts
from mnemo_core.text.languages import content_words

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


def _probe(sources: Sequence[str], *groups: tuple[int, ...]) -> Probe:
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
    answer=DistilledTopic,
    validate=validate_distilled,
    fallback=unite_overlapping,
    is_clear=has_no_overlap,
    max_tokens=500,
    deadline_s=60.0,
    probes=(
        _probe((*_ZOO, _MILK), (1, 2)),
        _probe((_MILK, *_PORT), (2, 3)),
        _probe((_PORT[0], _MILK, _PORT[1]), (1, 3)),
        _probe((*_ZOO, *_PORT), (1, 2), (3, 4)),
    ),
)
