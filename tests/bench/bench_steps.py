"""Time of a cycle of consolidation, step by step, at several numbers of memories.

    python -m tests.bench.bench_steps [--sizes 1000,10000,100000] [--cycles 5] [--new 50]

The texts are those of the simulated person; their vectors are drawn around so many centres that a memory has the same
number of neighbours at each size. The first cycle finds everything as it came in. Of the cycles after it, each after so
many new memories and recalls, the median is shown; the last column is the exponent of the growth over the last tenfold:
1 is linear, 2 is quadratic.
"""

import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_daemon.models.embedders.embedder import Embedder, RunAll
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.record_texts import text_hash
from mnemo_store.records import KINDS, Change, Memory, PutMemory, PutUsage, Usage
from mnemo_store.store import TextVectors, WriteResult
from tests.bench import harness
from tests.bench.bench_durability import DiskWithoutSync
from tests.bench.tables import show
from tests.simulation.embedders import SimulatedCatalogue
from tests.simulation.person_years import PersonYears, SaidText, YearsPlan
from tests.support.consolidation_services import ConsolidationServices
from tests.support.samples import AT, sample_id
from tests.support.store_services import StoreServices

DIMENSIONS = 384
NEIGHBOURS = 8  # memories around one centre
SPREAD = 0.75  # length of what chance adds to a centre of length 1: two of one centre have a cosine of about 0.64
TOGETHER = 500  # memories a transaction
DAY_MS = 86_400_000
PATIENCE_SECONDS = 1800.0
POLL_SECONDS = 0.05


class DrawnEmbedder(Embedder):
    """Its vectors are of MiniLM's size, and say nothing of a text."""

    name, space, dimensions, tokens_max = DEFAULT_EMBEDDING, "drawn", DIMENSIONS, 256

    def __init__(self, chance: np.random.Generator) -> None:
        self._chance = chance

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[NDArray[np.float32]]:
        del run_all
        return [_unit(self._chance.standard_normal((1, DIMENSIONS), np.float32)) for _ in texts]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.encode_batch([text])[0][0]
        return vector

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def close(self) -> None:
        """There is nothing to free."""


class DrawnModels(EmbeddingService):
    """The real service with such an embedder."""

    def __init__(self, embedder: DrawnEmbedder) -> None:
        super().__init__(SimulatedCatalogue(), threads=1)
        self._embedder = embedder

    def _open(self, _name: str) -> DrawnEmbedder:
        return self._embedder


class CycleStore:
    """A store of so many memories, with the service that consolidates it."""

    def __init__(self, folder: Path, size: int) -> None:
        self.chance = Random(size)
        drawn = np.random.default_rng(size)
        self.embedder = DrawnEmbedder(drawn)
        self.size = 0
        self.services = StoreServices(folder, DrawnModels(self.embedder), DiskWithoutSync())
        self.services.at = AT + 4000 * DAY_MS
        self.services.embedding.refresh()
        self._texts = _statements(size * 2)
        centres = _unit(drawn.standard_normal((max(1, size // NEIGHBOURS), DIMENSIONS), np.float32))
        while self.size < size:
            count = min(TOGETHER, size - self.size)
            places = drawn.integers(len(centres), size=count)
            noise = drawn.standard_normal((count, DIMENSIONS), np.float32) * (SPREAD / math.sqrt(DIMENSIONS))
            self.add(count, _unit(centres[places] + noise))
        self.services.indexing.start()
        self.cycles = ConsolidationServices(
            self.services, lambda task, inputs: task.fallback(inputs), LifecycleSettings(merge=True)
        )
        self.settle()

    def add(self, count: int, rows: NDArray[np.float32] | None = None) -> None:
        """Store memories as they come in: nine of ten in the buffer's layer once a few cycles have moved the others."""
        memories = [self._memory() for _ in range(count)]
        if rows is not None:
            digests = [text_hash(each.content) for each in memories]
            vectors = [
                TextVectors(self.embedder.space, digest, row[None].astype(np.float16))
                for digest, row in zip(digests, rows, strict=True)
            ]
            self.services.store.put_vectors(vectors).result()
        used = [Usage(id=each.id, strength=each.importance, access_count=self.chance.choice((0, 0, 1, 4)),
                      repetition_count=self.chance.choice((0, 0, 0, 1))) for each in memories]  # fmt: skip
        changes: list[Change] = [*(PutMemory(data=each) for each in memories), *(PutUsage(data=each) for each in used)]
        self.services.store.transact(lambda _: WriteResult(changes, None, "add"), by="bench").result()

    def touch(self, count: int) -> None:
        """Recall memories, as a person does between two cycles."""
        ids = [sample_id(self.chance.randrange(self.size)) for _ in range(count)]
        with self.services.store.snapshot() as snapshot:
            known = [snapshot.usage(each) for each in dict.fromkeys(ids)]
        changes = tuple(
            PutUsage(data=Usage(id=each.id, access_count=each.access_count + 1, repetition_count=each.repetition_count,
                                last_accessed=self.services.at, strength=min(1.0, each.strength + 0.03)))
            for each in known if each is not None
        )  # fmt: skip
        self.services.store.transact(lambda _: WriteResult(changes, None, "usage"), by="bench").result()

    def settle(self) -> None:
        """Wait until every memory has its vector, and the topics are those of the memories."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.services.indexing.serving() is None or self.services.indexing.waiting():
            assert time.monotonic() < deadline, "the memories have no vectors"
            time.sleep(POLL_SECONDS)

    def build_topics(self) -> float:
        """Build the topic trees; return the seconds it took."""
        began = time.monotonic()
        self.cycles.topic_trees.is_due()
        while self.cycles.topic_trees.run_slice():
            pass
        return time.monotonic() - began

    def run(self) -> dict[str, float]:
        """Run a cycle; return the milliseconds of each step and of all of it."""
        self.services.at += 1_860_000
        began = time.perf_counter()
        cycle = self.cycles.run().cycle
        whole = (time.perf_counter() - began) * 1000
        for each in cycle.steps:
            if each.skipped:
                print(f"  {each.name} was left out: {each.skipped}", flush=True)
        return {**{each.name: float(each.milliseconds) for each in cycle.steps}, "whole cycle": whole}

    def close(self) -> None:
        self.cycles.close()
        self.services.close()
        self.services.embedding.close()

    def _memory(self) -> Memory:
        statement, chance = next(self._texts), self.chance
        at = self.services.at - chance.randrange(3000 * DAY_MS) if not hasattr(self, "cycles") else self.services.at
        fields = dict(statement.fields)
        layer = chance.choices(("buffer", "working", "core"), (3, 6, 1))[0]
        trust = {"tool": "tool", "import": "import", "agent": "agent"}.get(statement.entry, "user")
        if layer == "core" and (trust in ("tool", "import") or fields.get("tags")):
            layer = "working"
        self.size += 1
        return Memory(
            id=sample_id(self.size - 1), content=f"{statement.text} ({self.size})", created_at=at, modified_at=at,
            event_at=at, layer=layer if not hasattr(self, "cycles") else "buffer", trust=trust,  # type: ignore[arg-type]
            source="turn" if "turn" in statement.entry or statement.entry == "tool" else "cli",
            kind=chance.choices(KINDS[:3], (3, 6, 1))[0],
            tags=tuple(fields.get("tags", ())), namespace=statement.namespace,
            importance=round(chance.uniform(0.3, 0.9), 2),
            session_id=f"s{self.size // 10}" if "turn" in statement.entry else "",
        )  # fmt: skip


def _statements(count: int) -> Iterator[SaidText]:
    plan = YearsPlan(blocks=max(40, count // 5), memories=count * 2, facts=0, recalls=0)
    for block in PersonYears(3, plan).blocks():
        yield from block.statements


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    units: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return units


def measure(size: int, cycles: int, new: int) -> tuple[dict[str, float], dict[str, float]]:
    """The milliseconds of the first cycle at this size, and the medians of those after it."""
    folder = Path(tempfile.mkdtemp(prefix="m"))
    try:
        began = time.monotonic()
        store = CycleStore(folder, size)
        stored, topics = time.monotonic() - began, store.build_topics()
        print(f"{size:,} memories stored in {stored:.0f} s, their topics built in {topics:.0f} s", flush=True)
        first = store.run()
        later = []
        for _ in range(cycles):
            store.add(new)
            store.touch(new)
            store.settle()
            later.append(store.run())
        store.close()
        return first, {name: median(each.get(name, 0.0) for each in later) for name in first}
    finally:
        shutil.rmtree(folder)


def _exponents(rows: Iterable[Sequence[float]], sizes: Sequence[int]) -> Iterator[str]:
    for row in rows:
        small, large = row[-2:]
        grown = math.log(max(large, 1) / max(small, 1)) / math.log(sizes[-1] / sizes[-2])
        yield f"{grown:.2f}" if large >= 20 else "-"  # below it the clock says little


def main(*, sizes: tuple[int, ...] = (1000, 10_000, 100_000), cycles: int = 5, new: int = 50) -> None:
    found = [measure(size, cycles, new) for size in sizes]
    for title, which in (("the first cycle", 0), (f"a cycle after {new} new memories, median", 1)):
        names = found[-1][which]
        rows = {name: [each[which].get(name, 0.0) for each in found] for name in names}
        growth = list(_exponents(rows.values(), sizes)) if len(sizes) > 1 else [""] * len(rows)
        show(f"Milliseconds of {title}", [*(f"{size:,}" for size in sizes), "growth"],
             {name: [*(f"{value:.0f}" for value in row), grown]
              for (name, row), grown in zip(rows.items(), growth, strict=True)})  # fmt: skip


if __name__ == "__main__":
    harness.run(main)
