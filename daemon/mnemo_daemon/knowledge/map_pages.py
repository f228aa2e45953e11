"""The map as it is answered: the points of a filter with their topics, layers and sources, page by page. SPEC 10"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.knowledge import MapAnswer
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.memory_map import MapLayout, MemoryMap
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import LAYERS, TRUSTS

DIGITS = 4  # of a position: a ten-thousandth of the map is less than a pixel

Rows = NDArray[np.int64]


class MapPages:
    """The reader."""

    def __init__(self, views: Views, topic_trees: TopicTrees, memory_map: MemoryMap) -> None:
        self._columns = views.attributes
        self._topic_trees = topic_trees
        self._map = memory_map

    def read(self, wanted: MemoryFilter, limit: int, cursor: str | None) -> MapAnswer:
        """The points of the filter behind the cursor. Raises a Refusal."""
        after = place_at(cursor)
        layout = self._map.layout()
        share = None if self._map.share is None else round(self._map.share, 3)
        if after is not None and (layout is None or after[1] != layout.id):
            raise Refusal(409, "conflict", "the map has another layout by now: begin again without a cursor")
        if layout is None:
            if share is not None:
                return MapAnswer(state="computing", total=0, share=share)
            return MapAnswer(state="absent", total=0, reason=self._map.reason() or "it is about to be computed")
        places = self._shown(layout, wanted)
        behind = places if after is None else places[layout.rows[places] > after[0]]
        page = behind[:limit]
        answer = self._points(layout, page)
        answer.total, answer.share = len(places), share
        if len(behind) > limit:
            answer.cursor = cursor_at((int(layout.rows[page[-1]]), layout.id))
        return answer

    def _shown(self, layout: MapLayout, wanted: MemoryFilter) -> Rows:
        """The places in the layout of the memories that pass the filter and still have the text that was placed."""
        mask = self._columns.uncached_mask(wanted)
        places = np.flatnonzero(layout.rows < len(mask))
        places = places[mask[layout.rows[places]]]
        found: Rows = places[self._columns.values("text_low", layout.rows[places]) == layout.digests[places]]
        return found

    def _points(self, layout: MapLayout, page: Rows) -> MapAnswer:
        rows = layout.rows[page]
        positions = np.round(layout.positions[page].astype(np.float64), DIGITS)
        topic, topics = self._topics(rows)
        layer, layers = _coded(self._columns.values("layer", rows), LAYERS.__getitem__)
        trust, trusts = _coded(self._columns.values("trust", rows), TRUSTS.__getitem__)
        source, sources = _coded(self._columns.values("source", rows), lambda code: self._columns.name("source", code))
        return MapAnswer(
            state="ready", total=0, layout=layout.id, ids=self._columns.ids(rows.tolist()),
            x=positions[:, 0].tolist(), y=positions[:, 1].tolist(), topic=topic, topics=topics, layer=layer,
            layers=layers, source=source, sources=sources, trust=trust, trusts=trusts,
            event_at=self._columns.values("event_at", rows).tolist(),
        )  # fmt: skip

    def _topics(self, rows: Rows) -> tuple[list[int], list[str]]:
        """The leaf of each row, as a place in the ids of those that the rows have; -1 for none."""
        leaves = self._topic_trees.leaves()
        size = int(rows.max(initial=-1)) + 1
        of_row = np.full(size, -1, np.int64)
        for place, leaf in enumerate(leaves):
            of_row[leaf.rows[leaf.rows < size]] = place
        codes, ids = _coded(of_row[rows], lambda place: leaves[place].id if place >= 0 else "")
        if "" not in ids:
            return codes, ids
        none = ids.index("")  # -1 is the smallest, so that it is the first
        return [code - 1 for code in codes], ids[none + 1 :]


def _coded(values: NDArray[Any], name: Callable[[int], str]) -> tuple[list[int], list[str]]:
    """Each value as a place among the names of those that occur."""
    codes, places = np.unique(values, return_inverse=True)
    return places.tolist(), [name(int(code)) for code in codes]
