"""The latest changes of the store, for readers that follow them. SPEC 13

The feed keeps the last FEED_CHANGES changes, of FEED_MEMORIES memories at most, and each reader keeps its place in
them, so that a slow reader occupies no memory and learns that it has missed changes. The feed has ids, namespaces and
kinds of changes, no contents.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_store.records import DropMemory, Memory
from mnemo_store.store import Commit

FEED_CHANGES = 10_000
FEED_MEMORIES = 20_000  # in all of these: one change of a bulk operation has hundreds, of some 300 bytes each
READ_TOGETHER = 200  # changes that a reader takes at once

ChangeKind = Literal["added", "changed", "trashed", "discarded", "erased"]


class MemoryChange(NamedTuple):
    """The change of one memory. Of an erased memory, only the id is known."""

    id: str
    kind: ChangeKind
    namespace: str = ""
    user_id: str = ""
    is_sensitive: bool = False


class FeedChange(NamedTuple):
    """One change of the store, as far as it touched memories."""

    seq: int
    at: int  # ms
    memories: tuple[MemoryChange, ...]


class FeedSlice(NamedTuple):
    """The changes after a place, the seq to continue from, and whether changes between both are missing."""

    changes: list[FeedChange]
    seq: int
    has_gap: bool = False


class ChangeFeed:
    """The feed. `on_commit` is called on the writer thread; any thread may read."""

    def __init__(self, seq: int, size: int = FEED_CHANGES) -> None:
        """seq: of the last change that the feed will not have."""
        self._lock = threading.Lock()
        self._changes: deque[FeedChange] = deque()
        self._size = size
        self._memories = 0  # in all changes
        self._before = seq  # of the last change that is not kept
        self.seq = seq
        self._wakers: list[Callable[[], None]] = []

    def on_commit(self, commit: Commit) -> None:
        """Add a change, and wake the readers."""
        memories = _memory_changes(commit)
        with self._lock:
            if commit.seq <= self.seq:  # the store was replaced: nothing kept belongs to it
                self._changes.clear()
                self._memories = 0
                self._before = commit.seq - 1
            self.seq = commit.seq
            if memories:
                self._changes.append(FeedChange(commit.seq, commit.at, memories))
                self._memories += len(memories)
                while len(self._changes) > self._size or (self._memories > FEED_MEMORIES and len(self._changes) > 1):
                    gone = self._changes.popleft()
                    self._memories -= len(gone.memories)
                    self._before = gone.seq
            if not memories:
                return
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def wake_on_change(self, wake: Callable[[], None]) -> None:
        """Have `wake` called once, after the next change of a memory. It must be quick."""
        with self._lock:
            self._wakers.append(wake)

    def forget_waker(self, wake: Callable[[], None]) -> None:
        """Take back `wake_on_change`, if it was not called yet."""
        with self._lock:
            if wake in self._wakers:
                self._wakers.remove(wake)

    def read(self, seq: int) -> FeedSlice:
        """Return the next changes after a seq."""
        with self._lock:
            has_gap = seq < self._before or seq > self.seq
            start = self._before if has_gap else seq
            # Readers are near the end: the deque is searched from there.
            behind = 0
            for change in reversed(self._changes):
                if change.seq <= start:
                    break
                behind += 1
            first = len(self._changes) - behind
            found = list(islice(self._changes, first, first + READ_TOGETHER))
            return FeedSlice(found, found[-1].seq if len(found) < behind else self.seq, has_gap)


def _memory_changes(commit: Commit) -> tuple[MemoryChange, ...]:
    changes = [_change_of(each.memory) for each in commit.touched if each.memory is not None]
    dropped = [each.id for each in commit.changes or () if isinstance(each, DropMemory)]
    return (*changes, *(MemoryChange(memory_id, "erased") for memory_id in dropped))


def _change_of(memory: Memory) -> MemoryChange:
    kind: ChangeKind = "added" if memory.version == 1 else "changed"
    if memory.state == "trashed":
        kind = "trashed"
    elif memory.state == "discarded":
        kind = "discarded"
    return MemoryChange(memory.id, kind, memory.namespace, memory.user_id, SENSITIVE_TAG in memory.tags)
