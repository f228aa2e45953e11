"""The commands of sessions: the conversations, the steps of an agent's run, and what an agent reads at the start of a
session or before a risky step."""

from mnemo_client.cli.arguments import request_fields, save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import listed_lines, remember_line, session_lines, step_lines, turn_lines
from mnemo_client.cli.format.traces import session_trace_lines
from mnemo_client.cli.format.units import plural
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.sessions import NewStep

STEPS_MAX = 500  # in one answer of the daemon
ACTION_CHARS_MAX = 1000  # of NewStep
AGENT = "cli"  # whose step it is unless somebody is named: a step is an agent's, and no statement of the person


def sessions(context: CommandContext) -> int:
    """List the conversations; show the turns of one, with `--end` end it first, with `--explain` show what a message
    would recall in it."""
    name, query = context.options.session, context.options.explain
    if name is not None and query is not None:
        trace = context.client().explain_session(name, query)
        if not context.print_json_if_asked():
            context.page(list(session_trace_lines(trace, context.style)))
        return EXIT_DONE if any(each.dropped is None for each in trace.items) else EXIT_NOT_FOUND
    if name is not None:
        client = context.client()
        filed = client.end_session(name).filed if context.options.end else None
        session = client.session(name, limit=context.options.top)
        turns = session.turns[::-1]  # as they were said
        save_hit_numbers(context, turns, 1)
        if context.print_json_if_asked():
            return EXIT_DONE
        context.page(turn_lines(session, turns, context.style))
        if session.cursor is not None:
            context.message(f"these are the latest {len(session.turns)} turns; there are more")
        if filed is not None:
            context.message(f"session {sanitize(name)} has ended: {plural(filed, 'pair')} filed")
        return EXIT_DONE
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


def runs(context: CommandContext) -> int:
    """Show the steps of a run in order, and its summary; with `--summarize`, make that first."""
    run = context.options.run
    client = context.client()
    reason = client.summarize_run(run).reason if context.options.summarize else None
    answer = client.steps(run, limit=context.options.top or STEPS_MAX)
    save_hit_numbers(context, answer.steps, 1)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.steps else EXIT_NOT_FOUND
    if not answer.steps:
        context.message(f"there is no step of a run {sanitize(run)!r} in namespace {answer.namespace}")
        return EXIT_NOT_FOUND
    context.page(step_lines(answer.steps, answer.summary, context.style))
    if answer.cursor is not None:
        context.message(f"these are the first {len(answer.steps)} steps; there are more")
    if reason:
        context.message(f"summarized by rule, not by a language model: {sanitize(reason)}")
    return EXIT_DONE


def step(context: CommandContext) -> None:
    options = context.options
    text = context.text(options.text, "record").strip()
    if len(text) > ACTION_CHARS_MAX:
        raise UsageError(
            f"the action of a step has at most {ACTION_CHARS_MAX} characters; this text has {len(text)}",
            "give the result with --outcome and the findings with --findings",
        )
    new = NewStep(action=text, **{"agent_id": AGENT, **request_fields(options, NewStep)})
    answer = context.client().add_step(options.run, new)
    if not context.print_json_if_asked() and answer.memory.trace is not None:
        number = answer.memory.trace.step_number
        context.print(f"step {number} of {sanitize(options.run)}: {remember_line(answer, context.style)}")


def resume(context: CommandContext) -> None:
    options = context.options
    answer = context.reading_client().resume(tag=options.tag, session_id=options.session, task=options.task)
    if not context.print_json_if_asked():
        context.print(sanitize(answer.text, lines=True))
    if answer.degraded:
        context.message("there is no embedding model, so the task does not order the resume: mnemo models list")


def triggers(context: CommandContext) -> int:
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
