"""The vector view's times, memory and recall, beside the bare parts it is made of. Not collected by pytest.

    python tests/bench/bench_vectors.py 10000 20000 100000
    python tests/bench/bench_vectors.py --replaced 1000 30000 100000
    python tests/bench/bench_vectors.py --questions PASSAGES QUESTIONS 10000 45000 100000

The second form drops 10, 30 and 60% of the memories and puts others in their place, and compares the ten nearest with
exact search: with the graph as it was left, with the graph grown by all that came, and by the rule of `needs_index`,
looked at after every fiftieth of the changes.

The third embeds two files of texts, one a line, with the installed model (the vectors are kept beside them in .npy
files), and compares the answers to the questions with exact search: by the graph at several widths, and by the index's
own choice, without and with filters. Questions in plain language are farther from every passage than passages from each
other, and a graph misses more of what they ask for.

In the first two, vectors are clustered as a model's are: 2,000 clusters in a latent space of 64 dimensions, with noise,
in 384. The peers in the same run: a float32 product with argpartition, and a bare search of the same usearch index.
"""

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.indexes import vectors as vectors_module
from mnemo_store.indexes.vectors import VectorIndex
from tests.bench import harness

DIMENSIONS = 384
QUERIES = 200
WIDTHS = (100, 200, 400, 700, 1_000, 1_600)
EMBEDDED_TOGETHER = 2_000


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    fixed, chance = np.random.default_rng(99), np.random.default_rng(seed)
    centres, spread = fixed.standard_normal((2_000, 64)), fixed.standard_normal((64, DIMENSIONS)) / 8
    latent = centres[chance.integers(0, 2_000, count)] + 0.6 * chance.standard_normal((count, 64))
    rows: NDArray[np.float32] = (latent @ spread + 0.3 * chance.standard_normal((count, DIMENSIONS))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def private_mb() -> float:
    """Memory of this process that is its own and not a mapped file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return float("nan")


def show(label: str, act: Callable[[Any], object], over: Iterable[Any]) -> None:
    wall, cpu = [], []
    for each in over:
        started, ran = time.perf_counter(), time.thread_time()
        act(each)
        cpu.append((time.thread_time() - ran) * 1000)
        wall.append((time.perf_counter() - started) * 1000)
    middle, late, ran = statistics.median(wall), statistics.quantiles(wall, n=20)[18], statistics.median(cpu)
    print(f"  {label:38} p50 {middle:7.3f}  p95 {late:7.3f}  min {min(wall):7.3f}  cpu p50 {ran:7.3f} ms")


def measure(count: int) -> None:
    print(f"{count} rows; load {os.getloadavg()[0]:.1f}")
    vectors, queries = clustered(count, 1).astype(np.float16), clustered(QUERIES, 2)
    gc.collect()
    before = private_mb()
    view = VectorIndex(DIMENSIONS, "bench")
    started = time.perf_counter()
    half = count // 2
    for number in range(half):
        view.put(number, vectors[number : number + 1])
    print(f"  put {(time.perf_counter() - started) / half * 1e6:.0f} µs a row, ", end="")
    started = time.perf_counter()
    for start in range(half, count, 500):
        numbers = range(start, min(start + 500, count))
        view.put_many(numbers, [vectors[number : number + 1] for number in numbers])
    print(f"put_many of 500 {(time.perf_counter() - started) / half * 1e6:.0f} µs a row")
    print(f"  private memory, filled: {private_mb() - before:.0f} MB")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ask_exactly(view, count, queries, vectors)
        if view.needs_index():
            ask_the_graph(view, count, queries, folder)
        keep(view, queries, folder)


def ask_exactly(view: VectorIndex, count: int, queries: NDArray[np.float32], vectors: NDArray[np.float16]) -> None:
    for k in (10, 40, 100):
        show(f"exact k={k}", lambda query, k=k: view.nearest(query, k, exact=True), queries)  # type: ignore[misc]
    for share in (0.01, 0.1, 0.5):
        allowed = np.random.default_rng(3).random(count) < share
        show(
            f"exact k=40, filter leaves {share:.0%}",
            lambda query, allowed=allowed: view.nearest(query, 40, allowed, exact=True),  # type: ignore[misc]
            queries,
        )
    numbers = np.arange(0, count, count // 200)
    show("sims of 200 numbers", lambda query: view.sims(query, numbers), queries)
    whole = vectors.astype(np.float32)
    show("peer: float32 product + argpartition", lambda query: np.argpartition(whole @ query, count - 100), queries)


def ask_the_graph(view: VectorIndex, count: int, queries: NDArray[np.float32], folder: Path) -> None:
    started, ran = time.perf_counter(), time.thread_time()
    view.build_index(folder, Disk(), lambda: False)
    print(f"  graph built in {time.perf_counter() - started:.1f} s, cpu {time.thread_time() - ran:.1f} s")
    for k in (10, 40, 100):
        show(f"graph k={k}", lambda query, k=k: view.nearest(query, k), queries)  # type: ignore[misc]
        found = sum(
            len(np.intersect1d(view.nearest(query, k).numbers, view.nearest(query, k, exact=True).numbers))
            for query in queries
        )
        print(f"    recall@{k} {found / k / len(queries):.4f}")
    for share in (0.1, 0.3, 0.5, 0.9):
        allowed = np.random.default_rng(3).random(count) < share
        show(
            f"k=40, filter leaves {share:.0%}",
            lambda query, allowed=allowed: view.nearest(query, 40, allowed),  # type: ignore[misc]
            queries,
        )
    from usearch.index import Index

    index = Index.restore(str(next(folder.glob("*.usearch"))), view=True)
    assert index is not None
    for k in (10, 40, 100):
        show(f"peer: bare usearch k={k}", lambda query, k=k: index.search(query, k, threads=1), queries)  # type: ignore[misc]


def keep(view: VectorIndex, queries: NDArray[np.float32], folder: Path) -> None:
    for label, change in (("whole", 0), ("after one change", 1)):
        if change:
            view.put(0, queries[:1])
        started = time.perf_counter()
        view.save(folder, {"seq": 1}, Disk())
        print(f"  save {label}: {(time.perf_counter() - started) * 1000:.0f} ms", end="; ")
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    before = private_mb()
    started = time.perf_counter()
    loaded, _ = VectorIndex.load(folder, DIMENSIONS, "bench")
    took = time.perf_counter() - started
    loaded.nearest(queries[0], 40)
    print(
        f"{size:.0f} MB; load {took * 1000:.0f} ms, first answer {(time.perf_counter() - started) * 1000:.0f} ms, ",
        end="",
    )
    for query in queries:
        loaded.nearest(query, 40)
    print(f"private memory of the loaded view {private_mb() - before:.1f} MB")


def recall(view: VectorIndex, queries: NDArray[np.float32], k: int = 10) -> tuple[float, float]:
    """The share of the k nearest by exact search that the view finds, and the milliseconds of CPU of a search."""
    found, started = 0, time.thread_time()
    hits = [view.nearest(query, k).numbers for query in queries]
    took = time.thread_time() - started
    for query, numbers in zip(queries, hits, strict=True):
        found += len(np.intersect1d(numbers, view.nearest(query, k, exact=True).numbers))
    return found / k / len(queries), took / len(queries) * 1000


def measure_replaced(count: int) -> None:
    """Prints recall@10 after drops and puts. Up to EXACT_MAX rows, where it is never asked, the graph is forced."""
    exact_max = vectors_module.EXACT_MAX if count > vectors_module.EXACT_MAX else count // 5
    vectors, queries = clustered(count, 1).astype(np.float16), clustered(QUERIES, 2)
    view = VectorIndex(DIMENSIONS, "bench", exact_max=exact_max)
    view.put_many(range(count), list(vectors[:, None]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        view.build_index(folder, Disk(), lambda: False)
        view.save(folder, {}, Disk())
        print(f"{count} rows, graph asked above {exact_max}: recall@10 {recall(view, queries)[0]:.4f}", flush=True)
        for share in (0.1, 0.3, 0.6):
            numbers = np.random.default_rng(4).permutation(count)[: int(share * count)]
            fresh = clustered(len(numbers), 5).astype(np.float16)
            left = VectorIndex.load(folder, DIMENSIONS, "bench", exact_max=exact_max)[0]
            replace(left, numbers, fresh)
            found, took = recall(left, queries)
            print(f"  {share:4.0%} replaced: as left {found:.4f} ({took:.2f} ms)", end="", flush=True)
            share_before, vectors_module.DEAD_SHARE_OF_GRAPH = vectors_module.DEAD_SHARE_OF_GRAPH, 1
            left.build_index(folder, Disk(), lambda: False)
            vectors_module.DEAD_SHARE_OF_GRAPH = share_before
            found, took = recall(left, queries)
            print(f", grown {found:.4f} ({took:.2f} ms)", end="", flush=True)
            kept = VectorIndex.load(folder, DIMENSIONS, "bench", exact_max=exact_max)[0]
            worst, builds = 1.0, 0
            for start in range(0, len(numbers), max(1, count // 50)):
                part = slice(start, start + max(1, count // 50))
                replace(kept, numbers[part], fresh[part])
                worst = min(worst, recall(kept, queries)[0])
                if kept.needs_index():
                    kept.build_index(folder, Disk(), lambda: False)
                    builds += 1
                    worst = min(worst, recall(kept, queries)[0])
            print(f", by the rule at worst {worst:.4f}, {builds} builds", flush=True)


def replace(view: VectorIndex, numbers: NDArray[np.int64], vectors: NDArray[np.float16]) -> None:
    for number in numbers.tolist():
        view.drop(number)
    view.put_many(numbers.tolist(), list(vectors[:, None]))


def embedded(path: Path, *, are_questions: bool) -> NDArray[np.float16]:
    """The first vector of each line of the file; computed once."""
    known = path.with_suffix(".npy")
    if not known.exists():
        texts = path.read_text(encoding="utf-8").splitlines()
        embedder = harness.default_embedder(late=False)
        if are_questions:
            rows = [embedder.encode_query(text) for text in texts]
        else:
            parts = (texts[at : at + EMBEDDED_TOGETHER] for at in range(0, len(texts), EMBEDDED_TOGETHER))
            rows = [windows[0] for part in parts for windows in embedder.encode_batch(part)]
        np.save(known, np.stack(rows).astype(np.float16))
    vectors: NDArray[np.float16] = np.load(known)
    return vectors


def measure_questions(count: int, passages: NDArray[np.float16], queries: NDArray[np.float32]) -> None:
    """Prints what the graph misses of the ten nearest of each question, and what every search costs."""
    assert count <= len(passages), f"there are {len(passages)} passages"
    view = VectorIndex(DIMENSIONS, "bench")
    view.put_many(range(count), list(passages[:count, None]))
    print(f"{count} rows, {len(queries)} questions; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        compare(view, queries, "exact")
        view.build_index(Path(name), Disk(), lambda: False)
        for view.width in WIDTHS:
            view.exact_max = 0
            compare(view, queries, f"graph, width {view.width}")
        view.width, view.exact_max = vectors_module.SEARCH_WIDTH, vectors_module.EXACT_MAX
        for share in (1.0, 0.5, 0.1, 0.01):
            allowed = np.random.default_rng(3).random(count) < share
            allowed.flags.writeable = False  # as the masks of a recall
            compare(view, queries, f"as decided, {share:.0%} in scope", allowed)


def compare(
    view: VectorIndex, queries: NDArray[np.float32], label: str, allowed: NDArray[np.bool_] | None = None
) -> None:
    """Prints how a search for 100, as a recall has, compares with an exact one."""
    found, there = [0, 0, 0], [0, 0, 0]
    took, by_graph = [], 0
    for query in queries:
        started = time.thread_time()
        hits = view.nearest(query, 100, allowed)
        took.append((time.thread_time() - started) * 1000)
        by_graph += hits.graph_rows > 0
        true = view.nearest(query, 100, allowed, exact=True).numbers
        for place, most in enumerate((1, 10, 100)):
            found[place] += len(np.intersect1d(hits.numbers, true[:most]))
            there[place] += len(true[:most])
    ten, hundred = found[1] / there[1], found[2] / there[2]
    print(
        f"  {label:26} of 10 {ten:.4f}  of 100 {hundred:.4f}  best lost {len(queries) - found[0]:2}  "
        f"cpu p50 {statistics.median(took):6.2f} max {max(took):6.2f} ms  by graph {by_graph}",
        flush=True,
    )


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [10_000]
    if "--questions" in sys.argv:
        texts, asked = (Path(word) for word in sys.argv[sys.argv.index("--questions") + 1 :][:2])
        vectors = embedded(texts, are_questions=False)
        queries = embedded(asked, are_questions=True).astype(np.float32)
        for size in sizes:
            measure_questions(size, vectors, queries)
    else:
        for size in sizes:
            (measure_replaced if "--replaced" in sys.argv else measure)(size)
