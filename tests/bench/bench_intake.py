"""Ingestion of real text: outcomes, kinds and categories, examples to read, and the speed.

    python -m tests.bench.bench_intake --turns FOLDER [--examples 20]    the retrieval benchmark's turns, by `turns`
    python -m tests.bench.bench_intake --texts FOLDER [--files 100]      every text file below a folder, by `ingest`
        [--save FILE]                                                    every item and what was decided, as JSON lines
    python -m tests.bench.bench_intake --chunks 10000                    `ingest` beside embedding alone
    python -m tests.bench.bench_intake --lives 200                       made lives: which changes got their `updates`
        [--among 5000]                                                   each life among so many other memories

Nothing of the texts belongs to the project. Examples are drawn by chance from a seed, so that the same are read again.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.client import Client
from mnemo_client.paths import models_folder
from mnemo_client.protocol.ingestion import IngestRequest, PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import NewMemory
from mnemo_core.text import secrets
from mnemo_core.text.cleaning import clean_text
from mnemo_core.text.dates.local_days import Zone
from mnemo_core.text.dates.time_mentions import find_event_time, find_mentions
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.bench.quality import load_benchmark
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import AT
from tests.support.statement_histories import statement_histories as made_lives

SEED = 7
TEXT_FILES = (".txt", ".md", ".rst")
TURNS_A_REQUEST = 200
SHOWN_CHARS = 160
EMBEDDED_TOGETHER = 64
FILLED_TOGETHER = 1000
NEAR_SHOWN = 2
CLOCK_MS = 60_000  # no text speaks of a time so near to when it is read
UTC_ZONE: Zone = lambda _: 0  # noqa: E731


class IntakeTally:
    """The outcomes of the items, with the items to draw examples from."""

    def __init__(self) -> None:
        self.items: list[PieceAnswer] = []
        self.refused = 0
        self.masked: list[str] = []
        self.dated: list[str] = []
        self.lost: list[str] = []
        self._contents: dict[str, str] = {}

    def add(self, results: Sequence[Any]) -> None:
        for result in results:
            if isinstance(result, PieceAnswer):
                self.items.append(result)
                if result.memory is not None and result.outcome != "duplicate":
                    self._contents[result.memory.id] = result.memory.content
            else:
                self.refused += 1

    def add_masked(self, text: str) -> None:
        """Count the text hidden by a mask, as it is in the original."""
        for span in secrets.find_secrets(text):
            around = text[max(0, span.start - 60) : span.start], text[span.start : span.end], text[span.end :][:30]
            self.masked.append(f"{span.kind}: {'⟦'.join(around[:2])}⟧{around[2]}".replace("\n", " / "))

    def add_date(self, text: str, said_at: int, told_at: int | None) -> None:
        """A time that was taken from the text."""
        if told_at is not None:
            named = ", ".join(text[each.start : each.end] for each in find_mentions(text, said_at, UTC_ZONE))
            at, said = (
                datetime.fromtimestamp(ms / 1000, UTC).strftime("%a %Y-%m-%d %H:%M") for ms in (told_at, said_at)
            )
            self.dated.append(f"{at} of {named!r} said {said}: {text[:300]}".replace("\n", " / "))

    def add_pieces(self, name: str, text: str, results: Sequence[Any]) -> None:
        """Count the text that is in none of its pieces, in their order; white space does not count."""
        whole, place = _squeezed(secrets.mask_secrets(clean_text(text), b"")[0]), 0
        for result in results:
            if not isinstance(result, PieceAnswer) or result.memory is None:
                continue
            piece = _squeezed(result.memory.content)
            found = whole.find(piece, place)
            if found < 0:
                self.lost.append(f"{name}: no such piece in the text: {piece[:SHOWN_CHARS]}")
                continue
            if found > place:
                self.lost.append(f"{name}: in no piece: {whole[place:found][:SHOWN_CHARS]}")
            place = found + len(piece)
        if place < len(whole):
            self.lost.append(f"{name}: in no piece: {whole[place:][:SHOWN_CHARS]}")

    def save(self, file: Path) -> None:
        with file.open("wb") as lines:
            for item in self.items:
                near = (
                    {each.id: self._contents.get(each.id, "") for each in item.explained.near} if item.explained else {}
                )
                lines.write(msgspec.json.encode({"item": item, "near": near}) + b"\n")

    def show(self, examples: int) -> None:
        print(f"{len(self.items)} items, {self.refused} refused")
        for name, read in READ.items():
            counts = Counter(read(item) or "-" for item in self.items)
            print(f"  {name}: " + ", ".join(f"{key} {count}" for key, count in counts.most_common()))
        importances = [item.memory.importance for item in self.items if item.memory]
        print(f"  importance, mean: {statistics.fmean(importances or [0.0]):.3f}")
        print(f"  masked: {len(self.masked)}, dated by the text: {len(self.dated)}, lost: {len(self.lost)}")
        for name in SHOWN_BY:
            groups: dict[str, list[PieceAnswer]] = defaultdict(list)
            for item in self.items:
                groups[READ[name](item)].append(item)
            for value, items in sorted(groups.items()):
                if value:
                    self._show_some(f"{name} {value}", items, examples)
        for tie in ("repeats", "updates"):
            self._show_some(f"with {tie}", [item for item in self.items if getattr(item, tie)], examples)
        for name, lines in (("masked", self.masked), ("dated by the text", self.dated), ("lost", self.lost)):
            print(f"\n{name}: {len(lines)}")
            for line in random.Random(SEED).sample(lines, min(examples, len(lines))):
                print(f"  {line}")

    def _show_some(self, name: str, items: list[PieceAnswer], examples: int) -> None:
        print(f"\n{name}: {len(items)}")
        for item in random.Random(SEED).sample(items, min(examples, len(items))):
            print("  " + self._example(item))

    def _example(self, item: PieceAnswer) -> str:
        if item.memory is None:
            return item.reason or "nothing left"
        memory, scores, why = item.memory, item.scores, item.explained
        number = f"{scores.importance:.2f}={scores.novelty:.2f}n,{scores.salience:.2f}s" if scores else "-"
        found = {name: what for name, what in why.found.items() if what} if why else {}
        reported = f"[{memory.kind} {memory.category}: {why.route if why else ''}] {number} {found} {item.reason or ''}"
        near = "".join(
            f"\n      {row.relation}{'' if row.tied else '?'} {row.sim} {row.why}: "
            f"{_line(self._contents.get(row.id, ''))}"
            for row in (why.near[:NEAR_SHOWN] if why else [])
        )  # fmt: skip
        return f"{_line(memory.content)}\n      {reported}{near}"


def _line(text: str) -> str:
    return text.replace("\n", " / ")[:SHOWN_CHARS]


def _squeezed(text: str) -> str:
    return "".join(text.casefold().split())


READ: dict[str, Callable[[PieceAnswer], str]] = {
    "outcome": lambda item: item.outcome,
    "reason": lambda item: item.reason or "",
    "kind": lambda item: item.memory.kind if item.memory else "",
    "category": lambda item: item.memory.category if item.memory else "",
    "ties": lambda item: " ".join(tie for tie in ("repeats", "updates", "related") if getattr(item, tie)),
}
SHOWN_BY = ("outcome", "reason", "kind", "category")


def take_turns(client: Client, folder: Path) -> IntakeTally:
    tally = IntakeTally()
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
            for turn in turns:
                tally.add_masked(turn.text)
                said_at = int(turn.at.timestamp() * 1000)
                tally.add_date(turn.text, said_at, find_event_time(turn.text, said_at, UTC_ZONE))
    return tally


def take_texts(client: Client, folder: Path, files: int) -> IntakeTally:
    tally = IntakeTally()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in TEXT_FILES)
    chosen = sorted(random.Random(SEED).sample(paths, min(files, len(paths))))
    for path in chosen:
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.strip():
            name = path.relative_to(folder).as_posix()[-64:]
            results = client.ingest(IngestRequest(text=text, source=name, explain=True)).results
            tally.add(results)
            tally.add_masked(text)
            tally.add_pieces(name, text, results)
            for memory in (item.memory for item in results if isinstance(item, PieceAnswer) and item.memory):
                is_reported = abs(memory.event_at - memory.created_at) > CLOCK_MS
                tally.add_date(memory.content, memory.created_at, memory.event_at if is_reported else None)
    print(f"{len(chosen)} of {len(paths)} files")
    return tally


def throughput(daemon: RunningDaemon, chunks: int) -> None:
    """`ingest` of one text after the other, each of 100 pieces, until all have their vectors."""
    made = [" ".join(pair) for pair in zip(texts(chunks, 1), texts(chunks, 2), strict=True)]
    service = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
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


def statement_histories(client: Client, count: int, *, held_out: bool, among: int) -> None:
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
            reported = [life[index] for index, known in enumerate(ids) if known in answer.updates]
            before = life[said.updates] if said.updates is not None else None
            is_right = any(old.key == said.key and before and old.value == before.value for old in reported)
            wrong = [old for old in reported if old.key != said.key or old.value in ("", said.value)]
            is_known = answer.outcome in ("repeats", "duplicate")
            found["changes"] += before is not None
            found["with the right edge"] += is_right
            found["edges"] += len(reported)
            found["wrong edges"] += len(wrong)
            found["said again"] += said.repeats is not None
            found["linked"] += said.repeats is not None and is_known
            found["linked wrongly"] += said.repeats is None and is_known
            if wrong or (before and not is_right):
                missed.append(f"{said.text!r}: {[old.text for old in reported]} for {before and before.text!r}")
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
            _show(take_turns(client, options.turns), options)
        if options.texts:
            yield "texts"
            _show(take_texts(client, options.texts, options.files), options)
        if options.statement_histories:
            yield "lives"
            statement_histories(client, options.statement_histories, held_out=False, among=options.among)
            statement_histories(client, options.statement_histories, held_out=True, among=options.among)
    if options.chunks:
        yield "throughput"
        throughput(daemon, options.chunks)


def _show(tally: IntakeTally, options: argparse.Namespace) -> None:
    tally.show(options.examples)
    if options.save:
        tally.save(options.save)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=Path, help="the retrieval benchmark's folder")
    parser.add_argument("--texts", type=Path, help="a folder of texts")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--save", type=Path, help="a file for every item, one JSON object a line")
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
