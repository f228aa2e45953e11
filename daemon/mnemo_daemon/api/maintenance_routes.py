"""The routes about the store as a whole: backup, compaction, check, repair. SPEC 3.3, 3.9, 13, format.md "Check"."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

from mnemo_client.protocol import operations
from mnemo_client.protocol.maintenance import (
    BackupAnswer,
    BackupRequest,
    CheckAnswer,
    CompactAnswer,
    CompactRequest,
    ExposedSecret,
    ExposureAnswer,
    RepairAnswer,
    RepairRequest,
    RepairStep,
    ResetAnswer,
    ResetRequest,
    ViolationView,
)
from mnemo_core.text.note_secrets import find_note_secrets
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import LongRequestThread
from mnemo_daemon.errors import Refusal
from mnemo_daemon.maintenance.store_check import CheckReport, StoreCheck
from mnemo_daemon.maintenance.store_repair import RepairReport, StoreRepair
from mnemo_daemon.scheduler import LongOperation
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.table_walk import all_memories
from mnemo_store.maintenance.backup import BackupManifest
from mnemo_store.maintenance.compaction import CompactionSizes
from mnemo_store.maintenance.repair import REPAIR_STEPS
from mnemo_store.records import STATES

SHOWN_MAX = 100  # violations of one rule


class MaintenanceApi(Resource):
    """The handlers. A backup or compaction has a thread of its own while it runs; checks and repairs run one at a time
    on a thread with a low priority."""

    def __init__(self, services: Services) -> None:
        self._thread = LongRequestThread("mnemo-upkeep")
        super().__init__(services, self._thread)

    def close(self) -> None:
        self._thread.close()

    @handles(operations.BACK_UP)
    async def create_backup(self, request: Request) -> Reply:
        asked: BackupRequest = request.ask
        wanted = None if asked.folder is None else Path(asked.folder)
        with self._services.operations.running("backup") as operation:
            folder, made = await asyncio.to_thread(self._services.maintenance.back_up, wanted, operation.report)
        return Reply(_backup_answer(folder, made))

    @handles(operations.RESET)
    async def reset(self, request: Request) -> Reply:
        asked: ResetRequest = request.ask
        services = self._services
        answer = ResetAnswer(
            memories=services.views.attributes.count_states(STATES), roots=len(services.root_paths()),
            dry_run=not asked.confirm,
        )  # fmt: skip
        if asked.confirm:
            with services.operations.running("reset") as operation:
                answer.backup = _backup_answer(*await asyncio.to_thread(services.reset, operation.report))
        return Reply(answer)

    @handles(operations.COMPACT)
    async def compact(self, request: Request) -> Reply:
        asked: CompactRequest = request.ask
        services = self._services
        with services.operations.running("compact") as operation:
            done = await asyncio.to_thread(
                services.maintenance.compact, services.settings.history.keep, dry_run=asked.dry_run,
                progress=operation.report,
            )  # fmt: skip
        sizes = done.sizes
        if sizes is None:  # of a dry run: as they are
            now = services.store.disk_bytes()
            sizes = CompactionSizes(now["database"], now["database"], now["journal"], now["journal"])
        return Reply(CompactAnswer(
            versions=done.versions, history_from=done.history_from, dry_run=asked.dry_run, **sizes._asdict()
        ))  # fmt: skip

    @handles(operations.CHECK)
    async def check(self, _: Request) -> Reply:
        with self._services.operations.running("check") as operation:
            return Reply(check_answer(await self._thread.run_alone(_busy(), self._store_check(operation).run)))

    @handles(operations.EXPOSURE)
    async def exposure(self, _: Request) -> Reply:
        return Reply(await self._thread.run_alone(_busy(), self._exposure))

    def _exposure(self) -> ExposureAnswer:
        """Search all that agents see with the stricter detector, that of notes."""
        read, found = 0, list[ExposedSecret]()
        for memory in all_memories(self._services.store):
            if memory.state != "trashed" and SENSITIVE_TAG not in memory.tags:
                read += 1
                if kinds := {span.kind for span in find_note_secrets(memory.content)}:
                    found.append(ExposedSecret(id=memory.id, kinds=sorted(kinds)))
        return ExposureAnswer(read=read, total=len(found), memories=found[:SHOWN_MAX])

    @handles(operations.REPAIR)
    async def repair(self, request: Request) -> Reply:
        asked: RepairRequest = request.ask
        with self._services.operations.running("repair") as operation:
            repair = partial(StoreRepair(self._store_check(operation)).repair, dry_run=asked.dry_run)
            return Reply(repair_answer(await self._thread.run_alone(_busy(), repair)))

    def _store_check(self, operation: LongOperation) -> StoreCheck:
        s = self._services
        return StoreCheck(s.store, s.views, s.indexing, s.stopped.is_set, s.disk, operation.report)


def _busy() -> Refusal:
    return Refusal(409, "conflict", "a check or a repair is under way: wait until it is done")


def _backup_answer(folder: Path, made: BackupManifest) -> BackupAnswer:
    return BackupAnswer(
        folder=str(folder), seq=made.seq, at=made.at, bytes=sum(file.bytes for file in made.files),
        files=len(made.files), has_database=made.has_database,
    )  # fmt: skip


def check_answer(report: CheckReport) -> CheckAnswer:
    """The report as the API and `python -m mnemo_daemon.offline` give it."""
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
    """The result of a repair as the API and `python -m mnemo_daemon.offline` give it."""
    steps = [RepairStep(what=step.what, why=step.why, how_many=step.how_many) for step in repaired.steps]
    return RepairAnswer(
        steps=steps, check=check_answer(repaired.report), quarantine=repaired.quarantine, dry_run=repaired.is_dry
    )
