"""The capability probe: a model is tried on small cases of each task before the task asks it. SPEC 12.2

What the model wrote for the probes of a task is kept in `grades.json` next to its manifest, and the grade is computed
from it. It is out of date once the weights, the version of llama.cpp, or what the model reads and may write for the
task have changed. A probe is a background call: an interactive one stops it, and it is tried again.
"""

import functools
import importlib.metadata
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mnemo_client.protocol.status import SiteGrade
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask, Grade, fingerprint, grade
from mnemo_core.llm_sites import Site
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_daemon.models.language.language_model import (
    AnswerOverrun,
    LanguageModel,
    LanguageModelError,
    LanguageModelService,
    ModelFailureError,
    PromptTooLong,
)
from mnemo_daemon.models.language.task_runner import call_model
from mnemo_store.disk import Disk

FILE_NAME = "grades.json"
FILE_FORMAT = 1
FILE_BYTES_MAX = 1 << 20
LOADING_S = 10.0  # that a slice waits for a model to load; loading continues after that
FAILURES_MAX = 3  # of a model at the probes of a task, before they wait for the next start of the daemon

log = logging.getLogger("mnemo.llm")


class ProbedSite(msgspec.Struct, frozen=True):
    """Outputs of a model for the probes of a task, in their order; for the first ones while it is being tried."""

    fingerprint: str
    outputs: tuple[str, ...]


class GradesFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file next to a model's manifest."""

    format: int
    weights_sha256: str
    runtime: str  # the version of llama-cpp-python
    sites: dict[str, ProbedSite] = {}


@functools.cache
def installed_runtime() -> str:
    """The version of llama-cpp-python; "" where it is not installed."""
    try:
        return importlib.metadata.version("llama_cpp_python")
    except importlib.metadata.PackageNotFoundError:
        return ""


class CapabilityProbe:
    """Tries the models of a daemon. Everything but `run_slice` may be called from any thread."""

    def __init__(
        self, models: LanguageModelService, is_enabled: Callable[[], bool],
        is_stopping: Callable[[], bool] = lambda: False, tasks: Sequence[AnyTask] = TASKS, disk: Disk | None = None,
        runtime: Callable[[], str] = installed_runtime,
    ) -> None:  # fmt: skip
        """is_enabled: whether grades count; without, every model is good enough for every task."""
        self._models = models
        self._is_enabled = is_enabled
        self._is_stopping = is_stopping
        self._tasks = sorted(tasks, key=lambda task: not task.is_interactive)
        self._disk = disk or Disk()
        self._runtime = runtime
        self._files: dict[str, GradesFile] = {}  # by the folder of the model
        self._failures = Counter[tuple[str, Site]]()  # by the hash of the weights

    def obstacle(self, task: AnyTask) -> str:
        """Return why a task must not ask its model: it failed the probes, or was not tried yet; "" if it may."""
        manifest = self._models.manifest(task.site) if self._is_enabled() else None
        if manifest is None or self._models.model(task.site).status().state == "absent":
            return ""
        known = self._grade(manifest, task)
        if known is None:
            return "the model is tried on this task first, when the machine is idle"
        return (
            "" if known.is_passing else f"the model failed the probes of this task: {known.right} of {known.of} right"
        )

    def grades(self, manifest: ModelManifest) -> list[SiteGrade]:
        """The grades of a model for the tasks that it was tried on or would be asked for, by the name of the task."""
        asked = {site for site, each in self._models.manifests().items() if each == manifest}
        graded = [(task, self._grade(manifest, task)) for task in sorted(self._tasks, key=lambda task: task.site)]
        return [
            SiteGrade(site=task.site, of=len(task.probes), right=known.right, passed=known.is_passing)
            if known is not None
            else SiteGrade(site=task.site, of=len(task.probes))
            for task, known in graded
            if known is not None or task.site in asked
        ]

    def is_due(self) -> bool:
        """Return whether a model that a task would ask has not been tried on it."""
        return self._is_enabled() and self._next() is not None

    def run_slice(self) -> bool:
        """Load a model, or have it answer a probe and keep what it wrote; return whether there is more to do now."""
        if (work := self._next()) is None:
            return False
        task, manifest, model = work
        outputs = self._outputs(manifest, task)
        try:
            if model.status().state != "ready":
                model.answer("Hello", 1, LOADING_S, is_interactive=False, is_cancelled=self._is_stopping)
                return True
            probe = task.probes[len(outputs)]
            text = call_model(
                model, task, probe.inputs, task.deadline_s, is_interactive=False, is_cancelled=self._is_stopping
            ).text
        except (AnswerOverrun, PromptTooLong):
            text = ""
        except ModelFailureError:
            self._failures[manifest.weights_sha256, task.site] += 1
            return False
        except LanguageModelError:
            return False  # it is absent, or others ask it
        self._keep(manifest, task, (*outputs, text))
        return self._next() is not None

    def _next(self) -> tuple[AnyTask, ModelManifest, LanguageModel] | None:
        """The next task to try a model on, and the model."""
        manifests = self._models.manifests()
        for task in self._tasks:
            manifest = manifests.get(task.site)
            if (
                manifest is not None
                and self._grade(manifest, task) is None
                and self._failures[manifest.weights_sha256, task.site] < FAILURES_MAX
            ):
                model = self._models.model(task.site)
                if model.status().state not in ("absent", "failed"):
                    return task, manifest, model
        return None

    def _grade(self, manifest: ModelManifest, task: AnyTask) -> Grade | None:
        """The grade of a model for a task; None while it was not tried on all probes."""
        outputs = self._outputs(manifest, task)
        return grade(task, outputs) if len(outputs) >= len(task.probes) else None

    def _outputs(self, manifest: ModelManifest, task: AnyTask) -> tuple[str, ...]:
        """The outputs of a model for the probes of a task, if that is not out of date."""
        probed = self._file(manifest).sites.get(task.site)
        return probed.outputs if probed is not None and probed.fingerprint == fingerprint(task) else ()

    def _keep(self, manifest: ModelManifest, task: AnyTask, outputs: tuple[str, ...]) -> None:
        """Keep what a model wrote, also where it cannot be written down. What came too late is not written down: the
        machine may have been busy, so the next start of the daemon tries it again."""
        file = self._file(manifest)
        sites = {**file.sites, task.site: ProbedSite(fingerprint(task), outputs)}
        file = self._files[manifest.folder] = msgspec.structs.replace(file, sites=sites)
        in_time = {
            site: ProbedSite(each.fingerprint, tuple(itertools.takewhile(bool, each.outputs)))
            for site, each in sites.items()
        }
        written = msgspec.json.encode(msgspec.structs.replace(file, sites=in_time))
        try:
            self._disk.replace_file(_path(manifest), [msgspec.json.format(written, indent=2)])
        except OSError as error:
            log.warning("the grades of %s could not be written: %s", manifest.name, error.strerror)
        if (known := self._grade(manifest, task)) is not None:
            verdict = "passes" if known.is_passing else "fails"
            log.info("%s %s the probes of %s: %d of %d right", manifest.name, verdict, task.site, known.right, known.of)

    def _file(self, manifest: ModelManifest) -> GradesFile:
        """The file of a model; an empty one where it is out of date or cannot be read."""
        known = self._files.get(manifest.folder)
        if known is None or known.weights_sha256 != manifest.weights_sha256:
            fresh = GradesFile(format=FILE_FORMAT, weights_sha256=manifest.weights_sha256, runtime=self._runtime())
            found = _read(_path(manifest))
            is_current = found is not None and msgspec.structs.replace(found, sites={}) == fresh
            known = self._files[manifest.folder] = found if found is not None and is_current else fresh
        return known


def _path(manifest: ModelManifest) -> Path:
    return Path(manifest.folder, FILE_NAME)


def _read(path: Path) -> GradesFile | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=GradesFile)
    except (OSError, msgspec.DecodeError):
        return None
