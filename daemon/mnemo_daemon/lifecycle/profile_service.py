"""The profile of a user and the memories of projects: read, changed by hand, lifted from the buffer. SPEC 9.6 [M13 to
M17]"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from mnemo_client.protocol.profiles import ProfileUpdateAnswer
from mnemo_core.decay import epoch_of, initial_usage
from mnemo_core.ingest import mutations, write_plan
from mnemo_core.ingest.write_plan import PendingSnapshot, StatedFact
from mnemo_core.lifecycle.profiles import (
    HOUR_MS,
    PROFILE_TAG,
    PROJECT_BUCKETS,
    PROJECT_TAG,
    UNASKED_TRUST,
    USER_BUCKETS,
    EntryIndex,
    LiftPlan,
    ProfilePlace,
    UsedMemory,
    entry_of,
    is_liftable,
    lift,
    place_of_entry,
    places_of,
    reworded,
    with_more_evidence,
)
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import COMPRESS, PROFILE
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_columns import by_weight, read_rows
from mnemo_daemon.memories.memory_service import (
    Caller,
    authorised_changes,
    details_of,
    is_visible,
    stated_facts,
    wanted_again,
)
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import DEFAULT_NAMESPACE, PROFILE_SOURCE, STATES, Change, Memory, PutEdge, PutMemory, PutUsage
from mnemo_store.store import Store, WriteResult

LISTED_STATES = ("active", "archived")
SHOWN_MAX = 5  # entries of a list that an agent gets unasked [M21]
LIFTED_PER_WRITE = 100  # items; an item of four projects makes five memories of the 500 of a write turn [SPEC 3.2]
ATTEMPTS = 3  # to write what something else changed meanwhile

Entries = dict[ProfilePlace, list[Memory]]


class Owner(NamedTuple):
    """A user in a namespace: what is compressed together."""

    namespace: str
    user_id: str


class EntryUpdate(NamedTuple):
    """An entry as a caller wants it. tags: besides those of its list; evidence: whole ids; id: of the entry that it
    changes, "" for a new one; field: its name in the request."""

    place: ProfilePlace
    text: str
    tags: tuple[str, ...]
    evidence: tuple[str, ...]
    id: str
    field: str


class LiftResult(NamedTuple):
    """Numbers of the items that were lifted, of their projects, and of the entries of the user in their place. [M13]"""

    compressed: int
    projects: int
    profile: int


class ProfileService:
    """The service; its methods block, and may be called on any thread."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    # Reading

    def entries(self, wanted: MemoryFilter) -> Entries:
        """The entries that pass the filter by their lists, the last changed first."""
        columns = self._views.attributes
        rows = np.flatnonzero(columns.mask(wanted._replace(source=PROFILE_SOURCE)))
        found: Entries = {}
        read = read_rows(self._store, columns, rows)
        for memory in sorted(read, key=lambda memory: (-memory.modified_at, memory.id)):
            if (place := place_of_entry(memory)) is not None:
                found.setdefault(place, []).append(memory)
        return found

    def shown(self, wanted: MemoryFilter, projects: Sequence[str] = ()) -> Entries:
        """The entries that an agent gets unasked, of the user and of some projects: of each list those of the greatest
        weight. All of their words came from the person or a note."""
        columns = self._views.attributes
        unasked = wanted._replace(source=PROFILE_SOURCE, states=("active",), trust_min=UNASKED_TRUST, tags=())
        rows = np.flatnonzero(columns.mask(unasked))
        if not len(rows):
            return {}
        in_list, in_project = columns.numbers_by_tag(PROFILE_TAG), columns.numbers_by_tag(PROJECT_TAG)
        of_projects = np.concatenate([np.empty(0, np.int64), *in_project.values()])
        with self._store.snapshot() as snapshot:
            epoch = epoch_of(snapshot)
        found: Entries = {}
        for place in [ProfilePlace(bucket) for bucket in USER_BUCKETS] + [
            ProfilePlace(bucket, project) for project in projects for bucket in PROJECT_BUCKETS
        ]:
            own = in_project.get(PROJECT_TAG + place.project) if place.project else of_projects
            listed = rows[np.isin(rows, in_list.get(PROFILE_TAG + place.bucket, ()))]
            listed = listed[np.isin(listed, () if own is None else own) == bool(place.project)]
            if entries := list(read_rows(self._store, columns, by_weight(columns, listed, epoch)[:SHOWN_MAX])):
                found[place] = entries
        return found

    def _used(self, owner: Owner, **fields: Any) -> list[UsedMemory]:
        """The memories of an owner that pass a filter, with their usage."""
        wanted = MemoryFilter(namespaces=(owner.namespace,), user_id=owner.user_id, now=self._store.now(), **fields)
        found: list[UsedMemory] = []
        columns = self._views.attributes
        for some in batched(columns.ids(np.flatnonzero(columns.uncached_mask(wanted)).tolist()), READ_SLICE):
            with self._store.snapshot() as snapshot:
                memories = [memory for each in some if (memory := snapshot.memory(each)) is not None]
                found += [UsedMemory(memory, details_of(snapshot, memory).usage) for memory in memories]
        return found

    # Changes by hand

    def update(
        self, owner: Owner, updates: Sequence[EntryUpdate], removed: Sequence[str], caller: Caller
    ) -> ProfileUpdateAnswer:
        """Write these entries and move others (whole ids) to the trash, all or nothing.

        Where a list holds an entry that says the same, that one gets the evidence. Raises a Refusal: for evidence or an
        entry that is not there, for a pinned entry, and for an erased text.
        """
        index = EntryIndex(self._used(owner, source=PROFILE_SOURCE, states=LISTED_STATES))
        facts = {each.text: stated_facts(each.text, "") for each in updates}
        group = self._store.new_id()

        def decide(snapshot: Snapshot) -> WriteResult[ProfileUpdateAnswer]:
            pending = PendingSnapshot(snapshot)
            written = ProfileUpdateAnswer(ids=[], removed=[*removed], group=group, namespace=owner.namespace)
            for update in updates:
                entry, others = self._updated(pending, owner, update, index, facts[update.text], caller)
                if pending.memory(entry.id) != entry:
                    pending.apply(authorised_changes((PutMemory(data=entry), *others), pending, caller.trust))
                written.ids.append(entry.id)
            for place, memory_id in enumerate(removed):
                entry = _entry(pending, owner, memory_id, caller, f"remove[{place}]")
                gone = mutations.move_to_trash(entry, "removed from the profile", snapshot.now)
                pending.apply(authorised_changes(gone, pending, caller.trust))
            return WriteResult(pending.changes, written, PROFILE, group)

        done = self._store.transact(decide, by=caller.name).result()
        done.result.seq = done.seq or None
        return done.result

    def _updated(
        self, snapshot: PendingSnapshot, owner: Owner, update: EntryUpdate, index: EntryIndex,
        facts: Sequence[StatedFact], caller: Caller,
    ) -> tuple[Memory, list[Change]]:  # fmt: skip
        """The entry as an update makes it, and the changes that go with it."""
        now, field = snapshot.now, f"{update.field}.evidence_ids"
        if update.id in update.evidence:
            raise Refusal(422, "no_evidence", f"the entry {update.id} is no evidence of itself", field=field)
        evidence = [_evidence(snapshot, each, owner, caller, field) for each in update.evidence]
        entry_id = update.id or self._store.new_id()
        entry = entry_of(update.place, owner.namespace, update.text, evidence, entry_id, now, caller.trust)
        entry = replace(entry, method="said", tags=tuple(dict.fromkeys((*entry.tags, *update.tags))))
        known = index.find(update.place, entry)
        before = None if known is None else snapshot.memory(known.memory.id)
        usage: tuple[Change, ...] = ()
        if update.id:
            entry = reworded(_entry(snapshot, owner, update.id, caller, f"{update.field}.id"), entry, now)
        elif before is not None and before.state in LISTED_STATES and is_visible(before, caller):
            return with_more_evidence(before, entry, now), []
        else:
            usage = (PutUsage(data=initial_usage(entry, epoch_of(snapshot))),)
        again = wanted_again(snapshot, entry, caller.trust)
        stated = write_plan.put_facts(entry, entry.content, facts, snapshot, self._store.new_id)
        return entry, [*usage, *again, *stated]

    # Lifting

    def lift(self, owner: Owner, cutoff_hours: int, caller: Caller, group: str, *, dry_run: bool) -> LiftResult:
        """Put entries in the place of what was stored longer ago than the cut-off and is still in the buffer. [M13]"""
        lifted: set[str] = set()
        entries: dict[str, ProfilePlace] = {}
        for _ in range(ATTEMPTS):
            for planned in self._plans(owner, cutoff_hours, caller):
                if not dry_run and not self._write(planned, caller, group):
                    break  # something came between: the rest is decided again
                lifted |= {memory.id for memory in planned.after}
                places = {each.memory.id: place_of_entry(each.memory) for each in planned.entries}
                entries |= {each: place for each, place in places.items() if place is not None}
            else:
                break
        projects = {place.project for place in entries.values()} - {""}
        return LiftResult(len(lifted), len(projects), sum(not place.project for place in entries.values()))

    def _plans(self, owner: Owner, cutoff_hours: int, caller: Caller) -> Iterator[LiftPlan]:
        with self._store.snapshot() as snapshot:
            now, epoch = snapshot.now, epoch_of(snapshot)
        known = self._used(owner, source=PROFILE_SOURCE, states=STATES)
        # What an entry in the trash was made of is not lifted again: somebody took that back.
        evidence = {each for entry in known for each in entry.memory.derived_from}
        index = EntryIndex(entry for entry in known if entry.memory.state in LISTED_STATES)
        items = [
            item
            for item in self._used(owner, layers=("buffer",), states=("active",))
            if is_liftable(item.memory, now, now - cutoff_hours * HOUR_MS)
            and places_of(item.memory)
            and item.memory.id not in evidence
        ]
        with self._store.snapshot() as snapshot:
            items = [item for item in items if not _is_outdated(snapshot, item.memory)]
        items.sort(key=lambda item: (item.memory.created_at, item.memory.id))
        for some in batched(items, LIFTED_PER_WRITE):
            yield lift(some, index, self._store.new_id, now, epoch, caller.trust)

    def _write(self, planned: LiftPlan, caller: Caller, group: str) -> bool:
        """Write a plan, unless any of its memories has changed since it was made; return whether it was written."""
        new = [each.memory for each in planned.entries if planned.before[each.memory.id] is None]
        facts = {memory.id: stated_facts(memory.content, memory.speaker) for memory in new}

        def decide(snapshot: Snapshot) -> WriteResult[bool]:
            if any(snapshot.memory(each) != memory for each, memory in planned.before.items()):
                return WriteResult((), False)
            changes: list[Change] = [PutMemory(data=memory) for memory in planned.after]
            for entry in planned.entries:
                changes += (PutMemory(data=entry.memory), PutUsage(data=entry.usage))
                # The changes by which an entry replaces what the memories it stands for replace, certainly or
                # perhaps. SPEC 5.8
                for item in entry.memory.derived_from:
                    for edge in snapshot.edges(item):
                        if (
                            edge.source == item
                            and (edge.relation == "updates" or edge.slot)
                            and edge.target not in entry.memory.derived_from
                        ):
                            changes.append(PutEdge(data=replace(edge, source=entry.memory.id)))
            for memory in new:
                stated = facts[memory.id]
                changes += write_plan.put_facts(memory, memory.content, stated, snapshot, self._store.new_id)
            return WriteResult(changes, True, COMPRESS, group)

        return self._store.transact(decide, by=caller.name, background=True).result().result


def _is_outdated(snapshot: Snapshot, item: Memory) -> bool:
    """Return whether an active memory, or an entry of one that was not discarded, has a newer value of what an item
    says."""
    newer = (edge.source for edge in snapshot.edges(item.id) if edge.relation == "updates" and edge.target == item.id)
    return any(
        memory is not None
        and _is_kept(memory)
        and (not memory.compression_source or any(_is_kept(snapshot.memory(each)) for each in memory.derived_from))
        for memory in map(snapshot.memory, newer)
    )


def _is_kept(memory: Memory | None) -> bool:
    return memory is not None and memory.state not in ("trashed", "discarded")


def _evidence(snapshot: PendingSnapshot, memory_id: str, owner: Owner, caller: Caller, field: str) -> Memory:
    """The memory that an entry rests on. Raises a Refusal where it is not there, or is not the owner's."""
    memory = snapshot.memory(memory_id)
    is_near = memory is not None and memory.namespace in (owner.namespace, DEFAULT_NAMESPACE)
    if memory is None or not is_near or memory.user_id != owner.user_id or not is_visible(memory, caller):
        message = f"evidence must be a memory of the user in this namespace or in default: {memory_id} is none"
        raise Refusal(422, "no_evidence", message, field=field)
    if memory.state in ("trashed", "discarded"):
        raise Refusal(422, "no_evidence", f"the memory {memory_id} is {memory.state}: restore it first", field=field)
    return memory


def _entry(snapshot: PendingSnapshot, owner: Owner, memory_id: str, caller: Caller, field: str) -> Memory:
    """The entry of an owner's profile. Raises a Refusal where there is none."""
    memory = snapshot.memory(memory_id)
    is_there = memory is not None and memory.state in LISTED_STATES and is_visible(memory, caller)
    if memory is None or not is_there or place_of_entry(memory) is None or owner != (memory.namespace, memory.user_id):
        raise Refusal(404, "not_found", f"there is no entry {memory_id} in this profile", field=field)
    return memory
