"""Permanent erasure: which memories are erased together, and how the memories that stay are rewritten. SPEC 3.7

A derived memory repeats what its sources say. Erasing a memory therefore erases everything derived from it alone, and
so on down the chain. It also erases what was derived from other sources too, because nothing here can derive it again:
those other sources, where they were hidden in its favour, become visible again, as do the sources of an erased summary.
What an erased memory itself had superseded stays hidden: it was superseded for a reason.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mnemo_core.documents.note_diff import manifest_for_texts
from mnemo_core.ingest.mutations import new_version
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import Change, DropMemory, ErasedText, Memory, NoteFile, PutErasedText, PutSkip, Skip, State


class MemoryReferences(NamedTuple):
    """The ids that a memory refers to, and whether another memory hides it."""

    id: str
    state: State
    derived_from: tuple[str, ...]
    superseded_by: str
    evidence: tuple[str, ...]
    compresses: bool  # its sources are hidden while it exists


class ErasurePlan(NamedTuple):
    """Result of planning an erasure, by ids. `referrers` are the memories that stay and refer to an erased one."""

    asked: tuple[str, ...]
    derived: tuple[str, ...]  # erased with them
    rederive: Mapping[str, tuple[str, ...]]  # those of `derived` that had other sources too, which stay
    unhidden: frozenset[str]  # ids that become visible again
    referrers: tuple[str, ...]

    @property
    def erased(self) -> tuple[str, ...]:
        return (*self.asked, *self.derived)


def references_of(memory: Memory) -> MemoryReferences | None:
    """Return the references of a memory, None where it has none."""
    is_hidden = memory.state in ("superseded", "compressed")
    if not (memory.derived_from or memory.superseded_by or memory.evidence or is_hidden):
        return None
    return MemoryReferences(
        memory.id, memory.state, memory.derived_from, memory.superseded_by, memory.evidence, memory.compression_source
    )


def plan_erasure(
    asked: Collection[str], references: Iterable[MemoryReferences], derived: Collection[str] = ()
) -> ErasurePlan:
    """Plan the erasure of these memories and of what was derived from them.

    `derived`: ids that an earlier, interrupted plan already found; some may be erased already.
    """
    known = {reference.id: reference for reference in references}
    made_of: defaultdict[str, list[str]] = defaultdict(list)
    for reference in known.values():
        for source in reference.derived_from:
            made_of[source].append(reference.id)
    going = dict.fromkeys((*asked, *derived))
    waiting = list(going)
    while waiting:
        for memory_id in made_of[waiting.pop()]:
            if memory_id not in going:
                going[memory_id] = None
                waiting.append(memory_id)
    return _plan(tuple(asked), going, known)


def plan_without_derived(asked: Collection[str], references: Iterable[MemoryReferences]) -> ErasurePlan:
    """Plan the erasure of these memories alone, as when the trash is emptied.

    The sources that only an erased summary had compressed become active again.
    """
    return _plan(tuple(asked), dict.fromkeys(asked), {reference.id: reference for reference in references})


def _plan(asked: tuple[str, ...], going: Mapping[str, None], known: Mapping[str, MemoryReferences]) -> ErasurePlan:
    named = frozenset(asked)
    derived = tuple(memory_id for memory_id in going if memory_id not in named)
    rederive = {}
    for memory_id in derived:
        sources = known[memory_id].derived_from if memory_id in known else ()
        if stay := tuple(source for source in sources if source not in going):
            rederive[memory_id] = stay
    revived = _revived(known, going, frozenset(derived))
    referrers = [each.id for each in known.values() if each.id not in going and _names_any(each, going)]
    return ErasurePlan(asked, derived, rederive, revived, tuple(dict.fromkeys((*referrers, *sorted(revived)))))


def _revived(
    known: Mapping[str, MemoryReferences], going: Collection[str], with_them: Collection[str]
) -> frozenset[str]:
    """The ids that stay and were hidden in favour of an erased memory, or compressed by an erased summary.

    A memory that several entries of profiles repeat names one of them, and becomes visible with the end of that one.
    """
    superseded = {
        reference.id
        for reference in known.values()
        if reference.state == "superseded" and reference.superseded_by in with_them
    }
    still = {
        source
        for reference in known.values()
        if reference.compresses and reference.id not in going
        for source in reference.derived_from
    }
    sources = {
        source
        for memory_id in going
        if memory_id in known and (memory_id in with_them or known[memory_id].compresses)
        for source in known[memory_id].derived_from
    }
    compressed = {one for one in sources - still if one in known and known[one].state == "compressed"}
    compressed |= {each.id for each in known.values() if each.state == "compressed" and each.superseded_by in going}
    return frozenset((superseded | compressed) - set(going))


def _names_any(reference: MemoryReferences, ids: Collection[str]) -> bool:
    return any(name in ids for name in (*reference.derived_from, reference.superseded_by, *reference.evidence))


def without_references(memory: Memory, planned: ErasurePlan, dropped: Collection[str], now: int) -> Memory | None:
    """The next version of a memory that stays, which names nothing that is dropped; None where nothing changes."""
    fields = {
        "derived_from": tuple(each for each in memory.derived_from if each not in dropped),
        "evidence": tuple(each for each in memory.evidence if each not in dropped),
        "superseded_by": "" if memory.superseded_by in dropped else memory.superseded_by,
        "state": memory.state,
    }
    if memory.id in planned.unhidden and memory.state in ("superseded", "compressed"):
        fields["state"] = "active"
    if all(getattr(memory, name) == value for name, value in fields.items()):
        return None
    return new_version(memory, now, fields)


def erase_memory(versions: Sequence[Memory], salt: str, now: int, *, has_note: bool) -> list[Change]:
    """Changes that erase a memory with all its versions.

    A salted hash of each of its texts is kept, so that the same text is not imported again; a chunk's note keeps one
    too, as on deletion.
    """
    changes: list[Change] = []
    hashes = dict.fromkeys(skip_hash(salt, memory.content) for memory in versions)
    changes += [PutErasedText(data=ErasedText(hash=digest, at=now)) for digest in hashes]
    if has_note:
        changes += [PutSkip(data=Skip(file=versions[-1].managed, hash=digest)) for digest in hashes]
    changes.append(DropMemory(id=versions[-1].id))
    return changes


def without_chunks(note: NoteFile, dropped: Collection[str], others: Iterable[str]) -> NoteFile:
    """The manifest without these memories, and without what only they had from the file. `others` are the texts of the
    chunks that stay."""
    chunks = tuple(chunk for chunk in note.chunks if chunk.memory not in dropped)
    return manifest_for_texts(msgspec.structs.replace(note, chunks=chunks), others)
