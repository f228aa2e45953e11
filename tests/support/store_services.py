"""A store with its services in one object, without a socket, at times that the test sets, with or without a model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemo_core.ingest.mutations import Draft
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.as_of import HistoryReader
from mnemo_daemon.memories.history import History
from mnemo_daemon.memories.memory_service import Caller, MemoryService
from mnemo_daemon.memories.revert import RevertResult, RevertService
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.question import Question, RecallOutcome
from mnemo_daemon.retrieval.recall import Recall
from mnemo_store.disk import Disk
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import Memory
from mnemo_store.store import Store
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue, SimulatedModels
from tests.support.samples import WAIT_SECONDS, write

PERSON = Caller("cli")
AGENT = Caller("mcp:planner", sees_sensitive=False)
SHOWN = ("active", "archived")


class StoreServices:
    """`at` is the time of the next operation, in ms."""

    def __init__(
        self, folder: Path, embedding: EmbeddingService | None = None, disk: Disk | None = None,
        index_disk: Disk | None = None,
    ) -> None:  # fmt: skip
        self.at = 1000
        self.store = Store.open(folder, disk=disk, now=lambda: self.at)
        self.views = Views(self.store, index_disk or Disk())
        self.views.open()
        self.embedding = embedding or EmbeddingService(ModelCatalogue(folder / "models"), threads=1)
        self.indexing = VectorIndexer(self.store, self.views, self.embedding, index_disk or Disk())
        self.memories = MemoryService(self.store, self.views)
        self.recalling = Recall(self.store, self.views, self.indexing, self.embedding)
        self.history = History(self.store, self.memories)
        self.undoing = RevertService(self.store)
        self.past = HistoryReader(self.store)

    def close(self) -> None:
        self.recalling.close()
        self.indexing.stop()
        self.store.close()

    def add(self, content: str, caller: Caller = PERSON, **fields: Any) -> str:
        draft = Draft(content=content, **{"namespace": "default", "user_id": "local", "trust": "user", "source": "cli",
                                          **fields})  # fmt: skip
        return self.memories.remember(draft, caller).result(WAIT_SECONDS).result.memory.id

    def edit(self, memory_id: str, **fields: Any) -> int:
        return self.memories.edit(memory_id, fields, None, PERSON).result(WAIT_SECONDS).seq

    def trash(self, *ids: str) -> int:
        return self.memories.delete(ids, "deleted", PERSON).result(WAIT_SECONDS).seq

    def restore(self, memory_id: str) -> int:
        return self.memories.restore(memory_id, PERSON).result(WAIT_SECONDS).seq

    def undo(
        self, seq: int | None = None, group: str | None = None, caller: Caller = PERSON, *, dry_run: bool = False,
        cycle: str | None = None,
    ) -> RevertResult:  # fmt: skip
        return self.undoing.revert(seq, group, caller, cycle=cycle, dry_run=dry_run)

    def memory(self, memory_id: str) -> Memory:
        return self.memories.get(memory_id).memory

    def listed(self, at: int | None = None, **fields: Any) -> list[Memory]:
        """The list as of that time, newest first; of the present if none is given."""
        wanted = MemoryFilter(**{"user_id": "local", "states": SHOWN, "now": self.at if at is None else at, **fields})
        then = self.past.state_at(at, wanted.without_tags) if at is not None else None
        rows, _ = self.memories.page(wanted, 500, "", then=then)
        return [row.memory for row in rows]

    def recall(self, query: str, at: int | None = None, **fields: Any) -> RecallOutcome:
        """The recall as of that time. `fields` are those of Question, or of its filter."""
        ours = {name: fields.pop(name) for name in tuple(fields) if name in Question._fields}
        now = self.at if at is None else min(at, self.at)
        wanted = MemoryFilter(**{"user_id": "local", "states": SHOWN, "now": now, **fields})
        question = Question(query, wanted, as_of=at, **{"top_k": 50, "token_budget": None, **ours})
        return self.recalling.answer(question)

    def recalled(self, query: str, at: int | None = None, **fields: Any) -> list[str]:
        """The contents of what is recalled, best first."""
        return [hit.details.memory.content for hit in self.recall(query, at, **fields).hits]


@contextmanager
def services_in(
    folder: Path, embedding: EmbeddingService | None = None, disk: Disk | None = None
) -> Iterator[StoreServices]:
    services = StoreServices(folder, embedding, disk)
    try:
        yield services
    finally:
        services.close()


@contextmanager
def simulated_services_in(
    folder: Path, *, has_model: bool, disk: Disk | None = None,
    make: Callable[[SimulatedCatalogue], SimulatedModels] = lambda catalogue: SimulatedModels(catalogue, ModelFaults()),
) -> Iterator[StoreServices]:  # fmt: skip
    """With vectors that are drawn from the words, or by the models of `make`; or without a model."""
    catalogue = SimulatedCatalogue()
    if has_model:
        catalogue.there.add(DEFAULT_EMBEDDING)
    models = make(catalogue)
    with services_in(folder, models, disk) as services:
        if has_model:
            services.embedding.refresh()
            services.indexing.start()
        yield services
    models.close()


def put(services: StoreServices, *memories: Memory) -> None:
    """Stores them, and waits for their vectors where there will be some."""
    write(services.store, *memories)
    deadline = time.monotonic() + WAIT_SECONDS
    while services.embedding.current() is not None and (
        services.indexing.serving() is None or services.indexing.waiting()
    ):
        assert time.monotonic() < deadline, "the memories have no vectors"
        time.sleep(0.01)
