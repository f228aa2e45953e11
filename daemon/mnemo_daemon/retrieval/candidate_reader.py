"""Reads the candidates' memories, tokens, vectors and relations when the selection needs them. SPEC 7.5"""

import functools
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from mnemo_core.decay import epoch_of
from mnemo_core.retrieval.result_selection import IMPERSONAL_SOURCES, Windows, is_preference
from mnemo_daemon.indexing.vectors.index_phases import ActiveIndex
from mnemo_daemon.memories.weights import present_strengths
from mnemo_daemon.retrieval.candidates.corpus import Corpus
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.records import KINDS, STATES, Memory

_SUPERSEDED = STATES.index("superseded")
_PROCEDURAL = KINDS.index("procedural")


def _is_impersonal(columns: AttributeStore) -> list[int]:
    return [columns.code("source", name) for name in IMPERSONAL_SOURCES]


class CandidateReader:
    """The `CandidateSource` of a corpus, of one moment of the store."""

    def __init__(
        self,
        snapshot: Snapshot,
        corpus: Corpus,
        numbers: NDArray[np.uint32],
        serving: ActiveIndex | None,
        count: Callable[[int | None, Memory], int],
    ) -> None:
        """numbers: of the candidates. count: the tokens of a memory, by its number; None for one of another time."""
        self._snapshot = snapshot
        self._corpus = corpus
        self._view = serving.view if serving is not None else None
        self._count = count
        self.instructions: frozenset[int] | None = None  # what stands ahead; None: every preference
        self._memories: dict[int, Memory | None] = {}
        self._relations: dict[int, tuple[list[int], list[int]]] = {}
        self._numbers = numbers
        self._superseded: list[int] = numbers[corpus.column("state", numbers) == _SUPERSEDED].tolist()

    def memory(self, number: int) -> Memory | None:
        if number not in self._memories:
            self._memories[number] = self._corpus.memory(self._snapshot, number)
        return self._memories[number]

    def tokens(self, number: int) -> int:
        memory = self.memory(number)
        return 0 if memory is None else self._count(self._corpus.index_number(number), memory)

    def windows(self, number: int) -> Windows | None:
        row = self._corpus.index_number(number)
        found = None if self._view is None or row is None else self._view.vectors_of(row)
        return None if found is None else found.astype(np.float32)

    def is_preference(self, number: int) -> bool:
        if self.instructions is not None:
            memory = self.memory(number) if number in self.instructions else None
            return memory is not None and memory.source not in IMPERSONAL_SOURCES
        if number in self._unlike_preferences:
            return False
        memory = self.memory(number)
        return memory is not None and is_preference(memory)

    def preferences(self) -> list[int]:
        """The preferences that may stand ahead of an answer: the candidates in their order, then others in scope by
        importance and strength."""
        corpus = self._corpus
        numbers = corpus.numbers
        if self.instructions is None:
            numbers = numbers[corpus.column("kind", numbers) == _PROCEDURAL]
        else:
            numbers = numbers[np.isin(numbers, list(self.instructions))]
        numbers = numbers[~np.isin(numbers, self._numbers)]
        impersonal = corpus.is_one_of("source", numbers, _is_impersonal)
        others = numbers[~impersonal]
        strength = present_strengths(lambda name: corpus.column(name, others), epoch_of(self._snapshot))
        worth = corpus.column("importance", others) * strength
        ids = corpus.column("id_low", others), corpus.column("id_high", others)
        order = np.lexsort((*ids, -corpus.column("event_at", others), -worth))
        return [*self._numbers.tolist(), *others[order].tolist()]

    @functools.cached_property
    def _unlike_preferences(self) -> frozenset[int]:
        """The candidates whose kind says that they are none."""
        kinds = self._corpus.column("kind", self._numbers)
        return frozenset(self._numbers[kinds != _PROCEDURAL].tolist())

    def newer(self, number: int) -> list[int]:
        return self._related(number)[0]

    def older(self, number: int) -> list[int]:
        return self._related(number)[1]

    def perhaps_newer(self, number: int) -> list[int]:
        memory = self.memory(number)
        if memory is None:
            return []
        edges = (each for each in self._snapshot.edges(memory.id) if each.slot and each.target == memory.id)
        return [each for each in self._numbers_of(edge.source for edge in edges) if each in self._found]

    def replacements(self, memory: Memory) -> tuple[tuple[Memory, ...], bool]:
        """The memories in scope that say a newer value, and True; or those that perhaps do, and False."""
        edges = [each for each in self._snapshot.edges(memory.id) if each.target == memory.id]
        newer = [each.source for each in edges if each.relation == "updates"]
        newer += [memory.superseded_by] if memory.superseded_by else []
        numbers = self._numbers_of(newer)
        perhaps = [] if numbers else self._numbers_of(each.source for each in edges if each.slot)
        return tuple(filter(None, map(self.memory, numbers or perhaps))), bool(numbers)

    @functools.cached_property
    def _found(self) -> frozenset[int]:
        return frozenset(self._numbers.tolist())

    def _related(self, number: int) -> tuple[list[int], list[int]]:
        """The memories in scope that update or replaced it, and those that it updates or replaced."""
        memory, known = self.memory(number), self._relations.get(number)
        if known is not None or memory is None:
            return known or ([], [])
        older = [
            each for each in self._superseded
            if (other := self.memory(each)) is not None and other.superseded_by == memory.id
        ]  # fmt: skip
        updates = [each for each in self._snapshot.edges(memory.id) if each.relation == "updates"]
        older += self._numbers_of(each.target for each in updates if each.target != memory.id)
        newer = self._numbers_of([memory.superseded_by] if memory.superseded_by else [])
        newer += self._numbers_of(each.source for each in updates if each.target == memory.id)
        self._relations[number] = newer, older
        return newer, older

    def _numbers_of(self, ids: Iterable[str]) -> list[int]:
        """The numbers of the memories that are in scope."""
        numbers = (self._corpus.number(self._snapshot, memory_id) for memory_id in ids)
        return [number for number in numbers if number is not None and self._corpus.is_in_scope(number)]
