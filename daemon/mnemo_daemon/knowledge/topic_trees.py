"""The topic trees of the store, made behind requests and read without waiting. SPEC 10.1

A tree for each user and namespace. It is looked at again QUIET_SECONDS after the last change, in slices of a job, and
published when it is whole and its file is in place; readers have the former tree until then. An id is never used again,
by a number in the store that is raised before ids are given out; a topic that a reader has seen is in the file.
"""

import functools
import logging
import threading
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.policies import PolicyOf, own_policy
from mnemo_core.knowledge.clusters import nearness_to_middle
from mnemo_core.lifecycle.consolidation.state import TopicLeaf
from mnemo_core.llm.summarize import NAMING, NameAnswer
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.errors import Refusal
from mnemo_daemon.history_names import BY_TOPICS, RENAME_TOPIC, TOPIC_NAME
from mnemo_daemon.indexing.index import position_of, require_same_store
from mnemo_daemon.indexing.vectors.active_index import Scope
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.knowledge import topic_builder
from mnemo_daemon.knowledge.topic_builder import Topic, TopicTree, TreeBuilder
from mnemo_daemon.models.embedders.calibration import ModelThresholds
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.task_runner import TaskResult, TaskRunner
from mnemo_daemon.table_walk import records_of
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch, StoreError
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import STATES, PutMeta
from mnemo_store.store import Commit, Store, WriteResult
from mnemo_store.tables import META

IDS_KEY = "topic_ids"  # meta key: the number below which every id of a topic may have been used
IDS_TOGETHER = 256  # that are taken from the store at once
QUIET_SECONDS = 5.0  # after the last change [G42]
WAIT_SECONDS_MAX = 600.0  # where changes never pause
SLICE_SECONDS = 0.2
NAMED_TOGETHER = 30  # topics that a model names before they are published [G42]
SAMPLE_TEXTS = 6  # that a model is shown of a topic,
SAMPLE_CHARACTERS = 300  # of each so much

log = logging.getLogger("mnemo.topics")


class TopicSummary(NamedTuple):
    """A topic as it is listed."""

    id: str
    name: str
    method: str
    member_count: int
    parent: str  # "": a root
    level: int  # 0 of a root
    namespace: str
    sources: tuple[int, ...] = ()  # row ids of the memories that the name was made of


class TopicMembers(NamedTuple):
    """A topic and the row ids of its members; of an id that is gone the topics where its members are."""

    topic: TopicSummary | None
    numbers: NDArray[np.int32]
    moved_to: tuple[str, ...] = ()


class TopicTrees:
    """The service. Any thread reads; the job's thread alone builds."""

    def __init__(
        self, store: Store, views: Views, indexing: VectorIndexer, embedding: EmbeddingService, tasks: TaskRunner,
        disk: Disk, quiet_seconds: float = QUIET_SECONDS, policy: PolicyOf = own_policy,
    ) -> None:  # fmt: skip
        self._store = store
        self._views = views
        self._indexing = indexing
        self._tasks = tasks
        self._policy = policy
        self._disk = disk
        self._quiet_seconds = quiet_seconds
        self._folder = store.folder / "views"
        self._thresholds = ModelThresholds(embedding)
        self._builder = TreeBuilder(store, views, embedding)
        self._trees: dict[Scope, TopicTree] = {}  # replaced as a whole
        self._lock = threading.Lock()  # publishing and erasure
        self._round = 0  # raised by an erasure: what was begun before is not published
        self._work: Generator[None, None, None] | None = None
        self._is_building = False
        self._changed_at = self._changed_since = time.monotonic()  # -1: no change since the last look
        self._fresh: set[Scope] = set()  # to be built from the beginning
        self._looked_at: tuple[str, int] = ("", 0)  # space and number of vectors at the last look
        self._is_closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, "mnemo-topics")
        with store.snapshot() as snapshot:
            self._next_id = self._ids_taken = int(snapshot.meta(IDS_KEY) or 1)
        self._given: dict[str, str] = {  # names that a person gave, by Topic.named_as
            each.name.removeprefix(TOPIC_NAME): each.value
            for each in records_of(self._store, META) if each.name.startswith(TOPIC_NAME)
        }  # fmt: skip
        self._load()
        views.add_listener(self._on_commit)
        store.on_commit(self._follow_names)
        store.on_row_ids_reset(self._on_row_ids_reset)

    def close(self) -> None:
        """End the naming under way. Trees are in their file already."""
        self._is_closing.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def nearness(self, numbers: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the cosines of memories, by their row ids, to the middle of them all; 0 where there is no model."""
        serving = self._indexing.serving()
        if serving is None or not len(numbers):
            return np.zeros(len(numbers), np.float32)
        return nearness_to_middle(serving.view.first_of(numbers).astype(np.float32))

    # Readers

    def topics(
        self, user_id: str, namespaces: Collection[str] = (), *, sees_sensitive: bool = True
    ) -> list[TopicSummary]:
        """The topics of a user in these namespaces (none: all) as they are now, without waiting: a parent before its
        children, siblings by their members. Empty while there is no tree."""
        return [
            self._summary(topic, level, tree, sees_sensitive=sees_sensitive)
            for tree in self._visible(user_id, namespaces)
            for topic, level in tree.in_order(sees_sensitive=sees_sensitive)
        ]

    def members(
        self, topic_id: str, user_id: str, namespaces: Collection[str] = (), *, sees_sensitive: bool = True
    ) -> TopicMembers | None:
        """The members of a topic; None for an id that is not one, or not of this user and these namespaces."""
        for tree in self._visible(user_id, namespaces):
            for topic, level in tree.in_order(sees_sensitive=sees_sensitive):
                if topic.id == topic_id:
                    summary = self._summary(topic, level, tree, sees_sensitive=sees_sensitive)
                    return TopicMembers(summary, tree.members(topic_id))
            if topic_id in tree.moved:
                return TopicMembers(None, np.empty(0, np.int32), tree.moved[topic_id])
        return None

    def rename(self, topic_id: str, name: str, user_id: str, namespaces: Collection[str], by: str) -> int:
        """Give a topic a name, "" for the one that it has without a person; return the seq of the change. The name
        stays with the topic as long as it keeps its id or its name is inherited. Raises a Refusal (404)."""
        topics = (topic for tree in self._visible(user_id, namespaces) for topic in tree.topics)
        topic = next((each for each in topics if each.id == topic_id), None)
        if topic is None:
            raise Refusal(404, "not_found", f"there is no topic {topic_id}", field="id")
        key = topic.named_as or topic.id
        changes = (PutMeta(name=TOPIC_NAME + key, value=name),) if self._given.get(key, "") != name else ()
        return self._store.transact(lambda _: WriteResult(changes, None, RENAME_TOPIC), by=by).result().seq

    def _summary(self, topic: Topic, level: int, tree: TopicTree, *, sees_sensitive: bool) -> TopicSummary:
        found = TopicSummary(
            topic.id, topic.name, topic.method, topic.count if sees_sensitive else topic.open_count, topic.parent,
            level, tree.scope.namespace, topic.sources,
        )  # fmt: skip
        given = self._given.get(topic.named_as or topic.id)
        return found._replace(name=given, method="user", sources=()) if given else found

    def _follow_names(self, commit: Commit) -> None:
        """Take up the names that a commit gives."""
        names = {
            each.name.removeprefix(TOPIC_NAME): each.value
            for each in commit.changes or () if isinstance(each, PutMeta) and each.name.startswith(TOPIC_NAME)
        }  # fmt: skip
        if names:
            self._given = {**self._given, **names}

    def leaves(self) -> list[TopicLeaf]:
        """The leaves of all trees as they are now with their members, the largest first."""
        found = [
            TopicLeaf(
                tree.topics[place].id, tree.scope.namespace, tree.scope.user_id, tree.numbers[tree.leaves == place]
            )
            for tree in self._trees.values()
            for place in np.unique(tree.leaves).tolist()
        ]
        return sorted(found, key=lambda leaf: (-len(leaf.rows), leaf.id))

    def is_current(self) -> bool:
        """Return whether the trees are those of the present memories, as far as is known."""
        return not self._is_building and not self._fresh and self._changed_at < 0 and not self._has_other_vectors()

    def _visible(self, user_id: str, namespaces: Collection[str]) -> Iterator[TopicTree]:
        for scope, tree in sorted(self._trees.items()):
            if scope.user_id == user_id and (not namespaces or scope.namespace in namespaces):
                yield tree

    # Changes

    def rebuild(self, user_id: str, namespaces: Collection[str] = ()) -> None:
        """Have the trees of these namespaces (none: all) built from the beginning, soon."""
        scopes = [Scope(*each) for each in self._views.attributes.scopes()]
        with self._lock:
            self._fresh |= {each for each in scopes if each.user_id == user_id
                            and (not namespaces or each.namespace in namespaces)}  # fmt: skip

    def waiting(self) -> int:
        """Return how many trees are still to be built from the beginning; 0 while there is no model to build them."""
        return len(self._fresh) + self._is_building if self._indexing.serving() is not None else 0

    def remove_deleted(self) -> None:
        """Remove from trees, names and the file what is left of memories that are deleted for good. The file is removed
        where it cannot be replaced."""
        with self._lock:
            self._round += 1
            mask = self._views.attributes.uncached_mask(MemoryFilter(states=STATES))
            there = np.flatnonzero(mask)
            trees = {}
            for scope, tree in self._trees.items():
                stays = np.isin(tree.numbers, there)
                rows = {name: getattr(tree, name)[stays] for name in ("numbers", "leaves", "digests")}
                trees[scope] = self._builder.renamed(tree._replace(**rows))
            self._trees = trees
            try:
                self._save(trees)
            except (OSError, StoreError) as error:
                log.warning("the topics could not be saved again, and their file is removed: %s", error)
                self._disk.unlink(self._folder / topic_builder.FILE)
        self._note_change()

    def _on_commit(self, commit: Commit) -> None:
        if any(touched.memory is not None or touched.dropped for touched in commit.touched):
            self._note_change()

    def _note_change(self) -> None:
        self._changed_at = time.monotonic()
        if self._changed_since < 0:
            self._changed_since = self._changed_at

    def _on_row_ids_reset(self) -> None:
        """Forget all trees: their members are known by numbers that are others now."""
        with self._lock:
            self._round += 1
            self._trees = {}
        self._note_change()

    def _has_other_vectors(self) -> bool:
        serving = self._indexing.serving()
        return serving is not None and self._looked_at != (serving.embedder.space, len(serving.view))

    # The job

    def is_due(self) -> bool:
        """Return whether there is something to do, and it has been quiet for long enough."""
        serving = self._indexing.serving()
        is_ready = serving is not None and self._views.state == "ready"
        return is_ready and (self._is_change_due() or self._is_model_asked())

    def is_requested(self) -> bool:
        """Return whether somebody has asked for trees that are not built yet."""
        return bool(self._fresh)

    def _is_change_due(self) -> bool:
        if self._fresh:
            return True
        if self._changed_at < 0 and not self._has_other_vectors():
            return False
        now = time.monotonic()
        is_quiet = now - self._changed_at >= self._quiet_seconds and self._indexing.progress().state == "ready"
        return is_quiet or (self._changed_since >= 0 and now - self._changed_since >= WAIT_SECONDS_MAX)

    def run_slice(self) -> bool:
        """Go on for SLICE_SECONDS; return whether there is more."""
        until = time.monotonic() + SLICE_SECONDS
        if self._work is None:
            self._work = self._update()
        try:
            while time.monotonic() < until and not self._is_closing.is_set():
                next(self._work)
        except StopIteration:
            self._work = None
        except BaseException:  # raised again: the scheduler reports it and decides when the work is tried again
            self._work = None
            self._is_building = False
            self._changed_at = 0.0  # due at once
            raise
        return self._work is not None

    def _update(self) -> Generator[None, None, None]:
        """Bring every tree up to date, then have a language model name some topics."""
        round_, serving = self._round, self._indexing.serving()
        if serving is None:
            return
        self._is_building, self._changed_at, self._changed_since = True, -1.0, -1.0
        self._looked_at = serving.embedder.space, len(serving.view)
        thresholds = self._thresholds.of(serving.embedder)
        scopes = [Scope(*each) for each in self._views.attributes.scopes()]
        scopes += self._trees.keys() - scopes
        with self._lock:
            self._fresh.intersection_update(scopes)  # others have no memories any more
        for scope in scopes:
            limits = self._policy(scope.namespace).thresholds_for(thresholds)
            rows, is_fresh = self._builder.rows(scope, serving), scope in self._fresh
            former = self._trees.get(scope)
            if not len(rows.numbers):
                if former is not None:
                    self._publish(round_, {each: tree for each, tree in self._trees.items() if each != scope})
            else:
                began = time.monotonic()
                tree = yield from self._builder.update(
                    scope, rows, former, serving, limits, self._new_ids, is_fresh=is_fresh
                )
                if tree is not None and self._publish(round_, {**self._trees, scope: tree}):
                    log.info("the topics of %d memories were made in %.1f s: %d", len(rows.numbers),
                             time.monotonic() - began, len(tree.topics))  # fmt: skip
            if is_fresh:
                with self._lock:
                    self._fresh.discard(scope)
        self._is_building = False
        if self._is_model_asked():
            yield from self._name_by_model(round_)

    def _publish(self, round_: int, trees: dict[Scope, TopicTree]) -> bool:
        """Have these trees answer, once they are saved; False where memories were erased since the round began."""
        with self._lock:
            if self._round != round_:
                return False
            self._save(trees)
            self._trees = trees
        return True

    def _save(self, trees: dict[Scope, TopicTree]) -> None:
        position = position_of(self._store, self._store.seq)
        topic_builder.save(
            self._folder, [tree for _, tree in sorted(trees.items())], self._next_id, position, self._disk
        )

    def _load(self) -> None:
        try:
            trees, next_id, position = topic_builder.load(self._folder)
            require_same_store(self._store, position)
        except IndexMismatch as error:
            if self._store.seq:
                log.info("the topics are made again: %s", error)
            return
        self._trees = {tree.scope: tree for tree in trees}
        self._next_id = min(next_id, self._ids_taken)

    def _new_ids(self, count: int) -> Sequence[str]:
        """Ids that no topic has had."""
        first, end = self._next_id, self._next_id + count
        if end > self._ids_taken:
            taken = end + IDS_TOGETHER
            change = PutMeta(name=IDS_KEY, value=str(taken))
            self._store.transact(
                lambda _: WriteResult((change,), None, "topics"), by=BY_TOPICS.name, background=True
            ).result()
            self._ids_taken = taken
        self._next_id = end
        return [f"kb{number}" for number in range(first, end)]

    # Names by a language model

    def _is_model_asked(self) -> bool:
        """Return whether some topic has a name by words and a model may be asked for a better one."""
        is_left = any(_is_unasked(topic) for tree in self._trees.values() for topic in tree.topics)
        return is_left and not self._tasks.reason_not_to_ask(NAMING, _ANY_INPUTS)

    def _name_by_model(self, round_: int) -> Generator[None, None, None]:
        """Ask for the names of up to NAMED_TOGETHER topics, the largest first, and publish those that were accepted."""
        trees = dict(self._trees)
        waiting = [
            (topic, scope) for scope, tree in sorted(trees.items()) for topic in tree.topics if _is_unasked(topic)
        ]
        waiting.sort(key=lambda each: (-each[0].count, topic_builder.number_of(each[0].id)))
        for topic, scope in waiting[:NAMED_TOGETHER]:
            texts = self._builder.texts(topic.sources[:SAMPLE_TEXTS])
            if not texts:
                continue  # they are gone since, and the next look finds that
            inputs = TaskInputs(tuple(text[:SAMPLE_CHARACTERS] for text in texts))
            if self._tasks.reason_not_to_ask(NAMING, inputs):
                break
            asked: Future[TaskResult[NameAnswer]] = self._thread.submit(
                self._tasks.run, NAMING, inputs, is_cancelled=functools.partial(self._is_over, round_)
            )
            while not wait([asked], SLICE_SECONDS).done:
                yield
            if self._is_over(round_):
                return
            tree = trees[scope]
            result = asked.result()
            taken = {each.name.casefold() for each in tree.topics if each.id != topic.id}
            is_new = result.method == "llm" and result.answer.name.casefold() not in taken
            fields = {"name": result.answer.name, "method": f"llm:{result.model}"} if is_new else {}
            named = msgspec.structs.replace(topic, is_asked=True, **fields)
            trees[scope] = tree._replace(topics=tuple(named if each.id == topic.id else each for each in tree.topics))
            if self._is_change_due():
                break
            yield
        self._publish(round_, trees)

    def _is_over(self, round_: int) -> bool:
        return self._is_closing.is_set() or self._round != round_


_ANY_INPUTS = TaskInputs(("-",))


def _is_unasked(topic: Topic) -> bool:
    return topic.method == "rule" and not topic.is_asked and bool(topic.sources)
