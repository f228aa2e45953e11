"""mypy, strictly, over all that we wrote, and what it makes of the calls that outsiders make."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each line is a call someone makes; what mypy says of it stands behind the arrow.
CALLS = """
from pathlib import Path
from mnemo_client.client import Client
from mnemo_daemon.llm import LanguageModel
from mnemo_store.store import Store

reveal_type(LanguageModel(None).answer("x", 1, 1.0))  # -> "mnemo_daemon.llm_worker.Completion"
reveal_type(LanguageModel(None).status().pid)  # -> "int | None"
LanguageModel("model.gguf")  # -> [arg-type]
LanguageModel(None).answer("x")  # -> [call-arg]
def untyped(x): return x  # -> [no-untyped-def]
Store(1, 2, 3).no_such_thing  # -> [attr-defined]
Client(Path("x")).no_such_thing  # -> [attr-defined]
"""


def mypy(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_every_package_is_strictly_typed() -> None:
    done = mypy("store", "daemon", "clients", "packaging")
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_seen_from_outside_and_misuse_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    said = mypy(str(file)).stdout
    for number, line in enumerate(CALLS.splitlines(), start=1):
        if expected := re.search(r"# -> (.*)$", line):
            answers = [each for each in said.splitlines() if f"calls.py:{number}:" in each]
            assert any(expected[1] in answer for answer in answers), f"{line}\n{said}"
