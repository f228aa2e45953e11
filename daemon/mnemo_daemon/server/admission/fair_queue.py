"""Turns of requests by client: a client that asks much waits for itself, and others hardly notice it. SPEC 16

Python runs one thread at a time. If a thousand requests of one process began at once, each would take as long as all
of them, and so would the single request of another process among them. If they begin one after the other, the last
ends no later. Therefore only some requests of a client run at a time, and clients take turns.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from mnemo_daemon.errors import Refusal

TURN_SECONDS = 0.25  # after which a request counts no longer: it waits for a disk or a model, not for a processor
WAIT_SECONDS_MAX = 30.0  # for a turn
RETRY_SECONDS = 5
SHARED_SECONDS = 1.0  # in which several clients must have asked to count as sharing


class TurnLimits(NamedTuple):
    """The most turns at a time: of a client that is alone, of each while several ask, and in all."""

    alone: int
    shared: int
    total: int


class RequestTurn:
    """A request's permission to run, which counts as `weight` turns. `end` may be called more than once."""

    def __init__(self, queue: "FairQueue", client: Hashable, weight: int, seconds_max: float | None) -> None:
        self._queue = queue
        self._client = client
        self._weight = weight
        self._has_ended = False
        self._timer = queue.loop.call_later(seconds_max, self.end) if seconds_max is not None else None

    def end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._queue.give_back(self._client, self._weight)


class _QueuedRequest(NamedTuple):
    weight: int
    turn: "asyncio.Future[RequestTurn]"


class RecentClients:
    """The clients that asked anything in this second and in the one before, in all queues together."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._now: set[Hashable] = set()
        self._before: set[Hashable] = set()
        self._since = self.loop.time()

    def add(self, client: Hashable) -> None:
        self._forget_older()
        self._now.add(client)

    def are_several(self) -> bool:
        self._forget_older()
        return len(self._now) > 1 or len(self._before) > 1 or len(self._now | self._before) > 1

    def _forget_older(self) -> None:
        now = self.loop.time()
        if now - self._since > SHARED_SECONDS:
            self._before = self._now if now - self._since <= 2 * SHARED_SECONDS else set()
            self._now = set()
            self._since = now


class FairQueue:
    """Turns within the limits. Clients that wait take turns.

    A turn is given back after `turn_seconds`, if that is not None, so that a request that waits for something slow
    holds up no other for long, not even the next one of the same client. No turn of a client begins while it
    `is_held_back`; whoever changes that calls `begin_waiting`.
    """

    def __init__(
        self, limits: TurnLimits, clients: RecentClients, *, turn_seconds: float | None = TURN_SECONDS,
        wait_seconds_max: float = WAIT_SECONDS_MAX, is_held_back: Callable[[Hashable], bool] = lambda client: False,
    ) -> None:  # fmt: skip
        self.loop = clients.loop
        self._limits = limits
        self._clients = clients
        self._turn_seconds = turn_seconds
        self._wait_seconds_max = wait_seconds_max
        self._is_held_back = is_held_back
        self._running: Counter[Hashable] = Counter()
        self._running_in_all = 0
        self._waiting: OrderedDict[Hashable, deque[_QueuedRequest]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return sum(not turn.done() for waiting in self._waiting.values() for _, turn in waiting)

    async def enter(self, client: Hashable, weight: int = 1) -> RequestTurn:
        """Wait for a turn. Raises a Refusal if none comes in time."""
        self._clients.add(client)
        turn: asyncio.Future[RequestTurn] = self.loop.create_future()
        self._waiting.setdefault(client, deque()).append(_QueuedRequest(weight, turn))
        self.begin_waiting()
        if turn.done():
            return turn.result()
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                return await self._begun(turn)
        except TimeoutError:
            said = f"the request waited {self._wait_seconds_max:g} seconds for its turn"
            hint = "have fewer under way at once, and read their answers"
            raise Refusal(429, "busy", f"{said}; {hint}", retry_after=RETRY_SECONDS) from None

    def give_back(self, client: Hashable, weight: int) -> None:
        """End a turn, and begin those that there is room for now."""
        self._running[client] -= weight
        self._running_in_all -= weight
        if not self._running[client]:
            del self._running[client]
        self.begin_waiting()

    def begin_waiting(self) -> None:
        """Begin what there is room for: one request of each client in turn, from the one that waited longest."""
        has_begun = True
        while has_begun and self._waiting:
            has_begun = False
            for client in list(self._waiting):
                if self._running_in_all >= self._limits.total:
                    return
                has_begun |= self._begin_next(client)

    async def _begun(self, turn: "asyncio.Future[RequestTurn]") -> RequestTurn:
        """Wait for this turn, and end it where the one who waits is cancelled at the moment in which it begins."""
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                turn.result().end()
            raise

    def _begin_next(self, client: Hashable) -> bool:
        """Begin the next request of a client; return False where it has none, or no room for it."""
        waiting = self._waiting[client]
        while waiting and waiting[0].turn.done():
            waiting.popleft()  # whoever waited was cancelled
        has_room = bool(waiting) and self._has_room(client, waiting[0].weight)
        if has_room:
            weight, turn = waiting.popleft()
            self._running[client] += weight
            self._running_in_all += weight
            turn.set_result(RequestTurn(self, client, weight, self._turn_seconds))
            self._waiting.move_to_end(client)
        if not waiting:
            del self._waiting[client]
        return has_room

    def _has_room(self, client: Hashable, weight: int) -> bool:
        most = self._limits.shared if self._clients.are_several() else self._limits.alone
        if self._running_in_all + weight > self._limits.total or self._running[client] + weight > most:
            return False
        return not self._is_held_back(client)
