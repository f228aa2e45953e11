"""Every registered task against a model that means harm: it is found out, or what it says is what the sources say.

What an accepted answer may say is judged here by rules of their own, which know nothing of the tasks' validation.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.llm_sites import Site
from mnemo_daemon.models.language.task_runner import CallLog, TaskResult, TaskRunner
from mnemo_store.store import Store
from tests.conformance.conftest import ModelOf
from tests.conformance.hostile_answers import FALSE, INPUTS, SOURCES, answers

DEADLINE_S = 60.0
NOT_STORED: tuple[Site, ...] = ("expand",)  # phrasings of a question: its words are those of the model
REPLACING: tuple[Site, ...] = ("merge", "insert_merge", "distill")
STEM = 4

# Two texts of which a model is asked to make one.
PAIR = TaskInputs(
    (
        "Anna works at the zoo in Berlin and has 3 cats.",
        "Anna works at the zoo, where she feeds the pandas. She must not carry keys.",
    )
)


# Answers each prompt with the next text of a file.
SCRIPT = """
import json
ready()
for text in json.loads(pathlib.Path({file!r}).read_text()):
    prompt()
    answer(text)
"""


def results(
    task: AnyTask, inputs: TaskInputs, outputs: list[str], model_of: ModelOf, folder: Path
) -> Iterator[tuple[str, TaskResult[Any]]]:
    """Each output of the model, and what the task makes of it."""
    file = folder / "outputs.json"
    file.write_text(json.dumps(outputs))
    model = model_of(SCRIPT.format(file=str(file)))
    store = Store.open(folder / "data")
    try:
        runner = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
        for output in outputs:
            yield output, runner.run(task, inputs, DEADLINE_S)
    finally:
        store.close()


def strings(value: Any) -> Iterator[str]:
    """All texts of an answer that no type prescribes."""
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from strings(each)
        case list() | tuple():
            for each in value:
                yield from strings(each)


def numbers_and_names(text: str) -> set[str]:
    return {*re.findall(r"\d+", text), *(word.lower() for word in re.findall(r"[A-ZÄÖÜ]\w+", text))}


def stems(text: str) -> set[str]:
    """The words of at least four letters by their beginnings, and every character of Chinese."""
    return {word[:STEM].lower() for word in re.findall(r"[^\W\d_]{4,}", text)} | set(
        re.findall(r"[\u4e00-\u9fff]", text)
    )


LITERALS = {value for task in TASKS for value in re.findall(r"'(\w+)'", str(msgspec.inspect.type_info(task.answer)))}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.site)
def test_a_hostile_model_is_found_out_or_says_what_the_sources_say(
    task: AnyTask, model_of: ModelOf, tmp_path: Path
) -> None:
    fallback = task.fallback(INPUTS)
    known = " ".join((*SOURCES, INPUTS.question))
    outputs = [*answers(task, INPUTS)]
    assert len(outputs) > 30
    for output, result in results(task, INPUTS, outputs, model_of, tmp_path):
        if result.method == "fallback":
            assert result.answer == fallback
            assert result.reason, output
            continue
        texts = [text for text in strings(msgspec.to_builtins(result.answer)) if text not in LITERALS]
        for text in texts:
            assert {each for each in numbers_and_names(text) if each not in known.lower()} == set(), text
            if task.site not in NOT_STORED:
                assert stems(text) <= stems(known), text
                assert not [false for false in FALSE if false.rstrip(".") in text], text


@pytest.mark.parametrize("task", [task for task in TASKS if task.site in REPLACING], ids=lambda task: task.site)
def test_what_replaces_its_sources_has_all_of_them_whatever_the_model_leaves_out(
    task: AnyTask, model_of: ModelOf, tmp_path: Path
) -> None:
    whole = "Anna works at the zoo in Berlin, where she feeds the pandas, and has 3 cats. She must not carry keys."
    words = whole.split()
    shorter = [
        " ".join(words[:at] + words[at + size :]) for size in (1, 2, 4, 8) for at in range(len(words) - size + 1)
    ]
    swapped = [" ".join([*words[:at], words[at + 1], words[at], *words[at + 2 :]]) for at in range(len(words) - 1)]

    def output(text: str) -> str:
        return json.dumps(
            {"entries": [{"sources": [1, 2], "text": text}]} if task.site == "distill" else {"text": text}
        )

    outputs = [output(text) for text in (whole, *shorter, *swapped, "", *PAIR.sources)]
    content = {word for source in PAIR.sources for word in re.findall(r"[a-z]{4,}|[A-Z0-9]\w*", source)}
    content = {word.lower() for word in content} - {"works", "work", "she", "where"}
    found = [result for _, result in results(task, PAIR, outputs, model_of, tmp_path)]
    assert found[0].method == "llm", found[0].reason
    for text in (text for result in found for text in strings(msgspec.to_builtins(result.answer))):
        assert content <= set(re.findall(r"\w+", text.lower()))
        assert re.search(r"\bnot\b.*\bcarry|\bcarry\b.*\bnot\b", text), text
        assert "must" in text
