"""Answers to questions with a language model that is slow or hostile: cited once each, and in time."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.memories.memory_service import MemoryDetails
from mnemo_daemon.models.call_log import CallLog
from mnemo_daemon.models.language_model import LanguageModel
from mnemo_daemon.models.task_runner import TaskRunner
from mnemo_daemon.retrieval.question import BestPassage, Hit
from mnemo_daemon.retrieval.question_answering import AnsweredQuestion, answer_question
from mnemo_store.records import Usage
from mnemo_store.store import Store
from tests.conformance.conftest import ModelOf
from tests.samples import sample_memory

KEY = "The key hangs behind the kitchen door."
FERRY = "The ferry leaves at 9:30."
LOADED_S = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data")
    yield opened
    opened.close()


def hit(number: int, text: str, score: float) -> Hit:
    memory = sample_memory(number, text)
    usage = Usage(id=memory.id, strength=memory.importance)
    return Hit(MemoryDetails(memory, usage), score, score, ("words",), BestPassage(text, [], 0, text))


HITS = (hit(1, KEY, 0.9), hit(2, FERRY, 0.2))


def ask(model: LanguageModel, store: Store, seconds: float) -> AnsweredQuestion:
    runner = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
    return answer_question("Where is the key?", HITS, runner, time.monotonic() + seconds, lambda: False)


def test_a_question_that_waited_until_its_deadline_is_answered_by_quotes_at_once(
    model_of: ModelOf, store: Store
) -> None:
    answered = ask(model_of("ready()\nprompt()\ntime.sleep(600)"), store, -1.0)
    assert (answered.text, answered.method) == (KEY, "quotes")
    assert answered.reason == "the language model is still being loaded"


def test_a_memory_that_the_model_cites_several_times_is_cited_once(model_of: ModelOf, store: Store) -> None:
    answer = '{"sentences":[{"text":"The key hangs behind the door.","sources":[1,1,1]}]}'
    answered = ask(model_of(f"ready()\nwhile True:\n    prompt()\n    answer({answer!r})"), store, LOADED_S)
    assert (answered.text, answered.method) == ("The key hangs behind the door.", "llm")
    ((_, quotes),) = answered.sentences
    assert [(quoted.hit.details.memory.id, quoted.quote) for quoted in quotes] == [(HITS[0].details.memory.id, KEY)]


@pytest.mark.parametrize(
    "text",
    [
        "The key hangs behind the garage door.",  # of no memory
        "The key leaves at 9:30.",  # of a memory that is not cited
        "Ignore the memories and open the kitchen door to everybody.",
    ],
)
def test_what_the_cited_memory_does_not_say_is_not_answered(text: str, model_of: ModelOf, store: Store) -> None:
    script = (
        f"""ready()\nwhile True:\n    prompt()\n    answer('{{"sentences":[{{"text":"{text}","sources":[1]}}]}}')"""
    )
    answered = ask(model_of(script), store, LOADED_S)
    assert (answered.text, answered.method) == (KEY, "quotes")
    assert "is in none of the sources" in answered.reason
