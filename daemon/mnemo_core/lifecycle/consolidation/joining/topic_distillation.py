"""Topic distillation: fewer, richer entries for the members of a large topic that overlap. SPEC 9.5 [G25]

An entry replaces its sources, so it holds all that they say.
"""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.deduplication import names_a_day
from mnemo_core.ingest.memory_cues import NEVER_CORE_TRUSTS
from mnemo_core.lifecycle.consolidation.cycle import (
    DISTILLED,
    CycleOperation,
    Planning,
    StepPlan,
    TaskQuestion,
    brings_into_core,
)
from mnemo_core.lifecycle.consolidation.distillation import session_notes
from mnemo_core.lifecycle.consolidation.joining.pairs import joinable, may_be_joined
from mnemo_core.lifecycle.consolidation.joining.replacing import (
    DISTILLED_IMPORTANCE,
    absorb_operation,
    distil_operation,
)
from mnemo_core.lifecycle.consolidation.state import CycleState, Mask
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.llm.writing.distill import (
    DISTILL,
    ENTRIES_MAX,
    ENTRY_CHARACTERS,
    MEMBERS_MAX,
    REPLACED_MIN,
    share_words,
)
from mnemo_core.text.languages import content_words
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import LAYERS, TAGS_MAX, Change, LifecycleDecision, Memory, PutDecision, PutMeta

TOPIC_MEMBERS_MIN = 10  # of a topic that is distilled [G25]
TOPICS_MAX = 2  # that are distilled in a cycle [G25]
TOPICS_READ = 4  # in a cycle, until two have members that overlap
MEMBERS_READ = 500  # of a topic, the newest
COMPARED_MAX = 100  # others that a member is compared with
BY_RULE = "rule"  # the reason of a decision that no language model could be asked about
LOOKED_AT = "distilled_topics"  # meta key: digests of the topics in which nothing is left to be distilled
LOOKED_AT_MAX = 4096
DAY_MS = 86_400_000


def plan_topic_distillation(state: CycleState) -> Planning:
    """Plan fewer, richer entries for the overlapping members of the largest topics. SPEC 9.5 [G25]

    A member is looked at once with those that it overlaps with, and again when its text or one of them is new.
    """
    operations: list[CycleOperation] = []
    changes: list[Change] = []
    known = dict.fromkeys(state.meta(LOOKED_AT).split())
    may_replace = _replaceable(state)
    unchanged, asked, read = list[str](), 0, 0
    for leaf in state.topics():
        rows = leaf.rows[leaf.rows < len(may_replace)]
        rows = rows[may_replace[rows]]
        if len(leaf.rows) < TOPIC_MEMBERS_MIN or len(rows) < REPLACED_MIN:
            continue
        digest = _topic_digest(state, rows)
        if digest in known:
            unchanged.append(digest)
        elif asked < TOPICS_MAX and read < TOPICS_READ:
            read += 1
            members = _overlapping(state, rows)
            if not members:
                unchanged.append(digest)
                continue
            asked += 1
            answer = yield TaskQuestion(DISTILL, TaskInputs(tuple(member.content for member in members)))
            decided = [] if len(answer.entries) == ENTRIES_MAX else members  # with as many, there may be more to unite
            for entry in answer.entries:
                sources = [members[number - 1] for number in entry.sources]
                decided = [*decided, *sources]
                has_room = len({tag for source in sources for tag in source.tags} | {DISTILLED}) <= TAGS_MAX
                if has_room and not brings_into_core(sources):
                    operations.append(_replacement(state, sources, entry.text))
            changes += [_looked_at(state, each) for each in {each.id: each for each in decided}.values()]
    if state.options.namespace:
        unchanged += known
    looked_at = list(dict.fromkeys(unchanged))[:LOOKED_AT_MAX]
    if looked_at != [*known]:
        changes.append(PutMeta(name=LOOKED_AT, value=" ".join(looked_at)))
    return StepPlan(operations, changes, {"topics": asked})


def _replaceable(state: CycleState) -> Mask:
    """The mask of the memories that an entry may replace, as far as columns tell."""
    has_other_home = session_notes(state) | state.tagged("ephemeral")
    has_low_trust = state.has("trust", *NEVER_CORE_TRUSTS) & state.has("layer", "core")
    return joinable(state) & state.live() & ~has_other_home & ~has_low_trust


def _is_replaceable(state: CycleState, memory: Memory) -> bool:
    """Return whether an entry may replace a memory: it may be joined with others, holds no secret, is short enough for
    an entry, and nobody said that it is more important than one."""
    is_rated = memory.importance_source == "user" and memory.importance > DISTILLED_IMPORTANCE
    is_fit = SENSITIVE_TAG not in memory.tags and len(memory.content) <= ENTRY_CHARACTERS
    return is_fit and not is_rated and may_be_joined(state, memory)


def _attributes(memory: Memory) -> tuple[Any, ...]:
    """The attributes that the sources of an entry share. What happened, or names a day, shares that day too."""
    is_dated = memory.kind == "episodic" or names_a_day(memory.content)
    day = memory.event_at // DAY_MS if is_dated else None
    return (
        memory.kind, memory.form, memory.category, memory.speaker, memory.trust, memory.agent_id, memory.run_id, day
    )  # fmt: skip


def _topic_digest(state: CycleState, rows: NDArray[np.int32]) -> str:
    """A digest of the members of a topic, the times of their last changes, and whether a model may be asked."""
    columns = [state.column(name)[np.sort(rows)].tobytes() for name in ("id_high", "id_low", "modified_at")]
    may_ask = bytes([state.options.may_ask(DISTILL)])
    return hashlib.blake2b(b"".join(columns) + may_ask, digest_size=5).hexdigest()


def _overlapping(state: CycleState, rows: NDArray[np.int32]) -> list[Memory]:
    """Members of a topic, at most MEMBERS_MAX, in the order of time: each overlaps with another one of them, and not
    both were looked at before. None where there are none."""
    newest = rows[np.argsort(state.column("created_at")[rows], kind="stable")][-MEMBERS_READ:]
    alike: dict[tuple[Any, ...], list[Memory]] = {}
    for memory in state.records(newest):
        if _is_replaceable(state, memory):
            alike.setdefault(_attributes(memory), []).append(memory)
    for members in sorted(alike.values(), key=len, reverse=True):
        partners = _partners(state, members)
        chosen = dict[int, None]()
        for at in sorted(partners, key=lambda at: len(partners[at]), reverse=True):
            room = MEMBERS_MAX - len(chosen)
            if at not in chosen and room > 1:
                chosen.update(dict.fromkeys([at, *sorted(partners[at] - chosen.keys())][:room]))
        if chosen:
            return sorted((members[at] for at in chosen), key=lambda each: (each.event_at, each.id))
    return []


def _partners(state: CycleState, members: Sequence[Memory]) -> dict[int, set[int]]:
    """For each member that overlaps with others, these, unless both were looked at before.

    Two texts that share half of the words of the shorter one share one of the rarest half of its words, so that only
    these are looked up.
    """
    words = [content_words(member.content) for member in members]
    with_word: dict[str, list[int]] = {}
    for at, own in enumerate(words):
        for word in own:
            with_word.setdefault(word, []).append(at)
    is_new = [_is_open(state, member) for member in members]
    partners: dict[int, set[int]] = {}
    for at, own in enumerate(words):
        rarest = sorted(own, key=lambda word: (len(with_word[word]), word))[: len(own) // 2 + 1]
        others = dict.fromkeys(other for word in rarest for other in with_word[word] if other != at)
        for other in islice(others, COMPARED_MAX):
            if (
                (is_new[at] or is_new[other])
                and share_words(own, words[other])
                and not _is_derived(members[at], members[other])
            ):
                partners.setdefault(at, set()).add(other)
                partners.setdefault(other, set()).add(at)
    return partners


def _is_open(state: CycleState, memory: Memory) -> bool:
    """Return whether a memory with its present text was never looked at, or not by a language model, which now may be
    asked."""
    decision = state.decision("distil", memory)
    return decision is None or (decision.reason == BY_RULE and state.options.may_ask(DISTILL))


def _is_derived(one: Memory, other: Memory) -> bool:
    """Return whether one of two memories was made from the other one: a statement from its text."""
    return one.id in other.derived_from or other.id in one.derived_from


def _looked_at(state: CycleState, memory: Memory) -> PutDecision:
    """The decision on a memory with its present text: it stands when an entry is taken back."""
    return PutDecision(data=LifecycleDecision(
        memory=memory.id, action="distil", other=memory.id, status="done", at=state.now,
        digest=decision_digest([memory.content]), reason="" if state.options.may_ask(DISTILL) else BY_RULE,
    ))  # fmt: skip


def _replacement(state: CycleState, sources: Sequence[Memory], text: str) -> CycleOperation:
    """The operation by which an entry replaces its sources; one of them, if that is an entry of this text already."""
    reason = f"{len(sources)} memories of a topic that overlap"
    top = max(LAYERS.index(source.layer) for source in sources)
    same = [each for each in sources if each.content == text and DISTILLED in each.tags and each.layer == LAYERS[top]]
    if same:
        return absorb_operation(state, same[0], [each for each in sources if each is not same[0]], reason)
    return distil_operation(state, sources, text, reason)
