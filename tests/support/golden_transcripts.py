"""Golden transcripts: the examples of clients/docs/http.md as a real daemon answered them, replayed by a small server.

The fixture `transcripts` (once per process) replays the page against one new daemon, which fails if an answer is not
the documented one, and keeps every request and answer with its real values. The fixture `replay_server` answers exactly
these requests on a Unix socket. A client under test gets two environment variables (`ReplayServer.environ`):

- `MNEMO_TRANSCRIPTS`: the path of a JSON file, a list of exchanges in the order of the page;
- `MNEMO_SOCKET`: the path of the socket that answers them.

An exchange is an object:

- `name`: `LINE METHOD PATH`, unique, LINE being the line of the page;
- `method`, `path` (with its query string), `headers` (an object; may be empty), `body` (a JSON value, or null if the
  request has none) and `body_text` (the same as text);
- `status`, `content_type`, `text` (the exact body of the answer) and `answer` (the same as a JSON value, or null if the
  body is JSON lines or something other than JSON).

The server compares the method, the path, the parameters in any order, the headers and the body as a JSON value.
`X-Namespace` and `X-Mnemo-Agent` must be those of the exchange; a person's source channel (`api`, `cli`) may be named
where the exchange names none; other headers are ignored. If the page has a request several times, its answers come in
the page's order, and the last one is repeated. Any other request is answered 599 with an error of the usual shape (code
`not_documented`), and listed in `ReplayServer.undocumented`. `ReplayServer.unasked()` returns the names of the
exchanges that nobody requested. A pytest module needs no more than:

    def test_the_client_replays_the_transcripts(replay_server: ReplayServer) -> None:
        subprocess.run([...], env={**os.environ, **replay_server.environ}, check=True)
        assert not replay_server.undocumented
        assert not replay_server.unasked()
"""

import json
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.support.protocol_examples import Mismatch, Names, PageExample, RawExchange, ask, json_values
from tests.support.running_daemon import START_SECONDS_MAX, RunningDaemon, running

UNDOCUMENTED = 599
PERSONS_CHANNELS = ("api", "cli")  # of a person; the daemon treats them alike but for the name of the source
COMPARED_HEADERS = ("x-namespace", "x-mnemo-agent")
CHANNEL_HEADER = "x-mnemo-door"


class TranscriptExchange(NamedTuple):
    """One request with its answer; the module's docstring describes the fields."""

    name: str
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    body_text: str | None
    status: int
    content_type: str
    text: str
    answer: Any


class RequestParts(NamedTuple):
    """The parts of a request by which it is recognised. `headers` are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Any


@contextmanager
def daemon_without_model() -> Iterator[RunningDaemon]:
    """Run a new daemon without a model, which has noticed that there is none."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with running(scratch / "data", {"XDG_CACHE_HOME": str(scratch / "cache")}) as daemon, daemon.client() as client:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not any(each.startswith("no embedding model") for each in client.status().reasons):
                assert time.monotonic() < deadline, "the daemon did not notice that it has no model"
                time.sleep(0.02)
            yield daemon


def recorded(examples: list[PageExample]) -> list[TranscriptExchange]:
    """Return the exchanges of a new daemon with these examples. Raises Mismatch, with the line, where one differs."""
    with daemon_without_model() as daemon, tempfile.TemporaryDirectory() as folder:
        notes = Path(folder).resolve()
        (notes / "garden.md").write_text("# Garden\n\nPrune the apple trees in late February.\n")
        names: Names = {"notes": str(notes)}
        return [_exchange(example, daemon.socket, names) for example in examples]


def _exchange(example: PageExample, socket: Path, names: Names) -> TranscriptExchange:
    try:
        raw = ask(example, socket, names)
    except Mismatch as mismatch:
        raise Mismatch(f"http.md:{example.line}: {example.method} {example.target}: {mismatch}") from mismatch
    return TranscriptExchange(
        name=f"{example.line} {example.method} {example.target}",
        method=example.method, path=raw.target, headers=example.headers, body=raw.body,
        body_text=None if raw.body is None else json.dumps(raw.body),
        status=raw.status, content_type=raw.headers.get("content-type", ""), text=raw.text, answer=_single_value(raw),
    )  # fmt: skip


def _single_value(raw: RawExchange) -> Any:
    values = json_values(raw.text) if raw.headers.get("content-type", "").startswith("application/json") else []
    return values[0] if len(values) == 1 else None


def write_transcripts(exchanges: list[TranscriptExchange], path: Path) -> None:
    """Write the exchanges to the JSON file that clients read."""
    path.write_text(json.dumps([each._asdict() for each in exchanges], indent=1), encoding="utf-8")


class ReplayServer:
    """Answers documented requests with their documented answers on the socket at `socket`, in threads."""

    def __init__(self, exchanges: list[TranscriptExchange], file: Path, socket: Path) -> None:
        self.exchanges = exchanges
        self.environ = {"MNEMO_TRANSCRIPTS": str(file), "MNEMO_SOCKET": str(socket)}
        self.socket = socket
        self.undocumented: list[str] = []
        self._by_request: dict[str, list[TranscriptExchange]] = defaultdict(list)
        for each in exchanges:
            self._by_request[_request_key(each.method, each.path, each.body)].append(each)
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingUnixStreamServer(str(socket), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.socket.unlink(missing_ok=True)

    def unasked(self) -> list[str]:
        """Return the names of the exchanges that nobody requested, in the page's order."""
        return [each.name for each in self.exchanges if not self._asked[each.name]]

    def find(self, request: RequestParts) -> TranscriptExchange | None:
        """Return the exchange that documents the request: of equal ones the first that was not requested yet."""
        with self._lock:
            same = self._by_request[_request_key(request.method, request.target, request.body)]
            same = [each for each in same if _headers_agree(each.headers, request.headers)]
            if not same:
                shown = json.dumps(request.body, ensure_ascii=False)
                self.undocumented.append(f"{request.method} {request.target} {dict(request.headers)} {shown}")
                return None
            found = next((each for each in same if not self._asked[each.name]), same[-1])
            self._asked[found.name] += 1
            return found


def _request_key(method: str, target: str, body: Any) -> str:
    """Return the same text for requests that differ in the order of their parameters or of the body's keys only."""
    parts = urlsplit(target)
    parameters = sorted(parse_qsl(parts.query, keep_blank_values=True))
    return json.dumps([method, parts.path, parameters, body], sort_keys=True)


def _headers_agree(documented: Mapping[str, str], sent: Mapping[str, str]) -> bool:
    wanted = {name.lower(): value for name, value in documented.items()}
    if any(wanted.get(name) != sent.get(name) for name in COMPARED_HEADERS):
        return False
    channel, sent_channel = wanted.get(CHANNEL_HEADER), sent.get(CHANNEL_HEADER)
    return channel == sent_channel or (channel is None and sent_channel in PERSONS_CHANNELS)


def _handler_of(server: ReplayServer) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers the connections of the server."""

    class ReplayHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *unused: Any) -> None:
            """Write nothing to the standard error of the tests."""

        def _answer(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if "chunked" in headers.get("transfer-encoding", ""):
                self._send(411, "application/json", _error_text("length_required", "send the body with its length"))
                return
            raw = self.rfile.read(int(headers.get("content-length", 0)))
            try:
                body = json.loads(raw) if raw else None
            except ValueError as wrong:
                self._send(400, "application/json", _error_text("bad_json", f"the body is not JSON: {wrong}"))
                return
            found = server.find(RequestParts(self.command, self.path, headers, body))
            if found is None:
                message = f"http.md has no example of {self.command} {self.path} with this body and headers"
                self._send(UNDOCUMENTED, "application/json", _error_text("not_documented", message))
            else:
                self._send(found.status, found.content_type, found.text)

        def _send(self, status: int, content_type: str, text: str) -> None:
            data = text.encode()
            self.send_response(status, "replayed")
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815 - the names that the base class calls

    return ReplayHandler


def _error_text(code: str, message: str) -> str:
    return json.dumps({"error": {"code": code, "message": message, "field": None}})
