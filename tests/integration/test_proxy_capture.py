"""Turns of what passes `mnemo proxy`: each is stored once, whatever daemon and proxy do. SPEC 19"""

import contextlib
import ctypes
import gzip
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.proxy.recorder import inbox_of
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.samples import quick_folder
from tests.support.scripted_upstream import (
    STREAM_HEAD,
    WAIT_SECONDS,
    RawRequest,
    RunningProxy,
    Script,
    ScriptedUpstream,
    UpstreamConnection,
    answer_of,
    chat_answer,
    chunk,
    running_proxy,
)

LONG = "and the rest of this sentence is here so that the window has the length that it needs to be written at all"
THINGS = ("anchor", "compass", "dinghy", "ensign", "fender", "gaff", "hatch key", "inverter", "jib")
TURNS = 300  # many times what is kept of the history
FACTS = [f"The {thing} of the boat Wren is kept in locker {place} of the harbour office, {LONG}."
         for place, thing in enumerate(THINGS)]  # fmt: skip


@pytest.fixture
def daemon(in_memory: PrestartedDaemons) -> Iterator[RunningDaemon]:
    with in_memory.taken() as taken:
        yield taken


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    def script(_: UpstreamConnection, request: RawRequest) -> bytes:
        count = len(request.json.get("messages", ()))
        return answer_of(
            chat_answer(f"Noted as item {count} of the list of lockers at the harbour, as you asked me to.")
        )

    with contextlib.closing(ScriptedUpstream(script)) as server:
        yield server


class ProxyChat:
    """A program that sends its whole history with each message."""

    def __init__(self, proxy: RunningProxy, headers: Mapping[str, str] | None = None) -> None:
        self.proxy = proxy
        self.headers = dict(headers or {})
        self.history: list[dict[str, Any]] = [{"role": "system", "content": "You are helpful."}]

    def say(self, text: str, path: str = "/v1/chat/completions") -> Any:
        self.history.append({"role": "user", "content": text})
        answer = post(self.proxy, path, {"messages": self.history}, self.headers)
        said = answer["choices"][0]["message"]["content"]
        self.history.append({"role": "assistant", "content": f"{said}\n"})  # programs change white space
        return said


def post(proxy: RunningProxy, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=WAIT_SECONDS)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, body=data, headers=dict(headers or {}))
        answer = connection.getresponse().read()
    finally:
        connection.close()
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def turns_of(daemon: RunningDaemon) -> list[tuple[str, str]]:
    """(role, text) of every turn from the proxy, as they were stored; each is in the trust and session of a proxy."""
    with daemon.client() as client:
        found = [each for each in stored(client) if each.source == "proxy" and each.turn is not None]
    assert all(each.trust == "tool" and (each.session_id or "").startswith("proxy-") for each in found)
    return [(each.turn.role, each.content) for each in found if each.turn is not None]


def stored(client: Client) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = client.list_memories(limit=500, cursor=cursor)
        found += page.memories
        cursor = page.cursor
        if cursor is None:
            return sorted(found, key=lambda each: each.id)


def wait_until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def wait_until_read(proxy: RunningProxy, requests: int) -> Any:
    """The status once so many requests were read."""

    def read() -> Any:
        status = proxy.command("status")
        return status if status["passed"] >= requests and not status["reading"] else None

    return wait_until(read)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer sk-0123456789abcdef01"}, {"x-api-key": "k"}])
def test_the_first_request_sets_the_watermark_and_each_later_message_is_stored_once(
    daemon: RunningDaemon, upstream: ScriptedUpstream, headers: dict[str, str]
) -> None:
    with running_proxy(daemon, upstream.address) as proxy:
        chat = ProxyChat(proxy, headers)
        chat.history += [{"role": "user", "content": "An old story."}, {"role": "assistant", "content": "So old."}]
        answers = [chat.say(fact) for fact in FACTS[:4]]
        assert proxy.command("flush") == {"windows_waiting": 0}
        chat.say(FACTS[3])  # once more, in a history that has it
        status = proxy.command("status")
    assert status["skipped"] == {"first_request": 1}
    expected = [("agent", answers[0])]
    for fact, answer in zip(FACTS[1:4], answers[1:4], strict=True):
        expected += [("user", fact), ("agent", answer)]
    assert turns_of(daemon)[:7] == expected


def sse(*values: Any) -> bytes:
    lines = [b"data: " + json.dumps(each, ensure_ascii=False).encode() + b"\n\n" for each in values]
    return STREAM_HEAD + b"".join(map(chunk, lines)) + chunk(b"")


def messages(said: list[tuple[str, str]]) -> Any:
    return {"messages": [{"role": role, "content": text} for role, text in said]}


def parts(said: list[tuple[str, str]]) -> Any:
    output = {"type": "tool_result", "tool_use_id": "t", "content": "the output of a tool"}
    sent = [
        {"role": role, "content": [{"type": "text", "text": text}, {"type": "image", "source": {}}]}
        for role, text in said
    ]
    return {"system": "Be kind.", "messages": [*sent, {"role": "user", "content": [output]}]}


def items(said: list[tuple[str, str]]) -> Any:
    kinds = {"user": "input_text", "assistant": "output_text"}
    return {"input": [{"role": role, "content": [{"type": kinds[role], "text": text}]} for role, text in said]}


def answering(answer: bytes) -> Script:
    return lambda _, __: answer


def halves(text: str) -> tuple[str, str]:
    return text[:20], text[20:]


FORMATS: list[tuple[str, str, Callable[[list[tuple[str, str]]], Any], Callable[[str], bytes]]] = [
    ("chat", "/v1/chat/completions", messages, lambda text: answer_of(chat_answer(text))),
    ("chat-stream", "/v1/chat/completions", messages, lambda text: sse(
        {"choices": [{"index": 0, "delta": {"role": "assistant"}}]},
        *({"choices": [{"index": 0, "delta": {"content": half}}, {"index": 1, "delta": {"content": "no"}}]}
          for half in halves(text)), {"choices": [], "usage": {}},
    )),
    ("responses", "/v1/responses", items, lambda text: answer_of({"id": "resp_1", "output": [
        {"type": "reasoning", "content": [{"type": "text", "text": "no"}]},
        {"type": "message", "content": [{"type": "output_text", "text": text}]},
    ]})),
    ("responses-stream", "/v1/responses", items, lambda text: sse(
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        *({"type": "response.output_text.delta", "delta": half} for half in halves(text)),
        {"type": "response.output_text.done", "text": text},
        {"type": "response.completed", "response": {"id": "resp_1", "output": []}},
    )),
    ("ollama", "/api/chat", messages, lambda text: answer_of({"message": {"role": "assistant", "content": text}})),
    ("ollama-lines", "/api/chat", messages, lambda text: answer_of(b"".join(
        json.dumps({"message": {"content": half}, "done": False}).encode() + b"\n" for half in halves(text)
    ) + b'{"message": {"content": ""}, "done": true}\n', Content_Type="application/x-ndjson")),
    ("anthropic", "/v1/messages", parts, lambda text: answer_of({"type": "message", "content": [
        {"type": "thinking", "thinking": "no"}, {"type": "text", "text": text}]})),
    ("anthropic-stream", "/v1/messages", parts, lambda text: sse(
        {"type": "message_start", "message": {"id": "msg_1", "content": []}},
        *({"type": "content_block_delta", "delta": {"type": "text_delta", "text": half}} for half in halves(text)),
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "no"}},
        {"type": "message_stop"},
    )),
    ("chat-gzip", "/v1/chat/completions", messages, lambda text: answer_of(
        gzip.compress(json.dumps(chat_answer(text)).encode()), Content_Encoding="gzip")),
]  # fmt: skip


def test_every_format_is_read_streamed_and_not(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    expected = []
    with running_proxy(daemon, upstream.address) as proxy:
        for (name, path, request, answer), fact in zip(FORMATS, FACTS, strict=True):
            said = [("user", f"We begin with {name}.")]
            reply = f"I will remember that the {name} is as you said, é and all of it, {LONG}."
            upstream.script = answering(answer(reply))
            for text in (None, fact):
                if text is not None:
                    said += [("assistant", reply), ("user", text)]
                post(proxy, path, request(said), {"X-Api-Key": name})
            expected += [("agent", reply), ("user", fact), ("agent", reply)]
        proxy.command("flush")
        status = proxy.command("status")
    assert status["captured"] == len(expected)
    assert status["outcomes"]["duplicate"] == len(FORMATS)  # each reply was given twice
    assert sorted(set(turns_of(daemon))) == sorted(set(expected))


def test_a_program_opts_out_for_good(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    with running_proxy(daemon, upstream.address) as proxy:
        chat = ProxyChat(proxy)
        chat.say(FACTS[0])
        chat.headers = {"X-Mnemo-Extract": "false"}
        hidden = chat.say(FACTS[1])
        chat.headers = {}
        chat.say(FACTS[2])
        proxy.command("flush")
        assert proxy.command("status")["skipped"] == {"first_request": 1, "opted_out": 1}
    texts = [text for _, text in turns_of(daemon)]
    assert FACTS[2] in texts
    assert not {FACTS[1], hidden} & set(texts)


def test_nothing_is_stored_twice_after_a_restart_or_a_kill_of_the_proxy(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    history: list[dict[str, Any]] = []
    for number, ends in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
        with running_proxy(daemon, upstream.address) as proxy:
            chat = ProxyChat(proxy)
            chat.history += history[1:]
            for fact in FACTS[3 * number : 3 * number + 3]:
                chat.say(fact)
            history = chat.history
            wait_until_read(proxy, 3)
            proxy.process.send_signal(ends)
            proxy.process.wait(WAIT_SECONDS)
    texts = [text for _, text in turns_of(daemon)]
    assert sorted(texts) == sorted(set(texts))
    assert set(texts) >= set(FACTS[1:])
    with daemon.client() as client:
        assert {each.repetition_count for each in stored(client) if each.source == "proxy" and each.turn} == {0}


def test_turns_whose_history_is_sent_each_time_leave_each_message_once(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    """A loop in which the model says what it was told: the history is cut to its end, as programs do."""
    upstream.script = lambda _, request: answer_of(chat_answer(request.json["messages"][-1]["content"]))
    with running_proxy(daemon, upstream.address) as proxy:
        chat = ProxyChat(proxy, {"Authorization": "Bearer echo"})
        for number in range(TURNS):
            chat.history = [chat.history[0], *chat.history[1:][-60:]]
            chat.say(FACTS[number % len(FACTS)])
        proxy.command("flush")
        status = proxy.command("status")
    texts = [text for _, text in turns_of(daemon)]
    assert sorted(texts) == sorted(FACTS)
    assert status["passed"] == TURNS
    assert not status["windows_waiting"]


@pytest.mark.parametrize("state", ["down", "stopped", "full"])
def test_without_a_daemon_requests_pass_and_what_is_said_waits_for_it(
    daemon: RunningDaemon, upstream: ScriptedUpstream, state: str
) -> None:
    assert daemon.process is not None
    faults = daemon.folder / "faults"
    with running_proxy(daemon, upstream.address) as proxy:
        chat = ProxyChat(proxy)
        chat.say(FACTS[0])
        wait_until_read(proxy, 1)
        if state == "stopped":
            daemon.process.send_signal(signal.SIGSTOP)
        else:
            daemon.stop()
        if state == "full":
            faults.mkdir()
            daemon.program = ["-m", "tests.support.faulty_disk", str(faults)]
            daemon.start()
            for call in ("writing", "committing"):
                (faults / call).write_text("ENOSPC")
        for fact in FACTS[1:6]:
            began = time.monotonic()
            chat.say(fact)
            assert time.monotonic() - began < 2.0
        status = wait_until_read(proxy, 6)
        assert status["captured"] == 11
        if state == "full":
            assert wait_until(lambda: "full" in proxy.command("status")["problem"])
        proxy.process.terminate()
        assert proxy.process.wait(WAIT_SECONDS) == 0
    if state == "stopped":
        daemon.process.send_signal(signal.SIGCONT)
    elif state == "full":
        for fault in faults.iterdir():
            fault.unlink()
    else:
        daemon.start()
    with running_proxy(daemon, upstream.address) as proxy:
        wait_until(lambda: proxy.command("status")["windows_waiting"] == 0)
        proxy.command("flush")
    texts = [text for _, text in turns_of(daemon)]
    assert set(texts) >= set(FACTS[1:6])
    assert sorted(texts) == sorted(set(texts))


def test_a_flush_without_a_proxy_delivers_what_one_left(daemon: RunningDaemon) -> None:
    entry = {"session_id": "proxy-0", "namespace": "default", "turns": [{"role": "user", "content": FACTS[0], "at": 1}]}
    inbox_of(daemon.environ).add(entry)
    proxy = RunningProxy(None, 0, daemon.environ)  # type: ignore[arg-type]
    assert proxy.command("flush") == {"windows_waiting": 0}
    assert turns_of(daemon) == [("user", FACTS[0])]


def test_a_failed_or_interrupted_answer_is_not_stored_and_its_question_once(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    with running_proxy(daemon, upstream.address) as proxy:
        key = {"Authorization": "Bearer one"}
        ProxyChat(proxy, key).say(FACTS[0])
        asked = messages([("user", FACTS[0]), ("user", FACTS[1])])
        script, upstream.script = upstream.script, lambda _, __: answer_of(b"{}", "503 Loading")
        post(proxy, "/v1/chat/completions", asked, key)
        half = chunk(b'data: {"choices": [{"delta": {"content": "Half of it"}}]}\n\n')
        upstream.script = lambda connection, _: connection.send(STREAM_HEAD + half)
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            post(proxy, "/v1/chat/completions", asked, key)
        upstream.script = script
        post(proxy, "/v1/chat/completions", asked, key)
        proxy.command("flush")
        assert proxy.command("status")["skipped"] == {"first_request": 1, "failed": 1, "interrupted": 1}
    said = turns_of(daemon)
    assert said.count(("user", FACTS[1])) == 1
    assert not [text for _, text in said if "Half" in text]


def test_a_program_of_another_user_passes_and_neither_writes_nor_reads_memories(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    body = json.dumps(messages([("user", FACTS[0])])).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:%d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    )
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        set_user = ctypes.CDLL(None).setfsuid  # of this thread: the kernel takes the socket for that user's
        set_user(65534)
        with socket.socket() as connection:
            set_user(os.geteuid())
            connection.connect(("127.0.0.1", proxy.port))
            connection.sendall(head % (proxy.port, len(body)) + body)
            assert b" 200 OK" in connection.recv(65536)
        status = wait_until_read(proxy, 1)
    assert upstream.requests[0].body == body
    if os.geteuid() == 0:  # nobody else may take the place of another
        assert (status["skipped"], status["not_injected"]) == ({"foreign": 1}, {})


def test_secrets_are_masked_before_they_are_stored(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    secret = "ghp_" + "a1B2" * 9
    with running_proxy(daemon, upstream.address) as proxy:
        chat = ProxyChat(proxy)
        chat.say("Hello.")
        chat.say(f"My token for the harbour's repository is {secret}, {LONG}.")
        proxy.command("flush")
    kept = [text for _, text in turns_of(daemon)]
    assert any("[masked:" in text for text in kept), kept
    assert not [text for text in kept if secret in text]


def test_a_request_that_is_too_long_passes_and_is_counted(upstream: ScriptedUpstream) -> None:
    upstream.script = lambda _, __: answer_of(chat_answer("Too much."))
    with quick_folder() as scratch, running_proxy(RunningDaemon(scratch / "data"), upstream.address) as proxy:
        body = json.dumps(messages([("user", "x" * (9 << 20))])).encode()
        assert post(proxy, "/v1/chat/completions", body) == chat_answer("Too much.")
        assert upstream.requests[0].body == body
        assert wait_until(lambda: proxy.command("status")["skipped"]) == {"too_large": 1}
