"""The notes folders: watched, compared with what is remembered of them, and remembered. SPEC 6

One thread does all the work. What changed in a folder is learnt in two ways: a watch marks paths to look at, and a
scan compares the whole folder at the start, after lost events, when a vanished folder returns, and now and then. A
folder that cannot be watched is scanned every few seconds instead. While a folder is missing nothing of it is
touched: an unplugged disk is not a mass deletion.
"""

import contextlib
import heapq
import logging
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

from mnemo_client.protocol.status import NotesRootStatus, NotesStatus, SkippedFile
from mnemo_core.documents.gitignore import IGNORE_FILE
from mnemo_core.ingest import note_sync
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.history_names import BY_NOTES
from mnemo_daemon.notes.folder_scan import EXCLUDED_NAMES, READER, FileStat, Folder, FolderListing
from mnemo_daemon.notes.folder_watch import CannotWatch, Watch
from mnemo_daemon.notes.note_catalogue import KnownFile, NoteCatalogue
from mnemo_daemon.notes.note_writer import NoteWriter, ScanChanges
from mnemo_daemon.notes.pdf_reader import EXTRA_MISSING
from mnemo_daemon.settings import NotesSettings
from mnemo_daemon.thread_supervision import ThreadSupervisor, complete_future
from mnemo_store.errors import ClosedStoreError
from mnemo_store.records import DropRoot, NoteRoot, PutRoot
from mnemo_store.store import Store, WriteResult

SETTLE_SECONDS_MAX = 1.0  # a path that keeps changing is looked at this often
PRESENCE_SECONDS = 1.0  # between two looks whether the folders are there
RETRY_SECONDS = 2.0  # after an error; doubles up to RETRY_SECONDS_MAX
RETRY_SECONDS_MAX = 60.0
WATCH_AGAIN_SECONDS = 600.0  # before a folder that could not be watched is tried again
DIRTY_MAX = 20_000  # paths waiting in one root; above, the whole root is scanned instead
BURST = 1_000  # after as many changed paths at once a scan looks for events that were lost
SLICE_FILES = 200  # of a first look at a folder: between two slices what was saved meanwhile has its turn
SLICE_BYTES = 4 << 20
SMALL_BYTES = 64 << 10  # files up to this size come before larger ones
SAVED_MAX = 20  # paths changed at once by somebody who saves; more is a program's work, and takes its turn
SAVED_PASSAGES_MAX = 200
SKIPPED_SHOWN_MAX = 100
SKIPPED_KEPT_MAX = 10_000  # of one root
REASONS_SHOWN_MAX = 50

RootState = Literal["watching", "polling", "scanning", "missing", "paused"]

log = logging.getLogger("mnemo.notes")


class _WatchedRoot:
    """A watched folder and what is to be done about it. Guarded by the service's condition where it says so."""

    def __init__(self, record: NoteRoot) -> None:
        self.record = record
        self.path = Path(record.path)
        self.state: RootState = "scanning"
        self.reason: str | None = None
        self.watch: Watch | None = None
        self.identity: tuple[int, int] | None = None  # of the folder as it was last scanned
        self.skipped: dict[str, tuple[str, FileStat | None]] = {}  # path → why, and the file as it was then
        self.others: dict[str, str] = {}  # path → why, of what is no note, as of the last scan
        self.uncounted: Counter[str] = Counter()  # why → how many further ones
        self.watch_again_at = 0.0
        self.last_scan_at: int | None = None
        self.is_removed = False
        self.is_cut_short = False  # removed, and its memories are still to be let go
        # Guarded
        self.dirty: set[str] = set()
        self.first_event = 0.0
        self.last_event = 0.0
        self.scan_due = 0.0  # when, on the service's clock
        self.waiting = 0  # files being settled


class NotesService:
    """Call `start` once and `stop` at the end; the rest is safe in any thread."""

    def __init__(
        self,
        store: Store,
        settings: NotesSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_error: Callable[[Exception], None] = lambda _: None,
        on_saved: Callable[[list[str]], None] = lambda _: None,
        make_watch: Callable[[Path, Callable[[list[str]], None], Callable[[], None]], Watch] = Watch,
    ) -> None:
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
            self._roots = {root.id: _WatchedRoot(root) for root in snapshot.roots()}
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
        self._settling: _WatchedRoot | None = None

    def start(self) -> None:
        """Begins to look; returns at once."""
        self._is_started = True
        self.supervisor.start()

    def stop(self) -> None:
        """Ends the watches and the work; what is on its way to the store is finished by the store."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify_all()
        self.supervisor.stop()
        for root in self._roots.values():
            _stop_watch(root)

    # What callers ask

    def root_paths(self) -> dict[str, str]:
        """The folders by the ids of their roots."""
        return {root_id: root.record.path for root_id, root in list(self._roots.items())}

    def add_root(self, path: str, namespace: str = "default") -> NoteRoot:
        """Watches a folder from now on. Raises a Refusal that says what is wrong with it."""
        folder = self._validated_path(path)
        record = NoteRoot(id=self._store.new_id(), path=str(folder), added_at=self._store.now(), namespace=namespace)
        try:
            self._store.transact(
                lambda snapshot: WriteResult((PutRoot(data=record),), None, "notes add"), by=BY_NOTES
            ).result()
        except Exception:
            self._mark_writes_unsure()
            raise
        with self._wake:
            self._roots.setdefault(record.id, _WatchedRoot(record))
            self._wake.notify_all()
        return record

    def remove_root(self, which: str) -> list[str]:
        """Stops watching a folder (its id or path) and moves its memories to the trash; their ids. Raises a Refusal.

        Where the store fails on the way, the folder is watched still, or its memories are let go later.
        """
        root = self._find_root(which)
        if not root.is_cut_short:
            self._drop_root(root)
        root.is_cut_short = False
        try:
            if not self._is_started:
                self._load()
                return self._trash_root(root)
            return self._command(lambda: self._trash_root(root)).result()
        except Exception:
            root.is_cut_short = True
            self._mark_writes_unsure()
            raise

    def _drop_root(self, root: _WatchedRoot) -> None:
        root.is_removed = True
        record = root.record
        try:
            self._store.transact(
                lambda snapshot: WriteResult((DropRoot(id=record.id),), None, "notes rm"), by=BY_NOTES
            ).result()
        except Exception:
            root.is_removed = False
            self._mark_writes_unsure()
            raise

    def rescan(self) -> None:
        """Has every folder compared anew, soon."""
        with self._wake:
            for root in self._roots.values():
                root.scan_due = 0.0
            self._retry_at = 0.0
            self._wake.notify_all()

    def reconfigure(self, settings: NotesSettings) -> None:
        """Goes by other settings from here on, beginning with a look at every folder."""
        self._settings = settings
        self._writer.file_bytes_max = settings.file_mib_max << 20
        self.rescan()

    def is_first_scan_running(self) -> bool:
        """True if a folder is still being compared for the first time since the start: what is in it may be unknown."""
        roots = list(self._roots.values())
        return any(root.last_scan_at is None and root.state == "scanning" and not root.is_removed for root in roots)

    def wait_until_settled(self, timeout: float) -> bool:
        """Waits until nothing is left to do about what has been noticed so far; False when that takes too long."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._is_busy and self._is_quiet(), timeout)

    def status(self) -> NotesStatus:
        """The folders, their files, and what was skipped and why."""
        roots: list[NotesRootStatus] = []
        # What could be a note first, what a rule leaves out last, in between some of every kind
        passed: list[tuple[int, int, str, str]] = []
        reasons: Counter[str] = Counter()
        for root in list(self._roots.values()):
            files, chunks = self._catalogue.counts(root.record.id)
            roots.append(
                NotesRootStatus(
                    id=root.record.id, path=root.record.path, namespace=root.record.namespace, state=root.state,
                    files=files, chunks=chunks, waiting=len(root.dirty) + root.waiting,
                    last_scan_at=root.last_scan_at, reason=root.reason,
                )
            )  # fmt: skip
            skipped = [(0, path, why) for path, (why, _) in list(root.skipped.items())]
            skipped += [(1 + (why == EXCLUDED_NAMES), path, why) for path, why in root.others.items()]
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

    def _validated_path(self, path: str) -> Path:
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
        return folder

    def _find_root(self, which: str) -> _WatchedRoot:
        for root in list(self._roots.values()):
            names = (root.record.id, root.record.path, str(Path(which).expanduser().absolute()))
            if (root.is_cut_short or not root.is_removed) and (which in names[:2] or names[2] == root.record.path):
                return root
        raise Refusal(404, "not_found", f"no watched folder is called {which}; `mnemo notes status` lists them")

    def _trash_root(self, root: _WatchedRoot) -> list[str]:
        """On the worker: the memories of a removed folder go to the trash. Their ids."""
        _stop_watch(root)
        files = self._catalogue.under(root.record.id, "")
        ids: list[str] = []
        for file in files:
            with self._store.snapshot() as snapshot:
                note = snapshot.note(file.id)
            ids += [ref.memory for ref in note.chunks] if note is not None else []
        self._writer.trash_files(files, note_sync.WHY_ROOT_REMOVED)
        with self._wake:
            self._roots.pop(root.record.id, None)
        return ids

    def _mark_writes_unsure(self) -> None:
        """A write failed: whether it was done all the same is for the worker to find out."""
        with self._wake:
            self._is_unsure = True
            self._wake.notify_all()

    def _command(self, run: Callable[[], list[str]]) -> "Future[list[str]]":
        future: Future[list[str]] = Future()
        with self._wake:
            if self._is_stopping:
                raise ClosedStoreError("the daemon is shutting down")
            self._commands.append((run, future))
            self._wake.notify_all()
        return future

    # What the watches tell

    def _mark(self, root: _WatchedRoot, paths: list[str]) -> None:
        now = self._clock()
        with self._wake:
            if not root.dirty:
                root.first_event = now
                self._wake.notify_all()
            root.last_event = now
            if any(not path or path.endswith(IGNORE_FILE) for path in paths) or len(root.dirty) > DIRTY_MAX:
                root.dirty.clear()
                root.scan_due = min(root.scan_due, now + self._settle_seconds())
                self._wake.notify_all()
            else:
                root.dirty.update(paths)

    def _mark_lost(self, root: _WatchedRoot) -> None:
        with self._wake:
            root.scan_due = 0.0
            self._wake.notify_all()

    def _note_skipped(self, record: NoteRoot, path: str, why: str | None, seen: FileStat | None) -> None:
        root = self._roots.get(record.id)
        if root is None:
            return
        root.waiting = max(0, root.waiting - 1)
        if why is None:
            root.skipped.pop(path, None)
        elif len(root.skipped) < SKIPPED_KEPT_MAX:
            root.skipped[path] = (why, seen)

    # The worker

    def _work_until_stopped(self) -> None:
        is_loaded = False
        with contextlib.suppress(ClosedStoreError):
            while self._wait_for_work():
                if not is_loaded:
                    self._load()
                    is_loaded = True
                self._work()
                self._retry_seconds = 0.0
                self.supervisor.note_success()

    def _recover(self, error: Exception) -> None:
        """Answer everyone who waits; the folders are compared again after a pause that still takes commands."""
        self._is_unsure = True
        self._on_error(error)
        self._refuse_commands(error)
        self._retry_seconds = min(max(self._retry_seconds * 2, RETRY_SECONDS), RETRY_SECONDS_MAX)
        self._retry_at = self._clock() + self._retry_seconds
        for root in list(self._roots.values()):
            root.scan_due = 0.0

    def _load(self) -> None:
        """Fills the catalogue from the store, and finishes what a crash left of a folder's removal."""
        is_unsure = self._is_unsure
        if is_unsure:
            self._confirm_writes()
        after = ""
        while True:
            with self._store.snapshot() as snapshot:
                files = snapshot.notes(after, 500)
            for file in files:
                self._catalogue.put(file)
            if len(files) < 500:
                break
            after = files[-1].id
        if is_unsure:
            self._follow_roots()
        orphans = self._catalogue.orphans(self._roots)
        self._writer.trash_files(orphans, note_sync.WHY_ROOT_REMOVED)

    def _confirm_writes(self) -> None:
        """Returns once it is settled what became of the writes before: an empty turn waits for that. Else a note that
        is in the store after all could be taken for a new one."""
        self._is_unsure = False
        self._store.transact(
            lambda snapshot: WriteResult((), None, "notes"), by=BY_NOTES, background=True, frees=True
        ).result()

    def _follow_roots(self) -> None:
        """Watches the folders that the store has, and lets go of those that it has no more."""
        with self._store.snapshot() as snapshot:
            records = {record.id: record for record in snapshot.roots()}
        with self._wake:
            for record in records.values():
                self._roots.setdefault(record.id, _WatchedRoot(record))
        for root in list(self._roots.values()):
            if root.is_cut_short or (not root.is_removed and root.record.id not in records):
                root.is_removed = root.is_cut_short = True
                self._trash_root(root)

    def _wait_for_work(self) -> bool:
        """Returns when something is due, or False when stopping."""
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
                pauses.append(self._dirty_due(root) - now)
        return min(pauses)

    def _is_quiet(self) -> bool:
        now = self._clock()
        return not self._commands and not any(root.dirty or root.scan_due <= now for root in self._roots.values())

    def _dirty_due(self, root: _WatchedRoot) -> float:
        return min(root.last_event + self._settle_seconds(), root.first_event + SETTLE_SECONDS_MAX)

    def _settle_seconds(self) -> float:
        return self._settings.settle_ms / 1000

    def _is_interrupted(self) -> bool:
        """True if what is being settled must wait: a command comes first, and the next scan goes on from there."""
        return self._is_stopping or (self._settling is not None and bool(self._commands or self._settling.is_removed))

    def _work(self) -> None:
        """Does what is due."""
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
                elif root.dirty and self._dirty_due(root) <= now:
                    self._settle_dirty(root)
            finally:
                self._settling = None

    def _refuse_commands(self, error: Exception) -> None:
        """Answer everyone who waits, so that nobody waits until the store has recovered."""
        while self._commands:
            self._commands.popleft()[1].set_exception(error)

    # Looking

    def _check_presence(self, root: _WatchedRoot) -> None:
        """Notices that a folder has vanished, returned or been replaced, and that its watch has died."""
        try:
            status = root.path.stat()
        except OSError as error:
            self._set_missing(root, f"the folder is not there: {error.strerror}")
            return
        if root.state == "missing" or (root.identity is not None and (status.st_dev, status.st_ino) != root.identity):
            root.scan_due = 0.0
        elif root.watch is not None and not root.watch.is_alive():
            _stop_watch(root)
            root.scan_due = 0.0

    def _set_missing(self, root: _WatchedRoot, reason: str) -> None:
        if root.state != "missing":
            log.warning("notes folder %s: %s; nothing of it is touched", root.path, reason)
        _stop_watch(root)
        root.state, root.reason = "missing", f"{reason}; its memories are kept as they are"
        with self._wake:
            root.dirty.clear()
            root.scan_due = math.inf  # until it is there again

    def _open(self, root: _WatchedRoot) -> Folder | None:
        try:
            data = self._store.folder.resolve()
            excluded = data.relative_to(root.path).as_posix() if root.path in data.parents else ""
            return Folder(root.path, excluded)
        except OSError as error:
            self._set_missing(root, f"the folder cannot be opened: {error.strerror}")
            return None

    def _scan(self, root: _WatchedRoot) -> None:
        """Compares the whole folder with what is known of it, and settles what differs."""
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
                _stop_watch(root)
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

    def _keep_watch(self, root: _WatchedRoot) -> None:
        """Starts the watch, or finds why there can be none: then the folder is scanned every few seconds."""
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
            _stop_watch(root)

    def _settle_dirty(self, root: _WatchedRoot) -> None:
        """Looks at the paths that the watch marked, and settles what differs."""
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
            self._prioritise_saved(root, paths)
        if self._is_interrupted():
            root.scan_due = 0.0

    def _prioritise_saved(self, root: _WatchedRoot, paths: set[str]) -> None:
        """Has the passages of what somebody has just saved embedded before the backlog."""
        ids: list[str] = []
        for path in paths:
            known = self._catalogue.at(root.record.id, path)
            if known is not None and known.chunks <= SAVED_PASSAGES_MAX:
                with self._store.snapshot() as snapshot:
                    note = snapshot.note(known.id)
                ids += [ref.memory for ref in note.chunks] if note is not None else []
        if ids:
            self._on_saved(ids)

    def _walk_paths(self, root: _WatchedRoot, folder: Folder, paths: set[str]) -> tuple[FolderListing, list[KnownFile]]:
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

    def _is_changed(self, root: _WatchedRoot, seen: FileStat) -> bool:
        """True if a file is not as it was when it was last read or skipped."""
        skipped = root.skipped.get(seen.path)
        if skipped is not None and skipped[1] == seen:
            return False
        at = self._catalogue.at(root.record.id, seen.path)
        if at is None or at.reader != READER:
            return True
        return (at.inode, at.mtime_ns, at.size) != (seen.inode, seen.mtime_ns, seen.size)

    def _moved_from(self, seen: FileStat) -> Iterator[KnownFile]:
        """Files that a new one may have been until now, in whatever root: of the same inode, and gone from their
        place, though no event may have said so yet."""
        for root in list(self._roots.values()):
            before = self._catalogue.by_inode(root.record.id, seen.inode)
            if before is not None and root.path.exists() and not os.path.lexists(root.path / before.path):
                yield before

    def _settle(
        self, root: _WatchedRoot, folder: Folder, walked: FolderListing, known: list[KnownFile], *, marked: bool = False
    ) -> None:
        """Brings the store to what was found; `known` is what the manifests say of the same places.

        Files that a watch marked are read whatever their times say: two saves can fall into one tick of the clock.
        """
        changed = [seen for seen in walked.files.values() if marked or self._is_changed(root, seen)]
        for seen in changed:
            if self._catalogue.at(root.record.id, seen.path) is None:
                known.extend(self._moved_from(seen))
        gone = [] if self._is_interrupted() else _missing_files(root, walked, known)
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

    def _settle_in_slices(self, root: _WatchedRoot, folder: Folder, changed: list[FileStat]) -> None:
        """Reads a folder of which nothing is known: small files before huge ones, among them the newest first, and
        between the slices what is saved meanwhile."""
        changed.sort(key=lambda seen: (max(seen.size, SMALL_BYTES), -seen.mtime_ns))
        some: list[FileStat] = []
        size = 0
        for seen in changed:
            some.append(seen)
            size += seen.size
            if len(some) >= SLICE_FILES or size >= SLICE_BYTES:
                self._writer.apply(ScanChanges(root.record, folder, some, []))
                some, size = [], 0
                if self._is_interrupted():
                    return
                for other in list(self._roots.values()):
                    if other.dirty and other.scan_due > 0 and not other.is_removed:
                        self._settle_dirty(other)
        self._writer.apply(ScanChanges(root.record, folder, some, []))


def _stop_watch(root: _WatchedRoot) -> None:
    if root.watch is not None:
        root.watch.stop()
        root.watch = None


def _missing_files(root: _WatchedRoot, walked: FolderListing, known: list[KnownFile]) -> list[KnownFile]:
    """Of the files known to have been there those that are not: not what only could not be looked at."""
    if "" in walked.unlisted:
        return []
    unknown = tuple(f"{folder}/" for folder in walked.unlisted)
    return [
        file
        for file in {file.id: file for file in known}.values()
        if file.root != root.record.id
        or not (file.path in walked.files or file.path in walked.skipped or file.path.startswith(unknown))
    ]
