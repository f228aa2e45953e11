"""The record of which memories were handed out in which answers: to whom, when and in which place. SPEC 5.5a

It has no word of a question or a memory. It is written a little after the answers, kept for a limited time and number,
and erased with its memory.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mnemo_daemon.history_names import BY_SHOWN, SHOWN
from mnemo_store.backend import Snapshot
from mnemo_store.errors import StoreError
from mnemo_store.records import Change, DropShowing, PutShowing, Showing
from mnemo_store.store import Store, WriteResult
from mnemo_store.tables import SHOWINGS

KEPT_MAX = 20_000  # showings of all memories together; an answer has one for each of its memories
KEPT_MS = 90 * 86_400_000
WRITE_SECONDS = 2.0  # answers are written together, this late at most
WAITING_MAX = 500  # answers; the oldest of more are not recorded
DROPPED_MAX = 1000  # old showings that one write removes
SESSION_CHARS_MAX = 128

log = logging.getLogger("mnemo.recall")


class _PendingAnswer(NamedTuple):
    """An answer that is not written yet. ids: of its memories, by their rank."""

    at: int
    operation: str
    by: str
    session_id: str
    ids: tuple[str, ...]


class ShownRecorder:
    """The record. A failure or a crash loses no more than the last answers. Any thread may call it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting = deque[_PendingAnswer](maxlen=WAITING_MAX)
        self._lock = threading.Lock()
        self._since = 0.0

    def record(self, operation: str, by: str, session_id: str, ids: Sequence[str]) -> None:
        """Note an answer to be written. ids: of its memories, best first; none: there is nothing to note."""
        if not ids:
            return
        answer = _PendingAnswer(
            self._store.now(), operation, by, session_id[:SESSION_CHARS_MAX], tuple(dict.fromkeys(ids))
        )
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append(answer)

    def is_due(self) -> bool:
        """Return whether an answer has waited for WRITE_SECONDS."""
        return bool(self._waiting) and time.monotonic() - self._since >= WRITE_SECONDS

    def write(self) -> None:
        """Hand the answers that have gathered to the store, and remove what is kept no longer."""
        with self._lock:
            answers = list(self._waiting)
            self._waiting.clear()
        ids = [self._store.new_id() for _ in answers]

        def decide(snapshot: Snapshot) -> WriteResult[None]:
            showings = [
                Showing(
                    id=answer_id, memory=memory_id, at=each.at, operation=each.operation, by=each.by,
                    session_id=each.session_id, rank=rank,
                )
                for answer_id, each in zip(ids, answers, strict=True)
                for rank, memory_id in enumerate(each.ids, start=1)
                if snapshot.memory(memory_id) is not None  # it may have been erased meanwhile
            ]  # fmt: skip
            made: list[Change] = [PutShowing(data=each) for each in showings]
            return WriteResult([*made, *_outdated(snapshot, len(showings))], None, SHOWN)

        try:
            if answers:
                self._store.transact(decide, by=BY_SHOWN.name, background=True)
        except StoreError as error:
            log.info("what was handed out was not written down: %s", error)

    def of_memory(self, memory_id: str) -> list[Showing]:
        """Return the answers in which a memory was handed out, the latest first, as far as they are kept."""
        with self._store.snapshot() as snapshot:
            found = [each for each in snapshot.under(SHOWINGS, memory_id) if not _is_old(each, snapshot.now)]
        return sorted(found, key=lambda each: each.id, reverse=True)


def _outdated(snapshot: Snapshot, added: int) -> list[Change]:
    """The changes that remove the oldest showings beyond KEPT_MAX, and those that are older than KEPT_MS."""
    excess = snapshot.size(SHOWINGS) // len(SHOWINGS.keys) + added - KEPT_MAX
    first = snapshot.scan(SHOWINGS, limit=1)
    if excess <= 0 and not (first and _is_old(first[0], snapshot.now)):
        return []
    oldest = snapshot.scan(SHOWINGS, limit=DROPPED_MAX)  # in the order of their times
    return [
        DropShowing(id=each.id, memory=each.memory)
        for place, each in enumerate(oldest)
        if place < excess or _is_old(each, snapshot.now)
    ]


def _is_old(showing: Showing, now: int) -> bool:
    return showing.at < now - KEPT_MS
