"""Builds the corpus of a question: the memories that pass its filter. SPEC 7.1, 7.2"""

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.versions import HIDING
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.retrieval.candidates.corpus import AsOfCorpus, Corpus, Mask
from mnemo_daemon.retrieval.candidates.replacements import Replacements
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.store import Store

_NO_NUMBERS = np.empty(0, np.intp)
WORKING_HOURS = 24  # how long a memory of kind `working` without a session is recalled. SPEC 7.2


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
