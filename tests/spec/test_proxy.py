"""The rules of the proxy that need no server: addresses, headers, windows, watermarks, formats. SPEC 19"""

import gzip
import itertools
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.cli.agent_hooks.inbox import HookInbox
from mnemo_client.errors import UsageError
from mnemo_client.model_server import RemoteRedirectError, Upstream, read_upstream
from mnemo_client.proxy import conversations, exchange
from mnemo_client.proxy.chat_formats import FORMATS, ChatMessage, format_of, read_answer, read_request
from mnemo_client.proxy.conversations import (
    ANSWERS_MAX,
    HISTORY_MAX,
    SEEN_MAX,
    ConversationStore,
    TurnWindow,
    Watermark,
    split_text,
)
from mnemo_client.proxy.exchange import BODY_BYTES_MAX, BodyCopy, CopyBudget, Exchange, ProxyCounters, decoded
from mnemo_client.proxy.recorder import ConversationRecorder

CHAT = FORMATS[0]


@pytest.mark.parametrize(
    ("address", "upstream"),
    [
        ("http://127.0.0.1:11434", Upstream("http", "127.0.0.1:11434")),
        ("http://localhost:8080/base/", Upstream("http", "localhost:8080", "/base")),
        ("http://127.8.9.1", Upstream("http", "127.8.9.1")),
        ("https://[::1]:8443", Upstream("https", "[::1]:8443")),
    ],
)
def test_a_model_server_is_on_this_machine(address: str, upstream: Upstream) -> None:
    assert read_upstream(address) == upstream
    assert upstream.remote == ""


def test_one_other_host_may_be_allowed_by_its_name() -> None:
    assert read_upstream("https://Models.example/v1", "models.example").remote == "models.example"
    for address in ("https://models.example.attacker.example", "https://a.models.example", "http://192.168.1.2"):
        with pytest.raises(UsageError):
            read_upstream(address, "models.example")


@pytest.mark.parametrize("address", ["", "127.0.0.1", "http://", "http://127.0.0.1:x", "file:///x", "http://u@127.0.0.1",
                                     "http://127.0.0.1?x=1", "http://127.0.0.1#x", "http://[::1"])  # fmt: skip
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        read_upstream(address)


def test_a_redirect_to_the_model_server_is_relative_and_one_to_another_host_is_refused() -> None:
    upstream = Upstream("http", "127.0.0.1:1")
    elsewhere_here = ["/a", "a/b", "http://127.0.0.1:2/a", "http://[::1]/"]
    for location, passed in (*zip(elsewhere_here, elsewhere_here, strict=True), ("http://127.0.0.1:1/a?b#c", "/a?b#c")):
        assert upstream.location(location) == passed
    for location in ("http://a.example/", "//a.example", "/\\a.example", "http://127.0.0.1:1@a.example/", "http://[x/"):
        with pytest.raises(RemoteRedirectError):
            upstream.location(location)


def test_headers_of_one_connection_and_those_that_connection_names_do_not_pass() -> None:
    raw = [(b"Connection", b"close, X-One"), (b"x-one", b"1"), (b"Keep-Alive", b"5"), (b"TE", b"trailers"),
           (b"A", b"1"), (b"a", b"2"), (b"Transfer-Encoding", b"chunked"), (b"Upgrade", b"h2c")]  # fmt: skip
    assert list(exchange.end_to_end(raw)) == [("A", "1"), ("a", "2")]
    raw = [(b"Host", b"h"), (b"Via", b"1.0 a"), (b"X-Mnemo-Context", b"false"), (b"Expect", b"100-continue"),
           (b"Content-Length", b"3")]  # fmt: skip
    assert exchange.request_headers(raw, "me") == [("Content-Length", "3"), ("Via", "1.0 a, 1.1 me")]
    assert exchange.request_headers(raw, "me", sends_length=False) == [("Via", "1.0 a, 1.1 me")]
    assert exchange.has_passed([(b"Via", b"1.0 a, 1.1 me")], "me")
    assert not exchange.has_passed([(b"Via", b"1.0 a, 1.1 mean")], "me")


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/chat/completions", "chat"), ("POST", "/api/v1/chat/completions?x=1", "chat"),
        ("POST", "/v1/responses/", "responses"), ("POST", "/api/chat", "ollama"), ("POST", "/v1/messages", "messages"),
        ("GET", "/v1/messages", None), ("POST", "/v1/messages/count_tokens", None), ("POST", "/api/generate", None),
        ("POST", "/v1/embeddings", None),
    ],
)  # fmt: skip
def test_the_path_names_the_format(method: str, path: str, name: str | None) -> None:
    found = format_of(method, path)
    assert (found.name if found else None) == name


def test_a_body_of_any_shape_is_read_or_left_out_and_never_raises() -> None:
    values: tuple[Any, ...] = (
        None,
        1,
        "x",
        [],
        {},
        [None],
        {"content": 1},
        [{"content": [1, {"type": "text"}]}],
        {"role": "user"},
    )
    for kind, value in itertools.product(FORMATS, values):
        request = read_request(kind, json.dumps({kind.messages: value}).encode())
        assert request is None or all(each.text for each in request.messages)
        for name in ("choices", "output", "message", "delta", "content", "type", "response", "id"):
            body = json.dumps({"type": "message", name: value}).encode()
            for content_type, text in (("", body), ("text/event-stream", b"data: " + body), ("", body + b"\n" + body)):
                assert isinstance(read_answer(kind, content_type, text).text, str)
    assert read_request(CHAT, b"[" * 100_000) is None
    assert read_request(CHAT, b'{"messages": "\xff"}') is None


def test_a_long_turn_is_two_pieces_and_of_a_longer_one_the_beginning_and_the_end() -> None:
    assert split_text("short") == ["short"]
    words = "word " * 2400  # 12,000 characters
    pieces = split_text(words)
    assert "".join(pieces) == words
    assert [len(piece) <= conversations.TURN_CHARS_MAX for piece in pieces] == [True, True]
    first, last = split_text("a" * 10_000 + "b" * 10_000)
    assert (first, last) == ("a" * 7997 + "[…]", "[…]" + "b" * 7997)


def test_a_window_has_eight_turns_or_sixteen_thousand_characters() -> None:
    turns = TurnWindow()
    for _ in range(7):
        turns.add(ChatMessage("user", "x"), 1, 0.0)
    assert turns.has_room(ChatMessage("user", "x"))
    assert not turns.has_room(ChatMessage("user", "x" * 9000)), "it would be the eighth and the ninth"
    assert not turns.is_full()
    turns.add(ChatMessage("agent", "x"), 1, 0.0)
    assert turns.is_full()
    turns = TurnWindow()
    assert turns.has_room(ChatMessage("user", "x" * 20_000)), "an empty one takes any"
    turns.add(ChatMessage("user", "x" * 7000), 1, 0.0)
    assert not turns.has_room(ChatMessage("user", "x" * 10_000))
    assert turns.has_room(ChatMessage("user", "x" * 9000))


def said(*texts: str) -> list[ChatMessage]:
    """Messages of user and agent by turns."""
    return [ChatMessage("user" if place % 2 == 0 else "agent", text) for place, text in enumerate(texts)]


def new_of(store: ConversationStore, watermark: Watermark, *texts: str) -> list[str]:
    return [each.text for each in watermark.pass_messages(store.digests(said(*texts)))]


def test_a_watermark_counts_each_message_and_knows_an_answer_by_its_question(tmp_path: Path) -> None:
    store, watermark = ConversationStore(tmp_path), Watermark()
    assert new_of(store, watermark, "q1", "a1", "q2") == ["q1", "a1", "q2"]
    assert new_of(store, watermark, " q1", "another a1", "q2\n", "a2", "q3") == ["a2", "q3"]
    assert new_of(store, watermark, "q2", "a2", "q3", "a3", "q2") == ["a3", "q2"], (
        "its history is cut, and q2 said again"
    )
    assert new_of(store, watermark, "q3", "a3", "q2", "a2 again") == [], "less of it: of two q2 one is left"
    assert new_of(store, watermark, "q1", "a1", "q2", "a2", "q2", "a2 again") == ["a2 again"]
    assert new_of(store, watermark, "q3", "another a3") == [], "an answer that is made again is left out"
    assert new_of(store, watermark, "q4", "a4", "q1", "a1") == ["q4", "a4"], "of another chat with the same key"
    cut = [ChatMessage("agent", "a0"), ChatMessage("user", "q1")]
    assert watermark.pass_messages(store.digests(cut)) == [], "an answer whose question is cut off"


def test_a_watermark_is_bounded_and_never_forgets_what_the_same_request_has(tmp_path: Path) -> None:
    store, watermark = ConversationStore(tmp_path), Watermark()
    history = [ChatMessage("user", f"message {number}") for number in range(SEEN_MAX + 10)]
    for end in range(100, len(history), 100):
        assert len(watermark.pass_messages(store.digests(history[:end]))) == 100
    assert len(watermark.seen) <= SEEN_MAX
    assert watermark.pass_messages(store.digests(history[:end])) == []
    assert len(store.digests(history)) == HISTORY_MAX


def test_a_conversation_is_its_key_or_its_first_messages(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    one = store.name_of("", said("q1", "a1", "q2"))
    assert one == store.name_of("", said("q1")) == store.name_of("", said(" q1 ", "a", "b"))
    assert one != store.name_of("", said("q2"))
    key = "sk-0123456789abcdef"
    assert store.name_of(key, said("q1")) == store.name_of(f"other-{key}", said("q2")), "its last 16 characters"
    assert store.name_of(key, said("q1")) != store.name_of("sk-0123456789abcdeg", said("q1"))
    store.add_answer(one, "resp_1")
    store.save(one)
    assert ConversationStore(tmp_path).name_of("", said("more"), "resp_1") == one
    for number in range(ANSWERS_MAX):
        store.add_answer(one, f"resp_{number + 2}")
    assert store.name_of("", said("more"), "resp_1") == store.name_of("", said("more"))


def test_watermarks_survive_a_restart_and_a_damaged_file_begins_anew(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    assert new_of(store, store.watermark("one"), "q1", "a1") == ["q1", "a1"]
    store.save("one")
    again = ConversationStore(tmp_path)
    assert not again.watermark("one").is_new
    assert new_of(again, again.watermark("one"), "q1", "a1", "q2") == ["q2"]
    for damage in (b"", b"[]", b'{"seen": 1}', b'{"seen": {"a": "b"}, "answers": []}'):
        (tmp_path / "seen" / "one.json").write_bytes(damage)
        assert ConversationStore(tmp_path).watermark("one").is_new
    (tmp_path / "salt").write_bytes(b"short")
    assert ConversationStore(tmp_path).digest("x") != again.digest("x")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class RecorderParts:
    """A recorder on a folder, with a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.counters, self.inbox = Clock(), ProxyCounters(), HookInbox(folder / "run" / "proxy" / "inbox")
        self.store = ConversationStore(folder / "run" / "proxy")
        self.recorder = ConversationRecorder(self.store, self.inbox, self.counters, "ns", self.clock)

    def pass_chat(self, *texts: str, answer: str, key: str = "k") -> None:
        exchange = Exchange(CHAT, {"X-Api-Key": key}, CopyBudget())
        roles = {"user": "user", "agent": "assistant"}
        sent = [{"role": roles[each.role], "content": each.text} for each in said(*texts)]
        exchange.request.add(json.dumps({"messages": sent}).encode())
        exchange.answer.add(json.dumps({"choices": [{"message": {"content": answer}}]}).encode())
        exchange.status, exchange.is_complete = 200, True
        self.recorder.record(exchange)

    def windows(self) -> list[list[str]]:
        entries = [self.inbox.read(path) for path in self.inbox.entries()]
        return [[turn["content"] for turn in entry["turns"]] for entry in entries if entry]


@pytest.fixture
def parts(tmp_path: Path) -> RecorderParts:
    return RecorderParts(tmp_path)


def test_a_window_is_written_after_thirty_seconds_of_quiet(parts: RecorderParts) -> None:
    parts.pass_chat("q1", answer="a1")
    parts.pass_chat("q1", "a1", "q2" * 50, answer="a2")
    parts.clock.now = 20.0
    parts.pass_chat("q1", "a1", "q2" * 50, "a2", "q3", answer="a3")
    parts.clock.now = 49.9
    parts.recorder.write_quiet()
    assert parts.windows() == []
    parts.clock.now = 50.0
    parts.recorder.write_quiet()
    assert parts.windows() == [["a1", "q2" * 50, "a2", "q3", "a3"]]
    assert parts.counters.skipped == {"first_request": 1}


def test_a_window_that_is_full_is_written_at_once_and_a_short_one_is_left_out(parts: RecorderParts) -> None:
    history = ["q0"]
    parts.pass_chat(*history, answer="a0")
    for number in range(1, 6):
        history += [f"a{number - 1}", f"question number {number} of this long talk"]
        parts.pass_chat(*history, answer=f"a{number}")
    (full,) = parts.windows()
    assert len(full) == conversations.TURNS_MAX
    parts.pass_chat("q", answer="a", key="short")
    parts.pass_chat("q", "a", "x" * 76, answer="aaa", key="short")
    parts.pass_chat("q", answer="a", key="long")
    parts.pass_chat("q", "a", "x" * 76, answer="aaaa", key="long")
    parts.recorder.write_all()
    assert [len(each) for each in parts.windows()][1:] == [3, 3]
    assert parts.counters.skipped["short"] == 1


@pytest.mark.parametrize(("kind", "ending"), [
    ("chat", "data: [DONE]\n\n"), ("messages", 'data: {"type": "message_stop"}\n\n'),
    ("ollama", '{"message": {"content": ""}, "done": true}\n'),
    ("responses", 'data: {"type": "response.completed"}\n\n'),
])  # fmt: skip
def test_an_answer_is_whole_if_the_program_hung_up_behind_the_last_word(kind: str, ending: str) -> None:
    (found,) = [each for each in FORMATS if each.name == kind]
    assert found.has_ended(b"data: {}\n\n" + ending.encode())
    assert not found.has_ended(b'data: {"choices": [{"delta": {"content": "all"}}]}\n\n')


def test_what_is_not_written_yet_is_read_again_after_a_crash(parts: RecorderParts, tmp_path: Path) -> None:
    parts.pass_chat("q1", answer="a1")
    parts.recorder.write_quiet()
    parts.pass_chat("q1", "a1", "q2" * 50, answer="a2")
    after = RecorderParts(tmp_path)  # the first never comes to write its window
    after.pass_chat("q1", "a1", "q2" * 50, "a2", "q3", answer="a3")
    after.recorder.write_all()
    assert after.windows() == [["a1", "q2" * 50, "a2", "q3", "a3"]]


def test_copies_of_bodies_are_bounded_each_and_together() -> None:
    budget = CopyBudget(100)
    one, two = BodyCopy(budget), BodyCopy(budget)
    one.add(b"x" * 60)
    two.add(b"y" * 60)
    assert (one.bytes(), two.lost, budget.free) == (b"x" * 60, "busy", 40)
    one.drop()
    assert budget.free == 100
    large = BodyCopy(CopyBudget())
    large.add(b"x" * BODY_BYTES_MAX)
    large.add(b"x")
    assert (large.lost, large.bytes()) == ("too_large", b"")


def test_compressed_bodies_are_decoded_up_to_a_bound() -> None:
    assert decoded(gzip.compress(b"text"), "gzip") == decoded(zlib.compress(b"text"), "deflate") == b"text"
    assert decoded(b"text", "") == decoded(b"text", "identity") == b"text"
    for body, encoding in (
        (b"text", "gzip"),
        (b"text", "br"),
        (gzip.compress(b"text")[:-9], "gzip"),
        (b"t", "gzip, br"),
    ):
        assert decoded(body, encoding) is None
    assert decoded(gzip.compress(b"\0" * (BODY_BYTES_MAX + 1)), "gzip") is None, "a bomb"
