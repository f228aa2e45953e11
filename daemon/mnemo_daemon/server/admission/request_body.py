"""The memory of requests and answers: bodies that come in are bounded in size, in time, and in what they occupy
together, and so is what clients have not read yet. SPEC 16

An answer, or a piece of a streamed one, is in memory until its client has taken it. A client that asks for many large
ones and reads none gets no further turn until it reads, so that neither memory nor time is spent on what nobody takes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from aiohttp import web

from mnemo_daemon.errors import Refusal
from mnemo_daemon.server.admission.fair_queue import FairQueue, RecentClients, TurnLimits

BODY_SECONDS = 30.0  # for the whole of a body, however large, or for a piece of an endless one
SMALL_BYTES = 64 << 10  # a body up to this size waits for no room: the number of connections bounds these
# Bytes of larger bodies, from before the first is read until the request is answered: of a client, and in all. A client
# may send two of the largest at once, and a second client, too.
ROOM = TurnLimits(alone=64 << 20, shared=64 << 20, total=128 << 20)


class BodyReader:
    """Reads bodies of requests. What it raises is a Refusal, or a ConnectionError where the client is gone."""

    def __init__(self, clients: RecentClients, seconds: float = BODY_SECONDS) -> None:
        self.seconds = seconds
        self.room = FairQueue(ROOM, clients, turn_seconds=None, wait_seconds_max=seconds)

    @asynccontextmanager
    async def whole(self, raw: web.BaseRequest, bytes_max: int, client: object) -> AsyncIterator[bytes]:
        """Read the whole body; a large one waits until there is room, which it occupies until the block ends."""
        size = raw.content_length if raw.content_length is not None else bytes_max
        if size > bytes_max:
            raise _too_large(bytes_max)
        room = await self.room.enter(client, size) if size > SMALL_BYTES else None
        try:
            if raw.transport is None:
                raise ConnectionResetError("the client is gone")
            yield await self._read(raw, bytes_max)
        finally:
            if room is not None:
                room.end()

    async def pieces(self, raw: web.BaseRequest) -> AsyncIterator[bytes]:
        """The body as it comes in."""
        _send_continue(raw)
        try:
            while True:
                async with asyncio.timeout(self.seconds):
                    piece = await raw.content.readany()
                if not piece:
                    return
                yield piece
        except TimeoutError:
            raise Refusal(408, "timeout", f"nothing of the body came for {self.seconds:g} seconds") from None
        except (web.RequestPayloadError, web.HTTPException, ValueError) as broken:
            raise _unreadable(broken) from None

    async def _read(self, raw: web.BaseRequest, bytes_max: int) -> bytes:
        _send_continue(raw)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                while piece := await raw.content.readany():
                    size += len(piece)
                    if size > bytes_max:
                        raise _too_large(bytes_max)
                    pieces.append(piece)
        except TimeoutError:
            raise Refusal(408, "timeout", f"the body was not whole within {self.seconds:g} seconds") from None
        except (web.RequestPayloadError, web.HTTPException, ValueError) as broken:
            raise _unreadable(broken) from None
        return b"".join(pieces)


def _send_continue(raw: web.BaseRequest) -> None:
    """Answer `Expect: 100-continue`. Raises a Refusal for a compressed body."""
    if raw.headers.get("Content-Encoding", "identity") != "identity":
        raise Refusal(400, "bad_request", "bodies are taken as they are, not packed", field="Content-Encoding")
    if raw.headers.get("Expect", "").lower() == "100-continue" and raw.transport is not None:
        raw.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _unreadable(broken: Exception) -> Refusal:
    return Refusal(400, "bad_request", f"the body cannot be read: {type(broken).__name__}")


def _too_large(bytes_max: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {bytes_max >> 10} KiB, the most that is taken here")


CLIENT_BYTES_MAX = 32 << 20  # of one client; the answer of each turn that runs may come on top
BYTES_MAX = 128 << 20  # of all clients; one that has read all of its own answers gets one nevertheless


class UnreadAnswers:
    """The bytes of large answers on their way to each client. `on_read` is called after some were read."""

    def __init__(self) -> None:
        self.bytes = 0
        self.on_read: Callable[[], None] = lambda: None
        self._by_client: Counter[Hashable] = Counter()

    def are_too_many(self, client: Hashable) -> bool:
        """Return whether a client has to read before it gets another answer."""
        own = self._by_client[client]
        return own >= CLIENT_BYTES_MAX or (own > 0 and self.bytes >= BYTES_MAX)

    def add(self, client: Hashable, count: int) -> int:
        """Count an answer of so many bytes; return how many to give back once it was read or given up."""
        if count <= SMALL_BYTES:
            return 0
        self.bytes += count
        self._by_client[client] += count
        return count

    def give_back(self, client: Hashable, count: int) -> None:
        if count:
            self.bytes -= count
            self._by_client[client] -= count
            if not self._by_client[client]:
                del self._by_client[client]
            self.on_read()
