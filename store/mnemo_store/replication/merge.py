"""The merge of another device's changes into this store. SPEC 21

Every change has a place in one order over all devices (`device_clock`), and the later one wins: of a memory the later
version is current and the others are its history; of a record without versions the later one stays. Because that does
not depend on the order of arrival, devices that know the same changes have the same state. What a person would not
expect of this order alone is put right by changes of its own (`adjust`), placed directly behind what they follow from,
so that nothing that a person does later is undone by them: an edit wins over a trash, equal texts of two devices become
one memory, tags of versions with the same text are united.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from mnemo_store.backend import Snapshot
from mnemo_store.record_texts import content_hash, skip_hash
from mnemo_store.records import (
    TAGS_MAX,
    Change,
    DeviceUsage,
    DropMemory,
    DropTrash,
    ErasedText,
    Memory,
    PutDeviceUsage,
    PutErasedText,
    PutMemory,
    PutMeta,
    PutUsage,
    PutVersion,
    State,
    TopicNode,
    Usage,
)
from mnemo_store.replication.device_clock import (
    CLOCK,
    NEVER,
    ChangeStamp,
    OwnDevices,
    clock_changes,
    last_removal_name,
    next_clock,
    record_name,
    record_stamp,
    removal_clock,
)
from mnemo_store.replication.shared_entry import EPOCH, SharedEntry, portable_name
from mnemo_store.tables import (
    BY_CHANGE,
    DEVICE_USAGES,
    MEMORIES,
    NODE_EDGES,
    RECORD_CLOCKS,
    TOPIC_NODES,
    TRASH,
    StoredMemory,
    drop_of,
    record_in,
)

STATES_WITH_ENTRY = frozenset({"trashed", "discarded"})  # a trash entry says why


class Divergence(NamedTuple):
    """Two versions of a memory that were made without knowledge of each other."""

    memory_id: str
    winner: ChangeStamp
    loser: ChangeStamp


class MergeResult(NamedTuple):
    """The changes of merging an entry, and the memories to be looked at after it."""

    changes: tuple[Change, ...]
    divergences: tuple[Divergence, ...] = ()
    # Memories that were not here before, or have another version now, each with the id of another one that had its key.
    arrived: tuple[tuple[str, str], ...] = ()
    erased: tuple[str, ...] = ()  # memories that were dropped here


class Adjustment(NamedTuple):
    """A change that follows from a merge. Its clock places it directly behind what it follows from."""

    changes: tuple[Change, ...]
    clock: int
    what: str


def merge_entry(store: Snapshot, entry: SharedEntry, own: OwnDevices) -> MergeResult:
    """Decide what an entry of another device changes here; nothing where all of it is known."""
    merge = _EntryMerge(store, entry, own)
    for change in entry.changes:
        merge.apply(change)
    return merge.result()


class _EntryMerge:
    """The merge of one entry: collects changes."""

    def __init__(self, store: Snapshot, entry: SharedEntry, own: OwnDevices) -> None:
        self._store = store
        self._entry = entry
        self._own = own
        self._changes: list[Change] = []
        self._divergences: list[Divergence] = []
        self._arrived: dict[str, str] = {}
        self._states: dict[str, State] = {}  # of memories after what was merged so far
        self._erased: list[str] = []
        self._folders = frozenset(portable_name(root.path) for root in store.roots()) if entry.folders else frozenset()

    def result(self) -> MergeResult:
        changes = self._changes
        if changes and self._entry.clock >= next_clock(self._store, 0):
            changes.append(PutMeta(name=CLOCK, value=str(self._entry.clock + 1)))
        elif changes and int(self._store.meta(CLOCK) or 0) < (bound := next_clock(self._store, 0)):
            changes.append(PutMeta(name=CLOCK, value=str(bound)))
        return MergeResult(tuple(changes), tuple(self._divergences), tuple(self._arrived.items()), tuple(self._erased))

    def apply(self, change: Change) -> None:
        """Merges one change."""
        match change:
            case PutMemory(data=memory):
                self._put_memory(memory)
            case DropMemory(id=memory_id):
                self._drop_memory(change, memory_id)
            case PutMeta(name=name, value=value):
                if name == EPOCH and int(value) > int(self._store.meta(EPOCH) or 0):
                    self._changes.append(change)
            case PutDeviceUsage(data=usage):
                self._put_usage(usage)
            case _:
                self._change_record(change)

    def _put_memory(self, memory: Memory) -> None:
        if self._is_removed(record_name(MEMORIES, memory)) or self._entry.folders.get(memory.id) in self._folders:
            return
        if memory.note is not None and memory.managed and self._store.stored(memory.id) is None:
            note = msgspec.structs.replace(memory.note, folder=self._entry.folders.get(memory.id, memory.note.folder))
            memory = msgspec.structs.replace(memory, note=note)
        elif self._is_of_another_reader(memory.id):
            return
        current, stamp = self._store.stored(memory.id), self._entry.stamp
        if current is None:
            self._make_current(memory)
            return
        known = self._store.all_versions(memory.id)
        if stamp in (version_stamp(self._store, version, self._own) for version in known):
            return
        latest = version_stamp(self._store, current, self._own)
        if stamp > latest:
            self._make_current(memory)
            if ChangeStamp(*self._entry.bases.get(memory.id, stamp)) < latest:
                self._divergences.append(Divergence(memory.id, stamp, latest))
        else:
            self._changes.append(PutVersion(data=msgspec.structs.replace(memory, overruled=True)))
            if not self._entry.is_snapshot:
                self._divergences.append(Divergence(memory.id, latest, stamp))

    def _make_current(self, memory: Memory) -> None:
        same_key = self._store.id_by_key(memory.namespace, memory.user_id, memory.key) if memory.key else None
        self._changes.append(PutMemory(data=memory))
        self._arrived[memory.id] = same_key or ""
        self._states[memory.id] = memory.state
        if memory.state not in STATES_WITH_ENTRY and self._store.trash(memory.id) is not None:
            self._changes.append(DropTrash(id=memory.id))

    def _drop_memory(self, change: Change, memory_id: str) -> None:
        if self._is_removed(record_name(MEMORIES, change)):
            return
        if not self._entry.erases and self._is_of_another_reader(memory_id):
            return
        if self._store.stored(memory_id) is not None:
            if self._entry.erases:
                salt = self._store.meta("salt")
                hashes = {skip_hash(salt, each.memory.content) for each in self._store.all_versions(memory_id)}
                self._changes += (
                    PutErasedText(data=ErasedText(hash=each, at=self._entry.clock)) for each in sorted(hashes)
                )
            self._changes.append(change)
            self._erased.append(memory_id)
        self._note(change)

    def _put_usage(self, theirs: DeviceUsage) -> None:
        """Adds what the device's part grew by to the usage here."""
        if not self._has_memory(theirs.id):
            return
        parts = {part.device: part for part in self._store.under(DEVICE_USAGES, theirs.id)}
        known = parts.get(theirs.device)
        if known is not None and known.clock >= theirs.clock:
            return
        before, after = (
            summed_usage(theirs.id, parts.values()),
            summed_usage(theirs.id, [*(parts | {theirs.device: theirs}).values()]),
        )
        here = self._store.usage(theirs.id)
        self._changes.append(PutDeviceUsage(data=theirs))
        self._changes.append(PutUsage(data=with_growth(here, before, after)))

    def _change_record(self, change: Change) -> None:
        """Applies a change to a record without versions where it is the later one, and what it belongs to is here."""
        table = BY_CHANGE[type(change)]
        is_put = type(change) is table.put
        record: Any = record_in(table, change) if is_put else change
        name = record_name(table, record)
        if table is TOPIC_NODES and not is_put:
            self._drop_edges(record.id)
        if self._entry.stamp <= record_stamp(self._store, name):
            return
        if is_put and not self._has_parents(table, record):
            return
        if is_put and table is TRASH and self._state_of(record.id) not in STATES_WITH_ENTRY:
            return
        self._changes.append(change)
        self._note(change)

    def _drop_edges(self, node: str) -> None:
        """Drops the edges that a topic node had when it was removed, also where it was put back since."""
        stamp, name = self._entry.stamp, last_removal_name(record_name(TOPIC_NODES, TopicNode(id=node, created_at=0)))
        for edge in self._store.under(NODE_EDGES, node):
            if record_stamp(self._store, record_name(NODE_EDGES, edge)) < stamp:
                dropped = drop_of(NODE_EDGES, edge)
                self._changes.append(dropped)
                self._note(dropped)
        if record_stamp(self._store, name) < stamp:
            self._changes.append(removal_clock(name, stamp))

    def _has_parents(self, table: Any, record: Any) -> bool:
        for parent in table.parents:
            owner = getattr(record, parent.field)
            if parent.table == MEMORIES.name and not self._has_memory(owner):
                return False
            if parent.table == TOPIC_NODES.name:
                removal = last_removal_name(record_name(TOPIC_NODES, TopicNode(id=owner, created_at=0)))
                is_here = self._store.get(TOPIC_NODES, owner) is not None or any(
                    type(change) is TOPIC_NODES.put and change.data.id == owner  # type: ignore[union-attr]
                    for change in self._changes
                )
                if not is_here or record_stamp(self._store, removal) >= self._entry.stamp:
                    return False
        return True

    def _is_of_another_reader(self, memory_id: str) -> bool:
        """Return whether it is a passage of a note that another device than the entry's reads: only that one says what
        is in it."""
        memory = self._store.memory(memory_id)
        return (
            memory is not None
            and bool(memory.managed)
            and first_device(self._store, memory, self._own) != self._entry.device
        )

    def _state_of(self, memory_id: str) -> State | None:
        if memory_id in self._states:
            return self._states[memory_id]
        memory = self._store.memory(memory_id)
        return memory.state if memory is not None else None

    def _has_memory(self, memory_id: str) -> bool:
        return memory_id in self._arrived or self._store.stored(memory_id) is not None

    def _is_removed(self, name: str) -> bool:
        found = self._store.get(RECORD_CLOCKS, name)
        return found is not None and found.is_removed

    def _note(self, change: Change) -> None:
        self._changes += clock_changes([change], self._entry.stamp, erases=self._entry.erases)


def version_stamp(store: Snapshot, version: StoredMemory, own: OwnDevices) -> ChangeStamp:
    """The stamp of the change that made a version."""
    entry = store.entry(version.seq)
    return own.stamp(version.seq, entry) if entry is not None else NEVER


# Usage


def summed_usage(memory_id: str, parts: Iterable[DeviceUsage]) -> Usage:
    """The usage over all devices: counts are added, times are the latest, the strength is that of the last change."""
    total, latest = Usage(id=memory_id), None
    for part in parts:
        total = msgspec.structs.replace(
            total,
            access_count=total.access_count + part.access_count,
            repetition_count=total.repetition_count + part.repetition_count,
            last_accessed=max(total.last_accessed, part.last_accessed),
            person_at=max(total.person_at, part.person_at),
        )
        if latest is None or (part.clock, part.device) > (latest.clock, latest.device):
            latest = part
    if latest is None:
        return total
    return msgspec.structs.replace(total, strength=latest.strength, strength_epoch=latest.strength_epoch)


def with_growth(here: Usage | None, before: Usage, after: Usage) -> Usage:
    """The usage here after the sum of the devices' parts grew. What happened here and is in no part yet stays."""
    if here is None:
        return after
    is_unchanged_here = (here.strength, here.strength_epoch) == (before.strength, before.strength_epoch)
    source = after if is_unchanged_here else here
    return msgspec.structs.replace(
        here, access_count=max(0, here.access_count + after.access_count - before.access_count),
        repetition_count=max(0, here.repetition_count + after.repetition_count - before.repetition_count),
        last_accessed=max(here.last_accessed, after.last_accessed), person_at=max(here.person_at, after.person_at),
        strength=source.strength, strength_epoch=source.strength_epoch,
    )  # fmt: skip


def own_part(store: Snapshot, memory_id: str, device: str, clock: int) -> DeviceUsage | None:
    """The part of this device in the usage of a memory as it is now; None where it has not changed."""
    here = store.usage(memory_id)
    if here is None:
        return None
    parts = {part.device: part for part in store.under(DEVICE_USAGES, memory_id)}
    if here == summed_usage(memory_id, parts.values()) and parts:
        return None
    if device in parts:
        clock = max(clock, parts[device].clock + 1)
    others = summed_usage(memory_id, (part for part in parts.values() if part.device != device))
    return DeviceUsage(
        id=memory_id, device=device, clock=clock,
        access_count=here.access_count - others.access_count,
        repetition_count=here.repetition_count - others.repetition_count,
        last_accessed=here.last_accessed, person_at=here.person_at,
        strength=here.strength, strength_epoch=here.strength_epoch,
    )  # fmt: skip


# What follows from a merge


def adjust(store: Snapshot, result: MergeResult, own: OwnDevices) -> list[Adjustment]:
    """The changes that follow from a merge, for the store after it."""
    made = [each for each in (_settled(store, divergence, own) for divergence in result.divergences) if each]
    for memory_id, same_key in result.arrived:
        made += _joined(store, memory_id, same_key, own)
    return made


def lost_words(store: Snapshot, divergence: Divergence, own: OwnDevices) -> Memory | None:
    """The overruled version, where it has words that no other version of the memory has; None where nothing is lost."""
    versions = {version_stamp(store, each, own): each.memory for each in store.all_versions(divergence.memory_id)}
    loser, current = versions.get(divergence.loser), store.memory(divergence.memory_id)
    if loser is None or current is None or "trashed" in (loser.state, current.state):
        return None
    texts = {content_hash(memory.content) for stamp, memory in versions.items() if stamp != divergence.loser}
    return loser if content_hash(loser.content) not in texts else None


def _settled(store: Snapshot, divergence: Divergence, own: OwnDevices) -> Adjustment | None:
    """The change that settles two versions: an edit comes back from the trash, tags of the same text are united."""
    versions = {version_stamp(store, each, own): each.memory for each in store.all_versions(divergence.memory_id)}
    winner, loser = versions.get(divergence.winner), versions.get(divergence.loser)
    current = store.memory(divergence.memory_id)
    if winner is None or loser is None or current is None:
        return None
    top = max(versions)
    if divergence.winner != top:
        return None  # something later is current already
    fields: dict[str, Any]
    dropped: tuple[Change, ...] = ()
    if winner.state == "trashed" and loser.state != "trashed":
        fields, dropped, what = {"state": loser.state}, (DropTrash(id=winner.id),), "restore"
        before = loser
    elif winner.state != "trashed" and loser.state != "trashed" and winner.content == loser.content:
        tags = tuple(dict.fromkeys((*winner.tags, *loser.tags)))[:TAGS_MAX]
        if set(tags) == set(winner.tags):
            return None
        fields, what, before = {"tags": tags}, "join", winner
    else:
        return None
    version = max(winner.version, loser.version) + 1
    after = msgspec.structs.replace(before, **fields, version=version, overruled=False)
    return Adjustment((PutMemory(data=after), *dropped), top.clock + 1, what)


def _joined(store: Snapshot, memory_id: str, same_key: str, own: OwnDevices) -> Iterator[Adjustment]:
    """The changes that make one memory of equal texts, or of one key, that two devices stored: the older stays."""
    memory = store.memory(memory_id)
    if memory is None or memory.managed or memory.turn is not None or memory.state not in ("active", "archived"):
        return
    for other in _same(store, memory, same_key):
        if (
            other.id == memory.id
            or other.managed
            or other.turn is not None
            or other.state not in ("active", "archived")
        ):
            continue
        both = [first_device(store, each, own) for each in (memory, other)]
        if both[0] == both[1]:
            continue
        older, newer = sorted((memory, other), key=lambda each: each.id)
        stamps = [version_stamp(store, stored, own) for each in (older, newer) if (stored := store.stored(each.id))]
        later = older if stamps[0] > stamps[1] else newer
        modified_at = max(older.modified_at, newer.modified_at)
        tags = tuple(dict.fromkeys((*older.tags, *newer.tags)))[:TAGS_MAX]
        kept = {"content": later.content, "tags": tags, "modified_at": modified_at, "version": older.version + 1}
        hidden = {"state": "superseded", "superseded_by": older.id, "version": newer.version + 1, "key": ""}
        changes: list[Change] = [PutMemory(data=msgspec.structs.replace(newer, **hidden, modified_at=modified_at))]
        if (tags, later.content) != (older.tags, older.content):
            changes.append(PutMemory(data=msgspec.structs.replace(older, **kept)))
        elif older.key:
            changes.append(PutMemory(data=msgspec.structs.replace(older, version=older.version + 1)))
        yield Adjustment(tuple(changes), max(stamps).clock + 1, "join")
        return


def _same(store: Snapshot, memory: Memory, same_key: str) -> Sequence[Memory]:
    """The memories that are this one as another device stored it: with its key, or with its text in its scope."""
    if memory.key:
        other = store.memory(same_key) if same_key else None
        return [other] if other is not None and other.key == memory.key else []
    scope = (memory.namespace, memory.user_id, memory.agent_id, memory.run_id)
    ids = store.ids_by_hash(*scope, content_hash(memory.content))
    return [each for each in map(store.memory, ids) if each is not None and not each.key]


def first_device(store: Snapshot, memory: Memory, own: OwnDevices) -> str:
    """The device on which a memory was stored first."""
    return min(version_stamp(store, each, own) for each in store.all_versions(memory.id)).device
