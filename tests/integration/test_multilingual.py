"""The multilingual encoder beside the default model: vectors of texts that are not English. SPEC 4.1"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.memories import NewMemory
from mnemo_daemon import errors
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, MULTILINGUAL, ModelCatalogue, ModelManifest
from mnemo_daemon.models.embedders.embedder import Embedder, name_space
from mnemo_daemon.models.embedders.embedding import GraphEmbedder, load_embedder
from mnemo_daemon.models.embedders.multilingual import (
    IDLE_SECONDS,
    PIECES,
    MultilingualEmbedder,
    MultilingualEncoder,
)
from tests.bench.fit_answer_reader import READINGS, LabelledWorld, worlds
from tests.support.http_application import until
from tests.support.running_daemon import running

SECONDS_MAX = 60.0
PARALLEL = (
    ("Where is the spare key of the garden shed?", "Wo ist der Ersatzschlüssel vom Gartenhaus?"),
    ("Dr. Lindner moved my appointment to Thursday.", "Dr. Lindner hat meinen Termin auf Donnerstag verlegt."),
    ("The invoice has to be paid before Friday.", "La facture doit être payée avant vendredi."),
    ("My son wears shoe size 34.", "Mi hijo calza un 34."),
    ("We sold the old car in spring.", "Wir haben das alte Auto im Frühling verkauft."),
    ("The cat is afraid of thunder.", "猫は雷を怖がります。"),
)


def manifest_in(folder: Path) -> ModelManifest:
    manifest = ModelCatalogue(folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    return manifest


@pytest.fixture(scope="module", params=["int8", "float32"])
def embedder(multilingual_folder: Path, request: pytest.FixtureRequest) -> Iterator[Embedder]:
    loaded = load_embedder(manifest_in(multilingual_folder), numerics=request.param)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def alone(minilm_folder: Path) -> Iterator[Embedder]:
    loaded = load_embedder(manifest_in(minilm_folder), numerics="float32")
    yield loaded
    loaded.close()


def test_what_means_the_same_in_two_languages_is_near_each_other_and_nothing_else_is(embedder: Embedder) -> None:
    one, two = (np.array([embedder.encode_query(pair[side]) for pair in PARALLEL]) for side in (0, 1))
    sims = one @ two.T
    assert sims.argmax(axis=0).tolist() == sims.argmax(axis=1).tolist() == list(range(len(PARALLEL)))
    assert np.median(sims[~np.eye(len(sims), dtype=bool)]) < 0.2 < np.median(np.diag(sims))


def test_questions_find_the_answer_in_the_other_language(embedder: Embedder, alone: Embedder) -> None:
    path = READINGS / "translated.txt"
    titles = re.findall("^# world (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    held_out = [world for title, world in zip(titles, worlds(path), strict=True) if title.startswith("heldout")]
    asked = sum(bool(right) for world in held_out for _, right, _ in world.questions)
    found, before = (sum(first_hits(world, each) for world in held_out) for each in (embedder, alone))
    assert asked == 66
    assert before < 0.45 * asked < 0.55 * asked < found


def first_hits(world: LabelledWorld, embedder: Embedder) -> int:
    numbers, told = [*world.texts], np.array([rows[0] for rows in embedder.encode_batch([*world.texts.values()])])
    return sum(
        numbers[int((told @ embedder.encode_query(text)).argmax())] in right for text, right, _ in world.questions
        if right
    )  # fmt: skip


def test_an_english_text_has_the_vector_and_the_token_rows_of_the_default_model(
    multilingual_folder: Path, alone: Embedder
) -> None:
    both = load_embedder(manifest_in(multilingual_folder), numerics="float32")
    english = [pair[0] for pair in PARALLEL]
    for one, other in zip(both.encode_each(english), alone.encode_each(english), strict=True):
        assert np.array_equal(one[0], other[0])
        assert one[1] is not None
        assert other[1] is not None
        assert np.array_equal(one[1], other[1])
    assert np.array_equal(both.encode_query(english[0]), alone.encode_query(english[0]))
    assert both.space in map(name_space, manifest_in(multilingual_folder).forms())
    assert both.space != alone.space
    both.close()


def test_no_vector_depends_on_the_company_of_its_text_or_on_who_asks(embedder: Embedder) -> None:
    texts = [side for pair in PARALLEL for side in pair]
    together = embedder.encode_batch(texts)
    for text, rows in zip(texts, together, strict=True):
        assert np.array_equal(embedder.encode_batch([text])[0], rows)
        assert np.allclose(embedder.encode_query(text), rows[0], atol=1e-6)
        assert np.linalg.norm(rows[0]) == pytest.approx(1, abs=1e-4)


def test_each_window_of_a_long_text_has_the_vector_of_its_language(embedder: Embedder, alone: Embedder) -> None:
    german = "Der Zug nach Bern fährt um acht, und wir nehmen die Fahrräder und das Zelt mit. " * 12
    english = "The train to Berne leaves at eight, and we take the bicycles and the tent with us. " * 40
    (rows,), (before,) = (each.encode_batch([german + english]) for each in (embedder, alone))
    assert len(rows) == len(before) > 3
    same = [float(one @ other) > 0.98 for one, other in zip(rows, before, strict=True)]
    assert same[0] is False
    assert all(same[3:])


STATEMENTS = (
    "Uli mows the lawn.", "Lilly goes to the dentist on Wednesday.", "The trailer is parked at the farm.",
    "Die Bäckerei macht um sechs auf.", "Der Hund bekommt morgens Tabletten.",
)  # fmt: skip
ASKED = (("Wer mäht den Rasen?", 0), ("Wo steht der Anhänger?", 2), ("Was kriegt der Hund am Morgen?", 4))


def first_memories(client: Client) -> list[str]:
    return [client.recall(question, cut="none").memories[0].content for question, _ in ASKED]


def test_memories_are_found_in_the_other_language_once_the_encoder_is_installed(
    multilingual_folder: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / DEFAULT_EMBEDDING).symlink_to(multilingual_folder / DEFAULT_EMBEDDING)
    with running(tmp_path / "data", {"MNEMO_MODELS_FOLDER": str(models)}) as daemon, daemon.client() as client:
        daemon.wait_for_vectors()
        with pytest.raises(RefusalError, match="is not installed"):
            client.use_model(MULTILINGUAL)
        for text in STATEMENTS:
            client.remember(NewMemory(content=text))
        daemon.wait_for_vectors()
        right = [STATEMENTS[place] for _, place in ASKED]
        assert first_memories(client) != right
        (models / MULTILINGUAL).symlink_to(multilingual_folder / MULTILINGUAL)
        client.use_model(MULTILINGUAL)  # as `mnemo models pull` does at its end
        until(lambda: first_memories(client) == right, SECONDS_MAX)


def test_the_encoder_is_loaded_by_the_first_text_that_needs_it_until_it_is_idle(multilingual_folder: Path) -> None:
    manifest = manifest_in(multilingual_folder)
    assert manifest.beside is not None
    now = [1000.0]
    encoder = MultilingualEncoder(manifest.beside, lambda: now[0])
    loaded = load_embedder(msgspec.structs.replace(manifest, beside=None))
    assert isinstance(loaded, GraphEmbedder)
    both = MultilingualEmbedder(loaded, encoder)
    both.encode_query(PARALLEL[0][0])
    assert not encoder.is_loaded
    both.encode_query(PARALLEL[0][1])
    now[0] += IDLE_SECONDS - 1
    both.unload_if_idle()
    assert encoder.is_loaded
    now[0] += 1
    both.unload_if_idle()
    assert not encoder.is_loaded
    assert np.isfinite(both.encode_query(PARALLEL[0][1])).all()


def test_a_damaged_encoder_is_said_and_not_used(multilingual_folder: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(multilingual_folder, models)
    manifest = manifest_in(models)
    assert isinstance(load_embedder(manifest), MultilingualEmbedder)
    assert manifest.beside is not None
    content = bytearray(manifest.beside.path().read_bytes())
    content[len(content) // 2] ^= 1
    manifest.beside.path().write_bytes(content)
    with pytest.raises(errors.DamagedModelError, match=MULTILINGUAL):
        load_embedder(manifest)


def test_files_that_hold_no_encoder_are_refused(tmp_path: Path, multilingual_folder: Path) -> None:
    (tmp_path / "weights.npz").write_bytes(b"PK")
    (tmp_path / PIECES).write_bytes(b"")
    with pytest.raises(errors.ModelError):
        installation.import_path(tmp_path, tmp_path / "models", name=MULTILINGUAL)
    manifest = manifest_in(multilingual_folder).beside
    assert manifest is not None
    with pytest.raises(errors.DamagedModelError):
        MultilingualEncoder(msgspec.structs.replace(manifest, files_folder="elsewhere"))
