"""Writers that know what they were told: what is done to a daemon that may be killed at any moment.

Each keeps an account of what was acknowledged, and of the request that was under way when the daemon went. What is
found in the daemon afterwards (`compare`) must be what was acknowledged, with or without what was under way, and
nothing of what was refused.
"""

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mnemo_client.client import Client
from mnemo_client.errors import InterruptedAnswerError, RefusalError, UnreachableError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch
from tests.support.running_daemon import RunningDaemon

NAMESPACE = "written"
REFUSED = "refusednever"  # stands in every text that is refused; no file may ever hold it
KEYS = 6  # of each writer, so that a key is written again and again
BATCH = 5  # memories of one request


class KnownState(NamedTuple):
    """A memory as far as the tests look at it."""

    content: str
    version: int
    state: str


class PendingWrite(NamedTuple):
    """A request without an answer: it was done or it was not."""

    id: str  # of the memory it changes; "" for one that stores a new one
    content: str  # of the memory afterwards; "" where it stays as it is
    state: str


class DaemonContents(NamedTuple):
    """The content of a daemon."""

    memories: dict[str, KnownState]  # by id
    keys: dict[str, str]  # key → id


@dataclass
class Difference:
    """The mistakes: ids and texts."""

    lost: list[str]
    doubled: list[str]
    unasked: list[str]

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.unasked)


def read_all(client: Client) -> DaemonContents:
    """Everything in NAMESPACE, as the daemon exports it."""
    memories: dict[str, KnownState] = {}
    keys: dict[str, str] = {}
    for line in client.export(NAMESPACE):
        change: Mapping[str, Any] = msgspec.json.decode(line)
        if change.get("record_type") == "memory":
            data = change["data"]
            memories[data["id"]] = KnownState(data["content"], data.get("version", 1), data.get("state", "active"))
            if data.get("key"):
                keys[data["key"]] = data["id"]
    return DaemonContents(memories, keys)


class RecordingWriter:
    """Writes until the daemon goes. The account outlives many daemons: `again` makes the next one."""

    def __init__(self, own: str, round_number: int, daemon: RunningDaemon, seed: int) -> None:
        self.own = own
        self.name = f"{own}r{round_number}"
        self.round_number = round_number
        self.running = daemon
        self.chance = random.Random(seed)
        self.account: dict[str, KnownState] = {}
        self.keys: dict[str, str] = {}
        self.under_way: list[PendingWrite] = []  # what one request asked for; each may be done without the others
        self.acknowledged = self.refused = 0
        self._threads = ThreadPoolExecutor(1, self.name)
        self._working: Future[None]

    def again(self) -> "RecordingWriter":
        """A writer for the next round, with the account of this one."""
        writer = RecordingWriter(self.own, self.round_number + 1, self.running, self.chance.randrange(1 << 30))
        writer.account, writer.keys = self.account, self.keys
        writer.acknowledged, writer.refused = self.acknowledged, self.refused
        return writer

    def start(self) -> None:
        self._working = self._threads.submit(self._run)

    def finish(self, seconds: float = 20.0) -> None:
        """Returns once it has seen its daemon gone. Raises what it did not expect, TimeoutError when it still waits."""
        self._working.result(seconds)
        self._threads.shutdown()

    def _run(self) -> None:
        with contextlib.suppress(InterruptedAnswerError, UnreachableError), self.running.client(NAMESPACE) as client:
            for number in itertools.count():
                self.write_once(client, f"{self.name}n{number}")

    def write_once(self, client: Client, word: str) -> None:
        """One request of a kind that chance picks, its outcome noted. `word` is in no other text."""
        active = [memory_id for memory_id, one in self.account.items() if one.state == "active"]
        trashed = [memory_id for memory_id, one in self.account.items() if one.state == "trashed"]
        changed = [memory_id for memory_id in active if self.account[memory_id].version > 1]
        choice = self.chance.random()
        if choice < 0.25 or not active:
            self._remember(client, f"{word} is new", None)
        elif choice < 0.30:
            self._remember_many(client, [f"{word}b{number} came with others" for number in range(BATCH)])
        elif choice < 0.50:
            self._remember(client, f"{word} has a key", f"{self.own}-key-{self.chance.randrange(KEYS)}")
        elif choice < 0.70:
            self._edit(client, self.chance.choice(active), f"{word} is edited")
        elif choice < 0.75 and changed:
            self._undo(client, self.chance.choice(changed))
        elif choice < 0.85:
            self._delete(client, self.chance.choice(active))
        elif choice < 0.95 and trashed:
            self._restore(client, self.chance.choice(trashed))
        else:
            self._be_refused(client, self.chance.choice(active), f"{word} {REFUSED}")

    def _remember(self, client: Client, content: str, key: str | None) -> None:
        self.under_way = [PendingWrite(self.keys.get(key or "", ""), content, "active")]
        self._note(client.remember(content, key=key).memory)

    def _remember_many(self, client: Client, contents: Sequence[str]) -> None:
        self.under_way = [PendingWrite("", content, "active") for content in contents]
        for outcome in client.remember_many([NewMemory(content=content) for content in contents]):
            assert isinstance(outcome, RememberAnswer), outcome
            self._note(outcome.memory)

    def _edit(self, client: Client, memory_id: str, content: str) -> None:
        self.under_way = [PendingWrite(memory_id, content, "active")]
        self._note(client.patch(memory_id, Patch(content=content)))

    def _undo(self, client: Client, memory_id: str) -> None:
        """Takes back the last change of a memory, which nobody but this writer changes."""
        last, before = client.history(memory_id, limit=2).versions
        self.under_way = [PendingWrite(memory_id, before.memory.content, before.memory.state)]
        client.undo(last.seq)
        self.account[memory_id] = self._made_of(self.under_way[0])
        self._acknowledge()

    def _restore(self, client: Client, memory_id: str) -> None:
        self.under_way = [PendingWrite(memory_id, "", "active")]
        self._note(client.restore(memory_id))

    def _delete(self, client: Client, memory_id: str) -> None:
        self.under_way = [PendingWrite(memory_id, "", "trashed")]
        client.delete(memory_id)
        self.account[memory_id] = self._made_of(self.under_way[0])
        self._acknowledge()

    def _made_of(self, asked: PendingWrite) -> KnownState:
        before = self.account[asked.id]
        return KnownState(asked.content or before.content, before.version + 1, asked.state)

    def _be_refused(self, client: Client, memory_id: str, text: str) -> None:
        try:
            if self.chance.random() < 0.5:
                client.patch(memory_id, Patch(content=text, if_version=self.account[memory_id].version + 1))
            else:
                client.remember(text.ljust(8193, "x"))
        except RefusalError:
            self.refused += 1
        else:
            raise AssertionError(f"{text} was taken")

    def _note(self, view: MemoryView) -> None:
        self.account[view.id] = KnownState(view.content, view.version, view.state)
        if view.key:
            self.keys[view.key] = view.id
        self._acknowledge()

    def _acknowledge(self) -> None:
        self.under_way = []
        self.acknowledged += 1


def compare(writers: Sequence[RecordingWriter], found: DaemonContents) -> Difference:
    """The differences from what the writers were told. Each account is then what was found, for the next round."""
    difference = Difference([], [], [])
    unknown = dict(found.memories)
    for writer in writers:
        for memory_id, one in writer.account.items():
            now = unknown.pop(memory_id, None)
            if now != one and not _is_after(writer.under_way, memory_id, one, now):
                difference.lost.append(f"{memory_id}: {one} was acknowledged, {now} is there")
    for memory_id, now in unknown.items():
        if not any(_is_new(writer.under_way, now) for writer in writers):
            difference.unasked.append(f"{memory_id}: {now}")
    contents = Counter(one.content for one in found.memories.values())
    difference.doubled += [content for content, times in contents.items() if times > 1]
    for writer in writers:
        moved = [key for key, memory_id in writer.keys.items() if found.keys.get(key) != memory_id]
        difference.doubled += [f"key {key}" for key in moved]
        _adopt(writer, found)
    return difference


def _adopt(writer: RecordingWriter, found: DaemonContents) -> None:
    """The writer's account is what was found."""
    under_way, writer.under_way = writer.under_way, []
    writer.account.update(
        {
            memory_id: one
            for memory_id, one in found.memories.items()
            if memory_id in writer.account or _is_new(under_way, one)
        }
    )
    writer.keys = {key: memory_id for key, memory_id in found.keys.items() if key.startswith(f"{writer.own}-key-")}


def _is_new(under_way: Sequence[PendingWrite], now: KnownState) -> bool:
    return any(asked == ("", now.content, now.state) for asked in under_way)


def _is_after(under_way: Sequence[PendingWrite], memory_id: str, before: KnownState, now: KnownState | None) -> bool:
    """True if the memory is as the request that was under way makes it."""
    return any(
        asked.id == memory_id and now == KnownState(asked.content or before.content, before.version + 1, asked.state)
        for asked in under_way
    )
