"""Decay for any memory: the same in one step as in many, never under the floor, never upwards. SPEC 9.3"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mnemo_core.decay import FLOORS, bring_to_epoch, present_usage, strength_at
from mnemo_core.ingest import mutations
from mnemo_store.records import KINDS, LAYERS, Change, Memory, PutMemory, PutUsage, Usage
from tests.support.samples import sample_id, sample_memory

MEMORIES = st.builds(
    lambda kind, layer, pinned: sample_memory(1, kind=kind, layer=layer, pinned=pinned),
    st.sampled_from(KINDS), st.sampled_from(LAYERS), st.booleans(),
)  # fmt: skip
USAGES = st.builds(
    lambda strength, epoch: Usage(id=sample_id(1), strength=strength, strength_epoch=epoch),
    st.floats(0, 1), st.integers(0, 10_000),
)  # fmt: skip
STEPS = st.lists(st.integers(0, 300), max_size=8)


@given(memory=MEMORIES, usage=USAGES, steps=STEPS)
def test_decay_in_steps_equals_decay_at_once(memory: Memory, usage: Usage, steps: list[int]) -> None:
    stepped, epoch = usage, usage.strength_epoch
    for step in steps:
        epoch += step
        stepped = bring_to_epoch(stepped, memory, epoch)
    assert strength_at(stepped, memory, epoch) == pytest.approx(strength_at(usage, memory, epoch), abs=1e-12)


@given(memory=MEMORIES, usage=USAGES, epoch=st.integers(0, 20_000))
def test_strength_stays_between_its_floor_and_what_it_was(memory: Memory, usage: Usage, epoch: int) -> None:
    now = strength_at(usage, memory, epoch)
    floor = FLOORS[memory.layer]
    assert floor <= now <= max(floor, usage.strength)
    if memory.pinned:
        assert now == max(floor, usage.strength)


class OneMemory:
    """A store of one memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.epoch = 0
        self._usage: Usage | None = None

    def meta(self, _: str) -> str:
        return str(self.epoch)

    def usage(self, _: str) -> Usage | None:
        return self._usage

    def take(self, *changes: Change) -> None:
        for change in changes:
            if isinstance(change, PutMemory):
                self.memory = change.data
            elif isinstance(change, PutUsage):
                self._usage = change.data

    def edit(self, **fields: Any) -> None:
        after = replace(self.memory, **fields)
        usage = present_usage(self.memory, self)
        self.take(PutMemory(data=after), *mutations.adjust_strength(usage, self.memory, after))

    @property
    def strength(self) -> float:
        return present_usage(self.memory, self).strength


EDITS = st.one_of(
    st.fixed_dictionaries({"importance": st.floats(0, 1), "importance_source": st.just("user")}),
    st.fixed_dictionaries({"pinned": st.booleans()}), st.fixed_dictionaries({"kind": st.sampled_from(KINDS)}),
)  # fmt: skip
EVENTS = st.one_of(st.integers(0, 300), st.just("recall"), st.just("repetition"), EDITS)


@given(memory=MEMORIES, events=st.lists(EVENTS, max_size=12))
def test_whatever_happens_a_strength_is_between_its_floor_and_1_and_falls_by_epochs_alone(
    memory: Memory, events: list[Any]
) -> None:
    store = OneMemory(memory)
    for event in events:
        before = store.strength
        match event:
            case int():
                store.epoch += event
                assert store.strength <= before
                assert store.strength == before or not store.memory.pinned
            case "recall":
                store.take(*mutations.recall(store.memory, present_usage(store.memory, store), 1))
                assert store.strength == pytest.approx(min(1.0, before + 0.03))
            case "repetition":
                usage = present_usage(store.memory, store)
                store.take(PutUsage(data=mutations.record_repetition(usage, 1)))
                assert store.strength == pytest.approx(min(1.0, before + 0.03))
            case fields:
                importance = store.memory.importance
                store.edit(**fields)
                difference = store.memory.importance - importance
                assert store.strength == pytest.approx(min(1.0, max(FLOORS[store.memory.layer], before + difference)))
        assert FLOORS[store.memory.layer] <= store.strength <= 1.0
