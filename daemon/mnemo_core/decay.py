"""Decay of strength: by epochs of consolidation, never by the clock. SPEC 2.2, 9.3 [G 2, 3]

Decay is lazy: a usage record keeps the strength at `strength_epoch`, and every reader computes the strength of the
present epoch from it. Nothing is written for a memory when an epoch passes.
"""

from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_store.records import KINDS, LAYERS, Kind, Layer, Memory, Usage

EPOCH = "epoch"  # meta key: the number of consolidation cycles so far; absent: 0
FACTORS: dict[Kind, float] = {  # of an epoch: half-lives of 34.3, 57.4 and 172.9 epochs [G19]
    "semantic": 0.988,
    "episodic": 0.98,
    "procedural": 0.996,
    "working": 0.98,
}
FLOORS: dict[Layer, float] = {"buffer": 0.0, "working": 0.01, "core": 0.01}  # strength does not fall below [G19]
REPETITION_FACTOR = 2.5  # accesses that a repetition counts for [G11]

_FACTORS = np.array([FACTORS[kind] for kind in KINDS])
_FLOORS = np.array([FLOORS[layer] for layer in LAYERS])


class MetaReader(Protocol):
    """Read access to the metadata of a store."""

    def meta(self, name: str) -> str: ...


class UsageReader(MetaReader, Protocol):
    """Read access to the usage records of a store."""

    def usage(self, memory_id: str) -> Usage | None: ...


def epoch_of(store: MetaReader) -> int:
    """The present epoch of a store."""
    return int(store.meta(EPOCH) or 0)


def strength_at(usage: Usage, memory: Memory, epoch: int) -> float:
    """The strength of a memory in an epoch: max(floor, strength · factor^(epoch − strength_epoch)).

    A pinned memory does not decay, and neither does any for an epoch before that of its strength, which an undone cycle
    leaves behind.
    """
    epochs = 0 if memory.pinned else max(0, epoch - usage.strength_epoch)
    return max(FLOORS[memory.layer], usage.strength * FACTORS[memory.kind] ** epochs)


def strengths_at(
    strength: NDArray[np.float32], strength_epoch: NDArray[np.int32], kind: NDArray[np.uint8], layer: NDArray[np.uint8],
    pinned: NDArray[np.bool_], epoch: int,
) -> NDArray[np.float32]:  # fmt: skip
    """`strength_at` of many memories. Codes are places in KINDS, LAYERS."""
    epochs = np.where(pinned, 0, np.maximum(0, epoch - strength_epoch))
    decayed: NDArray[Any] = np.maximum(_FLOORS[layer], strength * _FACTORS[kind] ** epochs)
    return decayed.astype(np.float32)


def initial_usage(memory: Memory, epoch: int = 0) -> Usage:
    """The usage of a memory that was never used: its strength starts as its importance."""
    return Usage(id=memory.id, strength=memory.importance, strength_epoch=epoch)


def bring_to_epoch(usage: Usage | None, memory: Memory, epoch: int) -> Usage:
    """The usage of a memory with its strength of an epoch. None: it has no record."""
    usage = usage or initial_usage(memory)
    return msgspec.structs.replace(usage, strength=strength_at(usage, memory, epoch), strength_epoch=epoch)


def present_usage(memory: Memory, store: UsageReader) -> Usage:
    """The usage of a memory with its strength of the present epoch, as every change of it begins."""
    return bring_to_epoch(store.usage(memory.id), memory, epoch_of(store))


def reinforcement(usage: Usage) -> float:
    """Return how often a memory was used: accesses + 2.5 · repetitions. [G11]"""
    return usage.access_count + REPETITION_FACTOR * usage.repetition_count
