"""Memories by their weight, which no question changes. SPEC 7.4"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import strengths_at
from mnemo_core.retrieval.ranking import decay_ranker
from mnemo_store.indexes.attributes import AttributeStore

Numbers = NDArray[np.signedinteger[Any]]
Relevance = Callable[[Numbers], NDArray[np.float32]]
"""The cosines of memories, by their numbers, with a text; NaN for one without a vector."""

_DECAYING = "strength", "strength_epoch", "kind", "layer", "pinned"


def present_strengths(column: Callable[[str], NDArray[Any]], epoch: int) -> NDArray[np.float32]:
    """The strength in an epoch of the memories whose columns are given by name. SPEC 9.3"""
    strength, strength_epoch, kind, layer, pinned = map(column, _DECAYING)
    return strengths_at(strength, strength_epoch, kind, layer, pinned, epoch)


def by_weight(columns: AttributeStore, rows: Numbers, epoch: int) -> Numbers:
    """The rows by weight in an epoch, the greatest first; then by importance, the newer, and id. [G34]"""
    names = "repetition_count", "access_count", "kind", "layer", "state"
    strength = present_strengths(lambda name: columns.values(name, rows), epoch)
    weight = decay_ranker.weight(strength, *(columns.values(name, rows) for name in names))
    ties = columns.values("id_low", rows), columns.values("id_high", rows), -columns.values("event_at", rows)
    ordered: Numbers = rows[np.lexsort((*ties, -columns.values("importance", rows), -weight))]
    return ordered
