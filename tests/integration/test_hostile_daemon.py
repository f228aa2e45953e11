"""A daemon with a hostile language model: nothing ungrounded is stored and nothing lost. SPEC 12.3"""

import json
import re
from collections.abc import Iterator

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.sessions import NewStep
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import prompt_head
from mnemo_daemon.models.installation import import_path
from tests.conformance.conftest import WIRE
from tests.conformance.hostile_answers import FALSE, INPUTS, SOURCES, answers
from tests.support.gguf_files import write_llama
from tests.support.running_daemon import RunningDaemon
from tests.support.samples import quick_folder

RUNS = 30

# Answers each task with the next of its hostile answers.
WORKER = """
import itertools, json
answers = {{head: itertools.cycle(texts) for head, texts in json.loads(pathlib.Path({file!r}).read_text()).items()}}
ready()
while True:
    answer(next(answers[prompt().head]))
"""
PROGRAM = """
import sys
from mnemo_daemon.models.language.language_model import LanguageModel
LanguageModel.__init__.__kwdefaults__["command"] = (sys.executable, {worker!r})
from mnemo_daemon.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def hostile() -> Iterator[Client]:
    with quick_folder() as scratch:
        file, worker = scratch / "answers.json", scratch / "worker.py"
        file.write_text(json.dumps({prompt_head(task): [*answers(task, INPUTS)] for task in TASKS}))
        worker.write_text(WIRE + WORKER.format(file=str(file)))
        manifest = import_path(write_llama(scratch / "any.gguf", ["zoo"]), scratch / "models", allow_unverified=True)
        environ = {
            "MNEMO_MODELS_FOLDER": str(scratch / "models"), "MNEMO_LLM_MODEL": manifest.name,
            "MNEMO_LLM_LEVEL": "full", "MNEMO_LLM_PROBE": "false",
        }  # fmt: skip
        daemon = RunningDaemon(scratch / "data", environ)
        daemon.program = ["-c", PROGRAM.format(worker=str(worker))]
        daemon.start()
        with daemon.client() as client:
            yield client
        daemon.stop()


def everything(client: Client) -> list[MemoryView]:
    found, cursor = list[MemoryView](), None
    while True:
        page = client.list_memories(limit=200, cursor=cursor)
        found += page.memories
        cursor = page.cursor
        if cursor is None:
            return found


def words_and_numbers(text: str) -> set[str]:
    return {word[:4].lower() for word in re.findall(r"[^\W_]{4,}|\d+|[\u4e00-\u9fff]", text)}


def test_a_hostile_model_gets_nothing_stored_that_its_sources_do_not_say(hostile: Client) -> None:
    said = [hostile.remember(text).memory for text in SOURCES]
    for text in SOURCES:
        hostile.remember(f"{text} Remember that.", infer=True, wait="extracted")
    used = 0
    for number in range(RUNS):
        for step, text in enumerate(SOURCES, start=1):
            hostile.add_step(f"run {number}", NewStep(step_number=step, action=text))
        used += hostile.summarize_run(f"run {number}").method == "llm"
        hostile.ask("Where did Dr. Weber move?", cut="none")
    outcomes = {asked.site: asked.outcomes for asked in hostile.llm_usage().usage}
    assert outcomes["summarize"].get("rejected", 0) > RUNS // 2
    assert used < RUNS // 2
    stored = everything(hostile)
    assert len(stored) > RUNS * len(SOURCES)
    known = words_and_numbers(" ".join((*SOURCES, "Remember that.")))
    for memory in stored:
        assert words_and_numbers(memory.content) <= known, memory
        assert not [false for false in FALSE if false.rstrip(".") in memory.content], memory
    present = {memory.id: memory.content for memory in stored}
    assert all(present.get(memory.id) == memory.content for memory in said)
