"""The hooks of agents and editors: before a prompt, after a reply or the call of a tool, at the start and end of a
session. SPEC 11 [M]"""

import dataclasses
import logging

from mnemo_client.protocol import operations
from mnemo_client.protocol.choices import HOOK_EVENTS, TurnRole
from mnemo_client.protocol.ingestion import RememberAnswer, Turn, TurnsRequest
from mnemo_client.protocol.retrieval import ContextRequest
from mnemo_client.protocol.sessions import HookAnswer, HookRequest, ResumeQuery, RunSummaryAnswer, RunSummaryRequest
from mnemo_core.ingest.session_records import SessionScope
from mnemo_core.ingest.trust import lowest_trust
from mnemo_core.retrieval.context_block import AGENT_TAG
from mnemo_core.sessions.tiers import split_turn
from mnemo_core.text.secrets import mask_secrets
from mnemo_daemon.api import access, request_codec
from mnemo_daemon.api.ingest_routes import IngestApi
from mnemo_daemon.api.recall_routes import ContextApi, RecallApi
from mnemo_daemon.api.resource import Resource, WorkerPool, handles
from mnemo_daemon.api.session_routes import RunsApi
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.server.router import Reply, Request
from mnemo_daemon.services import Services
from mnemo_daemon.sessions.run_steps import step_of_call
from mnemo_store.records import TAG_CHARS_MAX

# Turns that one prompt or reply is stored as, 32 KB: what is longer was pasted, and a megabyte would take a minute.
PARTS_MAX = 4
STEP_IMPORTANCE = 0.1  # of the call of a tool: below that from which what nobody asked to be stored is recalled (0.2)

log = logging.getLogger("mnemo.hooks")


class HookApi(Resource):
    """The handlers. What comes in by a hook was not said to the daemon by a person: its trust is an agent's at most."""

    def __init__(
        self, services: Services, workers: WorkerPool, recall: RecallApi, context: ContextApi, ingest: IngestApi,
        runs: RunsApi,
    ) -> None:  # fmt: skip
        super().__init__(services, workers)
        self._recall = recall
        self._context = context
        self._ingest = ingest
        self._runs = runs

    @handles(operations.HOOK)
    async def hook(self, request: Request) -> Reply:
        event = request.path["event"]
        if event not in HOOK_EVENTS:
            raise Refusal(404, "not_found", f"there is no hook {event!r}; there are {', '.join(HOOK_EVENTS)}")
        request = dataclasses.replace(request, entry_point="hook")
        answer = HookAnswer(event=event, namespace=access.namespace_of(request))
        for name in ("enabled", event.replace("-", "_")):
            if not getattr(self._services.settings.hooks, name):
                answer.skipped = f"`hooks.{name}` is off"
                return Reply(answer)
        match event:
            case "prompt":
                await self._before_prompt(request, answer)
            case "reply":
                await self._after_reply(request, answer)
            case "tool":
                await self._after_tool(request, answer)
            case "session-start":
                await self._workers.run(self._start_session, request, answer)
            case "session-end":
                asked: HookRequest = request.ask
                session_id = _session_of(asked)
                scope = SessionScope(access.writable_namespace(request), asked.user_id or "local", session_id)
                await self._workers.run(self._services.turn_tiers.end, scope)
                # Summarize the steps of the session, if it has any; a summary that is refused fails no hook.
                summary = RunSummaryRequest(user_id=asked.user_id)
                of_run = dataclasses.replace(request, path={"run": session_id}, ask=summary)
                try:
                    made: RunSummaryAnswer = (await self._runs.summarize(of_run)).value
                except Refusal as refused:
                    if refused.status != 404:
                        log.warning("a hook could not summarize a run: %s", refused)
                        answer.skipped = f"the run was not summarized: {refused}"
                else:
                    answer.memories = [made.memory.id]
        return Reply(answer)

    async def _before_prompt(self, request: Request, answer: HookAnswer) -> None:
        """Find the context of the prompt, within the limits of the settings."""
        asked: HookRequest = request.ask
        limits = self._services.settings.hooks
        if not asked.prompt or not asked.prompt.strip():
            raise bad_value("a hook before a prompt needs the prompt", "prompt")
        found = await self._recall.context_answer(request, ContextRequest(
            query=asked.prompt, top_k=limits.context_limit, max_chars=limits.context_max_chars,
            user_id=asked.user_id, session_id=asked.session_id,
        ), is_prompt=True)  # fmt: skip
        answer.context, answer.memories, answer.degraded = found.block, found.memories, found.degraded
        if found.query_cut:
            answer.skipped = "the prompt is long: only its beginning and its end were searched for"

    async def _after_reply(self, request: Request, answer: HookAnswer) -> None:
        """Store the prompt, and the reply where the settings say so. What goes wrong is logged and reported; it fails
        no hook. [M23]"""
        asked: HookRequest = request.ask
        session_id = _session_of(asked)
        said: list[tuple[TurnRole, str]] = [("user", asked.prompt or "")]
        if self._services.settings.hooks.store_responses:
            said.append(("agent", asked.reply or ""))
        turns: list[Turn] = []
        for role, text in said:
            parts = list(split_turn(text))
            if len(parts) > PARTS_MAX:
                answer.skipped = f"only the beginning and the end of a text of {len(text):,} characters were stored"
                parts = parts[: PARTS_MAX // 2] + parts[-PARTS_MAX // 2 :]
            speaker = asked.speaker if role == "user" else None
            turns += [Turn(role=role, content=part, speaker=speaker, at=asked.at) for part in parts]
        if not turns:
            answer.skipped = "there is nothing to store: replies are stored with `hooks.store_responses`"
            return
        name = " ".join((asked.agent_id or request.agent or "").split())
        tags = [f"{AGENT_TAG}{name}"[:TAG_CHARS_MAX]] if name else []
        for turn in turns:
            agent_id = name if asked.agent_id else None
            one = TurnsRequest(session_id=session_id, turns=[turn], user_id=asked.user_id, agent_id=agent_id, tags=tags)
            try:
                answer.results.append(await self._ingest.store_turn(request, one))
            except Refusal as refused:
                log.warning("a hook could not store a turn: %s", refused)
                answer.skipped = f"a turn was not stored: {refused}"

    async def _after_tool(self, request: Request, answer: HookAnswer) -> None:
        """Store the call of a tool as a step of the run that has the name of the session. Its arguments and result are
        nobody's statement: its trust is a tool's."""
        asked: HookRequest = request.ask
        run, policy = _session_of(asked), self._services.secret_policy()
        if not (asked.tool or "").strip():
            raise bad_value("a hook after the call of a tool needs the name of the tool", "tool")

        def mask(text: str) -> str:
            return text if policy.mask == "off" else mask_secrets(text, policy.key)[0]

        step = await self._workers.run(step_of_call, asked, asked.agent_id or request.agent, mask)
        grant = request.grant._replace(trust=lowest_trust(request.grant.trust, "tool"))
        of_run = dataclasses.replace(request, path={"run": run}, ask=step, grant=grant)
        stored: RememberAnswer = (await self._runs.add_step(of_run, STEP_IMPORTANCE)).value
        answer.memories = [stored.memory.id]

    def _start_session(self, request: Request, answer: HookAnswer) -> None:
        asked: HookRequest = request.ask
        query = ResumeQuery(user_id=asked.user_id, session_id=asked.session_id)
        resume = self._context.resume_answer(request, query)
        sections = (resume.core, resume.profile, resume.recent, resume.others)
        answer.memories = [memory_id for each in sections if each is not None for memory_id in each.memories]
        if answer.memories or resume.topics or resume.triggers:  # headings alone are not worth a session's tokens
            answer.context = resume.text


def _session_of(asked: HookRequest) -> str:
    session_id = request_codec.clean_text(asked.session_id or "", "session_id")
    if not session_id:
        raise bad_value("this hook needs the session", "session_id")
    return session_id
