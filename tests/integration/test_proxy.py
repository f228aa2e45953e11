"""`mnemo proxy` passes requests and answers byte for byte, whatever the model server, client or daemon does. SPEC 19"""

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_daemon import RunningDaemon
from tests.support.samples import quick_folder
from tests.support.scripted_upstream import (
    STREAM_HEAD,
    WAIT_SECONDS,
    RawRequest,
    RunningProxy,
    ScriptedUpstream,
    UpstreamConnection,
    answer_of,
    chat_answer,
    chunk,
    running_proxy,
)

COMMAND = [sys.executable, "-m", "mnemo_client.cli.main"]


@pytest.fixture(scope="module")
def absent() -> Iterator[RunningDaemon]:
    """The folder of a daemon that does not run."""
    with quick_folder() as scratch:
        yield RunningDaemon(scratch / "data", {"XDG_CACHE_HOME": str(scratch / "cache")})


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with contextlib.closing(ScriptedUpstream(lambda _, request: answer_of(request.body))) as server:
        yield server


@pytest.fixture(scope="module")
def shared_proxy(absent: RunningDaemon, upstream: ScriptedUpstream) -> Iterator[RunningProxy]:
    with running_proxy(absent, upstream.address) as started:
        yield started


@pytest.fixture
def proxy(shared_proxy: RunningProxy, upstream: ScriptedUpstream) -> RunningProxy:
    """The proxy of the module, whose server has had no request and echoes bodies."""
    upstream.requests.clear()
    upstream.script = lambda _, request: answer_of(request.body)
    return shared_proxy


def raw_post(proxy: RunningProxy, path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{proxy.port}", "Connection: close", *headers]
    return proxy.exchange("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)


def split(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    return line, {name: value.strip() for name, _, value in (each.partition(":") for each in lines)}, body


def wait_until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}).encode()


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/api/chat", "/v1/messages", "/v1/other?a=%2F&b"]
)
def test_a_request_and_its_answer_pass_byte_for_byte(
    proxy: RunningProxy, upstream: ScriptedUpstream, path: str
) -> None:
    body = b'{"messages": [{"role": "user", "content": "caf\xc3\xa9"}],\r\n  "temperature": 1e-1, "seed": 1}\n'
    upstream.script = lambda _, request: answer_of(request.body, "203 Well then", X_Count="1", x_lower="a  b")
    line, headers, got = split(raw_post(proxy, path, body, "X-Odd-CASE: yes", "Content-Type: application/json"))
    (request,) = upstream.requests
    assert (request.line, request.body) == (f"POST {path} HTTP/1.1", body)
    assert (line, got) == ("HTTP/1.1 203 Well then", body)
    assert {"X-Count", "x-lower", "Content-Type", "Content-Length", "Date"} | {"Connection"} == headers.keys()
    assert headers["x-lower"] == "a  b"
    assert ("X-Odd-CASE", "yes") in request.headers
    assert request.values("Host") == [f"127.0.0.1:{upstream.port}"]
    assert request.values("Via") == [f"1.1 mnemo-{proxy.port}"]
    sent = {name.lower() for name, _ in request.headers}
    assert sent == {"host", "x-odd-case", "content-type", "content-length", "via"}, "nothing is added"


@pytest.mark.parametrize("path", ["/a/../b", "//double//slash", "/%2e%2e/%41", "/q?x=1&x=%20+"])
def test_a_path_is_not_normalized(proxy: RunningProxy, upstream: ScriptedUpstream, path: str) -> None:
    data = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nConnection: close\r\n\r\n".encode("latin-1")
    assert split(proxy.exchange(data))[0] == "HTTP/1.1 200 OK"
    assert upstream.requests[0].line == f"GET {path} HTTP/1.1"


def test_repeated_headers_keep_their_order_and_headers_of_one_connection_do_not_pass(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    upstream.script = lambda _, __: answer_of(
        b"{}", Set_Cookie="a=1\r\nSet-Cookie: b=2", Connection="x-hop", X_Hop="1", Keep_Alive="timeout=5",
        Proxy_Authenticate="Basic", Trailer="X-T", Upgrade="h2c",
    )  # fmt: skip
    answer = raw_post(
        proxy, "/v1/chat/completions", CHAT, "Connection: keep-alive, X-Secret-Hop", "X-Secret-Hop: 1",
        "Keep-Alive: timeout=9", "Proxy-Authorization: Basic eA==", "Proxy-Connection: close", "TE: trailers",
        "Upgrade: websocket", "Cookie: c=3", "X-Mnemo-Extract: false", "Via: 1.0 before", "X-A: 1", "X-A: 2",
    )  # fmt: skip
    (request,) = upstream.requests
    sent = [name.lower() for name, _ in request.headers]
    assert sorted(sent) == sorted(["host", "cookie", "x-a", "x-a", "via", "content-length"])
    assert request.values("X-A") == ["1", "2"]
    assert request.values("Via") == [f"1.0 before, 1.1 mnemo-{proxy.port}"]
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert [line for line in lines if line.startswith("Set-Cookie")] == ["Set-Cookie: a=1", "Set-Cookie: b=2"]
    names = {line.partition(":")[0].lower() for line in lines[1:]}
    assert not names & {"x-hop", "keep-alive", "proxy-authenticate", "trailer", "upgrade"}


def test_pieces_of_an_answer_arrive_while_it_is_made(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    go = threading.Event()

    def script(connection: UpstreamConnection, _: RawRequest) -> None:
        connection.send(STREAM_HEAD + chunk(b"data: 1\n\n"))
        assert go.wait(WAIT_SECONDS)
        connection.send(chunk(b"data: 2\n\n") + chunk(b""))

    upstream.script = script
    with proxy.connect() as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nConnection: close\r\n"
        connection.sendall(f"{head}Content-Length: {len(CHAT)}\r\n\r\n".encode() + CHAT)
        received = b""
        while b"data: 1\n\n" not in received:
            received += connection.recv(65536)
        go.set()
        while piece := connection.recv(65536):
            received += piece
    assert received.endswith(b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")


def test_pieces_of_a_request_arrive_while_it_is_sent(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    seen = threading.Event()

    def script(connection: UpstreamConnection, request: RawRequest) -> bytes:
        assert request.values("Content-Length") == [str(2 << 20)]
        first = connection.take(1 << 20)
        seen.set()
        return answer_of(first + connection.take(1 << 20))

    with (
        contextlib.closing(ScriptedUpstream(script, with_body=False)) as slow, quick_folder() as scratch,
        running_proxy(RunningDaemon(scratch / "data"), slow.address) as own, own.connect() as connection,
    ):  # fmt: skip
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{own.port}\r\nConnection: close\r\n"
        connection.sendall(f"{head}Content-Length: {2 << 20}\r\n\r\n".encode() + b"a" * (1 << 20))
        assert seen.wait(WAIT_SECONDS)
        connection.sendall(b"b" * (1 << 20))
        received = b""
        while piece := connection.recv(1 << 20):
            received += piece
    assert split(received)[2] == b"a" * (1 << 20) + b"b" * (1 << 20)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_bodies_of_a_megabyte_pass_in_both_directions(
    proxy: RunningProxy, upstream: ScriptedUpstream, is_chunked: bool
) -> None:
    body = os.urandom(1 << 20)
    upstream.script = lambda _, request: (
        STREAM_HEAD + b"".join(chunk(request.body[n : n + 7777]) for n in range(0, 1 << 20, 7777)) + chunk(b"")
    )
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=WAIT_SECONDS)
    pieces = iter([body[:1000], body[1000:]]) if is_chunked else body
    connection.request("POST", "/v1/messages", body=pieces, encode_chunked=is_chunked,
                       headers={"Transfer-Encoding": "chunked"} if is_chunked else {})  # fmt: skip
    assert connection.getresponse().read() == body
    assert upstream.requests[0].body == body
    assert bool(upstream.requests[0].values("Transfer-Encoding")) is is_chunked
    connection.close()


def test_a_client_that_hangs_up_hangs_up_at_the_model_server(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    ended: list[bool] = []

    def script(connection: UpstreamConnection, request: RawRequest) -> None:
        if "stream" in request.line:
            connection.send(STREAM_HEAD + chunk(b"data: 1\n\n"))
        ended.append(connection.wait_for_end())

    upstream.script = script
    for path in ("/v1/stream", "/v1/silence"):
        with proxy.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n\r\n".encode())
            wait_until(lambda: any(path in each.line for each in upstream.requests))  # noqa: B023
    assert wait_until(lambda: len(ended) == 2)
    assert ended == [True, True]


def test_an_endless_stream_passes_in_bounded_memory(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    piece = chunk(b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 60_000}}]}).encode() + b"\n\n")

    def script(connection: UpstreamConnection, _: RawRequest) -> None:
        connection.send(STREAM_HEAD)
        while True:
            connection.send(piece)

    upstream.script = script
    status = Path(f"/proc/{proxy.process.pid}/status")

    def kilobytes(name: str) -> int:
        return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(name)))

    before = kilobytes("VmRSS")
    with proxy.connect() as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n"
        connection.sendall(f"{head}Content-Length: {len(CHAT)}\r\n\r\n".encode() + CHAT)
        received = 0
        while received < 128 << 20:
            received += len(connection.recv(1 << 20))
    assert kilobytes("VmHWM") - before < 40 << 10, "8 MiB of it are copied"
    assert wait_until(lambda: proxy.command("status")["skipped"].get("interrupted"))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_compressed_bodies_pass_as_they_are(proxy: RunningProxy, upstream: ScriptedUpstream, encoding: str) -> None:
    packed = {"gzip": gzip.compress(CHAT), "deflate": zlib.compress(CHAT), "br": b"\x0b\x02\x80not really"}[encoding]
    upstream.script = lambda _, request: answer_of(request.body, Content_Encoding=encoding)
    _, headers, got = split(raw_post(proxy, "/v1/chat/completions", packed, f"Content-Encoding: {encoding}",
                                     "Accept-Encoding: gzip, br"))  # fmt: skip
    assert (got, headers["Content-Encoding"]) == (packed, encoding)
    assert upstream.requests[0].body == packed
    assert upstream.requests[0].values("Accept-Encoding") == ["gzip, br"]
    if encoding == "br":
        assert wait_until(lambda: proxy.command("status")["skipped"].get("encoding"))
        assert "1 compressed otherwise than by gzip or deflate: not read" in proxy.text("status")


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: +5",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding : chunked",),
        ("X-A: 1", " folded: 2"),
        ("X-A: a\x00b",),
        ("Host: elsewhere.example",),
    ],
)
def test_a_request_that_two_servers_could_read_in_two_ways_is_refused(
    proxy: RunningProxy, upstream: ScriptedUpstream, lines: tuple[str, ...]
) -> None:
    head = "\r\n".join(["POST /v1/messages HTTP/1.1", f"Host: 127.0.0.1:{proxy.port}", *lines, "", ""])
    line = split(proxy.exchange(head.encode() + b"0\r\n\r\nGET /secret HTTP/1.1\r\nHost: a\r\n\r\n"))[0]
    assert line.split()[1] in ("400", "421"), line
    assert not upstream.requests


@pytest.mark.parametrize(
    ("location", "passed"),
    [
        ("/v1/other?x=1", "/v1/other?x=1"),
        ("http://127.0.0.1:{port}/v1/other", "/v1/other"),
        ("http://127.0.0.1:{port}", "/"),
        ("http://localhost:9/x", "http://localhost:9/x"),
        ("https://attacker.example/v1/chat/completions", None),
        ("//attacker.example/x", None),
        ("\\\\attacker.example/x", None),
        ("http://127.0.0.1@attacker.example/x", None),
    ],
)
def test_a_redirect_is_not_followed_and_leads_to_no_other_host(
    proxy: RunningProxy, upstream: ScriptedUpstream, location: str, passed: str | None
) -> None:
    upstream.script = lambda _, __: answer_of(b"{}", "307 Go", Location=location.format(port=upstream.port))
    line, headers, body = split(raw_post(proxy, "/v1/messages", CHAT))
    assert len(upstream.requests) == 1
    if passed is None:
        assert line.split()[1] == "502"
        assert json.loads(body)["error"]["code"] == "remote_redirect"
    else:
        assert (line.split()[1], headers["Location"]) == ("307", passed)


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "429 Too Many", "500 Oh", "503 Loading"])
def test_errors_of_the_model_server_pass_as_they_are(
    proxy: RunningProxy, upstream: ScriptedUpstream, status: str
) -> None:
    upstream.script = lambda _, __: answer_of(b'{"error": "as it is"}', status, Retry_After="7")
    line, headers, body = split(raw_post(proxy, "/v1/chat/completions", CHAT))
    assert (line, headers["Retry-After"], body) == (f"HTTP/1.1 {status}", "7", b'{"error": "as it is"}')


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH"])
def test_every_method_passes_without_a_body_that_was_not_there(
    proxy: RunningProxy, upstream: ScriptedUpstream, method: str
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    upstream.script = lambda _, __: head if method == "HEAD" else head + b"hello"
    data = f"{method} /api/tags HTTP/1.1\r\nHost: localhost:{proxy.port}\r\nConnection: close\r\n\r\n".encode()
    _, headers, body = split(proxy.exchange(data))
    assert headers.keys() == {"Content-Length", "Date", "Connection"}
    assert (headers["Content-Length"], body) == ("5", b"" if method == "HEAD" else b"hello")
    assert upstream.requests[0].line == f"{method} /api/tags HTTP/1.1"
    assert not upstream.requests[0].body


@pytest.mark.parametrize("ending", [b"9\r\ndata: ", b"zz\r\n", b""])
def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(
    proxy: RunningProxy, upstream: ScriptedUpstream, ending: bytes
) -> None:
    upstream.script = lambda connection, _: connection.send(STREAM_HEAD + chunk(b"data: 1\n\n") + ending)
    received = raw_post(proxy, "/v1/chat/completions", CHAT)
    assert b"data: 1\n\n" in received or received.startswith(b"HTTP/1.1 502")
    assert not received.endswith(b"0\r\n\r\n")


def test_a_model_server_that_does_not_run_or_speaks_no_http_is_an_error_of_the_gateway(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    upstream.script = lambda connection, _: connection.send(b"SSH-2.0-OpenSSH\r\n\r\n")
    assert split(raw_post(proxy, "/v1/chat/completions", CHAT))[0].split()[1] == "502"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with quick_folder() as scratch, running_proxy(RunningDaemon(scratch / "data"), nobody) as own:
            line, _, body = split(raw_post(own, "/v1/chat/completions", CHAT))
    assert line.split()[1] == "502"
    assert json.loads(body)["error"]["code"] == "no_upstream"


def test_a_proxy_that_would_pass_to_itself_or_to_any_server_refuses(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    via = f"Via: 1.1 mnemo-{proxy.port}"
    assert split(raw_post(proxy, "/v1/messages", CHAT, via))[0].split()[1] == "508"
    assert split(raw_post(proxy, "http://elsewhere.example/v1/messages", CHAT))[0].split()[1] == "421"
    assert not upstream.requests


@pytest.mark.parametrize(
    "lines",
    [("Host: attacker.example",), ("Host: localhost", "Origin: https://attacker.example"),
     ("Host: localhost", "Sec-Fetch-Site: cross-site")],
)  # fmt: skip
def test_a_web_page_cannot_use_the_proxy(
    proxy: RunningProxy, upstream: ScriptedUpstream, lines: tuple[str, ...]
) -> None:
    host, *others = (line.replace("localhost", f"localhost:{proxy.port}") for line in lines)
    head = "\r\n".join(["POST /v1/messages HTTP/1.1", host, *others, "Content-Length: 2", "Connection: close", "", ""])
    assert split(proxy.exchange(head.encode() + b"{}"))[0].split()[1] in ("403", "421")
    assert not upstream.requests


def test_control_routes_need_the_token_and_are_otherwise_paths_like_any_other(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    for headers in ((), ("Authorization: Bearer 0",)):
        raw_post(proxy, "/.mnemo/flush", b"", *headers)
    assert [each.line for each in upstream.requests] == ["POST /.mnemo/flush HTTP/1.1"] * 2


def test_no_key_and_no_text_is_in_a_file_or_in_the_status(
    proxy: RunningProxy, upstream: ScriptedUpstream, absent: RunningDaemon
) -> None:
    key = "sk-proj-0123456789abcdefghijklmnop"
    upstream.script = lambda _, __: answer_of(chat_answer("An answer that is nowhere."))
    for number in range(3):
        body = json.dumps({"messages": [{"role": "user", "content": f"A text that is nowhere {number}"}]}).encode()
        raw_post(proxy, "/v1/chat/completions", body, f"Authorization: Bearer {key}")
    status = wait_until(lambda: (shown := proxy.command("status"))["turns_in_windows"] >= 4 and shown)
    wait_until(lambda: list((absent.folder / "run" / "proxy" / "seen").glob("*.json")))
    files = [path for path in absent.folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.name == "proxy.log", path
    kept = json.dumps(status).encode() + b"".join(path.read_bytes() for path in files)
    assert key[-16:].encode() not in kept
    assert b"nowhere" not in kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--upstream"),
        (("--upstream", "http://api.openai.com"), "--allow-remote api.openai.com"),
        (("--upstream", "http://127.0.0.1.attacker.example"), "--allow-remote"),
        (("--upstream", "http://attacker.example", "--allow-remote", "example.attacker"), "--allow-remote"),
        (("--upstream", "http://user:secret@127.0.0.1:1"), "without user"),
        (("--upstream", "ftp://127.0.0.1"), "no address"),
        (("--upstream", "127.0.0.1:11434"), "no address"),
        (("--upstream", "http://127.0.0.1:1", "--budget", "5"), "--budget"),
    ],
)
def test_a_wrong_model_server_is_refused_before_anything_listens(
    absent: RunningDaemon, words: tuple[str, ...], said: str
) -> None:
    ended = subprocess.run([*COMMAND, "proxy", "--port", "0", *words], env=absent.environ, capture_output=True,
                           text=True, timeout=60)  # fmt: skip
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "secret" not in ended.stderr


def test_a_second_proxy_and_a_status_without_one_say_so(proxy: RunningProxy, absent: RunningDaemon) -> None:
    second = subprocess.run([*COMMAND, "proxy", "--upstream", "http://127.0.0.1:1", "--port", "0"],
                            env=absent.environ, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert (second.returncode, "runs already" in second.stderr) == (2, True)
    with quick_folder() as scratch:
        none = RunningDaemon(scratch / "data")
        for word in ("status", "flush"):
            ended = subprocess.run([*COMMAND, "proxy", word], env=none.environ, capture_output=True, timeout=60)
            assert ended.returncode == 3


def test_doctor_says_where_a_proxy_passes_what_is_said(absent: RunningDaemon, proxy: RunningProxy) -> None:
    def found(daemon: RunningDaemon) -> tuple[str, str]:
        ended = subprocess.run([*COMMAND, "doctor", "--json"], env=daemon.environ, capture_output=True, timeout=60)
        (check,) = [each for each in json.loads(ended.stdout)["checks"] if each["name"] == "proxy"]
        return check["outcome"], check["found"]

    assert found(absent) == ("ok", f"{proxy.address} passes to a model server on this machine")
    with quick_folder() as scratch:
        far = RunningDaemon(scratch / "data")
        with running_proxy(far, "https://models.example", "--allow-remote", "models.example"):
            outcome, said = found(far)
        assert (outcome, "models.example, off this machine" in said) == ("warn", True)
        assert found(far) == ("ok", "none runs")


def test_a_proxy_ends_at_sigterm_within_its_time_though_a_stream_is_open(absent: RunningDaemon) -> None:
    def script(connection: UpstreamConnection, _: RawRequest) -> None:
        connection.send(STREAM_HEAD + chunk(b"data: 1\n\n"))
        connection.wait_for_end()

    with (
        contextlib.closing(ScriptedUpstream(script)) as server, quick_folder() as scratch,
        running_proxy(RunningDaemon(scratch / "data"), server.address) as own, own.connect() as connection,
    ):  # fmt: skip
        connection.sendall(f"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{own.port}\r\n\r\n".encode())
        assert connection.recv(65536)
        own.process.send_signal(signal.SIGTERM)
        assert own.process.wait(WAIT_SECONDS) == 0
