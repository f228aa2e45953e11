"""Grades of a model: how many probes of a task it gets right, and whether that is enough to be asked. SPEC 12.1

A grade is computed from what the model wrote, so that a stricter validation or another right answer changes it without
asking the model again. Only a change of what the model reads or may write makes its outputs out of date: see
`fingerprint`.
"""

import functools
import hashlib
import math
from typing import NamedTuple

import msgspec

from mnemo_core.llm.grammar import grammar_of
from mnemo_core.llm.tasks import AnyTask, Probe, parse_answer, prompt_data, prompt_head

# A coin that decides between two answers gets three quarters of six probes right in 11 % of the cases, two thirds in
# 34 %; a model that is right in 95 % of the cases passes in 97 %.
PASS_SHARE = 0.75


class Grade(NamedTuple):
    """The probes of a task that a model got right, of all."""

    right: int
    of: int

    @property
    def is_passing(self) -> bool:
        return self.right >= math.ceil(self.of * PASS_SHARE)


@functools.cache
def fingerprint(task: AnyTask) -> str:
    """A hash of everything that decides what a model writes for the probes of a task."""
    parts = [prompt_head(task), grammar_of(task.answer), str(task.max_tokens)]
    parts += [prompt_data(probe.inputs) for probe in task.probes]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


@functools.lru_cache(maxsize=256)
def grade(task: AnyTask, outputs: tuple[str, ...]) -> Grade:
    """Return the grade for the outputs to the probes of a task, in their order."""
    return Grade(sum(map(functools.partial(_is_right, task), task.probes, outputs)), len(task.probes))


def _is_right(task: AnyTask, probe: Probe, output: str) -> bool:
    """Return whether an output parses, is accepted by the validation of the task, and is a right answer."""
    try:
        answer = parse_answer(task, output, probe.inputs)
    except msgspec.DecodeError:
        return False
    return not task.validate(answer, probe.inputs) and probe.is_right(answer)
