"""A model server on raw sockets that answers as a test says, and `mnemo proxy` in front of it."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.running_daemon import RunningDaemon

WAIT_SECONDS = 30.0


class RawRequest(NamedTuple):
    """A request as it came: its first line, its header lines, its body without chunks."""

    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each.lower() == name.lower()]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class UpstreamConnection:
    """One connection to the scripted server."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def read_request(self, *, with_body: bool = True) -> RawRequest | None:
        """The next request; None at the end of the connection."""
        while b"\r\n\r\n" not in self._rest:
            if not self._receive():
                return None
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = tuple((name, value.strip()) for name, _, value in (each.partition(":") for each in lines))
        request = RawRequest(line, headers, b"")
        return request._replace(body=self._body(request)) if with_body else request

    def take(self, count: int) -> bytes:
        """So many bytes, fewer at the end of the connection."""
        while len(self._rest) < count and self._receive():
            pass
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait_for_end(self) -> bool:
        """True once the other side has hung up; False after a long time."""
        self._socket.settimeout(WAIT_SECONDS)
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _body(self, request: RawRequest) -> bytes:
        if "chunked" in request.values("Transfer-Encoding"):
            body = b""
            while size := int(self._line(), 16):
                body += self.take(size + 2)[:-2]
            self._line()
            return body
        return self.take(int((request.values("Content-Length") or ["0"])[0]))

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest and self._receive():
            pass
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(1 << 20)
        except OSError:
            return False
        self._rest += data
        return bool(data)


Script = Callable[[UpstreamConnection, RawRequest], object]


class ScriptedUpstream:
    """Answers each request by `script`, which returns the bytes of an answer, or sends them itself and returns None;
    the connection then ends."""

    def __init__(self, script: Script, *, with_body: bool = True) -> None:
        self.script = script
        self.requests: list[RawRequest] = []
        self._with_body = with_body
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Refuse connections from now on. The thread ends first: the number of its socket may be another one's next."""
        with contextlib.suppress(OSError):  # it is closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            talk = UpstreamConnection(connection)
            while (request := talk.read_request(with_body=self._with_body)) is not None:
                self.requests.append(request)
                answer = self.script(talk, request)
                if not isinstance(answer, bytes):
                    return
                talk.send(answer)


def answer_of(body: bytes | Mapping[str, Any], status: str = "200 OK", **headers: str) -> bytes:
    """The bytes of an answer with a Content-Length; `_` in the name of a header stands for `-`."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


def chat_answer(text: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class RunningProxy(NamedTuple):
    """A proxy in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    environ: Mapping[str, str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self, *words: str) -> Any:
        """The answer of a command of the proxy, as JSON."""
        return json.loads(self.text(*words, "--json"))

    def text(self, *words: str) -> str:
        """Return the output of a command of the proxy."""
        return subprocess.run(
            [sys.executable, "-m", "mnemo_client.cli.main", "proxy", *words], env=dict(self.environ),
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout  # fmt: skip

    def exchange(self, data: bytes) -> bytes:
        """Everything that comes back until the proxy ends the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            received = b""
            while piece := connection.recv(1 << 20):
                received += piece
            return received

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)


@contextlib.contextmanager
def running_proxy(daemon: RunningDaemon, upstream: str, *options: str) -> Iterator[RunningProxy]:
    """A proxy on any free port, for the data folder of the daemon, which need not run. Stopped at the end."""
    daemon.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    environ = {"MNEMO_AUTOSTART": "off", **daemon.environ}
    words = ["proxy", "--upstream", upstream, "--port", "0", *options, "--json"]
    log = (daemon.folder / "proxy.log").open("a")
    with log, subprocess.Popen(
        [sys.executable, "-m", "mnemo_client.cli.main", *words], env=environ, stdout=subprocess.PIPE, stderr=log,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (daemon.folder / "proxy.log").read_text()
            yield RunningProxy(process, int(json.loads(line)["address"].rpartition(":")[2]), environ)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(WAIT_SECONDS)
        assert "Traceback" not in (log_text := proxy_log(daemon)), log_text


def proxy_log(daemon: RunningDaemon) -> str:
    return Path(daemon.folder / "proxy.log").read_text()
