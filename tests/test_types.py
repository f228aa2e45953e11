"""mypy, strictly, over all that we wrote, and what it makes of the calls that outsiders make."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each line is a call someone makes; what mypy says of it stands behind the arrow.
CALLS = """
from pathlib import Path
from mnemo_client.client import Client
from mnemo_daemon.models.language_model import LanguageModel
from mnemo_store.store import Store

reveal_type(LanguageModel(None).answer("x", 1, 1.0))  # -> "mnemo_daemon.models.llm_worker.Completion"
reveal_type(LanguageModel(None).status().pid)  # -> "int | None"
LanguageModel("model.gguf")  # -> [arg-type]
LanguageModel(None).answer("x")  # -> [call-arg]
def untyped(x): return x  # -> [no-untyped-def]
Store(1, 2, 3).no_such_thing  # -> [attr-defined]
Client(Path("x")).no_such_thing  # -> [attr-defined]
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says, a line each, of the packages and of the calls beside them."""
    file = tmp_path_factory.mktemp("outside") / "calls.py"
    file.write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary"]
    command += ["store", "daemon", "clients", "packaging", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr  # 2: it could not be run
    return done.stdout.splitlines()


def test_every_package_is_strictly_typed(said: list[str]) -> None:
    assert [line for line in said if "calls.py:" not in line] == []


def test_types_are_seen_from_outside_and_misuse_is_reported(said: list[str]) -> None:
    for number, line in enumerate(CALLS.splitlines(), start=1):
        if expected := re.search(r"# -> (.*)$", line):
            answers = [each for each in said if f"calls.py:{number}:" in each]
            assert any(expected[1] in answer for answer in answers), "\n".join([line, *said])
