"""Years of a person, lived by the whole daemon in simulated time, with cycles of consolidation between. SPEC 9

Real: routes, intake, store, indexes, recall, the steps of the cycle and their runner, MiniLM. Made up: the person, the
clock, crashes, and what the language model writes. Every transaction is held against the rules of the layers as it is
made, and at the end everything that was stored is looked for.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.memory_cues import NEVER_CORE_TAGS, NEVER_CORE_TRUSTS
from mnemo_core.lifecycle.consolidation.pairs import NEIGHBOURS_MAX
from mnemo_daemon.history_names import BY_LIFECYCLE
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder, RunAll
from mnemo_daemon.models.embedders.embedding import EmbeddingService, load_embedder
from mnemo_daemon.scheduler import Job
from mnemo_daemon.services import Services
from mnemo_daemon.settings import HistorySettings, LifecycleSettings, LlmSettings, Settings, TrashSettings
from mnemo_daemon.table_walk import records_of
from mnemo_daemon.thread_supervision import complete_future
from mnemo_store.records import LAYERS, UNREQUESTED_SOURCES, Cycle, DropMemory, Memory, PutCycle, PutMemory
from mnemo_store.tables import CYCLES, DECISIONS
from tests.simulation.disk import Fault, ProcessKill
from tests.simulation.ledger import LedgerEntry, Wrong
from tests.simulation.person_years import (
    ActivityBlock,
    PersonYears,
    PlantedFact,
    SaidText,
    YearsPlan,
    mem0_export,
    zipf_place,
)
from tests.simulation.scripted_models import CHARACTERS, Character, SimulatedLanguageModels
from tests.simulation.world import LEFT_OUT, SimulatedAnswer, World, in_simulated_time

Floats = NDArray[np.float32]

CYCLE_SECONDS = 1_860.0  # after which a cycle is due
CONSOLIDATION = "consolidation"  # the job
BUFFER_CAP = 200  # memories of a namespace that came in where they may be set aside. SPEC 9.4
RECALLED = 10
LATER_JOBS = frozenset({"index_saving", "topic_tree"})  # due by the clock, at every look of a world whose clock jumps
TOPICS_EVERY = 250  # blocks, as are the jobs that are due by the clock
NEVER_TO_CORE = NEVER_CORE_TAGS | {f"trust {each}" for each in NEVER_CORE_TRUSTS}


class VectorCache:
    """The vectors of texts that were embedded before, kept in a file where one is named."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._rows: dict[bytes, Floats] = {}
        self._read = 0
        if file is not None and file.exists():
            with np.load(file) as saved:
                self._rows = dict(zip(saved["keys"].astype("S16"), saved["rows"], strict=True))
            self._read = len(self._rows)

    def of(self, embedder: Embedder, text: str) -> Floats | None:
        return self._rows.get(_key(embedder, text))

    def add(self, embedder: Embedder, text: str, windows: Floats) -> None:
        if len(windows) == 1:
            self._rows[_key(embedder, text)] = windows[0]

    def save(self) -> None:
        if self._file is not None and len(self._rows) > self._read:
            keys = np.array([*self._rows], "S16")
            np.savez(self._file, keys=keys, rows=np.stack([*self._rows.values()]))


def _key(embedder: Embedder, text: str) -> bytes:
    return blake2b(f"{embedder.space}\0{text}".encode(), digest_size=8).hexdigest().encode()


class CachedEmbedder(Embedder):
    """A real embedder that embeds no text twice, and gives no token rows."""

    def __init__(self, embedder: Embedder, cache: VectorCache) -> None:
        self.name, self.dimensions, self.space = embedder.name, embedder.dimensions, embedder.space
        self.tokens_max, self.form = embedder.tokens_max, embedder.form
        self._embedder, self._cache = embedder, cache

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return [self._windows(text, run_all) for text in texts]

    def encode_query(self, text: str) -> Floats:
        vector: Floats = self._windows(text, map)[0].copy()
        return vector

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.count_tokens(texts)

    def close(self) -> None:
        """The embedder is shared by the daemons of one process."""

    def _windows(self, text: str, run_all: RunAll) -> Floats:
        known = self._cache.of(self, text)
        if known is not None:
            return known[None, :]
        (windows,) = self._embedder.encode_batch([text], run_all)
        self._cache.add(self, text, windows)
        return windows


class CachedModels(EmbeddingService):
    """The real service with an embedder that outlives its daemon."""

    def __init__(self, catalogue: ModelCatalogue, embedder: Embedder) -> None:
        super().__init__(catalogue, threads=1, late=False)
        self._embedder = embedder

    def _open(self, name: str) -> Embedder:
        assert name == self._embedder.name
        return self._embedder


def cached_minilm(models: Path, cache: VectorCache) -> CachedEmbedder:
    """The installed default model; loaded once."""
    manifest = ModelCatalogue(models).require_installed(DEFAULT_EMBEDDING)
    return CachedEmbedder(load_embedder(manifest, late=False), cache)


class LayerWatch:
    """Holds every transaction against the rules of the layers. Raises Wrong. SPEC 9.4, 17"""

    def __init__(self) -> None:
        self.memories: dict[str, Memory] = {}
        self.moves: Counter[str] = Counter()
        self.under_way = ""  # the id of the cycle that has not ended

    def take(self, group: Sequence[LedgerEntry]) -> None:
        for written in group:
            for change in written.changes:
                if written.error is not None:  # until it settles, nobody knows what became of it
                    if isinstance(change, PutCycle):
                        self.under_way = ""
                elif isinstance(change, PutMemory):
                    self._put(change.data, written)
                elif isinstance(change, DropMemory):
                    self._drop(change.id)
                elif isinstance(change, PutCycle):
                    self._carry_on(change.data)

    def settle(self, memories: Mapping[str, Memory | None]) -> None:
        """Take memories as the store has them."""
        self.memories |= {memory_id: memory for memory_id, memory in memories.items() if memory is not None}

    def _put(self, memory: Memory, written: LedgerEntry) -> None:
        before = self.memories.get(memory.id)
        self.memories[memory.id] = memory
        if written.entry.what == "undo" or memory.managed:
            return
        if before is not None and (before.layer, before.state) != (memory.layer, memory.state):
            self.moves[f"{_place(before)} → {_place(memory)}"] += 1
        elif before is None and written.entry.by == BY_LIFECYCLE.name:
            self.moves[f"made in {memory.layer}"] += 1
        if problem := wrong_step(before, memory, self.memories):
            raise Wrong(f"{problem}: {memory.id} {memory.content!r}, by {written.entry.by} ({written.entry.what})")

    def _carry_on(self, cycle: Cycle) -> None:
        """No cycle begins before the one under way has ended, and no step of one is reported twice."""
        names = [each.name for each in cycle.steps]
        if self.under_way not in ("", cycle.id) or len({*names}) < len(names):
            raise Wrong(f"cycle {cycle.id} reports {names} while {self.under_way or 'none'} is under way")
        self.under_way = "" if cycle.ended_at else cycle.id

    def _drop(self, memory_id: str) -> None:
        memory = self.memories.get(memory_id)
        if memory is not None and memory.state not in ("trashed", "discarded"):
            raise Wrong(f"a memory that is {memory.state} was dropped: {memory_id}")


def wrong_step(before: Memory | None, after: Memory, others: Mapping[str, Memory]) -> str:
    """The rule of the layers that a version breaks; "" for none."""
    if before is not None and before.layer == after.layer:
        return ""
    steps = LAYERS.index(after.layer) - (LAYERS.index(before.layer) if before is not None else 0)
    if before is not None:
        if abs(steps) != 1:
            return f"from {before.layer} to {after.layer} at once"
        if steps < 0 and before.layer != "core":
            return f"from {before.layer} back to {after.layer}"
    elif after.layer == "core":
        sources = [others[each] for each in after.derived_from if each in others]
        if all(each.layer != "core" for each in sources):
            return "made in core of sources that stand lower"
        if any(each.layer != "core" and NEVER_TO_CORE & {*each.tags, f"trust {each.trust}"} for each in sources):
            return "made in core of a source that can never be promoted to it"
    if after.layer == "core":
        barred = NEVER_TO_CORE & {*after.tags, f"trust {after.trust}", f"trust {before.trust if before else ''}"}
        barred -= {"distilled"} if before is None else set()  # the entry of a topic, whose sources were looked at above
        return f"core admits what it must not ({sorted(barred)})" if barred else ""
    return ""


def _place(memory: Memory) -> str:
    return memory.layer if memory.state == "active" else f"{memory.layer} {memory.state}"


class SameThread(ThreadPoolExecutor):
    """Does what is asked of it at once, so that one seed is one life."""

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        complete_future(future, lambda: fn(*arguments, **named))
        return future


class DecadeWorld(World):
    """A world of years: with a real embedder, scripted language models and longer files."""

    def __init__(self, folder: Path, chance: Random, embedder: Embedder, models: Path) -> None:
        super().__init__(folder, chance)
        self.watch = LayerWatch()
        self.ledger = self.watch  # type: ignore[assignment]
        self.map_bytes, self.segment_bytes = 1 << 32, 8 << 20
        self.scripted = SimulatedLanguageModels(Random(chance.random()))
        self.slice_seconds: list[tuple[int, float]] = []  # of cycles: memories, and seconds of this machine
        self._embedder = embedder
        self._catalogue = ModelCatalogue(models)
        self._chance = chance
        self._settings = _settings("auto", merge=True)

    def choose_settings(self) -> None:
        """Choose what a person may, between two starts."""
        level = self._chance.choice(("auto", "auto", "full", "off"))
        self._settings = _settings(level, merge=self._chance.random() < 0.7)

    def _equip(self, daemon: Services) -> None:
        daemon.catalogue = self._catalogue
        daemon.embedding.close()
        daemon.embedding = CachedModels(self._catalogue, self._embedder)
        daemon.language_model.close()
        daemon.language_model = self.scripted

    def _jobs(self, daemon: Services) -> list[Job]:
        jobs = [job for job in jobs_of(daemon) if job.name not in LATER_JOBS.union(LEFT_OUT)]
        return [self._timed(job) if job.name == CONSOLIDATION else job for job in jobs]

    def _timed(self, job: Job) -> Job:
        """The job, each of whose slices is timed."""

        def run() -> bool:
            began = time.perf_counter()
            try:
                return job.run()
            finally:
                self.slice_seconds.append((len(self.watch.memories), time.perf_counter() - began))

        return replace(job, run=run)

    def open(self) -> None:
        super().open()
        assert self.daemon is not None
        self.daemon.consolidation._thread = SameThread()

    def settle_watch(self) -> None:
        """Have the watch know what became of the writes during which the process ended."""
        with self.store.snapshot() as snapshot:
            self.watch.settle({each: snapshot.memory(each) for each in self.watch.memories})

    def save_views(self) -> None:
        """Save the indexes, so that a start after a kill reads them."""
        assert self.daemon is not None
        self.daemon.views.save()

    def build_topics(self) -> None:
        assert self.daemon is not None
        for _ in range(100_000):
            if not self.daemon.topic_trees.run_slice():
                return
        raise Wrong("the topics never come to rest")


@dataclass
class DecadeReport:
    """The results of the years."""

    blocks: int = 0
    recalls: int = 0
    told: int = 0  # values of facts
    did: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    at_end: Counter[str] = field(default_factory=Counter)
    steps: dict[str, Counter[str]] = field(default_factory=dict)  # what the steps of the cycles report, together
    lost: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class Decade:
    """Lives the years of a person in a world."""

    def __init__(
        self, folder: Path, seed: int, plan: YearsPlan, embedder: Embedder, models: Path, *,
        crashes: float = 0.01, jumps: float = 0.01, eras: int = 12, others: int = 30,
    ) -> None:  # fmt: skip
        """crashes, jumps: of the blocks; eras: in each of which the language model has one character; others: memories
        besides the planted facts that are looked for at the end."""
        self.report = DecadeReport()
        self.person = PersonYears(seed, plan)
        self.world = DecadeWorld(folder, Random(f"world {seed}"), embedder, models)
        self.told: list[tuple[PlantedFact, str]] = []  # each with the id of the memory that holds it
        self.ids: dict[str, str] = {}  # of everything that was acknowledged: its text
        self._chance = Random(f"decade {seed}")
        self._plan, self._crashes, self._jumps, self._eras, self._others = plan, crashes, jumps, eras, others
        self._ahead = 0  # by how many ms the clock is wrong
        self.on_progress: Callable[[int, int], None] = lambda _block, _memories: None

    def live(self) -> DecadeReport:
        """Live all the years, and check everything at their end."""
        with in_simulated_time(self.world.clock):
            try:
                self.world.open()
                self.world.refresh_model()
                began = time.perf_counter()
                for number, block in enumerate(self.person.blocks()):
                    self._live(number, block)
                    self.report.blocks += 1
                    self.on_progress(number, len(self.world.watch.memories))
                self.report.seconds["lived"] = time.perf_counter() - began
                self._rest()
                began = time.perf_counter()
                self.check()
                self.report.seconds["checked"] = time.perf_counter() - began
            finally:
                self.world.throw_away()
        return self.report

    def _live(self, number: int, block: ActivityBlock) -> None:
        chance, world = self._chance, self.world
        era = CHARACTERS[number * self._eras // self._plan.blocks % len(CHARACTERS)]
        self._enter(era)
        self._go_on_to(block.at, number)
        for statement in self._said_together(block):
            self._say(statement, block)
        for _ in range(block.recalls):
            self._ask_about_something()
        if number % TOPICS_EVERY == TOPICS_EVERY - 1:
            world.index()
            world.build_topics()
            world.save_views()
        if chance.random() < self._crashes:
            self._crash()
        world.step(CYCLE_SECONDS)

    def _enter(self, era: Character) -> None:
        if self.world.scripted.character != era:
            self.world.scripted.character = era
            self.report.did[f"a model that is {era}"] += 1

    def _go_on_to(self, at: float, number: int) -> None:
        """Let the time pass until then; now and then the clock is set wrong, and right some blocks later."""
        clock, chance = self.world.clock, self._chance
        clock.go_on(max(1.0, at - (clock.seconds - 1000.0)))
        if self._ahead and number % 5 == 0:
            clock.milliseconds -= self._ahead
            self._ahead = 0
        elif not self._ahead and chance.random() < self._jumps:
            self._ahead = chance.choice((1, -1)) * round(chance.choice((0.1, 3, 40, 400)) * 86_400_000)
            clock.milliseconds += self._ahead
            self.report.did["clock set wrong"] += 1

    # Saying and asking

    def _said_together(self, block: ActivityBlock) -> Iterator[Sequence[SaidText]]:
        """The statements of a block in their order, those of an import as one."""
        imported = [each for each in block.statements if each.entry == "import"]
        if imported:
            yield imported
        for each in block.statements:
            if each.entry != "import":
                yield [each]

    def _say(self, statements: Sequence[SaidText], block: ActivityBlock) -> None:
        first = statements[0]
        if first.entry == "import":
            raw = mem0_export([each.text for each in statements])
            answer = self.world.ask("POST", "/v1/import", raw=raw, entry_point="cli", namespace=first.namespace)
            self.report.outcomes["imported"] += len(statements)
            self._expect(answer)
            return
        memory_id, outcome = self._stored(first, block)
        self.report.outcomes[outcome] += 1
        if first.fact is not None and outcome not in ("stored", "duplicate", "updated", "repeats"):
            memory_id, outcome = self._stored(first._replace(entry="person", text=_sentence(first.text)), block)
            self.report.did[f"a fact that was set aside was said again: {outcome}"] += 1
        if memory_id and outcome != "discarded":
            self.ids[memory_id] = first.text
        if first.fact is not None:
            self.told.append((first.fact, memory_id))

    def _stored(self, statement: SaidText, block: ActivityBlock) -> tuple[str, str]:
        """The id of the memory that a statement became, and the outcome."""
        world = self.world
        if statement.entry in ("person", "agent"):
            body = {"content": _sentence(statement.text), **dict(statement.fields)}
            entry_point = "cli" if statement.entry == "person" else "mcp"
            answer = world.ask("POST", "/v1/memories", body, entry_point=entry_point, namespace=statement.namespace)
            self._expect(answer)
            return answer.value["memory"]["id"], answer.value["outcome"]
        if statement.entry == "document":
            body = {"text": statement.text, **dict(statement.fields)}
            answer = world.ask("POST", "/v1/ingest", body, entry_point="cli", namespace=statement.namespace)
            self._expect(answer)
            result = answer.value["results"][0]
            return (result["memory"]["id"] if result.get("memory") else ""), result["outcome"]
        role = "tool" if "tool" in statement.entry else statement.entry.partition(" ")[0]
        session = block.session or f"run-{self.report.blocks}"
        body = {"session_id": session, "turns": [{"role": role, "content": _sentence(statement.text)}]}
        answer = world.ask("POST", "/v1/turns", body, namespace=statement.namespace)
        self._expect(answer)
        (result,) = answer.value["results"]
        memory = result.get("memory")
        return (memory["id"] if memory else ""), result["outcome"]

    def _ask_about_something(self) -> None:
        """Some facts are asked for again and again, most hardly ever."""
        if not self.told:
            return
        fact, _ = self.told[zipf_place(self._chance, len(self.told))]
        answer = self._recall(fact, dry=False)
        self.report.recalls += 1
        self.report.did["found when asked"] += any(fact.code in each["content"] for each in answer)

    def _recall(self, fact: PlantedFact, **more: Any) -> list[Any]:
        body = {"query": fact.question, "top_k": RECALLED, "token_budget": None, "dry": True, **more}
        answer = self.world.ask("POST", "/v1/recall", body, namespace=fact.namespace, entry_point="cli")
        self._expect(answer)
        found: list[Any] = answer.value["memories"]
        return found

    def _expect(self, answer: Any) -> None:
        if not answer.is_ok:
            raise Wrong(f"answered {answer.status} {answer.value}")

    # Crashes

    def _crash(self) -> None:
        """The process ends between two steps of a cycle or within one, or is restarted as it should be."""
        chance, world = self._chance, self.world
        kind = chance.choice(("killed", "killed within a cycle", "killed within a cycle", "restarted"))
        self.report.did[kind] += 1
        if kind == "killed within a cycle":
            kinds: Any = chance.choice((("commit",), ("append",)))
            world.disk.set(Fault(at=chance.randint(1, 6), only=kinds, kills=True))
            try:
                world.step(CYCLE_SECONDS)
                world.disk.set(None)
                return
            except ProcessKill:
                self.report.did["killed where it wrote"] += 1
                world.bury()
        elif kind == "killed":
            with contextlib.suppress(ProcessKill):
                world.jobs.run_round()
            world.kill()
        else:
            world.close()
        world.choose_settings()
        world.open()
        world.settle_watch()

    def _rest(self) -> None:
        for _ in range(3):
            self.world.step(CYCLE_SECONDS)

    # At the end

    def check(self) -> None:
        """Raise Wrong for what was lost or got out of bounds."""
        self._check_memories()
        self._check_tables()
        self._check_facts()
        self._check_others()

    def _check_memories(self) -> None:
        """Everything is there, and no history has a step that is not allowed."""
        with self.world.store.snapshot() as snapshot:
            gone = [each for each in self.ids if snapshot.memory(each) is None]
            if gone:
                raise Wrong(f"{len(gone)} memories are gone: {[self.ids[each] for each in gone[:5]]}")
            for memory_id in self.world.watch.memories:
                before: Memory | None = None
                for row in snapshot.versions(memory_id):
                    if before is not None and (problem := wrong_step(before, row.memory, {})):
                        raise Wrong(f"the history of {memory_id} goes {problem}")
                    before = row.memory
                if before is not None:
                    self.report.at_end[_place(before)] += 1

    def _check_tables(self) -> None:
        report, bounds = self.report, self._plan.blocks + NEIGHBOURS_MAX * len(self.world.watch.memories)
        for cycle in records_of(self.world.store, CYCLES):
            report.at_end["cycles"] += 1
            for step in cycle.steps:
                report.steps.setdefault(step.name, Counter()).update(step.counts)
                report.steps[step.name][f"left out: {step.skipped}"] += bool(step.skipped)
        report.at_end["decisions"] = sum(1 for _ in records_of(self.world.store, DECISIONS))
        if report.at_end["cycles"] + report.at_end["decisions"] > bounds:
            raise Wrong(f"the tables hold {report.at_end}, over {bounds}")
        in_buffer = Counter(
            memory.namespace for memory in self.world.watch.memories.values()
            if memory.layer == "buffer" and memory.state == "active" and memory.source in UNREQUESTED_SOURCES
            and memory.turn is None and "_triaged" not in memory.tags  # turns have bounds of their own; triage may keep
        )  # fmt: skip
        if over := {name: count for name, count in in_buffer.items() if count > BUFFER_CAP}:
            raise Wrong(f"the buffer holds {over}, over its cap of {BUFFER_CAP}")

    def _check_others(self) -> None:
        """Look for some of the other memories by their own text, with what is hidden."""
        known = [memory for each in self.ids if (memory := self.world.watch.memories[each]).kind != "working"]
        for memory in self._chance.sample(known, min(self._others, len(known))):
            asked = {"query": memory.content, "top_k": RECALLED, "token_budget": None, "dry": True, "min_importance": 0}
            shown = {"include_superseded": True, "include_compressed": True}
            answer = self.world.ask("POST", "/v1/recall", {**asked, **shown}, namespace=memory.namespace)
            self._expect(answer)
            if any(each["content"] == memory.content for each in answer.value["memories"]):
                self.report.did["others found by their text"] += 1
            else:
                why = self.world.ask("POST", "/v1/why", {**asked, **shown, "id": memory.id}, namespace=memory.namespace)
                self.report.lost.append(
                    f"{memory.content!r} ({_place(memory)}, {memory.source}) is not found by its text: "
                    f"{self._reason(why)}"
                )

    def _reason(self, why: SimulatedAnswer) -> str:
        """The explanation of POST /v1/why, with the text of the memory that was answered instead."""
        instead = self.world.watch.memories.get(why.value["instead"] or "")
        return f"{why.value['sentence']}{f' ({instead.content!r})' if instead else ''}"

    def _check_facts(self) -> None:
        """Each fact is among the first by its own question, a former value where such are asked for."""
        self.report.told = len(self.told)
        newest = {fact.number: fact.value for fact, _ in self.told}
        for fact, memory_id in self.told:
            wanted = {} if fact.value == newest[fact.number] else {"include_superseded": True}
            if any(fact.code in each["content"] for each in self._recall(fact, **wanted)):
                self.report.did["facts found" if not wanted else "former values found"] += 1
                continue
            memory = self.world.watch.memories[memory_id]
            if memory.state == "compressed" and any(
                fact.code in each["content"] for each in self._recall(fact, **wanted, include_compressed=True)
            ):
                self.report.did["facts found as compressed"] += 1
                continue
            after = self.world.watch.memories.get(memory.superseded_by)
            self.report.lost.append(
                f"{memory.content!r} ({_place(memory)}, {memory.trust}, {memory.source}, {memory.tags}"
                f"{f', superseded by {after.content!r}' if after else ''}) is not found by {fact.question!r} {wanted}"
            )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _settings(level: Any, *, merge: bool) -> Settings:
    return Settings(
        llm=LlmSettings(level=level, probe=False),
        history=HistorySettings(keep="all"),
        trash=TrashSettings(keep_days=0),
        lifecycle=LifecycleSettings(merge=merge),
    )
