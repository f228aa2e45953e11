"""The clients `anthropic` and `openai` send and receive the same bytes through `mnemo proxy` as without it. SPEC 19"""

import contextlib
import json
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

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
    chunk,
    running_proxy,
)

MEGABYTE = "All of this text is about boats. " * 32_000
USAGE = {"input_tokens": 1, "output_tokens": 1}
SAID = "Ahoy “Wren” – 10 knots.\u2028"
CALL = '{"place": "locker 7"}'
MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
ANTHROPIC_TOOLS = [{"name": "look", "description": "d", "input_schema": {"type": "object", "properties": {}}}]
OPENAI_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
# Of one connection, or of the moment
PASSING = {"date", "connection", "via", "host", "x-stainless-retry-count"}

Pairs = list[tuple[str, str]]


class ReceivedAnswer(NamedTuple):
    """An answer as the HTTP library of a client has it, before the client reads it."""

    status: int
    headers: Pairs
    body: bytes


def of_both_ends(headers: Iterable[tuple[str, str]]) -> Pairs:
    return sorted((name.lower(), value) for name, value in headers if name.lower() not in PASSING)


def message_events(request: Any) -> Iterator[Mapping[str, Any]]:
    """The events of a streamed answer of Anthropic: a text, and a call of a tool where there are any."""
    yield {"type": "message_start", "message": MESSAGE}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in SAID.split(" "):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    yield {"type": "ping"}
    yield {"type": "content_block_stop", "index": 0}
    if "tools" in request:
        block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        for part in (CALL[:4], CALL[4:]):
            yield {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
        yield {"type": "content_block_stop", "index": 1}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


def chat_events(request: Any) -> Iterator[Mapping[str, Any]]:
    """The values of a streamed answer of OpenAI."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": CALL}}
    deltas: list[Any] = [{"role": "assistant", "content": word} for word in SAID.split(" ")]
    for delta in [*deltas, {"tool_calls": [call]}] if "tools" in request else deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def model_answer(_: UpstreamConnection, request: RawRequest) -> bytes:
    """The answer of a model server: an error for the model `none`, else what was said last, or a stream."""
    asked = request.json
    is_message = request.line.startswith("POST /v1/messages")
    if asked["model"] == "none":
        error = {"type": "not_found_error", "message": "there is no model none"}
        return answer_of({"type": "error", "error": error}, "404 Not Found", Request_Id="req_1", X_Should_Retry="false")
    if asked.get("stream") and is_message:
        events = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in message_events(asked)]
        return STREAM_HEAD + b"".join(map(chunk, events)) + chunk(b"")
    if asked.get("stream"):
        lines = [b"data: " + json.dumps(each, ensure_ascii=False).encode() + b"\n\n" for each in chat_events(asked)]
        return STREAM_HEAD + b"".join(map(chunk, [*lines, b"data: [DONE]\n\n"])) + chunk(b"")
    said = asked["messages"][-1]["content"]
    if is_message:
        used = [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": json.loads(CALL)}]
        content = [{"type": "text", "text": said}, *(used if "tools" in asked else [])]
        return answer_of({**MESSAGE, "content": content, "stop_reason": "end_turn"}, Request_Id="req_1")
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if "tools" in asked:
        message["tool_calls"] = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": CALL}}]
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return answer_of({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with contextlib.closing(ScriptedUpstream(model_answer)) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(upstream: ScriptedUpstream) -> Iterator[RunningProxy]:
    with quick_folder() as scratch, running_proxy(RunningDaemon(scratch / "data"), upstream.address) as started:
        yield started


def ask_anthropic(address: str, fields: dict[str, Any]) -> ReceivedAnswer:
    with anthropic.Anthropic(base_url=address, api_key="sk-ant-test", max_retries=0) as client:
        return received(client.messages, {"max_tokens": 9, **fields}, anthropic.APIStatusError)


def ask_openai(address: str, fields: dict[str, Any]) -> ReceivedAnswer:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="sk-test", max_retries=0) as client:
        return received(client.chat.completions, fields, openai.APIStatusError)


def received(resource: Any, fields: dict[str, Any], failed: Any) -> ReceivedAnswer:
    """Return the answer to a call of a client. `test_proxy_clients` tests what the client reads of it."""
    try:
        with resource.with_streaming_response.create(**fields) as answer:
            body = b"".join(answer.iter_bytes())
            return ReceivedAnswer(answer.status_code, of_both_ends(answer.headers.multi_items()), body)
    except failed as error:
        refused = error.response
        return ReceivedAnswer(refused.status_code, of_both_ends(refused.headers.multi_items()), refused.read())


ASKED = {"role": "user", "content": "Where is the anchor of the boat “Wren”?"}


@pytest.mark.parametrize(("ask", "tools"), [(ask_anthropic, ANTHROPIC_TOOLS), (ask_openai, OPENAI_TOOLS)])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("kind", ["plain", "tools", "error", "megabyte"])
def test_the_bytes_are_those_without_the_proxy(
    proxy: RunningProxy, upstream: ScriptedUpstream, kind: str, is_streamed: bool,
    ask: Callable[[str, dict[str, Any]], ReceivedAnswer], tools: list[dict[str, Any]],
) -> None:  # fmt: skip
    fields: dict[str, Any] = {"model": "none" if kind == "error" else "m", "messages": [ASKED], "stream": is_streamed}
    if kind == "tools":
        fields["tools"] = tools
    if kind == "megabyte":
        fields["messages"] = [{"role": "user", "content": MEGABYTE}]
    upstream.requests.clear()
    bare, proxied = (ask(address, fields) for address in (upstream.address, proxy.address))
    assert proxied == bare
    assert bare.status == (404 if kind == "error" else 200)
    first, second = upstream.requests
    assert second.line == first.line
    assert second.body == first.body
    assert of_both_ends(second.headers) == of_both_ends(first.headers)
    assert len(first.body) > (1_000_000 if kind == "megabyte" else 50)


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_stream_that_a_client_closes_is_closed_at_the_model_server(
    proxy: RunningProxy, upstream: ScriptedUpstream, name: str
) -> None:
    ended: queue.Queue[bool] = queue.Queue()

    def script(connection: UpstreamConnection, request: RawRequest) -> None:
        values = message_events(request.json) if name == "anthropic" else chat_events(request.json)
        event, *_ = (f"event: {each.get('type')}\ndata: {json.dumps(each)}\n\n".encode() for each in values)
        connection.send(STREAM_HEAD + chunk(event))
        ended.put(connection.wait_for_end())

    upstream.script = script
    try:
        if name == "anthropic":
            with anthropic.Anthropic(base_url=proxy.address, api_key="k", max_retries=0) as client:
                events: Any = client.messages.create(max_tokens=9, model="m", messages=[ASKED], stream=True)  # type: ignore[list-item]
                assert next(iter(events)).type == "message_start"
                events.close()
                assert ended.get(timeout=WAIT_SECONDS)
        else:
            with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0) as talker:
                pieces: Any = talker.chat.completions.create(model="m", messages=[ASKED], stream=True)  # type: ignore[list-item]
                assert next(iter(pieces)).choices[0].delta.content
                pieces.close()
                assert ended.get(timeout=WAIT_SECONDS)
    finally:
        upstream.script = model_answer
