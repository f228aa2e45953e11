"""The clients `openai` and `anthropic`, and llama.cpp's own server, with `mnemo proxy` between them. SPEC 19"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.integration.test_proxy_capture import FACTS, answering, turns_of
from tests.integration.test_proxy_injection import KEY, WHERE
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.scripted_upstream import STREAM_HEAD, ScriptedUpstream, answer_of, chunk, running_proxy

START_SECONDS_MAX = 120.0
TOKENS = 4  # of an answer
MODEL = "small"
HIT = re.compile(r"(\d+) prefix-match hit, remaining (\d+) prompt tokens")


@pytest.fixture
def daemon(in_memory: PrestartedDaemons) -> Iterator[RunningDaemon]:
    with in_memory.taken() as taken:
        yield taken


class LlamaServer(NamedTuple):
    """The server of llama.cpp's Python package, and its log, which says how much of a prompt its cache had."""

    address: str
    log: Path


@pytest.fixture(scope="module")
def llama(smollm_file: Path) -> Iterator[LlamaServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--model", str(smollm_file), "--model_alias", MODEL, "--port", str(port), "--n_ctx", "2048"]
    environ = {**os.environ, "OTEL_SDK_DISABLED": "true"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as file, subprocess.Popen(
            [sys.executable, "-m", "llama_cpp.server", *words], stdout=file, stderr=file, env=environ
        ) as process:  # fmt: skip
            deadline = time.monotonic() + START_SECONDS_MAX
            while True:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
                    break
                time.sleep(0.1)
            yield LlamaServer(f"http://127.0.0.1:{port}", log)
            process.kill()


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
    hits = [tuple(map(int, found)) for found in HIT.findall(llama.log.read_text(errors="replace"))][-2:]
    for before, (hit, rest) in zip(prompts, hits, strict=False):
        assert hit >= before - TOKENS, "all of the prompt before"
        assert rest > 0
    assert [hit + rest for hit, rest in hits] == prompts[1:]


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
