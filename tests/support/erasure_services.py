"""A store with its services and erasure, and a search for traces of what was erased."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from mnemo_client.protocol.memories import EraseAnswer
from mnemo_daemon.maintenance.erasure import Erasure
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.disk import Disk
from mnemo_store.journal.line_codec import unpacked
from tests.support.store_services import StoreServices

CANARY = "zanzibarine"  # no word of this program's
SECONDS_MAX = 60.0  # for what takes one: the machine may be busy


def traces(folder: Path, *needles: str) -> list[tuple[str, str]]:
    """The files of a data folder, backups apart, in whose bytes, unpacked in the journal, any of these stands, in
    whatever case."""
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and inside.parts[0] != "backups":
            data = re.sub(rb'"packed":"([^"]+)"', lambda match: unpacked(match[1]), path.read_bytes()).lower()
            found += [(str(inside), needle) for needle in needles if needle.lower().encode() in data]
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class ErasureServices(StoreServices):
    """The services of a store in which memories can be erased. `disk` is the store's; `meanwhile` is called when the
    views have been rebuilt and their files have not."""

    def __init__(self, folder: Path, embedding: EmbeddingService | None = None, disk: Disk | None = None) -> None:
        disk = disk or Disk()
        super().__init__(folder, embedding, disk, disk)
        self.folder = folder
        self.meanwhile: Callable[[], object] = lambda: None
        self.forgetting = Erasure(self.store, disk, self.embedding.spaces, self.empty_views)

    def empty_views(self) -> None:
        self.views.rebuild_without_deleted()
        self.indexing.rebuild_without_deleted()
        self.embedding.clear_query_cache()
        self.recalling.clear_caches()
        self.meanwhile()

    def close(self) -> None:
        self.indexing.stop()
        self.views.save()
        super().close()

    def forget(self, *ids: str) -> EraseAnswer:
        return self.forgetting.erase(ids, "cli")

    def is_there(self, memory_id: str) -> bool:
        with self.store.snapshot() as snapshot:
            return snapshot.memory(memory_id) is not None
