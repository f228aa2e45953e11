"""Vector kernels: the arithmetic on rows of unit vectors under the vector index. SPEC 2.3, 7.2.

Every comparison ends in `QueryVector.sims`, whose score for a row depends on the query and that row alone, not on the
position of the row or on other rows. Candidates are found through 8-bit codes: each row knows the error of its code, so
the rows that could still be among the best are known for certain, and a search that reads a quarter of the bytes of
float32 is exact all the same. Comparing the codes of 10,000 rows takes 0.27 ms on an idle machine.

numkong is the library that usearch itself computes with; one thread, without the interpreter lock, 2 MB.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numkong
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Codes = NDArray[np.int8]
Integers = NDArray[np.uint32]
Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]

NORM_TOLERANCE = 0.01  # a unit vector's length may be off by this; f16 rounding alone gives 0.0003
CODE_MAX = 127  # the largest 8-bit code, for the row's largest component
ROUNDING = 1e-5  # above the sum of all float32 rounding in a comparison of two approximate scores
LOW_HALF = 2048.0  # 2^11: scales the part of a component that f16 loses back into its range
FETCH_GROWTH = 4  # factor by which more is fetched when too little came
GATHERED_COST = 5  # a row that is gathered from among others costs as much as so many that are compared in place


class BadVector(ValueError):
    """A vector that cannot be compared; nothing was changed."""


class VectorHits(NamedTuple):
    """Hits, best first; each number once; equal similarities by number."""

    numbers: NDArray[np.uint32]
    sims: NDArray[np.float32]
    graph_rows: int = 0  # rows of the graph that were looked at; 0: every row in scope was compared


class RowBlock(NamedTuple):
    """A block of rows, stored by column. Rows never change once written."""

    serials: Integers  # (n,), rising
    numbers: Integers  # (n,)
    vectors: Halves  # (n, d), unit
    codes: Codes  # (n, d)
    scales: Floats  # (n,): vector ≈ code · scale
    slacks: Floats  # (n,): a unit query's product with the vector and with code · scale differ by at most this

    def select(self, chosen: Any) -> "RowBlock":
        return RowBlock(*(column[chosen] for column in self))


def no_rows(capacity: int, dimensions: int) -> RowBlock:
    wide = (capacity, dimensions)
    return RowBlock(
        np.zeros(capacity, np.uint32), np.zeros(capacity, np.uint32), np.zeros(wide, np.float16),
        np.zeros(wide, np.int8), np.zeros(capacity, np.float32), np.zeros(capacity, np.float32),
    )  # fmt: skip


def code_rows(vectors: NDArray[np.floating[Any]], owner: Callable[[int], str]) -> tuple[Halves, Codes, Floats, Floats]:
    """(n, d) unit vectors in f16, their 8-bit codes, scales, and slacks as in RowBlock.

    Raises BadVector, which names the row by its owner, unless each is finite and of unit length.
    """
    with np.errstate(over="ignore"):  # what f16 cannot hold becomes infinite and is refused as such
        halves = vectors.astype(np.float16, copy=False)
    whole = halves.astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", whole, whole))
    units = np.abs(norms - 1) <= NORM_TOLERANCE  # not so for NaN
    if not units.all():
        row = int(np.argmin(units))
        raise BadVector(f"{owner(row)}: {_fault(vectors[row])}")
    scales = np.abs(whole).max(axis=1) / np.float32(CODE_MAX)
    codes = np.rint(whole / scales[:, None]).astype(np.int8)
    whole -= codes * scales[:, None]
    slacks = np.sqrt(np.einsum("ij,ij->i", whole, whole)) * np.float32(1 + NORM_TOLERANCE)
    return halves, codes, scales, slacks


def _fault(vector: NDArray[np.floating[Any]]) -> str:
    if not np.isfinite(vector).all():
        what = "holds NaN or infinity"
    elif not vector.any():
        what = "is all zeros"
    else:
        what = f"has length {np.linalg.norm(vector.astype(np.float64)):.4g}, not 1"
    return f"its vector {what}; embed the text again and normalise it"


class QueryVector:
    """A query ready to be compared: in f16 as a high and a low half, which together are float32, and as a code."""

    def __init__(self, query: ArrayLike, dimensions: int):
        vector = np.asarray(query, dtype=np.float32)
        if vector.shape != (dimensions,):
            raise BadVector(
                f"the query has shape {vector.shape}, this index ({dimensions},): embed it with the model of the index"
            )
        norm = math.sqrt(np.dot(vector, vector))
        if not abs(norm - 1) <= NORM_TOLERANCE:  # not so for NaN either
            raise BadVector(f"the query: {_fault(vector)}")
        self.vector = vector
        self.halves = np.empty((2, dimensions), np.float16)
        self.halves[0] = vector
        self.halves[1] = (vector - self.halves[0]) * LOW_HALF
        self.scale = np.float32(np.abs(vector).max() / CODE_MAX)
        self.code = np.rint(vector / self.scale).astype(np.int8)[None]
        lost = vector - self.code[0] * self.scale
        # Maximum error of the product of its code with a row's code · scale, which is at most as long as the row, that
        # is 1, plus the row's slack of a few hundredths: 1.1 covers both.
        self.slack = np.float32(1.1 * math.sqrt(np.dot(lost, lost)))

    def sims(self, vectors: Halves) -> Floats:
        """The score of each of (n, d) rows, independent of its position."""
        if not len(vectors):
            return np.empty(0, np.float32)
        products: NDArray[Any] = np.asarray(numkong.cdist(self.halves, vectors, "dot")).reshape(2, len(vectors))
        together: Floats = (products[0] + products[1] / LOW_HALF).astype(np.float32)
        return together

    def estimates(self, codes: Codes, scales: Floats) -> Floats:
        """Approximate scores, off by at most the row's slack plus the query's."""
        if not len(codes):
            return np.empty(0, np.float32)
        products: Floats = np.asarray(numkong.cdist(self.code, codes, "dot", out_dtype="float32")).reshape(-1)
        return products * (scales * self.scale)


class RowsSnapshot(NamedTuple):
    """The rows at one moment: first those of the base, then those of the tail."""

    base: RowBlock
    tail: RowBlock
    alive: Mask
    serial: int  # the next one
    spread: int  # mean rows of a number, rounded up

    def take(self, column: str, rows: Positions | None) -> NDArray[Any]:
        """One column at these rows, or at all of them."""
        base: NDArray[Any] = getattr(self.base, column)
        tail: NDArray[Any] = getattr(self.tail, column)
        if not len(base) or not len(tail):
            whole = base if len(base) else tail
            return whole if rows is None else whole.take(rows, axis=0)
        if rows is None:
            return np.concatenate([base, tail])
        in_base = rows < len(base)
        taken = base.take(np.where(in_base, rows, 0), axis=0)
        in_tail = np.flatnonzero(~in_base)
        taken[in_tail] = tail.take(rows[in_tail] - len(base), axis=0)
        return taken

    def estimates(self, question: QueryVector, rows: Positions | None) -> Floats:
        if rows is not None:
            return question.estimates(self.take("codes", rows), self.take("scales", rows))
        return np.concatenate([question.estimates(part.codes, part.scales) for part in (self.base, self.tail)])

    def find(self, serials: NDArray[Any]) -> Positions:
        """The positions of the rows with these serials, without those that are gone."""
        places = []
        for part, start in ((self.base, 0), (self.tail, len(self.base.serials))):
            if len(part.serials) and part.serials[0] <= serials.max(initial=0):
                at = np.minimum(np.searchsorted(part.serials, serials), len(part.serials) - 1)
                places.append(at[part.serials[at] == serials] + start)
        return np.concatenate(places) if places else np.empty(0, np.int64)

    def first_from(self, serial: int) -> int:
        """The position of the first row with this serial or a later one."""
        key = np.uint32(serial)
        in_base = int(np.searchsorted(self.base.serials, key))
        return in_base if in_base < len(self.base.serials) else in_base + int(np.searchsorted(self.tail.serials, key))


def find_candidates(moment: RowsSnapshot, question: QueryVector, rows: Positions | None, fetch: int) -> Positions:
    """A subset of the rows (None: all that live) that surely contains the `fetch` best and all their equals.

    At least `fetch` rows reach the fetch-th highest lower bound, so a row whose upper bound is below it is out.
    """
    if rows is None and not moment.alive.all():
        rows = np.flatnonzero(moment.alive)
    if rows is not None and GATHERED_COST * len(rows) > len(moment.alive):
        estimates = moment.estimates(question, None).take(rows)
    else:
        estimates = moment.estimates(question, rows)
    slacks = moment.take("slacks", rows)
    place = max(0, len(estimates) - fetch)
    reached = np.partition(estimates - slacks, place)[place] - 2 * question.slack - np.float32(ROUNDING)
    near = np.flatnonzero(estimates + slacks >= reached)
    return near if rows is None else rows[near]


def rank(numbers: Integers, sims: Floats, k: int, *, distinct: bool) -> VectorHits:
    """The k best numbers, each with its best window; `distinct`: each has only one window."""
    order = np.lexsort((numbers, -sims))
    if not distinct:
        first = np.unique(numbers[order], return_index=True)[1]
        first.sort()
        order = order[first]
    best = order[:k]
    return VectorHits(numbers[best], sims[best])


def find_exactly(moment: RowsSnapshot, question: QueryVector, rows: Positions | None, k: int) -> VectorHits:
    """The k best numbers among these rows (None: all that live), of which there must be at least one."""
    eligible = np.count_nonzero(moment.alive) if rows is None else len(rows)
    fetch = k * moment.spread
    while True:
        near = find_candidates(moment, question, rows, fetch)
        sims, numbers = question.sims(moment.take("vectors", near)), moment.take("numbers", near)
        if fetch < eligible:  # completeness is known only down to the fetch-th best row
            known = sims >= np.partition(sims, len(sims) - fetch)[len(sims) - fetch]
            sims, numbers = sims[known], numbers[known]
        hits = rank(numbers, sims, k, distinct=moment.spread == 1)
        if len(hits.numbers) == k or fetch >= eligible:
            return hits
        fetch *= FETCH_GROWTH


def are_allowed(numbers: Integers, allowed: Mask) -> Mask:
    """Mask of the numbers that the mask `allowed`, indexed by number, lets in: none beyond its end."""
    inside = numbers < len(allowed)
    inside[inside] = allowed[numbers[inside]]
    return inside
