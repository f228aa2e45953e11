"""The summary of a run whose steps change while it is made. SPEC 2.1, 3.3"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from mnemo_core.llm.summarize import SUMMARIZE
from mnemo_core.llm.tasks import TaskInputs
from mnemo_daemon.errors import Refusal
from mnemo_daemon.models.language.task_runner import TaskResult, TaskRunner
from mnemo_daemon.sessions.run_steps import RunService, step_sentence
from mnemo_store.records import TraceStep
from tests.support.store_services import PERSON, StoreServices, services_in


class RunnerWithEvent:
    """A runner that answers by the fallback, and during which something else happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    def run(self, _task: object, inputs: TaskInputs, *_: object) -> TaskResult[Any]:
        self._happens()
        return TaskResult(SUMMARIZE.fallback(inputs), "fallback", "as scripted")


def service(services: StoreServices, happens: Callable[[], object] = lambda: None) -> RunService:
    return RunService(services.store, services.views, services.memories, cast(TaskRunner, RunnerWithEvent(happens)))


def summarize(runs: RunService) -> str:
    return runs.summarize("r", "default", "local", PERSON, 1.0, lambda: False).outcome


@pytest.mark.parametrize(
    ("action", "outcome", "sentence"),
    [
        ("Ran the tests.", "2 failed.", "Ran the tests: 2 failed."),
        ("Ran the tests of `a`.", "2 failed; see f().", "Ran the tests of `a`: 2 failed; see f()."),
        ("go test ./...", "all pass", "go test ./...: all pass."),
        ("cd ..", "in ./...", "cd ..: in ./..."),
        ("ls .", "", "ls ."),
    ],
)
def test_the_sentence_of_a_step_keeps_the_periods_of_a_command(action: str, outcome: str, sentence: str) -> None:
    assert step_sentence(TraceStep(step_number=1, action=action, outcome=outcome)) == sentence


def test_a_step_that_is_changed_while_its_run_is_summarized_is_a_conflict_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with services_in(tmp_path) as services:
        step = services.add(
            "Read a.py.", run_id="r", kind="procedural", trace=TraceStep(step_number=1, action="Read a.py")
        )
        with pytest.raises(Refusal) as refused:
            summarize(service(services, lambda: services.edit(step, content="Read b.py.")))
        assert (refused.value.status, refused.value.code) == (409, "conflict")
        assert [memory.id for memory in services.listed()] == [step]
        # A version with the same text, as a score that is written later, is none.
        assert summarize(service(services, lambda: services.edit(step, importance=0.7))) == "stored"
        services.at += 1000
        services.edit(step, importance=0.9)
        assert summarize(service(services, lambda: pytest.fail("it was made again"))) == "duplicate"
