"""Speed of recall through the socket, at several sizes, stage by stage, next to bare usearch and words.

    python -m tests.bench.bench_recall [--sizes 1000,10000,100000,1000000] [--clients 1,8] [--queries 300]
                                       [--keep FOLDER [--fill]] [--llm]

For each size, in one run: recall as it is asked (the question's own vector computed), and asked again (the vector
known), by 1 and by 8 clients, each a process of its own; p50, p95 and p99. What a trace says of each stage. Recall
while 10 writers write, beside the quiet daemon just before. A bare vector search and word search in one process. Memory
and start, and what the daemon costs while it watches a folder of notes and nobody asks it anything. At the end, how all
that grows from size to size.

From --made on the vectors are drawn by chance, and with them the token rows where the model has some: embedding a
million texts would take hours and change nothing of the speed. --keep fills a store that is not there yet and leaves it
for the next time, with what the ten wrote. Ingest: tests/bench/bench_socket.py.

--llm measures one thing alone: recall while the installed language model writes answers one after the other, in turns
with the quiet daemon.
"""

import argparse
import itertools
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.bench import harness
from tests.bench.bench_documents import wait_for_notes
from tests.bench.bench_socket import bare
from tests.bench.filled import disk_bytes, filled, wait_for_views
from tests.bench.idle import idle, wait_until_quiet
from tests.bench.tables import RANKERS, percentiles, show
from tests.bench.texts import questions, texts
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon

PLACES = (50, 95, 99)
WRITERS = 10
WARM_UP = 20
TURNS = 4  # with and without the language model
GENERATION_ENDS_SECONDS = 8.0  # after which an answer that was being written is written


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


def while_generating(daemon: RunningDaemon, asked: Sequence[str], ranker: Ranker) -> dict[str, list[float]]:
    """Recall of new questions by one client in a process of its own, on the quiet daemon and while the language model
    answers one question after the other, in turns: what else the machine does meets both alike."""
    took: dict[str, list[float]] = {"quiet": [], "while the language model writes": []}
    may_generate, ending = threading.Event(), threading.Event()
    answers = [0]

    def generate() -> None:
        with daemon.client() as client:
            for question in itertools.cycle(questions(50, seed=7)):
                may_generate.wait()
                if ending.is_set():
                    return
                client.ask(question, cut="none")
                answers[0] += 1

    asking = threading.Thread(target=generate)
    asking.start()
    parts = [asked[at :: 2 * TURNS] for at in range(2 * TURNS)]
    for name, part in zip(itertools.cycle(took), parts, strict=False):
        if name == "quiet":
            may_generate.clear()
            time.sleep(GENERATION_ENDS_SECONDS)
        else:
            may_generate.set()
            time.sleep(1.0)
        took[name] += ask_together(daemon, 1, part, ranker)[0]
    ending.set()
    may_generate.set()
    asking.join()
    with daemon.client() as client:
        print(f"\n{answers[0]} answers meanwhile: {client.llm_usage('1h').usage}", flush=True)
    return took


def measure_generation(size: int, options: argparse.Namespace, service: EmbeddingService) -> None:
    """Print recall while the language model writes, and without."""
    embedder = service.current()
    assert embedder is not None
    os.environ["MNEMO_LLM_LEVEL"] = "full"
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as scratch,
        filled(size, embedder, (options.keep or Path(scratch)) / f"{size}-embedded", is_made=False) as (daemon, _),
    ):
        took = while_generating(daemon, questions(2 * options.queries), options.ranker)
    quiet, busy = took.values()
    rows = {name: [percentiles(values, PLACES)] for name, values in took.items()}
    ratio = np.percentile(busy, 95) / np.percentile(quiet, 95)
    show(f"{size:,} memories: p95 × {ratio:.2f}", ["milliseconds"], rows)


def again(daemon: RunningDaemon, asked: Sequence[str], ranker: Ranker) -> list[float]:
    """Each question once more, by one client in a process of its own, as the writers' threads share this one's."""
    return ask_together(daemon, 1, asked, ranker)[1]


def costs(daemon: RunningDaemon, scratch: Path, seconds: float) -> dict[str, float]:
    """The cost of an idle daemon, with a folder of notes to watch."""
    process = daemon.process
    assert process is not None
    notes = scratch / "notes"
    shutil.copytree(recall_sets.NOTES, notes)
    with daemon.client().with_long_timeout() as client:
        root = client.add_root(notes, "notes")
        wait_for_notes(client, sum(1 for _ in notes.iterdir()))
        wait_for_views(daemon)
    quiet = wait_until_quiet(process.pid)
    found = idle(process.pid, seconds)
    with daemon.client().with_long_timeout() as client:
        status = client.status()
        client.remove_root(id=root.id)
    print(f"\nIdle, quiet after {quiet:.0f} s: {found}", flush=True)
    return {
        "private memory, MB": status.memory_private_bytes / 1e6,
        "on the disk, MB": disk_bytes(daemon.folder) / 1e6,
        "idle: processor seconds a minute": found.cpu_seconds,
        "idle: wake-ups a minute": found.wake_ups,
    }


def measure(size: int, options: argparse.Namespace, service: EmbeddingService) -> dict[str, float]:
    """Prints what it found, and gives what grows: medians in ms, and what it costs."""
    embedder = service.current()
    assert embedder is not None
    is_made = size >= options.made
    asked = questions(options.queries * 4 + WARM_UP)
    warm, asked = asked[:WARM_UP], asked[WARM_UP:]
    first_half, traced = asked[: options.queries * 2], asked[options.queries * 2 : options.queries * 3]
    ranker: Ranker = options.ranker
    rows: dict[str, list[object]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        own = f"{size}-{'made' if is_made else 'embedded'}"
        with filled(size, embedder, (options.keep or Path(scratch)) / own, is_made=is_made) as (daemon, start_seconds):
            if options.fill:
                print(f"{size:,} memories: opened in {start_seconds:.1f} s", flush=True)
                return {}
            with daemon.client() as client:
                for question in warm:
                    client.recall(question, dry=True, ranker=ranker)
            medians = dict[str, float]()
            for place, clients in enumerate(options.clients):
                new, known, rate = ask_together(daemon, clients, first_half[place :: len(options.clients)], ranker)
                name = f"{clients} client{'s' * (clients > 1)}"
                rows[f"{name}, as asked"] = [percentiles(new, PLACES), ""]
                rows[f"{name}, vector known"] = [percentiles(known, PLACES), f"{rate:.0f}"]
                medians |= {f"{name}, as asked": statistics.median(new)}
                medians |= {f"{name}, vector known": statistics.median(known)}
            took = stages(daemon, traced, ranker)
            taken = {"start until all is there, s": start_seconds, **costs(daemon, Path(scratch), options.idle)}
            quiet, busy, writes = while_writing(daemon, asked[-options.queries :], ranker)
            ratio = np.percentile(busy, 95) / np.percentile(quiet, 95)
            rows["quiet, before the writers"] = [percentiles(quiet, PLACES), ""]
            rows[f"while {WRITERS} write {writes:.0f}/s: p95 × {ratio:.2f}"] = [percentiles(busy, PLACES), ""]
    if options.bare:
        took["bare vectors + words"] = bare(service, list(texts(size)), asked[: options.queries])
        rows["bare vectors + words, one process"] = [percentiles(took["bare vectors + words"], PLACES), ""]
    made = ", vectors drawn by chance" if is_made else ""
    show(f"{size:,} memories{made}, ranker {ranker}", ["milliseconds", "questions/s"], rows)
    show("where it goes", ["milliseconds"], {name: [percentiles(values, PLACES)] for name, values in took.items()})
    return {**medians, **{name: statistics.median(values) for name, values in took.items()}, **taken}


def show_growth(grown: Mapping[int, Mapping[str, float]]) -> None:
    """Each size beside the one before it."""
    rows: dict[str, list[object]] = defaultdict(list)
    before: Mapping[str, float] = {}
    names = dict.fromkeys(name for found in grown.values() for name in found)
    for found in grown.values():
        for name in names:
            times = f" (× {found[name] / before[name]:.2f})" if before.get(name) and name in found else ""
            rows[name].append(f"{found[name]:.2f}{times}" if name in found else "")
        before = found
    show("How it grows: medians in ms, and what it takes", [f"{size:,}" for size in grown], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="memories, with commas between")
    parser.add_argument("--clients", default="1,8", help="at once, with commas between")
    parser.add_argument("--queries", type=int, default=300, help="of each kind")
    parser.add_argument("--made", type=int, default=1_000_000, help="from this size on vectors are drawn by chance")
    parser.add_argument("--ranker", default="auto", choices=RANKERS)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds for which nobody asks")
    parser.add_argument("--no-bare", dest="bare", action="store_false", help="without the search in one process")
    parser.add_argument("--folder", type=Path, help="where the stores are made; without it, where temporary files are")
    parser.add_argument("--keep", type=Path, help="a folder for the stores, which are filled where they are missing")
    parser.add_argument("--fill", action="store_true", help="fill what --keep lacks, and measure nothing")
    parser.add_argument("--llm", action="store_true", help="only recall while the language model writes")
    options = parser.parse_args()
    if options.fill and not options.keep:
        parser.error("--fill is for what --keep keeps")
    options.clients = [int(count) for count in options.clients.split(",")]
    sizes = [int(size) for size in options.sizes.split(",")]
    with harness.embedding_service() as service:
        if options.llm:
            for size in sizes:
                measure_generation(size, options, service)
            return
        grown = {size: measure(size, options, service) for size in sizes}
    if not options.fill:
        show_growth(grown)


if __name__ == "__main__":
    main()
