"""Memories by their weight, which no question changes. SPEC 7.4"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking import decay_ranker
from mnemo_store.indexes.attributes import AttributeStore

Numbers = NDArray[np.signedinteger[Any]]


def by_weight(columns: AttributeStore, rows: Numbers) -> Numbers:
    """The rows by weight, the greatest first; then by importance, the newer, and id. [G34]"""
    names = "strength", "repetition_count", "access_count", "kind", "layer", "state"
    weight = decay_ranker.weight(*(columns.values(name, rows) for name in names))
    ties = columns.values("id_low", rows), columns.values("id_high", rows), -columns.values("event_at", rows)
    ordered: Numbers = rows[np.lexsort((*ties, -columns.values("importance", rows), -weight))]
    return ordered
