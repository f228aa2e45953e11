"""A store with the services that take in texts and extract their statements on request, without a socket."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemo_client.protocol.ingestion import StatementView
from mnemo_core.ingest.mutations import Draft
from mnemo_daemon.assistance.extraction import StatementExtraction, facts_of
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline, IngestResult, Submission
from mnemo_daemon.ingest.neighbour_search import NeighbourSearch
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_daemon.models.language.task_runner import CallLog, Level, TaskRunner
from mnemo_daemon.settings import Settings
from mnemo_store.records import Memory, Trust
from mnemo_store.tables import EXTRACTIONS
from tests.support.samples import WAIT_SECONDS
from tests.support.store_services import PERSON, StoreServices, services_in


class InterruptiblePipeline(IngestPipeline):
    """A pipeline in which something may happen before statements are written."""

    before_writing: Callable[[Sequence[Submission]], object] = staticmethod(lambda _: None)

    def ingest_on_this_thread(self, asked: Sequence[Submission], *rest: Any) -> Any:
        self.before_writing(asked)
        return super().ingest_on_this_thread(asked, *rest)


class ExtractionServices:
    """The services that take in texts and extract statements on request."""

    def __init__(self, services: StoreServices, model: LanguageModel | None = None, level: Level = "auto") -> None:
        self.services = services
        self.store = services.store
        neighbours = NeighbourSearch(services.store, services.views, services.embedding)
        self.pipeline = InterruptiblePipeline(
            services.store,
            services.views,
            services.indexing,
            services.embedding,
            services.memories,
            neighbours,
            Settings,
        )
        tasks = TaskRunner(lambda _: model or LanguageModel(None), CallLog(services.store), lambda: level)
        self.extraction = StatementExtraction(services.store, services.memories, self.pipeline, tasks)

    def take(self, text: str, *, group: str = "g", trust: Trust = "user", tags: tuple[str, ...] = ()) -> str:
        draft = Draft(content=text, namespace="default", user_id="local", trust=trust, source="api", tags=tags)
        (took,) = asyncio.run(self.pipeline.ingest([Submission(draft, infer=True)], PERSON, group))
        assert isinstance(took, IngestResult)
        return took.decision.memory.id

    def run(self) -> None:
        """Run the job until nothing is left to do."""
        while self.extraction.is_due():
            self.extraction.run_slice()

    def extract(self, memory_id: str) -> Sequence[StatementView]:
        return self.extraction.submit(memory_id).result(WAIT_SECONDS)

    def memories(self) -> list[Memory]:
        with self.store.snapshot() as snapshot:
            return snapshot.memories()

    def statements(self) -> list[str]:
        """The texts of the statements that are shown."""
        return sorted(each.content for each in self.memories() if each.source == "extract" and each.state == "active")

    def facts(self) -> list[tuple[str, str, str]]:
        """The facts that the memories state now."""
        with self.store.snapshot() as snapshot:
            found = [fact for memory in snapshot.memories() for fact in facts_of(snapshot, memory)]
        return sorted((fact.subject, fact.predicate, fact.object) for fact in found)

    def pending(self) -> int:
        with self.store.snapshot() as snapshot:
            return snapshot.size(EXTRACTIONS)

    def close(self) -> None:
        self.extraction.close()
        self.pipeline.close()


@contextmanager
def extraction_services_in(
    folder: Path, model: LanguageModel | None = None, level: Level = "auto"
) -> Iterator[ExtractionServices]:
    with services_in(folder) as services:
        made = ExtractionServices(services, model, level)
        try:
            yield made
        finally:
            made.close()
