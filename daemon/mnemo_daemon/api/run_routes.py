"""The routes of the runs of agents: their steps, and the summary of a run. SPEC 2.1, 13 [E]"""

import asyncio
import dataclasses
import time

import msgspec
from msgspec import UNSET, UnsetType

from mnemo_client.protocol import operations
from mnemo_client.protocol.memories import NewMemory, ProcedureTrace
from mnemo_client.protocol.primitives import ScopedPageQuery
from mnemo_client.protocol.sessions import NewStep, RunSummaryAnswer, RunSummaryRequest, StepsAnswer
from mnemo_core.llm.writing.summarize import SUMMARIZE
from mnemo_daemon.api import access, request_codec, response_codec
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.resource import Resource, handles
from mnemo_daemon.api.workers import WorkerPool
from mnemo_daemon.errors import bad_value
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.run_steps import place_of_step, step_content, step_key
from mnemo_daemon.table_walk import bad_cursor
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import SCOPE_CHARS_MAX, STATES

SUMMARIES = 2  # that wait for the language model at once


class RunsApi(Resource):
    """The handlers. A step is remembered like every other memory."""

    def __init__(self, services: Services, workers: WorkerPool, ingest: IngestApi) -> None:
        super().__init__(services, workers)
        self._ingest = ingest
        self._summarizers = WorkerPool(SUMMARIES, thread_name_prefix="mnemo-summary")
        self._numbering = asyncio.Lock()  # held until a step is stored, so that no two get the same next number

    def close(self) -> None:
        """End the threads that wait for summaries."""
        self._summarizers.close()

    @handles(operations.ADD_STEP)
    async def add_step(self, request: Request, importance: float | UnsetType = UNSET) -> Reply:
        async with self._numbering:
            number = request.ask.step_number
            if number is None:
                number = await self._workers.run(self._next_number, request)
            memory = msgspec.structs.replace(_memory_of(request, number), importance=importance)
            return await self._ingest.remember(dataclasses.replace(request, ask=memory))

    @handles(operations.SUMMARIZE_RUN)
    async def summarize(self, request: Request) -> Reply:
        run, until = _run_of(request), time.monotonic() + SUMMARIZE.deadline_s
        return await self._summarizers.run(self._summarized, request, run, until)

    @handles(operations.STEPS)
    def steps(self, request: Request) -> StepsAnswer:
        query: ScopedPageQuery = request.query
        run = _run_of(request)
        wanted = MemoryFilter(
            namespaces=access.listed_namespaces(request), user_id=query.user_id or "local",
            without_tags=access.hidden_tags(request), now=self._services.store.now(),
        )  # fmt: skip
        after = _cursor_place(query.cursor)
        steps, summary = self._services.runs.read(run, wanted)
        behind = [step for step in steps if place_of_step(step) > after]
        shown, memories, roots = behind[: query.limit], self._services.memories, self._services.root_paths()
        views = [response_codec.memory_view(memories.get(step.id), roots) for step in shown]
        return StepsAnswer(
            run_id=run, steps=views, namespace=access.namespace_of(request),
            summary=response_codec.memory_view(memories.get(summary.id), roots) if summary is not None else None,
            cursor=".".join(map(str, place_of_step(shown[-1]))) if len(behind) > len(shown) else None,
        )  # fmt: skip

    def _next_number(self, request: Request) -> int:
        """The number behind those of all steps of the run, also of those in the trash, whose keys are still theirs."""
        wanted = MemoryFilter(
            namespaces=(access.writable_namespace(request),), user_id=request.ask.user_id or "local", states=STATES
        )
        steps = self._services.runs.read(_run_of(request), wanted).steps
        return place_of_step(steps[-1])[0] + 1 if steps else 1

    def _summarized(self, request: Request, run: str, until: float) -> Reply:
        asked: RunSummaryRequest = request.ask
        services, namespace = self._services, access.writable_namespace(request)
        made = services.runs.summarize(
            run, namespace, asked.user_id or "local", access.caller_of(request), max(0.0, until - time.monotonic()),
            services.stopped.is_set,
        )  # fmt: skip
        view = response_codec.memory_view(services.memories.get(made.memory_id), services.root_paths())
        answer = RunSummaryAnswer(outcome=made.outcome, memory=view, method=made.method, reason=made.reason or None)
        return Reply(answer, 201 if made.outcome == "stored" else 200)


def _run_of(request: Request) -> str:
    """The run that the path names. Raises a Refusal."""
    run = request_codec.clean_text(request.path["run"], "run")
    if not 0 < len(run) <= SCOPE_CHARS_MAX:
        raise bad_value(f"a run has a name of 1 to {SCOPE_CHARS_MAX} characters", "run")
    return run


def _memory_of(request: Request, number: int) -> NewMemory:
    """The memory that a step is stored as, under this number of its run. Raises a Refusal."""
    asked: NewStep = request.ask
    run = _run_of(request)
    texts = {name: getattr(asked, name) for name in ("action", "outcome", "key_findings", "context", "task_objective")}
    step = msgspec.structs.replace(
        asked, step_number=number, **{name: request_codec.clean_text(text, name) for name, text in texts.items()}
    )
    if not step.action:
        raise bad_value("a step has an action: say what was done", "action")
    trace = {name: getattr(step, name) for name in ProcedureTrace.__struct_fields__}
    return NewMemory(
        content=step_content(step), kind="procedural", form="step", run_id=run, key=step_key(run, number),
        trace=ProcedureTrace(**trace), infer=False, namespace=asked.namespace, user_id=asked.user_id,
        agent_id=UNSET if asked.agent_id is None else asked.agent_id,
        session_id=UNSET if asked.session_id is None else asked.session_id,
        event_at=UNSET if asked.event_at is None else asked.event_at,
    )  # fmt: skip


def _cursor_place(cursor: str | None) -> tuple[int, int, str]:
    """The place in the order of steps behind which a page begins. Raises a Refusal."""
    if not cursor:
        return -1, 0, ""
    try:
        number, created, memory_id = cursor.split(".")
        return int(number), int(created), memory_id
    except ValueError:
        raise bad_cursor() from None
