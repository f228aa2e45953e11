"""A view that answers by vectors, with its model, centroids and graph; and the phases in which one replaces another.

A component of a vector is a half float, and a half float times 2^24 is a whole number. So the sums of the centroids,
from which novelty is measured (SPEC 5.3 [L 1.5]), are exact: they do not depend on the order of additions and removals,
and are the same after a restart. Each window of a long text counts as a vector of its own.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import lower_thread_priority
from mnemo_daemon.thread_supervision import ThreadSupervisor
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.vectors import VectorIndex

UNIT = float(1 << 24)  # the smallest half float above zero is 2^-24

Halves = NDArray[np.float16]

RETRY_SECONDS = 600.0  # after a graph that could not be built; searches stay exact meanwhile

COPIED_TOGETHER = 1_000  # memories

CENTROIDS_FILE, CENTROIDS_KIND = "centroids.view", "centroids-1"


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

    def save(self, folder: Path, view: VectorIndex, meta: Mapping[str, Any], disk: Disk) -> None:
        """Saves the sums of a view that was just saved with this meta, unless some of its vectors are not counted."""
        if self.uncounted:
            return
        with self._lock:
            codes = {scope: code for code, scope in enumerate(self._sums)}
            numbers = np.fromiter(self._scopes, np.uint32, len(self._scopes))
            scopes = np.fromiter((codes.get(each, 0) for each in self._scopes.values()), np.uint32, len(numbers))
            named = [[scope.user_id, scope.namespace, each.rows] for scope, each in self._sums.items()]
            totals = [each.total for each in self._sums.values()]
        arrays: dict[str, NDArray[Any]] = {
            "numbers": numbers, "scopes": scopes,
            "totals": np.array(totals, np.int64).reshape(len(totals), view.dimensions),
        }  # fmt: skip
        head = {"view": _state_of(view, meta), "scopes": named}
        index_file.save(folder / CENTROIDS_FILE, CENTROIDS_KIND, head, arrays, disk)

    @classmethod
    def load(cls, folder: Path, view: VectorIndex, meta: Mapping[str, Any]) -> "Centroids":
        """The saved sums of a view that was just loaded with this meta; where they are of another state of it, or
        damaged, all its vectors are still to be counted."""
        try:
            head, arrays = index_file.load(folder / CENTROIDS_FILE, CENTROIDS_KIND)
        except IndexMismatch:
            return cls(view.numbers().tolist())
        if head["view"] != _state_of(view, meta) or len(arrays["numbers"]) != len(view):
            return cls(view.numbers().tolist())
        made = cls()
        scopes = [Scope(user_id, namespace) for user_id, namespace, _ in head["scopes"]]
        made._scopes = {
            number: scopes[code]
            for number, code in zip(arrays["numbers"].tolist(), arrays["scopes"].tolist(), strict=True)
        }
        rows = (rows for *_, rows in head["scopes"])
        made._sums = {
            scope: _Sum(count, total) for scope, count, total in zip(scopes, rows, arrays["totals"], strict=True)
        }
        return made

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


def _state_of(view: VectorIndex, meta: Mapping[str, Any]) -> list[Any]:
    """Identify the state of a view, so that sums saved with another one are known."""
    return [dict(meta), view.space, view.serial, view.rows]


def _exact_sum(rows: Halves) -> NDArray[np.int64]:
    """The exact sum of the rows, in units of 2^-24."""
    scaled = rows.astype(np.float32) * np.float32(UNIT)  # a power of two: nothing is rounded
    total: NDArray[np.int64] = scaled.astype(np.int64).sum(axis=0)
    return total


class GraphBuilder:
    """Builds the graph over a view's vectors in a thread of its own: it takes minutes, in which the view still takes
    new vectors, and searches are exact."""

    def __init__(
        self, folder: Path, disk: Disk, is_wanted: Callable[[VectorIndex], bool], on_built: Callable[[], None]
    ) -> None:
        """is_wanted: whether the view is still in use."""
        self._folder = folder
        self._disk = disk
        self._is_wanted = is_wanted
        self._on_built = on_built
        self.supervisor: ThreadSupervisor | None = None  # of the last graph
        self.has_unsaved_graph = False

    def start_if_needed(self, view: VectorIndex) -> None:
        if view.needs_index() and not self.is_running():
            build = functools.partial(self._build, view)
            self.supervisor = ThreadSupervisor("mnemo-graph", build, pause_seconds=RETRY_SECONDS)
            self.supervisor.start()

    def is_running(self) -> bool:
        return self.supervisor is not None and self.supervisor.is_alive()

    def abandon(self) -> None:
        """Has a thread that builds for a view that was replaced end soon."""
        if self.supervisor is not None:
            self.supervisor.stop(None)
        self.has_unsaved_graph = False

    def stop(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()

    def reason(self, view: VectorIndex) -> str:
        """The reason why searches of the view are exact; "" where they go by a graph, or need none."""
        if self.supervisor is not None and self.supervisor.is_failing:
            return f"the graph over the vectors could not be built, searches are exact: {self.supervisor.last_failure}"
        if self.is_running() or view.needs_index():
            return "the graph over the vectors is being built: searches are exact until then"
        return ""

    def _build(self, view: VectorIndex) -> None:
        lower_thread_priority()
        if self._is_wanted(view):
            view.build_index(self._folder, self._disk, lambda: not self._is_wanted(view))
            self.has_unsaved_graph = True
        if self.supervisor is not None:
            self.supervisor.note_success()
        self._on_built()


class ActiveIndex(NamedTuple):
    """A view, the model whose vectors it holds, and the centroids of its vectors."""

    view: VectorIndex
    embedder: Embedder
    centroids: Centroids

    def drop(self, number: int) -> None:
        self.centroids.drop(number, self.view.vectors_of(number))
        self.view.drop(number)

    def copied(self) -> "ActiveIndex":
        """The same with a view that has never held anything but what this one holds now."""
        copy = VectorIndex(self.view.dimensions, self.view.space, exact_max=self.view.exact_max)
        for numbers in batched(self.view.numbers().tolist(), COPIED_TOGETHER):
            rows = {number: self.view.vectors_of(number) for number in numbers}
            there = {number: windows for number, windows in rows.items() if windows is not None}
            copy.put_many(list(there), list(there.values()))
        return self._replace(view=copy)


def empty_index(embedder: Embedder) -> ActiveIndex:
    """An index of the model without any vector."""
    return ActiveIndex(VectorIndex(embedder.dimensions, embedder.space), embedder, Centroids())


@dataclass(frozen=True)
class NoModel:
    """No model has been loaded since the start: nothing answers by vectors."""

    active: None = None
    target: None = None


@dataclass(frozen=True)
class SingleView:
    """One view answers, and takes up what is written."""

    active: ActiveIndex

    @property
    def target(self) -> ActiveIndex:
        return self.active


@dataclass(frozen=True)
class ViewReplacement:
    """One view answers while another is filled, which takes over once it is whole: that of another model, or one whose
    vectors are all computed again."""

    active: ActiveIndex
    target: ActiveIndex
    recomputes: bool = False  # takes no vectors from the database


Phase = NoModel | SingleView | ViewReplacement
