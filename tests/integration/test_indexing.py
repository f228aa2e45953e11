"""Vectors computed behind the store, by a small model: what a view is filled from, and when it is computed anew."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from mnemo_core.ingest.mutations import Draft
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon import thread_supervision
from mnemo_daemon.indexing.vectors.active_index import ActiveIndex
from mnemo_daemon.indexing.vectors.vector_indexer import VectorIndexer
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_service import Caller, MemoryService
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder, Floats
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_store.disk import Disk
from mnemo_store.record_texts import text_hash
from mnemo_store.records import PutMemory
from mnemo_store.store import Store, TextVectors, WriteResult
from tests.support.erasure_services import wait_until
from tests.support.samples import sample_id, sample_memory

WAIT_SECONDS = 15.0  # far more than it takes: the machine may be busy
IDLE_SECONDS = 4 * WAIT_SECONDS  # nothing here is found by looking now and then


class CountingEmbedder(EmbeddingService):
    """Embeds as always, and keeps how many texts came at once."""

    def __init__(self, models: Path) -> None:
        super().__init__(ModelCatalogue(models), "tiny-letters", threads=1)
        self.sizes: list[int] = []

    def encode_both(self, embedder: Embedder, texts: Sequence[str]) -> tuple[list[Floats], list[Codes | None]]:
        self.sizes.append(len(texts))
        return super().encode_both(embedder, texts)


class FilledIndex:
    """A store whose memories are embedded by the tiny model."""

    def __init__(self, folder: Path, embedding: CountingEmbedder, disk: Disk | None = None) -> None:
        self.store = Store.open(folder)
        self.views = Views(self.store, Disk())
        self.views.open()
        self.embedding = embedding
        self.next_work: Callable[[ActiveIndex, int], bool] = lambda *_: False
        self.indexing = VectorIndexer(
            self.store, self.views, embedding, disk or Disk(), idle_seconds=IDLE_SECONDS,
            next_work=lambda index, seq: self.next_work(index, seq),
        )  # fmt: skip
        self.memories = MemoryService(self.store, self.views)

    def remember(self, *texts: str) -> None:
        for text in texts:
            draft = Draft(content=text, namespace="default", user_id="local", trust="user", source="test")
            self.memories.remember(draft, Caller("test")).result()

    def close(self) -> None:
        self.indexing.stop()
        self.views.save()
        self.store.close()

    def wait(self) -> None:
        wait_until(lambda: self.indexing.serving() is not None and self.indexing.progress().state == "ready")
        assert self.indexing.waiting() == 0

    def similarity(self, text: str) -> float:
        """Of the text's own vector to what the view has for the one memory in it."""
        serving = self.indexing.serving()
        assert serving is not None
        rows = serving.view.vectors_of(self.number())
        assert rows is not None
        return float(self.embedding.encode_query(serving.embedder, text) @ rows[0].astype(np.float32))

    def number(self) -> int:
        with self.store.snapshot() as snapshot:
            number = snapshot.number(snapshot.memories()[0].id)
        assert number is not None
        return number


@pytest.fixture
def embedding(tmp_path: Path, tiny_source: Path) -> Iterator[CountingEmbedder]:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    service = CountingEmbedder(tmp_path / "models")
    service.refresh()
    yield service
    service.close()


@pytest.fixture
def filled(tmp_path: Path, embedding: CountingEmbedder) -> Iterator[FilledIndex]:
    filled = FilledIndex(tmp_path / "data", embedding)
    yield filled
    filled.close()


def bulk(filled: FilledIndex, count: int) -> None:
    """Memories that came in one transaction, which take their turn."""
    changes = [PutMemory(data=sample_memory(number, f"a b c {number}")) for number in range(1, count + 1)]
    filled.store.transact(lambda _: WriteResult(changes, None, "test"), by="test").result(WAIT_SECONDS)


def test_a_saved_note_is_embedded_before_the_backlog(filled: FilledIndex) -> None:
    bulk(filled, 100)
    filled.indexing.prioritise([sample_id(99), sample_id(100)])
    filled.indexing.start()
    filled.wait()
    assert filled.embedding.sizes[0] == 2
    assert sum(filled.embedding.sizes) == 100


class SlowEmbedder(CountingEmbedder):
    seconds = 0.3

    def encode_both(self, embedder: Embedder, texts: Sequence[str]) -> tuple[list[Floats], list[Codes | None]]:
        time.sleep(self.seconds)
        return super().encode_both(embedder, texts)


def test_while_vectors_are_made_it_is_said_how_fast_and_how_long_still(
    tmp_path: Path, embedding: CountingEmbedder
) -> None:
    slow = SlowEmbedder(tmp_path / "models")
    slow.refresh()
    filled = FilledIndex(tmp_path / "data", slow)
    bulk(filled, 200)
    assert filled.indexing.progress().rate is None
    filled.indexing.reindex(recompute=False, batch=1)
    filled.indexing.start()
    wait_until(lambda: filled.indexing.progress().rate is not None)
    progress = filled.indexing.progress()
    slow.seconds = 0.0
    filled.close()
    slow.close()
    assert progress.rate is not None
    assert progress.seconds_left is not None
    assert 0 < progress.rate < 1 / 0.3 + 0.1
    assert progress.seconds_left > 0


def test_vectors_in_the_database_are_reused_until_a_full_computation_is_requested(filled: FilledIndex) -> None:
    filled.remember("a b c")
    embedder = filled.embedding.current()
    assert embedder is not None
    wrong = np.zeros((1, embedder.dimensions), np.float16)
    wrong[0, 0] = 1.0
    filled.store.put_vectors([TextVectors(embedder.space, text_hash("a b c"), wrong)]).result()
    filled.indexing.start()
    filled.wait()
    assert filled.similarity("a b c") < 0.9
    filled.indexing.reindex(recompute=False)
    filled.wait()
    assert filled.similarity("a b c") < 0.9
    filled.indexing.reindex(recompute=True)
    assert filled.indexing.waiting() == 1
    wait_until(lambda: filled.similarity("a b c") > 0.999)
    filled.wait()
    with filled.store.snapshot() as snapshot:
        kept = snapshot.vectors(embedder.space, text_hash("a b c"), embedder.dimensions)
    assert kept is not None
    assert not np.array_equal(kept, wrong)


def test_texts_are_embedded_as_many_at_once_as_was_asked_for(filled: FilledIndex) -> None:
    filled.remember(*("a " * n for n in range(1, 8)))
    filled.indexing.reindex(recompute=False, batch=3)
    filled.indexing.start()
    filled.wait()
    assert filled.embedding.sizes == [3, 3, 1]


def test_asking_again_and_again_while_texts_come_in_loses_none(filled: FilledIndex) -> None:
    filled.indexing.start()
    for number in range(40):
        filled.remember(f"a b {'c ' * number}")
        filled.indexing.reindex(recompute=True)
    filled.wait()
    serving = filled.indexing.serving()
    assert serving is not None
    assert len(serving.view) == 40


def test_a_new_store_is_quiet_about_the_view_it_never_had_and_an_old_one_tells(
    tmp_path: Path, embedding: CountingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mnemo")
    for reported in (False, True):
        filled = FilledIndex(tmp_path / "data", embedding)
        filled.remember("a b c")
        filled.indexing.start()
        filled.wait()
        filled.close()
        assert ("the vector index is rebuilt" in caplog.text) == reported
        (tmp_path / "data" / "views" / "vectors.view").unlink()


def test_work_that_arrives_during_an_empty_look_is_done_without_waiting(filled: FilledIndex) -> None:
    looks: list[int] = []

    def look(_: ActiveIndex, seq: int) -> bool:
        looks.append(seq)
        if len(looks) == 1:
            filled.indexing.wake()
        return False

    filled.indexing.start()
    filled.wait()
    filled.next_work = look
    filled.indexing.wake()
    wait_until(lambda: len(looks) == 2)
    time.sleep(0.05)
    assert len(looks) == 2, "once told is looked at once"


def test_a_view_that_is_whole_is_ready_only_once_it_answers(filled: FilledIndex) -> None:
    filled.remember("a b c")
    while filled.indexing.progress().state != "ready":
        filled.indexing._step()
    was = filled.indexing.serving()
    filled.indexing.reindex(recompute=True)
    states = []
    while filled.indexing.serving() is was:
        filled.indexing._step()
        states.append((filled.indexing.progress().state, filled.indexing.serving() is was))
    assert ("catching_up", True) in states, "it was whole for a moment before it took over"
    assert ("ready", True) not in states
    assert states[-1] == ("ready", False)


def test_a_model_that_has_been_loaded_is_used_without_waiting(tmp_path: Path, tiny_source: Path) -> None:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    embedding = CountingEmbedder(tmp_path / "models")
    filled = FilledIndex(tmp_path / "data", embedding)
    filled.remember("a b c")
    filled.indexing.start()
    time.sleep(0.05)  # it has looked, and there was no model
    assert filled.indexing.serving() is None
    embedding.refresh()
    filled.wait()
    filled.close()
    embedding.close()


# The threads fail


def test_vectors_go_on_coming_after_an_error_that_nothing_expects(
    filled: FilledIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of a column had met a change of it: the thread had ended, and no memory got its vector any more."""
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 0.01)
    failures = [IndexError("index 5 is out of bounds")]

    def fail_once(serving: ActiveIndex, seq: int) -> bool:
        if failures:
            raise failures.pop()
        return False

    filled.next_work = fail_once
    filled.remember("a b c")
    filled.indexing.start()
    wait_until(lambda: filled.indexing.supervisor.restarts == 1)
    filled.remember("d e f")
    filled.wait()
    report = filled.indexing.supervisor
    assert (report.is_failing, report.last_failure) == (False, "IndexError: index 5 is out of bounds")
    assert filled.indexing.progress().reason == ""


def test_rows_dropped_while_the_thread_failed_leave_the_index(
    filled: FilledIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_supervision, "PAUSE_SECONDS", 0.01)
    filled.indexing.start()
    filled.remember("a b c", "d e f")
    filled.wait()
    is_ill = True

    def fail(serving: ActiveIndex, seq: int) -> bool:
        if is_ill:
            raise IndexError("index 5 is out of bounds")
        return False

    filled.next_work = fail
    filled.indexing.wake()
    wait_until(lambda: filled.indexing.supervisor.is_failing)
    with filled.store.snapshot() as snapshot:
        first, _ = snapshot.memories()
        number = snapshot.number(first.id)
    assert number is not None
    filled.memories.delete([first.id], "test", Caller("test")).result()
    is_ill = False
    wait_until(lambda: not filled.indexing.supervisor.is_failing)
    wait_until(lambda: not filled.indexing.has_vector(number))


class NoGraphs(Disk):
    """A disk on which no graph can be written, until it can."""

    def __init__(self) -> None:
        self.failures = [TypeError("no graph today")]

    def replace_file(self, path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        if path.suffix == ".usearch" and self.failures:
            raise self.failures.pop()
        super().replace_file(path, pieces)


def test_a_graph_that_could_not_be_built_is_built_later(tmp_path: Path, embedding: CountingEmbedder) -> None:
    filled = FilledIndex(tmp_path / "data", embedding, NoGraphs())
    filled.indexing.start()
    filled.remember("a")
    filled.wait()
    serving = filled.indexing.serving()
    assert serving is not None
    serving.view.exact_max = 3  # as if it held more
    filled.remember("a b", "b c", "c d", "d e")
    reports = filled.indexing.supervisors
    wait_until(lambda: len(reports()) == 2 and reports()[1].is_failing)
    assert reports()[1].last_failure == "TypeError: no graph today"
    assert "could not be built, searches are exact" in filled.indexing.progress().reason
    assert filled.indexing._graph.supervisor is not None
    filled.indexing._graph.supervisor.resume()
    wait_until(lambda: filled.indexing.progress().reason == "")
    assert not reports()[1].is_failing
    assert not serving.view.needs_index()
    filled.close()


def test_a_memory_whose_vector_was_lost_gets_it_again(filled: FilledIndex) -> None:
    filled.remember("the boat", "the harbour")
    filled.indexing.start()
    filled.wait()
    wait_until(lambda: filled.indexing.tokens.applied_seq == filled.store.seq)
    serving = filled.indexing.serving()
    assert serving is not None
    serving.view.drop(1)
    assert filled.indexing.waiting() == 1
    filled.indexing.require_rows()
    wait_until(lambda: filled.indexing.waiting() == 0)
    assert sum(filled.embedding.sizes) == 2, "its vector is kept in the database"
