"""The phases of the vector indexer: which view answers, and which one is filled."""

from dataclasses import dataclass
from typing import NamedTuple

from mnemo_daemon.indexing.vectors.centroids import Centroids
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_store.batches import batched
from mnemo_store.indexes.vectors import VectorIndex

COPIED_TOGETHER = 1_000  # memories


class ActiveIndex(NamedTuple):
    """A view, the model whose vectors it holds, and the centroids of its vectors."""

    view: VectorIndex
    embedder: Embedder
    centroids: Centroids

    def drop(self, number: int) -> None:
        self.centroids.drop(number, self.view.vectors_of(number))
        self.view.drop(number)

    def copied(self) -> "ActiveIndex":
        """The same with a view that has never held anything but what this one holds now."""
        copy = VectorIndex(self.view.dimensions, self.view.space, exact_max=self.view.exact_max)
        for numbers in batched(self.view.numbers().tolist(), COPIED_TOGETHER):
            rows = {number: self.view.vectors_of(number) for number in numbers}
            there = {number: windows for number, windows in rows.items() if windows is not None}
            copy.put_many(list(there), list(there.values()))
        return self._replace(view=copy)


def empty_index(embedder: Embedder) -> ActiveIndex:
    """An index of the model without any vector."""
    return ActiveIndex(VectorIndex(embedder.dimensions, embedder.space), embedder, Centroids())


@dataclass(frozen=True)
class NoModel:
    """No model has been loaded since the start: nothing answers by vectors."""

    active: None = None
    target: None = None


@dataclass(frozen=True)
class SingleView:
    """One view answers, and takes up what is written."""

    active: ActiveIndex

    @property
    def target(self) -> ActiveIndex:
        return self.active


@dataclass(frozen=True)
class ViewReplacement:
    """One view answers while another is filled, which takes over once it is whole: that of another model, or one whose
    vectors are all computed again."""

    active: ActiveIndex
    target: ActiveIndex
    recomputes: bool = False  # takes no vectors from the database


Phase = NoModel | SingleView | ViewReplacement
