"""The forecast of the next cycle, listed by layer. SPEC 9

A forecast costs as much as a dry run. It is kept while the store does not change, and for FRESH_MS in any case, so that
pages follow one another and a busy store does not have it worked out for each request.
"""

import threading
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.choices import ForecastLayer
from mnemo_client.protocol.lifecycle import ForecastAnswer, LayerForecast, MemoryForecastView
from mnemo_core.lifecycle.consolidation.forecast import OUTCOMES, STANDINGS, CycleForecast
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.lifecycle.consolidation import Consolidation
from mnemo_daemon.table_walk import Place, bad_cursor, cursor_at, place_at
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import LAYERS, STATES, Memory
from mnemo_store.store import Store

FRESH_MS = 10_000
TEXT_CHARS = 200
FORECAST_LAYERS: tuple[ForecastLayer, ...] = ("buffer", "working", "core", "archive")
_MOVES_FIRST = 1 << 40  # added to the place of a memory that stays, above every strength
_STRENGTH_UNIT = 1e-6

Rows = NDArray[np.intp]


class Forecasts:
    """The service. Its methods run on a worker thread."""

    def __init__(self, store: Store, views: Views, consolidation: Consolidation) -> None:
        self._store = store
        self._views = views
        self._consolidation = consolidation
        self._lock = threading.Lock()
        self._kept: tuple[int, CycleForecast] | None = None  # with the seq of the store before it

    def clear(self) -> None:
        """Drop the forecast: row ids are others by now, or a memory was erased."""
        with self._lock:
            self._kept = None

    def page(self, wanted: MemoryFilter, layer: ForecastLayer, limit: int, cursor: str | None) -> ForecastAnswer:
        """The memories of a filter in a layer, at most `limit` behind the cursor. Raises a Refusal."""
        after = place_at(cursor)
        with self._lock:
            seq, kept = self._store.seq, self._kept
            if kept is None or (kept[0] != seq and self._store.now() - kept[1].at >= FRESH_MS):
                kept = self._kept = seq, self._consolidation.forecast()
        found = kept[1]
        # Those that would not stay are ordered before the others, then by strength.
        strengths = np.round(found.strength_now.astype(np.float64) / _STRENGTH_UNIT).astype(np.int64)
        places = strengths + np.where(found.outcomes == OUTCOMES.index("stay"), _MOVES_FIRST, 0)
        # The mask over the forecast of the memories that pass a filter now and are still those of their rows
        columns = self._views.attributes
        passing = columns.uncached_mask(wanted)
        mask = np.zeros(len(found.layer), np.bool_)
        size = min(len(mask), len(passing))
        rows = passing[:size].nonzero()[0]
        is_same = (columns.values("id_low", rows) == found.id_low[rows]) & (
            columns.values("id_high", rows) == found.id_high[rows]
        )
        mask[rows[is_same]] = True
        active, archived = (found.state == STATES.index(state) for state in ("active", "archived"))
        layers = {name: mask & (archived if name == "archive" else active & (found.layer == LAYERS.index(name)))
                  for name in FORECAST_LAYERS}  # fmt: skip
        behind = layers[layer] & _behind(found, places, after) if after is not None else layers[layer]
        rows = behind.nonzero()[0]
        rows = rows[np.lexsort((found.id_low[rows], found.id_high[rows], places[rows]))]
        with self._store.snapshot() as snapshot:
            views = [_view(found, row, snapshot, wanted.without_tags) for row in rows[:limit].tolist()]
        last = rows[limit - 1] if len(rows) > limit else None
        return ForecastAnswer(
            memories=[each for each in views if each is not None],
            layers={name: _layer(found.outcomes[held]) for name, held in layers.items()},
            at=found.at, model=self._consolidation.asks_model(), earliest_at=self._consolidation.earliest_at(),
            cursor=None if last is None else cursor_at((int(places[last]), _id_of(found, last))),
        )  # fmt: skip


def _behind(found: CycleForecast, places: NDArray[np.int64], after: Place) -> NDArray[np.bool_]:
    """The mask of the memories behind a place. Raises a Refusal for one that no page ended with."""
    number, memory_id = after
    try:
        high, low = divmod(uuid.UUID(memory_id).int, 1 << 64)
    except ValueError:
        raise bad_cursor() from None
    ids_behind = (found.id_high > np.uint64(high)) | (
        (found.id_high == np.uint64(high)) & (found.id_low > np.uint64(low))
    )
    mask: NDArray[np.bool_] = (places > number) | ((places == number) & ids_behind)
    return mask


def _id_of(found: CycleForecast, row: Any) -> str:
    return str(uuid.UUID(int=int(found.id_high[row]) << 64 | int(found.id_low[row])))


def _layer(outcomes: NDArray[np.uint8]) -> LayerForecast:
    counts = np.bincount(outcomes, minlength=len(OUTCOMES)).tolist()
    moving: dict[str, int] = {name: n for name, n in zip(OUTCOMES, counts, strict=True) if n and name != "stay"}
    return LayerForecast(total=len(outcomes), outcomes=moving)


def _view(
    found: CycleForecast, row: int, snapshot: Snapshot, hidden_tags: tuple[str, ...]
) -> MemoryForecastView | None:
    """The forecast of a memory; None for one that is gone by now. Others with a hidden tag are not named."""
    memory: Memory | None = snapshot.memory(_id_of(found, row))
    if memory is None:
        return None
    operation = found.operations.get(memory.id)
    proposed = found.proposed.get(memory.id)
    reason = f"a person decides: {proposed}" if proposed else STANDINGS[found.standing[row]]
    others: list[str] = []
    if operation is not None:
        reason = operation.reason
        known = (snapshot.memory(each) for each in operation.ids if each != memory.id)
        others = [each.id for each in known if each is not None and not {*hidden_tags} & {*each.tags}]
    return MemoryForecastView(
        id=memory.id, text=memory.content[:TEXT_CHARS], kind=memory.kind, pinned=memory.pinned,
        layer=LAYERS[found.layer[row]], state=STATES[found.state[row]], outcome=OUTCOMES[found.outcomes[row]],
        layer_then=LAYERS[found.layer_then[row]], state_then=STATES[found.state_then[row]],
        strength=round(float(found.strength_now[row]), 4), strength_then=round(float(found.strength_then[row]), 4),
        reason=reason, others=others, proposed=proposed,
    )  # fmt: skip
