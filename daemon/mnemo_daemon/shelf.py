"""What an answer is put together from: the candidates' memories, tokens, vectors and ties, read as they are asked for.

All of one moment of the store. SPEC 7.5
"""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mnemo_core.selection import IMPERSONAL_SOURCES, Windows, is_preference
from mnemo_daemon.channels import Scene
from mnemo_daemon.indexing import Serving
from mnemo_store.columns import Columns
from mnemo_store.reading import Snapshot
from mnemo_store.records import KINDS, STATES, Memory

_SUPERSEDED = STATES.index("superseded")
_PROCEDURAL = KINDS.index("procedural")


def _impersonal(columns: Columns) -> list[int]:
    return [columns.code("source", name) for name in IMPERSONAL_SOURCES]


class Reading:
    """A `Shelf` of the memories in question."""

    def __init__(
        self,
        snapshot: Snapshot,
        scene: Scene,
        numbers: NDArray[np.uint32],
        serving: Serving | None,
        count: Callable[[int | None, Memory], int],
    ) -> None:
        """numbers: of the candidates. count: the tokens of a memory, by its number; None for one of another time."""
        self._snapshot = snapshot
        self._scene = scene
        self._view = serving.view if serving is not None else None
        self._count = count
        self._memories: dict[int, Memory | None] = {}
        self._ties: dict[int, tuple[list[int], list[int]]] = {}
        self._numbers = numbers
        self._superseded: list[int] = numbers[scene.column("state", numbers) == _SUPERSEDED].tolist()
        self._formers = {} if scene.then is None else {each.id: row for row, each in enumerate(scene.then.memories)}

    def memory(self, number: int) -> Memory | None:
        if number not in self._memories:
            self._memories[number] = self._scene.memory(self._snapshot, number)
        return self._memories[number]

    def tokens(self, number: int) -> int:
        memory = self.memory(number)
        return 0 if memory is None else self._count(number if number < self._scene.base else None, memory)

    def windows(self, number: int) -> Windows | None:
        if self._view is None or number >= self._scene.base:
            return None
        found = self._view.vectors_of(number)
        return None if found is None else found.astype(np.float32)

    def is_preference(self, number: int) -> bool:
        if number in self._unlike_preferences:
            return False
        memory = self.memory(number)
        return memory is not None and is_preference(memory)

    def preferences(self) -> list[int]:
        """What may stand ahead of an answer: the candidates in their order, then the others in question by importance
        and strength."""
        scene = self._scene
        numbers = np.concatenate([np.flatnonzero(scene.mask), np.flatnonzero(scene.rows) + scene.base])
        numbers = numbers[(scene.column("kind", numbers) == _PROCEDURAL) & ~np.isin(numbers, self._numbers)]
        impersonal = scene.is_one_of("source", numbers, _impersonal)
        others = numbers[~impersonal]
        worth = scene.column("importance", others) * scene.column("strength", others)
        ids = scene.column("id_low", others), scene.column("id_high", others)
        order = np.lexsort((*ids, -scene.column("event_at", others), -worth))
        return [*self._numbers.tolist(), *others[order].tolist()]

    @functools.cached_property
    def _unlike_preferences(self) -> frozenset[int]:
        """The candidates whose kind says that they are none."""
        kinds = self._scene.column("kind", self._numbers)
        return frozenset(self._numbers[kinds != _PROCEDURAL].tolist())

    def newer(self, number: int) -> list[int]:
        return self._tied(number)[0]

    def older(self, number: int) -> list[int]:
        return self._tied(number)[1]

    def _tied(self, number: int) -> tuple[list[int], list[int]]:
        """The memories in question that update it or took its place, and those that it updates or took the place of."""
        if number not in self._ties:
            memory = self.memory(number)
            newer: list[int] = []
            older: list[int] = []
            for each in self._superseded if memory is not None else ():
                other = self.memory(each)
                if memory is not None and other is not None and other.superseded_by == memory.id:
                    older.append(each)
            if memory is not None and memory.superseded_by:
                found = self._number(memory.superseded_by)
                if found is not None:
                    newer.append(found)
            for edge in self._snapshot.edges(memory.id) if memory is not None else ():
                if edge.relation == "updates" and memory is not None:
                    is_newer = edge.target == memory.id
                    found = self._number(edge.source if is_newer else edge.target)
                    if found is not None:
                        (newer if is_newer else older).append(found)
            self._ties[number] = newer, older
        return self._ties[number]

    def _number(self, memory_id: str) -> int | None:
        """The number of a memory, None where it is not in question."""
        scene, row = self._scene, self._formers.get(memory_id)
        if row is not None:
            return scene.base + row if scene.rows[row] else None
        number = self._snapshot.number(memory_id)
        return number if number is not None and number < scene.base and scene.mask[number] else None
