"""Devices that share a memory, in memory: the real transactions, merge and adjustments, without files and threads."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from mnemo_store.codec import NO_CHANGES, encode_json
from mnemo_store.commit.commit_group import journal_line
from mnemo_store.commit.write_queue import WriteResult
from mnemo_store.journal.line_codec import JournalLine
from mnemo_store.records import Change, PutDeviceUsage, PutMeta, PutUsage
from mnemo_store.recovery.fallback_state import FallbackWriter
from mnemo_store.recovery.in_memory_tables import InMemoryTables
from mnemo_store.replication.device_clock import DEVICES, OwnDevices
from mnemo_store.replication.merge import adjust, lost_words, merge_entry, own_part, summed_usage, version_stamp
from mnemo_store.replication.shared_entry import (
    EPOCH,
    SharedEntry,
    decode_entry,
    encode_entry,
    is_conflict,
    memory_entries,
    record_entry,
    removal_entry,
    shared_entry,
)
from mnemo_store.tables import DEVICE_USAGES, MEMORIES, RECORD_CLOCKS, SHARED

SALT = "00" * 16
EVERYTHING = 1 << 30  # rows


def _no_journal(_: Any) -> bytes:
    raise AssertionError("every record is in memory")


class SharedFrame(NamedTuple):
    """The entries that a device adds to its file at once, and how many of the others' it had read before."""

    entries: tuple[bytes, ...]
    seen: dict[str, int]


class SharedDevice:
    """One device: a store in memory, its file of frames, and its place in those of others."""

    def __init__(self, name: str, clock_error: int = 0) -> None:
        self.name = name
        self.clock_error = clock_error  # ms
        self.store = FallbackWriter(InMemoryTables(_no_journal), 0)
        self.frames: list[SharedFrame] = []
        self.places: dict[str, int] = {}  # frames read, by device
        self.read: dict[str, int] = {}  # entries read, by device
        self.conflicts: list[tuple[str, str]] = []  # memory and words
        self._lines: list[JournalLine] = []
        self._end = NO_CHANGES
        self._shared_seq = 0
        for fact, value in {"format": "2", "store": name, "salt": SALT}.items():
            self.store.set_meta(fact, value)

    @property
    def is_shared(self) -> bool:
        """True where everything that was changed here is in its file."""
        return self._shared_seq == self._end[0]

    @property
    def own(self) -> OwnDevices:
        return OwnDevices.of(self.store)

    def begin_sharing(self, now: int) -> None:
        """Takes its id, and shares what it has."""
        self.commit([PutMeta(name=DEVICES, value=f"0:{self.name}")], now, "sync")
        self._shared_seq = self._end[0]
        self._append(map(encode_entry, self.snapshot_entries({self.name})))

    def commit(self, changes: list[Change], now: int, what: str = "", **origin: Any) -> None:
        """Makes changes in one transaction, like the writer thread."""
        self.store.now = now + self.clock_error
        if not changes:
            return
        line = journal_line(self.store, WriteResult(changes, None, what, **origin), self.name, self._end)
        self.store.apply(line.changes, line.seq, line.entry())
        self._end = (line.seq, "")
        self.store.set_position(self._end)
        self._lines.append(line)

    def share(self, now: int) -> None:
        """Adds what was changed here since the last time to its file, in one frame."""
        lines = [line for line in self._lines if line.seq > self._shared_seq and not line.device]
        used = {each.data.id for line in lines for each in line.changes if isinstance(each, PutUsage)}
        parts = [own_part(self.store, memory_id, self.name, now + self.clock_error) for memory_id in sorted(used)]
        self.commit([PutDeviceUsage(data=part) for part in parts if part is not None], now, "usage")
        fresh = [line for line in self._lines if line.seq > self._shared_seq]
        self._shared_seq = self._end[0]
        made = [shared_entry(line.seq, line.changes, self.store, self.own) for line in fresh]
        self._append(encode_entry(entry) for entry in made if entry is not None)

    def snapshot_entries(self, devices: set[str]) -> Iterator[SharedEntry]:
        """The whole store as entries."""
        store, own = self.store, self.own
        for stored in store.scan(MEMORIES, limit=EVERYTHING):
            yield from memory_entries(store, stored.memory, devices, own)
        for table in SHARED:
            for record in store.scan(table, limit=EVERYTHING):
                if (entry := record_entry(store, table, record, devices, own)) is not None:
                    yield entry
        for clock in store.scan(RECORD_CLOCKS, limit=EVERYTHING):
            if (entry := removal_entry(clock, devices)) is not None:
                yield entry

    def receive(self, other: "SharedDevice", now: int) -> bool:
        """Merges the next frame of another device; False where there is none, or it needs what is not here yet."""
        place = self.places.get(other.name, 0)
        if place >= len(other.frames):
            return False
        frame = other.frames[place]
        if any(self.read.get(name, 0) < count for name, count in frame.seen.items() if name != self.name):
            return False
        for data in frame.entries:
            entry = decode_entry(data)
            assert isinstance(entry, SharedEntry)
            self.merge(entry, now)
        self.places[other.name] = place + 1
        self.read[other.name] = self.read.get(other.name, 0) + len(frame.entries)
        return True

    def merge(self, entry: SharedEntry, now: int) -> None:
        result = merge_entry(self.store, entry, self.own)
        origin = {"clock": entry.clock, "device": entry.device, "origin": entry.origin}
        self.commit(list(result.changes), now, entry.what, **origin)
        for divergence in result.divergences:
            if (lost := lost_words(self.store, divergence, self.own)) is not None:
                self.conflicts.append((lost.id, lost.content))
        for adjustment in adjust(self.store, result, self.own):
            self.commit(list(adjustment.changes), now, adjustment.what, clock=adjustment.clock)

    def state(self) -> bytes:
        """Everything that devices have in common, in one order."""
        store, own = self.store, self.own
        rows: list[Any] = [("epoch", store.meta(EPOCH))]
        for stored in store.scan(MEMORIES, limit=EVERYTHING):
            rows.append(("memory", stored.memory))
            versions = {
                version_stamp(store, each, own): msgspec.structs.replace(each.memory, overruled=False)
                for each in store.all_versions(stored.id)
            }
            rows += [("version", stored.id, stamp, versions[stamp]) for stamp in sorted(versions)]
            parts = store.under(DEVICE_USAGES, stored.id)
            rows.append(("usage", summed_usage(stored.id, parts) if parts else None))
        for table in SHARED:
            records = store.scan(table, limit=EVERYTHING)
            rows += [(table.name, each) for each in records if table.name != "decisions" or not is_conflict(each)]
        clocks = store.scan(RECORD_CLOCKS, limit=EVERYTHING)
        rows += [("erased", each.name) for each in clocks if each.is_removed and each.name.startswith("memories ")]
        return b"\n".join(map(encode_json, rows))

    def _append(self, entries: Iterator[bytes]) -> None:
        if made := tuple(entries):
            self.frames.append(SharedFrame(made, dict(self.read)))


def exchange_all(devices: list[SharedDevice], now: int, rounds: int = 50) -> int:
    """Shares and merges until nothing is left; the number of rounds that took. Raises AssertionError after `rounds`."""
    for number in range(rounds):
        for device in devices:
            device.share(now)
        moved = False
        for device in devices:
            for other in devices:
                while other is not device and device.receive(other, now):
                    moved = True
        if not moved and all(device.is_shared for device in devices):
            return number
    raise AssertionError(f"the devices still exchange changes after {rounds} rounds")
