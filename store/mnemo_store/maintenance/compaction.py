"""Database and journal written anew: smaller, or without what must leave no trace. SPEC 3.3, 3.7, FORMAT.md.

LMDB and the journal only ever add; what was changed or dropped stays in free pages and old lines. Writing both anew is
the only way to be rid of it. All of this runs alone on the writer thread (`Store.maintain`): writes wait, reads go on,
and every step that is cut short leaves a store that is whole.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import lmdb

from mnemo_store.codec import decode_memory, digest_key, seq_of
from mnemo_store.database.environment import DATABASE_FILE, Database, is_full
from mnemo_store.errors import StoreCorruption, StoreError, StoreNotEmpty, UnknownOutcome
from mnemo_store.journal import dump
from mnemo_store.records import embedded_text, text_hash
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.tables import TABLES, TableRow, TableSnapshot, TableWriter

ROWS = 5000  # copied in one commit

RowFilter = Callable[[str, TableRow], bool]  # of a table and a row: whether it goes along


class CompactionSizes(NamedTuple):
    """Bytes on the disk, before and after."""

    database_before: int
    database: int
    journal_before: int
    journal: int


def compact(keeper: StateSupervisor, oldest: int, spaces: Sequence[str] | None) -> CompactionSizes:
    """Writes database and journal anew with what answers for every moment from the change `oldest` on, and the vectors
    of these spaces for texts that some memory has (None: all vectors); the rest is given up.

    Raises Damaged while the journal stands in for the database; what the disk refuses is raised with nothing changed.
    """
    _database_of(keeper)
    before = _sizes(keeper)
    try:
        _write_database(keeper, oldest, spaces)
        rewrite_journal(keeper)
    except (OSError, lmdb.Error, StoreError) as error:
        if not (is_full(error) and keeper.reserve.release()):
            raise
        _write_database(keeper, oldest, spaces)
        rewrite_journal(keeper)
    keeper.is_compaction_unfinished = False
    after = _sizes(keeper)
    return CompactionSizes(before[0], after[0], before[1], after[1])


def _write_database(keeper: StateSupervisor, oldest: int, spaces: Sequence[str] | None) -> None:
    database = _database_of(keeper)
    with keeper.new_database() as target:
        _copy(keeper, database, target, _kept(keeper, database, oldest, spaces))
    keeper.is_compaction_unfinished = True
    keeper.swap_in_database()


def rewrite_journal(keeper: StateSupervisor) -> None:
    """From the database: a snapshot plus the kept versions. What stood in older segments alone is gone."""
    keeper.rewrite_journal(_database_of(keeper))


def install_dump(keeper: StateSupervisor, rows: Iterable[dump.DumpRow]) -> None:
    """Takes over a whole stream, exactly: seqs, versions, numbers, history.

    Raises NotEmpty where the store holds something, and whatever the stream is refused with, nothing changed. What the
    disk refuses may be done all the same: the store is then `broken` until it has read what stands there.
    """
    database = _database_of(keeper)
    with database.snapshot(keeper.now()) as here:
        if here.count() or here.notes(limit=1):
            raise StoreNotEmpty("only an empty store can take over a whole stream")
    before, salt = database.end, keeper.manifest.salt
    try:
        with keeper.new_database() as target:
            target.write(keeper.now(), lambda writing: dump.load(rows, writing))
            keeper.take_ownership(target)
            keeper.rewrite_journal(target)  # from here on a start would load it, should the next line not be reached
        keeper.swap_in_database()
    except BaseException as error:
        keeper.manifest.salt = keeper.journal.salt = salt
        if isinstance(error, UnknownOutcome) or keeper.journal.last != before:  # what is written now would not count
            keeper.broken = UnknownOutcome(f"the stream may have been taken over: {error}")
        raise
    keeper.row_id_resets += 1


def put_vectors(keeper: StateSupervisor, rows: Sequence[TableRow]) -> None:
    """Rows of the table of embeddings, from another database of the same format."""

    def act(writing: TableWriter) -> None:
        for row in rows:
            writing.put_row("embeddings", row)

    _database_of(keeper).write(keeper.now(), act)


def _database_of(keeper: StateSupervisor) -> Database:
    if not isinstance(keeper.state, Database):
        raise StoreCorruption(f"this needs the database, which is out of order: {keeper.degraded or keeper.broken}")
    return keeper.state


def _kept(keeper: StateSupervisor, database: Database, oldest: int, spaces: Sequence[str] | None) -> RowFilter:
    versions: set[bytes] = set()  # id and seq of the earlier versions that are kept
    entries: set[int] = set()  # seqs that made a version that is kept
    vectors: set[bytes] = set()
    for key, content in _versions(keeper, database, oldest):
        versions.add(key)
        entries.add(seq_of(key[16:]))
        digest = text_hash(content)
        vectors.update(digest_key(space, digest) for space in spaces or ())

    def keep(table: str, row: TableRow) -> bool:
        match table:
            case "versions":
                return row.key in versions
            case "changes":
                return seq_of(row.key) >= oldest or seq_of(row.key) in entries
            case "embeddings":
                return spaces is None or row.key in vectors
            case _:
                return True

    return keep


def _versions(keeper: StateSupervisor, database: Database, oldest: int) -> Iterator[tuple[bytes, str]]:
    """Id and seq, and embedded text, of the current records and of the versions that were current at `oldest` or
    since."""
    with database.table_snapshot(keeper.now()) as here:
        for row in here.all_rows("memories"):
            yield row.key + row.value[:8], embedded_text(decode_memory(row.value[8:]))
        following: TableRow | None = None
        for row in here.all_rows("versions"):
            if following is not None:
                yield from _if_kept(here, following, row, oldest)
            following = row
        if following is not None:
            yield from _if_kept(here, following, None, oldest)


def _if_kept(here: TableSnapshot, row: TableRow, after: TableRow | None, oldest: int) -> Iterator[tuple[bytes, str]]:
    """A version is kept if the one behind it was made by `oldest` or later."""
    if after is not None and after.key[:16] == row.key[:16]:
        next_seq = seq_of(after.key[16:])
    else:
        current = here.row("memories", row.key[:16])
        next_seq = seq_of(current[:8]) if current else 0
    if next_seq >= oldest:
        yield row.key, embedded_text(decode_memory(row.value))


def _copy(keeper: StateSupervisor, source: Database, target: Database, keep: RowFilter) -> None:
    """Row by row and in order, so that no page of the copy has ever held anything else."""
    with source.table_snapshot(keeper.now()) as here:
        for table in TABLES:
            for rows in _slices(row for row in here.all_rows(table) if keep(table, row)):
                target.write(keeper.now(), _appending(table, rows))


def _appending(table: str, rows: Sequence[TableRow]) -> Callable[[TableWriter], None]:
    return lambda writing: writing.append_rows(table, rows)


def _slices(rows: Iterator[TableRow]) -> Iterator[list[TableRow]]:
    pending: list[TableRow] = []
    for row in rows:
        pending.append(row)
        if len(pending) >= ROWS:
            yield pending
            pending = []
    if pending:
        yield pending


def _sizes(keeper: StateSupervisor) -> tuple[int, int]:
    return (keeper.database_folder / DATABASE_FILE).stat().st_blocks * 512, keeper.journal.size()
