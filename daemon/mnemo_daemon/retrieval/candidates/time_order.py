"""The order of events that a question asks for: "when did I last …", "the first time that …". SPEC 7.5a

Ranking finds the memories of such events, but not the last of them, as all are alike. So those that the ranking scores
nearly as high as its best, and that tell of an event, come first, in the order of time.
"""

import numpy as np

from mnemo_core.retrieval.time_placement import order_events
from mnemo_core.text.dates.question_times import tells_of_event
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.context import RecallContext
from mnemo_store.store import Store

COMPARED = 30  # of the best by their scores, whose texts are read


class TimeOrder:
    """Puts the events that a question is about in order."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def arrange(self, context: RecallContext) -> None:
        """Move the events to the front of the ranked rows, as `ordered` of the time."""
        timed, corpus = context.timed, context.corpus
        if timed is None or not timed.time.order:
            return
        rows = np.array(context.rows[:COMPARED], np.intp)
        numbers = context.found.numbers[rows]
        if timed.time.has_interval:
            rows = rows[timed.is_inside(numbers)]
            numbers = context.found.numbers[rows]
        matches = self._views.lexical.matches(context.found.terms, numbers)
        covered = (matches.weights @ matches.holds) / max(float(matches.weights.sum()), 1e-9)
        with self._store.snapshot() as snapshot:
            memories = [corpus.memory(snapshot, number) for number in numbers.tolist()]
        tells = np.array([each is not None and tells_of_event(each.content) for each in memories], np.bool_)
        at = timed.at[np.searchsorted(timed.numbers, numbers)]
        is_last_first, now = timed.time.order == "last", context.question.filter.now
        chosen = order_events(context.scored.scores[rows], covered, tells, at, now, is_last_first=is_last_first)
        first = rows[chosen].tolist()
        context.rows = first + [row for row in context.rows if row not in set(first)]
        context.timed = timed._replace(ordered=numbers[chosen])
