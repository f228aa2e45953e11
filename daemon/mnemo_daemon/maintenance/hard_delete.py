"""Hard delete of memories, in slices, with the references to them in other memories and in manifests of notes.

References are removed before the memories, so that a run that was interrupted can be repeated with the same result.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

import msgspec

from mnemo_core.ingest import erasure
from mnemo_core.ingest.erasure import ErasurePlan, MemoryReferences
from mnemo_core.ingest.session_records import key_of, scope_of
from mnemo_daemon.table_walk import all_memories, records_of, walk
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.records import (
    Change,
    DropDecision,
    DropMemory,
    DropNote,
    DropSession,
    DropSkip,
    Memory,
    NoteFile,
    PutMemory,
    PutNote,
    PutTrash,
)
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import DECISIONS, SESSIONS

DELETED_PER_WRITE = 100  # memories; with their texts' hashes and notes that stays below 500 changes [SPEC 3.2]

T = TypeVar("T")

Removal = Callable[[Snapshot, Sequence[Memory], bool], Sequence[Change]]
"""What takes a memory out, of which all versions are given, the current one last, and whether its note stays."""


class ChangeOrigin(NamedTuple):
    """The author and operation of the changes, for the history."""

    what: str
    by: str
    group: str


def drop(_: Snapshot, versions: Sequence[Memory], __: bool) -> list[Change]:
    """A Removal after which the same text may come again."""
    return [DropMemory(id=versions[-1].id)]


class HardDelete:
    """The service. One caller at a time, on a thread that may wait."""

    def __init__(self, store: Store, pause: Callable[[float], object] = time.sleep) -> None:
        """`pause` is called while the queue of writes is full, and may raise."""
        self._store = store
        self._pause = pause

    def relations(self) -> list[MemoryReferences]:
        """The references of every memory that names another."""
        found = (erasure.references_of(memory) for memory in all_memories(self._store))
        return [references for references in found if references is not None]

    def execute(
        self,
        plan: ErasurePlan,
        origin: ChangeOrigin,
        removal: Removal,
        is_wanted: Callable[[Memory], bool] = lambda _: True,
    ) -> Iterator[Sequence[Memory]]:
        """Remove the references, then delete the memories for which `is_wanted` holds; yields all versions of each
        slice. The work is done as the iterator is read."""
        dropped = frozenset(plan.erased)
        for ids in batched(plan.referrers, DELETED_PER_WRITE):
            self._transact(partial(_clean_survivors, ids=ids, plan=plan, dropped=dropped, origin=origin), origin)
        self._drop_decisions(dropped, origin)
        listing: dict[str, list[str]] = {}
        slices = walk(self._store, lambda snapshot, *at: snapshot.notes(*at), lambda _, notes: notes)
        for note in chain.from_iterable(slices):
            for chunk in note.chunks:
                if chunk.memory in dropped:
                    listing.setdefault(chunk.memory, []).append(note.id)
        for ids in batched(plan.erased, DELETED_PER_WRITE):
            decide = partial(
                _drop, ids=ids, dropped=dropped, origin=origin, removal=removal, is_wanted=is_wanted, listing=listing
            )
            yield self._transact(decide, origin)
        self._drop_decisions(dropped, origin)  # proposed by a cycle while some of the memories were still there

    def drop_sessions(self, deleted: Sequence[Memory], origin: ChangeOrigin) -> None:
        """Drop the records of the sessions of these turns that have no turn left: they have the name of the session."""
        empty = {key_of(scope_of(each)) for each in deleted if each.turn is not None and each.session_id}
        with self._store.snapshot() as snapshot:
            before = {key: record for key in empty if (record := snapshot.get(SESSIONS, key)) is not None}
        for memory in all_memories(self._store) if before else ():
            if memory.turn is not None and memory.session_id:
                before.pop(key_of(scope_of(memory)), None)

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            gone = [key for key, record in before.items() if snapshot.get(SESSIONS, key) == record]  # else a turn came
            return WriteResult([DropSession(id=key) for key in gone], None, origin.what, origin.group)

        if before:
            self._transact(decide, origin)

    def _drop_decisions(self, dropped: Collection[str], origin: ChangeOrigin) -> None:
        """Remove the decisions on more than two memories of which one goes: a proposed text has words of all of them.
        Decisions on one or two go with them."""
        going: list[Change] = [
            DropDecision(memory=each.memory, action=each.action, other=each.other)
            for each in records_of(self._store, DECISIONS)
            if any(one in dropped for one in each.more)
        ]
        for some in batched(going, DELETED_PER_WRITE):
            self._transact(partial(_drop_changes, changes=some, origin=origin), origin)

    def _transact(self, decide: Callable[[Snapshot], WriteResult[T]], origin: ChangeOrigin) -> T:
        return retry_while_full(
            lambda: self._store.transact(decide, by=origin.by, background=True, frees=True).result().result, self._pause
        )


def _drop_changes(_: Snapshot, changes: Sequence[Change], origin: ChangeOrigin) -> WriteResult[None]:
    return WriteResult(changes, None, origin.what, origin.group)


def _clean_survivors(
    snapshot: Snapshot, ids: Sequence[str], plan: ErasurePlan, dropped: Collection[str], origin: ChangeOrigin
) -> WriteResult[None]:
    changes: list[Change] = []
    for memory_id in ids:
        memory = snapshot.memory(memory_id)
        after = erasure.without_references(memory, plan, dropped, snapshot.now) if memory is not None else None
        if after is None:
            continue
        changes.append(PutMemory(data=after))
        entry = snapshot.trash(memory_id)
        if entry is not None and entry.state == "compressed" and not after.superseded_by:  # restored, it is shown
            changes.append(PutTrash(data=msgspec.structs.replace(entry, state="active")))
    return WriteResult(changes, None, origin.what, origin.group)


def _drop(
    snapshot: Snapshot,
    ids: Sequence[str],
    dropped: Collection[str],
    origin: ChangeOrigin,
    removal: Removal,
    is_wanted: Callable[[Memory], bool],
    listing: Mapping[str, Sequence[str]],
) -> WriteResult[Sequence[Memory]]:
    found = {memory_id: [stored.memory for stored in snapshot.all_versions(memory_id)] for memory_id in ids}
    going = {memory_id: versions for memory_id, versions in found.items() if versions and is_wanted(versions[-1])}
    changes: list[Change] = []

    def stays_for_good(memory: Memory) -> bool:
        return memory.id not in dropped or not is_wanted(memory)

    stays: dict[str, bool] = {}  # of each file of notes, whether its manifest does
    files = [versions[-1].managed for versions in going.values()]
    files += [file for memory_id in going for file in listing.get(memory_id, ())]
    for file in dict.fromkeys(files):
        note = snapshot.note(file) if file else None
        stays[file] = note is not None and not (note.missing and all(chunk.memory in going for chunk in note.chunks))
        if note is not None:
            changes += _mend_note(snapshot, note, going, stays_for_good) if stays[file] else _drop_note(snapshot, note)
    for versions in going.values():
        changes += removal(snapshot, versions, stays[versions[-1].managed])
    gone = [memory for versions in going.values() for memory in versions]
    return WriteResult(changes, gone, origin.what, origin.group)


def _mend_note(
    snapshot: Snapshot, note: NoteFile, going: Collection[str], stays: Callable[[Memory], bool]
) -> list[Change]:
    """The manifest without what goes now, and without what only that and what goes later had from the file."""
    memories = [snapshot.memory(chunk.memory) for chunk in note.chunks if note.links]
    stay = [memory.content for memory in memories if memory is not None and stays(memory)]
    after = erasure.without_chunks(note, going, stay)
    return [PutNote(data=after)] if after != note else []


def _drop_note(snapshot: Snapshot, note: NoteFile) -> list[Change]:
    skips = [DropSkip(file=note.id, hash=digest) for digest in sorted(snapshot.skips(note.id))]
    return [*skips, DropNote(id=note.id)]
