"""The views against the truth: what columns, word index and vector index hold, compared with what they would be if they
were built anew. SPEC 3.1, 17.2.

Columns and words are compared as their files say it, so that one comparison does for a view in memory and for one that
lies on the disk.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.indexing.views import fields_of, is_indexed, shape_of
from mnemo_store.database.table_access import TableRow, TableSnapshot
from mnemo_store.disk import Disk
from mnemo_store.indexes import attributes as columns_view
from mnemo_store.indexes import index_file
from mnemo_store.indexes import lexical as words_view
from mnemo_store.indexes.attributes import NAMED, Arrays, AttributeStore
from mnemo_store.indexes.lexical import COUNT_MAX, PUT_TOGETHER, LexicalFields, LexicalIndex
from mnemo_store.indexes.vectors import VectorIndex
from mnemo_store.maintenance.check import DECODE_ERRORS, TableSource, YieldToQueries, decode
from mnemo_store.records import Memory, Usage, embedded_text, text_hash
from mnemo_store.tables import StoredMemory

T = TypeVar("T")

SLICE = 200  # memories read in one snapshot
POSTINGS = 1 << 18  # of the word index, looked at together: some 10 MB
NO_MEMORY = 255  # the state of a number that has none
LINKS = ("before", "after")
# Columns: tokens are counted when there is a model, and who stands beside whom follows from the other columns.
UNCOMPARED = frozenset({"state", "tokens", "tag_numbers", *LINKS})

# Of a mixing of 64 bits (Steele, Lea and Flood 2014): sums of what it gives are equal by accident only.
_SPREAD, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

Sums = NDArray[np.uint64]
Numbers = NDArray[np.int64]


class ViewFile(NamedTuple):
    """What a view's file says."""

    meta: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class ExpectedIndexes(NamedTuple):
    """What columns and words should hold."""

    columns: ViewFile
    words: ViewFile
    ids: dict[int, str]  # by number


class IndexFault(NamedTuple):
    """A memory of which a view does not hold what it should."""

    number: int
    memory_id: str  # "" where no memory has that number
    what: str


def columns_file(path: Path) -> ViewFile:
    """Raises ViewMismatch."""
    return ViewFile(*index_file.load(path, columns_view.KIND, mapped=True))


def words_file(path: Path) -> ViewFile:
    """Raises ViewMismatch."""
    return ViewFile(*index_file.load(path, words_view.KIND, mapped=True))


def as_files(columns: AttributeStore, words: LexicalIndex, folder: Path, disk: Disk) -> tuple[ViewFile, ViewFile]:
    """Both as their files say it; they are written to folder."""
    unsaved = columns.has_unsaved_counts
    columns.save(folder / "columns.view", {}, disk)
    columns.has_unsaved_counts |= unsaved  # this was not the save that counts
    words.save(folder / "words.view", {}, disk)
    return columns_file(folder / "columns.view"), words_file(folder / "words.view")


def expected_indexes(source: TableSource, folder: Path, disk: Disk, give_way: YieldToQueries) -> ExpectedIndexes:
    """Both views as the database has it now. A memory that cannot be read, or has no number, is in neither."""
    columns, words, ids = AttributeStore(linked=False), LexicalIndex(), dict[int, str]()
    pending: list[tuple[int, LexicalFields]] = []
    for rows in _slices(
        source, lambda at, number, stored: (number, stored.memory, at.usage(stored.memory.id)), give_way
    ):
        for number, memory, usage in rows:
            columns.put(number, memory, usage or Usage(id=memory.id), shape_of(memory))
            ids[number] = memory.id
        pending += [(number, fields_of(memory)) for number, memory, _ in rows if is_indexed(memory)]
        if len(pending) >= PUT_TOGETHER:
            words.put_many(pending)
            pending = []
    words.put_many(pending)
    return ExpectedIndexes(*as_files(columns, words, folder, disk), ids)


def _slices(
    source: TableSource, read: Callable[[TableSnapshot, int, StoredMemory], T], give_way: YieldToQueries
) -> Iterator[list[T]]:
    """What is read of each memory that can be and has a number, a slice at a time, each in a snapshot of its own."""
    after: TableRow | None = None
    while True:
        found = []
        with source() as at:
            rows = at.rows("memories", after, SLICE)
            for row in rows:
                with contextlib.suppress(*DECODE_ERRORS):
                    stored = decode("memories", row)
                    number = at.number(stored.memory.id)
                    if number is not None:
                        found.append(read(at, number, stored))
        yield found
        if len(rows) < SLICE:
            return
        after = rows[-1]
        give_way()


# Columns


def column_faults(live: ViewFile, true: ViewFile) -> dict[int, str]:
    """What is wrong, by number."""
    size = max(len(file.arrays["state"]) for file in (live, true))
    states = [_grown(file.arrays["state"], size, NO_MEMORY) for file in (live, true)]
    both = (states[0] != NO_MEMORY) & (states[1] != NO_MEMORY)
    wrong: dict[int, list[str]] = {}
    for name, array in true.arrays.items():
        if name in UNCOMPARED:
            continue
        one, other = (_grown(file.arrays[name], size, 0) for file in (live, true))
        if name in NAMED:
            one = _recoded(one, live.meta["own"]["names"][name], true.meta["own"]["names"][name])
        unequal = one != other
        if array.dtype.kind == "f":
            unequal &= ~(np.isnan(one) & np.isnan(other))
        _note(wrong, np.flatnonzero(both & unequal), name)
    _note(wrong, np.flatnonzero(both & (_tag_sums(live, size) != _tag_sums(true, size))), "tags")
    _note(wrong, np.flatnonzero(both & (states[0] != states[1])), "state")
    for name, unequal in _wrong_links(live.arrays).items():
        _note(wrong, np.flatnonzero(both & _grown(unequal, size, 0)), name)
    found = {number: f"the columns have another {', '.join(names)}" for number, names in wrong.items()}
    found |= dict.fromkeys(np.flatnonzero((states[0] == NO_MEMORY) & (states[1] != NO_MEMORY)).tolist(),
                           "the columns do not have it")  # fmt: skip
    found |= dict.fromkeys(np.flatnonzero((states[0] != NO_MEMORY) & (states[1] == NO_MEMORY)).tolist(),
                           "the columns have it, and it is gone")  # fmt: skip
    return found


def _wrong_links(arrays: Arrays) -> dict[str, NDArray[np.bool_]]:
    """Who has another neighbour than the view's other columns say.

    Not than the store says: of what is written meanwhile, the neighbours are untouched and stand beside others all the
    same. Of notes, whose order only the record of their file has: who is not the neighbour of its neighbour.
    """
    has_memory, numbers = arrays["state"] != NO_MEMORY, np.arange(len(arrays["state"]))
    sessions = dict(zip(LINKS, columns_view.session_links(arrays), strict=True))
    wrong = {}
    for name, other in (LINKS, LINKS[::-1]):
        beside = arrays[name]
        is_one = (beside >= 0) & (beside < len(beside))
        neighbour = np.where(is_one, beside, 0)
        agrees = (arrays[other][neighbour] == numbers) & (arrays["managed"][neighbour] == arrays["managed"])
        is_right = np.where(arrays["managed"] != 0, (beside == -1) | (is_one & agrees), beside == sessions[name])
        wrong[name] = has_memory & ~is_right
    return wrong


def _note(wrong: dict[int, list[str]], numbers: Numbers, name: str) -> None:
    for number in numbers.tolist():
        wrong.setdefault(number, []).append(name)


def _grown(array: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    grown = np.full(size, fill, array.dtype)
    grown[: len(array)] = array
    return grown


def _recoded(codes: NDArray[Any], names: list[str], as_in: list[str]) -> NDArray[np.int64]:
    """The codes of names as another table has them; -1 for a name it does not know."""
    code_of = {name: code for code, name in enumerate(as_in)}
    table = np.array([*(code_of.get(name, -1) for name in names), -1], np.int64)
    known = (codes >= 0) & (codes < len(names))
    recoded: NDArray[np.int64] = table[np.where(known, codes, len(names))]
    return recoded


def _tag_sums(file: ViewFile, size: int) -> Sums:
    own = file.meta["own"]
    names = np.array([words_view.term_key(tag) for tag in own["tags"]], np.uint64)
    sums, counts = np.zeros(size, np.uint64), np.array(own["tag_counts"], np.int64)
    np.add.at(sums, file.arrays["tag_numbers"].astype(np.int64), _mixed(np.repeat(names, counts)))
    return sums


def _mixed(values: Sums) -> Sums:
    mixed = values + _SPREAD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


# Words


def word_faults(live: ViewFile, true: ViewFile) -> dict[int, str]:
    """What is wrong, by number."""
    size = max(int(file.arrays["numbers"].max(initial=0)) + 1 for file in (live, true))
    (one, one_sums, one_lengths), (other, other_sums, other_lengths) = (_said(file, size) for file in (live, true))
    unequal = one & other & ((one_sums != other_sums) | (one_lengths != other_lengths))
    found = dict.fromkeys(np.flatnonzero(unequal).tolist(), "the word index has other words of it")
    found |= dict.fromkeys(np.flatnonzero(~one & other).tolist(), "the word index does not have it")
    found |= dict.fromkeys(np.flatnonzero(one & ~other).tolist(), "the word index has it, and should not")
    return found


def _said(file: ViewFile, size: int) -> tuple[NDArray[np.bool_], Sums, NDArray[np.float32]]:
    """By number: whether it is there, a sum over its words and their counts, its length."""
    arrays = file.arrays
    there, sums, lengths = np.zeros(size, np.bool_), np.zeros(size, np.uint64), np.zeros(size, np.float32)
    there[arrays["numbers"]] = True
    lengths[arrays["numbers"]] = arrays["lengths"]
    offsets, packed, numbers = arrays["offsets"], arrays["packed"], arrays["numbers"]
    for start in range(0, len(packed), POSTINGS):
        some = packed[start : start + POSTINGS]
        places = np.searchsorted(offsets, np.arange(start, start + len(some)), side="right") - 1
        counts = (some & COUNT_MAX).astype(np.uint64)
        np.add.at(sums, numbers[some >> 8], _mixed(_mixed(arrays["keys"][places]) + counts))
    return there, sums, lengths


# Vectors


def vector_faults(
    view: VectorIndex, source: TableSource, applied: int, give_way: YieldToQueries, *, has_strays: bool = True
) -> Iterator[IndexFault]:
    """Memories whose vectors are not those that are kept for their texts, as of the change `applied`; and, with
    `has_strays`, vectors of what is not to be found."""
    expected: set[int] = set()

    def read(at: TableSnapshot, number: int, stored: StoredMemory) -> IndexFault | None:
        if stored.seq > applied:
            expected.add(number)  # the view may have it already, or not yet
        elif is_indexed(stored.memory):
            expected.add(number)
            what = _vector_fault(view, at, number, stored.memory)
            return IndexFault(number, stored.memory.id, what) if what else None
        return None

    for found in _slices(source, read, give_way):
        yield from filter(None, found)
    if not has_strays:
        return
    for number in view.numbers().tolist():
        if number not in expected:
            with source() as at:
                memory_id = at.id_of(number) or ""
            yield IndexFault(number, memory_id, "the vector index has it, and should not")


def _vector_fault(view: VectorIndex, at: TableSnapshot, number: int, memory: Memory) -> str:
    try:
        kept = at.vectors(view.space, text_hash(embedded_text(memory)), view.dimensions)
    except ValueError:
        return "the vectors that are kept for its text are of other dimensions"
    have = view.vectors_of(number)
    if have is None:
        return "the vector index does not have it"
    if kept is None:
        return "no vectors are kept for its text"
    return "" if np.array_equal(kept, have) else "the vector index has other vectors of it"
