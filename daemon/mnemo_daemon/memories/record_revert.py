"""Undo of changes that touched no memory: facts, decisions, and other records that have no versions. SPEC 3.3

What a record was before a change stands in the journal. It is read from there, the whole of it, since such an undo is
rare. A journal that was rewritten since, by an erasure or a compaction, knows it no more, and the undo is refused.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from mnemo_daemon.errors import Refusal
from mnemo_daemon.memories.memory_service import Caller, is_visible
from mnemo_store.backend import Snapshot
from mnemo_store.errors import StoreCorruption
from mnemo_store.maintenance.journal_diff import JournalOwner, JournalReplay
from mnemo_store.records import Change
from mnemo_store.store import Store
from mnemo_store.tables import BY_CHANGE, DECISIONS, EDGES, FACTS, Table, drop_of, put_of, record_in

REVERTED: tuple[Table[Any], ...] = (FACTS, DECISIONS, EDGES)  # tables whose records are put back

RecordKey = tuple[str, tuple[Any, ...]]  # the table and the values of the key


class RecordChange(NamedTuple):
    """A record before and after the transactions to take back; None: it was not there."""

    table: Table[Any]
    values: tuple[Any, ...]  # of its key
    before: Any
    after: Any


def read_record_changes(store: Store, seqs: Collection[int]) -> list[RecordChange]:
    """The records that these transactions changed, as the journal has them. Raises a Refusal (422) where it has them no
    more, or where they changed other records than those of REVERTED."""
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
        made.append(drop_of(each.table, current) if each.before is None else put_of(each.table, each.before))
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
            if table not in REVERTED:
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
        if table in REVERTED and (key := _key(table, change)) in changed:
            before[key] = _record(table, change)
    tables = {table.name: table for table in REVERTED}
    for key, after in changed.items():
        yield RecordChange(tables[key[0]], key[1], before.get(key), after)


def _key(table: Table[Any], change: Any) -> RecordKey:
    record = _record(table, change)
    return table.name, table.key.values_of(change if record is None else record)


def _record(table: Table[Any], change: Any) -> Any:
    """The record that a change writes; None of one that removes it."""
    return record_in(table, change) if type(change) is table.put else None
