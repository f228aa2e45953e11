"""The routes of check and repair: POST /v1/check, /v1/repair. SPEC 13, FORMAT.md "Check"."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from mnemo_client.protocol.maintenance import CheckAnswer, RepairAnswer, RepairRequest, RepairStep, ViolationView
from mnemo_daemon.api.access import refuse_agents
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance.store_check import CheckReport, StoreCheck
from mnemo_daemon.maintenance.store_repair import RepairReport, StoreRepair
from mnemo_daemon.models.embedding import lower_thread_priority
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.services import Services
from mnemo_store.maintenance.repair import REPAIR_STEPS

T = TypeVar("T")

SHOWN_MAX = 100  # violations of one rule


class CheckApi:
    """The handlers. What they start takes long, and runs one at a time on a thread that gives way to others."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._thread = WorkerPool(1, thread_name_prefix="mnemo-upkeep", initializer=lower_thread_priority)
        self._is_busy = False

    def close(self) -> None:
        self._thread.close()

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/check", self.check, CheckAnswer, "Whether everything is as it should be"),
            Route("POST", "/v1/repair", self.repair, RepairAnswer,
                  "Mend what a check finds; delete nothing", ask=RepairRequest),
        ]  # fmt: skip

    async def check(self, _: Request) -> Reply:
        await self._services.wait_until_open()
        return Reply(check_answer(await self._exclusively(self._store_check().run)))

    async def repair(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        asked: RepairRequest = request.ask
        refuse_agents(request)
        repairing = StoreRepair(self._store_check())
        return Reply(repair_answer(await self._exclusively(lambda: repairing.repair(dry_run=asked.dry_run))))

    def _store_check(self) -> StoreCheck:
        s = self._services
        return StoreCheck(s.store, s.views, s.indexing, s.stopped.is_set, s.disk)

    async def _exclusively(self, work: Callable[[], T]) -> T:
        if self._is_busy:
            raise Refusal(409, "conflict", "a check or a repair is under way: wait until it is done")
        self._is_busy = True
        try:
            return await self._thread.run(work)
        finally:
            self._is_busy = False


def check_answer(report: CheckReport) -> CheckAnswer:
    """As it is answered, and printed by `python -m mnemo_daemon.offline`."""
    shown: Counter[str] = Counter()
    violations = []
    for invariant, table, subject, what, remedy in report.violations:
        shown[invariant] += 1
        if shown[invariant] <= SHOWN_MAX:
            violations.append(
                ViolationView(
                    invariant=invariant, table=table, subject=subject, what=what, mendable=remedy in REPAIR_STEPS
                )
            )
    return CheckAnswer(
        ok=report.is_clean, checked=dict(report.checked), totals=dict(report.totals), violations=violations,
        notes=report.notes, seconds=round(report.seconds, 3),
    )  # fmt: skip


def repair_answer(repaired: RepairReport) -> RepairAnswer:
    """As above."""
    steps = [RepairStep(what=step.what, why=step.why, how_many=step.how_many) for step in repaired.steps]
    return RepairAnswer(
        steps=steps, check=check_answer(repaired.report), quarantine=repaired.quarantine, dry_run=repaired.is_dry
    )
