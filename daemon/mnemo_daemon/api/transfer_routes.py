"""The routes by which everything leaves and comes in: GET /v1/export, POST /v1/import. SPEC 3.8, 13, 16."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.maintenance import ExportQuery, ImportAnswer, ImportProgress, ImportQuery
from mnemo_core.transfer.import_plan import ImportTarget, SecretPolicy
from mnemo_daemon.api import access
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal, refusal_of
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.transcript_import import TranscriptImport, transcript_tool
from mnemo_daemon.transfer import store_export
from mnemo_daemon.transfer.store_export import VectorSpace
from mnemo_daemon.transfer.store_merge import StoreMerge
from mnemo_daemon.transfer.tool_import import BYTE_ORDER_MARK, LINE_BYTES_MAX, ImportRequest, ImportState, ToolImport
from mnemo_store.disk import is_disk_full
from mnemo_store.errors import DiskFull, WriteFailure
from mnemo_store.journal import dump
from mnemo_store.records import Memory

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

        def keep(memory: Memory) -> bool:
            return namespace in (None, memory.namespace)

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
        work.add_done_callback(_consume_exception)
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
            caller=access.caller_of(request),
            trust=trust,
            tool=query.tool,
            into=ImportTarget(namespace, query.user_id),
            allow_forgotten=query.allow_forgotten,
            dry_run=query.dry_run,
            group=query.group or "",
        )

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


def _consume_exception(work: "asyncio.Future[ImportAnswer]") -> None:
    """Retrieve the exception of a failed import, for which nobody may wait any more."""
    if not work.cancelled():
        work.exception()


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
    """The first line that holds something; the file then stands at its beginning, behind a byte order mark. Raises a
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
