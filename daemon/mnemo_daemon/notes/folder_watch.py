"""A watched notes folder: notifications of its changes, its state, and the paths that wait to be read. SPEC 6

An event only says where to look again: every editor saves in its own way, and events get lost. So a watch hands on
paths and nothing else, and the service's scans have the last word.
"""

import errno
import logging
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from mnemo_client.protocol.status import NotesRootStatus
from mnemo_core.documents.folder_files import IGNORE_FILE
from mnemo_core.documents.markup import suffix_of
from mnemo_daemon.notes.folder_scan import READER, FileStat, FolderListing
from mnemo_daemon.notes.note_catalogue import KnownFile
from mnemo_store.records import NoteRoot

# Opening and closing without writing are left out: reading a file would report itself.
_EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileMovedEvent, FileDeletedEvent,
    DirCreatedEvent, DirMovedEvent, DirDeletedEvent,
]  # fmt: skip
_OUT_OF_WATCHES = (errno.ENOSPC, errno.EMFILE, errno.ENFILE)
_OVERFLOW = "overflow"  # in the only sign watchdog gives of lost events: a line of its log

SETTLE_SECONDS_MAX = 1.0  # a path that keeps changing is read this often
DIRTY_MAX = 20_000  # paths waiting in one root; above, the whole root is scanned instead
SKIPPED_KEPT_MAX = 10_000  # of one root
DENIED = os.strerror(errno.EACCES)  # the end of the reason why a file or folder is skipped that may not be read
DENIED_MAX = 100  # of these that are tried again at each look at the folder

RootState = Literal["watching", "polling", "scanning", "missing", "paused"]

log = logging.getLogger("mnemo.notes")


class CannotWatch(Exception):
    """The system cannot watch this folder; the message says why and what would help."""


class Watch:
    """A watch that reports changes below a folder until it is stopped."""

    def __init__(self, root: Path, on_paths: Callable[[list[str]], None], on_lost: Callable[[], None]) -> None:
        """on_paths gets paths relative to the root that may have changed, "" for the root itself; on_lost is called
        when events were lost. Both in a thread of the watch, and neither may block. Raises CannotWatch."""
        self._root = root
        self._handler = _Handler(root, on_paths)
        self._lost = _LostEvents(on_lost)
        self._observer = self._started()
        logging.getLogger("watchdog.observers").addHandler(self._lost)

    def is_alive(self) -> bool:
        """False once the watched folder itself was deleted, or a thread of the watch ended."""
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def stop(self) -> None:
        logging.getLogger("watchdog.observers").removeHandler(self._lost)
        _stop(self._observer)

    def check(self) -> None:
        """Raise CannotWatch when the system has no room for one more watch. watchdog says nothing when a folder below
        the root could not be watched; but then the limit is reached, and another watch cannot be had either."""
        _stop(self._started(recursive=False))

    def _started(self, *, recursive: bool = True) -> BaseObserver:
        # Harmless: a folder that is seen made twice. As an error it would end the thread that reads the events.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        observer: BaseObserver | None = None
        try:
            observer = Observer()
            observer.schedule(self._handler, str(self._root), recursive=recursive, event_filter=_EVENTS)
            observer.start()
        except OSError as error:
            if observer is not None:
                _stop(observer)
            if error.errno in _OUT_OF_WATCHES:
                raise CannotWatch(
                    "the system has no file watches left; raise fs.inotify.max_user_watches and max_user_instances"
                ) from None
            raise CannotWatch(f"cannot be watched: {error.strerror or error}") from None
        return observer


class _Handler(FileSystemEventHandler):
    def __init__(self, root: Path, on_paths: Callable[[list[str]], None]) -> None:
        self._root = str(root)
        self._prefix = str(root).rstrip("/") + "/"
        self._on_paths = on_paths

    def dispatch(self, event: FileSystemEvent) -> None:
        paths: list[str] = []
        for raw in (event.src_path, event.dest_path):
            path = raw if isinstance(raw, str) else bytes(raw).decode(errors="surrogateescape")
            if path == self._root:
                paths.append("")
            elif path.startswith(self._prefix):
                inner = path[len(self._prefix) :]
                if event.is_directory or suffix_of(inner) or inner.endswith(IGNORE_FILE):
                    paths.append(inner)
        if paths:
            self._on_paths(paths)


class _LostEvents(logging.Handler):
    def __init__(self, on_lost: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_lost = on_lost

    def emit(self, record: logging.LogRecord) -> None:
        if _OVERFLOW in record.getMessage():
            self._on_lost()


def _stop(observer: BaseObserver) -> None:
    """End the observer's threads, even if its start failed half-way."""
    observer.stop()
    if observer.ident is not None:
        observer.join(5.0)


class WatchedRoot:
    """The state of a watched folder. The service's lock guards the fields that say so."""

    def __init__(self, record: NoteRoot) -> None:
        self.record = record
        self.path = Path(record.path)
        self.state: RootState = "scanning"
        self.reason: str | None = None
        self.watch: Watch | None = None
        self.identity: tuple[int, int] | None = None  # of the folder as it was last scanned
        self.skipped: dict[str, tuple[str, FileStat | None]] = {}  # path → reason, and the file as it was then
        self.others: dict[str, str] = {}  # path → reason, of what is no note, as of the last scan
        self.uncounted: Counter[str] = Counter()  # reason → number of further files
        self.watch_again_at = 0.0
        self.last_scan_at: int | None = None
        self.is_removed = False
        self.is_cut_short = False  # removed, and its memories are still to be moved to the trash
        # Guarded
        self.dirty: set[str] = set()
        self.first_event = 0.0
        self.last_event = 0.0
        self.scan_due = 0.0  # on the service's clock
        self.waiting = 0  # files that are being read

    def status(self, files: int, chunks: int) -> NotesRootStatus:
        """The state as it is answered."""
        return NotesRootStatus(
            id=self.record.id, path=self.record.path, namespace=self.record.namespace, state=self.state, files=files,
            chunks=chunks, waiting=len(self.dirty) + self.waiting, last_scan_at=self.last_scan_at, reason=self.reason,
        )  # fmt: skip

    def mark(self, paths: list[str], now: float, settle_seconds: float) -> bool:
        """Take paths that may have changed; return whether the worker may now be due earlier. Guarded."""
        is_first = not self.dirty
        if is_first:
            self.first_event = now
        self.last_event = now
        if any(not path or path.endswith(IGNORE_FILE) for path in paths) or len(self.dirty) > DIRTY_MAX:
            self.dirty.clear()
            self.scan_due = min(self.scan_due, now + settle_seconds)
            return True
        self.dirty.update(paths)
        return is_first

    def dirty_due(self, settle_seconds: float) -> float:
        """The time at which the marked paths are read: once they settle, and soon even while they keep changing."""
        return min(self.last_event + settle_seconds, self.first_event + SETTLE_SECONDS_MAX)

    def set_missing(self, reason: str) -> None:
        """The folder is not there: nothing is done until it returns. Guarded."""
        if self.state != "missing":
            log.warning("notes folder %s: %s; nothing of it is touched", self.path, reason)
        self.state, self.reason = "missing", f"{reason}; its memories are kept as they are"
        self.dirty.clear()
        self.scan_due = math.inf

    def stop_watch(self) -> None:
        if self.watch is not None:
            self.watch.stop()
            self.watch = None

    def note_skipped(self, path: str, why: str | None, seen: FileStat | None) -> None:
        """Record that a file was read (None) or the reason why it was skipped."""
        self.waiting = max(0, self.waiting - 1)
        if why is None:
            self.skipped.pop(path, None)
        elif len(self.skipped) < SKIPPED_KEPT_MAX:
            self.skipped[path] = (why, seen)

    def is_readable_again(self) -> bool:
        """Return whether a file or folder that the system denied can be read now."""
        denied = [(path, why) for path, (why, _) in self.skipped.items() if why.endswith(DENIED)][:DENIED_MAX]
        modes = ((self.path / path, os.R_OK | os.X_OK * why.startswith("the folder")) for path, why in denied)
        return any(os.access(path, mode) for path, mode in modes)

    def is_changed(self, seen: FileStat, known: KnownFile | None) -> bool:
        """True if a file is not as it was when it was last read or skipped."""
        skipped = self.skipped.get(seen.path)
        if skipped is not None and skipped[1] == seen:
            return False
        if known is None or known.reader != READER:
            return True
        return (known.inode, known.mtime_ns, known.size) != (seen.inode, seen.mtime_ns, seen.size)

    def missing_files(self, walked: FolderListing, known: list[KnownFile]) -> list[KnownFile]:
        """The known files that are gone; a file in a folder that could not be listed is not."""
        if "" in walked.unlisted:
            return []
        unknown = tuple(f"{folder}/" for folder in walked.unlisted)
        return [
            file
            for file in {file.id: file for file in known}.values()
            if file.root != self.record.id
            or not (file.path in walked.files or file.path in walked.skipped or file.path.startswith(unknown))
        ]
