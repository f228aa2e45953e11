"""The trash: where memories go whose time is over, and how all or the oldest of them are dropped. SPEC 3.7

The record, versions, usage and edges of a memory are deleted. Its text may be remembered again, and old bytes of it
stay in files until they are overwritten; an erasure removes every trace.

A hard delete drops memories in slices, with the references to them in other memories and in manifests of notes.
References are removed before the memories, so that a run that was interrupted can be repeated with the same result.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from mnemo_client.protocol.memories import EmptyTrashAnswer
from mnemo_core.ingest import erasure, mutations
from mnemo_core.ingest.erasure import ErasurePlan, MemoryReferences
from mnemo_core.ingest.session_records import SessionScope, key_of, scope_of
from mnemo_core.text.dates.local_days import DAY_MS
from mnemo_daemon.history_names import BY_EXPIRY, BY_TRASH, EMPTY_TRASH, EXPIRE
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.table_walk import all_memories, records_of, walk_table
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.errors import ClosedStoreError
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import (
    STATES,
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
    TrashEntry,
)
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import DECISIONS, NOTES, SESSIONS, TRASH

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
        self, plan: ErasurePlan, origin: ChangeOrigin, removal: Removal,
        is_wanted: Callable[[Memory], bool] = lambda _: True,
    ) -> Iterator[Sequence[Memory]]:  # fmt: skip
        """Remove the references, then delete the memories for which `is_wanted` holds; yields all versions of each
        slice. The work is done as the iterator is read."""
        dropped = frozenset(plan.erased)
        for ids in batched(plan.referrers, DELETED_PER_WRITE):
            self._transact(partial(_clean_survivors, ids=ids, plan=plan, dropped=dropped, origin=origin), origin)
        self._drop_decisions(dropped, origin)
        listing: dict[str, list[str]] = {}
        for note in records_of(self._store, NOTES):
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
    snapshot: Snapshot, ids: Sequence[str], dropped: Collection[str], origin: ChangeOrigin, removal: Removal,
    is_wanted: Callable[[Memory], bool], listing: Mapping[str, Sequence[str]],
) -> WriteResult[Sequence[Memory]]:  # fmt: skip
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
            if stays[file]:
                changes += _mend_note(snapshot, note, going, stays_for_good)
            else:
                changes += [DropSkip(file=note.id, hash=digest) for digest in sorted(snapshot.skips(note.id))]
                changes.append(DropNote(id=note.id))
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


DISCARDED_DAYS = 30  # memories that ingestion rejected are kept so long [SPEC 3.7]
DELETED_PER_SLICE = 1000  # memories: each slice reads once which memories name another

log = logging.getLogger("mnemo.trash")

WHY = "expired"  # the reason that the trash shows
EXPIRED_PER_WRITE = 200  # memories; with their places in the trash that stays below 500 changes [SPEC 3.2]


_LEFT_ALONE = ("trashed", "discarded")  # in the trash already, or on its way out of the store


class Trash:
    """The service. Its methods wait for the disk and run on a thread."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._hard_delete = HardDelete(store)

    def empty(
        self, namespaces: Sequence[str], by: str, user_id: str = "local", *, confirm: bool,
        is_stopping: Callable[[], bool] = lambda: False, progress: Progress = unreported,
    ) -> EmptyTrashAnswer:  # fmt: skip
        """Delete what is in the user's trash in these namespaces (none named: all); without `confirm` only count it.
        Raises ClosedStoreError between two slices when the daemon stops."""
        ids: list[str] = []
        size = 0
        progress("reading the trash", lambda: len(ids), 0)
        for memory, _ in self.trashed():
            if memory.user_id == user_id and (not namespaces or memory.namespace in namespaces):
                ids.append(memory.id)
                size += len(memory.content.encode())
        if confirm:
            self._delete(ids, by, is_stopping, progress)
        return EmptyTrashAnswer(dropped=len(ids), bytes=size, dry_run=not confirm)

    def run_retention_slice(self, keep_days: int) -> bool:
        """Delete up to DELETED_PER_SLICE memories that have been in the trash for more than keep_days (0: any time),
        or were discarded 30 days ago; return whether there are more."""
        now = self._store.now()
        ids = []
        if keep_days:
            ids = [memory.id for memory, entry in self.trashed() if entry.at < now - keep_days * DAY_MS]
        columns = self._views.attributes
        states, modified_at = columns.columns("state", "modified_at")
        is_discarded = states == STATES.index("discarded")
        is_old = modified_at < now - DISCARDED_DAYS * DAY_MS
        ids += columns.ids(np.flatnonzero(is_discarded & is_old))
        if ids:
            self._delete(ids[:DELETED_PER_SLICE], BY_TRASH.name)
            log.info("%d memories left the trash for good: their time there was over", len(ids[:DELETED_PER_SLICE]))
        return len(ids) > DELETED_PER_SLICE

    def trashed(self) -> Iterator[tuple[Memory, TrashEntry]]:
        """Every memory in the trash."""
        for rows in walk_table(self._store, TRASH, lambda snapshot, entries: [
            (memory, entry) for entry in entries if (memory := snapshot.memory(entry.id)) is not None
        ]):  # fmt: skip
            yield from ((memory, entry) for memory, entry in rows if memory.state == "trashed")

    def _delete(
        self, ids: Sequence[str], by: str, is_stopping: Callable[[], bool] = lambda: False,
        progress: Progress = unreported,
    ) -> None:  # fmt: skip
        """Drop these; a memory restored in the meantime stays."""
        plan = erasure.plan_without_derived(ids, self._hard_delete.relations())
        origin = ChangeOrigin(EMPTY_TRASH, by, self._store.new_id())
        progress("deleting", 0, len(ids))
        slices = self._hard_delete.execute(plan, origin, drop, lambda memory: memory.state in ("trashed", "discarded"))
        turns: dict[SessionScope, Memory] = {}  # one of each session
        for number, versions in enumerate(slices, start=1):
            turns |= {scope_of(memory): memory for memory in versions if memory.turn is not None}
            progress("deleting", number * DELETED_PER_WRITE, len(ids))
            if is_stopping():
                raise ClosedStoreError("the daemon is shutting down: empty the trash again for what is left of it")
        self._hard_delete.drop_sessions([*turns.values()], origin)


class Expiry:
    """The service. `run_slice` waits for the disk and runs on a thread."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def run_slice(self) -> bool:
        """Move up to EXPIRED_PER_WRITE memories to the trash; return whether there are more."""
        columns = self._views.attributes
        expires_at, states = columns.columns("expires_at", "state")
        has_expired = (expires_at > 0) & (expires_at <= self._store.now())
        numbers = np.flatnonzero(has_expired & ~np.isin(states, [STATES.index(state) for state in _LEFT_ALONE]))
        if not len(numbers):
            return False
        ids = columns.ids(numbers[:EXPIRED_PER_WRITE])

        def decide(snapshot: Snapshot) -> WriteResult[int]:
            changes: list[Change] = []
            found = [memory for each in ids if (memory := snapshot.memory(each)) is not None]
            expired = [memory for memory in found
                       if mutations.has_expired(memory, snapshot.now) and memory.state not in _LEFT_ALONE]  # fmt: skip
            for memory in expired:
                changes += mutations.move_to_trash(memory, WHY, snapshot.now)
            return WriteResult(changes, len(expired), EXPIRE)

        count = self._store.transact(decide, by=BY_EXPIRY.name, background=True, frees=True).result().result
        log.info("%d memories have expired and went to the trash", count)
        return count > 0 and len(numbers) > EXPIRED_PER_WRITE
