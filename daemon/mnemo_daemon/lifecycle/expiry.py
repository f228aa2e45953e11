"""Memories whose time is over go to the trash. SPEC 3.7"""

import logging

import numpy as np

from mnemo_core.ingest import mutations
from mnemo_daemon.history_names import BY_EXPIRY, EXPIRE
from mnemo_daemon.indexing.views import Views
from mnemo_store.backend import Snapshot
from mnemo_store.records import STATES, Change, Memory
from mnemo_store.store import Store, WriteResult

WHY = "expired"  # the reason that the trash shows
EXPIRED_PER_WRITE = 200  # memories; with their places in the trash that stays below 500 changes [SPEC 3.2]

log = logging.getLogger("mnemo.trash")

_LEFT_ALONE = ("trashed", "discarded")  # in the trash already, or on its way out of the store


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
