"""The states of the vector indexer, and what it keeps next to them.

That is: requests of other threads, the position of its file, the texts without a vector, and the thread that builds a
graph.
"""

import functools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from mnemo_daemon.indexing.vectors.centroids import Centroids
from mnemo_daemon.models.embedding import Embedder, lower_thread_priority
from mnemo_daemon.thread_supervision import ThreadReport, ThreadSupervisor
from mnemo_store.disk import Disk
from mnemo_store.errors import ClosedStoreError
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.store import Commit

EXPRESS_MAX = 1024  # memories that may go before the backlog
EXPRESS_TOUCHED_MAX = 8  # a transaction that touches more is bulk work and takes its turn
ATTEMPTS = 10  # a second apart, to get a vector for a text from a model that gives NaN; then it is passed over
FAILED_AGAIN_SECONDS = 600.0  # after which what was passed over is tried again
GROW_AGAIN_SECONDS = 600.0  # after a graph that could not be built; searches stay exact meanwhile
SAVE_AFTER_CHANGES = 20_000
SAVE_AFTER_SECONDS = 300.0

Request = Literal["recompute", "row_ids_reset"]


class ActiveIndex(NamedTuple):
    """A view, the model whose vectors it holds, and the centroids of its vectors."""

    view: VectorIndex
    embedder: Embedder
    centroids: Centroids


@dataclass(frozen=True)
class NoModel:
    """No model has been loaded since the start: nothing answers by vectors."""

    active: None = None
    target: None = None


@dataclass(frozen=True)
class SingleView:
    """One view answers, and takes up what is written."""

    active: ActiveIndex

    @property
    def target(self) -> ActiveIndex:
        return self.active


@dataclass(frozen=True)
class ViewReplacement:
    """One view answers while another is filled, which takes over once it is whole: that of another model, or one whose
    vectors are all computed again."""

    active: ActiveIndex
    target: ActiveIndex
    recomputes: bool = False  # takes no vectors from the database


Phase = NoModel | SingleView | ViewReplacement


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
        self._is_notified = False  # since the thread began to look what there is to do

    def notify(self, request: Request | None = None) -> None:
        with self.wake:
            if request is not None:
                self.requests.add(request)
            self._is_notified = True
            self.wake.notify_all()

    def add_commit(self, commit: Commit) -> None:
        with self.wake:
            self.behind_since = self.behind_since or time.monotonic()
            if len(commit.touched) <= EXPRESS_TOUCHED_MAX:
                self._express.extend(touched.memory.id for touched in commit.touched if touched.memory)
            self.dropped.extend(touched.number for touched in commit.touched if touched.dropped)
            self.notify()

    def prioritise(self, ids: Iterable[str]) -> None:
        with self.wake:
            self._express.extend(ids)
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
        """Has the next look, or one right behind it, see everything that comes from here on."""
        self._is_notified = False

    def wait(self, seconds: float) -> None:
        """Returns when there is something new, or after so long."""
        with self.wake:
            self.wake.wait_for(lambda: self._is_notified or self.is_closed, seconds)

    def refuse_renewals(self) -> None:
        while self.renewals:
            self.renewals.popleft().set_exception(ClosedStoreError("the daemon is shutting down"))


class SavedPosition:
    """The change that the file of the view has applied."""

    def __init__(self) -> None:
        self.seq = 0
        self._at = time.monotonic()

    def set(self, seq: int) -> None:
        self.seq, self._at = seq, time.monotonic()

    def is_save_due(self, seq: int) -> bool:
        changes, waited = seq - self.seq, time.monotonic() - self._at
        return changes >= SAVE_AFTER_CHANGES or (changes > 0 and waited >= SAVE_AFTER_SECONDS)


class FailedTexts:
    """Texts for which the model gave no usable vector, by hash."""

    def __init__(self) -> None:
        self._attempts: Counter[bytes] = Counter()
        self._last_at = 0.0  # monotonic

    def add(self, digest: bytes) -> None:
        self._attempts[digest] += 1
        self._last_at = time.monotonic()

    def is_retried(self, digest: bytes) -> bool:
        return self._attempts[digest] < ATTEMPTS

    def forget_if_due(self) -> bool:
        """Forget all failures when it is time to try those texts again; return whether it was."""
        is_due = bool(self._attempts) and time.monotonic() - self._last_at >= FAILED_AGAIN_SECONDS
        if is_due:
            self._attempts.clear()
        return is_due


class GraphBuilder:
    """Builds the graph over a view's vectors, in a thread of its own: it takes minutes, in which new vectors still
    come in, and searches are exact."""

    def __init__(
        self, folder: Path, disk: Disk, is_wanted: Callable[[VectorIndex], bool], on_built: Callable[[], None]
    ) -> None:
        """is_wanted: whether the view is still in use."""
        self._folder = folder
        self._disk = disk
        self._is_wanted = is_wanted
        self._on_built = on_built
        self.supervisor: ThreadSupervisor | None = None  # of the graph that was begun last
        self.has_unsaved_graph = False

    def start_if_needed(self, view: VectorIndex) -> None:
        if view.needs_index() and not self.is_running():
            build = functools.partial(self._build, view)
            self.supervisor = ThreadSupervisor("mnemo-graph", build, pause_seconds=GROW_AGAIN_SECONDS)
            self.supervisor.start()

    def is_running(self) -> bool:
        return self.supervisor is not None and self.supervisor.is_alive()

    def abandon(self) -> None:
        """Builds for a view that is no more: the thread soon sees that."""
        if self.supervisor is not None:
            self.supervisor.stop(None)
        self.has_unsaved_graph = False

    def stop(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()

    def report(self) -> ThreadReport | None:
        return None if self.supervisor is None else self.supervisor.report()

    def reason(self, view: VectorIndex) -> str:
        """The reason why searches of the view are exact; "" where they go by a graph, or need none."""
        report = self.report()
        if report is not None and report.is_failing:
            return f"the graph over the vectors could not be built, searches are exact: {report.last_failure}"
        if self.is_running() or view.needs_index():
            return "the graph over the vectors is being built: searches are exact until then"
        return ""

    def _build(self, view: VectorIndex) -> None:
        lower_thread_priority()
        if self._is_wanted(view):
            view.build_index(self._folder, self._disk, lambda: not self._is_wanted(view))
            self.has_unsaved_graph = True
        if self.supervisor is not None:
            self.supervisor.note_success()
        self._on_built()
