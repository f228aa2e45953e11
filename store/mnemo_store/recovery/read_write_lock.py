"""A read-write lock: many readers at a time, or one thread with exclusive access."""

import contextlib
import threading
from collections.abc import Iterator


class ReadWriteLock:
    """Shared access for readers; exclusive access for the thread that closes or reopens the database."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @property
    def is_exclusive(self) -> bool:
        """True while a reader would have to wait."""
        return self._closed

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Shared access within the block; waits while a thread has exclusive access."""
        with self._condition:
            while self._closed:
                self._condition.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                if not self._readers:
                    self._condition.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Exclusive access within the block; waits for the readers there are. New readers wait."""
        with self._condition:
            self._closed = True
            while self._readers:
                self._condition.wait()
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()
