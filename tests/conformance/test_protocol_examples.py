"""The examples of clients/docs/http.md, replayed in order against one real daemon, are what it answers. SPEC 13."""

import http.client
import json
import re
import socket
from typing import Any, cast

import pytest

from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.server import openapi
from mnemo_daemon.services import Services
from tests.support.golden_transcripts import ReplayServer, RequestParts, TranscriptExchange
from tests.support.protocol_examples import Mismatch, PageExample, compare, examples, page_examples

STOPS_THE_DAEMON = ("POST", "/v1/shutdown")


def test_the_daemon_answers_every_example_as_the_page_says(transcripts: list[TranscriptExchange]) -> None:
    shown = page_examples()
    assert len(transcripts) == len(shown) > 100
    names: dict[str, Any] = {}
    for example, exchange in zip(shown, transcripts, strict=True):
        assert exchange.status == example.status
        if exchange.answer is not None:
            compare(example.answers, [exchange.answer], names)


def test_every_route_that_does_not_stop_the_daemon_has_an_example() -> None:
    handlers = Api(cast(Services, None), cast(StatusReport, None))
    try:
        made = [(route.method, route.path) for route in openapi.with_document(handlers.routes(), "0")]
    finally:
        handlers.close()
    shown = [(each.method, each.target.partition("?")[0]) for each in page_examples()]
    patterns = {route: re.compile(re.sub(r"\\\{\w+\\\}", r"[^/]+", re.escape(route[1]))) for route in made}
    missing = [
        f"{method} {path}"
        for method, path in made
        if (method, path) != STOPS_THE_DAEMON
        and not any(method == verb and patterns[method, path].fullmatch(target) for verb, target in shown)
    ]
    assert not missing, "clients/docs/http.md has no example of: " + ", ".join(missing)


def test_an_example_is_read_with_its_headers_body_and_answers() -> None:
    page = 'text\n```http\nPOST /v1/x\nX-Namespace: a\n\n{"q":\n 1}\n\n201\n{"a": 1}\n{"b": 2}\n```\n'
    assert examples(page) == [
        PageExample(2, "POST", "/v1/x", {"X-Namespace": "a"}, {"q": 1}, 201, [{"a": 1}, {"b": 2}])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "got", "is_same"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "…": "…"}, {"a": 1, "b": 2}, True),
        ({"a": 1, "…": "…"}, {"b": 2}, False),
        ({"a": "…"}, {"a": [1, {}]}, True),
        ({"a": "…"}, {}, False),
        ([1], [1, 2], False),
        ([1, "…"], [1, 2], True),
        (["…"], [1, 2], False),
        ("[masked:{kind}]", "[masked:x]", True),
        ("[masked:{kind}]", "masked:x", False),
        ({"a": "{id}", "b": "{id}"}, {"a": 5, "b": 5}, True),
        ({"a": "{id}", "b": "{id}"}, {"a": 5, "b": 6}, False),
    ],
)
def test_an_answer_that_differs_but_for_placeholders_is_seen(wanted: Any, got: Any, is_same: bool) -> None:
    if is_same:
        compare(wanted, got, {})
    else:
        with pytest.raises(Mismatch):
            compare(wanted, got, {})


class UnixConnection(http.client.HTTPConnection):
    """An independent HTTP client, the standard library's, on a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20.0)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def test_the_replay_server_answers_every_documented_request_with_its_answer(replay_server: ReplayServer) -> None:
    with open(replay_server.environ["MNEMO_TRANSCRIPTS"], encoding="utf-8") as file:
        exchanges = json.load(file)
    connection = UnixConnection(replay_server.environ["MNEMO_SOCKET"])
    assert replay_server.unasked() == [each["name"] for each in exchanges]
    for exchange in exchanges:
        connection.request(exchange["method"], exchange["path"], exchange["body_text"], exchange["headers"])
        answer = connection.getresponse()
        text = answer.read().decode()
        assert (answer.status, text) == (exchange["status"], exchange["text"]), exchange["name"]
        assert exchange["answer"] is None or json.loads(text) == exchange["answer"]
    connection.close()
    assert replay_server.unasked() == replay_server.undocumented == []


def test_a_request_that_the_page_does_not_have_is_answered_599(replay_server: ReplayServer) -> None:
    connection = UnixConnection(replay_server.environ["MNEMO_SOCKET"])
    connection.request("POST", "/v1/recall", b'{"query": "something else"}')
    answer = connection.getresponse()
    assert answer.status == 599
    assert json.loads(answer.read())["error"]["code"] == "not_documented"
    connection.close()
    assert len(replay_server.undocumented) == 1


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "is_documented"),
    [
        ("GET", "/v1/memories?namespace=boat&limit=1", {}, None, True),
        ("GET", "/v1/memories?limit=1&namespace=boat", {}, None, True),
        ("GET", "/v1/memories?limit=1&namespace=bo%61t", {"x-mnemo-door": "cli", "accept": "*/*"}, None, True),
        ("GET", "/v1/memories?namespace=boat&limit=1", {"x-mnemo-door": "mcp"}, None, False),
        ("GET", "/v1/memories?namespace=boat&limit=1", {"x-namespace": "boat"}, None, False),
        ("GET", "/v1/memories?namespace=boat&limit=2", {}, None, False),
        ("POST", "/v1/undo", {}, {}, True),
        ("POST", "/v1/undo", {}, None, False),
        ("GET", "/v1/undo", {}, {}, False),
    ],
)
def test_a_request_is_recognised_by_its_parts(
    replay_server: ReplayServer, method: str, target: str, headers: dict[str, str], body: Any, is_documented: bool
) -> None:
    assert (replay_server.find(RequestParts(method, target, headers, body)) is not None) is is_documented


def test_equal_requests_are_answered_in_the_order_of_the_page(replay_server: ReplayServer) -> None:
    request = RequestParts("POST", "/v1/undo", {}, {})
    documented = [each for each in replay_server.exchanges if (each.path, each.body) == ("/v1/undo", {})]
    assert [replay_server.find(request) for _ in range(len(documented) + 1)] == [*documented, documented[-1]]
