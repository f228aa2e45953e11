"""The daemon: the order in which its services are opened, its background threads, and its end. SPEC 1, 13, 16

The socket is bound before anything is loaded (`__main__`). `open` then runs on a thread and opens the store and the
lexical index, which suffice to answer questions. The model, the vectors, the notes and the jobs follow on threads of
their own.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

from mnemo_daemon.errors import ModelError
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_daemon.priority import MachineLoad, WaitReason
from mnemo_daemon.scheduler import Job, JobReport, Scheduler
from mnemo_daemon.services import Services
from mnemo_daemon.settings import Configuration
from mnemo_daemon.thread_supervision import ThreadSupervisor
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.store import Store

log = logging.getLogger("mnemo.daemon")


class Daemon:
    """The services and the threads that drive them. `open` before use, `close` at the end."""

    def __init__(
        self, configuration: Configuration, disk: Disk | None = None, *, open_store: Callable[..., Store] = Store.open,
        make_notes: Callable[..., NotesService] = NotesService,
        make_jobs: Callable[[Services], Sequence[Job]] = jobs_of,
    ) -> None:  # fmt: skip
        self.services = Services(configuration, disk or Disk(), open_store, make_notes)
        self.scheduler: Scheduler | None = None  # once the store is open
        self._make_jobs = make_jobs
        self._loop = asyncio.get_running_loop()
        self._machine = MachineLoad()
        self._opener: threading.Thread | None = None
        self._starter = ThreadSupervisor("mnemo-start", self._start_background)
        self._jobs = ThreadSupervisor("mnemo-house", self._run_jobs)

    def start_opening(self) -> None:
        """Begin opening on a thread; `Services.wait_until_open` waits for it."""
        self._opener = threading.Thread(target=self._open_and_report, name="mnemo-open", daemon=True)
        self._opener.start()

    def open(self) -> None:
        """Open everything that answers by words, then start what runs in the background."""
        began = time.monotonic()
        services = self.services
        services.open()
        log.info("open after %.2f s: %d changes", time.monotonic() - began, services.store.seq)
        self.scheduler = Scheduler(
            self._make_jobs(services),
            yield_to_queries=services.priority.yield_to_queries,
            reason_to_wait=self._reason_to_wait,
            wall_ms=services.store.now,
        )
        self._starter.start()
        self._jobs.start()

    def reconfigure(self, configuration: Configuration) -> None:
        """Use other settings from here on; those that wait for the next start are not among them."""
        services = self.services
        before, services.configuration = services.settings, configuration
        logging.getLogger().setLevel(services.settings.daemon.log_level.upper())
        if services.is_open and services.settings.notes != before.notes:
            services.notes.reconfigure(services.settings.notes)

    def close(self) -> None:
        """Finish, save and close everything. Safe to call when opening failed."""
        services = self.services
        services.closing.set()
        if services.is_open:
            services.erasure.stop()
        if self._opener is not None:
            self._opener.join(10.0)
        if self.scheduler is not None:
            self.scheduler.stop()
        self._starter.stop()
        self._jobs.stop()
        services.close()

    def supervisors(self) -> list[ThreadSupervisor]:
        """Return the supervisor of every background thread that was started."""
        services = self.services
        if not services.is_open:
            return []
        return [self._starter, self._jobs, *services.indexing.supervisors(), services.notes.supervisor]

    def job_reports(self) -> list[JobReport]:
        """Every job and how it stands; none before the store is open."""
        return self.scheduler.reports() if self.scheduler is not None else []

    def _open_and_report(self) -> None:
        """Open, and let those who wait know, whatever happens: nobody waits for a thread that is gone."""
        try:
            self.open()
        except (StoreError, OSError) as error:
            log.error("the store could not be opened: %s", error)
            self._abort_opening(error)
        except Exception as error:
            log.exception("the store could not be opened")
            self._abort_opening(error)
        self._loop.call_soon_threadsafe(self.services.has_settled.set)

    def _abort_opening(self, error: Exception) -> None:
        """Close what was opened, and have the daemon end and say why."""
        self.services.failure = error
        if hasattr(self.services, "store"):
            self.services.store.close()
        self.services.request_stop()

    def _start_background(self) -> None:
        """Start the model, the vectors and the notes: none of them holds up an answer by words."""
        services = self.services
        services.notes.start()
        services.indexing.start()  # also without a model: one that is installed later is used at once
        chosen = services.chosen_model("embedding")
        try:
            if chosen:
                services.embedding.use(chosen)
            else:
                services.embedding.refresh()
        except ModelError as error:
            log.warning("%s, which was in use, cannot be loaded: %s", chosen, error)
            services.embedding.refresh()
        self._starter.note_success()

    def _run_jobs(self) -> None:
        assert self.scheduler is not None, "the thread is started when it is there"
        self.scheduler.run()

    def _reason_to_wait(self) -> WaitReason | None:
        jobs = self.services.settings.jobs
        return self._machine.reason_to_wait(waits_on_battery=jobs.on_battery == "wait", busy_percent=jobs.busy_percent)
