"""A model in int8 and in float32: which is used, and a store that moves from one to the other. SPEC 2.3, 4.4, 4.5"""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mnemo_core.ingest.mutations import Draft
from mnemo_core.ingest.write_plan import BACKFILL_CURSOR
from mnemo_daemon import settings
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import DamagedModelError, WrongNumerics
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelCatalogue, ModelManifest
from mnemo_daemon.models.embedders import embedding, encoder_graph
from mnemo_daemon.models.embedders.calibration import thresholds_for
from mnemo_daemon.models.embedders.embedder import name_space
from mnemo_daemon.models.embedders.embedding import EmbeddingService, load_embedder, spaces_of
from mnemo_daemon.retrieval.question import Question
from mnemo_daemon.services import Services
from mnemo_daemon.settings import Numerics
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import PutMeta
from mnemo_store.store import Store, TextVectors, WriteReceipt, WriteResult
from tests.support.erasure_services import wait_until

NAME = "tiny-letters"
TEXTS = [f"{first} {second} {third}" for first in "abc" for second in "def" for third in "ghijk"]


@pytest.fixture(autouse=True)
def any_int8_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a processor with poor int8 arithmetic has both forms as well."""
    monkeypatch.setattr(encoder_graph, "INT8_COSINE_MIN", -1.0)
    monkeypatch.setattr(embedding, "INT8_PROBE_COSINE_MIN", -1.0)


@pytest.fixture
def manifest(tmp_path: Path, tiny_source: Path) -> ModelManifest:
    return installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)


def test_a_model_is_installed_in_both_forms_and_each_has_a_space_of_its_own(manifest: ModelManifest) -> None:
    quick, exact = (load_embedder(manifest, numerics=numerics) for numerics in ("int8", "float32"))
    assert (quick.form, exact.form) == ("int8", "float32")
    assert quick.space != exact.space
    assert load_embedder(manifest).space == quick.space
    one, other = quick.encode_query("a b c"), exact.encode_query("a b c")
    assert not np.array_equal(one, other)
    assert one @ other > 0.9
    assert spaces_of(ModelCatalogue(Path(manifest.folder).parent)) == [quick.space, exact.space]


def test_float32_is_used_where_the_processor_computes_int8_wrongly(
    manifest: ModelManifest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The case of a disk with models that is moved to another computer."""
    exact = load_embedder(manifest, numerics="float32")
    monkeypatch.setattr(embedding, "INT8_PROBE_COSINE_MIN", 1.1)  # no processor is that good
    found = load_embedder(manifest)
    assert (found.form, found.space) == ("float32", exact.space)
    assert np.array_equal(found.encode_query("a b c"), exact.encode_query("a b c"))
    assert any("it is used in float32" in record.message for record in caplog.records)
    with pytest.raises(DamagedModelError, match="computes wrong vectors on this processor"):
        load_embedder(manifest, numerics="int8")


def test_int8_that_differs_from_where_it_was_installed_is_not_taken_for_the_same(manifest: ModelManifest) -> None:
    other = tuple(-number for number in manifest.own_probe)
    assert load_embedder(msgspec.structs.replace(manifest, own_probe=other)).form == "float32"


def test_a_form_that_is_not_installed_is_refused_by_name(
    tmp_path: Path, tiny_source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_graph, "INT8_COSINE_MIN", 1.1)
    manifest = installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    assert (manifest.form, len(manifest.forms())) == ("float32", 1)
    assert load_embedder(manifest, numerics="float32").form == "float32"
    with pytest.raises(WrongNumerics, match="installed in float32 alone, and"):
        load_embedder(manifest, numerics="int8")
    service = EmbeddingService(ModelCatalogue(tmp_path / "models"), NAME, threads=1, numerics="int8")
    service.refresh()
    assert service.status().state == "failed"
    assert "models.numerics" in (service.status().hint or "")
    service.close()


def test_a_model_that_was_installed_in_int8_alone_is_built_again_by_a_pull(
    manifest: ModelManifest, tmp_path: Path
) -> None:
    assert installation._installed_intact(NAME, tmp_path / "models") == manifest
    older = msgspec.structs.replace(manifest, exact_file="", exact_numerics="", own_probe=())
    Path(manifest.folder, "manifest.json").write_bytes(msgspec.json.encode(older))
    assert installation._installed_intact(NAME, tmp_path / "models") is None
    assert load_embedder(older).space == name_space(manifest), "until then it is used as it was"


def test_a_damaged_file_of_the_other_form_matters_only_to_that(manifest: ModelManifest, tmp_path: Path) -> None:
    exact = manifest.exact()
    assert exact is not None
    exact.path().write_bytes(b"damaged")
    assert load_embedder(manifest).form == "int8"
    with pytest.raises(DamagedModelError):
        load_embedder(manifest, numerics="float32")
    assert installation._installed_intact(NAME, tmp_path / "models") is None


def test_each_form_has_its_thresholds(manifest: ModelManifest) -> None:
    known = msgspec.structs.replace(manifest, name="all-MiniLM-L6-v2")
    quick, exact = map(thresholds_for, known.forms())
    assert quick.calibrated
    assert exact.calibrated
    assert (quick.near, exact.near) == (0.684, 0.694)


class ForeignMachine:
    """A daemon over the same data, on a processor of the one kind or the other."""

    def __init__(self, folder: Path, numerics: Numerics, store: type[Store] = Store) -> None:
        self.store = store
        names = {"DATA_DIR": "data", "SOCKET": "s", "MODELS_FOLDER": "models"}
        environ = {f"MNEMO_{name}": str(folder / path) for name, path in names.items()}
        self.configuration = settings.load(environ | {"MNEMO_MODELS_NUMERICS": numerics, "HOME": str(folder)})

    async def __aenter__(self) -> Services:
        self.daemon = Daemon(self.configuration, open_store=self.store.open)
        await asyncio.to_thread(self.daemon.open)
        return self.daemon.services

    async def __aexit__(self, *unused: object) -> None:
        await asyncio.to_thread(self.daemon.close)


def answers(services: Services, query: str) -> list[str]:
    question = Question(query, MemoryFilter(namespaces=("default",)), top_k=5)
    return [hit.details.memory.content for hit in services.recall.answer(question).hits]


def state_of(services: Services) -> tuple[str, list[str]]:
    return StatusReport(services, list, list).state()


def form(services: Services) -> str | None:
    return services.embedding.status().form


def test_changes_to_compare_are_not_counted_as_memories_without_a_vector(
    manifest: ModelManifest, tmp_path: Path
) -> None:
    async def live() -> None:
        async with ForeignMachine(tmp_path, "int8") as services:
            draft = Draft(content="a d g", namespace="default", user_id="local", trust="user", source="test")
            services.memories.remember(draft, Caller("test")).result()
            services.use_model(manifest.name)
            report = StatusReport(services, list, list)
            await asyncio.to_thread(wait_until, lambda: not any(report.status().queue.values()))
            await asyncio.to_thread(services.indexing.stop)  # nothing compares what is marked from here on
            services.store.transact(
                lambda _: WriteResult((PutMeta(name=BACKFILL_CURSOR, value="1"),), None), by="test"
            ).result()
            status = report.status()
            assert status.state == "ready"
            assert status.queue["vectors"] == 0
            assert status.queue["comparisons"] > 0

    asyncio.run(live())


def test_a_store_that_moves_to_another_processor_and_back_goes_on_answering(
    manifest: ModelManifest, tmp_path: Path
) -> None:
    async def live() -> None:
        async with ForeignMachine(tmp_path, "int8") as services:
            draft = Draft(content="", namespace="default", user_id="local", trust="user", source="test")
            for text in TEXTS:
                services.memories.remember(draft._replace(content=text), Caller("test")).result()
            services.use_model(manifest.name)
            await asyncio.to_thread(wait_until, lambda: state_of(services)[0] == "ready")
            assert form(services) == "int8"
            before = answers(services, "a d g")
            quick = services.indexing.serving()
        async with ForeignMachine(tmp_path, "float32") as services:
            assert answers(services, "a d g")[0] == "a d g", "by words, before any vector is there"
            await asyncio.to_thread(wait_until, lambda: state_of(services)[0] == "ready")
            assert form(services) == "float32"
            assert answers(services, "a d g")[0] == "a d g"
            exact = services.indexing.serving()
            assert quick is not None
            assert exact is not None
            assert quick.view.space != exact.view.space
            assert len(exact.view) == len(TEXTS)
        async with ForeignMachine(tmp_path, "int8") as services:
            await asyncio.to_thread(wait_until, lambda: state_of(services)[0] == "ready")
            assert form(services) == "int8"
            assert answers(services, "a d g") == before

    asyncio.run(live())


class SlowModel(Store):
    """A store that keeps no vectors until it is let."""

    may_go_on = threading.Event()

    def put_vectors(self, vectors: Sequence[TextVectors]) -> "Future[WriteReceipt[None]]":
        self.may_go_on.wait()
        return super().put_vectors(vectors)


def test_it_is_said_that_and_why_vectors_are_computed_again(manifest: ModelManifest, tmp_path: Path) -> None:
    async def live() -> None:
        async with ForeignMachine(tmp_path, "int8") as services:
            draft = Draft(content="a b c", namespace="default", user_id="local", trust="user", source="test")
            services.memories.remember(draft, Caller("test")).result()
            services.use_model(manifest.name)
            await asyncio.to_thread(wait_until, lambda: state_of(services)[0] == "ready")
        try:
            async with ForeignMachine(tmp_path, "float32", SlowModel) as services:
                await asyncio.to_thread(wait_until, lambda: services.indexing.refill_cause != "")
                state, (reason,) = state_of(services)
                assert state == "warming"
                assert reason.startswith("1 memory waits for its vector: the vectors were computed by")
                assert "other numerics than the float32 used here" in reason
                assert answers(services, "a b c") == ["a b c"]
                SlowModel.may_go_on.set()
                await asyncio.to_thread(wait_until, lambda: state_of(services)[0] == "ready")
                await asyncio.to_thread(wait_until, lambda: services.indexing.refill_cause == "")
        finally:
            SlowModel.may_go_on.set()

    asyncio.run(live())
