"""A two-dimensional layout of unit vectors in which neighbours stay neighbours. SPEC 10.4

The method is that of UMAP (McInnes, Healy, Melville: UMAP, Uniform Manifold Approximation and Projection for Dimension
Reduction, 2018, arXiv:1802.03426) with the negative sampling of LargeVis (Tang et al.: Visualizing Large-scale and
High-dimensional Data, 2016, arXiv:1602.00370): a graph of the nearest neighbours, whose edges are weighted by how near
they are for either end, is laid out from its principal components by edges that attract and random pairs that repel.

Of many vectors the neighbours are searched for in the nearest cells of a partition alone. Every function that takes
long is a generator, which yields after some 50 ms of work.
"""

import itertools
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Reader = Callable[[Places], Floats]
"""The vectors at these places, as unit rows; zeros for one that is gone."""

NEIGHBOURS = 15  # of each point in the graph: the default of UMAP
CELL_ROWS = 400  # vectors in a cell of the partition, on average
CELLS_SEARCHED = 16  # for the neighbours of the vectors of one
EPOCHS, EPOCHS_LARGE, LARGE = 300, 200, 20_000  # passes over the edges; fewer where there are so many points
NEGATIVES = 5  # random pairs for each edge [UMAP, LargeVis]
CURVE_A, CURVE_B = 1.577, 0.895  # 1 / (1 + a·d^2b) fits a least distance of 0.1 [UMAP]
FORCE_MAX = 4.0  # of one pair, on each axis [UMAP]
SPREAD = 10.0  # of the principal components at the start [UMAP]
READ_TOGETHER = 2_000
PLACED_BY = 5  # neighbours that tell where a later point is put


class MapEdges(NamedTuple):
    """The edges of the graph, each once: their ends, and their weights up to 1."""

    heads: Places
    tails: Places
    weights: Floats


Steps = Generator[float, None, Any]  # yields the share that is done, up to 1


def lay_out(count: int, read: Reader, chance: np.random.Generator) -> Generator[float, None, Floats]:
    """The positions of `count` vectors, (count, 2), within about -1 to 1; yields the share that is done."""
    if count < 3:
        return np.array([[0.0, 0.0], [1.0, 0.0]], np.float32)[:count]
    start = yield from _scaled(principal_components(count, read), 0.0, 0.05)
    k = min(NEIGHBOURS, 2 + count // 6, count - 1)  # fewer of few points, where more would be of other groups
    near, sims = yield from _scaled(nearest_neighbours(count, read, k, chance), 0.05, 0.3)
    edges = yield from _scaled(weighted_edges(near, 1.0 - sims), 0.3, 0.35)
    positions = start * (SPREAD / max(float(np.abs(start).max()), 1e-9))
    positions += chance.normal(0, 1e-2, positions.shape).astype(np.float32)  # equal vectors do not stay together
    positions = yield from _scaled(optimise(positions, edges, chance), 0.35, 1.0)
    return fit_to_unit(positions)


def _scaled(steps: Steps, begin: float, end: float) -> Steps:
    """The same steps as a part of the whole."""
    while True:
        try:
            share = next(steps)
        except StopIteration as done:
            return done.value
        yield begin + share * (end - begin)


def principal_components(count: int, read: Reader) -> Generator[float, None, Floats]:
    """The first two principal components of each vector."""
    total: Any = 0.0
    products: Any = 0.0
    for begin in range(0, count, READ_TOGETHER):
        rows = read(np.arange(begin, min(begin + READ_TOGETHER, count)))
        total, products = total + rows.sum(axis=0, dtype=np.float64), products + (rows.T @ rows).astype(np.float64)
        yield begin / count / 2
    mean = np.asarray(total / count)
    _, axes = np.linalg.eigh(np.asarray(products / count) - np.outer(mean, mean))
    axes = axes[:, :-3:-1]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1, 1)  # their signs are arbitrary
    found = np.empty((count, 2), np.float32)
    for begin in range(0, count, READ_TOGETHER):
        places = np.arange(begin, min(begin + READ_TOGETHER, count))
        found[places] = (read(places) - mean) @ axes
        yield 0.5 + begin / count / 2
    return found


def nearest_neighbours(
    count: int, read: Reader, k: int, chance: np.random.Generator, cell_rows: int = CELL_ROWS
) -> Generator[float, None, tuple[Places, Floats]]:
    """The k nearest others of each vector and their cosines, (count, k), the nearest first. Exact up to cell_rows ·
    CELLS_SEARCHED vectors; beyond, in the cells of a partition around random vectors."""
    cells = max(1, count // cell_rows)
    if cells <= CELLS_SEARCHED:
        searched = np.zeros((1, 1), np.int64)
        cell_of = np.zeros(count, np.int64)
        cells = 1
    else:
        centres = read(np.sort(chance.choice(count, cells, replace=False)))
        cell_of = np.empty(count, np.int64)
        for begin in range(0, count, READ_TOGETHER):
            places = np.arange(begin, min(begin + READ_TOGETHER, count))
            cell_of[places] = (read(places) @ centres.T).argmax(axis=1)
            yield 0.1 * begin / count
        searched = np.argsort(-(centres @ centres.T), axis=1, kind="stable")[:, :CELLS_SEARCHED]
    order = np.argsort(cell_of, kind="stable")
    bounds = np.searchsorted(cell_of[order], np.arange(cells + 1))
    members = [order[begin:end] for begin, end in itertools.pairwise(bounds.tolist())]
    near, sims = np.empty((count, k), np.int64), np.empty((count, k), np.float32)
    done = 0
    for cell in range(cells):
        candidates = np.concatenate([members[each] for each in searched[cell]])
        if len(candidates) <= k:  # of cells that are nearly empty
            candidates = np.arange(count)
        vectors = read(candidates)
        for begin in range(0, len(members[cell]), CELL_ROWS):
            rows = members[cell][begin : begin + CELL_ROWS]
            near[rows], sims[rows] = _nearest(read(rows) @ vectors.T, rows, candidates, k)
            done += len(rows)
            yield 0.1 + 0.9 * done / count
    return near, sims


def _nearest(found: Floats, rows: Places, candidates: Places, k: int) -> tuple[Places, Floats]:
    """The k best of each row of cosines, without the vector itself."""
    found[rows[:, None] == candidates[None, :]] = -2.0
    best = np.argpartition(-found, k - 1, axis=1)[:, :k]
    sims = np.take_along_axis(found, best, axis=1)
    order = np.argsort(-sims, axis=1, kind="stable")
    return candidates[np.take_along_axis(best, order, axis=1)], np.take_along_axis(sims, order, axis=1)


def weighted_edges(near: Places, distances: Floats) -> Generator[float, None, MapEdges]:
    """The edges of the graph, weighted as in UMAP: exp(-(d - d₁) / s), where d₁ is the distance of the nearest and s
    such that the weights of a point sum to log₂ k; and u + v - u·v of both directions."""
    count, k = near.shape
    directed = np.empty((count, k))
    for begin in range(0, count, READ_TOGETHER):
        directed[begin : begin + READ_TOGETHER] = _weights(distances[begin : begin + READ_TOGETHER])
        yield begin / count
    weights = directed.ravel()
    heads, tails = np.repeat(np.arange(count), k), near.ravel()
    pairs, which = np.unique(np.minimum(heads, tails) * count + np.maximum(heads, tails), return_inverse=True)
    sums = np.bincount(which, weights)
    products = sums * sums - np.bincount(which, weights * weights)  # 2·u·v of the two directions, 0 of one alone
    combined = (sums - products / 2).astype(np.float32)
    return MapEdges(pairs // count, pairs % count, combined)


def _weights(distances: Floats) -> NDArray[np.float64]:
    """The weights of the edges from some points to their neighbours."""
    beyond = np.maximum(distances - distances.min(axis=1, keepdims=True), 0.0).astype(np.float64)
    low, high = np.zeros((len(beyond), 1)), np.full((len(beyond), 1), 10.0)
    wanted = np.log2(max(beyond.shape[1], 2))
    for _ in range(32):
        middle = (low + high) / 2
        is_wide = np.exp(-beyond / np.maximum(middle, 1e-9)).sum(axis=1, keepdims=True) > wanted
        low, high = np.where(is_wide, low, middle), np.where(is_wide, middle, high)
    found: NDArray[np.float64] = np.exp(-beyond / np.maximum((low + high) / 2, 1e-5))
    return found


def optimise(positions: Floats, edges: MapEdges, chance: np.random.Generator) -> Generator[float, None, Floats]:
    """The positions after all epochs. In each, an edge is taken with its weight as its probability."""
    count = len(positions)
    epochs = EPOCHS_LARGE if count >= LARGE else EPOCHS
    together = min(max(1024, count // 2), 20_000)  # edges whose forces are added before any point moves
    x, y = positions[:, 0].astype(np.float32), positions[:, 1].astype(np.float32)
    probability = edges.weights / edges.weights.max(initial=1e-9)
    for epoch in range(epochs):
        rate = np.float32(1.0 - epoch / epochs)
        taken = chance.permutation(np.flatnonzero(chance.random(len(probability), np.float32) < probability))
        for begin in range(0, len(taken), together):
            batch = taken[begin : begin + together]
            _move(x, y, edges.heads[batch], edges.tails[batch], rate, chance)
            yield (epoch + begin / len(taken)) / epochs
    return np.stack([x, y], axis=1)


def _move(x: Floats, y: Floats, heads: Places, tails: Places, rate: np.float32, chance: np.random.Generator) -> None:
    """Move the ends of edges together, and both apart from random points."""
    count = len(x)
    ends = np.concatenate([heads, tails])
    towards = np.concatenate([tails, heads])
    dx, dy = x[ends] - x[towards], y[ends] - y[towards]
    square = dx * dx + dy * dy
    power = np.power(np.maximum(square, 1e-12), np.float32(CURVE_B))
    pull = np.float32(-2.0 * CURVE_A * CURVE_B) * power / (np.maximum(square, 1e-12) * (1.0 + CURVE_A * power))
    force_x, force_y = np.clip(pull * dx, -FORCE_MAX, FORCE_MAX), np.clip(pull * dy, -FORCE_MAX, FORCE_MAX)
    others = chance.integers(0, count, (NEGATIVES, len(ends)))
    dx, dy = x[ends] - x[others], y[ends] - y[others]
    square = dx * dx + dy * dy
    power = np.power(np.maximum(square, 1e-12), np.float32(CURVE_B))
    push = np.float32(2.0 * CURVE_B) / ((np.float32(0.001) + square) * (1.0 + CURVE_A * power))
    force_x += np.clip(push * dx, -FORCE_MAX, FORCE_MAX).sum(axis=0)
    force_y += np.clip(push * dy, -FORCE_MAX, FORCE_MAX).sum(axis=0)
    x += rate * np.bincount(ends, force_x, count).astype(np.float32)
    y += rate * np.bincount(ends, force_y, count).astype(np.float32)


def fit_to_unit(positions: Floats) -> Floats:
    """The positions around their median: 99 of 100 are within -1 to 1 on both axes, and all within -1.5 to 1.5."""
    centred = positions - np.median(positions, axis=0)
    scale = max(float(np.quantile(np.abs(centred).max(axis=1), 0.99)), 1e-9)
    return np.clip(centred / scale, -1.5, 1.5).astype(np.float32)


def place_by_neighbours(sims: Floats, positions: Floats, chance: np.random.Generator) -> Floats:
    """The position of a later point: the mean of its PLACED_BY nearest, each weighted by how much nearer it is than the
    last of them; beside it where they are one point. sims: descending."""
    sims, positions = sims[:PLACED_BY], positions[:PLACED_BY]
    weights = np.maximum(sims - sims[-1], 0.0) + 0.1 * np.maximum(1.0 - sims[-1], 1e-3)
    middle = (weights[:, None] * positions).sum(axis=0) / weights.sum()
    placed: Floats = (middle + chance.normal(0, 2e-3, 2)).astype(np.float32)
    return placed
