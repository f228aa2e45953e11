"""Turns of requests by client, in a time of the test's own: limits, order, and that no turn is lost. SPEC 16"""

import asyncio
import contextlib
import selectors
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_daemon.errors import Refusal
from mnemo_daemon.server.admission import acceptor
from mnemo_daemon.server.admission.acceptor import (
    NEW_BURST,
    NEW_PER_SECOND,
    Acceptor,
    Arrival,
    ConnectionPace,
    ConnectionSlots,
)
from mnemo_daemon.server.admission.access_table import OWNER_GRANT, AccessTable
from mnemo_daemon.server.admission.fair_queue import FairQueue, RecentClients, TurnLimits
from mnemo_daemon.server.admission.request_body import CLIENT_BYTES_MAX, UnreadAnswers
from mnemo_daemon.server.sockets import Peer

LIMITS = TurnLimits(alone=4, shared=1, total=6)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still while anything can run, and then jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__(_VirtualSelector(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _VirtualSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self._loop.now += timeout
        return super().select(0)


def in_virtual_time(test: Callable[[FairQueue], Awaitable[None]], limits: TurnLimits = LIMITS, **options: Any) -> None:
    async def main() -> None:
        queue = FairQueue(limits, RecentClients(), **options)
        await test(queue)
        assert queue.waiting == 0

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


class PlannedRequest(NamedTuple):
    client: int
    at: float
    seconds: float
    leaves_after: float | None  # seconds, or never


REQUESTS = st.builds(
    PlannedRequest,
    client=st.integers(0, 3),
    at=st.integers(0, 4).map(lambda tenths: tenths / 10),
    seconds=st.sampled_from((0.0, 0.05, 0.2)),
    leaves_after=st.none() | st.floats(0, 0.5),
)


@given(st.lists(REQUESTS, max_size=40))
def test_every_request_that_stays_runs_once_and_never_more_run_than_the_limits_allow(
    requests: list[PlannedRequest],
) -> None:
    limits = TurnLimits(alone=4, shared=2, total=5)
    running, ran = Counter[int](), list[PlannedRequest]()

    async def ask(queue: FairQueue, asked: PlannedRequest) -> None:
        await asyncio.sleep(asked.at)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(asked.leaves_after):
                turn = await queue.enter(asked.client)
                running[asked.client] += 1
                try:
                    assert running[asked.client] <= limits.alone
                    assert running.total() <= limits.total
                    await asyncio.sleep(asked.seconds)
                finally:
                    running[asked.client] -= 1
                    turn.end()
                ran.append(asked)

    async def test(queue: FairQueue) -> None:
        await asyncio.gather(*(ask(queue, asked) for asked in requests))
        # No turn was lost: a client that is alone by now gets all of its own.
        await asyncio.sleep(10)
        began = queue.loop.time()
        for _ in range(limits.alone):
            await queue.enter("last")
        assert queue.loop.time() == began

    in_virtual_time(test, limits)
    stayed = [asked for asked in requests if asked.leaves_after is None]
    assert not Counter(stayed) - Counter(ran)


async def ask(queue: FairQueue, client: str, order: list[str]) -> None:
    """Run a request of 10 ms in its turn, and note its client as it begins."""
    turn = await queue.enter(client)
    order.append(client)
    await asyncio.sleep(0.01)
    turn.end()


def test_one_request_among_a_thousand_of_another_client_waits_for_those_that_run_and_no_other() -> None:
    order: list[str] = []

    async def test(queue: FairQueue) -> None:
        many = [asyncio.create_task(ask(queue, "many", order)) for _ in range(1000)]
        await asyncio.sleep(0.005)
        assert queue.waiting == 1000 - LIMITS.alone
        await ask(queue, "one", order)
        assert order[: LIMITS.alone + 1] == ["many"] * LIMITS.alone + ["one"]  # there was room for it at once
        # While two ask, one of each runs at a time.
        before = len(order)
        await asyncio.gather(*(ask(queue, "one", order) for _ in range(10)))
        assert 8 <= order[before:].count("many") <= 12
        await asyncio.gather(*many)

    in_virtual_time(test)


def test_clients_that_wait_for_the_same_room_take_turns() -> None:
    order: list[str] = []

    async def test(queue: FairQueue) -> None:
        turn = await queue.enter("c")
        asked = [asyncio.create_task(ask(queue, client, order)) for client in "aaaabbbb"]
        await asyncio.sleep(0)
        turn.end()
        await asyncio.gather(*asked)

    in_virtual_time(test, TurnLimits(alone=1, shared=1, total=1))
    assert "".join(order) == "abababab"


def test_a_turn_is_not_lost_with_a_request_that_is_cancelled_as_it_begins() -> None:
    async def test(queue: FairQueue) -> None:
        first = await queue.enter("one")
        cancelled = asyncio.create_task(queue.enter("one"))
        await asyncio.sleep(0)
        first.end()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        began = queue.loop.time()
        await queue.enter("one")
        assert queue.loop.time() == began

    in_virtual_time(test, TurnLimits(alone=1, shared=1, total=1), turn_seconds=None)


def test_a_client_that_is_alone_again_has_all_of_its_turns_again() -> None:
    async def test(queue: FairQueue) -> None:
        (await queue.enter("other")).end()
        first = await queue.enter("one")
        waiting = [asyncio.create_task(queue.enter("one")) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert queue.waiting == 5
        queue.loop.now += 3.0  # type: ignore[attr-defined]
        first.end()
        await asyncio.sleep(0)
        assert queue.waiting == 5 - LIMITS.alone
        for turn in asyncio.as_completed(waiting):
            (await turn).end()

    in_virtual_time(test, turn_seconds=None)


def test_a_request_that_runs_long_holds_up_the_next_one_no_longer_than_a_turn() -> None:
    async def test(queue: FairQueue) -> None:
        long = [await queue.enter("one") for _ in range(LIMITS.alone)]
        began = queue.loop.time()
        next_turn = await queue.enter("one")
        assert queue.loop.time() - began == pytest.approx(0.25)
        for turn in [*long, next_turn]:
            turn.end()
            turn.end()  # a second time changes nothing
        began = queue.loop.time()
        for _ in range(LIMITS.alone + 1):
            await queue.enter("one")
        assert queue.loop.time() - began == pytest.approx(0.25)

    in_virtual_time(test, turn_seconds=0.25)


def test_a_request_that_gets_no_turn_in_time_is_refused_with_what_to_do() -> None:
    async def test(queue: FairQueue) -> None:
        for _ in range(LIMITS.alone):
            await queue.enter("one")
        began = queue.loop.time()
        with pytest.raises(Refusal) as refused:
            await queue.enter("one")
        assert queue.loop.time() - began == pytest.approx(30.0)
        assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "busy", 5)
        assert "have fewer under way at once" in refused.value.message

    in_virtual_time(test, turn_seconds=None)


def test_turns_by_weight_leave_room_for_a_large_one_before_smaller_ones_of_its_client() -> None:
    async def test(queue: FairQueue) -> None:
        three = await queue.enter("one", 3)
        large, small = asyncio.create_task(queue.enter("one", 4)), asyncio.create_task(queue.enter("one", 1))
        await asyncio.sleep(0)
        assert queue.waiting == 2
        three.end()
        (await large).end()
        (await small).end()

    in_virtual_time(test, turn_seconds=None)


def test_a_client_that_reads_none_of_its_answers_gets_no_turn_until_it_reads() -> None:
    unread = UnreadAnswers()

    async def test(queue: FairQueue) -> None:
        unread.on_read = queue.begin_waiting
        half = unread.add("one", CLIENT_BYTES_MAX // 2)
        (await queue.enter("one")).end()
        assert unread.add("one", 1000) == 0  # small ones do not count
        other_half = unread.add("one", CLIENT_BYTES_MAX // 2)
        held_back = asyncio.create_task(queue.enter("one"))
        (await queue.enter("other")).end()
        await asyncio.sleep(1)
        assert not held_back.done()
        unread.give_back("one", half)
        (await held_back).end()
        unread.give_back("one", other_half)
        assert unread.bytes == 0

    in_virtual_time(test, is_held_back=unread.are_too_many)


def test_new_connections_of_one_client_are_paced_and_those_of_another_are_not() -> None:
    pace, one, other = ConnectionPace(), ("owner", 1), ("owner", 2)
    assert all(pace.allows(one, 0.0) for _ in range(int(NEW_BURST)))
    assert not pace.allows(one, 0.0)
    assert pace.allows(other, 0.0)
    begun = [now for now in (step / 10_000 for step in range(10_000)) if pace.allows(one, now)]
    assert len(begun) == pytest.approx(NEW_PER_SECOND, abs=2)
    assert sum(pace.allows(one, 1000.0) for _ in range(5000)) == NEW_BURST


class _ClosingProtocol(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def test_a_connection_does_not_wait_for_the_pace_of_another_client(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "NEW_BURST", 2.0)
    pids = iter((1, 1, 1, 1, 2))
    begun: list[int] = []

    def identify(connection: socket.socket) -> Arrival:
        return Arrival(connection, Peer(uid=0, pid=next(pids)), OWNER_GRANT, AccessTable(), None)

    def begin(arrival: Arrival) -> asyncio.Protocol:
        begun.append(arrival.peer.pid)
        return _ClosingProtocol()

    async def connect(clients: int) -> None:
        for _ in range(clients):
            opened.enter_context(socket.socket(socket.AF_UNIX)).connect(str(short_folder / "s"))
        for _ in range(200):  # rounds of the loop, in which the clock stands still
            await asyncio.sleep(0)

    async def main() -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(short_folder / "s"))
        listening.listen()
        listening.setblocking(False)
        accepting = Acceptor(listening, ConnectionSlots(64), identify, begin)
        await connect(4)
        assert begun == [1, 1]
        await connect(1)
        assert begun == [1, 1, 2]
        accepting.close()

    with contextlib.ExitStack() as opened, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())
