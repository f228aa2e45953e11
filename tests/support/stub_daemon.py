"""A daemon with prepared answers, over real sockets and real HTTP, and a user of the command line who asks it."""

import io
import json
import os
import shlex
import socketserver
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from mnemo_client.cli import main
from mnemo_client.cli.terminal import Terminal
from mnemo_client.protocol.memories import NoteView
from mnemo_client.protocol.retrieval import BestSentence, RecallAnswer, RecalledMemory
from mnemo_client.protocol.status import ModelStatus, NotesStatus, StatusAnswer, ViewStatus


class StubRequest(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    connection: int


class StubAnswer(NamedTuple):
    """The answer to give: a value as JSON, or bytes as is. `hang_up` closes the connection, after so many bytes of
    the answer where it is a number."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    chunked: bool = False
    hang_up: bool | int = False


class _QuietServer(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 128

    def handle_error(self, *unused: Any) -> None:
        """A client that hangs up early is part of what is tested."""


class StubDaemon:
    """Listens on `path`; `answers` maps "METHOD /v1/route" to an answer, or to a function from the request to one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Any] = {}
        self.asked: list[StubRequest] = []
        self._connections = 0
        self._open: list[Any] = []
        self._server: socketserver.ThreadingUnixStreamServer | None = None
        self.start()

    def start(self) -> None:
        server = _QuietServer(str(self.path), self._handler())
        server.daemon_threads = True
        self._server = server
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Nobody listens any more, and every connection is closed."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
            self.path.unlink(missing_ok=True)
        self.close_connections()

    def close_connections(self) -> None:
        for handler in self._open:
            handler.hang_up()
        self._open.clear()

    def say(self, route: str, body: Any, status: int = 200, **more: Any) -> None:
        """Answer the route with the body: a struct or a value as JSON, or bytes."""
        self.answers[route] = StubAnswer(_as_json(body), status, **more)

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]

    def _handler(self) -> "Callable[..., BaseHTTPRequestHandler]":
        daemon = self

        class StubHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            number = 0

            def setup(self) -> None:
                super().setup()
                daemon._connections += 1
                self.number = daemon._connections
                daemon._open.append(self)

            def hang_up(self) -> None:
                self.close_connection = True
                try:
                    self.connection.shutdown(2)
                except OSError:
                    pass

            def log_message(self, *words: Any) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                raw = self.rfile.read(length)
                split = urlsplit(self.path)
                headers = {name.lower(): value.encode("latin-1").decode() for name, value in self.headers.items()}
                body = json.loads(raw) if raw else None
                asked = StubRequest(self.command, split.path, parse_qs(split.query), headers, body, self.number)
                daemon.asked.append(asked)
                said = daemon.answers.get(f"{self.command} {split.path}")
                said = said(asked) if callable(said) else said
                if said is None:
                    said = StubAnswer({"error": {"code": "no_route", "message": f"there is no {split.path}"}}, 404)
                self.write(said if isinstance(said, StubAnswer) else StubAnswer(_as_json(said)))

            def write(self, said: StubAnswer) -> None:
                data = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                if said.hang_up is True:
                    self.hang_up()
                    return
                self.send_response(said.status)
                self.send_header("Content-Type", "application/json")
                for name, value in said.headers.items():
                    self.send_header(name, value)
                if said.chunked:
                    self.send_header("Transfer-Encoding", "chunked")
                    half = len(data) // 2
                    data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:half], data[half:]) if part)
                    data += b"0\r\n\r\n"
                else:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if said.hang_up:
                    self.wfile.write(data[: said.hang_up])
                    self.wfile.flush()
                    self.hang_up()
                else:
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that the base class calls

        return StubHandler


def _as_json(body: Any) -> Any:
    return msgspec.to_builtins(body) if isinstance(body, msgspec.Struct) else body


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


class CommandLineUser:
    """A user of the command line: gives commands, and has what they print in `out` and `err`."""

    def __init__(self, stub_daemon: StubDaemon, home: Path) -> None:
        self.environ = {"MNEMO_SOCKET": str(stub_daemon.path), "MNEMO_DATA_DIR": str(home / "data"), "HOME": str(home),
                        "PATH": os.environ["PATH"], "MNEMO_AUTOSTART": "off"}  # fmt: skip
        self.out = ""
        self.err = ""
        self.sits_at_a_terminal = False

    def give(self, *words: str, typed: str = "") -> int:
        kind = Screen if self.sits_at_a_terminal else io.StringIO
        out, err = kind(), io.StringIO()
        code = main.run(list(words), Terminal(out, err, self.environ), self.environ, kind(typed))
        self.out, self.err = out.getvalue(), err.getvalue()
        return code


class Case(NamedTuple):
    """A command, and what must come of it; None: not looked at.

    `sent` are the requests that it makes, each as its body or, without one, its query; `headers` those of the last."""

    words: str
    code: int = 0
    out: str | None = None
    err: str | None = None
    says: tuple[str, ...] = ()  # in the output
    warns: tuple[str, ...] = ()  # in the messages
    sent: list[Any] | None = None
    headers: Mapping[str, str | None] = MappingProxyType({})
    json: Any = None  # the output, read as JSON
    typed: str = ""
    at_terminal: bool = False


Answers = dict[str, Any]  # by route: a struct, a value, bytes, a CannedAnswer, or a function of the request


class Scenario(NamedTuple):
    """Commands in their order; answers among them are given from there on."""

    name: str
    steps: tuple[Case | Answers, ...]


def play(scenario: Scenario, person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    for step in scenario.steps:
        if isinstance(step, dict):
            stub_daemon.answers |= step
        else:
            _play_step(step, person, stub_daemon)


def _play_step(step: Case, person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    before = len(stub_daemon.asked)
    person.sits_at_a_terminal = step.at_terminal
    assert person.give(*shlex.split(step.words), typed=step.typed) == step.code, person.out + person.err
    assert step.out is None or person.out == step.out
    assert step.err is None or person.err == step.err
    assert not [part for part in step.says if part not in person.out], person.out
    assert not [part for part in step.warns if part not in person.err], person.err
    asked = stub_daemon.asked[before:]
    assert step.sent is None or [each.query if each.body is None else each.body for each in asked] == step.sent
    assert {name: asked[-1].headers.get(name) for name in step.headers} == step.headers
    assert step.json is None or json.loads(person.out) == step.json


def refusal(status: int, code: str, message: str, **fields: Any) -> StubAnswer:
    return StubAnswer({"error": {"code": code, "message": message, **fields}}, status)


ID = "01936f2e-7c00-7000-8000-0000c0ffee01"
NOON = 1_764_590_400_000  # 2025-12-01 12:00 UTC: the same day in most zones


def recalled(**fields: Any) -> RecalledMemory:
    whole: dict[str, Any] = {
        "id": ID, "content": "The key is with Ines.", "kind": "semantic", "category": "fact", "layer": "buffer",
        "importance": 0.5, "importance_source": "rule", "event_at": NOON, "created_at": NOON, "modified_at": NOON,
        "version": 1, "decay_rate": 5.0, "trust": "user", "method": "said", "source": "cli", "tags": [],
        "namespace": "default", "user_id": "local", "state": "active", "pinned": False, "compressed": False,
        "compression_source": False, "access_count": 1, "repetition_count": 0, "last_accessed": None,
        "strength": 0.5, "strength_epoch": 0, "score": 0.8249,
    }  # fmt: skip
    return RecalledMemory(**{**whole, **fields})


def note(path: str = "/w/app/docs/deploy.md", **fields: Any) -> NoteView:
    whole: dict[str, Any] = {"path": path, "title": "Deploy", "headings": ["Deploy", "Rollback"], "ordinal": 0,
                             "lines": (40, 52)}  # fmt: skip
    return NoteView(**{**whole, **fields})


def best(text: str, *marks: tuple[int, int], line: int | None = None) -> BestSentence:
    return BestSentence(text=text, marks=list(marks), line=line)


def recall_answer(*memories: RecalledMemory, **fields: Any) -> RecallAnswer:
    whole: dict[str, Any] = {"memories": list(memories), "total_tokens": 9, "budget_used": None, "total": 12,
                             "ranker": "fused", "namespace": "default", "took_ms": 4.06}  # fmt: skip
    return RecallAnswer(**{**whole, **fields})


def status(**fields: Any) -> StatusAnswer:
    whole: dict[str, Any] = {
        "state": "warming", "reasons": ["the model is being loaded"], "version": "0.1.0", "pid": 4711, "started_at": 0,
        "data_dir": "/h/ines/.local/share/mnemo", "socket": "/run/user/1000/mnemo/mnemo.sock", "memories": 12345,
        "by_state": {"active": 12000, "archived": 345, "trashed": 0}, "namespaces": {"default": 12345},
        "trash": {"count": 2, "bytes": 1500}, "seq": 9, "queue": {"writes": 0, "vectors": 7},
        "models": {"embedding": ModelStatus(name="mini", state="loading")},
        "views": {"words": view("ready", 1.0), "vectors": view("building", 0.4299, lag=7, lag_seconds=3.0)},
        "notes": NotesStatus(roots=[]), "disk": {"database": 2_000_000, "free": 45_000_000_000},
        "memory_private_bytes": 84_200_000, "uptime_seconds": 11_420.0,
    }  # fmt: skip
    return StatusAnswer(**{**whole, **fields})


def view(state: Any, share: float, **fields: Any) -> ViewStatus:
    whole: dict[str, Any] = {"applied_seq": 2, "lag": 0, "lag_seconds": 0.0, "items": 5190}
    return ViewStatus(state=state, share=share, **{**whole, **fields})
