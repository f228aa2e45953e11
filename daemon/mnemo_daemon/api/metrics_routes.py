"""GET /metrics: metrics of the daemon in the text format of Prometheus. SPEC 13

The values of labels are states, names of the daemon's own parts, and templates of routes: never a text, a namespace, a
path or anything else that a person or program wrote.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import DaemonState
from mnemo_client.protocol.status import StatusAnswer
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.scheduler import JobCondition, JobReport
from mnemo_daemon.server.exposition import CONTENT_TYPE, Exposition
from mnemo_daemon.server.request_metrics import BUCKETS, RequestMetrics
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services

MODEL_STATES = ("absent", "loading", "ready", "failed")
VIEW_STATES = ("ready", "building", "catching_up", "stale", "off")


class MetricsApi(Resource):
    """The handler."""

    def __init__(self, services: Services, workers: WorkerPool, report: StatusReport) -> None:
        super().__init__(services, workers)
        self._report = report

    @handles(operations.METRICS)
    async def metrics(self, _: Request) -> Reply:
        page = await self._workers.run(self._page)
        _write_requests(page, self._services.requests)
        return Reply(page.encode(), headers={"Content-Type": CONTENT_TYPE})

    def _page(self) -> Exposition:
        page = Exposition()
        status = self._report.status()
        _write_daemon(page, status)
        _write_store(page, status)
        _write_views(page, status)
        _write_jobs(page, self._report.job_reports())
        return page


def _write_daemon(page: Exposition, status: StatusAnswer) -> None:
    page.family("mnemo_build_info", "gauge", "Version of the daemon; always 1.", [({"version": status.version}, 1)])
    page.gauge("mnemo_uptime_seconds", "Seconds since the daemon started.", status.uptime_seconds)
    page.family("mnemo_state", "gauge", "1 for the state that the daemon is in.", [
        ({"state": state}, state == status.state) for state in get_args(DaemonState)
    ])  # fmt: skip
    page.gauge("mnemo_resident_memory_bytes", "Resident memory of the daemon.", _resident_bytes())
    page.gauge("mnemo_private_memory_bytes", "Memory that is the daemon's alone.", status.memory_private_bytes)
    page.family("mnemo_model_state", "gauge", "1 for the state that a model is in.", [
        ({"role": role, "state": state}, state == model.state)
        for role, model in sorted(status.models.items()) for state in MODEL_STATES
    ])  # fmt: skip
    page.gauge("mnemo_threads_failing", "Background threads that fail again and again.",
               sum(thread.failing for thread in status.threads.values()))  # fmt: skip
    page.family("mnemo_thread_restarts_total", "counter", "Restarts of background threads after a failure.",
                [({}, sum(thread.restarts for thread in status.threads.values()))])  # fmt: skip


def _write_store(page: Exposition, status: StatusAnswer) -> None:
    page.family("mnemo_memories", "gauge", "Memories by state.",
                [({"state": state}, number) for state, number in sorted(status.by_state.items())])  # fmt: skip
    page.gauge("mnemo_namespaces", "Namespaces that have memories.", len(status.namespaces))
    page.gauge("mnemo_trash_bytes", "Bytes of the texts in the trash.", status.trash["bytes"])
    page.family("mnemo_changes_total", "counter", "Changes that the store has made since it was created.",
                [({}, status.seq)])  # fmt: skip
    page.family("mnemo_disk_bytes", "gauge", "Bytes on the disk by part; free: what the disk has left.",
                [({"part": part}, size) for part, size in sorted(status.disk.items())])  # fmt: skip
    page.family("mnemo_queue_length", "gauge", "Writes and memories without a vector that wait.",
                [({"queue": queue}, length) for queue, length in sorted(status.queue.items())])  # fmt: skip
    page.gauge("mnemo_notes_folders", "Watched folders of notes.", len(status.notes.roots))


def _write_views(page: Exposition, status: StatusAnswer) -> None:
    views = sorted(status.views.items())
    page.family("mnemo_view_state", "gauge", "1 for the state that an index is in.", [
        ({"view": name, "state": state}, state == view.state) for name, view in views for state in VIEW_STATES
    ])  # fmt: skip
    for name, help_text, field in (
        ("mnemo_view_items", "Items of an index.", "items"),
        ("mnemo_view_lag_changes", "Changes of the store that an index has not applied.", "lag"),
        ("mnemo_view_lag_seconds", "Age of the oldest change that an index has not applied.", "lag_seconds"),
        ("mnemo_view_progress_ratio", "Share of its memories that an index has.", "share"),
    ):
        page.family(name, "gauge", help_text, [({"view": view}, getattr(each, field)) for view, each in views])


def _write_jobs(page: Exposition, reports: Sequence[JobReport]) -> None:
    jobs = [(each.job.name, each) for each in reports]
    page.family("mnemo_job_runs_total", "counter", "Runs of a background job that were finished.",
                [({"job": name}, each.state.runs) for name, each in jobs])  # fmt: skip
    page.family("mnemo_job_slices_total", "counter", "Slices of a background job that were done.",
                [({"job": name}, each.state.slices) for name, each in jobs])  # fmt: skip
    page.family("mnemo_job_failures", "gauge", "Failures of a background job in a row.",
                [({"job": name}, each.state.failures) for name, each in jobs])  # fmt: skip
    page.family("mnemo_job_condition", "gauge", "1 for the condition that a background job is in.",
                [({"job": name, "condition": condition}, condition == each.condition)
                 for name, each in jobs for condition in get_args(JobCondition)])  # fmt: skip


def _write_requests(page: Exposition, requests: RequestMetrics) -> None:
    page.gauge("mnemo_http_requests_in_flight", "Requests under way, this one included.", requests.in_flight)
    page.histogram("mnemo_http_request_duration_seconds", "Time from the head of a request to its answer.", BUCKETS, [
        ({"method": series.method, "route": series.route, "status": str(series.status)}, found.numbers, found.seconds)
        for series, found in sorted(requests.durations.items())
    ])  # fmt: skip


def _resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
