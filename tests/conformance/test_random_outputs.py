"""Outputs under the grammar of each registered task parse strictly, also those of a model with random weights.

The suite generates a few outputs of each task; `make bench-outputs` a thousand.
"""

import subprocess
import sys
from collections import defaultdict

import msgspec
import pytest

from mnemo_core.llm.registry import TASKS
from mnemo_daemon.models.language.llm_worker import decode_answer
from tests.support.random_outputs import Output

OUTPUTS = 30


def test_every_output_of_every_task_parses_strictly() -> None:
    command = [sys.executable, "-m", "tests.support.random_outputs", str(OUTPUTS)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    written: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        output = msgspec.json.decode(line, type=Output)
        assert output.is_whole, f"{output.site}: the grammar does not end {output.text[:200]!r}"
        written[output.site].add(output.text)
    assert written.keys() == {task.site for task in TASKS}
    for task in TASKS:
        assert len(written[task.site]) > 1, f"{task.site}: the model writes always the same"
        for text in written[task.site]:
            assert type(msgspec.json.decode(text, type=task.answer)) is task.answer


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("é 鍵 🐼".encode(), "é 鍵 🐼"),
        (b"a\xe0\x82\xa2b", "a\ufffdb"),  # U+00A2 in three bytes
        (b"\xf0\x80\x82\xa2\xf8\x80\x82\xa2", "\ufffd\ufffd"),  # in four, and behind a first byte that stands for F0
        (b"\xf9\x9f\x90\xbc", "\ufffd"),
        (b"\xe0\xa4\x85\xf0\x9f\x90\xbc", "अ🐼"),
        (b"half \xe9\x8d", "half \ufffd"),  # an answer that was cut
    ],
)
def test_a_character_that_llama_cpp_misspells_counts_as_one(written: bytes, text: str) -> None:
    assert decode_answer(written) == text
