"""The device that made a change, and the order of the changes of several devices. SPEC 21

A store is shared from the moment on at which the meta value `devices` names its device. From then on each local change
has a hybrid logical clock: the wall clock in milliseconds, but never earlier than what the store has seen of other
devices. Changes are ordered by clock, then device, then number at that device, which is the same order everywhere.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mnemo_store.backend import Snapshot
from mnemo_store.records import Change, ChangeEntry, DropMemory, PutErasedText, PutRecordClock, RecordClock
from mnemo_store.tables import BY_CHANGE, MEMORIES, RECORD_CLOCKS, TOPIC_NODES, Table

DEVICES = "devices"  # meta: `seq:device`, separated by spaces; each device id holds from that change on
CLOCK = "clock"  # meta: the latest clock seen of another device, or of this one when it merged


class ChangeStamp(NamedTuple):
    """The place of a change in the order of the changes of all devices."""

    clock: int  # ms
    device: str
    origin: int  # its seq at that device


NEVER = ChangeStamp(0, "", 0)


class OwnDevices(NamedTuple):
    """The ids that this store has had as a device, each with the first seq of which it is the author; ascending."""

    spans: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "OwnDevices":
        """Reads them. A store that is not shared has none."""
        words = (word.partition(":") for word in snapshot.meta(DEVICES).split())
        return cls(tuple((int(seq), device) for seq, _, device in words))

    @property
    def current(self) -> str:
        """The id that the store has now; "" where it is not shared."""
        return self.spans[-1][1] if self.spans else ""

    def at(self, seq: int) -> str:
        """The id under which a local change was made."""
        return next((device for start, device in reversed(self.spans) if start <= seq), "")

    def stamp(self, seq: int, entry: ChangeEntry) -> ChangeStamp:
        """The stamp of a transaction of this store, local or merged."""
        clock = entry.clock or entry.at
        if entry.device:
            return ChangeStamp(clock, entry.device, entry.origin)
        return ChangeStamp(clock, self.at(seq), seq)

    def with_device(self, seq: int, device: str) -> str:
        """The meta value with another id, which holds from `seq` on."""
        return " ".join(f"{start}:{name}" for start, name in (*self.spans, (seq, device)))


def next_clock(snapshot: Snapshot, now: int) -> int:
    """The clock of the next local change (ms): not before any that this store has seen."""
    bound = int(snapshot.meta(CLOCK) or 0)
    last = next(snapshot.entries_back(1), None)
    if last is not None and not last.entry.device:
        bound = max(bound, last.entry.clock or last.entry.at)
    return max(now, bound)


def record_name(table: Table[Any], named: Any) -> str:
    """The name of a record, or of the change that drops it, in the table of clocks."""
    return f"{table.name} {table.key.of(named).hex()}"


def shared_record(change: Change) -> tuple[str, bool] | None:
    """The name of the shared record that a change writes or removes, and whether it removes it; None for any other."""
    if isinstance(change, DropMemory):
        return record_name(MEMORIES, change), True
    table = BY_CHANGE.get(type(change))
    if table is None or not table.is_shared:
        return None
    is_put = type(change) is table.put
    return record_name(table, change.data if is_put else change), not is_put  # type: ignore[union-attr]


def record_stamp(snapshot: Snapshot, name: str) -> ChangeStamp:
    """The stamp of the last change of a record; NEVER where it has not changed since the store is shared."""
    found = snapshot.get(RECORD_CLOCKS, name)
    return NEVER if found is None else ChangeStamp(found.clock, found.device, found.origin)


def clock_changes(changes: Iterable[Change], stamp: ChangeStamp, *, erases: bool) -> Iterator[Change]:
    """The changes that note the stamp for each shared record that these change; `erases`: the texts of the memories
    that they drop must not come back."""
    named = dict(each for each in map(shared_record, changes) if each is not None)
    for name, is_removed in named.items():
        is_erased = erases and name.startswith(f"{MEMORIES.name} ")
        yield _clock_change(name, stamp, is_removed=is_removed, is_erased=is_erased)
        if is_removed and name.startswith(TOPIC_NODES.name):
            yield removal_clock(last_removal_name(name), stamp)


def _clock_change(name: str, stamp: ChangeStamp, *, is_removed: bool, is_erased: bool = False) -> PutRecordClock:
    return PutRecordClock(
        data=RecordClock(
            name=name, clock=stamp.clock, device=stamp.device, origin=stamp.origin, is_removed=is_removed,
            is_erased=is_erased,
        )
    )  # fmt: skip


def is_erasure(changes: Iterable[Change]) -> bool:
    """Return whether the texts of the memories that these changes drop must not come back."""
    return any(isinstance(change, PutErasedText) for change in changes)


def removal_clock(name: str, stamp: ChangeStamp) -> PutRecordClock:
    """The change that notes when a topic node was last removed."""
    return _clock_change(name, stamp, is_removed=False)


def last_removal_name(name: str) -> str:
    """The name of the clock that keeps when a topic node was last removed, also where it has been put back since: the
    edges that it had before are gone."""
    return f"{name} removed"


def stamped_changes(snapshot: Snapshot, changes: Sequence[Change], seq: int, clock: int) -> tuple[Change, ...]:
    """The changes of a local transaction with those of the clocks; the same where the store is not shared."""
    stamp = ChangeStamp(clock, OwnDevices.of(snapshot).at(seq), seq)
    return (*changes, *clock_changes(changes, stamp, erases=is_erasure(changes)))
