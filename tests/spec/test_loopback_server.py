"""The end of a server on loopback that nobody uses, and its place."""

import asyncio
import contextlib
import json
import os
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from aiohttp import web

from mnemo_client import loopback, process
from mnemo_client.errors import UsageError


def test_a_server_is_idle_once_no_request_was_open_for_that_long() -> None:
    now = [0.0]
    activity = loopback.ServerActivity(lambda: now[0])
    now[0] = 5.0
    assert activity.idle_seconds == 5.0
    with activity.request():
        now[0] = 100.0
        with activity.request():
            assert activity.idle_seconds == 0.0
        assert activity.idle_seconds == 0.0
    now[0] = 103.0
    assert activity.idle_seconds == 3.0


def test_a_server_ends_by_itself_after_its_idle_time() -> None:
    with loopback.bind(0) as bound:
        app = loopback.application(bound.getsockname()[1])
        now = iter(range(0, 10_000, 100))
        asyncio.run(loopback.serve(app, bound, idle_seconds=300.0, clock=lambda: float(next(now))))
    assert next(now) >= 300


def test_a_token_is_accepted_in_the_headers_that_programs_use() -> None:
    async def answers() -> list[int]:
        with loopback.bind(0) as bound:
            app = loopback.application(bound.getsockname()[1], loopback.accepts_token("right"), body_max=10)

            async def echo(request: web.Request) -> web.Response:
                return web.Response(body=await request.read())

            app.router.add_post("/", echo)
            address = loopback.address_of(bound)
            headers = [
                {"Authorization": "Bearer right"}, {"Authorization": "Token right"}, {"X-API-Key": "right"},
                {"Authorization": "Basic right"}, {"Authorization": "Bearer wrong"}, {},
            ]  # fmt: skip
            found: list[int] = []

            def ask_all() -> None:
                for sent, body in [*((each, b"short") for each in headers), (headers[0], b"longer than it may be")]:
                    request = urllib.request.Request(address, body, sent, method="POST")
                    try:
                        with urllib.request.urlopen(request, timeout=10) as answer:
                            found.append(answer.status)
                    except urllib.error.HTTPError as refused:
                        found.append(refused.code)
                        refused.close()

            started = asyncio.Event()
            ended = asyncio.create_task(loopback.serve(app, bound, started=started.set))
            await started.wait()
            await asyncio.to_thread(ask_all)
            ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ended
            return found

    assert asyncio.run(answers()) == [200, 200, 200, 401, 401, 401, 413]


def test_the_place_of_a_server_names_it_only_while_it_runs(tmp_path: Path) -> None:
    place = process.ServerPlace(tmp_path / "run", "page")
    assert place.running() is None
    record = process.ServerRecord("http://127.0.0.1:1", "secret", 7)
    with place.taken() as is_free:
        assert is_free
        place.publish(record)
        other = process.ServerPlace(tmp_path / "run", "page")
        assert other.running() == record
        with other.taken() as is_free_too:
            assert not is_free_too
    assert place.running() is None, "a record that was left over names nothing"
    assert json.loads((tmp_path / "run" / "page.json").read_text())["pid"] == 7


def test_a_port_that_is_taken_is_refused_with_its_number() -> None:
    with loopback.bind(0) as bound:
        bound.listen()
        with pytest.raises(UsageError, match=str(bound.getsockname()[1])):
            loopback.bind(bound.getsockname()[1])


def test_a_connection_whose_program_has_closed_it_is_nobodys() -> None:
    async def users() -> tuple[int | None, int | None]:
        arrived: asyncio.Queue[asyncio.WriteTransport] = asyncio.Queue()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.put_nowait(writer.transport)
            await reader.read(1)

        with loopback.bind(0) as bound:
            server = await asyncio.start_server(accept, sock=bound)
            with socket.create_connection(bound.getsockname()) as client:
                transport = await arrived.get()
                open_ = loopback.user_of(transport)
                client.shutdown(socket.SHUT_WR)
            closed = loopback.user_of(transport)
            transport.close()
            server.close()
            return open_, closed

    says_who = sys.platform == "linux"  # elsewhere the kernel does not
    assert asyncio.run(users()) == (os.geteuid() if says_who else None, None)


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"{port} is not a port"):
        loopback.bind(port)
