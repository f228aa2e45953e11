"""Deduplication: the relation of a new text to stored ones: a repetition, an update, or related. SPEC 5.5

Nothing is dropped here: every text is stored, and each relation becomes an edge to the earlier memory.
"""

import functools
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mnemo_core.ingest.attributes.attribute_claims import (
    AttributeClaim,
    ClaimUpdate,
    extract_claims,
    find_update,
    read_claims,
    speaker_of,
)
from mnemo_core.ingest.changes import ChangeJudge, Finding, clear_statements
from mnemo_core.ingest.mutations import MemoryRelation
from mnemo_core.ingest.statement_kind import statement_kind
from mnemo_core.similarity.thresholds import READ_CHARACTERS, RELATIVE_MS_MAX, Thresholds, is_similar, kept_words
from mnemo_core.text.canonical import (
    CanonicalForm,
    UnchangedWords,
    canonical_form,
    difference,
    obviously_differ,
    unchanged_words,
)
from mnemo_core.text.dates.date_words import WEEKDAYS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation, listed
from mnemo_core.text.statement_reading import has_same_values, read_statement
from mnemo_core.text.syntax.statements import extract_triple
from mnemo_core.text.text_cache import TextCache
from mnemo_core.text.tokens import RELATIVE_DAYS
from mnemo_store.records import Memory, Relation

CORRECTED_MS_MAX = 600_000  # from a statement to its correction where they have no word in common
GIVEN_APART_MS = 60_000  # two given times nearer than this are one: a client may give the second of its call
JUDGED_CHARS_MAX = 400  # of both texts of a pair that is judged; a longer one states more than one thing
RELATIONS_MAX = 3  # edges that one new memory gets to earlier ones

CORRECTION = lazy_pattern(alternation("changes", "corrections"), re.IGNORECASE)  # of the last statement
_form = operator.methodcaller("translate", str.maketrans("", "", "0123456789"))  # of a value: "T:", "weekday "
_STRENGTH: dict[Relation, int] = {"updates": 0, "repeats": 1, "related": 2}
_RELATIVE = RELATIVE_DAYS | {"next", "last", "this", "ago", "now", "soon", "later", "nächste", "letzte", "prochain"}
_DAYS = _RELATIVE | WEEKDAYS.keys()
_RELATIVE_HAN = ("今", "明", "昨", "下周", "上周", "来週", "先週")
_FIRST_PERSON = listed("i my me mine myself we our us ours ich mein meine mir wir unser je mon ma mes nous 我 私")


class Neighbour(NamedTuple):
    """A stored memory that a new text may be related to.

    sim: the cosine, None where one of them has no vector. said_at: when its text was said, in ms, or a function that
    computes it, since that takes reading the text and is rarely needed; None: at its event_at.
    """

    memory: Memory
    sim: float | None
    said_at: int | Callable[[], int] | None = None


def is_other_event(memory: Memory, happened_at: int | None) -> bool:
    """Return whether the memory happened at another time than an event with the same words, whose time (ms) was given;
    None: it was not. "Went swimming" on three Mondays is three events. SPEC 5.5"""
    if happened_at is None:
        return False
    is_given = memory.event_at != memory.created_at
    return abs(memory.event_at - happened_at) >= (GIVEN_APART_MS if is_given else RELATIVE_MS_MAX)


def find_relations(
    content: str, speaker: str, said_at: int, near: Sequence[Neighbour], thresholds: Thresholds, tells_why: bool = True,
    happened_at: int | None = None, judge: ChangeJudge | None = None,
) -> list[MemoryRelation]:  # fmt: skip
    """The relations of a new text, said at that time, to earlier ones, the best first, at most RELATIONS_MAX.

    `updates` before `repeats` before `related`; of equals the more similar, then the later, then the greater id. A
    claim of the same subject and attribute with another value is an update whatever the similarity: "moved to Porto" is
    similar to little that says where somebody lives. In a chain of values, it updates the current one.

    judge: finds the changes that no claim shows; None where texts update nothing. Where it finds a change likely, the
    relation is `related` with the same slot. SPEC 5.8

    happened_at: the time (ms) that was given for an event. With tells_why=False, a related memory gets no reason why it
    is not the same, which takes longer than the decision.
    """
    new = _TextAnalysis(content, speaker, happened_at)
    judged: dict[str, Finding] = {}  # on neighbours that are no longer than a statement and said by the same
    if judge is not None and len(content) <= JUDGED_CHARS_MAX:
        short = (each for each in near if len(each.memory.content) <= JUDGED_CHARS_MAX)
        asked = [each for each in short if not _are_of_two_speakers(new, _NeighbourText(each))]
        findings = judge.find_all([(each.memory.content, each.sim) for each in asked], content)
        judged = {each.memory.id: finding for each, finding in zip(asked, findings, strict=True)}
        if CORRECTION.match(content) and (corrected := _corrected(content, said_at, asked)):
            judged[corrected] = judged[corrected] or "likely"
    compared = (_compared(new, said_at, one, thresholds, judged.get(one.memory.id, "")) for one in near)
    found = [each for each in compared if each is not None]
    latest: dict[AttributeClaim, _RelationCandidate] = {}
    for each in found:
        if each.update and (each.update.new not in latest or each.old.said_at > latest[each.update.new].old.said_at):
            latest[each.update.new] = each
    kept = [each for each in found if each.update is None or _is_of(latest[each.update.new], each.update)]
    kept.sort(key=lambda each: each.relation.id, reverse=True)
    alike = Counter(map(_strength, kept))
    kept.sort(key=lambda each: (*_strength(each), -each.old.said_at if alike[_strength(each)] > 1 else 0))
    if not tells_why:
        return [each.relation for each in kept[:RELATIONS_MAX]]
    return [_explained(each, new, said_at, thresholds) for each in kept[:RELATIONS_MAX]]


def _corrected(correction: str, said_at: int, near: Sequence[Neighbour]) -> str:
    """The id of the last statement that has another value of the same form, and a word in common with the correction or
    hardly any time in between; "" where there is none."""
    new, found = read_statement(correction), (0, "")
    for each in near:
        old, at = read_statement(each.memory.content), _NeighbourText(each).said_at
        other = [(value, old.values[kind]) for kind, some in new.values.items() for value in some - old.values[kind]]
        is_other = other and all(_form(value) in map(_form, known) for value, known in other)
        within = RELATIVE_MS_MAX if any(map(old.forms.match, new.content)) else CORRECTED_MS_MAX
        if is_other and not (old.is_question or new.is_question) and 0 < said_at - at <= within:
            found = max(found, (at, each.memory.id))
    return found[1]


class _RelationCandidate(NamedTuple):
    """A relation and the text of its memory; for an update, the claims it rests on."""

    relation: MemoryRelation
    old: "_NeighbourText"
    update: ClaimUpdate | None = None


def _strength(candidate: _RelationCandidate) -> tuple[float, float]:
    relation = candidate.relation
    place = _STRENGTH[relation.relation] - (0.5 if relation.is_same_slot else 0.0)
    return place, -(relation.sim or 0.0)


def _is_of(latest: _RelationCandidate, update: ClaimUpdate) -> bool:
    """Return whether the update replaces the current value. A value it replaced earlier has its edge already."""
    return latest.update is not None and latest.update.old.has_value_of(update.old)


def clear_text_cache() -> None:
    """Empty the caches of analysed texts: one of them may have been erased."""
    for cache in (kept_words, _specifics, _untouched, read_claims, read_statement, statement_kind, extract_triple):
        cache.clear()
    clear_statements()


# Texts similar to one new text are similar to the next, and reading a text takes ten times as long as comparing two.
_specifics = TextCache(canonical_form, READ_CHARACTERS)
_untouched = TextCache(unchanged_words, READ_CHARACTERS)


class _TextAnalysis:
    """A text with the analyses that a comparison needs, each computed on first use."""

    def __init__(self, content: str, speaker: str, happened_at: int | None = None) -> None:
        self.content = content
        self.happened_at = happened_at
        self.speaker = speaker_of(speaker)
        self.words = kept_words(content)

    @property
    def specifics(self) -> CanonicalForm:
        return _specifics(self.content)

    @property
    def untouched(self) -> UnchangedWords:
        return _untouched(self.content)

    @property
    def claims(self) -> tuple[AttributeClaim, ...]:
        return extract_claims(self.content, self.speaker)

    @property
    def is_relative(self) -> bool:
        return not _RELATIVE.isdisjoint(self.specifics.values) or any(word in self.content for word in _RELATIVE_HAN)


def names_a_day(content: str) -> bool:
    """Return whether a text means another day when it is said on another one: `tomorrow`, `next week`, `on Monday`."""
    return not kept_words(content).isdisjoint(_DAYS) or any(word in content for word in _RELATIVE_HAN)


class _NeighbourText(_TextAnalysis):
    """The text of a neighbour."""

    def __init__(self, near: Neighbour) -> None:
        super().__init__(near.memory.content, near.memory.speaker)
        self.memory = near.memory
        self._near = near

    @functools.cached_property
    def said_at(self) -> int:
        at = self._near.said_at
        if at is None:
            return self._near.memory.event_at
        return at if isinstance(at, int) else at()


def _compared(
    new: _TextAnalysis, said_at: int, near: Neighbour, thresholds: Thresholds, judged: Finding
) -> _RelationCandidate | None:
    memory, sim = near.memory, near.sim
    old = _NeighbourText(near)
    is_close = is_similar(new.content, old.content, sim, thresholds)
    may_repeat = is_close or (sim is None and _has_words_of(new, old))
    may_repeat = may_repeat and (sim is None or sim >= thresholds.same or _has_words_of(new, old))
    # The cheap and most frequent objections are tested first.
    may_repeat = may_repeat and not obviously_differ(new.untouched, old.untouched)
    if may_repeat and _objection(new, old, said_at, sim, thresholds) is None:
        return _RelationCandidate(MemoryRelation(memory.id, memory.version, "repeats", sim, "no specific differs"), old)
    if new.claims and (update := find_update(new.claims, old.claims)) and said_at > old.said_at:
        why = f"{update.new.attribute or 'value'}: {' '.join(update.old.value)} → {' '.join(update.new.value)}"
        return _RelationCandidate(MemoryRelation(memory.id, memory.version, "updates", sim, why), old, update)
    if judged and (change := _change(new, old, said_at, sim, judged)) is not None:
        return change
    return _RelationCandidate(MemoryRelation(memory.id, memory.version, "related", sim, ""), old) if is_close else None


def _change(
    new: _TextAnalysis, old: _NeighbourText, said_at: int, sim: float | None, finding: Finding
) -> _RelationCandidate | None:
    """The relation that the judge found, where nothing else speaks against it."""
    memory = old.memory
    if finding == "same":
        is_other_day = is_other_event(memory, new.happened_at) or (
            new.is_relative and abs(said_at - old.said_at) > RELATIVE_MS_MAX
        )
        if is_other_day or not has_same_values(read_statement(old.content), read_statement(new.content)):
            return None
        return _RelationCandidate(MemoryRelation(memory.id, memory.version, "repeats", sim, "says the same"), old)
    if said_at <= old.said_at:
        return None
    if finding == "certain":
        return _RelationCandidate(
            MemoryRelation(memory.id, memory.version, "updates", sim, "replaces what it says"), old
        )
    why = "perhaps a newer value of it"
    return _RelationCandidate(MemoryRelation(memory.id, memory.version, "related", sim, why, is_same_slot=True), old)


def _explained(
    candidate: _RelationCandidate, new: _TextAnalysis, said_at: int, thresholds: Thresholds
) -> MemoryRelation:
    """The relation; for `related`, with the reason why it is not the same."""
    relation = candidate.relation
    if relation.relation != "related" or relation.is_same_slot:
        return relation
    return relation._replace(why=_objection(new, candidate.old, said_at, relation.sim, thresholds) or "")


def _are_of_two_speakers(new: _TextAnalysis, old: _TextAnalysis) -> bool:
    """Return whether the new text says `I`, and somebody else said the old one."""
    is_first_person = not _FIRST_PERSON.isdisjoint(new.specifics.values)
    return bool(new.speaker and old.speaker) and new.speaker != old.speaker and is_first_person


def _has_words_of(new: _TextAnalysis, old: _TextAnalysis) -> bool:
    return bool(new.words) and new.words == old.words


def _objection(
    new: _TextAnalysis, old: _NeighbourText, said_at: int, sim: float | None, thresholds: Thresholds
) -> str | None:
    """The reason why the new text, said at that time, is not the same as the old one; None where there is none."""
    if found := difference(new.specifics, old.specifics):
        return f"{found.kind} differs: {found.one or '-'} / {found.other or '-'}"
    if _are_of_two_speakers(new, old):
        return f"said by {new.speaker} and by {old.speaker}"
    if is_other_event(old.memory, new.happened_at):
        return "happened at another time"
    if new.is_relative and abs(said_at - old.said_at) > RELATIVE_MS_MAX:
        return "refers to another day"
    if sim is None or sim >= thresholds.same or _has_words_of(new, old):
        return None
    return "not similar enough to be the same"
