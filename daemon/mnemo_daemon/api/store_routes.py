"""The routes about the store as a whole: backup, compaction, check and repair; export and import, by which everything
leaves and comes in; and synchronisation. SPEC 3.3, 3.8, 3.9, 13, 16, 21, format.md "Check"."""

import asyncio
import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.maintenance import (
    BackupRequest,
    CheckAnswer,
    CompactRequest,
    ExportQuery,
    ExposedSecret,
    ExposureAnswer,
    ImportAnswer,
    ImportProgress,
    ImportQuery,
    PairingAnswer,
    RemoveDeviceRequest,
    RepairAnswer,
    RepairRequest,
    RepairStep,
    ResetAnswer,
    ResetRequest,
    SyncAnswer,
    SyncRequest,
    ViolationView,
)
from mnemo_core.text.note_secrets import find_note_secrets
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_core.transfer.import_plan import ImportTarget, SecretPolicy
from mnemo_daemon.api import access
from mnemo_daemon.api.resource import LongRequestThread, Resource, WorkerPool, handles
from mnemo_daemon.errors import Refusal, bad_value, refusal_of
from mnemo_daemon.maintenance.store_check import CheckReport, StoreCheck
from mnemo_daemon.maintenance.store_repair import RepairReport, StoreRepair
from mnemo_daemon.scheduler import LongOperation
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.transcript_import import TranscriptImport, transcript_tool
from mnemo_daemon.sync.cipher import SyncError
from mnemo_daemon.table_walk import all_memories
from mnemo_daemon.transfer import store_export
from mnemo_daemon.transfer.store_export import VectorSpace
from mnemo_daemon.transfer.store_merge import StoreMerge
from mnemo_daemon.transfer.tool_import import BYTE_ORDER_MARK, LINE_BYTES_MAX, ImportRequest, ImportState, ToolImport
from mnemo_store.disk import is_disk_full
from mnemo_store.errors import DiskFull, WriteFailure
from mnemo_store.journal import dump
from mnemo_store.maintenance.repair import REPAIR_STEPS
from mnemo_store.records import STATES, Memory, Session, TopicNode

SHOWN_MAX = 100  # violations of one rule


class MaintenanceApi(Resource):
    """The handlers. A backup or compaction has a thread of its own while it runs; checks and repairs run one at a time
    on a thread with a low priority."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers, LongRequestThread("mnemo-upkeep", lambda: Refusal(
            409, "conflict", "a check or a repair is under way: wait until it is done"
        )))  # fmt: skip

    @handles(operations.BACK_UP)
    async def create_backup(self, request: Request) -> Reply:
        asked: BackupRequest = request.ask
        wanted = None if asked.folder is None else Path(asked.folder)
        with self._services.operations.running("backup") as operation:
            return Reply(await asyncio.to_thread(self._services.maintenance.back_up, wanted, operation.report))

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
                answer.backup = await asyncio.to_thread(services.reset, operation.report)
        return Reply(answer)

    @handles(operations.COMPACT)
    async def compact(self, request: Request) -> Reply:
        asked: CompactRequest = request.ask
        services = self._services
        with services.operations.running("compact") as operation:
            return Reply(await asyncio.to_thread(
                services.maintenance.compact, services.settings.history.keep, dry_run=asked.dry_run,
                progress=operation.report,
            ))  # fmt: skip

    @handles(operations.CHECK)
    async def check(self, _: Request) -> Reply:
        with self._services.operations.running("check") as operation:
            return Reply(check_answer(await self._own.run(self._store_check(operation).run)))

    @handles(operations.EXPOSURE, own_threads=True)
    def exposure(self, _: Request) -> ExposureAnswer:
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
            return Reply(repair_answer(await self._own.run(repair)))

    def _store_check(self, operation: LongOperation) -> StoreCheck:
        s = self._services
        return StoreCheck(s.store, s.views, s.indexing, s.stopped.is_set, s.disk, operation.report)


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


THREADS = 2  # for exports, and for what imports write to their spools
PIECE_BYTES = 1 << 20  # of an import written to the spool, of an export sent, at once
FREE_BYTES_MIN = 64 << 20  # of the disk, that an import's spool leaves to the store
PATIENCE_SECONDS = 1.0  # an import that takes longer tells how far it is
TELL_SECONDS = 0.5  # between two lines of progress


class TransferApi(Resource):
    """The handlers. What reads or writes much has threads of its own, so that recalls do not wait for it."""

    def __init__(self, services: Services) -> None:
        super().__init__(services, WorkerPool(THREADS, thread_name_prefix="mnemo-export"))
        self._imports = WorkerPool(1, thread_name_prefix="mnemo-import")  # one at a time; others wait

    def close(self) -> None:
        for workers in (self._workers, self._imports):
            workers.close()

    # Out

    @handles(operations.EXPORT)
    async def export(self, request: Request) -> Reply:
        query: ExportQuery = request.query
        namespace = None if request.namespace == access.EVERY_NAMESPACE else request.namespace

        def keep(record: Memory | Session | TopicNode) -> bool:
            return namespace in (None, record.namespace)

        space = self._space() if query.vectors else None
        if query.vectors and space is None:
            raise Refusal(503, "degraded", "no embedding model is in use, so there are no vectors", field="vectors")
        is_whole = namespace is None
        lines = store_export.export_lines(
            self._services.store, keep=None if is_whole else keep, history=query.history, space=space
        )
        return Reply(self._pieces(lines))

    def _space(self) -> VectorSpace | None:
        serving = self._services.indexing.serving()
        return VectorSpace(serving.embedder.space, serving.embedder.dimensions) if serving is not None else None

    async def _pieces(self, lines: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The lines, many at once; each bundle is made off the loop."""
        with self._services.operations.running("export") as operation:
            sent = 0
            while piece := await self._workers.run(_bundle, lines):
                yield piece
                sent += len(piece)
                operation.report("sending", sent, 0)

    # In

    @handles(operations.IMPORT)
    async def import_export(self, request: Request) -> Reply:
        wanted, guard = self._import_request(request), self._services.secret_policy()
        assert request.body is not None, "the route streams"
        spooled = await self._spooled(request.body)
        progress = ImportState()
        work = asyncio.get_running_loop().run_in_executor(self._imports, self._import, spooled, guard, wanted, progress)
        # Nobody may wait any more for the exception of a failed import: it is retrieved.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({work}, timeout=PATIENCE_SECONDS)
        except asyncio.CancelledError:
            progress.stop.set()
            raise
        return Reply(msgspec.json.encode(work.result()) + b"\n" if work.done() else _progress_lines(work, progress))

    def _import_request(self, request: Request) -> ImportRequest:
        query: ImportQuery = request.query
        namespace = None if request.namespace is None else access.writable_namespace(request)
        trust = access.trust_of(request)
        if query.allow_forgotten and trust != "user":
            why = "only a person can have what was forgotten taken in again"
            raise Refusal(422, "refused", why, field="allow_forgotten")
        return ImportRequest(
            caller=access.caller_of(request), trust=trust, tool=query.tool, into=ImportTarget(namespace, query.user_id),
            allow_forgotten=query.allow_forgotten, dry_run=query.dry_run, group=query.group or "",
        )  # fmt: skip

    async def _spooled(self, body: AsyncIterator[bytes]) -> BinaryIO:
        """The body in a file of the data folder that has no name: nothing stays of it, whatever happens. Raises
        DiskFull, WriteFailure, and what the body raises."""
        with contextlib.ExitStack() as stack:
            spooled = stack.enter_context(await self._workers.run(self._temporary_file))
            pieces: list[bytes] = []
            size = 0
            async for piece in body:
                pieces.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    await self._workers.run(self._spool, spooled, b"".join(pieces))
                    pieces, size = [], 0
            await self._workers.run(self._spool, spooled, b"".join(pieces))
            stack.pop_all()
            return spooled

    def _temporary_file(self) -> BinaryIO:
        return tempfile.TemporaryFile(dir=self._services.store.folder)

    def _spool(self, spooled: BinaryIO, data: bytes) -> None:
        usage = os.statvfs(spooled.fileno())
        if usage.f_bavail * usage.f_frsize < FREE_BYTES_MIN + len(data):
            raise DiskFull("the disk has no room for the import next to the store")
        try:
            self._services.disk.append(spooled.fileno(), data)
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"there is no room for the import: {error.strerror}") from error
            raise WriteFailure(f"the import could not be written next to the store: {error.strerror}") from error

    def _import(
        self, spooled: BinaryIO, guard: SecretPolicy, wanted: ImportRequest, progress: ImportState
    ) -> ImportAnswer:
        with spooled, self._services.operations.running(progress):
            progress.set_total(os.fstat(spooled.fileno()).st_size)
            services, first_line = self._services, _first_line(spooled)
            if dump.is_dump(first_line):
                return StoreMerge(services.store, wanted, progress, self._space(), services.on_store_replaced).run(
                    spooled
                )
            if (tool := transcript_tool(wanted.tool, first_line)) is not None:
                transcripts = TranscriptImport(
                    services.store, services.ingest, services.memories, services.turn_tiers, guard, wanted, progress
                )
                return transcripts.run(spooled, tool, first_line)
            return ToolImport(services.store, guard, wanted, progress).run(spooled, first_line)


def _bundle(lines: Iterator[bytes]) -> bytes:
    """Some of the lines, b"" behind the last."""
    taken: list[bytes] = []
    size = 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            break
    return b"".join(taken)


def _first_line(spooled: BinaryIO) -> bytes:
    """The first line that holds something; the file is then at its beginning, behind a byte order mark. Raises a
    Refusal where there is none."""
    spooled.seek(0)
    start = len(BYTE_ORDER_MARK) if spooled.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
    spooled.seek(start)
    while line := spooled.readline(LINE_BYTES_MAX):
        if line.strip():
            spooled.seek(start)
            return line
    raise Refusal(400, "unknown_export", "there is nothing in it")


async def _progress_lines(work: "asyncio.Future[ImportAnswer]", progress: ImportState) -> AsyncIterator[bytes]:
    """Progress lines of the import, and last its result or the error it failed with."""
    try:
        while not work.done():
            line = ImportProgress(progress=(progress.done, max(progress.of, progress.done)))
            yield msgspec.json.encode(line) + b"\n"
            await asyncio.wait({work}, timeout=TELL_SECONDS)
    finally:
        progress.stop.set()  # for a reader that went away: what is behind the slice at work is left
    try:
        yield msgspec.json.encode(work.result()) + b"\n"
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        yield msgspec.json.encode(refusal.answer()) + b"\n"


class SyncApi(Resource):
    """The handlers. An exchange can take minutes, and has a thread of its own."""

    def __init__(self, services: Services, workers: WorkerPool) -> None:
        super().__init__(services, workers, WorkerPool(1, thread_name_prefix="mnemo-sync"))
        self._has_run = False  # an exchange that was asked for

    def close(self) -> None:
        """End the exchange under way before its next step."""
        if self._has_run:
            self._services.sync.stop()
        super().close()

    @handles(operations.SYNC_STATUS)
    def status(self, request: Request) -> SyncAnswer:
        return self._answer()

    @handles(operations.SHARE, own_threads=True)
    def share(self, request: Request) -> SyncAnswer:
        asked: SyncRequest = request.ask
        self._has_run = True
        folder = Path(asked.folder)
        if not folder.is_absolute():
            raise bad_value("give the absolute path of the folder", "folder")
        if (asked.passphrase is None) == (asked.code is None):
            raise bad_value("give the `passphrase` of the folder or a pairing `code`", "passphrase")
        if asked.create and asked.code is not None:
            raise bad_value("a folder is made with a passphrase", "code")
        try:
            self._services.sync.begin(
                folder, passphrase=asked.passphrase or "", code=asked.code or "", name=asked.name or "",
                is_new=asked.create,
            )  # fmt: skip
            self._services.sync.exchange()
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="folder") from error
        return self._answer()

    @handles(operations.EXCHANGE, own_threads=True)
    def exchange(self, _: Request) -> SyncAnswer:
        self._has_run = True
        self._services.sync.require_state()
        try:
            self._services.sync.exchange()
        except (SyncError, OSError) as error:
            raise Refusal(503, "write_failed", f"the exchange did not end: {error}", retry_after=60) from error
        return self._answer()

    @handles(operations.INVITE)
    def invite(self, request: Request) -> PairingAnswer:
        return PairingAnswer(code=self._services.sync.pairing_code())

    @handles(operations.RENEW_KEY, own_threads=True)
    def renew_key(self, request: Request) -> SyncAnswer:
        self._has_run = True
        try:
            self._services.sync.renew_key(request.ask.code)
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="code") from error
        return self.exchange(request)

    @handles(operations.REMOVE_DEVICE, own_threads=True)
    def remove(self, request: Request) -> PairingAnswer:
        asked: RemoveDeviceRequest = request.ask
        self._has_run = True
        try:
            return PairingAnswer(code=self._services.sync.remove_device(asked.device, asked.passphrase))
        except (SyncError, OSError) as error:
            raise Refusal(422, "refused", str(error), field="device") from error

    @handles(operations.LEAVE)
    def leave(self, request: Request) -> SyncAnswer:
        self._services.sync.leave()
        return self._answer()

    def _answer(self) -> SyncAnswer:
        sync = self._services.sync
        state = sync.state
        if state is None:
            return SyncAnswer(shared=False, problem=sync.problem or None)
        return SyncAnswer(
            shared=True, folder=state.folder, device=state.device, problem=sync.problem or None,
            exchanged_at=sync.exchanged_at or None, unsent=sync.unsent(), runs_cycles=sync.runs_cycles(),
            devices=sync.devices(), erasures=sync.erasure_states(),
        )  # fmt: skip
