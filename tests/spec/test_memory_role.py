"""The role of a text among a person's memories, and prompts that no memory is relevant to. SPEC 7.5, 9.6"""

import numpy as np
import pytest

from mnemo_core.ingest.memory_role import DIMENSIONS, read_role, says_nothing


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("My name is Ines Carvalho and I live in Porto.", "identity"),
        ("Bitte antworte mir immer auf Deutsch.", "instruction"),
        ("I love dark chocolate with sea salt.", "taste"),
        ("We decided to use LMDB instead of SQLite because it maps the file.", "decision"),
        ("Lesson learned: never deploy while the backup is running.", "lesson"),
        ("Next step: write the runbook for the launch weekend.", "next"),
        ("thanks, that works!", "small"),
        ("lovely. leave my surname out of anything public please", "rule"),
        ("messages to Lilly short and in German", "rule"),
        ("I'm allergic to latex.", "identity"),
        ("can you rewrite this paragraph for me?", "question"),
        ("is there any help with money for my dad, he's 82 and needs someone", "question"),
        ("[12:04:11] sync finished: 14 files, 0 errors", "script"),
    ],
)
def test_a_text_has_the_role_that_a_reader_would_give_it_without_a_vector(text: str, role: str) -> None:
    assert read_role(text).name == role


def test_a_vector_changes_the_probability_of_a_role() -> None:
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[0] = 1.0
    text = "The shed key hangs behind the door."
    without, with_vector = read_role(text), read_role(text, vector)
    assert 0 < without.probability <= 1
    assert 0 < with_vector.probability <= 1
    assert without.probability != with_vector.probability


@pytest.mark.parametrize(
    ("prompt", "nothing"),
    [
        ("yes", True), ("thanks, go on", True), ("ok, do the second one", True), ("no, the other file", True),
        ("Danke, mach weiter", True), ("👍", True), ("继续", True),
        ("heron", False), ("deploy staging", False), ("ok?", False), ("go on with Berth", False),
    ],
)  # fmt: skip
def test_a_prompt_that_only_agrees_or_asks_to_continue_says_nothing(prompt: str, nothing: bool) -> None:
    assert says_nothing(prompt) is nothing
