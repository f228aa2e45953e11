"""Undo: a change, or all of a group, taken back. SPEC 3.3.

Each memory gets back the version that it had before, as a new one. What it takes is looked at first, as a whole: where
anything changed again since, nothing is undone. Up to UNDO_A_TURN memories then go back in one write turn, all or none;
more in slices that share a group, and an undo that something stopped half-way is finished by asking for it again.

What a record without versions (a fact, a decision, the name of a topic) was before a change is in the journal. It
is read from there, the whole of it, since such an undo is rare. A journal that was rewritten since, by an erasure or a
compaction, knows it no more, and the undo is refused.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from mnemo_client.protocol.primitives import ErrorBody, FailureAnswer, LaterChange
from mnemo_core.decay import present_usage
from mnemo_core.ingest import mutations
from mnemo_core.ingest.mutations import PlannedRevert, undo_changes
from mnemo_core.retrieval import versions as timeline
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.history_names import (
    BY_INTAKE,
    BY_NOTES,
    CONSOLIDATE,
    FOR_GOOD,
    LAST_CYCLE,
    MOVE,
    OF_RECORDS,
    REVIEW,
    TOPIC_NAME,
    author_of,
)
from mnemo_daemon.memories.as_of import VERSIONS_A_SLICE, HistoryReader
from mnemo_daemon.memories.memory_service import (
    Caller,
    authorised_changes,
    clear_skipped_texts,
    detached_from_note,
    is_visible,
    place_of,
)
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.errors import StoreCorruption
from mnemo_store.maintenance.journal_diff import JournalOwner, JournalReplay
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import (
    Change,
    ChangeEntry,
    Cycle,
    DropDecision,
    DropEdge,
    DropFact,
    LifecycleDecision,
    PutDecision,
    PutFact,
    PutMemory,
    PutMeta,
    PutSkip,
    PutUsage,
    Skip,
    Usage,
    UsageChange,
)
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import BY_CHANGE, BY_NAME, CYCLES, DECISIONS, META, Table, drop_of, put_of, record_in

CHANGES_TRIED = 100  # of the last, for one that can be undone
REVERT_SEARCH = 10_000  # transactions looked back over for the last change to undo
REVERTED_PER_WRITE = 500  # memories put back in one write turn [SPEC 3.2]
NEWEST_CYCLE = "last"
CYCLE_DIGITS_MIN = 8  # of the end of its id
LATER_SHOWN = 20  # changes that stand in the way, as far as they are listed

_ID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

RecordKey = tuple[str, tuple[Any, ...]]  # the table and the values of the key
Chosen = Mapping[int, ChangeEntry]  # the transactions to take back, by seq, oldest first


class RecordChange(NamedTuple):
    """A record before and after the transactions to take back; None: it was not there."""

    table: Table[Any]
    values: tuple[Any, ...]  # of its key
    before: Any
    after: Any


def read_record_changes(store: Store, seqs: Collection[int]) -> list[RecordChange]:
    """The records that these transactions changed, as the journal has them. Raises a Refusal (422) where it has them no
    more, or where they changed other records than undo puts back."""
    with store.snapshot() as snapshot:
        owner = JournalOwner(store.folder / "journal", store.store_id, snapshot.meta("salt"))
    try:
        with owner.open_replay(max(seqs)) as journal:
            changed = _changed_by(journal, seqs)
            return list(_with_states_before(journal, changed, min(seqs)))
    except (StoreCorruption, OSError) as error:
        raise Refusal(409, "conflict", "the journal was rewritten meanwhile: ask again") from error


def reverted_records(snapshot: Snapshot, records: Sequence[RecordChange], caller: Caller) -> list[Change]:
    """The changes that put the records back. Raises a Refusal: 404 where the caller does not see their memories, 409
    where they were changed again or are back already, 422 where a memory of theirs is gone for good."""
    made: list[Change] = []
    for each in records:
        current = snapshot.get(each.table, *each.values)
        wanted = each.before if each.before is not None else each.after
        for parent in each.table.parents:
            memory = snapshot.memory(getattr(wanted, parent.field))
            if memory is None:
                raise Refusal(422, "refused", "its memory is gone for good: nothing brings it back")
            if not is_visible(memory, caller):
                raise Refusal(404, "not_found", "there is no change that you could undo")
        if current == each.before:
            continue
        if current != each.after:
            raise Refusal(409, "conflict", f"the {each.table.noun} was changed again since; nothing was undone")
        if each.before is not None:
            made.append(put_of(each.table, each.before))
        elif each.table is META:  # of which nothing is removed
            made.append(PutMeta(name=current.name, value=""))
        else:
            made.append(drop_of(each.table, current))
    if records and not made:
        raise Refusal(409, "conflict", "that was taken back already; to have it again, undo that change")
    return made


def memories_of(records: Sequence[RecordChange]) -> Iterator[str]:
    """The ids of the memories that the records belong to."""
    for each in records:
        record = each.after if each.after is not None else each.before
        yield from (getattr(record, parent.field) for parent in each.table.parents)


def _changed_by(journal: JournalReplay, seqs: Collection[int]) -> dict[RecordKey, Any]:
    """The records that these transactions changed, as they left them."""
    found: dict[RecordKey, Any] = {}
    missing = set(seqs)
    for read in journal.lines(min(seqs) - 1):
        if read.line.seq not in missing:
            continue
        missing.discard(read.line.seq)
        for change in read.line.changes:
            table = BY_CHANGE[type(change)]
            if table.name == "record_clocks":  # of a shared store, which gives what is put back another one
                continue
            if not table.is_undone or (table is META and not getattr(change, "name", "").startswith(TOPIC_NAME)):
                raise Refusal(404, "not_found", f"change {read.line.seq} changed no memory", field="seq")
            found[_key(table, change)] = _record(table, change)
    if missing:
        raise Refusal(422, "refused", "the journal was rewritten since, and does not say any more what was before")
    return found


def _with_states_before(journal: JournalReplay, changed: dict[RecordKey, Any], first: int) -> Iterator[RecordChange]:
    """The changed records with what they were before the change `first`."""
    before: dict[RecordKey, Any] = {}
    rows = (located.row for located in journal.snapshot_rows() if type(located.row) in BY_CHANGE)
    lines = (read.line for read in journal.lines())
    earlier = (change for line in lines if line.seq < first for change in line.changes)
    for change in itertools.chain(rows, earlier):
        table = BY_CHANGE[type(change)]
        if table.is_undone and (key := _key(table, change)) in changed:
            before[key] = _record(table, change)
    for key, after in changed.items():
        yield RecordChange(BY_NAME[key[0]], key[1], before.get(key), after)


def _key(table: Table[Any], change: Any) -> RecordKey:
    record = _record(table, change)
    return table.name, table.key.values_of(change if record is None else record)


def _record(table: Table[Any], change: Any) -> Any:
    """The record that a change writes; None of one that removes it."""
    return record_in(table, change) if type(change) is table.put else None


class RevertResult(NamedTuple):
    """The reverted changes. `made` is the seq of the change that did it, the last of `group` if it took several."""

    seqs: list[int]
    what: str
    ids: list[str]
    made: int = 0
    group: str = ""


class RevertConflict(Refusal):
    """409: something came after the change, and is named."""

    def __init__(self, message: str, later: Sequence[LaterChange]) -> None:
        super().__init__(409, "conflict", message)
        self.later = later

    def answer(self) -> FailureAnswer:
        later = list(self.later) or UNSET
        return FailureAnswer(error=ErrorBody(code=self.code, message=self.message, field=None, later=later))


class _PlannedRevert(NamedTuple):
    """The effect of a revert on some memories: what to put back, and what stands in the way."""

    rows: list[PlannedRevert]
    later: list[LaterChange]
    done: list[LaterChange]  # what has taken it back already


class RevertService:
    """The service. `undo` waits for the disk, and runs on a worker thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._history = HistoryReader(store)

    def revert(
        self, seq: int | None, group: str | None, caller: Caller, *, cycle: str | None = None, dry_run: bool
    ) -> RevertResult:
        """Revert the change of `seq`, those of `group` or of a cycle of consolidation, or the last one that a person
        or agent made: for an agent, the last one of its own. `cycle`: the end of its id, or NEWEST_CYCLE.

        Raises a Refusal: 404 where there is no such change or the caller does not see what it is about, 409 where
        something came after it, 422 for what is a note's to say, is gone for good or lies before the history that is
        kept. Where the last change cannot be undone, the message names the last one that can.
        """
        if cycle is not None:
            group = self._cycle_group(cycle)
        try:
            chosen = dict(self._chosen(seq, group, caller))
            of_cycle = self._cycle(group) if group is not None else None
            self._history.require_kept(min(chosen) - 1)
            if any(entry.what in FOR_GOOD for entry in chosen.values()):
                raise Refusal(422, "refused", "what left the trash, or was forgotten, is gone for good")
            ids = list(dict.fromkeys(memory_id for entry in chosen.values() for memory_id in entry.ids))
            records = self._records({seq: entry for seq, entry in chosen.items() if not entry.ids}, caller)
            changed = self._plan(chosen, ids, caller) if ids else []
            undone = RevertResult(list(chosen), chosen[max(chosen)].what, changed)
            if not dry_run and len(changed) <= REVERTED_PER_WRITE:
                made = self._restore(chosen, changed, caller, "", of_cycle, records)
                undone = undone._replace(made=made)
            elif not dry_run:
                undone = self._in_slices(undone, chosen, caller, of_cycle, records)
            return undone._replace(ids=list(dict.fromkeys((*changed, *memories_of(records)))))
        except Refusal as refusal:
            if seq is None and group is None and refusal.code == "refused":
                refusal.message += self._last_possible(caller)
            raise

    def _chosen(self, seq: int | None, group: str | None, caller: Caller) -> list[tuple[int, ChangeEntry]]:
        """The transactions to take back, oldest first."""
        if seq is not None:
            with self._store.snapshot() as snapshot:
                entry = snapshot.entry(seq)
            if entry is None and seq > 0:
                self._history.require_kept(seq - 1)
            if entry is None or not (entry.ids or _is_of_records(entry)):
                raise Refusal(404, "not_found", f"change {seq} changed no memory", field="seq")
            return [(seq, entry), *self._completions(seq, entry)]
        if group is not None:
            chosen = self._of_group(group)
            if not chosen:
                raise Refusal(404, "not_found", f"there is no change of a group {group!r}", field="group")
            return chosen
        for number, entry in self._latest(caller):
            return self._of_group(entry.group) if entry.group else [(number, entry)]
        raise Refusal(404, "not_found", "there is no change to undo")

    def _latest(self, caller: Caller) -> Iterator[tuple[int, ChangeEntry]]:
        """The changes that somebody made and nobody took back, newest first: for an agent, its own."""
        taken: set[int] = set()
        for number, entry in self._history.changes(max(0, self._store.seq - REVERT_SEARCH)):
            if number in taken or entry.device or not author_of(entry.by).is_asked_for:
                continue
            if undoes := timeline.undone_seqs(entry.what):
                taken |= undoes
            elif not (entry.ids or _is_of_records(entry)):
                continue
            elif caller.trust == "user" or entry.by == caller.name:
                yield number, entry

    def _last_possible(self, caller: Caller) -> str:
        """Return what the refusal of an undo says of the last change that can be undone."""
        for number, entry in islice(self._latest(caller), CHANGES_TRIED):
            chosen = self._of_group(entry.group) if entry.group else [(number, entry)]
            ids = list(dict.fromkeys(memory_id for _, each in chosen for memory_id in each.ids))
            with suppress(Refusal):
                self._records({seq: each for seq, each in chosen if not each.ids}, caller)
                if not any(each.what in FOR_GOOD for _, each in chosen) and (
                    not ids or self._plan(dict(chosen), ids, caller)
                ):
                    return f"; the last change that can be undone is {number} ({entry.what})"
        return ""

    def _cycle_group(self, cycle: str) -> str:
        """The group of a cycle that changed memories. Raises a Refusal."""
        taken: set[int] = set()
        end = cycle.strip().lower().replace("-", "")
        if cycle != NEWEST_CYCLE and len(end) < CYCLE_DIGITS_MIN:
            raise bad_value(f"give at least {CYCLE_DIGITS_MIN} digits of the id, or `{NEWEST_CYCLE}`", "cycle")
        for number, entry in self._history.changes(0):
            taken |= timeline.undone_seqs(entry.what) if number not in taken else set()
            if (
                entry.what == CONSOLIDATE
                and entry.ids
                and (number not in taken if cycle == NEWEST_CYCLE else entry.group.replace("-", "").endswith(end))
            ):
                return entry.group
        raise Refusal(404, "not_found", "there is no such cycle that changed a memory", field="cycle")

    def _cycle(self, group: str) -> Cycle | None:
        """The cycle of a group, where it is one's. Raises a Refusal for one that is under way."""
        if not _ID.fullmatch(group):
            return None
        with self._store.snapshot() as snapshot:
            cycle = snapshot.get(CYCLES, group)
        if cycle is not None and not cycle.ended_at:
            raise Refusal(409, "conflict", "the cycle is under way: undo it when it has ended", field="cycle")
        return cycle

    def _of_group(self, group: str) -> list[tuple[int, ChangeEntry]]:
        """All of it: others may have written in between."""
        rows = [(seq, entry) for seq, entry in self._history.changes(0) if entry.group == group]
        return [(seq, entry) for seq, entry in reversed(rows) if entry.ids or _is_of_records(entry)]

    def _completions(self, seq: int, entry: ChangeEntry) -> list[tuple[int, ChangeEntry]]:
        """The later changes by which ingestion completed a change: they are no obstacle to its revert, but a part of
        it. Each with the memories of that change, and the statements that were extracted from them, alone."""
        if not entry.group:
            return []
        own = set(entry.ids)
        found: list[tuple[int, ChangeEntry]] = []
        for number, each in reversed([*self._history.changes(seq)]):
            if each.by == BY_INTAKE.name and each.group == entry.group:
                with self._store.snapshot() as snapshot:
                    memories = [memory for one in each.ids if (memory := snapshot.memory(one)) is not None]
                ids = (memory.id for memory in memories if not own.isdisjoint((memory.id, *memory.derived_from)))
                found.append((number, msgspec.structs.replace(each, ids=tuple(ids))))
        return [(number, each) for number, each in found if each.ids]

    def _plan(self, chosen: Chosen, ids: Sequence[str], caller: Caller) -> list[str]:
        """The ids of what is to be put back. Raises a Refusal where anything stands in the way."""
        later: list[LaterChange] = []
        done: list[LaterChange] = []
        changed: list[str] = []
        for some in batched(ids, VERSIONS_A_SLICE):
            with self._store.snapshot() as snapshot:
                looked = _plan_revert(snapshot, chosen, some, caller)
            changed += [row.current.id for row in looked.rows]
            later += looked.later
            done += looked.done
        if later:
            raise RevertConflict(
                f"changed again since: {_shown_conflicts(later)}; nothing was undone", later[:LATER_SHOWN]
            )
        if not changed:
            message = f"that was taken back already: {_shown_conflicts(done)}; to have it again, undo that change"
            raise RevertConflict(message, done[:LATER_SHOWN])
        return changed

    def _records(self, chosen: Chosen, caller: Caller) -> list[RecordChange]:
        """The changes of records by transactions that changed no memory. Raises a Refusal where something stands in the
        way."""
        if not chosen:
            return []
        if caller.trust != "user" and any(entry.by != caller.name for entry in chosen.values()):
            raise Refusal(404, "not_found", "there is no change that you could undo")
        records = read_record_changes(self._store, chosen)
        with self._store.snapshot() as snapshot:
            reverted_records(snapshot, records, caller)
        return records

    def _restore(
        self, chosen: Chosen, ids: Sequence[str], caller: Caller, group: str, of_cycle: Cycle | None = None,
        records: Sequence[RecordChange] = (),
    ) -> int:  # fmt: skip
        """Revert these memories in one write turn, and with the last ones what else was changed; return its seq."""
        of_these = {
            seq: entry for seq, entry in chosen.items()
            if not set(entry.ids).isdisjoint(ids) or (records and not entry.ids)
        }  # fmt: skip

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            looked = _plan_revert(snapshot, of_these, ids, caller)
            if looked.later:
                raise RevertConflict(
                    f"changed again since: {_shown_conflicts(looked.later)}", looked.later[:LATER_SHOWN]
                )
            changes = authorised_changes(
                _changes(snapshot, of_these, looked.rows) if ids else (), snapshot, caller.trust, put_back=True
            )
            if records:
                changes += reverted_records(snapshot, records, caller)
            if of_cycle is not None:
                changes += _cycle_changes(snapshot, of_cycle, chosen, looked.rows)
            return WriteResult(changes, None, timeline.undo_label(of_these), group)

        return self._store.transact(decide, by=caller.name).result().seq

    def _in_slices(
        self, undone: RevertResult, chosen: Chosen, caller: Caller, of_cycle: Cycle | None,
        records: Sequence[RecordChange],
    ) -> RevertResult:  # fmt: skip
        group, made = self._store.new_id(), 0
        restored = 0
        for some in batched(undone.ids, REVERTED_PER_WRITE):
            try:
                is_last = restored + len(some) == len(undone.ids)
                rest = (of_cycle, records) if is_last else (None, ())
                made = self._restore(chosen, some, caller, group, *rest) or made
            except RevertConflict as error:
                so_far = f"{restored} of {len(undone.ids)} were put back before that (group {group})"
                raise RevertConflict(f"{error.message}; {so_far}", error.later) from error
            restored += len(some)
        return undone._replace(made=made, group=group)


def _is_of_records(entry: ChangeEntry) -> bool:
    """Return whether a transaction that changed no memory may be undone by its records, or undid such a one."""
    return entry.what in OF_RECORDS or bool(timeline.undone_seqs(entry.what))


def _plan_revert(snapshot: Snapshot, chosen: Chosen, ids: Sequence[str], caller: Caller) -> _PlannedRevert:
    """Plan the revert for these memories. Raises a Refusal for what the caller does not see or may not do, for
    what is gone for good, and for what a note says."""
    looked = _PlannedRevert([], [], [])
    of_notes = {memory_id for entry in chosen.values() if entry.by == BY_NOTES.name for memory_id in entry.ids}
    for memory_id in ids:
        versions = snapshot.versions(memory_id)
        if not versions:
            message = f"memory {memory_id} is gone for good: nothing brings it back"
            raise Refusal(422, "refused", message)
        entries = {stored.seq: snapshot.entry(stored.seq) for stored in versions}
        whats = {seq: entry.what if entry is not None else "" for seq, entry in entries.items()}
        found = timeline.revert_effect(versions, whats, chosen)
        now = versions[-1].memory
        if not is_visible(now, caller) or not (found.before is None or is_visible(found.before, caller)):
            raise Refusal(404, "not_found", "there is no change that you could undo")
        if found.done or found.later:
            changes = [(seq, entries[seq] or ChangeEntry(at=0, by="")) for seq in found.later]
            rows = [LaterChange(id=memory_id, seq=seq, at=each.at, by=each.by, what=each.what) for seq, each in changes]
            (looked.done if found.done else looked.later).extend(rows)
        elif memory_id in of_notes and now.managed and now.state != "trashed":
            message = f"the text is that of a note: edit {place_of(snapshot, now)}"
            raise Refusal(422, "managed", message)
        else:
            authorised_changes([PutMemory(data=found.before or now)], snapshot, caller.trust, put_back=True)
            looked.rows.append(PlannedRevert(now, found.before))
    return looked


def _changes(snapshot: Snapshot, chosen: Chosen, rows: Sequence[PlannedRevert]) -> list[Change]:
    """The changes that put them back: the memories, the trash, what rescans leave out, and the edges."""
    what = chosen[max(chosen)].what
    rows = [row._replace(before=row.before and detached_from_note(snapshot, row.before)) for row in rows]
    changes = [*mutations.revert(rows, f"undo of {'an undo' if timeline.undone_seqs(what) else what}", snapshot.now)]
    for row in rows:
        if row.before is not None:  # a person's difference of the importance is taken back with it
            before = msgspec.structs.replace(row.before, importance_source=row.current.importance_source)
            changes += mutations.adjust_strength(present_usage(row.current, snapshot), row.current, before)
    back = [row.before for row in rows if row.before is not None and row.current.state == "trashed"]
    changes += clear_skipped_texts(snapshot, [memory for memory in back if memory.state != "trashed"])
    leaving = [row.current for row in rows if row.current.state != "trashed" and not timeline.is_present(row.before)]
    salt = snapshot.meta("salt")
    changes += [
        PutSkip(data=Skip(file=memory.managed, hash=skip_hash(salt, memory.content)))
        for memory in leaving
        if memory.managed
    ]
    changes += _edges_made(snapshot, chosen, rows, {memory.id for memory in leaving})
    # The changes that remove the facts which the transactions added to a text that stays. Those of another text hold
    # no more, and come back with it.
    made = {(memory_id, entry.at) for entry in chosen.values() for memory_id in entry.ids}
    for row in rows:
        if row.before is None or row.before.content != row.current.content:
            continue
        for fact in snapshot.facts(row.current.id):
            at = fact.created_at
            if (row.current.id, at) in made and _changed_once(snapshot, chosen, row.current.id, at):
                changes.append(DropFact(id=fact.id, memory=row.current.id))
    ids = {row.current.id for row in rows}
    groups = {entry.group for entry in chosen.values() if entry.what == REVIEW}
    found = (each for memory_id in sorted(ids if groups else ()) for each in snapshot.under(DECISIONS, memory_id))
    approvals = list({(each.memory, each.action, each.other): each for each in found if each.group in groups}.values())
    usages = dict[str, Usage]()  # without what the transactions did to them; how the memories were used since counts
    for earlier, later in ((each.before, each.after) for each in _usage_changes(snapshot, chosen, approvals, ids)):
        used = usages.get(earlier.id) or snapshot.usage(earlier.id)
        if used is not None:
            is_last = (used.strength, used.strength_epoch) == (later.strength, later.strength_epoch)
            usages[earlier.id] = msgspec.structs.replace(
                used,
                access_count=max(0, used.access_count - later.access_count + earlier.access_count),
                repetition_count=max(0, used.repetition_count - later.repetition_count + earlier.repetition_count),
                last_accessed=earlier.last_accessed
                if used.last_accessed == later.last_accessed
                else used.last_accessed,
                strength=earlier.strength if is_last else max(0.0, used.strength - later.strength + earlier.strength),
                strength_epoch=earlier.strength_epoch if is_last else used.strength_epoch,
            )
    changes += (PutUsage(data=usage) for usage in usages.values())
    changes += [PutDecision(data=mutations.rejected(each, snapshot.now)) for each in approvals]
    return [*changes, *_changes_of_moves(snapshot, chosen, rows)]


def _changes_of_moves(snapshot: Snapshot, chosen: Chosen, rows: Sequence[PlannedRevert]) -> Iterator[Change]:
    """The changes that take back what a person's move did besides the memory: its facts follow it to its namespace, and
    a cycle may move it again."""
    groups = {entry.group for entry in chosen.values() if entry.what == MOVE}
    for row in rows:
        if row.before is not None and row.before.namespace != row.current.namespace:
            for fact in snapshot.facts(row.current.id):
                yield PutFact(data=msgspec.structs.replace(fact, namespace=row.before.namespace))
        for each in snapshot.under(DECISIONS, row.current.id) if groups else ():
            if each.group in groups:
                yield DropDecision(memory=each.memory, action=each.action, other=each.other)


def _cycle_changes(snapshot: Snapshot, cycle: Cycle, chosen: Chosen, rows: Sequence[PlannedRevert]) -> list[Change]:
    """The changes that take back what a cycle did besides its memories."""
    before = {row.current.id: row.before for row in rows}

    def text_after(memory_id: str) -> str | None:
        versions = snapshot.versions(memory_id)
        if not versions or versions[0].seq in chosen:
            return None
        memory = before.get(memory_id, versions[-1].memory)
        return memory.content if memory is not None else None

    is_last = snapshot.meta(LAST_CYCLE) == cycle.id
    changes = undo_changes(cycle, snapshot.now, partial(snapshot.get, DECISIONS), text_after, is_last=is_last)
    return [*changes, *(_metas_of_undone(snapshot, cycle) if is_last else ())]


def _metas_of_undone(snapshot: Snapshot, cycle: Cycle) -> Iterator[Change]:
    """The changes that put back the epoch and the like of the cycles before one that were undone while it stood."""
    before: Cycle | None = cycle
    while before is not None:
        name = next((each.before for each in before.metas if each.name == LAST_CYCLE), "")
        before = snapshot.get(CYCLES, name) if name else None
        if before is None or not before.undone_at:
            return
        yield from (PutMeta(name=each.name, value=each.before) for each in before.metas)


def _edges_made(
    snapshot: Snapshot, chosen: Chosen, rows: Sequence[PlannedRevert], leaving: set[str]
) -> Iterator[Change]:
    """The changes that remove the edges which the transactions made between memories that stay.

    A transaction's entry does not name its edges. They are known by their time and by an end that changed with them,
    where that did not change twice in one millisecond; links of notes are their files'. What goes to the trash keeps
    its edges, to come back with them. What edges a transaction took away is not known.
    """
    made = {(memory_id, entry.at) for entry in chosen.values() for memory_id in entry.ids}
    seen = set()
    for row in rows:
        for edge in snapshot.edges(row.current.id):
            key = (edge.source, edge.target, edge.relation)
            if (row.current.id, edge.at) not in made or edge.via or not leaving.isdisjoint(key) or key in seen:
                continue
            if _changed_once(snapshot, chosen, row.current.id, edge.at):
                seen.add(key)
                yield DropEdge(source=edge.source, target=edge.target, relation=edge.relation)


def _changed_once(snapshot: Snapshot, chosen: Chosen, memory_id: str, at: int) -> bool:
    """Return whether no other transaction changed the memory at that time."""
    others = (snapshot.entry(seq) for seq, _ in snapshot.versions(memory_id) if seq not in chosen)
    return all(entry is None or entry.at != at for entry in others)


def _usage_changes(
    snapshot: Snapshot, chosen: Chosen, approvals: Sequence[LifecycleDecision], ids: set[str]
) -> Iterator[UsageChange]:
    """The changes that cycles and approved proposals made to the usage of these memories, newest first."""
    for group in {entry.group for entry in chosen.values() if entry.what == CONSOLIDATE}:
        changed = {one for entry in chosen.values() if entry.group == group for one in entry.used} & ids
        cycle = snapshot.get(CYCLES, group)
        steps = reversed(cycle.steps) if cycle is not None else ()
        yield from (each for step in steps for each in reversed(step.usages) if each.before.id in changed)
    for usages in {each.group: each.usages for each in approvals}.values():  # each decision of a group has all of them
        yield from (each for each in usages if each.before.id in ids)


def _shown_conflicts(later: Sequence[LaterChange]) -> str:
    shown = ", ".join(f"{row.id} by change {row.seq} ({row.what or row.by})" for row in later[:LATER_SHOWN])
    return shown + (f" and {len(later) - LATER_SHOWN} more" if len(later) > LATER_SHOWN else "")
