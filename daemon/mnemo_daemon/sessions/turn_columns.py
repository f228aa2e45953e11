"""Turns found by the columns of the attribute store: those of a session, and of all sessions at once. SPEC 8"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mnemo_core.sessions.tiers import SessionScope
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.records import STATES, TIERS, Tier

_ACTIVE = STATES.index("active")
_SESSION = ("namespace", "user_id", "session_id")


def turns_in(columns: AttributeStore, tiers: Sequence[Tier], scope: SessionScope | None = None) -> NDArray[np.intp]:
    """The numbers of the turns in these tiers, of one session or of all; turns that are not active are in none."""
    tier, state, *session = columns.columns("tier", "state", *_SESSION)
    found = np.isin(tier, [1 + TIERS.index(each) for each in tiers]) & (state == _ACTIVE) & (session[-1] != 0)
    if scope is not None:
        for column, name, value in zip(session, _SESSION, scope, strict=True):
            found &= column == columns.code(name, value)
    return np.flatnonzero(found)


def count_tiers(columns: AttributeStore, wanted: MemoryFilter) -> dict[str, int]:
    """The number of turns that pass the filter in each tier, and of those that are archived."""
    mask = columns.uncached_mask(wanted)
    tier, state = (column[: len(mask)][mask] for column in columns.columns("tier", "state"))
    counts = np.bincount(tier[state == _ACTIVE], minlength=len(TIERS) + 1)[1:].tolist()
    archived = (tier != 0) & (state == STATES.index("archived"))
    return {**dict(zip(TIERS, counts, strict=True)), "archived": int(archived.sum())}


def by_session(columns: AttributeStore, numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The numbers in groups, one for each session."""
    return _grouped(columns, numbers, _SESSION)


def by_owner(columns: AttributeStore, numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The numbers in groups, one for each user in a namespace."""
    return _grouped(columns, numbers, _SESSION[:2])


def sessions_with_turns(columns: AttributeStore, scopes: Sequence[SessionScope]) -> list[bool]:
    """For each session, whether it has a turn, in whatever state."""
    tier, state, *session = columns.columns("tier", "state", *_SESSION)
    is_turn = (tier != 0) & (state < len(STATES))  # the rest have no memory
    present = set(zip(*(column[is_turn].tolist() for column in session), strict=True))
    return [tuple(map(columns.code, _SESSION, scope)) in present for scope in scopes]


def _grouped(columns: AttributeStore, numbers: NDArray[np.intp], names: Sequence[str]) -> list[NDArray[np.intp]]:
    if not len(numbers):
        return []
    keys = np.stack([columns.values(name, numbers) for name in names])
    order = np.lexsort(keys)
    is_other = (keys[:, order[1:]] != keys[:, order[:-1]]).any(axis=0)
    return np.split(numbers[order], np.flatnonzero(is_other) + 1)
