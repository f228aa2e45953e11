"""Superseded and compressed memories whose replacement is gone: in the trash, expired or erased. SPEC 7.2"""

import functools

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.compression import SUMMARY_SOURCE
from mnemo_core.lifecycle.profiles import PROFILE_SOURCE
from mnemo_core.lifecycle.versions import GONE, HIDING, Read, is_replaced, names_no_replacement
from mnemo_daemon.memories.as_of import HistoricalState
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import STATES, Memory
from mnemo_store.store import Store

SUMMARY_SOURCES = (SUMMARY_SOURCE, PROFILE_SOURCE)  # of the memories that stand in the place of compressed ones

_GONE_CODES = [STATES.index(state) for state in sorted(GONE)]
_UNKNOWN = -1  # the number of a replacement that has to be looked up by its record

Numbers = NDArray[np.intp]


class Replacements:
    """Finds the hidden memories that have no replacement any more. A record is read once for every change of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.on_row_ids_reset(self._forget)
        self._forget()

    def _forget(self) -> None:
        # By number: the number of the replacement, and the time of the version that names it; 0: not read yet.
        self._known: tuple[Numbers, NDArray[np.int64]] = np.empty(0, np.intp), np.empty(0, np.int64)

    def revealed(self, wanted: MemoryFilter, columns: AttributeStore) -> Numbers:
        """The numbers of the memories that pass the filter but for their state, and have no standing replacement."""
        hidden = _hidden(wanted, columns)
        if not len(hidden):
            return hidden
        replacements = self._replacements(hidden, columns)
        known = replacements != _UNKNOWN
        numbers = np.where(known, replacements, 0)
        states, expires = columns.values("state", numbers), columns.values("expires_at", numbers)
        stands = known & ~np.isin(states, _GONE_CODES) & ((expires == 0) | (expires > wanted.now))
        unsure: Numbers = hidden[~stands]
        if not len(unsure):
            return unsure
        with self._store.snapshot() as snapshot:
            return _unreplaced(unsure, columns, snapshot.memory, wanted.now)

    def revealed_then(
        self, wanted: MemoryFilter, columns: AttributeStore, then: HistoricalState
    ) -> tuple[Numbers, Numbers]:
        """The same of another time: of what has not changed since, and of the rows of what has."""
        now, former = _hidden(wanted, columns), _hidden(wanted, then.columns)
        now = now[~np.isin(now, then.changed)]
        with self._store.snapshot() as snapshot:
            read = functools.partial(then.version, snapshot)
            return _unreplaced(now, columns, read, wanted.now), _unreplaced(former, then.columns, read, wanted.now)

    def _replacements(self, hidden: Numbers, columns: AttributeStore) -> Numbers:
        """The number of the memory that each of the hidden ones names as its replacement."""
        size, (replacements, read_at) = columns.size, self._known
        if len(replacements) < size:
            new = size - len(replacements)
            replacements = np.append(replacements, np.full(new, _UNKNOWN, np.intp))
            read_at = np.append(read_at, np.zeros(new, np.int64))
        modified_at = columns.values("modified_at", hidden)
        is_stale = read_at[hidden] != modified_at
        stale = hidden[is_stale]
        if len(stale):
            replacements, read_at = replacements.copy(), read_at.copy()  # other questions read the arrays meanwhile
            replacements[stale] = self._read(stale, columns, size)
            read_at[stale] = modified_at[is_stale]
        self._known = replacements, read_at
        found: Numbers = replacements[hidden]
        return found

    def _read(self, numbers: Numbers, columns: AttributeStore, size: int) -> list[int]:
        with self._store.snapshot() as snapshot:
            memories = [snapshot.memory(each) for each in columns.ids(numbers)]
            names = [each.superseded_by if each is not None else "" for each in memories]
            found = [snapshot.number(name) if name else None for name in names]
        return [_UNKNOWN if number is None or number >= size else number for number in found]


def _hidden(wanted: MemoryFilter, columns: AttributeStore) -> Numbers:
    """The superseded or compressed memories that pass the filter otherwise, where it does not ask for them."""
    states = tuple(state for state in HIDING if state not in wanted.states)
    if not states or "active" not in wanted.states:
        return np.empty(0, np.intp)
    return np.flatnonzero(columns.mask(wanted._replace(states=states)))


def _unreplaced(numbers: Numbers, columns: AttributeStore, read: Read, now: int) -> Numbers:
    if not len(numbers):
        return numbers
    memories = [read(each) for each in columns.ids(numbers)]
    summaries: list[Memory] = []
    if any(memory is not None and names_no_replacement(memory) for memory in memories):
        codes = [columns.code("source", source) for source in SUMMARY_SOURCES]
        rows = np.flatnonzero(np.isin(columns.column("source"), codes))
        summaries = [summary for each in columns.ids(rows) if (summary := read(each)) is not None]
    pairs = zip(numbers.tolist(), memories, strict=True)
    found = [n for n, memory in pairs if memory is not None and not is_replaced(memory, read, summaries, now)]
    return np.array(found, np.intp)
