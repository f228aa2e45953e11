"""The views and who keeps them current. SPEC 3.1, 3.5, 7.2.

Columns and words follow each commit before its writer is answered. Vectors follow behind: a thread reads what changed
from where it stands, so that a crash between acknowledgement and embedding loses nothing. Each view's file names the
store and the seq it had; what came since is caught up at the start, and whatever does not match is rebuilt.
"""

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from mnemo_core.ingest.attributes import attribute_claims
from mnemo_core.text import text_features
from mnemo_store.backend import Snapshot, TouchedMemory
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch, StoreCorruption, StoreError
from mnemo_store.indexes.attributes import AttributeStore
from mnemo_store.indexes.lexical import LexicalFields, LexicalIndex
from mnemo_store.records import Memory, NoteFile, Usage
from mnemo_store.store import Commit, Store, WriteResult

CATCH_UP_SHARE_MAX = 0.5  # with more of the store changed than this, rebuilding is cheaper than catching up
SLICE = 1000  # memories read under one snapshot
NOTES_A_SLICE = 200  # files of notes, each of some ten chunks
SAVE_AFTER_CHANGES = 5_000  # so that a crash costs seconds of catching up, not minutes
SAVE_AFTER_SECONDS = 300.0

# States whose memories stand in the indexes. SPEC 2.1
INDEXED_STATES = frozenset({"active", "archived", "compressed", "superseded"})

CLAIMS = "claims"  # in the meta of the words' file: the rules by which claims were read
SHAPES = "shapes"  # in that of the columns' file: the rules by which the shapes of texts were read

log = logging.getLogger("mnemo.views")

ViewState = Literal["ready", "building", "catching_up", "stale", "off"]


class IndexProgress(NamedTuple):
    """How a view stands. `behind_since` is the monotonic time of the oldest change not applied, 0 when none."""

    state: ViewState
    applied_seq: int
    items: int
    share: float
    behind_since: float = 0.0
    reason: str = ""
    rate: float | None = None  # items a second, while it is being filled
    seconds_left: float | None = None  # at that rate


def is_indexed(memory: Memory | None) -> bool:
    return memory is not None and memory.state in INDEXED_STATES


def fields_of(memory: Memory) -> LexicalFields:
    """What of a memory is searched by word, and what it claims. A note claims nothing: its file says what holds."""
    if memory.note:
        return words_of(memory)
    return words_of(memory)._replace(marks=attribute_claims.claim_keys(memory.content, memory.speaker))


def words_of(memory: Memory) -> LexicalFields:
    """What of a memory is searched by word, for which nothing has to be read out of its sentences."""
    headings = (memory.note.title, *memory.note.headings) if memory.note else ()
    return LexicalFields(memory.content, memory.speaker, memory.tags, headings)


class Views:
    """Columns and words: loaded by `open`, current with every commit, rebuilt beside when something breaks."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self.attributes = AttributeStore()
        self.lexical = LexicalIndex()
        self.applied_seq = 0
        self.state: ViewState = "building"
        self.reason = ""
        self.rebuilt: list[str] = []  # why, at the start
        self._store = store
        self._disk = disk
        self._folder = store.folder / "views"
        self._late: set[int] | None = None  # numbers touched while a rebuild is under way
        self._renumbers = 0  # how often the memories got other numbers
        self._saved_seq = 0
        self._saved_at = time.monotonic()
        self._listeners: list[Callable[[Commit], None]] = []
        self._saving = threading.Lock()
        self._rebuilding = threading.Lock()

    def open(self) -> None:
        """Loads both views, catches up, and follows the store from here on. Nothing may be written meanwhile."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            self.attributes, self.lexical, seq = self._load()
            self._saved_seq = seq
            with self._store.snapshot() as snapshot:
                changed = _changed_since(snapshot, seq, int(snapshot.count() * CATCH_UP_SHARE_MAX) + SLICE)
            if changed is None:
                raise IndexMismatch("most of the store has changed since the views were saved")
            self._apply_numbers(self.attributes, self.lexical, changed)
            _drop_vanished(self.attributes, self.lexical, self._store)
            self._link_notes(self.attributes)
        except IndexMismatch as error:
            if self._store.seq:
                self.rebuilt.append(str(error))
                log.info("columns and words are built anew: %s", error)
            self.attributes, self.lexical = self._build()
            self._saved_seq = 0
        self.applied_seq = self._store.seq
        self.state = "ready"
        self._store.on_commit(self._on_commit)
        self._store.on_row_ids_reset(self._on_row_ids_reset)

    def add_listener(self, listener: Callable[[Commit], None]) -> None:
        """Has listener called on the writer thread after each commit. It must not raise and must be quick."""
        self._listeners.append(listener)

    def progress(self) -> IndexProgress:
        return IndexProgress(self.state, self.applied_seq, len(self.lexical), 1.0, 0.0, self.reason)

    def save_if_due(self) -> None:
        """Saves when enough has changed or enough time has gone by since the last time."""
        changes = self.applied_seq - self._saved_seq
        waited = time.monotonic() - self._saved_at
        if changes >= SAVE_AFTER_CHANGES or (changes and waited >= SAVE_AFTER_SECONDS):
            self.save()

    def save(self) -> None:
        """Puts both views' files in place. A failure is logged: the next start then has more to catch up."""
        with self._saving:
            seq = self.applied_seq
            if (
                self._store.lock_loss
                or self.state != "ready"
                or (seq == self._saved_seq and not self.attributes.has_unsaved_counts)
            ):
                return
            try:
                self._save(seq)
            except (OSError, StoreError) as error:
                log.warning("the views could not be saved: %s", error)

    def rebuild(self) -> None:
        """Builds both beside and swaps them in; the old ones answer meanwhile. For a view that is stale.

        What keeps it from being built is raised, and the views stay stale.
        """
        with self._rebuilding:
            self.state = "building"
            try:
                while not self._replace(self._build):
                    pass
            except BaseException:
                self.state = "stale"
                raise

    def rebuild_without_deleted(self) -> None:
        """Makes both views and their files anew, with which nothing is wrong: then no name and no word of a memory that
        was dropped is left in them. Files that cannot be replaced are removed."""
        with self._rebuilding:
            while not self._replace(self._build if self.state == "stale" else self._without_dropped):
                pass
        with self._saving:
            try:
                self._save(self.applied_seq)
            except (OSError, StoreError) as error:
                log.warning("the views could not be saved anew, and their files are removed: %s", error)
                for path in self._folder.glob("[cw]o*.view*"):
                    self._disk.unlink(path)
                self._saved_seq = 0

    def _save(self, seq: int) -> None:
        meta = position_of(self._store, seq)
        self.attributes.save(self._folder / "columns.view", meta | {SHAPES: text_features.RULES_VERSION}, self._disk)
        self.lexical.save(self._folder / "words.view", meta | {CLAIMS: attribute_claims.RULES_VERSION}, self._disk)
        self._saved_seq, self._saved_at = seq, time.monotonic()

    def _replace(self, make: Callable[[], tuple[AttributeStore, LexicalIndex]]) -> bool:
        """Has what is made answer, brought up to what was written meanwhile. False where the memories got other numbers
        meanwhile: it is then of no use."""
        self._late, renumbers = set(), self._renumbers
        try:
            return self._install(*make(), renumbers)
        except BaseException:
            self._late = None
            raise

    def _without_dropped(self) -> tuple[AttributeStore, LexicalIndex]:
        """What there would be, had what was dropped never been there; the counts of tokens are kept.

        Of words a view that was saved has only those that some memory has. Where it cannot be saved, it is built.
        """
        counted, columns = self.attributes, self._build_columns()
        tokens, modified_at = counted.columns("tokens", "modified_at")
        for number in np.flatnonzero(tokens):
            columns.set_tokens(int(number), int(tokens[number]), int(modified_at[number]))
        path = self._folder / "words.view"
        try:
            with self._saving:
                meta = position_of(self._store, self.applied_seq) | {CLAIMS: attribute_claims.RULES_VERSION}
                self.lexical.save(path, meta, self._disk)
                return columns, LexicalIndex.load(path)[0]
        except (OSError, StoreError) as error:
            log.warning("the words could not be saved, and are built anew: %s", error)
            return self._build()

    def _install(self, columns: AttributeStore, words: LexicalIndex, renumbers: int) -> bool:
        def finish(snapshot: Snapshot) -> WriteResult[bool]:
            if self._renumbers != renumbers:  # which is told on this thread, so that no more can come
                return WriteResult((), False)
            late = [_now(snapshot, number) for number in sorted(self._late or ())]
            for touched in late:  # few; and its transaction keeps other writers out
                _apply(columns, words, touched)
            _link_files(columns, snapshot, _files_of(late))
            self.attributes, self.lexical, self._late = columns, words, None
            self.applied_seq, self.state, self.reason = self._store.seq, "ready", ""
            return WriteResult((), True)

        return self._store.transact(finish, by="views", background=True, frees=True).result().result

    def _on_row_ids_reset(self) -> None:
        self._renumbers += 1
        self.state, self.reason = "stale", "the memories have other numbers now"

    def _on_commit(self, applied: Commit) -> None:
        if self._late is not None:
            self._late.update(touched.number for touched in applied.touched)
        if self.state != "stale":
            try:
                for touched in applied.touched:
                    _apply(self.attributes, self.lexical, touched)
                if files := _files_of(applied.touched):
                    with self._store.snapshot() as snapshot:
                        _link_files(self.attributes, snapshot, files)
                self.applied_seq = applied.seq
            except Exception as error:
                log.exception("a view could not follow change %d and is rebuilt", applied.seq)
                self.state, self.reason = "stale", f"change {applied.seq} could not be applied: {error}"
        for listener in self._listeners:
            listener(applied)

    def _load(self) -> tuple[AttributeStore, LexicalIndex, int]:
        columns, columns_meta = AttributeStore.load(self._folder / "columns.view")
        words, words_meta = LexicalIndex.load(self._folder / "words.view")
        for meta in (columns_meta, words_meta):
            require_same_store(self._store, meta)
        if words_meta.get(CLAIMS) != attribute_claims.RULES_VERSION:
            raise IndexMismatch(f"words.view was made under other rules for claims: {words_meta.get(CLAIMS)}")
        if columns_meta.get(SHAPES) != text_features.RULES_VERSION:
            raise IndexMismatch(f"columns.view was made under other rules for shapes: {columns_meta.get(SHAPES)}")
        return columns, words, min(int(columns_meta["seq"]), int(words_meta["seq"]))

    def _build(self) -> tuple[AttributeStore, LexicalIndex]:
        words = LexicalIndex()
        return self._build_columns(words), words

    def _build_columns(self, words: LexicalIndex | None = None) -> AttributeStore:
        """Fills `words` from the same walk, where they are given."""
        columns = AttributeStore(linked=False)
        put = self._put_all(columns)
        if words is not None:  # all at once: it knows how many it merges best
            words.put_many((number, fields_of(memory)) for number, memory in put if is_indexed(memory))
        else:
            deque(put, maxlen=0)
        columns.link_sessions()
        self._link_notes(columns)
        return columns

    def _put_all(self, columns: AttributeStore) -> Iterator[tuple[int, Memory]]:
        """Puts every memory into the columns, one after the other, and gives it with its number."""
        after = ""
        while True:
            with self._store.snapshot() as snapshot:
                memories = snapshot.memories(after, SLICE)
                rows = [(_touched(snapshot, memory), memory) for memory in memories]
            for touched, memory in rows:
                columns.put(touched.number, memory, touched.usage, shape_of(memory))
                yield touched.number, memory
            if len(memories) < SLICE:
                return
            after = memories[-1].id

    def _link_notes(self, columns: AttributeStore) -> None:
        """Has the chunks of every note stand in the order of its file."""
        after = ""
        while True:
            with self._store.snapshot() as snapshot:
                notes = snapshot.notes(after, NOTES_A_SLICE)
                for note in notes:
                    _link_note(columns, snapshot, note)
            if len(notes) < NOTES_A_SLICE:
                return
            after = notes[-1].id

    def _apply_numbers(self, columns: AttributeStore, words: LexicalIndex, numbers: set[int]) -> None:
        """Brings both views to the present for these memories."""
        ordered = sorted(numbers)
        for start in range(0, len(ordered), SLICE):
            with self._store.snapshot() as snapshot:
                rows = [_now(snapshot, number) for number in ordered[start : start + SLICE]]
            for touched in rows:
                _apply(columns, words, touched)


def position_of(store: Store, seq: int) -> dict[str, Any]:
    """What the file of a view says of where it stands: the store, the last change it has, and which change that was.

    The number alone would not do: what a loss of power takes away before it was acknowledged leaves its number to
    another change, and a view that has the first one would pass for current.
    """
    with store.snapshot() as snapshot:
        return {"store": store.store_id, "seq": seq, "change": _fingerprint(snapshot, seq)}


def require_same_store(store: Store, meta: Mapping[str, Any]) -> None:
    """Raises ViewMismatch unless a view's file stands somewhere in the history of this store."""
    with store.snapshot() as snapshot:
        require_known_store(snapshot, store.store_id, meta)


def require_known_store(snapshot: Snapshot, store_id: str, meta: Mapping[str, Any]) -> None:
    """The same, of a store that is not open."""
    seq = int(meta.get("seq", 0))
    if meta.get("store") != store_id or seq > snapshot.seq:
        raise IndexMismatch("a view's file belongs to another store")
    if meta.get("change") != _fingerprint(snapshot, seq):
        raise IndexMismatch(f"a view's file has another change {seq} than the store")


def _fingerprint(snapshot: Snapshot, seq: int) -> str:
    entry = snapshot.entry(seq)
    return "" if entry is None else hashlib.blake2b(msgspec.json.encode(entry), digest_size=8).hexdigest()


def _now(snapshot: Snapshot, number: int) -> TouchedMemory:
    """A memory as a view that knows nothing of it needs it."""
    memory_id = snapshot.id_of(number)
    memory = snapshot.memory(memory_id) if memory_id else None
    return _touched(snapshot, memory) if memory else TouchedMemory(number, None, None, dropped=True)


def _touched(snapshot: Snapshot, memory: Memory) -> TouchedMemory:
    number = snapshot.number(memory.id)
    if number is None:
        raise StoreCorruption(f"memory {memory.id} has lost its number: stop the daemon and run `mnemo repair`")
    return TouchedMemory(number, memory, snapshot.usage(memory.id) or Usage(id=memory.id))


def shape_of(memory: Memory) -> int:
    """What its text looks like. Of a note without its headings, which say what it is about and not what it says."""
    return text_features.features_of_text(memory.content)


def _link_files(columns: AttributeStore, snapshot: Snapshot, files: Iterable[str]) -> None:
    """Has the chunks of these files of notes stand in the order of their records."""
    for file in files:
        note = snapshot.note(file)
        if note is not None:
            _link_note(columns, snapshot, note)
        else:
            columns.link_file(file, ())


def _link_note(columns: AttributeStore, snapshot: Snapshot, note: NoteFile) -> None:
    numbers = [snapshot.number(chunk.memory) for chunk in note.chunks]
    columns.link_file(note.id, [number for number in numbers if number is not None])


def _files_of(touched: Iterable[TouchedMemory]) -> dict[str, None]:
    """The files of notes whose chunks changed."""
    return {each.memory.managed: None for each in touched if each.memory is not None and each.memory.managed}


def _apply(columns: AttributeStore, words: LexicalIndex, touched: TouchedMemory) -> None:
    if touched.dropped:
        columns.drop(touched.number)
        words.drop(touched.number)
        return
    if touched.memory is None:
        if touched.usage is not None:
            columns.set_usage(touched.number, touched.usage)
        return
    columns.put(touched.number, touched.memory, touched.usage, shape_of(touched.memory))
    if is_indexed(touched.memory):
        words.put(touched.number, fields_of(touched.memory))
    else:
        words.drop(touched.number)


def _drop_vanished(columns: AttributeStore, words: LexicalIndex, store: Store) -> None:
    """Drops the rows of memories that are no longer in the store (their trash was emptied since a view was saved).

    The files of the two may stand at different changes: a kill between them leaves a row in one that the other lost.
    """
    with store.snapshot() as snapshot:
        is_whole = snapshot.count() == int((columns.column("state") != 255).sum())
        if is_whole and len(words) == columns.count_states(INDEXED_STATES):
            return
        gone = [number for number in range(max(columns.size, words.size)) if snapshot.id_of(number) is None]
    for number in gone:
        if number < columns.size:
            columns.drop(number)
        words.drop(number)


def _changed_since(snapshot: Snapshot, seq: int, limit: int) -> set[int] | None:
    """The numbers of the memories touched behind seq; None when they are more than limit."""
    ids: set[str] = set()
    while rows := snapshot.entries(seq, SLICE):
        for _, entry in rows:
            ids.update(entry.ids, entry.used)
        if len(ids) > limit:
            return None
        seq = rows[-1][0]
    return {number for memory_id in ids if (number := snapshot.number(memory_id)) is not None}
