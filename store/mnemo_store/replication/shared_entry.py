"""The entries that devices exchange: the shared changes of one transaction, or of a whole store. SPEC 21

A device shares its own changes. Those that it merged come from the device that made them; a snapshot for newcomers has
those of every device it is asked for. Which files are watched, what was asked of a language model and the reports of
cycles stay on their device.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from mnemo_store.backend import Snapshot
from mnemo_store.records import (
    Change,
    DropMemory,
    LifecycleDecision,
    Memory,
    PutDecision,
    PutDeviceUsage,
    PutMemory,
    PutMeta,
    Record,
    RecordClock,
)
from mnemo_store.replication.device_clock import (
    ChangeStamp,
    OwnDevices,
    is_erasure,
    record_name,
    record_stamp,
)
from mnemo_store.tables import BY_NAME, DEVICE_USAGES, SHARED, Table, put_of

EPOCH = "epoch"  # the meta value that devices share
CONFLICT_REASON = "sync: "  # of a proposal about the words that another device wrote: each device makes its own
BEFORE_SHARING = 1  # ms: the clock of records whose last change was before the store was shared

_SHARED_CHANGES = frozenset(change for table in SHARED for change in (table.put, table.drop))


class SharedEntry(Record, frozen=True, tag_field="entries", tag="changes"):
    """The shared changes of one transaction, with its stamp."""

    clock: int  # ms
    device: str
    origin: int  # its seq at that device
    changes: tuple[Change, ...]
    by: str = ""
    what: str = ""
    group: str = ""
    erases: bool = False  # the texts of the memories that it drops must not come back
    # For a memory: the stamp of the version that its device replaced.
    bases: dict[str, tuple[int, str, int]] = msgspec.field(default_factory=dict)
    folders: dict[str, str] = msgspec.field(
        default_factory=dict
    )  # for a passage of notes: the portable name of its folder
    is_snapshot: bool = False

    @property
    def stamp(self) -> ChangeStamp:
        return ChangeStamp(self.clock, self.device, self.origin)


class KnownEntries(Record, frozen=True, tag_field="entries", tag="known"):
    """The numbers of entries of other devices that were merged before what follows, which may build on them."""

    counts: dict[str, int]


encode_entry: Callable[[SharedEntry | KnownEntries], bytes] = msgspec.json.Encoder().encode
decode_entry: Callable[[bytes], SharedEntry | KnownEntries] = msgspec.json.Decoder(SharedEntry | KnownEntries).decode


def shared_entry(seq: int, changes: Sequence[Change], snapshot: Snapshot, own: OwnDevices) -> SharedEntry | None:
    """The entry of a transaction of this store; None where it has nothing to share, or was merged from another device.
    `changes`: all of the transaction, in order."""
    made = snapshot.entry(seq)
    if made is None or made.device:
        return None
    stamp = own.stamp(seq, made)
    memories = {change.data.id: change for change in changes if isinstance(change, PutMemory)}
    shared: list[Change] = []
    bases: dict[str, tuple[int, str, int]] = {}
    for change in changes:
        if isinstance(change, PutMemory):
            if change is not memories[change.data.id] or snapshot.stored(change.data.id) is None:
                continue  # only the last one of a transaction is a version; what was erased since is not shared
            base = base_of(snapshot, change.data.id, seq, own)
            bases |= {change.data.id: base} if base is not None else {}
            shared.append(change)
        elif is_shared(change):
            shared.append(change)
    if not shared:
        return None
    return SharedEntry(
        clock=stamp.clock, device=stamp.device, origin=stamp.origin, changes=tuple(shared), by=made.by,
        what=made.what, group=made.group, erases=is_erasure(changes),
        bases=bases, folders=_folders(snapshot, shared),
    )  # fmt: skip


def is_shared(change: Change) -> bool:
    """Return whether devices share the change."""
    match change:
        case PutMemory() | DropMemory() | PutDeviceUsage():
            return True
        case PutMeta(name=name):
            return name == EPOCH
        case PutDecision(data=decision):
            return not is_conflict(decision)
        case _:
            return type(change) in _SHARED_CHANGES


def is_conflict(decision: LifecycleDecision) -> bool:
    """Return whether it proposes the words of an overruled version, which each device finds by itself."""
    return decision.status == "proposed" and decision.reason.startswith(CONFLICT_REASON)


def base_of(snapshot: Snapshot, memory_id: str, seq: int, own: OwnDevices) -> tuple[int, str, int] | None:
    """The stamp of the version that was current before a transaction; None for the first one."""
    before = [version for version in snapshot.versions(memory_id) if version.seq < seq]
    if not before:
        return None
    entry = snapshot.entry(before[-1].seq)
    return tuple(own.stamp(before[-1].seq, entry)) if entry is not None else None  # type: ignore[return-value]


def memory_entries(
    snapshot: Snapshot, memory: Memory, devices: Collection[str], own: OwnDevices, after: int = 0
) -> Iterator[SharedEntry]:
    """The entries of a snapshot for one memory: its versions that these devices made, in a transaction behind `after`,
    and its usage on them."""
    for version in snapshot.all_versions(memory.id):
        entry = snapshot.entry(version.seq)
        if entry is None or version.seq <= after:
            continue
        stamp = own.stamp(version.seq, entry)
        if stamp.device in devices:
            change = PutMemory(data=msgspec.structs.replace(version.memory, overruled=False))
            base = base_of(snapshot, memory.id, version.seq, own)
            yield _snapshot_entry(
                stamp, (change,), by=entry.by, what=entry.what, group=entry.group,
                bases={memory.id: base} if base is not None else {}, folders=_folders(snapshot, [change]),
            )  # fmt: skip
    for usage in snapshot.under(DEVICE_USAGES, memory.id):
        if usage.device in devices:
            yield _snapshot_entry(ChangeStamp(usage.clock, usage.device, 0), (PutDeviceUsage(data=usage),))


def record_entry(
    snapshot: Snapshot, table: Table[Any], record: Any, devices: Collection[str], own: OwnDevices, after: int = 0
) -> SharedEntry | None:
    """The entry of a snapshot for a record without versions; None where none of these devices changed it last, or not
    behind `after`."""
    stamp = record_stamp(snapshot, record_name(table, record))
    if not stamp.clock:
        stamp = ChangeStamp(BEFORE_SHARING, own.at(0), 0)
    change = put_of(table, record)
    if stamp.device not in devices or not is_shared(change) or (after and stamp.origin <= after):
        return None
    return _snapshot_entry(stamp, (change,))


def removal_entry(clock: RecordClock, devices: Collection[str], after: int = 0) -> SharedEntry | None:
    """The entry of a snapshot for a record that was removed; None where none of these devices removed it, or not behind
    `after`."""
    if not clock.is_removed or clock.device not in devices or clock.origin <= after:
        return None
    name, _, key = clock.name.partition(" ")
    table = BY_NAME[name]
    assert table.drop is not None, "only a record that a change drops is removed"
    drop = table.drop(**dict(zip(table.key.fields, table.key.decode(bytes.fromhex(key)), strict=True)))
    return _snapshot_entry(ChangeStamp(clock.clock, clock.device, clock.origin), (drop,), erases=clock.is_erased)


def epoch_entry(snapshot: Snapshot, own: OwnDevices) -> SharedEntry:
    """The entry of a snapshot for the epoch of the lifecycle."""
    stamp = ChangeStamp(BEFORE_SHARING, own.current, 0)
    return _snapshot_entry(stamp, (PutMeta(name=EPOCH, value=snapshot.meta(EPOCH) or "0"),))


def _snapshot_entry(stamp: ChangeStamp, changes: tuple[Change, ...], **fields: Any) -> SharedEntry:
    return SharedEntry(
        clock=stamp.clock, device=stamp.device, origin=stamp.origin, changes=changes, is_snapshot=True, **fields
    )


def _folders(snapshot: Snapshot, changes: Iterable[Change]) -> dict[str, str]:
    """For each passage of notes among the memories, the portable name of its folder."""
    names = {}
    for change in changes:
        if isinstance(change, PutMemory) and change.data.managed:
            note = snapshot.note(change.data.managed)
            roots = {root.id: root for root in snapshot.roots()}
            if note is not None and note.root in roots:
                names[change.data.id] = portable_name(roots[note.root].path)
    return names


def portable_name(path: str) -> str:
    """The name under which devices know a folder of notes: that of the folder itself, whatever is above it."""
    return path.rstrip("/").rpartition("/")[2].casefold()
