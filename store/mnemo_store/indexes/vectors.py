"""The vector index: the memories most similar to a query, by their best window. SPEC 2.3, 3.1, 7.2.

A memory is known by its `number`, the small dense integer the store gives it, and has one row a window. Rows are 8-bit
codes, in the order they came, and each carries a serial that is never given twice; a memory that is replaced or dropped
only leaves dead rows behind. A search combines three methods, which end in the same arithmetic:

    exact    Every row in scope is compared with a code of the query, whose error is known, and every row that could
             still be among the best is scored again with the whole query (tests/bench/bench_vectors.py measures it).
    graph    Above EXACT_MAX rows: a usearch index over the rows up to some serial, on disk, mapped read-only. It finds
             SEARCH_WIDTH rows or more, of which the best are returned: a narrower search misses what questions ask for,
             which are farther from every passage than passages are from each other. Of equal rows it has only one: a
             thousand of them, with edges to each other alone, would cut it apart.
    delta    The rows after that serial, and those left out of the graph, exactly.

The score of a row depends on the query and on that row alone, and ties go by number: an exact answer is the same to the
byte whatever order the memories came in.

On disk, in one folder (store/docs/format.md):

    vectors.view           the tail (rows after the base), the live rows, the owner's meta, and the names and
                           fingerprints of the other two: renaming this file into place completes a save
    vectors-N.rows         the base: most rows, never changed once written, mapped
    vectors-N.usearch      the graph, never changed once written, mapped

A save rewrites the base only when the tail has grown to a share of it, so that a small change never costs the whole
matrix. (Appending to one file would save that too, but a torn append must be found and cut, and a mapped file must not
grow under its readers.)

One thread applies changes, any number search, a background thread saves and builds. A search copies references under
the lock and works outside it.
"""

import mmap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import EmbeddingSpaceMismatch, IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.vector_kernels import (
    FETCH_GROWTH,
    GATHERED_COST,
    BadVector,
    Codes,
    Floats,
    Integers,
    Mask,
    Positions,
    QueryVector,
    RowBlock,
    RowsSnapshot,
    VectorHits,
    are_allowed,
    code_rows,
    find_candidates,
    find_exactly,
    no_rows,
    rank,
    vectors_of,
)

__all__ = ["EXACT_MAX", "BadVector", "VectorHits", "VectorIndex"]

VIEW_FILE = "vectors.view"
VIEW_KIND = "vectors-3"
BASE_KIND = "vectors-base-3"

# Rows; up to here every search is exact, for at most 5 ms of processor: 2.9 to 4.8 ms for 100,000 rows of 384
# dimensions (tests/bench/bench_vectors.py, two cores at 2.5 GHz that others load). SPEC 7.2
EXACT_MAX = 100_000
NUMBER_MAX = 1 << 26  # a number above this is an error: two arrays are as long as the highest one
WINDOWS_MAX = 0xFFFF  # rows of one number

CAPACITY_MIN = 256  # rows; the first allocation
TAIL_MAX = 4_096  # rows (1.6 MB at 384 dimensions) that a save may rewrite before they go into the base
TAIL_SHARE = 8  # or an eighth of the base, where that is more: each row is then rewritten 8 times at most

CONNECTIVITY = 16  # edges a node
EXPANSION_ADD = 128  # candidates considered to place a row
SEARCH_WIDTH = 1_000  # and to answer a query, which costs what comparing EXACT_MAX rows does
WHOLE_GRAPH_MAX = 1_000  # rows; a graph this small is compared row by row: it costs no more, and HNSW can miss a row
GRAPH_BATCH = 256  # rows added between two checks of `cancelled`: 0.1 to 0.3 s
DELTA_SHARE_OF_GRAPH = 20  # a twentieth of the graph, or a quarter of EXACT_MAX, may be in the delta
DEAD_SHARE_OF_GRAPH = 4  # a quarter of its rows may be dead before it is rebuilt


class _Scope(NamedTuple):
    """The rows that a read-only mask lets in at one moment. rows: None for all live rows, or for so many that the graph
    is searched."""

    allowed: Mask
    in_scope: int
    rows: Positions | None


class _SearchGraph:
    """A usearch index over the rows with serials below `end`, mapped from a file that never changes."""

    def __init__(self, path: Path, checksum: int, end: int, dimensions: int):
        """Opens the file, which must have this checksum. Raises IndexMismatch."""
        # The import costs 0.2 s and 40 MB, which a small store never pays. With usearch 2.26.6 imported first, the
        # import of onnxruntime crashes: a process that uses both imports onnxruntime first. The daemon does, since it
        # has vectors only from a model.
        from usearch.index import Index

        self.path, self.checksum, self.end = path, checksum, end
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                found = index_file.checksum([content])
        except (OSError, ValueError) as error:
            raise IndexMismatch(f"{path.name}: {error}") from error
        if found != checksum:
            raise IndexMismatch(f"{path.name}: its checksum does not match")
        index = Index.restore(str(path), view=True)
        if index is None or index.ndim != dimensions:
            raise IndexMismatch(f"{path.name} holds vectors of other dimensions")
        self._index = index
        self.rows = len(index)
        self.left_out = np.empty(0, np.uint32)  # serials before `end` of rows that it does not have

    def find_left_out(self, moment: RowsSnapshot) -> None:
        """Sets `left_out` from the rows that live at this moment."""
        serials = moment.take("serials", np.flatnonzero(moment.alive[: moment.first_from(self.end)]))
        self.left_out = np.setdiff1d(serials, np.asarray(self._index.keys).astype(np.uint32), assume_unique=True)

    def delta(self, moment: RowsSnapshot) -> Positions:
        """The living rows that it does not have."""
        rows = np.arange(moment.first_from(self.end), len(moment.alive))
        if len(self.left_out):
            rows = np.concatenate([moment.find(self.left_out), rows])
        return rows[moment.alive[rows]]

    def living(self, moment: RowsSnapshot) -> int:
        """The number of its rows that live."""
        return int(np.count_nonzero(moment.alive)) - len(self.delta(moment))

    def nearest(self, question: QueryVector, fetch: int) -> Integers:
        """The serials of about the `fetch` nearest rows, dead ones included, for which usearch considers as many. It
        runs one search at a time."""
        found = self._index.search(question.vector, fetch, threads=1, exact=self.rows <= WHOLE_GRAPH_MAX)
        return np.asarray(found.keys).astype(np.uint32)


def _owner(counts: Mapping[int, int], row: int) -> int:
    """The number that a row belongs to, where `counts` is how many rows each number has, one after the other."""
    for number, count in counts.items():
        if row < count:
            return number
        row -= count
    raise IndexError(row)


def _needs_rebuild(graph: _SearchGraph, moment: RowsSnapshot) -> bool:
    """True if so many of the graph's rows are dead that it is rebuilt rather than extended."""
    return graph.rows - graph.living(moment) > graph.rows // DEAD_SHARE_OF_GRAPH


def _unequal(moment: RowsSnapshot) -> Positions:
    """The first living row of each set with equal codes. Rows that only share a key of these are left out too, which
    costs their comparison and no more."""
    living = np.flatnonzero(moment.alive)
    weights = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, moment.tail.codes.shape[1])
    parts = (living[at : at + GRAPH_BATCH] for at in range(0, len(living), GRAPH_BATCH))
    keys = np.concatenate([moment.take("codes", part).astype(np.int64) @ weights for part in parts])
    return living[np.sort(np.unique(keys, return_index=True)[1])]


def _extend_graph(
    old: _SearchGraph | None, dimensions: int, batches: Iterator[RowBlock], cancelled: Callable[[], bool]
) -> memoryview | None:
    """The bytes of a graph over the rows of the old one and these, or None if cancelled. Slow; other threads run."""
    from usearch.index import Index

    if old is None:
        index = Index(
            ndim=dimensions,
            metric="ip",  # of unit vectors: the cosine
            dtype="f16",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
        )
    else:
        restored = Index.restore(str(old.path), expansion_add=EXPANSION_ADD)
        assert restored is not None, "a file that was opened before"
        index = restored
    for batch in batches:
        if cancelled():
            return None
        index.add(batch.serials.astype(np.uint64), vectors_of(batch.codes), threads=1)
    content = index.save()
    assert content is not None, "no path was given"
    return memoryview(content)


def _new_path(folder: Path, suffix: str) -> Path:
    """A name that no file here has: a mapped file is never overwritten."""
    taken = [int(path.stem.split("-")[1]) for path in folder.glob("vectors-*.*") if path.stem.split("-")[1].isdigit()]
    return folder / f"vectors-{max(taken, default=0) + 1}{suffix}"


def _fingerprint(rows: RowBlock) -> str:
    """Fingerprint of a base: the checksum of its file guards the content, this one tells which base it is."""
    columns = (rows.serials, rows.numbers, rows.norms)
    return f"{index_file.checksum(np.ascontiguousarray(column).data for column in columns):08x}-{len(rows.serials)}"


class VectorIndex:
    """The vectors of one embedding space, searchable by similarity. Safe to use from several threads."""

    def __init__(self, dimensions: int, space: str, *, exact_max: int = EXACT_MAX, width: int = SEARCH_WIDTH):
        """Makes an empty index. `space` names the model and template of the vectors; only a load compares it."""
        self.dimensions, self.space, self.exact_max, self.width = dimensions, space, exact_max, width
        self._lock = threading.Lock()  # everything below; held for moments only
        self._base = no_rows(0, dimensions)
        self._base_path: Path | None = None
        self._tail = no_rows(CAPACITY_MIN, dimensions)  # of which the first _used are rows
        self._used = 0
        self._alive = np.zeros(CAPACITY_MIN, np.bool_)  # of the base, then the tail
        self._first = np.zeros(0, np.int32)  # first row of a number; its rows are adjacent
        self._windows = np.zeros(0, np.uint16)  # number of its rows: 0 for a number without vectors
        self._live_rows = self._live_numbers = self._serial = 0
        self._rows_cached: RowsSnapshot | None = None  # cached as long as nothing changes
        self._scope_cached: _Scope | None = None  # cached for the last mask
        self._graph: _SearchGraph | None = None
        self.graph_lost: str | None = None  # why the saved graph could not be used, if so
        self._files = threading.RLock()  # one at a time writes, names and removes files

    # What is there

    def __len__(self) -> int:
        """Number of memories that have vectors."""
        return self._live_numbers

    def __contains__(self, number: int) -> bool:
        with self._lock:
            return 0 <= number < len(self._windows) and bool(self._windows[number])

    @property
    def rows(self) -> int:
        """Number of all their vectors."""
        return self._live_rows

    @property
    def serial(self) -> int:
        """The number of rows that were ever put, which each put raises."""
        return self._serial

    def numbers(self) -> NDArray[np.uint32]:
        """The numbers that have vectors, ascending."""
        with self._lock:
            return np.flatnonzero(self._windows).astype(np.uint32)

    def vectors_of(self, number: int) -> NDArray[np.float16] | None:
        """The windows of a number as they are kept, (w, d); None where it has none."""
        with self._lock:
            if not 0 <= number < len(self._windows) or not self._windows[number]:
                return None
            rows = self._first[number] + np.arange(self._windows[number], dtype=np.int64)
            moment = self._rows_now()
        return moment.vectors(rows)

    def first_of(self, numbers: ArrayLike) -> NDArray[np.float32]:
        """The first window of each of the numbers, (n, d); zeros where one has no vector."""
        wanted = np.asarray(numbers, np.int64)
        with self._lock:
            inside = np.flatnonzero((wanted >= 0) & (wanted < len(self._windows)))
            inside = inside[self._windows[wanted[inside]] > 0]
            rows = self._first[wanted[inside]].astype(np.int64)
            moment = self._rows_now()
        found = np.zeros((len(wanted), self.dimensions), np.float32)
        found[inside] = moment.take("codes", rows) / moment.take("norms", rows)[:, None]
        return found

    # Changing

    def put(self, number: int, windows: NDArray[Any]) -> None:
        """Sets the windows of a number: (w, d), f16 or f32, unit length. Raises BadVector."""
        self.put_many([number], [windows])

    def put_many(self, numbers: Sequence[int], windows: Sequence[NDArray[Any]]) -> None:
        """Puts all of them or, raising BadVector, none."""
        if len(numbers) != len(windows):
            raise ValueError(f"{len(numbers)} numbers for {len(windows)} lists of windows")
        latest = dict(zip(numbers, windows, strict=True))
        for number, vectors in latest.items():
            self._check_windows(number, vectors)
        if not latest:
            return
        counts = {number: len(vectors) for number, vectors in latest.items()}
        stacked = np.concatenate(list(latest.values())) if len(latest) > 1 else windows[-1]
        codes, norms = code_rows(stacked, lambda row: f"memory {_owner(counts, row)}")
        with self._lock:
            for number in counts:
                self._kill(number)
            self._append(counts, codes, norms)

    def drop(self, number: int) -> None:
        """Removes the vectors of a number."""
        with self._lock:
            self._kill(number)

    def _check_windows(self, number: int, windows: NDArray[Any]) -> None:
        if not 0 <= number < NUMBER_MAX:
            raise ValueError(f"number {number} is not within 0 to {NUMBER_MAX - 1}")
        if windows.ndim != 2 or windows.shape[1] != self.dimensions or windows.dtype.kind != "f":
            raise BadVector(
                f"memory {number}: windows of shape {windows.shape} and type {windows.dtype}, "
                f"this index holds floats of shape (windows, {self.dimensions})"
            )
        if not 1 <= len(windows) <= WINDOWS_MAX:
            raise BadVector(f"memory {number}: {len(windows)} windows; 1 to {WINDOWS_MAX} are possible")

    def _kill(self, number: int) -> None:
        if not 0 <= number < len(self._windows) or not self._windows[number]:
            return
        self._rows_cached = None
        first, count = int(self._first[number]), int(self._windows[number])
        self._alive[first : first + count] = False
        self._windows[number] = 0
        self._live_rows -= count
        self._live_numbers -= 1

    def _append(self, counts: dict[int, int], codes: Codes, norms: Floats) -> None:
        added, self._rows_cached = len(codes), None
        if self._used + added > len(self._tail.serials):
            self._relocate(self._base, added)
        if (highest := max(counts)) >= len(self._windows):
            room = max(CAPACITY_MIN, 2 * (highest + 1)) - len(self._windows)
            self._first = np.concatenate([self._first, np.zeros(room, np.int32)])
            self._windows = np.concatenate([self._windows, np.zeros(room, np.uint16)])
        tail, base_rows = self._tail, len(self._base.serials)
        place = slice(self._used, self._used + added)
        tail.serials[place] = np.arange(self._serial, self._serial + added)
        tail.codes[place], tail.norms[place] = codes, norms
        at = self._used
        for number, count in counts.items():
            tail.numbers[at : at + count] = number
            self._first[number], self._windows[number] = base_rows + at, count
            at += count
        self._alive[base_rows + self._used : base_rows + at] = True
        self._used = at
        self._serial += added
        self._live_rows += added
        self._live_numbers += len(counts)

    def _rows_now(self) -> RowsSnapshot:
        """The rows as they are now; later changes do not reach them. The caller holds the lock."""
        if self._rows_cached is None:
            self._scope_cached = None
            self._rows_cached = RowsSnapshot(
                self._base,
                self._tail.select(slice(0, self._used)),
                self._alive[: len(self._base.serials) + self._used].copy(),
                self._serial,
                -(-self._live_rows // max(1, self._live_numbers)),
            )
        return self._rows_cached

    def _relocate(self, base: RowBlock, room: int) -> None:
        """Moves the rows: those in this base stay there, the live ones after it go into a new tail with room. The
        caller holds the lock."""
        before = self._rows_now()
        living = np.flatnonzero(before.alive)
        serials = before.take("serials", living)
        after = int(np.searchsorted(serials, base.serials[-1], side="right")) if len(base.serials) else 0
        kept, start = len(living) - after, len(base.serials)
        tail = no_rows(max(CAPACITY_MIN, 2 * (kept + room)), self.dimensions)
        for name in RowBlock._fields:
            getattr(tail, name)[:kept] = before.take(name, living[after:])
        alive = np.zeros(start + len(tail.serials), np.bool_)
        alive[np.searchsorted(base.serials, serials[:after])] = True
        alive[start : start + kept] = True
        self._base, self._tail, self._used, self._alive = base, tail, kept, alive
        self._find_numbers()

    def _find_numbers(self) -> None:
        """Rebuilds the arrays by number from the live rows. The caller holds the lock."""
        self._rows_cached = None
        now = self._rows_now()
        living = np.flatnonzero(now.alive)
        numbers = now.take("numbers", living)
        starts = np.flatnonzero(np.diff(numbers, prepend=np.int64(-1)))  # the rows of a number are adjacent
        room = max(len(self._windows), int(numbers.max(initial=0)) + 1)
        self._first, self._windows = np.zeros(room, np.int32), np.zeros(room, np.uint16)
        self._first[numbers[starts]] = living[starts]
        self._windows[numbers[starts]] = np.diff(starts, append=len(living))
        self._live_rows, self._live_numbers = len(living), len(starts)
        self._rows_cached = None  # its `spread` depends on these arrays

    # Searching

    def prepare_query(self, query: ArrayLike) -> QueryVector:
        """Prepares a query for several searches. Raises BadVector for one that is not a unit vector."""
        return QueryVector(query, self.dimensions)

    def nearest(
        self, query: NDArray[Any] | QueryVector, k: int, allowed: NDArray[np.bool_] | None = None, *,
        exact: bool = False,
    ) -> VectorHits:  # fmt: skip
        """The k numbers whose best window is most similar to the query; fewer only where there are fewer.

        `allowed` is indexed by number; a number beyond its end is not allowed. The answer is exact with `exact`,
        without a graph, and where comparing every row in scope costs no more than a search of the graph: with
        `exact_max` rows in all, or a GATHERED_COST-th of them in scope. Raises BadVector for a query that is not a unit
        vector.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        if allowed is not None and (allowed.dtype != np.bool_ or allowed.ndim != 1):
            raise ValueError(f"allowed has type {allowed.dtype} and shape {allowed.shape}; it must be a row of bools")
        question = query if isinstance(query, QueryVector) else self.prepare_query(query)
        with self._lock:
            moment, graph = self._rows_now(), self._graph
            in_scope, rows = self._scope(allowed, exact)
            if exact or not self._prefers_graph(in_scope):
                graph = None
        if graph is not None:
            hits = self._through_graph(graph, moment, question, k, allowed, in_scope)
            return hits if hits is not None else self.nearest(query, k, allowed, exact=True)
        if not in_scope:
            return VectorHits(np.empty(0, np.uint32), np.empty(0, np.float32))
        return find_exactly(moment, question, rows, k)

    def sims(self, query: NDArray[Any] | QueryVector, numbers: ArrayLike) -> NDArray[np.float32]:
        """The similarity of each of the numbers, in their order; NaN where one has no vector."""
        question = query if isinstance(query, QueryVector) else self.prepare_query(query)
        wanted = np.asarray(numbers, np.int64)
        with self._lock:
            moment = self._rows_now()
            inside = np.flatnonzero((wanted >= 0) & (wanted < len(self._windows)))
            counts = self._windows[wanted[inside]].astype(np.int64)
            rows = self._rows_of(wanted[inside])
        has = counts > 0
        found = moment.scores(question, rows)
        best = np.full(len(wanted), np.nan, np.float32)
        if len(found):
            best[inside[has]] = np.maximum.reduceat(found, (np.cumsum(counts) - counts)[has])
        return best

    def _scope(self, allowed: Mask | None, exact: bool) -> tuple[int, Positions | None]:
        """The number of rows in scope, and which, as in _Scope. Called with the lock held, after `_rows_now`."""
        if allowed is None:
            return self._live_rows, None
        known = self._scope_cached
        if known is not None and known.allowed is allowed and not exact:
            return known.in_scope, known.rows
        in_scope, rows = self._count(allowed), None
        if in_scope < self._live_rows and (exact or not self._prefers_graph(in_scope)):
            rows = self._rows_of(np.flatnonzero(allowed[: len(self._windows)]))
        if not exact and not allowed.flags.writeable:
            self._scope_cached = _Scope(allowed, in_scope, rows)
        return in_scope, rows

    def _prefers_graph(self, in_scope: int) -> bool:
        """True if a search of the graph, wide enough for so many rows in scope, costs less than comparing these. The
        caller holds the lock."""
        compared = min(GATHERED_COST * in_scope, self._live_rows)
        return self._graph is not None and compared * in_scope > self.exact_max * self._live_rows

    def _count(self, allowed: Mask) -> int:
        """The number of rows of the allowed numbers. The caller holds the lock."""
        both = min(len(allowed), len(self._windows))
        windows = self._windows[:both]
        if self._live_rows == self._live_numbers:
            return int(np.count_nonzero(allowed[:both] & (windows != 0)))
        return int((windows * allowed[:both]).sum(dtype=np.int64))

    def _rows_of(self, numbers: Positions) -> Positions:
        """The rows of these numbers, in their order; each must be within the arrays. The caller holds the lock."""
        counts = self._windows[numbers].astype(np.int64)
        if self._live_rows == self._live_numbers:
            return self._first[numbers[counts > 0]].astype(np.int64)
        ends = np.cumsum(counts)
        rows: Positions = np.arange(counts.sum()) + np.repeat(self._first[numbers] - (ends - counts), counts)
        return rows

    def _through_graph(
        self, graph: _SearchGraph, moment: RowsSnapshot, question: QueryVector, k: int, allowed: Mask | None,
        in_scope: int,
    ) -> VectorHits | None:  # fmt: skip
        """The k best of the graph's candidates and the delta, or None where comparing every row costs no more."""
        delta = graph.delta(moment)
        if allowed is not None:
            delta = delta[are_allowed(moment.take("numbers", delta), allowed)]
        fetch = -(-max(self.width, k * moment.spread) * (graph.rows + len(delta)) // in_scope)
        compared = min(GATHERED_COST * in_scope, graph.rows + len(delta))
        while fetch < graph.rows and compared * self.width > fetch * self.exact_max:
            rows = moment.find(graph.nearest(question, fetch))
            rows = rows[moment.alive[rows]]
            if allowed is not None:
                rows = rows[are_allowed(moment.take("numbers", rows), allowed)]
            from_graph = len(rows)
            if len(delta):
                rows = np.concatenate([rows, find_candidates(moment, question, delta, fetch)])
            sims = moment.scores(question, rows)
            hits = rank(moment.take("numbers", rows), sims, k, distinct=moment.spread == 1)
            # Rows that the graph did not return are no nearer than the farthest it returned. Where most of those are
            # dead or not allowed, the delta alone could fill the k places, and nearer rows of the graph be missing.
            if len(hits.numbers) == k and from_graph and hits.sims[-1] >= sims[:from_graph].min():
                return hits._replace(graph_rows=fetch)
            fetch *= FETCH_GROWTH
        return None

    # Building the graph

    def needs_index(self) -> bool:
        """True if `build_index` would have something to do."""
        with self._lock:
            moment, graph, living = self._rows_now(), self._graph, self._live_rows
        if living <= self.exact_max:
            return False
        if graph is None or _needs_rebuild(graph, moment):
            return True
        outside = int(np.count_nonzero(moment.alive[moment.first_from(graph.end) :]))
        return outside > max(self.exact_max // 4, graph.rows // DELTA_SHARE_OF_GRAPH)

    def build_index(self, folder: Path, disk: Disk, cancelled: Callable[[], bool]) -> None:
        """Builds a graph over every row there is at the call, in a background thread: 0.5 to 1.2 ms of CPU a row.

        Searches and changes go on meanwhile and use the new graph when it is complete. After a restart it is found
        again if `save` has run. Returns within about a second, with nothing changed, when `cancelled` says so.
        """
        with self._lock:
            moment, old = self._rows_now(), self._graph
        if old is not None and _needs_rebuild(old, moment):
            old = None
        first = 0 if old is None else moment.first_from(old.end)
        living = _unequal(moment)
        living = living[living >= first]
        batches = (
            RowBlock(*(moment.take(name, living[at : at + GRAPH_BATCH]) for name in RowBlock._fields))
            for at in range(0, len(living), GRAPH_BATCH)
        )
        content = _extend_graph(old, self.dimensions, batches, cancelled)
        if content is None:
            return
        with self._files:
            path = _new_path(folder, ".usearch")
            disk.replace_file(path, [content])
            graph = _SearchGraph(path, index_file.checksum([content]), moment.serial, self.dimensions)
            graph.find_left_out(moment)
            with self._lock:
                self._graph, self._scope_cached = graph, None

    # Files

    def save(self, folder: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        """Saves the index and `meta` for `load`. A change applied during the save may be in it although `meta` does not
        count it yet: applying it again after a load does no harm.
        """
        with self._files:
            with self._lock:
                moment = self._rows_now()
            if self._is_fold_due(moment, folder):
                self._fold(moment, folder, disk)
            with self._lock:
                moment, base, graph = self._rows_now(), self._base_path, self._graph
            if graph is not None and graph.path.parent != folder:
                graph = None
            head = {
                "meta": dict(meta),
                "space": self.space,
                "dimensions": self.dimensions,
                "serial": moment.serial,
                "base": {"file": base.name, "fingerprint": _fingerprint(moment.base)} if base else None,
                "graph": {"file": graph.path.name, "checksum": graph.checksum, "end": graph.end} if graph else None,
            }
            arrays = {"alive": np.packbits(moment.alive), **moment.tail._asdict()}
            index_file.save(folder / VIEW_FILE, VIEW_KIND, head, arrays, disk)
            named = {path.name for path in (base, graph and graph.path) if path}
            for path in folder.glob("vectors-*"):
                if path.name not in named:
                    path.unlink(missing_ok=True)

    def _is_fold_due(self, moment: RowsSnapshot, folder: Path) -> bool:
        if self._base_path is not None and self._base_path.parent != folder:
            return True
        outgrown = max(TAIL_MAX, len(moment.base.serials) // TAIL_SHARE)
        dead = len(moment.alive) - int(np.count_nonzero(moment.alive))
        return len(moment.tail.serials) > outgrown or dead > max(TAIL_MAX, len(moment.alive) // 4)

    def _fold(self, moment: RowsSnapshot, folder: Path, disk: Disk) -> None:
        """Writes the live rows into a new base, mapped from its file; later rows stay in the tail."""
        living = np.flatnonzero(moment.alive)
        path = _new_path(folder, ".rows")
        index_file.save(
            path, BASE_KIND, {"space": self.space, "dimensions": self.dimensions},
            {name: moment.take(name, living) for name in RowBlock._fields}, disk,
        )  # fmt: skip
        base = RowBlock(**index_file.load(path, BASE_KIND, mapped=True)[1])
        with self._lock:
            self._base_path = path
            self._relocate(base, 0)

    @classmethod
    def load(
        cls, folder: Path, dimensions: int, space: str, *, exact_max: int = EXACT_MAX, width: int = SEARCH_WIDTH
    ) -> tuple[Self, dict[str, Any]]:
        """Loads the saved index and its meta.

        Raises IndexMismatch where there is none, or it is damaged or of another space: it is then rebuilt from the
        store. If only the graph is damaged or missing, answers are exact until `build_index` has run.
        """
        head, arrays = index_file.load(folder / VIEW_FILE, VIEW_KIND)
        if (head["space"], head["dimensions"]) != (space, dimensions):
            raise EmbeddingSpaceMismatch(
                f"{VIEW_FILE} holds {head['space']} ({head['dimensions']}), not {space} ({dimensions})"
            )
        view = cls(dimensions, space, exact_max=exact_max, width=width)
        with ThreadPoolExecutor(max_workers=1) as executor:  # the two large files are verified in parallel
            graph: Future[_SearchGraph] | None = None
            if (saved := head["graph"]) is not None:
                graph = executor.submit(
                    _SearchGraph, folder / saved["file"], saved["checksum"], saved["end"], dimensions
                )
            if head["base"] is not None:
                view._base_path = folder / head["base"]["file"]
                view._base = RowBlock(**index_file.load(view._base_path, BASE_KIND, mapped=True)[1])
                if _fingerprint(view._base) != head["base"]["fingerprint"]:
                    raise IndexMismatch(f"{view._base_path.name} is not the base that {VIEW_FILE} was saved with")
        tail = RowBlock(**{name: arrays[name] for name in RowBlock._fields})
        rows = len(view._base.serials) + len(tail.serials)
        view._tail, view._used, view._serial = tail, len(tail.serials), head["serial"]
        view._alive = np.unpackbits(arrays["alive"], count=rows).astype(np.bool_)
        view._find_numbers()
        try:
            view._graph = None if graph is None else graph.result()
            if view._graph is not None:
                view._graph.find_left_out(view._rows_now())
        except IndexMismatch as error:
            view.graph_lost = str(error)
        return view, head["meta"]
