"""Bad input through the real daemon: each with its error, and nothing changed. SPEC 16."""

import http.client
import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mnemo_client.client import Client
from tests.support.running_daemon import RunningDaemon


class RawAnswer(NamedTuple):
    status: int
    code: str
    field: str | None
    message: str


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self.path))


def send(
    daemon: RunningDaemon, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> RawAnswer:
    """The answer to raw bytes; an error's parts, or the status with "" for what is no error."""
    connection = _Connection(daemon.socket)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        value: Any = json.loads(response.read() or b"{}")
    finally:
        connection.close()
    error = value.get("error", {})
    return RawAnswer(response.status, error.get("code", ""), error.get("field"), error.get("message", ""))


@pytest.fixture
def unchanged(client: Client) -> Iterator[None]:
    """Check that the test changes nothing in the store."""
    before = client.status().seq
    yield
    assert client.status().seq == before


def remember(daemon: RunningDaemon, **fields: object) -> RawAnswer:
    return send(daemon, "POST", "/v1/memories", json.dumps(fields).encode())


@pytest.mark.usefixtures("unchanged")
class TestNothingIsStored:
    def test_a_body_that_is_no_json_is_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "POST", "/v1/memories", b"{content: yes}")[:2] == (400, "bad_json")

    def test_json_nested_100_000_deep_is_refused(self, daemon: RunningDaemon) -> None:
        deep = b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        assert send(daemon, "POST", "/v1/memories", deep).status == 400

    @pytest.mark.parametrize("number", [b"NaN", b"1e999", b"-Infinity"])
    def test_a_number_that_is_none_is_refused(self, daemon: RunningDaemon, number: bytes) -> None:
        assert send(daemon, "POST", "/v1/memories", b'{"content":"x","importance":' + number + b"}").status == 400

    def test_a_lone_surrogate_is_refused(self, daemon: RunningDaemon) -> None:
        answer = send(daemon, "POST", "/v1/memories", b'{"content":"half \\ud83d of it"}')
        assert answer[:2] == (400, "bad_json")
        assert "surrogate" in answer.message

    def test_a_nul_is_refused_with_its_place(self, daemon: RunningDaemon) -> None:
        answer = remember(daemon, content="before\0after")
        assert answer[:3] == (400, "bad_value", "content")
        assert "6" in answer.message

    def test_8193_characters_are_refused_and_the_limit_is_named(self, daemon: RunningDaemon) -> None:
        answer = remember(daemon, content="é" * 8193)
        assert answer[:3] == (400, "bad_value", "content")
        assert "8192" in answer.message

    def test_21_tags_are_refused(self, daemon: RunningDaemon) -> None:
        answer = remember(daemon, content="x", tags=[f"t{n}" for n in range(21)])
        assert answer[:3] == (400, "bad_value", "tags")

    def test_a_tag_of_33_characters_is_refused(self, daemon: RunningDaemon) -> None:
        assert remember(daemon, content="x", tags=["t" * 33])[:3] == (400, "bad_value", "tags")

    def test_nothing_to_remember_is_refused(self, daemon: RunningDaemon) -> None:
        assert remember(daemon, content=" \n\t ")[:3] == (400, "bad_value", "content")

    def test_a_missing_content_is_named(self, daemon: RunningDaemon) -> None:
        assert remember(daemon, tags=["a"])[:3] == (400, "missing_field", "content")

    def test_an_unknown_field_is_named(self, daemon: RunningDaemon) -> None:
        assert remember(daemon, content="x", colour="red")[:3] == (400, "unknown_field", "colour")

    @pytest.mark.parametrize("field", ["id", "version", "trust", "strength", "access_count", "state", "managed"])
    def test_a_read_only_field_is_refused_as_such(self, daemon: RunningDaemon, field: str) -> None:
        assert remember(daemon, content="x", **{field: "1"})[:3] == (400, "read_only", field)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("content", 5),
            ("tags", "a"),
            ("importance", "high"),
            ("importance", 1.5),
            ("kind", "odd"),
            ("key", "k" * 257),
        ],
    )
    def test_a_value_of_the_wrong_type_or_range_is_named(
        self, daemon: RunningDaemon, field: str, value: object
    ) -> None:
        answer = remember(daemon, **{"content": "x", field: value})
        assert (answer.status, answer.field) == (400, field)

    def test_a_bad_date_says_what_would_be_right(self, daemon: RunningDaemon) -> None:
        answer = remember(daemon, content="x", event_at="next tuesday-ish")
        assert answer[:3] == (400, "bad_value", "event_at")
        assert "2026-03-01" in answer.message

    def test_a_body_over_the_limit_is_refused(self, daemon: RunningDaemon) -> None:
        answer = send(daemon, "POST", "/v1/memories", b'{"content":"' + b"x" * (1 << 20) + b'"}')
        assert answer[:2] == (413, "too_large")

    def test_two_namespaces_that_differ_are_refused(self, daemon: RunningDaemon) -> None:
        body = json.dumps({"content": "x", "namespace": "one"}).encode()
        answer = send(daemon, "POST", "/v1/memories", body, {"X-Namespace": "two"})
        assert (answer.status, answer.field) == (400, "namespace")

    def test_every_namespace_cannot_be_written_to(self, daemon: RunningDaemon) -> None:
        assert remember(daemon, content="x", namespace="*")[:3] == (400, "bad_value", "namespace")

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("DELETE", "/v1/memories?namespace=*&confirm=true", b""),
            ("DELETE", "/v1/memories?namespace=*", b""),
            ("POST", "/v1/notes/roots", b'{"path": "/", "namespace": "*"}'),
        ],
    )
    def test_nothing_else_can_be_done_to_every_namespace(
        self, daemon: RunningDaemon, method: str, path: str, body: bytes
    ) -> None:
        assert send(daemon, method, path, body)[:3] == (400, "bad_value", "namespace")

    @pytest.mark.parametrize("field", ["supersedes", "derived_from"])
    def test_naming_a_memory_that_is_not_there_stores_nothing(self, daemon: RunningDaemon, field: str) -> None:
        answer = remember(daemon, content="newer", **{field: [str(uuid.UUID(int=1))]})
        assert answer[:3] == (404, "not_found", field)
        assert remember(daemon, content="newer", **{field: ["short"]})[:3] == (400, "bad_value", field)

    def test_a_request_that_is_only_half_sent_leaves_nothing(self, daemon: RunningDaemon) -> None:
        with socket.socket(socket.AF_UNIX) as half:
            half.connect(str(daemon.socket))
            half.sendall(b'POST /v1/memories HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"content":"ha')

    def test_an_unknown_route_and_method_are_errors_of_the_one_shape(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "GET", "/v1/nothing")[:2] == (404, "no_route")
        assert send(daemon, "PUT", "/v1/memories")[:2] == (405, "method_not_allowed")

    def test_an_unknown_parameter_is_named(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "GET", "/v1/memories?colour=red")[:3] == (400, "unknown_parameter", "colour")

    def test_top_k_and_limit_together_are_refused(self, daemon: RunningDaemon) -> None:
        body = json.dumps({"query": "x", "top_k": 1, "limit": 1}).encode()
        assert send(daemon, "POST", "/v1/recall", body)[:3] == (400, "bad_value", "limit")

    def test_an_empty_query_is_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "POST", "/v1/recall", b'{"query":"  "}')[:3] == (400, "bad_value", "query")

    @pytest.mark.parametrize("length", [8193, 1_000_000])
    @pytest.mark.parametrize(
        ("path", "field", "others"),
        [
            ("/v1/recall", "query", {}),
            ("/v1/why", "query", {"id": str(uuid.UUID(int=1))}),
            ("/v1/ask", "question", {}),
            ("/v1/answer", "question", {}),
            ("/v1/sessions/s/explain", "query", {}),
            ("/v1/sessions/s/chat", "message", {}),
        ],
    )
    def test_a_question_over_the_limit_is_refused_by_every_route(
        self, daemon: RunningDaemon, path: str, field: str, others: dict[str, str], length: int
    ) -> None:
        answer = send(daemon, "POST", path, json.dumps({field: "a" * length, **others}).encode())
        assert answer[:3] == (400, "bad_value", field)
        assert "at most 8192 characters" in answer.message.replace("1 to 8192", "at most 8192")

    def test_words_over_the_limit_are_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "GET", f"/v1/search?q={'a' * 8193}")[:3] == (400, "bad_value", "q")

    def test_a_question_of_8192_characters_is_answered(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "POST", "/v1/recall", json.dumps({"query": "é" * 8192}).encode()).status == 200
        assert send(daemon, "GET", f"/v1/search?q={'a' * 8192}").status == 200

    def test_deleting_without_a_filter_is_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "DELETE", "/v1/memories?confirm=true")[:2] == (400, "bad_value")

    def test_deleting_from_the_trash_is_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "DELETE", "/v1/memories?state=trashed")[:3] == (400, "bad_value", "state")

    def test_a_cursor_of_nothing_is_refused(self, daemon: RunningDaemon) -> None:
        assert send(daemon, "GET", "/v1/memories?cursor=abc")[:3] == (400, "bad_value", "cursor")


def test_every_field_of_a_question_has_the_limit(daemon: RunningDaemon) -> None:
    """But for the one that takes a prompt, which is cut."""
    connection = _Connection(daemon.socket)
    connection.request("GET", "/v1/openapi.json")
    document = json.loads(connection.getresponse().read())
    connection.close()
    fields = {
        f"{name}.{each}": field
        for name, schema in document["components"]["schemas"].items()
        for each, field in schema.get("properties", {}).items()
        if each in ("query", "question", "message") and ("Request" in name or "Parameters" in name)
    }
    fields |= {
        f"{path}?q": each["schema"]
        for path, methods in document["paths"].items()
        for method in methods.values()
        for each in method.get("parameters", ())
        if each.get("name") == "q"
    }
    assert {"RecallRequest.query", "AskRequest.question", "ChatRequest.message", "/v1/search?q"} < set(fields)
    assert {name for name, field in fields.items() if field.get("maxLength") != 8192} == {"ContextRequest.query"}


def start_another(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mnemo_daemon"], env=environ, capture_output=True, text=True, timeout=30, check=False
    )


def test_a_second_daemon_says_that_the_first_holds_the_folder(daemon: RunningDaemon, client: Client) -> None:
    ended = start_another(daemon.environ)
    assert ended.returncode == 3
    assert "holds the data folder" in ended.stderr
    assert client.health().ok is not None


def test_a_second_daemon_with_its_own_socket_names_the_process_that_holds_the_folder(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    assert daemon.process is not None
    ended = start_another({**daemon.environ, "MNEMO_SOCKET": str(tmp_path / "other.sock")})
    assert ended.returncode == 3
    assert f"process {daemon.process.pid}" in ended.stderr
    assert not (tmp_path / "other.sock").exists()


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    daemon = RunningDaemon(tmp_path / "d", {"XDG_CACHE_HOME": str(tmp_path)})
    daemon.start()
    daemon.kill()
    assert daemon.socket.exists()
    daemon.start()
    assert daemon.stop() == 0


def test_a_wrong_key_stops_the_start_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("# mine\n[notes]\nsetle_ms = 3\n")
    environ = {**os.environ, "MNEMO_DATA_DIR": str(tmp_path / "d"), "MNEMO_CONFIG": str(config)}
    ended = start_another(environ)
    assert ended.returncode == 2
    assert "config.toml:3" in ended.stderr
    assert "settle_ms" in ended.stderr
    assert "Traceback" not in ended.stderr
