"""The steps of an agent's run, in order, and the summary of the run. SPEC 2.1, 13 [E]

A step is a procedural memory with a `trace`; its key makes a repeated number a new version of it. The summary is a
memory of its own, derived from the steps, and made again once they have changed.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from mnemo_client.protocol.sessions import HookRequest, NewStep
from mnemo_core.ingest.mutations import Draft, Outcome
from mnemo_core.ingest.write_plan import IngestItem
from mnemo_core.llm.summarize import SUMMARIZE, shorten_sources
from mnemo_core.llm.tasks import TaskInputs
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import Refusal
from mnemo_daemon.indexing.views import Views
from mnemo_daemon.memories.memory_service import Caller, MemoryService
from mnemo_daemon.models.language.task_runner import TaskRunner
from mnemo_store.backend import Snapshot
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import Memory, TraceStep
from mnemo_store.store import Store

SUMMARY_IMPORTANCE = 0.8  # [E]
SUMMARY_SOURCE = "run"
READ_CHARACTERS = 6000  # of the steps together that a summary is made of: what a context of 4,096 tokens holds
CALL_CHARS_MAX = 300  # of a call of a tool with its arguments, as the action of a step
ARGUMENT_CHARS_MAX = 120  # of one of them with its name
RESULT_CHARS_MAX = 200  # of the outcome
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


class RunSummary(NamedTuple):
    """The summary of a run, how it was made, and why without a language model."""

    memory_id: str
    outcome: Outcome
    method: Literal["llm", "rule"]
    reason: str = ""


def step_key(run: str, number: int) -> str:
    return f"run:{run}:step:{number}"


def summary_key(run: str) -> str:
    return f"run:{run}:summary"


def step_content(step: NewStep) -> str:
    """The text by which a step is found: what was done and what came of it, and its context on a line of its own."""
    context = f"\nContext: {_ended(step.context)}" if step.context else ""
    return step_sentence(step) + context


def step_sentence(step: NewStep | TraceStep) -> str:
    """Return a step as one sentence: what was done, what came of it and what was found. A summary that selects
    sentences then never puts the outcome of one step behind another one."""
    details = [_unended(part) for part in (step.outcome, step.key_findings) if part]
    return _ended(f"{_unended(step.action)}: {'; '.join(details)}" if details else step.action)


def step_of_call(call: HookRequest, agent_id: str | None, mask: Callable[[str], str]) -> NewStep:
    """Return the call of a tool as a step: its arguments in one line, and the first line of its result. Secrets are
    masked before anything is cut, since no pattern finds the half of one."""
    named = ", ".join(
        _line(mask(_COLOUR.sub("", f"{name}={value}")), ARGUMENT_CHARS_MAX)
        for name, value in call.arguments.items() if value.strip()
    )  # fmt: skip
    state = {True: "failed", False: "done", None: ""}[call.failed]
    result = _line(mask(_COLOUR.sub("", call.result)), RESULT_CHARS_MAX)
    action = _line(f"{call.tool}: {named}" if named else call.tool or "", CALL_CHARS_MAX)
    return NewStep(action=action, outcome=": ".join(filter(None, (state, result))), session_id=call.session_id,
                   agent_id=agent_id, user_id=call.user_id, event_at=call.at)  # fmt: skip


_COLOUR = lazy_pattern(r"\x1b\[[0-9;:?]{0,40}[A-Za-z]")  # a terminal's sequences, which would split a secret


def _line(text: str, size: int) -> str:
    """The first line of the text that is not blank, of at most `size` characters; "…" replaces the rest."""
    first, *more = (*islice((line for line in text.splitlines() if line.strip()), 2), "")
    printed = "".join(char if char.isprintable() else " " for char in first.strip())
    is_whole = len(printed) <= size and not any(more)
    return printed if is_whole else f"{printed[: size - 1].rstrip()}…"


def _ended(text: str) -> str:
    return text if text.endswith(_SENTENCE_ENDS) else f"{text}."


def _unended(text: str) -> str:
    """The text without its full stop; periods that are a part of a command, such as `./...` and `..`, stay."""
    return _FULL_STOP.sub("", text.rstrip(" :"))


_FULL_STOP = lazy_pattern(r"(?<=[\w)\]\"'`’”])\.\Z")


class RunService:
    """The service; its methods block, and may be called on any thread."""

    def __init__(self, store: Store, views: Views, memories: MemoryService, tasks: TaskRunner) -> None:
        self._store = store
        self._views = views
        self._memories = memories
        self._tasks = tasks

    def read(self, run: str, wanted: MemoryFilter) -> tuple[list[Memory], Memory | None]:
        """The steps of a run that pass the filter, by their numbers, and the summary that was made of them last."""
        columns = self._views.attributes
        numbers = np.flatnonzero(columns.mask(wanted._replace(run_id=run)))
        with self._store.snapshot() as snapshot:
            found = [memory for each in columns.ids(numbers.tolist()) if (memory := snapshot.memory(each)) is not None]
        steps = sorted((memory for memory in found if memory.trace is not None), key=place_of_step)
        return steps, next((memory for memory in found if memory.key == summary_key(run)), None)

    def summarize(
        self, run: str, namespace: str, user_id: str, caller: Caller, deadline_s: float,
        is_cancelled: Callable[[], bool],
    ) -> RunSummary:  # fmt: skip
        """Write the summary of a run, unless its steps are those that the present one was made of. Raises a Refusal:
        404 for a run without steps, 409 where one was changed meanwhile."""
        wanted = MemoryFilter(namespaces=(namespace,), user_id=user_id, without_tags=("sensitive",))
        steps, summary = self.read(run, wanted)
        if not steps:
            raise Refusal(404, "not_found", f"there is no step of a run {run!r} in namespace {namespace}", field="run")
        if summary is not None and self._is_current(steps, summary):
            return RunSummary(summary.id, "duplicate", "llm" if summary.method.startswith("llm:") else "rule")
        texts = shorten_sources([_summarized_text(step) for step in steps], READ_CHARACTERS)
        result = self._tasks.run(SUMMARIZE, TaskInputs(texts), deadline_s, is_cancelled)
        agents = {step.agent_id for step in steps}
        draft = Draft(
            content=result.answer.summary, namespace=namespace, user_id=user_id, trust=caller.trust,
            source=SUMMARY_SOURCE, kind="procedural", form="workflow", category="result",
            importance=SUMMARY_IMPORTANCE, importance_source="llm",  # so that no rule scores it again
            event_at=max(step.event_at for step in steps), agent_id=agents.pop() if len(agents) == 1 else "",
            run_id=run, key=summary_key(run), derived_from=tuple(step.id for step in steps),
            method=f"llm:{result.model}" if result.model else "rule",
        )  # fmt: skip
        read = {step.id: step.content for step in steps}
        decision = self._memories.write_one(IngestItem(draft), caller, read=read).result().result
        return RunSummary(decision.memory.id, decision.outcome, "llm" if result.model else "rule", result.reason)

    def _is_current(self, steps: Sequence[Memory], summary: Memory) -> bool:
        """Return whether the summary was made of these steps, as they are now."""
        if summary.derived_from != tuple(step.id for step in steps):
            return False
        with self._store.snapshot() as snapshot:
            return all(_has_said_since(snapshot, step, summary.modified_at) for step in steps)


def place_of_step(memory: Memory) -> tuple[int, int, str]:
    """The place of a step in its run: by its number, then by age."""
    return memory.trace.step_number if memory.trace is not None else 0, memory.created_at, memory.id


def _summarized_text(step: Memory) -> str:
    """The text of a step that a summary is made of; of one that has no outcome its content may say more."""
    trace = step.trace
    return step_sentence(trace) if trace is not None and (trace.outcome or trace.key_findings) else step.content


def _has_said_since(snapshot: Snapshot, step: Memory, at: int) -> bool:
    """Return whether the text of a step is the one that it had at a time. A new version alone says nothing: scores are
    written later."""
    if step.modified_at < at:
        return True
    former = [each.memory for each in snapshot.versions(step.id) if each.memory.modified_at <= at]
    return bool(former) and former[-1].content == step.content
