"""The state of the daemon and its parts, as `/v1/health`, `/v1/status` and `/v1/models` answer it. SPEC 13, 16"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mnemo_client.protocol.choices import DaemonState
from mnemo_client.protocol.lifecycle import CycleView
from mnemo_client.protocol.status import (
    CatalogueModel,
    LifecycleStatus,
    ModelsAnswer,
    ModelStatus,
    NetworkStatus,
    NotesStatus,
    SiteGrade,
    StatusAnswer,
    ThreadStatus,
    ViewStatus,
)
from mnemo_client.version import VERSION
from mnemo_daemon.api.notes_routes import status_of_notes
from mnemo_daemon.api.response_codec import cycle_view, view_status
from mnemo_daemon.models.catalogue import ModelListing
from mnemo_daemon.models.embedders.calibration import is_calibrated
from mnemo_daemon.scheduler import JobReport
from mnemo_daemon.server.network_filter import NetworkBlock
from mnemo_daemon.services import Services
from mnemo_daemon.thread_supervision import ThreadReport
from mnemo_store.disk import file_size
from mnemo_store.errors import StoreError
from mnemo_store.records import STATES


class StatusReport:
    """The report. Any thread may ask for it."""

    def __init__(
        self,
        services: Services,
        thread_reports: Callable[[], Sequence[ThreadReport]],
        job_reports: Callable[[], Sequence[JobReport]],
        network: NetworkBlock | None = None,
    ) -> None:
        self.version = VERSION
        self._services = services
        self._thread_reports = thread_reports
        self.job_reports = job_reports
        self._network = (
            None if network is None else NetworkStatus(blocked=network.is_blocked, reason=network.reason or None)
        )
        self._started_at = time.time_ns() // 1_000_000
        self._trash_size_at: tuple[int, dict[str, int]] = (-1, {"count": 0, "bytes": 0})  # by seq

    def state(self) -> tuple[DaemonState, list[str]]:
        """`warming` until words and vectors answer, `degraded` when something is out of order; and why."""
        services = self._services
        if not services.is_open:
            return "warming", ["opening the store"]
        reasons = list(
            filter(None, [services.store.degraded, services.store.write_obstacle, *services.store.data_losses])
        )
        if not (services.store.folder / "db" / "data.mdb").exists():
            reasons.append("the database was removed while in use: the next start restores it from the journal")
        if services.views.state == "stale":
            reasons.append(f"words and columns are rebuilt: {services.views.reason}")
        if services.erasure.pending:
            reasons.append(f"files still hold traces of forgotten memories: {services.erasure.pending}")
        reasons += [
            f"a background thread fails and is restarted again and again: {each.name}: {each.last_failure}"
            for each in self._thread_reports()
            if each.is_failing
        ]
        reasons += [
            f"a background job fails and is tried again and again: {each.job.name}: {each.state.last_failure}"
            for each in self.job_reports()
            if each.condition == "failing" and each.state.is_unexpected
        ]
        model = services.embedding.status()
        if model.state == "failed":
            reasons.append(f"embedding model: {model.reason}")
        if services.cross_encoder.failure:
            reasons.append(f"reranker: {services.cross_encoder.failure}")
        if reasons:
            return "degraded", [*reasons, *services.store.recovered]
        state, why = self._readiness(model)
        return state, [*why, *services.store.recovered]

    def _readiness(self, model: ModelStatus) -> tuple[DaemonState, list[str]]:
        """The state while nothing is out of order."""
        services = self._services
        if model.state == "absent":
            return "degraded", [f"no embedding model: answers are by words alone; {model.hint}"]
        if model.state == "loading" or services.indexing.serving() is None:
            return "warming", ["the embedding model is loading: answers are by words alone"]
        waiting = services.indexing.waiting()
        if waiting:
            cause = f": {services.indexing.refill_cause}" if services.indexing.refill_cause else ""
            count = "1 memory waits for its vector" if waiting == 1 else f"{waiting} memories wait for their vectors"
            return "warming", [f"{count}{cause}"]
        return "ready", []

    def is_sound(self) -> bool:
        """Return whether nothing is out of order. A missing model is no fault: answers are by words then."""
        services = self._services
        return services.failure is None and not (
            services.is_open and (services.problem() or services.store.data_losses)
        )

    def status(self) -> StatusAnswer:
        services = self._services
        state, reasons = self.state()
        folders = services.configuration.folders
        status = StatusAnswer(
            state=state, reasons=reasons, version=self.version, pid=os.getpid(), started_at=self._started_at,
            data_dir=str(folders.data), socket=str(folders.socket), memories=0, by_state={}, namespaces={},
            trash={"count": 0, "bytes": 0}, seq=0, models=self._model_statuses(), views={},
            notes=NotesStatus(roots=[]), queue={"writes": 0, "vectors": 0}, disk={},
            memory_private_bytes=_private_bytes(),
            uptime_seconds=round(time.time() - self._started_at / 1000, 1), network=self._network,
        )  # fmt: skip
        if services.is_open:
            self._fill(status)
        return status

    def list_models(self) -> ModelsAnswer:
        """The catalogue: what is installed, and what of it is in use."""
        services = self._services
        statuses = self._model_statuses()
        in_use = {services.cross_encoder.name, *(status.name for status in statuses.values())}
        in_use |= {manifest.name for manifest in services.language_model.manifests().values()}
        models = [
            CatalogueModel(
                name=entry.name, role=entry.role, bytes=entry.bytes, licence=entry.licence, sha256=entry.sha256,
                sources=list(entry.sources), installed=entry.installed, dimensions=entry.dimensions,
                in_use=entry.name in in_use, path=entry.path, grades=self._grades(entry), languages=entry.languages,
                tokens_max=entry.tokens_max, calibrated=is_calibrated(entry, services.catalogue),
                verified=entry.verified if entry.installed else None,
            )
            for entry in services.catalogue.listing()
        ]  # fmt: skip
        return ModelsAnswer(models=models, embedding=statuses["embedding"], llm=statuses["llm"])

    def _grades(self, entry: ModelListing) -> list[SiteGrade]:
        manifest = self._services.catalogue.installed(entry.name) if entry.role == "llm" and entry.installed else None
        return [] if manifest is None else self._services.capability_probe.grades(manifest)

    def _fill(self, status: StatusAnswer) -> None:
        services = self._services
        columns, seq = services.views.attributes, services.store.seq
        status.memories = columns.count_states(("active", "archived"))
        status.by_state = {state: n for state in STATES if (n := columns.count_states((state,)))}
        status.namespaces = columns.count_by("namespace")
        status.trash = self._trash_size()
        status.seq = seq
        status.views = self.view_statuses()
        status.notes = status_of_notes(services)
        status.threads = {
            each.name: ThreadStatus(
                failing=each.is_failing, restarts=each.restarts, last_failure=each.last_failure or None,
                failed_at=each.failed_at or None,
            )
            for each in self._thread_reports()
        }  # fmt: skip
        status.queue = {
            "writes": services.store.queue_length(),
            "vectors": services.indexing.waiting(),
            "comparisons": services.scoring_backfill.waiting() if services.indexing.serving() is not None else 0,
        }
        status.lifecycle = self._lifecycle()
        with contextlib.suppress(FileNotFoundError):  # removed under the daemon's feet, which `state` tells
            status.disk = services.store.disk_bytes()
        with contextlib.suppress(StoreError):  # a database that is being recovered, which `state` tells
            status.sizes = services.store.part_bytes()
        views = {path.name: file_size(path) for path in sorted((services.store.folder / "views").glob("*"))}
        status.sizes |= {f"views/{name}": size for name, size in views.items()}
        status.disk = {**status.disk, "views": sum(views.values())}

    def view_statuses(self) -> dict[str, ViewStatus]:
        """The state of each index, by its name."""
        services = self._services
        background = {name: index.progress() for name, index in services.indexing.indexes.items()}
        progress = services.views.progress() | {name: each for name, each in background.items() if each is not None}
        seq, now = services.store.seq, time.monotonic()
        return {name: view_status(each, seq, now) for name, each in progress.items()}

    def last_cycle(self) -> CycleView | None:
        """The newest cycle of consolidation."""
        cycles, _ = self._services.consolidation.history(1, "")
        return cycle_view(cycles[0]) if cycles else None

    def _lifecycle(self) -> LifecycleStatus:
        reasons = {each.job.name: each.reason for each in self.job_reports()}
        proposals = self._services.consolidation.proposals.count()
        return LifecycleStatus(
            last_cycle=self.last_cycle(), reason=reasons.get("consolidation") or None, proposals=proposals
        )

    def _trash_size(self) -> dict[str, int]:
        """Memories in the trash and the bytes of their texts; counted again when the store has changed."""
        services = self._services
        seq = services.store.seq
        if self._trash_size_at[0] != seq:
            sizes = [len(memory.content.encode()) for memory, _ in services.trash.trashed()]
            self._trash_size_at = (seq, {"count": len(sizes), "bytes": sum(sizes)})
        return self._trash_size_at[1]

    def _model_statuses(self) -> dict[str, ModelStatus]:
        llm = self._services.language_model.status()
        if self._services.settings.llm.level == "off":
            llm = msgspec.structs.replace(llm, hint="no task asks it: `llm.level` is off")
        return {"embedding": self._services.embedding.status(), "llm": llm}


def _private_bytes() -> int:
    """Return the memory of this process alone, without what can be read again from files; 0 if it is not known."""
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(kib) for kib in re.findall(r"^Private_Dirty:\s+(\d+) kB", text, re.MULTILINE))
