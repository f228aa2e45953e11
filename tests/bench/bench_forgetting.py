"""Recall from ten times as many other memories, with the lifecycle off and on: does forgetting help?

    python -m tests.bench.bench_forgetting [FOLDER] [--times 10] [--epochs 500] [--rankers auto,layered,deterministic]
                                           [--keep FOLDER] [--seed 1] [--conversations 5]

FOLDER is a benchmark as of `tests.bench.quality`; without it the questions are those about the project's own
conversations on which nothing was fitted. Each conversation is a namespace with a stream of its own
(tests/bench/streams.py), which arrives in as many parts as there are epochs. Half of the questions are asked meanwhile,
by a law of Zipf, of what has arrived by then, and what they recall is touched; the other half is only asked at the end.
A life of the same arrivals and questions goes without cycles. The cycles are those of the daemon, by rules alone; the
time between two is half an hour.
"""

import itertools
import pickle
import random
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemo_core import decay
from mnemo_core.ingest.classification import classify
from mnemo_core.retrieval.ranking.rankers import Ranker
from mnemo_core.retrieval.recall_defaults import MIN_IMPORTANCE_UNASKED
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.question import Question, RecallOutcome
from mnemo_daemon.retrieval.recall import UsageRecorder
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import text_hash
from mnemo_store.records import Change, Memory, PutMemory, PutUsage, Usage, default_decay_rate
from mnemo_store.store import TextVectors, WriteResult
from tests.bench import harness
from tests.bench.fit_fusion import loaded
from tests.bench.quality import TOP_K, load_benchmark, the_projects_own
from tests.bench.streams import StreamedMemory, stream
from tests.bench.tables import difference, rankers_named, share, show
from tests.support import recall_sets
from tests.support.consolidation_services import ConsolidationServices
from tests.support.samples import AT, sample_id
from tests.support.store_services import SHOWN, StoreServices, services_in

EPOCH_MS = 1_800_000
IMPORTANCE = {"ingest": 0.5, "proxy": 0.4}  # of what is said, and of the output of tools
WRITTEN_TOGETHER = 500
METRICS = ("R@1", "R@5", "R@10", "nDCG@10")


class LifePlan(NamedTuple):
    """The arrivals and questions of a namespace. asked: those put during the life, the most frequent first."""

    namespace: str
    parts: list[list[StreamedMemory]]  # by epoch
    asked: list[Any]
    held_out: list[Any]


def planned(conversation: Any, others: Sequence[Any], times: float, epochs: int, seed: int) -> LifePlan:
    arriving = stream(conversation, others, times, seed)
    bounds = np.linspace(0, len(arriving), epochs + 1).astype(int)
    parts = [arriving[begin:end] for begin, end in itertools.pairwise(bounds)]
    questions = [each for each in conversation.questions if each.evidence]
    random.Random(f"{seed} {conversation.name} questions").shuffle(questions)
    half = len(questions) // 2
    return LifePlan(conversation.name, parts, questions[:half], questions[half:])


class Life:
    """A store that the streams arrive in. `ids`: by namespace and turn."""

    def __init__(self, services: StoreServices, vectors: Mapping[bytes, list[TextVectors]], seed: int) -> None:
        self.services = services
        self.ids: dict[tuple[str, str], str] = {}
        self._vectors = vectors
        self._recorder = UsageRecorder(services.memories)
        self._seed = seed
        self._count = 0
        services.indexing.start()

    def reopen(self, plans: Sequence[LifePlan]) -> None:
        """Take over a store in which these plans were lived: the ids are those of the order of arrival."""
        self.services.at = AT + len(plans[0].parts) * EPOCH_MS
        for epoch in range(len(plans[0].parts)):
            for plan in plans:
                for each in plan.parts[epoch]:
                    self._note_id(plan.namespace, each)
        wait_for_vectors(self.services)

    def live(self, plans: Sequence[LifePlan], cycle: Callable[[], object]) -> None:
        """Every part of the streams, with the questions of each epoch, and a cycle at its end."""
        arrived: dict[str, set[str]] = defaultdict(set)
        chance = random.Random(self._seed)
        for epoch in range(len(plans[0].parts)):
            self.services.at = AT + epoch * EPOCH_MS
            self.store([(plan.namespace, each) for plan in plans for each in plan.parts[epoch]])
            self.services.at += EPOCH_MS // 2
            for plan in plans:
                arrived[plan.namespace].update(each.turn for each in plan.parts[epoch])
                known = [each for each in plan.asked if arrived[plan.namespace].issuperset(each.evidence)]
                if known:
                    (asked,) = chance.choices(known, [1 / place for place in range(1, len(known) + 1)])
                    self._recorder.record(self.answer(plan.namespace, asked.text).hits)
            self._recorder.write()
            cycle()

    def store(self, arriving: Sequence[tuple[str, StreamedMemory]]) -> None:
        """Store memories as the entry points do that take in whatever is said, and wait for the indexes."""
        services, changes, waiting = self.services, list[Change](), list[Future[Any]]()
        with services.store.snapshot() as snapshot:
            epoch = decay.epoch_of(snapshot)
        for namespace, each in arriving:
            found = classify(each.text, session_id=each.session)
            memory = Memory(
                id=self._note_id(namespace, each), content=each.text, created_at=services.at, modified_at=services.at,
                event_at=each.at, kind=found.kind, form=found.form, category=found.category,
                importance=IMPORTANCE[each.source],
                decay_rate=default_decay_rate("buffer", found.kind), speaker=each.speaker, trust=each.trust,
                source=each.source, namespace=namespace, session_id=each.session,
            )  # fmt: skip
            waiting.append(services.store.put_vectors(self._vectors[text_hash(each.text)]))
            usage = Usage(id=memory.id, strength=memory.importance, strength_epoch=epoch)
            changes += [PutMemory(data=memory), PutUsage(data=usage)]
        for future in waiting:
            future.result()
        turn: WriteResult[None] = WriteResult(tuple(changes), None, "add")
        services.store.transact(lambda _: turn, by="bench").result()
        wait_for_vectors(services)

    def _note_id(self, namespace: str, arrived: StreamedMemory) -> str:
        """The id of the next memory."""
        self._count += 1
        if arrived.turn:
            self.ids[namespace, arrived.turn] = sample_id(self._count)
        return sample_id(self._count)

    def answer(self, namespace: str, query: str, **options: Any) -> RecallOutcome:
        """The answer as the API gives it where a request names only the query and what is in `options`."""
        wanted = MemoryFilter(
            namespaces=(namespace, "default"), user_id="local", states=SHOWN,
            min_importance_unasked=MIN_IMPORTANCE_UNASKED, now=self.services.at,
        )  # fmt: skip
        return self.services.recalling.answer(Question(query, wanted, **options))


def wait_for_vectors(services: StoreServices) -> None:
    while services.indexing.serving() is None or services.indexing.waiting():
        time.sleep(0.002)


def embedded(texts: set[str], embedding: EmbeddingService) -> dict[bytes, list[TextVectors]]:
    """The vectors and token rows of the texts, by their hash."""
    while (embedder := embedding.current()) is None:
        time.sleep(0.05)
    found = {}
    ordered = sorted(texts)
    for start in range(0, len(ordered), WRITTEN_TOGETHER):
        some = ordered[start : start + WRITTEN_TOGETHER]
        for text, rows, tokens in zip(some, *embedding.encode_both(embedder, some), strict=True):
            digest = text_hash(text)
            found[digest] = [TextVectors(embedder.space, digest, rows.astype(np.float16))]
            if embedder.late is not None and tokens is not None:
                found[digest].append(TextVectors(embedder.late.space, digest, embedder.late.pack(tokens)))
    return found


class QuestionScore(NamedTuple):
    """The scores of a question, and what is handed over for it."""

    row: dict[str, float]
    handed: float  # share of its evidence in the context
    tokens: float


def measure(
    life: Life, plans: Sequence[LifePlan], which: str, ranker: Ranker, benchmark: Any, per_namespace: int
) -> list[QuestionScore]:
    """The answers of a ranker to the questions `asked` or `held_out`."""
    found = []
    for plan in plans:
        for each in getattr(plan, which)[: per_namespace or None]:
            right = [life.ids[plan.namespace, name] for name in each.evidence if (plan.namespace, name) in life.ids]
            if not right:
                continue
            hits = life.answer(plan.namespace, each.text, top_k=TOP_K, token_budget=None, ranker=ranker).hits
            row = benchmark.score([hit.details.memory.id for hit in hits], right)
            handed = life.answer(plan.namespace, each.text, ranker=ranker, cut="gap", preferences="first")
            kept = {hit.details.memory.id for hit in handed.hits}
            found.append(QuestionScore(row, len(kept.intersection(right)) / len(right), handed.total_tokens))
    return found


def table_row(found: Sequence[QuestionScore], off: Sequence[QuestionScore] | None) -> list[object]:
    cells: list[object] = [share([each.row[metric] for each in found]) for metric in METRICS]
    cells += [share([each.handed for each in found]), f"{np.mean([each.tokens for each in found]):.0f}"]
    same = [[each.row["nDCG@10"] for each in some] for some in (found, off or found)]
    return [*cells, difference(*same) if off is not None else ""]


def show_states(life: Life, plans: Sequence[LifePlan]) -> None:
    """Show the layers and states of the memories, what each holds, and how strong it is."""
    use = dict.fromkeys(life.ids.values(), "conversation")
    for name in ("held_out", "asked"):
        for plan in plans:
            for each in getattr(plan, name):
                use |= {life.ids[plan.namespace, turn]: name for turn in each.evidence
                        if (plan.namespace, turn) in life.ids}  # fmt: skip
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    strengths: dict[str, list[float]] = defaultdict(list)
    with life.services.store.snapshot() as snapshot:
        epoch, after = decay.epoch_of(snapshot), ""
        while page := snapshot.memories(after):
            after = page[-1].id
            for memory in page:
                place = memory.layer if memory.state == "active" else f"{memory.state}, {memory.layer}"
                counts[place][use.get(memory.id, "tools" if memory.source == "proxy" else "others")] += 1
                usage = snapshot.usage(memory.id)
                if usage is not None:
                    strengths[place].append(decay.strength_at(usage, memory, epoch))
    names = ("asked", "held_out", "conversation", "others", "tools")
    rows = {
        place: [sum(count.values()), *(f"{count[name]} ({count[name] / sum(count.values()):.1%})" for name in names),
                f"{np.mean(strengths[place]):.2f}"]
        for place, count in sorted(counts.items())
    }  # fmt: skip
    show("Where the memories are at the end: evidence of questions that were asked before, of others, other turns of "
         "the conversation, and what is not of it", ["memories", *names, "strength"], rows)  # fmt: skip


@contextmanager
def consolidating(services: StoreServices) -> Iterator[Callable[[], object]]:
    """A function that runs a cycle of the daemon's on the store, by rules alone."""
    made = ConsolidationServices(services)
    yield made.run
    made.close()


def lived(folder: Path, plans: Sequence[LifePlan], name: str, embedding: EmbeddingService, seed: int) -> None:
    """Make a store with the lives of all namespaces; with the lifecycle where its name is `on`. One that is there
    stays."""
    if folder.exists():
        return
    kept = folder.with_name("vectors")
    if not kept.exists():
        texts = {each.text for plan in plans for part in plan.parts for each in part}
        kept.write_bytes(pickle.dumps(embedded(texts, embedding)))
    began, making = time.monotonic(), folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    with services_in(making, embedding) as services, consolidating(services) as cycle:
        Life(services, pickle.loads(kept.read_bytes()), seed).live(plans, cycle if name == "on" else lambda: None)
        services.views.save()
    making.rename(folder)
    print(f"the life {name} took {time.monotonic() - began:.0f} s", flush=True)


def main(
    folder: Path | None = None, *, rankers: str = "auto,layered,deterministic", times: float = 10.0, epochs: int = 500,
    seed: int = 1, conversations: int = 0, questions: int = 0, keep: Path | None = None,
) -> None:  # fmt: skip
    benchmark = load_benchmark(folder) if folder else the_projects_own()
    every = benchmark.conversations()
    others = [*every, *recall_sets.conversations()]
    plans = [planned(each, others, times, epochs, seed) for each in every[: conversations or None]]
    embedding = loaded()
    with tempfile.TemporaryDirectory() as scratch:
        found: dict[tuple[str, str, str], list[QuestionScore]] = {}
        for name in ("off", "on"):
            kept = (keep or Path(scratch)) / name
            lived(kept, plans, name, embedding, seed)
            with services_in(kept, embedding) as services:
                life = Life(services, {}, seed)
                life.reopen(plans)
                show_states(life, plans)
                for ranker in rankers_named(rankers):
                    for which in ("asked", "held_out"):
                        found[ranker, which, name] = measure(life, plans, which, ranker, benchmark, questions)
    embedding.close()
    for which in ("asked", "held_out"):
        rows = {
            f"{ranker}, {name}": table_row(some, found[ranker, which, "off"] if name == "on" else None)
            for (ranker, each, name), some in found.items() if each == which
        }  # fmt: skip
        count = len(next(some for (_, each, _), some in found.items() if each == which))
        title = "asked during the life" if which == "asked" else "never asked before"
        show(f"{count} questions {title}, lifecycle off and on, % [95% interval]",
             [*METRICS, "evidence handed over", "tokens", "nDCG@10: ahead of off"], rows)  # fmt: skip


if __name__ == "__main__":
    harness.run(main)
