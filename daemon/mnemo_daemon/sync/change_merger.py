"""The merge of entries of other devices into the store, and what follows from it. SPEC 21.2"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from mnemo_daemon.history_names import BY_SYNC, SYNC
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.record_texts import decision_digest
from mnemo_store.records import DropMemory, LifecycleDecision, PutDecision
from mnemo_store.replication.device_clock import OwnDevices
from mnemo_store.replication.merge import Divergence, MergeResult, adjust, lost_words, merge_entry
from mnemo_store.replication.shared_entry import CONFLICT_REASON, SharedEntry
from mnemo_store.store import Store, WriteReceipt, WriteResult

T = TypeVar("T")


class ChangeMerger:
    """The merge. One caller at a time, on a thread that may wait."""

    def __init__(self, store: Store, erase: Callable[[Sequence[str], str], object]) -> None:
        """`erase`: erases memories (whole ids) with every trace, for an author."""
        self._store = store
        self._erase = erase

    def merge(self, entries: Sequence[SharedEntry]) -> list[str]:
        """Merge entries in order; return the memories that they erase, also those that are not here."""
        erased = [
            each.id for entry in entries if entry.erases for each in entry.changes if isinstance(each, DropMemory)
        ]
        with self._store.snapshot() as snapshot:
            here = [memory_id for memory_id in erased if snapshot.stored(memory_id) is not None]
        if here:
            self._erase(here, BY_SYNC.name)
        writes = [self._transact(partial(_decide_merge, entry=entry), entry.by or BY_SYNC.name) for entry in entries]
        results = [write.result().result for write in writes]
        for result in results:
            for part in _parts(result):
                self._adjust(part)
            for divergence in result.divergences:
                self._propose(divergence)
        return erased

    def _transact(self, decide: Callable[[Snapshot], WriteResult[T]], by: str) -> "Future[WriteReceipt[T]]":
        return retry_while_full(lambda: self._store.transact(decide, by=by, background=True), time.sleep)

    def _adjust(self, part: MergeResult) -> None:
        """Makes the change that follows from a part of a merge, if any."""
        with self._store.snapshot() as snapshot:
            if not adjust(snapshot, part, OwnDevices.of(snapshot)):
                return

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            made = adjust(snapshot, part, OwnDevices.of(snapshot))
            if not made:
                return WriteResult((), None)
            return WriteResult(made[0].changes, None, made[0].what, clock=made[0].clock)

        self._transact(decide, BY_SYNC.name).result()

    def _propose(self, divergence: Divergence) -> None:
        """Proposes words that would be lost for review."""

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            own = OwnDevices.of(snapshot)
            lost, current = lost_words(snapshot, divergence, own), snapshot.memory(divergence.memory_id)
            if lost is None or current is None:
                return WriteResult((), None)
            proposal = LifecycleDecision(
                memory=current.id, action="merge", other=current.id, status="proposed", at=snapshot.now,
                digest=decision_digest([current.content]), text=lost.content,
                reason=f"{CONFLICT_REASON}edited on two devices; this is what the later edit replaced",
            )  # fmt: skip
            return WriteResult((PutDecision(data=proposal),), None, SYNC)

        self._transact(decide, BY_SYNC.name).result()


def _decide_merge(snapshot: Snapshot, entry: SharedEntry) -> WriteResult[MergeResult]:
    result = merge_entry(snapshot, entry, OwnDevices.of(snapshot))
    return WriteResult(
        result.changes, result, entry.what, entry.group, clock=entry.clock, device=entry.device, origin=entry.origin
    )


def _parts(result: MergeResult) -> Iterator[MergeResult]:
    """The result in parts that give one change each at most."""
    for divergence in result.divergences:
        yield MergeResult((), (divergence,))
    for arrived in result.arrived:
        yield MergeResult((), (), (arrived,))
