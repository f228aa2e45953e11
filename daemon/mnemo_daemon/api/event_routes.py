"""GET /v1/events: changes, jobs, progress and long requests as server-sent events. SPEC 13

An event has ids, never a text. A reader sees the changes of the memories that it could list: of one namespace and user,
without sensitive ones for agents. The seq of a change is the id of its event, from which a reader continues when it
connects again; one event `gap` stands for all changes that are no longer kept.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from mnemo_client.protocol import operations
from mnemo_client.protocol.changes import (
    ChangedMemory,
    ChangeEvent,
    EndEvent,
    EventsQuery,
    GapEvent,
    JobEvent,
    OperationEvent,
    ProgressEvent,
    StartEvent,
)
from mnemo_client.protocol.choices import EVENT_TYPES
from mnemo_daemon.api import access, response_codec
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.history import FeedChange, MemoryChange
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services

STREAMS_MAX = 256  # at once
LOOK_SECONDS = 1.0  # between two looks at jobs and progress, and at whether the daemon stops
SILENCE_SECONDS = 15.0  # after which a comment shows that the stream is alive
SEQ_DIGITS_MAX = 19
LAST_EVENT_ID = "Last-Event-ID"

StateEvent = JobEvent | ProgressEvent | OperationEvent


class _EventFilter:
    """The events that a request may see, and asks for."""

    def __init__(self, request: Request) -> None:
        query: EventsQuery = request.query
        self.types = frozenset(query.types) or frozenset(EVENT_TYPES)
        self._namespaces = access.listed_namespaces(request)
        self._user_id = query.user_id or "local"
        self._sees_sensitive = access.caller_of(request).sees_sensitive

    def change_event(self, change: FeedChange) -> ChangeEvent | None:
        """The change as the reader sees it; None where it sees nothing of it."""
        seen = [
            ChangedMemory(
                id=each.id, change=each.kind, namespace=each.namespace or None, session_id=each.session_id or None,
                tier=each.tier,
            )
            for each in change.memories if self._is_visible(each)
        ]  # fmt: skip
        return ChangeEvent(change.seq, change.at, seen) if seen else None

    def _is_visible(self, change: MemoryChange) -> bool:
        if change.kind == "erased":  # its owner is no longer known: only a person may see it
            return self._sees_sensitive
        if self._namespaces and change.namespace not in self._namespaces:
            return False
        return change.user_id == self._user_id and (self._sees_sensitive or not change.is_sensitive)


class EventsApi(Resource):
    """The handler of the stream of events."""

    def __init__(self, services: Services, workers: WorkerPool, report: StatusReport) -> None:
        super().__init__(services, workers)
        self._report = report
        self._streams = 0
        self._looked_at = 0.0
        self._state: dict[tuple[str, str], StateEvent] = {}

    @handles(operations.EVENTS)
    async def events(self, request: Request) -> Reply:
        if self._streams >= STREAMS_MAX:
            message = f"{STREAMS_MAX} streams of events are open already: close one"
            raise Refusal(429, "busy", message, retry_after=1)
        since = _since(request)
        return Reply(self._stream(_EventFilter(request), since, follows=request.query.follow))

    async def _stream(self, wanted: _EventFilter, since: int | None, *, follows: bool) -> AsyncIterator[bytes]:
        feed, stopped = self._services.change_feed, self._services.stopped
        self._streams += 1
        try:
            start = feed.seq
            place = start if since is None else since
            yield response_codec.event("start", StartEvent(start), start if since is None else None)
            known: dict[tuple[str, str], StateEvent] = {}
            written = time.monotonic()
            while True:
                changed = asyncio.Event()
                wake = functools.partial(_set_from_thread, asyncio.get_running_loop(), changed)
                feed.wake_on_change(wake)
                try:
                    found = feed.read(place)
                    pieces = list(_change_pieces(found.changes, wanted, place, found.seq, has_gap=found.has_gap))
                    place = found.seq
                    pieces += [response_codec.event(name, event) for name, event in await self._news(wanted, known)]
                    if pieces:
                        yield b"".join(pieces)
                        written = time.monotonic()
                    elif time.monotonic() - written > SILENCE_SECONDS:
                        yield response_codec.KEEP_ALIVE
                        written = time.monotonic()
                    if place != feed.seq and found.changes:
                        continue
                    if not follows or stopped.is_set():
                        reason = "the daemon stops" if stopped.is_set() else "all events were sent"
                        yield response_codec.event("end", EndEvent(reason))
                        return
                    await _wait(changed, stopped)
                finally:
                    feed.forget_waker(wake)
        finally:
            self._streams -= 1

    async def _news(
        self, wanted: _EventFilter, known: dict[tuple[str, str], StateEvent]
    ) -> list[tuple[str, StateEvent]]:
        """The jobs, views and long requests that are in another state than the reader knows."""
        if wanted.types == {"change"}:
            return []
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()  # one look serves all streams
            self._state = await self._workers.run(self._present_state)
        news = [
            (key, event) for key, event in self._state.items() if key[0] in wanted.types and known.get(key) != event
        ]
        is_first = not known
        gone = [(key, known.pop(key)) for key in list(known) if key not in self._state]  # long requests alone end
        news += [(key, msgspec.structs.replace(event, state="ended")) for key, event in gone if key[0] in wanted.types]
        known.update(self._state)
        # At the beginning, only jobs under way and unfinished views are reported.
        return [(name, event) for (name, _), event in news
                if not is_first or event.state not in ("idle", "ready", "off")]  # fmt: skip

    def _present_state(self) -> dict[tuple[str, str], StateEvent]:
        state: dict[tuple[str, str], StateEvent] = {}
        for each in self._report.job_reports():
            event = JobEvent(each.job.name, each.condition, each.reason or None, each.state.runs)
            state["job", each.job.name] = event
        for name, view in self._report.view_statuses().items():
            is_whole = view.state in ("ready", "off")
            state["progress", name] = ProgressEvent(
                name, view.state, view.share, 0 if is_whole else view.lag, None if is_whole else view.seconds_left
            )
        for operation in self._services.operations.progress():
            name, started_at = operation.name, operation.started_at
            state["operation", f"{name} {started_at}"] = OperationEvent(
                name, started_at, "running", operation.step, operation.done, operation.total
            )
        return state


def _since(request: Request) -> int | None:
    """Return the seq after which the reader continues: that of its last event, or of the query. Raises a Refusal."""
    text = request.headers.get(LAST_EVENT_ID)
    if text is None:
        query: EventsQuery = request.query
        if query.since is not None and query.since < 0:
            raise bad_value("`since` is the number of a change", "since")
        return query.since
    if not text.isdecimal() or len(text) > SEQ_DIGITS_MAX:
        raise bad_value(f"{LAST_EVENT_ID} is the id of an event of this stream: a number", LAST_EVENT_ID)
    return int(text)


def _change_pieces(
    changes: Sequence[FeedChange], wanted: _EventFilter, place: int, seq: int, *, has_gap: bool
) -> Iterator[bytes]:
    if "change" not in wanted.types:
        return
    if has_gap:
        until = changes[0].seq - 1 if changes else seq
        yield response_codec.event("gap", GapEvent(place, until), until)
    for change in changes:
        event = wanted.change_event(change)
        if event is not None:
            yield response_codec.event("change", event, change.seq)


def _set_from_thread(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(changed.set)


async def _wait(changed: asyncio.Event, stopped: asyncio.Event) -> None:
    """Return once a memory was changed, the daemon stops, or LOOK_SECONDS have passed."""
    waits = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stopped.wait())]
    try:
        await asyncio.wait(waits, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
