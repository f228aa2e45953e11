"""Mutations of memories, as changes: store, edit, delete, restore, revert, undo of a cycle. SPEC 2.1, 3.3, 3.7, 5.5, 9

Every function takes the current records and returns changes that state their new versions whole, never an operation on
the old ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from mnemo_core.decay import UsageReader, initial_usage, present_usage
from mnemo_store.record_texts import decision_digest, normalized_text
from mnemo_store.records import (
    TAGS_MAX,
    Category,
    Change,
    ConversationTurn,
    Cycle,
    DropDecision,
    DropTrash,
    Form,
    ImportanceSource,
    Kind,
    LifecycleAction,
    LifecycleDecision,
    Memory,
    OperationReport,
    PutCycle,
    PutDecision,
    PutMemory,
    PutMeta,
    PutTrash,
    PutUsage,
    Relation,
    TraceStep,
    TrashEntry,
    Trust,
    Usage,
    default_decay_rate,
)

KEPT_IMPORTANCE_MIN = 0.3  # a text that scores below it is discarded; at it, it is kept [L 1.5]
IMPORTANCE_DEFAULT = 0.5  # of a deliberate statement without a score [SPEC 5.3]
KIND_DEFAULT: Kind = "semantic"
CATEGORY_DEFAULT: Category = "fact"
RECALL_STRENGTH_GAIN = 0.03  # what being recalled adds to strength, up to 1.0 [G 2.7]

Outcome = Literal["stored", "duplicate", "repeats", "merged", "updated", "discarded"]


class Draft(NamedTuple):
    """A memory to be stored, as its caller described it: cleaned, checked, and with the trust of its entry point. A
    kind or category of None was not given: classification sets it, and without classification it is semantic, fact."""

    content: str
    namespace: str
    user_id: str
    trust: Trust
    source: str
    kind: Kind | None = None
    form: Form | None = None
    category: Category | None = None
    importance: float | None = None
    importance_source: ImportanceSource = "user"  # of an importance that is there
    event_at: int | None = None
    created_at: int | None = None
    expires_at: int = 0
    speaker: str = ""
    tags: tuple[str, ...] = ()
    agent_id: str = ""
    run_id: str = ""
    session_id: str = ""
    key: str = ""
    evidence: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    pinned: bool = False
    trace: TraceStep | None = None
    turn: ConversationTurn | None = None
    method: str = "said"
    given: frozenset[str] | None = None  # the fields that a caller named; None: all of them


class MemoryRelation(NamedTuple):
    """A relation of an incoming text to a similar memory, at the version that was compared. SPEC 5.5"""

    id: str
    version: int
    relation: Relation
    sim: float | None
    why: str
    is_same_slot: bool = False  # `related`, and perhaps a newer value of it. SPEC 5.8


class Decision(NamedTuple):
    """Outcome of a write, as reported to its caller. `relations` link to similar memories; `reason` says why it was
    discarded; `merged_texts` are the earlier and the new text where only the longer one was kept."""

    outcome: Outcome
    memory: Memory
    changes: tuple[Change, ...]
    relations: tuple[MemoryRelation, ...] = ()
    reason: str = ""
    merged_texts: tuple[str, ...] = ()


def store_new(draft: Draft, memory_id: str, now: int, epoch: int) -> Decision:
    """Store a new memory: in the buffer, whatever layer was asked for [G 1]."""
    created_at = now if draft.created_at is None else draft.created_at
    memory = Memory(
        id=memory_id, created_at=created_at, modified_at=now,
        importance=IMPORTANCE_DEFAULT if draft.importance is None else draft.importance,
        importance_source="rule" if draft.importance is None else draft.importance_source,
        decay_rate=default_decay_rate("buffer", draft.kind or KIND_DEFAULT), **_written(draft, created_at),
    )  # fmt: skip
    return Decision("stored", memory, (PutMemory(data=memory), PutUsage(data=initial_usage(memory, epoch))))


def store_keyed(draft: Draft, before: Memory, usage: Usage, entry: TrashEntry | None, now: int) -> Decision:
    """Write under a known key: equal content is a duplicate, other content or another trace a new version. SPEC 2.1

    `usage` is that of the present epoch. Fields that the caller did not name stay as they are. A keyed memory that is
    trashed, hidden or expired becomes visible again.
    """
    former = entry.state if entry is not None and before.state == "trashed" else before.state
    is_hidden = former in ("superseded", "discarded", "compressed")
    is_same_step = draft.trace is None or draft.trace == before.trace
    if normalized_text(before.content) == normalized_text(draft.content) and is_same_step and not is_hidden:
        if entry is None:
            return Decision("duplicate", before, (PutUsage(data=record_repetition(usage, now)),))
        changes = restore(before, entry, now)
        return Decision("duplicate", next(each.data for each in changes if isinstance(each, PutMemory)), changes)
    fields = {"state": "active", "superseded_by": ""} if is_hidden else {"state": former}
    after = new_version(before, now, _rewritten(draft, before, now) | fields)
    dropped = (DropTrash(id=after.id),) if entry is not None else ()
    return Decision("updated", after, (PutMemory(data=after), *dropped, *adjust_strength(usage, before, after)))


def new_version(before: Memory, now: int, fields: Mapping[str, Any]) -> Memory:
    """The memory with these fields changed, as its next version."""
    after = msgspec.structs.replace(before, **{**fields, "version": before.version + 1, "modified_at": now})
    return _with_turn_of(after, before)


def is_changed(before: Memory, fields: Mapping[str, Any]) -> bool:
    """Return whether any of the fields differs from the memory's."""
    return any(getattr(before, name) != value for name, value in fields.items())


def supersede(older: Sequence[Memory], newer: str, now: int) -> tuple[Change, ...]:
    """Hide the memories that a newer one replaces, while that one stands. One that was discarded loses the entry that
    says why. SPEC 2.1"""
    fields = {"superseded_by": newer, "state": "superseded"}
    changes: list[Change] = []
    for memory in older:
        if memory.id != newer:
            changes.append(PutMemory(data=new_version(memory, now, fields)))
            changes += [DropTrash(id=memory.id)] if memory.state == "discarded" else []
    return tuple(changes)


def record_repetition(usage: Usage, now: int) -> Usage:
    """Count a repetition, which is also a recall. SPEC 7.5 [G 2.1]"""
    return count_repetition(record_recall(usage, now), now)


def count_repetition(usage: Usage, now: int) -> Usage:
    """Count a repetition alone: by a text that is not kept, or a reinforcement of another kind."""
    return msgspec.structs.replace(usage, repetition_count=usage.repetition_count + 1, last_accessed=now)


def record_recall(usage: Usage, now: int) -> Usage:
    """Count a recall: access_count + 1, strength + 0.03 up to 1.0. SPEC 7.5 [G 2.7]"""
    strength = min(1.0, usage.strength + RECALL_STRENGTH_GAIN)
    return msgspec.structs.replace(usage, access_count=usage.access_count + 1, last_accessed=now, strength=strength)


def recall(memory: Memory, usage: Usage, now: int) -> tuple[Change, ...]:
    """Count a recall. An archived memory is active again, in the layer it had and with the time of its last change.
    SPEC 7.5, 9.4"""
    used = PutUsage(data=record_recall(usage, now))
    if memory.state != "archived":
        return (used,)
    active = msgspec.structs.replace(memory, state="active", version=memory.version + 1)
    return PutMemory(data=active), used


def adjust_strength(usage: Usage, before: Memory, after: Memory) -> tuple[Change, ...]:
    """Move the strength by the difference that a person made to the importance, within 0 and 1. SPEC 7.5

    `usage`: of the present epoch, which is also written where the memory decays otherwise from now on. SPEC 9.3
    """
    difference = after.importance - before.importance if after.importance_source == "user" else 0.0
    if not difference and (after.kind, after.pinned) == (before.kind, before.pinned):
        return ()
    strength = min(1.0, max(0.0, usage.strength + difference))
    return (PutUsage(data=msgspec.structs.replace(usage, strength=strength)),)


def rescore_strength(before: Memory, after: Memory, store: UsageReader) -> tuple[Change, ...]:
    """The changes to the usage of a memory that a rule or a model has judged again: its strength starts as the new
    importance, unless something else has moved it."""
    usage = store.usage(before.id) or initial_usage(before)
    if usage.strength != before.importance:
        return adjust_strength(present_usage(before, store), before, after)
    is_moved = after.importance != before.importance
    return (PutUsage(data=msgspec.structs.replace(usage, strength=after.importance)),) if is_moved else ()


def has_expired(memory: Memory, now: int) -> bool:
    return 0 < memory.expires_at <= now


def move_to_trash(memory: Memory, why: str, now: int) -> tuple[Change, ...]:
    """Move a memory to the trash, with the reason and the state it had. SPEC 3.7"""
    entry = TrashEntry(id=memory.id, at=now, why=why, state=memory.state)
    return PutMemory(data=new_version(memory, now, {"state": "trashed"})), PutTrash(data=entry)


def restore(memory: Memory, entry: TrashEntry | None, now: int) -> tuple[Change, ...]:
    """Restore from the trash in its previous state, or from discarded or archived to active. SPEC 3.7

    A text discarded for its low importance is restored with the lowest importance that is kept. A memory that has
    expired is restored without its expiry.
    """
    fields: dict[str, Any] = {"state": entry.state if entry is not None else "active"}
    if memory.state == "discarded" and memory.importance < KEPT_IMPORTANCE_MIN:
        fields |= {"importance": KEPT_IMPORTANCE_MIN, "importance_source": "user"}
    if has_expired(memory, now):
        fields["expires_at"] = 0
    back = PutMemory(data=new_version(memory, now, fields))
    return (back, DropTrash(id=memory.id)) if entry is not None else (back,)


class PlannedRevert(NamedTuple):
    """One memory that an undo puts back: as it is now, and as it was before the change (None: not there)."""

    current: Memory
    before: Memory | None


def revert(rows: Sequence[PlannedRevert], why: str, now: int) -> tuple[Change, ...]:
    """Restore each memory as its next version; a memory that the change made is moved to the trash. SPEC 3.3

    It was modified now, unless what is taken back was no modification, such as a move to another layer.
    """
    changes: list[Change] = []
    for row in rows:
        if row.before is None:
            if row.current.state != "trashed":
                changes.extend(move_to_trash(row.current, why, now))
            else:  # it was merged as trash; the revert is recorded by a version
                changes.append(PutMemory(data=new_version(row.current, now, {})))
            continue
        is_modified = row.current.modified_at != row.before.modified_at
        fields = {"version": row.current.version + 1, "modified_at": now if is_modified else row.before.modified_at}
        if row.current.state == "trashed" and row.before.state != "trashed" and has_expired(row.before, now):
            fields["expires_at"] = 0  # as in `restore`
        back = _with_turn_of(msgspec.structs.replace(row.before, **fields), row.current)
        changes.append(PutMemory(data=back))
        if row.current.state == "trashed" and back.state != "trashed":
            changes.append(DropTrash(id=back.id))
        elif back.state == "trashed" and row.current.state != "trashed":
            changes.append(PutTrash(data=TrashEntry(id=back.id, at=now, why=why, state=row.current.state)))
    return tuple(changes)


def _with_turn_of(memory: Memory, current: Memory) -> Memory:
    """The memory in the tier of its current version; a summary belongs to one text."""
    if memory.turn is None or current.turn is None:
        return memory
    is_same = memory.content == current.content
    turn = current.turn if is_same else msgspec.structs.replace(current.turn, summary="")
    return msgspec.structs.replace(memory, turn=turn)


_NOT_WRITTEN = ("importance", "importance_source", "created_at", "supersedes", "given")  # of a draft: set otherwise


def _written(draft: Draft, created_at: int) -> dict[str, Any]:
    """The fields of a memory that its writer sets, scope included."""
    fields = {name: value for name, value in draft._asdict().items() if name not in _NOT_WRITTEN}
    return fields | {
        "event_at": created_at if draft.event_at is None else draft.event_at,
        "kind": draft.kind or KIND_DEFAULT,
        "category": draft.category or CATEGORY_DEFAULT,
    }


def _rewritten(draft: Draft, before: Memory, now: int) -> dict[str, Any]:
    """The fields of a keyed memory that a draft sets: the content, and what its caller named. A date that the new text
    itself holds counts as named, and an expiry that has passed does not stay."""
    fields = _written(draft, before.created_at)
    named = draft.given
    if named is None:
        is_tools_own = draft.trust == "import" and before.importance_source != "user"
        takes_importance = draft.importance_source == "user" or is_tools_own
    else:
        if draft.event_at is not None:
            named |= {"event_at"}
        if has_expired(before, now):
            named |= {"expires_at"}
        if "tags" not in named and draft.tags:  # those that cleaning added: `sensitive`
            kept = (tag for tag in before.tags if tag not in draft.tags)
            fields["tags"] = (*draft.tags, *kept)[:TAGS_MAX]
            named |= {"tags"}
        fields = {name: value for name, value in fields.items() if name in named or name in _ALWAYS_WRITTEN}
        takes_importance = "importance" in named
    if draft.importance is not None and takes_importance:
        fields |= {"importance": draft.importance, "importance_source": draft.importance_source}
    return fields


_ALWAYS_WRITTEN = frozenset({"content", "trust", "method"})


DecisionKey = tuple[str, LifecycleAction, str]  # memory, action, other


def rejected(decision: LifecycleDecision, now: int) -> LifecycleDecision:
    """The decision of a person against an operation that is proposed, or that was carried out and is undone."""
    return replace(decision, status="rejected", at=now, text="", tag="", group="", usages=())


def undo_changes(
    cycle: Cycle, now: int, decision_at: Callable[[str, LifecycleAction, str], LifecycleDecision | None],
    text_after: Callable[[str], str | None], *, is_last: bool,
) -> list[Change]:  # fmt: skip
    """The changes that take back what has no versions. `text_after`: what a memory says once the cycle is undone, None
    of one that the cycle made. `is_last`: no cycle that stands came after it; else the epoch and the like stay."""
    changes: list[Change] = [PutCycle(data=replace(cycle, undone_at=now))]
    changes += [PutMeta(name=each.name, value=each.before) for each in cycle.metas if is_last]
    rejections: dict[DecisionKey, LifecycleDecision] = {}  # by which the operations of the cycle are not made again
    for operation in (operation for step in cycle.steps for operation in step.operations):
        texts = {each: text for each in operation.ids if (text := text_after(each)) is not None}
        if texts:
            rejections.update([rejection(operation, texts, now)])
    for made in cycle.decisions:
        key = (made.memory, made.action, made.other)
        standing = decision_at(*key)
        if key in rejections or standing is None or standing.at > max(cycle.ended_at, cycle.started_at):
            continue  # a person has decided since
        if standing.status == "done":
            rejections[key] = rejected(standing, now)
        elif made.before is not None:
            changes.append(PutDecision(data=made.before))
        else:
            changes.append(DropDecision(memory=key[0], action=key[1], other=key[2]))
    return [*changes, *(PutDecision(data=each) for each in rejections.values())]


def rejection(operation: OperationReport, texts: dict[str, str], now: int) -> tuple[DecisionKey, LifecycleDecision]:
    """The decision of a person that an operation is not made with these texts of memories, which were there before."""
    first, *between = texts
    last = between.pop() if between else first
    decision = LifecycleDecision(
        memory=first, action=operation.action, other=last, status="rejected", at=now, more=tuple(between),
        digest=decision_digest([*texts.values()]),
    )  # fmt: skip
    return (first, operation.action, last), decision
