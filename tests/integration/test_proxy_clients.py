"""The clients `openai` and `anthropic`, and llama.cpp's own server, with `mnemo proxy` between them. SPEC 19"""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.integration.test_proxy_capture import FACTS, answering, turns_of
from tests.integration.test_proxy_injection import KEY, WHERE
from tests.support.llama_server import MODEL, LlamaServer, llama_server
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.scripted_upstream import STREAM_HEAD, ScriptedUpstream, answer_of, chunk, running_proxy

TOKENS = 4  # of an answer


@pytest.fixture
def daemon(in_memory: PrestartedDaemons) -> Iterator[RunningDaemon]:
    with in_memory.taken() as taken:
        yield taken


@pytest.fixture(scope="module")
def llama(smollm_file: Path) -> Iterator[LlamaServer]:
    with llama_server(smollm_file) as server:
        yield server


def test_the_openai_client_talks_through_the_proxy_and_each_turn_is_stored(
    daemon: RunningDaemon, llama: LlamaServer
) -> None:
    history: list[ChatCompletionMessageParam] = []
    answers = []
    with running_proxy(daemon, llama.address) as proxy:
        with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="sk-test-0123456789", max_retries=0) as client:
            assert [model.id for model in client.models.list()] == [MODEL]
            for number, fact in enumerate(FACTS[:3]):
                history.append({"role": "user", "content": fact})
                fields = {"model": MODEL, "messages": history, "max_tokens": TOKENS, "temperature": 0.0}
                if number == 1:
                    whole = client.chat.completions.create(**fields)  # type: ignore[call-overload]
                    said = whole.choices[0].message.content
                else:
                    pieces = client.chat.completions.create(**fields, stream=True)  # type: ignore[call-overload]
                    said = "".join(piece.choices[0].delta.content or "" for piece in pieces)
                answers.append(said.strip())
                history.append({"role": "assistant", "content": said})
            with pytest.raises(openai.APIStatusError):
                client.chat.completions.create(model=MODEL, messages=3)  # type: ignore[call-overload]
        proxy.command("flush")
        status = proxy.command("status")
    assert status["skipped"] == {"failed": 1, "first_request": 1}
    expected = [("agent", answers[0]), ("user", FACTS[1]), ("agent", answers[1]), ("user", FACTS[2]),
                ("agent", answers[2])]  # fmt: skip
    assert status["captured"] == len(expected)
    assert {each for each in expected if each[0] == "user"} <= set(turns_of(daemon)) <= set(expected)


PASSING = re.compile(rb'"id": ?"[^"]+"|"created": ?\d+')  # what differs between two answers to one request


def test_what_llama_cpp_answers_is_what_it_answers_without_the_proxy(daemon: RunningDaemon, llama: LlamaServer) -> None:
    parameters = {"type": "object", "properties": {"place": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": parameters}}
    asked: dict[str, Any] = {
        "model": MODEL, "messages": [{"role": "user", "content": "Where is the anchor?"}], "max_tokens": TOKENS,
        "temperature": 0.0,
    }  # fmt: skip
    too_long = [{"role": "user", "content": "All of this text is about boats. " * 32_000}]
    wrong_model_fields = {"messages": 3}
    with running_proxy(daemon, llama.address) as proxy:
        for fields in (
            {}, {"stream": True}, {"tools": [tool]}, {"tools": [tool], "stream": True}, wrong_model_fields,
            {"messages": too_long},
        ):  # fmt: skip
            # The first answer fills the cache of the server: the two others then have the same way.
            _, bare, proxied = (raw_answer(address, {**asked, **fields})
                                for address in (llama.address, llama.address, proxy.address))  # fmt: skip
            assert proxied == bare
            assert bare[0] == 200 or fields in (wrong_model_fields, {"messages": too_long})
        with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0) as client:
            pieces = client.chat.completions.create(**{**asked, "max_tokens": 1000}, stream=True)
            assert next(iter(pieces)).choices
            pieces.close()
        assert raw_answer(proxy.address, asked) == raw_answer(llama.address, asked), "the server is free again"


def raw_answer(address: str, fields: dict[str, Any]) -> tuple[int, bytes]:
    """Return the status and the body of an answer, without what differs between two."""
    with openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client:
        try:
            with client.chat.completions.with_streaming_response.create(**fields) as answer:
                return answer.status_code, PASSING.sub(b"", b"".join(answer.iter_bytes()))
        except openai.APIStatusError as error:
            return error.status_code, PASSING.sub(b"", error.response.read())


def test_the_prompt_cache_of_the_server_holds_with_contexts_in_the_prompt(
    daemon: RunningDaemon, llama: LlamaServer
) -> None:
    with daemon.client() as client:
        client.remember(KEY)
        client.remember("The harbour fee is paid in June by bank transfer.")
    history: list[ChatCompletionMessageParam] = [{"role": "system", "content": "You answer in one word."}]
    prompts = []
    with running_proxy(daemon, llama.address, "--inject") as proxy:
        with openai.OpenAI(base_url=f"{proxy.address}/v1", api_key="k", max_retries=0) as talker:
            for text in (WHERE, "When is the harbour fee paid?", "And who has the spare key?"):
                history.append({"role": "user", "content": text})
                answer = talker.chat.completions.create(
                    model=MODEL, messages=history, max_tokens=TOKENS, temperature=0.0
                )
                assert answer.usage is not None
                prompts.append(answer.usage.prompt_tokens)
                history.append({"role": "assistant", "content": answer.choices[0].message.content})
        assert proxy.command("status")["injected"] >= 2
    hits = llama.cache_hits()[-2:]
    for before, hit in zip(prompts, hits, strict=False):
        assert hit.reused >= before - TOKENS, "all of the prompt before"
        assert hit.evaluated > 0
    assert [hit.reused + hit.evaluated for hit in hits] == prompts[1:]


def test_the_anthropic_client_talks_through_the_proxy_streamed_and_not(daemon: RunningDaemon) -> None:
    reply = "The anchor is noted, and will be found in its locker at the harbour office when you ask for it."
    usage = {"input_tokens": 1, "output_tokens": 1}
    start: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                             "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    whole = answer_of({**start, "content": [{"type": "text", "text": reply}], "stop_reason": "end_turn"})
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": reply[:30]}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": reply[30:]}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]
    with (
        contextlib.closing(ScriptedUpstream(answering(whole))) as upstream,
        running_proxy(daemon, upstream.address) as proxy,
        anthropic.Anthropic(base_url=proxy.address, api_key="sk-ant-test", max_retries=0) as client,
    ):
        first = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": FACTS[0]}])
        assert first.content[0].type == "text"
        assert first.content[0].text == reply
        upstream.script = answering(STREAM_HEAD + b"".join(map(chunk, lines)) + chunk(b""))
        with client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": FACTS[0]},
            {"role": "assistant", "content": reply}, {"role": "user", "content": FACTS[1]}],
        ) as stream:  # fmt: skip
            assert "".join(stream.text_stream) == reply
        proxy.command("flush")
    assert [value for _, value in upstream.requests[0].headers if "sk-ant-test" in value], "its key"
    assert sorted(set(turns_of(daemon))) == sorted({("agent", reply), ("user", FACTS[1])})
