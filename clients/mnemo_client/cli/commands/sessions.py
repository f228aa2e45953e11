"""The command that shows conversations and ends them: sessions."""

from mnemo_client.cli.arguments import save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import session_lines, turn_lines
from mnemo_client.cli.format.traces import session_trace_lines
from mnemo_client.cli.format.units import plural
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError


def sessions(context: CommandContext) -> int:
    """List the conversations; show the turns of one, and with `--end` end it first."""
    name, query = context.options.session, context.options.explain
    if name is not None and query is not None:
        return _explained(context, name, query)
    if name is not None:
        return _one(context, name)
    if context.options.end or query is not None:
        verb, option = ("end", "--end") if query is None else ("explain", "--explain TEXT")
        raise UsageError(f"there is no session to {verb}", f"name it: mnemo sessions NAME {option}")
    answer = context.reading_client().list_sessions(limit=context.options.top)
    if not context.print_json_if_asked():
        context.page(session_lines(answer.sessions, context.style))
        if answer.cursor is not None:
            context.message(f"these are the latest {len(answer.sessions)} sessions; there are more")
        elif not answer.sessions:
            context.message("there is no session")
    return EXIT_DONE if answer.sessions else EXIT_NOT_FOUND


def _one(context: CommandContext, name: str) -> int:
    client = context.client()
    filed = client.end_session(name).filed if context.options.end else None
    answer = client.session(name, limit=context.options.top)
    turns = answer.turns[::-1]  # as they were said
    save_hit_numbers(context, turns, 1)
    if context.print_json_if_asked():
        return EXIT_DONE
    context.page(turn_lines(answer, turns, context.style))
    if answer.cursor is not None:
        context.message(f"these are the latest {len(answer.turns)} turns; there are more")
    if filed is not None:
        context.message(f"session {sanitize(name)} has ended: {plural(filed, 'pair')} filed")
    return EXIT_DONE


def _explained(context: CommandContext, name: str, query: str) -> int:
    """Show what a message would recall in a session."""
    trace = context.client().explain_session(name, query)
    if not context.print_json_if_asked():
        context.page(list(session_trace_lines(trace, context.style)))
    return EXIT_DONE if any(each.dropped is None for each in trace.items) else EXIT_NOT_FOUND
