"""The routes by which memories go for good: purge, and emptying the trash. SPEC 3.7, 13."""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import EmptyTrashQuery, EraseAnswer, EraseOneRequest, EraseRequest
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import LongRequestThread
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_store.indexes.attributes import MemoryFilter

PURGED_MAX = 10_000  # memories that one request by filter forgets


class ErasureApi(Resource):
    """The handlers, for a person alone. Their work takes long: one request after the other runs on a thread."""

    def __init__(self, services: Services) -> None:
        super().__init__(services, LongRequestThread("mnemo-forget"))
        self._erasure: Erasure | None = None  # once a request has used it

    def close(self) -> None:
        """End an erasure that is under way before its next step; the next start finishes it."""
        if self._erasure is not None:
            self._erasure.stop()
        self._workers.close()

    @handles(operations.ERASE)
    async def erase_one(self, request: Request) -> Reply:
        memory_id = self._services.memories.resolve(request.path["id"], access.caller_of(request))
        return await self._erase(request, [memory_id])

    @handles(operations.ERASE_MANY)
    async def erase_many(self, request: Request) -> Reply:
        asked: EraseRequest = request.ask
        if bool(asked.ids) == (asked.filter is not None):
            raise bad_value("name memories by `ids` or by `filter`", "ids")
        if asked.filter is not None:
            ids = self._matching_ids(request_codec.erase_filter(request, asked.filter, self._services.store.now()))
        else:
            ids = await asyncio.to_thread(self._resolved, asked.ids, access.caller_of(request))
        return await self._erase(request, list(dict.fromkeys(ids)))

    @handles(operations.EMPTY_TRASH)
    async def empty_trash(self, request: Request) -> Reply:
        query: EmptyTrashQuery = request.query
        with self._services.operations.running("trash empty") as operation:
            empty = partial(
                self._services.trash.empty, access.listed_namespaces(request), access.caller_of(request).name,
                query.user_id or "local", confirm=query.confirm, is_stopping=self._services.stopped.is_set,
                progress=operation.report,
            )  # fmt: skip
            return Reply(await self._workers.run(empty))

    async def _erase(self, request: Request, ids: Sequence[str]) -> Reply:
        asked: EraseRequest | EraseOneRequest = request.ask
        erasure = self._erasure = self._services.erasure
        if not ids:
            return Reply(EraseAnswer(purged=[], derived=[], dry_run=asked.dry_run))
        if asked.dry_run:
            return Reply(await self._workers.run(erasure.plan, ids))
        by = access.caller_of(request).name
        with self._services.operations.running("forget") as operation:
            erase = partial(
                erasure.erase, ids, by, quoting=asked.quoting, everywhere=asked.everywhere, progress=operation.report
            )
            return Reply(await self._workers.run(erase))

    def _resolved(self, texts: Sequence[str], caller: Caller) -> list[str]:
        resolve = self._services.memories.resolve
        return [resolve(text, caller, f"ids[{at}]") for at, text in enumerate(texts)]

    def _matching_ids(self, wanted: MemoryFilter) -> list[str]:
        """The ids of what passes the filter. Raises a Refusal for too many."""
        columns = self._services.views.attributes
        numbers = np.flatnonzero(columns.mask(wanted))
        if len(numbers) > PURGED_MAX:
            message = (
                f"{len(numbers)} memories pass the filter, and at most {PURGED_MAX} are forgotten at once: narrow it"
            )
            raise Refusal(422, "refused", message, field="filter")
        return columns.ids(numbers)
