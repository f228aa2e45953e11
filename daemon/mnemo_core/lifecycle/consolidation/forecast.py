"""The next cycle as a forecast for every memory: what it would do with it, or why the memory stays. SPEC 9

The operations are those of a dry run, in which the rules of the steps answer every question themselves. Only the reason
of a memory that stays is worked out here, from the masks and limits by which the steps pass it over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.lifecycle.consolidation import buffer, core_admission
from mnemo_core.lifecycle.consolidation.cycle import CycleOperation
from mnemo_core.lifecycle.consolidation.review import ids_of
from mnemo_core.lifecycle.consolidation.state import DAY_MS, REJECTIONS, TRIAGED, CycleState, Mask
from mnemo_store.records import STATES, LifecycleAction, LifecycleDecision, PutMemory, State

Outcome = Literal["stay", "promote", "demote", "archive", "supersede", "compress", "delete"]
OUTCOMES: tuple[Outcome, ...] = ("stay", "promote", "demote", "archive", "supersede", "compress", "delete")

_OUTCOME_OF_STATE: dict[State, Outcome] = {
    "archived": "archive", "superseded": "supersede", "compressed": "compress", "trashed": "delete",
}  # fmt: skip
MINUTE_MS = 60_000
STANDINGS = (
    "",
    "it is archived; whoever recalls it makes it active again",
    "its note decides about it",
    "cycles leave its namespace alone",
    "it has expired, and goes to the trash",
    "its session or its day goes on",
    f"it is new: it is judged when it is {buffer.TRIAGED_MS // MINUTE_MS} minutes old",
    f"it waits to be judged: {buffer.TRIAGED_MAX} are, a cycle",
    "it is a turn of a conversation, which has tiers of its own",
    "it was judged, and is kept while it is strong",
    f"its strength is {buffer.EVICTED_BELOW} or more",
    "it is in core, and nothing newer replaces it",
    "what others wrote, sessions and secrets do not enter core",
    "the gate to core has rejected it",
    f"it was used too little for core: fewer than {core_admission.USED_MIN:g} times, "
    f"or never in {core_admission.AGED_MS // DAY_MS} days",
    f"its strength is below {core_admission.STRENGTH_MIN}, too little for core",
    "the gate to core does not admit it, or judges others first",
)
"""The reasons to stay, by their codes in `standings`."""


class CycleForecast(NamedTuple):
    """The forecast by row of the state at its start.

    `operations`: the last one that would change a memory, by its id, without its texts. `proposed`: what waits, or
    would wait, for a person's decision on a memory. `strength_now`: in the present epoch; `strength_then`: in the one
    that the cycle ends.
    """

    at: int  # ms
    id_high: NDArray[np.uint64]
    id_low: NDArray[np.uint64]
    layer: NDArray[np.uint8]
    state: NDArray[np.uint8]
    layer_then: NDArray[np.uint8]
    state_then: NDArray[np.uint8]
    strength_now: NDArray[np.float32]
    strength_then: NDArray[np.float32]
    standing: NDArray[np.uint8]
    operations: Mapping[str, CycleOperation]
    proposed: Mapping[str, LifecycleAction]
    outcomes: NDArray[np.uint8]  # places in OUTCOMES


class CycleStart(NamedTuple):
    """The values at the start of a cycle that its steps change."""

    layer: NDArray[np.uint8]
    state: NDArray[np.uint8]
    strength: NDArray[np.float32]

    @classmethod
    def of(cls, state: CycleState) -> "CycleStart":
        """Copy them before the first step."""
        return cls(state.column("layer").copy(), state.column("state").copy(), state.strengths())


def forecast(
    start: CycleStart, end: CycleState, operations: Iterable[CycleOperation], waiting: Iterable[LifecycleDecision]
) -> CycleForecast:
    """The forecast, from the state after the last step. Memories that the cycle makes are left out. waiting: the
    proposals that there are."""
    size = len(start.layer)
    layer, state = end.column("layer")[:size], end.column("state")[:size]
    return CycleForecast(
        at=end.now, id_high=end.column("id_high")[:size], id_low=end.column("id_low")[:size],
        layer=start.layer, state=start.state,
        layer_then=layer, state_then=state, outcomes=_outcomes(start, layer, state),
        strength_now=start.strength, strength_then=end.strengths()[:size], standing=standings(end)[:size],
        operations={
            change.data.id: operation._replace(changes=(), text="")
            for operation in operations for change in operation.changes if isinstance(change, PutMemory)
        },
        proposed={
            memory_id: each.action for each in [*waiting, *end.new_proposals()] for memory_id in ids_of(each)
        },
    )  # fmt: skip


def _outcomes(start: CycleStart, layer: NDArray[np.uint8], state: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The places in OUTCOMES of what becomes of each memory: first of its state, else of its layer."""
    up, down = layer > start.layer, layer < start.layer
    found = np.where(up, OUTCOMES.index("promote"), np.where(down, OUTCOMES.index("demote"), 0)).astype(np.uint8)
    for name, outcome in _OUTCOME_OF_STATE.items():
        code = STATES.index(name)
        found[(state == code) & (start.state != code)] = OUTCOMES.index(outcome)
    return found


def standings(state: CycleState) -> NDArray[np.uint8]:
    """The places in STANDINGS of why each memory stays where it is, 0 where it is none of the lifecycle's. The first
    reason that applies counts. The state is that after the steps, in which what was judged is marked so."""
    expires_at = state.column("expires_at")
    in_buffer, in_working = state.has("layer", "buffer"), state.has("layer", "working")
    is_new = state.column("created_at") >= state.now - buffer.TRIAGED_MS
    rules: Sequence[Mask] = (
        ~state.has("state", "active", "archived"),
        state.has("state", "archived"),
        state.column("managed") != 0,
        ~state.follows(lambda policy: policy.has_cycles),
        (expires_at != 0) & (expires_at <= state.now),
        state.has("kind", "working"),
        in_buffer & is_new,
        buffer.waits_for_triage(state),
        in_buffer & (state.column("tier") != 0),
        in_buffer & state.tagged(TRIAGED),
        in_buffer,
        state.has("layer", "core"),
        in_working & core_admission.is_kept_out(state),
        in_working & state.tagged(*REJECTIONS),
        in_working & ~core_admission.was_used(state),
        in_working & (state.strengths() < core_admission.STRENGTH_MIN),
        in_working,
    )
    assert len(rules) == len(STANDINGS)
    return np.select(rules, np.arange(len(rules), dtype=np.uint8), default=np.uint8(0)).astype(np.uint8)
