"""The routes about the daemon itself: health, status, configuration, jobs, models, shutdown. SPEC 13."""

import os

from mnemo_client.protocol import operations
from mnemo_client.protocol.status import (
    ConfigAnswer,
    ConfigValue,
    HealthAnswer,
    JobsAnswer,
    JobStatus,
    LlmUsageAnswer,
    OperationView,
    ReindexAnswer,
    ReindexRequest,
    StatsAnswer,
)
from mnemo_daemon.api.request_codec import query_time
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.scheduler import JobReport, LongOperation, OperationProgress
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.times import parse_past_time


class DaemonApi(Resource):
    """The handlers."""

    def __init__(self, services: Services, workers: WorkerPool, report: StatusReport) -> None:
        super().__init__(services, workers)
        self._report = report

    @handles(operations.HEALTH)
    async def health(self, _: Request) -> Reply:
        state, _reasons = self._report.state()
        return Reply(HealthAnswer(ok=self._report.is_sound(), state=state, version=self._report.version))

    @handles(operations.STATUS)
    async def status(self, _: Request) -> Reply:
        return Reply(await self._workers.run(self._report.status))

    @handles(operations.CONFIG)
    async def config(self, _: Request) -> Reply:
        configuration = self._services.configuration
        values = [ConfigValue(key=row.key, value=row.value, origin=row.origin) for row in configuration.describe()]
        return Reply(ConfigAnswer(values=values, file=str(configuration.folders.config_file)))

    @handles(operations.JOBS)
    async def jobs(self, _: Request) -> Reply:
        last_cycle = await self._workers.run(self._report.last_cycle)
        return Reply(JobsAnswer(
            jobs=list(map(job_status, self._report.job_reports())), last_cycle=last_cycle,
            operations=list(map(operation_view, self._services.operations.progress())),
        ))  # fmt: skip

    @handles(operations.STATS)
    def stats(self, request: Request) -> StatsAnswer:
        return self._services.daily_values.answer(request.query.days)

    @handles(operations.LLM_USAGE)
    async def llm_usage(self, request: Request) -> Reply:
        since = query_time(request.query.since)
        begins = 0 if since is None else parse_past_time(since, "since", self._services.store.now())
        usage = await self._workers.run(self._services.llm_calls.usage, begins)
        return Reply(LlmUsageAnswer(since=begins, usage=usage))

    @handles(operations.SHUTDOWN)
    async def shutdown(self, request: Request) -> Reply:
        self._services.request_stop()
        return Reply({"stopping": True, "pid": os.getpid()})

    @handles(operations.MODELS)
    async def models(self, _: Request) -> Reply:
        return Reply(await self._workers.run(self._report.list_models))

    @handles(operations.USE_MODEL)
    async def use_model(self, request: Request) -> Reply:
        await self._workers.run(self._services.use_model, request.ask.name)
        return Reply(await self._workers.run(self._report.list_models))

    @handles(operations.REINDEX)
    async def reindex(self, request: Request) -> Reply:
        return Reply(await self._workers.run(self._reindex, request.ask))

    def _reindex(self, asked: ReindexRequest) -> ReindexAnswer:
        """Have vectors computed: those that are missing, with `force` all of them."""
        indexing = self._services.indexing
        serving, waiting, total = indexing.serving(), indexing.waiting(), indexing.eligible()
        if not asked.dry_run:
            indexing.reindex(recompute=asked.force, batch=asked.batch_size)
            operation = LongOperation("reindex")
            operation.report("computing vectors", lambda: total - indexing.waiting(), total)
            self._services.operations.follow(
                operation, lambda: not indexing.waiting() or indexing.progress().state == "off"
            )
        return ReindexAnswer(
            total=total, with_vectors=total - waiting, queued=total if asked.force else waiting,
            dimensions=serving.embedder.dimensions if serving else None, dry_run=asked.dry_run,
        )  # fmt: skip


def operation_view(progress: OperationProgress) -> OperationView:
    """An operation as it is answered."""
    name, step, done, total, started_at, seconds, rate, seconds_left = progress
    return OperationView(
        name=name, step=step, done=done, total=total, started_at=started_at, seconds=round(seconds, 1),
        rate=None if rate is None else round(rate, 1),
        seconds_left=None if seconds_left is None else round(seconds_left, 1),
    )  # fmt: skip


def job_status(report: JobReport) -> JobStatus:
    """A job as it is answered."""
    job, state = report.job, report.state
    return JobStatus(
        name=job.name, summary=job.summary, state=report.condition, reason=report.reason or None,
        slice=job.slice_bound, heavy=job.is_heavy, runs=state.runs, slices=state.slices, started_at=state.started_at,
        finished_at=state.finished_at, next_at=report.next_at, failures=state.failures,
        last_failure=state.last_failure or None, failed_at=state.failed_at,
    )  # fmt: skip
