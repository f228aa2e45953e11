"""A cross-encoder: how it comes here from a folder, what it says, and how long it is kept; and the reader of answers.
SPEC 4.3, 7.3, 11 [L21]"""

import asyncio
import contextlib
import gc
import itertools
import json
import shutil
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import mnemo_daemon
from mnemo_client.protocol.status import ModelStatus
from mnemo_core.text.languages import content_words
from mnemo_daemon import settings
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.app import Daemon
from mnemo_daemon.errors import DamagedModelError, UnsupportedModel, UnverifiedModel
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelManifest
from mnemo_daemon.models.cross_encoder import IDLE_SECONDS, READER, AnswerReader, CrossEncoder, CrossEncoderService
from mnemo_daemon.models.embedders.embedding import EmbeddingService, load_embedder
from mnemo_daemon.services import Services
from mnemo_daemon.settings import DEFAULT_RERANKER
from tests.bench.fit_answer_reader import READINGS, area, worlds
from tests.support.cross_encoder_files import TOKENS_MAX, score_of, write_cross_encoder
from tests.support.running_daemon import printed

QUESTION = "Where is the key?"  # `where` and the mark are no words of the model


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "source")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def install(source: Path, models: Path, name: str = DEFAULT_RERANKER) -> ModelManifest:
    return installation.import_path(source, models, name=name, allow_unverified=True)


class ManualClock:
    """In seconds; it goes on when it is told to."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


# Coming here


def test_a_folder_whose_config_says_that_it_judges_pairs_is_a_cross_encoder(source: Path, models: Path) -> None:
    (source / "model.safetensors").write_bytes(b"the same weights, in a form that is not used")
    manifest = install(source, models)
    assert (manifest.name, manifest.role, manifest.form) == (DEFAULT_RERANKER, "reranker", "fastembed")
    assert (manifest.dimensions, manifest.weights_file, manifest.verified) == (0, "onnx/model.onnx", False)
    (listed,) = [each for each in ModelCatalogue(models).listing() if each.name == DEFAULT_RERANKER]
    assert (listed.role, listed.installed, listed.dimensions) == ("reranker", True, None)


def test_another_cross_encoder_comes_in_by_a_name_of_its_own(source: Path, models: Path) -> None:
    assert install(source, models, "made/overlap").role == "reranker"
    with pytest.raises(UnverifiedModel):
        installation.import_path(source, models, name="made/overlap")


def test_a_cross_encoder_is_no_embedding_model_and_takes_no_name_of_one(source: Path, models: Path) -> None:
    with pytest.raises(
        UnsupportedModel, match=r"is a cross-encoder, and BAAI/bge-small-en-v1\.5 is an embedding model"
    ):
        install(source, models, "BAAI/bge-small-en-v1.5")
    manifest = install(source, models)
    with pytest.raises(UnsupportedModel, match="is a cross-encoder, not an embedding model"):
        load_embedder(manifest)
    service = EmbeddingService(ModelCatalogue(models), threads=1)
    with pytest.raises(UnsupportedModel, match="is a cross-encoder, not an embedding model"):
        service.use(DEFAULT_RERANKER)
    assert service.spaces() == []
    service.close()


def test_a_model_that_gives_no_score_of_a_pair_is_refused_and_leaves_nothing(tmp_path: Path, models: Path) -> None:
    with pytest.raises(UnsupportedModel, match="cannot be used"):
        install(write_cross_encoder(tmp_path / "broken", output="none"), models)
    assert ModelCatalogue(models).installed(DEFAULT_RERANKER) is None
    assert [path.name for path in models.iterdir() if path.is_dir()] == []


def test_a_folder_with_the_weights_in_another_form_alone_is_refused(source: Path, models: Path) -> None:
    shutil.rmtree(source / "onnx")
    (source / "model.safetensors").write_bytes(b"")
    with pytest.raises(UnsupportedModel, match="holds no model"):
        install(source, models)


# What it says


@pytest.fixture
def encoder(source: Path, models: Path) -> CrossEncoder:
    return CrossEncoder(install(source, models))


def test_a_score_is_the_sigmoid_of_what_the_model_gives(encoder: CrossEncoder) -> None:
    texts = ["The key is in the garden.", "A blue boat.", "The boat.", "", "key key"]
    # the, key, is and the again: four pairs; none; one; none; two
    scores = encoder.scores(QUESTION, texts)
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([score_of(common) for common in (4, 0, 1, 0, 2)], abs=1e-6)
    assert encoder.scores(QUESTION, []).tolist() == []


def test_a_score_is_the_same_in_any_company_and_on_any_thread(encoder: CrossEncoder) -> None:
    texts = ["the key", "a boat " * 4, "the red house is in the garden", "", "zzz"]
    alone = [encoder.scores(QUESTION, [text])[0].tobytes() for text in texts]
    with ThreadPoolExecutor(4) as threads:
        for scores in threads.map(lambda _: encoder.scores(QUESTION, texts), range(16)):
            assert [score.tobytes() for score in scores] == alone


def test_a_text_longer_than_the_input_of_the_model_is_truncated(encoder: CrossEncoder) -> None:
    filler = "boat " * TOKENS_MAX
    assert encoder.scores(QUESTION, [filler + "key", "key " + filler]).tolist() == pytest.approx(
        [score_of(0), score_of(1)], abs=1e-6
    )


def test_no_score_is_0_or_1_however_sure_the_model_is(encoder: CrossEncoder) -> None:
    # six times the same word on both sides: 36 pairs, a logit of 69, which counts as 15
    (sure,) = encoder.scores("key " * 6, ["key " * 6])
    assert 0.999999 < float(sure) < 1


def test_files_that_are_not_what_was_installed_are_not_loaded(encoder: CrossEncoder) -> None:
    path = encoder.manifest.path()
    path.write_bytes(path.read_bytes().replace(b"overlap", b"overlop"))
    with pytest.raises(DamagedModelError, match=r"model\.onnx .* is not the file that was installed"):
        CrossEncoder(encoder.manifest)


# Keeping it


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reranking(models: Path, clock: ManualClock) -> CrossEncoderService:
    return CrossEncoderService(ModelCatalogue(models), now=clock)


def test_without_an_installed_model_there_is_none_and_no_error(reranking: CrossEncoderService, models: Path) -> None:
    assert (reranking.encoder(), reranking.failure) == (None, "")
    assert CrossEncoderService(ModelCatalogue(models), "").encoder() is None


def test_it_is_taken_up_once_it_is_installed_and_kept_while_it_is_asked_for(
    reranking: CrossEncoderService, source: Path, models: Path, clock: ManualClock
) -> None:
    assert reranking.encoder() is None
    install(source, models)
    kept = reranking.encoder()
    assert kept is not None
    for _ in range(3):
        clock.at += IDLE_SECONDS - 1
        reranking.unload_if_idle()
        assert reranking.encoder() is kept


def test_it_is_let_go_when_nobody_has_asked_for_a_while_and_loaded_when_someone_does(
    reranking: CrossEncoderService, source: Path, models: Path, clock: ManualClock
) -> None:
    install(source, models)
    gone = weakref.ref(reranking.encoder())
    clock.at += IDLE_SECONDS
    reranking.unload_if_idle()
    gc.collect()
    assert gone() is None
    again = reranking.encoder()
    assert again is not None
    assert again.scores("key", ["key"]).tolist() == pytest.approx([score_of(1)])


def test_another_model_of_the_name_takes_the_place_of_the_one_that_is_loaded(
    reranking: CrossEncoderService, source: Path, models: Path
) -> None:
    install(source, models)
    first = reranking.encoder()
    config = json.loads((source / "tokenizer_config.json").read_text())
    (source / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 6}))
    install(source, models)
    second = reranking.encoder()
    assert first is not None
    assert second is not None
    # of [CLS] key [SEP] boat boat key [SEP] six are read: the last key is not
    assert first.scores("key", ["boat boat key"]).tolist() == pytest.approx([score_of(1)])
    assert second.scores("key", ["boat boat key"]).tolist() == pytest.approx([score_of(0)])
    shutil.rmtree(models)
    assert (reranking.encoder(), reranking.failure) == (None, "")


def test_one_that_is_damaged_is_named_until_it_is_installed_again(
    reranking: CrossEncoderService, source: Path, models: Path
) -> None:
    manifest = install(source, models)
    data = manifest.path().read_bytes()
    manifest.path().write_bytes(data + b" ")
    assert reranking.encoder() is None
    assert "is not the file that was installed" in reranking.failure
    manifest.path().write_bytes(data)  # the manifest is the same: it is not tried at every question
    assert reranking.encoder() is None
    assert reranking.failure
    install(source, models)
    assert reranking.encoder() is not None
    assert reranking.failure == ""


def test_a_name_of_something_else_is_no_cross_encoder(minilm_folder: Path) -> None:
    reranking = CrossEncoderService(ModelCatalogue(minilm_folder), DEFAULT_EMBEDDING)
    assert reranking.encoder() is None
    assert reranking.failure == f"{DEFAULT_EMBEDDING} is an embedding model, not a cross-encoder"


def test_one_that_fails_at_a_text_is_named_until_it_works(
    tmp_path: Path, models: Path, reranking: CrossEncoderService
) -> None:
    install(write_cross_encoder(tmp_path / "poisoned", poison="harbour"), models)
    encoder = reranking.encoder()
    assert encoder is not None
    assert reranking.scores(encoder, "key", ["a key", "a harbour"]) is None
    assert reranking.failure == f"{DEFAULT_RERANKER} gives what is no number"
    found = reranking.scores(encoder, "key", ["a key"])
    assert found is not None
    assert found.tolist() == pytest.approx([score_of(1)])
    assert reranking.failure == ""


def test_nothing_of_it_is_loaded_before_it_is_asked_for(source: Path, models: Path) -> None:
    install(source, models)
    program = (
        "import sys; from pathlib import Path; from mnemo_daemon import app;"
        "from mnemo_daemon.models.catalogue import ModelCatalogue;"
        "from mnemo_daemon.models.cross_encoder import CrossEncoderService;"
        f"reranking = CrossEncoderService(ModelCatalogue(Path({str(models)!r}))); print('onnxruntime' in sys.modules);"
        "reranking.encoder(); print('onnxruntime' in sys.modules)"
    )
    assert printed(program).split() == ["False", "True"]


# The reader of answers


@pytest.fixture(scope="module")
def reader(minilm_folder: Path) -> AnswerReader:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    return AnswerReader(manifest)


def test_the_reader_tells_answers_from_near_misses_that_share_more_words(reader: AnswerReader) -> None:
    """Of the held-out worlds, each question with a statement that answers it, or with the one that is most like it."""
    scores, right = [], []
    for world in itertools.islice(worlds(READINGS / "worlds" / "heldout.txt"), 4):
        for question, answers, perhaps in world.questions:
            if not perhaps:
                words = content_words(question)
                closest = max(world.texts, key=lambda number: len(words & content_words(world.texts[number])))
                scores += reader.scores(question, [world.texts[min(answers, default=closest)]]).tolist()
                right.append(bool(answers))
    assert len(right) > 120
    assert area(scores, right) > 0.75


def test_the_reader_of_answers_reads_each_text_alone_and_on_any_thread(reader: AnswerReader) -> None:
    texts = ["The ferry leaves at 7:40.", "", "pier " * 300, "今天的天气很好"]
    alone = [reader.scores("When does it leave?", [text])[0].tobytes() for text in texts]
    with ThreadPoolExecutor(4) as threads:
        for scores in threads.map(lambda _: reader.scores("When does it leave?", texts), range(8)):
            assert [score.tobytes() for score in scores] == alone
    assert reader.scores("", []).tolist() == []


def test_the_reader_of_answers_needs_the_model_that_it_was_fitted_to(source: Path, models: Path) -> None:
    manifest = install(source, models)
    with pytest.raises(UnsupportedModel, match="not fitted to the weights of"):
        AnswerReader(manifest)
    service = CrossEncoderService(ModelCatalogue(models), DEFAULT_EMBEDDING, load=AnswerReader)
    assert (service.encoder(), service.failure) == (None, "")


@contextlib.contextmanager
def services_with(models: Path, folder: Path) -> Iterator[Services]:
    places = {"DATA_DIR": folder / "data", "SOCKET": folder / "s", "MODELS_FOLDER": models}
    environ = {f"MNEMO_{name}": str(path) for name, path in places.items()} | {"HOME": str(folder)}

    async def made() -> Services:
        return Daemon(settings.load(environ)).services

    services = asyncio.run(made())
    services.open()
    yield services
    services.close()


def test_the_job_frees_the_reader_of_answers_ten_minutes_after_the_last_question(
    minilm_folder: Path, tmp_path: Path, clock: ManualClock
) -> None:
    with services_with(minilm_folder, tmp_path) as services:
        service = CrossEncoderService(services.catalogue, DEFAULT_EMBEDDING, clock, AnswerReader)
        services.answer_reader = service
        (job,) = (each for each in jobs_of(services) if each.name == "model_unloading")
        gone = weakref.ref(service.encoder())
        for seconds, is_gone in ((599, False), (1, True)):
            clock.at += seconds
            job.run()
            gc.collect()
            assert (gone() is None) is is_gone
        assert service.encoder() is not None


def test_the_status_says_why_answers_are_not_read_and_what_to_do(
    minilm_folder: Path, models: Path, tmp_path: Path
) -> None:
    def status(services: Services) -> ModelStatus:
        return StatusReport(services, list, list).status().models["reader"]

    def damaged(manifest: ModelManifest) -> CrossEncoder:
        raise DamagedModelError("Bad CRC-32")

    with services_with(minilm_folder, tmp_path) as services:
        assert status(services) == ModelStatus(DEFAULT_EMBEDDING, "ready")
        services.answer_reader = CrossEncoderService(services.catalogue, DEFAULT_EMBEDDING, load=damaged)
        services.answer_reader.encoder()  # as the first question does
        failed = status(services)
    assert (failed.state, failed.reason) == ("failed", "Bad CRC-32")
    with services_with(models, tmp_path / "other") as services:
        absent = status(services)
    assert (absent.state, absent.reason) == ("absent", f"{DEFAULT_EMBEDDING} is not installed")
    for each in (failed, absent):
        assert each.hint is not None
        assert f"mnemo models pull {DEFAULT_EMBEDDING}, or install mnemod again" in each.hint


def test_what_the_reader_of_answers_changes_is_in_the_model_and_of_its_shape(reader: AnswerReader) -> None:
    exact = reader.manifest.exact()
    assert exact is not None
    shapes = {each.name: tuple(each.dims) for each in onnx.load(exact.path()).graph.initializer}
    weights = np.load(Path(mnemo_daemon.__file__).parent / "projections" / READER)
    changed = {name.removesuffix(".a").removesuffix(".b") for name in weights.files} - {"head", "bias"}
    for name in changed:
        added = weights[f"{name}.a"] @ weights[f"{name}.b"] if f"{name}.a" in weights.files else weights[name]
        assert added.shape == shapes[name]
    assert len(changed) == 6 * 16
