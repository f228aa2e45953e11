"""The routes by which memories go for good: purge, and emptying the trash. SPEC 3.7, 13."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unicodedata import normalize

import numpy as np

from mnemo_client import care_protocol, protocol
from mnemo_daemon import wire
from mnemo_daemon.app import Daemon
from mnemo_daemon.backup_api import refuse_agents
from mnemo_daemon.embedding import step_back
from mnemo_daemon.forgetting import Forgetting
from mnemo_daemon.memories import Caller
from mnemo_daemon.refusals import Refusal, bad_value
from mnemo_daemon.routes import Reply, Request, Route
from mnemo_daemon.times import interval
from mnemo_store.columns import Filter
from mnemo_store.records import STATES

PURGED_MAX = 10_000  # memories that one request by filter forgets


class EmptyQuery(protocol.Ask):
    namespace: protocol.Namespace | None = None
    user_id: protocol.ShortText | None = None
    confirm: bool = False


class ForgettingApi:
    """The handlers, for a person alone. What they start takes long, and runs one at a time on a thread of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._at_work: Forgetting | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mnemo-forget", initializer=step_back)

    def close(self) -> None:
        """What is under way ends before its next step, and is finished after the next start."""
        if self._at_work is not None:
            self._at_work.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/memories/{id}/purge", self.purge_one, care_protocol.Purged, "Forget it, every trace",
                  ask=care_protocol.PurgeOneRequest),
            Route("POST", "/v1/purge", self.purge, care_protocol.Purged, "Forget many, every trace",
                  ask=care_protocol.PurgeRequest),
            Route("DELETE", "/v1/trash", self.empty_trash, care_protocol.EmptiedTrash,
                  "Empty the trash; without `confirm` a dry run", query=EmptyQuery),
        ]  # fmt: skip

    async def purge_one(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        memory_id = self._daemon.memories.resolve(request.path["id"], wire.caller_of(request))
        return await self._purge(request, [memory_id])

    async def purge(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        asked: care_protocol.PurgeRequest = request.ask
        if bool(asked.ids) == (asked.filter is not None):
            raise bad_value("name memories by `ids` or by `filter`", "ids")
        if asked.filter is not None:
            ids = self._passing(self._filter(request, asked.filter))
        else:
            ids = await asyncio.to_thread(self._resolved, asked.ids, wire.caller_of(request))
        return await self._purge(request, list(dict.fromkeys(ids)))

    async def empty_trash(self, request: Request) -> Reply:
        await self._daemon.opened()
        refuse_agents(request)
        query: EmptyQuery = request.query
        by = wire.caller_of(request).name
        trash, namespaces, is_stopping = self._daemon.trash, wire.listed(request), self._daemon.stopped.is_set
        user_id = query.user_id or "local"
        return Reply(
            await self._off_loop(
                lambda: trash.empty(namespaces, by, user_id, confirm=query.confirm, is_stopping=is_stopping)
            )
        )

    async def _purge(self, request: Request, ids: Sequence[str]) -> Reply:
        forgetting = self._at_work = self._daemon.forgetting
        if not ids:
            return Reply(care_protocol.Purged(purged=[], derived=[], dry_run=request.ask.dry_run))
        if request.ask.dry_run:
            return Reply(await self._off_loop(forgetting.plan, ids))
        by, asked = wire.caller_of(request).name, request.ask
        purge = partial(forgetting.purge, ids, by, quoting=asked.quoting, everywhere=asked.everywhere)
        return Reply(await self._off_loop(purge))

    def _resolved(self, texts: Sequence[str], caller: Caller) -> list[str]:
        resolve = self._daemon.memories.resolve
        return [resolve(text, caller, f"ids[{at}]") for at, text in enumerate(texts)]

    def _passing(self, wanted: Filter) -> list[str]:
        """The ids of what passes the filter. Raises a Refusal for too many."""
        columns = self._daemon.views.columns
        numbers = np.flatnonzero(columns.allowed(wanted))
        if len(numbers) > PURGED_MAX:
            message = (
                f"{len(numbers)} memories pass the filter, and at most {PURGED_MAX} are forgotten at once: narrow it"
            )
            raise Refusal(422, "refused", message, field="filter")
        return columns.ids(numbers)

    def _filter(self, request: Request, asked: care_protocol.PurgeFilter) -> Filter:
        if asked == care_protocol.PurgeFilter() and request.namespace is None:
            raise bad_value("name at least one filter, the namespace for one: this would forget everything", "filter")
        if request.namespace and asked.namespace and request.namespace != asked.namespace:
            raise bad_value("the filter names another namespace than X-Namespace", "filter.namespace")
        since, until = interval(asked.since, asked.until, self._daemon.store.now(), "filter.")
        return Filter(
            namespaces=(wire.writable_namespace(request, asked.namespace),),
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

    async def _off_loop(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)
