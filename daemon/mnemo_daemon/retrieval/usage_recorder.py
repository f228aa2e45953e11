"""Records which memories were recalled, after the answer. SPEC 7.5"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence

from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.retrieval.question import Hit
from mnemo_store.batches import batched
from mnemo_store.errors import StoreError

RELEVANCE_MIN = 0.5  # above it, being answered counts as being recalled. SPEC 7.5 [G40]
WRITE_SECONDS = 2.0  # touches are written together, this late at most
PENDING_MAX = 500  # in one write turn

log = logging.getLogger("mnemo.recall")


class UsageRecorder:
    """The memories that were recalled, written together a little later. A failure loses no more than a count."""

    def __init__(self, memories: MemoryService) -> None:
        self._memories = memories
        self._ids: dict[str, None] = {}
        self._lock = threading.Lock()
        self._since = 0.0

    def record(self, hits: Sequence[Hit]) -> None:
        """Note the hits that fit well enough as recalled."""
        self.record_ids(hit.details.memory.id for hit in hits if hit.relevance > RELEVANCE_MIN)

    def record_ids(self, memory_ids: Iterable[str]) -> None:
        """Note memories as recalled."""
        with self._lock:
            if not self._ids:
                self._since = time.monotonic()
            self._ids.update(dict.fromkeys(memory_ids))

    def is_due(self) -> bool:
        """True if something has waited for WRITE_SECONDS."""
        return bool(self._ids) and time.monotonic() - self._since >= WRITE_SECONDS

    def write(self) -> None:
        """Hand what has gathered to the store."""
        with self._lock:
            ids, self._ids = list(self._ids), {}
        for some in batched(ids, PENDING_MAX):
            try:
                self._memories.record_use(some)
            except StoreError as error:
                log.info("touches were not written: %s", error)
