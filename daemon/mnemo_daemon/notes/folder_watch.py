"""Notifications of changes in a notes folder. SPEC 6

An event only says where to look again: every editor saves in its own way, and events get lost. So a watch hands on
paths and nothing else, and the service's scans have the last word.
"""

import errno
import logging
import warnings
from collections.abc import Callable
from pathlib import Path

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

from mnemo_core.documents.gitignore import IGNORE_FILE
from mnemo_core.documents.markup import suffix_of

# Opening and closing without writing are left out: reading a file would report itself.
_EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileMovedEvent, FileDeletedEvent,
    DirCreatedEvent, DirMovedEvent, DirDeletedEvent,
]  # fmt: skip
_OUT_OF_WATCHES = (errno.ENOSPC, errno.EMFILE, errno.ENFILE)
_OVERFLOW = "overflow"  # in the only sign watchdog gives of lost events: a line of its log


class CannotWatch(Exception):
    """The system cannot watch this folder; the message says why and what would help."""


class Watch:
    """A watch that reports changes below a folder until it is stopped."""

    def __init__(self, root: Path, on_paths: Callable[[list[str]], None], on_lost: Callable[[], None]) -> None:
        """on_paths gets paths relative to the root that may have changed, "" for the root itself; on_lost is called
        when events were lost. Both in a thread of the watch, and neither may block.

        Raises CannotWatch."""
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
        """Raise CannotWatch when the system has no room for one more watch.

        watchdog says nothing when a folder below the root could not be watched; but then the limit is reached, and
        another watch cannot be had either.
        """
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
