"""Centroids of the vectors of each user and namespace, from which novelty is measured. SPEC 5.3 [L 1.5]

A component of a vector is a half float, and a half float times 2^24 is a whole number. So the sums below are exact:
they do not depend on the order of additions and removals, and are the same after a restart. Each window of a long text
counts as a vector of its own.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UNIT = float(1 << 24)  # the smallest half float above zero is 2^-24

Halves = NDArray[np.float16]


class Scope(NamedTuple):
    """The user and the namespace of memories."""

    user_id: str
    namespace: str


class _Sum(NamedTuple):
    """The sum of vectors, and their number."""

    rows: int
    total: NDArray[np.int64]


class Centroids:
    """The sums of a vector view, updated with each of its changes. One thread changes it, any thread reads it."""

    def __init__(self, uncounted: Iterable[int] = ()) -> None:
        """uncounted: the numbers that the view holds already, for `count`."""
        self.uncounted = deque(uncounted)
        self._lock = threading.Lock()
        self._sums: dict[Scope, _Sum] = {}
        self._scopes: dict[int, Scope] = {}  # of each number that is counted, as it was when it was counted

    def put(self, number: int, scope: Scope, rows: Halves, before: Halves | None) -> None:
        """Sets the vectors and the scope of a row id. before: the vectors that the view had for it."""
        with self._lock:
            self._remove(number, before)
            self._scopes[number] = scope
            self._add(scope, len(rows), _exact_sum(rows))

    def drop(self, number: int, before: Halves | None) -> None:
        """Removes the vectors of a row id. before: the vectors that the view had for it."""
        with self._lock:
            self._remove(number, before)

    def add_existing(self, rows: Iterable[tuple[int, Scope, Halves]]) -> None:
        """Adds vectors that the view was loaded with; what was put since then is counted already."""
        with self._lock:
            for number, scope, vectors in rows:
                if number not in self._scopes:
                    self._scopes[number] = scope
                    self._add(scope, len(vectors), _exact_sum(vectors))

    def scope_of(self, number: int) -> Scope | None:
        """The scope in which the row id is counted."""
        return self._scopes.get(number)

    def centroid(self, scope: Scope, without: Halves | None = None) -> NDArray[np.float32] | None:
        """The centroid of the scope's vectors, as a unit vector, without those of `without`, which must be among them.

        None where there are none, or where they cancel each other out.
        """
        with self._lock:
            found = self._sums.get(scope)
            if found is None:
                return None
            rows, total = found.rows, found.total.copy()
        if without is not None:
            rows, total = rows - len(without), total - _exact_sum(without)
        if rows <= 0 or not total.any():
            return None
        middle = total.astype(np.float64)
        unit: NDArray[np.float32] = (middle / np.linalg.norm(middle)).astype(np.float32)
        return unit

    def sums(self) -> dict[Scope, tuple[int, list[int]]]:
        """The number of vectors of each scope, and their sum in units of 2^-24."""
        with self._lock:
            return {scope: (found.rows, found.total.tolist()) for scope, found in self._sums.items()}

    def _remove(self, number: int, before: Halves | None) -> None:
        scope = self._scopes.pop(number, None)
        if scope is not None and before is not None:
            self._add(scope, -len(before), -_exact_sum(before))

    def _add(self, scope: Scope, rows: int, total: NDArray[np.int64]) -> None:
        known = self._sums.get(scope)
        if known is not None:
            rows, total = known.rows + rows, known.total + total
        if rows:
            self._sums[scope] = _Sum(rows, total)
        else:
            self._sums.pop(scope, None)


def _exact_sum(rows: Halves) -> NDArray[np.int64]:
    """The exact sum of the rows, in units of 2^-24."""
    scaled = rows.astype(np.float32) * np.float32(UNIT)  # a power of two: nothing is rounded
    total: NDArray[np.int64] = scaled.astype(np.int64).sum(axis=0)
    return total
