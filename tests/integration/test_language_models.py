"""The language models of a real daemon: chosen, given to single tasks, and tried before they are asked. SPEC 4.2, 12"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.errors import RefusalError
from mnemo_daemon.models.installation import import_path
from tests.gguf_files import write_gguf
from tests.running import RunningDaemon, running


@pytest.fixture
def models(short_folder: Path) -> Path:
    """A folder with two language models that are never loaded."""
    for name in ("first", "second"):
        file = write_gguf(short_folder / f"{name}.gguf", {"general.name": name}, {})
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


def test_a_choice_that_the_settings_would_override_is_refused(daemon: RunningDaemon) -> None:
    assert daemon.stop() == 0
    daemon.environ["MNEMO_LLM_MODEL"] = "first"
    daemon.start()
    with daemon.client() as client:
        with pytest.raises(RefusalError, match=r"`llm\.model` names 'first' \(MNEMO_LLM_MODEL\)") as refused:
            client.use_model("second")
        assert (refused.value.status, refused.value.code) == (409, "conflict")
        assert client.status().models["llm"].name == "first"
