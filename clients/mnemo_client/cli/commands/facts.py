"""The command that shows the graph of facts: facts."""

from mnemo_client.cli.arguments import time_argument
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.facts import chain_lines, conflict_lines, fact_lines
from mnemo_client.cli.terminal import sanitize
from mnemo_client.client import Client
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError

FACTS_SHOWN = 100  # where no number is asked for


def facts(context: CommandContext) -> int:
    """Show the facts that name an entity, or all; with `--graph` the chains from it, with `--history` those that have
    ended too, with `--conflicts` those that contradict each other."""
    options = context.options
    chosen = [name for name in ("graph", "history", "conflicts", "rm") if getattr(options, name)]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two questions: ask one at a time")
    entity = " ".join(options.entity)
    if not entity and chosen in (["graph"], ["history"]):
        raise UsageError(f"--{chosen[0]} takes a name: mnemo facts NAME --{chosen[0]}")
    if options.rm:
        return _remove(context)
    client = context.reading_client()
    lines, note = _answered(context, client, entity, chosen[0] if chosen else "")
    if context.print_json_if_asked():
        return EXIT_DONE if lines else EXIT_NOT_FOUND
    if not lines:
        about = f"about {sanitize(entity)!r} " if entity else ""
        what = "there is no conflict" if options.conflicts else "no fact is known"
        context.message(f"{what} {about}in namespace {sanitize(context.namespace.name)}")
        return EXIT_NOT_FOUND
    context.page(lines)
    if note:
        context.message(note)
    return EXIT_DONE


def _answered(context: CommandContext, client: Client, entity: str, question: str) -> tuple[list[str], str]:
    """The lines of an answer, and its closing remark."""
    options, style = context.options, context.style
    if question == "graph":
        found = client.fact_graph(entity, options.hops)
        return chain_lines(found.chains, style), "" if found.is_whole else "there are more chains"
    if question == "history":
        return fact_lines(client.fact_history(entity).history, style), ""
    if question == "conflicts":
        return conflict_lines(client.fact_conflicts(entity).conflicts, style), ""
    answer = client.facts(
        entity, as_of=time_argument(options.as_of), include_superseded=options.all, limit=options.top or FACTS_SHOWN
    )
    shown = len(answer.facts)
    more = f"these are the latest {shown} of {answer.count} facts; show more with --top" if answer.cursor else ""
    return fact_lines(answer.facts, style), more


def _remove(context: CommandContext) -> int:
    context.client().delete_fact(context.options.rm)
    if not context.print_json_if_asked():
        context.message("removed; the memory that states it stays")
    return EXIT_DONE
