"""Builds the corpus of a question: the memories that pass its filter, and the superseded and compressed ones whose
replacement is gone: in the trash, expired or erased. SPEC 7.1, 7.2"""

import functools

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.versions import GONE, HIDING, Read, is_replaced, names_no_replacement
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.as_of import HistoricalState, HistoryReader
from mnemo_daemon.retrieval.candidates.corpus import AsOfCorpus, Corpus, Mask
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import PROFILE_SOURCE, STATES, SUMMARY_SOURCE, Memory
from mnemo_store.store import Store

_NO_NUMBERS = np.empty(0, np.intp)
WORKING_HOURS = 24  # how long a memory of kind `working` without a session is recalled. SPEC 7.2

SUMMARY_SOURCES = (SUMMARY_SOURCE, PROFILE_SOURCE)  # of the memories that stand in the place of compressed ones

_GONE_CODES = [STATES.index(state) for state in sorted(GONE)]
_UNKNOWN = -1  # the number of a replacement that has to be looked up by its record

Numbers = NDArray[np.intp]


class CorpusBuilder:
    """Builds corpora; of the present it keeps the last one, with what was worked out of it."""

    def __init__(self, store: Store, views: Views) -> None:
        self._views = views
        self._history = HistoryReader(store)
        self._replacements = Replacements(store)
        self._revealed: tuple[Mask, bytes, Mask] | None = None
        self._present: Corpus | None = None

    def build(self, question: Question) -> Corpus:
        """The corpus of the question. Raises a Refusal (422) for a time before the history that is kept."""
        columns, wanted = self._views.attributes, question.filter
        if question.as_of is None:
            mask = self._with_revealed(self._replacements.revealed(wanted, columns), question, columns)
            last = self._present
            if last is None or last.mask is not mask or last.columns is not columns:
                last = self._present = Corpus(mask, columns)
            return last
        then = self._history.state_at(question.as_of, wanted.without_tags)
        now_revealed, then_revealed = self._replacements.revealed_then(wanted, columns, then)
        mask = self._with_revealed(now_revealed, question, columns)
        allowed = self._with_revealed(then_revealed, question, then.columns)
        return AsOfCorpus(then.unchanged(mask), columns, then, allowed)

    def _with_revealed(self, revealed: NDArray[np.intp], question: Question, columns: AttributeStore) -> Mask:
        """The permitted memories, with those whose replacement is gone; the same object again for the same mask."""
        mask = permitted_mask(question, columns)
        if not len(revealed):
            return mask
        last, found = self._revealed, revealed.tobytes()
        if last is not None and last[0] is mask and last[1] == found:
            return last[2]
        states = (*question.filter.states, *HIDING)
        every = permitted_mask(question._replace(filter=question.filter._replace(states=states)), columns)
        wider = mask.copy()
        revealed = revealed[revealed < min(len(mask), len(every))]
        wider[revealed] = every[revealed]
        wider.flags.writeable = False
        self._revealed = mask, found, wider
        return wider


def permitted_mask(question: Question, columns: AttributeStore) -> Mask:
    """Read-only mask of the filter, without what it does not reach: of kind `working` the memories of another session,
    without one those of more than 24 hours; and questions and orders of conversations, which answer nothing, unless the
    question is about their session or category. SPEC 7.2, 7.5"""
    wanted = question.filter
    mask = columns.mask(wanted)
    out = np.concatenate((_working_elsewhere(question, columns, len(mask)), _requests(question, columns, len(mask))))
    return columns.exclude(mask, out)


def _working_elsewhere(question: Question, columns: AttributeStore, end: int) -> NDArray[np.intp]:
    wanted = question.filter
    if wanted.kinds and "working" not in wanted.kinds:
        return _NO_NUMBERS
    working = _numbers(columns, wanted._replace(kinds=("working",)), end)
    if not len(working):
        return working
    sessions, created_at = columns.values("session_id", working), columns.values("created_at", working)
    is_own = columns.mask(wanted._replace(session_id=question.working_session or "\0"))[working]
    is_fresh = created_at > wanted.now - WORKING_HOURS * 3_600_000
    is_homeless = (sessions == 0) & (is_fresh | question.working_any)
    elsewhere: NDArray[np.intp] = working[~(is_own | is_homeless)]
    return elsewhere


def _requests(question: Question, columns: AttributeStore, end: int) -> NDArray[np.intp]:
    wanted = question.filter
    if question.takes_requests or wanted.session_id is not None or wanted.categories:
        return _NO_NUMBERS
    asked = _numbers(columns, wanted._replace(categories=("request",)), end)
    is_turn: NDArray[np.bool_] = columns.values("tier", asked) != 0
    return np.compress(is_turn, asked)


def _numbers(columns: AttributeStore, wanted: MemoryFilter, end: int) -> NDArray[np.intp]:
    """The numbers, below `end`, of the memories that pass a filter."""
    return np.flatnonzero(columns.mask(wanted)[:end])


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
            with self._store.snapshot() as snapshot:
                memories = [snapshot.memory(each) for each in columns.ids(stale)]
                names = [each.superseded_by if each is not None else "" for each in memories]
                read = [snapshot.number(name) if name else None for name in names]
            replacements[stale] = [_UNKNOWN if number is None or number >= size else number for number in read]
            read_at[stale] = modified_at[is_stale]
        self._known = replacements, read_at
        found: Numbers = replacements[hidden]
        return found


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
