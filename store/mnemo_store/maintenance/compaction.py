"""Compaction: rewrites database and journal, to make them smaller, to erase data, or to empty the store. SPEC 3.3, 3.7,
13, store/docs/format.md.

LMDB and the journal only add; what was changed or deleted stays in free pages and old lines, and only rewriting both
removes it. All of this runs alone on the writer thread (`Store.run_exclusively`): writes wait, reads go on, and an
interruption at any step leaves a complete store.

A reset makes a database with nothing but the store's identity, the watched folders and the hashes of erased texts next
to the open one, which takes its place by one rename; the journal is rewritten from it. The new database says that
history begins with the change that announced the reset, so a start after a crash between the two finishes the
rewriting, as after a compaction: at any step either the whole old store or the empty one is there.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import lmdb

from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.codec import decode_memory, digest_key, seq_of
from mnemo_store.database.environment import Database, is_full
from mnemo_store.database.table_access import TableRow, TableSnapshot, TableWriter
from mnemo_store.errors import StoreError, StoreNotEmpty, UnknownOutcome
from mnemo_store.journal import dump
from mnemo_store.progress import Progress, unreported
from mnemo_store.record_texts import embedded_text, pair_text, text_hash
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.tables import BOOKKEEPING, CHANGES, EMBEDDINGS, FORGOTTEN, META, ROOTS, TABLE_NAMES, TURN_PAIRS, UNDONE

ROWS = 5000  # copied in one commit
ROWS_REPORTED = 500  # between two reports of the progress

RowFilter = Callable[[str, TableRow], bool]  # of a table and a row: True if it is copied

VIEWS_FOLDER = "views"


class CompactionSizes(NamedTuple):
    """Bytes on the disk before and after."""

    database_before: int
    database: int
    journal_before: int
    journal: int


def compact(
    supervisor: StateSupervisor, oldest: int, spaces: Sequence[str] | None, progress: Progress = unreported
) -> CompactionSizes:
    """Rewrites database and journal with everything that is needed for any time from the change `oldest` on, and with
    the vectors of these spaces for texts that a memory or a pair of turns has (None: all vectors). The rest is removed.

    Raises StoreCorruption while the journal stands in for the database, and errors of the disk with nothing changed.
    """
    before = _sizes(supervisor)
    try:
        _compact_once(supervisor, oldest, spaces, progress)
    except (OSError, lmdb.Error, StoreError) as error:
        if not (is_full(error) and supervisor.reserve.release()):
            raise
        _compact_once(supervisor, oldest, spaces, progress)
    after = _sizes(supervisor)
    return CompactionSizes(before[0], after[0], before[1], after[1])


def _compact_once(supervisor: StateSupervisor, oldest: int, spaces: Sequence[str] | None, progress: Progress) -> None:
    database = supervisor.database()
    progress("reading the history", 0, 0)
    with supervisor.files.new_database() as target:
        copy_rows(supervisor, database, target, _kept(supervisor, database, oldest, spaces), progress)
    with supervisor.journal_rewrite_pending():
        supervisor.swap_in_new_database()
        progress("rewriting the journal", 0, 0)
        rewrite_journal(supervisor)


def rewrite_journal(supervisor: StateSupervisor) -> None:
    """Rewrites the journal from the database as a snapshot with the kept versions. Older segments are removed."""
    supervisor.rewrite_journal(supervisor.database())


def install_dump(supervisor: StateSupervisor, rows: Iterable[dump.DumpRow]) -> None:
    """Loads a complete dump into an empty store, exactly: seqs, versions, numbers, history.

    Raises StoreNotEmpty where the store holds something, and errors of the dump, with nothing changed. After an error
    of the disk the dump may be there all the same: the store takes no writes until a recovery has read what is there.
    """
    database = supervisor.database()
    with database.snapshot(supervisor.now()) as here:
        if not is_empty(here):
            raise StoreNotEmpty("only an empty store can load a complete dump")
    before, salt = database.end, supervisor.manifest.salt
    try:
        with supervisor.files.new_database() as target:
            target.write(supervisor.now(), lambda writing: dump.load(rows, writing))
            supervisor.files.take_ownership(target)
            supervisor.rewrite_journal(target)  # from here on any start would load it
        supervisor.swap_in_new_database()
    except BaseException as error:
        supervisor.manifest.salt = supervisor.journal.salt = salt
        if isinstance(error, UnknownOutcome) or supervisor.journal.last != before:  # a line written now would be void
            supervisor.record_failure(UnknownOutcome(f"the dump may have been loaded: {error}"))
        raise
    supervisor.report_row_ids_reset()


def is_empty(here: Snapshot) -> bool:
    """Return whether nothing would be lost if the store were replaced: no memory, note or record that undo knows."""
    written = any(here.scan(table, limit=1) for table in UNDONE if table is not META)
    return not (written or here.count() or here.notes(limit=1))


def put_vectors(supervisor: StateSupervisor, rows: Sequence[TableRow]) -> None:
    """Puts rows of the table of embeddings from another database of the same format."""
    supervisor.database().write(supervisor.now(), lambda writing: writing.put_rows(EMBEDDINGS, rows))


def _kept(supervisor: StateSupervisor, database: Database, oldest: int, spaces: Sequence[str] | None) -> RowFilter:
    versions: set[bytes] = set()  # id and seq of the earlier versions that are kept
    entries: set[int] = set()  # seqs that made a version that is kept
    vectors: set[bytes] = set()
    for key, content in _versions(supervisor, database, oldest):
        versions.add(key)
        entries.add(seq_of(key[16:]))
        digest = text_hash(content)
        vectors.update(digest_key(space, digest) for space in spaces or ())
    for digest in _pair_hashes(supervisor, database):
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


def _versions(supervisor: StateSupervisor, database: Database, oldest: int) -> Iterator[tuple[bytes, str]]:
    """Id with seq, and embedded text, of the current records and of the versions that were current at `oldest` or
    later."""
    with database.table_snapshot(supervisor.now()) as here:
        for row in here.all_rows("memories"):
            yield row.key + row.value[:8], embedded_text(decode_memory(row.value[8:]))
        for version, following in pairwise(chain(here.all_rows("versions"), [None])):
            if version is not None and _replaced_at(here, version, following) >= oldest:
                yield version.key, embedded_text(decode_memory(version.value))


def _pair_hashes(supervisor: StateSupervisor, database: Database) -> Iterator[bytes]:
    """The hash of the text of each pair of turns."""
    with database.snapshot(supervisor.now()) as here:
        for pair in here.scan(TURN_PAIRS, limit=here.size(TURN_PAIRS)):
            if turns := here.turns_of(pair):
                yield text_hash(pair_text(turns))


def _replaced_at(here: TableSnapshot, version: TableRow, following: TableRow | None) -> int:
    """The seq of the version or record that replaced a version; 0 where there is none."""
    if following is not None and following.key[:16] == version.key[:16]:
        return seq_of(following.key[16:])
    current = here.row("memories", version.key[:16])
    return seq_of(current[:8]) if current else 0


def copy_rows(
    supervisor: StateSupervisor, source: Database, target: Database, keep: RowFilter, progress: Progress = unreported
) -> None:
    """Copies row by row and in order, so that no page of the copy has ever held anything else."""
    with source.table_snapshot(supervisor.now()) as here:
        total = sum(map(here.row_count, TABLE_NAMES))
        read = itertools.count()

        def kept(table: str) -> Iterator[TableRow]:
            for row, number in zip(here.all_rows(table), read, strict=False):
                if number % ROWS_REPORTED == 0:
                    progress("rewriting the database", number, total)
                if keep(table, row):
                    yield row

        for table in TABLE_NAMES:
            for rows in batched(kept(table), ROWS):
                target.write(supervisor.now(), partial(TableWriter.append_rows, table=table, rows=rows))


def _sizes(supervisor: StateSupervisor) -> tuple[int, int]:
    return supervisor.files.path.stat().st_blocks * 512, supervisor.journal.size()


class ChangedSinceBackup(StoreError):
    """The store was changed after the backup that a reset relies on."""

    code = "conflict"
    hint = "try again when nothing writes to the store"


def reset(
    supervisor: StateSupervisor, announced: int, kept_facts: Iterable[str], history_from: str,
    progress: Progress = unreported,
) -> None:  # fmt: skip
    """Empties the store, whose last change must be the one that announced the reset. Raises ChangedSinceBackup.

    kept_facts: names of facts that stay, such as the models in use. history_from: the name of the fact that holds the
    beginning of the history.
    """
    database = supervisor.database()
    end = database.end[0]
    if end != announced:
        raise ChangedSinceBackup(f"the store was changed after its backup: it is at change {end}, not {announced}")
    facts = {name.encode() for name in (*BOOKKEEPING, *kept_facts)}

    def keep(table: str, row: TableRow) -> bool:
        if table == CHANGES.name:
            return seq_of(row.key) == announced
        return table in (ROOTS.name, FORGOTTEN.name) or (table == META.name and row.key in facts)

    with supervisor.files.new_database() as target:
        copy_rows(supervisor, database, target, keep, progress)
        beginning = TableRow(history_from.encode(), f"{announced} {supervisor.now()}".encode())
        target.write(supervisor.now(), lambda writing: writing.put_row(META.name, beginning))
    for file in (supervisor.folder / VIEWS_FOLDER).glob("*"):  # by their change they would fit the emptied store
        file.unlink(missing_ok=True)
    with supervisor.journal_rewrite_pending():
        supervisor.swap_in_new_database()
        rewrite_journal(supervisor)
    supervisor.report_row_ids_reset()
