"""The topic trees of a store, and their index file `topics.view`. SPEC 10.1, store/docs/format.md

The file holds ids of topics, their names and the row ids of their members; of what a memory says only what a name says.
It is replaced as a whole, so that a crash leaves the trees as they were.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.knowledge.topic_tree import Shape
from mnemo_daemon.indexing.vectors.active_index import Scope
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file

FILE = "topics.view"
KIND = "topics-1"


class Topic(msgspec.Struct, frozen=True):
    """A topic, and how it got its name."""

    id: str  # kb1 …
    parent: str = ""  # "": a root
    name: str = ""
    method: str = "rule"  # of the name: rule or llm:MODEL
    is_asked: bool = False  # a language model was asked for this name
    sources: tuple[int, ...] = ()  # row ids of the memories that the name was made of
    count: int = 0  # members; all chunks of a note count as one
    open_count: int = 0  # without those tagged `sensitive`


class TopicTree(NamedTuple):
    """The tree of a user and namespace. Rows are the members, in the order of their ids."""

    scope: Scope
    space: str  # of the vectors
    topics: tuple[Topic, ...]
    numbers: NDArray[np.int32]  # row ids
    leaves: NDArray[np.int32]  # of each row, the place of its leaf in `topics`
    digests: NDArray[np.uint64]  # of each row, half of the hash of its text
    moved: Mapping[str, tuple[str, ...]] = {}  # id that is gone → where its members are
    changes: int = 0  # that were worked in since the last rebuild

    def parents(self) -> tuple[int, ...]:
        """Of each topic, the place of its parent; -1 for a root."""
        places = {topic.id: place for place, topic in enumerate(self.topics)}
        return tuple(places.get(topic.parent, -1) for topic in self.topics)

    def members(self, topic_id: str) -> NDArray[np.int32]:
        """The row ids of the members of a topic, or of everything below it."""
        shape = Shape(self.leaves, self.parents())
        inside = [any(self.topics[above].id == topic_id for above in shape.line(place))
                  for place in range(len(self.topics))]  # fmt: skip
        found: NDArray[np.int32] = self.numbers[np.array(inside, np.bool_)[self.leaves]]
        return found

    def in_order(self, *, sees_sensitive: bool = True) -> Iterator[tuple[Topic, int]]:
        """The topics that have members, each with its level, a parent before its children; siblings by their members,
        the most first."""
        below: dict[str, list[Topic]] = {}
        for topic in self.topics:
            if topic.count if sees_sensitive else topic.open_count:
                below.setdefault(topic.parent, []).append(topic)
        stack = [(topic, 0) for topic in _by_count(below.get("", ()))]
        while stack:
            topic, level = stack.pop()
            yield topic, level
            stack += [(child, level + 1) for child in _by_count(below.get(topic.id, ()))]


def _by_count(topics: Sequence[Topic]) -> list[Topic]:
    """The largest last; of those with as many members, the newest first."""
    return sorted(topics, key=lambda topic: (topic.count, -number_of(topic.id)))


def number_of(topic_id: str) -> int:
    """The number in the id of a topic."""
    return int(topic_id.removeprefix("kb"))


class _SavedTree(msgspec.Struct):
    user_id: str
    namespace: str
    space: str
    topics: list[Topic]
    moved: dict[str, tuple[str, ...]]
    changes: int


def save(folder: Path, trees: Sequence[TopicTree], next_id: int, meta: Mapping[str, Any], disk: Disk) -> None:
    """Replace the file, durably."""
    rows = [_SavedTree(tree.scope.user_id, tree.scope.namespace, tree.space, list(tree.topics), dict(tree.moved),
                       tree.changes) for tree in trees]  # fmt: skip
    arrays = {f"{name} {place}": getattr(tree, name)
              for place, tree in enumerate(trees) for name in ("numbers", "leaves", "digests")}  # fmt: skip
    head = {**meta, "next_id": next_id, "trees": msgspec.to_builtins(rows)}
    index_file.save(folder / FILE, KIND, head, arrays, disk)


def load(folder: Path) -> tuple[list[TopicTree], int, dict[str, Any]]:
    """The trees, the number of the next id, and the position. Raises IndexMismatch."""
    meta, arrays = index_file.load(folder / FILE, KIND)
    try:
        saved = msgspec.convert(meta.pop("trees"), list[_SavedTree])
        trees = [
            TopicTree(Scope(row.user_id, row.namespace), row.space, tuple(row.topics), arrays[f"numbers {place}"],
                      arrays[f"leaves {place}"], arrays[f"digests {place}"], row.moved, row.changes)
            for place, row in enumerate(saved)
        ]  # fmt: skip
        return trees, int(meta.pop("next_id")), meta
    except (KeyError, ValueError) as error:
        raise IndexMismatch(f"{FILE} has other contents than its kind says: {error}") from error
