"""Changes as entries that devices share: those of this store since the last exchange, or its whole state, and the merge
of what others share. SPEC 21.2

Transactions are held in memory from their commit on. Where some are missing, after a start or a failed exchange, the
entries are made from the state of the store, which says of everything who changed it last.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import msgspec

from mnemo_core.ingest.mutations import move_to_trash
from mnemo_daemon.history_names import BY_SYNC, SYNC
from mnemo_daemon.table_walk import walk_table
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.codec import encode_json
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import DropMemory, LifecycleDecision, PutDecision, PutDeviceUsage
from mnemo_store.replication.device_clock import OwnDevices
from mnemo_store.replication.merge import Divergence, MergeResult, adjust, lost_words, merge_entry, own_part
from mnemo_store.replication.shared_entry import (
    CONFLICT_REASON,
    KnownEntries,
    SharedEntry,
    decode_entry,
    encode_entry,
    epoch_entry,
    memory_entries,
    record_entry,
    removal_entry,
    shared_entry,
)
from mnemo_store.store import Commit, Store, WriteReceipt, WriteResult
from mnemo_store.tables import MEMORIES, RECORD_CLOCKS, SHARED, StoredMemory, Table

WAITING_CHANGES_MAX = 20_000  # transactions that are held; of more, the store is read
READ_TOGETHER = 64  # transactions that are made entries under one snapshot
USAGE_TOGETHER = 200  # memories whose usage is written in one transaction


class OutgoingChanges:
    """The changes that are not shared yet. `hold` is called on the writer thread, the rest by one thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[Commit] = deque(maxlen=WAITING_CHANGES_MAX)

    def hold(self, commit: Commit) -> None:
        """Hold a transaction until it is shared."""
        self._waiting.append(commit)

    def clear(self, until: int | None = None) -> None:
        """Hold the transactions up to this one, or any, no longer."""
        while self._waiting and (until is None or self._waiting[0].seq <= until):
            self._waiting.popleft()

    def share_usage(self, device: str, after: int) -> int:
        """Write this device's part of what was used since a transaction; return the last one that is to be shared."""
        used: dict[str, None] = {}
        seq = after
        while True:
            with self._store.snapshot() as snapshot:
                entries = snapshot.entries(seq)
            used |= {memory_id: None for _, entry in entries if not entry.device for memory_id in entry.used}
            if not entries:
                break
            seq = entries[-1].seq
        for ids in batched(list(used), USAGE_TOGETHER):

            def decide(snapshot: Snapshot, ids: Sequence[str] = tuple(ids)) -> WriteResult[None]:
                parts = (own_part(snapshot, memory_id, device, snapshot.now) for memory_id in ids)
                return WriteResult([PutDeviceUsage(data=part) for part in parts if part is not None], None, SYNC)

            seq = max(seq, self._store.transact(decide, by=BY_SYNC.name, background=True).result().seq)
        return seq

    def entries(self, after: int, until: int) -> Iterator[SharedEntry]:
        """The entries of the transactions behind `after`, up to `until`."""
        taken = []
        while self._waiting and self._waiting[0].seq <= until:
            commit = self._waiting.popleft()
            if commit.seq > after:
                taken.append(commit)
        is_whole = [commit.seq for commit in taken] == list(range(after + 1, until + 1))
        waiting = taken if is_whole and all(commit.changes is not None for commit in taken) else None
        if waiting is None:
            yield from self.state((), after)
            return
        for commits in batched(waiting, READ_TOGETHER):
            with self._store.snapshot() as snapshot:
                own = OwnDevices.of(snapshot)
                made = [shared_entry(each.seq, each.changes or (), snapshot, own) for each in commits]
            yield from (entry for entry in made if entry is not None)

    def state(self, others: Collection[str], after: int = 0) -> Iterator[SharedEntry]:
        """The store as entries: what this device and these others changed last, in transactions behind `after`."""
        with self._store.snapshot() as snapshot:
            own = OwnDevices.of(snapshot)
            yield epoch_entry(snapshot, own)
        devices = {*others, *(device for _, device in own.spans)}
        for slices in walk_table(self._store, MEMORIES, lambda snapshot, rows: [
            list(memory_entries(snapshot, row.memory, devices, own, after)) for row in rows
        ]):  # fmt: skip
            for entries in slices:
                yield from entries
        for table in SHARED:
            for entries in walk_table(self._store, table, partial(_record_entries, table, devices, own, after)):
                yield from entries
        for clocks in walk_table(self._store, RECORD_CLOCKS, lambda _, rows: rows):
            yield from (entry for clock in clocks if (entry := removal_entry(clock, devices, after)) is not None)


def _record_entries(
    table: Table[Any], devices: Collection[str], own: OwnDevices, after: int, snapshot: Snapshot, rows: Sequence[Any]
) -> list[SharedEntry]:
    made = (record_entry(snapshot, table, row, devices, own, after) for row in rows)
    return [entry for entry in made if entry is not None]


def noting_erased(entries: Iterator[SharedEntry], erased: list[str]) -> Iterator[SharedEntry]:
    """Yield the entries as they are; add the memories that they erase to the list."""
    for entry in entries:
        if entry.erases:
            erased += (change.id for change in entry.changes if isinstance(change, DropMemory))
        yield entry


def without_erased(erased: Collection[str], data: bytes) -> bytes | None:
    """Return an entry without what it says of erased memories, but for that they are gone; None for nothing."""
    if not any(each.encode() in data for each in erased):
        return data
    entry = decode_entry(data)
    if isinstance(entry, KnownEntries):
        return data
    kept = [
        change for change in entry.changes
        if isinstance(change, DropMemory) or not any(each.encode() in encode_json(change) for each in erased)
    ]  # fmt: skip
    if not kept:
        return None
    bases = {memory_id: base for memory_id, base in entry.bases.items() if memory_id not in erased}
    return encode_entry(msgspec.structs.replace(entry, changes=tuple(kept), bases=bases))


T = TypeVar("T")
TRASHED_TOGETHER = 200  # memories in one transaction


class ChangeMerger:
    """The merge. One caller at a time, on a thread that may wait."""

    def __init__(self, store: Store, erase: Callable[[Sequence[str], str], object]) -> None:
        """`erase`: erases memories (whole ids) with every trace, for an author."""
        self._store = store
        self._erase = erase

    def merge(self, entries: Sequence[SharedEntry]) -> list[str]:
        """Merge entries in order; return the memories that they erase, also those that are not here."""
        erased = [
            each.id for entry in entries if entry.erases for each in entry.changes if isinstance(each, DropMemory)
        ]
        with self._store.snapshot() as snapshot:
            here = [memory_id for memory_id in erased if snapshot.stored(memory_id) is not None]
        if here:
            self._erase(here, BY_SYNC.name)
        writes = [self._transact(partial(_decide_merge, entry=entry), entry.by or BY_SYNC.name) for entry in entries]
        results = [write.result().result for write in writes]
        for result in results:
            for part in _parts(result):
                self._adjust(part)
            for divergence in result.divergences:
                self._propose(divergence)
        return erased

    def trash_passages(self, folders: Collection[str]) -> None:
        """Move the passages of notes folders, by their portable names, to the trash."""
        for passages in walk_table(self._store, MEMORIES, partial(_passages_of, folders)):
            for some in batched(passages, TRASHED_TOGETHER):
                self._transact(partial(_decide_trash, ids=tuple(some)), BY_SYNC.name).result()

    def _transact(self, decide: Callable[[Snapshot], WriteResult[T]], by: str) -> "Future[WriteReceipt[T]]":
        return retry_while_full(lambda: self._store.transact(decide, by=by, background=True), time.sleep)

    def _adjust(self, part: MergeResult) -> None:
        """Makes the change that follows from a part of a merge, if any."""
        with self._store.snapshot() as snapshot:
            if not adjust(snapshot, part, OwnDevices.of(snapshot)):
                return

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            made = adjust(snapshot, part, OwnDevices.of(snapshot))
            if not made:
                return WriteResult((), None)
            return WriteResult(made[0].changes, None, made[0].what, clock=made[0].clock)

        self._transact(decide, BY_SYNC.name).result()

    def _propose(self, divergence: Divergence) -> None:
        """Proposes words that would be lost for review."""

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            own = OwnDevices.of(snapshot)
            lost, current = lost_words(snapshot, divergence, own), snapshot.memory(divergence.memory_id)
            if lost is None or current is None:
                return WriteResult((), None)
            proposal = LifecycleDecision(
                memory=current.id, action="merge", other=current.id, status="proposed", at=snapshot.now,
                digest=decision_digest([current.content]), text=lost.content,
                reason=f"{CONFLICT_REASON}edited on two devices; this is what the later edit replaced",
            )  # fmt: skip
            return WriteResult((PutDecision(data=proposal),), None, SYNC)

        self._transact(decide, BY_SYNC.name).result()


def _decide_merge(snapshot: Snapshot, entry: SharedEntry) -> WriteResult[MergeResult]:
    result = merge_entry(snapshot, entry, OwnDevices.of(snapshot))
    return WriteResult(
        result.changes, result, entry.what, entry.group, clock=entry.clock, device=entry.device, origin=entry.origin
    )


def _parts(result: MergeResult) -> Iterator[MergeResult]:
    """The result in parts that give one change each at most."""
    for divergence in result.divergences:
        yield MergeResult((), (divergence,))
    for arrived in result.arrived:
        yield MergeResult((), (), (arrived,))


def _passages_of(folders: Collection[str], _: Snapshot, rows: Sequence[StoredMemory]) -> list[str]:
    """The passages that another device reads in these folders."""
    return [
        row.memory.id for row in rows
        if row.memory.note is not None and row.memory.note.folder in folders and row.memory.state != "trashed"
    ]  # fmt: skip


def _decide_trash(snapshot: Snapshot, ids: Sequence[str]) -> WriteResult[None]:
    found = [memory for memory in map(snapshot.memory, ids) if memory is not None and memory.state != "trashed"]
    changes = [change for memory in found for change in move_to_trash(memory, "its folder is read here", snapshot.now)]
    return WriteResult(changes, None, SYNC)
