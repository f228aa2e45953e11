"""`mnemo proxy` under attack: what smuggles, hangs, swells or would give a key away. SPEC 19"""

import contextlib
import gzip
import http.client
import json
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_proxy import CHAT, raw_post, split, wait_until
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

SECOND = "GET /secret HTTP/1.1\r\nHost: a\r\n\r\n"
KEY = "sk-proj-0123456789abcdefghijklmnop"


@pytest.fixture
def absent() -> Iterator[RunningDaemon]:
    """The folder of a daemon that does not run."""
    with quick_folder() as scratch:
        yield RunningDaemon(scratch / "data")


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with contextlib.closing(ScriptedUpstream(lambda _, request: answer_of(request.body))) as server:
        yield server


@pytest.fixture
def proxy(absent: RunningDaemon, upstream: ScriptedUpstream) -> Iterator[RunningProxy]:
    with running_proxy(absent, upstream.address) as started:
        yield started


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/messages HTTP/1.1\nHost: {host}\nContent-Length: 0\n\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nX-A: 1\nContent-Length: 5\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nX-A: 1\rContent-Length: 5\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0x5\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "POST /v1/messages HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    ],
)  # fmt: skip
def test_a_request_with_a_second_one_hidden_in_it_brings_no_second_one(
    proxy: RunningProxy, upstream: ScriptedUpstream, head: str
) -> None:
    data = head.format(host=f"127.0.0.1:{proxy.port}") + "0\r\n\r\n" + SECOND
    with proxy.connect() as connection:
        connection.sendall(data.encode("latin-1"))
        connection.settimeout(5.0)
        received = b""
        with contextlib.suppress(TimeoutError):
            while piece := connection.recv(65536):
                received += piece
    assert received.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4")), received or "nothing"
    assert b"HTTP/1.1 2" not in received
    assert not [each.line for each in upstream.requests if "secret" in each.line]
    # A body that turns out wrong after its head was passed on never comes to its end at the model server.
    assert not [each for each in upstream.requests if each.body == b"hello"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 60\r\n\r\n{}"),
        (200, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\n folded: 2\r\n\r\n{}"),
        (200, b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\rSet-Cookie: b\r\n\r\n{}"),
        (200, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\nSet-Cookie: b\r\n\r\n{}"),
    ],
)
def test_an_answer_with_a_second_one_hidden_in_it_brings_no_second_one(
    proxy: RunningProxy, upstream: ScriptedUpstream, status: int, answer: bytes
) -> None:
    """The one that comes has one length and plain lines; what the model server sent after it goes to nobody."""
    upstream.script = lambda connection, _: connection.send(answer + b"HTTP/1.1 200 OK\r\nX-Hidden: 1\r\n\r\n")
    request = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nContent-Length: 2\r\n\r\n{{}}"
    with proxy.connect() as connection:
        connection.sendall(request.encode())
        first = http.client.HTTPResponse(connection)
        first.begin()
        body = first.read()
        assert first.status == status
        assert status == 502 or body == b"{}"
        assert b"X-Hidden" not in bytes(str(first.getheaders()), "utf-8")
        lengths = [name.lower() for name, _ in first.getheaders()]
        assert (lengths.count("content-length") + lengths.count("transfer-encoding")) == 1
        upstream.script = lambda _, __: answer_of(b"the second", X_Second="1")
        with contextlib.suppress(ConnectionError):  # where the first was an error that ends the connection
            connection.sendall(request.encode())
            second = http.client.HTTPResponse(connection)
            second.begin()
            assert (second.read(), second.getheader("X-Second")) == (b"the second", "1")


def test_model_servers_and_clients_that_stand_still_hold_up_nobody(
    proxy: RunningProxy, upstream: ScriptedUpstream
) -> None:
    go = threading.Event()

    def script(connection: UpstreamConnection, request: RawRequest) -> bytes | None:
        if "silent" not in request.line:
            return answer_of(request.body)
        connection.send(STREAM_HEAD[:20])
        assert go.wait(WAIT_SECONDS)
        return None

    upstream.script = script
    head = f"HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n"
    with contextlib.ExitStack() as stack:
        for number in range(100):
            connection = stack.enter_context(proxy.connect())
            beginning = f"GET /silent {head}\r\n" if number % 2 else f"POST /v1/messages {head}Content-Length: 9\r\n"
            connection.sendall(beginning.encode())
        wait_until(lambda: len(upstream.requests) == 50)
        began = time.monotonic()
        assert split(raw_post(proxy, "/v1/messages", CHAT))[2] == CHAT
        assert time.monotonic() - began < 5.0
        go.set()


@pytest.mark.parametrize("where", ["request", "answer"])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_passes_as_it_is_and_is_read_no_further_than_its_bound(
    proxy: RunningProxy, upstream: ScriptedUpstream, encoding: str, where: str
) -> None:
    packer = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(128)) + packer.flush()  # 128 MiB
    if where == "answer":
        upstream.script = lambda _, __: answer_of(bomb, Content_Encoding=encoding)
    status = Path(f"/proc/{proxy.process.pid}/status")

    def kilobytes(name: str) -> int:
        return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(name)))

    before = kilobytes("VmRSS")
    sent, headers = (bomb, [f"Content-Encoding: {encoding}"]) if where == "request" else (CHAT, [])
    assert split(raw_post(proxy, "/v1/chat/completions", sent, *headers))[2] == bomb
    assert wait_until(lambda: proxy.command("status")["skipped"])["encoding"] == 1
    assert kilobytes("VmHWM") - before < 32 << 10


@pytest.mark.parametrize("mode", [{}, {"PYTHONASYNCIODEBUG": "1", "PYTHONDEVMODE": "1"}], ids=["plain", "debug"])
def test_no_key_is_in_a_log_whatever_fails(
    absent: RunningDaemon, upstream: ScriptedUpstream, mode: dict[str, str]
) -> None:
    absent.environ.update(mode)
    with running_proxy(absent, upstream.address) as proxy:
        fail_with_a_key(proxy, upstream)
        shown = json.dumps(wait_until(lambda: (now := proxy.command("status"))["passed"] >= 9 and now))
    files = [path for path in absent.folder.rglob("*") if path.is_file()]
    assert absent.folder / "proxy.log" in files
    for kept in [shown.encode(), *(path.read_bytes() for path in files)]:
        assert KEY[-16:].encode() not in kept


def fail_with_a_key(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    """Send requests with a key that fail in all ways, and end the model server."""
    keys = (f"Authorization: Bearer {KEY}", f"x-api-key: {KEY}")
    host = f"127.0.0.1:{proxy.port}"

    def failing(connection: UpstreamConnection, request: RawRequest) -> bytes | None:
        match request.line.split()[1]:
            case "/v1/error":
                return answer_of({"error": f"wrong key {KEY}"}, "401 Unauthorized", X_Echo=KEY)
            case "/v1/broken":
                connection.send(STREAM_HEAD + chunk(b"data: 1\n\n") + b"zz\r\n")
            case "/v1/none":
                connection.send(f"SSH-2.0 {KEY}\r\n\r\n".encode())
            case "/v1/away":
                return answer_of(b"{}", "307 Go", Location=f"https://attacker.example/?key={KEY}")
        return None

    upstream.script = failing
    for path in ("/v1/error", "/v1/broken", "/v1/none", "/v1/away", "/v1/gone"):
        raw_post(proxy, path, CHAT, *keys)
    upstream.script = lambda _, __: answer_of(chat_answer("A plain answer."))
    raw_post(proxy, "/v1/chat/completions", b'{"messages": "no', *keys)
    raw_post(proxy, "/v1/chat/completions", gzip.compress(CHAT)[:-9], *keys, "Content-Encoding: gzip")
    raw_post(proxy, f"/v1/chat/completions?key={KEY}", CHAT, *keys)
    raw_post(proxy, "/.mnemo/flush", b"", *keys)
    for lines in (
        (*keys, "Transfer-Encoding: chunked"), (*keys, " folded"), (*keys, "X-A: a\0b"), (f"Authorization {KEY}",),
        (*keys, *keys), (*keys, f"X-Long: {KEY * 4000}"),
    ):  # fmt: skip
        raw_post(proxy, "/v1/messages", CHAT, *lines)
    with proxy.connect() as connection:  # who hangs up in the middle
        head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\n{keys[0]}\r\nContent-Length: 999\r\n\r\n"
        connection.sendall(head.encode() + CHAT)
    upstream.close()
    raw_post(proxy, "/v1/messages", CHAT, *keys)
