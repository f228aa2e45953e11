"""Token rows of every memory: kept with its vectors, made behind where they are missing, and gone with the text."""

import asyncio
import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mnemo_core.ingest.mutations import Draft
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.indexing.index import IndexProgress
from mnemo_daemon.indexing.vectors import stored_token_rows, text_vectors
from mnemo_daemon.indexing.vectors import vector_indexer as indexing_module
from mnemo_daemon.indexing.vectors.stored_token_rows import TOKEN_BACKFILL_SECONDS, TokenBackfill
from mnemo_daemon.indexing.vectors.text_vectors import EmbeddingHandoff
from mnemo_daemon.ingest.ingest_pipeline import IngestPipeline, Submission
from mnemo_daemon.ingest.neighbour_search import NeighbourSearch
from mnemo_daemon.maintenance.compaction_backup import StoreMaintenance
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, QueryTokens, RunAll
from mnemo_daemon.models.embedders.embedding import EmbeddingService, GraphEmbedder
from mnemo_daemon.models.embedders.token_rows import ENTRIES, Codebook, LateForm, Projection
from mnemo_daemon.scheduler import Job, Scheduler
from mnemo_daemon.settings import IngestSettings, Settings
from mnemo_store.disk import Disk
from mnemo_store.record_texts import text_hash
from mnemo_store.records import Memory, PutMemory
from mnemo_store.store import TextVectors
from tests.support.erasure_services import ErasureServices, wait_until
from tests.support.faulty_disk import BROKEN, FaultyDisk
from tests.support.samples import sample_memory, write

PROJECTION = Projection(np.eye(32, 8, dtype=np.float16))
OTHER = Projection(np.eye(32, 8, 3, dtype=np.float16))


class SeenRows(Embedder):
    """An embedder that keeps which texts each call was given: for their vectors alone, or with token rows."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.dimensions, self.space = embedder.name, embedder.dimensions, embedder.space
        self.tokens_max, self.late = embedder.tokens_max, embedder.late
        self.embedder = embedder
        self.plain: list[str] = []
        self.both: list[str] = []
        self.when_both: Callable[[int], object] = lambda _: None

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        self.plain += texts
        return self.embedder.encode_batch(texts, run_all)

    def encode_both(self, texts: Sequence[str], run_all: RunAll = map) -> tuple[list[Floats], list[Codes | None]]:
        self.both += texts
        self.when_both(len(texts))
        return self.embedder.encode_both(texts, run_all)

    def encode_query(self, text: str) -> Floats:
        return self.embedder.encode_query(text)

    def encode_query_tokens(self, text: str) -> QueryTokens:
        return self.embedder.encode_query_tokens(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.embedder.count_tokens(texts)

    def close(self) -> None:
        self.embedder.close()


class IllProjection(Projection):
    """Gives what is no number for a text of one word."""

    def rows(self, hidden: Floats) -> Floats:
        rows = super().rows(hidden)
        return np.full_like(rows, np.nan) if len(rows) == 1 else rows


class Models(EmbeddingService):
    """The tiny model, with a projection that does not come with the program, or with none."""

    def __init__(self, folder: Path, projection: Projection | None = PROJECTION) -> None:
        super().__init__(ModelCatalogue(folder), "tiny-letters", threads=1)
        self._projection = projection
        self.refresh()

    @property
    def seen(self) -> SeenRows:
        embedder = self.current()
        assert isinstance(embedder, SeenRows)
        return embedder

    @property
    def form(self) -> LateForm:
        assert self.seen.late is not None
        return self.seen.late

    def spaces(self) -> list[str]:
        late = self.seen.late
        return [self.seen.space] if late is None else [self.seen.space, late.space]

    def _open(self, name: str) -> Embedder:
        manifest = self.manifest(name)
        assert manifest is not None
        return self.current() or SeenRows(GraphEmbedder(manifest, self._projection))


@pytest.fixture
def models(tmp_path: Path, tiny_source: Path) -> Path:
    installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    return tmp_path / "models"


@pytest.fixture
def embedding(models: Path) -> Iterator[Models]:
    service = Models(models)
    yield service
    service.close()


@pytest.fixture
def services(tmp_path: Path, embedding: Models) -> Iterator[ErasureServices]:
    services = ErasureServices(tmp_path / "data", embedding)
    yield services
    services.close()


def kept(services: ErasureServices, form: LateForm, *texts: str) -> list[list[list[int]] | None]:
    with services.store.snapshot() as snapshot:
        rows = snapshot.token_rows(form.space, [text_hash(text) for text in texts], form.dimensions)
    return [None if each is None else each.tolist() for each in rows]


def made(embedding: Models, *texts: str) -> list[list[list[int]] | None]:
    codes = embedding.seen.embedder.encode_both(texts)[1]
    return [None if each is None else each.tolist() for each in codes]


def settle(services: ErasureServices) -> None:
    """All have their vectors, and their token rows have been looked at."""

    def is_settled() -> bool:
        if services.indexing.lacks_tokens():
            services.indexing.fill_tokens()
        tokens, vectors = services.indexing.tokens.progress(), services.indexing.progress()
        return (
            vectors.state == "ready" and services.indexing.waiting() == 0 and tokens is not None and tokens.share == 1
        )

    wait_until(is_settled)


def add_without_rows(services: ErasureServices, embedding: Models, *texts: str) -> list[str]:
    """As a store was before there were token rows: these have vectors alone. Their ids."""
    ids = [services.add(text) for text in texts]
    found = zip(texts, embedding.seen.embedder.encode_batch(texts), strict=True)
    rows = [TextVectors(embedding.seen.space, text_hash(text), each.astype(np.float16)) for text, each in found]
    services.store.put_vectors(rows).result()
    return ids


def test_they_are_kept_with_the_vectors_from_one_run_of_the_model(services: ErasureServices, embedding: Models) -> None:
    services.add("b c d")
    services.add("a i")  # two stop words
    services.indexing.start()
    settle(services)
    assert kept(services, embedding.form, "b c d", "a i", "x") == [*made(embedding, "b c d"), [], None]
    assert len(kept(services, embedding.form, "b c d")[0] or ()) == 3
    assert (sorted(embedding.seen.both), embedding.seen.plain) == (["a i", "b c d"], [])


def take_in(services: ErasureServices, embedding: Models, texts: list[str]) -> None:
    """All texts go through the ingestion pipeline, and have their vectors."""
    services.indexing.start()
    wait_until(lambda: services.indexing.serving() is not None)
    settings = Settings(intake=IngestSettings(embed_wait_ms=20_000))
    neighbours = NeighbourSearch(services.store, services.views, embedding)
    intake = IngestPipeline(
        services.store, services.views, services.indexing, embedding, services.memories, neighbours, lambda: settings
    )
    asked = [Submission(Draft(content=text, namespace="default", user_id="local", trust="user", source="test"))
             for text in texts]  # fmt: skip
    asyncio.run(intake.ingest(asked, Caller("cli"), "g"))
    settle(services)
    intake.close()


@pytest.mark.parametrize("texts", [["b c d"], [f"b c {letter}" for letter in "defghjklmn"]])
def test_the_ingestion_pipeline_hands_them_over_and_no_text_is_computed_twice(
    services: ErasureServices, embedding: Models, texts: list[str]
) -> None:
    take_in(services, embedding, texts)
    assert kept(services, embedding.form, *texts) == made(embedding, *texts)
    assert (sorted(embedding.seen.both), embedding.seen.plain) == (sorted(texts), [])
    assert services.indexing.handoff.tokens(embedding.seen.space, text_hash(texts[0])) is None


def test_the_ingestion_pipeline_keeps_them_in_the_form_in_which_they_are_stored(tmp_path: Path, models: Path) -> None:
    entries = np.random.default_rng(1).integers(-127, 128, (ENTRIES, 10), np.int8)
    embedding = Models(models, Projection(np.eye(32, 10, dtype=np.float16), Codebook(entries)))
    services = ErasureServices(tmp_path / "data", embedding)
    with contextlib.closing(embedding), contextlib.closing(services):
        take_in(services, embedding, ["b c d"])
        with services.store.snapshot() as snapshot:
            (rows,) = snapshot.token_rows(embedding.form.space, [text_hash("b c d")], embedding.form.stored_width)
        codes = embedding.seen.embedder.encode_both(["b c d"])[1][0]
        assert rows is not None
        assert codes is not None
        assert rows.tolist() == embedding.form.pack(codes).tolist()


def test_vectors_that_are_handed_over_are_bounded_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    handed, rows, halves = EmbeddingHandoff(), np.zeros((1, 8), np.int8), np.zeros((1, 4), np.float16)
    monkeypatch.setattr(text_vectors, "HANDOFF_BYTES_MAX", 2 * rows.nbytes + 3 * halves.nbytes)
    handed.claim("space", [b"1", b"2", b"3", b"4"])
    for digest in (b"1", b"2", b"3"):
        handed.add_rows("space", digest, halves, rows)
    handed.add_rows("space", b"4", halves, None)
    handed.add_rows("space", b"never claimed", halves, rows)
    assert len(handed) == 3
    assert [handed.tokens("space", digest) is rows for digest in (b"1", b"2", b"3", b"4")] == [False, True, True, False]
    handed.discard("space", [b"2"])
    assert handed.tokens("space", b"2") is None
    handed.clear()
    assert handed.tokens("space", b"3") is None
    (being_made, made_already) = (handed.claim("space", [digest])[digest] for digest in (b"5", b"6"))
    handed.add_rows("space", b"6", halves, rows)
    made_already.set_result(None)
    handed.discard_older(3600.0)
    assert len(handed) == 2
    handed.discard_older(0.0)
    assert handed.find("space", b"5") is being_made
    assert handed.find("space", b"6") is None
    assert handed.tokens("space", b"6") is None
    assert len(handed) == 1


def test_vectors_handed_over_for_a_text_that_was_replaced_are_removed(
    services: ErasureServices, embedding: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that was replaced before it got into the view, or was never kept."""
    monkeypatch.setattr(indexing_module, "HANDOFF_SECONDS", 0.0)
    handed = services.indexing.handoff
    for digest, future in handed.claim(embedding.seen.space, [b"one", b"other"]).items():
        handed.add_rows(embedding.seen.space, digest, np.zeros((1, 384), np.float16), np.zeros((1, 8), np.int8))
        future.set_result(np.zeros((1, 384), np.float32))
    services.add("b c d")
    services.indexing.start()
    settle(services)
    wait_until(lambda: len(handed) == 0)
    assert handed.tokens(embedding.seen.space, b"one") is None


def test_missing_vectors_are_computed_in_batches(
    services: ErasureServices, embedding: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text of them gets its vectors a second time, and one that is indexed nowhere none at all."""
    monkeypatch.setattr(stored_token_rows, "TOGETHER", 2)
    monkeypatch.setattr(stored_token_rows, "LOOKED_AT", 3)
    texts = [f"b {letter}" for letter in "cdefghjkl"]
    ids = add_without_rows(services, embedding, *texts, "x y z")
    services.trash(ids[-1])
    seen: list[tuple[int, IndexProgress | None]] = []
    embedding.seen.when_both = lambda size: seen.append((size, services.indexing.tokens.progress()))
    services.indexing.start()
    settle(services)
    assert kept(services, embedding.form, *texts, "x y z") == [*made(embedding, *texts), None]
    assert [size for size, _ in seen] == [2, 2, 2, 2, 1]
    found = [progress and (progress.items, progress.state) for _, progress in seen]
    assert found == [(count, "building") for count in (0, 2, 4, 6, 8)]
    tokens = services.indexing.tokens.progress()
    assert tokens is not None
    assert (tokens.state, tokens.items, tokens.share) == ("ready", 9, 1.0)


def write_without_end(services: ErasureServices, embedding: Models) -> None:
    """From here on every run of the model finds another memory behind it, so that there is always one to be indexed."""
    letters = itertools.product("bcdefghjklmn", repeat=6)
    embedding.seen.when_both = lambda _: services.add(" ".join(next(letters)))


def test_constant_writes_do_not_keep_those_that_are_missing_from_being_made(
    services: ErasureServices, embedding: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_token_rows, "TOGETHER", 2)
    texts = [f"b {letter}" for letter in "cdefg"]
    add_without_rows(services, embedding, *texts)
    write_without_end(services, embedding)
    services.add("x y z")
    clock = itertools.count(0.0, TOKEN_BACKFILL_SECONDS)
    job = Job("tokens", "", services.indexing.are_tokens_due, services.indexing.fill_tokens, "")
    scheduler = Scheduler([job], clock=lambda: next(clock))
    services.indexing.start()

    def is_filled() -> bool:
        scheduler.run_round()
        return None not in kept(services, embedding.form, *texts)

    wait_until(is_filled)
    embedding.seen.when_both = lambda _: None
    assert kept(services, embedding.form, *texts) == made(embedding, *texts)


def test_constant_writes_do_not_keep_a_backlog_from_getting_its_vectors(
    services: ErasureServices, embedding: Models
) -> None:
    write_without_end(services, embedding)
    texts = [f"x y {letter}" for letter in "abcdefghjkl"]
    write(services.store, *(PutMemory(data=sample_memory(number, text)) for number, text in enumerate(texts)))
    services.add("x y z")
    services.indexing.start()

    def has_vectors() -> bool:
        with services.store.snapshot() as snapshot:
            return all(snapshot.vectors(embedding.seen.space, text_hash(text), 32) is not None for text in texts)

    wait_until(has_vectors)
    embedding.seen.when_both = lambda _: None


def test_before_a_text_has_its_vectors_no_rows_are_made_of_it(services: ErasureServices, embedding: Models) -> None:
    """They come with the vectors, from one run of the model."""
    services.add("b c d")
    add_without_rows(services, embedding, "e f")
    backfill = TokenBackfill(services.store, services.views, embedding)
    while backfill.run_slice(embedding.seen, 0):
        pass
    assert kept(services, embedding.form, "b c d", "e f") == [None, *made(embedding, "e f")]


def test_existing_vectors_are_not_computed_again_after_a_start(
    tmp_path: Path, services: ErasureServices, embedding: Models
) -> None:
    add_without_rows(services, embedding, "b c", "d e")
    services.store.put_vectors([TextVectors(embedding.form.space, text_hash("b c"), np.ones((1, 8), np.int8))]).result()
    services.indexing.start()
    settle(services)
    assert kept(services, embedding.form, "b c") == [[[1] * 8]]
    assert embedding.seen.both == ["d e"]
    services.close()
    again = ErasureServices(tmp_path / "data", embedding)
    again.indexing.start()
    settle(again)
    assert embedding.seen.both == ["d e"]
    again.close()


def test_a_memory_that_comes_to_say_what_is_known_without_rows_gets_them_too(
    services: ErasureServices, embedding: Models
) -> None:
    """Every memory has been looked at already."""
    changed = services.add("b c")
    services.add("d e")
    services.indexing.start()
    settle(services)
    (rows,) = embedding.seen.embedder.encode_batch(["f g"])
    services.store.put_vectors([TextVectors(embedding.seen.space, text_hash("f g"), rows.astype(np.float16))]).result()
    services.edit(changed, content="f g")
    wait_until(services.indexing.lacks_tokens)
    settle(services)
    assert kept(services, embedding.form, "f g") == made(embedding, "f g")


def test_recomputing_the_vectors_replaces_them(services: ErasureServices, embedding: Models) -> None:
    services.add("b c d")
    services.indexing.start()
    settle(services)
    services.store.put_vectors(
        [TextVectors(embedding.form.space, text_hash("b c d"), np.ones((1, 8), np.int8))]
    ).result()
    services.indexing.reindex(recompute=True)
    wait_until(lambda: kept(services, embedding.form, "b c d") == made(embedding, "b c d"))


def test_with_another_projection_they_are_computed_again_under_its_own_space(
    tmp_path: Path, services: ErasureServices, embedding: Models, models: Path
) -> None:
    services.add("b c d")
    services.indexing.start()
    settle(services)
    services.close()
    newer = Models(models, OTHER)
    assert newer.seen.space == embedding.seen.space
    again = ErasureServices(tmp_path / "data", newer)
    again.indexing.start()
    settle(again)
    assert kept(again, newer.form, "b c d") == made(newer, "b c d")
    assert kept(again, newer.form, "b c d") != kept(again, embedding.form, "b c d")
    assert newer.seen.plain == [], "its vectors are those of before"
    again.close()
    newer.close()


def test_switched_off_none_are_made_and_compacting_gives_up_those_there_are(
    tmp_path: Path, services: ErasureServices, embedding: Models, models: Path
) -> None:
    services.add("b c d")
    services.indexing.start()
    settle(services)
    StoreMaintenance(services.store, Disk(), embedding.spaces).compact("all")
    assert kept(services, embedding.form, "b c d") == made(embedding, "b c d"), "while it is on they stay"
    services.close()
    without = Models(models, None)
    again = ErasureServices(tmp_path / "data", without)
    again.indexing.start()
    again.add("e f g")
    wait_until(lambda: again.indexing.waiting() == 0 and again.indexing.progress().state == "ready")
    assert again.indexing.tokens.progress() is None
    StoreMaintenance(again.store, Disk(), without.spaces).compact("all")
    assert kept(again, embedding.form, "b c d", "e f g") == [None, None]
    with again.store.snapshot() as snapshot:
        assert snapshot.vectors(without.seen.space, text_hash("b c d"), 32) is not None
    again.close()
    without.close()


def test_the_token_rows_of_a_forgotten_text_go_and_no_others(services: ErasureServices, embedding: Models) -> None:
    asked = services.add("b c d")
    services.add("x y z")
    services.indexing.start()
    settle(services)
    (rows,) = kept(services, embedding.form, "b c d")
    service = services.embedding
    service.encode_query_tokens(embedding.seen, "b c d")
    needle = np.array(rows, np.int8).tobytes()
    database = services.folder / "db" / "data.mdb"
    assert needle in database.read_bytes()
    services.forget(asked)
    assert kept(services, embedding.form, "b c d", "x y z") == [None, *made(embedding, "x y z")]
    assert needle not in database.read_bytes(), "nor in any page that is free"
    assert not service._queries


def test_while_the_journal_stands_in_none_are_made(tmp_path: Path, embedding: Models) -> None:
    """It has none of those that are kept in the database: all would be computed again."""
    disk = FaultyDisk()
    services = ErasureServices(tmp_path / "data", embedding, disk)
    add_without_rows(services, embedding, "b c", "d e")
    services.close()
    disk.opening = BROKEN
    services = ErasureServices(tmp_path / "data", embedding, disk)
    assert services.store.degraded
    filling = TokenBackfill(services.store, services.views, embedding)
    assert not filling.run_slice(embedding.seen, 0)
    disk.opening = None
    wait_until(lambda: not services.store.degraded)
    while filling.run_slice(embedding.seen, 0):
        pass
    assert kept(services, embedding.form, "b c", "d e") == made(embedding, "b c", "d e")
    disk.committing = disk.opening = BROKEN
    services.add("f g")
    assert services.store.degraded
    assert not filling.run_slice(embedding.seen, 0)
    disk.committing = disk.opening = None
    wait_until(lambda: not services.store.degraded)
    progress = filling.progress()
    assert progress is not None
    assert (progress.items, progress.share) == (0, 0.0), "and all of what is back is looked at again"
    services.close()


def test_a_text_of_which_the_model_gives_no_numbers_is_passed_over(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_token_rows, "TOGETHER", 1)
    ill = Models(models, IllProjection(np.eye(32, 8, dtype=np.float16)))
    services = ErasureServices(tmp_path / "data", ill)
    add_without_rows(services, ill, "b c", "d", "f g")
    services.indexing.start()
    settle(services)
    assert kept(services, ill.form, "b c", "d", "f g") == [*made(ill, "b c"), None, *made(ill, "f g")]
    services.close()
    ill.close()


# Recall


def test_comparisons_are_kept_until_something_is_erased(services: ErasureServices, embedding: Models) -> None:
    def known() -> int:
        return len(services.recalling._ranking_inputs._learned._tokens._places)

    ids = [services.add(f"b c {last}") for last in "defg"]
    services.indexing.start()
    wait_until(lambda: services.indexing.serving() is not None and not services.indexing.waiting())
    wait_until(lambda: all(kept(services, embedding.form, f"b c {last}")[0] for last in "defg"))
    first = [hit.details.memory.id for hit in services.recall("b c f").hits]
    assert known() == 4
    assert [hit.details.memory.id for hit in services.recall("b c f").hits] == first
    services.forget(ids[0])
    assert known() == 0
    services.recall("b c f")
    assert known() == 3


# Queries


def test_a_query_and_its_tokens_are_one_run_and_remembered_together(embedding: Models) -> None:
    seen = embedding.seen
    first = embedding.encode_query_tokens(seen, "b c a d")
    assert first.words == ("b", "c", "d")
    assert first.spans == ((0, 1), (2, 3), (6, 7))
    assert embedding.encode_query_tokens(seen, "b c a d") is first
    assert embedding.encode_query(seen, "b c a d") is first.vector
    for array in (first.vector, first.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    vector = embedding.encode_query(seen, "e f")
    assert np.array_equal(embedding.encode_query_tokens(seen, "e f").vector, vector)
    assert len(embedding._queries) == 2
    embedding.clear_query_cache()
    assert embedding.encode_query_tokens(seen, "b c a d") is not first


def test_of_a_query_with_a_prefix_in_front_only_its_own_words_count(tmp_path: Path, tiny_source: Path) -> None:
    name = "BAAI/bge-small-en-v1.5"  # whose prefix is: Represent this sentence for searching relevant passages:
    manifest = installation.import_path(tiny_source, tmp_path / "models", name=name, allow_unverified=True)
    assert manifest.query_prefix
    embedder = GraphEmbedder(manifest, PROJECTION)
    query = embedder.encode_query_tokens("b c")
    assert (query.words, query.spans, query.rows.shape) == (("b", "c"), ((0, 1), (2, 3)), (2, 8))
    assert np.array_equal(query.vector, embedder.encode_query("b c"))


def test_remaining_work_is_counted_while_memories_change_their_state(
    services: ErasureServices, embedding: Models
) -> None:
    """The columns are the writer's, which another thread stands for here; it is a copy of theirs that is looked at."""
    filling, columns, rows = TokenBackfill(services.store, services.views, embedding), services.views.attributes, 60_000
    assert not filling.run_slice(embedding.seen, 0)  # takes up the model
    text = Memory(id="018f0000-0000-7000-8000-000000000001", content="a", created_at=1, modified_at=1, event_at=1)
    columns.put(0, text, None)
    columns.put(rows - 1, text, None)
    stopping = threading.Event()

    def change() -> None:
        for number in itertools.count(rows):
            columns.put(rows - 1, msgspec.structs.replace(text, state="discarded"), None)
            columns.put(rows - 1, text, None)
            columns.put(number, text, None)
            if stopping.is_set():
                return

    thread, before = threading.Thread(target=change), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(2_000):
            progress = filling.progress()
            assert progress is not None
            assert 0.0 <= progress.share <= 1.0
    finally:
        stopping.set()
        thread.join()
        sys.setswitchinterval(before)
