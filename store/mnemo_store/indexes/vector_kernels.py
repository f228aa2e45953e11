"""Vector kernels: the arithmetic on rows of unit vectors under the vector index. SPEC 2.3, 7.2.

A row is kept as a code of 8 bits for each component, and stands for the unit vector in the direction of its code, whose
cosine with the vector it was made of is 0.9999 or more (MiniLM, 7,176 passages). Every comparison ends in
`QueryVector.scores`, which is made of sums of whole numbers: the score of a row depends on the query and that row
alone, not on the position of the row or on other rows. Candidates are found with the first of the query's three codes,
whose error is known, so the rows that could still be among the best are known for certain. Comparing the codes of
10,000 rows takes 0.27 ms on an idle machine.

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
FINER = 254.0  # what one code leaves of a component is at most half a step, and its own largest code stands for that
ROUNDING = 1e-5  # above the sum of all float32 rounding in a comparison of two approximate scores
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
    codes: Codes  # (n, d)
    norms: Floats  # (n,): lengths of the codes; vector = code / norm

    def select(self, chosen: Any) -> "RowBlock":
        return RowBlock(*(column[chosen] for column in self))


def no_rows(capacity: int, dimensions: int) -> RowBlock:
    return RowBlock(
        np.zeros(capacity, np.uint32), np.zeros(capacity, np.uint32), np.zeros((capacity, dimensions), np.int8),
        np.ones(capacity, np.float32),
    )  # fmt: skip


def code_rows(vectors: NDArray[np.floating[Any]], owner: Callable[[int], str]) -> tuple[Codes, Floats]:
    """Codes and norms, as in RowBlock, of (n, d) unit vectors. Those of `vectors_of` these codes are the same.

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
    rounded = np.rint(whole / scales[:, None])
    return rounded.astype(np.int8), np.sqrt(np.einsum("ij,ij->i", rounded, rounded))


def vectors_of(codes: Codes) -> Halves:
    """The unit vectors that codes stand for, (n, d)."""
    whole = codes.astype(np.float32)
    units: Floats = whole / np.sqrt(np.einsum("ij,ij->i", whole, whole))[:, None]
    return units.astype(np.float16)


def as_kept(vectors: NDArray[np.floating[Any]]) -> Halves:
    """The rows as an index that is given these vectors has them. Raises BadVector."""
    return vectors_of(code_rows(vectors, lambda row: f"window {row}")[0])


def _fault(vector: NDArray[np.floating[Any]]) -> str:
    if not np.isfinite(vector).all():
        what = "holds NaN or infinity"
    elif not vector.any():
        what = "is all zeros"
    else:
        what = f"has length {np.linalg.norm(vector.astype(np.float64)):.4g}, not 1"
    return f"its vector {what}; embed the text again and normalise it"


class QueryVector:
    """A query ready to be compared: as three codes, each of what the ones before leave of it."""

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
        self.largest = float(np.abs(vector).max())
        self.codes = np.empty((3, dimensions), np.int8)
        left, unit = vector.astype(np.float64), self.largest / CODE_MAX
        for code in self.codes:
            code[:] = np.rint(left / unit)
            left, unit = left - code * unit, unit / FINER
        lost = vector - self.codes[0] * (self.largest / CODE_MAX)
        self.slack = np.float32(1.001 * math.sqrt(np.dot(lost, lost)))  # of its first code, with any row, of length 1

    def scores(self, codes: Codes, norms: Floats) -> Floats:
        """The score of each of the rows, independent of its position."""
        if not len(codes):
            return np.empty(0, np.float32)
        products = self._products(self.codes, codes).astype(np.float64)
        together = products[0] + (products[1] + products[2] / FINER) / FINER
        found: Floats = (together * self.largest / CODE_MAX / norms).astype(np.float32)
        return found

    def sims(self, vectors: Halves) -> Floats:
        """The score that each of these (n, d) unit vectors has in an index. Raises BadVector."""
        return self.scores(*code_rows(vectors, lambda row: f"vector {row}"))

    def estimates(self, codes: Codes, norms: Floats) -> Floats:
        """Approximate scores, off by at most the slack of the query."""
        if not len(codes):
            return np.empty(0, np.float32)
        products: Floats = self._products(self.codes[:1], codes)[0]
        return products * (np.float32(self.largest / CODE_MAX) / norms)

    def _products(self, own: Codes, codes: Codes) -> Floats:
        products = numkong.cdist(own, codes, "dot", out_dtype="float32")
        return np.asarray(products, np.float32).reshape(len(own), len(codes))


class RowsSnapshot(NamedTuple):
    """The rows at one moment: first those of the base, then those of the tail."""

    base: RowBlock
    tail: RowBlock
    alive: Mask
    serial: int  # the next one
    spread: int  # mean rows of a number, rounded up

    def vectors(self, rows: Positions) -> Halves:
        return vectors_of(self.take("codes", rows))

    def scores(self, question: QueryVector, rows: Positions) -> Floats:
        return question.scores(self.take("codes", rows), self.take("norms", rows))

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
            return question.estimates(self.take("codes", rows), self.take("norms", rows))
        return np.concatenate([question.estimates(part.codes, part.norms) for part in (self.base, self.tail)])

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
    place = max(0, len(estimates) - fetch)
    reached = np.partition(estimates, place)[place] - 2 * question.slack - np.float32(ROUNDING)
    near = np.flatnonzero(estimates >= reached)
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
        sims, numbers = moment.scores(question, near), moment.take("numbers", near)
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
