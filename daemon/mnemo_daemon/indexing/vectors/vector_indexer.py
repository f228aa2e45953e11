"""The vector indexer: embeds what changed in the store and puts it into the vector view, after the acknowledgement.

One thread reads `changes` from the position of the view (SPEC 3.5). What a person or an agent has just written goes
first, so that a thousand notes waiting for their vectors do not delay it. A text's vectors are kept in the database
under its hash, so that no text is embedded twice by one model; a view that is missing is filled again from there. Only
`reindex` computes known vectors again. A text's token rows come from the same run of the model and are kept with its
vectors; where they are missing, `TokenBackfill` computes them.
"""

import contextlib
import functools
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.indexing.index import (
    INDEXED_CODES,
    INDEXED_STATES,
    BackgroundIndex,
    IndexFault,
    IndexProgress,
    IndexState,
    SavedPosition,
    position_of,
    require_same_store,
)
from mnemo_daemon.indexing.index_checks import vector_faults
from mnemo_daemon.indexing.vectors.active_index import (
    CENTROIDS_FILE,
    ActiveIndex,
    Centroids,
    GraphBuilder,
    NoModel,
    Phase,
    Scope,
    SingleView,
    ViewReplacement,
    empty_index,
)
from mnemo_daemon.indexing.vectors.stored_token_rows import TOKEN_BACKFILL_SECONDS, TokenBackfill
from mnemo_daemon.indexing.vectors.text_vectors import BATCH, MissingVectorError, TextVectorSource
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.priority import never_yield
from mnemo_daemon.scheduler import JobState
from mnemo_daemon.thread_supervision import ThreadSupervisor, complete_future
from mnemo_store.disk import Disk
from mnemo_store.errors import ClosedStoreError, EmbeddingSpaceMismatch, IndexMismatch, StoreError
from mnemo_store.indexes.vector_kernels import are_allowed, as_kept
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.maintenance.check import TableSource, YieldToQueries
from mnemo_store.store import Commit, Store

EXPRESS_MAX = 1024  # memories that may go before the backlog
EXPRESS_TOUCHED_MAX = 8  # a transaction that touches more is bulk work and takes its turn

Request = Literal["recompute", "revisit", "row_ids_reset"]

COUNTED_TOGETHER = 1_000  # memories of a loaded view that are added to its centroids at once: some 30 ms
HANDOFF_SECONDS = 60.0  # that vectors are kept which no memory needed once all had theirs
SAVE_AFTER_CHANGES = 20_000
IDLE_SECONDS = 1.0

OTHER_SPACE = (
    "the vectors were computed by another model, or in other numerics than the {form} used here, and are computed "
    "again; what has none yet is found by words"
)

log = logging.getLogger("mnemo.indexing")


class IndexerInbox:
    """The requests of other threads to the indexer's thread."""

    def __init__(self) -> None:
        self.wake = threading.Condition()
        self.requests: set[Request] = set()
        self.dropped: deque[int] = deque()  # row ids of erased memories
        self.renewals: deque[Future[None]] = deque()
        self.is_closed = False
        self.behind_since = 0.0  # monotonic: of the oldest change that is not applied; 0 when none
        self._express: deque[str] = deque(maxlen=EXPRESS_MAX)  # ids that go before the backlog
        self._is_notified = False  # since the thread began to look for work

    def notify(self, request: Request | None = None) -> None:
        with self.wake:
            if request is not None:
                self.requests.add(request)
            self._is_notified = True
            self.wake.notify_all()

    def add_commit(self, commit: Commit) -> None:
        if all(touched.memory is None and not touched.dropped for touched in commit.touched):
            return  # nothing that has a vector changed: the next look for work passes over it
        with self.wake:
            self.behind_since = self.behind_since or time.monotonic()
            if len(commit.touched) <= EXPRESS_TOUCHED_MAX:
                self._express.extend(touched.memory.id for touched in commit.touched if touched.memory)
            self.dropped.extend(touched.number for touched in commit.touched if touched.dropped)
            self.notify()

    def prioritise(self, ids: Sequence[str]) -> None:
        with self.wake:
            self._express.extend(ids[:EXPRESS_MAX])
            self.notify()

    def add_renewal(self) -> "Future[None]":
        """Raises ClosedStoreError once the indexer ends."""
        future: Future[None] = Future()
        with self.wake:
            if self.is_closed:
                raise ClosedStoreError("the daemon is shutting down")
            self.renewals.append(future)
            self.notify()
        return future

    def take_express(self) -> list[str]:
        """The ids that go first, each once."""
        with self.wake:
            ids = list(dict.fromkeys(self._express))
            self._express.clear()
        return ids

    def close(self) -> None:
        with self.wake:
            self.is_closed = True
            self.notify()

    def begin_look(self) -> None:
        """Has every notification from here on lead to another look for work."""
        self._is_notified = False

    def wait(self, seconds: float) -> None:
        """Returns at the next notification, or after that time."""
        with self.wake:
            self.wake.wait_for(lambda: self._is_notified or self.is_closed, seconds)

    def refuse_renewals(self) -> None:
        while self.renewals:
            self.renewals.popleft().set_exception(ClosedStoreError("the daemon is shutting down"))


class VectorIndexer:
    """The thread and the views that it fills. `serving` gives the one that recall searches."""

    def __init__(
        self, store: Store, views: Views, embedding: EmbeddingService, disk: Disk,
        yield_to_queries: Callable[[], None] = never_yield, idle_seconds: float = IDLE_SECONDS,
        next_work: Callable[[ActiveIndex, int], bool] = lambda *_: False,
    ) -> None:  # fmt: skip
        """idle_seconds: from one look for work to the next, unless a commit or a request comes earlier. next_work:
        called with the index and its last change once all memories have their vectors; returns whether it did
        something."""
        self._store = store
        self._idle_seconds = idle_seconds
        self._yield_to_queries = yield_to_queries
        self._texts = TextVectorSource(store, embedding)
        self.handoff = self._texts.handoff
        self._next_work = next_work
        self._views = views
        self._embedding = embedding
        self.tokens: TokenBackfill = TokenBackfill(store, views, embedding)
        self._tokens_missing_since: float | None = None  # monotonic
        self._disk = disk
        self._folder = store.folder / "views"
        self._phase: Phase = NoModel()
        self._seq = 0  # applied to the view that is filled
        self._saved = SavedPosition(SAVE_AFTER_CHANGES)
        self._inbox = IndexerInbox()
        self._graph = GraphBuilder(self._folder, disk, self._is_in_use, self.wake)
        self._is_new = store.seq == 0
        self._was_express = False  # the last batch
        self._reason = ""
        self.refill_cause = ""  # why all memories get their vectors again; "" where they do not
        self.supervisor = ThreadSupervisor("mnemo-indexing", self._run, on_failure=self._note_failure)
        views.add_listener(self._inbox.add_commit)
        embedding.on_loaded = self.wake
        # Every row of the view may belong to another memory: it is filled again, from the vectors in the database.
        store.on_row_ids_reset(functools.partial(self._inbox.notify, "row_ids_reset"))

    @property
    def indexes(self) -> Mapping[str, BackgroundIndex]:
        """The indexes that the thread fills, by the names that status and checks give them."""
        return {"vectors": self, "tokens": self.tokens}

    def start(self) -> None:
        self.supervisor.start()

    def supervisors(self) -> list[ThreadSupervisor]:
        """Of the thread that fills the views, and of the one that builds a graph, if there was any."""
        return [each for each in (self.supervisor, self._graph.supervisor) if each is not None]

    def stop(self) -> None:
        """Ends the thread and saves the view."""
        self._inbox.close()
        self._graph.stop()
        if self.supervisor.stop():
            self._inbox.refuse_renewals()
            self._save(unchanged_too=self._graph.has_unsaved_graph)

    def serving(self) -> ActiveIndex | None:
        """None while no model has been loaded since the start."""
        return self._phase.active

    def wake(self) -> None:
        """Has the thread look for work at once: a model has been loaded, or a graph is built."""
        self._inbox.notify()
        self.supervisor.resume()

    def has_vector(self, number: int) -> bool:
        """Return whether the memory of that row id is found by its vector."""
        active = self._phase.active
        return active is not None and number in active.view

    def count_found(self, mask: NDArray[np.bool_]) -> int:
        """The number of memories in a mask, by row id, that are found by their vectors."""
        active = self._phase.active
        return 0 if active is None else int(np.count_nonzero(are_allowed(active.view.numbers(), mask)))

    def eligible(self) -> int:
        """Memories that belong into the view."""
        return self._views.attributes.count_states(INDEXED_STATES)

    def waiting(self) -> int:
        """Memories that have no vector yet."""
        target = self._phase.target
        done = 0 if target is None or "recompute" in self._inbox.requests else self._held(target.view)
        return max(0, self.eligible() - done)

    def _held(self, view: VectorIndex) -> int:
        """Memories in the view that belong into it. Until the thread has caught up, it has rows of others too."""
        if self._seq >= self._store.seq:
            return len(view)
        states = self._views.attributes.values("state", view.numbers(), clip=True)
        return int(np.isin(states, INDEXED_CODES).sum())

    def progress(self) -> IndexProgress:
        """The progress of the view that is filled: the new one, where one is being replaced."""
        phase, behind_since = self._phase, self._inbox.behind_since
        target = phase.target
        if target is None:
            return IndexProgress("off", 0, 0, 0.0, behind_since, self._reason or "no embedding model is loaded")
        eligible = self.eligible()
        seq, items = (0, 0) if "recompute" in self._inbox.requests else (self._seq, self._held(target.view))
        share = min(1.0, items / eligible) if eligible else 1.0
        is_ready = seq >= self._store.seq and not isinstance(phase, ViewReplacement)  # that has yet to take over
        state: IndexState = "ready" if is_ready else "building" if share < 1.0 else "catching_up"
        waiting = self.waiting()
        rate = self._texts.throughput.rate() if waiting else None
        left = waiting / rate if rate else None
        reason = self._reason or self._graph.reason(target.view)
        return IndexProgress(state, seq, items, share, behind_since, reason, rate, left)

    def verify(self, source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[IndexFault]:
        """See `BackgroundIndex`."""
        active = self._phase.active
        return iter(()) if active is None else vector_faults(active.view, source, self._seq, yield_to_queries)

    def lacks_tokens(self) -> bool:
        """Return whether memories may lack token rows while the thread has nothing to do: vectors come first."""
        is_idle = self.tokens.applied_seq == self._store.seq and not self.waiting()
        return is_idle and self._has_token_work()

    def are_tokens_due(self, now: float, state: JobState) -> bool:
        """Return whether to compute missing token rows now. Constant writes, for which the thread always has something
        to do, allow a slice every TOKEN_BACKFILL_SECONDS."""
        if not self._has_token_work():
            self._tokens_missing_since = None
            return False
        if self._tokens_missing_since is None:
            self._tokens_missing_since = now
        waited = now - max(self._tokens_missing_since, state.finished or 0.0)
        return waited >= TOKEN_BACKFILL_SECONDS or self.lacks_tokens()

    def fill_tokens(self) -> bool:
        """Compute some of the missing token rows; return whether to go on at once."""
        active = self._phase.active
        if active is not None:
            self.tokens.run_slice(active.embedder, self._seq)
        return self.lacks_tokens()

    def _has_token_work(self) -> bool:
        """A view that is being replaced gets its rows with its vectors, and may be of another model."""
        match self._phase:
            case SingleView(active):
                return self.tokens.has_work(active.embedder)
            case _:
                return False

    def reindex(self, *, recompute: bool, batch: int | None = None) -> None:
        """Embeds what waits, `batch` texts at once from now on (None: BATCH).

        With `recompute` every text is embedded again into a second index, which replaces the one that answers once it
        is complete; without a model, as soon as there is one. A restart of the daemon ends that.
        """
        self._texts.batch = batch or BATCH
        self._inbox.notify("recompute" if recompute else None)
        self.supervisor.resume()

    def require_rows(self) -> None:
        """Has the thread look at every memory again where some have no vector although it has nothing to do: one that
        has its vector costs little."""
        progress, waiting = self.progress(), self.waiting()
        if progress.state == "ready" and waiting and self.tokens.applied_seq == self._store.seq:
            log.warning("a check found %d memories without a vector: every memory is looked at again", waiting)
            self._inbox.notify("revisit")

    def rebuild_without_deleted(self) -> None:
        """Returns once no row of a dropped memory is left in the view or in its files, and the batch under way is
        embedded. The graph over the vectors is rebuilt afterwards."""
        future = self._inbox.add_renewal()
        self.supervisor.resume()
        if not self.supervisor.is_alive():
            self._renew_if_asked()
        future.result()

    def prioritise(self, ids: Sequence[str]) -> None:
        """Has these memories embedded before the backlog, EXPRESS_MAX at most: those of a note that was just saved."""
        self._inbox.prioritise(ids)

    def _run(self) -> None:
        while not self._inbox.is_closed:
            self._inbox.begin_look()
            self._renew_if_asked()
            self._yield_to_queries()
            try:
                worked = self._step()
            except (StoreError, OSError, MissingVectorError) as error:  # the cause is outside, and may be over soon
                if not self._inbox.is_closed and str(error) != self._reason:
                    log.warning("indexing waits and tries again every %s s: %s", self._idle_seconds, error)
                self._reason = str(error)
                worked = False
            else:
                self._reason = ""
                self.supervisor.note_success()
            if not worked:
                self._inbox.wait(self._idle_seconds)

    def _note_failure(self, error: Exception) -> None:
        self._reason = str(error)

    def _renew_if_asked(self) -> None:
        renewals = self._inbox.renewals
        while renewals:
            complete_future(renewals[0], self._renew)
            renewals.popleft()

    def _renew(self) -> None:
        self.handoff.clear()
        match self._phase:
            case SingleView(active):
                self._drop_rows(active)
                self._phase = SingleView(active.copied())
            case ViewReplacement(active, target, recomputes):
                self._drop_rows(active)
                self._phase = ViewReplacement(active.copied(), target.copied(), recomputes)
            case NoModel():
                pass
        self._graph.abandon()
        if not self._save(unchanged_too=True):
            for path in (*self._folder.glob("vectors*"), self._folder / CENTROIDS_FILE):
                self._disk.unlink(path)
            self._saved.seq = 0

    def _step(self) -> bool:
        """Does one piece of work. False when there is nothing to do now."""
        embedder = self._embedding.current()
        if embedder is None:
            return False
        target = self._advance(embedder)
        self._drop_rows(target)
        batch, seq = self._next_batch()
        if target.centroids.uncounted:
            # Adds some more of the vectors that the view was loaded with to its centroids.
            uncounted, more = target.centroids.uncounted, []
            some = list(itertools.islice(uncounted, COUNTED_TOGETHER))
            with self._store.snapshot() as snapshot:
                for number in some:
                    memory_id, vectors = snapshot.id_of(number), target.view.vectors_of(number)
                    memory = snapshot.memory(memory_id) if memory_id else None
                    if memory is not None and vectors is not None:
                        more.append((number, Scope(memory.user_id, memory.namespace), vectors))
            target.centroids.add_existing(more)
            for _ in some:  # only now: these centroids are not used as long as any is left
                uncounted.popleft()
        if seq == self._seq and not batch:
            self.handoff.discard_older(HANDOFF_SECONDS)
            # Has the view, which is current now, answer; saves it and builds its graph when that is due.
            if self._texts.failed.forget_if_due():
                self._seq = 0  # looks at every memory again: one that has its vector costs little
            self._inbox.behind_since = 0.0
            self.refill_cause = ""
            if isinstance(self._phase, ViewReplacement):
                self._phase = SingleView(target)
                self._views.attributes.reset_token_counts()
                self._saved.seq = 0
            if self._graph.has_unsaved_graph:
                self._graph.has_unsaved_graph = False
                self._save(unchanged_too=True)
            self._graph.start_if_needed(target.view)
            if self._saved.is_due(self._seq):
                self._save()
            self.tokens.applied_seq = self._seq
            return bool(target.centroids.uncounted) or self._next_work(target, self._seq)
        self._index(target, batch)
        self._seq = seq
        if self._seq - self._saved.seq >= SAVE_AFTER_CHANGES:
            self._save()
        return True

    def _advance(self, embedder: Embedder) -> ActiveIndex:
        """Enters the phase that the requests and the model require, and returns the view to fill."""
        requests = self._inbox.requests
        if "row_ids_reset" in requests:
            requests.discard("row_ids_reset")
            self._phase, self._seq = SingleView(empty_index(embedder)), 0
            self._inbox.dropped.clear()
            self.tokens.revisit()
        if "revisit" in requests:
            requests.discard("revisit")
            self._seq = 0
        if "recompute" in requests and self._phase.active is not None:
            requests.discard("recompute")
            self._phase, self._seq = ViewReplacement(self._phase.active, empty_index(embedder), recomputes=True), 0
        match self._phase:
            case NoModel():
                self._phase = SingleView(self._load(embedder))
            case ViewReplacement(_, target) if target.embedder.space == embedder.space:
                pass
            case ViewReplacement(active) if active.embedder.space == embedder.space:
                # The switch was undone, and what was written since its begin went to the other view.
                self._phase, self._seq = SingleView(active), 0
            case ViewReplacement(active):
                self._phase = ViewReplacement(active, self._load(embedder))
            case SingleView(active) if active.embedder.space != embedder.space:
                self._phase = ViewReplacement(active, self._load(embedder))
            case SingleView():
                pass
        assert self._phase.target is not None
        return self._phase.target

    def _load(self, embedder: Embedder) -> ActiveIndex:
        """The saved view of the model, or an empty one where there is none; sets the position to that of the view."""
        try:
            view, meta = VectorIndex.load(self._folder, embedder.dimensions, embedder.space)
            require_same_store(self._store, meta)
            seq = int(meta["seq"])
        except IndexMismatch as error:
            if isinstance(error, EmbeddingSpaceMismatch) and isinstance(self._phase, NoModel):
                self.refill_cause = OTHER_SPACE.format(form=embedder.form)
            if not self._is_new:
                log.info("the vector index is rebuilt: %s", error)
            self._seq = self._saved.seq = 0
            return empty_index(embedder)
        states = self._views.attributes.column("state")
        there = np.isin(states, INDEXED_CODES)
        index = ActiveIndex(view, embedder, Centroids.load(self._folder, view, meta))
        for number in view.numbers().tolist():
            if number >= len(there) or not there[number]:  # the columns may have fewer rows than the view
                index.drop(number)
        self._seq = self._saved.seq = seq
        return index

    def _drop_rows(self, target: ActiveIndex) -> None:
        dropped = self._inbox.dropped
        while dropped:
            target.drop(dropped[0])
            dropped.popleft()  # only now: a drop that fails is tried again

    def _next_batch(self) -> tuple[list[str], int]:
        """Ids of memories to look at, and the seq that is applied once they are: the express lane first, but not twice
        in a row, or constant writes would hold up the backlog for ever."""
        express = [] if self._was_express else self._inbox.take_express()
        self._was_express = bool(express)
        if express:
            return express, self._seq
        ids: dict[str, None] = {}
        seq = self._seq
        with self._store.snapshot() as snapshot:
            for entry_seq, entry in snapshot.entries(self._seq, limit=1000):
                if ids and len(ids) + len(entry.ids) > self._texts.batch:
                    break
                ids.update(dict.fromkeys(entry.ids))
                seq = entry_seq
        return list(ids), seq

    def _index(self, target: ActiveIndex, ids: Sequence[str]) -> None:
        """Brings the view up to date with these memories. Raises MissingVectorError."""
        recomputes = isinstance(self._phase, ViewReplacement) and self._phase.recomputes
        wanted, unwanted = self._texts.look_up(ids, target.embedder, recomputes=recomputes)
        for number in unwanted:
            target.drop(number)
        fresh = self._texts.compute(wanted, target.embedder, recomputes=recomputes)
        for row in wanted:
            new = fresh.get(row.text_hash)
            if not row.has_tokens and (new is None or new.tokens is None):
                self.tokens.revisit(row.number)
            rows = row.known if row.known is not None else new.rows if new is not None else None
            if rows is None:
                continue
            current = target.view.vectors_of(row.number)
            rows = as_kept(rows)
            is_other = current is None or not np.array_equal(current, rows)
            if is_other:
                target.view.put(row.number, rows)
            if is_other or target.centroids.scope_of(row.number) != row.scope:
                target.centroids.put(row.number, row.scope, rows, current)
        # Stores the token counts that the budget of a recall needs, so that no recall has to count.
        columns = self._views.attributes
        uncounted = [row for row in wanted if not columns.tokens_of(row.number)]
        counts = target.embedder.count_tokens([row.content for row in uncounted])
        for row, tokens in zip(uncounted, counts, strict=True):
            columns.set_tokens(row.number, tokens, row.modified_at)
        self._texts.require_all(wanted, fresh)

    def _is_in_use(self, view: VectorIndex) -> bool:
        phase = self._phase
        is_ours = any(each is not None and each.view is view for each in (phase.active, phase.target))
        return is_ours and not self._inbox.is_closed

    def _save(self, *, unchanged_too: bool = False) -> bool:
        """Save the view that answers; return whether its files are up to date."""
        phase = self._phase
        is_unchanged = self._seq == self._saved.seq and not unchanged_too
        if self._store.lock_loss or not isinstance(phase, SingleView) or is_unchanged:
            return False
        seq = self._seq
        with contextlib.suppress(StoreError):
            try:
                view, position = phase.active.view, position_of(self._store, seq)
                view.save(self._folder, position, self._disk)
                phase.active.centroids.save(self._folder, view, position, self._disk)
            except OSError as error:
                log.warning("the vector view could not be saved: %s", error)
                return False
            self._saved.set(seq)
            return True
        return False
