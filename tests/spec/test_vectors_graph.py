"""The vector index with a graph: when it is built, what it finds, and its file. SPEC 7.2"""

from pathlib import Path

import numpy as np
import pytest

from mnemo_store.disk import Disk
from mnemo_store.indexes.vector_kernels import as_kept
from mnemo_store.indexes.vectors import VectorIndex
from tests.support.synthetic_vectors import SPACE, WIDE, assert_same, filled, made, never

NORTH = np.array([1, 0, 0, 0], np.float32)
MIXED = np.array([0.5, -0.5, 0.5, -0.5], np.float32)


def test_an_index_is_needed_above_the_exact_limit_and_when_it_no_longer_covers_enough(tmp_path: Path) -> None:
    view = filled(1_000, exact_max=1_000)
    assert not view.needs_index()
    view.put(1_000, made(1))
    assert view.needs_index()
    view.build_index(tmp_path, Disk(), never)
    assert not view.needs_index()
    view.put_many(range(2_000, 2_250), list(made(250, 3)[:, None]))  # a quarter of exact_max may wait
    assert not view.needs_index()
    view.put(2_250, made(1))
    assert view.needs_index()
    view.build_index(tmp_path, Disk(), never)
    assert not view.needs_index()
    for number in range(312):  # of 1,252 rows in the graph a quarter, 313, may be dead
        view.drop(number)
    assert not view.needs_index()
    for number in range(312, 320):
        view.drop(number)
    assert not view.needs_index()  # 932 are left: all exact
    view.put_many(range(3_000, 3_100), list(made(100, 3)[:, None]))
    assert view.needs_index()


def test_up_to_100_000_rows_no_graph_is_wanted() -> None:
    view = VectorIndex(4, SPACE)
    rows = np.tile(MIXED, (1_000, 1))
    view.put_many(range(100), [rows] * 100)
    assert not view.needs_index()
    view.put(100, NORTH[None])
    assert view.needs_index()


def test_a_cancelled_build_changes_nothing(tmp_path: Path) -> None:
    view = filled(2_000, exact_max=500)
    looks = iter([False, True])
    view.build_index(tmp_path, Disk(), lambda: next(looks))
    assert view.needs_index()
    assert list(tmp_path.iterdir()) == []


def test_rows_after_the_graph_are_found_and_dropped_ones_are_not(tmp_path: Path) -> None:
    view = filled(3_000, exact_max=500)
    view.build_index(tmp_path, Disk(), never)
    query = made(1, seed=9)[0]
    best = view.nearest(query, 5).numbers.tolist()
    view.drop(best[0])
    view.put(best[1], -query[None])
    for number in (4_998, 4_999, 5_000):
        view.put(number, query[None])
    view.drop(4_998)
    view.put(4_999, -query[None])
    hits = view.nearest(query, 5)
    assert hits.numbers[0] == 5_000
    assert hits.sims[0] == pytest.approx(1, abs=1e-3)
    assert not {best[0], best[1], 4_998, 4_999} & set(hits.numbers.tolist())
    assert set(best[2:]) <= set(hits.numbers.tolist())


def test_a_filter_starves_nothing_whatever_its_width(tmp_path: Path) -> None:
    vectors = made(4_000)
    view = filled(4_000, exact_max=300)
    view.build_index(tmp_path, Disk(), never)
    query = made(1, seed=9)[0]
    true = as_kept(vectors).astype(np.float64) @ query.astype(np.float64)
    far = np.argsort(true)
    for count in (1, 12, 250, 350, 2_000, 3_999):
        allowed = np.zeros(4_000, np.bool_)
        allowed[far[:count]] = True  # the worst for a graph: none of the nearest are let in
        hits = view.nearest(query, 10, allowed)
        assert len(hits.numbers) == min(10, count)
        assert allowed[hits.numbers].all()
        if count <= 300:
            assert hits.numbers.tolist() == far[:count][::-1][:10].tolist()


def test_a_search_can_be_exact_next_to_a_graph(tmp_path: Path) -> None:
    view, plain = filled(3_000, exact_max=100), filled(3_000)
    view.build_index(tmp_path, Disk(), never)
    for query in made(20, seed=9):
        assert_same(view.nearest(query, 30, exact=True), plain.nearest(query, 30))


def test_with_an_index_answers_are_the_same_after_a_restart(tmp_path: Path) -> None:
    view = filled(3_000, exact_max=500)
    view.build_index(tmp_path, Disk(), never)
    view.put_many(range(2_900, 3_050), list(made(150, 3)[:, None]))
    view.save(tmp_path, {}, Disk())
    loaded, _ = VectorIndex.load(tmp_path, WIDE, SPACE, exact_max=500)
    assert not loaded.needs_index()
    assert loaded.graph_lost is None
    for query in made(30, seed=9):
        assert_same(view.nearest(query, 20), loaded.nearest(query, 20))
        assert_same(view.nearest(query, 20), view.nearest(query, 20))


def test_an_index_grows_and_is_replaced_under_a_new_name(tmp_path: Path) -> None:
    view = filled(1_500, exact_max=500)
    view.build_index(tmp_path, Disk(), never)
    view.save(tmp_path, {}, Disk())
    (first,) = tmp_path.glob("*.usearch")
    content = first.read_bytes()
    view.put_many(range(1_500, 3_000), list(made(1_500, 5)[:, None]))
    view.build_index(tmp_path, Disk(), never)
    assert first.read_bytes() == content  # still named by the save on disk
    view.save(tmp_path, {}, Disk())
    (second,) = tmp_path.glob("*.usearch")
    assert second.name != first.name
    loaded, _ = VectorIndex.load(tmp_path, WIDE, SPACE, exact_max=500)
    assert not loaded.needs_index()
    exact = filled(1_500)
    exact.put_many(range(1_500, 3_000), list(made(1_500, 5)[:, None]))
    found = sum(
        len(set(loaded.nearest(q, 10).numbers.tolist()) & set(exact.nearest(q, 10).numbers.tolist()))
        for q in made(50, seed=9)
    )
    assert found >= 495


@pytest.mark.parametrize("harm", ["flipped", "cut", "gone", "older"])
def test_a_harmed_index_costs_only_itself_and_answers_are_exact_until_it_is_built_again(
    tmp_path: Path, harm: str
) -> None:
    view = filled(2_000, exact_max=500)
    view.build_index(tmp_path, Disk(), never)
    (path,) = tmp_path.glob("*.usearch")
    older = path.read_bytes()
    view.put_many(range(2_000, 2_400), list(made(400, 5)[:, None]))
    view.build_index(tmp_path, Disk(), never)
    view.save(tmp_path, {"seq": 4}, Disk())
    (path,) = tmp_path.glob("*.usearch")
    whole = path.read_bytes()
    middle = len(whole) // 2
    match harm:
        case "flipped":
            path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        case "cut":
            path.write_bytes(whole[:middle])
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(older)
    loaded, meta = VectorIndex.load(tmp_path, WIDE, SPACE, exact_max=500)
    assert meta == {"seq": 4}
    assert loaded.needs_index()
    assert loaded.graph_lost is not None
    assert path.name in loaded.graph_lost
    for query in made(5, seed=9):
        assert_same(loaded.nearest(query, 30), view.nearest(query, 30, exact=True))
    loaded.build_index(tmp_path, Disk(), never)
    loaded.save(tmp_path, {}, Disk())
    again, _ = VectorIndex.load(tmp_path, WIDE, SPACE, exact_max=500)
    assert not again.needs_index()


def test_a_rewritten_base_leaves_the_graph_as_good_as_it_was(tmp_path: Path) -> None:
    view = filled(16_000, exact_max=2_000)
    view.build_index(tmp_path, Disk(), never)
    view.save(tmp_path, {}, Disk())
    for number in range(0, 16_000, 5):  # under the index's own bound of a quarter
        view.drop(number)
    view.put_many(range(20_000, 24_200), list(made(4_200, 5)[:, None]))
    before = [view.nearest(query, 20) for query in made(20, seed=9)]
    view.save(tmp_path, {}, Disk())
    assert len(view._base.serials) == 17_000  # what lives: 12,800 and 4,200
    for query, hits in zip(made(20, seed=9), before, strict=True):
        assert_same(view.nearest(query, 20), hits)


def test_changes_made_while_an_index_is_built_and_a_save_is_written_are_kept(tmp_path: Path) -> None:
    view = filled(5_000, exact_max=1_000)
    looks = 0

    def change() -> bool:
        nonlocal looks
        looks += 1
        view.put(9_000 + looks, made(1, looks))
        view.drop(looks)
        if looks == 10:
            view.save(tmp_path, {}, Disk())  # makes a base of it all meanwhile
        return False

    view.build_index(tmp_path, Disk(), change)
    assert looks >= 10
    view.save(tmp_path, {}, Disk())
    loaded, _ = VectorIndex.load(tmp_path, WIDE, SPACE, exact_max=1_000)
    for number in range(1, looks + 1):
        query = made(1, number)[0]
        for each in (view, loaded):
            assert each.nearest(query, 3).numbers[0] == 9_000 + number
            assert number not in each
            assert number not in each.nearest(query, 100).numbers
