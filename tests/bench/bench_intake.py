"""What the doors make of real text: outcomes, kinds and categories, examples to read, and how fast it goes.

    python -m tests.bench.bench_intake --turns FOLDER [--examples 20]    the retrieval benchmark's turns, by `turns`
    python -m tests.bench.bench_intake --texts FOLDER [--files 100]      every text file below a folder, by `ingest`
    python -m tests.bench.bench_intake --chunks 10000                    `ingest` beside embedding alone
    python -m tests.bench.bench_intake --lives 200                       made lives: which changes got their `updates`
        [--among 5000]                                                   each life among so many other memories

Nothing of the texts belongs to the project. Examples are drawn by chance from a seed, so that the same are read again.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from mnemo_client.client import Client
from mnemo_client.protocol import IngestRequest, NewMemory, Taken, Turn, TurnsRequest
from mnemo_daemon.embedding import EmbeddingService
from mnemo_daemon.models import Catalogue, models_folder
from tests.bench.quality import load_benchmark
from tests.bench.texts import texts
from tests.lives import lives as made_lives
from tests.running import RunningDaemon, running
from tests.samples import AT

SEED = 7
TEXT_FILES = (".txt", ".md", ".rst")
TURNS_A_REQUEST = 200
SHOWN_CHARS = 160
EMBEDDED_TOGETHER = 64
FILLED_TOGETHER = 1000


class Tally:
    """What came of each item, with the items to draw examples from."""

    def __init__(self) -> None:
        self.by_outcome: dict[str, list[Taken]] = defaultdict(list)
        self.refused = 0

    def add(self, results: Sequence[Any]) -> None:
        for result in results:
            if isinstance(result, Taken):
                self.by_outcome[result.outcome].append(result)
            else:
                self.refused += 1

    def show(self, examples: int) -> None:
        total = sum(map(len, self.by_outcome.values()))
        print(f"{total} items, {self.refused} refused")
        for name, read in (
            ("outcome", lambda item: item.outcome),
            ("reason", lambda item: item.reason),
            ("kind", lambda item: item.memory and item.memory.kind),
            ("category", lambda item: item.memory and item.memory.category),
            ("ties", lambda item: " ".join(tie for tie in ("repeats", "updates", "related") if getattr(item, tie))),
        ):
            counts = Counter(read(item) or "-" for items in self.by_outcome.values() for item in items)
            print(f"  {name}: " + ", ".join(f"{key} {count}" for key, count in counts.most_common()))
        dated = [item.memory for items in self.by_outcome.values() for item in items if item.memory]
        print(f"  masked: {sum(bool(item.masked) for items in self.by_outcome.values() for item in items)}")
        print(f"  importance, mean: {sum(memory.importance for memory in dated) / max(1, len(dated)):.3f}")
        chance = random.Random(SEED)
        groups = dict(self.by_outcome)
        for tie in ("repeats", "updates"):
            groups[f"with {tie}"] = [item for items in self.by_outcome.values() for item in items if getattr(item, tie)]
        for name, items in groups.items():
            print(f"\n{name}")
            for item in chance.sample(items, min(examples, len(items))):
                print("  " + _example(item))


def _example(item: Taken) -> str:
    if item.memory is None:
        return item.reason or "nothing left"
    memory, scores, why = item.memory, item.scores, item.explained
    number = f"{scores.importance:.2f}={scores.novelty:.2f}n,{scores.salience:.2f}s" if scores else "-"
    text = memory.content.replace("\n", " / ")
    found = {name: what for name, what in why.found.items() if what} if why else {}
    near = [f"{row.relation}{'' if row.tied else '?'} {row.sim} {row.why}" for row in why.near[:2]] if why else []
    told = f"[{memory.kind} {memory.category}: {why.route if why else ''}] {number} {found} {near} {item.reason or ''}"
    return f"{text[:SHOWN_CHARS]}\n      {told}"


def take_turns(client: Client, folder: Path) -> Tally:
    tally = Tally()
    for conversation in load_benchmark(folder).conversations():
        sessions: dict[Any, list[Any]] = defaultdict(list)
        for turn in conversation.turns:
            sessions[turn.session].append(turn)
        first = conversation.turns[0].speaker
        for name, turns in sessions.items():
            said = [
                Turn(
                    role="user" if turn.speaker == first else "agent", speaker=turn.speaker, content=turn.text,
                    at=(turn.at + timedelta(seconds=20 * place)).isoformat(),
                )
                for place, turn in enumerate(turns)
            ]  # fmt: skip
            for start in range(0, len(said), TURNS_A_REQUEST):
                answer = client.turns(TurnsRequest(
                    session_id=f"{conversation.name}-{name}", turns=said[start : start + TURNS_A_REQUEST],
                    namespace=conversation.name, explain=True,
                ))  # fmt: skip
                tally.add(answer.results)
    return tally


def take_texts(client: Client, folder: Path, files: int) -> Tally:
    tally = Tally()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in TEXT_FILES)
    chosen = sorted(random.Random(SEED).sample(paths, min(files, len(paths))))
    for path in chosen:
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.strip():
            name = path.relative_to(folder).as_posix()[-64:]
            tally.add(client.ingest(IngestRequest(text=text, source=name, explain=True)).results)
    print(f"{len(chosen)} of {len(paths)} files")
    return tally


def throughput(daemon: RunningDaemon, chunks: int) -> None:
    """`ingest` of one text after the other, each of 100 pieces, until all have their vectors."""
    made = [" ".join(pair) for pair in zip(texts(chunks, 1), texts(chunks, 2), strict=True)]
    service = EmbeddingService(Catalogue(models_folder()))
    service.refresh()
    embedder = service.current()
    assert embedder is not None
    alone = made[: max(500, chunks // 10)]
    with daemon.client() as client:
        before = len(alone) / _seconds(lambda: _embed(service, embedder, alone))

        def take() -> None:
            for start in range(0, chunks, 100):
                client.ingest(IngestRequest(text="\n\n".join(made[start : start + 100])))
            daemon.wait_for_vectors(3600)

        seconds = _seconds(take)
        stored = client.status().memories
        after = len(alone) / _seconds(lambda: _embed(service, embedder, alone))
    rate, embedding = chunks / seconds, (before + after) / 2
    print(f"ingest of {chunks} chunks: {rate:.0f}/s, {stored} remembered; embedding alone {embedding:.0f}/s: "
          f"ratio {rate / embedding:.2f}")  # fmt: skip
    service.close()


def _embed(service: EmbeddingService, embedder: Any, made: Sequence[str]) -> None:
    for start in range(0, len(made), EMBEDDED_TOGETHER):
        service.encode_batch(embedder, made[start : start + EMBEDDED_TOGETHER])


def _seconds(act: Any) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def fill(client: Client, namespace: str, count: int) -> None:
    """Memories that have nothing to do with the lives, written without a look at what is near to them."""
    made = [NewMemory(content=text, event_at=AT, dedup="off") for text in texts(count)]
    for start in range(0, count, FILLED_TOGETHER):
        client.remember_many(made[start : start + FILLED_TOGETHER], namespace)


def lives(client: Client, count: int, *, held_out: bool, among: int) -> None:
    """Each life in a namespace of its own, its statements in the order they were made."""
    found: Counter[str] = Counter()
    missed: list[str] = []
    taken: list[float] = []
    for number, life in enumerate(made_lives(count, held_out=held_out)):
        namespace = f"life-{number}-{held_out}"
        fill(client, namespace, among)
        ids: list[str] = []
        for said in life:
            began = time.perf_counter()
            answer = client.remember(NewMemory(
                content=said.text, event_at=said.at, namespace=namespace, speaker=said.speaker,
            ))  # fmt: skip
            taken.append(time.perf_counter() - began)
            told = [life[index] for index, known in enumerate(ids) if known in answer.updates]
            before = life[said.updates] if said.updates is not None else None
            is_right = any(old.key == said.key and before and old.value == before.value for old in told)
            wrong = [old for old in told if old.key != said.key or old.value in ("", said.value)]
            is_known = answer.outcome in ("repeats", "duplicate")
            found["changes"] += before is not None
            found["with the right edge"] += is_right
            found["edges"] += len(told)
            found["wrong edges"] += len(wrong)
            found["said again"] += said.repeats is not None
            found["linked"] += said.repeats is not None and is_known
            found["linked wrongly"] += said.repeats is None and is_known
            if wrong or (before and not is_right):
                missed.append(f"{said.text!r}: {[old.text for old in told]} for {before and before.text!r}")
            ids.append(answer.memory.id)
    print(", ".join(f"{name} {number}" for name, number in found.items()))
    print(
        f"remember: {1000 * statistics.median(taken):.1f} ms, 95th {1000 * statistics.quantiles(taken, n=20)[-1]:.1f}"
    )
    for line in random.Random(SEED).sample(missed, min(20, len(missed))):
        print(f"  {line}")


def _parts(options: argparse.Namespace, daemon: RunningDaemon) -> Iterator[str]:
    with daemon.client() as client:
        if options.turns:
            yield "turns"
            take_turns(client, options.turns).show(options.examples)
        if options.texts:
            yield "texts"
            take_texts(client, options.texts, options.files).show(options.examples)
        if options.lives:
            yield "lives"
            lives(client, options.lives, held_out=False, among=options.among)
            lives(client, options.lives, held_out=True, among=options.among)
    if options.chunks:
        yield "throughput"
        throughput(daemon, options.chunks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=Path, help="the retrieval benchmark's folder")
    parser.add_argument("--texts", type=Path, help="a folder of texts")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=0)
    parser.add_argument("--lives", type=int, default=0)
    parser.add_argument("--among", type=int, default=0)
    parser.add_argument("--examples", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, running(Path(scratch) / "data") as daemon:
        daemon.wait_for_vectors()
        for part in _parts(options, daemon):
            print(f"\n== {part}", flush=True)


if __name__ == "__main__":
    main()
