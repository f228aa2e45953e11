"""The interface of the indexes: derived from the memories, current with them, and rebuilt from them at any time.

A commit index is current before the writer of a change is answered; `Views` drives every one of
`COMMIT_INDEXES`. A background index is filled behind the commits by a thread of its own. SPEC 3.1, 3.5
"""

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import msgspec
from numpy.typing import NDArray

from mnemo_store.backend import Snapshot, TouchedMemory
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.indexes.lexical import LexicalIndex
from mnemo_store.maintenance.check import TableSource, YieldToQueries
from mnemo_store.records import STATES, Memory
from mnemo_store.store import Store

# States whose memories are searched. SPEC 2.1
INDEXED_STATES = frozenset({"active", "archived", "compressed", "superseded"})
INDEXED_CODES = sorted(map(STATES.index, INDEXED_STATES))  # as the column has them

SAVE_AFTER_SECONDS = 300.0

IndexState = Literal["ready", "building", "catching_up", "stale", "off"]
Snapshots = Callable[[], AbstractContextManager[Snapshot]]


class IndexProgress(NamedTuple):
    """The progress of an index. `behind_since` is the monotonic time of the oldest change not applied, 0 when none."""

    state: IndexState
    applied_seq: int
    items: int
    share: float
    behind_since: float = 0.0
    reason: str = ""
    rate: float | None = None  # items a second, while it is being filled
    seconds_left: float | None = None  # at that rate


class IndexFile(NamedTuple):
    """The contents of an index file."""

    meta: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class IndexFault(NamedTuple):
    """A memory of which an index does not hold what it should."""

    number: int
    memory_id: str  # "" where no memory has that number
    what: str


class CommitIndex(ABC):
    """An index that is current with every commit.

    From its entry in `COMMIT_INDEXES` follow: loading and catching up at the start, rebuilding in slices next
    to the one that answers, saving, status, check, repair, and that nothing of an erased memory is left in it.
    """

    name: ClassVar[str]  # in status and checks
    kind: ClassVar[str]  # of its file, NAME.view
    states: ClassVar[frozenset[str]]  # of the memories that it holds
    data: AttributeStore | LexicalIndex

    @property
    @abstractmethod
    def rules(self) -> tuple[str, Any]:
        """The version of the rules by which texts are read, by its name in the file."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of memories in it."""

    @abstractmethod
    def add(self, rows: Sequence[TouchedMemory]) -> None:
        """Adds memories to an index that is being rebuilt; `finish` makes them visible."""

    @abstractmethod
    def finish(self, snapshots: Snapshots | None) -> None:
        """Completes a rebuild, after the last `add`, or a load, after what changed since was applied. None: without
        the order of notes, which the records of their files have."""

    @abstractmethod
    def apply(self, snapshots: Snapshots, touched: Sequence[TouchedMemory]) -> None:
        """Takes up what a commit changed."""

    def save(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        """Replaces the file. meta: the position and the rules; empty for a file that is only compared."""
        self.data.save(path, meta, disk)

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> tuple[Self, dict[str, Any]]:
        """The index of a file, and the `meta` with which it was saved. Raises IndexMismatch."""

    @abstractmethod
    def copied(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> Self | None:
        """The index without a trace of what was dropped, made by way of its file; None: it has to be rebuilt."""

    def keep_counts(self, earlier: Self) -> None:  # noqa: B027 (most have none)
        """Takes over what an earlier one knew that is in no record."""

    @staticmethod
    @abstractmethod
    def verify(found: IndexFile, expected: IndexFile) -> dict[int, str]:
        """The faults by row id, from the index as a file and from one that was just built."""


class BackgroundIndex(Protocol):
    """An index that the thread of the vector indexer fills behind the commits.

    From its entry in `VectorIndexer.indexes` follow status, check and repair.
    """

    def progress(self) -> IndexProgress | None:
        """None where there is no such index."""

    def verify(self, source: TableSource, yield_to_queries: YieldToQueries) -> Iterator[IndexFault]:
        """The memories of which it does not hold what it should, as of the change that it has applied."""


class SavedPosition:
    """The change that the saved files of an index have applied."""

    def __init__(self, changes_max: int) -> None:
        """changes_max: with so many changes behind it, saving is due at once."""
        self.seq = 0
        self._changes_max = changes_max
        self._at = time.monotonic()

    def set(self, seq: int) -> None:
        self.seq, self._at = seq, time.monotonic()

    def is_due(self, seq: int) -> bool:
        """Return whether enough has changed up to seq, or enough time has gone by, to save again."""
        changes, waited = seq - self.seq, time.monotonic() - self._at
        return changes >= self._changes_max or (changes > 0 and waited >= SAVE_AFTER_SECONDS)


def is_indexed(memory: Memory | None) -> bool:
    return memory is not None and memory.state in INDEXED_STATES


def position_of(store: Store, seq: int) -> dict[str, Any]:
    """The position that the file of an index records: the store, the last change applied, and which change that was.

    The number alone would not do: what a power loss takes away before it was acknowledged leaves its number to another
    change, and an index that has the first one would pass for current.
    """
    with store.snapshot() as snapshot:
        return {"store": store.store_id, "seq": seq, "change": _fingerprint(snapshot, seq)}


def require_same_store(store: Store, meta: Mapping[str, Any]) -> None:
    """Raises IndexMismatch unless the position of an index lies in the history of this store."""
    with store.snapshot() as snapshot:
        require_known_store(snapshot, store.store_id, meta)


def require_known_store(snapshot: Snapshot, store_id: str, meta: Mapping[str, Any]) -> None:
    """The same, of a store that is not open."""
    seq = int(meta.get("seq", 0))
    if meta.get("store") != store_id or seq > snapshot.seq:
        raise IndexMismatch("a view's file belongs to another store")
    if meta.get("change") != _fingerprint(snapshot, seq):
        raise IndexMismatch(f"a view's file has another change {seq} than the store")


def _fingerprint(snapshot: Snapshot, seq: int) -> str:
    entry = snapshot.entry(seq)
    return "" if entry is None else hashlib.blake2b(msgspec.json.encode(entry), digest_size=8).hexdigest()
