"""The conversations that pass, the messages of each that were seen, and the last turns, which wait in a window. SPEC 19

A program sends the whole history with each request, perhaps without its beginning, and several chats may share an API
key. So a watermark is no number: it counts how often each message was seen, by a keyed hash of its text. An answer is
known by the message that it answers and not by its text, which programs change before they send it back.

A conversation and its watermark are a file each below the folder of the proxy. Neither has a text or a key in it.
"""

import hashlib
import json
import os
import secrets
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemo_client.path_safety import replace_file
from mnemo_client.process import make_private_folder
from mnemo_client.proxy.chat_formats import ChatMessage

KEY_CHARS = 16  # of an API key, which name a conversation
HISTORY_MAX = 1000  # messages of a request that are looked at, the latest
SEEN_MAX = 4 * HISTORY_MAX  # messages that a watermark holds, the latest
CONVERSATIONS_MAX = 500  # whose watermarks are kept, the latest
ANSWERS_MAX = 64  # ids of answers by which a conversation is found again
_SALT_BYTES = 32
_HASH_BYTES = 8


class Watermark:
    """The messages of one conversation that were seen, and how often each."""

    def __init__(self, seen: dict[str, int] | None = None, answers: Sequence[str] = ()) -> None:
        self.is_new = seen is None
        self.answers = list(answers)  # hashes of the ids of its latest answers
        self.is_saved = False
        self._seen = {} if seen is None else seen  # the one that was looked for last comes last

    @property
    def seen(self) -> dict[str, int]:
        return self._seen

    def pass_messages(self, messages: Sequence[tuple[str, ChatMessage]]) -> list[ChatMessage]:
        """Return those that were not seen yet, and count all as seen."""
        counts: Counter[str] = Counter()
        new = []
        for digest, message in messages:
            counts[digest] += 1
            before = self._seen.pop(digest, 0)
            if counts[digest] > before:
                new.append(message)
                self.is_saved = False
            self._seen[digest] = max(before, counts[digest])
        for oldest in list(self._seen)[: max(0, len(self._seen) - SEEN_MAX)]:
            del self._seen[oldest]
        self.is_new = False
        return new


class ConversationStore:
    """The watermarks, read when they are needed and kept in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "seen"
        self._salt = _salt(folder)
        self._watermarks: dict[str, Watermark] = {}
        self._by_answer: dict[str, str] = {}
        for path in self._folder.glob("*.json") if self._folder.is_dir() else ():
            self._by_answer |= dict.fromkeys(self._read(path.stem).answers, path.stem)

    def name_of(self, api_key: str, messages: Sequence[ChatMessage], previous: str = "") -> str:
        """Return the name of a conversation: by its API key, else by the answer that it goes on from, else by its first
        messages: those before the first answer. System prompts, which may hold the time, do not count."""
        if api_key:
            return self.digest("key", api_key[-KEY_CHARS:])
        if previous and (known := self._by_answer.get(self.digest("answer", previous))):
            return known
        first = next((place for place, each in enumerate(messages) if each.role == "agent"), len(messages))
        return self.digest("first", *(_plain(each.text) for each in messages[: max(first, 1)]))

    def digests(self, messages: Sequence[ChatMessage]) -> list[tuple[str, ChatMessage]]:
        """Return the latest messages with their hashes. An answer without the message that it answers is left out."""
        found = []
        asked = ""
        for each in messages[-HISTORY_MAX:]:
            if each.role == "user":
                asked = self.digest("user", _plain(each.text))
                found.append((asked, each))
            elif asked:
                found.append((self.digest("agent", asked), each))
        return found

    def watermark(self, name: str) -> Watermark:
        """Return the watermark of a conversation; a new one if it is not known."""
        known = self._watermarks.get(name)
        if known is None:
            known = self._watermarks[name] = self._read(name)
        return known

    def add_answer(self, name: str, answer_id: str) -> None:
        """Remember an answer that a later request of the conversation may name."""
        digest, watermark = self.digest("answer", answer_id), self.watermark(name)
        self._by_answer[digest] = name
        for old in watermark.answers[: len(watermark.answers) + 1 - ANSWERS_MAX]:
            self._by_answer.pop(old, None)
        watermark.answers = [*watermark.answers, digest][-ANSWERS_MAX:]
        watermark.is_saved = False

    def save(self, name: str) -> None:
        """Write the watermark of a conversation, and forget those that were not used for longest."""
        watermark = self._watermarks.get(name)
        if watermark is None or watermark.is_saved:
            return
        make_private_folder(self._folder)
        kept = {"seen": watermark.seen, "answers": watermark.answers}
        replace_file(self._folder / f"{name}.json", json.dumps(kept).encode())
        watermark.is_saved = True
        paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in paths[: max(0, len(paths) - CONVERSATIONS_MAX)]:
            path.unlink(missing_ok=True)
            self._watermarks.pop(path.stem, None)

    def unsaved(self) -> list[str]:
        return [name for name, watermark in self._watermarks.items() if not watermark.is_saved]

    def digest(self, *texts: str) -> str:
        """Return a keyed hash, which says nothing to who does not have the salt."""
        joined = "\0".join(texts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(joined, key=self._salt, digest_size=_HASH_BYTES).hexdigest()

    def _read(self, name: str) -> Watermark:
        try:
            kept = json.loads((self._folder / f"{name}.json").read_bytes())
            watermark = Watermark({str(digest): int(count) for digest, count in kept["seen"].items()}, kept["answers"])
        except FileNotFoundError:
            return Watermark()
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return Watermark()  # as for a conversation that begins: nothing is stored twice
        watermark.is_saved = True
        return watermark


def _salt(folder: Path) -> bytes:
    """Return the key of the hashes, made once; a file of another length is replaced."""
    path = folder / "salt"
    make_private_folder(folder)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            salt = file.read(_SALT_BYTES + 1)
    except FileNotFoundError:
        salt = b""
    if len(salt) != _SALT_BYTES:
        salt = secrets.token_bytes(_SALT_BYTES)
        replace_file(path, salt)
    return salt


def _plain(text: str) -> str:
    """Return the text as it is compared: without differences of Unicode form and white space."""
    return " ".join(unicodedata.normalize("NFC", text).split())


TURNS_MAX = 8
CHARS_MAX = 16_000
CHARS_MIN = 80  # shorter windows are left out
QUIET_SECONDS = 30.0  # after the last turn, a window is written
TURN_CHARS_MAX = 8000  # of one piece of a turn: less than a memory can have (8192)
CUT_MARK = "[…]"


@dataclass
class TurnWindow:
    """The turns of one conversation that are not written yet. Times are in ms, `changed_at` is of a monotonic clock."""

    turns: list[dict[str, Any]] = field(default_factory=list)
    chars: int = 0
    changed_at: float = 0.0

    def has_room(self, message: ChatMessage) -> bool:
        """Return True if the message fits in; an empty window takes any."""
        pieces = split_text(message.text)
        fits = len(self.turns) + len(pieces) <= TURNS_MAX and self.chars + sum(map(len, pieces)) <= CHARS_MAX
        return fits or not self.turns

    def add(self, message: ChatMessage, at: int, now: float) -> None:
        for piece in split_text(message.text):
            self.turns.append({"role": message.role, "content": piece, "at": at})
            self.chars += len(piece)
        self.changed_at = now

    def is_full(self) -> bool:
        return len(self.turns) >= TURNS_MAX or self.chars >= CHARS_MAX


def split_text(text: str) -> list[str]:
    """Return a text as one piece or two; of one that is longer than a window the beginning and the end, as of a long
    question of a recall."""
    if len(text) <= TURN_CHARS_MAX:
        return [text]
    if len(text) > 2 * TURN_CHARS_MAX:
        half = TURN_CHARS_MAX - len(CUT_MARK)
        return [text[:half] + CUT_MARK, CUT_MARK + text[-half:]]
    middle = text.rfind(" ", len(text) - TURN_CHARS_MAX, TURN_CHARS_MAX)
    middle = middle if middle > 0 else TURN_CHARS_MAX
    return [text[:middle], text[middle:]]
