"""Requests of other threads to the thread of the vector indexer."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

from mnemo_store.errors import ClosedStoreError
from mnemo_store.store import Commit

EXPRESS_MAX = 1024  # memories that may go before the backlog
EXPRESS_TOUCHED_MAX = 8  # a transaction that touches more is bulk work and takes its turn

Request = Literal["recompute", "revisit", "row_ids_reset"]


class IndexerInbox:
    """The requests of other threads to the indexer's thread."""

    def __init__(self) -> None:
        self.wake = threading.Condition()
        self.requests: set[Request] = set()
        self.dropped: deque[int] = deque()  # row ids of erased memories
        self.renewals: deque[Future[None]] = deque()
        self.is_closed = False
        self.behind_since = 0.0  # monotonic: of the oldest change that is not applied; 0 when none
        self._express: deque[str] = deque(maxlen=EXPRESS_MAX)  # ids that go before the backlog
        self._is_notified = False  # since the thread began to look for work

    def notify(self, request: Request | None = None) -> None:
        with self.wake:
            if request is not None:
                self.requests.add(request)
            self._is_notified = True
            self.wake.notify_all()

    def add_commit(self, commit: Commit) -> None:
        with self.wake:
            self.behind_since = self.behind_since or time.monotonic()
            if len(commit.touched) <= EXPRESS_TOUCHED_MAX:
                self._express.extend(touched.memory.id for touched in commit.touched if touched.memory)
            self.dropped.extend(touched.number for touched in commit.touched if touched.dropped)
            self.notify()

    def prioritise(self, ids: Sequence[str]) -> None:
        with self.wake:
            self._express.extend(ids[:EXPRESS_MAX])
            self.notify()

    def add_renewal(self) -> "Future[None]":
        """Raises ClosedStoreError once the indexer ends."""
        future: Future[None] = Future()
        with self.wake:
            if self.is_closed:
                raise ClosedStoreError("the daemon is shutting down")
            self.renewals.append(future)
            self.notify()
        return future

    def take_express(self) -> list[str]:
        """The ids that go first, each once."""
        with self.wake:
            ids = list(dict.fromkeys(self._express))
            self._express.clear()
        return ids

    def close(self) -> None:
        with self.wake:
            self.is_closed = True
            self.notify()

    def begin_look(self) -> None:
        """Has every notification from here on lead to another look for work."""
        self._is_notified = False

    def wait(self, seconds: float) -> None:
        """Returns at the next notification, or after that time."""
        with self.wake:
            self.wake.wait_for(lambda: self._is_notified or self.is_closed, seconds)

    def refuse_renewals(self) -> None:
        while self.renewals:
            self.renewals.popleft().set_exception(ClosedStoreError("the daemon is shutting down"))
