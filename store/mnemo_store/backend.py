"""The interface of a state backend: snapshots to read, transactions to write.

There are two backends: the database, and the replay of the journal (the fallback state), for when no database can be
trusted. Both give the same answers, row number for row number; the agreement tests compare them.
"""

import abc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_store.records import (
    Change,
    ChangeEntry,
    Edge,
    Forgotten,
    Memory,
    NoteFile,
    NoteRoot,
    Skip,
    TrashEntry,
    Usage,
)

SLICE = 1000  # rows of one step of a long walk


class StoredMemory(NamedTuple):
    """A memory's record and the seq of the change that made it."""

    seq: int
    memory: Memory


class TouchedMemory(NamedTuple):
    """A memory that a transaction touched, as the indexes need it."""

    number: int
    memory: Memory | None  # None: its record did not change, or it was dropped
    usage: Usage | None  # None: its usage did not change
    dropped: bool = False


class Snapshot(abc.ABC):
    """The store at one moment. Ids are lower-case text; a missing record is None, "" or an empty list.

    Long lists are read in slices: a slice is in the order of its keys, begins after the key `after`, and has at most
    `limit` rows; one with fewer is the last.
    """

    now: int  # ms

    @property
    def seq(self) -> int:
        """The number of the last change."""
        return int(self.meta("seq") or 0)

    def memory(self, memory_id: str) -> Memory | None:
        found = self.stored(memory_id)
        return found.memory if found else None

    def memories(self, after: str = "", limit: int = SLICE) -> list[Memory]:
        """Current records in id order."""
        return [stored.memory for stored in self.records(after, limit)]

    @abc.abstractmethod
    def meta(self, name: str) -> str:
        """A named fact about the whole store."""

    @abc.abstractmethod
    def metas(self) -> dict[str, str]:
        """Every named fact, in the order of the names."""

    @abc.abstractmethod
    def stored(self, memory_id: str) -> StoredMemory | None: ...

    @abc.abstractmethod
    def usage(self, memory_id: str) -> Usage | None: ...

    @abc.abstractmethod
    def records(self, after: str = "", limit: int = SLICE) -> list[StoredMemory]:
        """Current records and the seqs that made them, in id order."""

    @abc.abstractmethod
    def count(self) -> int:
        """Records, whatever their state."""

    @abc.abstractmethod
    def number(self, memory_id: str) -> int | None:
        """The number of a memory: a small dense integer, its row id in the indexes."""

    @abc.abstractmethod
    def id_of(self, number: int) -> str | None: ...

    @abc.abstractmethod
    def ids_by_hash(self, namespace: str, user: str, agent: str, run: str, digest: bytes) -> list[str]:
        """Memories of that scope, not trashed or discarded, whose content hash is digest, in id order."""

    @abc.abstractmethod
    def id_by_key(self, namespace: str, user: str, key: str) -> str | None: ...

    @abc.abstractmethod
    def versions(self, memory_id: str) -> list[StoredMemory]:
        """Every version that is kept, the current one last."""

    @abc.abstractmethod
    def entry(self, seq: int) -> ChangeEntry | None: ...

    @abc.abstractmethod
    def entries(self, after: int, limit: int = SLICE) -> list[tuple[int, ChangeEntry]]:
        """The entries of the transactions after `after`, in order."""

    @abc.abstractmethod
    def entries_back(self, limit: int = SLICE) -> Iterator[tuple[int, ChangeEntry]]:
        """The entries of the last transactions, the newest first."""

    @abc.abstractmethod
    def trash(self, memory_id: str) -> TrashEntry | None: ...

    @abc.abstractmethod
    def trash_entries(self, after: str = "", limit: int = SLICE) -> list[TrashEntry]:
        """In id order."""

    @abc.abstractmethod
    def trash_count(self) -> int: ...

    @abc.abstractmethod
    def edges(self, memory_id: str) -> list[Edge]:
        """The edges that have this memory at either end: first those to it, then those from it, each sorted by relation
        and other end."""

    @abc.abstractmethod
    def edges_after(self, after: Edge | None = None, limit: int = SLICE) -> list[Edge]:
        """Every edge once, in the order of source, relation, target."""

    @abc.abstractmethod
    def usages(self, after: str = "", limit: int = SLICE) -> list[Usage]:
        """In id order."""

    @abc.abstractmethod
    def note(self, file_id: str) -> NoteFile | None: ...

    @abc.abstractmethod
    def notes(self, after: str = "", limit: int = SLICE) -> list[NoteFile]:
        """Note files in id order."""

    @abc.abstractmethod
    def roots(self) -> list[NoteRoot]:
        """Every watched folder, in id order."""

    @abc.abstractmethod
    def skips(self, file_id: str) -> frozenset[str]:
        """Salted hashes of the texts that rescans of this file skip."""

    @abc.abstractmethod
    def skips_after(self, after: Skip | None = None, limit: int = SLICE) -> list[Skip]:
        """Every skip, in the order of file and hash."""

    @abc.abstractmethod
    def forgotten(self, digest: str) -> Forgotten | None:
        """The entry of a text that must not come back, by its salted hash."""

    @abc.abstractmethod
    def forgotten_after(self, after: str = "", limit: int = SLICE) -> list[Forgotten]:
        """Every such entry, in the order of the hashes."""

    @abc.abstractmethod
    def vectors(self, space: str, text_hash: bytes, dimensions: int) -> NDArray[np.float16] | None:
        """The vectors kept for a text, shape (windows, dimensions), or None."""

    @abc.abstractmethod
    def token_rows(self, space: str, text_hashes: Sequence[bytes], dimensions: int) -> list[NDArray[np.int8] | None]:
        """The token rows kept for each text, shape (tokens, dimensions), or None."""

    @abc.abstractmethod
    def joined_token_rows(
        self, space: str, text_hashes: Sequence[bytes], dimensions: int
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """The token rows of all these texts, one after the other, and the number of rows of each, -1 without any."""


class StateWriter(Snapshot):
    """A snapshot within a write transaction: it sees its own changes, and makes more."""

    @abc.abstractmethod
    def apply(self, changes: Sequence[Change], seq: int, entry: ChangeEntry) -> list[TouchedMemory]:
        """Applies the changes as transaction `seq`; `entry` gets the ids. Applying the same twice changes nothing."""

    @abc.abstractmethod
    def put_vectors(self, space: str, text_hash: bytes, rows: NDArray[np.float16] | NDArray[np.int8]) -> None:
        """Keeps a text's vectors (float16) or token rows (int8)."""

    @abc.abstractmethod
    def set_meta(self, name: str, value: str) -> None: ...

    # For loading a dump of the whole state. FORMAT.md, "The stream"

    @abc.abstractmethod
    def put_record(self, stored: StoredMemory, number: int) -> None:
        """Puts a current record under the seq that made it, with its number."""

    @abc.abstractmethod
    def put_version(self, stored: StoredMemory) -> None:
        """Puts an earlier version under the seq that made it."""

    @abc.abstractmethod
    def put_entry(self, seq: int, entry: ChangeEntry) -> None: ...


class StateTransaction(abc.ABC):
    """A transaction of several writes. One at a time."""

    @abc.abstractmethod
    def savepoint(self, now: int) -> AbstractContextManager[StateWriter]:
        """A savepoint for one write: where the block raises, nothing of it remains."""

    @abc.abstractmethod
    def record_end(self, now: int, end: tuple[int, str]) -> None:
        """Notes seq and checksum of the last change: after all writes, before the journal has them."""

    @abc.abstractmethod
    def commit(self) -> None:
        """Makes the changes visible to snapshots that begin from now on."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Discards all changes. Safe after a commit that failed."""


class StateBackend(abc.ABC):
    """A backend that holds the state of the store: the database, or the replay of the journal."""

    end: tuple[int, str]  # seq and checksum of the last transaction applied

    @abc.abstractmethod
    def snapshot(self, now: int) -> AbstractContextManager[Snapshot]: ...

    @abc.abstractmethod
    def begin(self) -> StateTransaction: ...

    @abc.abstractmethod
    def close(self) -> None: ...
