"""The publisher of commits: reports what each transaction touched to the listeners, which hold the indexes. SPEC 3.5"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import lmdb

from mnemo_store.backend import Snapshot, TouchedMemory
from mnemo_store.errors import StoreCorruption, StoreError
from mnemo_store.records import Change, ChangeEntry
from mnemo_store.recovery.supervisor import StateSupervisor

log = logging.getLogger("mnemo.store")


class Commit(NamedTuple):
    """A committed transaction as the indexes see it."""

    seq: int
    at: int  # ms
    touched: tuple[TouchedMemory, ...]
    changes: tuple[Change, ...] | None = None  # None: not known, of a transaction that a recovery found


class CommitPublisher:
    """Calls the listeners on the writer thread: in order, and with every transaction once."""

    def __init__(self, supervisor: StateSupervisor, now: Callable[[], int]) -> None:
        self.commit_listeners: list[Callable[[Commit], None]] = []
        self.reset_listeners: list[Callable[[], None]] = []
        self._supervisor = supervisor
        self._now = now
        self._published_seq = 0
        self._published_resets = 0

    def start(self) -> None:
        """Begins after the changes that the supervisor has recovered: listeners read those themselves."""
        self._published_seq = self._supervisor.active_state().end[0]
        self._published_resets = self._supervisor.row_id_resets

    def publish(self, commit: Commit) -> None:
        for listener in self.commit_listeners:
            listener(commit)

    def mark_published(self) -> None:
        """Notes that the listeners know every transaction there is."""
        if (backend := self._supervisor.backend) is not None:
            self._published_seq = backend.end[0]

    def publish_missed(self) -> None:
        """Publishes that row ids were reset, and the transactions that were answered with an unknown outcome and turned
        out to be there after a recovery."""
        supervisor = self._supervisor
        if self._published_resets != supervisor.row_id_resets and supervisor.failure is None:
            self._published_resets = supervisor.row_id_resets
            self._publish_reset()
        while (backend := supervisor.backend) is not None and self._published_seq < backend.end[0]:
            try:
                with backend.snapshot(self._now()) as snapshot:
                    missed = [_commit_of(snapshot, seq, entry) for seq, entry in snapshot.entries(self._published_seq)]
            except (lmdb.Error, StoreError, ValueError) as error:
                log.warning("commits cannot be published, all indexes are rebuilt: %s", error)
                if isinstance(error, lmdb.Error):
                    supervisor.recover(error)
                missed = []
            if not missed:
                self._publish_reset()
            for commit in missed:
                self.publish(commit)
                self._published_seq = commit.seq

    def _publish_reset(self) -> None:
        for listener in self.reset_listeners:
            listener()
        self.mark_published()  # who rebuilds an index reads everything


def _commit_of(snapshot: Snapshot, seq: int, entry: ChangeEntry) -> Commit:
    """The commit of an entry, with its memories as they are now. Raises StoreCorruption where one of them is gone, row
    id and all."""
    touched = []
    for memory_id in dict.fromkeys((*entry.ids, *entry.used)):
        number = snapshot.number(memory_id)
        if number is None:
            raise StoreCorruption(f"memory {memory_id} is gone")
        touched.append(TouchedMemory(number, snapshot.memory(memory_id), snapshot.usage(memory_id)))
    return Commit(seq, entry.at, tuple(touched))
