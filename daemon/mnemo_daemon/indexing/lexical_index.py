"""The lexical index as an index of the registry: which memories are in it, and by which of their words. SPEC 7.2"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.attributes import attribute_claims
from mnemo_daemon.indexing.index import INDEXED_STATES, CommitIndex, IndexFile, Snapshots, is_indexed
from mnemo_daemon.indexing.row_sums import Sums, mixed
from mnemo_store.backend import TouchedMemory
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.indexes import lexical
from mnemo_store.indexes.lexical import COUNT_MAX, PUT_TOGETHER, LexicalFields, LexicalIndex
from mnemo_store.records import Memory

POSTINGS = 1 << 18  # compared together: some 10 MB

log = logging.getLogger("mnemo.views")


def fields_of(memory: Memory) -> LexicalFields:
    """The searched words of a memory, and its claims. A note claims nothing: its file says what holds."""
    if memory.note:
        return words_of(memory)
    return words_of(memory)._replace(marks=attribute_claims.claim_keys(memory.content, memory.speaker))


def words_of(memory: Memory) -> LexicalFields:
    """The searched words of a memory, without its claims, for which sentences would have to be parsed."""
    headings = (memory.note.title, *memory.note.headings) if memory.note else ()
    return LexicalFields(memory.content, memory.speaker, memory.tags, headings)


class WordIndex(CommitIndex):
    """A LexicalIndex that follows the commits."""

    name = "words"
    kind = lexical.KIND
    states = INDEXED_STATES
    rules: tuple[str, Any] = ("claims", attribute_claims.RULES_VERSION)
    data: LexicalIndex

    def __init__(self, data: LexicalIndex | None = None) -> None:
        self.data = data or LexicalIndex()
        self._added: list[tuple[int, LexicalFields]] = []

    def __len__(self) -> int:
        return len(self.data)

    def add(self, rows: Sequence[TouchedMemory]) -> None:
        known = ((each.number, each.memory) for each in rows if each.memory is not None)
        self._added += [(number, fields_of(memory)) for number, memory in known if is_indexed(memory)]
        if len(self._added) >= PUT_TOGETHER:
            self._put_added()

    def finish(self, snapshots: Snapshots | None) -> None:
        self._put_added()

    def apply(self, snapshots: Snapshots, touched: Sequence[TouchedMemory]) -> None:
        for each in touched:
            if each.memory is not None and is_indexed(each.memory):
                self.data.put(each.number, fields_of(each.memory))
            elif each.dropped or each.memory is not None:
                self.data.drop(each.number)

    @classmethod
    def load(cls, path: Path) -> tuple[Self, dict[str, Any]]:
        data, meta = LexicalIndex.load(path)
        return cls(data), meta

    def copied(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> Self | None:
        """A saved index has only those words that some memory has."""
        try:
            self.save(path, meta, disk)
            return self.load(path)[0]
        except (OSError, StoreError) as error:
            log.warning("the lexical index could not be saved, and is rebuilt: %s", error)
            return None

    def _put_added(self) -> None:
        self.data.put_many(self._added)
        self._added = []

    @staticmethod
    def verify(found: IndexFile, expected: IndexFile) -> dict[int, str]:
        size = max(int(file.arrays["numbers"].max(initial=0)) + 1 for file in (found, expected))
        one, one_sums, one_lengths = _contents(found, size)
        other, other_sums, other_lengths = _contents(expected, size)
        unequal = one & other & ((one_sums != other_sums) | (one_lengths != other_lengths))
        wrong = dict.fromkeys(np.flatnonzero(unequal).tolist(), "the word index has other words of it")
        wrong |= dict.fromkeys(np.flatnonzero(~one & other).tolist(), "the word index does not have it")
        wrong |= dict.fromkeys(np.flatnonzero(one & ~other).tolist(), "the word index has it, and should not")
        return wrong


def _contents(file: IndexFile, size: int) -> tuple[NDArray[np.bool_], Sums, NDArray[np.float32]]:
    """By row id: whether it is there, a sum over its words and their counts, its length."""
    arrays = file.arrays
    there, sums, lengths = np.zeros(size, np.bool_), np.zeros(size, np.uint64), np.zeros(size, np.float32)
    there[arrays["numbers"]] = True
    lengths[arrays["numbers"]] = arrays["lengths"]
    offsets, packed, numbers = arrays["offsets"], arrays["packed"], arrays["numbers"]
    for start in range(0, len(packed), POSTINGS):
        some = packed[start : start + POSTINGS]
        places = np.searchsorted(offsets, np.arange(start, start + len(some)), side="right") - 1
        counts = (some & COUNT_MAX).astype(np.uint64)
        np.add.at(sums, numbers[some >> 8], mixed(mixed(arrays["keys"][places]) + counts))
    return there, sums, lengths
