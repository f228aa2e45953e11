"""Records which memories were recalled, after the answer. SPEC 7.5"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

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
        self._ids: dict[str, int] = {}  # the last change (ms) of what a person recalled; 0: an agent recalled it
        self._lock = threading.Lock()
        self._since = 0.0

    def record(self, hits: Sequence[Hit], *, by_person: bool = False) -> None:
        """Note the hits that fit well enough as recalled."""
        found = [hit.details.memory for hit in hits if hit.relevance > RELEVANCE_MIN]
        seen = {memory.id: memory.modified_at for memory in found} if by_person else {}
        self.record_ids((memory.id for memory in found), seen)

    def record_ids(self, memory_ids: Iterable[str], seen: Mapping[str, int] = MappingProxyType({})) -> None:
        """Note memories as recalled. seen: the last changes of those that a person recalled."""
        with self._lock:
            if not self._ids:
                self._since = time.monotonic()
            self._ids.update({each: seen.get(each) or self._ids.get(each, 0) for each in memory_ids})

    def is_due(self) -> bool:
        """True if something has waited for WRITE_SECONDS."""
        return bool(self._ids) and time.monotonic() - self._since >= WRITE_SECONDS

    def write(self) -> None:
        """Hand what has gathered to the store."""
        with self._lock:
            ids, self._ids = self._ids, {}
        for some in batched(list(ids.items()), PENDING_MAX):
            try:
                self._memories.record_use([each for each, _ in some], dict(some))
            except StoreError as error:
                log.info("touches were not written: %s", error)
