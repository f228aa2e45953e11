"""The examples of clients/PROTOCOL.md, replayed in order against one real daemon, are what it answers. SPEC 13.

How an example is written stands on that page, under "Examples".
"""

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from mnemo_client.http import SocketConnection
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.api.status_report import StatusReport
from mnemo_daemon.server import openapi
from mnemo_daemon.services import Services
from tests.running import RunningDaemon, running

PAGE = Path(__file__).parents[2] / "clients" / "PROTOCOL.md"
ANY = "…"
STOPS_THE_DAEMON = ("POST", "/v1/shutdown")

_BLOCK = re.compile(r"^```http\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"^([1-5]\d\d)\n", re.MULTILINE)
_NAME = re.compile(r"\{([a-z]+)\}")

Names = dict[str, Any]


class PageExample(NamedTuple):
    """A request and its answer. `body` and `answers` are JSON with placeholders; an answer may be several values."""

    line: int  # of the page
    method: str
    target: str
    headers: dict[str, str]
    body: Any
    status: int
    answers: list[Any]


class Mismatch(AssertionError):
    """The answer differs from the page; the message names the place."""


def examples(page: str) -> list[PageExample]:
    """The examples of a page, in order."""
    return [_example(match[1], page.count("\n", 0, match.start()) + 1) for match in _BLOCK.finditer(page)]


def _example(text: str, line: int) -> PageExample:
    asked, status, answered = _STATUS.split(text, maxsplit=1)
    head, _, body = asked.strip().partition("\n\n")
    request, *headers = head.split("\n")
    method, target = request.split(" ")
    named = dict(header.split(": ", 1) for header in headers)
    return PageExample(
        line, method, target, named, json.loads(body) if body else None, int(status), json_values(answered)
    )


def json_values(text: str) -> list[Any]:
    """The JSON values that stand one after the other in a text."""
    values, decoder, text = [], json.JSONDecoder(), text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].lstrip()
    return values


def filled(wanted: Any, names: Names) -> Any:
    """A request's part with its names replaced by what they stand for."""
    match wanted:
        case dict():
            return {key: filled(value, names) for key, value in wanted.items()}
        case list():
            return [filled(value, names) for value in wanted]
        case str() if whole := _NAME.fullmatch(wanted):
            return names[whole[1]]
        case str():
            return _NAME.sub(lambda found: str(names[found[1]]), wanted)
        case _:
            return wanted


def compare(wanted: Any, got: Any, names: Names, at: str = "$") -> None:
    """Raises Mismatch unless `got` is as wanted; a name met for the first time is learnt."""
    if wanted == ANY:
        return
    match wanted:
        case dict():
            _compare_objects(wanted, got, names, at)
        case list():
            _compare_lists(wanted, got, names, at)
        case str() if whole := _NAME.fullmatch(wanted):
            known = names.setdefault(whole[1], got)
            if known != got:
                raise Mismatch(f"{at} is {got!r}, and {{{whole[1]}}} was {known!r}")
        case str() if _NAME.search(wanted):
            pieces = re.split(r"\{[a-z]+\}", wanted)
            if not isinstance(got, str) or not re.fullmatch(".+".join(map(re.escape, pieces)), got):
                raise Mismatch(f"{at} is {got!r}, not {wanted!r}")
        case _:
            if type(wanted) is not type(got) or wanted != got:
                raise Mismatch(f"{at} is {got!r}, not {wanted!r}")


def _compare_objects(wanted: dict[str, Any], got: Any, names: Names, at: str) -> None:
    if not isinstance(got, dict):
        raise Mismatch(f"{at} is {got!r}, not an object")
    named = [key for key in wanted if key != ANY]
    if missing := [key for key in named if key not in got]:
        raise Mismatch(f"{at} has no {', '.join(missing)}")
    if ANY not in wanted and (more := [key for key in got if key not in wanted]):
        raise Mismatch(f"{at} has {', '.join(more)}, which the page does not tell of")
    for key in named:
        compare(wanted[key], got[key], names, f"{at}.{key}")


def _compare_lists(wanted: list[Any], got: Any, names: Names, at: str) -> None:
    """A last element "…" beside others stands for any number of further ones."""
    if not isinstance(got, list):
        raise Mismatch(f"{at} is {got!r}, not a list")
    is_open = len(wanted) > 1 and wanted[-1] == ANY
    expected = wanted[:-1] if is_open else wanted
    if len(got) < len(expected) or (len(got) > len(expected) and not is_open):
        raise Mismatch(f"{at} has {len(got)} elements, not {len(expected)}: {got!r}")
    for index, value in enumerate(expected):
        compare(value, got[index], names, f"{at}[{index}]")


def replay(example: PageExample, daemon: RunningDaemon, names: Names) -> None:
    """Asks as the example asks. Raises Mismatch unless the answer is the one it tells of."""
    body = None if example.body is None else json.dumps(filled(example.body, names)).encode()
    connection = SocketConnection(daemon.socket, 20.0)
    try:
        headers = {name: value.encode() for name, value in example.headers.items()}
        answer = connection.exchange(example.method, filled(example.target, names), headers, body)
        values = json_values(answer.read().decode())
    finally:
        connection.close()
    if answer.status != example.status:
        raise Mismatch(f"status {answer.status}, not {example.status}: {values}")
    compare(example.answers, values, names)


@pytest.fixture
def daemon() -> Iterator[RunningDaemon]:
    """A new one without a model, which has noticed that there is none."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with (
            running(scratch / "data", {"XDG_CACHE_HOME": str(scratch / "cache")}) as started,
            started.client() as client,
        ):
            deadline = time.monotonic() + 20.0
            while client.status().state == "warming" and time.monotonic() < deadline:
                time.sleep(0.02)
            yield started


def test_the_daemon_answers_every_example_as_the_page_says(daemon: RunningDaemon, tmp_path: Path) -> None:
    (tmp_path / "garden.md").write_text("# Garden\n\nPrune the apple trees in late February.\n")
    names: Names = {"notes": str(tmp_path.resolve())}
    for example in examples(PAGE.read_text(encoding="utf-8")):
        try:
            replay(example, daemon, names)
        except Mismatch as mismatch:
            pytest.fail(f"PROTOCOL.md:{example.line}: {example.method} {example.target}: {mismatch}")


def test_every_route_that_does_not_stop_the_daemon_has_an_example() -> None:
    handlers = Api(cast(Services, None), cast(StatusReport, None))
    try:
        made = [(route.method, route.path) for route in openapi.with_document(handlers.routes(), "0")]
    finally:
        handlers.close()
    shown = [(each.method, each.target.partition("?")[0]) for each in examples(PAGE.read_text(encoding="utf-8"))]
    patterns = {route: re.compile(re.sub(r"\\\{\w+\\\}", r"[^/]+", re.escape(route[1]))) for route in made}
    missing = [
        f"{method} {path}"
        for method, path in made
        if (method, path) != STOPS_THE_DAEMON
        and not any(method == verb and patterns[method, path].fullmatch(target) for verb, target in shown)
    ]
    assert not missing, "clients/PROTOCOL.md has no example of: " + ", ".join(missing)


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
