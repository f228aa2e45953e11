"""The language models of a real daemon: chosen, given to single tasks, and tried before they are asked. SPEC 4.2, 12"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mnemo_client.errors import RefusalError
from mnemo_client.protocol.status import SiteGrade
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import fingerprint
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.installation import import_path
from mnemo_daemon.models.language.capability_probe import (
    FILE_FORMAT,
    FILE_NAME,
    GradesFile,
    ProbedSite,
    installed_runtime,
)
from mnemo_daemon.models.language.language_model import WITHOUT_MODEL
from tests.support.gguf_files import write_llama
from tests.support.running_daemon import RunningDaemon, running

SMOLLM = "SmolLM2-135M-Instruct-Q4_1"


@pytest.fixture
def models(short_folder: Path) -> Path:
    """A folder with two language models that are never loaded."""
    for seed, name in enumerate(("first", "second")):
        file = write_llama(short_folder / f"{name}.gguf", seed=seed)
        import_path(file, short_folder / "models", allow_unverified=True)
    return short_folder / "models"


@pytest.fixture
def daemon(short_folder: Path, models: Path) -> Iterator[RunningDaemon]:
    with running(short_folder / "data", {"MNEMO_MODELS_FOLDER": str(models)}) as daemon:
        yield daemon


def test_a_language_model_is_chosen_at_once_and_for_good(daemon: RunningDaemon) -> None:
    with daemon.client() as client:
        assert client.status().models["llm"].name is None
        answer = client.use_model("second")
        assert answer.llm.name == "second"
        assert [model.name for model in answer.models if model.in_use and model.role == "llm"] == ["second"]
        assert client.use_model("first").llm.name == "first"
        with pytest.raises(RefusalError) as refused:
            client.use_model("nobody")
        assert refused.value.code == "unknown_model"
        assert client.status().models["llm"].name == "first"
    assert daemon.stop() == 0
    daemon.environ["MNEMO_LLM_MODELS"] = '{answer = "secnd"}'
    daemon.start()
    with daemon.client() as client:
        status = client.status().models["llm"]
        assert status.name == "first"
        assert status.hint == "`llm.models.answer` names 'secnd'; the installed language models are: first, second"


@pytest.mark.parametrize(
    ("level", "hint"),
    [("off", "no task asks it: `llm.level` is off"), ("auto", WITHOUT_MODEL), ("full", WITHOUT_MODEL)],
)
def test_without_a_language_model_every_level_quotes_and_the_status_says_so(
    level: str, hint: str, short_folder: Path
) -> None:
    environ = {"MNEMO_LLM_LEVEL": level, "MNEMO_MODELS_FOLDER": str(short_folder / "models")}
    with running(short_folder / "data", environ) as daemon, daemon.client() as client:
        client.remember("Anna moved to Berlin in May 2019. She works at the zoo.")
        assert client.ask("What does Anna do all day?", cut="none").method == "quotes"
        status = client.status().models["llm"]
        assert (status.state, status.hint) == ("absent", hint)


def test_a_choice_that_the_settings_would_override_is_refused(daemon: RunningDaemon) -> None:
    assert daemon.stop() == 0
    daemon.environ["MNEMO_LLM_MODEL"] = "first"
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(RefusalError, match=r"`llm\.model` names 'first' \(MNEMO_LLM_MODEL\)") as refused:
            client.use_model("second")
        assert (refused.value.status, refused.value.code) == (409, "conflict")
        assert client.status().models["llm"].name == "first"


@pytest.fixture
def smollm_folder(short_folder: Path, smollm_file: Path) -> Path:
    """A folder of models with the small language model, by hard links and without grades."""
    folder = short_folder / "models"
    without_grades = shutil.ignore_patterns(FILE_NAME)
    shutil.copytree(smollm_file.parents[1], folder / SMOLLM, copy_function=os.link, ignore=without_grades)
    return folder


def ask_of(folder: Path) -> dict[str, str]:
    return {"MNEMO_MODELS_FOLDER": str(folder), "MNEMO_LLM_LEVEL": "full", "MNEMO_LLM_PROBE": "true"}


def test_a_daemon_asks_no_model_that_failed_the_probes_and_lists_its_grades(
    short_folder: Path, smollm_folder: Path
) -> None:
    manifest = ModelCatalogue(smollm_folder).installed(SMOLLM)
    assert manifest is not None
    wrong: dict[str, ProbedSite] = {
        task.site: ProbedSite(fingerprint(task), ("{}",) * len(task.probes)) for task in TASKS
    }
    file = GradesFile(
        format=FILE_FORMAT, weights_sha256=manifest.weights_sha256, sites=wrong,
        runtime=installed_runtime(),
    )  # fmt: skip
    (smollm_folder / SMOLLM / FILE_NAME).write_bytes(msgspec.json.encode(file))
    with running(short_folder / "data", ask_of(smollm_folder)) as daemon, daemon.client() as client:
        client.remember("The key to the cellar hangs behind the kitchen door.")
        answer = client.ask("Where is the key to the cellar?")
        assert (answer.method, answer.reason) == ("quotes", "the model failed the probes of this task: 0 of 5 right")
        (listed,) = [model for model in client.models().models if model.name == SMOLLM]
        assert listed.grades == [
            SiteGrade(site=task.site, of=len(task.probes), right=0, passed=False)
            for task in sorted(TASKS, key=lambda task: task.site)
        ]
        assert client.llm_usage().usage == []
        assert client.status().models["llm"].state == "ready"


def test_a_daemon_tries_an_installed_model_by_itself(short_folder: Path, smollm_folder: Path) -> None:
    grades = smollm_folder / SMOLLM / FILE_NAME
    with running(short_folder / "data", ask_of(smollm_folder)) as daemon, daemon.client() as client:
        client.remember("The key to the cellar hangs behind the kitchen door.")
        answer = client.ask("Where is the key to the cellar?")
        assert (answer.method, answer.reason) == (
            "quotes",
            "the model is tried on this task first, when the machine is idle",
        )
        until = time.monotonic() + 120.0
        while not grades.exists():
            assert time.monotonic() < until, [job for job in client.jobs().jobs if job.name == "capability_probe"]
            time.sleep(0.05)
        assert daemon.stop() == 0
    (probed,) = msgspec.json.decode(grades.read_bytes(), type=GradesFile).sites.values()
    assert '"sentences"' in probed.outputs[0]
