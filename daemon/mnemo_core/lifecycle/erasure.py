"""Dropping memories for good: what goes with them, what stays and no longer names them. SPEC 3.7

What was derived from a memory tells what it said. So what was derived from it alone goes with it, and so on; and so
does what was derived from others too, since nothing here can derive it anew: then those others, where they were
hidden for its sake, are shown again, as are those that a dropped summary stood for. What a dropped memory itself had
replaced stays hidden: it was replaced for a reason.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mnemo_core.documents.note_diff import manifest_for_texts
from mnemo_core.ingest.mutations import new_version
from mnemo_store.records import (
    Change,
    DropMemory,
    Forgotten,
    Memory,
    NoteFile,
    PutForgotten,
    PutSkip,
    Skip,
    State,
    skip_hash,
)


class MemoryReferences(NamedTuple):
    """Of a memory, which others it names, and whether it is hidden for the sake of one."""

    id: str
    state: State
    derived_from: tuple[str, ...]
    superseded_by: str
    evidence: tuple[str, ...]
    compresses: bool  # what it was derived from is hidden while it stands


class ErasurePlan(NamedTuple):
    """What dropping some memories comes to, by ids. `mended` are those that stay and name what goes."""

    asked: tuple[str, ...]
    derived: tuple[str, ...]  # what goes with them
    rederive: Mapping[str, tuple[str, ...]]  # those of `derived` that had other sources too, which stay
    unhidden: frozenset[str]  # what is shown again
    referrers: tuple[str, ...]

    @property
    def erased(self) -> tuple[str, ...]:
        return (*self.asked, *self.derived)


def references_of(memory: Memory) -> MemoryReferences | None:
    """None for a memory that is not tied to any other."""
    is_hidden = memory.state in ("superseded", "compressed")
    if not (memory.derived_from or memory.superseded_by or memory.evidence or is_hidden):
        return None
    return MemoryReferences(
        memory.id,
        memory.state,
        memory.derived_from,
        memory.superseded_by,
        memory.evidence,
        memory.compression_source,
    )


def plan_erasure(
    asked: Collection[str], ties: Iterable[MemoryReferences], derived: Collection[str] = ()
) -> ErasurePlan:
    """What dropping these comes to. `derived`: what was found to go with them before, and may be gone already."""
    known = {tie.id: tie for tie in ties}
    made_of: defaultdict[str, list[str]] = defaultdict(list)
    for tie in known.values():
        for source in tie.derived_from:
            made_of[source].append(tie.id)
    going = dict.fromkeys((*asked, *derived))
    waiting = list(going)
    while waiting:
        for memory_id in made_of[waiting.pop()]:
            if memory_id not in going:
                going[memory_id] = None
                waiting.append(memory_id)
    named = frozenset(asked)
    with_them = tuple(memory_id for memory_id in going if memory_id not in named)
    rederive = {}
    for memory_id in with_them:
        sources = known[memory_id].derived_from if memory_id in known else ()
        if stay := tuple(source for source in sources if source not in going):
            rederive[memory_id] = stay
    revived = _revived(known, going, frozenset(with_them))
    mended = [tie.id for tie in known.values() if tie.id not in going and _names_any(tie, going)]
    return ErasurePlan(tuple(asked), with_them, rederive, revived, tuple(dict.fromkeys((*mended, *sorted(revived)))))


def plan_without_derived(asked: Collection[str], ties: Iterable[MemoryReferences]) -> ErasurePlan:
    """What dropping these and nothing else comes to: the trash is emptied. What only a summary among them had
    compressed is active again."""
    going, known = frozenset(asked), {tie.id: tie for tie in ties}
    revived = _revived(known, going, ())
    mended = [tie.id for tie in known.values() if tie.id not in going and _names_any(tie, going)]
    return ErasurePlan(tuple(asked), (), {}, revived, tuple(dict.fromkeys((*mended, *sorted(revived)))))


def _revived(
    known: Mapping[str, MemoryReferences], going: Collection[str], with_them: Collection[str]
) -> frozenset[str]:
    """What stays and was hidden for the sake of something that goes along, or was in a summary that goes."""
    superseded = {tie.id for tie in known.values() if tie.state == "superseded" and tie.superseded_by in with_them}
    still = {source for tie in known.values() if tie.compresses and tie.id not in going for source in tie.derived_from}
    sources = {
        source
        for memory_id in going
        if memory_id in known and (memory_id in with_them or known[memory_id].compresses)
        for source in known[memory_id].derived_from
    }
    compressed = {one for one in sources - still if one in known and known[one].state == "compressed"}
    return frozenset((superseded | compressed) - set(going))


def _names_any(tie: MemoryReferences, ids: Collection[str]) -> bool:
    return any(name in ids for name in (*tie.derived_from, tie.superseded_by, *tie.evidence))


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
    """What purges a memory: it goes with all its versions, and a salted hash of each of its texts keeps that text from
    coming back. A chunk's note keeps one too, as when it is deleted."""
    changes: list[Change] = []
    hashes = dict.fromkeys(skip_hash(salt, memory.content) for memory in versions)
    changes += [PutForgotten(data=Forgotten(hash=digest, at=now)) for digest in hashes]
    if has_note:
        changes += [PutSkip(data=Skip(file=versions[-1].managed, hash=digest)) for digest in hashes]
    changes.append(DropMemory(id=versions[-1].id))
    return changes


def without_chunks(note: NoteFile, dropped: Collection[str], others: Iterable[str]) -> NoteFile:
    """The manifest without these memories, and without what only they had from the file. `others` are the texts of the
    chunks that stay."""
    chunks = tuple(chunk for chunk in note.chunks if chunk.memory not in dropped)
    return manifest_for_texts(msgspec.structs.replace(note, chunks=chunks), others)
