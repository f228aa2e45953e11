"""The commands of knowledge: facts, the graph of topic nodes, profiles, and compress, which makes them."""

from typing import Any

from mnemo_client.cli.arguments import memory_id_argument, request_fields, time_argument
from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.format.knowledge import (
    chain_lines,
    compression_lines,
    conflict_lines,
    fact_lines,
    profile_lines,
    project_lines,
)
from mnemo_client.cli.format.records import graph_lines
from mnemo_client.cli.format.units import plural, short_id
from mnemo_client.cli.operation_progress import shown_progress
from mnemo_client.cli.terminal import sanitize
from mnemo_client.client import Client
from mnemo_client.errors import EXIT_DONE, EXIT_NOT_FOUND, UsageError
from mnemo_client.protocol.profiles import CompressRequest

FACTS_SHOWN = 100  # where no number is asked for
NODES_SHOWN = 20


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
        context.client().delete_fact(options.rm)
        if not context.print_json_if_asked():
            context.message("removed; the memory that states it stays")
        return EXIT_DONE
    client = context.reading_client()
    lines, note = _fact_lines(context, client, entity, chosen[0] if chosen else "")
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


def _fact_lines(context: CommandContext, client: Client, entity: str, question: str) -> tuple[list[str], str]:
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


def graph(context: CommandContext) -> int:
    """Show the largest topic nodes and the heaviest edges between them; merge or group nodes first if asked to."""
    options, client = context.options, context.client()
    done = []
    if options.dedupe:
        done.append(f"{plural(client.dedupe_topic_graph().merged, 'node was', 'nodes were')} merged into another one")
    if options.abstract:
        done.append(f"grouped related nodes: {plural(len(client.abstract_topic_graph().groups), 'group')}")
    answer = client.topic_graph(limit=options.top or NODES_SHOWN)
    if context.print_json_if_asked():
        return EXIT_DONE if answer.nodes else EXIT_NOT_FOUND
    for line in done:
        context.message(line)
    if not answer.nodes:
        context.message("there are no topic nodes: they are made in the background of conversations that have ended")
        return EXIT_NOT_FOUND
    context.page(graph_lines(answer, context.style))
    if answer.cursor is not None:
        context.message(f"these are {len(answer.nodes)} of {answer.total} nodes")
    return EXIT_DONE


def profile(context: CommandContext) -> int:
    client, name = context.reading_client(), context.options.project
    if name is not None:
        project = client.project(name)
        lines = project_lines(project, context.style)
    else:
        user = client.profile()
        lines = profile_lines(user, context.style)
    if context.print_json_if_asked():
        return EXIT_DONE if lines else EXIT_NOT_FOUND
    if not lines:
        context.message("the profile is empty: mnemo add TEXT, or mnemo profile add TEXT")
        return EXIT_NOT_FOUND
    context.page(lines)
    return EXIT_DONE


def profile_add(context: CommandContext) -> None:
    options = context.options
    text, client = context.text(options.text, "write"), context.client()
    evidence = [memory_id_argument(context, each) for each in options.evidence]
    bucket = "next_steps" if options.project else "stable_facts"
    if not evidence:
        memory = client.remember(text).memory
        evidence = [memory.id]
        if memory.category == "preference" and not options.project:
            bucket = "preferences"
    bucket = options.list or bucket
    fields: dict[str, Any] = {bucket: [{"text": text, "evidence_ids": evidence}]}
    answer = client.update_profile(project=options.project, **fields)
    if not context.print_json_if_asked():
        place = f"{bucket} of {sanitize(options.project)}" if options.project else bucket
        context.print(f"{context.style.good('written')} to {place}: {short_id(answer.ids[0])}")


def profile_rm(context: CommandContext) -> None:
    ids = [memory_id_argument(context, each) for each in context.options.id]
    answer = context.client().update_profile(remove=ids)
    if not context.print_json_if_asked():
        context.message(f"{plural(len(answer.removed), 'entry', 'entries')} moved to the trash; the evidence stays")


def compress(context: CommandContext) -> None:
    client = context.client()
    with shown_progress(context, "compress"):
        answer = client.compress(**request_fields(context.options, CompressRequest))
    if context.print_json_if_asked():
        return
    context.page(compression_lines(answer, context.style))
    if answer.group is not None and (answer.sessions or answer.compressed):
        context.message(f"take it back with: mnemo undo --group {answer.group}")
