"""The arithmetic under the vector view: bounds that must hold, scores that must not depend on their surroundings."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnemo_store.indexes.vector_kernels import ROUNDING, QueryVector, as_kept, code_rows
from mnemo_store.indexes.vectors import VectorIndex

DIMENSIONS = st.sampled_from([2, 3, 8, 31, 64, 384])


def rows_of(seed: int, count: int, dimensions: int, spikes: float) -> NDArray[np.float32]:
    """Unit vectors, of which some components tower over the rest: the hard case for a code of 8 bits."""
    chance = np.random.default_rng(seed)
    rows = chance.standard_normal((count, dimensions)) * np.exp(spikes * chance.standard_normal((count, dimensions)))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def own(_: int) -> str:
    return "a row"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), DIMENSIONS, st.floats(0, 3))
def test_an_estimate_is_never_further_off_than_the_slack(seed: int, count: int, dimensions: int, spikes: float) -> None:
    rows = rows_of(seed, count, dimensions, spikes)
    codes, norms = code_rows(rows, own)
    units = codes.astype(np.float64) / np.linalg.norm(codes.astype(np.float64), axis=1, keepdims=True)
    for query in [*rows[:3], *rows_of(seed + 1, 3, dimensions, spikes), -rows[0]]:
        question = QueryVector(query, dimensions)
        true = units @ query.astype(np.float64)
        off = np.abs(question.estimates(codes, norms) - true)
        assert (off <= question.slack + ROUNDING / 2).all()
        assert (np.abs(question.scores(codes, norms) - true) < 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), DIMENSIONS, st.floats(0, 3))
def test_what_is_kept_of_vectors_is_near_them_and_is_kept_as_it_is(
    seed: int, count: int, dimensions: int, spikes: float
) -> None:
    rows = rows_of(seed, count, dimensions, spikes)
    kept = as_kept(rows)
    assert np.array_equal(as_kept(kept), kept)
    steps = np.abs(rows).max(axis=1) / 127  # each component is off by half a step at most
    assert (1 - (kept.astype(np.float32) * rows).sum(axis=1) < dimensions * steps**2 / 8 + 1e-3).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), DIMENSIONS)
def test_a_score_is_the_same_to_the_bit_alone_and_anywhere_among_others(seed: int, count: int, dimensions: int) -> None:
    codes, norms = code_rows(rows_of(seed, count, dimensions, 0.5), own)
    question = QueryVector(rows_of(seed + 1, 1, dimensions, 0.5)[0], dimensions)
    together = question.scores(codes, norms)
    order = np.random.default_rng(seed).permutation(count)
    assert question.scores(codes[order], norms[order]).tobytes() == together[order].tobytes()
    for place in range(min(count, 20)):
        alone = slice(place, place + 1)
        assert question.scores(codes[alone], norms[alone]).tobytes() == together[alone].tobytes()
    shifted = np.empty((count + 1, dimensions), np.int8)  # another alignment in memory
    shifted[0], shifted[1:] = 0, codes
    assert question.scores(shifted[1:], norms).tobytes() == together.tobytes()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 5), st.integers(1, 80), st.floats(0, 3))
def test_the_nearest_are_those_of_a_full_comparison(seed: int, count: int, windows: int, k: int, spikes: float) -> None:
    rows = rows_of(seed, count * windows, 16, spikes)
    rows[:: max(1, seed % 7)] = rows[0]  # equals
    view = VectorIndex(16, "s")
    view.put_many(range(count), list(rows.reshape(count, windows, 16)))
    query = rows_of(seed + 1, 1, 16, spikes)[0]
    best = QueryVector(query, 16).sims(rows.astype(np.float16)).reshape(count, windows).max(axis=1)
    order = np.lexsort((np.arange(count), -best))[:k]
    hits = view.nearest(query, k)
    assert hits.numbers.tolist() == order.tolist()
    assert hits.sims.tobytes() == best[order].tobytes()
