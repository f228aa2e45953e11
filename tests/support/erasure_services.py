"""A store with its services and erasure, and a search for traces of what was erased."""

import time
from collections.abc import Callable
from pathlib import Path

from mnemo_client.protocol.erasure import EraseAnswer
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.lifecycle.erasure import Erasure
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.history import History
from mnemo_daemon.memories.memory_service import MemoryService
from mnemo_daemon.memories.revert import RevertService
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.recall import Recall
from mnemo_store.disk import Disk
from mnemo_store.store import Store
from tests.support.store_services import StoreServices

CANARY = "zanzibarine"  # no word of this program's
SECONDS_MAX = 60.0  # for what takes one: the machine may be busy


def traces(folder: Path, *needles: str) -> list[tuple[str, str]]:
    """The files of a data folder, backups apart, in whose bytes any of these stands, in whatever case."""
    found = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and inside.parts[0] != "backups":
            data = path.read_bytes().lower()
            found += [(str(inside), needle) for needle in needles if needle.lower().encode() in data]
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class ErasureServices(StoreServices):
    """The services of a store in which memories can be erased. `disk` is the store's; `meanwhile` is called when the
    views are there anew, before the files are."""

    def __init__(self, folder: Path, embedding: EmbeddingService | None = None, disk: Disk | None = None) -> None:
        self.folder = folder
        self.at = 1000
        self.meanwhile: Callable[[], object] = lambda: None
        disk = disk or Disk()
        self.store = Store.open(folder, disk=disk, now=lambda: self.at)
        self.views = Views(self.store, disk)
        self.views.open()
        self.embedding = embedding or EmbeddingService(ModelCatalogue(folder / "models"), threads=1)
        self.indexing = VectorIndexer(self.store, self.views, self.embedding, disk)
        self.memories = MemoryService(self.store, self.views)
        self.recalling = Recall(self.store, self.views, self.indexing, self.embedding)
        self.history = History(self.store, self.memories)
        self.undoing = RevertService(self.store)
        self.past = HistoryReader(self.store)
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
