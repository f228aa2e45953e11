"""The map of the memories: a point for each vector, computed behind requests and read without waiting. SPEC 10.4

A layout is made once and stays: what is stored later is placed by its neighbours, and no other point moves. A new
layout, under a new id, is made where the memories are RENEWED_FACTOR times as many as it was made for, or where
another model made the vectors. The former one answers until then.

The file `views/map.view` holds row ids, halves of the hashes of their texts, and positions. It is no part of the store:
where it is missing or of another state, the map is computed again.

It is answered page by page: the points of a filter with their topics, layers and sources.
"""

import logging
import threading
import time
import zlib
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.knowledge import MapAnswer
from mnemo_core.knowledge.map_layout import PLACED_BY, lay_out, place_by_neighbours
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.index import position_of, require_same_store
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.table_walk import cursor_at, place_at
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import LAYERS, STATES, TRUSTS
from mnemo_store.store import Store

FILE = "map.view"
KIND = "map-1"
POINTS_MIN = 10  # below which there is no map
RENEWED_FACTOR = 2.0
SLICE_SECONDS = 0.2
LOOK_SECONDS = 1.0  # between two looks for new vectors
WAIT_SECONDS_MAX = 600.0  # where vectors never stop coming
PLACED_TOGETHER = 16  # before the slice may end
SHOWN = MemoryFilter()  # active and archived

log = logging.getLogger("mnemo.map")


class MapLayout(NamedTuple):
    """A layout, its rows ascending. `made_for`: the number of points when it was made."""

    id: str
    space: str
    made_for: int
    rows: NDArray[np.int64]
    digests: NDArray[np.uint64]
    positions: NDArray[np.float32]  # (n, 2)


class MemoryMap:
    """The service. Any thread reads; the job's thread alone computes."""

    def __init__(self, store: Store, views: Views, indexing: VectorIndexer, disk: Disk) -> None:
        self._store = store
        self._views = views
        self._indexing = indexing
        self._disk = disk
        self._path = store.folder / "views" / FILE
        self._lock = threading.Lock()  # publishing and erasure
        self._round = 0  # raised by an erasure and by new row ids: what was begun before is not published
        self.layout: MapLayout | None = None  # the one that answers, replaced as a whole
        self._work: Generator[None, None, None] | None = None
        self._seen: tuple[int, str, int] | None = None  # of the store and its vectors, at the end of the last update
        self._looked_at = self._waiting_since = time.monotonic() - LOOK_SECONDS
        self.share: float | None = None  # of the layout that is computed; None: none is
        try:
            meta, arrays = index_file.load(self._path, KIND)
            require_same_store(self._store, meta)
            self.layout = MapLayout(
                str(meta["id"]), str(meta["space"]), int(meta["made_for"]), arrays["rows"], arrays["digests"],
                arrays["positions"],
            )  # fmt: skip
        except (IndexMismatch, KeyError) as error:
            if self._store.seq:
                log.info("the map is made again: %s", error)
        store.on_row_ids_reset(self._forget)

    # Readers

    def is_current(self) -> bool:
        """Return whether the layout is that of the present vectors."""
        serving = self._indexing.serving()
        return serving is not None and self._work is None and self._seen == self._state_of(serving)

    def reason(self) -> str:
        """The reason why there is no layout."""
        serving = self._indexing.serving()
        if serving is None:
            return "there is no embedding model, or it is loading: a map needs vectors"
        if len(serving.view) < POINTS_MIN:
            return f"a map needs {POINTS_MIN} memories with vectors; there are {len(serving.view)}"
        return ""

    # The job

    def is_due(self) -> bool:
        """Return whether vectors have come, gone or changed since the map was brought up to date."""
        if self._work is not None:
            return True
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = now
        if self._indexing.serving() is None or self._views.state != "ready" or self.is_current():
            self._waiting_since = now
            return False
        return self._indexing.progress().state == "ready" or now - self._waiting_since >= WAIT_SECONDS_MAX

    def run_slice(self) -> bool:
        """Go on for SLICE_SECONDS; return whether there is more."""
        until = time.monotonic() + SLICE_SECONDS
        if self._work is None:
            self._work = self._update()
        try:
            while time.monotonic() < until:
                next(self._work)
        except StopIteration:
            self._work = None
        except BaseException:  # raised again: the scheduler reports it and tries again
            self._work, self.share = None, None
            raise
        return self._work is not None

    def remove_deleted(self) -> None:
        """Remove the points of memories that are erased, from the file too."""
        with self._lock:
            self._round += 1
            self._seen = None
            if (layout := self.layout) is None:
                return
            present = np.flatnonzero(self._views.attributes.uncached_mask(MemoryFilter(states=STATES)))  # in any state
            there = np.isin(layout.rows, present)
            self.layout = layout._replace(
                rows=layout.rows[there], digests=layout.digests[there], positions=layout.positions[there]
            )
            try:
                self._save(self.layout)
            except OSError as error:
                log.warning("the map could not be saved again, and its file is removed: %s", error)
                self._disk.unlink(self._path)

    def _forget(self) -> None:
        """Forget the map: its points are known by numbers that are others now."""
        with self._lock:
            self._round += 1
            self.layout, self._seen = None, None

    def _state_of(self, serving: ActiveIndex) -> tuple[int, str, int]:
        return self._store.seq, serving.embedder.space, len(serving.view)

    def _update(self) -> Generator[None, None, None]:
        """Make a layout where one is needed, else place the new points."""
        serving, round_ = self._indexing.serving(), self._round
        if serving is None:
            return
        seen = self._state_of(serving)
        # The row ids with vectors that are shown, and half the hashes of their texts.
        columns = self._views.attributes
        shown = columns.uncached_mask(SHOWN)
        rows = serving.view.numbers().astype(np.int64)
        rows = rows[rows < len(shown)]
        rows = rows[shown[rows]]
        digests = columns.values("text_low", rows)
        layout = self.layout
        if len(rows) < POINTS_MIN:
            made = None
        elif layout is None or layout.space != serving.embedder.space or len(rows) >= RENEWED_FACTOR * layout.made_for:
            made = yield from self._made(serving, rows, digests)
        else:
            made = yield from self._placed(layout, serving, rows, digests)
        with self._lock:
            self.share = None
            if self._round != round_ or self._indexing.serving() is not serving:
                return  # something was erased, or the model changed: begin again
            self._seen = seen
            if made is not None and made is not layout:
                self._save(made)
                self.layout = made

    def _made(
        self, serving: ActiveIndex, rows: NDArray[np.int64], digests: NDArray[np.uint64]
    ) -> Generator[None, None, MapLayout]:
        began = time.monotonic()
        self.share = 0.0
        steps = lay_out(len(rows), lambda places: serving.view.first_of(rows[places]), np.random.default_rng(len(rows)))
        while True:
            try:
                self.share = next(steps)
            except StopIteration as done:
                positions = done.value
                break
            yield
        log.info("the map of %d memories was made in %.1f s", len(rows), time.monotonic() - began)
        return MapLayout(self._store.new_id(), serving.embedder.space, len(rows), rows, digests, positions)

    def _placed(
        self, layout: MapLayout, serving: ActiveIndex, rows: NDArray[np.int64], digests: NDArray[np.uint64]
    ) -> Generator[None, None, MapLayout]:
        """The layout with the points of new and changed texts. Points that are not shown now stay for when they are."""
        places = np.searchsorted(layout.rows, rows)
        places[places == len(layout.rows)] = 0
        is_known = (layout.rows[places] == rows) & (layout.digests[places] == digests)
        new = np.flatnonzero(~is_known)
        if not len(new):
            return layout
        stays = ~np.isin(layout.rows, rows[new])
        of_row = dict(zip(layout.rows[stays].tolist(), layout.positions[stays], strict=True))
        allowed = np.zeros(int(max(rows.max(), layout.rows.max())) + 1, np.bool_)
        allowed[layout.rows[stays]] = True
        for done, place in enumerate(new.tolist()):
            row = int(rows[place])
            windows = serving.view.vectors_of(row)
            if windows is not None:
                hits = serving.view.nearest(windows[0].astype(np.float32), PLACED_BY, allowed)
                chance = np.random.default_rng(zlib.crc32(int(digests[place]).to_bytes(8, "big")))
                if len(hits.numbers):
                    near = np.array([of_row[number] for number in hits.numbers.tolist()])
                    of_row[row] = place_by_neighbours(hits.sims, near, chance)
                    allowed[row] = True
            if done % PLACED_TOGETHER == 0:
                yield
        digest_of = dict(zip(layout.rows.tolist(), layout.digests, strict=True)) | dict(
            zip(rows.tolist(), digests, strict=True)
        )
        ordered = np.array(sorted(of_row), np.int64)
        return layout._replace(
            rows=ordered, digests=np.array([digest_of[row] for row in ordered.tolist()], np.uint64),
            positions=np.array([of_row[row] for row in ordered.tolist()], np.float32),
        )  # fmt: skip

    # The file

    def _save(self, layout: MapLayout) -> None:
        meta: dict[str, Any] = position_of(self._store, self._store.seq)
        meta |= {"id": layout.id, "space": layout.space, "made_for": layout.made_for}
        arrays: dict[str, NDArray[Any]] = {
            "rows": layout.rows,
            "digests": layout.digests,
            "positions": layout.positions,
        }
        index_file.save(self._path, KIND, meta, arrays, self._disk)


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
        layout = self._map.layout
        share = None if self._map.share is None else round(self._map.share, 3)
        if after is not None and (layout is None or after[1] != layout.id):
            raise Refusal(409, "conflict", "the map has another layout by now: begin again without a cursor")
        if layout is None:
            if share is not None:
                return MapAnswer(state="computing", total=0, share=share)
            return MapAnswer(state="absent", total=0, reason=self._map.reason() or "it is about to be computed")
        # The places of the memories that pass the filter and still have the text that was placed.
        mask = self._columns.uncached_mask(wanted)
        places: Rows = np.flatnonzero(layout.rows < len(mask))
        places = places[mask[layout.rows[places]]]
        places = places[self._columns.values("text_low", layout.rows[places]) == layout.digests[places]]
        behind = places if after is None else places[layout.rows[places] > after[0]]
        page = behind[:limit]
        answer = self._points(layout, page)
        answer.total, answer.share = len(places), share
        if len(behind) > limit:
            answer.cursor = cursor_at((int(layout.rows[page[-1]]), layout.id))
        return answer

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
