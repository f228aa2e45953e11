"""The layout of vectors in two dimensions: neighbours, weights, forces, and where later points are put. SPEC 10"""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_core.knowledge.map_layout import (
    Floats,
    MapEdges,
    fit_to_unit,
    lay_out,
    nearest_neighbours,
    optimise,
    place_by_neighbours,
    principal_components,
    weighted_edges,
)
from tests.support.map_quality import trustworthiness

FAR = -9.0  # below every cosine


def result(steps: Generator[float, None, Any]) -> Any:
    """The result of steps whose shares rise from 0 to 1."""
    shares = [0.0]
    while True:
        try:
            shares.append(next(steps))
        except StopIteration as done:
            assert shares == sorted(shares)
            assert shares[-1] <= 1.0
            return done.value


def grouped(count: int, groups: int, dimensions: int = 32) -> tuple[Floats, NDArray[np.int64]]:
    """Unit vectors around some centres, and the group of each."""
    chance = np.random.default_rng(3)
    group = chance.integers(0, groups, count)
    rows = chance.normal(size=(groups, dimensions))[group] + 0.4 * chance.normal(size=(count, dimensions))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), group


def others(vectors: Floats) -> NDArray[np.int64]:
    """All others of each vector, the nearest first."""
    sims = vectors @ vectors.T
    np.fill_diagonal(sims, FAR)
    return np.argsort(-sims, axis=1, kind="stable")[:, :-1]


def test_neighbours_of_few_vectors_are_exact() -> None:
    vectors, _ = grouped(300, 6)
    near, sims = result(nearest_neighbours(300, lambda places: vectors[places], 5, np.random.default_rng(0)))
    assert (near == others(vectors)[:, :5]).mean() > 0.999  # but for equal cosines
    assert sims == pytest.approx(np.take_along_axis(vectors @ vectors.T, near, axis=1), abs=1e-5)


def test_neighbours_of_many_vectors_are_mostly_found_in_the_nearest_cells() -> None:
    vectors, _ = grouped(1_000, 300, dimensions=8)
    near, _ = result(nearest_neighbours(1_000, lambda at: vectors[at], 5, np.random.default_rng(0), cell_rows=25))
    wanted = others(vectors)[:, :5]
    found = np.mean([len({*a} & {*b}) / 5 for a, b in zip(near.tolist(), wanted.tolist(), strict=True)])
    assert 0.85 < found < 1.0
    assert all(place not in row for place, row in enumerate(near.tolist()))


def test_an_edge_of_both_directions_weighs_what_either_would_and_of_the_nearest_is_1() -> None:
    near = np.array([[1, 2], [0, 2], [1, 0]])
    distances = np.array([[0.1, 0.5], [0.1, 0.3], [0.3, 0.5]], np.float32)
    edges = result(weighted_edges(near, distances))
    found = {(h, t): w for h, t, w in zip(edges.heads.tolist(), edges.tails.tolist(), edges.weights, strict=True)}
    assert found.keys() == {(0, 1), (0, 2), (1, 2)}
    assert found[0, 1] == pytest.approx(1.0)  # each is the nearest of the other: 1 + 1 - 1
    # The weights of a point sum to log2(2) = 1, of which the nearest has 1: the second has next to nothing.
    assert found[0, 2] == pytest.approx(0.0, abs=1e-3)
    assert found[1, 2] == pytest.approx(1.0, abs=1e-3)


def test_principal_components_are_those_of_the_widest_spread() -> None:
    rows = np.array([[3, 0, 0], [-3, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0.1], [0, 0, -0.1]], np.float32)
    found = result(principal_components(6, lambda places: rows[places]))
    assert np.abs(found) == pytest.approx(np.abs(rows[:, :2]), abs=1e-5)


def test_groups_lie_together_and_neighbours_are_kept_better_than_by_principal_components() -> None:
    vectors, group = grouped(600, 20)

    def read(places: NDArray[np.int64]) -> Floats:
        return vectors[places]

    positions = result(lay_out(600, read, np.random.default_rng(1)))
    near = others(vectors)
    flat = result(principal_components(600, read))
    assert trustworthiness(near, positions, 15) > 0.95 > trustworthiness(near, flat, 15)
    square = ((positions[:, None] - positions[None]) ** 2).sum(axis=2)
    shown = np.argsort(square, axis=1)[:, 1:6]
    assert (group[shown] == group[:, None]).mean() > 0.95
    assert np.abs(positions).max() <= 1.5
    again = result(lay_out(600, read, np.random.default_rng(1)))
    assert (positions == again).all()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_few_or_equal_vectors_have_a_layout(count: int) -> None:
    vectors = np.zeros((count, 8), np.float32)
    vectors[:, 0] = 1.0
    positions = result(lay_out(count, lambda places: vectors[places], np.random.default_rng(1)))
    assert positions.shape == (count, 2)
    assert np.isfinite(positions).all()
    assert len({tuple(each) for each in positions.tolist()}) == count


def test_a_layout_is_fitted_such_that_what_lies_far_out_does_not_shrink_it() -> None:
    positions = np.array([[float(n), -float(n)] for n in range(-99, 100)] + [[1e6, 0.0]], np.float32)
    fitted = fit_to_unit(positions)
    assert 0.95 <= np.abs(fitted[:-1]).max() <= 1.05
    assert fitted[-1, 0] == 1.5


def test_a_later_point_lies_among_its_neighbours_nearest_to_the_most_similar() -> None:
    chance = np.random.default_rng(1)
    positions = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [9, 9]], np.float32)
    sims = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1], np.float32)
    x, y = place_by_neighbours(sims, positions, chance)
    assert 0.0 < x < 0.35
    assert 0.0 < y < 0.35
    alone = place_by_neighbours(np.array([1.0], np.float32), positions[3:4], chance)
    assert alone == pytest.approx([1.0, 1.0], abs=0.02)
    assert alone.tolist() != [1.0, 1.0]


def test_trustworthiness_counts_false_neighbours_by_their_ranks() -> None:
    near = np.array([[1, 2, 3], [0, 2, 3], [3, 1, 0], [2, 1, 0]])
    right = np.array([[0, 0], [1, 0], [5, 0], [5.5, 0]], np.float32)
    assert trustworthiness(near, right, 1) == 1.0
    wrong = np.array([[0, 0], [5, 0], [5.5, 0], [1, 0]], np.float32)
    # The nearest shown of 0 is 3 (rank 3), of 1 it is 2 (rank 2), of 2 it is 1 (rank 2), of 3 it is 0 (rank 3):
    # 2 + 1 + 1 + 2 = 6 too far; 1 - 2 · 6 / (4 · 1 · (8 - 3 - 1)) = 0.25
    assert trustworthiness(near, wrong, 1) == pytest.approx(0.25)


def test_points_that_are_not_joined_are_driven_apart_on_both_axes() -> None:
    positions = np.random.default_rng(2).normal(0, 0.01, (50, 2)).astype(np.float32)
    edges = MapEdges(np.arange(49), np.arange(1, 50), np.full(49, 0.5, np.float32))
    apart = result(optimise(positions, edges, np.random.default_rng(1)))
    assert apart.std(axis=0).min() > 1.0
