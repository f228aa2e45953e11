"""The session in the README, command by command: a new home, the real daemon, and the output that stands there."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_docs import blocks, page

SECONDS_MAX = 120.0
VARYING = (
    (re.compile(r"\b[0-9a-f]{8}\b"), "ID"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d+(\.\d+)? ms\b"), "TIME"),
    (re.compile(r"(?m)^(\d+)  0\.\d\d  "), r"\1  SCORE  "),
)
"""What differs each time: ids, the day, durations; and scores, whose last digits depend on the processor."""
PROGRESS = re.compile(
    r"(?m)^  (?:see the progress:|folders are being scanned;|\d+ notes? still to be read;"
    r"|.* without a vector|.* not yet compared).*\n"
)
"""What `mnemo init` says of notes that it has not read yet; how far it is depends on the machine."""


class ShownCommand(NamedTuple):
    """A command of the README, and the output that stands below it."""

    command: str
    output: str


def shown_commands(text: str) -> list[ShownCommand]:
    """The commands of the blocks of a page that show a session, in order."""
    shown = []
    for block in blocks("README.md", text):
        if block.language == "console":
            for part in re.split(r"(?m)^\$ ", block.text)[1:]:
                command, _, output = part.partition("\n")
                shown.append(ShownCommand(command, output.rstrip()))
    return shown


def normalized(text: str) -> str:
    """Output without what differs each time."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return PROGRESS.sub("", text).rstrip()


@pytest.fixture
def environ(minilm_folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a person with a new home, whose daemon is stopped at the end."""
    home = Path(tempfile.mkdtemp(prefix="m")).resolve()
    programs = Path(sys.executable).parent
    environ = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "LANG": "C.UTF-8",
               "MNEMO_MODELS_FOLDER": str(minilm_folder)}  # fmt: skip
    yield environ
    subprocess.run(["mnemo", "down"], env=environ, capture_output=True, timeout=SECONDS_MAX, check=False)
    shutil.rmtree(home)


def test_every_command_of_the_readme_prints_what_stands_below_it(environ: dict[str, str]) -> None:
    commands = shown_commands(page("README.md"))
    assert len(commands) >= 5
    for command, output in commands:
        done = subprocess.run(command, shell=True, env=environ, cwd=environ["HOME"], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX)  # fmt: skip
        assert done.returncode == 0, done.stdout
        assert normalized(done.stdout) == normalized(output), command
        if "mnemo" in command:  # the reader takes a moment; answers by words alone look different
            subprocess.run(["mnemo", "notes", "rescan"], env=environ, capture_output=True, check=True)
            subprocess.run(["mnemo", "reindex", "--wait"], env=environ, capture_output=True, check=True)


def test_a_session_is_read_as_commands_with_their_output() -> None:
    text = "```console\n$ mnemo up\n$ mnemo recall key\n1  0.69  6671bb7f · 2026-11-29\n1 of 3 · 36.8 ms\n```\n"
    assert shown_commands(text) == [
        ShownCommand("mnemo up", ""),
        ShownCommand("mnemo recall key", "1  0.69  6671bb7f · 2026-11-29\n1 of 3 · 36.8 ms"),
    ]
    started = "ready\n  folders are being scanned; each note …\n  see the progress:  mnemo status --watch\nthen: …\n"
    assert normalized(started) == "ready\nthen: …"
    assert normalized(shown_commands(text)[1].output) == "1  SCORE  ID · DATE\n1 of 3 · TIME"
