"""Late interaction against the plain way to compute it; and that a text's figures do not depend on its company."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes, Floats, max_sims, quantize, weighted

DIMENSIONS = st.sampled_from([2, 16, 64, 128])
LENGTHS = st.lists(st.integers(0, 64), min_size=1, max_size=30)


def units(chance: np.random.Generator, count: int, dimensions: int) -> Floats:
    rows = chance.standard_normal((count, dimensions)) * np.exp(chance.standard_normal((count, dimensions)))
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def texts_and_query(seed: int, lengths: Sequence[int], dimensions: int) -> tuple[list[Floats], Floats]:
    chance = np.random.default_rng(seed)
    texts = [units(chance, length, dimensions) for length in lengths]
    return texts, units(chance, 1 + seed % 40, dimensions)


def best(query: Floats, texts: Sequence[Codes]) -> Floats:
    rows = np.concatenate([np.empty((0, query.shape[1]), np.int8), *texts])
    return max_sims(query, rows, np.array([len(text) for text in texts], np.int64))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), LENGTHS, DIMENSIONS)
def test_the_best_matches_are_those_of_a_full_comparison(seed: int, lengths: list[int], dimensions: int) -> None:
    texts, query = texts_and_query(seed, lengths, dimensions)
    sims = best(query, [quantize(rows) for rows in texts])
    for found, rows in zip(sims, texts, strict=True):
        plain = (query @ rows.T).max(axis=1) if len(rows) else np.zeros(len(query))
        # A code is off by half a step in each component at most: √d · 0.5 / 127 together, of a unit query.
        assert np.abs(found - plain).max() <= np.sqrt(dimensions) * 0.5 / 127 + 1e-4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), LENGTHS, DIMENSIONS)
def test_a_texts_figures_are_the_same_to_the_bit_in_any_company(seed: int, lengths: list[int], dimensions: int) -> None:
    texts, query = texts_and_query(seed, lengths, dimensions)
    codes: list[Codes] = [quantize(rows) for rows in texts]
    weights: NDArray[np.float32] = np.random.default_rng(seed).random(len(query), np.float32)
    sims = best(query, codes)
    scores = weighted(sims, weights)
    order = np.random.default_rng(seed + 1).permutation(len(codes)).tolist()
    again = best(query, [codes[place] for place in order])
    assert again.tobytes() == sims[order].tobytes()
    assert weighted(again, weights).tobytes() == scores[order].tobytes()
    for place in range(min(5, len(codes))):
        alone = best(query, codes[place : place + 1])
        assert alone.tobytes() == sims[place : place + 1].tobytes()
        assert weighted(alone, weights).tobytes() == scores[place : place + 1].tobytes()
