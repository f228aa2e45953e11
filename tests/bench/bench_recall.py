"""How fast recall is through the socket, at several sizes, stage by stage, beside bare usearch and words.

    python -m tests.bench.bench_recall [--sizes 1000,10000,100000,1000000] [--clients 1,8] [--queries 300]

For each size, in one run: recall as it is asked (the question's own vector computed), and asked again (the vector
known), by 1 and by 8 clients, each a process of its own; p50, p95 and p99. What a trace says of each stage. Recall
while 10 writers write, beside the quiet daemon just before. A bare vector search and word search in one process.

From --made on the vectors are drawn by chance, and with them the token rows where the model has some: embedding a
million texts would take an hour and change nothing of the speed. Ingest, start and memory: tests/bench/bench_socket.py.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.protocol import NewMemory
from mnemo_client.recall_protocol import Ranker
from mnemo_daemon.embedding import Embedder, EmbeddingService
from mnemo_daemon.models import Catalogue, models_folder
from mnemo_store.records import Memory, PutMemory, PutUsage, Usage, embedded_text, text_hash
from mnemo_store.store import Store, Turn, Vectors
from tests.bench.bench_durability import Unsynced
from tests.bench.bench_socket import bare
from tests.bench.tables import RANKERS, percentiles, show
from tests.bench.texts import questions, texts
from tests.running import RunningDaemon
from tests.samples import AT, sample_id

PLACES = (50, 95, 99)
WRITERS = 10
WARM_UP = 20
BATCH = 500  # memories a request
MADE_TOGETHER = 200  # memories a write turn
WAITING_MAX = 100  # turns
MADE_TOKENS = 24  # kept of a made text
PATIENCE_SECONDS = 7200.0


def asked_by(
    socket: Path, asked: Sequence[str], ranker: Ranker, begin_at: float
) -> tuple[list[float], list[float], float, float]:
    """One client: milliseconds of each question as it is asked and asked again, and when it began and ended.

    All clients begin at the same moment.
    """
    first, again = list[float](), list[float]()
    with Client(socket) as client:
        for question in questions(5, seed=99):
            client.recall(question, dry=True, ranker=ranker)
        time.sleep(max(0.0, begin_at - time.monotonic()))
        began = time.monotonic()
        for took in (first, again):
            for question in asked:
                start = time.perf_counter()
                client.recall(question, dry=True, ranker=ranker)
                took.append((time.perf_counter() - start) * 1000)
        return first, again, began, time.monotonic()


def ask_together(
    daemon: RunningDaemon, clients: int, asked: Sequence[str], ranker: Ranker
) -> tuple[list[float], list[float], float]:
    """Of all clients, each with questions of its own: milliseconds first and again, and questions a second."""
    parts = [asked[at::clients] for at in range(clients)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(clients, mp_context=context) as pool:
        list(pool.map(time.sleep, [0.5] * clients))  # each process is there, with its imports, before any begins
        begin_at = time.monotonic() + 1.0
        found = [pool.submit(asked_by, daemon.socket, part, ranker, begin_at) for part in parts]
        results = [each.result() for each in found]
    seconds = max(each[3] for each in results) - min(each[2] for each in results)
    first = [took for each in results for took in each[0]]
    again = [took for each in results for took in each[1]]
    return first, again, (len(first) + len(again)) / seconds


def stages(daemon: RunningDaemon, asked: Sequence[str], ranker: Ranker) -> dict[str, list[float]]:
    """Milliseconds of each stage, by the trace; the embedding's when the question is new, of the others when its vector
    is known. A trace costs time of its own, so `daemon` is of answers without one."""
    took: dict[str, list[float]] = defaultdict(list)
    with daemon.client() as client:
        for question in asked:
            new = client.recall(question, dry=True, explain=True, ranker=ranker).trace
            known = client.recall(question, dry=True, explain=True, ranker=ranker).trace
            assert new is not None
            assert known is not None
            for stage, milliseconds in known.stages_ms.items():
                took[stage].append(new.stages_ms[stage] if stage == "embed" else milliseconds)
            began = time.perf_counter()
            answer = client.recall(question, dry=True, ranker=ranker)
            took["all but embedding, in the daemon"].append(answer.took_ms)
            took["socket and JSON"].append((time.perf_counter() - began) * 1000 - answer.took_ms)
    return took


def while_writing(
    daemon: RunningDaemon, asked: Sequence[str], ranker: Ranker
) -> tuple[list[float], list[float], float]:
    """Recall with known vectors on the quiet daemon and while ten write, and what they write a second."""
    quiet = again(daemon, asked, ranker)
    ending, written = threading.Event(), [0] * WRITERS

    def write(number: int) -> None:
        with daemon.client() as client:
            while not ending.is_set():
                client.remember(f"Writer {number} has a thing to say, its {written[number]}.", namespace="writes")
                written[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    began, before = time.perf_counter(), sum(written)
    try:
        busy = again(daemon, asked, ranker)
        rate = (sum(written) - before) / (time.perf_counter() - began)
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    return quiet, busy, rate


def again(daemon: RunningDaemon, asked: Sequence[str], ranker: Ranker) -> list[float]:
    """Each question once more, by one client in a process of its own, as the writers' threads share this one's."""
    return ask_together(daemon, 1, asked, ranker)[1]


# Filling


def fill(daemon: RunningDaemon, count: int) -> None:
    """Without a look at what is near to what is written: what intake costs is measured elsewhere."""
    made = list(texts(count))
    with daemon.client().patiently() as client:
        for start in range(0, count, BATCH):
            client.remember_many([NewMemory(content=text, dedup="off") for text in made[start : start + BATCH]])
    daemon.wait_for_vectors(PATIENCE_SECONDS)


def fill_with_made(folder: Path, count: int, embedder: Embedder) -> None:
    """Writes the memories and their vectors, drawn by chance, into a store that no daemon has open yet."""
    drawn = np.random.default_rng(5)
    store = Store.open(folder, disk=Unsynced())
    asked: list[Future[Any]] = []
    made = texts(count)
    try:
        for start in range(0, count, MADE_TOGETHER):
            memories = [
                Memory(id=sample_id(start + place), content=content, created_at=AT, modified_at=AT, event_at=AT)
                for place, content in zip(range(min(MADE_TOGETHER, count - start)), made, strict=False)
            ]
            changes = [each for memory in memories
                       for each in (PutMemory(data=memory), PutUsage(data=Usage(id=memory.id)))]  # fmt: skip
            turn: Turn[None] = Turn(tuple(changes), None, "add")
            asked.append(store.transact(lambda _, turn=turn: turn, by="bench"))  # type: ignore[misc]
            asked.append(store.put_vectors(made_vectors(memories, embedder, drawn)))
            while len(asked) > WAITING_MAX:
                asked.pop(0).result()
        for future in asked:
            future.result()
    finally:
        store.close()


def made_vectors(memories: Sequence[Memory], embedder: Embedder, drawn: np.random.Generator) -> list[Vectors]:
    rows = drawn.standard_normal((len(memories), 1, embedder.dimensions)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
    digests = [text_hash(embedded_text(memory)) for memory in memories]
    found = [Vectors(embedder.space, digest, row.astype(np.float16)) for digest, row in zip(digests, rows, strict=True)]
    late = embedder.late
    if late is not None:
        codes = drawn.integers(-127, 128, (len(memories), MADE_TOKENS, late.dimensions), np.int8)
        found += [Vectors(late.space, digest, row) for digest, row in zip(digests, codes, strict=True)]
    return found


def start_patiently(daemon: RunningDaemon) -> None:
    """Begins the daemon and waits for its views, which it makes of what it finds; at a million that takes minutes."""
    process = daemon.begin()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, daemon.log.read_text()
        try:
            with daemon.client() as client:
                if client.status().state == "ready":
                    break
        except MnemoError:
            pass  # it does not listen yet, or is busy opening
        time.sleep(0.2)
    daemon.wait_for_vectors(PATIENCE_SECONDS)


# Measuring


def measure(
    size: int, options: argparse.Namespace, service: EmbeddingService, grown: dict[str, dict[int, list[float]]]
) -> None:
    embedder = service.current()
    assert embedder is not None
    is_made = size >= options.made
    asked = questions(options.queries * 4 + WARM_UP)
    warm, asked = asked[:WARM_UP], asked[WARM_UP:]
    first_half, traced = asked[: options.queries * 2], asked[options.queries * 2 : options.queries * 3]
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        daemon = RunningDaemon(Path(scratch) / "data")
        if is_made:
            fill_with_made(daemon.folder, size, embedder)
            start_patiently(daemon)
        else:
            daemon.start()
            fill(daemon, size)
        try:
            with daemon.client() as client:
                for question in warm:
                    client.recall(question, dry=True, ranker=options.ranker)
            rows: dict[str, list[object]] = {}
            for place, clients in enumerate(options.clients):
                part = first_half[place :: len(options.clients)]
                new, known, rate = ask_together(daemon, clients, part, options.ranker)
                rows[f"{clients} client{'s' * (clients > 1)}, as asked"] = [percentiles(new, PLACES), ""]
                rows[f"{clients} client{'s' * (clients > 1)}, vector known"] = [
                    percentiles(known, PLACES),
                    f"{rate:.0f}",
                ]
            took = stages(daemon, traced, options.ranker)
            quiet, busy, writes = while_writing(daemon, asked[-options.queries :], options.ranker)
            ratio = np.percentile(busy, 95) / np.percentile(quiet, 95)
            rows["quiet, before the writers"] = [percentiles(quiet, PLACES), ""]
            rows[f"while {WRITERS} write {writes:.0f}/s: p95 × {ratio:.2f}"] = [percentiles(busy, PLACES), ""]
        finally:
            daemon.stop()
    alone = bare(service, list(texts(size)), asked[: options.queries])
    rows["bare vectors + words, one process"] = [percentiles(alone, PLACES), ""]
    made = ", vectors drawn by chance" if is_made else ""
    show(f"{size:,} memories{made}, ranker {options.ranker}", ["milliseconds", "questions/s"], rows)
    show("where it goes", ["milliseconds"], {name: [percentiles(values, PLACES)] for name, values in took.items()})
    for name, values in {**took, "bare vectors + words": alone}.items():
        grown[name][size] = values


def show_growth(grown: dict[str, dict[int, list[float]]], sizes: Sequence[int]) -> None:
    rows: dict[str, list[object]] = {
        name: [f"{statistics.median(by_size[size]):.2f}" if size in by_size else "" for size in sizes]
        for name, by_size in grown.items()
    }
    show("How each stage grows: p50 in ms", [f"{size:,}" for size in sizes], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="memories, with commas between")
    parser.add_argument("--clients", default="1,8", help="at once, with commas between")
    parser.add_argument("--queries", type=int, default=300, help="of each kind")
    parser.add_argument("--made", type=int, default=1_000_000, help="from this size on vectors are drawn by chance")
    parser.add_argument("--ranker", default="auto", choices=RANKERS)
    parser.add_argument("--folder", type=Path, help="where the stores are made; without it, where temporary files are")
    options = parser.parse_args()
    options.clients = [int(count) for count in options.clients.split(",")]
    sizes = [int(size) for size in options.sizes.split(",")]
    service = EmbeddingService(Catalogue(models_folder()))
    service.refresh()
    while service.current() is None:
        time.sleep(0.05)
    grown: dict[str, dict[int, list[float]]] = defaultdict(dict)
    for size in sizes:
        measure(size, options, service, grown)
    show_growth(grown, sizes)
    service.close()


if __name__ == "__main__":
    main()
