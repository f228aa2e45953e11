"""Decay for any memory: the same in one step as in many, never under the floor, never upwards. SPEC 9.3"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_core.decay import FLOORS, bring_to_epoch, strength_at
from mnemo_store.records import KINDS, LAYERS, Memory, Usage
from tests.samples import sample_id, sample_memory

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
