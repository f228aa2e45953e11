"""Candidates for the rankers: what a test does not name has a value that changes nothing."""

from typing import Any

import numpy as np

from mnemo_core.retrieval.ranking.rankers import Candidates
from mnemo_store.records import KINDS, LAYERS, STATES

HOUR = 3_600_000  # ms
DAY = 24 * HOUR
NOW = 1_700_000_000_000  # ms
NAN = float("nan")

_CODED = {"kind": KINDS, "layer": LAYERS, "state": STATES}
_PLAIN: dict[str, tuple[Any, Any]] = {
    "words": (np.float32, 0.0), "sims": (np.float32, NAN), "importance": (np.float32, 0.5),
    "strength": (np.float32, 0.5), "repetitions": (np.int32, 0), "accesses": (np.int32, 0),
    "kind": (np.uint8, "semantic"), "layer": (np.uint8, "working"), "state": (np.uint8, "active"),
    "decay_rate": (np.float32, 0.0), "event_at": (np.int64, NOW), "created_at": (np.int64, NOW),
    "modified_at": (np.int64, NOW), "last_accessed": (np.int64, 0), "id_high": (np.uint64, 0),
}  # fmt: skip
_OPTIONAL = ("overlap", "late", "cross", "learned", "chances")


def candidates(count: int, **given: Any) -> Candidates:
    """So many candidates, their ids ascending. A list has a value for each, anything else is every one's; kinds, layers
    and states by name."""
    arrays: dict[str, Any] = {"id_low": np.arange(count, dtype=np.uint64)}
    for name, (dtype, usual) in _PLAIN.items():
        values = given.pop(name, usual)
        values = values if isinstance(values, list) else [values] * count
        arrays[name] = np.array([_CODED[name].index(v) if name in _CODED else v for v in values], dtype)
    for name in _OPTIONAL:
        if name in given:
            arrays[name] = np.array(given.pop(name), np.float32)
    assert not given, given
    assert all(len(array) == count for array in arrays.values())
    return Candidates(**arrays)
