"""Measure of how well a map keeps neighbours together."""

import numpy as np

from mnemo_core.knowledge.map_layout import Floats, Places


def trustworthiness(near: Places, positions: Floats, k: int) -> float:
    """The share of neighbours in the layout that are neighbours of the vectors, from 0 to 1, as Venna and Kaski (2001)
    define it: each false one counts by its rank. near: all others of each point by their vectors, the nearest first."""
    count = len(positions)
    ranks = np.empty((count, count), np.int64)
    np.put_along_axis(ranks, near, np.arange(1, count)[None, :], axis=1)
    square = ((positions[:, None, :] - positions[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(square, np.inf)
    shown = np.argpartition(square, k - 1, axis=1)[:, :k]
    excess = np.maximum(np.take_along_axis(ranks, shown, axis=1) - k, 0).sum()
    return float(1.0 - excess * 2.0 / (count * k * (2 * count - 3 * k - 1)))
