"""The trash: where memories go whose time is over, and how all or the oldest of them are dropped. SPEC 3.7

The record, versions, usage and edges of a memory are deleted. Its text may be remembered again, and old bytes of it
stay in files until they are overwritten; an erasure removes every trace.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from mnemo_client.protocol.memories import EmptyTrashAnswer
from mnemo_core.ingest import erasure, mutations
from mnemo_core.ingest.session_records import SessionScope, scope_of
from mnemo_core.text.dates.local_days import DAY_MS
from mnemo_daemon.history_names import BY_EXPIRY, BY_TRASH, EMPTY_TRASH, EXPIRE
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.maintenance import hard_delete
from mnemo_daemon.maintenance.hard_delete import ChangeOrigin, HardDelete
from mnemo_daemon.table_walk import walk
from mnemo_store.backend import Snapshot
from mnemo_store.errors import ClosedStoreError
from mnemo_store.progress import Progress, unreported
from mnemo_store.records import STATES, Change, Memory, TrashEntry
from mnemo_store.store import Store, WriteResult

DISCARDED_DAYS = 30  # memories that ingestion rejected are kept so long [SPEC 3.7]
DELETED_PER_SLICE = 1000  # memories: each slice reads once which memories name another

log = logging.getLogger("mnemo.trash")

WHY = "expired"  # the reason that the trash shows
EXPIRED_PER_WRITE = 200  # memories; with their places in the trash that stays below 500 changes [SPEC 3.2]


_LEFT_ALONE = ("trashed", "discarded")  # in the trash already, or on its way out of the store


class Trash:
    """The service. Its methods wait for the disk and run on a thread."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._hard_delete = HardDelete(store)

    def empty(
        self, namespaces: Sequence[str], by: str, user_id: str = "local", *, confirm: bool,
        is_stopping: Callable[[], bool] = lambda: False, progress: Progress = unreported,
    ) -> EmptyTrashAnswer:  # fmt: skip
        """Delete what is in the user's trash in these namespaces (none named: all); without `confirm` only count it.

        Raises ClosedStoreError between two slices when the daemon stops."""
        ids: list[str] = []
        size = 0
        progress("reading the trash", lambda: len(ids), 0)
        for memory, _ in self.trashed():
            if memory.user_id == user_id and (not namespaces or memory.namespace in namespaces):
                ids.append(memory.id)
                size += len(memory.content.encode())
        if confirm:
            self._delete(ids, by, is_stopping, progress)
        return EmptyTrashAnswer(dropped=len(ids), bytes=size, dry_run=not confirm)

    def run_retention_slice(self, keep_days: int) -> bool:
        """Delete up to DELETED_PER_SLICE memories that have been in the trash for more than keep_days (0: any time),
        or were discarded 30 days ago; return whether there are more."""
        now = self._store.now()
        ids = []
        if keep_days:
            ids = [memory.id for memory, entry in self.trashed() if entry.at < now - keep_days * DAY_MS]
        columns = self._views.attributes
        states, modified_at = columns.columns("state", "modified_at")
        is_discarded = states == STATES.index("discarded")
        is_old = modified_at < now - DISCARDED_DAYS * DAY_MS
        ids += columns.ids(np.flatnonzero(is_discarded & is_old))
        if ids:
            self._delete(ids[:DELETED_PER_SLICE], BY_TRASH.name)
            log.info("%d memories left the trash for good: their time there was over", len(ids[:DELETED_PER_SLICE]))
        return len(ids) > DELETED_PER_SLICE

    def trashed(self) -> Iterator[tuple[Memory, TrashEntry]]:
        """Every memory in the trash."""
        slices = walk(
            self._store,
            lambda snapshot, *at: snapshot.trash_entries(*at),
            lambda snapshot, entries: [(snapshot.memory(entry.id), entry) for entry in entries],
        )
        rows = chain.from_iterable(slices)
        return ((memory, entry) for memory, entry in rows if memory is not None and memory.state == "trashed")

    def _delete(
        self, ids: Sequence[str], by: str, is_stopping: Callable[[], bool] = lambda: False,
        progress: Progress = unreported,
    ) -> None:  # fmt: skip
        """Drop these; a memory restored in the meantime stays."""
        plan = erasure.plan_without_derived(ids, self._hard_delete.relations())
        origin = ChangeOrigin(EMPTY_TRASH, by, self._store.new_id())
        progress("deleting", 0, len(ids))
        slices = self._hard_delete.execute(
            plan, origin, hard_delete.drop, lambda memory: memory.state in ("trashed", "discarded")
        )
        turns: dict[SessionScope, Memory] = {}  # one of each session
        for number, versions in enumerate(slices, start=1):
            turns |= {scope_of(memory): memory for memory in versions if memory.turn is not None}
            progress("deleting", number * hard_delete.DELETED_PER_WRITE, len(ids))
            if is_stopping():
                raise ClosedStoreError("the daemon is shutting down: empty the trash again for what is left of it")
        self._hard_delete.drop_sessions([*turns.values()], origin)


class Expiry:
    """The service. `run_slice` waits for the disk and runs on a thread."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def run_slice(self) -> bool:
        """Move up to EXPIRED_PER_WRITE memories to the trash; return whether there are more."""
        columns = self._views.attributes
        expires_at, states = columns.columns("expires_at", "state")
        has_expired = (expires_at > 0) & (expires_at <= self._store.now())
        numbers = np.flatnonzero(has_expired & ~np.isin(states, [STATES.index(state) for state in _LEFT_ALONE]))
        if not len(numbers):
            return False
        ids = columns.ids(numbers[:EXPIRED_PER_WRITE])

        def decide(snapshot: Snapshot) -> WriteResult[int]:
            changes: list[Change] = []
            expired = [memory for each in ids if (memory := snapshot.memory(each)) and _is_over(memory, snapshot.now)]
            for memory in expired:
                changes += mutations.move_to_trash(memory, WHY, snapshot.now)
            return WriteResult(changes, len(expired), EXPIRE)

        count = self._store.transact(decide, by=BY_EXPIRY.name, background=True, frees=True).result().result
        log.info("%d memories have expired and went to the trash", count)
        return count > 0 and len(numbers) > EXPIRED_PER_WRITE


def _is_over(memory: Memory, now: int) -> bool:
    return mutations.has_expired(memory, now) and memory.state not in _LEFT_ALONE
