"""Reads what passed, and writes the turns of each conversation to the inbox in windows. SPEC 19

All methods run on one thread, beside the loop that passes bytes on. A window that ends goes into a private file, and
the watermark is saved after it: what a crash takes is said again by the next request, and stored then.
"""

import time
from collections.abc import Callable

from mnemo_client.cli.agent_hooks.inbox import HookInbox, InboxFullError
from mnemo_client.proxy import chat_formats, window
from mnemo_client.proxy.chat_formats import ChatMessage, ModelAnswer, ModelRequest
from mnemo_client.proxy.conversations import ConversationStore
from mnemo_client.proxy.exchange import Exchange, ProxyCounters, decoded
from mnemo_client.proxy.window import TurnWindow

SESSION_PREFIX = "proxy-"  # of the session of a conversation


def session_of(conversation: str) -> str:
    return f"{SESSION_PREFIX}{conversation}"


class ConversationRecorder:
    """The windows of all conversations that are not written yet."""

    def __init__(
        self, conversations: ConversationStore, inbox: HookInbox, counters: ProxyCounters, namespace: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._conversations = conversations
        self._inbox = inbox
        self._counters = counters
        self._namespace = namespace
        self._clock = clock
        self._windows: dict[str, TurnWindow] = {}

    def record(self, exchange: Exchange) -> None:
        """Read an exchange that has ended, and put what is new into the window of its conversation."""
        try:
            request, answer = self._read(exchange)
        finally:
            exchange.drop()
        if request is None:
            return
        conversations = self._conversations
        name = conversations.name_of(exchange.key, request.messages, request.previous)
        watermark = conversations.watermark(name)
        messages = list(request.messages)
        is_first = watermark.is_new
        if answer.text and (exchange.is_opted_out or not is_first):
            messages.append(ChatMessage("agent", answer.text))
        new = watermark.pass_messages(conversations.digests(messages))
        if answer.id and exchange.kind.name == "responses":
            conversations.add_answer(name, answer.id)
        if exchange.is_opted_out:
            self._counters.skip("opted_out")
        elif is_first:
            self._counters.skip("first_request")
        else:
            self._add(name, new)

    def write_quiet(self) -> None:
        """Write the windows to which nothing was added for a while, and the watermarks without a window."""
        now = self._clock()
        for name, each in list(self._windows.items()):
            if now - each.changed_at >= window.QUIET_SECONDS:
                self._write(name)
        for name in self._conversations.unsaved():
            if name not in self._windows:
                self._conversations.save(name)

    def write_all(self) -> None:
        for name in list(self._windows):
            self._write(name)
        for name in self._conversations.unsaved():
            self._conversations.save(name)

    @property
    def turns_waiting(self) -> int:
        """The turns of the windows that are not written yet."""
        return sum(len(each.turns) for each in list(self._windows.values()))

    def _read(self, exchange: Exchange) -> tuple[ModelRequest | None, ModelAnswer]:
        """Return what the two say. Without a request that can be read, or if it failed, nothing of it counts as seen:
        the next attempt may be read. Of an answer that broke off nothing counts."""
        nothing, kind = ModelAnswer(""), exchange.kind
        if not 200 <= exchange.status < 300:
            self._counters.skip("failed")
            return None, nothing
        if exchange.request.lost is not None:
            self._counters.skip(exchange.request.lost)
            return None, nothing
        body = decoded(exchange.request.bytes(), exchange.request_encoding)
        if body is None:
            self._counters.skip("encoding")
            return None, nothing
        request = chat_formats.read_request(kind, body)
        if request is None or not request.messages:
            self._counters.skip("unreadable")
            return None, nothing
        if not (exchange.is_complete or kind.has_ended(exchange.answer.bytes())):
            self._counters.skip("interrupted")
            return request, nothing
        if exchange.answer.lost is not None:
            self._counters.skip(exchange.answer.lost)
            return request, nothing
        said = decoded(exchange.answer.bytes(), exchange.answer_encoding)
        if said is None:
            self._counters.skip("encoding")
            return request, nothing
        return request, chat_formats.read_answer(kind, exchange.answer_type, said)

    def _add(self, name: str, messages: list[ChatMessage]) -> None:
        at = time.time_ns() // 1_000_000
        for each in messages:
            if name in self._windows and not self._windows[name].has_room(each):
                self._write(name)
            turns = self._windows.setdefault(name, TurnWindow())
            turns.add(each, at, self._clock())
            self._counters.captured += 1
            if turns.is_full():
                self._write(name)

    def _write(self, name: str) -> None:
        """Put the window of a conversation into the inbox, and save its watermark."""
        turns = self._windows.pop(name)
        if turns.chars < window.CHARS_MIN:
            self._counters.skip("short")
        else:
            entry = {"session_id": session_of(name), "namespace": self._namespace, "turns": turns.turns}
            try:
                self._inbox.add(entry)
            except (InboxFullError, OSError):
                self._counters.skip("inbox_full")
        self._conversations.save(name)
