"""The commands for agents: what one reads at the start of a session, and before a risky step; the hooks."""

import json
from typing import Any

from mnemo_client.cli.arguments import save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import listed_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, MnemoError


def resume(context: CommandContext) -> int:
    """Print what an agent is to know at the start of a session."""
    options = context.options
    answer = context.reading_client().resume(tag=options.tag or None, session_id=options.session)
    if not context.print_json_if_asked():
        context.print(sanitize(answer.text, lines=True))
    return EXIT_DONE


def triggers(context: CommandContext) -> int:
    """List the memories to be read before an action, by weight."""
    options = context.options
    action = options.action.removeprefix("trigger:")  # the whole tag is understood, too
    answer = context.reading_client().triggers(action, limit=options.top)
    save_hit_numbers(context, answer.memories, 1)
    if not context.print_json_if_asked():
        if answer.memories:
            context.page(listed_lines(answer.memories, context.style, context.cwd, context.home))
        else:
            context.message(f"no memory in namespace {answer.namespace} is tagged trigger:{answer.action}")
    return EXIT_DONE if answer.memories else EXIT_NOT_FOUND


HOOK_SECONDS_MAX = 10.0  # that an agent waits for a hook
_HOOK_FIELDS = ("session_id", "prompt", "reply")


def hook(context: CommandContext) -> int:
    """Run a hook with the input on standard input, and print the context to inject.

    It fails open: an agent goes on without its memory, and a person finds the reason on standard error.
    """
    from mnemo_client import process
    from mnemo_client.client import Client
    from mnemo_client.paths import socket_path

    try:
        fields = _hook_fields(context)
        process.ensure_running(context.environ, context.terminal.message)
        place, name, agent = socket_path(context.environ), context.namespace.name, context.options.agent
        with Client(place, name, entry_point="hook", agent=agent, timeout=HOOK_SECONDS_MAX) as client:
            answer = client.hook(context.options.event, **fields)
            body = client.last_body.decode()
    except MnemoError as failed:
        context.message(f"the hook did nothing: {failed}")
        return EXIT_DONE
    if context.wants_json:
        context.print(body.rstrip("\n"))
    elif answer.context:
        context.print(sanitize(answer.context, lines=True))
    if answer.skipped:
        context.message(answer.skipped)
    return EXIT_DONE


def _hook_fields(context: CommandContext) -> dict[str, Any]:
    """Return the fields of the request: of a JSON object its own, of any other text the text."""
    event = context.options.event
    text = context.standard_input()
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        fields = {name: given[name] for name in _HOOK_FIELDS if isinstance(given.get(name), str)}
    else:
        fields = {event: text} if event in _HOOK_FIELDS and text.strip() else {}
    if context.options.session is not None:
        fields.setdefault("session_id", context.options.session)
    return fields
