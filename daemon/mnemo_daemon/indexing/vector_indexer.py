"""Vectors follow the store: what changed is embedded and put into the vector view, behind the acknowledgement.

One thread reads `changes` from where the view stands (SPEC 3.5). What a person or an agent just said goes first, so
that a thousand notes waiting for their vectors hold up nothing. A text's vectors are kept in the database under its
hash, so that no text is embedded twice by one model; a view that is missing is filled again from there. What the doors
embedded before they wrote it is handed over (`EmbeddingHandoff`). Only `reindex` computes anew what is known. A text's
token rows come from the same run of the model and are kept with its vectors; where they are missing, `TokenBackfill`
makes them.
"""

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.indexing.centroids import Centroids, Scope
from mnemo_daemon.indexing.index import (
    INDEXED_STATES,
    IndexFault,
    IndexProgress,
    is_indexed,
    position_of,
    require_same_store,
)
from mnemo_daemon.indexing.index import IndexState as ViewState
from mnemo_daemon.indexing.throughput import Throughput
from mnemo_daemon.indexing.token_backfill import TokenBackfill
from mnemo_daemon.indexing.vector_check import vector_faults
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedding import Embedder, EmbeddingService, lower_thread_priority
from mnemo_daemon.priority import never_yield
from mnemo_daemon.thread_supervision import ThreadReport, ThreadSupervisor, complete_future
from mnemo_store.disk import Disk
from mnemo_store.errors import (
    EmbeddingSpaceMismatch,
    IndexMismatch,
    StoreClosed,
    StoreError,
)
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.maintenance.check import TableSource, YieldToQueries
from mnemo_store.records import STATES, embedded_text, text_hash
from mnemo_store.store import Commit, Store, TextVectors

BATCH = 64  # texts embedded and committed together: a second's work on a laptop
EXPRESS_MAX = 1024  # memories that may go before the backlog
EXPRESS_TOUCHED_MAX = 8  # a transaction that touches more is bulk work and takes its turn
COPIED_TOGETHER = 1_000  # memories
COUNTED_TOGETHER = 1_000  # memories of a view that was loaded, into its middles: some 30 ms
HANDOFF_MAX = 20_000  # texts whose vectors the doors computed and the view has not taken yet: 15 MB at 384 dimensions
HANDOFF_SECONDS = 60.0  # that those are kept which the view, having taken all there is, did not take
HANDOFF_TOKENS_MAX = 8_000  # of them with their token rows: 8 MB, or 32 where all texts are long
HANDOFF_WAIT_SECONDS = 8.0  # for a vector that a door is computing; after that it is computed here
ATTEMPTS = 10  # a second apart, to get a vector for a text from a model that gives NaN; then it is passed over
FAILED_AGAIN_SECONDS = 600.0  # after which what was passed over is tried again
IDLE_SECONDS = 1.0
GROW_AGAIN_SECONDS = 600.0  # after a graph that could not be built; searches stay exact meanwhile
SAVE_AFTER_CHANGES = 20_000
SAVE_AFTER_SECONDS = 300.0

OTHER_SPACE = (
    "the vectors were computed by another model, or in other numerics than the {form} used here, and are computed "
    "again; what has none yet is found by words"
)

log = logging.getLogger("mnemo.indexing")


class VectorMissing(Exception):
    """The model gave no vector for a text, and is asked for it again."""


Rows = NDArray[np.float16]  # the vectors of one text, (windows, dimensions)


class ActiveIndex(NamedTuple):
    """What answers queries: a view, the model whose vectors it holds, and the middles of what it holds."""

    view: VectorIndex
    embedder: Embedder
    centroids: Centroids


class TextEmbedding(NamedTuple):
    """What a run of the model gave of one text: `tokens` None where it gives none, or none were handed over."""

    rows: Rows
    tokens: Codes | None


class EmbeddingHandoff:
    """Vectors on their way from a door to the view, by space and text: bounded, and lost with the process.

    What is being computed is there as well, as a future, so that the thread below does not compute it a second time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: OrderedDict[tuple[str, bytes], Future[Rows | None]] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, bytes], Codes] = OrderedDict()
        self._since: dict[tuple[str, bytes], float] = {}  # monotonic: of each future, in the same order

    def __len__(self) -> int:
        return len(self._futures)

    def claim(self, space: str, digests: Sequence[bytes]) -> dict[bytes, "Future[Rows | None]"]:
        """A future for each of the texts that nobody computes or has computed: the caller settles every one of them,
        with the vectors, or with None where there are none."""
        taken: dict[bytes, Future[Rows | None]] = {}
        with self._lock:
            for digest in digests:
                if (space, digest) not in self._futures:
                    taken[digest] = self._futures[space, digest] = Future()
                    self._since[space, digest] = time.monotonic()
            while len(self._futures) > HANDOFF_MAX:
                self._since.pop(self._futures.popitem(last=False)[0], None)
        return taken

    def find(self, space: str, digest: bytes) -> "Future[Rows | None] | None":
        """What was computed for a text, or will be."""
        with self._lock:
            return self._futures.get((space, digest))

    def add_tokens(self, space: str, digest: bytes, tokens: Codes | None) -> None:
        """The token rows of a text in whose vectors' space that is; before its future is settled."""
        if tokens is None:
            return
        with self._lock:
            self._tokens[space, digest] = tokens
            while len(self._tokens) > HANDOFF_TOKENS_MAX:
                self._tokens.popitem(last=False)

    def tokens(self, space: str, digest: bytes) -> Codes | None:
        with self._lock:
            return self._tokens.get((space, digest))

    def discard(self, space: str, digests: Sequence[bytes]) -> None:
        """They are kept elsewhere, or were not to be had."""
        with self._lock:
            self._discard([(space, digest) for digest in digests])

    def discard_older(self, seconds: float) -> None:
        """Forgets what was computed longer ago than that: called when nothing waits for a vector, so that it belongs to
        texts that were replaced before they got into the view, or were never kept."""
        until = time.monotonic() - seconds
        with self._lock:
            old = itertools.takewhile(lambda key: self._since[key] < until, self._since)
            self._discard([key for key in old if self._futures[key].done()])

    def _discard(self, keys: Sequence[tuple[str, bytes]]) -> None:
        for key in keys:
            self._futures.pop(key, None)
            self._tokens.pop(key, None)
            self._since.pop(key, None)

    def clear(self) -> None:
        """Nothing is remembered of any text."""
        with self._lock:
            self._futures.clear()
            self._tokens.clear()
            self._since.clear()


class _IndexRow(NamedTuple):
    """A memory to be put into a view, with the vectors that are known already."""

    number: int
    scope: Scope
    text: str
    content: str
    modified_at: int
    text_hash: bytes
    known: NDArray[np.float16] | None
    has_tokens: bool  # in the database, or not to be had


class VectorIndexer:
    """The thread and the views it fills. `serving` is what recall asks."""

    def __init__(
        self, store: Store, views: Views, embedding: EmbeddingService, disk: Disk,
        give_way: Callable[[], None] = never_yield, idle_seconds: float = IDLE_SECONDS,
    ) -> None:  # fmt: skip
        """give_way: waits for whoever goes before what is filled behind. idle_seconds: from one look to the next, where
        nobody tells of anything."""
        self._store = store
        self._idle_seconds = idle_seconds
        self._yield_to_queries = give_way
        self.handoff = EmbeddingHandoff()
        # What is to be done once all have their vectors, up to that change; whether it did something.
        self.next_work: Callable[[ActiveIndex, int], bool] = lambda *_: False
        self._views = views
        self._embedding = embedding
        self.tokens: TokenBackfill = TokenBackfill(store, views, embedding)
        self._disk = disk
        self._folder = store.folder / "views"
        self._serving: ActiveIndex | None = None
        self._filling: ActiveIndex | None = None  # of a model that is being switched to
        self._seq = 0  # applied to the view being filled
        self._saved_seq = 0
        self._saved_at = time.monotonic()
        self._behind_since = 0.0
        self._express: deque[str] = deque(maxlen=EXPRESS_MAX)
        self._dropped: deque[int] = deque()
        self._wake = threading.Condition()
        self._is_notified = False  # that there may be something to do, since a look at it began
        self._stopping = False
        self._builder: ThreadSupervisor | None = None
        self._has_new_graph = False
        self._is_new = store.seq == 0
        self._is_recompute_requested = False  # by `reindex`; the thread takes it up
        self._is_recomputing = False  # the view that is filled takes no vectors from the database
        self._are_row_ids_reset = False
        self._failed: Counter[bytes] = Counter()  # how often a text got a vector that is none
        self._failed_at = 0.0  # monotonic: the last time
        self._throughput = Throughput()
        self._renewals: deque[Future[None]] = deque()
        self._batch = BATCH
        self._reason = ""
        self.refill_cause = ""  # why all memories get their vectors again; "" where they do not
        self.supervisor = ThreadSupervisor("mnemo-indexing", self._run, on_failure=self._note_failure)
        views.add_listener(self._on_commit)
        embedding.on_loaded = self.wake
        store.on_row_ids_reset(self._on_row_ids_reset)

    def start(self) -> None:
        self.supervisor.start()

    def thread_reports(self) -> list[ThreadReport]:
        """Of the thread that fills the views, and of the one that builds a graph, if there was any."""
        builder = self._builder
        return [each.report() for each in (self.supervisor, builder) if each is not None]

    def stop(self) -> None:
        """Ends the thread and saves the view."""
        with self._wake:
            self._stopping = True
            self._notify()
        if self._builder is not None:
            self._builder.stop()
        if self.supervisor.stop():
            self._refuse_renewals()
            self._save(unchanged_too=self._has_new_graph)

    def serving(self) -> ActiveIndex | None:
        """None while no model has been loaded since the start."""
        return self._serving

    def wake(self) -> None:
        """Looks at once whether there is something to do: a model has been loaded, or a graph is built."""
        with self._wake:
            self._notify()
        self.supervisor.resume()

    def _notify(self) -> None:
        """For who holds the lock."""
        self._is_notified = True
        self._wake.notify_all()

    def has_vector(self, number: int) -> bool:
        """Whether the memory of that number is found by its vector."""
        serving = self._serving
        return serving is not None and number in serving.view

    def eligible(self) -> int:
        """Memories that belong into the view."""
        return self._views.attributes.count_states(INDEXED_STATES)

    def waiting(self) -> int:
        """Memories that have no vector yet."""
        serving = self._filling or self._serving
        done = 0 if serving is None or self._is_recompute_requested else len(serving.view)
        return max(0, self.eligible() - done)

    def progress(self) -> IndexProgress:
        """How far the view is: of the one being filled, where a model is switched to or all is computed anew."""
        filling = self._filling
        serving = filling or self._serving
        if serving is None:
            return IndexProgress("off", 0, 0, 0.0, self._behind_since, self._reason or "no embedding model is loaded")
        eligible = self.eligible()
        seq, items = (0, 0) if self._is_recompute_requested else (self._seq, len(serving.view))
        share = min(1.0, items / eligible) if eligible else 1.0
        is_ready = seq >= self._store.seq and filling is None  # one that is whole has yet to take over
        state: ViewState = "ready" if is_ready else "building" if share < 1.0 else "catching_up"
        growing = ""
        if self._builder is not None and (failure := self._builder.report()).is_failing:
            growing = f"the graph over the vectors could not be built, searches are exact: {failure.last_failure}"
        elif self._is_growing() or serving.view.needs_index():
            growing = "the graph over the vectors is being built: searches are exact until then"
        waiting = self.waiting()
        rate = self._throughput.rate() if waiting else None
        left = waiting / rate if rate else None
        return IndexProgress(state, seq, items, share, self._behind_since, self._reason or growing, rate, left)

    def verify(self, source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[IndexFault]:
        """See `BackgroundIndex`."""
        serving = self._serving
        return iter(()) if serving is None else vector_faults(serving.view, source, self._seq, yield_to_queries)

    def lacks_tokens(self) -> bool:
        """Return whether memories may lack token rows while the thread has nothing to do: vectors come first."""
        serving = self._serving
        is_idle = self.tokens.applied_seq == self._store.seq and not self.waiting()
        return serving is not None and is_idle and self.tokens.has_work(serving.embedder)

    def fill_tokens(self) -> bool:
        """Compute some of the missing token rows; return whether there may be more."""
        serving = self._serving
        return serving is not None and self.tokens.run_slice(serving.embedder, self._seq)

    def reindex(self, *, anew: bool, batch: int | None = None) -> None:
        """Embeds what waits, `batch` texts at once from now on (None: BATCH).

        With `anew` every text is computed again, into a view beside the one that answers, which takes over once it is
        whole; without a model, as soon as there is one. A restart of the daemon ends that.
        """
        with self._wake:
            self._batch = batch or BATCH
            self._is_recompute_requested = self._is_recompute_requested or anew
            self._notify()
        self.supervisor.resume()

    def rebuild_without_deleted(self) -> None:
        """Returns once no row of a memory that was dropped is left in the view or in its files, and what was being
        embedded has been. The graph over the vectors is built anew behind it."""
        future: Future[None] = Future()
        with self._wake:
            if self._stopping:
                raise StoreClosed("the daemon is shutting down")
            self._renewals.append(future)
            self._notify()
        self.supervisor.resume()
        if not self.supervisor.is_alive():
            self._renew_if_asked()
        future.result()

    def _on_commit(self, applied: Commit) -> None:
        with self._wake:
            if not self._behind_since:
                self._behind_since = time.monotonic()
            if len(applied.touched) <= EXPRESS_TOUCHED_MAX:
                self._express.extend(touched.memory.id for touched in applied.touched if touched.memory)
            self._dropped.extend(touched.number for touched in applied.touched if touched.dropped)
            self._notify()

    def prioritise(self, ids: Sequence[str]) -> None:
        """Has these memories embedded before the backlog, EXPRESS_MAX at most: a note that somebody has just saved."""
        with self._wake:
            self._express.extend(ids[:EXPRESS_MAX])
            self._notify()

    def _on_row_ids_reset(self) -> None:
        """Every row of the view may be another memory's: it is filled anew, from the vectors that are kept."""
        with self._wake:
            self._are_row_ids_reset = True
            self._notify()

    def _run(self) -> None:
        while not self._stopping:
            self._is_notified = False  # what is told from here on is seen by this look, or by one right behind it
            self._renew_if_asked()
            self._yield_to_queries()
            try:
                worked = self._step()
            except (StoreError, OSError, VectorMissing) as error:  # what is out of order outside; it may be over soon
                if not self._stopping and str(error) != self._reason:
                    log.warning("indexing waits and tries again every %s s: %s", self._idle_seconds, error)
                self._reason = str(error)
                worked = False
            else:
                self._reason = ""
                self.supervisor.note_success()
            if not worked:
                with self._wake:
                    self._wake.wait_for(lambda: self._is_notified or self._stopping, self._idle_seconds)

    def _note_failure(self, error: Exception) -> None:
        self._reason = str(error)

    def _renew_if_asked(self) -> None:
        while self._renewals:
            complete_future(self._renewals[0], self._renew)
            self._renewals.popleft()

    def _refuse_renewals(self) -> None:
        while self._renewals:
            self._renewals.popleft().set_exception(StoreClosed("the daemon is shutting down"))

    def _renew(self) -> None:
        was, filling = self._serving, self._filling
        self.handoff.clear()
        if was is not None:
            self._drop_rows(was)
            self._serving = was._replace(view=_copied(was.view))
        if filling is not None:
            self._filling = filling._replace(view=_copied(filling.view))
        if self._builder is not None:
            self._builder.stop(None)  # it builds for a view that is no more, and soon sees that
        self._has_new_graph = False
        if not self._save(unchanged_too=True):
            for path in self._folder.glob("vectors*"):
                self._disk.unlink(path)
            self._saved_seq = 0

    def _step(self) -> bool:
        """Does one piece of work. False when there is nothing to do now."""
        embedder = self._embedding.current()
        if embedder is None:
            return False
        target = self._target(embedder)
        self._drop_rows(target)
        batch, seq = self._next_batch()
        if target.centroids.uncounted:
            self._count(target)
        if seq == self._seq and not batch:
            self.handoff.discard_older(HANDOFF_SECONDS)
            self._finish(target)
            self.tokens.applied_seq = self._seq
            return bool(target.centroids.uncounted) or self.next_work(target, self._seq)
        self._index(target, batch)
        self._seq = seq
        if self._seq - self._saved_seq >= SAVE_AFTER_CHANGES:
            self._save()
        return True

    def _target(self, embedder: Embedder) -> ActiveIndex:
        """The view to fill: the one that answers, or, when the model is another, a new one beside it."""
        if self._are_row_ids_reset:
            self._are_row_ids_reset, self._filling, self._seq = False, None, 0
            self._serving = _empty(embedder)
            self._dropped.clear()
            self.tokens.revisit()
        if self._is_recompute_requested and self._serving is not None:
            self._filling = _empty(embedder)
            self._seq, self._is_recomputing, self._is_recompute_requested = 0, True, False
        if self._filling is not None and self._filling.embedder.space == embedder.space:
            return self._filling
        if self._serving is not None and self._serving.embedder.space == embedder.space:
            if self._filling is not None:  # the switch was taken back, and what came meanwhile went to the other view
                self._filling, self._seq, self._is_recomputing = None, 0, False
            return self._serving
        self._is_recomputing = False
        target, seq = self._load(embedder)
        self._seq = self._saved_seq = seq
        if self._serving is None:
            self._serving = target
        else:
            self._filling = target
        return target

    def _load(self, embedder: Embedder) -> tuple[ActiveIndex, int]:
        try:
            view, meta = VectorIndex.load(self._folder, embedder.dimensions, embedder.space)
            require_same_store(self._store, meta)
            seq = int(meta["seq"])
        except IndexMismatch as error:
            if isinstance(error, EmbeddingSpaceMismatch) and self._serving is None:
                self.refill_cause = OTHER_SPACE.format(form=embedder.form)
            if not self._is_new:
                log.info("the vector view is filled anew: %s", error)
            return _empty(embedder), 0
        states = self._views.attributes.column("state")
        there = np.isin(states, [STATES.index(state) for state in STATES if state in INDEXED_STATES])
        for number in view.numbers().tolist():
            if number >= len(there) or not there[number]:  # the highest ones may have gone from the columns altogether
                view.drop(number)
        return ActiveIndex(view, embedder, Centroids(view.numbers().tolist())), seq

    def _count(self, target: ActiveIndex) -> None:
        """Takes some more of what the view was loaded with into its middles."""
        uncounted, rows = target.centroids.uncounted, []
        some = list(itertools.islice(uncounted, COUNTED_TOGETHER))
        with self._store.snapshot() as snapshot:
            for number in some:
                memory_id, vectors = snapshot.id_of(number), target.view.vectors_of(number)
                memory = snapshot.memory(memory_id) if memory_id else None
                if memory is not None and vectors is not None:
                    rows.append((number, Scope(memory.user_id, memory.namespace), vectors))
        target.centroids.add_existing(rows)
        for _ in some:  # only now: as long as any is left, nobody goes by these middles
            uncounted.popleft()

    def _drop_rows(self, target: ActiveIndex) -> None:
        while self._dropped:
            _drop(target, self._dropped[0])
            self._dropped.popleft()  # only now: what cannot be dropped is tried again

    def _next_batch(self) -> tuple[list[str], int]:
        """Ids of memories to look at, and the seq that is applied once they are: the express lane first."""
        with self._wake:
            if self._express:
                batch = list(dict.fromkeys(self._express))
                self._express.clear()
                return batch, self._seq
        ids: dict[str, None] = {}
        seq = self._seq
        with self._store.snapshot() as snapshot:
            for entry_seq, entry in snapshot.entries(self._seq, limit=1000):
                if ids and len(ids) + len(entry.ids) > self._batch:
                    break
                ids.update(dict.fromkeys(entry.ids))
                seq = entry_seq
        return list(ids), seq

    def _index(self, target: ActiveIndex, ids: Sequence[str]) -> None:
        wanted, unwanted = self._look_up(ids, target.embedder)
        for number in unwanted:
            _drop(target, number)
        missing = {row.text_hash: row.text for row in wanted if row.known is None}
        fresh = self._collect_handoff(target.embedder, list(missing))
        fresh |= self._embed(target.embedder, {key: text for key, text in missing.items() if key not in fresh})
        for row in wanted:
            new = fresh.get(row.text_hash)
            if not row.has_tokens and (new is None or new.tokens is None):
                self.tokens.revisit(row.number)
            rows = row.known if row.known is not None else new.rows if new is not None else None
            if rows is None:
                continue
            current = target.view.vectors_of(row.number)
            is_other = current is None or not np.array_equal(current, rows)
            if is_other:
                target.view.put(row.number, rows)
            if is_other or target.centroids.scope_of(row.number) != row.scope:
                target.centroids.put(row.number, row.scope, rows, current)
        self._count_tokens(target.embedder, wanted)
        if any(self._failed[digest] < ATTEMPTS for digest in missing.keys() - fresh.keys()):
            raise VectorMissing("the model gave no vector for a text, and is asked again")

    def _count_tokens(self, embedder: Embedder, wanted: Sequence[_IndexRow]) -> None:
        """Keeps the token counts that budgets are made of, so that no recall has to count."""
        columns = self._views.attributes
        uncounted = [row for row in wanted if not columns.tokens_of(row.number)]
        counts = embedder.count_tokens([row.content for row in uncounted])
        for row, tokens in zip(uncounted, counts, strict=True):
            columns.set_tokens(row.number, tokens, row.modified_at)

    def _look_up(self, ids: Sequence[str], embedder: Embedder) -> tuple[list[_IndexRow], list[int]]:
        wanted, unwanted = [], []
        late = embedder.late
        with self._store.snapshot() as snapshot:
            for memory_id in ids:
                memory, number = snapshot.memory(memory_id), snapshot.number(memory_id)
                if number is None:
                    continue
                if memory is None or not is_indexed(memory):
                    unwanted.append(number)
                    continue
                text = embedded_text(memory)
                digest = text_hash(text)
                known = None
                if not self._is_recomputing:
                    known = snapshot.vectors(embedder.space, digest, embedder.dimensions)
                (tokens,) = snapshot.token_rows(late.space, [digest], late.dimensions) if late else (None,)
                has_tokens = late is None or tokens is not None
                scope = Scope(memory.user_id, memory.namespace)
                wanted.append(
                    _IndexRow(number, scope, text, memory.content, memory.modified_at, digest, known, has_tokens)
                )
        return wanted, unwanted

    def _collect_handoff(self, embedder: Embedder, digests: Sequence[bytes]) -> dict[bytes, TextEmbedding]:
        """What the doors computed of these texts, kept in the database from here on."""
        if self._is_recomputing:
            return {}
        futures = {digest: self.handoff.find(embedder.space, digest) for digest in digests}
        taken: dict[bytes, TextEmbedding] = {}
        for digest, future in futures.items():
            if future is not None:
                with contextlib.suppress(TimeoutError, CancelledError):
                    rows = future.result(HANDOFF_WAIT_SECONDS)
                    if rows is not None:
                        taken[digest] = TextEmbedding(rows, self.handoff.tokens(embedder.space, digest))
        self._keep(embedder, taken)
        self.handoff.discard(embedder.space, [digest for digest, future in futures.items() if future is not None])
        return taken

    def _keep(self, embedder: Embedder, found: Mapping[bytes, TextEmbedding]) -> None:
        digests, late = list(found), embedder.late
        for start in range(0, len(digests), self._batch):
            vectors = []
            for digest in digests[start : start + self._batch]:
                rows, tokens = found[digest]
                vectors.append(TextVectors(embedder.space, digest, rows))
                if late is not None and tokens is not None:
                    vectors.append(TextVectors(late.space, digest, tokens))
            self._store.put_vectors(vectors).result()

    def _embed(self, embedder: Embedder, texts: dict[bytes, str]) -> dict[bytes, TextEmbedding]:
        """What the model gives by text hash, kept in the database too; a batch at once. Without what is no numbers."""
        fresh: dict[bytes, TextEmbedding] = {}
        digests = list(texts)
        for start in range(0, len(digests), self._batch):
            some = digests[start : start + self._batch]
            began = time.monotonic()
            vectors, tokens = self._embedding.encode_both(embedder, [texts[digest] for digest in some])
            self._throughput.add(began, len(some))
            found = {
                digest: TextEmbedding(row.astype(np.float16), codes)
                for digest, row, codes in zip(some, vectors, tokens, strict=True)
            }
            for digest in [digest for digest, each in found.items() if not np.isfinite(each.rows).all()]:
                del found[digest]
                self._failed[digest] += 1
                self._failed_at = time.monotonic()
            self._keep(embedder, found)
            fresh |= found
        return fresh

    def _finish(self, target: ActiveIndex) -> None:
        """The view is current: it answers from now on; saved and given its index when that is due."""
        if self._failed and time.monotonic() - self._failed_at >= FAILED_AGAIN_SECONDS:
            self._failed.clear()
            self._seq = 0  # looks at everything once more: who has its vector costs a glance
        self._behind_since = 0.0
        self.refill_cause = ""
        if self._filling is target:
            self._serving, self._filling, self._is_recomputing = target, None, False
            self._views.attributes.reset_token_counts()
            self._saved_seq = 0
        if self._has_new_graph:
            self._has_new_graph = False
            self._save(unchanged_too=True)
        if target.view.needs_index() and not self._is_growing():
            grow = functools.partial(self._grow, target.view)
            self._builder = ThreadSupervisor("mnemo-graph", grow, pause_seconds=GROW_AGAIN_SECONDS)
            self._builder.start()
        changes, waited = self._seq - self._saved_seq, time.monotonic() - self._saved_at
        if changes and (changes >= SAVE_AFTER_CHANGES or waited >= SAVE_AFTER_SECONDS):
            self._save()

    def _is_growing(self) -> bool:
        return self._builder is not None and self._builder.is_alive()

    def _grow(self, view: VectorIndex) -> None:
        """Builds the view's graph, in a thread of its own: it takes minutes, in which new vectors still come in."""
        lower_thread_priority()
        if not self._stopping and self._is_in_use(view):
            view.build_index(self._folder, self._disk, lambda: self._stopping or not self._is_in_use(view))
            self._has_new_graph = True
        if self._builder is not None:
            self._builder.note_success()
        self.wake()

    def _is_in_use(self, view: VectorIndex) -> bool:
        return any(serving is not None and serving.view is view for serving in (self._serving, self._filling))

    def _save(self, *, unchanged_too: bool = False) -> bool:
        """Whether the view's files are those of the view that answers now."""
        serving = self._serving
        if (
            self._store.lock_loss
            or serving is None
            or self._filling is not None
            or (self._seq == self._saved_seq and not unchanged_too)
        ):
            return False
        seq = self._seq
        with contextlib.suppress(StoreError):
            try:
                serving.view.save(self._folder, position_of(self._store, seq), self._disk)
            except OSError as error:
                log.warning("the vector view could not be saved: %s", error)
                return False
            self._saved_seq, self._saved_at = seq, time.monotonic()
            return True
        return False


def _empty(embedder: Embedder) -> ActiveIndex:
    return ActiveIndex(VectorIndex(embedder.dimensions, embedder.space), embedder, Centroids())


def _drop(target: ActiveIndex, number: int) -> None:
    target.centroids.drop(number, target.view.vectors_of(number))
    target.view.drop(number)


def _copied(view: VectorIndex) -> VectorIndex:
    """A view that has never held anything but what lives in this one."""
    copy = VectorIndex(view.dimensions, view.space, exact_max=view.exact_max)
    numbers = view.numbers().tolist()
    for start in range(0, len(numbers), COPIED_TOGETHER):
        rows = {number: view.vectors_of(number) for number in numbers[start : start + COPIED_TOGETHER]}
        there = {number: windows for number, windows in rows.items() if windows is not None}
        copy.put_many(list(there), list(there.values()))
    return copy
