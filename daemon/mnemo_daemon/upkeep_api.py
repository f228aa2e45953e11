"""The routes that look whether everything is as it should be, and mend it: POST /v1/check, /v1/repair. SPEC 3.8, 13."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mnemo_client import care_protocol
from mnemo_daemon.app import Daemon
from mnemo_daemon.backup_api import refuse_agents
from mnemo_daemon.checking import Checking, Report
from mnemo_daemon.embedding import step_back
from mnemo_daemon.refusals import Refusal
from mnemo_daemon.repairing import Repaired, Repairing
from mnemo_daemon.routes import Reply, Request, Route
from mnemo_store.repair import STEPS

T = TypeVar("T")

SHOWN_MAX = 100  # violations of one rule


class UpkeepApi:
    """The handlers. What they start takes long, and runs one at a time on a thread that gives way to others."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mnemo-upkeep", initializer=step_back)
        self._is_busy = False

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/check", self.check, care_protocol.CheckAnswer, "Whether everything is as it should be"),
            Route("POST", "/v1/repair", self.repair, care_protocol.RepairAnswer,
                  "Mend what a check finds; delete nothing", ask=care_protocol.RepairRequest),
        ]  # fmt: skip

    async def check(self, _: Request) -> Reply:
        await self._daemon.opened()
        return Reply(check_answer(await self._alone(self._checking().check)))

    async def repair(self, request: Request) -> Reply:
        await self._daemon.opened()
        asked: care_protocol.RepairRequest = request.ask
        refuse_agents(request)
        repairing = Repairing(self._checking())
        return Reply(repair_answer(await self._alone(lambda: repairing.repair(dry_run=asked.dry_run))))

    def _checking(self) -> Checking:
        daemon = self._daemon
        return Checking(daemon.store, daemon.views, daemon.indexing, daemon.stopped.is_set, daemon.disk)

    async def _alone(self, work: Callable[[], T]) -> T:
        if self._is_busy:
            raise Refusal(409, "conflict", "a check or a repair is under way: wait until it is done")
        self._is_busy = True
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._is_busy = False


def check_answer(report: Report) -> care_protocol.CheckAnswer:
    """As it is answered, and printed by `python -m mnemo_daemon.offline`."""
    shown: Counter[str] = Counter()
    violations = []
    for invariant, table, subject, what, remedy in report.violations:
        shown[invariant] += 1
        if shown[invariant] <= SHOWN_MAX:
            violations.append(
                care_protocol.Violation(
                    invariant=invariant, table=table, subject=subject, what=what, mendable=remedy in STEPS
                )
            )
    return care_protocol.CheckAnswer(
        ok=report.is_clean, checked=dict(report.checked), totals=dict(report.totals), violations=violations,
        notes=report.notes, seconds=round(report.seconds, 3),
    )  # fmt: skip


def repair_answer(repaired: Repaired) -> care_protocol.RepairAnswer:
    """As above."""
    steps = [care_protocol.RepairStep(what=step.what, why=step.why, how_many=step.how_many) for step in repaired.steps]
    return care_protocol.RepairAnswer(
        steps=steps, check=check_answer(repaired.report), quarantine=repaired.quarantine, dry_run=repaired.is_dry
    )
