"""The commit indexes and their driver. SPEC 3.1, 3.5, 7.2.

They follow each commit before its writer is answered. The file of each names the store and the change it stands at;
what came since is caught up at the start, and whatever does not match is rebuilt. All of them stand at one change, and
are replaced together: the answer of one means nothing in the row ids of another state.
"""

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES, AttributeIndex, WordIndex
from mnemo_daemon.indexing.fact_index import FactIndex
from mnemo_daemon.indexing.index import (
    CommitIndex,
    IndexProgress,
    IndexState,
    SavedPosition,
    position_of,
    require_same_store,
)
from mnemo_daemon.table_walk import walk_table
from mnemo_store.backend import READ_SLICE, Snapshot, TouchedMemory
from mnemo_store.batches import batched
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch, StoreCorruption, StoreError
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.records import Memory
from mnemo_store.store import Commit, Store
from mnemo_store.tables import MEMORIES, StoredMemory

CATCH_UP_SHARE_MAX = 0.5  # with more of the store changed than this, rebuilding is cheaper than catching up
SAVE_AFTER_CHANGES = 5_000  # so that a crash costs seconds of catching up, not minutes

T = TypeVar("T")

log = logging.getLogger("mnemo.views")

Indexes = tuple[CommitIndex, ...]  # one of each class of COMMIT_INDEXES, in order


class Views:
    """The commit indexes: loaded by `open`, current with every commit, rebuilt next to the old ones when one breaks."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self._use(tuple(kind() for kind in COMMIT_INDEXES))
        self.facts = FactIndex(store)
        self.applied_seq = 0
        self.state: IndexState = "building"
        self.reason = ""
        self.rebuilt: list[str] = []  # why, at the start
        self._store = store
        self._disk = disk
        self._folder = store.folder / "views"
        self._late: set[int] | None = None  # numbers touched while a rebuild is under way
        self._row_id_resets = 0
        self._saved = SavedPosition(SAVE_AFTER_CHANGES)
        self._listeners: list[Callable[[Commit], None]] = []
        self._saving = threading.Lock()
        self._rebuilding = threading.Lock()

    def _use(self, indexes: Indexes) -> None:
        """Makes these the indexes that answer."""
        self.indexes = indexes
        self.attributes = attributes_of(indexes)
        self.lexical = next(each.data for each in indexes if isinstance(each, WordIndex))

    def open(self) -> None:
        """Loads the indexes, catches up, and follows the store from here on. Nothing may be written meanwhile."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            indexes, seq = load_indexes(self._folder, functools.partial(require_same_store, self._store))
            with self._store.snapshot() as snapshot:
                changed = _changed_since(snapshot, seq, int(snapshot.count() * CATCH_UP_SHARE_MAX) + READ_SLICE)
            if changed is None:
                raise IndexMismatch("most of the store has changed since the views were saved")
            numbers = sorted(changed)
            for some in batched(numbers, READ_SLICE):
                with self._store.snapshot() as snapshot:
                    rows = [_now(snapshot, number) for number in some]
                for each in indexes:
                    each.apply(self._store.snapshot, rows)
            # Drop the rows of memories that are no longer in the store, whose trash was emptied since an index was
            # saved. The files may stand at different changes: a kill between them leaves a row that another one lost.
            with self._store.snapshot() as snapshot:
                size = max(each.data.size for each in indexes) if _wrong_counts(indexes, snapshot) else 0
                gone = [number for number in range(size) if snapshot.id_of(number) is None]
            for each in indexes:
                for number in gone:
                    each.data.drop(number)
            for each in indexes:
                each.finish(self._store.snapshot)
        except IndexMismatch as error:
            if self._store.seq:
                self.rebuilt.append(str(error))
                log.info("columns and words are rebuilt: %s", error)
            indexes, seq = self._build(), 0
        self._use(indexes)
        self._saved.set(seq)
        self.applied_seq = self._store.seq
        self.state = "ready"
        self._store.on_commit(self._on_commit)
        self._store.on_row_ids_reset(self._on_row_ids_reset)

    def add_listener(self, listener: Callable[[Commit], None]) -> None:
        """Has listener called on the writer thread after each commit. It must not raise and must be quick."""
        self._listeners.append(listener)

    def progress(self) -> dict[str, IndexProgress]:
        """The progress of each index, by name."""
        return {
            each.name: IndexProgress(self.state, self.applied_seq, len(each), 1.0, 0.0, self.reason)
            for each in self.indexes
        }

    def is_save_due(self) -> bool:
        """True if enough has changed, or enough time has gone by, since both were saved."""
        return self._saved.is_due(self.applied_seq)

    def save(self) -> None:
        """Puts both views' files in place. A failure is logged: the next start then has more to catch up."""
        with self._saving:
            seq = self.applied_seq
            is_saved = seq == self._saved.seq and not self.attributes.has_unsaved_counts
            if self._store.lock_loss or self.state != "ready" or is_saved:
                return
            try:
                self._save(seq)
            except (OSError, StoreError) as error:
                log.warning("the views could not be saved: %s", error)

    def require_rows(self) -> None:
        """Marks the indexes as stale, so that they are rebuilt, where one has not as many memories as the store. Only
        counts are compared, on the writer's turn: it takes milliseconds."""

        def compare() -> None:
            with self._store.snapshot() as snapshot:
                wrong = _wrong_counts(self.indexes, snapshot)
            if wrong and self.state == "ready":
                self.state, self.reason = "stale", f"a check found {wrong}"
                log.warning("a check found %s: the indexes of words and attributes are rebuilt", wrong)

        self._run_on_writer(compare)

    def rebuild(self) -> None:
        """Builds new indexes while the old ones answer, and swaps them in. For indexes that are stale.

        They stay stale where an error is raised.
        """
        with self._rebuilding:
            self.state = "building"
            try:
                while not self._replace(rebuilds=True):
                    pass
            except BaseException:
                self.state = "stale"
                raise

    def rebuild_without_deleted(self) -> None:
        """Makes all indexes and their files again, so that no name and no word of a dropped memory is left in them.
        Files that cannot be replaced are removed."""
        self.facts.clear()
        with self._rebuilding:
            while not self._replace(rebuilds=False):
                pass
        with self._saving:
            try:
                self._save(self.applied_seq)
            except (OSError, StoreError) as error:
                log.warning("the indexes could not be saved again, and their files are removed: %s", error)
                for each in self.indexes:
                    for path in self._folder.glob(f"{each.name}.view*"):
                        self._disk.unlink(path)
                self._saved.seq = 0

    def _save(self, seq: int) -> None:
        position = position_of(self._store, seq)
        for each in self.indexes:
            each.save(self._folder / f"{each.name}.view", position | dict([each.rules]), self._disk)
        self._saved.set(seq)

    def _replace(self, *, rebuilds: bool) -> bool:
        """Makes indexes, applies what was written since, and has them answer. False where the row ids were reset during
        that, which makes them useless. rebuilds: from the store; otherwise copies, unless the indexes are stale.

        It begins on the writer's turn. There every commit is either in all indexes, so that each copy has it, or it
        will be among the late ones; elsewhere one that is just being applied could be neither.
        """

        def begin() -> tuple[Callable[[], Indexes], int]:
            self._late = set()
            return self._build if rebuilds or self.state == "stale" else self._without_dropped, self._row_id_resets

        make, resets = self._run_on_writer(begin)
        try:
            indexes = make()
            return self._run_on_writer(lambda: self._row_id_resets == resets and self._install(indexes))
        except BaseException:
            self._late = None
            raise

    def _without_dropped(self) -> Indexes:
        """The indexes without a trace of dropped memories."""
        position = position_of(self._store, self.applied_seq)
        made: dict[str, CommitIndex] = {}
        with self._saving:
            for each in self.indexes:
                copy = each.copied(self._folder / f"{each.name}.view", position | dict([each.rules]), self._disk)
                if copy is not None:
                    made[each.name] = copy
        earlier = [each for each in self.indexes if each.name not in made]
        for each, before in zip(self._build([type(each) for each in earlier]), earlier, strict=True):
            each.keep_counts(before)
            made[each.name] = each
        return tuple(made[kind.name] for kind in COMMIT_INDEXES)

    def _install(self, indexes: Indexes) -> bool:
        """Runs on the writer's turn: few memories are late, and no others come meanwhile."""
        with self._store.snapshot() as snapshot:
            late = [_now(snapshot, number) for number in sorted(self._late or ())]
        for each in indexes:
            each.apply(self._store.snapshot, late)
        self._use(indexes)
        self._late = None
        self.applied_seq, self.state, self.reason = self._store.seq, "ready", ""
        return True

    def _run_on_writer(self, act: Callable[[], T]) -> T:
        """Calls act on the writer thread, between two groups of commits; returns what it returns."""
        return self._store.run_exclusively(lambda _: act()).result()

    def _on_row_ids_reset(self) -> None:
        self._row_id_resets += 1
        self.state, self.reason = "stale", "the memories have other numbers now"

    def _on_commit(self, applied: Commit) -> None:
        if self._late is not None:
            self._late.update(touched.number for touched in applied.touched)
        if self.state != "stale":
            try:
                # Only here, where all indexes have applied the same changes: after a crash one may have the text of a
                # version that another has not.
                touched = [
                    each._replace(says_the_same=self.attributes.says_the_same(each.number, each.memory))
                    if each.memory is not None
                    else each
                    for each in applied.touched
                ]
                for each in self.indexes:
                    each.apply(self._store.snapshot, touched)
                self.applied_seq = applied.seq
            except Exception as error:
                log.exception("a view could not follow change %d and is rebuilt", applied.seq)
                self.state, self.reason = "stale", f"change {applied.seq} could not be applied: {error}"
        for listener in self._listeners:
            listener(applied)

    def _build(self, kinds: Sequence[type[CommitIndex]] = COMMIT_INDEXES) -> Indexes:
        """New indexes, from one walk over all memories."""
        made = tuple(kind() for kind in kinds)

        def touched(snapshot: Snapshot, rows: Sequence[StoredMemory]) -> list[TouchedMemory]:
            return [_touched(snapshot, row.memory) for row in rows]

        for rows in walk_table(self._store, MEMORIES, touched) if made else ():
            for each in made:
                each.add(rows)
        for each in made:
            each.finish(self._store.snapshot)
        return made


def load_indexes(folder: Path, require: Callable[[Mapping[str, Any]], None]) -> tuple[Indexes, int]:
    """The commit indexes of a folder, and the change that all of them have applied. Raises IndexMismatch, as `require`
    does for a position that is not one of the store."""
    loaded = [kind.load(folder / f"{kind.name}.view") for kind in COMMIT_INDEXES]
    for _, meta in loaded:
        require(meta)
    for each, meta in loaded:
        name, version = each.rules
        if meta.get(name) != version:
            raise IndexMismatch(f"{each.name}.view was made under other rules for {name}: {meta.get(name)}")
    return tuple(each for each, _ in loaded), min(int(meta["seq"]) for _, meta in loaded)


def attributes_of(indexes: Indexes) -> AttributeStore:
    """The attribute store among them."""
    return next(each.data for each in indexes if isinstance(each, AttributeIndex))


def _now(snapshot: Snapshot, number: int) -> TouchedMemory:
    """A memory as a view that knows nothing of it needs it."""
    memory_id = snapshot.id_of(number)
    memory = snapshot.memory(memory_id) if memory_id else None
    return _touched(snapshot, memory) if memory else TouchedMemory(number, None, None, dropped=True)


def _touched(snapshot: Snapshot, memory: Memory) -> TouchedMemory:
    number = snapshot.number(memory.id)
    if number is None:
        raise StoreCorruption(f"memory {memory.id} has lost its number: stop the daemon and run `mnemo repair`")
    return TouchedMemory(number, memory, snapshot.usage(memory.id))


def _wrong_counts(indexes: Indexes, snapshot: Snapshot) -> str:
    """The indexes that have another number of memories than they should; "" for none."""
    columns = attributes_of(indexes)
    counts = [(each.name, len(each), columns.count_states(each.states)) for each in indexes]
    counts.append(("columns", columns.count_states(AttributeIndex.states), snapshot.count()))
    return ", ".join(f"{held} memories in the {name}, not {due}" for name, held, due in counts if held != due)


def _changed_since(snapshot: Snapshot, seq: int, limit: int) -> set[int] | None:
    """The numbers of the memories touched behind seq; None when they are more than limit."""
    ids: set[str] = set()
    while rows := snapshot.entries(seq, READ_SLICE):
        for _, entry in rows:
            ids.update(entry.ids, entry.used)
        if len(ids) > limit:
            return None
        seq = rows[-1][0]
    return {number for memory_id in ids if (number := snapshot.number(memory_id)) is not None}
