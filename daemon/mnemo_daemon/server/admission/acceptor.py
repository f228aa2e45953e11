"""Connections as they come in: accepted cheaply, refused cheaply, and begun in turns of the clients. SPEC 16

asyncio's own server makes a transport and a protocol of every connection in the order of their arrival, as many at
once as its backlog is long, so that a client that connects all the time fills the loop. Here a connection costs a
system call or two until its client has its turn, and one that is over a limit is answered and closed without more.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from mnemo_daemon.errors import Refusal
from mnemo_daemon.server.admission.access_table import AccessTable, Grant
from mnemo_daemon.server.extra_listeners import Loopback
from mnemo_daemon.server.sockets import Peer

ACCEPTED_AT_ONCE = 32  # between two rounds of the loop
BEGUN_AT_ONCE = 4
OTHERS_SHARE = 64  # that part of the connections is not for one process alone
OTHERS_CONNECTIONS_MAX = 64  # of each other user, of a program with rights of its own, and of TCP
# Connections of one client that begin: so many at once, and then so many a second. Without this limit, the p95 of
# another client is twice as large while one connects all the time.
NEW_BURST = 1100.0
NEW_PER_SECOND = 200.0
PACED_SECONDS = 0.02  # until clients that wait for their pace are looked at again
PACED_CLIENTS_MAX = 4096
PAUSE_SECONDS = 1.0  # when the process has no files left
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger(__name__)


class Arrival(NamedTuple):
    """A connection that was accepted: who is at its other end, with which rights by which table, and the check of
    requests over TCP."""

    socket: socket.socket
    peer: Peer
    grant: Grant
    access: AccessTable
    loopback: Loopback | None

    @property
    def client(self) -> tuple[str, int]:
        """The one that takes turns with others: a process, or all of TCP."""
        return self.grant.name, self.peer.pid


class ConnectionSlots:
    """The open connections, by whose they are and by process. A process leaves a few of its owner's to others."""

    def __init__(self, connections_max: int) -> None:
        self.connections_max = connections_max
        self._by_name: Counter[str] = Counter()
        self._by_client: Counter[tuple[str, int]] = Counter()

    def open_of(self, name: str) -> int:
        """Return the number of connections of those who have the grant of this name."""
        return self._by_name[name]

    def take(self, grant: Grant, client: tuple[str, int]) -> None:
        """Count one more. Raises a Refusal where there is no room."""
        most = self.connections_max if grant.is_owner else min(self.connections_max, OTHERS_CONNECTIONS_MAX)
        most_of_client = most - max(1, most // OTHERS_SHARE) if grant.is_owner else most
        if self._by_name[grant.name] >= most:
            raise Refusal(503, "busy", "too many connections are open; try again", retry_after=1)
        if self._by_client[client] >= most_of_client:
            said = f"this process has {most_of_client} connections open, the most that one process may have"
            raise Refusal(503, "busy", f"{said}; use one of them, or close some", retry_after=1)
        self._by_name[grant.name] += 1
        self._by_client[client] += 1

    def give_back(self, client: tuple[str, int]) -> None:
        self._by_name[client[0]] -= 1
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]


class ConnectionPace:
    """A rate for the connections of each client that begin: NEW_BURST at once, and then NEW_PER_SECOND."""

    def __init__(self) -> None:
        self._by_client: dict[tuple[str, int], tuple[float, float]] = {}  # those left, at a time

    def allows(self, client: tuple[str, int], now: float) -> bool:
        """Count one more of the client; return False where it has to wait."""
        left, then = self._by_client.get(client, (NEW_BURST, now))
        left = min(NEW_BURST, left + (now - then) * NEW_PER_SECOND)
        if left < 1.0:
            return False
        self._by_client[client] = (left - 1.0, now)
        if len(self._by_client) > PACED_CLIENTS_MAX:
            oldest = now - NEW_BURST / NEW_PER_SECOND  # a client of that time may begin as many as a new one
            self._by_client = {each: entry for each, entry in self._by_client.items() if entry[1] > oldest}
        return True


class Acceptor:
    """Accepts on one listening socket until `close`. `identify` says who a connection belongs to, or raises a Refusal;
    `begin` makes the protocol of a connection, which gives its slot back at its end."""

    def __init__(
        self, listening: socket.socket, slots: ConnectionSlots, identify: Callable[[socket.socket], Arrival],
        begin: Callable[[Arrival], asyncio.BaseProtocol],
    ) -> None:  # fmt: skip
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._slots = slots
        self._identify = identify
        self._begin = begin
        self._waiting: OrderedDict[tuple[str, int], deque[Arrival]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pace = ConnectionPace()
        self._next_turn: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept nothing more. Connections that were accepted and not begun are closed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for waiting in self._waiting.values():
            for arrival in waiting:
                self._drop(arrival)
        self._waiting.clear()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as failed:
                if failed.errno not in NO_FILES:
                    raise
                log.error("no connection can be accepted now: %s", failed.strerror)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(PAUSE_SECONDS, self._resume)
                return
            connection.setblocking(False)
            try:
                arrival = self._identify(connection)
                self._slots.take(arrival.grant, arrival.client)
            except Refusal as refusal:
                with contextlib.suppress(OSError):
                    connection.send(bare_response(refusal))
                connection.close()
                continue
            if arrival.client not in self._waiting:
                self._waiting[arrival.client] = deque()
                self._schedule()  # at once: the pace of those that wait already is theirs
            self._waiting[arrival.client].append(arrival)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening, self._accept)

    def _schedule(self, delay: float = 0.0) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._next_turn = self._loop.call_later(delay, self._begin_some)

    def _begin_some(self) -> None:
        """Begin some connections, one of each client in turn, and none of a client that began too many."""
        self._next_turn = None
        now, begun = self._loop.time(), 0
        paced: set[tuple[str, int]] = set()
        while begun < BEGUN_AT_ONCE and len(paced) < len(self._waiting):
            client, waiting = self._waiting.popitem(last=False)
            if client not in paced and self._pace.allows(client, now):
                begun += 1
                task = self._loop.create_task(self._connect(waiting.popleft()))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                paced.add(client)
            if waiting:
                self._waiting[client] = waiting
        if self._waiting:
            self._schedule(0.0 if begun else PACED_SECONDS)

    async def _connect(self, arrival: Arrival) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._begin(arrival), arrival.socket)
        except OSError:
            self._drop(arrival)

    def _drop(self, arrival: Arrival) -> None:
        arrival.socket.close()
        self._slots.give_back(arrival.client)


def bare_response(refusal: Refusal) -> bytes:
    """A whole HTTP answer, for a connection that has no request."""
    body = msgspec.json.encode(refusal.answer())
    retry = f"Retry-After: {refusal.retry_after}\r\n" if refusal.retry_after is not None else ""
    head = (
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + body
