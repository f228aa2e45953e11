"""Durations of answers as counts in bins that grow by a tenth, from which any quantile is known to 5%. SPEC 13

A day of answers is at most BINS numbers, and two days are added by adding their counts.
"""

import math
from collections.abc import Iterable, Mapping

LEAST_MS = 0.1  # what is faster is in the first bin
GROWTH = 1.1  # from a bin to the next
BINS = 160  # up to 6 minutes; what is slower is in the last one

Counts = Mapping[int, int]  # by bin


def add_times(counts: Counts, seconds: Iterable[float]) -> dict[int, int]:
    """The counts with these durations."""
    added = dict(counts)
    for each in seconds:
        place = _bin_of(each * 1000)
        added[place] = added.get(place, 0) + 1
    return added


def quantile_ms(counts: Counts, share: float) -> float | None:
    """The duration in ms that this share of the answers did not exceed, as the geometric middle of its bin; None of no
    answers. share: above 0, up to 1."""
    wanted = math.ceil(share * sum(counts.values()))
    for place in sorted(counts):
        wanted -= counts[place]
        if wanted <= 0:
            return float(LEAST_MS * GROWTH ** (place + 0.5))
    return None


def _bin_of(ms: float) -> int:
    return 0 if ms <= LEAST_MS else min(BINS - 1, int(math.log(ms / LEAST_MS, GROWTH)))
