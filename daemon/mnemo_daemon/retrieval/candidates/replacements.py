"""Superseded and compressed memories whose replacement is gone: in the trash, expired or erased. SPEC 7.2"""

import functools

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.replacements import GONE, HIDING, Read, is_replaced
from mnemo_daemon.memories.as_of import HistoricalState
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import STATES
from mnemo_store.store import Store

SUMMARY_SOURCE = "compress"  # of the memories that stand in the place of compressed ones

_GONE_CODES = [STATES.index(state) for state in sorted(GONE)]
_UNKNOWN = -1  # the number of a replacement that has to be looked up by its record

Numbers = NDArray[np.intp]


class Replacements:
    """Finds the hidden memories that have no replacement any more. Their records are read once for every change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[tuple[bytes, bytes], Numbers] | None = None  # valid while none of the hidden ones changes

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
        key, known = (hidden.tobytes(), columns.values("modified_at", hidden).tobytes()), self._known
        if known is None or known[0] != key:
            with self._store.snapshot() as snapshot:
                memories = [snapshot.memory(each) for each in columns.ids(hidden)]
                numbers = [
                    snapshot.number(each.superseded_by) if each is not None and each.superseded_by else None
                    for each in memories
                ]
            size = columns.size
            found = [_UNKNOWN if number is None or number >= size else number for number in numbers]
            known = self._known = key, np.array(found, np.intp)
        return known[1]


def _hidden(wanted: MemoryFilter, columns: AttributeStore) -> Numbers:
    """The superseded or compressed memories that pass the filter otherwise, where it does not ask for them."""
    states = tuple(state for state in HIDING if state not in wanted.states)
    if not states or "active" not in wanted.states:
        return np.empty(0, np.intp)
    return np.flatnonzero(columns.mask(wanted._replace(states=states)))


def _unreplaced(numbers: Numbers, columns: AttributeStore, read: Read, now: int) -> Numbers:
    if not len(numbers):
        return numbers
    rows = np.flatnonzero(columns.column("source") == columns.code("source", SUMMARY_SOURCE))
    summaries = [summary for each in columns.ids(rows) if (summary := read(each)) is not None]
    memories = zip(numbers.tolist(), map(read, columns.ids(numbers)), strict=True)
    found = [n for n, memory in memories if memory is not None and not is_replaced(memory, read, summaries, now)]
    return np.array(found, np.intp)
