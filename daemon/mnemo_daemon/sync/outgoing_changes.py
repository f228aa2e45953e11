"""The changes of this store, as entries that it shares: those since the last exchange, or the whole state. SPEC 21.2

Transactions are held in memory from their commit on. Where some are missing, after a start or a failed exchange, the
entries are made from the state of the store, which says of everything who changed it last.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from mnemo_daemon.history_names import BY_SYNC, SYNC
from mnemo_daemon.table_walk import walk_table
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.codec import encode_json
from mnemo_store.records import DropMemory, PutDeviceUsage
from mnemo_store.replication.device_clock import SHARED_TABLES, OwnDevices
from mnemo_store.replication.merge import own_part
from mnemo_store.replication.shared_entry import (
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
from mnemo_store.store import Commit, Store, WriteResult
from mnemo_store.tables import MEMORIES, RECORD_CLOCKS, Table

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
        waiting = self._take_waiting(after, until)
        if waiting is None:
            yield from self.state((), after)
            return
        for commits in batched(waiting, READ_TOGETHER):
            with self._store.snapshot() as snapshot:
                own = OwnDevices.of(snapshot)
                made = [shared_entry(each.seq, each.changes or (), snapshot, own) for each in commits]
            yield from (entry for entry in made if entry is not None)

    def _take_waiting(self, after: int, until: int) -> list[Commit] | None:
        """The held transactions behind `after` up to `until`; None where some are missing."""
        taken = []
        while self._waiting and self._waiting[0].seq <= until:
            commit = self._waiting.popleft()
            if commit.seq > after:
                taken.append(commit)
        is_whole = [commit.seq for commit in taken] == list(range(after + 1, until + 1))
        return taken if is_whole and all(commit.changes is not None for commit in taken) else None

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
        for table in SHARED_TABLES:
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
