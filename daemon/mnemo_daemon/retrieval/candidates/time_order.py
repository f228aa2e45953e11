"""The order of events that a question asks for: "when did I last …", "the first time that …". SPEC 7.5a

Ranking finds the memories of such events, but not the last of them, as all are alike. So those that the ranking scores
nearly as high as its best, and that tell of an event, come first, in the order of time.
"""

import numpy as np

from mnemo_core.text.dates.question_times import tells_of_event
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.retrieval.context import RecallContext
from mnemo_store.store import Store

COMPARED = 30  # of the best by their scores [this and the next measured: tests/bench/bench_time_questions.py]
SHARE_MIN = 0.3  # of the best score
COVERED_WEIGHT = 2.0  # of the share of the question's words that a text holds, by their rarity
NO_EVENT_FACTOR = 0.1


class TimeOrder:
    """Puts the events that a question is about in order."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def arrange(self, context: RecallContext) -> None:
        """Move the events to the front of the ranked rows, as `ordered` of the time."""
        timed, corpus = context.timed, context.corpus
        if timed is None or not timed.time.order or not context.rows:
            return
        rows = np.array(context.rows[:COMPARED])
        numbers = context.found.numbers[rows]
        places = np.searchsorted(timed.numbers, numbers)
        at = timed.at[places]
        matches = self._views.lexical.matches(context.found.terms, numbers)
        covered = (matches.weights @ matches.holds) / max(float(matches.weights.sum()), 1e-9)
        scores = context.scored.scores[rows] * (1 + COVERED_WEIGHT * covered)
        with self._store.snapshot() as snapshot:
            memories = [corpus.memory(snapshot, number) for number in numbers.tolist()]
        tells = np.array([memory is not None and tells_of_event(memory.content) for memory in memories])
        scores = np.where(tells, scores, scores * NO_EVENT_FACTOR)
        can_be = (at <= context.question.filter.now) & (at > 0)
        if timed.time.has_interval:
            can_be &= timed.is_inside(numbers)
        if not can_be.any():
            return
        chosen = np.flatnonzero(can_be & (scores >= SHARE_MIN * scores[can_be].max()))
        keys = at[chosen] if timed.time.order == "first" else -at[chosen]
        chosen = chosen[np.lexsort((numbers[chosen], keys))]
        first = rows[chosen].tolist()
        context.rows = first + [row for row in context.rows if row not in set(first)]
        context.timed = timed._replace(ordered=numbers[chosen])
