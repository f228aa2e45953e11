"""Vectors for tests of the index: unit vectors in clumps, and indexes that hold them."""

import numpy as np
from numpy.typing import NDArray

from mnemo_store.indexes.vectors import VectorHits, VectorIndex

SPACE = "mini/1/plain"
WIDE = 24  # dimensions of the made vectors


def made(count: int, seed: int = 1, dimensions: int = WIDE) -> NDArray[np.float32]:
    """Unit vectors in 20 clumps."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((20, dimensions))
    rows: NDArray[np.float64] = centres[chance.integers(0, 20, count)] + 0.5 * chance.standard_normal(
        (count, dimensions)
    )
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def filled(count: int, *, exact_max: int = 20_000, seed: int = 1) -> VectorIndex:
    view = VectorIndex(WIDE, SPACE, exact_max=exact_max)
    view.put_many(range(count), list(made(count, seed)[:, None]))
    return view


def never() -> bool:
    return False


def assert_same(left: VectorHits, right: VectorHits) -> None:
    assert left.numbers.tobytes() == right.numbers.tobytes()
    assert left.sims.tobytes() == right.sims.tobytes()
