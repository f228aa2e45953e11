"""Ingestion of real text: outcomes, kinds and categories, examples to read, and the speed.

    python -m tests.bench.bench_intake --turns FOLDER [--examples 20]    the retrieval benchmark's turns, by `turns`
    python -m tests.bench.bench_intake --texts FOLDER [--files 100]      every text file below a folder, by `ingest`
        [--save FILE]                                                    every item and what was decided, as JSON lines
    python -m tests.bench.bench_intake --costs 5 [--each 400]            processor time of a sentence, a passage of a
        [--notes FOLDER]                                                 note, a turn and a repeat; and the model alone
    python -m tests.bench.bench_intake --lives 200                       made lives: which changes got their `updates`
        [--among 5000]                                                   each life among so many other memories

Nothing of the texts belongs to the project. Examples are drawn by chance from a seed, so that the same are read again.
"""

import argparse
import asyncio
import functools
import io
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.ingestion import IngestRequest, PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.memories import NewMemory
from mnemo_core.ingest.mutations import Draft
from mnemo_core.text import secrets
from mnemo_core.text.cleaning import clean_text
from mnemo_core.text.dates.local_days import Zone
from mnemo_core.text.dates.time_mentions import find_event_time, find_mentions
from mnemo_core.transfer.import_plan import ImportTarget
from mnemo_daemon.ingest.ingest_pipeline import Submission
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.transcript_import import TranscriptImport
from mnemo_daemon.settings import load
from mnemo_daemon.transfer.tool_import import ImportRequest, ImportState
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import embedded_text
from mnemo_store.store import Store
from tests.bench.quality import load_benchmark
from tests.bench.texts import texts
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import AT
from tests.support.statement_histories import statement_histories as made_lives
from tests.support.transcript_files import history as transcript_history

SEED = 7
TEXT_FILES = (".txt", ".md", ".rst")
TURNS_A_REQUEST = 200
SHOWN_CHARS = 160
EMBEDDED_TOGETHER = 64
FILLED_TOGETHER = 1000
NEAR_SHOWN = 2
REPOSITORY = Path(__file__).parents[2]
TURNS_A_SESSION = 40
SETTLED_SECONDS = 0.05  # between two looks
SETTLED_SECONDS_MAX = 300.0
CALLER = Caller("cli")
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


class IngestCosts:
    """The processor time of the services of the daemon for a text of each kind, compared with the model alone on the
    same texts. In this process, without the socket, the scheduler and what it runs.

    Each round has texts of its own, so that nothing is known before; the services and the model take turns.
    """

    def __init__(self, services: Services, notes: Path, texts_a_round: int, rounds: int) -> None:
        self._services, self._texts, self._rounds = services, texts_a_round, rounds
        self._spent: dict[str, list[tuple[float, float]]] = defaultdict(list)  # of a text: ms, and of the model alone
        self._seen = set[str]()  # ids
        paths = sorted(path for path in notes.rglob("*.md") if "node_modules" not in path.parts)
        random.Random(SEED).shuffle(paths)
        self._notes = [paths[each::rounds] for each in range(rounds)]

    async def run(self, scratch: Path) -> None:
        vault = scratch / "notes"
        vault.mkdir()
        self._services.notes.start()
        self._services.notes.add_root(str(vault), "notes")
        for number in range(self._rounds):
            said = [text.split(".")[0] + "." for text in texts(self._texts, SEED + number)]
            history = [data for _, data in
                       transcript_history(self._texts // TURNS_A_SESSION, TURNS_A_SESSION, SEED + number)]  # fmt: skip
            await self._spend("sentence", "said", 1, functools.partial(self._remember, said))
            await self._spend("passage", "notes", EMBEDDED_TOGETHER, functools.partial(self._add_notes, vault, number))
            await self._spend("turn", "turns", EMBEDDED_TOGETHER, functools.partial(self._import, history))
            await self._spend("repeat", "", 1, functools.partial(self._remember, said))
            await self._spend("turn again", "", 1, functools.partial(self._import, history))
            self._show()

    def _show(self) -> None:
        for kind, spent in self._spent.items():
            own, model = (statistics.median(each) for each in zip(*spent, strict=True))
            ratio = f"; the model alone {model:6.2f} ms, {model / own:4.2f} of it" if model else ""
            print(f"{kind:10} {own:6.2f} ms{ratio}")
        print(flush=True)

    async def _spend(self, kind: str, namespace: str, together: int, act: Callable[[], Awaitable[None]]) -> None:
        """Time one kind of ingestion. namespace: "" for texts that are known, which need no model."""
        services, began = self._services, time.process_time()
        await act()
        await asyncio.to_thread(self._settle)
        spent = time.process_time() - began
        new = self._new_texts(namespace) if namespace else []
        embedder = services.embedding.current()
        assert embedder is not None
        began = time.process_time()
        for some in batched(new, together):
            list(services.embedding.encode_each(embedder, some, on_this_thread=together == 1))
        alone = time.process_time() - began
        self._spent[kind].append((1000 * spent / (len(new) or self._texts), 1000 * alone / (len(new) or 1)))

    def _settle(self) -> None:
        """Return once every memory has its vector and is compared."""
        services = self._services
        while services.indexing.waiting() or services.scoring_backfill.waiting() or services.store.queue_length():
            time.sleep(SETTLED_SECONDS)

    def _new_texts(self, namespace: str) -> list[str]:
        """The texts of a namespace as they are embedded, without those of earlier rounds."""
        columns = self._services.views.attributes
        ids = columns.ids(np.flatnonzero(columns.mask(MemoryFilter(namespaces=(namespace,)))).tolist())
        new = [each for each in ids if each not in self._seen]
        self._seen.update(new)
        return [embedded_text(self._services.memories.get(each).memory) for each in new]

    async def _remember(self, said: Sequence[str]) -> None:
        for text in said:
            draft = Draft(content=text, namespace="said", user_id="local", trust="user", source="cli")
            await self._services.ingest.ingest([Submission(draft)], CALLER)

    async def _add_notes(self, vault: Path, number: int) -> None:
        folder = vault.with_name(f"notes-{number}")
        folder.mkdir()
        for place, path in enumerate(self._notes[number]):
            shutil.copyfile(path, folder / f"{place}-{path.name}")
        folder.rename(vault / folder.name)
        self._services.notes.rescan()
        await asyncio.to_thread(self._services.notes.wait_until_settled, SETTLED_SECONDS_MAX)

    async def _import(self, transcripts: Sequence[bytes]) -> None:
        """Import each as `mnemo import` does, one after the other."""
        services = self._services
        for data in transcripts:
            wanted = ImportRequest(CALLER, "import", into=ImportTarget(namespace="turns"))
            taken = TranscriptImport(
                services.store, services.ingest, services.memories, services.turn_tiers, services.secret_policy(),
                wanted, ImportState(),
            )  # fmt: skip
            await asyncio.to_thread(taken.run, io.BytesIO(data), "claude-code", data.partition(b"\n")[0])


def measure_costs(options: argparse.Namespace, scratch: Path) -> None:
    """Measure in a process of its own, in which numpy uses one thread, as in the daemon: here it was imported first."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        process.submit(_run_costs, options, scratch).result()


def _run_costs(options: argparse.Namespace, scratch: Path) -> None:
    asyncio.run(_measure(options, scratch))


async def _measure(options: argparse.Namespace, scratch: Path) -> None:
    configuration = load({**os.environ, "MNEMO_DATA_DIR": str(scratch / "own")})
    services = Services(configuration, Disk(), Store.open, NotesService)
    services.open()
    services.indexing.start()
    services.embedding.refresh()
    try:
        await IngestCosts(services, options.notes, options.each, options.costs).run(scratch)
    finally:
        services.closing.set()
        services.close()


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
        if options.lives:
            yield "lives"
            statement_histories(client, options.lives, held_out=False, among=options.among)
            statement_histories(client, options.lives, held_out=True, among=options.among)
    if options.costs:
        yield "costs"
        measure_costs(options, daemon.folder.parent)


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
    parser.add_argument("--costs", type=int, default=0, metavar="ROUNDS", help="processor time of a text of each kind")
    parser.add_argument("--each", type=int, default=400, help="texts of a kind in a round")
    parser.add_argument("--notes", type=Path, default=REPOSITORY, help="a folder of Markdown, for `--costs`")
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
