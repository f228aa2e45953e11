"""A cycle of consolidation over made stores: a dry run says what the cycle does, undo takes back what it did, a crash
anywhere in it is made good by the next, and no language model can lose anything. SPEC 9, 17"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mnemo_core.decay import EPOCH
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.tasks import AnyTask, TaskInputs, parse_answer
from mnemo_daemon.lifecycle.consolidation import CycleResult
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_daemon.services import Services
from mnemo_daemon.settings import LifecycleSettings
from mnemo_daemon.table_walk import records_of
from mnemo_daemon.transfer.store_export import export_lines
from mnemo_store.records import KINDS, LAYERS, Memory, Usage
from mnemo_store.store import Store
from mnemo_store.tables import CYCLES, EDGES, FACTS
from tests.simulation import checks
from tests.simulation.decade import DecadeWorld, wrong_step
from tests.simulation.disk import Fault, ProcessKill
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue, SimulatedEmbedder
from tests.simulation.person_years import PersonYears, SaidText, YearsPlan
from tests.simulation.scripted_models import Enemy, RecordingWriter, Scribbler, write_well
from tests.simulation.world import in_simulated_time
from tests.support.consolidation_services import Answers, ConsolidationServices, consolidation_services_in
from tests.support.samples import AT, sample_memory
from tests.support.store_services import put

MEMORIES = 60
REPEATED = 6  # every so-manieth says what the one before it says
EPOCHS = 40  # so many have ended before
DAY_MS = 86_400_000
CALLS_MAX, CALLS_STEP = 200, 14  # of the disk in a cycle, every so-manieth fails once
KILLS_MIN = 3
CHARACTERS = (("absent", 1), ("good", 2), ("random", 1), ("hostile", 2))  # each with a seed

CHANGE_MARKS = re.compile(rb'"(?:seq|version|modified_at)":\d+,?')
ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Contents = dict[str, tuple[Memory, Usage | None]]  # the memories of a store and their usage, by id


def answers_of(character: str) -> Answers | None:
    """The model of a character. Its answer follows from what it is asked alone."""

    def answers(task: AnyTask, inputs: TaskInputs) -> Any:
        chance = Random(f"{task.site} {inputs.sources}")
        writers: dict[str, RecordingWriter] = {
            "good": write_well,
            "random": Scribbler(chance),
            "hostile": Enemy(chance),
        }
        try:
            return parse_answer(task, writers[character](task, inputs), inputs)
        except msgspec.DecodeError:
            return None

    return None if character == "absent" else answers


def said_texts(seed: int) -> list[SaidText]:
    plan = YearsPlan(blocks=60, memories=4 * MEMORIES, facts=MEMORIES // 4, recalls=0)
    found = [each for block in PersonYears(seed, plan).blocks() for each in block.statements]
    return Random(seed).sample(found, MEMORIES)


def fill(services: ConsolidationServices, seed: int) -> None:
    """Store memories of every layer, kind and age, some said twice, some pinned, some of sessions."""
    chance = Random(seed)
    services.services.at = AT + 400 * DAY_MS
    texts = said_texts(seed)
    memories: list[Memory] = []
    for number, said in enumerate(texts):
        at = services.services.at - chance.choice((0, 1, 30, 300)) * DAY_MS - 3_600_000
        trust = {"tool": "tool", "import": "import", "agent": "agent"}.get(said.entry, "user")
        tags = tuple(dict(said.fields).get("tags", ()))
        is_free = trust == "user" and not tags
        memory = sample_memory(
            number, said.text, created_at=at, modified_at=at, event_at=at, namespace=said.namespace, tags=tags,
            trust=trust, layer=chance.choice(LAYERS if is_free else LAYERS[:2]), kind=chance.choice(KINDS[:3]),
            importance=round(chance.uniform(0.2, 0.9), 2), pinned=is_free and chance.random() < 0.05,
            source="turn" if "turn" in said.entry else "cli",
            session_id=f"s{number // 8}" if "turn" in said.entry else "",
        )  # fmt: skip
        if number % REPEATED == REPEATED - 1:  # what was said before it, with other marks
            former = memories[-1] = replace(memories[-1], layer="buffer", pinned=False)
            memory = replace(former, id=memory.id, content=f"{former.content.rstrip('.')}!")
        memories.append(memory)
    for memory in memories:
        services.put(memory, Usage(
            id=memory.id, strength=chance.choice((memory.importance, memory.importance, 0.005)),
            access_count=chance.choice((0, 0, 2, 6)), repetition_count=chance.choice((0, 0, 1, 2)),
            last_accessed=memory.created_at,
        ))  # fmt: skip
    put(services.services)  # waits for the vectors
    services.topic_trees.is_due()
    while services.topic_trees.run_slice():
        pass


@contextmanager
def filled(folder: Path, character: str, seed: int) -> Iterator[ConsolidationServices]:
    settings = LifecycleSettings(merge=True)
    with consolidation_services_in(folder, answers_of(character), settings, has_vectors=True) as services:
        fill(services, seed)
        yield services


def contents_of(store: Store) -> Contents:
    with store.snapshot() as snapshot:
        return {memory.id: (memory, snapshot.usage(memory.id)) for memory in snapshot.memories(limit=10 * MEMORIES)}


def relations_of(store: Store) -> list[Any]:
    """The edges and facts of the memories that are not in the trash, and the epoch."""
    with store.snapshot() as snapshot:
        trashed = {each.id for each in snapshot.trash_entries(limit=10 * MEMORIES)}
        rows = [*snapshot.scan(EDGES, limit=10 * MEMORIES), *snapshot.scan(FACTS, limit=10 * MEMORIES)]
        kept = [each for each in rows if trashed.isdisjoint(map(str, msgspec.structs.astuple(each)))]
        return [*kept, int(snapshot.meta(EPOCH) or 0)]


def told(result: CycleResult, known: set[str]) -> Any:
    """The operations and reports of a cycle, with places in place of the ids that it gave out."""
    text = msgspec.json.encode([result.operations, [(each.name, each.counts) for each in result.cycle.steps]]).decode()
    made = (each for each in ID.findall(text) if each not in known)
    for place, each in enumerate(dict.fromkeys(made)):
        text = text.replace(each, f"made {place}")
    return msgspec.json.decode(text)


@pytest.mark.parametrize(("character", "seed"), CHARACTERS)
def test_a_cycle_does_what_its_dry_run_says_and_its_undo_takes_back_whatever_the_model_answers(
    tmp_path: Path, character: str, seed: int
) -> None:
    with filled(tmp_path, character, seed) as services:
        before, related = contents_of(services.store), relations_of(services.store)
        seq, exported = services.store.seq, exported_lines(services.store, {*before})
        foretold = services.run(is_dry_run=True)
        assert (services.store.seq, contents_of(services.store)) == (seq, before)
        done = services.run()
        assert told(done, {*before}) == told(foretold, {*before})
        assert done.operations, "nothing was done"
        after = contents_of(services.store)
        nothing_is_lost(before, after)
        services.services.undo(group=done.cycle.id)
        is_as_before(before, contents_of(services.store))
        assert relations_of(services.store) == related
        assert exported_lines(services.store, {*before}) == exported


def exported_lines(store: Store, known: set[str]) -> list[bytes]:
    """The export of these memories without the marks that every later change leaves: header and trailer, the numbers of
    changes and versions and their times, cleared meta values, and the rejections that an undo writes."""
    lines = []
    for line in export_lines(store, keep=lambda memory: memory.id in known, history=False):
        is_cleared = b'"record_type":"meta"' in line and line.endswith(b'"value":""}\n')
        is_rejection = b'"record_type":"decision"' in line and b'"status":"rejected"' in line
        if not (line.startswith((b'{"mnemo_stream"', b'{"end"')) or is_cleared or is_rejection):
            lines.append(CHANGE_MARKS.sub(b"", line))
    return lines


def nothing_is_lost(before: Contents, after: Contents) -> None:
    """Everything is there, in a layer and a state that the rules allow; what is hidden names what stands for it."""
    memories = {memory_id: memory for memory_id, (memory, _) in after.items()}
    for memory_id, (memory, _) in before.items():
        now = memories[memory_id]
        assert not wrong_step(memory, now, memories), memory.content  # one layer a cycle, interrupted or not
        assert now.state in ("active", "archived", "superseded", "compressed"), memory.content
        assert not memory.pinned or now.content == memory.content
        if now.state == "superseded":
            assert memories[now.superseded_by].state in ("active", "superseded")
    for memory_id in memories.keys() - before.keys():
        assert not wrong_step(None, memories[memory_id], memories), memories[memory_id].content


def is_as_before(before: dict[str, tuple[Memory, Usage | None]], after: dict[str, tuple[Memory, Usage | None]]) -> None:
    """Every memory and its usage is as it was, but for its version, and the time of its change where what was undone
    had changed that; what the cycle had made is in the trash."""
    for memory_id, (memory, usage) in before.items():
        now, used = after[memory_id]
        is_touched = now.version > memory.version
        times = {"version": memory.version, "modified_at": memory.modified_at} if is_touched else {}
        assert (replace(now, **times), used) == (memory, usage)
    assert {after[each][0].state for each in after.keys() - before.keys()} <= {"trashed"}


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with memories on which a cycle has much to do."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    with filled(folder, "absent", 1):
        pass
    return folder


def world_on(folder: Path, filled_folder: Path) -> DecadeWorld:
    shutil.copytree(filled_folder, folder / "data")
    catalogue = SimulatedCatalogue()
    catalogue.there.add(DEFAULT_EMBEDDING)
    manifest = catalogue.installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    world = DecadeWorld(folder, Random(1), SimulatedEmbedder(manifest, ModelFaults()), folder / "models")
    world.scripted.character = "good"
    world.clock.milliseconds = AT + 400 * DAY_MS
    return world


def test_a_crash_at_any_call_of_the_disk_in_a_cycle_is_made_good_by_the_next_run(
    tmp_path: Path, filled_folder: Path
) -> None:
    killed = 0
    for call in range(2, CALLS_MAX, CALLS_STEP):
        world = world_on(tmp_path / f"call {call}", filled_folder)
        with in_simulated_time(world.clock):
            try:
                if not is_killed_at(world, call):
                    break
            finally:
                world.throw_away()
        killed += 1
    assert killed >= KILLS_MIN


def is_killed_at(world: DecadeWorld, call: int) -> bool:
    """End the process at that call of a cycle, start it again, and hold what it finishes against what must be; False
    for a cycle that has fewer calls."""
    daemon, before = opened_daemon(world), contents_of(world.store)
    world.watch.settle({memory_id: memory for memory_id, (memory, _) in before.items()})
    world.disk.set(Fault(at=call, kills=True))
    try:
        daemon.consolidation.run()
    except ProcessKill:
        world.bury()
    else:
        return False
    daemon = opened_daemon(world)
    world.settle_watch()
    unfinished = [each.id for each in records_of(world.store, CYCLES) if not each.ended_at]
    finished = daemon.consolidation.run().cycle
    assert unfinished in ([], [finished.id])
    assert [each.name for each in finished.steps] == [each.name for each in STEPS]
    after = contents_of(world.store)
    assert before.keys() <= after.keys()
    if len([*records_of(world.store, CYCLES)]) == 1:  # otherwise the first one had ended before the crash
        nothing_is_lost(before, after)
    checks.rules_hold(SimpleNamespace(world=world))  # type: ignore[arg-type]
    return True


def opened_daemon(world: DecadeWorld) -> Services:
    """The daemon after a start, with every memory's vector."""
    world.open()
    world.refresh_model()
    world.index()
    assert world.daemon is not None
    return world.daemon
