"""The word view by itself: `python tests/bench/bench_words.py [memories …]`. Prints milliseconds; nothing is asserted.

Texts of 25 to 55 made-up words whose frequencies follow Zipf's law with exponent 1.05 over 60,000 words. A query is
eight words of one text, with or without the 100 commonest, which stand for stop words.
"""

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.indexes.lexical import LexicalFields, LexicalIndex

VOCABULARY = 60_000
EXPONENT = 1.05
COMMONEST = 100
QUERY_WORDS = 8
QUERIES = 400
FOUND = 100


def vocabulary(chance: np.random.Generator) -> list[str]:
    """Pronounceable words, all different, long ones rarer."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        count = 1 + (len(words) > 50) + (len(words) > 2_000) + int(chance.integers(2))
        words["".join(syllables[i] for i in chance.integers(0, len(syllables), count)) + "t"] = None
    return list(words)


def texts_of(chance: np.random.Generator, count: int) -> list[NDArray[np.int64]]:
    """Texts as ranks of their words."""
    weights = np.arange(1, VOCABULARY + 1) ** -EXPONENT
    lengths = chance.integers(25, 56, count)
    ranks = np.searchsorted(np.cumsum(weights / weights.sum()), chance.random(int(lengths.sum())))
    return np.split(np.minimum(ranks, VOCABULARY - 1), np.cumsum(lengths)[:-1])


def private_mib() -> float:
    """Without mapped files, whose pages the system can take back."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1024


def told(name: str, seconds: list[float]) -> None:
    p50, p95, most = np.percentile(np.array(seconds) * 1000, [50, 95, 100])
    print(f"  {name:<34} p50 {p50:7.3f}   p95 {p95:7.3f}   max {most:7.2f} ms", flush=True)


def timed_searches(view: LexicalIndex, queries: list[str]) -> list[float]:
    taken = []
    for query in queries:
        begin = time.perf_counter()
        view.search(query, FOUND)
        taken.append(time.perf_counter() - begin)
    return taken


def queries_of(chance: np.random.Generator, texts: list[NDArray[np.int64]], words: list[str], least: int) -> list[str]:
    """Of words no commoner than the least-th, as many as there are up to eight."""
    queries = []
    for text in chance.choice(len(texts), QUERIES):
        ranks = texts[text][texts[text] >= least]
        queries.append(" ".join(words[rank] for rank in ranks[:QUERY_WORDS]))
    return queries


def loaded_mib(path: str, queries: list[str]) -> str:
    """The memory that loading an index and searching it takes."""
    before = private_mib()
    view, _ = LexicalIndex.load(Path(path))
    loaded = private_mib()
    timed_searches(view, queries)
    return f"+{loaded - before:.1f} MiB loaded, +{private_mib() - before:.1f} MiB after {len(queries)} searches"


def measure(count: int) -> None:
    begin = time.perf_counter()
    sum(range(1_000_000))
    speed = time.perf_counter() - begin
    print(f"{count:,} memories; this machine now adds 1,000,000 numbers in {speed * 1000:.0f} ms", flush=True)
    chance = np.random.default_rng(count)
    words = vocabulary(chance)
    ranks = texts_of(chance, count + 1_000)
    texts = [" ".join(words[rank] for rank in text) for text in ranks]
    with_common, without = (queries_of(chance, ranks, words, least) for least in (0, COMMONEST))

    before = private_mib()
    view = LexicalIndex()
    puts = []
    begin_all, begin_cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        begin = time.perf_counter()
        view.put(number, LexicalFields(texts[number]))
        puts.append(time.perf_counter() - begin)
    took, cpu = time.perf_counter() - begin_all, time.process_time() - begin_cpu
    print(f"  put {took:.2f} s, {cpu / count * 1e6:.1f} us CPU a memory; private +{private_mib() - before:.0f} MiB")
    told("put while building", puts)
    told("search, not merged", timed_searches(view, without))

    del view
    before, begin, begin_cpu = private_mib(), time.perf_counter(), time.process_time()
    view = LexicalIndex()
    view.put_many((number, LexicalFields(texts[number])) for number in range(count))
    took, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    print(
        f"  put_many {took:.2f} s, {cpu / count * 1e6:.1f} us CPU a memory; private +{private_mib() - before:.0f} MiB"
    )

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.view"
        begin = time.perf_counter()
        view.save(path, {"seq": count}, Disk())
        print(f"  save {(time.perf_counter() - begin) * 1000:.0f} ms, {path.stat().st_size / 1e6:.1f} MB")
        fresh = "from bench_words import loaded_mib; import sys; print(loaded_mib(sys.argv[1], sys.argv[2:]))"
        command = [sys.executable, "-c", fresh, str(path), *without]
        answer = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        print(f"  in a fresh process: private {answer.stdout.strip()}")
        del view
        begin = time.perf_counter()
        view, _ = LexicalIndex.load(path)
        print(f"  load {(time.perf_counter() - begin) * 1000:.1f} ms")
        told("search, without the commonest", timed_searches(view, without))
        told("search, all words", timed_searches(view, with_common))
        replacing(view, texts, count)
        told("search, 1,000 replaced", timed_searches(view, without))


def replacing(view: LexicalIndex, texts: list[str], count: int) -> None:
    """Replaces 1,000 memories while another thread searches."""
    done = threading.Event()
    neighbour: list[float] = []

    def search() -> None:
        while not done.is_set():
            neighbour.extend(timed_searches(view, [texts[len(neighbour) % count][:60]]))

    searching = threading.Thread(target=search)
    searching.start()
    puts = []
    for i in range(1_000):
        begin = time.perf_counter()
        view.put(i % count, LexicalFields(texts[count + i]))
        puts.append(time.perf_counter() - begin)
        time.sleep(0.0005)
    done.set()
    searching.join()
    told("replace, beside searches", puts)
    told("search, beside replaces", neighbour)


if __name__ == "__main__":
    for size in [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 100_000]:
        measure(size)
