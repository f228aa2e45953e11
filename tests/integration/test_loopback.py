"""HTTP on loopback TCP: off by default, and closed to other sites, other names and whoever lacks the token. SPEC 13

The cases named after a CVE are those of other local servers that a web page could use through its reader's browser.
"""

import contextlib
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mnemo_client.protocol.loopback_rules import RequestHead
from mnemo_daemon.server.extra_listeners import Loopback, bind_loopback, check_body_type
from mnemo_daemon.server.sockets import SocketError
from tests.support.running_daemon import RunningDaemon, running

JSON = {"Content-Type": "application/json"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class TcpDaemon(NamedTuple):
    daemon: RunningDaemon
    port: int
    token: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        host: str = "",
        more: tuple[tuple[str, str], ...] = (),
    ) -> tuple[int, dict[str, Any]]:
        """One request with these headers and no others but Host and Content-Length; `host` is the value of Host;
        `more` can repeat a header."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in (*(headers or {}).items(), *more):
                connection.putheader(name, value)
            if data:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            assert not [name for name in response.headers if name.lower().startswith("access-control-")]
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Cache-Control"] == "no-store"
            return response.status, json.loads(response.read())

    def refusal(self, *ask: Any, **options: Any) -> tuple[int, str, str | None]:
        status, body = self.ask(*ask, **options)
        return status, body["error"]["code"], body["error"]["field"]


@pytest.fixture(scope="module")
def served() -> Iterator[TcpDaemon]:
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        port = free_port()
        environ = {"MNEMO_DAEMON_TCP_PORT": str(port), "MNEMO_MODELS_FOLDER": f"{folder}/models"}
        with running(Path(folder) / "data", environ) as daemon:
            token = daemon.folder / "run" / "token"
            assert stat.S_IMODE(token.stat().st_mode) == 0o600
            yield TcpDaemon(daemon, port, token.read_text().strip())
        assert not token.exists()


def test_without_the_setting_the_daemon_listens_on_no_port(daemon: RunningDaemon) -> None:
    assert daemon.process is not None
    assert not (daemon.folder / "run" / "token").exists()
    found = {os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{daemon.process.pid}/fd")}
    ours = {int(match[1]) for each in found if (match := re.fullmatch(r"socket:\[(\d+)\]", each))}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        assert not ours & {int(row.split()[9]) for row in rows}


def test_it_listens_on_127_0_0_1_and_on_no_other_address(served: TcpDaemon) -> None:
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{served.port:04X}")]
    assert listening == [f"0100007F:{served.port:04X}"]
    rows = [row.split() for row in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert not [row for row in rows if row[1].endswith(f":{served.port:04X}")]


def test_with_the_token_the_same_routes_answer_under_each_of_the_three_names(served: TcpDaemon) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        status, health = served.ask("GET", "/v1/health", served.bearer, host=f"{name}:{served.port}")
        assert (status, health["ok"]) == (200, True)
    status, stored = served.ask("POST", "/v1/memories", {**served.bearer, **JSON}, {"content": "The kettle is red."})
    assert status == 201
    assert stored["memory"]["trust"] == "agent"
    status, found = served.ask("POST", "/v1/recall", {**served.bearer, **JSON}, {"query": "kettle"})
    assert (status, found["memories"][0]["content"]) == (200, "The kettle is red.")
    with served.daemon.client() as owner:
        assert owner.history(stored["memory"]["id"]).versions[0].by == "api:tcp"


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer {almost}"},
        {"Authorization": "Bearer {token}0"},
        {"Authorization": "Basic {token}"},
        {"Authorization": "{token}"},
        {"Authorization": "Bearer é"},
        {"X-Token": "{token}"},
        {"Cookie": "token={token}"},
    ],
)
def test_without_the_whole_token_nothing_is_answered_not_even_health(served: TcpDaemon, shown: dict[str, str]) -> None:
    headers = {name: value.format(token=served.token, almost=served.token[:-1]) for name, value in shown.items()}
    for method, target in (("GET", "/health"), ("POST", "/v1/recall"), ("POST", "/mcp"), ("GET", "/no/route")):
        assert served.refusal(method, target, headers) == (401, "unauthorized", "Authorization")
    assert served.refusal("GET", f"/health?token={served.token}") == (401, "unauthorized", "Authorization")


def test_the_token_has_256_bits_and_is_new_at_each_start(served: TcpDaemon, short_folder: Path) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", served.token)
    token = short_folder / "data" / "run" / "token"
    environ = {"MNEMO_DAEMON_TCP_PORT": str(free_port())}
    shown = set()
    for _ in range(2):
        with running(short_folder / "data", environ) as daemon:
            shown.add(token.read_text())
            daemon.kill()  # which leaves the file
        assert token.exists()
    assert len(shown) == 2


REBOUND = (
    "evil.example", "evil.example:{port}", "127.0.0.1", "localhost", "[::1]", "127.0.0.1:1", "localhost:{other}",
    "127.0.0.1.evil.example:{port}", "localhost.evil.example:{port}", "0.0.0.0:{port}", "127.1:{port}",
    "2130706433:{port}",
    "127.0.0.2:{port}", "localhost.:{port}", "[::]:{port}", "user@127.0.0.1:{port}", " ",
)  # fmt: skip


@pytest.mark.parametrize("host", REBOUND)
def test_cve_2018_5702_and_2024_28224_a_name_that_was_rebound_to_loopback_is_refused(
    served: TcpDaemon, host: str
) -> None:
    named = host.format(port=served.port, other=served.port + 1)
    for headers in ({}, served.bearer):
        assert served.refusal("GET", "/v1/health", headers, host=named) == (421, "misdirected", "Host")


def test_a_request_with_two_hosts_with_none_or_for_another_address_is_refused(served: TcpDaemon) -> None:
    for head in (
        f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nHost: evil.example",
        "GET /health HTTP/1.0\r\nX-Host: none",
        f"GET http://evil.example/health HTTP/1.1\r\nHost: 127.0.0.1:{served.port}",
        f"GET http://evil.example:{served.port}/health HTTP/1.1\r\nHost: localhost:{served.port}",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
            client.sendall(f"{head}\r\nAuthorization: Bearer {served.token}\r\nConnection: close\r\n\r\n".encode())
            assert client.recv(65536).split()[1] in (b"400", b"421"), head


@pytest.mark.parametrize("path", ["/mcp", "/v1/recall", "/v1/events"])
def test_cve_2025_66416_and_2026_34742_a_rebound_page_reaches_no_route_of_mcp_or_events(
    served: TcpDaemon, path: str
) -> None:
    page = {"Origin": f"http://evil.example:{served.port}", **JSON, **served.bearer}
    assert served.refusal("POST", path, page, {}, host=f"evil.example:{served.port}")[0] == 421
    assert served.refusal("POST", path, page, {}) == (403, "forbidden", "Origin")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1", "file://",
        "http://localhost:{port}", "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}/", "",
        "chrome-extension://abcdef", "vscode-webview://abcdef",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_origin_is_refused_even_with_the_token(served: TcpDaemon, origin: str, method: str) -> None:
    headers = {**served.bearer, "Origin": origin.format(port=served.port)}
    assert served.refusal(method, "/v1/health", headers) == (403, "forbidden", "Origin")


def test_a_page_of_this_server_itself_may_ask(served: TcpDaemon) -> None:
    for name in ("127.0.0.1", "localhost"):
        headers = {**served.bearer, "Origin": f"http://{name}:{served.port}", "Sec-Fetch-Site": "same-origin"}
        assert served.ask("GET", "/v1/health", headers, host=f"{name}:{served.port}")[0] == 200
    assert served.ask("GET", "/v1/health", {**served.bearer, "Sec-Fetch-Site": "none"})[0] == 200


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site", "Authorization"])
def test_a_header_that_decides_is_refused_if_it_comes_twice(served: TcpDaemon, name: str) -> None:
    """The second one, which nobody would compare, could be that of another page."""
    headers = {**served.bearer, "Origin": f"http://127.0.0.1:{served.port}", "Sec-Fetch-Site": "same-origin"}
    assert served.ask("GET", "/v1/health", headers)[0] == 200
    for second in (headers[name], "http://evil.example"):
        answer = served.refusal("GET", "/v1/health", headers, more=((name.lower(), second),))
        assert answer == (403, "forbidden", name)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_what_a_browser_sends_for_a_page_of_another_site_is_refused_even_with_the_token(
    served: TcpDaemon, site: str
) -> None:
    answer = served.refusal("GET", "/v1/health", {**served.bearer, "Sec-Fetch-Site": site})
    assert answer == (403, "forbidden", "Sec-Fetch-Site")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"])
def test_a_body_that_a_form_of_another_site_can_send_is_refused(served: TcpDaemon, kind: str | None) -> None:
    headers = served.bearer if kind is None else {**served.bearer, "Content-Type": kind}
    for path in ("/v1/memories", "/v1/import", "/mcp"):
        answer = served.refusal("POST", path, headers, {"content": "written by a form"})
        assert answer == (415, "unsupported_media_type", "Content-Type")
    with served.daemon.client() as owner:
        assert owner.search("form").memories == []


def test_a_body_declared_as_json_of_any_charset_is_taken() -> None:
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/x-ndjson"):
        check_body_type(kind)


def test_who_has_the_token_is_no_person_and_does_not_administer(served: TcpDaemon) -> None:
    status, config = served.ask("GET", "/v1/config", served.bearer)
    assert (status, config["error"]["code"]) == (403, "forbidden")
    assert "needs the right `admin`, and tcp has `write`" in config["error"]["message"]
    assert "`access.tcp_right` in config.toml" in config["error"]["message"]
    for method, target in (("POST", "/v1/shutdown"), ("GET", "/v1/export"), ("POST", "/v1/purge")):
        assert served.refusal(method, target, {**served.bearer, **JSON}, {})[:2] == (403, "forbidden")
    asked = {**served.bearer, **JSON, "X-Mnemo-Door": "cli"}
    pinned = served.refusal("POST", "/v1/memories", asked, {"content": "Pin me.", "pinned": True})
    assert pinned[:2] == (422, "pinned")


def test_clients_without_the_token_cannot_use_up_the_connections_of_the_socket(served: TcpDaemon) -> None:
    clients = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(64)]
    try:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as refused:
            assert refused.recv(65536).startswith(b"HTTP/1.1 503")
        with served.daemon.client() as owner:
            assert owner.health().ok
    finally:
        for client in clients:
            client.close()


def test_the_right_of_the_token_is_the_one_of_the_setting() -> None:
    for right in ("read", "write", "admin"):
        grant = Loopback(1, right, "t").grant
        assert (grant.right, grant.trust, grant.is_owner) == (right, "agent", False)


def test_a_token_is_compared_as_a_whole_whatever_its_characters() -> None:
    check = Loopback(1, "write", "secret").check
    check(RequestHead({"Authorization": "bearer secret"}, ["localhost:1"], "localhost:1"))


@pytest.mark.parametrize(("with_ipv6", "addresses"), [(False, ["127.0.0.1"]), (True, ["127.0.0.1", "::1"])])
def test_ipv6_is_served_only_when_asked_for(with_ipv6: bool, addresses: list[str]) -> None:
    listeners = bind_loopback(free_port(), with_ipv6=with_ipv6)
    try:
        assert [listener.socket.getsockname()[0] for listener in listeners] == addresses
    finally:
        for listener in listeners:
            listener.close()


def test_a_port_that_is_taken_stops_the_start_with_the_remedy_and_leaves_no_socket(short_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SocketError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use; set daemon"):
            bind_loopback(port)
        daemon = RunningDaemon(short_folder / "data", {"MNEMO_DAEMON_TCP_PORT": str(port)})
        assert daemon.begin().wait(60) == 1
    assert f"127.0.0.1:{port}: Address already in use" in daemon.log.read_text()
    assert not daemon.socket.exists()
    assert not (daemon.folder / "run" / "token").exists()


def test_a_process_that_may_open_no_network_socket_says_so(short_folder: Path) -> None:
    script = (
        "import socket\n"
        "from errno import EAFNOSUPPORT\n"
        "from mnemo_daemon.server import extra_listeners\n"
        "def refuse(*_): raise OSError(EAFNOSUPPORT, 'Address family not supported')\n"
        "socket.socket = refuse\n"
        "try: extra_listeners.bind_loopback(4711)\n"
        "except extra_listeners.SocketError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "may open Unix sockets alone: run `mnemo service install` again" in said
