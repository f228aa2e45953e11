"""Strength fades by epochs, at the rate of its kind, and never by the clock. SPEC 2.2, 9.3"""

import numpy as np
import pytest

from mnemo_core import decay
from mnemo_core.decay import bring_to_epoch, epoch_of, reinforcement, strength_at, strengths_at
from mnemo_store.records import KINDS, LAYERS, Kind, Layer, Usage
from tests.support.samples import sample_id, sample_memory

HALF_LIVES: dict[Kind, float] = {  # epochs: ln 0.5 / ln factor
    "episodic": 34.3,  # 0.6931 / 0.02020
    "working": 34.3,
    "semantic": 57.4,  # 0.6931 / 0.01207
    "procedural": 172.9,  # 0.6931 / 0.00401
}


def used(strength: float, epoch: int = 0, **counts: int) -> Usage:
    return Usage(id=sample_id(1), strength=strength, strength_epoch=epoch, **counts)


@pytest.mark.parametrize("kind", KINDS)
def test_G19_each_kind_has_its_half_life(kind: Kind) -> None:
    memory = sample_memory(1, kind=kind)
    whole = int(HALF_LIVES[kind])
    before, after = (strength_at(used(0.8), memory, epoch) for epoch in (whole, whole + 1))
    assert before > 0.4 > after
    exact = whole + (before - 0.4) / (before - after)  # between two epochs, near enough a straight line
    assert exact == pytest.approx(HALF_LIVES[kind], abs=0.06)


@pytest.mark.parametrize(
    ("kind", "after_1", "after_2"),
    [("episodic", 0.49, 0.4802), ("working", 0.49, 0.4802), ("semantic", 0.494, 0.488072),
     ("procedural", 0.498, 0.496008)],
)  # fmt: skip
def test_G19_an_epoch_multiplies_the_strength_by_the_factor(kind: Kind, after_1: float, after_2: float) -> None:
    memory = sample_memory(1, kind=kind)
    assert strength_at(used(0.5, 7), memory, 8) == pytest.approx(after_1)
    assert strength_at(used(0.5, 7), memory, 9) == pytest.approx(after_2)
    assert strength_at(used(0.5, 7), memory, 7) == 0.5  # idle: nothing is forgotten


@pytest.mark.parametrize(("layer", "least"), [("buffer", 0.0), ("working", 0.01), ("core", 0.01)])
def test_G19_strength_has_a_floor_in_working_and_core_alone(layer: Layer, least: float) -> None:
    memory = sample_memory(1, kind="episodic", layer=layer)
    assert strength_at(used(0.5), memory, 193) == pytest.approx(0.5 * 0.98**193)  # 0.0101
    # 194 epochs: 0.00993
    assert strength_at(used(0.5), memory, 194) == pytest.approx(max(least, 0.5 * 0.98**194))
    assert strength_at(used(0.5), memory, 100_000) == pytest.approx(least)


def test_G19_pinned_memories_do_not_decay() -> None:
    assert strength_at(used(0.5), sample_memory(1, kind="episodic", pinned=True), 10_000) == 0.5


def test_an_epoch_that_was_undone_gives_nothing_back() -> None:
    assert strength_at(used(0.5, 9), sample_memory(1), 8) == 0.5


def test_columns_have_the_strength_of_their_records() -> None:
    memories = [
        sample_memory(1, kind=kind, layer=layer, pinned=pinned)
        for kind in KINDS for layer in LAYERS for pinned in (False, True)
    ]  # fmt: skip
    for epoch in (0, 3, 60, 4000):
        columns = strengths_at(
            np.full(len(memories), 0.75, np.float32),
            np.full(len(memories), 2, np.int32),
            np.array([KINDS.index(memory.kind) for memory in memories], np.uint8),
            np.array([LAYERS.index(memory.layer) for memory in memories], np.uint8),
            np.array([memory.pinned for memory in memories]),
            epoch,
        )
        expected = [strength_at(used(0.75, 2), memory, epoch) for memory in memories]
        assert columns.tolist() == pytest.approx(expected)
        assert columns.dtype == np.float32


def test_what_changes_usage_first_brings_it_to_the_epoch() -> None:
    now = bring_to_epoch(used(0.5, 7, access_count=3), sample_memory(1, kind="episodic"), 9)
    assert now.strength == pytest.approx(0.4802)
    assert (now.strength_epoch, now.access_count) == (9, 3)


def test_G11_a_repetition_reinforces_as_much_as_two_and_a_half_accesses() -> None:
    assert reinforcement(used(0.5, access_count=3)) == 3.0
    assert reinforcement(used(0.5, access_count=3, repetition_count=2)) == 8.0


def test_a_store_without_a_cycle_is_in_epoch_0() -> None:
    class Metas(dict[str, str]):
        def meta(self, name: str) -> str:
            return self.get(name, "")

    assert epoch_of(Metas()) == 0
    assert epoch_of(Metas({decay.EPOCH: "12"})) == 12
