"""The language models of a daemon: which one a task asks, and how many are loaded at once. SPEC 4.2, 12.2"""

import contextlib
import threading
import time
from pathlib import Path

import pytest

from mnemo_core.llm_sites import ModelKey, Site
from mnemo_daemon.errors import MissingModelError, UnknownModel, UnsupportedModel
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.installation import import_path
from mnemo_daemon.models.language.language_model import (
    LOADED_MAX,
    WITHOUT_MODEL,
    LanguageModelError,
    LanguageModelService,
    ModelBusy,
)
from mnemo_daemon.models.worker_process import WorkerSlots
from mnemo_daemon.settings import LlmSettings
from tests.conformance.conftest import ModelOf
from tests.support.gguf_files import write_gguf

ECHO = "ready()\nwhile True:\n    answer(prompt().text)"
HELD = """
ready()
pathlib.Path(prompt().text).touch()
while True:
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def install(folder: Path, name: str) -> None:
    """Install a language model that is never loaded."""
    file = write_gguf(folder.parent / f"{name}.gguf", {"general.architecture": "llama", "general.name": name}, {})
    import_path(file, folder, allow_unverified=True)


def service(folder: Path, model: str = "", models: dict[ModelKey, str] | None = None) -> LanguageModelService:
    return LanguageModelService(ModelCatalogue(folder), LlmSettings(model=model, models=models or {}))


def name_at(made: LanguageModelService, site: Site | None = None) -> str:
    manifest = made.manifest(site)
    assert manifest is not None
    assert made.model(site).name == f"{manifest.name}.gguf"
    return manifest.name


def test_each_task_has_its_own_model_or_that_of_its_group_or_the_default(folder: Path) -> None:
    for name in ("large", "small", "tiny"):
        install(folder, name)
    made = service(folder, "large", {"gate": "small", "answer": "tiny"})
    sites: tuple[Site, ...] = ("answer", "gate", "triage", "distill", "naming")
    assert {site: name_at(made, site) for site in sites} == {
        "answer": "tiny", "gate": "small", "triage": "small", "distill": "small", "naming": "large",
    }  # fmt: skip
    assert name_at(made) == "large"
    assert made.model("gate") is made.model("triage")
    assert {site: manifest.name for site, manifest in made.manifests().items() if manifest.name != "large"} == {
        "answer": "tiny", "gate": "small", "triage": "small", "audit": "small", "distill": "small",
    }  # fmt: skip


def test_the_model_that_a_person_chose_is_the_default_at_once_and_as_long_as_it_is_installed(folder: Path) -> None:
    install(folder, "mine")
    made = service(folder)
    assert (made.status().state, made.status().hint) == ("absent", WITHOUT_MODEL)
    made.use("mine")
    assert name_at(made) == "mine"
    made.use("gone")
    assert made.manifest() is None


def test_a_setting_that_names_no_installed_model_is_no_model_and_the_status_lists_the_right_names(folder: Path) -> None:
    install(folder, "large")
    install(folder, "small")
    made = service(folder, "large", {"answer": "smal", "resume": "other"})
    answer = "`llm.models.answer` names 'smal'; the installed language models are: large, small"
    resume = "`llm.models.resume` names 'other'; the installed language models are: large, small"
    assert made.model("answer").status().reason == answer
    assert made.status().hint == f"{answer}; {resume}"
    assert service(folder, "larg").status().reason == answer.replace("models.answer", "model").replace("smal'", "larg'")
    assert name_at(made, "naming") == "large"


def test_only_an_installed_language_model_can_be_used(folder: Path, tmp_path: Path) -> None:
    install(folder, "large")
    made = service(folder)
    assert made.require_usable("large") == "large"
    with pytest.raises(MissingModelError, match=r"Qwen2\.5-3B-Instruct is not installed"):
        made.require_usable("qwen2.5-3b-instruct")
    with pytest.raises(UnknownModel, match="no model named 'nobody'"):
        made.require_usable("nobody")
    manifest = folder / "large" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"llm"', '"embedding"'))
    with pytest.raises(UnsupportedModel, match="large is an embedding model, not a language model"):
        made.require_usable("large")


def test_a_model_that_is_installed_again_with_other_weights_is_another_one(folder: Path) -> None:
    install(folder, "large")
    made = service(folder, "large")
    first = made.model()
    assert made.model() is first
    (folder.parent / "new").mkdir()
    file = write_gguf(folder.parent / "new" / "large.gguf", {"general.architecture": "llama"}, {})
    import_path(file, folder, allow_unverified=True)
    assert made.model() is not first
    assert first.status().reason == "the daemon is stopping"


def test_one_more_model_takes_the_place_of_an_idle_one_and_is_refused_while_all_answer(
    model_of: ModelOf, tmp_path: Path
) -> None:
    slots = WorkerSlots(LOADED_MAX)
    idle, other = model_of(ECHO, slots=slots), model_of(ECHO, slots=slots)
    held = [model_of(HELD, slots=slots) for _ in range(LOADED_MAX)]
    threads = []

    def hold(number: int) -> None:
        with contextlib.suppress(LanguageModelError):
            held[number].answer(str(tmp_path / f"busy{number}"), 1, 600.0)

    assert idle.answer("first", 1, 60.0).text == "first"
    for number in range(LOADED_MAX):
        threads.append(threading.Thread(target=hold, args=(number,)))
        threads[-1].start()
        while not (tmp_path / f"busy{number}").exists():
            assert threads[-1].is_alive()
            time.sleep(0.005)
        if number == 0:
            assert other.answer("second", 1, 60.0).text == "second"
            assert (idle.status().state, other.status().state) == ("off", "ready")
    assert other.status().state == "off"
    with pytest.raises(ModelBusy, match=f"{LOADED_MAX} other language models are answering"):
        idle.answer("third", 1, 60.0)
    for model in held:
        model.close()
    for thread in threads:
        thread.join()
    assert idle.answer("fourth", 1, 60.0).text == "fourth"
