"""Policies: the project's own switches and constants, and those of each source. SPEC 15

One row for each policy: `own` is the specification; L, M, E, G and T are the five sources, so that their rules can be
compared with it. A row states only what its source says. Where a source is silent, the row has what a program that
follows that source alone would do; where that is unknown, `own`'s value. What is the same in all of them is a constant
of the module that uses it; the parameters of a recall are in retrieval/recall_defaults.py.

No policy changes these: users and namespaces stay apart, chunks of notes are never discarded and never deduplicated
across files, values that a caller gives are never overruled, what a model writes is grounded, what tools and imports
say never enters core, and whatever a cycle removes is in the trash.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from mnemo_core.ingest.mutations import KEPT_IMPORTANCE_MIN
from mnemo_core.ingest.signals.salience import ENTITY, NUMBER, PREFERENCE, TECHNICAL, Rarity, rarest
from mnemo_core.similarity.thresholds import SOURCE, Thresholds
from mnemo_core.text.languages import words_of
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import Category, Kind

PolicyName = Literal["own", "L", "M", "E", "G", "T"]
# batch and import are remember; extract and proxy are ingest
EntryPoint = Literal["remember", "ingest", "turn", "note"]
ScopeField = Literal["namespace", "user_id", "agent_id", "run_id"]

IMPORTANCE_NEUTRAL = 0.5  # without a score [G1, M2, T1]
IMPORTANCE_LESSON = 0.75  # `lesson`, `trigger:*` and procedural, without a given importance [G1]
IMPORTANCE_HOOK = 0.2  # of what an agent's hook records by itself [M2, M23]
REINFORCEMENT = 0.05  # what a similar text that is not stored adds to the strength of the earlier one, up to 1.0 [G5]

assert 0 < IMPORTANCE_HOOK < KEPT_IMPORTANCE_MIN < IMPORTANCE_NEUTRAL < IMPORTANCE_LESSON < 1


class Policy(NamedTuple):
    """The switches and constants that a profile sets for a namespace. The defaults are `own`'s."""

    name: PolicyName = "own"

    # Splitting (5.2), of what comes in by `ingest`
    split: Literal["blocks", "paragraphs", "whole"] = "blocks"  # "blocks": fences, lists and tables stay whole;
    #   "paragraphs": blank lines and sentence ends alone [L 1.3]; "whole": one memory up to what one can hold, then as
    #   "blocks"

    # Scoring (5.3)
    # Entry points whose texts are scored, 0.6 n + 0.4 s
    scored: frozenset[EntryPoint] = frozenset({"remember", "ingest", "note"})
    salience: Literal["own", "L"] = "own"  # whose signals count; "L": salience_source_l
    importance: float = IMPORTANCE_NEUTRAL  # without a score or a value given by the caller
    importance_turn: float = IMPORTANCE_NEUTRAL  # the same of a turn [SPEC 8, T1]
    importance_lesson: float = IMPORTANCE_NEUTRAL  # the same of lessons, triggers and procedural memories
    importance_floor: float = IMPORTANCE_NEUTRAL  # of scored texts, at every entry point but `ingest`
    discards_at: frozenset[EntryPoint] = frozenset({"ingest"})  # discard texts that score below `importance_min`
    importance_min: float = KEPT_IMPORTANCE_MIN

    # Routing (5.4)
    routing: Literal["own", "L", "defaults"] = "own"  # whose rules; "defaults": the two fields below, and no rule
    kind: Kind = "episodic"
    category: Category = "fact"
    category_turn: Category = "fact"

    # Duplicates (5.5)
    # Texts are compared where these are equal.
    compared: tuple[ScopeField, ...] = ("namespace", "user_id", "agent_id", "run_id")
    # Equal normalised text. "reinforced": not stored again, repetition_count + 1; "skipped": not stored again, nothing
    # counted; "stored": a memory of its own.
    on_equal: Literal["reinforced", "skipped", "stored"] = "reinforced"
    # Similar text. "linked": stored with an edge; "merged": not stored, the earlier one touched and reinforced, its
    # text changed only from thresholds.insert_merge on; "stored": no check.
    on_similar: Literal["linked", "merged", "stored"] = "linked"
    reinforcement: float = 0.0  # added to the strength of the earlier one where "merged"
    is_guarded: bool = True  # a number, date, name … that differs: never the same (specifics.difference)

    # Extraction (5.6)
    infer: bool = False  # what `infer` is where the caller does not say

    # Turns (5.7)
    filters_turns: bool = True  # turns that are short, stop words, noise or repeats of a recent turn are rejected
    strips_echo: bool = True  # returned text that comes back is not stored (5.5a)

    # Likeness (4.5), in whatever compares texts of the namespace
    thresholds: Literal["model", "source"] = "model"  # whose cosines: calibrated for the model in use, or the source's

    # Conversations (8)
    judged_min: float = 0.2  # the least that a judge gives a turn: what recall shows without being asked for more (7.1)
    # Turns that the ring pushes out as unimportant, and those that the recent ones have no room for. "kept": archived,
    # and filed in the registry; "discarded": neither [T1, T15].
    unimportant_turns: Literal["kept", "discarded"] = "kept"
    files_idle_sessions: bool = True  # all turns, half an hour after the last one; else only what is cold [T6]
    absorbs_pairs: bool = True  # a topic node takes in a pair that is alone in the nearest one (10.2); in T it stays so

    # Lifecycle (9)
    has_cycles: bool = True  # triage, promotion, merging, distillation and eviction act on the namespace
    # What the buffer has no room for, or is too weak. "kept": asked about by triage, and archived, or promoted where it
    # was said on purpose; "trashed", whoever said it: triage only promotes or keeps [G13, G14].
    evicted: Literal["kept", "trashed"] = "kept"
    core_needs_person: bool = True  # core has only what a person wrote or confirmed; else what the gate admits [G15]
    # What a person clearly says of themselves or as a rule enters core unused, and leaves it when it is replaced; else
    # use alone counts [G15].
    core_reads_statements: bool = True
    # Old sessions are summarised without a request; "setting": lifecycle.compress_sessions says whether they are.
    compresses_sessions: Literal["setting", "always", "never"] = "setting"
    compression_threshold: int | None = None  # sessions of a user that stay as they are; None: the setting
    lifts: bool = False  # what is old in the buffer becomes an entry of the user's profile by itself

    def thresholds_for(self, calibrated: Thresholds) -> Thresholds:
        """The cosines that count: those calibrated for the model in use, or the sources' own. SPEC 4.5"""
        return SOURCE if self.thresholds == "source" else calibrated


OWN_POLICY = Policy()
PolicyOf = Callable[[str], Policy]  # by namespace


def own_policy(_namespace: str) -> Policy:
    """The policy of every namespace where nobody chose others."""
    return OWN_POLICY


_EVERYWHERE: frozenset[EntryPoint] = frozenset({"remember", "ingest", "turn"})
_NOWHERE: frozenset[EntryPoint] = frozenset()
_BY_USER: tuple[ScopeField, ...] = ("namespace", "user_id")

# What a program has that follows a source which says nothing of scores, rules, duplicates, the guard, turns, echoes and
# cycles.
_SILENT = Policy(
    split="whole", scored=_NOWHERE, importance_floor=0.0, discards_at=_NOWHERE, routing="defaults",
    on_equal="stored", on_similar="stored", is_guarded=False, filters_turns=False, strips_echo=False,
    absorbs_pairs=False, has_cycles=False, compresses_sessions="never",
)  # fmt: skip

POLICIES: Mapping[str, Policy] = {each.name: each for each in (
    OWN_POLICY,
    # One path for everything: split, scored, discarded below 0.3, classified. No word on duplicates. Of more than ten
    # sessions the oldest five are summarised. [L 1, L 3, L25, L26]
    _SILENT._replace(name="L", split="paragraphs", scored=_EVERYWHERE | {"note"}, salience="L",
                     discards_at=_EVERYWHERE, routing="L", compared=_BY_USER,
                     compresses_sessions="always", compression_threshold=10),
    # Items are written as they are given; hooks write crumbs of little weight; old ones are lifted. [M, M2, M13, M23]
    _SILENT._replace(name="M", importance_turn=IMPORTANCE_HOOK, kind="semantic", category_turn="crumb", lifts=True),
    # Equal hash for the same user, agent and run: skipped, the id returned. Every write is broken into facts. [E]
    _SILENT._replace(name="E", kind="semantic", on_equal="skipped", infer=True),
    # A near one anywhere in the namespace is not stored but strengthens the earlier. Cycles as in G. [G 1, 2, 3]
    _SILENT._replace(name="G", importance_lesson=IMPORTANCE_LESSON, kind="semantic", compared=_BY_USER,
                     on_equal="reinforced", on_similar="merged", reinforcement=REINFORCEMENT, thresholds="source",
                     has_cycles=True, evicted="trashed", core_needs_person=False,
                     core_reads_statements=False),
    # The gate before the ring, and 0.5 for all that passes. What is seeded skips the gate. A judge's word is final, and
    # only what is cold is filed. [T, T1, T2, T6, T15, T22]
    _SILENT._replace(name="T", compared=(*_BY_USER, "agent_id"), thresholds="source", filters_turns=True,
                     judged_min=0.0, unimportant_turns="discarded", files_idle_sessions=False),
)}  # fmt: skip


def default_importance(policy: Policy, entry_point: EntryPoint, kind: Kind, tags: Sequence[str]) -> float:
    """The importance of a text without a score and without a value given by its caller. [G1, M2, T1]"""
    if entry_point == "turn":
        return policy.importance_turn
    if kind == "procedural" or any(tag == "lesson" or tag.startswith("trigger:") for tag in tags):
        return policy.importance_lesson
    return policy.importance


def final_importance(policy: Policy, entry_point: EntryPoint, score: float) -> float:
    """The importance of a scored text: a deliberate statement never starts below the floor. SPEC 5.3"""
    return score if entry_point == "ingest" else max(policy.importance_floor, score)


def is_discarded(policy: Policy, entry_point: EntryPoint, score: float, given: float | None) -> bool:
    """Return whether a scored text is discarded. A text with an importance given by its caller never is. SPEC 5.3"""
    return given is None and entry_point in policy.discards_at and score < policy.importance_min


# What L's letter looks for

_NAME = lazy_pattern(r"\b[A-Z][a-z]{2,}\b")  # a capital word of three letters or more counts as a name [L12]
_FIGURE = lazy_pattern(r"\b\d{1,4}(?:[/-]\d{1,2}(?:[/-]\d{1,4})?)?\b")  # [L12]
_SIGNAL = lazy_pattern(r"\bi\s+(?:prefer|always|hate)\b|\bmy\s+favorite\b", re.IGNORECASE)  # [L 1.5, L13]


def preference_source_l(text: str) -> str:
    """The first of L's four signals in the text, "" for none: I prefer, I always, I hate, my favorite. [L13]"""
    found = _SIGNAL.search(text)
    return found.group() if found else ""


def salience_source_l(text: str, rarity: Rarity | None = None) -> float:
    """Salience by source L's own signals: a capitalised word 0.3, a figure 0.2, one of four phrases 0.4, and words that
    `rarity` says are rare on average 0.1; at most 1.0. [L 1.5, L12]"""
    value = ENTITY if _NAME.search(text) else 0.0
    value += NUMBER if _FIGURE.search(text) else 0.0
    value += PREFERENCE if preference_source_l(text) else 0.0
    value += TECHNICAL if rarity is not None and rarest(words_of(text), rarity) else 0.0
    return min(value, 1.0)
