"""`mnemo hook`: handles an event of an agent within a time limit, and never fails. SPEC 11

`prompt` and `session-start` print the context to inject; `stop`, `tool` and `session-end` put the exchange or call into
the inbox and leave the delivery to a background process; `reply` waits until the daemon has stored the turn.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnemo_client import namespace, process
from mnemo_client.cli.agent_hooks.agent_event import OWN_TOOLS, AgentEvent, read_event, read_input
from mnemo_client.cli.agent_hooks.delivery import ask_hook, decode_answer, inbox_of, start_delivery
from mnemo_client.cli.agent_hooks.inbox import STEP_SHARE, JsonObject
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import MnemoError, UnreachableError, UsageError
from mnemo_client.paths import socket_path
from mnemo_client.protocol.choices import AgentHook

# Milliseconds that an agent waits for each, from the start of the process.
BUDGET_MS: dict[AgentHook, int] = {
    "prompt": 300,
    "stop": 300,
    "tool": 300,
    "session-start": 2000,
    "session-end": 300,
    "reply": 10_000,
}
INPUT_SECONDS_MIN = 0.05  # to read standard input, however late the process was started
EXIT_SECONDS = 0.02  # of the time limit, for the end of the process
START_POLL_SECONDS = 0.02
DELIVERED: tuple[AgentHook, ...] = ("tool", "session-end")  # as they are; the others by `reply`
EVENT_NAMES = {"prompt": "UserPromptSubmit", "session-start": "SessionStart"}  # of Claude Code and Codex
WAITING_SECONDS = 60.0  # after which an exchange that is not delivered is reported


def hook(context: CommandContext) -> None:
    """Run a hook with the input on standard input, and print the context to inject.

    It fails open: an agent goes on without its memory, and a person finds the reason in one line on standard error.
    """
    try:
        AgentHookRun(context).run()
    except MnemoError as failed:
        reason = "; ".join(filter(None, (failed.message, failed.hint)))
        context.message(f"the hook did nothing: {sanitize(' '.join(reason.split()))}")
    except TimeoutError as late:
        context.message(f"the hook did nothing within its {_budget_ms(context)} ms: {late}")
    except OSError as failed:
        context.message(f"the hook did nothing: {sanitize(failed.strerror or str(failed))}")
    except Exception as bug:  # noqa: BLE001 - an agent whose hook fails may refuse the prompt
        context.message(f"the hook did nothing: a bug in it: {type(bug).__name__}: {sanitize(str(bug))}")


def _budget_ms(context: CommandContext) -> int:
    given = context.options.budget_ms
    return BUDGET_MS[context.options.event] if given is None else max(0, int(given))


class AgentHookRun:
    """One run of a hook: its event, and the time until which the agent waits."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._environ = context.environ
        self._deadline = context.began + _budget_ms(context) / 1000 - EXIT_SECONDS
        self._name: AgentHook = context.options.event
        self._agent = "".join(filter(str.isprintable, context.options.agent or "")).strip() or None
        self._inbox = inbox_of(context.environ)

    def run(self) -> None:
        text = read_input(self._context.stdin, max(self._deadline, time.monotonic() + INPUT_SECONDS_MIN))
        event = read_event(self._name, text, self._context.options.session)
        folder = event.folder or self._context.cwd  # of the agent, which need not be that of this process
        fields = {"namespace": namespace.choose_namespace(self._context.options.namespace, folder, self._environ).name}
        if event.session_id:
            fields["session_id"] = event.session_id
        steps: dict[AgentHook, Callable[[AgentEvent, JsonObject], None]] = {
            "prompt": self._before_prompt,
            "session-start": self._start_session,
            "reply": self._store_reply,
            "stop": self._after_reply,
            "tool": self._after_tool,
            "session-end": self._end_session,
        }
        steps[self._name](event, fields)

    # Hooks that print

    def _before_prompt(self, event: AgentEvent, fields: JsonObject) -> None:
        if not event.prompt.strip():
            raise UsageError(
                "standard input has no prompt", 'give it as {"prompt": "…", "session_id": "…"}, or as text'
            )
        if self._context.options.keep and event.session_id:
            self._inbox.keep_prompt(event.session_id, self._entry(fields, prompt=event.prompt))
        asked = {**fields, "prompt": event.prompt}
        try:
            body = ask_hook(self._socket, "prompt", asked, self._agent, self._left())
        except UnreachableError as absent:
            if self._start_daemon():
                raise UnreachableError("no daemon ran; it is being started") from absent
            raise
        self._print(body, event)
        self._deliver_leftovers()

    def _start_session(self, event: AgentEvent, fields: JsonObject) -> None:
        """Print the resume. A daemon that does not run is started, and asked if it answers in time."""
        is_started = False
        while True:
            try:
                body = ask_hook(self._socket, "session-start", fields, self._agent, self._left())
            except UnreachableError:
                is_started = is_started or self._start_daemon()
                if not is_started or self._left() < START_POLL_SECONDS:
                    raise
                time.sleep(START_POLL_SECONDS)
            else:
                self._print(body, event)
                self._deliver_leftovers()
                return

    def _print(self, body: bytes, event: AgentEvent) -> None:
        answer = decode_answer(body)
        context, text = self._context, sanitize(answer.get("context", ""), lines=True)
        if context.wants_json:
            context.print_json(body.decode())
        elif context.options.format == "json":
            if text:
                name = event.agent_event or EVENT_NAMES[self._name]
                context.print_value({"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}})
        elif text:
            context.print(text)
        if isinstance(skipped := answer.get("skipped"), str):
            context.message(sanitize(skipped))

    # Hooks that store

    def _store_reply(self, event: AgentEvent, fields: JsonObject) -> None:
        process.ensure_running(self._environ, self._context.message)
        if event.session_id:
            self._inbox.take_prompt(event.session_id)  # it comes with the reply
        said = {name: text for name, text in (("prompt", event.prompt), ("reply", event.reply)) if text}
        self._print(ask_hook(self._socket, "reply", {**fields, **said}, self._agent, self._left()), event)

    def _after_reply(self, event: AgentEvent, fields: JsonObject) -> None:
        """Put the exchange into the inbox: the prompt that was kept, or that of the JSON, and the reply."""
        self._require_session(event)
        kept = self._inbox.take_prompt(event.session_id)
        prompt = event.prompt or (kept or {}).get("prompt", "")
        said = {name: text for name, text in (("prompt", prompt), ("reply", event.reply)) if text}
        if said:
            at = (kept or {}).get("at", _now_ms())
            self._inbox.add({**self._entry(fields, **said), "at": at})
        self._deliver_inbox()

    def _after_tool(self, event: AgentEvent, fields: JsonObject) -> None:
        """Put the call of a tool into the inbox, unless the tool is ours."""
        self._require_session(event)
        call = event.call
        if call is None:
            raise UsageError("standard input names no tool", 'give it as {"session_id": "…", "tool_name": "…"}')
        if not call.name.startswith(OWN_TOOLS):
            fields_of_call = {
                "tool": call.name,
                "arguments": call.arguments,
                "result": call.result,
                "failed": call.failed,
            }
            self._inbox.add(self._entry(fields, **fields_of_call), STEP_SHARE)
            self._deliver_inbox()

    def _end_session(self, event: AgentEvent, fields: JsonObject) -> None:
        self._require_session(event)
        self._inbox.file_pending(event.session_id)
        entry = self._entry(fields)
        del entry["at"]
        self._inbox.add(entry)
        self._deliver_inbox()

    def _require_session(self, event: AgentEvent) -> None:
        if not event.session_id:
            raise UsageError("standard input names no session", 'give it as {"session_id": "…"}, or with --session')

    def _entry(self, fields: JsonObject, **said: Any) -> JsonObject:
        name = self._name if self._name in DELIVERED else "reply"
        return {"event": name, "agent": self._agent, "at": _now_ms(), **fields, **said}

    # The daemon

    @property
    def _socket(self) -> Path:
        return socket_path(self._environ)

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _start_daemon(self) -> bool:
        """Start the daemon in the background, unless the user does not want that; return True if it is started."""
        wanted = process.starts_by_itself(self._environ)
        if wanted:
            start_delivery(self._environ)
        return wanted

    def _deliver_leftovers(self) -> None:
        """Try again to deliver what an earlier hook could not."""
        if self._inbox.entries():
            self._deliver_inbox()

    def _deliver_inbox(self) -> None:
        start_delivery(self._environ)
        context, inbox = self._context, self._inbox
        if (seconds := inbox.seconds_waiting()) > WAITING_SECONDS:
            count, minutes = len(inbox.entries()), seconds / 60
            context.message(f"exchanges that wait for the daemon: {count}, for {minutes:.0f} min; see: mnemo doctor")
        if refused := inbox.refused():
            context.message(f"exchanges that the daemon refused: {len(refused)}, in {inbox.folder}/*.refused")


def _now_ms() -> int:
    return int(time.time() * 1000)
