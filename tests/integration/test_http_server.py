"""The HTTP server on a real Unix socket, with a small application of its own: limits, errors, peers, its end."""

import asyncio
import contextlib
import errno
import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_daemon.server.admission import acceptor
from mnemo_daemon.server.admission.access_table import OWNER_GRANT, AccessEntry, AccessTable
from mnemo_daemon.server.http_server import HttpServer
from mnemo_daemon.server.sockets import Peer, bind, raise_open_files_limit
from tests.support.http_application import RunningServer, parsed, received, until

Answer = tuple[int, dict[str, Any]]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(tmp_path, head_seconds=0.2, body_seconds=0.3)
    yield server
    server.stop()


def refusal(answer: Answer) -> tuple[int, str, str | None]:
    status, body = answer
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "field"}
    assert body["error"]["message"]
    return status, body["error"]["code"], body["error"]["field"]


def test_a_request_arrives_decoded_and_its_answer_is_json(running: RunningServer) -> None:
    headers = {"X-Namespace": "köln".encode(), "X-Mnemo-Door": "cli", "X-Mnemo-Agent": "a b"}
    status, body = running.ask("POST", "/v1/memories", b'{"content": "hello", "tags": ["a"]}', headers)
    assert status == 201
    assert body == {
        "content": "hello",
        "tags": ["a"],
        "namespace": "köln",
        "entry_point": "cli",
        "agent": "a b",
        "uid": os.geteuid(),
    }


def test_any_host_will_do_and_a_client_of_http_1_0_needs_none(running: RunningServer) -> None:
    assert parsed(running.send(b"GET /v1/memories/1 HTTP/1.1\r\nHost:\r\n\r\n"))[0] == 200
    assert parsed(running.send(b"GET /v1/memories/1 HTTP/1.1\r\nHost: evil.example\r\n\r\n"))[0] == 200
    assert parsed(running.send(b"GET /v1/memories/1 HTTP/1.0\r\n\r\n"))[0] == 200


def test_parts_of_the_path_and_parameters_arrive_typed(running: RunningServer) -> None:
    target = "/v1/memories/a%2Fb%20%C3%A9?limit=7&tags=x&tags=y+z&confirm=true&since=5&namespace=p"
    assert running.ask("GET", target) == (
        200,
        {"id": "a/b é", "limit": 7, "tags": ["x", "y z"], "confirm": True, "since": 5, "namespace": "p"},
    )


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", "missing_field", "content"),
        (b"{}", "missing_field", "content"),
        (b"[]", "bad_value", None),
        (b"null", "bad_value", None),
        (b"{", "bad_json", None),
        (b'{"content": "a"} x', "bad_json", None),
        (b"\xef\xbb\xbf{}", "bad_json", None),
        ('{"content": "a"}'.encode("utf-16"), "bad_json", None),
        (b'{"content": "\xff"}', "bad_json", None),
        (b'{"content": "\\ud800"}', "bad_json", None),
        (b'{"content": "\\ud800 and more"}', "bad_json", None),
        (b'{"content": "\xed\xa0\x80"}', "bad_json", None),
        (b'{"content": "a", "importance": NaN}', "bad_json", None),
        (b'{"content": "a", "importance": 1e999}', "bad_value", "importance"),
        (b'{"content": "a", "importance": 1.5}', "bad_value", "importance"),
        (b'{"content": "a", "event_at": ' + b"9" * 5000 + b"}", "bad_value", "event_at"),
        (b'{"content": 1}', "bad_value", "content"),
        (b'{"content": "a", "tags": ["b", "c", "d", 4]}', "bad_value", "tags[3]"),
        (b'{"content": "a", "pinned": 1}', "bad_value", "pinned"),
        (b'{"content": "a", "kind": "fancy"}', "bad_value", "kind"),
        (b'{"content": "a", "trace": {"action": "b"}}', "missing_field", "trace.step_number"),
        (b'{"content": "a", "trace": {"action": "b", "step_number": 1, "z": 2}}', "unknown_field", "trace.z"),
        (b'{"content": "a", "colour": 1}', "unknown_field", "colour"),
        (b'{"content": "a", "state": "active"}', "read_only", "state"),
        (b'{"content": "a", "strength": 1}', "read_only", "strength"),
        (b'{"content": ' + DEEP, "bad_value", "content"),
    ],
)
def test_a_bad_body_is_refused_by_name_and_changes_nothing(
    running: RunningServer, body: bytes, code: str, field: str | None
) -> None:
    assert refusal(running.ask("POST", "/v1/memories", body)) == (400, code, field)
    assert running.application.written == []


def test_a_field_that_this_request_cannot_set_is_not_said_to_be_the_daemons_own(running: RunningServer) -> None:
    _, body = running.ask("POST", "/v1/memories", b'{"content": "a", "state": "active"}')
    assert body["error"]["message"] == "`state` cannot be set by this request"


def test_a_lone_surrogate_is_called_by_its_name(running: RunningServer) -> None:
    _, body = running.ask("POST", "/v1/memories", b'{"content": "\\ud800"}')
    assert body["error"]["message"] == "the body is not JSON: a lone surrogate (byte 13)"


def test_json_nested_a_hundred_thousand_deep_is_refused(running: RunningServer) -> None:
    answer = running.ask("POST", "/v1/memories/batch", b'{"memories": [' + DEEP + b"]" * 100_000 + b"]}")
    assert refusal(answer) == (400, "bad_json", None)
    assert answer[1]["error"]["message"] == "the body is nested too deeply"


def test_a_route_without_a_body_takes_an_empty_object_and_nothing_else(running: RunningServer) -> None:
    assert running.ask("POST", "/v1/memories/1/restore")[0] == 200
    assert running.ask("POST", "/v1/memories/1/restore", b"{}")[0] == 200
    answer = running.ask("POST", "/v1/memories/1/restore", b'{"all": true}')
    assert refusal(answer) == (400, "unknown_field", "all")


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        ("limt=5", "unknown_parameter", "limt"),
        ("limit=0", "bad_value", "limit"),
        ("limit=501", "bad_value", "limit"),
        ("limit=five", "bad_value", "limit"),
        ("limit=", "bad_value", "limit"),
        ("limit=5&limit=6", "bad_value", "limit"),
        ("confirm=yes", "bad_value", "confirm"),
        ("since=1.5", "bad_value", "since"),
        ("tags=%FF", "bad_value", None),
        ("&".join("tags=a" for _ in range(521)), "bad_value", None),
    ],
)
def test_a_bad_query_string_is_refused_by_name(
    running: RunningServer, query: str, code: str, field: str | None
) -> None:
    assert refusal(running.ask("GET", f"/v1/memories?{query}")) == (400, code, field)


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"X-Mnemo-Door": "window"}, "X-Mnemo-Door"),
        ({"X-Mnemo-Agent": ""}, "X-Mnemo-Agent"),
        ({"X-Mnemo-Agent": "a" * 129}, "X-Mnemo-Agent"),
        ({"X-Mnemo-Agent": b"\xff"}, "X-Mnemo-Agent"),
        ({"X-Namespace": ""}, "X-Namespace"),
        ({"X-Namespace": "n" * 65}, "X-Namespace"),
        ({"X-Namespace": b"\xff"}, "X-Namespace"),
        ({"X-Namespace": "other"}, "namespace"),
    ],
)
def test_a_bad_header_is_refused_by_name(running: RunningServer, headers: dict[str, str], field: str) -> None:
    body = b'{"content": "a", "namespace": "mine"}'
    assert refusal(running.ask("POST", "/v1/memories", body, headers)) == (400, "bad_value", field)
    assert running.application.written == []


def test_one_namespace_in_two_places_is_no_contradiction(running: RunningServer) -> None:
    body = b'{"content": "a", "namespace": "mine"}'
    assert running.ask("POST", "/v1/memories", body, {"X-Namespace": "mine"})[1]["namespace"] == "mine"


def test_an_unknown_path_or_method_gets_the_one_error_shape(running: RunningServer) -> None:
    assert refusal(running.ask("GET", "/v1/nothing")) == (404, "no_route", None)
    assert refusal(running.ask("GET", "/")) == (404, "no_route", None)
    assert refusal(running.ask("GET", "/v1/memories/")) == (404, "no_route", None)
    answer = running.ask("DELETE", "/v1/memories")
    assert refusal(answer) == (405, "method_not_allowed", None)
    assert answer[1]["error"]["message"] == "/v1/memories takes GET, POST, not DELETE"
    assert b"\r\nAllow: GET, POST\r\n" in running.send(b"DELETE /v1/memories HTTP/1.1\r\nHost: x\r\n\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET /v1/memories/1 HTTP/1.1\r\n\r\n",
        b"GET /v1/memories/1 HTTP/9.9\r\n\r\n",
        b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\nX-A: b\x00c\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 1000 + b"\r\n",
        b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_request_that_is_no_http_is_refused_in_the_one_error_shape(running: RunningServer, sent: bytes) -> None:
    assert refusal(parsed(running.send(sent))) == (400, "bad_request", None)
    assert running.application.written == []


def test_a_body_over_the_limit_is_refused_before_it_is_sent(running: RunningServer) -> None:
    head = b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n"
    assert refusal(parsed(running.send(head))) == (413, "too_large", None)


def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_not(running: RunningServer) -> None:
    text = b"a" * ((1 << 20) - len(b'{"content":""}'))
    assert running.ask("POST", "/v1/memories", b'{"content":"' + text + b'"}')[0] == 201
    assert refusal(running.ask("POST", "/v1/memories", b'{"content":"' + text + b'a"}')) == (413, "too_large", None)
    # A route for many takes more.
    assert running.ask("POST", "/v1/memories/batch", b'{"memories":["' + text + b'a"]}')[0] == 200


def test_a_body_in_pieces_is_counted_while_it_comes(running: RunningServer) -> None:
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    sent = b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 17
    assert refusal(parsed(running.send(sent))) == (413, "too_large", None)


def test_a_packed_body_is_refused_unread(running: RunningServer) -> None:
    answer = running.ask("POST", "/v1/memories", b"\x1f\x8b\x08\x00", {"Content-Encoding": "gzip"})
    assert refusal(answer) == (400, "bad_request", "Content-Encoding")


def test_a_body_shorter_than_announced_is_not_waited_for_long(running: RunningServer) -> None:
    with running.connect() as client:
        client.sendall(b'POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"content": "a"}')
        assert refusal(parsed(received(client, 5))) == (408, "timeout", None)
    assert running.application.written == []


def test_a_body_that_drips_has_one_bound_for_the_whole(running: RunningServer) -> None:
    with running.connect() as client:
        client.sendall(b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            while time.monotonic() - began < 0.6:
                client.sendall(b" ")
                time.sleep(0.05)
        assert refusal(parsed(received(client, 5))) == (408, "timeout", None)


def test_a_body_longer_than_announced_is_refused_whole(running: RunningServer) -> None:
    sent = b'POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"content": "a"}, "b"\r\n\r\n'
    assert refusal(parsed(running.send(sent))) == (400, "bad_request", None)
    assert running.application.written == []


def test_a_head_that_drips_is_cut_off_and_an_idle_connection_is_not(running: RunningServer) -> None:
    with running.connect() as slow, running.connect() as idle:
        with contextlib.suppress(BrokenPipeError):
            for byte in b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\nX-Header: and so on":
                slow.sendall(bytes([byte]))
                time.sleep(0.01)
        assert refusal(parsed(received(slow, 5))) == (408, "timeout", None)
        idle.sendall(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert parsed(received(idle))[0] == 200


def test_the_second_head_on_a_connection_has_the_same_bound(running: RunningServer) -> None:
    with running.connect() as client:
        client.sendall(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert received(client, 0.3).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"GET /v1/mem")
        assert refusal(parsed(received(client, 5))) == (408, "timeout", None)


def test_a_half_sent_request_is_forgotten(running: RunningServer) -> None:
    for cut in (b"POST /v1/mem", b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"):
        with running.connect() as client:
            client.sendall(cut)
    assert running.ask("GET", "/v1/memories/1")[0] == 200
    assert running.application.written == []


def test_a_client_that_sends_expect_continue_is_answered(running: RunningServer) -> None:
    with running.connect() as client:
        client.sendall(b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b'{"content": "a"}')
        assert parsed(received(client))[0] == 201


def test_requests_sent_without_waiting_are_answered_in_order(running: RunningServer) -> None:
    requests = b"".join(b"GET /v1/memories/%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(100))
    answer = running.send(requests)
    assert [int(part[: part.index(b'"')]) for part in answer.split(b'{"id":"')[1:]] == list(range(100))


def test_a_handler_goes_on_when_its_client_hangs_up(running: RunningServer) -> None:
    with running.connect() as client:
        client.sendall(b"POST /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.application.begun.wait(5)
    assert running.application.finished.wait(5)
    assert not running.application.cancelled.is_set()


def test_a_bug_is_logged_once_and_reported_by_its_number_alone(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = running.ask("GET", "/v1/fail")
    assert refusal(answer) == (500, "internal", None)
    message = answer[1]["error"]["message"]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.getMessage().split()[1] == message.split()[-1]
    assert "secret" not in message


def test_a_handlers_own_broken_connection_is_not_taken_for_the_clients(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert refusal(running.ask("GET", "/v1/lost")) == (500, "internal", None)
    assert len(caplog.records) == 1


def test_the_errors_of_the_store_have_their_own_statuses(running: RunningServer) -> None:
    answer = running.ask("GET", "/v1/busy")
    assert refusal(answer) == (429, "busy", None)
    assert answer[1]["error"]["message"] == "300 writes are waiting; try again in a moment"
    assert b"\r\nRetry-After: 1\r\n" in running.send(b"GET /v1/busy HTTP/1.1\r\nHost: x\r\n\r\n")
    assert refusal(running.ask("GET", "/v1/full")) == (507, "disk_full", None)


def test_a_stream_arrives_whole_and_a_broken_one_is_seen_to_be_broken(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.closing(http.client.HTTPConnection("localhost")) as connection:
        connection.sock = running.connect()
        connection.request("GET", "/v1/export")
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/x-ndjson"
        assert response.read() == b"0\n1\n2\n"
        connection.request("GET", "/v1/break")
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            connection.getresponse().read()
    assert [record.getMessage() for record in caplog.records] == ["GET /v1/break broke off"]


def test_a_client_that_does_not_read_is_let_go(tmp_path: Path) -> None:
    running = RunningServer(tmp_path, reader_seconds=0.2)
    try:
        with running.connect() as client:
            client.sendall(b"GET /v1/large HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: running.connections() == 1)
            until(lambda: running.connections() == 0)
            answer = received(client)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert len(answer) < 8 << 20
        # One that reads gets all of it.
        assert len(running.ask("GET", "/v1/large")[1]["content"]) == 8 << 20
    finally:
        running.stop()


def test_a_thousand_clients_at_once_are_all_answered(running: RunningServer) -> None:
    assert raise_open_files_limit() >= 2100
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(running.connect()) for _ in range(1000)]
        for client in clients:
            client.sendall(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(client.recv(100).startswith(b"HTTP/1.1 200 ") for client in clients)


@pytest.fixture
def of_processes(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of six connections, which takes each for one of the process that `process` names."""
    process_of: list[RunningServer] = []
    server = RunningServer(
        tmp_path, connections_max=6, credentials=lambda connection: Peer(os.geteuid(), process_of[0].process)
    )
    process_of.append(server)
    server.process = 1
    yield server
    server.stop()


def refused_answer(running: RunningServer) -> bytes:
    with running.connect() as client:
        return received(client, 10)


def test_a_process_leaves_a_connection_to_others_and_one_too_many_is_refused_with_the_reason(
    of_processes: RunningServer,
) -> None:
    running = of_processes
    with contextlib.ExitStack() as stack:

        def connect_and_ask() -> None:
            client = stack.enter_context(running.connect())
            client.sendall(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")

        for _ in range(5):
            connect_and_ask()
        answer = refused_answer(running)
        assert refusal(parsed(answer)) == (503, "busy", None)
        assert b"this process has 5 connections open, the most that one process may have" in answer
        running.process = 2
        connect_and_ask()
        answer = refused_answer(running)
        assert refusal(parsed(answer)) == (503, "busy", None)
        assert b"too many connections are open" in answer
        assert b"\r\nRetry-After: 1\r\n" in answer
    # Those are gone, and there is room again.
    until(lambda: running.ask("GET", "/v1/memories/1")[0] == 200)


def test_large_bodies_wait_for_room_and_others_are_answered_meanwhile(tmp_path: Path) -> None:
    running = RunningServer(tmp_path)
    room = running.server.bodies.room
    batch = b'{"memories": ["a"]}'.ljust(32 << 20)
    head = b"POST /v1/memories/batch HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    head %= len(batch)
    try:
        with running.connect() as first, running.connect() as second, running.connect() as third:
            first.sendall(head + batch[:1000])
            second.sendall(head + batch[:1000])
            until(lambda: running.server.requests.in_flight == 2)
            third.sendall(head + batch[:1000])
            until(lambda: running.on_loop(lambda: room.waiting) == 1)
            assert running.ask("POST", "/v1/memories", b'{"content": "small"}')[0] == 201
            assert running.ask("GET", "/v1/memories/1")[0] == 200
            first.close()
            third.sendall(batch[1000:])
            assert parsed(received(third, 10))[0] == 200
    finally:
        running.stop()


def test_a_large_body_for_which_there_is_no_room_in_time_is_refused_unread(tmp_path: Path) -> None:
    running = RunningServer(tmp_path, body_seconds=0.2)
    room, client = running.server.bodies.room, (OWNER_GRANT.name, os.getpid())
    try:
        running.on_loop(lambda: asyncio.ensure_future(room.enter(client, 64 << 20)))
        with running.connect() as large:
            large.sendall(b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1000)
            answer = received(large, 10)
        assert refusal(parsed(answer)) == (429, "busy", None)
        assert b"\r\nRetry-After: 5\r\n" in answer
        assert b"\r\nConnection: close\r\n" in answer
    finally:
        running.stop()


def test_a_client_that_reads_none_of_its_large_answers_gets_no_more_until_it_reads(of_processes: RunningServer) -> None:
    running, server = of_processes, of_processes.server
    server.slots.connections_max = 40
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(running.connect()) for _ in range(12)]
        for client in clients:
            client.sendall(b"GET /v1/large HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: running.on_loop(lambda: server.reads.waiting) >= 12 - 4 - 3)  # 32 MiB, and three that ran then
        running.process = 2
        assert running.ask("GET", "/v1/memories/1")[0] == 200
        assert 32 << 20 <= server.unread.bytes <= 60 << 20
        for client in clients:
            unread = 8 << 20
            while unread > 0:
                unread -= len(client.recv(1 << 20))
        until(lambda: server.unread.bytes == 0)


def test_a_read_whose_client_left_before_its_turn_is_not_begun_and_a_write_is(running: RunningServer) -> None:
    unread, client = running.server.unread, (OWNER_GRANT.name, os.getpid())
    count = running.on_loop(unread.add, client, 32 << 20)
    for sent in (
        b"GET /v1/memories/never HTTP/1.1\r\nHost: x\r\n\r\n",
        b'POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"content": "a"}',
    ):
        in_flight = running.server.requests.in_flight
        with running.connect() as leaving:
            leaving.sendall(sent)
            until(lambda in_flight=in_flight: running.server.requests.in_flight == in_flight + 1)  # type: ignore[misc]
    until(lambda: running.on_loop(lambda: all(one.transport is None for one in running.server.http.connections)))
    running.on_loop(unread.give_back, client, count)
    until(lambda: running.server.requests.in_flight == 0)
    assert (running.application.shown, running.application.written) == ([], ["a"])


def test_a_daemon_without_files_left_accepts_again_when_it_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_SECONDS", 0.01)
    refused = [OSError(errno.EMFILE, "Too many open files")]
    listener = bind(tmp_path / "mnemo.sock")

    class WithoutFiles(socket.socket):
        def accept(self) -> Any:
            if refused:
                raise refused.pop()
            return super().accept()

    async def main() -> None:
        server = HttpServer([])
        await server.start(WithoutFiles(fileno=listener.socket.detach()))
        reader, writer = await asyncio.open_unix_connection(listener.path)
        writer.write(b"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")
        writer.close()
        await server.drain()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "no connection can be accepted now: Too many open files"
    ]


def test_a_changed_table_also_holds_for_connections_that_were_accepted_and_not_begun(
    running: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "BEGUN_AT_ONCE", 0)
    with running.connect() as client:
        client.sendall(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: running.server.slots.open_of(OWNER_GRANT.name) == 1)
        access = AccessTable([AccessEntry(user=os.geteuid(), program="/bin/sh", right="read")])
        running.on_loop(running.server.set_access, access)
        monkeypatch.undo()
        assert received(client, 10) == b""
    until(lambda: running.server.slots.open_of(OWNER_GRANT.name) == 0)
    assert running.application.shown == []
    assert running.ask("GET", "/v1/memories/1")[0] == 200


def test_another_users_connection_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = RunningServer(tmp_path, credentials=lambda connection: Peer(uid=os.geteuid() + 1, pid=77))
    try:
        sent = b'POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"content": "a"}'
        assert refusal(parsed(running.send(sent))) == (403, "forbidden", None)
    finally:
        running.stop()
    assert running.application.written == []
    assert caplog.records[0].getMessage() == f"refused a connection of user {os.geteuid() + 1}, process 77"


def test_a_peer_the_system_does_not_name_is_refused(tmp_path: Path) -> None:
    def unknown(connection: socket.socket) -> Peer:
        raise OSError(92, "Protocol not available")

    running = RunningServer(tmp_path, credentials=unknown)
    try:
        assert refusal(parsed(running.send(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n"))) == (
            403,
            "forbidden",
            None,
        )
    finally:
        running.stop()


def test_stopping_finishes_what_was_begun_and_closes_the_idle_at_once(tmp_path: Path) -> None:
    running = RunningServer(tmp_path)
    with running.connect() as client, running.connect() as idle, running.connect() as late:
        late.sendall(b"POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{")
        client.sendall(b"POST /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.application.begun.wait(5)
        stopper = threading.Thread(target=running.stop)
        stopper.start()
        assert received(idle, 5) == b""
        assert not running.application.finished.is_set()
        late.sendall(b'"content": "a"}')
        answer = received(client, 5)
        stopper.join(2)
        assert not stopper.is_alive()
        status, body = parsed(answer)
        assert (status, body["content"]) == (200, "at last")
        assert b"\r\nConnection: close\r\n" in answer
        assert parsed(received(late))[0] == 201
    assert not running.path.exists()


def test_a_task_that_does_not_end_is_cancelled_after_its_deadline(tmp_path: Path) -> None:
    running = RunningServer(tmp_path, drain_seconds=0.3)
    with running.connect() as client:
        client.sendall(b"POST /v1/endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert running.application.begun.wait(5)
        assert 0.3 <= running.stop() < 2
    assert running.application.cancelled.is_set()


DAEMON = textwrap.dedent(
    """
    import os, sys, time
    from pathlib import Path
    from mnemo_daemon.server import sockets
    listener = sockets.listen(Path(sys.argv[1]), os.environ)
    print("bound", flush=True)
    sys.stdin.readline()  # everything heavy is loaded from here on
    import asyncio
    import msgspec
    from mnemo_client.protocol.operations import Operation
    from mnemo_client.protocol.primitives import NoFields
    from mnemo_daemon.server.router import Reply, Route
    from mnemo_daemon.server.http_server import HttpServer, serve
    from mnemo_daemon.server.service_managers import Notifier

    class Pid(msgspec.Struct):
        pid: int

    async def answer(request):
        print("handling", flush=True)
        await asyncio.sleep(float(sys.argv[2]))
        return Reply(Pid(os.getpid()))

    async def close():
        print("closed", flush=True)

    async def main():
        server = HttpServer([Route(Operation("GET", "/v1/pid", "", Pid, NoFields), answer)])
        await serve(server, listener, notifier=Notifier.from_environ(os.environ), close=close,
                    reload=lambda: print("reloaded", flush=True))
        print("served", flush=True)

    asyncio.run(main())
    """
)


@contextlib.contextmanager
def process(path: Path, seconds: float = 0.0, **options: Any) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", DAEMON, str(path), str(seconds)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as daemon:
        try:
            yield daemon
        finally:
            daemon.kill()


def said(daemon: subprocess.Popen[str]) -> str:
    assert daemon.stdout is not None
    return daemon.stdout.readline().strip()


def test_a_request_waits_in_the_backlog_until_the_daemon_is_ready_and_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    path = tmp_path / "mnemo.sock"
    with process(path, 0.3) as daemon, socket.socket(socket.AF_UNIX) as client:
        assert said(daemon) == "bound"
        client.settimeout(20)
        client.connect(str(path))  # nothing but the socket is there yet
        client.sendall(b"GET /v1/pid HTTP/1.1\r\nHost: x\r\n\r\n")
        assert daemon.stdin is not None
        daemon.stdin.write("go on\n")
        daemon.stdin.flush()
        assert said(daemon) == "handling"
        daemon.send_signal(signal.SIGHUP)
        assert said(daemon) == "reloaded"
        daemon.send_signal(signal.SIGTERM)
        assert parsed(received(client, 20)) == (200, {"pid": daemon.pid})
        out, err = daemon.communicate(timeout=20)
        assert (out, err, daemon.returncode) == ("closed\nserved\n", "", 0)
    assert not path.exists()
