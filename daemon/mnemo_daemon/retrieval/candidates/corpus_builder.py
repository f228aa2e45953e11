"""Builds the corpus of a question: the memories that pass its filter. SPEC 7.1, 7.2"""

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.replacements import HIDING
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.retrieval.candidates.corpus import AsOfCorpus, Corpus, Mask
from mnemo_daemon.retrieval.candidates.replacements import Replacements
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.store import Store

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
    """Read-only mask of the filter and of the rule for kind `working`: only in its own session, without one for 24
    hours. SPEC 7.2"""
    wanted = question.filter
    mask = columns.mask(wanted)
    if wanted.kinds and "working" not in wanted.kinds:
        return mask
    working = np.flatnonzero(columns.mask(wanted._replace(kinds=("working",))))
    working = working[working < len(mask)]
    if not len(working):
        return mask
    sessions, created_at = columns.values("session_id", working), columns.values("created_at", working)
    is_own = columns.mask(wanted._replace(session_id=question.working_session or "\0"))[working]
    is_fresh = created_at > wanted.now - WORKING_HOURS * 3_600_000
    is_homeless = (sessions == 0) & (is_fresh | question.working_any)
    return columns.exclude(mask, working[~(is_own | is_homeless)])
