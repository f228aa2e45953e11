"""Reads what passed, writes the turns of each conversation to the inbox in windows, and delivers these. SPEC 19

All methods of the recorder run on one thread, next to the loop that passes bytes on. A window that ends goes into a
private file, and the watermark is saved after it: what a crash takes is said again by the next request.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mnemo_client.cli.agent_hooks.inbox import FINAL_REFUSALS, HookInbox, InboxFullError, entries_of
from mnemo_client.client import Client
from mnemo_client.errors import InvalidAnswerError, MnemoError, RefusalError
from mnemo_client.paths import run_folder
from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.proxy import chat_formats
from mnemo_client.proxy.chat_formats import ChatMessage, ModelAnswer, ModelRequest
from mnemo_client.proxy.conversations import CHARS_MIN, QUIET_SECONDS, ConversationStore, TurnWindow
from mnemo_client.proxy.exchange import Exchange, ProxyCounters, SkipReason, decoded

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
            request, answer, why = _read(exchange)
        finally:
            exchange.drop()
        if why is not None:
            self._counters.skip(why)
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
            at = time.time_ns() // 1_000_000
            for each in new:
                if name in self._windows and not self._windows[name].has_room(each):
                    self._write(name)
                turns = self._windows.setdefault(name, TurnWindow())
                turns.add(each, at, self._clock())
                self._counters.captured += 1
                if turns.is_full():
                    self._write(name)

    def write_quiet(self) -> None:
        """Write the windows to which nothing was added for a while, and the watermarks without a window."""
        now = self._clock()
        for name, each in list(self._windows.items()):
            if now - each.changed_at >= QUIET_SECONDS:
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

    def _write(self, name: str) -> None:
        """Put the window of a conversation into the inbox, and save its watermark."""
        turns = self._windows.pop(name)
        if turns.chars < CHARS_MIN:
            self._counters.skip("short")
        else:
            entry = {"session_id": session_of(name), "namespace": self._namespace, "turns": turns.turns}
            try:
                self._inbox.add(entry)
            except (InboxFullError, OSError):
                self._counters.skip("inbox_full")
        self._conversations.save(name)


def _read(exchange: Exchange) -> tuple[ModelRequest | None, ModelAnswer, SkipReason | None]:
    """Return what the two say, and why one of them is not read. Without a request that can be read, or if it failed,
    nothing of it counts as seen: the next attempt may be read. Of an answer that broke off nothing counts."""
    nothing, kind = ModelAnswer(""), exchange.kind
    if not 200 <= exchange.status < 300:
        return None, nothing, "failed"
    if exchange.request.lost is not None:
        return None, nothing, exchange.request.lost
    body = decoded(exchange.request.bytes(), exchange.request_encoding)
    if body is None:
        return None, nothing, "encoding"
    request = chat_formats.read_request(kind, body)
    if request is None or not request.messages:
        return None, nothing, "unreadable"
    if not (exchange.is_complete or kind.has_ended(exchange.answer.bytes())):
        return request, nothing, "interrupted"
    if exchange.answer.lost is not None:
        return request, nothing, exchange.answer.lost
    said = decoded(exchange.answer.bytes(), exchange.answer_encoding)
    if said is None:
        return request, nothing, "encoding"
    return request, chat_formats.read_answer(kind, exchange.answer_type, said), None


# Delivery


FOLDER_NAME = "proxy"  # below the run folder
AGENT = "proxy"  # by this name the daemon knows that no person asks: it shows nothing that is sensitive
ANSWER_SECONDS_MAX = 60.0  # for one window
# Of a turn that may be taken later
PASSING_CODES = frozenset({"busy", "degraded", "disk_full", "outcome_unknown", "stopping", "write_failed"})


def proxy_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the proxy's salt, watermarks and inbox."""
    return run_folder(environ) / FOLDER_NAME


def inbox_of(environ: Mapping[str, str]) -> HookInbox:
    return HookInbox(proxy_folder(environ) / "inbox")


def deliver(socket: Path, inbox: HookInbox, outcomes: Counter[str]) -> None:
    """Deliver every window, the oldest first, and count the outcomes of their turns.

    Raises MnemoError if the daemon cannot take one now: it stays with those after it.
    """
    waiting = list(entries_of(inbox))
    if not waiting:
        return
    with Client(socket, timeout=ANSWER_SECONDS_MAX, agent=AGENT) as client:
        for path, entry in waiting:
            try:
                outcomes.update(_deliver_window(client, entry))
            except RefusalError as refused:
                if refused.status not in FINAL_REFUSALS:
                    raise
                inbox.refuse(path)
                outcomes["refused"] += 1
            except (msgspec.ValidationError, TypeError, KeyError):
                inbox.refuse(path)
                outcomes["refused"] += 1
            else:
                path.unlink(missing_ok=True)


def _deliver_window(client: Client, entry: Mapping[str, Any]) -> Counter[str]:
    turns = msgspec.convert(entry["turns"], list[Turn])
    answer = client.turns(
        TurnsRequest(
            session_id=entry["session_id"], turns=turns, source="proxy", infer=True, namespace=entry["namespace"]
        )
    )
    outcomes: Counter[str] = Counter()
    for each in answer.results:
        if isinstance(each, PieceAnswer):
            outcomes[each.outcome] += 1
            continue
        code = _code_of(each)
        if code in PASSING_CODES:
            raise MnemoError(f"the daemon could not store a turn: {code}", "see its state: mnemo status")
        outcomes["refused"] += 1
    return outcomes


def _code_of(refused: msgspec.Raw) -> str:
    try:
        return str(msgspec.json.decode(refused)["error"]["code"])
    except (msgspec.DecodeError, KeyError, TypeError):
        raise InvalidAnswerError("a result of the daemon's answer cannot be read") from None
