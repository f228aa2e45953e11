"""The store as it was at another time. SPEC 3.3, 7.1 `as_of`.

What has not changed since is read as it is now: from the columns, the words, the vectors, but for the numbers of what
has. Of what has changed since, the versions then are put into columns of their own, so that every filter, order and
score is the same function of other rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.versions import is_present, version_at
from mnemo_core.text import text_features
from mnemo_daemon.errors import Refusal
from mnemo_store.backend import READ_SLICE, Snapshot
from mnemo_store.batches import batched
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.records import ChangeEntry, Memory, Usage
from mnemo_store.store import Store

HISTORY_FROM = "history_from"  # the fact of the store that says where its history begins: the first seq, and a time
VERSIONS_A_SLICE = 200  # memories whose versions are read under one snapshot


class HistoryStart(NamedTuple):
    """The first change whose history is kept, and the earliest time that can be asked for."""

    seq: int
    at: int


def history_start(snapshot: Snapshot) -> HistoryStart:
    """The beginning of the history: the first change of all, unless it was compacted."""
    kept = snapshot.meta(HISTORY_FROM).split()
    return HistoryStart(int(kept[0]), int(kept[1])) if kept else HistoryStart(1, 0)


class SeqTime(NamedTuple):
    """After a transaction: its seq, and its time."""

    seq: int
    at: int


class HistoricalState(NamedTuple):
    """The store after the transaction `seq`. The rows of `columns` are those of `memories`, from 0."""

    seq: int
    changed: NDArray[np.uint32]  # the numbers of all memories that have changed since, ascending
    columns: AttributeStore  # what those of them that were there then were
    memories: tuple[Memory, ...]  # the same

    def unchanged(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The mask, which is by number, without what has changed since."""
        mask = mask.copy()
        mask[self.changed[self.changed < len(mask)]] = False
        return mask

    def memory(self, snapshot: Snapshot, memory_id: str) -> Memory | None:
        """A memory as it was, None where it was not there: read whole, for one that changes this very moment."""
        memory = self.version(snapshot, memory_id)
        return memory if is_present(memory) else None

    def version(self, snapshot: Snapshot, memory_id: str) -> Memory | None:
        """A memory as it was, in the trash too; None where nothing of it was known."""
        stored = snapshot.stored(memory_id)
        if stored is None or stored.seq <= self.seq:
            return stored.memory if stored is not None else None
        return version_at(snapshot.versions(memory_id), self.seq)


class HistoryReader:
    """Finds moments of the store's history. No snapshot is held for longer than a slice of it takes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def seq_at(self, at: int) -> int:
        """The last transaction, in the order of seqs, whose time is no later than `at`; 0 where there is none.

        So a clock that stepped back hides nothing that was done: what it was set back over is in, with the rest.
        Raises a Refusal (422) where that is older than the history that is kept.
        """
        oldest = self.oldest()
        for seq, entry in self._newest_first():
            if seq < oldest.seq:
                break
            if entry.at <= at:
                return seq
        if at < oldest.at:
            raise history_compacted(oldest)
        return oldest.seq

    def oldest(self) -> SeqTime:
        """The oldest transaction whose state can still be told; where nothing was given up, seq 0, before all."""
        with self._store.snapshot() as snapshot:
            start = history_start(snapshot)
        return SeqTime(start.seq - 1, start.at)  # the time is that of the change before the first that is kept

    def changes(self, after: int, until: int | None = None) -> Iterator[tuple[int, ChangeEntry]]:
        """The transactions behind `after`, up to `until` (None: the last), the newest first."""
        for seq, entry in self._newest_first(until):
            if seq <= after:
                return
            yield seq, entry

    def state_at(self, at: int, without_tags: tuple[str, ...] = ()) -> HistoricalState:
        """The store as it was at a time (ms). Raises a Refusal (422) where that is no longer known.

        What has one of `without_tags` now is left out, whatever it had then: who may not see it now never may.
        """
        seq = self.seq_at(at)
        ids = list(dict.fromkeys(memory_id for _, entry in self.changes(seq) for memory_id in entry.ids))
        numbers: list[int] = []
        memories: list[Memory] = []
        columns = AttributeStore()
        for some in batched(ids, VERSIONS_A_SLICE):
            with self._store.snapshot() as snapshot:
                for memory_id in some:
                    number = snapshot.number(memory_id)
                    if number is None:  # its record is gone for good
                        continue
                    numbers.append(number)
                    versions = snapshot.versions(memory_id)
                    memory = version_at(versions, seq)
                    if memory is None or not is_present(memory) or not _shows(versions[-1].memory, without_tags):
                        continue
                    usage = snapshot.usage(memory_id) or Usage(id=memory_id)
                    columns.put(len(memories), memory, usage, text_features.features_of_text(memory.content))
                    memories.append(memory)
        return HistoricalState(seq, np.array(sorted(numbers), np.uint32), columns, tuple(memories))

    def _newest_first(self, until: int | None = None) -> Iterator[tuple[int, ChangeEntry]]:
        top = self._store.seq if until is None else min(until, self._store.seq)
        while top > 0:
            with self._store.snapshot() as snapshot:
                rows = snapshot.entries(max(0, top - READ_SLICE), READ_SLICE)
            yield from ((seq, entry) for seq, entry in reversed(rows) if seq <= top)
            top -= READ_SLICE


def history_compacted(oldest: SeqTime) -> Refusal:
    """422: what was asked for lies before the history that is kept."""
    when = np.datetime64(oldest.at, "ms").astype(str)
    message = f"the history begins after change {oldest.seq} ({when}Z): ask for that time or a later one"
    return Refusal(422, "history_compacted", message)


def _shows(memory: Memory, without_tags: tuple[str, ...]) -> bool:
    return not any(tag in memory.tags for tag in without_tags)
