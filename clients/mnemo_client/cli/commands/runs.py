"""The commands of what an agent did in a run: runs shows it, step records one thing more."""

from mnemo_client.cli.arguments import save_hit_numbers
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.records import remember_line, step_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.sessions import NewStep

STEPS_MAX = 500  # in one answer of the daemon
ACTION_CHARS_MAX = 1000  # of NewStep
AGENT = "cli"  # whose step it is unless somebody is named: a step is an agent's, and no statement of the person


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


def step(context: CommandContext) -> int:
    """Record a step of a run, behind the others or under its number, and say what was stored."""
    options = context.options
    text = context.text(options.text, "record").strip()
    if len(text) > ACTION_CHARS_MAX:
        raise UsageError(
            f"the action of a step has at most {ACTION_CHARS_MAX} characters; this text has {len(text)}",
            "give the result with --outcome and the findings with --findings",
        )
    new = NewStep(
        action=text, step_number=options.number, outcome=options.outcome or "", key_findings=options.findings or "",
        agent_id=options.agent or AGENT,
    )  # fmt: skip
    answer = context.client().add_step(options.run, new)
    if not context.print_json_if_asked() and answer.memory.trace is not None:
        number = answer.memory.trace.step_number
        context.print(f"step {number} of {sanitize(options.run)}: {remember_line(answer, context.style)}")
    return EXIT_DONE
