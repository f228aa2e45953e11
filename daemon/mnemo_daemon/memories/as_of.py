"""The store as it was at another time. SPEC 3.3, 7.1 `as_of`.

Memories that have not changed since are read from the columns, words and vectors of the present. The versions of the
others are put into columns of their own, so that every filter, order and score is the same function of other rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.versions import is_present, version_at
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.commit_indexes import shape_of, times_of
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.records import ChangeEntry, Memory
from mnemo_store.store import Store

HISTORY_FROM = "history_from"  # meta key of the beginning of the history: the first seq, and a time
VERSIONS_A_SLICE = 200  # memories whose versions are read under one snapshot


class HistoryStart(NamedTuple):
    """The first change whose history is kept, and the earliest time that can be asked for."""

    seq: int
    at: int


def history_start(snapshot: Snapshot) -> HistoryStart:
    """The beginning of the history: the first change of all, unless it was compacted."""
    kept = snapshot.meta(HISTORY_FROM).split()
    return HistoryStart(int(kept[0]), int(kept[1])) if kept else HistoryStart(1, 0)


class HistoricalState(NamedTuple):
    """The store after the transaction `seq`. The rows of `columns` are those of `memories`, from 0."""

    seq: int
    changed: NDArray[np.uint32]  # the numbers of all memories that have changed since, ascending
    columns: AttributeStore  # of the versions of those that existed
    memories: tuple[Memory, ...]  # these versions

    def unchanged(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The mask, by number, without the memories that have changed since."""
        mask = mask.copy()
        mask[self.changed[self.changed < len(mask)]] = False
        return mask

    def memory(self, snapshot: Snapshot, memory_id: str) -> Memory | None:
        """A memory as it was, None where it did not exist; also of one that changes at this moment."""
        memory = self.version(snapshot, memory_id)
        return memory if is_present(memory) else None

    def version(self, snapshot: Snapshot, memory_id: str) -> Memory | None:
        """A memory as it was, in the trash too; None where it did not exist."""
        stored = snapshot.stored(memory_id)
        if stored is None or stored.seq <= self.seq:
            return stored.memory if stored is not None else None
        return version_at(snapshot.versions(memory_id), self.seq)


class HistoryReader:
    """Reads the history. No snapshot is held for longer than a slice of it takes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def seq_at(self, at: int) -> int:
        """The last transaction, in the order of seqs, whose time is no later than `at`; 0 where there is none.

        A clock that was set back hides nothing: what was done before it was set back is included, with the rest.
        Raises a Refusal (422) where that is older than the history that is kept.
        """
        start = self._start()
        for seq, entry in self._newest_first():
            if seq < start.seq - 1:
                break
            if entry.at <= at:
                return seq
        if at < start.at:
            raise _history_compacted(start)
        return start.seq - 1

    def require_kept(self, seq: int) -> None:
        """Raise a Refusal (422) where the state after this transaction (0: before all) is older than the history that
        is kept."""
        start = self._start()
        if seq < start.seq - 1:
            raise _history_compacted(start)

    def _start(self) -> HistoryStart:
        with self._store.snapshot() as snapshot:
            return history_start(snapshot)

    def changes(self, after: int, until: int | None = None) -> Iterator[tuple[int, ChangeEntry]]:
        """The transactions after `after`, up to `until` (None: the last), the newest first."""
        for seq, entry in self._newest_first(until):
            if seq <= after:
                return
            yield seq, entry

    def state_at(self, at: int, without_tags: tuple[str, ...] = ()) -> HistoricalState:
        """The store as it was at a time (ms). Raises a Refusal (422) for a time before the history that is kept.

        Memories that have one of `without_tags` now are left out, whatever they had then: a caller that may not see
        them now may never see them.
        """
        seq = self.seq_at(at)
        ids = list(dict.fromkeys(memory_id for _, entry in self.changes(seq) for memory_id in entry.ids))
        hidden, columns = set(without_tags), AttributeStore()
        numbers: list[int] = []
        memories: list[Memory] = []
        for some in batched(ids, VERSIONS_A_SLICE):
            with self._store.snapshot() as snapshot:
                for memory_id in some:
                    number = snapshot.number(memory_id)
                    if number is None:  # its record was erased
                        continue
                    numbers.append(number)
                    versions = snapshot.versions(memory_id)
                    memory = version_at(versions, seq)
                    if memory is None or not is_present(memory) or not hidden.isdisjoint(versions[-1].memory.tags):
                        continue
                    usage = snapshot.usage(memory_id)
                    columns.put(len(memories), memory, usage, shape_of(memory), times_of(memory))
                    memories.append(memory)
        return HistoricalState(seq, np.array(sorted(numbers), np.uint32), columns, tuple(memories))

    def _newest_first(self, until: int | None = None) -> Iterator[tuple[int, ChangeEntry]]:
        top = self._store.seq if until is None else min(until, self._store.seq)
        while top > 0:
            with self._store.snapshot() as snapshot:
                rows = snapshot.entries(max(0, top - READ_SLICE), READ_SLICE)
            yield from ((seq, entry) for seq, entry in reversed(rows) if seq <= top)
            top -= READ_SLICE


def _history_compacted(start: HistoryStart) -> Refusal:
    when = np.datetime64(start.at, "ms").astype(str)  # of the change before the first that is kept
    message = f"the history begins after change {start.seq - 1} ({when}Z): ask for that time or a later one"
    return Refusal(422, "history_compacted", message)
