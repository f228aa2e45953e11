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
from mnemo_daemon.models.language.llm_worker import Completion, AnswerPiece, Prompt, Ready
from mnemo_daemon.models.worker_protocol import claim_stdout, send, take_frame
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


class ScriptedModel:
    """A language model whose answer is what `answering` was told last, in one worker process."""

    def __init__(self, folder: Path) -> None:
        self._text = folder / "text"
        script = (
            f"ready()\nwhile True:\n    prompt()\n    answer(pathlib.Path({str(self._text)!r}).read_bytes().decode())"
        )
        self._model = make_model(folder, "worker.py", script)
        self.close = self._model.close

    def answering(self, text: str) -> LanguageModel:
        self._text.write_bytes(text.encode())
        return self._model


def make_model(folder: Path, name: str, script: str, **options: object) -> LanguageModel:
    """A LanguageModel whose worker runs the script, which is written to the folder under this name."""
    program = folder / name
    program.write_text(WIRE + textwrap.dedent(script))
    file = folder / "some.gguf"
    file.write_bytes(b"GGUF")
    command = (sys.executable, str(program))
    return LanguageModel(file, allow_unknown=True, command=command, **options)  # type: ignore[arg-type]


@pytest.fixture
def model_of(tmp_path: Path) -> Iterator[ModelOf]:
    """A function that makes a LanguageModel whose worker runs the script it is given."""
    made: list[LanguageModel] = []

    def make(script: str, **options: object) -> LanguageModel:
        made.append(make_model(tmp_path, f"worker{len(made)}.py", script, **options))
        return made[-1]

    yield make
    for model in made:
        model.close()
