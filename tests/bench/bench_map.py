"""The map of the memories: time, longest step, and trustworthiness beside other layouts of the same vectors.

    python -m tests.bench.bench_map [TEXTS] [--sizes 2000,20000] [--peers-max 20000]

TEXTS has a text on each line, which the installed embedding model turns into vectors; without it, vectors are drawn
around 60 centres. Beside it stand the principal components and, where scikit-learn and umap-learn are installed, t-SNE
and UMAP, up to --peers-max vectors. Trustworthiness (k = 15) is that of 3,000 of the points among each other.
"""

import importlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from mnemo_core.knowledge.map_layout import Floats, lay_out, principal_components
from tests.bench import harness
from tests.support.map_quality import trustworthiness

K = 15
SAMPLE = 3_000
CENTRES, INNER, DIMENSIONS = 60, 24, 384
TOGETHER = 64  # texts that are embedded at once


def drawn(count: int) -> Floats:
    """Unit vectors around centres of a smaller space, with noise in all dimensions."""
    chance = np.random.default_rng(1)
    centres, into = chance.normal(size=(CENTRES, INNER)), chance.normal(size=(INNER, DIMENSIONS))
    inner = centres[chance.integers(0, CENTRES, count)] + 0.5 * chance.normal(size=(count, INNER))
    return unit((inner @ into + 2.0 * chance.normal(size=(count, DIMENSIONS))).astype(np.float32))


def embedded(path: Path, count: int) -> Floats:
    """The vectors of the first texts of a file."""
    texts = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()][:count]
    embedder = harness.default_embedder(late=False)
    rows = [
        windows[0]
        for begin in range(0, len(texts), TOGETHER)
        for windows in embedder.encode_batch(texts[begin : begin + TOGETHER])
    ]
    return unit(np.stack(rows).astype(np.float32))


def unit(rows: Floats) -> Floats:
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def timed(steps: Generator[float, None, Floats]) -> tuple[Floats, float, float]:
    """The result of the steps, the seconds of all and of the longest."""
    began = last = time.perf_counter()
    longest = 0.0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            now = time.perf_counter()
            return done.value, now - began, max(longest, now - last)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()


def peers() -> dict[str, Any]:
    """The classes of other layouts, as far as their packages are installed."""
    found = {}
    for name, module, kind in (("t-SNE", "sklearn.manifold", "TSNE"), ("UMAP", "umap", "UMAP")):
        try:
            found[name] = getattr(importlib.import_module(module), kind)
        except ImportError:
            print(f"{name} is not installed")
    return found


def measure(vectors: Floats, peers_max: int) -> None:
    count = len(vectors)
    sample = np.sort(np.random.default_rng(2).choice(count, min(count, SAMPLE), replace=False))
    sims = vectors[sample] @ vectors[sample].T
    np.fill_diagonal(sims, -2.0)
    near = np.argsort(-sims, axis=1, kind="stable")[:, :-1]

    def report(name: str, positions: Floats, seconds: float, longest: float | None = None) -> None:
        kept = trustworthiness(near, np.asarray(positions, np.float32)[sample], K)
        step = "" if longest is None else f"  longest step {longest:.2f} s"
        print(f"{count:>8,}  {name:<22} trustworthiness {kept:.4f}  {seconds:7.1f} s{step}", flush=True)

    report("map", *timed(lay_out(count, lambda places: vectors[places], np.random.default_rng(0))))
    report("principal components", *timed(principal_components(count, lambda places: vectors[places])))
    for name, make in peers().items() if count <= peers_max else ():
        began = time.perf_counter()
        positions = make(n_components=2, metric="cosine", random_state=0).fit_transform(vectors)
        report(name, positions, time.perf_counter() - began)


def main(texts: Path | None = None, *, sizes: tuple[int, ...] = (2000, 20_000), peers_max: int = 20_000) -> None:
    for size in sizes:
        measure(drawn(size) if texts is None else embedded(texts, size), peers_max)


if __name__ == "__main__":
    harness.run(main)
