"""A memory of another store, brought into one that has memories of its own. SPEC 3.8, 5.4, 5.5

It keeps its id, layer, trust, times, state and use. What the store has already, under the same id, the same key or with
the same text, is not stored again; of two that differ, the one that was changed later stands. Its history stays where
it was, and a chunk of a note is a memory of its own here, where nobody watches its file.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from mnemo_core.decay import bring_to_epoch
from mnemo_core.ingest import mutations
from mnemo_store.record_texts import normalized_text
from mnemo_store.records import Change, DropTrash, Edge, Memory, PutMemory, PutTrash, PutUsage, TrashEntry, Usage

Outcome = Literal["stored", "duplicate", "updated", "restored", "older"]

UNDONE_REASON = "undo of import"  # why what an import brought went to the trash when that was taken back

COMPARED_BY_TEXT = frozenset({"active", "archived"})  # the states in which an equal text makes a memory one too many

# Memories that were not merged, and the id that replaces each, "" for none.
IdReplacements = Mapping[str, str]


class IncomingMemory(NamedTuple):
    """A memory as the other store has it."""

    memory: Memory
    usage: Usage | None = None
    trashed: TrashEntry | None = None
    versions: int = 0  # earlier ones that the other store has


class LocalState(NamedTuple):
    """Memories of this store that correspond to an incoming one."""

    before: Memory | None = None  # the memory of the same id
    usage: Usage | None = None  # that one's
    trashed: TrashEntry | None = None  # that one's entry
    same_key: Memory | None = None  # another one that has its key
    same_text: Memory | None = None  # another one in its scope with its text


class MergeDecision(NamedTuple):
    """Outcome for an incoming memory. `replacement_id` replaces its id in references, None where it keeps its own."""

    outcome: Outcome
    changes: tuple[Change, ...] = ()
    replacement_id: str | None = None
    lost_key: bool = False  # another memory has it


def compares_by_text(memory: Memory) -> bool:
    """Return whether an equal text makes the memory a duplicate. A memory with a key is compared by its key alone."""
    return not memory.key and memory.state in COMPARED_BY_TEXT


class MergeClock(NamedTuple):
    """The time of a merge (ms), the epoch of this store, and that of the other one when it was exported."""

    now: int
    epoch: int = 0
    exported_epoch: int = 0


def merge_memory(
    incoming: IncomingMemory, local: LocalState, replacements: IdReplacements, clock: MergeClock
) -> MergeDecision:
    """Decide what becomes of a memory of another store. It has the strength here that it had there."""
    memory = incoming.memory
    if local.before is not None:
        return _compared(incoming, local, replacements, clock)
    if local.same_key is not None and normalized_text(local.same_key.content) == normalized_text(memory.content):
        return MergeDecision("duplicate", replacement_id=local.same_key.id)
    if local.same_text is not None:
        return MergeDecision("duplicate", replacement_id=local.same_text.id)
    lost_key = local.same_key is not None
    fields: dict[str, Any] = {"managed": "", "key": "" if lost_key else memory.key}
    new = msgspec.structs.replace(_pointing(memory, replacements), **fields)
    changes: list[Change] = [PutMemory(data=new)]
    if incoming.usage is not None:
        usage = bring_to_epoch(incoming.usage, memory, clock.exported_epoch)
        changes.append(PutUsage(data=msgspec.structs.replace(usage, strength_epoch=clock.epoch)))
    changes += _entry_changes(incoming, new, local)
    return MergeDecision("stored", tuple(changes), lost_key=lost_key)


def edge_between(edge: Edge, replacements: IdReplacements) -> Edge | None:
    """The edge with the ids of this store, None where one of its ends was not merged. No note owns it any more."""
    source, target = (replacements.get(end, end) for end in (edge.source, edge.target))
    if not source or not target or source == target:
        return None
    return msgspec.structs.replace(edge, source=source, target=target, via="")


def _compared(
    incoming: IncomingMemory, local: LocalState, replacements: IdReplacements, clock: MergeClock
) -> MergeDecision:
    """Decide between two versions of one memory: the later wins, and a chunk of a local note keeps what its file says.
    A memory in the local trash stays there, unless it was trashed by reverting an import."""
    memory, before = incoming.memory, local.before
    assert before is not None, "the caller has looked"
    if before.content == memory.content:
        if local.trashed is not None and local.trashed.why == UNDONE_REASON and memory.state != "trashed":
            return MergeDecision("restored", mutations.restore(before, local.trashed, clock.now))
        return MergeDecision("duplicate")
    if before.managed or memory.modified_at <= before.modified_at:
        return MergeDecision("older")
    fields = {"managed": "", "version": before.version + 1}
    lost_key = local.same_key is not None
    if lost_key:
        fields["key"] = before.key
    after = msgspec.structs.replace(_pointing(memory, replacements), **fields)
    usage = bring_to_epoch(local.usage, before, clock.epoch)
    changes: list[Change] = [PutMemory(data=after), *mutations.adjust_strength(usage, before, after)]
    changes += _entry_changes(incoming, after, local)
    return MergeDecision("updated", tuple(changes), lost_key=lost_key)


def _pointing(memory: Memory, replacements: IdReplacements) -> Memory:
    """The memory with its references to what did not come along made into those to what stands for it. What nothing
    replaces any more is shown again."""
    fields: dict[str, Any] = {}
    for field in ("derived_from", "evidence"):
        names: tuple[str, ...] = getattr(memory, field)
        if not replacements.keys().isdisjoint(names):
            replaced = (replacements.get(each, each) for each in names)
            fields[field] = tuple(dict.fromkeys(each for each in replaced if each))
    newer = replacements.get(memory.superseded_by, memory.superseded_by)
    if newer != memory.superseded_by:
        fields["superseded_by"] = newer
        if not newer and memory.state == "superseded":
            fields["state"] = "active"
    return msgspec.structs.replace(memory, **fields) if mutations.is_changed(memory, fields) else memory


def _entry_changes(incoming: IncomingMemory, after: Memory, local: LocalState) -> list[Change]:
    """Changes to the entry that records why a memory is trashed or discarded."""
    if after.state == "trashed":
        memory = incoming.memory  # whose entry is made up where the other store has none
        made = TrashEntry(id=memory.id, at=memory.modified_at, why="imported", state="active")
        return [PutTrash(data=incoming.trashed or made)]
    if after.state == "discarded" and incoming.trashed is not None:
        return [PutTrash(data=incoming.trashed)]
    return [DropTrash(id=after.id)] if local.trashed is not None else []
