"""`mnemo proxy --inject` puts memories in front of the last message, with a beginning that stays the same. SPEC 19"""

import contextlib
import gzip
import itertools
import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.test_proxy_capture import ProxyChat, post
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.scripted_upstream import ScriptedUpstream, answer_of, chat_answer, running_proxy

WHERE = "Where is the spare key of the boat house?"
KEY = "The spare key of the boat house is with Ines."
HARBOUR = "The harbour fee is paid in June by bank transfer."
SECRET = "The alarm of the boat house has the code 4711."


@pytest.fixture
def daemon(in_memory: PrestartedDaemons) -> Iterator[RunningDaemon]:
    with in_memory.taken() as taken, taken.client() as client:
        client.remember(KEY)
        client.remember(HARBOUR)
        client.remember(SECRET, tags=["sensitive"])
        yield taken


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with contextlib.closing(ScriptedUpstream(lambda _, __: answer_of(chat_answer("I see.")))) as server:
        yield server


def sent(upstream: ScriptedUpstream) -> Any:
    return upstream.requests[-1].json


def test_the_context_stands_in_front_of_the_last_message_and_nothing_else_changes(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    body = b'{"temperature":1e-1,"messages":[{"role":"system","content":"Be kind."},{"role": "user",  "content":"%s"}]}'
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        post(proxy, "/v1/chat/completions", body % WHERE.encode())
        raw = upstream.requests[-1].body
        system, block, asked = sent(upstream)["messages"]
        assert proxy.command("status")["injected"] == 1
    assert (system["role"], block["role"], asked) == ("system", "system", {"role": "user", "content": WHERE})
    assert KEY in block["content"]
    assert b'"temperature":1e-1' in raw
    assert b'{"role": "user",  "content":"%s"}' % WHERE.encode() in raw, "messages keep their bytes"
    assert upstream.requests[-1].values("Content-Length") == [str(len(raw))]


def test_what_is_sensitive_is_put_into_no_prompt(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    asked = "What is the code of the alarm of the boat house?"
    with daemon.client() as client:
        assert [each for each in client.recall(asked).memories if "4711" in each.content], "the person finds it"
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        post(proxy, "/v1/chat/completions", {"messages": [{"role": "user", "content": asked}]})
    assert b"4711" not in upstream.requests[-1].body


def test_each_format_has_its_block(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        post(proxy, "/api/chat", {"messages": [{"role": "user", "content": WHERE}]})
        assert [each["role"] for each in sent(upstream)["messages"]] == ["system", "user"]
        post(proxy, "/v1/responses", {"input": WHERE}, {"X-Api-Key": "r"})
        block, asked = sent(upstream)["input"]
        assert (block["role"], asked) == ("system", {"role": "user", "content": WHERE})
        assert KEY in block["content"]
        for content in (WHERE, [{"type": "text", "text": WHERE, "cache_control": {"type": "ephemeral"}}]):
            body = {"system": "Be kind.", "messages": [{"role": "user", "content": content}]}
            post(proxy, "/v1/messages", body, {"X-Api-Key": "a"})
            assert sent(upstream)["system"] == "Be kind."
            (message,) = sent(upstream)["messages"]
            block, *asked = message["content"]
            assert KEY in block["text"]
            assert asked == ([{"type": "text", "text": WHERE}] if isinstance(content, str) else content)


def test_the_beginning_of_a_conversation_stays_the_same_so_that_the_prompt_cache_holds(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    prompts = []
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        chat = ProxyChat(proxy)
        for text in (WHERE, "When is the harbour fee paid?", WHERE, "And how is the harbour fee paid?"):
            chat.say(text)
            prompts.append(sent(upstream)["messages"])
        post(proxy, "/v1/chat/completions", {"messages": chat.history[:-1]})  # the last one again
        prompts.append(sent(upstream)["messages"])
        contexts = proxy.command("status")["injected"]
    for before, after in itertools.pairwise(prompts):
        assert after[: len(before)] == before
    assert prompts[4] == prompts[3]
    blocks = [each["content"] for each in prompts[3] if each["role"] == "system"][1:]
    assert len(blocks) == len(set(blocks)) == contexts, "no block stands there twice"
    assert KEY in blocks[0]


@pytest.mark.parametrize("budget", ["500", "20"])
def test_in_a_long_conversation_the_beginning_changes_seldom_and_the_blocks_stay_bounded(
    daemon: RunningDaemon, upstream: ScriptedUpstream, budget: str
) -> None:
    prompts, turns = [], 24
    with running_proxy(daemon, upstream.address, "--inject", "--budget", budget) as proxy, daemon.client() as client:
        chat = ProxyChat(proxy)
        for number in range(turns):
            client.remember(f"Locker {number} of the office has the sail of the boat Wren{number}.")
            chat.say(f"Which locker has the sail of the boat Wren{number}?")
            prompts.append(sent(upstream)["messages"])
        assert proxy.command("status")["injected"] == turns
    changes = sum(after[: len(before)] != before for before, after in itertools.pairwise(prompts))
    blocks = [[each["content"] for each in prompt if each["role"] == "system"][1:] for prompt in prompts]
    assert all(f"Wren{number}." in found[-1] for number, found in enumerate(blocks))
    if budget == "500":
        assert (changes, len(blocks[-1])) == (0, turns), "all of them are shorter than eight of the longest"
    else:
        assert 1 <= changes <= turns / 4, "of the oldest, half go at once"
        assert max(sum(map(len, found)) for found in blocks) <= 8 * 20 * 4


def test_a_program_opts_out_and_what_cannot_be_changed_passes(
    daemon: RunningDaemon, upstream: ScriptedUpstream
) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": WHERE}]}).encode()
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        for headers, sent_body in (
            ({"X-Mnemo-Context": "false"}, body),
            ({"Content-Encoding": "gzip"}, gzip.compress(body)),
            ({"Content-Digest": "sha-256=:x:"}, body),
            ({}, b'{"messages": "no'),
            ({}, b'{"messages": [1, null, {"role": "user"}]}'),
        ):  # fmt: skip
            post(proxy, "/v1/chat/completions", sent_body, headers)
            assert upstream.requests[-1].body == sent_body
            assert not upstream.requests[-1].values("X-Mnemo-Context")
        status = proxy.command("status")
    assert status["not_injected"] == {"encoding": 2, "opted_out": 1, "unreadable": 2}


def test_the_budget_bounds_a_block(daemon: RunningDaemon, upstream: ScriptedUpstream) -> None:
    with daemon.client() as client:
        for number in range(40):
            client.remember(f"Spare key number {number} of the boat house hangs on hook {number} of the shed.")
    sizes = []
    for budget in ("60", "400"):
        with running_proxy(daemon, upstream.address, "--inject", "--budget", budget) as proxy:
            post(proxy, "/v1/chat/completions", {"messages": [{"role": "user", "content": WHERE}]})
            sizes.append(len(sent(upstream)["messages"][0]["content"]))
    assert sizes[0] < 60 * 6 < sizes[1] < 400 * 6


@pytest.mark.parametrize("state", ["down", "stopped"])
def test_without_a_daemon_requests_pass_without_a_context(
    daemon: RunningDaemon, upstream: ScriptedUpstream, state: str
) -> None:
    assert daemon.process is not None
    body = json.dumps({"messages": [{"role": "user", "content": WHERE}]}).encode()
    with running_proxy(daemon, upstream.address, "--inject") as proxy:
        if state == "down":
            daemon.stop()
        else:
            daemon.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            for _ in range(10):
                post(proxy, "/v1/chat/completions", body)
                assert upstream.requests[-1].body == body
            assert time.monotonic() - began < 3.0, "only the first waits for the daemon"
            assert proxy.command("status")["not_injected"] == {"no_daemon": 10}
        finally:
            daemon.process.send_signal(signal.SIGCONT) if state == "stopped" else daemon.start()
