"""Clients that are many, slow or rude, as a program of their own: one attack on a socket, and the count of its answers.

python -m tests.bench.load_attacks NAME SOCKET SECONDS [--clients N] [--requests N]
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

RECALL = json.dumps({"query": "the boiler in Bergen", "top_k": 5, "dry": True}).encode()
SLOW_SECONDS = 0.5  # between two bytes of a head
HALF_BODY_BYTES = 512 * 1024


def request(method: str, target: str, body: bytes = b"") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


ASK = request("POST", "/v1/recall", RECALL)


class Attack:
    """The counts of one attack: answers by status, and connections that ended without one."""

    def __init__(self, path: Path, seconds: float, clients: int, requests: int) -> None:
        self.path = path
        self.clients = clients
        self.requests = requests
        self.until = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.until

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path, limit=1 << 22)

    async def answer(self, reader: asyncio.StreamReader) -> str:
        """Read one answer and count its status."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        await reader.readexactly(length)
        status = head.split()[1].decode()
        self.counts[status] += 1
        return status

    async def at_once(self, one: Callable[[int], Awaitable[None]]) -> None:
        """Run one client after the other for each place, all places at once, until the time is over."""

        async def again(place: int) -> None:
            while not self.is_over and self.requests > 0:
                try:
                    await one(place)
                except (OSError, asyncio.IncompleteReadError):
                    self.counts["ended"] += 1
                    await asyncio.sleep(0.01)

        await asyncio.gather(*(again(place) for place in range(self.clients)))

    async def recalls(self, _place: int) -> None:
        """Ask on one connection, again and again."""
        reader, writer = await self.open()
        with contextlib.closing(writer):
            while not self.is_over and self.requests > 0:
                self.requests -= 1
                writer.write(ASK)
                if await self.answer(reader) == "503":
                    await asyncio.sleep(0.1)  # as it is asked to: Retry-After has a second
                    return

    async def writes(self, place: int) -> None:
        """Remember on one connection, again and again."""
        reader, writer = await self.open()
        with contextlib.closing(writer):
            while not self.is_over and self.requests > 0:
                self.requests -= 1
                text = f"The client {place} wrote {self.requests} at {time.monotonic_ns()}."
                writer.write(request("POST", "/v1/memories", json.dumps({"content": text}).encode()))
                await self.answer(reader)

    async def connects(self, _place: int) -> None:
        """Connect, ask once, and hang up without reading."""
        self.requests -= 1
        _, writer = await self.open()
        writer.write(ASK)
        await writer.drain()
        writer.close()
        self.counts["hung up"] += 1

    async def slow_heads(self, _: int) -> None:
        """Send a head byte by byte."""
        reader, writer = await self.open()
        with contextlib.closing(writer):
            for byte in ASK[:60]:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(SLOW_SECONDS)
                if self.is_over or reader.at_eof():
                    break
            await asyncio.wait_for(self.answer(reader), 30.0)

    async def half_bodies(self, _: int) -> None:
        """Announce a body of a megabyte, send half of it, and wait."""
        reader, writer = await self.open()
        with contextlib.closing(writer):
            head = f"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: {2 * HALF_BODY_BYTES}\r\n\r\n"
            writer.write(head.encode() + b"a" * HALF_BODY_BYTES)
            await self.answer(reader)

    async def half_batches(self, _: int) -> None:
        """Announce a batch of 32 MiB, send most of it, and wait."""
        reader, writer = await self.open()
        with contextlib.closing(writer):
            writer.write(f"POST /v1/memories/batch HTTP/1.1\r\nHost: x\r\nContent-Length: {32 << 20}\r\n\r\n".encode())
            for _piece in range(60):
                writer.write(b" " * HALF_BODY_BYTES)
                await writer.drain()
            await self.answer(reader)

    async def slow_readers(self, _: int) -> None:
        """Ask for large answers and read none of them."""
        _reader, writer = await self.open()
        with contextlib.closing(writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request("GET", "/v1/memories?limit=500"))
            writer.write(request("GET", "/v1/export"))
            self.counts["asked"] += 1
            await asyncio.sleep(self.until - time.monotonic())

    async def events(self, _: int) -> None:
        """Follow the changes without reading them."""
        _reader, writer = await self.open()
        with contextlib.closing(writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request("GET", "/v1/events"))
            self.counts["asked"] += 1
            await asyncio.sleep(self.until - time.monotonic())


NAMES = ("recalls", "writes", "connects", "slow_heads", "half_bodies", "half_batches", "slow_readers", "events")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("socket", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=1_000_000_000)
    options = parser.parse_args()
    from mnemo_daemon.server.sockets import raise_open_files_limit

    raise_open_files_limit()
    attack = Attack(options.socket, options.seconds, options.clients, options.requests)
    asyncio.run(attack.at_once(getattr(attack, options.name)))
    json.dump(attack.counts, sys.stdout)


if __name__ == "__main__":
    main()
