"""The daemon put together: what is opened, in which order, what runs beside, and how it ends. SPEC 1, 13, 14, 16.

The socket is bound before anything is loaded (`__main__`). `open` then runs on a thread: the store, columns and words,
which answer questions; the model, the vectors and the notes come behind, each in threads of its own.
"""

import asyncio
import contextlib
import importlib.metadata
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mnemo_client.protocol.choices import DaemonState
from mnemo_client.protocol.status import (
    CatalogueModel,
    ModelsAnswer,
    ModelStatus,
    NotesRootStatus,
    NotesStatus,
    ReindexAnswer,
    ReindexRequest,
    StatusAnswer,
    ThreadStatus,
)
from mnemo_daemon import allocator
from mnemo_daemon.api import wire_codec
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.registry import BACKGROUND_INDEXES
from mnemo_daemon.indexing.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline
from mnemo_daemon.ingest.scoring_backfill import ScoringBackfill
from mnemo_daemon.lifecycle.erasure import Erasure
from mnemo_daemon.lifecycle.trash import Trash
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.models.catalogue import ModelCatalogue, ModelError
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.models.embedding import EmbeddingService
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.retrieval.recall import Recall
from mnemo_daemon.retrieval.usage_recorder import UsageRecorder
from mnemo_daemon.settings import Configuration, NotesSettings, Settings
from mnemo_daemon.thread_supervision import ThreadReport, ThreadSupervisor
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.records import STATES, PutMeta
from mnemo_store.store import Store, WriteResult

HOUSEKEEPING_SECONDS = 1.0
MODEL_IN_USE = "embedding_model"  # the fact of the store that names the model a person chose
RENEWAL_SECONDS_MAX = 60.0  # how long the views are waited for when they are built for another state
RENEWAL_POLL_SECONDS = 0.02
REFRESH_SECONDS = 3.0  # between two looks whether a model has been installed

log = logging.getLogger("mnemo.daemon")


class Daemon:
    """Every part by its name. `open` before use, `close` at the end."""

    store: Store
    views: Views
    indexing: VectorIndexer
    memories: MemoryService
    ingest: IngestPipeline
    scoring_backfill: ScoringBackfill
    recall: Recall
    usage: UsageRecorder
    notes: NotesService
    maintenance: StoreMaintenance
    trash: Trash
    erasure: Erasure
    mask_key: bytes

    def __init__(
        self,
        configuration: Configuration,
        disk: Disk | None = None,
        *,
        open_store: Callable[..., Store] = Store.open,
        make_notes: Callable[[Store, NotesSettings], NotesService] = NotesService,
    ) -> None:
        self.configuration = configuration
        self.version = importlib.metadata.version("mnemod")
        self.started_at = time.time_ns() // 1_000_000
        self.catalogue = ModelCatalogue(configuration.folders.models)
        models = configuration.settings.models
        self.priority = QueryPriority()
        self.embedding = EmbeddingService(
            self.catalogue, threads=models.threads, late=models.late_interaction,
            give_way=self.priority.yield_to_queries,
            numerics=models.numerics,
        )  # fmt: skip
        self.cross_encoder = CrossEncoderService(self.catalogue, models.reranker)
        self.failure: Exception | None = None  # why it could not be opened
        self.stopped = asyncio.Event()
        self.disk = disk or Disk()
        self._open_store = open_store
        self._make_notes = make_notes
        self._loop = asyncio.get_running_loop()
        self._opened = asyncio.Event()
        self._is_open = False
        self._closing = threading.Event()
        self._opener: threading.Thread | None = None
        self._starter = ThreadSupervisor("mnemo-start", self._start_background)
        self._housekeeper = ThreadSupervisor("mnemo-house", self._keep_house)
        self._chores: deque[Callable[[], object]] = deque()  # the one that is next comes first
        self._refreshed = time.monotonic()  # when it was last looked whether a model has been installed
        self._trash_size_at: tuple[int, dict[str, int]] = (-1, {"count": 0, "bytes": 0})  # by seq

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    def start_opening(self) -> None:
        """Begins opening on a thread; `opened` waits for it."""
        self._opener = threading.Thread(target=self._open_and_report, name="mnemo-open", daemon=True)
        self._opener.start()

    async def wait_until_open(self) -> None:
        """Returns once store, columns and words are there, and no reader has to wait. Raises what kept them from
        opening."""
        if self._is_open and self.store.is_blocked:
            await asyncio.to_thread(self.store.wait_until_open)
        if not self._is_open:
            await self._opened.wait()
            if self.failure is not None:
                raise Refusal(503, "degraded", f"the store could not be opened: {self.failure}")

    def open(self) -> None:
        """Opens everything that answers by words, then starts what comes behind."""
        began = time.monotonic()
        self.store = self._open_store(self.configuration.folders.data, disk=self.disk)
        self.mask_key = self._mask_key()
        self.views = Views(self.store, self.disk)
        self.views.open()
        self.indexing = VectorIndexer(self.store, self.views, self.embedding, self.disk, self.priority.yield_to_queries)
        self.memories = MemoryService(self.store, self.views)
        self.ingest = IngestPipeline(
            self.store,
            self.views,
            self.indexing,
            self.embedding,
            self.memories,
            lambda: self.settings,
            self.priority.yield_to_queries,
        )
        self.scoring_backfill = ScoringBackfill(self.store, self.ingest.neighbours, self.ingest.profile)
        self.indexing.next_work, self.memories.on_scored = (
            self.scoring_backfill.run_slice,
            self.scoring_backfill.mark_scored,
        )
        self.recall = Recall(self.store, self.views, self.indexing, self.embedding, self.cross_encoder)
        self.recall.is_reading_notes = lambda: self.notes.is_first_scan_running()
        self.usage = UsageRecorder(self.memories)
        self.maintenance = StoreMaintenance(self.store, self.disk, self.embedding.spaces)
        self.trash = Trash(self.store, self.views)
        self.erasure = Erasure(self.store, self.disk, self.embedding.spaces, self._purge_views)
        self.notes = self._make_notes(self.store, self.settings.notes)
        self.notes.on_saved = self.indexing.prioritise
        self._is_open = True
        log.info("open after %.2f s: %d changes", time.monotonic() - began, self.store.seq)
        self._chores.extend(self._all_chores())
        self._start_threads()

    def on_store_replaced(self) -> None:
        """After the store has taken over a whole stream: returns once views and notes go by what it holds now."""
        self.store.run_exclusively(
            lambda _: None
        ).result()  # begun after the writer has told the views that numbers changed
        deadline = time.monotonic() + RENEWAL_SECONDS_MAX
        while self.views.state != "ready" and time.monotonic() < deadline:
            if self._closing.wait(RENEWAL_POLL_SECONDS):
                return
        self.mask_key = self._mask_key()
        self.notes.stop()
        self.notes = self._make_notes(self.store, self.settings.notes)
        self.notes.on_saved = self.indexing.prioritise
        self.notes.start()

    def reconfigure(self, configuration: Configuration) -> None:
        """Uses other settings from here on; those that wait for the next start are not among them."""
        before, self.configuration = self.settings, configuration
        logging.getLogger().setLevel(self.settings.daemon.log_level.upper())
        if self._is_open and self.settings.notes != before.notes:
            self.notes.reconfigure(self.settings.notes)

    def request_stop(self) -> None:
        """Has the server stop once what was begun is answered."""
        self._loop.call_soon_threadsafe(self.stopped.set)

    def close(self) -> None:
        """Everything finished, saved and closed. Safe to call when opening failed."""
        self._closing.set()
        if self._is_open:
            self.erasure.stop()
        if self._opener is not None:
            self._opener.join(10.0)
        self._starter.stop()
        self._housekeeper.stop()
        if self._is_open:
            self.notes.stop()
            self.usage.write_if_due(now=True)
            self.recall.close()
            self.ingest.close()
            self.indexing.stop()
            self.views.save()
            self.store.close()
        self.embedding.close()

    def state(self) -> tuple[DaemonState, list[str]]:
        """`warming` until words and vectors answer, `degraded` when something is out of order; and why."""
        if not self._is_open:
            return "warming", ["opening the store"]
        reasons = list(filter(None, [self.store.degraded, self.store.write_obstacle, *self.store.data_losses]))
        if not (self.store.folder / "db" / "data.mdb").exists():
            reasons.append("the database was removed while in use: the next start restores it from the journal")
        if self.views.state == "stale":
            reasons.append(f"words and columns are rebuilt: {self.views.reason}")
        if self.erasure.pending:
            reasons.append(f"files still hold traces of forgotten memories: {self.erasure.pending}")
        reasons += [
            f"a background thread fails and is restarted again and again: {each.name}: {each.last_failure}"
            for each in self.thread_reports()
            if each.is_failing
        ]
        model = self.embedding.status()
        if model.state == "failed":
            reasons.append(f"embedding model: {model.reason}")
        if self.cross_encoder.failure:
            reasons.append(f"reranker: {self.cross_encoder.failure}")
        if reasons:
            return "degraded", [*reasons, *self.store.recovered]
        state, why = self._readiness(model)
        return state, [*why, *self.store.recovered]

    def _readiness(self, model: ModelStatus) -> tuple[DaemonState, list[str]]:
        """With nothing out of order."""
        if model.state == "absent":
            return "degraded", [f"no embedding model: answers are by words alone; {model.hint}"]
        if model.state == "loading" or self.indexing.serving() is None:
            return "warming", ["the embedding model is loading: answers are by words alone"]
        waiting = self.indexing.waiting()
        if waiting:
            cause = f": {self.indexing.refill_cause}" if self.indexing.refill_cause else ""
            count = "1 memory waits for its vector" if waiting == 1 else f"{waiting} memories wait for their vectors"
            return "warming", [f"{count}{cause}"]
        return "ready", []

    def is_sound(self) -> bool:
        """Whether nothing is out of order. A missing model is no fault: answers are by words then."""
        return self.failure is None and not (self._is_open and (self.problem() or self.store.data_losses))

    def problem(self) -> str:
        """Why the store is not what it should be at this moment; "" when it is."""
        return (self.store.degraded or self.store.write_obstacle) if self._is_open else ""

    def status(self) -> StatusAnswer:
        state, reasons = self.state()
        folders = self.configuration.folders
        status = StatusAnswer(
            state=state, reasons=reasons, version=self.version, pid=os.getpid(), started_at=self.started_at,
            data_dir=str(folders.data), socket=str(folders.socket), memories=0, by_state={}, namespaces={},
            trash={"count": 0, "bytes": 0}, seq=0, models=self._model_statuses(), views={},
            notes=NotesStatus(roots=[]), queue={"writes": 0, "vectors": 0}, disk={},
            memory_private_bytes=_private_bytes(),
            uptime_seconds=round(time.time() - self.started_at / 1000, 1),
        )  # fmt: skip
        if self._is_open:
            self._fill(status)
        return status

    def thread_reports(self) -> list[ThreadReport]:
        """Of every background thread that was started."""
        own = [self._starter.report(), self._housekeeper.report()]
        return [*own, *self.indexing.thread_reports(), self.notes.supervisor.report()] if self._is_open else []

    def root_paths(self) -> dict[str, str]:
        """The folders of notes by their ids."""
        return self.notes.root_paths()

    def list_models(self) -> ModelsAnswer:
        """The catalogue: what is installed, and what of it is in use."""
        statuses = self._model_statuses()
        models = [
            CatalogueModel(
                name=entry.name, role=entry.role, bytes=entry.bytes, licence=entry.licence, sha256=entry.sha256,
                sources=list(entry.sources), installed=entry.installed, dimensions=entry.dimensions,
                in_use=entry.name in (statuses["embedding"].name, statuses["llm"].name, self.cross_encoder.name),
                path=entry.path,
            )
            for entry in self.catalogue.listing()
        ]  # fmt: skip
        return ModelsAnswer(models=models, embedding=statuses["embedding"], llm=statuses["llm"])

    def use_model(self, name: str) -> None:
        """Switches to an installed embedding model for good; its vectors are filled beside the old ones. SPEC 4.4"""
        name = self.embedding.require_usable(name)
        change = PutMeta(name=MODEL_IN_USE, value=name)
        self.store.transact(lambda _: WriteResult((change,), None, "models use"), by="models").result()
        self.embedding.use(name)

    def reindex(self, asked: ReindexRequest) -> ReindexAnswer:
        """Has vectors computed: those that are missing, with `force` all of them."""
        serving, waiting = self.indexing.serving(), self.indexing.waiting()
        total = self.indexing.eligible()
        if not asked.dry_run:
            self.indexing.reindex(anew=asked.force, batch=asked.batch_size)
        return ReindexAnswer(
            total=total, with_vectors=total - waiting, queued=total if asked.force else waiting,
            dimensions=serving.embedder.dimensions if serving else None, dry_run=asked.dry_run,
        )  # fmt: skip

    def notes_status(self) -> NotesStatus:
        return self.notes.status()

    def add_root(self, path: str, namespace: str) -> NotesRootStatus:
        root = self.notes.add_root(path, namespace)
        return next(row for row in self.notes.status().roots if row.id == root.id)

    def remove_root(self, which: str) -> list[str]:
        return self.notes.remove_root(which)

    def _fill(self, status: StatusAnswer) -> None:
        columns, seq, now = self.views.attributes, self.store.seq, time.monotonic()
        status.memories = columns.count_states(("active", "archived"))
        status.by_state = {state: n for state in STATES if (n := columns.count_states((state,)))}
        status.namespaces = columns.count_by("namespace")
        status.trash = self._trash_size()
        status.seq = seq
        background = {entry.name: entry.of(self.indexing).progress() for entry in BACKGROUND_INDEXES}
        progress = self.views.progress() | {name: each for name, each in background.items() if each is not None}
        status.views = {name: wire_codec.view_status(each, seq, now) for name, each in progress.items()}
        status.notes = self.notes.status()
        status.threads = {
            each.name: ThreadStatus(
                failing=each.is_failing, restarts=each.restarts, last_failure=each.last_failure or None,
                failed_at=each.failed_at or None,
            )
            for each in self.thread_reports()
        }  # fmt: skip
        waiting = self.indexing.waiting() or (
            self.scoring_backfill.waiting() if self.indexing.serving() is not None else 0
        )
        status.queue = {"writes": self.store.queue_length(), "vectors": waiting}
        with contextlib.suppress(FileNotFoundError):  # removed under the daemon's feet, which `state` tells
            status.disk = self.store.disk_bytes()
        status.disk = {**status.disk, "views": _folder_bytes(self.store.folder / "views")}

    def _trash_size(self) -> dict[str, int]:
        """Memories in the trash and the bytes of their texts; counted anew when the store has changed."""
        seq = self.store.seq
        if self._trash_size_at[0] != seq:
            count = size = 0
            after = ""
            while True:
                with self.store.snapshot() as snapshot:
                    entries = snapshot.trash_entries(after, 500)
                    memories = [snapshot.memory(entry.id) for entry in entries]
                trashed = [memory for memory in memories if memory is not None and memory.state == "trashed"]
                count += len(trashed)
                size += sum(len(memory.content.encode()) for memory in trashed)
                if len(entries) < 500:
                    break
                after = entries[-1].id
            self._trash_size_at = (seq, {"count": count, "bytes": size})
        return self._trash_size_at[1]

    def _model_statuses(self) -> dict[str, ModelStatus]:
        return {
            "embedding": self.embedding.status(),
            "llm": ModelStatus(name=None, state="absent", reason="no language model is in use yet"),
        }

    def _mask_key(self) -> bytes:
        with self.store.snapshot() as snapshot:
            return bytes.fromhex(snapshot.meta("salt"))

    def _open_and_report(self) -> None:
        """Those who wait in `opened` get to know, whatever happens: nobody waits for a thread that is gone."""
        try:
            self.open()
        except (StoreError, OSError) as error:
            log.error("the store could not be opened: %s", error)
            self._abort_opening(error)
        except Exception as error:
            log.exception("the store could not be opened")
            self._abort_opening(error)
        self._loop.call_soon_threadsafe(self._opened.set)

    def _abort_opening(self, error: Exception) -> None:
        """What was opened is closed again, and the daemon ends and says why."""
        self.failure = error
        if hasattr(self, "store"):
            self.store.close()
        self.request_stop()

    def _start_background(self) -> None:
        """The model, the vectors, the notes: none of them holds up an answer by words."""
        self.notes.start()
        self.indexing.start()  # whatever becomes of the model, whoever installs one later finds this running
        with self.store.snapshot() as snapshot:
            chosen = snapshot.meta(MODEL_IN_USE)
        try:
            if chosen:
                self.embedding.use(chosen)
            else:
                self.embedding.refresh()
        except ModelError as error:
            log.warning("%s, which was in use, cannot be loaded: %s", chosen, error)
            self.embedding.refresh()
        self._starter.note_success()

    def _all_chores(self) -> list[Callable[[], object]]:
        """What is due now and then: touches written, views saved, a broken view rebuilt, what was forgotten or lies in
        the trash for too long removed, a new model noticed, freed memory given back."""
        return [
            self.usage.write_if_due,
            self.cross_encoder.unload_if_idle,
            lambda: allocator.trim(if_due=True),
            lambda: self.views.rebuild() if self.views.state == "stale" else None,
            self.views.save_if_due,
            self.erasure.resume_if_due,
            lambda: self.trash.delete_expired_if_due(self.settings.trash.keep_days),
            self._refresh_model_if_due,
        ]

    def _keep_house(self) -> None:
        """Begins each round with the chore behind the one that failed last, so that none keeps the others from their
        turn."""
        while not self._closing.wait(HOUSEKEEPING_SECONDS):
            for _ in range(len(self._chores)):
                chore = self._chores[0]
                self._chores.rotate(-1)
                try:
                    chore()
                except (StoreError, OSError) as error:
                    log.warning("housekeeping: %s", error)
            self._housekeeper.note_success()

    def _refresh_model_if_due(self) -> None:
        if time.monotonic() - self._refreshed >= REFRESH_SECONDS and self.embedding.status().state == "absent":
            self._refreshed = time.monotonic()
            self.embedding.refresh()

    def _purge_views(self) -> None:
        """Nothing of what was dropped is left in views, their files and caches."""
        self.views.rebuild_without_deleted()
        self.indexing.rebuild_without_deleted()
        self.embedding.clear_query_cache()
        self.ingest.clear_caches()
        self.recall.clear_caches()

    def _start_threads(self) -> None:
        self._starter.start()
        self._housekeeper.start()


def _private_bytes() -> int:
    """Memory that is this process's alone and cannot be given back by reading a file again; 0 where nobody tells."""
    try:
        text = Path("/proc/self/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(kib) for kib in re.findall(r"^Private_Dirty:\s+(\d+) kB", text, re.MULTILINE))


def _folder_bytes(folder: Path) -> int:
    """Of the files in it. One that is just being replaced may be missing from the sum."""
    size = 0
    for path in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
