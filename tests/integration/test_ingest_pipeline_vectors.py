"""The number of embeddings of an entry point: each text once, all of a request at once. SPEC 4.1, 5 [L8, L9]"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnemo_core.ingest.mutations import Decision, Draft
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.ingest.ingest_pipeline import SCORED_TOGETHER, IngestPipeline, IngestResult, Submission
from mnemo_daemon.ingest.neighbour_search import NeighbourSearch
from mnemo_daemon.ingest.reassessment import ScoringBackfill
from mnemo_daemon.memories.memory_service import Caller, MemoryService
from mnemo_daemon.memories.revert import RevertService
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, RunAll
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.settings import IngestSettings, Settings
from mnemo_store.disk import Disk
from mnemo_store.record_texts import skip_hash, text_hash
from mnemo_store.records import ConversationTurn, ErasedText
from mnemo_store.store import Store, WriteReceipt
from tests.support.erasure_services import wait_until
from tests.support.samples import WAIT_SECONDS, sample_memory, write

PERSON = Caller("cli")
LETTERS = [f"{a} {b} {c}" for a in "abc" for b in "defg" for c in "hijkl"]
MORE_LETTERS = [f"{a} {b}" for a in "abcd" for b in "efg"]


class EmbeddingCounter(Embedder):
    """An embedder that keeps the texts of each call; while it is `held`, calls wait."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name, self.dimensions, self.space = embedder.name, embedder.dimensions, embedder.space
        self.tokens_max = embedder.tokens_max
        self.calls: list[list[str]] = []
        self.go = threading.Event()
        self.go.set()

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        self.calls.append(list(texts))
        assert self.go.wait(30.0)
        return self._embedder.encode_batch(texts, run_all)

    def encode_query(self, text: str) -> Floats:
        return self._embedder.encode_query(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.count_tokens(texts)

    def close(self) -> None:
        self._embedder.close()


class CountedModels(EmbeddingService):
    def _open(self, name: str) -> Embedder:
        current = self.current()
        return current if current is not None else EmbeddingCounter(super()._open(name))


class IngestSetup:
    """A store with its doors, without a socket."""

    def __init__(self, folder: Path, models: Path, embed_wait_ms: int = 20_000) -> None:
        self.settings = Settings(intake=IngestSettings(embed_wait_ms=embed_wait_ms))
        self.store = Store.open(folder)
        self.views = Views(self.store, Disk())
        self.views.open()
        self.embedding = CountedModels(ModelCatalogue(models), "tiny-letters", threads=1)
        self.embedding.refresh()
        neighbours = NeighbourSearch(self.store, self.views, self.embedding)
        self.late = ScoringBackfill(self.store, neighbours, self.settings.profile_of)
        self.next_work = self.late.run_slice
        self.indexing = VectorIndexer(
            self.store, self.views, self.embedding, Disk(), next_work=lambda index, seq: self.next_work(index, seq)
        )
        self.memories = MemoryService(self.store, self.views, self.late.mark_scored)
        self.intake = IngestPipeline(
            self.store, self.views, self.indexing, self.embedding, self.memories, neighbours, lambda: self.settings
        )
        self.indexing.start()
        wait_until(lambda: self.indexing.serving() is not None)

    @property
    def embedder(self) -> EmbeddingCounter:
        embedder = self.embedding.current()
        assert isinstance(embedder, EmbeddingCounter)
        return embedder

    def take(self, *texts: str, group: str = "g") -> list[IngestResult]:
        asked = [Submission(Draft(content=text, namespace="default", user_id="local", trust="user", source="test"))
                 for text in texts]  # fmt: skip
        took = asyncio.run(self.intake.ingest(asked, PERSON, group))
        return [each for each in took if isinstance(each, IngestResult)]

    def count(self) -> int:
        with self.store.snapshot() as snapshot:
            return snapshot.count()

    def settle(self) -> None:
        wait_until(lambda: self.indexing.progress().state == "ready" and self.indexing.waiting() == 0)

    def close(self) -> None:
        self.embedder.go.set()
        self.intake.close()
        self.indexing.stop()
        self.views.save()
        self.store.close()
        self.embedding.close()


@pytest.fixture
def models(tmp_path: Path, tiny_source: Path) -> Path:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    return tmp_path / "models"


@pytest.fixture
def ingest_setup(tmp_path: Path, models: Path) -> Iterator[IngestSetup]:
    ingest_setup = IngestSetup(tmp_path / "data", models)
    yield ingest_setup
    ingest_setup.close()


def test_L8_all_texts_of_a_request_are_embedded_in_one_call(ingest_setup: IngestSetup) -> None:
    took = ingest_setup.take(*LETTERS)
    assert len(took) == len(LETTERS)
    assert all(each.item.is_seen for each in took)
    ingest_setup.settle()
    assert [sorted(call) for call in ingest_setup.embedder.calls] == [sorted(LETTERS)]


def test_the_first_texts_of_a_request_are_written_before_the_last_are_embedded(ingest_setup: IngestSetup) -> None:
    encode_each, texts = ingest_setup.embedder.encode_each, [*LETTERS, *MORE_LETTERS]

    def held(texts: Sequence[str], run_all: RunAll = map) -> Iterator[tuple[Floats, Codes | None]]:
        for place, each in enumerate(encode_each(texts, run_all)):
            if place == SCORED_TOGETHER:
                wait_until(lambda: ingest_setup.count() == SCORED_TOGETHER)
            yield each

    ingest_setup.embedder.encode_each = held  # type: ignore[method-assign]
    took = ingest_setup.take(*texts)
    assert [each.decision.memory.content for each in took] == texts
    assert all(each.item.is_seen for each in took)
    assert ingest_setup.count() == len(texts)


def test_neighbours_are_found_at_every_position_of_a_request(ingest_setup: IngestSetup) -> None:
    gap = [*LETTERS, *MORE_LETTERS][: SCORED_TOGETHER - 1]
    took = ingest_setup.take("Anna lives in Oslo.", *gap, "Anna lives in Oslo!", "Anna moved to Bern.", gap[0])
    first, (again, moved, same) = took[0].decision, [each.decision for each in took[-3:]]
    assert [tie.id for tie in again.relations if tie.relation == "repeats"] == [first.memory.id]
    assert first.memory.id in [tie.id for tie in moved.relations if tie.relation == "updates"]
    assert (same.outcome, same.memory.id) == ("duplicate", took[1].decision.memory.id)


def test_L9_an_equal_text_is_never_embedded_again(ingest_setup: IngestSetup) -> None:
    ingest_setup.take("a b c", "d e f", "a b c")
    ingest_setup.settle()
    assert ingest_setup.embedder.calls == [["a b c", "d e f"]]
    again = ingest_setup.take("a b c", "d e f")
    assert [each.decision.outcome for each in again] == ["duplicate", "duplicate"]
    deleted = ingest_setup.memories.delete([again[0].decision.memory.id], "test", PERSON).result()
    assert deleted.result
    (back,) = ingest_setup.take("a b c")
    assert back.decision.outcome == "stored"
    ingest_setup.settle()
    assert ingest_setup.embedder.calls == [["a b c", "d e f"]]


def test_vectors_are_kept_with_the_text_and_none_of_a_text_that_is_refused(ingest_setup: IngestSetup) -> None:
    ingest_setup.indexing.stop()  # so that it keeps none
    with ingest_setup.store.snapshot() as snapshot:
        erased = skip_hash(snapshot.meta("salt"), "d e f")
    write(ingest_setup.store, ErasedText(hash=erased, at=1))
    asked = [Submission(Draft(content=text, namespace="default", user_id="local", trust="agent", source="test"))
             for text in ("a b c", "d e f")]  # fmt: skip
    stored, refused = asyncio.run(ingest_setup.intake.ingest(asked, PERSON, "g"))
    assert isinstance(stored, IngestResult)
    assert isinstance(refused, Refusal)
    with ingest_setup.store.snapshot() as snapshot:
        embedder = ingest_setup.embedder
        kept = [snapshot.vectors(embedder.space, text_hash(text), embedder.dimensions) for text in ("a b c", "d e f")]
    assert [each is not None for each in kept] == [True, False]


class EditedMemories(MemoryService):
    """Memories of which one is edited just before a text is written."""

    edits = ""  # the id, until it is done

    def write_one(self, *asked: Any, **options: Any) -> "Future[WriteReceipt[Decision]]":
        if self.edits:
            edited, self.edits = self.edits, ""
            self.edit(edited, {"content": "x y z"}, None, PERSON).result()
        return super().write_one(*asked, **options)


def test_a_repeat_is_read_only_where_its_copy_is_gone_when_it_is_written(ingest_setup: IngestSetup) -> None:
    (first,) = ingest_setup.take("a b c")
    ingest_setup.settle()
    (same,) = ingest_setup.take("a b c")
    assert (same.decision.outcome, same.item.is_seen, same.item.scores) == ("duplicate", True, None)
    memories = EditedMemories(ingest_setup.store, ingest_setup.views)
    memories.edits = first.decision.memory.id
    intake = IngestPipeline(
        ingest_setup.store, ingest_setup.views, ingest_setup.indexing, ingest_setup.embedding, memories,
        NeighbourSearch(ingest_setup.store, ingest_setup.views, ingest_setup.embedding), lambda: ingest_setup.settings,
    )  # fmt: skip
    draft = Draft(content="a b c", namespace="default", user_id="local", trust="user", source="test")
    (new,) = asyncio.run(intake.ingest([Submission(draft)], PERSON))
    intake.close()
    assert isinstance(new, IngestResult)
    assert (new.decision.outcome, new.decision.memory.content) == ("stored", "a b c")
    assert new.item.scores is not None
    assert ingest_setup.count() == 2


def test_L9_nor_after_a_restart(tmp_path: Path, models: Path) -> None:
    first = IngestSetup(tmp_path / "data", models)
    first.take("a b c")
    first.settle()
    first.close()
    second = IngestSetup(tmp_path / "data", models)
    (took,) = second.take("a b c")
    second.settle()
    assert (took.decision.outcome, took.item.is_seen) == ("duplicate", True)
    assert second.embedder.calls == []
    second.close()


def test_L9_a_text_that_a_request_is_embedding_is_not_embedded_in_the_background(tmp_path: Path, models: Path) -> None:
    ingest_setup = IngestSetup(tmp_path / "data", models, embed_wait_ms=50)
    ingest_setup.embedder.go.clear()
    (took,) = ingest_setup.take("a b c")
    assert (took.decision.outcome, took.item.is_seen) == ("stored", False)
    ingest_setup.embedder.go.set()
    ingest_setup.settle()
    assert ingest_setup.embedder.calls == [["a b c"]]
    ingest_setup.close()


def test_a_change_is_undone_by_its_number_after_its_memories_were_scored(tmp_path: Path, models: Path) -> None:
    ingest_setup = IngestSetup(tmp_path / "data", models, embed_wait_ms=10)
    ingest_setup.embedder.go.clear()
    ingest_setup.take("a b c")
    written = ingest_setup.store.seq
    ingest_setup.take("c b a", group="another")
    ingest_setup.embedder.go.set()
    wait_until(lambda: ingest_setup.indexing.waiting() == 0 and ingest_setup.late.waiting() == 0)
    with ingest_setup.store.snapshot() as snapshot:
        (stored,) = (each for each in snapshot.memories() if each.content == "a b c")
    assert stored.version == 2, "it was scored"
    undone = RevertService(ingest_setup.store).revert(written, None, PERSON, dry_run=False)
    assert undone.ids == [stored.id]
    assert ingest_setup.count() == 2
    ingest_setup.close()


def test_a_recalled_turn_that_was_archived_is_not_compared_again(tmp_path: Path, models: Path) -> None:
    ingest_setup = IngestSetup(tmp_path / "data", models, embed_wait_ms=10)
    turn = ConversationTurn(role="user")
    other = sample_memory(2, "a c b", source="turn", turn=turn, state="archived")
    write(ingest_setup.store, sample_memory(1, "a b c", source="turn", turn=turn), other)
    ingest_setup.settle()
    ingest_setup.embedder.go.clear()
    ingest_setup.take("d e f")  # without its vector: what is written from here on is looked at
    ingest_setup.memories.record_use([other.id]).result(WAIT_SECONDS)
    ingest_setup.embedder.go.set()
    wait_until(lambda: ingest_setup.indexing.waiting() == 0 and ingest_setup.late.waiting() == 0)
    with ingest_setup.store.snapshot() as snapshot:
        recalled = snapshot.memory(other.id)
        assert recalled is not None
        assert recalled.state == "active"
        assert [edge for edge in snapshot.edges(other.id) if edge.source == other.id] == []
    ingest_setup.close()


def test_G9_a_write_does_not_wait_for_a_model_that_hangs(tmp_path: Path, models: Path) -> None:
    ingest_setup = IngestSetup(tmp_path / "data", models, embed_wait_ms=10)
    ingest_setup.embedder.go.clear()
    took = ingest_setup.take("a b c", "a b d")
    future = ingest_setup.indexing.handoff.find(ingest_setup.embedder.space, text_hash("a b c"))
    assert future is not None
    assert not future.done(), "the model hangs still"
    assert [each.item.is_seen for each in took] == [False, False]
    assert [each.decision.memory.importance >= 0.6 for each in took] == [True, True]
    ingest_setup.close()


def test_the_middles_are_those_of_what_the_view_holds_also_after_a_restart(tmp_path: Path, models: Path) -> None:
    first = IngestSetup(tmp_path / "data", models)
    took = first.take(*LETTERS)
    first.settle()
    first.memories.delete([each.decision.memory.id for each in took[:7]], "test", PERSON).result()
    wait_until(lambda: first.indexing.eligible() == len(LETTERS) - 7)
    first.settle()
    serving = first.indexing.serving()
    assert serving is not None
    wait_until(lambda: len(serving.view) == len(LETTERS) - 7)
    kept = serving.centroids.sums()
    rows = [serving.view.vectors_of(number) for number in serving.view.numbers().tolist()]
    whole = np.concatenate([each for each in rows if each is not None]).astype(np.float64)
    first.close()
    (total,) = kept.values()
    assert total == (len(LETTERS) - 7, (whole * 2**24).sum(axis=0).tolist())
    second = IngestSetup(tmp_path / "data", models)
    loaded = second.indexing.serving()
    assert loaded is not None
    wait_until(lambda: not loaded.centroids.uncounted)
    assert loaded.centroids.sums() == kept
    second.close()


def test_a_model_that_fails_costs_a_write_its_vector_and_nothing_else(ingest_setup: IngestSetup) -> None:
    ingest_setup.embedder.encode_batch = _out_of_memory  # type: ignore[method-assign]
    (took,) = ingest_setup.take("a b c")
    assert (took.decision.outcome, took.item.is_seen) == ("stored", False)
    future = ingest_setup.indexing.handoff.find(ingest_setup.embedder.space, text_hash("a b c"))
    assert future is None or future.done(), "nobody waits for what will not come"


def _out_of_memory(texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
    raise RuntimeError("the model ran out of memory")
