"""Journal against database: what each of them says of every record, compared. SPEC 3.1, 3.8, 17.3.

Both tell the same story: the database holds what the journal's lines replay to. Where they differ, the journal is
believed, whose lines have checksums, but for what it cannot know: changes whose lines are lost or cannot be read. Those
are in the database alone. Of a snapshot that is damaged nothing names what it has lost: what such a journal lacks says
nothing against the database.

Rows of an index are no story: they are made from the records (`check` has the rules for them). So are vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_store import codec
from mnemo_store.backend import SLICE, Snapshot, StoredMemory
from mnemo_store.codec import decode_line, id_key, seq_key
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreCorruption
from mnemo_store.journal.dump import BOOKKEEPING
from mnemo_store.journal.journal import (
    SNAPSHOT,
    Journal,
    JournalDamage,
    LocatedLine,
    newest_header,
)
from mnemo_store.journal.segments import read_bytes
from mnemo_store.maintenance.check import (
    DECODE_ERRORS,
    InvariantViolation,
    TableSource,
    YieldToQueries,
    decode,
    span,
    subject_of,
)
from mnemo_store.records import ChangeEntry, Edge, Skip
from mnemo_store.recovery.fallback_state import FallbackState
from mnemo_store.tables import TableRow, TableSnapshot, edge_keys

VERSIONS_SLICE = 200  # memories whose versions are asked for in one snapshot
ATTEMPTS = 3  # at a journal that is written anew, or whose segments are renamed, while it is read
CAUGHT_UP = 100  # changes that may be read while a snapshot of the database waits
INVARIANT = "journal"
ONLY_IN_DATABASE = "the database has it, and the journal, which can be read, does not"
TORN = "a torn end"  # what Damage says of an end that was never answered for

ReplaySource = Callable[[], AbstractContextManager[Snapshot]]
RecordWalk = Callable[[ReplaySource], Iterator[Any]]


class TableDiff(NamedTuple):
    """One table as both tell it, in one order. `subject` is how a record is called in a report and found again."""

    table: str
    walk: RecordWalk  # every record that the journal replays to
    subject: Callable[[Any], str]
    keys: Callable[[str], list[bytes]]  # the rows of a subject
    value: Callable[[Any], bytes]  # what stands in them
    find: Callable[[Snapshot, str], Any]  # the record of a subject, None where there is none

    def rows(self, record: Any) -> list[TableRow]:
        """What the database should hold of a record."""
        value = self.value(record)
        return [TableRow(key, value) for key in self.keys(self.subject(record))]


class _UnreadableRecord:
    """What the database has of a record whose row cannot be read: nothing that equals anything."""


@dataclass
class JournalReplay(Journal):
    """A journal as far as one change, whatever is written behind it meanwhile. To be read, not written."""

    upto: int = 0

    def lines(self, after: int = 0) -> Iterator[LocatedLine]:
        for read in super().lines(after):
            if read.line.seq > self.upto:
                return
            yield read

    def may_lack(self, damages: Sequence[JournalDamage]) -> bool:
        """Whether it may lack what no lost change names: its snapshot is among what is damaged, or gone."""
        if self.snapshot_number:
            return any(damage.segment == f"{SNAPSHOT}.{self.snapshot_number:06d}.jsonl" for damage in damages)
        first = next(self.lines(), None)
        return self.upto > 0 and (first is None or first.line.seq > 1)


class JournalOwner(NamedTuple):
    """Whose journal it is, and where it stands."""

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


class JournalChanged(Exception):
    """The journal's files were replaced each time it was read."""


def check_journal(
    source: TableSource, owner: JournalOwner, give_way: YieldToQueries = lambda: None
) -> Iterator[InvariantViolation]:
    """Every stretch of the journal that cannot be read, and every difference between it and the database.

    Both are compared up to the database's last change. What is written meanwhile is waited for where it matters.
    Raises JournalChanged.
    """
    for attempt in range(ATTEMPTS):
        try:
            yield from list(_differences(source, owner, give_way))
        except (StoreCorruption, OSError) as error:
            if attempt == ATTEMPTS - 1:
                raise JournalChanged(f"the journal was replaced while it was read: {error}") from error
        else:
            return


def _differences(source: TableSource, owner: JournalOwner, give_way: YieldToQueries) -> Iterator[InvariantViolation]:
    with source() as at:
        end = (at.seq, at.meta("sum"))
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
        found = list(compare(source, lambda: replayed.snapshot(0), journal, give_way, may_lack=may_lack))
        if any(each.remedy == "reread" for each in found):
            found = list(_confirmed_at_one_moment(source, owner, replayed, found))
        yield from (each for each in found if not (may_lack and each.what == ONLY_IN_DATABASE))


def unreadable_stretches(journal: JournalReplay) -> list[JournalDamage]:
    """The stretches that cannot be read, but for what a crash may leave or a write in progress: a torn end, and
    behind the last change lines that were never answered for."""
    return [damage for damage in journal.check() if damage.why != TORN and not _is_behind(journal, damage)]


def _is_behind(journal: JournalReplay, damage: JournalDamage) -> bool:
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
        _carry_on(owner, replayed, seq)
    with source() as here:
        _carry_on(owner, replayed, here.seq)
        with replayed.snapshot(0) as there:
            yield from list(confirm_differences(here, there, found))


def _carry_on(owner: JournalOwner, replayed: FallbackState, upto: int) -> None:
    """What the journal has behind the replay's end is in the replay too."""
    if upto <= replayed.end[0]:
        return
    with owner.open_replay(upto) as journal:
        group = replayed.begin()
        for line, checksum, _ in journal.lines(replayed.end[0]):
            with group.savepoint(0) as writing:
                entry = ChangeEntry(at=line.at, by=line.by, group=line.group, what=line.what)
                writing.apply(line.changes, line.seq, entry)
            group.record_end(0, (line.seq, checksum))
        group.commit()


def compare(
    source: TableSource,
    replay: ReplaySource,
    journal: JournalReplay,
    give_way: YieldToQueries = lambda: None,
    *,
    may_lack: bool = False,
) -> Iterator[InvariantViolation]:
    """Where the two differ, `replay` being what the journal replays to. Of a database that is written meanwhile some of
    it is no difference: `confirmed` has the last word."""
    lost: list[int] = []
    for subject, ours, theirs in _pairs(source, replay, TABLE_DIFFS["changes"], give_way):
        if int(subject) > journal.upto:
            break
        if may_lack and theirs is not None and _stands_in(theirs[1]):
            if ours is None:
                continue
            theirs = None
        if theirs is None and not isinstance(ours, _UnreadableRecord):
            lost.append(int(subject))
        elif ours != theirs:
            yield _difference("changes", subject, ours, theirs)
    for first, last in number_ranges(lost) if lost else ():
        yield InvariantViolation(INVARIANT, "changes", span(first, last), "it is in the database alone", "journal")
    lost = [seq for seq in lost if seq > journal.snapshot_last[0]]  # what earlier ones did stands in the snapshot
    named = _named_by(source, lost)
    for table, account in TABLE_DIFFS.items():
        if table == "changes":
            continue
        for subject, ours, theirs in _pairs(source, replay, account, give_way):
            if ours != theirs and not (lost and _may_be_lost(table, subject, named)):
                yield _difference(table, subject, ours, theirs)


def confirm_differences(
    here: TableSnapshot, there: Snapshot, found: Sequence[InvariantViolation]
) -> Iterator[InvariantViolation]:
    """Those that still stand when both have seen the same changes."""
    for violation in found:
        if violation.remedy != "reread":
            yield violation
            continue
        account = TABLE_DIFFS[violation.table]
        try:
            ours, theirs = database_record(here, account, violation.subject), account.find(there, violation.subject)
        except ValueError:
            yield violation  # of a row whose key is none of its table's
            continue
        if ours != theirs:
            yield _difference(violation.table, violation.subject, ours, theirs)


def database_record(here: TableSnapshot, account: TableDiff, subject: str) -> Any:
    """What the database has under a subject; something that equals nothing where that cannot be read."""
    key = account.keys(subject)[0]
    value = here.row(account.table, key)
    if value is None:
        return None
    return _read(account.table, TableRow(key, value))


def number_ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Rising numbers as the first and last of each run without gaps."""
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
        what = "the database has something else than the journal"
    return InvariantViolation(INVARIANT, table, subject, what, "reread")


def _stands_in(entry: ChangeEntry) -> bool:
    """Whether it is none that was written, but what replaying a snapshot puts in the place of one that is lost."""
    return (entry.by, entry.what) == ("", "load")


def _named_by(source: TableSource, lost: Sequence[int]) -> frozenset[str]:
    """The memories that the lost changes changed or used."""
    named: set[str] = set()
    for start in range(0, len(lost), SLICE):
        with source() as at:
            for seq in lost[start : start + SLICE]:
                entry = database_record(at, TABLE_DIFFS["changes"], str(seq))
                if isinstance(entry, tuple):
                    named.update(entry[1].ids, entry[1].used)
    return frozenset(named)


def _may_be_lost(table: str, subject: str, named: frozenset[str]) -> bool:
    """Whether a difference may come of changes that the journal lost. Changes name the memories that they changed;
    of all else they could have changed anything."""
    if table in ("memories", "versions", "usage", "trash"):
        return subject.split()[0] in named
    return True


def _pairs(
    source: TableSource, replay: ReplaySource, account: TableDiff, give_way: YieldToQueries
) -> Iterator[tuple[str, Any, Any]]:
    """(subject, what the database has, what the journal has) for everything that either has; None where one does not.

    Both are walked side by side, in the order of the rows' keys.
    """
    ours, theirs = _ours(source, account, give_way), _theirs(replay, account)
    mine, other = next(ours, None), next(theirs, None)
    while mine is not None or other is not None:
        if other is None or (mine is not None and mine[0] < other[0]):
            assert mine is not None
            yield mine[1], mine[2], None
            mine = next(ours, None)
        elif mine is None or other[0] < mine[0]:
            yield other[1], None, other[2]
            other = next(theirs, None)
        else:
            yield other[1], mine[2], other[2]
            mine, other = next(ours, None), next(theirs, None)


def _ours(source: TableSource, account: TableDiff, give_way: YieldToQueries) -> Iterator[tuple[bytes, str, Any]]:
    after: TableRow | None = None
    while True:
        with source() as at:
            rows = at.rows(account.table, after, SLICE)
        for row in rows:
            if account.table == "edges" and row.key[16:17] != b">":
                continue
            if account.table == "meta" and row.key.decode("utf-8", "replace") in BOOKKEEPING:
                continue
            yield row.key, subject_of(account.table, row), _read(account.table, row)
        if len(rows) < SLICE:
            return
        after = rows[-1]
        give_way()


def _theirs(replay: ReplaySource, account: TableDiff) -> Iterator[tuple[bytes, str, Any]]:
    for record in account.walk(replay):
        subject = account.subject(record)
        yield account.keys(subject)[0], subject, record


def _read(table: str, row: TableRow) -> Any:
    try:
        record = decode(table, row)
    except DECODE_ERRORS:
        return _UnreadableRecord()
    return record.edge if table == "edges" else record


# How each table is walked, keyed and asked


def _steps(read: Callable[[Snapshot, Any, int], list[Any]], mark: Callable[[Any], Any], first: Any) -> RecordWalk:
    """Slice by slice: `read` gives the records behind what `mark` tells of the one before, `first` at the beginning."""

    def walk(replay: ReplaySource) -> Iterator[Any]:
        after = first
        while True:
            with replay() as there:
                records = read(there, after, SLICE)
            yield from records
            if len(records) < SLICE:
                return
            after = mark(records[-1])

    return walk


def _versions(replay: ReplaySource) -> Iterator[StoredMemory]:
    after = ""
    while True:
        with replay() as there:
            ids = [stored.memory.id for stored in there.records(after, VERSIONS_SLICE)]
            earlier = [version for memory_id in ids for version in there.versions(memory_id)[:-1]]
        yield from earlier
        if len(ids) < VERSIONS_SLICE:
            return
        after = ids[-1]


def _roots(replay: ReplaySource) -> Iterator[Any]:
    with replay() as there:
        roots = there.roots()
    yield from roots


def _metas(replay: ReplaySource) -> Iterator[tuple[str, str]]:
    with replay() as there:
        facts = there.metas()
    yield from (fact for fact in facts.items() if fact[0] not in BOOKKEEPING)


def _one_id(subject: str) -> list[bytes]:
    return [id_key(subject)]


def _version_key(subject: str) -> list[bytes]:
    memory_id, seq = subject.split()
    return [id_key(memory_id) + seq_key(int(seq))]


def _find_version(at: Snapshot, subject: str) -> StoredMemory | None:
    memory_id, seq = subject.split()
    current = at.stored(memory_id)
    versions = at.versions(memory_id)[: -1 if current else None]
    return next((version for version in versions if version.seq == int(seq)), None)


def _find_entry(at: Snapshot, subject: str) -> Any:
    entry = at.entry(int(subject))
    return None if entry is None else (int(subject), entry)


def _edge_subject_keys(subject: str) -> list[bytes]:
    source, relation, target = subject.split()
    return list(edge_keys(Edge(source=source, target=target, relation=relation, at=0)))  # type: ignore[arg-type]


def _find_edge(at: Snapshot, subject: str) -> Edge | None:
    source, relation, target = subject.split()
    return next((e for e in at.edges(source) if (e.source, e.relation, e.target) == (source, relation, target)), None)


def _skip_keys(subject: str) -> list[bytes]:
    file, digest = subject.split()
    return [id_key(file) + digest.encode()]


def _find_skip(at: Snapshot, subject: str) -> Skip | None:
    file, digest = subject.split()
    return Skip(file=file, hash=digest) if digest in at.skips(file) else None


def _find_meta(at: Snapshot, subject: str) -> tuple[str, str] | None:
    facts = at.metas()
    return (subject, facts[subject]) if subject in facts else None


TABLE_DIFFS: dict[str, TableDiff] = {account.table: account for account in (
    TableDiff(
        "changes", _steps(lambda at, after, limit: at.entries(after, limit), lambda row: row[0], 0),
        lambda row: str(row[0]), lambda subject: [seq_key(int(subject))],
        lambda row: codec.encode(row[1]), _find_entry,
    ),
    TableDiff(
        "memories", _steps(lambda at, after, limit: at.records(after, limit), lambda row: row.memory.id, ""),
        lambda row: row.memory.id, _one_id, lambda row: seq_key(row.seq) + codec.encode(row.memory),
        lambda at, subject: at.stored(subject),
    ),
    TableDiff(
        "versions", _versions, lambda row: f"{row.memory.id} {row.seq}", _version_key,
        lambda row: codec.encode(row.memory), _find_version,
    ),
    TableDiff(
        "usage", _steps(lambda at, after, limit: at.usages(after, limit), lambda row: row.id, ""),
        lambda row: row.id, _one_id, codec.encode, lambda at, subject: at.usage(subject),
    ),
    TableDiff(
        "trash", _steps(lambda at, after, limit: at.trash_entries(after, limit), lambda row: row.id, ""),
        lambda row: row.id, _one_id, codec.encode, lambda at, subject: at.trash(subject),
    ),
    TableDiff(
        "edges", _steps(lambda at, after, limit: at.edges_after(after, limit), lambda row: row, None),
        lambda row: f"{row.source} {row.relation} {row.target}", _edge_subject_keys, codec.encode, _find_edge,
    ),
    TableDiff(
        "notes", _steps(lambda at, after, limit: at.notes(after, limit), lambda row: row.id, ""),
        lambda row: row.id, _one_id, codec.encode, lambda at, subject: at.note(subject),
    ),
    TableDiff(
        "roots", _roots, lambda row: row.id, _one_id, codec.encode,
        lambda at, subject: next((root for root in at.roots() if root.id == subject), None),
    ),
    TableDiff(
        "skips", _steps(lambda at, after, limit: at.skips_after(after, limit), lambda row: row, None),
        lambda row: f"{row.file} {row.hash}", _skip_keys, lambda _: b"\1", _find_skip,
    ),
    TableDiff(
        "forgotten", _steps(lambda at, after, limit: at.forgotten_after(after, limit), lambda row: row.hash, ""),
        lambda row: row.hash, lambda subject: [subject.encode()], codec.encode,
        lambda at, subject: at.forgotten(subject),
    ),
    TableDiff(
        "meta", _metas, lambda row: row[0], lambda subject: [subject.encode()], lambda row: row[1].encode(),
        _find_meta,
    ),
)}  # fmt: skip
