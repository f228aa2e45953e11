"""Delay that `mnemo proxy` adds to a model server, against the bare server in the same run.

    python -m tests.bench.bench_proxy [ROUNDS]

A scripted model server on aiohttp streams PIECES pieces to each of STREAMS clients at once, in a process of its own,
and writes into each piece when it was sent; a daemon without a model runs beside. Each client takes TURNS turns, as an
agent does that calls a tool after each: its first opens connections, the others use them again. Bare and proxied rounds
alternate. Two delays: from a request to the first piece, and from the sending of a piece to its arrival. Aim of what
the proxy adds: p50 up to 1 ms, p95 up to 3 ms.
"""

import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import aiohttp
from aiohttp import web

from tests.bench import harness
from tests.bench.idle import cpu_seconds
from tests.support.running_daemon import running
from tests.support.scripted_upstream import running_proxy

ROUNDS = 5
STREAMS = 50
PIECES = 60
PIECE_SECONDS = 0.05  # between two pieces of a stream: 20 tokens a second
TURNS = 3
PAUSE_SECONDS = 0.3  # between two turns of a client
START_SECONDS = 1.0  # in which the streams begin, each at a moment of its own; then all are open
HISTORY = [
    {"role": "user", "content": f"Message {number} of a long conversation about boats. " * 4} for number in range(20)
]
AIM_MS = {"p50": 1.0, "p95": 3.0}


async def stream(request: web.Request) -> web.StreamResponse:
    await request.read()
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    for number in range(PIECES):
        fields = {"choices": [{"index": 0, "delta": {"content": f"word {number} "}}], "sent": time.monotonic()}
        await answer.write(b"data: " + json.dumps(fields).encode() + b"\n\n")
        await asyncio.sleep(PIECE_SECONDS)
    await answer.write_eof()
    return answer


def serve(ready: Connection) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", stream)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=256)
        await site.start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


class Delays(NamedTuple):
    """Milliseconds: to the first piece of first and of later turns, and of each piece from its sending."""

    first_turns: list[float]
    later_turns: list[float]
    pieces: list[float]


async def one_client(session: aiohttp.ClientSession, address: str, number: int, delays: Delays) -> None:
    headers = {"Authorization": f"Bearer stream-{number}"}
    # Drawn, since clients that begin at even distances send their pieces together.
    await asyncio.sleep(random.Random(number).random() * START_SECONDS)
    for turn in range(TURNS):
        body = {"messages": [*HISTORY, {"role": "user", "content": f"Stream {number} says this in turn {turn}."}]}
        began = time.monotonic()
        first, pieces, rest = 0.0, 0, b""
        async with session.post(f"{address}/v1/chat/completions", json=body, headers=headers) as answer:
            async for piece in answer.content.iter_any():
                now = time.monotonic()
                first = first or (now - began) * 1000
                *lines, rest = (rest + piece).split(b"\n\n")
                delays.pieces.extend((now - json.loads(line[6:])["sent"]) * 1000 for line in lines)
                pieces += len(lines)
        assert pieces == PIECES
        (delays.later_turns if turn else delays.first_turns).append(first)
        await asyncio.sleep(PAUSE_SECONDS)


async def one_round(address: str, delays: Delays) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(one_client(session, address, number, delays) for number in range(STREAMS)))


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main(rounds: int = ROUNDS) -> None:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    bare = f"http://127.0.0.1:{ours.recv()}"
    print(f"{rounds} rounds of {STREAMS} streams at once, {TURNS} turns of {PIECES} pieces each, "
          f"one in {PIECE_SECONDS * 1000:.0f} ms; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    measured = {name: Delays([], [], []) for name in ("bare", "proxy")}
    with (
        tempfile.TemporaryDirectory(prefix="m") as scratch,
        running(Path(scratch) / "data", {"XDG_CACHE_HOME": scratch}) as daemon,
        running_proxy(daemon, bare) as proxy,
    ):
        for address in (bare, proxy.address):  # to load what is loaded once
            asyncio.run(one_round(address, Delays([], [], [])))
        used = cpu_seconds(proxy.process.pid)
        for _ in range(rounds):
            for name, address in (("bare", bare), ("proxy", proxy.address)):
                asyncio.run(one_round(address, measured[name]))
        used = cpu_seconds(proxy.process.pid) - used
        status = proxy.command("status")
    server.terminate()
    for place, title in enumerate(("first piece of turn 1, ms", "of later turns, ms", "each piece, ms")):
        for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
            without, through = (percentile(measured[each][place], share) for each in ("bare", "proxy"))
            aim = f"   aim {AIM_MS[name]:.0f}" if name in AIM_MS else ""
            print(
                f"{title:<26} {name}   bare {without:7.2f}   proxy {through:7.2f}   added {through - without:6.2f}{aim}"
            )
    print(
        f"processor of the proxy: {used * 1000 / (rounds * STREAMS * TURNS):.2f} ms a stream with its {PIECES} pieces"
    )
    print(f"captured {status['captured']} turns, left out {status['skipped']}")


if __name__ == "__main__":
    harness.run(main)
