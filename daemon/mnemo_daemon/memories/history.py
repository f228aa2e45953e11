"""History: a memory's versions, a memory as it was, and what became of all of them between two moments. SPEC 3.3.

For readers that follow the store (SPEC 13), a feed keeps the last FEED_CHANGES changes, of FEED_MEMORIES memories at
most. Each reader keeps its place in them, so that a slow reader occupies no memory and learns that it has missed
changes. The feed has ids, namespaces and kinds of changes, no contents.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

from mnemo_core.retrieval import versions as timeline
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.errors import Refusal
from mnemo_daemon.memories.as_of import VERSIONS_A_SLICE, HistoryReader
from mnemo_daemon.memories.memory_service import Caller, MemoryDetails, MemoryService, details_of, is_visible
from mnemo_daemon.table_walk import bad_cursor
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.records import ChangeEntry, DropMemory, Memory
from mnemo_store.store import Commit, Store
from mnemo_store.tables import StoredMemory

SEQ_DIGITS_MAX = 18

FEED_CHANGES = 10_000
FEED_MEMORIES = 20_000  # in all of these: one change of a bulk operation has hundreds, of some 300 bytes each
READ_TOGETHER = 200  # changes that a reader takes at once

TurnPlace = Literal["ring", "recent", "registry", "archive"]
ChangeKind = Literal["added", "changed", "trashed", "discarded", "erased"]


class MemoryVersion(NamedTuple):
    """A version of a memory, the transaction that made it, and what an answer shows with it."""

    seq: int
    entry: ChangeEntry
    details: MemoryDetails


class SeqRange(NamedTuple):
    """Between the states after two transactions."""

    since: int
    until: int


class MemoryDifference(NamedTuple):
    """The changes of one memory within a span, and the last transaction that changed it there. Of what was `dropped`
    nothing is known but its id."""

    id: str
    became: timeline.ChangeKind | None  # None: dropped
    seq: int
    entry: ChangeEntry
    before: MemoryDetails | None = None
    after: MemoryDetails | None = None
    fields: tuple[str, ...] = ()


class History:
    """The service. Every method reads whole histories, and runs on a worker thread."""

    def __init__(self, store: Store, memories: MemoryService) -> None:
        self._store = store
        self._memories = memories
        self.reader = HistoryReader(store)

    def versions(self, text: str, caller: Caller, limit: int, cursor: str) -> tuple[list[MemoryVersion], str]:
        """A memory's versions that are kept and that the caller may see, the newest first, in whatever state it is;
        and where to go on ("" at the end)."""
        memory_id = self._memories.resolve(text, caller)
        behind = _number(cursor) if cursor else None
        with self._store.snapshot() as snapshot:
            kept = snapshot.all_versions(memory_id)[::-1]
            seen = [stored for stored in kept if is_visible(stored.memory, caller)]
            rows = [stored for stored in seen if behind is None or stored.seq < behind]
            versions = [
                MemoryVersion(
                    stored.seq, snapshot.entry(stored.seq) or ChangeEntry(at=stored.memory.modified_at, by=""),
                    details_of(snapshot, stored.memory),
                )
                for stored in rows[:limit]
            ]  # fmt: skip
        return versions, str(versions[-1].seq) if len(rows) > limit else ""

    def memory_at(self, text: str, at: int, caller: Caller) -> MemoryDetails:
        """A memory as it was at a time. Raises a Refusal: 404 where it was not there then."""
        memory_id = self._memories.resolve(text, caller)
        seq = self.reader.seq_at(at)
        with self._store.snapshot() as snapshot:
            memory = timeline.version_at(snapshot.versions(memory_id), seq)
            if memory is None or not is_visible(memory, caller):
                raise Refusal(404, "not_found", f"memory {memory_id} was not there at that time", field="as_of")
            if not timeline.is_present(memory):
                raise Refusal(404, "not_found", f"memory {memory_id} was in the trash at that time", field="as_of")
            return details_of(snapshot, memory)

    def span(self, since: int, until: int | None) -> SeqRange:
        """Between these seqs; up to now where `until` is None. Raises a Refusal for what is no longer known."""
        last = self._store.seq
        until = last if until is None else min(until, last)
        self.reader.require_kept(min(since, until))
        return SeqRange(since, until)

    def differences(
        self, span: SeqRange, namespaces: tuple[str, ...], user_id: str, caller: Caller, limit: int, cursor: str
    ) -> tuple[list[MemoryDifference], SeqRange, str]:
        """The changes of each memory of the namespaces (none named: all) within the span, last changed first;
        the span, which a cursor keeps; and where to go on ("" at the end)."""
        behind = ""
        if cursor:
            since, until, behind = _cursor(cursor)
            span = SeqRange(since, until)
        last: dict[str, tuple[int, ChangeEntry]] = {}
        for seq, entry in self.reader.changes(span.since, span.until):
            for memory_id in entry.ids if entry.what != timeline.TURN_TIER else ():
                last.setdefault(memory_id, (seq, entry))
        ids = list(last)
        if cursor:
            if behind not in last:
                raise bad_cursor()
            ids = ids[ids.index(behind) + 1 :]
        rows: list[MemoryDifference] = []
        for some in batched(ids, VERSIONS_A_SLICE):
            if len(rows) > limit:
                break
            with self._store.snapshot() as snapshot:
                for memory_id in some:
                    versions = snapshot.versions(memory_id)
                    row = _difference(snapshot, MemoryDifference(memory_id, None, *last[memory_id]), versions, span)
                    if row is not None and _is_shown(row, versions, namespaces, user_id, caller):
                        rows.append(row)
        more, rows = len(rows) > limit, rows[:limit]
        return rows, span, f"{span.since}.{span.until}.{rows[-1].id}" if more else ""


def _difference(
    snapshot: Snapshot, row: MemoryDifference, versions: list[StoredMemory], span: SeqRange
) -> MemoryDifference | None:
    """The row with what became of its memory; None where that is nothing."""
    if not versions:
        return row
    before, after = (timeline.version_at(versions, seq) for seq in span)
    became = timeline.change_kind(before, after)
    if became is None:
        return None
    fields = timeline.changed_fields(before, after) if before is not None and after is not None else ()
    shown = [details_of(snapshot, memory) if memory is not None else None for memory in (before, after)]
    return row._replace(became=became, before=shown[0], after=shown[1], fields=fields)


def _is_shown(
    row: MemoryDifference, versions: list[StoredMemory], namespaces: tuple[str, ...], user_id: str, caller: Caller
) -> bool:
    """True if it is the caller's to see. Of what was dropped nobody knows whose it was: who sees all sees that."""
    place = row.after or row.before
    if place is None:
        return not namespaces and caller.sees_sensitive
    if (namespaces and place.memory.namespace not in namespaces) or place.memory.user_id != user_id:
        return False
    shown: list[Memory] = [each.memory for each in (row.before, row.after) if each is not None]
    return all(is_visible(memory, caller) for memory in (*shown, versions[-1].memory))


def _cursor(text: str) -> tuple[int, int, str]:
    since, _, rest = text.partition(".")
    until, _, memory_id = rest.partition(".")
    return _number(since), _number(until), memory_id


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > SEQ_DIGITS_MAX:
        raise bad_cursor()
    return int(text)


class MemoryChange(NamedTuple):
    """The change of one memory. Of an erased memory, only the id is known."""

    id: str
    kind: ChangeKind
    namespace: str = ""
    user_id: str = ""
    is_sensitive: bool = False
    session_id: str = ""  # of a turn
    tier: TurnPlace | None = None  # in which a turn is now


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
        changes = [_change_of(each.memory) for each in commit.touched if each.memory is not None]
        dropped = [each.id for each in commit.changes or () if isinstance(each, DropMemory)]
        memories = (*changes, *(MemoryChange(memory_id, "erased") for memory_id in dropped))
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


def _change_of(memory: Memory) -> MemoryChange:
    kind: ChangeKind = "added" if memory.version == 1 else "changed"
    if memory.state == "trashed":
        kind = "trashed"
    elif memory.state == "discarded":
        kind = "discarded"
    change = MemoryChange(memory.id, kind, memory.namespace, memory.user_id, SENSITIVE_TAG in memory.tags)
    if memory.turn is None:
        return change
    tier: TurnPlace = "archive" if memory.state == "archived" else memory.turn.tier
    return change._replace(session_id=memory.session_id, tier=tier)
