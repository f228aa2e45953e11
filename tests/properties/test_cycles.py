"""A cycle of consolidation over made stores: a dry run says what the cycle does, undo takes back what it did, a crash
anywhere in it is made good by the next, and no language model can lose anything. SPEC 9, 17"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from mnemo_core.llm.tasks import AnyTask, TaskInputs, parse_answer
from mnemo_daemon.lifecycle.consolidation.consolidation import CycleResult
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.records import KINDS, LAYERS, Memory, PutMemory, Usage
from tests.cycle_desk import Answers, CycleDesk, cycle_desk_in
from tests.desk import put
from tests.samples import AT, sample_memory
from tests.simulation.decade import wrong_step
from tests.simulation.person_years import PersonYears, SaidText, YearsPlan
from tests.simulation.scripted_models import Enemy, Scribbler, Writer, write_well

MEMORIES = 90
EPOCHS = 40  # so many have ended before
DAY_MS = 86_400_000
CHARACTERS = ("absent", "good", "random", "hostile")
SEEDS = (1, 2)


def answers_of(character: str) -> Answers | None:
    """The model of a character. Its answer follows from what it is asked alone."""

    def answers(task: AnyTask, inputs: TaskInputs) -> Any:
        chance = Random(f"{task.site} {inputs.sources}")
        writers: dict[str, Writer] = {"good": write_well, "random": Scribbler(chance), "hostile": Enemy(chance)}
        try:
            return parse_answer(task, writers[character](task, inputs), inputs)
        except msgspec.DecodeError:
            return None

    return None if character == "absent" else answers


def said_texts(seed: int) -> list[SaidText]:
    plan = YearsPlan(blocks=60, memories=4 * MEMORIES, facts=MEMORIES // 4, recalls=0)
    found = [each for block in PersonYears(seed, plan).blocks() for each in block.statements]
    return Random(seed).sample(found, MEMORIES)


def fill(desk: CycleDesk, seed: int) -> None:
    """Store memories of every layer, kind and age, some said twice in other words, some pinned, some of sessions."""
    chance = Random(seed)
    desk.desk.at = AT + 400 * DAY_MS
    texts = said_texts(seed)
    memories = []
    for number, said in enumerate(texts):
        at = desk.desk.at - chance.choice((0, 1, 30, 300)) * DAY_MS - 3_600_000
        trust = {"tool": "tool", "import": "import", "agent": "agent"}.get(said.entry, "user")
        tags = tuple(dict(said.fields).get("tags", ()))
        is_free = trust == "user" and not tags
        content = texts[number - 1].text.replace("the", "that") if number % 7 == 6 else said.text
        memories.append(sample_memory(
            number, content, created_at=at, modified_at=at, event_at=at, namespace=said.namespace, tags=tags,
            trust=trust, layer=chance.choice(LAYERS if is_free else LAYERS[:2]), kind=chance.choice(KINDS[:3]),
            importance=round(chance.uniform(0.2, 0.9), 2), pinned=is_free and chance.random() < 0.05,
            source="turn" if "turn" in said.entry else "cli",
            session_id=f"s{number // 8}" if "turn" in said.entry else "",
        ))  # fmt: skip
    put(desk.desk, *memories)
    for memory in memories:
        desk.put(memory, Usage(
            id=memory.id, strength=chance.choice((memory.importance, memory.importance, 0.005)),
            access_count=chance.choice((0, 0, 2, 6)), repetition_count=chance.choice((0, 0, 1, 2)),
            last_accessed=memory.created_at,
        ))  # fmt: skip
    desk.topic_trees.is_due()
    while desk.topic_trees.run_slice():
        pass


@contextmanager
def filled(folder: Path, character: str, seed: int) -> Iterator[CycleDesk]:
    settings = LifecycleSettings(merge=True)
    with cycle_desk_in(folder, answers_of(character), settings, has_vectors=True) as desk:
        fill(desk, seed)
        yield desk


def contents(desk: CycleDesk) -> dict[str, tuple[Memory, Usage | None]]:
    """Every memory of the store and its usage, by id."""
    with desk.store.snapshot() as snapshot:
        return {memory.id: (memory, snapshot.usage(memory.id)) for memory in snapshot.memories(limit=10 * MEMORIES)}


def told(result: CycleResult, known: set[str]) -> Any:
    """The operations and reports of a cycle, with places in place of the ids that it gave out."""
    text = msgspec.json.encode([result.operations, [(each.name, each.counts) for each in result.cycle.steps]]).decode()
    made = dict.fromkeys(
        change.data.id for _, operation in result.operations for change in operation.changes
        if isinstance(change, PutMemory) and change.data.id not in known
    )  # fmt: skip
    for place, each in enumerate(made):
        text = text.replace(each, f"made {place}")
    return msgspec.json.decode(text)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("character", CHARACTERS)
def test_a_cycle_does_what_its_dry_run_says_and_its_undo_takes_back_whatever_the_model_answers(
    tmp_path: Path, character: str, seed: int
) -> None:
    with filled(tmp_path, character, seed) as desk:
        before = contents(desk)
        seq = desk.store.seq
        foretold = desk.run(is_dry_run=True)
        assert (desk.store.seq, contents(desk)) == (seq, before)
        done = desk.run()
        assert told(done, {*before}) == told(foretold, {*before})
        assert done.operations, "nothing was done"
        after = contents(desk)
        nothing_is_lost(before, after)
        desk.desk.undo(group=done.cycle.id)
        is_as_before(before, contents(desk))


def nothing_is_lost(
    before: dict[str, tuple[Memory, Usage | None]], after: dict[str, tuple[Memory, Usage | None]]
) -> None:
    """Everything is there, in a layer and a state that the rules allow; what is hidden names what stands for it."""
    memories = {memory_id: memory for memory_id, (memory, _) in after.items()}
    for memory_id, (memory, _) in before.items():
        now = memories[memory_id]
        assert not wrong_step(memory, now, memories), memory.content
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
        assert (msgspec.structs.replace(now, **times), used) == (memory, usage)
    assert {after[each][0].state for each in after.keys() - before.keys()} <= {"trashed"}
