"""Language models whose worker is a script that speaks the real frames in a real child process."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_daemon.models.language.language_model import LanguageModel

ModelOf = Callable[..., LanguageModel]

# What a script has at hand: ready(), prompt(), piece(text) and answer(text), over the wire of the real worker.
WIRE = """
import os, pathlib, sys, time
import msgspec
from mnemo_daemon.models.language.llm_worker import (
    Completion, AnswerPiece, Prompt, Ready, claim_stdout, send, take_frame
)
received, out = bytearray(), 1

def ready():
    send(out, Ready(128))

def prompt():
    while (body := take_frame(received)) is None:
        data = os.read(0, 65536)
        if not data:
            sys.exit(0)
        received.extend(data)
    return msgspec.msgpack.decode(body, type=Prompt)

def piece(text):
    send(out, AnswerPiece(text))

def answer(text):
    send(out, Completion(text, 1, 1, False))
"""
ECHO = """
ready()
while True:
    answer(prompt().text.upper())
"""


@pytest.fixture
def model_of(tmp_path: Path) -> Iterator[ModelOf]:
    """A function that makes a LanguageModel whose worker runs the script it is given."""
    made: list[LanguageModel] = []

    def make(script: str, **options: object) -> LanguageModel:
        program = tmp_path / f"worker{len(made)}.py"
        program.write_text(WIRE + textwrap.dedent(script))
        file = tmp_path / "some.gguf"
        file.write_bytes(b"GGUF")
        command = (sys.executable, str(program))
        made.append(LanguageModel(file, allow_unknown=True, command=command, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for model in made:
        model.close()
