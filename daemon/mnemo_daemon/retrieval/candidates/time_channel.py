"""The time channel: the memories that lie in the time that a question names, and their order. SPEC 7.5a

Nothing of it runs for a question that names no time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval import time_placement
from mnemo_core.retrieval.time_placement import NEVER, TimeColumns, TimePlacement
from mnemo_core.text.dates.question_times import QuestionTime
from mnemo_daemon.retrieval.candidates.corpus import Corpus, Floats, Numbers, is_among
from mnemo_store.indexes.attributes import MINUTE_MS
from mnemo_store.records import KINDS, TRUSTS

JOINED_IN_ORDER = 100  # of what is inside, at least, where a question asks for nothing but the time
JOINED_NEAREST = 16  # of what is inside, by words and by vectors each, where it says what about

_EPISODIC = KINDS.index("episodic")
_PROCEDURAL = KINDS.index("procedural")
_AGENT = TRUSTS.index("agent")


class TimeMatch(NamedTuple):
    """The memories of a corpus as a question's time has them.

    numbers: of all in scope, ascending, with the placement of each. at: when each happened, ms. ordered: those that
    come first whatever their scores are, in their order, by number; for an order of events, once they have scores.
    """

    time: QuestionTime
    numbers: Numbers
    placement: TimePlacement
    at: NDArray[np.int64]
    ordered: Numbers
    before: int | None = None  # ms; with nothing inside, the last event before it
    after: int | None = None

    @property
    def inside(self) -> Numbers:
        return self.numbers[self.placement.is_inside]

    def is_inside(self, numbers: Numbers) -> NDArray[np.bool_]:
        """A mask of those that lie in the time."""
        return is_among(self.inside, numbers)

    def when(self, number: int) -> int:
        """The time at which one in scope happened, ms."""
        return int(self.at[np.searchsorted(self.numbers, number)])

    def place_of(self, number: int) -> tuple[bool | None, int | None]:
        """Return whether a memory lies inside, None without an interval, and the time that its text names, where it is
        inside by that alone."""
        place = int(np.searchsorted(self.numbers, number))
        if not self.time.has_interval or place == len(self.numbers) or self.numbers[place] != number:
            return (False if self.time.has_interval else None), None
        by_text = bool(self.placement.is_by_text[place])
        return bool(self.placement.is_inside[place]), int(self.placement.at[place]) if by_text else None

    def joins(self, words: Floats, sims: Floats) -> Numbers:
        """The numbers that become candidates: those in order, or the nearest of those inside. words, sims: of
        `inside`."""
        if self.time.is_only or self.time.order:
            return self.ordered
        inside, best = self.inside, list[NDArray[np.intp]]()
        for values in (words, np.nan_to_num(sims, nan=-1.0)):
            best.append(np.lexsort((inside, -values))[:JOINED_NEAREST])
        return inside[np.unique(np.concatenate(best))]


def match_time(time: QuestionTime, corpus: Corpus, wanted: int, *, newest_first: bool) -> TimeMatch:
    """The memories of the corpus by the time of a question; `wanted`: how many in order are asked for."""
    numbers = corpus.numbers
    kind, is_dated = corpus.column("kind", numbers), corpus.column("dated", numbers) > 0
    is_turn = corpus.is_one_of(
        "source", numbers, lambda columns: [columns.code("source", name) for name in ("turn", "proxy")]
    )
    names = ("told_from", "told_until", "named_from", "named_until")
    times = {name: corpus.column(name, numbers).astype(np.int64) * MINUTE_MS for name in names}
    if time.takes_ends:  # a named time without length is the last minute of one to end by
        times["named_until"] += MINUTE_MS * ((times["named_from"] == times["named_until"]) & (times["named_from"] > 0))
    event_at, created_at = corpus.column("event_at", numbers), corpus.column("created_at", numbers)
    is_said = corpus.column("speaker", numbers) > 0
    columns = TimeColumns(
        np.where(is_dated, event_at, NEVER),
        **times,
        weekdays=corpus.column("weekdays", numbers),
        # What somebody said with a time of its own is of that time, whatever its kind.
        is_event=(kind == _EPISODIC) | (corpus.column("managed", numbers) > 0) | (is_said & (event_at != created_at)),
        is_aside=((corpus.column("trust", numbers) == _AGENT) & is_turn) | (kind == _PROCEDURAL),
    )
    placement = time_placement.place_in_time(
        columns, corpus.column("words", numbers), time.begin, time.until, time.weekdays
    )
    if not time.has_interval:
        placement = placement._replace(is_inside=np.zeros(len(numbers), np.bool_))
    ordered = numbers[:0]
    if time.is_only:
        places = time_placement.order_in_time(placement, newest_first=newest_first, centre=time.centre)
        ordered = numbers[places[: max(JOINED_IN_ORDER, wanted)]]
    before, after = (None, None) if placement.is_inside.any() else _nearest(columns.event_at, time)
    return TimeMatch(time, numbers, placement, time_placement.event_times(columns), ordered, before, after)


def _nearest(event_at: NDArray[np.int64], time: QuestionTime) -> tuple[int | None, int | None]:
    """The last event before the interval, and the first one after it."""
    before = event_at[(event_at < time.begin) & (event_at > NEVER)] if time.begin is not None else event_at[:0]
    after = event_at[event_at >= time.until] if time.until is not None else event_at[:0]
    return int(before.max()) if len(before) else None, int(after.min()) if len(after) else None
