"""Writes the changes of a notes folder to the store. SPEC 6

Files are read and matched here, and decided in write turns (mnemo_core.ingest.note_sync): many small files in one turn,
one long file in several. A few turns wait for the disk while the next files are read. A plan whose manifest has changed
by the time of its turn is made again.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from mnemo_core.documents.markup import links_in
from mnemo_core.documents.note_diff import ChunkText, NewFile, PreviousFile, match_files
from mnemo_core.ingest import note_sync, write_plan
from mnemo_core.ingest.note_sync import MEMORIES_A_TURN, NoteChanges, NotePlan, NotePlanProgress
from mnemo_daemon.history_names import BY_NOTES
from mnemo_daemon.notes.folder_scan import (
    READER,
    FileContent,
    FileStat,
    Folder,
    UnreadableNote,
    parse_note,
    why_skipped,
    with_new_place,
)
from mnemo_daemon.notes.note_catalogue import KnownFile, NoteCatalogue
from mnemo_daemon.notes.pdf_reader import ReadInterruption
from mnemo_daemon.thread_supervision import retry_while_full
from mnemo_store.backend import Snapshot
from mnemo_store.batches import batched
from mnemo_store.records import Change, DropEdge, Edge, NoteFile, NoteRoot, PutEdge, PutNote
from mnemo_store.store import Store, WriteReceipt, WriteResult

T = TypeVar("T")

WRITES_AHEAD = 8  # write turns that wait for the disk while more files are read
PENDING_BYTES_MAX = 1 << 20  # of text in plans that wait for their turn
CACHED_BYTES_MAX = 32 << 20  # of files that are kept from being matched to being cut
EDGES_PER_WRITE = 300


class ScanChanges(NamedTuple):
    """The changes that a scan of a root found."""

    root: NoteRoot
    folder: Folder
    changed: Sequence[FileStat]  # new, or not as the manifest has it
    gone: Sequence[KnownFile]


class WriteOutcome(NamedTuple):
    """The result of a write."""

    written: list[NoteFile]
    outdated: list[NotePlan]  # left out: their manifests are no longer those they were made from


class NoteWriter:
    """The writer. Used by one thread."""

    def __init__(
        self, store: Store, catalogue: NoteCatalogue, file_bytes_max: int, is_stopping: Callable[[], bool],
        on_skipped: Callable[[NoteRoot, str, str | None, FileStat | None], None],
    ) -> None:  # fmt: skip
        """Call `on_skipped` for each examined file: (root, path, reason for skipping it or None, and, where only
        another content could change that, the file as it was)."""
        self._store = store
        self._catalogue = catalogue
        self.file_bytes_max = file_bytes_max  # larger files are passed over; may be set at any time
        self._is_stopping = is_stopping
        self._on_skipped = on_skipped
        self._pause = threading.Event()
        self._in_flight: deque[Future[WriteReceipt[WriteOutcome]]] = deque()
        self._pending: list[NotePlan] = []
        self._pending_steps = 0
        self._pending_bytes = 0
        self._outdated: list[NotePlan] = []
        self._unmoved: list[tuple[NoteFile, FileStat]] = []
        self._to_link: set[str] = set()

    def apply(self, found: ScanChanges) -> None:
        """Return once all changes are in the store, or when stopping. Raises what the store raises."""
        self._to_link = set()
        try:
            self._apply_files(found)
            self._finish_writes()
            self._apply_links()
        finally:
            self._clear()

    def trash_files(self, files: Iterable[KnownFile]) -> None:
        """Move all chunks of the files of a folder that was removed to the trash, and mark the files as missing."""
        try:
            for known in files:
                if self._is_stopping():
                    break
                self._add_gone(known, note_sync.WHY_ROOT_REMOVED)
            self._finish_writes()
        finally:
            self._clear()

    def _clear(self) -> None:
        self._pending, self._pending_steps, self._pending_bytes = [], 0, 0
        self._unmoved, self._outdated = [], []
        self._in_flight.clear()

    # Matching files

    def _apply_files(self, found: ScanChanges) -> None:
        contents: dict[str, FileContent] = {}
        cached = 0
        if found.gone or self._catalogue.counts(found.root.id)[0] > 0 or self._catalogue.has_missing():
            now: list[NewFile] = []
            for seen in found.changed:
                content = self._read(found, seen.path)
                if content is not None:
                    now.append(NewFile(found.root.id, seen.path, content.seen.inode, content.hash))
                    if cached + len(content.data) <= CACHED_BYTES_MAX:
                        contents[seen.path] = content
                        cached += len(content.data)
                if self._is_stopping():
                    return
            ids, gone = self._match(found, now)
            if self._is_stopping():  # it may not have looked into every file
                return
        else:
            ids, gone = {}, []
        for known in gone:
            self._add_gone(known, note_sync.WHY_FILE_GONE)
        for seen in found.changed:
            if self._is_stopping():
                return
            content = contents.pop(seen.path, None) or self._read(found, seen.path)
            if content is not None:
                self._add_read(found, content, ids.get(seen.path))

    def _match(self, found: ScanChanges, now: Sequence[NewFile]) -> tuple[dict[str, str], list[KnownFile]]:
        """The id of each changed file that is a known one, by path; and the known files that are really gone."""
        root = found.root.id
        vacated: dict[str, KnownFile] = {file.id: file for file in found.gone}
        came: list[NewFile] = []
        same: dict[str, str] = {}
        for file in now:
            at = self._catalogue.at(root, file.path)
            if at is not None and at.hash == file.hash:
                same[file.path] = at.id
                continue
            came.append(file)
            if at is not None:
                vacated[at.id] = at
            for missing in self._catalogue.missing_like(root, file.path, file.hash):
                vacated[missing.id] = missing
        before = [known.before() for known in vacated.values()]
        matched = match_files(before, came, lambda b, n: self._share_text(found, b, n))
        ids = {file.path: file_id for file, file_id in zip(came, matched, strict=True) if file_id is not None}
        gone = [known for known in vacated.values() if not known.missing and known.id not in set(ids.values())]
        return ids | same, gone

    def _share_text(self, found: ScanChanges, before: PreviousFile, now: NewFile) -> bool:
        content = self._read(found, now.path)
        if content is None:
            return False
        try:
            reading = parse_note(content, found.root, before.id, self._is_stopping)
        except (UnreadableNote, ReadInterruption):
            return False
        hashes = {chunk.hash for chunk in reading.chunks}
        with self._store.snapshot() as snapshot:
            file = snapshot.note(before.id)
        return file is not None and any(ref.hash in hashes for ref in file.chunks)

    def _read(self, found: ScanChanges, path: str) -> FileContent | None:
        """The file; None where it is gone, which the next scan will find, or cannot be read, which is reported."""
        try:
            content = found.folder.read(path, self.file_bytes_max)
        except FileNotFoundError:
            return None
        except UnreadableNote as error:
            self._on_skipped(found.root, path, str(error), None)
            return None
        return content

    # Planning

    def _add_read(self, found: ScanChanges, content: FileContent, file_id: str | None) -> None:
        path = content.seen.path
        before = self._note(file_id) if file_id is not None else None
        if before is not None and _says_the_same(before, content, found.root):
            self._on_skipped(found.root, path, None, None)
            self._unmoved.append((before, content.seen))
            self._send_unmoved(MEMORIES_A_TURN)
            self._to_link.add(before.id)
            return
        try:
            new_id = before.id if before is not None else self._store.new_id()
            reading = parse_note(content, found.root, new_id, self._is_stopping)
        except ReadInterruption:
            return
        except UnreadableNote as error:
            self._on_skipped(found.root, path, str(error), content.seen)
            return
        self._on_skipped(found.root, path, why_skipped(reading), content.seen)
        self._add(note_sync.plan_note(reading, before, self._texts(before)), len(content.data))

    def _add_gone(self, known: KnownFile, why: str) -> None:
        file = self._note(known.id)
        if file is not None:
            self._add(note_sync.plan_missing_note(file, why), 0)

    def _note(self, file_id: str) -> NoteFile | None:
        with self._store.snapshot() as snapshot:
            return snapshot.note(file_id)

    def _texts(self, file: NoteFile | None) -> dict[str, ChunkText]:
        """The texts of a file's chunks as they are remembered."""
        if file is None:
            return {}
        texts: dict[str, ChunkText] = {}
        for some in batched(file.chunks, 1000):
            with self._store.snapshot() as snapshot:
                for ref in some:
                    memory = snapshot.memory(ref.memory)
                    if memory is not None:
                        headings = memory.note.headings if memory.note is not None else ()
                        texts[ref.memory] = ChunkText(ref.hash, headings, memory.content)
        return texts

    # Write turns

    def _add(self, plan: NotePlan, size: int) -> None:
        """Write the plan: a small one with others in one turn, a long one at once in several."""
        if not note_sync.fits_one_turn(plan):
            self._send_long(plan)
            return
        steps = max(1, len(plan.steps))
        if self._pending_steps + steps > MEMORIES_A_TURN or self._pending_bytes + size > PENDING_BYTES_MAX:
            self._send_pending()
        self._pending.append(plan)
        self._pending_steps += steps
        self._pending_bytes += size

    def _send_pending(self) -> None:
        plans, self._pending, self._pending_steps, self._pending_bytes = self._pending, [], 0, 0
        if not plans:
            return
        new_id = self._store.new_id

        def decide(snapshot: Snapshot) -> WriteResult[WriteOutcome]:
            changes: list[Change] = []
            sent, needs_backfill = WriteOutcome([], []), False
            for plan in plans:
                if snapshot.note(plan.reading.file.id) != plan.before:
                    sent.outdated.append(plan)
                    continue
                decided = note_sync.decide_note_changes(plan, NotePlanProgress(), snapshot, snapshot.now, new_id)
                changes += decided.changes
                sent.written.append(decided.file)
                needs_backfill |= decided.needs_backfill
            if needs_backfill:
                changes += write_plan.start_backfill(snapshot)
            return WriteResult(changes, sent, "notes")

        self._send(decide)

    def _send_long(self, plan: NotePlan) -> None:
        """Write one long file in slices of one group, each of which begins where the one before it ended."""
        self._send_pending()
        group = self._store.new_id()
        progress: NotePlanProgress | None = NotePlanProgress()
        before = plan.before
        new_id = self._store.new_id
        while progress is not None and not self._is_stopping():

            def decide(
                snapshot: Snapshot, begin: NotePlanProgress = progress, before: NoteFile | None = before
            ) -> WriteResult[NoteChanges | None]:
                if snapshot.note(plan.reading.file.id) != before:
                    return WriteResult((), None, "notes", group)
                decided = note_sync.decide_note_changes(plan, begin, snapshot, snapshot.now, new_id)
                begun = write_plan.start_backfill(snapshot) if decided.needs_backfill else ()
                return WriteResult([*decided.changes, *begun], decided, "notes", group)

            decided = self._transact(decide).result().result
            if decided is None:
                self._outdated.append(plan)
                return
            progress, before = decided.progress, decided.file
        if progress is None and before is not None:
            self._written([before])

    def _send_unmoved(self, at_least: int) -> None:
        """Write the manifests of files that only moved, once there are enough of them."""
        if len(self._unmoved) < at_least:
            return
        unmoved, self._unmoved = self._unmoved, []

        def decide(snapshot: Snapshot) -> WriteResult[WriteOutcome]:
            files = []
            for before, seen in unmoved:
                now = snapshot.note(before.id)
                if now is not None and (now.hash, now.missing) == (before.hash, before.missing):
                    files.append(with_new_place(now, seen))
            return WriteResult([PutNote(data=file) for file in files], WriteOutcome(files, []), "notes")

        self._send(decide)

    def _send(self, decide: Callable[[Snapshot], WriteResult[WriteOutcome]]) -> None:
        while len(self._in_flight) >= WRITES_AHEAD:
            self._wait_for_next()
        self._in_flight.append(self._transact(decide))

    def _transact(self, decide: Callable[[Snapshot], WriteResult[T]]) -> "Future[WriteReceipt[T]]":
        return retry_while_full(
            lambda: self._store.transact(decide, by=BY_NOTES.name, background=True), self._pause.wait
        )

    def _wait_for_next(self) -> None:
        """Wait for the oldest write turn."""
        sent = self._in_flight.popleft().result().result
        self._written(sent.written)
        self._outdated += sent.outdated

    def _finish_writes(self) -> None:
        while True:
            self._send_pending()
            self._send_unmoved(1)
            while self._in_flight:
                self._wait_for_next()
            if not self._outdated or self._is_stopping():
                return
            outdated, self._outdated = self._outdated, []
            for plan in outdated:
                file = self._note(plan.reading.file.id)
                if not plan.reading.file.missing:
                    size = sum(len(chunk.text) for chunk in plan.reading.chunks)
                    self._add(note_sync.plan_note(plan.reading, file, self._texts(file)), size)
                elif file is not None:
                    self._add(note_sync.plan_missing_note(file, plan.why), 0)

    def _written(self, files: Sequence[NoteFile]) -> None:
        for file in files:
            before = self._catalogue.get(file.id)
            self._catalogue.put(file)
            first = file.chunks[0].memory if file.chunks and not file.missing else ""
            if file.links or (before is not None and before.links):
                self._to_link.add(file.id)
            if before is None or before.missing != file.missing or before.first != first or before.path != file.path:
                self._to_link |= self._catalogue.files_linking_to(file.path)
                if before is not None:
                    self._to_link |= self._catalogue.files_linking_to(before.path)

    # Links

    def _apply_links(self) -> None:
        """The edges of the files whose links, or whose links' targets, have changed."""
        changes: list[Change] = []
        for file_id in sorted(self._to_link):
            if self._is_stopping():
                return
            known = self._catalogue.get(file_id)
            if known is not None and not known.missing:
                changes += self._link_changes(known)
            if len(changes) >= EDGES_PER_WRITE:
                self._send_edges(changes)
                changes = []
        self._send_edges(changes)

    def _send_edges(self, changes: list[Change]) -> None:
        for some in batched(changes, EDGES_PER_WRITE):
            turn: WriteResult[None] = WriteResult(some, None, "notes")
            self._transact(lambda snapshot, turn=turn: turn).result()  # type: ignore[misc]

    def _link_changes(self, known: KnownFile) -> Iterator[Change]:
        """The changes that turn the links of a file's chunks into edges: each to the first chunk of its target."""
        with self._store.snapshot() as snapshot:
            file = snapshot.note(known.id)
        if file is None:
            return
        for some in batched(file.chunks, 500):
            with self._store.snapshot() as snapshot:
                for ref in some:
                    memory = snapshot.memory(ref.memory)
                    if memory is None or memory.state == "trashed":
                        continue
                    targets = (self._catalogue.link_target(known, link) for link in links_in(memory.content))
                    wanted = {first for target in targets if target is not None and (first := _first(snapshot, target))}
                    for edge in snapshot.edges(ref.memory):
                        if edge.source != ref.memory or edge.via != "link":
                            continue
                        if edge.target in wanted:
                            wanted.discard(edge.target)
                        else:
                            yield DropEdge(source=edge.source, target=edge.target, relation=edge.relation)
                    for first in sorted(wanted):
                        edge = Edge(source=ref.memory, target=first, relation="related", at=snapshot.now, via="link")
                        yield PutEdge(data=edge)


def _first(snapshot: Snapshot, target: KnownFile) -> str:
    """The memory of a file's first chunk, "" where none is left: the catalogue is not updated by erasures."""
    file = snapshot.note(target.id)
    return file.chunks[0].memory if file is not None and file.chunks else ""


def _says_the_same(before: NoteFile, content: FileContent, root: NoteRoot) -> bool:
    """True if nothing but the place of the file has changed. Another name may be another title, and the path of a file
    of one passage is perhaps its text."""
    named_alike = before.path == content.seen.path or (
        len(before.chunks) > 1 and before.path.rpartition("/")[2] == content.seen.path.rpartition("/")[2]
    )
    is_same_text = before.hash == content.hash and before.reader == READER
    return named_alike and is_same_text and not before.missing and before.root == root.id
