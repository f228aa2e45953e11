"""Topic trees of real texts: time, coherence next to k-means and HDBSCAN, ids that stay, and names to read.

    python -m tests.bench.bench_topics DATA DOCS [--sizes 1000,10000,100000] [--names 20 --seed 13] [--python PEERS]

DATA holds conversations (as for `mnemo bench quality`), DOCS the sources of some documentation (.rst, .rst.txt, .md).
Texts are the turns and the chunks of the documents, drawn by chance; a size that both together do not reach is filled
with variations: vectors of drawn texts with noise, at a cosine of about 0.87. PEERS is a Python with scikit-learn;
without it only the tree is measured. HDBSCAN (leaves of 3 or more) is measured up to 10,000, and on the rows that it
puts into a cluster at all.

Coherence is the mean cosine of two members of a leaf, less that of two memories of different leaves; `silhouette` the
simplified one, by centroids. Of the changes, half are memories that go, half are new ones.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_client.bench.datasets import load
from mnemo_core.documents.chunking import split_blocks
from mnemo_core.documents.markup import parse, suffix_of
from mnemo_core.knowledge.clusters import Labels, centroids
from mnemo_core.knowledge.topic_names import TermStatistics, telling_words
from mnemo_core.knowledge.topic_tree import Shape, compare, grow
from mnemo_core.similarity.thresholds import of_model
from mnemo_daemon.knowledge.topic_builder import CHANGES_MAX, SAMPLES, closeness_to
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_store.indexes.tokenizer import Tokenizer
from tests.bench import harness
from tests.bench.bench_documents import FILE_BYTES_MAX

SEED = 13
TOGETHER = 64  # texts that are embedded at once
NOISE = 0.56  # norm of what is added to the vector of a text for a variation
CHANGED_SHARE = 0.05
HDBSCAN_MAX = 10_000
NAMED_MEMBERS_MIN = 3
NAMED_TEXTS = 4  # that are shown of a topic

T = TypeVar("T")
Halves = NDArray[np.float16]

PEERS = """
import json, sys, time
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
rows = np.load(sys.argv[1]).astype(np.float32)
began = time.perf_counter()
if sys.argv[3] == "kmeans":
    labels = KMeans(int(sys.argv[4]), n_init=1, random_state=0).fit_predict(rows)
else:
    labels = HDBSCAN(min_cluster_size=3, min_samples=1, cluster_selection_method="leaf", copy=True).fit_predict(rows)
np.save(sys.argv[2], labels)
print(json.dumps(time.perf_counter() - began))
"""


def main(
    data: Path, docs: Path, *, sizes: tuple[int, ...] = (1000, 10_000, 100_000), names: int = 20, seed: int = SEED,
    python: Path | None = None,
) -> None:  # fmt: skip
    said = [turn for conversation in load(data) for turn in conversation.turns]
    turns, speakers = [turn.text for turn in said], {turn.speaker for turn in said}
    chunks = chunks_of(docs)
    print(f"{len(turns)} turns, {len(chunks)} chunks")
    vectors = embed([*turns, *chunks])
    sets = {"turns": (turns, vectors[: len(turns)]), "documents": (chunks, vectors[len(turns) :])}
    chance = np.random.default_rng(seed)
    for size in sizes:
        for name, (texts, rows) in sets.items():
            if size <= len(texts):
                drawn = np.sort(chance.permutation(len(texts))[:size])
                measure(f"{name} {size:,}", rows[drawn], python, chance)
                if size == min(sizes):
                    show_names([texts[place] for place in drawn], rows[drawn], speakers, names, chance)
        if size > max(len(texts) for texts, _ in sets.values()):
            made = varied(vectors, size - len(vectors), chance)
            mixed = np.concatenate([vectors, made])[:size]
            measure(f"both {min(size, len(vectors)):,} and {len(made):,} variations",
                    mixed[chance.permutation(len(mixed))], python, chance)  # fmt: skip


def chunks_of(folder: Path) -> list[str]:
    """The chunks of the documents, as notes have them, with their headings."""
    found = []
    for path in sorted(folder.rglob("*")):
        if suffix_of(path.name) and path.is_file() and path.stat().st_size < FILE_BYTES_MAX:
            text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
            blocks = parse(text, suffix_of(path.name), path.stem).blocks
            found += [f"{' > '.join(chunk.headings)}\n{chunk.text}".strip() for chunk in split_blocks(blocks)]
    return found


def embed(texts: Sequence[str]) -> Halves:
    rows = []
    for start in range(0, len(texts), TOGETHER):
        rows += [windows[0] for windows in embedder().encode_batch(texts[start : start + TOGETHER])]
    return np.array(rows, np.float16)


@cache
def embedder() -> Embedder:
    return harness.default_embedder(late=False)


def varied(vectors: Halves, count: int, chance: np.random.Generator) -> Halves:
    """So many vectors of drawn texts, with noise."""
    rows = vectors[chance.integers(0, len(vectors), count)].astype(np.float32)
    rows += NOISE * chance.standard_normal(rows.shape, np.float32) / np.sqrt(rows.shape[1])
    made: Halves = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    return made


def measure(title: str, rows: Halves, python: Path | None, chance: np.random.Generator) -> None:
    """Builds a tree of all rows but some, works in changes, and builds it again after a twentieth has changed."""
    thresholds = of_model(DEFAULT_EMBEDDING)
    print(f"{title}")
    shape, seconds, longest = timed(grow(rows, thresholds))
    leaves = int(shape.leaves.max()) + 1
    print(f"  built in {seconds:.1f} s, longest step {longest * 1000:.0f} ms: {leaves} leaves, "
          f"{sum(parent < 0 for parent in shape.parents)} roots")  # fmt: skip
    show_coherence("the tree", rows, shape.leaves)
    half = CHANGES_MAX // 2
    some = Shape(changed_leaves(shape.leaves, half), shape.parents)
    _, seconds, _ = timed(grow(rows[half:], thresholds, some, is_whole=False))
    print(f"  {CHANGES_MAX} changes worked in in {seconds:.2f} s")
    half = int(len(rows) * CHANGED_SHARE / 2)
    order = chance.permutation(len(rows))
    before, now = np.sort(order[half:]), np.sort(order[:-half])
    first, _, _ = timed(grow(rows[before], thresholds))
    leaf_of = dict(zip(before.tolist(), first.leaves.tolist(), strict=True))
    former = Shape(np.array([leaf_of.get(row, -1) for row in now.tolist()], np.int32), first.parents)
    again, seconds, _ = timed(grow(rows[now], thresholds, former))
    kept, count = compare(again, former).kept, int(first.leaves.max()) + 1
    print(f"  built again after 5% changed in {seconds:.1f} s: ids kept {len(kept) / len(first.parents):.1%}, "
          f"of leaves {sum(old < count for old in kept.values()) / count:.1%}")  # fmt: skip
    if python is not None:
        show_peer("k-means", rows, python, "kmeans", str(leaves))
        if len(rows) <= HDBSCAN_MAX:
            show_peer("HDBSCAN", rows, python, "hdbscan")


def changed_leaves(leaves: Labels, half: int) -> Labels:
    """The leaves without the first rows, the last rows as new ones."""
    changed = leaves[half:].copy()
    changed[-half:] = -1
    return changed


def show_coherence(name: str, rows: Halves, labels: Labels, seconds: float | None = None) -> None:
    clustered = labels >= 0
    rows, labels = rows[clustered], np.unique(labels[clustered], return_inverse=True)[1].astype(np.int32)
    counts, units = np.bincount(labels), centroids(rows, labels)
    own, other = np.empty(len(rows)), np.empty(len(rows))
    sums = np.zeros(units.shape)
    for start in range(0, len(rows), TOGETHER * 64):
        part = slice(start, start + TOGETHER * 64)
        block = rows[part].astype(np.float32)
        np.add.at(sums, labels[part], block)
        sims = block @ units.T
        places = np.arange(len(block)), labels[part]
        own[part] = sims[places]
        sims[places] = -1
        other[part] = sims.max(axis=1)
    total, squares = sums.sum(axis=0), (sums * sums).sum(axis=1)
    inside, pairs = float((squares - counts).sum()), float((counts * (counts - 1.0)).sum())
    several = counts > 1
    means = (squares - counts)[several] / (counts * (counts - 1.0))[several]
    within = np.average(means, weights=counts[several])
    between = (float(total @ total) - len(rows) - inside) / (len(rows) * (len(rows) - 1.0) - pairs)
    silhouette = float(((own - other) / np.maximum(1 - own, 1 - other)).mean())
    took = "" if seconds is None else f", {seconds:.1f} s"
    print(f"  {name:9} {len(counts):5} leaves of {int(np.median(counts))} (at most {counts.max()}), of all rows "
          f"{clustered.mean():.0%}: within {within:.3f}, between {between:.3f}, coherence {within - between:.3f}, "
          f"silhouette {silhouette:.3f}{took}")  # fmt: skip


def show_peer(name: str, rows: Halves, python: Path, *arguments: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "rows.npy"), Path(folder, "labels.npy")
        np.save(given, rows)
        command = [str(python), "-c", PEERS, str(given), str(found), *arguments]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=sys.stderr)
        show_coherence(name, rows, np.load(found).astype(np.int32), json.loads(answer.stdout))


def show_names(
    texts: Sequence[str], rows: Halves, speakers: Iterable[str], count: int, chance: np.random.Generator
) -> None:
    """Names by words of some leaves of 3 members and more, with the texts that are closest to each."""
    leaves = timed(grow(rows, of_model(DEFAULT_EMBEDDING)))[0].leaves
    units, tokenizer = centroids(rows, leaves), Tokenizer("english")
    held = Counter(term for text in texts for term in {token.term for token in tokenizer.tokens(text)})

    @cache
    def look_up(word: str) -> TermStatistics:
        term = next((piece.term for piece in tokenizer.pieces(word) if piece.kind in ("word", "character")), "")
        return TermStatistics(term, held[term])

    named: list[str] = []
    for leaf in chance.permutation(np.flatnonzero(np.bincount(leaves) >= NAMED_MEMBERS_MIN))[:count].tolist():
        members = np.flatnonzero(leaves == leaf)
        sims = rows[members].astype(np.float32) @ units[leaf]
        closest = [texts[row] for row in members[np.argsort(-sims, kind="stable")]]
        compare = closeness_to(members, rows, embedder().encode_batch)
        named.append(telling_words(closest[:SAMPLES], look_up, len(texts), speakers, compare, named))
        print(f"    {named[-1]:42} {len(members):3}")
        for text in closest[:NAMED_TEXTS]:
            print(f"        {text[:100]!r}")


def timed(steps: Generator[None, None, T]) -> tuple[T, float, float]:
    """The result, the seconds that it took, and those of its longest step."""
    began = at = time.perf_counter()
    longest = 0.0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Any = end.value
            now = time.perf_counter()
            return result, now - began, max(longest, now - at)
        now = time.perf_counter()
        longest, at = max(longest, now - at), now


if __name__ == "__main__":
    harness.run(main)
