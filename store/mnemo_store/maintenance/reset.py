"""Reset: empties a store in use, after a verified backup. SPEC 13, store/docs/format.md.

A database with nothing but the store's identity, the watched folders and the hashes of erased texts is made next to the
open one and takes its place by one rename; the journal is rewritten from it. The new database says that history begins
with the change that announced the reset, so a start after a crash between the two finishes the rewriting, as after a
compaction: at any step either the whole old store or the empty one is there.
"""

from collections.abc import Iterable

from mnemo_store.codec import seq_of
from mnemo_store.database.table_access import TableRow
from mnemo_store.errors import StoreError
from mnemo_store.maintenance.compaction import copy_rows, rewrite_journal
from mnemo_store.progress import Progress, unreported
from mnemo_store.recovery.supervisor import StateSupervisor
from mnemo_store.tables import BOOKKEEPING, CHANGES, FORGOTTEN, META, ROOTS

VIEWS_FOLDER = "views"


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
