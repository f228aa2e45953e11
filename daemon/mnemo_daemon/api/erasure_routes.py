"""The routes by which memories go for good: purge, and emptying the trash. SPEC 3.7, 13."""

import asyncio
from collections.abc import Sequence
from functools import partial
from unicodedata import normalize

import numpy as np

from mnemo_client.protocol.erasure import EmptyTrashAnswer, EraseAnswer, EraseFilter, EraseOneRequest, EraseRequest
from mnemo_client.protocol.primitives import Namespace, RequestBody, ShortText
from mnemo_daemon.api import wire_codec
from mnemo_daemon.api.access import refuse_agents
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.lifecycle.erasure import Erasure
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.models.embedding import lower_thread_priority
from mnemo_daemon.server.router import Reply, Request, Route
from mnemo_daemon.services import Services
from mnemo_daemon.times import parse_interval
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import STATES

PURGED_MAX = 10_000  # memories that one request by filter forgets


class EmptyTrashQuery(RequestBody):
    namespace: Namespace | None = None
    user_id: ShortText | None = None
    confirm: bool = False


class ErasureApi:
    """The handlers, for a person alone. What they start takes long, and runs one at a time on a thread of its own."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._at_work: Erasure | None = None
        self._thread = WorkerPool(1, thread_name_prefix="mnemo-forget", initializer=lower_thread_priority)

    def close(self) -> None:
        """Have an erasure that is under way end before its next step; the next start finishes it."""
        if self._at_work is not None:
            self._at_work.stop()
        self._thread.close()

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/memories/{id}/purge", self.erase_one, EraseAnswer, "Forget it, every trace",
                  ask=EraseOneRequest),
            Route("POST", "/v1/purge", self.erase_many, EraseAnswer, "Forget many, every trace",
                  ask=EraseRequest),
            Route("DELETE", "/v1/trash", self.empty_trash, EmptyTrashAnswer,
                  "Empty the trash; without `confirm` a dry run", query=EmptyTrashQuery),
        ]  # fmt: skip

    async def erase_one(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        refuse_agents(request)
        memory_id = self._services.memories.resolve(request.path["id"], wire_codec.caller_of(request))
        return await self._erase(request, [memory_id])

    async def erase_many(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        refuse_agents(request)
        asked: EraseRequest = request.ask
        if bool(asked.ids) == (asked.filter is not None):
            raise bad_value("name memories by `ids` or by `filter`", "ids")
        if asked.filter is not None:
            ids = self._matching_ids(self._filter(request, asked.filter))
        else:
            ids = await asyncio.to_thread(self._resolved, asked.ids, wire_codec.caller_of(request))
        return await self._erase(request, list(dict.fromkeys(ids)))

    async def empty_trash(self, request: Request) -> Reply:
        await self._services.wait_until_open()
        refuse_agents(request)
        query: EmptyTrashQuery = request.query
        by = wire_codec.caller_of(request).name
        trash, namespaces, is_stopping = (
            self._services.trash,
            wire_codec.listed_namespaces(request),
            self._services.stopped.is_set,
        )
        user_id = query.user_id or "local"
        return Reply(
            await self._thread.run(
                lambda: trash.empty(namespaces, by, user_id, confirm=query.confirm, is_stopping=is_stopping)
            )
        )

    async def _erase(self, request: Request, ids: Sequence[str]) -> Reply:
        forgetting = self._at_work = self._services.erasure
        if not ids:
            return Reply(EraseAnswer(purged=[], derived=[], dry_run=request.ask.dry_run))
        if request.ask.dry_run:
            return Reply(await self._thread.run(forgetting.plan, ids))
        by, asked = wire_codec.caller_of(request).name, request.ask
        purge = partial(forgetting.erase, ids, by, quoting=asked.quoting, everywhere=asked.everywhere)
        return Reply(await self._thread.run(purge))

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

    def _filter(self, request: Request, asked: EraseFilter) -> MemoryFilter:
        if asked == EraseFilter() and request.namespace is None:
            raise bad_value("name at least one filter, the namespace for one: this would forget everything", "filter")
        if request.namespace and asked.namespace and request.namespace != asked.namespace:
            raise bad_value("the filter names another namespace than X-Namespace", "filter.namespace")
        since, until = parse_interval(asked.since, asked.until, self._services.store.now(), "filter.")
        return MemoryFilter(
            namespaces=(wire_codec.writable_namespace(request, asked.namespace),),
            user_id=asked.user_id or "local",
            agent_id=asked.agent_id,
            run_id=asked.run_id,
            session_id=asked.session_id,
            kinds=tuple(asked.kinds),
            categories=tuple(asked.categories),
            layers=tuple(asked.layers),
            states=tuple(asked.states) or STATES,
            tags=tuple(normalize("NFC", tag.strip().lower()) for tag in asked.tags),  # nothing has a blank one
            source=asked.source,
            speaker=asked.speaker,
            since=since,
            until=until,
        )
