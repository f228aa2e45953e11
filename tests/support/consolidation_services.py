"""A store with the service that consolidates it, at times that the test sets, and with scripted model answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemo_core.ingest.policies import POLICIES, Policy, PolicyName
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_daemon.knowledge.topic_trees import TopicTrees
from mnemo_daemon.lifecycle.consolidation import Consolidation, CycleResult
from mnemo_daemon.models.language.task_runner import TaskResult
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.settings import LifecycleSettings
from mnemo_store.disk import Disk
from mnemo_store.records import Cycle, Memory, Usage
from mnemo_store.tables import CYCLES
from tests.support.samples import write
from tests.support.store_services import StoreServices, simulated_services_in

Answers = Callable[[AnyTask, TaskInputs], Any]  # None: the fallback answers


class ScriptedAnswers:
    """The runner of language-model tasks, with answers from a function. Without one, no model may be asked."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, TaskInputs]] = []

    def may_ask(self, _task: AnyTask) -> bool:
        return self.answers is not None

    def reason_not_to_ask(self, _task: AnyTask, _inputs: TaskInputs) -> str:
        return "" if self.answers is not None else "there is no model"

    def run(self, task: AnyTask, inputs: TaskInputs, *_: Any, **__: Any) -> TaskResult[Any]:
        self.asked.append((task.site, inputs))
        answer = self.answers(task, inputs) if self.answers is not None else None
        if answer is None or task.validate(answer, inputs):
            return TaskResult(task.fallback(inputs), "fallback", "the model gave no answer")
        return TaskResult(answer, "llm", model="scripted")


class ConsolidationServices:
    """`services` has the store and its other services."""

    def __init__(
        self, services: StoreServices, answers: Answers | None = None, settings: LifecycleSettings | None = None
    ) -> None:
        self.services = services
        self.store = services.store
        self.tasks = ScriptedAnswers(answers)
        self.settings = settings or LifecycleSettings()
        self.seconds = 0.0  # of the monotonic clock
        self.policies: dict[str, PolicyName] = {}  # by namespace
        tasks: Any = self.tasks
        self.topic_trees = TopicTrees(
            services.store, services.views, services.indexing, services.embedding, tasks, Disk()
        )
        self.consolidation = self.restarted()

    def restarted(self) -> Consolidation:
        """The service as it is after a start of the daemon."""
        tasks: Any = self.tasks
        services = self.services
        self.consolidation = Consolidation(
            services.store, services.views, services.indexing, services.embedding, tasks, self.topic_trees,
            lambda: self.settings, QueryPriority(), clock=lambda: self.seconds, policy=self._policy_of,
        )  # fmt: skip
        return self.consolidation

    def _policy_of(self, namespace: str) -> Policy:
        return POLICIES[self.policies.get(namespace, "own")]

    def put(self, memory: Memory, usage: Usage | None = None) -> Memory:
        """Store a memory as it is, with its usage or that of one which nobody has used."""
        write(self.store, memory, usage or Usage(id=memory.id, strength=memory.importance))
        return memory

    def run(self, **options: Any) -> CycleResult:
        return self.consolidation.run(**options)

    def cycles(self) -> list[Cycle]:
        with self.store.snapshot() as snapshot:
            return snapshot.scan(CYCLES)

    def usage(self, memory_id: str) -> Usage:
        return self.services.memories.get(memory_id).usage

    def close(self) -> None:
        self.consolidation.close()
        self.topic_trees.close()


@contextmanager
def consolidation_services_in(
    folder: Path,
    answers: Answers | None = None,
    settings: LifecycleSettings | None = None,
    *,
    has_vectors: bool = False,
    disk: Disk | None = None,
) -> Iterator[ConsolidationServices]:
    """`has_vectors`: with the simulated embedding model, whose vectors follow from the words of a text."""
    with simulated_services_in(folder, has_model=has_vectors, disk=disk) as services:
        made = ConsolidationServices(services, answers, settings)
        yield made
        made.close()
