"""The examples of clients/docs/http.md: parsing them, asking a daemon as they ask, comparing its answers with theirs.

How an example is written stands on that page, under "Examples".
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.http import SocketConnection

PAGE = Path(__file__).parents[2] / "clients" / "docs" / "http.md"
ANY = "…"

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


class RawExchange(NamedTuple):
    """A request as it was sent, with the names of the page replaced by values, and the answer as it arrived."""

    target: str
    body: Any
    status: int
    headers: dict[str, str]
    text: str


class Mismatch(AssertionError):
    """The answer differs from the page; the message names the place."""


def page_examples() -> list[PageExample]:
    """Return the examples of clients/docs/http.md, in order."""
    return examples(PAGE.read_text(encoding="utf-8"))


def examples(page: str) -> list[PageExample]:
    """Return the examples of a page, in order."""
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
    """Return the JSON values that follow each other in a text."""
    values, decoder, text = [], json.JSONDecoder(), text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].lstrip()
    return values


def filled(wanted: Any, names: Names) -> Any:
    """Return a part of a request with its names replaced by their values."""
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
    """Raise Mismatch unless `got` is as wanted; a name that occurs for the first time gets its value."""
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
        raise Mismatch(f"{at} has {', '.join(more)}, which the page does not document")
    for key in named:
        compare(wanted[key], got[key], names, f"{at}.{key}")


def _compare_lists(wanted: list[Any], got: Any, names: Names, at: str) -> None:
    """A last element "…" after others stands for any number of further ones."""
    if not isinstance(got, list):
        raise Mismatch(f"{at} is {got!r}, not a list")
    is_open = len(wanted) > 1 and wanted[-1] == ANY
    expected = wanted[:-1] if is_open else wanted
    if len(got) < len(expected) or (len(got) > len(expected) and not is_open):
        raise Mismatch(f"{at} has {len(got)} elements, not {len(expected)}: {got!r}")
    for index, value in enumerate(expected):
        compare(value, got[index], names, f"{at}[{index}]")


def ask(example: PageExample, socket: Path, names: Names) -> RawExchange:
    """Send the request of the example and return the exchange. Raises Mismatch unless the answer is the example's."""
    body = filled(example.body, names)
    target = filled(example.target, names)
    connection = SocketConnection(socket, 20.0)
    try:
        headers = {name: value.encode() for name, value in example.headers.items()}
        data = None if body is None else json.dumps(body).encode()
        answer = connection.exchange(example.method, target, headers, data)
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != example.status:
        raise Mismatch(f"status {answer.status}, not {example.status}: {text}")
    is_text = answer.headers.get("content-type", "").startswith("text/")  # one text, which the page shows as "…"
    compare(example.answers, [text] if is_text else json_values(text), names)
    return RawExchange(target, body, answer.status, dict(answer.headers), text)
