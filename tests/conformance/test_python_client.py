"""The Python client replays the golden transcripts of clients/docs/http.md: tests/support/golden_transcripts.py."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.connection import decode
from mnemo_client.errors import InvalidAnswerError, RefusalError
from mnemo_client.protocol import ingestion, memories, retrieval
from mnemo_client.protocol.status import StatusAnswer
from tests.support.golden_transcripts import ReplayServer, TranscriptExchange

TypedCall = Callable[[Client, TranscriptExchange], Any]


def body_as(exchange: TranscriptExchange, kind: type[Any]) -> Any:
    return msgspec.convert(exchange.body, kind)


def parameters(exchange: TranscriptExchange) -> dict[str, Any]:
    return dict(parse_qsl(urlsplit(exchange.path).query))


def last_part(exchange: TranscriptExchange, place: int = -1) -> str:
    return urlsplit(exchange.path).path.split("/")[place]


TYPED_CALLS: dict[str, TypedCall] = {
    r"POST /v1/memories": lambda client, each: client.remember(body_as(each, memories.NewMemory)),
    r"POST /v1/turns": lambda client, each: client.turns(body_as(each, ingestion.TurnsRequest)),
    r"GET /v1/memories/[^/?]+(\?.*)?": lambda client, each: client.get(last_part(each), **parameters(each)),
    r"PATCH /v1/memories/[^/]+": lambda client, each: client.patch(last_part(each), body_as(each, memories.Patch)),
    r"DELETE /v1/memories/[^/?]+(\?.*)?": lambda client, each: client.delete(last_part(each), **parameters(each)),
    r"GET /v1/memories/[^/]+/history": lambda client, each: client.history(last_part(each, -2)),
    r"GET /v1/memories/[^/]+/edges": lambda client, each: client.edges(last_part(each, -2)),
    r"POST /v1/trash/[^/]+/restore": lambda client, each: client.restore(last_part(each, -2)),
    r"POST /v1/undo": lambda client, each: client.undo(**each.body),
    r"POST /v1/recall": lambda client, each: client.recall(body_as(each, retrieval.RecallRequest)),
    r"POST /v1/why": lambda client, each: client.why(**each.body),
    r"POST /v1/context": lambda client, each: client.context(body_as(each, retrieval.ContextRequest)),
    r"POST /v1/ask": lambda client, each: client.ask(body_as(each, retrieval.AskRequest)),
    r"GET /v1/status": lambda client, each: client.status(),
    r"GET /v1/jobs": lambda client, each: client.jobs(),
    r"GET /v1/models": lambda client, each: client.models(),
    r"GET /v1/config": lambda client, each: client.config(),
}
"""By a pattern of the request line: the typed call that sends such a request."""


def client_for(exchange: TranscriptExchange, server: ReplayServer) -> Client:
    """Return a client that sends the headers of the exchange."""
    return Client(
        server.socket,
        exchange.headers.get("X-Namespace"),
        entry_point=exchange.headers.get("X-Mnemo-Door", "api"),  # type: ignore[arg-type]
        agent=exchange.headers.get("X-Mnemo-Agent"),
    )


def exchanges_of_v1(server: ReplayServer) -> Iterator[TranscriptExchange]:
    """Yield the exchanges with routes of the version that the client speaks: not `/health`, for other programs."""
    yield from (each for each in server.exchanges if each.path.startswith("/v1/"))


def test_every_documented_request_gets_its_documented_answer(replay_server: ReplayServer) -> None:
    for exchange in exchanges_of_v1(replay_server):
        body = None if exchange.body_text is None else exchange.body_text.encode()
        path = exchange.path.removeprefix("/v1")
        with closing(client_for(exchange, replay_server)) as client:
            if exchange.status >= 400:
                with pytest.raises(RefusalError) as refusal:
                    list(client.call(exchange.method, path, body))
                assert refusal.value.status == exchange.status, exchange.name
                assert refusal.value.details == exchange.answer["error"], exchange.name
            else:
                lines = list(client.call(exchange.method, path, body))
                assert b"\n".join(lines).decode() == exchange.text.removesuffix("\n"), exchange.name
    assert replay_server.undocumented == []
    assert [name for name in replay_server.unasked() if " /v1/" in name] == []


def test_typed_calls_send_documented_requests_and_understand_their_answers(replay_server: ReplayServer) -> None:
    used = set()
    for exchange in exchanges_of_v1(replay_server):
        call = f"{exchange.method} {exchange.path}"
        pattern = next((each for each in TYPED_CALLS if re.fullmatch(each, call)), None)
        if pattern is None or is_refused_by_the_types(exchange):
            continue
        used.add(pattern)
        with closing(client_for(exchange, replay_server)) as client:
            if exchange.status >= 400:
                with pytest.raises(RefusalError) as refusal:
                    TYPED_CALLS[pattern](client, exchange)
                assert refusal.value.details == exchange.answer["error"], exchange.name
            else:
                answer = TYPED_CALLS[pattern](client, exchange)
                assert json.loads(msgspec.json.encode(answer)) == exchange.answer, exchange.name
    assert used == set(TYPED_CALLS)
    assert replay_server.undocumented == []


def is_refused_by_the_types(exchange: TranscriptExchange) -> bool:
    """Return True for a request that no typed call can make: with a value that its type excludes."""
    return exchange.status == 400 and exchange.answer["error"]["code"] == "bad_value"


def test_an_answer_that_lacks_a_documented_field_is_not_accepted(replay_server: ReplayServer) -> None:
    (documented,) = [each for each in replay_server.exchanges if each.name.endswith(" GET /v1/status")]
    assert decode(documented.text.encode(), StatusAnswer).memories == documented.answer["memories"]
    answer = {name: value for name, value in documented.answer.items() if name != "memories"}
    with pytest.raises(InvalidAnswerError):
        decode(json.dumps(answer).encode(), StatusAnswer)
