"""The memories that a recall searches: as they are now, or as they were at another time. SPEC 7.1 `as_of`, 7.2

`Corpus` is the present, `AsOfCorpus` another time. Both answer the same calls, and nothing that searches, ranks or
explains asks which of them it has.

Memories are identified by numbers. A number below `base` is that of the indexes. A memory that has changed since the
requested time is in the indexes as it is now: its version of that time has a number from `base` on and stands in no
index, so that its text is read where words or vectors are compared.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.memories.as_of import HistoricalState
from mnemo_daemon.models.embedders.embedder import QueryTokens
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import AttributeStore, MemoryFilter
from mnemo_store.indexes.lexical import QueryPostings
from mnemo_store.indexes.vector_kernels import QueryVector
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import LAYERS, Memory

LAST_ROUND = np.iinfo(np.int8).max

Number = TypeVar("Number", bound=np.integer[Any])
Numbers = NDArray[np.uint32]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

NOT_THEN = "as_of"  # why a memory is missing that did not exist at the requested time

Mask = NDArray[np.bool_]
CodesOf = Callable[[AttributeStore], Iterable[int]]

WORD = lazy_pattern(r"\w+(?:'s\b)?")

_CORE = LAYERS.index("core")
_NO_NUMBERS: Numbers = np.empty(0, np.uint32)


class CandidateSet(NamedTuple):
    """The candidates of all channels: their numbers, ascending, and what each channel found of them."""

    numbers: Numbers
    words: Floats
    sims: Floats
    rounds: NDArray[np.int8]  # 0: found for the first page; candidates that only a later page needs are ranked behind
    from_words: Bools
    from_vectors: Bools
    from_neighbours: Bools  # next to one of the best in its session or note
    from_core: Bools  # joined as a core memory, found by the others or not
    from_facts: Bools  # states a fact to which a chain leads from an entity of the query
    from_formula: Bools  # among the best by `deterministic`, for the rankers that use it
    from_time: Bools  # joined as lying in the time that the query names, found by the others or not
    terms: QueryPostings  # of the words channel, as of that moment
    query: QueryTokens | None = None  # as it was embedded; None: without vectors
    vector: QueryVector | None = None  # its vector, ready to be compared
    graph_rows: int = 0  # rows that the vectors channel looked at in a graph; 0: it compared all in scope
    is_whole: bool = True  # every text in scope that could have a vector had one

    def channels_of(self, row: int) -> list[str]:
        """The names of the channels that found the candidate."""
        by = (
            ("words", self.from_words), ("vectors", self.from_vectors), ("neighbours", self.from_neighbours),
            ("core", self.from_core), ("facts", self.from_facts),
            ("formula", self.from_formula), ("time", self.from_time),
        )  # fmt: skip
        return [name for name, found in by if found[row]]

    def only(self, kept: Bools) -> Self:
        """The candidates of a mask, all of the last round."""
        arrays: dict[str, Any] = {name: getattr(self, name)[kept] for name in _ARRAYS}
        arrays["rounds"][:] = LAST_ROUND
        return self._replace(**arrays)

    def extended(self, more: Numbers) -> Self:
        """With these (each once) as candidates too: of the last round and no channel, without words and vector."""
        new = more[~is_among(self.numbers, more)]
        order = np.argsort(np.concatenate([self.numbers, new]), kind="stable")
        added = {"numbers": new, "sims": np.nan, "rounds": LAST_ROUND}
        arrays: dict[str, Any] = {name: _spread(getattr(self, name), added.get(name, 0), order) for name in _ARRAYS}
        return self._replace(**arrays)


_ARRAYS = CandidateSet._fields[: CandidateSet._fields.index("terms")]


def _spread(old: NDArray[Any], added: Any, order: NDArray[np.intp]) -> NDArray[Any]:
    together = np.empty(len(order), old.dtype)
    together[: len(old)], together[len(old) :] = old, added
    return together[order]


def sorted_unique(numbers: NDArray[Number]) -> NDArray[Number]:
    """Each once, ascending. On some hundreds that is four times as quick as np.unique."""
    rising = np.sort(numbers)
    is_new = np.ones(len(rising), np.bool_)
    np.not_equal(rising[1:], rising[:-1], out=is_new[1:])
    return rising[is_new]


def is_among(rising: Numbers, numbers: NDArray[np.integer[Any]]) -> Bools:
    """Mask of `numbers` that stand in `rising`."""
    if not len(rising):
        return np.zeros(len(numbers), np.bool_)
    found: Bools = rising[np.minimum(np.searchsorted(rising, numbers), len(rising) - 1)] == numbers
    return found


def rounds_of_places(count: int, first: int) -> NDArray[np.int8]:
    """Of each place in an order, the number of doublings of `first` that reach it."""
    return np.ceil(np.log2(np.arange(1, count + 1) / first)).clip(0).astype(np.int8)


class CorpusPart(NamedTuple):
    """Rows of one attribute store: those that the caller may know of, and those in scope."""

    columns: AttributeStore
    visible: Mask
    allowed: Mask


class Corpus:
    """The memories in scope as they are now. While nothing changes, one object serves all recalls of a filter."""

    searches_exactly: ClassVar[bool] = False  # vectors are compared one by one, never through the graph
    absence: ClassVar[str | None] = None  # why a memory has no number, as a filter is named; None: not indexed yet

    def __init__(self, mask: Mask, columns: AttributeStore) -> None:
        """mask: the memories in scope that are in the indexes, by number."""
        self.mask = mask
        self.columns = columns
        self.base = len(mask)
        self._namespaces: dict[str, Numbers] = {}

    def column(self, name: str, numbers: Numbers) -> NDArray[Any]:
        """The values of a column for these numbers."""
        return self.columns.values(name, numbers)

    def is_one_of(self, name: str, numbers: Numbers, codes: CodesOf) -> Mask:
        """Mask of the numbers that have one of the codes in a column of names, whose codes differ between stores."""
        values, found = self.column(name, numbers), np.zeros(len(numbers), np.bool_)
        for code in codes(self.columns):
            found |= values == code
        return found

    def speakers_named(self, query: str) -> set[str]:
        """The words of the query that are part of the name of a speaker in scope, lower-cased."""
        return set(filter(self._has_speaker, map(name_in, WORD.findall(query))))

    def _has_speaker(self, word: str) -> bool:
        return self.columns.has_speaker(word, self.mask)

    @functools.cached_property
    def numbers(self) -> Numbers:
        """All numbers in scope, ascending."""
        return np.flatnonzero(self.mask).astype(np.uint32)

    @functools.cached_property
    def core(self) -> Numbers:
        """The core memories in scope, ascending."""
        return _core_of(self.mask, self.columns)

    def in_namespace(self, name: str) -> Numbers:
        """The memories of this namespace, ascending, where others are in scope too and could crowd them out."""
        found = self._namespaces.get(name)
        if found is None:
            is_own = self.mask & (self.columns.column("namespace")[: self.base] == self.columns.code("namespace", name))
            own = np.flatnonzero(is_own).astype(np.uint32)
            found = self._namespaces[name] = own if np.count_nonzero(self.mask) > len(own) else _NO_NUMBERS
        return found

    def memory(self, snapshot: Snapshot, number: int) -> Memory | None:
        """The memory of a number; None where it is gone."""
        (memory_id,) = self.columns.ids([number])
        return snapshot.memory(memory_id)

    def number(self, snapshot: Snapshot, memory_id: str) -> int | None:
        """The number of a memory, in scope or not; None where it has none (`absence`)."""
        number = snapshot.number(memory_id)
        return number if number is not None and number < self.base else None

    def is_in_scope(self, number: int) -> bool:
        return bool(self.mask[number])

    def index_number(self, number: int) -> int | None:
        """The number in the indexes; None for a version of another time."""
        return number if number < self.base else None

    def index_numbers(self, numbers: Numbers) -> NDArray[np.int64]:
        """The numbers in the indexes; −1 for versions of another time."""
        return np.where(numbers < self.base, numbers.astype(np.int64), -1)

    @property
    def versions(self) -> tuple[Numbers, tuple[Memory, ...]]:
        """The versions in scope that no index has, with their numbers, ascending."""
        return _NO_NUMBERS, ()

    def versions_among(self, numbers: Numbers) -> Iterator[tuple[int, Memory]]:
        """The places among `numbers` of versions that no index has, with these versions."""
        return iter(())

    def joined(self, numbers: Numbers, indexed: Callable[[Numbers], Floats], of_versions: Floats) -> Floats:
        """A value of each number: `indexed` computes those of the indexes, `of_versions` has one for each of
        `versions`."""
        return indexed(numbers)

    def ids(self, numbers: Numbers) -> list[str]:
        """The ids of these numbers, in order."""
        rows = np.where(numbers < self.base, numbers, 0)
        found = self.columns.ids(rows.tolist()) if self.base else [""] * len(numbers)
        for place, version in self.versions_among(numbers):
            found[place] = version.id
        return found

    def text_hashes(self, numbers: Numbers) -> list[bytes]:
        """The hashes under which the token rows of each are stored."""
        rows = np.where(numbers < self.base, numbers, 0)
        found = self.columns.text_hashes(rows) if self.base else [b""] * len(numbers)
        for place, version in self.versions_among(numbers):
            found[place] = text_hash(embedded_text(version))
        return found

    def files(self, numbers: Numbers) -> NDArray[np.int32]:
        """The file of notes that each stands in, by its present code; 0: none, negative: a file that is gone."""
        found: NDArray[np.int32] = self.column("managed", numbers).astype(np.int32)
        gone: dict[str, int] = {}
        for place, version in self.versions_among(numbers):
            code = self.columns.code("managed", version.managed)
            found[place] = code if code >= 0 else gone.setdefault(version.managed, -1 - len(gone))
        return found

    def parts(self, seen: MemoryFilter) -> list[CorpusPart]:
        """Every row of the corpus that passes the filter `seen`, in scope or not."""
        return [CorpusPart(self.columns, self.columns.uncached_mask(seen)[: self.base], self.mask)]

    def row(self, number: int) -> tuple[int, int]:
        """The place of a number: of its part among `parts`, and of its row there."""
        return 0, number


class AsOfCorpus(Corpus):
    """The memories as they were: in `mask` those that have not changed since, in `state` the versions of the others."""

    searches_exactly = True
    absence = NOT_THEN

    def __init__(self, mask: Mask, columns: AttributeStore, state: HistoricalState, allowed: Mask) -> None:
        """allowed: the rows of `state` that are in scope."""
        super().__init__(mask, columns)
        self._state = state
        self._allowed = allowed
        self._numbers_by_id = {memory.id: self.base + row for row, memory in enumerate(state.memories)}

    def column(self, name: str, numbers: Numbers) -> NDArray[Any]:
        is_version = numbers >= self.base
        values: NDArray[Any] = self.columns.values(name, np.where(is_version, 0, numbers), clip=True)
        values[is_version] = self._state.columns.values(name, numbers[is_version] - self.base)
        return values

    def is_one_of(self, name: str, numbers: Numbers, codes: CodesOf) -> Mask:
        values, is_version = self.column(name, numbers), numbers >= self.base
        now, then = (np.isin(values, list(codes(columns))) for columns in (self.columns, self._state.columns))
        return np.where(is_version, then, now)

    def _has_speaker(self, word: str) -> bool:
        return self.columns.has_speaker(word, self.mask) or self._state.columns.has_speaker(word, self._allowed)

    @functools.cached_property
    def numbers(self) -> Numbers:
        return np.concatenate([np.flatnonzero(self.mask).astype(np.uint32), self.versions[0]])

    @functools.cached_property
    def core(self) -> Numbers:
        versions = _core_of(self._allowed, self._state.columns) + np.uint32(self.base)
        return np.concatenate([_core_of(self.mask, self.columns), versions])

    def in_namespace(self, name: str) -> Numbers:
        return _NO_NUMBERS

    def memory(self, snapshot: Snapshot, number: int) -> Memory | None:
        if number >= self.base:
            return self._state.memories[number - self.base]
        (memory_id,) = self.columns.ids([number])
        return self._state.memory(snapshot, memory_id)

    def number(self, snapshot: Snapshot, memory_id: str) -> int | None:
        version = self._numbers_by_id.get(memory_id)
        number = snapshot.number(memory_id) if version is None else None
        if number is None or number >= self.base or number in self._state.changed:
            return version
        return number

    def is_in_scope(self, number: int) -> bool:
        return bool(self.mask[number] if number < self.base else self._allowed[number - self.base])

    @functools.cached_property
    def versions(self) -> tuple[Numbers, tuple[Memory, ...]]:
        rows = np.flatnonzero(self._allowed)
        return (rows + self.base).astype(np.uint32), tuple(self._state.memories[row] for row in rows.tolist())

    def versions_among(self, numbers: Numbers) -> Iterator[tuple[int, Memory]]:
        for place in np.flatnonzero(numbers >= self.base).tolist():
            yield place, self._state.memories[int(numbers[place]) - self.base]

    def joined(self, numbers: Numbers, indexed: Callable[[Numbers], Floats], of_versions: Floats) -> Floats:
        is_version = numbers >= self.base
        found = np.empty(len(numbers), np.float32)
        found[~is_version] = indexed(numbers[~is_version])
        found[is_version] = of_versions[np.searchsorted(self.versions[0], numbers[is_version])]
        return found

    def parts(self, seen: MemoryFilter) -> list[CorpusPart]:
        visible = self._state.unchanged(self.columns.uncached_mask(seen)[: self.base])
        versions = self._state.columns.uncached_mask(seen)[: len(self._allowed)]
        return [CorpusPart(self.columns, visible, self.mask), CorpusPart(self._state.columns, versions, self._allowed)]

    def row(self, number: int) -> tuple[int, int]:
        return (0, number) if number < self.base else (1, number - self.base)


def name_in(word: str) -> str:
    """The name that a word of a query can be: in lower case, without a possessive."""
    return word.lower().removesuffix("'s")


def _core_of(mask: Mask, columns: AttributeStore) -> Numbers:
    return np.flatnonzero(mask & (columns.column("layer")[: len(mask)] == _CORE)).astype(np.uint32)
