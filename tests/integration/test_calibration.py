"""Calibrating models that are really there: `mnemo models calibrate`, and what the daemon makes of it. SPEC 4.5, 14"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_core.similarity.thresholds import (
    ANCHORS_G,
    COSINES,
    LABELS,
    MEASURED,
    PAIRS,
    SOURCE,
    LabelledPair,
    Thresholds,
    calibrate,
    of_model,
    share_reaching,
)
from mnemo_daemon.errors import UndiscriminatingModel
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelManifest
from mnemo_daemon.models.embedders import calibration
from mnemo_daemon.models.embedders.calibration import FILE_NAME, calibration_file, similarities, thresholds_for
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, RunAll, name_space
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.settings import Numerics
from tests.support.running_daemon import running

FORMS: tuple[Numerics, ...] = ("auto", "float32")
SPLITS = 20  # of the pairs into halves, to be rid of which pair came into which


@pytest.fixture(scope="module", params=FORMS)
def minilm(minilm_folder: Path, request: pytest.FixtureRequest) -> Iterator[Embedder]:
    """In the form that this processor computes best, and in the one that every processor computes well."""
    embedder = load_embedder(manifest_in(minilm_folder), numerics=request.param)
    kept: dict[str, Floats] = {}
    encode = embedder.encode_batch

    def encode_once(texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        new = [text for text in dict.fromkeys(texts) if text not in kept]
        kept.update(zip(new, encode(new, run_all), strict=True))
        return [kept[text] for text in texts]

    embedder.encode_batch = encode_once  # type: ignore[method-assign]
    yield embedder
    embedder.close()


@pytest.fixture(scope="module")
def measured(minilm: Embedder) -> Sequence[float]:
    """The similarity of every pair."""
    return similarities(minilm)


@pytest.fixture(scope="module")
def calibrated(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models with the default one, calibrated, in it."""
    folder = tmp_path_factory.mktemp("calibrated")
    shutil.copytree(minilm_folder / DEFAULT_EMBEDDING, folder / DEFAULT_EMBEDDING)
    calibration.calibrate(DEFAULT_EMBEDDING, folder)
    return folder


@pytest.fixture
def folder(minilm_folder: Path, tmp_path: Path) -> Path:
    """A folder of models of the test's own, with the default one in it."""
    shutil.copytree(minilm_folder / DEFAULT_EMBEDDING, tmp_path / "models" / DEFAULT_EMBEDDING)
    (tmp_path / "models" / DEFAULT_EMBEDDING / FILE_NAME).unlink(missing_ok=True)
    return tmp_path / "models"


def manifest_in(folder: Path, name: str = DEFAULT_EMBEDDING) -> ModelManifest:
    manifest = ModelCatalogue(folder).installed(name)
    assert manifest is not None
    return manifest


def used_in(folder: Path, numerics: Numerics) -> ModelManifest:
    """The default model in the form that the setting leads to."""
    manifest = manifest_in(folder)
    return (manifest.exact() or manifest) if numerics == "float32" else manifest


class NarrowEmbedder(Embedder):
    """Another geometry, made of a model's: 96 dimensions of chance, and much that all texts have in common.

    Unrelated texts then have cosines of 0.6, as on the models with a narrow scale.
    """

    COMMON = 1.2

    def __init__(self, embedder: Embedder) -> None:
        chance = np.random.default_rng(7)
        self._embedder = embedder
        self._projection = (chance.standard_normal((embedder.dimensions, 96)) / np.sqrt(96)).astype(np.float32)
        common = chance.standard_normal(96)
        self._common = (self.COMMON * common / np.linalg.norm(common)).astype(np.float32)
        self.name, self.dimensions = "narrowed", 96
        self.space, self.tokens_max = "narrowed", embedder.tokens_max

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return [self._narrow(rows) for rows in self._embedder.encode_batch(texts, run_all)]

    def encode_query(self, text: str) -> Floats:
        narrow: Floats = self._narrow(self._embedder.encode_query(text)[None])[0]
        return narrow

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.count_tokens(texts)

    def close(self) -> None:
        pass

    def _narrow(self, rows: Floats) -> Floats:
        moved: Floats = rows @ self._projection + self._common
        unit: Floats = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        return unit


def halves(seed: int) -> tuple[list[int], list[int]]:
    """The pairs in two halves, each with half of every label and language."""
    groups = defaultdict(list)
    for place, pair in enumerate(PAIRS):
        groups[pair.label, pair.language].append(place)
    chance, one = random.Random(seed), set[int]()
    for places in groups.values():
        one.update(chance.sample(places, len(places) // 2))
    return sorted(one), sorted(set(range(len(PAIRS))) - one)


def shares(sims: Sequence[float], pairs: Sequence[LabelledPair], table: Thresholds) -> NDArray[np.float64]:
    """(thresholds, labels): the share of the English pairs of each label that reaches each threshold."""
    classes = {
        label: [
            sim for sim, pair in zip(sims, pairs, strict=True) if pair.label == label and pair.language == "en"
        ]
        for label in LABELS
    }  # fmt: skip
    return np.array([[share_reaching(classes[label], getattr(table, name)) for label in LABELS] for name in COSINES])


def _tolerance(form: str) -> float:
    """Of a threshold that is measured on another processor: one without VNNI rounds the sums of int8 products, which
    moved `same` from 0.793 to 0.772; of float32 nothing differs but the last digits."""
    return 0.03 if form == "int8" else 0.005


# What a threshold means


def test_the_table_that_comes_with_mnemod_is_what_is_measured_here(minilm: Embedder, measured: Sequence[float]) -> None:
    found = calibrate(measured, PAIRS)
    shipped = MEASURED[DEFAULT_EMBEDDING, minilm.form]
    assert found.separates
    tolerance = _tolerance(minilm.form)
    for name in COSINES:
        assert getattr(found.thresholds, name) == pytest.approx(getattr(shipped, name), abs=tolerance)


def test_a_threshold_lets_the_same_share_of_each_class_pass_on_two_models(
    minilm: Embedder, measured: Sequence[float]
) -> None:
    """Calibrated on one half of the pairs, compared on the other, the mean of several splits.

    A cosine of the one model means something else on the other: most classes pass it whole.
    """
    sims = {"one": measured, "other": similarities(NarrowEmbedder(minilm))}
    calibrated, raw = [], []
    for seed in range(SPLITS):
        known, held_out = halves(seed)
        rest = [PAIRS[place] for place in held_out]
        tables = {
            name: calibrate([each[place] for place in known], [PAIRS[place] for place in known]).thresholds
            for name, each in sims.items()
        }
        one = shares([sims["one"][place] for place in held_out], rest, tables["one"])
        others = [sims["other"][place] for place in held_out]
        calibrated.append(shares(others, rest, tables["other"]) - one)
        raw.append(shares(others, rest, tables["one"]) - one)
    off, raw_off = (np.abs(np.mean(each, axis=0)) for each in (calibrated, raw))
    assert off.max() <= 0.2, "between two anchors, where the models' classes are shaped differently"
    assert off.mean() <= 0.03
    for anchor in ANCHORS_G:
        at = [
            COSINES.index(name) for name in COSINES if getattr(SOURCE, name) == anchor.value and name != "fused_floor"
        ]
        assert all(off[place, LABELS.index(anchor.label)] <= 0.05 for place in at), anchor
    assert raw_off.max() >= 0.9, "the same cosines on both models let other texts pass"
    assert raw_off.mean() >= 0.2


# Keeping what was measured


def test_before_anything_is_measured_the_table_that_comes_with_mnemod_holds(folder: Path) -> None:
    manifest = manifest_in(folder)
    assert thresholds_for(manifest) == of_model(DEFAULT_EMBEDDING, manifest.form)


def test_a_calibration_is_kept_next_to_the_model_and_found_again(calibrated: Path, tmp_path: Path) -> None:
    shutil.copytree(calibrated, tmp_path / "models")
    path = tmp_path / "models" / DEFAULT_EMBEDDING / FILE_NAME
    assert (calibrated / DEFAULT_EMBEDDING / FILE_NAME).stat().st_mode & 0o777 == 0o600
    kept = json.loads(path.read_bytes())
    assert [row["name"] for row in kept["thresholds"]] == list(COSINES)
    kept["thresholds"][COSINES.index("near")]["cosine"] = 0.6789
    path.write_text(json.dumps(kept))
    found = thresholds_for(manifest_in(tmp_path / "models"))
    assert (found.near, found.calibrated) == (0.6789, True)
    assert ModelCatalogue(tmp_path / "models").listing()[0].state == "installed"


@pytest.mark.parametrize("change", ["another space", "another format", "a threshold less", "no JSON", "no file"])
def test_an_outdated_or_unreadable_calibration_is_ignored(calibrated: Path, tmp_path: Path, change: str) -> None:
    folder = tmp_path / "models"
    shutil.copytree(calibrated, folder)
    path = folder / DEFAULT_EMBEDDING / FILE_NAME
    kept = json.loads(path.read_bytes())
    kept["thresholds"][0]["cosine"] = 0.111
    match change:
        case "another space":
            kept["space"] = "0" * 16
        case "another format":
            kept["format"] += 1
        case "a threshold less":
            kept["thresholds"].pop()
    path.write_text("{" if change == "no JSON" else json.dumps(kept))
    if change == "no file":
        path.unlink()
    manifest = manifest_in(folder)
    assert thresholds_for(manifest) == of_model(DEFAULT_EMBEDDING, manifest.form)


def test_a_model_that_tells_nothing_apart_is_refused_and_nothing_is_kept(tmp_path: Path, tiny_source: Path) -> None:
    manifest = installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)
    with pytest.raises(UndiscriminatingModel, match=r"tiny-letters puts related texts above unrelated ones in \d+% "):
        calibration.calibrate("tiny-letters", tmp_path / "models")
    assert not Path(manifest.folder, FILE_NAME).exists()
    assert thresholds_for(manifest) == of_model(DEFAULT_EMBEDDING)._replace(calibrated=False)


# The commands


def run(folder: Path, *words: str, program: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    config = folder.parent / "config.toml"
    config.touch()
    places = {"SOCKET": "d.sock", "DATA_DIR": "data", "CONFIG": "config.toml"}
    environ = {f"MNEMO_{name}": str(folder.parent / path) for name, path in places.items()}
    return subprocess.run(
        [sys.executable, "-m", *program, *words],
        env={**os.environ, **environ, "MNEMO_MODELS_FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def mnemo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, *words, program=("mnemo_client.cli.main",))


def offline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, *words, program=("mnemo_daemon.offline",))


@pytest.mark.parametrize("numerics", FORMS)
def test_mnemo_models_calibrate_shows_each_threshold_next_to_its_sources(
    calibrated: Path, tmp_path: Path, numerics: Numerics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calibration of one numeric form does not apply to the other."""
    folder = Path(shutil.copytree(calibrated, tmp_path / "models"))
    used = used_in(folder, numerics)
    others = [each for each in manifest_in(folder).forms() if each.form != used.form]
    before = [thresholds_for(each) for each in others]
    calibration_file(used).unlink(missing_ok=True)
    monkeypatch.setenv("MNEMO_MODELS_NUMERICS", numerics)
    ended = mnemo(folder, "models", "calibrate")
    assert (ended.returncode, ended.stderr) == (0, "the daemon uses them from its next start\n")
    lines = ended.stdout.splitlines()
    assert lines[0] == f"all-MiniLM-L6-v2, measured on {len(PAIRS)} pairs of texts"
    assert lines[1].split() == ["threshold", "source", "here", "precision", "recall"]
    table = {line.split()[0]: line.split()[1:] for line in lines[2:-2]}
    assert list(table) == list(COSINES)
    assert table["near"][0] == "0.65"
    near = of_model(DEFAULT_EMBEDDING, used.form).near
    assert float(table["near"][1]) == pytest.approx(near, abs=_tolerance(used.form))
    assert len(table["same"]) == 3, "it has no source"
    assert "en 9" in lines[-2]
    assert lines[-1] == "thresholds for: en"
    kept = json.loads(calibration_file(used).read_bytes())["thresholds"]
    assert thresholds_for(used).near == next(row["cosine"] for row in kept if row["name"] == "near")
    assert [thresholds_for(each) for each in others] == before


def test_mnemo_models_calibrate_answers_in_json_what_it_keeps(folder: Path) -> None:
    answer = json.loads(mnemo(folder, "models", "calibrate", DEFAULT_EMBEDDING, "--json").stdout)
    assert answer["thresholds"] == json.loads(calibration_file(manifest_in(folder)).read_bytes())["thresholds"]


def test_calibrate_needs_no_daemon_and_no_client(folder: Path) -> None:
    ended = offline(folder, "calibrate")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1].split()[:2] == ["near", "0.65"]


def test_a_model_that_is_not_installed_is_refused_by_name(tmp_path: Path) -> None:
    ended = mnemo(tmp_path / "models", "models", "calibrate", "BAAI/bge-large-en-v1.5")
    assert ended.returncode == 1
    assert ended.stderr.startswith("mnemo: BAAI/bge-large-en-v1.5 is not installed, so it cannot be calibrated\n")
    assert "`mnemo models pull`" in ended.stderr
    unknown = offline(tmp_path / "models", "calibrate", "no such/model")
    assert unknown.returncode == 2
    assert "cannot be a model's name" in unknown.stderr


def test_a_language_model_is_refused(tmp_path: Path, smollm_file: Path) -> None:
    name = smollm_file.parent.parent.name
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / name).symlink_to(smollm_file.parent.parent)
    ended = offline(tmp_path / "models", "calibrate", name)
    assert ended.returncode == 1
    assert f"{name} is a language model, not an embedding model" in ended.stderr


# What the daemon makes of it


@pytest.mark.parametrize("numerics", FORMS)
def test_the_daemon_goes_by_what_was_measured_here(
    calibrated: Path, folder: Path, short_folder: Path, numerics: Numerics
) -> None:
    """With another threshold kept beside the model, another pair of texts is near."""
    manifest = used_in(folder, numerics)
    kept = json.loads((calibrated / DEFAULT_EMBEDDING / FILE_NAME).read_text()) | {"space": name_space(manifest)}
    for row in kept["thresholds"]:
        row["cosine"] = 0.999 if row["name"] == "near" else row["cosine"]
    calibration_file(manifest).write_text(json.dumps(kept))
    ties = []
    for place, models in enumerate((calibrated, folder)):
        environ = {"MNEMO_MODELS_FOLDER": str(models), "MNEMO_MODELS_NUMERICS": numerics}
        with running(short_folder / str(place), environ) as daemon:
            daemon.wait_for_vectors()
            with daemon.client() as client:
                client.remember("The boiler in the cellar was repaired by Jonas in May, and it is quiet now.")
                near = client.remember("The boiler in the cellar was repaired by Jonas, who came twice, and it hums.")
                ties.append(len(near.related))
    assert ties == [1, 0]
