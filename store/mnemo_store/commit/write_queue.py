"""Writes, and the queue in which they wait for the writer thread. It also takes tasks that need the thread for
themselves, and read errors that the thread has to handle. SPEC 3.2"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_store.backend import Snapshot
from mnemo_store.errors import ClosedStoreError, QueueFull, StoreError
from mnemo_store.records import Change
from mnemo_store.recovery.supervisor import StateSupervisor

T = TypeVar("T")

QUEUE_MAX = 1024  # interactive writes waiting
BACKGROUND_QUEUE_MAX = 256


class WriteResult(NamedTuple, Generic[T]):
    """The outcome of a decision: changes to make, all or none of them, and the result for the caller."""

    changes: Sequence[Change]
    result: T
    what: str = ""  # the operation as a person names it: "add", "edit", "rm"
    group: str = ""  # marks writes that are undone together
    vectors: Sequence["TextVectors"] = ()  # of texts that the changes store; they are not in the journal
    clock: int = 0  # ms: of a change that belongs behind what it follows from, or of another device; 0: now
    device: str = ""  # that made the change; "": this one
    origin: int = 0  # its number there


class WriteReceipt(NamedTuple, Generic[T]):
    """A durable write. `seq` is 0 where there was nothing to change."""

    seq: int
    result: T


class TextVectors(NamedTuple):
    """The vectors of one text, or its token rows, to be kept under its hash."""

    space: str
    text_hash: bytes
    rows: NDArray[np.float16] | NDArray[np.int8]  # shape (windows, dimensions), or (tokens, dimensions)


@dataclass(frozen=True)
class Write:
    """A write that waits for its turn."""

    decide: Callable[[Snapshot], WriteResult[Any]]
    by: str
    future: "Future[WriteReceipt[Any]]" = field(default_factory=Future)
    vectors: tuple[TextVectors, ...] = ()
    frees_space: bool = False  # accepted on a full disk too


@dataclass(frozen=True)
class Task:
    """Something that needs the writer thread for itself."""

    act: Callable[[StateSupervisor], Any]
    future: "Future[Any]" = field(default_factory=Future)


class WriteQueue:
    """Filled by any thread, emptied by the writer thread alone, which therefore takes from it without the lock."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._interactive: deque[Write] = deque()
        self._background: deque[Write] = deque()
        self._tasks: deque[Task] = deque()
        self._read_error: Exception | None = None
        self._is_closed = False
        self._failure: StoreError | None = None  # why it was closed, where not on purpose

    def __len__(self) -> int:
        """Writes that wait."""
        return len(self._interactive) + len(self._background)

    @property
    def has_work(self) -> bool:
        return bool(self._interactive or self._background or self._tasks or self._read_error)

    def add_write(self, write: Write, *, background: bool) -> None:
        """Raises QueueFull, or why the queue is closed."""
        queue, limit = (self._background, BACKGROUND_QUEUE_MAX) if background else (self._interactive, QUEUE_MAX)
        with self._wake:
            self._check_open()
            if len(queue) >= limit:
                raise QueueFull(f"{limit} writes are waiting already")
            queue.append(write)
            self._wake.notify()

    def add_task(self, task: Task) -> None:
        """Raises why the queue is closed."""
        with self._wake:
            self._check_open()
            self._tasks.append(task)
            self._wake.notify()

    def report_read_error(self, error: Exception) -> None:
        """Makes the writer recover a database that a reader could not read."""
        with self._wake:
            self._read_error = error
            self._wake.notify()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._failure or ClosedStoreError("the store is shutting down")

    def close(self, why: StoreError | None = None) -> None:
        """Accepts nothing more; what waits is still taken."""
        with self._wake:
            self._is_closed = True
            self._failure = why or self._failure
            self._wake.notify()

    def wait_for_work(self, seconds_max: Callable[[], float | None]) -> bool:
        """Returns when there is work or when the time has passed; False once the queue is closed and empty."""
        with self._wake:
            while not self.has_work:
                if self._is_closed:
                    return False
                seconds = seconds_max()
                if seconds == 0.0 or not self._wake.wait(seconds):
                    break
            return True

    def next_write(self) -> Write | None:
        """Takes the next write; interactive ones overtake background ones."""
        queue = self._interactive or self._background
        return queue.popleft() if queue else None

    def next_task(self) -> Task | None:
        return self._tasks.popleft() if self._tasks else None

    def take_read_error(self) -> Exception | None:
        error, self._read_error = self._read_error, None
        return error

    def fail_all(self, error: StoreError) -> None:
        """Answers everything that waits with this error."""
        waiting = [write.future for write in iter(self.next_write, None)]
        waiting += [task.future for task in iter(self.next_task, None)]
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
