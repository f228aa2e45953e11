"""The command that shows what an agent did in a run: runs."""

from mnemo_client.cli.arguments import save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import step_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND

STEPS_MAX = 500  # in one answer of the daemon


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
