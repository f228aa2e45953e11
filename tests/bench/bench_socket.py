"""The whole daemon through its socket, at several sizes, beside its parts alone.

    python -m tests.bench.bench_socket [--sizes 1000,10000,100000] [--queries 300]

Prints, for each size: ingest per second beside embedding alone; recall p50 and p95, in all and without the query's own
embedding, beside a bare vector and word search in one process; remember alone and with 16 clients; start to first
answer; private memory after the start and after use; where the time goes.
"""

import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.indexes.lexical import LexicalFields, LexicalIndex
from mnemo_store.indexes.vectors import VectorIndex
from tests.bench import harness
from tests.bench.texts import questions, texts
from tests.support.running_daemon import RunningDaemon

BATCH = 500
WRITES = 300  # `remember`s measured
CLIENTS = 16
ALONE = 2000  # texts of the embedding-alone run


def percentiles(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return f"p50 {statistics.median(ordered):7.2f}  p95 {ordered[int(0.95 * (len(ordered) - 1))]:7.2f} ms"


def fill(daemon: RunningDaemon, made: Sequence[str]) -> tuple[float, float]:
    """Seconds until all is stored and found by words, and until all is found by vectors."""
    began = time.perf_counter()
    with daemon.client() as client:
        for start in range(0, len(made), BATCH):
            client.remember_many([NewMemory(content=text) for text in made[start : start + BATCH]])
    stored = time.perf_counter() - began
    daemon.wait_for_vectors(3600)
    return stored, time.perf_counter() - began


def embedding_alone(service: EmbeddingService, made: Sequence[str]) -> float:
    """Texts a second."""
    embedder = service.current()
    assert embedder is not None
    began = time.perf_counter()
    for start in range(0, len(made), 64):
        service.encode_batch(embedder, made[start : start + 64])
    return len(made) / (time.perf_counter() - began)


def recall(daemon: RunningDaemon, asked: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds a query: as asked, asked again (its vector is known then), and, of other questions, by stage.

    A trace costs time of its own, so what is timed as a whole asks for none.
    """
    took: dict[str, list[float]] = defaultdict(list)
    plain, traced = asked[: len(asked) // 2], asked[len(asked) // 2 :]
    with daemon.client() as client:
        for name in ("total", "again, its vector known"):
            for question in plain:
                began = time.perf_counter()
                answer = client.recall(question, dry=True)
                took[name].append((time.perf_counter() - began) * 1000)
                took["socket and JSON"].append(took[name][-1] - answer.took_ms)
        for question in traced:
            trace = client.recall(question, dry=True, explain=True).trace
            assert trace is not None
            for stage, milliseconds in trace.stages_ms.items():
                took[stage].append(milliseconds)
    embed = statistics.median(took["embed"])
    took["without embedding"] = [total - embed for total in took["total"]]
    return took


def bare(service: EmbeddingService, made: Sequence[str], asked: Sequence[str]) -> list[float]:
    """A vector search and a word search in one process, vectors drawn at random: ms a query without embedding."""
    chance = np.random.default_rng(3)
    words, vectors = LexicalIndex(), VectorIndex(384, "bare")
    rows = chance.standard_normal((len(made), 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for number, text in enumerate(made):
        words.put(number, LexicalFields(text))
    vectors.put_many(list(range(len(made))), [row[None] for row in rows])
    if vectors.needs_index():
        from mnemo_store.disk import Disk

        with tempfile.TemporaryDirectory() as folder:
            vectors.build_index(Path(folder), Disk(), lambda: False)
            return _bare_searches(words, vectors, asked)
    return _bare_searches(words, vectors, asked)


def _bare_searches(words: LexicalIndex, vectors: VectorIndex, asked: Sequence[str]) -> list[float]:
    chance = np.random.default_rng(4)
    took = []
    for question in asked:
        query = chance.standard_normal(384).astype(np.float32)
        query /= np.linalg.norm(query)
        began = time.perf_counter()
        words.search(question, 100)
        vectors.nearest(query, 100)
        took.append((time.perf_counter() - began) * 1000)
    return took


def remember_alone(daemon: RunningDaemon, label: str) -> list[float]:
    took = []
    with daemon.client() as client:
        for number in range(WRITES):
            began = time.perf_counter()
            client.remember(f"A thing of its own, {label} {number}.", namespace="writes")
            took.append((time.perf_counter() - began) * 1000)
    return took


def remember_together(daemon: RunningDaemon, label: str) -> tuple[list[float], float]:
    """Milliseconds of each write, and writes a second of all clients."""
    took: list[float] = []
    began = time.perf_counter()
    threads = [
        threading.Thread(target=lambda n=n: took.extend(remember_alone(daemon, f"{label} {n}"))) for n in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, len(took) / (time.perf_counter() - began)


def measure(size: int, queries: int, service: EmbeddingService) -> None:
    made, asked = list(texts(size)), questions(queries)
    print(f"\n{size} memories")
    with tempfile.TemporaryDirectory() as folder:
        daemon = RunningDaemon(Path(folder) / "data")
        daemon.start()
        alone = embedding_alone(service, made[:ALONE])
        stored, indexed = fill(daemon, made)
        print(f"  ingest             {size / indexed:8.0f}/s in all, {size / stored:.0f}/s by words; "
              f"embedding alone {alone:.0f}/s: ratio {size / indexed / alone:.2f}")  # fmt: skip
        daemon.stop()
        start = daemon.start()
        with daemon.client() as client:
            after_start = client.status().memory_private_bytes
            daemon.wait_for_vectors()
            for question in asked[:20]:
                client.recall(question, dry=True)
        took = recall(daemon, asked[20:])
        for name in ("total", "without embedding", "again, its vector known"):
            print(f"  recall, {name:24}{percentiles(took.pop(name))}")
        print(f"  bare search, one process        {percentiles(bare(service, made, asked))}")
        print("  where it goes      " + "  ".join(f"{name} {statistics.median(ms):.2f}" for name, ms in took.items()))
        print(f"  remember alone     {percentiles(remember_alone(daemon, 'alone'))}")
        together, rate = remember_together(daemon, "together")
        print(f"  remember x {CLIENTS}      {percentiles(together)}, {rate:.0f}/s")
        with daemon.client() as client:
            after_use = client.status().memory_private_bytes
        print(f"  start to first answer {start:.2f} s; private memory {after_start / 1e6:.0f} MB after the start, "
              f"{after_use / 1e6:.0f} MB after use")  # fmt: skip
        daemon.stop()


def main(*, sizes: tuple[int, ...] = (1000, 10_000, 100_000), queries: int = 320) -> None:
    with harness.embedding_service() as service:
        for size in sizes:
            measure(size, queries, service)


if __name__ == "__main__":
    harness.run(main)
