"""Distillation: the status of a project from its session notes, and fewer, richer entries for the members of a large
topic that overlap. SPEC 9.5 [G22, G25]

A status is shown next to its notes, which keep every specific, and replaces only the former status. An entry of a topic
replaces its sources, so it holds all that they say.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest import mutations
from mnemo_core.ingest.deduplication import names_a_day
from mnemo_core.ingest.memory_cues import NEVER_CORE_TRUSTS
from mnemo_core.ingest.trust import lowest_trust
from mnemo_core.lifecycle.consolidation.cycle import (
    DISTILLED,
    CycleOperation,
    Planning,
    StepPlan,
    TaskQuestion,
    brings_into_core,
)
from mnemo_core.lifecycle.consolidation.pairs import joinable, may_be_joined
from mnemo_core.lifecycle.consolidation.replacing import (
    DISTILL_SOURCE,
    DISTILLED_IMPORTANCE,
    absorb_operation,
    distil_operation,
)
from mnemo_core.lifecycle.consolidation.state import DAY_MS, CycleState, Mask, retagged
from mnemo_core.llm.faithfulness import contradiction_between, rejection_of
from mnemo_core.llm.merge import (
    DISTILL,
    ENTRIES_MAX,
    ENTRY_CHARACTERS,
    MEMBERS_MAX,
    REPLACED_MIN,
    share_words,
)
from mnemo_core.llm.summarize import CONDENSE, shorten_sources
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.similarity.thresholds import JACCARD_ALONE, text_jaccard
from mnemo_core.text.languages import content_words
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import (
    LAYERS,
    TAGS_MAX,
    Change,
    LifecycleDecision,
    Memory,
    PutDecision,
    PutMemory,
    PutMeta,
    PutUsage,
    Usage,
    default_decay_rate,
)

STATUS_TAGS = ("project-status", "auto-distilled")
NOTES_MIN, NOTES_MAX = 3, 10  # that a status is made from, the latest [G22]
STATUSES_MAX = 10  # in a cycle
SHOWN_CHARACTERS = 6000  # of all notes together that a model is shown
_SCOPE = ("agent_id", "run_id", "session_id", "speaker")


def plan_session_distillation(state: CycleState) -> Planning:
    """Plan a status of at most 250 characters for each namespace and user with new session notes. SPEC 9.5 [G22]"""
    operations: list[CycleOperation] = []
    changes: list[Change] = []
    unchanged = 0
    for notes, former in _new_notes(state):
        replaced = [each for each in former if not each.pinned and each.modified_at == each.created_at]
        if state.decision("distil", *notes, *replaced):  # it was made, and a person took it back
            continue
        last = max(former, key=lambda status: (status.created_at, status.id), default=None)
        shown = shorten_sources([note.content for note in _still_true(state, notes)], SHOWN_CHARACTERS)
        answer = yield TaskQuestion(CONDENSE, TaskInputs(shown))
        tagged = [PutMemory(data=retagged(note, (*note.tags, DISTILLED))) for note in notes]
        if last is not None and _says_nothing_new(state, answer.text, last):
            changes += tagged
            unchanged += 1
            continue
        status = _status(state, notes, answer.text)
        usage = Usage(id=status.id, strength=status.importance, strength_epoch=state.epoch)
        hidden = mutations.supersede(replaced, status.id, state.now)
        made = (PutMemory(data=status), PutUsage(data=usage), *tagged, *hidden)
        ids = (status.id, *(each.id for each in (*notes, *replaced)))
        operations.append(CycleOperation("distil", ids, made, f"status of {len(notes)} session notes", answer.text))
    return StepPlan(operations, changes, {"unchanged": unchanged})


def _new_notes(state: CycleState) -> Iterator[tuple[list[Memory], list[Memory]]]:
    """The latest undistilled session notes, oldest first, of each namespace and user that has enough of them, with the
    statuses that stand there. A note that is older than the status says nothing of how things stand."""
    is_note = session_notes(state) & state.live() & joinable(state) & ~state.tagged(DISTILLED, "ephemeral")
    is_status = state.live() & state.tagged("auto-distilled")
    namespaces, users, times = (state.column(name) for name in ("namespace", "user_id", "event_at"))
    found = 0
    for namespace, user in np.unique(np.stack([namespaces, users])[:, is_note], axis=1).T.tolist():
        in_scope = (namespaces == namespace) & (users == user)
        former = state.records(np.flatnonzero(is_status & in_scope))
        since = max((status.event_at for status in former), default=0)
        rows = np.flatnonzero(is_note & in_scope & (times > since))
        latest = rows[np.argsort(times[rows], kind="stable")][-2 * NOTES_MAX :]
        notes = [note for note in state.records(latest) if SENSITIVE_TAG not in note.tags and len(note.tags) < TAGS_MAX]
        notes = notes[-NOTES_MAX:]
        if len(notes) < NOTES_MIN:
            continue
        yield notes, former
        found += 1
        if found == STATUSES_MAX:
            return


def _still_true(state: CycleState, notes: Sequence[Memory]) -> list[Memory]:
    """The notes without those that a later one of them updates: a status says how things stand."""
    ids = {note.id for note in notes}
    edges = (edge for note in notes for edge in state.edges(note.id) if edge.relation == "updates")
    outdated = {edge.target for edge in edges if edge.source in ids}
    return [note for note in notes if note.id not in outdated or note is notes[-1]]


def session_notes(state: CycleState) -> Mask:
    """The mask of the memories that are notes about a session. [G52]"""
    return state.tagged("session") | state.has("source", "session")


def _says_nothing_new(state: CycleState, text: str, status: Memory) -> bool:
    """Return whether a new text is near the status, has no specific that it lacks, and does not contradict it."""
    if rejection_of(text, [status.content]) or contradiction_between(text, status.content):
        return False
    similarity = state.similarity(text, status)
    if similarity is None:
        return text_jaccard(text, status.content) > JACCARD_ALONE
    return similarity >= state.thresholds(status.namespace).triage


def _status(state: CycleState, notes: Sequence[Memory], text: str) -> Memory:
    """The status that some notes make: of the time of the latest, with the least trust, and within the scope that all
    of them have."""
    latest = notes[-1]
    scope = {name: getattr(latest, name) for name in _SCOPE
             if all(getattr(each, name) == getattr(latest, name) for each in notes)}  # fmt: skip
    return Memory(
        id=state.new_id(), content=text, created_at=state.now, modified_at=state.now, event_at=latest.event_at,
        kind="episodic", category="project", layer="working", importance=DISTILLED_IMPORTANCE,
        decay_rate=default_decay_rate("working", "episodic"), trust=lowest_trust(*(each.trust for each in notes)),
        method=state.method, source=DISTILL_SOURCE, tags=STATUS_TAGS, namespace=latest.namespace,
        user_id=latest.user_id, derived_from=tuple(each.id for each in notes), **scope,
    )  # fmt: skip


TOPIC_MEMBERS_MIN = 10  # of a topic that is distilled [G25]
TOPICS_MAX = 2  # that are distilled in a cycle [G25]
TOPICS_READ = 4  # in a cycle, until two have members that overlap
MEMBERS_READ = 500  # of a topic, the newest
COMPARED_MAX = 100  # others that a member is compared with
BY_RULE = "rule"  # the reason of a decision that no language model could be asked about
LOOKED_AT = "distilled_topics"  # meta key: digests of the topics in which nothing is left to be distilled
LOOKED_AT_MAX = 4096


def plan_topic_distillation(state: CycleState) -> Planning:
    """Plan fewer, richer entries for the overlapping members of the largest topics. SPEC 9.5 [G25] A member is looked
    at once with those that it overlaps with, and again when its text or one of them is new."""
    operations: list[CycleOperation] = []
    changes: list[Change] = []
    known = dict.fromkeys(state.meta(LOOKED_AT).split())
    # The mask of the memories that an entry may replace, as far as columns tell.
    has_other_home = session_notes(state) | state.tagged("ephemeral")
    has_low_trust = state.has("trust", *NEVER_CORE_TRUSTS) & state.has("layer", "core")
    may_replace = joinable(state) & state.live() & ~has_other_home & ~has_low_trust
    unchanged, asked, read = list[str](), 0, 0
    for leaf in state.topics():
        rows = leaf.rows[leaf.rows < len(may_replace)]
        rows = rows[may_replace[rows]]
        if len(leaf.rows) < TOPIC_MEMBERS_MIN or len(rows) < REPLACED_MIN:
            continue
        # A digest of the members of a topic, the times of their last changes, and whether a model may be asked.
        columns = [state.column(name)[np.sort(rows)].tobytes() for name in ("id_high", "id_low", "modified_at")]
        may_ask = bytes([state.options.may_ask(DISTILL)])
        digest = hashlib.blake2b(b"".join(columns) + may_ask, digest_size=5).hexdigest()
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
    """For each member that overlaps with others, these, unless both were looked at before. Two texts that share half of
    the words of the shorter one share one of the rarest half of its words, so that only these are looked up."""
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
                and members[at].id not in members[other].derived_from  # none is a statement from the other one's text
                and members[other].id not in members[at].derived_from
            ):
                partners.setdefault(at, set()).add(other)
                partners.setdefault(other, set()).add(at)
    return partners


def _is_open(state: CycleState, memory: Memory) -> bool:
    """Return whether a memory with its present text was never looked at, or not by a language model, which now may be
    asked."""
    decision = state.decision("distil", memory)
    return decision is None or (decision.reason == BY_RULE and state.options.may_ask(DISTILL))


def _looked_at(state: CycleState, memory: Memory) -> PutDecision:
    """The decision on a memory with its present text: it is kept when an entry is taken back."""
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
