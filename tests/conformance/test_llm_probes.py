"""The probes of every registered language-model task: they can be passed, and an answer that is always the same cannot.

A right answer is the fallback's, one of the values of a type that has few, or stands in `probe_answers`.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask, Grade, Probe, fingerprint, grade
from tests.conformance.probe_answers import RIGHT_ANSWERS
from tests.conformance.test_llm_tasks import encoded

VALUES_MAX = 10_000  # of a list that are tried: of three operations of an audit there are billions
EVERY_TASK = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.site)


def right_answer(task: AnyTask, number: int, probe: Probe) -> Any:
    """A right answer to the probe of that number, if one is known; else the fallback's."""
    written = RIGHT_ANSWERS.get(task.site, {}).get(number)
    candidates = [task.fallback(probe.inputs), *_every_value(inspect.type_info(task.answer))]
    if written is not None:
        candidates.append(msgspec.convert(written, task.answer))
    right = (each for each in candidates if not task.validate(each, probe.inputs) and probe.is_right(each))
    return next(right, candidates[-1])


def _every_value(kind: inspect.Type) -> Iterable[Any]:
    """Every value of a type of choices and numbers, lists with up to three items; none of one with texts."""
    match kind:
        case inspect.LiteralType(values=values):
            return values
        case inspect.IntType(ge=int(least), le=int(most)):
            return range(least, most + 1)
        case inspect.BoolType():
            return (True, False)
        case inspect.ListType(item) | inspect.VarTupleType(item):
            values = tuple(_every_value(item))
            lengths = [length for length in (1, 2, 3) if len(values) ** length <= VALUES_MAX]
            return itertools.chain.from_iterable(itertools.product(values, repeat=length) for length in lengths)
        case inspect.StructType(cls=cls, fields=fields):
            return itertools.starmap(cls, itertools.product(*(_every_value(field.type) for field in fields)))
        case _:
            return ()


@EVERY_TASK
def test_every_task_has_four_to_six_probes_with_inputs_of_their_own(task: AnyTask) -> None:
    assert 4 <= len(task.probes) <= 6
    assert len({probe.inputs for probe in task.probes}) == len(task.probes)


@EVERY_TASK
def test_the_fallback_of_a_task_is_accepted_on_the_inputs_of_its_probes(task: AnyTask) -> None:
    rejections = [task.validate(task.fallback(probe.inputs), probe.inputs) for probe in task.probes]
    assert rejections == [""] * len(task.probes)


@EVERY_TASK
def test_every_probe_can_be_passed(task: AnyTask) -> None:
    outputs = []
    for number, probe in enumerate(task.probes, start=1):
        answer = right_answer(task, number, probe)
        assert task.validate(answer, probe.inputs) == "", f"probe {number} of {task.site}"
        assert probe.is_right(answer), f"probe {number} of {task.site}: add a right answer to probe_answers"
        outputs.append(encoded(answer))
    assert grade(task, tuple(outputs)) == Grade(len(task.probes), len(task.probes))


@EVERY_TASK
def test_one_answer_to_all_probes_does_not_pass(task: AnyTask) -> None:
    for number, probe in enumerate(task.probes, start=1):
        always = encoded(right_answer(task, number, probe))
        assert not grade(task, (always,) * len(task.probes)).is_passing, f"the answer to probe {number}"


@EVERY_TASK
def test_what_is_no_answer_of_the_task_is_not_right(task: AnyTask) -> None:
    for output in ("", "{}", "[]", "I do not know.", '{"obey": true}'):
        assert grade(task, (output,) * len(task.probes)) == Grade(0, len(task.probes))


@pytest.mark.parametrize(("of", "least"), [(4, 3), (5, 4), (6, 5)])
def test_three_quarters_of_the_probes_pass(of: int, least: int) -> None:
    assert [right for right in range(of + 1) if Grade(right, of).is_passing] == list(range(least, of + 1))


def test_the_fingerprint_of_a_task_changes_with_all_that_its_model_reads_or_may_write_and_with_nothing_else() -> None:
    (task,) = [task for task in TASKS if task.site == "naming"]
    replace = dataclasses.replace
    first, second, *others = task.probes
    changed = [
        replace(task, instruction=task.instruction + " Be brief."),
        replace(task, answer=TASKS[0].answer),
        replace(task, max_tokens=task.max_tokens + 1),
        replace(task, probes=(second, first, *others)),
    ]
    assert len({fingerprint(each) for each in (task, *changed)}) == 5
    judged = replace(task, validate=lambda answer, inputs: "", deadline_s=1.0)
    assert fingerprint(judged) == fingerprint(task)
