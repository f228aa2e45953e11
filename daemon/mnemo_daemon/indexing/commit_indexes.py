"""The indexes that are current with every commit: the columns of the memories, and their words. SPEC 3.1, 7.2

Those that are filled behind the commits are `VectorIndexer.indexes`.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.attributes import attribute_claims
from mnemo_core.text import text_features
from mnemo_core.text.dates import time_mentions
from mnemo_daemon.indexing.index import INDEXED_STATES, CommitIndex, IndexFile, Snapshots, is_indexed
from mnemo_daemon.times import utc_offset, zone_name
from mnemo_store.backend import Snapshot, TouchedMemory
from mnemo_store.disk import Disk
from mnemo_store.errors import StoreError
from mnemo_store.indexes import attributes, lexical
from mnemo_store.indexes.attributes import MINUTE_MS, NAMED, NO_TEXT_TIMES, Arrays, AttributeStore, TextTimes
from mnemo_store.indexes.lexical import COUNT_MAX, PUT_TOGETHER, LexicalFields, LexicalIndex, term_key
from mnemo_store.records import STATES, Memory, NoteFile

# A mixing of 64 bits (Steele, Lea and Flood 2014): sums of mixed values are equal by accident only.
_SPREAD, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Sums = NDArray[np.uint64]

NO_MEMORY = 255  # the state of a number that has none
NOTES_A_SLICE = 200  # files of notes, each of some ten chunks
LINKS = ("before", "after")
# Tokens are counted when there is a model, and the neighbours follow from the other columns.
UNCOMPARED = frozenset({"state", "tokens", "tag_numbers", *LINKS})

Numbers = NDArray[np.int64]

POSTINGS = 1 << 18  # compared together: some 10 MB

log = logging.getLogger("mnemo.views")


def mixed(values: Sums) -> Sums:
    found = values + _SPREAD
    found = (found ^ (found >> np.uint64(30))) * _FIRST
    found = (found ^ (found >> np.uint64(27))) * _SECOND
    return found ^ (found >> np.uint64(31))


def shape_of(memory: Memory) -> int:
    """The features of its text, without the headings of a note, which are no sentences of it."""
    return text_features.features_of_text(memory.content)


def times_of(memory: Memory) -> TextTimes:
    """The times that its text names: local ones, so that the columns of another time zone are others."""
    named = time_mentions.named_times(memory.content, memory.event_at, memory.created_at, utc_offset)
    if named is time_mentions.NO_TIMES:
        return NO_TEXT_TIMES
    last = named.due[1] - MINUTE_MS if named.due else 0  # a stretch without length: the last minute of a time to end by
    ends = (*(named.event or (0, 0)), *(named.other or (last, last)))
    first, after, other_first, other_after = (min(max(each // MINUTE_MS, 0), _MINUTES_MAX) for each in ends)
    return TextTimes(first, after, other_first, other_after, named.weekdays)


_MINUTES_MAX = np.iinfo(np.int32).max


class AttributeIndex(CommitIndex):
    """An AttributeStore that follows the commits."""

    name = "columns"
    kind = attributes.KIND
    states = frozenset(STATES)
    data: AttributeStore

    def __init__(self, data: AttributeStore | None = None) -> None:
        self.data = data or AttributeStore(linked=False)
        self._is_rebuilt = data is None

    @property
    def rules(self) -> tuple[str, Any]:
        """Those of the features, and those of the times, which are local ones."""
        return "shapes", f"{text_features.RULES_VERSION}, times {time_mentions.RULES_VERSION} in {zone_name()}"

    def __len__(self) -> int:
        return self.data.count_states(STATES)

    def add(self, rows: Sequence[TouchedMemory]) -> None:
        for each in rows:
            if each.memory is not None:
                self.data.put(each.number, each.memory, each.usage, shape_of(each.memory), times_of(each.memory))

    def finish(self, snapshots: Snapshots | None) -> None:
        """Links the chunks of every note in the order of its file, and, after a rebuild, every session."""
        if self._is_rebuilt:
            self.data.link_sessions()
        after = ""
        while snapshots is not None:
            with snapshots() as snapshot:
                notes = snapshot.notes(after, NOTES_A_SLICE)
                for note in notes:
                    _link_note(self.data, snapshot, note)
            if len(notes) < NOTES_A_SLICE:
                return
            after = notes[-1].id

    def apply(self, snapshots: Snapshots, touched: Sequence[TouchedMemory]) -> None:
        """Put and drop the memories that commits touched, and link the passages of their notes."""
        for each in touched:
            if each.dropped:
                self.data.drop(each.number)
            elif each.memory is not None and each.says_the_same:
                self.data.put(each.number, each.memory, each.usage, times=None)
            elif each.memory is not None:
                self.data.put(each.number, each.memory, each.usage, shape_of(each.memory), times_of(each.memory))
            elif each.usage is not None:
                self.data.set_usage(each.number, each.usage)
        if files := {each.memory.managed: None for each in touched if each.memory is not None and each.memory.managed}:
            with snapshots() as snapshot:
                for file in files:
                    note = snapshot.note(file)
                    if note is not None:
                        _link_note(self.data, snapshot, note)
                    else:
                        self.data.link_file(file, ())

    def save(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> None:
        unsaved = self.data.has_unsaved_counts
        self.data.save(path, meta, disk)
        self.data.has_unsaved_counts |= unsaved and not meta

    @classmethod
    def load(cls, path: Path) -> tuple[Self, dict[str, Any]]:
        data, meta = AttributeStore.load(path)
        return cls(data), meta

    def copied(self, path: Path, meta: Mapping[str, Any], disk: Disk) -> Self | None:
        """None: its tables of names contain those of dropped memories."""
        return None

    def keep_counts(self, earlier: Self) -> None:
        """The token counts, which a model made."""
        tokens, modified_at = earlier.data.columns("tokens", "modified_at")
        for number in np.flatnonzero(tokens):
            self.data.set_tokens(int(number), int(tokens[number]), int(modified_at[number]))

    @staticmethod
    def verify(found: IndexFile, expected: IndexFile) -> dict[int, str]:
        """See `CommitIndex`."""
        size = max(len(file.arrays["state"]) for file in (found, expected))
        states = [_grown(file.arrays["state"], size, NO_MEMORY) for file in (found, expected)]
        is_found, is_expected = (state != NO_MEMORY for state in states)
        wrong: dict[str, NDArray[np.bool_]] = {}  # by column, the row ids whose values differ
        for name in (each for each in expected.arrays if each not in UNCOMPARED):
            one, other = (_grown(file.arrays[name], size, 0) for file in (found, expected))
            if name in NAMED:
                own = found.meta["own"]["names"][name]
                code_of = {each: code for code, each in enumerate(expected.meta["own"]["names"][name])}
                table = np.array([*(code_of.get(each, -1) for each in own), -1], np.int64)
                recoded: NDArray[np.int64] = table[np.where((one >= 0) & (one < len(own)), one, len(own))]
                one = recoded
            wrong[name] = one != other
            if other.dtype.kind == "f":
                wrong[name] &= ~(np.isnan(one) & np.isnan(other))
        wrong["tags"] = _tag_sums(found, size) != _tag_sums(expected, size)
        wrong["state"] = states[0] != states[1]
        wrong |= {name: _grown(unequal, size, 0) for name, unequal in _wrong_links(found.arrays).items()}
        names: dict[int, list[str]] = {}
        for name, unequal in wrong.items():
            for number in np.flatnonzero(is_found & is_expected & unequal).tolist():
                names.setdefault(number, []).append(name)
        faults = {number: f"the columns have another {', '.join(each)}" for number, each in names.items()}
        faults |= dict.fromkeys(np.flatnonzero(~is_found & is_expected).tolist(), "the columns do not have it")
        return faults | dict.fromkeys(
            np.flatnonzero(is_found & ~is_expected).tolist(), "the columns have it, and it is gone"
        )


def _link_note(columns: AttributeStore, snapshot: Snapshot, note: NoteFile) -> None:
    numbers = [snapshot.number(chunk.memory) for chunk in note.chunks]
    columns.link_file(note.id, [number for number in numbers if number is not None])


def _wrong_links(arrays: Arrays) -> dict[str, NDArray[np.bool_]]:
    """The row ids whose neighbour is not the one that the view's other columns give.

    They are not compared with the store: a write during the check changes the neighbours of memories that it does not
    touch. The order of a note's chunks is in the record of its file alone, so here each must be the neighbour of its
    neighbour.
    """
    has_memory, numbers = arrays["state"] != NO_MEMORY, np.arange(len(arrays["state"]))
    sessions = dict(zip(LINKS, attributes.session_links(arrays), strict=True))
    wrong = {}
    for name, other in (LINKS, LINKS[::-1]):
        linked = arrays[name]
        is_one = (linked >= 0) & (linked < len(linked))
        neighbour = np.where(is_one, linked, 0)
        agrees = (arrays[other][neighbour] == numbers) & (arrays["managed"][neighbour] == arrays["managed"])
        is_right = np.where(arrays["managed"] != 0, (linked == -1) | (is_one & agrees), linked == sessions[name])
        wrong[name] = has_memory & ~is_right
    return wrong


def _grown(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    grown = np.full(size, fill, array.dtype)
    grown[: len(array)] = array
    return grown


def _tag_sums(file: IndexFile, size: int) -> Sums:
    own = file.meta["own"]
    names = np.array([term_key(tag) for tag in own["tags"]], np.uint64)
    sums, counts = np.zeros(size, np.uint64), np.array(own["tag_counts"], np.int64)
    np.add.at(sums, file.arrays["tag_numbers"].astype(np.int64), mixed(np.repeat(names, counts)))
    return sums


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
                if not (each.says_the_same and each.number in self.data):
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


COMMIT_INDEXES: tuple[type[CommitIndex], ...] = (AttributeIndex, WordIndex)
