"""JSON values of any length under the caller's keys: one memory each, a long one with further memories. SPEC 20"""

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mnemo_client.client import Client
from mnemo_client.errors import MnemoError
from mnemo_client.protocol.choices import Kind, State
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import MemoryView, NewMemory
from mnemo_client.protocol.primitives import LIMIT_MAX

CONTENT_CHARS_MAX = 8192  # SPEC 2.1
PART_CHARS = 8000  # of a text that is longer: in each of its memories
KEY_CHARS_MAX = 240  # SPEC 2.1, without what the key of a part adds
BATCH_MAX = 1000  # memories in one request. SPEC 13
DELETED_AT_ONCE = 200  # memories in one request, whose target names them all
PART_TAG = "part"
# Whatever the lifecycle does with a memory, a value is there until somebody deletes it.
KEPT_STATES: list[State] = ["active", "archived", "compressed", "superseded"]

# A span that a person wants nowhere. SPEC 5.1
_PRIVATE = re.compile(r"<private(?:\s[^<>]{0,200})?>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
_PARTS = re.compile(r"parts:(\d+):([0-9a-f]{12})")


class NewValue(NamedTuple):
    """A value to be stored. `front`: words in front of it by which it is found, on a line of their own."""

    key: str
    value: Any
    kind: Kind
    tags: Sequence[str] = ()
    front: str = ""
    session_id: str | None = None
    expires_at: int | None = None  # ms
    derived_from: Sequence[str] = ()


class StoredValues:
    """The values of one adapter, which its `source` names. Any thread may use it: requests wait for each other."""

    def __init__(self, client: Client, source: str) -> None:
        self.client = client
        self.source = source
        self.lock = threading.RLock()

    def put(self, values: Sequence[NewValue]) -> list[MemoryView]:
        """Store values, each instead of the one with its key; return their memories.

        Raises ValueError or TypeError for what is no JSON or has too long a key, before anything is stored, and
        MnemoError where the daemon refuses one: then those before it are stored.
        """
        planned = [self._memories_of(value) for value in values]
        requests = [memory for memories in planned for memory in memories]
        stored: list[MemoryView] = []
        with self.lock:
            former = {value.key: self._parts_of(value.key) for value in values}
            for first in range(0, len(requests), BATCH_MAX):
                batch = requests[first : first + BATCH_MAX]
                for request, answer in zip(batch, self.client.remember_many(batch), strict=True):
                    if not isinstance(answer, RememberAnswer):
                        raise MnemoError(f"a value was not stored: {answer.error.message}")
                    stored.append(self._as_asked(request, answer))
            kept = {memory.id for memory in stored}
            self.delete_ids([part.id for parts in former.values() for part in parts if part.id not in kept])
        return [memory for memory in stored if PART_TAG not in memory.tags]

    def get(self, key: str) -> MemoryView | None:
        """Return the memory of a key."""
        with self.lock:
            found = self.client.list_memories(key=key, source=self.source, states=KEPT_STATES).memories
        return found[0] if found else None

    def newest(self, *, tags: Iterable[str] = (), session_id: str | None = None) -> Iterator[MemoryView]:
        """Yield the memories of all values with these tags and of this session, the one stored last first."""
        cursor, wanted = None, list(tags)
        while True:
            with self.lock:
                page = self.client.list_memories(
                    tags=wanted, session_id=session_id, source=self.source, states=KEPT_STATES, limit=LIMIT_MAX,
                    cursor=cursor,
                )  # fmt: skip
            yield from (memory for memory in page.memories if PART_TAG not in memory.tags)
            if (cursor := page.cursor) is None:
                return

    def value_of(self, memory: MemoryView) -> Any:
        """Return the value that a memory, with those that continue it, holds. Raises ValueError if some are gone."""
        text = memory.content
        if (number := _part_number(memory)) is not None:
            text = text[1:-1]
            for place in range(1, number[0]):
                part = self.get(_part_key(memory.key or "", number[1], place))
                if part is None:
                    raise ValueError(f"part {place} of the value in memory {memory.id} is gone; restore it")
                text += part.content[1:-1]
        return json.loads(text.rpartition("\n")[2])

    def delete(self, memories: Sequence[MemoryView]) -> None:
        """Move values to the trash."""
        with self.lock:
            parts = [part.id for memory in memories for part in self._parts(memory)]
            self.delete_ids([memory.id for memory in memories] + parts)

    def delete_ids(self, ids: Sequence[str]) -> None:
        """Move memories to the trash."""
        with self.lock:
            for first in range(0, len(ids), DELETED_AT_ONCE):
                self.client.delete_ids(ids[first : first + DELETED_AT_ONCE])

    def _as_asked(self, request: NewMemory, answer: RememberAnswer) -> MemoryView:
        """Return the stored memory, after a change where the daemon took it for a duplicate, which it also does where
        only case, spaces or other fields differ."""
        memory, tags, expires_at = answer.memory, request.tags, request.expires_at
        is_same = (memory.content, memory.expires_at) == (request.content, expires_at) and memory.tags == tags
        if answer.outcome != "duplicate" or is_same:
            return memory
        return self.client.patch(
            memory.id, content=request.content, tags=tags, expires_at=expires_at, derived_from=request.derived_from
        )

    def _memories_of(self, value: NewValue) -> list[NewMemory]:
        """Return the memories of a value, the one with its key last."""
        if len(value.key) > KEY_CHARS_MAX:
            raise ValueError(f"the key {value.key!r} has {len(value.key)} characters, at most {KEY_CHARS_MAX}")
        text = json_text(value.value)
        if value.front:
            text = f"{' '.join(value.front.split())}\n{text}"
        fields: dict[str, Any] = {
            "kind": value.kind, "category": "fact", "importance": 0.5, "source": self.source, "infer": False,
            "session_id": value.session_id, "expires_at": value.expires_at, "derived_from": list(value.derived_from),
        }  # fmt: skip
        if len(text) <= CONTENT_CHARS_MAX:
            return [NewMemory(text, key=value.key, tags=list(value.tags), **fields)]
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        # In parentheses, so that nothing is stripped off a part's ends.
        parts = [f"({text[first : first + PART_CHARS]})" for first in range(0, len(text), PART_CHARS)]
        whole = NewMemory(parts[0], key=value.key, tags=[*value.tags, f"parts:{len(parts)}:{digest}"], **fields)
        return [
            *(
                NewMemory(part, key=_part_key(value.key, digest, place), tags=[*value.tags, PART_TAG], **fields)
                for place, part in enumerate(parts[1:], 1)
            ),
            whole,
        ]

    def _parts_of(self, key: str) -> list[MemoryView]:
        """Return the memories that continue the value of a key."""
        memory = self.get(key)
        return [] if memory is None else self._parts(memory)

    def _parts(self, memory: MemoryView) -> list[MemoryView]:
        if (number := _part_number(memory)) is None:
            return []
        found = (self.get(_part_key(memory.key or "", number[1], place)) for place in range(1, number[0]))
        return [part for part in found if part is not None]


def json_text(value: Any) -> str:
    """Return the value as one line of JSON that storing does not change; private spans are left out.

    Raises TypeError or ValueError for what is no JSON.
    """
    text = json.dumps(_without_private(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        is_plain = unicodedata.is_normalized("NFC", text) and "\r" not in text and bool(text.encode())
    except UnicodeEncodeError:
        is_plain = False
    return text if is_plain else json.dumps(json.loads(text), separators=(",", ":"))


def _without_private(value: Any) -> Any:
    if isinstance(value, str):
        return _PRIVATE.sub("", value) if "<" in value else value
    if isinstance(value, dict):
        return {_without_private(name): _without_private(item) for name, item in value.items()}
    return [_without_private(item) for item in value] if isinstance(value, (list, tuple)) else value


def _part_number(memory: MemoryView) -> tuple[int, str] | None:
    """Return the number of memories of a long value, and the digest in the keys of all but the first."""
    matches = (_PARTS.fullmatch(tag) for tag in memory.tags)
    return next(((int(match[1]), match[2]) for match in matches if match), None)


def key_of_whole(part: MemoryView) -> str:
    """Return the key of the value that a memory continues."""
    return (part.key or "").rpartition("#")[0]


def _part_key(key: str, digest: str, place: int) -> str:
    return f"{key}#{digest}{place:x}"
