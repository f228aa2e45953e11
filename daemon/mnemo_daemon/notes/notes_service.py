"""The watched notes folders: changes are noticed, compared with the store, and written to it. SPEC 6

One thread does all the work. It learns of changes in two ways: a watch marks paths to look at, and a scan compares the
whole folder at the start, after lost events, when a missing folder returns, and now and then. A folder that cannot be
watched is scanned every few seconds instead. While a folder is missing its memories stay as they are: an unplugged disk
is not a mass deletion.
"""

import contextlib
import heapq
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path

from mnemo_client.protocol.status import NotesRootStatus, NotesStatus, SkippedFile
from mnemo_core.documents.folder_files import machine_made, reading_order
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.history_names import BY_NOTES
from mnemo_daemon.notes.folder_scan import EXCLUDED_NAMES, WITHOUT_PASSAGE, FileStat, Folder, FolderListing
from mnemo_daemon.notes.folder_watch import SETTLE_SECONDS_MAX, CannotWatch, Watch, WatchedRoot
from mnemo_daemon.notes.note_catalogue import KnownFile, NoteCatalogue
from mnemo_daemon.notes.note_writer import NoteWriter, ScanChanges
from mnemo_daemon.notes.pdf_reader import EXTRA_MISSING
from mnemo_daemon.settings import NotesSettings
from mnemo_daemon.table_walk import records_of
from mnemo_daemon.thread_supervision import ThreadSupervisor, complete_future
from mnemo_store.errors import ClosedStoreError
from mnemo_store.records import DropRoot, NoteRoot, PutRoot
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import NOTES

PRESENCE_SECONDS = 1.0  # between two looks whether the folders are there
RETRY_SECONDS = 2.0  # after an error; doubles up to RETRY_SECONDS_MAX
RETRY_SECONDS_MAX = 60.0
WATCH_AGAIN_SECONDS = 600.0  # before a folder that could not be watched is tried again
BURST = 1_000  # after as many changed paths at once a scan looks for events that were lost
SLICE_FILES = 200  # of a first look at a folder: between two slices what was saved meanwhile has its turn
SLICE_BYTES = 4 << 20
FIRST_PASSAGES_MAX = 1_000  # of a person's files in a new folder, whose vectors come before what waits already
SAVED_MAX = 20  # paths changed at once by somebody who saves; more is a program's work, and takes its turn
SAVED_PASSAGES_MAX = 200
SKIPPED_SHOWN_MAX = 100
REASONS_SHOWN_MAX = 50

log = logging.getLogger("mnemo.notes")


class NotesService:
    """Call `start` once and `stop` at the end; the rest is safe in any thread."""

    def __init__(
        self, store: Store, settings: NotesSettings, *, clock: Callable[[], float] = time.monotonic,
        on_error: Callable[[Exception], None] = lambda _: None, on_saved: Callable[[list[str]], None] = lambda _: None,
        make_watch: Callable[[Path, Callable[[list[str]], None], Callable[[], None]], Watch] = Watch,
    ) -> None:  # fmt: skip
        """The folders are read from the store, and none is scanned before `start`. `clock` is in seconds and never goes
        back. `on_saved` is called with the ids of the passages of a file that a person has just saved."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._make_watch = make_watch
        self._on_error = on_error
        self._on_saved = on_saved
        self._catalogue = NoteCatalogue()
        self._writer = NoteWriter(
            store, self._catalogue, settings.file_mib_max << 20, self._is_interrupted, self._note_skipped
        )
        self._wake = threading.Condition()
        with store.snapshot() as snapshot:
            self._roots = {root.id: WatchedRoot(root) for root in snapshot.roots()}
        self._commands: deque[tuple[Callable[[], list[str]], Future[list[str]]]] = deque()
        self.supervisor = ThreadSupervisor(
            "mnemo-notes", self._work_until_stopped, on_failure=self._recover, pause_seconds=0.0
        )
        self._is_started = False
        self._is_stopping = False
        self._is_unsure = False  # what became of a write, and so which folders there are
        self._is_busy = True  # until the worker first waits
        self._retry_seconds = 0.0
        self._retry_at = 0.0
        self._presence_at = 0.0
        self._settling: WatchedRoot | None = None

    def start(self) -> None:
        """Start the worker; returns at once."""
        self._is_started = True
        self.supervisor.start()

    def stop(self) -> None:
        """End the watches and the worker; the store finishes the writes that were sent."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify_all()
        self.supervisor.stop()
        for root in self._roots.values():
            root.stop_watch()

    # Requests

    def root_paths(self) -> dict[str, str]:
        """The folders by the ids of their roots."""
        return {root_id: root.record.path for root_id, root in list(self._roots.items())}

    def find_file(self, path: str) -> str | None:
        """The id of the note at an absolute path, None if no watched folder is known to have it. No file is opened."""
        for root in self._roots.copy().values():
            folder = root.record.path.rstrip("/") + "/"
            if path.startswith(folder) and (file_id := self._catalogue.id_at(root.record.id, path[len(folder) :])):
                return file_id
        return None

    def add_root(self, path: str, namespace: str = "default") -> NoteRoot:
        """Watch a folder from now on. Raises a Refusal that says what is wrong with it."""
        try:
            folder = Path(path).expanduser().resolve(strict=True)
            folder.as_posix().encode()
        except (OSError, RuntimeError):
            raise Refusal(404, "not_found", f"there is no folder {path}", field="path") from None
        except ValueError:
            raise bad_value("the folder's path is not UTF-8", "path") from None
        if not folder.is_dir():
            raise bad_value(f"{folder} is not a folder; give the folder the notes are in", "path")
        data = self._store.folder.resolve()
        if folder == data or data in folder.parents:
            raise bad_value(f"{folder} is mnemo's own data folder", "path")
        for root in list(self._roots.values()):
            if folder == root.path:
                raise Refusal(409, "conflict", f"{folder} is watched already", field="path")
            if folder in root.path.parents or root.path in folder.parents:
                raise Refusal(409, "conflict", f"{folder} overlaps with {root.path}, which is watched", field="path")
        try:
            with os.scandir(folder) as entries:
                next(entries, None)
        except OSError as error:
            raise bad_value(f"{folder} cannot be read: {error.strerror}", "path") from None
        record = NoteRoot(id=self._store.new_id(), path=str(folder), added_at=self._store.now(), namespace=namespace)
        try:
            self._store.transact(
                lambda snapshot: WriteResult((PutRoot(data=record),), None, "notes add"), by=BY_NOTES.name
            ).result()
        except Exception:
            self._mark_writes_unsure()
            raise
        with self._wake:
            self._roots.setdefault(record.id, WatchedRoot(record))
            self._wake.notify_all()
        return record

    def remove_root(self, which: str) -> list[str]:
        """Stop watching a folder (its id or path), move its memories to the trash, return their ids. Raises a Refusal.
        Where the store fails on the way, the folder stays watched, or its memories are moved later."""
        root = self._find_root(which)
        if not root.is_cut_short:
            root.is_removed = True
            record = root.record
            try:
                self._store.transact(
                    lambda snapshot: WriteResult((DropRoot(id=record.id),), None, "notes rm"), by=BY_NOTES.name
                ).result()
            except Exception:
                root.is_removed = False
                self._mark_writes_unsure()
                raise
        root.is_cut_short = False
        try:
            if not self._is_started:
                self._load()
                return self._trash_root(root)
            future: Future[list[str]] = Future()
            with self._wake:
                if self._is_stopping:
                    raise ClosedStoreError("the daemon is shutting down")
                self._commands.append((lambda: self._trash_root(root), future))
                self._wake.notify_all()
            return future.result()
        except Exception:
            root.is_cut_short = True
            self._mark_writes_unsure()
            raise

    def rescan(self) -> None:
        """Compare every folder again, soon."""
        with self._wake:
            for root in self._roots.values():
                root.scan_due = 0.0
            self._retry_at = 0.0
            self._wake.notify_all()

    def reconfigure(self, settings: NotesSettings) -> None:
        """Use other settings from now on, and scan every folder."""
        self._settings = settings
        self._writer.file_bytes_max = settings.file_mib_max << 20
        self.rescan()

    def is_first_scan_running(self) -> bool:
        """True if a folder is still being compared for the first time since the start: what is in it may be unknown."""
        roots = list(self._roots.values())
        return any(root.last_scan_at is None and root.state == "scanning" and not root.is_removed for root in roots)

    def wait_until_settled(self, timeout: float) -> bool:
        """Wait until all changes noticed so far are written; False when that takes too long."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._is_busy and self._is_quiet(), timeout)

    def status(self) -> NotesStatus:
        """The folders, their files, and what was skipped and why."""
        roots: list[NotesRootStatus] = []
        # Files that could be notes come first, those excluded by a rule last, others mixed by reason in between
        passed: list[tuple[int, int, str, str]] = []
        reasons: Counter[str] = Counter()
        for root in list(self._roots.values()):
            roots.append(root.status(*self._catalogue.counts(root.record.id)))
            skipped = [(0, path, why) for path, (why, _) in list(root.skipped.items())]
            skipped += [(1 + (why == EXCLUDED_NAMES), path, why) for path, why in root.others.items()]
            without = set(self._catalogue.without_chunks(root.record.id)) - {path for _, path, _ in skipped}
            skipped += [(1, path, WITHOUT_PASSAGE) for path in without]
            for order, path, why in skipped:
                passed.append((order, reasons[why] if order else 0, f"{root.record.path}/{path}", why))
                reasons[why] += 1
            reasons.update(root.uncounted)
        left_out = reasons.pop(EXCLUDED_NAMES, 0)
        shown = [SkippedFile(path=path, reason=why) for *_, path, why in heapq.nsmallest(SKIPPED_SHOWN_MAX, passed)]
        return NotesStatus(
            roots=roots, skipped=shown, skipped_total=reasons.total(), left_out=left_out,
            skipped_by_reason=dict(reasons.most_common(REASONS_SHOWN_MAX)),
        )  # fmt: skip

    # Roots

    def _find_root(self, which: str) -> WatchedRoot:
        for root in list(self._roots.values()):
            names = (root.record.id, root.record.path, str(Path(which).expanduser().absolute()))
            if (root.is_cut_short or not root.is_removed) and (which in names[:2] or names[2] == root.record.path):
                return root
        raise Refusal(404, "not_found", f"no watched folder is called {which}; `mnemo notes status` lists them")

    def _trash_root(self, root: WatchedRoot) -> list[str]:
        """On the worker: move the memories of a removed folder to the trash; return their ids."""
        root.stop_watch()
        files = self._catalogue.under(root.record.id, "")
        ids: list[str] = []
        for file in files:
            with self._store.snapshot() as snapshot:
                note = snapshot.note(file.id)
            ids += [ref.memory for ref in note.chunks] if note is not None else []
        self._writer.trash_files(files)
        with self._wake:
            self._roots.pop(root.record.id, None)
        return ids

    def _mark_writes_unsure(self) -> None:
        """A write failed: the worker finds out whether it was done all the same."""
        with self._wake:
            self._is_unsure = True
            self._wake.notify_all()

    # Events of the watches

    def _mark(self, root: WatchedRoot, paths: list[str]) -> None:
        with self._wake:
            if root.mark(paths, self._clock(), self._settle_seconds()):
                self._wake.notify_all()

    def _mark_lost(self, root: WatchedRoot) -> None:
        with self._wake:
            root.scan_due = 0.0
            self._wake.notify_all()

    def _note_skipped(self, record: NoteRoot, path: str, why: str | None, seen: FileStat | None) -> None:
        if (root := self._roots.get(record.id)) is not None:
            root.note_skipped(path, why, seen)

    # The worker

    def _work_until_stopped(self) -> None:
        is_loaded = False
        with contextlib.suppress(ClosedStoreError):
            while self._wait_for_work():
                if not is_loaded:
                    self._load()
                    is_loaded = True
                # Do what is due.
                while self._commands:
                    command, future = self._commands.popleft()
                    complete_future(future, command)
                if self._is_unsure:
                    self._confirm_writes()
                    self._follow_roots()
                now = self._clock()
                looks = now >= self._presence_at
                if looks:
                    self._presence_at = now + PRESENCE_SECONDS
                for root in list(self._roots.values()):
                    if root.is_removed or self._is_stopping:
                        continue
                    if looks:
                        self._check_presence(root)
                    self._settling = root
                    try:
                        if root.scan_due <= now:
                            self._scan(root)
                        elif root.dirty and root.dirty_due(self._settle_seconds()) <= now:
                            self._settle_dirty(root)
                    finally:
                        self._settling = None
                self._retry_seconds = 0.0
                self.supervisor.note_success()

    def _recover(self, error: Exception) -> None:
        """Answer everyone who waits; the folders are compared again after a pause that still takes commands."""
        self._is_unsure = True
        self._on_error(error)
        while self._commands:
            self._commands.popleft()[1].set_exception(error)
        self._retry_seconds = min(max(self._retry_seconds * 2, RETRY_SECONDS), RETRY_SECONDS_MAX)
        self._retry_at = self._clock() + self._retry_seconds
        for root in list(self._roots.values()):
            root.scan_due = 0.0

    def _load(self) -> None:
        """Fill the catalogue from the store, and finish removals that a crash interrupted."""
        is_unsure = self._is_unsure
        if is_unsure:
            self._confirm_writes()
        for file in records_of(self._store, NOTES):
            self._catalogue.put(file)
        if is_unsure:
            self._follow_roots()
        orphans = self._catalogue.orphans(self._roots)
        self._writer.trash_files(orphans)

    def _confirm_writes(self) -> None:
        """Return once the outcome of all earlier writes is known: an empty write turn waits for that. Otherwise a note
        that is in the store after all could be taken for a new one."""
        self._is_unsure = False
        self._store.transact(
            lambda snapshot: WriteResult((), None, "notes"), by=BY_NOTES.name, background=True, frees=True
        ).result()

    def _follow_roots(self) -> None:
        """Watch the folders that the store has, and remove those that it no longer has."""
        with self._store.snapshot() as snapshot:
            records = {record.id: record for record in snapshot.roots()}
        with self._wake:
            for record in records.values():
                self._roots.setdefault(record.id, WatchedRoot(record))
        for root in list(self._roots.values()):
            if root.is_cut_short or (not root.is_removed and root.record.id not in records):
                root.is_removed = root.is_cut_short = True
                self._trash_root(root)

    def _wait_for_work(self) -> bool:
        """Return True when something is due, False when stopping."""
        with self._wake:
            while not self._is_stopping:
                pause = self._pause()
                if pause <= 0:
                    self._is_busy = True
                    return True
                self._is_busy = False
                self._wake.notify_all()
                self._wake.wait(pause)
            return False

    def _pause(self) -> float:
        """Seconds until something is due."""
        now = self._clock()
        if self._commands:
            return 0.0
        if now < self._retry_at:
            return self._retry_at - now
        if self._is_unsure:
            return 0.0
        pauses = [self._presence_at - now]
        for root in self._roots.values():
            if root.is_removed:
                continue
            pauses.append(root.scan_due - now)
            if root.dirty:
                pauses.append(root.dirty_due(self._settle_seconds()) - now)
        return min(pauses)

    def _is_quiet(self) -> bool:
        now = self._clock()
        return not self._commands and not any(root.dirty or root.scan_due <= now for root in self._roots.values())

    def _settle_seconds(self) -> float:
        return self._settings.settle_ms / 1000

    def _is_interrupted(self) -> bool:
        """True if the scan under way must stop for a command; the next scan continues from there."""
        return self._is_stopping or (self._settling is not None and bool(self._commands or self._settling.is_removed))

    # Scans

    def _check_presence(self, root: WatchedRoot) -> None:
        """Notice that a folder vanished, returned, was replaced or can be read again, or that its watch has ended."""
        folder = self._open(root)
        if folder is None:
            return
        folder.close()
        poll_at = (root.last_scan_at or 0) + 1000 * self._settings.poll_seconds
        if root.state == "missing" or root.identity not in (None, folder.identity):
            root.scan_due = 0.0
        elif (root.watch and not root.watch.is_alive()) or (self._store.now() >= poll_at and root.is_readable_again()):
            root.stop_watch()  # what it could not read it does not watch either
            root.scan_due = 0.0

    def _set_missing(self, root: WatchedRoot, reason: str) -> None:
        root.stop_watch()  # outside of the lock, for which a thread of the watch may be waiting
        with self._wake:
            root.set_missing(reason)

    def _open(self, root: WatchedRoot) -> Folder | None:
        try:
            data = self._store.folder.resolve()
            excluded = data.relative_to(root.path).as_posix() if root.path in data.parents else ""
            return Folder(root.path, excluded)
        except OSError as error:
            self._set_missing(root, f"the folder cannot be opened: {error.strerror}")
            return None

    def _scan(self, root: WatchedRoot) -> None:
        """Compare the whole folder with the manifests, and write what differs."""
        began = self._clock()
        with self._wake:
            root.dirty.clear()
            root.scan_due = began + self._settings.rescan_minutes * 60
        folder = self._open(root)
        if folder is None:
            return
        try:
            walked = folder.walk(is_stopping=self._is_interrupted)
            known = self._catalogue.under(root.record.id, "")
            is_empty = not walked.files and EXTRA_MISSING not in walked.skipped.values()
            if is_empty and known and folder.identity != root.identity and not self._is_interrupted():
                self._set_missing(root, "the folder is there, but no note is in it (is its disk mounted?)")
                return
            if folder.identity != root.identity:
                root.stop_watch()
                root.identity = folder.identity
            if root.watch is None:
                self._keep_watch(root)
                walked = folder.walk(is_stopping=self._is_interrupted)  # what changed before the watch began
            else:
                self._keep_watch(root)
            kept = {path: skipped for path, skipped in root.skipped.items() if path in walked.files and skipped[1]}
            root.skipped, root.others, root.uncounted = kept, walked.others, walked.uncounted
            self._settle(root, folder, walked, known)
        finally:
            folder.close()
        if self._is_interrupted():
            root.scan_due = 0.0
            return
        root.last_scan_at = self._store.now()
        if root.watch is None:
            with self._wake:
                pause = max(float(self._settings.poll_seconds), 20 * (self._clock() - began))
                root.scan_due = min(root.scan_due, self._clock() + pause)
        root.state = "watching" if root.watch is not None else "polling"

    def _keep_watch(self, root: WatchedRoot) -> None:
        """Start the watch, or record why there is none: then the folder is scanned every few seconds."""
        now = self._clock()
        if root.watch is None and now < root.watch_again_at:
            return
        try:
            if root.watch is None:
                root.watch = self._make_watch(
                    root.path, lambda paths: self._mark(root, paths), lambda: self._mark_lost(root)
                )
            root.watch.check()
            root.reason = None
        except CannotWatch as error:
            log.warning("notes folder %s: %s; it is scanned every few seconds instead", root.path, error)
            root.reason = f"{error}; scanned every {self._settings.poll_seconds} s instead"
            root.watch_again_at = now + WATCH_AGAIN_SECONDS
            root.stop_watch()

    def _settle_dirty(self, root: WatchedRoot) -> None:
        """Read the paths that the watch marked, and write what differs."""
        with self._wake:
            paths, root.dirty = root.dirty, set()
        if len(paths) >= BURST:
            with self._wake:
                root.scan_due = min(root.scan_due, self._clock() + SETTLE_SECONDS_MAX)
        folder = self._open(root)
        if folder is None:
            return
        try:
            if folder.identity != root.identity:
                root.scan_due = 0.0
                return
            self._settle(root, folder, *self._walk_paths(root, folder, paths), marked=True)
        finally:
            folder.close()
        if len(paths) <= SAVED_MAX:
            # Report the passages of files that a person has just saved, to be embedded before the backlog.
            self._prioritise(root, paths)
        if self._is_interrupted():
            root.scan_due = 0.0

    def _prioritise(self, root: WatchedRoot, paths: Iterable[str]) -> int:
        """Have the passages of these files found by meaning before what waits; return their number."""
        ids: list[str] = []
        for path in paths:
            known = self._catalogue.at(root.record.id, path)
            if known is not None and known.chunks <= SAVED_PASSAGES_MAX:
                with self._store.snapshot() as snapshot:
                    note = snapshot.note(known.id)
                ids += [ref.memory for ref in note.chunks] if note is not None else []
        if ids:
            self._on_saved(ids)
        return len(ids)

    def _walk_paths(self, root: WatchedRoot, folder: Folder, paths: set[str]) -> tuple[FolderListing, list[KnownFile]]:
        """The files at and below the paths, and those known to have been there."""
        found = FolderListing.nothing()
        known: dict[str, KnownFile] = {}
        for path in sorted(paths):
            seen = folder.look(path)
            at = self._catalogue.at(root.record.id, path)
            if at is not None:
                known[at.id] = at
            elif seen is None or seen.size < 0:
                known.update((file.id, file) for file in self._catalogue.under(root.record.id, path))
            if seen is not None and seen.size < 0:
                below = folder.walk(path, self._is_interrupted)
                found.files.update(below.files)
                found.skipped.update(below.skipped)
                found.unlisted.extend(below.unlisted)
            elif seen is not None:
                found.files[path] = seen
        return found, list(known.values())

    def _moved_from(self, seen: FileStat) -> Iterator[KnownFile]:
        """Known files of any root that a new one may have been before it moved: of the same inode, and gone from their
        place, though no event may have said so yet."""
        for root in list(self._roots.values()):
            before = self._catalogue.by_inode(root.record.id, seen.inode)
            if before is not None and root.path.exists() and not os.path.lexists(root.path / before.path):
                yield before

    def _settle(
        self, root: WatchedRoot, folder: Folder, walked: FolderListing, known: list[KnownFile], *, marked: bool = False
    ) -> None:
        """Write the differences between the files found and the manifests of the same places (`known`). Files that a
        watch marked are read whatever their times are: two saves can fall into one tick of the clock."""
        changed = [
            seen
            for seen in walked.files.values()
            if marked or root.is_changed(seen, self._catalogue.at(root.record.id, seen.path))
        ]
        for seen in changed:
            if self._catalogue.at(root.record.id, seen.path) is None:
                known.extend(self._moved_from(seen))
        gone = [] if self._is_interrupted() else root.missing_files(walked, known)
        for path, why in walked.skipped.items():
            self._note_skipped(root.record, path, why, None)
        for file in gone:
            root.skipped.pop(file.path, None)
        waiting, root.waiting = root.waiting, root.waiting + len(changed)
        try:
            if marked or known or gone or self._catalogue.has_missing():
                self._writer.apply(ScanChanges(root.record, folder, changed, gone))
            else:
                self._settle_in_slices(root, folder, changed)
        finally:
            root.waiting = waiting if marked else 0

    def _settle_in_slices(self, root: WatchedRoot, folder: Folder, changed: list[FileStat]) -> None:
        """Read a folder of which nothing is known, in the order of `reading_order`, and between the slices the files
        that are saved meanwhile."""
        made = machine_made(changed)
        some: list[FileStat] = []
        size = prioritised = 0
        for seen in reading_order(changed, made):
            some.append(seen)
            size += seen.size
            if len(some) >= SLICE_FILES or size >= SLICE_BYTES:
                self._writer.apply(ScanChanges(root.record, folder, some, []))
                if prioritised < FIRST_PASSAGES_MAX:
                    prioritised += self._prioritise(root, [each.path for each in some if each.path not in made])
                some, size = [], 0
                if self._is_interrupted():
                    return
                for other in list(self._roots.values()):
                    if other.dirty and other.scan_due > 0 and not other.is_removed:
                        self._settle_dirty(other)
        self._writer.apply(ScanChanges(root.record, folder, some, []))
        if prioritised < FIRST_PASSAGES_MAX:
            self._prioritise(root, [each.path for each in some if each.path not in made])
