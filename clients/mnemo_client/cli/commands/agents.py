"""The commands for agents: what one reads at the start of a session, and before a risky step."""

from mnemo_client.cli.arguments import save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import listed_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND


def resume(context: CommandContext) -> int:
    """Print what an agent is to know at the start of a session."""
    options = context.options
    answer = context.reading_client().resume(tag=options.tag or None, session_id=options.session, task=options.task)
    if not context.print_json_if_asked():
        context.print(sanitize(answer.text, lines=True))
    if answer.degraded:
        context.message("there is no embedding model, so the task does not order the resume: mnemo models list")
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
