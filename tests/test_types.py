"""Strict mypy over the whole project, and over the calls that other people's code makes. `make test` runs it here."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each line is a call that somebody could write; mypy must report what follows the arrow.
CALLS = """
from pathlib import Path
from mnemo_client.client import Client
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_store.store import Store

reveal_type(LanguageModel(None).answer("x", 1, 1.0))  # -> "mnemo_daemon.models.language.llm_worker.Completion"
reveal_type(LanguageModel(None).status().pid)  # -> "int | None"
LanguageModel("model.gguf")  # -> [arg-type]
LanguageModel(None).answer("x")  # -> [call-arg]
def untyped(x): return x  # -> [no-untyped-def]
Store(1, 2, 3).no_such_thing  # -> [attr-defined]
Client(Path("x")).no_such_thing  # -> [attr-defined]
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that mypy reports for the project and for `CALLS`."""
    file = tmp_path_factory.mktemp("outside") / "calls.py"
    file.write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary"]
    command += ["store", "daemon", "clients", "tests", "packaging", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr  # 2: it could not be run
    return done.stdout.splitlines()


def test_the_whole_project_is_strictly_typed(reported: list[str]) -> None:
    assert [line for line in reported if "calls.py:" not in line] == []


def test_types_are_seen_from_outside_and_misuse_is_reported(reported: list[str]) -> None:
    for number, line in enumerate(CALLS.splitlines(), start=1):
        if expected := re.search(r"# -> (.*)$", line):
            answers = [each for each in reported if f"calls.py:{number}:" in each]
            assert any(expected[1] in answer for answer in answers), "\n".join([line, *reported])
