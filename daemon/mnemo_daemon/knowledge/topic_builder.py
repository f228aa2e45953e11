"""Topic trees made of memories: who the members are, where they are put, and how the topics are named. SPEC 10.1

What has changed is found by comparison with the tree that there is, so that nothing needs to be remembered of changes,
and a restart or a crash loses none.

The index file of the trees, `topics.view` (store/docs/format.md), holds ids of topics, their names and the row ids of
their members; of what a memory says only what a name says. It is replaced as a whole, so that a crash leaves the trees
as they were.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.knowledge.clusters import centroids
from mnemo_core.knowledge.topic_names import Closeness, TermStatistics, opening_words, telling_words
from mnemo_core.knowledge.topic_tree import NOTHING, Shape, compare, grow
from mnemo_core.similarity.thresholds import Thresholds
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex, Scope
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.models.embedders.embedder import Embedder, Floats
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.record_texts import embedded_text
from mnemo_store.records import STATES, Memory
from mnemo_store.store import Store

FILE = "topics.view"
KIND = "topics-1"

CHANGES_MAX = 10  # that are worked in without a rebuild [G42],
CHANGES_SHARE = 100  # or one in so many members, where that is more
MOVED_MAX = 1_000  # ids that are gone and still lead somewhere
SAMPLES = 24  # texts that a topic is named after: those closest to the centroid of its leaf
CONTRAST = 0.6  # of a phrase's cosine to all memories, which is taken from that to a topic
GATHERED_ROWS = 4096  # vectors that are read at once

log = logging.getLogger("mnemo.topics")

Numbers = NDArray[np.int32]

NO_ROWS = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint64)


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
    named_as: str = ""  # the id under which a person names it: the first of those that its name was inherited from


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


class ScopeRows(NamedTuple):
    """The memories of a scope that belong into its tree, in the order of their ids."""

    numbers: Numbers
    digests: NDArray[np.uint64]


class TreeBuilder:
    """The builder. It reads indexes and memories, and changes nothing."""

    def __init__(self, store: Store, views: Views, embedding: EmbeddingService) -> None:
        self._store = store
        self._views = views
        self._embedding = embedding

    def rows(self, scope: Scope, serving: ActiveIndex) -> ScopeRows:
        """The active memories of the scope that have a vector."""
        columns = self._views.attributes
        mask = columns.uncached_mask(
            MemoryFilter(
                namespaces=(scope.namespace,), user_id=scope.user_id, states=("active",), now=self._store.now()
            )
        )
        embedded = serving.view.numbers().astype(np.int32)
        embedded = embedded[embedded < len(mask)]
        numbers: Numbers = embedded[mask[embedded]]
        high, low = columns.values("id_high", numbers), columns.values("id_low", numbers)
        numbers = numbers[np.lexsort((low, high))]
        return ScopeRows(numbers, columns.values("text_high", numbers))

    def update(
        self, scope: Scope, rows: ScopeRows, former: TopicTree | None, serving: ActiveIndex, thresholds: Thresholds,
        new_ids: Callable[[int], Sequence[str]], *, is_fresh: bool = False,
    ) -> Generator[None, None, TopicTree | None]:  # fmt: skip
        """The tree of these rows; None where the former one is theirs. Up to CHANGES_MAX changes are worked into it,
        with more it is built again from where it stands; `is_fresh`: from the beginning."""
        former = former or TopicTree(scope, "", (), *NO_ROWS)
        # The leaf in which each was, -1 for none, and the same for those whose text did not change.
        was_in, stays = np.full((2, len(rows.numbers)), -1, np.int32)
        if len(former.numbers):
            order = np.argsort(former.numbers)
            places = order[np.minimum(np.searchsorted(former.numbers, rows.numbers, sorter=order), len(order) - 1)]
            was_in = np.where(former.numbers[places] == rows.numbers, former.leaves[places], -1).astype(np.int32)
            stays = np.where(former.digests[places] == rows.digests, was_in, -1).astype(np.int32)
        known = set(rows.numbers[stays >= 0].tolist()) - self._sensitive(rows.numbers)
        changes = len(np.union1d(rows.numbers[stays < 0], np.setdiff1d(former.numbers, rows.numbers[stays >= 0])))
        is_fresh = is_fresh or former.space != serving.embedder.space
        if not (changes or is_fresh) and all(known.issuperset(topic.sources) for topic in former.topics):
            return None
        worked_in = changes + former.changes
        is_whole = is_fresh or worked_in > max(CHANGES_MAX, len(rows.numbers) // CHANGES_SHARE)
        vectors = np.empty((len(rows.numbers), serving.view.dimensions), np.float16)
        for start in range(0, len(rows.numbers), GATHERED_ROWS):
            vectors[start : start + GATHERED_ROWS] = serving.view.first_of(rows.numbers[start : start + GATHERED_ROWS])
            yield
        shape = Shape(stays, former.parents())
        grown = yield from grow(vectors, thresholds, NOTHING if is_fresh else shape, is_whole=is_whole)
        # The tree with ids, with the names that it keeps, and with what became of ids that are gone.
        inherits = compare(grown, shape._replace(leaves=was_in))
        before, parents = former.topics, grown.parents
        fresh = iter(new_ids(len(parents) - len(inherits.kept)))
        ids = [
            before[inherits.kept[place]].id if place in inherits.kept else next(fresh) for place in range(len(parents))
        ]
        topics = []
        for place, parent in enumerate(parents):
            topic = before[inherits.named[place]] if place in inherits.named else Topic("")
            above, named_as = ids[parent] if parent >= 0 else "", topic.named_as or topic.id or ids[place]
            topics.append(msgspec.structs.replace(topic, id=ids[place], parent=above, named_as=named_as))
        moved = {before[old].id: tuple(ids[new] for new in places) for old, places in inherits.moved.items()}
        earlier = {old: _followed(places, moved) for old, places in former.moved.items()}
        kept = dict(list({**earlier, **moved}.items())[-MOVED_MAX:])
        tree = TopicTree(scope, "", tuple(topics), rows.numbers, grown.leaves, rows.digests, kept)
        tree = _forget_names(tree, known)._replace(space=serving.embedder.space, changes=0 if is_whole else worked_in)
        tree = yield from self._named(tree, vectors, serving.embedder)
        return self.counted(tree)

    def renamed(self, tree: TopicTree) -> TopicTree:
        """The tree without names that were made of memories which are none of its members, counted again. For rows
        that were taken out of it."""
        known = set(tree.numbers.tolist()) - self._sensitive(tree.numbers)
        naming = self._named(_forget_names(tree, known))
        while True:
            try:
                next(naming)
            except StopIteration as end:
                return self.counted(end.value)

    def texts(self, numbers: Iterable[int]) -> list[str]:
        """The texts of memories by their row ids, without those that are gone or sensitive."""
        return [embedded_text(memory) for memory in self._memories(numbers)]

    def _memories(self, numbers: Iterable[int]) -> list[Memory]:
        found = []
        with self._store.snapshot() as snapshot:
            for number in numbers:
                memory_id = snapshot.id_of(number)
                memory = snapshot.memory(memory_id) if memory_id else None
                if memory is not None and memory.state == "active" and SENSITIVE_TAG not in memory.tags:
                    found.append(memory)
        return found

    def counted(self, tree: TopicTree) -> TopicTree:
        """The tree with the members of each topic counted, all chunks of a note as one."""
        files = self._views.attributes.values("managed", tree.numbers, clip=True)
        units = np.where(files > 0, files.astype(np.int64), -1 - np.arange(len(files)))
        is_open = ~np.isin(tree.numbers, list(self._sensitive(tree.numbers)))
        shape = Shape(tree.leaves, tree.parents())
        every: list[list[NDArray[np.int64]]] = [[] for _ in tree.topics]
        opened: list[list[NDArray[np.int64]]] = [[] for _ in tree.topics]
        for leaf, rows in rows_by_leaf(tree.leaves).items():
            for topic in shape.line(leaf):
                every[topic].append(np.unique(units[rows]))
                opened[topic].append(np.unique(units[rows[is_open[rows]]]))
        return tree._replace(topics=tuple(
            msgspec.structs.replace(topic, count=_distinct(every[place]), open_count=_distinct(opened[place]))
            for place, topic in enumerate(tree.topics)
        ))  # fmt: skip

    def _sensitive(self, numbers: Numbers) -> set[int]:
        mask = self._views.attributes.uncached_mask(MemoryFilter(tags=(SENSITIVE_TAG,), states=STATES))
        return set(np.intersect1d(np.flatnonzero(mask), numbers).tolist())

    def _named(
        self, tree: TopicTree, vectors: NDArray[np.float16] | None = None, embedder: Embedder | None = None
    ) -> Generator[None, None, TopicTree]:
        """The tree with names by words for topics that have none, of what the person said where that is enough.
        vectors: of the rows, by this embedder; None: not known."""
        if all(topic.name for topic in tree.topics):
            return tree
        shape, by_leaf = Shape(tree.leaves, tree.parents()), rows_by_leaf(tree.leaves)
        attributes = self._views.attributes
        codes = np.unique(attributes.values("speaker", tree.numbers, clip=True))
        hidden, speakers = self._sensitive(tree.numbers), {attributes.name("speaker", code) for code in codes.tolist()}
        own = frozenset(tree.numbers[self._views.attributes.is_own(tree.numbers)].tolist())
        central = {} if vectors is None else _central_rows(tree.leaves, vectors, by_leaf)
        below: dict[int, list[int]] = {}
        for leaf in by_leaf:
            for above in shape.line(leaf):
                below.setdefault(above, []).append(leaf)
        look_up, topics = self._statistics(), list(tree.topics)
        for place, topic in enumerate(tree.topics):
            leaves = below.get(place, [])
            if topic.name or not leaves:
                continue
            shares = [central.get(leaf, by_leaf[leaf]) for leaf in leaves]
            each = -(-SAMPLES // len(leaves))
            seen = [[number for number in tree.numbers[share].tolist() if number not in hidden] for share in shares]
            said = [[number for number in some if number in own] for some in seen]
            some = said if any(said) else seen
            sources = tuple(itertools.chain.from_iterable(share[:each] for share in some))
            closeness = None
            if vectors is not None and embedder is not None:
                encode = functools.partial(self._embedding.encode_batch, embedder)
                closeness = closeness_to(np.concatenate(shares), vectors, encode)
            memories, taken = self._memories(sources), {each.name for each in topics}
            texts = [embedded_text(memory) for memory in memories]
            trails = [(memory.note.title, *memory.note.headings) for memory in memories if memory.note is not None]
            name = telling_words(texts, look_up, len(self._views.lexical), speakers, closeness, taken, trails)
            topics[place] = msgspec.structs.replace(topic, name=name or opening_words(texts) or topic.id,
                                                    sources=sources, method="rule", is_asked=False)  # fmt: skip
            yield
        return tree._replace(topics=tuple(topics))

    def _statistics(self) -> Callable[[str], TermStatistics]:
        lexical = self._views.lexical

        frequency = functools.cache(lexical.document_frequency)

        @functools.cache
        def look_up(word: str) -> TermStatistics:
            for piece in lexical.tokenizer.pieces(word):
                if piece.kind in ("word", "character"):
                    return TermStatistics(piece.term, frequency(piece.term))
            return TermStatistics("", 0)

        return look_up


def rows_by_leaf(leaves: NDArray[np.int32]) -> dict[int, NDArray[np.int64]]:
    """The rows of each leaf that has some, ascending."""
    order = np.argsort(leaves, kind="stable")
    places, starts = np.unique(leaves[order], return_index=True)
    return dict(zip(places.tolist(), np.split(order, starts[1:]), strict=True)) if len(places) else {}


def closeness_to(
    rows: NDArray[np.int64], vectors: NDArray[np.float16], encode: Callable[[Sequence[str]], list[Floats]]
) -> Closeness:
    """The function that compares phrases, by vectors of the same model, with these rows next to all. Where the model
    fails all are equally close."""
    inside, every = (_direction(some) for some in (vectors[rows], vectors))

    def compare(phrases: Sequence[str]) -> Sequence[float]:
        try:
            found = np.stack([windows[0] for windows in encode(phrases)])
        except RuntimeError as error:  # onnxruntime's
            log.warning("topics are named without vectors: %s", error)
            return [1.0] * len(phrases)
        close: list[float] = np.maximum(found @ (inside - CONTRAST * every), 0).tolist()
        return close if np.isfinite(found).all() else [1.0] * len(phrases)

    return compare


def _followed(places: Iterable[str], moved: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for place in places for each in moved.get(place, (place,))))


def _forget_names(tree: TopicTree, known: Collection[int]) -> TopicTree:
    """The tree without names that were made of other memories than these."""
    return tree._replace(topics=tuple(
        topic if all(source in known for source in topic.sources)
        else Topic(topic.id, topic.parent, count=topic.count, open_count=topic.open_count)
        for topic in tree.topics
    ))  # fmt: skip


def _central_rows(
    leaves: Numbers, vectors: NDArray[np.float16], by_leaf: Mapping[int, NDArray[np.int64]]
) -> dict[int, NDArray[np.int64]]:
    """The rows of each leaf, the closest to its centroid first."""
    units = centroids(vectors, leaves)
    found = {}
    for leaf, rows in by_leaf.items():
        sims = vectors[rows].astype(np.float32) @ units[leaf]
        found[leaf] = rows[np.lexsort((rows, -sims))]
    return found


def _direction(vectors: NDArray[np.float16]) -> NDArray[np.float32]:
    """The unit mean of vectors; zeros where they cancel each other out."""
    mean = vectors.mean(axis=0, dtype=np.float32)
    length = np.linalg.norm(mean)
    unit: NDArray[np.float32] = mean / length if length else mean
    return unit


def _distinct(units: list[NDArray[np.int64]]) -> int:
    return len(np.unique(np.concatenate(units))) if units else 0
