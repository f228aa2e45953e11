"""The vector index: answers, refusals, and files. SPEC 2.3, 3.1, 7.2."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes.vectors import BadVector, VectorIndex
from tests.support.synthetic_vectors import SPACE, WIDE, assert_same, filled, made

# Halves and quarters are exact in f16 and float32, so these products are exact too.
NORTH = np.array([1, 0, 0, 0], np.float32)
EAST = np.array([0, 1, 0, 0], np.float32)
ALL = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
MIXED = np.array([0.5, -0.5, 0.5, -0.5], np.float32)


def test_the_most_similar_comes_first_with_its_cosine() -> None:
    view = VectorIndex(4, SPACE)
    view.put(7, NORTH[None])
    view.put(3, ALL[None])
    view.put(5, EAST[None])
    hits = view.nearest(NORTH, 2)
    assert hits.numbers.tolist() == [7, 3]
    assert hits.sims.tolist() == [1.0, 0.5]
    assert hits.numbers.dtype == np.uint32
    assert hits.sims.dtype == np.float32


def test_equal_similarities_are_in_order_of_number() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([9, 2, 4], [ALL[None], MIXED[None], ALL[None]])
    assert view.nearest(NORTH, 3).numbers.tolist() == [2, 4, 9]
    assert view.nearest(NORTH, 1).numbers.tolist() == [2]


def test_a_memory_is_as_similar_as_its_best_window_and_comes_once() -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, np.stack([EAST, ALL, MIXED]))
    view.put(2, np.stack([EAST, NORTH]))
    view.put(3, EAST[None])
    hits = view.nearest(NORTH, 10)
    assert hits.numbers.tolist() == [2, 1, 3]
    assert hits.sims.tolist() == [1.0, 0.5, 0.0]
    assert (len(view), view.rows) == (3, 6)


def test_many_windows_of_one_memory_do_not_crowd_out_the_others() -> None:
    view = VectorIndex(4, SPACE)
    view.put(0, np.repeat(NORTH[None], 45, axis=0))
    view.put_many(range(1, 41), [ALL[None]] * 40)
    assert view.nearest(NORTH, 5).numbers.tolist() == [0, 1, 2, 3, 4]


def test_putting_a_known_number_replaces_all_its_windows() -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, np.stack([NORTH, ALL]))
    view.put(1, EAST[None])
    assert view.nearest(NORTH, 5).sims.tolist() == [0.0]
    assert (len(view), view.rows) == (1, 1)


def test_of_a_number_given_twice_at_once_the_later_windows_stand() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([1, 2, 1], [NORTH[None], EAST[None], ALL[None]])
    hits = view.nearest(NORTH, 5)
    assert (hits.numbers.tolist(), hits.sims.tolist()) == ([1, 2], [0.5, 0.0])


def test_dropping_a_number_removes_it_and_dropping_it_again_changes_nothing() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([1, 2], [NORTH[None], ALL[None]])
    for _ in range(2):
        view.drop(1)
    view.drop(99)
    assert view.nearest(NORTH, 5).numbers.tolist() == [2]
    assert 1 not in view
    assert 2 in view
    assert -1 not in view
    assert view.numbers().tolist() == [2]
    assert view.vectors_of(1) is None


def test_vectors_are_returned_as_they_are_kept() -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, np.stack([NORTH, ALL]))
    kept = view.vectors_of(1)
    assert kept is not None
    assert kept.dtype == np.float16
    assert kept.tolist() == [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]]
    assert view.vectors_of(0) is None


def test_similarities_of_given_numbers_come_in_their_order_and_are_nan_where_there_is_none() -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, np.stack([EAST, ALL]))
    view.put(4, NORTH[None])
    sims = view.sims(NORTH, [4, 2, 1, 1_000_000, 4])
    assert np.array_equal(sims, np.array([1, np.nan, 0.5, np.nan, 1], np.float32), equal_nan=True)
    assert view.sims(NORTH, []).tolist() == []


def test_a_cached_mask_follows_every_change() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([0, 1, 2], [NORTH[None], ALL[None], NORTH[None]])
    allowed = np.array([True, True, True, True, False])
    allowed.flags.writeable = False
    question = view.prepare_query(NORTH)
    for _ in range(2):
        assert view.nearest(question, 5, allowed).numbers.tolist() == [0, 2, 1]
    view.drop(0)
    assert view.nearest(question, 5, allowed).numbers.tolist() == [2, 1]
    view.put(3, NORTH[None])
    view.put(4, NORTH[None])
    for _ in range(2):
        assert view.nearest(question, 5, allowed).numbers.tolist() == [2, 3, 1]
        assert view.nearest(question, 5, allowed[:3]).numbers.tolist() == [2, 1]
        assert view.nearest(question, 5, allowed, exact=True).numbers.tolist() == [2, 3, 1]
    view.put(1, np.stack([EAST, NORTH]))  # two windows: the number of rows is another
    assert view.nearest(question, 5, allowed).numbers.tolist() == [1, 2, 3]
    assert view.sims(question, [1, 0, 4]).tolist() == pytest.approx([1.0, np.nan, 1.0], nan_ok=True)


def test_the_filter_is_by_number_and_what_is_beyond_its_end_is_out() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([0, 1, 2, 3], [NORTH[None], ALL[None], NORTH[None], NORTH[None]])
    allowed = np.array([False, True, True])
    assert view.nearest(NORTH, 5, allowed).numbers.tolist() == [2, 1]
    assert view.nearest(NORTH, 5, np.zeros(0, np.bool_)).numbers.tolist() == []
    assert view.nearest(NORTH, 5, np.ones(1_000, np.bool_)).numbers.tolist() == [0, 2, 3, 1]


def test_an_empty_index_answers_with_nothing() -> None:
    view = VectorIndex(4, SPACE)
    assert view.nearest(NORTH, 5).numbers.tolist() == []
    assert len(view) == 0
    assert np.isnan(view.sims(NORTH, [0])).all()
    assert not view.needs_index()


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        (np.array([[np.nan, 0, 0, 1]], np.float32), "NaN"),
        (np.array([[np.inf, 0, 0, 0]], np.float32), "infinity"),
        (np.array([[1e30, 0, 0, 0]], np.float32), "length 1e\\+30"),
        (np.zeros((1, 4), np.float32), "all zeros"),
        (np.array([[3, 4, 0, 0]], np.float16), "length 5, not 1"),
        (np.ones((1, 5), np.float32), "shape"),
        (np.ones(4, np.float32), "shape"),
        (np.ones((0, 4), np.float32), "0 windows"),
        (np.array([[1, 0, 0, 0]]), "int64"),
    ],
)
def test_a_vector_that_cannot_be_compared_is_refused_and_nothing_changes(
    windows: NDArray[np.float32], why: str
) -> None:
    view = VectorIndex(4, SPACE)
    view.put(8, NORTH[None])
    with pytest.raises(BadVector, match=why) as raised:
        view.put_many([1, 8, 2], [ALL[None], windows, ALL[None]])
    assert "memory 8" in str(raised.value)
    assert view.numbers().tolist() == [8]
    assert view.nearest(NORTH, 5).sims.tolist() == [1.0]


@pytest.mark.parametrize("query", [np.full(4, np.nan), np.zeros(4), np.ones(3), np.full(4, 2.0), np.eye(4)])
def test_a_query_that_cannot_be_compared_is_refused(query: NDArray[np.float64]) -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, NORTH[None])
    for ask in (lambda: view.nearest(query, 1), lambda: view.sims(query, [1])):
        with pytest.raises(BadVector, match="the query"):
            ask()


def test_wrong_numbers_counts_and_filters_are_refused() -> None:
    view = VectorIndex(4, SPACE)
    for number in (-1, 1 << 26):
        with pytest.raises(ValueError, match="number"):
            view.put(number, NORTH[None])
    with pytest.raises(ValueError, match="k is 0"):
        view.nearest(NORTH, 0)
    with pytest.raises(ValueError, match="bools"):
        view.nearest(NORTH, 1, np.array([1, 0]))
    with pytest.raises(ValueError, match="2 numbers"):
        view.put_many([1, 2], [NORTH[None]])


def test_the_order_in_which_memories_came_does_not_show_in_one_byte() -> None:
    vectors, queries = made(3_000), made(20, seed=9)
    straight, shuffled = filled(3_000), VectorIndex(WIDE, SPACE)
    for number in np.random.default_rng(3).permutation(3_000).tolist():
        shuffled.put(number, vectors[number - 7][None])  # something else first
        shuffled.put(number, vectors[number][None])
    some = np.random.default_rng(4).random(3_000) < 0.1
    most = np.random.default_rng(4).random(3_000) < 0.9
    for query in queries:
        for k, allowed in ((40, None), (40, some), (40, most), (3_000, None)):
            assert_same(straight.nearest(query, k, allowed), shuffled.nearest(query, k, allowed))
        numbers = np.arange(0, 3_000, 7)
        assert straight.sims(query, numbers).tobytes() == shuffled.sims(query, numbers).tobytes()
        hits = straight.nearest(query, 40)
        assert straight.sims(query, hits.numbers).tobytes() == hits.sims.tobytes()


def test_a_row_that_the_first_code_of_a_query_flatters_does_not_push_out_a_better_one() -> None:
    """The query has one large component, which sets the step of its first code: 1/127 of 0.997, so 0.00785.

    On the other 383 places it has 0.004, just over half a step, so its first code gives a row that is 1/√383 = 0.0511
    on all of these 383 · 0.00785 · 0.0511 = 0.154, where 0.078 is true. The other row has 0.085.
    """
    query, flattered, better = np.full(384, 0.004), np.full(384, 1 / np.sqrt(383)), np.zeros(384)
    query[0] = np.sqrt(1 - np.square(query[1:]).sum())
    flattered[0] = 0.0
    better[0] = 0.085 / 0.997
    better[1:383] = np.tile([1, -1], 191) * np.sqrt((1 - better[0] ** 2) / 382)
    view = VectorIndex(384, SPACE)
    view.put_many([1, 2], [flattered[None], better[None]])
    hits = view.nearest(query, 1)
    assert hits.numbers.tolist() == [2]
    assert hits.sims[0] == pytest.approx(0.085, abs=0.001)


def test_many_near_windows_of_one_memory_do_not_hide_which_other_is_second() -> None:
    """A vector with p on the first axis and m · p/127 on the 383 others is unit for p² (1 + 383 m²/127²) = 1, and its
    product with the query, 0.0511 on those others, is m · p/127 · 19.57: 0.861 for m = 11, 0.811 for 9, 0.797 for
    8.55. But the last one's code rounds m to 9, so that it might be 0.880, while the one of 0.811 is known exactly.
    """

    def with_steps(steps: float) -> NDArray[np.float64]:
        row = np.full(384, steps / 127)
        row[0] = 1
        row /= np.linalg.norm(row)
        return row

    query = np.full(384, 1 / np.sqrt(383))
    query[0] = 0
    view = VectorIndex(384, SPACE)
    view.put(1, np.repeat(with_steps(11)[None], 4, axis=0))
    view.put_many([2, 3], [with_steps(9)[None], with_steps(8.55)[None]])
    hits = view.nearest(query, 2)
    assert hits.numbers.tolist() == [1, 2]
    assert hits.sims == pytest.approx([0.861, 0.811], abs=0.001)


def test_a_search_works_on_the_rows_as_they_were_when_it_began() -> None:
    view = VectorIndex(4, SPACE)
    view.put_many([1, 2], [NORTH[None], ALL[None]])
    began = view._rows_now()
    view.drop(1)
    view.put(2, EAST[None])
    assert began.alive.tolist() == [True, True]
    assert began.vectors(np.arange(2)).tolist() == [NORTH.tolist(), ALL.tolist()]


def test_repeated_replacement_does_not_use_more_memory() -> None:
    view = VectorIndex(4, SPACE)
    for _ in range(20_000):
        view.put(1, NORTH[None])
    assert len(view._tail.serials) < 1_000


# On disk


def test_a_loaded_index_answers_with_the_same_bytes(tmp_path: Path) -> None:
    view = filled(9_000)  # more than one save may write again: a base and what came since
    view.save(tmp_path, {"seq": 1}, Disk())
    view.put_many([1, 9_500], [made(3, 5), made(1, 6)])
    view.drop(17)
    view.save(tmp_path, {"seq": 2, "store": "x"}, Disk())
    loaded, meta = VectorIndex.load(tmp_path, WIDE, SPACE)
    assert meta == {"seq": 2, "store": "x"}
    assert (len(loaded), loaded.rows) == (len(view), view.rows) == (9_000, 9_002)
    assert loaded.numbers().tolist() == view.numbers().tolist()
    for query in made(10, seed=9):
        assert_same(view.nearest(query, 50), loaded.nearest(query, 50))
        assert_same(
            view.nearest(query, 50, np.arange(9_501) % 50 == 1), loaded.nearest(query, 50, np.arange(9_501) % 50 == 1)
        )
    assert loaded._base.codes.flags.writeable is False  # mapped
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_loaded_index_goes_on_as_the_saved_one(tmp_path: Path) -> None:
    view = filled(5_000)
    view.save(tmp_path, {}, Disk())
    loaded, _ = VectorIndex.load(tmp_path, WIDE, SPACE)
    for each in (view, loaded):
        each.put_many(range(4_000, 7_000), list(made(3_000, 5)[:, None]))
        each.drop(3)
    loaded.save(tmp_path, {}, Disk())
    again, _ = VectorIndex.load(tmp_path, WIDE, SPACE)
    for query in made(5, seed=9):
        assert_same(view.nearest(query, 100), loaded.nearest(query, 100))
        assert_same(view.nearest(query, 100), again.nearest(query, 100))


def test_a_small_change_does_not_write_the_base_again(tmp_path: Path) -> None:
    view = filled(20_000)
    view.save(tmp_path, {}, Disk())
    (base,) = tmp_path.glob("*.rows")
    before = (base.name, base.stat().st_mtime_ns)
    view.put(5, made(1))
    view.save(tmp_path, {}, Disk())
    (base,) = tmp_path.glob("*.rows")
    assert (base.name, base.stat().st_mtime_ns) == before
    assert (tmp_path / "vectors.view").stat().st_size < 10_000


def test_dead_rows_leave_the_disk_in_time(tmp_path: Path) -> None:
    view = filled(12_000)
    view.save(tmp_path, {}, Disk())
    for number in range(0, 12_000, 2):
        view.drop(number)
    view.save(tmp_path, {}, Disk())
    row_bytes = WIDE * 3 + 16
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 6_000 * row_bytes + 10_000
    loaded, _ = VectorIndex.load(tmp_path, WIDE, SPACE)
    assert loaded.numbers().tolist() == list(range(1, 12_000, 2))


def test_saving_elsewhere_makes_a_complete_index_there(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    view = filled(9_000)
    view.save(here, {}, Disk())
    view.save(there, {}, Disk())
    shutil.rmtree(here)
    assert_same(VectorIndex.load(there, WIDE, SPACE)[0].nearest(made(1)[0], 9), view.nearest(made(1)[0], 9))


def test_an_index_of_another_space_or_other_dimensions_is_not_loaded(tmp_path: Path) -> None:
    filled(10).save(tmp_path, {}, Disk())
    with pytest.raises(IndexMismatch, match="mini/1/plain"):
        VectorIndex.load(tmp_path, WIDE, "mini/2/plain")
    with pytest.raises(IndexMismatch, match="24"):
        VectorIndex.load(tmp_path, WIDE + 1, SPACE)


def test_without_a_saved_file_there_is_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(IndexMismatch, match="No such file"):
        VectorIndex.load(tmp_path, WIDE, SPACE)


@pytest.mark.parametrize("suffix", ["view", "rows"])
def test_one_flipped_byte_anywhere_is_found(tmp_path: Path, suffix: str) -> None:
    filled(6_000).save(tmp_path, {"seq": 12345}, Disk())
    (path,) = tmp_path.glob(f"*.{suffix}")
    whole = path.read_bytes()
    places = [*range(0, 600, 7), *np.linspace(600, len(whole) - 1, 40).astype(int).tolist()]
    for place in places:
        if place >= len(whole):
            continue
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x01]) + whole[place + 1 :])
        with pytest.raises(IndexMismatch):
            VectorIndex.load(tmp_path, WIDE, SPACE)
    path.write_bytes(whole)
    assert VectorIndex.load(tmp_path, WIDE, SPACE)[1] == {"seq": 12345}


@pytest.mark.parametrize("suffix", ["view", "rows"])
def test_a_cut_off_or_missing_file_is_found(tmp_path: Path, suffix: str) -> None:
    filled(6_000).save(tmp_path, {}, Disk())
    (path,) = tmp_path.glob(f"*.{suffix}")
    whole = path.read_bytes()
    for size in (0, 5, 40, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(IndexMismatch):
            VectorIndex.load(tmp_path, WIDE, SPACE)
    path.unlink()
    with pytest.raises(IndexMismatch):
        VectorIndex.load(tmp_path, WIDE, SPACE)


def test_a_base_of_another_save_is_not_taken_for_this_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, seed in ((one, 1), (other, 2)):
        folder.mkdir()
        filled(6_000, seed=seed).save(folder, {}, Disk())
    (base,) = one.glob("*.rows")
    shutil.copy(other / base.name, base)
    with pytest.raises(IndexMismatch, match="is not the base"):
        VectorIndex.load(one, WIDE, SPACE)


class FailingDisk(Disk):
    """Fails at its n-th sync or rename."""

    def __init__(self, failing: int):
        self.failing = failing

    def _step(self) -> None:
        self.failing -= 1
        if self.failing == 0:
            raise OSError(28, "No space left on device")

    def sync(self, fd: int) -> None:
        self._step()
        super().sync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)


def test_whichever_write_fails_the_last_save_still_loads_and_the_next_one_succeeds(tmp_path: Path) -> None:
    query = made(1, seed=9)[0]
    view = filled(6_000)
    view.save(tmp_path, {"seq": 1}, Disk())
    saved = view.nearest(query, 20)
    view.put_many(range(6_000, 12_000), list(made(6_000, 5)[:, None]))
    now = view.nearest(query, 20)
    for failing in (1, 2, 3, 4):  # the base's sync and rename, the view's sync and rename
        with pytest.raises(OSError, match="No space"):
            view.save(tmp_path, {"seq": 2}, FailingDisk(failing))
        loaded, meta = VectorIndex.load(tmp_path, WIDE, SPACE)
        assert meta == {"seq": 1}
        assert_same(loaded.nearest(query, 20), saved)
        assert_same(view.nearest(query, 20), now)
        view = filled(6_000)  # a view that has not made its base yet
        view.put_many(range(6_000, 12_000), list(made(6_000, 5)[:, None]))
    view.save(tmp_path, {"seq": 2}, Disk())
    assert_same(VectorIndex.load(tmp_path, WIDE, SPACE)[0].nearest(query, 20), now)
    assert len(list(tmp_path.iterdir())) == 2  # what was left of the failures is gone


# Several at once


def test_a_search_during_changes_sees_a_memory_before_or_after_never_between(tmp_path: Path) -> None:
    view = VectorIndex(4, SPACE)
    view.put_many(range(50), [MIXED[None]] * 50)
    view.put(7, np.stack([NORTH, EAST]))
    stop, wrong, looked = threading.Event(), [], [0]

    def search() -> None:
        while not stop.is_set():
            hits = view.nearest(NORTH, 1)
            sims = view.sims(EAST, [7])
            looked[0] += 1
            if hits.numbers.tolist() != [7] or hits.sims.tolist() != [1.0] or sims.tolist() != [1.0]:
                wrong.append((hits, sims))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(3_000):  # always one window north and one east, in rows that move
        view.put(7, np.stack([NORTH, EAST] if turn % 2 else [EAST, NORTH, ALL]))
        if turn % 500 == 0:
            view.save(tmp_path, {}, Disk())
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert looked[0] > 50


def test_a_small_index_never_imports_usearch() -> None:
    program = (
        "import sys, numpy as np; from mnemo_store.indexes.vectors import VectorIndex; v = VectorIndex(4, 's');"
        "v.put(1, np.eye(4, dtype=np.float32)); v.nearest(np.eye(4)[0], 3); v.needs_index();"
        "sys.exit('usearch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_first_window_of_each_number_is_read_in_their_order_and_zeros_where_there_is_none() -> None:
    view = VectorIndex(4, SPACE)
    view.put(1, np.stack([NORTH, EAST]))
    view.put(5, ALL[None])
    view.put(2, EAST[None])
    view.drop(2)
    assert view.first_of([5, 2, 1, 99]).tolist() == [ALL.tolist(), [0.0] * 4, NORTH.tolist(), [0.0] * 4]
    assert view.first_of([]).shape == (0, 4)
