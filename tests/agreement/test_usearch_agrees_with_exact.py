"""The vector view ↔ a dict compared in float64, and the graph ↔ exact search. SPEC 7.2."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.indexes.vector_kernels import code_rows, vectors_of
from mnemo_store.indexes.vectors import VectorIndex
from tests.support.examples import examples

DIMENSIONS = 8
NUMBERS = 60
CLOSE = 2e-6  # float32 against float64 over 8 products of about 1


def units(seed: int, count: int, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


class ViewAgreesWithDict(RuleBasedStateMachine):
    """With limits of 20 rows the graph, the delta, dead rows and every kind of filter come up at once."""

    @initialize(seed=st.integers(0, 99))
    def start(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.view = VectorIndex(DIMENSIONS, "s", exact_max=20, width=20)
        self.known: dict[int, NDArray[np.float64]] = {}  # codes
        for number in range(50):
            self.put(number, seed * 1000 + number, 1 + number % 3)
        self.build()

    @rule(number=st.integers(0, NUMBERS - 1), seed=st.integers(0, 10_000), windows=st.integers(1, 4))
    def put(self, number: int, seed: int, windows: int) -> None:
        vectors = units(seed, windows)
        self.view.put(number, vectors)
        self.known[number] = code_rows(vectors, str)[0].astype(np.float64)

    @rule(number=st.integers(0, NUMBERS + 5))
    def drop(self, number: int) -> None:
        self.view.drop(number)
        self.known.pop(number, None)

    @rule(first=st.integers(0, NUMBERS - 1), count=st.integers(1, 12))
    def drop_many(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.drop(number)

    @rule()
    def build(self) -> None:
        if self.view.needs_index():
            self.view.build_index(self.folder, Disk(), lambda: False)
            assert not self.view.needs_index()

    @rule()
    def restart(self) -> None:
        self.view.save(self.folder, {"seq": 3}, Disk())
        self.view, meta = VectorIndex.load(self.folder, DIMENSIONS, "s", exact_max=20, width=20)
        assert meta == {"seq": 3}
        assert self.view.graph_lost is None

    @rule(seed=st.integers(0, 10_000), k=st.integers(1, 12), share=st.floats(0, 1), exact=st.booleans())
    def ask(self, seed: int, k: int, share: float, exact: bool) -> None:
        query = units(seed, 1)[0]
        allowed = np.random.default_rng(seed).random(NUMBERS - 3) < share
        for filtered in (None, allowed, allowed | True):
            self.compare(query, k, filtered, exact)
        self.compare(query, 10 * k, allowed, exact)

    def compare(self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None, exact: bool) -> None:
        scope = [number for number in self.known if allowed is None or (number < len(allowed) and allowed[number])]
        units = {n: self.known[n] / np.linalg.norm(self.known[n], axis=1, keepdims=True) for n in scope}
        true = {n: float((rows @ query.astype(np.float64)).max()) for n, rows in units.items()}
        hits = self.view.nearest(query, k, allowed, exact=exact)
        best = sorted(true.values(), reverse=True)[:k]
        # A graph of so few rows is searched whole, so here even that way is exact but for equals.
        np.testing.assert_allclose(hits.sims, best, atol=CLOSE)
        np.testing.assert_allclose(hits.sims, [true[number] for number in hits.numbers.tolist()], atol=CLOSE)
        assert len(set(hits.numbers.tolist())) == len(best)
        np.testing.assert_allclose(self.view.sims(query, scope), [true[number] for number in scope], atol=CLOSE)

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "view"):
            assert self.view.numbers().tolist() == sorted(self.known)
            assert len(self.view) == len(self.known)
            assert self.view.rows == sum(map(len, self.known.values()))
            for number, codes in self.known.items():
                assert np.array_equal(self.view.vectors_of(number), vectors_of(codes.astype(np.int8)))  # type: ignore[arg-type]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


ViewAgreesWithDict.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=30, deadline=None)
TestViewAgreesWithDict = ViewAgreesWithDict.TestCase


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors like a model's: 300 clusters in a space of 24 latent dimensions, with noise, in 64."""
    fixed, chance = np.random.default_rng(99), np.random.default_rng(seed)
    centres, spread = fixed.standard_normal((300, 24)), fixed.standard_normal((24, 64)) / 5
    latent = centres[chance.integers(0, 300, count)] + 0.6 * chance.standard_normal((count, 24))
    rows: NDArray[np.float32] = (latent @ spread + 0.3 * chance.standard_normal((count, 64))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def questions(count: int) -> NDArray[np.float32]:
    """Unit vectors as far from every row as a question in plain language is: the nearest has a cosine of 0.43."""
    rows = clustered(count, 3)
    rows += np.random.default_rng(7).standard_normal((count, 64)).astype(np.float32) / 2
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def test_the_graph_finds_the_ten_nearest_of_passages_and_of_questions_and_as_many_again_after_a_rebuild(
    tmp_path: Path,
) -> None:
    vectors = clustered(8_000, 1)
    view = VectorIndex(64, "s", exact_max=1_000)
    view.put_many(range(8_000), list(vectors[:, None]))
    view.build_index(tmp_path, Disk(), lambda: False)
    rebuilt = VectorIndex(64, "s", exact_max=1_000)
    order = np.random.default_rng(5).permutation(8_000)
    rebuilt.put_many(order.tolist(), list(vectors[order, None]))
    rebuilt.build_index(tmp_path, Disk(), lambda: False)
    for queries in (clustered(100, 2), questions(100)):
        for share, is_exact in ((0.01, True), (0.1, True), (0.5, False), (1.0, False)):
            allowed = np.random.default_rng(6).random(8_000) < share
            found = overlap = 0
            for query in queries:
                true = set(view.nearest(query, 10, allowed, exact=True).numbers.tolist())
                hits, again = (each.nearest(query, 100, allowed) for each in (view, rebuilt))
                assert (hits.graph_rows == again.graph_rows == 0) is is_exact
                one, other = (set(each.numbers[:10].tolist()) for each in (hits, again))
                found += len(true & one)
                overlap += len(one & other)
            assert found >= (1_000 if is_exact else 995)
            assert overlap >= (1_000 if is_exact else 990)


def test_rows_that_wait_for_the_graph_are_searched_exactly_beside_it(tmp_path: Path) -> None:
    vectors, waiting = clustered(4_000, 1), clustered(1_000, 5)
    view = VectorIndex(64, "s", exact_max=1_000, width=100)
    view.put_many(range(4_000), list(vectors[:, None]))
    view.put_many(range(5_000, 6_000), list(waiting[:, None]))
    query = questions(1)[0]
    assert view.nearest(query, 100).graph_rows == 0, "while there is no graph at all"
    view.drop(17)
    for number in range(5_000, 6_000):
        view.drop(number)
    view.build_index(tmp_path, Disk(), lambda: False)
    view.put_many(range(5_000, 6_000), list(waiting[:, None]))
    missed = 0
    for query in questions(50):
        hits, true = view.nearest(query, 40), view.nearest(query, 40, exact=True).numbers
        assert hits.graph_rows > 0
        missed += len(np.setdiff1d(true, hits.numbers))
        assert len(np.setdiff1d(true[true >= 5_000], hits.numbers)) == 0, "the graph may miss one, these may not"
    assert missed > 0, "so narrow a search of the graph does miss some: it was asked"


def test_a_thousand_equal_vectors_do_not_hide_the_others_from_the_graph(tmp_path: Path) -> None:
    vectors = clustered(4_000, 1)
    vectors[1_000:3_000] = vectors[1_000]  # of texts that say the same
    view = VectorIndex(64, "s", exact_max=200, width=200)
    view.put_many(range(4_000), list(vectors[:, None]))
    view.build_index(tmp_path, Disk(), lambda: False)
    view.save(tmp_path, {}, Disk())
    for each in (view, VectorIndex.load(tmp_path, 64, "s", exact_max=200, width=200)[0]):
        assert recall_at_10(each, questions(100)) >= 0.99
        for number in range(1_000, 1_010):  # the one that the graph has, among them
            each.drop(number)
        hits = each.nearest(vectors[1_000], 10)
        assert hits.graph_rows > 0
        assert hits.numbers.tolist() == list(range(1_010, 1_020))
        each.put_many(range(5_000, 5_400), list(clustered(400, 5)[:, None]))
        assert each.needs_index()
        each.build_index(tmp_path, Disk(), lambda: False)
        assert not each.needs_index()
        assert recall_at_10(each, questions(100)) >= 0.99


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize(("count", "exact_max"), [(1_000, 200), (5_000, 1_000)])
def test_the_ten_nearest_are_found_after_many_were_dropped_and_replaced(
    tmp_path: Path, count: int, exact_max: int, share: float
) -> None:
    """At every point: before a graph is rebuilt too, when dead rows stand in the graph and new ones beside it."""
    vectors, queries = clustered(count, 1), clustered(50, 2)
    view = VectorIndex(64, "s", exact_max=exact_max)
    view.put_many(range(count), list(vectors[:, None]))
    view.build_index(tmp_path, Disk(), lambda: False)
    order = np.random.default_rng(4).permutation(count)[: int(share * count)]
    fresh = clustered(len(order), 5)
    for part in np.array_split(np.arange(len(order)), 6):
        for number in order[part].tolist():
            view.drop(number)
        view.put_many(order[part].tolist(), list(fresh[part, None]))
        assert recall_at_10(view, queries) >= 0.99
        if view.needs_index():
            view.build_index(tmp_path, Disk(), lambda: False)
            assert recall_at_10(view, queries) >= 0.99


def recall_at_10(view: VectorIndex, queries: NDArray[np.float32]) -> float:
    """The share of the ten nearest by exact search that the view finds."""
    found = [
        len(np.intersect1d(view.nearest(query, 10).numbers, view.nearest(query, 10, exact=True).numbers))
        for query in queries
    ]
    return sum(found) / 10 / len(queries)
