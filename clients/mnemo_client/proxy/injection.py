"""Puts the context of the memory in front of the last user message of a request. SPEC 19

A program does not know what was put in, and sends its history without it. So each block is put in again where it was,
and the model server's prompt cache finds the same beginning. A block that a request has already is not repeated, and a
message that is sent again gets the same block, without a question to the daemon.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from mnemo_client.proxy.chat_formats import ChatFormat, ChatMessage, read_request
from mnemo_client.proxy.conversations import HISTORY_MAX, ConversationStore
from mnemo_client.proxy.recorder import AGENT, session_of

BUDGET_TOKENS = 500  # of a block
ANSWER_SECONDS_MAX = 0.3  # as of a hook
PAUSE_SECONDS = 10.0  # in which the daemon is not asked after it did not answer
BLOCKS_MAX = 8  # of the length of the budget, for one conversation: more of shorter ones
CHARS_PER_TOKEN = 4
CONVERSATIONS_MAX = 200  # whose blocks are kept in memory, the latest
SIGNED_HEADERS = frozenset({"content-md5", "content-digest", "digest", "signature", "signature-input"})  # of the body


class _TextPart(msgspec.Struct):
    text: str
    type: str = "text"


class _SystemMessage(msgspec.Struct):
    content: str
    role: str = "system"


class ContextInjector:
    """The blocks that were put into the latest conversations, by the message that each stands in front of."""

    def __init__(
        self, daemon: aiohttp.ClientSession, conversations: ConversationStore, namespace: str,
        budget: int = BUDGET_TOKENS, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """daemon: a session to its socket. budget: the tokens of a block."""
        self._daemon = daemon
        self._conversations = conversations
        self._namespace = namespace
        self._budget = budget
        self._clock = clock
        self._paused_until = 0.0
        self._blocks: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()

    async def inject(self, kind: ChatFormat, key: str, body: bytes) -> tuple[bytes, str]:
        """Return the body with its blocks, and why nothing new was put in ("" if something was)."""
        request = read_request(kind, body)
        last = next((each for each in reversed(request.messages if request else ()) if each.role == "user"), None)
        if request is None or last is None:
            return body, "unreadable"
        name = self._conversations.name_of(key, request.messages, request.previous)
        blocks = self._blocks.setdefault(name, OrderedDict())
        self._blocks.move_to_end(name)
        while len(self._blocks) > CONVERSATIONS_MAX:
            self._blocks.popitem(last=False)
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        given = fields[kind.messages]
        if bytes(given)[:1] == b'"':
            messages = [msgspec.Raw(msgspec.json.encode({"role": "user", "content": given}))]
        else:
            messages = msgspec.json.decode(given, type=list[msgspec.Raw])
        # The places of the latest messages of the user, by a hash that tells equal ones apart.
        places: dict[str, int] = {}
        for place, raw in list(enumerate(messages))[-HISTORY_MAX:]:
            text = _user_text(raw)
            digest = self._conversations.digest("block", text) if text else ""
            while digest and digest in places:
                digest = self._conversations.digest("again", digest)
            if digest:
                places[digest] = place
        asked = next(reversed(places), None)
        why = "" if asked is not None else "unreadable"
        if asked is not None and asked not in blocks:
            block, why = await self._context(session_of(name), last)
            present = {blocks[each] for each in places if each in blocks}
            if block in present:
                why = "unchanged"
            elif block:
                blocks[asked] = block
                # Once the blocks of a conversation are too long, take out the older half at once: each time that one
                # goes, the model server evaluates all of the prompt after it
                most = BLOCKS_MAX * self._budget * CHARS_PER_TOKEN
                if sum(map(len, blocks.values())) > most:
                    while len(blocks) > 1 and sum(map(len, blocks.values())) > most // 2:
                        blocks.popitem(last=False)
        inserted = {place: blocks[each] for each, place in places.items() if each in blocks}
        if not inserted:
            return body, why or "nothing"
        fields[kind.messages] = msgspec.Raw(msgspec.json.encode(_with_blocks(kind, messages, inserted)))
        return msgspec.json.encode(fields), why

    async def _context(self, session: str, message: ChatMessage) -> tuple[str, str]:
        """Return the block for a message, and why there is none. A daemon that does not answer is left alone for a
        while, so that it holds up one request and not all."""
        if self._clock() < self._paused_until:
            return "", "no_daemon"
        asked = {
            "query": message.text, "session_id": session, "token_budget": self._budget, "namespace": self._namespace,
        }  # fmt: skip
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                async with self._daemon.post(
                    "http://mnemo/v1/context", data=msgspec.json.encode(asked),
                    headers={"Content-Type": "application/json", "X-Mnemo-Agent": AGENT},
                ) as answer:  # fmt: skip
                    fields = msgspec.json.decode(await answer.read())
                    is_answer = answer.status == 200
        except (TimeoutError, aiohttp.ClientError, OSError, msgspec.DecodeError):
            self._paused_until = self._clock() + PAUSE_SECONDS
            return "", "no_daemon"
        block = fields.get("block") if is_answer and isinstance(fields, dict) else None
        if not isinstance(block, str):
            return "", "refused"
        return block, "" if block else "nothing"


def is_signed(headers: Mapping[str, str]) -> bool:
    """Return True if a header holds for the bytes of the body as they are."""
    return any(name.lower() in SIGNED_HEADERS for name in headers)


def _user_text(raw: msgspec.Raw) -> str:
    """Return the content of a message of the user that has text; "" for any other."""
    message: Any = msgspec.json.decode(raw)
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    has_text = isinstance(content, str) or any(
        isinstance(part, dict) and part.get("type") in ("text", "input_text") for part in parts
    )
    return msgspec.json.encode(content).decode() if has_text else ""


def _with_blocks(kind: ChatFormat, messages: list[msgspec.Raw], blocks: Mapping[int, str]) -> list[Any]:
    """Return the messages with each block in front of the one at its place.

    It is a system message, but for Anthropic, whose messages have no such role: there it is the first text of the
    user's message, since a change of the `system` field would void the cache of all that follows.
    """
    made: list[Any] = []
    for place, raw in enumerate(messages):
        block = blocks.get(place)
        if block is not None and kind.name == "messages":
            message = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            content = message["content"]
            parts: list[Any] = [{"type": "text", "text": content}]
            if bytes(content)[:1] == b"[":
                parts = msgspec.json.decode(content, type=list[msgspec.Raw])
            made.append({**message, "content": [_TextPart(block), *parts]})
            continue
        if block is not None:
            made.append(_SystemMessage(block))
        made.append(raw)
    return made
