"""The middle of what is remembered: exact, whatever the order. SPEC 5.3"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_daemon.indexing.vectors.active_index import CENTROIDS_FILE, Centroids, Halves, Scope
from mnemo_store.disk import Disk
from mnemo_store.indexes.vectors import VectorIndex

HERE = Scope("local", "default")
THERE = Scope("anna", "default")
META = {"seq": 3}  # of a saved view


def rows(*windows: tuple[float, ...]) -> Halves:
    return np.array(windows, np.float16)


def test_L11_the_centroid_is_the_unit_vector_in_the_middle_of_a_users_vectors() -> None:
    centroids = Centroids()
    centroids.put(0, HERE, rows((1, 0)), None)
    centroids.put(1, HERE, rows((0, 1)), None)
    centroids.put(2, THERE, rows((-1, 0)), None)
    middle = centroids.centroid(HERE)
    assert middle is not None
    assert middle.tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    other = centroids.centroid(THERE)
    assert other is not None
    assert other.tolist() == [-1.0, 0.0]


def test_L11_without_vectors_there_is_no_centroid() -> None:
    centroids = Centroids()
    assert centroids.centroid(HERE) is None
    centroids.put(0, HERE, rows((1, 0)), None)
    assert centroids.centroid(HERE, without=rows((1, 0))) is None
    centroids.put(1, HERE, rows((-1, 0)), None)
    assert centroids.centroid(HERE) is None, "opposite vectors have no middle"


def test_dropped_and_moved_rows_leave_nothing_behind() -> None:
    centroids = Centroids()
    centroids.put(0, HERE, rows((1, 0), (0, 1)), None)
    centroids.put(0, THERE, rows((1, 0), (0, 1)), rows((1, 0), (0, 1)))
    assert centroids.sums() == {THERE: (2, [1 << 24, 1 << 24])}
    assert centroids.scope_of(0) == THERE
    centroids.drop(0, rows((1, 0), (0, 1)))
    assert centroids.sums() == {}


def test_rows_already_in_the_index_are_counted_once() -> None:
    centroids = Centroids(uncounted=[0, 1])
    centroids.put(1, HERE, rows((0, 1)), rows((1, 0)))  # replaced before it was counted
    centroids.add_existing([(0, HERE, rows((1, 0))), (1, HERE, rows((0, 1)))])
    assert centroids.sums() == {HERE: (2, [1 << 24, 1 << 24])}
    centroids.drop(7, rows((1, 0)))
    assert centroids.sums() == {HERE: (2, [1 << 24, 1 << 24])}


def test_the_smallest_half_float_is_not_lost_next_to_the_largest_sum() -> None:
    centroids, tiny = Centroids(), 2.0**-24
    for number in range(1000):
        centroids.put(number, HERE, rows((1, 0)), None)
    centroids.put(1000, HERE, rows((tiny, 1)), None)
    assert centroids.sums() == {HERE: (1001, [(1000 << 24) + 1, 1 << 24])}


STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),  # the number
        st.sampled_from([HERE, THERE, None]),  # where it goes; None: dropped
        st.lists(st.tuples(*[st.floats(-1, 1, width=16)] * 3), min_size=1, max_size=3),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_sums_are_those_of_a_recomputation_in_any_order(
    steps: list[tuple[int, Scope | None, list[tuple[float, float, float]]]],
) -> None:
    kept = Centroids()
    held: dict[int, tuple[Scope, Halves]] = {}
    for number, scope, windows in steps:
        before = held[number][1] if number in held else None
        if scope is None:
            kept.drop(number, before)
            held.pop(number, None)
        else:
            kept.put(number, scope, rows(*windows), before)
            held[number] = (scope, rows(*windows))
    again, backwards = Centroids(), Centroids()
    again.add_existing((number, *each) for number, each in held.items())
    backwards.add_existing((number, *each) for number, each in reversed(held.items()))
    assert kept.sums() == again.sums() == backwards.sums()
    for scope in (HERE, THERE):
        one, other = kept.centroid(scope), backwards.centroid(scope)
        assert (None if one is None else one.tolist()) == (None if other is None else other.tolist())


def filled(folder: Path) -> tuple[VectorIndex, Centroids]:
    """A view and its sums, both saved."""
    view, centroids = VectorIndex(2, "space"), Centroids()
    for number, scope, vector in ((0, HERE, (1, 0)), (1, HERE, (0, 1)), (5, THERE, (-1, 0))):
        view.put(number, rows(vector))
        centroids.put(number, scope, rows(vector), None)
    view.save(folder, META, Disk())
    centroids.save(folder, view, META, Disk())
    return view, centroids


def test_sums_are_saved_with_their_view(tmp_path: Path) -> None:
    _, centroids = filled(tmp_path)
    view, meta = VectorIndex.load(tmp_path, 2, "space")
    found = Centroids.load(tmp_path, view, meta)
    assert found.sums() == centroids.sums()
    assert [found.scope_of(number) for number in (0, 1, 5, 6)] == [HERE, HERE, THERE, None]
    assert not found.uncounted
    found.drop(0, rows((1, 0)))
    centroids.drop(0, rows((1, 0)))
    assert found.sums() == centroids.sums()


@pytest.mark.parametrize("meta", [META, {"seq": 4}])
def test_sums_of_another_state_of_the_view_are_counted_again(tmp_path: Path, meta: dict[str, int]) -> None:
    view, _ = filled(tmp_path)
    if meta == META:
        view.drop(5)
        view.put(5, rows((0, -1)))  # as many vectors as before, and another one
    view.save(tmp_path, meta, Disk())  # and a kill before the sums are saved
    loaded, found = VectorIndex.load(tmp_path, 2, "space")
    assert list(Centroids.load(tmp_path, loaded, found).uncounted) == [0, 1, 5]


def test_damaged_sums_are_counted_again_and_some_are_never_saved(tmp_path: Path) -> None:
    view, _ = filled(tmp_path)
    file = tmp_path / CENTROIDS_FILE
    file.write_bytes(file.read_bytes()[:-1])
    assert list(Centroids.load(tmp_path, view, META).uncounted) == [0, 1, 5]
    file.unlink()
    Centroids(uncounted=[5]).save(tmp_path, view, META, Disk())
    assert not file.exists()
