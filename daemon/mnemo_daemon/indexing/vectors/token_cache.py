"""Token rows that were compared recently, so that a text is not read from the database for each question.

The rows of a text in one space never change, so nothing here can be out of date. `clear` keeps erased texts from
staying in memory.
"""

import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

TOKENS_MAX = 1 << 17  # in the cache: 8 MB at 64 dimensions, some five thousand turns

Rows = NDArray[np.int8]  # (tokens, dimensions)
Counts = NDArray[np.int64]  # (n,) of each text, -1 where none are kept
Read = Callable[[Sequence[bytes]], tuple[Rows, Counts]]


class TokenCache:
    """The rows of one space at a time, for any thread."""

    def __init__(self, tokens_max: int = TOKENS_MAX) -> None:
        self._tokens_max = tokens_max
        self._lock = threading.Lock()
        self._space = ""
        self._places: dict[bytes, int] = {}
        self._starts, self._counts = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._rows: Rows = np.empty((0, 0), np.int8)
        self._used = 0  # of the rows
        self._empty("", 0)

    def clear(self) -> None:
        with self._lock:
            self._empty("", 0)

    def rows_of(self, space: str, dimensions: int, hashes: Sequence[bytes], read: Read) -> tuple[Rows, Counts]:
        """The rows of all these texts, one after the other, and the number that each has; `read` is called for those
        that are not in the cache."""
        with self._lock:
            if space != self._space:
                self._empty(space, dimensions)
            places = self._places_of(hashes)
            missing = list(dict.fromkeys(each for each, place in zip(hashes, places, strict=True) if place < 0))
            if missing and not self._add(missing, *read(missing)):
                self._empty(space, dimensions)  # full: starts again with what is needed now
                missing = list(dict.fromkeys(hashes))
                if not self._add(missing, *read(missing)):
                    return read(hashes)
            if missing:
                places = self._places_of(hashes)
            counts = self._counts[places]  # -1 leads to the last one, which is of texts without rows
            return self._rows.take(_ranges(self._starts[places], np.maximum(counts, 0)), axis=0), counts

    def _places_of(self, hashes: Sequence[bytes]) -> list[int]:
        known = self._places
        return [known.get(each, -1) for each in hashes]

    def _add(self, hashes: Sequence[bytes], rows: Rows, counts: Counts) -> bool:
        """False where there is no room. A text without rows is not cached: it gets them later."""
        end = self._used + len(rows)
        if max(end, len(self._places) + len(hashes)) > self._tokens_max:  # a text without a token counts as one
            return False
        if end > len(self._rows):
            grown = np.empty((min(self._tokens_max, 2 * end), self._rows.shape[1]), np.int8)
            grown[: self._used] = self._rows[: self._used]
            self._rows = grown
        self._rows[self._used : end] = rows
        there = np.flatnonzero(counts >= 0)
        starts = self._used + np.cumsum(np.maximum(counts, 0)) - counts
        first = len(self._counts) - 1
        self._places.update((hashes[place], first + at) for at, place in enumerate(there.tolist()))
        self._counts = np.concatenate([self._counts[:-1], counts[there], self._counts[-1:]])
        self._starts = np.concatenate([self._starts[:-1], starts[there], self._starts[-1:]])
        self._used = end
        return True

    def _empty(self, space: str, dimensions: int) -> None:
        self._space, self._places = space, {}
        self._starts, self._counts = np.zeros(1, np.int64), np.full(1, -1, np.int64)
        self._rows, self._used = np.empty((0, dimensions), np.int8), 0


def _ranges(starts: Counts, counts: Counts) -> NDArray[np.int64]:
    """starts[0], starts[0] + 1, … counts[0] of them, then those from starts[1] on, and so forth."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: NDArray[np.int64] = np.repeat(starts - ends + counts, counts) + np.arange(total)
    return found
