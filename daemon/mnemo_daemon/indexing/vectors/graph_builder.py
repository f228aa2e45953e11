"""The thread that builds the graph over the vectors of a view."""

import functools
from collections.abc import Callable
from pathlib import Path

from mnemo_daemon.models.embedders.embedding import lower_thread_priority
from mnemo_daemon.thread_supervision import ThreadReport, ThreadSupervisor
from mnemo_store.disk import Disk
from mnemo_store.indexes.vectors import VectorIndex

RETRY_SECONDS = 600.0  # after a graph that could not be built; searches stay exact meanwhile


class GraphBuilder:
    """Builds the graph over a view's vectors in a thread of its own: it takes minutes, in which the view still takes
    new vectors, and searches are exact."""

    def __init__(
        self, folder: Path, disk: Disk, is_wanted: Callable[[VectorIndex], bool], on_built: Callable[[], None]
    ) -> None:
        """is_wanted: whether the view is still in use."""
        self._folder = folder
        self._disk = disk
        self._is_wanted = is_wanted
        self._on_built = on_built
        self.supervisor: ThreadSupervisor | None = None  # of the last graph
        self.has_unsaved_graph = False

    def start_if_needed(self, view: VectorIndex) -> None:
        if view.needs_index() and not self.is_running():
            build = functools.partial(self._build, view)
            self.supervisor = ThreadSupervisor("mnemo-graph", build, pause_seconds=RETRY_SECONDS)
            self.supervisor.start()

    def is_running(self) -> bool:
        return self.supervisor is not None and self.supervisor.is_alive()

    def abandon(self) -> None:
        """Has a thread that builds for a view that was replaced end soon."""
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
