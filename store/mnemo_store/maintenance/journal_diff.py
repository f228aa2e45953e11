"""The journal diff: compares every record of the database with the replay of the journal. SPEC 3.1, 3.8, 17.3.

The database should hold what the lines of the journal replay to. Where they differ, the journal wins, whose lines have
checksums, except for changes whose lines are lost or unreadable: those are in the database alone. Nothing names what a
damaged snapshot has lost, so records that such a journal lacks prove nothing against the database.

Index rows and vectors are not compared: they are derived from records and texts (`check` has rules for them).
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.database.table_access import TableRow, TableSnapshot
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreCorruption
from mnemo_store.journal.dump import LOADED
from mnemo_store.journal.journal import SNAPSHOT, Journal, JournalDamage, LocatedLine, newest_header
from mnemo_store.journal.line_codec import decode_line
from mnemo_store.journal.segments import read_bytes
from mnemo_store.maintenance.check import InvariantViolation, TableSource, YieldToQueries, rows_of, span, subject_of
from mnemo_store.records import ChangeEntry
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.tables import BOOKKEEPING, BY_NAME, CHANGES, META, TABLES, VERSIONS, LoggedChange, Table

VERSIONS_SLICE = 200  # versions that are read in one snapshot: each is a line of the journal
ATTEMPTS = 3  # to read a journal that is rewritten, or whose segments are renamed, meanwhile
CAUGHT_UP = 100  # changes that may be read while a snapshot of the database is open
INVARIANT = "journal"
ONLY_IN_DATABASE = "the database has it, and the journal, which can be read, does not"
_BOOKKEEPING = frozenset(name.encode() for name in BOOKKEEPING)
TORN = "a torn end"  # JournalDamage.why of an end that was never acknowledged

ReplaySource = Callable[[], AbstractContextManager[Snapshot]]


class _UnreadableRecord:
    """Stands for a record whose row cannot be read; equal to nothing."""


@dataclass
class JournalReplay(Journal):
    """A journal up to one change, whatever is written after it meanwhile. For reading only."""

    upto: int = 0

    def lines(self, after: int = 0) -> Iterator[LocatedLine]:
        for read in super().lines(after):
            if read.line.seq > self.upto:
                return
            yield read

    def may_lack(self, damages: Sequence[JournalDamage]) -> bool:
        """True if it may lack records that no lost change names: its snapshot is damaged or gone."""
        if self.snapshot_number:
            return any(damage.segment == f"{SNAPSHOT}.{self.snapshot_number:06d}.jsonl" for damage in damages)
        first = next(self.lines(), None)
        return self.upto > 0 and (first is None or first.line.seq > 1)


class JournalOwner(NamedTuple):
    """The identity of a store, and the folder of its journal."""

    folder: Path
    store_id: str
    salt: str

    @contextmanager
    def open_replay(self, upto: int) -> Iterator[JournalReplay]:
        journal = JournalReplay(self.folder, self.store_id, self.salt, Disk(), upto=upto)
        try:
            journal.open(read_only=True)
            yield journal
        finally:
            journal.close()


class JournalChangeError(Exception):
    """The journal's files were replaced each time it was read."""


def check_journal(
    source: TableSource, owner: JournalOwner, yield_to_queries: YieldToQueries = lambda: None
) -> Iterator[InvariantViolation]:
    """Yields every unreadable stretch of the journal and every difference between it and the database.

    Both are compared up to the last change of the database. Changes written meanwhile are taken into account. Raises
    JournalChangeError.
    """
    for attempt in range(ATTEMPTS):
        try:
            yield from list(_differences(source, owner, yield_to_queries))
        except (StoreCorruption, OSError) as error:
            if attempt == ATTEMPTS - 1:
                raise JournalChangeError(f"the journal was replaced while it was read: {error}") from error
        else:
            return


def _differences(
    source: TableSource, owner: JournalOwner, yield_to_queries: YieldToQueries
) -> Iterator[InvariantViolation]:
    with source() as at:
        end = at.position
        own = {"store": at.meta("store"), "salt": at.meta("salt")}
    header = newest_header(owner.folder)
    for name, value in own.items():
        if header is not None and getattr(header, name) != value:
            yield InvariantViolation(INVARIANT, "meta", name, "the database has another than the journal", "database")
    with owner.open_replay(end[0]) as journal:
        damages = unreadable_stretches(journal)
        for damage in damages:
            subject = f"{damage.segment}:{damage.offset}"
            yield InvariantViolation(INVARIANT, "segments", subject, f"{damage.length} bytes: {damage.why}", "journal")
        replayed = FallbackState(journal)
        if replayed.end[0] == end[0] != 0 and replayed.end[1] and replayed.end != end:
            what = f"the database says {end[1]}, the journal {replayed.end[1]}"
            yield InvariantViolation(INVARIANT, "meta", "sum", what, "database")
        may_lack = journal.may_lack(damages)
        found = list(compare(source, lambda: replayed.snapshot(0), journal, yield_to_queries, may_lack=may_lack))
        if any(each.remedy == "reread" for each in found):
            found = list(_confirmed_at_one_moment(source, owner, replayed, found))
        yield from (each for each in found if not (may_lack and each.what == ONLY_IN_DATABASE))


def unreadable_stretches(journal: JournalReplay) -> list[JournalDamage]:
    """The unreadable stretches, except those that a crash or a write in progress may leave: a torn end, and lines after
    the last change that were never acknowledged."""
    return [damage for damage in journal.check() if damage.why != TORN and not _is_after(journal, damage)]


def _is_after(journal: JournalReplay, damage: JournalDamage) -> bool:
    with (journal.folder / damage.segment).open("rb") as file:
        stretch = read_bytes(file.fileno(), damage.offset, damage.length)
    try:
        return decode_line(stretch)[0].seq > journal.upto
    except ValueError:
        return False


def _confirmed_at_one_moment(
    source: TableSource, owner: JournalOwner, replayed: FallbackState, found: Sequence[InvariantViolation]
) -> Iterator[InvariantViolation]:
    with source() as here:
        seq = here.seq
    if seq > replayed.end[0] + CAUGHT_UP:
        _catch_up(owner, replayed, seq)
    with source() as here:
        _catch_up(owner, replayed, here.seq)
        with replayed.snapshot(0) as there:
            yield from list(confirm_differences(here, there, found))


def _catch_up(owner: JournalOwner, replayed: FallbackState, upto: int) -> None:
    """Replays the lines after the end of the replay, up to a change."""
    if upto <= replayed.end[0]:
        return
    with owner.open_replay(upto) as journal:
        group = replayed.begin()
        for read in journal.lines(replayed.end[0]):
            with group.savepoint(0) as writing:
                writing.apply(read.line.changes, read.line.seq, read.line.entry())
            group.record_end(0, read.position)
        group.commit()


def compare(
    source: TableSource, replay: ReplaySource, journal: JournalReplay, yield_to_queries: YieldToQueries = lambda: None,
    *, may_lack: bool = False,
) -> Iterator[InvariantViolation]:  # fmt: skip
    """Yields the differences between the database and `replay`, the replay of the journal. If the database is written
    meanwhile, some of them are not real: `confirm_differences` decides."""
    lost: list[int] = []
    for subject, ours, theirs in _pairs(source, replay, CHANGES, yield_to_queries):
        if int(subject) > journal.upto:
            break
        if may_lack and theirs is not None and _is_provisional(theirs.entry):
            if ours is None:
                continue
            theirs = None
        if theirs is None and not isinstance(ours, _UnreadableRecord):
            lost.append(int(subject))
        elif ours != theirs:
            yield _difference("changes", subject, ours, theirs)
    for first, last in number_ranges(lost) if lost else ():
        yield InvariantViolation(INVARIANT, "changes", span(first, last), "it is in the database alone", "journal")
    lost = [seq for seq in lost if seq > journal.snapshot_last[0]]  # the snapshot has the effect of earlier ones
    named = _memories_of(source, lost)
    for table in TABLES:
        if table is CHANGES:
            continue
        for subject, ours, theirs in _pairs(source, replay, table, yield_to_queries):
            if ours != theirs and not (lost and _may_be_lost(table.name, subject, named)):
                yield _difference(table.name, subject, ours, theirs)


def confirm_differences(
    here: TableSnapshot, there: Snapshot, found: Sequence[InvariantViolation]
) -> Iterator[InvariantViolation]:
    """Yields the differences that remain when both have seen the same changes."""
    for violation in found:
        if violation.remedy != "reread":
            yield violation
            continue
        table = BY_NAME[violation.table]
        try:
            ours = database_record(here, table, violation.subject)
            theirs = journal_record(there, table, violation.subject)
        except ValueError:
            yield violation  # of a row with an invalid key
            continue
        if ours != theirs:
            yield _difference(violation.table, violation.subject, ours, theirs)


def database_record(here: TableSnapshot, table: Table[Any], subject: str) -> Any:
    """The record of a subject in the database; an object that equals nothing where it cannot be read."""
    key = table.key.encode(table.values_of_subject(subject))
    value = here.row(table.name, key)
    return None if value is None else _read(table, key, value)


def journal_record(there: Snapshot, table: Table[Any], subject: str) -> Any:
    """The record of a subject in the replay, or None. Raises ValueError for an invalid subject."""
    return there.get(table, *table.values_of_subject(subject))


def number_ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run without gaps in ascending numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _difference(table: str, subject: str, ours: Any, theirs: Any) -> InvariantViolation:
    if theirs is None:
        what = ONLY_IN_DATABASE
    elif ours is None:
        what = "the journal has it, and the database does not"
    else:
        what = "the database and the journal differ"
    return InvariantViolation(INVARIANT, table, subject, what, "reread")


def _is_provisional(entry: ChangeEntry) -> bool:
    """True for the entry that loading a snapshot puts in the place of a lost one."""
    return (entry.by, entry.what) == ("", LOADED)


def _memories_of(source: TableSource, lost: Sequence[int]) -> frozenset[str]:
    """The memories that these lost changes changed or used."""
    named: set[str] = set()
    for some in batched(lost, READ_SLICE):
        with source() as at:
            for seq in some:
                logged = database_record(at, CHANGES, str(seq))
                if isinstance(logged, LoggedChange):
                    named.update(logged.entry.ids, logged.entry.used)
    return frozenset(named)


def _may_be_lost(table: str, subject: str, named: frozenset[str]) -> bool:
    """True if a difference may come from changes that the journal lost. A change names the memories that it touched; it
    may have changed any other record too."""
    if table in ("memories", "versions", "usage", "trash"):
        return subject.split()[0] in named
    return True


def _pairs(
    source: TableSource, replay: ReplaySource, table: Table[Any], yield_to_queries: YieldToQueries
) -> Iterator[tuple[str, Any, Any]]:
    """Yields (subject, record of the database, record of the journal) for all subjects; None where one has no record.
    Both are walked in parallel, in the order of the keys."""
    stored = ((key, False, record) for key, record in _database_records(source, table, yield_to_queries))
    replayed = ((key, True, record) for key, record in _journal_records(replay, table))
    merged = heapq.merge(stored, replayed, key=itemgetter(0))
    for key, found in groupby(merged, itemgetter(0)):
        records = {is_replayed: record for _, is_replayed, record in found}
        yield subject_of(table.name, TableRow(key, b"")), records.get(False), records.get(True)


def _database_records(
    source: TableSource, table: Table[Any], yield_to_queries: YieldToQueries
) -> Iterator[tuple[bytes, Any]]:
    for _, row in rows_of(source, table.name, yield_to_queries, READ_SLICE):
        if table.is_primary(row.key) and not (table is META and row.key in _BOOKKEEPING):
            yield row.key, _read(table, *row)


def _journal_records(replay: ReplaySource, table: Table[Any]) -> Iterator[tuple[bytes, Any]]:
    after, size = b"", VERSIONS_SLICE if table is VERSIONS else READ_SLICE
    while True:
        with replay() as there:
            records = there.scan(table, after, size)
        for record in records:
            after = table.key.of(record)
            if not (table is META and after in _BOOKKEEPING):
                yield after, record
        if len(records) < size:
            return


def _read(table: Table[Any], key: bytes, value: bytes) -> Any:
    try:
        return table.open_verified(key, value)
    except ValueError:
        return _UnreadableRecord()
