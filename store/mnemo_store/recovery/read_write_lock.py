"""Access of threads to the database: many readers or one alone. SPEC 3.6."""

import contextlib
import threading
from collections.abc import Iterator


class ReadWriteLock:
    """Many readers or one who needs to be alone with the database."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._closed = False

    @property
    def is_exclusive(self) -> bool:
        """Whether who wants to read has to wait."""
        return self._closed

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Within it the database stays open; waits while someone is alone with it."""
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
        """Within it nobody reads; waits until those who do have done."""
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
