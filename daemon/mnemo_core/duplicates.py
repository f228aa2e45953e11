"""What a new text is to what is remembered already: the same again, its newer state, or near. SPEC 5.5

Nothing here throws anything away: every text is stored, and what is found becomes an edge to the earlier one.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_core.changing import Tie
from mnemo_core.claims import Claim, Update, claims, forget_claims, speaker_of, updated
from mnemo_core.note_matching import jaccard as overlap
from mnemo_core.note_matching import words
from mnemo_core.specifics import Specifics, difference, specifics
from mnemo_core.thresholds import JACCARD_ALONE, JACCARD_NEAR, JACCARD_TOKENS_MIN, Thresholds
from mnemo_core.vocabulary import RELATIVE_DAYS, listed
from mnemo_store.records import Memory, Relation

TIES_MAX = 3  # edges that one new memory gets to earlier ones
READ_KEPT = 1024  # texts of which it is remembered how they read
RELATIVE_MS_MAX = 12 * 3_600_000  # two texts that say "today" further apart than this speak of different days

_STRENGTH: dict[Relation, int] = {"updates": 0, "repeats": 1, "related": 2}
_RELATIVE = RELATIVE_DAYS | {"next", "last", "this", "ago", "now", "soon", "later", "nächste", "letzte", "prochain"}
_RELATIVE_HAN = ("今", "明", "昨", "下周", "上周", "来週", "先週")
_FIRST_PERSON = listed("i my me mine myself we our us ours ich mein meine mir wir unser je mon ma mes nous 我 私")


class Near(NamedTuple):
    """A memory that a new text may have to do with.

    sim: the cosine, None where one of them has no vector. said_at: in ms, None where it was said at its event_at.
    """

    memory: Memory
    sim: float | None
    said_at: int | None = None


def jaccard(one: str, other: str) -> float:
    """The share of the words of both that both have; 0.0 where neither has any [G7]."""
    return overlap(words(one), words(other))


def is_near(content: str, other: str, sim: float | None, thresholds: Thresholds) -> bool:
    """Whether two texts are near enough to be linked. SPEC 5.5 [G 2.1, G7]"""
    return _is_near(words(content), words(other), sim, thresholds)


def judge(content: str, speaker: str, said_at: int, near: Sequence[Near], thresholds: Thresholds) -> list[Tie]:
    """The edges of a new text, said at that time, to earlier ones, the best first, at most TIES_MAX.

    `updates` before `repeats` before `related`; of equals the nearer, then the later, then the greater id. A claim of
    the same subject and attribute with another value is an update however far apart the vectors lie: "moved to Porto"
    is near to little that says where somebody lives. Of a chain of values, it updates the one that held last.
    """
    new = _Read(content, speaker)
    found = [each for each in (_judged(new, said_at, one, thresholds) for one in near) if each is not None]
    latest: dict[Claim, _Judged] = {}
    for each in found:
        if each.update and (each.update.new not in latest or each.said_at > latest[each.update.new].said_at):
            latest[each.update.new] = each
    kept = [each for each in found if each.update is None or _is_of(latest[each.update.new], each.update)]
    kept.sort(key=lambda each: each.tie.id, reverse=True)
    kept.sort(key=lambda each: (_STRENGTH[each.tie.relation], -(each.tie.sim or 0.0), -each.said_at))
    return [each.tie for each in kept[:TIES_MAX]]


class _Judged(NamedTuple):
    """A tie, when its memory was said, and, of an update, the claims it rests on."""

    tie: Tie
    said_at: int
    update: Update | None = None


def _is_of(latest: _Judged, update: Update) -> bool:
    """Whether it replaces the value that held last. What that one replaced has its edge already."""
    return latest.update is not None and latest.update.old.has_value_of(update.old)


def forget_texts() -> None:
    """Remembers of no text any more how it reads: one of them may have been purged."""
    _words.cache_clear()
    _specifics.cache_clear()
    forget_claims()


def same_subject(one: str, other: str) -> bool:
    """Whether both texts state the same attribute of the same subject, with whatever value."""
    return any(a.is_about_same(b) for a in claims(one) for b in claims(other))


# What is near to one new text is near to the next, and reading a text takes ten times as long as comparing two.
_words = functools.lru_cache(READ_KEPT)(words)
_specifics = functools.lru_cache(READ_KEPT)(specifics)


class _Read:
    """A text as the judgement needs it, each part read when it is first asked for."""

    def __init__(self, content: str, speaker: str) -> None:
        self.content = content
        self.speaker = speaker_of(speaker)
        self.words = _words(content)

    @property
    def specifics(self) -> Specifics:
        return _specifics(self.content)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return claims(self.content, self.speaker)

    @property
    def is_first_person(self) -> bool:
        return not _FIRST_PERSON.isdisjoint(self.specifics.values)

    @property
    def is_relative(self) -> bool:
        return not _RELATIVE.isdisjoint(self.specifics.values) or any(word in self.content for word in _RELATIVE_HAN)


def _judged(new: _Read, said_at: int, near: Near, thresholds: Thresholds) -> _Judged | None:
    memory, sim = near.memory, near.sim
    before = memory.event_at if near.said_at is None else near.said_at
    old = _Read(memory.content, memory.speaker)
    is_close = _is_near(new.words, old.words, sim, thresholds)
    may_repeat = is_close or (sim is None and new.words and new.words == old.words)
    against = _against(new, old, said_at - before, sim, thresholds) if may_repeat else "not near"
    tie = Tie(memory.id, memory.version, "related", sim, against or "no specific differs")
    if against is None:
        return _Judged(tie._replace(relation="repeats"), before)
    if said_at > before and new.claims and (update := updated(new.claims, old.claims)):
        why = f"{update.new.attribute or 'value'}: {' '.join(update.old.value)} → {' '.join(update.new.value)}"
        return _Judged(tie._replace(relation="updates", why=why), before, update)
    return _Judged(tie, before) if is_close else None


def _against(new: _Read, old: _Read, later_by: int, sim: float | None, thresholds: Thresholds) -> str | None:
    """What stands against calling the new text the same as the old one, said so many ms before; None where nothing."""
    if found := difference(new.specifics, old.specifics):
        return f"{found.kind} differs: {found.one or '-'} / {found.other or '-'}"
    if new.is_first_person and new.speaker and old.speaker and new.speaker != old.speaker:
        return f"said by {new.speaker} and by {old.speaker}"
    if new.is_relative and abs(later_by) > RELATIVE_MS_MAX:
        return "speaks of another day"
    if sim is None or sim >= thresholds.same or (new.words and new.words == old.words):
        return None
    return "not near enough to be the same"


def _is_near(one: frozenset[str], other: frozenset[str], sim: float | None, thresholds: Thresholds) -> bool:
    share = overlap(one, other)
    if sim is None:
        return share > JACCARD_ALONE and min(len(one), len(other)) >= JACCARD_TOKENS_MIN
    return sim > thresholds.near or (share > JACCARD_NEAR and sim > thresholds.near_with_words)
