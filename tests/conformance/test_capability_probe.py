"""The capability probe with scripted models: right, wrong, slow, broken, replaced."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from mnemo_client.protocol.status import SiteGrade
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask, prompt_data
from mnemo_core.llm_sites import Site
from mnemo_daemon.models.catalogue import ModelCatalogue, ModelManifest
from mnemo_daemon.models.installation import import_path
from mnemo_daemon.models.language.capability_probe import FAILURES_MAX, FILE_NAME, CapabilityProbe, installed_runtime
from mnemo_daemon.models.language.language_model import FAILURE_PAUSE_S, LanguageModel, LanguageModelService
from mnemo_daemon.settings import LlmSettings
from mnemo_store.disk import Disk
from tests.conformance.conftest import ModelOf
from tests.conformance.test_llm_probes import right_answer
from tests.conformance.test_llm_tasks import encoded
from tests.support.gguf_files import write_gguf

ANSWER, GATE, NAMING = (next(task for task in TASKS if task.site == site) for site in ("answer", "gate", "naming"))
SOME = (GATE, NAMING, ANSWER)  # of the tasks: that the probes of each can be passed stands in test_llm_probes
UNTRIED = "the model is tried on this task first, when the machine is idle"

# Gives the scripted answers, and notes every prompt.
SCRIPT = """
import json
answers, log = json.loads(pathlib.Path({answers!r}).read_text()), pathlib.Path({log!r})
ready()
while True:
    text = prompt().text
    with log.open("a") as file:
        file.write(json.dumps(text) + "\\n")
    {before}
    answer(answers.get(text, "{{}}"))
"""


class ScriptedModels(LanguageModelService):
    """The models of a daemon with one that is a script."""

    def __init__(self, folder: Path, scripted: LanguageModel) -> None:
        super().__init__(ModelCatalogue(folder), LlmSettings(model="some"))
        self.scripted = scripted

    def model(self, site: Site | None = None) -> LanguageModel:
        return self.scripted if self.manifest(site) is not None else super().model(site)


class Bench:
    """A model under the probe: what it answers, and what it was asked."""

    def __init__(self, folder: Path, model_of: ModelOf) -> None:
        self.folder = folder
        self._model_of = model_of
        self._answers, self._log = folder / "answers.json", folder / "log"
        self._answers.write_text("{}")
        self.install("first")

    def install(self, weights: str) -> None:
        (self.folder / weights).mkdir()
        file = write_gguf(
            self.folder / weights / "some.gguf", {"general.architecture": "llama", "general.name": weights}, {}
        )
        import_path(file, self.folder / "models", allow_unverified=True)

    def will_answer(self, tasks: Iterable[AnyTask]) -> None:
        """Have the model answer every probe of the tasks right."""
        right = {
            prompt_data(probe.inputs): encoded(right_answer(task, number, probe))
            for task in tasks
            for number, probe in enumerate(task.probes, start=1)
        }
        self._answers.write_text(json.dumps(right))

    def models(self, before: str = "pass", **options: object) -> ScriptedModels:
        script = SCRIPT.format(answers=str(self._answers), log=str(self._log), before=before)
        return ScriptedModels(self.folder / "models", self._model_of(script, **options))

    def asked(self) -> int:
        """The prompts so far, without those that load the model."""
        return self._log.read_text().count("Source 1") if self._log.exists() else 0

    @property
    def file(self) -> Path:
        return self.folder / "models" / "some" / FILE_NAME

    @property
    def manifest(self) -> ModelManifest:
        manifest = ModelCatalogue(self.folder / "models").installed("some")
        assert manifest is not None
        return manifest


@pytest.fixture
def bench(tmp_path: Path, model_of: ModelOf) -> Bench:
    (tmp_path / "bench").mkdir()
    return Bench(tmp_path / "bench", model_of)


def probe_of(
    models: LanguageModelService, tasks: Iterable[AnyTask] = SOME, is_stopping: Callable[[], bool] = lambda: False
) -> CapabilityProbe:
    return CapabilityProbe(models, lambda: True, is_stopping, tuple(tasks))


def finish(probe: CapabilityProbe) -> None:
    while probe.run_slice():
        pass


def number_of_probes(tasks: Iterable[AnyTask]) -> int:
    return sum(len(task.probes) for task in tasks)


def test_a_model_that_answers_every_probe_right_may_be_asked_for_every_task_and_is_never_tried_again(
    bench: Bench,
) -> None:
    bench.will_answer(SOME)
    models = bench.models()
    probe = probe_of(models)
    assert {probe.obstacle(task) for task in SOME} == {UNTRIED}
    assert [grade.passed for grade in probe.grades(bench.manifest)] == [None] * len(SOME)
    assert probe.is_due()
    finish(probe)
    assert {task.site: probe.obstacle(task) for task in SOME} == {task.site: "" for task in SOME}
    grades = [
        SiteGrade(site=task.site, of=len(task.probes), right=len(task.probes), passed=True)
        for task in sorted(SOME, key=lambda task: task.site)
    ]
    assert probe.grades(bench.manifest) == grades
    assert bench.asked() == number_of_probes(SOME)
    again = probe_of(models)
    assert (again.is_due(), again.grades(bench.manifest)) == (False, grades)
    assert bench.asked() == number_of_probes(SOME)


def test_a_model_that_gives_no_right_answer_is_not_asked_and_the_reason_says_how_many_were_right(bench: Bench) -> None:
    probe = probe_of(bench.models(), [NAMING])
    finish(probe)
    assert probe.obstacle(NAMING) == "the model failed the probes of this task: 0 of 5 right"
    assert probe.grades(bench.manifest) == [SiteGrade(site="naming", of=5, right=0, passed=False)]


def test_the_tasks_that_somebody_waits_for_are_tried_first(bench: Bench) -> None:
    bench.will_answer(SOME)
    probe = probe_of(bench.models())
    interactive = [task for task in SOME if task.is_interactive]
    while bench.asked() < number_of_probes(interactive):
        assert probe.run_slice()
    assert [task.site for task in SOME if not probe.obstacle(task)] == [task.site for task in interactive]


def test_a_probe_that_was_interrupted_goes_on_where_it_stood(bench: Bench) -> None:
    bench.will_answer(SOME)
    models = bench.models()
    while bench.asked() < 2:
        assert probe_of(models, [NAMING]).run_slice()  # a new one each time, as after a start
    probe = probe_of(models, [NAMING])
    assert probe.obstacle(NAMING) == UNTRIED
    finish(probe)
    assert (probe.obstacle(NAMING), bench.asked()) == ("", len(NAMING.probes))


def test_a_changed_prompt_makes_the_grade_of_its_task_out_of_date_and_no_other(bench: Bench) -> None:
    bench.will_answer(SOME)
    models = bench.models()
    finish(probe_of(models))
    changed = dataclasses.replace(NAMING, instruction=NAMING.instruction + " Be brief.")
    tasks = [changed if task is NAMING else task for task in SOME]
    probe = probe_of(models, tasks)
    assert [task.site for task in tasks if probe.obstacle(task)] == ["naming"]
    finish(probe)
    assert bench.asked() == number_of_probes(SOME) + len(NAMING.probes)
    assert {probe.obstacle(task) for task in tasks} == {""}


def test_a_stricter_validation_changes_the_grade_without_asking_the_model_again(bench: Bench) -> None:
    bench.will_answer(SOME)
    models = bench.models()
    finish(probe_of(models, [NAMING]))
    strict = dataclasses.replace(NAMING, validate=lambda answer, inputs: "no name is good enough")
    probe = probe_of(models, [strict])
    assert not probe.is_due()
    assert "0 of 5 right" in probe.obstacle(strict)


@pytest.mark.parametrize("change", ["other weights", "another llama.cpp", "a damaged file", "no file"])
def test_grades_of_another_model_or_llama_cpp_do_not_count(change: str, bench: Bench) -> None:
    bench.will_answer(SOME)
    models = bench.models()
    first = probe_of(models, [NAMING])
    finish(first)
    if change == "other weights":
        bench.install("second")
        assert first.obstacle(NAMING) == UNTRIED  # also in the daemon that has the old ones in memory
    elif change == "a damaged file":
        bench.file.write_text(bench.file.read_text()[:-9])
    elif change == "no file":
        bench.file.unlink()
    runtime = "99.0" if change == "another llama.cpp" else installed_runtime()
    probe = CapabilityProbe(models, lambda: True, tasks=[NAMING], runtime=lambda: runtime)
    assert probe.obstacle(NAMING) == UNTRIED
    finish(probe)
    assert (probe.obstacle(NAMING), bench.asked()) == ("", 2 * len(NAMING.probes))


def test_grades_that_cannot_be_written_count_as_long_as_the_daemon_runs(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class FullDisk(Disk):
        def replace_file(self, *_: object) -> None:
            raise OSError(28, "No space left on device")

    bench.will_answer(SOME)
    probe = CapabilityProbe(bench.models(), lambda: True, tasks=[NAMING], disk=FullDisk())
    finish(probe)
    assert (probe.obstacle(NAMING), bench.file.exists()) == ("", False)
    assert "No space left" in caplog.text


def test_a_task_whose_probe_breaks_the_model_is_left_untried_and_the_others_are_tried(bench: Bench) -> None:
    bench.will_answer(SOME)
    bad = prompt_data(NAMING.probes[1].inputs)
    now = [0.0]
    probe = probe_of(bench.models(f"if text == {bad!r}: os.abort()", clock=lambda: now[0]))
    for _ in range(FAILURES_MAX):
        finish(probe)
        now[0] += FAILURE_PAUSE_S * 10
    finish(probe)
    assert [task.site for task in SOME if probe.obstacle(task)] == ["naming"]
    assert probe.obstacle(NAMING) == UNTRIED
    assert not probe.is_due()


def test_a_model_that_fails_too_often_is_not_tried_while_it_is_paused(bench: Bench) -> None:
    probe = probe_of(bench.models("os.abort()"))
    for _ in range(3):
        assert probe.is_due()
        finish(probe)
    assert not probe.is_due()


LATE = (
    "from mnemo_daemon.models.language.llm_worker import ModelRefusal; "
    'send(out, ModelRefusal("late", "at once")); continue'
)


def test_an_answer_that_comes_too_late_is_a_wrong_one_until_the_next_start(bench: Bench) -> None:
    models = bench.models(f'if "Source 1" in text: {LATE}')
    probe = probe_of(models, [NAMING])
    finish(probe)
    assert "0 of 5 right" in probe.obstacle(NAMING)
    assert not probe.is_due()
    assert probe_of(models, [NAMING]).is_due()


CANCELLED = """\
if "Source 1" in text:
        from mnemo_daemon.models.language.llm_worker import ModelRefusal
        os.read(0, 65536)
        send(out, ModelRefusal("cancelled", "as asked"))
        continue"""


@pytest.mark.parametrize("by", ["an interactive call", "the end of the daemon"])
def test_a_probe_gives_way(by: str, bench: Bench) -> None:
    models = bench.models(CANCELLED)
    is_stopping = threading.Event()
    probe = probe_of(models, [NAMING], is_stopping.is_set)
    assert probe.run_slice()  # it is loaded
    pid = models.scripted.status().pid
    goes_on: list[bool] = []
    slice_ = threading.Thread(target=lambda: goes_on.append(probe.run_slice()))
    slice_.start()
    while not bench.asked():
        assert slice_.is_alive()
        time.sleep(0.005)
    if by == "the end of the daemon":
        is_stopping.set()
    else:
        assert models.scripted.answer("Hello", 1, 60.0).text == "{}"
    slice_.join()
    assert goes_on == [False]
    assert models.scripted.status().pid == pid, "the probe held out until its deadline"
    assert (probe.obstacle(NAMING), bench.file.exists()) == (UNTRIED, False)


def test_without_a_model_or_where_grades_do_not_count_nothing_is_tried_and_nothing_stands_in_the_way(
    bench: Bench, tmp_path: Path
) -> None:
    unused = CapabilityProbe(bench.models(), lambda: False, tasks=SOME)
    absent = probe_of(LanguageModelService(ModelCatalogue(tmp_path / "none"), LlmSettings()))
    for probe in (unused, absent):
        assert not probe.is_due()
        assert {probe.obstacle(task) for task in SOME} == {""}
    assert bench.asked() == 0
