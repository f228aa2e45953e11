"""The commands of the lifecycle: consolidate."""

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.lifecycle import consolidate_lines, cycle_lines
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError

HISTORY_SHOWN = 10


def consolidate(context: CommandContext) -> int:
    """Run a cycle of consolidation, say what one would do, or list the cycles so far."""
    options, client = context.options, context.client()
    if options.history:
        if options.dry_run or options.merge:
            raise UsageError("--history lists the cycles so far, and runs none", "leave out the other options")
        answer = client.cycles(limit=options.top or HISTORY_SHOWN)
        if not context.print_json_if_asked():
            context.page(list(cycle_lines(answer.cycles, context.style)))
            if not answer.cycles:
                context.message("there was no cycle yet")
        return EXIT_DONE if answer.cycles else EXIT_NOT_FOUND
    done = client.consolidate(dry_run=options.dry_run, merge=options.merge or None)
    if not context.print_json_if_asked():
        context.page(list(consolidate_lines(done, context.style)))
        if not options.dry_run and done.total:
            context.message("take the cycle back with: mnemo undo --cycle")
    return EXIT_DONE
